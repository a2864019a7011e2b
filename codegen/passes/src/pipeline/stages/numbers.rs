//! Integers that are read from memory. Consecutive statements of one stage are one block of the generated code, in which a number
//! has its value. Other blocks that need it read it again.

use super::{Item, Kind};
use crate::pipeline::reads;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::{Op, Program, Stmt};

/// Begins each block with the numbers that it needs and does not read; it reads no others.
pub(super) fn repeat(program: &Program, items: &mut Vec<Item>) -> Result<(), Diagnostic> {
    let mut repeated = Vec::new();
    let alike =
        |one: &Item, next: &Item| [one, next].map(|of| of.kind) == [Kind::Work; 2] && one.stage == next.stage;
    for block in items.chunk_by(alike) {
        let reads = |number: Id| block.iter().any(|item| taken(item) == Some(number));
        let mut needed = reads::needed(program, block.iter().map(|item| &item.stmt), &|_| true);
        let mut again = Vec::new();
        for item in items.iter().rev() {
            if taken(item).is_some_and(|number| needed.contains(&number) && !reads(number)) {
                unwritten(program, items, &item.stmt)?;
                needed.extend(reads::used(program, &item.stmt));
                again.push(Item { stage: block[0].stage, ..item.clone() });
            }
        }
        let needs = |item: &&Item| taken(item).is_none_or(|number| needed.contains(&number));
        repeated.extend(again.into_iter().rev().chain(block.iter().filter(needs).cloned()));
    }
    *items = repeated;
    Ok(())
}

/// The number that a statement reads.
fn taken(item: &Item) -> Option<Id> {
    if let Op::Take { number, .. } = item.stmt.op { Some(number) } else { None }
}

/// A number is read again only if the loop does not write what it is read from.
fn unwritten(program: &Program, items: &[Item], take: &Stmt) -> Result<(), Diagnostic> {
    let Op::Take { number, from } = &take.op else { return Ok(()) };
    if !items.iter().any(|item| item.stmt.writes_to(from.tensor)) {
        return Ok(());
    }
    let (number, from) = (&program.reads[*number as usize].name, &program.tensor(from.tensor).name);
    let problem = Problem::new(format!(
        "`{number}` is needed before and after a statement of another stage, and the loop writes `{from}`, from which it is read"
    ));
    Err(problem.help("write the statements that need it next to each other").at(take.span))
}
