//! The work of a block: in the prologue before its main loop, in one iteration of it, and in the epilogue.
//! Input of cost models; it knows no device and no time.

use super::Budget;
use super::accesses::{self, Site};
use super::warp::Warp;
use crate::atom::Atom;
use crate::elem::Elem;
use crate::index::Ix;
use crate::launch::{Passed, Plan};
use crate::mention::mentions;
use crate::thread::{Kernel, Op, Space, Stmt, Unroll, Val};

/// The work of a block, in warp instructions.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Work {
    /// Before the main loop.
    pub before: Counts,
    /// In one iteration of it.
    pub iteration: Counts,
    /// How many iterations it has.
    pub iterations: f64,
    /// After it.
    pub after: Counts,
    /// An iteration waits for its own loads from global memory, with no arithmetic to hide the latency.
    pub exposed: bool,
    /// An iteration copies elements from global memory through registers.
    pub staged: bool,
    /// The row of the atom table that the main product is made of.
    pub product: Option<&'static Atom>,
    /// The most 32-bit registers that a thread's arrays take at once.
    pub registers: u32,
}

/// Warp instructions of a block. A vector access is one instruction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    /// Multiply-adds.
    pub multiply_adds: f64,
    /// Other arithmetic; one conversion for each narrow number that is loaded.
    pub arithmetic: f64,
    /// Loads from and stores to shared memory.
    pub shared: f64,
    /// Wavefronts of these accesses, and of copies into shared memory.
    pub wavefronts: f64,
    /// Wavefronts of loads whose values are used at once, not a k-step later.
    pub prompt: f64,
    /// Loads, stores and copies that go to global memory.
    pub global: f64,
    /// The sectors of 32 bytes that they touch.
    pub sectors: f64,
    /// How many of those are guarded.
    pub guarded: f64,
    /// Barriers of the block.
    pub barriers: f64,
}

/// The work of one block of a planned launch. The main loop is the outermost one whose length is known only
/// now; a kernel without one counts as a single iteration. Conditions on scalar arguments count as false, as
/// where beta is 0.
pub fn work(kernel: &Kernel, plan: &Plan) -> Work {
    let body = taken(&kernel.body);
    let exprs = &kernel.exprs;
    let is_main = |stmt: &Stmt| matches!(&stmt.op, Op::For { to, .. } if exprs.constant(*to).is_none());
    let main = body.iter().position(is_main);
    let value = |passed: &Passed| if let Passed::Int { value, .. } = passed { *value } else { 0 };
    let warp = Warp::new(kernel).passing(plan.passed.iter().map(value).collect());
    let mut meter = Meter { kernel, warp, product: None };
    let registers = registers(kernel);
    let (before, iteration, after, iterations) = match main.map(|at| (at, &body[at].op)) {
        Some((at, Op::For { from, to, step, body: inner, .. })) => {
            (&body[..at], &inner[..], &body[at + 1..], meter.trips(*from, *to, *step))
        }
        _ => (&[][..], &body[..], &[][..], 1.0),
    };
    let (exposed, staged) = (exposed(iteration, &mut false), staged(iteration));
    let [before, iteration, after] = [before, iteration, after].map(|body| meter.counts(body));
    Work { before, iteration, iterations, after, exposed, staged, product: meter.product, registers }
}

/// The most 32-bit registers that a thread's arrays take at once. An array is live from the first statement
/// of the body that uses it to the last.
fn registers(kernel: &Kernel) -> u32 {
    let mut taken = vec![0; kernel.body.len()];
    for (id, reg) in (0..).zip(&kernel.regs) {
        let uses = |stmt: &Stmt| mentions(stmt, id);
        let (first, last) = (kernel.body.iter().position(uses), kernel.body.iter().rposition(uses));
        if let (Some(first), Some(last)) = (first, last) {
            taken[first..=last].iter_mut().for_each(|sum| *sum += reg.registers());
        }
    }
    taken.into_iter().max().unwrap_or(0)
}

/// Statements without conditions on scalar arguments.
fn taken(body: &[Stmt]) -> Vec<Stmt> {
    let one = |stmt: &Stmt| match &stmt.op {
        Op::When { other, .. } => taken(other),
        _ => vec![stmt.clone()],
    };
    body.iter().flat_map(one).collect()
}

/// Is a wait after a copy from global memory exposed: with no multiply-add between them?
fn exposed(body: &[Stmt], asked: &mut bool) -> bool {
    body.iter().any(|stmt| match &stmt.op {
        Op::Atom { row, .. } if matches!(row.done, crate::atom::Done::Queue(_)) => {
            *asked = true;
            false
        }
        Op::Load { from, .. } if matches!(from.space, Space::Global(_)) => {
            *asked = true;
            false
        }
        Op::Assign { value: Val::Product(..), .. } => {
            *asked = false;
            false
        }
        Op::WaitQueue { .. } | Op::Sync(_) => *asked,
        Op::For { body, .. } => exposed(body, asked),
        Op::If { then, other, .. } => exposed(then, asked) || exposed(other, asked),
        _ => false,
    })
}

/// Is there a load from global memory into registers?
fn staged(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.op {
        Op::Load { from, .. } => matches!(from.space, Space::Global(_)),
        Op::For { body, .. } => staged(body),
        Op::If { then, other, .. } => staged(then) || staged(other),
        _ => false,
    })
}

struct Meter<'k> {
    kernel: &'k Kernel,
    warp: Warp<'k>,
    product: Option<&'static Atom>,
}

impl Meter<'_> {
    fn warps(&self) -> f64 {
        f64::from(self.kernel.launch.threads.div_ceil(32))
    }

    fn counts(&mut self, body: &[Stmt]) -> Counts {
        let mut counts = Counts::default();
        self.arithmetic(body, self.warps(), &mut counts);
        let mut budget = Budget::of(super::MOST_EVALUATIONS);
        for site in accesses::measure_in(self.kernel, body, &mut budget) {
            self.access(&site, &mut counts);
        }
        counts
    }

    fn trips(&self, from: Ix, to: Ix, step: i64) -> f64 {
        let (from, to) = (self.warp.at(from)[0], self.warp.at(to)[0]);
        ((to - from).max(0) as f64 / step.max(1) as f64).ceil()
    }

    fn access(&self, site: &Site, counts: &mut Counts) {
        let trips = site.loops().map(|(from, to, step)| self.trips(from, to, step));
        let times = trips.product::<f64>() * self.warps();
        match site.mem.space {
            Space::Shared(id) => {
                let wavefronts = times * f64::from(site.banks.as_ref().map_or(1, |banks| banks.wavefronts));
                counts.wavefronts += wavefronts;
                // A copy is one instruction, counted at its load.
                counts.shared += if site.what == "copy" { 0.0 } else { times };
                if site.what == "load" {
                    counts.prompt += if site.ahead { 0.0 } else { wavefronts };
                    let elem = self.kernel.shared[id as usize].elem;
                    if matches!(elem, Elem::F16 | Elem::Bf16) {
                        counts.arithmetic += times * (site.bytes / i64::from(elem.bytes())) as f64;
                    }
                }
            }
            Space::Global(_) => {
                counts.global += times;
                counts.sectors += times * f64::from(site.sectors.as_ref().map_or(1, |cost| cost.sectors));
                counts.guarded += if site.guarded { times } else { 0.0 };
            }
        }
    }

    fn arithmetic(&mut self, body: &[Stmt], times: f64, counts: &mut Counts) {
        for stmt in body {
            match &stmt.op {
                Op::Assign { value, .. } => {
                    if let Val::Product(row, _) = value {
                        self.product = Some(*row);
                    }
                    operations(value, times, counts);
                }
                Op::Sync(_) => counts.barriers += times / self.warps(),
                Op::For { from, to, step, unroll, body, .. } => {
                    let trips = self.trips(*from, *to, *step);
                    if *unroll != Unroll::Full {
                        counts.arithmetic += trips * times;
                    }
                    self.arithmetic(body, times * trips, counts);
                }
                Op::If { then, other, .. } => {
                    counts.arithmetic += times;
                    self.arithmetic(then, times, counts);
                    self.arithmetic(other, times, counts);
                }
                // A comparison and a branch.
                Op::Leave { .. } => counts.arithmetic += 2.0 * times,
                Op::Elect(_, body) => self.arithmetic(body, times, counts),
                _ => {}
            }
        }
    }
}

/// The cost of computing a value.
fn operations(value: &Val, times: f64, counts: &mut Counts) {
    let mut all = |values: &[&Val]| values.iter().for_each(|value| operations(value, times, counts));
    match value {
        Val::Reg(..) | Val::Lit(..) | Val::Int(..) | Val::Param(_) => {}
        Val::Fma(x) => {
            all(&[&x[0], &x[1], &x[2]]);
            counts.multiply_adds += times;
        }
        Val::Product(row, x) => {
            all(&[&x[0], &x[1], &x[2]]);
            counts.multiply_adds += times * row.multiply_adds();
            counts.arithmetic += times * f64::from(row.operations() - 1);
        }
        // Conversions of a product's operands have been counted at their load: the compiler hoists them.
        Val::Cast(_, x) | Val::Bits(_, x) => all(&[x]),
        Val::Un(_, x) | Val::ShuffleXor(x, _) => {
            all(&[x]);
            counts.arithmetic += times;
        }
        Val::Bin(_, x, y) | Val::Cmp(_, x, y) | Val::Guarded(_, x, y) => {
            all(&[x, y]);
            counts.arithmetic += times;
        }
        Val::Pick(x) => {
            all(&[&x[0], &x[1], &x[2]]);
            counts.arithmetic += times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{Given, Limits, Tensor, plan};
    use crate::words::Words;

    /// The work of a product of these keys, its blocks, and the type of C.
    fn of(keys: &str, [m, n, k]: [i64; 3]) -> (Work, f64, Elem) {
        let kernel = Words::read(keys).unwrap().matmul().unwrap();
        let sizes = [[m, k], [n, k], [m, n]];
        let given = kernel.params.iter().zip(sizes).enumerate().map(|(place, (param, [rows, columns]))| {
            Given::Tensor(Tensor {
                elem: param.elem,
                mutable: place == 2,
                extents: vec![rows, columns],
                strides: vec![1, rows],
                len: (rows * columns) as u64,
                address: (place as u64 + 1) << 40,
            })
        });
        let plan = plan(&kernel, &given.collect::<Vec<_>>(), &Limits::HOPPER).unwrap();
        (
            work(&kernel.variants[plan.variant].program, &plan),
            plan.grid.iter().map(|&n| f64::from(n)).product(),
            kernel.params[2].elem,
        )
    }

    #[test]
    fn every_product_and_every_byte_is_counted() {
        let (m, n, k) = (512, 256, 64);
        for keys in [
            "",
            "bm=64 bn=64 bk=16 vec=4 stages=3",
            "values=(4,4) vec=4 stages=2 fragments=2",
            "dtype=f16 vec=8 bk=16",
        ] {
            let (work, blocks, out) = of(keys, [m, n, k]);
            assert_eq!(
                work.iteration.multiply_adds * 32.0 * work.iterations * blocks,
                (m * n * k) as f64,
                "{keys}"
            );
            assert_eq!(work.product.unwrap().name, "fma_f32", "{keys}");
            assert_eq!(work.after.sectors * 32.0 * blocks, (m * n) as f64 * f64::from(out.bytes()), "{keys}");
            assert_eq!(work.iteration.guarded, 0.0, "{keys}");
        }
    }

    #[test]
    fn exposed_waits_staged_copies_guards_and_prompt_loads() {
        let whole = [256, 256, 64];
        let check = |keys: &str, sizes, expected: [bool; 4]| {
            let Work { iteration, exposed, staged, .. } = of(keys, sizes).0;
            assert_eq!(
                [exposed, staged, iteration.guarded > 0.0, iteration.prompt > 0.0],
                expected,
                "{keys}"
            );
        };
        check("", whole, [true, false, false, true]);
        check("", [255, 255, 63], [true, false, true, true]);
        check("vec=4 stages=2", whole, [false, false, false, true]);
        check("values=(4,4) vec=4 stages=2 fragments=2", whole, [false, false, false, false]);
        check("staged=both values=(4,4) vec=4 stages=2 fragments=2", whole, [false, true, false, false]);
    }
}
