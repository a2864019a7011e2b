//! Stages that would change the results of a loop are refused, at the statement that would read them.

use tilewright_codegen::build::Builder;
use tilewright_codegen::pipeline;
use tilewright_codegen::thread::Unroll;
use tilewright_codegen::tile::Program;

/// The message for a loop over `k` with this body, or the program that it becomes. Tensors: 0 `x` and 1 `y` in global memory, 2
/// `s` in shared memory, 3 `t`, 4 `u` and 5 `sums` in registers.
fn messages(head: &str, body: &str) -> String {
    let text = format!(
        r#"tile_program {{
    name "stages" arch 80 grid [1, 1, 1] cluster [1, 1, 1] launch per_tile blocks_per_sm 0 overlaps false at_most []
    args [tensor(0), tensor(1)]
    tensors {{
        name "x" elem f32 space global layout (N):(1)
        name "y" elem f32 space global mutable true layout (N):(1)
        name "s" elem f32 space shared align 16 layout (128):(1)
        name "t" elem f32 space registers layout (1):(1)
        name "u" elem f32 space registers layout (1):(1)
        name "sums" elem f32 space registers layout (1):(1)
    }}
    scalars {{ }}
    overlays []
    groups {{ name "block" threads 128 }}
    rings {{ }}
    vars {{ name "k" extent ceil(N/128) }}
    tokens 0 orders 0
    body {{ {head} body {{ {body} }} copy from {SUMS} to {Y} }}
}}"#
    );
    let program: Program =
        tilewright_codegen::text::parse(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
    match pipeline::schedule(program) {
        Ok(program) => tilewright_codegen::text::print(&program),
        Err(messages) => messages.text(),
    }
}

const X: &str = r#""x" %0 (1):(1@0) + [128*var(0) + thread(0)]"#;
const Y: &str = r#""y" %1 (1):(1@0) + [thread(0)]"#;
const S: &str = r#""s" %2 (1):(1@0) + [thread(0)]"#;
const T: &str = r#""t" %3 (1):(1@0) + [0]"#;
const U: &str = r#""u" %4 (1):(1@0) + [0]"#;
const SUMS: &str = r#""sums" %5 (1):(1@0) + [0]"#;
const FOR: &str = "for var 0 unroll no";

fn add(one: &str, other: &str, to: &str) -> String {
    format!("map ins [{one}, {other}] to {to} value bin(add, in(0), in(1))")
}

#[track_caller]
fn check(head: &str, body: &[&str], expected: &str) {
    assert_eq!(messages(head, &body.join("\n")), expected);
}

#[test]
fn statements_that_depend_on_one_another_stay_in_order() {
    let load = format!("copy from {X} to {T}");
    // The sum would be read by an earlier stage than the one that writes it.
    check(
        FOR,
        &[&format!("stage 1 {load}"), &format!("stage 0 {}", add(T, SUMS, SUMS))],
        "the function that sets `sums` in stage 0 would run before the copy of `x` to `t` in stage 1, which comes before it in an iteration and uses `t` as well\nhelp: write it behind `stage(1)`",
    );
    check(
        FOR,
        &[&format!("stage 0 order 2 {load}"), &format!("stage 0 {}", add(T, SUMS, SUMS))],
        "the function that sets `sums` in stage 0 would run before the copy of `x` to `t` in stage 0, which comes before it in an iteration and uses `t` as well\nhelp: give it an order of 2 or more",
    );
    // The next iteration's function would see a sum that this one has not added to.
    check(
        FOR,
        &[&format!("stage 0 {}", add(X, SUMS, U)), &format!("stage 1 {}", add(U, SUMS, SUMS))],
        "the function that sets `u` in stage 0 would run for the next iteration before the function that sets `sums` in stage 1 has run for this one, and both use `sums`\nhelp: write both behind `stage(1)`, or set all of `sums` in each iteration, and use it in this loop alone",
    );
    // Shared memory has no copies for iterations.
    check(
        FOR,
        &[&format!("stage 0 copy from {X} to {S}"), &format!("stage 1 {}", add(S, SUMS, SUMS))],
        "the copy of `x` to `s` in stage 0 would run for the next iteration before the function that sets `sums` in stage 1 has run for this one, and both use `s`\nhelp: fill `s` in a pipelined loop, which gives it slots, or write both statements behind `stage(1)`",
    );
}

#[test]
fn slots_cover_the_steps_of_an_iteration() {
    let body = [
        &format!("stage 0 copy from {X} to {S}"),
        &format!("stage 0 copy from {S} to {T}"),
        &*format!("stage 1 {}", add(S, T, SUMS)),
    ];
    check(
        "for var 0 unroll no ahead stages 2",
        &body.map(|line| line),
        "statements of stage 1 use the slots that `s` has in this loop, so each is in use for 2 steps, and with 2 slots none is free for the next copy\nhelp: write stages = 3",
    );
    assert!(
        messages("for var 0 unroll no ahead stages 3", &body.join("\n"))
            .contains("release ring 0 phase -1 + var(2)")
    );
    check(
        "for var 0 unroll no ahead stages 3 fragments 2",
        &body.map(|line| line),
        "statements of this loop have stages, and its fragments are prefetched\nhelp: leave `fragments` out, or `stage`",
    );
}

#[test]
fn groups_of_copies_are_counted_in_the_order_of_the_text() {
    check(
        FOR,
        &[
            &format!("stage 0 copy from {X} to {S}"),
            "stage 0 commit_copies",
            &format!("stage 1 copy from {X} to {T}"),
        ],
        "commit groups are counted in the order of the text, and stages change that order\nhelp: copy in a pipelined loop, which counts by itself",
    );
}

/// One stage for all statements, in the order of the text, is no schedule.
#[test]
fn a_single_stage_changes_no_statement() {
    let text = messages(FOR, &format!("stage 2 copy from {X} to {T} stage 2 {}", add(T, SUMS, SUMS)));
    assert!(text.contains("for var 0") && !text.contains("step var"), "{text}");
}

#[test]
fn stages_are_written_in_loops() {
    let mut b = Builder::new("stages");
    let messages = |outcome: Result<(), tilewright_codegen::problem::Problem>| {
        let problem = outcome.unwrap_err();
        format!("{}\nhelp: {}", problem.message, problem.help.unwrap_or_default())
    };
    let outside = "`stage` is a statement of a loop's body, and this is not in one\nhelp: write stage(1) in the body of a `for`, outside of the conditions in it";
    assert_eq!(messages(b.stage(1)), outside);
    b.repeat("k", 4, Unroll::No, |b, k| {
        let inside = b.condition(&k, 2i64.into(), |b| b.stage(1));
        assert_eq!(messages(inside), outside);
        assert_eq!(
            messages(b.stage(8)),
            "a loop has the stages 0 to 7, with `order` 0 to 63, and this is stage 8, order 8\nhelp: write stage(1)"
        );
        b.stage(7).unwrap();
    });
}
