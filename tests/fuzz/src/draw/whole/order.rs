//! Tiles that are read and written through overlapping views: a statement reads what earlier statements have written.

use tilewright_codegen::Elem;

use super::super::scene::{Extent, block};
use super::super::text::{last_mode, list, literal, repeat, tuple};
use super::{Known, Whole};

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
            (0..self.scene.random.within(1, 2)).map(|_| self.shared(elem, &line.shape)).collect();
        if self.scene.random.chance(50) {
            for slot in &slots {
                let at = self.tile_of(&line, "0");
                self.copy(at, slot);
            }
        } else {
            for slot in &slots {
                self.scene.push(format!("fill({slot}, {});", literal(1.0, elem)));
            }
        }
        for _ in 0..self.scene.random.weighted(&[(3, 0), (4, 1), (1, 2)]) {
            self.changes(&line, None, &slots, &acc);
        }
        for _ in 0..self.scene.random.weighted(&[(1, 0), (5, 1), (3, 2)]) {
            let var = self.scene.fresh("k");
            let range = self.span(&format!("{}.size({})", line.tiles, line.shape.len()));
            let ahead = self.scene.random.chance(35);
            let range = if ahead { self.ahead(&range) } else { range };
            let own = if ahead { Some(self.shared(elem, &line.shape)) } else { None };
            let body = self.in_loop(&var, |whole| {
                let mut slots = slots.clone();
                if let Some(own) = own {
                    let at = whole.iteration(&var);
                    let from = whole.tile_of(&line, &at);
                    whole.copy(from, &own);
                    slots = vec![own];
                }
                for _ in 0..whole.scene.random.within(1, 3) {
                    whole.changes(&line, Some(&var), &slots, &acc);
                }
            });
            self.scene.push(repeat(&var, &range, &body));
        }
        if self.scene.random.chance(50) {
            self.changes(&line, None, &slots, &acc);
        }
        self.pool.append(&mut slots);
        self.store(&acc);
    }

    /// An argument, each of whose lines of tiles belongs to one block.
    fn line(&mut self, elem: Elem) -> Line {
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
        let (mut extents, mut at): (Vec<Extent>, Vec<String>) = (Vec::new(), Vec::new());
        let mut left: Vec<usize> = (0..self.scene.axes.len()).collect();
        for (mode, &tile) in shape.iter().enumerate() {
            let axis = left.iter().position(|&axis| self.scene.axes[axis].tile == tile);
            match axis {
                _ if mode == over => {
                    extents.push(self.scene.extent(tile));
                    at.push("_".into());
                }
                Some(number) => {
                    let axis = left.remove(number);
                    extents.push(self.scene.axes[axis].extent.clone());
                    at.push(block(axis));
                    self.scene.numbered[axis] = true;
                }
                None => {
                    extents.push(self.scene.extent(tile));
                    at.push("0".into());
                }
            }
        }
        for axis in left {
            extents.push(self.scene.extent(2));
            at.push(format!("{} * 2", block(axis)));
        }
        let tensor = self.scene.tensor(elem, &extents, true);
        let tiles = self.scene.bind("g", format!("tile({tensor}, {}, {})", tuple(&shape), tuple(&at)));
        Line { tiles, shape, over }
    }

    /// One of the tiles; some begin between two of them.
    fn tile_of(&mut self, line: &Line, at: &str) -> String {
        let one = format!("{}[{}]", line.tiles, last_mode(line.shape.len(), at));
        if !self.scene.random.chance(15) {
            return one;
        }
        let by = self.scene.random.within(-3, 3);
        let by: Vec<i64> = (0..line.shape.len()).map(|mode| if mode == line.over { by } else { 0 }).collect();
        let one = self.scene.bind("w", one);
        format!("shift({one}, {})", list(&by))
    }

    /// A statement that reads or writes one of the tiles or of the slots.
    fn changes(&mut self, line: &Line, var: Option<&str>, slots: &[Known], acc: &Known) {
        self.scene.bodies.push(String::new());
        let at = match var {
            Some(var) => self.iteration(var),
            None => self.scene.random.within(0, 1).to_string(),
        };
        let slot = self.scene.random.pick(slots);
        let other = self.scene.random.pick(slots);
        let elem = slot.elem;
        match self.scene.random.below(11) {
            0 | 1 => {
                let to = self.tile_of(line, &at);
                let value = literal(self.scene.random.within(0, 3) as f64, elem);
                self.scene.push(format!("fill({to}, {value});"));
            }
            2 => {
                let from = self.tile_of(line, &at);
                if var.is_some() && slots.len() == 1 {
                    self.scene.push(format!("{acc} += {from};"));
                } else {
                    self.copy(from, slot);
                }
            }
            3 | 4 => {
                let to = self.tile_of(line, &at);
                self.copy(format!("map({slot}, |s| s + {})", literal(1.0, elem)), to);
            }
            5 => {
                let to = self.tile_of(line, &at);
                self.copy(slot, to);
            }
            7 => {
                let to = self.tile_of(line, &at);
                self.copy(acc, to);
            }
            8 if slot.name != other.name => self.copy(slot, other),
            9 => {
                let moved = self.moved(&slot);
                self.copy(moved, other);
            }
            10 => {
                let moved = self.moved(&slot);
                self.scene.push(format!("{other} = {slot} + {moved};"));
            }
            _ => self.scene.push(format!("{acc} += {slot};")),
        }
        let body = self.scene.bodies.pop().unwrap_or_default();
        self.perhaps(25, &body);
    }

    /// Another view of a tile in shared memory, of the same shape.
    pub(super) fn moved(&mut self, of: &Known) -> String {
        let rank = of.shape.len();
        if rank == 2 && of.shape[0] == of.shape[1] && self.scene.random.chance(40) {
            return format!("permute({of}, (1, 0))");
        }
        let by: Vec<i64> = of.shape.iter().map(|_| self.scene.random.within(-1, 2)).collect();
        format!("shift({of}, {})", list(&by))
    }
}
