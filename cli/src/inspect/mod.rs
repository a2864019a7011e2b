//! `tilewright inspect`: static information about a kernel.

mod compiled;
mod json;

use clap::{ArgMatches, Command};
use std::process::ExitCode;
use tilewright_codegen::Generate;
use tilewright_codegen::ast;
use tilewright_codegen::definition::Variant;
use tilewright_codegen::report::Report;

use crate::kernel::{self, Chosen, Part};
use crate::output::{self, Failure, Result, finish, flag, option, pointed, print, text};
#[cfg(feature = "shipped")]
pub(crate) use compiled::{NO_DISASSEMBLER, disassembler};
pub(crate) use json::{access, part, report};

const EXAMPLES: &str = "\
Examples:
  tilewright inspect tutorial
  tilewright inspect tutorial BM=64 BN=64 --report
  tilewright inspect matmul bm=64 bn=64 'tc=(8,8)' --explain
  tilewright inspect matmul 'epilogue=|x| max(x, 0.0)' --variant all
  tilewright inspect matmul dtype=bf16 epilogue=gelu --kernel
  tilewright inspect softmax --layouts
  tilewright inspect tutorial --sass --arch sm_90a";

pub(crate) fn command() -> Command {
    Command::new("inspect")
        .about("Show a kernel's source, report, layouts, loops and machine code")
        .args(kernel::args())
        .arg(flag("source", "The CUDA C; the default"))
        .arg(flag("function", "The kernel as a function in Rust, to copy and change").long("kernel"))
        .arg(flag("report", "Threads, shared memory, what every access costs; with --arch also registers and how much of its inner loop multiplies and adds"))
        .arg(flag("layouts", "Each tensor and partition with its layout and a picture"))
        .arg(flag(
            "explain",
            "The loop nest: what the grid, the threads of a block and each thread run through",
        ))
        .arg(flag("tile", "The tile program, before checks and lowering"))
        .arg(flag("thread", "The thread program, from which the CUDA C is printed"))
        .arg(flag("ptx", "The PTX of the source, from NVRTC"))
        .arg(flag("sass", "The machine code, from ptxas, disassembled by nvdisasm"))
        .arg(option("variant", "N|all", "Which variant; 1 is the fastest, the last takes any size [default: 1]"))
        .arg(option("arch", "ARCH", "The architecture to compile for [default: the oldest that the kernel runs on]"))
        .arg(
            flag("json", "All of it, for a program to read")
                .conflicts_with_all(["function", "source", "report", "layouts", "explain", "tile", "thread", "ptx", "sass", "variant"]),
        )
        .after_help(format!("{}\n\n{}\n\n{}", kernel::examples(EXAMPLES), kernel::help(), kernel::keys()))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(kernel::chosen(matches).and_then(|chosen| show(matches, &chosen)))
}

fn show(matches: &ArgMatches, chosen: &Chosen) -> Result {
    let parts = || match chosen.definition.program() {
        Ok(program) => kernel::parts(&program),
        Err(_) => Vec::new(), // unreachable: it was generated from its program
    };
    if matches.get_flag("json") {
        return output::json(&json::kernel(chosen, &parts()));
    }
    let arch = text(matches, "arch");
    let variants = picked(matches, &chosen.generated.variants)?;
    let mut sections = Vec::new();
    if matches.get_flag("function") {
        let function = function(chosen)?;
        sections.push(format!("use tilewright::prelude::*;\n\n{function}"));
    }
    if matches.get_flag("layouts") {
        sections.push(layouts(&parts()));
    }
    let wanted = |name| matches.get_flag(name);
    if wanted("tile")
        && let Ok(program) = chosen.definition.program()
    {
        sections.push(tilewright_codegen::text::print(&program));
    }
    let others = ["function", "report", "layouts", "explain", "tile", "thread", "ptx", "sass"];
    for (number, variant) in &variants {
        let heading = match variants.len() {
            1 => String::new(),
            _ => format!("// variant {number} of {}\n", chosen.generated.variants.len()),
        };
        let mut push = |text: String| sections.push(heading.clone() + &text);
        if wanted("report") {
            push(completed(chosen, number - 1, arch)?.to_string());
        }
        if wanted("explain") {
            push(tilewright_codegen::explain::nest(&variant.program));
        }
        if wanted("source") || !others.iter().any(|name| wanted(name)) {
            push(variant.source.clone());
        }
        if wanted("thread") {
            push(tilewright_codegen::text::print(&variant.program));
        }
        if wanted("ptx") {
            push(compiled::ptx(variant, arch)?);
        }
        if wanted("sass") {
            push(compiled::sass(variant, arch)?);
        }
    }
    print(&sections.join("\n"))
}

/// The kernel as a function of the language.
pub(crate) fn function(chosen: &Chosen) -> Result<ast::Kernel> {
    chosen.definition.function().ok_or_else(|| {
        Failure::Refused(format!(
            "`{}` is not a function of the language with these keys\nhelp: products on tensor cores and products with given tiles are: dtype=bf16, or bm=128 bn=128",
            chosen.name
        ))
    })
}

/// The variants that `--variant` names, with their numbers.
fn picked<'v>(matches: &ArgMatches, all: &'v [Variant]) -> Result<Vec<(usize, &'v Variant)>> {
    let numbered = || all.iter().enumerate().map(|(index, variant)| (index + 1, variant));
    let variant = text(matches, "variant").unwrap_or("1");
    if variant == "all" {
        return Ok(numbered().collect());
    }
    let result = variant.parse().ok().and_then(|number: usize| numbered().nth(number.checked_sub(1)?));
    result.map(|one| vec![one]).ok_or_else(|| {
        let count = match all.len() {
            1 => "the kernel has one variant".to_owned(),
            n => format!("the kernel has {n} variants"),
        };
        let help = format!("{count}; write a number from 1 to {}, or all", all.len());
        pointed(&format!("there is no variant `{variant}`"), "--variant ", [variant; 2], &help)
    })
}

/// The report of a variant; with an architecture, also the compiler's figures.
fn completed(chosen: &Chosen, variant: usize, arch: Option<&str>) -> Result<Report> {
    match arch {
        None => Ok(tilewright_codegen::report_of(&chosen.generated, variant)),
        Some(arch) => {
            let (nvrtc, kernel) = (compiled::nvrtc()?, &chosen.generated);
            tilewright_runtime::report::compiled_variant(&nvrtc, kernel, variant, &[arch])
                .map_err(Failure::of)
        }
    }
}

fn layouts(parts: &[Part]) -> String {
    let one = |part: &Part| {
        let Part { name, what, layout, picture, .. } = part;
        match picture {
            Ok(picture) => format!("{name}: {what}\n{}", picture.table()),
            Err(why) => format!("{name}: {what}\n{layout}\nnot drawn: {why}\n"),
        }
    };
    parts.iter().map(one).collect::<Vec<_>>().join("\n")
}
