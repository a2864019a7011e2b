//! Forward dataflow over tile programs and thread programs: a state at each point, over all paths to it, which inserts or
//! replaces statements. Each analysis defines the effect of one statement; control flow is here.
//!
//! Control flow decides, not the order of the text: the state at the end of a loop's body is a state at its beginning.

mod copy_groups;

use crate::values::id::Id;
pub use copy_groups::CopyGroups;

/// How control passes through a statement and its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Control {
    /// It has no blocks.
    Straight,
    /// Its block is repeated.
    Repeat {
        /// The loop's variable.
        var: Id,
        /// At least once, for all sizes?
        runs: bool,
    },
    /// It may leave the loop over this variable.
    Leave(Id),
    /// Each thread executes one of its blocks.
    One,
    /// Each thread executes one of its blocks, or none.
    OneOrNone,
}

/// Statements, each before those inside it.
pub struct Preorder<'s, S> {
    /// The next statements, the first one last.
    left: Vec<&'s S>,
    inside: fn(&'s S) -> Vec<&'s S>,
}

impl<'s, S> Preorder<'s, S> {
    /// These statements and those inside them, which a function lists.
    pub fn new(
        first: impl DoubleEndedIterator<Item = &'s S>,
        inside: fn(&'s S) -> Vec<&'s S>,
    ) -> Preorder<'s, S> {
        Preorder { left: first.rev().collect(), inside }
    }
}

impl<'s, S> Iterator for Preorder<'s, S> {
    type Item = &'s S;

    fn next(&mut self) -> Option<&'s S> {
        let stmt = self.left.pop()?;
        self.left.extend((self.inside)(stmt).into_iter().rev());
        Some(stmt)
    }
}

/// A program whose statements contain blocks of statements.
pub trait Structured {
    /// A statement of it.
    type Stmt: Clone;

    /// How control passes through a statement.
    fn control(&self, stmt: &Self::Stmt) -> Control;

    /// The blocks inside a statement.
    fn blocks(stmt: &mut Self::Stmt) -> Vec<&mut Vec<Self::Stmt>>;
}

/// An analysis.
pub trait Forward<P: Structured> {
    /// The state of an analysis at a point of the program.
    type State: Clone + PartialEq;

    /// The state where two paths meet. Joining with the same state again has no effect.
    fn join(one: Self::State, other: &Self::State) -> Self::State;

    /// The effect of a statement itself, without the blocks inside it.
    fn pass(&mut self, stmt: &P::Stmt, state: &mut Self::State) -> Edit<P::Stmt>;
}

/// The change to a statement.
pub enum Edit<S> {
    /// The statement itself, unchanged.
    Keep,
    /// It gets others ahead of it.
    Ahead(Vec<S>),
    /// Others replace it. It has no blocks.
    Instead(Vec<S>),
}

/// The statements of a program, edited by an analysis, given the state at their beginning.
pub fn forward<P: Structured, F: Forward<P>>(
    analysis: &mut F,
    program: &P,
    mut body: Vec<P::Stmt>,
    entry: F::State,
) -> Vec<P::Stmt> {
    Walk { analysis, program, exits: Vec::new() }.block(&mut body, entry, true);
    body
}

/// The state at the end of statements, given that at their beginning.
pub fn end<P: Structured, F: Forward<P>>(
    analysis: &mut F,
    program: &P,
    body: &[P::Stmt],
    entry: F::State,
) -> F::State {
    Walk { analysis, program, exits: Vec::new() }.block(&mut body.to_vec(), entry, false)
}

struct Walk<'f, P: Structured, F: Forward<P>> {
    analysis: &'f mut F,
    program: &'f P,
    /// Loops around the statement, with the state at their early exits, if they have any.
    exits: Vec<(Id, Option<F::State>)>,
}

impl<P: Structured, F: Forward<P>> Walk<'_, P, F> {
    /// The state at the end of a block, from that at its beginning. Edits the block only with `write`.
    fn block(&mut self, block: &mut Vec<P::Stmt>, mut state: F::State, write: bool) -> F::State {
        for mut stmt in std::mem::take(block) {
            match self.analysis.pass(&stmt, &mut state) {
                Edit::Instead(others) if write => {
                    block.extend(others);
                    continue;
                }
                Edit::Ahead(others) if write => block.extend(others),
                Edit::Keep | Edit::Ahead(_) | Edit::Instead(_) => {}
            }
            state = self.inside(&mut stmt, state, write);
            block.push(stmt);
        }
        state
    }

    /// The state after a statement, from the state before the blocks inside it.
    fn inside(&mut self, stmt: &mut P::Stmt, state: F::State, write: bool) -> F::State {
        let control = self.program.control(stmt);
        match control {
            Control::Straight => state,
            Control::Repeat { var, runs } => {
                let mut blocks = P::blocks(stmt).into_iter();
                blocks.next().map_or(state.clone(), |body| self.repeated(var, runs, body, state, write))
            }
            Control::Leave(of) => {
                if let Some((_, left)) = self.exits.iter_mut().rev().find(|(var, _)| *var == of) {
                    let known = left.take();
                    *left = Some(known.map_or_else(|| state.clone(), |known| F::join(known, &state)));
                }
                state
            }
            Control::One | Control::OneOrNone => {
                let ends = P::blocks(stmt).into_iter().map(|block| self.block(block, state.clone(), write));
                match ends.reduce(|all, end| F::join(all, &end)) {
                    Some(end) if control == Control::OneOrNone => F::join(end, &state),
                    Some(end) => end,
                    None => state,
                }
            }
        }
    }

    /// The state after a loop. A fixed point: an iteration starts from the state before the loop or from the
    /// state after the previous one.
    fn repeated(
        &mut self,
        var: Id,
        runs: bool,
        body: &mut Vec<P::Stmt>,
        mut entry: F::State,
        write: bool,
    ) -> F::State {
        loop {
            self.exits.push((var, None));
            let end = self.block(body, entry.clone(), false);
            let left = self.exits.pop().and_then(|(_, left)| left);
            let again = F::join(entry.clone(), &end);
            if again == entry {
                if write {
                    self.exits.push((var, None));
                    self.block(body, entry, true);
                    self.exits.pop();
                }
                let end = if runs { end } else { again };
                return left.iter().fold(end, F::join);
            }
            entry = again;
        }
    }
}
