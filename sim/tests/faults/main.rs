//! Every kind of fault with its text, and the same program without it.

mod advice;
mod arguments;
mod atomics;
mod barriers;
#[path = "../common/mod.rs"]
mod common;
mod in_flight;
mod memory;
mod overlap;
mod races;
mod resources;
mod warpgroup;
