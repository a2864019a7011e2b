//! A reference interpreter of tile programs, one block, element by element, independent of the checks.

use std::collections::HashMap;

use tilewright_codegen::affine::Coord;
use tilewright_codegen::thread::Id;
use tilewright_codegen::tile::{Expr, Op, Program, Space, Stmt};
use tilewright_codegen::view::View;

/// Elements by tensor, thread (0 where all share it) and coordinates.
pub(crate) type Memory = HashMap<(Id, i64, Vec<i64>), f64>;

pub(crate) fn run(program: &Program, sizes: &HashMap<String, i64>, memory: &mut Memory) {
    let mut vars = vec![0; program.vars.len()];
    body(program, &program.body, sizes, &mut vars, memory);
}

fn body(
    program: &Program,
    stmts: &[Stmt],
    sizes: &HashMap<String, i64>,
    vars: &mut Vec<i64>,
    memory: &mut Memory,
) {
    for stmt in stmts {
        if let Op::For { var, body: inner, .. } = &stmt.op {
            let extent = &program.vars[*var as usize].extent().expect("a size");
            let extent = extent.evaluate(&|symbol| sizes.get(symbol.name()).copied()).expect("a size");
            for at in 0..extent {
                vars[*var as usize] = at;
                body(program, inner, sizes, vars, memory);
            }
            continue;
        }
        // All threads read, then all write.
        let mut written = Vec::new();
        for thread in 0..i64::from(program.threads()) {
            let key = |view: &View, index: i64| {
                let at = view.coordinates(index, &|coord| match coord {
                    Coord::Thread(_) => thread,
                    Coord::Var(var) => vars[*var as usize],
                    _ => 0,
                });
                let own = matches!(program.tensor(view.tensor).space, Space::Registers { .. });
                (view.tensor, if own { thread } else { 0 }, at)
            };
            let get = |view: &View, index: i64| memory.get(&key(view, index)).copied().unwrap_or(f64::NAN);
            let size = |view: &View| view.layout.size().expect("a size");
            match &stmt.op {
                Op::Copy { from, to, .. } => {
                    written.extend((0..size(to)).map(|i| (key(to, i), get(from, i))));
                }
                Op::Map { to, value: Expr::Lit(_), .. } => {
                    written.extend((0..size(to)).map(|i| (key(to, i), 0.0)))
                }
                Op::Gemm { a, b, acc, .. } => {
                    let extents = |view: &View| view.extents().expect("extents");
                    let (rows, columns, steps) = (extents(a)[0], extents(b)[0], extents(a)[1]);
                    for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                        let sum: f64 =
                            (0..steps).map(|k| get(a, i + k * rows) * get(b, j + k * columns)).sum();
                        let at = i + j * rows;
                        written.push((key(acc, at), get(acc, at) + sum));
                    }
                }
                Op::Sync | Op::Wait { .. } => {}
                other => panic!("{other:?} is not interpreted"),
            }
        }
        memory.extend(written);
    }
}
