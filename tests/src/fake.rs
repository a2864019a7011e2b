//! Programs under the replacement of the driver and the compiler (`tests/fake_driver`): the folder from which they load it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

/// Cargo builds it as a dependency of this package, next to its tests and benchmarks.
const LIBRARY: &str = "libtilewright_fake_driver.so";
const NAMES: [&str; 4] = ["libcuda.so", "libcuda.so.1", "libnvrtc.so.13", "libnccl.so.2"];

/// The library under the names that programs load, in a folder that is deleted with this value.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Folder {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("tilewright-fake-driver-{}-{run}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the libraries");
        let library = library();
        for name in NAMES {
            symlink(&library, folder.join(name)).expect("a link to the library");
        }
        Folder(folder)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// This program again, with the library as its driver and compiler, and an empty cache.
    pub fn this_program(&self) -> Command {
        let mut command = Command::new(env::current_exe().expect("this program's path"));
        let old = env::var("LD_LIBRARY_PATH").unwrap_or_default();
        command.env("LD_LIBRARY_PATH", format!("{}:{old}", self.0.display()));
        command.env("FAKE_NCCL", &self.0).env("TILEWRIGHT_NCCL", &self.0);
        command.env("TILEWRIGHT_NVRTC", &self.0).env("TILEWRIGHT_CACHE_DIR", self.0.join("cache"));
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn library() -> PathBuf {
    let program = env::current_exe().expect("this program's path");
    let result = program.parent().map(Path::to_path_buf).unwrap_or_default().join(LIBRARY);
    assert!(result.is_file(), "{} is not there: cargo builds it for tests and benchmarks", result.display());
    result
}
