//! Operands of another element type than the instruction's: fragments are converted in registers, between
//! their load and the product. An element becomes one term, rounded, or two whose sum is more precise.

use tilewright_layout::{Layout, Tuple};

use crate::build::Builder;
use crate::isa;
use crate::source::problem::{Problem, Result};
use crate::thread::Unroll;
use crate::tile::view::{At, View};
use crate::tile::{Expr, How, Multiply, Order};
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::narrow::Int4;
use crate::values::operation::Bin;

use super::operand::{Operand, grouped};
use super::{Terms, TiledMma};

/// Bits of an f32 that a tf32 has, and half of the last one.
const KEPT: i64 = 0xffff_e000;
const HALF: i64 = 0x1000;
/// The factor that rounds the second term: see [`Builder::two_terms`].
const LONGER: f64 = 1.0 + 1.0 / 2048.0;
/// How much of K is promoted at once, at most, and the bytes of accumulators in a thread that leave registers for as many sums.
const SPAN: i64 = 16;
const MOST_BYTES: i64 = 64 * 4;

impl Builder {
    /// The fragments of a k-step as the instruction takes them, highest terms first.
    pub(super) fn terms(
        &mut self,
        operand: &Operand,
        fragment: View,
        terms: Terms,
        promoting: Option<&Promoting>,
    ) -> Result<Vec<View>> {
        let elem = operand.multiplied;
        if let Some(of) = operand.pairs {
            return Ok(vec![self.unpacked(&operand.name, &fragment, of, elem)?]);
        }
        match terms {
            _ if self.elem(&fragment) == elem => Ok(vec![fragment]),
            Terms::One => Ok(vec![self.rounded(&operand.name, &fragment, elem)?]),
            Terms::Two => {
                // With fewer promotions the error is small enough without.
                let rounded = promoting.is_none_or(|of| of.steps == 1);
                Ok(self.two_terms(&operand.name, &fragment, elem, rounded)?.into())
            }
        }
    }

    /// The numbers of four bits in bytes, a word of them at once.
    fn unpacked(&mut self, name: &str, fragment: &View, of: Int4, elem: Elem) -> Result<View> {
        let extents = fragment.extents().unwrap_or_default();
        let (Some(row), [values, count, _]) = (isa::unpack(of, elem), &extents[..]) else {
            return Err(Problem::new(format!("numbers of four bits do not become {elem}")));
        };
        let at_once = (4 / values).max(1);
        if count % at_once != 0 {
            return Err(Problem::new(format!(
                "a warp has {count} fragments of numbers of four bits, which are converted {at_once} at once"
            ))
            .help("use a tile of twice as many columns"));
        }
        let wide =
            self.registers_in(&format!("{name}_{elem}"), elem, Tuple::flat(&[2 * values, *count, 1]), true)?;
        self.copy_how(&grouped(fragment, at_once)?, &grouped(&wide, at_once)?, How::Atom(row), None)?;
        Ok(wide)
    }

    /// Elements of f32 in registers as sums of two terms of tf32: the nearest, where ties go away from zero, and the rest.
    ///
    /// Two operations make the first term: half of its last bit is added to the bits of the number, and the lower bits are cut
    /// off. A conversion would take four operations, since it preserves NaN; here the rest of a NaN is NaN. The rest has at most
    /// 12 bits. Instructions ignore the last bit, which is an error of 2^-23 of the number. If the rest is to be `rounded`, away
    /// from zero, it is multiplied by 1 + 2^-11, which adds at least half of its eleventh bit and less than the whole bit.
    fn two_terms(&mut self, name: &str, fragment: &View, elem: Elem, rounded: bool) -> Result<[View; 2]> {
        let [high, low] =
            [name.to_owned(), format!("{name}_low")].map(|name| self.converted(fragment, elem, &name));
        let (high, low) = (high?, low?);
        let both = |op, left, right| Expr::Bin(op, Box::new(left), Box::new(right));
        let bits = |to, of| Expr::Bits(to, Box::new(of));
        let nearest = both(Bin::Add, bits(Elem::U32, Expr::In(0)), Expr::lit(HALF));
        let nearest = both(Bin::And, nearest, Expr::lit(KEPT));
        self.map(std::slice::from_ref(fragment), &high, bits(elem, nearest))?;
        let rest = both(Bin::Sub, Expr::In(0), Expr::In(1).cast(Elem::F32));
        let rest = if rounded { both(Bin::Mul, rest, Expr::lit(LONGER)) } else { rest };
        self.map(&[fragment.clone(), high.clone()], &low, bits(elem, rest))?;
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
        self.registers_in(&format!("{name}_{elem}"), elem, fragment.shape(), elem.bits() < 32)
    }

    /// Registers for sums of operands with two terms, until the sums are promoted: for all fragments if all k-steps are
    /// promoted together, otherwise for one fragment. With more k-steps, the compiler would interleave k-steps before and
    /// after a promotion, and their sums would take twice the registers.
    pub(super) fn promoting(&mut self, mma: &TiledMma, acc: &View, steps: i64) -> Result<Promoting> {
        let extents = acc.extents().unwrap_or_default();
        let [values, down, across] = extents[..] else {
            return Err(Problem::new("accumulators have three modes"));
        };
        let bytes = self.elem(acc).bytes_of(values * down * across);
        let together = steps > 1 && steps * mma.shape()[2] <= SPAN && bytes <= MOST_BYTES;
        let (shape, steps) = if together { (acc.shape(), steps) } else { (Tuple::flat(&[values, 1, 1]), 1) };
        Ok(Promoting { sums: self.registers("sums", self.elem(acc), shape)?, steps })
    }

    /// A k-step of a product of operands in two terms each. If sums are promoted after each k-step, fragments are
    /// multiplied one after the other, so that only one fragment's sums take registers besides the accumulators.
    pub(super) fn multiply_terms(
        &mut self,
        mma: &TiledMma,
        [left, right]: [&[View]; 2],
        acc: &View,
        Promoting { sums, steps }: &Promoting,
        step: &Affine,
    ) -> Result<()> {
        if *steps > 1 {
            let remaining = Affine::from(steps - 1).plus(step, -1);
            let remaining = remaining.ok_or_else(|| Problem::new("a coordinate passes 63 bits"))?;
            self.condition(step, 1.into(), |b| b.fill(sums, Expr::lit(0.0)))?;
            self.add_terms(mma, [left, right], sums)?;
            return self.condition(&remaining, 1.into(), |b| b.promote(sums, acc));
        }
        let [rows, columns] = [acc.layout.mode(1)?.size()?, acc.layout.mode(2)?.size()?];
        self.repeat("n", columns, Unroll::Full, |b, n| {
            b.repeat("m", rows, Unroll::Full, |b, m| -> Result<()> {
                b.fill(sums, Expr::lit(0.0))?;
                let mut parts = |terms: &[View], at: &Affine| -> Result<Vec<View>> {
                    terms.iter().map(|term| part(b, term, 1, at)).collect()
                };
                let (left, right) = (parts(left, &m)?, parts(right, &n)?);
                b.add_terms(mma, [&left, &right], sums)?;
                let acc = part(b, acc, 2, &n)?;
                let acc = part(b, &acc, 1, &m)?;
                b.promote(sums, &acc)
            })
        })
    }

    /// Adds the products of a k-step, except the product of both lower terms. Products with a lower term come first:
    /// added to the sum of higher products, their last bits would be cut off.
    fn add_terms(&mut self, mma: &TiledMma, terms: [&[View]; 2], sums: &View) -> Result<()> {
        let [[high_a, low_a], [high_b, low_b]] = terms else {
            return Err(Problem::new("operands have two terms each"));
        };
        for (left, right) in [(low_a, high_b), (high_a, low_b), (high_a, high_b)] {
            self.gemm_how(left, right, sums, Multiply::Atom(mma.row), Order::Plain, None)?;
        }
        Ok(())
    }

    fn promote(&mut self, sums: &View, acc: &View) -> Result<()> {
        let sum = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
        self.map(&[acc.clone(), sums.clone()], acc, sum)
    }
}

/// Sums of products until they are promoted, and after how many k-steps that is.
pub(super) struct Promoting {
    sums: View,
    steps: i64,
}

/// One index of a mode, which remains with extent 1.
fn part(b: &mut Builder, view: &View, mode: usize, at: &Affine) -> Result<View> {
    let which = |order| if order == mode { At::Index(at.clone()) } else { At::All };
    let part = b.slice(view, &(0..view.rank()).map(which).collect::<Vec<_>>())?;
    let mut modes: Vec<Layout> = part.layout.modes().collect();
    modes.insert(mode, Layout::new(1i64, 0i64)?);
    Ok(part.rearranged(Layout::from_modes(modes)?))
}
