//! Pictures, as text and as SVG, byte for byte. Bless with `cargo xtask snapshots`, and look at the new SVGs.

use tilewright_layout::draw::Picture;
use tilewright_layout::{Composed, Layout, TiledCopy};

#[track_caller]
fn check(name: &str, picture: &Picture) {
    insta::assert_snapshot!(format!("{name}_table"), picture.table());
    insta::assert_snapshot!(format!("{name}_svg"), picture.svg());
}

#[track_caller]
fn layout(name: &str, text: &str) {
    check(name, &Picture::of(text.parse::<Composed>().unwrap()).unwrap());
}

#[test]
fn layouts() {
    layout("row", "12:3");
    layout("nested", "((2,2),(2,(2,3))):((1,4),(2,(8,16)))");
    layout("swizzled", "Sw<2,0,2> o 0 o (4,4):(4,1)");
    layout("negative", "(4,3):(-1,4)");
    layout("coordinates", "(3,(2,2)):(1@0,(1@0@1,1@1@1))");
    layout("cut", "(8192,2):(1,8192)");
}

#[test]
fn threads() {
    let tile = |shape: &str, tv: &str| {
        let shape: tilewright_layout::Tuple = shape.parse().unwrap();
        Picture::threads(&TiledCopy::from_tv(shape, tv.parse().unwrap()).unwrap()).unwrap()
    };
    check("mma_accumulator", &tile("(16,8)", "((4,8),(2,2)):((32,1),(16,8))"));
    check("shared_by_two", &tile("(4,2)", "((2,4),2):((0,1),4)"));
    check("half_of_a_tile", &tile("(4,4)", "(4,2):(1,4)"));
}

#[track_caller]
fn refused(text: &str, because: &str) {
    let error = Picture::of(text.parse::<Layout>().unwrap()).unwrap_err();
    assert_eq!(error.line(), because);
}

#[test]
fn what_cannot_be_drawn() {
    refused("(2,2,2):(1,2,4)", "draw: the layout to draw has 3 modes, where 2 are expected");
    refused("(M,4):(1,M)", "draw: `M` is not known until launch, and the result depends on it");
    refused("(4,4):(1,lda)", "draw: `lda` is not known until launch, and the result depends on it");
}

#[test]
fn huge_layouts_are_cut_not_walked() {
    let huge = Picture::of("(1048576,1048576):(1,1048576)".parse::<Layout>().unwrap()).unwrap();
    assert!(huge.table().lines().count() < 40);
}
