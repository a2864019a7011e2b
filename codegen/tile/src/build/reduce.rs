//! Reductions, and the checks of their operands.

use super::Builder;
use crate::source::problem::{Problem, Result, count};
use crate::thread::Bin;
use crate::tile::view::View;
use crate::tile::{Across, Expr, Op};
use crate::values::elem::Elem;
use crate::values::number::Number;
use crate::values::typing::Types;

impl Builder {
    /// Reduces the elements of `from` into `to`, which has extent 1 in the reduced modes.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// let own = b.registers("own", Elem::F32, tx.shape())?;
    /// b.copy(&tx, &own)?;
    /// // the largest of the block's 1024 elements, in every thread
    /// let most = b.registers("most", Elem::F32, (1i64,))?;
    /// b.fill(&most, Expr::lit(f64::NEG_INFINITY))?;
    /// b.reduce(&own, &most, Bin::Max, Across::Block)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn reduce(&mut self, from: &View, to: &View, with: Bin, across: Across) -> Result<()> {
        self.reduce_claimed(from, to, with, across, None)
    }

    /// A reduction whose author says that out-of-bounds elements are the identity of the operation. All
    /// elements are combined as they are.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, thread::Bin, tile::{Across, Expr}};
    /// # let mut b = Builder::new("example");
    /// let (own, total) = (b.registers("own", Elem::F32, (4i64,))?, b.registers("total", Elem::F32, (1i64,))?);
    /// b.fill(&own, Expr::lit(2.0))?;
    /// b.fill(&total, Expr::lit(0.0))?;
    /// b.reduce_claimed(&own, &total, Bin::Add, Across::Thread, Some(0.into()))?;
    /// assert!(b.reduce_claimed(&own, &total, Bin::Add, Across::Thread, Some(1.into())).is_err());
    /// // in another order, the result would be another
    /// assert!(b.reduce(&own, &total, Bin::Sub, Across::Thread).is_err());
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn reduce_claimed(
        &mut self,
        from: &View,
        to: &View,
        with: Bin,
        across: Across,
        claimed: Option<Number>,
    ) -> Result<()> {
        let identity = with.identity(self.elem(to)).ok_or_else(|| {
            Problem::new(format!("elements cannot be combined by {with:?}: the order would matter"))
        })?;
        let (from, to) = (std::slice::from_ref(from), std::slice::from_ref(to));
        self.fold(
            from,
            to,
            vec![with.into()],
            vec![identity],
            across,
            claimed.as_ref().map(std::slice::from_ref),
        )
    }

    /// Reduces tuples of elements by an associative and commutative function, in the types of the results. `with` has one expression for
    /// each entry. Its first inputs are the accumulated tuple, and the others the next tuple. `identity` is the
    /// identity, and `claimed` has the values of out-of-bounds elements, where the author claims that they are the identity.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, thread::Cmp, tile::{Across, Expr}};
    /// # let mut b = Builder::new("example");
    /// # let (x, at) = (b.registers("x", Elem::F32, (4i64,))?, b.registers("at", Elem::I32, (4i64,))?);
    /// # b.fill(&x, Expr::lit(2.0))?;
    /// # b.fill(&at, Expr::lit(0))?;
    /// let (most, place) = (b.registers("most", Elem::F32, (1i64,))?, b.registers("place", Elem::I32, (1i64,))?);
    /// b.fill(&most, Expr::lit(f64::NEG_INFINITY))?;
    /// b.fill(&place, Expr::lit(-1))?;
    /// // of two pairs the one whose first entry is larger
    /// let larger = Expr::Cmp(Cmp::Lt, Box::new(Expr::In(0)), Box::new(Expr::In(2)));
    /// let pick = |n| Expr::Pick(Box::new([larger.clone(), Expr::In(n + 2), Expr::In(n)]));
    /// let nothing = vec![f64::NEG_INFINITY.into(), (-1).into()];
    /// b.fold(&[x, at], &[most, place], vec![pick(0), pick(1)], nothing, Across::Warp(32), None)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn fold(
        &mut self,
        from: &[View],
        to: &[View],
        with: Vec<Expr>,
        identity: Vec<Number>,
        across: Across,
        claimed: Option<&[Number]>,
    ) -> Result<()> {
        let count = from.len();
        if to.len() != count {
            return Err(Problem::new(
                "a reduction of tuples needs as many results, functions and identities as tensors",
            ));
        }
        let elems: Vec<Elem> = to.iter().map(|view| self.elem(view)).collect();
        for n in 0..count {
            self.reducible(&from[n], &to[n])?;
            crate::tile::pair::align(&to[n], &to[0])?;
        }
        self.combinable(from, &elems, &with, &identity)?;
        for ((value, identity), &elem) in claimed.unwrap_or_default().iter().zip(&identity).zip(&elems) {
            if !value.is(*identity) {
                return Err(would_count(*value, *identity, elem));
            }
        }
        let (from, to, claimed) = (from.to_vec(), to.to_vec(), claimed.is_some());
        self.push(Op::Fold { from, to, with, identity, across, claimed });
        Ok(())
    }

    /// Refuses tuples of tensors that functions cannot combine into elements of these types.
    pub(super) fn combinable(
        &self,
        from: &[View],
        elems: &[Elem],
        with: &[Expr],
        identity: &[Number],
    ) -> Result<()> {
        let count = from.len();
        if count == 0 || [elems.len(), with.len(), identity.len()] != [count; 3] {
            return Err(Problem::new(
                "a reduction of tuples needs as many results, functions and identities as tensors",
            ));
        }
        let both: Vec<Elem> = elems.iter().chain(elems).copied().collect();
        for n in 0..count {
            crate::tile::pair::align(&from[n], &from[0])?;
            identity[n].check(elems[n])?;
            let types = Types { ins: &both, scalars: &self.program.scalars };
            types.typed(&with[n], elems[n]).map_err(|problem| Problem { arg: None, ..problem })?;
        }
        Ok(())
    }

    /// Refuses operands of a reduction whose shapes do not match.
    fn reducible(&self, from: &View, to: &View) -> Result<()> {
        if from.rank() != to.rank() {
            return Err(Problem::new(format!(
                "a reduction keeps the rank: {} against {}",
                from.shape(),
                to.shape()
            )));
        }
        for (mode, (source, target)) in from.layout.modes().zip(to.layout.modes()).enumerate() {
            let (source, target) = (source.size()?, target.size()?);
            if target != source && target != 1 {
                return Err(Problem::new(format!(
                    "mode {mode} has {} in `{}` and {target} in `{}`: it is kept, or combined into one",
                    count(source, "element"),
                    from.name,
                    to.name
                ))
                .arg(1));
            }
        }
        Ok(())
    }
}

/// The error of out-of-bounds elements that are not the identity.
pub fn would_count(fill: Number, identity: Number, elem: Elem) -> Problem {
    let identity = identity.written_as(elem);
    Problem::new(format!(
        "out-of-bounds elements are {fill}, which changes the result; the identity here is {identity}"
    ))
    .help(format!(
        "set them first, such as `map(x, |x, at| select(at.0 < N, x, {identity}))`, and declare it: out_of_bounds = {identity}"
    ))
}
