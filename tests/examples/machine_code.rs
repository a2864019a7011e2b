//! The machine code of every shipped kernel, before and after a change of the generator. What is saved before the change are the
//! sources: only kernels whose source differs afterwards are compiled, both of their forms.
//!
//! ```console
//! $ cargo xtask machine-code save                 # before the change: writes target/machine_code
//! $ cargo xtask machine-code                      # after it: kernels whose machine code differs
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_tests::gallery;

/// The architectures whose instructions and registers are compared.
const ARCHITECTURES: [(&str, u32); 2] = [("sm_80", 80), ("sm_90a", 90)];

/// The source of a variant, and what NVRTC is to compile.
#[derive(Clone, PartialEq)]
struct Job {
    function: String,
    arch: &'static str,
    source: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, save @ ..] = &arguments[..] else {
        eprintln!("machine_code FOLDER [save]");
        return ExitCode::FAILURE;
    };
    let folder = Path::new(folder);
    let result = if save.is_empty() { compare(folder) } else { write(folder) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Every variant of every kernel, for each architecture it runs on. Comments and empty lines are left out.
fn jobs() -> BTreeMap<String, Job> {
    let mut jobs = BTreeMap::new();
    for (kernel, generated) in gallery::all() {
        for (index, variant) in generated.variants.iter().enumerate() {
            let program = &variant.program;
            let runs = |arch: u32| match program.arch_specific {
                true => arch == program.arch,
                false => arch >= program.arch,
            };
            for (arch, _) in ARCHITECTURES.into_iter().filter(|(_, number)| runs(*number)) {
                let key = format!("{kernel}.{}.{arch}", index + 1);
                jobs.insert(
                    key,
                    Job { function: program.name.clone(), arch, source: without_comments(&variant.source) },
                );
            }
        }
    }
    jobs
}

fn without_comments(source: &str) -> String {
    let code = source.lines().map(|line| line.split("//").next().unwrap_or_default().trim_end());
    code.filter(|line| !line.is_empty()).flat_map(|line| [line, "\n"]).collect()
}

fn write(folder: &Path) -> Result<(), String> {
    let error = |why: std::io::Error| format!("{}: {why}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(error)?;
    }
    fs::create_dir_all(folder).map_err(error)?;
    let jobs = jobs();
    for (key, job) in &jobs {
        fs::write(folder.join(key), format!("{}\n{}", job.function, job.source)).map_err(error)?;
    }
    println!("{} sources in {}", jobs.len(), folder.display());
    Ok(())
}

fn read(folder: &Path) -> Result<BTreeMap<String, Job>, String> {
    let error = |why: std::io::Error| {
        format!("{}: {why}; run `cargo xtask machine-code save` first", folder.display())
    };
    let mut jobs = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let text = fs::read_to_string(&path).map_err(error)?;
        let key = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let arch = ARCHITECTURES.iter().find(|(arch, _)| key.ends_with(arch));
        if let (Some((arch, _)), Some((function, source))) = (arch, text.split_once('\n')) {
            jobs.insert(key, Job { function: function.into(), arch, source: source.into() });
        }
    }
    Ok(jobs)
}

fn compare(folder: &Path) -> Result<(), String> {
    let (old, new) = (read(folder)?, jobs());
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let keys: Vec<&String> = keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).collect();
    println!("{} of {} sources differ", keys.len(), new.len());
    if keys.is_empty() {
        return Ok(());
    }
    let folders: Vec<_> = std::env::var_os("TILEWRIGHT_NVRTC").map(Into::into).into_iter().collect();
    let nvrtc = Nvrtc::find(&folders).map_err(|error| error.to_string())?;
    let next = AtomicUsize::new(0);
    let different = AtomicUsize::new(0);
    let work = || {
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            let row = |job: Option<&Job>| job.map_or(("-".into(), Vec::new()), |job| row(&nvrtc, job));
            let (was, is) = (row(old.get(*key)), row(new.get(*key)));
            if was != is {
                different.fetch_add(1, Ordering::Relaxed);
                println!("{key}: {} -> {}", was.0, is.0);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
        (0..workers).for_each(|_| _ = scope.spawn(work));
    });
    println!("{} of {} binaries differ", different.into_inner(), new.len());
    Ok(())
}

/// Registers, spilled registers, instructions and multiply-adds of the main loop; and the binary.
fn row(nvrtc: &Nvrtc, job: &Job) -> (String, Vec<u8>) {
    let compiled = match nvrtc.compile(&job.source, &job.function, job.arch, &[]) {
        Ok(compiled) => compiled,
        Err(error) => return (format!("refused: {}", error.to_string().replace('\n', " ")), Vec::new()),
    };
    let (registers, spilled) =
        compiled.usage_of(&job.function).map_or((0, 0), |usage| (usage.registers, usage.spill_stores));
    let (all, useful) = compiled
        .main_loop(&job.function, job.arch)
        .map_or((0, 0), |main| (main.instructions, main.multiply_adds));
    let row = format!("{registers} registers, {spilled} spilled, loop of {all} with {useful} multiply-adds");
    (row, compiled.cubin)
}
