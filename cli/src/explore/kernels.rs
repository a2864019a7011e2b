//! A kernel beside its CUDA C: its constants, its statements, the lines that come from each, and its accesses.

use std::collections::HashMap;

use serde_json::{Value, json};
use tilewright_codegen::ast::{ExprKind, Kernel, Stmt};
use tilewright_codegen::kernel_def::Locations;
use tilewright_codegen::{Definition, Generate, Sample, accesses_of, cuda, explain, matmul, report_of};

use super::answers::Question;
use crate::data;
use crate::inspect;
use crate::kernel::{self, Chosen, Part};
use crate::output::{Failure, Result};

/// A kernel, and one of its variants.
pub(super) fn kernel(question: &Question) -> Result<Value> {
    let chosen = question.kernel()?;
    let variants = &chosen.generated.variants;
    let variant = question.number("variant").unwrap_or(1).clamp(1, variants.len() as u64) as usize - 1;
    let function = inspect::function(&chosen);
    let statements = Statements::of(function.as_ref().ok());
    let locations = chosen.def.locations();
    let program = &chosen.generated.variant(variant).program;
    let (source, spans) = cuda::print_with_spans(program);
    let source = source.lines().zip(&spans).map(|(line, span)| json!([line, statements.of_span(span.0)]));
    let accesses = accesses_of(&chosen.generated, variant);
    let report = report_of(&chosen.generated, variant);
    let parts = chosen.definition.program().map(|program| kernel::parts(&program)).unwrap_or_default();
    Ok(json!({
        "kernel": chosen.name,
        "settings": settings(&chosen),
        "function": function.as_ref().map_or_else(refused, |function| statements.lines(function, &locations)),
        "source": source.collect::<Vec<_>>(),
        "variant": variant + 1,
        "variants": variants.iter().map(|one| &one.label).collect::<Vec<_>>(),
        "architecture": program.arch,
        "report": report.to_string(),
        "loops": explain::nest(program),
        "accesses": accesses.iter().map(|one| access(one, &statements)).collect::<Vec<_>>(),
        "parts": parts.iter().map(part_of).collect::<Vec<_>>(),
    }))
}

/// Why there is no function, as lines of a comment.
fn refused(why: &Failure) -> Value {
    let Failure::Refused(why) = why else { return Value::Null };
    why.lines().map(|line| json!([format!("// {line}"), null, null])).collect()
}

fn part_of(part: &Part) -> Value {
    let mut json = inspect::part(part);
    json["bytes"] = part.element.into();
    json["drawn"] = part.picture.is_ok().into();
    json
}

/// The picture of one tensor or partition.
pub(super) fn part(question: &Question) -> Result<Value> {
    let chosen = question.kernel()?;
    let program = chosen.definition.program().map_err(|_| Failure::of("the kernel has no tile program"))?;
    let part = kernel::parts(&program).into_iter().find(|part| part.name == question.text("part"));
    let part = part.ok_or_else(|| Failure::of("the kernel has no such tensor or partition"))?;
    Ok(data::picture(part.picture.as_ref().map_err(String::clone)))
}

fn access(sample: &Sample, statements: &Statements) -> Value {
    let mut access = inspect::access(&sample.access);
    access["at"] = json!(statements.of_span(sample.span.0));
    access["warp"] = sample.warp.as_ref().map_or(Value::Null, data::warp);
    access
}

/// What a use can set: constants and element types, or the keys of products.
fn settings(chosen: &Chosen) -> Value {
    let (kernel, settings) = match &chosen.definition {
        Definition::Function(kernel, settings) => (kernel, settings),
        Definition::Matmul(_) => {
            let key = |(name, default, about): &matmul::Key| json!([name, default, about]);
            return json!({
                "keys": matmul::keys().map(key).collect::<Vec<_>>(),
                "schedule": matmul::schedule().map(key).collect::<Vec<_>>(),
            });
        }
    };
    let applied = settings.applied(kernel);
    let constants = applied.consts.iter().filter(|constant| !constant.is_function()).map(|constant| {
        let value = match constant.default.as_ref().map(|value| &value.kind) {
            Some(ExprKind::Int(value)) => Some(*value),
            _ => None,
        };
        let choice = applied.choices.iter().find_map(|choice| {
            let at = choice.names.iter().position(|name| name.text == constant.name.text)?;
            Some(choice.rows.iter().filter_map(|row| row.get(at).copied()).collect::<Vec<_>>())
        });
        json!({ "name": constant.name.text, "value": value, "alternatives": choice })
    });
    let types = kernel.types.iter().map(|ty| {
        let set = settings.types.iter().find(|(name, _)| name.text == ty.name.text);
        let allowed: Vec<&str> = ty.allowed.iter().map(|name| &*name.text).collect();
        let value = set.map_or(allowed.first().copied().unwrap_or_default(), |(_, elem)| elem.name());
        json!({ "name": ty.name.text, "value": value, "allowed": allowed })
    });
    json!({ "constants": constants.collect::<Vec<_>>(), "types": types.collect::<Vec<_>>() })
}

/// The statements of a function, numbered, and the spans in each. Without the author's text there are none.
struct Statements {
    numbers: HashMap<u32, usize>,
}

impl Statements {
    fn of(function: Option<&Kernel>) -> Statements {
        let mut statements = Statements { numbers: HashMap::new() };
        let mut left: Vec<&Stmt> = function.iter().flat_map(|function| &function.body).rev().collect();
        let mut number = 0;
        while let Some(stmt) = left.pop() {
            // 0 is the span of what has no text.
            for span in stmt.spans().into_iter().filter(|span| span.0 != 0) {
                statements.numbers.insert(span.0, number);
            }
            number += 1;
            left.extend(stmt.stmts().into_iter().rev());
        }
        statements
    }

    fn of_span(&self, span: u32) -> Option<usize> {
        self.numbers.get(&span).copied()
    }

    /// The lines of the function: the text, the number of the statement, and its line in the author's file.
    fn lines(&self, function: &Kernel, locations: &Locations) -> Value {
        let lines = function.lines();
        let line = |(text, stmt): &(String, Option<&Stmt>)| {
            let number = stmt.and_then(|stmt| self.of_span(stmt.span.0));
            let location = stmt.filter(|_| number.is_some()).and_then(|stmt| locations.of(stmt.span));
            json!([text, number, location])
        };
        lines.iter().map(line).collect()
    }
}
