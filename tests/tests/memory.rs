//! Bandwidth-limited kernels, as the chooser selects them: on sizes that nothing divides, in every type, in
//! poisoned tensors with gaps.

use tilewright::kernels::memory::{Work, choose};
use tilewright::{Elem, kernels};
use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Options, run, run_every};
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Room;

fn kernel(work: Work, elem: Elem, [rows, columns]: [usize; 2]) -> Generated {
    let choice = choose(work, elem, rows, columns);
    let def = choice.def().unwrap_or_else(|why| panic!("{choice}: {why}"));
    def.generate().unwrap_or_else(|why| panic!("{choice}: {why}"))
}

/// Every applicable variant, in tensors with and without gaps.
#[track_caller]
fn check(work: Work, elem: Elem, sizes: [usize; 2], values: Values) {
    let kernel = kernel(work, elem, sizes);
    let [m, n] = sizes;
    for room in [Room::new(0, 0), Room::new(3, 1)] {
        let (sizes, rooms) = (&[("M", m), ("N", n), ("L", 3)], &[room]);
        let setting = Setting { sizes, rooms, values, seed: 7, alpha: 1.0, beta: 1e-3 };
        let problem = Problem::of(&kernel, &setting);
        let options = Options { count: false, ..Options::default() };
        let outcomes = run_every(&kernel, &problem.args(), &options);
        let outcomes = outcomes.unwrap_or_else(|why| panic!("{work:?} {elem} {m}x{n}, {room:?}: {why}"));
        assert!(!outcomes.is_empty());
        for outcome in outcomes {
            if let Some(why) = problem.wrong_outcome(&outcome) {
                panic!("{work:?} {elem} {m}x{n}, {room:?}: {why}");
            }
        }
    }
}

const ELEMS: [Elem; 3] = [Elem::F32, Elem::F16, Elem::Bf16];
const SIZES: [[usize; 2]; 7] = [[1, 1], [3, 31], [1, 100], [33, 32], [2, 1000], [9, 513], [2, 4097]];

#[test]
fn transposes() {
    for elem in ELEMS {
        for sizes in [[1, 1], [3, 31], [100, 1], [129, 65], [64, 136]] {
            check(Work::Transpose, elem, sizes, Values::Any);
        }
    }
}

#[test]
fn rows() {
    for (place, work) in [Work::Softmax, Work::Layernorm, Work::Rmsnorm].into_iter().enumerate() {
        for (at, sizes) in SIZES.into_iter().enumerate() {
            // Every size with every kernel, and every type with each.
            check(work, ELEMS[(place + at) % 3], sizes, Values::Any);
        }
    }
}

#[test]
fn sums() {
    for work in [Work::RowSums, Work::ColumnSums, Work::Gemv] {
        for (at, sizes) in SIZES.into_iter().enumerate() {
            check(work, ELEMS[at % 3], sizes, if at % 2 == 0 { Values::Any } else { Values::Whole });
        }
    }
}

#[test]
fn bodies() {
    for n in [1, 7, 129, 300] {
        check(Work::Gravity, Elem::F32, [4, n], Values::Any);
    }
}

/// A NaN or an infinity affects only the elements that depend on it.
#[test]
fn infinities_and_nans() {
    let of = |rows: [[f32; 3]; 4]| {
        let kernel = kernel(Work::Softmax, Elem::F32, [4, 3]);
        let args =
            [Arg::tensor(&rows.concat(), [4, 3]).strides([3, 1]), Arg::output::<f32>([4, 3]).strides([3, 1])];
        let outcome = run(&kernel, &args, &Options::default()).unwrap_or_else(|why| panic!("{why}"));
        outcome.get::<f32>("y").unwrap()
    };
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let got = of([[0.0, -inf, 0.0], [inf, 1.0, 2.0], [nan, 0.0, 0.0], [1.0, 1.0, 1.0]]);
    assert_eq!(got[..3], [0.5, 0.0, 0.5]);
    assert!(got[3].is_nan() && got[6..9].iter().all(|x| x.is_nan()), "{got:?}");
    assert!(got[9..].iter().all(|x| (x - 1.0 / 3.0).abs() < 1e-6), "{got:?}");
}

/// A row that does not fit is refused before the launch.
#[test]
fn longer_rows_are_refused() {
    let softmax = kernels::named("softmax_row").unwrap().def.generate().unwrap();
    let x = vec![0.0f32; 8193];
    let args =
        [Arg::tensor(&x, [1, 8193]).strides([8193, 1]), Arg::output::<f32>([1, 8193]).strides([8193, 1])];
    let said = run(&softmax, &args, &Options::default()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        said,
        "`N` is 8193, and the kernel is made for at most 8192\nhelp: choose larger tiles, so that they hold all of it"
    );
}
