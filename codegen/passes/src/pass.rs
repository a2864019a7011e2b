//! The passes as one list, in the order in which they run. The driver runs this list, and ARCHITECTURE.md prints it.

use crate::allocate::allocate;
use crate::check::registers;
use crate::lower::lowered;
use crate::source::diagnostic::Diagnostic;
use crate::thread::{Fact, Kernel};
use crate::tile::alternative::{Policy, Width};
use crate::tile::verify::{self, limits};
use crate::tile::{Program, empty_loops};
use crate::values::target::{TARGETS, Target};
use crate::{origin, pipeline, project, resolve, synchronise};

/// A pass over tile programs.
pub struct Pass {
    /// Its name, which is the module's.
    pub name: &'static str,
    /// What it does, as a sentence without a subject.
    pub does: &'static str,
    /// When it runs.
    pub runs: Runs,
    pass: fn(Program, &mut Context) -> Result<Program, Diagnostic>,
}

/// When a pass runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// Once for each alternative.
    OncePerAlternative,
    /// Once for each specialization of an alternative, under its assumptions.
    OncePerSpecialization,
}

/// What passes know besides the program, and what they report besides it.
pub struct Context {
    /// The widths of accesses to whole tiles.
    pub width: Width,
    /// The assumptions of a specialization.
    pub policy: Policy,
    /// How the architecture is chosen.
    pub arch: Arch,
    /// The facts that a specialization assumes.
    pub needs: Vec<Fact>,
}

/// How the architecture of a specialization is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arch {
    /// The program's own.
    Fixed,
    /// The oldest one with enough shared memory, unless the author named one.
    Oldest,
    /// The architecture of the first specialization, for programs of the same architecture before this choice.
    As {
        /// Before the choice.
        from: u32,
        /// After it.
        to: u32,
    },
}

use Runs::{OncePerAlternative, OncePerSpecialization};

const fn pass(
    name: &'static str,
    runs: Runs,
    does: &'static str,
    pass: fn(Program, &mut Context) -> Result<Program, Diagnostic>,
) -> Pass {
    Pass { name, does, runs, pass }
}

/// All passes over tile programs. Then `lower` makes the thread program.
pub const PASSES: &[Pass] = &[
    pass(
        "split_k",
        OncePerAlternative,
        "gives each block its part of a loop that several blocks share (split-K, stream-K)",
        |program, _| project::split_k(program),
    ),
    pass(
        "warp_specialize",
        OncePerAlternative,
        "splits a kernel with a producer into roles, and makes a persistent kernel a loop over tiles",
        |program, _| project::warp_specialize(program),
    ),
    pass(
        "distribute",
        OncePerAlternative,
        "replaces statements on whole tiles by statements on the parts of threads, with barriers between them",
        |program, context| resolve::distribute(program, context.width),
    ),
    pass(
        "element_facts",
        OncePerSpecialization,
        "adds the coordinates of elements, and which are out of bounds, where code depends on them",
        |program, context| {
            let (program, needs) = origin::find(program, context.policy)?;
            context.needs = needs;
            Ok(program)
        },
    ),
    pass("empty_loops", OncePerSpecialization, "removes loops over a size that is 0", |program, _| {
        Ok(empty_loops::reduced(program))
    }),
    pass(
        "pipeline",
        OncePerSpecialization,
        "expands pipelined loops, with the stages that fit, and loops with stages",
        |program, _| pipeline::schedule(program),
    ),
    pass(
        "synchronise",
        OncePerSpecialization,
        "replaces rings inside of one group by waits and barriers",
        |program, _| synchronise::synchronised(program),
    ),
    pass(
        "choose_architecture",
        OncePerSpecialization,
        "refuses programs that are too large, and chooses the oldest architecture with enough shared memory",
        |mut program, context| {
            within_limits(&program)?;
            registers::of_products(&program)?;
            program.arch = architecture(&program, context.arch);
            Ok(program)
        },
    ),
    pass("verify", OncePerSpecialization, "checks the preconditions of lowering", |mut program, context| {
        verify::program(&program, context.policy)?;
        origin::reads::check(&mut program)?;
        Ok(program)
    }),
];

fn run(runs: Runs, program: Program, context: &mut Context) -> Result<Program, Diagnostic> {
    PASSES
        .iter()
        .filter(|pass| pass.runs == runs)
        .try_fold(program, |program, pass| pass.run(program, context))
}

impl Pass {
    /// Runs it.
    pub fn run(&self, program: Program, context: &mut Context) -> Result<Program, Diagnostic> {
        (self.pass)(program, context)
    }
}

/// An alternative after the passes that run once for it.
pub fn distribute(program: Program, width: Width) -> Result<Program, Diagnostic> {
    let mut context = Context { width, policy: Policy::General, arch: Arch::Fixed, needs: Vec::new() };
    let program = run(OncePerAlternative, program, &mut context)?;
    within_limits(&program)?;
    Ok(program)
}

fn within_limits(program: &Program) -> Result<(), Diagnostic> {
    limits::sizes(program)?;
    limits::work(program)
}

/// A specialization of an alternative, before it is lowered.
pub struct Specialized {
    /// Its program.
    pub program: Program,
    /// The facts that it assumes so far.
    needs: Vec<Fact>,
    policy: Policy,
}

/// A specialization of an alternative after [`distribute`].
pub fn specialize(program: Program, policy: Policy, arch: Arch) -> Result<Specialized, Diagnostic> {
    let mut context = Context { width: Width::ONE, policy, arch, needs: Vec::new() };
    let program = run(OncePerSpecialization, program, &mut context)?;
    Ok(Specialized { program, needs: context.needs, policy })
}

/// The thread program of a specialization whose architecture is given.
pub fn lower(program: Program, policy: Policy) -> Result<Kernel, Diagnostic> {
    specialize(program, policy, Arch::Fixed)?.lower()
}

/// The program with its loops expanded, without the other passes: for tests of these passes.
pub fn expand(program: Program) -> Result<Program, Diagnostic> {
    let program = pipeline::schedule(empty_loops::reduced(program))?;
    synchronise::synchronised(program)
}

impl Specialized {
    /// Its thread program.
    pub fn lower(&self) -> Result<Kernel, Diagnostic> {
        lowered(&self.program, self.policy, self.needs.clone())
    }
}

/// The architecture of a program whose shared tiles have their slots.
fn architecture(program: &Program, choice: Arch) -> u32 {
    match choice {
        Arch::Oldest if !program.is_arch_named => {
            let needed = allocate(program).bytes;
            let has_room = |arch: &u32| Target::of(*arch).block_shared >= needed;
            let newer = TARGETS.iter().map(|row| row.arch).filter(|arch| *arch > program.arch);
            std::iter::once(program.arch).chain(newer).find(has_room).unwrap_or(program.arch)
        }
        Arch::As { from, to } if program.arch == from => to,
        _ => program.arch,
    }
}
