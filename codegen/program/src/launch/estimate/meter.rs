//! Reads a thread program, and adds up the load of its statements. It knows no sizes of a launch.

use std::collections::{HashMap, HashSet};

use tilewright_layout::Value;

use super::load::{Load, Parts, Trips};
use super::rates::{ROW, Rates, SECTOR};
use crate::isa::atom::{Atom, Done, Effect, OperandKind, OperandName};
use crate::isa::scope::Queue;
use crate::thread::index::{Int, Ix, Lanes, Leaf};
use crate::thread::mention;
use crate::thread::visit::Access;
use crate::thread::{AtomArg, Change, Kernel, Mem, Op, Param, Space, Stmt, Unroll, Val};
use crate::values::elem::Elem;
use crate::values::id::Id;
use crate::values::operation::{Bin, Un};
use crate::values::target::{Target, WARP};

/// Where a tile is: accesses with guards are executed inside of tensors alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Edges {
    Inside,
    Outside,
}

/// Issue slots of a function that the special function unit begins.
const SPECIAL: f64 = 9.0;

/// Issue slots that a function takes, the slot of a special function unit included.
fn slots(of: Un) -> f64 {
    match of {
        Un::Gelu | Un::Erf => 24.0,
        Un::Sin | Un::Cos => 20.0,
        Un::Fast(_)
        | Un::Exp
        | Un::Exp2
        | Un::Log
        | Un::Log2
        | Un::Recip
        | Un::Sqrt
        | Un::Rsqrt
        | Un::Tanh => SPECIAL,
        Un::CountOnes | Un::LeadingZeros | Un::Floor | Un::Ceil | Un::Trunc | Un::Round | Un::RoundEven => {
            2.0
        }
        Un::Neg | Un::Abs | Un::Apart | Un::Not => 1.0,
    }
}

/// Bytes of the widest access of a thread.
const VECTOR: u32 = 16;

pub(super) struct Meter<'k> {
    kernel: &'k Kernel,
    edges: Edges,
    named: HashMap<Id, Ix>,
    /// Values of names in the lanes of a warp.
    lanes: HashMap<Ix, Lanes>,
    /// Variables that are numbers once loops are written out.
    folded: HashSet<Id>,
    /// The clock of a block that is alone, and when elements that were loaded into an array are there.
    now: f64,
    arrivals: HashMap<Id, f64>,
    /// When groups of asynchronous copies were committed in this iteration.
    committed: Vec<f64>,
    /// Clocks that were waited for such elements.
    waited: f64,
    target: &'static Target,
    rates: &'k Rates,
}

impl<'k> Meter<'k> {
    pub(super) fn of(kernel: &'k Kernel, edges: Edges, rates: &'k Rates) -> Meter<'k> {
        Meter {
            kernel,
            edges,
            named: HashMap::new(),
            lanes: HashMap::new(),
            folded: HashSet::new(),
            now: 0.0,
            arrivals: HashMap::new(),
            committed: Vec::new(),
            waited: 0.0,
            target: Target::of(kernel.arch),
            rates,
        }
    }

    /// Is an expression a number once loops are written out?
    fn is_folded(&self, at: Ix) -> bool {
        let varies = |int: &Int| match int {
            Int::Var(id) => !self.folded.contains(id),
            Int::Param(_) | Int::Thread | Int::Block(_) | Int::Grid(_) | Int::ClusterRank => true,
            _ => false,
        };
        !self.kernel.exprs.any(at, &varies)
    }

    /// The load of statements that `warps` warps execute.
    pub(super) fn body(&mut self, body: &[Stmt], warps: f64) -> Option<Parts> {
        let mut all = Parts::default();
        for stmt in body.iter().filter(|stmt| !matches!(stmt.op, Op::Claim(_) | Op::Probe { .. })) {
            let wait = self.wait(&stmt.op);
            let before = self.now;
            let mut one = self.statement(&stmt.op, warps)?;
            self.now = before + one.once.clocks(self.rates).max(one.once.latency);
            one.once.latency += wait;
            one.once.exposed += self.exposed(&stmt.op);
            all.then(one);
        }
        Some(all)
    }

    /// Clocks until the copies have landed that a statement waits for, if this iteration has started them.
    fn exposed(&mut self, op: &Op) -> f64 {
        match op {
            Op::Commit(Queue::CpAsync) => self.committed.push(self.now),
            Op::WaitQueue { queue: Queue::CpAsync, pending } => {
                let landed = self.committed.len().saturating_sub(*pending as usize);
                let ready =
                    self.committed.drain(..landed).next_back().map_or(0.0, |at| at + self.rates.global);
                let wait = (ready - self.now).max(0.0);
                self.now += wait;
                return wait;
            }
            _ => {}
        }
        0.0
    }

    /// Clocks until the elements are there that a statement reads.
    fn wait(&mut self, op: &Op) -> f64 {
        let mut ready = self.now;
        op.each_use(&mut |used| {
            if let Some((id, access)) = mention::array(used)
                && access != Access::Write
                && let Some(arrival) = self.arrivals.get(&id)
            {
                ready = ready.max(*arrival);
            }
        });
        let wait = ready - self.now;
        (self.now, self.waited) = (ready, self.waited + wait);
        wait
    }

    /// One statement, its elements being there.
    fn statement(&mut self, op: &Op, warps: f64) -> Option<Parts> {
        let once = |load: Load| Some(Parts { once: load, ..Parts::default() });
        match op {
            Op::Let(id, value) => {
                self.named.insert(*id, *value);
                if self.is_folded(*value) {
                    self.folded.insert(*id);
                    return once(Load::default());
                }
                once(Load { issued: warps, ..Load::default() })
            }
            Op::Set(..) | Op::Arrive { .. } | Op::Leave { .. } | Op::Fence(_) => {
                once(Load { issued: warps, ..Load::default() })
            }
            Op::Take(_, value) | Op::Assign { value, .. } => once(self.value(value).times(warps)),
            // What blocks pass to each other is estimated by its bytes.
            Op::Load { from: Mem { space, .. }, .. }
            | Op::Store { to: Mem { space, .. }, .. }
            | Op::Atomic { to: Mem { space, .. }, .. }
                if self.is_workspace(*space) =>
            {
                Some(Parts::default())
            }
            Op::Load { to, from, guard, .. } => {
                let latency = match from.space {
                    Space::Global(_) => self.rates.global,
                    Space::Shared(_) => self.rates.shared,
                };
                self.arrivals.insert(to.reg, self.now + latency);
                let moved = self.moved(from, to.len, guard.is_some(), warps, true);
                let remote = f64::from(self.elem(from.space).bytes() * to.len * WARP) * warps;
                once(Load { remote: if from.peer.is_some() { remote } else { 0.0 }, ..moved })
            }
            Op::Store { to, from, guard } => once(self.moved(to, from.len, guard.is_some(), warps, false)),
            Op::Atomic { op: Change::Await, .. } => {
                once(Load { issued: warps, latency: self.rates.mbarrier, ..Load::default() })
            }
            Op::Atomic { to, value, guard, .. } => {
                let moved = self.moved(to, 1, guard.is_some(), warps, false);
                let times = match to.space {
                    Space::Global(_) => self.rates.added,
                    _ => 2.0,
                };
                once(self.value(value).times(warps).then(moved, times))
            }
            Op::Atom { row, args, .. } => once(self.instruction(row, args, warps)),
            Op::Sync { .. } => once(Load { issued: warps, latency: self.rates.barrier, ..Load::default() }),
            Op::Await { .. } => once(Load { issued: warps, latency: self.rates.mbarrier, ..Load::default() }),
            Op::WaitQueue { .. } => once(Load { issued: warps, ..Load::default() }),
            Op::For { .. } => self.repeated(op, warps),
            Op::If { cond, then, other } => {
                let (then, other) = (self.body(then, warps)?, self.body(other, warps)?);
                let rates = self.rates;
                let weight = |parts: &Parts| {
                    parts.once.size(rates) + parts.loops.iter().map(|of| of.1.size(rates)).sum::<f64>()
                };
                let mut most = if weight(&then) >= weight(&other) { then } else { other };
                if let Val::Int(cond, _) = cond {
                    most.omitted = Load::default().beside(most.once, self.ahead(*cond));
                }
                Some(most)
            }
            Op::Roles(roles) => {
                let mut all = Parts::default();
                for role in roles {
                    let own = self.body(&role.body, f64::from(role.warps.1 - role.warps.0))?;
                    all.join(own, Load::beside);
                }
                Some(all)
            }
            Op::Elect(scope, body) => {
                let elected = match scope.threads() {
                    Some(_) => (warps / f64::from(scope.warps())).max(1.0),
                    None => 1.0,
                };
                let mut all = self.body(body, elected)?;
                if scope.warps() > 1 {
                    // Each stores its own tile.
                    all.once.bulk *= elected;
                    all.once.cut_stores *= elected;
                }
                Some(all)
            }
            Op::Comment(_)
            | Op::Commit(_)
            | Op::Pin(_)
            | Op::Claim(_)
            | Op::Probe { .. }
            | Op::AwaitPrevious
            | Op::StartNext
            | Op::InitBarriers(_) => once(Load::default()),
        }
    }

    /// An instruction.
    fn instruction(&mut self, row: &Atom, args: &[AtomArg], warps: f64) -> Load {
        let mut load = Load { issued: warps, ..Load::default() };
        let group = f64::from(row.family.warps());
        if let Effect::Mma { m, n, k, .. } = row.effect {
            let operations = 2.0 * f64::from(m) * f64::from(n) * f64::from(k) * warps / group;
            let of = row.operand(OperandName::A).map_or(Elem::F16, |o| o.elem);
            // For warps, Hopper multiplies floats of 8 bits as f16, and converts them.
            let converts = group == 1.0 && of.bytes() == 1 && of.is_float() && self.kernel.arch >= 90;
            let rate = if converts { self.tensor_rate(Elem::F16) / 2.0 } else { self.tensor_rate(of) };
            load.tensor = operations / rate;
            // A warp waits for its own products and for the other products of its scheduler's tensor core.
            let own = if group > 1.0 { 1.0 } else { (self.rates.issue / warps).min(1.0) };
            load.latency = row.family.latency_clocks + load.tensor * own * self.rates.exposed;
        }
        for (operand, arg) in row.operands.iter().zip(args) {
            match (operand.kind, arg) {
                (_, AtomArg::Map { param, .. }) => {
                    // One elected thread copies. Parts of a line that are stored together are one.
                    let (rows, bytes) = self.box_rows(*param);
                    if row.family.completes == Done::Queue(Queue::Bulk) {
                        let added = matches!(row.effect, Effect::Reduce(_));
                        load.bulk += if added { bytes * self.rates.bulk_added } else { bytes };
                        load.cut_stores += rows * self.rates.cut_box + self.cut_tiles(*param, bytes);
                    } else {
                        load.rows += rows;
                    }
                }
                (OperandKind::GlobalAddress, AtomArg::At(at)) => {
                    let bytes = operand.address_bytes() as u32;
                    let own = self.accessed(at, bytes, true).times(warps);
                    load = load.beside(Load { issued: 0.0, ..own }, 1.0);
                    if bytes < VECTOR {
                        load.accesses = warps * self.rates.short_copy / self.rates.begin;
                        load.latency += warps * self.rates.short_copy * self.rates.before;
                    }
                }
                (OperandKind::SharedAddress, AtomArg::At(_)) => {
                    load.wavefronts += warps * 4.0;
                }
                _ => {}
            }
        }
        load
    }

    /// A loop.
    fn repeated(&mut self, op: &Op, warps: f64) -> Option<Parts> {
        let Op::For { var, from, to, step, unroll, body } = op else { return None };
        if *unroll == Unroll::Full {
            self.folded.insert(*var);
        }
        let waited = self.waited;
        let unrolled = *unroll == Unroll::Full;
        let before = if unrolled { Vec::new() } else { std::mem::take(&mut self.committed) };
        // A loop of a known length that threads may leave is left in its first iteration.
        let known = self.kernel.exprs.constant(*from).zip(self.kernel.exprs.constant(*to)).is_some();
        let left = body.iter().position(|stmt| mention::is_left_in(std::slice::from_ref(stmt), *var));
        let left = left.filter(|_| known);
        let inner = self.body(&body[..left.map_or(body.len(), |at| at + 1)], warps)?;
        if !unrolled {
            self.committed = before;
        }
        let overhead = if *unroll == Unroll::Full { 0.0 } else { 2.0 * warps };
        let inner_once = Load { issued: inner.once.issued + overhead, ..inner.once };
        let exprs = &self.kernel.exprs;
        // The rest of a loop that is written out in part has half of its iterations on average.
        let named = |at: Ix| match exprs.get(at).int {
            Int::Var(id) => self.named.get(&id).copied().unwrap_or(at),
            _ => at,
        };
        let count = |at: Ix| match exprs.get(named(at)).int {
            Int::Rem(_, by) => exprs.constant(by).map(|by| by / 2),
            _ => exprs.constant(at),
        };
        if let (Some(from), Some(to)) = (count(*from), count(*to)) {
            let all = ((to - from).max(0) as f64 / (*step).max(1) as f64).ceil();
            let times = if left.is_some() { all.min(1.0) } else { all };
            // Loads of a loop that is written out wait together.
            let together = if *unroll == Unroll::Full { self.waited - waited } else { 0.0 };
            let each = Load { latency: inner_once.latency - together, ..inner_once };
            let once = Load { latency: together, ..Load::default() }.then(each, times);
            let loops = inner.loops.into_iter().map(|(of, load)| (of, Load::default().then(load, times)));
            return Some(Parts { once, loops: loops.collect(), ..Parts::default() });
        }
        match self.size(*to) {
            // The tiles of a persistent kernel: one block's tiles count.
            _ if self.kernel.launch.persistent && !inner.loops.is_empty() => Some(inner),
            Some(times) if *step == 1 && inner.loops.is_empty() => {
                let once = Load { latency: 0.0, ..Load::default().beside(inner.omitted, -1.0) };
                Some(Parts { once, loops: vec![(times, inner_once)], ..Parts::default() })
            }
            // Data decide how many there are: one counts.
            None => Some(inner),
            _ => None,
        }
    }

    /// How many iterations before a loop's end a condition becomes false: 3 for `k + 3 < steps`.
    fn ahead(&self, cond: Ix) -> f64 {
        let exprs = &self.kernel.exprs;
        let Int::Lt(at, _) = exprs.get(cond).int else { return 0.0 };
        let Int::Add(a, b) = exprs.get(at).int else { return 0.0 };
        let is_variable = |at: Ix| matches!(exprs.get(at).int, Int::Var(_));
        let iterations = exprs.constant(b).filter(|_| is_variable(a));
        iterations.or(exprs.constant(a).filter(|_| is_variable(b))).map_or(0.0, |n| n.max(0) as f64)
    }

    /// A load or a store of `len` elements by each thread: its instruction, the address, and a guard.
    fn moved(&mut self, at: &Mem, len: u32, guarded: bool, warps: f64, loads: bool) -> Load {
        let size = self.elem(at.space).bytes();
        let guard = if guarded { self.rates.guard } else { 0.0 };
        match at.space {
            Space::Global(_) if guarded && self.edges == Edges::Outside => {
                Load { issued: guard * warps, ..Load::default() }
            }
            Space::Global(_) => {
                let own = self.accessed(at, size * len, loads).times(warps);
                Load { issued: own.issued + guard * warps, ..own }
            }
            Space::Shared(_) => {
                let bytes = f64::from(size * len * WARP) * warps;
                let wavefronts = (bytes / ROW).max(warps);
                let latency = if loads { self.rates.load } else { 0.0 };
                Load { issued: (2.0 + guard) * warps, wavefronts, latency, ..Load::default() }
            }
        }
    }

    /// An access of a warp to global memory: each lane moves `bytes` bytes from an element on.
    fn accessed(&mut self, at: &Mem, bytes: u32, loads: bool) -> Load {
        let exprs = &self.kernel.exprs;
        let wide = if exprs.get(at.index).is_narrow() { 0.0 } else { self.rates.wide };
        let wraps = exprs.any(at.index, &|int: &Int| matches!(int, Int::Wrap(..)));
        let wrap = if wraps { self.rates.wrap } else { 0.0 };
        let moved = self.sectors(at, bytes.into()) as f64 * SECTOR as f64;
        let of = |of: bool| if of { moved } else { 0.0 };
        let cut_stores = match at.space {
            Space::Global(tensor) if !loads => self.cut_tiles(tensor, moved),
            _ => 0.0,
        };
        Load {
            issued: self.rates.access + wide + wrap,
            accesses: 1.0,
            loaded: of(loads),
            vectors: of(loads && bytes >= VECTOR),
            stored: of(!loads),
            cut_stores,
            ..Load::default()
        }
    }

    /// Sectors that such an access moves.
    fn sectors(&mut self, at: &Mem, bytes: i64) -> usize {
        let size = i64::from(self.elem(at.space).bytes());
        let sectors = self.lanes(at.index).into_iter().flat_map(|first| {
            let from = first.wrapping_mul(size);
            [from, from.wrapping_add(bytes - 1)].map(|byte| byte.div_euclid(SECTOR))
        });
        sectors.collect::<HashSet<i64>>().len()
    }

    /// The values of an expression in the lanes of the first warp of the first block, at the beginning of loops. Sizes are large.
    fn lanes(&mut self, at: Ix) -> Lanes {
        let leaf = |int: &Int| match int {
            Int::Thread => Leaf::Counted(0),
            Int::Var(id) => self.named.get(id).map_or(Leaf::Uniform(0), |value| Leaf::Named(*value)),
            Int::Param(_) => Leaf::Uniform(1 << 20),
            Int::Grid(_) => Leaf::Uniform(1),
            _ => Leaf::Uniform(0),
        };
        self.kernel.exprs.lanes(at, &leaf, &mut self.lanes)
    }

    fn is_workspace(&self, space: Space) -> bool {
        matches!(space, Space::Global(id) if matches!(self.kernel.params[id as usize], Param::Workspace { .. }))
    }

    fn elem(&self, space: Space) -> Elem {
        match space {
            Space::Global(id) => match &self.kernel.params[id as usize] {
                Param::Pointer { elem, .. } | Param::Workspace { elem, .. } => *elem,
                _ => Elem::F32,
            },
            Space::Shared(id) => self.kernel.shared[id as usize].elem,
        }
    }

    /// Rows of at most 128 bytes of a box of a bulk copy, and its bytes.
    fn box_rows(&self, param: Id) -> (f64, f64) {
        match &self.kernel.params[param as usize] {
            Param::TensorMap { tensor, tile, .. } => {
                let bytes = f64::from(self.elem(Space::Global(*tensor)).bytes());
                let (run, others) = tile.split_first().map_or((1, &tile[..]), |(run, others)| (*run, others));
                let others: f64 = others.iter().map(|&n| f64::from(n)).product();
                let row = f64::from(run) * bytes;
                (others * (row / ROW).ceil(), others * row)
            }
            _ => (0.0, 0.0),
        }
    }

    /// Further bytes where a tile's rows begin in the middle of a sector, for `bytes` bytes that are stored to a tensor or through
    /// its map.
    fn cut_tiles(&self, param: Id, bytes: f64) -> f64 {
        let param = match &self.kernel.params[param as usize] {
            Param::TensorMap { tensor, .. } => &self.kernel.params[*tensor as usize],
            param => param,
        };
        let (Param::Pointer { elem, shape, .. }, Some(fast)) = (param, param.contiguous()) else {
            return 0.0;
        };
        let extent = shape[fast];
        let row = self.kernel.launch.grid.iter().flatten().find_map(|factor| match (*factor, extent) {
            (Value::Sym { of, over, .. }, Value::Sym { of: own, .. }) if of == own => Some(over),
            _ => None,
        });
        row.map_or(0.0, |row| self.rates.cut_tile * bytes / (f64::from(row) * f64::from(elem.bytes())))
    }

    /// Operations of the tensor cores in a clock, for operands of a type.
    fn tensor_rate(&self, elem: Elem) -> f64 {
        let like = match elem {
            Elem::E4m3 | Elem::E5m2 | Elem::U8 => Elem::I8,
            Elem::Tf32 | Elem::F32 => Elem::F16,
            other => other,
        };
        let rate = self.target.tensor.iter().find(|(of, _)| *of == like).map_or(1024, |(_, rate)| *rate);
        let part = if matches!(elem, Elem::Tf32 | Elem::F32) { 0.5 } else { 1.0 };
        f64::from(rate) * part * self.rates.tensor
    }

    /// The load of a warp that computes a value.
    fn value(&self, value: &Val) -> Load {
        let issued = |n: f64| Load { issued: n, ..Load::default() };
        let all = |of: &[&Val]| of.iter().fold(Load::default(), |sum, of| sum.then(self.value(of), 1.0));
        match value {
            Val::Reg(..) | Val::Lit(..) | Val::Int(..) | Val::Param(_) => Load::default(),
            Val::Un(with, x) => all(&[x]).then(issued(slots(*with)), 1.0),
            Val::Bin(Bin::Div | Bin::FastDiv, x, y) => all(&[x, y]).then(issued(SPECIAL), 1.0),
            Val::Cast(_, x) => all(&[x]).then(issued(1.0), 1.0),
            Val::Bits(_, x) => all(&[x]),
            Val::Ptx { args, .. } => all(&args.iter().collect::<Vec<_>>()).then(issued(1.0), 1.0),
            Val::Bin(_, x, y) | Val::Cmp(_, x, y) => all(&[x, y]).then(issued(1.0), 1.0),
            Val::Pick(x) => all(&[&x[0], &x[1], &x[2]]).then(issued(1.0), 1.0),
            Val::Shuffle(..) | Val::Vote(..) => {
                let shuffle =
                    Load { issued: 1.0, wavefronts: 1.0, latency: self.rates.shared, ..Load::default() };
                all(&value.parts()).then(shuffle, 1.0)
            }
            Val::Fma(x) => {
                all(&[&x[0], &x[1], &x[2]]).then(self.multiply_add(self.kernel.type_of(value), 1.0), 1.0)
            }
            Val::Product(row, x) => {
                let own = self.multiply_add(self.kernel.type_of(value), row.multiply_adds().max(1.0));
                all(&[&x[0], &x[1], &x[2]]).then(own, 1.0)
            }
        }
    }

    /// Multiply-adds of a warp.
    fn multiply_add(&self, elem: Elem, count: f64) -> Load {
        let (like, count) = match elem {
            Elem::F64 | Elem::I32 | Elem::U32 => (elem, count),
            // In words of 32 bits: three products, and the carry.
            Elem::I64 | Elem::U64 => (Elem::I32, 4.0 * count),
            _ => (Elem::F32, count),
        };
        let rate = self.target.cores.iter().find(|(of, _)| *of == like).map_or(64, |(_, rate)| *rate);
        Load { cores: f64::from(WARP) * count / f64::from(rate), issued: 1.0, ..Load::default() }
    }

    /// The product of sizes that an expression is, but for a constant that is added.
    fn size(&self, at: Ix) -> Option<Trips> {
        let exprs = &self.kernel.exprs;
        match &exprs.get(at).int {
            Int::Const(n) => Some(Trips::of(Value::Int(*n))),
            Int::Param(id) => match &self.kernel.params[*id as usize] {
                Param::Int { symbol, .. } => Some(Trips::of(Value::Sym { times: 1, of: *symbol, over: 1 })),
                _ => None,
            },
            Int::Var(id) => self.size(*self.named.get(id)?),
            Int::Add(a, b) | Int::Sub(a, b) => match (exprs.constant(*a), exprs.constant(*b)) {
                (None, Some(_)) => self.size(*a),
                (Some(_), None) => self.size(*b),
                _ => None,
            },
            Int::Div(a, by) => self.size(*a)?.part(exprs.constant(*by)?),
            Int::Mul(a, b) => match (exprs.constant(*a), exprs.constant(*b)) {
                (None, Some(n)) => self.times(*a, n),
                (Some(n), None) => self.times(*b, n),
                _ => self.size(*a)?.product(self.size(*b)?),
            },
            // A bound that a size limits.
            Int::Min(a, b) | Int::Max(a, b) => self.size(*a).or_else(|| self.size(*b)),
            _ => None,
        }
    }

    fn times(&self, at: Ix, n: i64) -> Option<Trips> {
        let trips = self.size(at)?;
        Some(Trips { of: trips.of.times(Value::Int(n))?, ..trips })
    }
}
