//! Statements, in the order of the program.

use super::declare::Places;
use super::names::Thing;
use super::piece::Level;
use super::{Builtin, Printer, comment};
use crate::isa::Family;
use crate::thread::index::{Int, Ix};
use crate::thread::mention::any;
use crate::thread::{Bar, Fence, Id, Op, Queue, Role, Scope, Space, Stmt};
use crate::values::elem::Elem;

impl Printer<'_> {
    pub(super) fn block(&mut self, body: &[Stmt]) {
        self.names.open();
        let (outer, marked) = (self.site, self.marked.take());
        let places = Places::of(body);
        let mut at = self.calls_common(body);
        while let Some(stmt) = body.get(at) {
            self.site = stmt.site;
            self.spacing(body, at);
            self.mark(stmt);
            if self.copy(body, at) {
                at += 2;
                continue;
            }
            self.declare_for(stmt, at, &places);
            self.statement(stmt);
            at += 1;
        }
        (self.site, self.marked) = (outer, marked.filter(|_| !self.instrument.timeline));
        self.names.close();
    }

    pub(super) fn indented(&mut self, body: &[Stmt]) {
        self.depth += 1;
        self.block(body);
        self.depth -= 1;
    }

    /// An empty line before a comment, and around statements of several lines.
    fn spacing(&mut self, body: &[Stmt], at: usize) {
        let long =
            |stmt: &Stmt| matches!(stmt.op, Op::For { .. } | Op::If { .. } | Op::Roles(_) | Op::Elect(..));
        let is_comment = |stmt: &Stmt| matches!(stmt.op, Op::Comment(_));
        let Some(before) = at.checked_sub(1).map(|at| &body[at]) else {
            return;
        };
        // Facts about the launch are a separate paragraph.
        let of_launch = |stmt: &Stmt| matches!(stmt.op, Op::AwaitPrevious | Op::StartNext);
        if of_launch(before) != of_launch(&body[at]) {
            return self.paragraph();
        }
        if is_comment(before) {
            return;
        }
        let simple = |stmt: &Stmt| {
            Self::is_access(stmt) || matches!(stmt.op, Op::Let(..) | Op::Set(..) | Op::Take(..))
        };
        if is_comment(&body[at]) || long(before) || (long(&body[at]) && !simple(before)) {
            self.paragraph();
        }
    }

    pub(super) fn statement(&mut self, stmt: &Stmt) {
        match &stmt.op {
            Op::Comment(text) => text.lines().for_each(|line| self.line(&comment(line))),
            Op::Let(var, value) => {
                let row = &self.kernel.vars[*var as usize];
                let value = self.in_array(row.array, |printer| printer.int(*value));
                let (kind, constant) = (c_int(row.wide), if row.mutable { "" } else { "const " });
                let name = self.names.declare(Thing::Var(*var), &row.name);
                self.line(&format!("{constant}{kind} {name} = {value};"));
            }
            Op::Take(var, value) => {
                let value = self.value(value);
                let row = &self.kernel.vars[*var as usize];
                let kind = c_int(row.wide);
                let name = self.names.declare(Thing::Var(*var), &row.name);
                self.line(&format!("const {kind} {name} = {value};"));
            }
            Op::Set(var, value) => {
                let name = self.names.vars[*var as usize].clone();
                let is_itself = |at: Ix| self.exprs.get(at).int == Int::Var(*var);
                let (sign, value) = match self.exprs.get(*value).int {
                    Int::Add(a, b) if is_itself(a) => ("+", b),
                    Int::Add(a, b) if is_itself(b) => ("+", a),
                    Int::Sub(a, b) if is_itself(a) => ("-", b),
                    _ => ("", *value),
                };
                let value = match self.exprs.constant(value) {
                    Some(n) if n < 0 && sign == "+" => return self.line(&format!("{name} -= {};", -n)),
                    _ => self.int(value),
                };
                self.line(&format!("{name} {sign}= {value};"));
            }
            Op::Assign { reg, at, value } => {
                let value = self.value(value);
                let target = self.declaration_or(stmt, *reg, |printer| printer.element(*reg, *at));
                self.set(None, &target, &[value]);
            }
            Op::Load { to, from, guard: None, volatile_at: Some(base), .. }
                if self.load_here(*to, from, *base) => {}
            Op::Load { to, from, guard, fill, .. } => self.load(stmt, *to, from, *guard, *fill),
            Op::Store { to, from, guard } => self.store(to, *from, *guard),
            Op::Atomic { .. } => self.atomic(stmt),
            Op::Atom { row, args, guard } => self.atom(row, args, *guard),
            Op::Commit(queue) => self.commit(*queue),
            Op::WaitQueue { queue, pending } => self.wait(*queue, *pending),
            Op::Fence(fence) => self.fence(*fence),
            Op::Pin(reg) => self.pin(*reg),
            Op::Claim(_) => {}
            Op::Probe { probe, values, guard } => self.probe(probe, values, *guard),
            Op::Sync { bar, member } => self.sync(*bar, *member),
            Op::Arrive { bar, slot, peer, bytes } => self.arrive(*bar, *slot, *peer, *bytes),
            Op::Await { bar, slot, phase } => self.wait_phase(*bar, *slot, *phase),
            Op::AwaitPrevious => self.line("await_previous_kernel();"),
            Op::StartNext => self.line("start_next_kernel();"),
            Op::InitBarriers(bar) => self.init(*bar),
            Op::For { .. } if self.declares_zeroes(stmt) => {}
            Op::For { .. } => self.for_loop(stmt),
            Op::Leave { of, cond } => self.leave(*of, *cond),
            Op::If { cond, then, other } => {
                let cond = self.value(cond);
                let outer = std::mem::replace(&mut self.elements_elsewhere, stores_elements(other));
                self.branch(&cond, then, other);
                self.elements_elsewhere = outer;
            }
            Op::Roles(roles) => self.roles(roles),
            Op::Elect(scope, body) => {
                let cond = self.elected(*scope);
                self.line(&format!("if ({cond}) {{"));
                self.unmarked(|printer| printer.indented(body));
                self.line("}");
            }
        }
    }

    fn branch(&mut self, cond: &str, then: &[Stmt], other: &[Stmt]) {
        self.line(&format!("if ({cond}) {{"));
        self.indented(then);
        if !other.is_empty() {
            self.line("} else {");
            self.indented(other);
        }
        self.line("}");
    }

    fn roles(&mut self, roles: &[Role]) {
        self.common_integers(roles);
        // A range with all warps that earlier branches leave over.
        let mut left = (0, self.kernel.launch.threads.div_ceil(32));
        for (at, role) in roles.iter().enumerate() {
            let (from, to) = role.warps;
            let start = if at == 0 { "" } else { "} else " };
            let (first, last) = (from == left.0, to == left.1);
            let cond = match (first, last) {
                (true, true) if at > 0 => String::new(),
                (_, true) => format!("if ({} >= {from}) ", self.builtin(Builtin::Warp)),
                (true, _) => format!("if ({} < {to}) ", self.builtin(Builtin::Warp)),
                _ if to == from + 1 => format!("if ({} == {from}) ", self.builtin(Builtin::Warp)),
                _ => format!("if ({0} >= {from} && {0} < {to}) ", self.builtin(Builtin::Warp)),
            };
            left = match (first, last) {
                (true, _) => (to, left.1),
                (_, true) => (left.0, from),
                _ => left,
            };
            self.line(&format!("{start}{cond}{{  {}", comment(&role.name)));
            let outer = self.role.replace(role.warps);
            let outer_name = std::mem::replace(&mut self.role_name, role.name.clone());
            if let Some(registers) = role.registers {
                let change =
                    if registers > self.kernel.launch.registers_at_entry() { "more" } else { "fewer" };
                self.depth += 1;
                self.line(&format!("{change}_registers<{registers}>();"));
                self.depth -= 1;
            }
            self.indented(&role.body);
            (self.role, self.role_name) = (outer, outer_name);
        }
        self.line("}");
    }

    /// The election of one thread of each group.
    fn elected(&mut self, scope: Scope) -> String {
        let first = self.role.map_or(0, |(from, _)| from * 32);
        let thread = |printer: &mut Self| format!("{} == {first}", printer.builtin(Builtin::Thread));
        match scope {
            Scope::Thread => "true".to_string(),
            Scope::Warp if self.kernel.arch >= 90 => "elect_one()".to_string(),
            Scope::Warp | Scope::Warpgroup => {
                let threads = scope.threads().unwrap_or(1);
                format!("{} % {threads} == 0", self.builtin(Builtin::Thread))
            }
            Scope::Block => thread(self),
            Scope::Cluster => format!("{} == 0 && {}", self.builtin(Builtin::ClusterRank), thread(self)),
            Scope::Grid => {
                let mut cond = String::new();
                for axis in 0..3 {
                    if !self.kernel.launch.grid[axis as usize].is_empty() || axis == 0 {
                        cond += &format!("{} == 0 && ", self.builtin(Builtin::Block(axis)));
                    }
                }
                cond + &thread(self)
            }
        }
    }

    fn commit(&mut self, queue: Queue) {
        let function = Family::of_queue(queue).commit.unwrap_or_default();
        self.line(&format!("{function}();"));
    }

    fn wait(&mut self, queue: Queue, pending: u32) {
        self.line(&format!("{}<{pending}>();", Family::wait(queue)));
    }

    fn pin(&mut self, reg: Id) {
        if self.names.is_visible(Thing::Reg(reg)) {
            let name = self.names.regs[reg as usize].clone();
            let function = if self.kernel.regs[reg as usize].elem == Elem::F32 { "pin" } else { "pin_words" };
            self.line(&format!("{function}({name});"));
        }
    }

    fn fence(&mut self, fence: Fence) {
        let text = match fence {
            Fence::ProxyAsync => "fence_async_proxy();",
            Fence::MbarrierInit => "fence_mbarrier_init();",
            Fence::Products => {
                let function = Family::of_queue(Queue::Products).fence.unwrap_or_default();
                return self.line(&format!("{function}();"));
            }
            Fence::Threads(Scope::Thread) => return,
            Fence::Threads(Scope::Warp) => "__syncwarp();",
            Fence::Threads(Scope::Cluster) => "fence_cluster();",
            Fence::Threads(Scope::Grid) => "__threadfence();",
            Fence::Threads(_) => "__threadfence_block();",
        };
        self.line(text);
    }

    fn sync(&mut self, bar: Id, member: Option<Ix>) {
        let text = match &self.kernel.bars[bar as usize] {
            Bar::Block => "__syncthreads();".to_string(),
            &Bar::Named { id, threads } => {
                let more = member
                    .map_or(String::new(), |of| format!(" + {}", self.int_piece(of).at(Level::Product)));
                format!("bar_sync({id}{more}, {threads});")
            }
            Bar::Cluster => "cluster_sync();".to_string(),
            Bar::ClusterStart => "cluster_start();".to_string(),
            Bar::Mbarriers { name, .. } => {
                return self.impossible(&format!("arriving at {name} without a slot"));
            }
        };
        self.line(&text);
    }

    /// `&full[slot]`
    pub(super) fn mbarrier(&mut self, bar: Id, slot: Ix) -> String {
        let name = self.names.bars[bar as usize].clone();
        format!("&{name}[{}]", self.int(slot))
    }

    /// Do an mbarrier's arrivals order ordinary accesses of other blocks of the cluster?
    fn orders_cluster(&self, bar: Id) -> bool {
        matches!(self.kernel.bars[bar as usize], Bar::Mbarriers { scope: Scope::Cluster, .. })
    }

    fn arrive(&mut self, bar: Id, slot: Ix, peer: Option<Ix>, bytes: Option<u32>) {
        let at = self.mbarrier(bar, slot);
        let bytes = bytes.map(|bytes| {
            let name = format!("{}_bytes", self.names.bars[bar as usize]);
            self.constant(&name, bytes.into(), true)
        });
        let text = match (peer.map(|peer| self.int(peer)), bytes) {
            (None, None) => format!("mbarrier_arrive({at});"),
            (None, Some(bytes)) => format!("mbarrier_arrive_expect_bytes({at}, {bytes});"),
            (Some(peer), None) if self.orders_cluster(bar) => {
                format!("mbarrier_arrive_at_peer_release({at}, {peer});")
            }
            (Some(peer), None) => format!("mbarrier_arrive_at_peer({at}, {peer});"),
            (Some(peer), Some(bytes)) => {
                format!("mbarrier_arrive_expect_bytes_at_peer({at}, {bytes}, {peer});")
            }
        };
        self.line(&text);
    }

    fn wait_phase(&mut self, bar: Id, slot: Ix, phase: Ix) {
        let parity = self.exprs.and(phase, 1);
        let (at, parity) = (self.mbarrier(bar, slot), self.int(parity));
        let function = if self.orders_cluster(bar) { "mbarrier_wait_cluster" } else { "mbarrier_wait" };
        self.line(&format!("{function}({at}, {parity});"));
    }

    fn init(&mut self, bar: Id) {
        let Bar::Mbarriers { slots, slots_name, count, .. } = &self.kernel.bars[bar as usize] else {
            return self.impossible("initialising a barrier that is not an mbarrier");
        };
        let (slots, count) = (*slots, *count);
        let limit = match slots_name {
            Some(name) => self.constant(name, slots.into(), false),
            None => slots.to_string(),
        };
        let name = self.names.bars[bar as usize].clone();
        if slots == 1 {
            return self.line(&format!("mbarrier_init(&{name}[0], {count});"));
        }
        let i = self.names.passing("i");
        self.line(&format!("for (int {i} = 0; {i} < {limit}; ++{i}) mbarrier_init(&{name}[{i}], {count});"));
    }
}

/// Does some statement store a single element to global memory?
fn stores_elements(body: &[Stmt]) -> bool {
    any(body, |op| match op {
        Op::Store { to, from, .. } => matches!(to.space, Space::Global(_)) && from.len == 1,
        _ => false,
    })
}

pub(super) fn c_int(wide: bool) -> &'static str {
    if wide { "long long" } else { "int" }
}
