//! Functions of numbers, of integers known while compiling, and of sizes.

use super::args::Args;
use super::value::Value;
use super::{Evaluator, function};
use crate::source::problem::Problem;
use crate::thread::Bin;
use crate::values::affine::Arith;
use crate::values::elem::Elem;
use crate::values::typing::{self, Scalar, Type};

impl Evaluator {
    /// `ceil_div(a, b)`
    pub(super) fn ceil_div_call(&mut self, args: &Args) -> Result<Value, Problem> {
        match (args.get(0), args.get(1)) {
            (Some(Value::Int(n)), Some(Value::Int(by))) if *by > 0 => {
                Ok(Value::Int(n.div_euclid(*by) + i64::from(n.rem_euclid(*by) != 0)))
            }
            (Some(Value::Size(size)), Some(Value::Int(by))) if size.ceil_div(*by).is_some() => {
                size.ceil_div(*by).map(Value::Size).ok_or_else(|| args.wrong())
            }
            (Some(n), Some(by)) if self.is_integer(n) && self.is_integer(by) => {
                let n = self.read(n.clone(), args.span(0));
                let by = self.read(by.clone(), args.span(1));
                self.quotient_up(&n, &by).ok_or_else(|| args.needs(1, "a positive integer"))
            }
            (Some(n), _) if self.is_integer(n) => Err(args.needs(1, "an integer")),
            _ => Err(args.needs(0, "an integer or a size")),
        }
    }

    /// `min(a, b)` or `max(a, b)`
    pub(super) fn extreme_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let smaller = args.name == "min";
        match (args.get(0), args.get(1)) {
            (Some(Value::Int(x)), Some(Value::Int(y))) => {
                Ok(Value::Int(if smaller { *x.min(y) } else { *x.max(y) }))
            }
            (Some(x), Some(y)) if !self.in_closure && self.is_integer(x) && self.is_integer(y) => {
                let x = self.read(x.clone(), args.span(0));
                let y = self.read(y.clone(), args.span(1));
                let with = if smaller { Arith::Min } else { Arith::Max };
                match self.extreme(with, &x, &y) {
                    Some(made) => Ok(made),
                    None => {
                        let f = if smaller { Bin::Min } else { Bin::Max };
                        typing::bin(f, args.number(0)?, args.number(1)?).map(Value::Number)
                    }
                }
            }
            _ => {
                let f = if smaller { Bin::Min } else { Bin::Max };
                typing::bin(f, args.number(0)?, args.number(1)?).map(Value::Number)
            }
        }
    }

    /// `fma(a, b, c)`
    pub(super) fn fma_call(&mut self, args: &Args) -> Result<Value, Problem> {
        typing::fma(args.number(0)?, args.number(1)?, args.number(2)?).map(Value::Number)
    }

    /// `select(condition, a, b)`
    pub(super) fn select_call(&mut self, args: &Args) -> Result<Value, Problem> {
        typing::pick(args.number(0)?, args.number(1)?, args.number(2)?).map(Value::Number)
    }

    /// `bits::<u32>(x)`
    pub(super) fn bits_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let to = self.type_argument(args)?;
        typing::bits(to, args.number(0)?).map_err(|problem| problem.arg(0)).map(Value::Number)
    }

    /// `exp(x)` and other functions of numbers: `pow(x, y)`
    pub(super) fn math_call(&mut self, args: &Args) -> Result<Value, Problem> {
        if let (Some(name), Ok(Scalar { ty: Some(Type::Elem(Elem::F64)), .. })) =
            (args.name.strip_prefix("fast_"), args.number(0))
        {
            let (exact, converted) = match name {
                "div" => ("x / y".to_owned(), "x as f32, y as f32"),
                name => (format!("{name}(x)"), "x as f32"),
            };
            return Err(Problem::new(format!("`{}` computes in f32, and this is f64", args.name))
                .help(format!("write {exact}, or convert it: {}({converted})", args.name))
                .arg(0));
        }
        // Of a constant a constant, which a loop or a shape can have.
        if let (Some(&Value::Int(n)), false) = (args.get(0), self.in_closure)
            && let Ok(n) = i32::try_from(n)
        {
            match &*args.name {
                "count_ones" => return Ok(Value::Int(n.count_ones().into())),
                "leading_zeros" => return Ok(Value::Int(n.leading_zeros().into())),
                _ => {}
            }
        }
        let value = match function::of(&args.name) {
            function::Kind::One(f) => typing::un(f, args.number(0)?),
            function::Kind::Two(f) => typing::bin(f, args.number(0)?, args.number(1)?),
            function::Kind::Made(make) => function::wide(&args.name, args.number(0)?, make),
        };
        value.map(Value::Number)
    }

    /// `unroll(0..4)`, `pipelined(0..n)`
    pub(super) fn loop_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let problem = format!("`{}` stands in front of a loop's range", args.name);
        Err(Problem::new(problem).help(args.usage()))
    }
}
