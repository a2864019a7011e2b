//! Pictures of layouts: as text here, as SVG into a folder.
//!
//! ```console
//! $ cargo run --example draw
//! $ cargo run --example draw pictures    # writes pictures/*.svg
//! ```

use tilewright::layouts::draw::Picture;
use tilewright::layouts::{Composed, TiledCopy};
use tilewright::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A layout is a function from coordinates to offsets; the table shows the offset of each coordinate.
    let tiled = layout!((8, 8) : (8, 1)).zipped_divide((4, 2))?;
    // A swizzle permutes offsets so that neither rows nor columns have bank conflicts.
    let swizzled: Composed = "Sw<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    // 32 threads copy a 16x8 tile; each copies 4 contiguous elements.
    let copy = TiledCopy::new(&layout!((4, 8)), &layout!((4, 1)))?;

    let pictures = [
        ("tiled", Picture::of(&tiled)?),
        ("swizzled", Picture::of(&swizzled)?),
        ("copy", Picture::threads(&copy)?),
    ];
    let folder = std::env::args().nth(1);
    if let Some(folder) = &folder {
        std::fs::create_dir_all(folder)?;
    }
    for (name, picture) in pictures {
        println!("{}", picture.table());
        if let Some(folder) = &folder {
            std::fs::write(format!("{folder}/{name}.svg"), picture.svg())?;
        }
    }
    Ok(())
}
