//! Operands whose elements are not those of the instruction: fragments are converted in registers, between
//! their load and the product. An element becomes one term, rounded, or two whose sum is more precise.

use tilewright_layout::Layout;

use crate::affine::Affine;
use crate::build::Builder;
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::thread::{Bin, Unroll};
use crate::tile::{Expr, How, Order};
use crate::view::{At, View};

use super::TiledMma;
use super::operand::Operand;

/// How many terms of the instruction's type represent an element of an operand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Terms {
    /// One: the nearest number.
    #[default]
    One,
    /// Two: the nearest number, and the nearest to the rest. A product of elements is the sum of three products:
    /// that of both lower terms is too small to matter. Sums of each k-step are promoted: added to accumulators
    /// by ordinary additions, which round to nearest, where tensor cores truncate.
    Two,
}

impl Builder {
    /// The fragments of a k-step as the instruction takes them, highest terms first.
    pub(super) fn terms(&mut self, operand: &Operand, fragment: View, terms: Terms) -> Result<Vec<View>> {
        let elem = operand.multiplied;
        match terms {
            _ if self.elem(&fragment) == elem => Ok(vec![fragment]),
            Terms::One => Ok(vec![self.rounded(&operand.name, &fragment, elem)?]),
            Terms::Two => Ok(self.two_terms(&operand.name, &fragment, elem)?.into()),
        }
    }

    /// Elements in registers as sums of two terms of a narrower type: rounded, and the rest rounded.
    pub(crate) fn two_terms(&mut self, name: &str, fragment: &View, elem: Elem) -> Result<[View; 2]> {
        let high = self.rounded(name, fragment, elem)?;
        let low = self.converted(fragment, elem, &format!("{name}_low"))?;
        let high_again = Expr::In(1).cast(self.elem(fragment));
        let rest = Expr::Bin(Bin::Sub, Box::new(Expr::In(0)), Box::new(high_again));
        self.map(&[fragment.clone(), high.clone()], &low, rest.cast(elem))?;
        Ok([high, low])
    }

    /// Elements in registers, rounded to another type.
    fn rounded(&mut self, name: &str, fragment: &View, elem: Elem) -> Result<View> {
        let high = self.converted(fragment, elem, name)?;
        self.map(std::slice::from_ref(fragment), &high, Expr::In(0).cast(elem))?;
        Ok(high)
    }

    /// Registers for a converted fragment.
    fn converted(&mut self, fragment: &View, elem: Elem, name: &str) -> Result<View> {
        self.registers_in(&format!("{name}_{elem}"), elem, fragment.shape(), elem.bytes() < 4)
    }

    /// A k-step of a product of operands in two terms each, promoted. Fragments are multiplied one
    /// after the other, so that only the sums of some take registers besides the accumulators.
    pub(super) fn multiply_terms(
        &mut self,
        mma: &TiledMma,
        [left, right]: [&[View]; 2],
        acc: &View,
        [high, low]: [&View; 2],
    ) -> Result<()> {
        let ([high_a, low_a], [high_b, low_b]) = (left, right) else {
            return Err(Problem::new("operands have two terms each"));
        };
        let [rows, columns] = [acc.layout.mode(1)?.size()?, acc.layout.mode(2)?.size()?];
        self.repeat("n", columns, Unroll::Full, |b, n| {
            b.repeat("m", rows, Unroll::Full, |b, m| -> Result<()> {
                // Lower terms have sums of their own: next to higher ones their last bits would be cut off.
                for sums in [low, high] {
                    b.fill(sums, Expr::lit(0.0))?;
                }
                for (left, right, sums) in
                    [(low_a, high_b, low), (high_a, low_b, low), (high_a, high_b, high)]
                {
                    let (left, right) = (part(b, left, 1, &m)?, part(b, right, 1, &n)?);
                    b.gemm_how(&left, &right, sums, How::Atom(mma.row.name), Order::Plain, None)?;
                }
                let acc = part(b, acc, 2, &n)?;
                let acc = part(b, &acc, 1, &m)?;
                let plus = |left, right| Expr::Bin(Bin::Add, Box::new(left), Box::new(right));
                let sum = plus(Expr::In(0), plus(Expr::In(1), Expr::In(2)));
                b.map(&[acc.clone(), high.clone(), low.clone()], &acc, sum)
            })
        })
    }
}

/// One index of a mode, which stays with extent 1.
fn part(b: &mut Builder, view: &View, mode: usize, at: &Affine) -> Result<View> {
    let which = |place| if place == mode { At::Index(at.clone()) } else { At::All };
    let part = b.slice(view, &(0..view.rank()).map(which).collect::<Vec<_>>())?;
    let mut modes: Vec<Layout> = part.layout.modes().collect();
    modes.insert(mode, Layout::new(1i64, 0i64)?);
    Ok(part.rearranged(Layout::from_modes(modes)?))
}
