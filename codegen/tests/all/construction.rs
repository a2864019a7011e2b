//! Kernels other than the built-in ones, from tokens, rings and groups. No index is written by hand: every tile,
//! partition and slot comes from a layout.

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::atom::{Atom, OperandName};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::{Problem, Result};
use tilewright_codegen::thread::{Bin, Id, Un, Unroll};
use tilewright_codegen::tile::visit::preorder;
use tilewright_codegen::tile::{Across, Expr, How, Multiply, Op, Order, Program, Ring};
use tilewright_codegen::tiled::{Terms, TiledMma};
use tilewright_codegen::view::{At, View};
use tilewright_codegen::{Elem, generate, isa};
use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value, layout};

fn row(name: &str) -> Result<&'static Atom> {
    isa::named(name)
}

/// A matrix argument with contiguous rows.
fn matrix(b: &mut Builder, name: &str, elem: Elem, extents: [&str; 2], mutable: bool) -> Result<View> {
    let shape = Tuple::of(extents.map(|extent| Tuple::from(Value::symbol(extent))));
    let stride = Tuple::of([Value::symbol(&format!("ld{name}")).into(), Tuple::from(1)]);
    b.tensor(name, elem, shape, Some(stride), mutable)
}

/// Ring slots of tiles with rows of 128 bytes, swizzled for the copy engine and the tensor cores.
fn slots(b: &mut Builder, name: &str, rows: i64, columns: i64, slots: i64) -> Result<View> {
    // Blocks of 64 columns, each with all rows: (rows, (64, columns / 64), slots)
    let layout = Layout::new(
        Tuple::of([rows.into(), Tuple::of([64.into(), (columns / 64).into()]), slots.into()]),
        Tuple::of([64.into(), Tuple::of([1.into(), (rows * 64).into()]), (rows * columns).into()]),
    )?;
    b.shared(name, Elem::Bf16, Composed::new(Swizzle::new(3, 3, 3)?, 0, layout))
}

fn ring(b: &mut Builder, name: &str, buffers: &[&View], slots: u32, from: Id, to: Id) -> Id {
    b.ring(Ring {
        name: name.into(),
        slots,
        buffers: buffers.iter().map(|view| view.tensor).collect(),
        from,
        to,
        arrivals: 1,
        over_cluster: false,
    })
}

/// Slices the last mode.
fn last(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
}

fn count(program: &Program, of: impl Fn(&Op) -> bool) -> usize {
    preorder(&program.body).filter(|stmt| of(&stmt.op)).count()
}

/// A step of attention: scores of 128 queries against 128 keys, their online softmax, and the weighted sum of
/// values; two warpgroups with 64 queries each alternate on the tensor cores.
struct Attention {
    program: Program,
    scores: View,
    shares: View,
}

/// Queries, keys and the dimension of heads.
const QUERIES: i64 = 128;
const KEYS: i64 = 128;
const DIM: i64 = 128;

/// The instructions of both products.
const QK: &str = "wgmma_m64n128k16_bf16";
const PV: &str = "wgmma_m64n128k16_ra_bf16";

/// The rings of the queries, keys and values: each with its slots.
struct Rings([(Id, View); 3]);

/// The tiles that the producer copies into the slots.
struct Tiles {
    queries: View,
    keys: View,
    values: View,
    steps: Value,
}

fn attention() -> Result<Attention> {
    let mut b = Builder::new("attention");
    b.arch(90);
    let q = matrix(&mut b, "q", Elem::Bf16, ["S", "D"], false)?;
    let k = matrix(&mut b, "k", Elem::Bf16, ["T", "D"], false)?;
    let v = matrix(&mut b, "v", Elem::Bf16, ["T", "D"], false)?;
    let o = matrix(&mut b, "o", Elem::F32, ["S", "D"], true)?;
    let scale = b.scalar("scale", Elem::F32);
    let consumers = b.group("consumers", (0, 8), Some(240));
    let halves = [b.group("left", (0, 4), None), b.group("right", (4, 8), None)];
    let producer = b.group("producer", (8, 12), Some(24));

    let sq = slots(&mut b, "sq", QUERIES, DIM, 1)?;
    let sk = slots(&mut b, "sk", KEYS, DIM, 2)?;
    let sv = slots(&mut b, "sv", KEYS, DIM, 2)?;
    let q_ring = ring(&mut b, "q_ring", &[&sq], 1, producer, consumers);
    let k_ring = ring(&mut b, "k_ring", &[&sk], 2, producer, consumers);
    let v_ring = ring(&mut b, "v_ring", &[&sv], 2, producer, consumers);
    let rings = Rings([(q_ring, sq), (k_ring, sk), (v_ring, sv)]);

    let block = || At::Index(Coord::Block(0).into());
    let tiles = Tiles {
        queries: b.tile(&q, (QUERIES, DIM), &[block(), At::Index(0.into())])?,
        keys: b.tile(&k, (KEYS, DIM), &[At::All, At::Index(0.into())])?,
        values: b.tile(&v, (KEYS, DIM), &[At::All, At::Index(0.into())])?,
        steps: Value::symbol("T").ceil_div(KEYS).unwrap_or_default(),
    };
    let go = b.tile(&o, (QUERIES, DIM), &[block(), At::Index(0.into())])?;
    let mut kept: Option<(View, View)> = None;
    b.roles(vec![
        (producer, Box::new(|b: &mut Builder| fetch(b, &rings, &tiles))),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                kept = Some(attend(b, &rings, tiles.steps, &go, (consumers, halves), &scale)?);
                Ok(())
            }),
        ),
    ])?;
    let (scores, shares) = kept.ok_or_else(|| Problem::new("no consumers"))?;
    Ok(Attention { program: b.finish(), scores, shares })
}

/// The producer: queries once, then keys and values alternately.
fn fetch(b: &mut Builder, Rings([queries, keys, values]): &Rings, tiles: &Tiles) -> Result<()> {
    let fetch = |b: &mut Builder, (ring, to): &(Id, View), from: &View| -> Result<()> {
        b.statement(Op::Acquire { ring: *ring, phase: Coord::Phase(*ring).into() });
        b.statement(Op::Publish {
            ring: *ring,
            phase: Coord::Phase(*ring).into(),
            bytes: Some(b.elem(from).bytes_of(from.layout.size()? as u32)),
        });
        let slot = b.slot(*ring);
        let to = last(b, to, &slot)?;
        b.copy_how(from, &to, How::Atom(isa::named("bulk_load_2d")?), None)?;
        b.statement(Op::Advance { ring: *ring });
        Ok(())
    };
    fetch(b, queries, &tiles.queries)?;
    b.repeat("j", tiles.steps, Unroll::No, |b, j| -> Result<()> {
        let (from_k, from_v) = (last(b, &tiles.keys, &j)?, last(b, &tiles.values, &j)?);
        fetch(b, keys, &from_k)?;
        fetch(b, values, &from_v)
    })
}

/// The running maximum and sum of a row, and the factor by which earlier sums are scaled.
struct Stats {
    most: View,
    before: View,
    total: View,
    factor: View,
}

fn input(n: u8) -> Box<Expr> {
    Box::new(Expr::In(n))
}

fn product(x: Expr, y: Expr) -> Expr {
    Expr::Bin(Bin::Mul, Box::new(x), Box::new(y))
}

/// The consumers; returns the fragments of scores, and of these as the left operand of the second product.
fn attend(
    b: &mut Builder,
    Rings([(q_ring, sq), (k_ring, sk), (v_ring, sv)]): &Rings,
    steps: Value,
    go: &View,
    (consumers, halves): (Id, [Id; 2]),
    scale: &Expr,
) -> Result<(View, View)> {
    let by_warpgroups =
        |row| TiledMma { row, groups: layout!((2, 1, 1)), of: consumers, pairs: None, terms: Terms::One };
    let (qk, pv) = (by_warpgroups(row(QK)?), by_warpgroups(row(PV)?));
    let out = b.partition_operand(&pv, OperandName::D, go)?;
    let acc = b.fragment("acc", Elem::F32, &out)?;
    let scores = b.operand("scores", &qk, OperandName::D, [QUERIES, KEYS])?;
    let shares = b.operand("shares", &pv, OperandName::A, [QUERIES, KEYS])?;
    // A lane owns pairs of columns of two rows: (2 columns, 2 rows, column groups); four lanes share a row.
    let groups = KEYS / 8;
    let by_row = b.regroup(&scores, (2i64, 2i64, groups))?;
    let acc_by_row = b.regroup(&acc, (2i64, 2i64, DIM / 8))?;
    let stat = |b: &mut Builder, name: &str| b.registers(name, Elem::F32, (1i64, 2i64, 1i64));
    let (most, before) = (stat(b, "most")?, stat(b, "before")?);
    let stats = Stats { most, before, total: stat(b, "total")?, factor: stat(b, "factor")? };
    b.fill(&acc, Expr::lit(0.0))?;
    b.fill(&stats.most, Expr::lit(f64::NEG_INFINITY))?;
    b.fill(&stats.total, Expr::lit(0.0))?;
    b.statement(Op::Await { ring: *q_ring, phase: Coord::Phase(*q_ring).into() });
    let slot = b.slot(*q_ring);
    let queries = last(b, sq, &slot)?;
    let warpgroup = Affine::from(Coord::Thread(consumers)).submode(128, None);
    let queries = b.tile(&queries, (64, DIM), &[At::Index(warpgroup), At::Index(0.into())])?;
    b.repeat("j", steps, Unroll::No, |b, _| -> Result<()> {
        b.statement(Op::Await { ring: *k_ring, phase: Coord::Phase(*k_ring).into() });
        let slot = b.slot(*k_ring);
        let keys = last(b, sk, &slot)?;
        // One warpgroup multiplies while the other computes exponentials.
        let (product, weighed) = (b.token(), b.token());
        b.ordered(&halves, |b| {
            b.fill(&scores, Expr::lit(0.0))?;
            b.gemm_how(&queries, &keys, &scores, Multiply::Atom(row(QK)?), Order::Plain, Some(product))
        })?;
        b.wait(product, 0);
        b.statement(Op::Release { ring: *k_ring, phase: Coord::Phase(*k_ring).into() });
        b.statement(Op::Advance { ring: *k_ring });
        online_softmax(b, &by_row, &acc_by_row, &stats, scale)?;
        // The accumulators' registers are the A operand's, eight values for each 16 keys.
        let regrouped = b.regroup(&scores, (8i64, 1i64, groups / 2))?;
        b.copy(&regrouped, &shares)?;

        b.statement(Op::Await { ring: *v_ring, phase: Coord::Phase(*v_ring).into() });
        let slot = b.slot(*v_ring);
        let values = last(b, sv, &slot)?;
        let values = b.permute(&values, &[1, 0])?;
        b.gemm_how(&shares, &values, &acc, Multiply::Atom(row(PV)?), Order::Plain, Some(weighed))?;
        b.wait(weighed, 0);
        b.statement(Op::Release { ring: *v_ring, phase: Coord::Phase(*v_ring).into() });
        b.statement(Op::Advance { ring: *v_ring });
        Ok(())
    })?;
    let whole = b.registers_like("whole", &stats.total, 0.0)?;
    b.reduce(&stats.total, &whole, Bin::Add, Across::Warp(4))?;
    b.map(&[acc_by_row.clone(), whole], &acc_by_row, Expr::Bin(Bin::Div, input(0), input(1)))?;
    b.copy(&acc, &out)?;
    Ok((scores, shares))
}

/// Scores become shares of the running sum, and earlier results are scaled by how much its maximum has grown.
fn online_softmax(b: &mut Builder, scores: &View, acc: &View, stats: &Stats, scale: &Expr) -> Result<()> {
    let Stats { most, before, total, factor } = stats;
    let less = || Box::new(Expr::Bin(Bin::Sub, input(0), input(1)));
    b.map(std::slice::from_ref(scores), scores, product(Expr::In(0), scale.clone()))?;
    b.copy(most, before)?;
    b.reduce(scores, most, Bin::Max, Across::Warp(4))?;
    b.map(&[scores.clone(), most.clone()], scores, Expr::Un(Un::Exp, less()))?;
    b.map(&[before.clone(), most.clone()], factor, Expr::Un(Un::Exp, less()))?;
    b.map(&[total.clone(), factor.clone()], total, product(Expr::In(0), Expr::In(1)))?;
    // Partial sums of each lane; lanes are reduced once, at the end.
    b.reduce(scores, total, Bin::Add, Across::Thread)?;
    b.map(&[acc.clone(), factor.clone()], acc, product(Expr::In(0), Expr::In(1)))
}

#[test]
fn a_step_of_attention_can_be_built() {
    let Attention { program, scores, shares } = attention().unwrap();
    assert_eq!(
        (scores.shape().to_string(), shares.shape().to_string()),
        ("(64,1,1)".into(), "(8,1,8)".into())
    );
    assert_eq!(program.rings.len(), 3);
    assert_eq!(program.tokens, 2);
    // Reductions go across the four lanes that share a row.
    assert_eq!(count(&program, |op| matches!(op, Op::Fold { across: Across::Warp(4), .. })), 2);
    assert_eq!(count(&program, |op| matches!(op, Op::Ordered { groups, .. } if groups.len() == 2)), 1);
    let statements = preorder(&program.body).count();
    assert!(statements <= 48, "{statements} statements");
}

/// The regrouped accumulator fragment has the layout of the A operand fragment: the same thread owns the same
/// row and column at the same position.
#[test]
fn accumulators_are_a_operands_without_moves() {
    let (d, a) = (row("wgmma_m64n128k16_bf16").unwrap(), row("wgmma_m64n128k16_ra_bf16").unwrap());
    let (sums, left) = (d.tv(OperandName::D).unwrap(), a.tv(OperandName::A).unwrap());
    let at = |layout: &Layout, thread: i64, value: i64| layout.at((thread, value)).unwrap().int().unwrap();
    for thread in 0..128 {
        for value in 0..64 {
            let (row, column) = {
                let at = at(&sums, thread, value);
                (at % 64, at / 64)
            };
            // (8, 1, 8): eight values of each k-step of 16
            let (within, step) = (value % 8, value / 8);
            let at = at(&left, thread, within);
            assert_eq!((at % 64, at / 64 + 16 * step), (row, column), "thread {thread}, value {value}");
        }
    }
}

/// A write to a tile whose out-of-bounds rows are clamped.
fn fill_a_clamped_tile() -> Result<Program> {
    let mut b = Builder::new("fill_a_clamped_tile");
    let x = b.tensor("x", Elem::F32, Tuple::from(Value::symbol("M")), None, true)?;
    let tile = b.tile(&x, 128, &[At::Index(Coord::Block(0).into())])?.clamped(0);
    let mine = b.parallelize(&tile, &layout!(128))?;
    b.fill(&mine, Expr::lit(1.0))?;
    Ok(b.finish())
}

#[test]
fn clamped_views_are_only_read() {
    let outcome = generate(fill_a_clamped_tile().unwrap());
    let message: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    assert_eq!(
        (outcome.kernel.is_none(), &*message.join("\n")),
        (
            true,
            "`x` is written here, and its out-of-bounds coordinates along mode 0 are clamped, so the last element would be written several times\nhelp: clamp only views that are read; writes skip out-of-bounds elements anyway"
        )
    );
}

/// No text has such tiles.
#[test]
fn tiles_of_unknown_shape_are_not_filled_ahead() -> Result<()> {
    let mut b = Builder::new("ahead");
    let a = matrix(&mut b, "a", Elem::F32, ["M", "K"], false)?;
    let c = matrix(&mut b, "c", Elem::F32, ["M", "K"], true)?;
    let mut part = |view: &View| {
        let tile = b.tile(view, (16, 4), &[At::Index(Coord::Block(0).into()), At::All])?;
        b.parallelize(&tile, &layout!((8, 4)))
    };
    let (from, out) = (part(&a)?, part(&c)?);
    let s = b.shared("s", Elem::F32, layout!((16, 4) : (1, 20)))?;
    let s = b.parallelize(&s, &layout!((8, 4)))?;
    b.pipelined("k", Value::symbol("K").ceil_div(4).unwrap(), 3, |b, k| -> Result<()> {
        let (from, out) = (last(b, &from, &k)?, last(b, &out, &k)?);
        let mut to = s.clone();
        to.layout = Layout::from_modes([Layout::new(Value::symbol("M"), 1i64)?, Layout::new(4i64, 20i64)?])?;
        b.statement(Op::Copy { from, to, how: How::Staged, fill: 0.0.into(), token: None });
        b.copy(&s, &out)
    })?;
    let outcome = generate(b.finish());
    let message: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    assert_eq!(
        message.join("\n"),
        "`s` is filled through registers, and its shape (M,4) is known at launch only\nhelp: use a tile whose extents are integers"
    );
    Ok(())
}
