//! What the generator makes of a definition; at run time too, and with other constants and element types than those that a macro was
//! given.
#![allow(unsafe_code)]

use tilewright_parse::words::TEXTS;

use crate::compiled::kernel_def::{Generator, KernelDef, KernelErrors, Locations};
use crate::front::{evaluate, matmul};
use crate::generate::{Purpose, made};
use crate::launch::definition::{Definition, Generated, Outcome, Settings};
use crate::passes::pass::{self, Arch};
use crate::passes::resolve::Width;
use crate::source::ast::{self, Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::source::stack::with_room;
use crate::tile::Program;
use crate::tile::alternative::Policy;
use crate::values::elem::Elem;

/// What the generator makes of a definition.
pub trait Generate {
    /// Makes the kernel.
    fn generate(&self) -> Outcome;

    /// The same messages, report and first variant, sooner: without other variants, and without kernels that pack arguments.
    ///
    /// ```
    /// use tilewright_codegen::{Definition, Generate};
    /// let definition = Definition::Matmul(vec![]);
    /// let (checked, made) = (definition.check().kernel.unwrap(), definition.generate().kernel.unwrap());
    /// assert_eq!(checked.source(), made.source());
    /// assert!(checked.variants.len() < made.variants.len());
    /// ```
    fn check(&self) -> Outcome;

    /// The function of the language that it is; `None` for products that the language does not say yet. Displayed, it is Rust.
    ///
    /// ```
    /// use tilewright_codegen::{Definition, Generate, words::Words};
    /// let words = Words::read("dtype=bf16 arch=90 a=k_major b=k_major c=n_major").unwrap();
    /// let function = Definition::Matmul(words.args().to_vec()).function().unwrap();
    /// assert!(function.to_string().contains("gemm(left, right, &mut acc);"));
    /// ```
    fn function(&self) -> Option<ast::Kernel>;

    /// Its tile program, with whole tiles lowered to parts of threads, before checks and lowering; or its
    /// errors.
    ///
    /// ```
    /// use tilewright_codegen::{Definition, Generate};
    /// let program = Definition::Matmul(vec![]).program().unwrap();
    /// assert_eq!(program.threads(), 256);
    /// ```
    fn program(&self) -> Result<Program, Vec<Diagnostic>>;

    /// The kernel, with all its variants. Errors call it by this name.
    ///
    /// ```
    /// use tilewright_codegen::{Definition, Generate, kernel_def::Locations};
    /// let kernel = Definition::Matmul(vec![]).kernel("product", &Locations::default())?;
    /// assert!(kernel.source().contains("__global__"));
    /// # Ok::<(), tilewright_codegen::kernel_def::KernelErrors>(())
    /// ```
    fn kernel(&self, name: &str, locations: &Locations) -> Result<Generated, KernelErrors>;

    /// The kernel that was generated from it, as programs carry it.
    fn def(&self, generated: &Generated, locations: &Locations) -> KernelDef;
}

impl Generate for Definition {
    fn generate(&self) -> Outcome {
        made(self, Purpose::Launch)
    }

    fn check(&self) -> Outcome {
        made(self, Purpose::Check)
    }

    fn function(&self) -> Option<ast::Kernel> {
        match self {
            Definition::Function(kernel, settings) => Some(settings.applied(kernel)),
            Definition::Matmul(args) => matmul::function(args, &TEXTS),
        }
    }

    fn program(&self) -> Result<Program, Vec<Diagnostic>> {
        let (program, diagnostics) = match self {
            Definition::Function(kernel, settings) => with_room(|| {
                let all = settings.alternatives(kernel).map_err(|why| vec![why])?;
                let (program, diagnostics, _) =
                    evaluate::program(kernel, all.first().unwrap_or(settings), true);
                Ok((program, diagnostics))
            }),
            Definition::Matmul(args) => {
                let texts = &*TEXTS;
                with_room(|| matmul::programs(args, texts).map(|programs| (programs.wide, Vec::new())))
            }
        }?;
        let wrong = diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Deny);
        if wrong {
            return Err(diagnostics);
        }
        let is_open = !program.open.is_empty();
        let with_arch = |mut program: Program| {
            if is_open {
                program.arch = pass::specialize(program.clone(), Policy::General, Arch::Oldest)?.program.arch;
            }
            Ok(program)
        };
        let distributed = pass::distribute(program, Width::WIDEST).and_then(with_arch);
        distributed.map_err(|reported| vec![reported])
    }

    fn kernel(&self, name: &str, locations: &Locations) -> Result<Generated, KernelErrors> {
        let Outcome { kernel, diagnostics } = self.generate();
        kernel.ok_or_else(|| KernelErrors::new(name, diagnostics, locations))
    }

    fn def(&self, generated: &Generated, locations: &Locations) -> KernelDef {
        KernelDef::of(generated, self, locations).with_generator(GENERATOR)
    }
}

/// This crate's generator, for kernels that programs carry.
// SAFETY: both functions make their kernels from the definition.
pub const GENERATOR: Generator = unsafe { Generator::new(generated, specialized) };

/// The kernel, generated from its definition.
fn generated(def: &KernelDef) -> Result<Generated, KernelErrors> {
    match def.definition() {
        None => Err(def.refused(KernelDef::foreign())),
        Some(definition) => definition.kernel(def.name(), &def.locations()),
    }
}

/// See [`KernelDef::specialize`].
fn specialized(
    def: &KernelDef,
    consts: &[(&str, usize)],
    types: &[(&str, Elem)],
) -> Result<KernelDef, KernelErrors> {
    let locations = def.locations();
    let refuse = |problems| Err(KernelErrors::new(def.name(), problems, &locations));
    let Some(mut definition) = def.definition() else {
        return refuse(vec![KernelDef::foreign()]);
    };
    let mut problems = set(&mut definition, consts, types);
    if problems.is_empty() {
        let Outcome { kernel, diagnostics } = definition.check();
        if let Some(kernel) = kernel {
            return Ok(definition.def(&kernel, &locations));
        }
        problems = diagnostics;
    }
    refuse(problems)
}

/// Sets constants and element types, which replace earlier ones. Returns the errors in them.
fn set(definition: &mut Definition, consts: &[(&str, usize)], types: &[(&str, Elem)]) -> Vec<Diagnostic> {
    let name = |text: &str| Name { text: text.into(), span: Definition::NOWHERE };
    let mut problems = Vec::new();
    let mut values = Vec::new();
    for (text, value) in consts {
        match i64::try_from(*value) {
            Ok(value) => values.push((*text, value)),
            Err(_) => problems.push(Diagnostic::error(
                Definition::NOWHERE,
                format!("`{text} = {value}` does not fit into 64 bits"),
            )),
        }
    }
    match definition {
        Definition::Function(_, settings) => {
            let set = Settings {
                consts: values.iter().map(|(text, value)| (name(text), *value)).collect(),
                types: types.iter().map(|(text, elem)| (name(text), *elem)).collect(),
                ..Settings::default()
            };
            problems.extend(set.repeated());
            settings.replace(set);
        }
        Definition::Matmul(args) => {
            let value = |kind| ast::Expr { span: Definition::NOWHERE, kind };
            let consts = values.iter().map(|(text, number)| (*text, value(ast::ExprKind::Int(*number))));
            let types =
                types.iter().map(|(text, elem)| (*text, value(ast::ExprKind::Name(elem.name().into()))));
            for (text, value) in consts.chain(types) {
                matmul::set(args, name(text), value);
            }
        }
    }
    problems
}
