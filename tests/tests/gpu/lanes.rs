//! Exchanges between lanes on a device, against plain Rust.

use tilewright::prelude::*;
use tilewright_tests::lanes::*;
use tilewright_tests::number::Random;

use super::stream;

fn numbers(count: usize, below: u32) -> Vec<i32> {
    let mut random = Random::new(count as u64);
    (0..count).map(|_| (random.word() % below) as i32).collect()
}

#[test]
fn elements_of_other_lanes() {
    let Some(stream) = stream() else { return };
    macro_rules! check {
        ($ty:ident, $lanes:literal, $make:expr) => {{
            let (x, by) = (numbers(512, 100), numbers(512, 1 << 20));
            let elements: Vec<$ty> = x.iter().map($make).collect();
            let from = DeviceTensor::from_host(&stream, [512], &elements).unwrap();
            let lane = DeviceTensor::from_host(&stream, [512], &by).unwrap();
            let [mut a, mut b, mut c, mut d] =
                [(); 4].map(|()| DeviceTensor::<$ty, 1>::poisoned(&stream, [512]).unwrap());
            moved!(T = $ty, LANES = $lanes)
                .launch(&stream, &from, &lane, &mut a, &mut b, &mut c, &mut d)
                .unwrap();
            let expected = |lane: &dyn Fn(usize, usize) -> usize| -> Vec<$ty> {
                let of = |n: usize| {
                    let from = lane(n / 4 % $lanes, n) % $lanes;
                    elements[n / 4 / $lanes * $lanes * 4 + from * 4 + n % 4]
                };
                (0..512).map(of).collect()
            };
            assert_eq!(a.to_host().unwrap(), expected(&|lane, _| lane ^ 1));
            assert_eq!(b.to_host().unwrap(), expected(&|lane, _| lane + 1));
            assert_eq!(c.to_host().unwrap(), expected(&|_, n| by[n] as usize));
            assert_eq!(d.to_host().unwrap(), expected(&|_, _| 0));
        }};
    }
    check!(f32, 32, |x| *x as f32);
    check!(f32, 8, |x| *x as f32);
    check!(f64, 16, |x| f64::from(*x));
    check!(i64, 2, |x| i64::from(*x));
    check!(u8, 4, |x| *x as u8);
    check!(bf16, 8, |x| bf16::from_f32(*x as f32));
}

#[test]
fn warps_sort_and_compact() {
    let Some(stream) = stream() else { return };
    let x = numbers(1000, 50);
    let from = DeviceTensor::from_host(&stream, [1000], &x).unwrap();
    let mut y = DeviceTensor::<i32, 1>::poisoned(&stream, [1000]).unwrap();
    let sorts = DeviceTensor::from_host(&stream, [896], &x[..896]).unwrap();
    let mut sorts_to = DeviceTensor::<i32, 1>::poisoned(&stream, [896]).unwrap();
    sorted().launch(&stream, &sorts, &mut sorts_to).unwrap();
    let got = sorts_to.to_host().unwrap();
    for (got, from) in got.chunks(32).zip(x.chunks(32)) {
        let mut from = from.to_vec();
        from.sort_unstable();
        assert_eq!(got, from);
    }
    let mut taken = DeviceTensor::<i32, 1>::zeros(&stream, [1]).unwrap();
    compacted().launch(&stream, &from, &mut taken, &mut y).unwrap();
    let (mut got, mut from) = (y.to_host().unwrap(), x);
    assert_eq!(taken.to_host().unwrap(), [1000]);
    got.sort_unstable();
    from.sort_unstable();
    assert_eq!(got, from);
}

#[test]
fn equal_numbers_are_counted_once() {
    let Some(stream) = stream() else { return };
    let x = numbers(777, 10);
    let mut expected = vec![0; 10];
    x.iter().for_each(|x| expected[*x as usize] += 1);
    let from = DeviceTensor::from_host(&stream, [777], &x).unwrap();
    let mut bins = DeviceTensor::<i32, 1>::zeros(&stream, [10]).unwrap();
    counted!(T = i32).launch(&stream, &from, &mut bins).unwrap();
    assert_eq!(bins.to_host().unwrap(), expected);
    let long: Vec<u64> = x.iter().map(|x| *x as u64).collect();
    let from = DeviceTensor::from_host(&stream, [777], &long).unwrap();
    let mut bins = DeviceTensor::<i32, 1>::zeros(&stream, [10]).unwrap();
    counted!(T = u64, LANES = 8).launch(&stream, &from, &mut bins).unwrap();
    assert_eq!(bins.to_host().unwrap(), expected);
}

#[test]
fn lanes_vote() {
    let Some(stream) = stream() else { return };
    let x: Vec<f32> = numbers(300, 4).iter().map(|x| *x as f32).collect();
    let from = DeviceTensor::from_host(&stream, [300], &x).unwrap();
    let [mut any, mut all] = [(); 2].map(|()| DeviceTensor::<i32, 1>::poisoned(&stream, [300]).unwrap());
    voted!(LANES = 4).launch(&stream, &from, &mut any, &mut all).unwrap();
    let of = |vote: &dyn Fn(&[f32]) -> bool| -> Vec<i32> {
        x.chunks(4).flat_map(|group| vec![i32::from(vote(group)); group.len()]).collect()
    };
    assert_eq!(any.to_host().unwrap(), of(&|group| group.iter().any(|x| *x > 0.5)));
    assert_eq!(all.to_host().unwrap(), of(&|group| group.iter().all(|x| *x > 0.5)));
}
