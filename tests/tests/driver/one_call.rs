//! The one call that multiplies, on a device: which kernel it launches, and what it refuses before anything is submitted.

use tilewright::matmul::{Host, HostTensor, Matmul, Ran};
use tilewright::prelude::*;
use tilewright::{matmul, matmul_into};
use tilewright_runtime::{DeviceTensor, LaunchMatmul, TensorRef};

use crate::harness::{Fake, launched};

/// The same product by its keys.
const ROWS: MatmulKernel<f32> = matmul_kernel!(a = k_major, b = n_major, c = n_major);

fn stream() -> Stream {
    Device::open(0).and_then(|device| device.stream()).expect("a stream")
}

fn zeros<T: Element, const R: usize>(stream: &Stream, extents: [usize; R]) -> DeviceTensor<T, R> {
    DeviceTensor::zeros(stream, extents).expect("memory")
}

use tilewright::Element;

#[test]
fn the_launch_is_that_of_the_kernel() {
    let run = Fake::new().run(|| {
        let stream = stream();
        let values = vec![1.0f32; 300 * 200];
        let a = DeviceTensor::from_host_row_major(&stream, [300, 200], &values).expect("a");
        let b = DeviceTensor::from_host_row_major(&stream, [200, 100], &values[..20_000]).expect("b");
        let mut c = DeviceTensor::from_host_row_major(&stream, [300, 100], &values[..30_000]).expect("c");
        let one = matmul_into(&stream, &a, &b, &mut c).expect("a launch");
        let other = ROWS.launch(&stream, &a, b.view().transposed(), &mut c).expect("a launch");
        let shown = |launched: &tilewright::Launched| {
            (launched.variant, launched.grid, launched.threads, launched.shared_bytes)
        };
        assert_eq!(shown(&one), shown(&other));
        // A further launch plans and compiles nothing.
        let again = matmul_into(&stream, &a, &b, &mut c).expect("a launch");
        assert_eq!((again.prepared.as_nanos(), launched()), (0, 3));
        // The result is row-major where `a` is.
        assert_eq!(matmul(&stream, &a, &b).expect("a product").strides(), [100, 1]);
        let columns = matmul(&stream, b.view().transposed(), a.view().transposed()).expect("a product");
        assert_eq!((columns.shape(), columns.strides()), ([100, 300], [1, 100]));
    });
    run.sound();
}

#[test]
fn batches_and_options_reach_the_kernel() {
    let run = Fake::new().run(|| {
        let stream = stream();
        let (a, b) = (zeros::<bf16, 3>(&stream, [64, 32, 5]), zeros::<bf16, 3>(&stream, [32, 48, 5]));
        assert_eq!(matmul(&stream, &a, &b).expect("a product").shape(), [64, 48, 5]);
        let (a, b) = (zeros::<i8, 2>(&stream, [64, 32]), zeros::<i8, 2>(&stream, [32, 48]));
        let (rows, bias) = (zeros::<f32, 1>(&stream, [64]), zeros::<f32, 1>(&stream, [48]));
        let product = Matmul::new().scale_rows(&rows).bias(&bias).alpha(0.5).out::<f32>();
        assert_eq!(product.run(&stream, &a, &b).expect("a product").shape(), [64, 48]);
        // Tensors of the host go to the device and back.
        let host = HostTensor::row_major([8, 8], vec![1.0f32; 64]).expect("a tensor");
        let mut c = HostTensor::zeros([8, 8]).expect("a tensor");
        let ran = matmul_into(&Host::new(), &host, &host, &mut c).expect("a product");
        assert!(matches!(ran, Ran::Device(_)), "{ran}");
        assert!(ran.to_string().starts_with("on the GPU: variant "), "{ran}");
    });
    run.sound();
}

#[test]
fn what_a_device_cannot_multiply_is_refused() {
    let refused = |run: crate::harness::Run, said: &str| {
        let run = run.sound();
        run.check(run.line("refused: ").contains(said), said);
        run.check(run.launches() == 0, "something was launched");
    };
    fn say<T: Element, E: std::fmt::Display>(outcome: Result<T, E>) {
        println!("refused: {}", outcome.map(|_| ()).expect_err("a refusal").to_string().replace('\n', " | "));
    }
    let old = Fake::new().set("FAKE_ARCH", 75).run(|| {
        let stream = stream();
        let a = zeros::<bf16, 2>(&stream, [64, 64]);
        say(matmul(&stream, &a, &a).map(|_| 0));
    });
    refused(
        old,
        "the device has compute capability 7.5, and products of bf16 take 8.0 or newer | help: multiply on the processor: \
         `Host::cpu()` with tensors of the host",
    );
}

#[test]
fn eight_bits_take_newer_tensor_cores() {
    let run = Fake::new().set("FAKE_ARCH", 80).run(|| {
        let stream = stream();
        let a = zeros::<e4m3, 2>(&stream, [64, 64]);
        let error = matmul(&stream, &a, &a).expect_err("a refusal");
        assert_eq!(
            error.to_string(),
            "the device has compute capability 8.0, and products of e4m3 take 8.9 or newer\nhelp: convert the operands to \
             f16, which tensor cores of this device multiply"
        );
        assert_eq!(launched(), 0);
    });
    run.sound();
}

#[test]
fn overlapping_results_are_refused() {
    let run = Fake::new().run(|| {
        let stream = stream();
        let (a, mut c) = (zeros::<f32, 2>(&stream, [64, 64]), zeros::<f32, 2>(&stream, [64, 64]));
        let broadcast = c.view_mut().strides([1, 0]);
        let error = matmul_into(&stream, &a, &a, broadcast).expect_err("a refusal");
        assert!(
            error.to_string().starts_with("argument `c`: it is written, and its stride 1 is 0"),
            "{error}"
        );
        let empty = TensorRef::from(&a).extents([64, 0]);
        let error = matmul_into(&stream, empty, a.view().extents([0, 64]), &mut c).expect_err("a refusal");
        assert!(
            error.to_string().starts_with("argument `a`: it is 64 x 0, and its extent 1 is 0"),
            "{error}"
        );
        assert_eq!(launched(), 0);
    });
    run.sound();
}

#[test]
fn without_a_device_the_processor_multiplies() {
    let run = Fake::new().set("FAKE_DEVICES", 0).run(|| {
        let said = Device::open(0).map(|_| ()).expect_err("no device").to_string();
        assert!(said.contains("sees no device") && said.contains("`Host`"), "{said}");
        let a = HostTensor::row_major([8, 8], vec![1.0f32; 64]).expect("a tensor");
        assert_eq!(matmul(&Host::new(), &a, &a).expect("a product").values(), [8.0; 64]);
        let large = HostTensor::row_major([64, 64], vec![1.0f32; 4096]).expect("a tensor");
        let mut c = HostTensor::zeros([64, 64]).expect("a tensor");
        let ran = matmul_into(&Host::new(), &large, &large, &mut c).expect("a product");
        assert!(ran.to_string().starts_with("on the processor, by loops"), "{ran}");
        assert_eq!(c.values(), [64.0; 4096]);
    });
    run.sound();
}
