//! Assignments: `fragment = …`, `fragment *= …`, `(a, b) = …`.

use super::value::Value;
use super::{Evaluator, advice, expression};
use crate::ast::{self, Binary, Span};
use crate::problem::Problem;
use crate::tile;
use crate::typing::Scalar;
use crate::view::View;

impl Evaluator {
    /// `fragment = …`, `fragment *= …`: sets every element of a fragment.
    pub(super) fn assign(&mut self, target: &ast::Expr, op: Option<Binary>, value: &ast::Expr, span: Span) {
        if let (ast::ExprKind::Tuple(targets), None) = (&target.kind, op) {
            return self.assign_all(targets, value);
        }
        let from = self.expr(value);
        self.assign_value(target, op, (from, value.span), span);
    }

    /// `(a, b) = …`: all values are computed before any is assigned.
    pub(super) fn assign_all(&mut self, targets: &[ast::Expr], value: &ast::Expr) {
        let values = match self.expr(value) {
            Value::Tuple(values) if values.len() == targets.len() => values,
            Value::Poison => return,
            other => {
                let problem = Problem::new(format!(
                    "{} are set, and this is {}",
                    advice::count(targets.len(), "tensor"),
                    other.kind()
                ));
                self.complain(value.span, problem.help("write one value for each: (a, b) = (x, y)"));
                return;
            }
        };
        let (mut made, value_span) = (Vec::new(), value.span);
        for value in values {
            made.push(match value {
                Value::View(view) => self.copied(view, value_span),
                value => value,
            });
        }
        for (target, from) in targets.iter().zip(made) {
            self.assign_value(target, None, (from, value.span), target.span);
        }
    }

    /// Copies elements of a tensor that has a name into registers of their own, so that they survive an
    /// assignment to it.
    pub(super) fn copied(&mut self, view: View, span: Span) -> Value {
        let named =
            self.scope.iter().any(|(_, value)| matches!(value, Value::View(of) if of.tensor == view.tensor));
        if !named {
            return Value::View(view);
        }
        let elem = self.builder.elem(&view);
        let made = self.builder.registers("held", elem, view.shape()).and_then(|copy| {
            self.builder.map(std::slice::from_ref(&view), &copy, tile::Expr::In(0))?;
            Ok(copy)
        });
        match made {
            Ok(copy) => Value::View(copy),
            Err(problem) => self.complain(span, problem),
        }
    }

    pub(super) fn assign_value(
        &mut self,
        target: &ast::Expr,
        op: Option<Binary>,
        (from, from_span): (Value, Span),
        span: Span,
    ) {
        let to = self.expr(target);
        let to = match to {
            Value::View(view) => view,
            Value::Poison => return,
            other => {
                let problem = Problem::new(format!("{} cannot be changed", other.kind()));
                let help = "only tensors hold values that change: let mut total = registers::<f32>((1), 0.0)";
                self.complain(target.span, problem.help(help));
                return;
            }
        };
        let elem = self.builder.elem(&to);
        // An assignment without an operator does not read its target.
        let reads = op.is_some();
        let (view, right) = match from {
            Value::Poison => return,
            Value::View(view) => {
                let view = self.fitting(view, &to);
                let place = tile::Expr::In(u8::from(reads));
                let right = Scalar::new(place, self.builder.elem(&view));
                (Some(view), right)
            }
            other => match other.as_number() {
                Some(number) => (None, number),
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
            Some(op) => expression::arithmetic(op, left, right),
        };
        // The elements of a tensor are converted by a function, not by `as`.
        let advised = |problem: Problem| match (&view, problem.arg) {
            (Some(view), None) => problem.help(format!("write `map({}, |x| x as {elem})`", view.name)),
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
        let ins: Vec<_> = reads.then(|| to.clone()).into_iter().chain(view).collect();
        let (done, target_arg) = match &ins[..] {
            [] => (self.builder.fill(&to, of), 0),
            ins => (self.builder.map(ins, &to, of), 1),
        };
        if let Err(problem) = done {
            let span = if problem.arg == Some(target_arg) { target.span } else { from_span };
            self.complain(span, problem);
        }
    }
}
