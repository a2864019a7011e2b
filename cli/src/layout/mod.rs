//! `tilewright layout`: the algebra on the command line.

mod batch;
mod explain;
mod expression;
mod item;
pub(crate) mod json;
mod operations;

use clap::{Arg, ArgMatches, Command};
use expression::Step;
use item::{Failure, Item};
use std::process::ExitCode;
use tilewright_layout::draw::Picture;

use crate::output::{self, flag, option};

const EXAMPLES: &str = "\
Examples:
  tilewright layout 'zipped_divide((8,8):(1,8), (4,4):(1,4))'
  tilewright layout 'coalesce(composition((6,2):(8,2), (4,3):(3,1)))'
  tilewright layout --explain 'composition((7,6):(6,1), 8:4)'
  tilewright layout --table 'Sw<3,0,3> o 0 o (8,8):(8,1)'
  tilewright layout --svg copy.svg 'tiled_copy((4,8):(8,1), (2,1))'
  tilewright layout --json '(8,8):(8,1)'
  printf 'composition|(6,2):(8,2)|(4,3):(3,1)\\ncoalesce|(2,(1,6)):(1,(6,2))|\\n' | tilewright layout --batch

Operands:
  (4,(2,3)):(1,(4,8))          a layout, shape:stride; a shape alone is compact, leftmost mode fastest
  (M,K):(1,lda)                names are extents and strides that only launch knows
  Sw<3,4,3> o 0 o (8,8):(8,1)  a layout seen through a swizzle: swizzle o offset o layout
  <4:2,_>                      a tiler for each mode; `_` leaves a mode as it is; a shape is a tiler, too
  (2,_)                        a coordinate; `_` keeps the whole mode
  composition(…)               the result of an operation, wherever an operand may stand";

pub(crate) fn command() -> Command {
    Command::new("layout")
        .about("Evaluate, explain and draw layouts")
        .arg(
            Arg::new("expression")
                .value_name("EXPRESSION")
                .help("A layout, or operations applied to layouts")
                .required_unless_present("batch"),
        )
        .arg(flag("table", "Draw the result as text"))
        .arg(option("svg", "FILE", "Draw the result into an SVG file (`-`: standard output)"))
        .arg(flag("explain", "Explain the result, or the error, step by step"))
        .arg(
            flag("batch", "Read lines `operation|A|B` from standard input and answer each with one line")
                .conflicts_with_all(["expression", "table", "svg", "explain"]),
        )
        .arg(
            flag("json", "Print the result for a program to read, with its picture, its steps and bank conflicts of 4-byte elements")
                .conflicts_with_all(["batch", "table", "svg", "explain"]),
        )
        .after_help(format!("{EXAMPLES}\n\n{}", operations::help()))
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    if matches.get_flag("batch") {
        return finish(batch::run().map_err(|e| Failure::Text(e.to_string())));
    }
    let text = output::text(matches, "expression").unwrap_or_default();
    if matches.get_flag("json") {
        let answer = json::answer(text, 4);
        let failed = answer.get("error").is_some();
        return output::finish(output::json(&answer).and_then(|()| match failed {
            true => Err(output::Failure::of("the expression has no result")),
            false => Ok(()),
        }));
    }
    let mut steps = Vec::new();
    let result = expression::evaluate(text, &mut steps);
    finish(show(matches, &steps, result))
}

fn show(matches: &ArgMatches, steps: &[Step], result: Result<Item, Failure>) -> Result<(), Failure> {
    let mut out = String::new();
    let explain = matches.get_flag("explain");
    if explain {
        out += &explain::steps(steps);
    }
    let item = match result {
        Ok(item) => item,
        Err(failure) => {
            print(&out)?;
            return Err(failure);
        }
    };
    let svg = output::text(matches, "svg");
    if matches.get_flag("table") {
        out += &picture(&item)?.table();
    } else if !explain && svg != Some("-") {
        out += &format!("{item}\n");
    }
    match svg {
        None => {}
        Some("-") => out += &picture(&item)?.svg(),
        Some(file) => std::fs::write(file, picture(&item)?.svg())
            .map_err(|e| Failure::Text(format!("cannot write {file}: {e}")))?,
    }
    print(&out)
}

/// The picture of a layout that an expression evaluates to.
pub(crate) fn drawn(expression: &str) -> Result<Picture, String> {
    let item = expression::evaluate(expression, &mut Vec::new()).map_err(|why| why.to_string())?;
    picture(&item).map_err(|why| why.to_string())
}

fn picture(item: &Item) -> Result<Picture, Failure> {
    match item {
        Item::Layout(layout) => Ok(Picture::of(layout)?),
        Item::Part { layout, .. } => Ok(Picture::of(layout)?),
        Item::Copy(copy) => Ok(Picture::threads(copy)?),
        other => Err(Failure::Text(format!("only a layout can be drawn, and this is {}", other.noun()))),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    output::write(text.as_bytes()).map_err(|e| Failure::Text(e.to_string()))
}

fn finish(result: Result<(), Failure>) -> ExitCode {
    output::finish(result.map_err(output::Failure::of))
}
