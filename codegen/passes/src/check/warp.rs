//! The values of an index expression in the lanes of a warp, for given block, loop variables and arguments.

use std::collections::HashMap;

use tilewright_layout::{Symbol, Value};

use crate::thread::index::{Int, Ix, lcm};
use crate::thread::visit::preorder;
use crate::thread::{Fact, Id, Kernel, Op, Param};

/// How many lanes a warp has.
pub(super) const LANES: usize = 32;

/// One value for each lane.
pub(super) type Lanes = [i64; LANES];

/// The value assumed for extents and strides that are known only at launch, rounded up to the divisors that
/// the variant's facts guarantee.
const REPRESENTATIVE: i64 = 4096;

/// A warp at some point of a kernel.
pub(super) struct Warp<'k> {
    kernel: &'k Kernel,
    /// Values of named integers.
    names: Vec<Option<Ix>>,
    /// Values of loop variables.
    pub(super) loops: Vec<i64>,
    params: Vec<i64>,
    /// Thread index of lane 0.
    pub(super) first: i64,
    /// Index of the block along each axis.
    pub(super) block: i64,
}

impl<'k> Warp<'k> {
    pub(super) fn new(kernel: &'k Kernel) -> Warp<'k> {
        let mut names = vec![None; kernel.vars.len()];
        for stmt in preorder(&kernel.body) {
            if let Op::Let(id, at) = stmt.op {
                names[id as usize] = Some(at);
            }
        }
        let params = kernel.params.iter().map(|param| match param {
            Param::Int { symbol, .. } => representative(kernel, *symbol),
            _ => 0,
        });
        let params = params.collect();
        Warp { kernel, names, loops: vec![0; kernel.vars.len()], params, first: 0, block: 0 }
    }

    /// The value of a size or stride.
    pub(super) fn value(&self, value: Value) -> Option<i64> {
        value.evaluate(&|symbol| Some(representative(self.kernel, symbol)))
    }

    /// The value of an expression in each lane.
    pub(super) fn at(&self, at: Ix) -> Lanes {
        self.within(at, &mut HashMap::new())
    }

    /// The same, with the values of names that it has already needed: one name may have others in it several times.
    fn within(&self, at: Ix, known: &mut HashMap<Id, Lanes>) -> Lanes {
        let mut both = |x: Ix, y: Ix, f: fn(i64, i64) -> i64| {
            let (mut x, y) = (self.within(x, known), self.within(y, known));
            let mut lane = 0;
            while lane < LANES {
                x[lane] = f(x[lane], y[lane]);
                lane += 1;
            }
            x
        };
        match self.kernel.exprs.get(at).int {
            Int::Const(n) => [n; LANES],
            Int::Var(id) => match self.names[id as usize] {
                Some(of) => match known.get(&id) {
                    Some(lanes) => *lanes,
                    None => {
                        let lanes = self.within(of, known);
                        known.insert(id, lanes);
                        lanes
                    }
                },
                None => [self.loops[id as usize]; LANES],
            },
            Int::Param(id) => [self.params[id as usize]; LANES],
            Int::Thread => {
                let mut lanes = [self.first; LANES];
                let mut lane = 0;
                while lane < LANES {
                    lanes[lane] += lane as i64;
                    lane += 1;
                }
                lanes
            }
            Int::Block(_) => [self.block; LANES],
            Int::Grid(_) => [64; LANES],
            Int::ClusterRank => [0; LANES],
            Int::Add(x, y) => both(x, y, i64::wrapping_add),
            Int::Sub(x, y) => both(x, y, i64::wrapping_sub),
            Int::Mul(x, y) => both(x, y, i64::wrapping_mul),
            Int::Div(x, y) => both(x, y, |x, y| x.checked_div_euclid(y).unwrap_or(0)),
            Int::Rem(x, y) => both(x, y, |x, y| x.checked_rem_euclid(y).unwrap_or(0)),
            Int::And(x, y) => both(x, y, |x, y| x & y),
            Int::Xor(x, y) => both(x, y, |x, y| x ^ y),
            Int::Shl(x, y) => both(x, y, |x, y| x << (y & 63)),
            Int::Min(x, y) => both(x, y, i64::min),
            Int::Max(x, y) => both(x, y, i64::max),
            Int::Lt(x, y) => both(x, y, |x, y| i64::from(x < y)),
            Int::Within(x, y) => both(x, y, |x, y| i64::from((0..y).contains(&x))),
            Int::Eq(x, y) => both(x, y, |x, y| i64::from(x == y)),
            Int::All(x, y) => both(x, y, |x, y| i64::from(x != 0 && y != 0)),
            Int::Not(x) => self.within(x, known).map(|x| i64::from(x == 0)),
            Int::Wrap(at, end, last) => {
                let (mut at, end, last) =
                    (self.within(at, known), self.within(end, known), self.within(last, known));
                let mut lane = 0;
                while lane < LANES {
                    if at[lane] >= end[lane] {
                        at[lane] = (at[lane] - end[lane]).min(last[lane]);
                    }
                    lane += 1;
                }
                at
            }
            Int::Select(cond, x, y) => {
                let (cond, mut x, y) =
                    (self.within(cond, known), self.within(x, known), self.within(y, known));
                let mut lane = 0;
                while lane < LANES {
                    if cond[lane] == 0 {
                        x[lane] = y[lane];
                    }
                    lane += 1;
                }
                x
            }
        }
    }
}

/// A large number with the divisors that the variant's facts give a symbol.
fn representative(kernel: &Kernel, symbol: Symbol) -> i64 {
    let mut all = REPRESENTATIVE;
    for need in &kernel.needs {
        let Fact::Divides(need) = need else { continue };
        if let Value::Sym { of, over, .. } = need.of
            && of == symbol
        {
            let divisor = need.divisor.saturating_mul(i64::from(over)).clamp(1, 1 << 20);
            all = lcm(all, divisor);
        }
    }
    all
}
