//! Products of whole tiles, and producers.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Binary, Expr, Stmt};

use super::super::scene::Extent;
use super::super::tree::{
    binary, call, choice, closure, effect, hole, index, int, ints, list, literal, method, name, negative,
    repeat, tuple, typed, with, word,
};
use super::{Known, Space, Whole, list_of};

/// Types of operands, of sums, and whether tensor cores multiply them.
const TYPES: [(u32, (Elem, Elem, bool)); 7] = [
    (5, (Elem::F32, Elem::F32, false)),
    (2, (Elem::I32, Elem::I32, false)),
    (2, (Elem::F64, Elem::F64, false)),
    (2, (Elem::F16, Elem::F32, false)),
    (4, (Elem::F16, Elem::F32, true)),
    (4, (Elem::Bf16, Elem::F32, true)),
    (2, (Elem::I8, Elem::I32, true)),
];

impl Whole {
    /// Needs the newest of the architectures that are drawn.
    pub(super) fn hopper(&mut self) {
        let is_arch = |key: &Arg| key.name.as_ref().is_some_and(|name| name.text == "arch");
        if !self.keys.iter().any(is_arch) {
            self.keys.push(Arg { name: Some(word("arch")), value: int(90) });
        }
    }

    /// The keys of a pipelined loop.
    pub(super) fn ahead(&mut self, range: Expr) -> Expr {
        let stages = self.scene.random.within(1, 4);
        let all = with(call("pipelined", vec![range]), "stages", int(stages));
        let likely = match self.warpgroups {
            _ if self.listed => 100,
            0 => 30,
            _ => 90,
        };
        if !self.scene.random.chance(likely) {
            return all;
        }
        self.hopper();
        with(all, "producer", name("warp"))
    }

    /// A shape that tensor cores multiply, and how many warpgroups do.
    pub(super) fn product_shape(&mut self) -> Vec<i64> {
        let columns = self.scene.random.pick(&[8, 16, 32, 32, 64]);
        if self.scene.random.chance(45) {
            self.hopper();
            self.warpgroups = self.scene.random.weighted(&[(3, 1), (4, 2), (1, 3)]);
            return vec![64 * self.warpgroups, columns];
        }
        vec![self.scene.random.pick(&[16, 32, 64, 64, 128]), columns]
    }

    /// Sums of products, tile by tile along K, or of one tile; on tensor cores if asked for.
    pub(super) fn product(&mut self, on_cores: bool) {
        let [rows, columns] = self.frame[..] else { return self.controlled() };
        let types = TYPES.iter().copied().filter(|(_, of)| of.2 || !on_cores).collect::<Vec<_>>();
        let (elem, sums, cores) = self.scene.random.weighted(&types);
        let cores = cores && rows % 16 == 0 && columns % 8 == 0;
        let bk = match cores {
            true if self.warpgroups > 0 => self.scene.random.pick(&[32, 64]),
            true => self.scene.random.pick(&[16, 32, 64]),
            false => self.scene.random.pick(&[1, 3, 4, 7, 8, 8, 16]),
        };
        let looped = self.scene.extent(bk);
        let mut tiles = Vec::new();
        for (axis, size) in [(0, rows), (1, columns)] {
            let known = (0..self.scene.axes.len())
                .find(|&at| self.scene.axes[at].tile == size && (axis == 0 || at > 0));
            let (extent, at) = match known {
                Some(axis) => {
                    self.scene.numbered[axis] = true;
                    (self.scene.axes[axis].extent.clone(), self.scene.block(axis))
                }
                None => (self.scene.extent(size), int(0)),
            };
            tiles.push(self.operand(elem, [extent, looped.clone()], [size, bk], at));
        }
        let acc = match cores {
            true => {
                let (by, count) = match self.warpgroups {
                    0 => ("warps", self.scene.threads / 32),
                    groups => ("warpgroups", groups),
                };
                let mut mma = with(typed("tiled_mma", elem, Vec::new()), by, int(count));
                if let tilewright_codegen::ast::ExprKind::Call { types, .. } = &mut mma.kind {
                    types.push(word(sums.name()));
                }
                let mma = self.scene.bind("mma", mma);
                let made =
                    method(name(&mma), "accumulators", vec![ints(&[rows, columns]), literal(0.0, sums)]);
                self.made(made, sums, vec![rows, columns])
            }
            false => self.full(sums, &[rows, columns], 0.0),
        };
        let slots: Vec<String> = tiles
            .iter()
            .map(|(_, shape)| {
                let slot = typed("shared", elem, vec![list_of(shape)]);
                self.scene.bind("sh", slot)
            })
            .collect();
        let computed = if self.computes { self.computed_operands(elem, &tiles, &slots) } else { Vec::new() };
        let operand = |at: usize| computed.get(at).map_or(&slots[at], |(_, to)| to);
        let steps = |whole: &mut Whole, at: Expr| {
            let taken = |(tiles, slot): (&(String, Vec<i64>), &String)| {
                let taken = index(name(&tiles.0), vec![hole(), hole(), at.clone()]);
                effect(call("copy", vec![taken, name(slot)]))
            };
            let copies: Vec<Stmt> = tiles.iter().zip(&slots).map(taken).collect();
            let multiplied = effect(call("gemm", vec![name(operand(0)), name(operand(1)), name(&acc.name)]));
            if whole.computes {
                copies.into_iter().for_each(|copy| whole.scene.push(copy));
                for (value, to) in &computed {
                    whole.scene.push(effect(call("copy", vec![value.clone(), name(to)])));
                }
                whole.scene.push(multiplied);
                return;
            }
            if !whole.listed && whole.scene.random.chance(12) {
                let all = copies.into_iter().chain([multiplied]).collect();
                whole.perhaps(100, all);
                return;
            }
            copies.into_iter().for_each(|copy| whole.scene.push(copy));
            whole.perhaps(30, vec![multiplied]);
        };
        // Products of warpgroups take what producers have copied.
        let bulk = on_cores && self.warpgroups > 0;
        if !self.listed && self.scene.random.chance(if bulk { 5 } else { 25 }) {
            let at = self.somewhere();
            steps(self, at);
        } else {
            let var = self.scene.fresh("k");
            let end = method(name(&tiles[0].0), "size", vec![int(2)]);
            let listed = if self.listed || self.scene.random.chance(25) { Some(self.listed()) } else { None };
            let body = self.in_loop(&var, |whole| {
                let at = match &listed {
                    Some((table, _)) => name(&whole.scene.bind("j", index(name(table), vec![name(&var)]))),
                    None => whole.iteration(&var),
                };
                steps(whole, at);
                if whole.scene.random.chance(12) {
                    whole.changed();
                }
            });
            let all = match listed {
                Some((_, all)) => all,
                None => self.span(end),
            };
            let all =
                if self.scene.random.chance(if bulk { 100 } else { 75 }) { self.ahead(all) } else { all };
            self.scene.push(repeat(&var, all, body));
        }
        if on_cores {
            self.examined(25, &acc);
            let acc = if self.scene.random.chance(30) { self.masked(&acc) } else { acc };
            self.store(&acc);
        } else {
            self.examined(30, &acc);
        }
    }

    /// Further tiles in shared memory, functions of the copied tiles, which are multiplied instead of these.
    fn computed_operands(
        &mut self,
        elem: Elem,
        tiles: &[(String, Vec<i64>)],
        slots: &[String],
    ) -> Vec<(Expr, String)> {
        let mut all: Vec<(Expr, String)> = Vec::new();
        for at in 0..slots.len() {
            let from = match all.last() {
                Some((_, known)) if tiles[0].1 == tiles[1].1 && self.scene.random.chance(15) => known,
                _ => &slots[at],
            };
            let x = || name("x");
            let value = match self.scene.random.below(5) {
                0 => x(),
                1 => negative(x()),
                2 => binary(Binary::Add, x(), x()),
                3 => choice(binary(Binary::Gt, x(), literal(0.0, elem)), x(), literal(0.0, elem)),
                _ => binary(Binary::Add, x(), literal(1.0, elem)),
            };
            let other = slots[1 - at.min(1)].clone();
            let mut value = call("map", vec![name(from), closure(&["x"], value)]);
            if tiles[0].1 == tiles[1].1 && self.scene.random.chance(20) {
                let both = tuple(vec![name(&slots[at]), name(&other)]);
                value = call("map", vec![both, closure(&["x", "y"], binary(Binary::Sub, x(), name("y")))]);
            }
            let to = self.scene.bind("sh", typed("shared", elem, vec![list_of(&tiles[at].1)]));
            all.push((value, to));
        }
        all
    }

    /// Some elements, by their coordinates.
    pub(super) fn masked(&mut self, of: &Known) -> Known {
        let condition = self.mask(of.shape.len());
        let value = choice(condition, name("x"), literal(0.0, of.elem));
        self.made(call("map", vec![name(&of.name), closure(&["x", "at"], value)]), of.elem, of.shape.clone())
    }

    fn operand(&mut self, elem: Elem, extents: [Extent; 2], shape: [i64; 2], at: Expr) -> (String, Vec<i64>) {
        let tensor = match self.listed && self.scene.random.chance(75) {
            true => self.scene.rows(elem, &extents),
            false => self.scene.tensor(elem, &extents, false),
        };
        let tiles = call("tile", vec![name(&tensor), list_of(&shape), tuple(vec![at, hole()])]);
        (self.scene.bind("x", tiles), shape.to_vec())
    }

    /// An element of an argument, which is a number.
    pub(super) fn single(&mut self) {
        let elem = self.scene.elem();
        let extent = self.scene.extent(1);
        let tensor = self.scene.tensor(elem, &[extent], false);
        let at = self.somewhere();
        let name = self.scene.bind("e", index(name(&tensor), vec![at]));
        let shape = vec![1];
        self.pool.push(Known { name, elem, shape, space: Space::Global, own: None, placed: false });
    }

    /// Statements about the launch.
    pub(super) fn launch(&mut self) {
        if self.scene.random.chance(8) {
            self.push(call("persistent", Vec::new()));
        }
        if self.scene.random.chance(6) && !self.scene.axes.is_empty() {
            self.hopper();
            let blocks = self.scene.random.pick(&[1, 2, 2, 4]);
            self.push(call("cluster", vec![int(blocks)]));
        }
    }

    /// Adds to a result that all blocks share.
    pub(super) fn added_up(&mut self) {
        let Some(from) = self.pick(|known| known.elem == Elem::I32) else { return };
        let extents: Vec<Extent> = from.shape.iter().map(|&n| self.scene.extent(n)).collect();
        let tensor = self.scene.tensor(Elem::I32, &extents, true);
        let at = list(from.shape.iter().map(|_| int(0)).collect());
        let to = call("tile", vec![name(&tensor), list_of(&from.shape), at]);
        let copy = call("copy", vec![name(&from.name), to]);
        self.push(with(copy, "how", super::super::tree::text("atomic_add")));
    }
}
