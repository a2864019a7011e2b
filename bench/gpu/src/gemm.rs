//! Matrix products against cuBLASLt.

use std::cell::RefCell;
use std::rc::Rc;

use tilewright_codegen::ast::Arg;
use tilewright_codegen::definition::Generated;
use tilewright_runtime::nvrtc::Nvrtc;

use super::Result;
use super::case::{self, Case, Contender, Row};
use super::cublaslt::{self, CublasLt, Problem, Product, Scales};
use super::driver::{Device, Memory};
use super::form::{Extents, Form, OfOperands, Order, Role};
use super::helpers::Helpers;
use super::operands::{self, On, OperandScales, Operands, Set};
use super::prepared::{Loaded, Operand, Prepared};
use tilewright_cli::measure::Effort;

/// The device, compilers and libraries of a benchmark.
pub(crate) struct Bench<'a> {
    pub(crate) device: &'a Device,
    pub(crate) nvrtc: &'a Nvrtc,
    pub(crate) helpers: &'a Helpers<'a>,
    pub(crate) cublas: Option<&'a CublasLt>,
    pub(crate) effort: Effort,
}

impl<'a> Bench<'a> {
    fn on(&self) -> On<'a> {
        On { device: self.device, helpers: self.helpers }
    }
}

/// One of our kernels as a contender.
pub(crate) struct Ours {
    /// A short name, for tables and plots.
    pub(crate) name: String,
    /// The full one.
    pub(crate) keys: String,
    pub(crate) kernel: Generated,
    pub(crate) form: Form,
    roles: Vec<Role>,
}

impl Ours {
    /// A matrix product, and the keys that it was made from.
    pub(crate) fn new(name: &str, kernel: Generated, keys: &[Arg]) -> Result<Ours> {
        let (form, roles) = Form::of(name, &kernel, keys)?;
        Ok(Ours { name: name.to_owned(), keys: name.to_owned(), kernel, form, roles })
    }

    /// Does one launch compute all products of a batch?
    fn is_batched(&self) -> bool {
        self.kernel.params[0].tensor.is_some_and(|(_, rank)| rank == 3)
    }

    /// Does it read the old contents of C?
    fn reads_c(&self) -> bool {
        self.roles.contains(&Role::Beta)
    }
}

/// Products of one size, one after the other in memory, and their contenders.
pub(crate) struct Task<'k> {
    pub(crate) suite: String,
    pub(crate) sizes: Extents,
    /// All products of forms with the same peer, and their compiled kernels.
    pub(crate) ours: &'k [Ours],
    pub(crate) loaded: &'k [RefCell<Loaded<'k>>],
    /// Are their estimated times of interest?
    pub(crate) predict: bool,
    /// Variants whose estimates are at most this many times the least are contenders, not only the one that a launch takes.
    pub(crate) every_variant: Option<f64>,
}

/// Checks and measures one task.
pub(crate) fn run(bench: &Bench, task: &Task) -> Result<Vec<Row>> {
    let (device, on) = (bench.device, bench.on());
    let Some(first) = task.ours.first() else { return Ok(Vec::new()) };
    let common = Operands::new(on, first.form, task.sizes)?;
    let peer = match bench.cublas {
        Some(cublas) => Peer::fastest(bench, cublas, &common, task.sizes)?,
        None => None,
    };
    let mut contenders: Vec<Contender> = peer.iter().map(|peer| peer.contender(on)).collect();
    let mut estimates = Vec::new();
    for (ours, loaded) in task.ours.iter().zip(task.loaded) {
        let operands = common.of(on, ours.form, task.sizes)?;
        let single = task.predict && (task.sizes.batch == 1 || ours.is_batched());
        let first = arguments(ours, &operands.sets[0], task.sizes, 0)?;
        let ranked = if single { loaded.borrow().ranked(device, &first) } else { Vec::new() };
        let chosen = ranked.first().and_then(|(_, estimate)| *estimate);
        let contenders_of = match task.every_variant {
            Some(times) => {
                let least = ranked.iter().filter_map(|(_, estimate)| *estimate).fold(f64::INFINITY, f64::min);
                let is_near = |estimate: &Option<f64>| estimate.is_none_or(|of| of <= least * times);
                let near = ranked.into_iter().filter(|(_, estimate)| is_near(estimate));
                near.map(|(variant, estimate)| (Some(variant), estimate)).collect()
            }
            None => vec![(None, chosen)],
        };
        for (variant, estimate) in contenders_of {
            estimates.push(estimate);
            let loaded = &mut loaded.borrow_mut();
            contenders.push(contender(
                bench,
                Chosen { ours, loaded, variant },
                operands.clone(),
                task.sizes,
            )?);
        }
    }
    let Extents { batch, m, n, k } = task.sizes;
    let case = Case {
        suite: task.suite.clone(),
        problem: if batch == 1 { format!("{m}x{n}x{k}") } else { format!("{batch} of {m}x{n}x{k}") },
        operations: [batch, m, n, k].iter().fold(2.0, |all, &extent| all * extent as f64),
        bytes: operands::bytes(&first.form, task.sizes) as f64,
        contenders,
    };
    let mut rows = case::run(device, bench.helpers, &case, &bench.effort)?;
    for (row, estimate) in rows.iter_mut().rev().zip(estimates.into_iter().rev()) {
        row.predicted = estimate;
    }
    Ok(rows)
}

/// A kernel of ours, compiled, and its variant if not the one that a launch takes.
struct Chosen<'a, 'k> {
    ours: &'a Ours,
    loaded: &'a mut Loaded<'k>,
    variant: Option<usize>,
}

/// One of our kernels on its operands.
fn contender<'a>(
    bench: &Bench<'a>,
    Chosen { ours, loaded, variant }: Chosen<'_, '_>,
    operands: Operands,
    sizes: Extents,
) -> Result<Contender<'a>> {
    let (device, on) = (bench.device, bench.on());
    let launches = if ours.is_batched() { 1 } else { sizes.batch };
    let mut prepare =
        |set: &Set, at: i64| loaded.prepare(device, bench.nvrtc, &arguments(ours, set, sizes, at)?, variant);
    let prepared: Vec<Vec<Prepared>> = operands
        .sets
        .iter()
        .map(|set| (0..launches).map(|at| prepare(set, at)).collect())
        .collect::<Result<_>>()?;
    let note = prepared[0][0].note.clone();
    let begin = Rc::new(move |at: usize| {
        prepared[at % prepared.len()].iter().try_for_each(|launch| launch.begin(device))
    });
    let (running, checked, reads_c) = (begin.clone(), begin, ours.reads_c());
    Ok(Contender {
        name: ours.name.clone() + &variant.map_or(String::new(), |variant| format!(" #{}", variant + 1)),
        note,
        begin: Box::new(move |at| running(at)),
        check: Box::new(move || operands.check(on, reads_c, &*checked)),
        bound: ours.form.bound(),
    })
}

/// The arguments of one of our kernels, for one product of a set or for all of them.
fn arguments(ours: &Ours, set: &Set, sizes: Extents, at: i64) -> Result<Vec<Operand>> {
    let Extents { batch, m, n, k } = sizes;
    let Order { a_rows, b_rows, c_rows } = ours.form.order;
    let matrix = |memory: &Rc<Memory>, [rows, columns]: [i64; 2], rows_contiguous: bool| {
        let strides = if rows_contiguous { [columns, 1] } else { [1, rows] };
        let (mut extents, mut strides) = (vec![rows, columns], strides.to_vec());
        if ours.is_batched() {
            extents.push(batch);
            strides.push(rows * columns);
        }
        Operand::Tensor { memory: memory.clone(), first: (at * rows * columns) as u64, extents, strides }
    };
    let vector = |memory: &Option<Rc<Memory>>, mode: Option<usize>| {
        let (memory, extent) = memory.clone().zip(mode.map(|mode| sizes.of_result(mode)))?;
        Some(Operand::Tensor { memory, first: 0, extents: vec![extent], strides: vec![1] })
    };
    let of_operand = |at: usize| {
        let [of_a, of_b] = operands::operand_scales(ours.form.scales?, sizes);
        let OperandScales { extents, strides, .. } = if at == 0 { of_a } else { of_b };
        Some(Operand::Tensor { memory: set.operand_scales[at].clone()?, first: 0, extents, strides })
    };
    let of_groups = |memory: &Option<Rc<Memory>>| {
        let (memory, of) = memory.clone().zip(ours.form.groups)?;
        let (extents, strides) = (vec![n, of.count(k)], vec![1, n]);
        Some(Operand::Tensor { memory, first: 0, extents, strides })
    };
    let operand = |role: &Role| match role {
        Role::ScalesOfA => of_operand(0),
        Role::ScalesOfB => of_operand(1),
        Role::A => Some(matrix(&set.a, [m, k], a_rows)),
        Role::B => Some(matrix(&set.b, [n, ours.form.k_of_b(k)], b_rows)),
        Role::C => Some(matrix(&set.c, [m, n], c_rows)),
        Role::Scale if ours.form.groups.is_some() => of_groups(&set.scale),
        Role::Zero => of_groups(&set.zero),
        Role::Scale => vector(&set.scale, ours.form.scale.map(|vector| vector.mode)),
        Role::Residual => Some(matrix(set.residual.as_ref()?, [m, n], c_rows)),
        Role::Aux => Some(matrix(set.aux.as_ref()?, [m, n], c_rows)),
        Role::Bias => vector(&set.bias, ours.form.bias.map(|vector| vector.mode)),
        Role::Alpha => Some(Operand::Scalar(1.0)),
        Role::Beta => Some(Operand::Scalar(0.0)),
    };
    let operands: Option<Vec<Operand>> = ours.roles.iter().map(operand).collect();
    operands.ok_or_else(|| format!("`{}` takes more than a product does", ours.name))
}

/// The number of algorithms of the heuristic's list that are tried.
const TRIED: usize = 8;

/// The library's fastest product on this device.
struct Peer<'l> {
    product: Product<'l>,
    operands: Operands,
    /// Is A the second operand?
    swapped: bool,
    workspace: Rc<Memory>,
    note: String,
}

impl<'l> Peer<'l> {
    /// The fastest of the heuristic's first algorithms, and its speed against the very first; `None`, and a message, if
    /// there is none for the problem.
    fn fastest(
        bench: &Bench,
        cublas: &'l CublasLt,
        ours: &Operands,
        sizes: Extents,
    ) -> Result<Option<Peer<'l>>> {
        let without = |why: String| {
            eprintln!("{why}: measured without it");
            Ok(None)
        };
        let form = match ours.form.peer() {
            Ok(form) => form,
            Err(why) => return without(why),
        };
        let operands = ours.of(bench.on(), form, sizes)?;
        let (mut problem, swapped) = Problem::of(&form, sizes);
        let set = &operands.sets[0];
        problem.bias = set.bias.as_ref().map(|bias| bias.address);
        if let ([Some(of_a), Some(of_b)], Some(of)) = (&set.operand_scales, form.scales) {
            let addresses = [of_a.address, of_b.address];
            let scales = match of {
                OfOperands::Rows => addresses.map(Scales::of_rows),
                OfOperands::Blocks => {
                    [Scales::of_rows_by_128(addresses[0]), Scales::of_squares(addresses[1])]
                }
            };
            problem.scales = Some(if swapped { [scales[1], scales[0]] } else { scales });
        }
        let products = match cublas.products(&problem, TRIED) {
            Ok(products) => products,
            Err(cublaslt::Error::None(_)) if form.scales.is_some() => {
                let plain = Form { scales: None, ..ours.form };
                eprintln!("cuBLASLt has no {form}: compared with {plain}, one scale for each operand");
                return Peer::fastest(bench, cublas, &ours.of(bench.on(), plain, sizes)?, sizes);
            }
            Err(none @ cublaslt::Error::None(_)) => return without(none.to_string()),
            Err(why) => return without(format!("{why}, for {problem}")),
        };
        let workspace = bench.device.memory(cublaslt::WORKSPACE)?;
        let mut peers: Vec<Peer> = Vec::new();
        for product in products {
            let (sets, note) = (operands.clone(), String::new());
            peers.push(Peer { product, operands: sets, swapped, workspace: workspace.clone(), note });
        }
        // An algorithm of the list may refuse when it is launched.
        let offered = peers.len();
        peers.retain(|peer| peer.begin(bench.device, 0).is_ok());
        if peers.is_empty() {
            return without(format!("none of cuBLASLt's {offered} algorithms runs for {problem}"));
        }
        let runs: Vec<Box<dyn Fn(usize) -> Result + '_>> = peers
            .iter()
            .map(|peer| Box::new(|at| peer.begin(bench.device, at)) as Box<dyn Fn(usize) -> Result>)
            .collect();
        let begins: Vec<&dyn Fn(usize) -> Result> = runs.iter().map(|run| &**run as _).collect();
        let (samples, _) = case::time(bench.device, bench.helpers, &begins, &Effort::QUICK)?;
        let medians: Vec<f64> = samples.iter().map(|samples| samples.median()).collect();
        let best = (0..medians.len()).min_by(|&a, &b| medians[a].total_cmp(&medians[b])).unwrap_or(0);
        drop(begins);
        drop(runs);
        let note = match best {
            0 => format!("the first of {} algorithms", medians.len()),
            _ => format!(
                "algorithm {} of {}, {:.2} times as fast as the first",
                best + 1,
                medians.len(),
                medians[0] / medians[best]
            ),
        };
        let kind =
            if form.to_string() == ours.form.to_string() { String::new() } else { format!("{form}; ") };
        Ok(Some(Peer { note: kind + &note, ..peers.swap_remove(best) }))
    }

    fn begin(&self, device: &Device, at: usize) -> Result {
        let set = &self.operands.sets[at % self.operands.sets.len()];
        let (a, b) = if self.swapped { (&set.b, &set.a) } else { (&set.a, &set.b) };
        self.product.begin_on(device, [a, b, &set.c, &self.workspace])
    }

    fn contender<'p>(&'p self, on: On<'p>) -> Contender<'p> {
        let begin = move |at| self.begin(on.device, at);
        Contender {
            name: "cuBLASLt".into(),
            note: self.note.clone(),
            begin: Box::new(begin),
            check: Box::new(move || self.operands.check(on, false, &begin)),
            bound: self.operands.form.bound(),
        }
    }
}
