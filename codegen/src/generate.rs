//! The driver, from a tile program to a kernel: checks, the variants, the report.

mod pack;

use std::borrow::Cow;

use crate::allocate::allocate;
use crate::alternative::{Alternative, Policy};
use crate::ast::{self, Level, Name};
use crate::check::{self, Checked};
use crate::definition::{Definition, Generated, Hollow, Outcome, Param, Variant};
use crate::diagnostic::Diagnostic;
use crate::evaluate;
use crate::hollow;
use crate::lower::lower_expanded;
use crate::matmul::{self, Programs};
use crate::project;
use crate::resolve::{self, Width};
use crate::stack;
use crate::target::{TARGETS, Target};
use crate::thread::Kernel;
use crate::tile::{Arg, Program, Space};
use crate::verify::limits;

impl Definition {
    /// Makes the kernel.
    pub fn generate(&self) -> Outcome {
        self.with_room(|| match self {
            Definition::Function(kernel, settings) => {
                let (program, diagnostics, levels) = evaluate::program(kernel, settings);
                finish(program, Vec::new(), diagnostics, &levels)
            }
            Definition::Matmul(args) => product(args),
        })
    }

    /// Runs a recursive function on a stack that is large enough.
    fn with_room<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let deep = match self {
            Definition::Function(kernel, _) => ast::is_deeper(&kernel.body, &kernel.sizes(), stack::ROOM),
            Definition::Matmul(args) => {
                let values: Vec<&ast::Expr> = args.iter().map(|arg| &arg.value).collect();
                ast::is_deeper(&[], &values, stack::ROOM)
            }
        };
        if deep { crate::stack::with_room(work) } else { work() }
    }

    /// Its tile program, with whole tiles lowered to parts of threads, before checks and lowering; or its
    /// errors.
    ///
    /// ```
    /// use tilewright_codegen::Definition;
    /// let program = Definition::Matmul(vec![]).program().unwrap();
    /// assert_eq!(program.threads(), 256);
    /// ```
    pub fn program(&self) -> Result<Program, Vec<Diagnostic>> {
        let (program, diagnostics) = self.with_room(|| match self {
            Definition::Function(kernel, settings) => {
                let (program, diagnostics, _) = evaluate::program(kernel, settings);
                Ok((program, diagnostics))
            }
            Definition::Matmul(args) => {
                matmul::programs(args).map(|programs| (programs.wide, programs.diagnostics))
            }
        })?;
        let wrong = diagnostics.iter().any(|said| said.level == Level::Deny);
        if wrong {
            return Err(diagnostics);
        }
        let is_open = !program.open.is_empty();
        let resolved =
            project::projected(&program).and_then(|program| Ok(resolve::resolve(&program)?.into_owned()));
        let of_arch = |mut resolved: Program| {
            if is_open {
                resolved.arch = oldest(&resolved)?;
            }
            Ok(resolved)
        };
        resolved.and_then(of_arch).map_err(|said| vec![said])
    }
}

/// The kernel of a product's keys.
fn product(args: &[ast::Arg]) -> Outcome {
    match matmul::programs(args) {
        Ok(Programs { wide, others, diagnostics, levels, why, instead }) => {
            let mut outcome = finish(wide, others, diagnostics, &levels);
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
    let hollow = Hollow::all(others.last().map_or(&program, |other| &other.program), general);
    let (program, others) = match projected(program).and_then(|program| resolved(program, others)) {
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
    let refuse = |mut diagnostics: Vec<Diagnostic>, mut checked: Checked, why: Diagnostic| {
        diagnostics.append(&mut checked.diagnostics);
        diagnostics.push(why);
        diagnostics.sort_by_key(|said| said.span);
        Outcome { kernel: None, diagnostics }
    };
    let mut first = match Expanded::new(program) {
        Ok(first) => first,
        Err(why) => return refuse(diagnostics, checked, why),
    };
    if is_open {
        first.set_arch(raised(first.program()));
    }
    let arch = first.program().arch;
    check::program(first.program(), levels, &mut checked);
    let others = others.into_iter().map(|other| {
        let mut program = Expanded::new(other.program)?;
        if is_open {
            program.set_arch(arch);
        }
        Ok((program, other.policies))
    });
    let others = match others.collect::<std::result::Result<Vec<_>, _>>() {
        Ok(others) => others,
        Err(why) => return refuse(diagnostics, checked, why),
    };
    let all = std::iter::once(&first).chain(others.iter().map(|(other, _)| other));
    let packs = pack::kernels(first.program(), all.map(Expanded::program));
    let last = [Policy::Small, Policy::General];
    let last = if others.is_empty() { &last[..] } else { &[] };
    let own = [Policy::Best, Policy::Aligned].iter().chain(last).map(|&policy| (policy, &first));
    let others =
        others.iter().flat_map(|(program, policies)| policies.iter().map(move |&policy| (policy, program)));
    let mut variants: Vec<Variant> = Vec::new();
    let mut before: Option<&Expanded> = None;
    for (policy, program) in own.chain(others) {
        let again = before.replace(program).is_some_and(|before| std::ptr::eq(before, program));
        match lower_expanded(&program.written, program.program(), policy) {
            Ok(kernel) => {
                let (needs, launch) = (&kernel.needs, &kernel.launch);
                let serves = |last: &Kernel| {
                    let same = (&last.launch.cost, &last.launch.grid) == (&launch.cost, &launch.grid);
                    last.needs == *needs && (again || same)
                };
                if variants.last().is_some_and(|last| serves(&last.program)) {
                    continue;
                }
                let source = crate::cuda::print(&kernel);
                variants.push(Variant { source, program: kernel });
            }
            Err(why) => return refuse(diagnostics, checked, why),
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
    let report = check::kernel(program, &variants[0].program, levels, &mut checked);
    diagnostics.append(&mut checked.diagnostics);
    diagnostics.sort_by_key(|said| said.span);
    if errors(&diagnostics) {
        return Outcome { kernel: None, diagnostics };
    }
    let (name, requires) = (program.name.clone(), program.requires.clone());
    Outcome {
        kernel: Some(Generated { name, params, variants, requires, packs, hollow, report }),
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
    let program = match resolve::resolved(&program, Width::One)? {
        Cow::Owned(resolved) => resolved,
        Cow::Borrowed(_) => program,
    };
    let mut program = Expanded::new(program)?;
    if is_open {
        program.set_arch(raised(program.program()));
    }
    let program = lower_expanded(&program.written, program.program(), policy)?;
    Ok(Variant { source: crate::cuda::print(&program), program })
}

/// A program before and after its pipelined loops are lowered and loops without iterations are removed.
struct Expanded {
    written: Program,
    /// `None` where it has no such loop.
    expanded: Option<Program>,
}

impl Expanded {
    fn new(mut written: Program) -> std::result::Result<Expanded, Diagnostic> {
        written.number();
        let reduced = hollow::reduced(&written);
        let expanded = match (crate::pipeline::expand(&reduced)?, &reduced) {
            (Cow::Borrowed(_), Cow::Borrowed(_)) => None,
            (expanded, _) => Some(expanded.into_owned()),
        };
        let new = Expanded { written, expanded };
        // With slots and prefetched copies.
        limits::sizes(new.program())?;
        limits::work(new.program())?;
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

/// The oldest architecture from a program's own on whose blocks hold its shared tiles; its own where none does.
fn raised(program: &Program) -> u32 {
    let needed = allocate(program).bytes;
    let holds = |arch: &u32| Target::of(*arch).block_shared >= needed;
    let newer = TARGETS.iter().map(|row| row.arch).filter(|arch| *arch > program.arch);
    std::iter::once(program.arch).chain(newer).find(holds).unwrap_or(program.arch)
}

/// The program as roles, where it has a producer.
fn projected(program: Program) -> std::result::Result<Program, Diagnostic> {
    let written = match project::projected(&program)? {
        Cow::Borrowed(_) => None,
        Cow::Owned(written) => Some(written),
    };
    Ok(written.unwrap_or(program))
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
