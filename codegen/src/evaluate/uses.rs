//! Which names of the text are used. A name in a loop that is repeated while compiling is bound several times at one place,
//! and one use is enough.

use std::collections::BTreeMap;

use crate::ast::{Level, Name, Span};
use crate::diagnostic::{Diagnostic, Lint};

/// Names that `let` has bound.
#[derive(Default)]
pub(super) struct Uses {
    /// Where each was bound, and whether it has been used.
    all: BTreeMap<Span, (String, bool)>,
    /// Those in scope: their places in it, and where they were bound.
    open: Vec<(usize, Span)>,
}

impl Uses {
    /// A name is bound, as entry `place` of the scope.
    pub(super) fn bind(&mut self, name: &Name, place: usize) {
        self.open.retain(|(known, _)| *known < place);
        self.open.push((place, name.span));
        self.all.entry(name.span).or_insert_with(|| (name.text.clone(), false));
    }

    /// Entry `place` of the scope is used.
    pub(super) fn used(&mut self, place: usize) {
        if let Some((_, span)) = self.open.iter().rev().find(|(known, _)| *known == place)
            && let Some((_, used)) = self.all.get_mut(span)
        {
            *used = true;
        }
    }

    /// What is said of names that nothing uses.
    pub(super) fn unused(&self, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
        let level = Lint::named("unused").map_or(Level::Allow, |lint| super::level(lint, levels));
        if level == Level::Allow {
            return Vec::new();
        }
        let idle = self.all.iter().filter(|(_, (name, used))| !used && !name.starts_with('_'));
        let say = |(span, (name, _)): (&Span, &(String, bool))| {
            let said = Diagnostic::error(*span, format!("`{name}` is not used"));
            Diagnostic { level, lint: Some("unused"), ..said }
                .help(format!("leave it out, or call it `_{name}`"))
        };
        idle.map(say).collect()
    }
}
