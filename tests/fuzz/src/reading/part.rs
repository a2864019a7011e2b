//! Parts of tensors as a text names them: modes, each with a count of elements and their coordinates.

use std::rc::Rc;

use super::Value;
use crate::reference::Pointed;

/// A mode: the count of elements, and the coordinates of each; `None` for one outside of a ragged tile.
#[derive(Clone)]
pub(super) struct Mode {
    pub(super) count: i128,
    pub(super) at: Rc<dyn Fn(i128) -> Option<Vec<i128>>>,
}

/// A part of a tensor.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) modes: Vec<Mode>,
    /// Its origin.
    pub(super) base: Vec<i128>,
    /// Is all of it outside of a tile?
    pub(super) out_of_bounds: bool,
    /// The number of the function that made its registers, whose modes may have any order there.
    pub(super) made: Option<usize>,
}

/// All orders of `rank` modes.
pub(super) fn orders(rank: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for mode in 0..rank {
        let mut longer = Vec::new();
        for order in &all {
            for position in 0..=mode {
                let mut order = order.clone();
                order.insert(position, mode);
                longer.push(order);
            }
        }
        all = longer;
    }
    all
}

/// The first difference from a view of the program, whose tensor has modes in this order.
pub(super) fn compared(named: &Part, view: &Pointed, order: &[usize]) -> Option<String> {
    let counts = named.counts();
    let sizes: Vec<i128> = view.sizes.iter().map(|&n| i128::from(n)).collect();
    // A view of one element has a mode, even if all modes were fixed.
    let plain = |all: &[i128]| all.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
    if plain(&counts) != plain(&sizes) {
        return Some(format!("the text has {counts:?} elements, and the program {sizes:?}"));
    }
    for (element, (coordinates, limited, outside)) in view.at.iter().enumerate() {
        let element = element as i128;
        let (mut rest, mut wanted, mut out_of_bounds) = (element, named.base.clone(), named.out_of_bounds);
        for mode in &named.modes {
            match (mode.at)(rest % mode.count) {
                Some(at) => add(&mut wanted, &at),
                None => out_of_bounds = true,
            }
            rest /= mode.count;
        }
        if out_of_bounds {
            if !*limited && !*outside {
                return Some(format!("element {element} lies beyond its tile, and the program includes it"));
            }
        } else if *limited {
            return Some(format!("element {element} lies in its tile, and the program excludes it"));
        } else if named.made.is_some() && wanted.len() != coordinates.len() {
            // Its registers have a mode for each submode of its elements.
        } else if !order.iter().map(|&mode| &wanted[mode]).eq(coordinates) {
            return Some(format!(
                "element {element} is at {wanted:?}, and the program has it at {coordinates:?}"
            ));
        }
    }
    None
}

/// A mode of a tensor.
pub(super) fn whole(mode: usize, rank: usize, count: i128) -> Mode {
    let at = move |index: i128| {
        let mut at = vec![0; rank];
        at[mode] = index;
        Some(at)
    };
    Mode { count, at: Rc::new(at) }
}

fn add(sum: &mut [i128], more: &[i128]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

impl Part {
    pub(super) fn counts(&self) -> Vec<i128> {
        self.modes.iter().map(|mode| mode.count).collect()
    }

    /// Keeps some modes, and one element of each of the others.
    pub(super) fn keep(&self, modes: &[Mode], at: &[Value]) -> Option<Part> {
        if modes.len() != at.len() {
            return None;
        }
        let mut part = Part { modes: Vec::new(), ..self.clone() };
        for (mode, at) in modes.iter().zip(at) {
            match at {
                Value::Hole => part.modes.push(mode.clone()),
                Value::Number(position) => match (mode.at)(*position) {
                    Some(at) => add(&mut part.base, &at),
                    None => part.out_of_bounds = true,
                },
                _ => return None,
            }
        }
        Some(part)
    }

    /// As a column, or as a row.
    pub(super) fn along(&self, is_column: bool) -> Part {
        let mut modes = self.modes.clone();
        let rank = self.base.len();
        let one = Mode { count: 1, at: Rc::new(move |_| Some(vec![0; rank])) };
        modes.insert(usize::from(is_column), one);
        Part { modes, ..self.clone() }
    }

    /// Broadcasts modes of one element to another's extents.
    pub(super) fn spread(&self, like: &Part) -> Part {
        if self.modes.len() != like.modes.len() {
            return self.clone();
        }
        let one = |(own, other): (&Mode, &Mode)| match own.count == 1 && other.count > 1 {
            true => {
                let at = (own.at)(0);
                Mode { count: other.count, at: Rc::new(move |_| at.clone()) }
            }
            false => own.clone(),
        };
        Part { modes: self.modes.iter().zip(&like.modes).map(one).collect(), ..self.clone() }
    }

    /// One tile, or all tiles along some modes: the modes of a tile, then these modes.
    pub(super) fn tiled(&self, tile: &[i128], at: &[Value]) -> Option<Part> {
        let (mut inside, mut tiles) = (Vec::new(), Vec::new());
        for (position, mode) in self.modes.iter().enumerate() {
            let of = mode.at.clone();
            let Some(&size) = tile.get(position) else {
                tiles.push(mode.clone());
                continue;
            };
            inside.push(Mode { count: size, at: of.clone() });
            // Offsets from the first tile: within it, elements are counted from its origin.
            let origin = of(0)?;
            let next = move |index: i128| {
                let at = of(index * size)?;
                Some(at.iter().zip(&origin).map(|(at, origin)| at - origin).collect())
            };
            tiles.push(Mode { count: (mode.count + size - 1).div_euclid(size), at: Rc::new(next) });
        }
        let mut part = self.keep(&tiles, at)?;
        inside.append(&mut part.modes);
        Some(Part { modes: inside, ..part })
    }

    /// The partition of a thread: its coordinate along each mode, and a stride from there.
    pub(super) fn partitioned(
        &self,
        threads: &[&Vec<(i128, i128)>],
        thread: i128,
        values: &[i128],
        ragged: bool,
    ) -> Part {
        let mut modes = Vec::new();
        for (position, mode) in self.modes.iter().enumerate() {
            let Some(leaves) = threads.get(position) else {
                modes.push(mode.clone());
                continue;
            };
            let count: i128 = leaves.iter().map(|leaf| leaf.0).product();
            let each = values.get(position).copied().unwrap_or(1).max(1);
            let (mut owner, mut step) = (0, 1);
            for (extent, stride) in leaves.iter() {
                owner += thread.div_euclid(*stride).rem_euclid(*extent) * step;
                step *= extent;
            }
            let (of, end) = (mode.at.clone(), mode.count);
            let at = move |index: i128| {
                let position = (index.div_euclid(each) * count + owner) * each + index.rem_euclid(each);
                if ragged && position >= end { None } else { of(position) }
            };
            let groups = (mode.count + each - 1).div_euclid(each);
            modes.push(Mode { count: (groups + count - 1).div_euclid(count) * each, at: Rc::new(at) });
        }
        Part { modes, ..self.clone() }
    }
}
