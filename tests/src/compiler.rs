//! The Rust compiler with the tilewright that this test was built with, so that it is not compiled a second time, as it would
//! be for a crate of its own target folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;
use std::{env, fs};

use crate::user_crate::workspace;

/// `rustc`, and the libraries beside this test's program.
#[derive(Debug)]
pub struct Compiler {
    libraries: PathBuf,
    tilewright: PathBuf,
}

impl Compiler {
    /// Finds the libraries.
    ///
    /// # Panics
    /// If the program is not in cargo's folder of libraries.
    pub fn of_this_build() -> Compiler {
        let program = env::current_exe().expect("the program's path");
        let libraries = program.parent().expect("a folder").to_path_buf();
        // Builds with other features are beside it. The newest cannot be older than this program's: cargo has just
        // made or confirmed that one.
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            name.starts_with("libtilewright-") && name.ends_with(".rlib")
        };
        let age = |path: &PathBuf| {
            fs::metadata(path).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let files = fs::read_dir(&libraries).expect("a folder").flatten().map(|entry| entry.path());
        let tilewright = files.filter(is_ours).max_by_key(age).expect("tilewright is built before its tests");
        Compiler { libraries, tilewright }
    }

    /// Compiles a file into a folder, as one crate of the 2024 edition.
    pub fn compile(&self, file: &Path, out: &Path, options: &[&str]) -> Output {
        fs::create_dir_all(out).expect("a folder for the output");
        let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        // Paths in libraries are relative to the workspace, and messages quote the text there.
        command.current_dir(workspace()).env_remove("RUSTC_BOOTSTRAP");
        command.args(["--edition", "2024"]).args(options).arg("--out-dir").arg(out).arg("-L").arg(out);
        command.arg("--extern").arg(with_prefix("tilewright=", &self.tilewright));
        command.arg("-L").arg(with_prefix("dependency=", &self.libraries)).arg(file);
        command.output().expect("rustc runs")
    }
}

fn with_prefix(prefix: &str, path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(prefix);
    text.push(path);
    text
}
