//! Lists of tensors, masks, loops that each thread leaves by itself and instructions of PTX on a device, against plain Rust.
#![allow(unsafe_code)]

use tilewright::kernels::memory::stencils;
use tilewright::prelude::*;
use tilewright_tests::{breaks, lists, masks, ptx};

use super::stream;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|n| (((n + seed) * 7919 + n / 7) % 201) as f32 / 100.0 - 1.0).collect()
}

#[test]
fn lists_of_tensors() {
    let Some(stream) = stream() else { return };
    let sizes = [1, 0, 956];
    let host = |seed: usize| sizes.map(|n| numbers(n, seed + n));
    let device =
        |x: &[Vec<f32>; 3]| x.each_ref().map(|x| DeviceTensor::from_host(&stream, [x.len()], x).unwrap());
    let (g, m, p) = (host(1), host(2), host(3));
    let v = host(4).map(|v| v.into_iter().map(f32::abs).collect::<Vec<f32>>());
    let (dg, mut dm, mut dv, mut dp) = (device(&g), device(&m), device(&v), device(&p));
    let kernel = lists::adam();
    kernel.launch(&stream, 0.01, dg.each_ref(), dm.each_mut(), dv.each_mut(), dp.each_mut()).unwrap();
    for i in 0..3 {
        let got = dp[i].to_host().unwrap();
        for at in 0..sizes[i] {
            let [g, m, v, p] = [&g, &m, &v, &p].map(|list| f64::from(list[i][at]));
            let (m, v) = (0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g);
            let expected = p - 0.01 * m / (v.sqrt() + 1e-8);
            assert!((f64::from(got[at]) - expected).abs() < 1e-5, "{i}, {at}");
        }
    }
    let sizes = [0, 129, 300, 5];
    let xs = sizes.map(|n| (0..n).map(|i| i * 37 + n).collect::<Vec<i32>>());
    let from = xs.each_ref().map(|x| DeviceTensor::from_host(&stream, [x.len()], x).unwrap());
    let mut y = DeviceTensor::<i32, 1>::poisoned(&stream, [434]).unwrap();
    lists::concatenated().launch(&stream, from.each_ref(), &mut y).unwrap();
    assert_eq!(y.to_host().unwrap(), xs.concat());
}

#[test]
fn masks_of_elements() {
    let Some(stream) = stream() else { return };
    let x: Vec<i32> = (0..300).collect();
    let from = DeviceTensor::from_host(&stream, [300], &x).unwrap();
    let mut steps = DeviceTensor::<i32, 1>::poisoned(&stream, [300]).unwrap();
    masks::collatz().launch(&stream, &from, &mut steps).unwrap();
    let expected = |mut n: i32| {
        let mut count = 0;
        while n > 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            count += 1;
        }
        count
    };
    assert_eq!(steps.to_host().unwrap(), x.iter().map(|n| expected(*n)).collect::<Vec<_>>());
    let (m, n) = (5, 300);
    let x = numbers(m * n, 0);
    let from = DeviceTensor::from_host_row_major(&stream, [m, n], &x).unwrap();
    let mut count = DeviceTensor::<i32, 1>::poisoned(&stream, [m]).unwrap();
    let mut any = DeviceTensor::<bool, 1>::poisoned(&stream, [m]).unwrap();
    let mut last = DeviceTensor::<i32, 1>::poisoned(&stream, [m]).unwrap();
    let mut y = DeviceTensor::from_host_row_major(&stream, [m, n], &x).unwrap();
    masks::within().launch(&stream, -0.25, 0.5, &from, &mut count, &mut any, &mut last, &mut y).unwrap();
    let inside = |x: &f32| *x > -0.25 && *x < 0.5;
    let counts: Vec<i32> = x.chunks(n).map(|row| row.iter().filter(|x| inside(x)).count() as i32).collect();
    assert_eq!(count.to_host().unwrap(), counts);
    assert_eq!(any.to_host().unwrap(), counts.iter().map(|n| *n > 0).collect::<Vec<_>>());
    let expected = x.chunks(n).map(|row| row.iter().rposition(inside).map_or(-1, |at| at as i32));
    assert_eq!(last.to_host().unwrap(), expected.collect::<Vec<_>>());
}

#[test]
fn loops_that_threads_leave() {
    let Some(stream) = stream() else { return };
    let sorted: Vec<i32> = (0..1000).map(|n| 3 * n - 20).collect();
    let keys: Vec<i32> = (0..130).map(|n| n * 97 % 3010 - 25).collect();
    let from = DeviceTensor::from_host(&stream, [1000], &sorted).unwrap();
    let given = DeviceTensor::from_host(&stream, [130], &keys).unwrap();
    let mut index = DeviceTensor::<i32, 1>::poisoned(&stream, [130]).unwrap();
    breaks::lower_bound().launch(&stream, &from, &given, &mut index).unwrap();
    let expected = keys.iter().map(|key| sorted.partition_point(|x| x < key) as i32);
    assert_eq!(index.to_host().unwrap(), expected.collect::<Vec<_>>());
    let x: Vec<f32> = (0..300).map(|n| (n * 37 % 101) as f32 / 40.0 - 2.0).collect();
    let y: Vec<f32> = (0..300).map(|n| (n * 53 % 97) as f32 / 48.0 - 1.0).collect();
    let [x, y] = [x, y].map(|x| DeviceTensor::from_host(&stream, [300], &x).unwrap());
    let mut n = DeviceTensor::<i32, 1>::poisoned(&stream, [300]).unwrap();
    let mut all = DeviceTensor::<i32, 1>::zeros(&stream, [1]).unwrap();
    breaks::escapes().launch(&stream, &x, &y, &mut n, &mut all).unwrap();
    // The sum of a block comes after the loop that its threads have left one by one.
    assert_eq!(all.to_host().unwrap(), [n.to_host().unwrap().iter().sum::<i32>()]);
}

#[test]
fn instructions_of_ptx() {
    let Some(stream) = stream() else { return };
    let a: Vec<u32> = (0..300u32).map(|n| n.wrapping_mul(2_654_435_761)).collect();
    let b: Vec<u32> = (0..300).map(|n| n * 40_503 + 9).collect();
    let c: Vec<u32> = (0..300).map(|n| 3 * n).collect();
    let [da, db, dc] = [&a, &b, &c].map(|x| DeviceTensor::from_host(&stream, [300], x).unwrap());
    let [mut parity, mut swapped, mut dot] =
        [(); 3].map(|()| DeviceTensor::<u32, 1>::poisoned(&stream, [300]).unwrap());
    // SAFETY: every call is safe.
    unsafe { ptx::bitwise().launch(&stream, &da, &db, &dc, &mut parity, &mut swapped, &mut dot) }.unwrap();
    let (parity, swapped, dot) =
        (parity.to_host().unwrap(), swapped.to_host().unwrap(), dot.to_host().unwrap());
    for i in 0..300 {
        let squares: u32 = a[i].to_le_bytes().iter().map(|x| u32::from(*x).pow(2)).sum();
        assert_eq!(
            (parity[i], swapped[i], dot[i]),
            (a[i] ^ b[i] ^ 7, a[i].swap_bytes(), 2 * (c[i] + squares))
        );
    }
}

/// A grid with more blocks along y than hardware has.
#[test]
fn long_grids_are_folded() {
    let Some(stream) = stream() else { return };
    let (m, n) = (8 * 65_536 + 1, 3);
    let x = numbers(m * n, 0);
    let from = DeviceTensor::from_host_row_major(&stream, [m, n], &x).unwrap();
    let mut to = DeviceTensor::from_host_row_major(&stream, [m, n], &x).unwrap();
    let launched = stencils::stencil_5().launch(&stream, &from, &mut to, 0.5, 0.125).unwrap();
    assert_eq!(launched.grid, [65_537, 1, 1]);
    let y = to.to_host_stored().unwrap();
    let at = |row: usize, column: usize| if row < m && column < n { x[row * n + column] } else { 0.0 };
    for (row, column) in (0..m * n).map(|at| (at / n, at % n)) {
        let (above, left) = (at(row.wrapping_sub(1), column), at(row, column.wrapping_sub(1)));
        let near = above + at(row + 1, column) + (left + at(row, column + 1));
        assert_eq!(y[row * n + column], 0.125f32.mul_add(near, 0.5 * at(row, column)), "{row}, {column}");
    }
}
