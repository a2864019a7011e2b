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
    finish(program, None, Vec::new(), &[])
}

/// Checks, lowers and prints a program, unless something is wrong with it: see [`checked`].
pub(crate) fn finish(
    program: Program,
    narrow: Option<Program>,
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
    let within = [Some(&program), narrow.as_ref()].into_iter().flatten().try_for_each(limits::program);
    if let Err(why) = within {
        return refuse(diagnostics, why);
    }
    match limits::is_deep(&program) {
        true => crate::stack::with_room(|| checked(program, narrow, diagnostics, levels)),
        false => checked(program, narrow, diagnostics, levels),
    }
}

/// Checks, lowers and prints a program that is within limits. `narrow` is the same kernel with accesses of
/// single elements, for variants that may not presume alignment.
fn checked(
    program: Program,
    narrow: Option<Program>,
    mut diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
) -> Outcome {
    let errors = |all: &[Diagnostic]| all.iter().any(|d| d.level == Level::Deny);
    let is_open = !program.open.is_empty();
    let (program, narrow) = match resolved(program, narrow) {
        Ok(both) => both,
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
    let narrow = match narrow.map(expanded).transpose() {
        Ok(narrow) => Program { arch: program.arch, ..narrow.unwrap_or_else(|| program.clone()) },
        Err(diagnostic) => {
            diagnostics.append(&mut checked.diagnostics);
            diagnostics.push(diagnostic);
            return Outcome { kernel: None, diagnostics };
        }
    };
    for (policy, program) in [
        (Policy::Best, &program),
        (Policy::Aligned, &program),
        (Policy::Small, &narrow),
        (Policy::General, &narrow),
    ] {
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
    Outcome { kernel: Some(Generated { name: program.name, params, variants, report }), diagnostics }
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

/// The program without whole tiles, and the one with accesses of single elements.
fn resolved(
    program: Program,
    narrow: Option<Program>,
) -> std::result::Result<(Program, Option<Program>), Diagnostic> {
    let resolve = |program: &Program, width| -> std::result::Result<Option<Program>, Diagnostic> {
        let Cow::Owned(resolved) = resolve::resolved(program, width)? else { return Ok(None) };
        limits::sizes(&resolved)?;
        limits::work(&resolved)?;
        Ok(Some(resolved))
    };
    let single = match &narrow {
        Some(narrow) => resolve(narrow, Width::One)?,
        None => resolve(&program, Width::One)?,
    };
    Ok((resolve(&program, Width::Widest)?.unwrap_or(program), single.or(narrow)))
}
