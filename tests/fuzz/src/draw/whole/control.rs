//! Loops, conditions, pipelines.

use super::super::text::{cast, decide, last_mode, repeat, tuple, with};
use super::{Known, Space, Whole};

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
    fn within(&mut self, body: impl FnOnce(&mut Whole)) -> String {
        let known = self.pool.len();
        self.scene.bodies.push(String::new());
        body(self);
        self.pool.truncate(known);
        self.scene.bodies.pop().unwrap_or_default()
    }

    pub(super) fn in_loop(&mut self, var: &str, body: impl FnOnce(&mut Whole)) -> String {
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
            false => String::new(),
        };
        self.scene.push(decide(&condition, &then, &other));
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
                let at = cast(format!("at.{}", self.scene.random.below(of.shape.len())), of.elem);
                let op = self.scene.random.pick(&["+", "*"]);
                let made = self.mapped_to(of, "x, at", format!("x {op} {at}"));
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
        let op = self.scene.random.pick(&["", "+", "+", "-"]);
        self.scene.push(format!("{to} {op}= {value};"));
    }

    /// A loop over a few iterations, whose end may come from memory.
    fn counted_loop(&mut self) {
        let Some(to) = self.target() else { return };
        let var = self.scene.fresh("k");
        let end = self.scene.random.within(1, 4);
        let end = match self.scene.random.below(3) {
            0 => end.to_string(),
            1 => format!("min({}, {end})", self.scene.loaded(false)),
            _ => format!("min({}, {end})", self.scene.integer()),
        };
        let from = self.scene.random.weighted(&[(4, 0), (1, 1), (1, -1)]);
        let body = self.in_loop(&var, |whole| whole.updates(&to));
        self.scene.push(repeat(&var, &format!("{from}..{end}"), &body));
    }

    /// A mode of tiles, summed up.
    pub(super) fn repeated_over_tiles(&mut self) {
        let elem = self.scene.elem();
        let shape = self.frame.clone();
        let tiles = self.tile(elem, shape.clone(), true);
        let acc = self.full(elem, &shape, 0.0);
        let var = self.scene.fresh("k");
        let body = self.in_loop(&var, |whole| {
            let taken = whole.taken(&tiles, &var);
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
                let mut stage = "stage(1)".into();
                if whole.scene.random.chance(30) {
                    stage = with(stage, "order", whole.scene.random.within(0, 1));
                }
                whole.scene.push(format!("{stage};"));
            }
            let body = whole.within(|whole| whole.accumulates(&known, &acc));
            whole.perhaps(25, &body);
        });
        let all = self.span(&format!("{tiles}.size({})", shape.len()));
        self.scene.push(repeat(&var, &all, &body));
        self.examined(35, &acc);
    }

    fn accumulates(&mut self, from: &Known, acc: &Known) {
        let value = match self.scene.random.chance(50) {
            true => self.function(std::slice::from_ref(from), acc.elem),
            false => self.value_for(acc),
        };
        self.scene.push(format!("{acc} += {value};"));
    }

    /// `x[(_, _, k)]`
    fn taken(&mut self, tiles: &Known, var: &str) -> String {
        format!("{tiles}[{}]", last_mode(tiles.shape.len(), self.iteration(var)))
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
        let slot = self.shared(elem, &shape);
        let var = self.scene.fresh("k");
        let body = self.in_loop(&var, |whole| {
            let taken = whole.taken(&tiles, &var);
            match shape == tiles.shape {
                true => whole.copy(taken, &slot),
                false => whole.copy(format!("regroup({taken}, {})", tuple(&shape)), &slot),
            }
            whole.pool.push(slot.clone());
            if whole.scene.random.chance(15) {
                whole.step();
            }
            let body = whole.within(|whole| whole.accumulates(&slot, &acc));
            whole.perhaps(30, &body);
        });
        let all = self.span(&format!("{tiles}.size({})", tiles.shape.len()));
        let all = self.ahead(&all);
        self.scene.push(repeat(&var, &all, &body));
        self.examined(35, &acc);
    }
}
