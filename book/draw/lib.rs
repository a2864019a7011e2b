//! Draws the pictures of the book, and compiles its examples.
//!
//! `cargo run -p tilewright-book` writes the pictures to `book/src/pictures`. A test compares the SVG files with what is drawn.

mod banks;
mod figures;
mod pipeline;
mod ring;
mod slots;

pub use figures::{Figure, figures};

use std::fs;
use std::path::Path;

/// Checks that each line of a chapter's blocks in this language is a line of a text, in this order. A line `…` stands for any lines.
///
/// # Panics
/// If a line is missing, or if the chapter has no such block.
pub fn check_quotes(chapter: &str, language: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(chapter);
    let page = fs::read_to_string(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1).filter_map(|block| block.split("```").next());
    let mut quoted =
        blocks.flat_map(str::lines).filter(|line| !line.trim().is_empty() && line.trim() != "…").peekable();
    assert!(quoted.peek().is_some(), "{chapter} has no block in {language}");
    let mut lines = text.lines();
    for quote in quoted {
        assert!(
            lines.any(|line| line.trim_end() == quote.trim_end()),
            "{chapter} quotes a line that is not there: {quote}"
        );
    }
}

/// The examples of the chapters compile and run.
#[cfg(doctest)]
mod chapters {
    macro_rules! chapters {
        ($($name:ident: $file:literal,)*) => {
            $(#[doc = include_str!(concat!("../src/", $file))] struct $name;)*
        };
    }

    chapters! {
        Layouts: "layouts.md",
        Operations: "operations.md",
        Threads: "threads.md",
        FirstKernel: "first_kernel.md",
        SharedMemory: "shared_memory.md",
        CudaCores: "cuda_cores.md",
        Pipelines: "pipelines.md",
        TensorCores: "tensor_cores.md",
        Rows: "rows.md",
        Hopper: "hopper.md",
        Attention: "attention.md",
        Tuning: "tuning.md",
    }
}
