//! Blocks of one launch that cooperate: the last block to arrive adds up, cumulative sums in one pass. The kernels are shipped as
//! examples. A barrier before an update by the thread that wrote what the update releases may be
//! left out, so its removal is not in the table.

use tilewright::KernelDef;
use tilewright::kernels::memory::sums::sum_of_all;
use tilewright_codegen::index::Exprs;
use tilewright_codegen::thread::{Change, Frag, Mem};
use tilewright_sim::Arg;
use tilewright_tests::between;

use super::super::common::load_op;
use super::*;

/// The variant for any sizes.
fn program(def: &KernelDef, args: Vec<Arg>, to: (&'static str, Vec<f32>)) -> Program {
    let kernel = def.generate().unwrap_or_else(|why| panic!("{why}"));
    let last = kernel.variants.last().expect("a variant");
    Program { kernel: last.program.clone(), args, wanted: vec![to], counts: Vec::new() }
}

fn sums() -> Program {
    let x: Vec<f32> = (0..2500).map(|i| (i % 7) as f32).collect();
    let (parts, arrived) = (Arg::in_out(&[0.0f32; 3], [3]), Arg::in_out(&[0i32], [1]));
    let args = vec![Arg::tensor(&x, [2500]), parts, arrived, Arg::output::<f32>([1])];
    let counts = vec![("arrived", vec![0])];
    Program { counts, ..program(between::total().def(), args, ("y", vec![x.iter().sum()])) }
}

fn cumulative_sums() -> Program {
    let x: Vec<f32> = (0..1100).map(|i| (i % 5) as f32).collect();
    let wanted = x.iter().scan(0.0, |sum, x| {
        *sum += x;
        Some(*sum)
    });
    let args = vec![
        Arg::tensor(&x, [1100]),
        Arg::in_out(&[0i32], [1]),
        Arg::in_out(&[0i32; 3], [3]),
        Arg::in_out(&[0.0f32; 3], [3]),
        Arg::output::<f32>([1100]),
    ];
    let counts = vec![("ticket", vec![3]), ("flags", vec![1; 3])];
    Program { counts, ..program(between::running_sum().def(), args, ("y", wanted.collect())) }
}

/// Three blocks. The last one waits.
fn words_of_blocks() -> Program {
    let x: Vec<f32> = (0..300).map(|i| (i % 5) as f32 + 1.0).collect();
    let args = vec![
        Arg::tensor(&x, [1, 300]).strides([300, 1]),
        Arg::output::<f32>([1]),
        Arg::in_out(&[0u64; 3], [3]),
    ];
    let def = sum_of_all().def().specialize(&[("L", 32), ("W", 128), ("P", 3)], &[("T", Elem::F32)]);
    let counts = vec![("words", vec![0; 3])];
    Program {
        counts,
        ..program(&def.unwrap_or_else(|why| panic!("{why}")), args, ("y", vec![x.iter().sum()]))
    }
}

/// Mutations of atomic updates, counted from 0 in program order.
trait Updates: Cut {
    fn update(&mut self, nth: usize, change: impl FnOnce(&mut Exprs, &mut Op)) {
        self.op(atomic, nth, change);
    }

    fn ordered(&mut self, nth: usize, to: MemoryOrder) {
        self.update(nth, |_, op| {
            if let Op::Atomic { order, .. } = op {
                *order = to;
            }
        });
    }

    fn with_scope(&mut self, nth: usize, of: Scope) {
        self.update(nth, |_, op| {
            if let Op::Atomic { scope, .. } = op {
                *scope = of;
            }
        });
    }

    /// All threads execute it, on the first element.
    fn by_all(&mut self, nth: usize) {
        self.update(nth, |e, op| {
            if let Op::Atomic { to, guard, .. } = op {
                *guard = None;
                to.index = e.int(0);
            }
        });
    }

    fn operation(&mut self, nth: usize, with: Change, by: i64) {
        self.update(nth, |_, op| {
            if let Op::Atomic { op, value, .. } = op {
                (*op, *value) = (with, Val::lit(by as i32, Elem::I32));
            }
        });
    }

    /// A load, an addition and a store instead.
    fn in_steps(&mut self, nth: usize) {
        self.list(atomic, nth, |e, list, at| {
            let Op::Atomic { to, value, guard, old, .. } = list[at].op.clone() else { return };
            let old: Frag = old.expect("an old value");
            let Val::Reg(value, position) = value else { panic!("no register") };
            let sum = Val::Bin(
                tilewright_codegen::thread::Bin::Add,
                Box::new(Val::Reg(value, position)),
                Box::new(Val::Reg(old.reg, old.at)),
            );
            let site = list[at].site;
            let from = Frag { reg: value, at: e.int(0), len: 1 };
            list[at].op = load_op(old, to.clone(), guard, 0.0);
            list.insert(at + 1, Stmt { site, op: Op::Assign { reg: value, at: position, value: sum } });
            list.insert(at + 2, Stmt { site, op: Op::Store { to, from, guard } });
        });
    }

    /// Removes a barrier after it: the first or the second.
    fn no_barrier_after(&mut self, nth: usize, which: usize) {
        self.list(atomic, nth, |_, list, at| {
            let barrier = (at..list.len()).filter(|&at| sync(&list[at].op)).nth(which);
            list.remove(barrier.expect("a barrier behind it"));
        });
    }

    /// Moves the first statement of a kind before it to after it.
    fn overtakes(&mut self, nth: usize, what: impl Fn(&Op) -> bool) {
        self.list(atomic, nth, |_, list, at| {
            let first = (0..at).rev().find(|&at| what(&list[at].op)).expect("a statement before it");
            let moved = list.remove(first);
            list.insert(at, moved);
        });
    }

    /// Its element, by an offset.
    fn elsewhere(&mut self, nth: usize, by: i64) {
        self.update(nth, |e, op| {
            if let Op::Atomic { to, .. } = op {
                let by = e.int(by);
                to.index = e.add(to.index, by);
            }
        });
    }
}

impl Updates for Kernel {}

/// Mutations of waits for elements.
trait Waits: Cut {
    fn waits_for(&mut self, nth: usize, least: i64, elem: Elem) {
        self.op(awaits_element, nth, |_, op| {
            if let Op::Atomic { value, .. } = op {
                *value = Val::lit(least, elem);
            }
        });
    }

    /// The elements before or behind its own.
    fn waits_elsewhere(&mut self, nth: usize, by: i64) {
        self.op(awaits_element, nth, |e, op| {
            if let Op::Atomic { to, .. } = op {
                let by = e.int(by);
                to.index = e.add(to.index, by);
            }
        });
    }
}

impl Waits for Kernel {}

fn in_global(tensor: u32) -> impl Fn(&Op) -> bool {
    move |op| match op {
        Op::Store { to: Mem { space, .. }, .. } | Op::Load { from: Mem { space, .. }, .. } => {
            *space == Space::Global(tensor)
        }
        _ => false,
    }
}

fn stores_to(tensor: u32) -> impl Fn(&Op) -> bool {
    move |op| store(op) && in_global(tensor)(op)
}

fn loads_from(tensor: u32) -> impl Fn(&Op) -> bool {
    move |op| load(op) && in_global(tensor)(op)
}

pub(super) fn total() -> Of {
    Of::new("the last block adds up", sums)
        .p("the count does not release", "Race", |k| k.ordered(0, MemoryOrder::Acquire))
        .p("the count does not acquire", "Race", |k| k.ordered(0, MemoryOrder::Release))
        .p("the count is relaxed", "Race", |k| k.ordered(0, MemoryOrder::Relaxed))
        .p("the count has the scope of the block", "Race", |k| k.with_scope(0, Scope::Block))
        .p("the count has the scope of the cluster", "Race", |k| k.with_scope(0, Scope::Cluster))
        .p("the count is loaded and stored", "Race", |k| k.in_steps(0))
        .p("the count is taken twice", "NotWritten", |k| k.twice(atomic, 0))
        .p("the count goes by two", "Race | NotWritten", |k| k.operation(0, Change::Add, 2))
        .p("every thread counts", "NotWritten", |k| k.by_all(0))
        .p("no barrier behind the count", "Race | Unwritten", |k| k.no_barrier_after(0, 0))
        .p("the part is stored behind the count", "Race", |k| k.overtakes(0, stores_to(1)))
        .p("every block adds up", "Race", |k| k.always(1))
        .p("a part is left out", "wrong result", |k| k.guard_by(loads_from(1), 0, None, -1))
        .p("parts are stored at the next block's", "OutOfBounds | Race", |k| k.shift(stores_to(1), 0, 1, 1))
        .p("the count is not reset for the next launch", "wrong result", |k| k.drop(stores_to(2), 0))
}

pub(super) fn running_sum() -> Of {
    Of::new("cumulative sums in one pass", cumulative_sums)
        .p("the ticket is loaded and stored", "Race", |k| k.in_steps(0))
        .p("the ticket is taken twice", "Deadlock | NotWritten", |k| k.twice(atomic, 0))
        .p("every thread takes a ticket", "Deadlock | NotWritten", |k| k.by_all(0))
        .p("the ticket has the scope of the block", "Race", |k| k.with_scope(0, Scope::Block))
        .p("no barrier behind the ticket", "Race | Unwritten", |k| k.no_barrier_after(0, 0))
        .p("tickets go by two", "Deadlock", |k| k.operation(0, Change::Add, 2))
        .p("no wait", "Race", |k| k.drop(awaits_element, 0))
        .p("a weak load instead of the wait", "Race", |k| {
            k.op(awaits_element, 0, |e, op| {
                if let Op::Atomic { to: from, guard, .. } = op {
                    let to = Frag { reg: 0, at: e.int(0), len: 1 };
                    *op = load_op(to, from.clone(), *guard, 0.0);
                }
            });
        })
        .p("no barrier behind the wait", "Race", |k| k.drop(sync, 2))
        .p("a block waits for itself", "Deadlock", |k| {
            k.op(awaits_element, 0, |e, op| {
                if let Op::Atomic { to, .. } = op {
                    let one = e.int(1);
                    to.index = e.add(to.index, one);
                }
            });
        })
        .p("a block waits for two signals", "Deadlock", |k| {
            k.waits_for(0, 2, Elem::I32);
        })
        .p("a block waits for no signal", "Race", |k| {
            k.waits_for(0, 0, Elem::I32);
        })
        .p("the end of the block before is read ahead of the wait", "Race", |k| {
            let mut moved = None;
            k.list(elect, 0, |_, list, at| moved = Some(list.remove(at)));
            k.list(loads_from(3), 0, |_, list, at| list.insert(at + 1, moved.expect("a wait")));
        })
        .p("no signal", "Deadlock", |k| k.drop(elect, 1))
        .p("the signal is relaxed", "Race", |k| k.ordered(1, MemoryOrder::Relaxed))
        .says(&["releases nothing"])
        .p("the signal acquires alone", "Race", |k| k.ordered(1, MemoryOrder::Acquire))
        .p("the signal has the scope of the block", "Race", |k| k.with_scope(1, Scope::Block))
        .says(&["between them has the scope of one block", "an update has a scope without the other block"])
        .p("the signal has the scope of the cluster", "Race", |k| k.with_scope(1, Scope::Cluster))
        .p("every thread signals", "wrong result", |k| k.unelect(1))
        .p("the signal is given twice", "wrong result", |k| k.twice(atomic, 1))
        .p("the next block's flag is set", "OutOfBounds | Deadlock", |k| k.elsewhere(1, 1))
        .p("the flag is set by a store", "Race", |k| {
            k.update(1, |e, op| {
                if let Op::Atomic { to, guard, .. } = op {
                    let from = Frag { reg: 0, at: e.int(0), len: 1 };
                    *op = Op::Store { to: to.clone(), from, guard: *guard };
                }
            });
        })
        .p("the signal is given before the end is stored", "Race", |k| {
            let mut moved = None;
            k.list(elect, 1, |_, list, at| moved = Some(list.remove(at)));
            k.list(stores_to(3), 0, |_, list, at| list.insert(at, moved.expect("a signal")));
        })
        .p("the end is stored at the next block's", "OutOfBounds | Race", |k| k.shift(stores_to(3), 0, 1, 1))
}

pub(super) fn words() -> Of {
    Of::new("words of blocks", words_of_blocks)
        .p("a wait for marks that are never written", "Deadlock", |k| k.waits_for(0, 1 << 40, Elem::U64))
        .p("a wait for the words one block on", "OutOfBounds", |k| k.waits_elsewhere(0, 1))
        .p("no word is written", "Deadlock", |k| k.drop(atomic, 0))
        .p("words are not reset for the next launch", "wrong result", |k| k.drop(atomic, 1))
        .p("every block waits", "wrong result | NotWritten | Deadlock | Race", |k| k.always(0))
}
