//! A picture as data: for programs that draw it themselves.

use super::Picture;
use super::axis::Axis;

/// A cell: its label, a second line, and the number of its colour, which an empty cell does not have.
pub type Drawn<'p> = (&'p str, &'p str, Option<u8>);

impl Picture {
    /// The text above it.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The shown rows: the coordinate of each, and the weight of the line above it, which is 0 for none and larger between larger
    /// tiles.
    ///
    /// ```
    /// use tilewright_layout::{draw::Picture, layout};
    /// let picture = Picture::of(layout!((4, (2, 2)) : (2, (1, 8))))?;
    /// assert_eq!(picture.columns().collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 1), (3, 0)]);
    /// let labels: Vec<&str> = picture.cells().take(4).map(|(label, ..)| label).collect();
    /// assert_eq!(labels, ["0", "1", "8", "9"]);
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn rows(&self) -> impl Iterator<Item = (i64, usize)> {
        lines(&self.rows)
    }

    /// The shown columns: the coordinate of each, and the weight of the line left of it.
    pub fn columns(&self) -> impl Iterator<Item = (i64, usize)> {
        lines(&self.columns)
    }

    /// The shown cells, row by row.
    pub fn cells(&self) -> impl Iterator<Item = Drawn<'_>> {
        self.cells.iter().map(|cell| (&*cell.label, &*cell.more, cell.tone))
    }
}

fn lines(axis: &Axis) -> impl Iterator<Item = (i64, usize)> {
    axis.shown.iter().enumerate().map(|(position, at)| (*at, axis.line_before(position)))
}
