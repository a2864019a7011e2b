//! Several exchanges between the blocks of a cluster in each iteration: of all threads, of values that all threads of a block
//! have without a barrier in between, of narrow elements, under a condition that is the same in all blocks.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::condition::Test;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Unroll};
use tilewright_codegen::tile::{Across, Expr, Program, Raster};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_layout::{Layout, Value};

use super::{Choreography, last, matrix, sum, tiles_of, times};
use crate::problem::{Operand, Values, Wanted};

const CLUSTER: i64 = 4;
/// Rows whose sum is added twice.
const TWICE: i64 = 2;

pub(super) fn of_blocks() -> Choreography {
    Choreography { name: "exchanges", program: program::<128>, ..of_warps() }
}

/// Each block is a warp, whose threads need no barrier to combine what they have.
pub(super) fn of_warps() -> Choreography {
    Choreography {
        name: "exchanges_of_warps",
        program: program::<32>,
        reference,
        values: Values::Whole,
        zeroed: &[],
        sizes: |random| {
            let mut below = |n: u32| (random.word() % n) as usize;
            vec![("M", 1 + below(7)), ("N", 1 + below(3000))]
        },
        large: &[&[("M", 3000), ("N", 2000)], &[("M", 700), ("N", 4096)], &[("M", 3), ("N", 1)]],
        sass: &["STAS", "UCGABAR_ARV"],
    }
}

fn program<const THREADS: i64>() -> Result<Program> {
    let mut b = Builder::new("exchanges");
    b.arch(90).cluster([CLUSTER as u32, 1, 1]).persistent();
    let x = matrix(&mut b, "x", Elem::F32, ["M", "N"], false)?;
    let y = matrix(&mut b, "y", Elem::F32, ["M", "N"], true)?;
    let (threads, part) = (Layout::compact((1, THREADS))?, 4 * THREADS);
    let four = Partition { values: vec![1, 4], ..Partition::default() };
    let rank = Affine::from(Coord::ClusterRank);
    let steps = tiles_of(Value::symbol("N"), CLUSTER * part);
    b.tiles(&[("row", Value::symbol("M"))], Raster::Plain, |b, at| -> Result<()> {
        let mut parts = |view: &View| -> Result<View> {
            let row = b.tile(view, (1, part), &[At::Index(at[0].clone()), At::All])?;
            b.parallelize_over(&row, &threads, 0, &four)
        };
        let (from, to) = (parts(&x)?, parts(&y)?);
        let first = last(b, &from, &0.into())?;
        let own = b.registers("own", Elem::F32, first.shape())?;
        let index = |step: &Affine| sum(times(step, CLUSTER), &rank);
        let one = |b: &mut Builder, name: &str, elem| b.registers(name, elem, (1i64, 1i64));
        let total = one(b, "total", Elem::F32)?;
        b.fill(&total, Expr::lit(0.0))?;
        b.repeat("j", steps, Unroll::No, |b, step| -> Result<()> {
            let from = last(b, &from, &index(&step))?;
            b.copy_filled(&from, &own, 0.0)?;
            b.reduce(&own, &total, Bin::Add, Across::Thread)
        })?;
        let blocks = Across::Blocks(CLUSTER as u32);
        let whole = b.registers_like("whole", &total, 0.0)?;
        b.reduce(&total, &whole, Bin::Add, Across::Cluster(CLUSTER as u32))?;
        let here = b.registers_like("here", &total, 0.0)?;
        b.reduce(&total, &here, Bin::Add, Across::Block)?;
        let all = b.registers_like("all", &total, 0.0)?;
        b.reduce(&here, &all, Bin::Add, blocks)?;
        let (half, top) = (one(b, "half", Elem::F16)?, one(b, "top", Elem::F16)?);
        let add = |x, y| Expr::Bin(Bin::Add, Box::new(x), Box::new(y));
        b.map(&[here], &half, Expr::In(0).cast(Elem::F16))?;
        // Only exchanges, so that no other statement keeps threads together.
        b.repeat("i", 3, Unroll::No, |b, _| -> Result<()> {
            b.fill(&top, Expr::lit(0.0))?;
            b.reduce(&half, &top, Bin::Add, blocks)?;
            b.map(&[all.clone(), top.clone()], &all, add(Expr::In(0), Expr::In(1).cast(Elem::F32)))
        })?;
        let again = b.registers_like("again", &total, 0.0)?;
        let some = Test::Less(at[0].clone(), TWICE.into());
        let twice = |b: &mut Builder| b.reduce(&total, &again, Bin::Add, Across::Cluster(CLUSTER as u32));
        b.branch(some, twice, |_| Ok(()))?;
        b.repeat("j", steps, Unroll::No, |b, step| -> Result<()> {
            let (from, to) = (last(b, &from, &index(&step))?, last(b, &to, &index(&step))?);
            b.copy(&from, &own)?;
            let made = (1..4).map(Expr::In).fold(Expr::In(0), add);
            b.map(&[&own, &whole, &all, &again].map(View::clone), &own, made)?;
            b.copy(&own, &to)
        })
    })?;
    Ok(b.finish())
}

/// x + 5 Σ x, and Σ x once more in the first rows.
fn reference(all: &[Operand], _: Values) -> Vec<Wanted> {
    let [Operand::Tensor(x), ..] = all else { panic!("a tensor comes first") };
    let [rows, columns] = x.extents[..] else { panic!("a matrix") };
    let of_row = |row: usize| {
        let times = if (row as i64) < TWICE { 6.0 } else { 5.0 };
        times * (0..columns).map(|column| x.values[row + column * rows]).sum::<f64>()
    };
    let added: Vec<f64> = (0..rows).map(of_row).collect();
    (0..x.count()).map(|at| Wanted { value: x.values[at] + added[at % rows], within: 0.0 }).collect()
}
