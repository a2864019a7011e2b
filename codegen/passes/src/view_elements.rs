//! The elements of a view as numbers: the offset of each from the view's base, along every mode of the
//! tensor.

use tilewright_layout::Value;

use crate::tile::view::View;
use crate::values::affine::{Affine, Coord};

/// Counts evaluations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) left: u32,
    /// Was the budget exceeded?
    pub(crate) short: bool,
}

impl Budget {
    pub(crate) fn of(left: u32) -> Budget {
        Budget { left, short: false }
    }

    /// Takes `count` evaluations, or none where fewer are left.
    pub(crate) fn take(&mut self, count: usize) -> bool {
        let enough = count <= self.left as usize;
        if enough {
            self.left -= count as u32;
        }
        self.short |= !enough;
        enough
    }
}

/// The element count assumed for a mode whose extent is known at launch only: its steps are all alike.
const OF_A_SYMBOL: i64 = 3;

/// Elements of a view, leftmost mode fastest.
#[derive(Debug)]
pub(crate) struct Elements {
    /// How many along each mode of the view.
    pub(crate) counts: Vec<usize>,
    /// For each mode of the tensor: the offset of each element from the base.
    pub(crate) along: Vec<Vec<i64>>,
}

impl Elements {
    /// All of them; `None` past the budget, and for views that are not made of whole steps.
    pub(crate) fn of(view: &View, budget: &mut Budget) -> Option<Elements> {
        let (mut counts, mut along) = (Vec::new(), vec![vec![0i64]; view.base.len()]);
        for mode in view.layout.modes() {
            let leaves: Vec<(Value, Value)> = mode.leaves().collect();
            let mut count = 1;
            for (index, (extent, stride)) in leaves.iter().enumerate() {
                let extent = match extent {
                    Value::Int(n) => *n,
                    _ if index + 1 == leaves.len() => OF_A_SYMBOL,
                    _ => return None,
                };
                let (moved, step) = match stride {
                    Value::Basis { times, path } => (Some(usize::from(path.steps()[0])), *times),
                    Value::Int(0) => (None, 0),
                    _ => return None,
                };
                let known = along.first().map_or(1, Vec::len);
                let all = usize::try_from(extent).ok()?.checked_mul(known)?;
                if !budget.take(all) {
                    return None;
                }
                for (mode, offsets) in along.iter_mut().enumerate() {
                    let step = if moved == Some(mode) { step } else { 0 };
                    *offsets = (0..extent)
                        .flat_map(|copy| offsets[..known].iter().map(move |at| at + copy * step))
                        .collect();
                }
                count *= usize::try_from(extent).ok()?;
            }
            counts.push(count);
        }
        Some(Elements { counts, along })
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.iter().product()
    }

    /// The number of an element in a tensor of these extents, leftmost mode fastest, from the first element's coordinates; `None`
    /// if it is outside.
    pub(crate) fn index(&self, start: &[i64], extents: &[i64], element: usize) -> Option<usize> {
        let (mut index, mut step) = (0, 1);
        for ((start, extent), along) in start.iter().zip(extents).zip(&self.along) {
            let at = start + along[element];
            if !(0..*extent).contains(&at) {
                return None;
            }
            index += at * step;
            step *= extent;
        }
        usize::try_from(index).ok()
    }

    /// The coordinates of an element in the view, for messages.
    pub(crate) fn coordinates(&self, element: usize) -> String {
        let mut rest = element;
        let submodes = self.counts.iter().map(|count| {
            let submode = rest % count;
            rest /= count;
            submode.to_string()
        });
        submodes.collect::<Vec<_>>().join(", ")
    }

    /// Does a mode of the tensor vary from element to element?
    pub(crate) fn moves(&self, mode: usize) -> bool {
        self.along[mode].iter().any(|at| *at != self.along[mode][0])
    }
}

/// The parts of a base: the thread's part, the unknown uniform part, and the constant. `None` if a term
/// mixes the thread with other leaves.
pub(crate) fn parts(base: &Affine) -> Option<(Affine, Affine, i64)> {
    let (mut thread, mut uniform) = (Affine::default(), Affine::default());
    for (coord, factor) in &base.terms {
        let term = Affine { constant: 0, terms: vec![(coord.clone(), *factor)] };
        let other = |coord: &Coord| {
            !matches!(coord, Coord::Thread(_) | Coord::Swizzled(..) | Coord::Submode { .. } | Coord::Two(..))
        };
        match (term.per_thread(), term.any(&other)) {
            (true, false) => thread.terms.push((coord.clone(), *factor)),
            (false, _) => uniform.terms.push((coord.clone(), *factor)),
            (true, true) => return None,
        }
    }
    Some((thread, uniform, base.constant))
}

/// The thread's part, for each of the threads.
pub(crate) fn for_each_thread(terms: &Affine, threads: u32, budget: &mut Budget) -> Option<Vec<i64>> {
    if terms.terms.is_empty() {
        return Some(vec![terms.constant; threads as usize]);
    }
    if !budget.take(threads as usize) {
        return None;
    }
    let at = |thread: u32| {
        terms.eval(&|coord| if matches!(coord, Coord::Thread(_)) { i64::from(thread) } else { 0 })
    };
    Some((0..threads).map(at).collect())
}

/// The predicate of a ragged partition: which elements are inside its tile.
#[derive(Debug, Default)]
pub(crate) struct Mask {
    /// For each mode that may overshoot: each thread's start, each element's offset from there, the extent.
    limits: Vec<(Vec<i64>, Vec<i64>, i64)>,
}

impl Mask {
    pub(crate) fn of(view: &View, elements: &Elements, threads: u32, budget: &mut Budget) -> Option<Mask> {
        let mut limits = Vec::new();
        for (mode, limit) in view.limits.iter().enumerate() {
            let Some((origin, extent)) = limit else { continue };
            let (thread, uniform, constant) = parts(&view.base[mode].plus(origin, -1)?)?;
            if !uniform.terms.is_empty() {
                return None;
            }
            let thread = for_each_thread(&Affine { constant, ..thread }, threads, budget)?;
            limits.push((thread, elements.along[mode].clone(), *extent));
        }
        Some(Mask { limits })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    pub(crate) fn has(&self, thread: u32, element: usize) -> bool {
        let inside = |(threads, along, extent): &(Vec<i64>, Vec<i64>, i64)| {
            (0..*extent).contains(&(threads[thread as usize] + along[element]))
        };
        self.limits.iter().all(inside)
    }
}
