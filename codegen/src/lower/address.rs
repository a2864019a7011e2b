//! Where a view's elements are: coordinates in the tensor, offsets, and guards. Every index in generated code is made
//! here, from a layout.

use tilewright_layout::{Composed, Swizzle, Symbol, Value};

use super::{Lower, Policy};
use crate::affine::{Affine, Coord};
use crate::index::{Int, Ix};
use crate::thread::{Fact, Mem, Space};
use crate::tile;
use crate::view::View;

/// A leaf of a view: how many steps, along which mode of the tensor, and how far each goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Leaf {
    pub(super) extent: i64,
    pub(super) mode: usize,
    pub(super) step: i64,
}

/// The leaves of a view's layout; extents that are not integers count as 1.
pub(super) fn leaves(view: &View) -> Vec<Leaf> {
    view.layout
        .leaves()
        .map(|(extent, stride)| {
            let extent = extent.int().unwrap_or(1);
            match stride {
                Value::Basis { times, path } => {
                    Leaf { extent, mode: usize::from(path.steps()[0]), step: times }
                }
                _ => Leaf { extent, mode: 0, step: 0 },
            }
        })
        .collect()
}

impl Lower<'_> {
    /// The part of a base that stays the same while loops run, and the part that a loop changes.
    pub(super) fn parts(&self, base: &Affine) -> (Affine, Affine) {
        let moves = |coord: &Coord| match coord {
            Coord::Var(_) | Coord::Turn(_) => true,
            Coord::Digit { of, .. } => of.any(&|coord| matches!(coord, Coord::Var(_) | Coord::Turn(_))),
            Coord::Begin { .. } => true,
            _ => false,
        };
        let (moving, still) = base.terms.iter().cloned().partition(|(coord, _)| moves(coord));
        (Affine { constant: base.constant, terms: still }, Affine { constant: 0, terms: moving })
    }

    /// The coordinates, in the tensor, of the element of a view that `at` names leaf by leaf.
    pub(super) fn coordinates(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Vec<Ix> {
        (0..view.base.len()).map(|mode| self.coordinate(view, mode, leaves, at)).collect()
    }

    fn coordinate(&mut self, view: &View, mode: usize, leaves: &[Leaf], at: &[Ix]) -> Ix {
        let global = matches!(self.program.tensor(view.tensor).space, tile::Space::Global { .. });
        let (still, moving) = self.parts(&view.base[mode]);
        let mut sum = self.affine(&still);
        if global {
            self.bound(sum);
            sum = self.name(sum, &format!("{}_{mode}", view.name));
        }
        let moving = self.affine(&moving);
        sum = self.exprs().add(sum, moving);
        let steps = self.steps(leaves, at, mode);
        sum = self.exprs().add(sum, steps);
        if global {
            self.bound(sum);
        }
        sum
    }

    /// A coordinate of a global tensor fits 32 bits, because extents do with room to spare.
    pub(super) fn bound(&mut self, coordinate: Ix) {
        let lo = self.kernel.exprs.get(coordinate).lo;
        self.exprs().assume(coordinate, lo, i64::from(i32::MAX));
    }

    /// An offset fits 32 bits, because a fact says so. Its sign stays open: a guard may stand on the same expression.
    pub(super) fn small(&mut self, offset: Ix) {
        let lo = self.kernel.exprs.get(offset).lo.max(i64::from(i32::MIN));
        self.exprs().assume(offset, lo, i64::from(i32::MAX));
    }

    fn steps(&mut self, leaves: &[Leaf], at: &[Ix], mode: usize) -> Ix {
        assert_eq!(leaves.len(), at.len(), "one index for each leaf");
        let mut sum = self.int(0);
        for (leaf, &index) in leaves.iter().zip(at) {
            if leaf.mode == mode && leaf.step != 0 {
                let step = self.int(leaf.step);
                let term = self.exprs().mul(index, step);
                sum = self.exprs().add(sum, term);
            }
        }
        sum
    }

    /// The place of an element.
    pub(super) fn place(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Mem {
        let tensor = self.program.tensor(view.tensor);
        let id = self.places[view.tensor as usize];
        let space = match tensor.space {
            tile::Space::Global { .. } => Space::Global(id),
            _ => Space::Shared(id),
        };
        let index = match linear(&tensor.layout) {
            Some(strides) => {
                let swizzle = tensor.layout.swizzle();
                let raw = (!swizzle.is_identity()).then(|| self.plain_offset(view, leaves, at, &strides));
                let index = self.linear_offset(view, leaves, at, &strides);
                match raw {
                    None => index,
                    Some(raw) => {
                        let mut flip = self.flip(swizzle, raw);
                        if !self.moves(flip) {
                            flip = self.name(flip, &format!("{}_flip", view.name));
                        }
                        self.exprs().xor(index, flip)
                    }
                }
            }
            None => {
                let mut coordinates = self.coordinates(view, leaves, at);
                for (mode, coordinate) in coordinates.iter_mut().enumerate() {
                    if self.holds(view, mode) {
                        *coordinate = self.clamped(view, mode, *coordinate);
                    }
                }
                self.offset(&tensor.layout, &coordinates)
            }
        };
        if matches!(tensor.space, tile::Space::Global { .. }) && self.policy != Policy::General {
            self.small(index);
        }
        Mem { space, index, peer: None }
    }

    /// The index into a register array; constant once loops are unrolled.
    pub(super) fn register_index(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Ix {
        let layout = self.program.tensor(view.tensor).layout.clone();
        let coordinates = self.coordinates(view, leaves, at);
        self.offset(&layout, &coordinates)
    }

    /// Each mode has one stride: what does not change is computed once, at the top.
    fn linear_offset(&mut self, view: &View, leaves: &[Leaf], at: &[Ix], strides: &[Value]) -> Ix {
        let tensor = self.program.tensor(view.tensor);
        let small = matches!(tensor.space, tile::Space::Global { .. }) && self.policy != Policy::General;
        let global = matches!(tensor.space, tile::Space::Global { .. });
        let (mut still_sum, mut moving_sum) = (self.int(0), self.int(0));
        for (mode, &stride) in strides.iter().enumerate() {
            let stride = self.value(stride);
            if self.holds(view, mode) {
                let coordinate = self.coordinate(view, mode, leaves, at);
                let coordinate = self.clamped(view, mode, coordinate);
                let term = self.exprs().mul(coordinate, stride);
                if small {
                    self.small(term);
                }
                moving_sum = self.exprs().add(moving_sum, term);
                continue;
            }
            let (still, moving) = self.parts(&view.base[mode]);
            let mut still = self.affine(&still);
            if global {
                self.bound(still);
                if self.guarded(view, mode) || self.begins(view, mode).is_some() {
                    still = self.name(still, &format!("{}_{mode}", view.name));
                }
            }
            let term = self.exprs().mul(still, stride);
            still_sum = self.exprs().add(still_sum, term);
            let moving = self.affine(&moving);
            let steps = self.steps(leaves, at, mode);
            for moves in [moving, steps] {
                if global {
                    self.bound(moves);
                }
                let term = self.exprs().mul(moves, stride);
                if small {
                    self.small(term);
                }
                moving_sum = self.exprs().add(moving_sum, term);
            }
        }
        if small {
            self.small(still_sum);
            self.small(moving_sum);
        }
        // Views that a constant tells apart share the name.
        let (named, constant) = match self.kernel.exprs.get(still_sum).int {
            Int::Add(named, constant) if !global && self.kernel.exprs.constant(constant).is_some() => {
                (named, constant)
            }
            _ => (still_sum, self.int(0)),
        };
        let base = self.name(named, &format!("{}_at", view.name));
        let base = self.exprs().add(base, constant);
        self.exprs().add(base, moving_sum)
    }

    /// The offset of coordinates under any layout: digits of nested modes, then the swizzle.
    pub(super) fn offset(&mut self, layout: &Composed, coordinates: &[Ix]) -> Ix {
        let mut sum = self.int(layout.offset());
        for (mode, &coordinate) in layout.layout().modes().zip(coordinates) {
            let leaves: Vec<_> = mode.leaves().collect();
            let mut rest = coordinate;
            for (place, (extent, stride)) in leaves.iter().enumerate() {
                let digit = match extent.int() {
                    Some(n) if place + 1 < leaves.len() => {
                        let digit = self.exprs().rem(rest, n);
                        rest = self.exprs().div(rest, n);
                        digit
                    }
                    _ => rest,
                };
                let stride = self.value(*stride);
                let term = self.exprs().mul(digit, stride);
                sum = self.exprs().add(sum, term);
            }
        }
        let flip = self.flip(layout.swizzle(), sum);
        self.exprs().xor(sum, flip)
    }

    /// What a swizzle XORs onto an offset: some of its bits, moved to their place.
    pub(super) fn flip(&mut self, swizzle: Swizzle, offset: Ix) -> Ix {
        if swizzle.is_identity() {
            return self.int(0);
        }
        let shift = swizzle.shift().unsigned_abs();
        let (from, to) = match swizzle.shift() {
            0.. => (swizzle.base() + shift, swizzle.base()),
            _ => (swizzle.base(), swizzle.base() + shift),
        };
        // What lies above the bits read makes no difference.
        let low = self.exprs().rem(offset, 1 << (from + swizzle.bits()));
        let digit = self.exprs().div(low, 1 << from);
        let scale = self.int(1 << to);
        self.exprs().mul(digit, scale)
    }

    /// Does a loop change it?
    fn moves(&self, at: Ix) -> bool {
        let named = |id: &u32| self.named.iter().any(|(_, known)| known == id);
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            let expr = self.kernel.exprs.get(at);
            match &expr.int {
                Int::Var(id) if !named(id) => return true,
                int => open.extend(int.parts()),
            }
        }
        false
    }

    /// The offset as it is, without names.
    fn plain_offset(&mut self, view: &View, leaves: &[Leaf], at: &[Ix], strides: &[Value]) -> Ix {
        let mut sum = self.int(0);
        for (mode, &stride) in strides.iter().enumerate() {
            let base = self.affine(&view.base[mode].clone());
            let steps = self.steps(leaves, at, mode);
            let coordinate = self.exprs().add(base, steps);
            let stride = self.value(stride);
            let term = self.exprs().mul(coordinate, stride);
            sum = self.exprs().add(sum, term);
        }
        sum
    }

    /// Could an element of this view lie outside mode `mode` of its tensor? Where a fact would rule it out and the policy
    /// takes facts for granted, it is recorded and the answer is no.
    pub(super) fn guarded(&mut self, view: &View, mode: usize) -> bool {
        // Both are asked: each may record the fact that rules it out.
        let outside = self.outside(view, mode);
        self.limited(view, mode).is_some() || outside
    }

    /// The same for the tensor's own extent alone.
    pub(super) fn outside(&mut self, view: &View, mode: usize) -> bool {
        let tensor = self.program.tensor(view.tensor);
        let extent = match tensor.space {
            tile::Space::Global { .. } => tensor.plain().leaves().nth(mode).map(|leaf| leaf.0),
            tile::Space::Shared { .. } => {
                tensor.plain().mode(mode).and_then(|mode| mode.size()).ok().map(Value::Int)
            }
            tile::Space::Registers { .. } => None,
        };
        let Some(extent) = extent else {
            return false;
        };
        if let Some((turn, ..)) = self.begins(view, mode) {
            let turn = self.affine(&turn);
            self.followed(view.tensor, mode, 0);
            return self.kernel.exprs.get(turn).lo < 1;
        }
        let (mut moving, mut inner) =
            (Vec::new(), Affine { constant: view.base[mode].constant, terms: Vec::new() });
        for (coord, factor) in &as_tiles(&view.base[mode]).terms {
            let of = match coord {
                Coord::Block(axis) => self.program.grid[usize::from(*axis)],
                Coord::Var(var) => Some(self.program.vars[*var as usize].extent),
                _ => None,
            };
            match of {
                Some(of) => moving.push((of, *factor)),
                None => inner.terms.push((coord.clone(), *factor)),
            }
        }
        let along: Vec<Leaf> = leaves(view).into_iter().filter(|leaf| leaf.mode == mode).collect();
        let inner = self.affine(&inner);
        let (mut lo, mut hi) = (self.kernel.exprs.get(inner).lo, self.kernel.exprs.get(inner).hi);
        for leaf in along {
            let end = (leaf.extent - 1).saturating_mul(leaf.step);
            (lo, hi) = (lo.saturating_add(end.min(0)), hi.saturating_add(end.max(0)));
        }
        self.followed(view.tensor, mode, hi);
        // A dynamic mode of the view runs over the whole extent behind it.
        let open = view.layout.leaves().filter_map(|(n, d)| match (n, d) {
            (Value::Sym { .. }, Value::Basis { times, path }) if usize::from(path.steps()[0]) == mode => {
                Some((n, times))
            }
            _ => None,
        });
        moving.extend(open);
        let last = |of: &Value| of.int().map_or(i64::MAX, |n| n - 1);
        let mut reach = hi;
        for (of, factor) in &moving {
            let end = last(of).saturating_mul(*factor);
            (lo, reach) = (lo.saturating_add(end.min(0)), reach.saturating_add(end.max(0)));
        }
        if lo < 0 {
            return true;
        }
        if let Value::Int(extent) = extent
            && reach < extent
        {
            return false;
        }
        // Tiles of `factor` along this mode, as many as it takes to cover it: whole when `factor` divides the extent.
        let covers = |(of, factor): &(Value, i64)| *factor > 0 && extent.ceil_div(*factor) == Some(*of);
        let Some(tiles) = moving.iter().position(covers) else {
            return true;
        };
        let factor = moving.remove(tiles).1;
        let others = moving
            .iter()
            .map(|(of, factor)| last(of).saturating_mul(*factor).max(0))
            .fold(0, i64::saturating_add);
        hi.saturating_add(others) >= factor || !self.suppose_whole(factor, extent)
    }

    /// The tile of a turn along a mode, if its first is the one that is not whole: the turn, the extent, and how many
    /// elements whole ones have. `None` where all are whole.
    fn begins(&mut self, view: &View, mode: usize) -> Option<(Affine, Symbol, i64)> {
        let begins = |(coord, _): &(Coord, i64)| match coord {
            Coord::Begin { turn, of, tile } => Some(((**turn).clone(), *of, *tile)),
            _ => None,
        };
        let (turn, of, tile) = view.base[mode].terms.iter().find_map(begins)?;
        let whole = self.suppose_whole(tile, Value::Sym { times: 1, of, over: 1 });
        (!whole).then_some((turn, of, tile))
    }

    /// Do elements from inside stand for those past the edge of this mode, and could there be such?
    fn holds(&mut self, view: &View, mode: usize) -> bool {
        view.held.contains(&mode) && self.outside(view, mode)
    }

    /// A coordinate, or the last one where a vector fits that both it and the extent are multiples of.
    fn clamped(&mut self, view: &View, mode: usize, coordinate: Ix) -> Ix {
        let extent = self.program.tensor(view.tensor).plain().leaves().nth(mode).map(|leaf| leaf.0);
        let extent = extent.unwrap_or(Value::Int(1));
        let multiple = self.kernel.exprs.get(coordinate).multiple;
        let fits = |n: &i64| multiple % n == 0 && (extent.factor() % n == 0 || self.supposed(*n, extent));
        let vector = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1);
        let (extent, vector) = (self.value(extent), self.int(vector));
        let last = self.exprs().sub(extent, vector);
        self.exprs().min(coordinate, last)
    }

    /// A tile's place is known one turn past the last, too.
    pub(super) fn passed(&mut self, view: &View, leaves: &[Leaf]) {
        for mode in 0..view.base.len() {
            let of_loops = |(coord, _): &(Coord, i64)| matches!(coord, Coord::Var(_));
            let of_tiles = |coord: &Coord| matches!(coord, Coord::Var(_) | Coord::Block(_));
            let base = &as_tiles(&view.base[mode]);
            let turn: i64 = base.terms.iter().filter(|term| of_loops(term)).map(|(_, by)| *by.max(&0)).sum();
            if turn > 0 {
                let inner = base.terms.iter().filter(|(coord, _)| !of_tiles(coord)).cloned().collect();
                let inner = self.affine(&Affine { constant: base.constant, terms: inner });
                let far =
                    leaves.iter().filter(|leaf| leaf.mode == mode).map(|leaf| (leaf.extent - 1) * leaf.step);
                let past = self.kernel.exprs.get(inner).hi.saturating_add(far.sum()).saturating_add(turn);
                self.followed(view.tensor, mode, past);
            }
        }
    }

    /// Coordinates of a mode go so far past its last one, at most: tiles begin inside.
    fn followed(&mut self, tensor: u32, mode: usize, past: i64) {
        let place = self.places[tensor as usize];
        if !matches!(self.program.tensor(tensor).space, tile::Space::Global { .. }) {
            return;
        }
        for fact in &mut self.kernel.needs {
            if let Fact::Small { param, beyond } = fact
                && *param == place
            {
                beyond[mode] = beyond[mode].max(past.clamp(0, 1 << 16) as u32);
            }
        }
    }

    /// The limit of a ragged partition along a mode of the tensor, where the view can pass it.
    pub(super) fn limited(&mut self, view: &View, mode: usize) -> Option<(Affine, i64)> {
        let (origin, extent) = view.limits.get(mode)?.clone()?;
        let within = view.base[mode].plus(&origin, -1).unwrap_or_default();
        let within = self.affine(&within);
        let steps = leaves(view).into_iter().filter(|leaf| leaf.mode == mode);
        let far: i64 = steps.map(|leaf| (leaf.extent - 1) * leaf.step.max(0)).sum();
        (self.kernel.exprs.get(within).hi.saturating_add(far) >= extent).then_some((origin, extent))
    }

    /// The condition under which the element at `at` lies inside its tensor; `None` when it always does.
    pub(super) fn guard(&mut self, view: &View, leaves: &[Leaf], at: &[Ix]) -> Option<Ix> {
        let tensor = self.program.tensor(view.tensor);
        let extents: Vec<Value> = match tensor.space {
            tile::Space::Global { .. } => tensor.plain().leaves().map(|leaf| leaf.0).collect(),
            tile::Space::Shared { .. } => {
                let sizes = tensor.plain().modes().map(|mode| mode.size().map_or(Value::Int(0), Value::Int));
                sizes.collect()
            }
            tile::Space::Registers { .. } => return None,
        };
        let modes: Vec<usize> = (0..extents.len()).filter(|&mode| self.guarded(view, mode)).collect();
        if modes.is_empty() {
            return None;
        }
        let mut guard = self.int(1);
        for mode in modes {
            if self.outside(view, mode) && !view.held.contains(&mode) {
                let (coordinate, extent) =
                    (self.coordinate(view, mode, leaves, at), self.value(extents[mode]));
                let end = match self.begins(view, mode) {
                    Some((turn, of, tile)) => {
                        let next = turn.plus(&1.into(), 1).unwrap_or_default();
                        self.begin_later(&next, of, tile)
                    }
                    None => extent,
                };
                let below = self.exprs().lt(coordinate, end);
                guard = self.exprs().all(guard, below);
                if self.kernel.exprs.get(coordinate).lo < 0 {
                    let zero = self.int(0);
                    let negative = self.exprs().lt(coordinate, zero);
                    let inside = self.exprs().not(negative);
                    guard = self.exprs().all(guard, inside);
                }
            }
            if let Some((origin, extent)) = self.limited(view, mode) {
                let within = view.base[mode].plus(&origin, -1).unwrap_or_default();
                let within = self.affine(&within);
                let steps = self.steps(leaves, at, mode);
                let (within, extent) = (self.exprs().add(within, steps), self.int(extent));
                let below = self.exprs().lt(within, extent);
                guard = self.exprs().all(guard, below);
            }
        }
        (self.kernel.exprs.constant(guard) != Some(1)).then_some(guard)
    }

    /// How many consecutive elements along leaf `which` one access can take on this side, at most `most`.
    pub(super) fn width(&mut self, view: &View, all: &[Leaf], which: usize, most: i64) -> i64 {
        let tensor = self.program.tensor(view.tensor);
        let leaf = all[which];
        if leaf.step != 1 || matches!(tensor.space, tile::Space::Registers { .. }) {
            return 1;
        }
        let Ok(mode) = tensor.plain().mode(leaf.mode) else {
            return 1;
        };
        let Some((run, Value::Int(1))) = mode.leaves().next() else {
            return 1;
        };
        let global = matches!(tensor.space, tile::Space::Global { .. });
        let nested = mode.leaves().len() > 1;
        let group =
            if tensor.layout.swizzle().is_identity() { most } else { 1 << tensor.layout.swizzle().base() };
        let mut width = most.min(group);
        let before = self.kernel.needs.len();
        while width > 1 {
            let mut fits =
                leaf.extent % width == 0 && (!nested || run.int().is_some_and(|run| run % width == 0));
            // Every other step of the view, its base and the tensor's other strides keep the alignment.
            fits &=
                all.iter().enumerate().all(|(i, l)| i == which || l.mode != leaf.mode || l.step % width == 0);
            // Tiles that end with the extent are as aligned as it is.
            if let Some((_, of, _)) = self.begins(view, leaf.mode) {
                fits = fits && self.suppose(width, Value::Sym { times: 1, of, over: 1 });
            }
            let base = self.affine(&as_tiles(&view.base[leaf.mode]));
            fits &= self.kernel.exprs.get(base).multiple % width == 0;
            let mut strides: Vec<Value> =
                tensor.plain().leaves().map(|l| l.1).filter(|d| *d != Value::Int(1)).collect();
            strides.retain(|stride| *stride != Value::Int(1));
            fits = fits && strides.iter().all(|&stride| self.suppose(width, stride));
            if fits && global {
                fits = !self.guarded(view, leaf.mode)
                    || tensor.plain().leaves().nth(leaf.mode).is_some_and(|(n, _)| self.suppose(width, n));
                let bytes = width as u32 * tensor.elem.bytes();
                let param = self.places[view.tensor as usize];
                fits = fits && self.aligned(param, bytes);
            }
            if fits {
                return width;
            }
            // What was taken for granted on the way is not needed after all.
            self.kernel.needs.truncate(before);
            width /= 2;
        }
        1
    }

    fn aligned(&mut self, param: u32, bytes: u32) -> bool {
        let known =
            |fact: &Fact| matches!(fact, Fact::Aligned { param: p, bytes: b } if *p == param && *b >= bytes);
        if self.kernel.needs.iter().any(known) {
            return true;
        }
        let supposes = matches!(self.policy, Policy::Best | Policy::Aligned);
        if supposes {
            self.need(Fact::Aligned { param, bytes });
        }
        supposes
    }
}

/// A coordinate whose tiles are all whole, or counted as if they were.
fn as_tiles(base: &Affine) -> Affine {
    let mut all = Affine::from(base.constant);
    for (coord, by) in &base.terms {
        let (term, by) = match coord {
            Coord::Begin { turn, tile, .. } => ((**turn).clone(), by * tile),
            coord => (coord.clone().into(), *by),
        };
        all = all.plus(&term, by).unwrap_or_default();
    }
    all
}

/// One stride for each mode, if the layout has no nested mode.
fn linear(layout: &Composed) -> Option<Vec<Value>> {
    if layout.offset() != 0 {
        return None;
    }
    layout
        .layout()
        .modes()
        .map(|mode| match mode.leaves().collect::<Vec<_>>()[..] {
            [(_, stride)] => Some(stride),
            _ => None,
        })
        .collect()
}
