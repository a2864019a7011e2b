//! A transpose with asynchronous copies tracked by tokens: two tiles are in flight while one is stored.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::Unroll;
use tilewright_codegen::tile::{How, Program};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_layout::{Composed, Swizzle, Value, layout};

use super::{Choreography, last, matrix, sum, tiles_of};
use crate::problem::{Operand, Values, Wanted};

const TILE: i64 = 32;
const SLOTS: i64 = 3;

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "tokens",
        program,
        reference,
        values: Values::Any,
        zeroed: &[],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            vec![("M", 1 + below(100)), ("N", 1 + below(260))]
        },
        large: &[&[("M", 2000), ("N", 3000)], &[("M", 1024), ("N", 512)]],
        sass: &["LDGSTS", "LDGDEPBAR"],
    }
}

fn reference(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let Operand::Tensor(x) = &operands[0] else { panic!("a matrix") };
    let [rows, columns] = x.extents[..] else { panic!("a matrix") };
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| row + column * rows));
    places.map(|at| Wanted { value: x.values[at], within: 0.0 }).collect()
}

fn program() -> Result<Program> {
    let mut b = Builder::new("tokens");
    let x = matrix(&mut b, "x", Elem::F32, ["M", "N"], false)?;
    let y = matrix(&mut b, "y", Elem::F32, ["N", "M"], true)?;
    // Swizzled, so that neither rows nor columns have bank conflicts.
    let slots = layout!((32, 32, 3) : (32, 1, 1024));
    let s = b.shared("s", Elem::F32, Composed::new(Swizzle::new(3, 2, 5)?, 0, slots))?;
    let block = || At::Index(Coord::Block(0).into());
    let rows = b.tile(&x, (TILE, TILE), &[block(), At::All])?;
    let columns = b.tile(&y, (TILE, TILE), &[At::All, block()])?;
    let threads = layout!((32, 8) : (8, 1));
    let four = Partition { values: vec![1, 4], ..Partition::default() };
    let (from, to) =
        (b.parallelize_over(&rows, &threads, 0, &four)?, b.parallelize_over(&s, &threads, 0, &four)?);
    let transposed = b.permute(&s, &[1, 0, 2])?;
    let (columns_of_s, out) = (
        b.parallelize_over(&transposed, &threads, 0, &four)?,
        b.parallelize_over(&columns, &threads, 0, &four)?,
    );
    let token = b.token();
    let slot = |step: &Affine| step.submode(1, Some(SLOTS));
    let fetch = |b: &mut Builder, step: &Affine| -> Result<()> {
        let (from, to) = (last(b, &from, step)?, last(b, &to, &slot(step))?);
        b.copy_how(&from, &to, How::Derive, Some(token))
    };
    let part = |b: &mut Builder, view: &View, step: &Affine| last(b, view, &slot(step));
    fetch(&mut b, &0.into())?;
    fetch(&mut b, &1.into())?;
    b.repeat("k", tiles_of(Value::symbol("N"), TILE), Unroll::No, |b, step| -> Result<()> {
        // Waits for this step's copy; one younger copy may stay in flight.
        b.wait(token, 1);
        b.sync();
        fetch(b, &sum(step.clone(), &2.into()))?;
        let source = part(b, &columns_of_s, &step)?;
        let index = [At::All, At::All, At::Index(step), At::Index(0.into())];
        let out = b.slice(&out, &index[..out.rank()])?;
        b.copy(&source, &out)
    })?;
    Ok(b.finish())
}
