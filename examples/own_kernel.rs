//! A custom kernel: the transpose of a matrix. It runs in the simulator, which needs no GPU and checks every
//! access.
//!
//! ```console
//! $ cargo run --release --example own_kernel
//! ```

use tilewright::prelude::*;

/// A transpose is a copy between two layouts: `b` has the coordinates of `a`, and its strides are swapped.
#[kernel]
fn transpose<const T: usize = 32>(a: &Tensor<f32, (M, N)>, b: &mut Tensor<f32, (M, N), (ldb, _1)>) {
    let from = tile(a, (T, T), (block.x, block.y));
    let to = tile(b, (T, T), (block.x, block.y));
    // Padded by one, so that neither rows nor columns have bank conflicts.
    let turning = shared::<f32>(layout!((T, T) : (1, T + 1)));

    // Consecutive threads copy consecutive rows of `a`, then consecutive columns of `b`: both are coalesced.
    let (down, across) = (layout!((32, 8)), layout!((8, 32) : (32, 1)));
    copy(parallelize(from, down, thread.x), parallelize(turning, down, thread.x));
    cp_async_wait_all();
    sync_threads(); // threads read what other threads wrote
    copy(parallelize(turning, across, thread.x), parallelize(to, across, thread.x));
}

/// A bug that compiles because its lint is allowed: all blocks along x write the first row of tiles, and none writes the others.
#[kernel(allow(unbounded))]
fn mistaken<const T: usize = 32>(a: &Tensor<f32, (M, N)>, b: &mut Tensor<f32, (M, N)>) {
    let threads = layout!((32, 8));
    let from = parallelize(tile(a, (T, T), (block.x, block.y)), threads, thread.x);
    let to = parallelize(tile(b, (T, T), (0, block.y)), threads, thread.x);
    copy(from, to);
}

fn main() -> Result<(), tilewright::sim::Error> {
    // Sizes that tiles do not divide: bounds checks are generated.
    let (m, n) = (70, 45);
    let a: Vec<f32> = (0..m * n).map(|i| i as f32).collect();
    let arguments = [Arg::tensor(&a, [m, n]), Arg::output::<f32>([m, n]).strides([n, 1])];
    let done = transpose().simulate(&arguments)?;

    let b = done.get::<f32>("b")?;
    for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
        assert_eq!(b[row * n + column], a[row + column * m], "row {row}, column {column}");
    }
    println!("all {} elements are where they belong\n\n{done}", b.len());

    // Wrong sizes are rejected with the argument's name, here as on a device.
    let wrong = [Arg::tensor(&a, [m, n]), Arg::output::<f32>([n, m]).strides([m, 1])];
    if let Err(why) = transpose().simulate(&wrong) {
        println!("refused: {why}\n");
    }

    // The simulator reports the thread, the access, the line, and the seed that reproduces it.
    if let Err(fault) = mistaken().simulate(&[Arg::tensor(&a, [m, n]), Arg::output::<f32>([m, n])]) {
        println!("{fault}");
    }
    Ok(())
}
