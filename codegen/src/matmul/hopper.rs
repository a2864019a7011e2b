//! The product on Hopper's tensor cores, as a tile program: a persistent kernel whose producer fills a ring by bulk
//! copies, and whose consumers multiply from it with wgmma.
//!
//! A cluster of two blocks computes two tiles of C that share their columns: each block copies its own rows, and half of
//! the columns for both. The ring is never drained between tiles, so copies of the next tile run while this one is stored.

use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value as Size, layout};

use super::Config;
use crate::affine::{Affine, Coord};
use crate::atom::Atom;
use crate::atoms;
use crate::build::Builder;
use crate::elem::Elem;
use crate::fragment::Arrangement;
use crate::problem::{Problem, Result};
use crate::target::Target;
use crate::thread::{Bin, Id, Unroll};
use crate::tile::{Expr, How, Op, Raster, Ring};
use crate::view::{At, View};

/// Rows of a wgmma, and of the tile of one warpgroup.
const ROWS: i64 = 64;
/// Bytes of a row of shared memory as wgmma and bulk copies swizzle it.
const SWIZZLED: i64 = 128;
/// Blocks of a cluster, along the rows of C.
const CLUSTER: i64 = 2;
/// Tiles of rows that run down before the next column begins: what is at work shares what the cache holds.
const BAND: u32 = 8;
/// Registers of the threads that multiply, and of those that copy, where two warpgroups multiply.
const REGISTERS: (u32, u32) = (232, 40);

/// Sizes of the product by wgmma.
pub(super) struct Sizes {
    /// Rows and columns of C that a block computes, and the length of a step along K.
    pub(super) tile: [i64; 3],
    /// Slots of the ring.
    pub(super) stages: i64,
}

impl Sizes {
    /// As many slots as shared memory holds, four at most.
    pub(super) fn stages(tile: [i64; 3], elem: Elem) -> i64 {
        let bytes = (tile[0] + tile[1]) * tile[2] * i64::from(elem.bytes());
        // Room for the mbarriers.
        let room = i64::from(Target::of(90).block_shared) - 1024;
        (room / bytes.max(1)).clamp(1, 4)
    }
}

/// The row of the table that multiplies elements of a type by so many columns.
pub(super) fn row(elem: Elem, columns: i64) -> Option<&'static Atom> {
    atoms::find(&format!("wgmma_m{ROWS}n{columns}k{}_{elem}", 32 / elem.bytes()))
}

/// Why these sizes make no product by wgmma, and the key that says the wrong one.
pub(super) fn unfit(sizes: &Sizes, elem: Elem) -> Option<(&'static str, Problem)> {
    let [bm, bn, bk] = sizes.tile;
    let across = SWIZZLED / i64::from(elem.bytes());
    let wrong = |key, message: String, help: &str| Some((key, Problem::new(message).help(help)));
    if bm != ROWS && bm != 2 * ROWS {
        return wrong(
            "bm",
            format!("wgmma takes {ROWS} rows of each warpgroup, and bm is {bm}"),
            "write bm = 64 or bm = 128",
        );
    }
    if bk != across {
        return wrong(
            "bk",
            format!(
                "a step of the ring is {SWIZZLED} bytes along K, {across} elements of {elem}, and bk is {bk}"
            ),
            "leave bk out",
        );
    }
    if row(elem, bn).is_none() || bn % (8 * CLUSTER) != 0 {
        return wrong(
            "bn",
            format!("wgmma takes 16 to 256 columns in steps of 16, and bn is {bn}"),
            "write bn = 128 or bn = 256",
        );
    }
    let bytes = (bm + bn) * bk * i64::from(elem.bytes()) * sizes.stages;
    let room = i64::from(Target::of(90).block_shared) - 1024;
    if bytes > room {
        return wrong(
            "stages",
            format!(
                "{} stages take {bytes} bytes of shared memory, and a block has {room} for them",
                sizes.stages
            ),
            "write fewer stages",
        );
    }
    None
}

/// The program. Rows of A and of Bᵀ are contiguous; C's contiguous mode lies along wgmma's columns.
pub(super) fn product(b: &mut Builder, c: &Config, sizes: &Sizes) -> Result<()> {
    let [bm, bn, bk] = sizes.tile;
    let (m, n, k) = (Size::symbol("M"), Size::symbol("N"), Size::symbol("K"));
    b.arch(90).cluster([CLUSTER as u32, 1, 1]).persistent();
    let mut tensor = |name: &str, extents: [Size; 2], rows: bool, written| {
        let ld = Size::symbol(&format!("ld{name}"));
        let stride = if rows { [ld, 1.into()] } else { [1.into(), ld] };
        let tuple = |of: [Size; 2]| Tuple::of(of.map(Tuple::from));
        b.tensor(name, c.dtype, tuple(extents), Some(tuple(stride)), written)
    };
    let (a, bt) = (tensor("a", [m, k], true, false)?, tensor("b", [n, k], true, false)?);
    let out = tensor("c", [m, n], c.c_rows, true)?;
    let scalars = c.alpha_beta.then(|| (b.scalar("alpha", c.acc), b.scalar("beta", c.acc)));
    // The transposed product, where columns of C are contiguous.
    let (left, right, [rows, columns]) = if c.c_rows { (a, bt, [m, n]) } else { (bt, a, [n, m]) };
    let out = if c.c_rows { out } else { b.permute(&out, &[1, 0])? };

    let warps = (bm / ROWS * 4) as u32;
    let registers = (bm > ROWS).then_some(REGISTERS);
    let consumers = b.group("consumers", (0, warps), registers.map(|all| all.0));
    let producer = b.group("producer", (warps, warps + 4), registers.map(|all| all.1));
    let (sl, sr) = (slots(b, "left", c.dtype, bm, sizes)?, slots(b, "right", c.dtype, bn, sizes)?);
    let ring = b.ring(Ring {
        name: "ring".into(),
        slots: sizes.stages as u32,
        buffers: vec![sl.tensor, sr.tensor],
        from: producer,
        to: consumers,
        arrivals: 1,
        over_cluster: Some(0),
    });
    let count = |of: Size, tile: i64| of.ceil_div(tile).ok_or_else(|| Problem::new("no such tiles"));
    let tiles = [("row", count(rows, CLUSTER * bm)?), ("column", count(columns, bn)?)];
    let steps = count(k, bk)?;
    let multiply = row(c.dtype, bn).ok_or_else(|| Problem::new("no such product"))?;
    let part = Part { ring, steps, tile: [bm, bn, bk], consumers, multiply };

    b.roles(vec![
        (
            producer,
            Box::new(|b: &mut Builder| {
                b.tiles(&tiles, Raster::Bands(BAND), |b, at| part.fill(b, at, [&left, &right], [&sl, &sr]))
            }),
        ),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                let acc = b.operand("acc", multiply, 'd', [bm, bn], &part.by_warpgroup())?;
                b.tiles(&tiles, Raster::Bands(BAND), |b, at| -> Result<()> {
                    part.multiply(b, &acc, [&sl, &sr])?;
                    let tile =
                        b.tile(&out, (bm, bn), &[At::Index(rows_of(at)?), At::Index(at[1].clone())])?;
                    let to = b.partition_mma(&tile, multiply, 'd', &part.by_warpgroup())?.with_name("out");
                    let plain = Expr::In(0);
                    match &scalars {
                        None => super::product::epilogue(b, c, &acc, &to, plain, None),
                        Some((alpha, beta)) => {
                            let scaled = Expr::Bin(Bin::Mul, Box::new(alpha.clone()), Box::new(plain));
                            super::product::epilogue(b, c, &acc, &to, scaled, Some(beta.clone()))
                        }
                    }
                })
            }),
        ),
    ])
}

/// The tile of rows of this block of the cluster.
fn rows_of(at: &[Affine]) -> Result<Affine> {
    shifted(&at[0].times(CLUSTER).unwrap_or_default(), &Coord::ClusterRank.into())
}

fn shifted(x: &Affine, by: &Affine) -> Result<Affine> {
    x.plus(by, 1).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))
}

/// Slots of tiles with rows of 128 bytes, swizzled as copy engine and tensor cores have it.
fn slots(b: &mut Builder, name: &str, elem: Elem, rows: i64, sizes: &Sizes) -> Result<View> {
    let across = sizes.tile[2];
    let layout = Layout::new((rows, across, sizes.stages), (across, 1i64, rows * across))?;
    // Groups of 16 bytes are exchanged among eight rows.
    let group = (16 / elem.bytes()).trailing_zeros();
    b.shared(name, elem, Composed::new(Swizzle::new(3, group, 3)?, 0, layout))
}

/// The last mode at one place.
fn last(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
}

/// What both roles know.
struct Part {
    ring: Id,
    steps: Size,
    tile: [i64; 3],
    consumers: Id,
    multiply: &'static Atom,
}

impl Part {
    fn by_warpgroup(&self) -> Arrangement {
        Arrangement {
            groups: Layout::compact((self.tile[0] / ROWS, 1i64, 1i64)).unwrap_or(layout!((1, 1, 1))),
            of: self.consumers,
        }
    }

    /// The producer's part of a tile: its rows, and its half of the columns for both blocks.
    fn fill(&self, b: &mut Builder, at: &[Affine], from: [&View; 2], to: [&View; 2]) -> Result<()> {
        let [bm, bn, bk] = self.tile;
        let rank = Affine::from(Coord::ClusterRank);
        let half = bn / CLUSTER;
        let rows = b.tile(from[0], (bm, bk), &[At::Index(rows_of(at)?), At::All])?.with_name("rows");
        let column = shifted(&at[1].times(CLUSTER).unwrap_or_default(), &rank)?;
        let columns = b.tile(from[1], (half, bk), &[At::Index(column), At::All])?.with_name("columns");
        let bytes = ((bm + bn) * bk) as u32 * b.elem(from[0]).bytes();
        b.repeat("k", self.steps, Unroll::No, |b, k| -> Result<()> {
            b.acquire(self.ring);
            b.publish(self.ring, Some(bytes));
            let slot = b.slot(self.ring);
            let (source, target) = (last(b, &rows, &k)?, last(b, to[0], &slot)?);
            b.copy_how(&source, &target, How::Atom("bulk_load_2d"), None)?;
            let (source, target) = (last(b, &columns, &k)?, last(b, to[1], &slot)?);
            let target = b.tile(&target, (half, bk), &[At::Index(rank.clone()), At::Index(0.into())])?;
            b.copy_how(&source, &target, How::Atom("bulk_load_2d_multicast"), None)?;
            b.advance(self.ring);
            Ok(())
        })
    }

    /// The consumers' part of a tile. One product is in flight while the next begins; a slot is released once the product
    /// that reads it has ended.
    fn multiply(&self, b: &mut Builder, acc: &View, from: [&View; 2]) -> Result<()> {
        let bk = self.tile[2];
        let warpgroup = Affine::from(Coord::Thread(self.consumers)).digit(128, None);
        b.fill(acc, Expr::lit(0.0))?;
        let before = |b: &Builder| shifted(&b.turn(self.ring), &(-1).into());
        let token = b.repeat("k", self.steps, Unroll::No, |b, k| -> Result<Id> {
            b.await_slot(self.ring);
            let slot = b.slot(self.ring);
            let (left, right) = (last(b, from[0], &slot)?, last(b, from[1], &slot)?);
            let left = b.tile(&left, (ROWS, bk), &[At::Index(warpgroup.clone()), At::Index(0.into())])?;
            let token = b.start_gemm(&left, &right, acc, How::Atom(self.multiply.name))?;
            b.wait_all_but(token, 1);
            let phase = before(b)?;
            b.condition(&k.times(-1).unwrap_or_default(), Size::Int(0), |b| {
                b.statement(Op::Release { ring: self.ring, turn: phase });
                Ok(())
            })?;
            b.advance(self.ring);
            Ok(token)
        })?;
        b.wait(token);
        let phase = before(b)?;
        b.statement(Op::Release { ring: self.ring, turn: phase });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::definition::Definition;
    use crate::words::Words;

    /// What is said of keys, and whether the first variant multiplies by wgmma.
    fn made(keys: &str) -> Result<bool, String> {
        let outcome = Definition::Matmul(Words::read(keys).unwrap().args().to_vec()).generate();
        let said: Vec<String> = outcome.diagnostics.iter().map(|said| said.text()).collect();
        outcome.kernel.map(|kernel| kernel.variants[0].program.arch_specific).ok_or_else(|| said.join("\n"))
    }

    #[test]
    fn auto_takes_tensor_cores_where_it_can() {
        const ROWS: &str = "dtype=bf16 arch=90 a=k_major b=k_major";
        assert_eq!(made(ROWS), Ok(true));
        assert_eq!(made(&format!("{ROWS} c=n_major bm=64 bn=96")), Ok(true));
        assert_eq!(made(&format!("{ROWS} mma=none")), Ok(false));
        assert_eq!(made(&format!("{ROWS} order=serpentine")), Ok(false));
        assert_eq!(made("dtype=bf16 a=k_major b=k_major"), Ok(false));
        assert_eq!(made("dtype=bf16 arch=90"), Ok(false));
    }

    #[track_caller]
    fn check(keys: &str, expected: &str) {
        assert_eq!(
            made(&format!("dtype=bf16 arch=90 a=k_major b=k_major mma=wgmma {keys}")),
            Err(expected.into())
        );
    }

    #[test]
    fn what_wgmma_cannot_do_is_said_by_its_key() {
        check(
            "bm=96",
            "wgmma takes 64 rows of each warpgroup, and bm is 96\nhelp: write bm = 64 or bm = 128",
        );
        check(
            "bk=32",
            "a step of the ring is 128 bytes along K, 64 elements of bf16, and bk is 32\nhelp: leave bk out",
        );
        check(
            "bn=100",
            "wgmma takes 16 to 256 columns in steps of 16, and bn is 100\nhelp: write bn = 128 or bn = 256",
        );
        check(
            "stages=8",
            "8 stages take 393216 bytes of shared memory, and a block has 231424 for them\nhelp: write fewer stages",
        );
        check(
            "vec=8",
            "`vec` speaks of the threads of a product without tensor cores\nhelp: leave it out, or write mma = none",
        );
        check(
            "batched=true",
            "a product by wgmma has no batches yet\nhelp: leave batched out, or write mma = none",
        );
        assert_eq!(
            made("dtype=bf16 mma=wgmma"),
            Err("wgmma is an instruction of sm_90a\nhelp: write arch = 90".into())
        );
    }
}
