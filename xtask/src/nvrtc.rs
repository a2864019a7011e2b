//! Finding NVIDIA's run-time compiler, or installing it. Needs no GPU and no CUDA toolkit.
//!
//! It is looked for in the folder that `TILEWRIGHT_NVRTC` names or whose library it names, among the system's libraries, and in
//! `target/nvrtc`, in this order. If it is not there, pip installs it into the last. If that fails, the tests that
//! compile CUDA C are skipped, unless `TILEWRIGHT_REQUIRE_NVRTC=1` is set.
//!
//! Only files are checked here: the tests show whether the library works.

use crate::pip;
use crate::shell::{Outcome, capture, root};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the folder that contains NVRTC: read here, and exported to the tests.
pub(crate) const FOLDER_VARIABLE: &str = "TILEWRIGHT_NVRTC";
/// `1` turns a missing NVRTC from a note into a failure.
const REQUIRE_VARIABLE: &str = "TILEWRIGHT_REQUIRE_NVRTC";

const LIBRARY: &str = "libnvrtc.so.13";
/// NVRTC loads this one by itself; its full name ends with the minor version.
const BUILTINS_PREFIX: &str = "libnvrtc-builtins.so.13";

/// Pinned, so that the code it generates is the same for everyone.
const PACKAGE: &str = "nvidia-cuda-nvrtc==13.0.88";
/// Where the package keeps its libraries.
const INSIDE_PACKAGE: &str = "nvidia/cu13/lib";

/// The folder that contains NVRTC, or `None` if the tests run without it.
pub(crate) fn obtain() -> Outcome<Option<PathBuf>> {
    let candidates = Candidates::of_this_machine();
    if let Some(folder) = candidates.find()? {
        eprintln!("    NVRTC is in {}", folder.display());
        return Ok(Some(folder));
    }
    match install(&candidates.installed) {
        Ok(folder) => {
            eprintln!("    NVRTC was installed into {}", folder.display());
            Ok(Some(folder))
        }
        Err(why) => without(&why, env::var_os(REQUIRE_VARIABLE)),
    }
}

/// Where NVRTC may be.
struct Candidates {
    named: Option<OsString>,
    system: Vec<PathBuf>,
    /// `target/nvrtc`, which need not exist.
    installed: PathBuf,
}

impl Candidates {
    fn of_this_machine() -> Candidates {
        Candidates {
            named: env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty()),
            system: system_folders(),
            installed: root().join("target/nvrtc"),
        }
    }

    fn find(&self) -> Outcome<Option<PathBuf>> {
        if let Some(named) = &self.named {
            // An explicit folder is used exclusively: a fallback would hide the mistake.
            let named = Path::new(named);
            let folder = if named.is_file() { named.parent().unwrap_or(named) } else { named };
            return complete(folder).map(Some).ok_or_else(|| {
                let named = named.display();
                format!(
                    "{FOLDER_VARIABLE} is `{named}`, which does not hold {LIBRARY} and {BUILTINS_PREFIX}.*; \
                     name the folder that holds both, or unset it"
                )
            });
        }
        let installed = self.installed.join(INSIDE_PACKAGE);
        Ok(self.system.iter().chain([&installed]).find_map(|folder| complete(folder)))
    }
}

/// The folder's absolute path, if it has both libraries.
fn complete(folder: &Path) -> Option<PathBuf> {
    let has_builtins = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with(BUILTINS_PREFIX));
    if has_builtins && folder.join(LIBRARY).is_file() { folder.canonicalize().ok() } else { None }
}

/// Folders of the dynamic loader and of an installed toolkit.
fn system_folders() -> Vec<PathBuf> {
    let loader_path = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> =
        env::split_paths(&loader_path).filter(|path| !path.as_os_str().is_empty()).collect();
    for program in ["ldconfig", "/sbin/ldconfig"] {
        if let Ok(output) = capture(Command::new(program).arg("-p")) {
            folders.extend(in_loader_cache(&String::from_utf8_lossy(&output.stdout)));
            break;
        }
    }
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        folders.extend(env::var_os(variable).map(|toolkit| Path::new(&toolkit).join("lib64")));
    }
    folders.extend(["/usr/local/cuda-13/lib64", "/usr/local/cuda/lib64"].map(PathBuf::from));
    folders
}

/// Folders of the library in a listing whose lines read `name (kind) => path`.
fn in_loader_cache(listing: &str) -> Vec<PathBuf> {
    listing
        .lines()
        .filter(|line| line.split_whitespace().next() == Some(LIBRARY))
        .filter_map(|line| line.rsplit_once(" => "))
        .filter_map(|(_, path)| Path::new(path.trim()).parent().map(Path::to_path_buf))
        .collect()
}

/// Installs the package with pip. The error says why that was not possible.
fn install(destination: &Path) -> Outcome<PathBuf> {
    if !cfg!(target_os = "linux") {
        return Err("it is installed on Linux only".into());
    }
    // pip writes file by file; the folder is renamed when it is complete. An interrupted run leaves nothing
    // that looks usable, and two runs do not disturb each other.
    let partial = destination.with_extension(format!("partial-{}", std::process::id()));
    let installed =
        pip::install(PACKAGE, "90 MB", &partial).and_then(|()| install_folder(&partial, destination));
    let _ = std::fs::remove_dir_all(&partial);
    installed
}

fn install_folder(partial: &Path, destination: &Path) -> Outcome<PathBuf> {
    let libraries = destination.join(INSIDE_PACKAGE);
    if complete(&libraries).is_none() {
        let _ = std::fs::remove_dir_all(destination);
        // Fails if another run was faster, which is fine.
        let _ = std::fs::rename(partial, destination);
    }
    complete(&libraries).ok_or_else(|| format!("{PACKAGE} could not be put into {}", destination.display()))
}

/// Continues without NVRTC, or fails.
fn without(why: &str, require: Option<OsString>) -> Outcome<Option<PathBuf>> {
    let remedy = format!(
        "install Python 3 with pip, or set {FOLDER_VARIABLE} to the folder that holds {LIBRARY} (CUDA 13)"
    );
    if require.is_some_and(|value| value == "1") {
        return Err(format!("no NVRTC, and {REQUIRE_VARIABLE}=1: {why}; {remedy}"));
    }
    eprintln!("    skipped: no NVRTC ({why}); tests that compile CUDA C will skip themselves");
    eprintln!("    to run them: {remedy}");
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder of empty files that disappears with the value.
    struct Fixture(PathBuf);

    impl Fixture {
        fn new(name: &str, files: &[&str]) -> Fixture {
            let folder = env::temp_dir().join(format!("xtask-nvrtc-{name}-{}", std::process::id()));
            for file in files {
                let path = folder.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            Fixture(folder.canonicalize().unwrap())
        }

        fn candidates(&self, named: Option<&str>, system: &[&str]) -> Candidates {
            Candidates {
                named: named.map(|folder| self.0.join(folder).into_os_string()),
                system: system.iter().map(|folder| self.0.join(folder)).collect(),
                installed: self.0.join("target/nvrtc"),
            }
        }

        #[track_caller]
        fn check(&self, named: Option<&str>, system: &[&str], expected: Option<&str>) {
            let result = self.candidates(named, system).find().unwrap();
            assert_eq!(result, expected.map(|folder| self.0.join(folder)));
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const BOTH: [&str; 2] = ["libnvrtc.so.13", "libnvrtc-builtins.so.13.0"];

    fn files(folders: &[&str]) -> Vec<String> {
        folders.iter().flat_map(|folder| BOTH.map(|file| format!("{folder}/{file}"))).collect()
    }

    #[test]
    fn the_order_of_the_places() {
        let files = files(&["named", "system", "target/nvrtc/nvidia/cu13/lib"]);
        let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
        files.push("half/libnvrtc.so.13");
        let fixture = Fixture::new("order", &files);
        fixture.check(Some("named"), &["system"], Some("named"));
        fixture.check(None, &["absent", "half", "system"], Some("system"));
        fixture.check(None, &["half"], Some("target/nvrtc/nvidia/cu13/lib"));
        let message = fixture.candidates(Some("half"), &["system"]).find().unwrap_err();
        assert!(message.contains("half") && message.contains("unset it"), "{message}");
    }

    #[test]
    fn nothing_anywhere() {
        Fixture::new("nothing", &["readme"]).check(None, &["absent"], None);
    }

    #[test]
    fn the_loader_cache() {
        let listing = "3 libs found in cache `/etc/ld.so.cache'\n\
            \tlibnvrtc.so.13 (libc6,x86-64) => /opt/cuda/lib64/libnvrtc.so.13\n\
            \tlibnvrtc.so.12 (libc6,x86-64) => /opt/old/lib64/libnvrtc.so.12\n\
            \tlibz.so.1 (libc6,x86-64) => /lib/libz.so.1\n";
        assert_eq!(in_loader_cache(listing), [Path::new("/opt/cuda/lib64")]);
    }

    #[test]
    fn doing_without_is_a_note_unless_required() {
        assert_eq!(without("a reason", None), Ok(None));
        assert_eq!(without("a reason", Some("0".into())), Ok(None));
        let message = without("a reason", Some("1".into())).unwrap_err();
        assert!(message.contains("a reason") && message.contains(FOLDER_VARIABLE), "{message}");
    }
}
