//! Statements. All threads read before any thread writes.

use tilewright_codegen::Elem;
use tilewright_codegen::number::Number;
use tilewright_codegen::semiring::Semiring;
use tilewright_codegen::thread::Bin;
use tilewright_codegen::tile::{Across, Expr, How, Multiply, Op, Purpose, Space};
use tilewright_codegen::view::View;

use super::memory::{Cell, Outside};
use super::order::Step;
use super::value::{Operands, identity};
use super::view::{Begin, Location, Shown};
use super::{Cluster, Num, Result, Undefined};

/// A write: the block's rank, tensor, offset, element.
pub(super) type Writes = Vec<(usize, u32, usize, Cell)>;

impl Cluster<'_> {
    pub(super) fn perform(&mut self, step: &Step<'_>) -> Result<()> {
        let writes = match &step.stmt.op {
            Op::Copy { from, to, how: How::Atom(row), .. } => self.copy_by(step, row.name, from, to)?,
            Op::Gemm { a, b, acc, how: Multiply::Atom(row), .. } => self.gemm_by(step, row, a, b, acc)?,
            Op::Copy { from, to, fill, .. } => self.copy(step, from, to, *fill)?,
            Op::Take { .. } => {
                return Err(Undefined("an integer is read where its order is unknown".into()));
            }
            Op::Fill { to, value } => self.map(step, &[], to, value)?,
            Op::Map { ins, to, value } => self.map(step, ins, to, value)?,
            Op::Gemm { a, b, acc, how: Multiply::Scalar(with), .. } => self.gemm(step, [a, b, acc], *with)?,
            _ if step.stmt.is_over_cluster() => {
                return Err(Undefined("a reduction over a cluster".into()));
            }
            Op::Reduce { from, to, with, across, .. } => self.reduce(step, from, to, *with, *across)?,
            Op::Fold { from, to, with, identity, across, .. } => {
                self.fold(step, (from, to), with, identity, *across)?
            }
            Op::Scan { from, to, carry, how } if carry.is_empty() => self.scan(step, (from, to), how)?,
            // Copies in flight are complete, and the threads of the group have arrived.
            Op::WaitCopies { .. } | Op::CommitCopies | Op::Wait { .. } | Op::Sync => Writes::new(),
            Op::Acquire { .. } | Op::Publish { .. } | Op::Await { .. } | Op::Release { .. } => Writes::new(),
            // They say where elements come from.
            Op::Advance { .. } | Op::Flow { .. } | Op::Contents { .. } => Writes::new(),
            other => return Err(Undefined(format!("no reference for {other:?}"))),
        };
        for (rank, tensor, at, cell) in writes {
            self.memory.write(rank, tensor, at, cell);
        }
        Ok(())
    }

    /// The threads of the group that executes it, by their numbers in the block.
    pub(super) fn threads(&self, step: &Step<'_>) -> Vec<i64> {
        let all = match self.program.groups[step.stmt.by as usize].warps {
            Some((first, end)) => i64::from(first) * 32..i64::from(end) * 32,
            None => 0..i64::from(self.program.threads()),
        };
        all.filter(|thread| step.at.only.is_none_or(|only| only == *thread)).collect()
    }

    /// The integer that each thread reads: outside of the tensor a value is 0, and an index -1.
    pub(super) fn taken(&self, step: &Step<'_>, from: &View, purpose: Purpose) -> Result<Vec<(i64, i128)>> {
        let elem = self.elem(from);
        let shown = self.show(from)?;
        let one = |thread: i64| {
            let begin = self.begin(&shown, &step.at, thread)?;
            let at = shown.coordinates_of(0);
            if shown.locate(&begin, &at)? == Location::Outside {
                return Ok((thread, if purpose == Purpose::Index { -1 } else { 0 }));
            }
            let cell = self.written(&shown, &begin, &at, Num::exact(0.0))?;
            let to = if elem.is_float() { Elem::I32 } else { elem };
            let num = cell.num.cast(elem, to);
            match num.int() {
                // Coordinates have 32 bits: wider integers are clamped.
                Some(n) if elem.bytes() == 8 => Ok((thread, n.clamp(i32::MIN.into(), i32::MAX.into()))),
                Some(n) => Ok((thread, n)),
                None => Err(Undefined("an integer that is read is unknown".into())),
            }
        };
        self.threads(step).into_iter().map(one).collect()
    }

    pub(super) fn elem(&self, view: &View) -> Elem {
        self.program.tensor(view.tensor).elem
    }

    /// The element at a point of a view. `fill` replaces elements out of bounds.
    pub(super) fn read(
        &self,
        shown: &Shown<'_>,
        begin: &Begin,
        at: &[i64],
        fill: Num,
    ) -> Result<Option<Cell>> {
        Ok(match shown.locate(begin, at)? {
            Location::Outside => Some(Cell { num: fill, out_of_bounds: Outside::Yes }),
            // Its value is unspecified, and so is whether a reduction skips it.
            Location::Clamped => Some(Cell { num: Num::UNKNOWN, out_of_bounds: Outside::Perhaps }),
            Location::At(location) => self.memory.read(begin.rank, shown.view.tensor, location),
        })
    }

    pub(super) fn written(&self, shown: &Shown<'_>, begin: &Begin, at: &[i64], fill: Num) -> Result<Cell> {
        let cell = self.read(shown, begin, at, fill)?;
        cell.ok_or_else(|| Undefined(format!("`{}` is read at {at:?} before it is written", shown.view.name)))
    }

    pub(super) fn put(
        &self,
        shown: &Shown<'_>,
        begin: &Begin,
        at: &[i64],
        cell: Cell,
        to: &mut Writes,
    ) -> Result<()> {
        if let Location::At(location) = shown.locate(begin, at)? {
            to.push((begin.rank, shown.view.tensor, location, cell));
        }
        Ok(())
    }

    fn copy(&self, step: &Step<'_>, from: &View, to: &View, fill: Number) -> Result<Writes> {
        let (source, target) = (self.elem(from), self.elem(to));
        let (from, to) = (self.show(from)?, self.show(to)?);
        let fill = Num::literal(fill, source);
        let mut writes = Writes::new();
        for thread in self.threads(step) {
            let (first, start) = (self.begin(&from, &step.at, thread)?, self.begin(&to, &step.at, thread)?);
            for at in 0..to.count() {
                let at = to.coordinates_of(at);
                let cell = self.written(&from, &first, &at, fill)?;
                let cell = Cell { num: cell.num.cast(source, target), ..cell };
                self.put(&to, &start, &at, cell, &mut writes)?;
            }
        }
        Ok(writes)
    }

    fn map(&self, step: &Step<'_>, ins: &[View], to: &View, value: &Expr) -> Result<Writes> {
        let target = self.elem(to);
        let elems: Vec<Elem> = ins.iter().map(|view| self.elem(view)).collect();
        let registers =
            |view: &View| matches!(self.program.tensor(view.tensor).space, Space::Registers { .. });
        let ins: Vec<Shown<'_>> = ins.iter().map(|view| self.show(view)).collect::<Result<_>>()?;
        let to = self.show(to)?;
        let mut writes = Writes::new();
        for thread in self.threads(step) {
            let firsts =
                ins.iter().map(|shown| self.begin(shown, &step.at, thread)).collect::<Result<Vec<_>>>()?;
            let start = self.begin(&to, &step.at, thread)?;
            for at in 0..to.count() {
                let at = to.coordinates_of(at);
                let (mut given, mut out_of_bounds, mut outside) =
                    (Operands::none(&step.at, thread), Outside::No, Vec::new());
                for (n, (shown, first)) in ins.iter().zip(&firsts).enumerate() {
                    let cell = self.read(shown, first, &at, Num::exact(0.0))?;
                    let (used, of) = (value.reads(n as u8), shown.view);
                    let unwritten = !registers(of) && self.memory.has_elements(first.rank, of.tensor);
                    if cell.is_none() && (used || unwritten) {
                        return Err(Undefined(format!("`{}` is read before it is written", shown.view.name)));
                    }
                    outside.push(cell.is_some_and(|cell| cell.out_of_bounds == Outside::Yes));
                    if let Some(cell) = cell {
                        out_of_bounds = either(out_of_bounds, cell.out_of_bounds);
                    }
                    given.ins.push((elems[n], cell.map(|cell| cell.num), shown.coordinates(first, &at)));
                }
                let num = self.element(value, &given, target)?;
                if out_of_bounds == Outside::Yes && leaves_unchanged(value, &given, &outside) {
                    // Neutral elements are added: whether the sum counts as out of bounds is unspecified.
                    out_of_bounds = Outside::Perhaps;
                }
                self.put(&to, &start, &at, Cell { num, out_of_bounds }, &mut writes)?;
            }
        }
        Ok(writes)
    }

    fn gemm(&self, step: &Step<'_>, [a, b, acc]: [&View; 3], with: Semiring) -> Result<Writes> {
        let (x, y, elem) = (self.elem(a), self.elem(b), self.elem(acc));
        let (a, b, acc) = (self.show(a)?, self.show(b)?, self.show(acc)?);
        let fills = with.fills(elem).unwrap_or_default();
        // Each in its operand's type.
        let fills =
            [(fills[0], x), (fills[1], y)].map(|(fill, own)| Num::exact(Number::from(fill).value(own)));
        // Products of sums are exact: they are added without rounding.
        let of_products = if with == Semiring::SUMS && elem.is_float() { Elem::F64 } else { elem };
        let mut writes = Writes::new();
        for thread in self.threads(step) {
            let firsts = [&a, &b, &acc].map(|shown| self.begin(shown, &step.at, thread));
            let [of_a, of_b, of_acc] = firsts;
            let (of_a, of_b, of_acc) = (of_a?, of_b?, of_acc?);
            for at in 0..acc.count() {
                let at = acc.coordinates_of(at);
                let cell = self.written(&acc, &of_acc, &at, Num::UNKNOWN)?;
                let mut terms = vec![cell.num];
                let (mut row, mut column) = (false, false);
                for k in 0..a.sizes[1] {
                    let left = self.written(&a, &of_a, &[at[0], k], fills[0])?;
                    let right = self.written(&b, &of_b, &[at[1], k], fills[1])?;
                    row |= left.out_of_bounds == Outside::No;
                    column |= right.out_of_bounds == Outside::No;
                    let (left, right) = (left.num.cast(x, elem), right.num.cast(y, elem));
                    terms.push(Num::bin(with.mul, left, right, of_products));
                }
                let num = Num::fold(with.add, &terms, elem);
                // If all of an operand's row is out of bounds, so may be the sum.
                let out_of_bounds = if row && column {
                    cell.out_of_bounds
                } else {
                    either(cell.out_of_bounds, Outside::Perhaps)
                };
                self.put(&acc, &of_acc, &at, Cell { num, out_of_bounds }, &mut writes)?;
            }
        }
        Ok(writes)
    }

    fn reduce(&self, step: &Step<'_>, from: &View, to: &View, with: Bin, across: Across) -> Result<Writes> {
        let (source, target) = (self.elem(from), self.elem(to));
        let (from, to) = (self.show(from)?, self.show(to)?);
        let threads: Vec<i64> = self.threads(step);
        // For each thread and each element of the target: the operands, and whether any of them is in bounds.
        let mut all: Vec<Vec<(Vec<Num>, Outside)>> = Vec::new();
        for &thread in &threads {
            let (first, start) = (self.begin(&from, &step.at, thread)?, self.begin(&to, &step.at, thread)?);
            let mut sums = Vec::new();
            let mut counted = vec![(false, false); to.count() as usize];
            for at in 0..to.count() {
                let cell = self.written(&to, &start, &to.coordinates_of(at), Num::UNKNOWN)?;
                sums.push((vec![cell.num], cell.out_of_bounds));
            }
            for at in 0..from.count() {
                let at = from.coordinates_of(at);
                let mut location = 0;
                for (mode, size) in to.sizes.iter().enumerate().rev() {
                    location = location * size + if *size == 1 { 0 } else { at[mode] };
                }
                let cell = self.written(&from, &first, &at, Num::UNKNOWN)?;
                let (terms, _) = &mut sums[location as usize];
                let num = cell.num.cast(source, target);
                let same = num == identity(with, target);
                match cell.out_of_bounds {
                    Outside::No => {
                        counted[location as usize].0 = true;
                        terms.push(num);
                    }
                    Outside::Yes => counted[location as usize].1 = true,
                    Outside::Perhaps => {
                        counted[location as usize].1 = true;
                        terms.push(if same { num } else { Num::UNKNOWN });
                    }
                }
            }
            for ((_, out_of_bounds), (some, left_out)) in sums.iter_mut().zip(counted) {
                if *out_of_bounds == Outside::No && !some && left_out {
                    *out_of_bounds = Outside::Perhaps;
                }
            }
            all.push(sums);
        }
        let mut writes = Writes::new();
        for (location, &thread) in threads.iter().enumerate() {
            let of = |location: usize| across.first(location as u32);
            let group: Vec<usize> = (0..threads.len()).filter(|&other| of(other) == of(location)).collect();
            let start = self.begin(&to, &step.at, thread)?;
            for (at, (_, own)) in all[location].iter().enumerate() {
                let terms: Vec<Num> = group.iter().flat_map(|&other| &all[other][at].0).copied().collect();
                // In bounds if any operand of the group is.
                let out_of_bounds = match *own {
                    Outside::Perhaps if group.iter().any(|&other| all[other][at].1 == Outside::No) => {
                        Outside::No
                    }
                    own => own,
                };
                let num = Num::fold(with, &terms, target);
                self.put(
                    &to,
                    &start,
                    &to.coordinates_of(at as i64),
                    Cell { num, out_of_bounds },
                    &mut writes,
                )?;
            }
        }
        Ok(writes)
    }
}

impl Cluster<'_> {
    /// Tuples that are reduced by functions, in any order.
    fn fold(
        &self,
        step: &Step<'_>,
        (from, to): (&[View], &[View]),
        with: &[Expr],
        identity: &[Number],
        across: Across,
    ) -> Result<Writes> {
        let elems: Vec<Elem> = to.iter().map(|view| self.elem(view)).collect();
        let from: Vec<Shown<'_>> = from.iter().map(|view| self.show(view)).collect::<Result<_>>()?;
        let to: Vec<Shown<'_>> = to.iter().map(|view| self.show(view)).collect::<Result<_>>()?;
        let threads = self.threads(step);
        let starts = |all: &[Shown<'_>], thread: i64| -> Result<Vec<Begin>> {
            all.iter().map(|shown| self.begin(shown, &step.at, thread)).collect()
        };
        let entries = |all: &[Shown<'_>], starts: &[Begin], at: &[i64]| -> Result<Vec<Cell>> {
            all.iter()
                .zip(starts)
                .map(|(shown, start)| self.written(shown, start, at, Num::UNKNOWN))
                .collect()
        };
        let identity: Vec<Num> =
            identity.iter().zip(&elems).map(|(n, elem)| Num::literal(*n, *elem)).collect();
        // For each thread and each element of the target the tuples in bounds.
        let mut all: Vec<Vec<Vec<Vec<Num>>>> = Vec::new();
        for &thread in &threads {
            let (firsts, begins) = (starts(&from, thread)?, starts(&to, thread)?);
            let mut tuples = Vec::new();
            for at in 0..to[0].count() {
                let cells = entries(&to, &begins, &to[0].coordinates_of(at))?;
                tuples.push(vec![cells.iter().map(|cell| cell.num).collect()]);
            }
            for at in 0..from[0].count() {
                let at = from[0].coordinates_of(at);
                let mut location = 0;
                for (mode, size) in to[0].sizes.iter().enumerate().rev() {
                    location = location * size + if *size == 1 { 0 } else { at[mode] };
                }
                let cells = entries(&from, &firsts, &at)?;
                let out_of_bounds = cells
                    .iter()
                    .fold(Outside::No, |out_of_bounds, cell| either(out_of_bounds, cell.out_of_bounds));
                let tuple: Vec<Num> = cells.iter().map(|cell| cell.num).collect();
                match out_of_bounds {
                    Outside::Yes => {}
                    Outside::Perhaps if tuple != identity => {
                        tuples[location as usize].push(vec![Num::UNKNOWN; elems.len()])
                    }
                    _ => tuples[location as usize].push(tuple),
                }
            }
            all.push(tuples);
        }
        let mut writes = Writes::new();
        for (location, &thread) in threads.iter().enumerate() {
            let of = |location: usize| across.first(location as u32);
            let group: Vec<usize> = (0..threads.len()).filter(|&other| of(other) == of(location)).collect();
            let begins = starts(&to, thread)?;
            for (at, _) in all[location].iter().enumerate() {
                let mut sum = identity.clone();
                for tuple in group.iter().flat_map(|&other| &all[other][at]) {
                    sum = self.combined(step, thread, with, [&sum, tuple], &elems)?;
                }
                for ((shown, begin), num) in to.iter().zip(&begins).zip(sum) {
                    // Another order would round differently.
                    let num = if num.is_exact() { num } else { Num::UNKNOWN };
                    let cell = Cell { num, out_of_bounds: Outside::Perhaps };
                    self.put(shown, begin, &shown.coordinates_of(at as i64), cell, &mut writes)?;
                }
            }
        }
        Ok(writes)
    }

    /// Combines two tuples as a thread does.
    pub(super) fn combined(
        &self,
        step: &Step<'_>,
        thread: i64,
        with: &[Expr],
        [x, y]: [&[Num]; 2],
        elems: &[Elem],
    ) -> Result<Vec<Num>> {
        let ins = elems.iter().chain(elems).zip(x.iter().chain(y));
        let mut given = Operands::none(&step.at, thread);
        given.ins = ins.map(|(elem, num)| (*elem, Some(*num), Vec::new())).collect();
        with.iter().zip(elems).map(|(of, elem)| self.element(of, &given, *elem)).collect()
    }
}

/// Does a function return one of its inputs unchanged when the other is a fill: 0 in a sum, 1 in a product?
fn leaves_unchanged(of: &Expr, given: &Operands, outside: &[bool]) -> bool {
    let is = |x: &Expr, wanted: f64| match x {
        Expr::In(n) => outside[usize::from(*n)] && given.ins[usize::from(*n)].1 == Some(Num::exact(wanted)),
        Expr::Lit(x) => x.to_f64() == wanted,
        Expr::Cast(_, x) => {
            matches!(**x, Expr::In(n) if outside[usize::from(n)] && given.ins[usize::from(n)].1 == Some(Num::exact(wanted)))
        }
        _ => false,
    };
    let inner = |x: &Expr| leaves_unchanged(x, given, outside);
    let either = |x: &Expr, y: &Expr, wanted: f64| (is(y, wanted) && inner(x)) || (is(x, wanted) && inner(y));
    match of {
        Expr::In(n) => !outside[usize::from(*n)],
        Expr::Bin(Bin::Add | Bin::Or | Bin::Xor, x, y) => either(x, y, 0.0),
        Expr::Bin(Bin::Sub, x, y) => is(y, 0.0) && inner(x),
        Expr::Bin(Bin::Mul, x, y) => either(x, y, 1.0),
        Expr::Bin(Bin::Max, x, y) => either(x, y, f64::NEG_INFINITY),
        Expr::Bin(Bin::Min, x, y) => either(x, y, f64::INFINITY),
        Expr::Fma(x) => is(&x[0], 0.0) && is(&x[1], 0.0) && inner(&x[2]),
        _ => false,
    }
}

/// Whether a function of two elements is an out-of-bounds fill.
pub(super) fn either(one: Outside, other: Outside) -> Outside {
    match (one, other) {
        (Outside::Yes, _) | (_, Outside::Yes) => Outside::Yes,
        (Outside::Perhaps, _) | (_, Outside::Perhaps) => Outside::Perhaps,
        _ => Outside::No,
    }
}
