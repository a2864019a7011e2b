//! The product on Hopper's tensor cores, as a tile program: a warp-specialized, persistent kernel whose
//! producer fills a ring by bulk copies, and whose consumers multiply from it with wgmma.
//!
//! A cluster of two blocks computes two tiles of C that share their columns: each block copies its own rows,
//! and multicasts half of the columns. The ring is never drained between tiles, so copies of the next tile
//! overlap the epilogue of this one. The epilogue goes through shared memory, from where bulk stores run
//! while the next tile is multiplied.

use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value as Size, layout};

use super::Config;
use super::product::epilogue;
use crate::affine::{Affine, Coord};
use crate::atom::Atom;
use crate::atoms;
use crate::build::Builder;
use crate::elem::Elem;
use crate::fragment::Arrangement;
use crate::problem::{Problem, Result};
use crate::target::Target;
use crate::thread::{Bin, Cost, Id, Unroll};
use crate::tile::{Expr, How, Op, Raster, Ring};
use crate::view::{At, View};

/// Rows of a wgmma.
const ROWS: i64 = 64;
/// Bytes of a row of shared memory as wgmma and bulk copies swizzle it.
const SWIZZLED: i64 = 128;
/// Registers of consumer and of producer threads (setmaxnreg), with two consumer warpgroups.
const REGISTERS: (u32, u32) = (232, 40);
/// Most slots of the ring by default.
const STAGES: i64 = 8;
/// The fragment of 16x16 accumulators that stmatrix stores: that of wgmma, 16 columns at a time.
const FRAGMENT: (&str, char, &str) = ("mma_m16n8k16_bf16", 'a', "stmatrix_x4");

/// Sizes of the product by wgmma.
pub(super) struct Sizes {
    /// Rows and columns that a block computes of C, or of its transpose where columns of C are contiguous,
    /// and the length of a step along K.
    pub(super) tile: [i64; 3],
    /// Slots of the ring.
    pub(super) stages: i64,
    /// Blocks of a cluster, along the rows of C.
    pub(super) cluster: i64,
    /// Rows of tiles in a band of the raster order: concurrent tiles share operands in the L2 cache.
    pub(super) band: u32,
    /// Do two warpgroups alternate tiles, so that one multiplies while the other runs its epilogue?
    pub(super) ping_pong: bool,
    /// Measured clocks, if any: of a main loop step, and the overheads of a tile and of a launch.
    pub(super) clocks: Option<[u32; 3]>,
}

/// Tile sizes of the default variants, rows and columns, with clocks of an H100 at 1.98 GHz: see
/// bench/NOTES.md.
const SHIPPED: [([i64; 2], [u32; 3]); 3] =
    [([128, 256], [1300, 5800, 3100]), ([128, 128], [780, 2400, 6400]), ([64, 128], [480, 1200, 6100])];

impl Sizes {
    /// The default sizes, among which a launch chooses.
    pub(super) fn shipped(elem: Elem) -> Vec<Sizes> {
        let of = |([bm, bn], clocks): ([i64; 2], [u32; 3])| {
            let tile = [bm, bn, SWIZZLED / i64::from(elem.bytes())];
            let mut sizes =
                Sizes { tile, stages: 1, cluster: 1, band: 8, ping_pong: false, clocks: Some(clocks) };
            sizes.stages = sizes.most_stages(elem);
            sizes
        };
        SHIPPED.map(of).into()
    }

    /// Defaults of keys that are not given.
    pub(super) fn usual(elem: Elem) -> Sizes {
        Sizes { clocks: None, ..Sizes::shipped(elem).swap_remove(0) }
    }

    /// As many slots as fit in shared memory beside the epilogue's buffers.
    pub(super) fn most_stages(&self, elem: Elem) -> i64 {
        (self.room() / self.slot(elem).max(1)).clamp(1, STAGES)
    }

    /// Consumer warpgroups.
    fn warpgroups(&self) -> i64 {
        if self.ping_pong { 2 } else { (self.tile[0] / ROWS).clamp(1, 2) }
    }

    /// Warpgroups that compute one tile together.
    fn warpgroups_of_tile(&self) -> i64 {
        if self.ping_pong { 1 } else { self.warpgroups() }
    }

    /// Rows of a tile that one warpgroup computes.
    fn rows(&self) -> i64 {
        self.tile[0] / self.warpgroups_of_tile()
    }

    /// The parts in which the epilogue stores a tile: how many, and of how many columns. A part is as wide as
    /// a swizzle; their number is even if possible, so that two buffers alternate from tile to tile.
    fn store_parts(&self) -> (i64, i64) {
        let columns = self.rows() / ROWS * self.tile[1];
        let fits = |wide: &i64| self.tile[1] % wide == 0 && columns % (2 * wide) == 0;
        let wide = [64, 32].into_iter().find(fits).unwrap_or(16);
        (columns / wide, wide)
    }

    /// Epilogue buffers of a warpgroup: one is written while a bulk store reads the other.
    fn buffers(&self) -> i64 {
        if self.store_parts().0 % 2 == 0 { 2 } else { 1 }
    }

    /// Bytes of shared memory for the ring, beside mbarriers and epilogue buffers of 16-bit elements.
    fn room(&self) -> i64 {
        let buffers = self.warpgroups() * self.buffers() * ROWS * self.store_parts().1 * 2;
        i64::from(Target::of(90).block_shared) - 1024 - buffers
    }

    /// Bytes of a slot of the ring.
    fn slot(&self, elem: Elem) -> i64 {
        (self.tile[0] + self.tile[1]) * self.tile[2] * i64::from(elem.bytes())
    }
}

/// The wgmma instruction for an element type and so many columns.
pub(super) fn row(elem: Elem, columns: i64) -> Option<&'static Atom> {
    atoms::find(&format!("wgmma_m{ROWS}n{columns}k{}_{elem}", 32 / elem.bytes()))
}

/// Why wgmma does not support these sizes, and the key that is wrong.
pub(super) fn unfit(sizes: &Sizes, config: &Config) -> Option<(&'static str, Problem)> {
    let ([bm, bn, bk], elem) = (sizes.tile, config.dtype);
    let across = SWIZZLED / i64::from(elem.bytes());
    let wrong = |key, message: String, help: &str| Some((key, Problem::new(message).help(help)));
    // The keys of wgmma's rows and columns: the transposed product swaps them.
    let [of_rows, of_columns] = if config.c_rows { ["bm", "bn"] } else { ["bn", "bm"] };
    if ![1, 2].contains(&sizes.cluster) {
        let along = if config.c_rows { "rows" } else { "columns" };
        let message = format!(
            "a cluster has one block or two along the {along} of C, and cluster is {}",
            sizes.cluster
        );
        return wrong("cluster", message, "write cluster = 1 or cluster = 2");
    }
    if ![1, 2, 4].contains(&(bm / ROWS)) || bm % ROWS != 0 || (sizes.ping_pong && bm > 2 * ROWS) {
        return wrong(
            of_rows,
            format!("wgmma takes {ROWS} rows of each warpgroup, once or twice, and {of_rows} is {bm}"),
            &format!("write {of_rows} = 64, {of_rows} = 128 or {of_rows} = 256"),
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
    if row(elem, bn).is_none() || bn % 16 != 0 {
        return wrong(
            of_columns,
            format!("wgmma takes 16 to 256 columns in steps of 16, and {of_columns} is {bn}"),
            &format!("write {of_columns} = 128 or {of_columns} = 256"),
        );
    }
    if sizes.rows() * bn > 64 * 256 {
        let [rows, columns] = config.operands_of(sizes.tile);
        return wrong(
            of_columns,
            format!(
                "a thread has {} accumulators of a tile of {rows} by {columns}, and at most 128 fit",
                sizes.rows() * bn / 128
            ),
            &format!("write {of_columns} = 128, or a smaller {of_rows}"),
        );
    }
    // MN-major operands are copied in blocks of 64, and each block of the cluster copies its own.
    let step = across * sizes.cluster;
    let by_columns = if config.c_rows { !config.b_rows } else { !config.a_rows };
    if by_columns && bn % step != 0 {
        let message = format!(
            "an operand that is not k_major is copied in blocks of {across}, by {} blocks of a cluster, and {of_columns} is {bn}",
            sizes.cluster
        );
        return wrong(of_columns, message, &format!("write a multiple of {step}"));
    }
    let (bytes, room) = (sizes.slot(elem) * sizes.stages, sizes.room());
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

/// The program. C's contiguous mode lies along wgmma's columns. With `direct`, threads store their
/// accumulators to global memory, for a C that bulk copies do not support.
pub(super) fn product(b: &mut Builder, c: &Config, sizes: &Sizes, direct: bool) -> Result<()> {
    let [bm, bn, bk] = sizes.tile;
    let (m, n, k) = (Size::symbol("M"), Size::symbol("N"), Size::symbol("K"));
    b.arch(90).cluster([sizes.cluster as u32, 1, 1]).persistent();
    if c.overlaps {
        b.overlaps();
    }
    let mut tensor = |name: &str, extents: [Size; 2], rows: bool, written| {
        let ld = Size::symbol(&format!("ld{name}"));
        let stride = if rows { [ld, 1.into()] } else { [1.into(), ld] };
        let tuple = |of: [Size; 2]| Tuple::of(of.map(Tuple::from));
        b.tensor(name, c.dtype, tuple(extents), Some(tuple(stride)), written)
    };
    let (a, bt) = (tensor("a", [m, k], c.a_rows, false)?, tensor("b", [n, k], c.b_rows, false)?);
    let out = tensor("c", [m, n], c.c_rows, true)?;
    let scalars = c.alpha_beta.then(|| (b.scalar("alpha", c.acc), b.scalar("beta", c.acc)));
    // The transposed product, where columns of C are contiguous.
    let by_rows = [(a, c.a_rows, m), (bt, c.b_rows, n)];
    let [(left, left_rows, rows), (right, right_rows, columns)] = match (c.c_rows, by_rows) {
        (true, operands) => operands,
        (false, [a, bt]) => [bt, a],
    };
    let out = if c.c_rows { out } else { b.permute(&out, &[1, 0])? };

    let warps = (sizes.warpgroups() * 4) as u32;
    let registers = (sizes.warpgroups() > 1).then_some(REGISTERS);
    let members = (sizes.warpgroups() / sizes.warpgroups_of_tile()) as u32;
    let consumers = b.family("consumers", (0, warps), members, registers.map(|all| all.0));
    let producer = b.group("producer", (warps, warps + 4), registers.map(|all| all.1));
    let warpgroups = match members {
        1 => b.family("warpgroups", (0, warps), warps / 4, None),
        _ => consumers,
    };
    let sl = slots(b, "left", c.dtype, (bm, left_rows), sizes)?;
    let sr = slots(b, "right", c.dtype, (bn, right_rows), sizes)?;
    let ring = b.ring(Ring {
        name: "ring".into(),
        slots: sizes.stages as u32,
        buffers: vec![sl.tensor, sr.tensor],
        from: producer,
        to: consumers,
        arrivals: 1,
        over_cluster: (sizes.cluster > 1).then_some(0),
    });
    let count = |of: Size, tile: i64| of.ceil_div(tile).ok_or_else(|| Problem::new("no such tiles"));
    let tiles = [("row", count(rows, sizes.cluster * bm)?), ("column", count(columns, bn)?)];
    let steps = count(k, bk)?;
    if let (Some([step, tile, launch]), false) = (sizes.clocks, direct) {
        b.cost(Cost { steps, step, tile, launch });
    }
    let multiply = row(c.dtype, bn).ok_or_else(|| Problem::new("no such product"))?;
    let part = Part { ring, steps, sizes, consumers, warpgroups, multiply };
    let raster = Raster::Bands(sizes.band);

    b.roles(vec![
        (
            producer,
            Box::new(|b: &mut Builder| {
                b.tiles(&tiles, raster, |b, at| part.fill(b, at, [&left, &right], [&sl, &sr]))
            }),
        ),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                let acc = b.operand("acc", multiply, 'd', [bm, bn], &part.by_warpgroup())?;
                let staging = if direct { None } else { Some(Staging::new(b, c.dtype, sizes)?) };
                b.tiles(&tiles, raster, |b, at| -> Result<()> {
                    let product = match members {
                        1 => part.multiply(b, &acc, [&sl, &sr])?,
                        _ => {
                            let mut product = 0;
                            b.ordered(&[consumers], |b| {
                                product = part.multiply(b, &acc, [&sl, &sr])?;
                                Ok(())
                            })?;
                            product
                        }
                    };
                    part.finish(b, product)?;
                    let rows = part.rows_of(at)?;
                    let tile = b.tile(&out, (bm, bn), &[At::Index(rows), At::Index(at[1].clone())])?;
                    b.within(warpgroups, |b| part.store(b, (c, &scalars), &acc, &tile, staging.as_ref()))
                })?;
                // The block must not staging before bulk stores have read its shared memory.
                b.within(warpgroups, |b| staging.iter().for_each(|staging| b.wait(staging.stores)));
                Ok(())
            }),
        ),
    ])
}

fn shifted(x: &Affine, by: &Affine) -> Result<Affine> {
    x.plus(by, 1).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))
}

fn times(x: &Affine, by: i64) -> Result<Affine> {
    x.times(by).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))
}

/// Rows of so many bytes, with the hardware swizzle of bulk copies and wgmma: groups of 16 bytes are
/// exchanged among rows.
fn swizzled(elem: Elem, bytes: i64, layout: Layout) -> Result<Composed> {
    let group = (16 / elem.bytes()).trailing_zeros();
    Ok(Composed::new(Swizzle::new((bytes / 16).trailing_zeros(), group, 3)?, 0, layout))
}

/// The ring slots of an operand, in rows of 128 bytes: K-major, or in MN-major blocks.
fn slots(
    b: &mut Builder,
    name: &str,
    elem: Elem,
    (rows, along_k): (i64, bool),
    sizes: &Sizes,
) -> Result<View> {
    let across = sizes.tile[2];
    let layout = match along_k {
        true => Layout::new((rows, across, sizes.stages), (across, 1i64, rows * across))?,
        false => Layout::new(
            ((across, rows / across), across, sizes.stages),
            ((1i64, across * across), across, rows * across),
        )?,
    };
    b.shared(name, elem, swizzled(elem, SWIZZLED, layout)?)
}

/// A view at one index of its last mode.
fn last(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
}

/// The epilogue's shared memory: buffers of each warpgroup, registers for packed elements, and the token of
/// the bulk stores.
struct Staging {
    buffers: View,
    packed: View,
    stores: Id,
}

impl Staging {
    fn new(b: &mut Builder, elem: Elem, sizes: &Sizes) -> Result<Staging> {
        let (_, wide) = sizes.store_parts();
        let count = sizes.buffers() * sizes.warpgroups();
        let layout = Layout::new((ROWS, wide, count), (wide, 1i64, ROWS * wide))?;
        let buffers = b.shared("leaving", elem, swizzled(elem, wide * i64::from(elem.bytes()), layout)?)?;
        let packed = b.registers_in("packed", elem, Tuple::flat(&[8, 1, wide / 16]), true)?;
        Ok(Staging { buffers, packed, stores: b.token() })
    }
}

/// The configuration that both roles share.
struct Part<'s> {
    ring: Id,
    steps: Size,
    sizes: &'s Sizes,
    consumers: Id,
    /// The same threads, as a family of single warpgroups.
    warpgroups: Id,
    multiply: &'static Atom,
}

impl Part<'_> {
    fn by_warpgroup(&self) -> Arrangement {
        Arrangement {
            groups: Layout::compact((self.sizes.warpgroups_of_tile(), 1i64, 1i64))
                .unwrap_or(layout!((1, 1, 1))),
            of: self.consumers,
        }
    }

    /// The index of a thread's warpgroup among those that compute one tile.
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

    /// The producer's main loop of a tile: its rows, and its share of the columns for all blocks of the
    /// cluster.
    fn fill(&self, b: &mut Builder, at: &[Affine], from: [&View; 2], to: [&View; 2]) -> Result<()> {
        let ([bm, bn, bk], cluster, rank) = (self.sizes.tile, self.sizes.cluster, self.rank());
        let share = bn / cluster;
        let rows = b.tile(from[0], (bm, bk), &[At::Index(self.rows_of(at)?), At::All])?.with_name("rows");
        let column = shifted(&times(&at[1], cluster)?, &rank)?;
        let columns = b.tile(from[1], (share, bk), &[At::Index(column), At::All])?.with_name("columns");
        let bytes = ((bm + bn) * bk) as u32 * b.elem(from[0]).bytes();
        let shared = if cluster > 1 { "bulk_load_2d_multicast" } else { "bulk_load_2d" };
        b.repeat("k", self.steps, Unroll::No, |b, k| -> Result<()> {
            b.acquire(self.ring);
            b.publish(self.ring, Some(bytes));
            let slot = b.slot(self.ring);
            let (source, target) = (last(b, &rows, &k)?, last(b, to[0], &slot)?);
            b.copy_how(&source, &target, How::Atom("bulk_load_2d"), None)?;
            let (source, target) = (last(b, &columns, &k)?, last(b, to[1], &slot)?);
            let target = b.tile(&target, (share, bk), &[At::Index(rank.clone()), At::Index(0.into())])?;
            b.copy_how(&source, &target, How::Atom(shared), None)?;
            b.advance(self.ring);
            Ok(())
        })
    }

    /// The consumers' main loop of a tile. One wgmma group stays in flight while the next is issued; a slot
    /// is released once the product that reads it is done.
    fn multiply(&self, b: &mut Builder, acc: &View, from: [&View; 2]) -> Result<Id> {
        let (bk, rows) = (self.sizes.tile[2], self.sizes.rows());
        b.fill(acc, Expr::lit(0.0))?;
        let share = self.share(b);
        b.repeat("k", self.steps, Unroll::No, |b, k| -> Result<Id> {
            b.await_slot(self.ring);
            let slot = b.slot(self.ring);
            let (left, right) = (last(b, from[0], &slot)?, last(b, from[1], &slot)?);
            let left = b.tile(&left, (rows, bk), &[At::Index(share.clone()), At::Index(0.into())])?;
            let token = b.start_gemm(&left, &right, acc, How::Atom(self.multiply.name))?;
            b.wait_all_but(token, 1);
            let phase = self.previous_phase(b)?;
            b.condition(&k.times(-1).unwrap_or_default(), Size::Int(0), |b| {
                b.statement(Op::Release { ring: self.ring, phase });
                Ok(())
            })?;
            b.advance(self.ring);
            Ok(token)
        })
    }

    /// Waits for the last product of a tile, and releases its slot.
    fn finish(&self, b: &mut Builder, product: Id) -> Result<()> {
        b.wait(product);
        let phase = self.previous_phase(b)?;
        b.statement(Op::Release { ring: self.ring, phase });
        Ok(())
    }

    /// The previous phase.
    fn previous_phase(&self, b: &Builder) -> Result<Affine> {
        shifted(&b.phase(self.ring), &(-1).into())
    }

    /// The epilogue, 64 rows and some columns at a time: through a shared buffer and a bulk store, or from
    /// registers.
    fn store(
        &self,
        b: &mut Builder,
        (c, scalars): (&Config, &Option<(Expr, Expr)>),
        acc: &View,
        tile: &View,
        staging: Option<&Staging>,
    ) -> Result<()> {
        let (bn, down, buffers) = (self.sizes.tile[1], self.sizes.rows() / ROWS, self.sizes.buffers());
        let (parts, wide) = self.sizes.store_parts();
        let (fragment, operand, store) = FRAGMENT;
        let fragment = atoms::find(fragment).ok_or_else(|| Problem::new("no such fragment"))?;
        let store_by = atoms::find(store).ok_or_else(|| Problem::new("no such store"))?;
        let by_warp = Arrangement { groups: layout!((4, 1, 1)), of: self.warpgroups };
        // Accumulators of 16 columns, along M, along N.
        let sums = b.regroup(acc, (8i64, bn / 16, down))?;
        let sums = b.permute(&sums, &[0, 2, 1])?;
        b.repeat("part", Size::Int(parts), Unroll::Full, |b, part| -> Result<()> {
            let (row, column) = (part.digit(bn / wide, None), part.digit(1, Some(bn / wide)));
            let mine = shifted(&times(&self.share(b), down)?, &row)?;
            let out = b.tile(tile, (ROWS, wide), &[At::Index(mine), At::Index(column.clone())])?;
            let at = [At::Index(0.into()), At::Index(row), At::Index(column)];
            let sums = b.tile(&sums, (8i64, 1i64, wide / 16), &at)?.with_name("sums");
            let elements = b.partition_mma(&out, fragment, operand, &by_warp)?.with_name("out");
            let Some(staging) = staging else {
                return scaled(b, c, scalars, &sums, &elements, &elements);
            };
            scaled(b, c, scalars, &sums, &elements, &staging.packed)?;
            let buffer =
                shifted(&times(&b.member(self.warpgroups), buffers)?, &part.digit(1, Some(buffers)))?;
            let buffer = last(b, &staging.buffers, &buffer)?;
            let rows = b.partition_rows(&buffer, fragment, operand, store_by, &by_warp)?;
            // The previous bulk store from this buffer must have read it.
            b.wait_all_but(staging.stores, buffers as u32 - 1);
            b.sync();
            b.copy_how(&staging.packed, &rows, How::Atom(store), None)?;
            b.sync();
            b.copy_how(&buffer, &out, How::Atom("bulk_store_2d"), Some(staging.stores))
        })
    }
}

/// The epilogue of accumulators on their way to `to`; `before` is C as it was.
fn scaled(
    b: &mut Builder,
    c: &Config,
    scalars: &Option<(Expr, Expr)>,
    sums: &View,
    before: &View,
    to: &View,
) -> Result<()> {
    let plain = Expr::In(0);
    match scalars {
        None => epilogue(b, c, sums, (before, to), plain, None),
        Some((alpha, beta)) => {
            let scaled = Expr::Bin(Bin::Mul, Box::new(alpha.clone()), Box::new(plain));
            epilogue(b, c, sums, (before, to), scaled, Some(beta.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use tilewright_layout::Value as Size;

    use crate::definition::Definition;
    use crate::elem::Elem;
    use crate::launch::{self, Given};
    use crate::words::Words;

    /// Diagnostics of keys, or whether the first variant multiplies by wgmma.
    fn made(keys: &str) -> Result<bool, String> {
        let outcome = Definition::Matmul(Words::read(keys).unwrap().args().to_vec()).generate();
        let errors: Vec<String> = outcome.diagnostics.iter().map(|error| error.text()).collect();
        outcome.kernel.map(|kernel| kernel.variants[0].program.arch_specific).ok_or_else(|| errors.join("\n"))
    }

    #[test]
    fn auto_takes_tensor_cores_where_it_can() {
        const ROWS: &str = "dtype=bf16 arch=90 a=k_major b=k_major";
        assert_eq!(made(ROWS), Ok(true));
        assert_eq!(made(&format!("{ROWS} c=n_major bm=64 bn=96")), Ok(true));
        assert_eq!(made(&format!("{ROWS} mma=none")), Ok(false));
        assert_eq!(made(&format!("{ROWS} order=serpentine")), Ok(false));
        assert_eq!(made("dtype=bf16 a=k_major b=k_major"), Ok(false));
        assert_eq!(made("dtype=bf16 arch=90"), Ok(true));
        assert_eq!(made("dtype=f16 arch=90 a=k_major overlaps=true"), Ok(true));
        assert_eq!(made("dtype=f32 arch=90"), Ok(false));
    }

    /// Rows of C are contiguous, so bm is about the rows of wgmma.
    #[track_caller]
    fn check(keys: &str, expected: &str) {
        check_order(&format!("c=n_major {keys}"), expected);
    }

    #[track_caller]
    fn check_order(keys: &str, expected: &str) {
        assert_eq!(
            made(&format!("dtype=bf16 arch=90 a=k_major b=k_major mma=wgmma {keys}")),
            Err(expected.into())
        );
    }

    #[test]
    fn limits_of_wgmma_are_reported_at_their_key() {
        check(
            "bm=96",
            "wgmma takes 64 rows of each warpgroup, once or twice, and bm is 96\nhelp: write bm = 64, bm = 128 or bm = 256",
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
            "8 stages take 393216 bytes of shared memory, and a block has 198656 for them\nhelp: write fewer stages",
        );
        check(
            "vec=8",
            "`vec` is about the threads of a product without tensor cores\nhelp: leave it out, or write mma = none",
        );
        check(
            "batched=true",
            "a product by wgmma has no batches yet\nhelp: leave batched out, or write mma = none",
        );
        check(
            "cluster=4",
            "a cluster has one block or two along the rows of C, and cluster is 4\nhelp: write cluster = 1 or cluster = 2",
        );
        check(
            "bm=256",
            "a thread has 256 accumulators of a tile of 256 by 256, and at most 128 fit\nhelp: write bn = 128, or a smaller bm",
        );
        assert_eq!(
            made("dtype=bf16 arch=90 bm=64 bn=64 c=n_major cluster=2"),
            Err("an operand that is not k_major is copied in blocks of 64, by 2 blocks of a cluster, and bn is 64\nhelp: write a multiple of 128".into())
        );
        assert_eq!(
            made("dtype=bf16 mma=wgmma"),
            Err("wgmma is an instruction of sm_90a\nhelp: write arch = 90".into())
        );
    }

    #[test]
    fn the_transposed_product_blames_the_other_key() {
        check_order(
            "bn=96",
            "wgmma takes 64 rows of each warpgroup, once or twice, and bn is 96\nhelp: write bn = 64, bn = 128 or bn = 256",
        );
        check_order(
            "bm=100",
            "wgmma takes 16 to 256 columns in steps of 16, and bm is 100\nhelp: write bm = 128 or bm = 256",
        );
        check_order(
            "cluster=4",
            "a cluster has one block or two along the columns of C, and cluster is 4\nhelp: write cluster = 1 or cluster = 2",
        );
        check_order(
            "bm=192 bn=256",
            "a thread has 192 accumulators of a tile of 192 by 256, and at most 128 fit\nhelp: write bm = 128, or a smaller bn",
        );
        assert_eq!(
            made("dtype=bf16 arch=90 bm=64 bn=64 cluster=2"),
            Err("an operand that is not k_major is copied in blocks of 64, by 2 blocks of a cluster, and bm is 64\nhelp: write a multiple of 128".into())
        );
    }

    /// Checks the tile of C that a block computes in a product of these sizes.
    #[track_caller]
    fn check_chosen([m, n, k]: [i64; 3], expected: [i64; 2]) {
        let keys = Words::read("dtype=bf16 arch=90 a=k_major b=k_major c=n_major").unwrap();
        let kernel = Definition::Matmul(keys.args().to_vec()).generate().kernel.unwrap();
        let tensor = |extents: [i64; 2], mutable: bool| {
            let strides = vec![extents[1], 1];
            let len = (extents[0] * extents[1]) as u64;
            let elem = Elem::Bf16;
            Given::Tensor(launch::Tensor {
                elem,
                mutable,
                extents: extents.to_vec(),
                strides,
                len,
                address: 1 << (if mutable { 40 } else { 32 }),
            })
        };
        let given = [tensor([m, k], false), tensor([n, k], false), tensor([m, n], true)];
        let plan = launch::plan(&kernel, &given, &launch::Limits::HOPPER).unwrap();
        let program = &kernel.variants[plan.variant].program;
        let tiles = program.launch.grid.iter().take(2).flatten();
        let sizes: Vec<i64> = tiles
            .map(|count| match count {
                Size::Sym { over, .. } => i64::from(*over),
                _ => 1,
            })
            .collect();
        assert_eq!(sizes, expected, "variant {}", plan.variant + 1);
    }

    #[test]
    fn a_launch_chooses_among_tiles() {
        check_chosen([4096, 4096, 4096], [128, 256]);
        check_chosen([1024, 1024, 1024], [64, 128]);
        check_chosen([3072, 3072, 3072], [128, 128]);
        // Leading dimensions that bulk copies do not support.
        check_chosen([1024, 1023, 1024], [128, 256]);
    }
}
