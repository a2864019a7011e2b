//! Bulk tensor copies and clusters: the driver calls they make, and the launches refused before any call.

use tilewright::bf16;
use tilewright_codegen::build::Builder;
use tilewright_codegen::{Elem, generate, tile};
use tilewright_codegen::{affine::Coord, view::At};
use tilewright_layout::{Value, layout};
use tilewright_runtime::{Argument, Built, Device, DeviceTensor, Error, Launched, Stream};
use tilewright_tests::{gallery, programs};

use crate::harness::{Fake, Run, launched};

fn built(program: tile::Program) -> Built {
    let outcome = generate(program);
    let messages: Vec<String> = outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect();
    let kernel = outcome.kernel.unwrap_or_else(|| panic!("{messages:?}"));
    // SAFETY: the kernel was generated from a program of the builder.
    unsafe { Built::new(kernel) }
}

fn stream() -> Stream {
    Device::open(0).unwrap().stream().unwrap()
}

#[test]
fn tensor_maps_are_as_the_tensors() {
    let run = Fake::new().run(|| {
        let (stream, kernel) = (stream(), built(programs::wgmma_ring().unwrap()));
        let (a, b) = (zeros(&stream, [100, 128]), zeros(&stream, [72, 128]));
        let mut c = DeviceTensor::<f32, 2>::zeros(&stream, [100, 72]).unwrap();
        let (a, b) = (a.view().row_major(), b.view().row_major());
        kernel.launch_with(&stream, &mut [a.into(), b.into(), c.view_mut().row_major().into()]).unwrap();
    });
    let run = run.sound();
    let maps: Vec<_> = run.calls.iter().filter(|call| call.name == "cuTensorMapEncodeTiled").collect();
    let texts: Vec<_> =
        maps.iter().map(|map| ["extents", "strides", "tile", "swizzle"].map(|name| map.get(name))).collect();
    assert_eq!(texts, [["[128,100]", "[256]", "[64,64]", "3"], ["[128,72]", "[256]", "[64,64]", "3"]]);
    let launch = run.calls.iter().find(|call| call.is_launch()).unwrap();
    assert_eq!((launch.get("grid_x"), launch.get("grid_y"), launch.get("block_x")), ("2", "2", "160"));
    // The maps use the addresses of the pointers passed beside them.
    let text = format!("{launch:?}");
    for map in maps {
        let address = map.get("address");
        run.check(text.contains(&format!("(\"map\", \"{address}\")")), format!("{address} is not passed"));
    }
}

fn zeros(stream: &Stream, extents: [usize; 2]) -> DeviceTensor<bf16, 2> {
    DeviceTensor::zeros(stream, extents).unwrap()
}

#[test]
fn what_cannot_be_copied_in_bulk_is_refused() {
    let run = Fake::new().run(|| {
        let (stream, kernel) = (stream(), built(programs::wgmma_ring().unwrap()));
        let large = zeros(&stream, [256, 256]);
        let check = |argument: &str, message: &str, a_offset: usize, lda: usize, ldb: usize| {
            let a = large.view().extents([64, 64]).strides([lda, 1]).offset(a_offset);
            let b = large.view().extents([64, 64]).strides([ldb, 1]);
            let mut c = DeviceTensor::<f32, 2>::zeros(&stream, [64, 64]).unwrap();
            let given: &mut [Argument<'_>] = &mut [a.into(), b.into(), c.view_mut().row_major().into()];
            let error = kernel.launch_with(&stream, given).expect_err(message);
            let text = error.to_string();
            assert!(text.contains(message) && text.contains(argument) && launched() == 0, "{text}");
            assert!(error.refusal().is_some(), "{text}");
        };
        check("`a`", "bytes past", 1, 64, 64);
        check("`a`", "bytes past", 7, 64, 64);
        check("lda", "8", 0, 68, 64);
        check("ldb", "8", 0, 64, 65);
    });
    assert_eq!(run.sound().count("cuTensorMapEncodeTiled"), 0, "the encoder is not asked");
}

#[test]
fn other_architectures_do_not_run_them() {
    for arch in ["80", "89", "100", "120"] {
        let run = Fake::new().set("FAKE_ARCH", arch).run(|| {
            let (stream, kernel) = (stream(), built(programs::wgmma_ring().unwrap()));
            let (a, b) = (zeros(&stream, [64, 64]), zeros(&stream, [64, 64]));
            let mut c = DeviceTensor::<f32, 2>::zeros(&stream, [64, 64]).unwrap();
            let (a, b) = (a.view().row_major(), b.view().row_major());
            let given: &mut [Argument<'_>] = &mut [a.into(), b.into(), c.view_mut().row_major().into()];
            let message = kernel.launch_with(&stream, given).expect_err("a refusal").to_string();
            assert!(message.contains("compute capability 9.0"), "{message}");
        });
        let run = run.sound();
        assert_eq!((run.launches(), run.count("nvrtcCompileProgram")), (0, 0));
    }
}

/// A copy kernel in clusters of two blocks.
fn pairs() -> Built {
    let mut b = Builder::new("pairs");
    b.arch(90).cluster([2, 1, 1]);
    copies(b)
}

/// A copy kernel.
fn copies(mut b: Builder) -> Built {
    let (m, n) = (Value::symbol("M"), Value::symbol("N"));
    let x = b.tensor("x", Elem::F32, (m, n), None, false).unwrap();
    let y = b.tensor("y", Elem::F32, (m, n), None, true).unwrap();
    let at = [At::Index(Coord::Block(0).into()), At::Index(Coord::Block(1).into())];
    let (x, y) = (b.tile(&x, (64, 8), &at).unwrap(), b.tile(&y, (64, 8), &at).unwrap());
    let threads = layout!((32, 4));
    let (x, y) = (b.parallelize(&x, &threads).unwrap(), b.parallelize(&y, &threads).unwrap());
    b.copy(&x, &y).unwrap();
    built(b.finish())
}

#[test]
fn clusters() {
    let run = Fake::new().run(|| {
        let (stream, kernel) = (stream(), pairs());
        let zeros = |extents| DeviceTensor::<f32, 2>::zeros(&stream, extents).unwrap();
        let launch = |rows: usize| {
            let (x, mut y) = (zeros([rows, 8]), zeros([rows, 8]));
            kernel.launch_with(&stream, &mut [(&x).into(), (&mut y).into()])
        };
        for rows in [64, 129, 192] {
            let message = launch(rows).expect_err("a refusal").to_string();
            let blocks = rows.div_ceil(64);
            assert_eq!(
                message,
                format!("the number of blocks along x is {blocks}, and clusters take 2 at a time\nhelp: launch more blocks, as in `walk(max(2 * ceil_div(N, 2 * W), ceil_div(N, W)), block.x)` before tiles of W elements")
            );
            assert_eq!(launched(), 0);
        }
        launch(256).unwrap();
        launch(65).unwrap();
    });
    let run = run.sound();
    let launches: Vec<_> = run.calls.iter().filter(|call| call.is_launch()).collect();
    let texts: Vec<_> =
        launches.iter().map(|call| ["grid", "block", "cluster"].map(|name| call.get(name))).collect();
    assert_eq!(texts, [["[4,1,1]", "[128,1,1]", "[2,1,1]"], ["[2,1,1]", "[128,1,1]", "[2,1,1]"]]);
}

/// The attributes of each launch: the cluster size, and programmatic dependent launch.
fn launches(run: &Run) -> Vec<[&str; 2]> {
    let launches = run.calls.iter().filter(|call| call.is_launch());
    launches.map(|call| ["cluster", "overlaps"].map(|name| call.get(name))).collect()
}

#[test]
fn launches_overlap_where_the_device_can() {
    for (arch, expected) in [("80", ""), ("89", ""), ("90", "1"), ("100", "1"), ("120", "1")] {
        let run = Fake::new().set("FAKE_ARCH", arch).run(|| {
            let (stream, mut b) = (stream(), Builder::new("early"));
            b.program_mut().overlaps = true;
            let (early, ordinary) = (copies(b), copies(Builder::new("ordinary")));
            let zeros = || DeviceTensor::<f32, 2>::zeros(&stream, [100, 8]).unwrap();
            let (x, mut y) = (zeros(), zeros());
            for kernel in [&early, &ordinary, &early] {
                kernel.launch_with(&stream, &mut [(&x).into(), (&mut y).into()]).unwrap();
            }
        });
        let run = run.sound();
        assert_eq!(launches(&run), [["", expected], ["", ""], ["", expected]], "{arch}");
    }
}

#[test]
fn clusters_overlap() {
    let run = Fake::new().run(|| {
        let (stream, mut b) = (stream(), Builder::new("early_pairs"));
        b.arch(90).cluster([2, 1, 1]);
        b.program_mut().overlaps = true;
        let zeros = || DeviceTensor::<f32, 2>::zeros(&stream, [128, 8]).unwrap();
        let (x, mut y) = (zeros(), zeros());
        copies(b).launch_with(&stream, &mut [(&x).into(), (&mut y).into()]).unwrap();
    });
    assert_eq!(launches(&run.sound()), [["[2,1,1]", "1"]]);
}

/// A launch that waits for other streams is launched without the attribute. One that is captured has it, where the driver's graphs have
/// edges for it.
#[test]
fn launches_that_wait_do_not_overlap() {
    let run = Fake::new().run(|| captures_between_launches(stream())).sound();
    let overlaps: Vec<&str> = launches(&run).iter().map(|launch| launch[1]).collect();
    assert_eq!(overlaps, ["1", "", "1", "1"]);
}

fn captures_between_launches(stream: Stream) {
    let mut b = Builder::new("early");
    b.program_mut().overlaps = true;
    let kernel = copies(b);
    let zeros = |stream: &Stream| DeviceTensor::<f32, 2>::zeros(stream, [100, 8]).unwrap();
    let (x, mut y, mut elsewhere) = (zeros(&stream), zeros(&stream), zeros(&self::stream()));
    let launch =
        |y: &mut DeviceTensor<f32, 2>| kernel.launch_with(&stream, &mut [(&x).into(), y.into()]).map(drop);
    launch(&mut y).unwrap();
    launch(&mut elsewhere).unwrap();
    // SAFETY: the tensors outlive the graph, and no one else uses them.
    let graph = unsafe { stream.capture(|| launch(&mut y)) }.unwrap();
    graph.launch().unwrap();
    launch(&mut y).unwrap();
    stream.synchronize().unwrap();
}

/// A product whose operands have rows of 71 elements.
fn packing(kernel: &Built, stream: &Stream, rows: usize) -> Result<Launched, Error> {
    let (a, b) = (zeros(stream, [71, rows]), zeros(stream, [71, 80]));
    let mut c = zeros(stream, [rows, 80]);
    let (a, b) = (a.view().transposed(), b.view().transposed());
    kernel.launch_with(stream, &mut [a.into(), b.into(), (&mut c).into()])
}

fn product() -> Built {
    let keys = "dtype=bf16 arch=90 a=k_major b=k_major bm=64 bn=64";
    // SAFETY: the kernel was generated from keys.
    unsafe { Built::new(gallery::matmul(keys).kernel.unwrap()) }
}

/// Operands are copied to the stream's workspace, which is allocated once, and again where it is too small.
#[test]
fn operands_are_packed_into_the_workspace_of_a_stream() {
    let run = Fake::new().run(|| {
        let (stream, kernel) = (stream(), product());
        let first = packing(&kernel, &stream, 72).unwrap();
        let packed = first.packed();
        let names: Vec<&str> = packed.iter().map(|packed| &*packed.0).collect();
        assert_eq!(names, ["a", "b"]);
        let message = first.to_string();
        assert!(message.ends_with("`b` is packed first: 8 does not divide ldb, which is 71"), "{message}");
        packing(&kernel, &stream, 72).unwrap();
        packing(&kernel, &stream, 200).unwrap();
        stream.synchronize().unwrap();
    });
    let run = run.sound();
    assert_eq!(run.launches(), 9);
    let maps: Vec<_> = run.calls.iter().filter(|call| call.name == "cuTensorMapEncodeTiled").collect();
    let of_a: Vec<_> = maps.iter().filter(|map| map.get("extents") == "[71,72]").collect();
    assert!(maps.iter().all(|map| ["[256]", "[144]", "[400]"].contains(&map.get("strides"))), "{maps:?}");
    // Both launches of 72 rows read their copy of `a` in the same memory, by a map that is encoded once.
    let address = format!("(\"map\", \"{}\")", of_a[0].get("address"));
    let launches: Vec<String> =
        run.calls.iter().filter(|call| call.is_launch()).map(|call| format!("{call:?}")).collect();
    let reads: Vec<bool> = launches.iter().map(|launch| launch.contains(&address)).collect();
    assert_eq!((of_a.len(), &reads[..6]), (1, &[false, false, true, false, false, true][..]));
}

/// A graph keeps the workspace of its launches, also where the stream gets a larger one.
#[test]
fn a_graph_keeps_its_workspace() {
    let run = Fake::new().run(|| {
        let (stream, kernel) = (stream(), product());
        let (a, b) = (zeros(&stream, [71, 72]), zeros(&stream, [71, 80]));
        let mut c = zeros(&stream, [72, 80]);
        let mut launch = || {
            let (a, b) = (a.view().transposed(), b.view().transposed());
            kernel.launch_with(&stream, &mut [a.into(), b.into(), (&mut c).into()]).map(drop)
        };
        // Loads the kernels, and gives another stream its workspace.
        packing(&kernel, &self::stream(), 72).unwrap();
        // SAFETY: no stream is captured.
        let refused = unsafe { stream.capture(&mut launch) }.expect_err("a refusal").to_string();
        assert!(refused.contains("help: run it once on this stream before it is captured"), "{refused}");
        launch().unwrap();
        // SAFETY: the tensors outlive the graph, and no one else uses them.
        let graph = unsafe { stream.capture(&mut launch) }.unwrap();
        packing(&kernel, &stream, 200).unwrap();
        graph.launch().unwrap();
        drop(graph);
        stream.synchronize().unwrap();
    });
    run.sound();
}
