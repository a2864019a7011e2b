//! Compiles a thread program for the sizes of a launch to flat code: loops over registers are unrolled, index
//! expressions are hoisted to the loop that changes them, values become steps on register cells.

mod atom;
mod control;
mod index;
mod registers;
mod resources;
mod statement;
mod value;

use std::collections::HashMap;

use tilewright_program::Elem;
use tilewright_program::index::Ix;
use tilewright_program::thread::{Id, Kernel, Mem, Param, Space};

use crate::arithmetic::Arithmetic;
use crate::code::*;
use crate::numbers::{Num, Numbers};

/// Limit of unrolled steps.
const MOST_STEPS: usize = 1 << 23;

/// The integers and scalars of a launch by parameter.
pub(crate) struct Given {
    pub(crate) ints: Vec<i64>,
    pub(crate) scalars: Vec<u64>,
    pub(crate) grid: [u32; 3],
    pub(crate) arithmetic: Arithmetic,
    /// Are indices of gathers and scatters checked?
    pub(crate) strict: bool,
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
    /// The enclosing loops: variable, end label, and nesting depth of branches in their bodies.
    loops: Vec<(Id, u32, usize)>,
    /// Enclosing branches and loops that some lanes may run alone: the step where the others continue.
    branches: Vec<u32>,
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
        branches: Vec::new(),
        asking: Vec::new(),
        steps: 0,
    };
    resources::check(kernel)?;
    for reg in &kernel.regs {
        let at = compiler.cells(reg.elem, reg.len);
        compiler.code.regs.push(RegisterArray { name: reg.name.clone(), elem: reg.elem, at, len: reg.len });
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
        let mut addresses = vec![0u32; self.labels as usize];
        let mut at = 0;
        for (ins, _) in &all {
            match ins {
                Ins::Label(label) => addresses[*label as usize] = at,
                _ => at += 1,
            }
        }
        for (mut ins, site) in all {
            if matches!(ins, Ins::Label(_)) {
                continue;
            }
            ins.targets().into_iter().for_each(|to| *to = addresses[*to as usize]);
            self.code.ins.push(ins);
            self.code.sites.push(site);
        }
        for role in &mut self.asking {
            (role.from, role.to) = (addresses[role.from as usize], addresses[role.to as usize]);
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
                Param::Pointer { elem, .. } | Param::Workspace { elem, .. } => *elem,
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

    fn location(&mut self, mem: &Mem, what: What, count: u32, operand: usize) -> Location {
        let known = self.kernel.exprs.get(mem.index);
        let access = self.access(what, mem.space, count, (known.lo, known.hi), operand);
        let index = self.src(mem.index);
        let peer = mem.peer.map(|peer| self.operand(peer));
        Location { access, index, peer }
    }

    fn guard(&mut self, guard: Option<Ix>) -> Option<Src> {
        guard.map(|guard| self.src(guard))
    }

    /// Checks that values of memory and of registers are equally wide.
    fn same_width(&self, space: Space, elem: Elem, name: Id) -> Result<()> {
        let memory = self.elem_of(space);
        if memory.bits() == elem.bits() {
            return Ok(());
        }
        self.malformed(format!(
            "elements of {memory} move between memory and the registers `{}`, which are {elem}",
            self.code.regs[name as usize].name
        ))
    }
}
