//! Kernels from definitions, at run time: with other constants and element types than those that a macro was given.

use crate::front::matmul;
use crate::kernel::kernel_def::{FORMAT, KernelDef, KernelErrors, Locations, ParamDef, fingerprint};
use crate::launch::definition::{Definition, Generated, Outcome, Param, Settings};
use crate::source::ast::{self, Name};
use crate::source::diagnostic::Diagnostic;
use crate::source::wire::encode;
use crate::values::elem::Elem;

impl KernelDef {
    /// The kernel, generated from its definition.
    pub(super) fn made(&self) -> Result<Generated, KernelErrors> {
        match self.definition() {
            None => Err(self.refused(KernelDef::foreign())),
            Some(definition) => definition.kernel(&self.name, &self.locations()),
        }
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
            format: FORMAT,
        }
    }

    /// See [`KernelDef::specialize`].
    pub(super) fn specialized(
        &self,
        consts: &[(&str, usize)],
        types: &[(&str, Elem)],
    ) -> Result<KernelDef, KernelErrors> {
        let locations = self.locations();
        let refuse = |problems| Err(KernelErrors::new(&self.name, problems, &locations));
        let Some(mut definition) = self.definition() else {
            return refuse(vec![KernelDef::foreign()]);
        };
        let mut problems = definition.set(consts, types);
        if problems.is_empty() {
            let Outcome { kernel, diagnostics } = definition.check();
            if let Some(kernel) = kernel {
                return Ok(KernelDef::of(&kernel, &definition, &locations));
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
    /// use tilewright_codegen::{Definition, kernel_def::Locations};
    /// let kernel = Definition::Matmul(vec![]).kernel("product", &Locations::default())?;
    /// assert!(kernel.source().contains("__global__"));
    /// # Ok::<(), tilewright_codegen::kernel_def::KernelErrors>(())
    /// ```
    pub fn kernel(&self, name: &str, locations: &Locations) -> Result<Generated, KernelErrors> {
        let Outcome { kernel, diagnostics } = self.generate();
        kernel.ok_or_else(|| KernelErrors::new(name, diagnostics, locations))
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
    fn of(param: &Param) -> ParamDef {
        ParamDef { name: param.name.clone().into(), elem: param.elem, tensor: param.tensor }
    }
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
