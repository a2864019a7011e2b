//! A kernel as a compiled program carries it: its source, its definition, and in a program without the generator the thread
//! programs of all its variants.
//!
//! All fields are plain data, and [`KernelDef::new`] is safe: a launch does not trust the source, the report or the
//! parameters. It makes the kernel again from the definition, with the generator in the program, and launches the
//! result. A forged definition is only another kernel. Thread programs are trusted, so [`KernelDef::with_programs`] is unsafe.
#![allow(unsafe_code)]

use crate::launch::definition::{Definition, Generated, Param};
use crate::source::ast::{self, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::stack::with_room;
use crate::source::wire::{decode, decode_without_spans, encode, wire};
use crate::values::elem::Elem;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The version of the encoded definition. Another version is refused, never guessed at.
pub const FORMAT: u32 = 4;

/// A kernel as a compiled program carries it.
#[derive(Clone, PartialEq)]
pub struct KernelDef {
    pub(super) name: Cow<'static, str>,
    pub(super) source: Cow<'static, str>,
    pub(super) report: Cow<'static, str>,
    pub(super) params: Cow<'static, [ParamDef]>,
    pub(super) definition: Cow<'static, [u8]>,
    pub(super) locations: Cow<'static, [u8]>,
    /// The thread programs; empty where they are made from the definition.
    pub(super) programs: &'static [u8],
    /// What makes the thread programs from the definition, in a program that has it.
    pub(super) generator: Option<Generator>,
    pub(super) fingerprint: u128,
    pub(super) format: u32,
}

/// Makes a kernel from its definition.
type Make = fn(&KernelDef) -> Result<Generated, KernelErrors>;

/// The kernel with these values of constants and these element types.
type Specialize = fn(&KernelDef, &[(&str, usize)], &[(&str, Elem)]) -> Result<KernelDef, KernelErrors>;

/// The generator, which makes kernels at run time. It is a value, so that a program without it does not link it.
#[derive(Clone, Copy)]
pub struct Generator {
    generate: Make,
    specialize: Specialize,
}

impl Generator {
    /// The generator of these functions.
    ///
    /// # Safety
    /// Both make their kernels from the definition: a launch checks its arguments against the facts in what `generate` returns,
    /// and runs what is in it.
    pub const unsafe fn new(generate: Make, specialize: Specialize) -> Generator {
        Generator { generate, specialize }
    }
}

/// There is one in a program.
impl PartialEq for Generator {
    fn eq(&self, _: &Generator) -> bool {
        true
    }
}

/// An argument of a kernel, as a compiled program carries it.
#[derive(Clone, PartialEq, Debug)]
pub struct ParamDef {
    /// Its name.
    pub name: Cow<'static, str>,
    /// Its element type.
    pub elem: Elem,
    /// `Some` for a tensor: is it written, and how many modes has it?
    pub tensor: Option<(bool, usize)>,
}

/// The source locations of a definition, for messages far from its file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Locations {
    /// The file.
    pub file: String,
    /// The line of each span.
    pub lines: Vec<u32>,
}

wire! {
    struct Locations { file, lines }
}

impl Locations {
    /// `src/kernels.rs:14`, when it is known.
    ///
    /// ```
    /// use tilewright_program::{ast::Span, kernel_def::Locations};
    /// let locations = Locations { file: "src/kernels.rs".into(), lines: vec![10, 14] };
    /// assert_eq!(locations.of(Span(1)).as_deref(), Some("src/kernels.rs:14"));
    /// assert_eq!(locations.of(Span(2)), None);
    /// ```
    pub fn of(&self, span: Span) -> Option<String> {
        self.lines.get(span.0 as usize).map(|line| format!("{}:{line}", straight(&self.file)))
    }
}

/// A normalised path: `src/../examples/a.rs`, as `#[path]` makes it, is `examples/a.rs`.
fn straight(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("..", Some(last)) if !matches!(*last, ".." | "" | ".") => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

impl KernelDef {
    /// The kernel of a macro. `definition` and `locations` are encoded by [`encode`].
    pub const fn new(
        name: &'static str,
        source: &'static str,
        report: &'static str,
        params: &'static [ParamDef],
        definition: &'static [u8],
        locations: &'static [u8],
    ) -> KernelDef {
        KernelDef {
            name: Cow::Borrowed(name),
            source: Cow::Borrowed(source),
            report: Cow::Borrowed(report),
            params: Cow::Borrowed(params),
            definition: Cow::Borrowed(definition),
            locations: Cow::Borrowed(locations),
            programs: &[],
            generator: None,
            fingerprint: fingerprint(definition),
            format: FORMAT,
        }
    }

    /// The same with what [`programs`](KernelDef::programs) makes of the generated kernel, for programs without the generator.
    ///
    /// # Safety
    /// The bytes are of the kernel that this version of the generator made of the definition: a launch checks its arguments
    /// against the facts in them, and runs what is in them.
    pub const unsafe fn with_programs(mut self, programs: &'static [u8]) -> KernelDef {
        self.programs = programs;
        self
    }

    /// The same in a program with the generator.
    pub const fn with_generator(mut self, generator: Generator) -> KernelDef {
        self.generator = Some(generator);
        self
    }

    /// The kernel of a definition that was generated at run time.
    pub fn of(generated: &Generated, definition: &Definition, locations: &Locations) -> KernelDef {
        let definition = encode(definition);
        KernelDef {
            name: generated.name.clone().into(),
            source: generated.source().to_string().into(),
            report: generated.report.to_string().into(),
            params: generated.params.iter().map(ParamDef::of).collect(),
            fingerprint: fingerprint(&definition),
            definition: definition.into(),
            locations: encode(locations).into(),
            programs: &[],
            generator: None,
            format: FORMAT,
        }
    }

    /// A generated kernel as bytes.
    ///
    /// ```
    /// # use tilewright_codegen::Generate;
    /// use tilewright_program::{Definition, kernel_def::{KernelDef, Locations}};
    /// let definition = Definition::Matmul(vec![]);
    /// let kernel = definition.generate().kernel.unwrap();
    /// let programs = KernelDef::programs(&kernel).leak();
    /// let def = KernelDef::new("matmul", "", "", &[], b"", b"");
    /// // SAFETY: the bytes were made here.
    /// let def = unsafe { def.with_programs(programs) };
    /// assert_eq!(def.generate()?.source(), kernel.source());
    /// # Ok::<(), tilewright_program::kernel_def::KernelErrors>(())
    /// ```
    pub fn programs(kernel: &Generated) -> Vec<u8> {
        with_room(|| encode(kernel))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The CUDA C of its fastest variant.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its static report.
    pub fn report(&self) -> &str {
        &self.report
    }

    /// The arguments that a launch passes, in order.
    pub fn params(&self) -> &[ParamDef] {
        &self.params
    }

    /// A hash of the definition that does not depend on its position in the file.
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint
    }

    /// The encoded definition. Two kernels with the same fingerprint are equal only if these are.
    pub fn encoded(&self) -> &Cow<'static, [u8]> {
        &self.definition
    }

    /// Its definition; `None` when another version encoded it.
    pub fn definition(&self) -> Option<Definition> {
        if self.format == FORMAT { decode(&self.definition) } else { None }
    }

    /// The encoded definition without the positions at which it was written, which programs differ in; `None` as for `definition`.
    pub fn encoded_without_spans(&self) -> Option<Vec<u8>> {
        if self.format != FORMAT {
            return None;
        }
        Some(encode(&with_room(|| decode_without_spans::<Definition>(&self.definition))?))
    }

    /// The kernel, with all its variants: as it is carried, or generated from its definition. Launches use this result alone.
    ///
    /// ```
    /// # use tilewright_codegen::Generate;
    /// use tilewright_program::{Definition, kernel_def::{KernelDef, Locations}};
    /// let definition = Definition::Matmul(vec![]);
    /// let def = definition.def(&definition.generate().kernel.unwrap(), &Locations::default());
    /// assert_eq!(def.generate()?.source(), def.source());
    /// # Ok::<(), tilewright_program::kernel_def::KernelErrors>(())
    /// ```
    pub fn generate(&self) -> Result<Generated, KernelErrors> {
        if !self.programs.is_empty() {
            let carried = if self.format == FORMAT { with_room(|| decode(self.programs)) } else { None };
            return carried.ok_or_else(|| self.refused(KernelDef::foreign()));
        }
        (self.generator()?.generate)(self)
    }

    /// The kernel with other constants and element types.
    pub fn specialize(
        &self,
        consts: &[(&str, usize)],
        types: &[(&str, Elem)],
    ) -> Result<KernelDef, KernelErrors> {
        (self.generator()?.specialize)(self, consts, types)
    }

    fn generator(&self) -> Result<Generator, KernelErrors> {
        self.generator.ok_or_else(|| {
            let why = "this program has no generator, which makes kernels at run time";
            let add = "write `features = [\"generate\"]` for `tilewright` in Cargo.toml";
            self.refused(Diagnostic::error(Definition::NOWHERE, why).help(add))
        })
    }

    /// The error for this kernel.
    pub fn refused(&self, why: Diagnostic) -> KernelErrors {
        KernelErrors::new(&self.name, vec![why], &self.locations())
    }

    /// The error for a definition that another version encoded.
    pub fn foreign() -> Diagnostic {
        let reported = "this kernel was compiled by another version of tilewright";
        Diagnostic::error(Definition::NOWHERE, reported).help("build the program again")
    }

    /// Its source location.
    pub fn locations(&self) -> Locations {
        decode(&self.locations).unwrap_or_default()
    }
}

/// What can be made at run time: everything in a program with the generator.
#[diagnostic::on_unimplemented(
    message = "this program has no generator, which makes kernels at run time",
    label = "this is made at run time",
    note = "write `features = [\"generate\"]` for `tilewright` in Cargo.toml"
)]
pub trait Generates {}

#[cfg(feature = "generate")]
impl<T: ?Sized> Generates for T {}

impl ParamDef {
    /// The argument of a macro's kernel.
    pub const fn new(name: &'static str, elem: Elem, tensor: Option<(bool, usize)>) -> ParamDef {
        ParamDef { name: Cow::Borrowed(name), elem, tensor }
    }
}

impl ParamDef {
    fn of(param: &Param) -> ParamDef {
        ParamDef { name: param.name.clone().into(), elem: param.elem, tensor: param.tensor }
    }
}

impl fmt::Debug for KernelDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelDef({}, {:032x})", self.name, self.fingerprint)
    }
}

/// A hash of bytes: FNV-1a, which `const` code can compute. Not collision-resistant.
pub const fn fingerprint(bytes: &[u8]) -> u128 {
    let mut hash = 0x6c62272e07bb014262b821756295c58d_u128 ^ FORMAT as u128;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u128).wrapping_mul(0x0000000001000000000000000000013b);
        at += 1;
    }
    hash
}

/// A kernel with static lifetime, or reference-counted.
#[derive(Clone)]
pub enum Handle {
    /// Made while compiling.
    Fixed(&'static KernelDef),
    /// Made at run time.
    Shared(Arc<KernelDef>),
}

impl Handle {
    /// The kernel.
    pub fn def(&self) -> &KernelDef {
        match self {
            Handle::Fixed(def) => def,
            Handle::Shared(def) => def,
        }
    }

    /// Another kernel from the same definition.
    pub fn specialize(
        &self,
        consts: &[(&str, usize)],
        types: &[(&str, Elem)],
    ) -> Result<Handle, KernelErrors> {
        self.def().specialize(consts, types).map(|def| Handle::Shared(Arc::new(def)))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.def().fmt(f)
    }
}

/// Why a kernel could not be made at run time. Printing it tells everything, with lines of the kernel's file.
#[derive(Clone, PartialEq)]
pub struct KernelErrors {
    kernel: String,
    diagnostics: Vec<Diagnostic>,
    text: String,
}

impl KernelErrors {
    /// The errors among these diagnostics, of the kernel of this name.
    pub fn new(kernel: &str, diagnostics: Vec<Diagnostic>, locations: &Locations) -> KernelErrors {
        let errors = diagnostics.iter().filter(|diagnostic| diagnostic.level == ast::Level::Deny);
        let text = errors
            .map(|reported| {
                match locations.of(reported.span).filter(|_| reported.span != Definition::NOWHERE) {
                    Some(location) => format!("{}\n  at {location}", reported.text()),
                    None => reported.text(),
                }
            })
            .collect::<Vec<_>>()
            .join("\n");
        KernelErrors { kernel: kernel.into(), diagnostics, text }
    }

    /// The diagnostics, one by one.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

impl fmt::Display for KernelErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: {}", self.kernel, self.text)
    }
}

crate::launch::error_with_text!(KernelErrors);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised() {
        let check = |path, expected: &str| assert_eq!(straight(path), expected);
        check("src/../examples/a.rs", "examples/a.rs");
        check("a/b/../../c.rs", "c.rs");
        check("../a.rs", "../a.rs");
        check("/a.rs", "/a.rs");
        check("C:\\a\\b.rs", "C:\\a\\b.rs");
    }

    #[test]
    fn definitions_of_other_versions_are_refused() {
        static DEF: KernelDef = KernelDef::new("nt", "", "", &[], b"\xff", b"");
        assert_eq!(DEF.definition(), None);
        // SAFETY: no program can be read from these bytes.
        let carried = unsafe { DEF.clone().with_programs(b"\xff") };
        let reported = carried.generate().unwrap_err().to_string();
        assert!(reported.contains("another version of tilewright"), "{reported}");
    }

    #[test]
    fn a_program_without_the_generator_says_what_it_lacks() {
        let def = KernelDef::new("nt", "", "", &[], b"", b"");
        let reported = [def.specialize(&[], &[]).map(drop), def.generate().map(drop)].map(Result::unwrap_err);
        for reported in reported {
            let expected = "this program has no generator, which makes kernels at run time\nhelp: write `features = [\"generate\"]` for `tilewright` in Cargo.toml";
            assert!(reported.to_string().contains(expected), "{reported}");
        }
    }

    #[test]
    fn the_fingerprint_is_the_definition() {
        let def = |bytes| KernelDef::new("nt", "", "", &[], bytes, b"").fingerprint();
        assert_eq!(def(b"ab"), def(b"ab"));
        assert_ne!(def(b"ab"), def(b"ba"));
        assert_eq!(KernelDef::new("x", "y", "z", &[], b"ab", b"0").fingerprint(), def(b"ab"));
    }
}
