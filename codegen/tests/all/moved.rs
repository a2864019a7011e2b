//! Statements that write the tile that they read, at other coordinates: all elements are read before any is written.

use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::Bin;
use tilewright_codegen::tile::{Expr, Program};
use tilewright_codegen::view::{At, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::layout;
use tilewright_sim::{Arg, Options, run_every};

/// Rows and columns of a thread, and threads.
const N: usize = 4;
const T: usize = 32;

#[derive(Clone, Copy, Debug)]
enum Memory {
    Global,
    Shared,
}

/// The elements that are read for the element (i, j).
#[derive(Clone, Copy, Debug)]
enum Source {
    /// (j, i)
    Permuted,
    /// (i + 0, j + 1), or 0 out of bounds
    Shifted(i64, i64),
    /// (0, j) of a row
    Row(usize),
    /// (i, 0) of a column
    Column(usize),
    Element(usize, usize),
}

impl Source {
    fn view(self, b: &mut Builder, all: &View) -> Result<View> {
        let tile = |b: &mut Builder, [m, n]: [i64; 2], [i, j]: [usize; 2]| {
            let at = [i, j, 0].map(|at| At::Index((at as i64).into()));
            b.tile(all, (m, n, T as i64), &at)
        };
        let n = N as i64;
        match self {
            Source::Permuted => b.permute(all, &[1, 0, 2]),
            Source::Shifted(i, j) => b.shift(all, &[i.into(), j.into(), 0.into()]),
            Source::Row(i) => tile(b, [1, n], [i, 0]),
            Source::Column(j) => tile(b, [n, 1], [0, j]),
            Source::Element(i, j) => tile(b, [1, 1], [i, j]),
        }
    }

    fn element(self, all: &[f32], i: usize, j: usize, thread: usize) -> f32 {
        let (i, j) = match self {
            Source::Permuted => (Some(j), Some(i)),
            Source::Shifted(by, beside) => {
                (i.checked_add_signed(by as isize), j.checked_add_signed(beside as isize))
            }
            Source::Row(row) => (Some(row), Some(j)),
            Source::Column(column) => (Some(i), Some(column)),
            Source::Element(row, column) => (Some(row), Some(column)),
        };
        let inside = |at: Option<usize>| at.filter(|at| *at < N);
        inside(i).zip(inside(j)).map_or(0.0, |(i, j)| all[i + N * j + N * N * thread])
    }
}

/// y = y - 2·source, or a copy of the source; by the parts of threads, or by whole tiles.
fn program(source: Source, memory: Memory, copies: bool, parts: bool) -> Result<Program> {
    let mut b = Builder::new("moved");
    let y = b.tensor("y", Elem::F32, (N as i64, N as i64, T as i64), None, true)?;
    let part = |b: &mut Builder, view: &View| match parts {
        true => b.parallelize(view, &layout!((1, 1, 32))),
        false => Ok(view.clone()),
    };
    let own = match memory {
        Memory::Global => y.clone(),
        Memory::Shared => b.shared("s", Elem::F32, layout!((4, 4, 32)))?,
    };
    let from = source.view(&mut b, &own)?;
    let (y, to, from) = (part(&mut b, &y)?, part(&mut b, &own)?, part(&mut b, &from)?);
    if matches!(memory, Memory::Shared) {
        b.map(std::slice::from_ref(&y), &to, Expr::In(0))?;
    }
    if copies {
        b.copy(&from, &to)?;
    } else {
        let twice = Expr::Bin(Bin::Mul, Box::new(Expr::lit(2.0)), Box::new(Expr::In(1)));
        let value = Expr::Bin(Bin::Sub, Box::new(Expr::In(0)), Box::new(twice));
        b.map(&[to.clone(), from], &to, value)?;
    }
    if matches!(memory, Memory::Shared) {
        b.copy(&to, &y)?;
    }
    Ok(b.finish())
}

#[test]
fn elements_are_read_before_any_is_written() {
    let before: Vec<f32> = (0..N * N * T).map(|at| (at * 7 % 23) as f32 - 9.0).collect();
    let shifts = [(0, 1), (1, 0), (-1, 0), (0, -1), (1, -1), (-2, 1)].map(|(i, j)| Source::Shifted(i, j));
    let ends = [0, N - 1];
    let rows =
        ends.into_iter().flat_map(|i| [Source::Row(i), Source::Column(i), Source::Element(i, N - 1 - i)]);
    for source in [Source::Permuted].into_iter().chain(shifts).chain(rows) {
        for (memory, copies, parts) in [Memory::Global, Memory::Shared]
            .into_iter()
            .flat_map(|memory| [false, true].map(|copies| (memory, copies)))
            .flat_map(|(memory, copies)| [false, true].map(|parts| (memory, copies, parts)))
        {
            let is_whole = matches!(source, Source::Permuted | Source::Shifted(..));
            if copies && !is_whole {
                continue;
            }
            let what = format!("{source:?}, {memory:?}, copies: {copies}, parts: {parts}");
            let made = generate(program(source, memory, copies, parts).unwrap());
            let kernel = made.kernel.unwrap_or_else(|| panic!("{what}: {:?}", made.diagnostics));
            let wanted: Vec<f32> = (0..N * N * T)
                .map(|at| {
                    let read = source.element(&before, at % N, at / N % N, at / N / N);
                    if copies { read } else { before[at] - 2.0 * read }
                })
                .collect();
            let outcomes = run_every(&kernel, &[Arg::in_out(&before, [N, N, T])], &Options::default());
            for outcome in outcomes.unwrap_or_else(|error| panic!("{what}: {error}")) {
                assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{what}\n{}", kernel.source());
            }
        }
    }
}
