//! Every kernel of the gallery in the simulator: every variant whose facts hold, on sizes that tiles divide and on others,
//! in several schedules, against sums in double precision.

use tilewright_codegen::element::{bf16, f16};
use tilewright_codegen::thread::{Kernel, Param};
use tilewright_codegen::{Elem, Generated};
use tilewright_layout::{Symbol, Value};
use tilewright_sim::{Arg, Error, Options, Outcome, run_every};
use tilewright_tests::gallery;

/// Extents by name, and how much longer than its rows or columns every leading dimension is.
struct Size {
    extents: &'static [(&'static str, usize)],
    pad: usize,
}

const SIZES: [Size; 4] = [
    Size { extents: &[("M", 128), ("N", 128), ("K", 64), ("L", 2)], pad: 0 },
    Size { extents: &[("M", 130), ("N", 67), ("K", 45), ("L", 2)], pad: 3 },
    Size { extents: &[("M", 72), ("N", 136), ("K", 16), ("L", 1)], pad: 8 },
    Size { extents: &[("M", 1), ("N", 1), ("K", 1), ("L", 1)], pad: 0 },
];

/// A tensor with numbers that every type holds and whose sums are exact.
struct Matrix {
    extents: Vec<usize>,
    strides: Vec<usize>,
    values: Vec<f64>,
}

impl Matrix {
    fn new(shape: &[Value], stride: &[Value], size: &Size, seed: u64) -> Matrix {
        let lookup = |symbol: Symbol| {
            let known = size.extents.iter().find(|known| known.0 == symbol.name());
            known.map(|known| known.1 as i64)
        };
        let extents: Vec<usize> =
            shape.iter().map(|extent| extent.evaluate(&lookup).unwrap_or(7) as usize).collect();
        let mut strides = vec![1; extents.len()];
        let mut next = 1;
        // The mode with stride 1 first, then the others in order.
        let mut order: Vec<usize> = (0..extents.len()).collect();
        order.sort_by_key(|&mode| stride[mode] != Value::Int(1));
        for (place, &mode) in order.iter().enumerate() {
            strides[mode] = next;
            next *= extents[mode] + if place == 0 { size.pad } else { 0 };
        }
        let len = extents.iter().zip(&strides).map(|(n, d)| (n - 1) * d).sum::<usize>() + 1;
        let mut state = seed;
        let values = (0..len).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % 9) as f64 - 4.0
        });
        Matrix { extents, strides, values: values.collect() }
    }

    fn place(&self, coordinate: &[usize]) -> usize {
        coordinate.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum()
    }

    fn at(&self, coordinate: &[usize]) -> f64 {
        self.values[self.place(coordinate)]
    }

    fn arg(&self, elem: Elem, write: bool) -> Arg {
        macro_rules! of {
            ($ty:ty, $make:expr) => {{
                let data: Vec<$ty> = self.values.iter().map($make).collect();
                let extents = self.extents.clone();
                if write { Arg::in_out(&data, extents) } else { Arg::tensor(&data, extents) }
            }};
        }
        let arg = match elem {
            Elem::F64 => of!(f64, |&x| x),
            Elem::F32 => of!(f32, |&x| x as f32),
            Elem::F16 => of!(f16, |&x| f16::from_f32(x as f32)),
            Elem::Bf16 => of!(bf16, |&x| bf16::from_f32(x as f32)),
            Elem::I32 => of!(i32, |&x| x as i32),
            Elem::U32 => of!(u32, |&x| x as u32),
            Elem::I8 => of!(i8, |&x| x as i8),
            _ => of!(u8, |&x| x as u8),
        };
        arg.strides(self.strides.clone())
    }
}

/// A result as numbers.
fn numbers(outcome: &Outcome, name: &str, elem: Elem) -> Result<Vec<f64>, Error> {
    Ok(match elem {
        Elem::F64 => outcome.get::<f64>(name)?,
        Elem::F32 => outcome.get::<f32>(name)?.into_iter().map(f64::from).collect(),
        Elem::F16 => outcome.get::<f16>(name)?.into_iter().map(|x| f64::from(x.to_f32())).collect(),
        Elem::Bf16 => outcome.get::<bf16>(name)?.into_iter().map(|x| f64::from(x.to_f32())).collect(),
        Elem::I32 => outcome.get::<i32>(name)?.into_iter().map(f64::from).collect(),
        other => panic!("no kernel of the gallery writes {other}"),
    })
}

fn rounded(x: f64, elem: Elem) -> f64 {
    match elem {
        Elem::F16 => f64::from(f16::from_f32(x as f32).to_f32()),
        Elem::Bf16 => f64::from(bf16::from_f32(x as f32).to_f32()),
        _ => x,
    }
}

const ALPHA: f32 = 0.5;
const BETA: f32 = 2.0;

/// What every element of the result must be.
type Reference = dyn Fn(&[Matrix], &[usize]) -> f64;

fn product(scaled: bool) -> Box<Reference> {
    Box::new(move |all, at| {
        let [a, b, c] = all else { panic!("three matrices") };
        let row = |matrix: &Matrix, row: usize| {
            let batch: usize = at[2..].iter().zip(&matrix.strides[2..]).map(|(at, stride)| at * stride).sum();
            row * matrix.strides[0] + batch
        };
        let (in_a, in_b) = (row(a, at[0]), row(b, at[1]));
        let mut sum = 0.0;
        for k in 0..a.extents[1] {
            sum += a.values[in_a + k * a.strides[1]] * b.values[in_b + k * b.strides[1]];
        }
        if scaled { f64::from(ALPHA) * sum + f64::from(BETA) * c.at(at) } else { sum }
    })
}

fn softmax(all: &[Matrix], at: &[usize]) -> f64 {
    let row: Vec<f64> = (0..all[0].extents[1]).map(|n| all[0].at(&[at[0], n])).collect();
    let most = row.iter().copied().fold(f64::MIN, f64::max);
    (row[at[1]] - most).exp() / row.iter().map(|x| (x - most).exp()).sum::<f64>()
}

fn every(extents: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..extents.iter().product()).map(|n: usize| {
        let mut rest = n;
        extents
            .iter()
            .map(|extent| {
                let at = rest % extent;
                rest /= extent;
                at
            })
            .collect()
    })
}

fn check(name: &str, kernel: &Generated, size: &Size, options: &Options) -> usize {
    let program: &Kernel = &kernel.variants[0].program;
    let (mut args, mut matrices, mut result) = (Vec::new(), Vec::new(), None);
    let mut scaled = false;
    for (place, param) in program.params.iter().take(kernel.params.len()).enumerate() {
        match param {
            Param::Pointer { name, elem, write, shape, stride } => {
                let matrix = Matrix::new(shape, stride, size, place as u64 + 1);
                args.push(matrix.arg(*elem, *write));
                matrices.push(matrix);
                if *write {
                    result = Some((name.clone(), *elem, matrices.len() - 1));
                }
            }
            Param::Scalar { name, .. } => {
                scaled = true;
                args.push(Arg::number(if name == "alpha" { ALPHA } else { BETA }));
            }
            _ => {}
        }
    }
    let (array, elem, at) = result.expect("a result");
    let within = if name == "softmax" { 1e-6 } else { 0.0 };
    let reference: Box<Reference> = if name == "softmax" { Box::new(softmax) } else { product(scaled) };
    let outcomes = match run_every(kernel, &args, options) {
        Ok(outcomes) => outcomes,
        // Bulk copies want rows at multiples of 16 bytes, and there is no other variant.
        Err(Error::Refused(_)) if name == "wgmma_ring" => return 0,
        Err(error) => panic!("{name} with {:?}: {error}", size.extents),
    };
    let matrix = &matrices[at];
    let wanted: Vec<(Vec<usize>, f64)> = every(&matrix.extents)
        .map(|coordinate| {
            let wanted = rounded(reference(&matrices, &coordinate), elem);
            (coordinate, wanted)
        })
        .collect();
    for outcome in &outcomes {
        let got = numbers(outcome, &array, elem).unwrap();
        for (coordinate, wanted) in &wanted {
            let found = got[matrix.place(coordinate)];
            assert!(
                (found - wanted).abs() <= within,
                "{name}, variant {}, {:?}: {coordinate:?} is {found}, and {wanted} is right",
                outcome.variant() + 1,
                size.extents
            );
        }
    }
    outcomes.len()
}

#[test]
fn the_gallery_computes_what_it_says() {
    for (name, kernel) in gallery::all() {
        let mut ran = 0;
        for (place, size) in SIZES.iter().enumerate() {
            let options = Options {
                seed: place as u64,
                schedules: if place == 0 { 1 } else { 3 },
                ..Options::default()
            };
            ran += check(&name, &kernel, size, &options);
        }
        assert!(ran >= 1, "{name} never ran");
    }
}
