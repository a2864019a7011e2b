//! Kernels whose lanes exchange elements, whose blocks wait for one another, or whose loops end by elements, and statements on
//! tuples of tiles.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Binary, Expr, Pattern, Span, Stmt, StmtKind};

use super::super::scene::{Axis, Extent};
use super::super::tree::{
    assign, binary, call, cast, choice, closure, decide, effect, field, hole, index, int, layout, list,
    literal, name, pairs, stmt, text, truth, tuple, typed, with, word,
};
use super::{Known, Space, Whole, list_of};
use crate::case::ZERO;

const NOWHERE: Span = Span(0);

/// `while condition { … }`
fn while_true(condition: Expr, body: Vec<Stmt>) -> Stmt {
    stmt(StmtKind::While { condition, body })
}

/// `for (a, b) in ((…), (…)) { … }`, or with one name.
fn for_each(names: &[&str], values: Vec<Expr>, body: Vec<Stmt>) -> Stmt {
    let mut names: Vec<Pattern> = names.iter().map(|name| Pattern::Name(word(name))).collect();
    let pattern = match names.len() {
        1 => names.remove(0),
        _ => Pattern::Tuple(NOWHERE, names),
    };
    stmt(StmtKind::For { pattern, range: list(values), body })
}

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
            let own = call("map", vec![name(&part), closure(&["x"], name("x"))]);
            self.bounded(own, elem, vec![threads]);
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
            self.push(call("copy", vec![name(&from.name), to]));
        }
    }

    fn part(&self, tile: &str) -> Expr {
        call("parallelize", vec![name(tile), layout(int(self.scene.threads), None), field("thread", "x")])
    }

    /// Makes a part known whose elements out of bounds are known.
    fn bounded(&mut self, value: Expr, elem: Elem, shape: Vec<i64>) -> Known {
        let made = self.made(value, elem, shape);
        if let Some(known) = self.pool.last_mut() {
            known.placed = true;
        }
        made
    }

    /// Perhaps of fewer lanes than a warp has.
    fn among(&mut self, of: Expr) -> Expr {
        let lanes = self.scene.random.weighted(&[(6, 32), (1, 16), (2, 8), (1, 4), (1, 2)]);
        if lanes == 32 { of } else { with(of, "lanes", int(lanes)) }
    }

    /// The elements of other lanes, as a function of the lane, by a tile of integers, or of one lane.
    fn shuffled(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let by = int(self.scene.random.pick(&[1, 1, 2, 3, 4, 8, 16, 31]));
        let lane = name("lane");
        let of = match self.scene.random.below(8) {
            0 | 1 => closure(&["lane"], binary(Binary::Xor, lane, by)),
            2 => closure(&["lane"], binary(Binary::Add, lane, by)),
            3 => closure(&["lane"], binary(Binary::Sub, lane, by)),
            4 => closure(&["lane"], call("max", vec![binary(Binary::Sub, lane, by), int(0)])),
            5 => closure(&["lane"], binary(Binary::Mul, lane, by)),
            6 => by,
            _ => match self.pick(|known| known.elem == Elem::I32) {
                Some(lanes) => name(&lanes.name),
                None => by,
            },
        };
        let made = self.among(call("warp_shuffle", vec![name(&x.name), of]));
        self.made(made, x.elem, x.shape);
    }

    fn voted(&mut self) {
        let Some(x) = self.pick(|known| known.placed) else { return };
        let op = self.scene.random.pick(&[Binary::Lt, Binary::Ge, Binary::Eq, Binary::Ne]);
        let limit = literal(self.scene.random.within(0, 3) as f64, x.elem);
        // Integers that a thread has are compared as integers, outside of closures.
        let votes = match x.elem.is_float() && self.scene.random.chance(50) {
            true => binary(op, name(&x.name), limit),
            false => call("map", vec![name(&x.name), closure(&["x"], binary(op, name("x"), limit))]),
        };
        let made = self.among(call("warp_ballot", vec![votes]));
        let votes = self.made(made, Elem::U32, x.shape);
        if self.scene.random.chance(40) {
            let count = cast(call("count_ones", vec![name("x")]), Elem::I32);
            self.made(call("map", vec![name(&votes.name), closure(&["x"], count)]), Elem::I32, votes.shape);
        }
    }

    fn matched(&mut self) {
        let fits = |known: &Known| known.placed && matches!(known.elem, Elem::I32 | Elem::U32);
        let Some(x) = self.pick(fits) else { return };
        let few = literal(self.scene.random.within(2, 5) as f64, x.elem);
        let few = binary(Binary::Rem, name("x"), few);
        let x = self.made(call("map", vec![name(&x.name), closure(&["x"], few)]), x.elem, x.shape);
        let made = self.among(call("warp_match", vec![name(&x.name)]));
        self.made(made, Elem::U32, x.shape);
    }

    fn totalled_over_lanes(&mut self) {
        let Some(x) = self.pick(|known| known.placed && !known.elem.is_float()) else { return };
        let function = self.scene.random.pick(&["warp_sum", "warp_maximum", "warp_minimum"]);
        let made = self.among(call(function, vec![name(&x.name)]));
        self.made(made, x.elem, x.shape);
    }

    fn combined_of_one_type(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let y = self.pick(|known| known.elem == x.elem).unwrap_or_else(|| x.clone());
        let op = self.scene.random.pick(&[Binary::Add, Binary::Sub, Binary::Mul]);
        let given = tuple(vec![name(&x.name), name(&y.name)]);
        let value = binary(op, name("a"), name("b"));
        let made = call("map", vec![given, closure(&["a", "b"], value)]);
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
        self.keys.push(Arg { name: Some(word("threads")), value: int(self.scene.threads) });
        let tile = self.scene.random.pick(&[32, 33, 64, 100]);
        let count = self.scene.random.within(2, 5);
        let elem =
            self.scene.random.pick(&[Elem::I32, Elem::I32, Elem::U32, Elem::I64, Elem::U64, Elem::F32]);
        let extent = self.scene.extent(tile);
        let x = self.scene.tensor(elem, std::slice::from_ref(&extent), false);
        let walk = call("walk", vec![int(count), field("block", "x")]);
        self.scene.bind("b", walk);
        let ticket = self.zeros(1);
        let begins = with(call("copy", vec![int(1), name(&ticket)]), "how", text("atomic_add"));
        let begins = match self.scene.random.chance(70) {
            true => with(begins, "order", text("relaxed")),
            false => begins,
        };
        let begun = self.scene.bind("v", begins);
        let t = self.scene.bind("t", index(name(&begun), vec![int(0)]));
        let tile_of = |of: &str, at: Expr| call("tile", vec![name(of), int(tile), at]);
        let one_of = |of: &str, at: Expr| call("tile", vec![name(of), int(1), at]);
        let ends = self.scene.tensor(elem, &[Extent::Int(count)], true);
        if self.scene.random.chance(40) {
            let (arrived, result) = (self.zeros(1), self.scene.tensor(elem, &[Extent::Int(1)], true));
            let own = call("sum", vec![tile_of(&x, name(&t))]);
            self.push(call("copy", vec![own, one_of(&ends, name(&t))]));
            let arrives = with(call("copy", vec![int(1), name(&arrived)]), "how", text("atomic_add"));
            let before = self.scene.bind("v", arrives);
            let total = self.scene.fresh("v");
            let full = typed("full", elem, vec![int(1), literal(0.0, elem)]);
            let var = self.scene.fresh("k");
            let add = assign(name(&total), Some(Binary::Add), one_of(&ends, name(&var)));
            let last = binary(Binary::Eq, index(name(&before), vec![int(0)]), int(count - 1));
            let body = vec![
                super::super::tree::bind(&total, full),
                super::super::tree::repeat(&var, super::super::tree::range(int(0), int(count)), vec![add]),
                effect(call("copy", vec![name(&total), name(&result)])),
            ];
            self.scene.push(decide(last, body, Vec::new()));
            return;
        }
        let y = self.scene.tensor(elem, &[extent], true);
        if elem != Elem::F32 && self.scene.random.chance(30) {
            return self.window(&x, &y, &t, elem, tile, count);
        }
        let flags = self.zeros(count);
        let before_t = || binary(Binary::Sub, name(&t), int(1));
        if self.scene.random.chance(40) {
            // Each block adds the tile of the block before to its own.
            self.push(call("wait", vec![index(name(&flags), vec![before_t()]), int(1)]));
            let before = call("map", vec![tile_of(&y, before_t()), closure(&["x"], name("x"))]);
            let before = self.scene.bind("v", before);
            let both = binary(Binary::Add, tile_of(&x, name(&t)), name(&before));
            self.push(call("copy", vec![both, tile_of(&y, name(&t))]));
            self.push(call("signal", vec![index(name(&flags), vec![name(&t)])]));
            return;
        }
        let is_unsigned = matches!(elem, Elem::U32 | Elem::U64);
        let greatest = is_unsigned && self.scene.random.chance(40);
        let both = |a: Expr, b: Expr| match greatest {
            true => call("max", vec![a, b]),
            false => binary(Binary::Add, a, b),
        };
        let zero = literal(0.0, elem);
        let (own, end);
        if self.scene.random.chance(60) {
            let carry = self.scene.bind("v", typed("full", elem, vec![int(1), zero.clone()]));
            let combine = closure(&["a", "b"], both(name("a"), name("b")));
            let scan = call("scan", vec![tile_of(&x, name(&t)), zero, combine]);
            own = self.scene.bind("v", with(scan, "carry", name(&carry)));
            end = carry;
        } else {
            let total = if greatest { "maximum" } else { "sum" };
            own = self.scene.bind("v", call("map", vec![tile_of(&x, name(&t)), closure(&["x"], name("x"))]));
            end = self.scene.bind("v", call(total, vec![name(&own)]));
        }
        self.push(call("wait", vec![index(name(&flags), vec![before_t()]), int(1)]));
        let before = call("map", vec![one_of(&ends, before_t()), closure(&["x"], name("x"))]);
        let before = self.scene.bind("v", before);
        self.push(call("copy", vec![both(name(&end), name(&before)), one_of(&ends, name(&t))]));
        self.push(call("signal", vec![index(name(&flags), vec![name(&t)])]));
        self.push(call("copy", vec![both(name(&own), name(&before)), tile_of(&y, name(&t))]));
    }

    /// Each block adds to its tile what the blocks before it have left: words that are positive once they are written.
    fn window(&mut self, x: &str, y: &str, t: &str, elem: Elem, tile: i64, count: i64) {
        let words = self.scene.fresh(ZERO);
        self.scene.named_tensor(&words, elem, &[Extent::Int(count)]);
        let own = call("sum", vec![call("tile", vec![name(x), int(tile), name(t)])]);
        let own = self.scene.bind("v", own);
        let positive =
            binary(Binary::Add, call("max", vec![name("x"), literal(0.0, elem)]), literal(1.0, elem));
        let word = self.scene.bind("v", call("map", vec![name(&own), closure(&["x"], positive)]));
        let to = call("tile", vec![name(&words), int(1), name(t)]);
        self.push(with(call("copy", vec![name(&word), to]), "how", text("atomic_exchange")));
        let width = self.scene.random.within(1, count + 3);
        let by = tuple(vec![binary(Binary::Sub, name(t), int(width))]);
        let before = call("shift", vec![call("tile", vec![name(&words), int(width), int(0)]), by]);
        let waits = call("wait", vec![before, int(1)]);
        let waits = match self.scene.random.chance(50) {
            true => with(waits, "order", text("relaxed")),
            false => waits,
        };
        let seen = self.scene.bind("v", waits);
        let total = self.scene.bind("v", call("sum", vec![name(&seen)]));
        let both = binary(Binary::Add, call("tile", vec![name(x), int(tile), name(t)]), name(&total));
        self.push(call("copy", vec![both, call("tile", vec![name(y), int(tile), name(t)])]));
    }

    /// Loops over tuples, loops that end by elements, closures that take tuples of tiles, functions of few instructions, every
    /// second element.
    fn sequences(&mut self) {
        self.frame = self.shape();
        self.scene.threads = self.scene.random.pick(&[32, 64, 128, 256]);
        self.keys.push(Arg { name: Some(word("threads")), value: int(self.scene.threads) });
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
                self.copy(&from.name, &to.name);
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
            let offset = int(self.scene.random.within(-2, 3));
            list(vec![offset, literal(self.scene.random.within(1, 3) as f64, x.elem)])
        });
        let taps: Vec<Expr> = taps.collect();
        let mode = self.scene.random.below(rank);
        let by = (0..rank).map(|at| if at == mode { name("o") } else { int(0) }).collect();
        let shifted = call("shift", vec![name(&x.name), tuple(by)]);
        let add = assign(name(&to.name), Some(Binary::Add), binary(Binary::Mul, name("w"), shifted));
        self.scene.push(for_each(&["o", "w"], taps, vec![add]));
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
        let op = self.scene.random.pick(&[Binary::Add, Binary::Sub]);
        let values = all.iter().map(|of| name(&of.name)).collect();
        let twice = binary(Binary::Add, name(&to.name), name(&to.name));
        let update = assign(name(&to.name), None, binary(op, twice, name("m")));
        self.scene.push(for_each(&["m"], values, vec![update]));
    }

    /// `map((pair, (x, y)), |(a, b), (c, d)| …)`
    fn folded_tuples(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let like = |whole: &mut Whole| {
            let other = whole.pick(|known| known.elem == x.elem && known.shape == x.shape);
            name(&other.unwrap_or_else(|| x.clone()).name)
        };
        let first = list(vec![name(&x.name), like(self)]);
        let pair = self.scene.bind(
            "s",
            call(
                "map",
                vec![
                    first,
                    closure(&["a", "b"], {
                        let sum = binary(Binary::Add, name("a"), name("b"));
                        list(vec![sum, call("max", vec![name("a"), name("b")])])
                    }),
                ],
            ),
        );
        let second = list(vec![like(self), like(self)]);
        let given = list(vec![name(&pair), second]);
        let (u, v) = match self.scene.random.below(3) {
            0 => (binary(Binary::Sub, name("a"), name("d")), binary(Binary::Add, name("b"), name("c"))),
            1 => (binary(Binary::Mul, name("a"), name("c")), call("min", vec![name("b"), name("d")])),
            _ => (
                choice(binary(Binary::Lt, name("a"), name("c")), name("b"), name("d")),
                binary(Binary::Sub, name("c"), name("a")),
            ),
        };
        let folded = call("map", vec![given, pairs([["a", "b"], ["c", "d"]], list(vec![u, v]))]);
        let folded = self.scene.bind("s", folded);
        for entry in ["0", "1"] {
            self.made(field(&folded, entry), x.elem, x.shape.clone());
        }
    }

    /// A loop whose end a tile of one element, an element of memory or a sum decides.
    fn until_elements_say(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let to = self.full(x.elem, &x.shape, 0.0);
        let update = assign(name(&to.name), Some(Binary::Add), name(&x.name));
        if self.scene.random.chance(35) && x.elem == Elem::I32 && x.space == Space::Global {
            // Counts down each element.
            let few = literal(self.scene.random.within(2, 4) as f64, x.elem);
            let few = binary(Binary::Rem, call("abs", vec![name("x")]), few);
            let left = self.scene.bind("v", call("map", vec![name(&x.name), closure(&["x"], few)]));
            let known =
                Known { name: left.clone(), space: Space::Registers, own: None, placed: false, ..x.clone() };
            let some = || with(call("sum", vec![name(&left)]), "out_of_bounds", int(0));
            let less = choice(
                binary(Binary::Gt, name(&left), int(0)),
                binary(Binary::Sub, name(&left), int(1)),
                name(&left),
            );
            let count = assign(name(&left), None, less);
            let grow = assign(name(&to.name), Some(Binary::Add), name(&left));
            match self.scene.random.chance(50) {
                true => {
                    self.scene.push(while_true(binary(Binary::Gt, some(), int(0)), vec![grow, count]));
                }
                false => {
                    let stop = stmt(StmtKind::Break);
                    let ends = decide(binary(Binary::Eq, some(), int(0)), vec![stop], Vec::new());
                    self.scene.push(while_true(truth(true), vec![ends, grow, count]));
                }
            }
            self.pool.push(known);
            return;
        }
        let n = self.scene.bind("n", typed("full", Elem::I32, vec![int(1), int(0)]));
        let extent = self.scene.random.within(1, 3);
        let table = self.scene.tensor(Elem::I32, &[Extent::Int(extent)], false);
        let element = index(name(&table), vec![int(self.scene.random.within(0, extent - 1))]);
        let end = match self.scene.random.below(3) {
            0 => int(self.scene.random.within(0, 3)),
            _ => binary(Binary::Rem, element, int(4)),
        };
        let one = || index(name(&n), vec![int(0)]);
        let count = assign(name(&n), Some(Binary::Add), int(1));
        match self.scene.random.chance(50) {
            true => self.scene.push(while_true(binary(Binary::Lt, one(), end), vec![update, count])),
            false => {
                let stop = stmt(StmtKind::Break);
                let ends = decide(binary(Binary::Ge, one(), end), vec![stop], Vec::new());
                self.scene.push(while_true(truth(true), vec![ends, update, count]));
            }
        }
    }

    /// A function of few instructions.
    fn fast(&mut self) {
        let Some(x) = self.pick(|known| known.elem == Elem::F32) else { return };
        let own = || binary(Binary::Mul, name("x"), literal(0.125, Elem::F32));
        let above = || binary(Binary::Add, call("abs", vec![name("x")]), literal(1.0, Elem::F32));
        let value = match self.scene.random.below(8) {
            0 => call("fast_exp", vec![own()]),
            1 => call("fast_log", vec![above()]),
            2 => call("fast_log2", vec![above()]),
            3 => call("fast_sqrt", vec![above()]),
            4 => call("fast_tanh", vec![own()]),
            5 => call("fast_sin", vec![own()]),
            6 => call("fast_cos", vec![own()]),
            _ => call("fast_div", vec![name("x"), above()]),
        };
        self.made(call("map", vec![name(&x.name), closure(&["x"], value)]), Elem::F32, x.shape);
    }

    /// `regroup(tile(x, 512, …), (2, 256))[(0, _)]`
    fn every_second(&mut self) {
        let steps = self.scene.random.within(2, 4);
        let n = self.frame[0];
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32, Elem::F16]);
        let extent = self.scene.extent(steps * n);
        let tensor = self.scene.tensor(elem, &[extent], false);
        let at = int(self.scene.random.weighted(&[(4, 0), (1, 1)]));
        let tile = call("tile", vec![name(&tensor), int(steps * n), at]);
        let grouped = call("regroup", vec![tile, list_of(&[steps, n])]);
        let which = int(self.scene.random.within(0, steps - 1));
        let slice = self.scene.bind("x", index(grouped, vec![which, hole()]));
        let one = literal(1.0, elem);
        let value = binary(Binary::Add, name("x"), one);
        self.made(call("map", vec![name(&slice), closure(&["x"], value)]), elem, vec![n]);
    }
}
