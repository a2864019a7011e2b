//! The visitor of tile programs: the views that statements read and write, and their substatements.

use super::{Across, How, Multiply, Op, Program, Stmt};
use crate::isa::atom::{Atom, Effect};
use crate::thread::Change;
use crate::tile::view::View;
use crate::values::affine::{Affine, Coord};
use crate::values::expr::Expr;
use crate::values::flow::Preorder;
use crate::values::id::Id;
use crate::values::lanes::Lanes;
use crate::values::semiring::Semiring;

/// The statements that compute or move elements of tiles, as a pattern.
#[macro_export]
macro_rules! of_tiles {
    () => {
        Op::Copy { .. }
            | Op::Map { .. }
            | Op::Gemm { .. }
            | Op::Fold { .. }
            | Op::Scan { .. }
            | Op::Lanes { .. }
            | Op::Atomic { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::Probe { .. }
    };
}
pub use of_tiles;

/// The statements on single elements, and annotations, as a pattern.
#[macro_export]
macro_rules! beside_tiles {
    () => {
        Op::Take { .. } | Op::Flag { .. } | Op::Flow { .. } | Op::Contents { .. }
    };
}
pub use beside_tiles;

/// The statements on elements, or annotations of them, as a pattern.
#[macro_export]
macro_rules! of_elements {
    () => {
        $crate::tile::visit::of_tiles!() | $crate::tile::visit::beside_tiles!()
    };
}
pub use of_elements;

/// The statements that only order others, as a pattern.
#[macro_export]
macro_rules! of_order {
    () => {
        Op::SyncCluster
            | Op::CommitCopies
            | Op::Wait { .. }
            | Op::Sync
            | Op::Acquire { .. }
            | Op::Publish { .. }
            | Op::Await { .. }
            | Op::Release { .. }
            | Op::Advance { .. }
    };
}
pub use of_order;

/// The statements of control flow, as a pattern.
#[macro_export]
macro_rules! of_control {
    () => {
        Op::For { .. }
            | Op::Leave { .. }
            | Op::Step { .. }
            | Op::If { .. }
            | Op::Roles(_)
            | Op::Tiles { .. }
            | Op::Ordered { .. }
    };
}
pub use of_control;

/// The statements without integers outside their views, as a pattern.
macro_rules! without_integers {
    () => {
        Op::Copy { .. }
            | Op::Gemm { .. }
            | Op::Atomic { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::Probe { .. }
            | Op::Tiles { .. }
            | Op::Roles(_)
            | Op::Fold { .. }
            | Op::Scan { .. }
            | Op::Ordered { .. }
            | Op::For { .. }
            | Op::Take { .. }
            | Op::Flow { .. }
            | Op::Contents { .. }
            | of_order!()
    };
}

/// The bodies of substatements, of a reference to a statement's operation, and with that reference's iterator.
macro_rules! bodies {
    ($op:expr, $iter:ident) => {
        match $op {
            Op::For { body, .. }
            | Op::Step { body, .. }
            | Op::Tiles { body, .. }
            | Op::Ordered { body, .. } => vec![body],
            Op::If { then, other, .. } => vec![then, other],
            Op::Roles(roles) => roles.$iter().map(|(_, body)| body).collect(),
            Op::Leave { .. } | of_elements!() | of_order!() => Vec::new(),
        }
    };
}

/// The views that an operation reads, updates, writes, and names in an annotation; of a reference to it, and with that
/// reference's iterators.
macro_rules! views {
    ($op:expr, $iter:ident, $tiles:ident) => {
        match $op {
            Op::Copy { from, to, .. } => [vec![from], vec![], vec![to], vec![]],
            Op::Take { from, .. } => [vec![from], vec![], vec![], vec![]],
            Op::Map { ins, to, .. } | Op::Lanes { ins, to, .. } => {
                [ins.$iter().collect(), vec![], vec![to], vec![]]
            }
            Op::Gemm { a, b, acc, .. } => [vec![a, b], vec![acc], vec![], vec![]],
            Op::Fold { from, to, .. } => [from.$iter().collect(), to.$iter().collect(), vec![], vec![]],
            Op::Scan { from, to, carry, .. } => {
                [from.$iter().collect(), carry.$iter().collect(), to.$iter().collect(), vec![]]
            }
            Op::Atomic { from, to, update } => {
                [[from].into_iter().chain(update.$tiles()).collect(), vec![], vec![to], vec![]]
            }
            Op::Gather { from, at, to } => {
                [[from].into_iter().chain(at.$iter().map(|(_, at)| at)).collect(), vec![], vec![to], vec![]]
            }
            Op::Scatter { from, at, to, update, .. } => {
                let ins = [from].into_iter().chain(at.$iter().map(|(_, at)| at));
                let tiles = update.$iter().flat_map(|update| update.$tiles());
                [ins.chain(tiles).collect(), vec![], vec![to], vec![]]
            }
            Op::Probe { of, .. } => [of.$iter().collect(), vec![], vec![], vec![]],
            Op::Flag { flag, with: Change::Await, .. } => [vec![flag], vec![], vec![], vec![]],
            Op::Flag { flag, .. } => [vec![], vec![], vec![flag], vec![]],
            Op::Flow { a, b, acc } => [vec![], vec![], vec![], vec![a, b, acc]],
            Op::Contents { from, to } => [vec![], vec![], vec![], vec![from, to]],
            of_order!() | of_control!() => [vec![], vec![], vec![], vec![]],
        }
    };
}

impl Op {
    /// The views that it reads itself, not in its substatements.
    pub fn reads(&self) -> Vec<&View> {
        let [reads, updates, ..] = views!(self, iter, tiles);
        [reads, updates].concat()
    }

    /// The views that it writes.
    pub fn writes(&self) -> Vec<&View> {
        let [_, updates, writes, _] = views!(self, iter, tiles);
        [updates, writes].concat()
    }

    /// The view in memory whose elements it updates atomically, and how.
    pub fn updates(&self) -> Option<(&View, Change)> {
        match self {
            Op::Atomic { to, update, .. } | Op::Scatter { to, update: Some(update), .. } => {
                Some((to, update.with))
            }
            Op::Copy { to, how: How::Atom(Atom { effect: Effect::Reduce(with), .. }), .. } => {
                Some((to, *with))
            }
            _ => None,
        }
    }

    /// The view whose elements it stores, each thread the elements that it has.
    pub fn stores(&self) -> Option<&View> {
        match self {
            Op::Copy { how: How::Atom(_), .. } => None,
            Op::Copy { to, .. } | Op::Map { to, .. } => Some(to),
            _ => None,
        }
    }
}

impl Stmt {
    /// Its bodies of substatements.
    pub fn bodies(&self) -> Vec<&Vec<Stmt>> {
        bodies!(&self.op, iter)
    }

    /// The same, mutably.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        bodies!(&mut self.op, iter_mut)
    }

    /// The instruction of the table that copies or multiplies, if it names one.
    pub fn instruction(&self) -> Option<&'static Atom> {
        match &self.op {
            Op::Copy { how: How::Atom(row), .. } | Op::Gemm { how: Multiply::Atom(row), .. } => Some(row),
            _ => None,
        }
    }

    /// Does it combine elements of the blocks of a cluster?
    pub fn is_over_cluster(&self) -> bool {
        match &self.op {
            Op::Fold { across, .. } => {
                matches!(across, Across::Cluster(_) | Across::Blocks(2..))
            }
            Op::Scan { how, .. } => how.blocks().is_some(),
            _ => false,
        }
    }

    /// The ring that it waits for or hands on.
    pub fn ring(&self) -> Option<Id> {
        match self.op {
            Op::Acquire { ring, .. }
            | Op::Publish { ring, .. }
            | Op::Await { ring, .. }
            | Op::Release { ring, .. }
            | Op::Advance { ring } => Some(ring),
            _ => None,
        }
    }

    /// Is it a barrier of all threads of the group, itself or at its flag?
    pub fn is_barrier(&self) -> bool {
        matches!(self.op, Op::Sync | Op::SyncCluster | Op::Flag { .. })
    }

    /// Is it a barrier that makes earlier writes visible to other blocks through a flag?
    pub fn releases(&self) -> bool {
        matches!(self.op, Op::Flag { with: Change::Add, .. })
    }

    /// The token that it waits for, or under which its operation is in flight.
    pub fn token(&self) -> Option<Id> {
        match self.op {
            Op::Copy { token, .. } | Op::Gemm { token, .. } | Op::Wait { token, .. } => token,
            _ => None,
        }
    }

    /// Does it order accesses of several groups or blocks?
    pub fn orders_groups(&self) -> bool {
        let of_groups = matches!(self.op, Op::Ordered { .. } | Op::Roles(_) | Op::Tiles { .. });
        of_groups || self.is_over_cluster() || (self.is_barrier() && self.op != Op::Sync)
    }

    /// Do threads set all elements that it writes, whatever was there before?
    pub fn sets(&self) -> bool {
        matches!(
            self.op,
            Op::Copy { .. } | Op::Map { .. } | Op::Gather { .. } | Op::Scan { .. } | Op::Lanes { .. }
        )
    }

    /// It in words.
    pub fn words(&self) -> String {
        match &self.op {
            Op::Copy { from, to, .. } => format!("the copy of `{}` to `{}`", from.name, to.name),
            Op::Gemm { a, b, .. } => format!("the product of `{}` and `{}`", a.name, b.name),
            Op::Take { from, .. } => format!("the read of `{}`", from.name),
            Op::Map { to, .. } if self.op.filled().is_some() => format!("the fill of `{}`", to.name),
            Op::Map { to, .. } => format!("the function that sets `{}`", to.name),
            Op::Fold { to, .. } => format!("the reduction to `{}`", to[0].name),
            Op::Scan { to, .. } => format!("the scan to `{}`", to[0].name),
            Op::Lanes { to, .. } => format!("the exchange to `{}`", to.name),
            Op::Probe { of, .. } => format!("the check or print of `{}`", of[0].name),
            _ => {
                let mut written = self.preorder().flat_map(Stmt::writes);
                written.next().map_or("another statement".into(), |to| {
                    format!("the statement that writes `{}`", to.name)
                })
            }
        }
    }

    /// A statement that all threads of its group execute together, in words. Statements on whole tiles are, too.
    pub(crate) fn collective(&self) -> Option<&'static str> {
        match &self.op {
            Op::Sync => Some("`sync_threads()`"),
            Op::SyncCluster => Some("a barrier of the cluster"),
            Op::Flag { .. } => Some("a flag between blocks"),
            Op::Fold { across, .. } => (*across != Across::Thread).then_some("a reduction over threads"),
            Op::Scan { how, .. } => (!how.across().is_empty()).then_some("a scan over threads"),
            Op::Lanes { .. } => Some("an exchange between lanes"),
            Op::Gemm { how: Multiply::Atom(_), .. } | Op::Copy { how: How::Atom(_), .. } => {
                Some("this instruction")
            }
            Op::Roles(_) => Some("work in roles"),
            Op::For { ahead: Some(_), .. } => Some("a pipelined loop"),
            Op::Tiles { .. } | Op::Ordered { .. } => Some("a loop over tiles"),
            _ => self.ring().map(|_| "a ring"),
        }
    }

    /// Does its code depend on its elements' coordinates: masks of reductions, functions of coordinates, operands
    /// of a product past the end of K?
    pub fn needs_coordinates(&self) -> bool {
        match &self.op {
            Op::Fold { .. } | Op::Scan { .. } | Op::Scatter { .. } | Op::Probe { .. } => true,
            Op::Lanes { how, .. } => matches!(how, Lanes::Ballot | Lanes::Match),
            Op::Gemm { how, .. } => how.semiring() != Semiring::SUMS,
            Op::Map { value, .. } => value.any(&|part| matches!(part, Expr::At(_))),
            _ => false,
        }
    }

    /// The views that it reads itself, not in its substatements.
    pub fn reads(&self) -> Vec<&View> {
        self.op.reads()
    }

    /// The views that it writes.
    pub fn writes(&self) -> Vec<&View> {
        self.op.writes()
    }

    /// The integers that it uses outside its views: in conditions, in functions of elements.
    pub fn integers(&self) -> Vec<&Affine> {
        match &self.op {
            Op::If { test, .. } | Op::Leave { test, .. } => test.integers(),
            Op::Step { at, .. } | Op::Flag { value: at, .. } => vec![at],
            Op::Map { value, .. } => value.integers(),
            Op::Lanes { how, .. } => how.function().map(Expr::integers).unwrap_or_default(),
            without_integers!() => Vec::new(),
        }
    }

    /// The same, mutably.
    pub fn each_integer_mut(&mut self, f: &mut dyn FnMut(&mut Affine)) {
        match &mut self.op {
            Op::If { test, .. } | Op::Leave { test, .. } => test.each_mut(f),
            Op::Step { at, .. } | Op::Flag { value: at, .. } => f(at),
            Op::Map { value, .. } => value.each_integer_mut(f),
            Op::Lanes { how, .. } => {
                if let Some(function) = how.function_mut() {
                    function.each_integer_mut(f);
                }
            }
            without_integers!() => {}
        }
    }

    /// Does a coordinate in the statement itself satisfy this predicate?
    pub fn mentions(&self, program: &Program, test: &dyn Fn(&Affine) -> bool) -> bool {
        let mut views = self.accesses();
        let in_views = views.any(|view| view.base.iter().any(test));
        let ends = match &self.op {
            Op::For { var, .. } => program.vars.get(*var as usize),
            _ => None,
        };
        let mut ends = ends.into_iter().flat_map(|var| [&var.from, &var.to]);
        in_views || ends.any(test) || self.integers().into_iter().any(test)
    }

    /// All views that it names, mutably.
    pub fn views_mut(&mut self) -> Vec<&mut View> {
        views!(&mut self.op, iter_mut, tiles_mut).into_iter().flatten().collect()
    }

    /// All integers on which it depends without its substatements, including phases of rings and
    /// coordinates of views.
    pub fn each_affine_mut(&mut self, f: &mut dyn FnMut(&mut Affine)) {
        for view in self.views_mut() {
            view.base.iter_mut().for_each(&mut *f);
            view.limits.iter_mut().flatten().for_each(|(at, _)| f(at));
            view.peer.iter_mut().for_each(&mut *f);
        }
        if let Op::Acquire { phase, .. }
        | Op::Publish { phase, .. }
        | Op::Await { phase, .. }
        | Op::Release { phase, .. } = &mut self.op
        {
            f(phase);
        }
        self.each_integer_mut(f);
    }

    /// The views that it reads or writes itself.
    pub fn accesses(&self) -> impl Iterator<Item = &View> {
        self.reads().into_iter().chain(self.writes())
    }

    /// Does it, or a substatement, write to this tensor?
    pub fn writes_to(&self, tensor: Id) -> bool {
        self.preorder().any(|stmt| stmt.writes().iter().any(|to| to.tensor == tensor))
    }

    /// This statement and its substatements, in order.
    pub fn preorder(&self) -> Preorder<'_, Stmt> {
        preorder(std::slice::from_ref(self))
    }

    /// Calls a function with this statement and its substatements, in order.
    pub fn each<'s>(&'s self, f: &mut dyn FnMut(&'s Stmt)) {
        self.preorder().for_each(f);
    }

    /// The same, mutably.
    pub fn each_mut(&mut self, f: &mut dyn FnMut(&mut Stmt)) {
        f(self);
        for stmt in self.bodies_mut().into_iter().flatten() {
            stmt.each_mut(f);
        }
    }
}

/// These statements and their substatements, in order.
pub fn preorder(body: &[Stmt]) -> Preorder<'_, Stmt> {
    Preorder::new(body.iter(), |stmt| stmt.bodies().into_iter().flatten().collect())
}

/// Calls a function with these statements and their substatements, in order.
pub fn each_mut(body: &mut [Stmt], f: &mut dyn FnMut(&mut Stmt)) {
    body.iter_mut().for_each(|stmt| stmt.each_mut(f));
}

/// Replaces a coordinate in all integers on which statements depend; `None` if one of them passes 63 bits.
pub fn substitute(body: &mut [Stmt], coord: &Coord, value: &Affine) -> Option<()> {
    let mut fits = Some(());
    each_mut(body, &mut |stmt| {
        stmt.each_affine_mut(&mut |at| match at.with(coord, value) {
            Some(now) => *at = now,
            None => fits = None,
        });
    });
    fits
}

/// Renames a coordinate in all integers on which statements depend.
pub fn rename(body: &mut [Stmt], coord: &Coord, to: &Coord) {
    each_mut(body, &mut |stmt| stmt.each_affine_mut(&mut |at| *at = at.replaced(coord, to)));
}
