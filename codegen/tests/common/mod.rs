//! Runs a thread program on the CPU, all threads of a block in step, so that tests see results. Copies in flight land
//! when they are waited for, and what they will overwrite is not a number until then; an access outside of an array
//! panics. It knows nothing of races: threads that run in step have none.
#![allow(dead_code, unreachable_pub)]

mod record;

use std::collections::{HashMap, VecDeque};

use tilewright_codegen::element::{bf16, f16};
use tilewright_codegen::index::{Int, Ix};
use tilewright_codegen::thread::{
    AtomArg, Bin, Cmp, Fact, Kernel, Mem, Op, Param, Queue, Space, Stmt, Un, Val,
};
use tilewright_codegen::tile::Program;
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Symbol, Value};

/// What a launch passes.
#[derive(Clone, Default)]
pub struct Args {
    /// Extents and strides by name.
    pub sizes: HashMap<String, i64>,
    /// Tensors and scalars by name; a scalar is one number.
    pub arrays: HashMap<String, Vec<f64>>,
}

impl Args {
    pub fn size(mut self, name: &str, value: i64) -> Args {
        self.sizes.insert(name.into(), value);
        self
    }

    pub fn array(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Args {
        self.arrays.insert(name.into(), values.into_iter().collect());
        self
    }

    fn lookup(&self, symbol: Symbol) -> Option<i64> {
        self.sizes.get(symbol.name()).copied()
    }

    fn value(&self, value: &Value) -> i64 {
        value.evaluate(&|symbol| self.lookup(symbol)).unwrap_or_else(|| panic!("{value} is not known"))
    }
}

/// Runs every variant of a program whose facts hold and returns the arrays of each, the general one last.
#[track_caller]
pub fn run(program: Program, args: &Args) -> Vec<HashMap<String, Vec<f64>>> {
    let outcome = generate(program);
    let said: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    let kernel = outcome.kernel.unwrap_or_else(|| panic!("{}", said.join("\n")));
    let holds = |kernel: &Kernel| {
        kernel.needs.iter().all(|fact| match fact {
            Fact::Divides(need) => need.holds(&|symbol| args.lookup(symbol)).unwrap_or(false),
            _ => true,
        })
    };
    let fitting = kernel.variants.iter().filter(|variant| holds(&variant.program));
    let all: Vec<_> = fitting
        .map(|variant| {
            let after = launch(&variant.program, args);
            let grid = grid(&variant.program, args);
            record::record(&variant.program, &variant.source, grid, &args.arrays, &args.sizes, &after);
            after
        })
        .collect();
    assert!(!all.is_empty());
    all
}

/// Blocks along x, y, z.
fn grid(kernel: &Kernel, args: &Args) -> [i64; 3] {
    kernel.launch.grid.clone().map(|axis| axis.iter().map(|v| args.value(v)).product::<i64>())
}

/// What comes of a launch.
pub fn launch(kernel: &Kernel, args: &Args) -> HashMap<String, Vec<f64>> {
    let grid = grid(kernel, args);
    let mut global: Vec<Vec<f64>> = kernel
        .params
        .iter()
        .map(|param| match param {
            Param::Pointer { name, elem, .. } => {
                args.arrays[name].iter().map(|&x| rounded(x, *elem)).collect()
            }
            Param::Scalar { name, .. } => args.arrays[name].clone(),
            Param::Int { symbol, .. } => vec![args.sizes[symbol.name()] as f64],
            Param::TensorMap { .. } => panic!("bulk copies do not run here"),
        })
        .collect();
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                let threads = kernel.launch.threads as usize;
                let mut block = Block {
                    kernel,
                    global: &mut global,
                    shared: kernel.shared.iter().map(|s| vec![f64::NAN; s.len as usize]).collect(),
                    regs: kernel.regs.iter().map(|r| vec![vec![f64::NAN; r.len as usize]; threads]).collect(),
                    vars: vec![vec![0; threads]; kernel.vars.len()],
                    open: vec![Vec::new(); threads],
                    flight: vec![VecDeque::new(); threads],
                    at: [x, y, z],
                    grid,
                    threads,
                };
                block.statements(&kernel.body, &vec![true; threads]);
            }
        }
    }
    let mut arrays = args.arrays.clone();
    for (param, values) in kernel.params.iter().zip(global) {
        if let Param::Pointer { name, .. } = param {
            arrays.insert(name.clone(), values);
        }
    }
    arrays
}

/// A number as an element holds it.
pub fn rounded(x: f64, elem: Elem) -> f64 {
    match elem {
        Elem::F64 => x,
        Elem::F32 | Elem::Tf32 => f64::from(x as f32),
        Elem::F16 => f64::from(f16::from_f32(x as f32).to_f32()),
        Elem::Bf16 => f64::from(bf16::from_f32(x as f32).to_f32()),
        _ if x.is_nan() => x,
        Elem::I32 => f64::from(x as i64 as i32),
        Elem::U32 => f64::from(x as i64 as u32),
        Elem::I8 => f64::from(x as i64 as i8),
        Elem::U8 => f64::from(x as i64 as u8),
        other => panic!("{other} does not run here"),
    }
}

/// A copy in flight: an array of shared memory, a place, what will stand there.
type Flying = (usize, usize, Vec<f64>);

struct Block<'k> {
    kernel: &'k Kernel,
    global: &'k mut Vec<Vec<f64>>,
    shared: Vec<Vec<f64>>,
    /// By array, thread, element.
    regs: Vec<Vec<Vec<f64>>>,
    /// By variable, thread.
    vars: Vec<Vec<i64>>,
    open: Vec<Vec<Flying>>,
    flight: Vec<VecDeque<Vec<Flying>>>,
    at: [i64; 3],
    grid: [i64; 3],
    threads: usize,
}

impl Block<'_> {
    fn statements(&mut self, body: &[Stmt], who: &[bool]) {
        for stmt in body {
            self.statement(stmt, who);
        }
    }

    fn statement(&mut self, stmt: &Stmt, who: &[bool]) {
        let active: Vec<usize> = (0..self.threads).filter(|&t| who[t]).collect();
        match &stmt.op {
            Op::Comment(_) | Op::Fence(_) => {}
            Op::Let(id, at) | Op::Set(id, at) => {
                for t in active {
                    self.vars[*id as usize][t] = self.int(*at, t);
                }
            }
            Op::Assign { reg, at, value } => {
                // All read before any writes: a shuffle sees what lanes had before.
                let values: Vec<f64> = active.iter().map(|&t| self.value(value, t, who).0).collect();
                let elem = self.kernel.regs[*reg as usize].elem;
                for (&t, value) in active.iter().zip(values) {
                    let at = self.int(*at, t) as usize;
                    self.regs[*reg as usize][t][at] = rounded(value, elem);
                }
            }
            Op::Load { to, from, guard, fill, .. } => {
                for t in active {
                    let at = self.int(to.at, t) as usize;
                    let inside = guard.is_none_or(|guard| self.int(guard, t) != 0);
                    for n in 0..to.len as usize {
                        let value = if inside { *self.cell(from, t, n) } else { *fill };
                        self.regs[to.reg as usize][t][at + n] = value;
                    }
                    if inside {
                        self.aligned(from, to.len, t);
                    }
                }
            }
            Op::Store { to, from, guard } => {
                for t in active {
                    if guard.is_some_and(|guard| self.int(guard, t) == 0) {
                        continue;
                    }
                    let at = self.int(from.at, t) as usize;
                    for n in 0..from.len as usize {
                        let value = self.regs[from.reg as usize][t][at + n];
                        *self.cell(to, t, n) = value;
                    }
                    self.aligned(to, from.len, t);
                }
            }
            Op::Atom { row, args, guard } => {
                let bytes: u32 = row
                    .name
                    .strip_prefix("cp_async_")
                    .and_then(|n| n.trim_end_matches("_or_zero").parse().ok())
                    .unwrap_or_else(|| panic!("`{}` does not run here", row.name));
                for t in active {
                    if guard.is_none_or(|guard| self.int(guard, t) != 0) {
                        self.fly(bytes, args, t);
                    }
                }
            }
            Op::Commit(Queue::CpAsync) => {
                for t in active {
                    let group = std::mem::take(&mut self.open[t]);
                    self.flight[t].push_back(group);
                }
            }
            Op::WaitQueue { queue: Queue::CpAsync, pending } => {
                for t in active {
                    while self.flight[t].len() > *pending as usize {
                        for (array, at, values) in self.flight[t].pop_front().unwrap_or_default() {
                            self.shared[array][at..at + values.len()].copy_from_slice(&values);
                        }
                    }
                }
            }
            Op::Sync(0) => assert!(who.iter().all(|&here| here), "a thread is missing at the barrier"),
            Op::For { var, from, to, step, until, body, .. } => {
                let first = active[0];
                let (from, to) = (self.int(*from, first), self.int(*to, first));
                let mut at = from;
                while at < to {
                    self.vars[*var as usize].fill(at);
                    if until.is_some_and(|until| self.int(until, first) != 0) {
                        break;
                    }
                    self.statements(body, who);
                    at += step;
                }
            }
            Op::If { cond, then, other } => {
                let holds: Vec<bool> = (0..self.threads).map(|t| who[t] && self.int(*cond, t) != 0).collect();
                let fails: Vec<bool> = (0..self.threads).map(|t| who[t] && !holds[t]).collect();
                for (who, body) in [(holds, then), (fails, other)] {
                    if who.contains(&true) {
                        self.statements(body, &who);
                    }
                }
            }
            Op::When { cond, then, other } => {
                let holds = self.value(cond, active[0], who).0 != 0.0;
                self.statements(if holds { then } else { other }, who);
            }
            other => panic!("{other:?} does not run here"),
        }
    }

    /// Begins a copy from global to shared memory.
    fn fly(&mut self, bytes: u32, args: &[AtomArg], t: usize) {
        let [AtomArg::At(to), AtomArg::At(from), rest @ ..] = args else { panic!("{args:?}") };
        let Space::Shared(array) = to.space else { panic!("{to:?}") };
        let elem = self.kernel.shared[array as usize].elem.bytes();
        let len = (bytes / elem) as usize;
        let read = match rest {
            [AtomArg::Int(read)] => self.int(*read, t) as usize / elem as usize,
            _ => len,
        };
        self.aligned(to, len as u32, t);
        let values: Vec<f64> =
            (0..len).map(|n| if n < read { *self.cell(from, t, n) } else { 0.0 }).collect();
        for n in 0..len {
            *self.cell(to, t, n) = f64::NAN;
        }
        let at = self.int(to.index, t) as usize;
        self.open[t].push((array as usize, at, values));
    }

    fn aligned(&mut self, mem: &Mem, len: u32, t: usize) {
        let index = self.int(mem.index, t);
        assert!(index % i64::from(len) == 0, "an access of {len} elements at {index}");
    }

    fn cell(&mut self, mem: &Mem, t: usize, n: usize) -> &mut f64 {
        let index = self.int(mem.index, t) + n as i64;
        let (array, name) = match mem.space {
            Space::Global(id) => (&mut self.global[id as usize], id),
            Space::Shared(id) => (&mut self.shared[id as usize], id),
        };
        let len = array.len();
        let at = usize::try_from(index).ok().filter(|&at| at < len);
        &mut array[at.unwrap_or_else(|| panic!("element {index} of array {name}, which has {len}"))]
    }

    fn int(&self, of: Ix, t: usize) -> i64 {
        let exprs = &self.kernel.exprs;
        let value = |of: Ix| self.int(of, t);
        let known = exprs.get(of);
        let number = match known.int {
            Int::Const(n) => n,
            Int::Var(id) => self.vars[id as usize][t],
            Int::Param(id) => self.global[id as usize][0] as i64,
            Int::Thread => t as i64,
            Int::Block(axis) => self.at[usize::from(axis)],
            Int::Grid(axis) => self.grid[usize::from(axis)],
            Int::ClusterRank => 0,
            Int::Add(a, b) => value(a) + value(b),
            Int::Sub(a, b) => value(a) - value(b),
            Int::Mul(a, b) => value(a) * value(b),
            Int::Div(a, b) => value(a) / value(b),
            Int::Rem(a, b) => value(a) % value(b),
            Int::And(a, b) => value(a) & value(b),
            Int::Or(a, b) => value(a) | value(b),
            Int::Xor(a, b) => value(a) ^ value(b),
            Int::Shl(a, b) => value(a) << value(b),
            Int::Shr(a, b) => value(a) >> value(b),
            Int::Min(a, b) => value(a).min(value(b)),
            Int::Max(a, b) => value(a).max(value(b)),
            Int::Lt(a, b) => i64::from(value(a) < value(b)),
            Int::Eq(a, b) => i64::from(value(a) == value(b)),
            Int::All(a, b) => i64::from(value(a) != 0 && value(b) != 0),
            Int::Not(a) => i64::from(value(a) == 0),
            Int::Select(c, a, b) => value(if value(c) != 0 { a } else { b }),
        };
        // A claim of the arena is a claim about this very run.
        assert!(known.lo <= number && number <= known.hi, "{known:?} is {number}");
        number
    }

    /// A value and its type.
    fn value(&self, of: &Val, t: usize, who: &[bool]) -> (f64, Elem) {
        let kernel = self.kernel;
        let value = |of: &Val| self.value(of, t, who);
        match of {
            Val::Reg(reg, at) => {
                let at = self.int(*at, t) as usize;
                (self.regs[*reg as usize][t][at], kernel.regs[*reg as usize].elem)
            }
            Val::Lit(x, elem) => (rounded(*x, *elem), *elem),
            Val::Int(at, elem) => (rounded(self.int(*at, t) as f64, *elem), *elem),
            Val::Param(id) => match &kernel.params[*id as usize] {
                Param::Scalar { elem, .. } => (rounded(self.global[*id as usize][0], *elem), *elem),
                other => panic!("{other:?} is no number"),
            },
            Val::Un(f, x) => {
                let (x, elem) = value(x);
                let y = match f {
                    Un::Neg => -x,
                    Un::Abs => x.abs(),
                    Un::Exp => x.exp(),
                    Un::Exp2 => x.exp2(),
                    Un::Log => x.ln(),
                    Un::Log2 => x.log2(),
                    Un::Recip => 1.0 / x,
                    Un::Sqrt => x.sqrt(),
                    Un::Rsqrt => 1.0 / x.sqrt(),
                    Un::Tanh => x.tanh(),
                    Un::Sin => x.sin(),
                    Un::Cos => x.cos(),
                    Un::Not => f64::from(u8::from(x == 0.0)),
                };
                (rounded(y, elem), elem)
            }
            Val::Bin(f, x, y) => {
                let ((x, elem), (y, _)) = (value(x), value(y));
                let z = match f {
                    Bin::Add => x + y,
                    Bin::Sub => x - y,
                    Bin::Mul => x * y,
                    Bin::Div if elem.is_float() => x / y,
                    Bin::Div => (x / y).trunc(),
                    Bin::Rem => x % y,
                    Bin::Min => x.min(y),
                    Bin::Max => x.max(y),
                    Bin::And => (x as i64 & y as i64) as f64,
                    Bin::Or => (x as i64 | y as i64) as f64,
                    Bin::Xor => (x as i64 ^ y as i64) as f64,
                    Bin::Shl => ((x as i64) << y as i64) as f64,
                    Bin::Shr => (x as i64 >> y as i64) as f64,
                };
                (rounded(z, elem), elem)
            }
            Val::Fma(of) => {
                let ((x, _), (y, _), (z, elem)) = (value(&of[0]), value(&of[1]), value(&of[2]));
                (rounded(x.mul_add(y, z), elem), elem)
            }
            Val::Cast(to, x) => {
                let (x, from) = value(x);
                let x = if from.is_float() && !to.is_float() { x.trunc() } else { x };
                (rounded(x, *to), *to)
            }
            Val::Guarded(guard, x, y) => value(if self.int(*guard, t) != 0 { x } else { y }),
            Val::Cmp(f, x, y) => {
                let ((x, _), (y, _)) = (value(x), value(y));
                let holds = match f {
                    Cmp::Lt => x < y,
                    Cmp::Le => x <= y,
                    Cmp::Eq => x == y,
                    Cmp::Ne => x != y,
                };
                (f64::from(u8::from(holds)), Elem::I32)
            }
            Val::Pick(of) => value(if value(&of[0]).0 != 0.0 { &of[1] } else { &of[2] }),
            Val::ShuffleXor(x, by) => {
                let other = t ^ self.int(*by, t) as usize;
                assert_eq!(t / 32, other / 32);
                // A lane that is not there has nothing to give.
                if other >= self.threads || !who[other] {
                    return (f64::NAN, value(x).1);
                }
                self.value(x, other, who)
            }
        }
    }
}

/// The result of one array, the same for all variants.
#[track_caller]
pub fn result(program: Program, args: &Args, array: &str) -> Vec<f64> {
    let mut all = run(program, args);
    let first = all.remove(0).remove(array).expect("the array");
    for other in all {
        for (place, (x, y)) in first.iter().zip(&other[array]).enumerate() {
            assert!(close(*x, *y, 1e-6), "variants differ at {place}: {x} and {y}");
        }
    }
    first
}

pub fn close(x: f64, y: f64, within: f64) -> bool {
    x == y || (x - y).abs() <= within * (1.0 + x.abs().max(y.abs())) || (x.is_nan() && y.is_nan())
}

#[track_caller]
pub fn assert_close(got: &[f64], wanted: &[f64], within: f64) {
    assert_eq!(got.len(), wanted.len());
    for (place, (x, y)) in got.iter().zip(wanted).enumerate() {
        assert!(close(*x, *y, within), "element {place} is {x}, and {y} is right");
    }
}

/// Numbers that look random, between -1 and 1, exact in every type.
pub fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 40) % 33) as f64 / 16.0 - 1.0
        })
        .collect()
}
