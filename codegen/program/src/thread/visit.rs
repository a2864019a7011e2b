//! The visitor of thread programs: the operands of a statement itself, its blocks, and its effect on the order of
//! accesses. Each question has one list of all statements, here, so that passes need not list them again.

use super::{AtomArg, Change, Fence, Frag, Id, Kernel, Lane, Mem, Op, Queue, Space, Stmt, Val};
use crate::isa::atom::{Atom, Effect};
use crate::thread::index::Ix;
use crate::values::flow::{Control, Preorder, Structured};

/// Is something read, written or both?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Only read.
    Read,
    /// Only written.
    Write,
    /// Its new value depends on the old one.
    Update,
}

/// One thing that a statement uses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Use {
    /// An integer: of an index, a guard, a bound, a condition, a value.
    Integer(Ix),
    /// An integer that an instruction, or a function of the prelude, takes in 32 bits.
    Operand(Ix),
    /// Elements of a register array.
    Registers(Id, Access),
    /// Memory.
    Memory {
        /// Which.
        space: Space,
        /// How.
        access: Access,
        /// Through the asynchronous proxy? Otherwise through the generic one.
        asynchronous: bool,
    },
}

/// The effect of a statement, without its blocks, on the order of accesses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Order {
    /// No effect on the order: it computes, accesses memory, or contains other statements.
    None,
    /// Issues an instruction, which may complete later: `atom.family.completes`.
    Issue(&'static Atom),
    /// Commits a group of instructions.
    Commit(Queue),
    /// Waits until at most this number of groups is in flight.
    Wait(Queue, u32),
    /// A fence.
    Fence(Fence),
    /// A barrier: arrives and waits.
    Barrier,
    /// Arrives, without waiting.
    Arrive,
    /// Waits for the arrivals of others.
    Await,
}

/// The statements that neither have blocks nor leave a loop, as a pattern.
macro_rules! simple {
    () => {
        Op::Comment(_)
            | Op::Let(..)
            | Op::Set(..)
            | Op::Take(..)
            | Op::Assign { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::Atom { .. }
            | Op::Commit(_)
            | Op::WaitQueue { .. }
            | Op::Fence(_)
            | Op::Pin(_)
            | Op::Claim(_)
            | Op::Probe { .. }
            | Op::Sync { .. }
            | Op::Arrive { .. }
            | Op::Await { .. }
            | Op::AwaitPrevious
            | Op::StartNext
            | Op::InitBarriers(_)
    };
}

impl Structured for Kernel {
    type Stmt = Stmt;

    fn control(&self, stmt: &Stmt) -> Control {
        match &stmt.op {
            Op::For { var, .. } => Control::Repeat { var: *var, runs: false },
            Op::Leave { of, .. } => Control::Leave(*of),
            Op::If { .. } => Control::One,
            Op::Elect(..) => Control::OneOrNone,
            Op::Roles(roles) => {
                let warps: u32 = roles.iter().map(|role| role.warps.1 - role.warps.0).sum();
                Control::Together { all: warps >= self.launch.threads.div_ceil(32) }
            }
            simple!() => Control::Straight,
        }
    }

    fn blocks(stmt: &mut Stmt) -> Vec<&mut Vec<Stmt>> {
        stmt.op.blocks_mut()
    }
}

impl Op {
    /// The blocks inside a statement.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        match self {
            Op::For { body, .. } | Op::Elect(_, body) => vec![body],
            Op::If { then, other, .. } => vec![then, other],
            Op::Roles(roles) => roles.iter().map(|role| role.body.as_slice()).collect(),
            Op::Leave { .. } | simple!() => Vec::new(),
        }
    }

    /// The same, mutably.
    pub fn blocks_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            Op::For { body, .. } | Op::Elect(_, body) => vec![body],
            Op::If { then, other, .. } => vec![then, other],
            Op::Roles(roles) => roles.iter_mut().map(|role| &mut role.body).collect(),
            Op::Leave { .. } | simple!() => Vec::new(),
        }
    }

    /// Its effect on the order of accesses, without its blocks.
    pub fn order(&self) -> Order {
        match self {
            Op::Atom { row, .. } => Order::Issue(row),
            Op::Commit(queue) => Order::Commit(*queue),
            Op::WaitQueue { queue, pending } => Order::Wait(*queue, *pending),
            Op::Fence(fence) => Order::Fence(*fence),
            Op::Sync { .. } => Order::Barrier,
            Op::Arrive { .. } => Order::Arrive,
            Op::Await { .. } | Op::Atomic { op: Change::Await, .. } | Op::AwaitPrevious => Order::Await,
            Op::Comment(_)
            | Op::Let(..)
            | Op::Set(..)
            | Op::Take(..)
            | Op::Assign { .. }
            | Op::Load { .. }
            | Op::Store { .. }
            | Op::Atomic { .. }
            | Op::StartNext
            | Op::Pin(_)
            | Op::Claim(_)
            | Op::Probe { .. }
            | Op::InitBarriers(_)
            | Op::For { .. }
            | Op::Leave { .. }
            | Op::If { .. }
            | Op::Elect(..)
            | Op::Roles(_) => Order::None,
        }
    }

    /// Everything that it uses, without its blocks.
    pub fn uses(&self) -> Vec<Use> {
        let mut all = Vec::new();
        self.each_use(&mut |used| all.push(used));
        all
    }

    /// Calls a function with everything that it uses, without its blocks.
    pub fn each_use(&self, f: &mut dyn FnMut(Use)) {
        match self {
            Op::Let(_, at) | Op::Set(_, at) | Op::Leave { cond: at, .. } => f(Use::Integer(*at)),
            Op::Take(_, value) | Op::If { cond: value, .. } => value.each_use(f),
            Op::Assign { reg, at, value } => {
                f(Use::Registers(*reg, Access::Write));
                f(Use::Integer(*at));
                value.each_use(f);
            }
            Op::Load { to, from, guard, volatile_at, .. } => {
                fragment(to, Access::Write, f);
                memory(from, Access::Read, false, f);
                integers(guard.iter().chain(volatile_at), f);
            }
            Op::Store { to, from, guard } => {
                fragment(from, Access::Read, f);
                memory(to, Access::Write, false, f);
                integers(guard, f);
            }
            Op::Atomic { to, op, value, guard, old, expected, .. } => {
                let access = if *op == Change::Await { Access::Read } else { Access::Update };
                memory(to, access, false, f);
                value.each_use(f);
                expected.iter().for_each(|expected| expected.each_use(f));
                integers(guard, f);
                old.iter().for_each(|old| fragment(old, Access::Write, f));
            }
            Op::Atom { row, args, guard } => {
                row.each_use(args, f);
                integers(guard, f);
            }
            Op::Arrive { slot, peer, .. } => operands([slot].into_iter().chain(peer), f),
            Op::Sync { member, .. } => operands(member, f),
            Op::Await { slot, phase, .. } => {
                f(Use::Operand(*slot));
                // Its lowest bit is passed.
                f(Use::Integer(*phase));
            }
            Op::For { from, to, .. } => integers([from, to], f),
            Op::Claim(claim) => {
                claim.value.each_use(f);
                integers([&claim.inside].into_iter().chain(&claim.at), f);
            }
            Op::Probe { values, guard, .. } => {
                values.iter().for_each(|value| value.each_use(f));
                integers(guard, f);
            }
            Op::Comment(_)
            | Op::Commit(_)
            | Op::WaitQueue { .. }
            | Op::Fence(_)
            | Op::Pin(_)
            | Op::AwaitPrevious
            | Op::StartNext
            | Op::InitBarriers(_)
            | Op::Roles(_)
            | Op::Elect(..) => {}
        }
    }
}

/// These statements and those inside them, in order.
pub fn preorder(body: &[Stmt]) -> Preorder<'_, Stmt> {
    Preorder::new(body.iter(), |stmt| stmt.op.blocks().into_iter().flatten().collect())
}

impl Stmt {
    /// This statement and those inside it, in order.
    pub fn preorder(&self) -> Preorder<'_, Stmt> {
        preorder(std::slice::from_ref(self))
    }
}

impl Atom {
    /// Its use of these operands.
    fn each_use(&self, args: &[AtomArg], f: &mut dyn FnMut(Use)) {
        // A matrix product adds to the registers that it writes.
        let accumulates = matches!(self.effect, Effect::Mma { .. });
        for (operand, arg) in self.operands.iter().zip(args) {
            let access = match (operand.writes, accumulates) {
                (false, _) => Access::Read,
                (true, false) => Access::Write,
                (true, true) => Access::Update,
            };
            match arg {
                AtomArg::Frag(frag) => fragment(frag, access, f),
                AtomArg::At(at) | AtomArg::Descriptor { at, .. } => {
                    memory(at, access, self.family.async_proxy, f);
                    // Addresses in shared memory have 32 bits.
                    if matches!(at.space, Space::Shared(_)) {
                        f(Use::Operand(at.index));
                    }
                }
                AtomArg::Map { at, .. } => operands(at, f),
                AtomArg::Barrier { slot: at, .. } | AtomArg::Int(at) => f(Use::Operand(*at)),
            }
        }
    }
}

impl Val {
    /// The values that it is computed from.
    pub fn parts(&self) -> Vec<&Val> {
        match self {
            Val::Reg(..) | Val::Lit(..) | Val::Int(..) | Val::Param(_) => Vec::new(),
            Val::Un(_, x) | Val::Cast(_, x) | Val::Bits(_, x) | Val::Vote(_, x) => vec![x],
            Val::Shuffle(x, Lane::Xor(_)) => vec![x],
            Val::Shuffle(x, Lane::InGroup(_, lane)) => vec![x, lane],
            Val::Bin(_, x, y) | Val::Cmp(_, x, y) => vec![x, y],
            Val::Fma(parts) | Val::Product(_, parts) | Val::Pick(parts) => parts.iter().collect(),
            Val::Ptx { args, model, .. } => args.iter().chain(model.as_deref()).collect(),
        }
    }

    /// Everything that it uses.
    fn each_use(&self, f: &mut dyn FnMut(Use)) {
        if let Val::Reg(id, _) = self {
            f(Use::Registers(*id, Access::Read));
        }
        match self {
            Val::Reg(_, at) | Val::Int(at, _) => f(Use::Integer(*at)),
            Val::Shuffle(_, Lane::Xor(distance)) => f(Use::Operand(*distance)),
            _ => {}
        }
        self.parts().into_iter().for_each(|part| part.each_use(f));
    }

    /// Does it read the array?
    pub(crate) fn reads(&self, array: Id) -> bool {
        matches!(self, Val::Reg(id, _) if *id == array)
            || self.parts().into_iter().any(|part| part.reads(array))
    }
}

fn integers<'i>(all: impl IntoIterator<Item = &'i Ix>, f: &mut dyn FnMut(Use)) {
    all.into_iter().for_each(|&at| f(Use::Integer(at)));
}

fn operands<'i>(all: impl IntoIterator<Item = &'i Ix>, f: &mut dyn FnMut(Use)) {
    all.into_iter().for_each(|&at| f(Use::Operand(at)));
}

fn fragment(frag: &Frag, access: Access, f: &mut dyn FnMut(Use)) {
    f(Use::Registers(frag.reg, access));
    f(Use::Integer(frag.at));
}

/// Memory, and the integers of its address.
fn memory(at: &Mem, access: Access, asynchronous: bool, f: &mut dyn FnMut(Use)) {
    f(Use::Memory { space: at.space, access, asynchronous });
    f(Use::Integer(at.index));
    operands(&at.peer, f);
}
