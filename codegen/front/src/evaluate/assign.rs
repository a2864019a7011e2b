//! Assignments: `fragment = …`, `fragment *= …`, `(a, b) = …`.

use super::args::{made_for, made_from};
use super::value::{Spanned, Value};
use super::{Evaluator, advice, operators};
use crate::source::ast::{self, Binary, Span};
use crate::source::problem::{Problem, count};
use crate::tile;
use crate::tile::view::View;
use crate::values::typing::Scalar;

impl Evaluator {
    /// `fragment = …`, `fragment *= …`: sets every element of a fragment.
    pub(super) fn assign(&mut self, target: &ast::Expr, op: Option<Binary>, value: &ast::Expr, span: Span) {
        if let (ast::ExprKind::Tuple(targets), None) = (&target.kind, op) {
            return self.assign_all(targets, value);
        }
        self.naming = made_for(target, "next");
        self.into = match (&target.kind, &value.kind, op) {
            (ast::ExprKind::Name(name), ast::ExprKind::Call { .. }, None) => self.registers_named(name),
            _ => None,
        };
        let from = self.unsettled(value);
        self.naming.clear();
        self.into = None;
        self.assign_value(target, op, from.spanned(value.span), span);
    }

    /// The tile in registers that has this name, or whose part this is.
    fn registers_of(&self, target: &ast::Expr) -> Option<View> {
        match &target.kind {
            ast::ExprKind::Name(name) => self.registers_named(name),
            ast::ExprKind::Index { base, .. } => self.registers_of(base),
            _ => None,
        }
    }

    /// The tile in registers that has this name.
    fn registers_named(&self, name: &str) -> Option<View> {
        match self.lookup(name) {
            Some(Value::View(view)) if matches!(self.builder.space(view), tile::Space::Registers { .. }) => {
                Some(view.clone())
            }
            _ => None,
        }
    }

    /// `(a, b) = …`: all values are computed before any is assigned.
    pub(super) fn assign_all(&mut self, targets: &[ast::Expr], value: &ast::Expr) {
        self.naming = targets.iter().flat_map(|target| made_for(target, "next")).collect();
        // Where all are registers, a value that reads no target before its own is computed in its target.
        let set: Option<Vec<View>> = targets.iter().map(|target| self.registers_of(target)).collect();
        let values = if set.is_some() { self.unsettled(value) } else { self.expr(value) };
        self.naming.clear();
        let values = match values {
            Value::Tuple(values) if values.len() == targets.len() => values,
            Value::Poison => return,
            other => {
                let problem = Problem::new(format!(
                    "{} are set, and this is {}",
                    count(targets.len(), "tensor"),
                    other.kind()
                ));
                self.complain(value.span, problem.help("write one value for each: (a, b) = (x, y)"));
                return;
            }
        };
        let (mut made, value_span) = (Vec::new(), value.span);
        for (n, value) in values.into_iter().enumerate() {
            let is_set = |view: &View| {
                set.as_ref().is_none_or(|set| set[..n].iter().any(|to| to.tensor == view.tensor))
            };
            made.push(match value {
                Value::View(view) if is_set(&view) => self.copied(view, value_span),
                Value::Elements(of) if !of.ins.iter().any(is_set) => Value::Elements(of),
                Value::View(view) => Value::View(view),
                value => self.settled(value, &made_for(&targets[n], "next"), value_span),
            });
        }
        for (target, from) in targets.iter().zip(made) {
            self.assign_value(target, None, from.spanned(value.span), target.span);
        }
    }

    /// Copies elements of a tensor that has a name into separate registers, so that they survive an
    /// assignment to it.
    pub(super) fn copied(&mut self, view: View, span: Span) -> Value {
        if !self.scope.iter().any(|(_, value)| value.has_elements_of(&view)) {
            return Value::View(view);
        }
        let elem = self.builder.elem(&view);
        let made = self.room_for("held", elem, std::slice::from_ref(&view)).and_then(|copy| {
            self.builder.map(std::slice::from_ref(&view), &copy, tile::Expr::In(0))?;
            Ok(copy)
        });
        match made {
            Ok(copy) => Value::View(copy),
            Err(problem) => self.complain(span, problem),
        }
    }

    pub(super) fn assign_value(&mut self, target: &ast::Expr, op: Option<Binary>, from: Spanned, span: Span) {
        let Some(from) = self.rebound(target, op, from, span) else { return };
        let to = self.expr(target);
        let to = match to {
            Value::View(view) => view,
            Value::Tuple(targets)
                if op.is_none() && targets.iter().all(|to| matches!(to, Value::View(_))) =>
            {
                return self.assign_tuple(targets, from, target.span);
            }
            Value::Poison => return,
            other => {
                let problem = Problem::new(format!("{} cannot be changed", other.kind()));
                let name = match &target.kind {
                    ast::ExprKind::Name(name) => name,
                    _ => "total",
                };
                let start = match &other {
                    Value::Int(n) => format!("full::<i32>((1), {n})"),
                    _ => "full::<f32>((1), 0.0)".into(),
                };
                let help = format!("only tensors hold values that change: let mut {name} = {start}");
                self.complain(target.span, problem.help(help));
                return;
            }
        };
        self.assign_view(to, op, from, target.span, span);
    }

    /// A name of a number that is known while compiling, or of a coordinate, gets another value: `first += tiles`, in a block
    /// that runs once. Otherwise the value is returned.
    fn rebound(
        &mut self,
        target: &ast::Expr,
        op: Option<Binary>,
        from: Spanned,
        span: Span,
    ) -> Option<Spanned> {
        let is_number = |value: &Value| {
            matches!(
                value,
                Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Index(_) | Value::Size(_)
            )
        };
        let ast::ExprKind::Name(name) = &target.kind else { return Some(from) };
        let index =
            self.entry_of(name).filter(|index| *index >= self.fixed && is_number(&self.scope[*index].1));
        let Some(index) = index.filter(|_| is_number(&from.value)) else { return Some(from) };
        let value = match op {
            Some(op) => {
                let old = self.scope[index].1.clone();
                self.binary(op, old, from.value, span, [target.span, from.span])
            }
            None => from.value,
        };
        self.scope[index].1 = self.within(value, span);
        None
    }

    /// Sets the tensors of a tuple that has a name, after all values are computed.
    fn assign_tuple(&mut self, targets: Vec<Value>, from: Spanned, span: Span) {
        let from_span = from.span;
        let values = match self.settled(from.value, &[], from_span) {
            Value::Tuple(values) if values.len() == targets.len() => values,
            Value::Poison => return,
            other => {
                let set = count(targets.len(), "tensor");
                let problem = Problem::new(format!("{set} are set, and this is {}", other.kind()));
                self.complain(from_span, problem.help("write one value for each: (a, b) = (x, y)"));
                return;
            }
        };
        let mut made = Vec::new();
        for value in values {
            made.push(match value {
                Value::View(view) => self.copied(view, from_span),
                value => value,
            });
        }
        for (target, from) in targets.into_iter().zip(made) {
            if let Value::View(to) = target {
                self.assign_view(to, None, from.spanned(from_span), span, span);
            }
        }
    }

    /// Sets every element of a tensor; `spans` are the spans of the target and of the statement.
    fn assign_view(
        &mut self,
        to: View,
        op: Option<Binary>,
        Spanned { value: from, span: from_span }: Spanned,
        target_span: Span,
        span: Span,
    ) {
        // The tile was computed in its target already.
        if op.is_none() && matches!(&from, Value::View(view) if *view == to) {
            return;
        }
        let elem = self.builder.elem(&to);
        // An assignment without an operator does not read its target.
        let reads = op.is_some();
        // Elements elsewhere in the target are read before it changes.
        let elsewhere = |view: &View| view.tensor == to.tensor && *view != to;
        let from = match from {
            Value::Elements(of) if of.ins.iter().any(elsewhere) => {
                self.settled(Value::Elements(of), &[made_from(&to.name, "next")], from_span)
            }
            from => from,
        };
        let named = |view: &View| self.scope.iter().any(|(name, _)| *name == view.name);
        let given = match &from {
            Value::View(view) if named(view) => Some(format!("write `map({}, |x| x as {elem})`", view.name)),
            Value::View(_) => Some(format!("convert it: `… as {elem}`; in a closure, convert its result")),
            _ => None,
        };
        let (views, right) = match from {
            Value::Poison => return,
            Value::Elements(of) => {
                let views: Vec<View> = of.ins.iter().map(|view| self.fitting(view.clone(), &to)).collect();
                let right = of.number.expr.leaves(&|leaf| match leaf {
                    tile::Expr::In(n) => tile::Expr::In(n + u8::from(reads)),
                    other => other.clone(),
                });
                (views, Scalar { expr: right, ty: of.number.ty })
            }
            Value::View(view) => {
                let view = self.fitting(view, &to);
                let input = tile::Expr::In(u8::from(reads));
                let right = Scalar::new(input, self.builder.elem(&view));
                (vec![view], right)
            }
            other => match other.as_number() {
                Some(number) => (Vec::new(), number),
                None => {
                    let problem = Problem::new(format!("elements cannot be set to {}", other.kind()));
                    self.complain(from_span, problem.help("write a number, or a tensor of the same shape"));
                    return;
                }
            },
        };
        let left = Scalar::new(tile::Expr::In(0), elem);
        let of = match op {
            None => Ok(right),
            Some(op) => operators::arithmetic(op, left, right),
        };
        // The elements of a tensor are converted by a function, not by `as`.
        let advised = |problem: Problem| match (&given, problem.arg) {
            (Some(help), None) => problem.help(help.clone()),
            _ => problem,
        };
        let of = match of {
            Ok(of) => of,
            Err(problem) => {
                let at = if problem.arg == Some(1) { from_span } else { span };
                self.complain(at, advised(problem));
                return;
            }
        };
        if let Err(problem) = of.clone().into_elem(elem) {
            self.complain(from_span, advised(problem));
            return;
        }
        let of = of.expr;
        let ins: Vec<_> = reads.then(|| to.clone()).into_iter().chain(views).collect();
        if let Some(open) = [&to].into_iter().chain(&ins).find(|view| view.extents().is_none()) {
            let at = if open.tensor == to.tensor { target_span } else { from_span };
            self.complain(at, advice::whole(open, ""));
            return;
        }
        let (done, target_arg) = match &ins[..] {
            [] => (self.builder.fill(&to, of), 0),
            ins => (self.builder.map(ins, &to, of), 1),
        };
        if let Err(problem) = done {
            let span = if problem.arg == Some(target_arg) { target_span } else { from_span };
            self.complain(span, problem);
        }
    }
}
