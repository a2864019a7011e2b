//! The contracted coordinate of a product, and the origin of its sums.

use tilewright_layout::Value;

use super::coordinate_function::{Function, Verdict, Witness};
use super::origin::{Axis, Coordinates, Through};
use crate::tile::Program;
use crate::tile::view::View;
use crate::view_elements::{Budget, Elements, Mask};

/// An operand: (rows, k), or (columns, k).
pub(super) struct Side<'p> {
    pub(super) view: &'p View,
    pub(super) elements: Elements,
    pub(super) coordinates: Coordinates<Function>,
}

/// Why a product cannot be intended: coordinates along one extent that differ where they are multiplied.
pub(super) struct Mismatch {
    /// Axes of the two operands.
    pub(super) pair: (usize, usize),
    /// The k-step at which they differ, with the elements of both operands.
    pub(super) at: Witness,
    pub(super) step: usize,
    pub(super) elements: (usize, usize),
    /// Does the operand's second mode run along this extent?
    pub(super) along: (bool, bool),
    /// How many k-steps there are in a thread.
    pub(super) steps: usize,
}

impl Side<'_> {
    fn rows(&self) -> usize {
        self.elements.counts[0]
    }

    fn steps(&self) -> usize {
        self.elements.counts[1]
    }

    /// Does a coordinate vary with the k-step?
    fn runs(&self, axis: &Axis<Function>) -> bool {
        let rows = self.rows();
        let onto: Vec<usize> = (0..self.elements.len()).map(|element| element % rows).collect();
        axis.at.as_ref().is_some_and(|at| !at.folds(&onto))
    }

    fn running(&self) -> Vec<bool> {
        self.coordinates.axes.iter().map(|axis| self.runs(axis)).collect()
    }
}

/// The axes that a product contracts, if they are known; or the mismatch.
pub(super) fn contracted(
    a: &Side<'_>,
    b: &Side<'_>,
    threads: u32,
    budget: &mut Budget,
) -> Result<Vec<(usize, usize)>, Mismatch> {
    let (runs_a, runs_b) = (a.running(), b.running());
    let mut pairs = Vec::new();
    for (x, left) in a.coordinates.axes.iter().enumerate() {
        let partners = b.coordinates.axes.iter().enumerate().filter(|(_, right)| right.extent == left.extent);
        pairs.extend(partners.map(|(y, _)| (x, y)));
    }
    let only = |runs: &[bool], this: usize| runs.iter().enumerate().all(|(at, runs)| !runs || at == this);
    let mut first: Option<Mismatch> = None;
    let mut agreeing = Vec::new();
    for &(x, y) in &pairs {
        let (Some(left), Some(right)) = (&a.coordinates.axes[x].at, &b.coordinates.axes[y].at) else {
            // An unknown axis may be the contracted one.
            return Ok(Vec::new());
        };
        let along = (runs_a[x], runs_b[y]);
        match agree(a, b, left, right, threads, budget) {
            Agreement::Same if only(&runs_a, x) && only(&runs_b, y) => agreeing.push((x, y)),
            Agreement::Same => {}
            Agreement::Undecided => return Ok(Vec::new()),
            Agreement::Differ(at, step, elements) => {
                let mismatch = Mismatch { pair: (x, y), at, step, elements, along, steps: a.steps() };
                let relevant = match a.coordinates.axes[x].extent {
                    // Two extents of equal size need not be the same extent.
                    Value::Int(_) => along == (true, true),
                    _ => true,
                };
                let weight = |along: (bool, bool)| u8::from(along.0) + u8::from(along.1);
                if relevant && first.as_ref().is_none_or(|known| weight(known.along) < weight(along)) {
                    first = Some(mismatch);
                }
            }
        }
    }
    let still = |&(x, y): &(usize, usize)| {
        let constant = |axis: &Axis<Function>| axis.at.as_ref().is_some_and(Function::is_constant);
        constant(&a.coordinates.axes[x]) && constant(&b.coordinates.axes[y])
    };
    // The first agreeing pair of axes that varies; where none does, all agreeing pairs.
    let moving: Vec<(usize, usize)> = agreeing.iter().copied().filter(|pair| !still(pair)).collect();
    match (moving.first(), first) {
        (Some(pair), _) => Ok(vec![*pair]),
        (None, Some(mismatch)) if agreeing.is_empty() => Err(mismatch),
        (None, _) => Ok(agreeing),
    }
}

/// The axes of the operands' sums, if each operand has one and their sizes are not known to be equal.
pub(super) fn apart<'s>(
    program: &Program,
    a: &'s Side<'_>,
    b: &'s Side<'_>,
) -> Option<[&'s Axis<Function>; 2]> {
    let own = |side: &'s Side<'_>| {
        let rows: Vec<usize> = (0..side.elements.len()).map(|at| at / side.rows() * side.rows()).collect();
        let mut running = side.coordinates.axes.iter().filter(|axis| side.runs(axis));
        let axis = running.next().filter(|_| running.next().is_none())?;
        let along_k = axis.at.as_ref().is_some_and(|at| at.folds(&rows));
        let Value::Sym { times: 1, of, over: 1 } = axis.extent else { return None };
        let computed = program.requires.iter().any(|require| require.of == Some(of));
        (along_k && !computed).then_some(axis)
    };
    let all_known = |side: &Side<'_>| side.coordinates.axes.iter().all(|axis| axis.at.is_some());
    let (x, y) = (own(a)?, own(b)?);
    let has = |side: &Side<'_>, extent: Value| {
        let extent = program.canonical(extent);
        side.coordinates.axes.iter().any(|axis| program.canonical(axis.extent) == extent)
    };
    let known = all_known(a) && all_known(b);
    (known && !has(b, x.extent) && !has(a, y.extent)).then_some([x, y])
}

enum Agreement {
    Same,
    Differ(Witness, usize, (usize, usize)),
    Undecided,
}

/// Do both coordinates depend on the thread and the k-step alone, and in the same way?
fn agree(
    a: &Side<'_>,
    b: &Side<'_>,
    left: &Function,
    right: &Function,
    threads: u32,
    budget: &mut Budget,
) -> Agreement {
    let (rows, columns, steps) = (a.rows(), b.rows(), a.steps());
    if b.steps() != steps {
        return Agreement::Undecided;
    }
    // All rows against the first column, then all columns against the first row.
    let first = |of: usize, over: usize| -> Vec<Option<usize>> {
        (0..over * steps).map(|at| Some(at / over * of)).collect()
    };
    let cases = [
        (left.clone(), right.pick(&first(columns, rows)), rows, true),
        (left.pick(&first(rows, columns)), right.clone(), columns, false),
    ];
    for (x, y, wide, by_rows) in cases {
        match x.compare(&y, &Mask::default(), threads, budget) {
            Verdict::Same => {}
            Verdict::Undecided => return Agreement::Undecided,
            Verdict::Differ(at) => {
                let (line, step) = (at.value % wide, at.value / wide);
                let elements = match by_rows {
                    true => (line + step * rows, step * columns),
                    false => (step * rows, line + step * columns),
                };
                return Agreement::Differ(at, step, elements);
            }
        }
    }
    Agreement::Same
}

/// The origin of the sums: the rows of one operand, the columns of the other.
pub(super) fn sums(a: &Side<'_>, b: &Side<'_>, summed: &[(usize, usize)]) -> Coordinates<Function> {
    let (rows, columns) = (a.rows(), b.rows());
    let mut axes = Vec::new();
    for (side, second) in [(a, false), (b, true)] {
        let index = |sum: usize| Some(if second { sum / rows } else { sum % rows });
        let which: Vec<Option<usize>> = (0..rows * columns).map(index).collect();
        for (at, axis) in side.coordinates.axes.iter().enumerate() {
            let gone = summed.iter().any(|(x, y)| at == if second { *y } else { *x });
            if gone || side.runs(axis) {
                continue;
            }
            axes.push(Axis {
                through: Through { operand: true, ..Through::of(side.view) },
                at: axis.at.as_ref().map(|at| at.pick(&which)),
                ..axis.clone()
            });
        }
    }
    Coordinates { axes, sums: true }
}
