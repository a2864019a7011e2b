//! Acts that multiply tiles: operands in shared memory, in global memory, or in registers.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::Expr;

use super::form::Form;
use super::scene::{Part, Scene};
use super::tree::{call, effect, hole, index, int, method, name, range, repeat, text, truth, tuple, with};

/// Element types of operands and accumulators.
const TYPES: [(u32, [Elem; 3]); 10] = [
    (12, [Elem::F32, Elem::F32, Elem::F32]),
    (3, [Elem::F64, Elem::F64, Elem::F64]),
    (4, [Elem::F16, Elem::F16, Elem::F32]),
    (3, [Elem::Bf16, Elem::Bf16, Elem::F32]),
    (1, [Elem::F16, Elem::F16, Elem::F16]),
    (4, [Elem::I32, Elem::I32, Elem::I32]),
    (3, [Elem::I8, Elem::I8, Elem::I32]),
    (2, [Elem::U8, Elem::U8, Elem::I32]),
    (2, [Elem::F16, Elem::F32, Elem::F32]),
    (1, [Elem::U32, Elem::U32, Elem::U32]),
];

struct Operand {
    /// The source of the copies, tile by tile.
    from: Option<Part>,
    /// Their target in shared memory.
    to: String,
    /// The part that a thread multiplies.
    view: Expr,
}

impl Scene {
    /// Accumulates products of tiles over a loop, and stores the result.
    pub(super) fn product(&mut self) {
        let [x, y, sum] = self.random.weighted(&TYPES);
        let grid = (0..4).map(|_| self.split(self.threads, 2)).find(|grid| !grid.contains(&1));
        let grid = grid.unwrap_or_else(|| self.split(self.threads, 2));
        let (rows, columns) = (grid[0], grid[1]);
        let each = [self.random.pick(&[1, 1, 2, 3, 4]), self.random.pick(&[1, 1, 2, 4])];
        let bk = self.random.pick(&[1, 2, 3, 4, 4, 6, 8, 8]);
        let threads = self.thread_layout(&grid);
        let keep = |kept: [bool; 2]| Some(kept.to_vec());
        let form = |tile: [i64; 2], keep: Option<Vec<bool>>, values: Vec<i64>| Form {
            tile: tile.to_vec(),
            threads: (threads.clone(), grid.clone()),
            keep,
            values,
            ragged: false,
        };
        let values = [0, 1].map(|mode| if each[mode] % 2 == 0 && self.random.chance(40) { 2 } else { 1 });
        let (m, n) = (rows * each[0], columns * each[1]);
        let of_a = form([m, bk], keep([true, false]), vec![values[0]]);
        let of_b = form([n, bk], keep([false, true]), vec![values[1]]);
        let of_c = form([m, n], None, values.to_vec());
        let acc = self.registers(sum, &of_c.shape(), 0.0);
        let order = self.random.pick(&["plain", "serpentine", "rows", "row_serpentine"]);
        let operations = self.random.chance(25).then(|| match sum.is_float() {
            true => self.random.pick(&[["min", "add"], ["max", "add"], ["max", "min"], ["max", "mul"]]),
            false => self.random.pick(&[["min", "add"], ["or", "and"], ["xor", "and"], ["max", "min"]]),
        });
        let gemm = |scene: &mut Scene, a: Expr, b: Expr| {
            let product = call("gemm", vec![a, b, name(&acc.name)]);
            let product = if order == "plain" { product } else { with(product, "order", text(order)) };
            let product = match operations {
                Some([combine, multiply]) => {
                    with(product, "with", tuple(vec![name(combine), name(multiply)]))
                }
                None => product,
            };
            scene.push(effect(product));
        };
        match self.random.below(10) {
            // Directly from memory, or from registers.
            0..3 if !grid.contains(&1) => {
                let (a, b) = (self.input(&of_a, x, 0), self.input(&of_b, y, 0));
                let load = |scene: &mut Scene, part: Part| match scene.random.chance(50) {
                    true => {
                        let to = scene.registers(part.elem, &part.shape, 0.0);
                        scene.copy(&part, &to);
                        name(&to.name)
                    }
                    false => name(&part.name),
                };
                let (a, b) = (load(self, a), load(self, b));
                gemm(self, a, b);
            }
            // All of K at once, if it is short.
            3 if !grid.contains(&1) => {
                let (a, b) = (self.input(&of_a, x, 1), self.input(&of_b, y, 1));
                let var = self.fresh("k");
                let extent = method(name(&a.name), "size", vec![int(2)]);
                let body = self.inside(&var, |scene| {
                    let at = || vec![hole(), hole(), name(&var)];
                    let (a, b) = (index(name(&a.name), at()), index(name(&b.name), at()));
                    gemm(scene, a, b);
                });
                self.push(repeat(&var, range(int(0), extent), body));
            }
            _ => self.by_tiles([(&of_a, x), (&of_b, y)], bk, &gemm),
        }
        let out = match self.random.chance(80) {
            true => sum,
            false => self.elem(),
        };
        let out = self.output(&of_c, out);
        match self.random.chance(70) {
            true => self.copy(&acc, &out),
            false => {
                let closure = self.closure(&[acc.elem], out.elem);
                self.push(effect(call("map", vec![name(&acc.name), name(&out.name), closure])));
            }
        }
    }

    /// Tiles of both operands are copied to shared memory, and multiplied.
    fn by_tiles(&mut self, operands: [(&Form, Elem); 2], bk: i64, gemm: &dyn Fn(&mut Scene, Expr, Expr)) {
        let ahead = self.random.chance(75);
        let mut all = Vec::new();
        // Both have the same K.
        let looped = self.extent(bk);
        for (form, elem) in operands {
            let array = self.shared(elem, &form.tile);
            let view = name(&self.bind("f", form.of(name(&array))));
            let whole = Form { keep: None, values: Vec::new(), ..form.clone() };
            let fetch = (0..10).find_map(|_| self.otherwise(&whole).filter(Form::is_exclusive));
            let Some(fetch) = fetch else {
                all.push(Operand { from: None, to: array, view });
                continue;
            };
            let from = self.operand(&fetch, elem, looped.clone());
            let to = self.bind("w", fetch.of(name(&array)));
            all.push(Operand { from: Some(from), to, view });
        }
        let [a, b] = &all[..] else { return };
        let (Some(of_a), Some(of_b)) = (&a.from, &b.from) else {
            // No thread layout fits.
            return;
        };
        let var = self.fresh("k");
        let extent = method(name(&of_a.name), "size", vec![int(2)]);
        let staged =
            self.random.chance(if operands.iter().all(|(_, elem)| elem.bytes() >= 4) { 25 } else { 70 });
        let twice = ahead && bk % 2 == 0 && self.random.chance(50);
        let body = self.inside(&var, |scene| {
            for (part, to) in [(of_a, &a.to), (of_b, &b.to)] {
                let taken = index(name(&part.name), vec![hole(), hole(), name(&var)]);
                let copy = call("copy", vec![taken, name(to)]);
                let copy = if staged { with(copy, "how", text("staged")) } else { copy };
                scene.push(effect(copy));
            }
            if !ahead {
                scene.push(effect(call("cp_async_wait_all", Vec::new())));
                scene.push(effect(call("sync_threads", Vec::new())));
            }
            gemm(scene, a.view.clone(), b.view.clone());
            if !ahead {
                scene.push(effect(call("sync_threads", Vec::new())));
            }
        });
        let extent = range(int(0), extent);
        let extent = if !ahead {
            extent
        } else {
            let least = if twice { 2 } else { 1 };
            let stages = self.random.weighted(&[(2, 1), (5, 2), (3, 3), (1, 4)]).max(least);
            let range = with(call("pipelined", vec![extent]), "stages", int(stages));
            match twice {
                true => {
                    let range = with(range, "fragments", int(2));
                    if self.random.chance(30) { with(range, "exits", truth(false)) } else { range }
                }
                false => range,
            }
        };
        let whole = repeat(&var, extent, body);
        match self.random.below(10) {
            // A second loop over the same tiles and slots.
            0 => {
                self.push(whole.clone());
                self.push(whole);
            }
            1 => {
                let outer = self.fresh("j");
                let times = self.random.within(1, 3);
                self.push(repeat(&outer, range(int(0), int(times)), vec![whole]));
            }
            _ => self.push(whole),
        }
    }

    /// An operand in global memory: rows by the grid, K tile by tile.
    fn operand(&mut self, form: &Form, elem: Elem, looped: super::scene::Extent) -> Part {
        let tile = form.tile.clone();
        let axis = (0..self.axes.len()).find(|&axis| self.axes[axis].tile == tile[0]);
        let (rows, at) = match axis {
            Some(axis) => {
                self.numbered[axis] = true;
                (self.axes[axis].extent.clone(), self.block(axis))
            }
            None => {
                let at = self.anywhere(tile[0]);
                (self.extent(tile[0]), at)
            }
        };
        let tensor = self.tensor(elem, &[rows, looped], false);
        let tiles =
            call("tile", vec![name(&tensor), super::tree::ints(&tile), super::tree::tuple(vec![at, hole()])]);
        let tiles = self.bind("g", tiles);
        let part = self.bind("p", form.of(name(&tiles)));
        Part { name: part, elem, is_registers: false, is_global: true, shape: form.shape() }
    }
}
