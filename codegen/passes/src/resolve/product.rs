//! Products of whole tiles: by an instruction, if the accumulators have its distribution, or else by FMAs of
//! threads.

use crate::isa::atom::OperandName;
use tilewright_layout::{Distribution, Layout, Submode, Tuple};

use super::converted::Converted;
use super::part::{self, seen};
use super::words::moved;
use super::{Resolve, extents, shared};
use crate::build::tiled::{Terms, TiledMma};
use crate::source::problem::{Problem, Result};
use crate::tile::view::View;
use crate::tile::{Form, Group, Multiply, Op, Order, ProductViews, Program, Space, Stmt, Tensor};
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::semiring::Semiring;

/// The operands of an instruction, and its accumulators.
struct Operands {
    left: View,
    in_registers: bool,
    right: View,
    acc: View,
}

impl Resolve {
    /// `acc(m, n) += a(m, k) · b(n, k)`
    pub(super) fn product(
        &mut self,
        stmt: &Stmt,
        views: ProductViews<'_>,
        with: Semiring,
        order: Order,
    ) -> Result<()> {
        let ProductViews { a, b, acc } = views;
        let own = self.forms.get(&acc.tensor).cloned();
        let Some(sums) = own.map(|own| seen(acc, &own)).transpose()?.flatten() else {
            return Err(Problem::new(format!("`{}` is not a tile in registers", acc.name))
                .help("make it with `full::<f32>((BM, BN), 0.0)`, or with the accumulators of a `tiled_mma`")
                .arg(2));
        };
        if let Some(Form::Sums(mma)) = self.program.forms.get(&acc.tensor).cloned() {
            if with != Semiring::SUMS {
                return Err(Problem::new(format!(
                    "`{}` are accumulators of a `tiled_mma`, and tensor cores add products alone",
                    acc.name
                ))
                .help("make the accumulator with `full::<f32>((BM, BN), f32::INFINITY)`, for CUDA cores")
                .arg(2));
            }
            return match mma.is_asynchronous() {
                true => self.asynchronously(stmt, views, &sums, &mma),
                false => self.by_instruction(stmt, views, &sums, &mma),
            };
        }
        // Each thread needs its rows of one operand, and its columns of the other, along all of K.
        let k = extents(a)?[1];
        let (of_a, of_b) = (operand(&sums, 0, k), operand(&sums, 1, k));
        let (left, right) = (self.side(stmt, a, &of_a, false)?, self.side(stmt, b, &of_b, false)?);
        let out = part::of_tile(acc, &sums, &sums, acc.tensor)?;
        let op = Op::Gemm { a: left, b: right, acc: out, how: Multiply::Scalar(with), order, token: None };
        self.push(stmt, op);
        Ok(())
    }

    /// A product by an instruction of warps, whose operands are loaded from shared memory.
    fn by_instruction(
        &mut self,
        stmt: &Stmt,
        views: ProductViews<'_>,
        sums: &Distribution,
        mma: &TiledMma,
    ) -> Result<()> {
        let ProductViews { a, b, .. } = views;
        let of = [a, b].map(|view| self.converted.at(view).cloned());
        let mut mma = mma.clone();
        for (of, operand) in of.iter().zip([OperandName::A, OperandName::B]) {
            if let Some(pairs) = of.as_ref().and_then(|of| of.pairs) {
                mma = mma.with_pairs(operand, pairs);
            }
        }
        let Operands { left, right, acc, .. } = self.operands(stmt, views, sums, &mma, Some(&mma))?;
        let scales = [0, 1].map(|side: usize| of[side].as_ref().and_then(Converted::scaling));
        let made = self.built(stmt, |builder| builder.multiply(&mma, [&left, &right], &acc, scales));
        // The instruction is not an argument of the user's.
        made.map_err(|problem| Problem { arg: problem.arg.map(|arg| arg.saturating_sub(1)), ..problem })
    }

    /// A product by an instruction of warpgroups, which reads shared memory itself.
    fn asynchronously(
        &mut self,
        stmt: &Stmt,
        views: ProductViews<'_>,
        sums: &Distribution,
        mma: &TiledMma,
    ) -> Result<()> {
        let of = self.program.groups[mma.of as usize].warps;
        let is_family =
            |group: &Group| group.warps == of && group.member_warps() == Some(mma.row.family.warps());
        let family = self.program.groups.iter().position(is_family);
        let (Some(family), Op::Gemm { token: token @ Some(_), .. }) =
            (family.filter(|_| of.is_some()), &stmt.op)
        else {
            return Err(Problem::new("products of warpgroups read tiles that a producer copies in bulk")
                .help("write for k in pipelined(0..n, stages = 4, producer = warp)"));
        };
        // Groups of consumers that alternate have several warpgroups each.
        let (members, count) = (i64::from(self.program.groups[family].members), mma.groups.size()?);
        let is_part = count < members.max(2);
        let member = Affine::from(Coord::Member(family as u32)).submode(1, is_part.then_some(count));
        let by_registers = mma.of_registers();
        let matched = self.operands(stmt, views, sums, mma, by_registers.as_ref())?;
        let (row, a) = match by_registers.filter(|_| matched.in_registers) {
            Some(mma) => (mma.row, matched.left),
            None => (mma.row, mma.part_of(&matched.left, OperandName::A, &member)?),
        };
        let op = Op::Gemm {
            a,
            b: mma.part_of(&matched.right, OperandName::B, &member)?,
            acc: matched.acc,
            how: Multiply::Atom(row),
            order: Order::Plain,
            token: *token,
        };
        self.push(stmt, op);
        Ok(())
    }

    /// The operands of a product by an instruction, and its accumulators. The left operand may be in registers if
    /// `from_registers` is an instruction that reads it there. Coordinates of elements are propagated to the
    /// accumulators.
    fn operands(
        &mut self,
        stmt: &Stmt,
        ProductViews { a, b, acc }: ProductViews<'_>,
        sums: &Distribution,
        mma: &TiledMma,
        from_registers: Option<&TiledMma>,
    ) -> Result<Operands> {
        let k = extents(a)?[1];
        let matched = match from_registers {
            Some(mma) => self.in_registers(stmt, a, mma)?,
            None => None,
        };
        let in_registers = matched.is_some();
        let (left, part) = match matched {
            Some((left, part)) => (left, Some(part)),
            None => (self.in_shared(stmt, a, mma, OperandName::A).map_err(|problem| problem.arg(0))?, None),
        };
        let right = self.in_shared(stmt, b, mma, OperandName::B).map_err(|problem| problem.arg(1))?;
        let whole = part::of_tile(acc, sums, sums, acc.tensor)?;
        // An element with two numbers has no coordinate along K.
        if mma.pairs.is_none() {
            let a = part.map_or_else(|| self.side(stmt, &left, &operand(sums, 0, k), false), Ok)?;
            let b = self.side(stmt, &right, &operand(sums, 1, k), false)?;
            self.push(stmt, Op::Flow { a, b, acc: whole.clone() });
        }
        let [m, n, _] = mma.shape();
        let acc = whole.rearranged(fragments(part::submodes(sums)?, sums, mma, OperandName::D, [m, n])?);
        Ok(Operands { left, in_registers, right, acc })
    }

    /// A left operand that is already distributed as the instruction takes it, such as the sums of an earlier product:
    /// its fragments, and the part of each thread.
    fn in_registers(&mut self, stmt: &Stmt, view: &View, mma: &TiledMma) -> Result<Option<(View, View)>> {
        let Some(own) = self.forms.get(&view.tensor).cloned() else { return Ok(None) };
        fits(&self.program, view, mma, OperandName::A).map_err(|problem| problem.arg(0))?;
        let (Some(all), shape) = (seen(view, &own)?, extents(view)?) else { return Ok(None) };
        let Some(left) = mma.left([shape[0], shape[1]])? else { return Ok(None) };
        let Some(submodes) = part::arranged(&all, &left)? else { return Ok(None) };
        let part = part::of_tile(view, &own, &all, view.tensor)?;
        let [m, _, k] = mma.shape();
        let layout = fragments(submodes, &left, mma, OperandName::A, [m, k])?;
        let extents: Vec<i64> =
            layout.modes().map(|mode| mode.size()).collect::<std::result::Result<_, _>>()?;
        let Tensor { name, elem, .. } = self.program.tensor(view.tensor).clone();
        let (name, shape) = (format!("{name}_operand"), Tuple::flat(&extents));
        if self.is_in_words(view) && own == left {
            // Its registers are in the instruction's order.
            return Ok(Some((part.rearranged(layout), part)));
        }
        let words = Space::Registers { words: elem.bits() < 32 };
        let id = self.tensor(&name, elem, words, Layout::compact(shape.clone())?);
        let to = View::whole(id, &name, &shape)?;
        let from = part.rearranged(layout);
        self.push(stmt, moved(from, to.clone()));
        Ok(Some((to, part)))
    }

    /// An operand in shared memory, before its conversion: a tile in registers is put there.
    fn in_shared(&mut self, stmt: &Stmt, view: &View, mma: &TiledMma, operand: OperandName) -> Result<View> {
        if let Some(of) = self.converted.at(view) {
            return Ok(of.source.clone());
        }
        fits(&self.program, view, mma, operand)?;
        let Some(own) = self.forms.get(&view.tensor).cloned() else {
            return match self.program.tensor(view.tensor).space {
                Space::Shared { .. } => Ok(view.clone()),
                _ => Err(Problem::new(format!(
                    "`{}` is in global memory, and operands come from shared memory",
                    view.name
                ))
                .help("copy it first: `let s = shared::<bf16>((BM, BK)); copy(g, s);`")),
            };
        };
        let Tensor { name, elem, .. } = self.program.tensor(view.tensor).clone();
        if mma.is_asynchronous() {
            let side = if operand == OperandName::A { "left" } else { "right" };
            return Err(Problem::new(format!(
                "this {side} operand is a tile in registers, and products of warpgroups read it from shared memory"
            ))
            .help(format!(
                "copy it to a shared tile first: let t = shared::<{elem}>({}); copy(…, t);",
                view.shape()
            )));
        }
        let Some(all) = seen(view, &own)? else {
            return Err(Problem::new(format!("`{}`, {}, is not all of a tile", view.name, view.shape())));
        };
        let shape = extents(view)?;
        let name = format!("{name}_operand");
        let layout = shared::operand(elem, [shape[0], shape[1]], &all, mma, operand)?;
        self.stored(stmt, view, &all, &name, elem, layout)
    }
}

/// Does an operand have the type and the extents that an instruction takes?
fn fits(program: &Program, view: &View, mma: &TiledMma, operand: OperandName) -> Result<()> {
    let elem = program.tensor(view.tensor).elem;
    let elem = *program.replaced.get(&view.tensor).unwrap_or(&elem);
    let wanted = mma.row.operand(operand).map_or(elem, |operand| operand.elem);
    let is_sum = mma.terms == Terms::Two && elem == Elem::F32;
    if elem != wanted && !is_sum {
        return Err(Problem::new(format!(
            "`{}` multiplies {wanted}, and `{}` has elements of {elem}",
            mma.row.name, view.name
        ))
        .help(convert(view, elem, wanted)));
    }
    let (shape, [m, n, k]) = (extents(view)?, mma.shape());
    let rows = if operand == OperandName::A { m } else { n };
    for (mode, (extent, of)) in shape.iter().zip([rows, k]).enumerate() {
        if extent % of != 0 {
            return Err(Problem::new(format!(
                "mode {mode} of `{}` has {extent} elements, and `{}` multiplies {of} at once",
                view.name, mma.row.name
            ))
            .help(format!("use a tile of a multiple of {of}")));
        }
    }
    Ok(())
}

fn convert(view: &View, elem: Elem, wanted: Elem) -> String {
    match elem.is_float() == wanted.is_float() {
        true => format!("convert it first: `map({}, |x| x as {wanted})`", view.name),
        false => format!("use a `tiled_mma` for {elem}"),
    }
}

/// The elements of an operand that each thread needs for its accumulators, whose mode `mode` is the operand's
/// mode 0.
pub(super) fn operand(sums: &Distribution, mode: usize, k: i64) -> Distribution {
    let to = |submode: &Submode| match submode.mode == mode {
        true => Submode { mode: 0, ..*submode },
        false => Submode { mode: 0, step: 0, ..*submode },
    };
    let threads = sums.thread_submodes().iter().map(to).collect();
    let mut values: Vec<Submode> =
        sums.value_submodes().iter().filter(|submode| submode.mode == mode).map(to).collect();
    values.push(Submode { extent: k, mode: 1, step: 1 });
    Distribution::new(&[sums.tile()[mode], k], threads, values)
}

/// A thread's part of an operand as an instruction takes it, from a layout for each of its value submodes: the values
/// of one instruction, then the number of instructions along each mode, whose tiles have these extents.
fn fragments(
    submodes: Vec<Layout>,
    d: &Distribution,
    mma: &TiledMma,
    operand: OperandName,
    tile: [i64; 2],
) -> Result<Layout> {
    let values = mma.row.tv(operand).map_or(Ok(1), |tv| tv.mode(1)?.size())?;
    let mut submodes = submodes.into_iter();
    let (mut own, mut count) = (Vec::new(), 1);
    while count < values
        && let Some(submode) = submodes.next()
    {
        count *= submode.size()?;
        own.push(submode);
    }
    let mut all = vec![part::joined(own)?];
    // Digits of one value are left out of distributions.
    for (mode, size) in tile.into_iter().enumerate() {
        let threads =
            d.thread_submodes().iter().filter(|submode| submode.mode == mode && submode.step >= size);
        let groups: i64 = threads.map(|submode| submode.extent).product();
        let next = if d.tile()[mode] / size / groups > 1 { submodes.next() } else { None };
        all.push(next.map_or_else(|| part::joined(Vec::new()), Ok)?);
    }
    Ok(Layout::from_modes(all)?)
}
