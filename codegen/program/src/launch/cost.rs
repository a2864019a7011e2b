//! The choice of the fastest variant for a launch, by their cost models.

use tilewright_layout::Value;

use super::binding::Bound;
use super::rules::{Count, Rules, Size, index};
use super::{Limits, Tensor};
use crate::thread::{Cost, Kernel, Param};
use crate::values::target::WARP;

/// Costs of rows of 128 bytes. Each entry is for rows that begin at multiples of fewer bytes than its first number. Then come
/// the rows that the L2 cache delivers to all multiprocessors in a clock, and tenths of a clock in which a multiprocessor copies
/// a row: alone, and while the other multiprocessor of its pair, which shares its port, copies too. The numbers are fitted to the
/// times of products on an H100 and an H200: see bench/LOG.md, "The estimate".
pub(super) const ROWS: [(u64, u64, [u64; 2]); 4] =
    [(32, 28, [31, 43]), (64, 30, [29, 41]), (128, 47, [6, 26]), (u64::MAX, 137, [1, 23])];
/// The part of a block's work before and after its iterations that other blocks of the multiprocessor do not hide.
pub(super) const SHARING: (u64, u64) = (17, 20);
/// Bytes that memory delivers in a clock, while blocks are busy.
pub(super) const MEMORY: u64 = 2913;

/// Bytes of results up to which the L2 cache takes parts of sectors as fast as whole ones.
pub(super) const FEW_STORED: u64 = 1 << 20;

/// The estimated clocks of a launch, and the terms that they are made of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// All of them, packing included.
    pub clocks: u64,
    /// Waves of blocks, or the tiles that the busiest block takes one after the other.
    pub waves: u64,
    /// Blocks that a multiprocessor runs at once.
    pub blocks: u64,
    /// Iterations of the main loop.
    pub steps: u64,
    /// Clocks of an iteration.
    pub step: u64,
    /// The bottleneck of an iteration, or of the whole launch.
    pub limit: Limit,
    /// Clocks of a block, or of a tile, beside its iterations.
    pub tile: u64,
    /// Clocks in which memory delivers all reads.
    pub memory: u64,
    /// Further clocks for rows and columns that are out of bounds.
    pub edges: u64,
    /// Clocks of an empty launch.
    pub launch: u64,
    /// Clocks of the launches that copy arguments before.
    pub packing: u64,
}

impl Estimate {
    /// Seconds, at the clock of an H100.
    pub fn seconds(&self) -> f64 {
        self.clocks as f64 / crate::launch::estimate::HERTZ
    }

    pub(super) fn packed(self, packing: u64) -> Estimate {
        Estimate { clocks: self.clocks.saturating_add(packing), packing, ..self }
    }
}

/// The bottleneck of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The instructions of its iterations.
    Work,
    /// Waiting, with too few blocks to hide it.
    Latency,
    /// Rows that bulk copies fetch from the L2 cache.
    Rows,
    /// Bytes from memory.
    Memory,
}

/// The cost model of a variant.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) cost: Cost,
    pub(super) steps: Count,
    pub(super) times: [Option<Count>; 2],
    /// The extent that the iterations run over, and how many elements of it one has.
    pub(super) extent: Option<(Count, u32)>,
    /// All axes: each factor, and where it counts tiles, the extent without rounding, with the elements of a tile.
    pub(super) grid: Vec<(Count, Option<(Count, u32)>)>,
    /// Blocks of a cluster.
    cluster: u32,
    persistent: bool,
    blocks_per_sm: u32,
    /// In how many parts tiles of a last wave are divided, and the bytes of sums that a block passes to others.
    divided: u32,
    shared: u64,
    pub(super) warps: u32,
    /// Indices in [`Rules::moved`]: of the tensors that it reads, of the tensors that bulk copies load from, and of the
    /// tensors that it writes.
    pub(super) reads: usize,
    pub(super) bulk: usize,
    pub(super) stores: usize,
}

/// A tensor that a kernel reads or writes.
#[derive(PartialEq, Debug)]
pub(super) struct Moved {
    pub(super) extents: Vec<Size>,
    /// The strides that are not 1.
    pub(super) strides: Vec<Size>,
    /// Bytes of an element.
    pub(super) bytes: u32,
}

/// The facts about tensors on which costs depend.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// The bytes of all.
    bytes: Option<u64>,
    /// The largest power of two, of bytes, that divides all strides.
    alignment: Option<u64>,
}

impl Traffic {
    pub(super) fn of(moved: &[Moved], sizes: &[Option<Bound>]) -> Traffic {
        let bytes = |of: &Moved| {
            let mut elements = u64::from(of.bytes);
            for extent in &of.extents {
                elements = elements.saturating_mul(extent.evaluate(sizes)?.max(0) as u64);
            }
            Some(elements)
        };
        let strides = |of: &Moved| {
            let bytes = u64::from(of.bytes);
            of.strides
                .iter()
                .try_fold(0, |all, stride| Some(all | (stride.evaluate(sizes)?.unsigned_abs() * bytes)))
        };
        let alignment = moved.iter().try_fold(1u64 << 16, |all, of| Some(all | strides(of)?));
        Traffic {
            bytes: moved.iter().try_fold(0u64, |sum, of| Some(sum.saturating_add(bytes(of)?))),
            alignment: alignment.map(|all| 1 << all.trailing_zeros()),
        }
    }
}

impl Rule {
    pub(super) fn new(rules: &mut Rules, program: &Kernel, cost: Cost) -> Rule {
        let launch = &program.launch;
        let mut factor = |factor: &Value| {
            let extent = match *factor {
                // Where several blocks divide a tile, each has a part of it.
                Value::Sym { times, of, over } => {
                    let blocks =
                        u32::try_from(times).ok().filter(|&blocks| over.checked_rem(blocks) == Some(0));
                    let blocks = blocks.unwrap_or(1);
                    let extent = Value::Sym { times: times / i64::from(blocks), of, over: 1 };
                    Some((rules.count(extent), over / blocks))
                }
                _ => None,
            };
            (rules.count(*factor), extent)
        };
        let grid = launch.grid.iter().flatten().map(&mut factor).collect();
        let (steps, extent) = factor(&cost.steps);
        let times = cost.times.map(|of| of.map(|of| factor(&of).0));
        // Of a product it is not one extent that tiles divide.
        let extent = extent.filter(|_| times == [None; 2]);
        let (mut reads, mut bulk, mut stores) = (Vec::new(), Vec::new(), Vec::new());
        for param in &program.params {
            match param {
                Param::Pointer { shape, stride, elem, write, .. } => {
                    let strides: Vec<Value> =
                        stride.iter().copied().filter(|stride| stride.int().is_none()).collect();
                    let (extents, strides) = (rules.sizes(shape), rules.sizes(&strides));
                    let of = if *write { &mut stores } else { &mut reads };
                    of.push(Moved { extents, strides, bytes: elem.bytes() });
                }
                Param::TensorMap { tensor, modes, .. } => {
                    if let Some(Param::Pointer { shape, stride, elem, write: false, .. }) =
                        program.params.get(*tensor as usize)
                    {
                        let strides: Vec<Value> =
                            modes[1..].iter().map(|mode| stride[usize::from(*mode)]).collect();
                        let (extents, strides) = (rules.sizes(shape), rules.sizes(&strides));
                        bulk.push(Moved { extents, strides, bytes: elem.bytes() });
                    }
                }
                _ => {}
            }
        }
        let bytes = |param: &Param| match param {
            Param::Workspace { elem, shape, zeroed: false, .. } => {
                let of_tile = shape.iter().map_while(|extent| extent.int()).product::<i64>();
                of_tile as u64 * u64::from(elem.bytes()) / u64::from(launch.divided.max(1))
            }
            _ => 0,
        };
        let shared = program.params.iter().map(bytes).sum();
        Rule {
            cost,
            divided: launch.divided,
            shared,
            steps,
            times,
            extent,
            grid,
            cluster: launch.cluster.iter().product::<u32>().max(1),
            persistent: launch.persistent,
            blocks_per_sm: launch.blocks_per_sm,
            warps: launch.threads.div_ceil(WARP),
            reads: index(&mut rules.moved, reads),
            bulk: index(&mut rules.moved, bulk),
            stores: index(&mut rules.moved, stores),
        }
    }

    /// Iterations of a tile's main loop.
    fn trips(&self, counts: &[Option<u64>]) -> Option<u64> {
        let factors = [self.steps].into_iter().chain(self.times.into_iter().flatten());
        let count = |all: u64, of: Count| Some(all.saturating_mul(counts[of.0]?));
        Some(factors.into_iter().try_fold(1, count)?.div_ceil(self.cost.over.max(1).into()))
    }

    /// Does it take longer where rows of an argument begin in the middle of a sector?
    pub(super) fn cuts(&self) -> bool {
        self.cost.cut > 0
    }

    /// The estimate for a launch with these [`Rules::counts`].
    pub(super) fn estimate(
        &self,
        limits: &Limits,
        counts: &[Option<u64>],
        traffic: &[Traffic],
    ) -> Option<Estimate> {
        let (reads, bulk) = (traffic[self.reads], traffic[self.bulk]);
        let stores = traffic[self.stores];
        let cuts = stores.alignment.is_some_and(|alignment| alignment < SECTOR)
            && stores.bytes.is_some_and(|bytes| bytes > FEW_STORED);
        let cut = if cuts { self.cost.cut_tile } else { 0 };
        let tile = u64::from(self.cost.tile) + u64::from(cut);
        if self.cost.resident > 0 {
            self.in_waves(limits, counts, tile, reads)
        } else {
            self.by_tiles(limits, counts, tile, reads, bulk)
        }
    }

    /// The estimate by waves: the blocks that the busiest multiprocessor has at once. The last wave has fewer blocks.
    fn in_waves(
        &self,
        limits: &Limits,
        counts: &[Option<u64>],
        tile: u64,
        reads: Traffic,
    ) -> Option<Estimate> {
        let count = |of: Count| counts[of.0];
        let (cost, cluster) = (self.cost, self.cluster);
        let mut blocks = 1u64;
        // Along each axis of tiles, the part of the busiest one that is inside: all of it unless there is one tile.
        let mut inside = Vec::new();
        for (factor, extent) in &self.grid {
            let along = count(*factor)?;
            blocks = blocks.saturating_mul(along);
            if let Some((extent, over)) = *extent {
                inside.push((count(extent)? as f64 / f64::from(over)).min(1.0));
            }
        }
        // Warps that skip all leave their scheduler to others, but one warp of each is as long as before.
        let executed = |clocks: u32, inside: f64| {
            (f64::from(clocks) * inside.max(SCHEDULERS / f64::from(self.warps)).min(1.0)) as u64
        };
        let steps = self.trips(counts)?;
        let along = match self.extent {
            Some((extent, over)) => count(extent)? as f64 / (steps.max(1) as f64 * f64::from(over)),
            None => 1.0,
        };
        // A copy is guarded along one axis on average, a result along all.
        let copied = mean(&inside) * along;
        let stored = inside.iter().product();
        let outside = |clocks: u32, inside: f64| u64::from(clocks) - executed(clocks, inside);
        let tile = tile - outside(cost.guarded_tile, stored);
        let skipped = outside(cost.guarded_step, copied);
        let at_once = |resident: u32| u64::from(limits.clusters(cluster, resident) * cluster);
        let (waves, rest) = (blocks / at_once(cost.resident), blocks % at_once(cost.resident));
        let last = rest.div_ceil(at_once(1));
        let cut = if reads.alignment? < SECTOR { cost.cut } else { 0 };
        let own = u64::from(cost.step.saturating_add(cut)) - skipped;
        let alone = u64::from(cost.alone.saturating_add(cut));
        let step = |blocks: u64| blocks.saturating_mul(own).max(alone);
        let shared = |others: u64| {
            let work = tile.saturating_sub(cost.begin.into());
            others.saturating_mul(work).saturating_mul(SHARING.0) / SHARING.1
        };
        let wave = |blocks: u64| match blocks {
            0 => 0,
            _ => steps.saturating_mul(step(blocks)).saturating_add(tile).saturating_add(shared(blocks - 1)),
        };
        let of_waves = waves.saturating_mul(wave(cost.resident.into())).saturating_add(wave(last));
        let memory = reads.bytes? / MEMORY;
        let blocks = if waves > 0 { cost.resident.into() } else { last };
        Some(Estimate {
            clocks: of_waves.max(memory).saturating_add(cost.launch.into()),
            waves: waves + u64::from(last > 0),
            blocks,
            steps,
            step: step(blocks),
            limit: match memory > of_waves {
                true => Limit::Memory,
                false if step(blocks) > blocks * own => Limit::Latency,
                false => Limit::Work,
            },
            tile,
            memory,
            edges: 0,
            launch: cost.launch.into(),
            packing: 0,
        })
    }

    /// The estimate by the busiest block's tiles, one of them an edge tile.
    fn by_tiles(
        &self,
        limits: &Limits,
        counts: &[Option<u64>],
        tile: u64,
        reads: Traffic,
        bulk: Traffic,
    ) -> Option<Estimate> {
        let count = |of: Count| counts[of.0];
        let (cost, cluster) = (self.cost, self.cluster);
        let (mut tiles, mut outside) = (1u64, 0u64);
        for (factor, extent) in &self.grid {
            let along = count(*factor)?;
            tiles = tiles.saturating_mul(along);
            if let Some((extent, over)) = *extent {
                let extent = count(extent)?;
                // Each block of a persistent kernel's cluster copies a part.
                let blocks = if self.persistent { cluster } else { 1 };
                let of_block = u64::from(over / blocks);
                outside += along.saturating_mul(over.into()).saturating_sub(extent).min(of_block);
            }
        }
        if !self.persistent {
            // The axes of the grid count blocks.
            tiles = tiles.div_ceil(cluster.into());
        }
        // Other kernels have the clocks of a multiprocessor, which its blocks share.
        let resident = if self.persistent { self.blocks_per_sm } else { 1 };
        let clusters = u64::from(limits.clusters(cluster, resident));
        let parts = u64::from(self.divided);
        let (tiles, divided) = match parts {
            0 => (tiles, 0),
            parts => (tiles / parts / clusters * clusters, tiles / parts % clusters * parts),
        };
        let (whole, last) = (tiles.div_ceil(clusters), divided.div_ceil(clusters));
        let (tiles, waves) = (tiles + divided, whole + last);
        let steps = self.trips(counts)?;
        // One block of each pair of multiprocessors starts first. If the last wave is not full, the other blocks copy faster.
        let blocks = tiles.min(clusters).saturating_mul(cluster.into());
        let paired = blocks > u64::from(limits.multiprocessors / 2);
        let busy = tiles.saturating_mul(cluster.into()) / waves.max(1);
        let copied = copies(busy, paired, cost.rows.into(), bulk.alignment?);
        let own = cost.step + if reads.alignment? < SECTOR { cost.cut } else { 0 };
        let step = copied.max(own.into());
        let of_part = steps.div_ceil(parts.max(1));
        let of_tile = steps.saturating_mul(step).saturating_add(tile);
        let sums = ARRIVAL + tile + parts * self.shared / SUMS_LOADED;
        let part = of_part.saturating_mul(step).saturating_add(sums);
        let of_tiles = whole.saturating_mul(of_tile).saturating_add(last.saturating_mul(part));
        let longest = if whole > 0 { steps } else { of_part };
        let memory = if cost.rows > 0 { bulk.bytes? / MEMORY } else { 0 };
        // A row or a column of an edge tile that is out of bounds takes a clock of each iteration.
        let edges = if cost.rows > 0 { longest.saturating_mul(outside) } else { 0 };
        Some(Estimate {
            clocks: of_tiles.max(memory).saturating_add(edges).saturating_add(cost.launch.into()),
            waves,
            blocks: 1,
            steps: longest,
            step,
            limit: match memory > of_tiles {
                true => Limit::Memory,
                false if copied > own.into() => Limit::Rows,
                false => Limit::Work,
            },
            tile,
            memory,
            edges,
            launch: cost.launch.into(),
            packing: 0,
        })
    }
}

/// The mean part of tiles that is inside, along their axes: all where there are none.
fn mean(inside: &[f64]) -> f64 {
    if inside.is_empty() { 1.0 } else { inside.iter().sum::<f64>() / inside.len() as f64 }
}

/// Clocks in which `blocks` blocks, which share ports if they are paired, each copy `rows` rows that begin at multiples of
/// `alignment` bytes.
fn copies(blocks: u64, paired: bool, rows: u64, alignment: u64) -> u64 {
    ROWS.iter().find(|(aligned, ..)| alignment < *aligned).map_or(0, |(_, in_a_clock, [alone, beside])| {
        let own = rows * if paired { beside } else { alone } / 10;
        own.max(blocks.saturating_mul(rows) / in_a_clock)
    })
}

/// Clocks from the last product of a part until its block knows whether it is the last one of its tile.
const ARRIVAL: u64 = 5000;

/// Bytes of sums of other blocks that a block loads in a clock.
const SUMS_LOADED: u64 = 32;

/// Schedulers of a multiprocessor.
pub(super) const SCHEDULERS: f64 = 4.0;

/// Bytes of a sector.
const SECTOR: u64 = 32;

/// Do rows of a matrix begin in the middle of a sector?
pub(super) fn cuts_sectors(tensor: &Tensor) -> bool {
    let bytes = u64::from(tensor.elem.bytes());
    let cuts =
        |stride: &i64| *stride != 1 && !stride.unsigned_abs().wrapping_mul(bytes).is_multiple_of(SECTOR);
    tensor.strides.iter().any(cuts)
}

/// The first variant that fits, or, if that has a cost model, the fastest variant with a cost model.
/// Variants that do not fit have no clocks.
pub(super) fn quickest(first: usize, clocks: &[Option<u64>]) -> usize {
    let Some(least) = clocks[first] else { return first };
    let others = (first + 1..clocks.len()).filter_map(|other| Some((clocks[other]?, other)));
    others.fold((least, first), |best, other| if other.0 < best.0 { other } else { best }).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chosen variant, where these variants fit with these clocks; 0 is one without a cost model.
    #[track_caller]
    fn check(all: &[Option<u64>], expected: usize) {
        let first = all.iter().position(Option::is_some).expect("one that serves");
        let clocks: Vec<_> = all.iter().map(|of| of.filter(|&clocks| clocks > 0)).collect();
        assert_eq!(quickest(first, &clocks), expected);
    }

    #[test]
    fn blocks_without_tiles_cost_the_same() {
        assert_eq!([mean(&[]), mean(&[0.5]), mean(&[0.5, 1.0])], [1.0, 0.5, 0.75]);
    }

    #[test]
    fn rows_that_cut_lines_take_longer() {
        let copies = |blocks: u64, alignment| copies(blocks, blocks > 66, 256, alignment);
        assert!(copies(132, 128) < 600 && copies(132, 64) > 650);
        assert!(copies(132, 16) > copies(132, 32));
        // Few blocks have a port each.
        assert!(copies(1, 16) > 500 && copies(1, 128) < 200);
        assert!(copies(66, 128) < copies(67, 128));
    }

    #[test]
    fn the_fastest_variant_with_a_cost_model_is_chosen() {
        check(&[Some(0), Some(5)], 0);
        check(&[Some(9), Some(5), Some(7)], 1);
        check(&[None, Some(9), None, Some(3), Some(0)], 3);
        // Of equal variants the first.
        check(&[Some(5), Some(5)], 0);
    }
}
