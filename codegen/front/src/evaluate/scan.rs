//! Scans: each element combined with all earlier ones.

use super::args::Args;
use super::elements::views;
use super::reduce::{Combiner, named};
use super::value::Value;
use super::{Evaluator, advice};
use crate::build::reduce::would_count;
use crate::source::ast::Span;
use crate::source::problem::{Problem, count};
use crate::tile::Across;
use crate::tile::view::View;
use crate::values::scan::{Level, Scan};

impl Evaluator {
    /// `scan(x, 0.0, |a, b| a + b, mode = 1)`, and over threads.
    pub(super) fn scan_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let naming = &args.naming[..];
        let Some(Combiner { from, elems, identity, with, is_tuple }) = self.combiner(args)? else {
            return Ok(Value::Poison);
        };
        let extents = from[0].extents().ok_or_else(|| advice::whole(&from[0], &args.name).arg(0))?;
        let Some(exclusive) = self.flag(args, "exclusive", false) else { return Ok(Value::Poison) };
        let carry = match named(args, "carry") {
            None => Vec::new(),
            Some((value, span)) => match views(value).filter(|views| views.len() == from.len()) {
                Some(views) => views,
                None => {
                    let given = count(from.len(), "tensor");
                    let problem =
                        Problem::new(format!("the carry is {}, and the scan has {given}", value.kind()));
                    return Ok(self.complain(span, problem.help(
                        "give one tensor for each, such as carry = &mut total, where `let mut total = registers::<f32>((1, 1), 0.0);`",
                    )));
                }
            },
        };
        let whole = from.iter().any(|view| self.is_whole(view));
        let across = match args.name.as_str() {
            "scan" => Across::Thread,
            "warp_scan" => Across::Warp(32),
            _ => Across::Block,
        };
        let is_cluster = args.name == "cluster_scan";
        let Some(over_cluster) = self.flag(args, "cluster", is_cluster) else { return Ok(Value::Poison) };
        let mut levels = match across {
            Across::Thread => {
                let own = |mode: u8| Level::Own { mode, extent: extents[usize::from(mode)] };
                match along(args, extents.len()) {
                    Ok(modes) => modes.into_iter().map(own).collect(),
                    Err(span) => {
                        let rank = extents.len();
                        let problem =
                            Problem::new(format!("a scan runs along one or several of the modes 0..{rank}"));
                        let help = "write mode = 1, or mode = (1, 0) for mode 1 and then mode 0";
                        return Ok(self.complain(span, problem.help(help)));
                    }
                }
            }
            _ if whole => {
                return Err(Problem::new(format!(
                    "`{}` runs over the parts of single threads, and this is a whole tile, distributed over the threads",
                    args.name
                ))
                .help("write scan(t, 0.0, |a, b| a + b, mode = 1) for the scan of each row")
                .arg(0));
            }
            across => {
                let Some(across) = self.over_lanes(args, across) else { return Ok(Value::Poison) };
                vec![Level::Threads(across)]
            }
        };
        if over_cluster {
            levels.extend(Some(self.blocks_of_cluster()).filter(|&blocks| blocks > 1).map(Level::Blocks));
        }
        let name = |n: usize| naming.get(n).or(naming.last()).map_or("fragment", String::as_str);
        let (mut ins, mut to): (Vec<View>, Vec<View>) = (Vec::new(), Vec::new());
        for (n, (view, elem)) in from.iter().zip(&elems).enumerate() {
            ins.push(if whole { self.loaded(view)? } else { self.loaded_part(view)? });
            to.push(match whole {
                true => self.builder.distributed(name(n), *elem, &extents)?,
                false => self.room_for(name(n), *elem, std::slice::from_ref(view))?,
            });
        }
        let Some(given) = self.declared(args, from.len()) else { return Ok(Value::Poison) };
        for ((given, identity), elem) in given.iter().flatten().zip(&identity).zip(&elems) {
            if !given.is(*identity) {
                let at = named(args, "out_of_bounds").map_or(args.call, |(_, span)| span);
                return Ok(self.complain(at, would_count(*given, *identity, *elem)));
            }
        }
        let how = Scan { with, identity, levels, exclusive, unmasked: given.is_some() };
        match self.builder.scan(&ins, &to, &carry, how) {
            Err(problem) if problem.arg.is_none() => {
                let at = named(args, "carry").map_or(args.call, |(_, span)| span);
                Ok(self.complain(at, problem))
            }
            Err(problem) => Err(problem),
            Ok(()) => Ok(match is_tuple {
                true => Value::Tuple(to.into_iter().map(Value::View).collect()),
                false => Value::View(to.remove(0)),
            }),
        }
    }
}

/// The modes along which elements of a tile are scanned, in order; or the span of an argument that is no mode.
fn along(args: &Args, rank: usize) -> Result<Vec<u8>, Span> {
    let Some((value, span)) = named(args, "mode") else { return Ok((0..rank as u8).collect()) };
    let all = match value {
        Value::Tuple(all) => &all[..],
        one => std::slice::from_ref(one),
    };
    let mut modes = Vec::new();
    for mode in all {
        match mode {
            Value::Int(mode) if (0..rank as i64).contains(mode) && !modes.contains(&(*mode as u8)) => {
                modes.push(*mode as u8)
            }
            _ => return Err(span),
        }
    }
    Ok(modes)
}
