//! Elementwise functions: the bodies of closures.

use tilewright_codegen::Elem;

use super::scene::Scene;
use super::text::{as_elem, cast, choice, commas, literal};

/// Functions of a number of any size, on a fraction of it.
const SMOOTH: [&str; 10] =
    ["exp", "exp2", "tanh", "sin", "cos", "erf", "sigmoid", "silu", "gelu", "gelu_tanh"];

/// Names of operands with their types.
type Operands<'o> = &'o [(&'o str, Elem)];

impl Scene {
    /// A function of typed operands, computed in a type.
    pub(super) fn function(&mut self, operands: Operands<'_>, elem: Elem, depth: u32) -> String {
        if depth == 0 || self.random.chance(12) {
            return self.leaf(operands, elem);
        }
        let x = self.function(operands, elem, depth - 1);
        match elem.is_float() {
            true => self.function_of_float(&x, operands, elem, depth - 1),
            false => self.function_of_integer(&x, operands, elem, depth - 1),
        }
    }

    fn function_of_float(&mut self, x: &str, operands: Operands<'_>, elem: Elem, depth: u32) -> String {
        match self.random.below(26) {
            0..6 => format!("({x} + {})", self.function(operands, elem, depth)),
            6..9 => format!("({x} - {})", self.function(operands, elem, depth)),
            9..13 => format!("({x} * {})", self.leaf(operands, elem)),
            13..15 => self.extreme(x, operands, elem, depth),
            15 => {
                let of = ["abs", "floor", "ceil", "trunc", "round", "round_ties_even"];
                format!("{}({x})", self.random.pick(&of))
            }
            16 if elem == Elem::F32 && self.random.chance(60) => self.by_bits(x),
            16 => format!("(-{x})"),
            17..19 => self.chosen(x, operands, elem),
            19..21 => format!("fma({x}, {}, {})", self.leaf(operands, elem), self.leaf(operands, elem)),
            21..23 => format!("({x} / {:?})", self.random.pick(&[2.0, 4.0, 0.5, 3.0])),
            23 => format!("{}({x} * 0.25)", self.random.pick(&SMOOTH)),
            24 => {
                let size = format!("(abs({x}) + 1.0)");
                match self.random.below(6) {
                    0 => format!("pow({size}, 1.5)"),
                    1 => format!("copysign({size}, {})", self.leaf(operands, elem)),
                    _ => format!("{}({size})", self.random.pick(&["sqrt", "rsqrt", "log", "log2"])),
                }
            }
            _ => x.into(),
        }
    }

    fn function_of_integer(&mut self, x: &str, operands: Operands<'_>, elem: Elem, depth: u32) -> String {
        match self.random.below(26) {
            0..6 => format!("({x} + {})", self.function(operands, elem, depth)),
            6..8 => format!("({x} - {})", self.function(operands, elem, depth)),
            8..12 => format!("({x} * {})", self.leaf(operands, elem)),
            12..15 => self.extreme(x, operands, elem, depth),
            15..17 => self.chosen(x, operands, elem),
            17..20 => {
                let y = self.leaf(operands, elem);
                format!("({x} {} {y})", self.random.pick(&["&", "|", "^"]))
            }
            20..22 => {
                let by = self.random.within(0, 2);
                format!("({x} {} {by})", self.random.pick(&["<<", ">>"]))
            }
            22 => format!("{}({x})", self.random.pick(&["count_ones", "leading_zeros"])),
            23 if matches!(elem, Elem::I32 | Elem::U32) => {
                format!("mul_high({x}, {})", self.leaf(operands, elem))
            }
            24 => {
                let by = self.random.within(2, 5);
                format!("({x} {} {by})", self.random.pick(&["/", "%"]))
            }
            _ => x.into(),
        }
    }

    fn extreme(&mut self, x: &str, operands: Operands<'_>, elem: Elem, depth: u32) -> String {
        let y = self.function(operands, elem, depth);
        format!("{}({x}, {y})", self.random.pick(&["min", "max"]))
    }

    /// A number that goes through the bits of another type.
    fn by_bits(&mut self, x: &str) -> String {
        format!("bits::<f32>(bits::<{}>({x}))", self.random.pick(&[Elem::U32, Elem::I32]))
    }

    fn chosen(&mut self, x: &str, operands: Operands<'_>, elem: Elem) -> String {
        let (left, right) = (self.leaf(operands, elem), self.leaf(operands, elem));
        let how = self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
        let (condition, other) = (format!("({left} {how} {right})"), self.leaf(operands, elem));
        match self.random.chance(50) {
            true => format!("select({condition}, {x}, {other})"),
            false => choice(condition, x, other),
        }
    }

    fn leaf(&mut self, operands: Operands<'_>, elem: Elem) -> String {
        match self.random.below(10) {
            0..7 => {
                let (of, own) = self.random.pick(operands);
                as_elem(of, own, elem)
            }
            7 if elem.bytes() >= 4 && self.random.chance(25) => {
                as_elem(self.integer_of_launch(), Elem::I32, elem)
            }
            7..9 => {
                let least = if crate::number::range(elem).0 < 0.0 { -2 } else { 0 };
                let n = self.random.within(least, 4);
                // A literal alone has no type; an operand gives it one.
                literal(n as f64, elem)
            }
            9 if !self.sizes.is_empty() && self.random.chance(40) => {
                cast(self.random.pick(&self.sizes), elem)
            }
            _ => {
                let own = if self.random.chance(70) { elem } else { self.elem() };
                as_elem(self.scalar(own), own, elem)
            }
        }
    }

    /// A closure over operands of these types.
    pub(super) fn closure(&mut self, elems: &[Elem], elem: Elem) -> String {
        let names = ["a", "b", "c", "d"];
        let operands: Vec<(&str, Elem)> = names.iter().copied().zip(elems.iter().copied()).collect();
        let depth = self.random.within(1, 3) as u32;
        let body = self.function(&operands, elem, depth);
        format!("|{}| {body}", commas(&names[..elems.len()]))
    }
}
