//! A thread's part under a distribution: of a view of memory, and of a register tile.

use tilewright_layout::{Digit, Distribution, Layout, Path, Value};

use crate::affine::{Affine, Coord};
use crate::problem::{Problem, Result};
use crate::thread::Id;
use crate::view::{At, View, slice_mode};

fn far() -> Problem {
    Problem::new("a coordinate passes 63 bits")
}

/// A step along a mode of the tensor.
fn along(extent: i64, times: i64, path: Path) -> Result<Layout> {
    Ok(Layout::new(extent, Value::Basis { times, path })?)
}

fn still(extent: i64) -> Result<Layout> {
    Ok(Layout::new(extent, 0i64)?)
}

/// A thread's part of a view of memory. A mode of extent 1 where the tile has more is broadcast. Elements
/// beyond the tile are masked. If several threads have the same elements, only the first one `stores` them.
pub(super) fn of_memory(view: &View, d: &Distribution, by: Id, stores: bool) -> Result<View> {
    let thread = Affine::from(Coord::Thread(by));
    let modes: Vec<Layout> = view.layout.modes().collect();
    let mut part = view.clone();
    let mut spread = Vec::new();
    for (mode, own) in modes.iter().enumerate() {
        let extent = own.size()?;
        spread.push(extent == 1 && d.tile()[mode] > 1);
        if spread[mode] || d.reach(mode) <= extent {
            continue;
        }
        let [(_, Value::Basis { times, path })] = own.leaves().collect::<Vec<_>>()[..] else {
            return Err(Problem::new(format!(
                "mode {mode} of `{}` is nested, {}, and threads do not divide it",
                view.name,
                own.shape()
            ))
            .help("use a tile whose extents the threads divide"));
        };
        let place = usize::from(path.steps()[0]);
        if part.limits[place].is_some() {
            return Err(Problem::new(format!("`{}` is the ragged part of a tile already", view.name)));
        }
        part.limits[place] = Some((view.base[place].clone(), extent.checked_mul(times).ok_or_else(far)?));
    }
    let mut steps: Vec<(usize, Affine)> = Vec::new();
    let mut over = 1;
    for digit in d.thread_digits() {
        let at = thread.digit(over, Some(digit.extent));
        over *= digit.extent;
        if digit.step != 0 && !spread[digit.mode] {
            let at = at.times(digit.step).ok_or_else(far)?;
            slice_mode(&modes[digit.mode], &At::Index(at), &mut Vec::new(), &mut steps)?;
        }
    }
    let replicated = if stores { d.replicated() } else { Vec::new() };
    if !replicated.is_empty() {
        let (place, reach) = reach(view);
        let reach = part.limits[place].get_or_insert((view.base[place].clone(), reach)).1;
        for (extent, stride) in replicated {
            // All but the first thread are moved out of bounds.
            let at = thread.digit(stride, Some(extent));
            steps.push((place, at.times(reach).ok_or_else(far)?));
        }
    }
    for (place, step) in steps {
        part.base[place] = part.base[place].plus(&step, 1).ok_or_else(far)?;
    }
    let own = |digit: &Digit| -> Result<Layout> {
        if digit.step == 0 || spread[digit.mode] {
            return still(digit.extent);
        }
        let mode = &modes[digit.mode];
        match mode.leaves().collect::<Vec<_>>()[..] {
            [(_, Value::Basis { times, path })] => {
                along(digit.extent, times.checked_mul(digit.step).ok_or_else(far)?, path)
            }
            _ => Ok(mode.composition(Layout::new(digit.extent, digit.step)?)?),
        }
    };
    part.layout = from_values(d, own)?;
    Ok(part)
}

/// A mode of the tensor behind a view, and how far the view goes along it.
fn reach(view: &View) -> (usize, i64) {
    let steps = view.layout.leaves().filter_map(|(extent, stride)| match stride {
        Value::Basis { times, path } => Some((usize::from(path.steps()[0]), (extent.factor() - 1) * times)),
        _ => None,
    });
    let steps: Vec<(usize, i64)> = steps.collect();
    let place = steps.first().map_or(0, |(place, _)| *place);
    (place, 1 + steps.iter().filter(|step| step.0 == place).map(|step| step.1.max(0)).sum::<i64>())
}

/// One mode for each digit of a thread's values; at least one.
fn from_values(d: &Distribution, own: impl FnMut(&Digit) -> Result<Layout>) -> Result<Layout> {
    let mut modes: Vec<Layout> = d.value_digits().iter().map(own).collect::<Result<_>>()?;
    if modes.is_empty() {
        modes.push(still(1)?);
    }
    Ok(Layout::from_modes(modes)?)
}

/// For each mode of a view of a register tile, the tile's mode that it shows; `None` for a broadcast.
pub(super) fn shown(view: &View) -> Result<Vec<Option<usize>>> {
    let refuse = || {
        Problem::new(format!(
            "`{}`, {}, is a part of a tile that threads share in registers",
            view.name,
            view.shape()
        ))
        .help("use all of it, or slice the tensor that it comes from")
    };
    if view.base.iter().any(|base| base.constant() != Some(0)) {
        return Err(refuse());
    }
    let modes = view.layout.modes().map(|mode| match mode.leaves().collect::<Vec<_>>()[..] {
        [(_, Value::Basis { times: 1, path })] => Ok(Some(usize::from(path.steps()[0]))),
        [(_, Value::Int(0))] => Ok(None),
        _ => Err(refuse()),
    });
    modes.collect()
}

/// The distribution of a statement's elements, if a view of a tile shows all of them.
pub(super) fn seen(view: &View, own: &Distribution) -> Result<Option<Distribution>> {
    let (shown, extents) = (shown(view)?, super::extents(view)?);
    let full = shown.iter().zip(&extents).all(|(mode, extent)| match mode {
        Some(mode) => own.tile()[*mode] == *extent,
        None => *extent == 1,
    });
    let to = |digit: &Digit| match shown.iter().position(|mode| *mode == Some(digit.mode)) {
        Some(mode) => Digit { mode, ..*digit },
        None => Digit { mode: 0, step: 0, ..*digit },
    };
    let threads = own.thread_digits().iter().map(to).collect();
    let values = own.value_digits().iter().map(to).filter(|digit| digit.step != 0).collect();
    Ok(full.then(|| Distribution::new(&extents, threads, values)))
}

/// The distribution of the tile behind a view that a statement's distribution requires.
pub(super) fn wanted(view: &View, tile: &[i64], d: &Distribution) -> Result<Distribution> {
    let shown = shown(view)?;
    let to = |digit: &Digit| match shown[digit.mode] {
        Some(mode) if digit.step != 0 => Digit { mode, ..*digit },
        _ => Digit { mode: 0, step: 0, ..*digit },
    };
    let threads = d.thread_digits().iter().map(to).collect();
    let values = d.value_digits().iter().map(to).filter(|digit| digit.step != 0).collect();
    Ok(Distribution::new(tile, threads, values))
}

/// A thread's part of a register tile: the fragment, with a mode for each digit of the statement's values.
pub(super) fn of_tile(view: &View, d: &Distribution, fragment: Id) -> Result<View> {
    let shown = shown(view)?;
    let mut kept = 0;
    let layout = from_values(d, |digit| match shown[digit.mode] {
        Some(_) if digit.step != 0 => {
            kept += 1;
            along(digit.extent, 1, Path::new(&[kept - 1]).ok_or_else(far)?)
        }
        _ => still(digit.extent),
    })?;
    let rank = kept.max(1);
    // The whole fragment of one element, where the statement has only one.
    let layout = match d.value_digits() {
        [] => Layout::from_modes([along(1, 1, Path::new(&[0]).ok_or_else(far)?)?])?,
        _ => layout,
    };
    let (base, limits) = (vec![Affine::default(); rank], vec![None; rank]);
    Ok(View {
        tensor: fragment,
        name: view.name.clone(),
        layout,
        base,
        limits,
        clamped: Vec::new(),
        nearest: Vec::new(),
        peer: None,
    })
}

/// The extents of a thread's fragment of a tile.
pub(super) fn fragment(d: &Distribution) -> Vec<i64> {
    let all: Vec<i64> = d.value_digits().iter().map(|digit| digit.extent).collect();
    if all.is_empty() { vec![1] } else { all }
}

/// The result of a reduction within a thread: the extents of its fragment, with 1 for each combined digit,
/// and the modes of it that are kept.
pub(super) fn combined(d: &Distribution, keep: &[bool]) -> (Vec<i64>, Vec<usize>) {
    let digits = d.value_digits();
    let stays = |digit: &Digit| keep[digit.mode] && digit.step != 0;
    let shape: Vec<i64> = digits.iter().map(|digit| if stays(digit) { digit.extent } else { 1 }).collect();
    let kept = digits.iter().enumerate().filter(|(_, digit)| stays(digit)).map(|(place, _)| place);
    (if shape.is_empty() { vec![1] } else { shape }, kept.collect())
}

/// The modes of a view that are kept.
pub(super) fn only(view: &View, kept: &[usize]) -> Result<View> {
    let modes: Vec<Layout> =
        kept.iter().map(|&mode| view.layout.mode(mode)).collect::<std::result::Result<_, _>>()?;
    let modes = if modes.is_empty() { vec![view.layout.mode(0)?] } else { modes };
    Ok(view.rearranged(Layout::from_modes(modes)?))
}

/// A tile of one element in a statement over parts of threads: every thread has it.
pub(super) fn one(view: &View) -> Result<View> {
    if view.layout.size()? != 1 {
        return Err(Problem::new(format!(
            "`{}`, {}, is a whole tile that all threads share, and this statement takes the part of one thread",
            view.name,
            view.shape()
        ))
        .help("copy it to memory first, and take a part of that with `parallelize`"));
    }
    let modes: Vec<Layout> = view.layout.modes().map(|mode| still(mode.size()?)).collect::<Result<_>>()?;
    let (base, limits) = (vec![Affine::default()], vec![None]);
    Ok(View { layout: Layout::from_modes(modes)?, base, limits, ..view.clone() })
}
