//! Kernels for grids that are longer along y or z than a device allows: all blocks are along x.

use tilewright_layout::{Symbol, Value};

use super::{Id, Kernel, Op, Param, Scope, Site, Stmt, Var};
use crate::thread::index::{Int, Ix};
use crate::values::limits::MOST_EXTENT;
use crate::values::target::GRID;

impl Kernel {
    /// The kernel with all blocks along x, if its grid may be too long along y or z. A block's coordinates come from its number,
    /// x first, so that blocks of a cluster along x remain neighbours. `None` for clusters along y or z.
    pub fn folded(&self) -> Option<Kernel> {
        let long = |axis: u8| {
            self.exprs
                .greatest_of_leaf(&Int::Block(axis))
                .is_some_and(|most| most >= i64::from(GRID[usize::from(axis)]))
        };
        let [_, y, z] = self.launch.cluster;
        let counts_blocks = (0..3).any(|axis| self.exprs.greatest_of_leaf(&Int::Grid(axis)).is_some());
        if self.launch.persistent || counts_blocks || y > 1 || z > 1 || !(long(1) || long(2)) {
            return None;
        }
        let mut kernel = self.clone();
        let site = kernel.sites.len() as Id;
        kernel.sites.push(Site::default());
        // Leaves first, so that the new one along x is another expression.
        let coordinates = [0, 1, 2].map(|axis| {
            let var = kernel.vars.len() as Id;
            kernel.exprs.replace_leaf(&Int::Block(axis), Int::Var(var)).then(|| {
                let name = format!("block_{}", ['x', 'y', 'z'][usize::from(axis)]);
                kernel.vars.push(Var { name, mutable: false, wide: false, array: None });
                var
            })
        });
        let mut number = kernel.exprs.leaf(Int::Block(0), 0, i64::from(i32::MAX) - 1, 1, Scope::Block);
        let mut lets = Vec::new();
        let last = (0..3).rev().find(|axis| !self.launch.grid[*axis].is_empty()).unwrap_or(0);
        for (axis, var) in coordinates.into_iter().enumerate().take(last + 1) {
            let factors: Vec<Ix> =
                self.launch.grid[axis].iter().map(|factor| kernel.count(*factor)).collect();
            let one = kernel.exprs.int(1);
            let count = factors.into_iter().fold(one, |count, factor| kernel.exprs.mul(count, factor));
            let coordinate = if axis == last { number } else { kernel.exprs.remainder(number, count) };
            number = kernel.exprs.quotient(number, count);
            lets.extend(var.map(|var| Stmt { site, op: Op::Let(var, coordinate) }));
        }
        kernel.body.splice(0..0, lets);
        let [x, y, z] = std::mem::take(&mut kernel.launch.grid);
        kernel.launch.grid[0] = [x, y, z].concat();
        Some(kernel)
    }

    /// A number of blocks along an axis, as an expression.
    fn count(&mut self, value: Value) -> Ix {
        let Value::Sym { times, of, over } = value else {
            let Value::Int(n) = value else { unreachable!("a grid has numbers of blocks") };
            return self.exprs.int(n);
        };
        let size = self.size(of);
        let up = self.exprs.int(i64::from(over) - 1);
        let size = self.exprs.add(size, up);
        let count = self.exprs.div(size, i64::from(over));
        let times = self.exprs.int(times);
        self.exprs.mul(count, times)
    }

    /// A size, which the host passes if it does not yet.
    fn size(&mut self, symbol: Symbol) -> Ix {
        let is_it = |param: &Param| matches!(param, Param::Int { symbol: of, .. } if *of == symbol);
        let id = self.params.iter().position(is_it).unwrap_or_else(|| {
            self.params.push(Param::Int { name: symbol.name().to_owned(), symbol, wide: true });
            self.params.len() - 1
        });
        self.exprs.leaf(Int::Param(id as Id), 1, MOST_EXTENT, 1, Scope::Grid)
    }
}
