//! Programs that no text has, and fragments of instructions.

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::atom::{Atom, OperandName};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::tile::{Expr, How, Op, Program};
use tilewright_codegen::view::{At, View};
use tilewright_codegen::{Elem, generate, isa};
use tilewright_layout::{Layout, Tuple, Value, layout};

fn row(name: &str) -> Result<&'static Atom> {
    isa::named(name)
}

/// A matrix argument with contiguous rows.
fn matrix(b: &mut Builder, name: &str, elem: Elem, extents: [&str; 2], mutable: bool) -> Result<View> {
    let shape = Tuple::of(extents.map(|extent| Tuple::from(Value::symbol(extent))));
    let stride = Tuple::of([Value::symbol(&format!("ld{name}")).into(), Tuple::from(1)]);
    b.tensor(name, elem, shape, Some(stride), mutable)
}

/// Slices the last mode.
fn last(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
}

/// The regrouped accumulator fragment has the layout of the A operand fragment: the same thread owns the same
/// row and column at the same position.
#[test]
fn accumulators_are_a_operands_without_moves() {
    let (d, a) = (row("wgmma_m64n128k16_bf16").unwrap(), row("wgmma_m64n128k16_ra_bf16").unwrap());
    let (sums, left) = (d.tv(OperandName::D).unwrap(), a.tv(OperandName::A).unwrap());
    let at = |layout: &Layout, thread: i64, value: i64| layout.at((thread, value)).unwrap().int().unwrap();
    for thread in 0..128 {
        for value in 0..64 {
            let (row, column) = {
                let at = at(&sums, thread, value);
                (at % 64, at / 64)
            };
            // (8, 1, 8): eight values of each k-step of 16
            let (within, step) = (value % 8, value / 8);
            let at = at(&left, thread, within);
            assert_eq!((at % 64, at / 64 + 16 * step), (row, column), "thread {thread}, value {value}");
        }
    }
}

/// A write to a tile whose out-of-bounds rows are clamped.
fn fill_a_clamped_tile() -> Result<Program> {
    let mut b = Builder::new("fill_a_clamped_tile");
    let x = b.tensor("x", Elem::F32, Tuple::from(Value::symbol("M")), None, true)?;
    let tile = b.tile(&x, 128, &[At::Index(Coord::Block(0).into())])?.clamped(0);
    let mine = b.parallelize(&tile, &layout!(128))?;
    b.fill(&mine, Expr::lit(1.0))?;
    Ok(b.finish())
}

#[test]
fn clamped_views_are_only_read() {
    let outcome = generate(fill_a_clamped_tile().unwrap());
    let message: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    assert_eq!(
        (outcome.kernel.is_none(), &*message.join("\n")),
        (
            true,
            "`x` is written here, and its out-of-bounds coordinates along mode 0 are clamped, so the last element would be written several times\nhelp: clamp only views that are read; writes skip out-of-bounds elements anyway"
        )
    );
}

/// No text has such tiles.
#[test]
fn tiles_of_unknown_shape_are_not_filled_ahead() -> Result<()> {
    let mut b = Builder::new("ahead");
    let a = matrix(&mut b, "a", Elem::F32, ["M", "K"], false)?;
    let c = matrix(&mut b, "c", Elem::F32, ["M", "K"], true)?;
    let mut part = |view: &View| {
        let tile = b.tile(view, (16, 4), &[At::Index(Coord::Block(0).into()), At::All])?;
        b.parallelize(&tile, &layout!((8, 4)))
    };
    let (from, out) = (part(&a)?, part(&c)?);
    let s = b.shared("s", Elem::F32, layout!((16, 4) : (1, 20)))?;
    let s = b.parallelize(&s, &layout!((8, 4)))?;
    b.pipelined("k", Value::symbol("K").ceil_div(4).unwrap(), 3, |b, k| -> Result<()> {
        let (from, out) = (last(b, &from, &k)?, last(b, &out, &k)?);
        let mut to = s.clone();
        to.layout = Layout::from_modes([Layout::new(Value::symbol("M"), 1i64)?, Layout::new(4i64, 20i64)?])?;
        b.statement(Op::Copy { from, to, how: How::Staged, fill: 0.0.into(), token: None });
        b.copy(&s, &out)
    })?;
    let outcome = generate(b.finish());
    let message: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    assert_eq!(
        message.join("\n"),
        "`s` is filled through registers, and its shape (M,4) is known at launch only\nhelp: use a tile whose extents are integers"
    );
    Ok(())
}
