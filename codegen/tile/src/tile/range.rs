//! Interval analysis of coordinates: the possible values of a tile program's numbers, over mathematical
//! integers. Independent of how they are computed later; queries are pure.

mod numbers;

use tilewright_layout::{Symbol, Value};

use crate::thread::index::{gcd, lcm};
use crate::tile::empty_loops;
use crate::tile::{Program, Require};
use crate::values::affine::{Affine, Arith, Coord};
use crate::values::condition::Test;
use crate::values::elem::Elem;
use crate::values::id::Id;
pub use crate::values::limits::MOST_EXTENT;
use crate::values::number;

pub use numbers::{Known, Numbers};

/// The largest value of a size in any launch; sizes are not negative.
///
/// ```
/// use tilewright_codegen::range::{MOST_EXTENT, most};
/// use tilewright_layout::Value;
/// assert_eq!(most(Value::Int(7)), 7);
/// assert_eq!(most(Value::symbol("M")), MOST_EXTENT);
/// ```
pub fn most(size: Value) -> i64 {
    match size {
        Value::Int(n) => n,
        Value::Sym { times, over, .. } => {
            let over = i64::from(over.max(1));
            let rounded = MOST_EXTENT.div_euclid(over) + i64::from(MOST_EXTENT % over != 0);
            rounded.saturating_mul(times)
        }
        Value::Basis { .. } | Value::Any => MOST_EXTENT,
    }
}

/// The numbers from `lo` to `hi`, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The least.
    pub lo: i128,
    /// The greatest.
    pub hi: i128,
}

impl Range {
    /// `0..n`; just 0 where `n` is not positive.
    pub fn below(n: i64) -> Range {
        Range { lo: 0, hi: i128::from(n.max(1)) - 1 }
    }

    /// One number.
    pub fn only(n: i64) -> Range {
        Range { lo: n.into(), hi: n.into() }
    }

    /// All sums of two numbers.
    pub fn plus(self, other: Range) -> Range {
        Range { lo: self.lo.saturating_add(other.lo), hi: self.hi.saturating_add(other.hi) }
    }

    /// All multiples.
    pub fn times(self, factor: i64) -> Range {
        let (one, other) = (self.lo.saturating_mul(factor.into()), self.hi.saturating_mul(factor.into()));
        Range { lo: one.min(other), hi: one.max(other) }
    }

    /// The range of an element as a coordinate. Fractions are truncated to `i32`, and 64-bit integers clamped to it: numbers
    /// outside are out of bounds of every tensor.
    pub fn of(elem: Elem) -> Range {
        let (lo, hi) = number::range(if elem.is_float() { Elem::I32 } else { elem });
        let (least, most) = number::range(Elem::I32);
        if elem.bits() > 32 { Range { lo: lo.max(least), hi: hi.min(most) } } else { Range { lo, hi } }
    }

    /// All results of an operation on two numbers.
    pub fn two(self, with: Arith, other: Range) -> Range {
        let corners = |of: &dyn Fn(i128, i128) -> i128, (lo, hi): (i128, i128)| {
            let all = [of(self.lo, lo), of(self.lo, hi), of(self.hi, lo), of(self.hi, hi)];
            Range {
                lo: all.into_iter().fold(i128::MAX, i128::min),
                hi: all.into_iter().fold(i128::MIN, i128::max),
            }
        };
        let divisor = (other.lo.max(1), other.hi.max(1));
        match with {
            Arith::Mul => corners(&i128::saturating_mul, (other.lo, other.hi)),
            Arith::Div => corners(&i128::div_euclid, divisor),
            Arith::Rem if self.lo >= 0 => Range { lo: 0, hi: self.hi.min(divisor.1 - 1) },
            Arith::Rem => Range { lo: 0, hi: divisor.1 - 1 },
            Arith::Min => corners(&std::cmp::min, (other.lo, other.hi)),
            Arith::Max => corners(&std::cmp::max, (other.lo, other.hi)),
        }
    }

    /// Does every number fit 32 bits?
    pub fn is_narrow(self) -> bool {
        self.lo >= i128::from(i32::MIN) && self.hi <= i128::from(i32::MAX)
    }

    /// Do every number and the sum of two fit 64 bits? A product of two sizes is one such.
    pub fn is_wide(self) -> bool {
        const ROOM: i128 = 1 << 62;
        self.lo >= -ROOM && self.hi <= ROOM
    }
}

impl Program {
    /// The range of a coordinate.
    pub fn range_of(&self, coord: &Coord) -> Range {
        Numbers::of(self).range_of(coord)
    }

    /// The range of a sum of coordinates, taken as independent.
    pub fn range(&self, sum: &Affine) -> Range {
        Numbers::of(self).range(sum)
    }

    /// Does a loop run at least once for all sizes?
    pub fn runs(&self, var: Id) -> bool {
        if self.zero.is_some_and(|size| empty_loops::is_empty(self, var, size)) {
            return false;
        }
        let var = &self.vars[var as usize];
        var.to.plus(&var.from, -1).is_some_and(|count| self.range(&count).lo >= 1)
    }

    /// The divisor of a size that the author asserts.
    pub fn asserted(&self, of: Value) -> i64 {
        let divisors = self.requires.iter().filter_map(Require::divides);
        divisors.filter(|(size, _)| *size == of).fold(1, |all, (_, n)| lcm(all, n))
    }

    /// A number that divides a sum of coordinates in every launch; 0 for the constant 0.
    pub fn divisor(&self, of: &Affine) -> i64 {
        let term =
            |(coord, factor): &(Coord, i64)| self.divisor_of(coord).checked_mul(*factor).unwrap_or(*factor);
        of.terms.iter().map(term).fold(of.constant, gcd)
    }

    fn divisor_of(&self, coord: &Coord) -> i64 {
        match coord {
            Coord::Size { of, over: 1 } => self.asserted(Value::Sym { times: 1, of: *of, over: 1 }),
            Coord::Two(Arith::Mul, of) => {
                let (a, b) = (self.divisor(&of[0]), self.divisor(&of[1]));
                a.checked_mul(b).unwrap_or(a)
            }
            Coord::Two(Arith::Min | Arith::Max | Arith::Rem, of) => {
                gcd(self.divisor(&of[0]), self.divisor(&of[1]))
            }
            Coord::Submode { of, over: 1, extent: Some(extent) } => gcd(self.divisor(of), *extent),
            _ => 1,
        }
    }

    /// Does the author assert that the second of these numbers divides the first?
    fn is_multiple(&self, of: &[Affine; 2]) -> bool {
        let says = |require: &Require| match &require.test {
            Test::Equal(rest, right) if right.constant() == Some(0) => match (&rest.terms[..], rest.constant)
            {
                ([(Coord::Two(Arith::Rem, rest), 1)], 0) => **rest == *of,
                _ => false,
            },
            _ => false,
        };
        self.requires.iter().any(says)
    }

    /// The least number that a size can be.
    pub fn least(&self, size: Symbol) -> i64 {
        let plain = Value::Sym { times: 1, of: size, over: 1 };
        self.at_least.iter().find(|(known, _)| *known == plain).map_or(1, |(_, limit)| *limit)
    }

    /// A size, or a count of tiles, by the sizes that it is computed from or asserted to be equal to.
    pub fn canonical(&self, size: Value) -> Value {
        /// Assertions may say `M == N` and `N == M`.
        const MOST: usize = 8;
        let mut size = size;
        for _ in 0..MOST {
            let Value::Sym { times, of, over } = size else { break };
            let own = Value::Sym { times: 1, of, over: 1 };
            let equal = self.requires.iter().find_map(|require| match &require.test {
                Test::Equal(a, b) if a.size() == Some(own) => b.size(),
                Test::Equal(a, b) if b.size() == Some(own) && !is_size(a) => a.size(),
                _ => None,
            });
            let tiles = |of: Value| of.ceil_div(over.into())?.times(Value::Int(times));
            match equal.and_then(tiles) {
                Some(equal) => size = equal,
                None => break,
            }
        }
        size
    }

    /// Is a size, or a count of tiles, known to be at least another: by how they are computed, or by an assertion?
    pub(crate) fn is_at_least(&self, longer: Value, shorter: Value) -> bool {
        let (Value::Sym { times, of, over }, Value::Sym { times: other, of: than, over: tile }) =
            (longer, shorter)
        else {
            return false;
        };
        let size = |of: Symbol| Affine::from(Value::Sym { times: 1, of, over: 1 });
        let computed = |of: Symbol| match self.requires.iter().find(|require| require.of == Some(of)) {
            Some(Require { test: Test::Equal(_, computed), .. }) => computed.clone(),
            _ => size(of),
        };
        let alike = (times, over) == (other, tile);
        // Otherwise by the numbers of tiles, where these divide the sizes.
        let tiles = |of: Symbol, times: i64, over: u32| computed(of).over(over.into())?.times(times);
        let apart = match alike {
            true => computed(of).plus(&computed(than), -1),
            false => tiles(of, times, over).zip(tiles(than, other, tile)).and_then(|(a, b)| a.plus(&b, -1)),
        };
        // An extent that is computed from as many tiles.
        let extent =
            |of: Symbol| (times == 1 && over == 1).then(|| computed(of).plus(&shorter.into(), -1))?;
        let apart = [apart, extent(of)];
        let message = Test::Less(size(of), size(than)).negated();
        apart.into_iter().flatten().any(|apart| self.range(&apart).lo >= 0)
            || alike && self.requires.iter().any(|require| require.test == message)
    }

    /// A size as the author wrote it: an extent that is computed by how it is computed.
    pub fn written(&self, size: Value) -> String {
        let Value::Sym { times, of, over } = size else { return size.to_string() };
        match self.requires.iter().find(|require| require.of == Some(of)) {
            None => size.to_string(),
            Some(require) if times == 1 && over == 1 => require.text.clone(),
            Some(require) => size.to_string().replace(of.name(), &format!("({})", require.text)),
        }
    }

    /// A size that is a strict upper bound of a nonnegative number, for its multiples too. It is derived
    /// for tile coordinates, so that tiles are known to begin in bounds.
    pub(crate) fn below(&self, of: &Coord) -> Option<Value> {
        match of {
            Coord::Block(axis) if self.more[usize::from(*axis)].is_empty() => self.grid[usize::from(*axis)],
            // Clamped to the last.
            Coord::Two(Arith::Min, of) if of.iter().all(|of| self.range(of).lo >= 0) => {
                let last = |end: &Affine| match (&end.terms[..], end.constant) {
                    (&[(Coord::Size { of, over }, times)], -1) if times > 0 => {
                        Some(Value::Sym { times, of, over })
                    }
                    _ => None,
                };
                of.iter().find_map(last)
            }
            Coord::Var(var) => {
                let var = &self.vars[*var as usize];
                let begun = self.range(&var.from).lo >= 0;
                begun.then(|| self.not_above(&var.to)).flatten()
            }
            _ => None,
        }
    }

    /// A sum that is at least this one, with the end of a loop instead of its variable: `n - 1` for `3 * k + block.x` in a loop over
    /// `0..ceil_div(n - block.x, 3)`.
    pub(crate) fn ceiling(&self, sum: &Affine) -> Option<Affine> {
        sum.terms.iter().find_map(|(coord, factor)| {
            let Coord::Var(var) = coord else { return None };
            let end = &self.vars[*var as usize].to;
            let &[(Coord::Submode { ref of, over, extent: None }, 1)] = &end.terms[..] else { return None };
            let (times, after) = (factor / over, end.constant - 1);
            let others = sum.plus(&coord.clone().into(), -factor)?.plus(&after.into(), *factor)?;
            (times > 0 && factor % over == 0).then(|| others.plus(of, times))?
        })
    }

    /// The most blocks along an axis, blocks that fill the last cluster included.
    pub fn most_blocks(&self, axis: usize) -> i64 {
        let most = |size: Value| i64::try_from(self.range(&size.into()).hi).unwrap_or(i64::MAX);
        let more = self.more[axis].iter().map(|size| most(*size));
        let all = more.fold(self.grid[axis].map_or(MOST_EXTENT, most), i64::saturating_mul);
        let cluster = i64::from(self.cluster[axis].max(1));
        // The limit of all devices.
        all.saturating_add(cluster - 1)
            .min(i64::from(i32::MAX))
            .div_euclid(cluster)
            .saturating_mul(cluster)
            .max(1)
    }

    /// A size that is an upper bound of a number.
    fn not_above(&self, end: &Affine) -> Option<Value> {
        if let Some(size) = end.size() {
            return Some(size);
        }
        match (&end.terms[..], end.constant) {
            // One more than an inclusive bound.
            ([(coord, 1)], ..=1) => match coord {
                Coord::Two(Arith::Min, of) if end.constant <= 0 => {
                    let symbol = |size: &Value| matches!(size, Value::Sym { .. });
                    let ends = || of.iter().filter_map(|end| self.not_above(end));
                    ends().find(symbol).or_else(|| ends().next())
                }
                // A quotient, by the same quotient rounded up.
                Coord::Submode { of, over, extent: None } if self.range(of).lo >= 0 && end.constant <= 0 => {
                    self.not_above(of)?.ceil_div(*over)
                }
                coord => self.below(coord),
            },
            _ => None,
        }
    }

    /// Threads of a group, or of one member of a family.
    pub fn threads_of(&self, group: u32) -> u32 {
        self.groups[group as usize].member_warps().map_or_else(|| self.threads(), |warps| warps * 32)
    }
}

/// Is it one size itself?
fn is_size(of: &Affine) -> bool {
    matches!(of.size(), Some(Value::Sym { times: 1, over: 1, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::Var;

    fn program() -> Program {
        let mut program = Program::new("k");
        program.groups[0].threads = 96;
        program.grid[0] = Value::symbol("M").ceil_div(128);
        program.vars.push(Var::new("k", Value::Int(5)));
        program
    }

    #[track_caller]
    fn check(affine: Affine, lo: i128, hi: i128) {
        assert_eq!(program().range(&affine), Range { lo, hi });
    }

    #[test]
    fn tiles_that_cover_an_extent_begin_inside_it() {
        let first = Affine::from(Coord::Block(0)).times(128).unwrap();
        let Range { lo, hi } = program().range(&first);
        assert!(lo == 0 && hi < i128::from(MOST_EXTENT) && hi + 128 >= i128::from(MOST_EXTENT));
    }

    #[test]
    fn sums_and_digits() {
        let k = Affine::from(Coord::Var(0));
        check(k.times(-1000).unwrap(), -4000, 0);
        check(k.plus(&Coord::Thread(0).into(), 10).unwrap(), 0, 954);
        check(Affine::from(Coord::Thread(0)).submode(32, None), 0, 2);
        check(Affine::from(Coord::Thread(0)).submode(1, Some(32)), 0, 31);
        check(Affine::from(Coord::Thread(0)).submode(32, Some(8)), 0, 2);
        check(Coord::Swizzled(0, (1, 0, 3)).into(), 0, 127);
        check(k.plus(&(-3).into(), 1).unwrap().submode(2, None), -2, 0);
    }

    #[test]
    fn ranges_do_not_overflow() {
        let far = Affine::from(Coord::Block(0)).times(i64::MAX).unwrap();
        let range = program().range(&far);
        assert!(!range.is_narrow() && !range.is_wide());
        assert_eq!(most(Value::symbol("M")), MOST_EXTENT);
    }

    #[test]
    fn products_of_sizes() {
        let mut program = program();
        program.grid[1] = Some(Value::symbol("U"));
        let size = |name: &str| Affine::from(Value::symbol(name));
        let product = Affine::two(Arith::Mul, &Coord::Block(1).into(), &size("W")).unwrap();
        assert!(program.range(&product).is_wide());
        // Coordinates of a tensor of extent W, scaled from coordinates of a tensor of extent U.
        let scaled = Affine::two(Arith::Div, &product, &size("U")).unwrap();
        assert_eq!(program.range(&scaled), Range { lo: 0, hi: MOST_EXTENT.into() });
        let other = Affine::two(Arith::Div, &product, &size("V")).unwrap();
        assert!(program.range(&other).hi > MOST_EXTENT.into());
    }
}
