//! Invalid launches: each is refused with the argument at fault, before any driver call.

use std::mem::ManuallyDrop;

use crate::MATMUL;
use tilewright::kernels::{ladder, softmax};
use tilewright::prelude::*;
use tilewright_codegen::kernel_def::{Handle, KernelDef};
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::cudarc::driver::sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as LOCAL;
use tilewright_runtime::cudarc::driver::{CudaContext, CudaSlice, DevicePtr};
use tilewright_runtime::{
    Absence, Argument, Device, DeviceTensor, Error, Launch, LaunchMatmul, Launched, Stream, TensorMut,
    TensorRef,
};

use crate::harness::{Fake, launched};

type Matrix = DeviceTensor<f32, 2>;
type Outcome = Result<Launched, Error>;

/// A change of one tensor, and the expected message.
type Read = (&'static str, for<'a> fn(TensorRef<'a, f32, 2>) -> TensorRef<'a, f32, 2>);
type Written = (&'static str, for<'a> fn(TensorMut<'a, f32, 2>) -> TensorMut<'a, f32, 2>);

/// C = A·Bᵀ with M, N, K = 256, 128, 64.
struct Kit {
    stream: Stream,
    a: Matrix,
    b: Matrix,
    c: Matrix,
}

impl Kit {
    fn on(device: usize) -> Kit {
        let stream = Device::open(device).unwrap().stream().unwrap();
        let zeros = |extents| Matrix::zeros(&stream, extents).unwrap();
        let (a, b, c) = (zeros([256, 64]), zeros([128, 64]), zeros([256, 128]));
        Kit { stream, a, b, c }
    }

    /// A launch that is valid except for the given change.
    fn product<'a>(
        &'a mut self,
        change: impl FnOnce(&mut TensorRef<'a, f32, 2>, &mut TensorRef<'a, f32, 2>, &mut TensorMut<'a, f32, 2>),
    ) -> Outcome {
        let Kit { stream, a, b, c } = self;
        let (mut a, mut b, mut c) = (a.view(), b.view(), c.view_mut());
        change(&mut a, &mut b, &mut c);
        MATMUL.launch(stream, a, b, c)
    }
}

/// A product with other keys.
fn matmul(keys: &str) -> KernelDef {
    Words::specialize(MATMUL.def(), keys).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// No kernel was launched, and the message names the argument and the reason.
#[track_caller]
fn refused(argument: Option<&str>, message: &str, outcome: Outcome) {
    let error = outcome.expect_err(message);
    let text = error.to_string();
    let refusal = error.refusal().unwrap_or_else(|| panic!("no refusal: {text}"));
    assert_eq!(refusal.argument(), argument, "{text}");
    assert!(text.contains(message), "`{message}` is not said: {text}");
    assert_eq!(launched(), 0, "{text}");
}

/// After the refusals of a case, a valid launch succeeds.
fn then_right(mut kit: Kit) {
    kit.product(|_, _, _| {}).expect("a right launch");
    assert_eq!(launched(), 1);
}

#[test]
fn sizes_and_strides() {
    let run = Fake::new().run(|| {
        let mut kit = Kit::on(0);
        let a: &[Read] = &[
            ("its stride 0 is 64, and the kernel is made for 1", |a| a.row_major()),
            ("span 32767 elements, and the buffer has 16384", |a| a.strides([2, 512])),
            ("span 16384 elements, and the buffer has 16383", |a| a.offset(1)),
            ("span 16384 elements, and the buffer has 0", |a| a.offset(usize::MAX)),
            ("span 16385 elements, and the buffer has 16384", |a| a.strides([1, 256]).extents([257, 64])),
            ("its extent 0 is 2147483647, and", |a| a.extents([i32::MAX as usize, 1])),
            ("its extent 1 is 9223372036854775807", |a| a.extents([256, usize::MAX])),
            ("its stride 1 is 4294967296, and strides go", |a| a.strides([1, 1 << 32])),
            ("its stride 1 is 9223372036854775807", |a| a.strides([1, usize::MAX])),
            ("its stride 1 is 0, and the kernel takes it for at least 1", |a| a.strides([1, 0])),
        ];
        for (message, change) in a {
            refused(Some("a"), message, kit.product(|a, _, _| *a = change(a.clone())));
        }
        let b: &[Read] = &[
            ("its extent 1 is 63, and `K` is 64, the extent 1 of `a`", |b| b.extents([128, 63])),
            ("its extent 0 is 64", |b| b.transposed()),
            ("its stride 1 is 0", |b| b.strides([1, 0])),
            ("span", |b| b.strides([1, 129])),
        ];
        for (message, change) in b {
            let outcome = kit.product(|_, b, _| *b = change(b.clone()));
            // The strides of a transposed B are checked first.
            let message = if *message == "its extent 0 is 64" { "its extent 1 is 128" } else { message };
            refused(Some("b"), message, outcome);
        }
        let c: &[Written] = &[
            ("its extent 0 is 255, and `M` is 256, the extent 0 of `a`", |c| c.extents([255, 128])),
            ("its extent 1 is 127, and `N` is 128, the extent 0 of `b`", |c| c.extents([256, 127])),
            ("not greater than the 256 elements that its other modes span", |c| c.strides([1, 255])),
            ("its stride 1 is 0", |c| c.strides([1, 0])),
            ("its stride 0 is 0", |c| c.strides([0, 1])),
            ("span 32895 elements, and the buffer has 32768", |c| c.strides([1, 257])),
            ("its stride 0 is 128, and the kernel is made for 1", |c| c.row_major()),
        ];
        for (message, change) in c {
            let Kit { stream, a, b, c } = &mut kit;
            refused(Some("c"), message, MATMUL.launch(stream, &*a, &*b, change(c.view_mut())));
        }
        then_right(kit);
    });
    run.sound();
}

#[test]
fn arguments() {
    let run = Fake::new().run(|| {
        let mut kit = Kit::on(0);
        let (stream, def) = (kit.stream.clone(), MATMUL.def().clone());
        let Kit { a, b, c, .. } = &mut kit;
        let launch = |arguments: &mut [Argument<'_>]| def.launch_with(&stream, arguments);
        let number = || Argument::scalar(2f32);

        refused(
            Some("a"),
            "it is missing: the kernel takes 3 arguments, `a`, `b`, `c`, and 0",
            launch(&mut []),
        );
        refused(Some("b"), "and 1 were given", launch(&mut [(&*a).into()]));
        refused(Some("c"), "and 2 were given", launch(&mut [(&*a).into(), (&*b).into()]));
        refused(
            None,
            "and 4 were given",
            launch(&mut [(&*a).into(), (&*b).into(), (&mut *c).into(), number()]),
        );
        let given = &mut [(&*a).into(), number(), (&mut *c).into()];
        refused(Some("b"), "it is a tensor, and a number of type f32 was given", launch(given));
        let given = &mut [(&*a).into(), (&*b).into(), (&*c).into()];
        refused(Some("c"), "the kernel writes it, and it was lent for reading only", launch(given));
        let doubles = DeviceTensor::<f64, 2>::zeros(&stream, [256, 64]).unwrap();
        let given = &mut [(&doubles).into(), (&*b).into(), (&mut *c).into()];
        refused(Some("a"), "its elements are f32, and f64 were given", launch(given));
        let vector = DeviceTensor::<f32, 1>::zeros(&stream, [256]).unwrap();
        let given = &mut [(&vector).into(), (&*b).into(), (&mut *c).into()];
        refused(Some("a"), "it has 2 modes, and a tensor of 1 was given", launch(given));
        let solid = DeviceTensor::<f32, 3>::zeros(&stream, [256, 64, 1]).unwrap();
        let given = &mut [(&*a).into(), (&solid).into(), (&mut *c).into()];
        refused(Some("b"), "it has 2 modes, and a tensor of 3 was given", launch(given));

        let scaled = matmul("alpha_beta=true");
        let given = &mut [(&*a).into(), (&*b).into(), (&mut *c).into(), (&vector).into(), number()];
        refused(
            Some("alpha"),
            "it is a number of type f32, and a tensor was given",
            scaled.launch_with(&stream, given),
        );
        let given = &mut [(&*a).into(), (&*b).into(), (&mut *c).into(), number(), Argument::scalar(2f64)];
        refused(
            Some("beta"),
            "it is a number of type f32, and one of type f64 was given",
            scaled.launch_with(&stream, given),
        );
        let scaled = MATMUL.specialize(&[]).unwrap();
        let outcome = scaled.launch_scaled(&stream, 1.0, &*a, &*b, 0.0, &mut *c);
        refused(None, "it was made without `alpha_beta = true`", outcome);
        let scaled = product::<f32>(matmul("alpha_beta=true"), &0.0);
        refused(
            None,
            "and takes two numbers\nhelp: call `launch_scaled`",
            scaled.launch(&stream, &*a, &*b, &mut *c),
        );
        then_right(kit);
    });
    run.sound();
}

/// A product as unsafe code may construct it: its element type need not be the definition's.
fn product<T: tilewright_codegen::element::Element>(
    def: KernelDef,
    elements: &'static dyn tilewright_codegen::element::Elements<T>,
) -> MatmulKernel<T> {
    MatmulKernel { __handle: Handle::Shared(def.into()), __elements: elements }
}

#[test]
fn forged_kernels() {
    let run = Fake::new().run(|| {
        let mut kit = Kit::on(0);
        let stream = kit.stream.clone();
        let doubles = |extents| DeviceTensor::<f64, 2>::zeros(&stream, extents).unwrap();
        let (a, b, mut c) = (doubles([256, 64]), doubles([128, 64]), doubles([256, 128]));
        let forged = product::<f64>(MATMUL.def().clone(), &0.0);
        refused(
            Some("a"),
            "its elements are f32, and f64 were given",
            forged.launch(&stream, &a, &b, &mut c),
        );
        // The definition is launched, not the source text that a kernel carries.
        let definition = MATMUL.def().definition().unwrap();
        let bytes: &'static [u8] = tilewright_codegen::wire::encode(&definition).leak();
        let params = Vec::leak(MATMUL.params()[..1].to_vec());
        let other =
            KernelDef::new("other", "extern \"C\" __global__ void other() {}", "", params, bytes, b"");
        let other = other.with_generator(tilewright_codegen::GENERATOR);
        refused(Some("b"), "and 1 were given", other.launch_with(&stream, &mut [(&kit.a).into()]));
        let broken = KernelDef::new("broken", "", "", &[], b"not a definition", b"");
        let broken = broken.with_generator(tilewright_codegen::GENERATOR);
        assert!(broken.launch_with(&stream, &mut [(&kit.a).into()]).is_err() && launched() == 0);
        // C's element type is the caller's choice.
        let outcome = MATMUL.launch(&stream, &kit.a, &kit.b, &mut c);
        refused(Some("c"), "its elements are f32, and f64 were given", outcome);
        let sums = product::<i8>(matmul("dtype=i8 mma=none"), &0);
        let bytes = |extents| DeviceTensor::<i8, 2>::zeros(&stream, extents).unwrap();
        let (a, b, mut c) = (bytes([256, 64]), bytes([128, 64]), bytes([256, 128]));
        refused(Some("c"), "its elements are i32, and i8 were given", sums.launch(&stream, &a, &b, &mut c));
        let whole = product::<i32>(matmul("dtype=i32 alpha_beta=true"), &0);
        let integers = |extents| DeviceTensor::<i32, 2>::zeros(&stream, extents).unwrap();
        let (a, b, mut c) = (integers([256, 64]), integers([128, 64]), integers([256, 128]));
        let outcome = whole.launch_scaled(&stream, 0.5, &a, &b, 0.0, &mut c);
        refused(Some("alpha"), "it is 0.5, and the kernel takes a number of type i32", outcome);
        let outcome = whole.launch_scaled(&stream, 1.0, &a, &b, f64::NAN, &mut c);
        refused(Some("beta"), "it is NaN", outcome);
        kit.product(|_, _, _| {}).expect("a right launch");
    });
    run.sound();
}

#[test]
fn other_kernels() {
    let run = Fake::new().run(|| {
        let kit = Kit::on(0);
        let stream = &kit.stream;
        let zeros = |extents| Matrix::zeros(stream, extents).unwrap();
        let (x, mut y) = (zeros([8, 100]), zeros([8, 100]));
        let softmax = softmax::softmax();
        let outcome = softmax.launch(stream, &x, y.view_mut().row_major());
        refused(Some("x"), "its stride 1 is 8, and the kernel is made for 1", outcome);
        let outcome =
            softmax.launch(stream, x.view().row_major(), y.view_mut().extents([7, 100]).row_major());
        refused(Some("y"), "its extent 0 is 7, and `M` is 8, the extent 0 of `x`", outcome);
        let naive = ladder::naive();
        let (a, b, mut c) = (zeros([16, 16]), zeros([16, 15]), zeros([16, 16]));
        let given = &mut [(&a).into(), (&b).into(), (&mut c).into()];
        let error = naive.launch_with(stream, given).expect_err("a refusal");
        assert!(error.refusal().is_some_and(|refusal| refusal.argument().is_some()), "{error}");
        assert_eq!(launched(), 0);
        then_right(kit);
    });
    run.sound();
}

/// A copy kernel with an unchecked precondition.
#[kernel]
unsafe fn trusting<const B: usize = 256>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (x, y) = (tile(x, B, block.x), tile(y, B, block.x));
    copy(parallelize(x, layout!(B), thread.x), parallelize(y, layout!(B), thread.x));
}

#[test]
fn unsafe_kernels() {
    let run = Fake::new().run(|| {
        let kit = Kit::on(0);
        let zeros = || DeviceTensor::<f32, 1>::zeros(&kit.stream, [1000]).unwrap();
        let (x, mut y) = (zeros(), zeros());
        let outcome = trusting().launch_with(&kit.stream, &mut [(&x).into(), (&mut y).into()]);
        refused(None, "the kernel is an `unsafe fn`", outcome);
        // SAFETY: the kernel has no precondition.
        unsafe { trusting().launch(&kit.stream, &x, &mut y) }.expect("a right launch");
        // Everything that can be checked is checked.
        let short = DeviceTensor::<f32, 1>::zeros(&kit.stream, [999]).unwrap();
        // SAFETY: as above.
        let error =
            unsafe { trusting().launch(&kit.stream, &short, &mut y) }.expect_err("a refusal").to_string();
        assert!(error.contains("argument `y`: its extent 0 is 1000, and `N` is 999"), "{error}");
        assert_eq!(launched(), 1);
    });
    run.sound();
}

#[test]
fn memory() {
    let run = Fake::new().run(|| {
        let mut kit = Kit::on(0);
        let stream = kit.stream.clone();
        // SAFETY: objects created on it are used only here.
        let cuda = unsafe { stream.cuda_stream() };
        let all: CudaSlice<f32> = cuda.alloc_zeros(1 << 17).unwrap();
        let (address, _tracked) = all.device_ptr(cuda);
        // Slices at arbitrary addresses come from unsafe code of cudarc: their extents are checked all the
        // same.
        let at = |bytes: u64, len: usize| {
            // SAFETY: it is within `all`, which outlives it, and is not freed.
            ManuallyDrop::new(unsafe { cuda.upgrade_device_ptr::<f32>(address + bytes, len) })
        };
        let (a, b) = (at(0, 256 * 64), at(1 << 16, 128 * 64));
        for (bytes, other) in [(0, "a"), (4 * (256 * 64 - 1), "a"), (1 << 16, "b"), ((1 << 16) + 64, "b")] {
            let mut c = at(bytes, 256 * 128);
            let (a, b) = (TensorRef::new(&*a, [256, 64]), TensorRef::new(&*b, [128, 64]));
            let outcome = MATMUL.launch(&stream, a, b, TensorMut::new(&mut *c, [256, 128]));
            refused(Some("c"), &format!("it is written, and overlaps `{other}` in memory"), outcome);
        }
        for bytes in [1, 2, 3] {
            let a = at(bytes, 256 * 64);
            let a = TensorRef::new(&*a, [256, 64]);
            refused(Some("a"), "and f32 is 4 bytes wide", MATMUL.launch(&stream, a, &kit.b, &mut kit.c));
        }
        let view = all.slice(0..1000);
        let a = TensorRef::new(&view, [256, 64]);
        let outcome = MATMUL.launch(&stream, a, &kit.b, &mut kit.c);
        refused(Some("a"), "span 16384 elements, and the buffer has 1000", outcome);
        then_right(kit);
    });
    run.sound();
}

#[test]
fn devices_and_contexts() {
    let run = Fake::new().set("FAKE_DEVICES", 2).run(|| {
        let (mut kit, mut other) = (Kit::on(0), Kit::on(1));
        let elsewhere =
            "it is on device 1, and the stream is on device 0\nhelp: copy it to the stream's device";
        refused(Some("a"), elsewhere, MATMUL.launch(&kit.stream, &other.a, &kit.b, &mut kit.c));
        refused(Some("b"), elsewhere, MATMUL.launch(&kit.stream, &kit.a, &other.b, &mut kit.c));
        refused(Some("c"), elsewhere, MATMUL.launch(&kit.stream, &kit.a, &kit.b, &mut other.c));
        let outcome = MATMUL.launch(&other.stream, &kit.a, &kit.b, &mut kit.c);
        refused(Some("a"), "it is on device 0, and the stream is on device 1", outcome);
        // Another context on the same device.
        let second = CudaContext::new_non_primary(0, 0).unwrap();
        let slice = second.new_stream().unwrap().alloc_zeros::<f32>(256 * 64).unwrap();
        let a = TensorRef::new(&slice, [256, 64]);
        let outcome = MATMUL.launch(&kit.stream, a, &kit.b, &mut kit.c);
        refused(Some("a"), "it is in another context of device 0 than the stream", outcome);
        assert!(matches!(Device::open(2), Err(Error::Absent(Absence::Ordinal { ordinal: 2, count: 2 }))));
        then_right(kit);
    });
    run.sound();
}

#[test]
fn streams() {
    let run = Fake::new().run(|| {
        let mut kit = Kit::on(0);
        let context = kit.stream.device().context().clone();
        let per_thread = context.per_thread_stream();
        // SAFETY: the stream is one of cudarc's, and alive.
        let error = unsafe { Stream::from_cuda(per_thread.clone()) }.expect_err("a refusal").to_string();
        assert!(error.contains("a stream is cudarc's per-thread stream"), "{error}");
        let slice = per_thread.alloc_zeros::<f32>(256 * 64).unwrap();
        let a = TensorRef::new(&slice, [256, 64]);
        let outcome = MATMUL.launch(&kit.stream, a, &kit.b, &mut kit.c);
        refused(None, "the stream of argument `a` is cudarc's per-thread stream", outcome);
        let error = DeviceTensor::<f32, 2>::from_slice(slice, [256, 64]).expect_err("a refusal").to_string();
        assert!(error.contains("the stream of the slice is cudarc's per-thread stream"), "{error}");

        // A capture of the launch's own stream through cudarc, then of a buffer's.
        let flags = tilewright_runtime::cudarc::driver::sys::CUgraphInstantiate_flags(0);
        // SAFETY: not satisfied on purpose: the test checks that the violation is detected.
        let captured = unsafe { kit.stream.cuda_stream() }.clone();
        captured.begin_capture(LOCAL).unwrap();
        let outcome = kit.product(|_, _, _| {});
        refused(
            None,
            "the stream is being captured into a graph, which could run when the tensors are gone",
            outcome,
        );
        captured.end_capture(flags).unwrap();
        let other = context.new_stream().unwrap();
        let slice = other.alloc_zeros::<f32>(256 * 64).unwrap();
        other.begin_capture(LOCAL).unwrap();
        let a = TensorRef::new(&slice, [256, 64]);
        let outcome = MATMUL.launch(&kit.stream, a, &kit.b, &mut kit.c);
        refused(None, "the stream of a buffer is being captured into a graph", outcome);
        other.end_capture(flags).unwrap();
        then_right(kit);
    });
    run.sound();
}

#[test]
fn tensors_that_cannot_be() {
    let run = Fake::new().run(|| {
        let kit = Kit::on(0);
        let stream = &kit.stream;
        let message = |message: &str, outcome: Result<Matrix, Error>| {
            let text = outcome.expect_err(message).to_string();
            assert!(text.contains(message), "{text}");
        };
        let host = [0f32; 12];
        message("span 15 elements, and 12 were given", Matrix::from_host(stream, [3, 5], &host));
        message("span 6 elements, and 12 were given", Matrix::from_host(stream, [3, 2], &host));
        let strided = Matrix::from_host_strided(stream, [3, 4], [1, 4], &host);
        message("span 15 elements, and 12 were given", strided);
        let theirs = stream.device().context().new_stream().unwrap();
        let slice = || theirs.alloc_zeros::<f32>(12).unwrap();
        message("span 15 elements, and the slice has 12", Matrix::from_slice(slice(), [3, 5]));
        let strided = Matrix::from_slice_strided(slice(), [3, 4], [usize::MAX, 4]);
        assert!(strided.is_err());
        for extents in [[usize::MAX, 2], [1 << 40, 1 << 40], [usize::MAX, usize::MAX]] {
            assert!(Matrix::zeros(stream, extents).is_err(), "{extents:?}");
            assert!(Matrix::from_host(stream, extents, &host).is_err(), "{extents:?}");
        }
        message("has 18446744073709551614 elements of f32", Matrix::zeros(stream, [usize::MAX - 1, 1]));
        let strided = |extents, strides| Matrix::from_host_strided(stream, extents, strides, &[1f32]);
        message(
            "18446744073709551616 elements of f32, 73786976294838206464 bytes",
            strided([2, 1], [usize::MAX, 1]),
        );
        // Empty, whatever the other extent.
        for extents in [[0, usize::MAX], [usize::MAX, 0]] {
            assert!(Matrix::zeros(stream, extents).unwrap().to_host().unwrap().is_empty());
        }
        // One element with broadcast strides.
        for (extents, text) in [
            (
                [usize::MAX, usize::MAX],
                "a tensor with extents [18446744073709551615, 18446744073709551615] has",
            ),
            (
                [1 << 40, 1 << 40],
                "1208925819614629174706176 elements of f32, 4835703278458516698824704 bytes",
            ),
            ([1 << 60, 1], "the host has no room for the 1152921504606846976 elements of the tensor"),
        ] {
            let one = strided(extents, [0, 0]).unwrap();
            assert_eq!(one.to_host_stored().unwrap(), [1.0]);
            let why = one.to_host().expect_err(text).to_string();
            assert!(why.contains(text), "{why}");
        }
        assert_eq!(strided([2, 2], [0, 0]).unwrap().to_host().unwrap(), [1.0; 4]);
        let mut small = Matrix::zeros(stream, [3, 4]).unwrap();
        let text = small.write(&host[1..]).expect_err("a refusal").to_string();
        assert!(text.contains("the tensor has 12 elements, and 11 were given"), "{text}");
        // More memory than the device has.
        let error = Matrix::zeros(stream, [1 << 20, 1 << 15]).expect_err("80 GiB are not enough").to_string();
        assert!(error.contains("OUT_OF_MEMORY"), "{error}");
        then_right(kit);
    });
    run.sound();
}

/// Devices that are too small or too old, by their attributes.
#[test]
fn limits() {
    let rows = [
        ("FAKE_ARCH", "75", "", "it is made for compute capability 8.0 or newer, and the device has 7.5"),
        ("FAKE_ARCH", "70", "", "and the device has 7.0"),
        (
            "FAKE_ARCH",
            "80",
            "arch=90",
            "it is made for compute capability 9.0 or newer, and the device has 8.0",
        ),
        ("FAKE_ATTRIBUTES", "97:1000", "", "bytes of shared memory, and the device gives it 1000 at most"),
        ("FAKE_ATTRIBUTES", "97:49152", "bk=64", "bytes of shared memory"),
        ("FAKE_ATTRIBUTES", "1:128", "", "a block has 256 threads, and 128 is the device's most"),
        ("FAKE_ATTRIBUTES", "5:1", "", "the grid would have 2 blocks along x, and 1 is the most"),
        // Blocks along y and z are counted along x where they are too many.
        ("FAKE_ATTRIBUTES", "5:3,6:1", "bn=64", "the grid would have 4 blocks along x, and 3 is the most"),
        (
            "FAKE_ATTRIBUTES",
            "5:3,7:3",
            "batched=true",
            "the grid would have 4 blocks along x, and 3 is the most",
        ),
    ];
    for (name, value, keys, message) in rows {
        let fake =
            Fake::new().set(name, value).set("TILEWRIGHT_KEYS", keys).set("TILEWRIGHT_EXPECTED", message);
        let run = fake.run(|| {
            let [keys, message] =
                ["TILEWRIGHT_KEYS", "TILEWRIGHT_EXPECTED"].map(|name| std::env::var(name).unwrap());
            let mut kit = Kit::on(0);
            let kernel = matmul(&keys);
            let outcome = if keys.contains("batched") {
                let zeros = |extents| DeviceTensor::<f32, 3>::zeros(&kit.stream, extents).unwrap();
                let (a, b, mut c) = (zeros([128, 8, 4]), zeros([128, 8, 4]), zeros([128, 128, 4]));
                kernel.launch_with(&kit.stream, &mut [(&a).into(), (&b).into(), (&mut c).into()])
            } else {
                let given = &mut [(&kit.a).into(), (&kit.b).into(), (&mut kit.c).into()];
                kernel.launch_with(&kit.stream, given)
            };
            refused(None, &message, outcome);
        });
        run.sound();
    }
}
