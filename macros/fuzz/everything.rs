fn transpose(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (N, M)>) {
    let buffer = shared::<f32>(layout!((32, 32) : (1, 33)));
    let (from, to) = (tile(from, (32, 32), (block.x, block.y)), tile(to, (32, 32), (block.y, block.x)));
    let threads = layout!((32, 8));
    copy(parallelize(from, threads, thread.x), parallelize(buffer, threads, thread.x));
    cp_async_wait_all();
    sync_threads();
    copy(parallelize(buffer, layout!((32, 8) : (8, 1)), thread.x), parallelize(to, layout!((32, 8) : (8, 1)), thread.x));
}
