//! Loops in loops: a loop, pipelined or not, inside of one or two others. Coordinates of tiles depend on the variables of all
//! loops; bounds depend on variables of outer loops or on integers in memory.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Binary, Expr, Stmt};

use super::super::scene::{Axis, Extent};
use super::super::tree::{
    assign, binary, call, cast, closure, effect, field, hole, index, int, literal, method, name, range,
    repeat, tuple, typed, with, word,
};
use super::{Known, Whole, list_of};

/// The loops, and the tiles that the innermost one reads.
struct Nest {
    /// Variables, the outermost first.
    vars: Vec<String>,
    /// For each loop the extent along which it runs, and its tile.
    over: Vec<(Extent, i64)>,
    /// The coordinate of the operand along its rows.
    row: Coordinate,
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
        self.keys.push(Arg { name: Some(word("threads")), value: int(self.scene.threads) });
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
                let warps = with(typed("tiled_mma", elem, Vec::new()), "warps", int(self.scene.threads / 32));
                let mut made = warps;
                if let tilewright_codegen::ast::ExprKind::Call { types, .. } = &mut made.kind {
                    types.push(word(sums.name()));
                }
                mma = Some(self.scene.bind("mma", made));
            }
            (sums, vec![rows, width])
        } else {
            let width = if self.scene.random.chance(50) { columns } else { 1 };
            (if elem == Elem::U8 { Elem::I32 } else { elem }, vec![rows, width])
        };
        Nest { vars, over, row, operand, other, inside, acc, mma }
    }

    fn accumulator(&mut self, nest: &Nest) -> Known {
        let (elem, shape) = nest.acc.clone();
        match &nest.mma {
            None => self.full(elem, &shape, 0.0),
            Some(mma) => {
                let shape_of = tuple(shape.iter().map(|&n| int(n)).collect());
                let made = method(name(mma), "accumulators", vec![shape_of, literal(0.0, elem)]);
                self.made(made, elem, shape)
            }
        }
    }

    /// The loops from this one on.
    fn level(&mut self, nest: &Nest, of: usize, acc: Option<Known>) {
        let (last, var) = (of + 1 == nest.vars.len(), nest.vars[of].clone());
        let staged = last && self.scene.random.chance(75);
        let slots: Vec<String> = match last
            && (staged || nest.other.is_some() || self.scene.random.chance(30))
        {
            true => {
                let elem = self.element_of(nest);
                let shapes = [Some(nest.operand.1[..2].to_vec()), nest.other.as_ref().map(|of| of.1.clone())];
                let mut slots = Vec::new();
                for shape in shapes.into_iter().flatten() {
                    slots.push(self.scene.bind("sh", typed("shared", elem, vec![list_of(&shape)])));
                }
                slots
            }
            false => Vec::new(),
        };
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
            true if self.scene.random.chance(10) => self.ahead(all),
            true => with(call("pipelined", vec![all]), "stages", int(self.scene.random.within(1, 4))),
            false => all,
        };
        self.scene.push(repeat(&var, all, body));
    }

    fn element_of(&self, nest: &Nest) -> Elem {
        let of = self.scene.params.iter().find(|param| param.name.text == nest.operand.0);
        of.and_then(|param| Elem::named(&param.elem.text)).unwrap_or(Elem::F32)
    }

    /// The range of a loop: over the tiles, to a constant, to the variable of another loop or from it, by integers in memory.
    fn bounds(&mut self, nest: &Nest, of: usize) -> Expr {
        let (extent, tile) = &nest.over[of];
        let tiles = call("ceil_div", vec![extent.expr(), int(*tile)]);
        let outer = (of > 0).then(|| name(&nest.vars[self.scene.random.below(of)]));
        let most = int(self.scene.random.within(1, 4));
        match (self.scene.random.below(12), outer) {
            (0, Some(outer)) => range(int(0), binary(Binary::Add, outer, int(1))),
            (1 | 2, Some(outer)) => {
                let next = binary(Binary::Add, outer, int(1));
                range(int(0), call("min", vec![next, tiles]))
            }
            (3, Some(outer)) => range(outer, tiles),
            (4, Some(outer)) => {
                let table = self.table();
                let loaded = index(name(&table), vec![outer]);
                range(int(0), call("min", vec![loaded, most]))
            }
            (4, None) => {
                let table = self.table();
                range(int(0), call("min", vec![method(name(&table), "size", vec![int(0)]), most]))
            }
            (5 | 6, _) => range(int(0), most),
            _ => range(int(0), call("min", vec![tiles, int(6)])),
        }
    }

    /// An integer that depends on the variable of a loop, and perhaps on others.
    fn coordinate(&mut self, nest: &Nest, of: usize) -> Expr {
        let own = name(&nest.vars[of]);
        let others: Vec<String> = nest.vars[..of].to_vec();
        if others.is_empty() || self.scene.random.chance(65) {
            return own;
        }
        let outer = name(&self.scene.random.pick(&others));
        match self.scene.random.below(4) {
            0 => binary(Binary::Add, outer, own),
            1 => binary(Binary::Add, binary(Binary::Mul, outer, int(2)), own),
            2 => {
                let table = self.table();
                let by = self.scene.random.within(1, 4);
                let listed = name(&self.scene.bind("q", index(name(&table), vec![outer])));
                binary(Binary::Add, binary(Binary::Mul, listed, int(by)), own)
            }
            _ => binary(Binary::Sub, own, outer),
        }
    }

    /// The tile that an iteration of the innermost loop reads.
    fn nested_tile(&mut self, nest: &Nest) -> Expr {
        let last = nest.vars.len() - 1;
        let row = match nest.row {
            Coordinate::Block => self.scene.block(0),
            Coordinate::Loop(of) => name(&nest.vars[of]),
        };
        let mut at = vec![row, self.coordinate(nest, last)];
        let others = (0..last).filter(|of| nest.row != Coordinate::Loop(*of)).map(|of| name(&nest.vars[of]));
        at.extend(others);
        let (tensor, shape) = &nest.operand;
        first_two(call("tile", vec![name(tensor), list_of(shape), tuple(at)]), shape.len())
    }

    fn innermost(&mut self, nest: &Nest, slots: &[String], acc: &Known) {
        let tile = self.nested_tile(nest);
        let mut body: Vec<Stmt> = Vec::new();
        let copied = |to: &str, from: Expr| effect(call("copy", vec![from, name(to)]));
        let value = match slots.first() {
            Some(slot) => {
                self.scene.push(copied(slot, tile));
                name(slot)
            }
            None => name(&self.scene.bind("x", tile)),
        };
        if let (Some((tensor, shape)), Some(slot)) = (&nest.other, slots.get(1)) {
            let at = tuple(vec![int(0), name(&nest.vars[nest.vars.len() - 1])]);
            self.scene.push(copied(slot, call("tile", vec![name(tensor), list_of(shape), at])));
            body.push(effect(call("gemm", vec![value, name(slot), name(&acc.name)])));
        } else {
            let elem = self.element_of(nest);
            let narrow = acc.shape[1] < nest.operand.1[1];
            let value = match self.scene.random.below(4) {
                0 => {
                    let at = cast(field("at", &self.scene.random.below(2).to_string()), acc.elem);
                    let product = binary(Binary::Mul, cast(name("x"), acc.elem), at);
                    call("map", vec![value, closure(&["x", "at"], product)])
                }
                _ if elem != acc.elem => cast(value, acc.elem),
                _ => value,
            };
            let value = match narrow {
                true => with(call("sum", vec![value, int(1)]), "acc", name(acc.elem.name())),
                false => value,
            };
            body.push(assign(name(&acc.name), Some(Binary::Add), value));
        }
        self.perhaps(15, body);
    }

    /// Stores an accumulator in the body of a loop: one tile for each iteration of the loop and of its outer loops.
    fn store_in(&mut self, nest: &Nest, of: usize, acc: &Known) {
        let row = match nest.row {
            Coordinate::Loop(row) if row > of => int(0),
            Coordinate::Loop(row) => name(&nest.vars[row]),
            Coordinate::Block => self.scene.block(0),
        };
        let height = match (nest.row, self.scene.axes.first()) {
            (Coordinate::Loop(row), _) => nest.over[row].0.clone(),
            (_, Some(axis)) => axis.extent.clone(),
            _ => Extent::Int(acc.shape[0]),
        };
        let (mut extents, mut at) = (vec![height, self.scene.extent(acc.shape[1])], vec![row, int(0)]);
        let mut shape = acc.shape.clone();
        for outer in (0..=of).filter(|outer| nest.row != Coordinate::Loop(*outer)) {
            extents.push(nest.over[outer].0.clone());
            at.push(name(&nest.vars[outer]));
            shape.push(1);
        }
        let to = self.scene.tensor(acc.elem, &extents, true);
        let tile = call("tile", vec![name(&to), list_of(&shape), tuple(at)]);
        self.push(call("copy", vec![name(&acc.name), first_two(tile, shape.len())]));
    }
}

/// A tile without its modes of one element after the second.
fn first_two(tile: Expr, rank: usize) -> Expr {
    match rank {
        2 => tile,
        _ => index(tile, (0..rank).map(|mode| if mode < 2 { hole() } else { int(0) }).collect()),
    }
}
