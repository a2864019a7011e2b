//! Exchanges: between lanes, which have the elements of a tile in order, and between blocks, which run in the order of their
//! numbers.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Expr, ExprKind};
use tilewright_codegen::thread::{Bin, Cmp};

use super::function::{CLAIM, named};
use super::value::{Cell, Elements, OutOfBounds, Store, Type, Value};
use super::{Block, FALSE_CLAIM, Result, undefined};
use crate::reference::Num;

/// Lanes of a warp.
const LANES: usize = 32;

impl<'k> Block<'k> {
    pub(super) fn over_lanes(&mut self, name: &str, args: &'k [Arg]) -> Result<Value<'k>> {
        let of = self.value(&args[0].value)?;
        let mut of = self.elements(&of)?;
        let count = of.cells.len();
        let lanes = match named(args, "lanes") {
            Some(lanes) => self.integer(lanes)? as usize,
            None if name.starts_with("block_") => count,
            None => LANES,
        };
        if let Some(claim) = named(args, CLAIM) {
            let claim = self.value(claim)?;
            let claim = self.elements(&claim)?;
            let claim = if let Some(elem) = of.ty.elem() { claim.as_type(elem)? } else { claim };
            for cell in of.cells.iter_mut().filter(|cell| cell.is_outside()) {
                if !cell.num.is_exact() {
                    return undefined("a claim about a number that is not exact");
                }
                if cell.num != claim.cells[0].num {
                    return undefined(FALSE_CLAIM);
                }
                cell.out_of_bounds = OutOfBounds::No;
            }
        }
        if of.sizes.len() != 1 || count % lanes != 0 {
            return undefined("parts of several elements");
        }
        let (elem, nums) = match name {
            "warp_shuffle" => {
                let Some(elem) = of.ty.stored() else { return undefined("no type") };
                (elem, self.shuffled(&of, &args[1].value, lanes)?)
            }
            "warp_ballot" => (Elem::U32, voted(&of, lanes)?),
            "warp_match" => (Elem::U32, matched(&of, lanes)),
            _ => {
                let Some(elem) = of.ty.elem() else { return undefined("no type") };
                let (_, function) = name.split_once('_').unwrap_or_default();
                let with = match function {
                    "sum" => Bin::Add,
                    "maximum" => Bin::Max,
                    "minimum" => Bin::Min,
                    _ => return self.combined_in_order(&of, lanes, args, function == "scan"),
                };
                let sums = match named(args, "acc").map(|acc| self.value(acc)).transpose()? {
                    Some(Value::Type(acc)) => acc,
                    _ if with == Bin::Add => elem.accumulator(),
                    _ => elem,
                };
                for cell in &mut of.cells {
                    cell.num = cell.num.cast(elem, sums);
                }
                (sums, combined(&of, lanes, with, sums))
            }
        };
        Ok(self.of_lanes(&of, elem, nums))
    }

    /// A number for each lane.
    fn of_lanes(&mut self, of: &Elements, elem: Elem, nums: Vec<Num>) -> Value<'k> {
        let outside = of.cells.iter().any(Cell::is_outside);
        let cell = |num| Some(if outside { Cell::unclear(num) } else { Cell::of(num) });
        let cells = nums.into_iter().map(cell).collect();
        Value::View(self.fresh(elem, &of.sizes, cells))
    }

    /// `warp_reduce(x, 0.0, |a, b| …)`, `block_scan(x, 0.0, |a, b| …)`
    fn combined_in_order(
        &mut self,
        of: &Elements,
        lanes: usize,
        args: &'k [Arg],
        scans: bool,
    ) -> Result<Value<'k>> {
        let with = self.combiner(args)?;
        let exclusive = match named(args, "exclusive") {
            Some(exclusive) => matches!(self.value(exclusive)?, Value::Bool(true)),
            None => false,
        };
        let mut nums = Vec::new();
        for group in of.cells.chunks(lanes) {
            let mut total = with.identity.clone();
            for cell in group {
                let next = match counts(cell) {
                    None => vec![Num::UNKNOWN],
                    Some(false) => total.clone(),
                    Some(true) => self.joined(&with, &total, &[cell.num])?,
                };
                nums.push(if exclusive { total[0] } else { next[0] });
                total = next;
            }
            if !scans {
                let first = nums.len() - group.len();
                nums[first..].fill(total[0]);
            }
        }
        Ok(self.of_lanes(of, with.elems[0], nums))
    }

    fn shuffled(&mut self, of: &Elements, from: &'k Expr, lanes: usize) -> Result<Vec<Num>> {
        let count = of.cells.len();
        let from = match &from.kind {
            ExprKind::Closure { params, body } => {
                let cells = (0..count).map(|at| Cell::of(Num::exact((at % lanes) as f64))).collect();
                let own =
                    Elements { sizes: of.sizes.clone(), ty: Type::Elem(Elem::I32), cells, argument: false };
                self.applied((&params[..], &**body), vec![Value::Elements(own)])?
            }
            _ => self.value(from)?,
        };
        let from = self.elements(&from)?;
        let mut all = Vec::new();
        for at in 0..count {
            let lane = from.cells[from.broadcast(&of.sizes, at)?].num.int();
            let Some(lane) = lane else { return undefined("a lane is not known") };
            all.push(of.cells[at / lanes * lanes + lane.rem_euclid(lanes as i128) as usize].num);
        }
        Ok(all)
    }

    /// Adds 1 to a flag.
    pub(super) fn signalled(&mut self, flag: &'k Expr) -> Result<Value<'k>> {
        let view = self.view(flag)?;
        let at = view.spots[0].position;
        self.update(&view, at, Num::exact(1.0), super::function::Atomic::By(Bin::Add))?;
        Ok(Value::Unit)
    }

    /// All earlier blocks have ended: an element that is not large enough never will be. Elements out of bounds are 0.
    pub(super) fn awaited(&mut self, flags: &'k Expr, least: &'k Expr) -> Result<Value<'k>> {
        let (view, least) = (self.view(flags)?, self.integer(least)?);
        let mut seen = Vec::new();
        for spot in view.spots.iter() {
            let (Some(at), Store::Global(buffer), false) =
                (spot.position, &self.stores[view.store], self.supposed)
            else {
                seen.push(Some(Cell::unclear(Num::exact(0.0))));
                continue;
            };
            let num = buffer.all[buffer.index_of(at)];
            if num.and_then(|num| num.int()).is_none_or(|set| set < least) {
                return undefined("a wait that never ends");
            }
            seen.push(num.map(Cell::of));
        }
        Ok(Value::View(self.fresh(view.elem, &view.sizes, seen)))
    }
}

/// Whether an element counts; `None` if that depends on what the generator knew.
fn counts(cell: &Cell) -> Option<bool> {
    match cell.out_of_bounds {
        OutOfBounds::No => Some(true),
        OutOfBounds::Yes => Some(false),
        OutOfBounds::Perhaps => None,
    }
}

/// For each element a number of the elements of its group that count.
fn of_groups(of: &Elements, lanes: usize, number: impl Fn(usize, &[bool]) -> Num) -> Vec<Num> {
    let one = |at: usize| {
        let first = at / lanes * lanes;
        let group: Option<Vec<bool>> = of.cells[first..first + lanes].iter().map(counts).collect();
        group.map_or(Num::UNKNOWN, |group| number(at, &group))
    };
    (0..of.cells.len()).map(one).collect()
}

/// A number with a bit for each lane of a group.
fn bits(lanes: impl Iterator<Item = usize>) -> Num {
    Num::exact(lanes.map(|lane| f64::from(1u32 << lane)).sum())
}

fn voted(of: &Elements, lanes: usize) -> Result<Vec<Num>> {
    if of.ty != Type::Condition || of.cells.iter().any(|cell| cell.num.is_unknown()) {
        return undefined("votes that are not known");
    }
    Ok(of_groups(of, lanes, |at, counted| {
        let first = at / lanes * lanes;
        bits((0..lanes).filter(|lane| counted[*lane] && of.cells[first + lane].num.value != 0.0))
    }))
}

fn matched(of: &Elements, lanes: usize) -> Vec<Num> {
    of_groups(of, lanes, |at, counted| {
        let first = at / lanes * lanes;
        // Which lanes an element out of bounds equals is unspecified.
        if !counted[at - first] {
            return Num::UNKNOWN;
        }
        let equal = |lane: &usize| {
            let equal = Num::cmp(Cmp::Eq, of.cells[at].num, of.cells[first + lane].num);
            if equal.is_unknown() { None } else { Some(equal.value != 0.0) }
        };
        let equal: Option<Vec<bool>> =
            (0..lanes).map(|lane| if counted[lane] { equal(&lane) } else { Some(false) }).collect();
        equal.map_or(Num::UNKNOWN, |equal| bits((0..lanes).filter(|lane| equal[*lane])))
    })
}

fn combined(of: &Elements, lanes: usize, with: Bin, elem: Elem) -> Vec<Num> {
    of_groups(of, lanes, |at, counted| {
        let first = at / lanes * lanes;
        let all = (0..lanes).filter(|lane| counted[*lane]).map(|lane| of.cells[first + lane].num);
        all.reduce(|a, b| Num::bin(with, a, b, elem)).unwrap_or(match with {
            Bin::Add => Num::exact(0.0),
            _ => Num::UNKNOWN,
        })
    })
}
