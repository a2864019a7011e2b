//! Programs whose groups have different roles, with one mistake each, and its diagnostic.

use crate::isa::atom::OperandName;
use tilewright_layout::{Composed, Layout, Swizzle, Value, layout};

use crate::Elem;
use crate::build::tiled::{Terms, TiledMma};
use crate::build::{Builder, Role};
use crate::generate::finish;
use crate::isa;
use crate::source::ast::Span;
use crate::source::problem::Result;
use crate::thread::{Id, Unroll};
use crate::tile::view::{At, View};
use crate::tile::{Expr, How, Multiply, Op, Order, Program, Purpose, Ring, Stmt};
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

/// Exchanges the statement with this span and the next one.
fn swapped(mut program: Program, span: u32) -> Program {
    fn inside(body: &mut [Stmt], span: u32) {
        if let Some(at) = body.iter().position(|stmt| stmt.span.0 == span) {
            return body.swap(at, at + 1);
        }
        body.iter_mut().flat_map(Stmt::bodies_mut).for_each(|body| inside(body, span));
    }
    inside(&mut program.body, span);
    program
}

fn last(b: &mut Builder, view: &View, at: impl Into<crate::values::affine::Affine>) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.into()));
    b.slice(view, &coord)
}

fn ring_of(buffers: Vec<Id>, (from, to): (Id, Id), arrivals: u32) -> Ring {
    Ring { name: "ring".into(), slots: 2, buffers, from, to, arrivals, over_cluster: false }
}

/// Two warps store elements that two other warps pass to them by a ring. Of the producer: acquire (1), copy (2), wait
/// (3) where the copy is asynchronous, publish (4), advance (5); of the consumers: await (6), copy (7), release (8),
/// advance (9).
fn handed(how: How) -> Program {
    let mut b = Builder::new("handed");
    b.arch(80);
    let n = Value::symbol("N");
    let x = b.tensor("x", Elem::F32, (n,), None, false).unwrap();
    let y = b.tensor("y", Elem::F32, (n,), None, true).unwrap();
    let s = b.shared("s", Elem::F32, layout!((128, 2))).unwrap();
    let (producer, consumers) = (b.group("producer", (0, 2), None), b.group("consumers", (2, 4), None));
    let ring = b.ring(ring_of(vec![s.tensor], (producer, consumers), 64));
    let [from, to] = [&x, &y].map(|view| b.tile(view, (128,), &[At::All]).unwrap());
    let count = n.ceil_div(128).unwrap();
    let threads = layout!(64);
    let roles: Vec<(Id, Role<'_>)> = vec![
        (
            producer,
            Box::new(|b: &mut Builder| {
                b.repeat("i", count, Unroll::No, |b, i| -> Result<()> {
                    b.at(Span(1)).statement(Op::Acquire { ring, phase: Coord::Phase(ring).into() });
                    let slot = b.slot(ring);
                    let (from, to) = (last(b, &from, i)?, last(b, &s, slot)?);
                    let [from, to] = [&from, &to]
                        .map(|view| b.parallelize_over(view, &threads, producer, &Default::default()));
                    b.at(Span(2)).copy_how(&from?, &to?, how, None)?;
                    if how == How::Async {
                        b.at(Span(3)).wait(None, 0);
                    }
                    b.at(Span(4)).statement(Op::Publish {
                        ring,
                        phase: Coord::Phase(ring).into(),
                        bytes: None,
                    });
                    b.at(Span(5)).statement(Op::Advance { ring });
                    Ok(())
                })
            }),
        ),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                b.repeat("i", count, Unroll::No, |b, i| -> Result<()> {
                    b.at(Span(6)).statement(Op::Await { ring, phase: Coord::Phase(ring).into() });
                    let slot = b.slot(ring);
                    let (from, to) = (last(b, &s, slot)?, last(b, &to, i)?);
                    let [from, to] = [&from, &to]
                        .map(|view| b.parallelize_over(view, &threads, consumers, &Default::default()));
                    b.at(Span(7)).copy(&from?, &to?)?;
                    b.at(Span(8)).statement(Op::Release { ring, phase: Coord::Phase(ring).into() });
                    b.at(Span(9)).statement(Op::Advance { ring });
                    Ok(())
                })
            }),
        ),
    ];
    b.roles(roles).unwrap();
    b.finish()
}

#[test]
fn rings_order_fills_and_reads() {
    for how in [How::Plain, How::Async] {
        check("all of it", handed(how), "");
        check(
            "await",
            without(handed(how), &[6]),
            "7: race: this accesses `s` without waiting for the slot of `ring`: `producer` may still fill it\nhelp: await the slot before this",
        );
        check(
            "acquire",
            without(handed(how), &[1]),
            "2: race: this fills `s` without acquiring the slot of `ring`: `consumers` may still read it\nhelp: acquire the slot before this",
        );
        check(
            "an early release",
            swapped(handed(how), 7),
            "7: race: this accesses `s` after the slot of `ring` has been released: `producer` may already fill it again\nhelp: release the slot after this",
        );
        check(
            "release",
            without(handed(how), &[8]),
            "1: this waits forever: `consumers` never releases a slot of `ring`\nhelp: let `consumers` release each slot that it is done with",
        );
        check(
            "publish",
            without(handed(how), &[4]),
            "6: this waits forever: `producer` never publishes a slot of `ring`\nhelp: let `producer` publish each slot that it is done with",
        );
    }
    check(
        "an early publication",
        swapped(handed(How::Plain), 2),
        "2: race: this fills `s` after the slot of `ring` has been published: `consumers` may already read it\nhelp: publish the slot after this",
    );
    check(
        "the wait for a copy",
        without(handed(How::Async), &[3]),
        "7: the copy into `s` that `producer` starts is still in flight here\nhelp: let `producer` wait for it before it hands on the slot",
    );
}

/// A product of tiles that bulk copies fill: acquire (1), publish (2), copies (3, 4), advance (5) of the producer;
/// await (6), product (7), wait (8), release (9), advance (10) of the consumers.
fn multiplied() -> Program {
    filled_by(1, &|_| ())
}

/// The same, with a producer of `warps` warps, which also executes this after its acquire.
fn filled_by(warps: u32, also: &dyn Fn(&mut Builder)) -> Program {
    const ROW: &str = "wgmma_m64n64k16_bf16";
    let (m, n, k, steps) = (64i64, 64i64, 64i64, Value::symbol("K").ceil_div(64).unwrap());
    let mut b = Builder::new("multiplied");
    b.arch(90);
    let matrix = |b: &mut Builder, name: &str, elem, extents: [&str; 2], written| {
        let shape = tilewright_layout::Tuple::of(extents.map(|name| Value::symbol(name).into()));
        let stride = tilewright_layout::Tuple::of([Value::symbol(&format!("ld{name}")).into(), 1.into()]);
        b.tensor(name, elem, shape, Some(stride), written).unwrap()
    };
    let x = matrix(&mut b, "x", Elem::Bf16, ["M", "K"], false);
    let y = matrix(&mut b, "y", Elem::Bf16, ["N", "K"], false);
    let z = matrix(&mut b, "z", Elem::F32, ["M", "N"], true);
    let slots = |b: &mut Builder, name: &str, rows: i64| {
        let layout = Layout::new((rows, k, 2i64), (k, 1i64, rows * k)).unwrap();
        b.shared(name, Elem::Bf16, Composed::new(Swizzle::new(3, 3, 3).unwrap(), 0, layout)).unwrap()
    };
    let (sx, sy) = (slots(&mut b, "sx", m), slots(&mut b, "sy", n));
    let (consumers, producer) =
        (b.group("consumers", (0, 4), None), b.group("producer", (4, 4 + warps), None));
    let ring = b.ring(ring_of(vec![sx.tensor, sy.tensor], (producer, consumers), 1));
    let [row, column] = [0, 1].map(|axis| At::Index(Coord::Block(axis).into()));
    let rows = b.tile(&x, (m, k), &[row.clone(), At::All]).unwrap();
    let columns = b.tile(&y, (n, k), &[column.clone(), At::All]).unwrap();
    let out = b.tile(&z, (m, n), &[row, column]).unwrap();
    let row = isa::find(ROW).unwrap();
    let mma = TiledMma { row, groups: layout!((1, 1, 1)), of: consumers, pairs: None, terms: Terms::One };
    let roles: Vec<(Id, Role<'_>)> = vec![
        (
            producer,
            Box::new(|b: &mut Builder| {
                b.repeat("k", steps, Unroll::No, |b, k| -> Result<()> {
                    b.at(Span(1)).statement(Op::Acquire { ring, phase: Coord::Phase(ring).into() });
                    also(b);
                    b.at(Span(2)).statement(Op::Publish {
                        ring,
                        phase: Coord::Phase(ring).into(),
                        bytes: Some(((m + n) * 64 * 2) as u32),
                    });
                    for (span, from, to) in [(3, &rows, &sx), (4, &columns, &sy)] {
                        let slot = b.slot(ring);
                        let (from, to) = (last(b, from, k.clone())?, last(b, to, slot)?);
                        b.at(Span(span)).copy_how(
                            &from,
                            &to,
                            How::Atom(isa::named("bulk_load_2d")?),
                            None,
                        )?;
                    }
                    b.at(Span(5)).statement(Op::Advance { ring });
                    Ok(())
                })
            }),
        ),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                let acc = b.operand("acc", &mma, OperandName::D, [m, n])?;
                b.at(Span(11)).fill(&acc, Expr::lit(0.0))?;
                b.repeat("k", steps, Unroll::No, |b, _| -> Result<()> {
                    b.at(Span(6)).statement(Op::Await { ring, phase: Coord::Phase(ring).into() });
                    let slot = b.slot(ring);
                    let (left, right) = (last(b, &sx, slot.clone())?, last(b, &sy, slot)?);
                    let (token, row) = (b.token(), Multiply::Atom(isa::named(ROW)?));
                    b.at(Span(7)).gemm_how(&left, &right, &acc, row, Order::Plain, Some(token))?;
                    b.at(Span(8)).wait(token, 0);
                    b.at(Span(9)).statement(Op::Release { ring, phase: Coord::Phase(ring).into() });
                    b.at(Span(10)).statement(Op::Advance { ring });
                    Ok(())
                })?;
                let out = b.partition_operand(&mma, OperandName::D, &out)?;
                b.at(Span(12)).copy(&acc, &out)
            }),
        ),
    ];
    b.roles(roles).unwrap();
    b.finish()
}

#[test]
fn rings_order_asynchronous_operations() {
    check("all of it", multiplied(), "");
    check(
        "await",
        without(multiplied(), &[6]),
        "7: race: this accesses `sx` without waiting for the slot of `ring`: `producer` may still fill it\nhelp: await the slot before this",
    );
    check(
        "acquire",
        without(multiplied(), &[1]),
        "3: race: this fills `sx` without acquiring the slot of `ring`: `consumers` may still read it\nhelp: acquire the slot before this",
    );
    check(
        "a release before the product is done",
        swapped(multiplied(), 8),
        "9: this releases a slot of `ring` that the product of `sx` and `sy` may still read\nhelp: wait for its token before the release",
    );
}

#[test]
fn rings_order_waits_of_several_warps() {
    let number = |b: &mut Builder| {
        let own = b.registers("own", Elem::F32, (1i64,)).unwrap();
        b.fill(&own, Expr::lit(1.0)).unwrap();
    };
    let taken = |b: &mut Builder| {
        let n = b.tensor("n", Elem::I32, (Value::symbol("I"),), None, false).unwrap();
        let first = b.slice(&n, &[At::Index(0.into())]).unwrap();
        b.take("first", &first, Purpose::Index).unwrap();
    };
    check("one warp of four fills", filled_by(4, &|_| ()), "");
    check("it reads integers", filled_by(4, &taken), "");
    check("one warp", filled_by(1, &number), "");
    check(
        "four warps do more than that",
        filled_by(4, &number),
        "1: the warps of `producer` wait for a slot of `ring` here, and nothing orders these waits among each other: a warp that falls behind waits for a phase that has passed, forever\nhelp: let one warp run the role, or all threads of `producer` meet before the slot is published",
    );
    let meets = |b: &mut Builder| {
        number(b);
        b.sync();
    };
    check("four warps that meet", filled_by(4, &meets), "");
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

/// One group writes a tile (1) that another reads (4); both meet (2, 3) in between.
fn met() -> Program {
    let mut b = Builder::new("met");
    let y = b.tensor("y", Elem::F32, (64i64,), None, true).unwrap();
    let s = b.shared("s", Elem::F32, layout!(64)).unwrap();
    let (writers, readers) = (b.group("writers", (0, 2), None), b.group("readers", (2, 4), None));
    let both = b.group("both", (0, 4), None);
    let [ws, rs, ry] = [(&s, writers), (&s, readers), (&y, readers)]
        .map(|(view, by)| b.parallelize_over(view, &layout!(64), by, &Default::default()).unwrap());
    let roles: Vec<(Id, Role<'_>)> = vec![
        (
            writers,
            Box::new(|b: &mut Builder| {
                b.at(Span(1)).fill(&ws, Expr::lit(1.0))?;
                b.at(Span(2)).within(both, |b| b.sync());
                Ok(())
            }),
        ),
        (
            readers,
            Box::new(|b: &mut Builder| {
                b.at(Span(3)).within(both, |b| b.sync());
                b.at(Span(4)).copy(&rs, &ry)
            }),
        ),
    ];
    b.roles(roles).unwrap();
    b.finish()
}

#[test]
fn named_barriers_order_their_groups() {
    check("all of it", met(), "");
    check(
        "the barrier",
        without(met(), &[2, 3]),
        "4: race: this reads `s` while `writers` may still write it in the fill of `s`: `s[0]` is written by thread 0 and read by thread 64\nhelp: let both groups meet in between, or hand the tile on by a ring",
    );
}

/// Members of a family write a tile (1) and read it transposed (3), with a barrier of each (2): one by one, or at once.
fn ordered_section(ordered: bool) -> Program {
    let mut b = Builder::new("in_turn");
    let y = b.tensor("y", Elem::F32, (8i64, 8i64, 2i64), None, true).unwrap();
    let s =
        b.shared("s", Elem::F32, Composed::new(Swizzle::new(1, 2, 3).unwrap(), 0, layout!((8, 8)))).unwrap();
    let family = b.family("family", (0, 4), 2, None);
    let part = |b: &mut Builder, view: &View, threads: &Layout| {
        b.parallelize_over(view, threads, family, &Default::default()).unwrap()
    };
    let member = b.member(family);
    let own = last(&mut b, &y, member).unwrap();
    let (ws, rs) = (part(&mut b, &s, &layout!((8, 8))), part(&mut b, &s, &layout!((8, 8) : (8, 1))));
    let ry = part(&mut b, &own, &layout!((8, 8) : (8, 1)));
    let body = |b: &mut Builder| -> Result<()> {
        b.at(Span(1)).fill(&ws, Expr::lit(1.0))?;
        b.at(Span(2)).sync();
        b.at(Span(3)).copy(&rs, &ry)
    };
    let role: Role<'_> = match ordered {
        true => Box::new(|b: &mut Builder| b.ordered(&[family], body)),
        false => Box::new(body),
    };
    b.roles(vec![(family, role)]).unwrap();
    b.finish()
}

#[test]
fn ordered_sections_order_their_members() {
    check("in turn", ordered_section(true), "");
    check(
        "without the members' own barriers",
        without(ordered_section(true), &[2]),
        "3: race: this reads `s` while other threads may still write it in the fill of `s`: `s[1, 0]` is written by thread 1 and read by thread 8\nhelp: write sync_threads() between them",
    );
    check(
        "all at once",
        ordered_section(false),
        "1: race: this writes `s` while another member of `family` may still write it in the fill of `s`: `s[0, 0]` is written by thread 0 and written by thread 64\nhelp: let both groups meet in between, or hand the tile on by a ring",
    );
}
