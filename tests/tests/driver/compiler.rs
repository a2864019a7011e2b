//! The compilation cache when the compiler is removed, is not a library, or has another version than before.

use std::path::PathBuf;
use std::{env, fs};

use tilewright_runtime::cache::{Cache, Request};
use tilewright_runtime::nvrtc::Nvrtc;

use crate::harness::{Fake, Run};

const SOURCE: &str = r#"extern "C" __global__ void f(const float* a, float* c, int n) {}"#;
/// How the compiler is changed before it is loaded.
const CHANGE: &str = "TILEWRIGHT_CHANGE";

/// A folder for the cache that is shared by several processes and deleted after the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program that compiles one kernel several times, each with another state of the compiler.
#[track_caller]
fn check(test: &str, runs: &[(&str, &str)], run: impl Fn(&Fake) -> Run) {
    let cache = Folder(env::temp_dir().join(format!("tilewright-{test}-{}", std::process::id())));
    for (word, outcome) in runs {
        let fake = Fake::new().set("TILEWRIGHT_CACHE_DIR", cache.0.display());
        let fake = if word.contains('.') { fake.set("FAKE_NVRTC", word) } else { fake.set(CHANGE, word) };
        let run = run(&fake).sound();
        run.check(run.output.contains(&format!("outcome: {outcome}")), format!("{word}: {outcome}"));
        assert_eq!(run.count("nvrtcCompileProgram"), usize::from(*outcome == "compiled"), "{word}");
    }
}

/// In the child process: prints whether the cache was hit.
fn compile() {
    let library = PathBuf::from(env::var_os("TILEWRIGHT_NVRTC").unwrap()).join("libnvrtc.so.13");
    match env::var(CHANGE).as_deref() {
        Ok("removed") => fs::remove_file(library).unwrap(),
        Ok("text") => {
            fs::remove_file(&library).unwrap();
            fs::write(library, "not a library").unwrap();
        }
        Ok("empty") => {
            fs::remove_file(&library).unwrap();
            fs::write(library, "").unwrap();
        }
        _ => {}
    }
    let request = Request { source: SOURCE, name: "f", arch: "sm_90a", options: &[] };
    match Cache::open().compile(Nvrtc::find(&[]).as_ref(), &request) {
        Ok(result) => {
            assert_eq!(result.compiled.usage_of("f").map(|usage| usage.registers), Some(32));
            assert_eq!(result.note, None);
            println!("outcome: {}", if result.hit { "cached" } else { "compiled" });
        }
        Err(error) => println!("outcome: {}", error.to_string().replace('\n', " ")),
    }
}

#[test]
fn the_second_run_compiles_nothing() {
    check("second", &[("13.0", "compiled"), ("13.0", "cached"), ("13.0", "cached")], |fake| {
        fake.run(|| {
            compile();
        })
    });
}

#[test]
fn another_version_compiles_again() {
    let runs = [
        ("13.0", "compiled"),
        ("13.1", "compiled"),
        ("14.0", "compiled"),
        ("12.9", "compiled"),
        ("13.0", "cached"),
        ("14.0", "cached"),
    ];
    check("version", &runs, |fake| {
        fake.run(|| {
            compile();
        })
    });
}

#[test]
fn without_the_compiler_what_was_compiled_serves() {
    let runs = [
        ("removed", "NVRTC was not found"),
        ("text", "NVRTC was not found"),
        ("13.0", "compiled"),
        ("removed", "cached"),
        ("text", "cached"),
        ("empty", "cached"),
        // Too old to be used: the same as no compiler.
        ("11.8", "cached"),
    ];
    check("without", &runs, |fake| {
        fake.run(|| {
            compile();
        })
    });
}
