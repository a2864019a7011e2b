//! Attention, causal and for any number of queries and keys: whole rows of scores belong to four lanes of a warp, so the
//! accumulators of the first product are the left operand of the second, in registers.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Arith, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Cmp, Un};
use tilewright_codegen::tile::{Across, Expr, Order, Program};
use tilewright_codegen::tiled::TiledMma;
use tilewright_codegen::view::{At, View};
use tilewright_layout::{Tuple, Value, layout};

use super::Choreography;
use crate::memory;
use crate::problem::Values;

/// Queries of a block, keys of an iteration, and the elements of each.
const QUERIES: i64 = 32;
const KEYS: i64 = 32;
const WIDTH: i64 = 32;
/// The score of a key that is not seen.
const UNSEEN: f64 = -1e30;

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "attention",
        program,
        reference: memory::attention,
        values: Values::Any,
        zeroed: &[],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            vec![("M", 1 + below(70)), ("N", 1 + below(100)), ("L", 1 + below(2))]
        },
        large: &[&[("M", 300), ("N", 500), ("L", 3)]],
        sass: &["HMMA", "LDSM", "LDGSTS", "SHFL"],
    }
}

fn bin(op: Bin, x: Expr, y: Expr) -> Expr {
    Expr::Bin(op, Box::new(x), Box::new(y))
}

fn pick(left: (Cmp, Expr, Expr), then: Expr, other: Expr) -> Expr {
    let (cmp, x, y) = left;
    Expr::Pick(Box::new([Expr::Cmp(cmp, Box::new(x), Box::new(y)), then, other]))
}

fn exp_of_difference() -> Expr {
    Expr::Un(Un::Exp, Box::new(bin(Bin::Sub, Expr::In(0), Expr::In(1))))
}

fn program() -> Result<Program> {
    let mut b = Builder::new("attention");
    let (m, n, heads) = (Value::symbol("M"), Value::symbol("N"), Value::symbol("L"));
    let mut matrix = |name: &str, elem: Elem, rows: Value, written: bool| {
        let shape = Tuple::of([Tuple::from(rows), Tuple::from(WIDTH), Tuple::from(heads)]);
        let symbol = |of: &str| Tuple::from(Value::symbol(&format!("{of}{name}")));
        b.tensor(name, elem, shape, Some(Tuple::of([symbol("ld"), Tuple::from(1), symbol("head_")])), written)
    };
    let (q, k) = (matrix("q", Elem::F16, m, false)?, matrix("k", Elem::F16, n, false)?);
    let (v, o) = (matrix("v", Elem::F16, n, false)?, matrix("o", Elem::F32, m, true)?);
    let scale = b.scalar("alpha", Elem::F32);

    let (bx, head) = (At::Index(Coord::Block(0).into()), At::Index(Coord::Block(1).into()));
    let block = |b: &mut Builder, of: &View, rows: i64, at: &At| -> Result<View> {
        b.tile(of, (rows, WIDTH, 1), &[at.clone(), At::Index(0.into()), head.clone()])
    };
    let first = |b: &mut Builder, view: &View| b.slice(view, &[At::All, At::All, At::Index(0.into())]);
    let gq = block(&mut b, &q, QUERIES, &bx)?;
    let gq = first(&mut b, &gq)?;
    let go = block(&mut b, &o, QUERIES, &bx)?;
    let go = first(&mut b, &go)?;
    let (gk, gv) = (block(&mut b, &k, KEYS, &At::All)?, block(&mut b, &v, KEYS, &At::All)?);
    let mut shared = |name: &str, rows: i64| b.shared_tile(name, Elem::F16, (rows, WIDTH));
    let (sq, sk, sv) = (shared("sq", QUERIES)?, shared("sk", KEYS)?, shared("sv", KEYS)?);
    b.copy(&gq, &sq)?;

    let mma = TiledMma::new("mma_m16n8k16_f16", &layout!((2, 1)))?;
    let out = b.sums("out", &mma, [QUERIES, WIDTH])?;
    let mut column = |name: &str, value: f64| -> Result<View> {
        let column = b.distributed(name, Elem::F32, &[QUERIES, 1])?;
        b.fill(&column, Expr::lit(value))?;
        Ok(column)
    };
    let (most, total) = (column("most", UNSEEN)?, column("total", 0.0)?);
    // The last query of the block sees the keys up to its own position, counted from the end.
    let end = Affine::from(Coord::Block(0)).times(QUERIES).unwrap_or_default();
    let end = end.plus(&QUERIES.into(), 1).and_then(|end| end.plus(&n.into(), 1));
    let end = end.and_then(|end| end.plus(&m.into(), -1)).unwrap_or_default();
    let end = Affine::two(Arith::Max, &end, &0.into()).unwrap_or_default();
    let end = Affine::two(Arith::Min, &end, &n.into()).unwrap_or_default();
    let tiles = end.plus(&(KEYS - 1).into(), 1).unwrap_or_default().submode(KEYS, None);
    b.pipelined("n", tiles, 2, |b, n| -> Result<()> {
        for (from, to) in [(&gk, &sk), (&gv, &sv)] {
            let from = b.slice(from, &[At::All, At::All, At::Index(0.into()), At::Index(n.clone())])?;
            b.copy(&from, to)?;
        }
        let scores = b.sums("scores", &mma, [QUERIES, KEYS])?;
        b.gemm(&sq, &sk, &scores, Order::Plain)?;
        let index = bin(Bin::Sub, bin(Bin::Add, Expr::At(0), Expr::Size(Value::symbol("N"))), Expr::Size(m));
        let seen = pick((Cmp::Le, Expr::At(1), index), bin(Bin::Mul, Expr::In(0), scale), Expr::lit(UNSEEN));
        b.map(std::slice::from_ref(&scores), &scores, seen)?;

        let mut like = |name: &str, of: [i64; 2]| b.distributed(name, Elem::F32, &of);
        let (now, shrink) = (like("now", [QUERIES, 1])?, like("shrink", [QUERIES, 1])?);
        let (weights, sum) = (like("weights", [QUERIES, KEYS])?, like("sum", [QUERIES, 1])?);
        b.map(std::slice::from_ref(&most), &now, Expr::In(0))?;
        b.reduce(&scores, &now, Bin::Max, Across::Thread)?;
        let weight = pick((Cmp::Lt, Expr::lit(UNSEEN), Expr::In(0)), exp_of_difference(), Expr::lit(0.0));
        b.map(&[scores.clone(), now.clone()], &weights, weight)?;
        b.map(&[most.clone(), now.clone()], &shrink, exp_of_difference())?;
        b.fill(&sum, Expr::lit(0.0))?;
        b.reduce(&weights, &sum, Bin::Add, Across::Thread)?;
        let grown = bin(Bin::Add, bin(Bin::Mul, Expr::In(0), Expr::In(1)), Expr::In(2));
        b.map(&[total.clone(), shrink.clone(), sum], &total, grown)?;
        b.map(&[out.clone(), shrink], &out, bin(Bin::Mul, Expr::In(0), Expr::In(1)))?;
        let narrow = b.distributed("narrow", Elem::F16, &[QUERIES, KEYS])?;
        b.map(&[weights], &narrow, Expr::In(0).cast(Elem::F16))?;
        let columns = b.permute(&sv, &[1, 0])?;
        b.gemm(&narrow, &columns, &out, Order::Plain)?;
        b.map(&[now], &most, Expr::In(0))
    })?;
    let mean = bin(Bin::Div, Expr::In(0), Expr::In(1));
    b.map(
        &[out.clone(), total.clone()],
        &out,
        pick((Cmp::Lt, Expr::lit(0.0), Expr::In(1)), mean, Expr::lit(0.0)),
    )?;
    b.copy(&out, &go)?;
    Ok(b.finish())
}
