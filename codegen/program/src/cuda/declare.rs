//! Declarations of register arrays: as near to their use as possible, and never inside a loop that carries
//! their values from one iteration to the next.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Printer;
use super::names::Thing;
use crate::thread::index::{Int, Ix};
use crate::thread::mention::{counts, mentions, reads};
use crate::thread::{AtomArg, Id, Op, Stmt, Unroll, Val};

/// Which arrays each statement of a block uses, and which statement is the last to use an array.
pub(super) struct Places {
    used: Vec<BTreeMap<Id, usize>>,
    last: HashMap<Id, usize>,
}

impl Places {
    pub(super) fn of(body: &[Stmt]) -> Places {
        let used: Vec<_> = body.iter().map(|stmt| counts([stmt])).collect();
        let last =
            used.iter().enumerate().flat_map(|(at, ids)| ids.keys().map(move |&id| (id, at))).collect();
        Places { used, last }
    }
}

impl Printer<'_> {
    /// Declares the undeclared arrays that a statement of a block uses, unless that statement is their only
    /// use and can declare them in an inner block.
    pub(super) fn declare_for(&mut self, stmt: &Stmt, at: usize, places: &Places) {
        let new: Vec<Id> =
            places.used[at].keys().copied().filter(|id| self.undeclared.contains(id)).collect();
        let inside: Vec<Inside> = match new.is_empty() {
            true => Vec::new(),
            false => stmt.op.blocks().into_iter().map(Inside::of).collect(),
        };
        let alone = |reg: Id| places.last.get(&reg) == Some(&at);
        let all = |reg: Id| places.used[at].get(&reg).copied().unwrap_or(0);
        let further_in = |reg: Id| {
            self.declares(stmt, reg) || (alone(reg) && self.can_declare_inside(stmt, reg, all(reg), &inside))
        };
        let here: Vec<Id> = new.into_iter().filter(|&reg| !further_in(reg)).collect();
        for reg in &here {
            self.undeclared.remove(reg);
        }
        // Arrays of one type share a line.
        let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
        for reg in here {
            let (kind, name) = self.declaration(reg);
            match kinds.iter_mut().find(|known| known.0 == kind) {
                Some(known) => known.1.push(name),
                None => kinds.push((kind, vec![name])),
            }
        }
        for (kind, names) in kinds {
            self.line(&format!("{kind} {};", names.join(", ")));
        }
    }

    /// `float` and `acc[64]`, `float` and `sum`.
    pub(super) fn declaration(&mut self, id: Id) -> (String, String) {
        let reg = &self.kernel.regs[id as usize];
        let name = self.names.declare(Thing::Reg(id), &reg.name);
        if self.is_scalar(id) {
            return (reg.elem.cuda().to_string(), name);
        }
        let (elem, size) = if reg.words { ("unsigned", 4) } else { (reg.elem.cuda(), reg.elem.bytes()) };
        let len = reg.len.div_ceil(self.per_word(id));
        let widest = reg.elem.bytes_of(self.widest.get(&id).copied().unwrap_or(1));
        let align = if widest > size { format!("alignas({widest}) ") } else { String::new() };
        (format!("{align}{elem}"), format!("{name}[{len}]"))
    }

    /// The declaration of an array, if the statement is where it belongs; otherwise `text`.
    pub(super) fn declaration_or(
        &mut self,
        stmt: &Stmt,
        reg: Id,
        text: impl FnOnce(&mut Self) -> String,
    ) -> String {
        match self.first_declaration(stmt, reg) {
            Some((kind, name)) => format!("{kind} {name}"),
            None => text(self),
        }
    }

    /// The declaration of an array, if the statement is where it belongs.
    pub(super) fn first_declaration(&mut self, stmt: &Stmt, reg: Id) -> Option<(String, String)> {
        if !self.undeclared.contains(&reg) || !self.declares(stmt, reg) {
            return None;
        }
        self.undeclared.remove(&reg);
        Some(self.declaration(reg))
    }

    /// A loop that zeroes a new array is its declaration.
    pub(super) fn declares_zeroes(&mut self, stmt: &Stmt) -> bool {
        let declaration = self.zeroes(stmt).and_then(|reg| self.first_declaration(stmt, reg));
        if let Some((kind, name)) = &declaration {
            self.line(&format!("{kind} {name} = {{}};"));
        }
        declaration.is_some()
    }

    /// Does the statement declare the array and initialise it?
    fn declares(&self, stmt: &Stmt, id: Id) -> bool {
        match &stmt.op {
            Op::Assign { reg, value, .. } => *reg == id && self.is_scalar(id) && !value.reads(id),
            Op::Load { to, .. } => to.reg == id && self.is_scalar(id),
            _ => self.zeroes(stmt) == Some(id),
        }
    }

    /// The array that the statement zeroes, with no other effect in the loops around it.
    fn zeroes(&self, stmt: &Stmt) -> Option<Id> {
        let mut inner = stmt;
        while let Op::For { unroll: Unroll::Full, body, .. } = &inner.op {
            let [only] = body.as_slice() else { return None };
            inner = only;
        }
        let Op::Assign { reg, value: Val::Lit(zero, _), .. } = inner.op else { return None };
        let is_loop = matches!(stmt.op, Op::For { .. });
        let whole = || self.is_written_first(std::slice::from_ref(stmt), reg);
        (is_loop && zero.is_zero() && whole()).then_some(reg)
    }

    /// Is there one inner block of the statement that contains all its uses of the array? In a loop the block
    /// must also begin by writing the whole array.
    fn can_declare_inside(&self, stmt: &Stmt, reg: Id, all: usize, inside: &[Inside<'_>]) -> bool {
        let whole = |block: &&Inside<'_>| block.uses.get(&reg).is_some_and(|(count, _)| *count == all);
        let Some(Inside { stmts, uses }) = inside.iter().find(whole) else { return false };
        let from_first = uses.get(&reg).map_or(*stmts, |(_, first)| &stmts[*first..]);
        !matches!(stmt.op, Op::For { .. }) || self.is_written_first(from_first, reg)
    }

    /// Does the block write every element of the array before it reads any?
    fn is_written_first(&self, block: &[Stmt], reg: Id) -> bool {
        let mut written = Written { printer: self, reg, known: HashSet::new(), vars: HashMap::new() };
        block.iter().find_map(|stmt| written.after(stmt)).unwrap_or(false)
    }
}

/// A block inside a statement; for each array how many statements use it, and which is the first.
struct Inside<'s> {
    stmts: &'s [Stmt],
    uses: HashMap<Id, (usize, usize)>,
}

impl Inside<'_> {
    fn of(stmts: &[Stmt]) -> Inside<'_> {
        let mut uses = HashMap::new();
        for (at, stmt) in stmts.iter().enumerate() {
            for (id, count) in counts([stmt]) {
                uses.entry(id).or_insert((0, at)).0 += count;
            }
        }
        Inside { stmts, uses }
    }
}

/// The elements of an array that are written so far.
struct Written<'p, 'k> {
    printer: &'p Printer<'k>,
    reg: Id,
    known: HashSet<i64>,
    /// Values of the variables of unrolled loops.
    vars: HashMap<Id, i64>,
}

impl Written<'_, '_> {
    /// Visits a statement. `Some(true)` once everything is written, `Some(false)` when that cannot be
    /// decided.
    fn after(&mut self, stmt: &Stmt) -> Option<bool> {
        if !mentions(stmt, self.reg) {
            return None;
        }
        match &stmt.op {
            Op::For { var, from, to, step, unroll: Unroll::Full, body } => {
                let (Some(from), Some(to)) = (self.value(*from), self.value(*to)) else { return Some(false) };
                return (from..to).step_by((*step).max(1) as usize).find_map(|iteration| {
                    self.vars.insert(*var, iteration);
                    body.iter().find_map(|stmt| self.after(stmt))
                });
            }
            Op::Load { to, .. } => self.add(to.at, to.len),
            Op::Assign { at, .. } if !reads(stmt, self.reg) => self.add(*at, 1),
            Op::Atom { args, guard: None, .. } if !reads(stmt, self.reg) => {
                for arg in args {
                    if let AtomArg::Frag(frag) = arg
                        && frag.reg == self.reg
                    {
                        self.add(frag.at, frag.len);
                    }
                }
            }
            _ => return Some(false),
        }
        let len = self.printer.kernel.regs[self.reg as usize].len as usize;
        (self.known.len() == len).then_some(true)
    }

    /// Marks elements as written. An index that is not known marks none.
    fn add(&mut self, at: Ix, len: u32) {
        if let Some(at) = self.value(at) {
            self.known.extend(at..at + i64::from(len));
        }
    }

    /// The value of an expression in the current iteration of all unrolled loops.
    fn value(&self, at: Ix) -> Option<i64> {
        let of = |at| self.value(at);
        Some(match self.printer.exprs.get(at).int {
            Int::Const(n) => n,
            Int::Var(id) => *self.vars.get(&id)?,
            Int::Add(a, b) => of(a)?.checked_add(of(b)?)?,
            Int::Sub(a, b) => of(a)?.checked_sub(of(b)?)?,
            Int::Mul(a, b) => of(a)?.checked_mul(of(b)?)?,
            Int::Div(a, b) => of(a)?.checked_div_euclid(of(b)?)?,
            Int::Rem(a, b) => of(a)?.checked_rem_euclid(of(b)?)?,
            Int::And(a, b) => of(a)? & of(b)?,
            Int::Xor(a, b) => of(a)? ^ of(b)?,
            _ => return None,
        })
    }
}
