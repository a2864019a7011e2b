//! Kernels with one mistake, and its diagnostic.

use std::time::Instant;

use tilewright_layout::{Composed, Layout, Tuple, Value, layout};

use crate::Elem;
use crate::build::Builder;
use crate::generate::finish;
use crate::passes::check;
use crate::passes::lower::Policy;
use crate::passes::pass::{self, Arch};
use crate::source::ast::{Level, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::thread::Unroll;
use crate::tile::view::{At, Partition, View};
use crate::tile::{Expr, Op, Order, Program, Stmt};
use crate::values::affine::{Affine, Coord};

fn sizes(names: [&str; 2]) -> Tuple {
    Tuple::of(names.map(|name| Tuple::from(Value::symbol(name))))
}

fn block(axis: u8) -> At {
    At::Index(Coord::Block(axis).into())
}

fn column(b: &mut Builder, view: &View, at: &Affine) -> View {
    b.slice(view, &[At::All, At::All, At::Index(at.clone())]).unwrap()
}

/// The tutorial's C = A·Bᵀ, with `stages` slots of shared memory.
///
/// One slot: copy, copy, wait, sync, gemm, sync in the loop. Several: `stages - 1` copies ahead; wait, sync, copy, copy,
/// commit, gemm. The `n`-th statement of the loop has the span `n`.
fn matmul(stages: i64, pad: i64, tc: Layout) -> Program {
    let (m, n, k) = (64i64, 64i64, 8i64);
    let mut b = Builder::new("matmul");
    let a = b.tensor("a", Elem::F32, sizes(["M", "K"]), None, false).unwrap();
    let bt = b.tensor("b", Elem::F32, sizes(["N", "K"]), None, false).unwrap();
    let c = b.tensor("c", Elem::F32, sizes(["M", "N"]), None, true).unwrap();
    let tile = |rows: i64| Layout::new((rows, k, stages), (1i64, rows + pad, (rows + pad) * k)).unwrap();
    let sa = b.shared("sa", Elem::F32, tile(m)).unwrap();
    let sb = b.shared("sb", Elem::F32, tile(n)).unwrap();
    let ga = b.tile(&a, (m, k), &[block(0), At::All]).unwrap();
    let gb = b.tile(&bt, (n, k), &[block(1), At::All]).unwrap();
    let gc = b.tile(&c, (m, n), &[block(0), block(1)]).unwrap();
    let ta = layout!((32, 2));
    let part = |b: &mut Builder, view: &View, threads: &Layout, keep: Option<[bool; 2]>, name: &str| {
        let partition = Partition { keep: keep.map(Vec::from), ..Partition::default() };
        b.parallelize_over(view, threads, 0, &partition).unwrap().with_name(name)
    };
    let (ta_ga, ta_sa) = (part(&mut b, &ga, &ta, None, "ta_ga"), part(&mut b, &sa, &ta, None, "ta_sa"));
    let (tb_gb, tb_sb) = (part(&mut b, &gb, &ta, None, "tb_gb"), part(&mut b, &sb, &ta, None, "tb_sb"));
    let tc_sa = part(&mut b, &sa, &tc, Some([true, false]), "tc_sa");
    let tc_sb = part(&mut b, &sb, &tc, Some([false, true]), "tc_sb");
    let tc_gc = part(&mut b, &gc, &tc, None, "tc_gc");
    let acc = b.registers_like("acc", &tc_gc, 0.0).unwrap();

    let fetch = |b: &mut Builder, span: u32, step: &Affine, slot: &Affine| {
        for (index, (from, to)) in [(&ta_ga, &ta_sa), (&tb_gb, &tb_sb)].into_iter().enumerate() {
            b.at(Span(span + index as u32));
            let (from, to) = (column(b, from, step), column(b, to, slot));
            b.copy(&from, &to).unwrap();
        }
    };
    let steps = Value::symbol("K").ceil_div(k).unwrap();
    if stages == 1 {
        b.repeat("k", steps, Unroll::No, |b, step| {
            fetch(b, 1, &step, &0.into());
            b.at(Span(3)).wait(None, 0);
            b.at(Span(4)).sync();
            let (sa, sb) = (column(b, &tc_sa, &0.into()), column(b, &tc_sb, &0.into()));
            b.at(Span(5)).gemm(&sa, &sb, &acc, Order::Plain).unwrap();
            b.at(Span(6)).sync();
        });
    } else {
        for slot in 0..stages - 1 {
            fetch(&mut b, 11, &slot.into(), &slot.into());
            b.at(Span(13)).statement(Op::CommitCopies);
        }
        b.repeat("k", steps, Unroll::No, |b, step| {
            b.at(Span(1)).wait(None, stages as u32 - 2);
            b.at(Span(2)).sync();
            let ahead = step.plus(&(stages - 1).into(), 1).unwrap();
            fetch(b, 3, &ahead, &ahead.submode(1, Some(stages)));
            b.at(Span(5)).statement(Op::CommitCopies);
            let slot = step.submode(1, Some(stages));
            let (sa, sb) = (column(b, &tc_sa, &slot), column(b, &tc_sb, &slot));
            b.at(Span(6)).gemm(&sa, &sb, &acc, Order::Plain).unwrap();
        });
    }
    b.at(Span(20)).copy(&acc, &tc_gc).unwrap();
    b.finish()
}

fn main_loop(program: &mut Program) -> &mut Vec<Stmt> {
    let findings = program.body.iter_mut().find_map(|stmt| match &mut stmt.op {
        Op::For { body, .. } => Some(body),
        _ => None,
    });
    findings.unwrap()
}

/// Diagnostics, one after another: their span and their text.
fn messages(diagnostics: &[Diagnostic]) -> String {
    let line = |d: &Diagnostic| format!("{}: {}", d.span.0, d.text());
    diagnostics.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(what: &str, program: Program, expected: &str) {
    let outcome = finish(program, Vec::new(), Vec::new(), &[]);
    assert_eq!(messages(&outcome.diagnostics), expected, "{what}");
    assert_eq!(outcome.kernel.is_some(), expected.is_empty(), "{what}");
    if let Some(kernel) = outcome.kernel {
        assert_eq!(kernel.report.undecided, [""; 0], "{what}");
    }
}

#[test]
fn every_statement_of_the_tutorial_is_needed() {
    let without = |places: &[usize]| {
        let mut program = matmul(1, 1, layout!((8, 8)));
        let mut at = 0;
        main_loop(&mut program).retain(|_| {
            at += 1;
            !places.contains(&at)
        });
        program
    };
    check("all of it", without(&[]), "");
    check(
        "the copy of A",
        without(&[1]),
        "5: `sa` is read here, but never written\nhelp: copy something into `sa` first, or fill it: fill(sa, 0.0)",
    );
    check(
        "the wait",
        without(&[3]),
        "5: the copies into `sa` and `sb` are still in flight here\nhelp: write cp_async_wait_all() before sync_threads()",
    );
    check(
        "the first barrier",
        without(&[4]),
        "5: race: this reads `sa` and `sb` while other threads may still write them in the copy of `ta_ga` to `ta_sa`: \
         `sa[0, 0, 0]` is written by thread 0 and read by thread 32\n\
         help: write sync_threads() between them",
    );
    check(
        "the second barrier",
        without(&[6]),
        "1: race: this overwrites `sa` while other threads may still read it in the product of `tc_sa` and `tc_sb` of \
         the previous iteration: `sa[0, 0, 0]` is read by thread 32 and written by thread 0\n\
         help: write sync_threads() at the end of the loop",
    );
    check(
        "the wait and the first barrier",
        without(&[3, 4]),
        "5: the copies into `sa` and `sb` are still in flight here\n\
         help: write cp_async_wait_all() and sync_threads() before this",
    );
    // No error without the product, but unread tiles are copied.
    let outcome = finish(without(&[5]), Vec::new(), Vec::new(), &[]);
    assert!(outcome.kernel.is_some());
    let idle = |name: &str| {
        format!(
            "0: `{name}` is written, but never read\nhelp: copy it to where it is needed, or leave it out"
        )
    };
    assert_eq!(messages(&outcome.diagnostics), format!("{}\n{}", idle("sa"), idle("sb")));
}

#[test]
fn the_wait_comes_before_the_barrier() {
    let mut program = matmul(1, 1, layout!((8, 8)));
    main_loop(&mut program).swap(2, 3);
    let findings = finish(program, Vec::new(), Vec::new(), &[]).diagnostics;
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0]
            .message
            .starts_with("race: this reads `sa` and `sb` while other threads may still write them")
    );
}

#[test]
fn every_statement_of_a_pipeline_is_needed() {
    for stages in [2, 3, 4] {
        check(&format!("{stages} stages"), matmul(stages, 4, layout!((8, 8))), "");
        for index in [0, 1] {
            let mut program = matmul(stages, 4, layout!((8, 8)));
            main_loop(&mut program).remove(index);
            let findings = finish(program, Vec::new(), Vec::new(), &[]).diagnostics;
            let expected = [
                "6: the copies into `sa` and `sb` are still in flight here",
                "6: race: this reads `sa` and `sb` while",
            ];
            assert!(
                messages(&findings).contains(expected[index]),
                "{stages}, {index}: {}",
                messages(&findings)
            );
            // One mistake, and at most one consequence in the next iteration.
            assert!(findings.len() <= 2, "{stages}, {index}: {}", messages(&findings));
        }
        // A wait that leaves one group too many in flight.
        let mut program = matmul(stages, 4, layout!((8, 8)));
        main_loop(&mut program)[0].op = Op::Wait { token: None, but: stages as u32 - 1 };
        let findings = finish(program, Vec::new(), Vec::new(), &[]).diagnostics;
        assert!(
            messages(&findings).starts_with("6: the copies into `sa` and `sb` are still in flight"),
            "{}",
            messages(&findings)
        );
        // Copying one slot too far overwrites the current one.
        let mut program = matmul(stages, 4, layout!((8, 8)));
        main_loop(&mut program).swap(1, 4);
        assert!(!finish(program, Vec::new(), Vec::new(), &[]).diagnostics.is_empty());
    }
}

/// A tile that is written to shared memory and read back through another layout.
fn transpose(tile: impl Into<Composed>, inside: impl FnOnce(&mut Builder, &View, &View)) -> Program {
    let mut b = Builder::new("transpose");
    let x = b.tensor("x", Elem::F32, sizes(["M", "N"]), None, false).unwrap();
    let y = b.tensor("y", Elem::F32, sizes(["N", "M"]), None, true).unwrap();
    let s = b.at(Span(7)).shared("s", Elem::F32, tile).unwrap();
    let s = if s.layout.rank() == 3 { column(&mut b, &s, &0.into()) } else { s };
    let gx = b.tile(&x, (32, 32), &[block(0), block(1)]).unwrap();
    let gy = b.tile(&y, (32, 32), &[block(1), block(0)]).unwrap();
    let (columns, rows) = (layout!((32, 8)), layout!((8, 32) : (32, 1)));
    let (tx, ts) =
        (b.parallelize(&gx, &columns).unwrap(), b.parallelize(&s, &columns).unwrap().with_name("ts"));
    b.at(Span(1)).copy(&tx, &ts).unwrap();
    b.at(Span(2)).wait(None, 0);
    let tr = b.parallelize(&s, &rows).unwrap().with_name("tr");
    inside(&mut b, &ts, &tr);
    let out = b.registers_like("out", &tr, 0.0).unwrap();
    b.at(Span(5)).copy(&tr, &out).unwrap();
    // The registers contain the transposed part.
    let ty = b.parallelize(&gy, &layout!((32, 8) : (1, 32))).unwrap();
    let transposed = ty.rearranged(Layout::from_modes(ty.layout.modes().rev()).unwrap());
    b.at(Span(6)).copy(&out, &transposed).unwrap();
    b.finish()
}

#[test]
fn accesses_between_barriers() {
    let tile = || layout!((32, 32) : (1, 33));
    check("a barrier", transpose(tile(), |b, _, _| b.sync()), "");
    let one = |x| Expr::Un(crate::thread::Un::Neg, Box::new(x));
    check(
        "each thread its own elements",
        transpose(tile(), |b, ts, _| {
            b.map(std::slice::from_ref(ts), ts, one(Expr::In(0))).unwrap();
            b.sync();
        }),
        "",
    );
    let outcome = finish(transpose(tile(), |_, _, _| {}), Vec::new(), Vec::new(), &[]);
    insta::assert_snapshot!("no_barrier", messages(&outcome.diagnostics));
    let transposed = transpose(tile(), |b, ts, tr| {
        b.sync();
        let transposed = tr.rearranged(Layout::from_modes(tr.layout.modes().rev()).unwrap());
        b.at(Span(3)).copy(ts, &transposed).unwrap();
        b.sync();
    });
    insta::assert_snapshot!(
        "in_place",
        messages(&finish(transposed, Vec::new(), Vec::new(), &[]).diagnostics)
    );
}

/// Threads of a ragged partition stay within its tile: 64 of them over each half of 80 elements.
#[test]
fn ragged_partitions_end_where_their_tiles_do() {
    let halves = |written: [i64; 2]| {
        let mut b = Builder::new("halves");
        let ragged = Partition { ragged: true, ..Partition::default() };
        let x = b.tensor("x", Elem::F32, Tuple::from(80i64), None, false).unwrap();
        let s = b.at(Span(7)).shared("s", Elem::F32, layout!(80)).unwrap();
        for (span, at) in (1..).zip(written) {
            let [from, to] = [&x, &s].map(|of| {
                let tile = b.tile(of, 40, &[At::Index(at.into())]).unwrap();
                b.parallelize_over(&tile, &layout!(64), 0, &ragged).unwrap()
            });
            let one = b.registers_like("one", &from, 0.0).unwrap();
            b.copy(&from, &one).unwrap();
            b.at(Span(span)).copy(&one, &to).unwrap();
        }
        b.sync();
        let y = b.tensor("y", Elem::F32, Tuple::from(80i64), None, true).unwrap();
        let [from, to] = [&s, &y].map(|of| b.parallelize_over(of, &layout!(64), 0, &ragged).unwrap());
        b.at(Span(9)).copy(&from, &to).unwrap();
        b.finish()
    };
    check("one half, and the other", halves([0, 1]), "");
    // A tile that begins one element earlier overlaps the other one by one element.
    let mut program = halves([0, 1]);
    let second = program.body.iter_mut().find(|stmt| stmt.span == Span(2));
    let Some(Op::Copy { to, .. }) = second.map(|stmt| &mut stmt.op) else { panic!("a copy") };
    to.base[0].constant -= 1;
    to.limits[0].as_mut().expect("a limit").0.constant -= 1;
    let findings = finish(program, Vec::new(), Vec::new(), &[]).diagnostics;
    let race = "2: race: this writes `s` while other threads may still write it in the copy of `one` to `s`: `s[39]` is written by thread 39 and written by thread 0\nhelp: write sync_threads() between them";
    assert_eq!(messages(&findings), race);
}

#[test]
fn conditions_on_arguments() {
    let cond = crate::values::condition::Test::IsTrue(Expr::lit(1.0));
    // A barrier in one arm does not order accesses before the other arm.
    let one_arm = transpose(layout!((32, 32) : (1, 33)), |b, _, _| {
        b.branch(
            cond.clone(),
            |b| {
                b.sync();
                Ok(())
            },
            |_| Ok(()),
        )
        .unwrap();
    });
    let findings = finish(one_arm, Vec::new(), Vec::new(), &[]).diagnostics;
    assert!(
        messages(&findings).starts_with("5: race: this reads `s` while other threads may still write it"),
        "{}",
        messages(&findings)
    );
    let both = transpose(layout!((32, 32) : (1, 33)), |b, _, _| {
        b.branch(
            cond.clone(),
            |b| {
                b.sync();
                Ok(())
            },
            |b| {
                b.sync();
                Ok(())
            },
        )
        .unwrap();
    });
    check("a barrier in both arms", both, "");
    // Two conditions may be mutually exclusive: no race is proven.
    let twice = transpose(layout!((32, 32) : (1, 33)), |b, ts, tr| {
        b.sync();
        let neg = Expr::Un(crate::thread::Un::Neg, Box::new(Expr::In(0)));
        b.branch(cond.clone(), |b| b.map(std::slice::from_ref(ts), ts, neg.clone()), |_| Ok(())).unwrap();
        b.branch(cond.clone(), |b| b.map(std::slice::from_ref(tr), tr, neg.clone()), |_| Ok(())).unwrap();
        b.sync();
    });
    let outcome = finish(twice, Vec::new(), Vec::new(), &[]);
    assert_eq!(messages(&outcome.diagnostics), "");
    assert_eq!(
        outcome.kernel.unwrap().report.undecided,
        ["`s`: whether a barrier lies between accesses depends on a condition"]
    );
}

#[test]
fn bank_conflicts() {
    let swizzle = tilewright_layout::Swizzle::new(5, 0, 5).unwrap();
    let cases: [(&str, Composed, bool); 3] = [
        ("plain", layout!((32, 32)).into(), true),
        ("padded", layout!((32, 32) : (1, 33)).into(), false),
        ("swizzled", Composed::new(swizzle, 0, layout!((32, 32))), false),
    ];
    for (what, tile, conflicts) in cases {
        let outcome = finish(transpose(tile, |b, _, _| b.sync()), Vec::new(), Vec::new(), &[]);
        let text = if conflicts {
            "5: a warp's load from `s` takes 32 wavefronts instead of 1: 32-way conflict on bank 0, lanes 0, 1, 2, 3, 4, 5, 6, 7, …\n\
             help: pad by 1: layout!((32, 32) : (1, 33)), or without more memory swizzled(5, 0, 5, layout!((32, 32) : (1, 32)))"
        } else {
            ""
        };
        assert_eq!(messages(&outcome.diagnostics), text, "{what}");
        assert!(
            outcome.diagnostics.iter().all(|d| d.level == Level::Warn && d.lint == Some("bank_conflicts"))
        );
        insta::assert_snapshot!(format!("report_{what}"), outcome.kernel.unwrap().report);
    }
}

/// Suggested layouts take the least memory; rejected layouts were tried.
#[test]
fn remedies_of_bank_conflicts() {
    let check = |tile: Layout, help: &str| {
        let outcome = finish(transpose(tile, |b, _, _| b.sync()), Vec::new(), Vec::new(), &[]);
        let text = messages(&outcome.diagnostics);
        assert_eq!(text.split_once("help: ").map(|(_, help)| help), Some(help), "{text}");
    };
    // The padding that the tile has causes the conflict.
    check(
        layout!((32, 32) : (48, 1)),
        "pad by 15 less: layout!((32, 32) : (33, 1)), or without more memory swizzled(5, 0, 5, layout!((32, 32) : (32, 1)))",
    );
    // More padding than the tile has, or the same tile without any.
    check(
        layout!((32, 32) : (1, 34)),
        "pad by 1 less: layout!((32, 32) : (1, 33)), or without more memory swizzled(5, 0, 5, layout!((32, 32) : (1, 32)))",
    );
    // Slots whose stride is no multiple of the columns' stride.
    check(
        layout!((32, 32, 2) : (1, 36, 1156)),
        "pad by 3 less: layout!((32, 32, 2) : (1, 33, 1056)), or without more memory swizzled(5, 0, 5, layout!((32, 32, 2) : (1, 32, 1024)))",
    );
}

#[test]
fn lints_have_levels() {
    let level = |level: Level| {
        let levels = [(Name { text: "bank_conflicts".into(), span: Span(0) }, level)];
        finish(transpose(layout!((32, 32)), |b, _, _| b.sync()), Vec::new(), Vec::new(), &levels)
    };
    let allowed = level(Level::Allow);
    assert!(allowed.diagnostics.is_empty() && allowed.kernel.is_some());
    let denied = level(Level::Deny);
    assert!(denied.diagnostics.len() == 1 && denied.kernel.is_none());
}

#[test]
fn uncoalesced() {
    let outcome = |threads: Layout, rows: bool| {
        let mut b = Builder::new("copy_all");
        let strides = |ld: &str| rows.then(|| Tuple::of([Value::symbol(ld).into(), Tuple::from(1)]));
        let x = b.tensor("x", Elem::F32, sizes(["M", "N"]), strides("ldx"), false).unwrap();
        let y = b.tensor("y", Elem::F32, sizes(["M", "N"]), strides("ldy"), true).unwrap();
        let tile = [block(0), block(1)];
        let (x, y) = (b.tile(&x, (64, 64), &tile).unwrap(), b.tile(&y, (64, 64), &tile).unwrap());
        let (x, y) = (b.parallelize(&x, &threads).unwrap(), b.parallelize(&y, &threads).unwrap());
        b.at(Span(1)).map(&[x], &y, Expr::In(0)).unwrap();
        finish(b.finish(), Vec::new(), Vec::new(), &[])
    };
    for (threads, rows) in [(layout!((16, 16)), false), (layout!((16, 16) : (16, 1)), true)] {
        assert_eq!(messages(&outcome(threads, rows).diagnostics), "");
    }
    let rows = outcome(layout!((16, 16)), true);
    assert!(rows.diagnostics.iter().all(|d| d.level == Level::Warn && d.lint == Some("uncoalesced")));
    insta::assert_snapshot!("uncoalesced_rows", messages(&rows.diagnostics));
    let columns = outcome(layout!((16, 16) : (16, 1)), false);
    insta::assert_snapshot!("uncoalesced_columns", messages(&columns.diagnostics));
    let few = outcome(layout!((2, 64) : (64, 1)), false);
    insta::assert_snapshot!("uncoalesced_few", messages(&few.diagnostics));
    let narrow = outcome(layout!((2, 64)), false);
    insta::assert_snapshot!("uncoalesced_narrow", messages(&narrow.diagnostics));
}

#[test]
fn shared_memory_is_limited() {
    for (arch, kib, fits) in
        [(80, 163, true), (80, 164, false), (90, 227, true), (90, 228, false), (89, 100, false)]
    {
        let mut b = Builder::new("big");
        b.arch(arch);
        let first = b.at(Span(1)).shared("first", Elem::F32, layout!(256)).unwrap();
        b.parallelize(&first, &layout!(256)).unwrap();
        b.at(Span(2)).shared("second", Elem::U8, Layout::compact(kib * 1024 - 1024).unwrap()).unwrap();
        let outcome = finish(b.finish(), Vec::new(), Vec::new(), &[]);
        assert_eq!(outcome.kernel.is_some(), fits, "{arch} {kib}");
        if (arch, kib) == (80, 164) {
            assert_eq!(
                messages(&outcome.diagnostics),
                "2: a block needs 167936 bytes of shared memory, and sm_80 has 166912: first 1024 + second 166912\n\
                 help: use smaller tiles, fewer stages, or a narrower element type"
            );
        }
    }
}

#[test]
fn reports() {
    for (name, stages) in [("tutorial", 1), ("pipeline", 3)] {
        let kernel = finish(matmul(stages, 4, layout!((8, 8))), Vec::new(), Vec::new(), &[]).kernel.unwrap();
        insta::assert_snapshot!(name, kernel.report);
        let source = kernel.source_with_report();
        assert!(source.starts_with("// threads        64\n"));
        assert!(source.ends_with(kernel.source()));
    }
}

/// The report prints arrays of equal names, and names reserved in CUDA C, as the source does.
#[test]
fn reports_name_things_as_they_are_printed() {
    let mut b = Builder::new("twice");
    let x = b.tensor("float", Elem::F32, (Value::symbol("N"),), None, false).unwrap();
    let y = b.tensor("y", Elem::F32, (Value::symbol("N"),), None, true).unwrap();
    let threads = layout!(256 : 1);
    let tiles = [&x, &y].map(|view| b.tile(view, (256,), &[block(0)]).unwrap());
    let [tx, ty] = tiles.map(|tile| b.parallelize(&tile, &threads).unwrap());
    let mut from = tx;
    for elem in [Elem::F32, Elem::F64] {
        let s = b.shared("s", elem, layout!(256 : 1)).unwrap();
        let part = b.parallelize(&s, &threads).unwrap();
        b.map(&[from], &part, Expr::In(0).cast(elem)).unwrap();
        from = part;
    }
    b.map(&[from], &ty, Expr::In(0).cast(Elem::F32)).unwrap();
    let kernel = finish(b.finish(), Vec::new(), Vec::new(), &[]).kernel.unwrap();
    insta::assert_snapshot!("names", kernel.report);
    for access in &kernel.report.accesses {
        assert!(kernel.source().contains(&format!("{}[", access.tensor)), "{access:?}\n{}", kernel.source());
    }
}

#[test]
fn too_many_elements_are_left_to_the_simulator() {
    let mut b = Builder::new("wide");
    let x = b.tensor("x", Elem::F32, sizes(["M", "N"]), None, true).unwrap();
    let s = b.shared("s", Elem::U8, layout!((256, 256))).unwrap();
    let threads = layout!((32, 8));
    let gx = b.tile(&x, (256, 256), &[block(0), block(1)]).unwrap();
    let (tx, ts) = (b.parallelize(&gx, &threads).unwrap(), b.parallelize(&s, &threads).unwrap());
    b.map(std::slice::from_ref(&tx), &ts, Expr::In(0).cast(Elem::U8)).unwrap();
    b.sync();
    b.map(&[ts], &tx, Expr::In(0).cast(Elem::F32)).unwrap();
    let kernel = finish(b.finish(), Vec::new(), Vec::new(), &[]).kernel.unwrap();
    assert_eq!(
        kernel.report.undecided,
        ["`s`: it has too many elements to look at while compiling; its order is left to the simulator"]
    );
}

/// Run by hand, unoptimised as in a macro: `cargo test -p tilewright-codegen --lib check -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn how_long_it_takes() {
    let cases = [
        ("tutorial", matmul(1, 1, layout!((8, 8)))),
        ("pipeline", matmul(3, 4, layout!((8, 8)))),
        ("with conflicts", transpose(layout!((32, 32)), |b, _, _| b.sync())),
        ("with conflicts in a product", matmul(1, 0, layout!((2, 32) : (32, 1)))),
    ];
    for (what, program) in cases {
        let begin = Instant::now();
        let mut checked = check::written(&program, &[]);
        let (coordinates, few) = (begin.elapsed(), checked.spent);
        let best = pass::specialize(program, Policy::Best, Arch::Fixed).unwrap();
        let (kernel, program) = (best.lower().unwrap(), best.program);
        let begin = Instant::now();
        check::program(&program, &[], &mut checked);
        let races = begin.elapsed();
        check::kernel(&program, &kernel, &[], &mut checked);
        let all = begin.elapsed();
        println!(
            "{what}: coordinates {coordinates:?} ({few} evaluations), races {races:?}, all {all:?}, {} evaluations",
            checked.spent
        );
        assert!(checked.spent <= check::MOST_EVALUATIONS);
    }
}
