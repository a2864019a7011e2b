//! Keys of the attribute: `#[kernel(arch = 90, threads = 128)]`.

use super::Evaluator;
use super::value::Value;
use crate::source::ast::{Expr, ExprKind, Kernel};
use crate::source::problem::Problem;
use crate::values::target::TARGETS;

/// Every key, and its usage.
pub const KEYS: &[(&str, &str)] = &[("arch", "arch = 90"), ("threads", "threads = 128")];

impl Evaluator {
    /// Applies the keys of the attribute.
    pub(super) fn keys(&mut self, kernel: &Kernel) {
        for (at, key) in kernel.keys.iter().enumerate() {
            let Some(name) = &key.name else { continue };
            let earlier = kernel.keys[..at].iter().filter_map(|earlier| earlier.name.as_ref());
            let made = match name.text.as_str() {
                text if earlier.into_iter().any(|earlier| earlier.text == text) => {
                    let problem = Problem::new(format!("`{text}` is given twice"));
                    self.complain(name.span, problem.help("remove one of them"));
                    continue;
                }
                "arch" => self.architecture(&key.value).map(|arch| self.builder.named_arch(arch)),
                _ => {
                    let threads = self.integer_key(&key.value, &name.text);
                    threads.and_then(|threads| self.builder.threads(threads))
                }
            };
            if let Err(problem) = made {
                self.complain(key.value.span, problem);
            }
        }
    }

    fn integer_key(&mut self, value: &Expr, key: &str) -> Result<i64, Problem> {
        match self.expr(value) {
            Value::Int(n) => Ok(n),
            Value::Poison => Err(Problem::reported()),
            other => {
                let usage = KEYS.iter().find(|(known, _)| *known == key).map_or("", |(_, usage)| usage);
                let problem = Problem::new(format!("`{key}` is an integer, and this is {}", other.kind()));
                Err(problem.help(format!("write {usage}")))
            }
        }
    }

    /// A compute capability: `90` or `sm_90`.
    pub(super) fn architecture(&mut self, value: &Expr) -> Result<u32, Problem> {
        let named = match &value.kind {
            ExprKind::Name(name) => name.strip_prefix("sm_"),
            _ => None,
        };
        if let Some(number) = named.and_then(|digits| digits.strip_suffix('a')) {
            return Err(Problem::new(
                "the suffix `a` is chosen by the generator, for kernels with instructions of one architecture",
            )
            .help(format!("write arch = {number}")));
        }
        let number = match named {
            Some(digits) => digits.parse().ok(),
            None => Some(self.integer_key(value, "arch")?),
        };
        let oldest = self.builder.program().arch;
        let exists = |number: &u32| TARGETS.iter().any(|row| row.arch / 10 == number / 10);
        match number.and_then(|number| u32::try_from(number).ok()).filter(exists) {
            Some(number) if number >= oldest => Ok(number),
            Some(number) => Err(Problem::new(format!("kernels need sm_{oldest}, and this is sm_{number}"))
                .help(format!("write arch = {oldest} or more, or leave it out"))),
            None => {
                let known: Vec<String> =
                    TARGETS.iter().filter(|row| row.arch >= oldest).map(|row| row.arch.to_string()).collect();
                Err(Problem::new("there is no such compute capability")
                    .help(format!("write one of {}", known.join(", "))))
            }
        }
    }
}
