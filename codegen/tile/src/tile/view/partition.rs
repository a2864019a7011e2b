//! Partitions of views over threads.

use tilewright_layout::{Layout, Swizzle, Tiler, Value};

use super::{At, View, slice_mode, too_far};
use crate::source::problem::{Problem, Result, count};
use crate::values::affine::Affine;
use crate::values::limits;

/// How a view is partitioned over threads.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Partition {
    /// The projection: which modes of the thread layout take part, assigned to the modes of the view in
    /// order; all without a projection.
    pub keep: Option<Vec<bool>>,
    /// The vector width: consecutive elements of each mode that a thread takes at once; 1 by default.
    pub values: Vec<i64>,
    /// A ragged partition: threads need not divide the extent.
    pub ragged: bool,
    /// Whether surplus elements of a ragged partition may be copies of other elements, if the mode repeats one element.
    /// Surplus elements of a thread are not marked, so a sum of its part would count them.
    pub surplus: bool,
    /// A swizzle of thread indices before their layout: with the same tiles, other lanes are neighbours.
    pub swizzle: Swizzle,
}

/// Modes of a ragged partition.
#[derive(Default)]
struct Ragged {
    /// Modes that run along no mode of the tensor, with fewer elements than threads: their numbers and extents.
    spare: Vec<(usize, i64)>,
    /// The other modes: their numbers, the mode of the tensor, and their extents along it.
    limits: Vec<(usize, usize, i64)>,
}

/// A mode of a view whose extent is no multiple of the elements that `count` threads take at once, `values` each.
struct Undivided {
    index: usize,
    extent: i64,
    count: i64,
    values: i64,
}

impl Undivided {
    fn problem(&self, name: &str) -> Problem {
        let &Undivided { index, extent, count, values } = self;
        let instead = match extent % values {
            0 => {
                let near = nearest_divisors(extent / values, count);
                format!("use {near} threads along it, or mark the partition `ragged = true`")
            }
            _ => format!("let each thread take {} elements", nearest_divisors(extent, values)),
        };
        let each = if values > 1 { format!(" with {values} elements each") } else { String::new() };
        Problem::new(format!(
            "{count} threads{each} do not divide the extent {extent} of mode {index} of `{name}`"
        ))
        .help(instead)
        .arg(1)
    }
}

impl View {
    /// Partitions over threads: mode by mode, a thread takes every `extent`-th element.
    ///
    /// See [`Partition`] for options.
    pub fn parallelize(&self, threads: &Layout, thread: &Affine, partition: &Partition) -> Result<View> {
        numbered(threads)?;
        let modes: Vec<Layout> = threads.modes().collect();
        let projected = self.projected(threads, &modes, partition)?;
        let (mut rests, mut steps, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ragged, mut stepped) = (Ragged::default(), Vec::<Stepped>::new());
        for (index, mode) in self.layout.modes().enumerate() {
            let first = steps.len();
            let Some(share) = projected.get(index) else {
                rests.push(mode);
                continue;
            };
            let count = share.size()?;
            let values = partition.values.get(index).copied().unwrap_or(1).max(1);
            let Some(whole) = count.checked_mul(values) else {
                let problem =
                    format!("{count} threads with {values} elements each are more than any tensor has");
                return Err(Problem::new(problem)
                    .help("write the elements of one thread, such as values = (4, 1)")
                    .arg(1));
            };
            if let Some(extent) = mode.size().ok().filter(|extent| extent % whole != 0) {
                let undivided = Undivided { index, extent, count, values };
                if !partition.ragged {
                    return Err(undivided.problem(&self.name));
                }
                self.add_ragged(&mut ragged, &undivided, &mode, partition.surplus)?;
            }
            let of_thread = position(share, thread)?;
            let spare = ragged.spare.iter().filter(|(of, _)| *of == index);
            idle.extend(spare.map(|(_, extent)| of_thread.submode(*extent, None)));
            let divided = mode.logical_divide(Tiler::from(values))?;
            let (own, groups) = (divided.mode(0)?, divided.mode(1)?);
            let divided = groups.logical_divide(Tiler::from(count))?;
            let (tile, rest) = (divided.mode(0)?, divided.mode(1)?);
            slice_mode(&tile, &At::Index(of_thread), &mut Vec::new(), &mut steps)?;
            rests.push(if values > 1 { Layout::from_modes([own, rest])? } else { rest });
            stepped.push((index, mode, steps[first..].to_vec()));
        }
        let mut view = View { of_thread: true, ..self.moved(Layout::from_modes(rests)?, &steps)? };
        for (mode, along, reach) in ragged.limits {
            let others: Vec<Stepped> = stepped.iter().filter(|(other, ..)| *other != mode).cloned().collect();
            view.limits[along] = Some((limit_origin(&self.base[along], along, reach, &others)?, reach));
        }
        if !idle.is_empty() {
            // Threads without an element are moved out of bounds along another mode.
            let (along, reach) = self.span();
            let reach = view.limits[along].get_or_insert((self.base[along].clone(), reach)).1;
            for offset in idle {
                view.base[along] = view.base[along].plus(&offset, reach).ok_or_else(too_far)?;
            }
        }
        Ok(view)
    }

    /// The modes of the thread layout that divide the view's modes, in order.
    fn projected<'l>(
        &self,
        threads: &Layout,
        modes: &'l [Layout],
        partition: &Partition,
    ) -> Result<Vec<&'l Layout>> {
        if let Some(keep) = &partition.keep
            && keep.len() != modes.len()
        {
            return Err(Problem::new(format!(
                "the projection names {}, and the thread layout {threads} has {}",
                count(keep.len(), "mode"),
                modes.len()
            ))
            .help("write one entry for each mode of the thread layout: `_` for modes whose threads have the same part")
            .arg(3));
        }
        let kept = |mode: usize| partition.keep.as_ref().is_none_or(|keep| keep[mode]);
        let projected: Vec<&Layout> =
            modes.iter().enumerate().filter(|(i, _)| kept(*i)).map(|(_, mode)| mode).collect();
        if projected.len() > self.rank() {
            return Err(Problem::new(format!(
                "the thread layout {threads} has {} after the projection, and `{}` has {}: {}",
                count(projected.len(), "mode"),
                self.name,
                self.rank(),
                self.shape()
            ))
            .help("leave modes out with a projection such as (1, _)")
            .arg(1));
        }
        Ok(projected)
    }

    /// Adds a mode whose extent the threads do not divide to a ragged partition.
    fn add_ragged(
        &self,
        Ragged { spare, limits }: &mut Ragged,
        &Undivided { index, extent, count, values }: &Undivided,
        mode: &Layout,
        surplus: bool,
    ) -> Result<()> {
        match mode.leaves().collect::<Vec<_>>()[..] {
            [(_, Value::Int(0))] if extent <= count && values == 1 => spare.push((index, extent)),
            [(_, Value::Int(0))] if surplus => {}
            [(_, Value::Int(0))] => {
                return Err(Problem::new(format!(
                    "elements of `{}` are broadcast along mode {index}, whose extent {extent} the threads do not divide",
                    self.name
                ))
                .help("use a number of threads that divides it, or broadcast the part of a thread")
                .arg(1));
            }
            [(_, Value::Basis { times, path })] => {
                let along = usize::from(path.steps()[0]);
                let reach = extent.checked_mul(times).ok_or_else(too_far)?;
                if self.limits[along].is_some() || limits.iter().any(|(_, other, _)| *other == along) {
                    return Err(ragged_twice(&self.name).arg(1));
                }
                limits.push((index, along, reach));
            }
            _ => {
                return Err(Problem::new(format!(
                    "mode {index} of `{}` is nested, {}, and a ragged partition needs a flat mode",
                    self.name,
                    mode.shape()
                ))
                .arg(1));
            }
        }
        Ok(())
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
        // The lane index has a submode for each leaf of the thread mode, which the composition may have split.
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
            let of_group = position(share, group)?;
            let divided = mode.logical_divide(Tiler::from(count))?;
            slice_mode(&divided.mode(0)?, &At::Index(of_group), &mut Vec::new(), &mut steps)?;
            kept.push(divided.mode(1)?);
        }
        self.moved(Layout::from_modes(kept)?, &steps)
    }
}

impl View {
    /// A mode of its tensor, and its distance along the mode.
    pub fn span(&self) -> (usize, i64) {
        let steps = self.layout.leaves().filter_map(|(extent, stride)| match (extent, stride) {
            (Value::Int(extent), Value::Basis { times, path }) => {
                Some((usize::from(path.steps()[0]), Some((extent - 1) * times)))
            }
            (_, Value::Basis { path, .. }) => Some((usize::from(path.steps()[0]), None)),
            _ => None,
        });
        let steps: Vec<(usize, Option<i64>)> = steps.collect();
        let known = |along_mode: &usize| {
            steps.iter().filter(|(of, _)| of == along_mode).all(|(_, step)| step.is_some())
        };
        let along = steps.iter().map(|(along_mode, _)| *along_mode).find(known);
        let along_mode = along.or(steps.first().map(|(along_mode, _)| *along_mode)).unwrap_or(0);
        // An extent that is known at launch is bounded there.
        const MOST: i64 = i32::MAX as i64;
        let own = steps.iter().filter(|(of, _)| *of == along_mode);
        (along_mode, own.fold(1, |reach, (_, step)| reach.saturating_add(step.unwrap_or(MOST).max(0))))
    }
}

/// The index of a thread along one mode of its layout, colexicographic over its leaves.
pub fn position(mode: &Layout, thread: &Affine) -> Result<Affine> {
    let mut index = Affine::default();
    let mut step = 1;
    for (extent, stride) in mode.leaves() {
        let (Value::Int(extent), Value::Int(stride)) = (extent, stride) else {
            return Err(Problem::new("a thread layout needs integers").arg(1));
        };
        if extent > 1 {
            let submode = thread.submode(stride, Some(extent));
            index =
                index.plus(&submode, step).ok_or_else(|| Problem::new("a thread's index passes 63 bits"))?;
        }
        step = extent.checked_mul(step).ok_or_else(|| Problem::new("a thread's index passes 63 bits"))?;
    }
    Ok(index)
}

/// Does a mode of a view step from tile to tile of this extent along a mode of its tensor, or not along it?
pub(super) fn passes(mode: &Layout, along: usize, extent: i64) -> bool {
    mode.leaves().all(|(_, stride)| match stride {
        Value::Basis { times, path } => usize::from(path.steps()[0]) != along || times >= extent,
        _ => true,
    })
}

/// A mode of a view, its number, and steps of threads along it.
pub type Stepped = (usize, Layout, Vec<(usize, Affine)>);

/// The origin of the piece that limits a ragged partition. Modes of a reshaped tile may step along the same
/// mode of the tensor; `others` that step from piece to piece move the limit with them.
pub fn limit_origin(base: &Affine, along: usize, extent: i64, others: &[Stepped]) -> Result<Affine> {
    let pieces =
        others.iter().filter(|(_, mode, _)| passes(mode, along, extent)).flat_map(|(.., steps)| steps);
    pieces
        .filter(|(mode, _)| *mode == along)
        .try_fold(base.clone(), |origin, (_, step)| origin.plus(step, 1).ok_or_else(too_far))
}

/// A mode of a tensor has one limit.
pub fn ragged_twice(name: &str) -> Problem {
    Problem::new(format!("`{name}` is the ragged part of a tile already"))
        .help("use a tile whose extents the threads divide")
}

/// Are its threads numbered from 0?
pub fn numbered(threads: &Layout) -> Result<()> {
    let size = threads.size()?;
    if threads.right_inverse()?.size()? == size {
        return Ok(());
    }
    let message = format!("the thread layout {threads} does not number its threads 0..{size}");
    let help = format!("write a compact layout, such as layout!({})", threads.shape());
    Err(Problem::new(message).help(help).arg(1))
}

/// Can a swizzle permute this number of threads?
pub fn permuted(swizzle: Swizzle, threads: i64) -> Result<()> {
    let reach = swizzle.bits() + swizzle.base() + swizzle.shift().unsigned_abs();
    if swizzle.is_identity() || reach <= 10 && threads % (1 << reach) == 0 {
        return Ok(());
    }
    let message = format!("{swizzle} permutes {} threads, which do not divide {threads}", 1 << reach.min(62));
    Err(Problem::new(message).help("use a swizzle of fewer bits").arg(1))
}

/// The divisors of `extent` nearest to `count`, for messages. Divisors come in pairs, so that the smaller ones find them all.
pub fn nearest_divisors(extent: i64, count: i64) -> String {
    const MOST_TRIED: i64 = limits::LARGEST.isqrt();
    let small = (1..=extent.max(1).isqrt().min(MOST_TRIED)).filter(|n| extent % n == 0);
    let (mut below, mut above) = (1, extent);
    for divisor in small.flat_map(|n| [n, extent / n]) {
        if divisor <= count {
            below = below.max(divisor);
        }
        if divisor >= count {
            above = above.min(divisor);
        }
    }
    match below == above || above < count {
        true => below.to_string(),
        false => format!("{below} or {above}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The search for divisors in pairs agrees with a search one by one.
    #[test]
    fn nearest_divisors_are_the_nearest() {
        for extent in 1..200i64 {
            for count in 1..250i64 {
                let below = (1..=count).rev().find(|n| extent % n == 0);
                let above = (count..=extent).find(|n| extent % n == 0);
                let expected = match (below, above) {
                    (Some(a), Some(b)) if a != b => format!("{a} or {b}"),
                    (Some(a), _) => a.to_string(),
                    _ => unreachable!("1 divides it"),
                };
                assert_eq!(nearest_divisors(extent, count), expected, "{extent}, {count}");
            }
        }
        assert_eq!(nearest_divisors(2_147_483_647, 32), "1 or 2147483647");
    }
}
