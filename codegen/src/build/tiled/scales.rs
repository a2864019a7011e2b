//! Scales of narrow operands in groups along K: converted fragments are multiplied by them, two elements at once.

use crate::thread::atom::OperandName;
use tilewright_layout::{Layout, Value};

use super::TiledMma;
use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::tile::Expr;
use crate::tile::view::{At, View};
use crate::values::operation::Bin;

/// Elements of a register, which are adjacent along K.
const PAIR: i64 = 2;

/// Scales of converted elements of an operand's tile, and zero points that are subtracted before: of the type and the shape
/// of the tile.
#[derive(Clone, Copy, Debug)]
pub struct Scaling<'v> {
    /// The scales.
    pub scales: &'v View,
    /// The zero points, if there are any.
    pub zeros: Option<&'v View>,
}

impl Builder {
    /// The scales of a tile of (rows, K), from scales of (rows, groups): each for the elements of its row in one group along K.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let scales = b.shared("scales", Elem::Bf16, layout!((64, 2)))?;
    /// let of_elements = b.scales_of_groups(&scales, 32)?;
    /// assert_eq!(of_elements.shape().to_string(), "(64,(32,2))"); // of a tile of (64, 64)
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn scales_of_groups(&mut self, scales: &View, group: i64) -> Result<View> {
        let all = scales.broadcast(&[None, Some(group), None])?;
        let along_k = Layout::from_modes([all.layout.mode(1)?, all.layout.mode(2)?])?;
        Ok(all.rearranged(Layout::from_modes([all.layout.mode(0)?, along_k])?))
    }

    /// [`Builder::multiply`] of narrow operands, whose elements are scaled after their conversion. `scales` has the
    /// scales of each operand's tile, or none. A zero point is subtracted first; the difference is exact for integers of
    /// eight bits. A scaled element is rounded to the type of the instruction.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tiled::{Scaling, TiledMma}};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [64, 64], 4)?;
    /// let sa = b.shared("sa", Elem::Bf16, layout!((64, 64) : (72, 1)))?;
    /// let sb = b.shared("sb", Elem::U8, layout!((64, 64) : (80, 1)))?;
    /// let scales = b.shared("scales", Elem::Bf16, layout!((64, 2)))?;
    /// let zeros = b.shared("zeros", Elem::Bf16, layout!((64, 2)))?;
    /// let (scales, zeros) = (b.scales_of_groups(&scales, 32)?, b.scales_of_groups(&zeros, 32)?);
    /// let acc = b.accumulators("acc", &mma, [64, 64])?;
    /// let scaling = Scaling { scales: &scales, zeros: Some(&zeros) };
    /// b.multiply_scaled(&mma, [&sa, &sb], &acc, [None, Some(scaling)])?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn multiply_scaled(
        &mut self,
        mma: &TiledMma,
        [a, b]: [&View; 2],
        acc: &View,
        scales: [Option<Scaling>; 2],
    ) -> Result<()> {
        self.multiply_operands(mma, [a, b], acc, super::Terms::One, scales)
    }

    /// Subtracts their zero points from converted elements in registers, if they have any, and multiplies them by their
    /// scales.
    pub(super) fn scale(&mut self, fragment: &View, Scaling { scales, zeros }: Scaling) -> Result<()> {
        let both = |op| Expr::Bin(op, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
        if let Some(zeros) = zeros {
            let zeros = self.paired(zeros)?;
            self.map(&[fragment.clone(), zeros], fragment, both(Bin::Sub))?;
        }
        let scales = self.paired(scales)?;
        self.map(&[fragment.clone(), scales], fragment, both(Bin::Mul))
    }

    /// A thread's scales in registers, each once for both elements of a register, which one scale has.
    pub(crate) fn paired(&mut self, scales: &View) -> Result<View> {
        let first = scales.layout.leaves().next();
        if first != Some((Value::Int(PAIR), Value::Int(0))) {
            return Err(Problem::new(format!(
                "`{}` has different scales for elements of one register, adjacent along K",
                scales.name
            ))
            .help("use groups of at least 16 along K"));
        }
        let loaded = self.load_part(scales)?;
        let single = loaded.rearranged(loaded.layout.filter());
        let count = single.layout.size()?;
        let single = single.regroup((count,))?.broadcast(&[Some(PAIR), None])?;
        let name = format!("{}_pairs", scales.name);
        let pairs = self.registers_in(&name, self.elem(scales), (PAIR, count).into(), true)?;
        self.copy(&single, &pairs)?;
        // The first leaf, which a scale repeats, moves through its pair.
        let mut moves = pairs.layout.leaves().next().map(|leaf| leaf.1);
        let modes = loaded.layout.modes().map(|mode| {
            let leaf = |(extent, stride)| Layout::new(extent, moves.take().unwrap_or(stride));
            Layout::from_modes(mode.leaves().map(leaf).collect::<std::result::Result<Vec<_>, _>>()?)
        });
        let like = Layout::from_modes(modes.collect::<std::result::Result<Vec<_>, _>>()?)?;
        pairs.regroup((PAIR * count,))?.repeated(&like)
    }
}

impl TiledMma {
    /// The scales of a thread's elements of an operand's tile, as (values, fragments, k-steps).
    pub(super) fn scales_of(&self, scales: &View, operand: OperandName) -> Result<View> {
        let wide = TiledMma { pairs: None, ..self.clone() };
        let part = wide.part(scales, operand)?;
        Ok(wide.lane(&part, wide.tile_of(operand).0, &wide.tv(operand)?)?.with_name(&scales.name))
    }
}

/// The scales of one k-step.
pub(super) fn of_step(b: &mut Builder, scales: &View, kk: &crate::values::affine::Affine) -> Result<View> {
    let at = b.slice(scales, &[At::All, At::All, At::Index(kk.clone())])?;
    Ok(at.rearranged(Layout::from_modes(at.layout.modes().chain([Layout::new(1i64, 0i64)?]))?))
}
