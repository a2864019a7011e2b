//! Every way in which a launch can be wrong, and its message.

mod checks;
mod hopper;
mod races;
mod words;

use tilewright_layout::{Tuple, Value as Size, layout};

use crate::build::Builder;
use crate::generate::generate;
use crate::launch::definition::Generated;
use crate::launch::*;
use crate::tile::Expr;
use crate::tile::view::At;
use crate::values::affine::{Affine, Arith};
use crate::values::elem::Elem;
use crate::values::operation::Bin;
use crate::words::{Kernels as _, Words};

fn sgemm() -> Generated {
    Words::read("bm=128 bn=128 bk=8 tc=(16,16)").and_then(Words::matmul).expect("a product")
}

fn tensor(elem: Elem, extents: &[i64], strides: &[i64], address: u64, mutable: bool) -> Tensor {
    let len = last_offset(extents.iter().copied().zip(strides.iter().copied())).max(-1) as i64 + 1;
    Tensor { elem, mutable, extents: extents.into(), strides: strides.into(), len: len as u64, address }
}

/// C = A·Bᵀ of 256, 128, 64.
fn right() -> [Tensor; 3] {
    [
        tensor(Elem::F32, &[256, 64], &[1, 256], 1 << 20, false),
        tensor(Elem::F32, &[128, 64], &[1, 128], 1 << 24, false),
        tensor(Elem::F32, &[256, 128], &[1, 256], 1 << 28, true),
    ]
}

#[track_caller]
fn check(change: impl Fn(&mut [Tensor; 3]), argument: Option<&str>, message: &str) {
    let mut tensors = right();
    change(&mut tensors);
    let given = tensors.map(Given::Tensor);
    let refusal = plan(&sgemm(), &given, &Limits::HOPPER).expect_err("a refusal");
    assert_eq!(refusal.to_string(), message);
    assert_eq!(refusal.argument(), argument);
}

#[test]
fn right_arguments_are_planned() {
    let given = right().map(Given::Tensor);
    let kernel = sgemm();
    let plan = plan(&kernel, &given, &Limits::HOPPER).expect("a plan");
    assert_eq!((plan.variant, plan.grid, plan.is_empty()), (0, [2, 1, 1], false));
    let sizes: Vec<_> = plan.symbols.iter().map(|(symbol, value)| (symbol.name(), *value)).collect();
    assert_eq!(sizes, [("M", 256), ("K", 64), ("lda", 256), ("N", 128), ("ldb", 128), ("ldc", 256)]);
    assert_eq!(plan.passed.len(), kernel.variants[0].program.params.len());
}

#[test]
fn other_sizes_take_another_variant_and_say_why() {
    let [mut a, mut b, mut c] = right();
    (a.extents[1], b.extents[1]) = (63, 63);
    c.extents[0] = 255;
    a.extents[0] = 255;
    b.address += 4;
    let kernel = sgemm();
    let plan = plan(&kernel, &[a, b, c].map(Given::Tensor), &Limits::HOPPER).expect("a plan");
    assert_eq!(plan.passed_over(&kernel), ["128 does not divide M, which is 255"]);
    assert!(plan.variant > 0);
}

/// The widths of integers among elements depend on sizes, and a launch checks that they fit 32 bits.
#[test]
fn integers_among_elements_fit_at_launch() {
    let mut b = Builder::new("product");
    let size = Size::symbol;
    let x = b.tensor("x", Elem::I32, Tuple::of([size("B").into(), size("H").into()]), None, false).unwrap();
    let y = b.tensor("y", Elem::I32, 32i64, None, true).unwrap();
    let (one, to) = (b.tile(&x, (32i64, 1i64), &[At::Index(0.into()), At::Index(0.into())]).unwrap(), y);
    let one = b.slice(&one, &[At::All, At::Index(0.into())]).unwrap();
    let (one, to) = (b.parallelize(&one, &layout!(32)).unwrap(), b.parallelize(&to, &layout!(32)).unwrap());
    let both = Affine::two(Arith::Mul, &size("B").into(), &size("H").into()).unwrap();
    let value = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::Index(Box::new(both))));
    b.map(&[one], &to, value).unwrap();
    let kernel = generate(b.finish()).kernel.unwrap();
    let planned = |extents: [i64; 2]| {
        let x = tensor(Elem::I32, &extents, &[1, extents[0]], 1 << 20, false);
        let y = tensor(Elem::I32, &[32], &[1], 1 << 50, true);
        plan(&kernel, &[x, y].map(Given::Tensor), &Limits::HOPPER).map(|plan| plan.grid)
    };
    assert_eq!(planned([46_340, 46_340]), Ok([1, 1, 1]));
    assert_eq!(
        planned([46_341, 46_341]).unwrap_err().to_string(),
        "the kernel asserts `B * H <= i32::MAX`: `H` is 46341, the extent 1 of `x`, `B` is 46341, the extent 0 of `x`"
    );
}

#[test]
fn tensors_without_elements_have_any_strides() {
    let [a, mut b, mut c] = right();
    // As many libraries have them, where a matrix has no rows.
    (b.extents[0], b.strides[1]) = (0, 0);
    (c.extents[1], c.strides) = (0, vec![0, 0]);
    let plan = plan(&sgemm(), &[a, b, c].map(Given::Tensor), &Limits::HOPPER).expect("a plan");
    assert!(plan.is_empty());
}

#[test]
fn zero_extents_need_no_launch_where_no_element_is_written() {
    let [mut a, b, mut c] = right();
    (a.extents[0], c.extents[0]) = (0, 0);
    let plan = plan(&sgemm(), &[a, b, c].map(Given::Tensor), &Limits::HOPPER).expect("a plan");
    assert!(plan.is_empty());
}

#[test]
fn empty_sums_have_a_kernel_without_loops() {
    let [mut a, mut b, c] = right();
    (a.extents[1], b.extents[1]) = (0, 0);
    let kernel = sgemm();
    let plan = plan(&kernel, &[a, b, c].map(Given::Tensor), &Limits::HOPPER).expect("a plan");
    assert!(!plan.is_empty() && plan.variant == kernel.variants.len());
    let source = &kernel.variant(plan.variant).source;
    assert!(!source.contains("fmaf") && !source.contains("&a["), "{source}");
}

#[test]
fn extents_agree() {
    check(
        |[_, b, _]| b.extents[1] = 63,
        Some("b"),
        "argument `b`: its extent 1 is 63, and `K` is 64, the extent 1 of `a`",
    );
    check(
        |[.., c]| c.extents = vec![255, 128],
        Some("c"),
        "argument `c`: its extent 0 is 255, and `M` is 256, the extent 0 of `a`",
    );
    check(|[a, ..]| a.extents[0] = -1, Some("a"), "argument `a`: its extent 0 is -1");
    check(
        |[a, ..]| a.extents[0] = i64::from(i32::MAX),
        Some("a"),
        "argument `a`: its extent 0 is 2147483647, and the limit is 2147418111: coordinates have 32 bits",
    );
    check(
        |[a, ..]| a.extents = vec![256],
        Some("a"),
        "argument `a`: it has 2 modes, and a tensor of 1 was given",
    );
}

#[test]
fn strides_fit() {
    check(
        |[a, ..]| a.strides = vec![2, 512],
        Some("a"),
        "argument `a`: extents (256, 64) with strides (2, 512) span 32767 elements, and the buffer has 16384\n\
         help: give a longer buffer, or smaller extents",
    );
    check(
        |[a, ..]| (a.strides, a.len) = (vec![64, 1], 1 << 20),
        Some("a"),
        "argument `a`: its stride 0 is 64, and the kernel is made for 1\nhelp: mode 0 must be contiguous: give it strides such as (1, 256)",
    );
    check(
        |[_, b, _]| b.strides[1] = -128,
        Some("b"),
        "argument `b`: its stride 1 is -128, and strides go from 0 to 2147418111",
    );
    check(
        |[_, b, _]| b.strides[1] = 0,
        Some("b"),
        "argument `b`: its stride 1 is 0, and the kernel takes it for at least 1\nhelp: pass a contiguous tensor; a kernel \
         that reads repeated elements has the stride `_0` for mode 1 in the type of this argument",
    );
    check(
        |[.., c]| c.strides[1] = 255,
        Some("c"),
        "argument `c`: it is written, and its stride 1 is 255, not greater than the 256 elements that its other modes \
         span\nhelp: give each element its own offset: pass a contiguous tensor; a tensor that repeats elements can only \
         be read",
    );
}

#[test]
fn buffers_are_long_enough_and_disjoint() {
    check(
        |[a, ..]| a.len = 16383,
        Some("a"),
        "argument `a`: extents (256, 64) with strides (1, 256) span 16384 elements, and the buffer has 16383\n\
         help: give a longer buffer, or smaller extents",
    );
    check(
        |[a, ..]| a.address += 2,
        Some("a"),
        "argument `a`: it begins at address 0x100002, and f32 is 4 bytes wide\nhelp: begin at a multiple of 4 bytes",
    );
    check(
        |[a, _, c]| c.address = a.address + 4 * 16383,
        Some("c"),
        "argument `c`: it is written, and overlaps `a` in memory\nhelp: pass a buffer that does not overlap",
    );
    check(
        |[.., c]| c.mutable = false,
        Some("c"),
        "argument `c`: the kernel writes it, and it was lent for reading only\nhelp: lend it as `&mut`; to the simulator as `Arg::output`, or `Arg::in_out` if it is read too",
    );
    check(
        |[a, ..]| a.elem = Elem::F64,
        Some("a"),
        "argument `a`: its elements are f32, and f64 were given\nhelp: convert them, or make the kernel for f64",
    );
}

#[test]
fn arguments_are_counted() {
    let [a, b, _] = right().map(Given::Tensor);
    let message = plan(&sgemm(), &[a.clone(), b.clone()], &Limits::HOPPER).unwrap_err();
    assert_eq!(
        message.to_string(),
        "argument `c`: it is missing: the kernel takes 3 arguments, `a`, `b`, `c`, and 2 were given"
    );
    let message = plan(&sgemm(), &[a, b, Given::Scalar(Elem::F32)], &Limits::HOPPER).unwrap_err();
    assert_eq!(message.to_string(), "argument `c`: it is a tensor, and a number of type f32 was given");
}

/// An H100 has one part of its chip with fewer multiprocessors than others, where large clusters leave some idle:
/// `cudaOccupancyMaxActiveClusters` says 30 clusters of four, and 15 of eight.
#[test]
fn large_clusters_do_not_fill_a_device() {
    let clusters = [1, 2, 4, 8].map(|blocks| Limits::HOPPER.clusters(blocks, 1));
    assert_eq!(clusters, [132, 66, 30, 15]);
    assert_eq!(Limits { multiprocessors: 1, ..Limits::HOPPER }.clusters(4, 1), 1);
}

/// Copies that are ahead have landed when a step waits for them.
#[test]
fn a_step_waits_for_copies_that_it_has_just_started() {
    let alone = |stages: &str| {
        let kernel = Words::read(&format!("bm=128 bn=128 bk=8 tc=(16,16) {stages}")).and_then(Words::matmul);
        estimate::cost(&kernel.expect("a product").variants[0].program).expect("an estimate").alone
    };
    let (at_once, ahead) = (alone(""), alone("stages=3"));
    assert!((750..1000).contains(&(at_once - ahead)), "{at_once} and {ahead} clocks");
}

#[test]
fn devices_have_limits() {
    let given = right().map(Given::Tensor);
    let small = Limits { shared_bytes: 1000, ..Limits::HOPPER };
    let message = plan(&sgemm(), &given, &small).unwrap_err().to_string();
    assert!(message.contains("bytes of shared memory, and the device gives it 1000 at most"), "{message}");
    let flat = Limits { grid: [1, 1, 1], ..Limits::HOPPER };
    let message = plan(&sgemm(), &given, &flat).unwrap_err().to_string();
    assert_eq!(
        message,
        "the grid would have 2 blocks along x, and 1 is the most\n\
         help: use larger tiles, or launch over parts of the tensors"
    );
    let narrow = Limits { threads: 128, ..Limits::HOPPER };
    let message = plan(&sgemm(), &given, &narrow).unwrap_err().to_string();
    assert!(message.contains("a block has 256 threads, and 128 is the device's most"), "{message}");
}

/// Kernels whose variants compete, kernels that run the first variant that can, and launches without loops.
#[test]
fn a_ranking_begins_with_the_variant_of_the_plan() {
    for keys in ["dtype=bf16 arch=90 a=k_major b=k_major", "arch=90", "bm=128", ""] {
        let kernel = Words::read(keys).unwrap().matmul().unwrap();
        let rows = keys.contains("k_major");
        for [m, n, k] in [[16, 4096, 4096], [1000, 1000, 1001], [300, 8, 77], [128, 128, 8], [64, 64, 0]] {
            let tensors = [[m, k], [n, k], [m, n]].into_iter().zip(&kernel.params).enumerate();
            let given: Vec<Given> = tensors
                .map(|(index, (extents, param))| {
                    let by_rows = rows && index < 2;
                    let strides = if by_rows { [extents[1].max(1), 1] } else { [1, extents[0]] };
                    let address = (index as u64 + 1) << 40;
                    Given::Tensor(tensor(param.elem, &extents, &strides, address, index == 2))
                })
                .collect();
            let (plan, ranking) = (
                plan(&kernel, &given, &Limits::HOPPER).expect("a plan"),
                ranking(&kernel, &given, &Limits::HOPPER).expect("a ranking"),
            );
            let first = &ranking.serves[0];
            assert_eq!(first.variant, plan.variant, "{keys}: {m}x{n}x{k}");
            let packed: Vec<usize> = plan.packed.iter().map(|packed| packed.arg).collect();
            assert_eq!(first.packed.iter().map(|of| of.0).collect::<Vec<_>>(), packed);
            if k > 0 {
                assert_eq!(ranking.serves.len() + ranking.refused.len(), kernel.variants.len());
            }
            let clocks = |one: &Ranked| one.estimate.filter(|_| one.competes).map(|of| of.clocks);
            assert!(ranking.serves.iter().filter_map(clocks).is_sorted());
            for of in ranking.serves.iter().filter_map(|one| one.estimate) {
                assert!(of.clocks >= of.memory.max(of.waves * of.tile) + of.edges + of.launch + of.packing);
            }
        }
    }
}

/// Two elements of eight bits are half a word: the other half has its own address.
#[test]
fn a_part_of_a_word_has_its_own_address() {
    let keys = "dtype=bf16 b_dtype=i8 arch=80 a=k_major b=k_major";
    let kernel = Words::read(keys).and_then(Words::matmul).unwrap();
    let loads = "*(unsigned short*)&((signed char*)sb_frag)[j * 2 + l * 4 + m * 8]";
    assert!(kernel.source().contains(loads), "{}", kernel.source());
}
