//! Kernels of whole tiles: arithmetic, reductions, scans, views, gathers and loops on tiles of any shape, small and
//! odd ones included.

mod claims;
mod control;
mod exchanges;
mod integers;
mod nested;
mod options;
mod order;
mod places;
mod product;
mod steps;
mod targeted;
mod types;
mod views;

use std::fmt::{self, Display, Formatter};

use tilewright_codegen::Elem;
use tilewright_codegen::ast::Kernel;

use super::read;
use super::scene::{Axis, Extent, Scene, block};
use super::text::{list, literal, tuple, with};
use crate::random::Random;

/// Where a tile is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Space {
    Global,
    Registers,
    Shared,
}

/// A tile under a name.
#[derive(Clone, Debug)]
struct Known {
    name: String,
    elem: Elem,
    shape: Vec<i64>,
    space: Space,
    /// Extents of its tensor, of a tile that is the block's own along every mode.
    own: Option<Vec<Extent>>,
    /// Does its name belong to a view of an argument, whose elements have coordinates?
    placed: bool,
}

impl Display for Known {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&self.name)
    }
}

/// A kernel being drawn.
struct Whole {
    scene: Scene,
    pool: Vec<Known>,
    /// Tiles that the axes of the grid number.
    frame: Vec<i64>,
    depth: u32,
    /// The keys of the attribute.
    keys: Vec<String>,
    /// Warpgroups that multiply; 0 for warps.
    warpgroups: i64,
    /// Do statements of loops have stages, wherever they can?
    staged: bool,
    /// Do integers of memory name the tiles of all products?
    listed: bool,
    /// Do products multiply tiles that are computed from the copied ones?
    computes: bool,
}

/// Extents of tiles.
const EXTENTS: [(u32, i64); 24] = [
    (4, 1),
    (3, 2),
    (4, 3),
    (4, 4),
    (4, 5),
    (3, 7),
    (6, 8),
    (2, 10),
    (3, 12),
    (6, 16),
    (3, 17),
    (2, 20),
    (3, 24),
    (2, 31),
    (8, 32),
    (3, 33),
    (3, 40),
    (3, 48),
    (6, 64),
    (1, 65),
    (2, 96),
    (1, 100),
    (3, 128),
    (2, 256),
];

/// Limit of elements of a tile.
const MOST: i64 = 2048;

/// A kernel of any statements.
pub(super) fn kernel(random: &mut Random) -> Kernel {
    drawn(random, "", Whole::play)
}

/// A kernel about one interplay of statements that others seldom have: which one, the seed decides.
pub(super) fn targeted(seed: u64) -> Kernel {
    let play = match (seed % 4, seed % 16) {
        (0, _) => Whole::nest,
        (2, _) => Whole::typed_elements,
        (_, 7) => Whole::parts_of_modes,
        (_, 11) => Whole::claim,
        (_, 9) => Whole::compute,
        _ => Whole::aim,
    };
    drawn(&mut Random::new(!seed), "", play)
}

/// A kernel whose threads, lanes or blocks exchange elements.
pub(super) fn exchanges(seed: u64) -> Kernel {
    drawn(&mut Random::new(!seed), "", Whole::exchange)
}

/// A kernel with a pair of options: which one, the seed decides.
pub(super) fn options(seed: u64) -> Kernel {
    let pairs = &crate::options::PAIRS;
    let pair = pairs[seed as usize % pairs.len()];
    // Instructions of PTX are not checked.
    let qualifier = if pair.iter().any(|of| of.function == "asm") { "unsafe " } else { "" };
    drawn(&mut Random::new(!seed), qualifier, |whole| whole.optional(&pair))
}

fn drawn(random: &mut Random, qualifier: &str, play: impl FnOnce(&mut Whole)) -> Kernel {
    let mut whole = Whole {
        scene: Scene::new(random.clone()),
        pool: Vec::new(),
        frame: Vec::new(),
        depth: 0,
        keys: Vec::new(),
        warpgroups: 0,
        staged: false,
        listed: false,
        computes: false,
    };
    play(&mut whole);
    read(&whole.scene, &whole.keys, qualifier)
}

/// The subject of a kernel.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Anything,
    /// A product on tensor cores.
    Product,
    /// Tiles that are read and written.
    Order,
}

impl Whole {
    fn play(&mut self) {
        let subject = self.scene.random.weighted(&[
            (10, Subject::Anything),
            (4, Subject::Product),
            (3, Subject::Order),
        ]);
        self.frame = if subject == Subject::Product { self.product_shape() } else { self.shape() };
        if self.warpgroups > 0 {
            self.scene.threads = 128 * self.warpgroups;
        } else if subject == Subject::Product {
            let warps = self.frame[0] / 16 * (self.frame[1] / 16).max(1);
            self.scene.threads = 32 * self.scene.random.pick(&[1, 2, 4, 4, 8]).min(warps);
            self.set_threads();
        } else if self.scene.random.chance(80) {
            self.scene.threads = self.scene.random.pick(&[32, 64, 64, 96, 128, 128, 256]);
            self.set_threads();
        } else {
            self.scene.threads = 256;
        }
        self.axes();
        self.launch();
        for _ in 0..self.scene.random.within(if subject == Subject::Anything { 1 } else { 0 }, 2) {
            self.input();
        }
        let steps = match subject {
            Subject::Anything => self.scene.random.within(1, 5),
            Subject::Product => {
                self.product(true);
                self.scene.random.below(3) as i64
            }
            Subject::Order => {
                self.updates_itself();
                self.scene.random.below(2) as i64
            }
        };
        for _ in 0..steps {
            self.step();
        }
        for _ in 0..self.scene.random.weighted(&[(4, 1), (2, 2)]) {
            self.output();
        }
        if self.scene.random.chance(8) {
            self.added_up();
        }
        self.scene.number();
        if self.scene.random.chance(10) {
            self.rarity();
        }
        if self.scene.random.chance(8) {
            self.asserted();
        }
    }

    /// Writes the number of threads into the attribute.
    fn set_threads(&mut self) {
        self.keys.push(format!("threads = {}", self.scene.threads));
    }

    /// The axes of the grid, which number tiles of the frame along some of its modes.
    fn axes(&mut self) {
        for mode in 0..self.frame.len() {
            if self.scene.random.chance(70) {
                let tile = self.frame[mode];
                let extent = self.scene.extent(tile);
                self.scene.axes.push(Axis { extent, tile });
            }
        }
        self.scene.numbered = vec![false; self.scene.axes.len()];
    }

    /// Rare statements: loops whose statements have stages, coordinates and bounds of tiles to which repeated tiles are
    /// added, and of reduced tiles.
    fn rarity(&mut self) {
        match self.scene.random.below(4) {
            0 | 1 => {
                self.staged = true;
                self.repeated_over_tiles();
                self.staged = false;
                self.output();
            }
            2 => self.with_a_row(),
            _ => {
                let from = self.input();
                self.reduced_of(&from);
                if let Some(sum) = self.pool.last().cloned() {
                    self.examined(100, &sum);
                }
            }
        }
    }

    /// An assertion that is true wherever it has a value.
    fn asserted(&mut self) {
        let (Some(a), Some(b)) = (self.scene.size(), self.scene.size()) else { return };
        let part = format!("({a} {} {b})", self.scene.random.pick(&["/", "%"]));
        let condition = match self.scene.random.below(3) {
            0 => format!("({b} == 0) | ({part} <= {a})"),
            1 => format!("({part} == 0) | ({a} > 0)"),
            _ => format!("{part} <= {a}"),
        };
        if let Some(body) = self.scene.bodies.first_mut() {
            body.insert_str(0, &format!("assert({condition});\n"));
        }
    }

    fn shape(&mut self) -> Vec<i64> {
        let rank = self.scene.random.weighted(&[(4, 1), (8, 2), (2, 3)]);
        let mut shape = Vec::new();
        let mut left = MOST;
        for _ in 0..rank {
            let extent = self.scene.random.weighted(&EXTENTS).min(left);
            left /= extent;
            shape.push(extent);
        }
        self.scene.random.shuffled(&shape)
    }

    /// A coordinate that numbers no tiles.
    fn somewhere(&mut self) -> String {
        match self.scene.random.below(8) {
            0 => self.scene.loaded(false),
            1..3 if !self.scene.axes.is_empty() => self.scene.unnumbered(),
            3 if !self.scene.vars.is_empty() => self.scene.var(),
            _ => self.scene.random.weighted(&[(9, "0"), (2, "1"), (1, "2"), (1, "-1")]).into(),
        }
    }

    /// A tile of a new argument, of a shape that is broadcast to the frame.
    fn input(&mut self) -> Known {
        let elem = self.scene.elem();
        self.input_of(elem)
    }

    fn input_of(&mut self, elem: Elem) -> Known {
        let narrow = self.scene.random.chance(25);
        let shape: Vec<i64> = self.frame.clone();
        let shape =
            shape.into_iter().map(|n| if narrow && self.scene.random.chance(50) { 1 } else { n }).collect();
        self.tile(elem, shape, false)
    }

    /// A tile of a new argument at the block's coordinates; with a mode of tiles to loop over if asked for.
    fn tile(&mut self, elem: Elem, shape: Vec<i64>, looped: bool) -> Known {
        let (extents, at, own) = self.placed(&shape, looped, false);
        let tensor = self.scene.tensor(elem, &extents, false);
        let mut made = format!("tile({tensor}, {}, {})", tuple(&shape), tuple(&at));
        if !looped && self.scene.random.chance(5) {
            made = with(made, "halo", tuple(&vec![0; shape.len()]));
        }
        let bound = self.scene.bind("x", made);
        let own = if own { Some(extents) } else { None };
        let known = Known { own, ..self.global(bound, elem, shape) };
        if !looped {
            self.pool.push(known.clone());
        }
        known
    }

    /// A tile of an argument, whose elements have coordinates.
    fn global(&self, name: String, elem: Elem, shape: Vec<i64>) -> Known {
        Known { name, elem, shape, space: Space::Global, own: None, placed: true }
    }

    /// Extents of a tensor with tiles of this shape, and the coordinates of the block's. Whether no other block has them.
    fn placed(&mut self, shape: &[i64], looped: bool, alone: bool) -> (Vec<Extent>, Vec<String>, bool) {
        let (mut extents, mut at) = (Vec::new(), Vec::new());
        let mut free: Vec<usize> = (0..self.scene.axes.len()).collect();
        let over = if looped { self.scene.random.below(shape.len()) } else { usize::MAX };
        let mut plain = true;
        for (mode, &tile) in shape.iter().enumerate() {
            let axis = free.iter().position(|&axis| self.scene.axes[axis].tile == tile);
            if mode == over {
                extents.push(self.scene.extent(tile));
                at.push("_".into());
            } else if let Some(index) = axis
                && (alone || self.scene.random.chance(85))
            {
                let axis = free.remove(index);
                extents.push(self.scene.axes[axis].extent.clone());
                at.push(block(axis));
                self.scene.numbered[axis] = true;
            } else if alone && !free.is_empty() {
                let axis = free.remove(0);
                extents.push(self.scene.extent(tile));
                at.push(format!("({} * {})", block(axis), self.scene.random.within(2, 3)));
                plain = false;
            } else {
                extents.push(self.scene.extent(tile));
                at.push(if alone { "0".into() } else { self.somewhere() });
                plain &= alone;
            }
        }
        if alone {
            for axis in free.clone() {
                extents.push(self.scene.extent(2));
                at.push(format!("({} * 2)", block(axis)));
                plain = false;
            }
            free.clear();
        }
        (extents, at, plain && free.is_empty())
    }

    /// Stores a tile.
    fn output(&mut self) {
        let Some(from) = self.pick(|known| known.space != Space::Global) else {
            let from = self.pool[0].clone();
            return self.store(&from);
        };
        self.store(&from);
    }

    fn store(&mut self, from: &Known) {
        let elem = if self.scene.random.chance(80) { from.elem } else { self.scene.elem() };
        let to = self.result(elem, &from.shape);
        match self.scene.random.below(10) {
            0..5 => self.copy(from, &to),
            5..7 => {
                let closure = self.scene.closure(&[from.elem], elem);
                self.scene.push(format!("map({from}, {to}, {closure});"));
            }
            7 => {
                let value = self.function(std::slice::from_ref(from), elem);
                self.scene.push(format!("{to} = {value};"));
            }
            8 => {
                let value = self.function(std::slice::from_ref(from), elem);
                let op = self.scene.random.pick(&["+", "-"]);
                self.scene.push(format!("{to} {op}= {value};"));
            }
            _ => {
                let value = self.function(&[from.clone(), to.clone()], elem);
                self.copy(value, &to);
            }
        }
    }

    /// A tile of a new result, which is the block's own.
    fn result(&mut self, elem: Elem, shape: &[i64]) -> Known {
        let (extents, at, own) = self.placed(shape, false, true);
        let tensor = self.scene.tensor(elem, &extents, true);
        let bound = self.scene.bind("o", format!("tile({tensor}, {}, {})", tuple(shape), tuple(&at)));
        let own = if own { Some(extents) } else { None };
        Known { own, ..self.global(bound, elem, shape.to_vec()) }
    }

    fn copy(&mut self, from: impl Display, to: impl Display) {
        self.scene.push(format!("copy({from}, {to});"));
    }

    /// A tile of the pool; later ones more often.
    fn pick(&mut self, fits: impl Fn(&Known) -> bool) -> Option<Known> {
        let all: Vec<Known> = self.pool.iter().filter(|known| fits(known)).cloned().collect();
        if all.is_empty() {
            return None;
        }
        let (a, b) = (self.scene.random.below(all.len()), self.scene.random.below(all.len()));
        Some(all[a.max(b)].clone())
    }

    /// Makes a tile in registers known.
    fn made(&mut self, value: impl Display, elem: Elem, shape: Vec<i64>) -> Known {
        let name = self.scene.bind("v", value);
        let known = Known { name, elem, shape, space: Space::Registers, own: None, placed: false };
        self.pool.push(known.clone());
        known
    }

    /// A tile of registers, filled.
    fn full(&mut self, elem: Elem, shape: &[i64], value: f64) -> Known {
        self.filled_with(elem, shape, literal(value, elem))
    }

    fn filled_with(&mut self, elem: Elem, shape: &[i64], value: impl Display) -> Known {
        self.made(format!("full::<{elem}>({}, {value})", tuple(shape)), elem, shape.to_vec())
    }

    /// A shared array.
    fn shared(&mut self, elem: Elem, shape: &[i64]) -> Known {
        let name = self.scene.bind("sh", format!("shared::<{elem}>({})", tuple(shape)));
        Known { name, elem, shape: shape.to_vec(), space: Space::Shared, own: None, placed: false }
    }
}

/// The shape that two are broadcast to.
fn joint(x: &[i64], y: &[i64]) -> Option<Vec<i64>> {
    if x.len() != y.len() {
        let one = |of: &[i64]| of.iter().all(|&n| n == 1);
        return match (one(x), one(y)) {
            (_, true) => Some(x.to_vec()),
            (true, _) => Some(y.to_vec()),
            _ => None,
        };
    }
    let pairs = x.iter().zip(y);
    pairs
        .map(|(&x, &y)| match (x, y) {
            (1, y) => Some(y),
            (x, 1) => Some(x),
            (x, y) => (x == y).then_some(x),
        })
        .collect()
}
