//! From a tile program to what a user gets: checks, the variants, the report.

use crate::ast::{Level, Name};
use crate::check;
use crate::definition::{Generated, Outcome, Param, Variant};
use crate::diagnostic::Diagnostic;
use crate::lower::{Policy, lower};
use crate::tile::{Arg, Program, Space};

/// The outcome for a program of the builder.
pub fn generate(program: Program) -> Outcome {
    finish(program, None, Vec::new(), &[])
}

/// Checks, lowers and prints a program, unless something is wrong with it. `narrow` is the same kernel with accesses of
/// single elements, for variants that may not presume alignment.
pub(crate) fn finish(
    program: Program,
    narrow: Option<Program>,
    mut diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
) -> Outcome {
    let errors = |all: &[Diagnostic]| all.iter().any(|d| d.level == Level::Deny);
    if errors(&diagnostics) {
        return Outcome { kernel: None, diagnostics };
    }
    diagnostics.extend(check::threads(&program));
    if errors(&diagnostics) {
        return Outcome { kernel: None, diagnostics };
    }
    let mut checked = check::written(&program);
    let program = match crate::pipeline::expand(&program) {
        Ok(program) => program.into_owned(),
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
    Outcome { kernel: Some(Generated { name: program.name, params, variants, report }), diagnostics }
}
