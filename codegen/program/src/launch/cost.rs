//! The choice of the fastest variant for a launch, by their cost models.

use tilewright_layout::Value;

use super::Limits;
use super::number::{Natural, Number, Real};
use super::rules::{Count, Rules, Size, index};
use crate::isa::devices;
use crate::thread::{Cost, Kernel, Param};
use crate::values::target::WARP;

/// Costs of rows of 128 bytes. Each entry is for rows that begin at multiples of fewer bytes than its first number. Then come
/// the rows that the L2 cache delivers to all multiprocessors in a clock, and tenths of a clock in which a multiprocessor copies
/// a row: alone, and while the other multiprocessor of its pair, which shares its port, copies too. The numbers are fitted to the
/// times of products on an H100 and an H200: see bench/LOG.md, "The estimate".
const ROWS: [(u64, u64, [u64; 2]); 4] =
    [(32, 28, [31, 43]), (64, 30, [29, 41]), (128, 47, [6, 26]), (u64::MAX, 137, [1, 23])];
/// The part of a block's work before and after its iterations that other blocks of the multiprocessor do not hide.
const SHARING: (u64, u64) = (17, 20);
/// Bytes of results up to which the L2 cache takes parts of sectors as fast as whole ones.
const FEW_STORED: u64 = 1 << 20;

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
    /// Millions of clocks in a second.
    megahertz: u64,
}

impl Estimate {
    /// Seconds, at the clock of the device: see [`devices::Device`].
    pub fn seconds(&self) -> f64 {
        self.clocks as f64 / (self.megahertz as f64 * 1e6)
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
pub(super) struct Traffic<N> {
    /// The bytes of all.
    pub(super) bytes: Option<N>,
    /// The largest power of two, of bytes, that divides all strides.
    pub(super) alignment: Option<N>,
}

impl<N: Number> Traffic<N> {
    pub(super) fn of(moved: &[Moved], sizes: &impl Fn(usize) -> Option<N>) -> Traffic<N> {
        let (mut bytes, mut strides) = (Some(N::from(0)), Some(N::from(1 << 16)));
        for tensor in moved {
            let of_element = N::from(tensor.bytes.into());
            let multiply = |all: N, extent: &Size| Some(all * extent.number(sizes)?);
            let of_tensor = tensor.extents.iter().try_fold(of_element, multiply);
            bytes = bytes.zip(of_tensor).map(|(all, more)| all + more);
            let combine = |all: N, stride: &Size| Some(all.bits_of_both(stride.number(sizes)? * of_element));
            strides = strides.and_then(|all| tensor.strides.iter().try_fold(all, combine));
        }
        Traffic { bytes, alignment: strides.map(N::lowest_bit) }
    }
}

/// The numbers that an estimate is computed from.
pub(super) trait Inputs {
    type Number: Number;

    /// A constant of the variant.
    fn constant(&self, number: u32) -> Self::Number;
    /// One of [`Rules::counts`], if it is known.
    fn count(&self, of: Count) -> Option<Self::Number>;
    /// One of [`Rules::moved`].
    fn traffic(&self, of: usize) -> Traffic<Self::Number>;
    /// The compute capability of the device.
    fn arch(&self) -> Self::Number;
    fn multiprocessors(&self) -> Self::Number;
}

/// The limits of a device.
pub(super) struct Device<N> {
    pub(super) arch: N,
    pub(super) shared_bytes: N,
    pub(super) threads: N,
    pub(super) grid: [N; 3],
    pub(super) multiprocessors: N,
    pub(super) model: N,
}

impl From<&Limits> for Device<Natural> {
    fn from(limits: &Limits) -> Device<Natural> {
        let number = |number: u32| Natural(number.into());
        Device {
            arch: number(limits.arch),
            shared_bytes: number(limits.shared_bytes),
            threads: number(limits.threads),
            grid: limits.grid.map(number),
            multiprocessors: number(limits.multiprocessors),
            model: Natural(limits.model),
        }
    }
}

/// The numbers of a launch.
pub(super) struct PlanInputs<'l> {
    pub(super) limits: &'l Limits,
    pub(super) counts: &'l [Option<Natural>],
    pub(super) traffic: &'l [Traffic<Natural>],
}

impl Inputs for PlanInputs<'_> {
    type Number = Natural;

    fn constant(&self, number: u32) -> Natural {
        Natural(number.into())
    }

    fn count(&self, of: Count) -> Option<Natural> {
        self.counts[of.0]
    }

    fn traffic(&self, of: usize) -> Traffic<Natural> {
        self.traffic[of]
    }

    fn arch(&self) -> Natural {
        Natural(self.limits.arch.into())
    }

    fn multiprocessors(&self) -> Natural {
        Natural(self.limits.multiprocessors.into())
    }
}

/// An estimate, in the numbers that it is computed with.
pub(super) struct Terms<N: Number> {
    pub(super) clocks: N,
    waves: N,
    blocks: N,
    steps: N,
    step: N,
    /// The bottlenecks: the first whose condition is true, or else the instructions of the iterations.
    limits: [(Limit, N::Truth); 2],
    tile: N,
    memory: N,
    edges: N,
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

    /// Does it take longer where rows of an argument begin in the middle of a sector?
    pub(super) fn cuts(&self) -> bool {
        self.cost.cut > 0
    }

    /// The estimate for a launch.
    pub(super) fn estimate(&self, launch: &PlanInputs<'_>) -> Option<Estimate> {
        let terms = self.terms(launch)?;
        let limit =
            terms.limits.into_iter().find(|(_, is_true)| *is_true).map_or(Limit::Work, |(limit, _)| limit);
        Some(Estimate {
            clocks: terms.clocks.0,
            waves: terms.waves.0,
            blocks: terms.blocks.0,
            steps: terms.steps.0,
            step: terms.step.0,
            limit,
            tile: terms.tile.0,
            memory: terms.memory.0,
            edges: terms.edges.0,
            launch: self.cost.launch.into(),
            packing: 0,
            megahertz: devices::Device::of(launch.limits.arch).megahertz,
        })
    }

    /// The same, in any numbers.
    pub(super) fn terms<I: Inputs>(&self, inputs: &I) -> Option<Terms<I::Number>> {
        if self.cost.resident > 0 { self.in_waves(inputs) } else { self.by_tiles(inputs) }
    }

    /// Iterations of a tile's main loop.
    fn trips<I: Inputs>(&self, inputs: &I) -> Option<I::Number> {
        let factors = self.times.into_iter().flatten();
        let all = factors
            .into_iter()
            .try_fold(inputs.count(self.steps)?, |all, of| Some(all * inputs.count(of)?))?;
        Some(if self.cost.over > 1 { all.divided_up(inputs.constant(self.cost.over)) } else { all })
    }

    /// Clocks of a tile beside its iterations, which depend on the rows of results.
    fn tile<I: Inputs>(&self, inputs: &I) -> I::Number {
        let tile = inputs.constant(self.cost.tile);
        let stores = inputs.traffic(self.stores);
        match (stores.alignment, stores.bytes) {
            (Some(alignment), Some(bytes)) if self.cost.cut_tile > 0 => {
                let cuts = alignment.less(SECTOR.into()) & I::Number::from(FEW_STORED).less(bytes);
                tile + I::Number::select(cuts, inputs.constant(self.cost.cut_tile), 0.into())
            }
            _ => tile,
        }
    }

    /// Further clocks of an iteration where rows that are read begin in the middle of a sector.
    fn cut<I: Inputs>(&self, inputs: &I) -> Option<I::Number> {
        let alignment = inputs.traffic(self.reads).alignment?;
        Some(match self.cost.cut {
            0 => 0.into(),
            cut => I::Number::select(alignment.less(SECTOR.into()), inputs.constant(cut), 0.into()),
        })
    }

    /// The estimate by waves: the blocks that the busiest multiprocessor has at once. The last wave has fewer blocks.
    fn in_waves<I: Inputs>(&self, inputs: &I) -> Option<Terms<I::Number>> {
        let number = |number: u64| I::Number::from(number);
        let (cost, constant) = (&self.cost, |number: u32| inputs.constant(number));
        let mut blocks = number(1);
        // Along each axis of tiles, the part of the busiest one that is inside: all of it unless there is one tile.
        let mut inside = Vec::new();
        for (factor, extent) in &self.grid {
            blocks = blocks * inputs.count(*factor)?;
            if let Some((extent, over)) = *extent {
                inside.push((inputs.count(extent)?.real() / constant(over).real()).least(1.0.into()));
            }
        }
        // Warps that skip all leave their scheduler to others, but one warp of each is as long as before.
        let least = RealOf::<I>::from(SCHEDULERS) / constant(self.warps).real();
        let outside = |clocks: u32, inside: RealOf<I>| match clocks {
            0 => number(0),
            clocks => {
                constant(clocks)
                    - (constant(clocks).real() * inside.greatest(least).least(1.0.into())).whole()
            }
        };
        let steps = self.trips(inputs)?;
        let along = match self.extent {
            Some((extent, over)) => {
                inputs.count(extent)?.real() / (steps.greatest(number(1)).real() * constant(over).real())
            }
            None => 1.0.into(),
        };
        // A copy is guarded along one axis on average, a result along all.
        let copied = mean(&inside) * along;
        let stored = inside.iter().fold(1.0.into(), |all: RealOf<I>, part| all * *part);
        let tile = self.tile(inputs) - outside(cost.guarded_tile, stored);
        let cluster = constant(self.cluster);
        let at_once = |resident: u32| {
            let multiprocessors = inputs.multiprocessors();
            clusters(multiprocessors * constant(resident), self.cluster, cluster) * cluster
        };
        let (resident, at_all) = (constant(cost.resident), at_once(cost.resident));
        let (waves, rest) = (blocks / at_all, blocks % at_all);
        let last = rest.divided_up(at_once(1));
        let cut = self.cut(inputs)?;
        let busy = constant(cost.step) + cut - outside(cost.guarded_step, copied);
        let alone = constant(cost.alone) + cut;
        let step = |blocks: I::Number| (blocks * busy).greatest(alone);
        let work = tile - constant(cost.begin);
        let shared = |others: I::Number| others * work * number(SHARING.0) / number(SHARING.1);
        let wave = |blocks: I::Number| steps * step(blocks) + tile + shared(blocks - number(1));
        let of_last = I::Number::select(number(0).less(last), wave(last), number(0));
        let of_waves = waves * wave(resident) + of_last;
        let memory = inputs.traffic(self.reads).bytes? / memory_bytes_per_clock(inputs.arch());
        let blocks = I::Number::select(number(0).less(waves), resident, last);
        Some(Terms {
            clocks: of_waves.greatest(memory) + constant(cost.launch),
            waves: waves + last.least(number(1)),
            blocks,
            steps,
            step: step(blocks),
            limits: [
                (Limit::Memory, of_waves.less(memory)),
                (Limit::Latency, (blocks * busy).less(step(blocks))),
            ],
            tile,
            memory,
            edges: number(0),
        })
    }

    /// The estimate by the busiest block's tiles, one of them an edge tile.
    fn by_tiles<I: Inputs>(&self, inputs: &I) -> Option<Terms<I::Number>> {
        let number = |number: u64| I::Number::from(number);
        let (cost, constant) = (&self.cost, |number: u32| inputs.constant(number));
        let (mut tiles, mut outside) = (number(1), number(0));
        for (factor, extent) in &self.grid {
            let along = inputs.count(*factor)?;
            tiles = tiles * along;
            if let Some((extent, over)) = *extent {
                // Each block of a persistent kernel's cluster copies a part.
                let of_block = constant(over / if self.persistent { self.cluster } else { 1 });
                outside = outside + (along * constant(over) - inputs.count(extent)?).least(of_block);
            }
        }
        let cluster = constant(self.cluster);
        if !self.persistent {
            // The axes of the grid count blocks.
            tiles = tiles.divided_up(cluster);
        }
        // Other kernels have the clocks of a multiprocessor, which its blocks share.
        let resident = if self.persistent { self.blocks_per_sm.max(1) } else { 1 };
        let multiprocessors = inputs.multiprocessors();
        let clusters = clusters(multiprocessors * constant(resident), self.cluster, cluster);
        let parts = constant(self.divided.max(1));
        let mut divided = number(0);
        if self.divided > 0 {
            let groups = tiles / parts;
            (tiles, divided) = (groups / clusters * clusters, groups % clusters * parts);
        }
        let (whole, last) = (tiles.divided_up(clusters), divided.divided_up(clusters));
        let (tiles, waves) = (tiles + divided, whole + last);
        let steps = self.trips(inputs)?;
        // One block of each pair of multiprocessors starts first. If the last wave is not full, the other blocks copy faster.
        let blocks = tiles.least(clusters) * cluster;
        let is_paired = (multiprocessors / number(2)).less(blocks);
        let busy = tiles * cluster / waves.greatest(number(1));
        let alignment = inputs.traffic(self.bulk).alignment?;
        let copied = match cost.rows {
            0 => number(0),
            rows => copies(busy, is_paired, constant(rows), alignment),
        };
        let work = constant(cost.step) + self.cut(inputs)?;
        let step = work.greatest(copied);
        let tile = self.tile(inputs);
        let mut of_tiles = whole * (steps * step + tile);
        let mut longest = steps;
        if self.divided > 0 {
            let of_part = steps.divided_up(parts);
            let sums =
                number(ARRIVAL) + tile + constant(self.divided) * number(self.shared) / number(SUMS_LOADED);
            of_tiles = of_tiles + last * (of_part * step + sums);
            longest = I::Number::select(number(0).less(whole), steps, of_part);
        }
        let (memory, edges) = match cost.rows {
            0 => (number(0), number(0)),
            // A row or a column of an edge tile that is out of bounds takes a clock of each iteration.
            _ => {
                (inputs.traffic(self.bulk).bytes? / memory_bytes_per_clock(inputs.arch()), longest * outside)
            }
        };
        Some(Terms {
            clocks: of_tiles.greatest(memory) + edges + constant(cost.launch),
            waves,
            blocks: number(1),
            steps: longest,
            step,
            limits: [(Limit::Memory, of_tiles.less(memory)), (Limit::Rows, work.less(copied))],
            tile,
            memory,
            edges,
        })
    }
}

/// Bytes that the memory of a device delivers in a clock.
fn memory_bytes_per_clock<N: Number>(arch: N) -> N {
    let [first, others @ ..] = devices::DEVICES;
    others.iter().fold(N::from(first.memory_bytes_per_clock()), |rate, device| {
        let is_older = arch.less(u64::from(device.arch).into());
        N::select(is_older, rate, device.memory_bytes_per_clock().into())
    })
}

/// A number with a fraction of an estimate.
type RealOf<I> = <<I as Inputs>::Number as Number>::Real;

/// The number of resident clusters, where this number of blocks would be resident: one at least. `size` is the number of their blocks.
pub(super) fn clusters<N: Number>(blocks: N, of: u32, size: N) -> N {
    let blocks = if of > 2 { blocks - blocks.divided_up(N::from(IDLE)) } else { blocks };
    (blocks / size).greatest(N::from(1))
}

/// The mean part of tiles that is inside, along their axes: all where there are none.
fn mean<R: Real>(inside: &[R]) -> R {
    let sum = inside.iter().copied().reduce(|sum, part| sum + part);
    sum.map_or(1.0.into(), |sum| sum / (inside.len() as f64).into())
}

/// Clocks in which `blocks` blocks, which share ports if they are paired, each copy `rows` rows that begin at multiples of
/// `alignment` bytes.
fn copies<N: Number>(blocks: N, is_paired: N::Truth, rows: N, alignment: N) -> N {
    let [.., (_, in_a_clock, [alone, beside])] = ROWS;
    let mut row = [in_a_clock, alone, beside].map(N::from);
    for (aligned, in_a_clock, [alone, beside]) in ROWS[..ROWS.len() - 1].iter().rev() {
        let is_less = alignment.less(N::from(*aligned));
        let [a, b, c] = row;
        row = [(in_a_clock, a), (alone, b), (beside, c)]
            .map(|(number, otherwise)| N::select(is_less, N::from(*number), otherwise));
    }
    let [in_a_clock, alone, beside] = row;
    let of_block = rows * N::select(is_paired, beside, alone) / N::from(10);
    of_block.greatest(blocks * rows / in_a_clock)
}

/// Clusters of more than two blocks leave this part of the multiprocessors idle, since their part of the chip has
/// too few for a further cluster.
const IDLE: u64 = 11;

/// Clocks from the last product of a part until its block knows whether it is the last one of its tile.
const ARRIVAL: u64 = 5000;

/// Bytes of sums of other blocks that a block loads in a clock.
const SUMS_LOADED: u64 = 32;

/// Schedulers of a multiprocessor.
const SCHEDULERS: f64 = 4.0;

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_tiles_cost_the_same() {
        assert_eq!([mean::<f64>(&[]), mean(&[0.5]), mean(&[0.5, 1.0])], [1.0, 0.5, 0.75]);
    }

    #[test]
    fn rows_that_cut_lines_take_longer() {
        let copies =
            |blocks: u64, alignment| copies(Natural(blocks), blocks > 66, Natural(256), Natural(alignment)).0;
        assert!(copies(132, 128) < 600 && copies(132, 64) > 650);
        assert!(copies(132, 16) > copies(132, 32));
        // Few blocks have a port each.
        assert!(copies(1, 16) > 500 && copies(1, 128) < 200);
        assert!(copies(66, 128) < copies(67, 128));
    }
}
