//! A kernel as a compiled program carries it: its source, and its definition.
//!
//! All fields are plain data, and [`KernelDef::new`] is safe: a launch does not trust the source, the report or the
//! parameters. It makes the kernel again from the definition, with the generator in the program, and launches the
//! result. A forged definition is only another kernel.

use crate::front::matmul;
use crate::source::ast::{self, Name, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::wire::{decode, encode, wire};
use crate::tile::definition::{Definition, Generated, Outcome, Settings};
use crate::values::elem::Elem;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The version of the encoded definition. Another version is refused, never guessed at.
pub const FORMAT: u32 = 3;

/// A kernel as a compiled program carries it.
#[derive(Clone, PartialEq)]
pub struct KernelDef {
    name: Cow<'static, str>,
    source: Cow<'static, str>,
    report: Cow<'static, str>,
    params: Cow<'static, [ParamDef]>,
    definition: Cow<'static, [u8]>,
    places: Cow<'static, [u8]>,
    fingerprint: u128,
    format: u32,
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
pub struct Places {
    /// The file.
    pub file: String,
    /// The line of each span.
    pub lines: Vec<u32>,
}

wire! {
    struct Places { file, lines }
}

impl Places {
    /// `src/kernels.rs:14`, when it is known.
    ///
    /// ```
    /// use tilewright_codegen::{ast::Span, kernel_def::Places};
    /// let places = Places { file: "src/kernels.rs".into(), lines: vec![10, 14] };
    /// assert_eq!(places.of(Span(1)).as_deref(), Some("src/kernels.rs:14"));
    /// assert_eq!(places.of(Span(2)), None);
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
    /// The kernel of a macro. `definition` and `places` are encoded by [`encode`].
    pub const fn new(
        name: &'static str,
        source: &'static str,
        report: &'static str,
        params: &'static [ParamDef],
        definition: &'static [u8],
        places: &'static [u8],
    ) -> KernelDef {
        KernelDef {
            name: Cow::Borrowed(name),
            source: Cow::Borrowed(source),
            report: Cow::Borrowed(report),
            params: Cow::Borrowed(params),
            definition: Cow::Borrowed(definition),
            places: Cow::Borrowed(places),
            fingerprint: fingerprint(definition),
            format: FORMAT,
        }
    }

    /// The kernel of a definition that was generated at run time.
    pub fn of(generated: &Generated, definition: &Definition, places: &Places) -> KernelDef {
        let definition = encode(definition);
        KernelDef {
            name: generated.name.clone().into(),
            source: generated.source().to_string().into(),
            report: generated.report.to_string().into(),
            params: generated.params.iter().map(ParamDef::of).collect(),
            fingerprint: fingerprint(&definition),
            definition: definition.into(),
            places: encode(places).into(),
            format: FORMAT,
        }
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

    /// Generates the kernel, with all its variants, from its definition. Launches use this result alone.
    ///
    /// ```
    /// use tilewright_codegen::{Definition, kernel_def::{KernelDef, Places}};
    /// let definition = Definition::Matmul(vec![]);
    /// let def = KernelDef::of(&definition.generate().kernel.unwrap(), &definition, &Places::default());
    /// assert_eq!(def.generate()?.source(), def.source());
    /// # Ok::<(), tilewright_codegen::kernel_def::KernelErrors>(())
    /// ```
    pub fn generate(&self) -> Result<Generated, KernelErrors> {
        match self.definition() {
            None => Err(KernelErrors::new(&self.name, vec![KernelDef::foreign()], &self.places())),
            Some(definition) => definition.kernel(&self.name, &self.places()),
        }
    }

    /// The error for a definition that another version encoded.
    fn foreign() -> Diagnostic {
        let said = "this kernel was compiled by another version of tilewright";
        Diagnostic::error(Definition::NOWHERE, said).help("build the program again")
    }

    /// Its source location.
    pub fn places(&self) -> Places {
        decode(&self.places).unwrap_or_default()
    }

    /// The kernel with other constants and element types.
    pub fn specialize(
        &self,
        consts: &[(&str, usize)],
        types: &[(&str, Elem)],
    ) -> Result<KernelDef, KernelErrors> {
        let places = self.places();
        let refuse = |problems| Err(KernelErrors::new(&self.name, problems, &places));
        let Some(mut definition) = self.definition() else {
            return refuse(vec![KernelDef::foreign()]);
        };
        let mut problems = definition.set(consts, types);
        if problems.is_empty() {
            let Outcome { kernel, diagnostics } = definition.check();
            if let Some(kernel) = kernel {
                return Ok(KernelDef::of(&kernel, &definition, &places));
            }
            problems = diagnostics;
        }
        refuse(problems)
    }
}

impl Definition {
    /// The kernel, with all its variants. Errors call it by this name.
    ///
    /// ```
    /// use tilewright_codegen::{Definition, kernel_def::Places};
    /// let kernel = Definition::Matmul(vec![]).kernel("product", &Places::default())?;
    /// assert!(kernel.source().contains("__global__"));
    /// # Ok::<(), tilewright_codegen::kernel_def::KernelErrors>(())
    /// ```
    pub fn kernel(&self, name: &str, places: &Places) -> Result<Generated, KernelErrors> {
        let Outcome { kernel, diagnostics } = self.generate();
        kernel.ok_or_else(|| KernelErrors::new(name, diagnostics, places))
    }

    /// Sets constants and element types, which replace earlier ones. Returns the errors in them.
    fn set(&mut self, consts: &[(&str, usize)], types: &[(&str, Elem)]) -> Vec<Diagnostic> {
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
        match self {
            Definition::Function(_, settings) => {
                let set = Settings {
                    consts: values.iter().map(|(text, value)| (name(text), *value)).collect(),
                    types: types.iter().map(|(text, elem)| (name(text), *elem)).collect(),
                    levels: Vec::new(),
                };
                problems.extend(set.repeated());
                settings.consts.retain(|(old, _)| !consts.iter().any(|(new, _)| *new == old.text));
                settings.types.retain(|(old, _)| !types.iter().any(|(new, _)| *new == old.text));
                settings.consts.extend(set.consts);
                settings.types.extend(set.types);
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
}

impl Settings {
    /// Names that a use sets twice. Names that the kernel does not have are refused when it is made.
    pub fn repeated(&self) -> Vec<Diagnostic> {
        let names = self.consts.iter().map(|(name, _)| name).chain(self.types.iter().map(|(name, _)| name));
        let names: Vec<&Name> = names.collect();
        let again =
            |(at, name): &(usize, &&Name)| names[..*at].iter().any(|earlier| earlier.text == name.text);
        let say = |(_, name): (usize, &&Name)| {
            Diagnostic::error(name.span, format!("`{}` is set twice", name.text)).help("set it once")
        };
        names.iter().enumerate().filter(again).map(say).collect()
    }
}

impl ParamDef {
    /// The argument of a macro's kernel.
    pub const fn new(name: &'static str, elem: Elem, tensor: Option<(bool, usize)>) -> ParamDef {
        ParamDef { name: Cow::Borrowed(name), elem, tensor }
    }

    fn of(param: &crate::tile::definition::Param) -> ParamDef {
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
    fn new(kernel: &str, diagnostics: Vec<Diagnostic>, places: &Places) -> KernelErrors {
        let errors = diagnostics.iter().filter(|said| said.level == ast::Level::Deny);
        let text = errors
            .map(|said| match places.of(said.span).filter(|_| said.span != Definition::NOWHERE) {
                Some(place) => format!("{}\n  at {place}", said.text()),
                None => said.text(),
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

/// As for people: `unwrap` shows this.
impl fmt::Debug for KernelErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for KernelErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &[(&str, i64)], expected: &[&str]) {
        let name = |text: &str| Name { text: text.into(), span: Definition::NOWHERE };
        let consts = settings.iter().map(|(text, value)| (name(text), *value)).collect();
        let settings = Settings { consts, ..Settings::default() };
        let said: Vec<_> = settings.repeated().iter().map(Diagnostic::text).collect();
        assert_eq!(said, expected);
    }

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
    fn constants_are_set_once() {
        check(&[("BM", 64), ("BN", 64)], &[]);
        check(&[("BM", 64), ("BM", 32)], &["`BM` is set twice\nhelp: set it once"]);
    }

    #[test]
    fn definitions_of_other_versions_are_refused() {
        static DEF: KernelDef = KernelDef::new("nt", "", "", &[], b"\xff", b"");
        assert_eq!(DEF.definition(), None);
        let said = DEF.specialize(&[], &[]).unwrap_err().to_string();
        assert!(said.contains("another version of tilewright"), "{said}");
    }

    #[test]
    fn the_fingerprint_is_the_definition() {
        let def = |bytes| KernelDef::new("nt", "", "", &[], bytes, b"").fingerprint();
        assert_eq!(def(b"ab"), def(b"ab"));
        assert_ne!(def(b"ab"), def(b"ba"));
        assert_eq!(KernelDef::new("x", "y", "z", &[], b"ab", b"0").fingerprint(), def(b"ab"));
    }
}
