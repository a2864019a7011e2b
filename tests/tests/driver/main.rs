//! Programs that launch kernels on the stand-in for the driver (`tests/fake_driver`): which driver calls are
//! made, in which order, and what happens when they fail. No kernel is executed.
#![cfg(target_os = "linux")]
// Mistakes possible through unsafe functions of cudarc must be refused or survived too.
#![allow(unsafe_code)]

mod allocations;
mod bundles;
mod captures;
mod compiler;
mod embedded;
mod exported;
mod faults;
mod harness;
mod hopper;
mod instrumented;
mod machine;
mod mistakes;
mod one_call;
mod order;
mod parallel;
mod plans;
mod refusals;
mod watching;

use tilewright::prelude::*;

/// A product of one tile for every size.
const MATMUL: MatmulKernel<f32> = matmul_kernel!(bm = 128, bn = 128, bk = 8, tc = (16, 16));
