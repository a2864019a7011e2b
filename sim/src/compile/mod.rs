//! Compiles a thread program for the sizes of a launch to flat code: loops over registers are unrolled, index
//! expressions are hoisted to the loop that changes them, values become steps on register cells.

mod index;
mod registers;
mod resources;
mod value;

use std::collections::HashMap;

use tilewright_codegen::Elem;
use tilewright_codegen::atom::{Done, Effect, OperandKind};
use tilewright_codegen::index::Ix;
use tilewright_codegen::thread::{
    AtomArg, Change, Frag, Id, Kernel, Mem, MemoryOrder, Op, Param, Queue, Scope, Space, Stmt, Unroll,
};
use tilewright_layout::Layout;

use crate::code::*;
use crate::numbers::{Num, Numbers};

/// Limit of unrolled steps.
const MOST_STEPS: usize = 1 << 23;

/// The integers and scalars of a launch by parameter.
pub(crate) struct Given {
    pub(crate) ints: Vec<i64>,
    pub(crate) scalars: Vec<u64>,
    pub(crate) grid: [u32; 3],
}

/// A malformed program: where, and why.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) site: Id,
    pub(crate) message: String,
    pub(crate) help: String,
}

type Result<T> = std::result::Result<T, Malformed>;

/// The body of a loop: its preheader, and the rest.
#[derive(Default)]
struct Level {
    before: Vec<(Ins, u32)>,
    body: Vec<(Ins, u32)>,
}

struct Compiler<'k> {
    kernel: &'k Kernel,
    given: &'k Given,
    numbers: Numbers,
    /// Current values of variables.
    vars: Vec<Num>,
    levels: Vec<Level>,
    /// Values of expressions since the last variable changed.
    memo: HashMap<Ix, Num>,
    code: Code,
    labels: u32,
    /// Cells of this statement that are free after it: words, doubles.
    lent: [Vec<Slot>; 2],
    free: [Vec<Slot>; 2],
    consts: HashMap<(bool, u64), Slot>,
    counters: HashMap<(usize, usize), u32>,
    site: Id,
    /// The current statement.
    stmt: usize,
    /// First thread of the current role.
    first: u32,
    /// The enclosing loops: variable, end label, and nesting depth of branches.
    loops: Vec<(Id, u32, u32)>,
    /// Enclosing divergent branches.
    branches: u32,
    /// Roles that request registers: where each begins and ends, by label.
    asking: Vec<Asking>,
    steps: usize,
}

/// Compiles a program.
pub(crate) fn compile(kernel: &Kernel, given: &Given) -> Result<Code> {
    let mut numbers = Numbers::default();
    for slot in 0..FIRST_SCALAR {
        let range = match slot.checked_sub(BLOCK).and_then(|axis| given.grid.get(axis as usize)) {
            Some(&blocks) => Range::below(blocks),
            None => Range::NARROW,
        };
        numbers.cell(false, slot, 0, false, range);
    }
    numbers.cell(true, THREAD, 0, false, Range::below(kernel.launch.threads));
    let mut compiler = Compiler {
        kernel,
        given,
        numbers,
        vars: vec![Num::constant(0); kernel.vars.len()],
        levels: vec![Level::default()],
        memo: HashMap::new(),
        code: Code { scalars: FIRST_SCALAR, vectors: 1, ..Code::default() },
        labels: 0,
        lent: Default::default(),
        free: Default::default(),
        consts: HashMap::new(),
        counters: HashMap::new(),
        site: 0,
        stmt: 0,
        first: 0,
        loops: Vec::new(),
        branches: 0,
        asking: Vec::new(),
        steps: 0,
    };
    resources::check(kernel)?;
    for reg in &kernel.regs {
        let at = compiler.cells(reg.elem, reg.len);
        compiler.code.regs.push(RegPlace { name: reg.name.clone(), elem: reg.elem, at, len: reg.len });
    }
    compiler.statements(&kernel.body)?;
    compiler.emit(Ins::End);
    let (code, asking) = compiler.finish();
    registers::check(kernel, &code, &asking)?;
    Ok(code)
}

/// A role that requests registers, and its part of the code.
struct Asking {
    name: String,
    registers: u32,
    site: Id,
    from: u32,
    to: u32,
}

impl Compiler<'_> {
    fn malformed<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(Malformed { site: self.site, message: message.into(), help: String::new() })
    }

    fn emit(&mut self, ins: Ins) {
        self.steps += 1;
        let site = self.site;
        self.levels.last_mut().expect("there is always a level").body.push((ins, site));
    }

    fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels - 1
    }

    /// Resolves labels to positions.
    fn finish(mut self) -> (Code, Vec<Asking>) {
        let level = self.levels.pop().expect("the outermost level is left");
        let all: Vec<(Ins, u32)> = level.before.into_iter().chain(level.body).collect();
        let mut places = vec![0u32; self.labels as usize];
        let mut at = 0;
        for (ins, _) in &all {
            match ins {
                Ins::Label(label) => places[*label as usize] = at,
                _ => at += 1,
            }
        }
        for (mut ins, site) in all {
            match &mut ins {
                Ins::Label(_) => continue,
                Ins::Loop { exit: to, .. }
                | Ins::LoopV { exit: to, .. }
                | Ins::Next { head: to, .. }
                | Ins::NextV { head: to, .. }
                | Ins::If { other: to, .. }
                | Ins::When { other: to, .. }
                | Ins::Else { end: to }
                | Ins::Role { other: to, .. }
                | Ins::Elect { end: to, .. }
                | Ins::Leave { to, .. }
                | Ins::Jump(to) => *to = places[*to as usize],
                _ => {}
            }
            self.code.ins.push(ins);
            self.code.sites.push(site);
        }
        for role in &mut self.asking {
            (role.from, role.to) = (places[role.from as usize], places[role.to as usize]);
        }
        (self.code, self.asking)
    }

    // Cells.

    fn cells(&mut self, elem: Elem, count: u32) -> Slot {
        let file = if is_double(elem) { &mut self.code.doubles } else { &mut self.code.words };
        let at = *file;
        *file += count;
        at
    }

    fn scratch(&mut self, elem: Elem) -> Slot {
        let file = usize::from(is_double(elem));
        let slot = self.free[file].pop().unwrap_or_else(|| self.cells(elem, 1));
        self.lent[file].push(slot);
        slot
    }

    fn constant(&mut self, elem: Elem, bits: u64) -> Slot {
        let key = (is_double(elem), bits);
        if let Some(&slot) = self.consts.get(&key) {
            return slot;
        }
        let slot = self.cells(elem, 1);
        self.consts.insert(key, slot);
        self.code.consts.push((slot, elem, bits));
        slot
    }

    // Memory.

    fn elem_of(&self, space: Space) -> Elem {
        match space {
            Space::Shared(id) => self.kernel.shared[id as usize].elem,
            Space::Global(id) => match &self.kernel.params[id as usize] {
                Param::Pointer { elem, .. } => *elem,
                _ => Elem::U8,
            },
        }
    }

    fn access(&mut self, what: What, space: Space, count: u32, claim: (i64, i64), operand: usize) -> u32 {
        let counter = match self.counters.get(&(self.stmt, operand)) {
            Some(&row) => row,
            None => {
                let row = self.code.counters;
                self.code.counters += 1;
                self.counters.insert((self.stmt, operand), row);
                row
            }
        };
        let elem = self.elem_of(space).bytes();
        let access = Access { what, space, elem, count, claim, site: self.site, counter };
        // One unrolled access has one row for all its copies.
        if let Some(last) = self.code.accesses.iter().rposition(|known| known.counter == counter)
            && self.code.accesses[last].claim == claim
            && self.code.accesses[last].count == count
        {
            return last as u32;
        }
        self.code.accesses.push(access);
        self.code.accesses.len() as u32 - 1
    }

    fn place(&mut self, mem: &Mem, what: What, count: u32, operand: usize) -> Place {
        let known = self.kernel.exprs.get(mem.index);
        let access = self.access(what, mem.space, count, (known.lo, known.hi), operand);
        let index = self.src(mem.index);
        let peer = mem.peer.map(|peer| self.src(peer));
        Place { access, index, peer }
    }

    fn guard(&mut self, guard: Option<Ix>) -> Option<Src> {
        guard.map(|guard| self.src(guard))
    }

    /// Checks that values of memory and of registers are equally wide.
    fn same_width(&self, space: Space, elem: Elem, name: Id) -> Result<()> {
        let memory = self.elem_of(space);
        if memory.bytes() == elem.bytes() {
            return Ok(());
        }
        self.malformed(format!(
            "elements of {memory} move between memory and the registers `{}`, which are {elem}",
            self.code.regs[name as usize].name
        ))
    }

    // Statements.

    fn statements(&mut self, body: &[Stmt]) -> Result<()> {
        for stmt in body {
            self.site = stmt.site;
            self.stmt = std::ptr::from_ref(stmt) as usize;
            self.statement(stmt)?;
            for file in 0..2 {
                let lent = std::mem::take(&mut self.lent[file]);
                self.free[file].extend(lent);
            }
            if self.steps > MOST_STEPS {
                return self.malformed("more than eight million steps when loops are unrolled");
            }
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<()> {
        match &stmt.op {
            Op::Comment(_) => {}
            Op::Let(id, at) | Op::Set(id, at) if self.kernel.vars[*id as usize].mutable => {
                let num = self.num(*at);
                let num = self.stored_in(*id, num);
                let a = self.place_of(num);
                let known = self.vars[*id as usize].node.map(|node| self.numbers.get(node));
                let to = match known {
                    Some(known) if known.volatile => known.slot.unwrap_or_default(),
                    _ => {
                        let slot = self.code.vectors;
                        self.code.vectors += 1;
                        let wide = self.kernel.vars[*id as usize].wide;
                        let range = if wide { Range::ALL } else { Range::NARROW };
                        let num = self.numbers.cell(true, slot, 0, true, range);
                        self.bind(*id, num);
                        slot
                    }
                };
                self.emit(Ins::Set { to, a });
            }
            Op::Let(id, at) => {
                let num = self.num(*at);
                let mut num = self.stored_in(*id, num);
                if num.node.is_some_and(|node| self.numbers.get(node).volatile) {
                    // Copies the value: its operands change later.
                    let a = self.place_of(num);
                    let to = self.code.vectors;
                    self.code.vectors += 1;
                    self.emit(Ins::Set { to, a });
                    num = self.numbers.cell(true, to, 0, true, self.numbers.range(num));
                }
                self.bind(*id, num);
            }
            Op::Take(id, value) => {
                let (x, elem) = self.value(value)?;
                let to = self.code.vectors;
                self.code.vectors += 1;
                self.emit(Ins::ToInt { elem, to, x });
                let range = if self.kernel.vars[*id as usize].wide { Range::ALL } else { Range::NARROW };
                // The cell is set here, so dependent numbers must not be hoisted above.
                let num = self.numbers.cell(true, to, 0, true, range);
                self.bind(*id, num);
            }
            Op::Set(id, _) => {
                let name = &self.kernel.vars[*id as usize].name;
                return self.malformed(format!("`{name}` is assigned, and it is no mutable variable"));
            }
            Op::Assign { reg, at, value } => {
                let (to, elem) = self.frag(Frag { reg: *reg, at: *at, len: 1 })?;
                self.value_into(value, to, elem)?;
            }
            Op::Load { to, from, guard, fill, .. } => {
                let (slot, elem) = self.frag(*to)?;
                self.same_width(from.space, elem, to.reg)?;
                let guard = self.guard(*guard);
                let from = self.place(from, What::Load, to.len, 0);
                self.emit(Ins::Load { from, to: slot, guard, fill: fill.bits(elem) });
            }
            Op::Store { to, from, guard } => {
                let (slot, elem) = self.frag(*from)?;
                self.same_width(to.space, elem, from.reg)?;
                let guard = self.guard(*guard);
                let to = self.place(to, What::Store, from.len, 0);
                self.emit(Ins::Store { to, from: slot, guard });
            }
            Op::Atomic { to, op, value, guard, order, scope, old } => {
                // The old value depends on the order of updates, and so on other blocks.
                self.code.uses.together |= matches!(to.space, Space::Global(_))
                    && *scope > Scope::Block
                    && (old.is_some() || *order != MemoryOrder::Relaxed || *op == Change::Exchange);
                let guard = self.guard(*guard);
                let elem = self.elem_of(to.space);
                let slot = self.scratch(elem);
                if let Some(guard) = guard {
                    self.emit(Ins::Narrow { cond: guard, holds: true });
                }
                self.value_into(value, slot, elem)?;
                if guard.is_some() {
                    self.emit(Ins::Widen);
                }
                let old = match old {
                    Some(old) => {
                        let (slot, elem) = self.frag(*old)?;
                        self.same_width(to.space, elem, old.reg)?;
                        Some(slot)
                    }
                    None => None,
                };
                let to = self.place(to, What::Atomic, 1, 0);
                let (op, order, scope) = (*op, *order, *scope);
                self.emit(Ins::Atomic { to, op, value: slot, guard, order, scope, old });
            }
            Op::AwaitFlag { from, least } => {
                self.code.uses.together = true;
                let least = self.src(*least);
                let from = self.place(from, What::Atomic, 1, 0);
                self.emit(Ins::AwaitFlag { from, least });
            }
            Op::Atom { row, args, guard } => self.atom(row, args, *guard)?,
            Op::Commit(queue) => self.emit(Ins::Commit(*queue)),
            Op::WaitQueue { queue, pending } => {
                self.emit(Ins::WaitQueue { queue: *queue, pending: *pending });
            }
            Op::Fence(fence) => self.emit(Ins::Fence(*fence)),
            Op::Sync(bar) => self.emit(Ins::Sync(*bar)),
            Op::Arrive { bar, slot, peer, bytes } => {
                let (slot, peer) = (self.src(*slot), peer.map(|peer| self.src(peer)));
                self.emit(Ins::Arrive { bar: *bar, slot, peer, bytes: *bytes });
            }
            Op::Await { bar, slot, phase } => {
                let (slot, phase) = (self.src(*slot), self.src(*phase));
                self.emit(Ins::Await { bar: *bar, slot, phase });
            }
            Op::InitBarriers(bar) => self.emit(Ins::Init(*bar)),
            Op::For { var, from, to, step, unroll, body } => {
                let exit = self.label();
                self.loops.push((*var, exit, self.branches));
                self.repeat(*var, (*from, *to, *step), *unroll, body, exit)?;
                self.loops.pop();
            }
            Op::Leave { of, cond } => self.leave(*of, *cond)?,
            Op::If { cond, then, other } => self.choose(*cond, then, other)?,
            Op::When { cond, then, other } => {
                let (cond, elem) = self.value(cond)?;
                let label = self.label();
                self.emit(Ins::When { cond, elem, other: label });
                self.branches(label, then, other)?;
            }
            Op::Roles(roles) => {
                resources::roles(self.kernel, roles, stmt.site)?;
                let end = self.label();
                for role in roles {
                    let other = self.label();
                    self.emit(Ins::Role { from: role.warps.0, to: role.warps.1, other });
                    let outer = std::mem::replace(&mut self.first, role.warps.0 * 32);
                    let from = self.label();
                    self.emit(Ins::Label(from));
                    self.statements(&role.body)?;
                    self.first = outer;
                    self.site = stmt.site;
                    if let Some(registers) = role.registers {
                        let (name, site) = (role.name.clone(), stmt.site);
                        self.asking.push(Asking { name, registers, site, from, to: other });
                    }
                    self.emit(Ins::Jump(end));
                    self.emit(Ins::Label(other));
                }
                self.emit(Ins::Label(end));
            }
            Op::Elect(Scope::Thread, body) => self.statements(body)?,
            Op::Elect(scope, body) => {
                let end = self.label();
                self.emit(Ins::Elect { scope: *scope, first: self.first, end });
                self.branches += 1;
                self.statements(body)?;
                self.branches -= 1;
                self.emit(Ins::Label(end));
                self.emit(Ins::EndIf);
            }
        }
        Ok(())
    }

    fn choose(&mut self, cond: Ix, then: &[Stmt], other: &[Stmt]) -> Result<()> {
        let cond = self.num(cond);
        match cond.as_constant() {
            Some(0) => self.statements(other),
            Some(_) => self.statements(then),
            None => {
                let cond = self.place_of(cond);
                let label = self.label();
                self.emit(Ins::If { cond, other: label });
                self.branches(label, then, other)
            }
        }
    }

    /// Leaves a loop, with all threads at once.
    fn leave(&mut self, of: Id, cond: Ix) -> Result<()> {
        let cond = self.num(cond);
        let Some(&(_, exit, branches)) = self.loops.iter().rev().find(|(var, ..)| *var == of) else {
            return self.malformed("a loop exit is outside of its loop");
        };
        if branches != self.branches {
            return self.malformed("a loop exit is inside of a divergent branch");
        }
        match cond.as_constant() {
            Some(0) => {}
            Some(_) => self.emit(Ins::Jump(exit)),
            None => {
                let cond = self.place_of(cond);
                self.emit(Ins::Leave { cond, to: exit });
            }
        }
        Ok(())
    }

    fn branches(&mut self, label: u32, then: &[Stmt], other: &[Stmt]) -> Result<()> {
        let end = self.label();
        self.branches += 1;
        self.statements(then)?;
        self.emit(Ins::Label(label));
        self.emit(Ins::Else { end });
        self.statements(other)?;
        self.branches -= 1;
        self.emit(Ins::Label(end));
        self.emit(Ins::EndIf);
        Ok(())
    }

    fn repeat(
        &mut self,
        var: Id,
        range: (Ix, Ix, i64),
        unroll: Unroll,
        body: &[Stmt],
        exit: u32,
    ) -> Result<()> {
        let (from, to, step) = (self.num(range.0), self.num(range.1), range.2);
        if step <= 0 {
            return self.malformed(format!("a loop whose step is {step} never ends"));
        }
        if let (Unroll::Full, Some(from), Some(to)) = (unroll, from.as_constant(), to.as_constant()) {
            let mut at = from;
            while at < to {
                self.bind(var, Num::constant(at));
                self.statements(body)?;
                at += step;
            }
            self.emit(Ins::Label(exit));
            return Ok(());
        }
        let vector =
            |compiler: &Self, num: Num| num.node.is_some_and(|node| compiler.numbers.get(node).vector);
        let vector = vector(self, from) || vector(self, to);
        let range = Range {
            lo: self.numbers.range(from).lo,
            hi: self.numbers.range(to).hi.saturating_sub(1).max(self.numbers.range(from).lo),
        };
        if !self.kernel.vars[var as usize].wide && !range.is_narrow() {
            let name = &self.kernel.vars[var as usize].name;
            return self.malformed(format!("the loop over `{name}`, a variable of 32 bits, can overflow"));
        }
        let (from, to) = (self.place_of(from), self.place_of(to));
        let head = self.label();
        let file = if vector { &mut self.code.vectors } else { &mut self.code.scalars };
        let cell = *file;
        *file += 1;
        let num = self.numbers.cell(vector, cell, self.levels.len() as u32, false, range);
        self.emit(match vector {
            false => Ins::Loop { var: cell, from, to, exit },
            true => Ins::LoopV { var: cell, from, to, exit },
        });
        self.levels.push(Level::default());
        let outer = self.vars[var as usize];
        self.bind(var, num);
        let site = self.site;
        self.branches += u32::from(vector);
        if let Some((.., branches)) = self.loops.last_mut() {
            *branches = self.branches;
        }
        self.statements(body)?;
        self.branches -= u32::from(vector);
        self.bind(var, outer);
        self.site = site;
        let level = self.levels.pop().unwrap_or_default();
        self.emit(Ins::Label(head));
        let outer = &mut self.levels.last_mut().expect("there is always a level").body;
        outer.extend(level.before);
        outer.extend(level.body);
        self.emit(match vector {
            false => Ins::Next { var: cell, step, to, head },
            true => Ins::NextV { var: cell, step, to, head },
        });
        self.emit(Ins::Label(exit));
        if vector {
            self.emit(Ins::EndIf);
        }
        Ok(())
    }

    fn atom(
        &mut self,
        row: &'static tilewright_codegen::atom::Atom,
        args: &[AtomArg],
        guard: Option<Ix>,
    ) -> Result<()> {
        let uses = &mut self.code.uses;
        uses.async_proxy |= row.async_proxy && row.effect != Effect::Hint;
        uses.cp_async |= row.done == Done::Queue(Queue::CpAsync);
        uses.bulk_store |= row.done == Done::Queue(Queue::Bulk);
        uses.wgmma |= row.done == Done::Queue(Queue::Wgmma);
        if row.operands.len() != args.len() {
            return self.malformed(format!(
                "`{}` takes {} operands, and {} are given",
                row.name,
                row.operands.len(),
                args.len()
            ));
        }
        let mut operands = Vec::new();
        for (place, (operand, arg)) in row.operands.iter().zip(args).enumerate() {
            let what = match (row.effect, row.group, row.async_proxy, operand.writes) {
                (Effect::Mma { .. }, ..) => What::Product,
                (_, Scope::Warp, _, false) => What::MatrixFrom,
                (_, Scope::Warp, _, true) => What::MatrixTo,
                (_, _, true, false) => What::BulkFrom,
                (_, _, true, true) => What::BulkTo,
                (.., false) => What::CopyFrom,
                (.., true) => What::CopyTo,
            };
            operands.push(match (operand.kind, arg) {
                (OperandKind::Frag { .. }, AtomArg::Frag(frag)) => {
                    let (slot, elem) = self.frag(*frag)?;
                    Operand::Frag { reg: frag.reg, slot, len: frag.len, elem }
                }
                (OperandKind::SharedAddress | OperandKind::GlobalAddress, AtomArg::At(mem)) => {
                    let shared = matches!(mem.space, Space::Shared(_));
                    if shared != (operand.kind == OperandKind::SharedAddress) {
                        return self.malformed(format!(
                            "operand `{}` of `{}` lies in the other memory",
                            operand.name, row.name
                        ));
                    }
                    let bytes = tile_bytes(operand) / self.elem_of(mem.space).bytes().max(1);
                    Operand::At(self.place(mem, what, bytes, place))
                }
                (OperandKind::Descriptor, AtomArg::Descriptor { at, leading, stride, mode }) => {
                    let at = self.place(at, What::Product, 0, place);
                    Operand::Descriptor { at, leading: *leading, stride: *stride, mode: *mode }
                }
                (OperandKind::TensorMap { .. }, AtomArg::Map { param, at }) => {
                    let Some(Param::TensorMap { tensor, .. }) = self.kernel.params.get(*param as usize)
                    else {
                        return self.malformed(format!("parameter {param} is no tensor map"));
                    };
                    let access = self.access(what, Space::Global(*tensor), 0, (i64::MIN, i64::MAX), place);
                    let at = at.iter().map(|&at| self.src(at)).collect();
                    Operand::Map { param: *param, access, at }
                }
                (OperandKind::Barrier, AtomArg::Barrier { bar, slot }) => {
                    Operand::Barrier { bar: *bar, slot: self.src(*slot) }
                }
                (OperandKind::Int | OperandKind::Immediate, AtomArg::Int(at)) => Operand::Int(self.src(*at)),
                _ => {
                    return self.malformed(format!(
                        "operand `{}` of `{}` is of another kind",
                        operand.name, row.name
                    ));
                }
            });
        }
        let guard = self.guard(guard);
        self.code.atoms.push(AtomCode { row, args: operands, guard });
        let at = self.code.atoms.len() as u32 - 1;
        self.emit(Ins::Atom(at));
        Ok(())
    }
}

/// Bytes that an operand accesses at each address; 0 where the row leaves that open.
pub(crate) fn tile_bytes(operand: &tilewright_codegen::atom::Operand) -> u32 {
    let values = operand.tv.parse::<Layout>().and_then(|tv| tv.mode(1)).and_then(|values| values.size());
    values.unwrap_or(0) as u32 * operand.elem.bytes()
}
