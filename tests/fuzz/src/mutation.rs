//! Faults in thread programs: each operation that orders accesses is removed, moved or weakened, one at a time; each guard is
//! removed, and each address moved by one element. The simulator must report each of them, or its results must differ.
//!
//! A change that has no effect is no fault: [`REASONS`] says when, and such changes are not made.

use tilewright_codegen::atom::OperandKind;
use tilewright_codegen::index::Ix;
use tilewright_codegen::thread::visit::{Access, Use};
use tilewright_codegen::thread::{
    Change, Fence, Id, Kernel, Mem, MemoryOrder, Op, Param, Queue, Scope, Space, Stmt, Val,
};
use tilewright_sim::{Arg, Error, Options, run_program};

/// Changes that have no effect, and why.
pub const REASONS: &[(&str, &str)] = &[
    ("an operation that releases is moved behind others", "a later release orders more accesses"),
    ("an operation that acquires is moved ahead of others", "an earlier wait orders more accesses"),
    (
        "an operation is moved across registers, integers and reads of constant memory",
        "they have no order with other threads",
    ),
    (
        "a proxy fence is moved behind a barrier",
        "each thread executes it after it has synchronised with the writers and before the asynchronous access, so it is on the path of \
         base causality that orders the two, as the PTX memory model asks (proxy-preserved base causality order)",
    ),
    (
        "the wait for the previous kernel is moved behind accesses of shared memory",
        "that kernel has no part in it",
    ),
    ("a commit is moved", "a group is the copies between two commits, and a wait counts the same groups"),
    ("a commit without a later wait is removed", "no thread reads what these copies write"),
    (
        "an operation is removed that no run of the kernel executes",
        "the run is the kernel's: see `is_executed`",
    ),
    (
        "the fence of initialised mbarriers is removed where neither the copy engine nor another block uses them",
        "threads of the block use them through the generic proxy, and a barrier orders that",
    ),
    (
        "a pin is removed, and no statement uses its registers between the pins around it",
        "a compiler has no use of them that it could move across the wait or the fence",
    ),
    (
        "a role requests fewer registers, which its arrays still fit in, or none, and the pool has the number that the others request",
        "compilers allocate the number that the role has; only a request for more than the pool has, or arrays that do not fit, is a fault",
    ),
    (
        "the last release of a ring's slot is removed, or the first wait for a free one",
        "no later copy waits for it, and slots are free at the start: runs with more iterations than slots show these faults",
    ),
    (
        "an order is removed from a ticket or a count that publishes no element",
        "no thread reads what another wrote ahead of it",
    ),
    (
        "a barrier is removed or moved, and each thread accesses its own elements on both sides, or another barrier is there",
        "the barrier is there for other sizes and threads",
    ),
    (
        "__syncwarp is removed ahead of an elected arrival, where the warp only waited for wgmma since its last synchronisation",
        "only tensor cores have read the slot. wgmma.wait_group is executed by each lane and returns when their reads are complete, so \
         the elected lane has itself observed what its arrival releases; the other lanes have no accesses",
    ),
];

/// A fault.
pub struct Fault {
    /// The kind of operation.
    pub class: &'static str,
    /// How it is changed.
    pub change: &'static str,
    nth: usize,
    how: How,
}

#[derive(Clone, Debug)]
enum How {
    Remove,
    /// To another position of its list.
    Move(usize),
    /// A wait for another phase.
    Phase(i64),
    Pending,
    Bytes(u32),
    Order(MemoryOrder),
    Scope(Scope),
    Registers(usize, Option<u32>),
    Everyone,
    Unguard,
    /// One element further.
    Address,
}

/// The outcome of a fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// The simulator reports it.
    Fault(String),
    /// A result differs.
    Wrong,
    /// None of the two.
    Slips,
}

/// Visits each statement with its list, outer ones first, until the answer is true.
fn walk(list: &mut Vec<Stmt>, visit: &mut dyn FnMut(&mut Vec<Stmt>, usize) -> bool) -> bool {
    for at in 0..list.len() {
        if visit(list, at) || list[at].op.blocks_mut().into_iter().any(|block| walk(block, visit)) {
            return true;
        }
    }
    false
}

/// Every fault of a kernel.
pub fn faults(kernel: &Kernel) -> Vec<Fault> {
    let order = program_order(&kernel.body);
    let (mut all, mut nth, mut body) = (Vec::new(), 0, kernel.body.clone());
    walk(&mut body, &mut |list, at| {
        for (class, change, how) in changes(kernel, list, at, (&order[..nth], &order[nth + 1..])) {
            all.push(Fault { class, change, nth, how });
        }
        nth += 1;
        false
    });
    all
}

/// All statements, outer ones ahead of their blocks.
fn program_order(list: &[Stmt]) -> Vec<&Stmt> {
    let mut all = Vec::new();
    for stmt in list {
        all.push(stmt);
        stmt.op.blocks().into_iter().for_each(|block| all.extend(program_order(block)));
    }
    all
}

/// Does a statement itself, without its blocks, access memory that threads share?
fn accesses_itself(kernel: &Kernel, stmt: &Stmt) -> bool {
    let mut is_used = false;
    stmt.op.each_use(&mut |used| {
        is_used |= matches!(used, Use::Memory { space, .. } if is_shared(kernel, space))
    });
    is_used
}

/// Is it memory that threads share and write?
fn is_shared(kernel: &Kernel, space: Space) -> bool {
    match space {
        Space::Shared(_) => true,
        Space::Global(id) => match &kernel.params[id as usize] {
            Param::Pointer { write, .. } => *write,
            _ => true,
        },
    }
}

/// Does a statement use registers of this array, up to the next pin of them?
fn is_used<'s>(reg: Id, mut stmts: impl Iterator<Item = &'s &'s Stmt>) -> bool {
    let uses = |stmt: &Stmt| {
        let mut is_used = false;
        stmt.op.each_use(&mut |used| is_used |= matches!(used, Use::Registers(id, _) if id == reg));
        is_used && !matches!(stmt.op, Op::Atom { .. })
    };
    stmts.by_ref().take_while(|stmt| stmt.op != Op::Pin(reg)).any(|stmt| uses(stmt))
}

/// Does it access memory that threads share, in its blocks too?
fn accesses(kernel: &Kernel, stmt: &Stmt) -> bool {
    accesses_itself(kernel, stmt) || stmt.op.blocks().into_iter().flatten().any(|stmt| accesses(kernel, stmt))
}

/// Does it access global memory, in its blocks too?
fn is_in_global(stmt: &Stmt) -> bool {
    let mut is_used = false;
    stmt.op.each_use(&mut |used| is_used |= matches!(used, Use::Memory { space: Space::Global(_), .. }));
    is_used || stmt.op.blocks().into_iter().flatten().any(is_in_global)
}

/// Does it write memory that threads share, in its blocks too?
fn writes(stmt: &Stmt) -> bool {
    let mut is_used = false;
    stmt.op.each_use(&mut |used| {
        is_used |= matches!(used, Use::Memory { access: Access::Write | Access::Update, .. })
    });
    is_used || stmt.op.blocks().into_iter().flatten().any(writes)
}

/// Does it order accesses, in its blocks too?
fn orders(stmt: &Stmt) -> bool {
    class(&stmt.op).is_some() || stmt.op.blocks().into_iter().flatten().any(orders)
}

/// Has the bulk copy engine or a tensor core a part in it, in its blocks too?
fn is_asynchronous(stmt: &Stmt) -> bool {
    let of_engine = |op: &Op| matches!(op, Op::Atom { row, .. } if row.family.async_proxy || row.operands.iter().any(|of| matches!(of.kind, OperandKind::Barrier)));
    of_engine(&stmt.op) || stmt.op.blocks().into_iter().flatten().any(is_asynchronous)
}

/// The kind of an operation that orders accesses.
fn class(op: &Op) -> Option<&'static str> {
    Some(match op {
        Op::Sync { .. } => "barrier",
        Op::Fence(Fence::Threads(_)) => "__syncwarp",
        Op::Fence(Fence::ProxyAsync) => "proxy fence",
        Op::Fence(Fence::MbarrierInit) => "mbarrier fence",
        Op::Fence(Fence::Products) => "wgmma fence",
        Op::Pin(_) => "pin",
        Op::Commit(_) => "commit",
        Op::WaitQueue { .. } => "wait for a group",
        Op::Arrive { .. } => "arrival",
        Op::Await { .. } => "wait for a phase",
        Op::Atomic { op: Change::Await, .. } => "wait for a flag",
        Op::Atomic { order, .. } if *order != MemoryOrder::Relaxed => "order of an atomic",
        Op::AwaitPrevious => "wait for the previous kernel",
        Op::Roles(roles) if roles.iter().any(|role| role.registers.is_some()) => "setmaxnreg",
        _ => return None,
    })
}

/// The condition under which an operation accesses memory.
fn guard(op: &Op) -> Option<Ix> {
    match op {
        Op::Load { guard, .. }
        | Op::Store { guard, .. }
        | Op::Atomic { guard, .. }
        | Op::Atom { guard, .. } => *guard,
        _ => None,
    }
}

/// A position in the list behind the next access, if no other order comes first.
fn behind(kernel: &Kernel, list: &[Stmt], at: usize) -> Option<usize> {
    let next = (at + 1..list.len()).find(|&at| accesses(kernel, &list[at]) || orders(&list[at]))?;
    (accesses(kernel, &list[next]) && !orders(&list[next])).then_some(next)
}

/// The position of the access before it, if no other order comes between.
fn ahead(kernel: &Kernel, list: &[Stmt], at: usize) -> Option<usize> {
    let last = (0..at).rev().find(|&at| accesses(kernel, &list[at]) || orders(&list[at]))?;
    (accesses(kernel, &list[last]) && !orders(&list[last])).then_some(last)
}

/// Has a warp waited for tensor cores since its last access of its own?
fn only_wgmma(kernel: &Kernel, before: &[&Stmt]) -> bool {
    for stmt in before.iter().rev() {
        match &stmt.op {
            Op::WaitQueue { queue: Queue::Products, .. } => return true,
            Op::Pin(_) => {}
            _ if accesses_itself(kernel, stmt) || class(&stmt.op).is_some() => return false,
            _ => {}
        }
    }
    false
}

/// Is it a fault to remove this operation? See [`REASONS`].
fn has_effect(kernel: &Kernel, op: &Op, (before, after): Around<'_>) -> bool {
    match op {
        Op::Fence(Fence::Threads(_)) => !only_wgmma(kernel, before),
        Op::Fence(Fence::MbarrierInit) => {
            kernel.launch.cluster.iter().any(|&blocks| blocks > 1) || kernel.body.iter().any(is_asynchronous)
        }
        Op::Commit(queue) => after.iter().chain(before).any(|stmt| {
            matches!(&stmt.op, Op::WaitQueue { queue: of, .. } if of == queue || *queue == Queue::Bulk && *of == Queue::BulkRead)
        }),
        Op::Pin(reg) => is_used(*reg, after.iter()) || is_used(*reg, before.iter().rev()),
        _ => true,
    }
}

/// The statements before one and behind it, in program order.
type Around<'s> = (&'s [&'s Stmt], &'s [&'s Stmt]);

type Made = (&'static str, &'static str, How);

fn changes(kernel: &Kernel, list: &[Stmt], at: usize, around: Around<'_>) -> Vec<Made> {
    let mut all: Vec<Made> = Vec::new();
    let op = &list[at].op;
    if let Op::Elect(_, body) = op
        && body.iter().any(|stmt| matches!(stmt.op, Op::Arrive { .. }))
    {
        all.push(("arrival", "by every thread", How::Everyone));
    }
    // The statement that publishes: also an elected one.
    let releases = |op: &Op| match op {
        Op::Arrive { .. } => true,
        Op::Atomic { order, .. } => order.releases(),
        _ => false,
    };
    let publishes = match op {
        Op::Elect(_, body) => body.iter().any(|stmt| releases(&stmt.op)) && !body.iter().any(is_asynchronous),
        other => releases(other),
    };
    if publishes
        && let Some(before) = (0..at).rev().find(|&at| accesses(kernel, &list[at]))
        && (writes(&list[before]) || !orders(&list[before]))
    {
        all.push(("publish order", "ahead of the access that it publishes", How::Move(before)));
    }
    if guard(op).is_some() {
        all.push(("guard", "removed", How::Unguard));
    }
    if let Op::Load { .. } | Op::Store { .. } = op {
        all.push(("address", "one element further", How::Address));
    }
    let Some(class) = class(op) else { return all };
    let mut add = |change, how| all.push((class, change, how));
    match op {
        op if !has_effect(kernel, op, around) => return all,
        Op::Roles(roles) => {
            for (role, of) in roles.iter().enumerate() {
                let Some(registers) = of.registers else { continue };
                add("removed", How::Registers(role, None));
                add("8 registers more", How::Registers(role, Some(registers + 8)));
                add("8 registers fewer", How::Registers(role, Some(registers - 8)));
            }
            return all;
        }
        _ => add("removed", How::Remove),
    }
    let (behind, ahead) = (behind(kernel, list, at), ahead(kernel, list, at));
    match op {
        Op::Sync { .. } | Op::Fence(Fence::Threads(_)) => {
            all.extend(behind.map(|to| (class, "behind the next access", How::Move(to))));
            all.extend(ahead.map(|to| (class, "ahead of the last access", How::Move(to))));
        }
        Op::Fence(Fence::ProxyAsync) => {
            let releases = |stmt: &Stmt| match &stmt.op {
                Op::Elect(_, body) => body.iter().any(|stmt| matches!(stmt.op, Op::Arrive { .. })),
                op => matches!(op, Op::Arrive { .. }),
            };
            let order = (at + 1..list.len()).find(|&at| orders(&list[at])).filter(|&at| releases(&list[at]));
            all.extend(order.map(|to| (class, "behind the arrival", How::Move(to))));
            all.extend(ahead.map(|to| (class, "ahead of the last access", How::Move(to))));
        }
        Op::Await { .. } => {
            all.push((class, "the next phase", How::Phase(1)));
            all.push((class, "the phase before", How::Phase(-1)));
            all.extend(behind.map(|to| (class, "behind the next access", How::Move(to))));
        }
        Op::WaitQueue { .. } => {
            all.push((class, "one group more in flight", How::Pending));
            all.extend(behind.map(|to| (class, "behind the next access", How::Move(to))));
        }
        Op::Arrive { bytes: Some(bytes), .. } => {
            all.push((class, "half of the bytes", How::Bytes(bytes / 2)));
            all.push((class, "twice the bytes", How::Bytes(bytes * 2)));
        }
        Op::Atomic { op: Change::Await, order, .. } => {
            if order.acquires() {
                all.push((class, "without its order", How::Order(MemoryOrder::Relaxed)));
            }
            all.extend(behind.map(|to| (class, "behind the next access", How::Move(to))));
        }
        Op::Atomic { order, scope, .. } => {
            let weaker = [MemoryOrder::Relaxed, MemoryOrder::Acquire, MemoryOrder::Release];
            let weaker = weaker
                .into_iter()
                .filter(|to| to != order && (*order == MemoryOrder::Both || *to == MemoryOrder::Relaxed));
            all.extend(weaker.map(|to| (class, "weaker", How::Order(to))));
            if *scope == Scope::Grid {
                all.push((class, "a narrower scope", How::Scope(Scope::Block)));
            }
        }
        Op::AwaitPrevious => {
            let in_global = |&to: &usize| is_in_global(&list[to]);
            all.extend(behind.filter(in_global).map(|to| (class, "behind the next access", How::Move(to))));
        }
        _ => {}
    }
    all
}

impl Fault {
    /// A kernel that accesses an element out of bounds where the changed operation is: whether a run executes it.
    fn trap(&self, kernel: &Kernel) -> Kernel {
        let mut kernel = kernel.clone();
        let (mut body, mut left) = (std::mem::take(&mut kernel.body), self.nth);
        let written = kernel.params.iter().enumerate().find_map(|(id, param)| match param {
            Param::Pointer { elem, write: true, .. } => Some((id as Id, *elem)),
            _ => None,
        });
        let (id, elem) = written.expect("a kernel writes a tensor");
        let index = kernel.exprs.int(-1);
        walk(&mut body, &mut |list, at| {
            if left > 0 {
                left -= 1;
                return false;
            }
            let op = Op::Atomic {
                to: Mem { space: Space::Global(id), index, peer: None },
                op: Change::Add,
                value: Val::lit(0.0, elem),
                guard: None,
                order: MemoryOrder::Relaxed,
                scope: Scope::Grid,
                old: None,
                expected: None,
            };
            let site = list[at].site;
            // A guard is removed to no effect where it is true, and an address is moved to no effect where it is false.
            let trap = vec![Stmt { site, op }];
            let traps = match (guard(&list[at].op), &self.how) {
                (Some(cond), How::Unguard) => {
                    vec![Stmt { site, op: Op::If { cond: cond.into(), then: Vec::new(), other: trap } }]
                }
                (Some(cond), How::Address) => {
                    vec![Stmt { site, op: Op::If { cond: cond.into(), then: trap, other: Vec::new() } }]
                }
                _ => trap,
            };
            list.splice(at..at, traps);
            true
        });
        kernel.body = body;
        kernel
    }

    /// Does a run execute the operation that is changed?
    pub fn is_executed(&self, kernel: &Kernel, args: &[Arg], options: &Options) -> bool {
        run_program(&self.trap(kernel), args, options).is_err()
    }

    /// The kernel with the fault.
    pub fn plant(&self, kernel: &Kernel) -> Kernel {
        let mut kernel = kernel.clone();
        let (mut body, mut left) = (std::mem::take(&mut kernel.body), self.nth);
        let exprs = &mut kernel.exprs;
        walk(&mut body, &mut |list, at| {
            if left > 0 {
                left -= 1;
                return false;
            }
            match (&self.how, &mut list[at].op) {
                (How::Remove, Op::Atomic { op, order, .. }) if *op != Change::Await => {
                    *order = MemoryOrder::Relaxed
                }
                (How::Remove, _) => drop(list.remove(at)),
                (How::Move(to), _) => {
                    let stmt = list.remove(at);
                    list.insert(*to, stmt);
                }
                (How::Phase(by), Op::Await { phase, .. }) => {
                    let by = exprs.int(*by);
                    *phase = exprs.add(*phase, by);
                }
                (How::Pending, Op::WaitQueue { pending, .. }) => *pending += 1,
                (How::Bytes(new), Op::Arrive { bytes, .. }) => *bytes = Some(*new),
                (How::Order(new), Op::Atomic { order, .. }) => *order = *new,
                (How::Scope(new), Op::Atomic { scope, .. }) => *scope = *new,
                (How::Registers(role, new), Op::Roles(roles)) => roles[*role].registers = *new,
                (How::Everyone, Op::Elect(_, body)) => {
                    let body = std::mem::take(body);
                    list.splice(at..=at, body);
                }
                (
                    How::Unguard,
                    Op::Load { guard, .. }
                    | Op::Store { guard, .. }
                    | Op::Atomic { guard, .. }
                    | Op::Atom { guard, .. },
                ) => *guard = None,
                (How::Address, Op::Load { from: mem, .. } | Op::Store { to: mem, .. }) => {
                    let one = exprs.int(1);
                    mem.index = exprs.add(mem.index, one);
                }
                (how, op) => unreachable!("{how:?} of {op:?}"),
            }
            true
        });
        kernel.body = body;
        kernel
    }

    /// The statement that is changed, as text.
    pub fn statement(&self, kernel: &Kernel) -> String {
        let (mut body, mut left, mut text) = (kernel.body.clone(), self.nth, String::new());
        walk(&mut body, &mut |list, at| {
            if left > 0 {
                left -= 1;
                return false;
            }
            text = format!("{:?}", list[at].op).chars().take(160).collect();
            true
        });
        text
    }
}

/// What a fault shows with some seeds, where the kernel without it has these results.
pub fn shown(
    kernel: &Kernel,
    args: &[Arg],
    wanted: &[(String, Vec<u8>)],
    options: &Options,
    seeds: u64,
) -> Shown {
    for seed in 0..seeds {
        match run_program(kernel, args, &Options { seed, ..options.clone() }) {
            Err(Error::Fault(fault)) => return Shown::Fault(format!("{:?}", fault.kind())),
            Err(error) => return Shown::Fault(error.to_string()),
            Ok(outcome) if wanted.iter().any(|(name, bytes)| outcome.bytes(name) != Some(bytes)) => {
                return Shown::Wrong;
            }
            Ok(_) => {}
        }
    }
    Shown::Slips
}

/// The results of a kernel without a fault, or why it does not run.
pub fn results(kernel: &Kernel, args: &[Arg], options: &Options) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let outcome = run_program(kernel, args, options)?;
    let names = kernel.params.iter().filter_map(|param| match param {
        Param::Pointer { name, write: true, .. } => Some(name.clone()),
        _ => None,
    });
    Ok(names.filter_map(|name| Some((name.clone(), outcome.bytes(&name)?.to_vec()))).collect())
}
