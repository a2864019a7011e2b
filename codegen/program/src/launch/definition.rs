//! The input and output of the generator: the contract between this crate and its callers.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tilewright_layout::Symbol;

use crate::cuda;
use crate::cuda::report::Report;
use crate::launch::records::{Record, hash, model};
use crate::source::ast::{self, Arg, Level, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::wire::wire;
use crate::thread;
use crate::values::condition::Require;
use crate::values::elem::Elem;

/// The input of the generator. Carried by compiled programs, so that a kernel can be specialised again at run
/// time.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Definition {
    /// `#[kernel] fn …`, with the settings of this use.
    Function(ast::Kernel, Settings),
    /// `matmul_kernel!(…)`: its keys.
    Matmul(Vec<Arg>),
}

/// The settings of a use of a `#[kernel]`: constants, closures, element types and levels.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Settings {
    /// `BM = 64`
    pub consts: Vec<(Name, i64)>,
    /// `EPILOGUE = |x| max(x, 0.0)`
    pub functions: Vec<(Name, ast::Expr)>,
    /// `T = f64`
    pub types: Vec<(Name, Elem)>,
    /// Levels of lints, strongest last.
    pub levels: Vec<(Name, Level)>,
}

impl Settings {
    /// The settings of each alternative: the values of constants that a kernel lists, in order, the last list varying
    /// fastest.
    pub fn alternatives(&self, kernel: &ast::Kernel) -> Result<Vec<Settings>, Diagnostic> {
        let mut all = vec![self.clone()];
        for ast::Choice { names, rows } in self.choices(kernel) {
            let count = all.len().saturating_mul(rows.len());
            if count > MOST_ALTERNATIVES {
                let message =
                    format!("this makes {count} alternatives, and a kernel has at most {MOST_ALTERNATIVES}");
                let help = "list fewer values, or those combinations alone that suit some sizes: `choose((BM, BN) in [(64, 128), (128, 64)])`";
                let span = names.first().map_or(Definition::NOWHERE, |name| name.span);
                return Err(Diagnostic::error(span, message).help(help));
            }
            let with = |one: &Settings, row: &[i64]| {
                let chosen = names.iter().cloned().zip(row.iter().copied());
                Settings { consts: one.consts.iter().cloned().chain(chosen).collect(), ..one.clone() }
            };
            all = all.iter().flat_map(|one| rows.iter().map(|row| with(one, row))).collect();
        }
        Ok(all)
    }

    /// The values that a kernel lists and that these settings allow. A list without any is ignored.
    fn choices(&self, kernel: &ast::Kernel) -> Vec<ast::Choice> {
        let mut all = kernel.choices.clone();
        for ast::Choice { names, rows } in &mut all {
            let set = |name: &Name| self.consts.iter().rev().find(|(known, _)| known.text == name.text);
            rows.retain(|row| {
                names.iter().zip(row).all(|(name, value)| set(name).is_none_or(|(_, set)| set == value))
            });
        }
        all.retain(|choice| !choice.rows.is_empty());
        all
    }

    /// A function with these settings as its defaults, without values of constants that they rule out.
    pub fn applied(&self, kernel: &ast::Kernel) -> ast::Kernel {
        let mut kernel = kernel.clone();
        for (name, value) in &self.consts {
            let of = kernel.consts.iter_mut().find(|constant| constant.name.text == name.text);
            of.into_iter().for_each(|constant| constant.default = Some((*value).into()));
        }
        for (name, function) in &self.functions {
            let constants = kernel.consts.iter_mut().filter(|constant| constant.name.text == name.text);
            constants.for_each(|constant| constant.default = Some(function.clone()));
        }
        for (name, elem) in &self.types {
            let of = kernel.types.iter_mut().find(|param| param.name.text == name.text);
            of.into_iter().for_each(|param| param.allowed.retain(|known| known.text == elem.name()));
        }
        kernel.choices = self.choices(&kernel);
        kernel
    }

    /// Replaces constants, functions and element types, and adds others.
    pub fn replace(&mut self, set: Settings) {
        fn replace<T>(all: &mut Vec<(Name, T)>, set: Vec<(Name, T)>) {
            all.retain(|(old, _)| !set.iter().any(|(new, _)| new.text == old.text));
            all.extend(set);
        }
        replace(&mut self.consts, set.consts);
        replace(&mut self.functions, set.functions);
        replace(&mut self.types, set.types);
    }

    /// Names that a use sets twice. Names that the kernel does not have are refused when it is made.
    pub fn repeated(&self) -> Vec<Diagnostic> {
        let names =
            self.consts.iter().map(|(name, _)| name).chain(self.functions.iter().map(|(name, _)| name));
        let names: Vec<&Name> = names.chain(self.types.iter().map(|(name, _)| name)).collect();
        let again =
            |(at, name): &(usize, &&Name)| names[..*at].iter().any(|earlier| earlier.text == name.text);
        let say = |(_, name): (usize, &&Name)| {
            Diagnostic::error(name.span, format!("`{}` is set twice", name.text)).help("set it once")
        };
        names.iter().enumerate().filter(again).map(say).collect()
    }

    /// The settings that the given settings lack: `BM = 64, BN = 128`.
    pub fn chosen(&self, given: &Settings) -> String {
        let chosen = self.consts[given.consts.len()..].iter();
        chosen.map(|(name, value)| format!("{} = {value}", name.text)).collect::<Vec<_>>().join(", ")
    }
}

/// Most alternatives of a kernel. A launch of new sizes estimates the time of each, and each is generated.
const MOST_ALTERNATIVES: usize = 96;

wire! {
    enum Definition { Function(a, b), Matmul(a) }
    struct Settings { consts, functions, types, levels }
}

/// The outcome: a kernel unless there was an error, and all diagnostics.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The kernel.
    pub kernel: Option<Generated>,
    /// Errors, warnings, notes; in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// A generated kernel: its variants, fastest first.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Its name.
    pub name: String,
    /// The arguments that a launch passes, in order.
    pub params: Vec<Param>,
    /// Complete kernels, each with the facts that it assumes; launch takes the first whose facts are true.
    pub variants: Vec<Variant>,
    /// Requirements on sizes, for all variants.
    pub requires: Vec<Require>,
    /// Kernels that pack arguments, for variants that allow it ([`thread::Launch::packs`]).
    pub packs: Vec<Pack>,
    /// Kernels for launches where a size is 0 that only loops run over.
    pub empty_loops: Vec<EmptyLoops>,
    /// The kernel with its assertions and prints, if it has any: see [`Generated::probed`].
    pub with_probes: Option<Box<Generated>>,
    /// The static report of the first variant.
    pub report: Report,
    /// Measurements that launches prefer to the estimate: see [`Generated::with_records`].
    pub records: Vec<Record>,
}

/// A kernel that copies an argument to memory with aligned rows. A launch runs it first if a variant's
/// facts are false for the argument itself, or if the variant reads rows along another mode.
#[derive(Clone, Debug)]
pub struct Pack {
    /// The argument.
    pub arg: usize,
    /// Its modes in the order of the copying kernel, the contiguous one of the copy first.
    pub modes: Vec<usize>,
    /// Is the contiguous mode of the argument another one: the second of `modes`?
    pub transposes: bool,
    /// The kernel, with the arguments `from` and `to`.
    pub kernel: Generated,
    /// The number of its variants for a copy alone. They are followed by the same ones for the first of several copies, and for
    /// copies beside the first ([`thread::Launch::beside`]). 0 if there is one kind.
    pub beside: usize,
}

/// One variant of a kernel.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The constants that make it another alternative, `BM = 64, BN = 128`, where the author lists values for them.
    pub label: Option<String>,
    /// Its CUDA C.
    pub source: String,
    /// The thread program that it was printed from.
    pub program: thread::Kernel,
    folded: Folded,
}

/// A variant with all blocks along x, made when a launch first needs it.
#[derive(Clone, Debug, Default)]
struct Folded(OnceLock<Option<Box<Variant>>>);

impl Variant {
    /// A variant; `source` is its CUDA C.
    pub fn new(label: Option<String>, source: String, program: thread::Kernel) -> Variant {
        Variant { label, source, program, folded: Folded::default() }
    }

    /// The variant for grids that are too long along y or z: see [`thread::Kernel::folded`].
    pub fn folded(&self) -> Option<&Variant> {
        let make = || {
            let program = self.program.folded()?;
            Some(Box::new(Variant::new(self.label.clone(), cuda::print(&program), program)))
        };
        self.folded.0.get_or_init(make).as_deref()
    }
}

/// A kernel without some loops, for launches with a size of 0 over which only these loops run. It is made when a
/// launch first needs it.
#[derive(Clone)]
pub struct EmptyLoops {
    /// The size that is 0.
    size: Symbol,
    /// The arguments that are neither read nor written then.
    idle: Vec<usize>,
    make: Arc<dyn Fn() -> Option<Variant> + Send + Sync>,
    made: OnceLock<Option<Variant>>,
}

impl EmptyLoops {
    /// The kernel for launches where this size is 0, without these arguments; `make` makes it.
    pub fn new(
        size: Symbol,
        idle: Vec<usize>,
        make: impl Fn() -> Option<Variant> + Send + Sync + 'static,
    ) -> EmptyLoops {
        EmptyLoops { size, idle, make: Arc::new(make), made: OnceLock::new() }
    }

    /// The size that is 0.
    pub(crate) fn size(&self) -> Symbol {
        self.size
    }

    /// The arguments that are neither read nor written.
    pub(crate) fn idle(&self) -> &[usize] {
        &self.idle
    }

    /// The program and its CUDA C; `None` if the rest of the kernel cannot be lowered without the loops.
    ///
    /// ```
    /// # use tilewright_codegen::Generate;
    /// use tilewright_program::Definition;
    /// let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
    /// let without = kernel.empty_loops[0].variant().unwrap();
    /// assert!(kernel.source().contains("fmaf") && !without.source.contains("fmaf"));
    /// ```
    pub fn variant(&self) -> Option<&Variant> {
        self.made.get_or_init(|| (self.make)()).as_ref()
    }
}

impl fmt::Debug for EmptyLoops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EmptyLoops({} = 0)", self.size.name())
    }
}

/// An argument of the user's function.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub elem: Elem,
    /// `Some` for a tensor: is it written, and how many modes has it?
    pub tensor: Option<(bool, usize)>,
}

/// Rows of the copy begin at multiples of this number of bytes: a line of the cache, and a row of a swizzled box.
const ALIGNED: i64 = 128;

impl Pack {
    /// Rows of the copy have a multiple of this number of elements.
    pub fn row_multiple(elem: Elem) -> i64 {
        ALIGNED / i64::from(elem.bytes())
    }
}

impl Generated {
    /// The variant of a launch plan: one of [`Generated::variants`], after them one of a launch without loops, or after these one of
    /// the first with all its blocks along x.
    pub fn variant(&self, index: usize) -> &Variant {
        let folded = index.checked_sub(self.first_folded()).and_then(|of| self.variants.get(of)?.folded());
        if let Some(folded) = folded {
            return folded;
        }
        let empty_loops =
            index.checked_sub(self.variants.len()).and_then(|at| self.empty_loops.get(at)?.variant());
        empty_loops.unwrap_or_else(|| &self.variants[index])
    }

    /// The kernel with its assertions and prints, which the simulator and instrumented launches run.
    pub fn probed(&self) -> &Generated {
        self.with_probes.as_deref().unwrap_or(self)
    }

    /// The same, owned.
    pub fn into_probed(mut self) -> Generated {
        self.with_probes.take().map_or(self, |probed| *probed)
    }

    /// The index of the first variant with all its blocks along x.
    fn first_folded(&self) -> usize {
        self.variants.len() + self.empty_loops.len()
    }

    /// The number of variants that plans can have: see [`Generated::variant`].
    pub fn plannable(&self) -> usize {
        self.first_folded() + self.variants.len()
    }

    /// The variant that runs instead of another if the grid is too long along y or z: with all blocks along x, of the last one that
    /// serves wherever the other does. It assumes least, so exported kernels have few of them.
    pub(super) fn folded(&self, index: usize) -> Option<usize> {
        let of = &self.variants[index];
        let serves = |other: &Variant| {
            let all = |variant: &Variant| {
                let thread::Kernel { arch, arch_specific, params, launch, .. } = &variant.program;
                (
                    variant.label.clone(),
                    *arch,
                    *arch_specific,
                    launch.packs.clone(),
                    params[..self.params.len()].to_vec(),
                )
            };
            let needs_no_more = other.program.needs.iter().all(|need| of.program.needs.contains(need));
            needs_no_more && all(other) == all(of) && other.folded().is_some()
        };
        let last = self.variants.iter().rposition(serves)?;
        Some(self.first_folded() + last)
    }

    /// The variant that a folded one was made of.
    pub(super) fn unfolded(&self, index: usize) -> usize {
        index - self.first_folded()
    }

    /// Is it a variant of a launch without loops?
    pub fn is_without_loops(&self, index: usize) -> bool {
        (self.variants.len()..self.first_folded()).contains(&index)
    }

    /// The source of the fastest variant.
    pub fn source(&self) -> &str {
        &self.variants[0].source
    }

    /// A hash of the generated code. Records of other code do not count.
    pub fn fingerprint(&self) -> u64 {
        self.variants.iter().fold(model(&self.name), |all, variant| hash(all, variant.source.as_bytes()))
    }

    /// The alternative that a variant is of: its constants, or the variant itself where no constants are listed.
    pub fn alternative(&self, variant: usize) -> String {
        let label = self.variants.get(variant).and_then(|variant| variant.label.clone());
        label.unwrap_or_else(|| format!("variant {}", variant + 1))
    }

    /// The alternative that a variant is of, as a kernel without others and without records.
    pub fn with_alternative(&self, variant: usize) -> Generated {
        let name = self.alternative(variant);
        let variants = self.variants.iter().enumerate().filter(|(at, _)| self.alternative(*at) == name);
        Generated {
            name: self.name.clone(),
            params: self.params.clone(),
            variants: variants.map(|(_, variant)| variant.clone()).collect(),
            requires: self.requires.clone(),
            packs: self.packs.clone(),
            empty_loops: self.empty_loops.clone(),
            with_probes: None,
            report: self.report.clone(),
            records: Vec::new(),
        }
    }

    /// The kernel with the records that are its own.
    pub fn with_records<'r>(self, all: impl Iterator<Item = &'r Record> + Clone) -> Generated {
        let mut named = all.filter(|record| record.kernel == self.name).peekable();
        if named.peek().is_none() {
            return self;
        }
        let fingerprint = self.fingerprint();
        let records = named.filter(|record| record.fingerprint == fingerprint).cloned().collect();
        Generated { records, ..self }
    }

    /// The source of the fastest variant, with the report as a comment at its top.
    pub fn source_with_report(&self) -> String {
        format!("{}\n{}", self.report.comment(), self.source())
    }
}

impl Definition {
    /// A definition without spans refers to the whole use.
    pub const NOWHERE: Span = Span(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &[(&str, i64)], expected: &[&str]) {
        let name = |text: &str| Name { text: text.into(), span: Definition::NOWHERE };
        let consts = settings.iter().map(|(text, value)| (name(text), *value)).collect();
        let settings = Settings { consts, ..Settings::default() };
        let message: Vec<_> = settings.repeated().iter().map(Diagnostic::text).collect();
        assert_eq!(message, expected);
    }

    #[test]
    fn constants_are_set_once() {
        check(&[("BM", 64), ("BN", 64)], &[]);
        check(&[("BM", 64), ("BM", 32)], &["`BM` is set twice\nhelp: set it once"]);
    }
}
