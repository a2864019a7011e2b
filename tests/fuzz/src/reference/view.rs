//! Coordinates of the elements of a view in its tensor, as integers of any size.

use tilewright_codegen::affine::{Affine, Arith, Coord};
use tilewright_codegen::tile::Space;
use tilewright_codegen::view::View;
use tilewright_layout::{Layout, Swizzle, Value};

use super::order::Setting;
use super::{Cluster, Result, Undefined};

/// A view for given loop variables.
pub(super) struct Shown<'v> {
    pub(super) view: &'v View,
    /// Elements along each mode.
    pub(super) sizes: Vec<i64>,
    /// For each mode and each of its elements: offsets along the tensor's modes.
    steps: Vec<Vec<Vec<i128>>>,
    /// Elements along each mode of the tensor.
    extents: Vec<i128>,
    space: Space,
}

/// The location of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Location {
    /// An index into the tensor's table.
    At(usize),
    /// Out of bounds of the tensor, or of the tile that a ragged partition distributes.
    Outside,
    /// Out of bounds along clamped modes: any element may replace it.
    Clamped,
}

impl Cluster<'_> {
    pub(super) fn value(&self, value: Value) -> Result<i64> {
        let lookup = |symbol| self.symbols.iter().find(|known| known.0 == symbol).map(|known| known.1);
        value.evaluate(&lookup).ok_or_else(|| Undefined(format!("{value} is unknown")))
    }

    pub(super) fn affine(&self, affine: &Affine, at: &Setting, thread: i64) -> Result<i128> {
        let mut sum = i128::from(affine.constant);
        for (coord, factor) in &affine.terms {
            sum += i128::from(*factor) * self.coord(coord, at, thread)?;
        }
        Ok(sum)
    }

    /// A coordinate for a thread, by its number in the block.
    fn coord(&self, coord: &Coord, at: &Setting, thread: i64) -> Result<i128> {
        let number = |group: u32| {
            let group = &self.program.groups[group as usize];
            let number = thread - i64::from(group.warps.map_or(0, |(first, _)| first * 32));
            let each = group.member_warps().map_or(i64::MAX, |warps| i64::from(warps) * 32);
            (number / each, number % each)
        };
        Ok(match coord {
            Coord::Block(axis) => i128::from(at.block[usize::from(*axis)]),
            Coord::Var(var) => at.vars[*var as usize],
            Coord::Phase(ring) => at.phases[*ring as usize],
            Coord::Thread(group) => i128::from(number(*group).1),
            Coord::Member(group) => i128::from(number(*group).0),
            Coord::Swizzled(group, (bits, base, shift)) => {
                let swizzle = Swizzle::new(*bits, *base, *shift).map_err(|e| Undefined(e.to_string()))?;
                i128::from(swizzled(swizzle, number(*group).1))
            }
            Coord::ClusterRank => at.rank as i128,
            Coord::Submode { of, over, extent } => {
                let coordinate = self.affine(of, at, thread)?.div_euclid(i128::from(*over));
                extent.map_or(coordinate, |n| coordinate.rem_euclid(i128::from(n)))
            }
            Coord::Size { of, over } => {
                i128::from(self.value(Value::Sym { times: 1, of: *of, over: *over })?)
            }
            Coord::Scalar(id) => self.scalars[*id as usize] as i128,
            Coord::Loaded { number, .. } => at.reads[*number as usize][thread as usize],
            Coord::Two(with, of) => {
                let (a, b) = (self.affine(&of[0], at, thread)?, self.affine(&of[1], at, thread)?);
                match with {
                    Arith::Mul => a * b,
                    _ if matches!(with, Arith::Div | Arith::Rem) && b < 1 => {
                        return Err(Undefined("a divisor is not positive".into()));
                    }
                    Arith::Div => a.div_euclid(b),
                    Arith::Rem => a.rem_euclid(b),
                    Arith::Min => a.min(b),
                    Arith::Max => a.max(b),
                }
            }
            Coord::Begin { .. } => {
                return Err(Undefined(format!("no user writes {coord:?}")));
            }
        })
    }

    /// A view with resolved coordinates.
    pub(super) fn show<'v>(&self, view: &'v View) -> Result<Shown<'v>> {
        let tensor = self.program.tensor(view.tensor);
        let extents = match tensor.space {
            Space::Global { .. } => {
                tensor.plain().leaves().map(|(n, _)| self.value(n)).collect::<Result<Vec<_>>>()?
            }
            _ => tensor
                .plain()
                .modes()
                .map(|mode| mode.size().map_err(|e| Undefined(e.to_string())))
                .collect::<Result<Vec<_>>>()?,
        };
        let rank = view.base.len();
        let steps = view.layout.modes().map(|mode| self.steps(&mode, rank)).collect::<Result<Vec<_>>>()?;
        Ok(Shown {
            view,
            sizes: steps.iter().map(|steps| steps.len() as i64).collect(),
            steps,
            extents: extents.into_iter().map(i128::from).collect(),
            space: tensor.space,
        })
    }

    /// The offsets along a tensor's modes of each element of a view's mode from the first.
    fn steps(&self, mode: &Layout, rank: usize) -> Result<Vec<Vec<i128>>> {
        let mut all = vec![vec![0; rank]];
        for (extent, stride) in mode.leaves() {
            let extent = self.value(extent)?;
            let mut next = Vec::with_capacity(all.len() * extent.max(0) as usize);
            for coordinate in 0..extent {
                for known in &all {
                    let mut at = known.clone();
                    if let Value::Basis { times, path } = stride {
                        at[usize::from(path.steps()[0])] += i128::from(times) * i128::from(coordinate);
                    }
                    next.push(at);
                }
            }
            all = next;
        }
        Ok(all)
    }

    /// For one thread: the origin of a view, and the limits of its modes.
    pub(super) fn begin(&self, shown: &Shown<'_>, at: &Setting, thread: i64) -> Result<Begin> {
        let base = shown.view.base.iter().map(|base| self.affine(base, at, thread)).collect::<Result<_>>()?;
        let limit = |limit: &Option<(Affine, i64)>| -> Result<Option<i128>> {
            let Some((origin, extent)) = limit else { return Ok(None) };
            Ok(Some(self.affine(origin, at, thread)? + i128::from(*extent)))
        };
        let limits = shown.view.limits.iter().map(limit).collect::<Result<_>>()?;
        Ok(Begin { base, limits, thread, rank: at.rank })
    }
}

/// The origin of a thread's part.
pub(super) struct Begin {
    base: Vec<i128>,
    limits: Vec<Option<i128>>,
    thread: i64,
    /// The rank of its block in the cluster.
    pub(super) rank: usize,
}

impl Shown<'_> {
    /// How many elements a thread has.
    pub(super) fn count(&self) -> i64 {
        self.sizes.iter().product()
    }

    /// The position along each mode of an element, the leftmost mode fastest.
    pub(super) fn coordinates_of(&self, mut at: i64) -> Vec<i64> {
        let coordinate = |size: &i64| {
            let coordinate = at % size;
            at /= size;
            coordinate
        };
        self.sizes.iter().map(coordinate).collect()
    }

    /// Coordinates in the tensor.
    pub(super) fn coordinates(&self, begin: &Begin, at: &[i64]) -> Vec<i128> {
        let mut coordinates = begin.base.clone();
        for (steps, &at) in self.steps.iter().zip(at) {
            for (coordinate, step) in coordinates.iter_mut().zip(&steps[at as usize]) {
                *coordinate += step;
            }
        }
        coordinates
    }

    /// Coordinates, and whether they exceed a limit, or are out of bounds of the tensor.
    pub(super) fn whereabouts(&self, begin: &Begin, at: &[i64]) -> (Vec<i128>, bool, bool) {
        let coordinates = self.coordinates(begin, at);
        let limited =
            coordinates.iter().zip(&begin.limits).any(|(at, limit)| limit.is_some_and(|limit| *at >= limit));
        let outside = coordinates.iter().zip(&self.extents).any(|(at, extent)| !(0..*extent).contains(at));
        (coordinates, limited, outside)
    }

    /// The location of an element of a thread's part.
    pub(super) fn locate(&self, begin: &Begin, at: &[i64]) -> Result<Location> {
        let mut coordinates = self.coordinates(begin, at);
        for &mode in &self.view.nearest {
            coordinates[mode] = coordinates[mode].clamp(0, self.extents[mode] - 1);
        }
        let (mut clamped, mut index, mut step) = (false, 0i128, 1i128);
        for (mode, (&at, &extent)) in coordinates.iter().zip(&self.extents).enumerate() {
            if begin.limits[mode].is_some_and(|limit| at >= limit) {
                return Ok(Location::Outside);
            }
            if !(0..extent).contains(&at) {
                if !self.view.clamped.contains(&mode) {
                    if matches!(self.space, Space::Registers { .. }) {
                        let name = &self.view.name;
                        return Err(Undefined(format!("`{name}` has no registers at {coordinates:?}")));
                    }
                    return Ok(Location::Outside);
                }
                clamped = true;
            }
            index += at * step;
            step *= extent;
        }
        if clamped {
            return Ok(Location::Clamped);
        }
        let own =
            if matches!(self.space, Space::Registers { .. }) { i128::from(begin.thread) * step } else { 0 };
        Ok(Location::At((own + index) as usize))
    }
}

/// A number with some of its bits XORed onto others.
fn swizzled(swizzle: Swizzle, n: i64) -> i64 {
    let (mask, shift) = ((1i64 << swizzle.bits()) - 1, swizzle.shift());
    match shift {
        0.. => n ^ (n >> (swizzle.base() + shift as u32) & mask) << swizzle.base(),
        _ => n ^ (n >> swizzle.base() & mask) << (swizzle.base() + shift.unsigned_abs()),
    }
}
