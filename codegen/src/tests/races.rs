//! Copies in flight, and the memory that they fill.

use tilewright_layout::{Value, layout};

use crate::Elem;
use crate::build::Builder;
use crate::generate::finish;
use crate::source::ast::Span;
use crate::source::problem::Result;
use crate::tile::view::At;
use crate::tile::{Expr, How, Program, Stmt};
use crate::values::affine::Coord;
use crate::values::condition::Test;

/// Diagnostics, each its span and its text, or undecided questions.
fn messages(program: Program) -> String {
    let outcome = finish(program, Vec::new(), Vec::new(), &[]);
    let mut all: Vec<String> = outcome
        .diagnostics
        .iter()
        .map(|messages| format!("{}: {}", messages.span.0, messages.text()))
        .collect();
    all.extend(outcome.kernel.into_iter().flat_map(|kernel| kernel.report.undecided));
    all.join("\n")
}

#[track_caller]
fn check(what: &str, program: Program, expected: &str) {
    assert_eq!(messages(program), expected, "{what}");
}

/// Removes statements by their spans.
fn without(mut program: Program, spans: &[u32]) -> Program {
    fn from(body: &mut Vec<Stmt>, spans: &[u32]) {
        body.retain(|stmt| !spans.contains(&stmt.span.0));
        body.iter_mut().flat_map(Stmt::bodies_mut).for_each(|body| from(body, spans));
    }
    from(&mut program.body, spans);
    program
}

/// A tile is filled asynchronously (1) and waited for (2), in all blocks or in some; another tile
/// in the same memory is written (3).
fn overlaid(always: bool) -> Program {
    let mut b = Builder::new("overlaid");
    let x = b.tensor("x", Elem::F32, (Value::symbol("N"),), None, false).unwrap();
    let y = b.tensor("y", Elem::F32, (Value::symbol("N"),), None, true).unwrap();
    let first = b.shared("first", Elem::F32, layout!(64)).unwrap();
    let threads = layout!(64);
    let [from, out] = [&x, &y].map(|all| b.tile(all, (64,), &[At::Index(Coord::Block(0).into())]).unwrap());
    let [from, out, to] = [&from, &out, &first].map(|view| b.parallelize(view, &threads).unwrap());
    b.at(Span(4)).fill(&to, Expr::lit(0.0)).unwrap();
    b.at(Span(5)).copy(&to, &out).unwrap();
    b.at(Span(1)).copy_how(&from, &to, How::Async, None).unwrap();
    let test = Test::less(Coord::Block(0), 1);
    let wait = |b: &mut Builder| -> Result<()> {
        b.at(Span(2)).wait(None, 0);
        Ok(())
    };
    match always {
        true => wait(&mut b).unwrap(),
        false => b.branch(test, wait, |_| Ok(())).unwrap(),
    }
    let second = b.shared_after("second", Elem::F32, layout!(64), &[&first]).unwrap();
    let own = b.parallelize(&second, &threads).unwrap();
    b.at(Span(3)).fill(&own, Expr::lit(0.0)).unwrap();
    b.at(Span(6)).copy(&own, &out).unwrap();
    b.finish()
}

#[test]
fn copies_in_flight_keep_the_memory_that_they_fill() {
    check("a wait", overlaid(true), "");
    check(
        "no wait",
        without(overlaid(true), &[2]),
        "3: the copy into `first` is still in flight here\nhelp: write cp_async_wait_all() and sync_threads() before this",
    );
    check(
        "a wait in some blocks",
        overlaid(false),
        "`first`: whether its copy is still in flight depends on a condition",
    );
}
