//! A module of Rust that launches an exported kernel: a program that embeds it needs neither the generator nor a CUDA compiler.

use std::fmt::Write;

use super::MOST;
use super::text::described;
use crate::launch::definition::{Generated, Param};
use crate::values::elem::Elem;

/// Bytes of a message, as in `types.h`.
const ERROR: usize = 1024;

/// The type of a number in Rust. Numbers without such a type are passed as their bits.
fn number(elem: Elem) -> &'static str {
    match elem.bytes() {
        _ if elem.is_primitive() && elem != Elem::Bool => elem.name(),
        1 => "u8",
        2 => "u16",
        _ => "u32",
    }
}

/// The module of a kernel, `NAME.rs`, to be included in a program that links the object that a C compiler makes of
/// the files of [`super::export`].
///
/// ```
/// use tilewright_program::launch::rust;
/// use tilewright_codegen::words::{Kernels as _, Words};
/// let kernel = Words::read("name=product").unwrap().matmul().unwrap();
/// assert!(rust(&kernel).contains("pub a: Tensor<2>,"));
/// ```
pub fn rust(kernel: &Generated) -> String {
    let (mut fields, mut passed, mut converted) = (String::new(), String::new(), String::new());
    for (index, Param { name, elem, tensor }) in kernel.params.iter().enumerate() {
        let what = described(kernel, index);
        let _ = match tensor {
            Some((_, rank)) => {
                let _ = writeln!(passed, "        {name}: CTensor,");
                let code = *elem as u32;
                let _ = writeln!(converted, "                {name}: arguments.{name}.passed({code}),");
                writeln!(fields, "        /// {what}\n        pub {name}: Tensor<{rank}>,")
            }
            None => {
                let ty = number(*elem);
                let _ = writeln!(passed, "        {name}: {ty},");
                let _ = writeln!(converted, "                {name}: arguments.{name},");
                writeln!(fields, "        /// {what}\n        pub {name}: {ty},")
            }
        };
    }
    let names: Vec<&str> = kernel.params.iter().map(|param| param.name.as_str()).collect();
    let [_, modes, ..] = MOST;
    include_str!("module.rs")
        .replace("C_FIELDS_HERE", &passed)
        .replace("FIELDS_HERE", &fields)
        .replace("CONVERTED_HERE", &converted)
        .replace("MOST_MODES", &modes.to_string())
        .replace("ERROR_BYTES", &ERROR.to_string())
        .replace("ARGUMENTS", &names.join(", "))
        .replace("NAME", &kernel.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_header() {
        let header = include_str!("types.h");
        for (name, value) in [("ERROR", ERROR), ("MODES", MOST[1])] {
            assert!(header.contains(&format!("#define TILEWRIGHT_{name} {value} ")), "{name}");
        }
    }
}
