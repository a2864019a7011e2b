//! Expressions: operations applied to operands, nested to any depth up to a limit.

use super::item::{Failure, Item, Kind};
use super::operations::{self, Arguments, Operation};
use tilewright_layout::{Layout, Reader};

/// The deepest nesting of calls.
const MOST: usize = 64;

/// One evaluated operation, innermost first.
pub(crate) struct Step {
    pub(crate) operation: &'static Operation,
    pub(crate) operands: Vec<Item>,
    /// None when it failed, and then it is the last step.
    pub(crate) result: Option<Item>,
}

/// The value of an expression, and the steps that led to it.
pub(crate) fn evaluate(text: &str, steps: &mut Vec<Step>) -> Result<Item, Failure> {
    let mut reader = Reader::new("expression", text);
    let item = if reader.peek() == Some(b'<') {
        Kind::Tiler.read(&mut reader)?
    } else {
        operand(&mut reader, Kind::Layout, 0, steps)?
    };
    reader.end("the end of the expression")?;
    Ok(item)
}

/// An operand, or the result of a call. Only the outermost call may give another kind than `kind`.
fn operand(
    reader: &mut Reader<'_>,
    kind: Kind,
    depth: usize,
    steps: &mut Vec<Step>,
) -> Result<Item, Failure> {
    if let Some(name) = call_ahead(reader.rest()) {
        let Some(operation) = operations::find(name) else {
            return Err(operations::unknown(name));
        };
        if depth == MOST {
            return Err(reader.expected("at most 64 calls inside each other").into());
        }
        reader.word();
        let item = call(reader, operation, depth + 1, steps)?;
        return if depth == 0 { Ok(item) } else { kind.from(item) };
    }
    if !matches!(kind, Kind::Layout | Kind::Layouts) || reader.rest().starts_with("Sw<") {
        return Ok(kind.read(reader)?);
    }
    let shape = reader.tuple()?;
    let layout = if reader.take(b':') { reader.layout_of(shape)? } else { Layout::compact(shape)? };
    Ok(Item::Layout(layout.into()))
}

/// The name before a `(`. `ceil(M/8)` is a number.
fn call_ahead(rest: &str) -> Option<&str> {
    let (name, _) = rest.split_once('(')?;
    let name = name.trim_end();
    let starts = name.bytes().next()?.is_ascii_alphabetic();
    let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (starts && word && name != "ceil").then_some(name)
}

fn call(
    reader: &mut Reader<'_>,
    operation: &'static Operation,
    depth: usize,
    steps: &mut Vec<Step>,
) -> Result<Item, Failure> {
    reader.need(b'(', "`(`")?;
    let mut operands = Vec::new();
    while let Some(kind) = operation.kind(operands.len()) {
        if operation.enough(operands.len()) && reader.peek() == Some(b')') {
            break;
        }
        if !operands.is_empty() && !reader.take(b',') {
            return Err(match operation.enough(operands.len()) {
                true => reader.expected("`,` or `)`").into(),
                false => operation.wrong_number(operands.len()),
            });
        }
        operands.push(operand(reader, kind, depth, steps)?);
    }
    if reader.peek() == Some(b',') {
        return Err(operation.wrong_number(operands.len() + 1));
    }
    reader.need(b')', "`)`")?;
    let result = operation.apply(&Arguments(&operands));
    steps.push(Step { operation, operands, result: result.as_ref().ok().cloned() });
    result
}
