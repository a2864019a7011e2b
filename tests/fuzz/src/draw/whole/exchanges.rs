//! Kernels whose lanes exchange elements, whose blocks wait for one another, or whose loops end by elements, and statements on
//! tuples of tiles.

use tilewright_codegen::Elem;

use super::super::scene::{Axis, Extent};
use super::super::text::{choice, decide, list, literal, repeat, tuple, with};
use super::{Known, Space, Whole};
use crate::case::ZERO;

impl Whole {
    pub(super) fn exchange(&mut self) {
        match self.scene.random.below(10) {
            0..4 => self.lanes(),
            4..6 => self.blocks(),
            _ => self.sequences(),
        }
        self.scene.number();
    }

    /// Parts of one element for each thread, which lanes exchange.
    fn lanes(&mut self) {
        let threads = self.scene.random.pick(&[32, 64, 128, 256]);
        self.scene.threads = threads;
        self.frame = vec![threads];
        let extent = self.scene.extent(threads);
        self.scene.axes.push(Axis { extent, tile: threads });
        self.scene.numbered = vec![false];
        for _ in 0..self.scene.random.within(1, 2) {
            let elem =
                self.scene.random.pick(&[Elem::I32, Elem::I32, Elem::U32, Elem::F32, Elem::I64, Elem::F64]);
            let tile = self.tile(elem, vec![threads], false);
            let part = self.part(&tile.name);
            let part = self.scene.bind("p", part);
            self.pool.clear();
            self.bounded(format!("map({part}, |x| x)"), elem, vec![threads]);
        }
        for _ in 0..self.scene.random.within(2, 5) {
            match self.scene.random.below(10) {
                0..4 => self.shuffled(),
                4..6 => self.voted(),
                6 | 7 => self.matched(),
                8 => self.totalled_over_lanes(),
                _ => self.combined_of_one_type(),
            }
        }
        for _ in 0..self.scene.random.within(1, 2) {
            let Some(from) = self.pick(|_| true) else { return };
            let to = self.result(from.elem, &from.shape);
            let to = self.part(&to.name);
            self.copy(from, to);
        }
    }

    pub(super) fn part(&self, tile: &str) -> String {
        format!("parallelize({tile}, layout!({}), thread.x)", self.scene.threads)
    }

    /// Makes a part known whose elements out of bounds are known.
    fn bounded(&mut self, value: String, elem: Elem, shape: Vec<i64>) -> Known {
        let made = self.made(value, elem, shape);
        if let Some(known) = self.pool.last_mut() {
            known.placed = true;
        }
        made
    }

    /// Perhaps of fewer lanes than a warp has.
    fn among(&mut self, of: String) -> String {
        let lanes = self.scene.random.weighted(&[(6, 32), (1, 16), (2, 8), (1, 4), (1, 2)]);
        if lanes == 32 { of } else { with(of, "lanes", lanes) }
    }

    /// The elements of other lanes, as a function of the lane, by a tile of integers, or of one lane.
    fn shuffled(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let by = self.scene.random.pick(&[1, 1, 2, 3, 4, 8, 16, 31]);
        let of = match self.scene.random.below(8) {
            0 | 1 => format!("|lane| lane ^ {by}"),
            2 => format!("|lane| lane + {by}"),
            3 => format!("|lane| lane - {by}"),
            4 => format!("|lane| max(lane - {by}, 0)"),
            5 => format!("|lane| lane * {by}"),
            6 => by.to_string(),
            _ => match self.pick(|known| known.elem == Elem::I32) {
                Some(lanes) => lanes.name,
                None => by.to_string(),
            },
        };
        let made = self.among(format!("warp_shuffle({x}, {of})"));
        self.made(made, x.elem, x.shape);
    }

    fn voted(&mut self) {
        let Some(x) = self.pick(|known| known.placed) else { return };
        let op = self.scene.random.pick(&["<", ">=", "==", "!="]);
        let limit = literal(self.scene.random.within(0, 3) as f64, x.elem);
        // Integers that a thread has are compared as integers, outside of closures.
        let votes = match x.elem.is_float() && self.scene.random.chance(50) {
            true => format!("{x} {op} {limit}"),
            false => format!("map({x}, |x| x {op} {limit})"),
        };
        let made = self.among(format!("warp_ballot({votes})"));
        let votes = self.made(made, Elem::U32, x.shape);
        if self.scene.random.chance(40) {
            self.made(format!("map({votes}, |x| count_ones(x) as i32)"), Elem::I32, votes.shape);
        }
    }

    fn matched(&mut self) {
        let fits = |known: &Known| known.placed && matches!(known.elem, Elem::I32 | Elem::U32);
        let Some(x) = self.pick(fits) else { return };
        let few = self.scene.random.within(2, 5);
        let x = self.mapped_to(&x, "x", format!("x % {few}"));
        let made = self.among(format!("warp_match({x})"));
        self.made(made, Elem::U32, x.shape);
    }

    fn totalled_over_lanes(&mut self) {
        let Some(x) = self.pick(|known| known.placed && !known.elem.is_float()) else { return };
        let function = self.scene.random.pick(&["warp_sum", "warp_maximum", "warp_minimum"]);
        let made = self.among(format!("{function}({x})"));
        self.made(made, x.elem, x.shape);
    }

    fn combined_of_one_type(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let y = self.pick(|known| known.elem == x.elem).unwrap_or_else(|| x.clone());
        let op = self.scene.random.pick(&["+", "-", "*"]);
        let made = format!("map(({x}, {y}), |a, b| a {op} b)");
        match x.placed && y.placed {
            true => self.bounded(made, x.elem, x.shape),
            false => self.made(made, x.elem, x.shape),
        };
    }

    /// A tensor of zeros, as flags and counts are at launch.
    fn zeros(&mut self, extent: i64) -> String {
        let to = self.scene.fresh(ZERO);
        self.scene.named_tensor(&to, Elem::I32, &[Extent::Int(extent)]);
        to
    }

    /// Blocks that are numbered as they begin. Each waits for the one before, or the last to arrive combines what all have.
    fn blocks(&mut self) {
        self.scene.threads = self.scene.random.pick(&[32, 64, 128]);
        self.set_threads();
        let tile = self.scene.random.pick(&[32, 33, 64, 100]);
        let count = self.scene.random.within(2, 5);
        let elem =
            self.scene.random.pick(&[Elem::I32, Elem::I32, Elem::U32, Elem::I64, Elem::U64, Elem::F32]);
        let extent = self.scene.extent(tile);
        let x = self.scene.tensor(elem, std::slice::from_ref(&extent), false);
        self.scene.bind("b", format!("walk({count}, block.x)"));
        let ticket = self.zeros(1);
        let order = if self.scene.random.chance(70) { ", order = \"relaxed\"" } else { "" };
        let begun = self.scene.bind("v", format!("copy(1, {ticket}, how = \"atomic_add\"{order})"));
        let t = self.scene.bind("t", format!("{begun}[0]"));
        let own = format!("tile({x}, {tile}, {t})");
        let ends = self.scene.tensor(elem, &[Extent::Int(count)], true);
        if self.scene.random.chance(40) {
            return self.last_block(&own, &ends, &t, elem, count);
        }
        let y = self.scene.tensor(elem, &[extent], true);
        let to = format!("tile({y}, {tile}, {t})");
        if elem != Elem::F32 && self.scene.random.chance(30) {
            return self.window(&own, &to, &t, elem, count);
        }
        let flags = self.zeros(count);
        if self.scene.random.chance(40) {
            // Each block adds the tile of the block before to its own.
            self.scene.push(format!("wait({flags}[{t} - 1], 1);"));
            let before = self.scene.bind("v", format!("map(tile({y}, {tile}, {t} - 1), |x| x)"));
            self.copy(format!("{own} + {before}"), to);
            self.scene.push(format!("signal({flags}[{t}]);"));
            return;
        }
        let is_unsigned = matches!(elem, Elem::U32 | Elem::U64);
        let greatest = is_unsigned && self.scene.random.chance(40);
        let both = |a: &str, b: &str| match greatest {
            true => format!("max({a}, {b})"),
            false => format!("{a} + {b}"),
        };
        let (values, end);
        if self.scene.random.chance(60) {
            let zero = literal(0.0, elem);
            end = self.scene.bind("v", format!("full::<{elem}>(1, {zero})"));
            let combine = both("a", "b");
            let scan = format!("scan({own}, {zero}, |a, b| {combine}, carry = {end})");
            values = self.scene.bind("v", scan);
        } else {
            values = self.scene.bind("v", format!("map({own}, |x| x)"));
            let total = if greatest { "maximum" } else { "sum" };
            end = self.scene.bind("v", format!("{total}({values})"));
        }
        self.scene.push(format!("wait({flags}[{t} - 1], 1);"));
        let before = self.scene.bind("v", format!("map(tile({ends}, 1, {t} - 1), |x| x)"));
        self.copy(both(&end, &before), format!("tile({ends}, 1, {t})"));
        self.scene.push(format!("signal({flags}[{t}]);"));
        self.copy(both(&values, &before), to);
    }

    /// The last block to arrive adds the sums of all.
    fn last_block(&mut self, own: &str, ends: &str, t: &str, elem: Elem, count: i64) {
        let (arrived, result) = (self.zeros(1), self.scene.tensor(elem, &[Extent::Int(1)], true));
        self.copy(format!("sum({own})"), format!("tile({ends}, 1, {t})"));
        let before = self.scene.bind("v", format!("copy(1, {arrived}, how = \"atomic_add\")"));
        let (total, k) = (self.scene.fresh("v"), self.scene.fresh("k"));
        let zero = literal(0.0, elem);
        let sums = repeat(&k, &format!("0..{count}"), &format!("{total} += tile({ends}, 1, {k});\n"));
        let body = format!("let {total} = full::<{elem}>(1, {zero});\n{sums}\ncopy({total}, {result});\n");
        self.scene.push(decide(&format!("{before}[0] == {}", count - 1), &body, ""));
    }

    /// Each block adds to its tile what the blocks before it have left: words that are positive once they are written.
    fn window(&mut self, own: &str, to: &str, t: &str, elem: Elem, count: i64) {
        let words = self.scene.fresh(ZERO);
        self.scene.named_tensor(&words, elem, &[Extent::Int(count)]);
        let total = self.scene.bind("v", format!("sum({own})"));
        let positive = format!("max(x, {}) + {}", literal(0.0, elem), literal(1.0, elem));
        let word = self.scene.bind("v", format!("map({total}, |x| {positive})"));
        self.scene.push(format!("copy({word}, tile({words}, 1, {t}), how = \"atomic_exchange\");"));
        let width = self.scene.random.within(1, count + 3);
        let before = format!("shift(tile({words}, {width}, 0), {t} - {width})");
        let order = if self.scene.random.chance(50) { ", order = \"relaxed\"" } else { "" };
        let seen = self.scene.bind("v", format!("wait({before}, 1{order})"));
        let total = self.scene.bind("v", format!("sum({seen})"));
        self.copy(format!("{own} + {total}"), to);
    }

    /// Loops over tuples, loops that end by elements, closures that take tuples of tiles, functions of few instructions, every
    /// second element.
    fn sequences(&mut self) {
        self.frame = self.shape();
        self.scene.threads = self.scene.random.pick(&[32, 64, 128, 256]);
        self.set_threads();
        self.axes();
        for _ in 0..2 {
            let elem = self.scene.random.pick(&[Elem::F32, Elem::F32, Elem::I32]);
            self.tile(elem, self.frame.clone(), false);
        }
        for _ in 0..self.scene.random.within(1, 3) {
            match self.scene.random.below(6) {
                0 => self.weighted(),
                1 => self.one_after_another(),
                2 => self.folded_tuples(),
                3 => self.until_elements_say(),
                4 => self.fast(),
                _ if self.frame.len() == 1 => self.every_second(),
                _ => self.folded_tuples(),
            }
        }
        if self.pool.iter().all(|known| known.space == Space::Global) {
            self.one_after_another();
        }
        for _ in 0..self.scene.random.within(1, 2) {
            if let Some(from) = self.pick(|known| known.space != Space::Global) {
                let to = self.result(from.elem, &from.shape);
                self.copy(from, to);
            }
        }
    }

    /// `for (o, w) in ((0, 1.0), (1, 2.0)) { acc += w * shift(x, o); }`
    fn weighted(&mut self) {
        let Some(x) = self.pick(|known| known.space == Space::Global && known.elem != Elem::Bool) else {
            return;
        };
        let to = self.full(x.elem, &x.shape, 0.0);
        let rank = x.shape.len();
        let taps = (0..self.scene.random.within(1, 3)).map(|_| {
            let offset = self.scene.random.within(-2, 3);
            format!("({offset}, {})", literal(self.scene.random.within(1, 3) as f64, x.elem))
        });
        let taps: Vec<String> = taps.collect();
        let mode = self.scene.random.below(rank);
        let by: Vec<&str> = (0..rank).map(|at| if at == mode { "o" } else { "0" }).collect();
        let add = format!("{to} += w * shift({x}, {});\n", tuple(&by));
        self.scene.push(repeat("(o, w)", &list(&taps), &add));
    }

    /// `for m in (x, y) { acc = acc + acc + m; }`
    fn one_after_another(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let to = self.full(x.elem, &x.shape, 0.0);
        let mut all = vec![x.clone()];
        for _ in 0..self.scene.random.within(0, 2) {
            all.extend(
                self.pick(|known| known.elem == x.elem && known.shape == x.shape && known.name != to.name),
            );
        }
        let op = self.scene.random.pick(&["+", "-"]);
        self.scene.push(repeat("m", &list(&all), &format!("{to} = {to} + {to} {op} m;\n")));
    }

    /// `map((pair, (x, y)), |(a, b), (c, d)| …)`
    fn folded_tuples(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let first = self.like(&x);
        let pair = self.scene.bind("s", format!("map(({x}, {first}), |a, b| (a + b, max(a, b)))"));
        let (c, d) = (self.like(&x), self.like(&x));
        let results = match self.scene.random.below(3) {
            0 => "(a - d, b + c)".into(),
            1 => "(a * c, min(b, d))".into(),
            _ => format!("({}, c - a)", choice("a < c", "b", "d")),
        };
        let folded = format!("map(({pair}, ({c}, {d})), |(a, b), (c, d)| {results})");
        let folded = self.scene.bind("s", folded);
        for entry in [0, 1] {
            self.made(format!("{folded}.{entry}"), x.elem, x.shape.clone());
        }
    }

    /// A loop whose end a tile of one element, an element of memory or a sum decides.
    fn until_elements_say(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let to = self.full(x.elem, &x.shape, 0.0);
        if self.scene.random.chance(35) && x.elem == Elem::I32 && x.space == Space::Global {
            // Counts down each element.
            let few = self.scene.random.within(2, 4);
            let left = self.scene.bind("v", format!("map({x}, |x| abs(x) % {few})"));
            let some = format!("sum({left}, out_of_bounds = 0)");
            let less = choice(format!("{left} > 0"), format!("{left} - 1"), &left);
            let (count, grow) = (format!("{left} = {less};\n"), format!("{to} += {left};\n"));
            let counts_down = match self.scene.random.chance(50) {
                true => format!("while {some} > 0 {{\n{grow}{count}}}"),
                false => {
                    format!("while true {{\nif {some} == 0 {{\nbreak;\n}}\n{grow}{count}}}")
                }
            };
            self.scene.push(counts_down);
            self.pool.push(Known { name: left, space: Space::Registers, own: None, placed: false, ..x });
            return;
        }
        let n = self.scene.bind("n", "full::<i32>(1, 0)");
        let extent = self.scene.random.within(1, 3);
        let table = self.scene.tensor(Elem::I32, &[Extent::Int(extent)], false);
        let element = self.scene.random.within(0, extent - 1);
        let end = match self.scene.random.below(3) {
            0 => self.scene.random.within(0, 3).to_string(),
            _ => format!("{table}[{element}] % 4"),
        };
        let body = format!("{to} += {x};\n{n} += 1;\n");
        let counts_up = match self.scene.random.chance(50) {
            true => format!("while {n}[0] < {end} {{\n{body}}}"),
            false => format!("while true {{\nif {n}[0] >= {end} {{\nbreak;\n}}\n{body}}}"),
        };
        self.scene.push(counts_up);
    }

    /// A function of few instructions.
    fn fast(&mut self) {
        let Some(x) = self.pick(|known| known.elem == Elem::F32) else { return };
        let value = match self.scene.random.below(8) {
            0 => "fast_exp(x * 0.125)",
            1 => "fast_log(abs(x) + 1.0)",
            2 => "fast_log2(abs(x) + 1.0)",
            3 => "fast_sqrt(abs(x) + 1.0)",
            4 => "fast_tanh(x * 0.125)",
            5 => "fast_sin(x * 0.125)",
            6 => "fast_cos(x * 0.125)",
            _ => "fast_div(x, abs(x) + 1.0)",
        };
        self.mapped_to(&x, "x", value);
    }

    /// `regroup(tile(x, 512, …), (2, 256))[(0, _)]`
    fn every_second(&mut self) {
        let steps = self.scene.random.within(2, 4);
        let n = self.frame[0];
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32, Elem::F16]);
        let extent = self.scene.extent(steps * n);
        let tensor = self.scene.tensor(elem, &[extent], false);
        let at = self.scene.random.weighted(&[(4, 0), (1, 1)]);
        let which = self.scene.random.within(0, steps - 1);
        let tile = format!("tile({tensor}, {}, {at})", steps * n);
        let slice = self.scene.bind("x", format!("regroup({tile}, ({steps}, {n}))[({which}, _)]"));
        self.made(format!("map({slice}, |x| x + {})", literal(1.0, elem)), elem, vec![n]);
    }
}
