//! Register pressure of a role's arrays: a liveness analysis over the cells of arrays, in program order.
//! Addresses and temporaries are not counted, so a compiler needs more registers. During asynchronous products it may keep
//! arrays in memory that the products do not use.

use std::collections::HashMap;
use std::ops::Range;

use tilewright_program::Elem;
use tilewright_program::atom::{Done, Effect, OperandName};
use tilewright_program::thread::{Kernel, Queue, Vote};

use super::{Asking, Malformed, Result};
use crate::code::*;

/// Checks that roles request the registers that their arrays need, and that launch bounds of kernels without roles allow them.
pub(super) fn check(kernel: &Kernel, code: &Code, asking: &[Asking]) -> Result<()> {
    let bytes = bytes(kernel, code);
    let needed = |part: Range<usize>| {
        let bytes = of_products(code, part.clone(), &bytes).unwrap_or_else(|| bytes.clone());
        Live::new(code, &bytes).most(part).div_ceil(4)
    };
    if asking.is_empty() && code.uses.wgmma {
        let (needed, there) = (needed(0..code.ins.len()), kernel.launch.registers_at_entry());
        if needed > there {
            return Err(Malformed {
                site: 0,
                message: format!(
                    "launch bounds allow each thread {there} registers, and arrays around asynchronous products need {needed} at once"
                ),
                help: "lower `blocks_per_sm`, or use smaller register tiles".into(),
            });
        }
    }
    for role in asking {
        let needed = needed(role.from as usize..role.to as usize);
        if needed > role.registers {
            return Err(Malformed {
                site: role.site,
                message: format!(
                    "the role `{}` asks for {} registers, and its arrays need {needed} at once",
                    role.name, role.registers
                ),
                help: "ask for more registers, or use smaller register tiles".into(),
            });
        }
    }
    Ok(())
}

/// Bytes of each cell in a thread's registers, for cells of arrays only: 32-bit cells first, then 64-bit cells.
fn bytes(kernel: &Kernel, code: &Code) -> Vec<u32> {
    let mut all = vec![0; (code.words + code.doubles) as usize];
    for (location, reg) in code.regs.iter().zip(&kernel.regs) {
        let each = if reg.words { reg.elem.bytes() } else { reg.elem.bytes().next_multiple_of(4) };
        let first = location.at + if is_double(reg.elem) { code.words } else { 0 };
        all[first as usize..(first + location.len) as usize].fill(each);
    }
    all
}

/// The same without arrays that no asynchronous product uses; `None` if there is no such product.
fn of_products(code: &Code, part: Range<usize>, bytes: &[u32]) -> Option<Vec<u32>> {
    let mut used = None;
    for ins in &code.ins[part] {
        let Ins::Atom(at) = ins else { continue };
        if code.atoms[*at as usize].row.family.completes != Done::Queue(Queue::Products) {
            continue;
        }
        let used = used.get_or_insert_with(|| vec![0; bytes.len()]);
        let (writes, reads) = cells(code, ins);
        for cell in writes.into_iter().chain(reads).flatten() {
            used[cell as usize] = bytes[cell as usize];
        }
    }
    used
}

/// Live cells, computed backwards over a part of the code.
struct Live<'c> {
    code: &'c Code,
    bytes: &'c [u32],
    now: Vec<bool>,
    /// Live cells at jump targets.
    at: HashMap<u32, Vec<bool>>,
}

impl<'c> Live<'c> {
    fn new(code: &'c Code, bytes: &'c [u32]) -> Live<'c> {
        let targets = code.ins.iter().filter_map(jump);
        let at = targets.map(|target| (target, vec![false; bytes.len()])).collect();
        Live { code, bytes, now: vec![false; bytes.len()], at }
    }

    /// The greatest number of live bytes at any step.
    fn most(mut self, part: Range<usize>) -> u32 {
        let mut most = 0;
        // Iterates to a fixed point, for loop-carried cells.
        loop {
            let mut changed = false;
            self.now.fill(false);
            let mut total = 0;
            for at in part.clone().rev() {
                let ins = &self.code.ins[at];
                if let Some(target) = jump(ins) {
                    let only = matches!(ins, Ins::Jump(_));
                    for (now, there) in self.now.iter_mut().zip(&self.at[&target]) {
                        *now = *there || *now && !only;
                    }
                    total = self.live();
                }
                let (writes, reads) = cells(self.code, ins);
                for (cells, live) in [(writes, false), (reads, true)] {
                    for cell in cells.into_iter().flatten() {
                        let cell = cell as usize;
                        match (self.now[cell], live) {
                            (true, false) => total -= self.bytes[cell],
                            (false, true) => total += self.bytes[cell],
                            _ => {}
                        }
                        self.now[cell] = live;
                    }
                }
                most = most.max(total);
                if let Some(there) = self.at.get_mut(&(at as u32))
                    && *there != self.now
                {
                    there.clone_from(&self.now);
                    changed = true;
                }
            }
            if !changed {
                return most;
            }
        }
    }

    fn live(&self) -> u32 {
        self.now.iter().zip(self.bytes).filter(|(now, _)| **now).map(|(_, bytes)| bytes).sum()
    }
}

/// The successor of a step besides the next one.
fn jump(ins: &Ins) -> Option<u32> {
    ins.clone().targets().first().map(|to| **to)
}

/// Cells that a step writes, and cells that it reads.
type Cells = (Vec<Range<u32>>, Vec<Range<u32>>);

fn cells(code: &Code, ins: &Ins) -> Cells {
    let cell = |slot: Slot, elem, count: u32| {
        let first = slot + if is_double(elem) { code.words } else { 0 };
        first..first + count
    };
    let one = |slot: Slot, elem| cell(slot, elem, 1);
    let condition = |cond: Cond| {
        let value = if let Cond::Value(slot, elem) = cond { Some(one(slot, elem)) } else { None };
        value.into_iter()
    };
    let memory = |location: &Location, slot: Slot| {
        let access = &code.accesses[location.access as usize];
        let elem = if access.elem == 8 { Elem::F64 } else { Elem::U32 };
        cell(slot, elem, access.count)
    };
    match *ins {
        Ins::Shuffle { elem, to, x, lane: Lane::Of(lane, _) } => {
            (vec![one(to, elem)], vec![one(x, elem), one(lane, Elem::I32)])
        }
        Ins::Un { elem, to, x, .. } | Ins::Move { elem, to, x } | Ins::Shuffle { elem, to, x, .. } => {
            (vec![one(to, elem)], vec![one(x, elem)])
        }
        Ins::Vote { how: Vote::All(_), elem, to, x } => (vec![one(to, elem)], vec![one(x, elem)]),
        Ins::Vote { elem, to, x, .. } => (vec![one(to, Elem::U32)], vec![one(x, elem)]),
        Ins::Cast { from, elem, to, x } => (vec![one(to, elem)], vec![one(x, from)]),
        Ins::FromInt { elem, to, .. } => (vec![one(to, elem)], vec![]),
        Ins::ToInt { elem, x, .. } => (vec![], vec![one(x, elem)]),
        Ins::Bin { elem, to, x, y, .. } => (vec![one(to, elem)], vec![one(x, elem), one(y, elem)]),
        Ins::Cmp { elem, to, x, y, .. } => (vec![one(to, Elem::I32)], vec![one(x, elem), one(y, elem)]),
        Ins::Fma { elem, to, x, y, z } => {
            (vec![one(to, elem)], vec![one(x, elem), one(y, elem), one(z, elem)])
        }
        Ins::Pick { cond, elem, to, x, y } => {
            (vec![one(to, elem)], condition(cond).chain([one(x, elem), one(y, elem)]).collect())
        }
        Ins::Narrow { cond, .. } | Ins::If { cond, .. } => (vec![], condition(cond).collect()),
        Ins::Load { ref from, to, .. } => (vec![memory(from, to)], vec![]),
        Ins::Store { ref to, from, .. } => (vec![], vec![memory(to, from)]),
        Ins::Atomic { ref to, value, expected, .. } => {
            (vec![], [Some(value), expected].into_iter().flatten().map(|slot| memory(to, slot)).collect())
        }
        Ins::Atom(at) => atom(code, &code.atoms[at as usize]),
        _ => (vec![], vec![]),
    }
}

/// An instruction may also read its outputs, unless it starts from a zero accumulator.
fn atom(code: &Code, atom: &AtomCode) -> Cells {
    let product = matches!(atom.row.effect, Effect::Mma { .. });
    let zero = atom.row.operands.iter().zip(&atom.args).any(|(operand, arg)| {
        operand.name == OperandName::Accumulate && matches!(arg, Operand::Int(Src::Const(0)))
    });
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for (operand, arg) in atom.row.operands.iter().zip(&atom.args) {
        let Operand::Frag { slot, len, elem, .. } = *arg else { continue };
        let first = slot + if is_double(elem) { code.words } else { 0 };
        if operand.writes {
            writes.push(first..first + len);
        }
        if !operand.writes || product && !zero {
            reads.push(first..first + len);
        }
    }
    (writes, reads)
}
