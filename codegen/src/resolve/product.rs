//! Products of whole tiles.

use tilewright_layout::{Digit, Distribution};

use super::part::{self, seen};
use super::{Resolve, extents};
use crate::problem::{Problem, Result};
use crate::tile::{How, Op, Order, Stmt};
use crate::view::View;

impl Resolve {
    /// `acc(m, n) += a(m, k) · b(n, k)`
    pub(super) fn product(&mut self, stmt: &Stmt, a: &View, b: &View, acc: &View) -> Result<()> {
        let own = self.forms.get(&acc.tensor).cloned();
        let Some(sums) = own.map(|own| seen(acc, &own)).transpose()?.flatten() else {
            return Err(Problem::new(format!("`{}` is no tile in registers", acc.name))
                .help("make it with `full::<f32>((BM, BN), 0.0)`, or with the accumulators of a `tiled_mma`")
                .arg(2));
        };
        // Multiply-adds of threads: each needs its rows of one operand, and its columns of the other, along all of K.
        let k = extents(a)?[1];
        let operand = |mode: usize| {
            let to = |digit: &Digit| match digit.mode == mode {
                true => Digit { mode: 0, ..*digit },
                false => Digit { mode: 0, step: 0, ..*digit },
            };
            let threads = sums.thread_digits().iter().map(to).collect();
            let mut values: Vec<Digit> =
                sums.value_digits().iter().filter(|digit| digit.mode == mode).map(to).collect();
            values.push(Digit { extent: k, mode: 1, step: 1 });
            Distribution::new(&[sums.tile()[mode], k], threads, values)
        };
        let (of_a, of_b) = (operand(0), operand(1));
        let left = grouped(&self.side(stmt, a, &of_a, false)?, &of_a)?;
        let right = grouped(&self.side(stmt, b, &of_b, false)?, &of_b)?;
        let out = grouped(&part::of_tile(acc, &sums, acc.tensor)?, &sums)?;
        let op = Op::Gemm { a: left, b: right, acc: out, how: How::Derive, order: Order::Plain, token: None };
        self.push(stmt, op);
        Ok(())
    }
}

/// A thread's part with two modes: the digits of its values along each.
fn grouped(view: &View, d: &Distribution) -> Result<View> {
    use tilewright_layout::Layout;
    let modes = (0..2).map(|mode| -> Result<Layout> {
        let digits = d.value_digits().iter().zip(view.layout.modes()).filter(|(digit, _)| digit.mode == mode);
        let own: Vec<Layout> = digits.map(|(_, own)| own).collect();
        Ok(match own.len() {
            0 => Layout::new(1i64, 0i64)?,
            1 => own[0].clone(),
            _ => Layout::from_modes(own)?,
        })
    });
    Ok(view.rearranged(Layout::from_modes(modes.collect::<Result<Vec<_>>>()?)?))
}
