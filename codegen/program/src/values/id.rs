//! Indices in the tables of programs.

/// The index of a row in a table.
pub type Id = u32;
