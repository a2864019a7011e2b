//! Integers as data: coordinates from memory, sizes, arguments; conditions; loop bounds.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Binary, Expr, ParamKind, Stmt};

use super::scene::{Extent, Scene};
use super::tree::{binary, call, cast, computed, decide, field, float, index, int, name, not};

/// Comparisons.
const COMPARE: [Binary; 6] = [Binary::Lt, Binary::Le, Binary::Gt, Binary::Ge, Binary::Eq, Binary::Ne];

impl Scene {
    /// An integer from memory, uniform in the block or one for each thread.
    pub(super) fn loaded(&mut self, per_thread: bool) -> Expr {
        let known: Vec<String> = self.indices.clone();
        let of = match !known.is_empty() && self.random.chance(60) {
            true => self.random.pick(&known),
            false => {
                let elem =
                    self.random.weighted(&[(6, Elem::I32), (2, Elem::U32), (1, Elem::I8), (1, Elem::U8)]);
                let extent = self.extent(4);
                let to = self.tensor(elem, &[extent], false);
                self.indices.push(to.clone());
                to
            }
        };
        let at = match per_thread {
            true => field("thread", "x"),
            false => match self.random.below(4) {
                0 if !self.vars.is_empty() => name(&self.random.pick(&self.vars.clone())),
                1 if !self.axes.is_empty() => {
                    let axis = self.random.below(self.axes.len());
                    self.unnumbered(axis)
                }
                _ => computed(self.random.within(-1, 3)),
            },
        };
        index(name(&of), vec![at])
    }

    /// The name of an argument's extent.
    pub(super) fn size(&mut self) -> Option<Expr> {
        let symbols = self.params.iter().filter_map(|param| match &param.kind {
            ParamKind::Tensor { shape, .. } => Some(Extent::symbols(shape)),
            ParamKind::Scalar => None,
        });
        let all: Vec<String> = symbols.flatten().collect();
        if all.is_empty() { None } else { Some(name(&self.random.pick(&all))) }
    }

    /// A small integer, uniform in the block, and not from memory.
    pub(super) fn integer_of_launch(&mut self) -> Expr {
        let end = int(self.random.within(2, 4));
        match self.random.below(3) {
            0 if !self.vars.is_empty() => name(&self.random.pick(&self.vars.clone())),
            1 if !self.axes.is_empty() => {
                let axis = self.random.below(self.axes.len());
                binary(Binary::Rem, self.block(axis), end)
            }
            _ => self.size().map_or_else(|| int(2), |size| binary(Binary::Rem, size, end)),
        }
    }

    /// An integer of any kind.
    pub(super) fn integer(&mut self) -> Expr {
        let mut made = match self.random.below(12) {
            0..3 if !self.vars.is_empty() => name(&self.random.pick(&self.vars.clone())),
            0..5 if !self.axes.is_empty() => {
                let axis = self.random.below(self.axes.len());
                self.unnumbered(axis)
            }
            5..7 => self.size().unwrap_or_else(|| int(3)),
            7 => {
                let scalar = self.scalar(Elem::I32);
                let size = self.size();
                size.map_or_else(|| name(&scalar), |size| call("min", vec![name(&scalar), size]))
            }
            8..10 => self.loaded(false),
            _ => int(self.random.within(-1, 5)),
        };
        for _ in 0..self.random.below(3) {
            let by = int(self.random.within(2, 4));
            made = match self.random.below(9) {
                0 => binary(Binary::Add, made, by),
                1 => binary(Binary::Sub, made, by),
                2 => binary(Binary::Mul, made, by),
                3 => binary(Binary::Div, made, by),
                4 => binary(Binary::Rem, made, by),
                5 => call("min", vec![made, by]),
                6 => call("max", vec![made, by]),
                7 => {
                    let size = self.size().unwrap_or(by);
                    let op = self.random.pick(&[Binary::Div, Binary::Rem]);
                    binary(op, call("max", vec![made, int(0)]), size)
                }
                _ => {
                    let size = self.size().unwrap_or(by);
                    binary(Binary::Mul, call("min", vec![made, int(9)]), size)
                }
            };
        }
        made
    }

    /// A condition on integers and arguments; also a divergent one, where no barrier is inside.
    pub(super) fn condition(&mut self, apart: bool) -> Expr {
        let op = self.random.pick(&COMPARE);
        match self.random.below(14) {
            0..4 => {
                let (x, y) = (self.condition(apart), self.condition(apart));
                binary(self.random.pick(&[Binary::And, Binary::Or]), x, y)
            }
            4 => not(self.condition(apart)),
            5 => {
                let scalar = self.scalar(Elem::F32);
                binary(op, name(&scalar), float(self.random.within(-1, 2) as f64))
            }
            6..8 if apart => {
                let end = self.random.within(0, self.threads);
                let thread = field("thread", "x");
                match self.random.below(4) {
                    0 => binary(op, cast(thread, Elem::F32), float(end as f64)),
                    1 => binary(op, cast(thread, Elem::I64), int(end)),
                    _ => binary(op, thread, int(end)),
                }
            }
            8 if apart => {
                let loaded = self.loaded(true);
                binary(op, loaded, int(self.random.within(-1, 2)))
            }
            _ => {
                let (x, y) = (self.integer(), self.integer());
                binary(op, x, y)
            }
        }
    }

    /// Perhaps wraps a statement in a condition, with an else branch.
    pub(super) fn perhaps(&mut self, stmt: Stmt, apart: bool) -> Stmt {
        if !self.random.chance(45) {
            return stmt;
        }
        let condition = self.condition(apart);
        let other = if self.random.chance(30) { vec![stmt.clone()] } else { Vec::new() };
        decide(condition, vec![stmt], other)
    }

    /// Loop bounds within an extent.
    pub(super) fn ends(&mut self, extent: Expr) -> (Expr, Expr) {
        match self.random.below(10) {
            0 => {
                let end = self.integer();
                (int(0), call("min", vec![extent, call("min", vec![end, int(6)])]))
            }
            1 => {
                let (from, to) = (self.integer(), self.integer());
                (call("max", vec![from, int(-2)]), call("min", vec![to, int(5)]))
            }
            // Triangular: up to the block's own tile.
            2 if !self.axes.is_empty() => {
                let axis = self.random.below(self.axes.len());
                let next = binary(Binary::Add, self.block(axis), int(1));
                (int(0), call("min", vec![extent, next]))
            }
            3 => (int(self.random.within(0, 2)), extent),
            _ => (int(0), extent),
        }
    }
}
