//! Executes one warp, step by step, until it waits or ends: integers, values, branches. Memory and
//! synchronisation are in other modules.

use tilewright_program::Elem;
use tilewright_program::number::{self, Number};
use tilewright_program::thread::{Bin, Change, Cmp, Scope, Un, Vote};

use crate::arithmetic::Arithmetic;
use crate::code::{Claimed, Cond, Ins, IntCell, IntOp, Lane, Slot, Src, is_double};
use crate::count::Class;
use crate::fault::FaultKind;
use crate::machine::{Cluster, Result, Stop};
use crate::value;
use crate::warp::{Ints, LANES, Pin, Since, Warp};

fn each(op: IntOp, a: &Ints, b: &Ints) -> Ints {
    macro_rules! lanes {
        ($($name:ident)*) => {
            match op {
                $(IntOp::$name => std::array::from_fn(|lane| IntOp::$name.of(a[lane], b[lane])),)*
            }
        };
    }
    lanes!(Add Sub Mul Div Rem And Xor Shl Min Max Lt Within Eq All Wrap)
}

fn select(w: &mut Warp, to: Slot, cond: Src, [a, b]: [Src; 2]) {
    let (cond, a, b) = (w.ints(cond), w.ints(a), w.ints(b));
    w.vectors[to as usize] = std::array::from_fn(|lane| if cond[lane] != 0 { a[lane] } else { b[lane] });
}

fn compare(w: &mut Warp, arithmetic: Arithmetic, how: Cmp, elem: Elem, to: Slot, [x, y]: [Slot; 2]) {
    let (x, y) = (w.bits(x, elem), w.bits(y, elem));
    let truth: [u32; LANES] =
        std::array::from_fn(|lane| u32::from(arithmetic.cmp(how, x[lane], y[lane], elem)));
    w.set_words(to, &truth);
}

fn class(elem: Elem, f: Bin) -> Class {
    match f {
        Bin::Div | Bin::Rem if elem.is_float() => Class::Function,
        _ => Class::Arithmetic,
    }
}

impl Cluster<'_> {
    pub(crate) fn execute(&mut self, w: &mut Warp) -> Result<Stop> {
        let code = self.ctx.code;
        let arithmetic = self.ctx.world.arithmetic;
        loop {
            let ins = &code.ins[w.pc];
            w.pc += 1;
            match *ins {
                Ins::Label(_) => {}
                Ins::Int { op, to: IntCell::Warp(to), a, b } => {
                    w.scalars[to as usize] = op.of(w.scalar(a), w.scalar(b));
                }
                Ins::Int { op, to: IntCell::Lanes(to), a, b } => {
                    w.vectors[to as usize] = each(op, &w.ints(a), &w.ints(b));
                }
                Ins::Select { to: IntCell::Warp(to), cond, a, b } => {
                    w.scalars[to as usize] = if w.scalar(cond) != 0 { w.scalar(a) } else { w.scalar(b) };
                }
                Ins::Select { to: IntCell::Lanes(to), cond, a, b } => select(w, to, cond, [a, b]),
                Ins::Set { to, a } => {
                    let new = w.ints(a);
                    w.set_ints(to, |lane| new[lane]);
                }
                Ins::Fma { elem, to, x, y, z } => {
                    self.operation(Class::Fma, w);
                    self.ready(w, to, elem, &[(x, elem), (y, elem), (z, elem)])?;
                    fma(w, arithmetic, elem, to, [x, y, z]);
                }
                Ins::Bin { f, elem, to, x, y } => {
                    self.operation(class(elem, f), w);
                    self.ready(w, to, elem, &[(x, elem), (y, elem)])?;
                    bin(w, arithmetic, f, elem, to, [x, y]);
                }
                Ins::Un { f, truth, elem, to, x } => {
                    let cheap = matches!(f, Un::Neg | Un::Abs | Un::Apart | Un::Not);
                    self.operation(if cheap { Class::Arithmetic } else { Class::Function }, w);
                    self.one(w, to, x, elem, elem, |bits| arithmetic.un(f, truth, bits, elem))?;
                }
                Ins::Cast { .. } | Ins::ToInt { .. } | Ins::FromInt { .. } => self.convert_element(w, ins)?,
                Ins::Cmp { how, elem, to, x, y } => {
                    self.operation(Class::Choice, w);
                    self.ready(w, to, Elem::I32, &[(x, elem), (y, elem)])?;
                    compare(w, arithmetic, how, elem, to, [x, y]);
                }
                Ins::Pick { cond, elem, to, x, y } => {
                    let cond = self.truth(w, cond)?;
                    self.blend(w, cond, elem, to, x, y)?;
                }
                Ins::Shuffle { elem, to, x, lane } => self.shuffle(w, elem, to, x, lane)?,
                Ins::Vote { how, elem, to, x } => self.vote(w, how, elem, x, to)?,
                Ins::Move { elem, to, x } => self.one(w, to, x, elem, elem, |bits| bits)?,
                Ins::Load { from, to, guard, fill } => self.load(w, from, to, guard, fill)?,
                Ins::Store { to, from, guard } => self.store(w, to, from, guard)?,
                Ins::Atom(at) => self.atom(w, at)?,
                Ins::Claim(claim) => self.check_claim(w, claim)?,
                Ins::Probe(probe) => self.probe(w, probe)?,
                Ins::Commit(queue) => self.commit(w, queue)?,
                Ins::Fence(fence) => self.fence(w, fence)?,
                Ins::Pin { from, to } => w.pin(from, to),
                Ins::Arrive { bar, slot, peer, bytes } => self.arrive(w, bar, slot, peer, bytes)?,
                Ins::Init(bar) => self.init(w, bar)?,
                Ins::AwaitPrevious => w.awaited |= w.mask,
                Ins::Sync { first, member } => {
                    self.operation(Class::Barrier, w);
                    let bar = self.barrier_of(w, first, member)?;
                    if !self.sync(w, bar)? {
                        return Ok(Stop::Waits);
                    }
                }
                Ins::Atomic { op: Change::Await, .. }
                | Ins::WaitQueue { .. }
                | Ins::Await { .. }
                | Ins::Registers(_) => {
                    if !self.wait(w, ins)? {
                        w.pc -= 1;
                        return Ok(Stop::Waits);
                    }
                }
                Ins::Atomic { .. } => self.atomic(w, ins)?,
                Ins::Loop { .. } | Ins::Next { .. } | Ins::Leave { .. } => self.branch(w, ins)?,
                Ins::Enter | Ins::Narrow { .. } | Ins::Widen => self.branch(w, ins)?,
                Ins::If { .. } | Ins::Else { .. } | Ins::EndIf => self.branch(w, ins)?,
                Ins::Role { .. } | Ins::Elect { .. } | Ins::Jump(_) => self.branch(w, ins)?,
                Ins::End => {
                    self.has_awaited_previous(w)?;
                    return Ok(Stop::Ends);
                }
            }
        }
    }

    /// Conversions of elements, and between elements and integers.
    fn convert_element(&mut self, w: &mut Warp, ins: &Ins) -> Result<()> {
        let arithmetic = self.ctx.world.arithmetic;
        match *ins {
            Ins::Cast { from, elem, to, x } => {
                self.operation(Class::Conversion, w);
                self.one(w, to, x, from, elem, |bits| arithmetic.cast(bits, from, elem))?;
            }
            Ins::ToInt { elem, to, x } => {
                self.operation(Class::Conversion, w);
                self.need(w, x, elem)?;
                let bits = w.bits(x, elem);
                w.set_ints(to, |lane| arithmetic.to_int(bits[lane], elem));
            }
            Ins::FromInt { elem, to, x } => {
                self.writable(w, to, elem, 1)?;
                let bits = w.ints(x).map(|n| arithmetic.integer(n, elem));
                w.set(to, elem, &bits);
            }
            _ => {}
        }
        Ok(())
    }

    /// Control flow: the next step, and the lanes that execute it.
    fn branch(&mut self, w: &mut Warp, ins: &Ins) -> Result<()> {
        match *ins {
            Ins::Loop { var, from, to, exit } => w.begin(var, from, to, exit),
            Ins::Next { var, step, to, head } => w.next(var, step, to, head),
            Ins::Narrow { cond, expected } => {
                let lanes = self.truth(w, cond)?;
                w.narrow(if expected { lanes } else { !lanes });
            }
            Ins::Widen | Ins::EndIf => w.widen(),
            Ins::If { cond, other } => {
                let lanes = self.truth(w, cond)?;
                w.branch(lanes, other);
            }
            Ins::Else { end } => w.other(end),
            Ins::Role { from, to, other } => w.skip_unless((from..to).contains(&w.number), other),
            Ins::Elect { scope, first, end } => {
                if scope == Scope::Warp {
                    self.together(w, "elect.sync")?;
                }
                let lanes = self.elected(w, scope, first);
                w.branch(lanes, end);
            }
            Ins::Jump(to) => w.pc = to as usize,
            Ins::Enter => w.narrow(u32::MAX),
            Ins::Leave { cond, depth, next, exit } => w.leave(w.lanes_where(cond), depth, next, exit),
            _ => {}
        }
        Ok(())
    }

    /// Does a wait end now? Otherwise it is executed again later.
    fn wait(&mut self, w: &mut Warp, ins: &Ins) -> Result<bool> {
        match *ins {
            Ins::Atomic { .. } => self.await_flag(w, ins),
            Ins::WaitQueue { queue, pending } => self.wait_queue(w, queue, pending),
            Ins::Await { bar, slot, phase } => self.wait_phase(w, bar, slot, phase),
            Ins::Registers(count) => self.set_registers(w, count),
            _ => Ok(true),
        }
    }

    #[inline]
    pub(crate) fn operation(&mut self, class: Class, w: &Warp) {
        self.counts.operation(class, w.mask);
    }

    /// The row of the program's sites of the current step.
    pub(crate) fn site(&self, w: &Warp) -> u32 {
        self.ctx.code.sites[w.pc - 1]
    }

    /// Operands must be initialised, and no operation in flight may use the result's cell.
    #[inline]
    fn ready(&self, w: &mut Warp, to: Slot, elem: Elem, operands: &[(Slot, Elem)]) -> Result<()> {
        for &(slot, elem) in operands {
            self.need(w, slot, elem)?;
        }
        self.writable(w, to, elem, 1)
    }

    /// A cell must be initialised in every active lane, and no operation in flight may change it.
    #[inline]
    pub(crate) fn need(&self, w: &mut Warp, slot: Slot, elem: Elem) -> Result<()> {
        if w.initialised(slot, elem) & w.mask != w.mask {
            return Err(self.uninitialised(w, slot, elem));
        }
        if !w.since.is_empty() && !is_double(elem) {
            self.locked(w, slot, false)?;
            self.pinned(w, slot, "read")?;
            w.since[slot as usize].read();
        }
        Ok(())
    }

    /// Checks that no operation in flight uses cells that are about to be written.
    #[inline]
    pub(crate) fn writable(&self, w: &mut Warp, slot: Slot, elem: Elem, count: u32) -> Result<()> {
        if !w.since.is_empty() && !is_double(elem) {
            for slot in slot..slot + count {
                self.locked(w, slot, true)?;
                self.pinned(w, slot, "written")?;
                w.since[slot as usize] = Since::Written;
            }
        }
        Ok(())
    }

    /// Out-of-bounds elements have their claimed values.
    fn check_claim(&self, w: &mut Warp, claim: u32) -> Result<()> {
        let claim = &self.ctx.code.claims[claim as usize];
        self.need(w, claim.value, claim.elem)?;
        let outside = !w.lanes_where(claim.inside) & w.mask;
        if outside == 0 {
            return Ok(());
        }
        let (bits, wanted) = (w.bits(claim.value, claim.elem), claim.number.value(claim.elem));
        let ring = self.ctx.world.arithmetic.ring_of(claim.elem);
        let differs = |bits: u64| match ring {
            Some(ring) => bits != ring.number(wanted),
            None => number::differ(number::value(claim.elem, bits), wanted),
        };
        let is_wrong = |lane: &u32| outside >> lane & 1 == 1 && differs(bits[*lane as usize]);
        match (0..LANES as u32).find(is_wrong) {
            Some(lane) => Err(self.false_claim(w, claim, lane, bits[lane as usize])),
            None => Ok(()),
        }
    }

    #[cold]
    fn false_claim(&self, w: &Warp, claim: &Claimed, lane: u32, bits: u64) -> Box<crate::fault::Fault> {
        let at: Vec<String> = claim.at.iter().map(|&at| w.ints(at)[lane as usize].to_string()).collect();
        if claim.strict {
            let at = at.join(", ");
            let doing = format!("has the index ({at})");
            return self.ctx.fault(
                FaultKind::Strict,
                format!("the index ({at}) of a gather or scatter is out of bounds"),
                vec![self.party(w, 1 << lane, doing, self.site(w))],
                "the language defines it: a load is 0, and a store is dropped; where that is meant, make the index -1, which strict runs accept",
            );
        }
        let shown = |number: Number| number.written_as(claim.elem);
        let (claimed, at) = (shown(claim.number), at.join(", "));
        let value = number::value(claim.elem, bits);
        let value = if claim.elem.is_float() { Number::Float(value) } else { Number::Int(value as i128) };
        let doing = format!("has the element at ({at})");
        self.ctx.fault(
            FaultKind::FalseClaim,
            format!(
                "`out_of_bounds = {claimed}` says that out-of-bounds elements are {claimed}, and the one at ({at}) is {}",
                shown(value)
            ),
            vec![self.party(w, 1 << lane, doing, self.site(w))],
            format!(
                "set these elements to {claimed}, such as by `if at.0 < N {{ x }} else {{ {claimed} }}` in a map, or leave the claim out"
            ),
        )
    }

    #[cold]
    fn uninitialised(&self, w: &Warp, slot: Slot, elem: Elem) -> Box<crate::fault::Fault> {
        let lanes = w.mask & !w.initialised(slot, elem);
        let name = self.register(slot, elem);
        let party = self.party(w, lanes, format!("read {name}"), self.site(w));
        self.ctx.fault(
            FaultKind::Unwritten,
            format!("{name} has not been written"),
            vec![party],
            "initialise the registers first, as registers_like(…, 0.0) does",
        )
    }

    /// A register as text.
    pub(crate) fn register(&self, slot: Slot, elem: Elem) -> String {
        let double = is_double(elem);
        let of = self
            .ctx
            .code
            .regs
            .iter()
            .find(|reg| is_double(reg.elem) == double && (reg.at..reg.at + reg.len).contains(&slot));
        match of {
            Some(reg) => format!("element {} of the registers `{}`", slot - reg.at, reg.name),
            // The result of a shuffle from an inactive lane.
            None => "a value of an inactive lane".to_string(),
        }
    }

    fn locked(&self, w: &Warp, slot: Slot, writes: bool) -> Result<()> {
        let lock = w.locks.iter().find(|lock| (lock.from..lock.to).contains(&slot));
        let Some(lock) = lock.filter(|lock| writes || !lock.readable) else { return Ok(()) };
        let name = self.register(slot, Elem::F32);
        let verb = if writes { "write" } else { "read" };
        let parties = vec![
            self.party(w, w.mask, format!("{verb} {name}"), self.site(w)),
            self.party(w, w.live, "issued the product", lock.site),
        ];
        Err(self.ctx.fault(
            FaultKind::Locked,
            format!("a matrix product in flight uses {name}"),
            parties,
            "wait for the product first",
        ))
    }

    /// Compilers do not know that a product still writes a register: there is a pin between the wait for it and the first use.
    fn pinned(&self, w: &mut Warp, slot: Slot, used: &str) -> Result<()> {
        if w.pins[slot as usize] == Pin::Changed {
            return Err(self.unpinned(w, slot, used));
        }
        w.pins[slot as usize] = Pin::Used;
        Ok(())
    }

    #[cold]
    fn unpinned(&self, w: &Warp, slot: Slot, used: &str) -> Box<crate::fault::Fault> {
        let name = self.register(slot, Elem::F32);
        let party = self.party(w, w.mask, format!("use {name}"), self.site(w));
        self.ctx.fault(
            FaultKind::MissingFence,
            format!("{name} is {used}, and compilers may move that ahead of the wait for the matrix product that writes it"),
            vec![party],
            "pin the registers of asynchronous products behind each wait",
        )
    }

    fn one(
        &mut self,
        w: &mut Warp,
        to: Slot,
        x: Slot,
        from: Elem,
        elem: Elem,
        f: impl Fn(u64) -> u64,
    ) -> Result<()> {
        self.need(w, x, from)?;
        self.writable(w, to, elem, 1)?;
        let bits = w.bits(x, from).map(f);
        w.set(to, elem, &bits);
        Ok(())
    }

    /// Lanes in which a value is nonzero.
    fn truth(&self, w: &mut Warp, cond: Cond) -> Result<u32> {
        let (cond, elem) = match cond {
            Cond::Int(at) => return Ok(w.lanes_where(at)),
            Cond::Value(slot, elem) => (slot, elem),
        };
        self.need(w, cond, elem)?;
        let (bits, arithmetic) = (w.bits(cond, elem), self.ctx.world.arithmetic);
        Ok((0..LANES)
            .filter(|&lane| arithmetic.is_true(bits[lane], elem))
            .fold(0, |mask, lane| mask | 1 << lane))
    }

    fn blend(&mut self, w: &mut Warp, cond: u32, elem: Elem, to: Slot, x: Slot, y: Slot) -> Result<()> {
        self.operation(Class::Choice, w);
        let mask = w.mask;
        for (slot, lanes) in [(x, mask & cond), (y, mask & !cond)] {
            w.mask = lanes;
            if lanes != 0 {
                self.need(w, slot, elem)?;
            }
        }
        w.mask = mask;
        self.writable(w, to, elem, 1)?;
        let (x, y) = (w.bits(x, elem), w.bits(y, elem));
        let bits: [u64; LANES] =
            std::array::from_fn(|lane| if cond >> lane & 1 == 1 { x[lane] } else { y[lane] });
        w.set(to, elem, &bits);
        Ok(())
    }

    /// A shuffle: every lane takes the value of another; from an inactive lane the result is uninitialised.
    fn shuffle(&mut self, w: &mut Warp, elem: Elem, to: Slot, x: Slot, lane: Lane) -> Result<()> {
        self.operation(Class::Shuffle, w);
        self.together(w, "shfl.sync")?;
        self.writable(w, to, elem, 1)?;
        let (bits, initialised) = (w.bits(x, elem), w.initialised(x, elem) & w.mask);
        let from: [usize; LANES] = match lane {
            Lane::Xor(by) => {
                let by = w.ints(by);
                std::array::from_fn(|lane| lane ^ (by[lane] as usize & 31))
            }
            Lane::Of(slot, lanes) => {
                self.need(w, slot, Elem::I32)?;
                let (of, inner) = (w.bits(slot, Elem::I32), lanes as usize - 1);
                std::array::from_fn(|lane| lane & !inner | of[lane] as usize & inner)
            }
        };
        let taken = from.map(|lane| bits[lane]);
        let empty = (0..LANES)
            .filter(|&lane| initialised >> from[lane] & 1 == 0)
            .fold(0, |mask, lane| mask | 1 << lane);
        w.set(to, elem, &taken);
        w.mark_uninitialised(to, elem, empty);
        Ok(())
    }

    /// A bit for each lane of the warp: where a value is not 0, or where it is the same.
    fn vote(&mut self, w: &mut Warp, how: Vote, elem: Elem, x: Slot, to: Slot) -> Result<()> {
        self.operation(Class::Shuffle, w);
        let (name, of) = match how {
            Vote::Ballot => ("vote.sync", Elem::U32),
            Vote::Match => ("match.sync", Elem::U32),
            Vote::All(_) => ("redux.sync", elem),
        };
        self.together(w, name)?;
        self.need(w, x, elem)?;
        self.writable(w, to, of, 1)?;
        let (bits, active) = (w.bits(x, elem), w.mask);
        let lanes = |test: &dyn Fn(u64) -> bool| -> u64 {
            let voted = (0..LANES).filter(|&lane| active >> lane & 1 == 1 && test(bits[lane]));
            voted.fold(0, |mask, lane| mask | 1 << lane)
        };
        let votes: [u64; LANES] = match how {
            Vote::Ballot => [lanes(&|x| x != 0); LANES],
            Vote::Match => std::array::from_fn(|lane| lanes(&|x| x == bits[lane])),
            Vote::All(with) => {
                let present = (0..LANES).filter(|&lane| active >> lane & 1 == 1).map(|lane| bits[lane]);
                [present.reduce(|x, y| self.ctx.world.arithmetic.bin(with, x, y, elem)).unwrap_or_default();
                    LANES]
            }
        };
        w.set(to, of, &votes);
        Ok(())
    }

    /// Elects one lane of each group of this size.
    fn elected(&self, w: &Warp, scope: Scope, first: u32) -> u32 {
        let start = w.number * LANES as u32;
        let of_block = |condition: bool| if condition && start == first { 1 } else { 0 };
        match scope {
            Scope::Thread => u32::MAX,
            // The first active one.
            Scope::Warp => w.mask & w.mask.wrapping_neg(),
            Scope::Warpgroup => u32::from(start.is_multiple_of(128)),
            Scope::Block => of_block(true),
            Scope::Cluster => of_block(w.block == 0),
            Scope::Grid => of_block(self.blocks[w.block].at == [0; 3]),
        }
    }
}

fn fma(w: &mut Warp, arithmetic: Arithmetic, elem: Elem, to: Slot, [x, y, z]: [Slot; 3]) {
    match elem {
        Elem::F32 if arithmetic.ring_of(elem).is_none() => {
            let [x, y, z] = [x, y, z].map(|slot| &w.words[slot as usize]);
            let bits: [u32; LANES] = std::array::from_fn(|lane| value::fmaf(x[lane], y[lane], z[lane]));
            w.set_words(to, &bits);
        }
        Elem::I32 | Elem::U32 => {
            let [x, y, z] = [x, y, z].map(|slot| &w.words[slot as usize]);
            let bits: [u32; LANES] =
                std::array::from_fn(|lane| x[lane].wrapping_mul(y[lane]).wrapping_add(z[lane]));
            w.set_words(to, &bits);
        }
        _ => {
            let [x, y, z] = [x, y, z].map(|slot| w.bits(slot, elem));
            let bits: [u64; LANES] =
                std::array::from_fn(|lane| arithmetic.fma(x[lane], y[lane], z[lane], elem));
            w.set(to, elem, &bits);
        }
    }
}

fn bin(w: &mut Warp, arithmetic: Arithmetic, f: Bin, elem: Elem, to: Slot, [x, y]: [Slot; 2]) {
    let (x, y) = (w.bits(x, elem), w.bits(y, elem));
    let bits: [u64; LANES] = std::array::from_fn(|lane| arithmetic.bin(f, x[lane], y[lane], elem));
    w.set(to, elem, &bits);
}
