//! Statements that compute tiles from tiles.

use std::fmt::Display;

use tilewright_codegen::Elem;

use super::super::text::{as_elem, cast, choice, commas, literal, tuple, with};
use super::{Known, Space, Whole, joint};

/// The largest element, and the first of its coordinates.
const FIRST_LARGEST: &str = "|(a, i), (b, j)| if (b > a) | ((b == a) & (j < i)) { (b, j) } else { (a, i) }";

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
    pub(super) fn function(&mut self, operands: &[Known], elem: Elem) -> String {
        let named: Vec<(&str, Elem)> =
            operands.iter().map(|known| (known.name.as_str(), known.elem)).collect();
        let depth = self.scene.random.within(0, 3) as u32;
        let all = operands.iter().map(|known| as_elem(known, known.elem, elem)).reduce(|x, y| {
            let op = self.scene.random.pick(&["+", "-", "+"]);
            format!("({x} {op} {y})")
        });
        let Some(all) = all else { return literal(1.0, elem) };
        if depth == 0 {
            return all;
        }
        let more = self.scene.function(&named, elem, depth);
        match self.scene.random.below(4) {
            0 => {
                let how = self.scene.random.pick(&["<", ">=", "=="]);
                let limit = literal(self.scene.random.within(0, 2) as f64, elem);
                let condition = format!("({all} {how} {limit})");
                match self.scene.random.below(3) {
                    0 => format!("select({condition}, {more}, {all})"),
                    1 => choice(condition, more, all),
                    _ => format!("({} + {more})", cast(condition, elem)),
                }
            }
            1 => format!("{}({all}, {more})", self.scene.random.pick(&["min", "max"])),
            2 => format!("({all} + {more})"),
            _ => format!("({more} - {all})"),
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
        let (given, params) = (tuple(&all), commas(params));
        if self.scene.random.chance(15) {
            let second = self.scene.elem();
            let other = cast(self.scene.function(&elems, second, 1), second);
            let both = self.scene.bind("b", format!("map({given}, |{params}| ({value}, {other}))"));
            self.made(format!("{both}.0"), elem, shape.clone());
            self.made(format!("{both}.1"), second, shape);
            return;
        }
        self.made(format!("map({given}, |{params}| {value})"), elem, shape);
    }

    /// A condition on coordinates.
    pub(super) fn mask(&mut self, rank: usize) -> String {
        let left = self.scene.random.below(rank);
        let right = match self.scene.random.below(3) {
            0 => format!("at.{}", self.scene.random.below(rank)),
            1 => self.scene.random.within(0, 40).to_string(),
            _ => format!("(at.{} % {})", self.scene.random.below(rank), self.scene.random.within(2, 5)),
        };
        format!("(at.{left} {} {right})", self.scene.random.pick(&["<", ">=", "=="]))
    }

    /// `v += x;` and its like.
    pub(super) fn changed(&mut self) {
        let Some(to) = self.pick(|known| known.space != Space::Global) else { return self.operators() };
        let value = self.value_for(&to);
        let op = self.scene.random.pick(&["", "+", "-", "+"]);
        self.scene.push(format!("{to} {op}= {value};"));
    }

    /// An expression that is broadcast to a tile.
    pub(super) fn value_for(&mut self, to: &Known) -> String {
        match self.pick(|known| joint(&known.shape, &to.shape).as_ref() == Some(&to.shape)) {
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
        let along = modes.map_or(String::new(), |modes| format!(", {}", tuple(&modes)));
        let elem = if kind == "sum" { from.elem.accumulator() } else { from.elem };
        self.made(format!("{kind}({from}{along})"), elem, shape);
    }

    /// Reductions by closures, of one tile, or of a tile and its coordinates.
    fn folded(&mut self) {
        let Some(from) = self.pick(|known| known.shape.iter().product::<i64>() > 1) else { return };
        let modes = self.modes(from.shape.len());
        let shape = Self::without(&from.shape, modes.as_ref());
        let least = least(from.elem);
        let along = modes.map_or(String::new(), |modes| format!(", mode = {}", tuple(&modes)));
        if self.scene.random.chance(40) {
            let (neutral, body) = match self.scene.random.below(3) {
                0 => (literal(0.0, from.elem), "a + b"),
                1 => (least, "max(a, b)"),
                _ => (least, "if b > a { b } else { a }"),
            };
            self.made(format!("reduce({from}, {neutral}, |a, b| {body}{along})"), from.elem, shape);
            return;
        }
        let mode = self.scene.random.below(from.shape.len());
        let places = match from.placed && self.scene.random.chance(50) {
            true => format!("map({from}, |x, at| at.{mode})"),
            false => format!("iota({}, {mode})", tuple(&from.shape)),
        };
        let places = self.made(places, Elem::I32, from.shape.clone());
        let neutral = format!("({least}, 2147483647)");
        let made = format!("reduce(({from}, {places}), {neutral}, {FIRST_LARGEST}{along})");
        let both = self.scene.bind("b", made);
        self.made(format!("{both}.0"), from.elem, shape.clone());
        self.made(format!("{both}.1"), Elem::I32, shape);
    }

    fn scanned(&mut self) {
        let Some(from) = self.pick(|_| true) else { return };
        let rank = from.shape.len();
        let modes = self.modes(rank);
        if self.scene.random.chance(20) {
            return self.composed(&from, modes);
        }
        let (neutral, body) = match self.scene.random.below(2) {
            0 => (literal(0.0, from.elem), "a + b"),
            _ => (least(from.elem), "max(a, b)"),
        };
        let mut made = format!("scan({from}, {neutral}, |a, b| {body})");
        if let Some(modes) = &modes {
            made = with(made, "mode", tuple(modes));
        }
        if self.scene.random.chance(30) {
            made = with(made, "exclusive", true);
        }
        if self.scene.random.chance(25) {
            let shape = Self::without(&from.shape, modes.as_ref());
            made = with(made, "carry", self.full(from.elem, &shape, 1.0));
        }
        self.made(made, from.elem, from.shape.clone());
    }

    /// Linear functions, composed: a scan of pairs, which does not commute.
    fn composed(&mut self, from: &Known, modes: Option<Vec<i64>>) {
        let slope = self.full(from.elem, &from.shape, 1.0);
        if self.scene.random.chance(50) {
            let value = self.scene.random.within(0, 2) as f64;
            let one = self.full(from.elem, &vec![1; from.shape.len()], value);
            self.scene.push(format!("{slope} = {one};"));
        }
        let neutral = format!("({}, {})", literal(1.0, from.elem), literal(0.0, from.elem));
        let function = "|(a, i), (b, j)| (a * b, b * i + j)";
        let mut made = format!("scan(({slope}, {from}), {neutral}, {function})");
        if let Some(modes) = &modes {
            made = with(made, "mode", tuple(modes));
        }
        let both = self.scene.bind("b", made);
        self.made(format!("{both}.1"), from.elem, from.shape.clone());
    }

    /// A tile that was filled, changed by one that is repeated along some of its modes.
    pub(super) fn with_a_row(&mut self) {
        let (elem, shape) = (self.scene.elem(), self.frame.clone());
        let to = self.full(elem, &shape, 1.0);
        let mode = self.scene.random.below(shape.len());
        let one = |(at, n): (usize, i64)| if at == mode { 1 } else { n };
        let row = self.tile(elem, shape.iter().copied().enumerate().map(one).collect(), false);
        self.perhaps(40, &format!("{to} += {row};\n"));
        self.examined(100, &to);
    }

    /// A tile in shared memory, to another view of itself.
    fn moved_within(&mut self) {
        let whole = |known: &Known| known.space == Space::Shared && known.name.starts_with("sh");
        let Some(of) = self.pick(whole) else { return self.through_shared() };
        let value = self.moved(&of);
        match self.scene.random.below(3) {
            0 => self.scene.push(format!("{of} = {of} + {value};")),
            1 => self.copy(format!("{value} + {}", literal(1.0, of.elem)), &of),
            _ => self.copy(value, &of),
        }
    }

    fn through_shared(&mut self) {
        let Some(from) = self.pick(|_| true) else { return };
        let elem = if self.scene.random.chance(80) { from.elem } else { self.scene.elem() };
        let to = match self.scene.random.chance(70) {
            true => self.shared(elem, &from.shape),
            false => {
                let (name, shape) = (self.scene.shared(elem, &from.shape), from.shape.clone());
                Known { name, elem, shape, space: Space::Shared, own: None, placed: false }
            }
        };
        match self.scene.random.below(5) {
            0 => {
                let value = self.function(std::slice::from_ref(&from), elem);
                self.scene.push(format!("{to} = {value};"));
            }
            1 => {
                let function = self.scene.closure(&[from.elem], elem);
                self.scene.push(format!("map({from}, {to}, {function});"));
            }
            _ => self.copy(&from, &to),
        }
        self.pool.push(to);
    }

    /// Tiles without operands.
    fn numbered(&mut self) {
        let Some(like) = self.pick(|_| true) else { return };
        if self.scene.random.chance(60) {
            let mode = self.scene.random.below(like.shape.len());
            let shape = tuple(&like.shape);
            let iota = match like.shape.len() > 1 || self.scene.random.chance(30) {
                true => format!("iota({shape}, {mode})"),
                false => format!("iota({shape})"),
            };
            self.made(iota, Elem::I32, like.shape);
        } else {
            let elem = self.scene.elem();
            let value = self.scene.random.within(0, 3) as f64;
            self.full(elem, &like.shape, value);
        }
    }

    /// `map(x, |x| value)`
    pub(super) fn mapped_to(&mut self, of: &Known, params: &str, value: impl Display) -> Known {
        self.made(format!("map({of}, |{params}| {value})"), of.elem, of.shape.clone())
    }
}

/// The identity of a maximum.
pub(super) fn least(elem: Elem) -> String {
    literal(crate::number::range(elem).0, elem)
}
