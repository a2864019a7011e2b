//! What instrumented kernels have written is read at the next wait. No kernel runs here: the test writes the records itself.

use crate::harness::Fake;
use tilewright::prelude::*;
use tilewright_runtime::{Device, DeviceTensor, raw};

#[kernel]
fn checked(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let x = tile(x, 64, block.x);
    assert_device(x > 0.0, "weights are positive");
    print(x);
    copy(x, tile(y, 64, block.x));
}

/// Launches the kernel, and writes words, each at its index, to the memory of its records.
fn launched(stream: &Stream, words: &[(usize, u64)]) {
    let x = DeviceTensor::from_host(stream, [64], &[1.0f32; 64]).expect("a tensor");
    let mut y = DeviceTensor::<f32, 1>::zeros(stream, [64]).expect("a tensor");
    checked().launch(stream, &x, &mut y).unwrap_or_else(|why| panic!("{why}"));
    let Some(memory) = raw::records(stream.device()) else { return println!("no records") };
    for (at, word) in words {
        // SAFETY: the memory has this word, and no kernel runs.
        unsafe { memory.add(*at).write(*word) };
    }
}

fn stream() -> Stream {
    Device::open(0).and_then(|device| device.stream()).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn assertions_are_errors_of_the_next_wait() {
    let run = Fake::new().set("TILEWRIGHT_INSTRUMENT", "asserts,prints").run(|| {
        let stream = stream();
        // Three records: of the assertion for element 5 in thread 7, of it again, and of the print's element 2.
        let [assertion, print] = [1, 2];
        let records = [
            [assertion, 3, 7 << 32, 0, 5, 0, 0, 0],
            [assertion, 3, 9 << 32, 0, 6, 0, 0, 0],
            [print, 0, 1 << 32, 1.5f64.to_bits(), 2, 0, 0, 0],
        ];
        let words = records.into_iter().flatten().enumerate().map(|(at, word)| (8 + at, word));
        launched(&stream, &words.chain([(0, 3)]).collect::<Vec<_>>());
        println!("failed: {}", stream.synchronize().expect_err("an assertion failed"));
        stream.synchronize().expect("an error is reported once");
        launched(&stream, &[]);
        println!("later: {:?}", stream.synchronize());
    });
    let run = run.sound();
    let failed = run.line("failed: ");
    let (start, end) = (
        "the assertion `weights are positive` at ",
        " failed in thread 7 of block (3, 0, 0), for the element (5); and 1 more times",
    );
    run.check(failed.starts_with(start) && failed.ends_with(end), "another message");
    run.check(failed.contains("driver/instrumented.rs:"), "no line");
    run.check(run.line("x at ").ends_with(", block (0, 0, 0), (64):"), "the tile is not printed");
    run.check(run.output.contains("\n    -   - 1.5\n"), "another element is printed");
    run.check(run.line("later: ") == "Ok(())", "an old record is read");
}

#[test]
fn timelines_are_read() {
    let run = Fake::new().set("TILEWRIGHT_INSTRUMENT", "timeline").run(|| {
        let stream = stream();
        // Two marks of warp 1: of the first statement, and of the second one.
        let first = (1 << 14) * 8 + (1 << 12) * 2;
        launched(&stream, &[(first, 1), (first + 1, 100), (first + 2, 2), (first + 3, 150)]);
        stream.synchronize().expect("no assertion");
        let timeline = stream.device().timeline();
        for interval in &timeline.intervals {
            println!("interval: {} {} {}-{}", interval.warp, interval.name, interval.from, interval.to);
        }
    });
    let run = run.sound();
    run.check(run.line("interval: ") == "1 load x 100-150", "another interval");
}

#[test]
fn kernels_without_instruments_have_no_records() {
    let run = Fake::new().run(|| launched(&stream(), &[])).sound();
    run.check(run.output.contains("no records"), "there are records");
    run.check(run.count("cuModuleGetGlobal_v2") == 0, "a variable is looked up");
}

#[test]
fn unknown_instruments_are_refused() {
    let run = Fake::new().set("TILEWRIGHT_INSTRUMENT", "lines,assert").run(|| {
        let x = DeviceTensor::from_host(&stream(), [64], &[1.0f32; 64]).expect("a tensor");
        let mut y = DeviceTensor::<f32, 1>::zeros(&stream(), [64]).expect("a tensor");
        println!("refused: {}", checked().launch(&stream(), &x, &mut y).expect_err("another word"));
    });
    let refused = "TILEWRIGHT_INSTRUMENT: `assert` is not among: lines, asserts, prints, timeline";
    run.check(run.line("refused: ") == refused, "another message");
}
