//! `name!(…)` by name, by path, renamed, in constants, and for two kernels of the same name.

mod kernels {
    use tilewright::prelude::*;

    #[kernel]
    pub fn duplicate<const B: usize = 64>(from: &Tensor<f32, (M, N)>, to: &mut Tensor<f32, (M, N)>) {
        let (from, to) = (tile(from, (B, 16), (block.x, block.y)), tile(to, (B, 16), (block.x, block.y)));
        let threads = layout!((32, 8));
        copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
    }

    pub mod others {
        use tilewright::prelude::*;

        #[kernel(T = f32 | f64 | bf16)]
        pub fn duplicate<T, const B: usize = 64>(from: &Tensor<T, (M, N)>, to: &mut Tensor<T, (M, N)>) {
            let (from, to) = (tile(from, (B, 16), (block.x, block.y)), tile(to, (B, 16), (block.x, block.y)));
            let threads = layout!((32, 8));
            copy(parallelize(from, threads, thread.x), parallelize(to, threads, thread.x));
        }
    }
}

use kernels::duplicate as twice;
use kernels::others;
use kernels::*;

const WIDE: twice = twice!(B = 128);
static WIDE_DOUBLES: others::duplicate<f64> = others::duplicate!(T = f64, B = 2 * 64);

fn takes(_: &others::duplicate<tilewright::bf16>) {}

fn main() {
    let narrow = duplicate!(B = 32);
    let same = crate::kernels::duplicate!();
    assert_eq!(same.source(), duplicate().source());
    assert_ne!(narrow.source(), WIDE.source());
    assert!(WIDE_DOUBLES.source().contains("double"));
    assert_eq!(WIDE.source(), narrow.specialize(&[("B", 128)]).unwrap().source());
    takes(&others::duplicate!(T = bf16));

    let doubles = others::duplicate().specialize_for::<f64>(&[("B", 128)]).unwrap();
    assert_eq!(doubles.source(), WIDE_DOUBLES.source());
    let message = narrow.specialize(&[("C", 1)]).unwrap_err().to_string();
    assert!(message.contains("`duplicate` has no constant `C`"), "{message}");
    let message = narrow.specialize(&[("B", 63)]).unwrap_err().to_string();
    assert!(message.contains("specialised_anywhere.rs:"), "{message}");
}
