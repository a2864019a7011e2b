//! `tilewright draw`: pictures of layouts, and of the partition of a kernel's tiles over threads.

use clap::{Arg, ArgMatches, Command};
use std::process::ExitCode;
use tilewright_codegen::Generate;
use tilewright_codegen::source::spelling::did_you_mean;
use tilewright_layout::draw::Picture;

use crate::kernel::{self, Part};
use crate::layout;
use crate::output::{Failure, Result, finish, option, pointed, print, save, text, texts};

const EXAMPLES: &str = "\
Examples:
  tilewright draw '(8,8):(8,1)'
  tilewright draw 'Sw<3,0,3> o 0 o (8,8):(8,1)' --svg swizzled.svg
  tilewright draw 'tiled_copy((4,8):(8,1), (2,1))'
  tilewright draw tutorial BM=32 BN=32
  tilewright draw matmul bm=64 bn=64 'tc=(8,8)' --part ta_sa --svg copy.svg";

pub(crate) fn command() -> Command {
    Command::new("draw")
        .about("Draw layouts, and how a kernel's tiles are partitioned over threads")
        .arg(
            Arg::new("what")
                .value_name("LAYOUT|KERNEL")
                .help("An expression as `tilewright layout` takes it, or a kernel's name")
                .required(true),
        )
        .arg(
            Arg::new("keys")
                .value_name("KEY=VALUE")
                .help("For a kernel: keys as in matmul_kernel!, or constants and element types")
                .num_args(0..),
        )
        .arg(option("part", "NAME", "Only this tensor or partition of the kernel"))
        .arg(option("svg", "FILE", "Draw into an SVG file instead (`-`: standard output)"))
        .after_help(format!("{}\n\n{}", kernel::examples(EXAMPLES), kernel::help()))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    finish(draw(matches))
}

fn draw(matches: &ArgMatches) -> Result {
    let (what, keys) = (text(matches, "what").unwrap_or_default(), texts(matches, "keys"));
    let (svg, part) = (text(matches, "svg"), text(matches, "part"));
    // A single word is a kernel's name; a layout has digits and signs.
    let word = what.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && what.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !word {
        if let Some(key) = keys.first() {
            return Err(Failure::Refused(format!(
                "a layout takes no keys, and `{key}` is one\nhelp: write the expression in quotes"
            )));
        }
        return deliver(svg, &[layout::drawn(what).map_err(Failure::Refused)?]);
    }
    let chosen = kernel::choose(what, &keys.join(" "))?;
    let program = chosen.definition.program().map_err(|_| Failure::of("the kernel has no tile program"))?;
    let mut parts = kernel::parts(&program);
    match part {
        Some(name) => parts = vec![named(parts, name)?],
        None => parts.retain(|part| part.picture.is_ok()),
    }
    if svg.is_some() && parts.len() > 1 {
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        return Err(Failure::Refused(format!(
            "an SVG file holds one picture, and the kernel has {}\nhelp: add --part with one of {}",
            parts.len(),
            names.join(", ")
        )));
    }
    let pictures: Result<Vec<Picture>> = parts
        .into_iter()
        .map(|part| {
            let undrawn = |why| format!("`{}` is not drawn: {why}", part.name);
            part.picture.map_err(|why| Failure::Refused(undrawn(why)))
        })
        .collect();
    deliver(svg, &pictures?)
}

fn named(parts: Vec<Part>, name: &str) -> Result<Part> {
    let names: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
    parts.into_iter().find(|part| part.name == name).ok_or_else(|| {
        let near = did_you_mean(name, names.iter().map(String::as_str));
        let help = near.unwrap_or_else(|| format!("the kernel has {}", names.join(", ")));
        pointed(&format!("there is no tensor or partition `{name}`"), "--part ", [name; 2], &help)
    })
}

fn deliver(svg: Option<&str>, pictures: &[Picture]) -> Result {
    match (svg, pictures) {
        (Some(file), [picture]) => save(file, &picture.svg()),
        _ => print(&pictures.iter().map(Picture::table).collect::<Vec<_>>().join("\n")),
    }
}
