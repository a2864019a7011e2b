//! What kernels can call and what the prelude documents are the same.

use tilewright_codegen::evaluate::FUNCTIONS;

#[test]
fn every_function_is_documented() {
    let page = include_str!("../../src/language.rs");
    let documented =
        page.lines().filter_map(|line| line.trim().strip_prefix("fn ")?.split(['(', '<']).next());
    let mut documented: Vec<_> = documented.collect();
    let mut known: Vec<_> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(documented, known, "src/language.rs lists what codegen's FUNCTIONS lists");
}
