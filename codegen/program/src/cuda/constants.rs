//! Constants with names: what a factor, a divisor or a limit in an index expression is, as far as lowering knows it.

use super::Printer;
use super::piece::{Level, Piece};
use crate::thread::Id;
use crate::thread::index::{ConstantName, Ix};

/// The constants that a kernel declares.
#[derive(Default)]
pub(super) struct Constants {
    /// In the order of their first use.
    declared: Vec<Declared>,
    /// The shared array whose address is being printed.
    array: Option<Id>,
}

struct Declared {
    wanted: String,
    value: i64,
    /// The name in the source.
    name: String,
    /// Is it of an array or a barrier in shared memory?
    shared: bool,
}

/// The longest line of declarations.
const LINE: usize = 100;

impl Printer<'_> {
    /// The name of a constant operand of an expression, if it has one.
    pub(super) fn named(&mut self, of: Ix, part: Ix) -> Option<Piece> {
        let number = self.exprs.constant(part)?;
        let ConstantName { name, value, times, bytes, over, plus, array } =
            name_in(&self.exprs.get(of).names, number, self.constants.array)?.clone();
        let name = self.constant(&name, value, array.is_some());
        let product = match times {
            1 => Piece::new(name, Level::Primary),
            _ => Piece::new(format!("{times} * {name}"), Level::Product),
        };
        let in_bytes = match bytes {
            1 => product,
            _ => Piece::new(format!("{} * {bytes}", product.text), Level::Product),
        };
        let quotient = match over {
            1 => in_bytes,
            _ => Piece::new(format!("{} / {over}", in_bytes.text), Level::Product),
        };
        Some(match plus {
            0 => quotient,
            ..0 => Piece::new(format!("{} - {}", quotient.text, -plus), Level::Sum),
            _ => Piece::new(format!("{} + {plus}", quotient.text), Level::Sum),
        })
    }

    /// The name of a constant in the source, which is declared from now on.
    pub(super) fn constant(&mut self, wanted: &str, value: i64, shared: bool) -> String {
        let is_it = |known: &&Declared| known.wanted == wanted && known.value == value;
        if let Some(known) = self.constants.declared.iter().find(is_it) {
            return known.name.clone();
        }
        let name = self.names.unique(wanted);
        self.constants.declared.push(Declared {
            wanted: wanted.to_owned(),
            value,
            name: name.clone(),
            shared,
        });
        name
    }

    /// Prints an offset in a shared array, whose strides have names there.
    pub(super) fn in_array<T>(&mut self, array: Option<Id>, print: impl FnOnce(&mut Self) -> T) -> T {
        let around = std::mem::replace(&mut self.constants.array, array);
        let printed = print(self);
        self.constants.array = around;
        printed
    }

    /// The declarations of all constants, first of the kernel, then of shared memory.
    pub(super) fn constants(&self) -> String {
        let mut text = String::new();
        for shared in [false, true] {
            let mut line = String::new();
            for constant in self.constants.declared.iter().filter(|constant| constant.shared == shared) {
                let one = format!("{} = {}", constant.name, constant.value);
                if line.len() + one.len() > LINE {
                    text += &(std::mem::take(&mut line) + ";\n");
                }
                line +=
                    &if line.is_empty() { format!("    constexpr int {one}") } else { format!(", {one}") };
            }
            if !line.is_empty() {
                text += &(line + ";\n");
            }
        }
        if text.is_empty() { text } else { text + "\n" }
    }
}

/// The name of a number: the only one of the kernel, or in an offset in an array, the array's.
fn name_in(names: &[ConstantName], number: i64, array: Option<Id>) -> Option<&ConstantName> {
    let mut general = names.iter().filter(|name| name.number() == number && name.array.is_none());
    match (general.next(), general.next()) {
        (Some(name), None) => Some(name),
        (None, _) => names.iter().find(|name| name.number() == number && name.array == array),
        (Some(_), Some(_)) => None,
    }
}
