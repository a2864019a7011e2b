//! Values of expressions in the lanes of a warp.

use std::collections::HashMap;

use super::{Exprs, Int, Ix};
use crate::values::target::WARP;

/// How many lanes a warp has.
pub const LANES: usize = WARP as usize;

/// One value for each lane.
pub type Lanes = [i64; LANES];

/// The value of a leaf.
#[derive(Clone, Copy, Debug)]
pub enum Leaf {
    /// The same in all lanes.
    Uniform(i64),
    /// Of the first lane; each further lane has the next one.
    Counted(i64),
    /// The value of another expression.
    Named(Ix),
}

impl Int {
    /// The operation, on the values of its operands and zeros in the place of operands that it lacks; `None` for a leaf.
    fn operation(&self) -> Option<fn(i64, i64, i64) -> i64> {
        Some(match self {
            Int::Const(_)
            | Int::Var(_)
            | Int::Param(_)
            | Int::Thread
            | Int::Block(_)
            | Int::Grid(_)
            | Int::ClusterRank => return None,
            Int::Add(..) => |x, y, _| x.wrapping_add(y),
            Int::Sub(..) => |x, y, _| x.wrapping_sub(y),
            Int::Mul(..) => |x, y, _| x.wrapping_mul(y),
            Int::Div(..) => |x, y, _| x.checked_div_euclid(y).unwrap_or(0),
            Int::Rem(..) => |x, y, _| x.checked_rem_euclid(y).unwrap_or(0),
            Int::And(..) => |x, y, _| x & y,
            Int::Xor(..) => |x, y, _| x ^ y,
            Int::Shl(..) => |x, y, _| x << (y & 63),
            Int::Min(..) => |x, y, _| x.min(y),
            Int::Max(..) => |x, y, _| x.max(y),
            Int::Lt(..) => |x, y, _| i64::from(x < y),
            Int::Within(..) => |x, y, _| i64::from((0..y).contains(&x)),
            Int::Eq(..) => |x, y, _| i64::from(x == y),
            Int::All(..) => |x, y, _| i64::from(x != 0 && y != 0),
            Int::Not(_) => |x, _, _| i64::from(x == 0),
            Int::Select(..) => |test, x, y| if test != 0 { x } else { y },
            Int::Wrap(..) => |at, end, last| if at < end { at } else { (at - end).min(last) },
        })
    }
}

impl Exprs {
    /// The value of an expression in each lane. `known`: values of expressions with these leaves.
    pub fn lanes(&self, at: Ix, leaf: &dyn Fn(&Int) -> Leaf, known: &mut HashMap<Ix, Lanes>) -> Lanes {
        let int = &self.get(at).int;
        let Some(operation) = int.operation() else {
            return match (int, known.get(&at)) {
                (Int::Const(n), _) => [*n; LANES],
                (_, Some(lanes)) => *lanes,
                (_, None) => match leaf(int) {
                    Leaf::Uniform(n) => [n; LANES],
                    Leaf::Counted(first) => std::array::from_fn(|lane| first + lane as i64),
                    // One name may have others in it several times.
                    Leaf::Named(of) => {
                        let lanes = self.lanes(of, leaf, known);
                        known.insert(at, lanes);
                        lanes
                    }
                },
            };
        };
        let mut parts = [[0; LANES]; 3];
        for (lanes, part) in parts.iter_mut().zip(int.parts()) {
            *lanes = self.lanes(part, leaf, known);
        }
        let [mut x, y, z] = parts;
        // Faster than iterators where code is not optimised.
        let mut lane = 0;
        while lane < LANES {
            x[lane] = operation(x[lane], y[lane], z[lane]);
            lane += 1;
        }
        x
    }
}
