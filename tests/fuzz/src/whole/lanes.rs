//! Exchanges: between lanes, which have the elements of a tile in order, and between blocks, which run in the order of their
//! numbers.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Expr, ExprKind};
use tilewright_codegen::thread::{Bin, Cmp};

use super::Num;
use super::element::either;
use super::function::{CLAIM, named};
use super::number::decides;
use super::reduction::identity;
use super::value::{Cell, Elements, OutOfBounds, Store, Type, Value};
use super::{Block, FALSE_CLAIM, Result, undefined};

/// Lanes of a warp.
const LANES: usize = 32;

impl<'k> Block<'k> {
    /// Lanes that have the elements of a tile, one each.
    pub(super) fn over_lanes(&mut self, name: &str, args: &'k [Arg]) -> Result<Value<'k>> {
        if self.has_threads {
            return undefined("an exchange between threads in an expression");
        }
        let of = self.value(&args[0].value)?;
        let of = self.elements(&of)?;
        let lanes = self.lanes(name, args, of.cells.len())?;
        if of.sizes.len() != 1 || of.cells.len() % lanes != 0 {
            return undefined("parts of several elements");
        }
        let from = match self.lanes_taken(name, args)? {
            Some(from) => {
                let cell = |at| Ok(from.cells[from.broadcast(&of.sizes, at)?].clone());
                (0..of.cells.len()).map(cell).collect::<Result<Vec<_>>>()?
            }
            None => Vec::new(),
        };
        let made = self.exchange_lanes(name, &[of], &from, lanes, args)?.swap_remove(0);
        self.settled(made)
    }

    /// How many lanes exchange elements, of these in a block.
    pub(super) fn lanes(&mut self, name: &str, args: &'k [Arg], all: usize) -> Result<usize> {
        Ok(match named(args, "lanes") {
            Some(lanes) => self.integer(lanes)? as usize,
            None if name.starts_with("block_") => all,
            None => LANES,
        })
    }

    /// The lanes that a shuffle takes elements from, unless a function says them.
    pub(super) fn lanes_taken(&mut self, name: &str, args: &'k [Arg]) -> Result<Option<Elements>> {
        match args.get(1).filter(|_| name == "warp_shuffle").map(|from| &from.value) {
            Some(from) if !matches!(from.kind, ExprKind::Closure { .. }) => {
                let from = self.value(from)?;
                self.elements(&from).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// What each lane gets. Each has one element of every tile of a tuple. `from`: the lane that each takes an element of.
    pub(super) fn exchange_lanes(
        &mut self,
        name: &str,
        all: &[Elements],
        from: &[Cell],
        lanes: usize,
        args: &'k [Arg],
    ) -> Result<Vec<Elements>> {
        let mut of = all[0].clone();
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
        let (elem, nums) = match name {
            "warp_shuffle" => {
                let Some(elem) = of.ty.stored() else { return undefined("no type") };
                (elem, self.shuffled(&of, &args[1].value, from, lanes)?)
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
                    _ => {
                        let mut all = all.to_vec();
                        all[0] = of;
                        return self.combined_in_order(&all, lanes, args, function == "scan");
                    }
                };
                let sums = match named(args, "acc").map(|acc| self.value(acc)).transpose()? {
                    Some(Value::Type(acc)) => acc,
                    _ if with == Bin::Add => elem.accumulator(),
                    _ => elem,
                };
                for cell in &mut of.cells {
                    cell.num = cell.num.cast(elem, sums);
                }
                (sums, self.combined(&of, lanes, with, sums))
            }
        };
        let mut made = each_lane(&of, elem, nums);
        if self.has_threads {
            for (made, group) in made.cells.chunks_mut(lanes).zip(of.cells.chunks(lanes)) {
                if group.iter().any(|cell| !cell.is_outside()) {
                    made.iter_mut().for_each(|cell| cell.out_of_bounds = OutOfBounds::No);
                }
            }
        }
        Ok(vec![made])
    }

    /// `warp_reduce(x, 0.0, |a, b| …)`, `block_scan(x, 0.0, |a, b| …)`
    fn combined_in_order(
        &mut self,
        of: &[Elements],
        lanes: usize,
        args: &'k [Arg],
        scans: bool,
    ) -> Result<Vec<Elements>> {
        let with = self.combiner(args)?;
        let exclusive = match named(args, "exclusive") {
            Some(exclusive) => matches!(self.value(exclusive)?, Value::Bool(true)),
            None => false,
        };
        let mut made: Vec<Vec<Num>> = Vec::new();
        for first in (0..of[0].cells.len()).step_by(lanes) {
            let mut total = with.identity.clone();
            for lane in first..first + lanes {
                let cells = of.iter().map(|of| &of.cells[lane]);
                let out_of_bounds =
                    cells.clone().fold(OutOfBounds::No, |known, cell| either(known, cell.out_of_bounds));
                let own: Vec<Num> = cells.map(|cell| cell.num).collect();
                let next = match out_of_bounds {
                    OutOfBounds::Perhaps if !decides() && own != with.identity => {
                        vec![Num::UNKNOWN; own.len()]
                    }
                    OutOfBounds::Yes => total.clone(),
                    _ => self.joined(&with, &total, &own)?,
                };
                made.push(if exclusive { total } else { next.clone() });
                total = next;
            }
            if !scans {
                made[first..].fill(total);
            }
        }
        let entry = |(entry, elem): (usize, &Elem)| {
            each_lane(&of[entry], *elem, made.iter().map(|tuple| tuple[entry]).collect())
        };
        Ok(with.elems.iter().enumerate().map(entry).collect())
    }

    /// The combination of a group for each of its lanes.
    fn combined(&self, of: &Elements, lanes: usize, with: Bin, elem: Elem) -> Vec<Num> {
        let neutral = identity(with, elem);
        let mut all = Vec::new();
        for group in of.cells.chunks(lanes) {
            let term = |cell: &Cell| match cell.out_of_bounds {
                OutOfBounds::No => Some(cell.num),
                OutOfBounds::Yes => None,
                OutOfBounds::Perhaps if decides() => Some(cell.num),
                OutOfBounds::Perhaps => Some(if cell.num == neutral { neutral } else { Num::UNKNOWN }),
            };
            let mut terms: Vec<Num> = group.iter().filter_map(term).collect();
            let is_known = !terms.is_empty() || self.has_threads || with == Bin::Add;
            terms.push(neutral);
            all.resize(
                all.len() + lanes,
                if is_known { Num::fold(with, &terms, elem) } else { Num::UNKNOWN },
            );
        }
        all
    }

    fn shuffled(&mut self, of: &Elements, lane: &'k Expr, from: &[Cell], lanes: usize) -> Result<Vec<Num>> {
        let count = of.cells.len();
        let from: Vec<Cell> = match &lane.kind {
            ExprKind::Closure { params, body } => {
                let cells = (0..count).map(|at| Cell::of(Num::exact((at % lanes) as f64))).collect();
                let own =
                    Elements { sizes: of.sizes.clone(), ty: Type::Elem(Elem::I32), cells, argument: false };
                let made = self.applied((&params[..], &**body), vec![Value::Elements(own)])?;
                let made = self.elements(&made)?;
                let cell = |at| Ok(made.cells[made.broadcast(&of.sizes, at)?].clone());
                (0..count).map(cell).collect::<Result<_>>()?
            }
            _ => from.to_vec(),
        };
        let taken = |(at, lane): (usize, &Cell)| match lane.num.int() {
            Some(lane) => Ok(of.cells[at / lanes * lanes + lane.rem_euclid(lanes as i128) as usize].num),
            None => undefined("a lane is not known"),
        };
        from.iter().enumerate().map(taken).collect()
    }

    /// Adds 1 to a flag.
    pub(super) fn signalled(&mut self, flag: &'k Expr) -> Result<Value<'k>> {
        let view = self.view(flag)?;
        let at = view.spots()[0].position;
        self.update(&view, at, Num::exact(1.0), super::function::Atomic::By(Bin::Add))?;
        Ok(Value::Unit)
    }

    /// All earlier blocks have ended: an element that is not large enough never will be. Elements out of bounds are 0.
    pub(super) fn awaited(&mut self, flags: &'k Expr, least: &'k Expr) -> Result<Value<'k>> {
        let (view, least) = (self.view(flags)?, self.integer(least)?);
        let mut seen = Vec::new();
        for spot in view.spots().iter() {
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

/// A number for each lane. If some of its group are out of bounds, whether it counts as out of bounds is unspecified.
fn each_lane(of: &Elements, elem: Elem, nums: Vec<Num>) -> Elements {
    let outside = of.cells.iter().any(Cell::is_outside);
    let cell = |num| if outside { Cell::unclear(num) } else { Cell::of(num) };
    Elements { ty: Type::Elem(elem), cells: nums.into_iter().map(cell).collect(), ..of.clone() }
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
