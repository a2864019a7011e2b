//! pip, to install programs that are not in the repository.

use crate::shell::{Outcome, capture};
use std::path::Path;
use std::process::Command;

/// Installs a package into a separate folder. The error says why that was not possible.
pub(crate) fn install(package: &str, size: &str, folder: &Path) -> Outcome {
    eprintln!("    pip installs {package} ({size}, once)");
    for python in ["python3", "python"] {
        let mut command = Command::new(python);
        command.args(["-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--only-binary=:all:"]);
        command.arg("--target").arg(folder).arg(package);
        // Settings of pip that would clash with `--target`, ask for a newer pip, or warn about root.
        command.envs([
            ("PIP_USER", "0"),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
            ("PIP_ROOT_USER_ACTION", "ignore"),
        ]);
        let Ok(output) = capture(&mut command) else {
            continue;
        };
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        if !message.contains("No module named pip") {
            let reason =
                message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
            return Err(format!("`{python} -m pip install {package}` failed: {reason}"));
        }
    }
    Err("there is no Python with pip to install it with".into())
}
