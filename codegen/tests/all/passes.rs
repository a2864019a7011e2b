//! Tests of passes by files: a program above the line, the output of the pass below it. `cargo xtask
//! snapshots` updates the part below. And tests of the list of passes.

use std::path::Path;

use tilewright_codegen::lower::Policy;
use tilewright_codegen::lower::THREAD_PASSES;
use tilewright_codegen::pass::{Arch, Context, PASSES, Runs, expand, lower};
use tilewright_codegen::resolve::{Width, distribute};
use tilewright_codegen::thread::Kernel;
use tilewright_codegen::tile::Program;
use tilewright_codegen::words::{TEXTS, Words};
use tilewright_codegen::{cuda, pipeline, synchronise, text};

const LINE: &str = "\n----\n";

/// The output of a pass, by its name.
fn passed(pass: &str, input: &str) -> Result<String, String> {
    let tile = || text::parse::<Program>(input).map_err(|wrong| wrong.to_string());
    let message = |message: tilewright_codegen::diagnostic::Diagnostic| message.text();
    let lowered = |policy| Ok(text::print(&lower(tile()?, policy).map_err(message)?));
    match pass {
        "resolve" => Ok(text::print(&distribute(tile()?, Width::WIDEST).map_err(message)?)),
        "schedule" => Ok(text::print(&pipeline::schedule(tile()?).map_err(message)?)),
        "synchronise" => Ok(text::print(&synchronise::synchronised(tile()?).map_err(message)?)),
        "expand" => Ok(text::print(&expand(tile()?).map_err(message)?)),
        "lower best" => lowered(Policy::Best),
        "lower general" => lowered(Policy::General),
        "print" => Ok(cuda::print(&text::parse::<Kernel>(input).map_err(|wrong| wrong.to_string())?)),
        _ => Err(format!("there is no pass `{pass}`")),
    }
}

#[test]
fn passes_match_the_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/passes");
    let bless = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut wrong = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let (above, below) = text.split_once(LINE).unwrap_or((text.trim_end(), ""));
        // Comments, the name of the pass, the program.
        let begin = above.find("pass: ").expect("a line `pass: …`");
        let (pass, input) = above[begin + 6..].split_once('\n').expect("a program below the pass");
        let made = passed(pass, input).unwrap_or_else(|why| format!("error: {why}\n"));
        if made != below {
            match bless {
                true => std::fs::write(file, format!("{above}{LINE}{made}")).unwrap(),
                false => wrong.push(format!("{}:\n{made}", file.display())),
            }
        }
    }
    assert!(files.len() >= 4);
    assert!(wrong.is_empty(), "bless with `cargo xtask snapshots`: {}", wrong.join("\n"));
}

/// The lines of ARCHITECTURE.md about passes that run at one time.
fn listed(runs: Runs) -> String {
    let passes = PASSES.iter().filter(|pass| pass.runs == runs);
    passes.map(|pass| format!("- `{}` {}.\n", pass.name, pass.does)).collect()
}

#[test]
fn architecture_lists_the_passes() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let mut text = std::fs::read_to_string(&file).unwrap();
    let after_lowering =
        THREAD_PASSES.iter().map(|pass| format!("- `{}` {}.\n", pass.name, pass.does)).collect();
    let lists = [
        ("alternative", listed(Runs::OncePerAlternative)),
        ("specialization", listed(Runs::OncePerSpecialization)),
        ("thread program", after_lowering),
    ];
    let bless = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    for (name, expected) in lists {
        let (begin, end) = (format!("<!-- passes: {name} -->\n"), "<!-- end -->");
        let from = text.find(&begin).unwrap_or_else(|| panic!("ARCHITECTURE.md lacks {begin}")) + begin.len();
        let to = from + text[from..].find(end).expect("an end of the list");
        if bless {
            text.replace_range(from..to, &expected);
        }
        assert!(bless || text[from..to] == expected, "bless with `cargo xtask snapshots`:\n{expected}");
    }
    if bless {
        std::fs::write(file, text).unwrap();
    }
}

/// Programs with each mechanism: pipelines, roles, persistent kernels, loops that blocks share, whole tiles.
const KEYS: &[&str] = &[
    "dtype=f32 bm=64 bn=64 bk=8 stages=3",
    "dtype=f16 arch=80",
    "dtype=bf16 arch=90 bm=128 bn=128 schedule=(cluster=2)",
    "dtype=bf16 arch=90 bm=64 bn=128 schedule=(ping_pong=true)",
    "dtype=bf16 arch=90 bm=64 bn=64 schedule=(split_k=2)",
    "dtype=bf16 arch=90 bm=64 bn=64 schedule=(split_k=blocks(4))",
    "dtype=e4m3 arch=90 scales=blocks",
    "precision=f32x3 arch=90",
];

#[test]
fn programs_are_well_formed_between_passes() {
    for keys in KEYS {
        let words = Words::read(keys).unwrap();
        let programs =
            tilewright_codegen::matmul::programs(words.args(), &TEXTS).unwrap_or_else(|_| panic!("{keys}"));
        for policy in [Policy::Best, Policy::General] {
            let mut program = programs.wide.clone();
            let mut context = Context { width: Width::WIDEST, policy, arch: Arch::Oldest, needs: Vec::new() };
            for pass in PASSES {
                program =
                    pass.run(program, &mut context).unwrap_or_else(|why| panic!("{keys}: {}", why.text()));
                let checked = tilewright_codegen::tile::verify::structure::check(&program);
                checked.unwrap_or_else(|why| panic!("{keys}, after `{}`: {why}", pass.name));
            }
        }
    }
}
