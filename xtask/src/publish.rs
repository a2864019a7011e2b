//! A rehearsal of publishing: every crate is packaged and compiled from its package, without an upload.

use crate::shell::{Outcome, capture, cargo, line, root, step};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Messages of cargo when it cannot reach the registry, as opposed to mistakes in a package.
const NETWORK_TROUBLE: &[&str] = &[
    "download of config.json failed",
    "failed to download",
    "spurious network error",
    "--offline was specified",
];

/// `cargo publish --dry-run`; without a network, as much of it as cargo can do.
pub(crate) fn rehearse() -> Outcome {
    step("publish (dry run)", || {
        let online = attempt(["publish", "--workspace", "--dry-run", "--allow-dirty"]);
        match online {
            Err(message) if NETWORK_TROUBLE.iter().any(|sign| message.contains(sign)) => {
                eprintln!(
                    "    no network: packages are built and compiled, but not compared with the registry"
                );
                attempt([
                    "package",
                    "--workspace",
                    "--exclude=xtask",
                    "--exclude=tilewright-tests",
                    "--exclude=tilewright-fuzz",
                    "--exclude=tilewright-bench",
                    "--exclude=tilewright-bench-gpu",
                    "--exclude=tilewright-book",
                    "--exclude=decoder",
                    "--allow-dirty",
                    "--offline",
                ])
            }
            outcome => outcome,
        }
    })
}

/// Runs quietly: the output is shown on failure only.
fn attempt<const N: usize>(arguments: [&str; N]) -> Outcome {
    let scratch = Scratch::new();
    let mut command = cargo(arguments);
    command.arg("--target-dir").arg(&scratch.0);
    let output = capture(&mut command)?;
    if output.status.success() {
        return Ok(());
    }
    let reported = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}` ended with {}\n{reported}", line(&command), output.status))
}

/// A target folder that is used once.
///
/// Cargo unpacks the packages that it rehearses as if they came from a registry, where a version never
/// changes: in a folder used before, a crate is compiled against the *previous* text of its neighbours in the
/// workspace (seen with cargo 1.95). A new path every time has no previous text.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        Scratch(scratch_parent().join(format!("{now}-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: leftovers are inside `target` and are never read again.
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_dir(scratch_parent());
    }
}

fn scratch_parent() -> PathBuf {
    root().join(Path::new("target/publish"))
}
