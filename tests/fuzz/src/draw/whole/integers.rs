//! Integers of launches and of memory that decide what a statement does: which tile an iteration takes, how many iterations
//! there are, whether a statement runs.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Binary, Expr, Stmt};

use super::super::scene::Extent;
use super::super::tree::{binary, call, decide, index, int, method, name, range};
use super::Whole;

impl Whole {
    /// An argument that is read as integers.
    pub(super) fn table(&mut self) -> String {
        let known = self.scene.indices.clone();
        if !known.is_empty() && self.scene.random.chance(60) {
            return self.scene.random.pick(&known);
        }
        let elem =
            self.scene.random.weighted(&[(8, Elem::I32), (2, Elem::U32), (1, Elem::I8), (1, Elem::U8)]);
        let extent: Extent = self.scene.extent(4);
        let table = self.scene.tensor(elem, &[extent], false);
        self.scene.indices.push(table.clone());
        table
    }

    /// The tile of an iteration.
    pub(super) fn iteration(&mut self, var: &str) -> Expr {
        let k = name(var);
        match self.scene.random.below(12) {
            0..6 => k,
            6..9 => {
                let table = self.table();
                name(&self.scene.bind("j", index(name(&table), vec![k])))
            }
            9 => binary(Binary::Add, k, int(self.scene.random.within(-2, 2))),
            10 => {
                let by = self.scene.random.within(2, 3);
                binary(self.scene.random.pick(&[Binary::Mul, Binary::Div, Binary::Rem]), k, int(by))
            }
            _ => self.somewhere(),
        }
    }

    /// A loop over an argument, whose elements are its tiles' numbers: its range.
    pub(super) fn listed(&mut self) -> (String, Expr) {
        let table = self.table();
        let most = self.scene.random.pick(&[8, 16, 24]);
        let end = call("min", vec![method(name(&table), "size", vec![int(0)]), int(most)]);
        (table, range(int(0), end))
    }

    /// The iterations of a loop over this number of tiles.
    pub(super) fn span(&mut self, end: Expr) -> Expr {
        let most = self.scene.random.pick(&[1, 3, 5, 12, 24]);
        match self.scene.random.below(12) {
            0..7 => range(int(0), end),
            7 => {
                let table = self.table();
                range(int(0), call("min", vec![method(name(&table), "size", vec![int(0)]), int(most)]))
            }
            8 => {
                let loaded = self.scene.loaded(false);
                range(int(0), call("min", vec![loaded, end]))
            }
            9 if !self.scene.axes.is_empty() => {
                let table = self.table();
                let axis = self.scene.random.below(self.scene.axes.len());
                // By itself it would number tiles of one element.
                let twice = binary(Binary::Mul, self.scene.block(axis), int(2));
                let next = binary(Binary::Add, twice.clone(), int(1));
                let [from, to] = [twice, next].map(|at| index(name(&table), vec![at]));
                range(call("max", vec![from, int(-1)]), call("min", vec![to, int(most)]))
            }
            10 => range(int(self.scene.random.within(0, 2)), end),
            _ => {
                let integer = self.scene.integer();
                range(int(0), call("min", vec![integer, end]))
            }
        }
    }

    /// A condition that blocks, iterations or integers of memory decide.
    pub(super) fn decision(&mut self) -> Expr {
        let even = |of: Expr| binary(Binary::Eq, binary(Binary::Rem, of, int(2)), int(0));
        match self.scene.random.below(8) {
            0 | 1 if !self.scene.axes.is_empty() => {
                let axis = self.scene.random.below(self.scene.axes.len());
                even(self.scene.block(axis))
            }
            2 | 3 if !self.scene.vars.is_empty() => {
                let var = self.scene.random.pick(&self.scene.vars.clone());
                even(name(&var))
            }
            4 | 5 => {
                let how = self.scene.random.pick(&[Binary::Gt, Binary::Le, Binary::Eq]);
                let loaded = self.scene.loaded(false);
                binary(how, loaded, int(self.scene.random.within(-1, 1)))
            }
            _ => self.scene.condition(false),
        }
    }

    /// Perhaps makes statements depend on a condition.
    pub(super) fn perhaps(&mut self, percent: u32, body: Vec<Stmt>) {
        if self.scene.random.chance(percent) {
            let condition = self.decision();
            self.scene.push(decide(condition, body, Vec::new()));
        } else {
            body.into_iter().for_each(|stmt| self.scene.push(stmt));
        }
    }
}
