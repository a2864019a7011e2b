//! A thread's part under a distribution: of a view of memory, and of a register tile.

use tilewright_layout::{Digit, Distribution, Exchange, Layout, Path, Value};

use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::view::{At, Stepped, View, limit_origin, ragged_twice, slice_mode};
use crate::values::affine::{Affine, Coord};

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

/// A thread's part of a view of memory. A mode of extent 1 where the tile has more is broadcast. Elements outside of
/// the tile are masked. If several threads have the same elements, only the first one `stores` them.
pub(super) fn of_memory(view: &View, d: &Distribution, by: Id, stores: bool) -> Result<View> {
    let thread = Affine::from(Coord::Thread(by));
    let modes: Vec<Layout> = view.layout.modes().collect();
    let mut part = view.clone();
    let (mut spread, mut ones, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for (mode, own) in modes.iter().enumerate() {
        let extent = own.size()?;
        spread.push(extent == 1 && d.tile()[mode] > 1);
        // All elements along the mode are one: of an element that an index has named, or a broadcast.
        ones.push(own.leaves().all(|(_, stride)| stride == Value::Int(0)));
        if spread[mode] || ones[mode] || d.reach(mode) <= extent {
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
        if part.limits[place].is_some() || limits.iter().any(|(_, other, _)| *other == place) {
            return Err(ragged_twice(&view.name));
        }
        limits.push((mode, place, extent.checked_mul(times).ok_or_else(far)?));
    }
    let mut stepped: Vec<Stepped> = Vec::new();
    let mut over = 1;
    for digit in d.thread_digits() {
        let at = thread.digit(over, Some(digit.extent));
        over *= digit.extent;
        if digit.step != 0 && !spread[digit.mode] {
            let at = at.times(digit.step).ok_or_else(far)?;
            let mut steps = Vec::new();
            slice_mode(&modes[digit.mode], &At::Index(at), &mut Vec::new(), &mut steps)?;
            stepped.push((digit.mode, modes[digit.mode].clone(), steps));
        }
    }
    for (mode, place, reach) in limits {
        let others: Vec<Stepped> = stepped.iter().filter(|(other, ..)| *other != mode).cloned().collect();
        part.limits[place] = Some((limit_origin(&view.base[place], place, reach, &others)?, reach));
    }
    let mut steps: Vec<(usize, Affine)> = stepped.into_iter().flat_map(|(.., steps)| steps).collect();
    let mut replicated = if stores { d.replicated() } else { Vec::new() };
    let mut over = 1;
    for digit in d.thread_digits() {
        if stores && digit.step != 0 && ones[digit.mode] {
            replicated.push((digit.extent, over));
        }
        over *= digit.extent;
    }
    if !replicated.is_empty() {
        let (place, reach) = view.span();
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
    let layout = from_values(d, own)?;
    // A mode along which a thread has one element still stands for its mode of the tensor.
    let named = layout.modes().zip(modes.iter().zip(&spread)).map(|(part, (own, spread))| {
        match (&own.leaves().collect::<Vec<_>>()[..], part.size()) {
            ([(_, Value::Basis { times, path })], Ok(1)) if !spread => along(1, *times, *path),
            _ => Ok(part),
        }
    });
    part.layout = Layout::from_modes(named.collect::<Result<Vec<_>>>()?)?;
    Ok(part)
}

/// A mode for each mode of the tile, of a thread's digits along it.
fn from_values(d: &Distribution, own: impl FnMut(&Digit) -> Result<Layout>) -> Result<Layout> {
    let digits: Vec<Layout> = d.value_digits().iter().map(own).collect::<Result<_>>()?;
    let mode = |mode: usize| {
        let along = d.value_digits().iter().zip(&digits).filter(|(digit, _)| digit.mode == mode);
        joined(along.map(|(_, own)| own.clone()).collect())
    };
    Ok(Layout::from_modes((0..d.tile().len().max(1)).map(mode).collect::<Result<Vec<_>>>()?)?)
}

/// Layouts as one mode.
pub(super) fn joined(modes: Vec<Layout>) -> Result<Layout> {
    Ok(match modes.len() {
        0 => still(1)?,
        1 => modes[0].clone(),
        _ => Layout::from_modes(modes)?,
    })
}

/// A layout of all of a thread's fragment of a tile, digit by digit of its values.
pub(super) fn digits(d: &Distribution) -> Result<Vec<Layout>> {
    let path = |place: usize| Path::new(&[place]).ok_or_else(far);
    d.value_digits().iter().enumerate().map(|(place, digit)| along(digit.extent, 1, path(place)?)).collect()
}

/// For each mode of a view of a register tile, the tile's mode that it shows; `None` for a broadcast.
pub(super) fn shown(view: &View) -> Result<Vec<Option<usize>>> {
    let (name, shape) = (&view.name, view.shape());
    let refuse = || {
        Problem::new(format!("`{name}`, {shape}, is a part of a tile that threads share in registers"))
            .help("use all of it, or slice the tensor that it comes from")
    };
    let regrouped = || {
        Problem::new(format!("`{name}`, {shape}, is a tile that threads share in registers, under another shape"))
            .help("it keeps its shape; regroup what it is read from, before it is read: map(regroup(tile(x, (2, 1024), …), (2, 128, 8)), |x| x)")
    };
    if view.base.iter().any(|base| base.constant() != Some(0)) {
        return Err(refuse());
    }
    let modes = view.layout.modes().map(|mode| match mode.leaves().collect::<Vec<_>>()[..] {
        [(_, Value::Basis { times: 1, path })] => Ok(Some(usize::from(path.steps()[0]))),
        [(_, Value::Int(0))] => Ok(None),
        _ => Err(regrouped()),
    });
    modes.collect()
}

/// The distribution of a statement's elements, if a view of a tile contains all of them.
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

/// The part of a thread of a tile in registers: the fragment, with a mode for each mode of the statement's tile.
pub(super) fn of_tile(view: &View, tile: &[i64], d: &Distribution, fragment: Id) -> Result<View> {
    let shown = shown(view)?;
    let own = wanted(view, tile, d)?;
    let mut digits = (0..own.value_digits().len()).map(|place| Path::new(&[place]).ok_or_else(far));
    let layout = from_values(d, |digit| match (shown[digit.mode], digit.step) {
        (None, _) | (_, 0) => still(digit.extent),
        _ => along(digit.extent, 1, digits.next().ok_or_else(far)??),
    })?;
    let modes = layout.modes().zip(&shown).map(|(mode, shown)| match shown {
        Some(shown) => match single(&own, *shown) {
            Some(place) => along(1, 1, Path::new(&[place]).ok_or_else(far)?),
            None => Ok(mode),
        },
        None => Ok(mode),
    });
    let layout = Layout::from_modes(modes.collect::<Result<Vec<_>>>()?)?;
    let rank = fragment_modes(&own).len();
    let (base, limits) = (vec![Affine::default(); rank], vec![None; rank]);
    Ok(View {
        tensor: fragment,
        name: view.name.clone(),
        layout,
        base,
        limits,
        clamped: Vec::new(),
        wraps: false,
        nearest: Vec::new(),
        peer: None,
        of_thread: false,
    })
}

/// The extents of a thread's fragment of a tile: the extents of its value submodes, and a 1 for each mode of the tile that
/// has none, so that every mode of the tile is a mode of the fragment.
pub(super) fn fragment_modes(d: &Distribution) -> Vec<i64> {
    let digits = d.value_digits().iter().map(|digit| digit.extent);
    digits.chain((0..d.tile().len()).filter(|mode| single(d, *mode).is_some()).map(|_| 1)).collect()
}

/// The mode of a fragment for a mode of the tile along which a thread has one element.
fn single(d: &Distribution, mode: usize) -> Option<usize> {
    let has = |mode: usize| d.value_digits().iter().any(|digit| digit.mode == mode);
    (!has(mode)).then(|| d.value_digits().len() + (0..mode).filter(|mode| !has(*mode)).count())
}

/// A layout of a thread's fragment for each value submode of another distribution, if each thread has the same elements in
/// both; `None` otherwise.
pub(super) fn arranged(own: &Distribution, to: &Distribution) -> Result<Option<Vec<Layout>>> {
    if own.exchange(to) != Exchange::Registers {
        return Ok(None);
    }
    let mut all = Vec::new();
    for digit in to.value_digits() {
        let within = |from: &Digit| {
            let (step, rest) = (digit.step / from.step.max(1), digit.step % from.step.max(1));
            from.mode == digit.mode
                && from.step > 0
                && step > 0
                && rest == 0
                && step * digit.extent <= from.extent
        };
        let Some(place) = own.value_digits().iter().position(within) else { return Ok(None) };
        let step = digit.step / own.value_digits()[place].step;
        all.push(along(digit.extent, step, Path::new(&[place]).ok_or_else(far)?)?);
    }
    Ok(Some(all))
}

/// The extents that a reduction within a thread leaves: for each mode of the tile the elements that are kept, or 1.
pub(super) fn combined(d: &Distribution, keep: &[bool]) -> Vec<i64> {
    let along =
        |mode: usize| d.value_digits().iter().filter(move |digit| digit.mode == mode && digit.step != 0);
    let kept = |mode: usize| along(mode).map(|digit| digit.extent).product();
    (0..d.tile().len()).map(|mode| if keep[mode] { kept(mode) } else { 1 }).collect()
}

/// A tile of one element in a statement over parts of threads: every thread has it.
pub(super) fn one(view: &View, tile: &[i64]) -> Result<View> {
    let elements: i64 = tile.iter().product();
    if view.layout.size()? == 1 && elements > 1 {
        return Err(Problem::new(format!(
            "`{}` is one element of a whole tile of {elements}, which threads share in registers, and this statement takes the part of one thread",
            view.name
        ))
        .help(format!("copy the tile to shared memory first, and read the element there: copy({}, s), then s[(i)]", view.name)));
    }
    if view.layout.size()? != 1 {
        return Err(Problem::new(format!(
            "`{}`, {}, is a whole tile that all threads share, and this statement takes the part of one thread",
            view.name,
            view.shape()
        ))
        .help("copy it to memory first, and take a part of that with `parallelize`"));
    }
    let modes: Vec<Layout> = view.layout.modes().map(|mode| still(mode.size()?)).collect::<Result<_>>()?;
    let rank = view.base.len();
    let (base, limits) = (vec![Affine::default(); rank], vec![None; rank]);
    Ok(View { layout: Layout::from_modes(modes)?, base, limits, ..view.clone() })
}
