//! The guide's pictures are up to date. `cargo xtask snapshots` draws them again; look at them.

use std::path::Path;
use tilewright_layout::draw::Picture;
use tilewright_layout::{Composed, Layout, LayoutError, TiledCopy, Tuple};

fn layout(text: &str) -> Result<Picture, LayoutError> {
    Picture::of(text.parse::<Composed>()?)
}

fn pictures() -> Result<Vec<(&'static str, Picture)>, LayoutError> {
    let matrix: Layout = "(8,4):(1,8)".parse()?;
    let block: Layout = "(2,2):(2,1)".parse()?;
    let accumulator = TiledCopy::from_tv(Tuple::from((16, 8)), "((4,8),(2,2)):((32,1),(16,8))".parse()?)?;
    Ok(vec![
        ("columns", layout("(4,6):(1,4)")?),
        ("rows", layout("(4,6):(6,1)")?),
        ("nested", layout("(4,(2,3)):(2,(1,8))")?),
        ("divided", Picture::of(matrix.logical_divide((4, 2))?)?),
        ("zipped", Picture::of(matrix.zipped_divide((4, 2))?)?),
        ("blocked", Picture::of(block.blocked_product(&"(2,3):(3,1)".parse()?)?)?),
        ("copy", Picture::threads(&TiledCopy::new(&"(4,4):(4,1)".parse()?, &"(1,2):(1,1)".parse()?)?)?),
        ("accumulator", Picture::threads(&accumulator)?),
        ("swizzled", layout("Sw<3,0,3> o 0 o (8,8):(8,1)")?),
    ])
}

#[test]
fn the_pictures_are_those_that_the_crate_draws() {
    let bless = std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pictures");
    for (name, picture) in pictures().unwrap() {
        let (file, svg) = (folder.join(format!("{name}.svg")), picture.svg());
        if bless {
            std::fs::write(&file, &svg).unwrap();
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default().replace("\r\n", "\n");
        assert!(kept == svg, "src/pictures/{name}.svg is stale: run `cargo xtask snapshots`");
    }
}
