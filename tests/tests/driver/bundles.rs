//! Bundles: a program that adds one launches its kernels without a compiler.

use std::path::PathBuf;
use std::{env, fs};

use tilewright::kernels;
use tilewright::prelude::*;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::{Device, DeviceTensor, LaunchMatmul, bundle};
use tilewright_tests::fake::Folder;

use crate::MATMUL;
use crate::harness::{Fake, Run};

/// A kernel that is in no bundle.
const OTHER: MatmulKernel<f32> = matmul_kernel!(bm = 64, bn = 64, bk = 8, tc = (8, 8));
/// The file.
const FILE: &str = "TILEWRIGHT_BUNDLE";
const ABSENT: &str = "NVRTC was not found";
/// The architectures of a new bundle; absent where it is launched from.
const MAKE: &str = "TILEWRIGHT_BUNDLE_FOR";

fn file() -> PathBuf {
    env::var_os(FILE).expect("a path").into()
}

fn make(architectures: &[&str]) {
    let softmax = kernels::named("softmax").expect("a shipped kernel").def;
    // The product by its keys, as the command makes it: the program has it from a macro.
    let default: MatmulKernel<f32> = matmul_kernel!();
    let product = Words::specialize(default.def(), "bm=128 bn=128 bk=8 tc=(16,16)").expect("keys");
    match bundle::write(&[&product, &softmax], architectures, file()) {
        Ok(bytes) => println!("made: {}", bytes > 10_000),
        Err(why) => println!("refused: {why}"),
    }
}

/// Multiplies with the kernel of the bundle, and with another one.
fn launch() {
    // SAFETY: the file was made by the test, or is refused.
    match unsafe { bundle::load(file()) } {
        Ok(kernels) => println!("kernels: {kernels}"),
        Err(why) => return println!("refused: {}", why.to_string().replace('\n', " ")),
    }
    let stream = Device::open(0).unwrap().stream().unwrap();
    let zeros = |extents| DeviceTensor::<f32, 2>::zeros(&stream, extents).unwrap();
    let (a, b, mut c) = (zeros([300, 40]), zeros([200, 40]), zeros([300, 200]));
    match MATMUL.launch(&stream, &a, &b, &mut c) {
        Ok(launched) => println!("launched: variant {:?}", launched.variant),
        Err(why) => println!("failed: {why}"),
    }
    if let Err(why) = OTHER.launch(&stream, &a, &b, &mut c) {
        println!("other: {why}");
    }
}

/// In the child process.
fn step() {
    if let Ok(architectures) = env::var(MAKE) {
        return make(&architectures.split(',').collect::<Vec<_>>());
    }
    let nvrtc = PathBuf::from(env::var_os("TILEWRIGHT_NVRTC").unwrap());
    fs::remove_file(nvrtc.join("libnvrtc.so.13")).unwrap();
    launch();
}

#[test]
fn kernels_of_a_bundle_are_not_compiled() {
    check(|fake| {
        fake.run(|| {
            step();
        })
    });
}

fn check(run: impl Fn(&Fake) -> Run) {
    let folder = Folder::new();
    let path = folder.path().join("kernels.bundle");
    let fake = Fake::new().set(FILE, path.display());
    let made = run(&fake.clone().set(MAKE, "sm_80,sm_90")).sound();
    made.check(made.output.contains("made: true"), "a bundle");
    // A device runs binaries for its own architecture, and for an older one of its family.
    for arch in [80, 86, 90] {
        let run = run(&fake.clone().set("FAKE_ARCH", arch)).sound();
        run.check(run.output.contains("kernels: 2"), "two kernels");
        run.check(run.output.contains("launched: variant"), "the kernel of the bundle is launched");
        run.check(run.output.contains(&format!("other: {ABSENT}")), "another kernel needs the compiler");
        assert_eq!(run.count("nvrtcCompileProgram"), 0);
        assert_eq!(run.launches(), 1);
    }
    let refused = run(&fake.clone().set(MAKE, "compute_80")).sound();
    refused.check(refused.output.contains("refused: a bundle has binaries, and compute_80 is PTX"), "PTX");
    let bytes = fs::read(&path).unwrap();
    let launch = |fake: &Fake, bytes: &[u8], outcome: &str| {
        fs::write(&path, bytes).unwrap();
        let run = run(fake);
        run.check(run.output.contains(outcome), outcome);
        assert_eq!(run.launches(), 0);
    };
    launch(&fake.clone().set("FAKE_ARCH", 120), &bytes, &format!("failed: {ABSENT}"));
    launch(&fake, b"text", "refused: ");
    launch(&fake, &bytes[..60], "the bundle is damaged help: make it again");
    launch(&fake, &bytes[..bytes.len() - 1], "the bundle is shorter than its index says");
    let mut other = bytes.clone();
    other[200] ^= 1;
    launch(&fake, &other, "the bundle is damaged");
    // Damaged kernels are not used. They are behind the first line, a checksum, the length of the index, and the index.
    let index = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1 + 64 + 8;
    let length = u64::from_le_bytes(bytes[index - 8..index].try_into().unwrap()) as usize;
    let mut other = bytes.clone();
    other[index + length..].iter_mut().for_each(|byte| *byte ^= 1);
    launch(&fake, &other, ABSENT);
}
