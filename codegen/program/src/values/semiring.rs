//! Semirings of products on CUDA cores: which operation combines and which one multiplies, and the values of
//! out-of-bounds elements along K that leave sums unchanged.

use crate::source::problem::Result;
use crate::values::elem::Elem;
use crate::values::number::{self, Number};
use crate::values::operation::Bin;
use crate::values::typing::{self, Scalar};

/// `acc = add(acc, mul(a, b))`: the operations of a product.
///
/// ```
/// use tilewright_program::semiring::Semiring;
/// use tilewright_program::{Elem, thread::Bin};
/// let shortest = Semiring { add: Bin::Min, mul: Bin::Add };
/// // ∞ + ∞ is ∞; integers have no such number, and largest + 0 is the largest.
/// assert_eq!(shortest.fills(Elem::F32), Some([f64::INFINITY, f64::INFINITY]));
/// assert_eq!(shortest.fills(Elem::I32), Some([f64::from(i32::MAX), 0.0]));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Semiring {
    /// Combines products; it has an identity, and neither order nor grouping matters.
    pub add: Bin,
    /// Multiplies; it has an identity.
    pub mul: Bin,
}

impl Semiring {
    /// Sums of products.
    pub const SUMS: Semiring = Semiring { add: Bin::Add, mul: Bin::Mul };

    /// The operations that either can be, by the names that kernels use.
    pub const OPERATIONS: [(&'static str, Bin); 7] = [
        ("add", Bin::Add),
        ("mul", Bin::Mul),
        ("min", Bin::Min),
        ("max", Bin::Max),
        ("and", Bin::And),
        ("or", Bin::Or),
        ("xor", Bin::Xor),
    ];

    /// Refuses operations that a type does not have.
    pub fn check(self, elem: Elem) -> Result<()> {
        for operation in [self.add, self.mul] {
            let operand = || Scalar::new(crate::values::expr::Expr::In(0), elem);
            typing::bin(operation, operand(), operand())?;
        }
        Ok(())
    }

    /// A value for each operand whose product changes no sum: the same for both if there is one.
    pub fn fills(self, elem: Elem) -> Option<[f64; 2]> {
        let identity = self.add.identity(elem)?.to_f64();
        let all = [[identity, identity], [identity, self.mul.identity(elem)?.to_f64()]];
        all.into_iter().find(|[x, y]| self.is_neutral(*x, *y, elem))
    }

    /// Does the product of two values change no sum?
    pub fn is_neutral(self, x: f64, y: f64, elem: Elem) -> bool {
        if !elem.is_float() {
            return self.is_neutral_of_integers(x, y, elem);
        }
        let product = match self.mul {
            Bin::Add => x + y,
            Bin::Mul => x * y,
            Bin::Min => x.min(y),
            Bin::Max => x.max(y),
            _ => return false,
        };
        self.add.identity(elem).map(Number::to_f64) == Some(product)
    }

    /// Does this value's product with any element change no sum? Of floating-point types, with any finite element.
    pub fn absorbs(self, x: f64, elem: Elem) -> bool {
        let absorbing = match self.mul {
            Bin::Mul => Bin::Add,
            Bin::Min => Bin::Max,
            Bin::Max => Bin::Min,
            Bin::And => Bin::Or,
            Bin::Or => Bin::And,
            Bin::Add if x.is_infinite() => self.add,
            _ => return false,
        };
        let is_identity = |operation: Bin| operation.identity(elem).map(Number::to_f64) == Some(x);
        is_identity(absorbing) && is_identity(self.add)
    }

    /// The same of integers: a product that does not fit differs from every identity.
    fn is_neutral_of_integers(self, x: f64, y: f64, elem: Elem) -> bool {
        let (least, most) = number::range(elem);
        // The nearest double to the greatest number of 64 bits is one more.
        let [x, y] = [x, y].map(|x| (x as i128).clamp(least, most));
        let product = match self.mul {
            Bin::Add => x + y,
            Bin::Mul => x.saturating_mul(y),
            Bin::Min => x.min(y),
            Bin::Max => x.max(y),
            Bin::And => x & y,
            Bin::Or => x | y,
            Bin::Xor => x ^ y,
            _ => return false,
        };
        self.add.identity(elem) == Some(Number::Int(product))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_operations_has_fills_that_change_no_sum() {
        for elem in [Elem::F32, Elem::F64, Elem::F16, Elem::I32, Elem::U32, Elem::I64, Elem::U64] {
            let all = Semiring::OPERATIONS.map(|(_, operation)| operation);
            for (add, mul) in all.into_iter().flat_map(|add| all.map(|mul| (add, mul))) {
                let with = Semiring { add, mul };
                if with.check(elem).is_ok() {
                    let [x, y] = with.fills(elem).unwrap_or_else(|| panic!("{with:?} of {elem}"));
                    assert!(with.is_neutral(x, y, elem), "{with:?} of {elem}: {x}, {y}");
                }
            }
        }
    }

    #[test]
    fn only_some_fills_absorb_elements() {
        let absorbs = |add, mul, elem| {
            let with = Semiring { add, mul };
            with.fills(elem).is_some_and(|fills| fills.iter().all(|fill| with.absorbs(*fill, elem)))
        };
        assert!(absorbs(Bin::Add, Bin::Mul, Elem::F32) && absorbs(Bin::Min, Bin::Add, Elem::F32));
        assert!(absorbs(Bin::Max, Bin::Min, Elem::I32) && absorbs(Bin::And, Bin::Or, Elem::U8));
        // -∞ times a negative number is ∞; the largest integer plus one is the least; 0 + x is x.
        assert!(!absorbs(Bin::Max, Bin::Mul, Elem::F32) && !absorbs(Bin::Min, Bin::Add, Elem::I32));
        assert!(!absorbs(Bin::Add, Bin::Add, Elem::F32) && !absorbs(Bin::Xor, Bin::Or, Elem::I32));
    }

    #[test]
    fn sums_keep_their_zeros() {
        assert_eq!(Semiring::SUMS.fills(Elem::I8), Some([0.0, 0.0]));
        let powers = Semiring { add: Bin::Max, mul: Bin::Mul };
        assert_eq!(powers.fills(Elem::F32), Some([f64::NEG_INFINITY, 1.0]));
    }
}
