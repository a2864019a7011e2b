//! Crates as users write them: each test runs cargo or the compiler.

mod compile_fail;
mod editor;
mod examples;
mod other_crates;
