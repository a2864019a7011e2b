//! The choice of two launches for few, long rows: sums of the pieces of rows, then the results of each piece.

use super::{BETWEEN, BLOCKS, Choice, Matrix, PART, WIDEST, Work};
use crate::Elem;

/// Bytes of rows that the L2 cache still has for the second launch.
const CACHED: usize = 20 << 20;
/// Elements that one launch sums in the time of two.
const SINGLE: usize = 1 << 18;

/// Two launches for few, long rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPieces {
    /// Extents of the tensor of sums.
    pub sums: [usize; 2],
    /// The number of inputs that each kernel takes, as arguments before the sums. The second takes the result and numbers after them.
    pub inputs: [usize; 2],
    /// The kernels.
    pub kernels: [Choice; 2],
}

/// Two launches for the sums, products, cumulative sums, softmax or norm of rows, where they are faster than one.
///
/// ```
/// use tilewright::Elem;
/// use tilewright::kernels::memory::{Work, in_pieces};
/// let two = in_pieces(Work::Softmax, Elem::F32, 2, 1_000_000).unwrap();
/// assert_eq!(two.kernels.map(|choice| choice.kernel), ["piece_maxima", "softmax_of_pieces"]);
/// assert_eq!((two.sums, two.inputs), ([4, 245], [1, 1]));
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
        // Clusters that load two-byte elements a tile ahead need fewer rows to be faster.
        Work::CumulativeSums => {
            let most = if elem.bytes() < 4 && matrix.wide < value { 9 } else { 16 };
            ("piece_sums", "cumulative_sums_of_pieces", PART, most)
        }
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
        // Clusters of one launch keep the device busy where there are more rows.
        Work::RowSums if rows * columns > SINGLE => ("piece_sums", "sums_of_pieces", PART, 48),
        Work::Gemv if rows * columns > SINGLE => {
            let most = match matrix.wide {
                _ if elem.bytes() > 2 => 16,
                8 => 72,
                _ => 33,
            };
            ("piece_products", "sums_of_pieces", PART, most)
        }
        _ => return None,
    };
    if columns <= least || rows >= most {
        return None;
    }
    let (mut constants, piece) = match work {
        Work::CumulativeSums | Work::RowSums => matrix.piece(),
        _ => matrix.piece_of_norm(),
    };
    let pieces = (columns + value - 1).div_ceil(piece);
    let second = match work {
        // Sums have the type f32 for elements of every type.
        Work::RowSums => Choice { elem: Some(Elem::F32), ..matrix.own(second, &[("L", 256)]) },
        Work::Gemv => matrix.own(second, &[("L", 256)]),
        _ => matrix.own(second, &constants),
    };
    // Of the elements themselves, not of differences.
    constants.extend((work == Work::Rmsnorm).then_some(("A", 0)));
    let (each, inputs) = match work {
        Work::RowSums => (1, [1, 0]),
        Work::Gemv => (1, [2, 0]),
        Work::CumulativeSums => (1, [1, 1]),
        Work::Softmax => (2, [1, 1]),
        Work::Rmsnorm => (2, [1, 2]),
        _ => (2, [1, 3]),
    };
    Some(InPieces { sums: [each * rows, pieces], inputs, kernels: [matrix.own(first, &constants), second] })
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

    /// The same for sums.
    fn piece(&self) -> (Vec<(&'static str, usize)>, usize) {
        // Larger tiles where there are enough of them; of longer rows, more tiles for each of 2048 sums.
        let many = if self.work == Work::CumulativeSums && self.elem.bytes() < 4 { 1 << 22 } else { 1 << 24 };
        let (width, threads) = if self.rows * self.columns > many { (8192, 512) } else { (4096, 256) };
        let tiles = self.columns.div_ceil(2048 * width);
        let value = WIDEST / self.elem.bytes() as usize;
        (vec![("W", width), ("L", threads), ("V", value), ("Q", tiles)], width * tiles)
    }
}
