//! Complete error messages. Bless with `cargo xtask snapshots`.

use tilewright_layout::{Layout, Result, Tiler};

/// The paragraph and the line for one refusal.
#[track_caller]
fn check(name: &str, operation: fn(&Layout, &Tiler) -> Result<Layout>, left: &str, right: &str) {
    let (left, right) = (left.parse().unwrap(), right.parse().unwrap());
    let error = operation(&left, &right).expect_err("should be refused");
    insta::assert_snapshot!(name, format!("{error}\n\n{error:#}"));
}

/// Three compositions that well-known libraries answer, wrongly and silently.
#[test]
fn compositions_without_an_answer() {
    let compose = |a: &Layout, b: &Tiler| a.composition(b);
    check("carry_within_a_leaf", compose, "(7,6):(6,1)", "8:4");
    check("carry_past_two_modes", compose, "(4,6,8):(2,3,5)", "6:3");
    check("carry_between_leaves", compose, "(6,2):(1,7)", "(3,2):(2,3)");
    check("run_does_not_divide", compose, "(4,3):(3,1)", "6:1");
    check("by_mode", compose, "((4,3),8):((3,1),12)", "(6,4)");
}

#[test]
fn divisions_without_an_answer() {
    check("tile_with_gaps", |a, b| a.zipped_divide(b), "(6,10):(1,7)", "4:2");
    check("tile_that_is_not_injective", |a, b| a.logical_divide(b), "(8,8):(1,8)", "(2,2):(1,1)");
}
