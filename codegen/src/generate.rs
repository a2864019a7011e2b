//! From a tile program to what a user gets: checks, the variants, the report.

use crate::ast::{Level, Name};
use crate::check;
use crate::definition::{Generated, Outcome, Param, Variant};
use crate::diagnostic::Diagnostic;
use crate::limits;
use crate::lower::{Policy, lower};
use crate::tile::{Arg, Program, Space};

/// The same kernel as another program, for launches that those before it cannot serve.
pub(crate) struct Alternative {
    pub(crate) program: Program,
    /// What its variants may take for granted, one after the other.
    pub(crate) policies: Vec<Policy>,
}

impl Alternative {
    /// What serves every launch.
    pub(crate) fn last(program: Program) -> Alternative {
        Alternative { program, policies: vec![Policy::Small, Policy::General] }
    }
}

/// The outcome for a program of the builder.
pub fn generate(program: Program) -> Outcome {
    finish(program, Vec::new(), Vec::new(), &[])
}

/// Checks, lowers and prints a program, unless something is wrong with it: see [`checked`].
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
    match limits::is_deep(&program) {
        true => crate::stack::with_room(|| checked(program, others, diagnostics, levels)),
        false => checked(program, others, diagnostics, levels),
    }
}

/// Checks, lowers and prints a program that is within limits. `others` are the same kernel for variants that may presume
/// less; without them the program itself serves every launch.
fn checked(
    program: Program,
    mut others: Vec<Alternative>,
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
    Outcome { kernel: Some(Generated { name: program.name, params, variants, report }), diagnostics }
}
