#![deny(warnings)]
#![forbid(unsafe_code)]

use kernels_of_another_crate::deep::inside::{self, duplicate as twice};

const WIDE: twice = twice!(B = 128);
static DOUBLES: inside::duplicate<f64> = kernels_of_another_crate::deep::inside::duplicate!(T = f64);

fn main() {
    use kernels_of_another_crate::deep::inside::*;

    let duplicate = duplicate();
    assert!(duplicate.source().contains("float"));
    assert!(DOUBLES.source().contains("double"));
    assert_eq!(duplicate.specialize(&[("B", 128)]).unwrap().source(), WIDE.source());
    assert_eq!(duplicate.specialize_for::<f64>(&[]).unwrap().source(), DOUBLES.source());
}
