//! The driver, from a tile program to a kernel: checks, the variants, the report.

mod pack;

use tilewright_layout::Obligation;
use tilewright_parse::words::TEXTS;

use crate::front::evaluate;
use crate::front::matmul::{self, Programs, Texts};
use crate::launch::definition::{Definition, Generated, Outcome, Param, Settings, Variant};
use crate::launch::estimate;
use crate::passes::check::{self, Checked};
use crate::passes::pass::{self, Arch, Specialized};
use crate::passes::resolve::{self, Width};
use crate::source::ast::{self, Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::source::stack::with_room;
use crate::thread::{self, Fact, Kernel, Param as ThreadParam};
use crate::tile::alternative::{Alternative, Policy};
use crate::tile::empty_loops;
use crate::tile::verify::{integer_bounds, limits};
use crate::tile::{Arg, Program, Require, Space};

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
    match definition {
        Definition::Function(kernel, settings) => with_room(|| function(kernel, settings, purpose)),
        Definition::Matmul(args) => {
            // In a macro, only this thread can read texts.
            let texts = &*TEXTS;
            with_room(|| product(args, texts, purpose))
        }
    }
}

/// The kernel of a function, and what its assertions and prints make of it, if it has any.
fn function(kernel: &ast::Kernel, settings: &Settings, purpose: Purpose) -> Outcome {
    let mut outcome = alternatives(kernel, settings, purpose, true);
    let is_probe = |stmt: &thread::Stmt| matches!(stmt.op, thread::Op::Probe { .. });
    let has_probes = |made: &Generated| {
        made.variants.iter().any(|variant| thread::visit::preorder(&variant.program.body).any(is_probe))
    };
    if let Some(made) = outcome.kernel.take_if(|made| has_probes(made)) {
        let Outcome { kernel, diagnostics } = alternatives(kernel, settings, purpose, false);
        if kernel.is_none() {
            outcome.diagnostics.extend(diagnostics);
        }
        outcome.kernel = kernel.map(|kernel| Generated { with_probes: Some(Box::new(made)), ..kernel });
    }
    outcome
}

/// The kernel of a function with all alternatives of its constants that can be made.
fn alternatives(kernel: &ast::Kernel, settings: &Settings, purpose: Purpose, probes: bool) -> Outcome {
    let all = match settings.alternatives(kernel) {
        Ok(all) => all,
        Err(why) => return Outcome { kernel: None, diagnostics: vec![why] },
    };
    let mut evaluated = all.iter().map(|settings| evaluate::program(kernel, settings, probes));
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
fn product(args: &[ast::Arg], texts: &'static Texts, purpose: Purpose) -> Outcome {
    match matmul::programs(args, texts) {
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
    if has_errors(&diagnostics) {
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
        "unused"
            | "unread"
            | "covered"
            | "unbounded"
            | "contracted"
            | "rearranged"
            | "elementwise"
            | "cuda_cores"
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

/// Checks, lowers and prints a program that is within limits. `others` are the same kernel for specializations that assume less,
/// or with other constants; without them the program itself serves every launch.
fn checked(
    label: Option<&String>,
    program: Program,
    others: Vec<Alternative>,
    left_out: LeftOut,
    mut diagnostics: Vec<Diagnostic>,
    levels: &[(Name, Level)],
    purpose: Purpose,
) -> Outcome {
    diagnostics.extend(check::meant(&program, levels));
    let empty_loops = empty_loops::all(others.last().map_or(&program, |other| &other.program), general);
    let is_refused = has_errors(&diagnostics);
    let mut checked = Checked::default();
    let kernel =
        Candidates::new(label, program, others, left_out).map_err(|why| vec![why]).and_then(|candidates| {
            let errors = check::threads(&candidates.all[0].program);
            if is_refused || !errors.is_empty() {
                return Err(errors);
            }
            candidates.compile(&mut checked, levels, purpose)
        });
    diagnostics.append(&mut checked.diagnostics);
    let kernel = kernel.map(|kernel| Generated { empty_loops, ..kernel });
    let kernel = kernel.map_err(|mut refused| diagnostics.append(&mut refused)).ok();
    diagnostics.sort_by_key(|diagnostic| diagnostic.span);
    let kernel = kernel.filter(|_| !has_errors(&diagnostics));
    Outcome { kernel, diagnostics }
}

fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Deny)
}

/// An alternative after the passes that run once for it, and the assumptions of its specializations.
struct Candidate {
    program: Program,
    policies: Vec<Policy>,
    label: Option<String>,
}

/// The alternatives among which launches choose.
struct Candidates {
    /// The first one is reported on, and checked.
    all: Vec<Candidate>,
    left_out: LeftOut,
    /// Is the architecture open until shared tiles have their slots?
    is_open: bool,
}

impl Candidates {
    /// If the program has whole tiles and no others are given, its variant with scalar accesses is one.
    fn new(
        label: Option<&String>,
        program: Program,
        mut others: Vec<Alternative>,
        mut left_out: LeftOut,
    ) -> std::result::Result<Candidates, Diagnostic> {
        let is_open = !program.open.is_empty();
        let mut policies = vec![Policy::Best, Policy::Aligned];
        if others.is_empty() && resolve::has_whole_tiles(&program) {
            others.push(Alternative::last(program.clone()));
        } else if others.is_empty() {
            policies.extend([Policy::Small, Policy::General]);
        }
        let others = left_out.made(others, |Alternative { program, width, policies, label }| {
            Ok(Candidate { program: pass::distribute(program, width)?, policies, label })
        })?;
        let program = pass::distribute(program, Width::WIDEST)?;
        let first = Candidate { program, policies, label: label.cloned() };
        Ok(Candidates { all: std::iter::once(first).chain(others).collect(), left_out, is_open })
    }

    /// The kernel, with a variant for each specialization that can be made; or errors.
    fn compile(
        mut self,
        checked: &mut Checked,
        levels: &[(Name, Level)],
        purpose: Purpose,
    ) -> std::result::Result<Generated, Vec<Diagnostic>> {
        let first = &self.all[0].program;
        *checked = check::written(first, levels);
        let arch = if self.is_open { Arch::Oldest } else { Arch::Fixed };
        let best = pass::specialize(first.clone(), Policy::Best, arch).map_err(|why| vec![why])?;
        let arch = match arch {
            Arch::Oldest => Arch::As { from: first.arch, to: best.program.arch },
            other => other,
        };
        check::program(&best.program, levels, checked);
        let packs = match purpose {
            Purpose::Launch => pack::kernels(first, self.all.iter().map(|candidate| &candidate.program)),
            Purpose::Check => Vec::new(),
        };
        let requires = self.requires();
        let mut variants = self.variants(&best, arch, &requires, purpose)?;
        let mut report = check::kernel(&best.program, &variants[0].program, levels, checked);
        for label in variants.iter().filter_map(|variant| variant.label.as_ref()) {
            if !report.alternatives.contains(label) {
                report.alternatives.push(label.clone());
            }
        }
        report.left_out = self.left_out.0;
        if purpose == Purpose::Check {
            variants.truncate(1);
        }
        let first = best.program;
        let params = params(&first);
        let (empty_loops, with_probes, records) = (Vec::new(), None, Vec::new());
        let name = first.name;
        Ok(Generated { name, params, variants, requires, packs, empty_loops, with_probes, report, records })
    }

    /// The assertions on sizes that every launch checks.
    fn requires(&self) -> Vec<Require> {
        let labelled = self.all[1..].iter().filter(|other| other.label.is_some());
        let mut requires = common(&self.all[0].program, labelled.map(|other| &other.program));
        for require in self.all.iter().flat_map(|candidate| integer_bounds::at_launch(&candidate.program)) {
            if !requires.contains(&require) {
                requires.push(require);
            }
        }
        requires
    }

    /// The variants of all candidates that can be made. The first is `best`.
    fn variants(
        &mut self,
        best: &Specialized,
        arch: Arch,
        requires: &[Require],
        purpose: Purpose,
    ) -> std::result::Result<Vec<Variant>, Vec<Diagnostic>> {
        let mut variants: Vec<Variant> = Vec::new();
        let mut lowered: Vec<Policy> = Vec::new();
        for (index, candidate) in self.all.iter().enumerate() {
            let mut is_first_policy = true;
            for &policy in &candidate.policies {
                // A check lowers one variant of each policy and verifies the others. Alternatives with a label are all lowered,
                // since those that lowering refuses are left out.
                let is_lowered =
                    purpose == Purpose::Launch || candidate.label.is_some() || !lowered.contains(&policy);
                lowered.push(policy);
                let is_best = index == 0 && policy == Policy::Best;
                let specialized;
                let specialized = match is_best {
                    true => Ok(best),
                    false => {
                        specialized = pass::specialize(candidate.program.clone(), policy, arch);
                        specialized.as_ref().map_err(Diagnostic::clone)
                    }
                };
                if !is_lowered {
                    specialized.map_err(|why| vec![why])?;
                    continue;
                }
                let made = specialized.and_then(|specialized| {
                    let kernel = specialized.lower()?;
                    match check::shared_limits::shared_memory(&specialized.program, &kernel) {
                        Some(why) if !variants.is_empty() => Err(why),
                        _ => Ok(kernel),
                    }
                });
                let mut kernel = match (made, &candidate.label) {
                    (Ok(kernel), _) => kernel,
                    (Err(why), Some(label)) if !variants.is_empty() => {
                        self.left_out.put(label.clone(), why.message);
                        continue;
                    }
                    (Err(why), _) => return Err(vec![why]),
                };
                if let Some(label) = &candidate.label
                    && let Err(why) = alike(requires, &candidate.program, variants.first(), &mut kernel)
                {
                    self.left_out.put(label.clone(), why);
                    continue;
                }
                if candidate.label.is_some() || candidate.program.competes {
                    kernel.launch.cost = estimate::cost(&kernel);
                }
                let again = !std::mem::take(&mut is_first_policy);
                if variants.last().is_some_and(|last| serves(&last.program, &kernel, again)) {
                    continue;
                }
                let is_shown = purpose == Purpose::Launch || variants.is_empty();
                let source = if is_shown { crate::cuda::print(&kernel) } else { String::new() };
                variants.push(Variant::new(candidate.label.clone(), source, kernel));
            }
        }
        Ok(variants)
    }
}

/// Does the variant before serve every launch that this one does, as well? Variants of one candidate do if they assume the same.
fn serves(last: &Kernel, kernel: &Kernel, is_of_same_candidate: bool) -> bool {
    let launch = |kernel: &Kernel| (kernel.launch.cost, kernel.launch.grid.clone(), kernel.arch);
    last.needs == kernel.needs && (is_of_same_candidate || launch(last) == launch(kernel))
}

/// The arguments of a kernel.
fn params(program: &Program) -> Vec<Param> {
    let param = |arg: &Arg| match arg {
        Arg::Tensor(id) => {
            let tensor = program.tensor(*id);
            let mutable = matches!(tensor.space, Space::Global { mutable: true });
            Param { name: tensor.name.clone(), elem: tensor.elem, tensor: Some((mutable, tensor.rank())) }
        }
        Arg::Scalar(id) => {
            let scalar = &program.scalars[*id as usize];
            Param { name: scalar.name.clone(), elem: scalar.elem, tensor: None }
        }
    };
    program.args.iter().map(param).collect()
}

/// The variant without assumptions of a program of the builder, if it has one.
fn general(program: &Program) -> Option<Variant> {
    let arch = if program.open.is_empty() { Arch::Fixed } else { Arch::Oldest };
    let program = pass::distribute(program.clone(), Width::ONE).ok()?;
    let program = pass::specialize(program, Policy::General, arch).ok()?.lower().ok()?;
    Some(Variant::new(None, crate::cuda::print(&program), program))
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
        ThreadParam::Pointer { name, shape, stride, .. } => {
            Some((name.clone(), shape.clone(), stride.clone()))
        }
        _ => None,
    };
    let shapes = |kernel: &Kernel| kernel.params.iter().filter_map(pointer).collect::<Vec<_>>();
    if known.is_some_and(|known| shapes(&known.program) != shapes(kernel)) {
        return Err("its arguments have other extents or strides than the first alternative has".into());
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
