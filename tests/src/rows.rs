//! Rows of the instruction table, tested in isolation: a kernel that executes one matrix instruction on
//! operands from memory, its inputs, and the expected results in double precision.

use tilewright_codegen::atom::{Atom, Effect, OperandKind, OperandName};
use tilewright_codegen::index::Ix;
use tilewright_codegen::thread::*;
use tilewright_codegen::{Elem, fp8, isa, narrow};
use tilewright_layout::{Composed, Layout, Swizzle, Value};

use crate::hand::Hand;
use crate::number::Random;

/// Bytes of one access.
const UNIT: u32 = 16;

/// The numbers in the operands of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Of medium size; any integers.
    Ordinary,
    /// Including infinities, NaNs, the largest numbers and signed zeros.
    Special,
    /// `a` has subnormal numbers only.
    Subnormal,
    /// Of very different magnitudes.
    Wide,
}

impl Numbers {
    /// All kinds.
    pub const ALL: [Numbers; 4] = [Numbers::Ordinary, Numbers::Special, Numbers::Subnormal, Numbers::Wide];
}

/// An expected element.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The sum in double precision.
    pub sum: f64,
    /// The largest magnitude of its terms.
    pub greatest: f64,
}

impl Wanted {
    /// The error of a result relative to its largest term; `None` if it is wrong.
    pub fn off(self, got: f64, elem: Elem) -> Option<f64> {
        let (most, step) = match elem {
            Elem::F16 => (65504.0, 2f64.powi(-24)),
            Elem::F32 => (f64::from(f32::MAX), 2f64.powi(-149)),
            _ => (f64::MAX, 0.0),
        };
        if self.sum.is_nan() {
            return got.is_nan().then_some(0.0);
        }
        if self.sum.is_infinite() {
            return (got == self.sum).then_some(0.0);
        }
        if self.sum.abs() > most || self.greatest > most {
            // A partial sum overflows in one order of terms and not in another.
            return Some(0.0);
        }
        let far = ((got - self.sum).abs() - step).max(0.0);
        got.is_finite().then_some(if far > 0.0 { far / self.greatest } else { 0.0 })
    }
}

/// The layout of an operand in memory.
enum InMemory {
    /// In the order thread, value: the index in the matrix of each.
    Fragments(Vec<usize>),
    /// As an image of shared memory: the byte offset of each matrix element, and the size in bytes.
    Image(Vec<usize>, usize),
}

/// A kernel that executes one row of the table. Its arguments are `d`, which is read and written, `a` and
/// `b`.
pub struct Trial {
    /// The row.
    pub row: &'static Atom,
    /// The kernel.
    pub kernel: Kernel,
    /// Is the product added to `d`?
    pub adds: bool,
    shape: [usize; 3],
    places: [InMemory; 3],
}

/// All matrix instructions of warps and warpgroups.
pub fn all() -> impl Iterator<Item = Trial> {
    isa::all().filter(|row| !row.is_scalar()).filter_map(Trial::of)
}

/// All of them, but of wgmma only some shapes, which cover every layout of the matrices in shared memory.
pub fn sample() -> impl Iterator<Item = Trial> {
    let chosen = |name: &str| {
        let is = |n: i64| name.starts_with(&format!("wgmma_m64n{n}k"));
        !name.starts_with("wgmma") || [8, 24, 32, 48, 56, 64, 104].into_iter().any(is)
    };
    all().filter(move |trial| chosen(trial.row.name))
}

/// The type in memory for elements of a type.
pub fn stored(elem: Elem) -> Elem {
    match elem {
        Elem::Tf32 => Elem::F32,
        Elem::E4m3 | Elem::E5m2 => Elem::U8,
        elem => elem,
    }
}

/// An element's value as the instruction reads it.
pub fn value(bits: u64, elem: Elem) -> f64 {
    match elem {
        Elem::F64 => f64::from_bits(bits),
        Elem::F32 => f64::from(f32::from_bits(bits as u32)),
        // The upper 19 bits.
        Elem::Tf32 => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
        Elem::F16 => f64::from(narrow::f16_value(bits as u16)),
        Elem::Bf16 => f64::from(narrow::bf16_value(bits as u16)),
        Elem::E4m3 | Elem::E5m2 => f64::from(fp8::value(bits as u8, elem)),
        Elem::I32 => f64::from(bits as u32 as i32),
        Elem::I8 => f64::from(bits as u8 as i8),
        _ => bits as f64,
    }
}

/// A matrix in shared memory, for a matrix descriptor.
struct Matrix {
    mode: u8,
    leading: u32,
    stride: u32,
    layout: Composed,
    bytes: usize,
}

/// The number of fraction bits and of exponent bits.
fn format(elem: Elem) -> (u32, u32) {
    match elem {
        Elem::F64 => (52, 11),
        Elem::F16 => (10, 5),
        Elem::Bf16 => (7, 8),
        Elem::E4m3 => (3, 4),
        Elem::E5m2 => (2, 5),
        _ => (23, 8),
    }
}

fn draw(kind: Numbers, elem: Elem, sums: bool, random: &mut Random) -> u64 {
    let word = u64::from(random.word());
    if !elem.is_float() {
        let (bits, small) = (word & (u64::MAX >> (64 - 8 * elem.bytes())), word as u32 as i32 >> 12);
        return if elem == Elem::I32 && kind != Numbers::Wide { u64::from(small as u32) } else { bits };
    }
    let (fraction, exponent) = format(elem);
    let sign = (word & 1) << (fraction + exponent);
    let low = u64::from(random.word()) << 32 | u64::from(random.word());
    let low = low & ((1 << fraction) - 1);
    let top = (1u64 << exponent) - 1;
    if kind == Numbers::Subnormal && !sums {
        return sign | low.max(1);
    }
    if kind == Numbers::Special && word >> 8 & 0x7f == 0 {
        let special = [
            top << fraction,
            top << fraction | low.max(1),
            (top << fraction) - 1,
            0,
            1,
            (1 << fraction) - 1,
            1 << fraction,
        ];
        return sign | special[(word >> 16) as usize % special.len()];
    }
    // Exponents around the exponent of 1.
    let (one, spread) = (top >> 1, if kind == Numbers::Wide { top.min(41) / 2 } else { 4 });
    let spread = if sums { spread / 2 + 1 } else { spread };
    sign | (one - spread / 2 + (word >> 8) % spread) << fraction | low
}

impl Trial {
    /// The kernel of a matrix instruction. wgmma rows alternate over the layouts of matrices in shared
    /// memory.
    pub fn of(row: &'static Atom) -> Option<Trial> {
        let Effect::Mma { m, n, k, .. } = row.effect else { return None };
        let asynchronous = row.family.issued_by == Scope::Warpgroup;
        let threads = if asynchronous { 128 } else { 32 };
        let mut hand = Hand::new(&format!("try_{}", row.name), row.arch, threads);
        hand.k.arch_specific = row.arch_specific;
        hand.k.launch.grid = [vec![Value::Int(1)], vec![], vec![]];
        let (mode, across) = ([1, 2, 3, 0][(n / 8 % 4) as usize], n / 32 % 2 == 1);
        let adds = !asynchronous || n % 32 != 16;
        let shape = [m, n, k].map(|n| n as usize);
        let (mut args, mut places) = (Vec::new(), Vec::new());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for operand in row.operands {
            let extents = match operand.name {
                OperandName::A => [m, k],
                OperandName::B => [n, k],
                _ => [m, n],
            };
            let one = hand.int(1);
            match operand.kind {
                OperandKind::Frag { words } => {
                    let (arg, data) =
                        fragments(&mut hand, row, operand.name, words, [&mut before, &mut after]);
                    args.push(arg);
                    places.push(data);
                }
                OperandKind::Descriptor => {
                    let across = across && row.operand(OperandName::TransposeB).is_some();
                    let matrix = Matrix::of(extents, operand.elem.bytes(), mode, across);
                    let (arg, data) =
                        image(&mut hand, operand.name, operand.elem, extents, &matrix, &mut before);
                    args.push(arg);
                    places.push(data);
                }
                OperandKind::Int => args.push(AtomArg::Int(if adds { one } else { hand.int(0) })),
                _ => args.push(AtomArg::Int(hand.int(i64::from(across)))),
            }
        }
        let written = row.operands.iter().zip(&args).filter(|(operand, _)| operand.writes);
        let frags =
            written.filter_map(|(_, arg)| if let AtomArg::Frag(frag) = arg { Some(frag.reg) } else { None });
        let accumulators: Vec<_> = frags.collect();
        let mut body = before;
        let mut say = |op| body.push(Stmt { site: 0, op });
        if asynchronous {
            say(Op::Fence(Fence::ProxyAsync));
            say(Op::sync(0));
            accumulators.iter().for_each(|&reg| say(Op::Pin(reg)));
            say(Op::Fence(Fence::Products));
        }
        say(Op::Atom { row, args, guard: None });
        if asynchronous {
            say(Op::Commit(Queue::Products));
            say(Op::WaitQueue { queue: Queue::Products, pending: 0 });
            accumulators.iter().for_each(|&reg| say(Op::Pin(reg)));
        }
        body.extend(after);
        let kernel = hand.done(body);
        Some(Trial { row, kernel, adds, shape, places: places.try_into().ok()? })
    }

    /// Types of `d`, `a` and `b`.
    pub fn elems(&self) -> [Elem; 3] {
        [OperandName::D, OperandName::A, OperandName::B]
            .map(|name| self.row.operand(name).map_or(Elem::U8, |operand| operand.elem))
    }

    /// Random matrices, column-major: m×n, m×k, n×k.
    pub fn draw(&self, kind: Numbers, seed: u64) -> [Vec<u64>; 3] {
        let ([m, n, k], elems) = (self.shape, self.elems());
        let mut random = Random::new(seed);
        let mut at = 0;
        [m * n, m * k, n * k].map(|len| {
            let (elem, kind) =
                (elems[at], if at == 2 && kind == Numbers::Subnormal { Numbers::Ordinary } else { kind });
            let sums = at == 0;
            at += 1;
            (0..len).map(|_| draw(kind, elem, sums, &mut random)).collect()
        })
    }

    /// The contents of the arguments, in bytes.
    pub fn given(&self, matrices: &[Vec<u64>; 3]) -> [Vec<u8>; 3] {
        let elems = self.elems();
        std::array::from_fn(|at| {
            let (size, bits) = (elems[at].bytes() as usize, &matrices[at]);
            let write = |bytes: &mut [u8], byte: usize, bits: u64| {
                bytes[byte..byte + size].copy_from_slice(&bits.to_le_bytes()[..size]);
            };
            match &self.places[at] {
                InMemory::Fragments(index) => {
                    let mut bytes = vec![0; index.len() * size];
                    index.iter().enumerate().for_each(|(data, &at)| write(&mut bytes, data * size, bits[at]));
                    bytes
                }
                InMemory::Image(index, len) => {
                    let mut bytes = vec![0; *len];
                    index.iter().zip(bits).for_each(|(&byte, &bits)| write(&mut bytes, byte, bits));
                    bytes
                }
            }
        })
    }

    /// The expected elements, in the order of the argument `d`.
    pub fn wanted(&self, matrices: &[Vec<u64>; 3]) -> Vec<Wanted> {
        let ([m, n, k], elems) = (self.shape, self.elems());
        let number = |of: usize, at: usize| value(matrices[of][at], elems[of]);
        let InMemory::Fragments(index) = &self.places[0] else { return Vec::new() };
        let one = |&at: &usize| {
            let (row, column) = (at % m, at / m);
            let start = if self.adds { number(0, at) } else { 0.0 };
            let mut wanted = Wanted { sum: start, greatest: start.abs() };
            for (x, y) in (0..k).map(|k| (number(1, row + k * m), number(2, column + k * n))) {
                // Rounds once per term for doubles; narrower products are exact.
                wanted.sum = x.mul_add(y, wanted.sum);
                wanted.greatest = wanted.greatest.max((x * y).abs());
            }
            if !elems[0].is_float() {
                wanted.sum = f64::from(wanted.sum as i64 as i32);
            }
            wanted
        };
        index.iter().map(one).collect()
    }

    /// The error bound of a tensor core's sum, relative to its largest term. The hardware aligns all terms
    /// with the largest and truncates them below the last bit that it keeps.
    pub fn within(&self) -> f64 {
        let [d, a, _] = self.elems();
        let terms = self.shape[2] as f64 + 1.0;
        match (d, a) {
            (Elem::F64, _) => terms * 2f64.powi(-52),
            (Elem::F16, _) => terms * 2f64.powi(-11),
            (_, Elem::E4m3 | Elem::E5m2) => terms * 2f64.powi(-13),
            (d, _) if d.is_float() => terms * 2f64.powi(-23),
            _ => 0.0,
        }
    }
}

/// Fragments in registers, loaded from memory, and stored back if the instruction writes them.
fn fragments(
    hand: &mut Hand,
    row: &'static Atom,
    name: OperandName,
    words: bool,
    [before, after]: [&mut Vec<Stmt>; 2],
) -> (AtomArg, InMemory) {
    let operand = row.operand(name).expect("an operand of the row");
    let tv = row.tv(name).expect("a layout");
    let all: Vec<usize> = tv.offsets().expect("an integer layout").map(|at| at as usize).collect();
    let threads = hand.k.launch.threads as usize;
    let (values, elem) = (all.len() / threads, stored(operand.elem));
    let index = (0..all.len()).map(|at| all[at / values + at % values * threads]).collect();
    let space = hand.tensor_of(
        &name.to_string(),
        elem,
        operand.writes,
        vec![Value::Int(all.len() as i64)],
        vec![Value::Int(1)],
    );
    hand.k.regs.push(Reg { name: format!("{name}_held"), elem, len: values as u32, words });
    let reg = hand.k.regs.len() as Id - 1;
    let step = (UNIT / elem.bytes()).min(1 << values.trailing_zeros());
    let thread = hand.thread();
    for at in (0..values as i64).step_by(step as usize) {
        let (from, to) = (hand.sum(&[(thread, values as i64)], at), hand.int(at));
        let (fragment, memory) = (Frag { reg, at: to, len: step }, Mem { space, index: from, peer: None });
        let load =
            Op::Load { to: fragment, from: memory.clone(), guard: None, fill: 0.0.into(), volatile_at: None };
        before.push(Stmt { site: 0, op: load });
        if operand.writes {
            after.push(Stmt { site: 0, op: Op::Store { to: memory, from: fragment, guard: None } });
        }
    }
    let at = hand.int(0);
    (AtomArg::Frag(Frag { reg, at, len: values as u32 }), InMemory::Fragments(index))
}

/// A matrix that is copied byte for byte to shared memory.
fn image(
    hand: &mut Hand,
    name: OperandName,
    elem: Elem,
    [rows, along]: [u32; 2],
    matrix: &Matrix,
    before: &mut Vec<Stmt>,
) -> (AtomArg, InMemory) {
    let (size, elem) = (elem.bytes(), stored(elem));
    let byte = |at: u32| {
        matrix.layout.at((i64::from(at % rows), i64::from(at / rows))).expect("an element") as usize
    };
    let index = (0..rows * along).map(byte).collect();
    let len = matrix.bytes as u32 / size;
    let from =
        hand.tensor_of(&name.to_string(), elem, false, vec![Value::Int(i64::from(len))], vec![Value::Int(1)]);
    let to = hand.shared_at(&format!("s{name}"), elem, len, 1024, "as tensor cores read it");
    let (per, thread) = (UNIT / size, hand.thread());
    let reg = hand.reg(&format!("{name}_copied"), elem, per);
    let zero = hand.int(0);
    let unit = Frag { reg, at: zero, len: per };
    let at = |hand: &mut Hand, iteration: u32| -> Ix {
        hand.sum(&[(thread, i64::from(per))], i64::from(iteration * 128 * per))
    };
    for iteration in 0..matrix.bytes as u32 / (128 * UNIT) {
        let data = at(hand, iteration);
        let data = |space| Mem { space, index: data, peer: None };
        let load = Op::Load { to: unit, from: data(from), guard: None, fill: 0.0.into(), volatile_at: None };
        before.push(Stmt { site: 0, op: load });
        before.push(Stmt { site: 0, op: Op::Store { to: data(to), from: unit, guard: None } });
    }
    let (leading, stride) = (matrix.leading, matrix.stride);
    let at = Mem { space: to, index: zero, peer: None };
    (AtomArg::Descriptor { at, leading, stride, mode: matrix.mode }, InMemory::Image(index, matrix.bytes))
}

impl Matrix {
    /// The canonical layout of a descriptor (PTX ISA, "Strides"), in bytes: `W` units of 16 bytes in a row of
    /// the pattern.
    fn of([rows, along]: [u32; 2], size: u32, mode: u8, across: bool) -> Matrix {
        let per = UNIT / size;
        let (wide, bits) = match mode {
            1 => (8, 3),
            2 => (4, 2),
            3 => (2, 1),
            _ => (1, 0),
        };
        let group = 8 * wide * UNIT;
        let (leading, stride, layout) = match (across, mode) {
            (false, 0) => {
                let text = format!("((8,{}),({per},2)):(({UNIT},256),({size},128))", rows / 8);
                (128, 256, text)
            }
            (false, _) => {
                let row = wide * UNIT;
                (UNIT, group, format!("((8,{}),({per},2)):(({row},{group}),({size},{UNIT}))", rows / 8))
            }
            (true, 0) => (128, 256, format!("(({per},{}),(8,2)):(({size},256),({UNIT},128))", rows / per)),
            (true, _) => {
                let (row, leading, blocks) = (wide * UNIT, 2 * group, rows.div_ceil(wide * per));
                let shape = format!("(({per},{wide},{blocks}),(8,2))");
                (leading, group, format!("{shape}:(({size},{UNIT},{leading}),({row},{group}))"))
            }
        };
        assert_eq!(along * size, 2 * UNIT, "one step along K");
        let layout: Layout = layout.parse().expect("a layout");
        let last = layout.offsets().expect("an integer layout").max().unwrap_or(0) as usize;
        let swizzle = Swizzle::new(bits, 4, 3).expect("a swizzle");
        let bytes = (last + size as usize).next_multiple_of((128 * UNIT) as usize);
        Matrix { mode, leading, stride, layout: Composed::new(swizzle, 0, layout), bytes }
    }
}
