//! A kernel's text and the CUDA C of one of its variants; variants without loops are numbered last.

use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::{judge, source};

fn main() {
    let mut kind = Kind::Parts;
    let mut numbers = Vec::new();
    for word in std::env::args().skip(1) {
        match Kind::OPTIONS.iter().find(|(option, _)| *option == word) {
            Some((_, of)) => kind = *of,
            None => numbers.push(word.parse::<u64>().expect("numbers: SEED VARIANT")),
        }
    }
    let seed = numbers.first().copied().unwrap_or(0);
    let variant = numbers.get(1).copied().unwrap_or(1);
    let definition = kind.kernel(seed);
    println!("{}", source::definition(&definition));
    match judge::prepare(&definition) {
        Ok((_, kernel)) => println!("{}", kernel.variant(variant as usize - 1).source),
        Err(why) => println!("refused: {why}"),
    }
}
