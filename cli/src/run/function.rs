//! The function of an epilogue, in double precision.

use tilewright_codegen::Definition;
use tilewright_codegen::ast::{Binary, Expr, ExprKind, Pattern, Unary};
use tilewright_codegen::thread::Un;
use tilewright_codegen::typing::ONE;
use tilewright_codegen::values::arithmetic::un_double;

use super::product::key;

/// The function of each sum.
pub enum Function<'d> {
    /// The sum itself.
    Identity,
    /// A closure: its parameter and its body.
    Closure(&'d str, &'d Expr),
    /// A function of the language.
    Named(&'d str),
}

impl<'d> Function<'d> {
    /// The function among the keys of a product; `None` if it cannot be evaluated here.
    pub(super) fn of(definition: &'d Definition) -> Option<Function<'d>> {
        key(definition, "epilogue").map_or(Some(Function::Identity), Function::named)
    }

    /// The function that a key names or writes; `None` if it cannot be evaluated here.
    pub fn named(value: &'d ExprKind) -> Option<Function<'d>> {
        let function = match value {
            ExprKind::Name(name) => Function::Named(name),
            ExprKind::Closure { params, body } => match &params[..] {
                [Pattern::Name(name)] => Function::Closure(&name.text, body),
                _ => return None,
            },
            _ => return None,
        };
        function.at(0.5).map(|_| function)
    }

    /// Its value; `None` if it has none.
    pub fn at(&self, x: f64) -> Option<f64> {
        match self {
            Function::Identity => Some(x),
            Function::Closure(name, body) => value(body, name, x),
            Function::Named("relu") => Some(x.max(0.0)),
            Function::Named(name) => called(name, &[x]),
        }
    }
}

/// The value of a closure's body. Conditions are 1 or 0.
fn value(expr: &Expr, name: &str, x: f64) -> Option<f64> {
    let of = |expr: &Expr| value(expr, name, x);
    let truth = |is: bool| if is { 1.0 } else { 0.0 };
    Some(match &expr.kind {
        ExprKind::Int(n) => *n as f64,
        ExprKind::Float(n) => *n,
        ExprKind::Name(text) if text == name => x,
        ExprKind::Unary(Unary::Neg, inner) => -of(inner)?,
        ExprKind::Binary(op, left, right) => {
            let (a, b) = (of(left)?, of(right)?);
            match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Lt => truth(a < b),
                Binary::Le => truth(a <= b),
                Binary::Gt => truth(a > b),
                Binary::Ge => truth(a >= b),
                Binary::Eq => truth(a == b),
                Binary::Ne => truth(a != b),
                _ => return None,
            }
        }
        ExprKind::Call { function, args, .. } => {
            let args: Vec<f64> = args.iter().map(|arg| of(&arg.value)).collect::<Option<_>>()?;
            return called(&function.text, &args);
        }
        _ => return None,
    })
}

/// A function of the language.
fn called(name: &str, args: &[f64]) -> Option<f64> {
    Some(match (name, args) {
        ("max", [a, b]) => a.max(*b),
        ("min", [a, b]) => a.min(*b),
        ("gelu_tanh", [a]) => {
            let scale = (2.0 / std::f64::consts::PI).sqrt();
            0.5 * a * (1.0 + (scale * (a + 0.044715 * a * a * a)).tanh())
        }
        ("sigmoid", [a]) => 1.0 / (1.0 + (-a).exp()),
        ("silu", [a]) => a / (1.0 + (-a).exp()),
        ("fma", [a, b, c]) => a * b + c,
        ("select", [c, a, b]) => match *c != 0.0 {
            true => *a,
            false => *b,
        },
        // Fast functions have errors that no bound here has.
        (_, [a]) => {
            let known = ONE.iter().find(|(known, f)| *known == name && !matches!(f, Un::Fast(_)))?;
            un_double(known.1, *a)
        }
        _ => return None,
    })
}
