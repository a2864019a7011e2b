//! Matrices in shared memory as tensor cores read them: the fields of their descriptors, derived from strides of layouts.

use tilewright_layout::{Layout, Value};

use crate::isa::atom::{Atom, OperandName};
use crate::source::problem::{Problem, Result};
use crate::tile::Program;
use crate::tile::boxes::swizzle_bytes;
use crate::tile::view::View;

/// A swizzle's width in bytes and its encoding in descriptors.
const MODES: [(i64, u8); 3] = [(128, 1), (64, 2), (32, 3)];

/// The layout of a matrix in terms of descriptors.
pub struct Matrix {
    /// Leading dimension byte offset: from one block to the next, if M or N is contiguous.
    pub leading: i64,
    /// Stride byte offset: from eight rows of the pattern to the next eight.
    pub stride: i64,
    /// The encoding of the swizzle.
    pub mode: u8,
    /// Is it contiguous along M or N (MN-major), and not along K (K-major)?
    pub transposed: bool,
}

impl Matrix {
    /// The descriptor fields of a view's matrix, (rows, K): K-major or MN-major, in rows as wide as the
    /// swizzle.
    pub fn of(program: &Program, row: &Atom, view: &View) -> Result<Matrix> {
        let tensor = program.tensor(view.tensor);
        let refuse = || {
            Problem::new(format!("`{}`, {}, cannot be read by tensor cores", tensor.name, tensor.layout)).help(
                "lay it out in rows of 128 bytes along K, swizzled: swizzled(3, 3, 3, row_major((rows, 64)))",
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
        let (rows, k) = (parts(0).ok_or_else(refuse)?, parts(1).ok_or_else(refuse)?);
        let wide = tensor.elem.elements_in(swizzle);
        match (&rows[..], &k[..]) {
            // K-major: rows of one swizzle's width, in blocks along K.
            (&[(_, apart)], &[(run, 1), ref blocks @ ..])
                if apart == wide && (run == wide || blocks.is_empty() && run < wide) && blocks.len() <= 1 =>
            {
                Ok(Matrix { leading: 16, stride: 8 * swizzle, mode, transposed: false })
            }
            // MN-major: blocks of one swizzle's width, each with all of K. Only for 16-bit elements.
            (&[(block, 1), ref blocks @ ..], &[(_, apart)])
                if apart == wide
                    && block == wide
                    && blocks.len() <= 1
                    && row.operand(OperandName::TransposeB).is_some() =>
            {
                let leading = blocks.first().map_or(8 * swizzle, |(_, step)| tensor.elem.bytes_of(*step));
                Ok(Matrix { leading, stride: 8 * swizzle, mode, transposed: true })
            }
            _ => Err(refuse()),
        }
    }
}

/// Extents and strides of a mode, without extents of 1; `None` if one is symbolic.
fn strides(mode: &Layout) -> Option<Vec<(i64, i64)>> {
    let parts = mode.leaves().map(|(extent, stride)| match (extent, stride) {
        (Value::Int(extent), Value::Int(stride)) => Some((extent, stride)),
        _ => None,
    });
    Some(parts.collect::<Option<Vec<_>>>()?.into_iter().filter(|(extent, _)| *extent > 1).collect())
}
