//! Integers that overflow: arithmetic wraps, coordinates far out of bounds stay there, and variables are as wide as their values.

use tilewright::prelude::*;
use tilewright_codegen::thread::Kernel;
use tilewright_codegen::{Generated, cuda};
use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::judge::prepare;
use tilewright_sim::{Options, run_every};
use tilewright_tests::inputs::inputs;
use tilewright_tests::overflow::*;
use tilewright_tests::{arithmetic, gallery, gathers, integers, overflow, sweep, types, views};

fn generated(def: &tilewright::KernelDef) -> Generated {
    def.generate().unwrap_or_else(|error| panic!("{error:?}"))
}

/// Runs a kernel on all pairs of numbers and compares its outputs.
#[track_caller]
fn check<T: tilewright::Element + PartialEq + std::fmt::Debug + Copy>(
    def: &tilewright::KernelDef,
    (x, y): (Vec<T>, Vec<T>),
    wanted: &[Operation<T>],
) {
    let n = x.len();
    let inputs = [Arg::tensor(&x, [n]), Arg::tensor(&y, [n])];
    let args: Vec<Arg> = inputs.into_iter().chain(wanted.iter().map(|_| Arg::output::<T>([n]))).collect();
    for outcome in
        run_every(&generated(def), &args, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
    {
        for (name, of) in wanted {
            for (got, (&x, &y)) in outcome.get::<T>(name).unwrap().into_iter().zip(x.iter().zip(&y)) {
                assert_eq!(got, of(x, y), "{name} of {x:?} and {y:?}");
            }
        }
    }
}

#[test]
fn arithmetic_wraps() {
    check(operations().def(), pairs(&EDGES), &SIGNED);
    check(unsigned().def(), pairs(&EDGES.map(|n| n as u32)), &UNSIGNED);
    // Operators where no result can overflow.
    let source = multiply_add().source().to_owned();
    assert!(source.contains("wrapping_mul(i_value & 65535, i_value & 65535)"), "{source}");
    let source = masked().source().to_owned();
    assert!(source.contains("(i_value & 255) * 7 + 3"), "{source}");
}

#[test]
fn positions_that_overflow_are_out_of_bounds() {
    let indices = [46341, 2, i32::MIN, 46340, -3];
    let v = 1000;
    let run = |def: &tilewright::KernelDef, of: &dyn Fn(i32) -> i32| {
        let mut wanted = vec![0.0f32; v];
        for position in indices.map(of) {
            if let Some(there) = usize::try_from(position).ok().and_then(|at| wanted.get_mut(at)) {
                *there = 1.0;
            }
        }
        let args = [Arg::tensor(&indices, [indices.len()]), Arg::in_out(&vec![0.0f32; v], [v])];
        for outcome in
            run_every(&generated(def), &args, &Options::default()).unwrap_or_else(|error| panic!("{error}"))
        {
            assert_eq!(outcome.get::<f32>("y").unwrap(), wanted);
        }
    };
    run(square().def(), &|i| i.wrapping_mul(i));
    run(square_hash().def(), &|i| i.wrapping_mul(i) % v as i32);
    run(magnitude().def(), &|i| i.wrapping_abs());
    run(absolute().def(), &|i| i.wrapping_abs());
    run(bits_of_sign().def(), &|i| i.wrapping_abs());
    run(sign_added().def(), &|i| i.wrapping_abs());
    run(complement().def(), &|i| i.wrapping_abs());
    run(unsigned_opposite().def(), &|i| i.wrapping_abs());
    run(by_sign().def(), &|i| i.wrapping_abs());
    run(least().def(), &|i| i.wrapping_abs());
    run(difference().def(), &|i| if i > 5 { i.wrapping_add(100) } else { 5i32.wrapping_sub(i) });
}

/// The coordinates of elements of tiles that may be anywhere, as numbers of two types.
#[kernel(allow(uncoalesced))]
fn located(
    ids: &Tensor<i32, I>,
    x: &Tensor<f32, N>,
    y: &mut Tensor<f32, (I, _64)>,
    z: &mut Tensor<i32, (I, _64)>,
) {
    let i = ids[(block.x)];
    let x = regroup(tile(x, 64, i), (1, 64));
    let (y, z) = (tile(y, (1, 64), (block.x, 0)), tile(z, (1, 64), (block.x, 0)));
    copy(map(x, |x, at| x + at.0 as f32), y);
    copy(map(x, |x, at| at.0), z);
}

#[test]
fn coordinates_among_elements_wrap_whatever_they_become() {
    let ids = [0, 1, i32::MAX, i32::MIN, 1 << 26, -(1 << 26) - 1];
    let args = [
        Arg::tensor(&ids, [ids.len()]),
        Arg::tensor(&[0.0f32; 100], [100]),
        Arg::output::<f32>([ids.len(), 64]),
        Arg::output::<i32>([ids.len(), 64]),
    ];
    for outcome in run_every(&generated(located().def()), &args, &Options::default()).unwrap() {
        let (y, z) = (outcome.get::<f32>("y").unwrap(), outcome.get::<i32>("z").unwrap());
        for (at, (y, z)) in y.into_iter().zip(z).enumerate() {
            let wanted = ids[at % ids.len()].wrapping_mul(64).wrapping_add((at / ids.len()) as i32);
            assert_eq!((y, z), (wanted as f32, wanted), "element {at}");
        }
    }
}

#[test]
fn bulk_copies_far_out_of_bounds_read_zeros() {
    let ids = [1, i32::MIN, 67_108_864, -67_108_864, 67_108_865, i32::MAX, 0, -1, 2];
    let a: Vec<f32> = (0..128).map(|n| n as f32 + 1.0).collect();
    let wanted: Vec<f32> = ids
        .iter()
        .flat_map(|&id| {
            (0..64).map(move |n| if (0..2).contains(&id) { (id * 64 + n) as f32 + 1.0 } else { 0.0 })
        })
        .collect();
    let args = [
        Arg::tensor(&a, [1, 128]).strides([128, 1]),
        Arg::tensor(&ids, [ids.len()]),
        Arg::in_out(&vec![-1.0f32; ids.len() * 128], [ids.len(), 128]).strides([128, 1]),
    ];
    let kernel = generated(tiles_by_number().def());
    assert!(kernel.source().contains("bulk_load"), "{}", kernel.source());
    for outcome in run_every(&kernel, &args, &Options::default()).unwrap_or_else(|error| panic!("{error}")) {
        let c = outcome.get::<f32>("c").unwrap();
        let got: Vec<f32> = c.chunks(128).flat_map(|row| row[..64].to_vec()).collect();
        assert_eq!(got, wanted, "variant {}", outcome.variant() + 1);
    }
}

/// Every variable of 64 bits, declared with 32, is detected without a run.
#[track_caller]
fn narrowed(name: &str, kernel: &Kernel) -> usize {
    kernel.check_widths().unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
    let mut result = 0;
    for (id, var) in kernel.vars.iter().enumerate().filter(|(_, var)| var.wide) {
        let mut changed = kernel.clone();
        changed.vars[id].wide = false;
        match changed.check_widths() {
            Err(wrong) => assert!(
                wrong.to_string().contains(&format!("the variable `{}`", var.name)),
                "{name}: {wrong}"
            ),
            // No statement is left that sets it: reads without effect are removed.
            Ok(()) if cuda::print(&changed) == cuda::print(kernel) => continue,
            Ok(()) => panic!("{name}: `{}` with 32 bits is not found", var.name),
        }
        result += 1;
    }
    result
}

#[test]
fn variables_are_as_wide_as_their_values() {
    let own =
        [overflow::all(), integers::all(), views::all(), gathers::all(), arithmetic::all(), types::all()]
            .concat();
    let own: Vec<_> = own.into_iter().map(|(name, def)| (name.to_owned(), generated(&def))).collect();
    let mut result = 0;
    let far = generated(overflow::quotients_to_the_greatest().def());
    for variant in &far.variants {
        assert!(narrowed("quotients_to_the_greatest", &variant.program) > 0);
    }
    for (name, kernel) in own.iter().chain(gallery::all()) {
        result += kernel.variants.iter().map(|variant| narrowed(name, &variant.program)).sum::<usize>();
    }
    for seed in sweep::share(0..60, 3) {
        for definition in [Kind::Parts.kernel(seed), Kind::Whole.kernel(seed)] {
            let Ok((_, kernel)) = prepare(&definition) else { continue };
            let of = |kernel: &Generated| {
                let each =
                    kernel.variants.iter().map(|variant| narrowed(&format!("seed {seed}"), &variant.program));
                each.sum::<usize>()
            };
            result += of(&kernel);
        }
    }
    assert!(result > 100, "{result}");
}

/// Sums that may be no `i32` decide which number is stored, and whether a statement runs.
#[kernel(threads = 32)]
fn decided_by_sums(
    x: &Tensor<i32, N>,
    y: &Tensor<i32, N>,
    chosen: &mut Tensor<i32, N>,
    run: &mut Tensor<i32, N>,
    far: &mut Tensor<i32, N>,
    s: i32,
) {
    let (x, y) = (tile(x, 1, block.x), tile(y, 1, block.x));
    copy(if x + y >= 0 { x } else { y }, tile(chosen, 1, block.x));
    copy(if x + y == 4294967294 { x } else { x - x + s }, tile(far, 1, block.x));
    let v = full::<i32>(1, 0);
    copy(y, v);
    if x + y >= 0 {
        copy(x, v);
    }
    copy(v, tile(run, 1, block.x));
}

#[test]
fn integers_are_compared_exactly_among_elements_too() {
    let edge = |at: usize| f64::from(EDGES[at % EDGES.len()]);
    let n = EDGES.len() * EDGES.len();
    inputs(decided_by_sums().def())
        .set("s = 5")
        .indexed("x", move |at, _| edge(at))
        .indexed("y", move |at, _| edge(at / EDGES.len()))
        .written([&*format!("N = {n}")]);
}
