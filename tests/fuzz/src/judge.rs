//! Compares a kernel in the simulator with the meaning of its text: every variant, on sizes of every kind.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tilewright_codegen::ast::{Kernel, Level};
use tilewright_codegen::definition::Generated;
use tilewright_codegen::diagnostic::Diagnostic;
use tilewright_codegen::launch::Limits;
use tilewright_codegen::tile::Program;
use tilewright_codegen::{Definition, Generate};
use tilewright_sim::{Arg, Error, FaultKind, Options, Outcome, run_every, run_variant};

use crate::case::{Case, Fit, Sizes, Tensor};
use crate::matmul;
use crate::options::{self, Choice};
use crate::whole::{self, Buffer, Undefined};

/// The verdict on a kernel.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It was refused while compiling, for this reason.
    Refused(String),
    /// Its behaviour is undefined, for this reason.
    Undefined(String),
    /// Oracle and simulator agree.
    Right(Box<Right>),
    /// Oracle and simulator differ.
    Wrong(Box<Wrong>),
}

/// A passing kernel.
#[derive(Clone, Debug)]
pub struct Right {
    /// The program as it was run.
    pub program: Program,
    /// The kernel.
    pub kernel: Generated,
    /// Constructs of its text.
    pub constructs: Vec<&'static str>,
    /// Options of its statements, if it is text.
    pub options: BTreeSet<Choice>,
    /// How often each variant ran.
    pub ran: Vec<u32>,
    /// Reasons of refused launches.
    pub refused: Vec<String>,
    /// The number of elements that were compared, and how many of them had unknown values.
    pub elements: [u64; 2],
}

/// A failing kernel.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The run that shows it, unless the kernel could not be generated.
    pub case: Option<Case>,
    /// Which variant.
    pub variant: usize,
    /// The difference.
    pub why: String,
}

/// How a kernel is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of sizes, elements and schedules.
    pub seed: u64,
    /// How many runs of each choice of sizes.
    pub runs: u32,
    /// Fixed sizes.
    pub sizes: Sizes,
}

/// The text of a kernel; a product by keys has none.
fn text(of: &Definition) -> Option<&Kernel> {
    if let Definition::Function(kernel, _) = of { Some(kernel) } else { None }
}

/// Runs a kernel.
pub fn judge(of: &Definition, plan: &Plan) -> Verdict {
    match catch_unwind(AssertUnwindSafe(|| judged(of, plan))) {
        Ok(verdict) => verdict,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let why = format!("a panic: {}", text.unwrap_or_default());
            Verdict::Wrong(Box::new(Wrong { case: None, variant: 0, why }))
        }
    }
}

/// The tile program of a kernel and what is generated, or the first error.
pub fn prepare(of: &Definition) -> Result<(Program, Generated), String> {
    let first = |all: &[Diagnostic]| {
        let wrong = all.iter().find(|diagnostic| diagnostic.level == Level::Deny);
        wrong.map_or_else(String::new, |diagnostic| diagnostic.message.clone())
    };
    let program = of.program().map_err(|all| first(&all))?;
    let outcome = of.generate();
    let kernel = outcome.kernel.ok_or_else(|| first(&outcome.diagnostics))?;
    Ok((program, kernel))
}

/// The expected buffers after a run.
pub fn wanted(of: &Definition, program: &Program, case: &Case) -> Result<Vec<Buffer>, Undefined> {
    match of {
        Definition::Function(kernel, settings) => whole::run(kernel, settings, case),
        Definition::Matmul(_) => matmul::run(program, case),
    }
}

fn judged(of: &Definition, plan: &Plan) -> Verdict {
    let (program, kernel) = match prepare(of) {
        Ok(made) => made,
        // A check of what the generator has made, and no answer to the author.
        Err(why) if why.starts_with("internal error") => {
            return Verdict::Wrong(Box::new(Wrong { case: None, variant: 0, why }));
        }
        Err(why) => return Verdict::Refused(why),
    };
    let mut right = Right {
        ran: vec![0; kernel.variants.len()],
        kernel,
        program,
        constructs: text(of).map_or_else(Vec::new, whole::constructs),
        options: text(of).map_or_else(BTreeSet::new, options::of_kernel),
        refused: Vec::new(),
        elements: [0; 2],
    };
    for run in 0..plan.runs {
        for (index, fit) in [Fit::Whole, Fit::Any, Fit::Aligned].into_iter().enumerate() {
            let seed = plan.seed.wrapping_mul(97).wrapping_add(u64::from(run) * 3 + index as u64);
            let Some(case) = Case::draw(&right.program, &right.kernel, fit, seed, &plan.sizes) else {
                continue;
            };
            if let Some(verdict) = right.run(of, case, seed) {
                return verdict;
            }
        }
    }
    right.constructs.sort_unstable();
    right.constructs.dedup();
    Verdict::Right(Box::new(right))
}

impl Right {
    /// One run of every variant; `Some` if that ends the test.
    fn run(&mut self, of: &Definition, case: Case, seed: u64) -> Option<Verdict> {
        const MOST_BLOCKS: i64 = 64;
        let grid = case.grid(&self.program)?;
        if grid.iter().product::<i64>() > MOST_BLOCKS {
            return None;
        }
        if let Some(kernel) = text(of)
            && !whole::asserted(kernel, &case)
        {
            return self.refused_launch(case, seed);
        }
        let wanted = match wanted(of, &self.program, &case) {
            Ok(wanted) => wanted,
            Err(undefined) if undefined.0 == whole::FALSE_CLAIM => return self.false_claim(case, seed),
            Err(undefined) if undefined.0 == whole::MIXED_COORDINATES => {
                return Some(Verdict::Wrong(Box::new(Wrong {
                    case: Some(case),
                    variant: 0,
                    why: undefined.0,
                })));
            }
            Err(undefined) => return Some(Verdict::Undefined(undefined.0)),
        };
        let args = case.args(&self.program);
        // Few multiprocessors, so that persistent kernels have several tiles for each block.
        let is_alone = self.program.cluster == [1; 3] && seed.is_multiple_of(2);
        let limits = Limits { multiprocessors: if is_alone { 1 } else { 2 }, ..Limits::HOPPER };
        let options = Options { seed, count: false, threads: 1, limits, ..Options::default() };
        let (mut ran, facts) = (false, case.facts());
        for variant in 0..self.kernel.variants.len() {
            let why = match run_variant(&self.kernel, variant, &args, &options) {
                Ok(outcome) => {
                    if !ran {
                        self.constructs.extend(&facts);
                    }
                    ran = true;
                    self.ran[variant] += 1;
                    let buffer = |name: &str| outcome.bytes(name).map(<[u8]>::to_vec);
                    self.compare(&case, &wanted, &buffer)
                }
                Err(Error::Refused(why)) if variant + 1 == self.kernel.variants.len() && !ran => {
                    self.without_loops(&case, &wanted, &args, &options, &why.to_string())
                }
                Err(Error::Refused(why)) if why.to_string().contains("the kernel asserts") => {
                    Some(format!("a launch is refused, and all assertions hold: {why}"))
                }
                Err(Error::Refused(_)) => None,
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = why {
                return Some(Verdict::Wrong(Box::new(Wrong { case: Some(case), variant, why })));
            }
        }
        let (variant, why) = self.difference(&case, &wanted, &options)?;
        Some(Verdict::Wrong(Box::new(Wrong { case: Some(case), variant, why })))
    }

    /// The first variant that differs from another in exact arithmetic, in elements that are specified, and how.
    fn difference(&self, case: &Case, wanted: &[Buffer], options: &Options) -> Option<(usize, String)> {
        let args = case.args(&self.program);
        // The run before has detected races.
        let options = Options { exact: true, races: false, ..options.clone() };
        let mut first: Option<Outcome> = None;
        for variant in 0..self.kernel.variants.len() {
            let outcome = match run_variant(&self.kernel, variant, &args, &options) {
                Ok(outcome) => outcome,
                Err(Error::Refused(_)) => continue,
                Err(error) => return Some((variant, format!("in exact arithmetic: {error}"))),
            };
            let Some(first) = &first else {
                first = Some(outcome);
                continue;
            };
            let differs = |(tensor, wanted): &(&Tensor, &Buffer)| {
                let [one, other] =
                    [first, &outcome].map(|of| of.bytes(&tensor.name).map(|all| tensor.decoded(all)));
                let (Some(one), Some(other)) = (&one, &other) else { return one != other };
                let is_known = |at: usize| wanted.all[at].is_none_or(|num| !num.is_unknown());
                (0..one.len()).any(|at| one[at] != other[at] && is_known(at))
            };
            if let Some((tensor, _)) = case.tensors.iter().zip(wanted).find(differs) {
                let (name, other) = (&tensor.name, first.variant() + 1);
                return Some((variant, format!("in exact arithmetic `{name}` differs from variant {other}")));
            }
        }
        None
    }

    /// A run in which a claim is false: the simulator reports it, if there are blocks.
    fn false_claim(&mut self, case: Case, seed: u64) -> Option<Verdict> {
        let args = case.args(&self.program);
        let options = Options { seed, count: false, threads: 1, ..Options::default() };
        for variant in 0..self.kernel.variants.len() {
            let why = match run_variant(&self.kernel, variant, &args, &options) {
                Err(Error::Fault(fault)) if fault.kind() == FaultKind::FalseClaim => continue,
                Err(Error::Refused(_)) => continue,
                // There is no launch where no tensor that it writes has elements.
                Ok(outcome) if outcome.grid().contains(&0) => continue,
                Err(other) => other.to_string(),
                Ok(_) => "a claim is believed that is false".into(),
            };
            return Some(Verdict::Wrong(Box::new(Wrong { case: Some(case), variant, why })));
        }
        None
    }

    /// A launch for which an assertion does not hold, or has no value.
    fn refused_launch(&mut self, case: Case, seed: u64) -> Option<Verdict> {
        let args = case.args(&self.program);
        let options = Options { seed, count: false, threads: 1, ..Options::default() };
        match run_every(&self.kernel, &args, &options) {
            Err(Error::Refused(why)) => {
                self.refused.push(why.to_string());
                None
            }
            _ => {
                let why = "a launch is accepted whose assertion does not hold".into();
                Some(Verdict::Wrong(Box::new(Wrong { case: Some(case), variant: 0, why })))
            }
        }
    }

    /// The run of a kernel that no variant takes: where a size is 0 that only loops run over, it has a program without them.
    fn without_loops(
        &mut self,
        case: &Case,
        wanted: &[Buffer],
        args: &[Arg],
        options: &Options,
        refused: &str,
    ) -> Option<String> {
        let outcomes = match run_every(&self.kernel, args, options) {
            Ok(outcomes) => outcomes,
            Err(Error::Refused(_)) => {
                self.refused.push(refused.to_owned());
                return None;
            }
            Err(error) => return Some(error.to_string()),
        };
        self.constructs.push("sizes: 0 along a loop");
        let buffer = |outcome: &Outcome, name: &str| outcome.bytes(name).map(<[u8]>::to_vec);
        outcomes.iter().find_map(|outcome| self.compare(case, wanted, &|name| buffer(outcome, name)))
    }

    fn compare(
        &mut self,
        case: &Case,
        wanted: &[Buffer],
        buffer: &dyn Fn(&str) -> Option<Vec<u8>>,
    ) -> Option<String> {
        for (tensor, wanted) in case.tensors.iter().zip(wanted) {
            let Some(bytes) = buffer(&tensor.name) else { continue };
            let bits = tensor.decoded(&bytes);
            let known = wanted.all.iter().flatten();
            self.elements[0] += known.clone().count() as u64;
            self.elements[1] += known.filter(|num| num.is_unknown()).count() as u64;
            if let Some(why) = tensor.wrong(&bits, wanted) {
                return Some(why);
            }
        }
        None
    }
}
