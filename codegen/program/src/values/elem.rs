//! Element types, as data.

use crate::source::wire::wire;
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
    I64,
    U64,
    I16,
    U16,
    Bool,
}

wire! {
    enum Elem {
        F64, F32, F16, Bf16, I32, U32, I8, U8, Tf32, E4m3, E5m2, I64, U64, I16, U16, Bool,
    }
}

/// The kind of a type's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Floating-point numbers.
    Float,
    /// Integers with a sign.
    Signed,
    /// Integers without a sign.
    Unsigned,
    /// True and false. In memory 0 is false, any other byte true; kernels write 1.
    Bool,
}

/// One row for each type.
struct Row {
    elem: Elem,
    kind: Kind,
    bits: u32,
    /// The bits of a floating-point number's significand; 0 for other types.
    precision: u32,
    /// Its name in Rust, in CUDA C, in C (types that C lacks are passed as their bits), and in PyTorch.
    names: [&'static str; 4],
    /// Names in other languages.
    elsewhere: &'static [&'static str],
}

const fn row(
    elem: Elem,
    kind: Kind,
    bits: u32,
    precision: u32,
    names: [&'static str; 4],
    elsewhere: &'static [&'static str],
) -> Row {
    Row { elem, kind, bits, precision, names, elsewhere }
}

#[rustfmt::skip]
const TABLE: [Row; 16] = [
    row(Elem::F64, Kind::Float, 64, 53, ["f64", "double", "double", "float64"], &["double", "fp64", "float64"]),
    row(Elem::F32, Kind::Float, 32, 24, ["f32", "float", "float", "float32"], &["float", "fp32", "float32"]),
    row(Elem::F16, Kind::Float, 16, 11, ["f16", "f16", "uint16_t", "float16"], &["half", "__half", "fp16", "float16", "half_t"]),
    row(Elem::Bf16, Kind::Float, 16, 8, ["bf16", "bf16", "uint16_t", "bfloat16"], &["bfloat16", "__nv_bfloat16", "nv_bfloat16", "bfloat16_t"]),
    row(Elem::I32, Kind::Signed, 32, 0, ["i32", "int", "int32_t", "int32"], &["int", "int32", "int32_t"]),
    row(Elem::U32, Kind::Unsigned, 32, 0, ["u32", "unsigned", "uint32_t", "uint32"], &["uint", "unsigned", "uint32", "uint32_t"]),
    row(Elem::I8, Kind::Signed, 8, 0, ["i8", "signed char", "int8_t", "int8"], &["char", "int8", "int8_t"]),
    row(Elem::U8, Kind::Unsigned, 8, 0, ["u8", "unsigned char", "uint8_t", "uint8"], &["uint8", "uint8_t", "byte"]),
    row(Elem::Tf32, Kind::Float, 32, 11, ["tf32", "float", "uint32_t", "float32"], &["tfloat32", "tfloat32_t", "TF32"]),
    row(Elem::E4m3, Kind::Float, 8, 4, ["e4m3", "e4m3", "uint8_t", "float8_e4m3fn"], &["fp8", "float8", "float8_e4m3fn", "float_e4m3_t", "__nv_fp8_e4m3", "fp8e4m3"]),
    row(Elem::E5m2, Kind::Float, 8, 3, ["e5m2", "e5m2", "uint8_t", "float8_e5m2"], &["float8_e5m2", "float_e5m2_t", "__nv_fp8_e5m2", "fp8e5m2"]),
    row(Elem::I64, Kind::Signed, 64, 0, ["i64", "long long", "int64_t", "int64"], &["long", "int64", "int64_t"]),
    row(Elem::U64, Kind::Unsigned, 64, 0, ["u64", "unsigned long long", "uint64_t", "uint64"], &["ulong", "uint64", "uint64_t"]),
    row(Elem::I16, Kind::Signed, 16, 0, ["i16", "short", "int16_t", "int16"], &["short", "int16", "int16_t"]),
    row(Elem::U16, Kind::Unsigned, 16, 0, ["u16", "unsigned short", "uint16_t", "uint16"], &["ushort", "uint16", "uint16_t"]),
    // In C++ a `bool` of another byte than 0 and 1 is undefined.
    row(Elem::Bool, Kind::Bool, 8, 0, ["bool", "unsigned char", "uint8_t", "bool"], &["boolean", "bool_"]),
];

/// The integers that count elements and bytes. Elements that are no whole bytes are packed, so sizes are not products of bytes.
pub trait Count: Sized {
    /// The bytes of this number of elements, rounded up.
    fn bytes(elements: Self, bits: u32) -> Self;
    /// The elements in this number of bytes.
    fn elements(bytes: Self, bits: u32) -> Self;
}

macro_rules! counts {
    ($($int:ty)*) => {$(
        impl Count for $int {
            #[inline]
            fn bytes(elements: $int, bits: u32) -> $int {
                match bits % 8 {
                    0 => elements.saturating_mul((bits / 8) as $int),
                    _ => (elements.saturating_mul(bits as $int).saturating_add(7)) / 8,
                }
            }

            #[inline]
            fn elements(bytes: $int, bits: u32) -> $int {
                match bits % 8 {
                    0 => bytes / (bits / 8) as $int,
                    _ => bytes.saturating_mul(8) / bits as $int,
                }
            }
        }
    )*};
}

counts! { u32 i64 u64 i128 usize }

impl Elem {
    #[inline]
    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The type of this name in Rust.
    ///
    /// ```
    /// use tilewright_program::Elem;
    /// assert_eq!(Elem::named("bf16"), Some(Elem::Bf16));
    /// ```
    pub fn named(name: &str) -> Option<Elem> {
        TABLE.iter().find(|row| row.names[0] == name).map(|row| row.elem)
    }

    /// The type of this name in another language.
    pub fn elsewhere(name: &str) -> Option<Elem> {
        TABLE.iter().find(|row| row.elsewhere.contains(&name)).map(|row| row.elem)
    }

    /// Its name in Rust.
    pub fn name(self) -> &'static str {
        self.row().names[0]
    }

    /// Its name in the generated source.
    pub fn cuda(self) -> &'static str {
        self.row().names[1]
    }

    /// The letter of its registers in PTX; `None` for types of other sizes than 4 and 8 bytes.
    pub fn ptx(self) -> Option<&'static str> {
        Some(match self {
            Elem::F32 => "f",
            Elem::F64 => "d",
            Elem::I32 | Elem::U32 => "r",
            Elem::I64 | Elem::U64 => "l",
            _ => return None,
        })
    }

    /// Its name in C; a type that C does not have is passed as its bits.
    pub fn c(self) -> &'static str {
        self.row().names[2]
    }

    /// Its name in PyTorch.
    pub fn torch(self) -> &'static str {
        self.row().names[3]
    }

    /// The code of its kind in DLPack.
    pub fn dlpack(self) -> u8 {
        match self {
            Elem::Bf16 => 4,
            Elem::E4m3 => 10,
            Elem::E5m2 => 12,
            _ => match self.kind() {
                Kind::Signed => 0,
                Kind::Unsigned => 1,
                Kind::Float => 2,
                Kind::Bool => 6,
            },
        }
    }

    /// Bits of one element.
    #[inline]
    pub fn bits(self) -> u32 {
        self.row().bits
    }

    /// Bytes of one element by itself.
    #[inline]
    pub fn bytes(self) -> u32 {
        self.bytes_of(1)
    }

    /// Bytes that a number of contiguous elements take.
    ///
    /// ```
    /// use tilewright_program::Elem;
    /// assert_eq!((Elem::F16.bytes_of(6i64), Elem::F64.bytes_of(6u32)), (12, 48));
    /// ```
    #[inline]
    pub fn bytes_of<N: Count>(self, elements: N) -> N {
        N::bytes(elements, self.bits())
    }

    /// How many contiguous elements a number of bytes contains.
    ///
    /// ```
    /// use tilewright_program::Elem;
    /// assert_eq!((Elem::F16.elements_in(16i64), Elem::F64.elements_in(16u32)), (8, 2));
    /// ```
    #[inline]
    pub fn elements_in<N: Count>(self, bytes: N) -> N {
        N::elements(bytes, self.bits())
    }

    /// The kind of its values.
    #[inline]
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// Is it a floating-point type?
    #[inline]
    pub fn is_float(self) -> bool {
        self.kind() == Kind::Float
    }

    /// Bits of the significand of its floating-point numbers, the leading one included; 0 for other types.
    ///
    /// ```
    /// use tilewright_program::Elem;
    /// assert_eq!([Elem::F32, Elem::F16, Elem::I32].map(Elem::precision), [24, 11, 0]);
    /// ```
    pub fn precision(self) -> u32 {
        self.row().precision
    }

    /// The greatest relative error of a result that is rounded once; 0 for integers, which are exact.
    ///
    /// ```
    /// use tilewright_program::Elem;
    /// assert_eq!([Elem::F16, Elem::I32].map(Elem::roundoff), [1.0 / 2048.0, 0.0]);
    /// ```
    pub fn roundoff(self) -> f64 {
        if self.is_float() { 0.5f64.powi(self.precision() as i32) } else { 0.0 }
    }

    /// Is it a floating-point type of eight bits?
    #[inline]
    pub fn is_fp8(self) -> bool {
        self.is_float() && self.bits() == 8
    }

    /// Does Rust have this type?
    pub fn is_primitive(self) -> bool {
        !self.is_float() || self.precision() >= Elem::F32.precision()
    }

    /// Is it a type of integers?
    #[inline]
    pub fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Signed | Kind::Unsigned)
    }

    /// Is it an integer with a sign?
    #[inline]
    pub fn is_signed(self) -> bool {
        self.kind() == Kind::Signed
    }

    /// Is it an integer of at least 32 bits, which the hardware computes with and updates atomically?
    #[inline]
    pub fn is_word(self) -> bool {
        self.is_integer() && self.bits() >= 32
    }

    /// Bits of the integers that compute with it: 8- and 16-bit integers are widened to 32.
    #[inline]
    pub fn working_bits(self) -> u32 {
        self.bits().max(32)
    }

    /// All types.
    pub fn all() -> impl Iterator<Item = Elem> {
        TABLE.iter().map(|row| row.elem)
    }

    /// Names of all types, for messages.
    pub fn names() -> String {
        Elem::all().map(Elem::name).collect::<Vec<_>>().join(", ")
    }

    /// The default accumulator type of this type.
    pub fn accumulator(self) -> Elem {
        match self.kind() {
            Kind::Float if self != Elem::F64 => Elem::F32,
            Kind::Signed | Kind::Unsigned | Kind::Bool if self.bits() < 32 => Elem::I32,
            _ => self,
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
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.elem as usize, index);
        }
    }
}
