#![deny(warnings)]
#![forbid(unsafe_code)]

use kernels_of_another_crate::deep::inside::{self, duplicate as twice};

mod own {
    use tilewright::prelude::*;

    #[device]
    pub fn nearer(x: f32, y: f32) -> f32 {
        use kernels_of_another_crate::deep::inside::mean;
        mean(x, mean(x, y))
    }

    #[kernel]
    pub fn means(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        use kernels_of_another_crate::deep::inside::{mean as middle};
        use super::own::nearer;
        let y = tile(y, 256, block.x);
        map((tile(x, 256, block.x), y), y, |x, y| middle(x, nearer(x, y)));
    }
}

const WIDE: twice = twice!(B = 128);
static DOUBLES: inside::duplicate<f64> = kernels_of_another_crate::deep::inside::duplicate!(T = f64);

fn main() {
    use kernels_of_another_crate::deep::inside::*;

    assert!(own::means().source().contains("__global__"));
    let duplicate = duplicate();
    assert!(duplicate.source().contains("float"));
    assert!(DOUBLES.source().contains("double"));
    assert_eq!(duplicate.specialize(&[("B", 128)]).unwrap().source(), WIDE.source());
    assert_eq!(duplicate.specialize_for::<f64>(&[]).unwrap().source(), DOUBLES.source());
}
