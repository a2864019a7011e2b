//! Element types, as data.

use crate::wire::wire;
use std::fmt;

/// The type of an element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Elem {
    F64,
    F32,
    F16,
    Bf16,
    I32,
    U32,
    I8,
    U8,
    Tf32,
    E4m3,
    E5m2,
}

wire! {
    enum Elem {
        0 F64, 1 F32, 2 F16, 3 Bf16, 4 I32, 5 U32, 6 I8, 7 U8, 8 Tf32, 9 E4m3, 10 E5m2,
    }
}

/// One row for each type: name in Rust, name in CUDA C, bytes.
const TABLE: [(Elem, &str, &str, u32); 11] = [
    (Elem::F64, "f64", "double", 8),
    (Elem::F32, "f32", "float", 4),
    (Elem::F16, "f16", "f16", 2),
    (Elem::Bf16, "bf16", "bf16", 2),
    (Elem::I32, "i32", "int", 4),
    (Elem::U32, "u32", "unsigned", 4),
    (Elem::I8, "i8", "signed char", 1),
    (Elem::U8, "u8", "unsigned char", 1),
    (Elem::Tf32, "tf32", "float", 4),
    (Elem::E4m3, "e4m3", "e4m3", 1),
    (Elem::E5m2, "e5m2", "e5m2", 1),
];

impl Elem {
    #[inline]
    fn row(self) -> &'static (Elem, &'static str, &'static str, u32) {
        &TABLE[self as usize]
    }

    /// The type of this name in Rust.
    ///
    /// ```
    /// use tilewright_codegen::Elem;
    /// assert_eq!(Elem::named("bf16"), Some(Elem::Bf16));
    /// ```
    pub fn named(name: &str) -> Option<Elem> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Its name in Rust.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Its name in the generated source.
    pub fn cuda(self) -> &'static str {
        self.row().2
    }

    /// Bytes of one element.
    #[inline]
    pub fn bytes(self) -> u32 {
        self.row().3
    }

    /// Is it a floating-point type?
    #[inline]
    pub fn is_float(self) -> bool {
        !matches!(self, Elem::I32 | Elem::U32 | Elem::I8 | Elem::U8)
    }

    /// All types.
    pub fn all() -> impl Iterator<Item = Elem> {
        TABLE.iter().map(|row| row.0)
    }

    /// Names of all types, for messages.
    pub fn names() -> String {
        TABLE.map(|row| row.1).join(", ")
    }

    /// The default accumulator type of this type.
    pub fn accumulator(self) -> Elem {
        match self {
            Elem::F64 => Elem::F64,
            Elem::U32 => Elem::U32,
            Elem::I32 | Elem::I8 => Elem::I32,
            Elem::U8 => Elem::I32,
            _ => Elem::F32,
        }
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_enum_order() {
        for (place, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, place);
        }
    }
}
