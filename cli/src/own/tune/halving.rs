//! Successive halving: candidates are measured in turns, and the slower half is left out after each phase.

use tilewright_runtime::{Built, Stream};

use super::Tuning;
use crate::measure::{self, Samples, Timer};
use crate::own::peer::Failed;
use crate::run::device::Launches;

/// Alternatives with their names. The first is the estimate's choice.
pub(super) type Candidates = Vec<(String, Built)>;

/// Launches candidates on the same arguments.
struct OnDevice<'l, 's> {
    stream: &'s Stream,
    launches: &'l mut Launches<'s>,
    kernels: Vec<Built>,
}

impl Timer for OnDevice<'_, '_> {
    type Error = Failed;

    fn time(&mut self, contender: usize, _: usize, launches: usize) -> Result<f64, Failed> {
        self.launches.set(self.kernels[contender].clone());
        let work = || (0..launches).try_for_each(|_| self.launches.launch().map(|_| ()));
        Ok(self.stream.time(work)?.1.as_secs_f64())
    }
}

/// The name and the times of the fastest, and the time of the first as a multiple. The slower half is left out after each phase; the
/// first, which is the estimate's choice, is kept until the end, and is taken unless another is clearly faster.
pub(super) fn fastest<'s>(
    stream: &'s Stream,
    launches: &mut Launches<'s>,
    mut candidates: Candidates,
    tuning: &Tuning,
) -> Result<(String, Samples, f64), Failed> {
    /// Alternatives that are less than this part faster are as fast.
    const MIN_GAIN: f64 = 0.005;
    let mut phase = 0;
    loop {
        let kernels = candidates.iter().map(|(_, kernel)| kernel.clone()).collect();
        let mut timer = OnDevice { stream, launches, kernels };
        let all = measure::measure(&mut timer, candidates.len(), &tuning.effort(phase))?;
        let medians: Vec<f64> = all.iter().map(Samples::median).collect();
        let order = order(&medians);
        if candidates.len() < 3 && (phase > 1 || candidates.len() == 1) {
            let taken = if medians[0] <= medians[order[0]] * (1.0 + MIN_GAIN) { 0 } else { order[0] };
            let estimated = medians[0] / medians[taken];
            return Ok((candidates.swap_remove(taken).0, all[taken].clone(), estimated));
        }
        let mut keeps = keeps(&medians).into_iter();
        candidates.retain(|_| keeps.next() == Some(true));
        phase += 1;
    }
}

/// Candidates by their times, the fastest first.
fn order(times: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|one, other| times[*one].total_cmp(&times[*other]));
    order
}

/// Whether each candidate is measured again: the first is, and the faster half of the others.
fn keeps(times: &[f64]) -> Vec<bool> {
    let order = order(times);
    let others: Vec<usize> = order.into_iter().filter(|at| *at > 0).collect();
    let faster = &others[..others.len().div_ceil(2)];
    (0..times.len()).map(|at| at == 0 || faster.contains(&at)).collect()
}

#[cfg(test)]
mod tests {
    use super::keeps;

    /// Two candidates are left at last, the first and the fastest of the others.
    #[test]
    fn the_slower_half_is_left_out() {
        for count in 2..20 {
            for first in [0.0, 1e9] {
                let mut times: Vec<f64> = (0..count).map(|n| f64::from((n * 7) % count) + 1.0).collect();
                times[0] = first;
                let fastest = times[1..].iter().copied().fold(f64::INFINITY, f64::min);
                while times.len() > 2 {
                    let (before, mut keeps) = (times.len(), keeps(&times).into_iter());
                    times.retain(|_| keeps.next() == Some(true));
                    assert!(times.len() < before && times[0] == first, "{times:?}");
                }
                assert!(times.contains(&fastest), "{times:?}");
            }
        }
    }
}
