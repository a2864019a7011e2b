//! The search for NVRTC.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use super::library::Library;
use super::{Error, Nvrtc};

/// Names the folder that contains NVRTC, or its library.
const FOLDER_VARIABLE: &str = "TILEWRIGHT_NVRTC";
/// File names, newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"]
} else {
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
};
/// NVRTC loads this library itself, from the system's search path; its full name ends with the version.
const BUILTINS: &str = "libnvrtc-builtins.so.";
/// Variables that name an installed toolkit.
const TOOLKITS: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
/// The oldest supported version: older ones lack Blackwell and some of the instructions that generated
/// sources use.
const OLDEST: (i32, i32) = (12, 8);

/// NVRTC is missing, or cannot be used.
#[derive(Clone, Debug)]
pub struct Absent {
    /// Each path that was tried, and why it failed.
    pub tried: Vec<(PathBuf, String)>,
}

impl Absent {
    /// Adds a path that was tried.
    pub(crate) fn and(&self, tried: (PathBuf, String)) -> Absent {
        Absent { tried: self.tried.iter().cloned().chain([tried]).collect() }
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "NVRTC was not found.")?;
        for (candidate, why) in &self.tried {
            writeln!(f, "  {}: {why}", candidate.display())?;
        }
        write!(
            f,
            "It is part of the CUDA toolkit (12.8 or newer), and comes alone as the Python package \
             `nvidia-cuda-nvrtc`. Set {FOLDER_VARIABLE} to the folder that holds {}, or to this file.",
            NAMES[0]
        )
    }
}

pub(super) fn find(more: &[PathBuf]) -> Result<Nvrtc, Error> {
    let mut tried = Vec::new();
    for candidate in folders(more) {
        match load(&candidate) {
            Ok(nvrtc) => return Ok(nvrtc),
            Err(why) => tried.push((candidate, why)),
        }
    }
    Err(Error::Absent(Absent { tried }))
}

/// Folders to search, or a library; a bare file name asks the system's loader.
fn folders(more: &[PathBuf]) -> Vec<PathBuf> {
    if let Some(folder) = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        // An explicit path is used exclusively: a fallback would hide the mistake.
        return vec![folder.into()];
    }
    let inside = |toolkit: PathBuf| toolkit.join(if cfg!(windows) { "bin" } else { "lib64" });
    let toolkits = TOOLKITS.iter().filter_map(env::var_os).map(|toolkit| inside(toolkit.into()));
    let usual = ["/usr/local/cuda/lib64", "/opt/cuda/lib64"].map(PathBuf::from);
    let system = NAMES.iter().map(PathBuf::from);
    system.chain(toolkits).chain(usual).chain(more.iter().cloned()).collect()
}

fn load(candidate: &Path) -> Result<Nvrtc, String> {
    let is_name = candidate.parent().is_none_or(|parent| parent.as_os_str().is_empty());
    if is_name && !candidate.is_dir() {
        return open(candidate, None);
    }
    if candidate.is_file() {
        return open(candidate, candidate.parent().and_then(builtins).as_deref());
    }
    if !candidate.is_dir() {
        return Err("there is no such file or folder".to_string());
    }
    let file = NAMES.iter().map(|name| candidate.join(name)).find(|file| file.is_file());
    let file = file.ok_or_else(|| format!("it does not hold {}", NAMES[0]))?;
    open(&file, builtins(candidate).as_deref())
}

/// The builtins in a folder. Loaded first, they need not be on the system's search path.
fn builtins(folder: &Path) -> Option<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(BUILTINS))
        .map(|entry| entry.path())
        .collect();
    // The shortest name with a minor version; longer ones are links to it or from it.
    files.sort();
    files.into_iter().next()
}

fn open(file: &Path, builtins: Option<&Path>) -> Result<Nvrtc, String> {
    let library = Library::open(file, builtins)?;
    let version = library.version()?;
    if version < OLDEST {
        let ((major, minor), (least, least_minor)) = (version, OLDEST);
        return Err(format!(
            "it is version {major}.{minor}, and {least}.{least_minor} is the oldest that serves"
        ));
    }
    Ok(Nvrtc { library, version, path: file.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_with_advice() {
        let nowhere = PathBuf::from("/nonexistent/tilewright");
        let why = load(&nowhere).err();
        assert_eq!(why.as_deref(), Some("there is no such file or folder"));
        let absent = Absent { tried: vec![(nowhere, "there is no such file or folder".into())] };
        let text = absent.to_string();
        for part in [
            "NVRTC was not found",
            "/nonexistent/tilewright: there is no such file or folder",
            "TILEWRIGHT_NVRTC",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_not_a_library_is_an_error() {
        let folder = env::temp_dir().join(format!("tilewright-nvrtc-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(NAMES[0]), "not a library").unwrap();
        let of_folder = load(&folder).err().unwrap_or_default();
        let of_file = load(&folder.join(NAMES[0])).err().unwrap_or_default();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(of_folder.contains("cannot be loaded"), "{of_folder}");
        assert_eq!(of_file, of_folder);
    }
}
