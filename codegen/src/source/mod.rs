//! What an author wrote, and what is said about it: the syntax tree, its bytes, messages with their places. It knows no tiles.

pub mod ast;
pub mod diagnostic;
pub mod problem;
mod rust;
pub(crate) mod spelling;
pub(crate) mod stack;
pub mod wire;
