//! The first commands of the README, as a newcomer runs them: the example in a clone, then a program of one's own in an empty folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{Outcome, cargo, root, run as spawn, step};

/// The result of the README's first program.
const RESULT: &str = "[4.0, 5.0, 10.0, 11.0]";

pub(crate) fn run() -> Outcome {
    let readme = fs::read_to_string(root().join("README.md")).map_err(|why| format!("README.md: {why}"))?;
    let section = readme.split("\n## ").find(|section| section.starts_with("Begin"));
    let section = section.ok_or("README.md has no section `Begin`")?;
    let [example, add] = &commands(section)[..] else {
        return Err("the section `Begin` has two commands: an example, and `cargo add`".into());
    };
    step("first run", || spawn(cargo([]).args(example)))?;
    let (_, program) = section.split_once("```rust\n").ok_or("the section `Begin` has no program")?;
    let program = program.split("```").next().unwrap_or_default();
    step("first program", || own_program(add, program))
}

/// The words after `$ cargo`, without comments.
fn commands(section: &str) -> Vec<Vec<&str>> {
    let lines = section.lines().filter_map(|line| line.strip_prefix("$ cargo "));
    lines.map(|line| line.split('#').next().unwrap_or_default().split_whitespace().collect()).collect()
}

/// A new package with this program and the dependency that `cargo add` adds. It shares the clone's builds.
fn own_program(add: &[&str], program: &str) -> Outcome {
    let folder = std::env::temp_dir().join(format!("tilewright-first-{}", std::process::id()));
    let result = in_folder(&folder, add, program);
    let _ = fs::remove_dir_all(&folder);
    result
}

fn in_folder(folder: &Path, add: &[&str], program: &str) -> Outcome {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let cargo = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args(args).current_dir(folder).env("CARGO_TARGET_DIR", &target);
        command
    };
    fs::create_dir_all(folder).map_err(|why| why.to_string())?;
    spawn(&mut cargo(&["init", "--quiet", "--vcs", "none", "--name", "first"]))?;
    let clone = root();
    let clone = clone.to_str().ok_or("the clone's path is not Unicode")?;
    let add: Vec<&str> = add.iter().map(|word| if *word == "../tilewright" { clone } else { word }).collect();
    // The clone's versions, which are built already.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).map_err(|why| why.to_string())?;
    spawn(&mut cargo(&add))?;
    fs::write(folder.join("src/main.rs"), program).map_err(|why| why.to_string())?;
    let output = cargo(&["run", "--quiet"]).output().map_err(|why| why.to_string())?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !printed.contains(RESULT) {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("the first program printed {printed:?}, not {RESULT}\n{errors}"));
    }
    Ok(())
}
