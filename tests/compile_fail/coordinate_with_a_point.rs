use tilewright::prelude::*;

#[kernel]
fn coordinate_with_a_point(ids: &Tensor<f32, N>, table: &Tensor<f32, V>, c: &mut Tensor<f32, N>) {
    let t = layout!(1);
    let to = parallelize(tile(c, 1, block.x), t, thread.x);
    let row = ids[(block.x)];
    copy(table[(row)], to[(0)]);
}

fn main() {
    println!("{}", coordinate_with_a_point().source());
}
