//! Static checks of a kernel: elements that are multiplied or stored at the wrong coordinates, races between
//! the threads of a block, shared memory above the limit, bank conflicts, uncoalesced accesses, and the
//! numbers of the report.
//!
//! Everything is decided by evaluating layouts for threads, loop variables and arguments with representative
//! values, within a budget. Questions that exceed the budget are listed, never guessed.

mod accesses;
mod blocks;
mod combination;
mod coordinates;
mod cores;
mod coverage;
mod deterministic;
mod flags;
mod intensity;
mod lints;
mod races;
pub mod registers;
pub mod shared_limits;
pub(crate) mod threads;
mod touch;
mod unread;
mod unwritten;
mod warp;

use tilewright_layout::WarpAccess;

use crate::cuda::Names;
use crate::cuda::report::{Access, Report};
use crate::launch::definition::Generated;
use crate::source::ast::{Level, Name, Span};
use crate::source::diagnostic::{Diagnostic, Lint};
use crate::thread::{Id, Kernel, Param};
use crate::tile::Program;
use crate::view_elements::Budget;
use accesses::Site;

/// Evaluations of one kernel: the value of one expression or one element for one thread.
pub const MOST_EVALUATIONS: u32 = 60_000;

/// The part of the budget that is reserved for accesses.
const FOR_ACCESSES: u32 = 15_000;

/// The part of the budget for the dataflow of coordinates. Kernels whose thread layouts match take few.
const FOR_COORDINATES: u32 = 20_000;

/// The outcome of the checks.
#[derive(Debug, Default)]
pub struct Checked {
    /// Errors, and lints at their levels.
    pub diagnostics: Vec<Diagnostic>,
    /// Undecided questions.
    undecided: Vec<String>,
    /// How many evaluations it took.
    pub spent: u32,
}

/// The level of a lint by name.
fn level(lint: &str, levels: &[(Name, Level)]) -> Level {
    debug_assert!(Lint::named(lint).is_some(), "the table lacks `{lint}`");
    Lint::named(lint).map_or(Level::Allow, |lint| lint.level_among(levels))
}

/// An error as a lint at its level; `None` if it is allowed.
fn lint(name: &'static str, levels: &[(Name, Level)], error: Diagnostic) -> Option<Diagnostic> {
    let level = level(name, levels);
    (level != Level::Allow).then_some(Diagnostic { level, lint: Some(name), ..error })
}

/// Preconditions of all other checks: which threads execute which statement.
pub fn threads(program: &Program) -> Vec<Diagnostic> {
    threads::find(program)
}

/// The checks of a program of whole tiles: legal code that is probably not meant. A program of the builder has no text to
/// point at.
pub fn meant(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    let mut findings = coverage::find(program, levels);
    findings.append(&mut cores::find(program, levels));
    findings.append(&mut flags::find(program));
    findings.retain(|diagnostic| diagnostic.span != Span::default());
    findings
}

/// The check of a program as its author wrote it: coordinates that do not match.
pub fn written(program: &Program, levels: &[(Name, Level)]) -> Checked {
    let mut budget = Budget::of(FOR_COORDINATES);
    let diagnostics = coordinates::find(program, levels, &mut budget);
    let undecided = budget.short.then(|| {
        "whether elements are stored where they belong: following them takes too many evaluations".to_owned()
    });
    let spent = FOR_COORDINATES - budget.left;
    Checked { diagnostics, undecided: undecided.into_iter().collect(), spent }
}

/// The checks of a program before it is lowered: races. Findings are appended.
pub fn program(program: &Program, levels: &[(Name, Level)], before: &mut Checked) {
    let mut budget = Budget::of(MOST_EVALUATIONS - FOR_ACCESSES - before.spent);
    let findings = races::find(program, &mut budget);
    before.spent = MOST_EVALUATIONS - FOR_ACCESSES - budget.left;
    // If there is an error, an unread tensor may be its consequence.
    let idle = if findings.errors.is_empty() { unread::find(program, levels) } else { Vec::new() };
    before.diagnostics.extend(findings.errors);
    before.diagnostics.extend(blocks::find(program));
    before.diagnostics.extend(unwritten::find(program, levels));
    before.diagnostics.extend(idle);
    before.diagnostics.extend(deterministic::find(program, levels));
    before.diagnostics.extend(combination::find(program, levels));
    for (span, text) in findings.undecided {
        before.diagnostics.extend(lint("possible_race", levels, Diagnostic::error(span, text.as_str())));
        before.undecided.push(text);
    }
}

/// The checks of its fastest variant, and the report. Findings are appended.
pub fn kernel(program: &Program, kernel: &Kernel, levels: &[(Name, Level)], before: &mut Checked) -> Report {
    let mut budget = Budget::of(MOST_EVALUATIONS - before.spent);
    let sites = accesses::measure(kernel, &mut budget);
    before.diagnostics.extend(shared_limits::shared_memory(program, kernel));
    before.diagnostics.extend(lints::bank_conflicts(program, kernel, &sites, levels, &mut budget));
    before.diagnostics.extend(lints::uncoalesced(program, kernel, &sites, levels, &mut budget));
    before.spent = MOST_EVALUATIONS - budget.left;
    reported(kernel, &sites, std::mem::take(&mut before.undecided))
}

/// The static report of a variant, by its index. Checks of the whole kernel are part of the first one's.
///
/// ```
/// use tilewright_codegen::{Definition, Generate, report_of};
/// let kernel = Definition::Matmul(Vec::new()).generate().kernel.unwrap();
/// assert_eq!(report_of(&kernel, 0), kernel.report);
/// assert_eq!(report_of(&kernel, kernel.variants.len() - 1).needs, [""; 0]);
/// ```
pub fn report_of(kernel: &Generated, variant: usize) -> Report {
    match variant {
        0 => kernel.report.clone(),
        other => report(&kernel.variant(other).program),
    }
}

/// The report of any variant.
pub(crate) fn report(kernel: &Kernel) -> Report {
    reported(kernel, &accesses::measure(kernel, &mut Budget::of(MOST_EVALUATIONS)), Vec::new())
}

/// An access of a kernel with the addresses of a warp.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Its line in the report.
    pub access: Access,
    /// The author's statement.
    pub span: Span,
    /// The warp's access that costs the most, in bytes from the beginning of the array or of the tensor. `None` if the evaluation
    /// is left to the simulator.
    pub warp: Option<WarpAccess>,
}

/// The accesses of a variant, by its index, in the order of the report.
///
/// ```
/// use tilewright_codegen::{Definition, Generate, accesses_of};
/// let kernel = Definition::Matmul(Vec::new()).generate().kernel.unwrap();
/// let first = &accesses_of(&kernel, 0)[0];
/// assert_eq!(first.access, kernel.report.accesses[0]);
/// let sectors = first.warp.unwrap().sectors(256).unwrap();
/// assert_eq!(first.access.sectors, Some((sectors.sectors, sectors.ideal_sectors)));
/// ```
pub fn accesses_of(kernel: &Generated, variant: usize) -> Vec<Sample> {
    let kernel = &kernel.variant(variant).program;
    let names = Names::of(kernel);
    let mut samples: Vec<Sample> = Vec::new();
    for site in accesses::measure(kernel, &mut Budget::of(MOST_EVALUATIONS)) {
        let (access, span) = (site.line(&names), site.span);
        if !samples.iter().any(|known| (known.span, &known.access) == (span, &access)) {
            samples.push(Sample { access, span, warp: site.worst });
        }
    }
    samples
}

fn reported(kernel: &Kernel, sites: &[Site], mut undecided: Vec<String>) -> Report {
    let (mut lines, names): (Vec<Access>, _) = (Vec::new(), Names::of(kernel));
    for site in sites {
        let line = site.line(&names);
        if site.left {
            undecided.push(format!("`{}`: the cost of an access is left to the simulator", line.tensor));
        } else if !lines.contains(&line) {
            lines.push(line);
        }
    }
    undecided.dedup();
    let pointer = |&at: &Id| match &kernel.params[at as usize] {
        Param::Pointer { name, .. } => Some(name.clone()),
        _ => None,
    };
    let in_memory = names.shared.into_iter().chain(names.bars.into_iter().filter(|name| !name.is_empty()));
    Report {
        alternatives: Vec::new(),
        left_out: Vec::new(),
        instruction: None,
        threads: kernel.launch.threads,
        shared_bytes: kernel.launch.shared_bytes,
        shared: in_memory.zip(shared_limits::parts(kernel)).map(|(name, (_, bytes))| (name, bytes)).collect(),
        accesses: lines,
        intensity: intensity::main_loop(kernel),
        needs: crate::cuda::needs(kernel),
        packs: kernel.launch.packs.iter().filter_map(pointer).collect(),
        undecided,
        compiled: Vec::new(),
    }
}
