//! Every variant of every kernel of the gallery, on sizes that tiles divide and on sizes that they do not, in
//! tensors with and without gaps, at aligned and unaligned addresses, against results in integers or in
//! double precision.

use std::sync::atomic::{AtomicU32, Ordering};

use tilewright::runtime::Built;
use tilewright_codegen::Generated;
use tilewright_codegen::launch::{Limits, plan};
use tilewright_tests::problem::{self, Problem, Setting, Values};
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

/// A kernel of the gallery, each variant as a kernel of its own, and how often each ran.
struct Tested {
    name: &'static str,
    kernel: &'static Generated,
    variants: Vec<Built>,
    ran: Vec<AtomicU32>,
}

#[test]
fn every_variant_computes_what_it_should() {
    let Some(stream) = stream() else { return };
    let tested = |(name, kernel): &'static (String, Generated)| {
        let variants = device_run::variants(kernel);
        let ran = variants.iter().map(|_| AtomicU32::new(0)).collect();
        Tested { name, kernel, variants, ran }
    };
    let mut kernels: Vec<Tested> = gallery::all().iter().map(tested).collect();
    // Kernels with many variants begin first, so that no core is left with one of them at the end.
    kernels.sort_by_key(|tested| std::cmp::Reverse(tested.variants.len()));
    let jobs: Vec<(&Tested, Size)> = kernels
        .iter()
        .flat_map(|tested| sizes(tested.kernel).into_iter().map(move |size| (tested, size)))
        .collect();
    let next = AtomicU32::new(0);
    let mut wrong = by_all_cores(&jobs, |(tested, size)| {
        tested.faults(*size, next.fetch_add(1, Ordering::Relaxed) as usize)
    })
    .concat();
    for tested in &kernels {
        let ran: Vec<u32> = tested.ran.iter().map(|ran| ran.load(Ordering::Relaxed)).collect();
        eprintln!("{}: its variants ran {ran:?} times", tested.name);
        for (index, variant) in tested.variants.iter().enumerate() {
            if ran[index] == 0 && device_run::runs_here(&stream, variant) {
                wrong.push(format!("{}, variant {}: it never ran", tested.name, index + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

impl Tested {
    /// The wrong results of all variants for one size. Threads begin with different variants, so that they compile different ones.
    fn faults(&self, size: Size, first: usize) -> Vec<String> {
        let stream = stream().expect("a device");
        let reference = problem::reference(self.kernel).expect("a reference");
        let problem = with_size(self.kernel, size, |setting| Problem::with(self.kernel, setting, reference));
        let mut wrong = Vec::new();
        let count = self.variants.len();
        for index in (0..count).map(|variant| (variant + first * 7) % count) {
            let ran = match device_run::judge(&stream, &self.variants[index], &problem) {
                Ok(ran) => ran,
                Err(why) => {
                    wrong.push(format!("{}, variant {}, {size:?}: {why}", self.name, index + 1));
                    true
                }
            };
            self.ran[index].fetch_add(u32::from(ran), Ordering::Relaxed);
        }
        wrong
    }
}

/// M, N, K, and a gap and an offset.
type Size = ([usize; 3], Padding);

/// All sizes with all gaps and offsets.
fn sizes(kernel: &Generated) -> Vec<Size> {
    let is_product = kernel.params.iter().any(|param| param.name == "c");
    let rows = if is_product { &[][..] } else { &ROWS[..] };
    let are_vectors = kernel.params.iter().all(|param| param.tensor.is_none_or(|(_, modes)| modes == 1));
    let vectors = if are_vectors { &VECTORS[..] } else { &[] };
    let sizes = rows.iter().chain(vectors).chain(&SIZES);
    sizes.flat_map(|&size| PADDINGS.map(|padding| (size, padding))).collect()
}

/// A result for one of these sizes.
fn with_size<T>(kernel: &Generated, ([m, n, k], padding): Size, result: impl FnOnce(&Setting) -> T) -> T {
    let is_product = kernel.params.iter().any(|param| param.name == "c");
    let all = [("M", m), ("N", n), ("K", k), ("L", if is_product { BATCHES } else { PLANES })];
    let sizes = &problem::sizes_for(kernel, &all);
    let (paddings, values) = (&[padding], Values::Whole);
    result(&Setting { sizes, paddings, values, seed: 1, alpha: 0.5, beta: 2.0 })
}

/// Every kernel of the gallery needs a reference, and every variant a size that it accepts.
#[test]
fn every_variant_has_a_reference_and_a_size() {
    for (name, kernel) in gallery::all() {
        assert!(problem::reference(kernel).is_some(), "{name}: say in `problem::reference` what it computes");
        let shapes = |size| with_size(kernel, size, |setting| Problem::shapes(kernel, setting));
        let given: Vec<_> = sizes(kernel).into_iter().map(shapes).collect();
        for (index, variant) in device_run::variants(kernel).iter().enumerate() {
            let suits = |given: &Vec<_>| plan(variant.generated(), given, &Limits::HOPPER).is_ok();
            assert!(given.iter().any(suits), "{name}, variant {}: no size suits it", index + 1);
        }
    }
}
