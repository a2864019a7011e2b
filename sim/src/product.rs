//! Matrix products: of a warp from its registers, at once; of a warpgroup from shared memory, in flight.
//!
//! Tensor cores align all terms of an instruction, including the accumulator, with the greatest term, and truncate each to
//! 2^-23 of it, or 2^-13 for 8-bit operands. The sum is truncated to f32. The simulator does the same, so sums of many
//! instructions drift toward zero as they do on the hardware. Since architectures keep different numbers of bits, results agree
//! to `(k + 1)` such units of the greatest term. Sums in f16 are exact and rounded once, which agrees to 2^-11. Integers wrap
//! and are exact. Double precision rounds once for each term, as the hardware does.

use tilewright_program::Elem;
use tilewright_program::atom::{Effect, OperandName};
use tilewright_program::thread::Space;

use crate::agent::Product;
use crate::arithmetic::Arithmetic;
use crate::atoms::swizzled;
use crate::clock::{Component, Knowledge};
use crate::code::{AtomCode, Location, Operand};
use crate::fault::{Fault, FaultKind};
use crate::fragment::Fragment;
use crate::machine::{Cluster, Result};
use crate::ring::Ring;
use crate::shadow::{By, Stamp};
use crate::table::Tile;
use crate::value;
use crate::warp::{LANES, Lock, Pin, Since, Warp};

/// Warps of a warpgroup.
const GROUP: usize = 4;

/// A matrix operand in shared memory: its first byte, and the strides of its core matrices.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    start: usize,
    leading: usize,
    stride: usize,
    mode: u8,
    transposed: bool,
    /// Its extents: along rows or columns of the product, and along K.
    extent: usize,
    k: usize,
    elem: Elem,
}

impl Matrix {
    /// Bytes of an element.
    fn size(&self) -> usize {
        self.elem.bytes() as usize
    }

    /// The byte of an element: `mn` along rows or columns of the product, `k` along K. In units of 16 bytes a
    /// matrix consists of blocks of eight rows: rows run along K, or along the other mode when transposed.
    fn address(&self, mn: usize, k: usize) -> usize {
        let unit = 16 / self.size();
        // 16-byte units in a row of the pattern, and bytes of the hardware's swizzle
        let (wide, swizzle) = match self.mode {
            1 => (8, 128),
            2 => (4, 64),
            3 => (2, 32),
            _ => (1, 0),
        };
        let offset = match (self.transposed, self.mode) {
            (false, 0) => mn % 8 * 16 + mn / 8 * self.stride + k / unit * self.leading,
            (false, _) => mn % 8 * wide * 16 + mn / 8 * self.stride + k / unit * 16,
            (true, 0) => k % 8 * 16 + k / 8 * self.leading + mn / unit * self.stride,
            (true, _) => {
                let units = mn / unit;
                units % wide * 16 + units / wide * self.leading + k % 8 * wide * 16 + k / 8 * self.stride
            }
        };
        let within = if self.transposed { mn % unit } else { k % unit };
        swizzled(self.start + offset + within * self.size(), swizzle)
    }
}

/// A matrix in registers, column-major.
enum Dense {
    Float(Vec<f64>),
    Int(Vec<i64>),
    Exact(Vec<u64>, Ring),
}

impl Dense {
    fn zero(len: usize, elem: Elem, arithmetic: Arithmetic) -> Dense {
        match arithmetic.ring_of(elem) {
            Some(ring) => Dense::Exact(vec![0; len], ring),
            None if elem.is_float() => Dense::Float(vec![0.0; len]),
            None => Dense::Int(vec![0; len]),
        }
    }

    fn set(&mut self, at: usize, bits: u64, elem: Elem) {
        match self {
            Dense::Float(all) => all[at] = value::number(bits, elem),
            Dense::Int(all) => all[at] = value::int(bits, elem),
            Dense::Exact(all, _) => all[at] = bits,
        }
    }

    /// The elements in consecutive bytes, in steps of this length.
    fn set_all(&mut self, first: usize, step: usize, bytes: &[u8], elem: Elem) {
        match (self, elem) {
            (Dense::Float(all), Elem::Bf16) => {
                for (pair, at) in bytes.chunks_exact(2).zip((first..).step_by(step)) {
                    all[at] = brain(u16::from_le_bytes([pair[0], pair[1]]).into());
                }
            }
            (dense, _) => {
                let size = elem.bytes() as usize;
                for (n, element) in bytes.chunks_exact(size).enumerate() {
                    dense.set(first + n * step, crate::global::raw(element, 0, elem), elem);
                }
            }
        }
    }

    fn bits(&self, at: usize, elem: Elem) -> u64 {
        match self {
            Dense::Float(all) => value::cast(all[at].to_bits(), Elem::F64, elem),
            Dense::Int(all) => value::from_int(all[at], elem),
            Dense::Exact(all, _) => all[at],
        }
    }
}

/// A bfloat16 as a number.
fn brain(bits: u32) -> f64 {
    f32::from_bits(bits << 16).into()
}

/// How sums of floating-point products are rounded.
#[derive(Clone, Copy, PartialEq)]
enum Rounding {
    /// After each term.
    EachTerm,
    /// Once.
    Once,
    /// Terms are truncated to this fraction of the power of two of the greatest, and the sum to f32.
    Truncated(f64),
}

impl Rounding {
    /// The rounding of an instruction, by the types of its operands and accumulators.
    fn of(operand: Elem, sums: Elem) -> Rounding {
        match (operand.bytes(), sums) {
            (_, Elem::F64) => Rounding::EachTerm,
            (1, Elem::F32) => Rounding::Truncated(2f64.powi(-13)),
            (_, Elem::F32) => Rounding::Truncated(2f64.powi(-23)),
            _ => Rounding::Once,
        }
    }
}

/// `d += a · b`: m×k, n×k, m×n.
fn multiply(d: &mut Dense, a: &Dense, b: &Dense, [m, n, k]: [usize; 3], rounding: Rounding) {
    match (d, a, b) {
        (Dense::Float(d), Dense::Float(a), Dense::Float(b)) => {
            let mut units = vec![Unit::default(); m];
            for column in 0..n {
                let sums = &mut d[column * m..(column + 1) * m];
                if let Rounding::Truncated(fraction) = rounding {
                    truncated(sums, a, |step| b[column + step * n], k, fraction, &mut units);
                    continue;
                }
                for step in 0..k {
                    let factor = b[column + step * n];
                    let terms = sums.iter_mut().zip(&a[step * m..(step + 1) * m]);
                    if rounding == Rounding::EachTerm {
                        terms.for_each(|(sum, x)| *sum = x.mul_add(factor, *sum));
                    } else {
                        // these products are exact
                        terms.for_each(|(sum, x)| *sum += x * factor);
                    }
                }
            }
        }
        (Dense::Int(d), Dense::Int(a), Dense::Int(b)) => {
            for column in 0..n {
                for step in 0..k {
                    let factor = b[column + step * n];
                    for row in 0..m {
                        d[column * m + row] += a[step * m + row] * factor;
                    }
                }
            }
        }
        (Dense::Exact(d, ring), Dense::Exact(a, _), Dense::Exact(b, _)) => {
            for column in 0..n {
                for step in 0..k {
                    let factor = b[column + step * n];
                    for row in 0..m {
                        let sum = &mut d[column * m + row];
                        *sum = ring.fma(a[step * m + row], factor, *sum);
                    }
                }
            }
        }
        _ => {}
    }
}

/// The last bit that a sum of aligned terms keeps.
#[derive(Clone, Copy, Default)]
struct Unit {
    /// Before the last bit is known: the greatest term.
    last: f64,
    /// Adding 1.5·2^52 last bits rounds to a multiple of the last bit.
    rounder: f64,
}

impl Unit {
    /// A term without the bits below the last.
    fn cut(self, x: f64) -> f64 {
        let near = (x + self.rounder) - self.rounder;
        if near.abs() > x.abs() { near - self.last.copysign(x) } else { near }
    }
}

/// One column of a product whose terms are aligned with the greatest and truncated. Products are exact in double
/// precision, and so are sums of the truncated terms.
fn truncated(
    sums: &mut [f64],
    a: &[f64],
    factor: impl Fn(usize) -> f64,
    k: usize,
    fraction: f64,
    units: &mut [Unit],
) {
    let m = sums.len();
    for (unit, sum) in units.iter_mut().zip(&*sums) {
        unit.last = sum.abs();
    }
    for step in 0..k {
        let factor = factor(step);
        for (unit, x) in units.iter_mut().zip(&a[step * m..]) {
            unit.last = unit.last.max((x * factor).abs());
        }
    }
    for (unit, sum) in units.iter_mut().zip(&mut *sums) {
        // With an infinite term no bits are cut off.
        let power = f64::from_bits(unit.last.to_bits() & 0x7ff0_0000_0000_0000);
        unit.last = if power.is_finite() { power * fraction } else { 0.0 };
        unit.rounder = unit.last * (1.5 * (1u64 << 52) as f64);
        *sum = unit.cut(*sum);
    }
    for step in 0..k {
        let factor = factor(step);
        for ((sum, x), unit) in sums.iter_mut().zip(&a[step * m..]).zip(&*units) {
            *sum += unit.cut(x * factor);
        }
    }
    sums.iter_mut().for_each(|sum| *sum = toward_zero(*sum));
}

/// The next f32 toward zero.
fn toward_zero(x: f64) -> f64 {
    let near = x as f32;
    // Infinity also stands for sums that overflow.
    match f64::from(near.abs()) > x.abs() && near.is_finite() {
        true => f32::from_bits(near.to_bits() - 1).into(),
        false => near.into(),
    }
}

/// The elements of a fragment's lanes. The first lane's thread is `first`.
fn gather(into: &mut Dense, w: &Warp, fragment: Fragment, tile: &Tile, first: usize) {
    if fragment.elem.bits() == 32 && fragment.of.bits() <= 32 {
        let of = fragment.of;
        return match into {
            Dense::Float(all) if of == Elem::F32 => {
                gather_words(all, w, fragment, tile, first, |bits| f32::from_bits(bits).into());
            }
            Dense::Float(all) if of == Elem::Bf16 => gather_words(all, w, fragment, tile, first, brain),
            Dense::Float(all) => {
                gather_words(all, w, fragment, tile, first, |bits| value::number(bits.into(), of));
            }
            Dense::Int(all) => {
                gather_words(all, w, fragment, tile, first, |bits| value::int(bits.into(), of))
            }
            Dense::Exact(all, _) => gather_words(all, w, fragment, tile, first, u64::from),
        };
    }
    for lane in 0..LANES {
        for value in 0..tile.values {
            into.set(tile.at(first + lane, value) as usize, fragment.get(w, value, lane), fragment.of);
        }
    }
}

/// The same for registers of 32 bits, each with one or several elements.
fn gather_words<T>(
    into: &mut [T],
    w: &Warp,
    fragment: Fragment,
    tile: &Tile,
    first: usize,
    number: impl Fn(u32) -> T,
) {
    let width = fragment.of.bits();
    let (per, mask) = (32 / width as usize, u32::MAX >> (32 - width));
    for value in 0..tile.values {
        let cell = &w.words[fragment.slot as usize + value / per];
        let shift = (value % per) as u32 * width;
        for (bits, &at) in cell.iter().zip(tile.of_warp(first, value)) {
            into[at as usize] = number(bits >> shift & mask);
        }
    }
}

fn scatter(from: &Dense, w: &mut Warp, fragment: Fragment, tile: &Tile, first: usize) {
    if let (Dense::Float(all), true) = (from, fragment.is_whole(Elem::F32)) {
        for value in 0..tile.values {
            let slot = fragment.slot as usize + value;
            for (bits, &at) in w.words[slot].iter_mut().zip(tile.of_warp(first, value)) {
                *bits = (all[at as usize] as f32).to_bits();
            }
            w.initialised_words[slot] = u32::MAX;
        }
        return;
    }
    for lane in 0..LANES {
        for value in 0..tile.values {
            let bits = from.bits(tile.at(first + lane, value) as usize, fragment.of);
            fragment.set(w, value, lane, bits);
        }
    }
}

/// The position of an operand by its name.
fn operand(atom: &AtomCode, name: OperandName) -> Option<usize> {
    atom.row.operands.iter().position(|operand| operand.name == name)
}

impl Cluster<'_> {
    /// A product of a warp's fragments.
    pub(crate) fn multiply(&mut self, w: &mut Warp, atom: &AtomCode, shape: [u32; 3]) -> Result<()> {
        let ctx = self.ctx;
        let tiles = &ctx.tables[atom.row.name];
        let mut result = Vec::new();
        for name in [OperandName::A, OperandName::B, OperandName::D] {
            let Some(at) = operand(atom, name) else {
                return self.malformed(w, format!("`{}` has no operand {name}", atom.row.name));
            };
            let fragment = self.fragment(w, atom, at, tiles[at].values)?;
            for n in 0..fragment.registers(tiles[at].values) {
                self.need(w, fragment.slot + n, fragment.elem)?;
            }
            result.push((fragment, &tiles[at]));
        }
        let [m, n, k] = shape.map(|n| n as usize);
        let of = |at: usize| result[at].0.of;
        let mut dense = [(m * k, of(0)), (n * k, of(1)), (m * n, of(2))]
            .map(|(len, elem)| Dense::zero(len, elem, ctx.world.arithmetic));
        for (dense, (fragment, tile)) in dense.iter_mut().zip(&result) {
            gather(dense, w, *fragment, tile, 0);
        }
        let [a, b, d] = &mut dense;
        multiply(d, a, b, [m, n, k], Rounding::of(of(0), of(2)));
        let (fragment, tile) = result[2];
        self.writable(w, fragment.slot, fragment.elem, fragment.registers(tile.values))?;
        scatter(d, w, fragment, tile, 0);
        Ok(())
    }

    /// One of the four warps issues a product.
    pub(crate) fn begin_product(&mut self, w: &mut Warp, at: u32) -> Result<()> {
        let ctx = self.ctx;
        let atom = &ctx.code.atoms[at as usize];
        let (tiles, site) = (&ctx.tables[atom.row.name], self.site(w));
        let mut operands = Vec::new();
        let mut locks = Vec::new();
        let number = w.products + 1;
        let scale = match operand(atom, OperandName::Accumulate).map(|at| &atom.args[at]) {
            Some(Operand::Int(src)) => w.scalar(*src) != 0,
            _ => true,
        };
        for (location, arg) in atom.args.iter().enumerate() {
            match arg {
                Operand::Frag { .. } => {
                    let fragment = self.fragment(w, atom, location, tiles[location].values)?;
                    let end = fragment.slot + fragment.registers(tiles[location].values);
                    let writes = atom.row.operands[location].writes;
                    // Products in flight that write the accumulator are complete before this one.
                    let after = |slot: u32| {
                        w.locks.iter().any(|lock| !lock.readable && (lock.from..lock.to).contains(&slot))
                    };
                    for slot in fragment.slot..end {
                        if !writes || (scale && !after(slot)) {
                            self.need_initialised(w, slot, fragment.elem)?;
                        }
                        let since = w.since[slot as usize];
                        let alike = |of: u32| ctx.code.atoms[of as usize].row.effect == atom.row.effect;
                        match since {
                            Since::Fenced => {}
                            Since::Unpinned if !writes => {}
                            Since::Product(of) if writes && alike(of) => {}
                            _ => return Err(self.unfenced_registers(w, slot, fragment.elem, since)),
                        }
                    }
                    if writes {
                        w.since[fragment.slot as usize..end as usize].fill(Since::Product(at));
                        w.pins[fragment.slot as usize..end as usize].fill(Pin::Changed);
                    }
                    locks.push(Lock {
                        from: fragment.slot,
                        to: end,
                        readable: !writes,
                        product: number,
                        site,
                    });
                }
                Operand::Descriptor { at, .. } => {
                    let reach = self.reach(w, *at, w.live, 0, 16)?;
                    if reach.bytes != [reach.bytes[0]; LANES] {
                        return self
                            .malformed(w, "lanes of a warp give different matrices to one product".into());
                    }
                    operands.push(reach.bytes[0]);
                    if ctx.count {
                        let bytes = atom.row.operands[location].elem.bytes_of(tiles[location].values);
                        let counter = ctx.code.accesses[at.access as usize].counter;
                        self.counts.bulk(counter, bytes as u64 / GROUP as u64);
                    }
                }
                Operand::Int(src) => operands.push(w.scalar(*src)),
                _ => {}
            }
        }
        w.products = number;
        w.locks.extend(locks);
        let group = w.number as usize / GROUP;
        let products = &mut self.blocks[w.block].groups[group];
        if !products.queue.iter().any(|product| product.number == number) {
            let new = Product {
                number,
                atom: at,
                site,
                begun: 0,
                carried: Default::default(),
                operands: operands.clone(),
            };
            products.queue.push_back(new);
        }
        let Some(product) = products.queue.iter_mut().find(|product| product.number == number) else {
            return Ok(());
        };
        if product.atom != at || product.operands != operands {
            let other = product.site;
            return Err(self.different_products(w, number, site, other));
        }
        let part = w.number as usize % GROUP;
        w.seen.release(w.first, w.live, &mut product.carried[part]);
        product.begun |= 1 << part;
        if product.begun == 0xf {
            self.tell_issued(w, number, group as u32);
        }
        Ok(())
    }

    /// The fault of a warp that issues another product than other warps of its warpgroup.
    fn different_products(&self, w: &Warp, number: u64, site: u32, other: u32) -> Box<Fault> {
        let parties = vec![
            self.party(w, w.live, format!("issue product {number} of their warpgroup"), site),
            self.party(w, 0, "issued a different one, in other warps of the group", other),
        ];
        self.ctx.fault(
            FaultKind::Divergence,
            "the warps of a warpgroup do not issue the same matrix product".into(),
            parties,
            "let all four warps issue the same products with the same matrices",
        )
    }

    fn need_initialised(&self, w: &Warp, slot: u32, elem: Elem) -> Result<()> {
        if w.initialised(slot, elem) & w.live == w.live {
            return Ok(());
        }
        let name = self.register(slot, elem);
        let party =
            self.party(w, w.live & !w.initialised(slot, elem), format!("supply {name} to it"), self.site(w));
        Err(self.ctx.fault(
            FaultKind::Unwritten,
            format!("a matrix product reads {name}, which has not been written"),
            vec![party],
            "set the accumulator to zero first",
        ))
    }

    fn unfenced_registers(&self, w: &Warp, slot: u32, elem: Elem, since: Since) -> Box<crate::fault::Fault> {
        let name = self.register(slot, elem);
        let product = "an asynchronous matrix product uses it without a fence in between";
        let message = match since {
            Since::Start => format!("no fence precedes the first matrix product, which uses {name}"),
            Since::Read => format!("{name} has been read, and {product}"),
            Since::Product(_) => {
                format!("a matrix product of another shape has added to {name}, and {product}")
            }
            Since::Unpinned => format!(
                "{name} is used ahead of the fence of a matrix product that writes it, and compilers may move that behind the fence"
            ),
            Since::Written | Since::Fenced => format!("{name} has been written, and {product}"),
        };
        let party = self.party(w, w.live, "issue the product", self.site(w));
        let help = match since {
            Since::Unpinned => "pin the registers of asynchronous products ahead of each fence",
            _ => "execute a fence for registers (wgmma.fence) before the product",
        };
        self.ctx.fault(FaultKind::MissingFence, message, vec![party], help)
    }

    /// Performs the next product of a warpgroup.
    pub(crate) fn land_product(&mut self, block: usize, group: usize) -> Result<()> {
        let Some(product) = self.blocks[block].groups[group].queue.pop_front() else { return Ok(()) };
        let ctx = self.ctx;
        let atom = &ctx.code.atoms[product.atom as usize];
        let Effect::Mma { m, n, k, .. } = atom.row.effect else { return Ok(()) };
        let shape = [m, n, k].map(|n| n as usize);
        let [m, n, k] = shape;
        let tiles = &ctx.tables[atom.row.name];
        let per_block = ctx.warps() as usize;
        let first = block * per_block + group * GROUP;
        let component = self.component(Component::Products(block as u32, (group * GROUP) as u32));
        let thread = (first * LANES) as u32;
        let epoch = product.number as u32;
        let knowledge = product.knowledge();
        let mut given = product.operands.iter().copied();
        let (mut starts, mut flags) = (Vec::new(), Vec::new());
        for arg in &atom.args {
            match arg {
                Operand::Descriptor { .. } => starts.push(given.next().unwrap_or_default() as usize),
                Operand::Int(_) => flags.push(given.next().unwrap_or_default() != 0),
                _ => {}
            }
        }
        let mut ints = flags.into_iter();
        let mut flag = |name: OperandName| if operand(atom, name).is_some() { ints.next() } else { None };
        // In the order of the operands: s, t, u.
        let (scale, a_turned, b_turned) = (
            flag(OperandName::Accumulate).unwrap_or(true),
            flag(OperandName::TransposeA).unwrap_or(false),
            flag(OperandName::TransposeB).unwrap_or(false),
        );
        let mut starts = starts.into_iter();
        let mut result = Vec::new();
        for (name, extent, turned) in [(OperandName::A, m, a_turned), (OperandName::B, n, b_turned)] {
            let at = operand(atom, name).unwrap_or_default();
            let elem = atom.row.operands[at].elem;
            let mut dense = Dense::zero(extent * k, elem, ctx.world.arithmetic);
            match &atom.args[at] {
                Operand::Frag { slot, elem: stored, .. } => {
                    let fragment = Fragment { slot: *slot, elem: *stored, of: elem };
                    for part in 0..GROUP {
                        if let Some(w) = &self.warps[first + part] {
                            gather(&mut dense, w, fragment, &tiles[at], part * LANES);
                        }
                    }
                }
                Operand::Descriptor { at: location, leading, stride, mode } => {
                    let matrix = Matrix {
                        start: starts.next().unwrap_or_default(),
                        leading: *leading as usize,
                        stride: *stride as usize,
                        mode: *mode,
                        transposed: turned,
                        extent,
                        k,
                        elem,
                    };
                    let stamp = Stamp { component, epoch, access: location.access, thread };
                    self.read_matrix(&mut dense, &matrix, *location, block, &knowledge, stamp)?;
                }
                _ => {}
            }
            result.push(dense);
        }
        let at = operand(atom, OperandName::D).unwrap_or_default();
        let Operand::Frag { slot, elem, .. } = atom.args[at] else { return Ok(()) };
        let fragment = Fragment { slot, elem, of: atom.row.operands[at].elem };
        let mut d = Dense::zero(m * n, fragment.of, ctx.world.arithmetic);
        if scale {
            for part in 0..GROUP {
                if let Some(w) = &self.warps[first + part] {
                    gather(&mut d, w, fragment, &tiles[at], part * LANES);
                }
            }
        }
        let operand = atom.row.operand(OperandName::A).map_or(fragment.of, |a| a.elem);
        multiply(&mut d, &result[0], &result[1], shape, Rounding::of(operand, fragment.of));
        for part in 0..GROUP {
            if let Some(w) = &mut self.warps[first + part] {
                scatter(&d, w, fragment, &tiles[at], part * LANES);
            }
        }
        self.blocks[block].groups[group].completed = product.number;
        self.tell_finished(block, product.number, group as u32);
        Ok(())
    }

    fn read_matrix(
        &mut self,
        dense: &mut Dense,
        matrix: &Matrix,
        location: Location,
        block: usize,
        knowledge: &[Knowledge; GROUP],
        stamp: Stamp,
    ) -> Result<()> {
        let ctx = self.ctx;
        let Space::Shared(id) = ctx.code.accesses[location.access as usize].space else { return Ok(()) };
        let array = &ctx.kernel.shared[id as usize];
        let (first, end) = (array.offset as usize, (array.offset + array.bytes()) as usize);
        // Sixteen bytes are contiguous: along K, or along the other mode.
        let unit = 16 / matrix.size();
        let (mn_step, k_step) = if matrix.transposed { (unit, 1) } else { (1, unit) };
        for mn in (0..matrix.extent).step_by(mn_step) {
            for k in (0..matrix.k).step_by(k_step) {
                let at = matrix.address(mn, k);
                if at < first || at + 16 > end {
                    return Err(self.matrix_outside(stamp, at as i64 - first as i64, block));
                }
                let shared = &mut self.blocks[block].shared;
                let by = By::Warpgroup(knowledge);
                if let Err(trouble) = shared.read(&ctx.world.components, at, 16, &by, stamp) {
                    return Err(self.trouble(trouble, stamp, false, block, &by));
                }
                let step = if matrix.transposed { 1 } else { matrix.extent };
                dense.set_all(mn + k * matrix.extent, step, &shared.bytes[at..at + 16], matrix.elem);
            }
        }
        Ok(())
    }

    fn matrix_outside(&self, stamp: Stamp, byte: i64, block: usize) -> Box<crate::fault::Fault> {
        let access = &self.ctx.code.accesses[stamp.access as usize];
        let name = self.ctx.name_of(access.space);
        let party = crate::fault::Party {
            block: self.blocks[block].at,
            threads: vec![stamp.thread % (self.ctx.warps() * LANES as u32)],
            doing: "issued the product".into(),
            line: self.ctx.line(access.site),
        };
        self.ctx.fault(
            FaultKind::OutOfBounds,
            format!("a matrix product reads byte {byte} of `{name}`, which is out of bounds"),
            vec![party],
            "check the descriptor's offsets against the array's layout",
        )
    }
}

#[cfg(test)]
mod tests;
