//! Persistent kernels for Hopper, written with the builder: clusters, multicast copies, warp-specialised roles.

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::atom::Atom;
use tilewright_codegen::build::Builder;
use tilewright_codegen::fragment::Arrangement;
use tilewright_codegen::problem::{Problem, Result};
use tilewright_codegen::thread::{Id, Unroll};
use tilewright_codegen::tile::{Expr, How, Op, Program, Raster, Ring};
use tilewright_codegen::view::{At, View};
use tilewright_codegen::{Elem, atoms};
use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value, layout};

fn row(name: &str) -> Result<&'static Atom> {
    atoms::find(name).ok_or_else(|| Problem::new(format!("no row {name}")))
}

/// A matrix argument with contiguous rows.
fn matrix(b: &mut Builder, name: &str, elem: Elem, extents: [&str; 2], mutable: bool) -> Result<View> {
    let shape = Tuple::of(extents.map(|extent| Tuple::from(Value::symbol(extent))));
    let stride = Tuple::of([Value::symbol(&format!("ld{name}")).into(), Tuple::from(1)]);
    b.tensor(name, elem, shape, Some(stride), mutable)
}

/// Slots of tiles with rows of 128 bytes, swizzled as copy engine and tensor cores have it.
fn slots(b: &mut Builder, name: &str, rows: i64, depth: i64, slots: i64) -> Result<View> {
    // Blocks of 64 columns, each with all rows: (rows, (64, depth / 64), slots)
    let layout = Layout::new(
        Tuple::of([rows.into(), Tuple::of([64.into(), (depth / 64).into()]), slots.into()]),
        Tuple::of([64.into(), Tuple::of([1.into(), (rows * 64).into()]), (rows * depth).into()]),
    )?;
    b.shared(name, Elem::Bf16, Composed::new(Swizzle::new(3, 3, 3)?, 0, layout))
}

fn ring(
    b: &mut Builder,
    name: &str,
    buffers: &[&View],
    slots: u32,
    from: Id,
    to: Id,
    over: Option<u8>,
) -> Id {
    b.ring(Ring {
        name: name.into(),
        slots,
        buffers: buffers.iter().map(|view| view.tensor).collect(),
        from,
        to,
        arrivals: 1,
        over_cluster: over,
    })
}

/// The last mode at one place.
fn last(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
}

fn sum(x: &Affine, y: &Affine, times: i64) -> Result<Affine> {
    x.plus(y, times).ok_or_else(|| Problem::new("past 63 bits"))
}

/// C = A·Bᵀ in bf16 by a persistent kernel. Clusters of two blocks compute 256 rows and 256 columns, each block 128 rows;
/// each loads half of B's tile, for both. One warpgroup copies with few registers, two multiply with many, and the ring is
/// never drained between tiles.
pub fn persistent_gemm() -> Result<Program> {
    const SLOTS: u32 = 4;
    let (bm, bn, bk) = (128i64, 256i64, 64i64);
    let mut b = Builder::new("persistent_gemm");
    b.arch(90).cluster([2, 1, 1]).persistent();
    let a = matrix(&mut b, "a", Elem::Bf16, ["M", "K"], false)?;
    let bt = matrix(&mut b, "b", Elem::Bf16, ["N", "K"], false)?;
    let c = matrix(&mut b, "c", Elem::F32, ["M", "N"], true)?;
    let consumers = b.group("consumers", (0, 8), Some(232));
    let producer = b.group("producer", (8, 12), Some(40));
    let sa = slots(&mut b, "sa", bm, bk, i64::from(SLOTS))?;
    let sb = slots(&mut b, "sb", bn, bk, i64::from(SLOTS))?;
    let ring = ring(&mut b, "ring", &[&sa, &sb], SLOTS, producer, consumers, Some(0));

    let ceil = |name: &str, n: i64| Value::symbol(name).ceil_div(n).unwrap_or_default();
    let tiles = [("m", ceil("M", 2 * bm)), ("n", ceil("N", bn))];
    let steps = ceil("K", bk);
    let rank = Affine::from(Coord::ClusterRank);
    // The block's tile of a tensor, and all of it along the depth.
    let rows_of = |at: &[Affine]| sum(&at[0].times(2).unwrap_or_default(), &rank, 1);

    let wgmma = "wgmma_m64n256k16_bf16";
    let product = row(wgmma)?;
    let by_warpgroup = Arrangement { groups: layout!((2, 1, 1)), of: consumers };
    let warpgroup = Affine::from(Coord::Thread(consumers)).digit(128, None);

    b.roles(vec![
        (
            producer,
            Box::new(|b: &mut Builder| {
                b.tiles(&tiles, Raster::Bands(8), |b, at| -> Result<()> {
                    let ga = b.tile(&a, (bm, bk), &[At::Index(rows_of(at)?), At::All])?;
                    // Half of the columns, by this block for both.
                    let half = sum(&at[1].times(2).unwrap_or_default(), &rank, 1)?;
                    let gb = b.tile(&bt, (bn / 2, bk), &[At::Index(half), At::All])?;
                    let bytes = ((bm + bn) * bk) as u32 * Elem::Bf16.bytes();
                    b.repeat("k", steps, Unroll::No, |b, k| -> Result<()> {
                        b.acquire(ring);
                        b.publish(ring, Some(bytes));
                        let slot = b.slot(ring);
                        let (from, to) = (last(b, &ga, &k)?, last(b, &sa, &slot)?);
                        b.copy_how(&from, &to, How::Atom("bulk_load_2d"), None)?;
                        let (from, to) = (last(b, &gb, &k)?, last(b, &sb, &slot)?);
                        let to =
                            b.tile(&to, (bn / 2, bk), &[At::Index(rank.clone()), At::Index(0.into())])?;
                        b.copy_how(&from, &to, How::Atom("bulk_load_2d_multicast"), None)?;
                        b.advance(ring);
                        Ok(())
                    })
                })
            }),
        ),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                let acc = b.operand("acc", product, 'd', [bm, bn], &by_warpgroup)?;
                b.tiles(&tiles, Raster::Bands(8), |b, at| -> Result<()> {
                    let gc = b.tile(&c, (bm, bn), &[At::Index(rows_of(at)?), At::Index(at[1].clone())])?;
                    let out = b.partition_mma(&gc, product, 'd', &by_warpgroup)?;
                    b.fill(&acc, Expr::Lit(0.0.into()))?;
                    let token = b.repeat("k", steps, Unroll::No, |b, k| -> Result<Id> {
                        b.await_slot(ring);
                        let slot = b.slot(ring);
                        let (left, right) = (last(b, &sa, &slot)?, last(b, &sb, &slot)?);
                        let left =
                            b.tile(&left, (64, bk), &[At::Index(warpgroup.clone()), At::Index(0.into())])?;
                        let token = b.start_gemm(&left, &right, &acc, How::Atom(wgmma))?;
                        // The product of the turn before is done: its slot is free.
                        b.wait_all_but(token, 1);
                        let before = sum(&b.turn(ring), &1.into(), -1)?;
                        b.condition(&k.times(-1).unwrap_or_default(), Value::Int(0), |b| {
                            b.statement(Op::Release { ring, turn: before });
                            Ok(())
                        })?;
                        b.advance(ring);
                        Ok(token)
                    })?;
                    b.wait(token);
                    let before = sum(&b.turn(ring), &1.into(), -1)?;
                    b.statement(Op::Release { ring, turn: before });
                    b.copy(&acc, &out)
                })
            }),
        ),
    ])?;
    Ok(b.finish())
}
