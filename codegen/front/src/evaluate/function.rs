//! Math functions by their names: functions that a device has, and compositions of them.

use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Un};
use crate::values::elem::Elem;
use crate::values::typing::{self, ONE, Scalar, TWO, Type};

/// The kinds of functions of numbers.
pub(super) enum Kind {
    One(Un),
    Two(Bin),
    /// Composed of others.
    Made(fn(Scalar) -> Result<Scalar>),
}

/// The function of a name in the list of functions.
pub(super) fn of(name: &str) -> Kind {
    let one = ONE.iter().find(|(known, _)| *known == name).map(|(_, f)| Kind::One(*f));
    let two = || TWO.iter().find(|(known, _)| *known == name).map(|(_, f)| Kind::Two(*f));
    one.or_else(two).unwrap_or(match name {
        "sigmoid" => Kind::Made(sigmoid),
        "silu" => Kind::Made(silu),
        "gelu_tanh" => Kind::Made(gelu_tanh),
        _ => Kind::Two(Bin::Rem),
    })
}

/// A composed function: narrow numbers are widened first, and the result is rounded once.
pub(super) fn wide(name: &str, x: Scalar, make: fn(Scalar) -> Result<Scalar>) -> Result<Scalar> {
    match x.ty {
        Some(Type::Elem(elem @ (Elem::F16 | Elem::Bf16))) => {
            typing::cast(elem, make(typing::cast(Elem::F32, x)?)?)
        }
        Some(Type::Elem(elem)) if !elem.is_float() => {
            Err(Problem::new(format!("`{name}` works on floating-point numbers, and this is {elem}"))
                .help(format!("convert it first, such as `{name}(x as f32)`")))
        }
        _ => make(x),
    }
}

fn lit(x: f64) -> Scalar {
    Scalar::literal(x)
}

/// 1 + exp(-x)
fn one_and_decay(x: Scalar) -> Result<Scalar> {
    typing::bin(Bin::Add, lit(1.0), typing::un(Un::Exp, typing::un(Un::Neg, x)?)?)
}

/// 1 / (1 + exp(-x))
fn sigmoid(x: Scalar) -> Result<Scalar> {
    typing::bin(Bin::Div, lit(1.0), one_and_decay(x)?)
}

/// x / (1 + exp(-x))
fn silu(x: Scalar) -> Result<Scalar> {
    typing::bin(Bin::Div, x.clone(), one_and_decay(x)?)
}

/// x / 2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
fn gelu_tanh(x: Scalar) -> Result<Scalar> {
    let scale = (2.0 * std::f64::consts::FRAC_1_PI).sqrt();
    let square = typing::bin(Bin::Mul, x.clone(), x.clone())?;
    let factor = typing::fma(square, lit(0.044715 * scale), lit(scale))?;
    let inner = typing::bin(Bin::Mul, x.clone(), factor)?;
    let half = typing::bin(Bin::Mul, lit(0.5), x)?;
    typing::fma(half.clone(), typing::un(Un::Tanh, inner)?, half)
}
