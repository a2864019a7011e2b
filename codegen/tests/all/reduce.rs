//! Reductions across lanes that no text names: submodes of threads, and numbers of lanes that are refused.

use tilewright_codegen::affine::Coord;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::Bin;
use tilewright_codegen::tile::{Across, Expr, Program, Submodes};
use tilewright_codegen::view::At;
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Layout, Value};
use tilewright_sim::{Arg, Options, run_every};

/// `y[i] = the total of x over these threads`, one element for each thread.
fn totals(threads: i64, across: Across) -> Result<Program> {
    let mut b = Builder::new("totals");
    let layout = Layout::compact((threads,))?;
    let mut part = |name: &str, written| {
        let whole = b.tensor(name, Elem::F32, (Value::symbol("N"),), None, written)?;
        let tile = b.tile(&whole, (threads,), &[At::Index(Coord::Block(0).into())])?;
        b.parallelize(&tile, &layout)
    };
    let (x, y) = (part("x", false)?, part("y", true)?);
    let own = b.registers("own", Elem::F32, x.shape())?;
    b.copy(&x, &own)?;
    let total = b.registers("total", Elem::F32, (1i64,))?;
    b.fill(&total, Expr::lit(0.0))?;
    b.reduce(&own, &total, Bin::Add, across)?;
    b.copy(&total, &y)?;
    Ok(b.finish())
}

#[test]
fn submodes_of_threads_combine() {
    const COUNT: usize = 150;
    let x: Vec<f32> = (0..COUNT).map(|at| (at * 7 % 23) as f32 - 9.0).collect();
    for submodes in [
        &[(8i64, 4i64)][..],
        &[(2, 16)],
        &[(2, 1), (2, 8), (4, 32)],
        &[(3, 32)],
        &[(4, 8), (3, 32)],
        &[(96, 1)],
        &[(3, 1)],
        &[(2, 3), (4, 12)],
    ] {
        let across = Across::Submodes(Submodes::new(submodes).unwrap());
        let (extent, step) = submodes[submodes.len() - 1];
        let threads = if 96 % (extent * step) == 0 { 96 } else { 128 };
        if threads % (extent * step) != 0 {
            continue;
        }
        let wanted: Vec<f32> = (0..COUNT)
            .map(|at| {
                let (tile, thread) = (at / threads as usize, at as u32 % threads as u32);
                let others = (0..threads as u32).filter(|&t| across.first(t) == across.first(thread));
                others.filter_map(|t| x.get(tile * threads as usize + t as usize)).sum()
            })
            .collect();
        let kernel = generate(totals(threads, across).unwrap()).kernel.expect("a kernel");
        let args = [Arg::tensor(&x, [COUNT]), Arg::output::<f32>([COUNT])];
        for outcome in run_every(&kernel, &args, &Options::default()).unwrap() {
            assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{submodes:?}");
        }
    }
}

#[test]
fn lanes_that_cannot_combine_are_refused() {
    for (threads, lanes) in [(48, 32), (6, 4), (64, 3), (64, 64)] {
        let program = totals(threads, Across::Warp(lanes)).unwrap();
        let message: String = generate(program).diagnostics.iter().map(|d| d.text()).collect();
        assert!(message.contains("lanes cannot combine their elements"), "{threads} {lanes}: {message}");
    }
}
