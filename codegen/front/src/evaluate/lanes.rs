//! Exchanges between the lanes of a warp: shuffles, ballots and matches.

use super::Evaluator;
use super::args::{Args, made_from};
use super::elements::Captured;
use super::reduce::named;
use super::value::{Closure, Value};
use crate::source::problem::{Problem, count};
use crate::tile::view::View;
use crate::tile::{Across, Expr};
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::lanes::{self, Lanes};

impl Evaluator {
    /// `warp_shuffle(x, |lane| lane ^ 1)`, `warp_ballot(x > 0.0)`, `warp_match(n)`.
    pub(super) fn lanes_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let usage = |arg| {
            Problem::new(format!("`{}` takes the part of a thread", args.name)).help(args.usage()).arg(arg)
        };
        let (from, at) = match args.values.first() {
            Some((Value::View(from), at)) => (from, at),
            Some((Value::Test(_) | Value::Bool(_), _)) => {
                let message = format!(
                    "`{}` takes a condition on elements, and this is a condition on integers",
                    args.name
                );
                return Err(Problem::new(message)
                    .help("write warp_ballot(map(x, |x| x > 0)), with a condition for each element")
                    .arg(0));
            }
            _ => return Err(usage(0)),
        };
        let Some(Across::Warp(lanes)) = self.over_lanes(args, Across::Warp(32)) else {
            return Ok(Value::Poison);
        };
        if self.is_whole(from) {
            let message = format!(
                "`{}` exchanges the parts of single threads, and this is a whole tile, distributed over the threads",
                args.name
            );
            let help = "take the parts: parallelize(tile, layout!(256), thread.x); for whole tiles there are sum, reduce and scan";
            return Err(Problem::new(message).help(help).arg(0));
        }
        let of = &from.name;
        let from = self.loaded_part(from)?;
        let elem = self.builder.elem(&from);
        let (ins, how) = match args.name.as_str() {
            "warp_shuffle" => {
                let Some((lane, _)) = args.values.get(1) else {
                    return Err(Problem::new("`warp_shuffle` takes a part and a lane").help(args.usage()));
                };
                let Some((ins, lane)) = self.lane(&from, lane, lanes)? else { return Ok(Value::Poison) };
                (ins, Lanes::Shuffle(lane))
            }
            "warp_ballot" if elem == Elem::Bool => (vec![from.clone()], Lanes::Ballot),
            "warp_match" if elem.is_integer() => (vec![from.clone()], Lanes::Match),
            name => {
                let message = format!("`{name}` takes {}, and elements of `{of}` are {elem}", wanted(name));
                let help = match (name, elem) {
                    ("warp_ballot", _) => "write warp_ballot(x > 0.0), or warp_ballot(n != 0)",
                    (_, Elem::F32) => "compare their bits: warp_match(bits::<u32>(x))",
                    _ => "convert them first: warp_match(x as i32)",
                };
                return Ok(self.complain(*at, Problem::new(message).help(help)));
            }
        };
        let Some(unmasked) = self.unmasked(args, &how) else { return Ok(Value::Poison) };
        let elem = if how.function().is_some() { elem } else { Elem::U32 };
        let result = if how.function().is_some() { "shuffled" } else { "lanes" };
        let name = args.naming.first().cloned().unwrap_or_else(|| made_from(&from.name, result));
        let to = self.room_for(&name, elem, std::slice::from_ref(&from))?.with_name(&name);
        self.builder.lanes(&ins, &to, how, lanes, unmasked)?;
        Ok(Value::View(to))
    }

    /// The inputs of a shuffle, and the lane as a function of them; `None` if an error has been reported.
    fn lane(&mut self, from: &View, lane: &Value, lanes: u32) -> Result<Option<(Vec<View>, Expr)>, Problem> {
        let own = lanes::own(lanes);
        let (ins, value) = match lane {
            Value::View(view) => {
                let elem = self.builder.elem(view);
                if !elem.is_integer() {
                    let message = format!("a lane is an integer, and elements of `{}` are {elem}", view.name);
                    return Err(Problem::new(message)
                        .help("convert them first: warp_shuffle(x, lane as i32)")
                        .arg(1));
                }
                let view = self.loaded_part(view)?;
                let view = self.fitting(view, from);
                return Ok(Some((vec![from.clone(), view], Expr::In(1).cast(Elem::I32))));
            }
            Value::Closure(closure) => {
                self.captured = Some(Captured::of(vec![from.clone()]));
                let value = self.lane_of(closure, own);
                (self.captured.take().unwrap_or_default().inputs(from.rank())?, value?)
            }
            value => (vec![from.clone()], value.clone()),
        };
        if matches!(value, Value::Poison) {
            return Ok(None);
        }
        let wrong = || {
            Problem::new(format!("a lane is an integer, and this is {}", value.kind()))
                .help("write a closure of the own lane, warp_shuffle(x, |lane| lane ^ 1), or a tile of i32")
                .arg(1)
        };
        let number = value.as_number().ok_or_else(wrong)?;
        let lane = number.into_elem(Elem::I32).map_err(|problem| Problem { arg: Some(1), ..problem })?;
        Ok(Some((ins, lane)))
    }

    fn lane_of(&mut self, closure: &Closure, own: Affine) -> Result<Value, Problem> {
        if closure.params.len() != 1 {
            let takes = count(closure.params.len(), "value");
            return Err(Problem::new(format!("the closure takes {takes}, and is given one lane"))
                .help("write |lane| lane ^ 1")
                .arg(1));
        }
        Ok(self.applied_to(closure, vec![Value::Index(own)]))
    }

    /// Do out-of-bounds elements take part? `None` if an error has been reported.
    fn unmasked(&mut self, args: &Args, how: &Lanes) -> Option<bool> {
        match (named(args, "out_of_bounds"), how) {
            (None, _) => Some(false),
            (Some((Value::Bool(false), _)), Lanes::Ballot) => Some(true),
            (Some((value, _)), Lanes::Match) if value.literal().is_some() => Some(true),
            (Some((value, span)), _) => {
                let (wanted, help) = match how {
                    Lanes::Match => ("a number", "write out_of_bounds = 0"),
                    _ => ("false", "set those elements to false, and write out_of_bounds = false"),
                };
                let message = format!("`out_of_bounds` is {wanted} here, and this is {}", value.kind());
                self.complain(span, Problem::new(message).help(help));
                None
            }
        }
    }
}

/// The elements that an exchange takes, in words.
fn wanted(name: &str) -> &'static str {
    if name == "warp_ballot" { "conditions" } else { "integers" }
}
