//! The estimate of a launch compared with measurements: `measured.txt`, extracted from `bench/results/h200` by
//! `cargo xtask test -p tilewright-tests --test choose -- --ignored regenerate`.

mod calibrate;

use std::collections::BTreeMap;
use std::path::Path;

use tilewright::codegen::definition::Generated;
use tilewright::codegen::launch::{self, Given, Limits, Ranked, Record, Tensor, plan, ranking};
use tilewright::codegen::matmul::schedule;
use tilewright::codegen::words::{Kernels as _, Words};
use tilewright::kernels::{FASTEST, PLAIN, PRODUCTS, named, pages};
use tilewright_tests::sweep;

/// The measurements of one problem: keys, and seconds.
type Measured = BTreeMap<(String, String), Vec<(String, f64)>>;

fn measured() -> Measured {
    let mut all = Measured::new();
    for line in include_str!("measured.txt").lines() {
        let [suite, problem, seconds, keys] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not four columns: {line}");
        };
        let rows = all.entry((suite.to_owned(), problem.to_owned())).or_default();
        rows.push((keys.to_owned(), seconds.parse().unwrap()));
    }
    all
}

/// The keys of a kernel as they are written now; results have the keys of the day when they were measured.
fn today(keys: &str) -> String {
    match keys {
        "" | "matmul" | "name=matmul" => return PLAIN.to_owned(),
        keys if keys.contains("schedule=") => return keys.to_owned(),
        _ => {}
    }
    let tuned = |word: &&str| schedule().any(|(key, ..)| word.split('=').next() == Some(*key));
    let (inside, mut all): (Vec<&str>, Vec<&str>) = keys.split_whitespace().partition(tuned);
    let inside = format!("schedule=({})", inside.join(" "));
    all.extend((inside.len() > "schedule=()".len()).then_some(&*inside));
    // Without tensor cores.
    all.extend((keys == "vec=8 bk=16" || keys.contains("dtype=f64")).then_some("mma=none"));
    all.join(" ")
}

/// The decision of a launch of a product. The suite and the sizes name a benchmark: `gemm f32 nt` and `2048x2048x256`;
/// `batched f32` and `64 of 128x128x128`. `None` for keys that now select tensor cores, and did not when they were measured.
fn decided(suite: &str, sizes: &str, keys: &str) -> Option<Ranked> {
    let keys = today(keys);
    let words: Vec<&str> = suite.split(' ').collect();
    let letters = words.get(2).copied().unwrap_or("nt");
    let (batch, sizes) = sizes.split_once(" of ").map_or((None, sizes), |(n, of)| (n.parse().ok(), of));
    let [m, n, k] = sizes.split('x').map(|n| n.parse().unwrap()).collect::<Vec<i64>>()[..] else {
        panic!("not three sizes: {sizes}")
    };
    let by_rows = [letters.starts_with('t'), letters.ends_with('n')];
    let major = |rows: bool, other: &'static str| if rows { "k_major" } else { other };
    let open = [
        ("dtype", words[1]),
        ("a", major(by_rows[0], "m_major")),
        ("b", major(by_rows[1], "n_major")),
        ("batched", if batch.is_some() { "true" } else { "false" }),
    ];
    let open = open.iter().filter(|(key, _)| !format!(" {keys}").contains(&format!(" {key}=")));
    let all = open.fold(keys.to_owned(), |all, (key, value)| format!("{all} {key}={value}"));
    let kernel = Words::read(&all).unwrap().matmul().expect("a kernel that was measured");
    if ["mma.sync", "wgmma"].iter().any(|instruction| kernel.source().contains(instruction)) {
        return None;
    }
    let matrices = [([m, k], by_rows[0]), ([n, k], by_rows[1]), ([m, n], false)];
    let given = kernel.params.iter().enumerate().map(|(index, param)| {
        let (Some((mutable, _)), Some(&([rows, columns], by_rows))) = (param.tensor, matrices.get(index))
        else {
            return Given::Scalar(param.elem);
        };
        let strides = if by_rows { [columns, 1] } else { [1, rows] };
        let extents = [rows, columns].into_iter().chain(batch).collect();
        let strides = strides.into_iter().chain(batch.map(|_| rows * columns)).collect();
        let len = (rows * columns * batch.unwrap_or(1)) as u64;
        let address = (index as u64 + 1) << 50;
        Given::Tensor(Tensor { elem: param.elem, mutable, extents, strides, len, address })
    });
    Some(ranking(&kernel, &given.collect::<Vec<_>>(), &Limits::HOPPER).unwrap().serves.remove(0))
}

/// The order of operands and the keys of a product, and the microseconds of its variants by sizes.
struct Product<'t> {
    order: &'t str,
    keys: &'t str,
    rows: Vec<([i64; 3], BTreeMap<usize, f64>)>,
}

/// Every variant of these products was measured on an H100.
fn products(text: &str) -> Vec<Product<'_>> {
    let mut all: Vec<Product> = Vec::new();
    for line in text.lines() {
        if let Some((order, keys)) = line.strip_prefix("# ").and_then(|heading| heading.split_once(' ')) {
            all.push(Product { order, keys, rows: Vec::new() });
        } else if let (Some(product), Some((sizes, times))) = (all.last_mut(), line.split_once(": ")) {
            let sizes: Vec<i64> = sizes.split('x').map(|n| n.parse().unwrap()).collect();
            let times = times.split(' ').map(|one| {
                let (number, took) = one.split_once('=').unwrap();
                (number.parse::<usize>().unwrap() - 1, took.parse().unwrap())
            });
            product.rows.push((sizes.try_into().unwrap(), times.collect()));
        }
    }
    all
}

impl Product<'_> {
    fn kernel(&self) -> Generated {
        let [a, b] = [
            if self.order.starts_with('t') { "k_major" } else { "m_major" },
            if self.order.ends_with('n') { "k_major" } else { "n_major" },
        ];
        Words::read(&format!("{} a={a} b={b}", self.keys)).unwrap().matmul().unwrap()
    }

    fn given(&self, kernel: &Generated, [m, n, k]: [i64; 3]) -> Vec<Given> {
        let matrix = |rows: i64, columns: i64, by_rows: bool| {
            (vec![rows, columns], if by_rows { vec![columns, 1] } else { vec![1, rows] })
        };
        let given = kernel.params.iter().enumerate().map(|(index, param)| {
            let Some((mutable, rank)) = param.tensor else { return Given::Scalar(param.elem) };
            let (extents, strides) = match index {
                _ if rank == 1 => (vec![if self.keys.contains("bias=rows") { m } else { n }], vec![1]),
                0 => matrix(m, k, self.order.starts_with('t')),
                1 => matrix(n, k, self.order.ends_with('n')),
                _ => matrix(m, n, self.keys.contains("c=n_major")),
            };
            let len = extents.iter().product::<i64>() as u64;
            let address = (index as u64 + 1) << 50;
            Given::Tensor(Tensor { elem: param.elem, mutable, extents, strides, len, address })
        });
        given.collect()
    }
}

/// A file of results.
fn text_of(results: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results").join(results);
    std::fs::read_to_string(path).unwrap()
}

/// The time of the variant that a launch chooses, as a multiple of the fastest variant's, for each size in a file of results.
fn losses(results: &str, of: u64) -> Vec<f64> {
    let mut losses = Vec::new();
    for product in sweep::share(products(&text_of(results)), of) {
        let kernel = product.kernel();
        for (sizes, times) in &product.rows {
            let ranking = ranking(&kernel, &product.given(&kernel, *sizes), &Limits::HOPPER).unwrap();
            let micros = |at: usize| {
                let one = ranking.serves.iter().find(|one| one.variant == at);
                one.and_then(|one| one.estimate).map_or(f64::NAN, |of| of.seconds() * 1e6)
            };
            let Some(chosen) = ranking.serves.iter().map(|one| one.variant).find(|at| times.contains_key(at))
            else {
                continue;
            };
            let (best, took) = times.iter().min_by(|x, y| x.1.total_cmp(y.1)).unwrap();
            let loss = times[&chosen] / took;
            println!(
                "{loss:.3} {} {} {sizes:?}: {} takes {:.2} us, estimated {:.2}; {} takes {took:.2}, estimated {:.2}",
                product.order,
                product.keys,
                chosen + 1,
                times[&chosen],
                micros(chosen),
                best + 1,
                micros(*best),
            );
            losses.push(loss);
        }
    }
    losses.sort_by(f64::total_cmp);
    losses
}

/// Each size with records of all others: where a near one changes the choice, the launch is faster.
#[test]
fn records_of_near_sizes_help() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results/h100/variants.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut ratios = Vec::new();
    for product in sweep::share(products(&text), 4) {
        let kernel = product.kernel();
        let ranked = |kernel: &Generated, given: &[Given], times: &BTreeMap<usize, f64>| {
            let serves = ranking(kernel, given, &Limits::HOPPER).unwrap().serves.into_iter();
            serves.filter(|one| times.contains_key(&one.variant)).collect::<Vec<_>>()
        };
        let rows = product.rows.iter().filter_map(|(sizes, times)| {
            let given = product.given(&kernel, *sizes);
            let serves = ranked(&kernel, &given, times);
            let (best, fastest) = times.iter().min_by(|x, y| x.1.total_cmp(y.1))?;
            let [taken, best] = [serves.first()?, serves.iter().find(|one| one.variant == *best)?];
            let sizes = launch::sizes(&kernel, &given).unwrap().into_iter();
            let record = Record {
                kernel: kernel.name.clone(),
                fingerprint: kernel.fingerprint(),
                device: "NVIDIA H200".into(),
                sizes: sizes.map(|(symbol, size)| (symbol.name().to_owned(), size)).collect(),
                alternative: kernel.alternative(best.variant),
                microseconds: *fastest,
                spread: 0.0,
                estimated: times[&taken.variant] / fastest,
                overestimate: best.estimate?.seconds() / taken.estimate?.seconds(),
                driver: "13.0".into(),
            };
            Some((given, times, taken.variant, record))
        });
        let rows: Vec<_> = rows.collect();
        for (given, times, taken, own) in &rows {
            let others = rows.iter().map(|row| &row.3).filter(|record| *record != own);
            let supported = kernel.clone().with_records(others);
            let variant = ranked(&supported, given, times)[0].variant;
            if variant != *taken {
                ratios.push(times[&variant] / times[taken]);
                println!(
                    "{} {}: {:?} {:.3}",
                    product.order,
                    product.keys,
                    own.named_sizes(),
                    ratios[ratios.len() - 1]
                );
            }
        }
    }
    let (mean, worst) = (geometric_mean(ratios.iter().copied()), ratios.iter().copied().fold(0.0, f64::max));
    println!("{} other choices, mean {mean:.3}, at worst {worst:.3}", ratios.len());
    let bound = if sweep::is_full() { 1.0 } else { 1.01 };
    assert!(mean <= bound && worst <= 1.03, "with records, {mean:.3} of the time, at worst {worst:.3}");
}

/// The variant that a launch chooses, compared with the fastest of all variants.
#[test]
fn variants_with_the_least_estimate_are_among_the_fastest() {
    let losses = losses("h100/variants.txt", 4);
    let mean = losses.iter().sum::<f64>() / losses.len() as f64;
    let tenth = losses[losses.len() * 9 / 10];
    println!(
        "{} problems, mean {mean:.4}, of a tenth {tenth:.3} and more, at worst {:.3}",
        losses.len(),
        losses[losses.len() - 1]
    );
    let most = if sweep::is_full() { [1.04, 1.12] } else { [1.11, 1.3] };
    assert!(mean <= most[0], "the chosen take {mean:.3} of the fastest's time");
    assert!(tenth <= most[1], "a tenth of the chosen take {tenth:.3} of the fastest's time");
}

/// Rows of results that begin in the middle of a sector, and rows of whole sectors, where a tile's stores take most of its time.
#[test]
fn results_that_cut_sectors_take_tiles_with_few_long_rows() {
    let losses = losses("h200/variants.txt", 1);
    let (mean, worst) = (geometric_mean(losses.iter().copied()), losses[losses.len() - 1]);
    println!("{} problems, mean {mean:.4}, at worst {worst:.3}", losses.len());
    assert!(
        mean <= 1.06 && worst <= 1.15,
        "the chosen take {mean:.3} of the fastest's time, at worst {worst:.3}"
    );
}

/// A kernel whose searches end when data say so has an estimate too: few, long rows take more blocks each.
#[test]
fn long_rows_take_blocks_by_their_number() {
    let kernel = pages::selection_long::top_k_of_long().def().generate().unwrap();
    let blocks = |length: i64, rows: i64| {
        let given = kernel.params.iter().enumerate().map(|(index, param)| {
            let extents = vec![if index == 0 { length } else { 512 }, rows];
            let (strides, len) = (vec![1, extents[0]], (extents[0] * rows) as u64);
            let (mutable, address) = (index > 0, (index as u64 + 1) << 50);
            Given::Tensor(Tensor { elem: param.elem, mutable, extents, strides, len, address })
        });
        let ranking = ranking(&kernel, &given.collect::<Vec<_>>(), &Limits::HOPPER).unwrap();
        let chosen = &ranking.serves[0];
        assert!(chosen.competes && chosen.estimate.is_some());
        kernel.variants[chosen.variant].program.launch.cluster.iter().product::<u32>()
    };
    assert_eq!(blocks(1_000_000, 4), 16);
    assert_eq!(blocks(131_072, 64), 2);
    assert!((4..=8).contains(&blocks(131_072, 16)));
    assert!(blocks(32_768, 1000) <= 4);
}

/// A record is taken at its sizes, and supports its alternative near them, by this kernel on this device, if its alternative can run.
#[test]
fn records_come_before_estimates() {
    let kernel = named("linear_hopper").unwrap().def.generate().unwrap();
    let given = |[m, n, k]: [i64; 3], stride: i64| -> Vec<Given> {
        let tensor = |elem, extents: &[i64], strides: &[i64], index: u64, mutable| {
            let len = 1 + extents.iter().zip(strides).map(|(n, d)| (n - 1) * d).sum::<i64>() as u64;
            let (extents, strides, address) = (extents.to_vec(), strides.to_vec(), (index + 1) << 50);
            Given::Tensor(Tensor { elem, mutable, extents, strides, len, address })
        };
        let (bf16, f32) = (kernel.params[0].elem, kernel.params[2].elem);
        vec![
            tensor(bf16, &[m, k], &[stride, 1], 0, false),
            tensor(bf16, &[n, k], &[stride, 1], 1, false),
            tensor(f32, &[n], &[1], 2, false),
            tensor(bf16, &[m, n], &[n, 1], 3, true),
        ]
    };
    let taken = |kernel: &Generated, sizes: [i64; 3], stride: i64| {
        let ranking = ranking(kernel, &given(sizes, stride), &Limits::HOPPER).unwrap();
        let variant = plan(kernel, &given(sizes, stride), &Limits::HOPPER).unwrap().variant;
        assert_eq!(ranking.serves[0].variant, variant);
        assert_eq!(ranking.record.is_some(), kernel.alternative(variant) == SLOW, "{sizes:?}");
        ranking.record.map(|support| support.record.microseconds)
    };
    const SLOW: &str = "BM = 16, BN = 64, CLUSTER = 1, SPLIT = 1, W_LEFT = 1, PARTS = 1";
    let sizes = |m: i64| [("M", m), ("N", 4096), ("K", 4096), ("lda", 4096), ("ldw", 4096), ("ldc", 4096)];
    let record = Record {
        kernel: "linear_hopper".into(),
        fingerprint: kernel.fingerprint(),
        device: "NVIDIA H200".into(),
        sizes: sizes(4096).map(|(name, size)| (name.to_owned(), size)).to_vec(),
        alternative: SLOW.into(),
        microseconds: 1.0,
        spread: 0.01,
        estimated: 1.0,
        overestimate: 1.0,
        driver: "13.0".into(),
    };
    let with = |records: &[Record]| kernel.clone().with_records(records.iter());
    let alone = with(std::slice::from_ref(&record));
    let other = |change: fn(&mut Record)| {
        let mut other = record.clone();
        change(&mut other);
        other
    };
    let far = [[4097, 4096, 4096], [4095, 4096, 4096], [8192, 4096, 4096]];
    assert_eq!(taken(&kernel, [4096; 3], 4096), None);
    assert_eq!(taken(&alone, [4096; 3], 4096), Some(1.0));
    far.iter().for_each(|sizes| assert_eq!(taken(&alone, *sizes, 4096), None, "{sizes:?}"));
    // Sizes within a factor of two are near, if strides have the same alignment and the estimate is not further off.
    let support = |overestimate: f64, sizes: [i64; 3], stride: i64| {
        let record = Record { estimated: 1.1, overestimate, ..record.clone() };
        taken(&with(&[record]), sizes, stride)
    };
    assert_eq!(support(99.0, [4000, 4096, 4096], 4096), Some(1.0));
    assert_eq!(support(1.1, [4000, 4096, 4096], 4096), None);
    assert_eq!(support(99.0, [2047, 4096, 4096], 4096), None);
    assert_eq!(support(99.0, [4000, 4096, 4096], 4100), None);
    // The nearest one, and of equal ones the last.
    let later = other(|record| record.microseconds = 2.0);
    let nearer = other(|record| (record.sizes[0].1, record.microseconds) = (4200, 3.0));
    let all = with(&[record.clone(), later, nearer]);
    assert_eq!(taken(&all, [4096; 3], 4096), Some(2.0));
    assert_eq!(taken(&all, [4200, 4096, 4096], 4096), Some(3.0));
    // Of other code, another device, an alternative that there is not.
    assert!(with(&[other(|record| record.fingerprint += 1)]).records.is_empty());
    assert!(with(&[other(|record| record.kernel += "s")]).records.is_empty());
    assert_eq!(taken(&with(&[other(|record| record.device = "NVIDIA H100".into())]), [4096; 3], 4096), None);
    assert_eq!(taken(&with(&[other(|record| record.alternative = "BM = 17".into())]), [4096; 3], 4096), None);
    // Bulk copies do not take rows that begin anywhere: the kernel reads copies, and the record has the strides of the arguments.
    let mut unaligned = record.clone();
    unaligned.sizes = sizes(4096).map(|(name, size)| (name.to_owned(), size - 1)).to_vec();
    assert_eq!(taken(&with(&[unaligned]), [4095; 3], 4095), Some(1.0));
    assert!(!plan(&kernel, &given([4095; 3], 4095), &Limits::HOPPER).unwrap().packed.is_empty());
}

/// Records that ship are of kernels that ship. Those of older code are printed: the commands at the top of the file measure them again.
#[test]
fn records_that_ship_name_kernels_that_ship() {
    let text = include_str!("../../../runtime/src/records.txt");
    let (all, wrong) = launch::records(text);
    assert!(wrong.is_empty(), "{wrong:?}");
    let commands = text.lines().filter_map(|line| line.strip_prefix("#   tilewright tune "));
    let kernel = |command: &str| {
        let words = command.split(" --").next().unwrap_or_default();
        match words.strip_prefix("matmul ") {
            Some(keys) => Words::read(keys).unwrap().matmul().unwrap(),
            None => named(words).expect(words).def.generate().unwrap(),
        }
    };
    let kernels: Vec<Generated> = commands.map(kernel).collect();
    for record in all {
        let mut own = kernels.iter().filter(|kernel| kernel.name == record.kernel).peekable();
        assert!(own.peek().is_some(), "no command at the top of the file measures `{}`", record.kernel);
        match own.find(|kernel| kernel.fingerprint() == record.fingerprint) {
            None => println!("out of date: {} at {}", record.kernel, record.named_sizes()),
            Some(kernel) => {
                let mut names = (0..kernel.variants.len()).map(|at| kernel.alternative(at));
                assert!(names.any(|name| name == record.alternative), "{record}");
            }
        }
    }
}

fn geometric_mean(of: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = of.map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

#[test]
fn the_chosen_is_among_the_fastest() {
    let (mut losses, mut errors) = (Vec::new(), Vec::new());
    for ((suite, sizes), rows) in measured() {
        let seconds = |keys: &str| Some(decided(&suite, &sizes, keys)?.estimate?.seconds());
        let mut all: Vec<(f64, f64, String)> = Vec::new();
        for (keys, took) in rows {
            all.extend(seconds(&keys).map(|estimated| (estimated, took, keys)));
        }
        all.sort_by(|x, y| x.0.total_cmp(&y.0));
        let Some((_, took, keys)) = all.first() else { continue };
        let best = all.iter().map(|row| row.1).fold(f64::INFINITY, f64::min);
        let ratios: Vec<String> = all.iter().map(|row| format!("{:.2}", row.0 / row.1)).collect();
        println!("{suite:13}{sizes:20}{:.3}  estimated by measured: {}", took / best, ratios.join(" "));
        errors.extend(all.iter().map(|row| (row.0 / row.1).max(row.1 / row.0)));
        if all.len() > 1 {
            losses.push((took / best, format!("{suite} {sizes}: {keys}")));
        }
    }
    losses.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (mean, error) =
        (geometric_mean(losses.iter().map(|loss| loss.0)), geometric_mean(errors.into_iter()));
    let tenth = losses[losses.len() * 9 / 10].0;
    let worst = losses.last().expect("some kernels were measured side by side");
    println!(
        "chosen by best: {mean:.4} of {}, of a tenth {tenth:.3} and more, at worst {:.3} ({}); times are {error:.3} off",
        losses.len(),
        worst.0,
        worst.1
    );
    assert!(mean <= 1.03, "the chosen take {mean:.3} of the fastest's time");
    assert!(tenth <= 1.1, "a tenth of the chosen take {tenth:.3} of the fastest's time");
}

/// Is this one of the shipped kernels, with or without programmatic dependent launch? The problem has the
/// type.
fn is_shipped(keys: &str) -> bool {
    let words = |keys: &str| -> Vec<String> {
        let open = ["overlaps=", "dtype="];
        // In any order, keys of the schedule as if they were among the others.
        let keys = keys.replace("schedule=(", " ").replace(") ", " ") + " ";
        let words = keys.split_whitespace().map(|word| word.trim_end_matches(')').to_owned());
        let mut words: Vec<String> =
            words.filter(|word| !open.iter().any(|open| word.starts_with(open))).collect();
        words.sort();
        words
    };
    PRODUCTS.iter().chain(FASTEST).any(|known| words(known) == words(&today(keys)))
}

/// A row of a benchmark.
struct Row {
    suite: String,
    problem: String,
    contender: String,
    seconds: f64,
    /// Relative to cuBLASLt.
    speed: f64,
    tflops: f64,
}

/// Rows from some or all results of one H200.
fn results(names: &[&str]) -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results/h200");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        file.extension().is_some_and(|extension| extension == "json")
            && (names.is_empty() || names.contains(&stem))
    });
    files.sort();
    let mut rows = Vec::new();
    for file in files {
        let all: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for row in all["results"].as_array().into_iter().flatten() {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
            rows.push(Row {
                suite: text("suite"),
                problem: text("problem"),
                contender: text("contender"),
                seconds: number("seconds"),
                speed: number("speed"),
                tflops: number("tflops"),
            });
        }
    }
    rows
}

/// Regenerates `measured.txt`. Kernels that are no longer shipped are left out and printed.
#[test]
#[ignore = "writes into the source"]
fn regenerate() {
    let mut lines = Vec::new();
    for Row { suite, problem, contender, seconds, .. } in results(&[]) {
        if !(suite.starts_with("gemm ") || suite.starts_with("batched ")) || contender == "cuBLASLt" {
            continue;
        }
        // Older results name two contenders, newer ones three.
        let keys = if contender == "matmul" { "" } else { &contender };
        let keys = keys.replace("staged=true", "staged=transposed").replace("staged=false", "staged=none");
        match is_shipped(&keys) {
            true => lines.push(format!("{suite}\t{problem}\t{seconds:.4e}\t{keys}")),
            false => println!("left out: {suite} {problem} {keys}"),
        }
    }
    lines.sort();
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/choose/measured.txt");
    std::fs::write(to, lines.join("\n") + "\n").unwrap();
}

/// The performance figures in the documents match the results.
#[test]
fn documents_say_what_was_measured() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let (notes, readme) = (read("bench/RESULTS.md"), read("README.md"));
    let says = |document: &str, text: String| {
        assert!(document.contains(&text), "no document says what was measured: {text}");
    };
    let rows = results(&["gemm", "layouts", "uneven", "batched"]);
    let best = |suite: &str, problem: &str| {
        let ours = rows.iter().filter(|row| (&*row.suite, &*row.problem) == (suite, problem));
        ours.filter(|row| is_shipped(&row.contender)).max_by(|x, y| x.speed.total_cmp(&y.speed))
    };
    let sizes = ["1024x1024x1024", "2048x2048x256", "2048x2048x2048", "4096x4096x4096", "8192x8192x8192"];
    let uneven = ["1000x1000x1000", "4095x4097x1023"];
    let mut speeds = Vec::new();
    for letters in ["nt", "nn", "tt", "tn"] {
        let suite = format!("gemm f32 {letters}");
        let cell = |problem: &&str| {
            best(&suite, problem)
                .map_or_else(String::new, |row| format!("{:.2} ({:.1})", row.speed, row.tflops))
        };
        let cells: Vec<String> = sizes.iter().chain(&uneven).map(cell).collect();
        says(&notes, format!("| {} | {} |", letters.to_uppercase(), cells.join(" | ")));
        let square = sizes.iter().filter(|size| **size != "2048x2048x256");
        speeds.extend(square.map(|size| best(&suite, size).unwrap().speed));
    }
    assert_eq!(speeds.len(), 16);
    let (mean, least) =
        (geometric_mean(speeds.iter().copied()), speeds.iter().copied().fold(f64::INFINITY, f64::min));
    says(&notes, format!("4096³ and 8192³: {mean:.3}; the least {least:.2}."));
    says(&readme, format!("the shipped products are {mean:.3} times as fast as cuBLASLt"));
    let batches =
        [("64×128³", "64 of 128x128x128"), ("512×64³", "512 of 64x64x64"), ("64×256³", "64 of 256x256x256")];
    for (name, problem) in batches {
        let row = best("batched f32", problem).unwrap();
        let unit = if name == "64×128³" { " TFLOP/s" } else { "" };
        says(&notes, format!("{name} {:.2} ({:.1}{unit})", row.speed, row.tflops));
    }
    // For the README's table: the library, the plain kernel, the fastest.
    let large = |wanted: &dyn Fn(&str) -> bool| {
        let mut all = rows.iter().filter(|row| (&*row.suite, &*row.problem) == ("gemm f32 nt", sizes[4]));
        let row = all.find(|row| wanted(&row.contender)).unwrap();
        (row.tflops, row.speed)
    };
    let ((library, _), plain, widest) = (
        large(&|one| one == "cuBLASLt"),
        large(&|one| ["", "matmul", "name=matmul"].contains(&one)),
        large(&|one| one.starts_with("name=wide ")),
    );
    says(&readme, format!("| cuBLASLt | {library:.1} | 1 |"));
    says(&readme, format!("| {:.1} | {:.2} |", plain.0, plain.1));
    says(&readme, format!("| {:.1} | {:.2} |", widest.0, widest.1));
    says(&notes, format!("and {:.1} at 8192³, where CuTe's same kernel", plain.0));
}
