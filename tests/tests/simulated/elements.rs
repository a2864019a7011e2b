//! Elementwise computation: functions, named closures, tuples, sizes as numbers.

use crate::inputs;
use tilewright::prelude::*;
use tilewright::{bf16, f16};
use tilewright_sim::Arg;
use tilewright_tests::functions::{FAST, arguments, erf, fast_functions, functions, wrong, wrong_fast};

macro_rules! accurate {
    ($ty:ident, $of:expr, $back:expr, $digits:expr, $most:expr) => {{
        let x: Vec<$ty> = arguments().into_iter().map($of).collect();
        let args = [Arg::tensor(&x, [x.len()]), Arg::output::<$ty>([x.len(), 24])];
        let outcome = functions!(T = $ty).simulate(&args).unwrap_or_else(|fault| panic!("{fault}"));
        let results: Vec<f64> = outcome.get::<$ty>("y").unwrap().into_iter().map($back).collect();
        let inputs: Vec<f64> = x.into_iter().map($back).collect();
        if let Some(message) = wrong(&inputs, &results, $digits, $most) {
            panic!("{}: {message}", stringify!($ty));
        }
    }};
}

#[test]
fn functions_are_as_accurate_as_documents_say() {
    accurate!(f32, |x| x as f32, f64::from, 24, f64::from(f32::MAX));
    accurate!(f64, |x| x, |x| x, 53, f64::MAX);
    accurate!(f16, |x| f16::from_f32(x as f32), |x: f16| f64::from(x.to_f32()), 11, 65519.0);
    accurate!(bf16, |x| bf16::from_f32(x as f32), |x: bf16| f64::from(x.to_f32()), 8, 3.3961775e38);
}

#[test]
fn fast_functions_are_as_accurate_as_documents_say() {
    macro_rules! check {
        ($ty:ident, $of:expr, $back:expr, $digits:expr, $most:expr) => {{
            let x: Vec<$ty> = arguments().into_iter().map($of).collect();
            let args = [Arg::tensor(&x, [x.len()]), Arg::output::<$ty>([x.len(), FAST.len()])];
            let outcome = fast_functions!(T = $ty).simulate(&args).unwrap_or_else(|fault| panic!("{fault}"));
            let results: Vec<f64> = outcome.get::<$ty>("y").unwrap().into_iter().map($back).collect();
            let inputs: Vec<f64> = x.into_iter().map($back).collect();
            if let Some(why) = wrong_fast(&inputs, &results, $digits, $most) {
                panic!("{}: {why}", stringify!($ty));
            }
        }};
    }
    check!(f32, |x| x as f32, f64::from, 24, f64::from(f32::MAX));
    check!(f16, |x| f16::from_f32(x as f32), |x: f16| f64::from(x.to_f32()), 11, 65519.0);
    check!(bf16, |x| bf16::from_f32(x as f32), |x: bf16| f64::from(x.to_f32()), 8, 3.3961775e38);
}

/// A fast quotient by more than 2¹²⁶ is 0, as on a device.
#[test]
fn fast_quotients_of_large_divisors() {
    let x = [2f32.powi(126), 2f32.powi(127), f32::INFINITY, -3e38];
    let args = [Arg::tensor(&x, [4]), Arg::output::<f32>([4, FAST.len()])];
    let outcome = fast_functions!(T = f32).simulate(&args).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(outcome.get::<f32>("y").unwrap()[7 * 4..8 * 4], [1.5 * 2f32.powi(-126), 0.0, 0.0, 0.0]);
}

/// The polynomial of generated code for gelu, in single precision as on a device, against double precision. An `ex2.approx`
/// is within two units of the 23rd binary digit.
#[test]
fn the_polynomial_of_gelu_is_accurate() {
    let source = functions!(T = f32).source().to_owned();
    let (_, body) = source.split_once("float gelu(float x) {").expect("its function");
    let (body, _) = body.split_once("\n}").expect("its end");
    let number = |text: &str| text.trim().trim_end_matches([')', ';', 'f']).parse::<f32>().unwrap();
    let after = |mark| body.split(mark).skip(1).map(|rest| number(rest.lines().next().unwrap()));
    let (most, first) = (after("fabsf(x), ").next().unwrap(), after("float p = ").next().unwrap());
    let terms: Vec<f32> = after("fmaf(p, u, ").collect();
    assert_eq!(terms.len(), 6);
    let check = |x: f32| {
        let u = x.abs().min(most);
        let power = terms.iter().fold(first, |p, &term| p.mul_add(u, term)).exp2();
        assert!(!power.is_subnormal(), "{x}");
        let got = f64::from((-u).mul_add(power, 0.5 * x + (0.5 * x).abs()));
        let wanted = 0.5 * f64::from(x) * (1.0 + erf(f64::from(x) * std::f64::consts::FRAC_1_SQRT_2));
        let error = (got - wanted).abs() + f64::from(u * power) * 2f64.powi(-22);
        let within = 1.7e-7 + wanted.abs() * 2f64.powi(-24);
        assert!(error <= within, "gelu({x:e}) is {got:e}, and {wanted:e} is right within {within:e}");
    };
    (0..=i32::MAX as u32).step_by(9973).map(f32::from_bits).filter(|x| x.is_finite()).for_each(|x| {
        check(x);
        check(-x);
    });
    (-140_000..140_000).for_each(|n| check(n as f32 * 1e-4));
}

#[kernel(T = i32 | u32 | i8 | u8)]
fn counted<T>(x: &Tensor<T, N>, y: &mut Tensor<T, { (N, 2) }>) {
    let t = layout!(32);
    let x = parallelize(tile(x, 32, block.x), t, thread.x);
    let y = parallelize(tile(y, (32, 2), (block.x, 0)), layout!((32, 1)), thread.x);
    copy(map(x, |x| count_ones(x)), y[(_, 0)]);
    copy(map(x, |x| leading_zeros(x)), y[(_, 1)]);
}

#[test]
fn bits_of_integers_are_counted() {
    for def in
        [counted!(T = i32).def(), counted!(T = u32).def(), counted!(T = i8).def(), counted!(T = u8).def()]
    {
        inputs(def).written(["N = 70"]);
    }
}

/// Named closures, the names that they capture, and the names that they shadow.
#[kernel]
fn closures(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, z: &mut Tensor<f32, N>, w: &mut Tensor<u32, N>) {
    let t = layout!(32);
    let x = parallelize(tile(x, 32, block.x), t, thread.x);
    let (y, z, w) = (
        parallelize(tile(y, 32, block.x), t, thread.x),
        parallelize(tile(z, 32, block.x), t, thread.x),
        parallelize(tile(w, 32, block.x), t, thread.x),
    );
    let scale = 2.0;
    let scaled = |x| x * scale;
    let scale = 100.0;
    // The kernel's own binding shadows the built-in function.
    let exp = |x| {
        let twice = scaled(x);
        if twice > scale { twice - 1.0 } else { twice + 1.0 }
    };
    let load = |view| map(view, |x| exp(x));
    let (low, high) = map(x, |x| (floor(x), x - floor(x)));
    (low, high) = (high, low);
    copy(low, z);
    copy(map(load(x), scaled), y);
    copy(map((x, high), |x, h| bits::<u32>(x) ^ bits::<u32>(h)), w);
}

#[test]
fn closures_see_what_they_saw_where_they_were_written() {
    let x = [0.25f32, 3.5, 60.0, -1.75];
    let args =
        [Arg::tensor(&x, [4]), Arg::output::<f32>([4]), Arg::output::<f32>([4]), Arg::output::<u32>([4])];
    let outcome = closures().simulate(&args).unwrap_or_else(|fault| panic!("{fault}"));
    let of = |x: f32| 2.0 * if 2.0 * x > 100.0 { 2.0 * x - 1.0 } else { 2.0 * x + 1.0 };
    assert_eq!(outcome.get::<f32>("y").unwrap(), x.map(of));
    assert_eq!(outcome.get::<f32>("z").unwrap(), x.map(|x| x - x.floor()));
    assert_eq!(outcome.get::<u32>("w").unwrap(), x.map(|x| x.to_bits() ^ x.floor().to_bits()));
}

/// Sizes are numbers in elementwise expressions.
#[kernel]
fn means(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, M>) {
    let rows = parallelize(tile(x, (32, 1), (block.x, _)), layout!((32, 1)), thread.x);
    let out = parallelize(tile(y, 32, block.x), layout!(32), thread.x);
    let mut total = registers_like(out, 0.0);
    for k in 0..rows.size(2) {
        total = map((total, rows[(_, 0, k)]), |t, x| t + x);
    }
    copy(map(total, |t| t / x.size(1) as f32 + (N - M) as f32), out);
}

#[test]
fn sizes_are_numbers() {
    inputs(means().def()).written(["M = 3, N = 5", "M = 40, N = 7"]);
}

#[kernel]
fn added(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>, z: &mut Tensor<f32, N>) {
    let x = tile(x, 32, block.x);
    copy(x, tile(y, 32, block.x), how = "atomic_add");
    let s = shared::<f32>(32);
    fill(s, 0.0);
    copy(x, s, how = "atomic_add");
    copy(s, tile(z, 32, block.x));
}

/// As measured on an H100.
#[test]
fn atomic_sums_in_global_memory_have_no_subnormal_numbers() {
    let (tiny, small) = (1e-40f32, 1.5e-38f32);
    let x = [tiny, 0.0, tiny, -1.4e-38, -tiny];
    let before = [tiny, -tiny, small, small, 0.0];
    let args = [Arg::tensor(&x, [5]), Arg::in_out(&before, [5]), Arg::output::<f32>([5])];
    let outcome = added().simulate(&args).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(outcome.get::<f32>("y").unwrap(), [0.0, 0.0, small, 0.0, 0.0]);
    assert_eq!(outcome.get::<f32>("z").unwrap(), x);
}
