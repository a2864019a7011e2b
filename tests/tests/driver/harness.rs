//! Runs the body of a test in a process of its own, whose driver and compiler are those of `tests/fake_driver`.

use std::fmt::Display;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

/// Set in the process that runs the body.
const CHILD: &str = "TILEWRIGHT_FAKE_CHILD";
/// Cargo builds it because this package depends on it, and puts it beside the tests.
const LIBRARY: &str = "libtilewright_fake_driver.so";
const NAMES: [&str; 3] = ["libcuda.so", "libcuda.so.1", "libnvrtc.so.13"];

/// How the driver shall behave: the variables of `tests/fake_driver`.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    variables: Vec<(String, String)>,
}

/// What a process did.
pub(crate) struct Run {
    /// Did it end well?
    pub(crate) ok: bool,
    /// What it printed.
    pub(crate) said: String,
    /// What it called, in order.
    pub(crate) calls: Vec<Call>,
    /// What might have gone wrong on a device.
    pub(crate) hazards: Vec<String>,
}

/// One line of the driver's log.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) status: i32,
    arguments: Vec<(String, String)>,
}

impl Call {
    fn parse(line: &str) -> Option<Call> {
        let (call, status) = line.rsplit_once(" -> ")?;
        let mut words = call.split(' ');
        let name = words.next()?.to_string();
        let pair = |word: &str| {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            (name.to_string(), value.to_string())
        };
        Some(Call { name, status: status.parse().ok()?, arguments: words.map(pair).collect() })
    }

    /// An argument, or what was made; empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.arguments.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value)
    }

    /// Is it a launch of a kernel?
    pub(crate) fn is_launch(&self) -> bool {
        self.name.starts_with("cuLaunch")
    }
}

impl Run {
    /// Calls of a function that went well.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.calls.iter().filter(|call| call.name == name && call.status == 0).count()
    }

    /// Kernels that were launched.
    pub(crate) fn launches(&self) -> usize {
        self.calls.iter().filter(|call| call.is_launch() && call.status == 0).count()
    }

    /// It ended well, and nothing could have gone wrong on a device.
    #[track_caller]
    pub(crate) fn sound(self) -> Run {
        self.check(self.ok, "it failed");
        self.check(self.hazards.is_empty(), "there are hazards");
        self
    }

    #[track_caller]
    pub(crate) fn check(&self, holds: bool, what: impl Display) {
        assert!(holds, "{what}\n{}", self.text());
    }

    /// All that is known of it.
    pub(crate) fn text(&self) -> String {
        let calls: Vec<String> = self.calls.iter().map(|call| format!("{call:?}")).collect();
        format!("{}\n{}\n{}", self.said, self.hazards.join("\n"), calls.join("\n"))
    }
}

impl Fake {
    pub(crate) fn new() -> Fake {
        Fake::default()
    }

    /// Sets a variable: of the driver, or another.
    pub(crate) fn set(mut self, name: &str, value: impl Display) -> Fake {
        self.variables.push((name.to_string(), value.to_string()));
        self
    }

    /// Runs the body of a test, and of no other than the calling one, in a new process; there this does not return.
    #[track_caller]
    pub(crate) fn run<F: FnOnce()>(&self, body: F) -> Run {
        if env::var_os(CHILD).is_some() {
            body();
            process::exit(0);
        }
        // `driver::module::name::{{closure}}`: the test's name, as the harness of tests knows it.
        let path = std::any::type_name::<F>();
        let test = path.split_once("::").map_or(path, |(_, rest)| rest).trim_end_matches("::{{closure}}");
        let folder = Folder::new();
        let log = folder.0.join("log");
        let mut command = Command::new(env::current_exe().expect("this program's path"));
        command.args(["--exact", test, "--nocapture", "--include-ignored", "--test-threads=1"]);
        let old = env::var("LD_LIBRARY_PATH").unwrap_or_default();
        command.env("LD_LIBRARY_PATH", format!("{}:{old}", folder.0.display()));
        command.env("TILEWRIGHT_NVRTC", &folder.0).env("TILEWRIGHT_CACHE_DIR", folder.0.join("cache"));
        command.env("FAKE_LOG", &log).env(CHILD, "1").env("RUST_BACKTRACE", "0");
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        let output = command.output().expect("a process can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains("running 1 test"), "no test is called `{test}`: {said}");
        let log = fs::read_to_string(log).unwrap_or_default();
        let hazard = |line: &str| line.strip_prefix("HAZARD ").map(str::to_string);
        Run {
            ok: output.status.success(),
            said,
            calls: log.lines().filter(|line| hazard(line).is_none()).filter_map(Call::parse).collect(),
            hazards: log.lines().filter_map(hazard).collect(),
        }
    }
}

/// Kernels that the process of a body has launched so far.
pub(crate) fn launched() -> usize {
    let log = env::var("FAKE_LOG").ok().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    log.lines().filter_map(Call::parse).filter(|call| call.is_launch()).count()
}

/// The library under the names that programs look for, in a folder that goes with the run.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
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
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn library() -> PathBuf {
    let program = env::current_exe().expect("this program's path");
    let found = program.parent().map(Path::to_path_buf).unwrap_or_default().join(LIBRARY);
    assert!(found.is_file(), "{} is not there: cargo builds it for `cargo test`", found.display());
    found
}
