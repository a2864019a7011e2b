//! Acts that multiply tiles: operands in shared memory, in global memory, or in registers.

use tilewright_codegen::Elem;

use super::form::Form;
use super::scene::{Extent, Part, Scene, block};
use super::text::{repeat, tuple, with};

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

/// The operations that combine and multiply, of floats and of integers.
const OPERATIONS: [[[&str; 2]; 4]; 2] = [
    [["min", "add"], ["max", "add"], ["max", "min"], ["max", "mul"]],
    [["min", "add"], ["or", "and"], ["xor", "and"], ["max", "min"]],
];

struct Operand {
    /// The source of the copies, tile by tile.
    from: Part,
    /// Their target in shared memory.
    to: String,
    /// The part that a thread multiplies.
    view: String,
}

/// A call of `gemm` on two operands.
type Gemm<'g> = &'g dyn Fn(&str, &str) -> String;

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
        let form = |tile: [i64; 2], keep: Option<[bool; 2]>, values: &[i64]| Form {
            tile: tile.to_vec(),
            threads: (threads.clone(), grid.clone()),
            keep: keep.map(Vec::from),
            values: values.to_vec(),
            ragged: false,
        };
        let values = [0, 1].map(|mode| if each[mode] % 2 == 0 && self.random.chance(40) { 2 } else { 1 });
        let (m, n) = (rows * each[0], columns * each[1]);
        let of_a = form([m, bk], Some([true, false]), &values[..1]);
        let of_b = form([n, bk], Some([false, true]), &values[1..]);
        let of_c = form([m, n], None, &values);
        let acc = self.registers(sum, &of_c.shape(), 0.0);
        let order = self.random.pick(&["plain", "serpentine", "rows", "row_serpentine"]);
        let operations = &OPERATIONS[usize::from(!sum.is_float())];
        let operations = self.random.chance(25).then(|| self.random.pick(operations));
        let gemm = |a: &str, b: &str| {
            let mut product = format!("gemm({a}, {b}, {acc})");
            if order != "plain" {
                product = with(product, "order", format!("{order:?}"));
            }
            if let Some(operations) = &operations {
                product = with(product, "with", tuple(operations));
            }
            format!("{product};")
        };
        match self.random.below(10) {
            // Directly from memory, or from registers.
            0..3 if !grid.contains(&1) => {
                let (a, b) = (self.input(&of_a, x, 0), self.input(&of_b, y, 0));
                let load = |scene: &mut Scene, part: Part| match scene.random.chance(50) {
                    true => {
                        let to = scene.registers(part.elem, &part.shape, 0.0);
                        scene.copy(&part, &to);
                        to.name
                    }
                    false => part.name,
                };
                let (a, b) = (load(self, a), load(self, b));
                self.push(gemm(&a, &b));
            }
            // All of K at once, if it is short.
            3 if !grid.contains(&1) => {
                let (a, b) = (self.input(&of_a, x, 1), self.input(&of_b, y, 1));
                let k = self.fresh("k");
                let product = gemm(&format!("{a}[(_, _, {k})]"), &format!("{b}[(_, _, {k})]"));
                self.push(repeat(&k, &format!("0..{a}.size(2)"), &product));
            }
            _ => self.by_tiles([(&of_a, x), (&of_b, y)], bk, &gemm),
        }
        let out = if self.random.chance(80) { sum } else { self.elem() };
        let out = self.output(&of_c, out);
        match self.random.chance(70) {
            true => self.copy(&acc, &out),
            false => {
                let closure = self.closure(&[acc.elem], out.elem);
                self.push(format!("map({acc}, {out}, {closure});"));
            }
        }
    }

    /// Tiles of both operands are copied to shared memory, and multiplied.
    fn by_tiles(&mut self, operands: [(&Form, Elem); 2], bk: i64, gemm: Gemm<'_>) {
        let ahead = self.random.chance(75);
        // Both have the same K.
        let looped = self.extent(bk);
        let [a, b] = operands.map(|(form, elem)| self.operand_in_shared(form, elem, &looped));
        let (Some(a), Some(b)) = (a, b) else {
            // No thread layout fits.
            return;
        };
        let var = self.fresh("k");
        let staged =
            self.random.chance(if operands.iter().all(|(_, elem)| elem.bytes() >= 4) { 25 } else { 70 });
        let twice = ahead && bk % 2 == 0 && self.random.chance(50);
        let mut body = String::new();
        for Operand { from, to, .. } in [&a, &b] {
            let how = if staged { ", how = \"staged\"" } else { "" };
            body += &format!("copy({from}[(_, _, {var})], {to}{how});\n");
        }
        let product = gemm(&a.view, &b.view);
        body += &match ahead {
            true => product,
            false => format!("cp_async_wait_all();\nsync_threads();\n{product}\nsync_threads();"),
        };
        let mut over = format!("0..{}.size(2)", a.from);
        if ahead {
            let least = if twice { 2 } else { 1 };
            let stages = self.random.weighted(&[(2, 1), (5, 2), (3, 3), (1, 4)]).max(least);
            over = format!("pipelined({over}, stages = {stages})");
        }
        if twice {
            over = with(over, "fragments", 2);
            over = if self.random.chance(30) { with(over, "exits", false) } else { over };
        }
        let whole = repeat(&var, &over, &body);
        match self.random.below(10) {
            // A second loop over the same tiles and slots.
            0 => {
                self.push(&whole);
                self.push(&whole);
            }
            1 => {
                let outer = self.fresh("j");
                let times = self.random.within(1, 3);
                self.push(repeat(&outer, &format!("0..{times}"), &whole));
            }
            _ => self.push(whole),
        }
    }

    fn operand_in_shared(&mut self, form: &Form, elem: Elem, looped: &Extent) -> Option<Operand> {
        let array = self.shared(elem, &form.tile);
        let view = self.bind("f", form.of(&array));
        let whole = Form { keep: None, values: Vec::new(), ..form.clone() };
        let fetch = (0..10).find_map(|_| self.otherwise(&whole).filter(Form::is_exclusive))?;
        let from = self.operand(&fetch, elem, looped);
        let to = self.bind("w", fetch.of(&array));
        Some(Operand { from, to, view })
    }

    /// An operand in global memory: rows by the grid, K tile by tile.
    fn operand(&mut self, form: &Form, elem: Elem, looped: &Extent) -> Part {
        let tile = &form.tile;
        let axis = (0..self.axes.len()).find(|&axis| self.axes[axis].tile == tile[0]);
        let (rows, at) = match axis {
            Some(axis) => {
                self.numbered[axis] = true;
                (self.axes[axis].extent.clone(), block(axis))
            }
            None => {
                let at = self.anywhere(tile[0]);
                (self.extent(tile[0]), at)
            }
        };
        let tensor = self.tensor(elem, &[rows, looped.clone()], false);
        let tiles = self.bind("g", format!("tile({tensor}, {}, ({at}, _))", tuple(tile)));
        let name = self.bind("p", form.of(&tiles));
        Part { name, elem, is_registers: false, is_global: true, shape: form.shape() }
    }
}
