//! Reductions: sums and extrema, and any associative and commutative function.

use tilewright_layout::Tuple;

use super::args::Args;
use super::elements::views;
use super::value::{Closure, Value};
use super::{Evaluator, advice};
use crate::source::ast::Span;
use crate::source::problem::{Problem, count};
use crate::thread::Bin;
use crate::tile::view::View;
use crate::tile::{self, Across};
use crate::values::elem::Elem;
use crate::values::number::Number;
use crate::values::typing::Scalar;

/// The argument with the claimed value of out-of-bounds elements.
const CLAIM: &str = "out_of_bounds";

/// The span of that claim in a call.
fn claimed_at(args: &Args) -> Span {
    named(args, CLAIM).map_or(args.call, |(_, span)| span)
}

/// The operation of a reduction of this name, none for a closure; and the threads that it spans.
pub(super) fn parts(name: &str) -> Option<(Option<Bin>, Across)> {
    let (across, with) = match name.split_once('_') {
        Some(("warp", with)) => (Across::Warp(32), with),
        Some(("block", with)) => (Across::Block, with),
        Some(("cluster", with)) => (Across::Cluster(0), with),
        _ => (Across::Thread, name),
    };
    let operation = [Bin::Add, Bin::Min, Bin::Max].into_iter().find(|by| by.reduction_name() == Some(with));
    (operation.is_some() || with == "reduce").then_some((operation, across))
}

/// Tuples of elements, and how they are combined.
pub(super) struct Combiner {
    /// The tensor of each entry.
    pub(super) from: Vec<View>,
    pub(super) elems: Vec<Elem>,
    /// The identity.
    pub(super) identity: Vec<Number>,
    /// The function of each entry.
    pub(super) with: Vec<tile::Expr>,
    /// Was a tuple given?
    pub(super) is_tuple: bool,
}

impl Evaluator {
    /// A call of a reduction.
    pub(super) fn reduce_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let naming = &args.naming[..];
        let Some((with, across)) = parts(&args.name) else { return Ok(Value::Poison) };
        let Some(across) = self.over_lanes(args, across) else { return Ok(Value::Poison) };
        match with {
            Some(with) => self.reduce_by(args, naming, with, across),
            None => self.fold_call(args, naming, across),
        }
    }

    /// The blocks of a cluster.
    pub(super) fn blocks_of_cluster(&self) -> u32 {
        self.builder.program().cluster.iter().product()
    }

    /// A named argument that is true or false; `None` if an error has been reported.
    pub(super) fn flag(&mut self, args: &Args, name: &str, default: bool) -> Option<bool> {
        match named(args, name) {
            None => Some(default),
            Some((Value::Bool(flag), _)) => Some(*flag),
            Some((other, span)) => {
                let problem =
                    Problem::new(format!("`{name}` must be true or false, and this is {}", other.kind()));
                self.complain(span, problem.help(format!("write {name} = true")));
                None
            }
        }
    }

    /// The threads that a call spans, where it may name lanes; `None` if an error has been reported.
    pub(super) fn over_lanes(&mut self, args: &Args, across: Across) -> Option<Across> {
        let across = match (across, self.blocks_of_cluster()) {
            (Across::Cluster(_), 1) => Across::Block,
            (Across::Cluster(_), blocks) => Across::Cluster(blocks),
            _ => across,
        };
        let across = match (across, self.flag(args, "per_block", false)?) {
            (_, false) => across,
            (Across::Cluster(blocks), true) => Across::Blocks(blocks),
            (_, true) => Across::Blocks(1),
        };
        match named(args, "lanes") {
            None => Some(across),
            Some((Value::Int(lanes @ (1 | 2 | 4 | 8 | 16 | 32)), _)) => Some(Across::Warp(*lanes as u32)),
            Some((other, span)) => {
                let problem =
                    Problem::new(format!("`lanes` must be 2, 4, 8, 16 or 32, and this is {}", other.kind()));
                self.complain(span, problem.help("write lanes = 2, 4, 8, 16 or 32"));
                None
            }
        }
    }

    /// `sum(x, 1)` and its like.
    fn reduce_by(
        &mut self,
        args: &Args,
        naming: &[String],
        with: Bin,
        across: Across,
    ) -> Result<Value, Problem> {
        let Some((Value::View(from), _)) = args.values.first() else {
            return Err(Problem::new(format!("`{}` needs a fragment", args.name)).help(args.usage()).arg(0));
        };
        let elem = self.builder.elem(from);
        let elem = match (named(args, "acc"), with) {
            // Sums of narrow numbers are accumulated in a wider type, on every level; their user converts
            // them once.
            (None, Bin::Add) => elem.accumulator(),
            (None, _) => elem,
            (Some((Value::Elem(acc), _)), _) if acc.is_float() == elem.is_float() => *acc,
            (Some((other, span)), _) => {
                let problem = Problem::new(format!(
                    "elements of {elem} cannot be summed in {}",
                    match other {
                        Value::Elem(acc) => acc.to_string(),
                        other => other.kind(),
                    }
                ));
                let help = format!("write acc = {}, or convert the elements first", elem.accumulator());
                return Ok(self.complain(span, problem.help(help)));
            }
        };
        let Some(declared) = self.declared(args, 1) else { return Ok(Value::Poison) };
        let declared = declared.map(|given| given[0]);
        let name = naming.first().map_or("fragment", String::as_str);
        let whole = self.is_whole(from);
        let (from, across) = match whole {
            true => (&self.loaded(from)?, self.across_threads(args, across)?),
            false => (&self.loaded_part(from)?, across),
        };
        let extents = extents(args, from, across, args.values.get(1).map(|(value, _)| value))?;
        let to = match whole {
            true => self.builder.distributed(name, elem, &extents)?,
            false => self.builder.registers(name, elem, Tuple::flat(&extents))?,
        };
        self.builder.fill(&to, tile::Expr::lit(with.identity(elem).unwrap_or(Number::Int(0))))?;
        match self.builder.reduce_claimed(from, &to, with, across, declared) {
            Err(problem) if declared.is_some() && problem.arg.is_none() => {
                Ok(self.complain(claimed_at(args), problem))
            }
            done => done.map(|()| Value::View(to)),
        }
    }

    /// The claimed contents of out-of-bounds elements, a number for each of `count` tensors, if a call has them.
    /// `None` if an error has been reported.
    pub(super) fn declared(&mut self, args: &Args, count: usize) -> Option<Option<Vec<Number>>> {
        let Some((given, span)) = named(args, CLAIM) else { return Some(None) };
        match numbers(given).filter(|given| given.len() == count) {
            Some(given) => Some(Some(given)),
            None => {
                let problem = Problem::new(format!(
                    "`out_of_bounds` is the value of out-of-bounds elements, and this is {}",
                    given.kind()
                ));
                self.complain(
                    span,
                    problem.help(match count {
                        1 => "write a number, such as out_of_bounds = 0.0",
                        _ => "write a number for each tensor, such as out_of_bounds = (0.0, 0.0)",
                    }),
                );
                None
            }
        }
    }

    /// `reduce((x, y), (0.0, 0), |(a, b), (c, d)| …)`: an associative and commutative function.
    fn fold_call(&mut self, args: &Args, naming: &[String], across: Across) -> Result<Value, Problem> {
        let Some(Combiner { mut from, elems, identity, with, is_tuple }) = self.combiner(args)? else {
            return Ok(Value::Poison);
        };
        let whole = from.iter().all(|view| self.is_whole(view));
        let across = if whole { self.across_threads(args, across)? } else { across };
        let extents = extents(args, &from[0], across, named(args, "mode").map(|(value, _)| value))?;
        let mut to = Vec::new();
        for (n, elem) in elems.iter().enumerate() {
            let name = naming.get(n).or(naming.last()).map_or("fragment", String::as_str);
            let made = match whole {
                true => {
                    from[n] = self.loaded(&from[n])?;
                    self.builder.distributed(name, *elem, &extents)?
                }
                false => {
                    from[n] = self.loaded_part(&from[n])?;
                    self.builder.registers(name, *elem, Tuple::flat(&extents))?.with_name(name)
                }
            };
            self.builder.fill(&made, tile::Expr::Lit(identity[n])).map_err(|problem| problem.arg(1))?;
            to.push(made);
        }
        let Some(declared) = self.declared(args, from.len()) else { return Ok(Value::Poison) };
        match self.builder.fold(&from, &to, with, identity, across, declared.as_deref()) {
            Err(problem) if declared.is_some() && problem.arg.is_none() => {
                return Ok(self.complain(claimed_at(args), problem));
            }
            done => done?,
        }
        Ok(match is_tuple {
            true => Value::Tuple(to.into_iter().map(Value::View).collect()),
            false => Value::View(to.remove(0)),
        })
    }

    /// The arguments of a reduction or scan by a closure; `None` if an error has been reported.
    pub(super) fn combiner(&mut self, args: &Args) -> Result<Option<Combiner>, Problem> {
        let usage = || {
            Problem::new(format!("`{}` takes a tile, an identity and a closure of two arguments", args.name))
                .help(args.usage())
        };
        let [(given, _), (identity, _), (Value::Closure(closure), _)] = &args.values[..] else {
            return Err(usage());
        };
        let from = views(given).filter(|from| !from.is_empty()).ok_or_else(|| usage().arg(0))?;
        let identity = numbers(identity).ok_or_else(|| usage().arg(1))?;
        if identity.len() != from.len() {
            let (has, given) = (count(identity.len(), "number"), count(from.len(), "tensor"));
            return Err(Problem::new(format!("the identity has {has}, and {given} are combined"))
                .help("write one number for each tensor: reduce((x, y), (0.0, 0.0), |(a, b), (c, d)| …)")
                .arg(1));
        }
        let elems: Vec<Elem> = from.iter().map(|view| self.builder.elem(view)).collect();
        let is_tuple = matches!(given, Value::Tuple(_));
        let Some(with) = self.functions(closure, &elems, is_tuple)? else {
            return Ok(None);
        };
        Ok(Some(Combiner { from, elems, identity, with, is_tuple }))
    }

    /// The functions of a closure of two tuples, or of two numbers: one for each entry. `None` if an
    /// error has been reported.
    fn functions(
        &mut self,
        closure: &Closure,
        elems: &[Elem],
        is_tuple: bool,
    ) -> Result<Option<Vec<tile::Expr>>, Problem> {
        if closure.params.len() != 2 {
            let takes = count(closure.params.len(), "value");
            return Err(Problem::new(format!("the closure takes {takes}, and a reduction combines two"))
                .help(if is_tuple { "write |(a, b), (c, d)| (…, …)" } else { "write |a, b| …" })
                .arg(2));
        }
        let side = |first: usize| {
            let all = elems.iter().enumerate();
            let mut all: Vec<Value> = all
                .map(|(n, elem)| Value::Number(Scalar::new(tile::Expr::In((first + n) as u8), *elem)))
                .collect();
            if is_tuple { Value::Tuple(all) } else { all.remove(0) }
        };
        let values = vec![side(0), side(elems.len())];
        let entries = match (self.applied_to(closure, values), is_tuple) {
            (Value::Poison, _) => return Ok(None),
            (Value::Tuple(entries), true) if entries.len() == elems.len() => entries,
            (value, false) => vec![value],
            (value, true) => {
                return Err(Problem::new(format!(
                    "the closure returns {}, and {} are combined",
                    value.kind(),
                    count(elems.len(), "value")
                ))
                .help("end it with a tuple of as many numbers")
                .arg(2));
            }
        };
        let mut functions = Vec::new();
        for (value, elem) in entries.into_iter().zip(elems) {
            let number = value.as_number().ok_or_else(|| {
                Problem::new(format!("the closure returns {}, and a number is needed", value.kind()))
                    .help("end it with arithmetic on its parameters: |a, b| a + b")
                    .arg(2)
            })?;
            match number.into_elem(*elem) {
                Ok(function) => functions.push(function),
                Err(problem) => {
                    self.complain(closure.body.span, problem);
                    return Ok(None);
                }
            }
        }
        Ok(Some(functions))
    }
}

/// A number, or a tuple of them.
fn numbers(value: &Value) -> Option<Vec<Number>> {
    match value {
        Value::Tuple(entries) => entries.iter().map(Value::literal).collect(),
        one => one.literal().map(|number| vec![number]),
    }
}

/// An argument with a name.
pub(super) fn named<'a>(args: &'a Args, name: &str) -> Option<(&'a Value, crate::source::ast::Span)> {
    args.named.iter().find(|(known, ..)| known.text == name).map(|(_, value, span)| (value, *span))
}

/// The extents of a result: 1 along the reduced modes.
fn extents(args: &Args, from: &View, across: Across, modes: Option<&Value>) -> Result<Vec<i64>, Problem> {
    let mut extents = from.extents().ok_or_else(|| advice::whole(from, &args.name).arg(0))?;
    if across != Across::Thread {
        return Ok(extents);
    }
    let rank = extents.len();
    let wrong = || {
        let problem = format!("`{}` needs one or several of the modes 0..{rank}", args.name);
        Problem::new(problem).help(args.usage()).arg(1)
    };
    let all = match modes {
        None => return Ok(vec![1; rank]),
        Some(Value::Tuple(all)) => &all[..],
        Some(one) => std::slice::from_ref(one),
    };
    for mode in all {
        match mode {
            Value::Int(mode) if (0..rank as i64).contains(mode) => extents[*mode as usize] = 1,
            _ => return Err(wrong()),
        }
    }
    Ok(extents)
}
