use tilewright::prelude::*;

#[kernel]
fn of_eight_bits(w: &Tensor<u8, { (N, ceil_div(K, 2)) }>, y: &mut Tensor<bf16, (N, K)>) {
    copy(unpack_int4::<i8, bf16>(tile(w, (64, 32), (block.x, block.y))), tile(y, (64, 64), (block.x, block.y)));
}

#[kernel]
fn into_f32(w: &Tensor<u8, { (N, ceil_div(K, 2)) }>, y: &mut Tensor<f32, (N, K)>) {
    copy(unpack_int4::<u4, f32>(tile(w, (64, 32), (block.x, block.y))), tile(y, (64, 64), (block.x, block.y)));
}

#[kernel]
fn of_no_bytes(w: &Tensor<i32, { (N, ceil_div(K, 2)) }>, y: &mut Tensor<bf16, (N, K)>) {
    copy(unpack_int4::<u4, bf16>(tile(w, (64, 32), (block.x, block.y))), tile(y, (64, 64), (block.x, block.y)));
}

#[kernel]
fn one_type(w: &Tensor<u8, { (N, ceil_div(K, 2)) }>, y: &mut Tensor<bf16, (N, K)>) {
    copy(unpack_int4::<u4>(tile(w, (64, 32), (block.x, block.y))), tile(y, (64, 64), (block.x, block.y)));
}

#[kernel]
fn the_part_of_a_thread(w: &Tensor<u8, { (N, ceil_div(K, 2)) }>, y: &mut Tensor<bf16, (N, K)>) {
    let part = parallelize(tile(w, (64, 32), (block.x, block.y)), layout!((64, 2)), thread.x);
    copy(unpack_int4::<u4, bf16>(part), tile(y, (64, 64), (block.x, block.y)));
}

#[kernel]
fn less_than_a_word(
    w: &Tensor<u8, { (N, ceil_div(K, 2)) }, (ldw, _1)>,
    y: &mut Tensor<bf16, (N, K), (ldy, _1)>,
) {
    copy(unpack_int4::<u4, bf16>(tile(w, (64, 2), (block.x, block.y))), tile(y, (64, 4), (block.x, block.y)));
}

fn main() {}
