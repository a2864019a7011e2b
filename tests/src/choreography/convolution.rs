//! A 3x3 convolution as an implicit product: for each filter tap, the shifted pixels of a tile, gathered by
//! coordinates; pixels out of bounds are 0.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::Unroll;
use tilewright_codegen::tile::{Order, Program};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_layout::{Tuple, Value, layout};

use super::{Choreography, last, sum, tiles_of};
use crate::problem::{Operand, Values, Wanted};

/// Pixels along a row, output channels, input channels per iteration.
const PIXELS: i64 = 32;
const FILTERS: i64 = 32;
const CHANNELS: i64 = 8;

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "convolution",
        program,
        reference,
        values: Values::Whole,
        zeroed: &[],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            vec![("W", 1 + below(50)), ("H", 1 + below(5)), ("C", 1 + below(20)), ("F", 1 + below(50))]
        },
        large: &[&[("W", 100), ("H", 60), ("C", 40), ("F", 70)]],
        sass: &["FFMA"],
    }
}

fn reference(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let [Operand::Tensor(x), Operand::Tensor(f), Operand::Tensor(y)] = operands else {
        panic!("three tensors")
    };
    let [width, height, filters] = y.extents[..] else { panic!("an image") };
    let channels = x.extents[2];
    let pixel = |w: i64, h: i64, c: usize| {
        let inside = (0..width as i64).contains(&w) && (0..height as i64).contains(&h);
        if inside { x.values[w as usize + width * (h as usize + height * c)] } else { 0.0 }
    };
    let mut wanted = Vec::new();
    for k in 0..filters {
        for h in 0..height as i64 {
            for w in 0..width as i64 {
                let mut value = 0.0;
                for c in 0..channels {
                    for (r, s) in (0..3).flat_map(|r| (0..3).map(move |s| (r, s))) {
                        let at = k + filters * (c + channels * (s + 3 * r));
                        value += pixel(w + s as i64 - 1, h + r as i64 - 1, c) * f.values[at];
                    }
                }
                wanted.push(Wanted { value, within: 0.0 });
            }
        }
    }
    wanted
}

/// The view shifted along a mode of its tensor.
fn moved(view: &View, mode: usize, by: &Affine) -> View {
    let mut view = view.clone();
    view.base[mode] = sum(view.base[mode].clone(), by);
    view
}

fn program() -> Result<Program> {
    let mut b = Builder::new("convolution");
    let tuple = |of: &[Value]| Tuple::of(of.iter().map(|&extent| Tuple::from(extent)));
    let [w, h, c, f] = ["W", "H", "C", "F"].map(Value::symbol);
    let x = b.tensor("x", Elem::F32, tuple(&[w, h, c]), None, false)?;
    let filter = b.tensor("f", Elem::F32, tuple(&[f, c, Value::Int(9)]), None, false)?;
    let y = b.tensor("y", Elem::F32, tuple(&[w, h, f]), None, true)?;
    let [bx, by, bz] = [0, 1, 2].map(|axis| At::Index(Coord::Block(axis).into()));
    let pixels = b.tile(&x, (PIXELS, 1, CHANNELS), &[bx.clone(), by.clone(), At::All])?;
    let filters = b.tile(&filter, (FILTERS, CHANNELS, 1), &[bz.clone(), At::All, At::All])?;
    let out = b.tile(&y, (PIXELS, 1, FILTERS), &[bx, by, bz])?;
    let out = b.slice(&out, &[At::All, At::Index(0.into()), At::All])?;
    let (sx, sf) =
        (b.shared("sx", Elem::F32, layout!((32, 8)))?, b.shared("sf", Elem::F32, layout!((32, 8)))?);
    let (copies, sums) = (layout!((32, 2)), layout!((8, 8)));
    let keep = |rows: bool| Partition { keep: Some(vec![rows, !rows]), ..Partition::default() };
    let (to_x, to_f) = (b.parallelize(&sx, &copies)?, b.parallelize(&sf, &copies)?);
    let (own_x, own_f) =
        (b.parallelize_over(&sx, &sums, 0, &keep(true))?, b.parallelize_over(&sf, &sums, 0, &keep(false))?);
    let out = b.parallelize(&out, &sums)?;
    let acc = b.registers_like("acc", &out, 0.0)?;
    b.repeat("c", tiles_of(c, CHANNELS), Unroll::No, |b, chunk| -> Result<()> {
        b.repeat("p", Value::Int(9), Unroll::No, |b, index| -> Result<()> {
            // The filter tap is 3 r + s: coordinates follow from it.
            let (r, s) = (index.submode(3, None), index.submode(1, Some(3)));
            let pixels = last(b, &pixels, &chunk)?;
            let pixels = b.slice(&pixels, &[At::All, At::Index(0.into()), At::All])?;
            let beside = moved(&moved(&pixels, 0, &sum(s, &(-1).into())), 1, &sum(r, &(-1).into()));
            let from_x = b.parallelize(&beside, &copies)?;
            let filters = last(b, &filters, &index)?;
            let filters = last(b, &filters, &chunk)?;
            let filters = b.slice(&filters, &[At::All, At::All, At::Index(0.into())])?;
            let from_f = b.parallelize(&filters, &copies)?;
            b.copy(&from_x, &to_x)?;
            b.copy(&from_f, &to_f)?;
            b.wait(None, 0);
            b.sync();
            b.gemm(&own_x, &own_f, &acc, Order::Plain)?;
            b.sync();
            Ok(())
        })
    })?;
    b.copy(&acc, &out)?;
    Ok(b.finish())
}
