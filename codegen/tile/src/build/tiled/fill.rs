//! Partitioning of a tile copy over threads: along the contiguous mode, with one vector for each thread.

use tilewright_layout::Layout;

use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::tile::How;
use crate::tile::view::{Partition, View};
use crate::values::id::Id;

/// How the copy of a tile of two modes is partitioned over the threads of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Fill {
    /// From the coordinates of a vector in the tile to the thread.
    pub threads: Layout,
    /// The vector width, and how the tile is partitioned.
    pub partition: Partition,
    /// The thread group.
    pub of: Id,
    /// The mechanism.
    pub how: How,
}

impl Fill {
    /// A copy by `threads` threads of a tile that is contiguous along a mode, each with `vector` elements at
    /// once. Neighbouring threads take adjacent vectors, so accesses are coalesced. If threads do not divide
    /// the tile, some have fewer vectors.
    ///
    /// ```
    /// use tilewright_codegen::tiled::Fill;
    /// // rows of 32 halves: four threads with 16 bytes each
    /// assert_eq!(Fill::of([128, 32], 1, 128, 8)?.threads.to_string(), "(32,4):(4,1)");
    /// // columns of 128 halves: 16 threads
    /// assert_eq!(Fill::of([128, 32], 0, 128, 8)?.threads.to_string(), "(16,8):(1,16)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn of(tile: [i64; 2], contiguous: usize, threads: i64, vector: i64) -> Result<Fill> {
        let (run, lines) = (tile[contiguous], tile[1 - contiguous]);
        if vector < 1 || run % vector != 0 {
            return Err(Problem::new(format!(
                "{run} elements side by side cannot be copied {vector} at once"
            ))
            .help(format!(
                "use a tile whose contiguous extent is a multiple of {vector}, or narrower copies"
            )));
        }
        let vectors = run / vector;
        let divides = |fast: &i64| vectors % fast == 0 && threads % fast == 0;
        let along = |fast: &i64| divides(fast) && lines % (threads / fast) == 0;
        let fast = (1..=vectors.min(threads)).rev().find(along);
        let ragged = fast.is_none();
        let fast = fast.or_else(|| (1..=vectors.min(threads)).rev().find(divides)).unwrap_or(1);
        let slow = threads / fast;
        let (threads, values) = match contiguous {
            0 => (Layout::new((fast, slow), (1i64, fast))?, vec![vector, 1]),
            _ => (Layout::new((slow, fast), (fast, 1i64))?, vec![1, vector]),
        };
        // An argument that repeats a row is read beside a result, whose part is limited.
        let partition = Partition { values, ragged, surplus: true, ..Partition::default() };
        Ok(Fill { threads, partition, of: 0, how: How::Derive })
    }

    /// The thread-value layout of one iteration of the copy, over a tile of `rows` rows.
    pub(super) fn tv(&self, rows: i64) -> Result<Layout> {
        let [values, other] = self.partition.values[..] else {
            return Err(Problem::new("a tile has two modes"));
        };
        let size = |mode: usize| self.threads.mode(mode).and_then(|mode| mode.size());
        let order = Layout::new((values, size(0)?, other, size(1)?), (1i64, values, rows, rows * other))?;
        let threads = self.threads.right_inverse()?;
        // From a thread's index to its coordinates, mode by mode; then to the first element of its vector.
        let first = Layout::from_modes([order.mode(1)?, order.mode(3)?])?.composition(threads)?;
        let values = Layout::from_modes([order.mode(0)?, order.mode(2)?])?;
        Ok(Layout::from_modes([first, values])?)
    }
}

impl Builder {
    /// Copies a tile to another of its shape, partitioned over threads as the fill says.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tiled::Fill, view::At};
    /// # use tilewright_layout::{Value, layout};
    /// # let mut b = Builder::new("example");
    /// let x = b.tensor("x", Elem::F32, (Value::symbol("M"), 32), None, false)?;
    /// let tile = b.tile(&x, (64, 32), &[At::Index(Coord::Block(0).into()), At::Index(0.into())])?;
    /// let s = b.shared("s", Elem::F32, layout!((64, 32)))?;
    /// b.fill_tile(&Fill::of([64, 32], 0, 128, 4)?, &tile, &s)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn fill_tile(&mut self, fill: &Fill, from: &View, to: &View) -> Result<()> {
        let part = |b: &mut Builder, view: &View| -> Result<View> {
            let name = format!("t_{}", view.name);
            Ok(b.parallelize_over(view, &fill.threads, fill.of, &fill.partition)?.with_name(&name))
        };
        let (from, to) = (part(self, from)?, part(self, to)?);
        self.copy_how(&from, &to, fill.how, None)
    }
}
