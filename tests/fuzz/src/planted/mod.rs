//! Mutation testing: faults in the generator that random kernels must detect. The crates are copied to a separate
//! folder and built once, with every fault behind a switch. Each run turns on one of them.

mod copy;
mod faults;
mod switch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::draw::Kind;
use crate::random::Random;

pub use faults::faults;

/// A fault: a text that occurs exactly once in a file, and its replacement.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The file, in the folder of the workspace.
    pub file: &'static str,
    /// The original text.
    pub text: &'static str,
    /// Its replacement.
    pub with: &'static str,
    /// The property that the replacement breaks.
    pub breaks: &'static str,
    /// The kernels that must find it.
    pub kind: Kind,
    /// The first seed that is drawn: one that finds it, where others seldom do.
    pub first: u64,
    /// Do so few kernels find it that a sample leaves it out?
    pub is_rare: bool,
}

/// Limit of faults that may be missed.
pub const MOST_MISSED: usize = 2;

/// The environment variable of the copy: the number of the fault that is on.
const VARIABLE: &str = "TILEWRIGHT_PLANTED";

impl Fault {
    /// The number of the byte at which the text begins.
    fn position(&self, text: &str) -> Result<usize, String> {
        match text.match_indices(self.text).collect::<Vec<_>>()[..] {
            [(at, _)] => Ok(at),
            ref all => Err(format!(
                "{}: the text of the fault \"{}\" occurs {} times, and must occur exactly once; adapt it in \
                 tests/fuzz/src/planted/faults:\n{}",
                self.file,
                self.breaks,
                all.len(),
                self.text
            )),
        }
    }
}

/// The table: each fault has its number there, whichever are planted.
fn numbered() -> Vec<(usize, &'static Fault)> {
    faults().enumerate().collect()
}

/// The files with faults, with every fault behind its switch; or the errors in the table.
fn plant(
    root: &Path,
    planted: &[(usize, &'static Fault)],
) -> Result<Vec<(&'static str, String)>, Vec<String>> {
    let mut files: Vec<&'static str> = planted.iter().map(|(_, fault)| fault.file).collect();
    files.sort_unstable();
    files.dedup();
    let (mut texts, mut misfits) = (Vec::new(), Vec::new());
    for file in files {
        let of_file: Vec<_> = planted.iter().copied().filter(|(_, fault)| fault.file == file).collect();
        match fs::read_to_string(root.join(file)) {
            Ok(text) => match switch::switched(&text, &of_file) {
                Ok(text) => texts.push((file, text)),
                Err(all) => misfits.extend(all),
            },
            Err(why) => misfits.push(format!("{file}: {why}")),
        }
    }
    if misfits.is_empty() { Ok(texts) } else { Err(misfits) }
}

/// Errors in the table: texts that do not occur exactly once in their files, or stand in no function.
pub fn misfits(root: &Path) -> Vec<String> {
    plant(root, &numbered()).err().unwrap_or_default()
}

/// Options of the search.
#[derive(Clone, Debug)]
pub struct Search {
    /// The workspace.
    pub root: PathBuf,
    /// Kernels for each fault.
    pub count: u64,
    /// Only faults with one of these words in their text or file; all if there are none.
    pub only: Vec<String>,
    /// How many of them, of those that are not rare, and the seed that draws them; all if there is none.
    pub sample: Option<(usize, u64)>,
}

impl Search {
    /// The faults to run.
    fn chosen(&self) -> Vec<(usize, &'static Fault)> {
        let named = |fault: &Fault| {
            self.only.is_empty()
                || self.only.iter().any(|word| fault.breaks.contains(word) || fault.file.contains(word))
        };
        let all: Vec<_> = numbered().into_iter().filter(|(_, fault)| named(fault)).collect();
        match self.sample {
            Some((count, seed)) => {
                let shuffled = Random::new(seed).shuffled(&all).into_iter();
                shuffled.filter(|(_, fault)| !fault.is_rare).take(count).collect()
            }
            None => all,
        }
    }
}

/// Runs the chosen faults; how many were missed.
pub fn search(search: &Search) -> Result<usize, String> {
    if let Some((count, seed)) = search.sample {
        println!(
            "{count} faults drawn with seed {seed}: `cargo xtask fuzz kernels --planted --sample {count} --seed {seed}` \
             repeats them"
        );
    }
    let texts = plant(&search.root, &numbered()).map_err(|misfits| misfits.join("\n\n"))?;
    let folder = search.root.join("target/planted");
    copy::crates(&search.root, &folder, &texts)?;
    build(&folder)?;
    for (_, kind) in [("", Kind::Parts)].into_iter().chain(Kind::OPTIONS) {
        if let Outcome::After(kernels) = run(&folder, search.count.min(50), kind, 0, None)? {
            return Err(format!("kernel {kernels} is wrong without a fault: see `cargo xtask fuzz kernels`"));
        }
    }
    let chosen = search.chosen();
    let mut missed = 0;
    for &(number, fault) in &chosen {
        let begun = Instant::now();
        let outcome = match run(&folder, search.count, fault.kind, fault.first, Some(number))? {
            Outcome::After(kernels) => format!("found by kernel {kernels}"),
            Outcome::Crashed => "found, by a crash".into(),
            Outcome::Endless => "found, by a run without an end".into(),
            Outcome::NotFound => "NOT FOUND".into(),
        };
        missed += usize::from(!outcome.starts_with("found"));
        println!(
            "{outcome:<30} {:<44} {} ({:.0} s)",
            fault.file,
            fault.breaks,
            begun.elapsed().as_secs_f64()
        );
    }
    println!("{} of {} planted faults found", chosen.len() - missed, chosen.len());
    Ok(missed)
}

enum Outcome {
    After(u64),
    Crashed,
    /// A kernel did not end in time.
    Endless,
    NotFound,
}

/// No new kernel is begun after this time, and no kernel takes nearly as long.
const TIME: Duration = Duration::from_secs(1200);

/// Builds the copy.
fn build(folder: &Path) -> Result<(), String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(["build", "--quiet", "--profile", "planted", "-p", "tilewright-fuzz", "--bin", "kernels"]);
    command.env("RUSTFLAGS", "--cap-lints=allow").env_remove("CARGO_TARGET_DIR");
    // A test runner may have set the second, which builds everything again.
    command.env_remove("RUSTC_BOOTSTRAP").current_dir(folder);
    let output = command.output().map_err(|why| format!("cannot start cargo: {why}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("the copy with faults cannot be built\n{}", String::from_utf8_lossy(&output.stderr)))
        }
    }
}

/// Random kernels with one fault, or without.
fn run(folder: &Path, count: u64, kind: Kind, first: u64, fault: Option<usize>) -> Result<Outcome, String> {
    let mut command = Command::new(folder.join("target/planted/kernels"));
    command.args([&count.to_string(), "--until-wrong", "--seed", &first.to_string()]);
    command.args(Kind::OPTIONS.iter().find(|(_, of)| *of == kind).map(|(option, _)| option));
    command.args(["--seconds", &TIME.as_secs().to_string()]);
    command.env(VARIABLE, fault.map_or_else(String::new, |number| number.to_string())).stdout(Stdio::piped());
    let fails = |why: std::io::Error| format!("cannot run the copy: {why}");
    let (begun, mut child) = (Instant::now(), command.spawn().map_err(fails)?);
    while child.try_wait().map_err(fails)?.is_none() {
        if begun.elapsed() > 2 * TIME {
            child.kill().and_then(|()| child.wait()).map_err(fails)?;
            return Ok(Outcome::Endless);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().map_err(fails)?;
    let message = String::from_utf8_lossy(&output.stdout);
    let number = |line: &str| line.strip_prefix("wrong after ")?.split_whitespace().next()?.parse().ok();
    Ok(match (message.lines().find_map(number), output.status.code()) {
        (Some(kernels), _) => Outcome::After(kernels),
        (None, Some(0)) => Outcome::NotFound,
        _ => Outcome::Crashed,
    })
}
