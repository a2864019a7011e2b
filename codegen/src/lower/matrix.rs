//! Matrices in shared memory as tensor cores read them: descriptors, off the strides of layouts.

use tilewright_layout::{Layout, Value};

use super::Lower;
use super::address::Leaf;
use super::bulk::swizzle_bytes;
use crate::atom::Atom;
use crate::index::Ix;
use crate::problem::{Problem, Result};
use crate::thread::AtomArg;
use crate::view::View;

/// What the hardware calls a swizzle of so many bytes.
const MODES: [(i64, u8); 3] = [(128, 1), (64, 2), (32, 3)];

/// How a matrix lies.
pub(super) struct Matrix {
    /// Bytes from one block of columns to the next, where rows or columns are contiguous.
    leading: i64,
    /// Bytes from eight rows of the pattern to the next eight.
    stride: i64,
    /// The hardware's number of the swizzle.
    mode: u8,
    /// Is it contiguous along M or N, and not along K?
    pub(super) transposed: bool,
}

impl Lower<'_> {
    /// A descriptor of the part of a matrix that begins at these places along its modes.
    pub(super) fn descriptor(&mut self, row: &Atom, view: &View, all: &[Leaf], at: &[Ix]) -> Result<AtomArg> {
        let matrix = self.matrix(row, view)?;
        let at = self.start_of(view, all, at);
        let (leading, stride) = (matrix.leading as u32, matrix.stride as u32);
        Ok(AtomArg::Descriptor { at, leading, stride, mode: matrix.mode })
    }

    /// How a view's matrix, (rows, K), lies: in rows as wide as the swizzle, along K or along its rows.
    pub(super) fn matrix(&self, row: &Atom, view: &View) -> Result<Matrix> {
        let tensor = self.program.tensor(view.tensor);
        let bytes = i64::from(tensor.elem.bytes());
        let refuse = || {
            Problem::new(format!("`{}`, {}, cannot be read by tensor cores", tensor.name, tensor.layout)).help(
                "lay it out in rows of 128 bytes along the depth, swizzled: swizzled(3, 3, 3, row_major((rows, 64)))",
            )
        };
        let swizzle = i64::from(swizzle_bytes(&tensor.layout, tensor.elem.bytes())?);
        let mode = MODES.iter().find(|(wide, _)| *wide == swizzle).ok_or_else(refuse)?.1;
        let parts = |which: usize| -> Option<Vec<(i64, i64)>> {
            let [(_, Value::Basis { times: 1, path })] =
                view.layout.mode(which).ok()?.leaves().collect::<Vec<_>>()[..]
            else {
                return None;
            };
            strides(&tensor.plain().mode(usize::from(path.steps()[0])).ok()?)
        };
        let extent =
            |which: usize| view.layout.mode(which).ok().and_then(|mode| mode.size().ok()).unwrap_or(0);
        let (rows, depth) = (parts(0).ok_or_else(refuse)?, parts(1).ok_or_else(refuse)?);
        let wide = swizzle / bytes;
        match (&rows[..], &depth[..]) {
            // Along K: rows of one swizzle's width.
            (&[(_, apart)], &[(_, 1)]) if apart == wide && extent(1) <= wide => {
                Ok(Matrix { leading: 16, stride: 8 * swizzle, mode, transposed: false })
            }
            // Along rows or columns: blocks of one swizzle's width, each with all of K. 16-bit elements alone.
            (&[(block, 1), ref blocks @ ..], &[(_, apart)])
                if apart == wide && block == wide && blocks.len() <= 1 && row.operand('u').is_some() =>
            {
                let leading = blocks.first().map_or(8 * swizzle, |(_, step)| step * bytes);
                Ok(Matrix { leading, stride: 8 * swizzle, mode, transposed: true })
            }
            _ => Err(refuse()),
        }
    }
}

/// Extents and strides of a mode, those of one element left out; `None` where one is not a number.
fn strides(mode: &Layout) -> Option<Vec<(i64, i64)>> {
    let parts = mode.leaves().map(|(extent, stride)| match (extent, stride) {
        (Value::Int(extent), Value::Int(stride)) => Some((extent, stride)),
        _ => None,
    });
    Some(parts.collect::<Option<Vec<_>>>()?.into_iter().filter(|(extent, _)| *extent > 1).collect())
}
