//! Every variant of every kernel of the gallery, on sizes that tiles divide and on sizes that they do not, in
//! tensors with and without gaps, at aligned and unaligned addresses, against results in integers or in
//! double precision.

use tilewright_codegen::Generated;
use tilewright_codegen::launch::{Limits, plan};
use tilewright_tests::problem::{self, Problem, Reference, Setting, Values};
use tilewright_tests::tensor::Padding;
use tilewright_tests::{by_all_cores, gallery};

use super::{device_run, stream};

/// M, N, K.
const SIZES: [[usize; 3]; 11] = [
    [256, 256, 128],
    [128, 384, 64],
    [64, 512, 64],
    [256, 960, 64],
    [384, 1344, 128],
    [100, 77, 33],
    [129, 257, 65],
    [1, 1, 1],
    [3, 200, 5],
    [260, 132, 36],
    [960, 64, 256],
];
/// M and N of kernels that normalise rows.
const ROWS: [[usize; 3]; 8] = [
    [4, 1024, 1],
    [3, 5000, 1],
    [7, 1, 1],
    [5, 1023, 1],
    [2, 4096, 1],
    [2, 4352, 1],
    [2, 8192, 1],
    [2, 65536, 1],
];
/// N of kernels of vectors: all blocks of a grid of a fixed size have whole tiles.
const VECTORS: [[usize; 3]; 1] = [[1, 132 * 16384, 1]];
const BATCHES: usize = 3;
/// Planes and heads of other kernels.
const PLANES: usize = 8;
/// The gap after each row, and the offset of the first element from an aligned address.
const PADDINGS: [Padding; 4] =
    [Padding::new(0, 0), Padding::new(8, 0), Padding::new(4, 4), Padding::new(3, 1)];

#[test]
fn every_variant_computes_what_it_should() {
    if stream().is_none() {
        return;
    }
    let wrong = by_all_cores(gallery::all(), |(name, kernel)| faults(name, kernel)).concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The wrong results of a kernel's variants, and the variants that never ran.
fn faults(name: &str, kernel: &Generated) -> Vec<String> {
    let stream = stream().expect("a device");
    let mut wrong = Vec::new();
    let variants = device_run::variants(kernel);
    let mut ran = vec![0; variants.len()];
    let reference = problem::reference(kernel).expect("a reference");
    for (what, problem) in problems(kernel, reference) {
        for (index, variant) in variants.iter().enumerate() {
            match device_run::judge(&stream, variant, &problem) {
                Ok(true) => ran[index] += 1,
                Ok(false) => {}
                Err(why) => {
                    ran[index] += 1;
                    wrong.push(format!("{name}, variant {}, {what}: {why}", index + 1));
                }
            }
        }
    }
    eprintln!("{name}: its variants ran {ran:?} times");
    for (index, variant) in variants.iter().enumerate() {
        if ran[index] == 0 && device_run::runs_here(&stream, variant) {
            wrong.push(format!("{name}, variant {}: it never ran", index + 1));
        }
    }
    wrong
}

/// All sizes with all gaps and offsets.
fn problems(kernel: &Generated, reference: Reference) -> impl Iterator<Item = (String, Problem)> + '_ {
    each_setting(kernel, move |what, setting| (what, Problem::with(kernel, &setting, reference)))
}

/// A result for each of these sizes, gaps and offsets.
fn each_setting<'k, T: 'k>(
    kernel: &'k Generated,
    result: impl Fn(String, Setting) -> T + Copy + 'k,
) -> impl Iterator<Item = T> + 'k {
    let is_product = kernel.params.iter().any(|param| param.name == "c");
    let rows = if is_product { &[][..] } else { &ROWS[..] };
    let batches = if is_product { BATCHES } else { PLANES };
    let are_vectors = kernel.params.iter().all(|param| param.tensor.is_none_or(|(_, modes)| modes == 1));
    let vectors = if are_vectors { &VECTORS[..] } else { &[] };
    rows.iter().chain(vectors).chain(&SIZES).flat_map(move |&[m, n, k]| {
        PADDINGS.map(|padding| {
            let sizes = &[("M", m), ("N", n), ("K", k), ("L", batches)];
            let (paddings, values) = (&[padding], Values::Whole);
            let setting = Setting { sizes, paddings, values, seed: 1, alpha: 0.5, beta: 2.0 };
            result(format!("{m}x{n}x{k}, {padding:?}"), setting)
        })
    })
}

/// Every kernel of the gallery needs a reference, and every variant a size that it accepts.
#[test]
fn every_variant_has_a_reference_and_a_size() {
    for (name, kernel) in gallery::all() {
        assert!(problem::reference(kernel).is_some(), "{name}: say in `problem::reference` what it computes");
        let given: Vec<_> = each_setting(kernel, |_, setting| Problem::shapes(kernel, &setting)).collect();
        for (index, variant) in device_run::variants(kernel).iter().enumerate() {
            let suits = |given: &Vec<_>| plan(variant.generated(), given, &Limits::HOPPER).is_ok();
            assert!(given.iter().any(suits), "{name}, variant {}: no size suits it", index + 1);
        }
    }
}
