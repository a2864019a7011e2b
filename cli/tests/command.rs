//! Common behaviour of every subcommand, and the small ones.

mod common;

use common::{printed, refused, run, text, tilewright};
use insta::assert_snapshot;

#[test]
fn help() {
    assert_snapshot!("help", printed(&["--help"]));
    for subcommand in ["draw", "explore", "inspect", "run", "doctor", "cache", "completions"] {
        // The list of keys belongs to the generator.
        let help = printed(&[subcommand, "--help"]);
        let help = help.split("Keys of matmul:").next().unwrap_or_default();
        assert_snapshot!(format!("help_{subcommand}"), help);
    }
}

#[test]
fn exit_codes() {
    let code = |arguments: &[&str]| run(arguments).status.code();
    assert_eq!(code(&["cache", "list"]), Some(0));
    assert_eq!(code(&["inspect", "nothing"]), Some(1));
    assert_eq!(code(&["inspect"]), Some(2));
    assert_eq!(code(&["frobnicate"]), Some(2));
    assert_eq!(code(&[]), Some(2));
}

#[test]
fn completions_know_the_subcommands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = printed(&["completions", shell]);
        assert!(["inspect", "doctor", "draw"].iter().all(|word| script.contains(word)), "{shell}");
    }
    let message = text(run(&["completions", "csh"]).stderr);
    assert!(message.contains("possible values: bash"), "{message}");
}

#[test]
fn the_doctor_says_what_is_missing() {
    let message = printed(&["doctor"]);
    for part in
        ["compiler       missing\n", "Set TILEWRIGHT_NVRTC", "disassembler   ", "cache          0 kernels"]
    {
        assert!(message.contains(part), "{message}");
    }
    let json: serde_json::Value = serde_json::from_str(&printed(&["doctor", "--json"])).unwrap();
    assert_eq!(json["compiler"]["found"], false);
    assert!(json["compiler"]["costs"].as_str().is_some_and(|costs| costs.contains("Without it")));
    assert!(json["devices"].is_array());
}

#[test]
fn a_cache_with_entries() {
    let folder =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{}", std::process::id()));
    let cache = tilewright_runtime::cache::Cache::at(&folder, 1 << 20);
    let request =
        tilewright_runtime::cache::Request { source: "…", name: "kernel", arch: "sm_90a", options: &[] };
    let compiled = tilewright_runtime::nvrtc::Compiled {
        cubin: vec![1; 1000],
        log: String::new(),
        usage: Vec::new(),
        notes: Vec::new(),
        time: std::time::Duration::ZERO,
    };
    cache.put(&request, (13, 0), &compiled).unwrap();
    let with_cache = |arguments: &[&str]| {
        let output = tilewright(arguments).env("TILEWRIGHT_CACHE_DIR", &folder).output().unwrap();
        assert!(output.status.success());
        text(output.stdout).replace(&folder.display().to_string(), "FOLDER")
    };
    let listed = with_cache(&["cache", "list"]);
    assert!(listed.starts_with("1 kernel, 1."), "{listed}");
    assert!(listed.contains("kernel  sm_90a        13.0   1."), "{listed}");
    let json: serde_json::Value = serde_json::from_str(&with_cache(&["cache", "list", "--json"])).unwrap();
    assert_eq!(json["kernels"][0]["architecture"], "sm_90a");
    assert_eq!(with_cache(&["cache", "clear"]), "1 kernel removed from FOLDER\n");
    assert_eq!(with_cache(&["cache", "list"]), "0 kernels, 0 bytes, in FOLDER\n");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_cannot_be_written() {
    let message = refused(&["draw", "(4,8):(8,1)", "--svg", "/nonexistent/picture.svg"]);
    assert!(message.starts_with("error: cannot write /nonexistent/picture.svg: "), "{message}");
}
