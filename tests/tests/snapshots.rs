//! Snapshots of the generated CUDA C of every kernel: the fastest variant and the most general one.

use tilewright::kernels;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_tests::gallery;

#[test]
fn generated_cuda() {
    for (name, kernel) in gallery::all() {
        let (first, last) = (&kernel.variants[0], &kernel.variants[kernel.variants.len() - 1]);
        insta::assert_snapshot!(format!("{name}.fastest"), first.source);
        insta::assert_snapshot!(format!("{name}.any_size"), last.source);
        insta::assert_snapshot!(format!("{name}.report"), kernel.report.to_string());
    }
}

/// The pages of `examples/pages`, each with one choice of its constants.
#[test]
fn generated_cuda_of_pages() {
    let pages = [
        ("fft_rows", "N=256 P=16"),
        ("fft_columns", "N=256 P=16 W=16"),
        ("rfft_rows", "N=256 P=16"),
        ("irfft_rows", "N=256 P=16"),
        ("sort_rows", "N=64"),
        ("top_k", "T=32 W=256 MOST=256"),
        ("top_k_of_long", ""),
        ("top_k_of_short", "W=128"),
        ("heat_2d", ""),
        ("heat_3d_step", ""),
        ("heat_3d", "H=64 Z=64"),
        ("life_step", ""),
        ("life", "Z=64 T=2"),
        ("convolution", "BW=8 BH=8 BB=2 BN=128 STAGES=6"),
        ("convolution_by_x", "BW=2 BH=2 BB=32 BC=128 STAGES=6"),
        ("convolution_of_few", "T=f16"),
        ("convolution_of_few_by_w", "P=264"),
        ("convolution_by_w", "BC=128 BN=128 WARPGROUPS=2 STAGES=6 P=7 BW=8 BH=8 BB=1"),
    ];
    for (name, constants) in pages {
        let page = kernels::named(name).unwrap_or_else(|| panic!("{name} is shipped"));
        let def = Words::specialize(&page.def, constants).unwrap_or_else(|why| panic!("{why}"));
        insta::assert_snapshot!(format!("{name}.fastest"), def.source());
    }
}

/// The hand-written kernel and the macro's kernel of the same tiles generate the same code except for names.
#[test]
fn tutorial_and_macro_have_the_same_loops() {
    let all = gallery::all();
    let loops = |wanted: &str| {
        let kernel = &all.iter().find(|(name, _)| name == wanted).map(|(_, kernel)| kernel);
        let source = kernel.map(|kernel| kernel.source().to_owned()).unwrap_or_default();
        source.split_once("#pragma unroll 1").map(|(_, loops)| loops.to_owned())
    };
    assert!(loops("tutorial").is_some());
    assert_eq!(loops("tutorial"), loops("matmul-bm_128-bn_128-bk_8-tc__16_16_"));
}

/// Generation is deterministic to the byte.
#[test]
fn generated_twice_alike() {
    for ((name, one), (_, two)) in gallery::all().iter().zip(gallery::generated()) {
        for (one, two) in one.variants.iter().zip(&two.variants) {
            assert_eq!(one.source, two.source, "{name}");
        }
    }
}
