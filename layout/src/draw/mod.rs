//! Pictures of layouts: a text table and an SVG of anything with one or two modes.
//!
//! A [`Picture`] is a grid of labelled, coloured cells, made from a layout ([`Picture::of`]) or from a
//! thread-value layout ([`Picture::threads`]). It is drawn as text ([`Picture::table`]) or as SVG
//! ([`Picture::svg`]), byte for byte the same every time. Lines separate the inner tiles of nested modes.
//!
//! ```
//! use tilewright_layout::{draw::Picture, layout};
//! let picture = Picture::of(layout!((4, (2, 3)) : (2, (1, 8))))?;
//! assert_eq!(picture.table(), "\
//! (4,(2,3)):(2,(1,8))
//!       0  1    2  3    4  5
//!    ┌───────┬───────┬──────
//!  0 │  0  1 │  8  9 │ 16 17
//!  1 │  2  3 │ 10 11 │ 18 19
//!  2 │  4  5 │ 12 13 │ 20 21
//!  3 │  6  7 │ 14 15 │ 22 23
//! ");
//! # Ok::<(), tilewright_layout::LayoutError>(())
//! ```

mod axis;
mod grid;
mod svg;
mod table;

use crate::error::{Condition, LayoutError, Result};
use crate::layout::Layout;
use crate::swizzle::Composed;
use crate::tuple::Tuple;
use crate::tv::TiledCopy;
use crate::value::{Path, Value};
use axis::Axis;
pub use grid::Drawn;

/// The number of colours, which repeat as banks do.
const TONES: i64 = 8;

/// Larger tiles would be cut anyway.
const MOST_DRAWN: i64 = 1 << 20;

/// A grid of labelled cells: see the [module](self).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    title: String,
    rows: Axis,
    columns: Axis,
    /// The shown cells, row by row.
    cells: Vec<Cell>,
}

/// One cell.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Cell {
    label: String,
    /// A second line, in an SVG; a second word in a table.
    more: String,
    /// Its colour; `None` for an empty cell.
    tone: Option<u8>,
}

impl Picture {
    /// The offsets of a layout with one or two modes, swizzled or not. For an identity layout they are
    /// coordinates. Cells whose offsets agree modulo 8 have one colour. Long modes are cut in the middle.
    ///
    /// ```
    /// use tilewright_layout::{Composed, draw::Picture};
    /// let swizzled: Composed = "Sw<2,0,2> o 0 o (4,4):(4,1)".parse()?;
    /// assert_eq!(Picture::of(&swizzled)?.table(), "\
    /// Sw<2,0,2> o 0 o (4,4):(4,1)
    ///       0  1  2  3
    ///    ┌────────────
    ///  0 │  0  1  2  3
    ///  1 │  5  4  7  6
    ///  2 │ 10 11  8  9
    ///  3 │ 15 14 13 12
    /// ");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    ///
    /// Three modes and more are refused, and so are symbols:
    ///
    /// ```
    /// use tilewright_layout::{Layout, draw::Picture, layout};
    /// assert!(Picture::of(layout!((2, 2, 2))).is_err());
    /// assert!(Picture::of(layout!((2, 2, 2)).group(1, 3)?).is_ok());
    /// assert!(Picture::of("(M,4):(1,M)".parse::<Layout>()?).is_err());
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn of(layout: impl Into<Composed>) -> Result<Picture> {
        let layout: Composed = layout.into();
        let (rows, columns) = axes(&layout)?;
        let height = rows.extent;
        let cells = grid(&rows, &columns, |row, column| cell(&layout, row + column * height));
        Ok(Picture { title: layout.to_string(), cells: cells.collect::<Result<_>>()?, rows, columns })
    }

    /// A tile with the thread and the value number of each element: `T3 V1`. Cells of one thread have one
    /// colour; an element of several threads shows the first, with `…`.
    ///
    /// ```
    /// use tilewright_layout::{TiledCopy, draw::Picture, layout};
    /// let copy = TiledCopy::new(&layout!((2, 2) : (2, 1)), &layout!((1, 2)))?;
    /// assert_eq!(Picture::threads(&copy)?.table(), "\
    /// ((2,2),2):((4,1),2) into a tile (2,4)
    ///          0     1     2     3
    ///    ┌────────────────────────
    ///  0 │ T0 V0 T0 V1 T1 V0 T1 V1
    ///  1 │ T2 V0 T2 V1 T3 V0 T3 V1
    /// ");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn threads(copy: &TiledCopy) -> Result<Picture> {
        let (tv, threads) = (copy.tv(), copy.threads()?);
        if tv.size()? > MOST_DRAWN {
            return Err(too_many(tv.size()?, tv));
        }
        let pairs = tv.offsets()?.enumerate();
        let pairs = pairs.map(|(pair, slot)| (pair as i64 % threads, pair as i64 / threads, slot));
        Picture::owned(&format!("{tv} into a tile {}", copy.tile()), copy.tile(), pairs)
    }

    /// A tile of this shape with the owner of each element: thread, value, and the index in the tile, column
    /// by column. It is drawn like [`Picture::threads`]; cells without an owner are empty.
    ///
    /// ```
    /// use tilewright_layout::draw::Picture;
    /// let pairs = (0..8).map(|index| (index / 2, index % 2, index));
    /// assert_eq!(Picture::owned("two rows each", (4, 2), pairs)?.table(), "\
    /// two rows each
    ///          0     1
    ///    ┌────────────
    ///  0 │ T0 V0 T2 V0
    ///  1 │ T0 V1 T2 V1
    ///  2 │ T1 V0 T3 V0
    ///  3 │ T1 V1 T3 V1
    /// ");
    /// # Ok::<(), tilewright_layout::LayoutError>(())
    /// ```
    pub fn owned(
        title: &str,
        tile: impl Into<Tuple>,
        pairs: impl IntoIterator<Item = (i64, i64, i64)>,
    ) -> Result<Picture> {
        let tile = Layout::compact(tile.into())?;
        if tile.size()? > MOST_DRAWN {
            return Err(too_many(tile.size()?, &tile));
        }
        let (rows, columns) = axes(&tile.clone().into())?;
        let mut all: Vec<Cell> = vec![Cell::default(); tile.size()? as usize];
        for (thread, value, slot) in pairs {
            // Negative strides and gaps leave the tile; elements outside are not shown.
            let Some(cell) = usize::try_from(slot).ok().and_then(|at| all.get_mut(at)) else {
                continue;
            };
            if cell.tone.is_none() {
                *cell = Cell {
                    label: format!("T{thread}"),
                    more: format!("V{value}"),
                    tone: Some((thread % TONES) as u8),
                };
            } else if !cell.more.ends_with('…') {
                cell.more.push('…');
            }
        }
        let height = rows.extent;
        let cells =
            grid(&rows, &columns, |row, column| all[(row + column * height) as usize].clone()).collect();
        Ok(Picture { title: title.to_owned(), rows, columns, cells })
    }

    /// The cells of one shown row.
    fn row(&self, row: usize) -> &[Cell] {
        let width = self.columns.shown.len();
        &self.cells[row * width..][..width]
    }
}

fn too_many(pairs: i64, layout: &Layout) -> LayoutError {
    let what = "at most 1048576 pairs of thread and value can be drawn";
    LayoutError::new("draw", Condition::BadArgument { what, value: pairs }).with(layout)
}

/// Rows and columns of the picture; a single mode is one row.
fn axes(layout: &Composed) -> Result<(Axis, Axis)> {
    let plain = layout.layout();
    let refuse = |e: LayoutError| e.within("draw", [plain.into()]);
    plain.size().map_err(refuse)?;
    let modes: Vec<_> = plain.modes().map(|mode| mode.shape().ints().unwrap_or_default()).collect();
    let (mut rows, mut columns) = match modes.as_slice() {
        [only] => (Axis::of(&[1]), Axis::of(only)),
        [rows, columns] => (Axis::of(rows), Axis::of(columns)),
        _ => {
            let condition = Condition::DoesNotFit { what: "layout to draw", rank: modes.len(), against: 2 };
            return Err(LayoutError::new("draw", condition).with(plain));
        }
    };
    rows.headed = modes.len() == 2;
    Axis::cut(&mut rows, &mut columns);
    Ok((rows, columns))
}

/// A cell for each shown position.
fn grid<C>(rows: &Axis, columns: &Axis, cell: impl Fn(i64, i64) -> C) -> impl Iterator<Item = C> {
    let mut all = Vec::with_capacity(rows.shown.len() * columns.shown.len());
    for &row in &rows.shown {
        all.extend(columns.shown.iter().map(|&column| cell(row, column)));
    }
    all.into_iter()
}

fn cell(layout: &Composed, index: i64) -> Result<Cell> {
    if let Some(offset) = layout.eval(index) {
        let tone = offset.rem_euclid(TONES) as u8;
        return Ok(Cell { label: offset.to_string(), more: String::new(), tone: Some(tone) });
    }
    coordinate(layout, index).ok_or_else(|| {
        let plain = layout.layout();
        let stuck = plain.leaves().map(|(_, stride)| stride).find(|d| d.int().is_none());
        let condition = match stuck {
            Some(value) => Condition::Symbolic { value },
            None => Condition::Overflow { leaf: None },
        };
        LayoutError::new("draw", condition).with(plain)
    })
}

/// With strides that are basis elements, an offset is a coordinate.
fn coordinate(layout: &Composed, index: i64) -> Option<Cell> {
    let plain = layout.as_layout()?;
    let digits = plain.coordinate(index).ok()?;
    let mut axes: Vec<(Path, i64)> = Vec::new();
    for ((_, stride), along) in plain.leaves().zip(digits.leaves()) {
        let Value::Basis { times, path } = stride else {
            return None;
        };
        let step = times.checked_mul(along.int()?)?;
        match axes.iter_mut().find(|(axis, _)| *axis == path) {
            Some((_, sum)) => *sum = sum.checked_add(step)?,
            None => axes.push((path, step)),
        }
    }
    axes.sort_by_key(|(path, _)| path.steps().to_vec());
    let parts: Vec<String> = axes.iter().map(|(_, at)| at.to_string()).collect();
    let tone = axes.iter().map(|(_, at)| *at).sum::<i64>().rem_euclid(TONES) as u8;
    Some(Cell { label: format!("({})", parts.join(",")), more: String::new(), tone: Some(tone) })
}
