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
    /// Groups of threads execute its blocks at the same time, each group one of them.
    Together {
        /// Is every thread in one of the groups?
        all: bool,
    },
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

    /// The variables that have a value inside of a statement's blocks alone.
    fn vars(&self, _stmt: &Self::Stmt) -> Vec<Id> {
        Vec::new()
    }
}

/// An analysis.
pub trait Forward<P: Structured> {
    /// The state of an analysis at a point of the program.
    type State: Clone + PartialEq;

    /// The state where two paths meet. Joining with the same state again has no effect.
    fn join(one: Self::State, other: &Self::State) -> Self::State;

    /// The effect of a statement itself, without the blocks inside it.
    fn pass(&mut self, stmt: &P::Stmt, state: &mut Self::State) -> Edit<P::Stmt>;

    /// The effect of leaving a block, at its end or early: these variables have no value any more.
    fn leave(&mut self, _block: &[P::Stmt], _vars: &[Id], _state: &mut Self::State) {}

    /// The effect of the end of a statement, after the blocks inside it.
    fn after(&mut self, _stmt: &P::Stmt, _state: &mut Self::State) {}

    /// The state after a loop, from the state before it and the state after its last iteration.
    fn after_loop(&mut self, _var: Id, runs: bool, before: Self::State, end: Self::State) -> Self::State {
        if runs { end } else { Self::join(before, &end) }
    }

    /// What groups that run at the same time see of a group's state, if this is anything.
    fn shared(&self, _state: &Self::State) -> Option<Self::State> {
        None
    }
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
            self.analysis.after(&stmt, &mut state);
            block.push(stmt);
        }
        state
    }

    /// The state after leaving a block in which these variables have values.
    fn within(&mut self, block: &mut Vec<P::Stmt>, vars: &[Id], state: F::State, write: bool) -> F::State {
        let mut end = self.block(block, state, write);
        self.analysis.leave(block, vars, &mut end);
        end
    }

    /// The state after a statement, from the state before the blocks inside it.
    fn inside(&mut self, stmt: &mut P::Stmt, state: F::State, write: bool) -> F::State {
        let (control, vars) = (self.program.control(stmt), self.program.vars(stmt));
        let mut blocks = P::blocks(stmt);
        match control {
            Control::Straight => state,
            Control::Repeat { var, runs } => match blocks.first_mut() {
                Some(body) => self.repeated((var, runs), &vars, body, state, write),
                None => state,
            },
            Control::Leave(of) => {
                if let Some((_, left)) = self.exits.iter_mut().rev().find(|(var, _)| *var == of) {
                    let known = left.take();
                    *left = Some(known.map_or_else(|| state.clone(), |known| F::join(known, &state)));
                }
                state
            }
            Control::One => self.any(&mut blocks, &vars, state, true, write),
            Control::OneOrNone => self.any(&mut blocks, &vars, state, false, write),
            Control::Together { all } => {
                let entry = self.together(&mut blocks, &vars, state);
                self.any(&mut blocks, &vars, entry, all, write)
            }
        }
    }

    /// The state after one of these blocks, or after none of them unless `one`.
    fn any(
        &mut self,
        blocks: &mut [&mut Vec<P::Stmt>],
        vars: &[Id],
        state: F::State,
        one: bool,
        write: bool,
    ) -> F::State {
        let ends = blocks.iter_mut().map(|block| self.within(block, vars, state.clone(), write));
        let mut ends: Vec<F::State> = ends.collect();
        let first = if one && !ends.is_empty() { ends.remove(0) } else { state };
        ends.iter().fold(first, F::join)
    }

    /// The state in which groups begin that run at the same time. A fixed point: each may see what the others do, and what they
    /// compute from that.
    fn together(&mut self, blocks: &mut [&mut Vec<P::Stmt>], vars: &[Id], mut entry: F::State) -> F::State {
        while let Some(before) = self.analysis.shared(&entry) {
            let end = self.any(blocks, vars, entry.clone(), false, false);
            let again = F::join(entry.clone(), &self.analysis.shared(&end).unwrap_or(before));
            if again == entry {
                break;
            }
            entry = again;
        }
        entry
    }

    /// The state after a loop. A fixed point: an iteration starts from the state before the loop or from the
    /// state after the previous one.
    fn repeated(
        &mut self,
        (var, runs): (Id, bool),
        vars: &[Id],
        body: &mut Vec<P::Stmt>,
        before: F::State,
        write: bool,
    ) -> F::State {
        let mut entry = before.clone();
        loop {
            self.exits.push((var, None));
            let end = self.within(body, vars, entry.clone(), false);
            let left = self.exits.pop().and_then(|(_, left)| left);
            let again = F::join(entry.clone(), &end);
            if again == entry {
                if write {
                    self.exits.push((var, None));
                    self.block(body, entry, true);
                    self.exits.pop();
                }
                let end = self.analysis.after_loop(var, runs, before, end);
                return left.into_iter().fold(end, |end, mut left| {
                    self.analysis.leave(body, vars, &mut left);
                    F::join(end, &left)
                });
            }
            entry = again;
        }
    }
}
