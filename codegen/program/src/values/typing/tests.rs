//! Types of expressions, and refusals.

use super::*;
use crate::values::expr::Scalar as Argument;
use Elem::{Bf16, F16, F32, F64, I8, I32, U8, U32};
use Expr::{In, Lit};

/// One input of each type, in this order.
const INS: [Elem; 11] = [F64, F32, F16, Bf16, I32, U32, I8, U8, Elem::Tf32, Elem::E4m3, Elem::E5m2];

fn of(elem: Elem) -> Expr {
    In(INS.iter().position(|known| *known == elem).unwrap_or(INS.len()) as u8)
}

fn two(f: Bin, x: Expr, y: Expr) -> Expr {
    Expr::Bin(f, Box::new(x), Box::new(y))
}

fn one_of(f: Un, x: Expr) -> Expr {
    Expr::Un(f, Box::new(x))
}

fn less(x: Expr, y: Expr) -> Expr {
    Expr::Cmp(Cmp::Lt, Box::new(x), Box::new(y))
}

fn select(c: Expr, x: Expr, y: Expr) -> Expr {
    Expr::Pick(Box::new([c, x, y]))
}

fn scalar(expr: &Expr) -> Result<Scalar> {
    let scalars = [Argument { name: "alpha".into(), elem: F32 }];
    Types { ins: &INS, scalars: &scalars }.scalar(expr)
}

#[track_caller]
fn check(expr: Expr, ty: impl Into<Option<Type>>) {
    let ty = ty.into();
    let made = scalar(&expr).unwrap_or_else(|problem| panic!("{problem:?}"));
    assert_eq!(made.ty, ty, "{expr:?}");
    // Inference is idempotent.
    assert_eq!(scalar(&made.expr).as_ref(), Ok(&made));
}

#[track_caller]
fn refuses(expr: Expr, message: &str, help: &str, arg: Option<usize>) {
    let problem = scalar(&expr).expect_err("it is wrong");
    assert_eq!((problem.message.as_str(), problem.help.as_deref()), (message, Some(help)));
    assert_eq!(problem.arg, arg);
}

#[test]
fn leaves_have_types_and_literals_none() {
    for elem in INS {
        check(of(elem), Type::Elem(elem));
    }
    check(Expr::Scalar(0), Type::Elem(F32));
    check(Expr::Coord(0, 1), Type::Elem(I32));
    check(Expr::lit(1), None);
    check(one_of(Un::Exp, Expr::lit(1.0)), None);
    assert!(scalar(&In(11)).is_err() && scalar(&Expr::Scalar(1)).is_err());
}

#[test]
fn operators_keep_types() {
    for elem in INS {
        let ty = Type::Elem(elem);
        for f in [Bin::Add, Bin::Sub, Bin::Mul, Bin::Div, Bin::Rem, Bin::Min, Bin::Max] {
            check(two(f, of(elem), of(elem)), ty);
            check(two(f, of(elem), Expr::lit(2)), ty);
            check(two(f, Expr::lit(2), of(elem)), ty);
        }
        check(less(of(elem), Expr::lit(1)), Type::Condition);
        check(select(less(of(elem), of(elem)), Expr::lit(0.0), of(elem)), ty);
        check(Expr::Fma(Box::new([Expr::lit(3), of(elem), of(elem)])), ty);
        check(of(elem).cast(F16), Type::Elem(F16));
    }
    check(two(Bin::And, less(of(F32), of(F32)), less(of(I8), of(I8))), Type::Condition);
    check(one_of(Un::Not, less(of(F32), of(F32))), Type::Condition);
    check(one_of(Un::Not, of(U8)), Type::Elem(U8));
    check(less(of(F32), of(F32)).cast(Bf16), Type::Elem(Bf16));
    // Literals alone meet a type late.
    check(two(Bin::Mul, of(I8), select(less(of(F32), of(F32)), Expr::lit(1), Expr::lit(-1))), Type::Elem(I8));
}

#[test]
fn mixtures_are_refused_with_both_types() {
    let sign = "`+` needs operands of one type, and these are";
    let mixed = |x, y, what: &str, [narrow, to]: [&str; 2]| {
        let help = format!("convert what is {narrow}: `… as {to}`");
        refuses(two(Bin::Add, of(x), of(y)), &format!("{sign} {what}"), &help, None);
    };
    mixed(I32, F32, "i32 and f32", ["i32", "f32"]);
    mixed(Bf16, F16, "bf16 and f16", ["bf16 and what is f16", "f32"]);
    mixed(I8, U8, "i8 and u8", ["i8 and what is u8", "i32"]);
    mixed(F32, F64, "f32 and f64", ["f32", "f64"]);
    mixed(F16, U32, "f16 and u32", ["u32", "f16"]);
    mixed(Elem::Tf32, F32, "tf32 and f32", ["tf32", "f32"]);
    mixed(Elem::E4m3, Elem::E5m2, "e4m3 and e5m2", ["e4m3 and what is e5m2", "f32"]);
    refuses(
        less(of(I32), of(U32)),
        "`<` needs operands of one type, and these are i32 and u32",
        "convert what is u32: `… as i32`",
        None,
    );
    refuses(
        select(less(of(I32), of(I32)), of(F32), of(I32)),
        "`select` needs operands of one type, and these are f32 and i32",
        "convert what is i32: `… as f32`",
        None,
    );
    refuses(
        two(Bin::Mul, of(F32), less(of(F32), of(F32))),
        "`*` needs operands of one type, and these are f32 and a condition",
        "make a number of the condition, such as `(x < y) as f32`",
        None,
    );
    refuses(
        two(Bin::And, less(of(F32), of(F32)), Expr::lit(1)),
        "`&` needs operands of one type, and these are a condition and a number",
        "compare the number with another",
        None,
    );
}

#[test]
fn literals_must_be_numbers_of_their_type() {
    refuses(
        two(Bin::Add, of(I32), Expr::lit(3_000_000_000i64)),
        "3000000000 is out of range for i32: -2147483648 to 2147483647",
        "write a number in that range, or convert to a wider type, such as `x as i64`",
        Some(1),
    );
    refuses(
        two(Bin::Max, Expr::lit(-1), of(U32)),
        "-1 is out of range for u32: 0 to 4294967295",
        "write a number in that range, or convert to a wider type, such as `x as i64`",
        Some(0),
    );
    refuses(
        two(Bin::Add, of(I32), Expr::lit(1.5)),
        "1.5 is not an integer, and i32 is needed here",
        "write an integer, or convert to a floating-point type, such as `x as f32`",
        Some(1),
    );
    refuses(
        select(less(of(F32), of(F32)), of(U8), Expr::lit(256)),
        "256 is out of range for u8: 0 to 255",
        "write a number in that range, or convert to a wider type, such as `x as i64`",
        Some(2),
    );
    let negated = one_of(Un::Neg, Expr::lit(1i64 << 31));
    check(two(Bin::Add, of(I32), negated), Type::Elem(I32));
    assert_eq!(scalar(&Expr::lit(2.9).cast(I32)), scalar(&Expr::lit(2).cast(I32)));
    assert!(scalar(&Expr::lit(300).cast(U8)).is_err());
}

#[test]
fn types_refuse_what_they_cannot_do() {
    for elem in [I32, U32, I8, U8] {
        refuses(
            one_of(Un::Exp, of(elem)),
            &format!("`exp` works on floating-point numbers, and this is {elem}"),
            "convert it first, such as `exp(x as f32)`",
            None,
        );
    }
    refuses(
        one_of(Un::Neg, of(U32)),
        "`-` works on numbers with a sign, and this is u32",
        "convert it first, such as `-(x as i32)`",
        None,
    );
    refuses(
        two(Bin::Shl, of(F32), Expr::lit(1)),
        "`<<` works on integers, and these are f32",
        "multiply by a power of two, or convert them",
        None,
    );
    refuses(
        two(Bin::Shr, of(I8), Expr::lit(8)),
        "a shift by 8 removes all bits of i8, which has 8",
        "shift by 0 to 7",
        Some(1),
    );
    refuses(
        two(Bin::Rem, of(U32), Expr::lit(0)),
        "this divides by 0",
        "integers have no infinity; divide by another number",
        Some(1),
    );
    check(two(Bin::Div, of(F32), Lit(Number::Int(0))), Type::Elem(F32));
}

#[test]
fn values_match_the_type_of_their_target() {
    let types = Types { ins: &INS, scalars: &[] };
    assert_eq!(types.typed(&Expr::lit(0.0), I32), Ok(Expr::lit(0).cast(I32)));
    assert_eq!(types.typed(&of(F16), F16), Ok(of(F16)));
    assert_eq!(types.typed(&of(F16), F32).unwrap_err().message, "f32 is needed here, and this is f16");
    let condition = less(of(F16), of(F16));
    assert_eq!(
        types.typed(&condition, I8).unwrap_err().message,
        "i8 is needed here, and this is a condition"
    );
    assert_eq!(types.condition(&condition), Ok(condition));
    assert_eq!(types.condition(&of(F16)), Ok(of(F16)));
}
