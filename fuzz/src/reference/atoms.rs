//! What instructions of the table do: matrices that the lanes of a warp hold together.

use tilewright_codegen::atom::{Atom, Effect};
use tilewright_codegen::atoms;
use tilewright_codegen::thread::Bin;
use tilewright_codegen::view::View;
use tilewright_layout::Layout;

use super::memory::Cell;
use super::order::Step;
use super::statement::Writes;
use super::view::{Begin, Place, Shown};
use super::{Block, Num, Result, Undefined};
use tilewright_codegen::Elem;

const LANES: i64 = 32;
/// Elements of a row of what ldmatrix moves, and of a register.
const ROW: i64 = 8;
const PAIR: i64 = 2;

fn row(name: &str) -> Result<&'static Atom> {
    atoms::find(name).ok_or_else(|| Undefined(format!("no row `{name}`")))
}

/// (lane, value) to the index in an operand's tile.
fn indices(row: &Atom, operand: char) -> Result<Vec<Vec<usize>>> {
    let tv = row.tv(operand).ok_or_else(|| Undefined(format!("`{}` has no `{operand}`", row.name)))?;
    let sizes =
        |mode: usize| tv.mode(mode).and_then(|mode| mode.size()).map_err(|e| Undefined(e.to_string()));
    let (lanes, values) = (sizes(0)?, sizes(1)?);
    let at = |layout: &Layout, n: i64| -> i64 {
        let mut rest = n;
        layout.leaves().fold(0, |sum, (extent, stride)| {
            let extent = extent.int().unwrap_or(1);
            let digit = rest % extent;
            rest /= extent;
            sum + digit * stride.int().unwrap_or(0)
        })
    };
    let (of_lane, of_value) = (
        tv.mode(0).map_err(|e| Undefined(e.to_string()))?,
        tv.mode(1).map_err(|e| Undefined(e.to_string()))?,
    );
    let one =
        |lane: i64| (0..values).map(|value| (at(&of_lane, lane) + at(&of_value, value)) as usize).collect();
    Ok((0..lanes).map(one).collect())
}

impl Block<'_> {
    /// ldmatrix: every lane names a row of eight elements, and gets a pair of each matrix.
    pub(super) fn copy_by(&self, step: &Step<'_>, name: &str, from: &View, to: &View) -> Result<Writes> {
        let matrices = match name {
            "ldmatrix_x1" => 1,
            "ldmatrix_x2" => 2,
            "ldmatrix_x4" => 4,
            _ => return Err(Undefined(format!("no reference for `{name}`"))),
        };
        let (from, to) = (self.show(from)?, self.show(to)?);
        let mut writes = Writes::new();
        let threads = self.threads(step);
        for warp in (threads.start..threads.end).step_by(LANES as usize) {
            let sources: Vec<Begin> =
                (warp..warp + LANES).map(|lane| self.begin(&from, step, lane)).collect::<Result<_>>()?;
            for rest in 0..to.count() / to.sizes[0] {
                let walked = |first: i64, shown: &Shown<'_>| {
                    let mut at = shown.digits(rest * shown.sizes[0]);
                    at[0] = first;
                    at
                };
                for lane in 0..LANES {
                    let start = self.begin(&to, step, warp + lane)?;
                    for value in 0..matrices * PAIR {
                        let owner = value / PAIR * ROW + lane / 4;
                        let element = lane % 4 * PAIR + value % PAIR;
                        let at = walked(element, &from);
                        let cell = self.read(&from, &sources[owner as usize], &at, Num::UNKNOWN)?;
                        let cell = cell.ok_or_else(|| Undefined("a row is read that nobody wrote".into()))?;
                        if let Place::At(place) = to.place(&start, &walked(value, &to))? {
                            writes.push((to.view.tensor, place, cell));
                        }
                    }
                }
            }
        }
        Ok(writes)
    }

    /// A product of the matrices that a warp's registers hold.
    pub(super) fn gemm_by(
        &self,
        step: &Step<'_>,
        name: &str,
        a: &View,
        b: &View,
        acc: &View,
    ) -> Result<Writes> {
        let row = row(name)?;
        let Effect::Mma { m, n, k } = row.effect else {
            return Err(Undefined(format!("`{name}` is no product")));
        };
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let [of_a, of_b, of_d] = ['a', 'b', 'd'].map(|operand| indices(row, operand));
        let (of_a, of_b, of_d) = (of_a?, of_b?, of_d?);
        let elem = self.elem(acc);
        let (a, b, acc) = (self.show(a)?, self.show(b)?, self.show(acc)?);
        let mut writes = Writes::new();
        let threads = self.threads(step);
        for warp in (threads.start..threads.end).step_by(LANES as usize) {
            let matrix =
                |shown: &Shown<'_>, of: &[Vec<usize>], size: usize, at: [i64; 2]| -> Result<Vec<Num>> {
                    let mut all = vec![Num::UNKNOWN; size];
                    for (lane, values) in of.iter().enumerate() {
                        let begin = self.begin(shown, step, warp + lane as i64)?;
                        for (value, &index) in values.iter().enumerate() {
                            let cell =
                                self.read(shown, &begin, &[value as i64, at[0], at[1]], Num::UNKNOWN)?;
                            let cell =
                                cell.ok_or_else(|| Undefined("a fragment is read that nobody wrote".into()))?;
                            all[index] = cell.num;
                        }
                    }
                    Ok(all)
                };
            for i in 0..acc.sizes[1] {
                for j in 0..acc.sizes[2] {
                    let before = matrix(&acc, &of_d, m * n, [i, j])?;
                    let mut terms: Vec<Vec<Num>> = before.into_iter().map(|num| vec![num]).collect();
                    for step in 0..a.sizes[2] {
                        let left = matrix(&a, &of_a, m * k, [i, step])?;
                        let right = matrix(&b, &of_b, n * k, [j, step])?;
                        for (at, terms) in terms.iter_mut().enumerate() {
                            let (row, column) = (at % m, at / m);
                            terms.extend((0..k).map(|k| {
                                Num::bin(Bin::Mul, left[row + k * m], right[column + k * n], Elem::F64)
                            }));
                        }
                    }
                    for (lane, values) in of_d.iter().enumerate() {
                        let begin = self.begin(&acc, step, warp + lane as i64)?;
                        for (value, &index) in values.iter().enumerate() {
                            let num = Num::fold(Bin::Add, &terms[index], elem);
                            if let Place::At(place) = acc.place(&begin, &[value as i64, i, j])? {
                                writes.push((acc.view.tensor, place, Cell::of(num)));
                            }
                        }
                    }
                }
            }
        }
        Ok(writes)
    }
}
