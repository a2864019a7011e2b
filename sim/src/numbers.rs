//! Index expressions of a launch, hash-consed: sizes are folded in, constants gathered, and each node knows
//! its innermost loop and the range of its values in this launch. Ranges simplify no expression: they only show
//! where 32 bits can overflow, so that values wrap there as they do in the printed C.

use std::collections::HashMap;

use crate::code::{IntOp, Range, Src};

/// A node of the graph.
pub(crate) type NodeId = u32;

/// A number: a node plus a constant, or a constant alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Num {
    pub(crate) node: Option<NodeId>,
    pub(crate) add: i64,
}

/// The operation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// A cell that another instruction sets: a scalar or a vector.
    Cell {
        vector: bool,
        slot: u32,
    },
    Scaled(NodeId, i64),
    Two(IntOp, Num, Num),
    Select(Num, Num, Num),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) node: Node,
    /// Range of its values.
    pub(crate) range: Range,
    /// Is it divergent, different across lanes?
    pub(crate) vector: bool,
    /// The innermost loop that changes it.
    pub(crate) level: u32,
    /// Does it depend on a mutable variable? Then it is never cached.
    pub(crate) volatile: bool,
    /// Its cell, once it has been computed.
    pub(crate) slot: Option<u32>,
}

/// The graph.
#[derive(Default)]
pub(crate) struct Numbers {
    all: Vec<Known>,
    known: HashMap<Node, NodeId>,
}

impl Num {
    pub(crate) const fn constant(n: i64) -> Num {
        Num { node: None, add: n }
    }

    pub(crate) fn as_constant(self) -> Option<i64> {
        if self.node.is_none() { Some(self.add) } else { None }
    }
}

impl Numbers {
    pub(crate) fn get(&self, id: NodeId) -> Known {
        self.all[id as usize]
    }

    pub(crate) fn assign(&mut self, id: NodeId, slot: u32) {
        self.all[id as usize].slot = Some(slot);
    }

    /// Invalidates its value.
    pub(crate) fn forget(&mut self, id: NodeId) {
        self.all[id as usize].slot = None;
    }

    /// A cell of the warp.
    pub(crate) fn cell(&mut self, vector: bool, slot: u32, level: u32, volatile: bool, range: Range) -> Num {
        let node = Node::Cell { vector, slot };
        let known = Known { node, range, vector, level, volatile, slot: Some(slot) };
        let id = self.all.len() as NodeId;
        self.all.push(known);
        self.known.insert(node, id);
        Num { node: Some(id), add: 0 }
    }

    fn intern(&mut self, node: Node) -> NodeId {
        if let Some(&id) = self.known.get(&node) {
            return id;
        }
        let parts: Vec<NodeId> = match node {
            Node::Cell { .. } => Vec::new(),
            Node::Scaled(x, _) => vec![x],
            Node::Two(_, a, b) => [a.node, b.node].into_iter().flatten().collect(),
            Node::Select(a, b, c) => [a.node, b.node, c.node].into_iter().flatten().collect(),
        };
        let range = match node {
            Node::Cell { .. } => Range::ALL,
            Node::Scaled(x, by) => IntOp::Mul.range(self.get(x).range, Range { lo: by, hi: by }),
            Node::Two(op, a, b) => op.range(self.range(a), self.range(b)),
            Node::Select(_, a, b) => {
                let (a, b) = (self.range(a), self.range(b));
                Range { lo: a.lo.min(b.lo), hi: a.hi.max(b.hi) }
            }
        };
        let mut known = Known { node, range, vector: false, level: 0, volatile: false, slot: None };
        for part in parts {
            let part = self.get(part);
            known.vector |= part.vector;
            known.volatile |= part.volatile;
            known.level = known.level.max(part.level);
        }
        let id = self.all.len() as NodeId;
        self.all.push(known);
        self.known.insert(node, id);
        id
    }

    /// The range of a number.
    pub(crate) fn range(&self, num: Num) -> Range {
        let node = num.node.map_or(Range { lo: 0, hi: 0 }, |node| self.get(node).range);
        Range { lo: node.lo.saturating_add(num.add), hi: node.hi.saturating_add(num.add) }
    }

    /// A number in 32 bits.
    pub(crate) fn wrapped(&mut self, num: Num) -> Num {
        match num.as_constant() {
            Some(n) => Num::constant(IntOp::Wrap.of(n, 0)),
            None if self.range(num).is_narrow() => num,
            None => Num { node: Some(self.intern(Node::Two(IntOp::Wrap, num, Num::constant(0)))), add: 0 },
        }
    }

    pub(crate) fn two(&mut self, op: IntOp, a: Num, b: Num) -> Num {
        if let (Some(a), Some(b)) = (a.as_constant(), b.as_constant()) {
            return Num::constant(op.of(a, b));
        }
        match (op, a, b) {
            (IntOp::Add, Num { node: None, add }, x) | (IntOp::Add, x, Num { node: None, add }) => {
                Num { add: x.add.wrapping_add(add), ..x }
            }
            (IntOp::Sub, x, Num { node: None, add }) => Num { add: x.add.wrapping_sub(add), ..x },
            (IntOp::Add, Num { node: Some(_), add: n }, Num { node: Some(_), add: m }) => {
                let (a, b) = (Num { add: 0, ..a }, Num { add: 0, ..b });
                let (a, b) = if a.node <= b.node { (a, b) } else { (b, a) };
                Num { node: Some(self.intern(Node::Two(op, a, b))), add: n.wrapping_add(m) }
            }
            (IntOp::Mul, Num { node: None, add: c }, x) | (IntOp::Mul, x, Num { node: None, add: c }) => {
                match (c, x.node) {
                    (0, _) | (_, None) => Num::constant(0),
                    (1, _) => x,
                    (_, Some(node)) => {
                        let node = self.intern(Node::Scaled(node, c));
                        Num { node: Some(node), add: x.add.wrapping_mul(c) }
                    }
                }
            }
            (IntOp::All, Num { node: None, add }, x) | (IntOp::All, x, Num { node: None, add })
                if add == 0 || self.is_truth(x) =>
            {
                if add == 0 {
                    Num::constant(0)
                } else {
                    x
                }
            }
            _ => Num { node: Some(self.intern(Node::Two(op, a, b))), add: 0 },
        }
    }

    /// Is it always 1 or 0?
    fn is_truth(&self, x: Num) -> bool {
        let Some(node) = x.node else { return x.add == 0 || x.add == 1 };
        matches!(self.get(node).node, Node::Two(IntOp::Lt | IntOp::Within | IntOp::Eq | IntOp::All, ..))
            && x.add == 0
    }

    pub(crate) fn select(&mut self, cond: Num, a: Num, b: Num) -> Num {
        match cond.as_constant() {
            Some(0) => b,
            Some(_) => a,
            None if a == b => a,
            None => Num { node: Some(self.intern(Node::Select(cond, a, b))), add: 0 },
        }
    }

    /// The cell of a number whose node has been computed.
    pub(crate) fn src(&self, num: Num) -> Src {
        match num.node {
            None => Src::Const(num.add),
            Some(node) => {
                let known = self.get(node);
                let slot = known.slot.unwrap_or_default();
                if known.vector { Src::Vector(slot, num.add) } else { Src::Scalar(slot, num.add) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_gather() {
        let mut numbers = Numbers::default();
        let x = numbers.cell(true, 0, 0, false, Range::below(32));
        let (four, ten) = (Num::constant(4), Num::constant(10));
        let a = numbers.two(IntOp::Add, x, four);
        let a = numbers.two(IntOp::Mul, a, ten);
        let scaled = numbers.two(IntOp::Mul, x, ten);
        assert_eq!((a.node, a.add), (scaled.node, 40));
        let less = numbers.two(IntOp::Sub, a, Num::constant(40));
        assert_eq!(less, scaled);
        assert_eq!(numbers.two(IntOp::Mul, x, Num::constant(0)), Num::constant(0));
    }

    #[test]
    fn numbers_wrap_where_they_can_overflow() {
        let mut numbers = Numbers::default();
        let lane = numbers.cell(true, 0, 0, false, Range::below(32));
        let near = numbers.two(IntOp::Mul, lane, Num::constant(1 << 26));
        assert_eq!(numbers.range(near), Range { lo: 0, hi: 31 << 26 });
        assert_eq!(numbers.wrapped(near), near);
        let far = numbers.two(IntOp::Mul, lane, Num::constant(1 << 27));
        let wrapped = numbers.wrapped(far);
        assert_ne!(wrapped, far);
        assert_eq!(numbers.range(wrapped), Range::NARROW);
        assert_eq!(numbers.wrapped(Num::constant(1 << 31)), Num::constant(-1 << 31));
        let more = numbers.two(IntOp::Add, near, Num::constant(1 << 31));
        assert_ne!(numbers.wrapped(more), more);
    }
}
