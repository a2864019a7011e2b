//! The text of an author, and messages about it: the syntax tree, its bytes, diagnostics with spans. It knows no tiles.

pub mod ast;
pub mod diagnostic;
pub mod problem;
mod rust;
pub mod spelling;
pub mod stack;
pub mod wire;
