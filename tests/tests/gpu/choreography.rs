//! Every choreography on a device, in every applicable variant.

use tilewright_tests::choreography;
use tilewright_tests::number::Random;

use super::{device_run, stream};

/// Random small sizes, in addition to the large ones.
const DRAWS: u64 = 8;

#[test]
fn all_compute_what_they_say() {
    let Some(stream) = stream() else { return };
    let mut wrong = Vec::new();
    for of in choreography::all() {
        let kernel = of.kernel();
        let variants = device_run::variants(&kernel);
        let small = (0..DRAWS).map(|draw| (of.sizes)(&mut Random::new(draw * 77 + 1)));
        let all: Vec<_> = small.chain(of.large.iter().map(|sizes| sizes.to_vec())).collect();
        let mut ran = 0;
        for (seed, sizes) in all.iter().enumerate() {
            let problem = of.problem(&kernel, sizes, seed as u64);
            for (index, variant) in variants.iter().enumerate() {
                match device_run::judge(&stream, variant, &problem) {
                    Ok(true) => ran += 1,
                    Ok(false) => {}
                    Err(why) => {
                        ran += 1;
                        wrong.push(format!("{}, variant {}, {sizes:?}: {why}", of.name, index + 1));
                    }
                }
            }
        }
        eprintln!("{}: {ran} runs of variants", of.name);
        if ran < all.len() && variants.iter().any(|variant| device_run::runs_here(&stream, variant)) {
            wrong.push(format!("{}: only {ran} runs of {}", of.name, all.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
