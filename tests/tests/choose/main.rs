//! The chooser of products compared with measurements: `measured.txt`, extracted from `bench/results/h200` by
//! `cargo xtask test -p tilewright-tests --test choose -- --ignored regenerate`.

use std::collections::BTreeMap;
use std::path::Path;

use tilewright::Elem;
use tilewright::codegen::{Counts, Work, atoms};
use tilewright::kernels::choose::{
    DeviceLimits, Facts, Model, Problem, candidates, choose, facts, kernel, rank,
};
use tilewright::kernels::{FASTEST, PRODUCTS};

const DEVICE: DeviceLimits = DeviceLimits::H200;

/// The measurements of one problem: keys, and seconds.
type Measured = BTreeMap<(String, String), Vec<(String, f64)>>;

fn measured() -> Measured {
    let mut all = Measured::new();
    for line in include_str!("measured.txt").lines() {
        let [suite, problem, seconds, keys] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not four columns: {line}");
        };
        let key = (suite.to_owned(), problem.to_owned());
        // The model covers FMA products only; keys that now select tensor cores did not when they were
        // measured.
        if on_tensor_cores(suite, keys) {
            continue;
        }
        all.entry(key).or_default().push((keys.to_owned(), seconds.parse().unwrap()));
    }
    all
}

/// Do these keys select tensor cores?
fn on_tensor_cores(suite: &str, keys: &str) -> bool {
    let (_, kernel) = kernel(keys, &problem(suite, "1x1x1")).expect("a kernel that was measured");
    kernel.source().contains("mma")
}

/// `gemm f32 nt` and `2048x2048x256`; `batched f32` and `64 of 128x128x128`.
fn problem(suite: &str, sizes: &str) -> Problem {
    let (batch, sizes) =
        sizes.split_once(" of ").map_or((None, sizes), |(batch, sizes)| (Some(batch), sizes));
    let sizes: Vec<i64> = sizes.split('x').map(|size| size.parse().unwrap()).collect();
    let words: Vec<&str> = suite.split(' ').collect();
    let problem = Problem::new(Elem::named(words[1]).unwrap(), sizes[0], sizes[1], sizes[2]);
    let problem = problem.layouts(words.get(2).unwrap_or(&"nt")).unwrap();
    batch.map_or(problem, |batch| problem.batched(batch.parse().unwrap()))
}

fn geometric_mean(of: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = of.map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

#[test]
fn the_chosen_is_among_the_fastest() {
    let (mut losses, mut errors) = (Vec::new(), Vec::new());
    for ((suite, sizes), rows) in measured() {
        let keys: Vec<&str> = rows.iter().map(|(keys, _)| keys.as_str()).collect();
        let ranking = rank(&keys, &problem(&suite, &sizes), &DEVICE).unwrap();
        assert!(ranking.refused.is_empty(), "{suite} {sizes}: {:?}", ranking.refused);
        let took = |keys: &str| rows.iter().find(|row| row.0 == keys).unwrap().1;
        let chosen = &ranking.choices[0];
        let best = rows.iter().map(|row| row.1).fold(f64::INFINITY, f64::min);
        let ratio = |one: &tilewright::kernels::choose::Choice| one.predicted.seconds / took(&one.keys);
        let ratios: Vec<String> = ranking.choices.iter().map(|one| format!("{:.2}", ratio(one))).collect();
        println!(
            "{suite:13}{sizes:20}{:.3}  predicted by measured: {}",
            took(&chosen.keys) / best,
            ratios.join(" ")
        );
        errors.extend(ranking.choices.iter().map(|one| ratio(one).max(1.0 / ratio(one))));
        if rows.len() > 1 {
            losses.push((took(&chosen.keys) / best, format!("{suite} {sizes}: {}", chosen.keys)));
        }
    }
    let worst =
        losses.iter().max_by(|x, y| x.0.total_cmp(&y.0)).expect("some kernels were measured side by side");
    let mean = geometric_mean(losses.iter().map(|loss| loss.0));
    let error = geometric_mean(errors.into_iter());
    println!(
        "chosen by best: {mean:.4} of {}, at worst {:.3}; times are {error:.3} off",
        losses.len(),
        worst.0
    );
    assert!(mean <= 1.03, "the chosen take {mean:.3} of the fastest's time");
    assert!(worst.0 <= 1.15, "{} takes {:.3} of the fastest's time", worst.1, worst.0);
    assert!(error <= 1.15, "times are predicted wrong by {error:.3}");
}

/// Is this one of the shipped kernels, with or without programmatic dependent launch? The problem has the
/// type.
fn is_shipped(keys: &str) -> bool {
    let words = |keys: &str| -> Vec<String> {
        let open = ["overlaps=", "dtype=", "name=matmul"];
        let words = keys.split_whitespace().filter(|word| !open.iter().any(|open| word.starts_with(open)));
        words.map(str::to_owned).collect()
    };
    PRODUCTS.iter().chain(FASTEST).any(|known| words(known) == words(keys))
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
    let (notes, readme) = (read("bench/NOTES.md"), read("README.md"));
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
    says(&readme, format!("the shipped products make {mean:.3} of it"));
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

/// Fits the model's constants to the measurements, and prints their error.
#[test]
#[ignore = "a tool"]
fn fit() {
    let mut rows: Vec<(Facts, f64)> = Vec::new();
    for ((suite, sizes), all) in measured() {
        let problem = problem(&suite, &sizes);
        for (keys, seconds) in all {
            let (_, generated) = kernel(&keys, &problem).unwrap();
            rows.push((facts(&generated, &problem, &DEVICE).unwrap(), seconds));
        }
    }
    // A robust error: outliers count less than in least squares.
    let error = |model: &Model| -> f64 {
        let one = |(facts, seconds): &(Facts, f64)| (model.predict(facts, &DEVICE).seconds / seconds).ln();
        rows.iter().map(|row| one(row).abs().powf(1.5)).sum::<f64>()
    };
    let mut best = Model::FITTED;
    let constants: [fn(&mut Model) -> &mut f64; 8] = [
        |m| &mut m.slots,
        |m| &mut m.prompt,
        |m| &mut m.global,
        |m| &mut m.staged,
        |m| &mut m.exposed,
        |m| &mut m.unpaired,
        |m| &mut m.fill,
        |m| &mut m.launch,
    ];
    let mut step = 0.2;
    while step > 1e-4 {
        let mut better = false;
        for constant in constants {
            for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                let mut model = best;
                *constant(&mut model) *= factor;
                if error(&model) < error(&best) {
                    (best, better) = (model, true);
                }
            }
        }
        step *= if better { 1.0 } else { 0.5 };
    }
    println!("{best:#.3?}\nerror {:.4}, before {:.4}", error(&best), error(&Model::FITTED));
}

#[test]
fn impossible_problems() {
    let check = |problem: Problem, expected: &str| {
        assert_eq!(choose(&problem, &DEVICE).map(|one| one.keys).unwrap_err().to_string(), expected);
    };
    let f32 = |m, n, k| Problem::new(Elem::F32, m, n, k);
    let empty = "K is 0: a product has sizes from 1 on, and nothing is launched for empty ones";
    check(f32(64, 64, 0), empty);
    check(
        f32(1 << 40, 1 << 40, 8),
        "C has 1208925819614629174706176 elements, more than any device holds; write smaller sizes",
    );
    check(
        Problem::new(Elem::U8, 64, 64, 64),
        "no kernel for products of u8: none is shipped; rank keys of your own",
    );
    let said = f32(64, 64, 64).layouts("ab").unwrap_err().to_string();
    assert_eq!(said, "`ab` is no layout of a product; write one of nn, nt, tn, tt");
    // Each kernel has its own reason.
    let keys = ["bm=64 bnn=64", "bm=256 bn=256 bk=16 tc=(32,16)"];
    let said = rank(&keys, &f32(64, 64, 64), &DEVICE).unwrap_err().to_string();
    let expected = "\
no kernel for products of f32
  `bm=64 bnn=64`: there is no key `bnn`
  bm=64 bnn=64 dtype=f32 a=m_major b=n_major c=m_major batched=false
        ^^^
help: did you mean `bn`?
  `bm=256 bn=256 bk=16 tc=(32,16)`: a thread keeps 152 words in arrays, and 512 threads have at most 128 registers each; give it a smaller tile or more threads";
    assert_eq!(said, expected);
}

#[test]
fn candidates_are_made_for_the_problem() {
    for (elem, batch) in
        [(Elem::F32, None), (Elem::F32, Some(3)), (Elem::F64, None), (Elem::I8, None), (Elem::F16, None)]
    {
        for layouts in ["nn", "nt", "tn", "tt"] {
            let problem = Problem { batch, ..Problem::new(elem, 300, 200, 100).layouts(layouts).unwrap() };
            let ranking = rank(&candidates(&problem), &problem, &DEVICE).unwrap();
            assert!(ranking.refused.is_empty(), "{:?}", ranking.refused);
            for choice in &ranking.choices {
                assert_eq!(choice.kernel.params()[0].elem, elem);
                assert_eq!(
                    choice.kernel.params()[0].tensor,
                    Some((false, if batch.is_some() { 3 } else { 2 }))
                );
            }
        }
    }
}

#[test]
fn reasons_in_a_line() {
    let iteration = Counts { multiply_adds: 4000.0, global: 10.0, ..Counts::default() };
    let work = Work { iteration, iterations: 32.0, product: atoms::find("fma_f32"), ..Work::default() };
    let (registers, shared_bytes) = (104, 8252);
    let facts = Facts { variant: 0, tiles: 500, warps: 8.0, blocks: 2, registers, shared_bytes, work };
    let model = Model { slots: 1.0, global: 5.0, fill: 100.0, launch: 4700.0, ..Model::FITTED };
    let predicted = model.predict(&facts, &DEVICE);
    let expected = "500 tiles in 2 waves of 2 blocks on a multiprocessor (104 registers, 8252 bytes); \
                    100 + 32 iterations x 2105 + 0 clocks; variant 1";
    assert_eq!(predicted.to_string(), expected);
    let clocks = 4700.0 + 2.0 * (100.0 + 32.0 * 2105.0);
    assert_eq!(predicted.seconds, clocks / DEVICE.clock);
}
