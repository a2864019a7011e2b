//! One access of `ldmatrix` to shared memory: which lane is served in which wavefront, by which banks.

use tilewright::layouts::draw::Picture;
use tilewright::layouts::{Composed, LayoutError, Transfer, WarpAccess};

/// The bytes that a lane reads, and the number of such units in a row of all 32 banks.
const UNIT_BYTES: i64 = 16;
const UNITS: i64 = 8;
/// The lanes that shared memory serves together where each reads 16 bytes.
const LANES: i64 = 8;

/// Eight lanes read the first 16 bytes of eight rows of a tile of 16-bit elements.
pub(crate) fn first_units(tile: &str, about: &str) -> Result<Picture, LayoutError> {
    let tile: Composed = tile.parse()?;
    let addresses: Vec<i64> = (0..LANES).map(|row| Ok(tile.at((row, 0))? * 2)).collect::<Result<_, _>>()?;
    let groups: Vec<i64> = addresses.iter().map(|address| address / UNIT_BYTES % UNITS).collect();
    let wavefront =
        |lane: usize| groups[..lane].iter().filter(|group| **group == groups[lane]).count() as i64;
    let active: Vec<Option<i64>> = addresses.iter().copied().map(Some).collect();
    let wavefronts =
        WarpAccess::from_addresses(&active, UNIT_BYTES, Transfer::Load)?.banks()?.wavefronts as i64;
    let served = (0..LANES as usize)
        .map(|lane| (lane as i64, wavefront(lane), wavefront(lane) + groups[lane] * wavefronts));
    let s = if wavefronts == 1 { "" } else { "s" };
    let title = format!("{about}: {wavefronts} wavefront{s}");
    Picture::owned(&title, (wavefronts, UNITS), served)
}
