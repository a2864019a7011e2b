//! Random expressions of random types: the simulator agrees with a plain evaluator, with two's complement
//! integers and one rounding for each operation.

use proptest::prelude::*;
use tilewright_codegen::affine::Coord;
use tilewright_codegen::build::Builder;
use tilewright_codegen::element::{bf16, f16};
use tilewright_codegen::number::Number;
use tilewright_codegen::thread::{Bin, Cmp, Un};
use tilewright_codegen::tile::Expr;
use tilewright_codegen::view::At;
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Value as Size, layout};
use tilewright_sim::{Arg, Options, run};

const TYPES: [Elem; 8] =
    [Elem::F64, Elem::F32, Elem::F16, Elem::Bf16, Elem::I32, Elem::U32, Elem::I8, Elem::U8];

/// Elements of each input.
const COUNT: usize = 40;

/// A number of some type: an integer, or a double that the type represents.
#[derive(Clone, Copy, Debug)]
enum Plain {
    Int(i128),
    Float(f64),
}

/// Converts a number to a type: integers wrap, others are rounded to nearest.
fn represented(x: Plain, elem: Elem) -> Plain {
    match (x, elem) {
        (Plain::Int(n), Elem::I32) => Plain::Int((n as i32).into()),
        (Plain::Int(n), Elem::U32) => Plain::Int((n as u32).into()),
        (Plain::Int(n), Elem::I8) => Plain::Int((n as i8).into()),
        (Plain::Int(n), Elem::U8) => Plain::Int((n as u8).into()),
        // Integers of 32 bits are exact in a double.
        (Plain::Int(n), _) => represented(Plain::Float(n as f64), elem),
        (Plain::Float(x), Elem::F64) => Plain::Float(x),
        (Plain::Float(x), Elem::F32) => Plain::Float((x as f32).into()),
        (Plain::Float(x), Elem::F16) => Plain::Float(narrow(x, 11, -14, 65504.0)),
        (Plain::Float(x), Elem::Bf16) => {
            Plain::Float(narrow(x, 8, -126, f64::from(bf16::from_bits(0x7f7f).to_f32())))
        }
        // As Rust converts.
        (Plain::Float(x), Elem::I32) => Plain::Int((x as i32).into()),
        (Plain::Float(x), Elem::U32) => Plain::Int((x as u32).into()),
        (Plain::Float(x), Elem::I8) => Plain::Int((x as i8).into()),
        (Plain::Float(x), _) => Plain::Int((x as u8).into()),
    }
}

/// To nearest, ties to even, with this number of binary digits and this least exponent.
fn narrow(x: f64, digits: i32, least: i32, most: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = ((x.abs().to_bits() >> 52) as i32 - 1023).max(least);
    let step = 2f64.powi(exponent - digits + 1);
    let rounded = (x / step).round_ties_even() * step;
    let rounded = if rounded == 0.0 { 0.0f64.copysign(x) } else { rounded };
    if rounded.abs() > most { f64::INFINITY.copysign(x) } else { rounded }
}

/// The result of an operation: narrow floating-point types compute in `f32`.
fn computed(x: Plain, elem: Elem) -> Plain {
    match elem {
        Elem::F16 | Elem::Bf16 => represented(represented(x, Elem::F32), elem),
        _ => represented(x, elem),
    }
}

fn truth(flag: bool) -> Plain {
    Plain::Int(flag.into())
}

fn apply(f: Bin, x: Plain, y: Plain, elem: Elem) -> Plain {
    let zeros = |x: f64, y: f64, negative: bool| if x.is_sign_negative() == negative { x } else { y };
    let made = match (x, y) {
        (Plain::Float(x), Plain::Float(y)) => Plain::Float(match f {
            Bin::Add => x + y,
            Bin::Sub => x - y,
            Bin::Mul => x * y,
            Bin::Div => x / y,
            Bin::Rem => x % y,
            Bin::Min if x == y => zeros(x, y, true),
            Bin::Max if x == y => zeros(x, y, false),
            Bin::Min => x.min(y),
            _ => x.max(y),
        }),
        (Plain::Int(x), Plain::Int(y)) => Plain::Int(match f {
            Bin::Add => x + y,
            Bin::Sub => x - y,
            Bin::Mul => x * y,
            Bin::Div => x / y,
            Bin::Rem => x % y,
            Bin::Min => x.min(y),
            Bin::Max => x.max(y),
            Bin::And => x & y,
            Bin::Or => x | y,
            Bin::Xor => x ^ y,
            Bin::Shl => x << y,
            Bin::Shr => x >> y,
            Bin::MulHigh => (x * y) >> 32,
            Bin::Pow | Bin::CopySign | Bin::FastDiv => unreachable!("no integer has these"),
        }),
        other => panic!("{other:?}"),
    };
    computed(made, elem)
}

/// An expression of the language, as an AST and as an evaluator.
#[derive(Clone, Debug)]
struct Case {
    expr: Expr,
    value: Evaluator,
}

/// The value of an expression for these input values.
type Evaluate = dyn Fn(&[Plain]) -> Plain;

#[derive(Clone)]
struct Evaluator(std::rc::Rc<Evaluate>);

impl std::fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Evaluator {
    fn new(of: impl Fn(&[Plain]) -> Plain + 'static) -> Evaluator {
        Evaluator(std::rc::Rc::new(of))
    }
}

/// The source of random choices: bytes, read one after another.
struct Draw<'b> {
    bytes: &'b [u8],
}

impl Draw<'_> {
    fn below(&mut self, n: usize) -> usize {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        usize::from(*first) % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// A number of a type, as a literal.
    fn literal(&mut self, elem: Elem) -> Number {
        let small = self.below(256) as i64;
        let number = match (elem, self.below(4)) {
            (Elem::I32, 0) => Number::from(i64::from(i32::MIN) + small),
            (Elem::U32, 0) => Number::from(i64::from(u32::MAX) - small),
            (Elem::I8, _) => Number::from(small - 128),
            (Elem::U8 | Elem::U32, _) => Number::from(small),
            (Elem::I32, _) => Number::from((small - 128) * 1_000_003),
            (_, 0) => Number::from(small * 255 - 30_000),
            (_, 1) => Number::from(-0.0),
            _ => Number::from((small - 100) as f64 / 7.0),
        };
        assert_eq!(number.check(elem), Ok(()), "{number} in {elem}");
        number
    }

    fn number(&mut self, elem: Elem, depth: u32) -> Case {
        let case = |expr, value| Case { expr, value };
        let (kinds, float) = (if depth == 0 { 2 } else { 8 }, elem.is_float());
        match self.below(kinds) {
            0 => {
                let number = self.literal(elem);
                let plain = match number {
                    Number::Int(n) => represented(Plain::Int(n), elem),
                    Number::Float(x) => represented(Plain::Float(x), elem),
                };
                // An operation needs a typed operand; a literal alone has no type.
                case(Expr::Lit(number).cast(elem), Evaluator::new(move |_| plain))
            }
            1 => {
                let input = TYPES.iter().position(|known| *known == elem).unwrap_or(0);
                case(Expr::In(input as u8), Evaluator::new(move |ins| ins[input]))
            }
            2 => {
                let from = self.pick(&TYPES);
                let x = self.number(from, depth - 1);
                case(x.expr.cast(elem), Evaluator::new(move |ins| represented((x.value.0)(ins), elem)))
            }
            3 => {
                let x = self.condition(depth - 1);
                case(x.expr.cast(elem), Evaluator::new(move |ins| represented((x.value.0)(ins), elem)))
            }
            4 => {
                let (c, x, y) =
                    (self.condition(depth - 1), self.number(elem, depth - 1), self.number(elem, depth - 1));
                let expr = Expr::Pick(Box::new([c.expr, x.expr, y.expr]));
                let value = move |ins: &[Plain]| match (c.value.0)(ins) {
                    Plain::Int(0) => (y.value.0)(ins),
                    _ => (x.value.0)(ins),
                };
                case(expr, Evaluator::new(value))
            }
            5 => self.one(elem, depth),
            6 if !float => {
                let [x, y, z] = [(); 3].map(|()| self.number(elem, depth - 1));
                let expr = Expr::Fma(Box::new([x.expr, y.expr, z.expr]));
                let value = move |ins: &[Plain]| {
                    let product = apply(Bin::Mul, (x.value.0)(ins), (y.value.0)(ins), elem);
                    apply(Bin::Add, product, (z.value.0)(ins), elem)
                };
                case(expr, Evaluator::new(value))
            }
            _ => self.two(elem, depth),
        }
    }

    fn one(&mut self, elem: Elem, depth: u32) -> Case {
        let x = self.number(elem, depth - 1);
        let f = match (elem.is_float(), elem) {
            (true, _) => self.pick(&[Un::Neg, Un::Abs, Un::Sqrt, Un::Recip]),
            (_, Elem::U32 | Elem::U8) => self.pick(&[Un::Abs, Un::Not]),
            _ => self.pick(&[Un::Neg, Un::Abs, Un::Not]),
        };
        let value = move |ins: &[Plain]| {
            let made = match (f, (x.value.0)(ins)) {
                (Un::Neg, Plain::Float(x)) => Plain::Float(-x),
                (Un::Abs, Plain::Float(x)) => Plain::Float(x.abs()),
                (Un::Sqrt, Plain::Float(x)) => Plain::Float(x.sqrt()),
                (_, Plain::Float(x)) => Plain::Float(1.0 / x),
                (Un::Neg, Plain::Int(n)) => Plain::Int(-n),
                (Un::Abs, Plain::Int(n)) => Plain::Int(n.abs()),
                (_, Plain::Int(n)) => Plain::Int(!n),
            };
            computed(made, elem)
        };
        Case { expr: Expr::Un(f, Box::new(x.expr)), value: Evaluator::new(value) }
    }

    fn two(&mut self, elem: Elem, depth: u32) -> Case {
        let any = [Bin::Add, Bin::Sub, Bin::Mul, Bin::Min, Bin::Max];
        let of_floats = [Bin::Div, Bin::Rem];
        let of_integers = [Bin::And, Bin::Or, Bin::Xor];
        let by_literals = [Bin::Div, Bin::Rem, Bin::Shl, Bin::Shr];
        let x = self.number(elem, depth - 1);
        let f = match (self.below(3), elem.is_float()) {
            (0, true) => self.pick(&of_floats),
            (0, false) => self.pick(&of_integers),
            (1, false) => self.pick(&by_literals),
            _ => self.pick(&any),
        };
        let y = match f {
            // Divisors are nonzero, and shifts are within the type; the literal takes its type from the other
            // side.
            _ if !elem.is_float() && by_literals.contains(&f) => {
                let n = 1 + self.below(7) as i64;
                let expr = Expr::lit(n);
                Case { expr, value: Evaluator::new(move |_| Plain::Int(n.into())) }
            }
            _ => self.number(elem, depth - 1),
        };
        let expr = Expr::Bin(f, Box::new(x.expr), Box::new(y.expr));
        let value = move |ins: &[Plain]| apply(f, (x.value.0)(ins), (y.value.0)(ins), elem);
        Case { expr, value: Evaluator::new(value) }
    }

    fn condition(&mut self, depth: u32) -> Case {
        let case = |expr, value| Case { expr, value };
        match self.below(if depth == 0 { 1 } else { 4 }) {
            0 => {
                let (elem, how) = (self.pick(&TYPES), self.pick(&[Cmp::Lt, Cmp::Le, Cmp::Eq, Cmp::Ne]));
                let depth = depth.saturating_sub(1);
                let (x, y) = (self.number(elem, depth), self.number(elem, depth));
                let expr = Expr::Cmp(how, Box::new(x.expr), Box::new(y.expr));
                let value = move |ins: &[Plain]| {
                    let order = match ((x.value.0)(ins), (y.value.0)(ins)) {
                        (Plain::Int(x), Plain::Int(y)) => Some(x.cmp(&y)),
                        (Plain::Float(x), Plain::Float(y)) => x.partial_cmp(&y),
                        other => panic!("{other:?}"),
                    };
                    truth(match how {
                        Cmp::Lt => order.is_some_and(|o| o.is_lt()),
                        Cmp::Le => order.is_some_and(|o| o.is_le()),
                        Cmp::Eq => order.is_some_and(|o| o.is_eq()),
                        Cmp::Ne => order.is_none_or(|o| o.is_ne()),
                    })
                };
                case(expr, Evaluator::new(value))
            }
            1 => {
                let x = self.condition(depth - 1);
                let value = move |ins: &[Plain]| match (x.value.0)(ins) {
                    Plain::Int(0) => truth(true),
                    _ => truth(false),
                };
                case(Expr::Un(Un::Not, Box::new(x.expr)), Evaluator::new(value))
            }
            2 => {
                let [c, x, y] = [(); 3].map(|()| self.condition(depth - 1));
                let expr = Expr::Pick(Box::new([c.expr, x.expr, y.expr]));
                let value = move |ins: &[Plain]| match (c.value.0)(ins) {
                    Plain::Int(0) => (y.value.0)(ins),
                    _ => (x.value.0)(ins),
                };
                case(expr, Evaluator::new(value))
            }
            _ => {
                let (x, y) = (self.condition(depth - 1), self.condition(depth - 1));
                let f = self.pick(&[Bin::And, Bin::Or, Bin::Xor]);
                let value = move |ins: &[Plain]| apply(f, (x.value.0)(ins), (y.value.0)(ins), Elem::I32);
                case(Expr::Bin(f, Box::new(x.expr), Box::new(y.expr)), Evaluator::new(value))
            }
        }
    }
}

/// An element of an input: some are extremes of their type.
fn element(elem: Elem, index: usize, seed: u64) -> Plain {
    let mut bits = (seed ^ index as u64).wrapping_add(1 << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits ^= bits >> 29;
    bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (elem as u64) << 7;
    bits ^= bits >> 32;
    let ends = [0i128, 1, -1, i32::MIN.into(), i32::MAX.into(), u32::MAX.into(), 127, -128];
    match (elem.is_float(), index % 4) {
        (false, 0) => represented(Plain::Int(ends[(bits % 8) as usize]), elem),
        (false, _) => represented(Plain::Int(i128::from(bits)), elem),
        (true, 0) => {
            let special = [0.0, -0.0, f64::INFINITY, f64::NAN, 1e300, -65504.0, 6e-8, 1.0];
            represented(Plain::Float(special[(bits % 8) as usize]), elem)
        }
        (true, _) => {
            represented(Plain::Float((bits as i32 as f64) / f64::from(1u32 << (bits >> 40 & 31))), elem)
        }
    }
}

fn int(x: &Plain) -> i128 {
    match x {
        Plain::Int(n) => *n,
        Plain::Float(x) => panic!("{x} is no integer"),
    }
}

fn float(x: &Plain) -> f64 {
    match x {
        Plain::Float(x) => *x,
        Plain::Int(n) => panic!("{n} has no point"),
    }
}

fn tensor(elem: Elem, of: &[Plain]) -> Arg {
    match elem {
        Elem::F64 => Arg::tensor(&of.iter().map(float).collect::<Vec<_>>(), [COUNT]),
        Elem::F32 => Arg::tensor(&of.iter().map(|x| float(x) as f32).collect::<Vec<_>>(), [COUNT]),
        Elem::F16 => {
            Arg::tensor(&of.iter().map(|x| f16::from_f32(float(x) as f32)).collect::<Vec<_>>(), [COUNT])
        }
        Elem::Bf16 => {
            Arg::tensor(&of.iter().map(|x| bf16::from_f32(float(x) as f32)).collect::<Vec<_>>(), [COUNT])
        }
        Elem::I32 => Arg::tensor(&of.iter().map(|x| int(x) as i32).collect::<Vec<_>>(), [COUNT]),
        Elem::U32 => Arg::tensor(&of.iter().map(|x| int(x) as u32).collect::<Vec<_>>(), [COUNT]),
        Elem::I8 => Arg::tensor(&of.iter().map(|x| int(x) as i8).collect::<Vec<_>>(), [COUNT]),
        _ => Arg::tensor(&of.iter().map(|x| int(x) as u8).collect::<Vec<_>>(), [COUNT]),
    }
}

/// The elements of the result as the test's numbers.
fn simulated(case: &Case, elem: Elem, ins: &[Vec<Plain>]) -> Vec<Plain> {
    let mut b = Builder::new("random");
    let (n, threads) = (Size::symbol("N"), layout!(32 : 1));
    let part = |b: &mut Builder, name: &str, elem, written| {
        let whole = b.tensor(name, elem, (n,), None, written).unwrap();
        let tile = b.tile(&whole, (32,), &[At::Index(Coord::Block(0).into())]).unwrap();
        b.parallelize(&tile, &threads).unwrap()
    };
    let inputs: Vec<_> = TYPES.iter().map(|elem| part(&mut b, &format!("in_{elem}"), *elem, false)).collect();
    let out = part(&mut b, "out", elem, true);
    b.map(&inputs, &out, case.expr.clone()).unwrap_or_else(|problem| panic!("{problem:?}: {:?}", case.expr));
    let kernel = generate(b.finish()).kernel.unwrap();
    let mut args: Vec<Arg> = TYPES.iter().zip(ins).map(|(elem, of)| tensor(*elem, of)).collect();
    macro_rules! get {
        ($ty:ty, $plain:expr) => {{
            args.push(Arg::output::<$ty>([COUNT]));
            let outcome = run(&kernel, &args, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
            outcome.get::<$ty>("out").unwrap().into_iter().map($plain).collect()
        }};
    }
    match elem {
        Elem::F64 => get!(f64, Plain::Float),
        Elem::F32 => get!(f32, |x| Plain::Float(x.into())),
        Elem::F16 => get!(f16, |x| Plain::Float(x.to_f32().into())),
        Elem::Bf16 => get!(bf16, |x| Plain::Float(x.to_f32().into())),
        Elem::I32 => get!(i32, |n| Plain::Int(n.into())),
        Elem::U32 => get!(u32, |n| Plain::Int(n.into())),
        Elem::I8 => get!(i8, |n| Plain::Int(n.into())),
        _ => get!(u8, |n| Plain::Int(n.into())),
    }
}

fn check(bytes: &[u8], seed: u64) {
    let mut draw = Draw { bytes };
    let elem = draw.pick(&TYPES);
    let case = draw.number(elem, 5);
    let ins: Vec<Vec<Plain>> =
        TYPES.iter().map(|elem| (0..COUNT).map(|index| element(*elem, index, seed)).collect()).collect();
    let got = simulated(&case, elem, &ins);
    for (index, got) in got.iter().enumerate() {
        let given: Vec<Plain> = ins.iter().map(|of| of[index]).collect();
        let wanted = (case.value.0)(&given);
        let same = match (got, &wanted) {
            (Plain::Int(x), Plain::Int(y)) => x == y,
            (Plain::Float(x), Plain::Float(y)) => x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
            _ => false,
        };
        assert!(
            same,
            "{elem}, element {index}: {got:?}, and {wanted:?} is right, of {given:?}\n{:?}",
            case.expr
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn random_expressions_are_computed_as_they_are_typed(
        bytes in prop::collection::vec(any::<u8>(), 1..120), seed in any::<u64>(),
    ) {
        check(&bytes, seed);
    }
}

proptest! {
    #[test]
    #[ignore = "long: cargo xtask fuzz"]
    fn fuzz_typed_expressions(bytes in prop::collection::vec(any::<u8>(), 1..400), seed in any::<u64>()) {
        check(&bytes, seed);
    }
}
