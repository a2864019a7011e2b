//! Reductions and scans over the blocks of a cluster.

use tilewright_codegen::Elem;
use tilewright_sim::{Options, run_every};
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Padding;

/// Every variant of a shipped kernel with these constants, in tensors with and without gaps.
#[track_caller]
fn check(name: &str, constants: &[(&str, usize)], elem: Elem, [m, n]: [usize; 2], values: Values) {
    let def = tilewright::kernels::named(name).unwrap().def.specialize(constants, &[("T", elem)]);
    let kernel = def.and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"));
    for padding in [Padding::new(0, 0), Padding::new(3, 1)] {
        let setting = Setting {
            sizes: &[("M", m), ("N", n)],
            paddings: &[padding],
            values,
            seed: 5,
            alpha: 1.0,
            beta: 1e-3,
        };
        let problem = Problem::of(&kernel, &setting);
        let options = Options { count: false, ..Options::default() };
        let outcomes = run_every(&kernel, &problem.args(), &options);
        let outcomes = outcomes.unwrap_or_else(|why| panic!("{name} {elem} {m}x{n}, {padding:?}: {why}"));
        assert!(!outcomes.is_empty());
        for outcome in outcomes {
            if let Some(why) = problem.wrong_outcome(&outcome) {
                panic!("{name} {elem} {m}x{n}, {padding:?}: {why}");
            }
        }
    }
}

/// Rows shorter than one block's part, and rows that end in any block of the cluster.
#[test]
fn rows_of_several_blocks() {
    for (blocks, elem) in [(2, Elem::F32), (4, Elem::Bf16), (16, Elem::F16)] {
        for kernel in ["softmax_row", "layernorm_row", "rmsnorm_row"] {
            for columns in [1, 100, 257, 256 * blocks - 3, 256 * blocks] {
                let constants = [("W", 256), ("L", 64), ("C", blocks)];
                check(kernel, &constants, elem, [3, columns], Values::Any);
            }
        }
    }
}

/// Several rows for each cluster, one after another.
#[test]
fn long_rows() {
    let all = [(1, 3, 2, Elem::F32), (2, 1, 1, Elem::F32), (4, 2, 4, Elem::Bf16), (8, 3, 4, Elem::F16)];
    for (blocks, groups, pieces, elem) in all {
        for kernel in ["softmax_long", "layernorm_long", "rmsnorm_long"] {
            for columns in [1, 257, 256 * blocks - 3, 256 * blocks] {
                let constants =
                    [("W", 256), ("L", 64), ("C", blocks), ("G", groups), ("P", pieces), ("V", 1)];
                check(kernel, &constants, elem, [5, columns.min(256 * blocks)], Values::Any);
            }
        }
    }
}

/// Rows that are read twice, in several tiles for each block.
#[test]
fn streamed_rows() {
    for (blocks, elem) in [(1, Elem::F32), (2, Elem::Bf16), (8, Elem::F16)] {
        for kernel in ["softmax_streamed", "layernorm_streamed", "rmsnorm_streamed"] {
            for columns in [1, 300, 256 * blocks + 1, 1000] {
                check(kernel, &[("W", 256), ("L", 64), ("C", blocks)], elem, [3, columns], Values::Any);
            }
        }
        for columns in [1, 300, 256 * blocks + 1, 3000] {
            check("row_sums", &[("W", 256), ("L", 64), ("C", blocks)], elem, [3, columns], Values::Any);
        }
    }
}

/// Cumulative sums of rows that end in any iteration and block.
#[test]
fn scans_of_several_blocks() {
    for (blocks, elem, width) in [
        (2, Elem::F32, 256),
        (3, Elem::F32, 256),
        (4, Elem::Bf16, 512),
        (15, Elem::Bf16, 128),
        (16, Elem::F16, 128),
    ] {
        for (at, columns) in
            [1, 255, width + 3, blocks * width, 3 * blocks * width - width, 3000].into_iter().enumerate()
        {
            let constants = [("W", width), ("L", 128), ("C", blocks)];
            let values = if at % 2 == 0 { Values::Any } else { Values::Whole };
            check("cumulative_sums", &constants, elem, [3, columns], values);
        }
    }
}

mod exchanged {
    use tilewright::prelude::*;

    /// Each pair of tiles is exchanged by its blocks, also if the second tile is out of bounds. The copies to shared memory are
    /// asynchronous.
    #[kernel]
    pub(super) fn exchanged(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        cluster(2);
        let _ = walk(max(2 * ceil_div(N, 2 * 256), ceil_div(N, 256)), block.x);
        let s = shared::<f32>(256);
        copy(tile(x, 256, block.x), s);
        sync_cluster();
        copy(peer(s, (block.x + 1) % 2), tile(y, 256, block.x));
        sync_cluster();
    }

    /// No barrier before the write of the next iteration.
    #[kernel]
    pub(super) fn unordered(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        cluster(2);
        let _ = walk(2, block.x);
        let s = shared::<f32>(256);
        for k in 0..ceil_div(N, 512) {
            map(tile(x, 256, 2 * k + block.x), s, |x| x + 1.0);
            sync_cluster();
            copy(peer(s, (block.x + 1) % 2), tile(y, 256, 2 * k + block.x));
        }
    }

    /// No barrier before the read.
    #[kernel]
    pub(super) fn copied(x: &Tensor<f32, _512>, y: &mut Tensor<f32, _512>) {
        cluster(2);
        let s = shared::<f32>(256);
        copy(tile(x, 256, block.x), s);
        copy(peer(s, (block.x + 1) % 2), tile(y, 256, block.x));
    }

    /// A block that is a cluster by itself needs no instructions of clusters, so that one text serves devices without them.
    #[kernel(choose(C in [1, 2]))]
    pub(super) fn turned<const C: usize>(x: &Tensor<f32, _512>, y: &mut Tensor<f32, _512>) {
        cluster(C);
        let s = shared::<f32>(256);
        copy(tile(x, 256, block.x), s);
        sync_cluster();
        copy(peer(s, (block.x + 1) % C), tile(y, 256, block.x));
        sync_cluster();
    }
}

#[test]
fn the_barrier_that_accesses_of_two_blocks_lack_is_one_of_the_cluster() {
    let kernels = [(exchanged::unordered().def().clone(), 1024), (exchanged::copied().def().clone(), 512)];
    for (kernel, n) in kernels {
        let x = vec![1.0f32; n];
        let args = [tilewright_sim::Arg::tensor(&x, [n]), tilewright_sim::Arg::output::<f32>([n])];
        let kernel = kernel.generate().unwrap();
        let fault = run_every(&kernel, &args, &Options::default()).unwrap_err().to_string();
        assert!(fault.contains("sync_cluster()") && !fault.contains("sync_threads()"), "{fault}");
    }
}

#[test]
fn a_barrier_of_the_cluster_waits_for_copies_that_other_blocks_read() {
    use tilewright::prelude::*;
    let kernel = exchanged::exchanged().def().generate().unwrap();
    for n in [1, 256, 300, 1000, 1024] {
        let x: Vec<f32> = (0..n).map(|at| at as f32 + 1.0).collect();
        let wanted: Vec<f32> = (0..n).map(|at| x.get(at ^ 256).copied().unwrap_or(0.0)).collect();
        let args = [Arg::tensor(&x, [n]), Arg::output::<f32>([n])];
        let options = Options { schedules: 8, ..Options::default() };
        for outcome in run_every(&kernel, &args, &options).unwrap_or_else(|why| panic!("{n}: {why}")) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{n}");
        }
    }
}

#[test]
fn a_block_can_be_a_cluster_by_itself() {
    use tilewright::prelude::*;
    let x: Vec<f32> = (0..512u16).map(f32::from).collect();
    for (blocks, arch, wanted) in [(1, 80, x.clone()), (2, 90, [&x[256..], &x[..256]].concat())] {
        let kernel = exchanged::turned().specialize(&[("C", blocks)]).unwrap();
        let generated = kernel.def().generate().unwrap();
        assert_eq!(generated.variants[0].program.arch, arch);
        assert_eq!(generated.variants[0].source.contains("barrier.cluster"), blocks > 1);
        let args = [Arg::tensor(&x, [512]), Arg::output::<f32>([512])];
        assert_eq!(kernel.simulate(&args).unwrap().get::<f32>("y").unwrap(), wanted);
    }
}
