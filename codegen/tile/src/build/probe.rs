//! Probes: assertions and prints of a running kernel.

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::probe::{MOST_VALUES, Probe};
use crate::tile::view::View;
use crate::tile::{Op, Space};

impl Builder {
    /// Shows elements of tiles in registers, which have one shape: the values, their coordinates, and integers.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Expr};
    /// use tilewright_codegen::thread::probe::{Kind, Probe};
    /// # let mut b = Builder::new("example");
    /// let x = b.registers("x", Elem::I32, (1,))?;
    /// b.fill(&x, Expr::lit(1))?;
    /// let (shape, names) = (vec![], vec![]);
    /// b.probe(vec![x], Probe { kind: Kind::Assert, text: "x is set".into(), elem: Elem::I32, shape, names })?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn probe(&mut self, of: Vec<View>, probe: Probe) -> Result<()> {
        let in_registers = |view: &View| matches!(self.space(view), Space::Registers { .. });
        if of.len() != 1 + probe.shape.len() + probe.names.len() || !of.iter().all(in_registers) {
            return Err(Problem::internal(
                "a probe shows a value, its coordinates and integers, in registers",
            ));
        }
        if of.len() > MOST_VALUES {
            return Err(Problem::new(format!("a tile with {} modes cannot be shown", probe.shape.len()))
                .help(format!("show a slice of it: tiles have at most {} modes here", MOST_VALUES - 1)));
        }
        self.push(Op::Probe { of, probe });
        Ok(())
    }
}
