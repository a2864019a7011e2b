//! Numbers of four bits, two in a byte.

use super::Builder;
use crate::isa;
use crate::source::problem::{Problem, Result};
use crate::tile::How;
use crate::tile::view::View;
use crate::values::elem::Elem;
use crate::values::narrow::Int4;

/// Bytes that an instruction unpacks.
const WORD: i64 = 4;

impl Builder {
    /// The numbers of a tile of bytes as a tile in registers: two of each byte, adjacent along the last mode, the lower bits first.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, narrow::Int4};
    /// # let mut b = Builder::new("example");
    /// let weights = b.shared_tile("weights", Elem::U8, (128, 32))?;
    /// let w = b.unpack("w", Int4::Signed, &weights, Elem::Bf16)?;
    /// assert_eq!(w.shape().to_string(), "(128,64)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn unpack(&mut self, name: &str, of: Int4, bytes: &View, elem: Elem) -> Result<View> {
        let row = isa::unpack(of, elem).ok_or_else(|| {
            Problem::new(format!("numbers of {} are unpacked to f16 or bf16, and this is {elem}", of.name()))
                .help(format!(
                    "write unpack_int4::<{}, bf16>({}), and convert its elements",
                    of.name(),
                    bytes.name
                ))
        })?;
        if self.elem(bytes) != Elem::U8 {
            return Err(Problem::new(format!(
                "`{}` is a tile of {}, and unpack_int4 takes bytes of u8, each with two numbers",
                bytes.name,
                self.elem(bytes)
            ))
            .help("make the tensor one of u8, with half as many elements along its last mode")
            .arg(0));
        }
        let mut tile =
            bytes.extents().ok_or_else(|| Problem::new(format!("`{}` is no tile", bytes.name)).arg(0))?;
        match tile.last_mut() {
            Some(last) if *last % WORD == 0 => *last *= 2,
            _ => {
                return Err(Problem::new(format!(
                    "`unpack_int4` unpacks {WORD} bytes at once, and the last mode of `{}`, {}, is not a multiple of them",
                    bytes.name,
                    bytes.shape()
                ))
                .help(format!("use a tile of a multiple of {WORD} bytes along its last mode"))
                .arg(0));
            }
        }
        let to = self.distributed(name, elem, &tile)?;
        self.copy_how(bytes, &to, How::Atom(row), None)?;
        Ok(to)
    }
}
