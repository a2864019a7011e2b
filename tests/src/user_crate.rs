//! A user's crate: outside the workspace, created for one test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs, io};

/// A crate in its own folder, built with default settings.
#[derive(Debug)]
pub struct UserCrate {
    dir: PathBuf,
}

impl UserCrate {
    /// Creates a crate that depends on tilewright, and on others of these.
    pub fn new(parent: &Path, name: &str, depends_on: &[&str]) -> io::Result<UserCrate> {
        let others = depends_on.iter().map(|other| format!("{other} = {{ path = \"../{other}\" }}\n"));
        UserCrate::with(parent, name, "", &others.collect::<String>())
    }

    /// Creates a crate that depends on tilewright with these settings, and on the given lines of its
    /// manifest.
    pub fn with(parent: &Path, name: &str, settings: &str, dependencies: &str) -> io::Result<UserCrate> {
        let dir = parent.join(name);
        fs::create_dir_all(dir.join("src"))?;
        let root = workspace();
        let manifest = format!(
            "[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\ntilewright = {{ path = {root:?}{settings} }}\n{dependencies}",
        );
        fs::write(dir.join("Cargo.toml"), manifest)?;
        // The locked versions of the workspace, which are available offline.
        fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock"))?;
        Ok(UserCrate { dir })
    }

    /// Writes a source file: `main.rs`.
    pub fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.dir.join("src").join(file), text)
    }

    /// Runs cargo in it.
    pub fn cargo(&self, arguments: &[&str], target: &Path) -> io::Result<Output> {
        self.cargo_command(arguments, target).output()
    }

    /// Cargo in it.
    pub fn cargo_command(&self, arguments: &[&str], target: &Path) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.dir).args(arguments).arg("--target-dir").arg(target);
        // A user builds without the flags of the test build.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTC_BOOTSTRAP");
        command.env("CARGO_TERM_COLOR", "never");
        command
    }
}

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}
