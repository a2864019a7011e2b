//! The smallest difference of two offsets of a layout. Depends on strides alone.

/// The limit of partial sums before giving up. Well-separated strides need one for each mode.
const MOST: u32 = 1 << 20;

/// The smallest `|Σ xᵢ·strideᵢ|` with `|xᵢ| < extentᵢ`, not all zero: 0 if two coordinates share an offset.
pub(crate) struct Closest {
    pub(crate) distance: i64,
    /// One `xᵢ` for each mode: from one of the two elements to the other.
    pub(crate) steps: Vec<i64>,
}

/// Searches modes (extent, stride) with extents over 1 and positive strides, smallest stride first. `None` if
/// that takes too long, which two modes never do.
pub(crate) fn closest(modes: &[(i64, i64)]) -> Option<Closest> {
    if let [one, other] = modes {
        return Some(of_two(*one, *other));
    }
    let mut steps = vec![0; modes.len()];
    steps[0] = 1;
    let mut reach = vec![0i128]; // of the modes before each
    for &(extent, stride) in modes {
        reach.push(reach[reach.len() - 1] + i128::from(extent - 1) * i128::from(stride));
    }
    let best = Closest { distance: modes[0].1, steps };
    let mut search = Search { modes, reach, best, now: vec![0; modes.len()], left: MOST };
    search.walk(modes.len(), 0, true).then_some(search.best)
}

/// By Euclid's algorithm on the strides: its remainders and their multipliers are the best approximations
/// among multipliers of that size.
fn of_two((n, d): (i64, i64), (m, e): (i64, i64)) -> Closest {
    // `distance = |x·d − y·e|`, with the signs of `x` and `y` alike
    let (mut before, mut now) = ((e, 0, 1), (d, 1, 0));
    while now.0 > 0 {
        let times = before.0 / now.0;
        let next = |before: i64, now: i64| before.saturating_add(now.saturating_mul(times));
        let (x, y) = (next(before.1, now.1), next(before.2, now.2));
        if x >= n || y >= m {
            break;
        }
        (before, now) = (now, (before.0 % now.0, x, y));
    }
    Closest { distance: now.0, steps: vec![now.1, -now.2] }
}

struct Search<'a> {
    modes: &'a [(i64, i64)],
    reach: Vec<i128>,
    best: Closest,
    now: Vec<i64>,
    left: u32,
}

impl Search<'_> {
    /// Chooses the steps of the first `open` modes, largest stride first, given the sum of the others. False
    /// when out of time. `still`: all others are zero; then a step and its negative are equivalent.
    fn walk(&mut self, open: usize, sum: i128, still: bool) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let Some(mode) = open.checked_sub(1) else {
            if !still && sum.unsigned_abs() < self.best.distance.unsigned_abs().into() {
                self.best = Closest { distance: sum.unsigned_abs() as i64, steps: self.now.clone() };
            }
            return true;
        };
        let (extent, stride) = (i128::from(self.modes[mode].0), i128::from(self.modes[mode].1));
        // Prune sums that the smaller modes cannot bring below the best.
        let within = |best: i64| i128::from(best) - 1 + self.reach[mode];
        let most = within(self.best.distance);
        let first = (-(most + sum)).div_euclid(stride) + i128::from((-(most + sum)).rem_euclid(stride) != 0);
        let last = (most - sum).div_euclid(stride);
        let (first, last) = (first.max(if still { 0 } else { 1 - extent }), last.min(extent - 1));
        let mut step = first;
        while step <= last && self.best.distance > 0 {
            self.now[mode] = step as i64;
            if !self.walk(mode, sum + step * stride, still && step == 0) {
                return false;
            }
            step += 1;
        }
        self.now[mode] = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[track_caller]
    fn check(modes: &[(i64, i64)], expected: i64) {
        let result = closest(modes).unwrap();
        assert_eq!(result.distance, expected);
        let sum: i64 = modes.iter().zip(&result.steps).map(|((_, d), x)| d * x).sum();
        assert_eq!(sum.abs(), expected);
        assert!(modes.iter().zip(&result.steps).all(|((n, _), x)| x.abs() < *n));
    }

    /// Every layout of two and three small modes.
    #[test]
    fn as_by_hand() {
        let brute = |modes: &[(i64, i64)]| {
            let (mut least, mut all) = (i64::MAX, vec![vec![]]);
            for (n, _) in modes {
                all = all.iter().flat_map(|x| (1 - n..*n).map(|y| [&x[..], &[y]].concat())).collect();
            }
            for x in all.iter().filter(|x| x.iter().any(|x| *x != 0)) {
                least = least.min(x.iter().zip(modes).map(|(x, (_, d))| x * d).sum::<i64>().abs());
            }
            least
        };
        for (n, m) in (2..6).flat_map(|n| (2..6).map(move |m| (n, m))) {
            for (d, e) in (1..20).flat_map(|d| (d..20).map(move |e| (d, e))) {
                check(&[(n, d), (m, e)], brute(&[(n, d), (m, e)]));
                if d % 3 == 0 && n < 4 && m < 4 {
                    check(&[(n, d), (m, e), (2, 21)], brute(&[(n, d), (m, e), (2, 21)]));
                }
            }
        }
        check(&[(1_000_000_000, 1_000_000_007), (1_000_000_000, 1_000_000_009)], 1);
    }

    #[test]
    fn distances() {
        check(&[(4, 8)], 8);
        check(&[(2, 2), (3, 3)], 1);
        check(&[(2, 4), (2, 6)], 2);
        check(&[(2, 1), (2, 1)], 0);
        check(&[(2, 1), (2, 2), (2, 3)], 0);
        check(&[(3, 4), (3, 16)], 4);
        check(&[(1_000_000_000, 3), (2, 2_999_999_999)], 2);
        check(&[(2, i64::MAX / 4), (2, i64::MAX / 4 + 5)], 5);
    }
}
