use tilewright::prelude::*;

#[kernel]
struct K;

fn main() {}
