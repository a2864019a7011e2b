//! Threads of a block: each statement is evaluated for all of them, and what they write is stored once all have read. A kernel of whole
//! tiles has one thread.

use std::rc::Rc;

use tilewright_codegen::ast::{Arg, Expr, ExprKind, Kernel, Pattern, Stmt, StmtKind};
use tilewright_layout::{Layout, Tuple, Value as Entry};

use super::constructs::{statements, statements_of};
use super::function::{entries, named};
use super::number::decides;
use super::value::{Cell, Elements, Spot, Store, Type, Value, View, digits};
use super::{Block, Result, undefined};

/// The number of threads over which the text of a kernel partitions its tiles, if it does.
pub(super) fn threads(kernel: &Kernel, constants: &[(String, Value<'_>)]) -> Option<usize> {
    let mut over = None;
    statements(&kernel.body, &mut |of| match of {
        ExprKind::Call { function, args, .. } if function.text == "parallelize" && args.len() > 2 => {
            over = Some(&args[1].value);
        }
        _ => {}
    });
    let over = over?;
    let layout = |of: &Expr| match &of.kind {
        ExprKind::Layout { shape, .. } => Some(product(shape, constants)),
        _ => None,
    };
    let ExprKind::Name(name) = &over.kind else { return layout(over).filter(|_| decides()) };
    let bound = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Let { pattern: Pattern::Name(own), value } if own.text == *name => layout(value),
        StmtKind::Let { pattern: Pattern::Tuple(_, names), value } => {
            let is_own = |pattern: &Pattern| matches!(pattern, Pattern::Name(own) if own.text == *name);
            let ExprKind::Tuple(values) = &value.kind else { return None };
            names.iter().position(is_own).and_then(|at| values.get(at)).and_then(layout)
        }
        _ => None,
    };
    kernel.body.iter().find_map(bound)
}

fn product(shape: &Expr, constants: &[(String, Value<'_>)]) -> usize {
    match &shape.kind {
        ExprKind::Int(n) => *n as usize,
        ExprKind::Tuple(all) => all.iter().map(|mode| product(mode, constants)).product(),
        ExprKind::Name(name) => match constants.iter().find(|(known, _)| known == name) {
            Some((_, Value::Int(n))) => *n as usize,
            _ => 1,
        },
        _ => 1,
    }
}

impl<'k> Block<'k> {
    /// Evaluates something for all threads that run, one after the other; then their writes are stored.
    pub(super) fn for_threads<T>(&mut self, mut of: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        for thread in self.running.clone() {
            self.thread = thread;
            all.push(of(self));
        }
        self.thread = self.running[0];
        for (store, to, cell) in std::mem::take(&mut self.writes) {
            match &mut self.stores[store] {
                Store::Global(buffer) => {
                    let to = buffer.index_of(to);
                    buffer.all[to] = Some(cell.num);
                }
                Store::Shared(cells) | Store::Registers(cells) => cells[to] = Some(cell),
            }
        }
        all.into_iter().collect()
    }

    /// Runs something for some of the threads.
    pub(super) fn only(
        &mut self,
        threads: Vec<usize>,
        of: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let Some(&first) = threads.first() else { return Ok(()) };
        let outer = std::mem::replace(&mut self.running, threads);
        self.thread = first;
        let result = of(self);
        self.running = outer;
        self.thread = self.running[0];
        result
    }

    /// The running threads that have this value.
    pub(super) fn threads_with(&self, values: &[bool], wanted: bool) -> Vec<usize> {
        let all = self.running.iter().zip(values);
        all.filter(|(_, value)| **value == wanted).map(|(thread, _)| *thread).collect()
    }

    /// `layout!((4, (2, 4)) : (8, (1, 2)))`
    pub(super) fn layout(&mut self, shape: &'k Expr, stride: Option<&'k Expr>) -> Result<Value<'k>> {
        let shape = self.value(shape)?;
        let Some(stride) = stride else { return Ok(shape) };
        let (shape, stride) = (tuple(&shape)?, tuple(&self.value(stride)?)?);
        match Layout::new(shape, stride) {
            Ok(layout) => Ok(Value::Layout(layout.into())),
            Err(why) => undefined(why.to_string()),
        }
    }

    /// `walk(3, block.x)`, `walk((4, 6), block.x)`, `walk(layout!((4, 6) : (6, 1)), block.x)`: the coordinates at which a layout has this number.
    pub(super) fn walked(&mut self, order: &'k Expr, at: &'k Expr) -> Result<Value<'k>> {
        let (order, at) = (self.value(order)?, self.integer(at)?);
        let layout = match order {
            Value::Layout(layout) => layout,
            shape @ Value::Tuple(_) => match Layout::compact(tuple(&shape)?) {
                Ok(layout) => Rc::new(layout),
                Err(_) => return undefined("a layout that is too large"),
            },
            _ => return Ok(Value::Integer(at)),
        };
        let position =
            layout.offsets().ok().and_then(|mut all| all.position(|offset| i128::from(offset) == at));
        let Some(position) = position else { return undefined("a number that the layout does not have") };
        let sizes: Vec<i64> = layout.modes().map(|mode| mode.size().unwrap_or(1)).collect();
        let digits = digits(&sizes, position as i64);
        Ok(Value::Tuple(digits.into_iter().map(|at| Value::Integer(at.into())).collect()))
    }

    /// `parallelize(tile, threads, thread.x, (1, _), values = (2, 1), ragged = true)`: of the elements along a mode, in groups of
    /// `values`, a thread takes each group at its own coordinate in the thread layout, and at multiples of the threads from there.
    pub(super) fn part(&mut self, view: &View, args: &'k [Arg]) -> Result<Value<'k>> {
        let threads = match self.value(&args[1].value)? {
            Value::Layout(layout) => Ok(layout),
            shape => Layout::compact(tuple(&shape)?).map(Rc::new),
        };
        let own = self.integer(&args[2].value)? as i64;
        let Some(own) = threads.as_ref().ok().and_then(|of| of.offsets().ok()?.position(|at| at == own))
        else {
            return undefined("a thread that the layout of threads does not have");
        };
        let counts = threads.iter().flat_map(|layout| layout.modes()).map(|mode| mode.size().unwrap_or(1));
        let counts: Vec<i64> = counts.collect();
        let owners = counts.iter().copied().zip(digits(&counts, own as i64));
        let owners: Vec<(i64, i64)> = match args.get(3).filter(|arg| arg.name.is_none()) {
            Some(kept) => {
                let kept = entries(self.value(&kept.value)?);
                owners.zip(kept).filter(|(_, kept)| !matches!(kept, Value::Hole)).map(|(of, _)| of).collect()
            }
            None => owners.collect(),
        };
        let values =
            named(args, "values").map(|values| self.numbers(values)).transpose()?.unwrap_or_default();
        let ragged = named(args, "ragged").is_some();
        let mut sizes = view.sizes.clone();
        let mut modes = view.modes.clone();
        for (mode, (count, _)) in owners.iter().enumerate() {
            let each = values.get(mode).map_or(1, |n| *n as i64);
            sizes[mode] = (sizes[mode] + each - 1) / each;
            sizes[mode] = (sizes[mode] + count - 1) / count * each;
            modes[mode] = None;
        }
        let from = view.clone();
        Ok(Value::View(view.with(sizes, modes, move |own| {
            let (mut at, mut exists) = (own.to_vec(), true);
            for (mode, (count, owner)) in owners.iter().enumerate() {
                let (each, own) = (values.get(mode).copied().unwrap_or(1), own[mode]);
                let group = own.div_euclid(each) * i128::from(*count) + i128::from(*owner);
                at[mode] = group * each + own.rem_euclid(each);
                exists &= !ragged || at[mode] < i128::from(from.sizes[mode]);
            }
            let spot = from.spot(&at);
            Spot { position: spot.position.filter(|_| exists), ..spot }
        })))
    }

    /// What the exchanges in an expression give each thread, the inner ones first; and memory that the threads share.
    pub(super) fn exchanges(&mut self, of: &'k Expr) -> Result<()> {
        self.exchanged.clear();
        let mut calls = Vec::new();
        statements_of(of, &mut |kind| {
            if self.has_threads && matches!(kind, ExprKind::Call { .. }) {
                calls.push(kind);
            }
        });
        for kind in calls.into_iter().rev() {
            let ExprKind::Call { function, types, args } = kind else { continue };
            let values = match &*function.text {
                name if name.starts_with("warp_") || name.starts_with("block_") => {
                    self.across_threads(name, args)?
                }
                "shared" => vec![self.call("shared", types, args)?; self.running.len()],
                _ => continue,
            };
            self.exchanged.push((kind, values));
        }
        Ok(())
    }

    /// What the thread has from an exchange of this statement.
    pub(super) fn exchanged_value(&self, call: &ExprKind) -> Option<Value<'k>> {
        let (_, values) = self.exchanged.iter().find(|(known, _)| std::ptr::eq(*known, call))?;
        let own = self.running.iter().position(|thread| *thread == self.thread)?;
        values.get(own).cloned()
    }

    /// `warp_sum(x)`, `block_reduce((x, y), (0.0, 0), |(a, n), (b, m)| …)`: element by element of the parts of all threads.
    pub(super) fn across_threads(&mut self, name: &str, args: &'k [Arg]) -> Result<Vec<Value<'k>>> {
        if self.running.len() < self.scopes.len() {
            return undefined("an exchange of some of the threads");
        }
        let given = self.for_threads(|block| {
            let given = block.value(&args[0].value)?;
            let is_tuple = matches!(given, Value::Tuple(_));
            let all = entries(given).iter().map(|of| block.elements(of)).collect::<Result<Vec<_>>>()?;
            Ok((all, is_tuple, block.lanes_taken(name, args)?))
        })?;
        let (first, is_tuple, _) = &given[0];
        let lanes = self.lanes(name, args, given.len())?;
        if given.len() % lanes != 0 {
            return undefined("a warp without all of its lanes");
        }
        let mut made: Vec<Vec<(Vec<Cell>, Type)>> = vec![vec![]; given.len()];
        for (n, _) in first[0].cells.iter().enumerate() {
            let of_threads = |entry: usize| Elements {
                sizes: vec![given.len() as i64],
                cells: given.iter().map(|(all, ..)| all[entry].cells[n].clone()).collect(),
                ..first[entry].clone()
            };
            let all: Vec<Elements> = (0..first.len()).map(of_threads).collect();
            let lane = |from: &Elements| Ok(from.cells[from.broadcast(&first[0].sizes, n)?].clone());
            let from = given.iter().filter_map(|(.., from)| from.as_ref()).map(lane);
            let from = from.collect::<Result<Vec<_>>>()?;
            for (entry, of) in self.exchange_lanes(name, &all, &from, lanes, args)?.into_iter().enumerate() {
                for (made, cell) in made.iter_mut().zip(of.cells) {
                    if made.len() == entry {
                        made.push((Vec::new(), of.ty));
                    }
                    made[entry].0.push(cell);
                }
            }
        }
        let sizes = first[0].sizes.clone();
        let is_tuple = *is_tuple;
        let each = made.into_iter().map(|entries| {
            let all = entries.into_iter().map(|(cells, ty)| {
                self.settled(Elements { sizes: sizes.clone(), ty, cells, argument: false })
            });
            let mut all = all.collect::<Result<Vec<_>>>()?;
            Ok(if is_tuple { Value::Tuple(all) } else { all.swap_remove(0) })
        });
        each.collect()
    }
}

/// Modes of a layout, some of them nested.
fn tuple(of: &Value<'_>) -> Result<Tuple> {
    match (of, of.int()) {
        (Value::Tuple(all), _) => {
            let all = all.iter().map(tuple).collect::<Result<Vec<_>>>()?;
            Ok(Tuple::of(all))
        }
        (_, Some(n)) => Ok(Tuple::from(Entry::Int(n as i64))),
        _ => undefined("no layout"),
    }
}
