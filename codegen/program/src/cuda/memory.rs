//! Shared memory: an array for each tensor where that is possible, otherwise named parts of one arena.

use super::names::ARENA;
use super::{Printer, comment};
use crate::thread::Bar;
use crate::values::target::STATIC_SHARED;

/// An array to be declared.
struct Array<'k> {
    elem: &'static str,
    size: u32,
    name: &'k str,
    len: u32,
    offset: u32,
    align: u32,
    note: &'k str,
}

impl Array<'_> {
    fn end(&self) -> u32 {
        self.offset + self.len * self.size
    }

    fn remark(&self) -> String {
        if self.note.is_empty() { String::new() } else { format!("  {}", comment(self.note)) }
    }
}

impl Printer<'_> {
    pub(super) fn shared_memory(&self) -> String {
        let kernel = self.kernel;
        let tensors = kernel.shared.iter().zip(&self.names.shared).map(|(array, name)| Array {
            elem: array.elem.cuda(),
            size: array.elem.bytes(),
            name,
            len: array.len,
            offset: array.offset,
            align: array.align,
            note: &array.note,
        });
        let barriers = kernel.bars.iter().zip(&self.names.bars).filter_map(|(bar, name)| match bar {
            Bar::Mbarriers { offset, slots, .. } => Some(Array {
                elem: "unsigned long long",
                size: 8,
                name,
                len: *slots,
                offset: *offset,
                align: 8,
                note: "mbarriers",
            }),
            _ => None,
        });
        let arrays: Vec<Array> = tensors.chain(barriers).collect();
        if arrays.is_empty() {
            return String::new();
        }
        let text = if self.fits_static(&arrays) { static_arrays(&arrays) } else { self.arena(&arrays) };
        text + "\n"
    }

    /// Below the static limit, and no two arrays overlap.
    fn fits_static(&self, arrays: &[Array]) -> bool {
        let apart = |a: &Array, b: &Array| a.end() <= b.offset || b.end() <= a.offset;
        self.kernel.launch.shared_bytes <= STATIC_SHARED
            && arrays.iter().enumerate().all(|(at, a)| arrays[..at].iter().all(|b| apart(a, b)))
    }

    fn arena(&self, arrays: &[Array]) -> String {
        let align = arrays.iter().map(|array| array.align).max().unwrap_or(16).max(16);
        let bytes = self.kernel.launch.shared_bytes;
        let mut text = if bytes <= STATIC_SHARED {
            format!("    __shared__ alignas({align}) unsigned char {ARENA}[{bytes}];\n")
        } else {
            format!("    alignas({align}) extern __shared__ unsigned char {ARENA}[];  // {bytes} bytes\n")
        };
        for array in arrays {
            let Array { elem, name, offset, .. } = array;
            let index = if *offset == 0 { ARENA.to_string() } else { format!("({ARENA} + {offset})") };
            text += &format!("    {elem}* const {name} = ({elem}*){index};{}\n", array.remark());
        }
        text
    }
}

fn static_arrays(arrays: &[Array]) -> String {
    let mut text = String::new();
    for array in arrays {
        let Array { elem, size, name, len, align, .. } = array;
        let align = if align > size { format!("alignas({align}) ") } else { String::new() };
        text += &format!("    __shared__ {align}{elem} {name}[{len}];{}\n", array.remark());
    }
    text
}
