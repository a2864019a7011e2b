//! A subject's text and the CUDA C of one of its variants.

use tilewright_fuzz::{draw, judge::Source};
fn main() {
    let seed: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let variant: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let s = draw::subject(seed);
    let p = s.program().unwrap();
    if let Source::Text(d) = &s.source { println!("{}", tilewright_fuzz::source::definition(d)); }
    let k = s.kernel(&p).unwrap();
    println!("{:?}\n{}", s.changes, k.variants[variant - 1].source);
}
