//! [`WarpAccess`]: the byte addresses of one load or store instruction of a warp. It does not know banks,
//! sectors or caches.

use std::ops::Range;

use crate::error::{Condition, LayoutError, Operand, Result};
use crate::layout::Layout;
use crate::swizzle::Composed;
use crate::value::Value;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;

/// The kind of memory instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transfer {
    /// A load: each lane reads a vector at its own address.
    Load,
    /// A store: each lane writes a vector at its own address.
    Store,
    /// `ldmatrix` or `stmatrix`: each lane supplies the address of a row of 16 bytes, eight lanes to a
    /// matrix. Instructions that take fewer than 32 rows ignore the other lanes: mask them.
    Matrix,
}

/// One memory instruction of one warp: a byte address for every lane, the active lanes, and the bytes per
/// lane. Addresses count from the start of a buffer.
///
/// ```
/// use tilewright_layout::{Transfer, WarpAccess, layout};
/// // 32 lanes, four floats each, contiguous
/// let access = WarpAccess::new(layout!((32, 4) : (4, 1)), 4, Transfer::Load)?;
/// assert_eq!((access.bytes(), access.address(3)), (16, Some(48)));
/// // four floats that are not contiguous are no vector
/// assert!(WarpAccess::new(layout!((32, 4) : (1, 32)), 4, Transfer::Load).is_err());
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WarpAccess {
    pub(crate) addresses: [i64; LANES],
    pub(crate) active: u32,
    pub(crate) bytes: i64,
    pub(crate) transfer: Transfer,
}

impl WarpAccess {
    /// The access of a layout from (lane, vector element) to offsets in elements of `element_bytes` bytes.
    /// The first mode is the lane, at most 32. All other modes together are the vector, whose elements
    /// must be contiguous.
    ///
    /// For a layout in bytes, `element_bytes` is 1.
    pub fn new(layout: impl Into<Composed>, element_bytes: i64, transfer: Transfer) -> Result<WarpAccess> {
        let view: Composed = layout.into();
        WarpAccess::read(&view, element_bytes, transfer)
            .map_err(|e| e.within("warp access", [Operand::from(&view)]))
    }

    fn read(view: &Composed, element_bytes: i64, transfer: Transfer) -> Result<WarpAccess> {
        let (inner, swizzle) = (view.layout(), view.swizzle());
        let lane_leaves = inner.profile.modes().next().unwrap_or(0..0);
        let rest = lane_leaves.end..inner.shape.len();
        let (mut lanes, mut vector) = ([0i64; LANES], [0i64; 16]);
        let lane_count =
            span(inner, lane_leaves, &mut lanes, "a warp has at most 32 lanes; the size of the first mode")?;
        let width = span(
            inner,
            rest,
            &mut vector,
            "a vector has at most 16 elements; the size of the modes after the first",
        )?;
        let bytes = vector_bytes(width as i64, element_bytes, transfer)?;

        let far = || LayoutError::new("", Condition::Overflow { leaf: None });
        // An aligned vector in the innermost mode is kept whole; any other is checked element by element.
        let in_a_row = (0..width).all(|element| vector[element] == element as i64);
        let kept = if swizzle.is_identity() { 1 } else { width as i64 };
        let kept = kept <= 1 << swizzle.base() && kept.count_ones() == 1;

        let mut addresses = [0i64; LANES];
        for (lane, address) in addresses.iter_mut().enumerate().take(lane_count) {
            let base = lanes[lane].checked_add(view.offset()).ok_or_else(far)?;
            let start = swizzle.apply(base);
            let aligned = swizzle.is_identity() || base & (width as i64 - 1) == 0;
            let looked_at = if in_a_row && kept && aligned { 0 } else { width };
            for (element, step) in vector.iter().enumerate().take(looked_at).skip(1) {
                let actual = swizzle.apply(base.checked_add(*step).ok_or_else(far)?);
                if actual != start + element as i64 {
                    let expected = start + element as i64;
                    return Err(not_a_vector(lane, element, expected, actual));
                }
            }
            *address = start.checked_mul(element_bytes).ok_or_else(far)?;
        }
        Ok(WarpAccess { addresses, active: first_lanes(lane_count), bytes, transfer })
    }

    /// The access with these byte addresses, one for each lane; a lane without an address is inactive.
    ///
    /// ```
    /// use tilewright_layout::{Transfer, WarpAccess};
    /// let access = WarpAccess::from_addresses(&[Some(0), None, Some(64)], 4, Transfer::Store)?;
    /// assert_eq!(access.active(), 0b101);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn from_addresses(addresses: &[Option<i64>], bytes: i64, transfer: Transfer) -> Result<WarpAccess> {
        let within = |e: LayoutError| e.within("warp access", []);
        let bytes = vector_bytes(1, bytes, transfer).map_err(within)?;
        if addresses.len() > LANES {
            let what = "a warp has at most 32 lanes";
            let value = addresses.len() as i64;
            return Err(LayoutError::new("warp access", Condition::BadArgument { what, value }));
        }
        let mut access = WarpAccess { addresses: [0; LANES], active: 0, bytes, transfer };
        for (lane, address) in addresses.iter().enumerate() {
            if let Some(address) = address {
                access.addresses[lane] = *address;
                access.active |= 1 << lane;
            }
        }
        Ok(access)
    }

    /// The access with these byte addresses, by the lanes of a mask.
    ///
    /// ```
    /// use tilewright_layout::{Transfer, WarpAccess};
    /// let access = WarpAccess::of_lanes([64; 32], 0b101, 4, Transfer::Load)?;
    /// assert_eq!((access.address(0), access.address(1)), (Some(64), None));
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn of_lanes(
        addresses: [i64; LANES],
        active: u32,
        bytes: i64,
        transfer: Transfer,
    ) -> Result<WarpAccess> {
        let bytes = vector_bytes(1, bytes, transfer).map_err(|e| e.within("warp access", []))?;
        Ok(WarpAccess { addresses, active, bytes, transfer })
    }

    /// The same access by fewer lanes: bit `i` of the mask is lane `i`.
    ///
    /// ```
    /// use tilewright_layout::{Transfer, WarpAccess, layout};
    /// let rows = WarpAccess::new(layout!((32, 8) : (64, 1)), 2, Transfer::Matrix)?;
    /// assert_eq!(rows.masked(0xff).banks()?.ideal, 1); // ldmatrix.x1: one matrix of eight rows
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn masked(self, lanes: u32) -> WarpAccess {
        WarpAccess { active: self.active & lanes, ..self }
    }

    /// The active lanes, as a mask.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// The bytes of each lane: 1, 2, 4, 8 or 16.
    pub fn bytes(&self) -> i64 {
        self.bytes
    }

    /// The kind of instruction.
    pub fn transfer(&self) -> Transfer {
        self.transfer
    }

    /// The byte address of a lane, if it is active.
    pub fn address(&self, lane: usize) -> Option<i64> {
        (lane < LANES && self.active >> lane & 1 == 1).then(|| self.addresses[lane])
    }
}

/// A mask of the first `n` lanes.
pub(crate) fn first_lanes(n: usize) -> u32 {
    ((1u64 << n) - 1) as u32
}

pub(crate) fn not_a_vector(lane: usize, element: usize, expected: i64, actual: i64) -> LayoutError {
    LayoutError::new("", Condition::NotAVector { lane, element, expected, actual })
}

/// The width of a vector in bytes, if an instruction supports it.
pub(crate) fn vector_bytes(elements: i64, element_bytes: i64, transfer: Transfer) -> Result<i64> {
    let bytes = elements.saturating_mul(element_bytes);
    let bad = |what| Err(LayoutError::new("", Condition::BadArgument { what, value: bytes }));
    match (bytes, transfer) {
        (16, Transfer::Matrix) => Ok(bytes),
        (_, Transfer::Matrix) => bad("a matrix access moves rows of 16 bytes; the bytes per lane"),
        (1 | 2 | 4 | 8 | 16, _) if element_bytes > 0 => Ok(bytes),
        _ => bad("a lane can move 1, 2, 4, 8 or 16 bytes at once; the bytes per lane"),
    }
}

/// The offsets of these leaves, leftmost fastest, and their number.
fn span(layout: &Layout, leaves: Range<usize>, out: &mut [i64], what: &'static str) -> Result<usize> {
    let mut count = 1;
    for leaf in leaves {
        let (Value::Int(extent), Value::Int(stride)) = (layout.shape[leaf], layout.stride[leaf]) else {
            let known = layout.shape[leaf].int().is_some();
            let value = if known { layout.stride[leaf] } else { layout.shape[leaf] };
            return Err(LayoutError::new("", Condition::Symbolic { value }));
        };
        if extent > (out.len() / count) as i64 {
            let value = extent.saturating_mul(count as i64);
            return Err(LayoutError::new("", Condition::BadArgument { what, value }));
        }
        for copy in 1..extent as usize {
            for i in 0..count {
                out[copy * count + i] = out[i] + copy as i64 * stride; // in range: see Layout::recheck
            }
        }
        count *= extent as usize;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(layout: &str, element_bytes: i64, expected: std::result::Result<(i64, &[i64]), &str>) {
        let layout: Composed = layout.parse().unwrap();
        let actual = WarpAccess::new(layout, element_bytes, Transfer::Load);
        match (actual, expected) {
            (Ok(access), Ok((bytes, first))) => {
                assert_eq!(access.bytes(), bytes);
                let addresses: Vec<_> = (0..first.len()).map(|l| access.address(l).unwrap()).collect();
                assert_eq!(addresses, first);
            }
            (Err(error), Err(text)) => assert_eq!(error.line(), text),
            (actual, _) => panic!("{actual:?}"),
        }
    }

    #[test]
    fn from_layouts() {
        check("32:1", 4, Ok((4, &[0, 4, 8])));
        check("(32,4):(4,1)", 4, Ok((16, &[0, 16, 32])));
        check("((8,4),(2,2)):((4,64),(1,2))", 2, Ok((8, &[0, 8, 16])));
        check("Sw<3,3,3> o 0 o (8,8):(64,1)", 2, Ok((16, &[0, 144, 288])));
        check("Sw<3,3,3> o 64 o (8,8):(64,1)", 2, Ok((16, &[144, 288, 432])));
        check(
            "(32,2):(1,32)",
            4,
            Err("warp access: lane 0's element 1 is at offset 32 instead of 1, so they are not contiguous"),
        );
        check(
            "Sw<3,0,3> o 0 o (8,8):(8,1)",
            2,
            Err("warp access: lane 1's element 1 is at offset 8 instead of 10, so they are not contiguous"),
        );
        check(
            "(32,3):(4,1)",
            4,
            Err(
                "warp access: a lane can move 1, 2, 4, 8 or 16 bytes at once; the bytes per lane, and it is 12",
            ),
        );
        check(
            "64:1",
            4,
            Err("warp access: a warp has at most 32 lanes; the size of the first mode, and it is 64"),
        );
        check(
            "(M,4):(4,1)",
            4,
            Err("warp access: `M` is not known until launch, and the result depends on it"),
        );
    }
}
