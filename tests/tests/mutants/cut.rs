//! Mutations of a thread program: a statement is selected by kind and by its number in program order, then
//! removed, moved, repeated, or given another operand.

use tilewright_codegen::index::{Exprs, Int, Ix};
use tilewright_codegen::thread::{AtomArg, Bar, Frag, Kernel, Mem, Op, Scope, Space, Stmt, Val};

pub(crate) fn sync(op: &Op) -> bool {
    matches!(op, Op::Sync { .. })
}

pub(crate) fn wait(op: &Op) -> bool {
    matches!(op, Op::WaitQueue { .. })
}

pub(crate) fn commit(op: &Op) -> bool {
    matches!(op, Op::Commit(_))
}

pub(crate) fn fence(op: &Op) -> bool {
    matches!(op, Op::Fence(_))
}

pub(crate) fn arrive(op: &Op) -> bool {
    matches!(op, Op::Arrive { .. })
}

pub(crate) fn awaits(op: &Op) -> bool {
    matches!(op, Op::Await { .. })
}

pub(crate) fn elect(op: &Op) -> bool {
    matches!(op, Op::Elect(..))
}

pub(crate) fn atom(op: &Op) -> bool {
    matches!(op, Op::Atom { .. })
}

pub(crate) fn condition(op: &Op) -> bool {
    matches!(op, Op::If { cond: Val::Int(..), .. })
}

pub(crate) fn load(op: &Op) -> bool {
    matches!(op, Op::Load { .. })
}

pub(crate) fn store(op: &Op) -> bool {
    matches!(op, Op::Store { .. })
}

pub(crate) fn load_shared(op: &Op) -> bool {
    matches!(op, Op::Load { from: Mem { space: Space::Shared(_), .. }, .. })
}

pub(crate) fn store_shared(op: &Op) -> bool {
    matches!(op, Op::Store { to: Mem { space: Space::Shared(_), .. }, .. })
}

/// Is it more than a comment or the name of an integer?
pub(crate) fn acts(op: &Op) -> bool {
    !matches!(op, Op::Comment(_) | Op::Let(..))
}

/// Replaces subexpressions of an expression, the outermost first.
pub(crate) type Replace<'r> = &'r mut dyn FnMut(&mut Exprs, Ix) -> Option<Ix>;

/// An expression with replaced subexpressions.
pub(crate) fn rebuilt(e: &mut Exprs, at: Ix, replace: Replace<'_>) -> Ix {
    if let Some(new) = replace(e, at) {
        return new;
    }
    let int = e.get(at).int.clone();
    let old = int.parts();
    let new: Vec<Ix> = old.iter().map(|&part| rebuilt(e, part, replace)).collect();
    if old == new {
        return at;
    }
    let number = |e: &Exprs, at| e.constant(at).expect("a constant operand");
    match int {
        Int::Add(..) => e.add(new[0], new[1]),
        Int::Sub(..) => e.sub(new[0], new[1]),
        Int::Mul(..) => e.mul(new[0], new[1]),
        Int::Div(..) => e.div(new[0], number(e, new[1])),
        Int::Rem(..) => e.rem(new[0], number(e, new[1])),
        Int::And(..) => e.and(new[0], number(e, new[1])),
        Int::Xor(..) => e.xor(new[0], new[1]),
        Int::Min(..) => e.min(new[0], new[1]),
        Int::Lt(..) => e.lt(new[0], new[1]),
        Int::Within(..) => e.within(new[0], new[1]),
        Int::Eq(..) => e.eq(new[0], new[1]),
        Int::All(..) => e.all(new[0], new[1]),
        Int::Not(..) => e.not(new[0]),
        Int::Select(..) => e.select(new[0], new[1], new[2]),
        Int::Wrap(..) => e.wrap(new[0], new[1], new[2]),
        other => panic!("no way to make {other:?} again"),
    }
}

fn lists(op: &mut Op) -> Vec<&mut Vec<Stmt>> {
    match op {
        Op::For { body, .. } | Op::Elect(_, body) => vec![body],
        Op::If { then, other, .. } => vec![then, other],
        Op::Roles(roles) => roles.iter_mut().map(|role| &mut role.body).collect(),
        _ => Vec::new(),
    }
}

fn walk(list: &mut Vec<Stmt>, visit: &mut dyn FnMut(&mut Vec<Stmt>, usize) -> bool) -> bool {
    for at in 0..list.len() {
        if visit(list, at) || lists(&mut list[at].op).into_iter().any(|list| walk(list, visit)) {
            return true;
        }
    }
    false
}

/// All index operands of a statement.
fn indices(op: &mut Op) -> Vec<&mut Ix> {
    fn position(mem: &mut Mem) -> Vec<&mut Ix> {
        vec![&mut mem.index]
    }
    match op {
        Op::Let(_, value) | Op::Set(_, value) => vec![value],
        Op::Load { to: Frag { at, .. }, from: mem, guard, .. }
        | Op::Store { to: mem, from: Frag { at, .. }, guard } => {
            [at].into_iter().chain(position(mem)).chain(guard).collect()
        }
        Op::Arrive { slot, .. } => vec![slot],
        Op::Await { slot, phase, .. } => vec![slot, phase],
        Op::For { from, to, .. } => vec![from, to],
        Op::If { cond: Val::Int(cond, _), .. } | Op::Leave { cond, .. } => vec![cond],
        Op::Atom { args, guard, .. } => {
            fn of(arg: &mut AtomArg) -> Vec<&mut Ix> {
                match arg {
                    AtomArg::Frag(Frag { at, .. }) => vec![at],
                    AtomArg::At(mem) | AtomArg::Descriptor { at: mem, .. } => position(mem),
                    AtomArg::Map { at, .. } => at.iter_mut().collect(),
                    AtomArg::Barrier { slot, .. } => vec![slot],
                    AtomArg::Int(value) => vec![value],
                }
            }
            args.iter_mut().flat_map(of).chain(guard).collect()
        }
        _ => Vec::new(),
    }
}

/// Mutations of a program. Statements are counted from 0 in program order. A missing statement panics, so
/// that no mutant is accidentally the unmodified kernel.
pub(crate) trait Cut {
    fn program(&mut self) -> &mut Kernel;

    /// Changes a statement list at a selected statement.
    fn list(
        &mut self,
        what: impl Fn(&Op) -> bool,
        nth: usize,
        change: impl FnOnce(&mut Exprs, &mut Vec<Stmt>, usize),
    ) {
        let program = self.program();
        let mut body = std::mem::take(&mut program.body);
        let (mut left, mut change) = (nth, Some(change));
        let exprs = &mut program.exprs;
        let done = walk(&mut body, &mut |list, at| {
            if !what(&list[at].op) {
                return false;
            }
            if left > 0 {
                left -= 1;
                return false;
            }
            if let Some(change) = change.take() {
                change(exprs, list, at);
            }
            true
        });
        program.body = body;
        assert!(done, "`{}` has no such statement number {nth}", program.name);
    }

    /// Changes a statement.
    fn op(&mut self, what: impl Fn(&Op) -> bool, nth: usize, change: impl FnOnce(&mut Exprs, &mut Op)) {
        self.list(what, nth, |e, list, at| change(e, &mut list[at].op));
    }

    fn drop(&mut self, what: impl Fn(&Op) -> bool, nth: usize) {
        self.list(what, nth, |_, list, at| drop(list.remove(at)));
    }

    fn twice(&mut self, what: impl Fn(&Op) -> bool, nth: usize) {
        self.list(what, nth, |_, list, at| list.insert(at, list[at].clone()));
    }

    /// Moves a statement after the next one.
    fn later(&mut self, what: impl Fn(&Op) -> bool, nth: usize) {
        self.list(what, nth, |_, list, at| {
            let next = (at + 1..list.len()).find(|&at| acts(&list[at].op));
            let next = next.expect("a statement after it");
            let moved = list.remove(at);
            list.insert(next, moved);
        });
    }

    /// Moves a statement before the previous one.
    fn earlier(&mut self, what: impl Fn(&Op) -> bool, nth: usize) {
        self.list(what, nth, |_, list, at| {
            let before = (0..at).rev().find(|&at| acts(&list[at].op));
            let before = before.expect("a statement before it");
            let moved = list.remove(at);
            list.insert(before, moved);
        });
    }

    /// Removes an election: all threads execute its body.
    fn unelect(&mut self, nth: usize) {
        self.list(elect, nth, |_, list, at| {
            let Op::Elect(_, body) = list.remove(at).op else { return };
            list.splice(at..at, body);
        });
    }

    fn elects(&mut self, nth: usize, scope: Scope) {
        self.op(elect, nth, |_, op| {
            if let Op::Elect(of, _) = op {
                *of = scope;
            }
        });
    }

    /// Only threads below a number execute it.
    fn only_below(&mut self, what: impl Fn(&Op) -> bool, nth: usize, threads: i64) {
        let last = i64::from(self.program().launch.threads) - 1;
        self.list(what, nth, |e, list, at| {
            let (thread, end) = (e.leaf(Int::Thread, 0, last, 1, Scope::Thread), e.int(threads));
            let cond = e.lt(thread, end);
            let stmt = list[at].clone();
            list[at].op = Op::If { cond: cond.into(), then: vec![stmt], other: vec![] };
        });
    }

    /// Adds to the operand-th index of a statement: of registers and memory, slots, numbers, guards, in
    /// order.
    fn shift(&mut self, what: impl Fn(&Op) -> bool, nth: usize, operand: usize, by: i64) {
        self.op(what, nth, |e, op| {
            let by = e.int(by);
            let mut all = indices(op);
            *all[operand] = e.add(*all[operand], by);
        });
    }

    /// Replaces subexpressions in every index of a statement; at least one must change.
    fn replace(&mut self, what: impl Fn(&Op) -> bool, nth: usize, replace: Replace<'_>) {
        self.op(what, nth, |e, op| {
            let mut changed = false;
            for index in indices(op) {
                let new = rebuilt(e, *index, replace);
                changed |= new != *index;
                *index = new;
            }
            assert!(changed, "there is nothing to be replaced in {op:?}");
        });
    }

    /// `x < n` becomes `x < n + by` in the guards of a statement: in all comparisons, or in the one with this
    /// number.
    fn guard_by(&mut self, what: impl Fn(&Op) -> bool, nth: usize, which: Option<usize>, by: i64) {
        let mut seen = 0;
        self.replace(what, nth, &mut |e, at| {
            let (Int::Lt(x, n) | Int::Within(x, n)) = e.get(at).int else { return None };
            seen += 1;
            if which.is_some_and(|which| which != seen - 1) {
                return None;
            }
            let by = e.int(by);
            let n = e.add(n, by);
            Some(match e.get(at).int {
                Int::Within(..) => e.within(x, n),
                _ => e.lt(x, n),
            })
        });
    }

    /// The wait allows `by` more groups in flight.
    fn pending(&mut self, nth: usize, by: i32) {
        self.op(wait, nth, |_, op| {
            if let Op::WaitQueue { pending, .. } = op {
                *pending = pending.checked_add_signed(by).expect("a count");
            }
        });
    }

    /// Changes the thread count of a named barrier, or the arrival count of an mbarrier.
    fn arrivals(&mut self, bar: usize, count: u32) {
        match &mut self.program().bars[bar] {
            Bar::Named { threads: known, .. } | Bar::Mbarriers { count: known, .. } => *known = count,
            _ => panic!("barrier {bar} counts no arrivals"),
        }
    }

    /// Changes the expected bytes of an arrival.
    fn announces(&mut self, nth: usize, bytes: Option<u32>) {
        self.op(
            |op| matches!(op, Op::Arrive { bytes: Some(_), .. }),
            nth,
            |_, op| {
                if let Op::Arrive { bytes: known, .. } = op {
                    *known = bytes;
                }
            },
        );
    }

    /// Makes a condition always true.
    fn always(&mut self, nth: usize) {
        self.op(condition, nth, |e, op| {
            if let Op::If { cond, .. } = op {
                *cond = e.int(1).into();
            }
        });
    }
}

impl Cut for Kernel {
    fn program(&mut self) -> &mut Kernel {
        self
    }
}
