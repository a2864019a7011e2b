//! `tilewright run` as a user runs it.

mod common;

use common::{printed, refused, run, text};
use insta::assert_snapshot;

#[test]
fn a_product_in_the_simulator() {
    assert_snapshot!("tutorial", printed(&["run", "tutorial", "BM=32", "BN=32", "--size", "50,40,20"]));
    // The same seed gives the same run, to the byte.
    let again = || printed(&["run", "softmax", "--size", "M=3,N=70", "--seed", "5", "--schedules", "3"]);
    assert_eq!(again(), again());
    assert_ne!(
        again(),
        printed(&["run", "softmax", "--size", "M=3,N=70", "--seed", "6", "--schedules", "3"])
    );
}

#[test]
fn every_kernel_is_right() {
    for kernel in
        ["tutorial", "naive", "coalesced", "shared_tile", "scaled_tile", "block_tile_1d", "softmax", "matmul"]
    {
        let message = printed(&["run", kernel, "--check", "--size", "K=9,M=33,N=17"].map(|word| {
            match (word, kernel) {
                ("K=9,M=33,N=17", "softmax") => "M=3,N=17",
                _ => word,
            }
        }));
        assert!(message.contains("\nright: "), "{kernel}: {message}");
    }
}

/// A product without an element to sum, which is 0, and one without an element, which has no blocks.
#[test]
fn sizes_of_0() {
    for keys in [&["matmul", "bm=64", "bn=64"][..], &["linear_hopper"]] {
        for (size, check) in
            [("5,6,0", keys[0] == "matmul"), ("0,6,0", false), ("0,0,0", false), ("5,0,7", false)]
        {
            let message = printed(&[&["run"], keys, &["--size", size]].concat());
            assert!(
                message.contains(if check { "\nright: 30 elements" } else { "\nthreads" }),
                "{size}: {message}"
            );
        }
    }
}

/// Kernels of three tensors are products by their shapes only: also where every extent but M is 1.
#[test]
fn a_norm_is_no_product() {
    for size in ["M=3,N=70", "M=3,N=1"] {
        let message = refused(&["run", "rmsnorm_rows", "W=128", "--check", "--size", size]);
        assert!(message.contains("what this kernel computes is not known"), "{message}");
        assert!(
            printed(&["run", "rmsnorm_rows", "W=128", "--size", size]).contains("the result is not compared")
        );
    }
}

/// Extents that a kernel computes are no sizes of their own.
#[test]
fn extents_that_are_computed() {
    let message = printed(&["run", "piece_sums", "--size", "3,5000"]);
    assert!(message.starts_with("piece_sums on the simulator: M = 3, N = 5000, seed 0\n"), "{message}");
    assert!(
        printed(&["choose", "piece_sums", "--input", "x: [3, 5000]"])
            .starts_with("piece_sums: M = 3, N = 5000\n")
    );
    let message = refused(&["run", "piece_sums", "--size", "3,5000", "--input", "sums: [3, 9]"]);
    assert_eq!(
        message,
        "error: an extent is 9 in an input, and the kernel computes 3 for it from the others\nhelp: leave it out, or write 3\n"
    );
}

#[test]
fn every_type_is_right() {
    for dtype in ["f64", "f32", "f16", "bf16", "i32", "u32", "i8", "u8"] {
        let dtype = format!("dtype={dtype}");
        let message = printed(&["run", "matmul", "bm=64", "bn=64", &dtype, "--check", "--size", "65,66,10"]);
        assert!(message.contains("\nright: 4290 elements"), "{dtype}: {message}");
    }
    for keys in ["alpha_beta=true", "batched=true", "epilogue=|x| max(x, 0.1*x)", "a=k_major c=n_major"] {
        let message = printed(&["run", "matmul", "bm=64", "bn=64", keys, "--check", "--size", "65,66,10"]);
        assert!(message.contains("\nright: "), "{keys}: {message}");
    }
}

/// Whatever the keys of a product add is part of the reference.
#[test]
fn every_epilogue_is_right() {
    for keys in [
        "bias=columns residual=before epilogue=relu",
        "c=n_major bias=rows residual=after(f16) epilogue=gelu",
        "alpha_beta=true epilogue=silu aux=bf16",
        "dtype=bf16 batched=true residual=after epilogue=gelu_tanh aux=true out=f32 scales=both",
        "dtype=bf16 b_dtype=i4 b=k_major group_size=32 alpha_beta=true",
        "dtype=f16 b_dtype=i8 scales=rows",
        "dtype=bf16 b_dtype=u4 b=k_major group_size=32 zeros=true c=n_major",
        "dtype=i8 out=bf16 scales=columns residual=before",
        "dtype=e4m3 arch=89 scales=blocks",
        "precision=tf32 bias=rows",
    ] {
        let keys: Vec<&str> = keys.split(' ').collect();
        let size = ["--check", "--size", "K=70,M=33,N=17"];
        let message = printed(&[&["run", "matmul"], &keys[..], &size].concat());
        let elements = if keys.contains(&"batched=true") { 3 * 33 * 17 } else { 33 * 17 };
        let elements = if keys.iter().any(|key| key.starts_with("aux=")) { 2 * elements } else { elements };
        assert!(message.contains(&format!("\nright: {elements} elements")), "{keys:?}: {message}");
    }
}

#[test]
fn for_programs() {
    let json = printed(&["run", "tutorial", "--size", "30,20,10", "--seed", "3", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["sizes"]["M"], 30);
    assert_eq!(json["seed"], 3);
    assert_eq!(json["comparison"]["right"], true);
    assert_eq!(json["run"]["grid"][0], 1);
    assert!(json["run"]["operations"]["multiply-adds"].as_u64().is_some_and(|count| count >= 30 * 20 * 10));
}

#[test]
fn what_is_refused() {
    assert_snapshot!("size", refused(&["run", "tutorial", "--size", "50,x,20"]));
    let message = refused(&["run", "matmul", "epilogue=|x| x * 1.5 % 2.0", "--check", "--size", "8,8,8"]);
    assert!(message.starts_with("error: "), "{message}");
    let output = run(&["run", "tutorial", "--device", "gpu"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(output.stderr).contains("write `sim` or `cuda:0`"));
}

#[test]
fn a_device_that_is_not_there() {
    let output = common::tilewright(&["run", "tutorial", "--device", "cuda:99"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = text(output.stderr);
    assert!(message.contains("there is no NVIDIA driver here") || message.contains("no device"), "{message}");
}

/// The file's name decides its form.
#[test]
fn a_timeline_is_written() {
    let folder = std::env::temp_dir().join(format!("tilewright-timeline-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let written = |name: &str| {
        let file = folder.join(name);
        let file = file.to_str().unwrap();
        printed(&["run", "tutorial", "BM=32", "BN=32", "--size", "50,40,20", "--timeline", file]);
        std::fs::read_to_string(file).unwrap()
    };
    let picture = written("a.svg");
    assert!(picture.starts_with("<svg ") && picture.contains("<title>warp 0: wait for "), "{picture}");
    let trace: serde_json::Value = serde_json::from_str(&written("a.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["ph"] == "X" && event["tid"] == 7), "{trace}");
    let nowhere = folder.join("none/a.svg");
    let message = refused(&["run", "tutorial", "--timeline", nowhere.to_str().unwrap()]);
    assert!(message.contains("writing "), "{message}");
    std::fs::remove_dir_all(&folder).unwrap();
}
