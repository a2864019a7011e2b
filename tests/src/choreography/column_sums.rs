//! Sums of columns over several blocks, by atomic updates: of integers, so that every order gives the same
//! result.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::Coord;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Change};
use tilewright_codegen::tile::{Across, Expr, Program};
use tilewright_codegen::view::At;
use tilewright_layout::{Tuple, Value, layout};

use super::{Choreography, matrix};
use crate::problem::{Operand, Values, Wanted};

pub(super) fn choreography() -> Choreography {
    Choreography {
        name: "column_sums",
        program,
        reference,
        values: Values::Any,
        zeroed: &["y"],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            vec![("M", 1 + below(300)), ("N", 1 + below(300))]
        },
        large: &[&[("M", 5000), ("N", 1000)]],
        // The atomic update is RED or REDG, depending on the architecture.
        sass: &["LDG.E"],
    }
}

fn reference(operands: &[Operand], _: Values) -> Vec<Wanted> {
    let Operand::Tensor(x) = &operands[0] else { panic!("a matrix") };
    let [rows, columns] = x.extents[..] else { panic!("a matrix") };
    let total = |column: usize| x.values[column * rows..][..rows].iter().sum::<f64>();
    (0..columns).map(|column| Wanted { value: total(column), within: 0.0 }).collect()
}

fn program() -> Result<Program> {
    let mut b = Builder::new("column_sums");
    let x = matrix(&mut b, "x", Elem::I32, ["M", "N"], false)?;
    let y = b.tensor("y", Elem::I32, Tuple::from(Value::symbol("N")), None, true)?;
    let (row, column) = (At::Index(Coord::Block(1).into()), At::Index(Coord::Block(0).into()));
    let from = b.tile(&x, (32, 128), &[row, column.clone()])?;
    let to = b.tile(&y, (128,), &[column])?;
    // One column per thread: all of its rows.
    let (from, to) = (b.parallelize(&from, &layout!((1, 128)))?, b.parallelize(&to, &layout!(128))?);
    let own = b.registers("own", Elem::I32, from.shape())?;
    b.copy(&from, &own)?;
    let total = b.registers("total", Elem::I32, (1i64, 1i64))?;
    b.fill(&total, Expr::lit(0))?;
    b.reduce(&own, &total, Bin::Add, Across::Thread)?;
    let total = b.regroup(&total, (1i64,))?;
    b.atomic(&total, &to, Change::Add)?;
    Ok(b.finish())
}
