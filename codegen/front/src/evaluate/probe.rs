//! `assert_device` and `print`: what instrumented kernels and the simulator check and show.

use super::args::Args;
use super::value::Value;
use super::{Evaluator, advice, integer};
use crate::source::problem::Problem;
use crate::thread::probe::{Kind, MOST_VALUES, Probe};
use crate::tile;
use crate::tile::view::View;
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::elem::Elem;
use crate::values::typing::{self, Scalar};

impl Evaluator {
    /// `assert_device(n < 8, "text")`, or of each element of a tile: `assert_device(x > 0.0, "text")`
    pub(super) fn assert_device_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let Some(Value::Text(text)) = args.get(1) else { return Err(args.needs(1, "a text")) };
        let text = text.clone();
        match args.get(0) {
            Some(Value::Bool(true)) => {}
            Some(Value::Bool(false)) => {
                return Err(Problem::new("this is false for the constants of this kernel")
                    .help("set other constants, or assert something else")
                    .arg(0));
            }
            Some(Value::View(view)) if self.builder.elem(view) == Elem::Bool => {
                let view = view.clone();
                self.shown_tile(Kind::Assert, text, &view)?;
            }
            Some(value) => {
                let test = integer::test(value).ok_or_else(|| args.needs(0, "a condition"))?;
                let mut names: Vec<(String, Affine)> = Vec::new();
                for at in test.integers().into_iter().filter(|at| at.constant().is_none()) {
                    let name = self.text_of(at);
                    if names.len() + 1 < MOST_VALUES && names.iter().all(|(known, _)| *known != name) {
                        names.push((name, at.clone()));
                    }
                }
                let number = integer::as_number(&test);
                let mut of = vec![self.shown_number("condition", number)?];
                for (_, at) in &names {
                    let number = Scalar::new(tile::Expr::Index(Box::new(at.clone())), Elem::I32);
                    of.push(self.shown_number("integer", number)?);
                }
                let names = names.into_iter().map(|(name, _)| name).collect();
                let probe = Probe { kind: Kind::Assert, text, elem: Elem::I32, shape: Vec::new(), names };
                self.builder.probe(of, probe)?;
            }
            None => return Err(args.needs(0, "a condition")),
        }
        Ok(Value::Unit)
    }

    /// `print(t)`, or `print(n, block = (1, 0))`
    pub(super) fn print_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let block = match args.named.first() {
            None => vec![0; 3],
            Some((_, value, span)) => {
                match value.items().into_iter().map(constant).collect::<Option<Vec<i64>>>() {
                    Some(block) if block.len() <= 3 => block,
                    _ => {
                        let problem = Problem::new(format!(
                            "`block` is the coordinates of a block, and this is {}",
                            value.kind()
                        ));
                        return Ok(self.complain(*span, problem.help("write print(x, block = (1, 0))")));
                    }
                }
            }
        };
        let value = args.get(0).cloned().ok_or_else(|| args.needs(0, "a tile or a number"))?;
        let equal = |(axis, at): (u8, i64)| Test::Equal(Coord::Block(axis).into(), at.into());
        let axes = (0u8..3).filter(|axis| self.has_blocks(*axis));
        let tests = axes.map(|axis| equal((axis, block.get(usize::from(axis)).copied().unwrap_or(0))));
        let Some(test) = tests.reduce(|all, test| Test::Both(Box::new([all, test]))) else {
            return self.printed(args, value).map(|()| Value::Unit);
        };
        // The builder cannot be borrowed while the body runs through it.
        let mut builder = std::mem::replace(&mut self.builder, crate::build::Builder::new(""));
        let mut result = Ok(());
        let mut is_first = true;
        builder.arms(test, &mut |inner| {
            if std::mem::take(&mut is_first) {
                std::mem::swap(&mut self.builder, inner);
                result = self.printed(args, value.clone());
                std::mem::swap(&mut self.builder, inner);
            }
        });
        self.builder = builder;
        result.map(|()| Value::Unit)
    }

    fn printed(&mut self, args: &Args, value: Value) -> Result<(), Problem> {
        if let Value::View(view) = &value {
            return self.shown_tile(Kind::Print, view.name.clone(), view);
        }
        let number = value.as_number().ok_or_else(|| args.needs(0, "a tile or a number"))?;
        let text = match (&value, self.integer(&value)) {
            (Value::Number(_), None) | (_, None) => "number".into(),
            (_, Some(at)) => self.text_of(&at),
        };
        let view = self.shown_number("shown", number)?;
        let elem = self.builder.elem(&view);
        let (shape, names) = (Vec::new(), Vec::new());
        self.builder.probe(vec![view], Probe { kind: Kind::Print, text, elem, shape, names })
    }

    /// The elements of a whole tile, or of the part of a thread, with their coordinates.
    fn shown_tile(&mut self, kind: Kind, text: String, view: &View) -> Result<(), Problem> {
        let name = if kind == Kind::Assert { "assert_device" } else { "print" };
        let shape = view.extents().ok_or_else(|| advice::whole(view, name).arg(0))?;
        let elem = self.builder.elem(view);
        let own = self.computed(
            &format!("{}_shown", view.name),
            std::slice::from_ref(view),
            tile::Expr::In(0),
            elem,
        )?;
        let mut of = vec![own.clone()];
        let is_one = shape.iter().all(|extent| *extent == 1);
        let shape = if is_one { Vec::new() } else { shape };
        if !is_one && !self.is_whole(view) {
            return Err(Problem::new(format!(
                "`{}`, {}, is the part of one thread",
                view.name,
                view.shape()
            ))
            .help("show the whole tile that it is a part of")
            .arg(0));
        }
        for mode in 0..shape.len() {
            let zero = Scalar::new(tile::Expr::lit(0), Elem::I32);
            let Value::View(at) = self.full("coordinate", Elem::I32, &own.shape(), zero)? else { continue };
            self.builder.map(std::slice::from_ref(&at), &at, tile::Expr::At(mode as u8))?;
            of.push(at);
        }
        self.builder.probe(of, Probe { kind, text, elem, shape, names: Vec::new() })
    }

    /// A number in registers of each thread.
    fn shown_number(&mut self, name: &str, number: Scalar) -> Result<View, Problem> {
        let elem = match number.ty {
            Some(typing::Type::Elem(elem)) => elem,
            _ => Elem::I32,
        };
        let view = self.builder.registers(name, elem, (1,))?;
        self.builder.fill(&view, typing::cast(elem, number)?.expr)?;
        Ok(view)
    }

    fn text_of(&self, at: &Affine) -> String {
        tile::verify::text(self.builder.program(), at).trim_matches('`').to_owned()
    }

    /// Can the grid have more than one block along an axis?
    fn has_blocks(&self, axis: u8) -> bool {
        let program = self.builder.program();
        program.grid[usize::from(axis)].is_some() || !program.more[usize::from(axis)].is_empty()
    }
}

fn constant(value: &Value) -> Option<i64> {
    if let Value::Int(n) = value { Some(*n) } else { None }
}
