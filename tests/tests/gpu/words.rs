//! Instructions of PTX and long grids on a device, against plain Rust.
#![allow(unsafe_code)]

use tilewright::kernels::memory::stencils;
use tilewright::prelude::*;
use tilewright_tests::ptx;

use super::stream;

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|n| (((n + seed) * 7919 + n / 7) % 201) as f32 / 100.0 - 1.0).collect()
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
