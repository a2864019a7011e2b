//! Programs with one mistake that no text has, and its diagnostic.

use tilewright_layout::{Layout, Tuple, layout};

use crate::Elem;
use crate::build::Builder;
use crate::generate::finish;
use crate::source::ast::Span;
use crate::source::diagnostic::Diagnostic;
use crate::tile::Op;
use crate::tile::view::{At, Partition};

/// Diagnostics, one after another: their span and their text.
fn messages(diagnostics: &[Diagnostic]) -> String {
    let line = |d: &Diagnostic| format!("{}: {}", d.span.0, d.text());
    diagnostics.iter().map(line).collect::<Vec<_>>().join("\n")
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
    assert_eq!(messages(&finish(halves([0, 1]), Vec::new(), Vec::new(), &[]).diagnostics), "");
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
