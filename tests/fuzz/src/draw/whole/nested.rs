//! Loops in loops: a loop, pipelined or not, inside of one or two others. Coordinates of tiles depend on the variables of all
//! loops; bounds depend on variables of outer loops or on integers in memory.

use tilewright_codegen::Elem;

use super::super::scene::{Axis, Extent, block};
use super::super::text::{as_elem, cast, repeat, tuple};
use super::{Known, Whole};

/// The loops, and the tiles that the innermost one reads.
struct Nest {
    /// Variables, the outermost first.
    vars: Vec<String>,
    /// For each loop the extent along which it runs, and its tile.
    over: Vec<(Extent, i64)>,
    /// The coordinate of the operand along its rows.
    row: Coordinate,
    /// The type of operands.
    elem: Elem,
    /// The operand: its tensor, and its tile's shape.
    operand: (String, Vec<i64>),
    /// The other operand of a product, and its tile's shape.
    other: Option<(String, Vec<i64>)>,
    /// The loop before whose body the accumulator is filled, and in whose body it is stored; `None` if outside of all.
    inside: Option<usize>,
    /// The accumulator.
    acc: (Elem, Vec<i64>),
    /// The instruction that multiplies, if one does.
    mma: Option<String>,
}

/// A coordinate along rows.
#[derive(Clone, Copy, PartialEq)]
enum Coordinate {
    Block,
    Loop(usize),
}

impl Whole {
    pub(super) fn nest(&mut self) {
        self.scene.threads = self.scene.random.pick(&[32, 64, 128, 128, 256]);
        let nest = self.loops();
        self.set_threads();
        let known = match nest.inside {
            None => Some(self.accumulator(&nest)),
            Some(_) => None,
        };
        self.level(&nest, 0, known.clone());
        if let Some(acc) = known {
            self.examined(25, &acc);
            self.store(&acc);
        }
        self.scene.number();
    }

    fn loops(&mut self) -> Nest {
        let random = &mut self.scene.random;
        let depth = random.weighted(&[(5, 2), (3, 3)]);
        let product = random.chance(30);
        let cores = product && random.chance(60);
        let (rows, columns) = match cores {
            true => (random.pick(&[16, 32, 64]), random.pick(&[16, 32])),
            false => (random.pick(&[1, 3, 8, 16, 32, 64]), random.pick(&[1, 4, 7, 8, 16, 32])),
        };
        let elem = match cores {
            true => random.pick(&[Elem::F16, Elem::Bf16]),
            false => random.pick(&[Elem::F32, Elem::F32, Elem::F16, Elem::I32, Elem::U8]),
        };
        let by_blocks = random.chance(50);
        let row = if by_blocks { Coordinate::Block } else { Coordinate::Loop(random.below(depth - 1)) };
        let inside = random.chance(50).then(|| random.below(depth - 1));
        self.frame = vec![rows, columns];
        let height = self.scene.extent(rows);
        if by_blocks {
            self.scene.axes.push(Axis { extent: height.clone(), tile: rows });
            self.scene.numbered.push(true);
        }
        let vars: Vec<String> = (0..depth).map(|_| self.scene.fresh("k")).collect();
        // The innermost loop runs along columns, one perhaps along rows, the others along modes of one element each.
        let over: Vec<(Extent, i64)> = (0..depth)
            .map(|of| match of {
                _ if row == Coordinate::Loop(of) => (height.clone(), rows),
                of if of + 1 == depth => (self.scene.extent(columns), columns),
                _ => (self.scene.extent(1), 1),
            })
            .collect();
        let mut extents = vec![height, over[depth - 1].0.clone()];
        let mut shape = vec![rows, columns];
        for (of, (extent, _)) in over.iter().enumerate().take(depth - 1) {
            if row != Coordinate::Loop(of) {
                extents.push(extent.clone());
                shape.push(1);
            }
        }
        let operand = (self.scene.tensor(elem, &extents, false), shape);
        let (mut other, mut mma) = (None, None);
        let sums = if elem.is_float() { Elem::F32 } else { Elem::I32 };
        let acc = if product {
            let width =
                if cores { self.scene.random.pick(&[8, 16, 32]) } else { self.scene.random.pick(&[1, 4, 8]) };
            let extents = [self.scene.extent(width), over[depth - 1].0.clone()];
            other = Some((self.scene.tensor(elem, &extents, false), vec![width, columns]));
            if cores {
                let most = rows / 16 * (width / 16).max(1);
                self.scene.threads = self.scene.threads.min(32 * most);
                let instruction = self.tiled_mma(elem, sums);
                mma = Some(self.scene.bind("mma", instruction));
            }
            (sums, vec![rows, width])
        } else {
            let width = if self.scene.random.chance(50) { columns } else { 1 };
            (if elem == Elem::U8 { Elem::I32 } else { elem }, vec![rows, width])
        };
        Nest { vars, over, row, elem, operand, other, inside, acc, mma }
    }

    fn accumulator(&mut self, nest: &Nest) -> Known {
        let (elem, shape) = nest.acc.clone();
        match &nest.mma {
            None => self.full(elem, &shape, 0.0),
            Some(mma) => self.accumulators(mma, elem, &shape),
        }
    }

    /// The loops from this one on.
    fn level(&mut self, nest: &Nest, of: usize, acc: Option<Known>) {
        let (last, var) = (of + 1 == nest.vars.len(), nest.vars[of].clone());
        let staged = last && self.scene.random.chance(75);
        let mut slots = Vec::new();
        if last && (staged || nest.other.is_some() || self.scene.random.chance(30)) {
            slots.push(self.shared(nest.elem, &nest.operand.1[..2]));
            slots.extend(nest.other.as_ref().map(|(_, shape)| self.shared(nest.elem, shape)));
        }
        let all = self.bounds(nest, of);
        let body = self.in_loop(&var, |whole| {
            let own = if nest.inside == Some(of) { Some(whole.accumulator(nest)) } else { None };
            let acc = own.clone().or(acc);
            match (&acc, last) {
                (Some(acc), true) => whole.innermost(nest, &slots, acc),
                _ => whole.level(nest, of + 1, acc.clone()),
            }
            if let Some(own) = own {
                whole.store_in(nest, of, &own);
            }
        });
        let all = match staged {
            true if self.scene.random.chance(10) => self.ahead(&all),
            true => format!("pipelined({all}, stages = {})", self.scene.random.within(1, 4)),
            false => all,
        };
        self.scene.push(repeat(&var, &all, &body));
    }

    /// The range of a loop: over the tiles, to a constant, to the variable of another loop or from it, by integers in memory.
    fn bounds(&mut self, nest: &Nest, of: usize) -> String {
        let (extent, tile) = &nest.over[of];
        let tiles = format!("ceil_div({extent}, {tile})");
        let outer = (of > 0).then(|| &nest.vars[self.scene.random.below(of)]);
        let most = self.scene.random.within(1, 4);
        match (self.scene.random.below(12), outer) {
            (0, Some(outer)) => format!("0..{outer} + 1"),
            (1 | 2, Some(outer)) => format!("0..min({outer} + 1, {tiles})"),
            (3, Some(outer)) => format!("{outer}..{tiles}"),
            (4, Some(outer)) => format!("0..min({}[{outer}], {most})", self.table()),
            (4, None) => format!("0..min({}.size(0), {most})", self.table()),
            (5 | 6, _) => format!("0..{most}"),
            _ => format!("0..min({tiles}, 6)"),
        }
    }

    /// An integer that depends on the variable of a loop, and perhaps on others.
    fn coordinate(&mut self, nest: &Nest, of: usize) -> String {
        let own = &nest.vars[of];
        let others = &nest.vars[..of];
        if others.is_empty() || self.scene.random.chance(65) {
            return own.clone();
        }
        let outer = self.scene.random.pick(others);
        match self.scene.random.below(4) {
            0 => format!("{outer} + {own}"),
            1 => format!("{outer} * 2 + {own}"),
            2 => {
                let table = self.table();
                let by = self.scene.random.within(1, 4);
                let listed = self.scene.bind("q", format!("{table}[{outer}]"));
                format!("{listed} * {by} + {own}")
            }
            _ => format!("{own} - {outer}"),
        }
    }

    /// The tile that an iteration of the innermost loop reads.
    fn nested_tile(&mut self, nest: &Nest) -> String {
        let last = nest.vars.len() - 1;
        let row = match nest.row {
            Coordinate::Block => block(0),
            Coordinate::Loop(of) => nest.vars[of].clone(),
        };
        let mut at = vec![row, self.coordinate(nest, last)];
        at.extend((0..last).filter(|of| nest.row != Coordinate::Loop(*of)).map(|of| nest.vars[of].clone()));
        let (tensor, shape) = &nest.operand;
        first_two(format!("tile({tensor}, {}, {})", tuple(shape), tuple(&at)), shape.len())
    }

    fn innermost(&mut self, nest: &Nest, slots: &[Known], acc: &Known) {
        let tile = self.nested_tile(nest);
        let value = match slots.first() {
            Some(slot) => {
                self.copy(tile, slot);
                slot.name.clone()
            }
            None => self.scene.bind("x", tile),
        };
        let update = match (&nest.other, slots.get(1)) {
            (Some((tensor, shape)), Some(slot)) => {
                let k = &nest.vars[nest.vars.len() - 1];
                self.copy(format!("tile({tensor}, {}, (0, {k}))", tuple(shape)), slot);
                format!("gemm({value}, {slot}, {acc});\n")
            }
            _ => {
                let value = match self.scene.random.below(4) {
                    0 => {
                        let at = cast(format!("at.{}", self.scene.random.below(2)), acc.elem);
                        format!("map({value}, |x, at| {} * {at})", cast("x", acc.elem))
                    }
                    _ => as_elem(value, nest.elem, acc.elem),
                };
                match acc.shape[1] < nest.operand.1[1] {
                    true => format!("{acc} += sum({value}, 1, acc = {});\n", acc.elem),
                    false => format!("{acc} += {value};\n"),
                }
            }
        };
        self.perhaps(15, &update);
    }

    /// Stores an accumulator in the body of a loop: one tile for each iteration of the loop and of its outer loops.
    fn store_in(&mut self, nest: &Nest, of: usize, acc: &Known) {
        let row = match nest.row {
            Coordinate::Loop(row) if row > of => "0".into(),
            Coordinate::Loop(row) => nest.vars[row].clone(),
            Coordinate::Block => block(0),
        };
        let height = match (nest.row, self.scene.axes.first()) {
            (Coordinate::Loop(row), _) => nest.over[row].0.clone(),
            (_, Some(axis)) => axis.extent.clone(),
            _ => Extent::Int(acc.shape[0]),
        };
        let (mut extents, mut at) = (vec![height, self.scene.extent(acc.shape[1])], vec![row, "0".into()]);
        let mut shape = acc.shape.clone();
        for outer in (0..=of).filter(|outer| nest.row != Coordinate::Loop(*outer)) {
            extents.push(nest.over[outer].0.clone());
            at.push(nest.vars[outer].clone());
            shape.push(1);
        }
        let to = self.scene.tensor(acc.elem, &extents, true);
        let tile = format!("tile({to}, {}, {})", tuple(&shape), tuple(&at));
        self.copy(acc, first_two(tile, shape.len()));
    }
}

/// A tile without its modes of one element after the second.
fn first_two(tile: String, rank: usize) -> String {
    match rank {
        2 => tile,
        _ => format!("{tile}[(_, _{})]", ", 0".repeat(rank - 2)),
    }
}
