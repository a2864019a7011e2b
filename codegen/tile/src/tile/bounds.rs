//! Bounds of accesses, under the assumptions of a variant: the elements of a view that can be out of bounds, and the number
//! of consecutive elements that an access can move. Queries are pure. A query adds the facts behind its answer to a list; a
//! caller that relies on the answer adds them to the variant's needs.

use tilewright_layout::{Obligation, Symbol, Value};

use crate::isa;
use crate::thread::{Fact, Id};
use crate::tile::alternative::Policy;
use crate::tile::pair::Pair;
use crate::tile::range::{Known, Numbers, Range, most};
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::tile::{Arg, Program, Space};
use crate::values::affine::{Affine, Arith, Coord};
use crate::values::number::Number;

/// The maximum distance of an access past a tensor's last coordinate, where a launch fact bounds its
/// offset to 32 bits.
const FARTHEST: u32 = 1 << 16;

/// The assumptions of a variant.
#[derive(Clone)]
pub struct Assumed<'a> {
    /// The program.
    pub program: &'a Program,
    /// The policy of the variant.
    pub policy: Policy,
    /// The facts that it needs.
    pub needs: Vec<Fact>,
}

impl<'a> Assumed<'a> {
    /// The initial assumptions of a variant.
    pub fn new(program: &'a Program, policy: Policy) -> Assumed<'a> {
        let small = program.args.iter().enumerate().filter_map(|(param, arg)| match arg {
            Arg::Tensor(id) if policy != Policy::General => {
                Some(Fact::Small { param: param as Id, distance: vec![0; program.tensor(*id).rank()] })
            }
            Arg::Tensor(_) | Arg::Scalar(_) => None,
        });
        let most = program.at_most.iter().map(|&(of, limit)| Fact::AtMost { of, limit });
        let least = program.at_least.iter().map(|&(of, limit)| Fact::AtLeast { of, limit });
        Assumed { program, policy, needs: small.chain(most).chain(least).collect() }
    }

    /// The bounds at a point where `known` is known about variables of loops.
    pub fn bounds<'b>(&'b self, known: &'b [(Id, Known)]) -> Bounds<'b> {
        let Assumed { program, policy, needs } = self;
        Bounds { program, policy: *policy, needs, numbers: Numbers::at(program, known) }
    }

    /// Answers a question, and relies on the answer: the variant needs the facts behind it.
    pub fn relying<T>(
        &mut self,
        known: &[(Id, Known)],
        answer: impl FnOnce(&Bounds<'_>, &mut Vec<Fact>) -> T,
    ) -> T {
        let mut needs = Vec::new();
        let answer = answer(&self.bounds(known), &mut needs);
        self.rely_on(needs);
        answer
    }

    /// The variant needs these facts.
    pub fn rely_on(&mut self, needs: Vec<Fact>) {
        needs.into_iter().for_each(|fact| self.need(fact));
    }

    /// The variant needs this fact.
    pub fn need(&mut self, fact: Fact) {
        if !self.needs.contains(&fact) {
            self.needs.push(fact);
        }
    }
}

/// How vectors at the edges of a tensor are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edges {
    /// Every vector is in bounds entirely or not at all.
    Whole,
    /// Vectors that are partly out of bounds are moved element by element.
    Split,
}

/// The bounds of a variant's accesses at a point in its program.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    program: &'a Program,
    policy: Policy,
    /// The facts that the variant needs already.
    needs: &'a [Fact],
    numbers: Numbers<'a>,
}

impl Bounds<'_> {
    /// Can an element of this view be out of bounds along mode `mode`? If a fact would rule it out and the
    /// policy allows the fact, the variant needs it, and the answer is no.
    pub fn guarded(&self, view: &View, mode: usize, needs: &mut Vec<Fact>) -> bool {
        // Both are checked: a fact may rule out either.
        let outside = self.outside(view, mode, needs);
        self.limited(view, mode).is_some() || outside
    }

    /// Can it be out of the tensor's own bounds?
    pub fn outside(&self, view: &View, mode: usize, needs: &mut Vec<Fact>) -> bool {
        let tensor = self.program.tensor(view.tensor);
        // Coordinates within a tile have no bound but the tile's extent, which is a limit.
        if self.program.is_coordinates(view.tensor) {
            return false;
        }
        let extent = match tensor.space {
            Space::Global { .. } => tensor.plain().leaves().nth(mode).map(|leaf| leaf.0),
            Space::Shared { .. } => {
                tensor.plain().mode(mode).and_then(|mode| mode.size()).ok().map(Value::Int)
            }
            Space::Registers { .. } => None,
        };
        let Some(extent) = extent else {
            return false;
        };
        if let Some((iteration, ..)) = self.begins(view, mode, needs) {
            // Only the first tile can be partial.
            return self.numbers.range(&iteration).lo < 1;
        }
        let base = as_tiles(&view.base[mode]);
        if !self.exceeds(view, mode, extent, &base, needs) {
            return false;
        }
        // The end of a loop may bound the sum of its variable and other coordinates.
        let back = |leaf: Leaf| (i128::from(leaf.extent - 1) * i128::from(leaf.step)).min(0);
        let back: i128 = leaves(view).into_iter().filter(|leaf| leaf.mode == mode).map(back).sum();
        let most = self.program.ceiling(&base).filter(|_| self.numbers.range(&base).lo + back >= 0);
        most.is_none_or(|most| self.exceeds(view, mode, extent, &most, needs))
    }

    /// Can an element be out of the bounds `0..extent` along a mode, if the first one is at `base`?
    fn exceeds(&self, view: &View, mode: usize, extent: Value, base: &Affine, needs: &mut Vec<Fact>) -> bool {
        let (mut bounded, mut inner) = (Vec::new(), Affine { constant: base.constant, terms: Vec::new() });
        for (coord, factor) in &base.terms {
            match (self.program.below(coord), coord) {
                (Some(of), _) => bounded.push((of, *factor)),
                // The last tile: `count - 1`.
                (None, &Coord::Size { of, over })
                    if *factor > 0 && base.constant <= -factor && self.numbers.range_of(coord).lo >= 1 =>
                {
                    inner.constant += factor;
                    bounded.push((Value::Sym { times: 1, of, over }, *factor));
                }
                (None, _) => inner.terms.push((coord.clone(), *factor)),
            }
        }
        let along = leaves(view).into_iter().filter(|leaf| leaf.mode == mode);
        let Range { mut lo, hi } = along.fold(self.numbers.range(&inner), |all, leaf| {
            let end = i128::from(leaf.extent - 1) * i128::from(leaf.step);
            Range { lo: all.lo.saturating_add(end.min(0)), hi: all.hi.saturating_add(end.max(0)) }
        });
        // A dynamic mode of the view runs over the whole extent of the tensor's mode.
        let open = view.layout.leaves().filter_map(|(n, d)| match (n, d) {
            (Value::Sym { .. }, Value::Basis { times, path }) if usize::from(path.steps()[0]) == mode => {
                Some((n, times))
            }
            _ => None,
        });
        bounded.extend(open);
        let last = |of: &Value| i128::from(of.int().map_or(i64::MAX, |n| n - 1));
        let mut reach = hi;
        for (of, factor) in &bounded {
            let end = last(of).saturating_mul(i128::from(*factor));
            (lo, reach) = (lo.saturating_add(end.min(0)), reach.saturating_add(end.max(0)));
        }
        if lo < 0 {
            return true;
        }
        // Launches with work have sizes of at least 1.
        if reach < self.numbers.range(&extent.into()).lo {
            return false;
        }
        // Tiles of `factor` that cover this mode are all full when `factor` divides the extent.
        let canonical = |size: Value| self.program.canonical(size);
        let covers = |(of, factor): &(Value, i64)| {
            *factor > 0 && canonical(extent).ceil_div(*factor).map(canonical) == Some(canonical(*of))
        };
        let Some(tiles) = bounded.iter().position(covers) else {
            return true;
        };
        let factor = bounded.remove(tiles).1;
        let others = bounded.iter().map(|(of, factor)| last(of).saturating_mul(i128::from(*factor)).max(0));
        let reach = others.fold(hi, i128::saturating_add);
        reach >= i128::from(factor) || !self.suppose_whole(factor, extent, needs)
    }

    /// If the partial tile comes first along a mode: the iteration, the extent, and the tile size. `None` if
    /// all tiles are full, perhaps by a fact that is added to `needs`.
    pub fn begins(&self, view: &View, mode: usize, needs: &mut Vec<Fact>) -> Option<(Affine, Symbol, i64)> {
        let begins = |(coord, _): &(Coord, i64)| {
            let Coord::Begin { iteration, of, tile } = coord else { return None };
            Some(((**iteration).clone(), *of, *tile))
        };
        let (iteration, of, tile) = view.base[mode].terms.iter().find_map(begins)?;
        let whole = self.suppose_whole(tile, Value::Sym { times: 1, of, over: 1 }, needs);
        (!whole).then_some((iteration, of, tile))
    }

    /// Are out-of-bounds coordinates of this mode clamped, and can there be any?
    pub fn clamps(&self, view: &View, mode: usize, needs: &mut Vec<Fact>) -> bool {
        (view.clamped.contains(&mode) || view.nearest.contains(&mode)) && self.outside(view, mode, needs)
    }

    /// The limit of a ragged partition along a mode of the tensor, where the view can exceed it.
    pub fn limited(&self, view: &View, mode: usize) -> Option<(Affine, i64)> {
        let (origin, extent) = view.limits.get(mode)?.clone()?;
        let within = view.base[mode].plus(&origin, -1).unwrap_or_default();
        let steps = leaves(view).into_iter().filter(|leaf| leaf.mode == mode);
        let far: i64 = steps.map(|leaf| (leaf.extent - 1) * leaf.step.max(0)).sum();
        let last = self.numbers.range(&within).hi.saturating_add(far.into());
        (last >= i128::from(extent)).then_some((origin, extent))
    }

    /// The distance of a view's elements from a tensor's coordinates along each mode, if offsets can be assumed to fit 32
    /// bits: a launch fact covers addresses near the tensor, and farther addresses are computed in 64 bits. With `ahead`,
    /// the view is a tile one iteration after the last of a prefetching loop.
    pub fn small(&self, view: &View, ahead: bool) -> Option<Vec<u32>> {
        let global = matches!(self.program.tensor(view.tensor).space, Space::Global { .. });
        if !global || self.policy == Policy::General {
            return None;
        }
        (0..view.base.len()).map(|mode| self.distance(view, mode, ahead)).collect()
    }

    /// The same along one mode. `None` if that is farther than [`FARTHEST`].
    fn distance(&self, view: &View, mode: usize, ahead: bool) -> Option<u32> {
        let extent = self.program.tensor(view.tensor).plain().leaves().nth(mode)?.0;
        let base = as_tiles(&view.base[mode]);
        let mut terms: Vec<(Range, Option<Value>, i64)> = Vec::new();
        for (coord, factor) in &base.terms {
            let range = self.program.range_of(coord).times(*factor);
            terms.push((range, self.program.below(coord), *factor));
        }
        for (count, stride) in view.layout.leaves() {
            match stride {
                Value::Basis { times, path } if usize::from(path.steps()[0]) == mode => {
                    terms.push((Range::below(most(count)).times(times), Some(count), times));
                }
                _ => {}
            }
        }
        // Tiles of `factor` that cover this mode all begin in bounds.
        let covers =
            |of: &Option<Value>, factor: i64| factor > 0 && of.is_some() && extent.ceil_div(factor) == *of;
        let mut last = extent.int().map_or(0, |n| i128::from(n) - 1);
        if let Some(tiles) = terms.iter().position(|(_, of, factor)| covers(of, *factor)) {
            terms.remove(tiles);
            last = 0;
        }
        let all = terms.iter().fold(Range::only(base.constant), |all, (range, ..)| all.plus(*range));
        let mut past = all.hi.saturating_sub(last).max(0);
        if ahead {
            let loops = base.terms.iter().filter(|(coord, _)| matches!(coord, Coord::Var(_)));
            past = past.saturating_add(loops.map(|(_, by)| i128::from(*by.max(&0))).sum());
        }
        let distance = past.max(-all.lo);
        u32::try_from(distance).ok().filter(|&distance| distance <= FARTHEST)
    }

    /// The leaf along which these sides can be vectorized, and the vector width. Registers allow any leaf.
    pub fn vector(&self, sides: &[(&View, &[Leaf])], edges: Edges, needs: &mut Vec<Fact>) -> (usize, i64) {
        let memory: Vec<&(&View, &[Leaf])> = sides
            .iter()
            .filter(|(view, _)| !matches!(self.program.tensor(view.tensor).space, Space::Registers { .. }))
            .collect();
        // Registers of another type do not limit an access: its elements are converted one by one.
        let elems = memory.iter().map(|(view, _)| self.program.tensor(view.tensor).elem.bytes());
        let most = i64::from(16 / elems.max().unwrap_or(16));
        let mut best = (0, 1);
        for which in 0..sides[0].1.len() {
            let unit = |leaf: &Leaf| leaf.step == 1 && leaf.extent > 1;
            if !memory.iter().all(|(_, leaves)| unit(&leaves[which])) {
                continue;
            }
            let mut more = needs.clone();
            let width = memory.iter().fold(most, |width, (view, leaves)| match width {
                1 => 1,
                _ => self.width(view, leaves, which, width, edges, &mut more),
            });
            if width > best.1 {
                best = (which, width);
                *needs = more;
            }
        }
        best
    }

    /// By cp.async from global to shared memory: the leaf along which it copies, and the elements of an instruction. `None`
    /// where types, memories or widths do not allow it.
    pub fn asynchronous(
        &self,
        pair: &Pair,
        from: &[Leaf],
        to: &[Leaf],
        needs: &mut Vec<Fact>,
    ) -> Option<(usize, i64)> {
        let (source, target) = (self.program.tensor(pair.from.tensor), self.program.tensor(pair.to.tensor));
        let spaces = matches!((source.space, target.space), (Space::Global { .. }, Space::Shared { .. }));
        if !spaces || source.elem != target.elem || self.program.arch < 80 || pair.to.peer.is_some() {
            return None;
        }
        let (which, width) = self.vector(&[(&pair.from, from), (&pair.to, to)], Edges::Split, needs);
        isa::cp_async(source.elem.bytes_of(width), false)?;
        Some((which, width))
    }

    /// Does the asynchronous copy fill with zeros all that has to be filled? Elements outside of the source tile
    /// and of the target tile are not written.
    pub(crate) fn fills_with_zeros(
        &self,
        pair: &Pair,
        from: &[Leaf],
        to: &[Leaf],
        fill: Number,
        needs: &mut Vec<Fact>,
    ) -> bool {
        let steps = |leaves: &[Leaf], mode: usize| -> Vec<i64> {
            leaves.iter().map(|leaf| if leaf.mode == mode { leaf.step } else { 0 }).collect()
        };
        let distance = |view: &View, leaves: &[Leaf], mode: usize| {
            let (origin, extent) = self.limited(view, mode)?;
            Some((view.base[mode].plus(&origin, -1), steps(leaves, mode), extent))
        };
        let skipped: Vec<_> =
            (0..pair.to.base.len()).filter_map(|mode| distance(&pair.to, to, mode)).collect();
        let mut filled = |mode: usize| {
            let limit = distance(&pair.from, from, mode);
            self.outside(&pair.from, mode, needs) || limit.is_some_and(|limit| !skipped.contains(&limit))
        };
        fill.is_zero() || !(0..pair.from.base.len()).any(&mut filled)
    }

    /// The vector width of an access along leaf `which`: how many consecutive elements it can move, at most
    /// `most`.
    pub fn width(
        &self,
        view: &View,
        all: &[Leaf],
        which: usize,
        most: i64,
        edges: Edges,
        needs: &mut Vec<Fact>,
    ) -> i64 {
        let tensor = self.program.tensor(view.tensor);
        let leaf = all[which];
        if leaf.step != 1 || matches!(tensor.space, Space::Registers { .. }) {
            return 1;
        }
        let Ok(mode) = tensor.plain().mode(leaf.mode) else {
            return 1;
        };
        let Some((run, Value::Int(1))) = mode.leaves().next() else {
            return 1;
        };
        let global = matches!(tensor.space, Space::Global { .. });
        let nested = mode.leaves().len() > 1;
        let group =
            if tensor.layout.swizzle().is_identity() { most } else { 1 << tensor.layout.swizzle().base() };
        let mut width = most.min(group);
        while width > 1 {
            let mut more = needs.clone();
            if edges == Edges::Split && self.begins_aligned(view, all, which, width) {
                let bytes = tensor.elem.bytes_of(width as u32);
                if self.aligned(view.tensor, bytes, &mut more) {
                    *needs = more;
                    return width;
                }
            }
            let mut fits =
                leaf.extent % width == 0 && (!nested || run.int().is_some_and(|run| run % width == 0));
            // The view's other strides, its base and the tensor's other strides must keep the alignment.
            fits &=
                all.iter().enumerate().all(|(i, l)| i == which || l.mode != leaf.mode || l.step % width == 0);
            // Where the partial tile comes first, tiles are as aligned as the extent.
            if let Some((_, of, _)) = self.begins(view, leaf.mode, &mut more) {
                fits = fits && self.suppose(width, Value::Sym { times: 1, of, over: 1 }, &mut more);
            }
            fits &= self.numbers.multiple(&as_tiles(&view.base[leaf.mode])) % width == 0;
            let mut strides = tensor.plain().leaves().map(|l| l.1).filter(|d| *d != Value::Int(1));
            fits = fits && strides.all(|stride| self.suppose(width, stride, &mut more));
            // A vector is in bounds entirely or not at all: its base and the limit are multiples of the
            // width.
            if let Some((origin, extent)) = self.limited(view, leaf.mode) {
                let within = view.base[leaf.mode].plus(&origin, -1).unwrap_or_default();
                fits = fits && extent % width == 0 && self.numbers.multiple(&within) % width == 0;
            }
            // Clamping to the nearest element in bounds is done element by element.
            fits = fits && !(view.nearest.contains(&leaf.mode) && self.outside(view, leaf.mode, &mut more));
            if fits && !global && self.outside(view, leaf.mode, &mut more) {
                fits = mode.size().is_ok_and(|size| size % width == 0);
            }
            if fits && global {
                let extent = tensor.plain().leaves().nth(leaf.mode).map(|leaf| leaf.0);
                fits = !self.guarded(view, leaf.mode, &mut more)
                    || extent.is_some_and(|n| self.suppose(width, n, &mut more));
                let bytes = tensor.elem.bytes_of(width as u32);
                fits = fits && self.aligned(view.tensor, bytes, &mut more);
            }
            if fits {
                *needs = more;
                return width;
            }
            width /= 2;
        }
        1
    }

    /// Does a view begin at an address that is a multiple of `width` elements, because it is moved along its contiguous mode, as
    /// by `shift(row, (0, -(i * ldx % 8)))`, or is the ragged part of a tile that does? Such vectors can be partly out of bounds.
    pub fn begins_aligned(&self, view: &View, all: &[Leaf], which: usize, width: i64) -> bool {
        let (tensor, leaf) = (self.program.tensor(view.tensor), all[which]);
        let strides: Vec<Value> = tensor.plain().leaves().map(|leaf| leaf.1).collect();
        let flat = strides.len() == tensor.rank() && tensor.layout.swizzle().is_identity();
        let global = matches!(tensor.space, Space::Global { .. });
        if !global
            || !flat
            || leaf.step != 1
            || strides[leaf.mode] != Value::Int(1)
            || leaf.extent % width != 0
        {
            return false;
        }
        // Other steps keep the alignment.
        let kept = |(index, leaf): (usize, &Leaf)| {
            let stride = strides[leaf.mode].int();
            let multiple = stride.is_some_and(|stride| (leaf.step % width) * (stride % width) % width == 0);
            index == which || leaf.extent == 1 || leaf.step % width == 0 || multiple
        };
        let multiple = |of: Option<Affine>| of.is_some_and(|of| self.numbers.multiple(&of) % width == 0);
        let base = &view.base[leaf.mode];
        let ragged = view.limits[leaf.mode].as_ref();
        let as_it_is = |mode: usize| {
            (mode == leaf.mode || view.limits[mode].is_none())
                && !view.nearest.contains(&mode)
                && !view.clamped.contains(&mode)
        };
        // No vector crosses the end of the tile.
        let divided =
            ragged.is_none_or(|(origin, extent)| extent % width == 0 && multiple(base.plus(origin, -1)));
        if !divided || !all.iter().enumerate().all(kept) || !(0..strides.len()).all(as_it_is) {
            return false;
        }
        // Where it would begin without being moved: the sum of coordinates times strides.
        let begins =
            (0..strides.len()).filter(|mode| *mode != leaf.mode).try_fold(Affine::from(0), |all, mode| {
                all.plus(&Affine::two(Arith::Mul, &view.base[mode], &strides[mode].into())?, 1)
            });
        let moved = |(coord, by): &(Coord, i64)| {
            let Coord::Submode { of, over: 1, extent: Some(n) } = coord else { return false };
            let others = base.plus(&coord.clone().into(), 1);
            let off = begins.as_ref().and_then(|begins| begins.expanded()?.plus(&of.expanded()?, -1));
            *by == -1 && n % width == 0 && multiple(others) && multiple(off)
        };
        let aligned = ragged.is_some() && multiple(Some(base.clone())) && multiple(begins.clone());
        aligned || base.terms.iter().any(moved)
    }

    /// The leaf along which vectors of 16 bytes that begin between aligned addresses can be loaded as two aligned ones, and their
    /// elements.
    pub fn realigned(&self, view: &View, all: &[Leaf], needs: &mut Vec<Fact>) -> Option<(usize, i64)> {
        let tensor = self.program.tensor(view.tensor);
        let strides: Vec<Value> = tensor.plain().leaves().map(|leaf| leaf.1).collect();
        let flat = strides.len() == tensor.rank() && tensor.layout.swizzle().is_identity();
        let width = tensor.elem.elements_in(16i64);
        let as_it_is = |mode: usize| {
            view.limits[mode].is_none()
                && !view.nearest.contains(&mode)
                && !view.clamped.contains(&mode)
                && self.begins(view, mode, &mut Vec::new()).is_none()
        };
        if !matches!(tensor.space, Space::Global { .. })
            || !flat
            || tensor.elem.bits() > 32
            || !(0..strides.len()).all(as_it_is)
        {
            return None;
        }
        let contiguous =
            |leaf: &Leaf| leaf.step == 1 && strides[leaf.mode] == Value::Int(1) && leaf.extent % width == 0;
        let which = all.iter().position(contiguous)?;
        self.aligned(view.tensor, 16, needs).then_some((which, width))
    }

    fn aligned(&self, tensor: Id, bytes: u32, needs: &mut Vec<Fact>) -> bool {
        // Tensors of a workspace are aligned to 256 bytes.
        if self.program.is_workspace(tensor) {
            return true;
        }
        let index = self.program.args.iter().position(|arg| *arg == Arg::Tensor(tensor));
        let param = index.map_or(Id::MAX, |index| index as Id);
        let known =
            |fact: &Fact| matches!(fact, Fact::Aligned { param: p, bytes: b } if *p == param && *b >= bytes);
        if self.needs.iter().chain(&*needs).any(known) {
            return true;
        }
        let supposes = matches!(self.policy, Policy::Best | Policy::Aligned);
        if supposes {
            needs.push(Fact::Aligned { param, bytes });
        }
        supposes
    }

    /// Does `divisor` divide `of`? If the policy may assume so, the fact is added to `needs`.
    pub(crate) fn suppose(&self, divisor: i64, of: Value, needs: &mut Vec<Fact>) -> bool {
        if let Value::Int(n) = of {
            return n % divisor == 0;
        }
        if of.factor() % divisor == 0 || self.program.asserted(of) % divisor == 0 {
            return true;
        }
        match self.policy {
            Policy::Best | Policy::Aligned => {
                let fact = Fact::Divides(Obligation { divisor, of });
                if !needs.contains(&fact) {
                    needs.push(fact);
                }
                true
            }
            Policy::Small | Policy::General => self.supposed(divisor, of, needs),
        }
    }

    /// Do tiles of `extent` cover `of` exactly? If the policy may assume so, the fact is added to `needs`.
    pub fn suppose_whole(&self, extent: i64, of: Value, needs: &mut Vec<Fact>) -> bool {
        match self.policy {
            Policy::Aligned => of.factor() % extent == 0 || self.supposed(extent, of, needs),
            Policy::Best | Policy::Small | Policy::General => self.suppose(extent, of, needs),
        }
    }

    /// Is it implied by the author's assertions, the variant's facts or these facts?
    pub fn supposed(&self, divisor: i64, of: Value, needs: &[Fact]) -> bool {
        if self.program.asserted(of) % divisor == 0 {
            return true;
        }
        let canonical = |size: Value| self.program.canonical(size);
        let says = |fact: &Fact| matches!(fact, Fact::Divides(known) if known.divisor % divisor == 0 && canonical(known.of) == canonical(of));
        self.needs.iter().chain(needs).any(says)
    }
}

/// A coordinate as if all tiles were full.
fn as_tiles(base: &Affine) -> Affine {
    let mut all = Affine::from(base.constant);
    for (coord, by) in &base.terms {
        let (term, by) = match coord {
            Coord::Begin { iteration, tile, .. } => ((**iteration).clone(), by * tile),
            coord => (coord.clone().into(), *by),
        };
        all = all.plus(&term, by).unwrap_or_default();
    }
    all
}
