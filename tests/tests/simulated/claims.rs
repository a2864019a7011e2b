//! Claims of authors about out-of-bounds elements: the source of a kernel takes their word, and the simulator checks it.

use tilewright::KernelDef;
use tilewright::prelude::*;
use tilewright_codegen::thread::{Op, Stmt};
use tilewright_sim::{Arg, Error, FaultKind, Options, run_every};

/// The fault of a run, as text.
#[track_caller]
fn fault(def: &KernelDef, args: &[Arg]) -> String {
    let kernel = def.generate().unwrap_or_else(|error| panic!("{error}"));
    match run_every(&kernel, args, &Options::default()) {
        Err(Error::Fault(fault)) => {
            assert_eq!(fault.kind(), FaultKind::FalseClaim, "{fault}");
            fault.to_string()
        }
        Err(other) => panic!("{}: {other}", def.name()),
        Ok(_) => panic!("{}: the claim was believed", def.name()),
    }
}

#[track_caller]
fn check_claims(def: &KernelDef, args: &[Arg]) {
    let kernel = def.generate().unwrap_or_else(|error| panic!("{error}"));
    run_every(&kernel, args, &Options::default()).unwrap_or_else(|error| panic!("{}: {error}", def.name()));
}

/// Kernels of a tile of at most 64 elements, with one result.
macro_rules! claims {
    ($($name:ident: |$x:ident| $value:expr;)*) => {
        $(
            #[kernel]
            fn $name(x: &Tensor<f32, N>, y: &mut Tensor<f32, M>) {
                at_most(N, 64);
                let $x = tile(x, 64, 0);
                copy($value, tile(y, 1, block.x));
            }
        )*
    };
}

claims! {
    of_sums: |x| sum(x - shift(x, -1), out_of_bounds = 0.0);
    of_numbers: |x| sum(x * 0.0 + 1.0 + shift(x, -1) * 0.0, out_of_bounds = 0.0);
    of_minima: |x| minimum(x - shift(x, 1), out_of_bounds = f32::INFINITY);
    of_folds: |x| reduce(x - shift(x, -1), 0.0, |a, b| a + b, out_of_bounds = 0.0);
    of_scans: |x| sum(scan(x - shift(x, -1), 0.0, |a, b| a + b, out_of_bounds = 0.0) * 0.0, out_of_bounds = 0.0);
    differences: |x| sum(map((x, shift(x, 1)), |x, next, at| if at.0 < N { abs(next - x) } else { 0.0 }), out_of_bounds = 0.0);
    least: |x| minimum(map(x, |x, at| if at.0 < N { x } else { f32::INFINITY }), out_of_bounds = f32::INFINITY);
}

/// Differences of neighbours, summed at the edge as well.
#[kernel]
fn one_kernel(x: &Tensor<f32, N>, y: &mut Tensor<f32, M>) {
    at_most(N, 64);
    let x = tile(x, 64, 0);
    let differences = x - shift(x, -1);
    let total = sum(differences, out_of_bounds = 0.0);
    copy(total, tile(y, 1, block.x));
}

/// The second of two numbers.
#[kernel]
fn of_pairs(x: &Tensor<f32, N>, y: &mut Tensor<i32, M>) {
    at_most(N, 64);
    let (value, index) = map(tile(x, 64, 0), |x, at| (if at.0 < N { x } else { 0.0 }, at.0));
    let best = reduce(
        (value, index),
        (0.0, 0),
        |(x, i), (y, j)| if y > x { (y, j) } else { (x, i) },
        out_of_bounds = (0.0, 0),
    );
    copy(best.1, tile(y, 1, block.x));
}

/// Elements out of bounds go to the first element.
#[kernel]
fn of_indices(x: &Tensor<i32, N>, y: &mut Tensor<i32, M>) {
    at_most(N, 64);
    let x = tile(x, 64, 0);
    scatter((map(x, |x| x), x - shift(x, -1)), y, |x, to| (to, x), how = "atomic_add", out_of_bounds = -1);
}

/// Columns out of bounds are 1 in each row; rows out of bounds are nobody's.
#[kernel]
fn of_rows(x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, M>) {
    at_most(N, 16);
    let x = map(tile(x, (8, 16), (block.x, 0)), |x, at| if at.0 < M { x + 1.0 } else { 5.0 });
    copy(sum(x, 1, out_of_bounds = 0.0)[(_, 0)], tile(y, 8, block.x));
}

/// The same where only columns are combined that are in bounds.
#[kernel]
fn of_whole_rows(x: &Tensor<f32, (M, _16)>, y: &mut Tensor<f32, M>) {
    let x = map(tile(x, (8, 16), (block.x, 0)), |x, at| if at.0 < M { x + 1.0 } else { 5.0 });
    copy(sum(x, 1, out_of_bounds = 0.0)[(_, 0)], tile(y, 8, block.x));
}

#[test]
fn false_claims_are_faults() {
    let x: Vec<f32> = (1..=64).map(|n| n as f32).collect();
    let args = |n: usize| [Arg::tensor(&x[..n], [n]), Arg::output::<f32>([1])];
    let defs = [of_sums().def().clone(), of_folds().def().clone(), of_scans().def().clone()];
    for def in defs {
        let text = fault(&def, &args(10));
        let part = "out-of-bounds elements are 0.0, and the one at (10) is -10.0";
        assert!(text.contains(part), "{text}");
        check_claims(&def, &args(64));
    }
    let text = fault(of_minima().def(), &args(10));
    assert!(text.contains("are f32::INFINITY, and the one at (10) is 0.0"), "{text}");
    let text = fault(of_numbers().def(), &args(10));
    assert!(text.contains("are 0.0, and the one at (10) is 1.0"), "{text}");
    let text = one_kernel().simulate(&args(10)).unwrap_err().to_string();
    let line =
        text.lines().find(|line| line.contains("claims.rs:")).unwrap_or_else(|| panic!("no line: {text}"));
    insta::assert_snapshot!(text.replace(line, "    at claims.rs"));
}

#[test]
fn claims_of_pairs_indices_and_rows() {
    let x: Vec<f32> = (1..=64).map(|n| n as f32).collect();
    let args = |n: usize| [Arg::tensor(&x[..n], [n]), Arg::output::<i32>([1])];
    let text = fault(of_pairs().def(), &args(10));
    assert!(text.contains("are 0, and the one at (10) is 10"), "{text}");
    check_claims(of_pairs().def(), &args(64));

    let n = [0, 1, 0, 1, 0];
    let text = fault(of_indices().def(), &[Arg::tensor(&n, [5]), Arg::in_out(&[0; 4], [4])]);
    assert!(text.contains("are -1, and the one at (5) is 0"), "{text}");

    let args = |m: usize, n: usize| [Arg::tensor(&x[..m * n], [m, n]), Arg::output::<f32>([m])];
    let text = fault(of_rows().def(), &args(3, 5));
    assert!(text.contains("are 0.0, and the one at (0, ") && text.contains(") is 1.0"), "{text}");
    check_claims(of_rows().def(), &args(3, 16));
    check_claims(of_whole_rows().def(), &args(3, 16));
}

#[test]
fn true_claims_are_not() {
    let x: Vec<f32> = (1..=64).map(|n| n as f32).collect();
    for n in [1, 10, 63, 64] {
        for def in [differences().def(), least().def()] {
            check_claims(def, &[Arg::tensor(&x[..n], [n]), Arg::output::<f32>([1])]);
        }
    }
}

/// The program without its claims has the same source.
#[test]
fn claims_are_not_in_the_source() {
    fn drop(body: &mut Vec<Stmt>, dropped: &mut usize) {
        let before = body.len();
        body.retain(|stmt| !matches!(stmt.op, Op::Claim(_)));
        *dropped += before - body.len();
        for stmt in body {
            match &mut stmt.op {
                Op::For { body, .. } | Op::Elect(_, body) => drop(body, dropped),
                Op::If { then, other, .. } => {
                    drop(then, dropped);
                    drop(other, dropped);
                }
                _ => {}
            }
        }
    }
    for def in [of_sums().def(), of_rows().def(), of_scans().def(), of_indices().def()] {
        for variant in &def.generate().unwrap().variants {
            let (mut program, mut dropped) = (variant.program.clone(), 0);
            drop(&mut program.body, &mut dropped);
            assert!(dropped > 0 || !program.needs.is_empty(), "{}", variant.source);
            assert_eq!(variant.source, tilewright_codegen::cuda::print(&program), "{}", def.name());
        }
    }
}

/// A gather whose index is never checked.
#[kernel]
fn losses(x: &Tensor<f32, (M, V), (ldx, _1)>, t: &Tensor<i32, M>, y: &mut Tensor<f32, M>) {
    map(tile(t, 256, block.x), tile(y, 256, block.x), |t, at| -x[(t, at.0)]);
}

/// The difference from the next element but one, and a permutation.
#[kernel]
fn moves(x: &Tensor<f32, N>, to: &Tensor<i32, N>, near: &mut Tensor<f32, N>, y: &mut Tensor<f32, N>) {
    let (t, p) = (tile(x, 32, block.x), tile(to, 32, block.x));
    map(t, tile(near, 32, block.x), |v, at| x[(if at.0 + 2 < N { at.0 + 2 } else { -1 })] - v);
    scatter((t, p), y, |v, p| (p, v));
}

#[test]
fn strict_runs_report_what_the_language_defines() {
    let strict = |def: &KernelDef, args: &[Arg]| {
        let kernel = def.generate().unwrap_or_else(|error| panic!("{error}"));
        run_every(&kernel, args, &Options::default())
            .unwrap_or_else(|error| panic!("{}: {error}", def.name()));
        let options = Options { strict: true, ..Options::default() };
        run_every(&kernel, args, &options).map(drop).map_err(|error| error.to_string())
    };
    let x: Vec<f32> = (0..35).map(|n| n as f32).collect();
    let losses_of = |t: [i32; 5]| {
        let x = Arg::tensor(&x, [5, 7]).strides([7, 1]);
        strict(losses().def(), &[x, Arg::tensor(&t, [5]), Arg::output::<f32>([5])])
    };
    // 251 elements of the tile are out of bounds themselves.
    assert_eq!(losses_of([1, 2, 3, 4, 0]), Ok(()));
    assert_eq!(losses_of([1, 2, 3, -1, 0]), Ok(()));
    for t in [[1, 2, 3, 4, 6], [1, -2, 3, 4, 0]] {
        let error = losses_of(t).unwrap_err();
        assert!(
            error.contains("the index (") && error.contains(") of a gather or scatter is out of bounds"),
            "{error}"
        );
    }
    let moves_to = |to: [i32; 5]| {
        let (x, y) = (Arg::tensor(&x[..5], [5]), Arg::in_out(&[0.0f32; 5], [5]));
        strict(moves().def(), &[x, Arg::tensor(&to, [5]), Arg::output::<f32>([5]), y])
    };
    assert_eq!(moves_to([4, 3, -1, 1, 0]), Ok(()));
    let error = moves_to([4, 3, 5, 1, 0]).unwrap_err();
    assert!(error.contains("the index (5) of a gather or scatter is out of bounds"), "{error}");
    assert!(error.contains("make the index -1, which strict runs accept"), "{error}");
}
