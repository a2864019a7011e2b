//! Scans.

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::tile::Op;
use crate::tile::view::View;
use crate::values::elem::Elem;
use crate::values::scan::{Level, Scan};

impl Builder {
    /// Combines each element, or tuple, with all elements before it, by an associative function. `carry`, if
    /// there is one, is combined before the first element, and becomes the combination of all elements, so
    /// that a scan of the next tile can continue. It has one element for each group of elements that are
    /// scanned together.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, thread::Bin, tile::{Across, Expr}};
    /// # use tilewright_codegen::scan::{Level, Scan};
    /// # let mut b = Builder::new("example");
    /// # let x = b.registers("x", Elem::F32, (4i64,))?;
    /// # b.fill(&x, Expr::lit(2.0))?;
    /// let y = b.registers("y", Elem::F32, (4i64,))?;
    /// let add = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
    /// // four consecutive elements of each lane of a warp
    /// let levels = vec![Level::Own { mode: 0, extent: 4 }, Level::Threads(Across::Warp(32))];
    /// let scan = Scan { with: vec![add], identity: vec![0.into()], levels, exclusive: false, unmasked: false };
    /// b.scan(&[x], &[y], &[], scan)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn scan(&mut self, from: &[View], to: &[View], carry: &[View], how: Scan) -> Result<()> {
        let count = from.len();
        if to.len() != count || ![0, count].contains(&carry.len()) {
            return Err(Problem::new("a scan of tuples needs as many results and carries as tensors"));
        }
        let elems: Vec<Elem> = to.iter().map(|view| self.elem(view)).collect();
        self.combinable(from, &elems, &how.with, &how.identity)?;
        let rank = from[0].rank();
        for mode in how.modes() {
            let along = |level: &Level| match level {
                Level::Own { mode: of, extent } if usize::from(*of) == mode => Some(*extent),
                _ => None,
            };
            let count: i64 = how.levels.iter().filter_map(along).product();
            let has = from[0].layout.modes().nth(mode).and_then(|mode| mode.size().ok());
            if has.is_some_and(|has| has != count) {
                return Err(Problem::new(format!(
                    "a scan of {count} elements along mode {mode}, which has {has:?}"
                )));
            }
        }
        if how.modes().iter().any(|mode| *mode >= rank) {
            return Err(Problem::new(format!("a scan runs along one or several of the modes 0..{rank}")));
        }
        for (from, to) in from.iter().zip(to) {
            crate::tile::pair::align(from, to)?;
        }
        for (view, elem) in carry.iter().zip(&elems) {
            let scanned = how.modes();
            let mut modes = from[0].layout.modes().zip(view.layout.modes()).enumerate();
            let fits = view.rank() == rank
                && modes.all(|(mode, (all, own))| match scanned.contains(&mode) {
                    true => own.size() == Ok(1),
                    false => own.size() == all.size(),
                });
            if !fits || self.elem(view) != *elem {
                return Err(Problem::new(format!(
                    "the carry `{}`, {} of {}, does not fit a scan of `{}`, {} of {elem}",
                    view.name,
                    view.shape(),
                    self.elem(view),
                    from[0].name,
                    from[0].shape(),
                ))
                .help("a carry has the same type, and extent 1 along the modes of the scan"));
            }
        }
        let (from, to, carry) = (from.to_vec(), to.to_vec(), carry.to_vec());
        self.push(Op::Scan { from, to, carry, how });
        Ok(())
    }
}
