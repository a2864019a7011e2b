//! Arithmetic on tiles outside of closures: `x * s + b` is a function of their elements, as in `map`. It is computed
//! where a tile is needed, all operators of an expression at once.

use super::args::made_from;
use super::elements::MOST_INPUTS;
use super::value::Value;
use super::{Evaluator, advice, integer};
use crate::source::ast::Span;
use crate::source::problem::Problem;
use crate::tile::Expr;
use crate::tile::view::View;
use crate::values::elem::Elem;
use crate::values::typing::{Scalar, Type};

/// A function of elements that is not computed yet.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    /// The tiles that it reads.
    pub(super) ins: Vec<View>,
    pub(super) number: Scalar,
}

impl Evaluator {
    /// Tiles and numbers as numbers of one function of elements, and the tiles that it reads. `None` inside of a
    /// closure, without tiles, or if a value is neither a tile nor a number.
    pub(super) fn joined(&self, values: &[&Value]) -> Option<(Vec<View>, Vec<Scalar>)> {
        if self.in_closure {
            return None;
        }
        let mut ins: Vec<View> = Vec::new();
        let mut input = |view: &View| {
            let known = ins.iter().position(|other| other == view).unwrap_or_else(|| {
                ins.push(view.clone());
                ins.len() - 1
            });
            Expr::In(u8::try_from(known).unwrap_or(u8::MAX))
        };
        let mut numbers = Vec::new();
        for value in values {
            numbers.push(match value {
                Value::View(view) => Scalar::new(input(view), self.builder.elem(view)),
                Value::Elements(of) => {
                    let places: Vec<Expr> = of.ins.iter().map(&mut input).collect();
                    let expr = of.number.expr.leaves(&|leaf| match leaf {
                        Expr::In(n) => places[usize::from(*n)].clone(),
                        other => other.clone(),
                    });
                    Scalar { expr, ty: of.number.ty }
                }
                other => other.as_number()?,
            });
        }
        (!ins.is_empty()).then_some((ins, numbers))
    }

    /// A function of the elements of tiles among these values; `None` without tiles.
    pub(super) fn of_tiles<const N: usize>(
        &mut self,
        values: &[&Value; N],
        make: impl FnOnce(&mut Self, [Scalar; N]) -> Value,
    ) -> Option<Value> {
        let (ins, numbers) = self.joined(values)?;
        let made = make(self, numbers.try_into().ok()?);
        Some(self.unsettled_tile(ins, made))
    }

    /// A function of elements, as a value that waits for the rest of its expression.
    pub(super) fn unsettled_tile(&mut self, ins: Vec<View>, made: Value) -> Value {
        match made {
            Value::Number(number) => Value::Elements(Box::new(Elements { ins, number })),
            Value::Tuple(items) => {
                let one = |item| self.unsettled_tile(ins.clone(), item);
                Value::Tuple(items.into_iter().map(one).collect())
            }
            other => other,
        }
    }

    /// A tile for arithmetic that is not computed yet.
    pub(super) fn settled(&mut self, value: Value, naming: &[String], span: Span) -> Value {
        match value {
            Value::Elements(of) => {
                let name = match (naming.first(), of.ins.first()) {
                    (Some(name), _) => name.clone(),
                    (None, first) => {
                        let made = if of.number.ty == Some(Type::Condition) { "mask" } else { "value" };
                        made_from(first.map_or("element", |view| &view.name), made)
                    }
                };
                self.computed_tile(*of, &name, span).unwrap_or_else(|problem| self.complain(span, problem))
            }
            Value::Tuple(items)
                if items.iter().any(|item| matches!(item, Value::Elements(_) | Value::Tuple(_))) =>
            {
                let counts: Vec<usize> = items.iter().map(Value::leaves).collect();
                let mut names = if naming.len() == counts.iter().sum() { naming } else { &[] };
                let mut made = Vec::new();
                for (item, count) in items.into_iter().zip(counts) {
                    let (own, others) = names.split_at(count.min(names.len()));
                    made.push(self.settled(item, own, span));
                    names = others;
                }
                match made.iter().any(|value| matches!(value, Value::Poison)) {
                    true => Value::Poison,
                    false => Value::Tuple(made),
                }
            }
            value => value,
        }
    }

    fn computed_tile(&mut self, of: Elements, name: &str, span: Span) -> Result<Value, Problem> {
        let ins = self.inputs(&of.ins)?;
        let elem = match of.number.own_type() {
            Some(Type::Elem(elem)) => elem,
            Some(Type::Condition) => Elem::Bool,
            None => self.builder.elem(&ins[0]),
        };
        let value = of.number.into_elem(elem)?;
        self.builder.at(self.called_at.unwrap_or(span));
        let tile = self.room_for(name, elem, &ins)?.with_name(name);
        self.builder.map(&ins, &tile, value).map_err(|problem| Problem { arg: None, ..problem })?;
        Ok(Value::View(tile))
    }

    /// The tiles that a function reads, with modes for all of it.
    fn inputs(&self, of: &[View]) -> Result<Vec<View>, Problem> {
        if of.len() > MOST_INPUTS {
            return Err(Problem::new(format!("this reads more than {MOST_INPUTS} tiles"))
                .help("give parts of it names, with `let`"));
        }
        if let Some(whole) = of.iter().find(|view| view.extents().is_none()) {
            return Err(advice::whole(whole, ""));
        }
        // A tile of one element is repeated for all elements, for any rank of the others.
        let ranks = of.iter().filter(|view| !integer::is_one(view)).map(View::rank);
        let rank = ranks.max().or_else(|| of.iter().map(View::rank).max()).unwrap_or(1);
        let fit = |view: &View| match view.rank() != rank && integer::is_one(view) {
            true => view.everywhere(rank),
            false => Ok(view.clone()),
        };
        of.iter().map(fit).collect()
    }
}
