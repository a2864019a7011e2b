//! Interpolation: given values at some indices, a layout that has all of them, or a proof that there is none.
//!
//! A layout writes an index in a mixed radix, its extents, and sums the digits weighted by its strides. Every
//! radix is a coarsening of one with prime extents, so it suffices to try prime ones; for each the strides
//! solve a linear system over the integers, which is solved point by point. The last mode is never wrapped:
//! an extent above the largest index makes no difference.

use crate::error::{Condition, LayoutError, Result};
use crate::layout::Layout;
use crate::value::Value;

/// Larger indices are refused.
const MOST: i64 = 1 << 16;
/// The limit of tried radices.
const MOST_BASES: u32 = 1 << 15;

/// The layout with the fewest prime extents that takes every index to its value. Indices must not be
/// negative.
pub(crate) fn layout_through(mut points: Vec<(i64, i64)>, op: &'static str) -> Result<Layout> {
    let refuse = |condition| Err(LayoutError::new(op, condition));
    let undecided = Condition::Undecided { whether: "whether some layout leads back" };
    points.sort_unstable();
    let last = points.last().map_or(0, |point| point.0);
    if last > MOST {
        return refuse(undecided);
    }
    let mut search = Search { points: &points, last, base: Vec::new(), left: MOST_BASES };
    for deep in 0.. {
        match search.extend(deep, 1, 0, &Strides::none()) {
            Outcome::Strides(strides) => {
                let mut size = 1;
                let mut modes = Vec::new();
                for (mode, stride) in strides.into_iter().enumerate() {
                    let extent = search.base.get(mode).copied().unwrap_or(last / size + 1);
                    modes.push((Value::Int(extent), Value::Int(stride)));
                    size *= extent;
                }
                return Ok(Layout::flat_of(&modes).coalesce());
            }
            Outcome::Deeper => {}
            Outcome::Impossible => return refuse(Condition::NoLayoutThrough { last }),
            Outcome::OutOfTime => return refuse(undecided),
        }
    }
    refuse(undecided)
}

/// A number passed 63 bits.
struct Overflow;

/// The outcome of a search to a depth limit.
enum Outcome {
    Strides(Vec<i64>),
    /// None so far, and there are radices with more extents.
    Deeper,
    Impossible,
    OutOfTime,
}

struct Search<'a> {
    points: &'a [(i64, i64)],
    last: i64,
    base: Vec<i64>,
    left: u32,
}

impl Search<'_> {
    /// Tries radices that begin with the present one, whose extents have the product `size`, with at most
    /// `deep` more extents. The strides fit the first `fitted` points, those below `size`.
    fn extend(&mut self, deep: u32, size: i64, fitted: usize, strides: &Strides) -> Outcome {
        if self.left == 0 {
            return Outcome::OutOfTime;
        }
        self.left -= 1;
        let free = strides.with_another();
        if deep == 0 {
            return match self.fit(free, fitted, i64::MAX) {
                Err(Overflow) => Outcome::OutOfTime,
                Ok(Some((all, _))) => Outcome::Strides(all.one),
                Ok(None) if size * 2 <= self.last => Outcome::Deeper,
                Ok(None) => Outcome::Impossible,
            };
        }
        let mut deeper = false;
        let most = self.last / size;
        for prime in primes().take_while(|prime| *prime <= most) {
            let next = size * prime;
            let (all, upto) = match self.fit(free.clone(), fitted, next) {
                Err(Overflow) => return Outcome::OutOfTime,
                Ok(None) => continue,
                Ok(Some(fits)) => fits,
            };
            self.base.push(prime);
            match self.extend(deep - 1, next, upto, &all) {
                Outcome::Impossible => {}
                Outcome::Deeper => deeper = true,
                done => return done,
            }
            self.base.pop();
        }
        if deeper { Outcome::Deeper } else { Outcome::Impossible }
    }

    /// Restricts the strides to those that also fit the points below `end`. `Err` is an overflow.
    fn fit(
        &self,
        mut strides: Strides,
        from: usize,
        end: i64,
    ) -> std::result::Result<Option<(Strides, usize)>, Overflow> {
        let mut at = from;
        while let Some(&(index, value)) = self.points.get(at).filter(|point| point.0 < end) {
            let mut digits = Vec::with_capacity(strides.one.len());
            let mut rest = index;
            for mode in 0..strides.one.len() {
                // The mode that is being added takes the rest.
                let extent = if mode + 1 < strides.one.len() { self.base[mode] } else { i64::MAX };
                digits.push(rest % extent);
                rest /= extent;
            }
            match strides.narrowed(&digits, value) {
                None => return Err(Overflow),
                Some(false) => return Ok(None),
                Some(true) => at += 1,
            }
        }
        Ok(Some((strides, at)))
    }
}

/// All strides that fit the points so far: one solution, and the basis of the homogeneous solutions.
#[derive(Clone)]
struct Strides {
    one: Vec<i64>,
    free: Vec<Vec<i64>>,
}

impl Strides {
    fn none() -> Strides {
        Strides { one: Vec::new(), free: Vec::new() }
    }

    /// One more mode, of any stride.
    fn with_another(&self) -> Strides {
        let mut more = self.clone();
        more.one.push(0);
        more.free.iter_mut().for_each(|direction| direction.push(0));
        let mut last = vec![0; more.one.len()];
        if let Some(last) = last.last_mut() {
            *last = 1;
        }
        more.free.push(last);
        more
    }

    /// Restricts to `digits · strides = value`; false if there are none. `None` is an overflow.
    fn narrowed(&mut self, digits: &[i64], value: i64) -> Option<bool> {
        let dot = |strides: &[i64]| {
            digits.iter().zip(strides).try_fold(0i64, |sum, (a, b)| sum.checked_add(a.checked_mul(*b)?))
        };
        let missing = value.checked_sub(dot(&self.one)?)?;
        // Euclid's algorithm on the directions, until at most one of them changes this sum.
        let mut moves: Vec<i64> = self.free.iter().map(|direction| dot(direction)).collect::<Option<_>>()?;
        let pivot = loop {
            let changing = || (0..moves.len()).filter(|&i| moves[i] != 0);
            let Some(least) = changing().min_by_key(|&i| moves[i].unsigned_abs()) else {
                return Some(missing == 0);
            };
            let Some(other) = changing().find(|&i| i != least) else {
                break least;
            };
            let times = moves[other] / moves[least];
            moves[other] -= times * moves[least];
            let by = self.free[least].clone();
            add(&mut self.free[other], &by, -times)?;
        };
        if missing % moves[pivot] != 0 {
            return Some(false);
        }
        let by = self.free.remove(pivot);
        add(&mut self.one, &by, missing / moves[pivot])?;
        Some(true)
    }
}

fn add(to: &mut [i64], what: &[i64], times: i64) -> Option<()> {
    for (to, what) in to.iter_mut().zip(what) {
        *to = to.checked_add(what.checked_mul(times)?)?;
    }
    Some(())
}

fn primes() -> impl Iterator<Item = i64> {
    (2i64..).filter(|n| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0))
}
