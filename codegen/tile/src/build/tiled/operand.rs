//! How an operand's fragments are loaded from shared memory: by ldmatrix, plain or transposed, where rows of
//! 16 bytes are contiguous, else by each thread's own loads.

use std::fmt;

use tilewright_layout::{Layout, Tuple, Value};

use super::{Scaling, TiledMma, scales};
use crate::build::Builder;
use crate::isa;
use crate::isa::atom::{Atom, OperandName};
use crate::source::problem::{Problem, Result};
use crate::tile::view::{At, View};
use crate::tile::{How, Space};
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::narrow::Int4;

/// Bytes of a row of a matrix that ldmatrix moves.
const ROW: i64 = 16;
/// Bytes of the elements in which the table describes ldmatrix.
const HALF: i64 = 2;
/// Bytes of a matrix of eight rows.
const MATRIX: i64 = 8 * ROW;

/// The scales of a thread's elements of an operand, and their zero points.
pub(super) struct OfElements {
    scales: View,
    zeros: Option<View>,
}

/// How fragments are loaded. `Display` says it in words, with the reason where it is not ldmatrix.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Route {
    /// By a row of the table that moves matrices.
    Matrices {
        /// ldmatrix, of the most matrices that it can move.
        mover: &'static Atom,
        /// How many adjacent fragments it moves at once.
        at_once: i64,
    },
    /// They are in registers, for every k-step.
    Registers,
    /// Each thread loads its own elements.
    Elements {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Route::Matrices { mover, .. } => f.write_str(mover.name),
            Route::Registers => f.write_str("in registers"),
            Route::Elements { why } => write!(f, "element by element: {why}"),
        }
    }
}

/// The elements that one ldmatrix moves, as thread-value layouts over a tile of the operand.
pub(super) struct Matrices {
    pub(super) mover: &'static Atom,
    pub(super) at_once: i64,
    /// The tile, of `at_once` adjacent fragments.
    pub(super) tile: [i64; 2],
    /// The elements in the row whose address a lane provides.
    pub(super) rows: Layout,
}

impl Matrices {
    /// For rows along mode `along` of the operand's tile, where a warp has `count` adjacent fragments.
    pub(super) fn of(
        mma: &TiledMma,
        operand: OperandName,
        elem: Elem,
        along: usize,
        count: i64,
    ) -> Result<Option<Matrices>> {
        Matrices::by(mma, operand, elem, along, count, None)
    }

    /// The same for one instruction, or for the one that moves the most.
    fn by(
        mma: &TiledMma,
        operand: OperandName,
        elem: Elem,
        along: usize,
        count: i64,
        name: Option<&str>,
    ) -> Result<Option<Matrices>> {
        let ([extent, k], bytes) = (mma.tile_of(operand).0, i64::from(elem.bytes()));
        let matrices = elem.bytes_of(extent * k) / MATRIX;
        // Elements that are converted would move into registers of other lanes.
        let own = mma.row.operand(operand).is_some_and(|of| of.elem.bits() == elem.bits());
        let transposed = along == 0;
        // A register has 4 bytes of one row; transposed, of elements of two bytes.
        if !own || bytes > 4 || (transposed && bytes != HALF) || matrices == 0 {
            return Ok(None);
        }
        let most = 4 / matrices;
        for at_once in (1..=most).rev().filter(|at_once| count % at_once == 0) {
            let mover = isa::ldmatrix(matrices * at_once, transposed);
            let Some(mover) = mover.filter(|row| name.is_none_or(|name| row.name == name)) else { continue };
            let tile = [at_once * extent, k];
            // Adjacent fragments are consecutive in registers.
            let wide = Layout::new((extent, k), (1i64, tile[0]))?.composition(mma.tv(operand)?)?;
            let more = Layout::new(at_once, extent)?;
            let values = Layout::from_modes(wide.mode(1)?.modes().chain([more]))?;
            let fragments = Layout::from_modes([wide.mode(0)?, values])?;
            // Registers of the mover are registers of the fragment, so its tile maps onto the operand's.
            let of = |name: OperandName| mover.tv(name).ok_or_else(|| Problem::new("no such operand"));
            let (moved, given) = (recast(&of(OperandName::D)?, bytes)?, recast(&of(OperandName::A)?, bytes)?);
            let rows = fragments.composition(moved.right_inverse()?)?.composition(given)?;
            let step = if transposed { 1 } else { tile[0] };
            let offsets: Vec<i64> = rows.mode(1)?.offsets()?.collect();
            if (0..).zip(&offsets).all(|(n, &at)| at == offsets[0] + n * step) {
                return Ok(Some(Matrices { mover, at_once, tile, rows }));
            }
        }
        Ok(None)
    }
}

/// Converts a thread-value layout of 2-byte elements to wider or narrower elements.
fn recast(tv: &Layout, bytes: i64) -> Result<Layout> {
    Ok(match bytes {
        1 => tv.downcast(HALF)?,
        _ => tv.upcast(bytes / HALF)?.0,
    })
}

/// An operand of a tiled product: its fragments, and how they are loaded.
pub(super) struct Operand {
    /// The name of the tile.
    pub(super) name: String,
    /// The element type of the instruction; fragments of other types are converted.
    pub(super) multiplied: Elem,
    /// Registers of one k-step, (values, fragments, 1), or of all.
    fragment: View,
    /// k-steps of the tile.
    pub(super) steps: i64,
    /// The 4-bit type where each element packs two numbers.
    pub(super) pairs: Option<Int4>,
    /// The elements that a thread reads, or the rows whose addresses it provides: (values, parts, k-steps).
    from: View,
    route: Route,
    /// Scales and zero points of converted elements: (values, fragments, k-steps).
    scales: Option<OfElements>,
}

impl Operand {
    /// Multiplies the converted fragments of a k-step by their scales, if they have any.
    pub(super) fn scale(&self, b: &mut Builder, fragment: &View, kk: &Affine) -> Result<()> {
        let Some(OfElements { scales, zeros }) = &self.scales else { return Ok(()) };
        let zeros = zeros.as_ref().map(|zeros| scales::of_step(b, zeros, kk)).transpose()?;
        let scales = scales::of_step(b, scales, kk)?;
        b.scale(fragment, Scaling { scales: &scales, zeros: zeros.as_ref() })
    }

    /// The number of fragments.
    pub(super) fn count(&self) -> Result<i64> {
        Ok(self.fragment.layout.mode(1)?.size()?)
    }

    /// The fragments of a k-step, which have been loaded.
    pub(super) fn fragment_at(&self, b: &mut Builder, kk: &Affine) -> Result<View> {
        match self.route {
            Route::Registers => {
                let at = b.slice(&self.fragment, &[At::All, At::All, At::Index(kk.clone())])?;
                Ok(at.rearranged(Layout::from_modes(at.layout.modes().chain([Layout::new(1i64, 0i64)?]))?))
            }
            _ => Ok(self.fragment.clone()),
        }
    }

    /// Loads the fragments of a k-step.
    pub(super) fn load(&self, b: &mut Builder, kk: &Affine) -> Result<()> {
        if self.route == Route::Registers {
            return Ok(());
        }
        let from = b.slice(&self.from, &[At::All, At::All, At::Index(kk.clone())])?;
        match &self.route {
            Route::Matrices { mover, at_once } => {
                let to = b.slice(&self.fragment, &[At::All, At::All, At::Index(0.into())])?;
                b.copy_how(&from, &grouped(&to, *at_once)?, How::Atom(mover), None)
            }
            Route::Registers | Route::Elements { .. } => {
                let to = b.slice(&self.fragment, &[At::All, At::All, At::Index(0.into())])?;
                b.copy_how(&from, &to, How::Plain, None)
            }
        }
    }
}

/// A fragment whose instructions are taken several at once: (values of several, groups, others).
pub(super) fn grouped(fragment: &View, at_once: i64) -> Result<View> {
    let parts = fragment.layout.mode(1)?.logical_divide(at_once)?;
    let values = Layout::from_modes([fragment.layout.mode(0)?, parts.mode(0)?])?;
    let rest = fragment.layout.modes().skip(2);
    Ok(fragment.rearranged(Layout::from_modes([values, parts.mode(1)?].into_iter().chain(rest))?))
}

/// Why ldmatrix does not read rows along a mode.
struct Unfit {
    reason: String,
    /// Is the reason a stride that padding would change?
    stride: bool,
}

impl Builder {
    /// The rows of a tile in shared memory whose addresses a thread gives to an instruction that loads
    /// fragments of an operand (`a` or `b`): (row, instructions, k-steps). The fragment is a
    /// [`Builder::fragment`] of [`Builder::partition_operand`], as [`Builder::retile`] views it.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, isa, build::Builder, tile::How, tiled::TiledMma};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::new("mma_m16n8k16_f16", &layout!((2, 2)))?;
    /// let sb = b.shared("sb", Elem::F16, layout!((64, 32) : (40, 1)))?;
    /// let part = b.partition_operand(&mma, OperandName::B, &sb)?;
    /// let fragment = b.fragment("fb", Elem::F16, &part)?;
    /// let rows = b.partition_operand_rows(&mma, OperandName::B, &sb, "ldmatrix_x4")?;
    /// let to = b.retile(&fragment, &rows)?; // two fragments at once
    /// assert_eq!((fragment.shape().to_string(), to.shape().to_string()), ("(4,4,2)".into(), "((4,2),2,2)".into()));
    /// b.copy_how(&rows, &to, How::Atom(isa::named("ldmatrix_x4")?), None)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn partition_operand_rows(
        &mut self,
        mma: &TiledMma,
        operand: OperandName,
        view: &View,
        mover: &str,
    ) -> Result<View> {
        self.occupy(mma.of, mma.threads()?, view)?;
        let part = mma.part(view, operand)?;
        let count = part.extents().map_or(0, |extents| extents[0]) / mma.tile_of(operand).0[0];
        for along in [1, 0] {
            if self.rows_along(view, along).is_err() {
                continue;
            }
            let by = Matrices::by(mma, operand, self.elem(view), along, count, Some(mover))?;
            if let Some(matrices) = by {
                let rows = mma.lane(&part, matrices.tile, &matrices.rows)?;
                return Ok(rows.with_name(&format!("{}_rows", view.name)));
            }
        }
        let message =
            format!("`{mover}` does not load operand `{operand}` of `{}` from `{}`", mma.row.name, view.name);
        Err(Problem::new(message).help(match self.routed(mma, operand, view, count)?.0 {
            Route::Matrices { mover, .. } => format!("take {}", mover.name),
            other => format!("copy it {other}"),
        }))
    }

    /// A fragment as the instruction that loads it takes it: as many values at once as it moves to a thread.
    /// See [`Builder::partition_operand_rows`].
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, build::Builder, tiled::TiledMma};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::new("mma_m16n8k16_f16", &layout!((2, 2)))?;
    /// let sb = b.shared("sb", Elem::F16, layout!((64, 32) : (40, 1)))?;
    /// let part = b.partition_operand(&mma, OperandName::B, &sb)?;
    /// let fragment = b.fragment("fb", Elem::F16, &part)?;
    /// let rows = b.partition_operand_rows(&mma, OperandName::B, &sb, "ldmatrix_x2")?;
    /// assert_eq!(b.retile(&fragment, &rows)?.shape().to_string(), "((4,1),4,2)"); // one at a time
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn retile(&self, fragment: &View, rows: &View) -> Result<View> {
        let count = |view: &View| view.layout.mode(1).and_then(|mode| mode.size());
        match (count(fragment), count(rows)) {
            (Ok(fragments), Ok(parts)) if parts > 0 && fragments % parts == 0 => {
                grouped(fragment, fragments / parts)
            }
            _ => Err(Problem::new(format!(
                "`{}`, {}, does not have a number of instructions for each of `{}`, {}",
                fragment.name,
                fragment.shape(),
                rows.name,
                rows.shape()
            ))
            .help("take the fragment and the rows of one operand")),
        }
    }

    /// The route, and the elements that one ldmatrix moves.
    fn routed(
        &self,
        mma: &TiledMma,
        operand: OperandName,
        view: &View,
        count: i64,
    ) -> Result<(Route, Option<Matrices>)> {
        let elem = self.elem(view);
        if let Some(of) = mma.row.operand(operand).map(|of| of.elem).filter(|of| of.bits() != elem.bits()) {
            let why = format!("elements of {elem} are converted to {of}, which has another width");
            return Ok((Route::Elements { why }, None));
        }
        let mut why = String::new();
        for along in [1, 0] {
            match self.rows_along(view, along) {
                Err(Unfit { reason, stride }) if along == 1 || why.is_empty() || stride => why = reason,
                Err(Unfit { .. }) => {}
                Ok(()) => match Matrices::of(mma, operand, elem, along, count)? {
                    Some(matrices) => {
                        let Matrices { mover, at_once, .. } = matrices;
                        return Ok((Route::Matrices { mover, at_once }, Some(matrices)));
                    }
                    None if along == 0 && elem.bits() < 64 => {
                        why = format!(
                            "ldmatrix transposes elements of 2 bytes, and {elem} has {}",
                            elem.bytes()
                        );
                        break;
                    }
                    None => {
                        why = format!(
                            "ldmatrix moves registers of 4 bytes, and elements of {elem} have {}",
                            elem.bytes()
                        );
                        break;
                    }
                },
            }
        }
        Ok((Route::Elements { why }, None))
    }

    /// Are rows of 16 aligned bytes contiguous along this mode of a tile in shared memory? Otherwise, why
    /// not.
    fn rows_along(&self, view: &View, along: usize) -> std::result::Result<(), Unfit> {
        let tensor = self.program().tensor(view.tensor);
        let (name, wanted) = (&tensor.name, tensor.elem.elements_in(ROW));
        let reason = |what: String| format!("ldmatrix reads rows of 16 aligned bytes, and {what}");
        let unfit = |what: String| Err(Unfit { reason: reason(what), stride: false });
        let mode_of = |mode: usize| match view.layout.mode(mode).ok()?.leaves().next()? {
            (_, Value::Basis { times: 1, path }) => Some(usize::from(path.steps()[0])),
            _ => None,
        };
        let Some(mode) = mode_of(along) else {
            return unfit(format!("contiguous elements of `{name}` are not contiguous in `{}`", view.name));
        };
        let plain = tensor.plain();
        for (at, of) in plain.modes().enumerate() {
            for (leaf, (extent, stride)) in of.leaves().enumerate() {
                let first = at == mode && leaf == 0;
                let (n, step) = (extent.factor(), stride.factor());
                if n == 1 {
                    continue;
                }
                if first && step != 1 {
                    return unfit(format!("elements of `{name}` are not contiguous along mode {at}"));
                }
                if first && n % wanted != 0 {
                    return unfit(format!(
                        "mode {at} of `{name}` has {n} elements, which is no multiple of {wanted}"
                    ));
                }
                if !first && step % wanted != 0 {
                    let what = format!(
                        "mode {at} of `{name}` has the stride {step}, which is no multiple of {wanted}"
                    );
                    return Err(Unfit { reason: reason(what), stride: true });
                }
            }
        }
        let swizzle = tensor.layout.swizzle();
        if !swizzle.is_identity() && 1 << swizzle.base() < wanted {
            return unfit(format!("{swizzle} of `{name}` moves parts of them"));
        }
        let base = &view.base[mode];
        if base.constant % wanted != 0 || base.terms.iter().any(|(_, by)| by % wanted != 0) {
            return unfit(format!("`{}` does not begin at a multiple of {wanted} elements", view.name));
        }
        Ok(())
    }

    /// The fragments of an operand, for a tile in shared memory.
    pub(super) fn operand_of(
        &mut self,
        mma: &TiledMma,
        operand: OperandName,
        view: &View,
        scales: Option<Scaling>,
    ) -> Result<Operand> {
        let elem = self.elem(view);
        let multiplied = mma.row.operand(operand).map_or(elem, |operand| operand.elem);
        let scales =
            scales.map(|scales| self.scales_for(mma, operand, view, multiplied, scales)).transpose()?;
        if !converts(elem, multiplied) {
            return Err(Problem::internal(format!("`{}` is a product of {elem}", mma.row.name)));
        }
        let name = view.name.clone();
        if let (Space::Registers { .. }, Some([_, _, steps])) = (self.space(view), view.extents().as_deref())
        {
            let (fragment, from) = (view.clone(), view.clone());
            let route = Route::Registers;
            return Ok(Operand {
                name,
                multiplied,
                fragment,
                steps: *steps,
                pairs: None,
                from,
                route,
                scales,
            });
        }
        if !matches!(self.space(view), Space::Shared { .. }) {
            return Err(Problem::new(format!("`{}` is not in shared memory", view.name))
                .help("copy it to a shared tile first"));
        }
        let (tile, part) = (mma.tile_of(operand).0, mma.part(view, operand)?);
        let elements = mma.lane(&part, tile, &mma.tv(operand)?)?;
        let extents =
            elements.extents().ok_or_else(|| Problem::new("a fragment needs a tile of known size"))?;
        let (count, steps) = (extents[1], extents[2]);
        let shape = Tuple::flat(&[extents[0], count, 1]);
        let fragment = self.registers_in(&format!("{name}_frag"), elem, shape, elem.bits() < 32)?;
        let (route, matrices) = self.routed(mma, operand, view, count)?;
        let from = match &matrices {
            None => elements,
            Some(matrices) => {
                mma.lane(&part, matrices.tile, &matrices.rows)?.with_name(&format!("{}_rows", view.name))
            }
        };
        let pairs = mma.pairs_of(operand);
        Ok(Operand { name, multiplied, fragment, steps, pairs, from, route, scales })
    }

    /// The scales and the zero points of an operand's fragments. Only converted fragments have them.
    fn scales_for(
        &self,
        mma: &TiledMma,
        operand: OperandName,
        view: &View,
        multiplied: Elem,
        Scaling { scales, zeros }: Scaling,
    ) -> Result<OfElements> {
        if self.elem(view) == multiplied {
            return Err(Problem::new(format!(
                "`{}` holds {multiplied}, which are multiplied as they are, and `{}` are scales of narrower elements",
                view.name, scales.name
            ))
            .help("scale its elements before they are copied to shared memory"));
        }
        let checked = |of_elements: &View| {
            let of = self.elem(of_elements);
            if of != multiplied {
                return Err(Problem::new(format!(
                    "`{}` holds {of}, and elements of `{}` are scaled as {multiplied}",
                    of_elements.name, view.name
                ))
                .help(format!("use scales of {multiplied}")));
            }
            mma.scales_of(of_elements, operand)
        };
        Ok(OfElements { scales: checked(scales)?, zeros: zeros.map(checked).transpose()? })
    }
}

/// Are elements of a tile multiplied by an instruction of this type? Elements of another type are converted in
/// registers: f32 is rounded to tf32, and 8-bit numbers become f16 or bf16, which represent all of them.
pub fn converts(elem: Elem, multiplied: Elem) -> bool {
    let widened = elem.bits() == 8 && matches!(multiplied, Elem::F16 | Elem::Bf16);
    elem == multiplied || (elem, multiplied) == (Elem::F32, Elem::Tf32) || widened
}

/// The thread-value layout with its longest contiguous run of values first, and that run's length, for a tile
/// that is contiguous along a mode.
pub(super) fn run_first(tv: &Layout, step: i64) -> Result<(Layout, i64)> {
    let leaves: Vec<Layout> =
        tv.mode(1)?.leaves().map(|(n, d)| Layout::new(n, d)).collect::<std::result::Result<_, _>>()?;
    let is_run = |leaf: &Layout| leaf.leaves().any(|(n, d)| n.factor() > 1 && d == Value::Int(step));
    let run = leaves.iter().position(is_run);
    let count = run.map_or(Ok(1), |at| leaves[at].size())?;
    let mut order: Vec<usize> = (0..leaves.len()).collect();
    order.sort_by_key(|at| Some(*at) != run);
    let values = Layout::from_modes(order.into_iter().map(|at| leaves[at].clone()))?;
    Ok((Layout::from_modes([tv.mode(0)?, values])?, count))
}

/// A layout over tiles of this shape as one over a larger tile.
pub(super) fn within(tv: &Layout, tile: [i64; 2], rows: i64) -> Result<Layout> {
    Ok(Layout::new((tile[0], tile[1]), (1i64, rows))?.composition(tv)?)
}
