//! Other views of tiles.

use super::super::text::{list, literal, tuple};
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

    fn view(&mut self, of: &Known, value: String, shape: Vec<i64>) {
        let name = self.scene.bind("w", value);
        self.pool.push(Known { name, shape, own: None, placed: false, ..of.clone() });
    }

    fn permuted(&mut self) {
        let Some(of) = self.pick(|known| known.shape.len() > 1) else { return };
        let modes: Vec<i64> = (0..of.shape.len() as i64).collect();
        let order = self.scene.random.shuffled(&modes);
        let shape = order.iter().map(|&mode| of.shape[mode as usize]).collect();
        self.view(&of, format!("permute({of}, {})", tuple(&order)), shape);
    }

    fn regrouped(&mut self) {
        let Some(of) = self.pick(|known| known.shape.iter().product::<i64>() > 1) else { return };
        let count: i64 = of.shape.iter().product();
        let parts = self.scene.random.within(1, 2) as usize;
        let shape = self.scene.split(count, parts);
        self.view(&of, format!("regroup({of}, {})", tuple(&shape)), shape);
    }

    fn along(&mut self) {
        let Some(of) = self.pick(|known| known.shape.len() == 1) else { return };
        let mode = self.scene.random.below(2);
        let mut shape = vec![1, 1];
        shape[mode] = of.shape[0];
        self.view(&of, format!("{of}.along({mode})"), shape);
    }

    /// A neighbouring tile.
    fn shifted(&mut self) {
        let Some(of) = self.pick(|known| known.placed && known.space == Space::Global) else { return };
        let by: Vec<i64> = of.shape.iter().map(|_| self.scene.random.within(-2, 2)).collect();
        self.view(&of, format!("shift({of}, {})", list(&by)), of.shape.clone());
    }

    /// A copy into registers with another value for out-of-bounds elements.
    fn filled(&mut self) {
        let Some(of) = self.pick(|known| known.space == Space::Global) else { return };
        let to = self.full(of.elem, &of.shape, 0.0);
        let option = match self.scene.random.chance(50) {
            true => format!("fill = {}", literal(self.scene.random.within(0, 3) as f64, of.elem)),
            false => "clamp = true".into(),
        };
        self.scene.push(format!("copy({of}, {to}, {option});"));
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
        let entry = |mode| if mode == at { times.to_string() } else { "_".into() };
        let entries: Vec<String> = (0..shape.len()).map(entry).collect();
        self.view(&of, format!("broadcast({of}, {})", tuple(&entries)), shape);
    }
}
