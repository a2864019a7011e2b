//! Executes one cluster of blocks: its warps, memories and barriers, and the warp scheduler. A warp yields
//! only when it waits. A seed decides which warp is next and when asynchronous operations complete.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tilewright_program::kernel_def::Locations;
use tilewright_program::launch::Map;
use tilewright_program::thread::probe::Record;
use tilewright_program::thread::{Bar, Kernel};

use crate::advice::Closed;
use crate::agent::{Agent, Products};
use crate::clock::{Carried, Component, Components};
use crate::code::{Code, RANK};
use crate::count::{Counts, Memo};
use crate::event::OnEvent;
use crate::fault::Fault;
use crate::global::{Overlay, World};
use crate::shared::Shared;
use crate::table::Tables;
use crate::update::{Released, Weak};
use crate::warp::{LANES, Waiting, Warp};

pub(crate) type Result<T> = std::result::Result<T, Box<Fault>>;

/// Shared by all clusters of a run.
pub(crate) struct Context<'c> {
    pub(crate) kernel: &'c Kernel,
    pub(crate) code: &'c Code,
    pub(crate) world: World<'c>,
    /// Tensor maps by parameter.
    pub(crate) maps: Vec<Option<Map>>,
    pub(crate) tables: Tables,
    pub(crate) grid: [u32; 3],
    /// Number of the first mbarrier of each row of the program's barriers.
    pub(crate) bars: Vec<usize>,
    pub(crate) count: bool,
    pub(crate) seed: u64,
    pub(crate) variant: usize,
    pub(crate) locations: Option<&'c Locations>,
    pub(crate) events: Option<&'c OnEvent>,
    /// What prints have shown.
    pub(crate) printed: Mutex<Vec<Record>>,
    /// Granularity of shared memory: the bytes of the smallest element.
    pub(crate) grain: usize,
    /// Blocks that are resident on the device at once.
    pub(crate) resident: u32,
    /// Where arrays in shared memory overlap: the array of each access.
    pub(crate) arrays: Option<Arc<[u32]>>,
}

impl Context<'_> {
    /// Warps of a block.
    pub(crate) fn warps(&self) -> u32 {
        self.kernel.launch.threads.div_ceil(LANES as u32)
    }

    /// Blocks of a cluster.
    pub(crate) fn cluster(&self) -> u32 {
        self.kernel.launch.cluster.iter().map(|&n| n.max(1)).product()
    }

    /// The number of blocks that run concurrently: a cluster, or all blocks if they wait for flags of each other.
    pub(crate) fn blocks(&self) -> u32 {
        Context::side_by_side(self.kernel, self.code, self.grid)
    }

    /// See [`Context::blocks`]; at least 1, also of an empty grid.
    pub(crate) fn side_by_side(kernel: &Kernel, code: &Code, grid: [u32; 3]) -> u32 {
        match code.uses.together {
            true => grid.iter().product::<u32>().max(1),
            false => kernel.launch.cluster.iter().map(|&n| n.max(1)).product(),
        }
    }

    /// Clusters along x, y, z.
    fn clusters(&self) -> [u32; 3] {
        let cluster = self.kernel.launch.cluster;
        [0, 1, 2].map(|axis| self.grid[axis] / cluster[axis].max(1))
    }

    /// How many clusters there are, or groups of clusters that run concurrently.
    pub(crate) fn count_of_clusters(&self) -> u64 {
        let blocks: u64 = self.grid.iter().map(|&n| u64::from(n)).product();
        blocks / u64::from(self.blocks())
    }

    /// The index of a block: the first cluster of its group, and its number from there on.
    pub(crate) fn block_at(&self, cluster: u64, number: u32) -> [u32; 3] {
        let (clusters, size) = (self.clusters(), self.kernel.launch.cluster.map(|n| n.max(1)));
        let mut rest = cluster + u64::from(number / self.cluster());
        let mut rank = number % self.cluster();
        [0, 1, 2].map(|axis| {
            let at = (rest % u64::from(clusters[axis])) as u32;
            rest /= u64::from(clusters[axis]);
            let within = rank % size[axis];
            rank /= size[axis];
            at * size[axis] + within
        })
    }

    /// Components of clocks.
    pub(crate) fn components(kernel: &Kernel, blocks: u32) -> Components {
        let warps = kernel.launch.threads.div_ceil(LANES as u32);
        let mbarriers = kernel.bars.iter().map(|bar| match bar {
            Bar::Mbarriers { slots, .. } => *slots,
            _ => 0,
        });
        Components {
            threads: blocks * warps * LANES as u32,
            mbarriers: mbarriers.sum(),
            blocks,
            groups: warps.div_ceil(4),
            cluster: kernel.launch.cluster.iter().map(|&n| n.max(1)).product(),
        }
    }
}

/// A barrier of threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier {
    /// How many threads complete it.
    pub(crate) expected: u32,
    pub(crate) arrived: u32,
    /// Warps of the cluster that wait.
    pub(crate) waiting: Vec<usize>,
    /// Has a thread arrived without release semantics? Then it orders only accesses to mbarriers.
    pub(crate) relaxed: bool,
    pub(crate) carried: Carried,
}

/// An mbarrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mbarrier {
    /// Who initialised it: component, epoch; and the fence that makes that visible to the copy engine and to other blocks.
    pub(crate) made: Option<(u32, u32)>,
    pub(crate) fenced: Option<(u32, u32)>,
    /// Have all threads of the cluster met since then?
    pub(crate) met: bool,
    /// Arrival count of a phase, pending arrivals, pending transaction bytes.
    pub(crate) count: u32,
    pub(crate) missing: u32,
    pub(crate) bytes: i64,
    /// Bytes that arrivals of this phase have expected, and the last phase in which they expected none.
    pub(crate) expected: i64,
    pub(crate) without_bytes: Option<i64>,
    /// Completed phases.
    pub(crate) completed: i64,
    /// Threads of other blocks that have arrived: the epoch of the last arrival, and its site.
    pub(crate) from_peers: BTreeMap<u32, (u32, u32)>,
    /// Clocks released by arrivals of this phase, and clocks that completed phases carry.
    pub(crate) brought: Carried,
    pub(crate) carried: Carried,
}

/// A block.
pub(crate) struct Block {
    pub(crate) at: [u32; 3],
    pub(crate) shared: Shared,
    /// By the hardware's number.
    pub(crate) barriers: HashMap<u32, Barrier>,
    pub(crate) mbarriers: Vec<Mbarrier>,
    pub(crate) groups: Vec<Products>,
    /// Arrivals at each named barrier that are unordered with the last one: warp, its first component, epoch.
    pub(crate) members: HashMap<u8, Vec<(u32, u32, u32)>>,
    pub(crate) running: u32,
    /// Registers that roles have given back and no role has taken since, in units of one for each thread of a warp.
    pub(crate) free: u32,
}

/// A cluster in execution.
pub(crate) struct Cluster<'c> {
    pub(crate) ctx: &'c Context<'c>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) warps: Vec<Option<Box<Warp>>>,
    /// The barrier of each cluster.
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) overlay: Overlay,
    pub(crate) released: Released,
    /// For the help of faults.
    pub(crate) weak: Vec<Weak>,
    /// The last phase of an mbarrier (block, number) that each warp has waited for, for the help of faults.
    pub(crate) waits: HashMap<(u32, usize, usize), i64>,
    pub(crate) agents: BTreeMap<u64, Agent>,
    pub(crate) next_agent: u64,
    /// By warp, for the help of faults.
    pub(crate) closed: Vec<Closed>,
    pub(crate) counts: Counts,
    pub(crate) memo: Memo,
    pub(crate) random: Random,
    /// Receives its events.
    pub(crate) events: Option<&'c OnEvent>,
}

/// Why a warp stops running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Waits,
    Ends,
}

/// A pseudo-random generator: SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Runs one cluster; returns its writes and its counts.
pub(crate) fn run(ctx: &Context<'_>, number: u64) -> Result<(Overlay, Counts)> {
    let mut random = Random(ctx.seed);
    let mixed = random.next() ^ number;
    let mut cluster = Cluster::new(ctx, number, Random(mixed));
    cluster.run()?;
    Ok((cluster.overlay, cluster.counts))
}

impl<'c> Cluster<'c> {
    fn new(ctx: &'c Context<'c>, number: u64, random: Random) -> Cluster<'c> {
        let warps = ctx.warps();
        let components = ctx.world.components;
        let blocks: Vec<Block> = (0..ctx.blocks())
            .map(|rank| Block {
                at: ctx.block_at(number, rank),
                shared: Shared::new(
                    ctx.kernel.launch.shared_bytes as usize,
                    ctx.grain,
                    ctx.world.races,
                    ctx.arrays.clone(),
                ),
                barriers: HashMap::new(),
                mbarriers: vec![Mbarrier::default(); components.mbarriers as usize],
                groups: (0..components.groups).map(|_| Products::default()).collect(),
                members: HashMap::new(),
                running: warps,
                free: 0,
            })
            .collect();
        let all = (0..ctx.blocks() as usize).flat_map(|block| (0..warps).map(move |warp| (block, warp)));
        let warps = all
            .map(|(block, warp)| Warp::new(ctx.code, block, warp, blocks[block].at, &ctx.kernel.launch))
            .map(|mut warp| {
                warp.scalars[RANK as usize] = i64::from(warp.block as u32 % ctx.cluster());
                warp.seen.copies.0 = components.number(Component::Copies(warp.first));
                Some(Box::new(warp))
            })
            .collect();
        Cluster {
            ctx,
            blocks,
            warps,
            barriers: vec![Barrier::default(); (ctx.blocks() / ctx.cluster()) as usize],
            overlay: Overlay::default(),
            released: Released::default(),
            weak: Vec::new(),
            waits: HashMap::new(),
            agents: BTreeMap::new(),
            next_agent: 1,
            closed: vec![Closed::default(); (ctx.blocks() * ctx.warps()) as usize],
            counts: Counts::new(ctx.code.counters),
            memo: Memo::default(),
            random,
            events: ctx.events.filter(|_| number == 0),
        }
    }

    fn run(&mut self) -> Result<()> {
        loop {
            let ready: Vec<usize> = (0..self.warps.len()).filter(|&warp| self.is_ready(warp)).collect();
            if ready.is_empty() {
                if self.land_one()? {
                    continue;
                }
                if self.warps.iter().flatten().all(|warp| warp.ended) {
                    return Ok(());
                }
                return Err(self.deadlock());
            }
            let chosen = ready[self.random.below(ready.len())];
            let Some(mut warp) = self.warps[chosen].take() else { continue };
            warp.waiting = None;
            self.tell_run(&warp);
            let stop = self.execute(&mut warp);
            self.tell_stop(&warp, &stop);
            let block = warp.block;
            if stop == Ok(Stop::Ends) {
                warp.ended = true;
                self.blocks[block].running -= 1;
            }
            self.warps[chosen] = Some(warp);
            if stop? == Stop::Ends && self.blocks[block].running == 0 {
                self.block_ends(block)?;
            }
            self.land_some()?;
        }
    }

    fn is_ready(&self, warp: usize) -> bool {
        let Some(warp) = &self.warps[warp] else { return false };
        if warp.ended || !self.has_begun(warp.block) {
            return false;
        }
        match &warp.waiting {
            Some(Waiting::Flag { word, least }) => {
                self.overlay.flag(&self.ctx.world, *word).is_none_or(|value| value >= *least)
            }
            None => true,
            Some(Waiting::Barrier(_) | Waiting::Cluster) => false,
            Some(Waiting::Registers(more)) => self.blocks[warp.block].free >= *more,
            Some(Waiting::Mbarriers(all)) => {
                all.iter().all(|&(block, at, want)| self.blocks[block].mbarriers[at].completed >= want)
            }
            Some(Waiting::Products(number)) => {
                self.blocks[warp.block].groups[warp.number as usize / 4].completed >= *number
            }
        }
    }

    /// Is there room on the device for a block? Clusters become resident in the order of the grid.
    fn has_begun(&self, block: usize) -> bool {
        let size = self.ctx.cluster();
        if self.blocks.len() <= self.ctx.resident.max(size) as usize {
            return true;
        }
        let ended =
            self.blocks.chunks(size as usize).filter(|all| all.iter().all(|block| block.running == 0));
        let room = (self.ctx.resident / size).max(1) as usize + ended.count();
        block / (size as usize) < room
    }

    /// The block of a rank of a warp's cluster, unless the rank is out of range or the block has ended.
    pub(crate) fn peer(&self, w: &Warp, rank: i64) -> Option<usize> {
        let size = self.ctx.cluster() as usize;
        let rank = usize::try_from(rank).ok().filter(|&rank| rank < size)?;
        let block = w.block / size * size + rank;
        (self.blocks[block].running > 0).then_some(block)
    }

    /// The number of a component of this cluster.
    pub(crate) fn component(&self, of: Component) -> u32 {
        self.ctx.world.components.number(of)
    }
}
