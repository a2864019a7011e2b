//! The meaning of a product by keys: `C = alpha * A * Bᵀ + beta * C`, with scales of blocks of A and B.

use tilewright_codegen::Elem;
use tilewright_codegen::thread::Bin;
use tilewright_codegen::tile::Program;

use crate::case::Case;
use crate::whole::{Buffer, Num, Undefined, digits, linear};

/// Elements along K, and rows of B, with one scale.
const BLOCK: i64 = 128;

/// The buffers after a launch.
pub fn run(program: &Program, case: &Case) -> Result<Vec<Buffer>, Undefined> {
    let named = |name: &str| case.tensors.iter().position(|tensor| tensor.name == name);
    let (Some(a), Some(b), Some(c)) = (named("a"), named("b"), named("c")) else {
        return Err(Undefined("no product".into()));
    };
    let scales = named("scale_a").zip(named("scale_b"));
    let [of_a, of_b, of_c] = [a, b, c].map(|at| case.tensors[at].elem);
    let acc = of_a.accumulator();
    let before = case.buffers();
    let mut after = before.clone();
    let along_k = case.tensors[a].extents[1];
    for n in 0..before[c].count() {
        let index = before[c].index_of(n);
        let at = digits(&before[c].extents, n as i64);
        let (row, column, batch) = (at[0], at[1], at.get(2).copied().unwrap_or(0));
        let read = |of: usize, x: i64, y: i64| {
            let index = linear(&before[of].extents, &[x, y, batch]);
            before[of].all[before[of].index_of(index)].unwrap_or(Num::UNKNOWN)
        };
        let step = if scales.is_some() { BLOCK } else { along_k.max(1) };
        let mut sums = vec![Num::exact(0.0)];
        for first in (0..along_k).step_by(step as usize) {
            let term = |k: i64| {
                let (x, y) = (read(a, row, k).cast(of_a, acc), read(b, column, k).cast(of_b, acc));
                // Products are added without rounding.
                Num::bin(Bin::Mul, x, y, Elem::F64)
            };
            let terms: Vec<Num> = (first..along_k.min(first + step)).map(term).collect();
            let sum = Num::fold(Bin::Add, &terms, acc);
            sums.push(scales.map_or(sum, |(of_rows, of_columns)| {
                let scale =
                    [read(of_rows, row, first / BLOCK), read(of_columns, column / BLOCK, first / BLOCK)];
                Num::bin(Bin::Mul, sum, Num::bin(Bin::Mul, scale[0], scale[1], acc), acc)
            }));
        }
        let mut sum = (Num::fold(Bin::Add, &sums, acc), acc);
        if let ([alpha, beta], Some(scalar)) = (&case.scalars[..], program.scalars.first()) {
            let [alpha, beta] = [alpha, beta].map(|x| Num::exact(*x));
            let (sum_of, old) = (sum.0.cast(acc, scalar.elem), read(c, row, column).cast(of_c, scalar.elem));
            let both = [(alpha, sum_of), (beta, old)].map(|(x, y)| Num::bin(Bin::Mul, x, y, scalar.elem));
            sum = (Num::fold(Bin::Add, &both, scalar.elem), scalar.elem);
        }
        after[c].all[index] = Some(sum.0.cast(sum.1, of_c));
    }
    Ok(after)
}
