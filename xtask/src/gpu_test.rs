//! The tests that need a GPU, and every shipped kernel under the sanitizer. Without a GPU they are skipped.

use crate::bundle;
use crate::shell::{Outcome, capture, root, run as spawn, step};
use std::env;
use std::process::Command;

/// `1` turns a missing GPU from a note into a failure.
const REQUIRE_VARIABLE: &str = "TILEWRIGHT_REQUIRE_GPU";

pub(crate) fn run(words: &[String]) -> Outcome {
    if !has_gpu() {
        return without(env::var(REQUIRE_VARIABLE).is_ok_and(|value| value == "1"));
    }
    let folder = root().join("target/gpu-test");
    bundle::make(&folder)?;
    let words =
        if words.is_empty() { vec!["tests".to_string(), "sanitize".to_string()] } else { words.to_vec() };
    let results = folder.join("results");
    let mut command = Command::new(folder.join("run.sh"));
    step("gpu-test", || spawn(command.args(words).env("OUT", results)))
}

/// Does the driver report a GPU?
fn has_gpu() -> bool {
    capture(Command::new("nvidia-smi").arg("-L")).is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line.starts_with("GPU"))
    })
}

fn without(required: bool) -> Outcome {
    if required {
        return Err(format!("no GPU, and {REQUIRE_VARIABLE}=1: `nvidia-smi -L` lists none"));
    }
    eprintln!("skipped: no GPU");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doing_without_is_a_note_unless_required() {
        assert_eq!(without(false), Ok(()));
        assert!(without(true).unwrap_err().contains("TILEWRIGHT_REQUIRE_GPU=1"));
    }
}
