//! Every example runs and prints the expected parts. No GPU is visible, so that the output is the same
//! everywhere.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use tilewright_tests::gallery;

/// Each example, and parts of its output.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("attention", &["mma_m16n8k16_bf16", "ldmatrix_x4_trans", "power_of_two", "cp_async_16"]),
    ("attention_hopper", &["wgmma_m64n64k16_ra_bf16", "bulk_load_3d", "power_of_two"]),
    ("between_blocks", &["the sum: [5000.0]", "Some(5000.0)", "[200.0, 200.0]", "[2.0, 2.0]"]),
    ("cudarc_program", &["help: "]),
    ("device", &["help: "]),
    ("draw", &["(8,8):(8,1)", "T31 V3"]),
    ("inspect", &["operations per byte", "sequential", "variant 1:", "which do not divide 72"]),
    ("ladder", &["without a GPU", "10 the best", "all ten are right", "W = TILE_WIDTH) is right"]),
    ("linear", &["mma_m16n8k16_bf16", "ldmatrix_x4", "gelu"]),
    ("linear_hopper", &["wgmma_m64n128k16_bf16", "bulk_load_2d", "gelu"]),
    ("loop_orders", &["ijk", "kij", "ikj, by 16", "block.x in 0..ceil(M/16)"]),
    ("matmul", &["the CUDA C is in", "in the simulator", "is right, to the bit"]),
    ("memory", &["each adds up to 1", "softmax_row", "4 wavefronts"]),
    ("own_kernel", &["where they belong", "refused: argument `b`", "with seed 0"]),
    ("pages", &["in order: [-1.0, 0.5, 3.0, inf]", "of four pixels: 16"]),
    ("puzzles", &["0 of 20", "1. Map", "1.0 is expected"]),
    ("snapshot_test", &["scale(const float* __restrict__ x"]),
    ("softmax", &["softmax(const float", "expf", "most_next_of_warps"]),
    ("tutorial", &["matmul_nt("]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Builds all of them in the target folder of the tests.
fn built() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("..");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // The whole workspace, as the tests are built: with other features or profiles everything would be compiled again.
    command.current_dir(root()).env_remove("RUSTC_BOOTSTRAP").args([
        "build",
        "--quiet",
        "--profile=test",
        "--workspace",
        "--examples",
    ]);
    let output = command.arg("--target-dir").arg(&target).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    target.join("debug/examples")
}

fn run(folder: &Path, name: &str) -> Output {
    let program = folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
    Command::new(program).env("CUDA_VISIBLE_DEVICES", "").output().unwrap()
}

#[test]
fn every_example_runs() {
    let folder = built();
    for (name, parts) in EXAMPLES {
        let output = run(&folder, name);
        let message = text(&output.stdout);
        assert!(output.status.success(), "{name}: {message}\n{}", text(&output.stderr));
        for part in *parts {
            assert!(message.contains(part), "{name} does not say `{part}`:\n{message}");
        }
    }
}

/// The outputs in the examples' README are current, except for times.
#[test]
fn the_readme_is_up_to_date() {
    let folder = built();
    let readme = fs::read_to_string(root().join("examples/README.md")).unwrap();
    for (name, from, to) in [("loop_orders", "\ngrid ", "\n\n"), ("ladder", "\n 1 naive", "\n\n")] {
        let message = text(&run(&folder, name).stdout);
        let start =
            message.find(from).unwrap_or_else(|| panic!("{name} does not say `{from}`:\n{message}")) + 1;
        let shown = message[start..].split(to).next().unwrap_or_default();
        assert!(readme.contains(shown.trim_end()), "put what {name} says into examples/README.md:\n{shown}");
    }
    for (name, _) in EXAMPLES {
        assert!(readme.contains(&format!("| [`{name}`](")), "examples/README.md has no row for `{name}`");
    }
}

#[test]
fn no_example_is_left_out() {
    let mut there: Vec<String> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").exists()
        })
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    there.sort();
    let listed: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
    assert_eq!(there, listed);
}

/// The generated sources contain the quotes of pages: each line, apart from white space and comments.
#[test]
fn pages_quote_generated_code() {
    let folder = built();
    let first = |keys: &str| gallery::matmul(keys).kernel.expect(keys).variants.remove(0).source;
    let pages = [
        ("linear.md", text(&run(&folder, "linear").stdout)),
        ("product.md", first("dtype=bf16 arch=80") + &first("dtype=bf16 arch=90 a=k_major b=k_major")),
    ];
    let code = |line: &str| line.split("  //").next().unwrap_or(line).split_whitespace().collect::<String>();
    for (name, source) in pages {
        let source: String = source.lines().map(code).collect();
        let page = fs::read_to_string(root().join("examples").join(name)).unwrap();
        let blocks = page.split("```c\n").skip(1).filter_map(|block| block.split("```").next());
        let lines: Vec<&str> = blocks.flat_map(str::lines).filter(|line| !code(line).is_empty()).collect();
        assert!(!lines.is_empty(), "{name} quotes no code: it has no block that begins with ```c");
        for line in lines {
            assert!(source.contains(&code(line)), "{name} quotes what is not generated:\n{line}");
        }
    }
}
