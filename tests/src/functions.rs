//! Every numeric function with its documented accuracy: one kernel, checked against double precision in the
//! simulator and on GPUs.

use tilewright::prelude::*;

/// Applies every function to every element; one column per function.
#[kernel(T = f32 | f64 | f16 | bf16)]
pub fn functions<T>(x: &Tensor<T, N>, y: &mut Tensor<T, { (N, 24) }>) {
    let t = layout!(128);
    let x = parallelize(tile(x, 128, block.x), t, thread.x);
    let y = parallelize(tile(y, (128, 24), (block.x, 0)), layout!((128, 1)), thread.x);
    copy(map(x, |x| exp(x)), y[(_, 0)]);
    copy(map(x, |x| exp2(x)), y[(_, 1)]);
    copy(map(x, |x| log(x)), y[(_, 2)]);
    copy(map(x, |x| log2(x)), y[(_, 3)]);
    copy(map(x, |x| sqrt(x)), y[(_, 4)]);
    copy(map(x, |x| rsqrt(x)), y[(_, 5)]);
    copy(map(x, |x| tanh(x)), y[(_, 6)]);
    copy(map(x, |x| sin(x)), y[(_, 7)]);
    copy(map(x, |x| cos(x)), y[(_, 8)]);
    copy(map(x, |x| erf(x)), y[(_, 9)]);
    copy(map(x, |x| pow(x, 1.5)), y[(_, 10)]);
    copy(map(x, |x| sigmoid(x)), y[(_, 11)]);
    copy(map(x, |x| silu(x)), y[(_, 12)]);
    copy(map(x, |x| gelu(x)), y[(_, 13)]);
    copy(map(x, |x| gelu_tanh(x)), y[(_, 14)]);
    copy(map(x, |x| floor(x)), y[(_, 15)]);
    copy(map(x, |x| ceil(x)), y[(_, 16)]);
    copy(map(x, |x| trunc(x)), y[(_, 17)]);
    copy(map(x, |x| round(x)), y[(_, 18)]);
    copy(map(x, |x| round_ties_even(x)), y[(_, 19)]);
    copy(map(x, |x| fmod(x, 0.75)), y[(_, 20)]);
    copy(map(x, |x| copysign(1.5, x)), y[(_, 21)]);
    copy(map(x, |x| abs(x)), y[(_, 22)]);
    copy(map(x, |x| 1.0 / x), y[(_, 23)]);
}

/// A function in double precision, and its tolerance: in units in the last place, and absolute.
pub struct Function {
    /// Its name in kernels.
    pub name: &'static str,
    /// Its reference.
    pub of: fn(f64) -> f64,
    /// Units in the last place of the result, in `f32` and `f64`; one half more is added for narrow types.
    pub ulps: f64,
    /// Its absolute tolerance, in units in the last place of 1.
    pub near_zero: f64,
}

const fn row(name: &'static str, of: fn(f64) -> f64, ulps: f64, near_zero: f64) -> Function {
    Function { name, of, ulps, near_zero }
}

/// In the order of the kernel's columns.
pub const FUNCTIONS: [Function; 24] = [
    row("exp", f64::exp, 2.0, 0.0),
    row("exp2", f64::exp2, 2.0, 0.0),
    row("log", f64::ln, 2.0, 0.0),
    row("log2", f64::log2, 2.0, 0.0),
    row("sqrt", f64::sqrt, 0.5, 0.0),
    row("rsqrt", |x| 1.0 / x.sqrt(), 2.0, 0.0),
    row("tanh", f64::tanh, 2.0, 0.0),
    row("sin", f64::sin, 2.0, 0.0),
    row("cos", f64::cos, 2.0, 0.0),
    row("erf", erf, 2.0, 0.0),
    row("pow", |x| x.powf(1.5), 4.0, 0.0),
    row("sigmoid", |x| 1.0 / (1.0 + (-x).exp()), 4.0, 0.0),
    row("silu", |x| x / (1.0 + (-x).exp()), 4.0, 0.0),
    row("gelu", |x| 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)), 4.0, 4.0),
    row("gelu_tanh", gelu_tanh, 4.0, 4.0),
    row("floor", f64::floor, 0.0, 0.0),
    row("ceil", f64::ceil, 0.0, 0.0),
    row("trunc", f64::trunc, 0.0, 0.0),
    row("round", f64::round, 0.0, 0.0),
    row("round_ties_even", f64::round_ties_even, 0.0, 0.0),
    row("fmod", |x| x % 0.75, 0.0, 0.0),
    row("copysign", |x| 1.5f64.copysign(x), 0.0, 0.0),
    row("abs", f64::abs, 0.0, 0.0),
    row("a quotient", |x| 1.0 / x, 0.5, 0.0),
];

fn gelu_tanh(x: f64) -> f64 {
    let scale = (2.0 * std::f64::consts::FRAC_1_PI).sqrt();
    0.5 * x * (1.0 + (scale * (x + 0.044715 * x * x * x)).tanh())
}

/// The error function: by its series, and far from 0 by a continued fraction of 1 - erf.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 2.0 {
        let below = (1..=80).rev().fold(x.abs(), |below, n| x.abs() + 0.5 * f64::from(n) / below);
        return (1.0 - (-x * x).exp() / (std::f64::consts::PI.sqrt() * below)).copysign(x);
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > sum.abs() * 1e-18 {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// Numbers near 0, of medium size, and at the ends of the range.
pub fn arguments() -> Vec<f64> {
    let specials = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5];
    let middle = (-400..400).map(|n| f64::from(n) * 0.03125);
    let small = (1..60).flat_map(|n| [1.25 * 2f64.powi(-n / 4), -1.75 * 2f64.powi(-n / 4)]);
    let odd = (1..400).map(|n| (f64::from(n) * 0.7391).sin() * 9.0);
    specials.into_iter().chain(middle).chain(small).chain(odd).collect()
}

/// The first mismatch, if there is one. `results` are, for each of [`arguments`] rounded to the type, the
/// values of every function; `digits` are the binary digits of the type.
pub fn wrong(inputs: &[f64], results: &[f64], digits: i32, most: f64) -> Option<String> {
    let count = inputs.len();
    for (column, function) in FUNCTIONS.iter().enumerate() {
        for (row, &x) in inputs.iter().enumerate() {
            let (got, wanted) = (results[column * count + row], (function.of)(x));
            let wanted = if wanted.abs() > most { f64::INFINITY.copysign(wanted) } else { wanted };
            let narrow = if digits < 24 { 0.5 } else { 0.0 };
            let ulp = |of: f64| 2f64.powi(of.abs().log2().floor().max(-1074.0) as i32 - digits + 1);
            // The series of the error function has an error of some units itself.
            let own = if digits == 53 && ["erf", "gelu"].contains(&function.name) { 8.0 } else { 0.0 };
            let least = if digits == 11 { 2f64.powi(-24) } else { 2f64.powi(-148) };
            let within = (function.ulps + own + narrow) * ulp(wanted).max(least)
                + function.near_zero * 2f64.powi(-digits + 1).min(2f64.powi(-23));
            let same = got == wanted || (got.is_nan() && wanted.is_nan()) || (got - wanted).abs() <= within;
            // Below the least normal number of f32, a quotient by infinity is 0.
            let tiny = wanted.abs() < 2f64.powi(-126) && got == 0.0;
            if !same && !tiny {
                return Some(format!(
                    "{}({x:?}) is {got:e}, and {wanted:e} is right within {within:e}",
                    function.name
                ));
            }
        }
    }
    None
}

/// Every function of few instructions; one column per function.
#[kernel(T = f32 | f16 | bf16)]
pub fn fast_functions<T>(x: &Tensor<T, N>, y: &mut Tensor<T, { (N, 10) }>) {
    let t = layout!(128);
    let x = parallelize(tile(x, 128, block.x), t, thread.x);
    let y = parallelize(tile(y, (128, 10), (block.x, 0)), layout!((128, 1)), thread.x);
    copy(map(x, |x| fast_exp(x)), y[(_, 0)]);
    copy(map(x, |x| fast_log(x)), y[(_, 1)]);
    copy(map(x, |x| fast_log2(x)), y[(_, 2)]);
    copy(map(x, |x| fast_sqrt(x)), y[(_, 3)]);
    copy(map(x, |x| fast_tanh(x)), y[(_, 4)]);
    copy(map(x, |x| fast_sin(x)), y[(_, 5)]);
    copy(map(x, |x| fast_cos(x)), y[(_, 6)]);
    copy(map(x, |x| fast_div(1.5, x)), y[(_, 7)]);
    copy(map(x, |x| fast_div(x, 3.0)), y[(_, 8)]);
    copy(map(x, |x| fast_rsqrt(x)), y[(_, 9)]);
}

/// A function of few instructions, and its largest error in `f32` for an argument and the exact result.
pub struct FastFunction {
    name: &'static str,
    of: fn(f64) -> f64,
    error: fn(f64, f64) -> f64,
}

/// In the order of the kernel's columns.
pub const FAST: [FastFunction; 10] = [
    FastFunction { name: "fast_exp", of: f64::exp, error: |x, y| (2.0 + 1.2 * x.abs()) * ulp(y, 24) },
    FastFunction { name: "fast_log", of: f64::ln, error: logarithm },
    FastFunction { name: "fast_log2", of: f64::log2, error: logarithm },
    FastFunction { name: "fast_sqrt", of: f64::sqrt, error: |_, y| ulp(y, 24) },
    FastFunction { name: "fast_tanh", of: f64::tanh, error: |_, y| y.abs() * 2f64.powi(-11) },
    FastFunction { name: "fast_sin", of: f64::sin, error: |_, _| 2f64.powi(-21) },
    FastFunction { name: "fast_cos", of: f64::cos, error: |_, _| 2f64.powi(-21) },
    FastFunction { name: "a fast quotient", of: |x| 1.5 / x, error: |_, y| 2.0 * ulp(y, 24) },
    FastFunction { name: "a fast third", of: |x| x / 3.0, error: |_, y| 2.0 * ulp(y, 24) },
    FastFunction { name: "fast_rsqrt", of: |x| 1.0 / x.sqrt(), error: |_, y| 2.0 * ulp(y, 24) },
];

fn logarithm(x: f64, y: f64) -> f64 {
    if (0.5..=2.0).contains(&x) { 2f64.powi(-21) } else { 3.0 * ulp(y, 24) }
}

/// One ulp of a number with this many binary digits.
fn ulp(of: f64, digits: i32) -> f64 {
    2f64.powi(of.abs().log2().floor().max(-126.0) as i32 - digits + 1)
}

/// The first mismatch of functions of few instructions, if there is one; see [`wrong`]. Arguments of sine and cosine are those
/// from -π to π.
pub fn wrong_fast(inputs: &[f64], results: &[f64], digits: i32, most: f64) -> Option<String> {
    for (column, function) in FAST.iter().enumerate() {
        let periodic = ["fast_sin", "fast_cos"].contains(&function.name);
        for (row, &x) in
            inputs.iter().enumerate().filter(|(_, x)| !periodic || x.abs() < std::f64::consts::PI)
        {
            let (got, exact) = (results[column * inputs.len() + row], (function.of)(x));
            let exact = if exact.abs() > most { f64::INFINITY.copysign(exact) } else { exact };
            let narrow = if digits < 24 { 0.5 * ulp(exact, digits).max(2f64.powi(-24)) } else { 0.0 };
            let within = (function.error)(x, exact) + narrow;
            let same = got == exact || (got.is_nan() && exact.is_nan()) || (got - exact).abs() <= within;
            // Numbers below the least normal one may be 0, and divisors above 2¹²⁶ have the quotient 0.
            let tiny = exact.abs() < 2f64.powi(-125) && got == 0.0;
            // Divisors below it have an infinite quotient.
            let divides = ["fast_rsqrt", "a fast quotient"].contains(&function.name);
            let flushed = divides && x.abs() < 2f64.powi(-126) && got.is_infinite();
            if !same && !tiny && !flushed {
                return Some(format!(
                    "{}({x:?}) is {got:e}, and {exact:e} is right within {within:e}",
                    function.name
                ));
            }
        }
    }
    None
}
