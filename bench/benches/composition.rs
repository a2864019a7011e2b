//! Speed of the algebra. `bench/LOG.md` has measured figures; `cargo xtask bench` runs this.

use criterion::{Criterion, Throughput};
use std::fmt::Write;
use std::hint::black_box;
use tilewright_layout::{Composed, Layout, Reader, Tiler, layout};

/// 60,000 random pairs, a third of them without an answer: parsed, composed, and printed as by
/// `tilewright layout --batch`.
fn batch(c: &mut Criterion) {
    let pairs: Vec<(&str, &str)> = include_str!("../../layout/tests/vectors/composition_truth.txt")
        .lines()
        .map(|line| line.split_once('|').expect("a pair"))
        .map(|(left, rest)| (left, rest.split_once('|').expect("a pair").0))
        .collect();
    let mut group = c.benchmark_group("composition");
    group.throughput(Throughput::Elements(3 * pairs.len() as u64));
    group.sample_size(20);
    let (mut left, mut right) = (Composed::from(layout!(1 : 0)), Tiler::Keep);
    let mut answers = String::new();
    group.bench_function("read, compose and print 60,000 pairs", |b| {
        b.iter(|| {
            answers.clear();
            for (a, b) in pairs.iter().cycle().take(3 * pairs.len()) {
                Reader::new("composition", a).composed_into(&mut left).expect("a layout");
                Reader::new("composition", b).tiler_into(&mut right).expect("a tiler");
                match left.layout().composition(&right) {
                    Ok(layout) => writeln!(answers, "{layout}"),
                    Err(error) => writeln!(answers, "error: {error:#}"),
                }
                .expect("a string takes everything");
            }
            answers.len()
        })
    });
    group.finish();
}

/// No elements are enumerated: 67 million cost as much as a hundred.
fn large(c: &mut Criterion) {
    let mut group = c.benchmark_group("8192x8192");
    let columns = layout!((8192, 8192) : (1, 8192));
    let rows = layout!((8192, 8192) : (8192, 1));
    let padded = layout!((8192, 8192) : (1, 8200));
    let transposed = layout!((8192, 8192) : (8192, 1));
    let nested = layout!(((64, 128), (64, 128)) : ((1, 524288), (64, 4096)));
    group.bench_function("row-major with its transpose", |b| {
        b.iter(|| black_box(&rows).composition(black_box(&transposed)).expect("has an answer"))
    });
    group.bench_function("column-major with tiles of tiles", |b| {
        b.iter(|| black_box(&columns).composition(black_box(&nested)).expect("has an answer"))
    });
    group.bench_function("padded, divided into 128x64 tiles", |b| {
        b.iter(|| black_box(&padded).zipped_divide((128, 64)).expect("has an answer"))
    });
    // 8191 carries at its 128th element
    let ragged = layout!((8191, 8192) : (1, 8192));
    group.bench_function("refused", |b| {
        b.iter(|| black_box(&ragged).composition(layout!(8192 : 64)).expect_err("has none"))
    });
    group.finish();
}

fn evaluation(c: &mut Criterion) {
    let mut group = c.benchmark_group("offsets of 4096 elements");
    group.throughput(Throughput::Elements(4096));
    let flat: Layout = layout!((8, 8, 8, 8) : (512, 1, 64, 8));
    let nested: Layout = layout!(((8, 8), (8, 8)) : ((512, 1), (64, 8)));
    let swizzled: Composed = "Sw<3,0,3> o 0 o (64,64):(64,1)".parse().expect("a layout");
    group.bench_function("one by one", |b| b.iter(|| sum((0..4096).map(|i| flat.eval(black_box(i))))));
    group.bench_function("one by one, nested", |b| {
        b.iter(|| sum((0..4096).map(|i| nested.eval(black_box(i)))))
    });
    group.bench_function("one by one, swizzled", |b| {
        b.iter(|| sum((0..4096).map(|i| swizzled.eval(black_box(i)))))
    });
    group.bench_function("in order", |b| {
        b.iter(|| black_box(&flat).offsets().expect("integers").sum::<i64>())
    });
    group.finish();
}

fn sum(offsets: impl Iterator<Item = Option<i64>>) -> i64 {
    offsets.map(|offset| offset.expect("an integer")).sum()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    batch(&mut criterion);
    large(&mut criterion);
    evaluation(&mut criterion);
    criterion.final_summary();
}
