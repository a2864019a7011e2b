//! Checks of coordinates through partitions: programs that are refused with their diagnostics, and programs
//! that must pass.

mod interpret;
mod mutations;
mod product;

use product::{Part, Product, pair};
use tilewright_codegen::affine::Coord;
use tilewright_codegen::ast::Span;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Unroll};
use tilewright_codegen::tile::{Across, Expr, Order, Program};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::words::Words;
use tilewright_codegen::{Definition, Elem, Generate, generate};
use tilewright_layout::{Layout, Swizzle, Value, layout};

/// The diagnostics of a program: spans and texts.
fn messages_of(program: Result<Program>) -> String {
    let program = program.unwrap_or_else(|problem| panic!("{}", problem.message));
    let outcome = generate(program);
    let line = |d: &tilewright_codegen::diagnostic::Diagnostic| format!("{}: {}", d.span.0, d.text());
    let all: Vec<String> = outcome.diagnostics.iter().filter(|d| d.lint.is_none()).map(line).collect();
    all.join("\n")
}

#[track_caller]
fn passes(what: &str, program: Result<Program>) {
    assert_eq!(messages_of(program), "", "{what}");
}

/// Checks that each is refused; the diagnostics of all of them.
#[track_caller]
fn refused<const N: usize>(cases: [(&str, Result<Program>); N]) -> String {
    let messages = cases.map(|(what, program)| {
        let messages_of = messages_of(program);
        assert_ne!(messages_of, "", "{what}");
        format!("{what}\n{messages_of}\n")
    });
    messages.join("\n")
}

/// 32×32×8 by 16 by 16 threads.
fn square() -> Product {
    Product::new([32, 32, 8], &layout!((32, 8)), &layout!((32, 8)), &layout!((16, 16)))
}

fn with(change: impl FnOnce(&mut Product)) -> Result<Program> {
    let mut product = square();
    change(&mut product);
    product.program()
}

#[test]
fn right_products_pass() {
    passes("the tutorial's", with(|_| {}));
    let alike = |threads: Layout| {
        with(|p| {
            for at in 0..2 {
                p.read[at].1.threads = threads.clone();
            }
            p.store.threads = threads;
        })
    };
    passes("threads by rows", alike(layout!((16, 16) : (16, 1))));
    passes("threads in warps", alike(layout!(((4, 4), (8, 2)) : ((1, 32), (4, 128)))));
    passes(
        "three by three",
        Product::new([24, 18, 6], &layout!((12, 1)), &layout!((6, 2) : (2, 1)), &layout!((4, 3))).program(),
    );
    passes(
        "values side by side",
        with(|p| {
            p.read[0].1.values = vec![2, 1];
            p.read[1].1.values = vec![2, 1];
            p.store.values = vec![2, 2];
        }),
    );
    passes(
        "swizzled threads",
        with(|p| {
            let swizzle = Swizzle::new(2, 0, 3).unwrap();
            p.read.iter_mut().for_each(|(_, part)| part.swizzle = swizzle);
            p.store.swizzle = swizzle;
        }),
    );
    passes(
        "a copy that numbers threads otherwise",
        with(|p| p.fill[0] = [Part::of(layout!((32, 8) : (8, 1))), Part::of(layout!((32, 8) : (8, 1)))]),
    );
    passes("one extent for all", with(|p| p.extents = ["N", "N", "N"]));
    passes("rows and columns of one extent", with(|p| p.extents = ["N", "N", "K"]));
    passes(
        "a transposed result of one extent",
        with(|p| {
            p.extents = ["N", "N", "K"];
            p.store_transposed = true;
        }),
    );
}

#[test]
fn families_pass() {
    for keys in [
        "bm=32 bn=32 bk=8 tc=(8,8,2) schedule=(ta=(32,4) tb=(32,4))",
        "bm=64 bn=32 bk=16 tc=swizzled(2,0,-3,(8,4,4):(1,8,32)) schedule=(values=(4,4) vec=4)",
        "bm=64 bn=64 bk=16 tc=(8,8) schedule=(values=(4,4) vec=4 fragments=2) a=k_major c=n_major stages=3",
        "batched=true bm=64 bn=64 bk=16 tc=(8,8) schedule=(vec=4) stages=2 alpha_beta=true",
    ] {
        let words = Words::read(keys).unwrap();
        let outcome = Definition::Matmul(words.args().to_vec()).generate();
        let errors: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
        assert!(outcome.kernel.is_some(), "{keys}: {}", errors.join("\n"));
    }
}

#[test]
fn operands_by_the_wrong_mode_of_the_thread_layout() {
    let messages = refused([
        (
            "swapped projections",
            with(|p| {
                p.read[0].1.keep = Some(vec![false, true]);
                p.read[1].1.keep = Some(vec![true, false]);
            }),
        ),
        ("both by rows", with(|p| p.read[1].1.keep = Some(vec![true, false]))),
        ("both by columns", with(|p| p.read[0].1.keep = Some(vec![false, true]))),
        (
            "stored by another numbering of the threads",
            with(|p| p.store.threads = layout!((16, 16) : (16, 1))),
        ),
        ("values side by side in the operand alone", with(|p| p.read[0].1.values = vec![2, 1])),
        ("stored to the transposed tile", with(|p| p.store_transposed = true)),
        ("B's tile where A's is meant", with(|p| p.read[0].0 = 1)),
    ]);
    insta::assert_snapshot!("operands_by_the_wrong_mode_of_the_thread_layout", messages);
}

#[test]
fn tiles_that_are_filled_in_another_order_than_read() {
    let even = || Product::new([16, 16, 16], &layout!((16, 8)), &layout!((16, 8)), &layout!((8, 16)));
    let with = |change: &dyn Fn(&mut Product)| {
        let mut product = even();
        change(&mut product);
        product.program()
    };
    passes("as they are read", with(&|_| {}));
    passes(
        "both operands' k-steps in one other order",
        with(&|p| {
            p.fill[0][1].threads = layout!((16, (2, 4)) : (1, (64, 16)));
            p.fill[1][1].threads = layout!((16, (2, 4)) : (1, (64, 16)));
        }),
    );
    let messages = refused([
        ("A transposed", with(&|p| p.transposed[0] = true)),
        ("B transposed", with(&|p| p.transposed[1] = true)),
        ("both transposed", with(&|p| p.transposed = [true; 2])),
        (
            "A's threads numbered otherwise in shared memory",
            with(&|p| p.fill[0][1].threads = layout!((16, 8) : (8, 1))),
        ),
    ]);
    insta::assert_snapshot!("tiles_that_are_filled_otherwise_than_they_are_read", messages);
}

#[test]
fn k_partitioned_in_two_ways() {
    // Two groups of threads split K: even and odd k, or a lower and an upper half.
    let by = |values: i64| -> Result<Program> {
        let mut b = Builder::new("halves");
        let [m, n, k] = ["M", "N", "K"].map(Value::symbol);
        let a = b.tensor("a", Elem::F32, pair(m, k), None, false)?;
        let bt = b.tensor("b", Elem::F32, pair(n, k), None, false)?;
        let c = b.tensor("c", Elem::F32, pair(m, n), None, true)?;
        let tc = layout!((8, 8, 2));
        let block = |axis| At::Index(Coord::Block(axis).into());
        let partition = |keep: [bool; 3], values: Vec<i64>| Partition {
            keep: Some(keep.to_vec()),
            values,
            ..Partition::default()
        };
        let ga = b.tile(&a, (8, 8), &[block(0), At::Index(0.into())])?;
        let gb = b.tile(&bt, (8, 8), &[block(1), At::Index(0.into())])?;
        let ga = b
            .parallelize_over(&ga, &tc, 0, &partition([true, false, true], vec![1, values]))?
            .with_name("left");
        let gb = b.parallelize_over(&gb, &tc, 0, &partition([false, true, true], vec![]))?.with_name("right");
        let gc = b.tile(&c, (8, 8), &[block(0), block(1)])?;
        let gc = b.parallelize_over(&gc, &tc, 0, &partition([true, true, false], vec![]))?;
        let acc = b.registers_like("acc", &gc, 0.0)?;
        b.at(Span(5)).gemm(&ga, &gb, &acc, Order::Plain)?;
        Ok(b.finish())
    };
    passes("alike", by(1));
    let messages = refused([("in pairs and singly", by(2))]);
    insta::assert_snapshot!("k_partitioned_in_two_ways", messages);
}

/// `z = x + y` by three thread layouts.
fn sum(threads: [Layout; 3], extents: [&str; 2], size: i64) -> Result<Program> {
    let mut b = Builder::new("sum");
    let mut parts = Vec::new();
    for (at, name) in ["x", "y", "z"].into_iter().enumerate() {
        let whole = b.tensor(
            name,
            Elem::F32,
            pair(Value::symbol(extents[0]), Value::symbol(extents[1])),
            None,
            at == 2,
        )?;
        let block = |axis| At::Index(Coord::Block(axis).into());
        let tile = b.tile(&whole, (size, size), &[block(0), block(1)])?;
        parts.push(b.parallelize(&tile, &threads[at])?.with_name(["tx", "ty", "tz"][at]));
    }
    let (rx, ry) = (b.registers_like("rx", &parts[0], 0.0)?, b.registers_like("ry", &parts[1], 0.0)?);
    b.copy(&parts[0], &rx)?;
    b.copy(&parts[1], &ry)?;
    let total = b.registers_like("total", &parts[2], 0.0)?;
    b.at(Span(3)).map(&[rx, ry], &total, add(Expr::In(0), Expr::In(1)))?;
    b.at(Span(4)).copy(&total, &parts[2])?;
    Ok(b.finish())
}

fn add(x: Expr, y: Expr) -> Expr {
    Expr::Bin(Bin::Add, Box::new(x), Box::new(y))
}

#[test]
fn functions_of_elements() {
    let (rows, columns) = (layout!((16, 16) : (16, 1)), layout!((16, 16)));
    let all = ["M", "N"];
    passes("alike", sum([columns.clone(), columns.clone(), columns.clone()], all, 32));
    // Elements may be rearranged, as long as the operands of each sum are partitioned alike.
    passes("rearranged", sum([columns.clone(), columns.clone(), rows.clone()], all, 32));
    passes(
        "a tile and a transposed one",
        sum([columns.clone(), rows.clone(), columns.clone()], ["N", "N"], 16),
    );
    let messages = refused([
        ("two ways", sum([columns.clone(), rows.clone(), columns.clone()], all, 32)),
        ("the other two ways", sum([rows.clone(), columns.clone(), columns.clone()], all, 32)),
    ]);
    insta::assert_snapshot!("functions_of_elements", messages);
}

/// A product whose accumulators are added to a tile of `d`, partitioned by a layout of its own.
fn added(threads: Layout, keep: Option<[bool; 2]>, extents: [&str; 2]) -> Result<Program> {
    let mut b = Builder::new("added");
    let [m, n, k] = ["M", "N", "K"].map(Value::symbol);
    let a = b.tensor("a", Elem::F32, pair(m, k), None, false)?;
    let bt = b.tensor("b", Elem::F32, pair(n, k), None, false)?;
    let d =
        b.tensor("d", Elem::F32, pair(Value::symbol(extents[0]), Value::symbol(extents[1])), None, false)?;
    let c = b.tensor("c", Elem::F32, pair(m, n), None, true)?;
    let block = |axis| At::Index(Coord::Block(axis).into());
    let tc = layout!((16, 16));
    let keeping = |keep: [bool; 2]| Partition { keep: Some(keep.to_vec()), ..Partition::default() };
    let whole = |b: &mut Builder, view: &View, axis: u8| {
        b.tile(view, layout_tiler(16), &[block(axis), At::Index(0.into())])
    };
    let (ga, gb) = (whole(&mut b, &a, 0)?, whole(&mut b, &bt, 1)?);
    let ga = b.parallelize_over(&ga, &tc, 0, &keeping([true, false]))?;
    let gb = b.parallelize_over(&gb, &tc, 0, &keeping([false, true]))?;
    let gc = b.tile(&c, (16, 16), &[block(0), block(1)])?;
    let gc = b.parallelize(&gc, &tc)?.with_name("tc_gc");
    let acc = b.registers_like("acc", &gc, 0.0)?;
    b.gemm(&ga, &gb, &acc, Order::Plain)?;
    let gd = match keep {
        None => b.tile(&d, (16, 16), &[block(0), block(1)])?,
        Some(_) => b.tile(&d, (16, 1), &[block(1), At::Index(0.into())])?,
    };
    let partition = Partition { keep: keep.map(Vec::from), ..Partition::default() };
    let gd = b.parallelize_over(&gd, &threads, 0, &partition)?.with_name("td");
    b.at(Span(7)).map(&[acc.clone(), gd], &acc, add(Expr::In(0), Expr::In(1)))?;
    b.at(Span(9)).copy(&acc, &gc)?;
    Ok(b.finish())
}

fn layout_tiler(rows: i64) -> tilewright_layout::Tiler {
    tilewright_layout::Tiler::Modes(vec![rows.into(), 8.into()])
}

#[test]
fn what_is_added_to_sums() {
    passes("a tile alike", added(layout!((16, 16)), None, ["M", "N"]));
    passes("a bias alike", added(layout!((16, 16)), Some([false, true]), ["N", "L"]));
    let messages = refused([
        ("a tile by rows", added(layout!((16, 16) : (16, 1)), None, ["M", "N"])),
        ("a bias by the other mode", added(layout!((16, 16)), Some([true, false]), ["N", "L"])),
    ]);
    insta::assert_snapshot!("what_is_added_to_sums", messages);
}

/// Rows reduced: by lanes, then across them, and stored by the first lane of each row.
#[test]
fn reductions_pass() {
    let program = || -> Result<Program> {
        let mut b = Builder::new("rows");
        let [m, n] = ["M", "N"].map(Value::symbol);
        let x = b.tensor("x", Elem::F32, pair(m, n), None, false)?;
        let y = b.tensor("y", Elem::F32, pair(m, 1), None, true)?;
        let threads = layout!((8, 32) : (32, 1));
        let tile = b.tile(&x, (8, 128), &[At::Index(Coord::Block(0).into()), At::All])?;
        let from = b.parallelize(&tile, &threads)?;
        let out = b.tile(&y, (8, 1), &[At::Index(Coord::Block(0).into()), At::Index(0.into())])?;
        let out =
            b.parallelize_over(&out, &threads, 0, &Partition { ragged: true, ..Partition::default() })?;
        let total = b.registers("total", Elem::F32, (1i64, 1i64))?;
        b.fill(&total, Expr::Lit(0.0.into()))?;
        b.repeat("k", n.ceil_div(128).unwrap(), Unroll::No, |b, k| -> Result<()> {
            let piece = b.slice(&from, &[At::All, At::All, At::Index(k)])?;
            let own = b.registers_like("own", &piece, 0.0)?;
            b.copy(&piece, &own)?;
            b.reduce(&own, &total, Bin::Add, Across::Thread)
        })?;
        b.reduce(&total, &total, Bin::Add, Across::Warp(32))?;
        b.copy(&total, &out)?;
        Ok(b.finish())
    };
    passes("a warp for a row", program());
}
