//! The product on Hopper's tensor cores, as a tile program: a warp-specialized, persistent kernel whose
//! producer fills a ring by bulk copies, and whose consumers multiply from it with wgmma.
//!
//! The blocks of a cluster compute tiles of C that share their columns: each block copies its own rows,
//! and multicasts its part of the columns. The ring is never drained between tiles, so copies of the next tile
//! overlap the epilogue of this one. The epilogue goes through shared memory, from where bulk stores run
//! while the next tile is multiplied.

mod epilogue;
mod narrow;
mod sizes;
mod split_k;
#[cfg(test)]
mod tests;

use tilewright_layout::{Layout, Value as Size, layout};

use super::Config;
use super::bulk::{SWIZZLED, batch_of, bulk_load, last, row_of, shifted, slots, swizzled, times};
use super::product::{Extras, argument, of_batch};
use super::scales::{Grouped, OfGroups};
use crate::build::fragment::Arrangement;
use crate::build::{Builder, Role};
use crate::source::problem::{Problem, Result};
use crate::thread::atom::{Atom, OperandName};
use crate::thread::{Id, Unroll};
use crate::tile::view::{At, View};
use crate::tile::{Expr, Raster, Ring};
use crate::values::affine::{Affine, Arith, Coord};
use epilogue::Staging;
pub(super) use sizes::{Sizes, row, unfit};

/// Rows of a wgmma.
const ROWS: i64 = 64;
/// Threads of a warpgroup.
const THREADS: i64 = 128;
/// Registers of consumer and of producer threads (setmaxnreg), with one, two and three consumer warpgroups.
const REGISTERS: [Option<(u32, u32)>; 3] = [None, Some((232, 40)), Some((160, 32))];

/// Registers of each thread of the consumers and of the producer.
fn registers(sizes: &Sizes) -> Option<(u32, u32)> {
    // All threads are alike once the sums are complete.
    if sizes.split_k > 1 { None } else { REGISTERS[sizes.warpgroups() as usize - 1] }
}

/// C with the mode of the left operand first.
fn left_first(b: &mut Builder, c: &Config, out: &View) -> Result<View> {
    let [first, second] = if c.a_is_left() { [0, 1] } else { [1, 0] };
    if c.batched { b.permute(out, &[first, second, 2]) } else { b.permute(out, &[first, second]) }
}

/// The program. C's contiguous mode is along wgmma's columns, unless an operand is converted. With `direct`, threads store C, for one that
/// bulk copies do not support.
pub(super) fn product(b: &mut Builder, c: &Config, sizes: &Sizes, direct: bool) -> Result<()> {
    let [bm, bn, bk] = sizes.tile;
    let (m, n, k) = (Size::symbol("M"), Size::symbol("N"), Size::symbol("K"));
    b.arch(90).cluster([(sizes.cluster * sizes.split_k) as u32, 1, 1]);
    if c.overlaps {
        b.overlaps();
    }
    let a = argument(b, c, "a", c.dtype, ([m, k], c.a_rows), false)?;
    let k_of_b = c.extent_of_b().ok_or_else(|| Problem::new("no such extent"))?;
    let bt = argument(b, c, "b", c.b_dtype, ([n, k_of_b], c.b_rows), false)?;
    let out = argument(b, c, "c", c.out, ([m, n], c.c_rows), true)?;
    b.packs(&a).packs(&bt);
    let scalars = c.alpha_beta.then(|| (b.scalar("alpha", c.scaled()), b.scalar("beta", c.scaled())));
    let group_scales = c.group_scales(b)?;
    for OfGroups { view, .. } in &group_scales {
        b.packs(view);
    }
    let extras = Extras::of(b, c)?;
    let by_rows = [(a, c.a_rows, m), (bt, c.b_rows, n)];
    let [(left, left_rows, rows), (right, right_rows, columns)] = match (c.a_is_left(), by_rows) {
        (true, operands) => operands,
        (false, [a, bt]) => [bt, a],
    };
    let out = left_first(b, c, &out)?;
    let warps = (sizes.warpgroups() * 4) as u32;
    let registers = registers(sizes);
    let members = (sizes.warpgroups() / sizes.warpgroups_of_tile()) as u32;
    let consumers = b.family("consumers", (0, warps), members, registers.map(|all| all.0));
    let producer = b.group("producer", (warps, warps + 4), registers.map(|all| all.1));
    let warpgroups = match members {
        1 => b.family("warpgroups", (0, warps), warps / 4, None),
        _ => consumers,
    };
    let [of_left, of_right] = [b.elem(&left), b.elem(&right)];
    let sl = slots(b, "left", of_left, ([bm, sizes.k_of_left(c)], left_rows), sizes.stages)?;
    let sr = slots(b, "right", of_right, ([bn, bk], right_rows), sizes.stages)?;
    let of = |view| -> Result<Scales> {
        let of = c.grouped(bk, 1).ok_or_else(|| Problem::new("no such groups"))?;
        Scales::new(b, (view, of), sizes)
    };
    let scales = group_scales.into_iter().map(of).collect::<Result<Vec<_>>>()?;
    let ring = b.ring(Ring {
        name: "ring".into(),
        slots: sizes.stages as u32,
        buffers: [&sl, &sr]
            .into_iter()
            .chain(scales.iter().map(|all| &all.to))
            .map(|tiles| tiles.tensor)
            .collect(),
        from: producer,
        to: consumers,
        arrivals: 1,
        over_cluster: (sizes.cluster > 1).then_some(0),
    });
    let count = |of: Size, tile: i64| of.ceil_div(tile).ok_or_else(|| Problem::new("no such tiles"));
    let mut tiles = vec![("row", count(rows, sizes.cluster * bm)?), ("column", count(columns, bn)?)];
    tiles.extend(c.batched.then(|| ("batch", Size::symbol("L"))));
    let steps = count(k, bk * sizes.split_k)?;
    b.competes();
    let multiply = row(c, bn).ok_or_else(|| Problem::new("no such product"))?;
    let part = Part { c, ring, steps, sizes, consumers, warpgroups, multiply, scales };
    if sizes.split_k > 1 {
        return part.product_over_cluster(
            b,
            producer,
            [&left, &right],
            [&sl, &sr],
            &out,
            (&scalars, &extras),
        );
    }
    b.persistent();
    let (raster, early) = (Raster::Bands(sizes.band), !direct && scalars.is_none() && !c.has_matrices());

    let roles: Vec<(Id, Role<'_>)> = vec![
        (
            producer,
            Box::new(|b: &mut Builder| {
                b.tiles(&tiles, raster, |b, at| part.fill(b, at, [&left, &right], [&sl, &sr]))
            }),
        ),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                let acc = part.sums(b)?;
                let staging = Staging::new(b, c, sizes, (direct, warpgroups))?;
                b.tiles(&tiles, raster, |b, at| -> Result<()> {
                    let product = b.token();
                    let multiply = |b: &mut Builder| part.multiply(b, &acc, [&sl, &sr], product);
                    match members {
                        1 => multiply(b)?,
                        _ => b.ordered(&[consumers], multiply)?,
                    }
                    let place = [At::Index(part.rows_of(at)?), At::Index(at[1].clone())];
                    let extras = extras.of_batch(b, c, &batch_of(at))?;
                    let extras = b.within(warpgroups, |b| part.extras(b, &extras, &place, early))?;
                    let out = of_batch(b, c, &out, batch_of(at))?;
                    let tile = b.tile(&out, (bm, bn), &place)?;
                    let inputs = (&scalars, &extras);
                    b.within(warpgroups, |b| part.store(b, inputs, &acc, &tile, &staging))
                })?;
                b.within(warpgroups, |b| staging.finish(b));
                Ok(())
            }),
        ),
    ];
    b.roles(roles)
}

/// The configuration that both roles share.
struct Part<'s> {
    c: &'s Config,
    ring: Id,
    steps: Size,
    sizes: &'s Sizes,
    consumers: Id,
    /// The same threads, as a family of single warpgroups.
    warpgroups: Id,
    multiply: &'static Atom,
    /// Scales of weights in groups along K, with their zero points.
    scales: Vec<Scales>,
}

/// Scales of the left operand, or its zero points: the argument, and slots in shared memory.
struct Scales {
    from: OfGroups,
    to: View,
    of: Grouped,
}

impl Scales {
    fn new(b: &mut Builder, (from, of): (OfGroups, Grouped), sizes: &Sizes) -> Result<Scales> {
        let elem = b.elem(&from.view);
        let to =
            b.shared(from.names[1], elem, of.slots(sizes.tile[0], elem.bytes().into(), sizes.stages)?)?;
        Ok(Scales { from, to, of })
    }
}

impl Part<'_> {
    fn by_warpgroup(&self) -> Arrangement {
        Arrangement {
            groups: Layout::compact((self.sizes.warpgroups_of_tile(), 1i64, 1i64))
                .unwrap_or(layout!((1, 1, 1))),
            of: self.consumers,
        }
    }

    /// The index of a thread's warpgroup among the warpgroups of one tile.
    fn share(&self, b: &Builder) -> Affine {
        if self.sizes.warpgroups_of_tile() > 1 { b.member(self.warpgroups) } else { 0.into() }
    }

    /// This block's rank in its cluster.
    fn rank(&self) -> Affine {
        if self.sizes.cluster > 1 { Coord::ClusterRank.into() } else { 0.into() }
    }

    /// The tile of rows of this block of the cluster.
    fn rows_of(&self, at: &[Affine]) -> Result<Affine> {
        shifted(&times(&at[0], self.sizes.cluster)?, &self.rank())
    }

    /// A step of this block's part of K.
    fn step_of(&self, k: &Affine) -> Result<Affine> {
        if self.sizes.split_k == 1 {
            return Ok(k.clone());
        }
        let before = Affine::two(Arith::Mul, &Coord::ClusterRank.into(), &self.steps.into());
        shifted(k, &before.ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?)
    }

    /// The producer's main loop of a tile: its rows, and its share of the columns for all blocks of the
    /// cluster.
    fn fill(&self, b: &mut Builder, at: &[Affine], from: [&View; 2], to: [&View; 2]) -> Result<()> {
        let ([bm, bn, bk], cluster, rank) = (self.sizes.tile, self.sizes.cluster, self.rank());
        let [left, right] = [
            of_batch(b, self.c, from[0], batch_of(at))?.with_name("rows"),
            of_batch(b, self.c, from[1], batch_of(at))?.with_name("columns"),
        ];
        let of_left = self.sizes.k_of_left(self.c);
        let rows = b.tile(&left, (bm, of_left), &[At::Index(self.rows_of(at)?), At::All])?;
        // Each block copies a part of the columns, or of K where the columns are contiguous, in blocks.
        let along_k = self.c.right_along_k();
        let share = if along_k { [bn / cluster, bk] } else { [bn, bk / cluster] };
        let column = if along_k { shifted(&times(&at[1], cluster)?, &rank)? } else { at[1].clone() };
        let columns = b.tile(&right, (share[0], share[1]), &[At::Index(column), At::All])?;
        let [of_rows, of_columns] = from.map(|view| b.elem(view).bytes());
        let mut bytes = (bm * of_left) as u32 * of_rows + (bn * bk) as u32 * of_columns;
        let mut scales = Vec::new();
        for Scales { from, to, of } in &self.scales {
            let all = of_batch(b, self.c, &from.view, batch_of(at))?.with_name(from.names[0]);
            let tile = b.tile(&all, (bm, of.wide()), &[At::Index(self.rows_of(at)?), At::All])?;
            bytes += of.elements(bm) as u32 * b.elem(&from.view).bytes();
            scales.push((tile, to, of));
        }
        let load = |multicast| bulk_load(self.c, multicast);
        let (load, shared) = (load(false)?, load(cluster > 1)?);
        b.repeat("k", self.steps, Unroll::No, |b, k| -> Result<()> {
            b.acquire(self.ring);
            b.publish(self.ring, Some(bytes));
            let slot = b.slot(self.ring);
            let k = self.step_of(&k)?;
            let (source, target) = (last(b, &rows, &k)?, last(b, to[0], &slot)?);
            b.copy_how(&source, &target, load, None)?;
            let part = if along_k { k.clone() } else { shifted(&times(&k, cluster)?, &rank)? };
            let (source, target) = (last(b, &columns, &part)?, last(b, to[1], &slot)?);
            let place = if along_k { [rank.clone(), 0.into()] } else { [0.into(), rank.clone()] };
            let target = b.tile(&target, (share[0], share[1]), &place.map(At::Index))?;
            b.copy_how(&source, &target, shared, None)?;
            for (tile, to, of) in &scales {
                let target = last(b, to, &slot)?;
                of.copy(b, (tile, &target, bm), &k, load)?;
            }
            b.advance(self.ring);
            Ok(())
        })
    }

    /// Registers for the sums of a tile.
    fn sums(&self, b: &mut Builder) -> Result<View> {
        let [bm, bn, _] = self.sizes.tile;
        b.operand("acc", self.multiply, OperandName::D, [bm, bn], &self.by_warpgroup())
    }

    /// The consumers' main loop of a tile.
    fn multiply(&self, b: &mut Builder, acc: &View, from: [&View; 2], product: Id) -> Result<()> {
        b.fill(acc, Expr::lit(0.0))?;
        self.multiply_converted(b, acc, from, product)
    }
}
