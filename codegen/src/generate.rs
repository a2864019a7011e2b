//! From a tile program to what a user gets: checks, the variants, the report.

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

/// The outcome for a program of the builder.
pub fn generate(program: Program) -> Outcome {
    finish(program, Vec::new(), Vec::new(), &[])
}

/// Checks, lowers and prints a program, unless something is wrong with it: see [`checked`].
pub(crate) fn finish(
    program: Program,
    narrower: Vec<Program>,
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
    let within = std::iter::once(&program).chain(&narrower).try_for_each(limits::program);
    if let Err(why) = within {
        return refuse(diagnostics, why);
    }
    match limits::is_deep(&program) {
        true => crate::stack::with_room(|| checked(program, narrower, diagnostics, levels)),
        false => checked(program, narrower, diagnostics, levels),
    }
}

/// Checks, lowers and prints a program that is within limits. `narrower` are the same kernel with ever narrower accesses,
/// for variants that presume less about alignment; the last presumes nothing.
fn checked(
    program: Program,
    narrower: Vec<Program>,
    mut diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
) -> Outcome {
    let errors = |all: &[Diagnostic]| all.iter().any(|d| d.level == Level::Deny);
    let is_open = !program.open.is_empty();
    let (program, narrower) = match resolved(program, narrower) {
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
        // With slots, and with what runs ahead.
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
    let narrower = match narrower.into_iter().map(expanded).collect::<std::result::Result<Vec<_>, _>>() {
        Ok(narrower) => narrower,
        Err(diagnostic) => {
            diagnostics.append(&mut checked.diagnostics);
            diagnostics.push(diagnostic);
            return Outcome { kernel: None, diagnostics };
        }
    };
    let narrower: Vec<Program> = narrower
        .into_iter()
        .map(|narrow| Program { arch: if is_open { program.arch } else { narrow.arch }, ..narrow })
        .collect();
    let last = narrower.last().unwrap_or(&program);
    let between = narrower.iter().rev().skip(1).rev().map(|program| (Policy::Aligned, program));
    let wide = [(Policy::Best, &program), (Policy::Aligned, &program)];
    for (policy, program) in
        wide.into_iter().chain(between).chain([(Policy::Small, last), (Policy::General, last)])
    {
        match lower(program, policy) {
            Ok(kernel) => {
                let same = variants.last().is_some_and(|last| last.program.needs == kernel.needs);
                if same {
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

/// The program for the oldest architecture whose blocks hold its shared tiles, if their layouts were left open.
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

/// The program without whole tiles, and those with narrower accesses; where there were none and there are whole tiles, the
/// one with accesses of single elements.
fn resolved(
    program: Program,
    narrower: Vec<Program>,
) -> std::result::Result<(Program, Vec<Program>), Diagnostic> {
    let resolve = |program: &Program, width| -> std::result::Result<Option<Program>, Diagnostic> {
        let Cow::Owned(resolved) = resolve::resolved(program, width)? else { return Ok(None) };
        limits::sizes(&resolved)?;
        limits::work(&resolved)?;
        Ok(Some(resolved))
    };
    let narrower = match narrower.is_empty() {
        true => resolve(&program, Width::One)?.into_iter().collect(),
        false => narrower
            .into_iter()
            .map(|narrow| Ok(resolve(&narrow, Width::One)?.unwrap_or(narrow)))
            .collect::<std::result::Result<_, Diagnostic>>()?,
    };
    Ok((resolve(&program, Width::Widest)?.unwrap_or(program), narrower))
}
