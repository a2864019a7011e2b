//! From a tile program to what a user gets: checks, the variants, the report.

use crate::ast::{Level, Name};
use crate::check;
use crate::definition::{Generated, Outcome, Param, Variant};
use crate::diagnostic::Diagnostic;
use crate::limits;
use crate::lower::{Policy, lower};
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
    diagnostics.extend(check::threads(&program));
    if errors(&diagnostics) {
        return Outcome { kernel: None, diagnostics };
    }
    let mut checked = check::written(&program);
    let expanded = || {
        let expanded = crate::pipeline::expand(&program)?.into_owned();
        // With slots, and with what runs ahead.
        limits::sizes(&expanded)?;
        limits::work(&expanded)?;
        Ok(expanded)
    };
    let program = match expanded() {
        Ok(program) => program,
        Err(diagnostic) => {
            diagnostics.append(&mut checked.diagnostics);
            diagnostics.push(diagnostic);
            return Outcome { kernel: None, diagnostics };
        }
    };
    check::program(&program, levels, &mut checked);
    let mut variants: Vec<Variant> = Vec::new();
    let narrow = narrow.unwrap_or_else(|| program.clone());
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
    let (name, requires) = (program.name, program.requires);
    Outcome { kernel: Some(Generated { name, params, variants, requires, report }), diagnostics }
}
