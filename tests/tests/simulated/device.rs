//! Functions of numbers that kernels share: of this module and of others, that use one another, under other
//! names, of several types.

use tilewright::prelude::*;
use tilewright_sim::{Arg, Options, run_every};

mod math {
    use tilewright::prelude::*;

    pub(crate) mod shrink {
        use tilewright::prelude::*;

        /// Moves a number towards 0, by at most `by`.
        #[device]
        pub(crate) fn soft(x: f32, by: f32) -> f32 {
            let rest = abs(x) - by;
            if rest > 0.0 { copysign(rest, x) } else { 0.0 }
        }
    }

    /// The Huber loss: a square near 0, linear beyond `d`.
    #[device]
    pub(crate) fn huber(x: f32, d: f32) -> f32 {
        use self::shrink::soft;
        let near = x - soft(x, d);
        near * near / 2.0 + d * abs(soft(x, d))
    }

    #[device]
    pub(crate) fn wrapped(n: i32, by: i32) -> i32 {
        n - n / by * by
    }
}

/// A bijection of the 32 bits of a number.
#[device]
fn mixed(n: u32) -> u32 {
    let n = (n ^ (n >> 16)) * 0x21f0aaad;
    let n = (n ^ (n >> 15)) * 0x735a2d97;
    n ^ (n >> 15)
}

#[kernel]
fn losses(d: f32, x: &Tensor<f32, N>, loss: &mut Tensor<f32, N>, rest: &mut Tensor<f32, N>) {
    use crate::device::math::{huber, shrink::soft as shrunk};
    let x = tile(x, 256, block.x);
    let (a, b) = map(x, |x| (huber(x, d), shrunk(x, 2.0 * d)));
    copy(a, tile(loss, 256, block.x));
    copy(b, tile(rest, 256, block.x));
}

#[kernel]
fn numbers(x: &Tensor<i32, N>, hash: &mut Tensor<u32, N>, place: &mut Tensor<i32, N>) {
    use self::math::wrapped;
    use self::mixed;
    let x = tile(x, 256, block.x);
    // An element, a coordinate, and an integer of the kernel.
    map(x, tile(hash, 256, block.x), |x| mixed(x as u32));
    map(x, tile(place, 256, block.x), |x, at| wrapped(x, 7) + wrapped(at.0, 3) + wrapped(block.x, 2));
}

fn numbers_of(count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 37) % 101) as f32 / 8.0 - 6.0).collect()
}

#[test]
fn functions_are_inlined_wherever_they_are_defined() {
    let soft = |x: f32, by: f32| (x.abs() - by).max(0.0).copysign(x) + 0.0;
    for count in [1, 255, 256, 1000] {
        let x = numbers_of(count);
        let args = [
            Arg::number(1.5f32),
            Arg::tensor(&x, [count]),
            Arg::output::<f32>([count]),
            Arg::output::<f32>([count]),
        ];
        let kernel = losses().def().generate().unwrap();
        for done in run_every(&kernel, &args, &Options::default()).unwrap() {
            let (loss, rest) = (done.get::<f32>("loss").unwrap(), done.get::<f32>("rest").unwrap());
            for (at, x) in x.iter().enumerate() {
                let huber = if x.abs() <= 1.5 { x * x / 2.0 } else { 1.5 * (x.abs() - 0.75) };
                assert!((loss[at] - huber).abs() < 1e-5, "{x}: {} is not {huber}", loss[at]);
                assert_eq!(rest[at], soft(*x, 3.0), "{x}");
            }
        }
    }
}

#[test]
fn functions_of_integers_take_elements_and_coordinates() {
    let mixed = |n: u32| {
        let n = (n ^ (n >> 16)).wrapping_mul(0x21f0_aaad);
        let n = (n ^ (n >> 15)).wrapping_mul(0x735a_2d97);
        n ^ (n >> 15)
    };
    let x: Vec<i32> = (0..600).collect();
    let args = [Arg::tensor(&x, [600]), Arg::output::<u32>([600]), Arg::output::<i32>([600])];
    let kernel = numbers().def().generate().unwrap();
    for done in run_every(&kernel, &args, &Options::default()).unwrap() {
        let (hash, place) = (done.get::<u32>("hash").unwrap(), done.get::<i32>("place").unwrap());
        for n in 0..600i32 {
            assert_eq!(hash[n as usize], mixed(n as u32));
            assert_eq!(place[n as usize], n % 7 + n % 3 + n / 256 % 2);
        }
    }
}

#[test]
fn a_specialised_kernel_keeps_its_functions() {
    let other = numbers().specialize(&[]).unwrap();
    assert_eq!(other.source(), numbers().source());
    assert_eq!(losses!().source(), losses().source());
}
