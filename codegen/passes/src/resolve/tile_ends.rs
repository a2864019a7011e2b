//! For each reduction and scan, the modes along which elements of a tile in registers end with the tile. Loads end with
//! their tile. Threads outside of a tile that was filled or numbered have further elements.

use std::collections::{BTreeMap, HashMap};

use tilewright_layout::{Distribution, Layout, Value as Size};

use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::{Op, Program, Space, Stmt};
use crate::values::flow::{Edit, Forward, end};

/// Where threads have elements outside of a tile, along a mode.
#[derive(Clone, Copy, PartialEq, PartialOrd, Eq, Ord)]
enum Ends {
    /// It was only filled: it ends where that does which is added to it.
    Filled,
    /// It has elements of memory, and ends where these do.
    Loaded,
    /// It has further elements there, which it keeps after additions.
    Numbered,
}

/// For each tile in registers where it ends along its modes.
type State = BTreeMap<Id, Vec<Ends>>;

/// The analyses of the tiles that statements combine.
#[derive(Default)]
pub(super) struct Bounded(HashMap<Id, State>);

impl Bounded {
    /// The analysis at each statement that combines elements.
    pub(super) fn of(program: &Program, body: &[Stmt], forms: &BTreeMap<Id, Distribution>) -> Bounded {
        let mut loads = Loads { program, known: Bounded::default() };
        let entry = forms.iter().map(|(id, d)| (*id, vec![Ends::Filled; d.tile().len()])).collect();
        end(&mut loads, program, body, entry);
        loads.known
    }

    /// The modes along which a tile has elements of memory where a statement combines it; `None` if it is not in
    /// registers.
    pub(super) fn modes(&self, stmt: &Stmt, tile: Id) -> Option<Vec<bool>> {
        let modes = self.0.get(&stmt.id)?.get(&tile)?;
        Some(modes.iter().map(|ends| *ends == Ends::Loaded).collect())
    }
}

struct Loads<'p> {
    program: &'p Program,
    known: Bounded,
}

impl Forward<Program> for Loads<'_> {
    type State = State;

    /// A tile that is only filled on one of two paths has the edges of the other, or is refused: see [`crate::origin`].
    fn join(mut one: State, other: &State) -> State {
        for (id, modes) in other {
            match one.get_mut(id) {
                Some(known) => {
                    known.iter_mut().zip(modes).for_each(|(known, mode)| *known = (*known).max(*mode))
                }
                None => _ = one.insert(*id, modes.clone()),
            }
        }
        one
    }

    fn pass(&mut self, stmt: &Stmt, state: &mut State) -> Edit<Stmt> {
        if matches!(stmt.op, Op::Fold { .. } | Op::Scan { .. }) {
            let read = stmt.reads();
            let known = read.iter().filter_map(|view| Some((view.tensor, state.get(&view.tensor)?.clone())));
            self.known.0.insert(stmt.id, known.collect());
        }
        // Others change or add to a tile. Elements of memory by index end with their indices.
        let (given, anew): (Vec<&View>, bool) = match &stmt.op {
            Op::Gather { at, .. } => (at.iter().map(|(_, view)| view).collect(), true),
            _ => (stmt.reads(), stmt.sets()),
        };
        // Functions of tiles that were filled are no fills.
        let least = |ends: Option<Ends>| match (&stmt.op, ends) {
            (op @ (Op::Map { .. } | Op::Gather { .. }), None | Some(Ends::Filled))
                if op.filled().is_none() =>
            {
                Ends::Numbered
            }
            (_, ends) => ends.unwrap_or(Ends::Filled),
        };
        for to in stmt.writes() {
            let Some(before) = state.get(&to.tensor) else { continue };
            let now = (0..before.len()).map(|mode| match to.rank() == before.len() {
                true if anew && self.is_whole(to) => least(self.ends(&given, mode, state)),
                true => before[mode].max(least(self.ends(&given, mode, state))),
                false => before[mode].max(Ends::Loaded),
            });
            let now = now.collect();
            state.insert(to.tensor, now);
        }
        Edit::Keep
    }
}

impl Loads<'_> {
    /// Where elements end along a mode of the target that are computed from these; `None` if none runs along it.
    fn ends(&self, given: &[&View], mode: usize, state: &State) -> Option<Ends> {
        let read = given.iter().filter(|from| !self.program.is_coordinates(from.tensor));
        let one = |from: &&&View| {
            // A broadcast has no end.
            let steps = |own: Layout| {
                own.leaves().any(|(extent, step)| extent != Size::Int(1) && step != Size::Int(0))
            };
            let runs = from.layout.mode(mode).is_ok_and(steps);
            let ends = match state.get(&from.tensor) {
                Some(of) if of.len() == from.rank() => of[mode],
                _ => Ends::Loaded,
            };
            runs.then_some(ends)
        };
        read.filter_map(|from| one(&from)).max()
    }

    /// Are all elements of a tile in registers written?
    fn is_whole(&self, to: &View) -> bool {
        let tensor = self.program.tensor(to.tensor);
        let all = tensor.plain().size().ok();
        matches!(tensor.space, Space::Registers { .. }) && all.is_some() && to.layout.size().ok() == all
    }
}
