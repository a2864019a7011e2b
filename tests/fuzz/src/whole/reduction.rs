//! Reductions, scans, products.

use std::collections::BTreeMap;

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Expr, ExprKind, Pattern};
use tilewright_codegen::semiring::Semiring;
use tilewright_codegen::thread::Bin;

use super::Num;
use super::element::either;
use super::function::{CLAIM, entries, named};
use super::number::decides;
use super::value::{Along, At, Cell, Elements, OutOfBounds, Type, Value, View, digits, linear};
use super::view::both;
use super::{Block, FALSE_CLAIM, Result, undefined};

/// Tuples of elements, with the closure that combines them and its identity.
pub(super) struct Combined<'k> {
    from: Vec<Elements>,
    pub(super) elems: Vec<Elem>,
    pub(super) identity: Vec<Num>,
    closure: (&'k [Pattern], &'k Expr),
    is_tuple: bool,
}

impl<'k> Block<'k> {
    /// `sum(x, 1)`
    pub(super) fn reduced(&mut self, name: &str, args: &'k [Arg]) -> Result<Value<'k>> {
        let given = self.value(&args[0].value)?;
        let from = self.elements(&given)?;
        let Some(source) = from.ty.stored() else { return undefined("no type") };
        let with = match name {
            "sum" => Bin::Add,
            "maximum" => Bin::Max,
            _ => Bin::Min,
        };
        let elem = match named(args, "acc") {
            Some(acc) => match self.value(acc)? {
                Value::Type(elem) => elem,
                _ => return undefined("no type"),
            },
            None if with == Bin::Add => source.accumulator(),
            None => source,
        };
        let modes = match args.get(1).filter(|arg| arg.name.is_none()) {
            Some(modes) => self.numbers(&modes.value)?,
            None => (0..from.sizes.len() as i128).collect(),
        };
        let sizes = without(&from.sizes, &modes);
        let mut all: Vec<(Vec<Num>, bool, bool)> =
            vec![(Vec::new(), false, false); sizes.iter().product::<i64>() as usize];
        let at = kept(&from, &sizes);
        let claim = match named(args, CLAIM) {
            Some(claim) => {
                let claim = self.value(claim)?;
                let claim = self.elements(&claim)?.as_type(elem)?.cells[0].num;
                self.checked(&from, &modes, source, elem, claim)?;
                true
            }
            None => false,
        };
        for (n, cell) in from.cells.iter().enumerate() {
            let (terms, inside, outside) = &mut all[linear(&sizes, &digits(&from.sizes, n as i64))];
            let num = cell.num.cast(source, elem);
            match cell.out_of_bounds {
                OutOfBounds::Yes if !claim => *outside = true,
                OutOfBounds::Perhaps if !claim && !decides() => {
                    *outside = true;
                    terms.push(if num == identity(with, elem) { num } else { Num::UNKNOWN });
                }
                _ => {
                    *inside = true;
                    terms.push(num);
                }
            }
        }
        let cell = |((mut terms, inside, outside), at): ((Vec<Num>, bool, bool), At)| {
            terms.push(identity(with, elem));
            let out_of_bounds = match !inside && outside {
                true if decides() => OutOfBounds::Yes,
                true => OutOfBounds::Perhaps,
                false => OutOfBounds::No,
            };
            Some(Cell { out_of_bounds, at, ..Cell::of(Num::fold(with, &terms, elem)) })
        };
        Ok(Value::View(self.fresh(elem, &sizes, all.into_iter().zip(at).map(cell).collect())))
    }

    pub(super) fn combiner(&mut self, args: &'k [Arg]) -> Result<Combined<'k>> {
        let given = self.value(&args[0].value)?;
        let is_tuple = matches!(given, Value::Tuple(_));
        let from = entries(given).iter().map(|of| self.elements(of)).collect::<Result<Vec<_>>>()?;
        let elems = from.iter().map(|of| of.ty.elem()).collect::<Option<Vec<Elem>>>();
        let Some(elems) = elems else { return undefined("no type") };
        let start = entries(self.value(&args[1].value)?);
        let mut identity = Vec::new();
        for (of, elem) in start.iter().zip(&elems) {
            identity.push(self.elements(of)?.as_type(*elem)?.cells[0].num);
        }
        let Some(closure) = self.closure(&args[2].value) else { return undefined("no closure") };
        Ok(Combined { from, elems, identity, closure, is_tuple })
    }

    /// The modes along which a statement combines elements. With a claim about elements out of bounds, these count.
    fn combined_modes(&mut self, of: &mut Combined<'k>, args: &'k [Arg]) -> Result<Vec<i128>> {
        let modes = match named(args, "mode") {
            Some(modes) => self.numbers(modes)?,
            None => (0..of.from[0].sizes.len() as i128).collect(),
        };
        if let Some(claim) = named(args, CLAIM) {
            let claims = entries(self.value(claim)?);
            for ((from, elem), claim) in of.from.iter_mut().zip(&of.elems).zip(claims) {
                let claim = self.elements(&claim)?.as_type(*elem)?.cells[0].num;
                self.checked(from, &modes, *elem, *elem, claim)?;
                from.cells.iter_mut().for_each(|cell| cell.out_of_bounds = OutOfBounds::No);
            }
        }
        Ok(modes)
    }

    /// Two tuples, by the closure.
    pub(super) fn joined(&mut self, of: &Combined<'k>, x: &[Num], y: &[Num]) -> Result<Vec<Num>> {
        let side = |all: &[Num]| {
            let entry =
                |(num, elem): (&Num, &Elem)| Value::Elements(Elements::number(Type::Elem(*elem), *num));
            let mut all: Vec<Value<'k>> = all.iter().zip(&of.elems).map(entry).collect();
            if of.is_tuple { Value::Tuple(all) } else { all.swap_remove(0) }
        };
        let made = entries(self.applied(of.closure, vec![side(x), side(y)])?);
        let mut all = Vec::new();
        for (value, elem) in made.iter().zip(&of.elems) {
            all.push(self.elements(value)?.as_type(*elem)?.cells[0].num);
        }
        Ok(all)
    }

    /// `reduce(x, identity, |a, b| …, mode = 1)`: in any order.
    pub(super) fn folded(&mut self, args: &'k [Arg]) -> Result<Value<'k>> {
        let mut of = self.combiner(args)?;
        let modes = self.combined_modes(&mut of, args)?;
        let from_sizes = of.from[0].sizes.clone();
        let sizes = without(&from_sizes, &modes);
        let count = sizes.iter().product::<i64>() as usize;
        let mut sums = vec![of.identity.clone(); count];
        for n in 0..of.from[0].cells.len() {
            let to = linear(&sizes, &digits(&from_sizes, n as i64));
            let cells: Vec<&Cell> = of.from.iter().map(|from| &from.cells[n]).collect();
            let out_of_bounds = cells
                .iter()
                .fold(OutOfBounds::No, |out_of_bounds, cell| either(out_of_bounds, cell.out_of_bounds));
            let tuple: Vec<Num> = cells.iter().map(|cell| cell.num).collect();
            sums[to] = match out_of_bounds {
                OutOfBounds::Yes => continue,
                OutOfBounds::Perhaps if !decides() && tuple != of.identity => {
                    vec![Num::UNKNOWN; of.elems.len()]
                }
                _ => self.joined(&of, &sums[to].clone(), &tuple)?,
            };
        }
        let mut made = Vec::new();
        for (entry, elem) in of.elems.iter().enumerate() {
            // Another order would round differently.
            let cell = |(sum, at): (&Vec<Num>, At)| {
                let num = if sum[entry].is_exact() { sum[entry] } else { Num::UNKNOWN };
                Some(Cell { out_of_bounds: OutOfBounds::Perhaps, at, ..Cell::of(num) })
            };
            let cells = sums.iter().zip(kept(&of.from[0], &sizes)).map(cell).collect();
            made.push(Value::View(self.fresh(*elem, &sizes, cells)));
        }
        Ok(if of.is_tuple { Value::Tuple(made) } else { made.swap_remove(0) })
    }

    /// `scan(x, identity, |a, b| …, mode = 1)`
    pub(super) fn scanned(&mut self, args: &'k [Arg]) -> Result<Value<'k>> {
        let mut of = self.combiner(args)?;
        let modes = self.combined_modes(&mut of, args)?;
        let sizes = of.from[0].sizes.clone();
        let exclusive = match named(args, "exclusive") {
            Some(exclusive) => matches!(self.value(exclusive)?, Value::Bool(true)),
            None => false,
        };
        let carry: Vec<View> = match named(args, "carry") {
            Some(carry) => {
                let given = entries(self.value(carry)?);
                let view =
                    |of: Value<'k>| if let Value::View(view) = of { Ok(view) } else { undefined("no carry") };
                given.into_iter().map(view).collect::<Result<_>>()?
            }
            None => Vec::new(),
        };
        // By what elements have in common, and in order, the slowest submode first.
        let common = without(&sizes, &modes);
        let mut lines: BTreeMap<usize, BTreeMap<Vec<i64>, usize>> = BTreeMap::new();
        for n in 0..of.from[0].cells.len() {
            let at = digits(&sizes, n as i64);
            let order = modes.iter().rev().map(|&mode| at[mode as usize]).collect();
            lines.entry(linear(&common, &at)).or_default().insert(order, n);
        }
        let carried = carry.iter().map(|view| self.read(view, 0.0)).collect::<Result<Vec<_>>>()?;
        let mut totals = carried.clone();
        let mut made: Vec<Vec<Option<Cell>>> =
            of.from.iter().map(|from| vec![None; from.cells.len()]).collect();
        for (line, elements) in lines {
            let mut sum = match carried.is_empty() {
                true => of.identity.clone(),
                false => carried.iter().map(|of| of.cells[line].num).collect(),
            };
            let mut all_outside = true;
            for n in elements.into_values() {
                let cells: Vec<&Cell> = of.from.iter().map(|from| &from.cells[n]).collect();
                let out_of_bounds = cells
                    .iter()
                    .fold(OutOfBounds::No, |out_of_bounds, cell| either(out_of_bounds, cell.out_of_bounds));
                all_outside &= out_of_bounds != OutOfBounds::No;
                let tuple: Vec<Num> = cells.iter().map(|cell| cell.num).collect();
                let next = match out_of_bounds {
                    OutOfBounds::Yes => sum.clone(),
                    OutOfBounds::Perhaps if !decides() && tuple != of.identity => {
                        vec![Num::UNKNOWN; of.elems.len()]
                    }
                    _ => self.joined(&of, &sum, &tuple)?,
                };
                let own = if exclusive { sum } else { next.clone() };
                sum = next;
                for ((made, num), from) in made.iter_mut().zip(own).zip(&of.from) {
                    // Another order would round differently, and elements out of bounds are unspecified.
                    let num = if num.is_exact() && (decides() || out_of_bounds == OutOfBounds::No) {
                        num
                    } else {
                        Num::UNKNOWN
                    };
                    made[n] = Some(Cell { out_of_bounds, at: from.cells[n].at.clone(), ..Cell::of(num) });
                }
            }
            for (total, num) in totals.iter_mut().zip(&sum) {
                let num = if num.is_exact() { *num } else { Num::UNKNOWN };
                // No element of the line is in bounds: whether its carry counts as out of bounds is unspecified.
                let out_of_bounds = if all_outside { OutOfBounds::Perhaps } else { OutOfBounds::No };
                total.cells[line] = Cell { out_of_bounds, ..Cell::of(num) };
            }
        }
        for (view, total) in carry.iter().zip(&totals) {
            self.write(view, total)?;
        }
        let mut all = Vec::new();
        for (cells, elem) in made.into_iter().zip(&of.elems) {
            all.push(Value::View(self.fresh(*elem, &sizes, cells)));
        }
        Ok(if of.is_tuple { Value::Tuple(all) } else { all.swap_remove(0) })
    }

    /// Checks a claim: elements whose coordinates are out of bounds along combined modes, and only along these, are this number.
    fn checked(&self, from: &Elements, modes: &[i128], source: Elem, elem: Elem, claim: Num) -> Result<()> {
        if decides() {
            return Ok(());
        }
        for cell in &from.cells {
            let Some(at) = &cell.at else { continue };
            if at.contains(&Along::Unclear) {
                return undefined("a claim about coordinates that are not known");
            }
            let outside = |combined: bool| {
                let of = |mode: usize| modes.contains(&(mode as i128)) == combined;
                at.iter()
                    .enumerate()
                    .any(|(mode, at)| of(mode) && matches!(at, Along::In(_, false) | Along::Mixed(_, false)))
            };
            if !outside(true) || outside(false) {
                continue;
            }
            let num = cell.num.cast(source, elem);
            if !num.is_exact() {
                return undefined("a claim about a number that is not exact");
            }
            if num != claim {
                return undefined(FALSE_CLAIM);
            }
        }
        Ok(())
    }

    /// `gemm(a, b, &mut acc)`
    pub(super) fn multiplied(&mut self, args: &'k [Arg]) -> Result<Value<'k>> {
        let (a, b) = (self.value(&args[0].value)?, self.value(&args[1].value)?);
        let (a, b) = (self.elements(&a)?, self.elements(&b)?);
        let acc = self.view(&args[2].value)?;
        let mut sums = self.read(&acc, 0.0)?;
        let (Some(x), Some(y)) = (a.ty.elem(), b.ty.elem()) else { return undefined("no type") };
        let operation = |of: &Expr| match &of.kind {
            ExprKind::Name(name) => {
                Semiring::OPERATIONS.iter().find(|(known, _)| known == name).map(|(_, with)| *with)
            }
            _ => None,
        };
        let semiring = match named(args, "with").map(|with| &with.kind) {
            Some(ExprKind::Tuple(both)) => operation(&both[0]).zip(operation(&both[1])),
            _ => None,
        };
        let counts = |cell: &Cell| cell.out_of_bounds == OutOfBounds::No;
        for (n, cell) in sums.cells.iter_mut().enumerate() {
            let at = digits(&acc.sizes, n as i64);
            let mut terms = vec![cell.num];
            let (mut row, mut column) = (false, false);
            for k in 0..a.sizes[1] {
                let left = &a.cells[linear(&a.sizes, &[at[0], k])];
                let right = &b.cells[linear(&b.sizes, &[at[1], k])];
                let both = [counts(left), counts(right)];
                row |= both[0];
                column |= both[1];
                let (left, right) = (left.num.cast(x, acc.elem), right.num.cast(y, acc.elem));
                match semiring {
                    // Products are added without rounding.
                    None => terms.push(Num::bin(Bin::Mul, left, right, Elem::F64)),
                    // Where K ends, other operations leave elements out.
                    Some((_, multiply)) if both == [true; 2] => {
                        terms.push(Num::bin(multiply, left, right, acc.elem))
                    }
                    Some(_) => {}
                }
            }
            // Rows that are out of bounds have the fill of sums of products alone.
            let num = match semiring {
                Some(_) if !(row && column) => Num::UNKNOWN,
                Some((combine, _)) => Num::fold(combine, &terms, acc.elem),
                None => Num::fold(Bin::Add, &terms, acc.elem),
            };
            let out_of_bounds = if row && column {
                cell.out_of_bounds
            } else {
                either(cell.out_of_bounds, if decides() { OutOfBounds::Yes } else { OutOfBounds::Perhaps })
            };
            // Its row is the row of the first operand, its column the row of the second.
            let side = |of: &Elements, row: i64| {
                let at = &of.cells[linear(&of.sizes, &[row, 0])].at;
                at.as_ref().map_or(Along::Unclear, |at| at[0])
            };
            let own = cell.at.as_ref().map_or([Along::Own; 2], |at| [at[0], at[1]]);
            let at = [both((&own[0], &side(&a, at[0]))), both((&own[1], &side(&b, at[1])))];
            *cell = Cell { out_of_bounds, at: Some(at.into()), ..Cell::of(num) };
        }
        self.write(&acc, &sums)?;
        Ok(Value::Unit)
    }
}

/// The number that a sum, a maximum or a minimum begins with.
pub(super) fn identity(with: Bin, elem: Elem) -> Num {
    match with {
        Bin::Add => Num::exact(0.0),
        Bin::Max => Num::range(elem).0,
        _ => Num::range(elem).1,
    }
}

/// Coordinates of a reduction's elements: the common coordinates of all combined elements.
fn kept(from: &Elements, sizes: &[i64]) -> Vec<At> {
    let mut all: Vec<Option<At>> = vec![None; sizes.iter().product::<i64>() as usize];
    for (n, cell) in from.cells.iter().enumerate() {
        let known = &mut all[linear(sizes, &digits(&from.sizes, n as i64))];
        let at = match (known.take(), &cell.at) {
            (None, at) => at.clone(),
            (Some(None), None) => None,
            (Some(Some(known)), Some(at)) => {
                let one = |(known, at): (&Along, &Along)| if known == at { *known } else { Along::Unclear };
                Some(known.iter().zip(at.iter()).map(one).collect())
            }
            _ => Some(vec![Along::Unclear; sizes.len()].into()),
        };
        *known = Some(at);
    }
    let one = |at: Option<At>| {
        let at = at.flatten()?;
        let along = |(mode, at): (usize, &Along)| match from.sizes[mode] == sizes[mode] {
            true => *at,
            false => Along::Unclear,
        };
        Some(at.iter().enumerate().map(along).collect())
    };
    all.into_iter().map(one).collect()
}

/// A shape with extent 1 along some modes.
fn without(sizes: &[i64], modes: &[i128]) -> Vec<i64> {
    let one = |(mode, size): (usize, &i64)| if modes.contains(&(mode as i128)) { 1 } else { *size };
    sizes.iter().enumerate().map(one).collect()
}
