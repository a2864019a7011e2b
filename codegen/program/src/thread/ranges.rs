//! Ranges of the integers that elements are computed with. Arithmetic on them wraps, so an operation that can overflow has
//! the range of its type.

use super::{Bin, Cmp, Kernel, Un, Val, Vote};
use crate::values::elem::Elem;
use crate::values::number;

/// The least and the greatest value of an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The least.
    pub lo: i128,
    /// The greatest.
    pub hi: i128,
}

impl Interval {
    /// All numbers of an integer type; for a floating-point type all of 64 bits.
    pub fn of(elem: Elem) -> Interval {
        let (lo, hi) = number::range(if elem.is_float() { Elem::I64 } else { elem });
        Interval { lo, hi }
    }

    /// One number.
    pub fn only(n: i128) -> Interval {
        Interval { lo: n, hi: n }
    }

    /// Is a number among them?
    pub fn has(self, n: i128) -> bool {
        self.lo <= n && n <= self.hi
    }

    /// Are all of them among others?
    pub fn is_within(self, other: Interval) -> bool {
        other.lo <= self.lo && self.hi <= other.hi
    }

    /// The numbers of either.
    pub fn or(self, other: Interval) -> Interval {
        Interval { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    fn corners(self, other: Interval, of: impl Fn(i128, i128) -> i128) -> Interval {
        let all = [(self.lo, other.lo), (self.lo, other.hi), (self.hi, other.lo), (self.hi, other.hi)];
        let all = all.map(|(x, y)| of(x, y));
        Interval {
            lo: all.into_iter().fold(i128::MAX, i128::min),
            hi: all.into_iter().fold(i128::MIN, i128::max),
        }
    }
}

impl Un {
    /// The results for integers, if they were not bounded by a type.
    pub fn interval(self, x: Interval) -> Option<Interval> {
        let negated = Interval { lo: -x.hi, hi: -x.lo };
        match self {
            Un::Neg => Some(negated),
            Un::Abs if x.lo >= 0 => Some(x),
            Un::Abs if x.hi <= 0 => Some(negated),
            Un::Abs => Some(Interval { lo: 0, hi: x.hi.max(-x.lo) }),
            Un::CountOnes | Un::LeadingZeros => Some(Interval { lo: 0, hi: 64 }),
            Un::Apart => Some(x),
            _ => None,
        }
    }
}

impl Bin {
    /// The results for integers, if they were not bounded by a type; `None` if the operation is undefined for some
    /// operands, or its results are unknown. Integers have `bits` bits.
    pub fn interval(self, x: Interval, y: Interval, bits: u32) -> Option<Interval> {
        let is_distance = y.is_within(Interval { lo: 0, hi: i128::from(bits) - 1 });
        // All bits up to the highest one of either.
        let all = |x: Interval, y: Interval| i128::MAX >> ((x.hi | y.hi).leading_zeros() - 1);
        match self {
            Bin::Add => Some(x.corners(y, i128::saturating_add)),
            Bin::Sub => Some(x.corners(y, i128::saturating_sub)),
            Bin::Mul => Some(x.corners(y, i128::saturating_mul)),
            Bin::Div if y.lo > 0 || y.hi < 0 => Some(x.corners(y, |x, y| x / y)),
            Bin::Rem if y.lo > 0 || y.hi < 0 => {
                let most = y.lo.abs().max(y.hi.abs()) - 1;
                Some(Interval { lo: x.lo.clamp(-most, 0), hi: x.hi.clamp(0, most) })
            }
            Bin::Min => Some(Interval { lo: x.lo.min(y.lo), hi: x.hi.min(y.hi) }),
            Bin::Max => Some(Interval { lo: x.lo.max(y.lo), hi: x.hi.max(y.hi) }),
            Bin::And if x.lo >= 0 && y.lo >= 0 => Some(Interval { lo: 0, hi: x.hi.min(y.hi) }),
            Bin::And if x.lo >= 0 => Some(Interval { lo: 0, hi: x.hi }),
            Bin::And if y.lo >= 0 => Some(Interval { lo: 0, hi: y.hi }),
            Bin::Or | Bin::Xor if x.lo >= 0 && y.lo >= 0 => Some(Interval { lo: 0, hi: all(x, y) }),
            Bin::Shl if is_distance => Some(x.corners(y, |x, y| x.saturating_mul(1 << y))),
            Bin::Shr if is_distance => Some(x.corners(y, |x, y| x >> y)),
            _ => None,
        }
    }
}

impl Kernel {
    /// The ranges of the operands of the product and of the sum in `a * b + c`.
    pub fn intervals_of_sum(&self, parts: &[Val; 3]) -> [[Interval; 2]; 2] {
        // Integers of 8 and 16 bits are computed with 32, so their product may exceed their type.
        let all = Interval::of(match self.type_of(&parts[2]) {
            elem if elem.is_float() || elem.is_word() => elem,
            _ => Elem::I32,
        });
        let [a, b, c] = parts.each_ref().map(|part| self.interval_of(part));
        let bits = self.type_of(&parts[2]).working_bits();
        let product = Bin::Mul.interval(a, b, bits).filter(|product| product.is_within(all)).unwrap_or(all);
        [[a, b], [product, c]]
    }

    /// The range of an integer; of a floating-point number all of 64 bits.
    pub fn interval_of(&self, value: &Val) -> Interval {
        let elem = self.type_of(value);
        let all = Interval::of(elem);
        if elem.is_float() {
            return all;
        }
        let of = |x: &Val| self.interval_of(x);
        let exact = match value {
            Val::Reg(..) | Val::Param(_) | Val::Bits(..) | Val::Product(..) | Val::Ptx { .. } => None,
            Val::Lit(n, _) => n.int().map(Interval::only),
            Val::Int(at, _) => {
                let known = self.exprs.get(*at);
                Some(Interval { lo: known.lo.into(), hi: known.hi.into() })
            }
            Val::Un(f, x) => f.interval(of(x)),
            Val::Bin(f, x, y) => f.interval(of(x), of(y), elem.working_bits()),
            Val::Fma(parts) => {
                let [_, [product, c]] = self.intervals_of_sum(parts);
                Bin::Add.interval(product, c, elem.working_bits())
            }
            Val::Cast(_, x) if self.type_of(x).is_float() => None,
            Val::Cast(_, x) => Some(of(x)),
            Val::Cmp(Cmp::Lt | Cmp::Le | Cmp::Eq | Cmp::Ne, ..) => Some(Interval { lo: 0, hi: 1 }),
            Val::Pick(parts) => Some(of(&parts[1]).or(of(&parts[2]))),
            Val::Shuffle(x, _) | Val::Vote(Vote::All(Bin::Min | Bin::Max), x) => Some(of(x)),
            Val::Vote(..) => None,
        };
        exact.filter(|exact| exact.is_within(all)).unwrap_or(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of an operation in mathematics; `None` if there is none.
    fn exact(f: Bin, x: i128, y: i128) -> Option<i128> {
        match f {
            Bin::Add => Some(x + y),
            Bin::Sub => Some(x - y),
            Bin::Mul => Some(x * y),
            Bin::Div => x.checked_div(y),
            Bin::Rem => x.checked_rem(y),
            Bin::Min => Some(x.min(y)),
            Bin::Max => Some(x.max(y)),
            Bin::And => Some(x & y),
            Bin::Or => Some(x | y),
            Bin::Xor => Some(x ^ y),
            Bin::Shl => (0..32).contains(&y).then(|| x << y),
            Bin::Shr => (0..32).contains(&y).then(|| x >> y),
            Bin::Pow | Bin::CopySign | Bin::MulHigh | Bin::FastDiv => None,
        }
    }

    #[test]
    fn results_are_in_their_ranges() {
        let ends = [-33i128, -5, -1, 0, 1, 4, 31, 40];
        let ranges = ends
            .iter()
            .enumerate()
            .flat_map(|(at, &lo)| ends[at..].iter().map(move |&hi| Interval { lo, hi }));
        let ranges: Vec<Interval> = ranges.collect();
        use Bin::*;
        for f in [Add, Sub, Mul, Div, Rem, Min, Max, And, Or, Xor, Shl, Shr] {
            for (x, y) in ranges.iter().flat_map(|x| ranges.iter().map(move |y| (*x, *y))) {
                let Some(range) = f.interval(x, y, 32) else { continue };
                for (a, b) in (x.lo..=x.hi).flat_map(|a| (y.lo..=y.hi).map(move |b| (a, b))) {
                    // An operation with a range is defined for all operands.
                    let result = exact(f, a, b).unwrap_or_else(|| panic!("{f:?} of {a} and {b}"));
                    assert!(
                        range.has(result),
                        "{f:?} of {a} in {x:?} and {b} in {y:?} is outside of {range:?}"
                    );
                }
            }
        }
        for x in ranges {
            for n in x.lo..=x.hi {
                assert!(Un::Neg.interval(x).is_some_and(|range| range.has(-n)), "{n} in {x:?}");
                assert!(Un::Abs.interval(x).is_some_and(|range| range.has(n.abs())), "{n} in {x:?}");
            }
        }
    }
}
