//! Memory accesses of a kernel, and the cost of one for a warp: the worst over all warps, and over the
//! first few values of the enclosing loop variables.

use tilewright_layout::{BankReport, SectorReport, Transfer, WarpAccess};

use super::warp::Warp;
use crate::cuda::Names;
use crate::cuda::report::Access;
use crate::isa::atom::OperandKind;
use crate::source::ast::Span;
use crate::thread::index::{Ix, LANES, Lanes};
use crate::thread::{AtomArg, Frag, Id, Kernel, Mem, Op, Param, Scope, Space, Stmt, Val};
use crate::tile::{self, Program};
use crate::view_elements::Budget;

/// Global tensors are assumed to begin where allocations do.
const BASE_ALIGNMENT: i64 = 256;

/// One memory access of a kernel.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) what: &'static str,
    pub(super) mem: Mem,
    /// The tensor's name in the program.
    pub(super) tensor: String,
    pub(super) span: Span,
    /// Bytes that one thread moves.
    pub(super) bytes: i64,
    pub(super) transfer: Transfer,
    pub(super) banks: Option<BankReport>,
    pub(super) sectors: Option<SectorReport>,
    /// The budget ran out before it was evaluated.
    pub(super) left: bool,
    /// Byte addresses in the first warp at the beginning of its loops, and the active lanes.
    pub(super) first: (Lanes, u32),
    /// The access that costs `banks` or `sectors`.
    pub(super) worst: Option<WarpAccess>,
    pub(super) guarded: bool,
    around: Around,
}

/// What surrounds an access.
#[derive(Clone, Debug)]
struct Around {
    loops: Vec<Loop>,
    conditions: Vec<(Ix, bool)>,
    warps: (u32, u32),
    /// Lanes that execute it; of an access, those that give an address.
    lanes: u32,
}

/// A loop around an access.
#[derive(Clone, Copy, Debug)]
struct Loop {
    var: Id,
    from: Ix,
    to: Ix,
    step: i64,
}

/// All accesses with their costs.
pub(super) fn measure(kernel: &Kernel, budget: &mut Budget) -> Vec<Site> {
    let warps = (0, kernel.launch.threads.div_ceil(32));
    let around = Around { loops: Vec::new(), conditions: Vec::new(), warps, lanes: u32::MAX };
    let mut sites = Sites { kernel, all: Vec::new() };
    sites.of(&kernel.body, &around);
    let mut warp = Warp::new(kernel);
    let mut all = sites.all;
    for site in &mut all {
        site.measure(kernel, &mut warp, budget);
    }
    all
}

struct Sites<'k> {
    kernel: &'k Kernel,
    all: Vec<Site>,
}

/// A part of a statement: bytes that one thread moves.
struct Moved<'m> {
    what: &'static str,
    mem: &'m Mem,
    bytes: i64,
    transfer: Transfer,
    guard: Option<Ix>,
}

impl Sites<'_> {
    fn of(&mut self, body: &[Stmt], around: &Around) {
        for stmt in body {
            self.statement(stmt, around);
        }
    }

    fn statement(&mut self, stmt: &Stmt, around: &Around) {
        let bytes = |mem: &Mem, frag: &Frag| i64::from(frag.len) * element(self.kernel, mem.space);
        match &stmt.op {
            Op::Load { to, from: mem, guard, .. } => {
                let (bytes, transfer) = (bytes(mem, to), Transfer::Load);
                self.site(stmt, Moved { what: "load", mem, bytes, transfer, guard: *guard }, around.clone());
            }
            Op::Store { to: mem, from, guard } => {
                let (bytes, transfer) = (bytes(mem, from), Transfer::Store);
                self.site(stmt, Moved { what: "store", mem, bytes, transfer, guard: *guard }, around.clone());
            }
            Op::Atom { row, args, guard } => {
                let operands = || row.operands.iter().zip(args);
                let sources_first =
                    operands().filter(|o| !o.0.writes).chain(operands().filter(|o| o.0.writes));
                for (operand, arg) in sources_first {
                    let AtomArg::At(mem) = arg else { continue };
                    let bytes = operand.address_bytes();
                    let (what, transfer, lanes) = match (row.family.issued_by, operand.writes) {
                        // Each lane gives the address of a row of 16 bytes, eight lanes for each matrix.
                        (Scope::Warp, _) => {
                            let fragment =
                                row.operands.iter().find(|o| matches!(o.kind, OperandKind::Frag { .. }));
                            let rows = (fragment.map_or(8, |fragment| 2 * fragment.address_bytes()) as u32)
                                .clamp(8, 32);
                            ("matrix", Transfer::Matrix, around.lanes & (u32::MAX >> (32 - rows)))
                        }
                        (_, true) => ("copy", Transfer::Store, around.lanes),
                        (_, false) => ("copy", Transfer::Load, around.lanes),
                    };
                    // Bulk copies have no width; they go through the copy engine, row by row.
                    if matches!(bytes, 4 | 8 | 16) {
                        let moved = Moved { what, mem, bytes, transfer, guard: *guard };
                        self.site(stmt, moved, Around { lanes, ..around.clone() });
                        if let Some(site) = self.all.last_mut() {
                            // How many bytes it brings is an operand.
                            site.guarded |= args.iter().any(|arg| matches!(arg, AtomArg::Int(_)));
                        }
                    }
                }
            }
            Op::For { var, from, to, step, body, .. } => {
                let mut around = around.clone();
                around.loops.push(Loop { var: *var, from: *from, to: *to, step: *step });
                self.of(body, &around);
            }
            Op::If { cond, then, other } => {
                for (condition, body) in [(true, then), (false, other)] {
                    let mut around = around.clone();
                    if let Val::Int(cond, _) = cond {
                        around.conditions.push((*cond, condition));
                    }
                    self.of(body, &around);
                }
            }
            Op::Roles(roles) => roles
                .iter()
                .for_each(|role| self.of(&role.body, &Around { warps: role.warps, ..around.clone() })),
            Op::Elect(scope, body) => {
                let first = around.warps.0;
                let warps = if *scope == Scope::Warp { around.warps } else { (first, first + 1) };
                let lanes = around.lanes & if *scope == Scope::Thread { u32::MAX } else { 1 };
                self.of(body, &Around { warps, lanes, ..around.clone() });
            }
            _ => {}
        }
    }

    fn site(&mut self, stmt: &Stmt, moved: Moved<'_>, mut around: Around) {
        let Moved { what, mem, bytes, transfer, guard } = moved;
        around.conditions.extend(guard.map(|guard| (guard, true)));
        self.all.push(Site {
            what,
            mem: mem.clone(),
            tensor: tensor(self.kernel, mem.space),
            span: self.kernel.sites[stmt.site as usize].span,
            bytes,
            transfer,
            banks: None,
            sectors: None,
            left: false,
            first: ([0; LANES], 0),
            worst: None,
            guarded: guard.is_some(),
            around,
        });
    }
}

/// Bytes of an element.
pub(super) fn element(kernel: &Kernel, space: Space) -> i64 {
    let elem = match space {
        Space::Shared(id) => kernel.shared[id as usize].elem,
        Space::Global(id) => match &kernel.params[id as usize] {
            Param::Pointer { elem, .. } | Param::Workspace { elem, .. } => *elem,
            _ => return 1,
        },
    };
    i64::from(elem.bytes())
}

/// The user's shared tensor of an array; arrays that lowering adds come after these.
pub(super) fn shared_tensor(program: &Program, array: Id) -> Option<&tile::Tensor> {
    let shared = |tensor: &&tile::Tensor| matches!(tensor.space, tile::Space::Shared { .. });
    program.tensors.iter().filter(shared).nth(array as usize)
}

fn tensor(kernel: &Kernel, space: Space) -> String {
    match space {
        Space::Shared(id) => kernel.shared[id as usize].name.clone(),
        Space::Global(id) => match &kernel.params[id as usize] {
            Param::Pointer { name, .. } | Param::Workspace { name, .. } => name.clone(),
            _ => String::new(),
        },
    }
}

impl Site {
    /// Evaluates it for every warp at the beginning of its loops, then for the first warp in later iterations
    /// of each loop, and in the next block.
    fn measure(&mut self, kernel: &Kernel, warp: &mut Warp<'_>, budget: &mut Budget) {
        warp.block = 0;
        for around in &self.around.loops {
            warp.first = 0;
            warp.loops[around.var as usize] = warp.at(around.from)[0];
        }
        for number in self.around.warps.0..self.around.warps.1 {
            warp.first = i64::from(number) * LANES as i64;
            if !self.look(kernel, warp, budget) {
                return;
            }
        }
        warp.first = i64::from(self.around.warps.0) * LANES as i64;
        for around in self.around.loops.clone() {
            let (from, to) = (warp.at(around.from)[0], warp.at(around.to)[0]);
            let iterations = (to - from + around.step - 1) / around.step.max(1);
            let mut iteration = 1;
            while iteration <= 3.min(iterations - 1) {
                // the second, the third, the last
                let at = if iteration == 3 { iterations - 1 } else { iteration };
                warp.loops[around.var as usize] = from + at * around.step;
                if !self.look(kernel, warp, budget) {
                    return;
                }
                iteration += 1;
            }
            warp.loops[around.var as usize] = from;
        }
        if matches!(self.mem.space, Space::Global(_)) {
            warp.block = 1;
            self.look(kernel, warp, budget);
        }
    }

    /// Replaces the worst access by this one, if it is worse. False when the budget is spent.
    fn look(&mut self, kernel: &Kernel, warp: &Warp<'_>, budget: &mut Budget) -> bool {
        if !budget.take(LANES * (1 + self.around.conditions.len())) {
            self.left |= self.banks.is_none() && self.sectors.is_none();
            return false;
        }
        let threads = i64::from(kernel.launch.threads) - warp.first;
        let mut active = self.around.lanes & (((1u64 << threads.clamp(0, 32)) - 1) as u32);
        for (cond, condition) in &self.around.conditions {
            let values = warp.at(*cond);
            let mut lane = 0;
            while lane < LANES {
                if (values[lane] != 0) != *condition {
                    active &= !(1 << lane);
                }
                lane += 1;
            }
        }
        let element = element(kernel, self.mem.space);
        let addresses = warp.at(self.mem.index).map(|index| index.wrapping_mul(element));
        if self.first.1 == 0 {
            self.first = (addresses, active);
        }
        let lanes: Vec<Option<i64>> =
            (0..LANES).map(|lane| (active >> lane & 1 == 1).then(|| addresses[lane])).collect();
        let Ok(access) = WarpAccess::from_addresses(&lanes, self.bytes, self.transfer) else {
            return true;
        };
        match self.mem.space {
            Space::Shared(_) => {
                let report = access.banks().ok();
                let cost = |report: &BankReport| (report.excess(), report.wavefronts);
                if report.as_ref().map(cost) > self.banks.as_ref().map(cost) {
                    (self.banks, self.worst) = (report, Some(access));
                }
            }
            Space::Global(_) => {
                let report = access.sectors(BASE_ALIGNMENT).ok();
                let cost = |report: &SectorReport| (report.sectors - report.ideal_sectors, report.sectors);
                if report.as_ref().map(cost) > self.sectors.as_ref().map(cost) {
                    (self.sectors, self.worst) = (report, Some(access));
                }
            }
        }
        true
    }

    /// Its line in the report. It uses the printed names, which tell arrays apart.
    pub(super) fn line(&self, names: &Names) -> Access {
        let conflict = self.banks.filter(|banks| !banks.is_conflict_free());
        let wasted = self.sectors.filter(|sectors| !sectors.is_coalesced());
        let note = match (conflict, wasted) {
            (Some(banks), _) => {
                let lanes: Vec<String> = banks
                    .worst
                    .iter()
                    .flat_map(|worst| worst.lanes())
                    .take(2)
                    .map(|lane| lane.to_string())
                    .collect();
                format!("{}-way conflict, as between lanes {}", banks.degree, lanes.join(" and "))
            }
            (_, Some(sectors)) => format!("{:.0}% of the bytes are used", 100.0 * sectors.efficiency()),
            _ => String::new(),
        };
        let (tensor, space) = match self.mem.space {
            Space::Shared(id) => (names.shared[id as usize].clone(), "shared"),
            Space::Global(id) => (names.params[id as usize].clone(), "global"),
        };
        Access {
            what: self.what.into(),
            tensor,
            space: space.into(),
            width: self.bytes as u32,
            wavefronts: self.banks.map(|banks| (banks.wavefronts, banks.ideal)),
            sectors: self.sectors.map(|sectors| (sectors.sectors, sectors.ideal_sectors)),
            note,
        }
    }
}
