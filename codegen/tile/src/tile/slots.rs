//! Layouts of tiles with a slot for each stage.

use tilewright_layout::{Composed, Layout};

use crate::source::problem::Result;

/// A shared layout with a last mode for its slots. A slot is a multiple of the swizzle's period, and aligned
/// for wide accesses.
///
/// ```
/// use tilewright_tile::tile::slots::with_slots;
/// use tilewright_layout::layout;
/// let tile = layout!((128, 8) : (1, 129));
/// assert_eq!(with_slots(&tile.into(), 3)?.to_string(), "(128,8,3):(1,129,1032)");
/// # Ok::<(), tilewright_program::problem::Problem>(())
/// ```
pub fn with_slots(tile: &Composed, stages: i64) -> Result<Composed> {
    slots_apart(tile, stages, 4)
}

/// The same with slots that begin at multiples of `least` elements.
pub fn slots_apart(tile: &Composed, stages: i64, least: i64) -> Result<Composed> {
    let swizzle = tile.swizzle();
    let block = (1i64 << (swizzle.base() + swizzle.bits() + swizzle.shift().unsigned_abs())).max(least);
    let apart = (tile.cosize()? + block - 1) / block * block;
    Ok(tile.map(|layout| {
        let slot = Layout::new(stages, apart)?;
        Layout::from_modes(layout.modes().chain([slot]))
    })?)
}

/// A layout with slots, with another number of them.
pub fn of_slots(layout: &Composed, stages: i64) -> Result<Composed> {
    Ok(layout.map(|layout| {
        let mut modes: Vec<Layout> = layout.modes().collect();
        let apart = modes.pop().map(|slot| slot.stride());
        let slots = apart.map(|apart| Layout::new(stages, apart)).transpose()?;
        Layout::from_modes(modes.into_iter().chain(slots))
    })?)
}
