//! Tests of passes by files: a program above the line, the output of the pass below it. `cargo xtask
//! snapshots` updates the part below.

use std::path::Path;

use tilewright_codegen::lower::{Policy, lower};
use tilewright_codegen::thread::Kernel;
use tilewright_codegen::tile::Program;
use tilewright_codegen::{cuda, pipeline, resolve, synchronise, text};

const LINE: &str = "\n----\n";

/// The output of a pass, by its name.
fn passed(pass: &str, input: &str) -> Result<String, String> {
    let tile = || text::parse::<Program>(input).map_err(|wrong| wrong.to_string());
    let message = |message: tilewright_codegen::diagnostic::Diagnostic| message.text();
    let lowered = |policy| Ok(text::print(&lower(&tile()?, policy).map_err(message)?));
    match pass {
        "resolve" => Ok(text::print(&*resolve::resolve(&tile()?).map_err(message)?)),
        "schedule" => Ok(text::print(&*pipeline::scheduled(&tile()?).map_err(message)?)),
        "synchronise" => Ok(text::print(&synchronise::synchronised(tile()?).map_err(message)?)),
        "expand" => Ok(text::print(&*pipeline::expand(&tile()?).map_err(message)?)),
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
