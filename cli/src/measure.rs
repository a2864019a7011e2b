//! The measuring core: rounds in which the contenders run one after the other, each time on the next sets of
//! data; medians, and the spread of the rounds. It does not know devices: a [`Timer`] launches and reports
//! the time.

/// Runs contenders, identified by their number, and reports the time.
pub trait Timer {
    /// Why a run failed.
    type Error;

    /// The seconds of this many launches of a contender, one after another, on the sets of data from `set`
    /// on.
    fn time(&mut self, contender: usize, set: usize, launches: usize) -> Result<f64, Self::Error>;

    /// Called after each repetition, outside of the timed part.
    fn repetition_ends(&mut self) {}
}

/// Durations and limits of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Untimed samples of each contender.
    pub warm_up: usize,
    /// The target duration of a sample, by repeated launches: clocks have a resolution.
    pub sample: f64,
    /// Untimed launches right before the launches of a sample, so that dirty cache lines of the previous contender
    /// are not written back in the timed part.
    pub lead: usize,
    /// The limit of launches in a sample.
    pub most_launches: usize,
    /// The target duration of all rounds together …
    pub total: f64,
    /// … within these bounds.
    pub rounds: (usize, usize),
}

impl Effort {
    /// For figures in documents.
    pub const USUAL: Effort =
        Effort { warm_up: 3, sample: 1e-3, lead: 0, most_launches: 64, total: 1.5, rounds: (9, 51) };
    /// For a first impression.
    pub const QUICK: Effort =
        Effort { warm_up: 2, sample: 3e-4, lead: 0, most_launches: 16, total: 0.2, rounds: (5, 11) };
}

/// Seconds for one launch, one number for each repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    seconds: Vec<f64>,
    /// Launches in a sample.
    pub launches: usize,
}

impl Samples {
    /// For tests of tables.
    pub fn of(seconds: &[f64], launches: usize) -> Samples {
        Samples { seconds: seconds.to_vec(), launches }
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        quantile(&self.seconds, 0.5)
    }

    /// Half the distance between the quartiles, as a part of the median.
    pub fn spread(&self) -> f64 {
        (quantile(&self.seconds, 0.75) - quantile(&self.seconds, 0.25)) / 2.0 / self.median()
    }

    /// The smallest and the largest.
    pub fn range(&self) -> (f64, f64) {
        (quantile(&self.seconds, 0.0), quantile(&self.seconds, 1.0))
    }

    /// How many rounds there were.
    pub fn rounds(&self) -> usize {
        self.seconds.len()
    }

    /// The speed relative to another contender: the median of the rounds' ratios, since both run under the
    /// same clocks within a repetition, and its spread.
    pub fn speed_against(&self, other: &Samples) -> (f64, f64) {
        let ratios: Vec<f64> =
            other.seconds.iter().zip(&self.seconds).map(|(other, own)| other / own).collect();
        let half = (quantile(&ratios, 0.75) - quantile(&ratios, 0.25)) / 2.0;
        (quantile(&ratios, 0.5), half)
    }
}

/// Interpolates between the two nearest numbers; NaN if there are none.
fn quantile(of: &[f64], part: f64) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = part * sorted.len().saturating_sub(1) as f64;
    let below = at.floor() as usize;
    match (sorted.get(below), sorted.get(below + 1)) {
        (Some(low), Some(high)) => low + (high - low) * (at - at.floor()),
        (Some(only), None) => *only,
        (None, _) => f64::NAN,
    }
}

/// Measures contenders against each other: A B C A B C …, so that a change of the device's clocks affects all
/// of them.
pub fn measure<T: Timer>(
    timer: &mut T,
    contenders: usize,
    effort: &Effort,
) -> Result<Vec<Samples>, T::Error> {
    let mut all = Vec::new();
    for contender in 0..contenders {
        let mut once = f64::INFINITY;
        for set in 0..effort.warm_up.max(1) {
            // The first launch may load and compile: the fastest one estimates the duration.
            once = once.min(timer.time(contender, set, 1)?);
        }
        let launches =
            (effort.sample / once.max(1e-9)).ceil().clamp(1.0, effort.most_launches as f64) as usize;
        all.push((Samples { seconds: Vec::new(), launches }, once * launches as f64));
    }
    let (fewest, most) = effort.rounds;
    let repetition: f64 = all.iter().map(|(_, sample)| sample).sum();
    let rounds = ((effort.total / repetition.max(1e-9)) as usize).clamp(fewest, most);
    // Every contender uses the same sets in the same order, and none begins with the set of its last launch.
    let mut sets = vec![effort.warm_up; contenders];
    for _ in 0..rounds {
        for (contender, (samples, _)) in all.iter_mut().enumerate() {
            let seconds = timer.time(contender, sets[contender], samples.launches)?;
            sets[contender] += samples.launches;
            samples.seconds.push(seconds / samples.launches as f64);
        }
        timer.repetition_ends();
    }
    Ok(all.into_iter().map(|(samples, _)| samples).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each contender takes its own time, times a factor that changes with every call; all calls are
    /// recorded.
    struct Fake {
        seconds: Vec<f64>,
        drift: f64,
        log: Vec<(usize, usize, usize)>,
        rounds: usize,
    }

    impl Fake {
        fn new(seconds: &[f64]) -> Fake {
            Fake { seconds: seconds.to_vec(), drift: 0.0, log: Vec::new(), rounds: 0 }
        }
    }

    impl Timer for Fake {
        type Error = String;

        fn time(&mut self, contender: usize, set: usize, launches: usize) -> Result<f64, String> {
            self.log.push((contender, set, launches));
            let slower = 1.0 + self.drift * self.rounds as f64;
            match self.seconds.get(contender) {
                Some(seconds) => Ok(seconds * launches as f64 * slower),
                None => Err(format!("there is no contender {contender}")),
            }
        }

        fn repetition_ends(&mut self) {
            self.rounds += 1;
        }
    }

    const EFFORT: Effort =
        Effort { warm_up: 2, sample: 1e-3, lead: 0, most_launches: 8, total: 0.02, rounds: (3, 5) };

    #[test]
    fn contenders_alternate_on_rotating_sets() {
        let mut fake = Fake::new(&[4e-4, 2e-2]);
        let samples = measure(&mut fake, 2, &EFFORT).unwrap();
        let warm_up = [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 1)];
        let rounds = [(0, 2, 3), (1, 2, 1), (0, 5, 3), (1, 3, 1), (0, 8, 3), (1, 4, 1)];
        assert_eq!(fake.log, [&warm_up[..], &rounds[..]].concat());
        assert_eq!((samples[0].launches, samples[1].launches, fake.rounds), (3, 1, 3));
        assert!((samples[0].median() - 4e-4).abs() < 1e-12 && samples[0].spread() < 1e-9, "{samples:?}");
    }

    #[track_caller]
    fn check_effort(seconds: &[f64], launches: &[usize], rounds: usize) {
        let mut fake = Fake::new(seconds);
        let samples = measure(&mut fake, seconds.len(), &EFFORT).unwrap();
        assert_eq!(samples.iter().map(|samples| samples.launches).collect::<Vec<_>>(), launches);
        assert_eq!((samples[0].rounds(), fake.rounds), (rounds, rounds));
    }

    #[test]
    fn launches_and_rounds_follow_the_time_that_they_take() {
        check_effort(&[1e-3], &[1], 5);
        check_effort(&[1e-7], &[8], 5);
        check_effort(&[0.0], &[8], 5);
        check_effort(&[5e-3], &[1], 4);
        check_effort(&[1.0, 2.0], &[1, 1], 3);
    }

    /// The device slows down by half; the ratio is unaffected.
    #[test]
    fn drift_meets_all_alike() {
        let mut fake = Fake { drift: 0.1, ..Fake::new(&[1e-3, 2e-3]) };
        let samples = measure(&mut fake, 2, &EFFORT).unwrap();
        assert!(samples[0].spread() > 0.05, "{samples:?}");
        let (ratio, spread) = samples[0].speed_against(&samples[1]);
        assert!((ratio - 2.0).abs() < 1e-9 && spread < 1e-9, "{ratio} {spread}");
    }

    #[test]
    fn errors_pass() {
        let message = measure(&mut Fake::new(&[]), 1, &EFFORT);
        assert_eq!(message, Err("there is no contender 0".to_string()));
    }

    #[track_caller]
    fn check_quantile(of: &[f64], part: f64, expected: f64) {
        assert_eq!(quantile(of, part), expected, "{of:?}");
    }

    #[test]
    fn quantiles() {
        check_quantile(&[3.0, 1.0, 2.0], 0.5, 2.0);
        check_quantile(&[4.0, 1.0, 2.0, 3.0], 0.5, 2.5);
        check_quantile(&[5.0, 1.0, 2.0, 3.0, 4.0], 0.25, 2.0);
        check_quantile(&[5.0, 1.0], 1.0, 5.0);
        check_quantile(&[7.0], 0.75, 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
