//! Names that `let` and loops bind.

use super::Evaluator;
use super::value::Value;
use crate::source::ast::{self, Pattern};
use crate::source::problem::{Problem, count};
use crate::values::limits;

impl Evaluator {
    pub(super) fn bind_let(&mut self, pattern: &Pattern, value: &ast::Expr) {
        // A tuple of values for a tuple of names: each is bound before it is made.
        if let (Pattern::Tuple(_, patterns), ast::ExprKind::Tuple(values)) = (pattern, &value.kind)
            && patterns.len() == values.len()
        {
            let made: Vec<Value> = patterns.iter().zip(values).map(|(p, v)| self.named(p, v)).collect();
            for (pattern, value) in patterns.iter().zip(made) {
                self.bind(pattern, value);
                self.watch(pattern);
            }
            return;
        }
        let made = self.named(pattern, value);
        self.bind(pattern, made);
        self.watch(pattern);
    }

    /// Is the use of the last bound name tracked?
    pub(super) fn watch(&mut self, pattern: &Pattern) {
        if let (Pattern::Name(name), Some(entry)) = (pattern, self.scope.len().checked_sub(1))
            && !self.in_closure
            && self.callers.is_empty()
            && self.in_kernel
        {
            self.uses.bind(name, entry);
        }
    }

    pub(super) fn named(&mut self, pattern: &Pattern, value: &ast::Expr) -> Value {
        self.naming = match pattern {
            Pattern::Hole(_) => Vec::new(),
            pattern => names(pattern),
        };
        let made = self.expr(value);
        self.naming.clear();
        let made = self.own_elements(pattern, value, made);
        match (pattern, made) {
            (Pattern::Name(name), Value::View(view)) => Value::View(view.with_name(&name.text)),
            (_, made) => made,
        }
    }

    pub(super) fn bind(&mut self, pattern: &Pattern, value: Value) {
        match (pattern, value) {
            (Pattern::Hole(_), _) => {}
            (Pattern::Name(name), _) if !limits::is_name(&name.text) => {
                self.is_name("a value", &name.text, name.span);
                self.scope.push((name.text.clone(), Value::Poison));
            }
            (Pattern::Name(name), Value::Unit) => {
                let problem =
                    Problem::new(format!("`{}` would have no value: the call returns none", name.text));
                self.complain(name.span, problem.help("write it as a statement of its own"));
                self.scope.push((name.text.clone(), Value::Poison));
            }
            (Pattern::Name(name), value) => self.scope.push((name.text.clone(), value)),
            (Pattern::Tuple(_, patterns), Value::Tuple(values)) if patterns.len() == values.len() => {
                for (pattern, value) in patterns.iter().zip(values) {
                    self.bind(pattern, value);
                }
            }
            (Pattern::Tuple(span, patterns), value) => {
                if !matches!(value, Value::Poison) {
                    // It has none of the names yet.
                    let kind = match &value {
                        Value::View(view) => format!("one tensor, {}", view.shape()),
                        other => other.kind(),
                    };
                    let problem = Problem::new(format!("{} for {kind}", count(patterns.len(), "name")));
                    self.complain(*span, problem.help("write as many names as there are values"));
                }
                for pattern in patterns {
                    self.bind(pattern, Value::Poison);
                }
            }
        }
    }
}

/// The names that a pattern binds, in order, nested patterns included.
fn names(pattern: &Pattern) -> Vec<String> {
    match pattern {
        Pattern::Tuple(_, patterns) => patterns.iter().flat_map(names).collect(),
        Pattern::Name(name) if limits::is_name(&name.text) => vec![name.text.clone()],
        Pattern::Name(_) => vec!["fragment".to_owned()],
        Pattern::Hole(_) => vec!["_unused".to_owned()],
    }
}
