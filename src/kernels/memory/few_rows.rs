//! The choice of two launches for few, long rows: sums of the pieces of rows, then the results of each piece.

use super::{BETWEEN, BLOCKS, Choice, Matrix, PART, PROCESSORS, WIDEST, Work};
use crate::Elem;

/// Bytes of rows that the L2 cache still has for the second launch.
const CACHED: usize = 20 << 20;

/// Two launches for few, long rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPieces {
    /// Extents of the tensor of sums. It is the last argument of the first kernel, after the rows, and precedes the result among the
    /// arguments of the second.
    pub sums: [usize; 2],
    /// The kernels.
    pub kernels: [Choice; 2],
}

/// Two launches for the cumulative sums, softmax or norm of rows, where they are faster than one.
///
/// ```
/// use tilewright::Elem;
/// use tilewright::kernels::memory::{Work, in_pieces};
/// let two = in_pieces(Work::Softmax, Elem::F32, 2, 1_000_000).unwrap();
/// assert_eq!(two.kernels.map(|choice| choice.kernel), ["piece_maxima", "softmax_of_pieces"]);
/// assert_eq!(two.sums, [4, 245]);
/// assert_eq!(in_pieces(Work::Softmax, Elem::F32, 1000, 1000), None);
/// ```
pub fn in_pieces(work: Work, elem: Elem, rows: usize, columns: usize) -> Option<InPieces> {
    let matrix = Matrix::new(work, elem, rows, columns);
    let Matrix { rows, columns, .. } = matrix;
    let value = WIDEST / elem.bytes() as usize;
    // Results that depend on a whole row take longer rows, which no cluster keeps in registers. Weights are read once more for each row.
    // From this many rows on, the cache has not all of them for the second launch.
    let cached = CACHED / (columns * elem.bytes() as usize) + 1;
    let (first, second, least, most) = match work {
        Work::CumulativeSums => ("piece_sums", "cumulative_sums_of_pieces", PART, 16),
        Work::Softmax => ("piece_maxima", "softmax_of_pieces", BLOCKS * BETWEEN, cached.max(16)),
        Work::Layernorm if columns > 2 * BLOCKS * BETWEEN => {
            ("piece_moments", "layernorm_of_pieces", BLOCKS * BETWEEN, 16)
        }
        Work::Layernorm => ("piece_moments", "layernorm_of_pieces", BLOCKS * BETWEEN, 8),
        Work::Rmsnorm if elem.bytes() < 4 => ("piece_moments", "rmsnorm_of_pieces", BLOCKS * BETWEEN, 24),
        Work::Rmsnorm if matrix.wide < value => {
            ("piece_moments", "rmsnorm_of_pieces", BLOCKS * BETWEEN, cached.max(16))
        }
        Work::Rmsnorm => ("piece_moments", "rmsnorm_of_pieces", BLOCKS * BETWEEN, 16),
        _ => return None,
    };
    if columns <= least || rows >= most {
        return None;
    }
    let (constants, piece) = match work {
        Work::CumulativeSums => matrix.piece(),
        _ => matrix.piece_of_norm(),
    };
    let pieces = (columns + value - 1).div_ceil(piece);
    let mut kernels = [first, second].map(|kernel| matrix.own(kernel, &constants));
    let mut each = 2;
    match work {
        Work::CumulativeSums => each = 1,
        // Of the elements themselves.
        Work::Rmsnorm => kernels[0].constants.push(("A", 0)),
        _ => {}
    }
    Some(InPieces { sums: [each * rows, pieces], kernels })
}

impl Matrix {
    /// The constants for pieces whose results depend on all sums of a row, one for each thread, and the elements of a piece.
    fn piece_of_norm(&self) -> (Vec<(&'static str, usize)>, usize) {
        let value = WIDEST / self.elem.bytes() as usize;
        let fits = |(width, threads): &(usize, usize)| self.columns < width * threads + 1 - value;
        let (width, threads) =
            [(4096, 256), (8192, 512), (16384, 1024)].into_iter().find(fits).unwrap_or((32768, 1024));
        (vec![("W", width), ("L", threads), ("V", value)], width)
    }

    /// The same for cumulative sums.
    fn piece(&self) -> (Vec<(&'static str, usize)>, usize) {
        // Large tiles where they leave two for each block that is resident; of longer rows, more tiles for each of 2048 sums.
        let many = self.rows * self.columns >= 2 * 2 * PROCESSORS * 8192;
        let width = if many { 8192 } else { 2048 };
        let tiles = self.columns.div_ceil(2048 * width);
        let value = WIDEST / self.elem.bytes() as usize;
        (vec![("W", width), ("L", 512), ("V", value), ("Q", tiles)], width * tiles)
    }
}
