//! Loops, conditions, pipelines.

use tilewright_codegen::ast::{Binary, Expr, Stmt};

use super::super::tree::{
    assign, binary, call, cast, closure, decide, field, hole, index, int, method, name, range, repeat, typed,
    with,
};
use super::{Known, Space, Whole, list_of};

impl Whole {
    pub(super) fn controlled(&mut self) {
        self.depth += 1;
        match self.scene.random.below(10) {
            0..3 => self.conditional(),
            3..6 => self.repeated_over_tiles(),
            6..8 => self.counted_loop(),
            8 if self.depth == 1 => self.pipelined(),
            9 if self.depth == 1 && self.frame.len() == 2 => self.product(false),
            _ => self.conditional(),
        }
        self.depth -= 1;
    }

    /// The statements of a block, whose tiles end with it.
    fn within(&mut self, body: impl FnOnce(&mut Whole)) -> Vec<Stmt> {
        let known = self.pool.len();
        self.scene.bodies.push(Vec::new());
        body(self);
        self.pool.truncate(known);
        self.scene.bodies.pop().unwrap_or_default()
    }

    pub(super) fn in_loop(&mut self, var: &str, body: impl FnOnce(&mut Whole)) -> Vec<Stmt> {
        self.scene.vars.push(var.to_owned());
        let body = self.within(body);
        self.scene.vars.pop();
        body
    }

    fn conditional(&mut self) {
        let Some(to) = self.target() else { return };
        let condition = self.decision();
        let then = self.within(|whole| whole.updates(&to));
        let other = match self.scene.random.chance(40) {
            true => self.within(|whole| whole.updates(&to)),
            false => Vec::new(),
        };
        self.scene.push(decide(condition, then, other));
        self.examined(30, &to);
    }

    /// Perhaps a statement that depends on the coordinates or the edges of a changed tile.
    pub(super) fn examined(&mut self, percent: u32, of: &Known) {
        if !self.scene.random.chance(percent) {
            return;
        }
        match self.scene.random.below(4) {
            0 => {
                self.masked(of);
            }
            1 | 2 => {
                let mode = self.scene.random.below(of.shape.len());
                let at = cast(field("at", &mode.to_string()), of.elem);
                let value = binary(self.scene.random.pick(&[Binary::Add, Binary::Mul]), name("x"), at);
                let made = call("map", vec![name(&of.name), closure(&["x", "at"], value)]);
                let made = self.made(made, of.elem, of.shape.clone());
                self.store(&made);
            }
            _ => self.reduced_of(of),
        }
    }

    /// A tile that blocks may change.
    fn target(&mut self) -> Option<Known> {
        match self.pick(|known| known.space != Space::Global) {
            Some(to) if self.scene.random.chance(60) => Some(to),
            _ => {
                let like = self.pick(|_| true)?;
                let elem = if self.scene.random.chance(80) { like.elem } else { self.scene.elem() };
                Some(self.full(elem, &like.shape, 0.0))
            }
        }
    }

    fn updates(&mut self, to: &Known) {
        for _ in 0..self.scene.random.below(2) {
            self.step();
        }
        let value = self.value_for(to);
        let op = self.scene.random.pick(&[None, Some(Binary::Add), Some(Binary::Add), Some(Binary::Sub)]);
        self.scene.push(assign(name(&to.name), op, value));
    }

    /// A loop over a few iterations, whose end may come from memory.
    fn counted_loop(&mut self) {
        let Some(to) = self.target() else { return };
        let var = self.scene.fresh("k");
        let end = int(self.scene.random.within(1, 4));
        let end = match self.scene.random.below(3) {
            0 => end,
            1 => {
                let loaded = self.scene.loaded(false);
                call("min", vec![loaded, end])
            }
            _ => {
                let integer = self.scene.integer();
                call("min", vec![integer, end])
            }
        };
        let from = int(self.scene.random.weighted(&[(4, 0), (1, 1), (1, -1)]));
        let body = self.in_loop(&var, |whole| whole.updates(&to));
        self.scene.push(repeat(&var, range(from, end), body));
    }

    /// A mode of tiles, summed up.
    pub(super) fn repeated_over_tiles(&mut self) {
        let elem = self.scene.elem();
        let shape = self.frame.clone();
        let tiles = self.tile(elem, shape.clone(), true);
        let acc = self.full(elem, &shape, 0.0);
        let var = self.scene.fresh("k");
        let body = self.in_loop(&var, |whole| {
            let at = whole.iteration(&var);
            let taken = whole.taken(&tiles, at);
            let bound = whole.scene.bind("f", taken);
            let known = Known { name: bound, ..tiles.clone() };
            whole.pool.push(known.clone());
            for _ in 0..whole.scene.random.below(2) {
                whole.step();
            }
            if whole.staged {
                let value = whole.function(std::slice::from_ref(&known), known.elem);
                whole.made(value, known.elem, known.shape.clone());
            }
            if whole.scene.random.chance(if whole.staged { 100 } else { 10 }) {
                let mut stage = call("stage", vec![int(1)]);
                if whole.scene.random.chance(30) {
                    stage = with(stage, "order", int(whole.scene.random.within(0, 1)));
                }
                whole.push(stage);
            }
            let body = whole.within(|whole| whole.accumulates(&known, &acc));
            whole.perhaps(25, body);
        });
        let end = method(name(&tiles.name), "size", vec![int(shape.len() as i64)]);
        let all = self.span(end);
        self.scene.push(repeat(&var, all, body));
        self.examined(35, &acc);
    }

    fn accumulates(&mut self, from: &Known, acc: &Known) {
        let value = match self.scene.random.chance(50) {
            true => self.function(std::slice::from_ref(from), acc.elem),
            false => self.value_for(acc),
        };
        self.scene.push(assign(name(&acc.name), Some(Binary::Add), value));
    }

    /// `x[(_, _, k)]`
    fn taken(&mut self, tiles: &Known, iteration: Expr) -> Expr {
        let mut at: Vec<Expr> = tiles.shape.iter().map(|_| hole()).collect();
        at.push(iteration);
        index(name(&tiles.name), at)
    }

    /// Copies to shared memory ahead of their use.
    fn pipelined(&mut self) {
        let shape = self.frame.clone();
        let elem = self.scene.elem();
        let tiles = self.tile(elem, shape.clone(), true);
        let acc = self.full(elem, &shape, 0.0);
        // Perhaps under another shape.
        let size: i64 = shape.iter().product();
        let (acc, shape) = match size > 1 && self.scene.random.chance(15) {
            true => {
                let shape = self.scene.split(size, 2);
                (self.full(elem, &shape, 0.0), shape)
            }
            false => (acc, shape),
        };
        let slot = typed("shared", elem, vec![list_of(&shape)]);
        let slot = self.scene.bind("sh", slot);
        let var = self.scene.fresh("k");
        let body = self.in_loop(&var, |whole| {
            let at = whole.iteration(&var);
            let taken = whole.taken(&tiles, at);
            let taken = match shape == tiles.shape {
                true => taken,
                false => call("regroup", vec![taken, list_of(&shape)]),
            };
            let copy = call("copy", vec![taken, name(&slot)]);
            whole.push(copy);
            let shape = shape.clone();
            let known =
                Known { name: slot.clone(), elem, shape, space: Space::Shared, own: None, placed: false };
            whole.pool.push(known.clone());
            if whole.scene.random.chance(15) {
                whole.step();
            }
            let body = whole.within(|whole| whole.accumulates(&known, &acc));
            whole.perhaps(30, body);
        });
        let end = method(name(&tiles.name), "size", vec![int(tiles.shape.len() as i64)]);
        let all = self.span(end);
        let all = self.ahead(all);
        self.scene.push(repeat(&var, all, body));
        self.examined(35, &acc);
    }
}
