//! A sample of random kernels, compiled by NVRTC without errors.

use tilewright_fuzz::judge::prepare;
use tilewright_fuzz::{draw, source};

use super::{none_is_wrong, nvrtc};

/// The number of kernels, some of which are refused.
const KERNELS: u64 = 40;

#[test]
fn drawn_kernels_compile() {
    let Some(nvrtc) = nvrtc() else { return };
    let seeds: Vec<u64> = (0..KERNELS).collect();
    none_is_wrong(&seeds, |&seed| {
        let subject = draw::subject(seed);
        let Ok((_, kernel)) = prepare(&subject) else { return Vec::new() };
        // The fastest variant and the most general one.
        let both = kernel.variants.first().into_iter().chain(kernel.variants.iter().skip(1).last());
        let compile = |source: &str| nvrtc.compile(source, &kernel.name, "sm_90a", &[]).err();
        let wrong = both.filter_map(|variant| compile(&variant.source));
        wrong.map(|why| format!("seed {seed}: {why}\n{}", source::subject(&subject))).collect()
    });
}
