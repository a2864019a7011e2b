//! Mutation testing: faults in the generator, one at a time, that random kernels must detect. The crates are
//! copied to a separate folder, changed there, built and run.

mod faults;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::draw::Kind;

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
}

/// The crates that are built.
const CRATES: [&str; 4] = ["layout", "codegen", "sim", "fuzz"];

/// Limit of faults that may be missed.
pub const MOST_MISSED: usize = 2;

impl Fault {
    /// The file's text with the fault applied.
    pub fn plant(&self, text: &str) -> Result<String, String> {
        match text.matches(self.text).count() {
            1 => Ok(text.replacen(self.text, self.with, 1)),
            count => Err(format!(
                "{}: the text of the fault \"{}\" occurs {count} times, and must occur exactly once; adapt it in \
                 tests/fuzz/src/planted/faults:\n{}",
                self.file, self.breaks, self.text
            )),
        }
    }
}

/// Errors in the table: texts that do not occur exactly once in their files.
pub fn misfits(root: &Path) -> Vec<String> {
    let wrong = |fault: &Fault| match fs::read_to_string(root.join(fault.file)) {
        Ok(text) => fault.plant(&text).err(),
        Err(why) => Some(format!("{}: {why}", fault.file)),
    };
    faults().filter_map(wrong).collect()
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
}

/// Runs every fault; how many were missed.
pub fn search(of: &Search) -> Result<usize, String> {
    let misfits = misfits(&of.root);
    if !misfits.is_empty() {
        return Err(misfits.join("\n\n"));
    }
    let folder = of.root.join("target/planted");
    copy_crates(&of.root, &folder)?;
    let built = build(&folder)?;
    if let Some(why) = built {
        return Err(format!("it cannot be built without a fault\n{why}"));
    }
    for kind in [Kind::Parts, Kind::Whole, Kind::Targeted] {
        if let Outcome::After(kernels) = run(&folder, of.count.min(1000), kind, 0)? {
            return Err(format!("kernel {kernels} is wrong without a fault: see `cargo xtask fuzz kernels`"));
        }
    }
    let (mut missed, mut all) = (0, 0);
    for fault in faults() {
        let named =
            |word: &String| fault.breaks.contains(word.as_str()) || fault.file.contains(word.as_str());
        if !(of.only.is_empty() || of.only.iter().any(named)) {
            continue;
        }
        all += 1;
        let begun = Instant::now();
        let says = one(fault, of, &folder)?;
        missed += usize::from(!says.starts_with("found"));
        println!("{says:<28} {:<44} {} ({:.0} s)", fault.file, fault.breaks, begun.elapsed().as_secs_f64());
    }
    println!("{} of {all} planted faults found", all - missed);
    Ok(missed)
}

fn one(fault: &Fault, of: &Search, folder: &Path) -> Result<String, String> {
    let file = folder.join(fault.file);
    let right = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    write(&file, &fault.plant(&right)?)?;
    let says = match build(folder)? {
        // The row of the table is wrong, not the search: the other faults are still run.
        Some(why) => {
            eprintln!("\"{}\" cannot be built\n{why}", fault.breaks);
            Ok("CANNOT BE BUILT".into())
        }
        None => Ok(match run(folder, of.count, fault.kind, fault.first)? {
            Outcome::After(kernels) => format!("found by kernel {kernels}"),
            Outcome::Crashed => "found, by a crash".into(),
            Outcome::NotFound => "NOT FOUND".into(),
        }),
    };
    write(&file, &right)?;
    says
}

enum Outcome {
    After(u64),
    Crashed,
    NotFound,
}

/// The workspace of the copy: our shared tables, and a profile with fast builds and fast enough code.
fn manifest(root: &Path) -> Result<String, String> {
    let file = root.join("Cargo.toml");
    let text = fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    let begin = text.find("[workspace.package]").ok_or("no [workspace.package] in Cargo.toml")?;
    let end = text.find("\n[package]").ok_or("no [package] in Cargo.toml")?;
    let members: Vec<String> = CRATES.iter().map(|of| format!("\"{of}\"")).collect();
    Ok(format!(
        "[workspace]\nmembers = [{}]\nresolver = \"3\"\n\n{}\n[profile.planted]\ninherits = \"dev\"\nopt-level = 1\n\
         debug = false\nincremental = true\n",
        members.join(", "),
        &text[begin..end]
    ))
}

fn copy_crates(root: &Path, folder: &Path) -> Result<(), String> {
    for of in CRATES {
        copy(&root.join(of), &folder.join(of))?;
    }
    write(&folder.join("Cargo.toml"), &manifest(root)?)?;
    let lock = root.join("Cargo.lock");
    fs::copy(&lock, folder.join("Cargo.lock")).map_err(|why| format!("{}: {why}", lock.display()))?;
    Ok(())
}

/// Copies a folder. Unchanged files are kept, so that they are not rebuilt, and stale files are removed.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let error = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
    fs::create_dir_all(to).map_err(|why| error(to, why))?;
    for entry in fs::read_dir(to).map_err(|why| error(to, why))?.flatten() {
        let path = entry.path();
        if !from.join(entry.file_name()).exists() {
            let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone.map_err(|why| error(&path, why))?;
        }
    }
    for entry in fs::read_dir(from).map_err(|why| error(from, why))? {
        let entry = entry.map_err(|why| error(from, why))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            if entry.file_name() != "target" {
                copy(&path, &target)?;
            }
            continue;
        }
        let bytes = fs::read(&path).map_err(|why| error(&path, why))?;
        if fs::read(&target).ok().as_ref() != Some(&bytes) {
            fs::write(&target, bytes).map_err(|why| error(&target, why))?;
        }
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|why| format!("{}: {why}", file.display()))
}

/// Builds; the compiler's messages if it fails.
fn build(folder: &Path) -> Result<Option<String>, String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(["build", "--quiet", "--profile", "planted", "-p", "tilewright-fuzz", "--bin", "kernels"]);
    command.env("RUSTFLAGS", "--cap-lints=warn").env_remove("CARGO_TARGET_DIR").current_dir(folder);
    let output = command.output().map_err(|why| format!("cannot start cargo: {why}"))?;
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((!output.status.success()).then_some(message))
}

fn run(folder: &Path, count: u64, kind: Kind, first: u64) -> Result<Outcome, String> {
    let mut command = Command::new(folder.join("target/planted/kernels"));
    command.args([&count.to_string(), "--until-wrong", "--seed", &first.to_string()]);
    command.args(Kind::OPTIONS.iter().find(|(_, of)| *of == kind).map(|(option, _)| option));
    let output = command.output().map_err(|why| format!("cannot start the copy: {why}"))?;
    let message = String::from_utf8_lossy(&output.stdout);
    let number = |line: &str| line.strip_prefix("wrong after ")?.split_whitespace().next()?.parse().ok();
    Ok(match (message.lines().find_map(number), output.status.code()) {
        (Some(kernels), _) => Outcome::After(kernels),
        (None, Some(0)) => Outcome::NotFound,
        _ => Outcome::Crashed,
    })
}
