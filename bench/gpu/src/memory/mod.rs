//! Memory-bound works, against a plain copy of the same number of bytes.

mod work;

use std::rc::Rc;

use tilewright::kernels;
use tilewright_codegen::Elem;
use tilewright_codegen::definition::{Definition, Generated};
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::nvrtc::Nvrtc;

use super::Result;
use super::case::{self, Case, Contender, Row};
use super::driver::{Argument, Device, Memory};
use super::helpers::{Error, Helpers};
use super::prepared::{Loaded, Operand, Prepared};
use tilewright_cli::measure::Effort;
use work::{Contents, Given, Task, WORKS};

const REFERENCES: &str = include_str!("references.cu");
const NAMES: &[&str] = &[
    "transposed",
    "softmax",
    "layernorm",
    "rmsnorm",
    "matrix_vector",
    "row_sums_of",
    "column_sums_of",
    "cumulative_sums_of",
    "attraction",
    "integers",
    "distinct",
    "gathered",
    "counts_of",
    "stencil",
];

/// Copies are multiples of this many bytes.
const PAGE: usize = 4096;

/// The selection of the command line.
pub(crate) struct Wanted<'m> {
    /// Names of works; empty for all.
    pub(crate) works: Vec<&'m str>,
    pub(crate) elems: Vec<Elem>,
    /// Rows and columns; empty for the sizes in [`WORKS`].
    pub(crate) sizes: Vec<[i64; 2]>,
    /// Alternative kernels, each as a name and its keys; kernels of further launches follow after semicolons.
    pub(crate) kernels: Vec<&'m str>,
    pub(crate) effort: Effort,
}

/// The names of all works.
pub(crate) fn names() -> Vec<&'static str> {
    WORKS.iter().map(|row| row.0).collect()
}

impl Wanted<'_> {
    fn tasks(&self) -> Result<Vec<Task>> {
        if let Some(name) = self.works.iter().find(|name| !names().contains(name)) {
            return Err(format!("`{name}` is no work; write some of {}", names().join(", ")));
        }
        let mut tasks = Vec::new();
        for (name, work, usual) in WORKS {
            if !self.works.is_empty() && !self.works.contains(name) {
                continue;
            }
            let sizes = if self.sizes.is_empty() { *usual } else { &self.sizes };
            for &elem in &self.elems {
                tasks.extend(sizes.iter().map(|&sizes| Task { work: *work, elem, sizes }));
            }
        }
        Ok(tasks.into_iter().filter(Task::exists).collect())
    }
}

/// Checks and measures everything; reports each table when it is complete.
pub(crate) fn run(
    device: &Device,
    nvrtc: &Nvrtc,
    wanted: &Wanted,
    tell: &dyn Fn(&[Row]) -> Result,
) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    let helpers = Helpers::with(device, nvrtc, REFERENCES, NAMES)?;
    let bench = Bench { device, nvrtc, helpers: &helpers };
    for task in wanted.tasks()? {
        let rows = one(&bench, &task, &wanted.kernels, &wanted.effort)?;
        tell(&rows)?;
        all.extend(rows);
    }
    Ok(all)
}

struct Bench<'a> {
    device: &'a Device,
    nvrtc: &'a Nvrtc,
    helpers: &'a Helpers<'a>,
}

/// One set of data: the memories of a task.
type Set = Vec<Rc<Memory>>;

/// A contender of a task: the kernel of each launch, and its arguments.
struct Way {
    name: String,
    steps: Vec<(Generated, Vec<Given>)>,
}

/// The chooser's kernels, and alternatives for the first launch or for several.
fn ways(task: &Task, given: &[&str]) -> Result<Vec<Way>> {
    let steps = task.steps();
    let chosen: Vec<(Generated, Vec<Given>)> = steps
        .iter()
        .map(|step| Ok((step.kernel.def()?.generate()?, step.given.clone())))
        .collect::<std::result::Result<_, tilewright::KernelErrors>>()
        .map_err(|why| why.to_string())?;
    let kernel = |line: &str| {
        let (name, keys) = line.split_once(' ').unwrap_or((line, ""));
        let shipped = kernels::named(name).ok_or_else(|| format!("there is no kernel `{name}`"))?;
        let keys =
            format!("{keys} {}", if keys.contains("T=") { String::new() } else { typed(&shipped.def, task) });
        let def = Words::specialize(&shipped.def, keys.trim()).map_err(|why| why.to_string())?;
        def.generate().map_err(|why| why.to_string())
    };
    // Kernels of further launches follow after semicolons.
    let other = |line: &&str| {
        let mut steps = chosen.clone();
        let tile = line.split([' ', ';']).find_map(|key| key.strip_prefix("W=")?.parse().ok());
        for (step, line) in steps.iter_mut().zip(line.split(';')) {
            step.0 = kernel(line.trim())?;
        }
        if let (Some(tile), true) = (tile, line.contains(';')) {
            steps.iter_mut().for_each(|step| task.in_tiles(&mut step.1, tile));
        }
        Ok(Way { name: (*line).to_owned(), steps })
    };
    let others = given.iter().map(other).collect::<Result<Vec<Way>>>()?;
    let first = Way { name: steps[0].kernel.to_string(), steps: chosen.clone() };
    Ok([first].into_iter().chain(others).collect())
}

/// The task's element type, where a kernel has several.
fn typed(def: &tilewright::KernelDef, task: &Task) -> String {
    let types = match def.definition() {
        Some(Definition::Function(kernel, _)) => !kernel.types.is_empty(),
        _ => false,
    };
    if types { format!("T={}", task.elem) } else { String::new() }
}

fn one(bench: &Bench, task: &Task, given: &[&str], effort: &Effort) -> Result<Vec<Row>> {
    let (device, helpers) = (bench.device, bench.helpers);
    let (memories, result) = task.memories();
    let bytes = task.bytes() as usize;
    let sets: Vec<Set> = (0..sets(device.cache, bytes))
        .map(|at| {
            let memory = |(index, (elem, count)): (usize, &(Elem, i64))| {
                let memory = device.memory(*count as usize * elem.bytes() as usize)?;
                let seed = (16 * at + index) as u64;
                fill(bench, task.contents(index), &memory, (*elem, *count as u64), seed)?;
                Ok(memory)
            };
            memories.iter().enumerate().map(memory).collect()
        })
        .collect::<Result<_>>()?;
    // The copy: half of the bytes are read, and as many written. The driver is slower at odd numbers.
    let half = (bytes / 2 / PAGE * PAGE).max(16);
    let copied: Vec<[Rc<Memory>; 2]> =
        (0..sets.len()).map(|_| Ok([device.memory(half)?, device.memory(half)?])).collect::<Result<_>>()?;
    let expected = device.memory(memories[result].1 as usize * 8)?;
    let (sets, copied, expected) = (&sets, &copied, &expected);

    let check = |begin: &dyn Fn(usize) -> Result| -> Result<Error> {
        let mut worst: Option<Error> = None;
        for at in [0, sets.len() - 1] {
            let set = &sets[at];
            let (name, sizes) = task.reference();
            let inputs = set[..result].iter().zip(&memories);
            let mut arguments: Vec<Argument> =
                inputs.map(|(memory, (elem, _))| Argument::array(memory, *elem)).collect();
            arguments.extend([expected.address].into_iter().chain(sizes).map(Argument::word));
            // Some references add.
            device.set(expected, 0)?;
            helpers.launch(name, helpers.everywhere(), &arguments)?;
            for (bench, memory) in set.iter().enumerate().skip(result) {
                device.set(memory, if task.contents(bench) == Contents::Zeros { 0 } else { 0xff })?;
            }
            begin(at)?;
            let error = helpers.compare(&set[result], memories[result].0, expected, task.magnitude())?;
            worst = Some(worst.map_or(error, |worst| case::worse(worst, error)));
        }
        worst.ok_or_else(|| "nothing was checked".into())
    };
    let check = &check;

    let mut contenders = vec![Contender {
        name: "copy".into(),
        note: "half read, half written".into(),
        begin: Box::new(move |at| {
            let [from, to] = &copied[at % copied.len()];
            device.copy(from, to, half)
        }),
        check: Box::new(|| Ok(Error { relative: 0.0, largest: 0.0, missing: 0 })),
        bound: 0.0,
    }];
    let ways = ways(task, given)?;
    for way in &ways {
        let mut loaded: Vec<Loaded> = way.steps.iter().map(|(kernel, _)| Loaded::new(kernel)).collect();
        let prepared: Vec<Vec<Prepared>> =
            sets.iter().map(|set| prepare(bench, way, &mut loaded, set)).collect::<Result<_>>()?;
        let note = prepared[0].iter().map(|step| step.note.clone()).collect::<Vec<_>>().join("; ");
        let begin = Rc::new(move |at: usize| {
            prepared[at % prepared.len()].iter().try_for_each(|launch| launch.begin(device))
        });
        let (running, checked) = (begin.clone(), begin);
        contenders.push(Contender {
            name: way.name.clone(),
            note,
            begin: Box::new(move |at| running(at)),
            check: Box::new(move || check(&*checked)),
            bound: task.bound(),
        });
    }
    let case = Case {
        suite: format!("{} {}", task.name(), memories[0].0),
        problem: task.problem(),
        operations: task.operations(),
        bytes: bytes as f64,
        contenders,
    };
    case::run(device, helpers, &case, effort)
}

/// Fills a memory with its initial contents.
fn fill(bench: &Bench, contents: Contents, memory: &Memory, of: (Elem, u64), seed: u64) -> Result {
    let helpers = bench.helpers;
    let integers = |name: &str, below: u64| {
        let words = [memory.address, of.1, seed, below].map(Argument::word);
        helpers.launch(name, helpers.everywhere(), &words)
    };
    match contents {
        Contents::Random => helpers.fill(memory, of.0, seed),
        Contents::Below(below) => integers("integers", below),
        Contents::Distinct(below) => integers("distinct", below),
        // A launch leaves them 0 again, so that also sets that no check prepares are right.
        Contents::Zeros => bench.device.set(memory, 0),
        // Results are prepared by each check.
        Contents::Poison => Ok(()),
    }
}

/// The number of sets that must rotate so that a launch finds none of its data in the cache.
fn sets(cache: usize, bytes: usize) -> usize {
    (3 * cache).div_ceil(bytes.max(1)).clamp(2, 16)
}

fn prepare(bench: &Bench, way: &Way, loaded: &mut [Loaded], set: &Set) -> Result<Vec<Prepared>> {
    let operand = |given: &Given| match given {
        Given::Scalar(value) => Operand::Scalar(*value),
        Given::Tensor(tensor) => Operand::Tensor {
            memory: set[tensor.memory].clone(),
            first: 0,
            extents: tensor.extents.clone(),
            strides: tensor.strides.clone(),
        },
    };
    let each = way.steps.iter().zip(loaded).map(|((_, given), loaded)| {
        let operands: Vec<Operand> = given.iter().map(operand).collect();
        loaded.prepare(bench.device, bench.nvrtc, &operands, None)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright_codegen::launch::{Given as Passed, Limits, Tensor, plan};

    fn all() -> Vec<Task> {
        let elems = vec![Elem::F32, Elem::F16, Elem::Bf16];
        let wanted = Wanted { works: vec![], elems, sizes: vec![], kernels: vec![], effort: Effort::QUICK };
        wanted.tasks().unwrap()
    }

    /// The arguments of a launch, without a device.
    fn passed(task: &Task, kernel: &Generated, given: &[Given]) -> Vec<Passed> {
        let (memories, _) = task.memories();
        let one = |(param, given): (&tilewright_codegen::definition::Param, &Given)| match given {
            Given::Scalar(_) => Passed::Scalar(param.elem),
            Given::Tensor(tensor) => {
                let (elem, count) = memories[tensor.memory];
                Passed::Tensor(Tensor {
                    elem,
                    mutable: param.tensor.is_some_and(|(mutable, _)| mutable),
                    extents: tensor.extents.clone(),
                    strides: tensor.strides.clone(),
                    len: count as u64,
                    address: (tensor.memory as u64 + 1) << 40,
                })
            }
        };
        kernel.params.iter().zip(given).map(one).collect()
    }

    #[test]
    fn every_task_can_be_launched() {
        for task in all() {
            assert!(NAMES.contains(&task.reference().0), "{task:?}");
            let steps = task.steps();
            let ways = ways(&task, &[]).unwrap();
            for (step, (kernel, given)) in steps.iter().zip(&ways[0].steps) {
                assert_eq!(given.len(), kernel.params.len(), "{task:?}");
                let plan = plan(kernel, &passed(&task, kernel, given), &Limits::HOPPER);
                plan.unwrap_or_else(|why| panic!("{task:?}, {}: {why}", step.kernel));
            }
        }
    }

    #[test]
    fn alternatives_of_two_launches() {
        for (elem, vector) in [(Elem::F32, 4), (Elem::Bf16, 8)] {
            for width in [2048, 4096, 8192] {
                let task = Task { work: WORKS[1].1, elem, sizes: [3, 250_001] };
                let keys = format!("W={width} L=256 V={vector}");
                let line = format!("piece_maxima {keys}; softmax_of_pieces {keys}");
                let way = ways(&task, &[&line]).unwrap().remove(1);
                assert_eq!(way.steps.len(), 2);
                for (kernel, given) in &way.steps {
                    let plan = plan(kernel, &passed(&task, kernel, given), &Limits::HOPPER);
                    plan.unwrap_or_else(|why| panic!("{line}: {why}"));
                }
            }
        }
    }

    #[test]
    fn mistakes_are_named() {
        let wanted = Wanted {
            works: vec!["sofmax"],
            elems: vec![],
            sizes: vec![],
            kernels: vec![],
            effort: Effort::QUICK,
        };
        let message = wanted.tasks().unwrap_err();
        assert!(message.starts_with("`sofmax` is no work; write some of transpose, softmax,"), "{message}");
    }

    #[test]
    fn references_compile() {
        let Ok(nvrtc) = Nvrtc::find(&[]) else {
            println!("skipped: no NVRTC");
            return;
        };
        let source = super::super::helpers::source() + REFERENCES;
        let compiled = nvrtc.compile(&source, "helpers", "sm_90a", &[]).unwrap_or_else(|why| panic!("{why}"));
        for name in NAMES {
            assert!(compiled.usage_of(name).is_some(), "{name} is not there");
        }
    }
}
