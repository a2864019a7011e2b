//! Every kind of fault, with its text; and beside each the same program without it.

mod arguments;
mod barriers;
#[path = "../common/mod.rs"]
mod common;
mod in_flight;
mod memory;
mod races;
mod resources;
