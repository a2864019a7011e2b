//! Statements that compute tiles from tiles.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Binary, Expr};

use super::super::tree::{
    assign, binary, call, cast, choice, closure, float, int, ints, literal, name, pairs, truth, tuple, typed,
    with,
};
use super::{Known, Space, Whole, joint, list_of};

impl Whole {
    /// A statement of any kind.
    pub(super) fn step(&mut self) {
        match self.scene.random.below(100) {
            0..16 => self.operators(),
            16..24 => self.mapped(),
            24..32 => self.changed(),
            32..44 => self.reduced(),
            44..50 => self.folded(),
            50..57 => self.scanned(),
            57..64 => self.through_shared(),
            64..68 => self.numbered(),
            68..75 => self.viewed(),
            75..81 => self.gathered(),
            81..85 => self.scattered(),
            85..95 if self.depth < 2 => self.controlled(),
            95 => self.moved_within(),
            96 => self.single(),
            97 => self.with_a_row(),
            _ => {
                self.input();
            }
        }
    }

    /// Tiles that are broadcast to one shape, the first of any kind.
    pub(super) fn operands(&mut self, first: &Known, most: usize) -> (Vec<Known>, Vec<i64>) {
        let (mut all, mut shape) = (vec![first.clone()], first.shape.clone());
        for _ in 1..most {
            let wide = shape.clone();
            let fits = |known: &Known| {
                joint(&wide, &known.shape).is_some_and(|of| of.iter().product::<i64>() <= 4096)
            };
            if let Some(other) = self.pick(fits) {
                shape = joint(&shape, &other.shape).unwrap_or(shape);
                all.push(other);
            }
        }
        (all, shape)
    }

    /// An expression with operators on tiles; the first of them is used.
    pub(super) fn function(&mut self, operands: &[Known], elem: Elem) -> Expr {
        let named: Vec<(String, Elem)> =
            operands.iter().map(|known| (known.name.clone(), known.elem)).collect();
        let named: Vec<(&str, Elem)> = named.iter().map(|(name, elem)| (name.as_str(), *elem)).collect();
        let own = |known: &Known| {
            if known.elem == elem { name(&known.name) } else { cast(name(&known.name), elem) }
        };
        let depth = self.scene.random.within(0, 3) as u32;
        let all = operands.iter().map(own).reduce(|x, y| {
            let op = self.scene.random.pick(&[Binary::Add, Binary::Sub, Binary::Add]);
            binary(op, x, y)
        });
        let Some(all) = all else { return literal(1.0, elem) };
        if depth == 0 {
            return all;
        }
        let more = self.scene.function(&named, elem, depth);
        match self.scene.random.below(4) {
            0 => {
                let how = self.scene.random.pick(&[Binary::Lt, Binary::Ge, Binary::Eq]);
                let zero = literal(self.scene.random.within(0, 2) as f64, elem);
                let condition = binary(how, all.clone(), zero);
                match self.scene.random.below(3) {
                    0 => call("select", vec![condition, more, all]),
                    1 => choice(condition, more, all),
                    _ => binary(Binary::Add, cast(condition, elem), more),
                }
            }
            1 => call(self.scene.random.pick(&["min", "max"]), vec![all, more]),
            2 => binary(Binary::Add, all, more),
            _ => binary(Binary::Sub, more, all),
        }
    }

    /// `let v = x * s + b;`
    fn operators(&mut self) {
        let Some(first) = self.pick(|_| true) else { return };
        let most = self.scene.random.within(1, 3) as usize;
        let (all, shape) = self.operands(&first, most);
        let elem = if self.scene.random.chance(75) { first.elem } else { self.scene.elem() };
        let value = self.function(&all, elem);
        self.made(value, elem, shape);
    }

    fn mapped(&mut self) {
        let Some(first) = self.pick(|_| true) else { return };
        let most = self.scene.random.within(1, 3) as usize;
        let (all, shape) = self.operands(&first, most);
        let elem = if self.scene.random.chance(75) { first.elem } else { self.scene.elem() };
        if all.iter().any(|known| known.shape.len() != shape.len()) {
            return;
        }
        let names = &["a", "b", "c"][..all.len()];
        let elems: Vec<(&str, Elem)> =
            names.iter().copied().zip(all.iter().map(|known| known.elem)).collect();
        let depth = self.scene.random.within(1, 3) as u32;
        // The value has its own type.
        let mut value = cast(self.scene.function(&elems, elem, depth), elem);
        let mut params = names.to_vec();
        let likely = if first.placed { 40 } else { 12 };
        if first.shape == shape && self.scene.random.chance(likely) {
            params.push("at");
            let condition = self.mask(shape.len());
            let other = cast(self.scene.function(&elems, elem, 1), elem);
            value = choice(condition, value, other);
        }
        let given = tuple(all.iter().map(|known| name(&known.name)).collect());
        if self.scene.random.chance(15) {
            let second = self.scene.elem();
            let other = cast(self.scene.function(&elems, second, 1), second);
            let function = closure(&params, tuple(vec![value, other]));
            let both = self.scene.bind("b", call("map", vec![given, function]));
            self.made(super::super::tree::field(&both, "0"), elem, shape.clone());
            self.made(super::super::tree::field(&both, "1"), second, shape);
            return;
        }
        self.made(call("map", vec![given, closure(&params, value)]), elem, shape);
    }

    /// A condition on coordinates.
    pub(super) fn mask(&mut self, rank: usize) -> Expr {
        let at = |whole: &mut Whole| {
            let mode = whole.scene.random.below(rank);
            super::super::tree::field("at", &mode.to_string())
        };
        let left = at(self);
        let right = match self.scene.random.below(3) {
            0 => at(self),
            1 => int(self.scene.random.within(0, 40)),
            _ => {
                let by = at(self);
                binary(Binary::Rem, by, int(self.scene.random.within(2, 5)))
            }
        };
        binary(self.scene.random.pick(&[Binary::Lt, Binary::Ge, Binary::Eq]), left, right)
    }

    /// `v += x;` and its like.
    pub(super) fn changed(&mut self) {
        let Some(to) = self.pick(|known| known.space != Space::Global) else { return self.operators() };
        let value = self.value_for(&to);
        let op = self.scene.random.pick(&[None, Some(Binary::Add), Some(Binary::Sub), Some(Binary::Add)]);
        self.scene.push(assign(name(&to.name), op, value));
    }

    /// An expression that is broadcast to a tile.
    pub(super) fn value_for(&mut self, to: &Known) -> Expr {
        let shape = to.shape.clone();
        match self.pick(|known| joint(&known.shape, &shape).as_ref() == Some(&shape)) {
            Some(from) => self.function(&[from], to.elem),
            None => literal(1.0, to.elem),
        }
    }

    /// Modes to reduce along: one, several, or none for all.
    fn modes(&mut self, rank: usize) -> Option<Vec<i64>> {
        match self.scene.random.below(6) {
            0 | 1 => None,
            2 if rank > 1 => {
                let all: Vec<i64> = (0..rank as i64).collect();
                let count = self.scene.random.within(2, rank as i64) as usize;
                Some(self.scene.random.shuffled(&all)[..count].to_vec())
            }
            _ => Some(vec![self.scene.random.below(rank) as i64]),
        }
    }

    fn without(shape: &[i64], modes: Option<&Vec<i64>>) -> Vec<i64> {
        let one = |(mode, &n): (usize, &i64)| match modes {
            Some(modes) if !modes.contains(&(mode as i64)) => n,
            _ => 1,
        };
        shape.iter().enumerate().map(one).collect()
    }

    fn reduced(&mut self) {
        if let Some(from) = self.pick(|known| known.shape.iter().product::<i64>() > 1) {
            self.reduced_of(&from);
        }
    }

    pub(super) fn reduced_of(&mut self, from: &Known) {
        let modes = self.modes(from.shape.len());
        let shape = Self::without(&from.shape, modes.as_ref());
        let kind = self.scene.random.pick(&["sum", "sum", "maximum", "minimum"]);
        let mut args = vec![name(&from.name)];
        args.extend(modes.map(|modes| ints(&modes)));
        let elem = if kind == "sum" { from.elem.accumulator() } else { from.elem };
        self.made(call(kind, args), elem, shape);
    }

    /// Reductions by closures, of one tile, or of a tile and its coordinates.
    fn folded(&mut self) {
        let Some(from) = self.pick(|known| known.shape.iter().product::<i64>() > 1) else { return };
        let modes = self.modes(from.shape.len());
        let shape = Self::without(&from.shape, modes.as_ref());
        let least = least(from.elem);
        let along = |call: Expr| match &modes {
            Some(modes) => with(call, "mode", ints(modes)),
            None => call,
        };
        if self.scene.random.chance(40) {
            let (neutral, body) = match self.scene.random.below(3) {
                0 => (literal(0.0, from.elem), binary(Binary::Add, name("a"), name("b"))),
                1 => (least, call("max", vec![name("a"), name("b")])),
                _ => (least, choice(binary(Binary::Gt, name("b"), name("a")), name("b"), name("a"))),
            };
            let made = along(call("reduce", vec![name(&from.name), neutral, closure(&["a", "b"], body)]));
            self.made(made, from.elem, shape);
            return;
        }
        // The largest element, and the first of its coordinates.
        let mode = self.scene.random.below(from.shape.len());
        let places = match from.placed && self.scene.random.chance(50) {
            true => {
                let at = super::super::tree::field("at", &mode.to_string());
                let made = call("map", vec![name(&from.name), closure(&["x", "at"], at)]);
                self.made(made, Elem::I32, from.shape.clone())
            }
            false => {
                let made = call("iota", vec![list_of(&from.shape), int(mode as i64)]);
                self.made(made, Elem::I32, from.shape.clone())
            }
        };
        let pair = |x: Expr, y: Expr| tuple(vec![x, y]);
        let tie = binary(
            Binary::And,
            binary(Binary::Eq, name("b"), name("a")),
            binary(Binary::Lt, name("j"), name("i")),
        );
        let wins = binary(Binary::Or, binary(Binary::Gt, name("b"), name("a")), tie);
        let body = choice(wins, pair(name("b"), name("j")), pair(name("a"), name("i")));
        let neutral = pair(least, int(2_147_483_647));
        let given = pair(name(&from.name), name(&places.name));
        let made = along(call("reduce", vec![given, neutral, pairs([["a", "i"], ["b", "j"]], body)]));
        let both = self.scene.bind("b", made);
        self.made(super::super::tree::field(&both, "0"), from.elem, shape.clone());
        self.made(super::super::tree::field(&both, "1"), Elem::I32, shape);
    }

    fn scanned(&mut self) {
        let Some(from) = self.pick(|_| true) else { return };
        let rank = from.shape.len();
        let modes = self.modes(rank);
        if self.scene.random.chance(20) {
            return self.composed(&from, modes);
        }
        let (neutral, body) = match self.scene.random.below(2) {
            0 => (literal(0.0, from.elem), binary(Binary::Add, name("a"), name("b"))),
            _ => (least(from.elem), call("max", vec![name("a"), name("b")])),
        };
        let mut made = call("scan", vec![name(&from.name), neutral, closure(&["a", "b"], body)]);
        if let Some(modes) = &modes {
            made = with(made, "mode", ints(modes));
        }
        if self.scene.random.chance(30) {
            made = with(made, "exclusive", truth(true));
        }
        if self.scene.random.chance(25) {
            let shape = Self::without(&from.shape, modes.as_ref());
            let carry = self.full(from.elem, &shape, 1.0);
            made = with(made, "carry", name(&carry.name));
        }
        self.made(made, from.elem, from.shape.clone());
    }

    /// Linear functions, composed: a scan of pairs, which does not commute.
    fn composed(&mut self, from: &Known, modes: Option<Vec<i64>>) {
        let slope = self.full(from.elem, &from.shape, 1.0);
        if self.scene.random.chance(50) {
            let value = self.scene.random.within(0, 2) as f64;
            let shape: Vec<i64> = from.shape.iter().map(|_| 1).collect();
            let one = self.full(from.elem, &shape, value);
            self.scene.push(assign(name(&slope.name), None, name(&one.name)));
        }
        let pair = |x: Expr, y: Expr| tuple(vec![x, y]);
        let product = |x: &str, y: &str| binary(Binary::Mul, name(x), name(y));
        let value = binary(Binary::Add, product("b", "i"), name("j"));
        let function = pairs([["a", "i"], ["b", "j"]], pair(product("a", "b"), value));
        let given = pair(name(&slope.name), name(&from.name));
        let neutral = pair(literal(1.0, from.elem), literal(0.0, from.elem));
        let mut made = call("scan", vec![given, neutral, function]);
        if let Some(modes) = &modes {
            made = with(made, "mode", ints(modes));
        }
        let both = self.scene.bind("b", made);
        self.made(super::super::tree::field(&both, "1"), from.elem, from.shape.clone());
    }

    /// A tile that was filled, changed by one that is repeated along some of its modes.
    pub(super) fn with_a_row(&mut self) {
        let (elem, shape) = (self.scene.elem(), self.frame.clone());
        let to = self.full(elem, &shape, 1.0);
        let mode = self.scene.random.below(shape.len());
        let one = |(at, n): (usize, i64)| if at == mode { 1 } else { n };
        let row = self.tile(elem, shape.iter().copied().enumerate().map(one).collect(), false);
        let update = assign(name(&to.name), Some(Binary::Add), name(&row.name));
        self.perhaps(40, vec![update]);
        self.examined(100, &to);
    }

    /// A tile in shared memory, to another view of itself.
    fn moved_within(&mut self) {
        let whole = |known: &Known| known.space == Space::Shared && known.name.starts_with("sh");
        let Some(of) = self.pick(whole) else { return self.through_shared() };
        let value = self.moved(&of);
        match self.scene.random.below(3) {
            0 => {
                let sum = binary(Binary::Add, name(&of.name), value);
                self.scene.push(assign(name(&of.name), None, sum));
            }
            1 => {
                let value = binary(Binary::Add, value, literal(1.0, of.elem));
                self.push(call("copy", vec![value, name(&of.name)]));
            }
            _ => self.push(call("copy", vec![value, name(&of.name)])),
        }
    }

    fn through_shared(&mut self) {
        let Some(from) = self.pick(|_| true) else { return };
        let elem = if self.scene.random.chance(80) { from.elem } else { self.scene.elem() };
        let to = match self.scene.random.chance(70) {
            true => {
                let made = typed("shared", elem, vec![list_of(&from.shape)]);
                self.scene.bind("sh", made)
            }
            false => self.scene.shared(elem, &from.shape),
        };
        match self.scene.random.below(5) {
            0 => {
                let value = self.function(std::slice::from_ref(&from), elem);
                self.scene.push(assign(name(&to), None, value));
            }
            1 => {
                let function = self.scene.closure(&[from.elem], elem);
                self.push(call("map", vec![name(&from.name), name(&to), function]));
            }
            _ => self.copy(&from.name, &to),
        }
        let shape = from.shape.clone();
        self.pool.push(Known { name: to, elem, shape, space: Space::Shared, own: None, placed: false });
    }

    /// Tiles without operands.
    fn numbered(&mut self) {
        let Some(like) = self.pick(|_| true) else { return };
        if self.scene.random.chance(60) {
            let mode = self.scene.random.below(like.shape.len());
            let mut args = vec![list_of(&like.shape)];
            if like.shape.len() > 1 || self.scene.random.chance(30) {
                args.push(int(mode as i64));
            }
            self.made(call("iota", args), Elem::I32, like.shape);
        } else {
            let elem = self.scene.elem();
            let value = self.scene.random.within(0, 3) as f64;
            self.full(elem, &like.shape, value);
        }
    }
}

/// The identity of a maximum.
pub(super) fn least(elem: Elem) -> Expr {
    let (least, _) = crate::number::range(elem);
    if elem.is_float() { float(f64::NEG_INFINITY) } else { int(least as i64) }
}
