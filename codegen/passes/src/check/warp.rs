//! The values of an index expression in the lanes of a warp, for given block, loop variables and arguments.

use std::collections::HashMap;

use tilewright_layout::{Symbol, Value};

use crate::thread::index::{Int, Ix, Lanes, Leaf, lcm};
use crate::thread::visit::preorder;
use crate::thread::{Fact, Kernel, Op, Param};

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
        let leaf = |int: &Int| match *int {
            Int::Var(id) => {
                self.names[id as usize].map_or(Leaf::Uniform(self.loops[id as usize]), Leaf::Named)
            }
            Int::Param(id) => Leaf::Uniform(self.params[id as usize]),
            Int::Thread => Leaf::Counted(self.first),
            Int::Block(_) => Leaf::Uniform(self.block),
            Int::Grid(_) => Leaf::Uniform(64),
            _ => Leaf::Uniform(0),
        };
        self.kernel.exprs.lanes(at, &leaf, &mut HashMap::new())
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
