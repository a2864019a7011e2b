//! Loops and conditions of the kernel.

use super::functions::PIPELINED;
use super::value::Value;
use super::{Evaluator, advice, integer};
use crate::build::Builder;
use crate::source::ast::{self, Pattern, Span};
use crate::source::problem::Problem;
use crate::source::spelling::did_you_mean;
use crate::thread::{Id, Unroll};
use crate::tile::{Ahead, Purpose, Split};
use crate::values::affine::{Affine, Arith, Coord};
use crate::values::condition::Test;
use crate::values::limits;

impl Evaluator {
    pub(super) fn repeat(&mut self, pattern: &Pattern, range: &ast::Expr, body: &[ast::Stmt]) {
        let (range_value, unrolled, ahead) = match &range.kind {
            ast::ExprKind::Call { function, args, .. } if function.text == "unroll" && args.len() == 1 => {
                (self.expr(&args[0].value), true, None)
            }
            ast::ExprKind::Call { function, args, .. } if function.text == "pipelined" => {
                let Some((range, ahead)) = self.pipelined(args, range.span) else { return };
                (range, false, Some(ahead))
            }
            _ => (self.expr(range), false, None),
        };
        let (from, to) = match range_value {
            Value::Range(from, to) => {
                (self.coordinates(*from, range.span), self.coordinates(*to, range.span))
            }
            Value::Poison => return,
            Value::Tuple(items) if ahead.is_none() => {
                self.unrolled(pattern, items.into_iter(), range.span, body);
                return;
            }
            other => {
                let problem = Problem::new(format!(
                    "a loop needs a range, or a list of values, and this is {}",
                    other.kind()
                ));
                self.complain(
                    range.span,
                    problem.help(
                        "write `for k in 0..tensor.size(2)`, or a list of values, `for d in [1, 2, 4]`",
                    ),
                );
                return;
            }
        };
        match (from, to, unrolled) {
            (Value::Int(from), Value::Int(to), true) => {
                let count = to.saturating_sub(from).max(0).unsigned_abs();
                if count > limits::MOST_VALUES {
                    self.complain(range.span, limits::too_long_to_unroll(count));
                    return;
                }
                self.unrolled(pattern, (from..to).map(Value::Int), range.span, body);
            }
            (Value::Poison, ..) | (_, Value::Poison, _) => {}
            (from, to, true) if self.integer(&from).is_some() && self.integer(&to).is_some() => {
                let problem = Problem::new("this range is known only at launch, so it cannot be unrolled");
                self.complain(range.span, problem.help("write the range without `unroll`"));
            }
            (from, to, _) => match (self.integer(&from), self.integer(&to)) {
                // An empty range, for these constants.
                (Some(from), Some(to)) if empty(&from, &to) => {}
                (Some(from), Some(to)) => self.run_loop(pattern, from, to, ahead, body),
                _ => {
                    let problem = Problem::new(format!(
                        "a loop runs over integers, and this one from {} to {}",
                        from.kind(),
                        to.kind()
                    ));
                    self.complain(range.span, problem.help("write `for k in 0..tensor.size(2)`"));
                }
            },
        }
    }

    /// The body once for each value.
    fn unrolled(
        &mut self,
        pattern: &Pattern,
        values: impl Iterator<Item = Value>,
        at: Span,
        body: &[ast::Stmt],
    ) {
        for value in values {
            let depth = self.scope.len();
            let value = self.separate(pattern, value, false, at);
            self.bind(pattern, value);
            self.around.push(Around::Unrolled);
            self.body(body);
            self.around.pop();
            self.scope.truncate(depth);
            if !self.goes_on(1, at) {
                break;
            }
        }
    }

    /// The range of `pipelined(0..n, stages = 3, fragments = 2)`, and its stages.
    pub(super) fn pipelined(&mut self, args: &[ast::Arg], span: Span) -> Option<(Value, Ahead)> {
        const USAGE: &str = "write for k in pipelined(0..tensor.size(2), stages = 3)";
        let (mut range, mut stages, mut fragments, mut exits) = (None, None, None, None);
        let (mut producer, mut split, mut fewer) = (false, Split::Whole, false);
        for arg in args {
            if arg.is("producer") {
                if !matches!(&arg.value.kind, ast::ExprKind::Name(name) if name == "warp") {
                    let problem = Problem::new("the producer of a pipelined loop must be `warp`");
                    self.complain(arg.value.span, problem.help("write producer = warp"));
                    return None;
                }
                producer = true;
                continue;
            }
            if arg.is("split") {
                split = self.split(&arg.value)?;
                continue;
            }
            if let Some(name) = arg.name.as_ref().filter(|name| !PIPELINED.contains(&name.text.as_str())) {
                let problem = Problem::new(format!("a pipelined loop has no argument named `{}`", name.text));
                let all = || format!("its named arguments are {}", PIPELINED.join(", "));
                let near = did_you_mean(&name.text, PIPELINED.iter().copied()).unwrap_or_else(all);
                self.complain(name.span, problem.help(near));
                return None;
            }
            let value = self.expr(&arg.value);
            match (arg.name.as_ref().map(|name| name.text.as_str()), value) {
                (_, Value::Poison) => return None,
                (None, value @ Value::Range(..)) if range.is_none() => range = Some(value),
                (Some(name @ ("stages" | "most_stages")), Value::Int(n))
                    if stages.is_none() && u32::try_from(n).is_ok() =>
                {
                    fewer = name == "most_stages";
                    if let Some(name) = self.named_constant(&arg.value) {
                        self.builder.name_stages(&name, n);
                    }
                    stages = Some((n as u32, arg.value.span))
                }
                (Some("fragments"), Value::Int(n)) if fragments.is_none() && u32::try_from(n).is_ok() => {
                    fragments = Some((n as u32, arg.value.span))
                }
                (Some("exits"), Value::Bool(leaves)) if exits.is_none() => exits = Some(leaves),
                (None, Value::Int(n)) => {
                    let problem =
                        Problem::new("the arguments of a pipelined loop have names, except its range");
                    self.complain(arg.value.span, problem.help(format!("write stages = {n}")));
                    return None;
                }
                (Some("stages" | "most_stages"), Value::Int(_)) if stages.is_some() => {
                    let problem = Problem::new("the number of stages of this loop is given already");
                    let help = "write `stages = 3` for this number, or `most_stages = 16` for those that fit";
                    self.complain(arg.value.span, problem.help(help));
                    return None;
                }
                (_, other) => {
                    let problem = Problem::new(format!("a pipelined loop does not take {}", other.kind()));
                    self.complain(arg.value.span, problem.help(USAGE));
                    return None;
                }
            }
        }
        match (range, stages) {
            (Some(range), Some((stages, at_stages))) => {
                let (fragments, at_fragments) = fragments.unwrap_or((1, at_stages));
                let exits = exits.unwrap_or(true);
                let ahead = Ahead { stages, fewer, fragments, exits, producer, split };
                match ahead.unfit() {
                    None => Some((range, ahead)),
                    Some(problem) => {
                        self.complain(if problem.arg == Some(0) { at_stages } else { at_fragments }, problem);
                        None
                    }
                }
            }
            _ => {
                let problem = Problem::new("a pipelined loop needs a range and its stages");
                self.complain(span, problem.help(USAGE));
                None
            }
        }
    }

    /// How a loop is divided: `threads`, `cluster(4)` or `blocks(4)`.
    fn split(&mut self, value: &ast::Expr) -> Option<Split> {
        if let ast::ExprKind::If { condition, then, other } = &value.kind {
            return match self.decided(condition)? {
                Decided::Known(known) => self.split(if known { then } else { other }),
                _ => {
                    let problem =
                        Problem::new("how blocks share a loop is known while the kernel is compiled");
                    self.complain(condition.span, problem.help("write a condition on constants"));
                    None
                }
            };
        }
        let blocks = match &value.kind {
            ast::ExprKind::Name(name) if name == "threads" => return Some(Split::Threads),
            ast::ExprKind::Call { function, args, .. } if args.len() == 1 => {
                Some((&*function.text, self.expr(&args[0].value)))
            }
            _ => None,
        };
        let within = |blocks: i64, most: u32| (1..=i64::from(most)).contains(&blocks);
        match blocks {
            Some(("cluster", Value::Int(blocks))) if within(blocks, limits::MOST_BLOCKS) => {
                self.builder.arch(if blocks > 1 { 90 } else { 0 });
                Some(Split::Cluster(blocks as u32))
            }
            Some(("blocks", Value::Int(blocks))) if within(blocks, limits::MOST_SHARING) => {
                Some(Split::Grid(blocks as u32))
            }
            Some((.., Value::Poison)) => None,
            _ => {
                let problem = Problem::new(format!(
                    "`split` takes a cluster of 1 to {} blocks, or 1 to {} blocks of the grid",
                    limits::MOST_BLOCKS,
                    limits::MOST_SHARING
                ));
                self.complain(value.span, problem.help("write split = cluster(4) or split = blocks(4)"));
                None
            }
        }
    }

    pub(super) fn run_loop(
        &mut self,
        pattern: &Pattern,
        from: Affine,
        to: Affine,
        ahead: Option<Ahead>,
        body: &[ast::Stmt],
    ) {
        let name = match pattern {
            Pattern::Name(name) => name.text.clone(),
            _ => "i".to_owned(),
        };
        // The builder cannot be borrowed while the body runs through it, so it is swapped out.
        let mut builder = std::mem::replace(&mut self.builder, Builder::new(""));
        // A pipelined loop counts its iterations from 0. An empty range has none, wherever it begins.
        let narrow = builder.program().range(&from).is_narrow();
        let first = if narrow { Some(from.clone()) } else { Affine::two(Arith::Min, &from, &to) };
        let (first, from, to) = match (ahead, to.plus(&from, -1).zip(first)) {
            (Some(_), Some((count, first))) => (first, 0.into(), count),
            _ => (0.into(), from, to),
        };
        let iteration = |inner: &mut Builder, var: Affine| {
            std::mem::swap(&mut self.builder, inner);
            let depth = self.scope.len();
            let fixed = std::mem::replace(&mut self.fixed, depth);
            self.bind(pattern, first.plus(&var, 1).map_or(Value::Poison, Value::Index));
            self.around.push(match (ahead, &var.terms[..]) {
                (None, [(Coord::Var(var), 1)]) => Around::Loop(*var),
                _ => Around::Pipelined,
            });
            self.body(body);
            self.around.pop();
            self.scope.truncate(depth);
            self.fixed = fixed;
            std::mem::swap(&mut self.builder, inner);
        };
        match ahead {
            Some(ahead) => builder.pipelined(&name, to, ahead, iteration),
            None => builder.repeat_over(&name, from, to, Unroll::No, iteration),
        }
        self.builder = builder;
    }

    /// The form of a statement's condition: known while compiling, or a test of integers. Elements that all threads
    /// have become such a test. `None` after an error.
    pub(super) fn decided(&mut self, condition: &ast::Expr) -> Option<Decided> {
        let value = match self.expr(condition) {
            Value::Bool(known) => return Some(Decided::Known(known)),
            Value::Poison => return None,
            Value::View(flag) if self.is_condition(&Value::View(flag.clone())) => {
                self.take(&flag, Purpose::Value, condition.span)
            }
            value => value,
        };
        match integer::test(&value) {
            Some(test) => Some(Decided::Test(test)),
            None => {
                self.complain(condition.span, advice::condition(&value, self.elem_of(&value)));
                None
            }
        }
    }

    /// `while condition { … }`, also `loop { … }`: a loop that is left where the condition is false.
    pub(super) fn repeat_while(&mut self, condition: &ast::Expr, body: &[ast::Stmt], span: Span) {
        if body.is_empty() {
            let problem = Problem::new("this loop does not change its condition, so it never ends");
            self.complain(span, problem.help("to wait for another block, call wait(flag, 1), which sees everything before that block's signal(flag)"));
            return;
        }
        if matches!(condition.kind, ast::ExprKind::Bool(true)) && !body.iter().any(breaks) {
            let problem = Problem::new("this loop never ends");
            self.complain(
                span,
                problem.help("write `while condition { … }`, or `if condition { break; }` in it"),
            );
            return;
        }
        // The builder cannot be borrowed while the body runs through it, so it is swapped out.
        let mut builder = std::mem::replace(&mut self.builder, Builder::new(""));
        let iteration = |inner: &mut Builder, var: Affine| {
            std::mem::swap(&mut self.builder, inner);
            let fixed = std::mem::replace(&mut self.fixed, self.scope.len());
            if let [(Coord::Var(of), 1)] = var.terms[..] {
                self.around.push(Around::Loop(of));
                match self.decided(condition) {
                    Some(Decided::Test(test)) => self.leave(test.negated(), condition.span),
                    Some(Decided::Known(false)) => self.leave(always(), condition.span),
                    Some(Decided::Known(true)) | None => {}
                }
                self.body(body);
                self.around.pop();
            }
            self.fixed = fixed;
            std::mem::swap(&mut self.builder, inner);
        };
        builder.repeat_over("turn", 0, i64::from(i32::MAX), Unroll::No, iteration);
        self.builder = builder;
    }

    /// `break`, where a condition is true.
    pub(super) fn leave(&mut self, test: Test, span: Span) {
        let (what, help) = match self.around.last() {
            Some(&Around::Loop(of)) => {
                self.at(span);
                self.builder.leave(of, test);
                return;
            }
            Some(Around::Pipelined) => (
                "a pipelined loop cannot be left early, because it copies ahead",
                "bound its range, or write the loop without `pipelined`",
            ),
            Some(Around::Unrolled) => (
                "an unrolled loop cannot be left early",
                "put the remaining statements under an `if`; only a loop of the kernel, `for k in 0..n` without `unroll`, can be left",
            ),
            None => {
                ("there is no loop around this", "remove it, or put the remaining statements under an `if`")
            }
        };
        // An unrolled loop meets it in each iteration.
        if !self.diagnostics.iter().any(|diagnostic| diagnostic.span == span && diagnostic.message == what) {
            self.complain(span, Problem::new(what).help(help));
        }
    }

    /// A condition that is decided at run time.
    pub(super) fn branch(&mut self, test: Test, then: &[ast::Stmt], other: &[ast::Stmt], span: Span) {
        // The builder cannot be borrowed while the bodies run through it, so it is swapped out.
        let mut builder = std::mem::replace(&mut self.builder, Builder::new(""));
        builder.at(self.called_at.unwrap_or(span));
        let mut arms = [then, other].into_iter();
        let run = std::cell::RefCell::new(&mut *self);
        let mut arm = |inner: &mut Builder| {
            let run = &mut **run.borrow_mut();
            std::mem::swap(&mut run.builder, inner);
            let fixed = std::mem::replace(&mut run.fixed, run.scope.len());
            run.body(arms.next().unwrap_or_default());
            run.fixed = fixed;
            std::mem::swap(&mut run.builder, inner);
        };
        builder.arms(test, &mut arm);
        self.builder = builder;
    }
}

/// A loop around a statement.
#[derive(Clone, Copy)]
pub(super) enum Around {
    /// One that the kernel runs, by its variable.
    Loop(Id),
    Pipelined,
    Unrolled,
}

/// A condition of a statement.
pub(super) enum Decided {
    /// Known while compiling.
    Known(bool),
    /// Decided at run time.
    Test(Test),
}

/// Does a statement leave the loop around it?
fn breaks(stmt: &ast::Stmt) -> bool {
    match &stmt.kind {
        ast::StmtKind::Break => true,
        ast::StmtKind::If { then, other, .. } => then.iter().chain(other).any(breaks),
        _ => false,
    }
}

/// A test that is always true.
pub(super) fn always() -> Test {
    Test::Equal(0.into(), 0.into())
}

/// Is the range between two integers known to be empty?
fn empty(from: &Affine, to: &Affine) -> bool {
    matches!((from.constant(), to.constant()), (Some(from), Some(to)) if from >= to)
}
