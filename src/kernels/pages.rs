//! Tiled algorithms of `examples/pages`: each is one kernel in the language, with alternatives among which a launch chooses.

use super::Shipped;

#[allow(dead_code)]
#[path = "../../examples/pages/convolution.rs"]
pub mod convolution;
#[allow(dead_code)]
#[path = "../../examples/pages/convolution_by_w.rs"]
pub mod convolution_by_w;
#[allow(dead_code)]
#[path = "../../examples/pages/convolution_of_few.rs"]
pub mod convolution_of_few;
#[allow(dead_code)]
#[path = "../../examples/pages/fourier.rs"]
pub mod fourier;
#[allow(dead_code)]
#[path = "../../examples/pages/fourier_columns.rs"]
pub mod fourier_columns;
#[allow(dead_code)]
#[path = "../../examples/pages/fourier_real.rs"]
pub mod fourier_real;
#[allow(dead_code)]
#[path = "../../examples/pages/heat.rs"]
pub mod heat;
#[allow(dead_code)]
#[path = "../../examples/pages/items.rs"]
pub mod items;
#[allow(dead_code)]
#[path = "../../examples/pages/life.rs"]
pub mod life;
#[allow(dead_code)]
#[path = "../../examples/pages/merges.rs"]
pub mod merges;
#[allow(dead_code)]
#[path = "../../examples/pages/radix.rs"]
pub mod radix;
#[allow(dead_code)]
#[path = "../../examples/pages/radix_counts.rs"]
pub mod radix_counts;
#[allow(dead_code)]
#[path = "../../examples/pages/selection.rs"]
pub mod selection;
#[allow(dead_code)]
#[path = "../../examples/pages/selection_long.rs"]
pub mod selection_long;
#[allow(dead_code)]
#[path = "../../examples/pages/selection_short.rs"]
pub mod selection_short;
#[allow(dead_code)]
#[path = "../../examples/pages/sorting.rs"]
pub mod sorting;
#[allow(dead_code)]
#[path = "../../examples/pages/steps.rs"]
pub mod steps;

/// All of them.
///
/// ```
/// use tilewright::kernels;
/// let fft = kernels::named("fft_rows").unwrap();
/// assert!(kernels::pages::all().iter().any(|page| page.name == fft.name));
/// ```
pub fn all() -> Vec<Shipped> {
    let one = |name, about, def: &crate::KernelDef| Shipped { name, about, def: def.clone() };
    vec![
        one("fft_rows", "Fourier transforms of rows, f32", fourier::fft_rows().def()),
        one("fft_columns", "Fourier transforms of columns, f32", fourier_columns::fft_columns().def()),
        one("rfft_rows", "Fourier transforms of rows of real numbers, f32", fourier_real::rfft_rows().def()),
        one(
            "irfft_rows",
            "rows of real numbers from their Fourier transforms, f32",
            fourier_real::irfft_rows().def(),
        ),
        one("radix_counts", "how often each byte of keys occurs", radix_counts::radix_counts().def()),
        one("radix_pass", "keys and values in the order of one byte", radix::radix_pass().def()),
        one("sort_rows", "rows in order, and where their elements were", sorting::sort_rows().def()),
        one("top_k", "the largest elements of rows, and where they were", selection::top_k().def()),
        one("top_k_of_long", "the largest elements of few, long rows", selection_long::top_k_of_long().def()),
        one("top_k_of_short", "few largest elements of short rows", selection_short::top_k_of_short().def()),
        one("heat_2d", "several steps of the heat equation in one launch", steps::heat_2d().def()),
        one("heat_3d_step", "a step of the heat equation in three dimensions", heat::heat_3d_step().def()),
        one("heat_3d", "several steps of it in one launch", heat::heat_3d().def()),
        one("life_step", "a generation of Conway's game of life", life::life_step().def()),
        one("life", "several generations of it in one launch", life::life().def()),
        one("convolution", "convolutions by wgmma, channels contiguous", convolution::convolution().def()),
        one(
            "convolution_by_x",
            "gradients of convolutions by their images",
            convolution::convolution_by_x().def(),
        ),
        one(
            "convolution_by_w",
            "gradients of convolutions by their weights",
            convolution_by_w::convolution_by_w().def(),
        ),
        one(
            "convolution_of_few",
            "convolutions of few channels, gathered by threads",
            convolution_of_few::convolution_of_few().def(),
        ),
        one(
            "convolution_of_few_by_w",
            "their gradients by their weights",
            convolution_of_few::convolution_of_few_by_w().def(),
        ),
    ]
}
