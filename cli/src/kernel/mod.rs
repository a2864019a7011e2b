//! Kernels on the command line: the name of a shipped one, and its keys.

mod parts;

use clap::{Arg, ArgMatches};
use tilewright::kernels::{self, Shipped};
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::words::Words;
use tilewright_codegen::{Definition, Generated, matmul};

use crate::output::{Failure, Result};
pub(crate) use parts::{Part, parts};

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

/// The list of kernels, for `--help`.
pub(crate) fn help() -> String {
    let all = kernels::all();
    let width = all.iter().map(|shipped| shipped.name.len() + 1).max().unwrap_or(0);
    let rows = all.into_iter().map(|Shipped { name, about, .. }| format!("  {name:<width$}{about}"));
    format!("Kernels:\n{}", rows.collect::<Vec<_>>().join("\n"))
}

/// The keys of products, for `--help`.
pub(crate) fn keys() -> String {
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
    let name = matches.get_one::<String>("kernel").map_or("", String::as_str);
    let keys: Vec<&str> =
        matches.get_many::<String>("keys").into_iter().flatten().map(String::as_str).collect();
    choose(name, &keys.join(" "))
}

/// The kernel of a name and keys.
pub(crate) fn choose(name: &str, keys: &str) -> Result<Chosen> {
    let Some(shipped) = find(name) else { return Err(unknown(name, keys)) };
    let def = match keys {
        "" => shipped.def,
        keys => Words::specialize(&shipped.def, keys).map_err(Failure::of)?,
    };
    let generated = def.generate().map_err(Failure::of)?;
    let definition = definition(&def)?;
    Ok(Chosen { name: shipped.name, def, definition, generated })
}

fn definition(def: &KernelDef) -> Result<Definition> {
    def.definition().ok_or_else(|| Failure::of("this kernel was compiled by another version of tilewright"))
}

/// By its name in the list, or by its name in the source.
fn find(name: &str) -> Option<Shipped> {
    kernels::named(name).or_else(|| kernels::all().into_iter().find(|shipped| shipped.def.name() == name))
}

fn unknown(name: &str, keys: &str) -> Failure {
    let line = if keys.is_empty() { name.to_owned() } else { format!("{name} {keys}") };
    let carets = "^".repeat(name.chars().count().max(1));
    let known = kernels::all();
    let help = match name.contains('=') {
        true => format!("name the kernel first: matmul {line}"),
        false => {
            let names: Vec<&str> = known.iter().map(|shipped| shipped.name).collect();
            match crate::layout::nearest(name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the kernels are {}", names.join(", ")),
            }
        }
    };
    let what = match name.contains('=') {
        true => "a key stands where the kernel's name belongs".to_owned(),
        false => format!("there is no kernel `{name}`"),
    };
    Failure::Refused(format!("{what}\n  {line}\n  {carets}\nhelp: {help}"))
}
