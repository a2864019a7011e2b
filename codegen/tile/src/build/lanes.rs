//! Exchanges between the lanes of a warp.

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::tile::Op;
use crate::tile::pair::align;
use crate::tile::view::View;
use crate::values::elem::Elem;
use crate::values::lanes::Lanes;
use crate::values::typing::Types;

impl Builder {
    /// Exchanges elements between `lanes` neighbouring lanes of a warp. `ins` has the elements, then further inputs of the
    /// lane's function; all are registers of the shape of `to`. Out-of-bounds elements are left out of ballots and matches,
    /// unless the author includes them.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, lanes::Lanes, tile::Expr};
    /// # let mut b = Builder::new("example");
    /// # let (x, y) = (b.registers("x", Elem::F32, (4i64,))?, b.registers("y", Elem::F32, (4i64,))?);
    /// # b.fill(&x, Expr::lit(2.0))?;
    /// // each element of the first lane, in all lanes
    /// b.lanes(&[x], &y, Lanes::Shuffle(Expr::lit(0)), 32, false)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn lanes(&mut self, ins: &[View], to: &View, how: Lanes, lanes: u32, unmasked: bool) -> Result<()> {
        let elems: Vec<Elem> = ins.iter().map(|view| self.elem(view)).collect();
        let (Some(&first), to_elem) = (elems.first(), self.elem(to)) else {
            return Err(Problem::new("an exchange between lanes needs the elements of a tensor"));
        };
        for (n, view) in ins.iter().enumerate() {
            align(view, to).map_err(|problem| problem.arg(n))?;
            if view.tensor == to.tensor {
                let message = format!("`{}` is both exchanged and written", view.name);
                return Err(Problem::new(message).help("write to other registers").arg(n));
            }
        }
        let fits = match &how {
            Lanes::Shuffle(lane) => {
                Types { ins: &elems, scalars: &self.program.scalars }.typed(lane, Elem::I32)?;
                to_elem == first
            }
            Lanes::Ballot => first == Elem::Bool && to_elem == Elem::U32,
            Lanes::Match => first.is_integer() && to_elem == Elem::U32,
        };
        if !fits {
            return Err(Problem::new(format!("`{}` of {first} has no elements of {to_elem}", how.name())));
        }
        let (ins, to) = (ins.to_vec(), to.clone());
        self.push(Op::Lanes { ins, to, how, lanes, unmasked });
        Ok(())
    }
}
