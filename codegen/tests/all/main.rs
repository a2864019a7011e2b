//! The generator from outside: one program, since each link takes seconds.

mod choreography;
mod common;
mod construction;
mod coordinates;
mod elementwise;
mod hostile;
mod index;
mod limits;
mod modules;
mod moved;
mod overlaps;
mod passes;
mod pipeline;
mod reduce;
mod stages;
mod tiled;
mod typing;
mod whole;
