//! A kernel beside its CUDA C: its constants, its statements, the lines that come from each, and its accesses.

use std::collections::HashMap;

use serde_json::{Value, json};
use tilewright_codegen::ast::{ExprKind, Kernel, Span, Stmt};
use tilewright_codegen::kernel_def::Locations;
use tilewright_codegen::{
    Definition, Generate, Generated, Sample, Settings, accesses_of, cuda, explain, matmul, report_of,
};

use super::answers::Question;
use crate::data;
use crate::inspect;
use crate::kernel::{self, Chosen, Part};
use crate::output::{Failure, Result};

/// A kernel, and one of its variants.
pub(super) fn kernel(question: &Question) -> Result<Value> {
    let chosen = match question.written() {
        Some(Err(mistakes)) => {
            return Ok(json!({ "error": mistakes.to_string(), "messages": mistakes.json() }));
        }
        Some(Ok(written)) => written,
        None => question.kernel()?,
    };
    let variants = &chosen.generated.variants;
    let variant = question.number("variant").unwrap_or(1).clamp(1, variants.len() as u64) as usize - 1;
    let text = Text::of(&chosen, variant);
    let (generated, same) = text
        .of_function
        .as_ref()
        .map_or((&chosen.generated, variant), |(generated, same)| (generated, *same));
    let (source, spans) = cuda::print_with_spans(&generated.variant(same).program);
    let source = source.lines().zip(&spans).map(|(line, span)| json!([line, text.statement(*span)]));
    let accesses = accesses_of(generated, same);
    let program = &chosen.generated.variant(variant).program;
    let report = report_of(&chosen.generated, variant);
    let parts = chosen.definition.program().map(|program| kernel::parts(&program)).unwrap_or_default();
    Ok(json!({
        "kernel": chosen.name,
        "settings": settings(&chosen),
        "function": match &chosen.written {
            Some(written) => text.written_lines(&written.source),
            None => text.lines(),
        },
        "editable": text.function.as_ref().is_ok_and(|function| function.devices.is_empty()),
        "messages": chosen.written.as_ref().map(|written| written.warnings.json()),
        "source": source.collect::<Vec<_>>(),
        "variant": variant + 1,
        "variants": variants.iter().map(|one| &one.label).collect::<Vec<_>>(),
        "architecture": program.arch,
        "report": report.to_string(),
        "loops": explain::nest(program),
        "accesses": accesses.iter().map(|one| access(one, &text)).collect::<Vec<_>>(),
        "parts": parts.iter().map(part_of).collect::<Vec<_>>(),
    }))
}

fn part_of(part: &Part) -> Value {
    let mut json = inspect::part(part);
    json["bytes"] = part.element.into();
    json["drawn"] = part.picture.is_ok().into();
    json
}

/// The kernel; a product with the lines of its function, if all their variants are the same.
pub(super) fn with_lines(chosen: Chosen) -> Chosen {
    let sources = |of: &Generated| of.variants.iter().map(|one| one.source.clone()).collect::<Vec<_>>();
    let Text { of_function, locations, .. } = Text::of(&chosen, 0);
    match of_function {
        Some((generated, _)) if sources(&generated) == sources(&chosen.generated) => {
            Chosen { def: chosen.definition.def(&generated, &locations), generated, ..chosen }
        }
        _ => chosen,
    }
}

/// The picture of one tensor or partition.
pub(super) fn part(question: &Question) -> Result<Value> {
    let chosen = question.kernel()?;
    let program = chosen.definition.program().map_err(|_| Failure::of("the kernel has no tile program"))?;
    let part = kernel::parts(&program).into_iter().find(|part| part.name == question.text("part"));
    let part = part.ok_or_else(|| Failure::of("the kernel has no such tensor or partition"))?;
    Ok(data::picture(part.picture.as_ref().map_err(String::clone)))
}

fn access(sample: &Sample, text: &Text) -> Value {
    let mut access = inspect::access(&sample.access);
    access["at"] = json!(text.statement(sample.span));
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

/// A kernel as a function: its statements are numbered, and each span is in one of them.
struct Text {
    function: Result<Kernel>,
    locations: Locations,
    /// Of a product: the kernel that is generated from its function, for its spans, and the variant with the product's source.
    of_function: Option<(Generated, usize)>,
    numbers: HashMap<u32, usize>,
    /// The first statement of each line in the author's file.
    firsts: HashMap<u32, usize>,
}

impl Text {
    fn of(chosen: &Chosen, variant: usize) -> Text {
        let (function, locations) = (inspect::function(chosen), chosen.def.locations());
        let mut text =
            Text { function, locations, of_function: None, numbers: HashMap::new(), firsts: HashMap::new() };
        if matches!(chosen.definition, Definition::Matmul(_)) {
            text.of_function = text.regenerated(&chosen.generated.variants[variant].source);
            if text.of_function.is_none() {
                return text;
            }
            text.locations = text.own_locations(chosen.name);
        }
        text.number();
        text
    }

    /// The kernel of the function, whose statements get spans, and its variant with this source.
    fn regenerated(&mut self, source: &str) -> Option<(Generated, usize)> {
        let function = self.function.as_mut().ok()?;
        function.number_statements();
        let kernel = Definition::Function(function.clone(), Settings::default()).generate().kernel?;
        let same = kernel.variants.iter().position(|variant| variant.source == source)?;
        Some((kernel, same))
    }

    /// The first line of each statement in the text of the function, as if that were a file of this name.
    fn own_locations(&self, name: &str) -> Locations {
        let mut lines = Vec::new();
        for (line, (_, stmt)) in self.function.iter().flat_map(Kernel::lines).enumerate() {
            let Some(stmt) = stmt else { continue };
            let span = stmt.span.0 as usize;
            lines.resize(lines.len().max(span + 1), 0);
            if lines[span] == 0 {
                lines[span] = line as u32 + 1;
            }
        }
        Locations { file: name.to_owned(), lines }
    }

    fn number(&mut self) {
        let Ok(function) = &self.function else { return };
        let mut left: Vec<&Stmt> = function.body.iter().rev().collect();
        let mut number = 0;
        while let Some(stmt) = left.pop() {
            if let Some(line) = self.locations.lines.get(stmt.span.0 as usize) {
                self.firsts.entry(*line).or_insert(number);
            }
            // 0 is the span of what has no text.
            for span in stmt.spans().into_iter().filter(|span| span.0 != 0) {
                self.numbers.insert(span.0, number);
            }
            number += 1;
            left.extend(stmt.stmts().into_iter().rev());
        }
    }

    /// The number of the statement of a span.
    fn statement(&self, span: Span) -> Option<usize> {
        self.numbers.get(&span.0).copied()
    }

    /// The lines of the author's text, as [`Text::lines`] has them. A statement ends at an empty line, a comment or a closing brace.
    fn written_lines(&self, source: &str) -> Value {
        let mut number = None;
        let line = |(index, line): (usize, &str)| {
            let start = line.trim_start();
            let ends = start.is_empty() || start.starts_with("//") || start.starts_with('}');
            let first = self.firsts.get(&(index as u32 + 1)).copied();
            number = first.or(number.filter(|_| !ends));
            json!([line, number, number.map(|_| format!("{}:{}", self.locations.file, index + 1))])
        };
        source.lines().enumerate().map(line).collect()
    }

    /// Its lines: the text, the number of the statement, and its line in the author's file. Without a function, why not.
    fn lines(&self) -> Value {
        let function = match &self.function {
            Ok(function) => function,
            Err(Failure::Refused(why)) => {
                return why.lines().map(|line| json!([format!("// {line}"), null, null])).collect();
            }
            Err(Failure::Wrong) => return Value::Null,
        };
        let lines = function.lines();
        let line = |(text, stmt): &(String, Option<&Stmt>)| {
            let number = stmt.and_then(|stmt| self.statement(stmt.span));
            let location = stmt.filter(|_| number.is_some()).and_then(|stmt| self.locations.of(stmt.span));
            json!([text, number, location])
        };
        lines.iter().map(line).collect()
    }
}
