//! `if` as an expression: on constants, integers of the kernel, numbers, and tiles.

use super::elementwise::Elements;
use super::value::{Spanned, Value};
use super::{Evaluator, advice, integer};
use crate::source::ast::{self, Span};
use crate::source::problem::Problem;
use crate::tile::Expr;
use crate::values::elem::Elem;
use crate::values::typing::{self, Scalar};

impl Evaluator {
    pub(super) fn choice(
        &mut self,
        condition: &ast::Expr,
        then: &ast::Expr,
        other: &ast::Expr,
        span: Span,
    ) -> Value {
        let decided = match self.unsettled(condition) {
            flag if self.is_flag(&flag) => self.read(flag, condition.span),
            Value::View(view) if self.builder.elem(&view) == Elem::Bool && !self.in_closure => {
                let number = Scalar::new(Expr::In(0), Elem::Bool);
                Value::Elements(Box::new(Elements { ins: vec![view], number }))
            }
            decided => decided,
        };
        match decided {
            Value::Bool(true) => self.unsettled(then),
            Value::Bool(false) => self.unsettled(other),
            Value::Poison => Value::Poison,
            Value::Test(test) => self.choice_of(integer::as_number(&test), then, other, span),
            Value::Number(test) => self.choice_of(test, then, other, span),
            Value::Elements(test) if !self.in_closure => self.choice_of_tiles(*test, then, other, span),
            decided => self.complain(condition.span, advice::condition(&decided, self.elem_of(&decided))),
        }
    }

    /// The type of a tile's elements.
    pub(super) fn elem_of(&self, value: &Value) -> Option<Elem> {
        match value {
            Value::View(view) => Some(self.builder.elem(view)),
            _ => None,
        }
    }

    /// A choice at run time.
    fn choice_of(&mut self, test: Scalar, then: &ast::Expr, other: &ast::Expr, span: Span) -> Value {
        let (x, y) = (self.unsettled(then), self.unsettled(other));
        if matches!(x, Value::Poison) || matches!(y, Value::Poison) {
            return Value::Poison;
        }
        match !self.in_closure && [&x, &y].into_iter().any(has_tiles) {
            true => {
                self.chosen_of_tiles(&Value::Number(test), x.spanned(then.span), y.spanned(other.span), span)
            }
            false => self.chosen(test, x.spanned(then.span), y.spanned(other.span), span),
        }
    }

    /// A choice for each element of tiles.
    fn choice_of_tiles(&mut self, test: Elements, then: &ast::Expr, other: &ast::Expr, span: Span) -> Value {
        let (x, y) = (self.unsettled(then), self.unsettled(other));
        if matches!(x, Value::Poison) || matches!(y, Value::Poison) {
            return Value::Poison;
        }
        self.chosen_of_tiles(
            &Value::Elements(Box::new(test)),
            x.spanned(then.span),
            y.spanned(other.span),
            span,
        )
    }

    /// One of two tiles or numbers, or entry by entry of two tuples.
    fn chosen_of_tiles(
        &mut self,
        test: &Value,
        Spanned { value: x, span: then }: Spanned,
        Spanned { value: y, span: other }: Spanned,
        span: Span,
    ) -> Value {
        let (x, y) = match (x, y) {
            (Value::Tuple(x), Value::Tuple(y)) if x.len() == y.len() => {
                let pairs = x.into_iter().zip(y);
                let made: Vec<Value> = pairs
                    .map(|(x, y)| self.chosen_of_tiles(test, x.spanned(then), y.spanned(other), span))
                    .collect();
                return match made.iter().any(|value| matches!(value, Value::Poison)) {
                    true => Value::Poison,
                    false => Value::Tuple(made),
                };
            }
            both => both,
        };
        let made = self.of_tiles(&[test, &x, &y], |run, [test, x, y]| {
            run.chosen(test, Value::Number(x).spanned(then), Value::Number(y).spanned(other), span)
        });
        made.unwrap_or_else(|| {
            let problem = Problem::new("both branches must be tiles or numbers");
            self.complain(span, problem.help("end each with arithmetic: if x > 0.0 { x } else { 0.0 }"))
        })
    }

    /// One of two numbers, or entry by entry of two tuples.
    fn chosen(
        &mut self,
        test: Scalar,
        Spanned { value: x, span: then }: Spanned,
        Spanned { value: y, span: other }: Spanned,
        span: Span,
    ) -> Value {
        match (x, y) {
            (Value::Tuple(x), Value::Tuple(y)) if x.len() == y.len() => {
                let pairs = x.into_iter().zip(y);
                let made: Vec<Value> = pairs
                    .map(|(x, y)| self.chosen(test.clone(), x.spanned(then), y.spanned(other), span))
                    .collect();
                match made.iter().any(|value| matches!(value, Value::Poison)) {
                    true => Value::Poison,
                    false => Value::Tuple(made),
                }
            }
            (x, y) => match (x.as_number(), y.as_number()) {
                (Some(x), Some(y)) => {
                    let made = typing::agree("if", [x, y]);
                    let made = made.and_then(|([x, y], _)| typing::pick(test, x, y));
                    self.scalar(made, span, &[then, other])
                }
                _ => {
                    let problem = Problem::new("both branches must be numbers");
                    let help = "end each with arithmetic: if x > 0.0 { x } else { 0.0 }";
                    self.complain(span, problem.help(help))
                }
            },
        }
    }
}

/// Is it a tile, or are there tiles in it?
fn has_tiles(value: &Value) -> bool {
    match value {
        Value::View(_) | Value::Elements(_) => true,
        Value::Tuple(items) => items.iter().any(has_tiles),
        _ => false,
    }
}
