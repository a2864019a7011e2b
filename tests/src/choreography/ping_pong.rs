//! A persistent product on clusters of two blocks with multicast, whose two warpgroups alternate over the
//! tiles: one multiplies while the other stores.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::atom::OperandName;
use tilewright_codegen::build::Builder;
use tilewright_codegen::isa;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Id, Unroll};
use tilewright_codegen::tile::{Expr, How, Multiply, Op, Order, Program, Raster, Ring};
use tilewright_codegen::tiled::{Terms, TiledMma};
use tilewright_codegen::view::{At, View};
use tilewright_layout::{Composed, Layout, Swizzle, Value, layout};

use super::{Choreography, last, matrix, row, sum, tiles_of, times};
use crate::problem::{self, Values};

const BM: i64 = 64;
const BN: i64 = 64;
const BK: i64 = 64;
const CLUSTER: i64 = 2;
const STAGES: i64 = 3;
const WGMMA: &str = "wgmma_m64n64k16_bf16";
const RASTER: Raster = Raster::Bands(2);

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "ping_pong",
        program,
        reference: problem::product,
        values: Values::Whole,
        zeroed: &[],
        // For small sizes one cluster computes all tiles; bulk copies need rows aligned to 16 bytes.
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            vec![("M", 1 + below(300)), ("N", 1 + below(150)), ("K", 8 * (1 + below(30)))]
        },
        large: &[
            &[("M", 2048), ("N", 1024), ("K", 512)],
            &[("M", 1999), ("N", 1237), ("K", 200)],
            &[("M", 64), ("N", 64), ("K", 1024)],
        ],
        sass: &["UTMALDG.2D.MULTICAST", "HGMMA.64x64x16.F32.BF16", "USETMAXREG"],
    }
}

fn slots(b: &mut Builder, name: &str, rows: i64) -> Result<View> {
    let layout = Layout::new((rows, BK, STAGES), (BK, 1i64, rows * BK))?;
    b.shared(name, Elem::Bf16, Composed::new(Swizzle::new(3, 3, 3)?, 0, layout))
}

fn program() -> Result<Program> {
    let mut b = Builder::new("ping_pong");
    b.arch(90).cluster([CLUSTER as u32, 1, 1]).persistent();
    let a = matrix(&mut b, "a", Elem::Bf16, ["M", "K"], false)?;
    let bt = matrix(&mut b, "b", Elem::Bf16, ["N", "K"], false)?;
    let c = matrix(&mut b, "c", Elem::F32, ["M", "N"], true)?;
    let consumers = b.family("consumers", (0, 8), 2, Some(232));
    let producer = b.group("producer", (8, 12), Some(40));
    let (sa, sb) = (slots(&mut b, "sa", BM)?, slots(&mut b, "sb", BN)?);
    let ring = b.ring(Ring {
        name: "ring".into(),
        slots: STAGES as u32,
        buffers: vec![sa.tensor, sb.tensor],
        from: producer,
        to: consumers,
        arrivals: 1,
        over_cluster: true,
    });
    let tiles =
        [("row", tiles_of(Value::symbol("M"), CLUSTER * BM)), ("column", tiles_of(Value::symbol("N"), BN))];
    let steps = tiles_of(Value::symbol("K"), BK);
    let rank = Affine::from(Coord::ClusterRank);
    let row_of = |at: &[Affine]| sum(times(&at[0], CLUSTER), &rank);
    let (row, groups) = (row(WGMMA)?, layout!((1, 1, 1)));
    let mma = TiledMma { row, groups, of: consumers, pairs: None, terms: Terms::One };

    b.roles(vec![
        (
            producer,
            Box::new(|b: &mut Builder| {
                b.tiles(&tiles, RASTER, |b, at| -> Result<()> {
                    let rows = b.tile(&a, (BM, BK), &[At::Index(row_of(at)), At::All])?;
                    let half = At::Index(sum(times(&at[1], CLUSTER), &rank));
                    let columns = b.tile(&bt, (BN / CLUSTER, BK), &[half, At::All])?;
                    b.repeat("k", steps, Unroll::No, |b, k| -> Result<()> {
                        b.statement(Op::Acquire { ring, phase: Coord::Phase(ring).into() });
                        b.statement(Op::Publish {
                            ring,
                            phase: Coord::Phase(ring).into(),
                            bytes: Some(((BM + BN) * BK) as u32 * 2),
                        });
                        let slot = b.slot(ring);
                        let (from, to) = (last(b, &rows, &k)?, last(b, &sa, &slot)?);
                        b.copy_how(&from, &to, How::Atom(isa::named("bulk_load_2d")?), None)?;
                        let (from, to) = (last(b, &columns, &k)?, last(b, &sb, &slot)?);
                        let index = [At::Index(rank.clone()), At::Index(0.into())];
                        let to = b.tile(&to, (BN / CLUSTER, BK), &index)?;
                        b.copy_how(&from, &to, How::Atom(isa::named("bulk_load_2d_multicast")?), None)?;
                        b.statement(Op::Advance { ring });
                        Ok(())
                    })
                })
            }),
        ),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                let acc = b.operand("acc", &mma, OperandName::D, [BM, BN])?;
                b.tiles(&tiles, RASTER, |b, at| -> Result<()> {
                    b.ordered(&[consumers], |b| multiply(b, (ring, steps), [&sa, &sb], &acc))?;
                    let tile = b.tile(&c, (BM, BN), &[At::Index(row_of(at)), At::Index(at[1].clone())])?;
                    let out = b.partition_operand(&mma, OperandName::D, &tile)?;
                    b.ordered(&[consumers], |b| b.copy(&acc, &out))
                })
            }),
        ),
    ])?;
    Ok(b.finish())
}

/// The main loop of one tile, with one wgmma group in flight while the next is issued.
fn multiply(b: &mut Builder, (ring, steps): (Id, Value), from: [&View; 2], acc: &View) -> Result<()> {
    b.fill(acc, Expr::lit(0.0))?;
    let before = |_: &Builder| sum(Coord::Phase(ring).into(), &(-1).into());
    let token = b.repeat("k", steps, Unroll::No, |b, k| -> Result<Id> {
        b.statement(Op::Await { ring, phase: Coord::Phase(ring).into() });
        let slot = b.slot(ring);
        let (left, right) = (last(b, from[0], &slot)?, last(b, from[1], &slot)?);
        let token = b.token();
        b.gemm_how(&left, &right, acc, Multiply::Atom(isa::named(WGMMA)?), Order::Plain, Some(token))?;
        b.wait(token, 1);
        let phase = before(b);
        b.condition(&times(&k, -1), Value::Int(0), |b| {
            b.statement(Op::Release { ring, phase });
            Ok(())
        })?;
        b.statement(Op::Advance { ring });
        Ok(token)
    })?;
    b.wait(token, 0);
    let phase = before(b);
    b.statement(Op::Release { ring, phase });
    Ok(())
}
