//! Contents of tensors that a device makes, and the comparison of results there. Elements depend on a seed and on their number in memory
//! alone, so they are made again in any order. The host makes its own where it needs them: see [`super::problem`].

use tilewright::prelude::*;
use tilewright_codegen::Elem;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::words::{Kernels as _, Mistakes, Words};
use tilewright_runtime::raw::AnyTensor;
use tilewright_runtime::{Argument, Built, Stream};

use super::input::Contents;
use crate::own::peer::Failed;

/// A hash of 32 bits. Two numbers that differ in one bit have hashes that differ in half of their bits.
#[device]
fn hash(x: u32) -> u32 {
    let x = (x ^ (x >> 16)) * 2146121005;
    let x = (x ^ (x >> 15)) * 2221713035;
    x ^ (x >> 16)
}

/// `offset + scale * n`. With KIND = 0, n is drawn from 0 to count - 1; with 1, it is normally distributed; with 2, it is the element's
/// number.
#[kernel(T = f64 | f32 | tf32 | f16 | bf16 | e4m3 | e5m2 | i64 | u64 | i32 | u32 | i16 | u16 | i8 | u8 | bool)]
fn filled<T, const KIND: usize = 0, const STORED: fn(f64) -> f64 = { |x| x }>(
    seed: u32,
    count: u32,
    scale: f64,
    offset: f64,
    x: &mut Tensor<T, N>,
) {
    use self::hash;
    map(iota(1024), tile(x, 1024, block.x), |i| {
        let at = i + 1024 * block.x;
        let word = hash(hash(at as u32) + seed);
        let uniform = ((word >> 8) as f32 + 0.5) / 16777216.0;
        let angle = (hash(word) >> 8) as f32 / 16777216.0 * 6.2831853;
        // Box and Muller's.
        let normal = sqrt(-2.0 * log(uniform)) * cos(angle);
        let drawn = mul_high(word, count);
        let n = if KIND == 0 {
            drawn as f64
        } else if KIND == 1 {
            normal as f64
        } else {
            at as f64
        };
        STORED(offset + scale * n) as T
    });
}

/// Elements of a block of [`compared`].
const PART: usize = 4096;

/// Of each part of two tensors: the largest difference, infinite between a number and none; the squares of the second one's numbers, and
/// their count.
#[kernel(T = f64 | f32 | tf32 | f16 | bf16 | e4m3 | e5m2 | i64 | u64 | i32 | u32 | i16 | u16 | i8 | u8 | bool)]
fn compared<T>(
    x: &Tensor<T, N>,
    y: &Tensor<T, N>,
    most: &mut Tensor<f64, { ceil_div(N, 4096) }>,
    squares: &mut Tensor<f64, { ceil_div(N, 4096) }>,
    counts: &mut Tensor<f64, { ceil_div(N, 4096) }>,
) {
    let x = map(tile(x, 4096, block.x), |x| x as f64);
    let y = map(tile(y, 4096, block.x), |y| y as f64);
    let apart = map((x, y), |x, y| {
        let apart = abs(x - y);
        if (x == y) | ((x != x) & (y != y)) {
            0.0
        } else if apart != apart {
            f64::INFINITY
        } else {
            apart
        }
    });
    copy(maximum(apart), tile(most, 1, block.x));
    copy(sum(map(y, |y| if abs(y) < f64::INFINITY { y * y } else { 0.0 })), tile(squares, 1, block.x));
    copy(sum(map(y, |y| if abs(y) < f64::INFINITY { 1.0 } else { 0.0 })), tile(counts, 1, block.x));
}

/// Most elements of a launch.
const MAX_ELEMENTS: usize = 1 << 30;

/// The parts of a tensor that one launch each takes: their first elements, and their lengths.
fn parts(tensor: &AnyTensor) -> impl Iterator<Item = (usize, usize)> + use<> {
    let len = tensor.stored_len();
    (0..len).step_by(MAX_ELEMENTS).map(move |first| (first, (len - first).min(MAX_ELEMENTS)))
}

/// The numbers of [`filled`].
struct Numbers {
    kind: usize,
    count: u32,
    scale: f64,
    offset: f64,
}

impl Numbers {
    fn of(elem: Elem, contents: Contents) -> Numbers {
        let drawn = |count, scale, offset| Numbers { kind: 0, count, scale, offset };
        match contents {
            Contents::Uniform if elem == Elem::Bool => drawn(2, 1.0, 0.0),
            Contents::Uniform if elem.is_signed() => drawn(9, 1.0, -4.0),
            Contents::Uniform if elem.is_integer() => drawn(9, 1.0, 0.0),
            Contents::Uniform => drawn(1 << 24, 1.0 / f64::from(1 << 23), -1.0),
            Contents::Bytes => drawn(256, 1.0, 0.0),
            Contents::Constant(value) => drawn(1, 0.0, value),
            Contents::Normal => Numbers { kind: 1, ..drawn(0, 1.0, 0.0) },
            Contents::Index => Numbers { kind: 2, ..drawn(0, 1.0, 0.0) },
        }
    }
}

/// [`filled`] for an element type. A condition is whether a number is not 0.
fn filled_for(elem: Elem, kind: usize) -> Result<KernelDef, Mistakes> {
    match elem {
        Elem::Bool => {
            Words::specialize(filled!(T = bool, STORED = |x| x != 0.0).def(), &format!("KIND={kind}"))
        }
        _ => Words::specialize(filled().def(), &format!("T={elem} KIND={kind}")),
    }
}

/// [`compared`] for an element type.
fn compared_for(elem: Elem) -> Result<KernelDef, Mistakes> {
    Words::specialize(compared().def(), &format!("T={elem}"))
}

/// Sets all elements of a tensor, gaps included. Tensors with other seeds are independent.
pub(crate) fn fill(
    stream: &Stream,
    tensor: &mut AnyTensor,
    contents: Contents,
    seed: u32,
) -> Result<(), Failed> {
    let Numbers { kind, count, scale, offset } = Numbers::of(tensor.elem(), contents);
    let kernel = Built::carried(&filled_for(tensor.elem(), kind)?)?;
    for (part, (first, len)) in parts(tensor).enumerate() {
        let seed = (seed ^ (part as u32) << 16).wrapping_mul(0x9e37_79b9);
        let offset = if contents == Contents::Index { first as f64 } else { offset };
        let numbers = [Argument::scalar(seed), Argument::scalar(count), Argument::scalar(scale)];
        let mut all: Vec<Argument<'_>> = numbers.into();
        all.extend([Argument::scalar(offset), tensor.part_mut(&[len], &[1], first)]);
        kernel.launch_with(stream, &mut all)?;
    }
    Ok(())
}

/// The largest difference of results, relative to the mean size of the others; infinite between a number and none, and NaN if no result
/// is a number. Both tensors have the same type and length.
pub(crate) fn difference(stream: &Stream, results: &AnyTensor, others: &AnyTensor) -> Result<f64, Failed> {
    let kernel = Built::carried(&compared_for(results.elem())?)?;
    let (mut most, mut squares, mut count) = (0.0f64, 0.0, 0.0);
    for (first, len) in parts(results) {
        let zeros = || DeviceTensor::<f64, 1>::zeros(stream, [len.div_ceil(PART)]);
        let mut sums = [zeros()?, zeros()?, zeros()?];
        let [m, s, c] = &mut sums;
        let [one, other] = [results, others].map(|tensor| tensor.part(&[len], &[1], first));
        kernel.launch_with(stream, &mut [one, other, m.into(), s.into(), c.into()])?;
        let [m, s, c] = [sums[0].to_host()?, sums[1].to_host()?, sums[2].to_host()?];
        most = m.into_iter().fold(most, f64::max);
        squares += s.iter().sum::<f64>();
        count += c.iter().sum::<f64>();
    }
    let mean = (squares / count.max(1.0)).sqrt();
    Ok(if most == 0.0 && count > 0.0 { 0.0 } else { most / mean })
}

#[cfg(test)]
mod tests {
    use tilewright_codegen::element::Element;
    use tilewright_codegen::with_element;

    use super::*;
    use crate::run::problem::{decoded, encoded};

    /// The elements of a tensor that the device would fill.
    fn contents(elem: Elem, contents: Contents, count: usize) -> Vec<f64> {
        let Numbers { kind, count: drawn, scale, offset } = Numbers::of(elem, contents);
        let kernel = filled_for(elem, kind).unwrap();
        with_element!(elem, T => {
            let numbers = [Arg::number(7u32), Arg::number(drawn), Arg::number(scale), Arg::number(offset)];
            let done = kernel.simulate(&[&numbers[..], &[Arg::output::<T>([count])]].concat()).unwrap();
            done.get::<T>("x").unwrap().into_iter().map(|value| decoded(elem, value.to_raw())).collect()
        })
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn each_type_is_filled() {
        for elem in Elem::all() {
            let values = contents(elem, Contents::Uniform, 3000);
            let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(l, m), v| (v.min(l), v.max(m)));
            let range = match elem {
                Elem::Bool => (0.0, 1.0),
                elem if elem.is_signed() => (-4.0, 4.0),
                elem if elem.is_integer() => (0.0, 8.0),
                _ => (-1.0, 1.0),
            };
            assert!(
                least >= range.0 && most <= range.1 && most - least > 0.9 * (range.1 - range.0),
                "{elem}"
            );
            assert!((mean(&values) - (range.0 + range.1) / 2.0).abs() < 0.1 * (range.1 - range.0), "{elem}");
            assert_eq!(contents(elem, Contents::Constant(1.0), 5), [1.0; 5], "{elem}");
            let index = (0..3).map(|at| decoded(elem, encoded(elem, f64::from(at)))).collect::<Vec<_>>();
            assert_eq!(contents(elem, Contents::Index, 3), index, "{elem}");
        }
        assert!(contents(Elem::Bf16, Contents::Constant(f64::NAN), 2).iter().all(|value| value.is_nan()));
        assert_eq!(contents(Elem::I64, Contents::Constant(i64::MIN as f64), 1), [i64::MIN as f64]);
        assert_eq!(contents(Elem::U64, Contents::Constant(u64::MAX as f64), 1), [u64::MAX as f64]);
        let normal = contents(Elem::F32, Contents::Normal, 20_000);
        let squares: Vec<f64> = normal.iter().map(|value| value * value).collect();
        assert!(mean(&normal).abs() < 0.03 && (mean(&squares) - 1.0).abs() < 0.05);
    }

    /// The largest difference, the squares and the count of numbers of a few elements.
    #[track_caller]
    fn check(elem: Elem, pairs: &[(f64, f64)], expected: [f64; 3]) {
        let kernel = compared_for(elem).unwrap();
        let sums = with_element!(elem, T => {
            let arg = |value: &dyn Fn(&(f64, f64)) -> f64| {
                let values: Vec<T> = pairs.iter().map(|pair| T::from_raw(encoded(elem, value(pair)))).collect();
                Arg::tensor(&values, [pairs.len()])
            };
            let result = Arg::output::<f64>([pairs.len().div_ceil(PART)]);
            let (x, y) = (arg(&|pair| pair.0), arg(&|pair| pair.1));
            let done = kernel.simulate(&[x, y, result.clone(), result.clone(), result]).unwrap();
            ["most", "squares", "counts"].map(|name| done.get::<f64>(name).unwrap())
        });
        let total = |sums: &[f64]| sums.iter().sum::<f64>();
        let most = sums[0].iter().copied().fold(0.0, f64::max);
        assert_eq!([most, total(&sums[1]), total(&sums[2])], expected, "{elem}");
    }

    #[test]
    fn results_are_compared() {
        let (nan, infinite) = (f64::NAN, f64::INFINITY);
        check(Elem::F32, &[(nan, nan), (infinite, infinite), (2.0, 2.0)], [0.0, 4.0, 1.0]);
        check(Elem::F16, &[(nan, nan), (4.0, 2.0)], [2.0, 4.0, 1.0]);
        for pair in [(nan, 1.0), (1.0, nan), (infinite, 1.0), (1.0, infinite), (infinite, -infinite)] {
            let count = f64::from(u8::from(pair.1 == 1.0));
            check(Elem::F64, &[pair, (2.0, 2.0)], [infinite, 4.0 + count, 1.0 + count]);
        }
        let many: Vec<(f64, f64)> = (0..9000).map(|at| (f64::from(at % 7), f64::from(at % 7 % 6))).collect();
        let squares = many.iter().map(|pair| pair.1 * pair.1).sum();
        for elem in [Elem::I8, Elem::U64, Elem::Bf16, Elem::E4m3] {
            check(elem, &many, [6.0, squares, 9000.0]);
        }
        check(Elem::Bool, &[(1.0, 0.0), (1.0, 1.0)], [1.0, 1.0, 2.0]);
    }
}
