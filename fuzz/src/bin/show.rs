//! A subject's text and the CUDA C of one of its variants.

use tilewright_fuzz::{draw, source};

fn main() {
    let mut numbers =
        std::env::args().skip(1).map(|text| text.parse::<u64>().expect("numbers: SEED VARIANT"));
    let (seed, variant) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(1));
    let subject = draw::subject(seed);
    println!("{}", source::subject(&subject));
    match subject.program().and_then(|program| subject.kernel(&program)) {
        Ok(kernel) => println!("{}", kernel.variants[variant as usize - 1].source),
        Err(why) => println!("refused: {why}"),
    }
}
