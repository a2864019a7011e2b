//! Every choreography in the simulator: random sizes, every applicable variant, many schedules, on devices
//! that hold one cluster at a time or several. `cargo xtask mutants` runs them with more schedules.

use tilewright_codegen::launch::Limits;
use tilewright_sim::{Error, Options, run_every};
use tilewright_tests::choreography::{self, Choreography};
use tilewright_tests::number::Random;

/// Random sizes, and schedules per size; more of them in the long version.
const DRAWS: u64 = 10;
const SCHEDULES: u32 = 5;
const MORE_SCHEDULES: u32 = 20;

fn check(of: &Choreography, schedules: u32) -> usize {
    let kernel = of.kernel();
    let mut ran = 0;
    for draw in 0..DRAWS {
        let sizes = (of.sizes)(&mut Random::new(draw * 77 + 1));
        let problem = of.problem(&kernel, &sizes, draw);
        let limits = Limits { multiprocessors: if draw % 3 == 2 { 6 } else { 2 }, ..Limits::HOPPER };
        let options = Options { seed: draw * 1000, schedules, limits, count: false, ..Options::default() };
        let args = if draw % 2 == 0 && of.zeroed.is_empty() { problem.blank_args() } else { problem.args() };
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

/// One test per choreography, so that they run in parallel and fail by name.
macro_rules! run {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let all = choreography::all();
            let of = all.iter().find(|of| of.name == stringify!($name)).expect("a choreography of this name");
            assert!(check(of, SCHEDULES) as u64 >= DRAWS, "{} hardly ran", of.name);
        })*

        #[test]
        fn all_of_them_run() {
            let names: Vec<&str> = choreography::all().iter().map(|of| of.name).collect();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

run! { cluster_softmax exchanges exchanges_of_warps column_sums fix_up converted convolution attention }

#[test]
#[ignore = "long: cargo xtask mutants"]
fn all_of_them_under_200_schedules() {
    for of in choreography::all() {
        let ran = check(&of, MORE_SCHEDULES);
        eprintln!("{}: {ran} runs of {MORE_SCHEDULES} schedules", of.name);
    }
}
