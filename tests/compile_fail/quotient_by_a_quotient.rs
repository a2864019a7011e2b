use tilewright::prelude::*;

#[kernel]
fn quotient_by_a_quotient(k: &Tensor<f32, (N, J)>, o: &mut Tensor<f32, (N, H)>) {
    let head = block.y;
    let group = head / (H / J);
    copy(tile(k, (64, 1), (block.x, group)), tile(o, (64, 1), (block.x, head)));
}

fn main() {
    println!("{}", quotient_by_a_quotient().source());
}
