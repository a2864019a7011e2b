//! One axis of a picture: the coordinates that are shown, and the borders of tiles.

/// Axes up to this length are never cut.
const SHORT: i64 = 64;
/// Longer axes are always cut.
const LONG: i64 = 128;
/// With more cells, every axis that is not short is cut.
const MANY: i64 = SHORT * SHORT;
/// Coordinates shown at either end of a cut axis: enough to see the pattern.
const END: i64 = 16;

/// Rows or columns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Axis {
    /// Its extent.
    pub(super) extent: i64,
    /// The shown coordinates, in order.
    pub(super) shown: Vec<i64>,
    /// The position among them after which some are omitted.
    pub(super) gap: Option<usize>,
    /// Sizes of the inner tiles, innermost first.
    tiles: Vec<i64>,
    /// Are its coordinates printed beside it?
    pub(super) headed: bool,
}

impl Axis {
    /// The axis of a mode with these leaves.
    pub(super) fn of(leaves: &[i64]) -> Axis {
        let (mut extent, mut tiles) = (1i64, Vec::new());
        for leaf in leaves {
            if extent > 1 && *leaf > 1 {
                tiles.push(extent);
            }
            extent = extent.saturating_mul(*leaf);
        }
        Axis { extent, shown: Vec::new(), gap: None, tiles, headed: true }
    }

    /// Decides which coordinates are shown: all, or both ends of a long axis.
    pub(super) fn cut(rows: &mut Axis, columns: &mut Axis) {
        let all = rows.extent.saturating_mul(columns.extent);
        let most = if all > MANY { SHORT } else { LONG };
        for axis in [rows, columns] {
            let extent = axis.extent;
            if extent <= most {
                axis.shown = (0..extent).collect();
            } else {
                axis.gap = Some(END as usize);
                axis.shown = (0..END).chain(extent - END..extent).collect();
            }
        }
    }

    /// The weight of the line before a shown position: 0 for none, 1 for the innermost tiles, and so on.
    pub(super) fn line_before(&self, position: usize) -> usize {
        let at = self.shown[position];
        if position == 0 || self.gap == Some(position) {
            return 0;
        }
        self.tiles.iter().filter(|tile| at % **tile == 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_axes_are_cut_in_the_middle() {
        let (mut rows, mut columns) = (Axis::of(&[8192]), Axis::of(&[8]));
        Axis::cut(&mut rows, &mut columns);
        assert_eq!((rows.shown.len(), columns.shown.len()), (32, 8));
        assert_eq!((rows.gap, columns.gap), (Some(16), None));
        assert_eq!((rows.shown[15], rows.shown[16]), (15, 8176));

        let (mut rows, mut columns) = (Axis::of(&[128]), Axis::of(&[8]));
        Axis::cut(&mut rows, &mut columns);
        assert_eq!((rows.shown.len(), rows.gap), (128, None));
    }

    #[test]
    fn lines_stand_between_tiles() {
        let (mut rows, mut columns) = (Axis::of(&[2, 1, 3, 2]), Axis::of(&[1]));
        Axis::cut(&mut rows, &mut columns);
        let lines: Vec<usize> = (0..12).map(|position| rows.line_before(position)).collect();
        assert_eq!(lines, [0, 0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0]);
    }
}
