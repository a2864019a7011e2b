//! Other views of tiles.

use super::super::tree::{call, float, hole, int, ints, list, literal, method, name, truth, tuple, with};
use super::{Known, Space, Whole};

impl Whole {
    pub(super) fn viewed(&mut self) {
        match self.scene.random.below(7) {
            0 | 1 => self.permuted(),
            2 => self.regrouped(),
            3 => self.along(),
            4 => self.shifted(),
            5 => self.filled(),
            _ => self.repeated(),
        }
    }

    fn view(&mut self, of: &Known, value: tilewright_codegen::ast::Expr, shape: Vec<i64>) {
        let name = self.scene.bind("w", value);
        self.pool.push(Known { name, shape, own: None, placed: false, ..of.clone() });
    }

    fn permuted(&mut self) {
        let Some(of) = self.pick(|known| known.shape.len() > 1) else { return };
        let modes: Vec<i64> = (0..of.shape.len() as i64).collect();
        let order = self.scene.random.shuffled(&modes);
        let shape = order.iter().map(|&mode| of.shape[mode as usize]).collect();
        let value = call("permute", vec![name(&of.name), ints(&order)]);
        self.view(&of, value, shape);
    }

    fn regrouped(&mut self) {
        let Some(of) = self.pick(|known| known.shape.iter().product::<i64>() > 1) else { return };
        let count: i64 = of.shape.iter().product();
        let parts = self.scene.random.within(1, 2) as usize;
        let shape = self.scene.split(count, parts);
        let value = call("regroup", vec![name(&of.name), super::list_of(&shape)]);
        self.view(&of, value, shape);
    }

    fn along(&mut self) {
        let Some(of) = self.pick(|known| known.shape.len() == 1) else { return };
        let mode = self.scene.random.below(2);
        let mut shape = vec![1, 1];
        shape[mode] = of.shape[0];
        let value = method(name(&of.name), "along", vec![int(mode as i64)]);
        self.view(&of, value, shape);
    }

    /// A neighbouring tile.
    fn shifted(&mut self) {
        let Some(of) = self.pick(|known| known.placed && known.space == Space::Global) else { return };
        let by: Vec<i64> = of.shape.iter().map(|_| self.scene.random.within(-2, 2)).collect();
        let by = list(by.into_iter().map(int).collect());
        let value = call("shift", vec![name(&of.name), by]);
        let shape = of.shape.clone();
        self.view(&of, value, shape);
    }

    /// A copy into registers with another value for out-of-bounds elements.
    fn filled(&mut self) {
        let Some(of) = self.pick(|known| known.space == Space::Global) else { return };
        let to = self.full(of.elem, &of.shape, 0.0);
        let copy = call("copy", vec![name(&of.name), name(&to.name)]);
        let copy = match self.scene.random.chance(50) {
            true => {
                let fill = self.scene.random.within(0, 3) as f64;
                let fill = if of.elem.is_float() { float(fill) } else { literal(fill, of.elem) };
                with(copy, "fill", fill)
            }
            false => with(copy, "clamp", truth(true)),
        };
        self.push(copy);
    }

    /// Repeated along a new mode.
    fn repeated(&mut self) {
        let Some(of) = self.pick(|known| known.shape.len() < 3 && known.shape.iter().product::<i64>() < 512)
        else {
            return;
        };
        let times = self.scene.random.pick(&[2, 3, 4]);
        let at = self.scene.random.below(of.shape.len() + 1);
        let mut shape = of.shape.clone();
        shape.insert(at, times);
        let entries = (0..shape.len()).map(|mode| if mode == at { int(times) } else { hole() }).collect();
        let value = call("broadcast", vec![name(&of.name), tuple(entries)]);
        self.view(&of, value, shape);
    }
}
