//! Draws the pictures of the book, and compiles its examples.
//!
//! `cargo run -p tilewright-book` writes the pictures to `book/src/pictures`. A test compares the SVG files with what is drawn.

mod banks;
mod figures;
mod pipeline;
mod ring;
mod slots;

pub use figures::{Figure, figures};

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
