//! Type inference of scalar expressions: every node has a type when a tile program is built, and lowering
//! guesses none.
//!
//! The rules are Rust's. Operands have one type, and only `as` converts; a comparison gives a condition;
//! a literal takes the type of its context and must be one of its numbers ([`Number::check`]).
//! Expressions of literals alone are untyped until they meet a typed one.

use std::fmt;

use crate::source::problem::{Problem, Result};
use crate::values::elem::Elem;
use crate::values::expr::{self, Expr};
use crate::values::limits;
use crate::values::number::{Number, range};
use crate::values::operation::{Bin, Cmp, Fast, Un};

/// The type of a scalar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// A number.
    Elem(Elem),
    /// True or false.
    Condition,
}

impl Type {
    /// The type of a number.
    pub fn elem(self) -> Option<Elem> {
        match self {
            Type::Elem(elem) => Some(elem),
            Type::Condition => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Elem(elem) => elem.fmt(f),
            Type::Condition => f.write_str("a condition"),
        }
    }
}

/// A typed expression: every literal in it is converted to its own type, unless the whole is made of literals
/// and untyped.
#[derive(Clone, PartialEq, Debug)]
pub struct Scalar {
    /// The expression.
    pub expr: Expr,
    /// Its type; `None` if it is made of literals alone.
    pub ty: Option<Type>,
}

/// The types of an expression's leaves.
#[derive(Clone, Copy, Debug)]
pub struct Types<'t> {
    /// The type of each input.
    pub ins: &'t [Elem],
    /// The scalar arguments of the program.
    pub scalars: &'t [expr::Scalar],
}

impl Types<'_> {
    /// Infers the type of an expression; refuses mixed types and unsupported operations.
    ///
    /// ```
    /// use tilewright_program::thread::Bin;
    /// use tilewright_program::typing::{Type, Types};
    /// use tilewright_program::{Elem, values::expr::Expr};
    /// let types = Types { ins: &[Elem::I32, Elem::F32], scalars: &[] };
    /// let add = |x, y| Expr::Bin(Bin::Add, Box::new(x), Box::new(y));
    /// let scalar = types.scalar(&add(Expr::In(1), Expr::lit(1))).unwrap();
    /// assert_eq!(scalar.ty, Some(Type::Elem(Elem::F32)));
    /// let mixed = types.scalar(&add(Expr::In(0), Expr::In(1))).unwrap_err();
    /// assert_eq!(mixed.message, "`+` needs operands of one type, and these are i32 and f32");
    /// ```
    pub fn scalar(&self, of: &Expr) -> Result<Scalar> {
        limits::with_room_for(of, || self.inside(of))
    }

    fn inside(&self, of: &Expr) -> Result<Scalar> {
        let unknown = |what: &str| Problem::new(format!("this expression reads {what} that there is not"));
        let leaf = |elem: Elem| Ok(Scalar::of(of.clone(), elem));
        match of {
            Expr::In(n) => match self.ins.get(usize::from(*n)) {
                Some(elem) => leaf(*elem),
                None => Err(unknown("an input")),
            },
            Expr::Coord(n, _) => match self.ins.get(usize::from(*n)) {
                Some(_) => leaf(Elem::I32),
                None => Err(unknown("a coordinate of an input")),
            },
            Expr::Size(_) | Expr::At(_) => leaf(Elem::I32),
            Expr::Scalar(id) => match self.scalars.get(*id as usize) {
                Some(scalar) => leaf(scalar.elem),
                None => Err(unknown("a scalar argument")),
            },
            Expr::Index(_) => leaf(Elem::I32),
            Expr::Lit(number) => Ok(Scalar::literal(*number)),
            Expr::Un(f, x) => un(*f, self.inside(x)?),
            Expr::Bin(f, x, y) => bin(*f, self.inside(x)?, self.inside(y)?),
            Expr::Cmp(f, x, y) => cmp(*f, self.inside(x)?, self.inside(y)?),
            Expr::Fma(of) => fma(self.inside(&of[0])?, self.inside(&of[1])?, self.inside(&of[2])?),
            Expr::Pick(of) => pick(self.inside(&of[0])?, self.inside(&of[1])?, self.inside(&of[2])?),
            Expr::Cast(to, x) => cast(*to, self.inside(x)?),
            Expr::Bits(to, x) => bits(*to, self.inside(x)?),
            Expr::Ptx { text, elem, volatile, args, model } => {
                let args = args.iter().map(|x| self.inside(x)).collect::<Result<_>>()?;
                let model = model.as_deref().map(|model| self.inside(model)).transpose()?;
                ptx(text, *elem, *volatile, args, model)
            }
        }
    }

    /// The expression as a number of a type, with every literal typed.
    pub fn typed(&self, of: &Expr, to: Elem) -> Result<Expr> {
        limits::with_room_for(of, || self.inside(of)?.into_elem(to))
    }

    /// The expression as a condition.
    pub fn condition(&self, of: &Expr) -> Result<Expr> {
        limits::with_room_for(of, || self.inside(of)?.settled())
    }
}

impl Scalar {
    /// An expression of an element type. One of `bool` is a condition.
    pub fn new(expr: Expr, elem: Elem) -> Scalar {
        match expr {
            expr if elem != Elem::Bool => Scalar::of(expr, elem),
            Expr::Cast(Elem::Bool, of) if !matches!(*of, Expr::Lit(_)) => {
                Scalar { expr: *of, ty: Some(Type::Condition) }
            }
            expr => {
                let none = Expr::lit(0).cast(Elem::Bool);
                Scalar { expr: Expr::Cmp(Cmp::Ne, Box::new(expr), Box::new(none)), ty: Some(Type::Condition) }
            }
        }
    }

    /// An expression of an element type; a `bool` is in the form in which it is stored.
    fn of(expr: Expr, elem: Elem) -> Scalar {
        Scalar { expr, ty: Some(Type::Elem(elem)) }
    }

    /// A literal.
    pub fn literal(number: impl Into<Number>) -> Scalar {
        Scalar { expr: Expr::Lit(number.into()), ty: None }
    }

    /// A literal that names its type, such as `i32::MAX`: like any literal it takes the type of its context, or its own type
    /// if the context has none.
    pub fn named(number: impl Into<Number>, elem: Elem) -> Scalar {
        Scalar { expr: Expr::Lit(number.into()).cast(elem), ty: None }
    }

    /// Its type, or the one that a literal in it names; `None` if literals name none.
    pub fn own_type(&self) -> Option<Type> {
        self.ty.or_else(|| named_type(&self.expr).map(Type::Elem))
    }

    /// As a number of a type, without a conversion.
    pub fn into_elem(self, to: Elem) -> Result<Expr> {
        match self.ty {
            None => settle(self.expr, to),
            Some(Type::Elem(elem)) if elem == to => Ok(self.expr),
            Some(Type::Condition) if to == Elem::Bool => Ok(match self.expr {
                // `true` and `false`
                Expr::Cmp(Cmp::Ne, known, _) if matches!(&*known, Expr::Cast(Elem::Bool, x) if matches!(**x, Expr::Lit(_))) => {
                    *known
                }
                condition => condition.cast(to),
            }),
            Some(Type::Elem(elem)) if to == Elem::Bool => {
                Err(Problem::new(format!("a condition is needed here, and this is {elem}"))
                    .help("compare it, such as `x != 0`"))
            }
            Some(Type::Elem(elem)) => Err(Problem::new(format!("{to} is needed here, and this is {elem}"))
                .help(format!("convert it with `as {to}`"))),
            Some(Type::Condition) => {
                Err(Problem::new(format!("{to} is needed here, and this is a condition"))
                    .help(format!("write `select(condition, 1, 0)`, or `as {to}`, which makes 1 or 0 of it")))
            }
        }
    }

    /// Defaults the type: expressions of literals alone are of the type that one of them names, or `f32`.
    fn settled(self) -> Result<Expr> {
        match self.ty {
            None => {
                let elem = named_type(&self.expr).unwrap_or(Elem::F32);
                settle(self.expr, elem)
            }
            Some(_) => Ok(self.expr),
        }
    }

    /// The literal that it is, with or without a type.
    pub fn literal_number(&self) -> Option<Number> {
        match &self.expr {
            Expr::Lit(number) => Some(*number),
            Expr::Cast(_, inner) => match **inner {
                Expr::Lit(number) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Unifies the types of operands; literals take the others' type. The sign is what the user wrote, for
/// messages; an error in a literal blames its operand.
pub fn agree<const N: usize>(sign: &str, mut operands: [Scalar; N]) -> Result<([Scalar; N], Option<Type>)> {
    let Some(ty) = operands.iter().find_map(|operand| operand.ty) else { return Ok((operands, None)) };
    if let Some(other) = operands.iter().filter_map(|operand| operand.ty).find(|other| *other != ty) {
        let operands = if sign == "if" { "branches" } else { "operands" };
        let problem =
            Problem::new(format!("`{sign}` needs {operands} of one type, and these are {ty} and {other}"));
        return Err(problem.help(match (ty, other) {
            (Type::Elem(x), Type::Elem(y)) => {
                let to = wider(x, y);
                let narrow: Vec<_> = [x, y].into_iter().filter(|elem| *elem != to).map(Elem::name).collect();
                format!("convert what is {}: `… as {to}`", narrow.join(" and what is "))
            }
            (Type::Elem(elem), _) | (_, Type::Elem(elem)) => {
                format!("make a number of the condition, such as `(x < y) as {elem}`")
            }
            _ => String::new(),
        }));
    }
    for (index, operand) in operands.iter_mut().enumerate().filter(|(_, operand)| operand.ty.is_none()) {
        let Type::Elem(elem) = ty else {
            return Err(Problem::new(format!(
                "`{sign}` needs operands of one type, and these are a condition and a number"
            ))
            .help("compare the number with another"));
        };
        let settled = settle(operand.expr.clone(), elem).map_err(|problem| problem.arg(index))?;
        *operand = Scalar::of(settled, elem);
    }
    Ok((operands, Some(ty)))
}

/// The type that the first such literal of an untyped expression names.
fn named_type(untyped: &Expr) -> Option<Elem> {
    match untyped {
        Expr::Cast(elem, _) => Some(*elem),
        Expr::Pick(of) => of[1..].iter().find_map(named_type),
        other => other.parts().into_iter().find_map(named_type),
    }
}

/// The suggested common type of two.
fn wider(x: Elem, y: Elem) -> Elem {
    match (x.is_float(), y.is_float()) {
        (true, false) => x,
        (false, true) => y,
        _ if x.bits() == y.bits() && x.bits() < 32 => x.accumulator(),
        _ if x == Elem::Tf32 => y,
        _ if x.bits() >= y.bits() => x,
        _ => y,
    }
}

/// Types literals, and expressions of literals alone.
fn settle(expr: Expr, elem: Elem) -> Result<Expr> {
    let inner = |x: Expr| settle(x, elem);
    Ok(match expr {
        // In an untyped expression only literals that name their types are conversions.
        Expr::Cast(_, literal) if matches!(*literal, Expr::Lit(_)) => inner(*literal)?,
        Expr::Lit(number) => {
            number.check(elem)?;
            let exact = if elem.is_float() { None } else { number.int() };
            Expr::Lit(exact.map_or(number, Number::Int)).cast(elem)
        }
        Expr::Un(f, x) => {
            can_one(f, Type::Elem(elem))?;
            Expr::Un(f, Box::new(inner(*x)?))
        }
        Expr::Bin(f, x, y) => {
            let y = Scalar::of(inner(*y)?, elem);
            can_two(f, Type::Elem(elem), &y)?;
            Expr::Bin(f, Box::new(inner(*x)?), Box::new(y.expr))
        }
        Expr::Fma(of) => {
            let [x, y, z] = *of;
            Expr::Fma(Box::new([inner(x)?, inner(y)?, inner(z)?]))
        }
        Expr::Pick(of) => {
            let [condition, x, y] = *of;
            Expr::Pick(Box::new([condition, inner(x)?, inner(y)?]))
        }
        typed => typed,
    })
}

/// A function of one value.
pub fn un(f: Un, x: Scalar) -> Result<Scalar> {
    if let (Un::Neg, Expr::Lit(number), None) = (f, &x.expr, x.ty) {
        return Ok(Scalar::literal(match number {
            Number::Int(n) => Number::Int(n.wrapping_neg()),
            Number::Float(x) => Number::Float(-x),
        }));
    }
    if let Some(ty) = x.ty {
        can_one(f, ty)?;
    }
    Ok(Scalar { expr: Expr::Un(f, Box::new(x.expr)), ty: x.ty })
}

/// A function of two values of one type.
pub fn bin(f: Bin, x: Scalar, y: Scalar) -> Result<Scalar> {
    let ([x, y], ty) = agree(pair(f), [x, y])?;
    if let Some(ty) = ty {
        can_two(f, ty, &y)?;
    }
    Ok(Scalar { expr: Expr::Bin(f, Box::new(x.expr), Box::new(y.expr)), ty })
}

/// A comparison of two values of one type.
pub fn cmp(how: Cmp, x: Scalar, y: Scalar) -> Result<Scalar> {
    let sign = match how {
        Cmp::Lt => "<",
        Cmp::Le => "<=",
        Cmp::Eq => "==",
        Cmp::Ne => "!=",
    };
    let ([x, y], ty) = agree(sign, [x, y])?;
    if ty == Some(Type::Condition) && matches!(how, Cmp::Lt | Cmp::Le) {
        return Err(Problem::new(format!("`{sign}` compares numbers, and these are conditions"))
            .help("write `==` or `!=`"));
    }
    let [x, y] = match x.own_type().or(y.own_type()) {
        Some(Type::Elem(elem)) if ty.is_none() => [x.into_elem(elem)?, y.into_elem(elem)?],
        _ => [x.settled()?, y.settled()?],
    };
    Ok(Scalar { expr: Expr::Cmp(how, Box::new(x), Box::new(y)), ty: Some(Type::Condition) })
}

/// `x * y + z`, rounded once.
pub fn fma(x: Scalar, y: Scalar, z: Scalar) -> Result<Scalar> {
    let (all, ty) = agree("fma", [x, y, z])?;
    if ty == Some(Type::Condition) {
        return Err(Problem::new("`fma` works on numbers, and these are conditions").help(AS_NUMBERS));
    }
    Ok(Scalar { expr: Expr::Fma(Box::new(all.map(|x| x.expr))), ty })
}

/// Instructions of PTX with these operands, and their model.
pub fn ptx(
    text: &str,
    elem: Elem,
    volatile: bool,
    args: Vec<Scalar>,
    model: Option<Scalar>,
) -> Result<Scalar> {
    for (n, arg) in args.iter().enumerate() {
        let problem = match arg.own_type() {
            Some(Type::Elem(own)) if own.ptx().is_some() => continue,
            Some(ty) => format!("an operand of PTX has 4 or 8 bytes, and this is {ty}"),
            None => "an operand of PTX has a type, and this is a literal".to_owned(),
        };
        let help =
            "convert it, `x as f32` or `x as u32`; write literals with their types, `1u32`, or in the text";
        return Err(Problem::new(problem).help(help).arg(n + 1));
    }
    if elem.ptx().is_none() {
        let problem = format!("a result of PTX has 4 or 8 bytes, and this is {elem}");
        return Err(Problem::new(problem).help("write asm::<f32>(…), f64, i32, u32, i64 or u64"));
    }
    let model = model.map(|model| model.into_elem(elem)).transpose()?.map(Box::new);
    let args = args.into_iter().map(|arg| arg.expr).collect();
    Ok(Scalar::of(Expr::Ptx { text: text.to_owned(), elem, volatile, args, model }, elem))
}

/// Select: where the first is true the second, elsewhere the third.
pub fn pick(condition: Scalar, x: Scalar, y: Scalar) -> Result<Scalar> {
    let ([x, y], ty) = agree("select", [x, y]).map_err(|problem| match problem.arg {
        Some(arg) => problem.arg(arg + 1),
        None => problem,
    })?;
    Ok(Scalar { expr: Expr::Pick(Box::new([condition.settled()?, x.expr, y.expr])), ty })
}

/// A conversion, as Rust's `as`.
pub fn cast(to: Elem, x: Scalar) -> Result<Scalar> {
    let expr = match (x.ty, &x.expr) {
        (Some(_), _) => x.expr.cast(to),
        // The target of a literal's conversion is its type. A fraction is truncated, as it is at run time.
        (None, Expr::Lit(Number::Float(n))) if !to.is_float() => {
            let (least, most) = range(to);
            Expr::Lit(Number::Int((*n as i128).clamp(least, most))).cast(to)
        }
        (None, Expr::Lit(_)) => settle(x.expr, to)?,
        (None, Expr::Cast(..)) => x.expr.cast(to),
        // Arithmetic on literals has the type that one of them names. A double has no integer of more than 53 bits exactly.
        (None, of) => {
            let whole = !of.any(&|part| matches!(part, Expr::Lit(Number::Float(_))));
            let other = || match () {
                () if to.is_float() => to,
                () if whole => Elem::I64,
                () => Elem::F64,
            };
            let own = named_type(of).unwrap_or_else(other);
            settle(x.expr, own)?.cast(to)
        }
    };
    Ok(Scalar::of(expr, to))
}

const AS_NUMBERS: &str = "make a number of a condition, such as `(x < y) as f32`, which is 1 or 0";

/// The bits of a number of 4 or 8 bytes, as another type of as many.
pub fn bits(to: Elem, x: Scalar) -> Result<Scalar> {
    let problem = match x.ty {
        Some(Type::Elem(from)) if from.bits() >= 32 && from.bits() == to.bits() => {
            return Ok(Scalar::of(Expr::Bits(to, Box::new(x.expr)), to));
        }
        Some(ty) => format!("`bits` reads a number of {} bytes as {to}, and this is {ty}", to.bytes().max(4)),
        None => "`bits` needs a number with a type, and this is a literal".to_owned(),
    };
    Err(Problem::new(problem).help(
        "the types of 4 bytes are f32, i32 and u32, those of 8 bytes f64, i64 and u64: bits::<u32>(x as f32)",
    ))
}

/// Functions of one value, by their names in the language.
pub const ONE: [(&str, Un); 30] = [
    ("-", Un::Neg),
    ("!", Un::Not),
    ("abs", Un::Abs),
    ("exp", Un::Exp),
    ("exp2", Un::Exp2),
    ("log", Un::Log),
    ("log2", Un::Log2),
    ("recip", Un::Recip),
    ("sqrt", Un::Sqrt),
    ("rsqrt", Un::Rsqrt),
    ("tanh", Un::Tanh),
    ("sin", Un::Sin),
    ("cos", Un::Cos),
    ("erf", Un::Erf),
    ("gelu", Un::Gelu),
    ("floor", Un::Floor),
    ("ceil", Un::Ceil),
    ("trunc", Un::Trunc),
    ("round", Un::Round),
    ("round_ties_even", Un::RoundEven),
    ("count_ones", Un::CountOnes),
    ("leading_zeros", Un::LeadingZeros),
    ("fast_exp", Un::Fast(Fast::Exp)),
    ("fast_log", Un::Fast(Fast::Log)),
    ("fast_log2", Un::Fast(Fast::Log2)),
    ("fast_sqrt", Un::Fast(Fast::Sqrt)),
    ("fast_rsqrt", Un::Fast(Fast::Rsqrt)),
    ("fast_tanh", Un::Fast(Fast::Tanh)),
    ("fast_sin", Un::Fast(Fast::Sin)),
    ("fast_cos", Un::Fast(Fast::Cos)),
];

/// Functions of two values, by their names in the language.
pub const TWO: [(&str, Bin); 16] = [
    ("+", Bin::Add),
    ("-", Bin::Sub),
    ("*", Bin::Mul),
    ("/", Bin::Div),
    ("%", Bin::Rem),
    ("min", Bin::Min),
    ("max", Bin::Max),
    ("&", Bin::And),
    ("|", Bin::Or),
    ("^", Bin::Xor),
    ("<<", Bin::Shl),
    (">>", Bin::Shr),
    ("pow", Bin::Pow),
    ("copysign", Bin::CopySign),
    ("mul_high", Bin::MulHigh),
    ("fast_div", Bin::FastDiv),
];

/// The user's name of a function of two values.
fn pair(f: Bin) -> &'static str {
    TWO.iter().find(|(_, of)| *of == f).map_or("", |(name, _)| name)
}

/// The user's name of a function of one value.
fn one(f: Un) -> &'static str {
    ONE.iter().find(|(_, of)| *of == f).map_or("", |(name, _)| name)
}

/// Refuses a function of one value that a type does not have.
fn can_one(f: Un, ty: Type) -> Result<()> {
    let name = one(f);
    let (works_on, help) = match (f, ty) {
        (Un::Not, Type::Condition) | (Un::Abs, Type::Elem(_)) => return Ok(()),
        (Un::Not, Type::Elem(elem)) if !elem.is_float() => return Ok(()),
        (Un::Neg, Type::Elem(elem)) if elem.is_float() || elem.is_signed() => return Ok(()),
        (Un::Not, _) => ("integers and conditions", "compare the number with 0, such as `x == 0`".to_owned()),
        (Un::Neg, Type::Elem(_)) => {
            ("numbers with a sign", "convert it first, such as `-(x as i32)`".to_owned())
        }
        (_, Type::Condition) => ("numbers", AS_NUMBERS.to_owned()),
        (Un::CountOnes | Un::LeadingZeros, Type::Elem(elem)) => match elem.is_float() {
            false => return Ok(()),
            true => (
                "integers",
                format!("convert it first, such as `{name}(x as i32)`, or take `bits::<u32>(x)`"),
            ),
        },
        (_, Type::Elem(elem)) if elem.is_float() => return Ok(()),
        (..) => ("floating-point numbers", format!("convert it first, such as `{name}(x as f32)`")),
    };
    Err(Problem::new(format!("`{name}` works on {works_on}, and this is {ty}")).help(help))
}

/// Refuses a function of two values that a type does not have, or not with this literal on the right.
fn can_two(f: Bin, ty: Type, right: &Scalar) -> Result<()> {
    let name = pair(f);
    let refuse = |works_on: &str, these: &str, help: &str| {
        Err(Problem::new(format!("`{name}` works on {works_on}, and these are {these}")).help(help))
    };
    let bits = matches!(f, Bin::And | Bin::Or | Bin::Xor);
    let shift = matches!(f, Bin::Shl | Bin::Shr);
    let elem = match ty {
        Type::Elem(elem) if f == Bin::MulHigh && elem.is_word() => return Ok(()),
        Type::Elem(elem) if f == Bin::MulHigh => {
            return refuse("i32, u32, i64 and u64", elem.name(), "convert them first, such as `x as u32`");
        }
        Type::Condition if bits => return Ok(()),
        Type::Condition => return refuse("numbers", "conditions", AS_NUMBERS),
        Type::Elem(elem) => elem,
    };
    if elem.is_float() {
        return match () {
            () if bits => refuse("integers and conditions", elem.name(), "convert them, such as `x as i32`"),
            () if shift => refuse("integers", elem.name(), "multiply by a power of two, or convert them"),
            () => Ok(()),
        };
    }
    if matches!(f, Bin::Pow | Bin::CopySign | Bin::FastDiv) {
        return refuse("floating-point numbers", elem.name(), "convert them first, such as `x as f32`");
    }
    let width = i128::from(elem.bits());
    match right.literal_number().and_then(Number::int) {
        Some(0) if matches!(f, Bin::Div | Bin::Rem) => Err(Problem::new("this divides by 0")
            .help("integers have no infinity; divide by another number")
            .arg(1)),
        Some(by) if shift && !(0..width).contains(&by) => {
            Err(Problem::new(format!("a shift by {by} removes all bits of {elem}, which has {width}"))
                .help(format!("shift by 0 to {}", width - 1))
                .arg(1))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
