//! The steps from a naive to a fast matrix product, measured one after the other: the gain of each, and the
//! reasons from the report. The steps are the same as in `examples/ladder`.

use tilewright::kernels::ladder::{Figures, Step, steps};
use tilewright_codegen::Elem;

use super::Result;
use super::case::Row;
use super::gemm::Ours;

/// The kernels, in the order of the steps.
pub(crate) fn kernels() -> Result<Vec<Ours>> {
    let kernel = |step: &Step| step.kernel.generate().map_err(|why| why.to_string());
    steps().iter().map(|step| Ours::new(step.name, kernel(step)?, &[])).collect()
}

/// The element type of all steps.
pub(crate) const ELEM: Elem = Elem::F32;

/// The gain of each step, beside the report's reasons.
pub(crate) fn explain(ours: &[Ours], rows: &[Row]) -> String {
    let mut text = format!(
        "{:<16} {:>9} {:>7}  {:>9} {:>10} {:>10}  {}\n",
        "step", "TFLOP/s", "gain", "op/byte", "sectors", "wavefronts", "what changed, and why"
    );
    let mut last: Option<f64> = None;
    for (step, kernel) in steps().iter().zip(ours) {
        let Some(row) = rows.iter().find(|row| row.name == step.name) else { continue };
        let gain = last.map_or("".into(), |last| format!("x{:.2}", row.rate() / last));
        last = Some(row.rate());
        let figures = Figures::of(&kernel.kernel.report);
        // `20/12`: all accesses, and the fewest possible.
        let cost = |(all, least): (u32, u32)| if all == 0 { String::new() } else { format!("{all}/{least}") };
        text += &format!(
            "{:<16} {:>9.2} {gain:>7}  {:>9.1} {:>10} {:>10}  {}; {}; {}\n",
            step.name,
            row.rate() / 1e12,
            figures.intensity,
            cost(figures.sectors),
            cost(figures.wavefronts),
            step.change,
            step.why,
            row.note
        );
    }
    text + "sectors, wavefronts: of one warp's accesses of each kind, and the fewest that they could take\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::kernels::{WIDE, ladder, tutorial};
    use tilewright_codegen::words::{Kernels as _, Words};

    #[test]
    fn every_step_is_a_product_with_a_reason() {
        let ours = kernels().unwrap();
        assert_eq!(ours.len(), 10);
        for (ours, step) in ours.iter().zip(steps()) {
            assert!(ours.name == step.name && !step.change.is_empty() && !step.why.is_empty());
        }
    }

    /// The sixth is the tutorial's kernel under another name, and the last the widest product.
    #[test]
    fn some_steps_are_known_by_other_names() {
        // A longer name moves the parameters of the next line to the right.
        let lines = |source: &str| -> Vec<String> {
            source.replace("matmul_nt", "matmul").lines().map(|line| line.trim().to_owned()).collect()
        };
        let sources = |kernel: &tilewright_codegen::Generated| -> Vec<Vec<String>> {
            kernel.variants.iter().map(|variant| lines(&variant.source)).collect()
        };
        let tutorial = tutorial::matmul_nt().def().generate().unwrap();
        assert_eq!(sources(&ladder::BLOCK_TILE_2D.def().generate().unwrap()), sources(&tutorial));
        let wide = Words::read(WIDE).unwrap().matmul().unwrap();
        assert_eq!(sources(&ladder::BEST.def().generate().unwrap()), sources(&wide));
    }
}
