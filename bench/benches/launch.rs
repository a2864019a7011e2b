//! The host's time for a launch, on the stand-in for the driver: a kernel with one program and one with many alternatives,
//! launched again, and on a shape for the first time; beside the driver's call alone.
//!
//! `cargo bench -p tilewright-bench --bench launch`
#![allow(unsafe_code)]

use std::env;
use std::process;

use criterion::Criterion;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_codegen::{Generated, cuda};
use tilewright_runtime::cudarc::driver::DevicePtr;
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_runtime::raw::{self, Shape};
use tilewright_runtime::{Built, Device, DeviceTensor, Stored, Stream};
use tilewright_tests::fake::Folder;

/// Set in the process that measures.
const CHILD: &str = "TILEWRIGHT_FAKE_CHILD";

/// Keys of products, and the number of their programs.
const KERNELS: [(&str, &str); 2] = [
    ("plain product", "schedule=(vec=4) bk=16 stages=3"),
    ("product with alternatives", "dtype=bf16 arch=90 a=k_major b=k_major"),
];

/// Rows of the new shapes: more than are remembered.
const SHAPES: usize = 500;

fn main() {
    if env::var_os(CHILD).is_none() {
        let folder = Folder::new();
        let mut again = folder.this_program();
        let status =
            again.args(env::args_os().skip(1)).env(CHILD, "1").status().expect("a process can be started");
        drop(folder);
        process::exit(status.code().unwrap_or(1));
    }
    let mut criterion = Criterion::default().configure_from_args();
    for (name, keys) in KERNELS {
        let kernel = Words::read(keys).expect("keys").matmul().expect("a product");
        match keys.contains("bf16") {
            true => product::<tilewright_codegen::element::bf16>(&mut criterion, name, kernel, true),
            false => product::<f32>(&mut criterion, name, kernel, false),
        }
    }
    criterion.final_summary();
}

fn product<T: Stored<Elem = T> + tilewright_codegen::element::Element>(
    criterion: &mut Criterion,
    name: &str,
    kernel: Generated,
    rows: bool,
) {
    let stream = Device::open(0).expect("a device").stream().expect("a stream");
    let zeros = |extents| DeviceTensor::<T, 2>::zeros(&stream, extents).expect("a tensor");
    let (a, b, mut c) = (zeros([1024, 1024]), zeros([1024, 1024]), zeros([1024, 1024]));
    let bare = bare(&stream, &kernel);
    let variants = kernel.variants.len();
    // SAFETY: the kernel is as it was generated.
    let kernel = unsafe { Built::new(kernel) };
    let mut launch = |m: usize| {
        let (a, c) = (a.view().extents([m, 1024]), c.view_mut().extents([m, 1024]));
        let (a, b) = if rows { (a.strides([1024, 1]), b.view().row_major()) } else { (a, b.view()) };
        kernel.launch_with(&stream, &mut [a.into(), b.into(), c.into()]).expect("a launch")
    };
    let mut group = criterion.benchmark_group(format!("{name}, programs: {variants}"));
    group.bench_function("the driver's call alone", |bench| bench.iter(&bare));
    group.bench_function("launched again", |bench| bench.iter(|| launch(1024)));
    let mut next = 0;
    let mut new = || {
        next = (next + 1) % SHAPES;
        launch(8 * (next % 100) + next / 100 + 1)
    };
    // Compiles the variants that these shapes choose.
    (0..SHAPES).for_each(|_| drop(new()));
    group.bench_function("on a new shape", |bench| bench.iter(&mut new));
    group.finish();
}

/// The driver's call for a kernel's first program, without anything around it.
fn bare(stream: &Stream, kernel: &Generated) -> impl Fn() + use<> {
    let program = &kernel.variants[0].program;
    let nvrtc = Nvrtc::find(&[]).expect("the stand-in");
    let compiled = nvrtc.compile(&kernel.variants[0].source, &program.name, "sm_90a", &[]).expect("a binary");
    let cuda = unsafe { stream.cuda_stream() }.clone();
    let slice = cuda.alloc_zeros::<u8>(1 << 20).expect("memory");
    let address = slice.device_ptr(&cuda).0;
    let shape = Shape::of(program, [1, 1, 1]);
    // SAFETY: the context is current.
    let function = unsafe { raw::load(&compiled.cubin, &cuda::entry(program), &shape) }.expect("a function");
    let shape = Shape { cluster: [1; 3], ..shape };
    let words = vec![[address; 16]; program.params.len()];
    move || {
        let _memory = &slice;
        let mut words = words.clone();
        let mut pointers: Vec<_> = words.iter_mut().map(|word| word.as_mut_ptr().cast()).collect();
        // SAFETY: the driver executes nothing.
        unsafe { raw::launch(function, &shape, cuda.cu_stream(), &mut pointers) }.expect("a launch");
    }
}
