//! Two views that a statement reads and writes element by element: both are refined until their leaves agree.

use tilewright_layout::Layout;

use crate::source::problem::{Problem, Result, count};
use crate::tile::view::View;

/// Two views whose leaves have the same extents.
pub struct Pair {
    /// The view that is read.
    pub from: View,
    /// The view that is written.
    pub to: View,
}

/// The views of a scan.
pub struct Scanned<'a> {
    /// The sources, one for each entry of the tuples.
    pub from: &'a [View],
    /// The prefixes of each.
    pub to: &'a [View],
    /// The accumulated tuple before the first element, and after the last; empty without a carry.
    pub carry: &'a [View],
}

/// Refines both views until their leaves agree.
pub fn align(from: &View, to: &View) -> Result<Pair> {
    if from.rank() != to.rank() {
        return Err(other_rank(from, to));
    }
    let (mut from_modes, mut to_modes) = (Vec::new(), Vec::new());
    for (mode, (f, t)) in from.layout.modes().zip(to.layout.modes()).enumerate() {
        let (fs, ts) = (f.size()?, t.size()?);
        if fs != ts {
            return Err(other_extent(mode, [from, to]).help(
                "both sides must have the same extents; check the tiles and thread layouts that made them",
            ));
        }
        if f.shape() == t.shape() {
            from_modes.push(f);
            to_modes.push(t);
            continue;
        }
        let f = f.composition(Layout::compact(t.shape())?)?;
        let t = t.composition(Layout::compact(f.shape())?)?;
        let f = f.composition(Layout::compact(t.shape())?)?;
        from_modes.push(f);
        to_modes.push(t);
    }
    Ok(Pair {
        from: from.rearranged(Layout::from_modes(from_modes)?),
        to: to.rearranged(Layout::from_modes(to_modes)?),
    })
}

/// Do these have one shape, with modes of extent 1 broadcast? Extents that are known at launch alone are not compared.
pub fn joint(of: &[View]) -> Result<()> {
    let Some(first) = of.first() else { return Ok(()) };
    if let Some(other) = of.iter().find(|view| view.rank() != first.rank()) {
        return Err(other_rank(first, other));
    }
    for mode in 0..first.rank() {
        let extent = |view: &View| view.layout.mode(mode).ok().and_then(|mode| mode.size().ok());
        let mut wide = of.iter().filter(|view| extent(view).is_some_and(|extent| extent != 1));
        let Some(one) = wide.next() else { continue };
        if let Some(other) = wide.find(|view| extent(view) != extent(one)) {
            return Err(other_extent(mode, [one, other])
                .help("extents are equal, or 1, which is broadcast; check the tiles and thread layouts that made them"));
        }
    }
    Ok(())
}

/// Views with different numbers of modes.
fn other_rank(from: &View, to: &View) -> Problem {
    Problem::new(format!(
            "`{}` has the shape {} and `{}` has {}: {} against {}",
            from.name,
            from.shape(),
            to.name,
            to.shape(),
            count(from.rank(), "mode"),
            to.rank()
        ))
        .help(match (from.rank(), to.rank()) {
            (1, 2) | (2, 1) => {
                "write .along(0) after the vector for a column of the matrix, .along(1) for a row, or slice the matrix"
            }
            _ => "slice one of them, so that both have the same modes",
        })
}

/// Views whose extents of a mode differ.
fn other_extent(mode: usize, [one, other]: [&View; 2]) -> Problem {
    let size = |view: &View| view.layout.mode(mode).ok().and_then(|mode| mode.size().ok());
    let has = |view: &View| size(view).map_or("other".into(), |size| size.to_string());
    Problem::new(format!(
        "mode {mode} has {} in `{}`, {}, and {} in `{}`, {}",
        size(one).map_or("other elements".into(), |size| count(size, "element")),
        one.name,
        one.shape(),
        has(other),
        other.name,
        other.shape()
    ))
}
