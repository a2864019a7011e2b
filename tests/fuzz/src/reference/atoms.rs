//! A reference for instructions of the table: matrices in the registers of a warp or warpgroup, and tiles by
//! the copy engine.

use tilewright_codegen::Elem;
use tilewright_codegen::atom::{Atom, Effect, OperandName};
use tilewright_codegen::thread::Bin;
use tilewright_codegen::view::View;
use tilewright_layout::Layout;

use super::memory::Cell;
use super::order::Step;
use super::statement::Writes;
use super::view::{Begin, Location, Shown};
use super::{Cluster, Num, Result, Undefined};

const LANES: i64 = 32;
/// Elements of a row of ldmatrix, and of a register.
const ROW: i64 = 8;
const PAIR: i64 = 2;

/// (lane, value) to the index in an operand's tile; `None` if the operand is not in registers.
fn indices(row: &Atom, operand: OperandName) -> Option<Vec<Vec<usize>>> {
    let tv = row.tv(operand)?;
    let (of_lane, of_value) = (tv.mode(0).ok()?, tv.mode(1).ok()?);
    let at = |layout: &Layout, n: i64| -> i64 {
        let mut rest = n;
        layout.leaves().fold(0, |sum, (extent, stride)| {
            let extent = extent.int().unwrap_or(1);
            let coordinate = rest % extent;
            rest /= extent;
            sum + coordinate * stride.int().unwrap_or(0)
        })
    };
    let values = of_value.size().ok()?;
    let one =
        |lane: i64| (0..values).map(|value| (at(&of_lane, lane) + at(&of_value, value)) as usize).collect();
    Some((0..of_lane.size().ok()?).map(one).collect())
}

impl Cluster<'_> {
    pub(super) fn copy_by(&self, step: &Step<'_>, name: &str, from: &View, to: &View) -> Result<Writes> {
        match name {
            "ldmatrix_x1" => self.rows(step, 1, from, to),
            "ldmatrix_x2" => self.rows(step, 2, from, to),
            "ldmatrix_x4" => self.rows(step, 4, from, to),
            "stmatrix_x4" => self.stored_rows(step, 4, from, to),
            _ if name.starts_with("bulk_load_") => self.bulk(step, name.ends_with("_multicast"), from, to),
            _ if name.starts_with("bulk_store_") => self.bulk(step, false, from, to),
            _ => Err(Undefined(format!("no reference for `{name}`"))),
        }
    }

    /// ldmatrix: every lane addresses a row of eight elements, and receives a pair of each matrix.
    fn rows(&self, step: &Step<'_>, matrices: i64, from: &View, to: &View) -> Result<Writes> {
        let (from, to) = (self.show(from)?, self.show(to)?);
        let mut writes = Writes::new();
        let threads = self.threads(step);
        for warp in (threads[0]..threads[0] + threads.len() as i64).step_by(LANES as usize) {
            let sources: Vec<Begin> =
                (warp..warp + LANES).map(|lane| self.begin(&from, &step.at, lane)).collect::<Result<_>>()?;
            for rest in 0..to.count() / to.sizes[0] {
                let walked = |first: i64, shown: &Shown<'_>| {
                    let mut at = shown.coordinates_of(rest * shown.sizes[0]);
                    at[0] = first;
                    at
                };
                for lane in 0..LANES {
                    let start = self.begin(&to, &step.at, warp + lane)?;
                    for value in 0..matrices * PAIR {
                        let owner = value / PAIR * ROW + lane / 4;
                        let element = lane % 4 * PAIR + value % PAIR;
                        let at = walked(element, &from);
                        let cell = self.read(&from, &sources[owner as usize], &at, Num::UNKNOWN)?;
                        let cell =
                            cell.ok_or_else(|| Undefined("a row is read before it is written".into()))?;
                        if let Location::At(location) = to.locate(&start, &walked(value, &to))? {
                            writes.push((step.at.rank, to.view.tensor, location, cell));
                        }
                    }
                }
            }
        }
        Ok(writes)
    }

    /// stmatrix: every lane addresses a row of eight elements, and supplies a pair of each matrix.
    fn stored_rows(&self, step: &Step<'_>, matrices: i64, from: &View, to: &View) -> Result<Writes> {
        let (from, to) = (self.show(from)?, self.show(to)?);
        let mut writes = Writes::new();
        let threads = self.threads(step);
        for warp in threads.into_iter().step_by(LANES as usize) {
            let targets: Vec<Begin> =
                (warp..warp + LANES).map(|lane| self.begin(&to, &step.at, lane)).collect::<Result<_>>()?;
            for rest in 0..from.count() / from.sizes[0] {
                let walked = |first: i64, shown: &Shown<'_>| {
                    let mut at = shown.coordinates_of(rest * shown.sizes[0]);
                    at[0] = first;
                    at
                };
                for lane in 0..LANES {
                    let start = self.begin(&from, &step.at, warp + lane)?;
                    for value in 0..matrices * PAIR {
                        let owner = value / PAIR * ROW + lane / 4;
                        let element = lane % 4 * PAIR + value % PAIR;
                        let cell = self.read(&from, &start, &walked(value, &from), Num::UNKNOWN)?;
                        let cell =
                            cell.ok_or_else(|| Undefined("a row is stored before it is written".into()))?;
                        if let Location::At(location) =
                            to.locate(&targets[owner as usize], &walked(element, &to))?
                        {
                            writes.push((step.at.rank, to.view.tensor, location, cell));
                        }
                    }
                }
            }
        }
        Ok(writes)
    }

    /// A tile by the copy engine, issued by one thread of each part of the group: zeros out of bounds, for
    /// this block or all of its cluster.
    fn bulk(&self, step: &Step<'_>, for_all: bool, from: &View, to: &View) -> Result<Writes> {
        let (from, to) = (self.show(from)?, self.show(to)?);
        let group = &self.program.groups[step.stmt.by as usize];
        let threads = self.threads(step);
        let each = threads.len() / group.members.max(1) as usize;
        let ranks = self.program.cluster.iter().product::<u32>() as usize;
        let ranks = if for_all { 0..ranks } else { step.at.rank..step.at.rank + 1 };
        let mut writes = Writes::new();
        for thread in threads.into_iter().step_by(each.max(1)) {
            let (first, start) = (self.begin(&from, &step.at, thread)?, self.begin(&to, &step.at, thread)?);
            for at in 0..to.count() {
                let at = to.coordinates_of(at);
                let cell = self.read(&from, &first, &at, Num::exact(0.0))?;
                let cell = cell.ok_or_else(|| Undefined("an element is read before it is written".into()))?;
                if let Location::At(location) = to.locate(&start, &at)? {
                    writes.extend(ranks.clone().map(|rank| (rank, to.view.tensor, location, cell)));
                }
            }
        }
        Ok(writes)
    }

    /// A product of matrices in registers or in shared memory.
    pub(super) fn gemm_by(
        &self,
        step: &Step<'_>,
        row: &'static Atom,
        a: &View,
        b: &View,
        acc: &View,
    ) -> Result<Writes> {
        let Effect::Mma { m, n, k, .. } = row.effect else {
            return Err(Undefined(format!("`{}` is no product", row.name)));
        };
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let of_d =
            indices(row, OperandName::D).ok_or_else(|| Undefined("accumulators are in registers".into()))?;
        let elem = self.elem(acc);
        let (a, b, acc) = (self.show(a)?, self.show(b)?, self.show(acc)?);
        let fragments = [
            indices(row, OperandName::A).filter(|_| a.sizes.len() == 3),
            indices(row, OperandName::B).filter(|_| b.sizes.len() == 3),
        ];
        let steps = if fragments[0].is_some() { a.sizes[2] } else { a.sizes[1] / k as i64 };
        let mut writes = Writes::new();
        let threads = self.threads(step);
        for group in (threads[0]..threads[0] + threads.len() as i64).step_by(of_d.len()) {
            for (i, j) in (0..acc.sizes[1]).flat_map(|i| (0..acc.sizes[2]).map(move |j| (i, j))) {
                let before = self.matrix(step, &acc, group, Some(&of_d), [m, n], [i, j])?;
                let mut terms: Vec<Vec<Num>> = before.into_iter().map(|num| vec![num]).collect();
                for along in 0..steps {
                    let left = self.matrix(step, &a, group, fragments[0].as_deref(), [m, k], [i, along])?;
                    let right = self.matrix(step, &b, group, fragments[1].as_deref(), [n, k], [j, along])?;
                    for (at, terms) in terms.iter_mut().enumerate() {
                        let (row, column) = (at % m, at / m);
                        terms.extend((0..k).map(|k| {
                            Num::bin(Bin::Mul, left[row + k * m], right[column + k * n], Elem::F64)
                        }));
                    }
                }
                for (lane, values) in of_d.iter().enumerate() {
                    let begin = self.begin(&acc, &step.at, group + lane as i64)?;
                    for (value, &index) in values.iter().enumerate() {
                        let num = Num::fold(Bin::Add, &terms[index], elem);
                        if let Location::At(location) = acc.locate(&begin, &[value as i64, i, j])? {
                            writes.push((step.at.rank, acc.view.tensor, location, Cell::of(num)));
                        }
                    }
                }
            }
        }
        Ok(writes)
    }

    /// A matrix of an operand, column-major: gathered from lanes, or read from shared memory.
    fn matrix(
        &self,
        step: &Step<'_>,
        shown: &Shown<'_>,
        group: i64,
        of: Option<&[Vec<usize>]>,
        [rows, columns]: [usize; 2],
        at: [i64; 2],
    ) -> Result<Vec<Num>> {
        let mut all = vec![Num::UNKNOWN; rows * columns];
        let written = |cell: Option<Cell>| {
            cell.map(|cell| cell.num).ok_or_else(|| Undefined("a matrix is read before it is written".into()))
        };
        let Some(of) = of else {
            let begin = self.begin(shown, &step.at, group)?;
            for (index, num) in all.iter_mut().enumerate() {
                let (row, column) = ((index % rows) as i64, (index / rows) as i64);
                let at = [at[0] * rows as i64 + row, at[1] * columns as i64 + column];
                *num = written(self.read(shown, &begin, &at, Num::UNKNOWN)?)?;
            }
            return Ok(all);
        };
        for (lane, values) in of.iter().enumerate() {
            let begin = self.begin(shown, &step.at, group + lane as i64)?;
            for (value, &index) in values.iter().enumerate() {
                all[index] =
                    written(self.read(shown, &begin, &[value as i64, at[0], at[1]], Num::UNKNOWN)?)?;
            }
        }
        Ok(all)
    }
}
