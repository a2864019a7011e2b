//! Samples of random kernels and products, compiled by NVRTC without errors.

use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::judge::prepare;
use tilewright_fuzz::source;

use tilewright_tests::configuration::{Configuration, Scale};

use super::{ARCHITECTURES, none_is_wrong, nvrtc};

/// The number of kernels; some are refused.
const KERNELS: u64 = 40;

#[test]
fn drawn_kernels_compile() {
    let Some(nvrtc) = nvrtc() else { return };
    let seeds: Vec<u64> = (0..KERNELS).collect();
    none_is_wrong(&seeds, |&seed| {
        let definition = Kind::Parts.kernel(seed);
        let Ok((_, kernel)) = prepare(&definition) else { return Vec::new() };
        // The fastest variant and the most general one.
        let both = kernel.variants.first().into_iter().chain(kernel.variants.iter().skip(1).last());
        let compile = |source: &str| nvrtc.compile(source, &kernel.name, "sm_90a", &[]).err();
        let wrong = both.filter_map(|variant| compile(&variant.source));
        wrong.map(|why| format!("seed {seed}: {why}\n{}", source::definition(&definition))).collect()
    });
}

/// The number of products.
const PRODUCTS: u64 = 24;

#[test]
fn drawn_products_compile() {
    products(0..PRODUCTS);
}

#[test]
#[ignore = "long: a thousand compilations"]
fn fuzz_drawn_products_compile() {
    products(PRODUCTS..500);
}

fn products(seeds: std::ops::Range<u64>) {
    let Some(nvrtc) = nvrtc() else { return };
    none_is_wrong(&seeds.collect::<Vec<_>>(), |&seed| {
        let of = Configuration::draw(seed, Scale::Small);
        let Ok(kernel) = of.kernel() else { return Vec::new() };
        let oldest = ARCHITECTURES.iter().find(|row| row.1 >= of.arch()).expect("an architecture").0;
        // The fastest variant and the most general one.
        let both = kernel.variants.first().into_iter().chain(kernel.variants.iter().skip(1).last());
        let compile = |source: &str| nvrtc.compile(source, &kernel.name, oldest, &[]).err();
        let wrong = both.filter_map(|variant| compile(&variant.source));
        wrong.map(|why| format!("{}: {why}", of.text())).collect()
    });
}
