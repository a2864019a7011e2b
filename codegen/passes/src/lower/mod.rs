//! Lowering of the tile program to the thread program: which thread accesses which element, with which vector
//! width, under which guard.

mod address;
mod atomic;
mod bulk;
mod cluster;
mod commits;
mod constants;
mod dead_variables;
mod division_counters;
mod edges;
mod elementwise;
mod environment;
mod family;
mod fences;
mod gather;
mod gemm;
mod instruction_copies;
mod integers;
mod lanes;
mod masks;
mod numbering;
mod ordered_sections;
mod packed;
mod pins;
mod previous;
mod realign;
mod reduce;
mod ring;
mod scan;
mod statement;
mod strength_reduction;
mod tile_scheduler;
mod tokens;
mod transfer;

use std::collections::BTreeSet;

use tilewright_layout::{Symbol, Value};

pub use crate::allocate::{Allocation, allocate};
pub use crate::source::ast::Span;
pub use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::index::{Exprs, Int, Ix};
use crate::thread::{self, Bar, Fact, Id, Kernel, Launch, Op, Param, Reg, Shared, Site, Stmt, Unroll, Var};
use crate::tile::ALIGN;
pub use crate::tile::alternative::Policy;
use crate::tile::bounds::Assumed;
use crate::tile::range::MOST_EXTENT;
use crate::tile::{self, Arg, Program, Space};
use crate::values::affine::{Affine, Arith, Coord};
use environment::Scope;

/// The thread program of a specialization; `needs` are the facts that earlier passes assumed.
pub(crate) fn lowered(
    program: &Program,
    policy: Policy,
    needs: Vec<Fact>,
) -> std::result::Result<Kernel, Diagnostic> {
    let mut lower = Lower::new(Assumed { program, policy, needs });
    lower.start_rings();
    lower.start_ring_positions(&program.body);
    lower.statements(&program.body)?;
    if let Some((problem, site)) = lower.unknown {
        return Err(problem.at(lower.kernel.sites[site as usize].span));
    }
    lower.end_rings();
    let kernel = lower.finish();
    match kernel.check_widths() {
        Ok(()) => Ok(kernel),
        Err(wrong) => Err(Problem::internal(&wrong).at(kernel.sites[wrong.site as usize].span)),
    }
}

/// A pass over the thread program. The marks are statements that commit or wait for copies under tokens.
pub struct ThreadPass {
    /// Its name, which is the module's.
    pub name: &'static str,
    /// What it does, as a sentence without a subject.
    pub does: &'static str,
    pass: fn(&mut Kernel, &tokens::Marks),
}

const fn thread_pass(
    name: &'static str,
    does: &'static str,
    pass: fn(&mut Kernel, &tokens::Marks),
) -> ThreadPass {
    ThreadPass { name, does, pass }
}

/// All passes over the thread program, in the order in which they run at the end of lowering.
pub const THREAD_PASSES: &[ThreadPass] = &[
    thread_pass("dead_variables", "removes names and registers that no statement reads", |kernel, _| {
        dead_variables::remove(kernel)
    }),
    thread_pass("commits", "inserts commits of asynchronous copies", |kernel, _| commits::insert(kernel)),
    thread_pass("tokens", "lets waits leave the copies in flight that are not needed yet", tokens::relax),
    thread_pass("fences", "inserts fences between the proxies of memory", |kernel, _| fences::insert(kernel)),
    thread_pass("pins", "keeps compilers from moving registers of asynchronous products", |kernel, _| {
        pins::insert(kernel)
    }),
    thread_pass("previous", "waits for the kernel before, where launches overlap", |kernel, _| {
        previous::insert(kernel)
    }),
];

struct Lower<'p> {
    program: &'p Program,
    assumed: Assumed<'p>,
    kernel: Kernel,
    /// Offsets in shared memory.
    allocation: Allocation,
    /// Parameters of symbols.
    symbols: Vec<(Symbol, Ix)>,
    /// For each tensor its parameter, shared array or register array.
    storage: Vec<Id>,
    /// Loop-invariant statements, at the top of the kernel.
    preamble: Vec<Stmt>,
    /// Expressions that are named at the top, with their variables.
    named: Vec<(Ix, Id)>,
    /// Statements of the current block.
    block: Vec<Stmt>,
    /// The environment of that block.
    scope: Scope,
    /// Loops around the current statement, with the divisions that they count; the innermost last.
    counted: Vec<division_counters::CountedLoop>,
    /// An integer that was needed before it had a value, and where.
    unknown: Option<(Problem, Id)>,
    /// Integer arguments that have been named, and their names.
    scalars: Vec<(Id, Ix)>,
    /// For each ring its `full` mbarriers; `empty` follow.
    rings: Vec<Id>,
    /// For each ordered section its mbarriers.
    orders: Vec<Id>,
    /// Accumulators that the next product replaces instead of adding to them.
    replaced: BTreeSet<Id>,
    /// The exchanges between the blocks of a cluster, if there are any.
    exchanges: Option<cluster::Exchanges>,
    /// Statements that commit or wait for copies under tokens.
    marks: tokens::Marks,
}

impl<'p> Lower<'p> {
    fn new(assumed: Assumed<'p>) -> Lower<'p> {
        let program = assumed.program;
        let kernel = Kernel {
            name: program.name.clone(),
            arch: program.arch,
            arch_specific: false,
            launch: Launch {
                grid: std::array::from_fn(|axis| {
                    program.grid[axis].iter().chain(&program.more[axis]).copied().collect()
                }),
                cluster: program.cluster,
                divided: program.divided,
                threads: program.threads(),
                shared_bytes: 0,
                blocks_per_sm: program.blocks_per_sm,
                overlaps: program.overlaps,
                beside: false,
                persistent: program.launch == tile::LaunchRule::Persistent,
                cost: None,
                packs: Vec::new(),
                read_sizes: program.read_sizes.clone(),
            },
            needs: Vec::new(),
            params: Vec::new(),
            shared: Vec::new(),
            regs: Vec::new(),
            bars: vec![Bar::Block],
            exprs: Exprs::default(),
            vars: Vec::new(),
            sites: vec![Site::default()],
            body: Vec::new(),
        };
        let mut lower = Lower {
            program,
            assumed,
            kernel,
            allocation: allocate(program),
            symbols: Vec::new(),
            storage: vec![0; program.tensors.len()],
            preamble: Vec::new(),
            named: Vec::new(),
            block: Vec::new(),
            scope: Scope {
                vars: vec![None; program.vars.len()],
                reads: vec![None; program.reads.len()],
                ..Scope::default()
            },
            counted: Vec::new(),
            unknown: None,
            scalars: Vec::new(),
            rings: Vec::new(),
            orders: Vec::new(),
            replaced: BTreeSet::new(),
            exchanges: None,
            marks: tokens::Marks::new(),
        };
        lower.declare();
        lower
    }

    fn declare(&mut self) {
        for arg in &self.program.args {
            match arg {
                Arg::Tensor(id) => {
                    let tensor = self.program.tensor(*id);
                    let Space::Global { mutable } = tensor.space else {
                        continue;
                    };
                    self.storage[*id as usize] = self.kernel.params.len() as Id;
                    if self.program.packs.contains(id) {
                        self.kernel.launch.packs.push(self.storage[*id as usize]);
                    }
                    self.kernel.params.push(Param::Pointer {
                        name: tensor.name.clone(),
                        elem: tensor.elem,
                        write: mutable,
                        shape: tensor.plain().leaves().map(|leaf| leaf.0).collect(),
                        stride: tensor.plain().leaves().map(|leaf| leaf.1).collect(),
                    });
                }
                Arg::Scalar(id) => {
                    let scalar = &self.program.scalars[*id as usize];
                    self.kernel.params.push(Param::Scalar { name: scalar.name.clone(), elem: scalar.elem });
                }
            }
        }
        for symbol in self.program.symbols() {
            let param = self.kernel.params.len() as Id;
            let name = symbol.name().to_owned();
            self.kernel.params.push(Param::Int { name, symbol, wide: false });
            let size = Value::Sym { times: 1, of: symbol, over: 1 };
            let least = self.program.least(symbol);
            let limits = self.program.at_most.iter().filter(|(of, _)| *of == size);
            let most = limits.map(|(_, limit)| *limit).fold(MOST_EXTENT, i64::min).max(least);
            let multiple = self.program.asserted(size);
            let at = self.exprs().leaf(Int::Param(param), least, most, multiple, thread::Scope::Grid);
            self.symbols.push((symbol, at));
        }
        for id in (0..self.program.tensors.len() as Id).filter(|id| self.program.is_workspace(*id)) {
            let tensor = self.program.tensor(id);
            self.storage[id as usize] = self.kernel.params.len() as Id;
            self.kernel.params.push(Param::Workspace {
                name: tensor.name.clone(),
                elem: tensor.elem,
                shape: tensor.plain().leaves().map(|leaf| leaf.0).collect(),
                zeroed: self.program.zeroed.contains(&id),
            });
        }
        for (id, tensor) in self.program.tensors.iter().enumerate() {
            let len = tensor.layout.cosize().unwrap_or(0) as u32;
            match tensor.space {
                Space::Global { .. } => {}
                Space::Shared { align } => {
                    self.storage[id] = self.kernel.shared.len() as Id;
                    let (name, note) = (tensor.name.clone(), tensor.layout.to_string());
                    let (offset, align) = (self.allocation.tiles[&(id as Id)], align.max(ALIGN));
                    self.kernel.shared.push(Shared { name, elem: tensor.elem, len, offset, align, note });
                }
                Space::Registers { words } => {
                    let name = tensor.name.clone();
                    self.storage[id] = self.register(name, tensor.elem, len, words);
                }
            }
        }
        for (ring, offsets) in self.program.rings.iter().zip(self.allocation.rings.clone()) {
            self.rings.push(self.kernel.bars.len() as Id);
            let both = [("full", ring.arrivals), ("empty", self.releases(ring))];
            for ((what, count), offset) in both.into_iter().zip(offsets) {
                let name = format!("{}_{what}", ring.name);
                let scope = ring::scope(self.program, ring);
                self.kernel.bars.push(Bar::Mbarriers {
                    name,
                    offset,
                    slots: ring.slots,
                    slots_name: Some(self.name_of_slots(ring)),
                    count,
                    scope,
                });
            }
        }
        self.declare_orders();
    }

    fn finish(mut self) -> Kernel {
        let mut body = self.preamble;
        body.append(&mut self.block);
        self.kernel.body = body;
        self.kernel.needs = self.assumed.needs;
        self.kernel.launch.shared_bytes = self.allocation.bytes;
        THREAD_PASSES.iter().for_each(|pass| (pass.pass)(&mut self.kernel, &self.marks));
        if self.program.groups.iter().any(|group| group.registers.is_some()) {
            // Roles reallocate registers by setmaxnreg, which needs a launch bound and is specific to an architecture.
            self.kernel.arch_specific = true;
            self.kernel.launch.blocks_per_sm = self.kernel.launch.blocks_per_sm.max(1);
        }
        if self.kernel.launch.blocks_per_sm == 0 {
            // Guards and 64-bit offsets take more registers.
            let addresses = if self.assumed.policy == Policy::General { 96 } else { 48 };
            self.kernel.launch.blocks_per_sm = self.kernel.resident(addresses);
        }
        self.kernel
    }

    fn exprs(&mut self) -> &mut Exprs {
        &mut self.kernel.exprs
    }

    fn int(&mut self, n: i64) -> Ix {
        self.kernel.exprs.int(n)
    }

    fn register(&mut self, name: String, elem: crate::values::elem::Elem, len: u32, words: bool) -> Id {
        self.kernel.regs.push(Reg { name, elem, len, words });
        self.kernel.regs.len() as Id - 1
    }

    /// A fresh variable that runs over `0..extent`, as an expression.
    fn loop_var(&mut self, name: &str, extent: i64) -> (Id, Ix) {
        let id = self.var(name, false);
        let at = self.exprs().leaf(Int::Var(id), 0, (extent - 1).max(0), 1, thread::Scope::Block);
        (id, at)
    }

    fn var(&mut self, name: &str, wide: bool) -> Id {
        self.kernel.vars.push(Var { name: name.to_owned(), mutable: false, wide, array: None });
        self.kernel.vars.len() as Id - 1
    }

    fn emit(&mut self, op: Op) {
        self.block.push(self.stmt(op));
    }

    /// A statement of the current source location.
    fn stmt(&self, op: Op) -> Stmt {
        Stmt { site: self.scope.site, op }
    }

    fn comment(&mut self, text: String) {
        self.emit(Op::Comment(text));
    }

    /// Emits a statement's loops: one for each extent over 1, innermost first in `extents`. `body` gets an
    /// index for each.
    fn loops(
        &mut self,
        extents: &[(String, i64)],
        unroll: Unroll,
        body: &mut dyn FnMut(&mut Self, &[Ix]) -> Result<()>,
    ) -> Result<()> {
        let mut at: Vec<Ix> = vec![self.int(0); extents.len()];
        self.loops_from(extents.len(), extents, unroll, &mut at, body)
    }

    fn loops_from(
        &mut self,
        level: usize,
        extents: &[(String, i64)],
        unroll: Unroll,
        at: &mut Vec<Ix>,
        body: &mut dyn FnMut(&mut Self, &[Ix]) -> Result<()>,
    ) -> Result<()> {
        let Some(next) = level.checked_sub(1) else {
            return body(self, at);
        };
        let (name, extent) = &extents[next];
        if *extent == 1 {
            return self.loops_from(next, extents, unroll, at, body);
        }
        let (var, index) = self.loop_var(name, *extent);
        at[next] = index;
        let (body, ()) = self.nested(|lower| {
            if unroll == Unroll::Full {
                lower.scope.unrolled.push(var);
            }
            lower.loops_from(next, extents, unroll, at, body)
        })?;
        let (from, to) = (self.int(0), self.int(*extent));
        self.emit(Op::For { var, from, to, step: 1, unroll, body });
        Ok(())
    }

    /// The value of a size or stride.
    fn value(&mut self, value: Value) -> Ix {
        match value {
            Value::Int(n) => self.int(n),
            Value::Sym { times, of, over } => {
                let symbol = self.symbols.iter().find(|(known, _)| *known == of).map(|(_, at)| *at);
                let symbol = symbol.unwrap_or_default();
                let rounded = if over > 1 {
                    let sum = self.exprs().add(symbol, i64::from(over) - 1);
                    let count = self.exprs().div(sum, i64::from(over));
                    self.name_tile_of(count, of, over.into());
                    count
                } else {
                    symbol
                };
                self.exprs().mul(rounded, times)
            }
            Value::Basis { .. } | Value::Any => self.int(0),
        }
    }

    fn coord(&mut self, coord: &Coord) -> Ix {
        match coord {
            Coord::Block(axis) => {
                let hi = self.program.most_blocks(usize::from(*axis)) - 1;
                self.exprs().leaf(Int::Block(*axis), 0, hi, 1, thread::Scope::Block)
            }
            Coord::Var(var) => {
                let free = self.scope.vars[*var as usize];
                free.unwrap_or_else(|| self.without_value(&self.program.vars[*var as usize].name))
            }
            Coord::Thread(group) => {
                let thread = self.thread_of(*group);
                match self.program.groups[*group as usize].members {
                    0 | 1 => thread,
                    _ => {
                        let threads = i64::from(self.program.threads_of(*group));
                        self.exprs().rem(thread, threads)
                    }
                }
            }
            Coord::Member(group) => self.member(*group),
            Coord::Swizzled(group, parts) => {
                let thread = self.coord(&Coord::Thread(*group));
                let flip = self.flip(crate::values::affine::swizzle(*parts), thread);
                self.exprs().xor(thread, flip)
            }
            Coord::Begin { iteration, of, tile } => self.begin(iteration, *of, *tile),
            Coord::Size { of, over } => self.value(Value::Sym { times: 1, of: *of, over: *over }),
            Coord::Scalar(id) => self.scalar(*id),
            Coord::Loaded { number, .. } => {
                let read = self.scope.reads[*number as usize];
                read.unwrap_or_else(|| self.without_value(&self.program.reads[*number as usize].name))
            }
            Coord::Two(with, of) => {
                let [a, b] = of.each_ref().map(|of| self.affine(of));
                match with {
                    Arith::Mul => self.exprs().mul(a, b),
                    Arith::Div => self.quotient(a, b),
                    Arith::Rem => self.remainder(a, b),
                    Arith::Min => self.exprs().min(a, b),
                    Arith::Max => self.exprs().max(a, b),
                }
            }
            Coord::Phase(ring) => self.phase(*ring),
            Coord::ClusterRank => {
                let hi = i64::from(self.program.cluster.iter().product::<u32>()) - 1;
                self.exprs().leaf(Int::ClusterRank, 0, hi, 1, thread::Scope::Block)
            }
            Coord::Submode { of, over, extent } => {
                let of = self.affine(of);
                let submode = self.exprs().div(of, *over);
                match extent {
                    Some(n) => self.exprs().rem(submode, *n),
                    None => submode,
                }
            }
        }
    }

    /// A placeholder for an integer that has no value here, which is an error.
    fn without_value(&mut self, name: &str) -> Ix {
        let problem = Problem::internal(format!("`{name}` is used where it has no value"));
        self.unknown.get_or_insert((problem, self.scope.site));
        self.int(-1)
    }

    fn affine(&mut self, affine: &Affine) -> Ix {
        let mut sum = self.int(0);
        for (coord, factor) in &affine.terms {
            let at = self.coord(coord);
            let term = self.exprs().mul(at, *factor);
            sum = self.exprs().add(sum, term);
        }
        self.exprs().add(sum, affine.constant)
    }

    /// Names an expression that is invariant in the kernel, at the kernel's top. Equal expressions have the first of their names.
    fn name(&mut self, at: Ix, wanted: &str) -> Ix {
        self.name_in(at, wanted, None)
    }

    /// The same, where the name is an offset in a shared array: each array has its own, whose strides have the array's names.
    fn name_in(&mut self, at: Ix, wanted: &str, array: Option<Id>) -> Ix {
        let known = self.kernel.exprs.get(at).clone();
        if matches!(known.int, Int::Const(_) | Int::Var(_) | Int::Param(_)) {
            return at;
        }
        let vars = &self.kernel.vars;
        let is_it = |(named, id): &&(Ix, Id)| *named == at && vars[*id as usize].array == array;
        let id = match self.named.iter().find(is_it) {
            Some(&(_, id)) => id,
            None => {
                let id = self.var(wanted, !known.is_narrow());
                self.kernel.vars[id as usize].array = array;
                self.preamble.push(Stmt { site: self.scope.site, op: Op::Let(id, at) });
                self.named.push((at, id));
                id
            }
        };
        let name = self.exprs().leaf(Int::Var(id), known.lo, known.hi, known.multiple, known.same_for);
        self.exprs().assume(name, known.lo, known.hi);
        name
    }

    /// Names an expression within the current block and those inside it, where it is first used.
    fn name_here(&mut self, at: Ix, wanted: &str) -> Ix {
        let known = self.kernel.exprs.get(at).clone();
        let id = match self.scope.names.iter().find(|(named, _)| *named == at) {
            Some((_, id)) => *id,
            None => {
                let id = self.var(wanted, !known.is_narrow());
                self.emit(Op::Let(id, at));
                self.scope.names.push((at, id));
                id
            }
        };
        self.exprs().leaf(Int::Var(id), known.lo, known.hi, known.multiple, known.same_for)
    }

    /// Names the tensor that the statements of this site access.
    fn at_tensor(&mut self, tensor: &str) {
        self.at_site(tensor, self.kernel.sites[self.scope.site as usize].span);
    }

    fn at_site(&mut self, tensor: &str, span: Span) {
        let site = Site { tensor: tensor.into(), span, coord: Vec::new() };
        self.scope.site = match self.kernel.sites.iter().position(|known| *known == site) {
            Some(at) => at as Id,
            None => {
                self.kernel.sites.push(site);
                self.kernel.sites.len() as Id - 1
            }
        };
    }
}
