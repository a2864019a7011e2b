//! Views: tiles, partitions and slices of tensors. A view maps its own coordinates to coordinates of the
//! underlying tensor, never straight to offsets, so that bounds remain known.

use tilewright_layout::{Layout, Path, Swizzle, Tiler, Tuple, Value};

use crate::affine::{Affine, Coord};
use crate::limits::MOST_MODES;
use crate::problem::{Cause, Problem, Result};
use crate::thread::Id;

/// A part of a tensor, seen under its own shape.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The tensor behind it.
    pub tensor: Id,
    /// The user's name for it.
    pub name: String,
    /// Its layout over scaled basis elements: `16@0` is 16 steps along mode 0 of the tensor.
    pub layout: Layout,
    /// Its origin: one coordinate for each mode of the tensor.
    pub base: Vec<Affine>,
    /// For each mode of the tensor where a ragged partition may overshoot its tile: the tile's origin, and
    /// its extent.
    pub limits: Vec<Option<(Affine, i64)>>,
    /// Modes of the tensor along which out-of-bounds coordinates are clamped to some element inside; see
    /// [`View::clamped`].
    pub clamped: Vec<usize>,
    /// Modes of the tensor along which out-of-bounds coordinates are clamped to the first or last element;
    /// see [`View::nearest`].
    pub nearest: Vec<usize>,
    /// The cluster rank of the block whose shared memory is accessed; the thread's own block without.
    pub peer: Option<Affine>,
}

/// How a view is partitioned over threads.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Deal {
    /// The projection: which modes of the thread layout take part, assigned to the modes of the view in
    /// order; all without a projection.
    pub keep: Option<Vec<bool>>,
    /// The vector width: consecutive elements of each mode that a thread takes at once; 1 where nothing is
    /// said.
    pub values: Vec<i64>,
    /// A ragged partition: threads need not divide the extent.
    pub ragged: bool,
    /// A swizzle of thread indices before their layout: with the same tiles, other lanes are neighbours.
    pub swizzle: Swizzle,
}

/// A coordinate of a slice: a number, or the whole mode.
#[derive(Clone, PartialEq, Debug)]
pub enum At {
    /// `_`
    All,
    /// This place.
    Index(Affine),
    /// A tuple for a nested mode.
    Tuple(Vec<At>),
}

impl View {
    /// The whole of a tensor with these extents.
    pub fn whole(tensor: Id, name: &str, shape: &Tuple) -> Result<View> {
        let modes: Vec<Layout> = shape
            .modes()
            .enumerate()
            .map(|(mode, extent)| {
                let step = Value::Basis { times: 1, path: Path::new(&[mode]).unwrap_or_default() };
                // A nested extent is flattened to one number.
                let extent = match extent.as_leaf() {
                    Some(leaf) => leaf,
                    None => Value::Int(extent.product().unwrap_or(1)),
                };
                Layout::new(extent, step)
            })
            .collect::<std::result::Result<_, _>>()?;
        let rank = modes.len();
        Ok(View {
            tensor,
            name: name.into(),
            layout: Layout::from_modes(modes)?,
            base: vec![Affine::default(); rank],
            limits: vec![None; rank],
            clamped: Vec::new(),
            nearest: Vec::new(),
            peer: None,
        })
    }

    /// Its shape.
    pub fn shape(&self) -> Tuple {
        self.layout.shape()
    }

    /// How many modes.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Does it differ from thread to thread?
    pub fn per_thread(&self) -> bool {
        self.base.iter().any(Affine::per_thread)
    }

    /// Extents of its modes, where they are integers.
    pub fn extents(&self) -> Option<Vec<i64>> {
        self.layout.modes().map(|mode| mode.size().ok()).collect()
    }

    /// Another layout over the same tensor, with its origin moved.
    fn moved(&self, layout: Layout, by: &[(usize, Affine)]) -> Result<View> {
        let mut view = View { layout, ..self.clone() };
        for (mode, step) in by {
            view.base[*mode] =
                view.base[*mode].plus(step, 1).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
        }
        Ok(view)
    }

    /// Fixes the modes that have an index, keeps those with `_`.
    pub fn slice(&self, coord: &[At]) -> Result<View> {
        if coord.len() != self.rank() {
            return Err(Problem::new(format!(
                "`{}` has {} modes, {}, and the index names {}",
                self.name,
                self.rank(),
                self.shape(),
                coord.len()
            ))
            .help("write one entry for each mode, with `_` for those that stay whole"));
        }
        let (mut kept, mut steps) = (Vec::new(), Vec::new());
        let mut tiles = Vec::new();
        for (mode, at) in self.layout.modes().zip(coord) {
            let first = steps.len();
            slice_mode(&mode, at, &mut kept, &mut steps)?;
            // A step from tile to tile moves the tile's limit; one inside the tile does not.
            for (along, step) in &steps[first..] {
                if let Some((_, extent)) = &self.limits[*along]
                    && passes(&mode, *along, *extent)
                {
                    tiles.push((*along, step.clone()));
                }
            }
        }
        let layout = match kept.len() {
            0 => Layout::new(1i64, 0i64)?,
            // A nested mode remains one mode.
            1 if kept[0].depth() == 0 => kept.remove(0),
            _ => Layout::from_modes(kept)?,
        };
        let mut view = self.moved(layout, &steps)?;
        for (along, step) in tiles {
            if let Some((origin, _)) = &mut view.limits[along] {
                *origin = origin.plus(&step, 1).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
            }
        }
        Ok(view)
    }

    /// Divides the tensor into tiles and takes those that `coord` names: `(tile modes, _ modes)`
    /// (`zipped_divide`, then a slice).
    pub fn tile(&self, tiler: &Tiler, coord: &[At]) -> Result<View> {
        let divided = self.layout.zipped_divide(tiler)?;
        let (tile, rest) = (divided.mode(0)?, divided.mode(1)?);
        if coord.len() != rest.rank() {
            return Err(Problem::new(format!(
                "`{}` is divided into {} modes of tiles, and the coordinate names {}",
                self.name,
                rest.rank(),
                coord.len()
            ))
            .help("write one entry for each mode, with `_` for all tiles along it")
            .arg(2));
        }
        let (mut kept, mut steps) = (Vec::new(), Vec::new());
        for (mode, at) in rest.modes().zip(coord) {
            slice_mode(&mode, at, &mut kept, &mut steps)?;
        }
        self.moved(Layout::from_modes(tile.modes().chain(kept))?, &steps)
    }

    /// Partitions over threads: mode by mode, a thread takes every `extent`-th element.
    ///
    /// See [`Deal`] for options.
    pub fn parallelize(&self, threads: &Layout, thread: &Affine, deal: &Deal) -> Result<View> {
        let size = threads.size()?;
        let numbering = threads.right_inverse()?;
        if numbering.size()? != size {
            return Err(Problem::new(format!(
                "the thread layout {threads} does not number its threads 0..{size}"
            ))
            .help(format!("write a compact layout, such as layout!({})", threads.shape()))
            .arg(1));
        }
        let modes: Vec<Layout> = threads.modes().collect();
        if let Some(keep) = &deal.keep
            && keep.len() != modes.len()
        {
            return Err(Problem::new(format!(
                "the projection names {} modes, and the thread layout {threads} has {}",
                keep.len(),
                modes.len()
            ))
            .help("write one entry for each mode of the thread layout: `_` for modes whose threads have the same part")
            .arg(3));
        }
        let kept = |mode: usize| deal.keep.as_ref().is_none_or(|keep| keep[mode]);
        let projected: Vec<&Layout> =
            modes.iter().enumerate().filter(|(i, _)| kept(*i)).map(|(_, mode)| mode).collect();
        if projected.len() > self.rank() {
            return Err(Problem::new(format!(
                "the thread layout {threads} has {} modes after the projection, and `{}` has {}: {}",
                projected.len(),
                self.name,
                self.rank(),
                self.shape()
            ))
            .help("leave modes out with a projection such as (1, _)")
            .arg(1));
        }
        let (mut rests, mut steps, mut limits) = (Vec::new(), Vec::new(), Vec::new());
        let mut stepped: Vec<Stepped> = Vec::new();
        for (index, mode) in self.layout.modes().enumerate() {
            let first = steps.len();
            let Some(share) = projected.get(index) else {
                rests.push(mode);
                continue;
            };
            let count = share.size()?;
            let values = deal.values.get(index).copied().unwrap_or(1).max(1);
            let Some(whole) = count.checked_mul(values) else {
                let problem =
                    format!("{count} threads with {values} elements each are more than any tensor has");
                return Err(Problem::new(problem)
                    .help("write the elements of one thread, such as values = (4, 1)")
                    .arg(1));
            };
            if let Ok(extent) = mode.size()
                && extent % whole != 0
                && !deal.ragged
            {
                let near = (extent % values == 0).then(|| nearest_divisors(extent / values, count));
                let instead = match &near {
                    Some(near) => {
                        format!("use {near} threads along it, or mark the partition `ragged = true`")
                    }
                    None => format!("let each thread take {} elements", nearest_divisors(extent, values)),
                };
                let each = if values > 1 { format!(" with {values} elements each") } else { String::new() };
                return Err(Problem::new(format!(
                    "{count} threads{each} do not divide the extent {extent} of mode {index} of `{}`",
                    self.name
                ))
                .help(instead)
                .because(Cause::Indivisible { threads: count, each: values, mode: index, near })
                .arg(1));
            }
            if let (Ok(extent), true) = (mode.size(), deal.ragged)
                && extent % whole != 0
            {
                let [(_, Value::Basis { times, path })] = mode.leaves().collect::<Vec<_>>()[..] else {
                    return Err(Problem::new(format!(
                        "mode {index} of `{}` is nested, {}, and a ragged partition needs a flat mode",
                        self.name,
                        mode.shape()
                    ))
                    .arg(1));
                };
                let along = usize::from(path.steps()[0]);
                let reach =
                    extent.checked_mul(times).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
                if self.limits[along].is_some() || limits.iter().any(|(_, other, _)| *other == along) {
                    return Err(ragged_twice(&self.name).arg(1));
                }
                limits.push((index, along, reach));
            }
            let place = position(share, thread)?;
            let divided = mode.logical_divide(Tiler::from(values))?;
            let (own, groups) = (divided.mode(0)?, divided.mode(1)?);
            let divided = groups.logical_divide(Tiler::from(count))?;
            let (tile, rest) = (divided.mode(0)?, divided.mode(1)?);
            slice_mode(&tile, &At::Index(place), &mut Vec::new(), &mut steps)?;
            rests.push(if values > 1 { Layout::from_modes([own, rest])? } else { rest });
            stepped.push((index, mode, steps[first..].to_vec()));
        }
        let mut view = self.moved(Layout::from_modes(rests)?, &steps)?;
        for (mode, along, reach) in limits {
            let others: Vec<Stepped> = stepped.iter().filter(|(other, ..)| *other != mode).cloned().collect();
            view.limits[along] = Some((limit_origin(&self.base[along], along, reach, &others)?, reach));
        }
        Ok(view)
    }

    /// Partitions by a thread-value layout: `((values), rest, …)`.
    ///
    /// The view is divided into tiles; `tv` maps (thread, value) to the index in a tile, and groups of
    /// threads are partitioned over the tiles of each mode by `groups`.
    pub fn partition(
        &self,
        tile: &[i64],
        tv: &Layout,
        lane: &Affine,
        groups: &[(Layout, Affine)],
    ) -> Result<View> {
        let divided = self.layout.zipped_divide(Tiler::Modes(tile.iter().map(|&n| n.into()).collect()))?;
        let (tile, rest) = (divided.mode(0)?, divided.mode(1)?);
        let composed = tile.composition(tv)?;
        let (threads, values) = (composed.mode(0)?, composed.mode(1)?);
        // The lane index has a digit for each leaf of the thread mode, which the composition may have split.
        let (mut kept, mut steps) = (vec![values], Vec::new());
        slice_mode(&threads, &At::Index(lane.clone()), &mut Vec::new(), &mut steps)?;
        for (index, mode) in rest.modes().enumerate() {
            let Some((share, group)) = groups.get(index) else {
                kept.push(mode);
                continue;
            };
            let count = share.size()?;
            if let Ok(extent) = mode.size()
                && extent % count != 0
            {
                return Err(Problem::new(format!(
                    "{count} groups of threads do not divide the {extent} tiles along mode {index} of `{}`",
                    self.name
                ))
                .help(format!("use {} groups along it", nearest_divisors(extent, count))));
            }
            let place = position(share, group)?;
            let divided = mode.logical_divide(Tiler::from(count))?;
            slice_mode(&divided.mode(0)?, &At::Index(place), &mut Vec::new(), &mut steps)?;
            kept.push(divided.mode(1)?);
        }
        self.moved(Layout::from_modes(kept)?, &steps)
    }

    /// The same elements in the same order, leftmost mode fastest, under another shape.
    pub fn regroup(&self, shape: impl Into<Tuple>) -> Result<View> {
        let shape: Tuple = shape.into();
        let (have, want) = (self.layout.size()?, shape.product());
        if want != Some(have) {
            return Err(Problem::new(format!(
                "`{}` has {have} elements, {}, and the shape {shape} has {}",
                self.name,
                self.shape(),
                want.map_or_else(|| "a size known at launch".into(), |n| n.to_string())
            ))
            .arg(1));
        }
        Ok(self.rearranged(self.layout.composition(Layout::compact(shape)?)?))
    }

    /// The same elements with their modes permuted.
    pub fn permute(&self, order: &[usize]) -> Result<View> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted != (0..self.rank()).collect::<Vec<_>>() {
            let given: Vec<String> = order.iter().map(usize::to_string).collect();
            let plain: Vec<String> = (0..self.rank()).rev().map(|mode| mode.to_string()).collect();
            return Err(Problem::new(format!(
                "({}) is no order of the {} modes of `{}`, {}",
                given.join(", "),
                self.rank(),
                self.name,
                self.shape()
            ))
            .help(format!("name each mode once, such as ({})", plain.join(", ")))
            .arg(1));
        }
        let modes: Vec<Layout> =
            order.iter().map(|&mode| self.layout.mode(mode)).collect::<std::result::Result<_, _>>()?;
        Ok(self.rearranged(Layout::from_modes(modes)?))
    }

    /// Broadcasts modes of extent 1 to those of another view.
    pub fn spread(&self, like: &View) -> Result<View> {
        if self.rank() != like.rank() {
            return Ok(self.clone());
        }
        let modes = self.layout.modes().zip(like.layout.modes()).map(|(own, other)| {
            match (own.size(), other.size()) {
                (Ok(1), Ok(wide)) if wide > 1 => Layout::new(wide, 0i64),
                _ => Ok(own),
            }
        });
        let modes: Vec<Layout> = modes.collect::<std::result::Result<_, _>>()?;
        Ok(View { layout: Layout::from_modes(modes)?, ..self.clone() })
    }

    /// One element as a tile of this rank, with extent 1 in every mode, so that functions can broadcast it.
    pub(crate) fn everywhere(&self, rank: usize) -> Result<View> {
        let one = Layout::new(1i64, 0i64)?;
        Ok(self.rearranged(Layout::from_modes(vec![one; rank])?))
    }

    /// A vector along `mode` of a matrix, with extent 1 in the other, so that functions can broadcast it.
    pub fn along(&self, mode: i64) -> Result<View> {
        if self.rank() != 1 {
            return Err(Problem::new(format!(
                "`along` takes a vector, and `{}` has {} modes: {}",
                self.name,
                self.rank(),
                self.shape()
            ))
            .help("leave it out: modes of extent 1 are as wide as those of other tiles"));
        }
        let Some(mode) = usize::try_from(mode).ok().filter(|mode| *mode < MOST_MODES) else {
            return Err(Problem::new(format!("a tile has the modes 0..{MOST_MODES}, and this is {mode}"))
                .help("write `along(1)` for what stands along the columns of a matrix")
                .arg(0));
        };
        let one = Layout::new(1i64, 0i64)?;
        let mut modes = vec![one; (mode + 1).max(2)];
        modes[mode] = self.layout.mode(0)?;
        Ok(self.rearranged(Layout::from_modes(modes)?))
    }

    /// The broadcast shape of several views: each mode as wide as the widest of them.
    ///
    /// ```
    /// use tilewright_codegen::view::View;
    /// let view = |shape: (i64, i64)| View::whole(0, "x", &shape.into());
    /// let (column, row) = (view((4, 1))?, view((1, 8))?);
    /// assert_eq!(View::joint_shape(&[column, row]), (4i64, 8i64).into());
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn joint_shape(views: &[View]) -> Tuple {
        let Some(first) = views.first() else { return Tuple::of([]) };
        if views.iter().any(|view| view.rank() != first.rank()) {
            return first.shape();
        }
        let shapes: Vec<Tuple> = views.iter().map(View::shape).collect();
        let widest = |mode: usize| {
            let modes = shapes.iter().filter_map(|shape| shape.modes().nth(mode));
            modes.reduce(|best, other| if best.product() == Some(1) { other } else { best })
        };
        Tuple::of((0..first.rank()).filter_map(widest))
    }

    /// Another layout of the same coordinates, such as a thread-value layout or a regrouping.
    pub fn rearranged(&self, layout: Layout) -> View {
        View { layout, ..self.clone() }
    }

    /// The same with out-of-bounds coordinates along a mode clamped, for readers that ignore those elements:
    /// reads need no guard.
    pub fn clamped(mut self, mode: usize) -> View {
        if !self.clamped.contains(&mode) {
            self.clamped.push(mode);
        }
        self
    }

    /// The same with out-of-bounds coordinates along a mode clamped to the nearest element.
    pub fn nearest(mut self, mode: usize) -> View {
        if !self.nearest.contains(&mode) {
            self.nearest.push(mode);
        }
        self
    }

    /// The view shifted by so many elements along each mode, in the same shape.
    pub fn shift(&self, by: &[Affine]) -> Result<View> {
        if by.len() != self.rank() {
            return Err(Problem::new(format!(
                "`{}` has {} modes, {}, and the shift names {}",
                self.name,
                self.rank(),
                self.shape(),
                by.len()
            ))
            .help("write one number for each mode, 0 for those that stay")
            .arg(1));
        }
        let mut view = self.clone();
        for (place, (mode, by)) in self.layout.modes().zip(by).enumerate() {
            if by.constant() == Some(0) {
                continue;
            }
            let [(_, Value::Basis { times, path })] = mode.leaves().collect::<Vec<_>>()[..] else {
                return Err(Problem::new(format!(
                    "mode {place} of `{}` has the shape {}, and its elements are not equally far apart",
                    self.name,
                    mode.shape()
                ))
                .help("shift the tile, then partition it")
                .arg(1));
            };
            let along = usize::from(path.steps()[0]);
            let far = || Problem::new("a coordinate passes 63 bits");
            view.base[along] = view.base[along].plus(by, times).ok_or_else(far)?;
            if let Some((origin, _)) = &mut view.limits[along] {
                *origin = origin.plus(by, times).ok_or_else(far)?;
            }
        }
        Ok(view)
    }

    /// The same with a halo along its first modes: so many elements more before and after.
    pub fn with_halo(&self, halo: &[(i64, i64)]) -> Result<View> {
        let mut view = self.clone();
        let mut modes: Vec<Layout> = self.layout.modes().collect();
        for (place, &(before, after)) in halo.iter().enumerate() {
            if (before, after) == (0, 0) {
                continue;
            }
            let leaves: Vec<(Value, Value)> =
                modes.get(place).map_or(Vec::new(), |mode| mode.leaves().collect());
            let [(Value::Int(extent), Value::Basis { times, path })] = leaves[..] else {
                return Err(Problem::new(format!(
                    "mode {place} of `{}`, {}, cannot have a halo",
                    self.name,
                    self.shape()
                ))
                .help("give a halo to modes of the tile that have one extent, known while compiling"));
            };
            let wide = extent.checked_add(before).and_then(|n| n.checked_add(after)).filter(|n| *n < 1 << 31);
            let (Some(wide), true) = (wide, before >= 0 && after >= 0) else {
                return Err(Problem::new(format!("a halo of {before} and {after} elements"))
                    .help("write small numbers that are not negative, such as halo = (1, 1)"));
            };
            modes[place] = Layout::new(wide, Value::Basis { times, path })?;
            let along = usize::from(path.steps()[0]);
            view.base[along] = view.base[along]
                .plus(&before.into(), -times)
                .ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
        }
        view.layout = Layout::from_modes(modes)?;
        Ok(view)
    }

    /// Broadcasts to a larger shape: the modes of the view in order, and further modes, whose extents are
    /// given, of stride 0.
    pub fn broadcast(&self, shape: &[Option<i64>]) -> Result<View> {
        let own = shape.iter().filter(|extent| extent.is_none()).count();
        if own != self.rank() {
            return Err(Problem::new(format!(
                "`{}` has {} modes, {}, and the shape has {own} places for them",
                self.name,
                self.rank(),
                self.shape()
            ))
            .help("write `_` for each mode of the tensor, and the extents of the others: broadcast(bias, (BM, _))")
            .arg(1));
        }
        let mut own = self.layout.modes();
        let modes: Vec<Layout> = shape
            .iter()
            .map(|extent| match extent {
                Some(n) => Ok(Layout::new(*n, 0i64)?),
                None => own.next().ok_or_else(|| Problem::new("there is no such mode")),
            })
            .collect::<Result<_>>()?;
        Ok(self.rearranged(Layout::from_modes(modes)?))
    }

    /// The elements of a view of one mode, in order, for those of a layout that have different offsets: broadcast
    /// along its modes of stride 0.
    pub fn repeated(&self, like: &Layout) -> Result<View> {
        let mut step = 1;
        let mut counted = |(extent, stride): (Value, Value)| -> Result<Layout> {
            let Value::Int(count) = extent else {
                return Err(
                    Problem::new("a part of a tensor has a number of elements known at launch").arg(1)
                );
            };
            let (own, moves) = (step, !stride.is_zero());
            step *= if moves { count } else { 1 };
            Ok(Layout::new(count, if moves { own } else { 0 })?)
        };
        let mut mode = |mode: Layout| -> Result<Layout> {
            let mut leaves = mode.leaves().map(&mut counted).collect::<Result<Vec<_>>>()?;
            Ok(if leaves.len() == 1 { leaves.remove(0) } else { Layout::from_modes(leaves)? })
        };
        let modes = like.modes().map(&mut mode).collect::<Result<Vec<_>>>()?;
        Ok(self.rearranged(self.layout.composition(Layout::from_modes(modes)?)?))
    }

    /// Is it broadcast: do several of its elements alias one of the tensor?
    pub fn repeats(&self) -> bool {
        self.layout.leaves().any(|(extent, stride)| stride == Value::Int(0) && extent != Value::Int(1))
    }

    /// The same under another name, for messages and generated text.
    pub fn with_name(mut self, name: &str) -> View {
        self.name = name.into();
        self
    }
}

/// The index of a thread along one mode of its layout, colexicographic over its leaves.
pub(crate) fn position(mode: &Layout, thread: &Affine) -> Result<Affine> {
    let mut place = Affine::default();
    let mut step = 1;
    for (extent, stride) in mode.leaves() {
        let (Value::Int(extent), Value::Int(stride)) = (extent, stride) else {
            return Err(Problem::new("a thread layout needs integers").arg(1));
        };
        if extent > 1 {
            let digit = thread.digit(stride, Some(extent));
            place =
                place.plus(&digit, step).ok_or_else(|| Problem::new("a thread's place passes 63 bits"))?;
        }
        step = extent.checked_mul(step).ok_or_else(|| Problem::new("a thread's place passes 63 bits"))?;
    }
    Ok(place)
}

/// Does a mode of a view step from tile to tile of this extent along a mode of its tensor, or not along it?
fn passes(mode: &Layout, along: usize, extent: i64) -> bool {
    mode.leaves().all(|(_, stride)| match stride {
        Value::Basis { times, path } => usize::from(path.steps()[0]) != along || times >= extent,
        _ => true,
    })
}

/// A mode of a view, its number, and steps of threads along it.
pub(crate) type Stepped = (usize, Layout, Vec<(usize, Affine)>);

/// The origin of the piece to which a ragged partition is limited: modes of a regrouped tile may step along the
/// same mode of the tensor, and `others` that step from piece to piece move the limit with them.
pub(crate) fn limit_origin(base: &Affine, along: usize, extent: i64, others: &[Stepped]) -> Result<Affine> {
    let pieces =
        others.iter().filter(|(_, mode, _)| passes(mode, along, extent)).flat_map(|(.., steps)| steps);
    pieces.filter(|(place, _)| *place == along).try_fold(base.clone(), |origin, (_, step)| {
        origin.plus(step, 1).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))
    })
}

/// A mode of a tensor has one limit.
pub(crate) fn ragged_twice(name: &str) -> Problem {
    Problem::new(format!("`{name}` is the ragged part of a tile already"))
        .help("use a tile whose extents the threads divide")
}

/// Indexes one mode: what remains goes to `kept`, steps along the tensor's modes to `steps`.
pub(crate) fn slice_mode(
    mode: &Layout,
    at: &At,
    kept: &mut Vec<Layout>,
    steps: &mut Vec<(usize, Affine)>,
) -> Result<()> {
    match at {
        At::All => kept.push(mode.clone()),
        At::Index(index) => {
            let leaves: Vec<(Value, Value)> = mode.leaves().collect();
            let mut over = 1;
            for (place, (extent, stride)) in leaves.iter().enumerate() {
                let last = place + 1 == leaves.len();
                let digit = match (extent, last) {
                    (_, true) => index.digit(over, None),
                    (Value::Int(n), false) => {
                        let digit = index.digit(over, Some(*n));
                        over =
                            n.checked_mul(over).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
                        digit
                    }
                    (symbol, false) => {
                        return Err(Problem::new(format!("`{symbol}` must be known to index a nested mode")));
                    }
                };
                match stride {
                    Value::Basis { times, path } => {
                        let step =
                            digit.times(*times).ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
                        steps.push((usize::from(path.steps()[0]), step));
                    }
                    Value::Int(0) => {}
                    other => return Err(Problem::new(format!("the stride `{other}` is not a coordinate"))),
                }
            }
        }
        At::Tuple(places) => {
            if places.len() != mode.rank() || mode.depth() == 0 {
                return Err(Problem::new(format!(
                    "the index has {} entries for the mode {}",
                    places.len(),
                    mode.shape()
                )));
            }
            let mut inner = Vec::new();
            for (mode, at) in mode.modes().zip(places) {
                slice_mode(&mode, at, &mut inner, steps)?;
            }
            match inner.len() {
                0 => {}
                1 => kept.append(&mut inner),
                _ => kept.push(Layout::from_modes(inner)?),
            }
        }
    }
    Ok(())
}

/// The divisors of `extent` nearest to `count`, for messages.
fn nearest_divisors(extent: i64, count: i64) -> String {
    let below = (1..=count.min(extent)).rev().find(|n| extent % n == 0);
    let above = (count..=extent).find(|n| extent % n == 0);
    match (below, above) {
        (Some(a), Some(b)) if a != b => format!("{a} or {b}"),
        (Some(a), _) | (None, Some(a)) => a.to_string(),
        (None, None) => "1".into(),
    }
}

/// For tests and messages: the tensor coordinates of a view for given block, thread and loop indices.
impl View {
    /// The tensor coordinates of an integer coordinate of the view.
    pub fn coordinates(&self, index: i64, lookup: &dyn Fn(&Coord) -> i64) -> Vec<i64> {
        let mut at: Vec<i64> = self.base.iter().map(|base| base.eval(lookup)).collect();
        let mut rest = index;
        for (extent, stride) in self.layout.leaves() {
            let digit = match extent {
                Value::Int(n) => {
                    let digit = rest % n;
                    rest /= n;
                    digit
                }
                _ => std::mem::take(&mut rest),
            };
            if let Value::Basis { times, path } = stride {
                at[usize::from(path.steps()[0])] += digit * times;
            }
        }
        at
    }
}
