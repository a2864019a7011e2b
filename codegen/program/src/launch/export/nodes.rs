//! Integers and conditions on sizes, as nodes of a table.

use super::tables::size;
use crate::launch::rules::Rules;
use crate::values::affine::{Affine, Arith, Coord};
use crate::values::condition::Test;
use tilewright_layout::{Symbol, Value};

/// A table of nodes, each after the nodes that it refers to.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) rows: Vec<String>,
}

impl Nodes {
    fn push(&mut self, op: &str, [a, b]: [usize; 2], [n, m]: [i64; 2], size: &str) -> usize {
        self.rows.push(format!("{{TW_{op}, {a}, {b}, {}, {}, {size}}}", int(n), int(m)));
        self.rows.len() - 1
    }

    fn plain(&mut self, op: &str, of: [usize; 2]) -> usize {
        self.push(op, of, [0, 0], NONE)
    }

    pub(super) fn test(&mut self, rules: &Rules, test: &Test) -> usize {
        match test {
            Test::Less(a, b) | Test::Equal(a, b) => {
                let of = [self.integer(rules, a), self.integer(rules, b)];
                self.plain(if matches!(test, Test::Less(..)) { "LESS" } else { "EQUAL" }, of)
            }
            Test::IsTrue(_) => self.plain("FALSE", [0, 0]),
            Test::Not(inner) => {
                let inner = self.test(rules, inner);
                self.plain("NOT", [inner, 0])
            }
            Test::Both(both) | Test::Either(both) => {
                let of = [self.test(rules, &both[0]), self.test(rules, &both[1])];
                self.plain(if matches!(test, Test::Both(_)) { "BOTH" } else { "EITHER" }, of)
            }
        }
    }

    pub(super) fn integer(&mut self, rules: &Rules, of: &Affine) -> usize {
        let mut sum = self.push("NUMBER", [0, 0], [of.constant, 0], NONE);
        for (coord, factor) in &of.terms {
            let coord = self.coord(rules, coord);
            sum = self.push("TERM", [sum, coord], [*factor, 0], NONE);
        }
        sum
    }

    fn coord(&mut self, rules: &Rules, coord: &Coord) -> usize {
        match coord {
            Coord::Size { of, over } => {
                let size = known(rules, Value::Sym { times: 1, of: *of, over: *over });
                self.push("VALUE", [0, 0], [0, 0], &size)
            }
            Coord::Submode { of, over, extent } => {
                let of = self.integer(rules, of);
                self.push("DIGIT", [of, 0], [*over, extent.unwrap_or(0)], NONE)
            }
            Coord::Two(with, both) => {
                let of = [self.integer(rules, &both[0]), self.integer(rules, &both[1])];
                let op = match with {
                    Arith::Mul => "MUL",
                    Arith::Div => "DIV",
                    Arith::Rem => "REM",
                    Arith::Min => "MIN",
                    Arith::Max => "MAX",
                };
                self.plain(op, of)
            }
            // No coordinate of a block or a thread has a value at launch.
            _ => self.plain("UNDEFINED", [0, 0]),
        }
    }
}

/// No size.
const NONE: &str = "{0, -2, 1}";

/// A size of a kernel, by its number.
pub(super) fn known(rules: &Rules, value: Value) -> String {
    match value {
        Value::Int(n) => size(crate::launch::rules::Size::Int(n)),
        Value::Sym { times, of, over } => match number(rules, of) {
            Some(of) => size(crate::launch::rules::Size::Of { times, of, over }),
            None => NONE.into(),
        },
        Value::Basis { .. } | Value::Any => NONE.into(),
    }
}

pub(super) fn number(rules: &Rules, symbol: Symbol) -> Option<usize> {
    rules.symbols.iter().position(|known| *known == symbol)
}

/// A literal: the least integer is none in C.
pub(super) fn int(n: i64) -> String {
    if n == i64::MIN { "INT64_MIN".into() } else { format!("INT64_C({n})") }
}
