//! The generator from outside: one program, since each link takes seconds.

mod claims;
mod compute;
mod construction;
mod coordinates;
mod hostile;
mod index;
mod limits;
mod modules;
mod overlaps;
mod passes;
mod reduce;
mod reports;
mod results;
mod stages;
mod tiled;
mod typing;
