//! Integers that overflow, on a device: results are as in the simulator, without writes out of bounds.

use tilewright::DeviceTensor;
use tilewright_tests::overflow::*;

use super::stream;

#[test]
fn arithmetic_wraps() {
    let Some(stream) = stream() else { return };
    let (x, y) = pairs(&EDGES);
    let tensor = |values: &[i32]| DeviceTensor::from_host(&stream, [values.len()], values).unwrap();
    let (from_x, from_y) = (tensor(&x), tensor(&y));
    let mut to: [DeviceTensor<i32, 1>; 10] = std::array::from_fn(|_| tensor(&x));
    let [a, b, c, d, e, f, g, h, i, j] = &mut to;
    operations().launch(&stream, &from_x, &from_y, a, b, c, d, e, f, g, h, i, j).unwrap();
    for (to, (name, of)) in to.iter().zip(SIGNED) {
        for (got, (&x, &y)) in to.to_host().unwrap().into_iter().zip(x.iter().zip(&y)) {
            assert_eq!(got, of(x, y), "{name} of {x} and {y}");
        }
    }
    let (x, y) = pairs(&EDGES.map(|n| n as u32));
    let tensor = |values: &[u32]| DeviceTensor::from_host(&stream, [values.len()], values).unwrap();
    let (from_x, from_y) = (tensor(&x), tensor(&y));
    let mut to: [DeviceTensor<u32, 1>; 4] = std::array::from_fn(|_| tensor(&x));
    let [a, b, c, d] = &mut to;
    unsigned().launch(&stream, &from_x, &from_y, a, b, c, d).unwrap();
    for (to, (name, of)) in to.iter().zip(UNSIGNED) {
        for (got, (&x, &y)) in to.to_host().unwrap().into_iter().zip(x.iter().zip(&y)) {
            assert_eq!(got, of(x, y), "{name} of {x} and {y}");
        }
    }
}

#[test]
fn positions_that_overflow_are_out_of_bounds() {
    let Some(stream) = stream() else { return };
    let indices = [46341, 2, i32::MIN, 46340, -3];
    let i = DeviceTensor::from_host(&stream, [indices.len()], &indices).unwrap();
    macro_rules! check {
        ($kernel:ident, $of:expr) => {{
            let mut y = DeviceTensor::<f32, 1>::zeros(&stream, [1000]).unwrap();
            $kernel().launch(&stream, &i, &mut y).unwrap();
            let of: fn(i32) -> i32 = $of;
            let mut wanted = vec![0.0f32; 1000];
            for position in indices.map(of) {
                if let Some(there) = usize::try_from(position).ok().and_then(|at| wanted.get_mut(at)) {
                    *there = 1.0;
                }
            }
            assert_eq!(y.to_host().unwrap(), wanted, stringify!($kernel));
        }};
    }
    check!(square, |i| i.wrapping_mul(i));
    check!(square_hash, |i| i.wrapping_mul(i) % 1000);
    check!(magnitude, |i| i.wrapping_abs());
    check!(absolute, |i| i.wrapping_abs());
    check!(mirrored, |i| i.wrapping_abs());
    check!(below_zero, |i| i.wrapping_abs());
    check!(bits_of_sign, |i| i.wrapping_abs());
    check!(sign_added, |i| i.wrapping_abs());
    check!(complement, |i| i.wrapping_abs());
    check!(unsigned_opposite, |i| i.wrapping_abs());
    check!(by_sign, |i| i.wrapping_abs());
    check!(least, |i| i.wrapping_abs());
    check!(difference, |i| if i > 5 { i.wrapping_add(100) } else { 5i32.wrapping_sub(i) });
}

#[test]
fn bulk_copies_far_out_of_bounds_read_zeros() {
    let Some(stream) = stream() else { return };
    if stream.device().properties().compute_capability < (9, 0) {
        return;
    }
    let ids = [1, i32::MIN, 67_108_864, -67_108_864, 67_108_865, i32::MAX, 0, -1, 2];
    let a: Vec<f32> = (0..128).map(|n| n as f32 + 1.0).collect();
    let a = DeviceTensor::from_host_strided(&stream, [1, 128], [128, 1], &a).unwrap();
    let numbers = DeviceTensor::from_host(&stream, [ids.len()], &ids).unwrap();
    let before = vec![-1.0f32; ids.len() * 128];
    let mut c = DeviceTensor::from_host_strided(&stream, [ids.len(), 128], [128, 1], &before).unwrap();
    tiles_by_number().launch(&stream, &a, &numbers, &mut c).unwrap();
    for (row, id) in c.to_host_stored().unwrap().chunks(128).zip(ids) {
        for (n, &got) in row[..64].iter().enumerate() {
            let wanted = if (0..2).contains(&id) { (id * 64) as f32 + n as f32 + 1.0 } else { 0.0 };
            assert_eq!(got, wanted, "tile {id}, element {n}");
        }
    }
}
