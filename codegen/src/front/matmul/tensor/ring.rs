//! The product by mma.sync on architectures with bulk copies: warp-specialized and persistent. One warp fills a ring
//! by bulk copies, which need no instructions of the warps that multiply. Those warps wait for slots of the ring, and
//! never for each other. The ring is not drained between tiles, so copies of the next tile overlap the epilogue of
//! this tile. Each warp stores its part of C from shared memory by its own bulk copies. If these do not support C,
//! adjacent threads store adjacent elements.

use crate::thread::atom::OperandName;
use tilewright_layout::{Layout, Value as Size, layout};

use super::{BAND, Plan, Scalars, scaled, store_gathered};
use crate::build::Builder;
use crate::build::tiled::{Fill, Route, Scaling, TiledMma};
use crate::front::matmul::Config;
use crate::front::matmul::bulk::{
    batch_of, bulk_load, bulk_store, last, row_of, shifted, slots, swizzled, times,
};
use crate::front::matmul::product::{Extras, argument, epilogue, of_batch};
use crate::front::matmul::scales::{Grouped, OfGroups};
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::view::{At, View};
use crate::tile::{How, Program, Raster, Ring};
use crate::values::affine::Affine;
use crate::values::target::{Target, WARP};

/// The first architecture with bulk copies.
pub(in crate::front::matmul) const BULK: u32 = 90;
/// Bytes of a swizzled row, at least.
const LEAST: i64 = 32;
/// Most rows or columns of a bulk copy.
const BOX: i64 = 256;
/// Bytes for mbarriers and the alignment of swizzles.
pub(super) const MBARRIERS: i64 = 1024;

/// Registers of consumer and of producer threads (setmaxnreg), with two consumer warpgroups: the producer only needs
/// some for coordinates.
const REGISTERS: (u32, u32) = (240, 24);
/// Accumulators of a thread that leave registers for addresses of a bias, or of C, beside direct stores' addresses.
const MOST_SUMS: i64 = 128;

/// Slots of the ring, and buffers of each warp in the epilogue.
#[derive(Clone, Copy)]
struct Rooms {
    stages: i64,
    buffers: i64,
}

/// The configuration that both roles share.
struct Part<'p> {
    c: &'p Config,
    plan: &'p Plan,
    ring: Id,
    steps: Size,
    /// The tiled MMA of all consumers, and of one of their warps alone.
    mma: TiledMma,
    alone: TiledMma,
}

/// An operand or its scales: the argument, its slots in shared memory, the extents of its tiles, and which coordinate of a tile of C
/// they belong to.
struct Operand {
    from: View,
    to: View,
    tile: [i64; 2],
    place: usize,
    scales: Option<Grouped>,
}

/// The epilogue's shared memory.
struct EpilogueBuffers {
    buffers: View,
    count: i64,
    leave: Leave,
}

/// How a warp stores C from shared memory.
enum Leave {
    /// By bulk stores, under this token.
    Bulk(Id),
    /// By its threads, element by element.
    Threads(Box<Fill>),
}

/// The program, if bulk copies and ldmatrix support the types, orders and sizes. With `direct`, threads store C.
pub(super) fn program(c: &Config, plan: &Plan, direct: bool) -> Result<Option<Program>> {
    let [left, right] = c.operands_of(plan.tile);
    let [along_left, along_right] = if c.a_left { [c.a_rows, c.b_rows] } else { [c.b_rows, c.a_rows] };
    let mut fits = c.arch >= BULK
        && c.a_left == c.c_rows
        && !c.block_scales
        && c.of_tiles.is_none()
        && left.max(right).max(plan.tile[2]) <= BOX;
    let sides = [(along_left, left, 0), (along_right, right, 1)];
    for ((along_k, rows, mode), elem) in sides.into_iter().zip(c.left_and_right()) {
        let bytes = i64::from(elem.bytes());
        let k = if elem == c.b_dtype { c.k_of_b(plan.tile[2]) } else { plan.tile[2] };
        // Elements that are converted are loaded in pairs along K.
        fits &= along_k || elem == c.dtype || !c.mixed();
        let run = row_of(if along_k { k } else { rows }, bytes);
        let part = rows / plan.mma.groups.mode(mode)?.size()?;
        // A warp's part of rows in blocks consists of whole blocks, or is in one block.
        let divides = along_k || part % run == 0 || run % part == 0;
        fits &= run * bytes >= LEAST && divides;
    }
    if has_epilogue_tile(c, plan)? {
        fits &= wide(c, plan)? * i64::from(c.out.bytes()) >= LEAST;
    } else if c.bias.is_some() || c.alpha_beta || c.has_matrices() {
        fits &= left * right / plan.mma.threads()? < MOST_SUMS;
    }
    let (true, Some(rooms)) = (fits, rooms(c, plan, direct)?) else { return Ok(None) };
    let mut b = Builder::new(&c.name);
    Ok(product(&mut b, c, plan, rooms, direct)?.then(|| b.finish()))
}

/// Columns of C that a warp stores at once.
fn wide(c: &Config, plan: &Plan) -> Result<i64> {
    let [_, right] = c.operands_of(plan.tile);
    Ok(row_of(right / plan.mma.groups.mode(1)?.size()?, i64::from(c.out.bytes())))
}

/// Does C go through shared memory? Not if fragments already write whole sectors.
fn has_epilogue_tile(c: &Config, plan: &Plan) -> Result<bool> {
    Ok(c.out.bytes() < 4 && plan.mma.parts_of_k()? == 1)
}

/// The stages and buffers that fit in shared memory: two buffers, so that one is written while bulk copies store the
/// other, unless that leaves too few slots for copies to run ahead.
fn rooms(c: &Config, plan: &Plan, direct: bool) -> Result<Option<Rooms>> {
    let warps = plan.mma.threads()? / i64::from(WARP);
    let buffer = warps * plan.mma.shape()[0] * wide(c, plan)? * i64::from(c.out.bytes());
    let room = i64::from(Target::of(c.arch).block_shared) - MBARRIERS;
    let slot = plan.bytes(c) / plan.stages;
    let (has_tile, gathered) = (has_epilogue_tile(c, plan)?, plan.gathered(c, plan.parts()));
    let of = |buffers: i64| Rooms {
        stages: ((room - if has_tile { buffers * buffer } else { gathered }) / slot).min(plan.stages),
        buffers,
    };
    let fits = |rooms: &Rooms, least: i64| rooms.stages >= least;
    Ok([(of(2), plan.stages.min(3)), (of(1), 2)]
        .into_iter()
        .skip(usize::from(direct))
        .find(|(rooms, least)| fits(rooms, *least))
        .map(|of| of.0))
}

/// Builds the program; `false` if the operands' fragments are not loaded by ldmatrix, which alone reads swizzled rows
/// without bank conflicts.
fn product(b: &mut Builder, c: &Config, plan: &Plan, rooms: Rooms, direct: bool) -> Result<bool> {
    let (m, n, k) = (Size::symbol("M"), Size::symbol("N"), Size::symbol("K"));
    b.arch(c.arch).persistent();
    if plan.overlaps {
        b.overlaps();
    }
    let a = argument(b, c, "a", c.dtype, ([m, k], c.a_rows), false)?;
    let k_of_b = c.extent_of_b().ok_or_else(|| Problem::new("no such extent"))?;
    let bt = argument(b, c, "b", c.b_dtype, ([n, k_of_b], c.b_rows), false)?;
    let out = argument(b, c, "c", c.out, ([m, n], c.c_rows), true)?;
    let scalars = c.alpha_beta.then(|| (b.scalar("alpha", c.scaled()), b.scalar("beta", c.scaled())));
    let group_scales = c.group_scales(b)?;
    for view in [&a, &bt].into_iter().chain(group_scales.iter().map(|of| &of.view)) {
        b.packs(view);
    }
    let extras = Extras::of(b, c)?;
    let [left, right] = c.operands_of(plan.tile);
    let bk = plan.tile[2];
    let sides = [("a", a, m, c.a_rows), ("b", bt, n, c.b_rows)];
    let [first, second] = if c.a_left {
        sides
    } else {
        let [a, bt] = sides;
        [bt, a]
    };
    let order: &[usize] = match (c.a_left, c.batched) {
        (true, false) => &[0, 1],
        (true, true) => &[0, 1, 2],
        (false, false) => &[1, 0],
        (false, true) => &[1, 0, 2],
    };
    let out = b.permute(&out, order)?;

    let warps = (plan.mma.threads()? / i64::from(WARP)) as u32;
    // With two consumer warpgroups, registers of the producer's warps go to them: each part of a multiprocessor has
    // registers for 255 in two warps, and for 168 in three. Warps that share K have small tiles.
    let (registers, filling) =
        if warps == 8 && plan.mma.parts_of_k()? == 1 { (Some(REGISTERS), 4) } else { (None, 1) };
    let consumers = b.group("consumers", (0, warps), registers.map(|all| all.0));
    let producer = b.group("producer", (warps, warps + filling), registers.map(|all| all.1));
    let each = b.family("warps", (0, warps), warps, None);
    let count = |of: Size, tile: i64| of.ceil_div(tile).ok_or_else(|| Problem::new("no such tiles"));
    let mut tiles = vec![("row", count(first.2, left)?), ("column", count(second.2, right)?)];
    tiles.extend(c.batched.then(|| ("batch", Size::symbol("L"))));
    let raster = Raster::Bands((BAND / left).clamp(1, 64) as u32);
    let steps = count(k, bk)?;

    let mma = plan.mma.clone().by(consumers);
    let mut operands = Vec::new();
    for ((name, from, _, along_k), (rows, letter)) in
        [first, second].into_iter().zip([(left, OperandName::A), (right, OperandName::B)])
    {
        let elem = b.elem(&from);
        let along = if name == "b" { c.k_of_b(bk) } else { bk };
        let to = slots(b, &format!("s{name}"), elem, ([rows, along], along_k), rooms.stages)?;
        let slot = last(b, &to, &0.into())?;
        let converted = elem != c.dtype && along_k;
        if !converted && !matches!(b.route(&mma, letter, &slot)?, Route::Matrices { .. }) {
            return Ok(false);
        }
        let (place, from) = (usize::from(letter == OperandName::B), from.with_name(&format!("g{name}")));
        operands.push(Operand { from, to, tile: [rows, along], place, scales: None });
    }
    for OfGroups { view, names: [of_tile, of_slots] } in group_scales {
        let of = c.grouped(bk, plan.parts()).ok_or_else(|| Problem::new("there are no groups"))?;
        let rows = plan.tile[1];
        let layout = of.slots(rows, c.dtype.bytes().into(), rooms.stages)?;
        let to = b.shared(of_slots, c.dtype, layout)?;
        let (tile, place) = ([rows, of.wide()], usize::from(c.a_left));
        operands.push(Operand { from: view.with_name(of_tile), to, tile, place, scales: Some(of) });
    }
    let ring = b.ring(Ring {
        name: "ring".into(),
        slots: rooms.stages as u32,
        buffers: operands.iter().map(|operand| operand.to.tensor).collect(),
        from: producer,
        to: consumers,
        arrivals: 1,
        over_cluster: None,
    });
    let alone = TiledMma::new(plan.mma.row.name, &layout!((1, 1)), each)?;
    let part = Part { c, plan, ring, steps, mma, alone };
    b.roles(vec![
        (producer, Box::new(|b: &mut Builder| b.tiles(&tiles, raster, |b, at| part.fill(b, at, &operands)))),
        (
            consumers,
            Box::new(|b: &mut Builder| {
                let through = match has_epilogue_tile(c, plan)? {
                    true => Some(part.epilogue_buffers(b, rooms.buffers, direct)?),
                    false => None,
                };
                let gathered = match plan.mma.parts_of_k()? {
                    1 => None,
                    _ => Some(b.gathering("parts", &part.mma, [left, right], plan.parts(), &[])?),
                };
                b.tiles(&tiles, raster, |b, at| -> Result<()> {
                    let acc = part.multiply(b, &operands)?;
                    let out = of_batch(b, c, &out, batch_of(at))?;
                    let [row, column] = [0, 1].map(|which| At::Index(at[which].clone()));
                    let gc = b.tile(&out, (left, right), &[row.clone(), column.clone()])?.with_name("gc");
                    let place = if c.a_left { [&row, &column] } else { [&column, &row] };
                    let extras = extras.of_batch(b, c, &batch_of(at))?;
                    let extras = extras.tile(b, c, [plan.tile[0], plan.tile[1]], place)?;
                    let extras = extras
                        .each(|view| if c.a_left { Ok(view.clone()) } else { b.permute(view, &[1, 0]) })?;
                    if let Some(gathered) = &gathered {
                        return store_gathered(b, c, (&part.mma, &acc, gathered), &gc, &extras, &scalars);
                    }
                    part.store(b, &acc, &gc, (&extras, &scalars), through.as_ref())
                })?;
                // The block must not exit before bulk stores have read its shared memory.
                b.within(each, |b| through.iter().for_each(|through| through.finish(b)));
                Ok(())
            }),
        ),
    ])?;
    Ok(true)
}

impl Part<'_> {
    /// The producer's main loop of a tile.
    fn fill(&self, b: &mut Builder, at: &[Affine], operands: &[Operand]) -> Result<()> {
        let load = bulk_load(self.c, false)?;
        let mut tiles = Vec::new();
        let mut bytes = 0;
        for operand in operands {
            let from = of_batch(b, self.c, &operand.from, batch_of(at))?;
            let [rows, along_k] = operand.tile;
            let elements = operand.scales.map_or(rows * along_k, |of| of.elements(rows));
            bytes += elements * i64::from(b.elem(&from).bytes());
            tiles.push(b.tile(&from, (rows, along_k), &[At::Index(at[operand.place].clone()), At::All])?);
        }
        b.repeat("k", self.steps, Unroll::No, |b, k| -> Result<()> {
            b.acquire(self.ring);
            b.publish(self.ring, Some(bytes as u32));
            let slot = b.slot(self.ring);
            for (tile, operand) in tiles.iter().zip(operands) {
                let to = last(b, &operand.to, &slot)?;
                if let Some(of) = operand.scales {
                    of.copy(b, (tile, &to, operand.tile[0]), &k, load)?;
                    continue;
                }
                let from = last(b, tile, &k)?;
                b.copy_how(&from, &to, load, None)?;
            }
            b.advance(self.ring);
            Ok(())
        })
    }

    /// The consumers' main loop of a tile; returns its sums.
    fn multiply(&self, b: &mut Builder, operands: &[Operand]) -> Result<View> {
        let acc = b.accumulators("acc", &self.mma, self.c.operands_of(self.plan.tile))?;
        b.repeat("k", self.steps, Unroll::No, |b, _| -> Result<()> {
            b.await_slot(self.ring);
            let slot = b.slot(self.ring);
            let (left, right) = (last(b, &operands[0].to, &slot)?, last(b, &operands[1].to, &slot)?);
            let mut of_elements = Vec::new();
            for Operand { to, scales, .. } in &operands[2..] {
                let scales = scales.as_ref().ok_or_else(|| Problem::new("a product has two operands"))?;
                let tile = last(b, to, &slot)?;
                of_elements.push(scales.of_elements(b, &tile)?);
            }
            match &of_elements[..] {
                [scales, zeros @ ..] => {
                    let scaling = Scaling { scales, zeros: zeros.first() };
                    b.multiply_scaled(&self.mma, [&left, &right], &acc, self.c.left_or_right(scaling))?;
                }
                [] => b.multiply_in(&self.mma, &left, &right, &acc, self.c.precision.terms())?,
            }
            b.release(self.ring);
            b.advance(self.ring);
            Ok(())
        })?;
        Ok(acc)
    }

    /// Buffers of each warp for rows of one instruction.
    fn epilogue_buffers(&self, b: &mut Builder, count: i64, direct: bool) -> Result<EpilogueBuffers> {
        let (rows, wide, out) = (self.mma.shape()[0], wide(self.c, self.plan)?, self.c.out);
        let warps = self.mma.groups.size()?;
        let layout = Layout::new((rows, wide, count * warps), (wide, 1i64, rows * wide))?;
        let layout = swizzled(out, wide * i64::from(out.bytes()), layout)?;
        let leave = match direct {
            false => Leave::Bulk(b.token()),
            true => {
                let fill = Fill::of([rows, wide], 1, WARP.into(), 1)?;
                Leave::Threads(Box::new(Fill { of: self.alone.of, how: How::Plain, ..fill }))
            }
        };
        Ok(EpilogueBuffers { buffers: b.shared("leaving", out, layout)?, count, leave })
    }

    /// The epilogue of a tile.
    fn store(
        &self,
        b: &mut Builder,
        acc: &View,
        gc: &View,
        (extras, scalars): (&Extras, &Scalars),
        through: Option<&EpilogueBuffers>,
    ) -> Result<()> {
        let c = self.c;
        let (scaled, beta) = scaled(self.c, scalars);
        let Some(through) = through else {
            let out = b.partition_accumulators(&self.mma, gc)?.with_name("out");
            let extras = extras.each(|view| b.partition_accumulators(&self.mma, view))?;
            return epilogue(b, c, acc, (&out, &out), &extras, scaled, beta);
        };
        let ([rows, columns, _], wide) = (self.mma.shape(), wide(c, self.plan)?);
        let [_, down, across] = acc.extents().unwrap_or_default()[..] else {
            return Err(Problem::new("accumulators have three modes"));
        };
        let along = across * columns / wide;
        b.within(self.alone.of, |b| {
            // With an odd number of parts a tile begins with the buffer of the last one.
            if down * along % through.count != 0 {
                through.finish(b);
            }
            b.repeat("part", Size::Int(down * along), Unroll::Full, |b, part| -> Result<()> {
                let at = [part.submode(along, None), part.submode(1, Some(along))].map(At::Index);
                let [row, column] = &at;
                let sums = [At::Index(0.into()), row.clone(), column.clone()];
                let sums =
                    b.tile(acc, (acc.extents().map_or(1, |all| all[0]), 1i64, wide / columns), &sums)?;
                let warp = b.member(self.alone.of);
                let mine = |b: &mut Builder, view: &View| {
                    let mine = self.mma.part_of(view, OperandName::D, &warp)?;
                    b.tile(&mine, (rows, wide), &at)
                };
                let out = mine(b, gc)?;
                let before = b.partition_accumulators(&self.alone, &out)?.with_name("before");
                let extras = extras.each(|view| {
                    let view = mine(b, view)?;
                    b.partition_accumulators(&self.alone, &view)
                })?;
                let buffer = shifted(&times(&warp, through.count)?, &part.submode(1, Some(through.count)))?;
                let buffer = last(b, &through.buffers, &buffer)?;
                let to = b.partition_accumulators(&self.alone, &buffer)?.with_name("to");
                // The buffer's previous elements must have been read.
                if let Leave::Bulk(stores) = through.leave {
                    b.wait_all_but(stores, through.count as u32 - 1);
                }
                b.sync();
                epilogue(
                    b,
                    c,
                    &sums.with_name("sums"),
                    (&before, &to),
                    &extras,
                    scaled.clone(),
                    beta.clone(),
                )?;
                b.sync();
                match &through.leave {
                    Leave::Bulk(stores) => b.copy_how(&buffer, &out, bulk_store(c)?, Some(*stores)),
                    Leave::Threads(fill) => b.fill_tile(fill, &buffer, &out),
                }
            })
        })
    }
}

impl EpilogueBuffers {
    /// Waits until all bulk stores have read shared memory.
    fn finish(&self, b: &mut Builder) {
        if let Leave::Bulk(stores) = self.leave {
            b.wait(stores);
        }
    }
}
