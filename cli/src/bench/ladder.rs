//! The steps by which a matrix product becomes fast, measured one after the other: what is gained, and what the report
//! says about why. Everything is row-major, as tutorials have it.

use tilewright::kernels;
use tilewright_codegen::Elem;
use tilewright_codegen::definition::Generated;
use tilewright_codegen::report::Report;
use tilewright_codegen::words::Words;

use super::Result;
use super::case::Row;
use super::gemm::Ours;

/// Where a step's kernel comes from.
enum Source {
    /// One that comes with tilewright.
    Shipped(&'static str),
    /// The product family, row-major, with these keys.
    Keys(&'static str),
}

/// A step: its name, its kernel, and what it changes.
struct Step(&'static str, Source, &'static str);

use Source::{Keys, Shipped};

const STEPS: &[Step] = &[
    Step("naive", Shipped("naive"), "one thread for each element, neighbours down a column"),
    Step("coalesced", Shipped("coalesced"), "neighbours along a row: a warp's accesses are whole lines"),
    Step(
        "shared tile",
        Shipped("shared_tile"),
        "tiles in shared memory: each element is fetched once for a block",
    ),
    Step("1-D block tile", Shipped("block_tile_1d"), "eight results for each thread, down a column"),
    Step(
        "2-D block tile",
        Keys("bm=128 bn=128 bk=8"),
        "8x8 results for each thread: an operand serves eight of them",
    ),
    Step("vectors", Keys("vec=4 bk=16"), "copies of 16 bytes, and a deeper tile for each barrier"),
    Step("three stages", Keys("vec=4 bk=16 stages=3"), "tiles are fetched two turns ahead"),
    Step(
        "four by four",
        Keys("values=(4,4) vec=4 bk=16 stages=3"),
        "four neighbours for each thread: shared memory in vectors, too",
    ),
    Step(
        "fragments ahead",
        Keys("values=(4,4) vec=4 bk=16 stages=3 fragments=2"),
        "the next column comes from shared memory while one is multiplied",
    ),
    Step(
        "warp tiles",
        Keys("bm=128 bn=256 bk=8 tc=((8,2),(4,4)):((4,128),(1,32)) values=(4,4) vec=4 stages=4 fragments=2"),
        "each warp a compact tile, 16x8 results for each thread: fewer loads for each product",
    ),
    Step(
        "the best",
        Keys(
            "bm=128 bn=256 bk=8 tc=swizzled(2,0,-2,((8,2),(4,4)):((4,128),(1,32))) values=(4,4) vec=4 stages=4 \
             fragments=2 order=serpentine alpha_beta=true",
        ),
        "sums in the order in which registers are read best, lanes that do not share loads, sums not stored as they are",
    ),
];

const ROW_MAJOR: &str = "a=k_major b=n_major c=n_major";

/// The kernels, in the order of the steps.
pub(super) fn kernels() -> Result<Vec<Ours>> {
    STEPS.iter().map(|Step(name, source, _)| Ours::new(name, kernel(source)?)).collect()
}

fn kernel(source: &Source) -> Result<Generated> {
    match source {
        Shipped(name) => {
            let shipped = kernels::named(name).ok_or_else(|| format!("there is no kernel `{name}`"))?;
            shipped.def.generate().map_err(|why| why.to_string())
        }
        Keys(keys) => {
            let words = Words::read(&format!("{keys} {ROW_MAJOR}")).map_err(|why| why.to_string())?;
            words.matmul().map_err(|why| why.to_string())
        }
    }
}

/// The element type of all steps.
pub(super) const ELEM: Elem = Elem::F32;

/// What was gained at each step, beside the report's reasons.
pub(super) fn explain(ours: &[Ours], rows: &[Row]) -> String {
    let mut text = format!(
        "{:<16} {:>9} {:>7}  {:>9} {:>10} {:>10}  {}\n",
        "step", "TFLOP/s", "gain", "op/byte", "sectors", "wavefronts", "what changed"
    );
    let mut last: Option<f64> = None;
    for (Step(name, _, change), kernel) in STEPS.iter().zip(ours) {
        let Some(row) = rows.iter().find(|row| row.name == *name) else { continue };
        let gain = last.map_or("".into(), |last| format!("x{:.2}", row.rate() / last));
        last = Some(row.rate());
        let report = &kernel.kernel.report;
        let intensity = report.intensity.map_or("".into(), |intensity| format!("{intensity:.1}"));
        text += &format!(
            "{name:<16} {:>9.2} {gain:>7}  {intensity:>9} {:>10} {:>10}  {change}; {}\n",
            row.rate() / 1e12,
            sum(report, |access| access.sectors),
            sum(report, |access| access.wavefronts),
            row.note
        );
    }
    text + "sectors, wavefronts: of one warp's accesses of each kind, and the fewest that they could take\n"
}

/// `20/12`: all accesses of a report, and the least that they could cost.
fn sum(report: &Report, cost: impl Fn(&tilewright_codegen::report::Access) -> Option<(u32, u32)>) -> String {
    let costs = || report.accesses.iter().filter_map(&cost);
    let (all, least) = costs().fold((0, 0), |(all, least), (n, fewest)| (all + n, least + fewest));
    if costs().next().is_none() { String::new() } else { format!("{all}/{least}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_a_product_with_a_reason() {
        let ours = kernels().unwrap();
        assert_eq!(ours.len(), STEPS.len());
        for (ours, Step(name, _, change)) in ours.iter().zip(STEPS) {
            assert!(ours.name == *name && !change.is_empty());
        }
    }
}
