//! Tiles that are read and written through overlapping views: a statement reads what earlier statements have written.

use tilewright_codegen::ast::{Binary, Expr};

use super::super::scene::Extent;
use super::super::tree::{
    assign, binary, call, closure, decide, hole, index, int, ints, list, literal, method, name, repeat,
    tuple, typed,
};
use super::{Known, Space, Whole, list_of};

/// A tensor that a block reads and writes alone, along one mode of tiles.
struct Line {
    tiles: String,
    shape: Vec<i64>,
    /// The mode along which there are tiles.
    over: usize,
}

impl Whole {
    /// Loops over the tiles of one argument, which they change.
    pub(super) fn updates_itself(&mut self) {
        let elem = self.scene.elem();
        let line = self.line(elem);
        let acc = self.full(elem, &line.shape, 1.0);
        let mut slots: Vec<Known> =
            (0..self.scene.random.within(1, 2)).map(|_| self.slot(elem, &line.shape)).collect();
        if self.scene.random.chance(50) {
            for slot in slots.clone() {
                let at = self.tile_of(&line, int(0));
                self.push(call("copy", vec![at, name(&slot.name)]));
            }
        } else {
            for slot in slots.clone() {
                self.push(call("fill", vec![name(&slot.name), literal(1.0, elem)]));
            }
        }
        for _ in 0..self.scene.random.weighted(&[(3, 0), (4, 1), (1, 2)]) {
            self.changes(&line, None, &slots, &acc);
        }
        for _ in 0..self.scene.random.weighted(&[(1, 0), (5, 1), (3, 2)]) {
            let var = self.scene.fresh("k");
            let end = method(name(&line.tiles), "size", vec![int(line.shape.len() as i64)]);
            let range = self.span(end);
            let ahead = self.scene.random.chance(35);
            let range = if ahead { self.ahead(range) } else { range };
            let own = if ahead { Some(self.slot(elem, &line.shape)) } else { None };
            let body = self.in_loop(&var, |whole| {
                let mut slots = slots.clone();
                if let Some(own) = own {
                    let at = whole.iteration(&var);
                    let from = whole.tile_of(&line, at);
                    whole.push(call("copy", vec![from, name(&own.name)]));
                    slots = vec![own];
                }
                for _ in 0..whole.scene.random.within(1, 3) {
                    whole.changes(&line, Some(&var), &slots, &acc);
                }
            });
            self.scene.push(repeat(&var, range, body));
        }
        if self.scene.random.chance(50) {
            self.changes(&line, None, &slots, &acc);
        }
        self.pool.append(&mut slots);
        self.store(&acc);
    }

    fn slot(&mut self, elem: tilewright_codegen::Elem, shape: &[i64]) -> Known {
        let made = typed("shared", elem, vec![list_of(shape)]);
        let name = self.scene.bind("sh", made);
        Known { name, elem, shape: shape.to_vec(), space: Space::Shared, own: None, placed: false }
    }

    /// An argument, each of whose lines of tiles belongs to one block.
    fn line(&mut self, elem: tilewright_codegen::Elem) -> Line {
        let mut shape = self.frame.clone();
        // A mode that no axis numbers.
        let free =
            |whole: &Whole, mode: &usize| whole.scene.axes.iter().all(|axis| axis.tile != whole.frame[*mode]);
        let modes: Vec<usize> = (0..shape.len()).filter(|mode| free(self, mode)).collect();
        let over = match modes.is_empty() || (shape.len() < 3 && self.scene.random.chance(40)) {
            true if shape.len() < 3 => {
                shape.push(
                    self.scene
                        .random
                        .pick(&[1, 4, 8, 16, 32, 5])
                        .min(2048 / shape.iter().product::<i64>())
                        .max(1),
                );
                shape.len() - 1
            }
            true => 0,
            false => self.scene.random.pick(&modes),
        };
        let (mut extents, mut at): (Vec<Extent>, Vec<Expr>) = (Vec::new(), Vec::new());
        let mut left: Vec<usize> = (0..self.scene.axes.len()).collect();
        for (mode, &tile) in shape.iter().enumerate() {
            let axis = left.iter().position(|&axis| self.scene.axes[axis].tile == tile);
            match axis {
                _ if mode == over => {
                    extents.push(self.scene.extent(tile));
                    at.push(hole());
                }
                Some(number) => {
                    let axis = left.remove(number);
                    extents.push(self.scene.axes[axis].extent.clone());
                    at.push(self.scene.block(axis));
                    self.scene.numbered[axis] = true;
                }
                None => {
                    extents.push(self.scene.extent(tile));
                    at.push(int(0));
                }
            }
        }
        for axis in left {
            extents.push(self.scene.extent(2));
            at.push(binary(Binary::Mul, self.scene.block(axis), int(2)));
        }
        let tensor = self.scene.tensor(elem, &extents, true);
        let tiles = self.scene.bind("g", call("tile", vec![name(&tensor), list_of(&shape), tuple(at)]));
        Line { tiles, shape, over }
    }

    /// One of the tiles; some begin between two of them.
    fn tile_of(&mut self, line: &Line, at: Expr) -> Expr {
        let mut all: Vec<Expr> = line.shape.iter().map(|_| hole()).collect();
        all.push(at);
        let one = index(name(&line.tiles), all);
        if !self.scene.random.chance(15) {
            return one;
        }
        let by = self.scene.random.within(-3, 3);
        let by = (0..line.shape.len()).map(|mode| int(if mode == line.over { by } else { 0 })).collect();
        let one = self.scene.bind("w", one);
        call("shift", vec![name(&one), list(by)])
    }

    /// A statement that reads or writes one of the tiles or of the slots.
    fn changes(&mut self, line: &Line, var: Option<&str>, slots: &[Known], acc: &Known) {
        self.scene.bodies.push(Vec::new());
        let at = match var {
            Some(var) => self.iteration(var),
            None => int(self.scene.random.within(0, 1)),
        };
        let slot = self.scene.random.pick(slots);
        let other = self.scene.random.pick(slots);
        let elem = slot.elem;
        let more = |of: Expr, by: f64| binary(Binary::Add, of, literal(by, elem));
        match self.scene.random.below(11) {
            0 | 1 => {
                let to = self.tile_of(line, at);
                let value = self.scene.random.within(0, 3) as f64;
                self.push(call("fill", vec![to, literal(value, elem)]));
            }
            2 => {
                let from = self.tile_of(line, at);
                if var.is_some() && slots.len() == 1 {
                    self.scene.push(assign(name(&acc.name), Some(Binary::Add), from));
                } else {
                    self.push(call("copy", vec![from, name(&slot.name)]));
                }
            }
            3 | 4 => {
                let to = self.tile_of(line, at);
                let made = call("map", vec![name(&slot.name), closure(&["s"], more(name("s"), 1.0))]);
                self.push(call("copy", vec![made, to]));
            }
            5 => {
                let to = self.tile_of(line, at);
                self.push(call("copy", vec![name(&slot.name), to]));
            }
            6 => self.scene.push(assign(name(&acc.name), Some(Binary::Add), name(&slot.name))),
            7 => {
                let to = self.tile_of(line, at);
                self.push(call("copy", vec![name(&acc.name), to]));
            }
            8 if slot.name != other.name => {
                self.push(call("copy", vec![name(&slot.name), name(&other.name)]))
            }
            9 => {
                let moved = self.moved(&slot);
                self.push(call("copy", vec![moved, name(&other.name)]));
            }
            10 => {
                let moved = self.moved(&slot);
                let sum = binary(Binary::Add, name(&slot.name), moved);
                self.scene.push(assign(name(&other.name), None, sum));
            }
            _ => self.scene.push(assign(name(&acc.name), Some(Binary::Add), name(&slot.name))),
        }
        let body = self.scene.bodies.pop().unwrap_or_default();
        if self.scene.random.chance(25) {
            let condition = self.decision();
            self.scene.push(decide(condition, body, Vec::new()));
        } else {
            body.into_iter().for_each(|stmt| self.scene.push(stmt));
        }
    }

    /// Another view of a tile in shared memory, of the same shape.
    pub(super) fn moved(&mut self, of: &Known) -> Expr {
        let rank = of.shape.len();
        if rank == 2 && of.shape[0] == of.shape[1] && self.scene.random.chance(40) {
            return call("permute", vec![name(&of.name), ints(&[1, 0])]);
        }
        let by = of.shape.iter().map(|_| int(self.scene.random.within(-1, 2))).collect();
        call("shift", vec![name(&of.name), list(by)])
    }
}
