//! The one call that multiplies, on a device: which kernel it launches, and what it refuses before anything is submitted.

use tilewright::Element;
use tilewright::matmul::{Factor, Host, HostTensor, Matmul, Ran};
use tilewright::prelude::*;
use tilewright::{matmul, matmul_into};
use tilewright_codegen::launch::{self, Given};
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::{DeviceTensor, LaunchMatmul, TensorRef};
use tilewright_tests::sweep::count;

use crate::harness::{Fake, launched};

/// The same product by its keys.
const ROWS: MatmulKernel<f32> = matmul_kernel!(a = k_major, b = n_major, c = n_major);

fn stream() -> Stream {
    Device::open(0).and_then(|device| device.stream()).expect("a stream")
}

fn zeros<T: Element, const R: usize>(stream: &Stream, extents: [usize; R]) -> DeviceTensor<T, R> {
    DeviceTensor::zeros(stream, extents).expect("memory")
}

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
        // A further launch does not plan or compile.
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
fn a_launch_without_iterations_says_so() {
    let run = Fake::new().run(|| {
        let stream = stream();
        let (a, b) = (zeros::<f32, 2>(&stream, [30, 0]), zeros::<f32, 2>(&stream, [20, 0]));
        let mut c = zeros::<f32, 2>(&stream, [30, 20]);
        const COLUMNS: MatmulKernel<f32> = matmul_kernel!(bm = 64, bn = 64, bk = 8, tc = (16, 16));
        let launched = COLUMNS.launch(&stream, &a, &b, &mut c).expect("a launch").to_string();
        assert!(
            launched.starts_with("the kernel for loops without iterations: 1 x 1 x 1 blocks"),
            "{launched}"
        );
    });
    run.sound();
}

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Products of some sizes by the call, and what a launch of the kernel of their type and orders decides, which is what `tilewright bench
/// gemm` measures.
fn as_the_family<T: Factor>(stream: &Stream, random: &mut Random, shapes: u64) {
    let orders = [0, 1, 2].map(|_| random.below(2) == 1);
    let [a, b, c] = orders;
    let key = |rows: bool, names: [&'static str; 2]| names[usize::from(rows)];
    let keys = format!(
        "dtype={} a={} b={} c={}",
        T::ELEM,
        key(a, ["m_major", "k_major"]),
        key(b, ["k_major", "n_major"]),
        key(c, ["m_major", "n_major"])
    );
    let kernel = Words::read(&keys).expect("keys").matmul().unwrap_or_else(|why| panic!("{keys}: {why}"));
    let limits = stream.device().limits();
    for _ in 0..shapes {
        let [m, n, k] = [0, 1, 2].map(|_| match random.below(3) {
            0 => 2 + random.below(300),
            1 => 64 << random.below(4),
            _ => 8 * (1 + random.below(80)),
        } as usize);
        let given = |index: u64, elem, mutable, [rows, columns]: [usize; 2], row_major: bool| {
            let strides = if row_major { [columns, 1] } else { [1, rows] };
            Given::Tensor(launch::Tensor {
                elem,
                mutable,
                extents: vec![rows as i64, columns as i64],
                strides: strides.map(|stride| stride as i64).to_vec(),
                len: (rows * columns) as u64,
                address: index << 44,
            })
        };
        let planned = launch::plan(
            &kernel,
            &[
                given(1, T::ELEM, false, [m, k], a),
                given(2, T::ELEM, false, [n, k], !b),
                given(3, T::Product::ELEM, true, [m, n], c),
            ],
            &limits,
        );
        let plan = planned.unwrap_or_else(|why| panic!("{keys} {m}x{n}x{k}: {why}"));
        fn made<E: Element>(stream: &Stream, extents: [usize; 2], rows: bool) -> DeviceTensor<E, 2> {
            DeviceTensor::for_results(stream, extents, rows).expect("memory")
        }
        let (of_a, of_b) = (made::<T>(stream, [m, k], a), made::<T>(stream, [k, n], b));
        let mut of_c = made::<T::Product>(stream, [m, n], c);
        let launched = matmul_into(stream, &of_a, &of_b, &mut of_c).expect("a launch");
        assert_eq!(
            (launched.variant, launched.grid, launched.variants, launched.packed().len()),
            (Some(plan.variant), plan.grid, kernel.variants.len(), plan.packed.len()),
            "{keys} {m}x{n}x{k}"
        );
        println!("compared");
    }
}

#[test]
fn plans_are_those_of_the_family() {
    let shapes = count(10, 34);
    let run = Fake::new().run(|| {
        let (stream, mut random) = (stream(), Random(35));
        as_the_family::<f32>(&stream, &mut random, shapes);
        as_the_family::<bf16>(&stream, &mut random, shapes);
        as_the_family::<i8>(&stream, &mut random, shapes);
        as_the_family::<f64>(&stream, &mut random, shapes);
        as_the_family::<tf32>(&stream, &mut random, shapes);
        as_the_family::<e4m3>(&stream, &mut random, shapes);
    });
    let run = run.sound();
    assert_eq!(run.output.matches("compared").count() as u64, 6 * shapes);
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
    let refused = |run: crate::harness::Run, message: &str| {
        let run = run.sound();
        run.check(run.line("refused: ").contains(message), message);
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
        assert!(error.to_string().starts_with("argument `c`: its stride 1 is 0"), "{error}");
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
        let message = Device::open(0).map(|_| ()).expect_err("no device").to_string();
        assert!(message.contains("sees no device") && message.contains("`Host`"), "{message}");
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
