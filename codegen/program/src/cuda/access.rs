//! Loads, stores and atomic updates, each as one vector access of its proven width.

use super::Printer;
use super::literal::literal;
use super::piece::Level;
use super::signature::WIDTH;
use crate::thread::index::Ix;
use crate::thread::{Change, Frag, Id, Mem, Op, Param, Scope, Space, Stmt, Val};
use crate::values::elem::Elem;
use crate::values::number::Number;

/// The C type of a vector access, and the number and type of its components.
struct Access {
    name: &'static str,
    parts: u32,
    elem: Elem,
}

/// Vector types, which CUDA C knows without headers.
fn access(elem: Elem, len: u32) -> Option<Access> {
    let whole = |name, parts, elem| Some(Access { name, parts, elem });
    match (elem, len) {
        (_, 1) => whole(elem.cuda(), 1, elem),
        (Elem::F32 | Elem::Tf32, 2) => whole("float2", 2, elem),
        (Elem::F32 | Elem::Tf32, 4) => whole("float4", 4, elem),
        (Elem::F64, 2) => whole("double2", 2, elem),
        (Elem::I32, 2) => whole("int2", 2, elem),
        (Elem::I32, 4) => whole("int4", 4, elem),
        (Elem::I64, 2) => whole("longlong2", 2, elem),
        (Elem::U64, 2) => whole("ulonglong2", 2, elem),
        // Other widths as words.
        _ => match elem.bytes_of(len) {
            2 => whole("unsigned short", 1, Elem::U32),
            4 => whole("unsigned", 1, Elem::U32),
            8 => whole("uint2", 2, Elem::U32),
            16 => whole("uint4", 4, Elem::U32),
            _ => None,
        },
    }
}

impl Printer<'_> {
    /// The pointer and the index: `a[i]`, or `*(float4*)&a[i]`.
    fn location(&mut self, mem: &Mem, access: &Access, len: u32, reads: bool) -> String {
        let element = self.cell(mem);
        match &mem.peer {
            Some(peer) => {
                let peer = self.int(*peer);
                let pointer = format!("in_peer(&{element}, {peer})");
                if len == 1 { format!("*{pointer}") } else { format!("*({}*){pointer}", access.name) }
            }
            None if len == 1 => element,
            None => format!("*({}{}*)&{element}", if reads { "const " } else { "" }, access.name),
        }
    }

    /// `a[i]`
    pub(super) fn cell(&mut self, mem: &Mem) -> String {
        let (name, array) = match mem.space {
            Space::Global(id) => (self.names.params[id as usize].clone(), None),
            Space::Shared(id) => (self.names.shared[id as usize].clone(), Some(id)),
        };
        let index = self.in_array(array, |printer| printer.int(mem.index));
        format!("{name}[{index}]")
    }

    /// `&a[i]`, or `a` for its beginning.
    pub(super) fn address(&mut self, mem: &Mem) -> String {
        let cell = self.cell(mem);
        let plain = cell.strip_suffix("[0]").map(str::to_string).unwrap_or(format!("&{cell}"));
        match mem.peer {
            Some(peer) => format!("in_peer({plain}, {})", self.int(peer)),
            None => plain,
        }
    }

    /// A fragment as the target or source of one access.
    fn registers(&mut self, frag: Frag, access: &Access) -> String {
        let reg = &self.kernel.regs[frag.reg as usize];
        match (reg.words, frag.len) {
            (false, 1) => self.element(frag.reg, frag.at),
            (true, 1) if reg.elem.bits() < 32 => self.element(frag.reg, frag.at),
            (true, _) if access.name == "unsigned" => self.word(frag),
            _ => format!("*({}*){}", access.name, self.pointer(frag)),
        }
    }

    fn elem_of(&self, space: Space) -> Elem {
        match space {
            Space::Shared(id) => self.kernel.shared[id as usize].elem,
            Space::Global(id) => match &self.kernel.params[id as usize] {
                Param::Pointer { elem, .. } | Param::Workspace { elem, .. } => *elem,
                _ => Elem::U8,
            },
        }
    }

    pub(super) fn load(&mut self, stmt: &Stmt, to: Frag, from: &Mem, guard: Option<Ix>, fill: Number) {
        let elem = self.elem_of(from.space);
        let Some(access) = access(elem, to.len) else {
            return self.impossible(&format!("a load of {} elements of {elem}", to.len));
        };
        let source = self.location(from, &access, to.len, true);
        let target = self.declaration_or(stmt, to.reg, |printer| printer.registers(to, &access));
        let source = self.or_fill(source, guard, || filled(fill, elem, &access, to.len));
        self.set(None, &target, &source);
    }

    /// A volatile load, which the compiler cannot sink, for the types that the prelude supports. Returns
    /// whether the load is volatile.
    pub(super) fn load_here(&mut self, to: Frag, from: &Mem, base: Ix) -> bool {
        let elem = self.elem_of(from.space);
        let call = match (from.space, from.peer, elem, to.len) {
            (Space::Shared(_), None, Elem::F32 | Elem::Tf32, 1 | 2 | 4) => "load_here",
            (Space::Shared(_), None, Elem::F64, 1 | 2) => "load_doubles_here",
            _ => return false,
        };
        let Some(access) = access(elem, to.len).filter(|_| !self.undeclared.contains(&to.reg)) else {
            return false;
        };
        let mut terms = Vec::new();
        self.kernel.exprs.terms(from.index, &mut terms);
        let Some(location) = terms.iter().position(|&term| term == base) else { return false };
        terms.remove(location);
        let terms: Vec<String> = terms.iter().map(|&term| self.int_piece(term).at(Level::Sum)).collect();
        let rest = if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") };
        let source = self.address(&Mem { index: base, ..from.clone() });
        let target = self.registers(to, &access);
        self.call(None, &format!("{call}_{}", to.len), &[target, source, rest]);
        true
    }

    pub(super) fn store(&mut self, to: &Mem, from: Frag, guard: Option<Ix>) {
        let elem = self.elem_of(to.space);
        let Some(access) = access(elem, from.len) else {
            return self.impossible(&format!("a store of {} elements of {elem}", from.len));
        };
        let bytes = elem.bytes_of(from.len);
        if self.elements_elsewhere && bytes >= 8 && to.peer.is_none() && matches!(to.space, Space::Global(_))
        {
            let (target, source) = (self.address(to), self.pointer(from));
            let source = format!("(const unsigned*){source}");
            return self.call(guard, &format!("store_{bytes}"), &[target, source]);
        }
        let target = self.location(to, &access, from.len, false);
        let source = self.registers(from, &access);
        self.set(guard, &target, &[source]);
    }

    /// Prints a value and its store as one statement, where no other statement uses the registers in between.
    pub(super) fn copy(&mut self, body: &[Stmt], at: usize) -> bool {
        let Some((stored, access)) = self.copied(body, at) else { return false };
        let (value, Some(Op::Store { to, guard, .. })) =
            (&body[at].op, body.get(at + 1).map(|next| &next.op))
        else {
            return false;
        };
        let elem = self.elem_of(to.space);
        let source = match value {
            Op::Load { from, guard, fill, .. } => {
                let source = self.location(from, &access, stored.len, true);
                self.or_fill(source, *guard, || filled(*fill, elem, &access, stored.len))
            }
            Op::Assign { value, .. } => vec![self.value(value)],
            _ => return false,
        };
        let target = self.location(to, &access, stored.len, false);
        self.set(*guard, &target, &source);
        true
    }

    /// The registers between a value and a store of it, if no other statement uses them.
    fn copied(&self, body: &[Stmt], at: usize) -> Option<(Frag, Access)> {
        let Op::Store { to, from: stored, .. } = &body.get(at + 1)?.op else { return None };
        let elem = self.elem_of(to.space);
        let fits = match &body[at].op {
            Op::Load { to: loaded, from, volatile_at: None, .. } => {
                loaded == stored && elem == self.elem_of(from.space)
            }
            Op::Assign { reg, .. } => {
                *reg == stored.reg && self.is_scalar(*reg) && elem == self.kernel.regs[*reg as usize].elem
            }
            _ => false,
        };
        let uses = self.uses.get(&stored.reg).copied().unwrap_or(0);
        (fits && uses == 2).then_some((*stored, access(elem, stored.len)?))
    }

    /// The register arrays that [`Printer::copy`] leaves out, which need no declaration.
    pub(super) fn left_out(&self, body: &[Stmt], all: &mut Vec<Id>) {
        for (at, stmt) in body.iter().enumerate() {
            all.extend(self.copied(body, at).map(|(stored, _)| stored.reg));
            stmt.op.blocks().into_iter().for_each(|inner| self.left_out(inner, all));
        }
    }

    /// A load with its fill under a guard: as the parts between which a line may be broken.
    fn or_fill(&mut self, source: String, guard: Option<Ix>, fill: impl FnOnce() -> String) -> Vec<String> {
        match guard {
            None => vec![source],
            Some(guard) => {
                vec![self.int_piece(guard).at(Level::Or), format!("? {source}"), format!(": {}", fill())]
            }
        }
    }

    /// An assignment, broken into lines where it is too long for one.
    pub(super) fn set(&mut self, guard: Option<Ix>, target: &str, source: &[String]) {
        let whole = format!("{target} = {};", source.join(" "));
        let Some(guard) = guard else {
            return if self.fits(&whole) { self.line(&whole) } else { self.lines(target, source) };
        };
        let guard = format!("if ({})", self.int(guard));
        let together = format!("{guard} {whole}");
        if self.fits(&together) {
            return self.line(&together);
        }
        self.line(&(guard + " {"));
        self.depth += 1;
        self.set(None, target, source);
        self.depth -= 1;
        self.line("}");
    }

    /// Does a line of this text fit?
    pub(super) fn fits(&self, text: &str) -> bool {
        self.depth * 4 + text.len() <= WIDTH
    }

    /// An assignment on several lines.
    fn lines(&mut self, target: &str, source: &[String]) {
        let (start, rest) = if source.len() > 1 {
            (format!("{target} = {}", source[0]), &source[1..])
        } else {
            (format!("{target} ="), source)
        };
        self.line(&start);
        self.depth += 1;
        for (at, part) in rest.iter().enumerate() {
            let end = if at + 1 == rest.len() { ";" } else { "" };
            self.line(&format!("{part}{end}"));
        }
        self.depth -= 1;
    }

    /// An atomic update. Its memory order comes from fences around it, which exist for all types and cost as
    /// little.
    pub(super) fn atomic(&mut self, stmt: &Stmt) {
        let Op::Atomic { to, op, value, guard, order, scope, old, expected } = &stmt.op else { return };
        let elem = self.elem_of(to.space);
        let address = match self.address(to) {
            address if to.peer.is_none() && !address.starts_with('&') => format!("&{address}[0]"),
            address => address,
        };
        let (op, value) = match op {
            Change::Sub => (Change::Add, Val::Un(crate::thread::Un::Neg, Box::new(value.clone()))),
            op => (*op, value.clone()),
        };
        // CUDA's own where there is one, ours for narrow types and for min and max of float.
        let int = elem.is_word();
        let (function, native) = match op {
            _ if !op.changes(elem) => return self.impossible(&format!("an atomic {op:?} of {elem}")),
            Change::Add if int || matches!(elem, Elem::F32 | Elem::F64) => ("atomicAdd", true),
            Change::Add | Change::Sub => ("atomic_add", false),
            Change::Min if int => ("atomicMin", true),
            Change::Max if int => ("atomicMax", true),
            Change::Min => ("atomic_min", false),
            Change::Max => ("atomic_max", false),
            Change::And => ("atomicAnd", true),
            Change::Or => ("atomicOr", true),
            Change::Xor => ("atomicXor", true),
            Change::Exchange => ("atomicExch", true),
            Change::CompareExchange => ("atomicCAS", true),
            Change::Await if order.acquires() => ("await_acquire", true),
            Change::Await => ("await_relaxed", true),
        };
        let waits = op == Change::Await;
        let narrow = *scope <= Scope::Block && native && !waits;
        let function = match to.space {
            Space::Global(_) if narrow => format!("{function}_block"),
            _ => function.to_owned(),
        };
        let fence = if *scope <= Scope::Block { "__threadfence_block();" } else { "__threadfence();" };
        // CUDA has the minimum and the maximum of signed 64-bit integers; other updates give the same bits for unsigned integers.
        let unsigned = elem == Elem::I64 && !matches!(op, Change::Min | Change::Max | Change::Await);
        let cast = if unsigned { "(unsigned long long*)" } else { "" };
        let mut operand = |value: &Val| match unsigned {
            true => self.value(&Val::Cast(Elem::U64, Box::new(value.clone()))),
            false => self.value(value),
        };
        let mut operands: Vec<String> = expected.iter().map(&mut operand).collect();
        operands.push(operand(&value));
        let value = operands.join(", ");
        let mut call = format!("{function}({cast}{address}, {value});");
        if let Some(old) = old {
            if !native {
                return self.impossible(&format!("the value before an atomic {op:?} of {elem}"));
            }
            let target = self.declaration_or(stmt, old.reg, |printer| printer.element(old.reg, old.at));
            call = format!("{target} = {call}");
        }
        let (ahead, behind) = (order.releases(), order.acquires() && !waits);
        let Some(guard) = guard.filter(|_| ahead || behind) else {
            return self.between(ahead, behind, fence, |printer| printer.guarded(*guard, &call));
        };
        // Only threads with an element order their accesses.
        let guard = self.int(guard);
        self.line(&format!("if ({guard}) {{"));
        self.depth += 1;
        self.between(ahead, behind, fence, |printer| printer.line(&call));
        self.depth -= 1;
        self.line("}");
    }

    /// A statement with fences ahead of it and behind it.
    fn between(&mut self, ahead: bool, behind: bool, fence: &str, statement: impl FnOnce(&mut Self)) {
        if ahead {
            self.line(fence);
        }
        statement(self);
        if behind {
            self.line(fence);
        }
    }

    /// A call, one argument on each line where it is too long for one.
    pub(super) fn call(&mut self, guard: Option<Ix>, function: &str, args: &[String]) {
        let whole = format!("{function}({});", args.join(", "));
        if self.fits(&whole) {
            return self.guarded(guard, &whole);
        }
        match guard {
            Some(guard) => {
                let guard = self.int(guard);
                self.line(&format!("if ({guard}) {{"));
                self.depth += 1;
                self.call(None, function, args);
                self.depth -= 1;
                self.line("}");
            }
            None => {
                self.line(&format!("{function}("));
                self.depth += 1;
                for (at, arg) in args.iter().enumerate() {
                    let end = if at + 1 == args.len() { ");" } else { "," };
                    self.line(&format!("{arg}{end}"));
                }
                self.depth -= 1;
            }
        }
    }

    /// A statement under a guard.
    pub(super) fn guarded(&mut self, guard: Option<Ix>, text: &str) {
        match guard {
            Some(guard) => {
                let guard = self.int(guard);
                self.line(&format!("if ({guard}) {text}"));
            }
            None => self.line(text),
        }
    }

    /// An operation that no GPU supports must not compile: a program that contains it is invalid.
    pub(super) fn impossible(&mut self, what: &str) {
        let depth = std::mem::take(&mut self.depth);
        self.line(&format!("#error \"{what} does not exist\""));
        self.depth = depth;
    }

    pub(super) fn is_access(stmt: &Stmt) -> bool {
        matches!(stmt.op, Op::Load { .. } | Op::Store { .. } | Op::Assign { .. })
    }
}

/// The fill of a guarded load.
fn filled(fill: Number, elem: Elem, access: &Access, len: u32) -> String {
    if len == 1 {
        return literal(fill, elem);
    }
    let part = if access.elem == elem {
        literal(fill, elem)
    } else {
        let size = elem.bits();
        let word = (0..(32 / size).min(len)).fold(0u64, |word, at| word | fill.bits(elem) << (at * size));
        if word == 0 { "0".to_string() } else { format!("0x{word:08x}") }
    };
    match access.parts {
        1 => part,
        parts => format!("make_{}({})", access.name, vec![part; parts as usize].join(", ")),
    }
}
