//! Coordinates far out of bounds, on a device: no memory is read or written there. Also run under
//! compute-sanitizer, by `run.sh sanitize-tests`.

use tilewright::prelude::*;

use super::stream;

macro_rules! spread {
    ($name:ident, $factor:literal) => {
        #[test]
        fn $name() {
            #[kernel]
            fn spread(x: &Tensor<f32, N>, c: &mut Tensor<f32, N>) {
                let (gx, gc) = (tile(x, 64, block.x), tile(c, 64, _));
                let to = parallelize(gc[(_, block.x * $factor)], layout!(64), thread.x);
                copy(parallelize(gx, layout!(64), thread.x), to);
            }
            let Some(stream) = stream() else { return };
            for n in [64usize, 2000, 2240, 8960] {
                let data: Vec<f32> = (0..n).map(|at| (at % 7) as f32 + 1.0).collect();
                let x = DeviceTensor::from_host(&stream, [n], &data).unwrap();
                let mut c = DeviceTensor::<f32, 1>::zeros(&stream, [n]).unwrap();
                spread().launch(&stream, &x, &mut c).unwrap_or_else(|why| panic!("{n}: {why}"));
                let wanted: Vec<f32> = (0..n).map(|at| if at < 64 { data[at] } else { 0.0 }).collect();
                assert_eq!(c.to_host().unwrap(), wanted, "{n}");
            }
        }
    };
}

spread!(blocks_scaled_beyond_32_bits_write_nothing, 1000000);
spread!(a_factor_that_wraps_to_zero_writes_nothing, 67108864);
spread!(a_factor_that_wraps_below_zero_writes_nothing, 67108863);

#[test]
fn tiles_that_wrap_at_32_bits_are_zeros() {
    #[kernel]
    fn reads(a: &Tensor<f32, (M, K)>, c: &mut Tensor<f32, M>) {
        let ga = tile(a, (64, 8), (block.x, _));
        let out = parallelize(tile(c, 64, block.x), layout!(64), thread.x);
        let mut acc = registers_like(out, 0.0);
        for k in 0..ga.size(2) {
            let x = parallelize(ga[(_, 3, k * 1000)], layout!(64), thread.x);
            acc += x;
        }
        copy(acc, out);
    }
    let Some(stream) = stream() else { return };
    for k in [64usize, 2_200_000] {
        let data = vec![1.0f32; k];
        let a = DeviceTensor::from_host(&stream, [1, k], &data).unwrap();
        let mut c = DeviceTensor::<f32, 1>::zeros(&stream, [1]).unwrap();
        reads().launch(&stream, &a, &mut c).unwrap_or_else(|why| panic!("{k}: {why}"));
        let inside = (0..k.div_ceil(8)).filter(|tile| tile * 8000 + 3 < k).count();
        assert_eq!(c.to_host().unwrap(), [inside as f32], "{k}");
    }
}
