//! Kernels on the command line: the name of a listed one, and its keys.

mod parts;
pub(crate) mod written;

use clap::{Arg, ArgMatches};
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::launch::Limits;
use tilewright_codegen::source::spelling::did_you_mean;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_codegen::{Definition, Generated, matmul};

use crate::output::{Failure, Result, pointed, text, texts};
use crate::own;
pub(crate) use parts::{Part, parts};
use written::Written;

/// A kernel that the command line names.
pub(crate) struct Chosen {
    /// Its name in the list.
    pub(crate) name: &'static str,
    /// Its carrier in a compiled program.
    pub(crate) def: KernelDef,
    /// Its definition.
    pub(crate) definition: Definition,
    /// The generated kernel, with all its variants.
    pub(crate) generated: Generated,
    /// The text that it is from, if it is not in the list.
    pub(crate) written: Option<Written>,
}

/// The two arguments that name a kernel.
pub(crate) fn args() -> [Arg; 2] {
    [
        Arg::new("kernel").value_name("KERNEL").help("A kernel's name; see the list below").required(true),
        Arg::new("keys")
            .value_name("KEY=VALUE")
            .help("Keys as in matmul_kernel!, or a kernel's constants and element types")
            .num_args(0..),
    ]
}

/// A kernel that the command line can name.
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    /// Its function, in one line.
    pub(crate) about: &'static str,
    pub(crate) def: KernelDef,
}

/// The kernels that a program lists, or the kernels that ship with tilewright.
pub(crate) fn listed() -> Vec<Listed> {
    match own::listed() {
        Some(own) => own,
        None => ours(),
    }
}

#[cfg(feature = "shipped")]
fn ours() -> Vec<Listed> {
    use tilewright::kernels;
    let all = kernels::all().into_iter().chain(kernels::pages::all()).chain(kernels::models::all());
    all.map(|shipped| Listed { name: shipped.name, about: shipped.about, def: shipped.def }).collect()
}

#[cfg(not(feature = "shipped"))]
fn ours() -> Vec<Listed> {
    Vec::new()
}

/// Examples for `--help`: of a program's own kernels, one with the first of them.
pub(crate) fn examples(of_shipped: &str) -> String {
    let (Some(program), Some(first)) = (own::program(), own::listed().and_then(|all| all.into_iter().next()))
    else {
        return of_shipped.to_owned();
    };
    let example = of_shipped.lines().nth(1).and_then(|line| line.split_whitespace().nth(1));
    format!("Examples:\n  {program} {} {}", example.unwrap_or_default(), first.name)
}

/// The list of kernels, for `--help`.
pub(crate) fn help() -> String {
    let all = listed();
    let width = all.iter().map(|listed| listed.name.len() + 1).max().unwrap_or(0);
    let rows = all
        .into_iter()
        .map(|Listed { name, about, .. }| format!("  {name:<width$}{about}").trim_end().to_owned());
    format!("Kernels:\n{}", rows.collect::<Vec<_>>().join("\n"))
}

/// The keys of products, for `--help`.
pub(crate) fn keys() -> String {
    if own::program().is_some() {
        return "Constants and element types of a kernel are keys: BM=64 T=f64".to_owned();
    }
    let row = |(key, default, about): &matmul::Key| format!("  {key:<12}{about} [default: {default}]");
    let [rows, schedule] =
        [matmul::keys().map(row).collect::<Vec<_>>(), matmul::schedule().map(row).collect::<Vec<_>>()];
    format!(
        "Keys of matmul:\n{}\n\nKeys inside its schedule, 'schedule=(values=(4,4) vec=4)':\n{}",
        rows.join("\n"),
        schedule.join("\n")
    )
}

/// The kernel that the arguments name.
pub(crate) fn chosen(matches: &ArgMatches) -> Result<Chosen> {
    choose(text(matches, "kernel").unwrap_or_default(), &texts(matches, "keys").join(" "))
}

/// The kernel of a name and its keys, `softmax BM=64`.
pub(crate) fn in_words(words: &str) -> Result<Chosen> {
    let (name, keys) = words.split_once(' ').unwrap_or((words, ""));
    choose(name, keys)
}

/// The kernel of a name and keys.
pub(crate) fn choose(name: &str, keys: &str) -> Result<Chosen> {
    let Some(listed) = find(name) else { return Err(unknown(name, keys)) };
    let def = match keys {
        "" => listed.def,
        keys => Words::specialize(&listed.def, keys).map_err(Failure::of)?,
    };
    let generated = def.generate().map_err(Failure::of)?;
    let definition = definition(&def)?;
    Ok(Chosen { name: listed.name, def, definition, generated, written: None })
}

fn definition(def: &KernelDef) -> Result<Definition> {
    def.definition().ok_or_else(|| Failure::of("this kernel was compiled by another version of tilewright"))
}

/// The limits of the newest device that the kernel is made for; at least of an H200.
pub(crate) fn limits(kernel: &Generated) -> Limits {
    let newest = kernel.variants.iter().map(|variant| variant.program.arch).max();
    Limits::of(newest.unwrap_or_default().max(Limits::HOPPER.arch))
}

/// By its name in the list, or by its name in the source.
fn find(name: &str) -> Option<Listed> {
    let mut all = listed();
    let index = all.iter().position(|listed| listed.name == name);
    let index = index.or_else(|| all.iter().position(|listed| listed.def.name() == name))?;
    Some(all.swap_remove(index))
}

fn unknown(name: &str, keys: &str) -> Failure {
    let line = if keys.is_empty() { name.to_owned() } else { format!("{name} {keys}") };
    let known = listed();
    let help = match name.contains('=') {
        true => format!("name the kernel first: matmul {line}"),
        false => {
            let names: Vec<&str> = known.iter().map(|listed| listed.name).collect();
            let near = did_you_mean(name, names.iter().copied());
            near.unwrap_or_else(|| format!("the kernels are {}", names.join(", ")))
        }
    };
    let what = match name.contains('=') {
        true => "a key stands where the kernel's name belongs".to_owned(),
        false => format!("there is no kernel `{name}`"),
    };
    pointed(&what, "", [&line, name], &help)
}
