//! The one call that multiplies: every type and layout on a device against the processor, and the host's time beside its time for
//! launching the kernel itself.

use std::time::Instant;

use tilewright::matmul::{Activation, Factor, Host, HostTensor, Matmul, Ran};
use tilewright::prelude::*;
use tilewright::{Element, matmul_into};
use tilewright_tests::number::Number;
use tilewright_tests::one_call::{self, Check, Drawn, PAIRS};
use tilewright_tests::sweep::share;

use super::stream;

const ROWS: MatmulKernel<f32> = matmul_kernel!(a = k_major, b = n_major, c = n_major);

/// A tensor of whole numbers, with rows or columns contiguous.
fn tensor<T: Element>(extents: [usize; 2], rows: bool, of: &impl Fn(f32) -> T) -> HostTensor<T, 2> {
    let values = (0..extents[0] * extents[1]).map(|at| of((at * 7 % 5) as f32 - 1.0)).collect();
    let made = if rows { HostTensor::row_major } else { HostTensor::column_major };
    made(extents, values).expect("as many")
}

fn check<T: Factor>(of: impl Fn(f32) -> T, value: impl Fn(T::Product) -> f64) {
    for [m, k, n] in [[33, 70, 20], [256, 128, 192], [1000, 301, 77]] {
        for orders in 0..4 {
            let (a, b) = (tensor([m, k], orders & 1 == 0, &of), tensor([k, n], orders & 2 == 0, &of));
            let zero = |_| T::Product::ZERO;
            let mut c = [tensor([m, n], true, &zero), tensor([m, n], true, &zero)];
            let [device, processor] = &mut c;
            let ran = matmul_into(&Host::new(), &a, &b, &mut *device)
                .unwrap_or_else(|error| panic!("{}: {error}", T::ELEM));
            assert!(matches!(ran, Ran::Device(_)), "{ran}");
            matmul_into(&Host::cpu(), &a, &b, &mut *processor)
                .unwrap_or_else(|error| panic!("{}: {error}", T::ELEM));
            for (one, other) in device.values().iter().zip(processor.values()) {
                let (one, other) = (value(*one), value(*other));
                assert!(
                    (one - other).abs() <= other.abs() / 128.0,
                    "{} {m}x{k}x{n}, {orders}: {one}, not {other}",
                    T::ELEM
                );
            }
        }
    }
}

#[test]
fn types_and_layouts() {
    let Some(_) = stream() else { return };
    check(f64::from, |x: f64| x);
    check(|x| x, |x: f32| x.into());
    check(f16::from_f32, |x: f16| x.to_f32().into());
    check(bf16::from_f32, |x: bf16| x.to_f32().into());
    check(|x| x as i32, |x: i32| x.into());
    check(tf32::from_f32, |x: f32| x.into());
    check(|x| x as i8, |x: i32| x.into());
    check(|x| (x + 1.0) as u8, |x: i32| x.into());
    check(e4m3::from_f32, |x: f32| x.into());
    check(e5m2::from_f32, |x: f32| x.into());
}

#[test]
fn options() {
    let Some(_) = stream() else { return };
    let (a, b) = (tensor([300, 200], true, &|x| x / 8.0), tensor([200, 100], true, &|x| x / 8.0));
    let bias = HostTensor::column_major([100], (0..100).map(|at| at as f32 / 50.0 - 1.0).collect())
        .expect("as many");
    let residual = tensor([300, 100], true, &|x| x);
    let run = |host: &Host| {
        let product = Matmul::new().alpha(0.5).bias(&bias).activation(Activation::Gelu);
        product.residual_after(&residual).run(host, &a, &b).expect("a product")
    };
    let (device, processor) = (run(&Host::new()), run(&Host::cpu()));
    for (one, other) in device.values().iter().zip(processor.values()) {
        assert!((one - other).abs() < 1e-4, "{one}, not {other}");
    }
}

/// A device against the processor.
struct DeviceAndProcessor;

impl Check for DeviceAndProcessor {
    fn check<T: Factor + Number, U: Number>(&self, drawn: &Drawn<T, U>, message: &str) {
        let run = |host| drawn.run(host, 40).unwrap_or_else(|error| panic!("{message}: {error}"));
        let ((device, one), (_, other)) = (run(&Host::new()), run(&Host::cpu()));
        assert!(matches!(device, Ran::Device(_)), "{device}");
        assert_eq!(drawn.difference([&one, &other], 16.0), None, "{message}");
    }
}

#[test]
fn hostile_numbers() {
    let Some(_) = stream() else { return };
    for seed in share(0..PAIRS * 60, 20) {
        one_call::check(seed, |_| 40, &DeviceAndProcessor);
    }
}

/// Prints the host's time for a repeated product by the call and by the kernel.
#[test]
fn host_time() {
    let Some(stream) = stream() else { return };
    let values = vec![1.0f32; 64 * 64];
    let tensor = || DeviceTensor::from_host_row_major(&stream, [64, 64], &values).expect("a tensor");
    let (a, b, mut c) = (tensor(), tensor(), tensor());
    let mut best = [f64::MAX; 2];
    for _ in 0..20 {
        let start = Instant::now();
        (0..200).for_each(|_| drop(matmul_into(&stream, &a, &b, &mut c).expect("a launch")));
        best[0] = best[0].min(start.elapsed().as_secs_f64() / 200.0);
        stream.synchronize().expect("it ends");
        let start = Instant::now();
        (0..200)
            .for_each(|_| drop(ROWS.launch(&stream, &a, b.view().transposed(), &mut c).expect("a launch")));
        best[1] = best[1].min(start.elapsed().as_secs_f64() / 200.0);
        stream.synchronize().expect("it ends");
    }
    println!("one call {:.2} µs, the kernel itself {:.2} µs", best[0] * 1e6, best[1] * 1e6);
    assert!(c.to_host().expect("a result").iter().all(|sum| *sum == 64.0));
}
