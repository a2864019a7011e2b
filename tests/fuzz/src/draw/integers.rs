//! Integers as data: coordinates from memory, sizes, arguments; conditions; loop bounds.

use tilewright_codegen::Elem;

use super::scene::{Scene, block};
use super::text::{computed, decide};

/// Comparisons.
const COMPARE: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

impl Scene {
    /// An integer from memory, uniform in the block or one for each thread.
    pub(super) fn loaded(&mut self, per_thread: bool) -> String {
        let of = match !self.indices.is_empty() && self.random.chance(60) {
            true => self.random.pick(&self.indices),
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
            true => "thread.x".into(),
            false => match self.random.below(4) {
                0 if !self.vars.is_empty() => self.var(),
                1 if !self.axes.is_empty() => self.unnumbered(),
                _ => computed(self.random.within(-1, 3)),
            },
        };
        format!("{of}[{at}]")
    }

    /// The name of an argument's extent.
    pub(super) fn size(&mut self) -> Option<String> {
        if self.extents.is_empty() { None } else { Some(self.random.pick(&self.extents)) }
    }

    /// A small integer, uniform in the block, and not from memory.
    pub(super) fn integer_of_launch(&mut self) -> String {
        let end = self.random.within(2, 4);
        match self.random.below(3) {
            0 if !self.vars.is_empty() => self.var(),
            1 if !self.axes.is_empty() => {
                format!("({} % {end})", block(self.random.below(self.axes.len())))
            }
            _ => self.size().map_or_else(|| "2".into(), |size| format!("({size} % {end})")),
        }
    }

    /// An integer of any kind.
    pub(super) fn integer(&mut self) -> String {
        let mut made = match self.random.below(12) {
            0..3 if !self.vars.is_empty() => self.var(),
            0..5 if !self.axes.is_empty() => self.unnumbered(),
            5..7 => self.size().unwrap_or_else(|| "3".into()),
            7 => {
                let scalar = self.scalar(Elem::I32);
                match self.size() {
                    Some(size) => format!("min({scalar}, {size})"),
                    None => scalar,
                }
            }
            8..10 => self.loaded(false),
            _ => self.random.within(-1, 5).to_string(),
        };
        for _ in 0..self.random.below(3) {
            let by = self.random.within(2, 4);
            made = match self.random.below(9) {
                0 => format!("({made} + {by})"),
                1 => format!("({made} - {by})"),
                2 => format!("({made} * {by})"),
                3 => format!("({made} / {by})"),
                4 => format!("({made} % {by})"),
                5 => format!("min({made}, {by})"),
                6 => format!("max({made}, {by})"),
                7 => {
                    let size = self.size().unwrap_or_else(|| by.to_string());
                    format!("(max({made}, 0) {} {size})", self.random.pick(&["/", "%"]))
                }
                _ => {
                    let size = self.size().unwrap_or_else(|| by.to_string());
                    format!("(min({made}, 9) * {size})")
                }
            };
        }
        made
    }

    /// A condition on integers and arguments; also a divergent one, where no barrier is inside.
    pub(super) fn condition(&mut self, apart: bool) -> String {
        let op = self.random.pick(&COMPARE);
        match self.random.below(14) {
            0..4 => {
                let (x, y) = (self.condition(apart), self.condition(apart));
                format!("({x} {} {y})", self.random.pick(&["&", "|"]))
            }
            4 => format!("!{}", self.condition(apart)),
            5 => {
                let scalar = self.scalar(Elem::F32);
                format!("({scalar} {op} {:?})", self.random.within(-1, 2) as f64)
            }
            6..8 if apart => {
                let end = self.random.within(0, self.threads);
                match self.random.below(4) {
                    0 => format!("((thread.x as f32) {op} {:?})", end as f64),
                    1 => format!("((thread.x as i64) {op} {end})"),
                    _ => format!("(thread.x {op} {end})"),
                }
            }
            8 if apart => format!("({} {op} {})", self.loaded(true), self.random.within(-1, 2)),
            _ => format!("({} {op} {})", self.integer(), self.integer()),
        }
    }

    /// Perhaps wraps a statement in a condition, with an else branch.
    pub(super) fn perhaps(&mut self, stmt: String) -> String {
        if !self.random.chance(45) {
            return stmt;
        }
        let condition = self.condition(true);
        let other = if self.random.chance(30) { &stmt } else { "" };
        decide(&condition, &stmt, other)
    }

    /// Loop bounds within an extent.
    pub(super) fn ends(&mut self, extent: &str) -> String {
        match self.random.below(10) {
            0 => format!("0..min({extent}, min({}, 6))", self.integer()),
            1 => format!("max({}, -2)..min({}, 5)", self.integer(), self.integer()),
            // Triangular: up to the block's own tile.
            2 if !self.axes.is_empty() => {
                let block = block(self.random.below(self.axes.len()));
                format!("0..min({extent}, {block} + 1)")
            }
            3 => format!("{}..{extent}", self.random.within(0, 2)),
            _ => format!("0..{extent}"),
        }
    }
}
