//! The one call that multiplies, on the host: every type, layout and option in the simulator and by loops, against double
//! precision; and its refusals.

use tilewright::matmul::{Activation, Error, Factor, Host, HostRef, HostTensor, Matmul, Precision, Ran};
use tilewright::{Element, bf16, e4m3, e5m2, f16, matmul, matmul_into, tf32};
use tilewright_tests::number::Number;
use tilewright_tests::one_call::{self, Check, Drawn, PAIRS};
use tilewright_tests::sweep::share;

/// Whole numbers, which every element type has, and exactly.
fn number(at: usize) -> f64 {
    (at * 7 % 5) as f64
}

/// A tensor of these elements, with rows or columns contiguous.
fn tensor<T: Element>(extents: [usize; 3], rows: bool, of: impl Fn(f64) -> T) -> HostTensor<T, 3> {
    let [m, n, l] = extents;
    let (strides, mut values) = (if rows { [n, 1] } else { [1, m] }, vec![T::ZERO; m * n * l]);
    for at in 0..m * n * l {
        let (row, column, matrix) = (at % m, at / m % n, at / m / n);
        values[row * strides[0] + column * strides[1] + matrix * m * n] = of(number(at));
    }
    HostTensor::strided(extents, [strides[0], strides[1], m * n], values).expect("as many")
}

/// The sum at an element.
fn sum([m, k, n]: [usize; 3], [row, column, matrix]: [usize; 3]) -> f64 {
    let a = |at: usize| number(row + at * m + matrix * m * k);
    let b = |at: usize| number(at + column * k + matrix * k * n);
    (0..k).map(|at| a(at) * b(at)).sum()
}

/// Products in all layouts, in the simulator and by loops.
#[track_caller]
fn check<T: Factor>(of: impl Fn(f64) -> T, value: impl Fn(T::Product) -> f64) {
    for (sizes, l) in [([20, 33, 12], 1), ([40, 50, 40], 1), ([9, 17, 16], 3), ([64, 70, 9], 2)] {
        let [m, k, n] = sizes;
        for orders in share(0..8, 4) {
            let rows = |bit: usize| orders >> bit & 1 == 1;
            let (a, b) = (tensor([m, k, l], rows(0), &of), tensor([k, n, l], rows(1), &of));
            let mut c = tensor([m, n, l], rows(2), |_| T::Product::ZERO);
            let ran = matmul_into(&Host::cpu(), &a, &b, &mut c)
                .unwrap_or_else(|error| panic!("{}: {error}", T::ELEM));
            assert_eq!(matches!(ran, Ran::Simulator(_)), m * n * k * l <= 1 << 15, "{ran}");
            for at in (0..m * n * l).step_by(7).map(|at| [at % m, at / m % n, at / m / n]) {
                let (result, expected) = (value(c.at(at)), sum(sizes, at));
                // Results of 16 bits are rounded.
                assert!(
                    (result - expected).abs() <= expected.abs() / 128.0,
                    "{}, {at:?}: {result}, not {expected}; {ran}",
                    T::ELEM
                );
            }
        }
    }
}

#[test]
fn every_type_in_every_layout() {
    check(|x| x, |x: f64| x);
    check(|x| x as f32, |x: f32| x.into());
    check(|x| f16::from_f32(x as f32), |x: f16| x.to_f32().into());
    check(|x| bf16::from_f32(x as f32), |x: bf16| x.to_f32().into());
    check(|x| x as i32, |x: i32| x.into());
    check(|x| x as u32, |x: u32| x.into());
    check(|x| tf32::from_f32(x as f32), |x: f32| x.into());
    check(|x| x as i8, |x: i32| x.into());
    check(|x| x as u8, |x: i32| x.into());
    check(|x| e4m3::from_f32(x as f32), |x: f32| x.into());
    check(|x| e5m2::from_f32(x as f32), |x: f32| x.into());
}

/// Every option, small in the simulator and large by loops.
#[test]
fn options_compute_what_they_say() {
    for [m, k, n] in [[16, 40, 24], [48, 40, 48]] {
        let matrix = |m: usize, n: usize, of: &dyn Fn(usize) -> f32| {
            HostTensor::row_major([m, n], (0..m * n).map(of).collect()).expect("as many")
        };
        let vector = |n: usize, of: &dyn Fn(usize) -> f32| {
            HostTensor::column_major([n], (0..n).map(of).collect()).expect("as many")
        };
        let signed = |at: usize| (number(at) - 2.0) as f32 / 4.0;
        let (a, b) = (matrix(m, k, &signed), matrix(k, n, &signed));
        let (residual, bias) = (matrix(m, n, &|at| number(at + 1) as f32), vector(n, &|at| at as f32 / 8.0));
        let scales = [vector(m, &|at| 1.0 + at as f32), vector(n, &|at| 2.0 - at as f32 / 16.0)];
        let of_rows = vector(m, &|at| at as f32 - 7.0);
        let start = matrix(m, n, &|at| number(at + 3) as f32);
        let dot = |m: usize, n: usize| {
            (0..k).map(|k| f64::from(a.at([m, k])) * f64::from(b.at([k, n]))).sum::<f64>()
        };
        let host = Host::cpu();
        let check = |product: Matmul<'_, Host>,
                     message: &str,
                     expected: &dyn Fn(f64, usize, usize) -> f64| {
            let mut c = start.clone();
            let ran =
                product.run_into(&host, &a, &b, &mut c).unwrap_or_else(|error| panic!("{message}: {error}"));
            for row in 0..m {
                for column in 0..n {
                    let (result, expected) =
                        (f64::from(c.at([row, column])), expected(dot(row, column), row, column));
                    let error = (result - expected).abs();
                    assert!(
                        error < 2e-5 * (1.0 + expected.abs()),
                        "{message} at {row}, {column}: {result}, not {expected}; {ran}"
                    );
                }
            }
        };
        let at = |tensor: &HostTensor<f32, 1>, at: usize| f64::from(tensor.at([at]));
        let of = |tensor: &HostTensor<f32, 2>, m: usize, n: usize| f64::from(tensor.at([m, n]));
        check(Matmul::new().alpha(0.5), "alpha", &|x, _, _| 0.5 * x);
        check(Matmul::new().beta(3.0), "beta", &|x, m, n| x + 3.0 * of(&start, m, n));
        check(Matmul::new().bias(&bias), "bias", &|x, _, n| x + at(&bias, n));
        check(Matmul::new().bias_of_rows(&of_rows), "bias of rows", &|x, m, _| x + at(&of_rows, m));
        check(Matmul::new().activation(Activation::Relu), "relu", &|x, _, _| x.max(0.0));
        check(Matmul::new().activation(Activation::Silu), "silu", &|x, _, _| x / (1.0 + (-x).exp()));
        let both = Matmul::new().scale_rows(&scales[0]).scale_columns(&scales[1]);
        check(both, "scales", &|x, m, n| x * at(&scales[0], m) * at(&scales[1], n));
        let before = Matmul::new().residual_before(&residual).activation(Activation::Relu);
        check(before, "residual before", &|x, m, n| (x + of(&residual, m, n)).max(0.0));
        let after = Matmul::new().residual_after(&residual).activation(Activation::Relu);
        check(after, "residual after", &|x, m, n| x.max(0.0) + of(&residual, m, n));
        let all = Matmul::new().alpha(2.0).beta(0.5).bias(&bias).activation(Activation::Relu);
        check(all, "all", &|x, m, n| (2.0 * x + 0.5 * of(&start, m, n) + at(&bias, n)).max(0.0));
        let terms = Matmul::new().precision(Precision::F32x3);
        check(terms, "terms", &|x, _, _| x);
    }
}

/// The first rows of a product in the simulator, against all rows by loops.
struct LoopsAndSimulator;

impl Check for LoopsAndSimulator {
    fn check<T: Factor + Number, U: Number>(&self, drawn: &Drawn<T, U>, message: &str) {
        let large = (1 << 15) / drawn.row_work() + 1;
        let small = 1.max(large - 1).min(9);
        let run =
            |m| drawn.run(&Host::cpu(), m).unwrap_or_else(|error| panic!("{message}, {m} rows: {error}"));
        let ((simulated, first), (loops, all)) = (run(small), run(large));
        assert!(
            matches!((&simulated, &loops), (Ran::Simulator(_), Ran::Processor { .. })),
            "{simulated}, {loops}"
        );
        let difference = drawn.difference([&first, &all], 0.0);
        assert_eq!(difference, None, "{message}");
    }
}

/// Where sums are exact, results are equal to the bit.
#[test]
fn loops_and_simulator_agree() {
    // An epilogue of this product is halfway between two numbers before it is rounded.
    for seed in share(0..PAIRS * 60, 20).into_iter().chain([531]) {
        one_call::check(seed, |work| (1 << 15) / work + 1, &LoopsAndSimulator);
    }
}

#[test]
fn integers_are_not_scaled_by_fractions() {
    for m in [4, 64] {
        let ones = HostTensor::row_major([m, m], vec![1i8; m * m]).expect("as many");
        let half = Matmul::new().alpha(0.5);
        refused(
            half.run(&Host::cpu(), &ones, &ones),
            "argument `alpha`: 0.5 is not an integer, and i32 is needed here\nhelp: a product of i8 with a result of i32 is \
             scaled in i32: name another type of the result with `out`, such as `out::<f32>()`, which is scaled in f32",
        );
        let half = Matmul::new().alpha(0.5).out::<f32>();
        assert_eq!(half.run(&Host::cpu(), &ones, &ones).expect("a product").at([1, 2]), m as f32 / 2.0);
    }
}

/// Refused for every size, by loops and in the simulator alike.
#[test]
fn layouts_and_types_that_kernels_do_not_take_are_refused() {
    for m in [4, 64] {
        let values = vec![1.0f32; m * m];
        let square = HostRef::row_major([m, m], &values).expect("as many");
        let repeated = HostRef::strided([m, m], [0, 1], &values).expect("long enough");
        refused(
            matmul(&Host::cpu(), repeated, square),
            "argument `a`: its stride 0 is 0\nhelp: copy it to a tensor in which each element has its own memory",
        );
        let whole = HostTensor::row_major([m, m], vec![1i8; m * m]).expect("as many");
        let scales = HostTensor::column_major([m], vec![0.5f32; m]).expect("as many");
        refused(
            Matmul::new().scale_rows(&scales).run(&Host::cpu(), &whole, &whole),
            "argument `scale_rows`: its elements are f32, and the epilogue computes in i32\nhelp: convert them to i32",
        );
        let small = HostTensor::row_major([m, m], vec![e4m3::ZERO; m * m]).expect("as many");
        let blocks = HostTensor::column_major([m, 1], vec![1.0f32; m]).expect("as many");
        let block = HostTensor::row_major([1, 1], vec![1.0f32]).expect("as many");
        refused(
            Matmul::new().scale_blocks(&blocks, &block).run(&Host::cpu(), square, square),
            "scales of blocks are for products of e4m3 and e5m2, and `a` and `b` are f32\nhelp: call `scale_rows` and \
             `scale_columns`",
        );
        refused(
            Matmul::new().scale_blocks(&blocks, &block).scale_rows(&scales).run(&Host::cpu(), &small, &small),
            "a product has scales of blocks, or of rows and columns, not both\nhelp: leave `scale_blocks` out, or \
             `scale_rows` and `scale_columns`",
        );
    }
}

#[test]
fn scales_of_blocks() {
    let number = |at: usize| e4m3::from_f32((at % 5) as f32);
    for m in [2, 100] {
        let (n, k) = (3, 200);
        let a = HostTensor::row_major([m, k], (0..m * k).map(number).collect()).expect("as many");
        let b = HostTensor::column_major([k, n], (0..n * k).map(number).collect()).expect("as many");
        let scale_a =
            HostTensor::column_major([m, 2], (0..m * 2).map(|at| at as f32).collect()).expect("as many");
        let scale_b = HostTensor::row_major([1, 2], vec![0.5f32, 2.0]).expect("as many");
        let c = Matmul::new().scale_blocks(&scale_a, &scale_b).run(&Host::cpu(), &a, &b).expect("a product");
        let part = |m: usize, n: usize, from: std::ops::Range<usize>| -> f32 {
            from.map(|k| a.at([m, k]).to_f32() * b.at([k, n]).to_f32()).sum()
        };
        for (row, column) in [(0, 0), (1, 2)] {
            let scale = |block| scale_a.at([row, block]) * scale_b.at([0, block]);
            let expected = part(row, column, 0..128) * scale(0) + part(row, column, 128..200) * scale(1);
            assert_eq!(c.at([row, column]), expected);
        }
    }
}

#[test]
fn results_have_the_type_that_is_asked_for() -> Result<(), Error> {
    let a = HostTensor::row_major([2, 2], [1.0, 2.0, 3.0, 4.0].map(bf16::from_f32).to_vec())?;
    let c = Matmul::new().out::<f32>().run(&Host::cpu(), &a, a.view().transposed())?;
    assert_eq!(c.values(), [5.0, 11.0, 11.0, 25.0]);
    let c = matmul(&Host::cpu(), a.view().transposed(), &a)?;
    // Columns of the transpose are contiguous, so columns of the result are too.
    assert_eq!((c.strides(), c.values()[1]), ([1, 2], bf16::from_f32(14.0)));
    Ok(())
}

#[track_caller]
fn refused(outcome: Result<impl Sized, Error>, message: &str) {
    match outcome {
        Ok(_) => panic!("not refused: {message}"),
        Err(error) => assert_eq!((error.to_string(), error.refusal().is_some()), (message.into(), true)),
    }
}

#[test]
fn what_cannot_be_multiplied_is_refused() {
    let zeros = |extents| HostTensor::<f32, 2>::zeros(extents).expect("memory");
    let host = Host::cpu();
    refused(
        matmul(&host, &zeros([2, 3]), &zeros([4, 3])),
        "argument `b`: it is 4 x 3, and `a` is 2 x 3: its rows, 4, are not the columns of `a`, 3\nhelp: the transpose of \
         `b` fits: `b.view().transposed()`",
    );
    refused(
        matmul(&host, &zeros([2, 0]), &zeros([0, 3])),
        "argument `a`: it is 2 x 0, and its extent 1 is 0: there is nothing to multiply\nhelp: leave the call out where an \
         extent is 0; a sum over no elements is 0, so fill the result yourself",
    );
    let mut c = zeros([2, 2]);
    refused(
        matmul_into(&host, &zeros([2, 3]), &zeros([3, 4]), &mut c),
        "argument `c`: it is 2 x 2, and the product of `a`, 2 x 3, and `b`, 3 x 4, is 2 x 4\nhelp: give it these extents, or \
         call `matmul`, which allocates it",
    );
    let values = [0.0f32; 24];
    let apart = HostRef::strided([2, 3], [12, 2], &values).expect("long enough");
    refused(
        matmul(&host, apart, &zeros([3, 4])),
        "argument `a`: neither its rows nor its columns are contiguous: its strides are 12 and 2\nhelp: copy it to a tensor \
         in which one of the two strides is 1",
    );
    refused(
        Matmul::new().beta(1.0).run(&host, &zeros([2, 3]), &zeros([3, 4])),
        "`beta` is a factor of what is in the result before, and `run` makes a new one\nhelp: call `run_into` with a \
         result, or leave `beta` out",
    );
    let short = HostTensor::<f32, 1>::zeros([3]).expect("memory");
    refused(
        Matmul::new().bias(&short).run(&host, &zeros([2, 3]), &zeros([3, 4])),
        "argument `bias`: it is 3, and `c` has 4 columns\nhelp: give it one mode of 4 elements",
    );
    let double = HostTensor::<f64, 1>::zeros([4]).expect("memory");
    refused(
        Matmul::new().bias(&double).run(&host, &zeros([2, 3]), &zeros([3, 4])),
        "argument `bias`: its elements are f64, and those of `c` are f32\nhelp: convert them to f32, or name another type of \
         the result with `out`",
    );
    let whole = HostTensor::<i8, 2>::zeros([4, 4]).expect("memory");
    refused(
        Matmul::new().activation(Activation::Gelu).run(&host, &whole, &whole),
        "gelu is for real numbers, and `c` is i32\nhelp: name a type of the result with `out`, such as `out::<f32>()`",
    );
    refused(
        Matmul::new().precision(Precision::Tf32).run(&host, &whole, &whole),
        "a precision is chosen for products of f32, and `a` and `b` are i8\nhelp: leave `precision` out",
    );
    refused(
        HostTensor::row_major([2, 3], vec![0.0f32; 5]),
        "a tensor of extents [2, 3] has 6 elements, and 5 were given\nhelp: give as many values as the product of the extents",
    );
}

/// Epilogues of a product, and batches.
#[test]
fn what_does_not_belong_to_a_product_is_refused() {
    let host = Host::cpu();
    let zeros = |extents| HostTensor::<f32, 2>::zeros(extents).expect("memory");
    let batch = |extents| HostTensor::<f32, 3>::zeros(extents).expect("memory");
    let (a, b) = (zeros([2, 3]), zeros([3, 4]));
    refused(
        matmul(&host, &batch([2, 3, 5]), &batch([3, 4, 6])),
        "`a` has 5 matrices, `b` 6 and `c` 5\nhelp: give all three the same third extent",
    );
    refused(
        matmul(&host, &batch([2, 3, 5]), &b),
        "`a` is 2 x 3 x 5, `b` is 3 x 4 and `c` is 2 x 4 x 5\nhelp: give all three two modes, or all three a third one, which \
         counts products",
    );
    refused(
        matmul(&host, &zeros([0, 3]), &b),
        "argument `a`: it is 0 x 3, and its extent 0 is 0: there is nothing to multiply\nhelp: leave the call out where an \
         extent is 0; a sum over no elements is 0, so fill the result yourself",
    );
    refused(
        Matmul::new().residual_after(&zeros([2, 3])).run(&host, &a, &b),
        "argument `residual`: it is 2 x 3, and `c` is 2 x 4\nhelp: give it the extents of `c`",
    );
    let columns = HostTensor::column_major([2, 4], vec![0.0f32; 8]).expect("as many");
    refused(
        Matmul::new().residual_after(&columns).run(&host, &a, &b),
        "argument `residual`: its rows are not contiguous, and those of `c` are\nhelp: give it the layout of `c`",
    );
    let values = [0.0f32; 8];
    let apart = HostRef::strided([4], [2], &values).expect("long enough");
    refused(
        Matmul::new().bias(apart).run(&host, &a, &b),
        "argument `bias`: its elements are 2 apart\nhelp: copy them to be neighbours",
    );
    let three = HostTensor::<f32, 1>::zeros([3]).expect("memory");
    refused(
        Matmul::new().scale_rows(&three).run(&host, &a, &b),
        "argument `scale_rows`: it is 3, and `c` has 2 rows\nhelp: give it one mode of 2 elements",
    );
    let small = |extents| HostTensor::<e4m3, 2>::zeros(extents).expect("memory");
    refused(
        Matmul::new().scale_blocks(&zeros([2, 1]), &zeros([1, 1])).run(
            &host,
            &small([2, 200]),
            &small([200, 4]),
        ),
        "argument `scale_a`: it is 2 x 1, and scales of blocks of 128 are 2 x 2 here\nhelp: give `scale_a` (M, K/128) and \
         `scale_b` (N/128, K/128), extents rounded up",
    );
}

#[test]
fn a_refused_product_leaves_its_result_alone() {
    let mut c = HostTensor::row_major([2, 2], vec![7.0f32; 4]).expect("as many");
    let a = HostTensor::<f32, 2>::zeros([2, 3]).expect("memory");
    matmul_into(&Host::cpu(), &a, &a, &mut c).expect_err("a refusal");
    assert_eq!(c.values(), [7.0; 4]);
}
