//! A thread's part under a distribution: of a view of memory, and of a register tile.

use tilewright_layout::{Distribution, Exchange, Layout, Path, Submode, Value};

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

/// A thread's part of a view of memory. A mode of extent 1 is broadcast to the extent of the tile. Elements outside
/// of the tile are masked. If several threads have the same elements, only the first one `stores` them.
pub(super) fn of_memory(view: &View, d: &Distribution, by: Id, stores: bool) -> Result<View> {
    let thread = Affine::from(Coord::Thread(by));
    let modes: Vec<Layout> = view.layout.modes().collect();
    let mut part = view.clone();
    let (mut spread, mut ones, mut limits) = (Vec::new(), Vec::new(), Vec::new());
    for (mode, own) in modes.iter().enumerate() {
        // Rows of shared memory can be longer than the tile's.
        let extent = own.size()?.min(d.tile()[mode]);
        spread.push(extent == 1 && d.tile()[mode] > 1);
        // All elements along the mode are one: of an element that an index has named, or a broadcast.
        ones.push(own.leaves().all(|(_, stride)| stride == Value::Int(0)));
        if spread[mode] || ones[mode] || d.reach(mode) <= extent {
            continue;
        }
        let Some((index, times)) = along_one(own) else {
            return Err(Problem::new(format!(
                "mode {mode} of `{}` is nested, {}, and threads do not divide it",
                view.name,
                own.shape()
            ))
            .help("use a tile whose extents the threads divide"));
        };
        if let Some((other, ..)) = limits.iter().find(|(_, other, _)| *other == index) {
            let (name, shape) = (&view.name, view.shape());
            return Err(Problem::new(format!(
                "modes {other} and {mode} of `{name}`, {shape}, are one mode of its tensor, and threads divide neither"
            ))
            .help("use a tile whose extents the threads divide"));
        }
        if part.limits[index].is_some() {
            return Err(ragged_twice(&view.name));
        }
        limits.push((mode, index, extent.checked_mul(times).ok_or_else(far)?));
    }
    let mut stepped: Vec<Stepped> = Vec::new();
    let mut over = 1;
    for submode in d.thread_submodes() {
        let at = thread.submode(over, Some(submode.extent));
        over *= submode.extent;
        if submode.step != 0 && !spread[submode.mode] {
            let at = at.times(submode.step).ok_or_else(far)?;
            let mut steps = Vec::new();
            slice_mode(&modes[submode.mode], &At::Index(at), &mut Vec::new(), &mut steps)?;
            stepped.push((submode.mode, modes[submode.mode].clone(), steps));
        }
    }
    for (mode, index, reach) in limits {
        let others: Vec<Stepped> = stepped.iter().filter(|(other, ..)| *other != mode).cloned().collect();
        part.limits[index] = Some((limit_origin(&view.base[index], index, reach, &others)?, reach));
    }
    let mut steps: Vec<(usize, Affine)> = stepped.into_iter().flat_map(|(.., steps)| steps).collect();
    let mut replicated = if stores { d.replicated() } else { Vec::new() };
    let mut over = 1;
    for submode in d.thread_submodes() {
        if stores && submode.step != 0 && ones[submode.mode] {
            replicated.push((submode.extent, over));
        }
        over *= submode.extent;
    }
    if !replicated.is_empty() {
        let (index, reach) = view.span();
        let reach = part.limits[index].get_or_insert((view.base[index].clone(), reach)).1;
        for (extent, stride) in replicated {
            // All but the first thread are moved out of bounds.
            let at = thread.submode(stride, Some(extent));
            steps.push((index, at.times(reach).ok_or_else(far)?));
        }
    }
    for (index, step) in steps {
        part.base[index] = part.base[index].plus(&step, 1).ok_or_else(far)?;
    }
    let own = |submode: &Submode| -> Result<Layout> {
        if submode.step == 0 || spread[submode.mode] {
            return still(submode.extent);
        }
        let mode = &modes[submode.mode];
        match mode.leaves().collect::<Vec<_>>()[..] {
            [(_, Value::Basis { times, path })] => {
                along(submode.extent, times.checked_mul(submode.step).ok_or_else(far)?, path)
            }
            _ => Ok(mode.composition(Layout::new(submode.extent, submode.step)?)?),
        }
    };
    let layout = from_values(d, own)?;
    // A mode along which a thread has one element still belongs to its mode of the tensor.
    let named = layout.modes().zip(modes.iter().zip(&spread)).map(|(part, (own, spread))| {
        match (&own.leaves().collect::<Vec<_>>()[..], part.size()) {
            ([(_, Value::Basis { times, path })], Ok(1)) if !spread => along(1, *times, *path),
            _ => Ok(part),
        }
    });
    part.layout = Layout::from_modes(named.collect::<Result<Vec<_>>>()?)?;
    Ok(part)
}

/// The mode of a tensor that a flat mode of a view is along, and its step.
pub(super) fn along_one(mode: &Layout) -> Option<(usize, i64)> {
    match mode.leaves().collect::<Vec<_>>()[..] {
        [(_, Value::Basis { times, path })] => Some((usize::from(path.steps()[0]), times)),
        _ => None,
    }
}

/// A mode for each mode of the tile, of a thread's digits along it.
fn from_values(d: &Distribution, own: impl FnMut(&Submode) -> Result<Layout>) -> Result<Layout> {
    let submodes: Vec<Layout> = d.value_submodes().iter().map(own).collect::<Result<_>>()?;
    let mode = |mode: usize| {
        let along = d.value_submodes().iter().zip(&submodes).filter(|(submode, _)| submode.mode == mode);
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

/// A layout of all of a thread's fragment of a tile, submode by submode of its values.
pub(super) fn submodes(d: &Distribution) -> Result<Vec<Layout>> {
    let path = |index: usize| Path::new(&[index]).ok_or_else(far);
    d.value_submodes()
        .iter()
        .enumerate()
        .map(|(index, submode)| along(submode.extent, 1, path(index)?))
        .collect()
}

/// For each mode of a view of a tile, the tile's mode that it shows; `None` for a broadcast.
pub(super) fn shown(view: &View) -> Result<Vec<Option<usize>>> {
    if view.base.iter().any(|base| base.constant() != Some(0)) {
        return Err(partial(view));
    }
    modes(view)
}

/// Indices of too many elements.
fn too_many(view: &View, elements: i64) -> Problem {
    let name = &view.name;
    Problem::new(format!(
        "indices of `{name}` select one of {elements} elements of a tile in registers of all threads, and each thread can have {MOST_INDEXED} at most that are selected by indices"
    ))
    .help("index fewer or shorter modes, or copy the tile to shared memory and index it there")
}

fn partial(view: &View) -> Problem {
    let (name, shape) = (&view.name, view.shape());
    if view.base.iter().any(|base| base.constant().is_none()) {
        return Problem::new(format!(
            "an index of `{name}` is known only when the kernel runs, and it is a tile in registers of all threads"
        ))
        .help("unroll the loop that computes the index, for i in unroll(0..4), or copy the tile to shared memory and index it there");
    }
    Problem::new(format!("`{name}`, {shape}, is a slice of a tile in registers of all threads"))
        .help("use all of it, or slice the tensor that it was copied from; a short mode can be indexed, as in z[(_, 0)] of pairs, (256, 2)")
}

fn modes(view: &View) -> Result<Vec<Option<usize>>> {
    let (name, shape) = (&view.name, view.shape());
    let regrouped = || {
        Problem::new(format!("`{name}`, {shape}, is a tile in registers of all threads, viewed with another shape"))
            .help("the shape of such a tile is fixed; regroup the view of memory that it is read from: map(regroup(tile(x, (2, 1024), …), (2, 128, 8)), |x| x)")
    };
    let modes = view.layout.modes().map(|mode| match mode.leaves().collect::<Vec<_>>()[..] {
        [(_, Value::Basis { times: 1, path })] => Ok(Some(usize::from(path.steps()[0]))),
        [(_, Value::Int(0))] => Ok(None),
        _ => Err(regrouped()),
    });
    modes.collect()
}

/// A view of a register tile.
struct Shown {
    /// For each mode of the view, the tile's mode that it shows; `None` for a broadcast.
    modes: Vec<Option<usize>>,
    /// The modes of the tile that an index has dropped, and the indices. Each thread has all elements along them.
    fixed: Vec<(usize, i64)>,
}

/// The most elements that each thread has along the modes of a tile that statements index.
const MOST_INDEXED: i64 = 8;

impl Shown {
    fn of(view: &View, tile: &[i64]) -> Result<Shown> {
        let modes = modes(view)?;
        let is_shown = |mode: usize| modes.contains(&Some(mode));
        let mut fixed = Vec::new();
        for (mode, (base, extent)) in view.base.iter().zip(tile).enumerate() {
            match base.constant() {
                Some(0) if is_shown(mode) || *extent == 1 => {}
                Some(at) if !is_shown(mode) && (0..*extent).contains(&at) => fixed.push((mode, at)),
                _ => return Err(partial(view)),
            }
        }
        let along = |(mode, _): &(usize, i64)| tile[*mode];
        let elements = fixed.iter().map(along).product::<i64>();
        if elements > MOST_INDEXED {
            // The first elements along a mode are exchanged.
            match fixed.iter().all(|(_, at)| *at == 0) {
                true => fixed.clear(),
                false => return Err(too_many(view, elements)),
            }
        }
        Ok(Shown { modes, fixed })
    }

    fn fixes(&self, mode: usize) -> Option<i64> {
        self.fixed.iter().find(|(of, _)| *of == mode).map(|(_, at)| *at)
    }

    /// All elements along the modes that an index has dropped.
    fn indexed(&self, tile: &[i64]) -> Vec<Submode> {
        self.fixed.iter().map(|(mode, _)| Submode { extent: tile[*mode], mode: *mode, step: 1 }).collect()
    }
}

/// The modes of a tile that a view of it indexes; each thread is to have all elements along them.
pub(super) fn indexed(view: &View, tile: &[i64]) -> Vec<usize> {
    Shown::of(view, tile).map_or(Vec::new(), |shown| shown.fixed.iter().map(|(mode, _)| *mode).collect())
}

/// The distribution of a statement's elements, if a view of a tile contains all of them.
pub(super) fn seen(view: &View, own: &Distribution) -> Result<Option<Distribution>> {
    let (shown, extents) = (Shown::of(view, own.tile())?.modes, super::extents(view)?);
    let full = shown.iter().zip(&extents).all(|(mode, extent)| match mode {
        Some(mode) => own.tile()[*mode] == *extent,
        None => *extent == 1,
    });
    let to = |submode: &Submode| match shown.iter().position(|mode| *mode == Some(submode.mode)) {
        Some(mode) => Submode { mode, ..*submode },
        None => Submode { mode: 0, step: 0, ..*submode },
    };
    let threads = own.thread_submodes().iter().map(to).collect();
    let values = own.value_submodes().iter().map(to).filter(|submode| submode.step != 0).collect();
    Ok(full.then(|| Distribution::new(&extents, threads, values)))
}

/// The distribution of a tile that a statement of a distribution requires, where it accesses a view of the tile.
pub(super) fn wanted(view: &View, tile: &[i64], d: &Distribution) -> Result<Distribution> {
    let (threads, values) = required(&shown(view)?, d);
    Ok(Distribution::new(tile, threads, values))
}

/// The part of a tile in registers, in the order of its own values if it has a distribution that fits.
pub(super) fn of_registers(
    view: &View,
    tile: &[i64],
    d: &Distribution,
    own: Option<&Distribution>,
) -> Result<Distribution> {
    let shown = Shown::of(view, tile)?;
    let (threads, values) = required(&shown.modes, d);
    if let Some(own) = own.filter(|_| !shown.fixed.is_empty()) {
        let (indexed, others): (Vec<Submode>, Vec<Submode>) =
            own.value_submodes().iter().partition(|submode| shown.fixes(submode.mode).is_some());
        let all = |(mode, _): &(usize, i64)| {
            let along = indexed.iter().filter(|submode| submode.mode == *mode);
            along.map(|submode| submode.extent).product::<i64>() == tile[*mode]
        };
        let rest = Distribution::new(tile, own.thread_submodes().to_vec(), others);
        if shown.fixed.iter().all(all) && rest == Distribution::new(tile, threads.clone(), values.clone()) {
            return Ok(own.clone());
        }
    }
    Ok(Distribution::new(tile, threads, [shown.indexed(tile), values].concat()))
}

/// The submodes of threads and values of a tile that a statement requires of it.
fn required(shown: &[Option<usize>], d: &Distribution) -> (Vec<Submode>, Vec<Submode>) {
    let to = |submode: &Submode| match shown[submode.mode] {
        Some(mode) if submode.step != 0 => Submode { mode, ..*submode },
        _ => Submode { mode: 0, step: 0, ..*submode },
    };
    let threads = d.thread_submodes().iter().map(to).collect();
    let values = d.value_submodes().iter().map(to).filter(|submode| submode.step != 0).collect();
    (threads, values)
}

/// The part of a thread of a tile in registers: the fragment, which has the elements of a distribution of the tile, with a mode
/// for each mode of the statement's tile.
pub(super) fn of_tile(view: &View, own: &Distribution, d: &Distribution, fragment: Id) -> Result<View> {
    let shown = Shown::of(view, own.tile())?;
    let along_shown = |(_, submode): &(usize, &Submode)| shown.fixes(submode.mode).is_none();
    let slots = own.value_submodes().iter().enumerate().filter(along_shown).map(|(slot, _)| slot);
    let mut submodes = slots.map(|slot| Path::new(&[slot]).ok_or_else(far));
    let layout = from_values(d, |submode| match (shown.modes[submode.mode], submode.step) {
        (None, _) | (_, 0) => still(submode.extent),
        _ => along(submode.extent, 1, submodes.next().ok_or_else(far)??),
    })?;
    let modes = layout.modes().zip(&shown.modes).map(|(mode, shown)| match shown {
        Some(shown) => match single(own, *shown) {
            Some(index) => along(1, 1, Path::new(&[index]).ok_or_else(far)?),
            None => Ok(mode),
        },
        None => Ok(mode),
    });
    let layout = Layout::from_modes(modes.collect::<Result<Vec<_>>>()?)?;
    let rank = fragment_modes(own).len();
    let (mut base, limits) = (vec![Affine::default(); rank], vec![None; rank]);
    for (slot, submode) in own.value_submodes().iter().enumerate() {
        if let Some(at) = shown.fixes(submode.mode) {
            base[slot] = (at / submode.step % submode.extent).into();
        }
    }
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
    let submodes = d.value_submodes().iter().map(|submode| submode.extent);
    submodes.chain((0..d.tile().len()).filter(|mode| single(d, *mode).is_some()).map(|_| 1)).collect()
}

/// The mode of a fragment for a mode of the tile along which a thread has one element.
fn single(d: &Distribution, mode: usize) -> Option<usize> {
    let has = |mode: usize| d.value_submodes().iter().any(|submode| submode.mode == mode);
    (!has(mode)).then(|| d.value_submodes().len() + (0..mode).filter(|mode| !has(*mode)).count())
}

/// A layout of a thread's fragment for each value submode of another distribution, if each thread has the same elements in
/// both; `None` otherwise.
pub(super) fn arranged(own: &Distribution, to: &Distribution) -> Result<Option<Vec<Layout>>> {
    if own.exchange(to) != Exchange::Registers {
        return Ok(None);
    }
    let mut all = Vec::new();
    for submode in to.value_submodes() {
        let within = |from: &Submode| {
            let (step, rest) = (submode.step / from.step.max(1), submode.step % from.step.max(1));
            from.mode == submode.mode
                && from.step > 0
                && step > 0
                && rest == 0
                && step * submode.extent <= from.extent
        };
        let Some(index) = own.value_submodes().iter().position(within) else { return Ok(None) };
        let step = submode.step / own.value_submodes()[index].step;
        all.push(along(submode.extent, step, Path::new(&[index]).ok_or_else(far)?)?);
    }
    Ok(Some(all))
}

/// The extents that a reduction within a thread leaves: for each mode of the tile the elements that are kept, or 1.
pub(super) fn combined(d: &Distribution, keep: &[bool]) -> Vec<i64> {
    let along = |mode: usize| {
        d.value_submodes().iter().filter(move |submode| submode.mode == mode && submode.step != 0)
    };
    let kept = |mode: usize| along(mode).map(|submode| submode.extent).product();
    (0..d.tile().len()).map(|mode| if keep[mode] { kept(mode) } else { 1 }).collect()
}

/// A tile of one element in a statement over parts of threads: every thread has it.
pub(super) fn one(view: &View, tile: &[i64]) -> Result<View> {
    let elements: i64 = tile.iter().product();
    if view.layout.size()? == 1 && elements > 1 {
        return Err(Problem::new(format!(
            "`{}` is one element of a whole tile of {elements}, whose registers belong to different threads, and this statement takes the part of one thread",
            view.name
        ))
        .help(format!("copy the tile to shared memory first, and read the element there: copy({}, s), then s[(i)]", view.name)));
    }
    if view.layout.size()? != 1 && elements != 1 {
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
