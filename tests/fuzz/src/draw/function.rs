//! Elementwise functions: the bodies of closures.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Binary, Expr};

use super::scene::Scene;
use super::tree::{binary, call, cast, choice, float, int, literal, name, negative, typed};

impl Scene {
    /// A function of typed operands, computed in a type.
    pub(super) fn function(&mut self, operands: &[(&str, Elem)], elem: Elem, depth: u32) -> Expr {
        if depth == 0 || self.random.chance(12) {
            return self.leaf(operands, elem);
        }
        let x = self.function(operands, elem, depth - 1);
        let other = |scene: &mut Scene| scene.function(operands, elem, depth - 1);
        let roll = self.random.below(26);
        if elem.is_float() {
            return match roll {
                0..6 => {
                    let y = other(self);
                    binary(Binary::Add, x, y)
                }
                6..9 => {
                    let y = other(self);
                    binary(Binary::Sub, x, y)
                }
                9..13 => {
                    let y = self.leaf(operands, elem);
                    binary(Binary::Mul, x, y)
                }
                13..15 => {
                    let y = other(self);
                    call(self.random.pick(&["min", "max"]), vec![x, y])
                }
                15 => {
                    let of = ["abs", "floor", "ceil", "trunc", "round", "round_ties_even"];
                    call(self.random.pick(&of), vec![x])
                }
                16 if elem == Elem::F32 && self.random.chance(60) => self.by_bits(x),
                16 => negative(x),
                17..19 => self.chosen(x, operands, elem),
                19..21 => {
                    let (y, z) = (self.leaf(operands, elem), self.leaf(operands, elem));
                    call("fma", vec![x, y, z])
                }
                21..23 => {
                    let by = self.random.pick(&[2.0, 4.0, 0.5, 3.0]);
                    binary(Binary::Div, x, float(by))
                }
                23 => {
                    let of = self.random.pick(&[
                        "exp",
                        "exp2",
                        "tanh",
                        "sin",
                        "cos",
                        "erf",
                        "sigmoid",
                        "silu",
                        "gelu",
                        "gelu_tanh",
                    ]);
                    let half = binary(Binary::Mul, x, float(0.25));
                    call(of, vec![half])
                }
                24 => {
                    let size = binary(Binary::Add, call("abs", vec![x]), float(1.0));
                    match self.random.below(6) {
                        0 => call("pow", vec![size, float(1.5)]),
                        1 => call("copysign", vec![size, self.leaf(operands, elem)]),
                        _ => call(self.random.pick(&["sqrt", "rsqrt", "log", "log2"]), vec![size]),
                    }
                }
                _ => x,
            };
        }
        match roll {
            0..6 => {
                let y = other(self);
                binary(Binary::Add, x, y)
            }
            6..8 => {
                let y = other(self);
                binary(Binary::Sub, x, y)
            }
            8..12 => {
                let y = self.leaf(operands, elem);
                binary(Binary::Mul, x, y)
            }
            12..15 => {
                let y = other(self);
                call(self.random.pick(&["min", "max"]), vec![x, y])
            }
            15..17 => self.chosen(x, operands, elem),
            17..20 => {
                let y = self.leaf(operands, elem);
                binary(self.random.pick(&[Binary::And, Binary::Or, Binary::Xor]), x, y)
            }
            20..22 => {
                let by = self.random.within(0, 2);
                binary(self.random.pick(&[Binary::Shl, Binary::Shr]), x, int(by))
            }
            22 => call(self.random.pick(&["count_ones", "leading_zeros"]), vec![x]),
            23 if matches!(elem, Elem::I32 | Elem::U32) => {
                let y = self.leaf(operands, elem);
                call("mul_high", vec![x, y])
            }
            24 => {
                let by = self.random.within(2, 5);
                binary(self.random.pick(&[Binary::Div, Binary::Rem]), x, int(by))
            }
            _ => x,
        }
    }

    /// A number that goes through the bits of another type.
    fn by_bits(&mut self, x: Expr) -> Expr {
        let there = typed("bits", self.random.pick(&[Elem::U32, Elem::I32]), vec![x]);
        typed("bits", Elem::F32, vec![there])
    }

    fn chosen(&mut self, x: Expr, operands: &[(&str, Elem)], elem: Elem) -> Expr {
        let (left, right) = (self.leaf(operands, elem), self.leaf(operands, elem));
        let how = self.random.pick(&[Binary::Lt, Binary::Le, Binary::Gt, Binary::Ge, Binary::Eq, Binary::Ne]);
        let (cond, other) = (binary(how, left, right), self.leaf(operands, elem));
        if self.random.chance(50) { call("select", vec![cond, x, other]) } else { choice(cond, x, other) }
    }

    fn leaf(&mut self, operands: &[(&str, Elem)], elem: Elem) -> Expr {
        match self.random.below(10) {
            0..7 => {
                let (of, own) = self.random.pick(operands);
                if own == elem { name(of) } else { cast(name(of), elem) }
            }
            7 if elem.bytes() >= 4 && self.random.chance(25) => {
                let integer = self.integer_of_launch();
                if elem == Elem::I32 { integer } else { cast(integer, elem) }
            }
            7..9 => {
                let least = if crate::number::range(elem).0 < 0.0 { -2 } else { 0 };
                let n = self.random.within(least, 4);
                // A literal alone has no type; an operand gives it one.
                literal(n as f64, elem)
            }
            9 if !self.sizes.is_empty() && self.random.chance(40) => {
                let size = self.random.pick(&self.sizes.clone());
                cast(name(&size), elem)
            }
            _ => {
                let own = if self.random.chance(70) { elem } else { self.elem() };
                let scalar = self.scalar(own);
                if own == elem { name(&scalar) } else { cast(name(&scalar), elem) }
            }
        }
    }

    /// A closure over operands of these types.
    pub(super) fn closure(&mut self, elems: &[Elem], elem: Elem) -> Expr {
        let names = ["a", "b", "c", "d"];
        let operands: Vec<(&str, Elem)> = names.iter().copied().zip(elems.iter().copied()).collect();
        let depth = self.random.within(1, 3) as u32;
        let body = self.function(&operands, elem, depth);
        super::tree::closure(&names[..elems.len()], body)
    }
}
