//! Launches whose plans are kept: each is as if it were the first, whatever was launched before it.

use crate::MATMUL;
use tilewright::bf16;
use tilewright::kernels::memory::stencils;
use tilewright_codegen::Elem;
use tilewright_codegen::launch::{Given, Tensor, plan};
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::cudarc::driver::{CudaSlice, DevicePtr};
use tilewright_runtime::{
    Argument, Built, Device, DeviceTensor, Launch, LaunchMatmul, Launched, Stream, TensorMut, TensorRef,
};
use tilewright_tests::{gallery, lists};

use crate::harness::{Call, Fake, Run, launched};

type Matrix = DeviceTensor<f32, 2>;

fn stream() -> Stream {
    Device::open(0).unwrap().stream().unwrap()
}

/// A product of several programs, whose operands may be packed.
fn product() -> Built {
    let keys = "dtype=bf16 arch=90 a=k_major b=k_major c=n_major";
    // SAFETY: the kernel was generated from keys.
    unsafe { Built::new(gallery::matmul(keys).kernel.unwrap()) }
}

fn launches(run: &Run) -> Vec<&Call> {
    run.calls.iter().filter(|call| call.is_launch() && call.status == 0).collect()
}

fn zeros(stream: &Stream, extents: [usize; 2]) -> Matrix {
    Matrix::zeros(stream, extents).unwrap()
}

/// The output of a launch, without its time.
fn shown(launched: Launched) -> String {
    let mut launched = launched;
    launched.prepared = Default::default();
    format!("{launched:?}")
}

/// A row-major matrix in a buffer: extents, the stride of rows, and the offset.
#[derive(Clone, Copy, Debug)]
struct Rows([usize; 2], usize, usize);

impl Rows {
    fn given(self, slice: &CudaSlice<bf16>, mutable: bool) -> Given {
        let Rows(extents, stride, offset) = self;
        Given::Tensor(Tensor {
            elem: Elem::Bf16,
            mutable,
            extents: extents.map(|n| n as i64).to_vec(),
            strides: vec![stride as i64, 1],
            len: (slice.len() - offset) as u64,
            address: slice.device_ptr(slice.stream()).0 + 2 * offset as u64,
        })
    }

    fn read(self, slice: &CudaSlice<bf16>) -> TensorRef<'_, bf16, 2> {
        TensorRef::new(slice, self.0).strides([self.1, 1]).offset(self.2)
    }

    fn write(self, slice: &mut CudaSlice<bf16>) -> TensorMut<'_, bf16, 2> {
        TensorMut::new(slice, self.0).strides([self.1, 1]).offset(self.2)
    }
}

/// Three buffers for operands and results.
struct Buffers {
    stream: Stream,
    all: [CudaSlice<bf16>; 3],
}

impl Buffers {
    fn on(device: usize) -> Buffers {
        let stream = Device::open(device).unwrap().stream().unwrap();
        let slice = || DeviceTensor::<bf16, 1>::zeros(&stream, [1 << 20]).unwrap().into_slice().unwrap();
        Buffers { all: [slice(), slice(), slice()], stream }
    }

    fn launch(&mut self, kernel: &Built, rows: [Rows; 3]) -> Result<Launched, String> {
        let ([a, b, c], [at, bt, ct]) = (&mut self.all, rows);
        let given: &mut [Argument<'_>] = &mut [at.read(a).into(), bt.read(b).into(), ct.write(c).into()];
        kernel.launch_with(&self.stream, given).map_err(|why| why.to_string())
    }

    /// A launch is as its plan says, or refused as the planner refuses it.
    #[track_caller]
    fn check(&mut self, kernel: &Built, rows: [Rows; 3]) -> Option<usize> {
        let given: Vec<Given> = (0..3).map(|index| rows[index].given(&self.all[index], index == 2)).collect();
        let plan = plan(kernel.generated(), &given, &self.stream.device().limits());
        let launched = self.launch(kernel, rows);
        match (plan, launched) {
            (Ok(plan), Ok(launched)) => {
                let program = &kernel.generated().variant(plan.variant).program.launch;
                let packed =
                    plan.packed.iter().map(|packed| kernel.generated().params[packed.arg].name.clone());
                assert_eq!(launched.variant, (!plan.is_empty()).then_some(plan.variant), "{rows:?}");
                assert_eq!(launched.grid, plan.grid, "{rows:?}");
                assert_eq!(launched.shared_bytes, program.shared_bytes, "{rows:?}");
                let names = launched.packed().into_iter().map(|(name, _)| name);
                assert!(names.eq(packed), "{rows:?}: {launched}");
                launched.variant
            }
            (Err(refusal), Err(message)) => {
                assert_eq!(refusal.to_string(), message, "{rows:?}");
                None
            }
            (plan, launched) => panic!("{rows:?}: {plan:?}, {launched:?}"),
        }
    }
}

/// Rows of a product of sizes M, N, K, without gaps.
fn compact([m, n, k]: [usize; 3]) -> [Rows; 3] {
    [Rows([m, k], k, 0), Rows([n, k], k, 0), Rows([m, n], n, 0)]
}

#[test]
fn a_launch_again_passes_the_same_to_the_driver() {
    let run = Fake::new().run(|| {
        let (mut buffers, kernel) = (Buffers::on(0), product());
        let mut launch = || shown(buffers.launch(&kernel, compact([256, 128, 64])).unwrap());
        let first = launch();
        assert_eq!([launch(), launch()], [first.clone(), first]);
    });
    let run = run.sound();
    let texts: Vec<String> = launches(&run).iter().map(|call| format!("{call:?}")).collect();
    assert_eq!((texts.len(), &texts[0], &texts[1]), (3, &texts[1], &texts[2]));
    assert_eq!((run.count("nvrtcCompileProgram"), run.count("cuModuleLoadData")), (1, 1));
    // Tensor maps are encoded once.
    assert!(run.count("cuTensorMapEncodeTiled") <= 3 && run.count("cuTensorMapReplaceAddress") == 0);
}

/// A grid that is too long along y is launched with all blocks along x, by a kernel that is compiled when it is first needed.
#[test]
fn long_grids_are_folded_once() {
    let run = Fake::new().run(|| {
        let (kernel, stream) = (stencils::stencil_5(), stream());
        for (rows, grid) in [
            (24, [1, 3, 1]),
            (8 * 65_536 + 1, [65_537, 1, 1]),
            (8 * 65_536 + 1, [65_537, 1, 1]),
            (8 * 65_535, [1, 65_535, 1]),
        ] {
            let (x, mut y) = (zeros(&stream, [rows, 3]), zeros(&stream, [rows, 3]));
            let numbers = [0.5f32, 0.125].map(Argument::scalar);
            let [centre, side] = numbers;
            let given = &mut [x.view().row_major().into(), y.view_mut().row_major().into(), centre, side];
            assert_eq!(kernel.launch_with(&stream, given).unwrap().grid, grid);
        }
    });
    let run = run.sound();
    assert_eq!((launches(&run).len(), run.count("nvrtcCompileProgram")), (4, 2));
}

/// The plan has no address: other tensors of the same shape are passed, in maps too.
#[test]
fn other_tensors_of_the_same_shape_are_the_ones_that_are_passed() {
    let run = Fake::new().run(|| {
        let kernel = product();
        let (mut one, mut other) = (Buffers::on(0), Buffers::on(0));
        for buffers in [&mut one, &mut other] {
            let address = |slice: &CudaSlice<bf16>| slice.device_ptr(slice.stream()).0;
            println!("passed: {:#x} {:#x}", address(&buffers.all[0]), address(&buffers.all[1]));
            buffers.launch(&kernel, compact([256, 128, 64])).unwrap();
        }
        // A shape that packs its operands, in two workspaces.
        one.launch(&kernel, compact([256, 128, 71])).unwrap();
        other.launch(&kernel, compact([256, 128, 71])).unwrap();
    });
    let run = run.sound();
    let expected = run.output.lines().filter_map(|line| line.split_once("passed: ").map(|(_, rest)| rest));
    for (expected, call) in expected.zip(launches(&run)) {
        for address in expected.split(' ') {
            let text = format!("{call:?}");
            run.check(
                text.contains(&format!("(\"map\", \"{address}\")")),
                format!("{address} is not in {text}"),
            );
        }
    }
    assert!(run.count("cuTensorMapReplaceAddress") > 0);
    assert_eq!(launches(&run).len(), 2 + 2 * 3);
}

#[test]
fn numbers_are_those_of_the_launch() {
    let run = Fake::new().run(|| {
        let (stream, kernel) = (stream(), Words::specialize(MATMUL.def(), "alpha_beta=true").unwrap());
        let (a, b, mut c) = (zeros(&stream, [128, 8]), zeros(&stream, [128, 8]), zeros(&stream, [128, 128]));
        for (alpha, beta) in [(1.0f32, 0.0f32), (2.0, 0.0), (2.0, 3.0)] {
            let numbers = [alpha, beta].map(Argument::scalar);
            let [alpha, beta] = numbers;
            kernel
                .launch_with(&stream, &mut [(&a).into(), (&b).into(), (&mut c).into(), alpha, beta])
                .unwrap();
        }
    });
    let run = run.sound();
    let bits = |value: f32| format!("(\"number\", \"{}\")", value.to_bits());
    let wanted = [[1.0, 0.0], [2.0, 0.0], [2.0, 3.0]];
    for (call, wanted) in launches(&run).iter().zip(wanted) {
        assert!(wanted.iter().all(|value| format!("{call:?}").contains(&bits(*value))), "{call:?}");
    }
}

#[test]
fn strides_and_alignment_decide_again() {
    let run = Fake::new().run(|| {
        let (mut buffers, kernel) = (Buffers::on(0), product());
        let right = compact([256, 128, 64]);
        let with = |index: usize, rows: Rows| {
            let mut all = right;
            all[index] = rows;
            all
        };
        let usual = buffers.check(&kernel, right);
        for index in 0..3 {
            let Rows(extents, stride, _) = right[index];
            // A start at 2, 8 and 16 bytes past a multiple, and rows with gaps of as many.
            for offset in [1, 4, 8] {
                buffers.check(&kernel, with(index, Rows(extents, stride, offset)));
                buffers.check(&kernel, with(index, Rows(extents, stride + offset, 0)));
                assert_eq!(buffers.check(&kernel, right), usual);
            }
        }
        let odd = buffers.launch(&kernel, with(0, Rows([256, 64], 65, 0))).unwrap();
        assert_eq!(odd.packed(), [("a".to_owned(), "8 does not divide lda, which is 65".to_owned())]);
    });
    run.sound();
}

/// Everything that refuses a first launch refuses a later one of the same shape.
#[test]
fn what_is_wrong_after_a_right_launch_is_refused() {
    let run = Fake::new().run(|| {
        let (mut buffers, kernel) = (Buffers::on(0), product());
        let right = compact([256, 128, 64]);
        buffers.check(&kernel, right);
        let wrong = [
            // Out of the buffer, by one element; and for lack of elements from the offset on.
            (
                0,
                Rows([256, 64], 64, (1 << 20) - 256 * 64 + 8),
                "span 16384 elements, and the buffer has 16376",
            ),
            (1, Rows([128, 64], 64, 1 << 20), "span 8192 elements, and the buffer has 0"),
            (1, Rows([127, 64], 64, 0), "its extent 1 is 128"),
            (0, Rows([256, 65], 65, 0), "`K` is 65"),
            (2, Rows([256, 128], 127, 0), "not greater than the 128 elements"),
            (2, Rows([256, 128], 0, 0), "its stride 0 is 0"),
        ];
        for (index, rows, message) in wrong {
            let mut all = right;
            all[index] = rows;
            let why = buffers.launch(&kernel, all).expect_err(message);
            assert!(why.contains(message), "`{message}` is not said: {why}");
            buffers.check(&kernel, all);
            buffers.check(&kernel, right);
        }
        // A number instead of a tensor, and a tensor that is lent for reading only.
        let [a, b, c] = &mut buffers.all;
        let [at, bt, ct] = right;
        let given = &mut [at.read(a).into(), bt.read(b).into(), ct.read(c).into()];
        let why = kernel.launch_with(&buffers.stream, given).unwrap_err().to_string();
        assert!(why.contains("it was lent for reading only"), "{why}");
        let given = &mut [at.read(a).into(), Argument::scalar(1f32), ct.write(c).into()];
        let why = kernel.launch_with(&buffers.stream, given).unwrap_err().to_string();
        assert!(why.contains("it is a tensor, and a number of type f32 was given"), "{why}");
        assert_eq!(launched(), 7);
    });
    run.sound();
}

/// The same shape, in buffers that share memory.
#[test]
fn tensors_that_come_to_overlap_are_refused() {
    let run = Fake::new().run(|| {
        let stream = stream();
        // SAFETY: objects made on it are used only here.
        let cuda = unsafe { stream.cuda_stream() };
        let all = cuda.alloc_zeros::<f32>(1 << 17).unwrap();
        let address = all.device_ptr(cuda).0;
        let at = |elements: u64, len: usize| {
            // SAFETY: it is within `all`, which outlives it, and is not freed.
            std::mem::ManuallyDrop::new(unsafe {
                cuda.upgrade_device_ptr::<f32>(address + 4 * elements, len)
            })
        };
        let (a, b) = (at(0, 256 * 64), at(1 << 14, 128 * 64));
        // Starts at multiples of 64 elements, so that the overlap alone changes.
        for (start, shares) in [
            (1 << 16, None),
            (0, Some("a")),
            ((1 << 14) - 64, Some("a")),
            (1 << 14, Some("b")),
            ((1 << 14) + (1 << 13) - 64, Some("b")),
            ((1 << 14) + (1 << 13), None),
        ] {
            let mut c = at(start, 256 * 128);
            let (a, b) = (TensorRef::new(&*a, [256, 64]), TensorRef::new(&*b, [128, 64]));
            let outcome = MATMUL.launch(&stream, a, b, TensorMut::new(&mut *c, [256, 128]));
            match shares {
                None => assert_eq!(outcome.unwrap().variant, Some(0)),
                Some(other) => {
                    let message = format!("argument `c`: it is written, and overlaps `{other}` in memory");
                    let why = outcome.expect_err(&message).to_string();
                    assert!(why.starts_with(&message), "{why}");
                }
            }
        }
        // Tensors that are read may share memory.
        let (one, mut c) = (TensorRef::new(&*a, [128, 64]), at(1 << 16, 128 * 128));
        MATMUL.launch(&stream, one.clone(), one, TensorMut::new(&mut *c, [128, 128])).unwrap();
        assert_eq!(launched(), 3);
    });
    run.sound();
}

#[test]
fn each_device_has_its_own_kernels() {
    let run = Fake::new().set("FAKE_DEVICES", 3).set("FAKE_ARCH", "90,80,90").run(|| {
        let kernel = product();
        let mut devices: Vec<Buffers> = (0..3).map(Buffers::on).collect();
        for _ in 0..3 {
            for (device, buffers) in devices.iter_mut().enumerate() {
                let variant = buffers.check(&kernel, compact([256, 128, 64]));
                assert_eq!(variant.is_some(), device != 1, "device {device}");
            }
        }
        // Another context of the first device.
        let second = tilewright_runtime::cudarc::driver::CudaContext::new_non_primary(0, 0).unwrap();
        let (stream, f32s) = (Device::of(&second).unwrap().stream().unwrap(), stream());
        for stream in [&stream, &f32s, &stream] {
            let (a, b, mut c) = (zeros(stream, [128, 8]), zeros(stream, [128, 8]), zeros(stream, [128, 128]));
            MATMUL.launch(stream, &a, &b, &mut c).unwrap();
        }
    });
    let run = run.sound();
    assert_eq!((launches(&run).len(), run.count("cuModuleLoadData")), (6 + 3, 2 + 2));
}

#[test]
fn captures_and_launches_share_plans() {
    let run = Fake::new().run(|| {
        let (kernel, mut buffers) = (product(), Buffers::on(0));
        let stream = stream();
        let (a, b, mut c) = (zeros(&stream, [128, 8]), zeros(&stream, [128, 8]), zeros(&stream, [128, 128]));
        let mut plain = || MATMUL.launch(&stream, &a, &b, &mut c).map(drop);
        plain().unwrap();
        // SAFETY: the tensors outlive the graph, and no one else uses them while it runs.
        let graph = unsafe { stream.capture(&mut plain) }.unwrap();
        graph.launch().unwrap();
        plain().unwrap();
        stream.synchronize().unwrap();
        drop(graph);
        // Buffers of other streams are refused while the stream is captured, with the same plan.
        buffers.check(&kernel, compact([256, 128, 64]));
        let own = buffers.stream.clone();
        // SAFETY: no stream is captured.
        let captured = unsafe {
            own.capture(|| {
                let why = buffers.launch(&kernel, compact([256, 128, 64])).expect_err("a refusal");
                assert!(why.contains("another stream than the one that is captured"), "{why}");
                Ok(())
            })
        };
        drop(captured);
        buffers.check(&kernel, compact([256, 128, 64]));
    });
    run.sound();
}

/// A plan owns no memory: buffers are freed when they are dropped, and later ones get launches of their own.
#[test]
fn plans_keep_no_buffers() {
    for pools in [1, 0] {
        let run = Fake::new().set("FAKE_ATTRIBUTES", format!("115:{pools}")).run(|| {
            let stream = stream();
            for _ in 0..5 {
                let (a, b, mut c) =
                    (zeros(&stream, [128, 8]), zeros(&stream, [128, 8]), zeros(&stream, [128, 128]));
                MATMUL.launch(&stream, &a, &b, &mut c).unwrap();
                drop((a, b));
                MATMUL.launch(&stream, &zeros(&stream, [128, 8]), &zeros(&stream, [128, 8]), &mut c).unwrap();
            }
        });
        let run = run.sound();
        let count = |names: [&str; 2]| names.iter().map(|name| run.count(name)).sum::<usize>();
        assert_eq!(count(["cuMemAllocAsync", "cuMemAlloc_v2"]), count(["cuMemFreeAsync", "cuMemFree_v2"]));
        assert_eq!(launches(&run).len(), 10);
    }
}

/// More shapes than are kept, again and again; and kernels that are dropped and made again.
#[test]
fn plans_are_made_again_when_they_were_forgotten() {
    let run = Fake::new().run(|| {
        let mut buffers = Buffers::on(0);
        for _ in 0..2 {
            let kernel = product();
            for iteration in 0..3 {
                for m in 1..150 {
                    buffers.check(&kernel, compact([m, 128, 64]));
                    // One that is used between all the others.
                    if m % 7 == iteration {
                        buffers.check(&kernel, compact([512, 128, 64]));
                    }
                }
            }
        }
    });
    run.sound();
}

/// Shapes, strides and offsets in an order without a pattern, a third of them refused or empty.
#[test]
fn any_order_of_shapes() {
    let run = Fake::new().run(|| {
        let (mut buffers, kernel) = (Buffers::on(0), product());
        let mut state = 7u64;
        let mut draw = |of: &[usize]| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            of[(state >> 33) as usize % of.len()]
        };
        let mut variants = Vec::new();
        for _ in 0..400 {
            let [m, n, k] = [draw(&[0, 1, 64, 200, 1024]), draw(&[1, 128, 136]), draw(&[0, 64, 65, 72])];
            let mut row = |rows: usize, columns: usize| {
                let stride = columns.max(1) + draw(&[0, 0, 0, 1, 8]);
                Rows([rows, columns], stride, draw(&[0, 0, 0, 1, 8]))
            };
            let rows = [row(m, k), row(n, k), row(m, n)];
            variants.extend(buffers.check(&kernel, rows));
        }
        variants.sort_unstable();
        variants.dedup();
        assert!(variants.len() > 3, "{variants:?}");
    });
    run.sound();
}

/// Threads with streams and tensors of their own launch one kernel, on shapes that differ.
#[test]
fn threads_share_plans() {
    let run = Fake::new().run(|| {
        let kernel = product();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let kernel = &kernel;
                scope.spawn(move || {
                    let mut buffers = Buffers::on(0);
                    for iteration in 0..60 {
                        // Some are kept for all, some are made by each.
                        let m = if iteration % 2 == 0 { 128 } else { 1 + 40 * thread + iteration };
                        buffers.check(kernel, compact([m, 128, 64]));
                    }
                    buffers.stream.synchronize().unwrap();
                });
            }
        });
    });
    let run = run.sound();
    assert_eq!(launches(&run).len(), 4 * 60);
}

/// A launch passes the optional arguments that its kernel was made with, by name.
#[test]
fn optional_arguments_are_launched() {
    let run = Fake::new().run(|| {
        let stream = stream();
        let matrix = || zeros(&stream, [8, 64]);
        let (x, bias) = (matrix(), DeviceTensor::<f32, 1>::zeros(&stream, [64]).unwrap());
        let (mut y, mut before) = (matrix(), matrix());
        let x = || x.view().row_major();
        let (both, neither) = (lists::shifted(), lists::shifted!(bias = None, before = None));
        let mut launch = |kernel: &lists::shifted, has_bias: bool, has_before: bool| {
            let bias = has_bias.then(|| bias.view());
            let before = has_before.then(|| before.view_mut().row_major());
            let launched = kernel.launch(&stream, x(), bias, y.view_mut().row_major(), before);
            launched.map(drop).map_err(|why| why.to_string())
        };
        assert_eq!(launch(&both, true, true), Ok(()));
        assert_eq!(launch(&neither, false, false), Ok(()));
        let refused = "argument `bias`: it is not given, and this kernel was made with it\nhelp: pass `Some(…)`, or launch `shifted!(bias = None)`";
        assert_eq!(launch(&both, false, true), Err(refused.to_owned()));
        let refused = "argument `before`: it is given, and this kernel was made without it\nhelp: pass `None`, or launch `shifted()`";
        assert_eq!(launch(&neither, false, true), Err(refused.to_owned()));
    });
    let run = run.sound();
    assert_eq!(launches(&run).len(), 2);
}

#[test]
fn lists_of_tensors_are_launched() {
    let run = Fake::new().run(|| {
        let stream = stream();
        let vector = |n: usize| DeviceTensor::<f32, 1>::zeros(&stream, [n]).unwrap();
        let (a, b, c, mut y) = (vector(700), vector(700), vector(700), vector(700));
        assert_eq!(lists::mean().launch(&stream, [&a, &b, &c], &mut y).unwrap().grid, [2, 1, 1]);
        let sizes = [1, 300, 256];
        let list = || sizes.map(vector);
        let (g, mut m, mut v, mut p) = (list(), list(), list(), list());
        let launched =
            lists::adam().launch(&stream, 0.5, g.each_ref(), m.each_mut(), v.each_mut(), p.each_mut());
        assert_eq!(launched.unwrap().grid, [4, 1, 1]);
        let two: Vec<&DeviceTensor<f32, 1>> = vec![&g[0], &g[1]];
        let refused = lists::adam().launch(&stream, 0.5, two, m.each_mut(), v.each_mut(), p.each_mut());
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("the kernel takes 13 arguments") && refused.contains("`gradients_2`"),
            "{refused}"
        );
    });
    let run = run.sound();
    assert_eq!(launches(&run).len(), 2);
}
