//! Places in the tables of programs.

/// Which row of a table.
pub type Id = u32;
