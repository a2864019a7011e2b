//! The parser of kernels: tokens become the generator's syntax tree, whose spans are numbers (`text` has the table from numbers to
//! tokens). Tokens are bounded (`guard`) before syn parses them. Semantics are decided in the generator: this crate does not know what
//! `tile` does. The macros call it with tokens of the compiler, the command with tokens of a text (`file`, `words`), and the generator with
//! its own pages.

pub mod attribute;
pub mod device;
mod expr;
pub mod file;
pub mod function;
pub mod guard;
pub mod keys;
mod pattern;
mod signature;
mod space;
mod stmt;
#[cfg(test)]
mod tests;
pub mod text;
pub mod words;
