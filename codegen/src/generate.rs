//! The driver, from a tile program to a kernel: checks, the variants, the report.

use std::borrow::Cow;

use crate::ast::{Level, Name};
use crate::check;
use crate::definition::{Generated, Outcome, Param, Variant};
use crate::diagnostic::Diagnostic;
use crate::limits;
use crate::lower::{Policy, lower};
use crate::resolve::{self, Width};
use crate::target::{TARGETS, Target};
use crate::tile::{Arg, Program, Space};

/// The same kernel as another program, for launches whose facts exclude the earlier ones.
pub(crate) struct Alternative {
    pub(crate) program: Program,
    /// The assumptions of its variants, one after the other.
    pub(crate) policies: Vec<Policy>,
}

impl Alternative {
    /// The same with ever narrower vector accesses, for launches with less alignment; the last serves every
    /// one.
    pub(crate) fn narrower(mut programs: Vec<Program>) -> Vec<Alternative> {
        let last = programs.pop().map(Alternative::last);
        let between =
            programs.into_iter().map(|program| Alternative { program, policies: vec![Policy::Aligned] });
        between.chain(last).collect()
    }

    /// The fallback for every launch.
    pub(crate) fn last(program: Program) -> Alternative {
        Alternative { program, policies: vec![Policy::Small, Policy::General] }
    }
}

/// The outcome for a program of the builder.
pub fn generate(program: Program) -> Outcome {
    finish(program, Vec::new(), Vec::new(), &[])
}

/// Checks, lowers and prints a program, unless it has errors: see [`checked`].
pub(crate) fn finish(
    program: Program,
    others: Vec<Alternative>,
    diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
) -> Outcome {
    let refuse = |mut diagnostics: Vec<Diagnostic>, why| {
        diagnostics.push(why);
        Outcome { kernel: None, diagnostics }
    };
    if diagnostics.iter().any(|said| said.level == Level::Deny) {
        return Outcome { kernel: None, diagnostics };
    }
    let mut all = std::iter::once(&program).chain(others.iter().map(|other| &other.program));
    let within = all.try_for_each(limits::program);
    if let Err(why) = within {
        return refuse(diagnostics, why);
    }
    let mut outcome = match limits::is_deep(&program) {
        true => crate::stack::with_room(|| checked(program, others, diagnostics, levels)),
        false => checked(program, others, diagnostics, levels),
    };
    if outcome.kernel.is_none() {
        // Where there is an error, an unread tensor may be its consequence.
        outcome.diagnostics.retain(|said| !matches!(said.lint, Some("unused" | "unread")));
    }
    outcome
}

/// Checks, lowers and prints a program that is within limits. `others` are the same kernel for variants that
/// assume less; without them the program itself serves every launch.
fn checked(
    program: Program,
    others: Vec<Alternative>,
    mut diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
) -> Outcome {
    let errors = |all: &[Diagnostic]| all.iter().any(|d| d.level == Level::Deny);
    let is_open = !program.open.is_empty();
    let (program, others) = match resolved(program, others) {
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
    let mut checked = check::written(&program);
    let expanded = |program: Program| {
        let expanded = crate::pipeline::expand(&program)?.into_owned();
        // Limits again, now with slots and prefetched stages.
        limits::sizes(&expanded)?;
        limits::work(&expanded)?;
        Ok(expanded)
    };
    let program = match expanded(program) {
        Ok(program) => program,
        Err(diagnostic) => {
            diagnostics.append(&mut checked.diagnostics);
            diagnostics.push(diagnostic);
            return Outcome { kernel: None, diagnostics };
        }
    };
    let program = if is_open { raised(program) } else { program };
    check::program(&program, levels, &mut checked);
    let mut variants: Vec<Variant> = Vec::new();
    let others =
        others.into_iter().map(|other| Ok(Alternative { program: expanded(other.program)?, ..other }));
    let mut others = match others.collect::<std::result::Result<Vec<_>, _>>() {
        Ok(others) => others,
        Err(diagnostic) => {
            diagnostics.append(&mut checked.diagnostics);
            diagnostics.push(diagnostic);
            return Outcome { kernel: None, diagnostics };
        }
    };
    if is_open {
        others.iter_mut().for_each(|other| other.program.arch = program.arch);
    }
    if others.is_empty() {
        others.push(Alternative::last(program.clone()));
    }
    let first = [Policy::Best, Policy::Aligned].map(|policy| (policy, &program));
    let others =
        others.iter().flat_map(|other| other.policies.iter().map(|&policy| (policy, &other.program)));
    let mut before: Option<&Program> = None;
    for (policy, program) in first.into_iter().chain(others) {
        let again = before.replace(program).is_some_and(|before| std::ptr::eq(before, program));
        match lower(program, policy) {
            Ok(kernel) => {
                let same = variants.last().is_some_and(|last| last.program.needs == kernel.needs);
                if same
                    && (again
                        || kernel.launch.cost == variants.last().and_then(|last| last.program.launch.cost))
                {
                    continue;
                }
                let source = crate::cuda::print(&kernel);
                variants.push(Variant { source, program: kernel });
            }
            Err(diagnostic) => {
                diagnostics.append(&mut checked.diagnostics);
                diagnostics.push(diagnostic);
                diagnostics.sort_by_key(|said| said.span);
                return Outcome { kernel: None, diagnostics };
            }
        }
    }
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
    let report = check::kernel(&program, &variants[0].program, levels, &mut checked);
    diagnostics.append(&mut checked.diagnostics);
    diagnostics.sort_by_key(|said| said.span);
    if errors(&diagnostics) {
        return Outcome { kernel: None, diagnostics };
    }
    let (name, requires) = (program.name, program.requires);
    Outcome { kernel: Some(Generated { name, params, variants, requires, report }), diagnostics }
}

/// The program for the oldest architecture whose shared memory fits its tiles, if their layouts were left
/// open.
fn raised(program: Program) -> Program {
    let shared = program.tensors.iter().filter_map(|tensor| match tensor.space {
        Space::Shared { align } => {
            let bytes = tensor.layout.cosize().unwrap_or(0) * i64::from(tensor.elem.bytes());
            Some((bytes as u32).next_multiple_of(align.max(1)))
        }
        _ => None,
    });
    let needed: u32 = shared.sum();
    let holds = |arch: u32| Target::of(arch).block_shared >= needed;
    let newer = TARGETS.iter().map(|row| row.arch).find(|arch| *arch > program.arch && holds(*arch));
    match newer {
        Some(arch) if !holds(program.arch) => Program { arch, ..program },
        _ => program,
    }
}

/// The program without whole tiles, and its alternatives; without alternatives but with whole tiles, the one
/// with scalar accesses.
fn resolved(
    program: Program,
    others: Vec<Alternative>,
) -> std::result::Result<(Program, Vec<Alternative>), Diagnostic> {
    let resolve = |program: &Program, width| -> std::result::Result<Option<Program>, Diagnostic> {
        let Cow::Owned(resolved) = resolve::resolved(program, width)? else { return Ok(None) };
        limits::sizes(&resolved)?;
        limits::work(&resolved)?;
        Ok(Some(resolved))
    };
    let others = match others.is_empty() {
        true => resolve(&program, Width::One)?.map(Alternative::last).into_iter().collect(),
        false => others
            .into_iter()
            .map(|other| {
                Ok(Alternative {
                    program: resolve(&other.program, Width::One)?.unwrap_or(other.program),
                    ..other
                })
            })
            .collect::<std::result::Result<_, Diagnostic>>()?,
    };
    Ok((resolve(&program, Width::Widest)?.unwrap_or(program), others))
}
