//! Kernels in the simulator compared with double precision: every kernel of the gallery, every applicable
//! variant, on sizes that tiles divide and on others, in several schedules; and random products.

use tilewright_codegen::Generated;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_sim::{Error, Options, run_every};
use tilewright_tests::draw::{self, Draw, Fit, Scale};
use tilewright_tests::problem::{Problem, Setting, Values, sizes_for};
use tilewright_tests::tensor::Padding;
use tilewright_tests::{by_all_cores, gallery, sweep};

/// Extents by name, and the padding of every leading dimension.
const SIZES: [(&[(&str, usize)], usize); 4] = [
    (&[("M", 128), ("N", 128), ("K", 64), ("L", 2)], 0),
    (&[("M", 130), ("N", 67), ("K", 45), ("L", 2)], 3),
    (&[("M", 72), ("N", 136), ("K", 16), ("L", 1)], 8),
    (&[("M", 1), ("N", 1), ("K", 1), ("L", 1)], 0),
];

/// Rows where 16 blocks simulate 262144 columns of each: more than the clusters of their grid.
const LONG_ROWS: usize = 21;

fn check(name: &str, kernel: &Generated, index: usize) -> usize {
    let (sizes, gap) = SIZES[index];
    let long = kernel.variants[0].program.launch.cluster.iter().product::<u32>() >= 16;
    let rows = |(mode, size): (&'static str, usize)| match mode {
        "M" if long => (mode, size.min(LONG_ROWS)),
        _ => (mode, size),
    };
    let sizes: Vec<_> = sizes.iter().copied().map(rows).collect();
    let sizes = sizes_for(kernel, &sizes);
    let paddings = &[Padding::new(gap, 0)];
    let setting = Setting { sizes: &sizes, paddings, values: Values::Whole, seed: 1, alpha: 0.5, beta: 2.0 };
    let problem = Problem::of(kernel, &setting);
    let schedules = if index == 0 { 1 } else { 3 };
    let options = Options { seed: index as u64, schedules, ..Options::default() };
    let outcomes = match run_every(kernel, &problem.args(), &options) {
        Ok(outcomes) => outcomes,
        // Bulk copies need rows aligned to 16 bytes, and this kernel has no other variant.
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
    let sizes = |kernel| (0..SIZES.len()).map(move |index| (kernel, index));
    by_all_cores(&sweep::share(gallery::all().iter().flat_map(sizes), 30), |((name, kernel), index)| {
        let ran = check(name, kernel, *index);
        assert!(ran >= 1 || *index > 0, "{name} never ran");
    });
}

/// If BK does not divide K, the partial K tile comes first, for every kind of copy.
#[test]
fn k_that_tiles_do_not_divide() {
    const ORDERS: [&str; 3] = ["", "a=k_major", "a=k_major b=k_major c=n_major"];
    const PLANS: [&str; 7] = [
        "tc=(8,4) stages=2 schedule=(vec=4)",
        "tc=(8,4) stages=3 schedule=(vec=4 exits=false)",
        "tc=(8,4) stages=2 schedule=(vec=4 staged=both)",
        "tc=(8,4) stages=3 alpha_beta=true schedule=(vec=2 staged=transposed)",
        "tc=(8,4,2) bk=16 stages=2 schedule=(vec=4 staged=both)",
        // The blocks of a cluster share the partial tile; some have no part of it.
        "tc=(8,4) stages=2 schedule=(vec=4 staged=both split_k=2) arch=90",
        "tc=(8,4,2) bk=16 stages=2 schedule=(split_k=4) arch=90",
    ];
    for plan in sweep::share(PLANS, 4) {
        for order in ORDERS {
            let base = "bm=32 bn=16 schedule=(values=(4,4) fragments=2)";
            let bk = if plan.contains("bk=") { "" } else { "bk=8" };
            let keys = format!("{base} {bk} {plan} {order}");
            let kernel = Words::read(&keys).and_then(|words| words.matmul()).unwrap();
            let mut ran = vec![false; kernel.variants.len()];
            for k in (1..=20).chain([31, 32, 33, 40, 64]) {
                let sizes: &[(&str, usize)] = match k % 3 {
                    0 => &[("M", 36), ("N", 20), ("K", k)],
                    1 => &[("M", 64), ("N", 16), ("K", k)],
                    _ => &[("M", 33), ("N", 17), ("K", k)],
                };
                let paddings = &[Padding::new(if k % 2 == 0 { 4 } else { 3 }, 0)];
                let setting =
                    Setting { sizes, paddings, values: Values::Whole, seed: 1, alpha: 0.5, beta: 2.0 };
                let problem = Problem::of(&kernel, &setting);
                let options = Options { count: false, ..Options::default() };
                for outcome in run_every(&kernel, &problem.args(), &options).unwrap() {
                    let wrong = problem.wrong_outcome(&outcome);
                    assert!(wrong.is_none(), "{keys}, {sizes:?}: {wrong:?}");
                    ran[outcome.variant()] = true;
                }
            }
            assert!(ran.iter().all(|&ran| ran), "{keys}: {ran:?}");
        }
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
    draw::each(sweep::count(16, 50) as usize, Scale::Small, threads, draw);
}

#[test]
#[should_panic(expected = "repeats it): Draw { keys: \"name=wide")]
fn a_wrong_draw_is_reported() {
    let wide = |draw: &Draw| if draw.keys.starts_with("name=wide") { Err("no".into()) } else { Ok(()) };
    draw::each(draw::kernels().len(), Scale::Small, 1, wide);
}
