//! The decision of a launch, explained: each variant that could run with its estimate, and why the others cannot.

use super::choice;
use super::cost::{Estimate, Limit};
use super::number::Natural;
use super::pack::Packing;
use super::records::{Record, WEIGHT};
use super::rules::Rules;
use super::{Given, Launch, Limits, Refusal, binding, tensors};
use crate::launch::definition::Generated;
use crate::launch::estimate;
use crate::thread::{Cost, Kernel};

/// The variants of a kernel for one launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranking {
    /// The variants that can run. The first is the one that [`super::plan`] takes; the others are ordered by their estimates.
    pub serves: Vec<Ranked>,
    /// The others, in their order, and why they cannot run.
    pub refused: Vec<(usize, String)>,
    /// The record that supports the first one.
    pub record: Option<Support>,
}

/// A record of the alternative that a launch takes.
#[derive(Clone, PartialEq, Debug)]
pub struct Support {
    /// It.
    pub record: Record,
    /// Are the sizes its own? Else they are near, and the record shortens the estimate.
    pub decides: bool,
}

/// A variant that can run.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranked {
    /// Which: see [`Generated::variant`].
    pub variant: usize,
    /// Its cost; `None` if the number of its main loop's iterations is unknown.
    pub estimate: Option<Estimate>,
    /// Does a launch compare it with others by its estimate? Where it does not, the first that can run is taken.
    pub competes: bool,
    /// Its bottleneck, in words.
    pub limit: Option<&'static str>,
    /// The arguments, by index, whose copies it reads, and why.
    pub packed: Vec<(usize, String)>,
}

/// The decision of [`super::plan`], and its terms.
///
/// ```
/// use tilewright_program::launch::{Given, Limits, Tensor, plan, ranking};
/// use tilewright_codegen::words::{Kernels as _, Words};
/// let kernel = Words::read("dtype=bf16 arch=90 a=k_major b=k_major").unwrap().matmul().unwrap();
/// let tensor = |rows: i64, columns: i64, strides: [i64; 2], mutable| {
///     let (elem, len) = (kernel.params[0].elem, (rows * columns) as u64);
///     let address = if mutable { 1 << 40 } else { 1 << 32 };
///     Given::Tensor(Tensor { elem, mutable, extents: vec![rows, columns], strides: strides.into(), len, address })
/// };
/// let (a, b) = (tensor(512, 1024, [1024, 1], false), tensor(256, 1024, [1024, 1], false));
/// let given = [a, b, tensor(512, 256, [1, 512], true)];
/// let ranking = ranking(&kernel, &given, &Limits::HOPPER)?;
/// assert_eq!(ranking.serves[0].variant, plan(&kernel, &given, &Limits::HOPPER)?.variant);
/// let [first, second] = [0, 1].map(|index: usize| ranking.serves[index].estimate.unwrap());
/// assert!(first.seconds() <= second.seconds());
/// # Ok::<(), tilewright_program::launch::Refusal>(())
/// ```
pub fn ranking(kernel: &Generated, given: &[Given], limits: &Limits) -> Result<Ranking, Refusal> {
    ranking_by(kernel, given, limits, &|program| program.launch.cost.or_else(|| estimate::cost(program)))
}

/// The decision if variants had other costs.
pub fn ranking_by(
    kernel: &Generated,
    given: &[Given],
    limits: &Limits,
    cost: &dyn Fn(&Kernel) -> Option<Cost>,
) -> Result<Ranking, Refusal> {
    let rules = Rules::with(kernel, cost);
    let tensors = tensors(given);
    let (sizes, empty_loops) = binding::arguments(&rules, kernel, given, &tensors)?;
    if let Some(empty_loops) = empty_loops {
        let variant = kernel.variants.len() + empty_loops;
        let one = Ranked { variant, estimate: None, competes: false, limit: None, packed: Vec::new() };
        return Ok(Ranking { serves: vec![one], refused: Vec::new(), record: None });
    }
    let launch = Launch { rules: &rules, kernel, given, tensors: &tensors, limits };
    let mut packing = Packing::new(&rules, kernel, &tensors, limits, sizes);
    let (best, tried) = launch.weighed(0..kernel.variants.len(), &mut packing, true)?;
    let chosen = best.index.0 as usize;
    let (mut serves, mut refused) = (Vec::new(), Vec::new());
    for (variant, one) in tried.into_iter().enumerate() {
        let choice = match one {
            Ok(choice) => choice,
            Err(why) => {
                refused.push((variant, why.text(kernel, variant)));
                continue;
            }
        };
        let (alternative, program) = (&rules.variants[variant], &kernel.variants[variant].program);
        let copied = packing.copied(alternative.class, choice.copies.0).into_iter();
        let estimate = packing.estimate(variant, choice.copies.0);
        let limit = estimate.and_then(|estimate| match estimate.limit {
            Limit::Memory => Some("memory"),
            Limit::Rows => Some("L2 rows"),
            Limit::Latency => Some("latency"),
            Limit::Work => estimate::limit(program),
        });
        serves.push(Ranked {
            variant,
            estimate,
            competes: alternative.competes,
            limit,
            packed: copied.map(|(arg, why)| (arg, why.text(kernel, variant))).collect(),
        });
    }
    let number = Natural(rules.variants[chosen].number);
    let record = kernel.records.get(packing.record[0].0 as usize).cloned();
    let record = match choice::weight(number, packing.record[1]).0 {
        WEIGHT => None,
        weight => record.map(|record| Support { record, decides: weight == 1 }),
    };
    let clocks = |one: &Ranked| one.estimate.filter(|_| one.competes).map_or(u64::MAX, |of| of.clocks);
    let (_, sizes) = packing.packed(rules.variants[chosen].class, best.copies.0);
    launch.grid(&kernel.variants[chosen].program, &rules.variants[chosen].grid, &sizes)?;
    serves.sort_by_key(|one| (one.variant != chosen, clocks(one)));
    Ok(Ranking { serves, refused, record })
}
