//! Calls the generator.

use tilewright_codegen::ast::{Arg, Expr, ExprKind, Level, Name};
use tilewright_codegen::diagnostic::Diagnostic;
use tilewright_codegen::{Definition, Generate, Outcome};

/// Makes the kernel of a definition, with lint levels from the environment, which the definition may
/// override.
pub(crate) fn generate(definition: &Definition, levels: &[(Name, Level)]) -> Outcome {
    let mut definition = definition.clone();
    match &mut definition {
        Definition::Function(kernel, _) => drop(kernel.levels.splice(0..0, levels.iter().cloned())),
        Definition::Matmul(args) => drop(args.splice(0..0, levels.iter().map(level))),
    }
    // A program with the generator makes the other variants when they are launched.
    let mut outcome = if cfg!(feature = "generate") { definition.check() } else { definition.generate() };
    if outcome.kernel.is_none() && !outcome.diagnostics.iter().any(|message| message.level == Level::Deny) {
        let message =
            Diagnostic::error(Definition::NOWHERE, "tilewright made neither a kernel nor an error of this");
        outcome.diagnostics.push(message.help("this is a mistake of ours: please report it, with the text"));
    }
    outcome
}

/// `deny = bank_conflicts`
fn level((lint, level): &(Name, Level)) -> Arg {
    let name = Name { text: level.name().into(), span: lint.span };
    Arg { name: Some(name), value: Expr { span: lint.span, kind: ExprKind::Name(lint.text.clone()) } }
}
