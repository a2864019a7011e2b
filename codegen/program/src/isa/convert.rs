//! Conversions of narrow elements in registers, a word of four at once, into the two words that an instruction takes.
//! They are exact. Bytes are put into the fractions of 16-bit numbers whose unit in the last place is 1. Then the excess
//! is subtracted, two numbers at a time.

use super::{frag, written};
use crate::isa::THREAD;
use crate::isa::atom::{Atom, Effect, OperandName};
use crate::values::elem::Elem;
use crate::values::narrow::Int4;

/// The source and the destination type, the oldest architecture, and the instructions: registers that both halves use, then
/// one half. `v` is the source. In a half, `$in` is its part of `v`, and `$out` the word of results. `$to` and `$above`
/// select its bytes for `prmt`: `$to` as the lower bytes of two numbers, with upper bytes from the second operand, `$above`
/// as the upper bytes.
type Row = (Elem, Elem, u32, &'static str, &'static str);

const ROWS: [Row; 8] = [
    // 0x43_v is 128 + the lower seven bits of v, with an eighth bit 256 + them. The difference of 128 + the lower seven bits
    // and of 128 or 256 is v.
    (
        Elem::I8,
        Elem::Bf16,
        80,
        ".reg .b32 x, y, m; mov.b32 m, 0xbf80bf80; ",
        "prmt.b32 x, v, 0x43434343, $to; and.b32 y, x, 0xff80ff80; and.b32 x, x, 0xff7fff7f; fma.rn.bf16x2 $out, y, m, x; ",
    ),
    // The same less 256, with the sum instead of the difference.
    (
        Elem::U8,
        Elem::Bf16,
        80,
        ".reg .b32 x, y, o, m; mov.b32 o, 0x3f803f80; mov.b32 m, 0xc380c380; ",
        "prmt.b32 x, v, 0x43434343, $to; and.b32 y, x, 0xff80ff80; and.b32 x, x, 0xff7fff7f; fma.rn.bf16x2 x, x, o, m; fma.rn.bf16x2 $out, y, o, x; ",
    ),
    // 0x64_v is 1024 + v; signed numbers are shifted by 128 before.
    (
        Elem::I8,
        Elem::F16,
        80,
        ".reg .b32 x, y, m; mov.b32 m, 0xe480e480; xor.b32 y, v, 0x80808080; ",
        "prmt.b32 x, y, 0x64646464, $to; add.rn.f16x2 $out, x, m; ",
    ),
    (
        Elem::U8,
        Elem::F16,
        80,
        ".reg .b32 x, m; mov.b32 m, 0xe400e400; ",
        "prmt.b32 x, v, 0x64646464, $to; add.rn.f16x2 $out, x, m; ",
    ),
    // The upper half of an f16.
    (Elem::E5m2, Elem::F16, 80, "", "prmt.b32 $out, v, 0, $above; "),
    (
        Elem::E5m2,
        Elem::Bf16,
        80,
        ".reg .b32 x; .reg .b16 l, h; .reg .f32 y, z; ",
        "prmt.b32 x, v, 0, $above; mov.b32 {l, h}, x; cvt.f32.f16 y, l; cvt.f32.f16 z, h; cvt.rn.bf16x2.f32 $out, z, y; ",
    ),
    (Elem::E4m3, Elem::F16, 89, ".reg .b16 p0, p1; mov.b32 {p0, p1}, v; ", "cvt.rn.f16x2.e4m3x2 $out, $in; "),
    (
        Elem::E4m3,
        Elem::Bf16,
        89,
        ".reg .b32 x; .reg .b16 p0, p1, l, h; .reg .f32 y, z; mov.b32 {p0, p1}, v; ",
        "cvt.rn.f16x2.e4m3x2 x, $in; mov.b32 {l, h}, x; cvt.f32.f16 y, l; cvt.f32.f16 z, h; cvt.rn.bf16x2.f32 $out, z, y; ",
    ),
];

/// The selector of `prmt` for each half: see [`Row`].
const HALVES: [[(&str, &str); 4]; 2] = [
    [("$in", "p0"), ("$out", "#d0"), ("$to", "0x4140"), ("$above", "0x1404")],
    [("$in", "p1"), ("$out", "#d1"), ("$to", "0x4342"), ("$above", "0x3424")],
];

/// Numbers of four bits, two in a byte, the lower bits first: the destination type, and the instructions for a word and for a
/// byte. In a byte's instructions, `$out` is the word of results. `$at` selects the byte of `v` for the lower number, and of `w`
/// for the upper number. The four bits become the last bits of a fraction whose unit is 1, in numbers from 128 or 1024 on. The
/// first bit of signed numbers is flipped, which adds 8. Both halves have the same constants, which instructions then contain.
const INT4: [(Int4, Elem, &str, &str); 4] = [
    (
        Int4::Signed,
        Elem::Bf16,
        ".reg .b32 w, x, m, o; shr.b32 w, v, 4; mov.b32 m, 0xc308c308; mov.b32 o, 0x3f803f80; ",
        "prmt.b32 x, v, w, $at; lop3.b32 x, x, 0x000f000f, 0x43084308, 0x6a; fma.rn.bf16x2 $out, x, o, m; ",
    ),
    (
        Int4::Signed,
        Elem::F16,
        ".reg .b32 w, x, m; shr.b32 w, v, 4; mov.b32 m, 0xe408e408; ",
        "prmt.b32 x, v, w, $at; lop3.b32 x, x, 0x000f000f, 0x64086408, 0x6a; add.rn.f16x2 $out, x, m; ",
    ),
    (
        Int4::Unsigned,
        Elem::Bf16,
        ".reg .b32 w, x, m, o; shr.b32 w, v, 4; mov.b32 m, 0xc300c300; mov.b32 o, 0x3f803f80; ",
        "prmt.b32 x, v, w, $at; lop3.b32 x, x, 0x000f000f, 0x43004300, 0x6a; fma.rn.bf16x2 $out, x, o, m; ",
    ),
    (
        Int4::Unsigned,
        Elem::F16,
        ".reg .b32 w, x, m; shr.b32 w, v, 4; mov.b32 m, 0xe400e400; ",
        "prmt.b32 x, v, w, $at; lop3.b32 x, x, 0x000f000f, 0x64006400, 0x6a; add.rn.f16x2 $out, x, m; ",
    ),
];

/// The selector of `prmt` for each byte: see [`INT4`].
const BYTES: [[(&str, &str); 2]; 4] = [
    [("$out", "#d0"), ("$at", "0x4400")],
    [("$out", "#d1"), ("$at", "0x5511")],
    [("$out", "#d2"), ("$at", "0x6622")],
    [("$out", "#d3"), ("$at", "0x7733")],
];

/// A conversion of the values in a word.
struct Conversion {
    /// The name of the source.
    from: &'static str,
    source: Elem,
    effect: Effect,
    to: Elem,
    /// The number of results.
    values: u32,
    arch: u32,
    /// The instructions for the whole word.
    word: &'static str,
    /// The instructions for a part of the word.
    part: &'static str,
}

/// A row whose template has one part for each of these substitutions.
fn row<const N: usize>(conversion: Conversion, parts: &[[(&str, &str); N]]) -> Atom {
    let Conversion { from, source, effect, to, values, arch, word, part } = conversion;
    let fill =
        |row: &[(&str, &str); N]| row.iter().fold(part.to_owned(), |text, (name, by)| text.replace(name, by));
    let parts: String = parts.iter().map(fill).collect();
    let written = written(frag(OperandName::D, to, true, format!("(1,{values}):(0,1)").leak()));
    Atom {
        name: format!("convert_{from}_{to}").leak(),
        arch,
        arch_specific: false,
        family: &THREAD,
        // The source is read before the first result is written.
        ptx: format!("{{ .reg .b32 v; mov.b32 v, #a; {word}{parts}}}").leak(),
        operands: Vec::leak(vec![written, frag(OperandName::A, source, true, "(1,4):(0,1)")]),
        effect,
    }
}

pub(super) fn rows() -> impl Iterator<Item = Atom> {
    let bytes = ROWS.into_iter().map(|(source, to, arch, word, part)| {
        let (from, effect) = (source.name(), Effect::Convert);
        row(Conversion { from, source, effect, to, values: 4, arch, word, part }, &HALVES)
    });
    let pairs = INT4.into_iter().map(|(numbers, to, word, part)| {
        let (from, effect) = (numbers.name(), Effect::Unpack(numbers));
        row(Conversion { from, source: Elem::U8, effect, to, values: 8, arch: 80, word, part }, &BYTES)
    });
    bytes.chain(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_complete() {
        for row in rows() {
            assert!(row.ptx.contains("#d0") && row.ptx.contains("#d1"), "{}", row.name);
            assert!(!row.ptx.contains('$'), "{}", row.ptx);
        }
    }
}
