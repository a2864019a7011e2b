//! Whether elements are stored to the coordinates that they belong to.

use tilewright_layout::Value;

use super::coordinate_function::{Function, Verdict, Witness};
use super::origin::{Axis, Coordinates};
use crate::view_elements::{Budget, Mask};

/// A coordinate of the elements, and the different one that they are stored to.
pub(super) struct Misplaced<'s> {
    /// The axis of the elements.
    pub(super) axis: &'s Axis<Function>,
    /// The intended mode of the target, if any.
    pub(super) mode: usize,
    pub(super) at: Witness,
    /// An axis that does go to that mode: the stored value was computed from elements of both.
    pub(super) rival: Option<&'s Axis<Function>>,
    /// All elements of a coordinate move together, so that none are combined with others.
    pub(super) moves: bool,
}

/// The first coordinate of the elements that does not match one of the target.
///
/// Coordinates correspond by their extents. If several coordinates have the same extent, any correspondence is accepted.
/// Sums must keep their coordinates. Other elements may be rearranged if elements that were combined remain together: that is a
/// lint, if there is no error.
pub(super) fn misplaced<'s>(
    coordinates: &'s Coordinates<Function>,
    target: &[(Value, Option<Function>)],
    mask: &Mask,
    threads: u32,
    budget: &mut Budget,
) -> Option<Misplaced<'s>> {
    let mut extents: Vec<Value> = Vec::new();
    for axis in &coordinates.axes {
        if !extents.contains(&axis.extent) {
            extents.push(axis.extent);
        }
    }
    let misplaced = |moves: bool, extent: Value, budget: &mut Budget| {
        // Two extents of equal size need not be the same extent.
        let fixed = |at: &Function| matches!(extent, Value::Int(_)) && at.is_constant();
        let axes: Vec<&Axis<Function>> = coordinates
            .axes
            .iter()
            .filter(|axis| axis.extent == extent && !axis.at.as_ref().is_some_and(fixed))
            .collect();
        let modes: Vec<(usize, &Function)> = target
            .iter()
            .enumerate()
            .filter(|(_, (other, _))| *other == extent)
            .map(|(mode, (_, at))| at.as_ref().map(|at| (mode, at)))
            .collect::<Option<_>>()?;
        let modes: Vec<(usize, &Function)> = modes.into_iter().filter(|(_, at)| !fixed(at)).collect();
        if modes.is_empty() || moves != (!coordinates.sums && axes.len() <= modes.len()) {
            return None;
        }
        let mut table = Vec::new();
        for axis in &axes {
            let mut row = Vec::new();
            for (_, at) in &modes {
                match axis.at.as_ref()?.compare(at, mask, threads, budget) {
                    Verdict::Undecided => return None,
                    Verdict::Same => row.push(None),
                    Verdict::Differ(witness) => row.push(Some(witness)),
                }
            }
            table.push(row);
        }
        let apart = axes.len() <= modes.len();
        if assigned(&table, 0, &mut vec![false; modes.len()], apart) {
            return None;
        }
        // An axis without a mode, or whose only mode another axis needs.
        let lost = table.iter().position(|row| row.iter().all(Option::is_some));
        let lost = lost.unwrap_or(axes.len() - 1);
        let free = |mode: usize| !table.iter().any(|row| row[mode].is_none());
        let column = (0..modes.len()).find(|&mode| free(mode)).unwrap_or(0);
        let (at, column) = match table[lost][column] {
            Some(at) => (at, column),
            None => (0..modes.len()).find_map(|mode| table[lost][mode].map(|at| (at, mode)))?,
        };
        let rival = (0..axes.len()).find(|&other| table[other][column].is_none()).map(|other| axes[other]);
        Some(Misplaced { axis: axes[lost], mode: modes[column].0, at, rival, moves })
    };
    // The lint does not use the budget of the errors.
    let mut spare = *budget;
    let error = extents.iter().find_map(|extent| misplaced(false, *extent, budget));
    error.or_else(|| extents.iter().find_map(|extent| misplaced(true, *extent, &mut spare)))
}

/// Is there an assignment of axes to modes, injective if `apart`?
fn assigned(table: &[Vec<Option<Witness>>], axis: usize, taken: &mut Vec<bool>, apart: bool) -> bool {
    let Some(row) = table.get(axis) else { return true };
    (0..row.len()).any(|mode| {
        if row[mode].is_some() || (apart && taken[mode]) {
            return false;
        }
        let before = std::mem::replace(&mut taken[mode], true);
        let fits = assigned(table, axis + 1, taken, apart);
        taken[mode] = before;
        fits
    })
}
