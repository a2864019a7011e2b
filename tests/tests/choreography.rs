//! Every choreography in the simulator: random sizes, every variant whose facts hold, many schedules, on devices that hold
//! one cluster at once and several.

use tilewright_codegen::launch::Limits;
use tilewright_sim::{Error, Options, run_every};
use tilewright_tests::choreography::{self, Choreography};
use tilewright_tests::number::Random;

/// Draws of sizes, and schedules of each.
const DRAWS: u64 = 10;
const SCHEDULES: u32 = 5;

fn check(of: &Choreography) -> usize {
    let kernel = of.kernel();
    let mut ran = 0;
    for draw in 0..DRAWS {
        let sizes = (of.sizes)(&mut Random::new(draw * 77 + 1));
        let problem = of.problem(&kernel, &sizes, draw);
        let limits = Limits { multiprocessors: if draw % 3 == 2 { 6 } else { 2 }, ..Limits::HOPPER };
        let options =
            Options { seed: draw * 1000, schedules: SCHEDULES, limits, count: false, ..Options::default() };
        let args = if draw % 2 == 0 { problem.blank_args() } else { problem.args() };
        let outcomes = match run_every(&kernel, &args, &options) {
            Ok(outcomes) => outcomes,
            Err(Error::Refused(why)) => panic!("{}, {sizes:?}: {why}", of.name),
            Err(error) => panic!("{}, {sizes:?}: {error}", of.name),
        };
        for outcome in &outcomes {
            if let Some(why) = problem.wrong_outcome(outcome) {
                panic!("{}, {sizes:?}, {why}", of.name);
            }
        }
        ran += outcomes.len();
    }
    ran
}

#[test]
fn all_compute_what_they_say_in_every_schedule() {
    let all = choreography::all();
    std::thread::scope(|scope| {
        for of in &all {
            scope.spawn(move || assert!(check(of) as u64 >= DRAWS, "{} hardly ran", of.name));
        }
    });
}
