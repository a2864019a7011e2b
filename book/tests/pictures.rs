//! The pictures of the book are up to date, and each is in a chapter. `cargo xtask snapshots` draws them again; look at them.

use std::fs;
use std::path::{Path, PathBuf};

use tilewright_book::figures;

/// The most bytes of a picture that is not drawn as SVG.
const MAX_BYTES: u64 = 200_000;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn chapters() -> String {
    let files = fs::read_dir(source()).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|ext| ext == "md"))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
}

#[test]
fn pictures_are_those_that_the_project_draws() {
    let bless = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    for (name, svg) in figures().unwrap() {
        let file = source().join(format!("pictures/{name}.svg"));
        if bless {
            fs::write(&file, &svg).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap_or_default().replace("\r\n", "\n");
        assert!(kept == svg, "{} is stale: run `cargo xtask snapshots`", file.display());
    }
}

#[test]
fn every_picture_is_in_a_chapter() {
    let chapters = chapters();
    let drawn: Vec<String> = figures().unwrap().iter().map(|(name, _)| format!("{name}.svg")).collect();
    for entry in fs::read_dir(source().join("pictures")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        assert!(chapters.contains(&format!("](pictures/{name})")), "no chapter shows {name}");
        assert!(
            name.ends_with(".png") || drawn.contains(&name),
            "{name} is not drawn by `cargo run -p tilewright-book`"
        );
        assert!(entry.metadata().unwrap().len() <= MAX_BYTES, "{name} is too large");
    }
}

/// The rings in time are drawn from runs of the kernels that their chapters show.
#[test]
fn chapters_show_the_kernels_of_their_pictures() {
    for (chapter, kernel) in [
        ("pipelines.md", include_str!("../draw/pipeline.rs")),
        ("hopper.md", include_str!("../draw/ring.rs")),
    ] {
        let page = fs::read_to_string(source().join(chapter)).unwrap();
        assert!(
            page.contains(&kernel.replace("pub fn", "fn")),
            "{chapter} does not show the kernel of its picture:\n{kernel}"
        );
    }
}
