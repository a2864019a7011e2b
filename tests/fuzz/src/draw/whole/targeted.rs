//! Kernels with one combination of statements: coordinates and bounds of tiles to which repeated tiles are added, and producers
//! that read integers. Random kernels seldom have all parts of these combinations.

use tilewright_codegen::Elem;

use super::super::text::{as_elem, decide, literal, repeat};
use super::{Known, Whole};

impl Whole {
    pub(super) fn aim(&mut self) {
        if self.scene.random.chance(50) {
            self.read_by_a_producer();
        } else {
            self.rows_and_tiles();
        }
        self.scene.number();
    }

    /// A product of warpgroups whose operands are computed in shared memory from the tiles that a producer copies.
    pub(super) fn compute(&mut self) {
        self.hopper();
        self.computes = true;
        self.warpgroups = self.scene.random.weighted(&[(3, 1), (3, 2), (1, 3)]);
        self.scene.threads = 128 * self.warpgroups;
        let columns = self.scene.random.pick(&[8, 16, 32, 64, 64]);
        self.frame = vec![64 * self.warpgroups, columns];
        self.axes();
        self.launch();
        self.product(true);
        self.scene.number();
    }

    /// A product of one to three warpgroups or a sum of tiles, whose producer reads which tiles it copies.
    fn read_by_a_producer(&mut self) {
        self.hopper();
        self.listed = true;
        self.warpgroups = self.scene.random.weighted(&[(1, 1), (5, 2), (2, 3)]);
        self.scene.threads = 128 * self.warpgroups;
        let columns = self.scene.random.pick(&[8, 16, 32]);
        self.frame = vec![64 * self.warpgroups, columns];
        self.axes();
        self.product(true);
        if self.scene.random.chance(20) {
            self.step();
        }
    }

    /// Tiles whose elements come from repeated rows and from whole tiles, in any order, and functions of their coordinates.
    fn rows_and_tiles(&mut self) {
        self.frame = self.shape();
        if self.frame.len() < 2 {
            self.frame.push(self.scene.random.pick(&[2, 3, 8, 16]));
            self.frame[0] = self.frame[0].min(64);
        }
        self.scene.threads = self.scene.random.pick(&[32, 64, 128, 256]);
        self.set_threads();
        self.axes();
        for _ in 0..self.scene.random.weighted(&[(4, 1), (1, 2)]) {
            let elem = self.scene.random.pick(&[Elem::F32, Elem::F32, Elem::I32, Elem::F16]);
            let row = self.row(elem);
            let made = match self.scene.random.below(4) {
                0 | 1 => self.changed_by(&row, elem),
                2 => self.operators_on(&row, elem),
                _ => self.closure_on(&row, elem),
            };
            self.numbers(&made);
            self.examined(30, &made);
        }
    }

    /// A tile of extent 1 along one of the frame's modes or several, mostly in registers.
    fn row(&mut self, elem: Elem) -> Known {
        let shape = self.frame.clone();
        if self.scene.random.chance(25) {
            // A reduced tile.
            let of = self.tile(elem, shape, false);
            let of = self.in_registers(&of);
            self.reduced_of(&of);
            return self.pool.last().cloned().unwrap_or(of);
        }
        let always = self.scene.random.below(shape.len());
        let narrow = |(mode, extent): (usize, i64), scene: &mut super::Scene| {
            if mode == always || scene.random.chance(25) { 1 } else { extent }
        };
        let shape = shape.into_iter().enumerate().map(|of| narrow(of, &mut self.scene)).collect();
        let row = self.tile(elem, shape, false);
        match self.scene.random.below(10) {
            0 => row,
            1 => {
                let to = self.shared(elem, &row.shape);
                self.copy(row, &to);
                to
            }
            _ => self.in_registers(&row),
        }
    }

    fn in_registers(&mut self, of: &Known) -> Known {
        if self.scene.random.chance(30) {
            let to = self.full(of.elem, &of.shape, 0.0);
            self.copy(of, &to);
            return to;
        }
        let number = literal(self.scene.random.within(0, 1) as f64, of.elem);
        self.mapped_to(of, "x", format!("x + {number}"))
    }

    /// A tile of the frame's shape, where the block is.
    fn full_tile(&mut self, elem: Elem) -> Known {
        let tile = self.tile(elem, self.frame.clone(), false);
        if self.scene.random.chance(50) { self.in_registers(&tile) } else { tile }
    }

    /// A filled tile, to which rows and tiles are added, under conditions and in loops too.
    fn changed_by(&mut self, row: &Known, elem: Elem) -> Known {
        let to = self.full(elem, &self.frame.clone(), 0.0);
        let tile = self.full_tile(elem);
        let mut operands = match self.scene.random.below(3) {
            0 => vec![row.clone(), tile.clone()],
            1 => vec![tile.clone(), row.clone()],
            _ => vec![row.clone(), row.clone(), tile.clone()],
        };
        if self.scene.random.chance(15) {
            operands.retain(|of| of.name != tile.name);
        }
        for of in operands {
            let op = self.scene.random.pick(&["+", "+", "-"]);
            let update = format!("{to} {op}= {};\n", as_elem(&of, of.elem, elem));
            match self.scene.random.below(8) {
                0 | 1 => {
                    let condition = self.decision();
                    self.scene.push(decide(&condition, &update, ""));
                }
                2 => {
                    let var = self.scene.fresh("k");
                    let end = self.scene.random.within(0, 2);
                    self.scene.push(repeat(&var, &format!("0..{end}"), &update));
                }
                _ => self.scene.push(update.trim_end()),
            }
        }
        to
    }

    /// `row + tile`
    fn operators_on(&mut self, row: &Known, elem: Elem) -> Known {
        let tile = self.full_tile(elem);
        let row = as_elem(row, row.elem, elem);
        let (x, y) = if self.scene.random.chance(70) { (row, tile.name) } else { (tile.name, row) };
        let value = match self.scene.random.below(3) {
            0 => format!("max({x}, {y})"),
            1 => format!("{x} - {y}"),
            _ => format!("{x} + {y}"),
        };
        self.made(value, elem, self.frame.clone())
    }

    /// `map((row, tile), |r, x, at| …)`
    fn closure_on(&mut self, row: &Known, elem: Elem) -> Known {
        let tile = self.full_tile(elem);
        let mode = self.scene.random.below(self.frame.len());
        let (x, y) = if self.scene.random.chance(70) { (row, &tile) } else { (&tile, row) };
        let value = format!("((a as {elem}) + (b as {elem}) + (at.{mode} as {elem})) as {elem}");
        self.made(format!("map(({x}, {y}), |a, b, at| {value})"), elem, self.frame.clone())
    }

    /// Stores the coordinates of a tile's elements.
    fn numbers(&mut self, of: &Known) {
        let mut value: Option<String> = None;
        for mode in 0..of.shape.len() {
            if self.scene.random.chance(80) {
                value = Some(match value {
                    Some(before) => format!("({before} * 1000 + at.{mode})"),
                    None => format!("at.{mode}"),
                });
            }
        }
        let Some(value) = value else { return self.store(of) };
        let made = self.made(format!("map({of}, |x, at| {value})"), Elem::I32, of.shape.clone());
        let to = self.result(Elem::I32, &made.shape);
        self.copy(made, to);
    }
}
