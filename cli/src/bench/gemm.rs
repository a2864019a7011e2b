//! Matrix products against cuBLASLt.

use std::rc::Rc;

use tilewright::kernels::choose::{Model, Problem as Wanted, facts};
use tilewright_codegen::Elem;
use tilewright_codegen::definition::Generated;
use tilewright_codegen::thread::Param;
use tilewright_layout::Value;
use tilewright_runtime::nvrtc::Nvrtc;

use super::Result;
use super::case::{self, Case, Contender, Row};
use super::cublaslt::{self, CublasLt, Problem, Product};
use super::driver::{Device, Memory};
use super::helpers::{Error, Helpers, Matrix};
use super::measure::Effort;
use super::prepared::{Loaded, Operand, Prepared};

/// The device, compilers and libraries of a benchmark.
pub(super) struct Place<'a> {
    pub(super) device: &'a Device,
    pub(super) nvrtc: &'a Nvrtc,
    pub(super) helpers: &'a Helpers<'a>,
    pub(super) cublas: Option<&'a CublasLt>,
    pub(super) effort: Effort,
}

/// One of our kernels as a contender.
pub(super) struct Ours {
    pub(super) name: String,
    pub(super) kernel: Generated,
    /// The layouts of its operands.
    order: Order,
    /// Types of A and B, and of C.
    pub(super) elems: (Elem, Elem),
}

impl Ours {
    /// A matrix product: A (M, K), B (N, K), C (M, N), optionally alpha and beta, and a batch mode for all
    /// three.
    pub(super) fn new(name: &str, kernel: Generated) -> Result<Ours> {
        let refused = || format!("`{name}` is no matrix product: it does not take A, B and C");
        let mut orders = Vec::new();
        for param in &kernel.variants[0].program.params {
            if let Param::Pointer { stride, .. } = param {
                let one = |mode: usize| stride.get(mode).and_then(|step: &Value| step.int()) == Some(1);
                orders.push((one(1), one(0) || one(1), stride.len()));
            }
        }
        let [(a_rows, true, rank), (b_rows, true, rank_b), (c_rows, true, rank_c)] = orders[..] else {
            return Err(refused());
        };
        if ![2, 3].contains(&rank) || (rank_b, rank_c) != (rank, rank) || kernel.params.len() < 3 {
            return Err(refused());
        }
        let elems = (kernel.params[0].elem, kernel.params[2].elem);
        Ok(Ours { name: name.to_owned(), order: Order { a_rows, b_rows, c_rows }, elems, kernel })
    }

    /// Does one launch compute all products of a batch?
    fn is_batched(&self) -> bool {
        self.kernel.params[0].tensor.is_some_and(|(_, rank)| rank == 3)
    }
}

/// Which mode is contiguous: `true` for A and B contiguous along K, and for a row-major C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Order {
    pub(super) a_rows: bool,
    pub(super) b_rows: bool,
    pub(super) c_rows: bool,
}

/// The rounding bound: sums in f32 over thousands of elements, and one rounding of the result.
pub(super) fn bound(elem: Elem) -> f64 {
    match elem {
        Elem::F64 => 1e-13,
        Elem::F32 => 1e-5,
        Elem::F16 => 1e-3,
        Elem::Bf16 => 5e-3,
        _ => 0.0,
    }
}

/// Products of one size, one after the other in memory, and their contenders.
pub(super) struct Task<'k> {
    pub(super) suite: String,
    /// Batch, M, N, K.
    pub(super) sizes: [i64; 4],
    /// All of the same types; the first determines cuBLASLt's layouts.
    pub(super) ours: &'k [Ours],
    /// Are they products that the chooser knows?
    pub(super) predict: bool,
}

/// One set of data.
struct Set {
    a: Rc<Memory>,
    b: Rc<Memory>,
    c: Rc<Memory>,
}

/// The number of sets that must rotate so that a launch finds none of its data in the cache.
fn sets(cache: usize, bytes: usize) -> usize {
    (3 * cache).div_ceil(bytes.max(1)).clamp(2, 64)
}

/// Checks and measures one task.
pub(super) fn run(place: &Place, task: &Task) -> Result<Vec<Row>> {
    let [batch, m, n, k] = task.sizes;
    let (device, helpers) = (place.device, place.helpers);
    let Some(first) = task.ours.first() else { return Ok(Vec::new()) };
    let (elem, out) = first.elems;
    let size =
        |elem: Elem, rows: i64, columns: i64| (batch * rows * columns) as usize * elem.bytes() as usize;
    let [of_a, of_b, of_c] = [size(elem, m, k), size(elem, n, k), size(out, m, n)];
    let sets: Vec<Set> = (0..sets(device.cache, of_a + of_b + of_c))
        .map(|at| {
            let (a, b) = (device.memory(of_a)?, device.memory(of_b)?);
            helpers.fill(&a, 2 * at as u64)?;
            helpers.fill(&b, 2 * at as u64 + 1)?;
            Ok(Set { a, b, c: device.memory(of_c)? })
        })
        .collect::<Result<_>>()?;
    let workspace = device.memory(if place.cublas.is_some() { cublaslt::WORKSPACE } else { 1 })?;
    let expected = device.memory((batch * m * n) as usize * 8)?;

    let bound = bound(elem).max(self::bound(out));
    let scalars = |ours: &Ours| ours.kernel.params.iter().any(|param| param.tensor.is_none());
    // The first and the last set, each against the oracle; the last is the most recently written.
    let check = |order: Order, reads_c: bool, begin: &dyn Fn(usize) -> Result| -> Result<Error> {
        let mut worst: Option<Error> = None;
        for at in [0, sets.len() - 1] {
            let set = &sets[at];
            oracle(helpers, set, &expected, order, task.sizes)?;
            // Zero times NaN is NaN: a kernel that reads C must find finite numbers there, and wrong ones.
            device.set(&set.c, if reads_c { 0x3f } else { 0xff })?;
            begin(at)?;
            let error = helpers.compare(&set.c, &expected)?;
            worst = Some(worst.map_or(error, |worst| case::worse(worst, error)));
        }
        worst.ok_or_else(|| "nothing was checked".into())
    };

    let peer = match place.cublas {
        None => None,
        Some(cublas) => {
            let (problem, swapped) = problem(task.sizes, elem, out, first.order);
            fastest(place, cublas, &sets, &workspace, &problem, swapped)?
        }
    };
    let (sets, workspace, check) = (&sets, &workspace, &check);
    let mut contenders: Vec<Contender> = Vec::new();
    let mut loaded: Vec<Loaded> = task.ours.iter().map(|ours| Loaded::new(&ours.kernel)).collect();
    if let Some((product, note, swapped)) = &peer {
        let begin = Rc::new(move |at: usize| {
            let set = &sets[at % sets.len()];
            let (a, b) = if *swapped { (&set.b, &set.a) } else { (&set.a, &set.b) };
            product.begin_on(device, [a, b, &set.c, workspace])
        });
        let (running, checked) = (begin.clone(), begin);
        contenders.push(Contender {
            name: "cuBLASLt".into(),
            note: note.clone(),
            begin: Box::new(move |at| running(at)),
            check: Box::new(move || check(first.order, false, &*checked)),
            bound,
        });
    }
    for (ours, loaded) in task.ours.iter().zip(&mut loaded) {
        let prepared: Vec<Vec<Prepared>> = sets
            .iter()
            .map(|set| {
                let launches = if ours.is_batched() { 1 } else { batch };
                (0..launches).map(|at| prepare(place, loaded, ours, set, task.sizes, at)).collect()
            })
            .collect::<Result<_>>()?;
        let note = prepared[0][0].note.clone();
        let begin = Rc::new(move |at: usize| {
            prepared[at % prepared.len()].iter().try_for_each(|launch| launch.begin(device))
        });
        let (running, checked) = (begin.clone(), begin);
        let (order, reads_c) = (ours.order, scalars(ours));
        contenders.push(Contender {
            name: ours.name.clone(),
            note,
            begin: Box::new(move |at| running(at)),
            check: Box::new(move || check(order, reads_c, &*checked)),
            bound,
        });
    }
    let [batch_f, m_f, n_f, k_f] = task.sizes.map(|n| n as f64);
    let case = Case {
        suite: task.suite.clone(),
        problem: if batch == 1 { format!("{m}x{n}x{k}") } else { format!("{batch} of {m}x{n}x{k}") },
        operations: 2.0 * batch_f * m_f * n_f * k_f,
        bytes: (of_a + of_b + of_c) as f64,
        contenders,
    };
    let mut rows = case::run(device, helpers, &case, &place.effort)?;
    if task.predict {
        for (row, ours) in rows.iter_mut().rev().zip(task.ours.iter().rev()) {
            row.predicted = predicted(device, ours, task.sizes);
        }
    }
    Ok(rows)
}

/// The chooser's predicted seconds for a kernel here; `None` where it takes several launches.
fn predicted(device: &Device, ours: &Ours, [batch, m, n, k]: [i64; 4]) -> Option<f64> {
    let Order { a_rows, b_rows, c_rows } = ours.order;
    let wanted = Wanted {
        batch: ours.is_batched().then_some(batch),
        a_k_major: a_rows,
        b_k_major: b_rows,
        c_n_major: c_rows,
        ..Wanted::new(ours.elems.0, m, n, k)
    };
    let facts = facts(&ours.kernel, &wanted, &device.holds).ok()?;
    (batch == 1 || ours.is_batched()).then(|| Model::FITTED.predict(&facts, &device.holds).seconds)
}

/// The matrices' strides for the oracle, which writes contiguous columns: a row-major C is the transposed
/// product.
fn oracle(
    helpers: &Helpers,
    set: &Set,
    expected: &Memory,
    order: Order,
    [batch, m, n, k]: [i64; 4],
) -> Result {
    let matrix = |memory, rows: i64, depth_contiguous: bool| {
        let steps = if depth_contiguous { [k as u64, 1] } else { [1, rows as u64] };
        Matrix { memory, steps: [steps[0], steps[1], (rows * k) as u64] }
    };
    let (a, b) = (matrix(&set.a, m, order.a_rows), matrix(&set.b, n, order.b_rows));
    match order.c_rows {
        false => helpers.reference(a, b, expected, [batch, m, n, k]),
        true => helpers.reference(b, a, expected, [batch, n, m, k]),
    }
}

/// One of our kernels on one product of a set, or on all of them.
fn prepare(
    place: &Place,
    loaded: &mut Loaded,
    ours: &Ours,
    set: &Set,
    [batch, m, n, k]: [i64; 4],
    at: i64,
) -> Result<Prepared> {
    let Order { a_rows, b_rows, c_rows } = ours.order;
    let matrices = [(&set.a, [m, k], a_rows), (&set.b, [n, k], b_rows), (&set.c, [m, n], c_rows)];
    let mut tensors = matrices.into_iter().map(|(memory, [rows, columns], rows_contiguous)| {
        let strides = if rows_contiguous { [columns, 1] } else { [1, rows] };
        let (mut extents, mut strides) = (vec![rows, columns], strides.to_vec());
        if ours.is_batched() {
            extents.push(batch);
            strides.push(rows * columns);
        }
        Operand::Tensor { memory: memory.clone(), first: (at * rows * columns) as u64, extents, strides }
    });
    let mut scalars = [1.0, 0.0].into_iter().map(Operand::Scalar);
    let operand = |param: &tilewright_codegen::definition::Param| {
        if param.tensor.is_some() { tensors.next() } else { scalars.next() }
    };
    let operands: Option<Vec<Operand>> = ours.kernel.params.iter().map(operand).collect();
    let operands = operands.ok_or_else(|| format!("`{}` takes more than a product does", ours.name))?;
    loaded.prepare(place.device, place.nvrtc, &operands)
}

/// In cuBLAS's terms, and whether A and B are swapped: a row-major C is the transposed product.
fn problem([batch, m, n, k]: [i64; 4], elem: Elem, out: Elem, order: Order) -> (Problem, bool) {
    let Order { a_rows, b_rows, c_rows } = order;
    match c_rows {
        false => (Problem { m, n, k, transpose_a: a_rows, transpose_b: !b_rows, batch, elem, out }, false),
        true => {
            (Problem { m: n, n: m, k, transpose_a: b_rows, transpose_b: !a_rows, batch, elem, out }, true)
        }
    }
}

/// The number of algorithms of the heuristic's list that are tried.
const TRIED: usize = 8;

/// The fastest of the heuristic's first algorithms on this device, and its speed against the very first;
/// `None` where there is none for the problem.
fn fastest<'l>(
    place: &Place,
    cublas: &'l CublasLt,
    sets: &[Set],
    workspace: &Memory,
    problem: &Problem,
    swapped: bool,
) -> Result<Option<(Product<'l>, String, bool)>> {
    let products = match cublas.products(problem, TRIED) {
        Ok(products) => products,
        Err(none @ cublaslt::Error::None(_)) => {
            eprintln!("{none}: measured without it");
            return Ok(None);
        }
        Err(why) => return Err(why.to_string()),
    };
    let runs: Vec<Box<dyn Fn(usize) -> Result + '_>> = products
        .iter()
        .map(|product| {
            Box::new(move |at: usize| {
                let set = &sets[at % sets.len()];
                let (a, b) = if swapped { (&set.b, &set.a) } else { (&set.a, &set.b) };
                product.begin_on(place.device, [a, b, &set.c, workspace])
            }) as Box<dyn Fn(usize) -> Result>
        })
        .collect();
    let begins: Vec<&dyn Fn(usize) -> Result> = runs.iter().map(|run| &**run as _).collect();
    let (samples, _) = case::time(place.device, place.helpers, &begins, &Effort::QUICK)?;
    let medians: Vec<f64> = samples.iter().map(|samples| samples.median()).collect();
    let best = (0..medians.len()).min_by(|&a, &b| medians[a].total_cmp(&medians[b])).unwrap_or(0);
    let note = match best {
        0 => format!("the first of {} algorithms", medians.len()),
        _ => format!(
            "algorithm {} of {}, {:.2} times as fast as the first",
            best + 1,
            medians.len(),
            medians[0] / medians[best]
        ),
    };
    Ok(Some((products[best].clone(), note, swapped)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_orders() {
        for letters in ["nn", "nt", "tn", "tt"] {
            let wanted = Wanted::new(Elem::F32, 5, 6, 7).layouts(letters).unwrap();
            let order =
                Order { a_rows: wanted.a_k_major, b_rows: wanted.b_k_major, c_rows: wanted.c_n_major };
            let of = |order| problem([1, 5, 6, 7], Elem::F32, Elem::F32, order);
            let (plain, swapped) = of(order);
            assert!(!swapped && plain.to_string().ends_with(letters), "{plain}");
            // The same product, transposed: C is row-major, and B comes first.
            let (turned, swapped) = of(Order { c_rows: true, ..order });
            let transposed = |t: bool| if t { 't' } else { 'n' };
            let back: String =
                [transposed(!turned.transpose_b), transposed(!turned.transpose_a)].iter().collect();
            assert!(swapped && back == letters && (turned.m, turned.n) == (6, 5), "{turned}");
        }
    }

    #[test]
    fn sets_exceed_the_cache() {
        assert_eq!(sets(50 << 20, 12 << 20), 13);
        assert_eq!(sets(50 << 20, 200 << 20), 2);
        assert_eq!(sets(50 << 20, 1), 64);
    }
}
