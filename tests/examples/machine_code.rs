//! The machine code of every shipped kernel as a table, and the differences from an older table: run it
//! before and after a change of the generator. Differences in the source alone, with equal machine code, are
//! not shown.
//!
//! ```console
//! $ cargo xtask machine-code                      # writes target/machine_code.tsv
//! $ cargo xtask machine-code OLD.tsv              # the same, and compares
//! ```

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_tests::gallery;

/// The architectures whose instructions and registers are compared.
const ARCHITECTURES: [(&str, u32); 2] = [("sm_80", 80), ("sm_90a", 90)];

const HEADER: &str = "kernel\tvariant\tarch\tregisters\tspilled\tloop\tmultiply_adds\tcode";

/// One binary to compile.
struct Job {
    key: String,
    name: String,
    source: String,
    arch: &'static str,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folders: Vec<_> = std::env::var_os("TILEWRIGHT_NVRTC").map(Into::into).into_iter().collect();
    let nvrtc = match Nvrtc::find(&folders) {
        Ok(nvrtc) => nvrtc,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let rows = table(&nvrtc, &jobs());
    let text = std::iter::once(HEADER.to_owned())
        .chain(rows.iter().map(|(key, row)| format!("{key}\t{row}")))
        .collect::<Vec<_>>()
        .join("\n");
    let Some(to) = arguments.first() else {
        println!("{text}");
        return ExitCode::SUCCESS;
    };
    if let Err(error) = std::fs::write(to, text + "\n") {
        eprintln!("{to}: {error}");
        return ExitCode::FAILURE;
    }
    match arguments.get(1).map(std::fs::read_to_string) {
        None => ExitCode::SUCCESS,
        Some(Ok(old)) => compare(&read(&old), &rows),
        Some(Err(error)) => {
            eprintln!("{}: {error}", arguments[1]);
            ExitCode::FAILURE
        }
    }
}

/// Every variant of every kernel, for each architecture it runs on.
fn jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for (kernel, generated) in gallery::all() {
        for (index, variant) in generated.variants.iter().enumerate() {
            let program = &variant.program;
            let runs = |arch: u32| match program.arch_specific {
                true => arch == program.arch,
                false => arch >= program.arch,
            };
            for (arch, _) in ARCHITECTURES.into_iter().filter(|(_, number)| runs(*number)) {
                jobs.push(Job {
                    key: format!("{kernel}\t{}\t{arch}", index + 1),
                    name: program.name.clone(),
                    source: variant.source.clone(),
                    arch,
                });
            }
        }
    }
    jobs
}

fn table(nvrtc: &Nvrtc, jobs: &[Job]) -> BTreeMap<String, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut rows = Vec::new();
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            rows.push((job.key.clone(), row(nvrtc, job)));
        }
        rows
    };
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|worker| worker.join().expect("a worker does not panic")).collect()
    })
}

fn row(nvrtc: &Nvrtc, job: &Job) -> String {
    let compiled = match nvrtc.compile(&job.source, &job.name, job.arch, &[]) {
        Ok(compiled) => compiled,
        Err(error) => return format!("refused: {}", error.to_string().replace(['\n', '\t'], " ")),
    };
    let (registers, spilled) =
        compiled.usage_of(&job.name).map_or((0, 0), |usage| (usage.registers, usage.spill_stores));
    let (all, useful) = compiled
        .main_loop(&job.name, job.arch)
        .map_or((0, 0), |main| (main.instructions, main.multiply_adds));
    let mut hash = DefaultHasher::new();
    compiled.cubin.hash(&mut hash);
    format!("{registers}\t{spilled}\t{all}\t{useful}\t{:016x}", hash.finish())
}

fn read(text: &str) -> BTreeMap<String, String> {
    let row = |line: &str| {
        let cut = line.match_indices('\t').nth(2)?.0;
        Some((line[..cut].to_owned(), line[cut + 1..].to_owned()))
    };
    text.lines().skip(1).filter_map(row).collect()
}

fn compare(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> ExitCode {
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut different = 0;
    for key in keys {
        let (was, is) = (old.get(key), new.get(key));
        if was != is {
            different += 1;
            let shown = |row: Option<&String>| row.map_or("-".into(), |row| row.replace('\t', " "));
            println!("{}: {} -> {}", key.replace('\t', " "), shown(was), shown(is));
        }
    }
    println!("{different} of {} binaries differ", new.len());
    ExitCode::SUCCESS
}
