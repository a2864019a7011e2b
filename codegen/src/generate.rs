//! The driver, from a tile program to a kernel: checks, the variants, the report.

mod pack;

use std::borrow::Cow;

use tilewright_layout::Obligation;

use crate::front::evaluate;
use crate::front::matmul::{self, Programs};
use crate::launch::definition::{Definition, Generated, Outcome, Param, Settings, Variant};
use crate::launch::estimate;
use crate::passes::allocate::allocate;
use crate::passes::check::{self, Checked};
use crate::passes::lower::{lower_expanded, verified};
use crate::passes::project;
use crate::passes::resolve::{self, Width};
use crate::source::ast::{self, Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::source::stack::with_room;
use crate::thread::{Fact, Kernel, Param as ThreadParam};
use crate::tile::alternative::{Alternative, Policy};
use crate::tile::empty_loops;
use crate::tile::verify::{integer_bounds, limits};
use crate::tile::{Arg, Program, Require, Space};
use crate::values::target::{TARGETS, Target};

/// The purpose of a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be launched: every variant is lowered and printed.
    Launch,
    /// To be checked: every program is, but one for each policy is lowered, and the first is printed.
    Check,
}

/// The kernel of a definition.
pub(super) fn made(definition: &Definition, purpose: Purpose) -> Outcome {
    // Names stand for their expressions, so these can be far deeper than the text.
    with_room(|| match definition {
        Definition::Function(kernel, settings) => function(kernel, settings, purpose),
        Definition::Matmul(args) => product(args, purpose),
    })
}

/// The kernel of a function, with all alternatives of its constants that can be made.
fn function(kernel: &ast::Kernel, settings: &Settings, purpose: Purpose) -> Outcome {
    let all = match settings.alternatives(kernel) {
        Ok(all) => all,
        Err(why) => return Outcome { kernel: None, diagnostics: vec![why] },
    };
    let mut evaluated = all.iter().map(|settings| evaluate::program(kernel, settings));
    if all.len() == 1
        && let Some((program, diagnostics, levels)) = evaluated.next()
    {
        return finished(None, program, Vec::new(), diagnostics, &levels, purpose);
    }
    let mut evaluated: Vec<_> = evaluated.collect();
    let labels: Vec<String> = all.iter().map(|one| one.chosen(settings)).collect();
    let mut failed: Option<Outcome> = None;
    let mut left_out = Vec::new();
    for (at, label) in labels.iter().enumerate() {
        let (program, diagnostics, levels) = std::mem::take(&mut evaluated[at]);
        let mut others = Vec::new();
        let mut unfit = left_out.clone();
        for (label, (program, diagnostics, _)) in labels.iter().zip(&evaluated).skip(at + 1) {
            match diagnostics.iter().find(|diagnostic| diagnostic.level == Level::Deny) {
                Some(why) => unfit.push((label.clone(), why.message.clone())),
                None => others.push((label, program)),
            }
        }
        let of = |width, policies: &[Policy]| {
            let policies = policies.to_vec();
            move |(label, program): (&String, &Program)| Alternative {
                program: program.clone(),
                width,
                policies: policies.clone(),
                label: Some(label.clone()),
            }
        };
        let every = || std::iter::once((label, &program)).chain(others.iter().copied());
        let wide = every().skip(1).map(of(Width::WIDEST, &[Policy::Best, Policy::Aligned]));
        let narrow = every().map(of(Width::ONE, &[Policy::Small]));
        let last = every().take(1).map(of(Width::ONE, &[Policy::General]));
        let others = wide.chain(narrow).chain(last).collect();
        let mut outcome = finished(Some(label), program.clone(), others, diagnostics, &levels, purpose);
        if let Some(kernel) = &mut outcome.kernel {
            unfit.append(&mut kernel.report.left_out);
            kernel.report.left_out = unfit;
            return outcome;
        }
        let why = outcome.diagnostics.iter().find(|diagnostic| diagnostic.level == Level::Deny);
        left_out.extend(why.map(|why| (label.clone(), why.message.clone())));
        failed.get_or_insert(outcome);
    }
    failed.unwrap_or(Outcome { kernel: None, diagnostics: Vec::new() })
}

/// The kernel of a product's keys.
fn product(args: &[ast::Arg], purpose: Purpose) -> Outcome {
    match matmul::programs(args) {
        Ok(Programs { wide, others, levels, why, instead }) => {
            let mut outcome = finished(None, wide, others, Vec::new(), &levels, purpose);
            match (&mut outcome.kernel, instead) {
                (Some(kernel), _) => kernel.report.instruction = why,
                // The keys are about tensor cores, not about the threads of a product without them.
                (None, Some(unfit)) => outcome.diagnostics = vec![unfit],
                (None, None) => {}
            }
            outcome
        }
        Err(diagnostics) => Outcome { kernel: None, diagnostics },
    }
}

/// The outcome for a program of the builder.
pub fn generate(program: Program) -> Outcome {
    finished(None, program, Vec::new(), Vec::new(), &[], Purpose::Launch)
}

/// Checks, lowers and prints a program, unless it has errors.
#[cfg(test)]
pub(crate) fn finish(
    program: Program,
    others: Vec<Alternative>,
    diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
) -> Outcome {
    finished(None, program, others, diagnostics, levels, Purpose::Launch)
}

/// The same for an alternative with a label, or for one purpose: see [`checked`].
fn finished(
    label: Option<&String>,
    program: Program,
    others: Vec<Alternative>,
    diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
    purpose: Purpose,
) -> Outcome {
    let refuse = |mut diagnostics: Vec<Diagnostic>, why| {
        diagnostics.push(why);
        Outcome { kernel: None, diagnostics }
    };
    if diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Deny) {
        return Outcome { kernel: None, diagnostics };
    }
    if let Err(why) = limits::program(&program) {
        return refuse(diagnostics, why);
    }
    let mut left_out = LeftOut::default();
    let others = match left_out.made(others, |other| limits::program(&other.program).map(|()| other)) {
        Ok(others) => others,
        Err(why) => return refuse(diagnostics, why),
    };
    let deep = limits::is_deep(&program);
    let work = || checked(label, program, others, left_out, diagnostics, levels, purpose);
    let mut outcome = if deep { with_room(work) } else { work() };
    // If there is an error, unread or left out tiles may be its consequence.
    if outcome
        .diagnostics
        .iter()
        .any(|diagnostic| diagnostic.level == Level::Deny && diagnostic.lint.is_none())
    {
        outcome.diagnostics.retain(|diagnostic| !diagnostic.lint.is_some_and(is_of_meaning));
    }
    outcome
}

/// Is the lint about unused or omitted elements?
fn is_of_meaning(lint: &str) -> bool {
    matches!(
        lint,
        "unused" | "unread" | "covered" | "unbounded" | "contracted" | "elementwise" | "cuda_cores"
    )
}

/// Alternatives that cannot be made, and why not.
#[derive(Default)]
struct LeftOut(Vec<(String, String)>);

impl LeftOut {
    /// The result for each alternative, without alternatives that can be left out and cannot be made.
    fn made<T>(
        &mut self,
        all: Vec<Alternative>,
        mut make: impl FnMut(Alternative) -> std::result::Result<T, Diagnostic>,
    ) -> std::result::Result<Vec<T>, Diagnostic> {
        let mut made = Vec::new();
        for one in all {
            let label = one.label.clone();
            match (make(one), label) {
                (Ok(one), _) => made.push(one),
                (Err(why), Some(label)) => self.put(label, why.message),
                (Err(why), None) => return Err(why),
            }
        }
        Ok(made)
    }

    fn put(&mut self, label: String, why: String) {
        if !self.0.iter().any(|(known, _)| *known == label) {
            self.0.push((label, why));
        }
    }
}

/// Checks, lowers and prints a program that is within limits. `others` are the same kernel for variants that
/// assume less, or with other constants; without them the program itself serves every launch.
fn checked(
    label: Option<&String>,
    program: Program,
    others: Vec<Alternative>,
    mut left_out: LeftOut,
    mut diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
    purpose: Purpose,
) -> Outcome {
    let errors = |all: &[Diagnostic]| all.iter().any(|d| d.level == Level::Deny);
    diagnostics.extend(check::meant(&program, levels));
    let is_open = !program.open.is_empty();
    let empty_loops = empty_loops::all(others.last().map_or(&program, |other| &other.program), general);
    let made = projected(program).and_then(|program| resolved(program, others, &mut left_out));
    let (program, others) = match made {
        Ok(all) => all,
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            return Outcome { kernel: None, diagnostics };
        }
    };
    diagnostics.extend(check::threads(&program));
    if errors(&diagnostics) {
        return Outcome { kernel: None, diagnostics };
    }
    let mut checked = check::written(&program, levels);
    let refuse = |mut diagnostics: Vec<Diagnostic>, mut checked: Checked, why: Diagnostic| {
        diagnostics.append(&mut checked.diagnostics);
        diagnostics.push(why);
        diagnostics.sort_by_key(|diagnostic| diagnostic.span);
        Outcome { kernel: None, diagnostics }
    };
    let mut first = match Expanded::new(program) {
        Ok(first) => first,
        Err(why) => return refuse(diagnostics, checked, why),
    };
    let own = first.program().arch;
    if is_open {
        first.set_arch(raised(first.program()));
    }
    let arch = first.program().arch;
    check::program(first.program(), levels, &mut checked);
    let expand = |other: Alternative| {
        let mut program = Expanded::new(other.program)?;
        // Programs for another architecture stay as they are.
        if is_open && program.program().arch == own {
            program.set_arch(arch);
        }
        Ok((program, other.policies, other.label))
    };
    let others = match left_out.made(others, expand) {
        Ok(others) => others,
        Err(why) => return refuse(diagnostics, checked, why),
    };
    let all = std::iter::once(&first).chain(others.iter().map(|(other, ..)| other));
    let packs = match purpose {
        Purpose::Launch => pack::kernels(first.program(), all.map(Expanded::program)),
        Purpose::Check => Vec::new(),
    };
    let last = [Policy::Small, Policy::General];
    let last = if others.is_empty() { &last[..] } else { &[] };
    let own = [Policy::Best, Policy::Aligned].iter().chain(last).map(|&policy| (policy, &first, label));
    let others = others.iter().flat_map(|(program, policies, label)| {
        policies.iter().map(move |&policy| (policy, program, label.as_ref()))
    });
    let alternatives =
        others.clone().filter(|(.., label)| label.is_some()).map(|(_, program, _)| program.program());
    let mut requires = common(first.program(), alternatives);
    let programs = std::iter::once(&first).chain(others.clone().map(|(_, program, _)| program));
    for require in programs.flat_map(|program| integer_bounds::at_launch(&program.written)) {
        if !requires.contains(&require) {
            requires.push(require);
        }
    }
    let mut variants: Vec<Variant> = Vec::new();
    let mut before: Option<&Expanded> = None;
    let mut lowered: Vec<Policy> = Vec::new();
    for (policy, program, label) in own.chain(others) {
        // A check lowers one variant of each policy and verifies the others. Alternatives with a label are all lowered, since
        // those that lowering refuses are left out.
        if purpose == Purpose::Check && label.is_none() && lowered.contains(&policy) {
            match verified(&program.written, program.program(), policy) {
                Ok(_) => continue,
                Err(why) => return refuse(diagnostics, checked, why),
            }
        }
        lowered.push(policy);
        let again = before.replace(program).is_some_and(|before| std::ptr::eq(before, program));
        let fits = |kernel: Kernel| match check::shared_limits::shared_memory(program.program(), &kernel) {
            Some(why) if !variants.is_empty() => Err(why),
            _ => Ok(kernel),
        };
        match lower_expanded(&program.written, program.program(), policy).and_then(fits) {
            Ok(mut kernel) => {
                if let Some(label) = label
                    && let Err(why) = alike(&requires, program.program(), variants.first(), &mut kernel)
                {
                    left_out.put(label.clone(), why);
                    continue;
                }
                if label.is_some() || program.program().competes {
                    kernel.launch.cost = estimate::cost(&kernel);
                }
                let (needs, launch) = (&kernel.needs, &kernel.launch);
                let serves = |last: &Kernel| {
                    let same = (&last.launch.cost, &last.launch.grid, last.arch)
                        == (&launch.cost, &launch.grid, kernel.arch);
                    last.needs == *needs && (again || same)
                };
                if variants.last().is_some_and(|last| serves(&last.program)) {
                    continue;
                }
                let is_shown = purpose == Purpose::Launch || variants.is_empty();
                let source = if is_shown { crate::cuda::print(&kernel) } else { String::new() };
                variants.push(Variant { label: label.cloned(), source, program: kernel });
            }
            Err(why) => match label {
                Some(label) if !variants.is_empty() => left_out.put(label.clone(), why.message),
                _ => return refuse(diagnostics, checked, why),
            },
        }
    }
    let program = first.program();
    let params = program
        .args
        .iter()
        .map(|arg| match arg {
            Arg::Tensor(id) => {
                let tensor = program.tensor(*id);
                let mutable = matches!(tensor.space, Space::Global { mutable: true });
                Param { name: tensor.name.clone(), elem: tensor.elem, tensor: Some((mutable, tensor.rank())) }
            }
            Arg::Scalar(id) => {
                let scalar = &program.scalars[*id as usize];
                Param { name: scalar.name.clone(), elem: scalar.elem, tensor: None }
            }
        })
        .collect();
    let mut report = check::kernel(program, &variants[0].program, levels, &mut checked);
    for label in variants.iter().filter_map(|variant| variant.label.as_ref()) {
        if !report.alternatives.contains(label) {
            report.alternatives.push(label.clone());
        }
    }
    report.left_out = left_out.0;
    if purpose == Purpose::Check {
        variants.truncate(1);
    }
    diagnostics.append(&mut checked.diagnostics);
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    if errors(&diagnostics) {
        return Outcome { kernel: None, diagnostics };
    }
    let name = program.name.clone();
    Outcome {
        kernel: Some(Generated { name, params, variants, requires, packs, empty_loops, report }),
        diagnostics,
    }
}

/// The variant without assumptions of a program of the builder, if it has one.
fn general(program: &Program) -> Option<Variant> {
    alone(program.clone(), Policy::General).ok()
}

/// One variant of a program of the builder, without checks.
fn alone(program: Program, policy: Policy) -> std::result::Result<Variant, Diagnostic> {
    let is_open = !program.open.is_empty();
    let program = projected(program)?;
    let program = match resolve::resolved(&program, Width::ONE)? {
        Cow::Owned(resolved) => resolved,
        Cow::Borrowed(_) => program,
    };
    let mut program = Expanded::new(program)?;
    if is_open {
        program.set_arch(raised(program.program()));
    }
    let program = lower_expanded(&program.written, program.program(), policy)?;
    Ok(Variant { label: None, source: crate::cuda::print(&program), program })
}

/// A program before and after its pipelined loops are lowered and loops without iterations are removed.
struct Expanded {
    written: Program,
    /// `None` if it has no such loop.
    expanded: Option<Program>,
}

impl Expanded {
    fn new(mut written: Program) -> std::result::Result<Expanded, Diagnostic> {
        written.number();
        let expanded = match crate::passes::pipeline::expand(&written)? {
            Cow::Borrowed(_) => None,
            Cow::Owned(expanded) => Some(expanded),
        };
        let new = Expanded { written, expanded };
        // With slots and prefetched copies.
        limits::sizes(new.program())?;
        limits::work(new.program())?;
        check::registers::of_products(new.program())?;
        Ok(new)
    }

    fn program(&self) -> &Program {
        self.expanded.as_ref().unwrap_or(&self.written)
    }

    fn set_arch(&mut self, arch: u32) {
        self.written.arch = arch;
        self.expanded.iter_mut().for_each(|expanded| expanded.arch = arch);
    }
}

/// The oldest architecture for a program whose tiles have been resolved.
pub(crate) fn oldest(program: &Program) -> std::result::Result<u32, Diagnostic> {
    Ok(raised(Expanded::new(program.clone())?.program()))
}

/// The oldest architecture, from a program's own on, where a block has room for its shared tiles; its own where none has, or where
/// the author named it.
fn raised(program: &Program) -> u32 {
    if program.is_arch_named {
        return program.arch;
    }
    let needed = allocate(program).bytes;
    let condition = |arch: &u32| Target::of(*arch).block_shared >= needed;
    let newer = TARGETS.iter().map(|row| row.arch).filter(|arch| *arch > program.arch);
    std::iter::once(program.arch).chain(newer).find(condition).unwrap_or(program.arch)
}

/// The program as roles, if it has a producer.
fn projected(program: Program) -> std::result::Result<Program, Diagnostic> {
    let written = match project::projected(&program)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(written) => Some(written),
    };
    Ok(written.unwrap_or(program))
}

/// The program without whole tiles, and its alternatives. If it has whole tiles and no alternatives, its
/// variant with scalar accesses is one.
fn resolved(
    program: Program,
    others: Vec<Alternative>,
    left_out: &mut LeftOut,
) -> std::result::Result<(Program, Vec<Alternative>), Diagnostic> {
    let resolve = |program: &Program, width| -> std::result::Result<Option<Program>, Diagnostic> {
        let Cow::Owned(resolved) = resolve::resolved(program, width)? else { return Ok(None) };
        limits::sizes(&resolved)?;
        limits::work(&resolved)?;
        Ok(Some(resolved))
    };
    let others = match others.is_empty() {
        true => resolve(&program, Width::ONE)?.map(Alternative::last).into_iter().collect(),
        false => left_out.made(others, |other| {
            let program = projected(other.program)?;
            Ok(Alternative { program: resolve(&program, other.width)?.unwrap_or(program), ..other })
        })?,
    };
    Ok((resolve(&program, Width::WIDEST)?.unwrap_or(program), others))
}

/// The assertions on sizes that all alternatives have, or that a launch cannot check as a fact of one.
fn common<'p>(first: &Program, others: impl Iterator<Item = &'p Program> + Clone) -> Vec<Require> {
    let all = |require: &&Require| {
        let is_fact = require.divides().is_some() || require.test.is_limit();
        !is_fact || others.clone().all(|other| other.requires.contains(require))
    };
    first.requires.iter().filter(all).cloned().collect()
}

/// Makes an alternative's program a program that a launch can take instead of the first: it has the same
/// arguments, and its own assertions on sizes become facts that it needs.
fn alike(
    common: &[Require],
    own: &Program,
    known: Option<&Variant>,
    kernel: &mut Kernel,
) -> std::result::Result<(), String> {
    let pointer = |param: &ThreadParam| match param {
        ThreadParam::Pointer { shape, stride, .. } => Some((shape.clone(), stride.clone())),
        _ => None,
    };
    let shapes = |kernel: &Kernel| kernel.params.iter().filter_map(pointer).collect::<Vec<_>>();
    if known.is_some_and(|known| shapes(&known.program) != shapes(kernel)) {
        return Err("its arguments have other extents or strides than those of the first alternative".into());
    }
    for require in own.requires.iter().filter(|require| !common.contains(require)) {
        match require.divides() {
            Some((of, divisor)) => kernel.needs.push(Fact::Divides(Obligation { divisor, of })),
            None if require.test.is_limit() => {} // the program's limits are facts already
            None => return Err(format!("it asserts more than the first alternative: {}", require.text)),
        }
    }
    Ok(())
}
