//! Instructions of the table, executed by the effect of their rows: copies between memory and fragments,
//! asynchronous copies, boxes of tensor maps, matrix products. There is no code for a single instruction.

use tilewright_layout::Transfer;
use tilewright_program::Elem;
use tilewright_program::atom::{Atom, Done, Effect, OperandKind, OperandName};
use tilewright_program::narrow::Int4;
use tilewright_program::thread::{Bin, Queue, Scope, Space};

use crate::agent::{Agent, Copied, Piece, Sent, Target, Work};
use crate::clock::lanes_of;
use crate::code::{AtomCode, Location, Operand, Src, is_double};
use crate::count::Class;
use crate::fault::FaultKind;
use crate::fragment::Fragment;
use crate::machine::{Cluster, Result};
use crate::shadow::{By, Touch};
use crate::warp::{LANES, Warp};

/// Granularity of a bulk copy in bytes; swizzles keep these bytes together.
const PIECE: usize = 16;
/// Alignment of a box in shared memory.
const BOX_ALIGN: u32 = 128;

impl Cluster<'_> {
    pub(crate) fn malformed<T>(&self, w: &Warp, message: String) -> Result<T> {
        let party = self.party(w, w.mask, "execute it", self.site(w));
        Err(self.ctx.fault(FaultKind::Malformed, message, vec![party], ""))
    }

    pub(crate) fn atom(&mut self, w: &mut Warp, at: u32) -> Result<()> {
        let code = self.ctx.code;
        let atom = &code.atoms[at as usize];
        let lanes = w.guarded(atom.guard);
        if lanes == 0 || atom.row.effect == Effect::Hint {
            return Ok(());
        }
        self.operation(
            match atom.row.effect {
                Effect::Mma { .. } => Class::Product,
                Effect::Convert | Effect::Unpack(_) => Class::Conversion,
                Effect::Multiply | Effect::Subtract | Effect::FunnelShift => Class::Arithmetic,
                _ => Class::Copy,
            },
            w,
        );
        if atom.row.family.issued_by != Scope::Thread && lanes != u32::MAX {
            return Err(self.apart(w, lanes, atom.row.name));
        }
        match (atom.row.effect, atom.row.family.issued_by, atom.row.family.completes) {
            (Effect::Mma { m, n, k, .. }, Scope::Warp, Done::Now) => self.multiply(w, atom, [m, n, k]),
            (Effect::Mma { .. }, Scope::Warpgroup, _) => self.begin_product(w, at),
            (Effect::Copy, Scope::Warp, _) => self.matrices(w, atom),
            (Effect::Convert, Scope::Thread, Done::Now) => self.convert(w, atom, lanes, None),
            (Effect::FunnelShift, Scope::Thread, Done::Now) => self.funnel_shift(w, atom, lanes),
            (Effect::Unpack(of), Scope::Thread, Done::Now) => self.convert(w, atom, lanes, Some(of)),
            (Effect::Multiply | Effect::Subtract, Scope::Thread, Done::Now) => {
                self.compute_pairs(w, atom, lanes)
            }
            (Effect::Copy, Scope::Thread, Done::Queue(Queue::CpAsync)) => self.begin_copies(w, atom, lanes),
            (Effect::Copy, Scope::Thread, Done::Mbarrier) if !atom.row.family.async_proxy => {
                self.begin_sends(w, atom, lanes)
            }
            (Effect::Copy | Effect::Reduce(_), Scope::Thread, _) if atom.row.family.async_proxy => {
                for lane in lanes_of(lanes) {
                    self.begin_bulk(w, atom, lane)?;
                }
                w.seen.epoch += 1;
                Ok(())
            }
            _ => self
                .malformed(w, format!("`{}` has an effect that the simulator does not know", atom.row.name)),
        }
    }

    /// A fragment operand, checked for its length.
    pub(crate) fn fragment(&self, w: &Warp, atom: &AtomCode, at: usize, values: usize) -> Result<Fragment> {
        let Operand::Frag { reg, slot, len, elem } = atom.args[at] else {
            return self.malformed(w, format!("operand {at} of `{}` is no fragment", atom.row.name));
        };
        let fragment = Fragment { slot, elem, of: atom.row.operands[at].elem };
        let needed = fragment.registers(values);
        if needed > len || is_double(elem) != is_double(fragment.of) {
            let name = &self.ctx.code.regs[reg as usize].name;
            return self.malformed(
                w,
                format!("`{}` takes {needed} registers of `{name}`, and {len} are given", atom.row.name),
            );
        }
        Ok(fragment)
    }

    /// ldmatrix and stmatrix: rows at lanes' addresses, elements in fragments.
    fn matrices(&mut self, w: &mut Warp, atom: &AtomCode) -> Result<()> {
        let ctx = self.ctx;
        let tiles = &ctx.tables[atom.row.name];
        let is_memory = |arg: &Operand| matches!(arg, Operand::At(_));
        let (Some(memory), Some(operand)) =
            (atom.args.iter().position(is_memory), atom.args.iter().position(|arg| !is_memory(arg)))
        else {
            return self.exchange(w, atom);
        };
        let Operand::At(location) = atom.args[memory] else { return Ok(()) };
        let (rows, values) = (&tiles[memory], &tiles[operand]);
        let fragment = self.fragment(w, atom, operand, values.values)?;
        let elem = atom.row.operands[memory].elem.bytes() as usize;
        // If several lanes name an element, the first one is read.
        let mut owner = vec![None; rows.len()];
        let mut lanes = 0;
        for lane in 0..rows.threads {
            for value in 0..rows.values {
                let index = rows.at(lane, value) as usize;
                if owner[index].is_none() {
                    owner[index] = Some((lane, value * elem));
                    lanes |= 1u32 << lane;
                }
            }
        }
        let access = &ctx.code.accesses[location.access as usize];
        let bytes = access.bytes();
        let reach = self.reach(w, location, lanes, access.count, bytes)?;
        self.count_access(access, &reach, lanes, Transfer::Matrix, bytes);
        let loads = atom.row.operands[operand].writes;
        let registers = fragment.registers(values.values);
        if loads {
            self.writable(w, fragment.slot, fragment.elem, registers)?;
        } else {
            for n in 0..registers {
                self.need(w, fragment.slot + n, fragment.elem)?;
            }
        }
        let mut line = vec![0u8; rows.len() * elem];
        if !loads {
            for lane in 0..LANES {
                for value in 0..values.values {
                    let index = values.at(lane, value) as usize;
                    let bits = fragment.get(w, value, lane).to_le_bytes();
                    line[index * elem..(index + 1) * elem].copy_from_slice(&bits[..elem]);
                }
            }
        }
        for lane in lanes_of(lanes) {
            let me = self.stamp(w, lane, location.access);
            let by = By::Lane { seen: &w.seen, lane };
            let (block, start) = (reach.block[lane as usize] as usize, reach.bytes[lane as usize] as usize);
            let shared = &mut self.blocks[block].shared;
            let outcome = match loads {
                true => shared.read(&ctx.world.components, start, bytes as usize, &by, me),
                false => shared.write(&ctx.world.components, start, bytes as usize, Touch::Write, &by, me),
            };
            for value in 0..rows.values {
                let index = rows.at(lane as usize, value) as usize;
                let (at, byte) = (index * elem, start + value * elem);
                match loads {
                    true => line[at..at + elem].copy_from_slice(&shared.bytes[byte..byte + elem]),
                    false => shared.bytes[byte..byte + elem].copy_from_slice(&line[at..at + elem]),
                }
            }
            if let Err(trouble) = outcome {
                return Err(self.trouble(trouble, me, !loads, block, &by));
            }
        }
        if loads {
            for lane in 0..LANES {
                for value in 0..values.values {
                    let index = values.at(lane, value) as usize;
                    let mut bits = [0u8; 8];
                    bits[..elem].copy_from_slice(&line[index * elem..(index + 1) * elem]);
                    fragment.set(w, value, lane, u64::from_le_bytes(bits));
                }
            }
        }
        Ok(())
    }

    /// movmatrix: the elements of one fragment become the elements of another.
    fn exchange(&mut self, w: &mut Warp, atom: &AtomCode) -> Result<()> {
        let tiles = &self.ctx.tables[atom.row.name];
        let operands: Vec<bool> = atom.row.operands.iter().map(|operand| operand.writes).collect();
        let (to, from) = match operands[..] {
            [true, false] => (0, 1),
            [false, true] => (1, 0),
            _ => {
                return self.malformed(w, format!("`{}` needs memory and registers", atom.row.name));
            }
        };
        let source = self.fragment(w, atom, from, tiles[from].values)?;
        let target = self.fragment(w, atom, to, tiles[to].values)?;
        for n in 0..source.registers(tiles[from].values) {
            self.need(w, source.slot + n, source.elem)?;
        }
        self.writable(w, target.slot, target.elem, target.registers(tiles[to].values))?;
        let mut line = vec![0; tiles[from].len()];
        for lane in 0..LANES {
            for value in 0..tiles[from].values {
                line[tiles[from].at(lane, value) as usize] = source.get(w, value, lane);
            }
        }
        for lane in 0..LANES {
            for value in 0..tiles[to].values {
                target.set(w, value, lane, line[tiles[to].at(lane, value) as usize]);
            }
        }
        Ok(())
    }

    /// Elements of one fragment, or 4-bit numbers in them, are converted to the type of another fragment and stored there.
    fn convert(&mut self, w: &mut Warp, atom: &AtomCode, lanes: u32, pairs: Option<Int4>) -> Result<()> {
        let [results, values] = [0, 1].map(|operand| self.ctx.tables[atom.row.name][operand].values);
        let [to, from] = [self.fragment(w, atom, 0, results)?, self.fragment(w, atom, 1, values)?];
        for n in 0..from.registers(values) {
            self.need(w, from.slot + n, from.elem)?;
        }
        self.writable(w, to.slot, to.elem, to.registers(results))?;
        let each = results / values;
        for lane in lanes_of(lanes) {
            for result in 0..results {
                let code = from.get(w, result / each, lane as usize);
                let bits = match pairs {
                    None => self.ctx.world.arithmetic.cast(code, from.of, to.of),
                    Some(of) => {
                        let number = of.value(code as u8, result % each).cast_unsigned();
                        self.ctx.world.arithmetic.cast(number.into(), Elem::I8, to.of)
                    }
                };
                to.set(w, result, lane as usize, bits);
            }
        }
        Ok(())
    }

    /// The bytes of a fragment from a number of bytes on.
    fn funnel_shift(&mut self, w: &mut Warp, atom: &AtomCode, lanes: u32) -> Result<()> {
        let [results, values] = [0, 1].map(|operand| self.ctx.tables[atom.row.name][operand].values);
        let [to, from] = [self.fragment(w, atom, 0, results)?, self.fragment(w, atom, 1, values)?];
        let Operand::Int(first) = atom.args[2] else { return Ok(()) };
        let first = w.ints(first);
        for n in 0..from.registers(values) {
            self.need(w, from.slot + n, from.elem)?;
        }
        self.writable(w, to.slot, to.elem, to.registers(results))?;
        for lane in lanes_of(lanes) {
            let lane = lane as usize;
            if !(0..results as i64).contains(&first[lane]) {
                return self.malformed(w, format!("`{}` shifts by {} bytes", atom.row.name, first[lane]));
            }
            for byte in 0..results {
                to.set(w, byte, lane, from.get(w, first[lane] as usize + byte, lane));
            }
        }
        Ok(())
    }

    /// Combines two fragments element by element: a multiply-add if there is a third one, else a difference or a product.
    fn compute_pairs(&mut self, w: &mut Warp, atom: &AtomCode, lanes: u32) -> Result<()> {
        let values = self.ctx.tables[atom.row.name][0].values;
        let all = (0..atom.row.operands.len()).map(|at| self.fragment(w, atom, at, values));
        let all = all.collect::<Result<Vec<_>>>()?;
        let [to, a, b, c @ ..] = &all[..] else {
            return self.malformed(w, format!("`{}` has two sources", atom.row.name));
        };
        for from in &all[1..] {
            for n in 0..from.registers(values) {
                self.need(w, from.slot + n, from.elem)?;
            }
        }
        self.writable(w, to.slot, to.elem, to.registers(values))?;
        for lane in lanes_of(lanes) {
            let lane = lane as usize;
            for value in 0..values {
                let (x, y) = (a.get(w, value, lane), b.get(w, value, lane));
                let bits = match c.first() {
                    Some(c) => self.ctx.world.arithmetic.fma(x, y, c.get(w, value, lane), to.of),
                    None if atom.row.effect == Effect::Subtract => {
                        self.ctx.world.arithmetic.bin(Bin::Sub, x, y, to.of)
                    }
                    None => self.ctx.world.arithmetic.bin(Bin::Mul, x, y, to.of),
                };
                to.set(w, value, lane, bits);
            }
        }
        Ok(())
    }

    /// cp.async by the active lanes.
    fn begin_copies(&mut self, w: &mut Warp, atom: &AtomCode, lanes: u32) -> Result<()> {
        let mut locations: [Option<Location>; 2] = [None; 2];
        let mut read = None;
        for (operand, arg) in atom.row.operands.iter().zip(&atom.args) {
            match arg {
                Operand::At(location) => locations[usize::from(operand.writes)] = Some(*location),
                Operand::Int(src) => read = Some(w.ints(*src)),
                _ => {}
            }
        }
        let [Some(from), Some(to)] = locations else {
            return self.malformed(w, format!("`{}` copies from memory to memory", atom.row.name));
        };
        let ctx = self.ctx;
        let (source, target) =
            (&ctx.code.accesses[from.access as usize], &ctx.code.accesses[to.access as usize]);
        let bytes = target.bytes();
        let reached = self.reach(w, to, lanes, target.count, bytes)?;
        let mut reading = 0;
        let mut wanted = [bytes as i64; LANES];
        if let Some(read) = read {
            wanted = read;
        }
        for lane in lanes_of(lanes) {
            let n = wanted[lane as usize];
            if n < 0 || n > i64::from(bytes) || n % i64::from(source.elem) != 0 {
                return self.malformed(w, format!("`{}` is to read {n} of {bytes} bytes", atom.row.name));
            }
            if n > 0 {
                reading |= 1 << lane;
            }
        }
        // All lanes copy the same number of bytes, or each has its own size.
        let mut starts = [0usize; LANES];
        for lane in lanes_of(reading) {
            let count = wanted[lane as usize] as u32 / source.elem;
            let alike = lanes_of(reading)
                .filter(|&other| wanted[other as usize] == wanted[lane as usize])
                .fold(0, |all, lane| all | 1u32 << lane);
            if alike.trailing_zeros() != lane {
                continue;
            }
            let reach = self.reach(w, from, alike, count, bytes)?;
            for lane in lanes_of(alike) {
                starts[lane as usize] = reach.index[lane as usize] as usize;
            }
            self.count_access(source, &reach, alike, Transfer::Load, bytes);
        }
        self.count_access(target, &reached, lanes, Transfer::Store, bytes);
        let copies: Vec<Copied> = lanes_of(lanes)
            .map(|lane| Copied {
                lane,
                block: reached.block[lane as usize] as usize,
                to: reached.bytes[lane as usize] as usize,
                from: starts[lane as usize],
                read: wanted[lane as usize] as usize,
                bytes: bytes as usize,
            })
            .collect();
        for copy in &copies {
            self.blocks[copy.block].shared.begin(copy.to, copy.bytes);
        }
        let agent = Agent {
            work: Work::Copies(copies),
            seen: w.seen.clone(),
            first: w.first,
            asynchronous: false,
            number: w.copies.count + 1,
            from: from.access,
            to: to.access,
        };
        w.seen.epoch += 1;
        let id = self.begin(agent);
        w.copies.open.push((lanes, id));
        Ok(())
    }

    /// st.async by the active lanes.
    fn begin_sends(&mut self, w: &mut Warp, atom: &AtomCode, lanes: u32) -> Result<()> {
        let named = |name: OperandName| {
            atom.row.operands.iter().position(|operand| operand.name == name).map(|at| atom.args[at].clone())
        };
        let (Some(Operand::At(location)), Some(Operand::Barrier { bar, slot }), Some(Operand::Int(rank))) =
            (named(OperandName::D), named(OperandName::B), named(OperandName::Rank))
        else {
            return self.malformed(w, format!("`{}` needs memory, an mbarrier and a rank", atom.row.name));
        };
        let Some(source) = atom.row.operands.iter().position(|operand| operand.name == OperandName::A) else {
            return self.malformed(w, format!("`{}` needs a value", atom.row.name));
        };
        let values = self.ctx.tables[atom.row.name][source].values;
        let from = self.fragment(w, atom, source, values)?;
        for n in 0..from.registers(values) {
            self.need(w, from.slot + n, from.elem)?;
        }
        let ctx = self.ctx;
        let access = &ctx.code.accesses[location.access as usize];
        let bytes = access.bytes();
        let location = Location { peer: Some(rank), ..location };
        let reach = self.reach(w, location, lanes, access.count, bytes)?;
        self.count_access(access, &reach, lanes, Transfer::Store, bytes);
        let outer = std::mem::replace(&mut w.mask, lanes);
        let slots = self.slots(w, bar, slot, Some(rank));
        w.mask = outer;
        let slots = slots?;
        let size = from.of.bytes() as usize;
        for lane in lanes_of(lanes) {
            let (block, bar) = slots[lane as usize];
            self.usable(w, lane, block, bar, true)?;
            let mut data = [0; 8];
            for value in 0..values {
                let bits = from.get(w, value, lane as usize).to_le_bytes();
                data[value * size..(value + 1) * size].copy_from_slice(&bits[..size]);
            }
            let (to, bytes) = (reach.bytes[lane as usize] as usize, bytes as usize);
            self.blocks[block].shared.begin(to, bytes);
            self.begin(Agent {
                work: Work::Send(Sent { lane, target: self.target(block, bar), to, data, bytes }),
                seen: w.seen.clone(),
                first: w.first,
                asynchronous: false,
                number: 0,
                from: location.access,
                to: location.access,
            });
        }
        w.seen.epoch += 1;
        Ok(())
    }

    /// An mbarrier in its current phase.
    fn target(&self, block: usize, bar: usize) -> Target {
        Target { block, bar, phase: self.blocks[block].mbarriers[bar].completed }
    }

    /// A bulk copy by one lane.
    fn begin_bulk(&mut self, w: &mut Warp, atom: &AtomCode, lane: u32) -> Result<()> {
        let outer = std::mem::replace(&mut w.mask, 1 << lane);
        let outcome = self.bulk(w, atom, lane);
        w.mask = outer;
        outcome
    }

    fn bulk(&mut self, w: &mut Warp, atom: &AtomCode, lane: u32) -> Result<()> {
        let row: &Atom = atom.row;
        let at = |kind: OperandKind| row.operands.iter().position(|operand| operand.kind == kind);
        let map =
            row.operands.iter().position(|operand| matches!(operand.kind, OperandKind::TensorMap { .. }));
        let named = |name: OperandName| row.operands.iter().position(|operand| operand.name == name);
        let int = |w: &Warp, at: usize| match atom.args[at] {
            Operand::Int(src) => w.scalar(src),
            _ => 0,
        };
        let Some(Operand::At(shared)) = at(OperandKind::SharedAddress).map(|at| atom.args[at].clone()) else {
            return self.malformed(w, format!("`{}` needs an address in shared memory", row.name));
        };
        let ctx = self.ctx;
        let (pieces, global) = match (map, at(OperandKind::GlobalAddress)) {
            (Some(map), _) => {
                let Operand::Map { param, access, at } = &atom.args[map] else { return Ok(()) };
                self.after_previous(w, *access, 1 << lane)?;
                let start = self.reach(w, shared, 1 << lane, 0, BOX_ALIGN)?.bytes[lane as usize];
                (self.pieces_of_box(w, *param, at, start as usize)?, *access)
            }
            (None, Some(plain)) => {
                let Operand::At(location) = atom.args[plain] else { return Ok(()) };
                let bytes = named(OperandName::Bytes).map_or(0, |at| int(w, at));
                (self.pieces_in_a_row(w, shared, location, lane, bytes)?, location.access)
            }
            _ => return self.malformed(w, format!("`{}` needs global memory", row.name)),
        };
        let Space::Global(buffer) = ctx.code.accesses[global as usize].space else { return Ok(()) };
        let size = ctx.world.buffers[buffer as usize].elem.bytes() as usize;
        let bytes: usize = pieces.iter().map(|piece| piece.count as usize * size).sum();
        self.in_array(w, shared, lane, &pieces, size)?;
        if ctx.count {
            for access in [global, shared.access] {
                self.counts.bulk(ctx.code.accesses[access as usize].counter, bytes as u64);
            }
        }
        let seen = w.seen.clone();
        let agent = |work, number, from, to| Agent {
            work,
            seen,
            first: w.first,
            asynchronous: true,
            number,
            from,
            to,
        };
        match at(OperandKind::Barrier) {
            Some(barrier) => {
                let Operand::Barrier { bar, slot } = atom.args[barrier] else { return Ok(()) };
                let rank = w.block % ctx.cluster() as usize;
                let mask = named(OperandName::Mask).map_or(1 << rank, |at| int(w, at));
                let slot = self.slot(w, bar, slot)?;
                let mut targets = Vec::new();
                for rank in (0..64).filter(|rank| mask >> rank & 1 == 1) {
                    let Some(block) = self.peer(w, rank) else {
                        let name = ctx.name_of(self.space(shared.access));
                        return Err(self.no_peer(w, name, "copies into", lane, rank, self.site(w)));
                    };
                    self.usable(w, lane, block, slot, true)?;
                    targets.push(self.target(block, slot));
                }
                for target in &targets {
                    for piece in &pieces {
                        self.blocks[target.block].shared.begin(piece.shared, piece.count as usize * size);
                    }
                }
                let work = Work::Load { lane, targets, pieces, bytes: bytes as i64 };
                let agent = agent(work, 0, global, shared.access);
                self.begin(agent);
            }
            None => {
                self.whole_groups(w, global, lane, &pieces)?;
                let op = if let Effect::Reduce(op) = row.effect { Some(op) } else { None };
                let work = Work::Store { lane, block: w.block, pieces, op, read: None };
                let agent = agent(work, w.stores.count + 1, shared.access, global);
                let id = self.begin(agent);
                w.stores.open.push((1 << lane, id));
            }
        }
        Ok(())
    }

    /// The copy engine clips stores to whole groups of 16 bytes: if a row ends inside a group, it writes past the row.
    fn whole_groups(&self, w: &Warp, global: u32, lane: u32, pieces: &[Piece]) -> Result<()> {
        let partial = |piece: &&Piece| piece.inside.0 < piece.inside.1 && piece.inside.1 < piece.count;
        let Some(piece) = pieces.iter().find(partial) else { return Ok(()) };
        let Space::Global(buffer) = self.ctx.code.accesses[global as usize].space else { return Ok(()) };
        let name = &self.ctx.world.buffers[buffer as usize].name;
        let party = self.party(w, 1 << lane, "begins the copy", self.site(w));
        Err(self.ctx.fault(
            FaultKind::OutOfBounds,
            format!(
                "a bulk store writes groups of 16 bytes, {} elements of `{name}`, and a row ends after {} of one",
                piece.count, piece.inside.1
            ),
            vec![party],
            "bulk stores need rows of a multiple of 16 bytes; store this tile by threads",
        ))
    }

    /// Checks that the pieces are within their array.
    fn in_array(&self, w: &Warp, shared: Location, lane: u32, pieces: &[Piece], size: usize) -> Result<()> {
        let access = &self.ctx.code.accesses[shared.access as usize];
        let Space::Shared(id) = access.space else { return Ok(()) };
        let array = &self.ctx.kernel.shared[id as usize];
        let (first, end) = (array.offset as usize, (array.offset + array.bytes()) as usize);
        let outside = pieces
            .iter()
            .find(|piece| piece.shared < first || piece.shared + piece.count as usize * size > end);
        let Some(piece) = outside else { return Ok(()) };
        let party = self.party(w, 1 << lane, "begins the copy", self.site(w));
        Err(self.ctx.fault(
            FaultKind::OutOfBounds,
            format!(
                "a bulk copy reaches byte {} of `{}`, which has {}",
                piece.shared as i64 - first as i64 + (piece.count as usize * size) as i64 - 1,
                array.name,
                array.bytes()
            ),
            vec![party],
            "check the box against the array's layout",
        ))
    }

    /// A box of a tensor map: zeros out of bounds, swizzled by address.
    fn pieces_of_box(&self, w: &Warp, param: u32, at: &[Src], start: usize) -> Result<Vec<Piece>> {
        let Some(map) = &self.ctx.maps[param as usize] else {
            return self.malformed(w, format!("parameter {param} is no tensor map"));
        };
        let buffer = &self.ctx.world.buffers[map.arg];
        let size = buffer.elem.bytes() as usize;
        let row = map.tile[0] as usize * size;
        if at.len() != map.tile.len() {
            return self.malformed(
                w,
                format!(
                    "{} coordinates for a tensor map of `{}`, which has {} modes",
                    at.len(),
                    buffer.name,
                    map.tile.len()
                ),
            );
        }
        let wide = map.swizzle > 0 && row > map.swizzle as usize;
        let mut reach =
            map.tile.iter().zip(&map.steps).map(|(&tile, &step)| (tile.max(1) - 1) * step + tile.min(1));
        let steps = map.steps[0] != 1 || map.steps.iter().any(|&n| n == 0 || n > 8);
        if !row.is_multiple_of(PIECE) || wide || steps || reach.any(|n| n == 0 || n > 256) {
            return self.malformed(
                w,
                format!(
                    "the copy engine cannot copy a box of {:?} elements, {:?} apart, with a swizzle of {} bytes: its rows have {row} bytes",
                    map.tile, map.steps, map.swizzle
                ),
            );
        }
        let origin: Vec<i64> = at.iter().map(|&src| w.scalar(src)).collect();
        if origin[0] * size as i64 % PIECE as i64 != 0 {
            let party = self.party(w, w.mask, "begins the copy", self.site(w));
            return Err(self.ctx.fault(
                FaultKind::Misaligned,
                format!(
                    "a bulk copy begins at {} along the contiguous mode of `{}`, and at multiples of {} it can (16 bytes)",
                    origin[0],
                    buffer.name,
                    PIECE / size
                ),
                vec![party],
                "copy a tile that begins at a multiple of 16 bytes, or copy it by threads",
            ));
        }
        let rows: usize = map.tile[1..].iter().map(|&n| n as usize).product();
        let per = PIECE / size;
        let mut pieces = Vec::with_capacity(rows * row / PIECE);
        for n in 0..rows {
            let (mut rest, mut global, mut there) = (n, 0i64, true);
            for (mode, &coordinate) in origin.iter().enumerate().skip(1) {
                let coordinate =
                    coordinate + (rest % map.tile[mode] as usize) as i64 * i64::from(map.steps[mode]);
                rest /= map.tile[mode] as usize;
                there &= (0..map.extents[mode] as i64).contains(&coordinate);
                global += coordinate * (map.strides[mode - 1] as i64 / size as i64);
            }
            for piece in 0..row / PIECE {
                let first = origin[0] + (piece * per) as i64;
                let lo = (-first).clamp(0, per as i64);
                let hi = (map.extents[0] as i64 - first).clamp(lo, per as i64);
                let inside = if there { (lo as u16, hi as u16) } else { (0, 0) };
                let shared = swizzled(start + n * row + piece * PIECE, map.swizzle);
                pieces.push(Piece { shared, global: global + first, inside, count: per as u16 });
            }
        }
        Ok(pieces)
    }

    /// Consecutive bytes.
    fn pieces_in_a_row(
        &self,
        w: &Warp,
        shared: Location,
        global: Location,
        lane: u32,
        bytes: i64,
    ) -> Result<Vec<Piece>> {
        let elem = i64::from(self.ctx.code.accesses[global.access as usize].elem);
        if bytes <= 0 || bytes % PIECE as i64 != 0 {
            return self
                .malformed(w, format!("a bulk copy moves multiples of {PIECE} bytes, and here {bytes}"));
        }
        let to = self.reach(w, shared, 1 << lane, 0, PIECE as u32)?;
        let from = self.reach(w, global, 1 << lane, (bytes / elem) as u32, PIECE as u32)?;
        let per = PIECE as i64 / elem;
        Ok((0..bytes / PIECE as i64)
            .map(|n| Piece {
                shared: to.bytes[lane as usize] as usize + n as usize * PIECE,
                global: from.index[lane as usize] + n * per,
                inside: (0, per as u16),
                count: per as u16,
            })
            .collect())
    }
}

/// The swizzle of the copy engine and the tensor cores: 16-byte chunks within 128, 64 or 32 bytes are
/// permuted by the address bits above 128 bytes.
pub(crate) fn swizzled(address: usize, bytes: u32) -> usize {
    let mask = match bytes {
        128 => 7,
        64 => 3,
        32 => 1,
        _ => 0,
    };
    address ^ (address >> 7 & mask) << 4
}
