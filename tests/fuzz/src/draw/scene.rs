//! The state of a kernel being drawn.

use std::fmt::{self, Display, Formatter};

use tilewright_codegen::Elem;

use super::form::Form;
use super::text::computed;
use crate::random::Random;

/// Extents and strides of arguments.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Extent {
    Symbol(String),
    Int(i64),
}

/// As an expression.
impl Display for Extent {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Symbol(text) => to.write_str(text),
            Extent::Int(n) => write!(to, "{n}"),
        }
    }
}

impl Extent {
    /// In the type of an argument.
    pub(super) fn in_type(&self) -> String {
        match self {
            Extent::Symbol(text) => text.clone(),
            Extent::Int(n) => format!("_{n}"),
        }
    }
}

/// An axis of the grid: it numbers tiles of one extent.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) extent: Extent,
    pub(super) tile: i64,
}

/// A thread's part of a tile, under a name.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) elem: Elem,
    pub(super) is_registers: bool,
    pub(super) is_global: bool,
    /// Elements along each mode.
    pub(super) shape: Vec<i64>,
}

impl Display for Part {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str(&self.name)
    }
}

pub(super) struct Scene {
    pub(super) random: Random,
    /// The text of each argument.
    pub(super) params: Vec<String>,
    /// The statements of the open blocks, innermost last.
    pub(super) bodies: Vec<String>,
    pub(super) threads: i64,
    pub(super) axes: Vec<Axis>,
    /// Does each axis number tiles alone, so that the grid is known?
    pub(super) numbered: Vec<bool>,
    /// Loop variables in scope.
    pub(super) vars: Vec<String>,
    /// Scalar arguments.
    pub(super) scalars: Vec<(String, Elem)>,
    /// Arguments that are read as integers.
    pub(super) indices: Vec<String>,
    /// The extents of arguments that are names, one after another.
    pub(super) extents: Vec<String>,
    /// Sizes known at launch only.
    pub(super) sizes: Vec<String>,
    names: usize,
}

/// Numbers of threads of a block.
const THREADS: [(u32, i64); 14] = [
    (4, 1),
    (2, 3),
    (3, 4),
    (3, 7),
    (6, 16),
    (2, 24),
    (30, 32),
    (2, 33),
    (4, 48),
    (20, 64),
    (2, 80),
    (4, 96),
    (10, 128),
    (2, 160),
];

pub(super) const ELEMS: [(u32, Elem); 8] = [
    (30, Elem::F32),
    (8, Elem::F64),
    (10, Elem::F16),
    (8, Elem::Bf16),
    (12, Elem::I32),
    (6, Elem::U32),
    (6, Elem::I8),
    (6, Elem::U8),
];

impl Scene {
    pub(super) fn new(mut random: Random) -> Scene {
        let threads = random.weighted(&THREADS);
        Scene {
            random,
            params: Vec::new(),
            bodies: vec![String::new()],
            threads,
            axes: Vec::new(),
            numbered: Vec::new(),
            vars: Vec::new(),
            scalars: Vec::new(),
            indices: Vec::new(),
            extents: Vec::new(),
            sizes: Vec::new(),
            names: 0,
        }
    }

    /// Draws the whole kernel.
    pub(super) fn play(&mut self) {
        let main = self.form();
        self.axes_for(&main);
        let acts = self.random.weighted(&[(6, 1), (3, 2), (1, 3)]);
        for act in 0..acts {
            match self.random.below(100) {
                _ if act == 0 && self.random.chance(60) => self.chain(main.clone()),
                0..8 => self.far(),
                8..20 => self.combined(),
                20..36 => {
                    let form = self.form();
                    self.chain(form);
                }
                36..60 => self.gather(main.clone()),
                _ => self.product(),
            }
        }
        self.number();
    }

    /// Makes the grid known: each axis that numbers no tiles yet gets an argument whose tiles it numbers.
    pub(super) fn number(&mut self) {
        for axis in 0..self.axes.len() {
            if !self.numbered[axis] {
                let Axis { extent, tile } = self.axes[axis].clone();
                let elem = self.elem();
                let tensor = self.tensor(elem, &[extent], false);
                self.bind("n", format!("tile({tensor}, ({tile},), ({},))", block(axis)));
            }
        }
    }

    /// The axes of the grid: some of the modes of a form, and perhaps one more.
    fn axes_for(&mut self, form: &Form) {
        for &tile in &form.tile {
            if self.axes.len() < 3 && self.random.chance(70) {
                let extent = self.extent(tile);
                self.axes.push(Axis { extent, tile });
            }
        }
        if self.axes.len() < 3 && self.random.chance(12) {
            let extent = self.extent(1);
            self.axes.push(Axis { extent, tile: 1 });
        }
        self.numbered = vec![false; self.axes.len()];
    }

    /// An extent that is divided into tiles of this size.
    pub(super) fn extent(&mut self, tile: i64) -> Extent {
        match self.random.below(10) {
            0 if tile <= 512 => Extent::Int(self.random.within(1, 3) * tile),
            1 if tile <= 512 => Extent::Int(tile + self.random.within(1, 2 * tile + 3)),
            _ => Extent::Symbol(self.fresh("N")),
        }
    }

    pub(super) fn fresh(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    pub(super) fn elem(&mut self) -> Elem {
        self.random.weighted(&ELEMS)
    }

    /// Adds a statement.
    pub(super) fn push(&mut self, stmt: impl Display) {
        if let Some(body) = self.bodies.last_mut() {
            *body += &format!("{stmt}\n");
        }
    }

    /// Binds a fresh name.
    pub(super) fn bind(&mut self, of: &str, value: impl Display) -> String {
        let to = self.fresh(of);
        self.push(format!("let {to} = {value};"));
        to
    }

    /// A scalar argument of a type.
    pub(super) fn scalar(&mut self, elem: Elem) -> String {
        if let Some((known, _)) = self.scalars.iter().find(|(_, of)| *of == elem)
            && self.random.chance(50)
        {
            return known.clone();
        }
        let to = self.fresh("s");
        self.params.push(format!("{to}: {elem}"));
        self.scalars.push((to.clone(), elem));
        to
    }

    /// One of the loop variables in scope.
    pub(super) fn var(&mut self) -> String {
        self.random.pick(&self.vars)
    }

    /// An arbitrary coordinate: of the block, of loops, constants, in and out of bounds.
    pub(super) fn anywhere(&mut self, tile: i64) -> String {
        match self.random.below(20) {
            0 => return self.integer(),
            1 => return self.loaded(false),
            2 => return self.loaded(true),
            _ => {}
        }
        let mut leaf = match self.random.below(10) {
            0..3 if !self.vars.is_empty() => self.var(),
            0..6 if !self.axes.is_empty() => self.unnumbered(),
            _ => {
                let n = self.random.weighted(&[(8, 0), (4, 1), (2, 2), (1, 7), (1, 100_000), (2, -1)]);
                return computed(n);
            }
        };
        for _ in 0..self.random.below(3) {
            let by = self.random.weighted(&[(4, 2), (3, 3), (1, 5)]);
            leaf = match self.random.below(13) {
                0..3 => format!("({leaf} * {by})"),
                3..5 => format!("({leaf} + {})", by - 2),
                5..7 => format!("({leaf} - {by})"),
                7..9 => format!("({leaf} % {by})"),
                9..11 => format!("({leaf} / {by})"),
                _ => {
                    let far = [1000, 65_537, 1_000_000, 3_000_001, around(tile), around(tile), around(tile)];
                    format!("({leaf} * {})", self.random.pick(&far))
                }
            };
        }
        leaf
    }

    /// A function of the block's index along some axis that does not number tiles.
    pub(super) fn unnumbered(&mut self) -> String {
        let block = block(self.random.below(self.axes.len()));
        match self.random.below(4) {
            0 => format!("({block} * 2)"),
            1 => format!("({block} / 2)"),
            2 => format!("({block} % 3)"),
            _ => format!("(2 - {block})"),
        }
    }
}

/// `block.x`
pub(super) fn block(axis: usize) -> String {
    format!("block.{}", ["x", "y", "z"][axis])
}

/// A number of tiles after which a 32-bit coordinate wraps to the same value, or next to it.
fn around(tile: i64) -> i64 {
    let twos = tile.trailing_zeros().min(31);
    let odd = (tile >> twos) as u32;
    // The inverse of an odd number modulo 2^32 (Newton).
    let inverse = (0..5).fold(1u32, |x, _| x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x))));
    i64::from(inverse) << (if twos > 0 { 32 - twos } else { 0 }) & 0x7fff_ffff_ffff
}

#[cfg(test)]
mod tests {
    use super::around;

    #[test]
    fn far_coordinates_wrap_around() {
        for tile in [1, 3, 8, 12, 33, 1000, 65_536] {
            let coordinate = (around(tile) * tile) as u32;
            assert!(coordinate <= 1, "{tile}: {coordinate}");
        }
    }
}
