//! Kernels in the simulator against double precision: every kernel of the gallery, every variant whose facts hold, on sizes
//! that tiles divide and on others, in several schedules; and products drawn at random.

use tilewright_codegen::Generated;
use tilewright_sim::{Error, Options, run_every};
use tilewright_tests::draw::{self, Draw, Fit, Scale};
use tilewright_tests::gallery;
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Room;

/// Extents by name, and how much longer than its rows or columns every leading dimension is.
const SIZES: [(&[(&str, usize)], usize); 4] = [
    (&[("M", 128), ("N", 128), ("K", 64), ("L", 2)], 0),
    (&[("M", 130), ("N", 67), ("K", 45), ("L", 2)], 3),
    (&[("M", 72), ("N", 136), ("K", 16), ("L", 1)], 8),
    (&[("M", 1), ("N", 1), ("K", 1), ("L", 1)], 0),
];

fn check(name: &str, kernel: &Generated, place: usize) -> usize {
    let (sizes, gap) = SIZES[place];
    let rooms = &[Room::new(gap, 0)];
    let setting = Setting { sizes, rooms, values: Values::Whole, seed: 1, alpha: 0.5, beta: 2.0 };
    let problem = Problem::of(kernel, &setting);
    let schedules = if place == 0 { 1 } else { 3 };
    let options = Options { seed: place as u64, schedules, ..Options::default() };
    let outcomes = match run_every(kernel, &problem.args(), &options) {
        Ok(outcomes) => outcomes,
        // Bulk copies want rows at multiples of 16 bytes, and there is no other variant.
        Err(Error::Refused(_)) if name == "wgmma_ring" => return 0,
        Err(error) => panic!("{name} with {sizes:?}: {error}"),
    };
    for outcome in &outcomes {
        if let Some(why) = problem.wrong_outcome(outcome) {
            panic!("{name}, {sizes:?}, {why}");
        }
    }
    outcomes.len()
}

#[test]
fn the_gallery_computes_what_it_says() {
    for (name, kernel) in gallery::all() {
        let ran: usize = (0..SIZES.len()).map(|place| check(&name, &kernel, place)).sum();
        assert!(ran >= 1, "{name} never ran");
    }
}

fn draw(draw: &Draw) -> Result<(), String> {
    let kernel = draw.kernel()?;
    let problem = draw.problem(&kernel);
    let options = Options { seed: draw.seed, threads: 1, count: false, ..Options::default() };
    let outcomes = run_every(&kernel, &problem.args(), &options).map_err(|why| why.to_string())?;
    if draw.fit == Fit::Whole && outcomes.len() < kernel.variants.len() {
        return Err(format!("{} of {} variants ran", outcomes.len(), kernel.variants.len()));
    }
    outcomes.iter().find_map(|outcome| problem.wrong_outcome(outcome)).map_or(Ok(()), Err)
}

#[test]
fn products_drawn_at_random() {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    draw::each(50, Scale::Small, threads, draw);
}

#[test]
#[should_panic(expected = "repeats it): Draw { keys: \"name=wide")]
fn a_wrong_draw_is_told() {
    let wide = |draw: &Draw| if draw.keys.starts_with("name=wide") { Err("no".into()) } else { Ok(()) };
    draw::each(draw::kernels().len(), Scale::Small, 1, wide);
}
