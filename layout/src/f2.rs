//! [`BitMatrix`]: layouts whose extents are powers of two as linear maps over F2, the field of two elements.
//!
//! The bits of the coordinate are the input, the bits of the offset the output, and addition is XOR. A
//! swizzle is a matrix like any other, bank conflicts are ranks, and coordinates that share an offset differ
//! by a kernel element.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::error::{Condition, LayoutError, Operand, Result};
use crate::few::Few;
use crate::layout::Layout;
use crate::swizzle::{Composed, Swizzle};
use crate::text::Reader;
use crate::tuple::Tuple;
use crate::value::Value;

/// `x ↦ origin ^ (the XOR of a column for every bit set in x)`.
///
/// Written as its columns, lowest input bit first, and the origin if it is not 0: `[1,2,36]^8`. The alternate
/// form `{:#}` draws the matrix, one line for each output bit, highest first.
///
/// ```
/// use tilewright_layout::{BitMatrix, Composed, layout};
/// let tile: Composed = "Sw<2,0,2> o 0 o (4,4):(4,1)".parse()?;
/// let bits = BitMatrix::of(&tile)?;
/// assert_eq!(bits.to_string(), "[5,10,1,2]");
/// assert_eq!(bits.apply(0b0111) as i64, tile.eval(0b0111).unwrap());
/// assert_eq!((bits.rank(), bits.project(0..2).rank()), (4, 2));
/// assert_eq!(format!("{bits:#}"), "0 1 0 0\n1 0 0 0\n0 1 0 1\n1 0 1 0");
/// # Ok::<(), tilewright_layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BitMatrix {
    columns: Few<u64>,
    origin: u64,
}

impl BitMatrix {
    /// The matrix of a layout: a column for every bit of the coordinate, leaf by leaf, leftmost leaf first.
    ///
    /// It exists exactly if every extent is a power of two and no two bits of the coordinate change the same
    /// bit of the offset: then additions never carry. Otherwise the error names the two bits. Swizzles are
    /// always linear.
    ///
    /// ```
    /// use tilewright_layout::{BitMatrix, layout};
    /// assert_eq!(BitMatrix::of(layout!((4, 2) : (2, 1)))?.to_string(), "[2,4,1]");
    /// let error = BitMatrix::of(layout!((4, 2) : (1, 3))).unwrap_err();
    /// assert_eq!(error.line(), "bit matrix: coordinates 1 and 4 both change bit 0 of the offset, and adding them \
    ///     carries (at coordinate 5)");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn of(layout: impl Into<Composed>) -> Result<BitMatrix> {
        let view: Composed = layout.into();
        BitMatrix::read(&view).map_err(|e| e.within("bit matrix", [Operand::from(&view)]))
    }

    fn read(view: &Composed) -> Result<BitMatrix> {
        let refuse = |condition| Err(LayoutError::new("", condition));
        let (swizzle, offset) = (view.swizzle(), view.offset());
        // Let `d` be the bits in which `offset + column` differs from `offset`. Sums of columns are XORs
        // exactly if the `d` are disjoint, since the sum of a pair differs from the XOR by twice their
        // common bits, signs included.
        let mut plain: Few<u64> = Few::empty(0);
        let (mut lowest, mut highest) = (offset, offset);
        for (leaf, (extent, stride)) in view.layout().leaves().enumerate() {
            let (Value::Int(extent), Value::Int(stride)) = (extent, stride) else {
                let value = if extent.int().is_some() { stride } else { extent };
                return refuse(Condition::Symbolic { value });
            };
            if extent.count_ones() != 1 {
                return refuse(Condition::NotPowerOfTwo { leaf, extent });
            }
            for bit in 0..extent.trailing_zeros() {
                let step = stride << bit; // in range: see Layout::recheck
                let end = if step < 0 { &mut lowest } else { &mut highest };
                match end.checked_add(step) {
                    Some(next) => *end = next,
                    None => return refuse(Condition::Overflow { leaf: Some(leaf) }),
                }
                plain.push(offset.wrapping_add(step) as u64 ^ offset as u64);
            }
        }
        if lowest < 0 {
            return refuse(Condition::NegativeOffset { offset: lowest });
        }
        let mut taken = 0;
        for (i, &changes) in plain.iter().enumerate() {
            if taken & changes != 0 {
                let clash = plain.iter().position(|other| other & changes != 0).unwrap_or(0);
                let shared = (plain[clash] & changes).trailing_zeros();
                let coords = (1i64 << clash, 1i64 << i);
                let error = LayoutError::new("", Condition::BitsCollide { coords, shared });
                return Err(error.because(Tuple::from(coords.0 + coords.1)));
            }
            taken |= changes;
        }
        for column in plain.iter_mut() {
            *column = swizzle.apply(*column as i64) as u64;
        }
        Ok(BitMatrix { columns: plain, origin: swizzle.apply(offset) as u64 })
    }

    /// The matrix with these columns; at most 64.
    ///
    /// ```
    /// use tilewright_layout::BitMatrix;
    /// assert_eq!(BitMatrix::from_columns(&[1, 3], 0)?.apply(0b11), 2);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn from_columns(columns: &[u64], origin: u64) -> Result<BitMatrix> {
        if columns.len() > 64 {
            let (what, value) = ("a bit matrix has at most 64 columns", columns.len() as i64);
            return Err(LayoutError::new("bit matrix", Condition::BadArgument { what, value }));
        }
        Ok(BitMatrix { columns: columns.iter().copied().collect(), origin })
    }

    /// The matrix of a swizzle on offsets of this many bits.
    ///
    /// ```
    /// use tilewright_layout::{BitMatrix, Swizzle};
    /// assert_eq!(BitMatrix::of_swizzle(Swizzle::new(1, 0, 2)?, 3)?.to_string(), "[1,2,5]");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn of_swizzle(swizzle: Swizzle, bits: u32) -> Result<BitMatrix> {
        let columns: Vec<u64> = (0..bits.min(63)).map(|bit| swizzle.apply(1 << bit) as u64).collect();
        BitMatrix::from_columns(&columns, 0)
    }

    /// The change of the offset by each bit of the coordinate, lowest bit first.
    pub fn columns(&self) -> &[u64] {
        &self.columns
    }

    /// The offset of coordinate 0.
    pub fn origin(&self) -> u64 {
        self.origin
    }

    /// The number of bits of the coordinate.
    pub fn inputs(&self) -> u32 {
        self.columns.len() as u32
    }

    /// One more than the highest bit that an offset can have set.
    pub fn outputs(&self) -> u32 {
        let all = self.columns.iter().fold(self.origin, |all, column| all | column);
        64 - all.leading_zeros()
    }

    /// The offset of a coordinate; bits above the inputs are ignored.
    pub fn apply(&self, coord: u64) -> u64 {
        let mut offset = self.origin;
        for (bit, column) in self.columns.iter().enumerate() {
            if coord >> bit & 1 == 1 {
                offset ^= column;
            }
        }
        offset
    }

    /// First `inner`, then `self`: `x ↦ self.apply(inner.apply(x))`. All bits that `inner` can set must be
    /// inputs here.
    ///
    /// ```
    /// use tilewright_layout::{BitMatrix, Swizzle, layout};
    /// let tile = BitMatrix::of(layout!((4, 4) : (4, 1)))?;
    /// let swizzle = BitMatrix::of_swizzle(Swizzle::new(2, 0, 2)?, 4)?;
    /// assert_eq!(swizzle.product(&tile)?.to_string(), "[5,10,1,2]");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn product(&self, inner: &BitMatrix) -> Result<BitMatrix> {
        if inner.outputs() > self.inputs() {
            let (what, rank, against) =
                ("bits of the right matrix's offsets", inner.outputs() as usize, self.inputs() as usize);
            let operands = [Operand::Text(self.to_string()), Operand::Text(inner.to_string())];
            return Err(LayoutError::new("product", Condition::DoesNotFit { what, rank, against })
                .within("product", operands));
        }
        Ok(BitMatrix {
            columns: inner.columns.iter().map(|&c| self.apply(c) ^ self.origin).collect(),
            origin: self.apply(inner.origin),
        })
    }

    /// The same map on fewer coordinates: only these input bits, the others 0.
    ///
    /// ```
    /// use tilewright_layout::{BitMatrix, layout};
    /// let tv = BitMatrix::of(layout!((32, 4) : (4, 1)))?;
    /// assert_eq!(tv.restrict(0..5).to_string(), "[4,8,16,32,64]"); // the lanes alone
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn restrict(&self, inputs: Range<u32>) -> BitMatrix {
        let range = clip(&inputs, self.inputs());
        BitMatrix {
            columns: self.columns[range.start as usize..range.end as usize].iter().copied().collect(),
            origin: self.origin,
        }
    }

    /// Only these bits of the offset, moved down to bit 0.
    ///
    /// ```
    /// use tilewright_layout::{BitMatrix, layout};
    /// let lanes = BitMatrix::of(layout!(32 : 16))?; // byte addresses
    /// assert_eq!(lanes.project(2..7).rank(), 3); // they reach 8 of the 32 banks
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn project(&self, outputs: Range<u32>) -> BitMatrix {
        let range = clip(&outputs, 64);
        let pick = |bits: u64| match range.end - range.start {
            0 => 0,
            width => bits >> range.start & (u64::MAX >> (64 - width)),
        };
        BitMatrix { columns: self.columns.iter().map(|&c| pick(c)).collect(), origin: pick(self.origin) }
    }

    /// The dimension of the image: there are `2^rank` distinct offsets.
    ///
    /// ```
    /// use tilewright_layout::{BitMatrix, layout};
    /// assert_eq!(BitMatrix::of(layout!((4, 2) : (0, 1)))?.rank(), 1);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn rank(&self) -> u32 {
        rank(&mut self.columns.clone())
    }

    /// Is the map injective?
    pub fn is_injective(&self) -> bool {
        self.rank() == self.inputs()
    }

    /// A basis of the kernel: `apply(x) == apply(x ^ k)` for every `k` in it.
    ///
    /// ```
    /// use tilewright_layout::{BitMatrix, layout};
    /// assert_eq!(BitMatrix::of(layout!((4, 2) : (0, 1)))?.kernel(), [0b001, 0b010]);
    /// assert_eq!(BitMatrix::from_columns(&[1, 2, 3], 0)?.kernel(), [0b111]);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn kernel(&self) -> Vec<u64> {
        let mut basis: Vec<(u64, u64)> = Vec::new(); // an image, and the coordinate it belongs to
        let mut kernel = Vec::new();
        for (bit, &column) in self.columns.iter().enumerate() {
            let (mut image, mut coord) = (column, 1u64 << bit);
            for &(other, from) in &basis {
                // each image in the basis is reduced by the highest bit of those before it
                if image ^ other < image {
                    image ^= other;
                    coord ^= from;
                }
            }
            if image == 0 {
                kernel.push(coord);
            } else {
                let at = basis.partition_point(|&(other, _)| other > image);
                basis.insert(at, (image, coord));
            }
        }
        kernel
    }

    /// The layout with this matrix, if a layout without a swizzle has it: the origin is 0 and no two columns
    /// share a bit.
    ///
    /// ```
    /// use tilewright_layout::{BitMatrix, layout};
    /// let tile = BitMatrix::of(layout!((4, (2, 2)) : (4, (2, 1))))?;
    /// assert_eq!(tile.to_layout()?.unwrap().to_string(), "(4,2,2):(4,2,1)");
    /// assert_eq!(BitMatrix::from_columns(&[1, 3], 0)?.to_layout()?, None);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn to_layout(&self) -> Result<Option<Layout>> {
        if self.origin != 0 {
            return Ok(None);
        }
        let mut taken = 0;
        for &column in self.columns.iter() {
            if taken & column != 0 || column > i64::MAX as u64 {
                return Ok(None);
            }
            taken |= column;
        }
        let strides: Vec<i64> = self.columns.iter().map(|&c| c as i64).collect();
        if strides.is_empty() {
            return Ok(Some(Layout::new(1, 0)?));
        }
        let shape = Tuple::flat(&vec![2; strides.len()]);
        Ok(Some(Layout::new(shape, Tuple::flat(&strides))?.coalesce()))
    }
}

fn clip(range: &Range<u32>, most: u32) -> Range<u32> {
    let end = range.end.min(most);
    range.start.min(end)..end
}

/// The rank of these columns, which are overwritten.
pub(crate) fn rank(columns: &mut [u64]) -> u32 {
    let mut rank = 0;
    let mut at = 0;
    while at < columns.len() {
        let pivot = columns[at];
        if pivot != 0 {
            rank += 1;
            let low = pivot & pivot.wrapping_neg();
            let mut other = at + 1;
            while other < columns.len() {
                if columns[other] & low != 0 {
                    columns[other] ^= pivot;
                }
                other += 1;
            }
        }
        at += 1;
    }
    rank
}

impl fmt::Display for BitMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            for row in (0..self.outputs()).rev() {
                for (i, column) in self.columns.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { " " } else { "" }, column >> row & 1)?;
                }
                if self.origin != 0 {
                    write!(f, " ^ {}", self.origin >> row & 1)?;
                }
                if row > 0 {
                    f.write_str("\n")?;
                }
            }
            return Ok(());
        }
        f.write_str("[")?;
        for (i, column) in self.columns.iter().enumerate() {
            write!(f, "{}{column}", if i > 0 { "," } else { "" })?;
        }
        f.write_str("]")?;
        if self.origin != 0 {
            write!(f, "^{}", self.origin)?;
        }
        Ok(())
    }
}

impl fmt::Debug for BitMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for BitMatrix {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<BitMatrix> {
        let mut reader = Reader::new("bit matrix", text);
        reader.need(b'[', "`[` and the columns of a bit matrix")?;
        let mut columns = Vec::new();
        if !reader.take(b']') {
            loop {
                columns.push(reader.number(false)? as u64);
                if reader.take(b']') {
                    break;
                }
                reader.need(b',', "`,` or `]`")?;
            }
        }
        let origin = if reader.take(b'^') { reader.number(false)? as u64 } else { 0 };
        reader.end("the end of the bit matrix")?;
        BitMatrix::from_columns(&columns, origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(layout: &str, expected: &str) {
        let layout: Composed = layout.parse().unwrap();
        match BitMatrix::of(&layout) {
            Ok(matrix) => {
                assert_eq!(matrix.to_string(), expected);
                assert_eq!(expected.parse::<BitMatrix>().unwrap(), matrix);
            }
            Err(error) => assert_eq!(error.line(), expected),
        }
    }

    #[test]
    fn of_layouts() {
        check("1:0", "[]");
        check("8:1", "[1,2,4]");
        check("(4,(2,2)):(1,(16,4))", "[1,2,16,4]");
        check("2:3", "[3]");
        check("(2,2):(3,4)", "[3,4]");
        check("(4,2):(0,1)", "[0,0,1]");
        check("Sw<3,0,3> o 0 o (8,8):(8,1)", "[9,18,36,1,2,4]");
        check("Sw<3,0,3> o 16 o 8:1", "[1,2,4]^18");
        check("Sw<0,0,0> o 7 o (2,4):(-1,-2)", "[1,2,4]^7"); // counting down
        check("Sw<0,0,0> o 1 o 2:1", "[3]^1");
        check(
            "(6,2):(1,8)",
            "bit matrix: the extent 6 of leaf 0 is not a power of two, so its coordinate has no bits of its own",
        );
        check(
            "(2,2):(1,1)",
            "bit matrix: coordinates 1 and 2 both change bit 0 of the offset, and adding them carries (at coordinate 3)",
        );
        check(
            "4:3",
            "bit matrix: coordinates 1 and 2 both change bit 1 of the offset, and adding them carries (at coordinate 3)",
        );
        check(
            "Sw<0,0,0> o 1 o (2,2):(1,2)",
            "bit matrix: coordinates 1 and 2 both change bit 1 of the offset, and adding them carries (at coordinate 3)",
        );
        check("2:-1", "bit matrix: it reaches the negative offset -1");
        check("(M,2):(1,8)", "bit matrix: `M` is not known until launch, and the result depends on it");
    }

    #[test]
    fn text_is_pointed() {
        let error = "[1,x]".parse::<BitMatrix>().unwrap_err();
        assert!(error.line().contains("column 4"), "{}", error.line());
        assert!("[1".parse::<BitMatrix>().is_err());
        assert!("[1]^".parse::<BitMatrix>().is_err());
        assert_eq!("[ 1, 2 ]^8".parse::<BitMatrix>().unwrap().to_string(), "[1,2]^8");
    }
}
