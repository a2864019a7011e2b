//! One matrix product, C = A·B, as loop nests on the CPU in several orders, and as the loop nest of a GPU
//! kernel.
//!
//! A loop nest is a layout: its modes are the loops, innermost first, and its strides are the memory strides
//! per iteration. Another loop order is a permutation of modes; tiling is a division.
//!
//! ```console
//! $ cargo run --release --example loop_orders
//! ```

use std::time::Instant;
use tilewright::layouts::{Layout, LayoutError};
use tilewright::prelude::*;

/// The product of `n` by `n` matrices, row-major.
const N: i64 = if cfg!(debug_assertions) { 64 } else { 512 };

/// The loops i, j and k of each array, with its strides: A has i and k, B has k and j, C has i and j.
fn arrays() -> Result<[Layout; 3], LayoutError> {
    let nest = |i: i64, j: i64, k: i64| Layout::new((N, N, N), (i, j, k));
    Ok([nest(N, 0, 1)?, nest(0, 1, N)?, nest(N, 1, 0)?])
}

/// Reordered loops: `[2, 1, 0]` has k innermost and i outermost.
fn ordered(nest: &Layout, modes: [usize; 3]) -> Result<Layout, LayoutError> {
    let modes: Result<Vec<_>, _> = modes.iter().map(|&mode| nest.mode(mode)).collect();
    Layout::from_modes(modes?)
}

/// One loop: its trip count, and its strides in A, B and C.
type Loop = (usize, [usize; 3]);

/// The loops of three layouts of one shape, innermost first.
fn loops(nests: &[Layout; 3]) -> Vec<Loop> {
    let leaf = |nest: &Layout, at: usize| nest.leaves().nth(at).and_then(|(n, d)| Some((n.int()?, d.int()?)));
    (0..nests[0].leaves().count())
        .filter_map(|at| {
            let [(n, a), (_, b), (_, c)] = [leaf(&nests[0], at)?, leaf(&nests[1], at)?, leaf(&nests[2], at)?];
            Some((n as usize, [a as usize, b as usize, c as usize]))
        })
        .collect()
}

/// Runs a nest from the given offsets.
fn run(nest: &[Loop], [a, b]: [&[f32]; 2], c: &mut [f32], at: [usize; 3]) {
    let Some((&(count, steps), inner)) = nest.split_last() else { return };
    if inner.is_empty() {
        return innermost(count, steps, [a, b], c, at);
    }
    for iteration in 0..count {
        run(inner, [a, b], c, [0, 1, 2].map(|array| at[array] + iteration * steps[array]));
    }
}

/// The innermost loop: where B and C have stride 1, the compiler vectorises it.
fn innermost(count: usize, steps: [usize; 3], [a, b]: [&[f32]; 2], c: &mut [f32], at: [usize; 3]) {
    let [x, y, z] = at;
    match steps {
        [0, 1, 1] => {
            for (c, b) in c[z..z + count].iter_mut().zip(&b[y..y + count]) {
                *c += a[x] * b;
            }
        }
        [i, j, k] => (0..count).for_each(|n| c[z + n * k] += a[x + n * i] * b[y + n * j]),
    }
}

fn main() -> Result<(), LayoutError> {
    let count = (N * N) as usize;
    let a: Vec<f32> = (0..count).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..count).map(|i| (i % 5) as f32 - 2.0).collect();
    let plain = arrays()?;
    let permuted = |modes| -> Result<[Layout; 3], LayoutError> {
        Ok([ordered(&plain[0], modes)?, ordered(&plain[1], modes)?, ordered(&plain[2], modes)?])
    };
    let tiled = |[a, b, c]: [Layout; 3]| -> Result<[Layout; 3], LayoutError> {
        let tile = (16i64, 16i64, 16i64);
        Ok([a.zipped_divide(tile)?, b.zipped_divide(tile)?, c.zipped_divide(tile)?])
    };
    let nests = [
        ("ijk", permuted([2, 1, 0])?),
        ("kij", permuted([1, 0, 2])?),
        ("ikj", permuted([1, 2, 0])?),
        ("ikj, by 16", tiled(permuted([1, 2, 0])?)?),
    ];

    println!(
        "C = A·B, {N} x {N} x {N}; names and loops begin with the outermost, layouts with the innermost:\n"
    );
    let mut first: Option<Vec<f32>> = None;
    for (name, nest) in &nests {
        let mut c = vec![0.0; count];
        let start = Instant::now();
        run(&loops(nest), [&a, &b], &mut c, [0; 3]);
        let time = start.elapsed();
        // All entries are small integers: every order gives the same sums, bit for bit.
        assert_eq!(first.get_or_insert_with(|| c.clone()), &c, "{name} gives another result");
        let rate = 2.0 * (N * N * N) as f64 / time.as_secs_f64() / 1e9;
        println!("{name:<12}{:>8.1?}  {rate:>5.2} Gflop/s  A walked by {}", time, nest[0]);
    }

    // On a GPU the outer loops are distributed over blocks, the inner loops over threads; the loop over k is sequential.
    const TILED: MatmulKernel<f32> = matmul_kernel!(
        bm = 16,
        bn = 16,
        bk = 16,
        tc = (8, 8),
        a = k_major,
        c = n_major,
        allow = bank_conflicts
    );
    println!("\nThe same as a kernel with tiles of 16:\n");
    match TILED.explain() {
        Ok(nest) => println!("{nest}"),
        Err(why) => println!("{why}"),
    }
    Ok(())
}
