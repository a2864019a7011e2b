//! Shared parts of the rows of matrix products: operand and accumulator types, and the thread-value
//! layout of fragments.

use crate::values::elem::Elem;

/// Bytes of a register.
const REGISTER: u32 = 4;

/// Signedness may be mixed.
pub(super) const BYTES: &[[Elem; 2]] =
    &[[Elem::I8, Elem::I8], [Elem::I8, Elem::U8], [Elem::U8, Elem::I8], [Elem::U8, Elem::U8]];

/// Formats may be mixed.
pub(super) const FP8: &[[Elem; 2]] =
    &[[Elem::E4m3, Elem::E4m3], [Elem::E4m3, Elem::E5m2], [Elem::E5m2, Elem::E4m3], [Elem::E5m2, Elem::E5m2]];

/// The types of one instruction.
#[derive(Clone, Copy)]
pub(super) struct Types {
    pub(super) a: Elem,
    pub(super) b: Elem,
    pub(super) d: Elem,
}

impl Types {
    /// All given pairs of operand types, with each of some accumulator types.
    pub(super) fn all<'t>(pairs: &'t [[Elem; 2]], sums: &'t [Elem]) -> impl Iterator<Item = Types> + 't {
        pairs.iter().flat_map(move |&[a, b]| sums.iter().map(move |&d| Types { a, b, d }))
    }

    /// The suffix of names: the type of both operands or of each, and the accumulator type where it is not
    /// the usual one.
    pub(super) fn suffix(self) -> String {
        let second = if self.a == self.b { String::new() } else { format!("_{}", self.b) };
        let sums = if self.d == self.a.accumulator() { String::new() } else { format!("_acc_{}", self.d) };
        format!("{}{second}{sums}", self.a)
    }

    /// In PTX order: accumulator, `a`, `b`.
    pub(super) fn ptx(self) -> String {
        format!("{}.{}.{}", ptx(self.d), ptx(self.a), ptx(self.b))
    }

    /// Elements packed along K in one register.
    pub(super) fn per_register(self) -> u32 {
        self.a.elements_in(REGISTER).max(1)
    }

    /// Does it accumulate in words that pack two numbers?
    pub(super) fn packs_sums(self) -> bool {
        self.d.bytes() < REGISTER
    }
}

/// The name of a type in PTX.
pub(super) fn ptx(elem: Elem) -> &'static str {
    match elem {
        Elem::I32 => "s32",
        Elem::I8 => "s8",
        Elem::U32 => "u32",
        Elem::U8 => "u8",
        elem => elem.name(),
    }
}

/// The thread-value layout of a fragment: (thread, value) to the index in `rows` by `along`, column-major. A
/// warp covers eight rows with four lanes each. A lane has `per` adjacent elements of its row, then of the row
/// eight rows below, then of both rows `4 * per` elements further. Of 64 rows each warp of a warpgroup has 16.
///
/// All operands and accumulators have this layout; a lane's accumulators are pairs of adjacent elements.
pub(super) fn fragment_tv(rows: u32, along: u32, per: u32) -> &'static str {
    let warps = if rows > 16 { rows / 16 } else { 1 };
    let lanes = [(4, per * rows), (8, 1), (warps, 16)];
    let values = [(per, rows), (rows.min(16) / 8, 8), (along / (4 * per), 4 * per * rows)];
    let (lane_shape, lane_stride) = mode(&lanes);
    let (shape, stride) = mode(&values);
    format!("({lane_shape},{shape}):({lane_stride},{stride})").leak()
}

/// A mode with these extents and strides, extents of 1 left out.
fn mode(parts: &[(u32, u32)]) -> (String, String) {
    let kept: Vec<_> = parts.iter().filter(|part| part.0 > 1).collect();
    let list = |texts: Vec<String>| match texts.as_slice() {
        [one] => one.clone(),
        texts => format!("({})", texts.join(",")),
    };
    match kept.is_empty() {
        true => ("1".into(), "0".into()),
        false => (
            list(kept.iter().map(|part| part.0.to_string()).collect()),
            list(kept.iter().map(|part| part.1.to_string()).collect()),
        ),
    }
}
