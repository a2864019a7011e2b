//! Elementwise functions.

use tilewright_layout::{Layout, Value};

use super::numbering::{extents_of, named, vectors_of};
use super::{Lower, edges};
use crate::source::problem::{Problem, Result};
use crate::thread::index::Ix;
use crate::thread::{Bin, Cmp, Frag, Op, Stmt, Unroll, Val};
use crate::tile::bounds::Edges;
use crate::tile::elements::Edge;
use crate::tile::pair::align;
use crate::tile::view::View;
use crate::tile::view::leaf::{Leaf, leaves};
use crate::tile::{Expr, Space};
use crate::values::elem::Elem;
use crate::values::typing::{Type, Types};

/// Fewer elements of a thread do not repay a condition for all of them.
const FEW: i64 = 8;

/// An input or the output of a function: a view with the same leaves as all others.
struct Side {
    view: View,
    leaves: Vec<Leaf>,
    /// The registers that stage its elements from or to memory, and the vector width.
    memory: Option<(u32, i64)>,
}

/// The element at which a function is evaluated.
#[derive(Default)]
struct Here<'a> {
    ins: &'a [Side],
    /// The element, leaf by leaf.
    at: &'a [Ix],
    to: Option<&'a Side>,
    /// The coordinates of its elements, mode by mode.
    stands: &'a [Option<Edge>],
}

/// The sides of an elementwise function, and how their elements are accessed.
struct Elementwise<'a> {
    ins: Vec<Side>,
    /// Which inputs the function reads, beside their coordinates.
    read: Vec<bool>,
    to: Side,
    /// The leaf along which memory is accessed, and the elements of a vector.
    leaf: usize,
    vector: i64,
    /// The registers of the results, where these would overwrite elements that are read later.
    aside: Option<u32>,
    /// The coordinates of the elements, mode by mode.
    stands: &'a [Option<Edge>],
}

impl Side {
    /// The number of a thread's elements.
    fn count(&self) -> i64 {
        self.leaves.iter().map(|leaf| leaf.extent).product()
    }
    /// Is one element broadcast along this leaf?
    fn is_broadcast(&self, which: usize) -> bool {
        self.leaves.get(which).is_some_and(|leaf| leaf.step == 0)
    }
}

impl Lower<'_> {
    /// An elementwise function. Memory is accessed along one leaf, in vectors as wide as each side allows. The function may
    /// read coordinates of elements, along each mode of the target.
    pub(super) fn map(
        &mut self,
        ins: &[View],
        to: &View,
        value: &Expr,
        stands: &[Option<Edge>],
    ) -> Result<()> {
        if let Some([test, then, other]) = self.branches(ins, value) {
            let test = self.uniform(&test)?;
            let mut branch = |value: &Expr| -> Result<Vec<Stmt>> {
                Ok(self.nested(|lower| lower.map(ins, to, value, stands))?.0)
            };
            let (then, other) = (branch(&then)?, branch(&other)?);
            self.emit(Op::If { cond: test, then, other });
            return Ok(());
        }
        let target = self.program.tensor(to.tensor);
        self.at_tensor(&target.name);
        let elems: Vec<Elem> = ins.iter().map(|view| self.program.tensor(view.tensor).elem).collect();
        let types = Types { ins: &elems, scalars: &self.program.scalars };
        let value = types.typed(value, target.elem)?;
        if let (Expr::Cast(elem, of), [from]) = (&value, ins)
            && (**of == Expr::In(0) && *elem == target.elem)
            && self.convert(from, to)?
        {
            return Ok(());
        }
        if self.compute_words(ins, to, &value)? {
            return Ok(());
        }
        let map = self.elementwise(ins, to, &value, stands)?;
        match self.everywhere(&value, &map)? {
            None => self.map_vectors(&value, &map)?,
            Some((cond, inside)) => {
                let (then, ()) = self.nested(|lower| lower.map_vectors(inside, &map))?;
                let (other, ()) = self.nested(|lower| lower.map_vectors(&value, &map))?;
                self.emit(Op::If { cond, then, other });
            }
        }
        let (Some(aside), to) = (map.aside, &map.to) else { return Ok(()) };
        self.loops(&named(extents_of(&to.leaves)), Unroll::Full, &mut |lower, at| {
            let from = lower.flat(&extents_of(&to.leaves), at)?;
            let (reg, at) = lower.register_of(to, at);
            lower.emit(Op::Assign { reg, at, value: Val::Reg(aside, from) });
            Ok(())
        })
    }

    /// The sides of a function, with the registers that it needs.
    fn elementwise<'a>(
        &mut self,
        ins: &[View],
        to: &View,
        value: &Expr,
        stands: &'a [Option<Edge>],
    ) -> Result<Elementwise<'a>> {
        let read: Vec<bool> = (0..ins.len()).map(|n| value.reads(n as u8)).collect();
        let (mut ins, mut to) = refined(ins, to)?;
        let in_registers =
            |view: &View| matches!(self.program.tensor(view.tensor).space, Space::Registers { .. });
        if stands.is_empty()
            && ins.iter().all(|view| view.layout == to.layout && in_registers(view))
            && in_registers(&to)
        {
            let order = in_order(&to.layout)?;
            ins.iter_mut().chain([&mut to]).for_each(|view| *view = view.rearranged(order.clone()));
        }
        let mut sides: Vec<Side> = ins
            .into_iter()
            .chain([to])
            .map(|view| Side { leaves: leaves(&view), view, memory: None })
            .collect();
        let (leaf, widths) = self.widths(&sides, &read);
        let vector = widths.iter().copied().max().unwrap_or(1);
        for (index, (side, width)) in sides.iter_mut().zip(widths).enumerate() {
            let tensor = self.program.tensor(side.view.tensor);
            // Inputs that only provide coordinates are not read.
            let mentioned = read.get(index).copied().unwrap_or(true);
            if mentioned && !matches!(tensor.space, Space::Registers { .. }) {
                let name = format!("{}_value", side.view.name);
                side.memory = Some((self.register(name, tensor.elem, vector as u32, false), width));
            }
        }
        let to = sides.pop().ok_or_else(Problem::reported)?;
        // If source and target overlap, elements that are read at another position than they are written would be
        // overwritten too early.
        let moved = |side: &Side| {
            side.view.tensor == to.view.tensor
                && (side.view.layout != to.view.layout || side.view.base != to.view.base)
        };
        let aside = (to.memory.is_none() && sides.iter().any(moved)).then(|| {
            let elem = self.program.tensor(to.view.tensor).elem;
            self.register(format!("{}_next", to.view.name), elem, to.count() as u32, false)
        });
        Ok(Elementwise { ins: sides, read, to, leaf, vector, aside, stands })
    }

    /// A function of all of a thread's elements, vector by vector.
    fn map_vectors(&mut self, value: &Expr, map: &Elementwise<'_>) -> Result<()> {
        let &Elementwise { ref ins, ref to, leaf, vector, .. } = map;
        self.loops(&vectors_of(&to.leaves, leaf, vector), Unroll::Full, &mut |lower, at| {
            let mut first = at.to_vec();
            if let Some(at) = first.get_mut(leaf) {
                *at = lower.exprs().mul(*at, vector);
            }
            for side in ins {
                lower.transfers(side, leaf, vector, &first, true)?;
            }
            lower.loops(&[("e".to_owned(), vector)], Unroll::Full, &mut |lower, e| {
                lower.map_element(value, map, &first, e[0])
            })?;
            lower.transfers(to, leaf, vector, &first, false)
        })
    }

    /// A function of an element, which has this index in the vector that begins at `first`.
    fn map_element(&mut self, value: &Expr, map: &Elementwise<'_>, first: &[Ix], index: Ix) -> Result<()> {
        let mut at = first.to_vec();
        if let Some(at) = at.get_mut(map.leaf) {
            *at = self.exprs().add(*at, index);
        }
        let mut values = Vec::new();
        for (side, read) in map.ins.iter().zip(&map.read) {
            let (reg, at) = match side.memory {
                _ if !read => (0, self.int(0)),
                Some((reg, _)) if side.is_broadcast(map.leaf) => (reg, self.int(0)),
                Some((reg, _)) => (reg, index),
                None => self.register_of(side, &at),
            };
            values.push((Val::Reg(reg, at), self.program.tensor(side.view.tensor).elem));
        }
        let here = Here { ins: &map.ins, at: &at, to: Some(&map.to), stands: map.stands };
        let (value, _) = self.function(value, &values, &here)?;
        let (reg, at) = match (map.to.memory, map.aside) {
            (Some((reg, _)), _) => (reg, index),
            (None, Some(reg)) => (reg, self.flat(&extents_of(&map.to.leaves), &at)?),
            (None, None) => self.register_of(&map.to, &at),
        };
        self.emit(Op::Assign { reg, at, value });
        Ok(())
    }

    /// The register array of a side, and the index of an element in it.
    fn register_of(&mut self, side: &Side, at: &[Ix]) -> (u32, Ix) {
        let index = self.register_index(&side.view, &side.leaves, at);
        (self.storage[side.view.tensor as usize], index)
    }

    /// Of a choice by ranges of coordinates: that it is the same for all of a thread's elements, and the value then. Coordinates ascend,
    /// so that it is, if it is for the first and the last element.
    fn everywhere<'e>(&mut self, value: &'e Expr, map: &Elementwise<'_>) -> Result<Option<(Val, &'e Expr)>> {
        let Expr::Pick(of) = value else { return Ok(None) };
        let ([cond, inside, _], Elementwise { ins, to, stands, .. }) = (&**of, map);
        // With one bound alone, such as the end of a row that begins at a vector, a condition for each element was faster.
        let bounded = matches!(cond, Expr::Bin(Bin::And, ..));
        let computes = inside.any(&|part| matches!(part, Expr::In(_)));
        let forward = |leaves: &[Leaf]| leaves.iter().all(|leaf| leaf.step >= 0);
        let ascends = |part: &Expr| match part {
            Expr::At(mode) => {
                let edge = stands.get(usize::from(*mode)).and_then(Option::as_ref);
                forward(&to.leaves)
                    && edge.is_some_and(|edge| edge.modes.iter().all(|mode| is_ascending(mode)))
            }
            Expr::Coord(input, _) => ins.get(usize::from(*input)).is_some_and(|side| forward(&side.leaves)),
            _ => false,
        };
        if to.memory.is_some() || to.count() < FEW || !bounded || !computes || !is_range(cond, &ascends) {
            return Ok(None);
        }
        let last: Vec<i64> = to.leaves.iter().map(|leaf| leaf.extent - 1).collect();
        let ends = [vec![0; last.len()], last];
        let mut truths = Vec::new();
        for at in ends {
            let at: Vec<Ix> = at.into_iter().map(|at| self.int(at)).collect();
            let here = Here { ins, at: &at, to: Some(to), stands };
            truths.push(Box::new(self.function(cond, &[], &here)?.0));
        }
        let [first, last] = [truths.remove(0), truths.remove(0)];
        Ok(Some((Val::Bin(Bin::And, first, last), inside)))
    }

    /// A choice by scalars, where one branch alone reads some input from memory: it is loaded in that branch.
    fn branches(&self, ins: &[View], value: &Expr) -> Option<[Expr; 3]> {
        match value {
            Expr::Cast(elem, of) => {
                let [test, then, other] = self.branches(ins, of)?;
                Some([test, then.cast(*elem), other.cast(*elem)])
            }
            Expr::Pick(of) => {
                let [test, then, other] = &**of;
                let varies = |part: &Expr| {
                    matches!(part, Expr::In(_) | Expr::Coord(..) | Expr::At(_) | Expr::Index(_))
                };
                let in_memory =
                    |view: &View| !matches!(self.program.tensor(view.tensor).space, Space::Registers { .. });
                let mut inputs = (0u8..).zip(ins).filter(|(_, view)| in_memory(view));
                let skips = inputs.any(|(input, _)| then.reads(input) != other.reads(input));
                (skips && !test.any(&varies)).then(|| [test.clone(), then.clone(), other.clone()])
            }
            _ => None,
        }
    }

    /// The leaf along which memory is accessed, and the vector width of each side, with the fewest accesses.
    fn widths(&mut self, sides: &[Side], read: &[bool]) -> (usize, Vec<i64>) {
        let mut best = (0, vec![1; sides.len()], Vec::new());
        let count = sides.first().map_or(0, |side| side.leaves.len());
        for which in 0..count {
            let mut needs = Vec::new();
            let widths: Vec<i64> = sides
                .iter()
                .enumerate()
                .map(|(index, side)| {
                    let tensor = self.program.tensor(side.view.tensor);
                    let leaf = side.leaves[which];
                    match tensor.space {
                        // No assumptions on inputs that are not read.
                        _ if read.get(index) == Some(&false) => 1,
                        Space::Registers { .. } => 1,
                        Space::Global { .. } | Space::Shared { .. } if leaf.step != 1 || leaf.extent == 1 => {
                            1
                        }
                        Space::Global { .. } | Space::Shared { .. } => {
                            let most = tensor.elem.elements_in(16i64);
                            self.bounds().width(
                                &side.view,
                                &side.leaves,
                                which,
                                most,
                                Edges::Split,
                                &mut needs,
                            )
                        }
                    }
                })
                .collect();
            let accesses = |widths: &[i64]| widths.iter().map(|width| 16 / width).sum::<i64>();
            if accesses(&widths) < accesses(&best.1) {
                best = (which, widths, needs);
            }
        }
        self.assumed.rely_on(best.2);
        (best.0, best.1)
    }

    /// Moves `wide` elements of a side from memory, or to it.
    fn transfers(&mut self, side: &Side, which: usize, wide: i64, first: &[Ix], reads: bool) -> Result<()> {
        let Some((reg, width)) = side.memory else { return Ok(()) };
        // A broadcast element is moved once.
        let wide = if side.is_broadcast(which) { 1 } else { wide };
        for n in (0..wide).step_by(width as usize) {
            let mut at = first.to_vec();
            let n = self.int(n);
            if let Some(at) = at.get_mut(which) {
                *at = self.exprs().add(*at, n);
            }
            let accessed = edges::Side { view: &side.view, leaves: &side.leaves };
            self.access(accessed, &at, edges::Vector { leaf: which, width }, |lower, piece| {
                let frag = Frag { reg, at: lower.exprs().add(n, piece.first), len: piece.len as u32 };
                let (address, guard) = (lower.address(&side.view, &side.leaves, piece.at), piece.guard);
                match reads {
                    true => Op::Load { to: frag, from: address, guard, fill: 0.0.into(), volatile_at: None },
                    false => Op::Store { to: address, from: frag, guard },
                }
            })?;
        }
        Ok(())
    }

    /// A value and its type.
    fn function(&mut self, of: &Expr, values: &[(Val, Elem)], here: &Here<'_>) -> Result<(Val, Type)> {
        let mut inner = |e: &Expr| self.function(e, values, here).map(|(value, ty)| (Box::new(value), ty));
        Ok(match of {
            Expr::In(n) => {
                let (value, elem) = values[usize::from(*n)].clone();
                (value, Type::Elem(elem))
            }
            Expr::Lit(_) => return Err(Problem::internal("a literal without a type")),
            Expr::Scalar(id) => {
                let scalar = &self.program.scalars[*id as usize];
                let index =
                    self.program.args.iter().position(|a| *a == crate::tile::Arg::Scalar(*id)).unwrap_or(0);
                (Val::Param(index as u32), Type::Elem(scalar.elem))
            }
            Expr::Size(size) => (Val::Int(self.value(*size), Elem::I32), Type::Elem(Elem::I32)),
            Expr::Coord(n, mode) => {
                let at = self.coordinate_of(*n, *mode, here)?;
                (Val::Int(at, Elem::I32), Type::Elem(Elem::I32))
            }
            Expr::Index(at) => {
                let at = self.affine(at);
                (Val::Int(at, Elem::I32), Type::Elem(Elem::I32))
            }
            Expr::At(mode) => (Val::Int(self.stands_at(*mode, here)?, Elem::I32), Type::Elem(Elem::I32)),
            Expr::Un(f, x) => {
                let (x, ty) = inner(x)?;
                (Val::Un(*f, x), ty)
            }
            Expr::Bin(f, x, y) => {
                let ((x, ty), (y, _)) = (inner(x)?, inner(y)?);
                (Val::Bin(*f, x, y), ty)
            }
            Expr::Fma(of) => {
                let ((x, ty), (y, _), (z, _)) = (inner(&of[0])?, inner(&of[1])?, inner(&of[2])?);
                (Val::Fma(Box::new([*x, *y, *z])), ty)
            }
            Expr::Cmp(f, x, y) => {
                if let Some(truth) = self.wide_comparison(*f, x, y) {
                    let [truth, none] = [Val::Int(truth, Elem::I32), Val::lit(0, Elem::I32)];
                    return Ok((Val::Cmp(Cmp::Ne, Box::new(truth), Box::new(none)), Type::Condition));
                }
                let mut inner = |e: &Expr| self.function(e, values, here).map(|(value, _)| Box::new(value));
                let (mut x, y) = (inner(x)?, inner(y)?);
                if let (Cmp::Lt, Val::Int(at, _), &Val::Int(end, _)) = (f, &mut *x, &*y) {
                    *at = self.start_of_vector(*at, end);
                }
                (Val::Cmp(*f, x, y), Type::Condition)
            }
            Expr::Pick(of) => {
                let ((condition, _), (x, ty), (y, _)) = (inner(&of[0])?, inner(&of[1])?, inner(&of[2])?);
                (Val::Pick(Box::new([*condition, *x, *y])), ty)
            }
            Expr::Cast(to, x) => {
                let value = match **x {
                    Expr::Lit(number) => Val::Lit(number, *to),
                    Expr::Coord(n, mode) => {
                        let at = self.coordinate_of(n, mode, here)?;
                        self.integer(at, *to)
                    }
                    Expr::At(mode) => {
                        let at = self.stands_at(mode, here)?;
                        self.integer(at, *to)
                    }
                    Expr::Index(ref at) => {
                        let at = self.affine(at);
                        self.integer(at, *to)
                    }
                    Expr::Size(size) => Val::Int(self.value(size), *to),
                    Expr::In(_)
                    | Expr::Scalar(_)
                    | Expr::Un(..)
                    | Expr::Bin(..)
                    | Expr::Fma(_)
                    | Expr::Cmp(..)
                    | Expr::Pick(_)
                    | Expr::Cast(..)
                    | Expr::Bits(..)
                    | Expr::Ptx { .. } => match inner(x)? {
                        (value, Type::Elem(from)) => self.converted(*value, from, *to),
                        // Cast also to `i32`: from here on a negation is arithmetic.
                        (value, Type::Condition) => Val::Cast(*to, value),
                    },
                };
                (value, Type::Elem(*to))
            }
            Expr::Bits(to, x) => (Val::Bits(*to, inner(x)?.0), Type::Elem(*to)),
            Expr::Ptx { text, elem, volatile, args, model } => {
                let args = args.iter().map(|x| Ok(*inner(x)?.0)).collect::<Result<_>>()?;
                let model = model.as_deref().map(inner).transpose()?.map(|(model, _)| model);
                let (text, elem, volatile) = (text.clone(), *elem, *volatile);
                (Val::Ptx { text, elem, volatile, args, model }, Type::Elem(elem))
            }
        })
    }

    /// A comparison of two integers that may not both fit an `i32`.
    fn wide_comparison(&mut self, how: Cmp, x: &Expr, y: &Expr) -> Option<Ix> {
        let [x, y] = Expr::compared(x, y)?.map(|at| self.affine(&at));
        if [x, y].into_iter().all(|at| self.is_narrow(at)) {
            return None;
        }
        Some(match how {
            Cmp::Lt => self.exprs().lt(x, y),
            Cmp::Le => {
                let above = self.exprs().lt(y, x);
                self.exprs().not(above)
            }
            Cmp::Eq => self.exprs().eq(x, y),
            Cmp::Ne => {
                let same = self.exprs().eq(x, y);
                self.exprs().not(same)
            }
        })
    }

    /// Is an integer an `i32`?
    fn is_narrow(&self, at: Ix) -> bool {
        let known = self.kernel.exprs.get(at);
        known.lo >= i64::from(i32::MIN) && known.hi <= i64::from(i32::MAX)
    }

    /// An integer, which is an `i32` among elements, as an element of a type.
    fn integer(&mut self, at: Ix, to: Elem) -> Val {
        match to.is_float() && !self.is_narrow(at) {
            true => self.converted(Val::Int(at, Elem::I32), Elem::I32, to),
            false => Val::Int(at, to),
        }
    }

    /// The coordinate of the current element in a mode of an input's tensor.
    fn coordinate_of(&mut self, input: u8, mode: u8, here: &Here<'_>) -> Result<Ix> {
        let side = here
            .ins
            .get(usize::from(input))
            .ok_or_else(|| Problem::internal("a function reads an input that it does not have"))?;
        let coordinates = self.coordinates(&side.view, &side.leaves, here.at);
        coordinates.get(usize::from(mode)).copied().ok_or_else(|| {
            Problem::internal("a function reads a coordinate along a mode that does not exist")
        })
    }

    /// A condition on scalar arguments as 1 or 0.
    pub(super) fn condition_or_not(&mut self, of: &Expr) -> Result<Val> {
        let types = Types { ins: &[], scalars: &self.program.scalars };
        let (value, ty) = self.function(&types.condition(of)?, &[], &Here::default())?;
        Ok(match ty {
            Type::Condition => value,
            Type::Elem(elem) => Val::Cmp(Cmp::Ne, Box::new(value), Box::new(Val::lit(0, elem))),
        })
    }

    /// The coordinate of the current element along a mode.
    fn stands_at(&mut self, mode: u8, here: &Here<'_>) -> Result<Ix> {
        let of = here
            .stands
            .get(usize::from(mode))
            .and_then(Option::as_ref)
            .ok_or_else(|| Problem::internal("a coordinate that `bounds` has not found"))?;
        let coordinates = match here.to {
            Some(to) => self.modes_at(&to.view, here.at)?,
            None => Vec::new(),
        };
        Ok(self.coordinate_at(of, &coordinates))
    }

    /// A function of scalar values.
    pub(super) fn of_values(&mut self, of: &Expr, values: &[(Val, Elem)]) -> Result<Val> {
        Ok(self.function(of, values, &Here::default())?.0)
    }

    /// A uniform condition, on scalar arguments.
    pub(super) fn uniform(&mut self, of: &Expr) -> Result<Val> {
        let types = Types { ins: &[], scalars: &self.program.scalars };
        self.of_values(&types.condition(of)?, &[])
    }
}

/// The modes of a layout of registers in the order of these. As accumulators are used in the order in which instructions complete
/// them, the next product starts earlier.
fn in_order(layout: &Layout) -> Result<Layout> {
    let mut leaves: Vec<_> = layout.leaves().collect();
    leaves.sort_by_key(|(_, stride)| match stride {
        Value::Basis { times, path } => (path.steps()[0], *times),
        _ => (0, 0),
    });
    let modes = leaves.into_iter().map(|(extent, stride)| Layout::new(extent, stride));
    Ok(Layout::from_modes(modes.collect::<std::result::Result<Vec<_>, _>>()?)?)
}

/// Do offsets ascend from each index to the next?
fn is_ascending(submodes: &[(i64, i64)]) -> bool {
    let mut last = 0;
    submodes.iter().filter(|(extent, _)| *extent > 1).all(|(extent, stride)| {
        let ascends = *stride >= last;
        last += (extent - 1) * stride;
        ascends
    })
}

/// Is it a conjunction of comparisons of ascending coordinates with numbers that all elements share?
fn is_range(cond: &Expr, ascends: &impl Fn(&Expr) -> bool) -> bool {
    match cond {
        Expr::Bin(Bin::And, x, y) => is_range(x, ascends) && is_range(y, ascends),
        Expr::Cmp(Cmp::Lt | Cmp::Le, x, y) => {
            let varies =
                |part: &Expr| matches!(part, Expr::In(_) | Expr::Coord(..) | Expr::At(_) | Expr::Ptx { .. });
            let shared = |of: &Expr| !of.any(&varies);
            ascends(x) && shared(y) || shared(x) && ascends(y)
        }
        _ => false,
    }
}

/// Views of the same shape, refined until all have the same leaves.
pub(super) fn refined(ins: &[View], to: &View) -> Result<(Vec<View>, View)> {
    let mut to = to.clone();
    for view in ins {
        to = align(view, &to)?.to;
    }
    let ins = ins.iter().map(|view| Ok(align(view, &to)?.from)).collect::<Result<_>>()?;
    Ok((ins, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_that_ascend() {
        let cases: [(&[(i64, i64)], bool); 5] = [
            (&[(8, 1), (2, 128)], true),
            (&[(8, 1), (1, 0), (2, 7)], true),
            (&[(4, 128), (2, 1)], false),
            (&[(8, 1), (2, 6)], false),
            (&[(4, -1)], false),
        ];
        for (submodes, expected) in cases {
            assert_eq!(is_ascending(submodes), expected, "{submodes:?}");
        }
    }
}
