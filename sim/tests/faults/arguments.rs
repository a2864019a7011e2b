//! Arguments that a run refuses, and results that it does not have.

use super::common::*;
use super::memory::copy;
use tilewright_codegen::thread::*;
use tilewright_sim::{Arg, run_program};

#[test]
fn arguments_are_refused_before_anything_runs() {
    let kernel = copy(0);
    #[track_caller]
    fn check(kernel: &Kernel, args: &[Arg], part: &str) {
        let text = run_program(kernel, args, &options()).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    }
    let from = || Arg::tensor(&count(32), [32]);
    check(&kernel, &[from()], "argument `to`: it is missing");
    check(
        &kernel,
        &[from(), from()],
        "argument `to`: the kernel writes it, and it was lent for reading only",
    );
    check(
        &kernel,
        &[Arg::number(1.0f32), from()],
        "argument `from`: it is a tensor, and a number of type f32",
    );
    check(&kernel, &[Arg::tensor(&[1.0f64; 32], [32]), from()], "its elements are f32, and f64 were given");
    check(&kernel, &[Arg::tensor(&count(31), [32]), Arg::output::<f32>([32])], "and the buffer has 31");
    check(&kernel, &[from(), Arg::output::<f32>([usize::MAX])], "coordinates have 32 bits");
    let mut none = kernel.clone();
    none.launch.grid = [vec![tilewright_layout::Value::Int(0)], vec![], vec![]];
    check(&none, &[from(), Arg::output::<f32>([32])], "`to` at (0), element 0 was never written");
}

#[test]
fn results_are_asked_for_by_name_and_type() {
    let done = fine(&copy(0), &[Arg::tensor(&count(32), [32]), Arg::output::<f32>([32])]);
    let text = |error: tilewright_sim::Error| error.to_string();
    assert_eq!(text(done.get::<f32>("c").unwrap_err()), "the kernel writes no tensor `c`; it writes `to`");
    assert_eq!(
        text(done.get::<f64>("to").unwrap_err()),
        "argument `to`: its elements are f32, and f64 are requested\nhelp: write `get::<f32>(\"to\")`"
    );
}
