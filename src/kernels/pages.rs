//! Tiled algorithms of `examples/pages`: each is one kernel in the language, with alternatives among which a launch chooses.

#![allow(dead_code)] // Only the program `examples/pages` calls some functions.

use super::Shipped;

#[path = "../../examples/pages/convolution.rs"]
pub mod convolution;
#[path = "../../examples/pages/convolution_by_w.rs"]
pub mod convolution_by_w;
#[path = "../../examples/pages/convolution_of_few.rs"]
pub mod convolution_of_few;
#[path = "../../examples/pages/fourier.rs"]
pub mod fourier;
#[path = "../../examples/pages/fourier_columns.rs"]
pub mod fourier_columns;
#[path = "../../examples/pages/fourier_real.rs"]
pub mod fourier_real;
#[path = "../../examples/pages/heat.rs"]
pub mod heat;
#[path = "../../examples/pages/items.rs"]
pub mod items;
#[path = "../../examples/pages/life.rs"]
pub mod life;
#[path = "../../examples/pages/merges.rs"]
pub mod merges;
#[path = "../../examples/pages/radix.rs"]
pub mod radix;
#[path = "../../examples/pages/radix_counts.rs"]
pub mod radix_counts;
#[path = "../../examples/pages/selection.rs"]
pub mod selection;
#[path = "../../examples/pages/selection_long.rs"]
pub mod selection_long;
#[path = "../../examples/pages/selection_short.rs"]
pub mod selection_short;
#[path = "../../examples/pages/sorting.rs"]
pub mod sorting;
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
    shipped! {
        fourier::fft_rows: "Fourier transforms of rows, f32",
        fourier_columns::fft_columns: "Fourier transforms of columns, f32",
        fourier_real::rfft_rows: "Fourier transforms of rows of real numbers, f32",
        fourier_real::irfft_rows: "rows of real numbers from their Fourier transforms, f32",
        radix_counts::radix_counts: "how often each byte of keys occurs",
        radix::radix_pass: "keys and values in the order of one byte",
        sorting::sort_rows: "rows in order, and where their elements were",
        selection::top_k: "the largest elements of rows, and where they were",
        selection_long::top_k_of_long: "the largest elements of few, long rows",
        selection_short::top_k_of_short: "few largest elements of short rows",
        steps::heat_2d: "several steps of the heat equation in one launch",
        heat::heat_3d_step: "a step of the heat equation in three dimensions",
        heat::heat_3d: "several steps of it in one launch",
        life::life_step: "a generation of Conway's game of life",
        life::life: "several generations of it in one launch",
        convolution::convolution: "convolutions by wgmma, channels contiguous",
        convolution::convolution_by_x: "gradients of convolutions by their images",
        convolution_by_w::convolution_by_w: "gradients of convolutions by their weights",
        convolution_of_few::convolution_of_few: "convolutions of few channels, gathered by threads",
        convolution_of_few::convolution_of_few_by_w: "their gradients by their weights",
    }
}
