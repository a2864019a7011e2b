//! A sample of kernels drawn at random, through the real compiler: whatever is generated compiles.

use tilewright_fuzz::judge::prepare;
use tilewright_fuzz::{draw, source};

use super::{none_is_wrong, nvrtc};

/// How many, of which some are refused.
const KERNELS: u64 = 40;

#[test]
fn drawn_kernels_compile() {
    let Some(nvrtc) = nvrtc() else { return };
    let seeds: Vec<u64> = (0..KERNELS).collect();
    none_is_wrong(&seeds, |&seed| {
        let subject = draw::subject(seed);
        let Ok((_, kernel)) = prepare(&subject) else { return Vec::new() };
        // The fastest variant, and the one that presumes nothing.
        let both = kernel.variants.first().into_iter().chain(kernel.variants.iter().skip(1).last());
        let compile = |source: &str| nvrtc.compile(source, &kernel.name, "sm_90a", &[]).err();
        let wrong = both.filter_map(|variant| compile(&variant.source));
        wrong.map(|why| format!("seed {seed}: {why}\n{}", source::subject(&subject))).collect()
    });
}
