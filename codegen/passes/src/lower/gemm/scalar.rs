//! Products by rows of one thread: operand fragments are loaded into registers, then multiplied element by element in a
//! chosen order.

use tilewright_layout::Value;

use super::super::Lower;
use super::super::numbering::{extents_of, vectors_of};
use crate::isa::atom::{Atom, OperandName};
use crate::source::problem::{Problem, Result};
use crate::thread::index::{Int, Ix};
use crate::thread::{Frag, Op, Scope, Unroll, Val};
use crate::tile::range::most;
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::tile::{Order, ProductViews, Space};
use crate::values::number::Number;
use crate::values::semiring::Semiring;

/// Unroll factor of a product's loop along K when its length is known only at launch.
const DYNAMIC_UNROLL: u32 = 4;

/// Longest inner loop that is fully unrolled.
const MOST_UNROLLED: i64 = 32;

/// An operand: its view with the leaves of its first mode (rows) and of the second (K).
struct Operand<'v> {
    view: &'v View,
    leaves: Vec<Leaf>,
    /// Leaves that belong to the first mode.
    rows: usize,
    /// The registers of its fragment.
    reg: u32,
    loaded: bool,
}

impl Lower<'_> {
    pub(super) fn by_elements(
        &mut self,
        by: &'static Atom,
        ProductViews { a, b, acc }: ProductViews<'_>,
        order: Order,
    ) -> Result<()> {
        let with = by.semiring();
        let target = self.program.tensor(acc.tensor);
        self.at_tensor(&target.name);
        let k_extent = a.extent_along(1)?;
        let acc_leaves = leaves(acc);
        let (mut a, mut b) = (self.operand(a)?, self.operand(b)?);
        let rows: i64 = a.leaves[..a.rows].iter().map(|l| l.extent).product();
        let columns: i64 = b.leaves[..b.rows].iter().map(|l| l.extent).product();
        let what = formula(with, [&acc.name, &a.view.name, &b.view.name]);
        self.comment(format!("{what}, {rows}x{columns}x{k_extent}"));
        let [left, right] = with.fills(target.elem).unwrap_or_default();
        let (var, k) = match k_extent {
            Value::Int(n) => self.loop_var("kk", n),
            _ => {
                let last = most(k_extent) - 1;
                let id = self.var("kk", last > i64::from(i32::MAX));
                (id, self.exprs().leaf(Int::Var(id), 0, last, 1, Scope::Block))
            }
        };
        let k_at = if k_extent == Value::Int(1) { self.int(0) } else { k };
        let (body, ()) = self.nested(|lower| {
            lower.fetch(&mut a, k_at, left.into())?;
            lower.fetch(&mut b, k_at, right.into())?;
            lower.multiply(by, [&a, &b], acc, &acc_leaves, k_at, order)
        })?;
        if k_extent == Value::Int(1) {
            self.block.extend(body);
            return Ok(());
        }
        let full = |n: i64| n <= MOST_UNROLLED || !(a.loaded && b.loaded);
        let unroll = match k_extent {
            Value::Int(n) if full(n) => Unroll::Full,
            _ => Unroll::By(DYNAMIC_UNROLL),
        };
        let (from, to) = (self.int(0), self.value(k_extent));
        self.emit(Op::For { var, from, to, step: 1, unroll, body });
        Ok(())
    }

    fn operand<'v>(&mut self, view: &'v View) -> Result<Operand<'v>> {
        let leaves = leaves(view);
        let rows = view.layout.mode(0)?.leaves().len();
        let tensor = self.program.tensor(view.tensor);
        let loaded = !matches!(tensor.space, Space::Registers { .. });
        let reg = if loaded {
            let count: i64 = leaves[..rows].iter().map(|l| l.extent).product();
            let name = format!("{}_r", view.name);
            self.register(name, tensor.elem, count as u32, false)
        } else {
            self.storage[view.tensor as usize]
        };
        Ok(Operand { view, leaves, rows, reg, loaded })
    }

    /// Leaf indices of an operand: `rows` for its first mode, the digits of `k` for its second.
    fn operand_at(&mut self, operand: &Operand<'_>, rows: &[Ix], k: Ix) -> Vec<Ix> {
        let mut at = rows.to_vec();
        at.extend(self.submodes(values(&operand.leaves[operand.rows..]), k));
        at
    }

    /// Loads the operand's fragment of k-step `k` into registers, filled where it is out of bounds.
    fn fetch(&mut self, operand: &mut Operand<'_>, k: Ix, fill: Number) -> Result<()> {
        if !operand.loaded {
            return Ok(());
        }
        let tensor = self.program.tensor(operand.view.tensor);
        let most = tensor.elem.elements_in(16i64);
        let (mut which, mut width) = (0, 1);
        for leaf in 0..operand.rows {
            if operand.leaves[leaf].extent > 1 && operand.leaves[leaf].step == 1 {
                let w = self.width(operand.view, &operand.leaves, leaf, most);
                if w > width {
                    (which, width) = (leaf, w);
                }
            }
        }
        // Vectors need contiguous registers, and those have the first mode's leaves in order.
        if which != 0 {
            (which, width) = (0, 1);
        }
        let extents = vectors_of(&operand.leaves[..operand.rows], which, width);
        let operand = &*operand;
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let mut rows = at.to_vec();
            if let Some(row) = rows.get_mut(which) {
                *row = lower.exprs().mul(*row, width);
            }
            let to = Frag {
                reg: operand.reg,
                at: lower.flat(&extents_of(&operand.leaves[..operand.rows]), &rows)?,
                len: width as u32,
            };
            let element = lower.operand_at(operand, &rows, k);
            let guard = lower.guard(operand.view, &operand.leaves, &element);
            let from = lower.address(operand.view, &operand.leaves, &element);
            lower.emit(Op::Load { to, from, guard, fill, volatile_at: None });
            Ok(())
        })
    }

    fn multiply(
        &mut self,
        by: &'static Atom,
        [a, b]: [&Operand<'_>; 2],
        acc: &View,
        acc_leaves: &[Leaf],
        k: Ix,
        order: Order,
    ) -> Result<()> {
        let acc_rows = acc.layout.mode(0)?.leaves().len();
        let acc_reg = self.storage[acc.tensor as usize];
        let names = |base: &str, n: usize| {
            if n == 0 { base.to_owned() } else { format!("{base}{n}") }
        };
        let rows = a.leaves[..a.rows].iter().enumerate().map(|(i, l)| (names("m", i), l.extent));
        let columns = b.leaves[..b.rows].iter().enumerate().map(|(i, l)| (names("n", i), l.extent));
        // The innermost loop comes first.
        let by_rows = order.is_by_rows();
        let extents: Vec<(String, i64)> =
            if by_rows { columns.chain(rows).collect() } else { rows.chain(columns).collect() };
        let inner: i64 = extents[..if by_rows { b.rows } else { a.rows }].iter().map(|(_, n)| n).product();
        self.loops(&extents, Unroll::Full, &mut |lower, at| {
            let (fast, slow) = at.split_at(if by_rows { b.rows } else { a.rows });
            let (fast_leaves, slow_leaves) = if by_rows {
                (&b.leaves[..b.rows], &a.leaves[..a.rows])
            } else {
                (&a.leaves[..a.rows], &b.leaves[..b.rows])
            };
            let mut fast = fast.to_vec();
            // Serpentine order: every other line runs backwards, so that an operand's register is reused
            // where lines meet.
            if matches!(order, Order::Serpentine | Order::RowSerpentine) {
                let position = lower.flat(&extents_of(fast_leaves), &fast)?;
                let line = lower.flat(&extents_of(slow_leaves), slow)?;
                let odd = lower.exprs().rem(line, 2);
                let last = lower.int(inner - 1);
                let back = lower.exprs().sub(last, position);
                let serpentine = lower.exprs().select(odd, back, position);
                let known = lower.kernel.exprs.get(serpentine).clone();
                // Named, because it is used three times.
                let id = lower.var(if by_rows { "column" } else { "row" }, false);
                lower.emit(Op::Let(id, serpentine));
                lower.scope.unrolled.push(id);
                let position =
                    lower.exprs().leaf(Int::Var(id), known.lo, known.hi, known.multiple, known.same_for);
                fast = lower.submodes(values(fast_leaves), position);
            }
            let (rows, columns) = if by_rows { (slow, &fast[..]) } else { (&fast[..], slow) };
            // The accumulator's modes may be nested differently from the operands': convert through linear
            // indices.
            let row = lower.flat(&extents_of(&a.leaves[..a.rows]), rows)?;
            let column = lower.flat(&extents_of(&b.leaves[..b.rows]), columns)?;
            let mut at = lower.submodes(values(&acc_leaves[..acc_rows]), row);
            at.extend(lower.submodes(values(&acc_leaves[acc_rows..]), column));
            let acc_at = lower.register_index(acc, acc_leaves, &at);
            let value = |lower: &mut Self, (name, operand): (OperandName, &Operand<'_>), rows: &[Ix]| {
                let at = if operand.loaded {
                    lower.flat(&extents_of(&operand.leaves[..operand.rows]), rows)?
                } else {
                    let at = lower.operand_at(operand, rows, k);
                    lower.register_index(operand.view, &operand.leaves, &at)
                };
                let from = lower.program.tensor(operand.view.tensor).elem;
                let elem = by.operand(name).map_or(from, |operand| operand.elem);
                Ok::<_, Problem>(lower.converted(Val::Reg(operand.reg, at), from, elem))
            };
            let left = value(lower, (OperandName::A, a), rows)?;
            let right = value(lower, (OperandName::B, b), columns)?;
            let sum = Val::Reg(acc_reg, acc_at);
            let value = Val::Product(by, Box::new([left, right, sum]));
            lower.emit(Op::Assign { reg: acc_reg, at: acc_at, value });
            Ok(())
        })
    }
}

/// The extents of leaves.
fn values(leaves: &[Leaf]) -> impl Iterator<Item = Value> {
    leaves.iter().map(|leaf| Value::Int(leaf.extent))
}

/// A product in a comment.
fn formula(with: Semiring, [acc, a, b]: [&str; 3]) -> String {
    let name = |operation| {
        let of = Semiring::OPERATIONS.iter().find(|(_, known)| *known == operation);
        of.map_or("", |(name, _)| *name)
    };
    match with {
        Semiring::SUMS => format!("{acc} += {a} * {b}"),
        Semiring { add, mul } => format!("{acc} = {}({acc}, {}({a}, {b}))", name(add), name(mul)),
    }
}
