//! Reductions of a part of a mode, whose results have no coordinate; and claims about out-of-bounds elements, true and false.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Binary, Expr, ExprKind};

use super::super::tree::{
    binary, call, cast, choice, closure, expr, field, hole, index, int, ints, list, literal, name, tuple,
    with, word,
};
use super::{Known, Whole};

impl Whole {
    fn begin(&mut self, frame: Vec<i64>) {
        self.frame = frame;
        self.scene.threads = self.scene.random.pick(&[32, 64, 128, 256]);
        self.keys.push(Arg { name: Some(word("threads")), value: int(self.scene.threads) });
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
        let regrouped = call("regroup", vec![name(&x.name), ints(&shape)]);
        let value = binary(Binary::Add, name("x"), literal(self.scene.random.within(0, 1) as f64, elem));
        let p = self.made(call("map", vec![regrouped, closure(&["x"], value)]), elem, shape);
        let reduced = match self.scene.random.below(4) {
            0 => call("maximum", vec![name(&p.name), int(mode)]),
            1 => call("minimum", vec![name(&p.name), int(mode)]),
            2 => {
                let sum = binary(Binary::Add, name("a"), name("b"));
                let reduced =
                    call("reduce", vec![name(&p.name), literal(0.0, elem), closure(&["a", "b"], sum)]);
                with(reduced, "mode", int(mode))
            }
            _ => call("sum", vec![name(&p.name), int(mode)]),
        };
        let mut kept = p.shape.clone();
        kept[mode as usize] = 1;
        let reduced = self.made(reduced, elem, kept);
        let next = self.tile(Elem::I32, vec![rest], false);
        let row = call("regroup", vec![name(&reduced.name), int(rest)]);
        let at = closure(&["r", "n", "at"], field("at", "0"));
        let made = call("map", vec![tuple(vec![row, name(&next.name)]), at]);
        let made = self.made(made, Elem::I32, vec![rest]);
        let to = self.result(Elem::I32, &made.shape);
        self.copy(&made.name, &to.name);
        if self.scene.random.chance(60) {
            // By which threads have other parts.
            let part = self.scene.random.within(0, parts - 1);
            let at = if mode == 0 { vec![int(part), hole()] } else { vec![hole(), int(part)] };
            let to = self.result(elem, &[rest]);
            self.push(call("copy", vec![index(name(&p.name), at), name(&to.name)]));
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
            (Elem::F32, 0) => ("maximum", expr(ExprKind::Path("f32::NEG_INFINITY".into()))),
            (Elem::F32, 1) => ("minimum", expr(ExprKind::Path("f32::INFINITY".into()))),
            _ => ("sum", literal(0.0, elem)),
        };
        let (mut given, mut kept) = (vec![name(&of.name)], vec![1; frame.len()]);
        if frame.len() > 1 && self.scene.random.chance(70) {
            let mode = self.scene.random.below(2);
            kept = frame;
            kept[mode] = 1;
            given.push(int(mode as i64));
        }
        let reduced = self.made(with(call(function, given), "out_of_bounds", identity), elem, kept);
        self.store(&reduced);
        self.scene.number();
    }

    /// A tile whose out-of-bounds elements have the claimed value, or another.
    fn claimed(&mut self, x: &Known) -> Known {
        let (elem, shape) = (x.elem, x.shape.clone());
        let by: Vec<i64> = shape.iter().map(|_| self.scene.random.within(-1, 1)).collect();
        let near = call("shift", vec![name(&x.name), list(by.into_iter().map(int).collect())]);
        let mode = self.scene.random.below(shape.len());
        let bound = int(self.scene.random.within(1, shape[mode]));
        let below = binary(Binary::Lt, field("at", &mode.to_string()), bound);
        let number = |of: f64| literal(of, elem);
        let made: Expr = match self.scene.random.below(6) {
            0 => binary(Binary::Sub, name(&x.name), near),
            1 => binary(Binary::Add, name(&x.name), number(self.scene.random.within(0, 1) as f64)),
            2 => binary(Binary::Mul, name(&x.name), number(2.0)),
            3 => {
                call("map", vec![name(&x.name), closure(&["x", "at"], choice(below, name("x"), number(0.0)))])
            }
            4 => {
                let difference = binary(Binary::Sub, name("y"), name("x"));
                let chosen = choice(below, difference, number(0.0));
                call("map", vec![tuple(vec![name(&x.name), near]), closure(&["x", "y", "at"], chosen)])
            }
            _ => {
                let value = cast(field("at", &mode.to_string()), elem);
                call("map", vec![name(&x.name), closure(&["x", "at"], choice(below, value, number(0.0)))])
            }
        };
        self.made(made, elem, shape)
    }
}
