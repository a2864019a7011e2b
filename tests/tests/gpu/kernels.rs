//! Every variant of every kernel of the gallery, on sizes that tiles divide and on sizes that they do not, in tensors with
//! and without gaps, at aligned addresses and others, against results in whole numbers or 64 bits.
#![allow(unsafe_code)]

use std::collections::HashMap;

use tilewright::runtime::{Built, Error};
use tilewright::{Argument, DeviceTensor, Elem, Stream, TensorMut, TensorRef, bf16, f16};
use tilewright_codegen::Generated;
use tilewright_codegen::thread::Param;
use tilewright_tests::gallery;

use super::number::{Number, whole};
use super::stream;

/// M, N, K.
const SIZES: [[usize; 3]; 9] = [
    [256, 256, 128],
    [128, 384, 64],
    [64, 512, 64],
    [100, 77, 33],
    [129, 257, 65],
    [1, 1, 1],
    [3, 200, 5],
    [260, 132, 36],
    [192, 64, 256],
];
const BATCHES: usize = 3;
/// Elements of a gap behind each row, and how far the first element is from the start of its allocation.
const PLACES: [(usize, usize); 4] = [(0, 0), (8, 0), (4, 4), (3, 1)];

#[test]
fn every_variant_computes_what_it_should() {
    let Some(stream) = stream() else { return };
    let (mut wrong, mut references) = (Vec::new(), HashMap::new());
    for (name, kernel) in gallery::all() {
        let mut ran = 0;
        for place in 0..kernel.variants.len() {
            let alone = Generated { variants: vec![kernel.variants[place].clone()], ..kernel.clone() };
            // SAFETY: the variant is as it was generated.
            let built = unsafe { Built::new(alone) };
            let counted = match judge(&stream, &built, &mut references) {
                Ok(counted) => counted,
                Err(why) => {
                    wrong.push(format!("{name}, variant {}: {why}", place + 1));
                    continue;
                }
            };
            eprintln!("{name}, variant {}: right {counted} times", place + 1);
            ran += counted;
        }
        let arch = stream.device().properties().arch();
        let here = kernel.variants.iter().any(|variant| {
            let program = &variant.program;
            program.arch <= arch && (!program.arch_specific || program.arch == arch)
        });
        if ran == 0 && here {
            wrong.push(format!("{name}: no variant ran"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Which kernel of the gallery this test has no result for: it needs one.
#[test]
fn every_kernel_has_a_reference() {
    for (name, kernel) in gallery::all() {
        assert!(kind(&kernel).is_some(), "{name}: say in `kind` what it computes");
    }
}

enum Kind {
    /// C = A·Bᵀ, or C = alpha·A·Bᵀ + beta·C, perhaps in batches.
    Product,
    Softmax,
}

fn kind(kernel: &Generated) -> Option<Kind> {
    let names: Vec<&str> = kernel.params.iter().map(|param| &*param.name).collect();
    match (&*kernel.name, &names[..]) {
        (_, ["a", "b", "c"] | ["a", "b", "c", "alpha", "beta"]) => Some(Kind::Product),
        ("softmax", ["x", "y"]) => Some(Kind::Softmax),
        _ => None,
    }
}

/// Products of whole numbers by sizes, batches and whether the numbers have signs.
type References = HashMap<([usize; 3], usize, bool), Vec<i64>>;

/// How many launches were right, or what was wrong with the first that was not.
fn judge(stream: &Stream, kernel: &Built, references: &mut References) -> Result<usize, String> {
    let params = &kernel.generated().params;
    macro_rules! products {
        ($($a:ident $a_ty:ty, $c:ident $c_ty:ty;)*) => {
            match (params[0].elem, params[2].elem) {
                $((Elem::$a, Elem::$c) => products::<$a_ty, $c_ty>(stream, kernel, references),)*
                (a, c) => Err(format!("products of {a} into {c} are not tested")),
            }
        };
    }
    match kind(kernel.generated()) {
        Some(Kind::Softmax) => softmax(stream, kernel),
        Some(Kind::Product) => products! {
            F64 f64, F64 f64;
            F32 f32, F32 f32;
            F16 f16, F16 f16;
            F16 f16, F32 f32;
            Bf16 bf16, Bf16 bf16;
            Bf16 bf16, F32 f32;
            I32 i32, I32 i32;
            U32 u32, U32 u32;
            I8 i8, I32 i32;
            U8 u8, I32 i32;
        },
        None => Err("there is no reference".into()),
    }
}

/// Numbers that are stored somewhere: with a gap behind each run along the contiguous mode, from an offset on.
struct Stored {
    extents: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
    len: usize,
}

impl Stored {
    /// As the kernel's parameter wants it: contiguous along the mode whose stride is 1.
    fn of(kernel: &Generated, name: &str, extents: &[usize], (gap, offset): (usize, usize)) -> Stored {
        let params = &kernel.variants[0].program.params;
        let find = |param: &Param| match param {
            Param::Pointer { name: of, stride, .. } if of == name => {
                stride.iter().position(|stride| stride.int() == Some(1))
            }
            _ => None,
        };
        let contiguous = params.iter().find_map(find).expect("a contiguous mode");
        let mut strides = vec![0; extents.len()];
        strides[contiguous] = 1;
        let mut stride = extents[contiguous] + gap;
        for mode in (0..extents.len()).filter(|mode| *mode != contiguous) {
            strides[mode] = stride;
            stride *= extents[mode];
        }
        Stored { extents: extents.to_vec(), strides, offset, len: offset + stride }
    }

    /// Where each element is, the first mode running fastest.
    fn places(&self) -> Vec<usize> {
        let mut places = vec![self.offset];
        for (extent, stride) in self.extents.iter().zip(&self.strides) {
            places =
                (0..*extent).flat_map(|at| places.iter().map(move |place| place + at * stride)).collect();
        }
        places
    }

    /// The elements among others that are poison.
    fn filled<T: Number>(&self, stream: &Stream, values: impl Iterator<Item = f64>) -> DeviceTensor<T, 1> {
        let poison =
            DeviceTensor::<T, 1>::poisoned(stream, [1]).and_then(|one| one.to_host()).expect("poison");
        let mut all = vec![poison[0]; self.len];
        for (place, value) in self.places().into_iter().zip(values) {
            all[place] = T::of(value);
        }
        DeviceTensor::from_host(stream, [self.len], &all).expect("a tensor")
    }

    fn lent<'a, T: Number>(&self, tensor: &'a DeviceTensor<T, 1>) -> Argument<'a> {
        fn of<'a, T: Number, const R: usize>(
            stored: &Stored,
            tensor: &'a DeviceTensor<T, 1>,
        ) -> Argument<'a> {
            let view = tensor.view().reshaped(array::<R>(&stored.extents), array::<R>(&stored.strides));
            TensorRef::offset(view, stored.offset).into()
        }
        match self.extents.len() {
            2 => of::<T, 2>(self, tensor),
            _ => of::<T, 3>(self, tensor),
        }
    }

    fn lent_mut<'a, T: Number>(&self, tensor: &'a mut DeviceTensor<T, 1>) -> Argument<'a> {
        fn of<'a, T: Number, const R: usize>(
            stored: &Stored,
            tensor: &'a mut DeviceTensor<T, 1>,
        ) -> Argument<'a> {
            let view = tensor.view_mut().reshaped(array::<R>(&stored.extents), array::<R>(&stored.strides));
            TensorMut::offset(view, stored.offset).into()
        }
        match self.extents.len() {
            2 => of::<T, 2>(self, tensor),
            _ => of::<T, 3>(self, tensor),
        }
    }

    /// What is wrong with a result, if anything is: an element, or what lies between elements and must not be written.
    fn wrong<T: Number>(&self, got: &[T], wanted: impl Fn(usize, f64) -> Option<String>) -> Option<String> {
        let mut between = vec![true; self.len];
        for (element, place) in self.places().into_iter().enumerate() {
            between[place] = false;
            if let Some(why) = wanted(element, got[place].to()) {
                let (mut rest, mut at) = (element, Vec::new());
                for extent in &self.extents {
                    at.push(rest % extent);
                    rest /= extent;
                }
                return Some(format!("element {at:?} {why}"));
            }
        }
        let place = (0..self.len).find(|place| between[*place] && !got[*place].is_poison())?;
        Some(format!("it wrote between its elements, at {place} of {}", self.len))
    }
}

fn array<const R: usize>(values: &[usize]) -> [usize; R] {
    values.try_into().expect("as many modes as the tensor has")
}

/// Did the launch happen? A variant that does not fit the sizes or the device does not.
fn ran(stream: &Stream, kernel: &Built, arguments: &mut [Argument<'_>]) -> Result<bool, String> {
    match kernel.launch_with(stream, arguments) {
        Ok(launched) => Ok(launched.variant.is_some()),
        // Facts about sizes, alignment and the device blame no argument.
        Err(Error::Refused(refusal)) if refusal.argument().is_none() => Ok(false),
        Err(why) => Err(why.to_string()),
    }
}

/// All that is computed is a sum of sixteenths that 24 bits hold: results are right to the bit.
fn products<A: Number, C: Number>(
    stream: &Stream,
    kernel: &Built,
    references: &mut References,
) -> Result<usize, String> {
    let (is_float, is_signed) = (A::ELEM.is_float(), A::of(-1.0).to() < 0.0);
    let unit = if is_float { 1.0 / 16.0 } else { 1.0 };
    let signed = |x: i64| if is_signed { x - 8 } else { x };
    let rank = kernel.generated().params[0].tensor.expect("a tensor").1;
    let batches = if rank == 3 { BATCHES } else { 1 };
    let scaled = kernel.generated().params.len() == 5;
    let mut right = 0;
    for [m, n, k] in SIZES {
        let numbers = |rows: usize, seed: u64| -> Vec<i64> {
            whole(rows * k * batches, seed).into_iter().map(signed).collect()
        };
        let (a, b) = (numbers(m, 1), numbers(n, 2));
        let old: Vec<i64> = whole(m * n * batches, 3).into_iter().map(signed).collect();
        let sums = references.entry(([m, n, k], batches, is_signed)).or_insert_with(|| {
            let mut sums = vec![0; m * n * batches];
            for l in 0..batches {
                for depth in 0..k {
                    for column in 0..n {
                        let factor = b[(l * k + depth) * n + column];
                        for row in 0..m {
                            sums[(l * n + column) * m + row] += a[(l * k + depth) * m + row] * factor;
                        }
                    }
                }
            }
            sums
        });
        for place in PLACES {
            let extents = |modes: [usize; 2]| [&modes[..], if rank == 3 { &[BATCHES] } else { &[] }].concat();
            let stored = |name, modes| Stored::of(kernel.generated(), name, &extents(modes), place);
            let (sa, sb, sc) = (stored("a", [m, k]), stored("b", [n, k]), stored("c", [m, n]));
            let real =
                |values: &[i64], unit: f64| values.iter().map(|x| *x as f64 * unit).collect::<Vec<_>>();
            let ta = sa.filled::<A>(stream, real(&a, unit).into_iter());
            let tb = sb.filled::<A>(stream, real(&b, unit).into_iter());
            let start = if scaled { real(&old, unit) } else { Vec::new() };
            let mut tc = sc.filled::<C>(stream, start.iter().copied());
            let mut arguments = vec![sa.lent(&ta), sb.lent(&tb), sc.lent_mut(&mut tc)];
            if scaled {
                let elem = kernel.generated().params[3].elem;
                arguments.extend([0.5, 2.0].map(|value| scalar(elem, value)));
            }
            if !ran(stream, kernel, &mut arguments)? {
                continue;
            }
            drop(arguments);
            let got = tc.to_host_stored().map_err(|why| why.to_string())?;
            let wanted = |element: usize, got: f64| {
                let sum = sums[element] as f64 * unit * unit;
                let value = if scaled { 0.5 * sum + 2.0 * start[element] } else { sum };
                let wanted = C::of(value).to();
                (got != wanted).then(|| format!("is {got}, and {wanted} is right"))
            };
            if let Some(why) = sc.wrong(&got, wanted) {
                return Err(format!("{m}x{n}x{k}, gap and offset {place:?}: {why}"));
            }
            right += 1;
        }
    }
    Ok(right)
}

fn scalar(elem: Elem, value: f64) -> Argument<'static> {
    match elem {
        Elem::F64 => Argument::scalar(value),
        Elem::I32 => Argument::scalar(value as i32),
        _ => Argument::scalar(value as f32),
    }
}

fn softmax(stream: &Stream, kernel: &Built) -> Result<usize, String> {
    let mut right = 0;
    for [rows, columns] in [[4, 1024], [3, 5000], [7, 1], [5, 1023], [2, 4096]] {
        let x: Vec<f64> = whole(rows * columns, 5).into_iter().map(|x| x as f64 / 4.0 - 2.0).collect();
        let mut wanted = vec![0.0; rows * columns];
        for row in 0..rows {
            let each = || (0..columns).map(|column| column * rows + row);
            let most = each().map(|at| x[at]).fold(f64::MIN, f64::max);
            let total: f64 = each().map(|at| (x[at] - most).exp()).sum();
            each().for_each(|at| wanted[at] = (x[at] - most).exp() / total);
        }
        for place in PLACES {
            let stored = |name| Stored::of(kernel.generated(), name, &[rows, columns], place);
            let (sx, sy) = (stored("x"), stored("y"));
            let tx = sx.filled::<f32>(stream, x.iter().copied());
            let mut ty = sy.filled::<f32>(stream, std::iter::empty());
            if !ran(stream, kernel, &mut [sx.lent(&tx), sy.lent_mut(&mut ty)])? {
                continue;
            }
            let got = ty.to_host_stored().map_err(|why| why.to_string())?;
            let near = |element: usize, got: f64| {
                let wanted = wanted[element];
                let is_near = (got - wanted).abs() <= 1e-5 * wanted + 1e-9;
                (!is_near).then(|| format!("is {got}, and {wanted} is right"))
            };
            if let Some(why) = sy.wrong(&got, near) {
                return Err(format!("{rows}x{columns}, gap and offset {place:?}: {why}"));
            }
            right += 1;
        }
    }
    Ok(right)
}
