//! Exact comparison: every variant of every kernel of the gallery, without rounding, against its first.

use tilewright_codegen::Generated;
use tilewright_sim::{Error, Options, Outcome, run_variant};
use tilewright_tests::problem::{Problem, Setting, Values, sizes_for};
use tilewright_tests::tensor::Padding;
use tilewright_tests::{by_all_cores, gallery, sweep};

/// Extents by name, and the padding of every leading dimension: sizes that tiles divide, so that all variants run, and others.
const SIZES: [(&[(&str, usize)], usize); 2] = [
    (&[("M", 128), ("N", 128), ("K", 128), ("L", 2)], 0),
    (&[("M", 72), ("N", 136), ("K", 80), ("L", 1)], 8),
];

/// The number of variants that were compared, or the first difference.
fn compare(kernel: &Generated, index: usize) -> Result<usize, String> {
    let (sizes, gap) = SIZES[index];
    let sizes = &sizes_for(kernel, sizes);
    let paddings = &[Padding::new(gap, 0)];
    let setting = Setting { sizes, paddings, values: Values::Any, seed: 1, alpha: 0.5, beta: 2.0 };
    let problem = Problem::of(kernel, &setting);
    // Other tests detect races.
    let options = Options { exact: true, races: false, count: false, threads: 1, ..Options::default() };
    let mut first: Option<Outcome> = None;
    let mut compared = 0;
    for variant in 0..kernel.variants.len() {
        let outcome = match run_variant(kernel, variant, &problem.args(), &options) {
            Ok(outcome) => outcome,
            Err(Error::Refused(_)) => continue,
            Err(error) => return Err(format!("variant {}: {error}", variant + 1)),
        };
        compared += 1;
        let Some(first) = &first else {
            first = Some(outcome);
            continue;
        };
        let written = problem.tensors().filter(|tensor| tensor.written);
        for tensor in written {
            let size = tensor.elem.bytes() as usize;
            let [one, other] =
                [first, &outcome].map(|outcome| outcome.bytes(&tensor.name).unwrap_or_default());
            let differ = one.chunks(size).zip(other.chunks(size)).filter(|(one, other)| one != other).count();
            if differ > 0 {
                return Err(format!(
                    "{differ} of {} elements of `{}` differ between variants {} and {}",
                    one.len() / size,
                    tensor.name,
                    first.variant() + 1,
                    variant + 1
                ));
            }
        }
    }
    Ok(compared)
}

/// A share of the kernels; `TILEWRIGHT_SWEEP=all` compares all of them.
#[test]
fn variants_agree_to_the_bit_where_nothing_is_rounded() {
    let cases = gallery::all().iter().flat_map(|kernel| (0..SIZES.len()).map(move |index| (kernel, index)));
    let wrong = std::sync::Mutex::new(Vec::new());
    by_all_cores(&sweep::share(cases, 30), |((name, kernel), index)| match compare(kernel, *index) {
        Ok(compared) => println!("{name}: {compared} variants"),
        Err(why) => wrong.lock().unwrap().push(format!("{name}, {:?}: {why}", SIZES[*index].0)),
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
