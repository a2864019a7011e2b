//! The figures of the chapters by the names of their files.

use tilewright::layouts::draw::Picture;
use tilewright::layouts::{Composed, Distribution, Layout, LayoutError, TiledCopy, Tuple};
use tilewright::program::isa::{self, atom::OperandName};

use crate::{banks, slots};

/// The name of a file without its extension, and its SVG.
pub type Figure = (&'static str, String);

/// All figures that are drawn without a browser.
pub fn figures() -> Result<Vec<Figure>, Box<dyn std::error::Error>> {
    let drawn = [
        ("tiled", layout("((4,2),(4,2)):((1,32),(4,16))")?),
        ("rest", Picture::of(Layout::compact(24)?.logical_divide("4:2".parse::<Layout>()?)?)?),
        ("cyclic", partition("cyclic", &[1, 1])?),
        ("vectors", partition("values = (1, 2)", &[1, 2])?),
        ("rows_of_128", banks::first_units("(8,64):(64,1)", "rows of 128 bytes")?),
        ("rows_of_144", banks::first_units("(8,64):(72,1)", "rows of 144 bytes")?),
        (
            "rows_swizzled",
            banks::first_units("Sw<3,3,3> o 0 o (8,64):(64,1)", "Sw<3,3,3>, rows of 128 bytes")?,
        ),
        ("warp_tiles", layout("((8,2),(4,4)):((1,32),(8,64))")?),
        ("fragment_a", fragment(OperandName::A, (16, 16))?),
        ("fragment_b", fragment(OperandName::B, (8, 16))?),
        ("fragment_c", fragment(OperandName::D, (16, 8))?),
        ("butterfly", butterfly()?),
        ("causal", causal()?),
    ];
    let slots = [("pipeline", slots::of_pipeline()?), ("ring", slots::of_ring()?)];
    Ok(drawn.map(|(name, picture)| (name, picture.svg())).into_iter().chain(slots).collect())
}

fn layout(text: &str) -> Result<Picture, LayoutError> {
    Picture::of(text.parse::<Composed>()?)
}

/// A tile of 8x8 elements over 4x4 threads, consecutive threads along a row.
fn partition(about: &str, values: &[i64]) -> Result<Picture, LayoutError> {
    let parts = Distribution::of_threads(&[8, 8], &"(4,4):(4,1)".parse()?, values)?;
    let pairs = (0..parts.threads()).flat_map(|thread| (0..parts.values()).map(move |value| (thread, value)));
    let elements = pairs.map(|(thread, value)| {
        let coordinate = parts.coordinate(thread, value);
        (thread, value, coordinate[0] + 8 * coordinate[1])
    });
    Picture::owned(&format!("threads (4,4):(4,1), {about}"), (8, 8), elements)
}

/// A fragment of `mma.m16n8k16`.
fn fragment(operand: OperandName, tile: (i64, i64)) -> Result<Picture, Box<dyn std::error::Error>> {
    let instruction = isa::find("mma_m16n8k16_bf16").ok_or("no such instruction")?;
    let tv = instruction.tv(operand).ok_or("the operand has no thread-value layout")?;
    Ok(Picture::threads(&TiledCopy::from_tv(Tuple::from(tile), tv)?)?)
}

/// The partners of eight lanes in the three steps of a sum.
fn butterfly() -> Result<Picture, LayoutError> {
    let partners = (0..3).flat_map(|step| (0..8).map(move |lane| (lane ^ 1 << step, step, step + 3 * lane)));
    Picture::owned("rows: steps; columns: lanes; T: the partner", (3, 8), partners)
}

/// The tiles of keys that blocks of queries read under a causal mask: 8 blocks of 64 queries, tiles of 32 keys.
fn causal() -> Result<Picture, LayoutError> {
    let seen = |block: i64| (0..2 * (block + 1)).map(move |tile| (block, tile, block + 8 * tile));
    Picture::owned("rows: blocks of queries; columns: tiles of keys", (8, 16), (0..8).flat_map(seen))
}
