//! A subject's text and the CUDA C of one of its variants, those without loops behind the others.

use tilewright_fuzz::{draw, source};

fn main() {
    let (whole, numbers): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word == "--whole");
    let mut numbers = numbers.iter().map(|text| text.parse::<u64>().expect("numbers: SEED VARIANT"));
    let (seed, variant) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1));
    let subject = if whole.is_empty() { draw::subject(seed) } else { draw::whole_tiles(seed) };
    println!("{}", source::subject(&subject));
    match subject.program().and_then(|program| subject.kernel(&program)) {
        Ok(kernel) => println!("{}", kernel.variant(variant as usize - 1).source),
        Err(why) => println!("refused: {why}"),
    }
}
