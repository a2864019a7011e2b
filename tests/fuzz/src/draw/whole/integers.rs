//! Integers of launches and of memory that decide what a statement does: which tile an iteration takes, how many iterations
//! there are, whether a statement runs.

use tilewright_codegen::Elem;

use super::super::scene::block;
use super::super::text::decide;
use super::Whole;

impl Whole {
    /// An argument that is read as integers.
    pub(super) fn table(&mut self) -> String {
        if !self.scene.indices.is_empty() && self.scene.random.chance(60) {
            return self.scene.random.pick(&self.scene.indices);
        }
        let elem =
            self.scene.random.weighted(&[(8, Elem::I32), (2, Elem::U32), (1, Elem::I8), (1, Elem::U8)]);
        let extent = self.scene.extent(4);
        let table = self.scene.tensor(elem, &[extent], false);
        self.scene.indices.push(table.clone());
        table
    }

    /// The tile of an iteration.
    pub(super) fn iteration(&mut self, k: &str) -> String {
        match self.scene.random.below(12) {
            0..6 => k.into(),
            6..9 => {
                let table = self.table();
                self.scene.bind("j", format!("{table}[{k}]"))
            }
            9 => format!("({k} + {})", self.scene.random.within(-2, 2)),
            10 => {
                let by = self.scene.random.within(2, 3);
                format!("({k} {} {by})", self.scene.random.pick(&["*", "/", "%"]))
            }
            _ => self.somewhere(),
        }
    }

    /// A loop over an argument, whose elements are its tiles' numbers: its range.
    pub(super) fn listed(&mut self) -> (String, String) {
        let table = self.table();
        let most = self.scene.random.pick(&[8, 16, 24]);
        let range = format!("0..min({table}.size(0), {most})");
        (table, range)
    }

    /// The iterations of a loop over this number of tiles.
    pub(super) fn span(&mut self, end: &str) -> String {
        let most = self.scene.random.pick(&[1, 3, 5, 12, 24]);
        match self.scene.random.below(12) {
            0..7 => format!("0..{end}"),
            7 => format!("0..min({}.size(0), {most})", self.table()),
            8 => format!("0..min({}, {end})", self.scene.loaded(false)),
            9 if !self.scene.axes.is_empty() => {
                let table = self.table();
                let block = block(self.scene.random.below(self.scene.axes.len()));
                // By itself it would number tiles of one element.
                format!("max({table}[{block} * 2], -1)..min({table}[{block} * 2 + 1], {most})")
            }
            10 => format!("{}..{end}", self.scene.random.within(0, 2)),
            _ => format!("0..min({}, {end})", self.scene.integer()),
        }
    }

    /// A condition that blocks, iterations or integers of memory decide.
    pub(super) fn decision(&mut self) -> String {
        match self.scene.random.below(8) {
            0 | 1 if !self.scene.axes.is_empty() => {
                format!("{} % 2 == 0", block(self.scene.random.below(self.scene.axes.len())))
            }
            2 | 3 if !self.scene.vars.is_empty() => format!("{} % 2 == 0", self.scene.var()),
            4 | 5 => {
                let how = self.scene.random.pick(&[">", "<=", "=="]);
                format!("{} {how} {}", self.scene.loaded(false), self.scene.random.within(-1, 1))
            }
            _ => self.scene.condition(false),
        }
    }

    /// Perhaps makes statements depend on a condition.
    pub(super) fn perhaps(&mut self, percent: u32, body: &str) {
        if self.scene.random.chance(percent) {
            let condition = self.decision();
            self.scene.push(decide(&condition, body, ""));
        } else {
            self.scene.push(body.trim_end());
        }
    }
}
