fn axpy(alpha: f32, x: &Tensor<f32, layout!((M, N) : (1, ldx))>, y: &mut Tensor<f32, (M, N), (_1, ldy)>) {
    const ROWS: usize = 8 * 16;
    let (x, y) = (tile(x, (ROWS, 8), (block.x, block.y)), tile(y, (ROWS, 8), (block.x, block.y)));
    let threads = layout!((32, 8));
    let (x, y) = (parallelize(x, threads, thread.x), parallelize(y, threads, thread.x));
    let sums = map((x, y), |x, y| if x > 0.0 { alpha * x + y } else { -x * 2.0 });
    copy(sums, y);
}
