//! Attention on tensor cores: the shipped kernel with several constants, against its first.

use std::rc::Rc;

use tilewright::kernels;
use tilewright_codegen::Elem;
use tilewright_codegen::definition::Generated;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_runtime::nvrtc::Nvrtc;

use super::Result;
use super::case::{self, Case, Contender, Row};
use super::driver::{Argument, Device, Memory};
use super::helpers::{Error, Helpers};
use super::prepared::{Loaded, Operand, Prepared};
use tilewright_cli::measure::Effort;

const REFERENCE: &str = include_str!("attention.cu");
const ELEM: Elem = Elem::Bf16;
/// The largest D of the reference.
const WIDEST: i64 = 512;

/// The selection of the command line.
pub(crate) struct Wanted<'m> {
    /// Heads, queries, keys, D.
    pub(crate) sizes: Vec<[i64; 4]>,
    /// Causal, without a mask, or both.
    pub(crate) masks: Vec<bool>,
    /// Constants of the kernel.
    pub(crate) constants: Vec<&'m str>,
    pub(crate) effort: Effort,
}

/// One problem.
#[derive(Clone, Copy)]
struct Task {
    sizes: [i64; 4],
    causal: bool,
}

impl Task {
    fn suite(&self) -> String {
        format!("attention {ELEM}{}", if self.causal { " causal" } else { "" })
    }

    fn problem(&self) -> String {
        let [heads, m, n, d] = self.sizes;
        format!("{heads} of {m}x{n}, D = {d}")
    }

    /// Operations of two products of M·N·D. With a causal mask half of them are counted, as is usual.
    fn operations(&self) -> f64 {
        let all: f64 = self.sizes.iter().map(|&n| n as f64).product();
        if self.causal { 2.0 * all } else { 4.0 * all }
    }

    /// Elements of q, k, v and o.
    fn counts(&self) -> [i64; 4] {
        let [heads, m, n, d] = self.sizes;
        [m, n, n, m].map(|rows| heads * rows * d)
    }

    fn scale(&self) -> f64 {
        1.0 / (self.sizes[3] as f64).sqrt()
    }

    /// The kernel with these constants, after its name where it is another than `attention`.
    fn kernel(&self, constants: &str) -> Result<Generated> {
        let (name, constants) = named(constants);
        let shipped = kernels::named(name).ok_or_else(|| format!("there is no kernel `{name}`"))?;
        let keys = format!("{constants} D={} CAUSAL={}", self.sizes[3], u8::from(self.causal));
        let def = Words::specialize(&shipped.def, keys.trim()).map_err(|why| why.to_string())?;
        def.generate().map_err(|why| why.to_string())
    }

    fn operands(&self, set: &Set) -> Vec<Operand> {
        let [heads, m, n, d] = self.sizes;
        let tensor = |(memory, rows): (&Rc<Memory>, i64)| Operand::Tensor {
            memory: memory.clone(),
            first: 0,
            extents: vec![rows, d, heads],
            strides: vec![d, 1, rows * d],
        };
        let tensors = set.iter().zip([m, n, n, m]).map(tensor);
        tensors.chain([Operand::Scalar(self.scale())]).collect()
    }
}

/// A kernel's name and constants.
fn named(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    if first.is_empty() || first.contains('=') { ("attention", text) } else { (first, rest) }
}

/// q, k, v and o.
type Set = [Rc<Memory>; 4];

/// Probabilities are rounded to bf16, and so is the result.
const BOUND: f64 = 1e-2;

/// Checks and measures everything; reports each table when it is complete.
pub(crate) fn run(
    device: &Device,
    nvrtc: &Nvrtc,
    wanted: &Wanted,
    tell: &dyn Fn(&[Row]) -> Result,
) -> Result<Vec<Row>> {
    let helpers = Helpers::with(device, nvrtc, REFERENCE, &["attended"])?;
    let mut all = Vec::new();
    for &sizes in &wanted.sizes {
        for &causal in &wanted.masks {
            let rows = one(device, nvrtc, &helpers, &Task { sizes, causal }, wanted)?;
            tell(&rows)?;
            all.extend(rows);
        }
    }
    Ok(all)
}

fn one(device: &Device, nvrtc: &Nvrtc, helpers: &Helpers, task: &Task, wanted: &Wanted) -> Result<Vec<Row>> {
    if task.sizes[3] > WIDEST {
        return Err(format!("D is {}, and the reference is for {WIDEST} at most", task.sizes[3]));
    }
    let bytes: i64 = task.counts().iter().sum::<i64>() * i64::from(ELEM.bytes());
    let sets = (3 * device.cache).div_ceil(bytes.max(1) as usize).clamp(2, 64);
    let sets: Vec<Set> = (0..sets).map(|at| set(device, helpers, task, at)).collect::<Result<_>>()?;
    let last = sets.len() - 1;
    let expected =
        [expected(device, helpers, task, &sets[0])?, expected(device, helpers, task, &sets[last])?];
    let (sets, expected) = (&sets, &expected);
    let check = move |begin: &dyn Fn(usize) -> Result| -> Result<Error> {
        let one = |at: usize, expected: &Memory| {
            device.poison(&sets[at][3])?;
            begin(at)?;
            helpers.compare(&sets[at][3], ELEM, expected, 0.0)
        };
        Ok(case::worse(one(0, &expected[0])?, one(last, &expected[1])?))
    };
    let kernels: Vec<Generated> =
        wanted.constants.iter().map(|constants| task.kernel(constants)).collect::<Result<_>>()?;
    let mut contenders = Vec::new();
    for (constants, kernel) in wanted.constants.iter().zip(&kernels) {
        let mut loaded = Loaded::new(kernel);
        let prepare = |set: &Set| loaded.prepare(device, nvrtc, &task.operands(set), None);
        let prepared: Vec<Prepared> = sets.iter().map(prepare).collect::<Result<_>>()?;
        let note = prepared[0].note.clone();
        let begin = Rc::new(move |at: usize| prepared[at % prepared.len()].begin(device));
        let (running, checked) = (begin.clone(), begin);
        contenders.push(Contender {
            name: <[&str; 2]>::from(named(constants)).join(" ").trim_end().to_owned(),
            note,
            begin: Box::new(move |at| running(at)),
            check: Box::new(move || check(&*checked)),
            bound: BOUND,
        });
    }
    let case = Case {
        suite: task.suite(),
        problem: task.problem(),
        operations: task.operations(),
        bytes: bytes as f64,
        contenders,
    };
    case::run(device, helpers, &case, &wanted.effort)
}

/// Random operands, and a result.
fn set(device: &Device, helpers: &Helpers, task: &Task, at: usize) -> Result<Set> {
    let counts = task.counts();
    let memory = |operand: usize| {
        let memory = device.memory(counts[operand] as usize * ELEM.bytes() as usize)?;
        if operand < 3 {
            helpers.fill(&memory, ELEM, (4 * at + operand) as u64)?;
        }
        Ok::<_, String>(memory)
    };
    Ok([memory(0)?, memory(1)?, memory(2)?, memory(3)?])
}

fn expected(device: &Device, helpers: &Helpers, task: &Task, [q, k, v, _]: &Set) -> Result<Rc<Memory>> {
    let [heads, m, n, d] = task.sizes.map(|n| n as u64);
    let expected = device.memory((heads * m * d) as usize * 8)?;
    let tensors = [q, k, v].map(|memory| Argument::array(memory, ELEM));
    let numbers = [expected.address, m, n, d, heads, u64::from(task.causal), task.scale().to_bits()];
    let arguments: Vec<Argument> = tensors.into_iter().chain(numbers.map(Argument::word)).collect();
    helpers.launch("attended", helpers.everywhere(), &arguments)?;
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_the_usual_sizes_exist() {
        for (d, causal) in [(64, true), (128, false)] {
            let task = Task { sizes: [16, 4096, 4096, d], causal };
            let kernel = task.kernel("BM=128 BN=64").unwrap();
            assert_eq!(kernel.params.len(), 5);
            // The share of a causal mask is half.
            let all = 4.0 * 16.0 * 4096.0 * 4096.0 * d as f64;
            assert_eq!(task.operations(), if causal { all / 2.0 } else { all });
        }
        let task = Task { sizes: [1, 64, 64, 64], causal: true };
        assert!(task.kernel("BMM=64").unwrap_err().contains("`attention` has no constant `BMM`"));
    }

    #[test]
    fn the_reference_compiles() {
        let Ok(nvrtc) = Nvrtc::find(&[]) else {
            println!("skipped: no NVRTC");
            return;
        };
        let source = super::super::helpers::source() + REFERENCE;
        let compiled = nvrtc.compile(&source, "helpers", "sm_90a", &[]).unwrap_or_else(|why| panic!("{why}"));
        assert!(compiled.usage_of("attended").is_some());
    }
}
