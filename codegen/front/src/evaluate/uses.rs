//! Tracks which names of the text are used. A name in an unrolled loop is bound several times at one span,
//! and one use is enough.

use std::collections::BTreeMap;

use crate::source::ast::{Level, Name, Span};
use crate::source::diagnostic::{Diagnostic, Lint};

/// Names bound by `let`, and scalar arguments.
#[derive(Default)]
pub(super) struct Uses {
    /// Each binding.
    all: BTreeMap<Span, Binding>,
    /// Bindings in scope: their entries in the scope, and their spans.
    open: Vec<(usize, Span)>,
}

struct Binding {
    name: String,
    used: bool,
    /// Is there an earlier one of this name in scope?
    shadows: bool,
}

impl Uses {
    /// A name is bound, as entry `entry` of the scope.
    pub(super) fn bind(&mut self, name: &Name, entry: usize) {
        self.open.retain(|(known, _)| *known < entry);
        let same = |(_, span): &(usize, Span)| *span != name.span && self.all[span].name == name.text;
        let shadows = self.open.iter().any(same);
        self.open.push((entry, name.span));
        let own = || Binding { name: name.text.clone(), used: false, shadows };
        self.all.entry(name.span).or_insert_with(own);
    }

    /// Entry `entry` of the scope is used.
    pub(super) fn used(&mut self, entry: usize) {
        if let Some((_, span)) = self.open.iter().rev().find(|(known, _)| *known == entry)
            && let Some(binding) = self.all.get_mut(span)
        {
            binding.used = true;
        }
    }

    /// Lints for unused names.
    pub(super) fn unused(&self, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
        let level = Lint::named("unused").map_or(Level::Allow, |lint| lint.level_among(levels));
        if level == Level::Allow {
            return Vec::new();
        }
        let idle = self.all.iter().filter(|(_, of)| !of.used && !of.name.starts_with('_'));
        let say = |(span, Binding { name, shadows, .. }): (&Span, &Binding)| {
            let reported = Diagnostic::error(*span, format!("`{name}` is not used"));
            Diagnostic { level, lint: Some("unused"), ..reported }.help(match shadows {
                true => format!("to change the `{name}` before it, write `{name} = …`, without `let`"),
                false => format!("leave it out, or call it `_{name}`"),
            })
        };
        idle.map(say).collect()
    }
}
