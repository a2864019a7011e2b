//! Reductions of a part of a mode, whose results have no coordinate; and claims about out-of-bounds elements, true and false.

use tilewright_codegen::Elem;

use super::super::text::{cast, choice, list, literal, tuple};
use super::{Known, Whole};

impl Whole {
    fn begin(&mut self, frame: Vec<i64>) {
        self.frame = frame;
        self.scene.threads = self.scene.random.pick(&[32, 64, 128, 256]);
        self.set_threads();
        self.axes();
    }

    /// The coordinates of results of a regrouped tile's reduction, which the next tile provides.
    pub(super) fn parts_of_modes(&mut self) {
        let (parts, rest) =
            (self.scene.random.pick(&[2, 2, 3, 4, 8]), self.scene.random.pick(&[4, 8, 32, 64, 256]));
        self.begin(vec![rest]);
        let elem = self.scene.random.pick(&[Elem::F32, Elem::F32, Elem::I32]);
        let x = self.tile(elem, vec![parts * rest], false);
        let (shape, mode) = match self.scene.random.chance(75) {
            true => (vec![parts, rest], 0),
            false => (vec![rest, parts], 1),
        };
        let number = literal(self.scene.random.within(0, 1) as f64, elem);
        let regrouped = format!("regroup({x}, {})", tuple(&shape));
        let p = self.made(format!("map({regrouped}, |x| x + {number})"), elem, shape);
        let reduced = match self.scene.random.below(4) {
            0 => format!("maximum({p}, {mode})"),
            1 => format!("minimum({p}, {mode})"),
            2 => format!("reduce({p}, {}, |a, b| a + b, mode = {mode})", literal(0.0, elem)),
            _ => format!("sum({p}, {mode})"),
        };
        let mut kept = p.shape.clone();
        kept[mode] = 1;
        let reduced = self.made(reduced, elem, kept);
        let next = self.tile(Elem::I32, vec![rest], false);
        let numbers = format!("map((regroup({reduced}, {rest}), {next}), |r, n, at| at.0)");
        let made = self.made(numbers, Elem::I32, vec![rest]);
        let to = self.result(Elem::I32, &made.shape);
        self.copy(made, to);
        if self.scene.random.chance(60) {
            // By which threads have other parts.
            let part = self.scene.random.within(0, parts - 1);
            let at = if mode == 0 { format!("({part}, _)") } else { format!("(_, {part})") };
            let to = self.result(elem, &[rest]);
            self.copy(format!("{p}[{at}]"), to);
        }
        self.scene.number();
    }

    /// Reductions of differences of neighbours and the like, with a claim.
    pub(super) fn claim(&mut self) {
        let frame = match self.scene.random.chance(60) {
            true => vec![self.scene.random.pick(&[8, 32, 64, 256])],
            false => vec![self.scene.random.pick(&[4, 8, 32]), self.scene.random.pick(&[4, 16, 32])],
        };
        self.begin(frame.clone());
        let elem = self.scene.random.pick(&[Elem::F32, Elem::F32, Elem::I32]);
        let x = self.tile(elem, frame.clone(), false);
        let of = self.claimed(&x);
        let (function, identity) = match (elem, self.scene.random.below(4)) {
            (Elem::F32, 0) => ("maximum", "f32::NEG_INFINITY".into()),
            (Elem::F32, 1) => ("minimum", "f32::INFINITY".into()),
            _ => ("sum", literal(0.0, elem)),
        };
        let (mut along, mut kept) = (String::new(), vec![1; frame.len()]);
        if frame.len() > 1 && self.scene.random.chance(70) {
            let mode = self.scene.random.below(2);
            kept = frame;
            kept[mode] = 1;
            along = format!(", {mode}");
        }
        let reduced = format!("{function}({of}{along}, out_of_bounds = {identity})");
        let reduced = self.made(reduced, elem, kept);
        self.store(&reduced);
        self.scene.number();
    }

    /// A tile whose out-of-bounds elements have the claimed value, or another.
    fn claimed(&mut self, x: &Known) -> Known {
        let (elem, shape) = (x.elem, x.shape.clone());
        let by: Vec<i64> = shape.iter().map(|_| self.scene.random.within(-1, 1)).collect();
        let near = format!("shift({x}, {})", list(&by));
        let mode = self.scene.random.below(shape.len());
        let below = format!("at.{mode} < {}", self.scene.random.within(1, shape[mode]));
        let zero = literal(0.0, elem);
        let made = match self.scene.random.below(6) {
            0 => format!("{x} - {near}"),
            1 => format!("{x} + {}", literal(self.scene.random.within(0, 1) as f64, elem)),
            2 => format!("{x} * {}", literal(2.0, elem)),
            3 => format!("map({x}, |x, at| {})", choice(below, "x", zero)),
            4 => format!("map(({x}, {near}), |x, y, at| {})", choice(below, "y - x", zero)),
            _ => {
                let value = cast(format!("at.{mode}"), elem);
                format!("map({x}, |x, at| {})", choice(below, value, zero))
            }
        };
        self.made(made, elem, shape)
    }
}
