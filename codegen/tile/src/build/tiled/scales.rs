//! Scales of narrow operands in groups along K: converted fragments are multiplied by them, two elements at once.

use crate::isa::atom::OperandName;
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
    pub fn paired(&mut self, scales: &View) -> Result<View> {
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
