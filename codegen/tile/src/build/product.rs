//! Products of tiles.

use tilewright_layout::Tuple;

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::{Multiply, Op, Order, Space};
use crate::values::elem::Elem;

impl Builder {
    /// `acc(m, n) += a(m, k) · b(n, k)`.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Order, view::Partition};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let (sa, sb) = (b.shared("sa", Elem::F32, layout!((64, 8)))?, b.shared("sb", Elem::F32, layout!((32, 8)))?);
    /// let threads = layout!((16, 8));
    /// let keep = |keep: [bool; 2]| Partition { keep: Some(keep.to_vec()), ..Partition::default() };
    /// let rows = b.parallelize_over(&sa, &threads, 0, &keep([true, false]))?; // (4, 8)
    /// let columns = b.parallelize_over(&sb, &threads, 0, &keep([false, true]))?; // (4, 8)
    /// let acc = b.registers("acc", Elem::F32, (4i64, 4i64))?;
    /// b.gemm(&rows, &columns, &acc, Order::Serpentine)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gemm(&mut self, a: &View, b: &View, acc: &View, order: Order) -> Result<()> {
        self.gemm_how(a, b, acc, Multiply::SUMS, order, None)
    }

    /// A product by a chosen instruction, or with other operations than + and ·. Copies of operands from global memory get
    /// fills that leave sums unchanged. With a token, a product of warpgroups is in flight until the wait for the token; its
    /// accumulator, and its operands in registers, must not be accessed before.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, build::Builder, tile::{Multiply, Order}, tiled::TiledMma};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::new("mma_m16n8k16_f16", &layout!((1, 1, 1)))?;
    /// let fa = b.operand("fa", &mma, OperandName::A, [16, 16])?;
    /// let fb = b.operand("fb", &mma, OperandName::B, [8, 16])?;
    /// let acc = b.operand("acc", &mma, OperandName::D, [16, 8])?;
    /// b.gemm_how(&fa, &fb, &acc, Multiply::Atom(mma.row), Order::Plain, None)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gemm_how(
        &mut self,
        a: &View,
        b: &View,
        acc: &View,
        how: Multiply,
        order: Order,
        token: Option<Id>,
    ) -> Result<()> {
        // A row of the table itself says which shapes and types it takes.
        if let Multiply::Scalar(with) = how {
            self.check_gemm(a, b, acc)?;
            with.check(self.elem(acc))?;
        }
        let (a, b, acc) = (a.clone(), b.clone(), acc.clone());
        self.push(Op::Gemm { a, b, acc, how, order, token });
        Ok(())
    }

    fn check_gemm(&self, a: &View, b: &View, acc: &View) -> Result<()> {
        for (arg, view) in [a, b, acc].into_iter().enumerate() {
            if view.rank() != 2 {
                return Err(Problem::new(format!(
                    "gemm needs two modes of each operand, and `{}` has {}: {}",
                    view.name,
                    view.rank(),
                    view.shape()
                ))
                .help("slice them to (m, k), (n, k) and (m, n)")
                .arg(arg));
            }
        }
        if !matches!(self.space(acc), Space::Registers { .. }) {
            return Err(Problem::new(format!(
                "gemm accumulates in registers, and `{}` is not in registers",
                acc.name
            ))
            .help("make the accumulator with `registers_like`, and copy it after the loop")
            .arg(2));
        }
        let size = |view: &View, mode: usize| {
            view.layout.mode(mode).ok().map(|mode| (mode.size().ok(), mode.shape()))
        };
        let pairs =
            [(a, 0, acc, 0, "rows", 0), (b, 0, acc, 1, "columns", 1), (a, 1, b, 1, "extents along k", 1)];
        for (left, l, right, r, what, arg) in pairs {
            let (x, y) = (size(left, l), size(right, r));
            let same = match (&x, &y) {
                (Some((Some(x), _)), Some((Some(y), _))) => x == y,
                _ => x == y,
            };
            if !same {
                let text = |of: Option<(Option<i64>, Tuple)>| {
                    of.map_or_else(String::new, |(n, shape)| {
                        n.map_or_else(|| shape.to_string(), |n| n.to_string())
                    })
                };
                // An operand whose modes fit in the other order.
                let is =
                    |view: &View, mode: usize, other: &View, of: usize| size(view, mode) == size(other, of);
                let swapped = [(a, 0, b), (b, 1, a)].into_iter().find_map(|(view, side, other)| {
                    let fits = is(view, 1, acc, side) && is(view, 0, other, 1) && !is(view, 0, acc, side);
                    fits.then_some(view)
                });
                return Err(Problem::new(format!(
                    "the {what} differ: {} in mode {l} of `{}`, {} in mode {r} of `{}`",
                    text(x),
                    left.name,
                    text(y),
                    right.name
                ))
                .help(match swapped {
                    Some(view) => format!(
                        "operands are (m, k), (n, k) and (m, n): write permute({}, (1, 0))",
                        view.name
                    ),
                    None => "operands are (m, k), (n, k) and (m, n)".into(),
                })
                .arg(arg));
            }
        }
        let (x, y, z) = (self.elem(a), self.elem(b), self.elem(acc));
        if let Some(flags) = [a, b, acc].into_iter().position(|of| self.elem(of) == Elem::Bool) {
            let name = &[a, b, acc][flags].name;
            return Err(Problem::new(format!("`gemm` multiplies numbers, and `{name}` has conditions"))
                .help(format!("make numbers of them: `{name} as i32`, with sums of i32"))
                .arg(flags));
        }
        if x.is_float() != y.is_float() || x.is_float() != z.is_float() || z.bits() < x.bits().max(y.bits()) {
            return Err(Problem::new(format!(
                "`{}` of {x} times `{}` of {y} cannot be summed in `{}` of {z}",
                a.name, b.name, acc.name
            ))
            .help(match x.is_float() == y.is_float() {
                true => format!("sum in {}", x.accumulator()),
                false => {
                    "multiply integers with integers, or floating-point numbers with floating-point numbers"
                        .into()
                }
            })
            .arg(2));
        }
        Ok(())
    }
}
