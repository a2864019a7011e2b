//! The loops of a kernel as one nest, implicit ones included: which loops are parallel over blocks of the
//! grid, which over threads, and which are sequential. Derived from the thread program.

use tilewright_layout::Value;

use crate::compiled::kernel_def::{KernelDef, KernelErrors};
use crate::compiled::kernel_value::MatmulKernel;
use crate::isa::Family;
use crate::launch::definition::Generated;
use crate::thread::index::{Int, Ix};
use crate::thread::visit::Order;
use crate::thread::{
    AtomArg, Bar, Bin, Change, Cmp, Frag, Id, Kernel, Lane, Mem, Op, Space, Stmt, Unroll, Val, Vote,
};
use crate::values::element::Element;
use crate::values::number::Number;

impl Generated {
    /// The loop nest of its fastest variant. Each loop is executed by the grid, by the threads of a
    /// block, or by each thread sequentially.
    ///
    /// ```
    /// # use tilewright_codegen::Generate;
    /// use tilewright_program::Definition;
    /// let kernel = Definition::Matmul(Vec::new()).generate().kernel.unwrap();
    /// let nest = kernel.explain();
    /// assert!(nest.starts_with("grid        block.x in 0..ceil(M/128)\n"), "{nest}");
    /// assert!(nest.contains("sequential        k in 0..ceil(K/8)\n"), "{nest}");
    /// ```
    pub fn explain(&self) -> String {
        nest(&self.variants[0].program)
    }
}

impl KernelDef {
    /// The loop nest of its fastest variant: see [`Generated::explain`].
    pub fn explain(&self) -> Result<String, KernelErrors> {
        self.generate().map(|kernel| kernel.explain())
    }
}

impl<T: Element> MatmulKernel<T> {
    /// The loop nest of its fastest variant: see [`Generated::explain`].
    pub fn explain(&self) -> Result<String, KernelErrors> {
        self.def().explain()
    }
}

/// The loop nest of one variant.
pub fn nest(kernel: &Kernel) -> String {
    let mut nest = Nest { kernel, text: String::new(), depth: 0 };
    let launch = &kernel.launch;
    for (axis, factors) in launch.grid.iter().enumerate() {
        let (extent, cluster) = (product(factors), launch.cluster[axis]);
        if extent != "1" {
            let clusters = if cluster > 1 { format!(", {cluster} of a cluster") } else { String::new() };
            nest.inside("grid", format!("block.{} in 0..{extent}{clusters}", ["x", "y", "z"][axis]));
        }
    }
    nest.inside("block", format!("thread in 0..{}", launch.threads));
    nest.block(&kernel.body);
    nest.text
}

struct Nest<'k> {
    kernel: &'k Kernel,
    text: String,
    depth: usize,
}

impl Nest<'_> {
    /// A line: the level that executes the loop, and its text. A repeated line is shown once.
    fn line(&mut self, by: &str, what: String) {
        let line = format!("{by:<12}{:1$}{what}\n", "", 2 * self.depth);
        if !by.is_empty() || !self.text.ends_with(&format!("\n{line}")) {
            self.text += &line;
        }
    }

    /// A line that opens a block.
    fn inside(&mut self, by: &str, what: String) {
        self.line(by, what);
        self.depth += 1;
    }

    fn block(&mut self, body: &[Stmt]) {
        let outside = self.depth;
        let mut announced = None;
        for stmt in body {
            let span = self.kernel.sites[stmt.site as usize].span;
            // Statements after a comment are nested under it: the rest of its statement, and loops without
            // separate lines.
            let part = match &stmt.op {
                Op::For { body, .. } => !body.iter().any(says),
                Op::Load { .. } | Op::Store { .. } | Op::Assign { .. } | Op::Atom { .. } => true,
                _ => false,
            };
            if !(part && announced == Some(span)) {
                self.depth = outside;
                announced = matches!(stmt.op, Op::Comment(_)).then_some(span);
            }
            self.statement(&stmt.op);
        }
        self.depth = outside;
    }

    fn nested(&mut self, by: &str, what: String, body: &[Stmt]) {
        self.inside(by, what);
        self.block(body);
        self.depth -= 1;
    }

    fn statement(&mut self, op: &Op) {
        match op {
            Op::Comment(text) => self.inside("", text.clone()),
            Op::For { var, from, to, step, unroll, body } => {
                let by = if *step == 1 { String::new() } else { format!(" by {step}") };
                let how = match unroll {
                    Unroll::No => String::new(),
                    Unroll::By(times) => format!(", unrolled by {times}"),
                    Unroll::Full => ", unrolled".to_owned(),
                };
                let (var, from, to) = (self.var(*var), self.int(*from), self.int(*to));
                self.nested("sequential", format!("{var} in {from}..{to}{by}{how}"), body);
            }
            Op::Leave { of, cond } => {
                self.line("", format!("leave the loop over {} if {}", self.var(*of), self.int(*cond)));
            }
            Op::If { cond, then, other } => self.branches(format!("if {}", self.val(cond)), then, other),
            Op::Roles(roles) => {
                for role in roles {
                    let (first, end) = role.warps;
                    self.nested("block", format!("{}: warps {first}..{end}", role.name), &role.body);
                }
            }
            Op::Elect(scope, body) => {
                self.nested("", format!("one thread of each {}", format!("{scope:?}").to_lowercase()), body);
            }
            Op::Load { to, from, .. } => self.moves(self.reg(to), self.mem(from), to.len),
            Op::Store { to, from, .. } => self.moves(self.mem(to), self.reg(from), from.len),
            Op::Atomic { to, op: Change::Await, .. } => self.line("", format!("wait for {}", self.mem(to))),
            Op::Atomic { to, .. } => self.line("", format!("{} changed at once", self.mem(to))),
            Op::Atom { row, args, .. } => {
                let operands: Vec<String> = args.iter().filter_map(|arg| self.operand(arg)).collect();
                self.line("", format!("{} {}", row.name, operands.join(", ")));
            }
            Op::WaitQueue { queue, pending } => {
                let what = Family::of_queue(*queue).operations;
                self.line(
                    "",
                    match pending {
                        0 => format!("wait for all {what}"),
                        1 => format!("wait for all {what} but those of the last group"),
                        n => format!("wait for all {what} but those of the last {n} groups"),
                    },
                );
            }
            Op::Sync { bar, .. } => {
                let who = match &self.kernel.bars[*bar as usize] {
                    Bar::Cluster | Bar::ClusterStart => "the cluster's threads".to_owned(),
                    Bar::Named { threads, .. } => format!("{threads} threads"),
                    _ => "the block's threads".to_owned(),
                };
                self.line("", format!("{who} wait for each other"));
            }
            Op::Arrive { bar, .. } => self.line("", format!("arrive at {}", self.bar(*bar))),
            Op::Await { bar, .. } => self.line("", format!("wait for {}", self.bar(*bar))),
            Op::Assign { reg, value, .. } => {
                let product;
                let value = match value {
                    Val::Product(row, of) => {
                        product = Val::sum_of(row, (**of).clone());
                        &product
                    }
                    value => value,
                };
                let sum = match value {
                    Val::Fma(parts) => Some((Bin::Add, self.product(&parts[0], &parts[1]), &parts[2])),
                    Val::Bin(op, left, right) => Some((*op, self.val(right), &**left)),
                    _ => None,
                };
                let to = &self.kernel.regs[*reg as usize].name;
                self.line(
                    "",
                    match sum {
                        Some((op, by, Val::Reg(same, _))) if same == reg && sign(op).is_some() => {
                            format!("{to} {}= {by}", sign(op).unwrap_or_default())
                        }
                        _ => format!("{to} = {}", self.val(value)),
                    },
                );
            }
            Op::AwaitPrevious => self.line("", "waits until the previous kernel has ended".into()),
            Op::StartNext => self.line("", "lets the next kernel start".into()),
            Op::InitBarriers(bar) => self.line("", format!("{} made ready", self.bar(*bar))),
            Op::Let(..)
            | Op::Set(..)
            | Op::Take(..)
            | Op::Commit(_)
            | Op::Fence(_)
            | Op::Pin(_)
            | Op::Claim(_)
            | Op::Probe { .. } => {}
        }
    }

    fn branches(&mut self, what: String, then: &[Stmt], other: &[Stmt]) {
        self.nested("", what, then);
        if !other.is_empty() {
            self.nested("", "otherwise".to_owned(), other);
        }
    }

    fn moves(&mut self, to: String, from: String, elements: u32) {
        let wide = if elements == 1 { String::new() } else { format!(", {elements} at once") };
        self.line("", format!("{to} <- {from}{wide}"));
    }

    fn operand(&self, arg: &AtomArg) -> Option<String> {
        match arg {
            AtomArg::Frag(frag) => Some(self.reg(frag)),
            AtomArg::At(mem) | AtomArg::Descriptor { at: mem, .. } => Some(self.mem(mem)),
            AtomArg::Map { param, .. } => Some(self.param(*param)),
            AtomArg::Barrier { bar, .. } => Some(self.bar(*bar)),
            AtomArg::Int(_) => None,
        }
    }

    fn reg(&self, frag: &Frag) -> String {
        self.kernel.regs[frag.reg as usize].name.clone()
    }

    fn mem(&self, mem: &Mem) -> String {
        match mem.space {
            Space::Global(param) => self.param(param),
            Space::Shared(id) => self.kernel.shared[id as usize].name.clone(),
        }
    }

    fn var(&self, id: Id) -> String {
        self.kernel.vars[id as usize].name.clone()
    }

    fn bar(&self, id: Id) -> String {
        match &self.kernel.bars[id as usize] {
            Bar::Mbarriers { name, .. } => name.clone(),
            _ => "the barrier".to_owned(),
        }
    }

    fn param(&self, id: Id) -> String {
        self.kernel.params[id as usize].name().to_owned()
    }

    fn product(&self, a: &Val, b: &Val) -> String {
        format!("{} * {}", self.operand_of(a), self.operand_of(b))
    }

    fn operand_of(&self, val: &Val) -> String {
        match val {
            Val::Bin(op, ..) if sign(*op).is_some() => format!("({})", self.val(val)),
            Val::Fma(_) | Val::Product(..) | Val::Cmp(..) => format!("({})", self.val(val)),
            _ => self.val(val),
        }
    }

    /// A value, without the elements, which the loops show.
    fn val(&self, val: &Val) -> String {
        match val {
            Val::Reg(reg, _) => self.kernel.regs[*reg as usize].name.clone(),
            Val::Lit(Number::Int(n), _) => n.to_string(),
            Val::Lit(Number::Float(x), _) if x.abs() >= 1e9 => format!("{x:e}"),
            Val::Lit(Number::Float(x), _) => x.to_string(),
            Val::Int(at, _) => self.int(*at),
            Val::Param(param) => self.param(*param),
            Val::Un(op, of) => format!("{}({})", format!("{op:?}").to_lowercase(), self.val(of)),
            Val::Bin(op, a, b) => match sign(*op) {
                Some(sign) => format!("{} {sign} {}", self.operand_of(a), self.operand_of(b)),
                None => format!("{}({}, {})", format!("{op:?}").to_lowercase(), self.val(a), self.val(b)),
            },
            Val::Fma(parts) => format!("{} + {}", self.product(&parts[0], &parts[1]), self.val(&parts[2])),
            Val::Product(row, of) => self.val(&Val::sum_of(row, (**of).clone())),
            Val::Cast(elem, of) => format!("{elem}({})", self.val(of)),
            Val::Bits(elem, of) => format!("bits of {} as {elem}", self.val(of)),
            Val::Ptx { text, args, .. } => {
                let args: Vec<String> = args.iter().map(|arg| self.val(arg)).collect();
                format!("`{text}` of ({})", args.join(", "))
            }
            Val::Cmp(cmp, a, b) => {
                let sign = match cmp {
                    Cmp::Lt => "<",
                    Cmp::Le => "<=",
                    Cmp::Eq => "==",
                    Cmp::Ne => "!=",
                };
                format!("{} {sign} {}", self.operand_of(a), self.operand_of(b))
            }
            Val::Pick(parts) => {
                let [cond, then, other] = parts.each_ref().map(|part| self.val(part));
                format!("{then} if {cond}, else {other}")
            }
            Val::Shuffle(of, Lane::Xor(by)) => format!("{} of the lane ^ {}", self.val(of), self.int(*by)),
            Val::Shuffle(of, Lane::InGroup(lanes, lane)) => {
                format!("{} of lane {} of {lanes}", self.val(of), self.val(lane))
            }
            Val::Vote(Vote::All(with), of) => {
                format!("{}({}) of all lanes", format!("{with:?}").to_lowercase(), self.val(of))
            }
            Val::Vote(Vote::Ballot, of) => format!("the lanes where {}", self.val(of)),
            Val::Vote(Vote::Match, of) => format!("the lanes with the same {}", self.val(of)),
        }
    }

    /// An index expression in readable form: ceiling divisions are shown as such.
    fn int(&self, at: Ix) -> String {
        let constant = |at: Ix| self.kernel.exprs.constant(at);
        let atom = |at: Ix| {
            let text = self.int(at);
            if text.contains(' ') && !text.ends_with(')') { format!("({text})") } else { text }
        };
        match self.kernel.exprs.get(at).int {
            Int::Const(n) => n.to_string(),
            Int::Var(id) => self.var(id),
            Int::Param(id) => self.param(id),
            Int::Thread => "thread".to_owned(),
            Int::Block(axis) => format!("block.{}", ["x", "y", "z"][usize::from(axis)]),
            Int::Grid(axis) => format!("blocks.{}", ["x", "y", "z"][usize::from(axis)]),
            Int::Div(sum, by) => match self.kernel.exprs.get(sum).int {
                Int::Add(of, more)
                    if constant(by).is_some() && constant(more).map(|n| n + 1) == constant(by) =>
                {
                    format!("ceil({}/{})", self.int(of), self.int(by))
                }
                _ => format!("{} / {}", atom(sum), atom(by)),
            },
            Int::Add(a, b) => match constant(b) {
                Some(n) if n < 0 => format!("{} - {}", self.int(a), n.unsigned_abs()),
                _ => format!("{} + {}", self.int(a), self.int(b)),
            },
            Int::Sub(a, b) => format!("{} - {}", self.int(a), atom(b)),
            Int::Mul(a, b) => format!("{} * {}", atom(a), atom(b)),
            Int::Rem(a, b) => format!("{} % {}", atom(a), atom(b)),
            Int::Min(a, b) => format!("min({}, {})", self.int(a), self.int(b)),
            Int::Max(a, b) => format!("max({}, {})", self.int(a), self.int(b)),
            Int::Lt(a, b) => format!("{} < {}", self.int(a), self.int(b)),
            Int::Within(a, b) => format!("0 <= {} < {}", self.int(a), self.int(b)),
            Int::Eq(a, b) => format!("{} == {}", self.int(a), self.int(b)),
            Int::All(a, b) => format!("{} and {}", self.int(a), self.int(b)),
            Int::Not(a) => match self.kernel.exprs.neither(&self.kernel.exprs.get(a).int) {
                Some((a, b)) => format!("({} or {})", self.int(a), self.int(b)),
                None => format!("not {}", atom(a)),
            },
            Int::And(a, b) => format!("{} & {}", atom(a), atom(b)),
            Int::Xor(a, b) => format!("{} ^ {}", atom(a), atom(b)),
            Int::Shl(a, b) => format!("{} << {}", atom(a), atom(b)),
            Int::Select(cond, a, b) => {
                format!("({} if {}, else {})", self.int(a), self.int(cond), self.int(b))
            }
            Int::Wrap(at, end, _) => format!("{} modulo {}", atom(at), atom(end)),
            Int::ClusterRank => "the block's rank".to_owned(),
        }
    }
}

/// Infix operators.
fn sign(op: Bin) -> Option<&'static str> {
    match op {
        Bin::Add => Some("+"),
        Bin::Sub => Some("-"),
        Bin::Mul => Some("*"),
        Bin::Div => Some("/"),
        Bin::Rem => Some("%"),
        Bin::And => Some("&"),
        Bin::Or => Some("|"),
        Bin::Xor => Some("^"),
        Bin::Shl => Some("<<"),
        Bin::Shr => Some(">>"),
        Bin::Min | Bin::Max | Bin::Pow | Bin::CopySign | Bin::MulHigh | Bin::FastDiv => None,
    }
}

/// Does a statement, or one inside it, have a separate line?
fn says(stmt: &Stmt) -> bool {
    stmt.preorder().any(|stmt| match &stmt.op {
        Op::Comment(_) | Op::Leave { .. } | Op::Roles(_) => true,
        op => matches!(op.order(), Order::Barrier | Order::Wait(..) | Order::Await),
    })
}

fn product(factors: &[Value]) -> String {
    match factors {
        [] => "1".to_owned(),
        factors => factors.iter().map(Value::to_string).collect::<Vec<_>>().join("*"),
    }
}
