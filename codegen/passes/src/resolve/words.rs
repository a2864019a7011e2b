//! Functions of narrow elements that become operands of an instruction, such as weights of 4 or 8 bits and their scales:
//! in registers, by instructions that take several elements at once.

use std::collections::BTreeSet;

use tilewright_layout::{Distribution, Layout, Submode, Tuple, Value};

use super::{Resolve, part};
use crate::isa;
use crate::isa::atom::Atom;
use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Id};
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::whole::unpacks;
use crate::tile::{Expr, Form, How, Op, Program, Space, Stmt};
use crate::values::elem::Elem;

/// Bytes of a word, which an instruction converts at once.
const WORD: i64 = 4;
/// Numbers of four bits in a byte.
const PAIR: i64 = 2;

/// The register tiles that such functions set, and that products or further functions alone read.
pub(super) fn tiles(program: &Program, body: &[Stmt]) -> BTreeSet<Id> {
    let unpacked = preorder(body).filter(|stmt| unpacks(&stmt.op).is_some());
    let unpacked: BTreeSet<Id> = unpacked.flat_map(Stmt::writes).map(|to| to.tensor).collect();
    let (mut all, mut others) = (BTreeSet::new(), BTreeSet::new());
    for stmt in preorder(body) {
        let operands: Vec<Id> = match &stmt.op {
            Op::Map { ins, to, value } if widens(program, &unpacked, ins, to, value) => {
                all.insert(to.tensor);
                ins.iter().chain([to]).map(|view| view.tensor).collect()
            }
            Op::Gemm { a, acc, .. } if matches!(program.forms.get(&acc.tensor), Some(Form::Sums(_))) => {
                vec![a.tensor]
            }
            _ => Vec::new(),
        };
        let used = stmt.accesses().map(|view| view.tensor);
        others.extend(used.filter(|id| !operands.contains(id)));
    }
    all.retain(|id| program.forms.contains_key(id) && !others.contains(id));
    all.into_iter().chain(unpacked).collect()
}

/// Is a function one of narrow elements, in registers or shared memory, by instructions that take several at once?
fn widens(program: &Program, unpacked: &BTreeSet<Id>, ins: &[View], to: &View, value: &Expr) -> bool {
    let elem = |view: &View| program.tensor(view.tensor).elem;
    let target = elem(to);
    let is_near = |view: &View| match program.tensor(view.tensor).space {
        Space::Shared { .. } => true,
        Space::Registers { .. } => program.forms.contains_key(&view.tensor),
        Space::Global { .. } => false,
    };
    let input = |n: &u8| &ins[usize::from(*n)];
    let converts = |n: &u8| isa::convert(elem(input(n)), target, program.arch).is_some();
    let is_narrow = value.any(&|part| match part {
        Expr::In(n) => converts(n) || unpacked.contains(&input(n).tensor),
        _ => false,
    });
    fn suits(value: &Expr, leaf: &dyn Fn(&Expr) -> bool) -> bool {
        match value {
            Expr::Bin(Bin::Mul | Bin::Sub, x, y) => suits(x, leaf) && suits(y, leaf),
            Expr::Fma(all) => all.iter().all(|one| suits(one, leaf)),
            other => leaf(other),
        }
    }
    let leaf = |value: &Expr| match value {
        Expr::In(n) => elem(input(n)) == target,
        Expr::Cast(of, from) => *of == target && matches!(&**from, Expr::In(n) if converts(n)),
        _ => false,
    };
    is_narrow && ins.iter().all(|view| is_near(view) && view.tensor != to.tensor) && suits(value, &leaf)
}

/// The distribution of bytes of two numbers each, along the last mode, from the distribution of the numbers.
fn of_bytes(d: &Distribution) -> Option<Distribution> {
    let mut tile = d.tile().to_vec();
    let last = tile.len().checked_sub(1)?;
    tile[last] /= PAIR;
    let is_pair = |first: &Submode| (first.mode, first.step) == (last, 1) && first.extent % PAIR == 0;
    let (first, others) = d.value_submodes().split_first().filter(|(first, _)| is_pair(first))?;
    let half = |submode: &Submode| match submode.mode == last && submode.step > 0 {
        true => (submode.step % PAIR == 0).then_some(Submode { step: submode.step / PAIR, ..*submode }),
        false => Some(*submode),
    };
    let first = Submode { extent: first.extent / PAIR, ..*first };
    let values = std::iter::once(Some(first)).chain(others.iter().map(half)).collect::<Option<_>>()?;
    let threads = d.thread_submodes().iter().map(half).collect::<Option<_>>()?;
    Some(Distribution::new(&tile, threads, values))
}

/// The same, if each thread has whole words of bytes.
pub(super) fn of_words(d: &Distribution) -> Option<Distribution> {
    of_bytes(d).filter(|bytes| bytes.values() % WORD == 0)
}

/// The distribution of numbers whose registers are in the order of their bytes in memory, if a thread has neighbouring bytes.
pub(super) fn in_memory_order(program: &Program, bytes: &View, numbers: &Distribution) -> Distribution {
    let layout = program.tensor(bytes.tensor).plain();
    let last = numbers.tile().len().saturating_sub(1);
    // How far apart a thread's bytes are along a submode; both numbers of a byte come first.
    let stride = |submode: &Submode| -> Option<i64> {
        let step = if submode.mode == last { submode.step / PAIR } else { submode.step };
        if step == 0 {
            return Some(0);
        }
        let own = bytes.layout.mode(submode.mode).ok()?;
        let part = own.composition(Layout::new(submode.extent, step).ok()?).ok()?;
        let (_, Value::Basis { times, path }) = part.leaves().next()? else { return None };
        let along = layout.mode(usize::from(path.steps()[0])).ok()?;
        along.leaves().next()?.1.int()?.checked_mul(times)
    };
    let strides: Option<Vec<i64>> = numbers.value_submodes().iter().map(stride).collect();
    let Some(strides) = strides.filter(|all| all.contains(&1)) else { return numbers.clone() };
    let mut order: Vec<usize> = (0..strides.len()).collect();
    order.sort_by_key(|at| strides[*at]);
    let values = order.iter().map(|at| numbers.value_submodes()[*at]).collect();
    Distribution::new(numbers.tile(), numbers.thread_submodes().to_vec(), values)
}

/// The same distribution, where values that follow each other along the last mode are one submode: vectors are along one.
fn joined(d: &Distribution) -> Distribution {
    let last_mode = d.tile().len().saturating_sub(1);
    let mut values: Vec<Submode> = Vec::new();
    for submode in d.value_submodes() {
        let follows = |last: &&mut Submode| {
            last.mode == last_mode && submode.mode == last_mode && last.step * last.extent == submode.step
        };
        match values.last_mut().filter(follows) {
            Some(last) => last.extent *= submode.extent,
            None => values.push(*submode),
        }
    }
    Distribution::new(d.tile(), d.thread_submodes().to_vec(), values)
}

/// A distribution of numbers in which each thread has whole words of bytes.
pub(super) fn spread(tile: &[i64], threads: i64) -> Distribution {
    let order: Vec<usize> = (0..tile.len()).rev().collect();
    Distribution::spread(tile, &order, PAIR * WORD, threads)
}

/// A thread's part with a mode for each of its value submodes, in the order of its registers.
fn in_order(part: &View, d: &Distribution) -> Result<View> {
    let mut next = vec![0; d.tile().len()];
    let submode = |of: &Submode| {
        let own = part.layout.mode(of.mode)?;
        let count = d.value_submodes().iter().filter(|other| other.mode == of.mode).count();
        next[of.mode] += 1;
        Ok(if count == 1 { own } else { own.mode(next[of.mode] - 1)? })
    };
    let modes = d.value_submodes().iter().map(submode).collect::<Result<Vec<_>>>()?;
    Ok(part.rearranged(Layout::from_modes(modes)?))
}

impl Resolve {
    /// Does a statement set a tile of [`tiles`]?
    pub(super) fn is_in_words(&self, to: &View) -> bool {
        self.forms.contains_key(&to.tensor)
            && self.program.tensor(to.tensor).space == Space::Registers { words: true }
    }

    /// Such a function: its inputs are loaded first.
    pub(super) fn in_words(&mut self, stmt: &Stmt, ins: &[View], to: &View, value: &Expr) -> Result<()> {
        let d = self.elements(stmt, &ins.iter().collect::<Vec<_>>(), to)?;
        let own: Vec<View> = ins.iter().map(|view| self.loaded(stmt, view, &d)).collect::<Result<_>>()?;
        let to = in_order(&self.side(stmt, to, &d, true)?, &d)?;
        self.computed(stmt, &own, &to, value)
    }

    /// An input in registers, in words. An element that is repeated along a register has both of its halves.
    fn loaded(&mut self, stmt: &Stmt, view: &View, d: &Distribution) -> Result<View> {
        let part = in_order(&self.side(stmt, view, d, false)?, d)?;
        if self.is_in_words(view) {
            return Ok(part);
        }
        let elem = self.program.tensor(view.tensor).elem;
        if part.layout.leaves().next() == Some((Value::Int(PAIR), Value::Int(0))) {
            let mut pairs = None;
            self.built(stmt, |b| {
                pairs = Some(b.paired(&part.with_name(&view.name))?);
                Ok(())
            })?;
            return pairs.ok_or_else(Problem::reported);
        }
        let loaded = self.words(&format!("{}_loaded", view.name), elem, d)?;
        self.push(stmt, moved(part, loaded.clone()));
        Ok(loaded)
    }

    /// Registers for a thread's elements, in words.
    fn words(&mut self, name: &str, elem: Elem, d: &Distribution) -> Result<View> {
        let id = self.packed(name, elem, d)?;
        let whole = View::whole(id, name, &Tuple::flat(d.tile()))?;
        in_order(&part::of_tile(&whole, d, d, id)?, d)
    }

    /// A function of inputs in words, an operation at a time.
    fn computed(&mut self, stmt: &Stmt, ins: &[View], to: &View, value: &Expr) -> Result<()> {
        let (terms, value): (Vec<&Expr>, _) = match value {
            Expr::Bin(op, x, y) => (vec![x, y], Expr::Bin(*op, Box::new(Expr::In(0)), Box::new(Expr::In(1)))),
            Expr::Fma(all) => {
                (all.iter().collect(), Expr::Fma(Box::new([Expr::In(0), Expr::In(1), Expr::In(2)])))
            }
            Expr::Cast(elem, of) => (vec![of], Expr::In(0).cast(*elem)),
            other => (vec![other], Expr::In(0)),
        };
        let mut own = Vec::new();
        for term in terms {
            own.push(match term {
                Expr::In(n) => ins[usize::from(*n)].clone(),
                // The target's registers have the first such term.
                _ if !own.contains(to) => {
                    self.computed(stmt, ins, to, term)?;
                    to.clone()
                }
                _ => {
                    let shape = to.shape();
                    let tensor = self.program.tensor(to.tensor);
                    let (name, elem) = (format!("{}_term", tensor.name), tensor.elem);
                    let words = Space::Registers { words: true };
                    let id = self.tensor(&name, elem, words, Layout::compact(shape.clone())?);
                    let term_to = View::whole(id, &name, &shape)?;
                    self.computed(stmt, ins, &term_to, term)?;
                    term_to
                }
            });
        }
        self.push(stmt, Op::Map { ins: own, to: to.clone(), value });
        Ok(())
    }

    /// Numbers of four bits, two in a byte, a word of them at once.
    pub(super) fn unpacked(&mut self, stmt: &Stmt, row: &'static Atom, from: &View, to: &View) -> Result<()> {
        let d = self.elements(stmt, &[], to)?;
        let bytes = of_words(&d).ok_or_else(|| Problem::internal("numbers of four bits are not in words"))?;
        let bytes = joined(&bytes);
        let part = in_order(&self.side(stmt, from, &bytes, false)?, &bytes)?;
        let elem = self.program.tensor(from.tensor).elem;
        let loaded = self.words(&format!("{}_loaded", from.name), elem, &bytes)?;
        self.push(stmt, moved(part, loaded.clone()));
        let to = in_order(&self.side(stmt, to, &d, true)?, &d)?;
        let words = bytes.values() / WORD;
        let (from, to) = (loaded.regroup((WORD, words))?, to.regroup((PAIR * WORD, words))?);
        self.push(stmt, Op::Copy { from, to, how: How::Atom(row), fill: 0.0.into(), token: None });
        Ok(())
    }
}

/// A copy of a thread's part.
pub(super) fn moved(from: View, to: View) -> Op {
    Op::Copy { from, to, how: How::Derive, fill: 0.0.into(), token: None }
}
