//! Bandwidth-limited kernels, as the chooser selects them: on sizes that no tile divides, in every type, in
//! poisoned tensors with gaps.

use tilewright::kernels::memory::{Work, choose, in_pieces};
use tilewright::prelude::*;
use tilewright::{Elem, KernelDef, kernels};
use tilewright_codegen::Generated;
use tilewright_sim::{Arg, Options, run, run_every};
use tilewright_tests::inputs::inputs;
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::sweep;
use tilewright_tests::tensor::Padding;

fn kernel(work: Work, elem: Elem, [rows, columns]: [usize; 2]) -> Generated {
    let choice = choose(work, elem, rows, columns);
    let def = choice.def().unwrap_or_else(|why| panic!("{choice}: {why}"));
    def.generate().unwrap_or_else(|why| panic!("{choice}: {why}"))
}

/// Every applicable variant, in tensors with and without gaps.
#[track_caller]
fn check(work: Work, elem: Elem, sizes: [usize; 2], values: Values) {
    check_kernel(&kernel(work, elem, sizes), &format!("{work:?} {elem}"), sizes, values);
}

#[track_caller]
fn check_kernel(kernel: &Generated, name: &str, sizes: [usize; 2], values: Values) {
    let [m, n] = sizes;
    // Matrices are vectors of all elements.
    let is_dense = kernel.name.ends_with("_dense");
    for padding in [Padding::new(0, 0), Padding::new(3, 1)] {
        let (all, paddings) = ([("M", m), ("N", n), ("L", 3), ("E", m * n)], &[padding]);
        let sizes = if is_dense { &all[..] } else { &all[..3] };
        let setting = Setting { sizes, paddings, values, seed: 7, alpha: 1.0, beta: 1e-3 };
        let problem = Problem::of(kernel, &setting);
        let options = Options { count: false, ..Options::default() };
        let outcomes = run_every(kernel, &problem.args(), &options);
        let outcomes = outcomes.unwrap_or_else(|why| panic!("{name} {m}x{n}, {padding:?}: {why}"));
        assert!(!outcomes.is_empty());
        for outcome in outcomes {
            if let Some(why) = problem.wrong_outcome(&outcome) {
                panic!("{name} {m}x{n}, {padding:?}: {why}");
            }
        }
    }
}

const ELEMS: [Elem; 3] = [Elem::F32, Elem::F16, Elem::Bf16];
const SIZES: [[usize; 2]; 7] = [[1, 1], [3, 31], [1, 100], [33, 32], [2, 1000], [9, 513], [2, 4097]];

/// Every kernel that is chosen can be generated: odd and even rows, short and long ones, few and many.
#[test]
fn all_sizes_have_kernels() {
    use Work::*;
    let works =
        [Transpose, Softmax, Layernorm, Rmsnorm, RowSums, ColumnSums, CumulativeSums, SumsBefore, Gemv];
    let works = works.into_iter().chain([Sum, Gather, Histogram, Stencil5, Stencil7]);
    let (mut seen, mut chosen) = (std::collections::HashSet::new(), Vec::new());
    for work in works {
        for columns in [1, 15, 16, 100, 132, 257, 290, 3000, 5001, 20_000, 33_001, 262_144, 1_000_000] {
            for (rows, elem) in
                [(1, Elem::F32), (100, Elem::Bf16), (547, Elem::Bf16), (3000, Elem::F32), (5000, Elem::Bf16)]
            {
                let two = in_pieces(work, elem, rows, columns).map(|two| two.kernels.to_vec());
                for choice in two.unwrap_or_default().into_iter().chain([choose(work, elem, rows, columns)]) {
                    if seen.insert(choice.to_string()) {
                        chosen.push(choice);
                    }
                }
            }
        }
    }
    for choice in sweep::share(chosen, 4) {
        let def = choice.def().unwrap_or_else(|why| panic!("{choice}: {why}"));
        def.generate().unwrap_or_else(|why| panic!("{choice}: {why}"));
    }
}

/// Few long rows of single elements of two bytes are copied by vectors, since no asynchronous copy has two bytes.
#[test]
fn few_long_rows_between_vectors() {
    for rows in [20, 40, 60] {
        assert_eq!(choose(Work::Layernorm, Elem::Bf16, rows, 218_907).kernel, "layernorm_long", "{rows}");
    }
}

/// Long rows are kept in the shared memory of clusters.
#[test]
fn rows_of_clusters() {
    let check = |elem, rows, columns, wanted: &str| {
        assert_eq!(choose(Work::Softmax, elem, rows, columns).to_string(), wanted, "{rows}x{columns}");
    };
    check(Elem::Bf16, 64, 262_144, "softmax_long T=bf16 W=32768 L=256 V=8 C=8 G=45 Q=3");
    let norm = choose(Work::Rmsnorm, Elem::Bf16, 64, 262_144).to_string();
    assert_eq!(norm, "rmsnorm_long T=bf16 W=32768 L=512 V=8 C=8 G=45 Q=3");
    check(Elem::Bf16, 300, 50_000, "softmax_long T=bf16 W=25600 L=160 V=8 C=2 G=264 Q=4");
    check(Elem::F32, 64, 131_072, "softmax_long T=f32 W=16384 L=256 V=4 C=8 G=45 Q=3");
    check(Elem::Bf16, 128, 262_144, "softmax_long T=bf16 W=32768 L=256 V=8 C=8 G=45 Q=3");
    check(Elem::F32, 64, 262_144, "softmax_long T=f32 W=16384 L=256 V=4 C=16 G=21 Q=3");
}

/// Two blocks have the elements of a long row of two weights, if there are not many rows.
#[test]
fn rows_of_two_blocks() {
    for (rows, columns, wanted) in [
        (524, 9930, "layernorm_row T=f32 W=5120 L=320 V=2 C=2"),
        (765, 14_788, "layernorm_row T=f32 W=7680 L=480 V=4 C=2"),
        (4096, 9930, "layernorm_row T=f32 W=10240 L=320 V=2"),
    ] {
        assert_eq!(choose(Work::Layernorm, Elem::F32, rows, columns).to_string(), wanted, "{rows}x{columns}");
    }
}

/// Rows that begin between vectors are moved as vectors that begin before them.
#[test]
fn rows_between_vectors() {
    let check = |work, elem, columns, wanted: &str| {
        assert_eq!(choose(work, elem, 4096, columns).to_string(), wanted, "{columns}");
    };
    check(Work::Softmax, Elem::Bf16, 4097, "softmax_unaligned T=bf16 W=5120 L=128 V=8 C=1");
    check(Work::Softmax, Elem::F32, 4097, "softmax_unaligned T=f32 W=4608 L=288 V=4 C=1");
    check(Work::CumulativeSums, Elem::Bf16, 4097, "cumulative_sums_vectors T=bf16 L=288 V=8 Q=6");
    check(Work::CumulativeSums, Elem::Bf16, 1001, "cumulative_sums_vectors T=bf16 L=128 V=8 Q=14");
    check(Work::CumulativeSums, Elem::Bf16, 2050, "cumulative_sums_vectors T=bf16 L=160 V=8 Q=11");
    check(Work::CumulativeSums, Elem::Bf16, 6002, "cumulative_sums_vectors T=bf16 L=256 V=8 Q=7");
    check(Work::CumulativeSums, Elem::F32, 4097, "cumulative_sums_unaligned T=f32 L=256");
    check(Work::CumulativeSums, Elem::F32, 6002, "cumulative_sums_unaligned T=f32 L=384");
    // Vectors from 3,073 elements on, in the tile that fits better.
    check(Work::Layernorm, Elem::Bf16, 3341, "layernorm_unaligned T=bf16 W=3840 L=160 V=8 C=1 G=115 Q=7");
    assert_eq!(choose(Work::Layernorm, Elem::Bf16, 300, 3501).kernel, "layernorm_row");
    check(Work::Layernorm, Elem::Bf16, 4421, "layernorm_unaligned T=bf16 W=4608 L=192 V=8 C=1 G=99 Q=6");
    check(Work::Layernorm, Elem::Bf16, 5501, "layernorm_unaligned T=bf16 W=6144 L=192 V=8 C=1 G=82 Q=5");
    // Narrow accesses do not fit a bound of registers.
    check(Work::SumsBefore, Elem::F32, 6002, "cumulative_sums T=f32 W=4096 L=256 E=1");
    check(Work::SumsBefore, Elem::F32, 6004, "cumulative_sums T=f32 W=6144 L=384 Q=4 E=1");
}

/// Tiles of short rows are copied as they are in memory.
#[test]
fn short_rows_without_gaps() {
    let check_choice = |work, rows, columns, wanted: &str| {
        let choice = choose(work, Elem::Bf16, rows, columns);
        assert_eq!((choice.to_string(), choice.is_dense), (wanted.to_owned(), true), "{rows}x{columns}");
    };
    let wanted = "layernorm_dense T=bf16 N=67 J=7 G=4 L=128 V=8 Q=4";
    check_choice(Work::Layernorm, 200_000, 67, wanted);
    let copied = kernel(Work::Layernorm, Elem::Bf16, [200_000, 67]);
    assert!(copied.variants[0].source.contains("cp_async_16("), "{}", copied.variants[0].source);
    check_choice(Work::Softmax, 400_000, 25, "softmax_dense T=bf16 N=25 J=7 G=2 L=128 V=8 Q=7");
    for (index, columns) in [1, 7, 25, 63, 67, 75, 138, 203, 255].into_iter().enumerate() {
        for (at, work) in [Work::Softmax, Work::Layernorm, Work::Rmsnorm, Work::Gemv].into_iter().enumerate()
        {
            let choice = choose(work, ELEMS[1 + (index + at) % 2], 20_000_000 / columns, columns);
            let kernel = choice.def().and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"));
            // Less than a tile, and more than one.
            let rows = if (index + at) % 3 == 0 { 531 } else { 9 };
            check_kernel(&kernel, &choice.to_string(), [rows, columns], Values::Any);
        }
        check(Work::CumulativeSums, ELEMS[index % 3], [133, columns], Values::Any);
    }
    check(Work::CumulativeSums, Elem::Bf16, [9, 635], Values::Any);
}

#[test]
fn transposes() {
    for elem in ELEMS {
        for sizes in
            [[1, 1], [3, 31], [100, 1], [129, 65], [64, 136], [7, 600], [600, 16], [1001, 9], [40, 300]]
        {
            check(Work::Transpose, elem, sizes, Values::Any);
        }
        // Blocks along columns first.
        let constants = [("V", 1), ("C", 32), ("U", 1), ("D", 32), ("B", 64), ("E", 32), ("O", 1)];
        let def = kernels::named("transpose").unwrap().def.specialize(&constants, &[("T", elem)]);
        let kernel = def.and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"));
        check_kernel(&kernel, "transpose", [1001, 132], Values::Any);
    }
}

#[test]
fn rows() {
    for (index, work) in [Work::Softmax, Work::Layernorm, Work::Rmsnorm].into_iter().enumerate() {
        for (at, sizes) in SIZES.into_iter().enumerate() {
            // Every size with every kernel, and every type with each.
            check(work, ELEMS[(index + at) % 3], sizes, Values::Any);
        }
        // Rows of 16 bits that fill a multiprocessor with the fewest registers, not all of whose threads have elements.
        check(work, Elem::Bf16, [2, 7000], Values::Any);
        // Rows that are longer than registers, one and several blocks for each; odd ones of 16 bits are read twice.
        check(work, ELEMS[index], [2, 20_001], Values::Any);
        check(work, Elem::Bf16, [1, 40_002], Values::Any);
    }
}

/// Vectors that begin before a row, at rows of all lengths and distances: all variants, in tensors whose elements outside of
/// rows are poisoned.
#[test]
fn rows_that_begin_between_vectors() {
    let own: &[(&str, &[(&str, usize)])] = &[
        ("softmax_unaligned", &[("W", 512), ("L", 32)]),
        ("softmax_unaligned", &[("W", 256), ("L", 32), ("C", 2), ("G", 1), ("S", 2)]),
        ("layernorm_unaligned", &[("W", 512), ("L", 32), ("G", 1)]),
        ("rmsnorm_unaligned", &[("W", 256), ("L", 32), ("C", 2), ("G", 2)]),
        ("layernorm_unaligned", &[("W", 256), ("L", 32), ("C", 2), ("G", 0)]),
        ("rmsnorm_unaligned", &[("W", 512), ("L", 32), ("G", 0)]),
        ("softmax_long", &[("W", 512), ("L", 32), ("C", 1), ("G", 2), ("P", 2)]),
        ("layernorm_long", &[("W", 512), ("L", 32), ("C", 1), ("G", 2), ("P", 2)]),
        ("rmsnorm_long", &[("W", 512), ("L", 32), ("C", 1), ("G", 2), ("P", 2)]),
        ("cumulative_sums_vectors", &[("L", 32)]),
        ("cumulative_sums", &[("W", 256), ("L", 32), ("C", 2)]),
        ("cumulative_sums", &[("W", 256), ("L", 32), ("C", 2), ("A", 1)]),
        ("gemv_unaligned", &[("R", 2), ("W", 256), ("L", 32), ("C", 2)]),
        ("gemv_unaligned", &[("R", 2), ("W", 256), ("L", 32), ("C", 2), ("A", 1)]),
        ("gemv_unaligned", &[("R", 1), ("W", 768), ("L", 96), ("C", 2)]),
    ];
    for (name, constants) in own {
        for (elem, vector) in [(Elem::F32, 4), (Elem::Bf16, 8), (Elem::F16, 2)] {
            let mut constants = [constants, &[("V", vector)][..]].concat();
            if name.ends_with("_long") {
                constants.push(("S", vector));
            }
            if *name == "layernorm_long" {
                constants.push(("R", 2));
            }
            let def = kernels::named(name).unwrap().def.specialize(&constants, &[("T", elem)]);
            let kernel = def.and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"));
            for sizes in [[1, 1], [9, 3], [19, 7], [9, 63], [18, 257], [3, 256], [2, 505]] {
                check_kernel(&kernel, name, sizes, Values::Any);
            }
        }
    }
}

/// y = x moved by less than a vector: row i by i - 3 elements.
#[kernel(T = f32 | bf16 | u8)]
fn moved_rows<T, const V: usize = 4>(x: &Tensor<T, (M, N), (ldx, _1)>, y: &mut Tensor<T, (M, N), (ldy, _1)>) {
    let i = walk(M, block.x);
    let threads = layout!((1, 32));
    for k in 0..ceil_div(N, 32 * V) {
        let from = shift(tile(x, (1, 32 * V), (i, k)), (0, i - 3));
        let from = parallelize(from, threads, thread.x, values = (1, V));
        let own = registers_like(from, 0);
        copy(from, own, how = "realigned");
        copy(own, parallelize(tile(y, (1, 32 * V), (i, k)), threads, thread.x, values = (1, V)));
    }
}

/// Vectors that begin anywhere, at both ends of rows as well.
#[test]
fn realigned_vectors() {
    for (elem, vector) in [(Elem::F32, 4), (Elem::Bf16, 8), (Elem::U8, 16), (Elem::Bf16, 16)] {
        let def = moved_rows().def().specialize(&[("V", vector)], &[("T", elem)]);
        let kernel = def.and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"));
        assert!(kernel.variants[0].source.contains("funnel_shift("), "{elem}");
        for [rows, columns, gap] in [[9, 700, 0], [5, 703, 2], [7, 1, 0], [20, 40, 1], [2, 128, 0]] {
            let stride: usize = columns + gap;
            let x: Vec<u8> = (0..rows * stride).map(|at| (at * 7 % 127) as u8 + 1).collect();
            let wanted = |i: usize, j: usize| match (j + i).checked_sub(3).filter(|at| *at < columns) {
                Some(at) => x[i * stride + at],
                None => 0,
            };
            tilewright_codegen::with_element!(elem, T => {
                use tilewright_codegen::element::Element;
                let own: Vec<T> = x.iter().map(|x| T::from_raw(u64::from(*x))).collect();
                let rows_of = |of: Arg| of.strides([stride, 1]);
                let args = [rows_of(Arg::tensor(&own, [rows, columns])), rows_of(Arg::output::<T>([rows, columns]))];
                for done in every(&kernel, &args) {
                    let (y, size) = (done.bytes("y").unwrap(), elem.bytes() as usize);
                    for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
                        let got = &y[(i * stride + j) * size..][..size];
                        assert_eq!(got[0], wanted(i, j), "{elem} {rows}x{columns}: {i}, {j}");
                        assert!(got[1..].iter().all(|byte| *byte == 0), "{elem} {rows}x{columns}: {i}, {j}");
                    }
                }
            });
        }
    }
}

#[test]
fn sums() {
    for work in [Work::RowSums, Work::ColumnSums, Work::Gemv] {
        for (at, sizes) in SIZES.into_iter().enumerate() {
            check(work, ELEMS[at % 3], sizes, if at % 2 == 0 { Values::Any } else { Values::Whole });
        }
    }
    check(Work::ColumnSums, Elem::F32, [40, 8450], Values::Any); // two columns for each thread
    check(Work::Gemv, Elem::Bf16, [19, 266], Values::Any); // pairs
}

/// Pieces of columns have tiles of rows alternately, for numbers of rows that no tile divides.
#[test]
fn pieces_of_columns() {
    let given = [(37, 70, 8, 3, 32), (5, 9, 8, 2, 32), (64, 33, 16, 4, 32), (64, 35, 16, 3, 48)];
    let given = given.map(|(rows, columns, tile, pieces, lanes)| {
        (rows, columns, vec![("B", tile), ("Y", 2), ("V", 1), ("P", pieces), ("G", lanes)])
    });
    // Columns in one block, in two blocks, and by 512 threads.
    let chosen = [(4200, 132), (4200, 53), (600, 15)]
        .map(|(rows, columns)| (rows, columns, choose(Work::ColumnSums, Elem::F32, rows, columns).constants));
    for (rows, columns, constants) in given.into_iter().chain(chosen) {
        inputs(&text("column_sums", &constants))
            .with("x", f64::trunc)
            .written([&*format!("N = {columns}, M = {rows}")]);
    }
}

#[test]
fn cumulative_sums() {
    for (at, sizes) in SIZES.into_iter().chain([[1, 9000]]).enumerate() {
        let values = if at % 2 == 0 { Values::Any } else { Values::Whole };
        check(Work::CumulativeSums, ELEMS[at % 3], sizes, values);
    }
    // A cluster for each row.
    check(Work::CumulativeSums, Elem::F32, [1, 20_001], Values::Any);
    // Several rows for each lane, with vectors of four, two and one elements.
    for sizes in [[131, 40], [37, 46], [90, 18], [37, 266], [50, 41]] {
        check(Work::CumulativeSums, Elem::Bf16, sizes, Values::Any);
    }
}

/// In two launches: the sums of pieces, and each piece from those before it. Rows begin between vectors.
#[test]
fn cumulative_sums_in_pieces() {
    for (rows, columns, gap, tiles) in
        [(1, 1usize, 0, 1), (3, 257, 0, 1), (2, 1000, 3, 3), (5, 640, 0, 2), (1, 40_000, 0, 1)]
    {
        let stride = columns + gap;
        let kernel = |name| {
            let shipped = kernels::named(name).unwrap().def;
            let def =
                shipped.specialize(&[("L", 64), ("W", 256), ("V", 4), ("Q", tiles)], &[("T", Elem::F32)]);
            def.and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"))
        };
        let x: Vec<f32> = (0..rows * stride).map(|at| (at * 7 % 11) as f32 - 4.0).collect();
        let pieces = (columns + 3).div_ceil(256 * tiles);
        let given = Arg::tensor(&x, [rows, columns]).strides([stride, 1]);
        let sums = Arg::output::<f32>([rows, pieces]).strides([pieces, 1]);
        for first in every(&kernel("piece_sums"), &[given.clone(), sums]) {
            let sums = first.get::<f32>("sums").unwrap();
            let sums = Arg::tensor(&sums, [rows, pieces]).strides([pieces, 1]);
            let y = Arg::output::<f32>([rows, columns]).strides([stride, 1]);
            let args = [given.clone(), sums, y];
            for second in every(&kernel("cumulative_sums_of_pieces"), &args) {
                let y = second.get::<f32>("y").unwrap();
                for row in 0..rows {
                    let mut total = 0.0;
                    for column in 0..columns {
                        total += x[row * stride + column];
                        assert_eq!(y[row * stride + column], total, "{rows}x{columns}: {row}, {column}");
                    }
                }
            }
        }
    }
}

/// Sums of rows and products with a vector in two launches. Rows begin between vectors.
#[test]
fn sums_in_pieces() {
    let kernel = |name, constants: &[(&str, usize)]| {
        let def = kernels::named(name).unwrap().def.specialize(constants, &[("T", Elem::F32)]);
        def.and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"))
    };
    for (rows, columns, gap) in
        [(1usize, 1usize, 0usize), (3, 257, 0), (2, 1000, 3), (5, 640, 0), (1, 40_000, 0)]
    {
        let (stride, pieces) = (columns + gap, (columns + 3).div_ceil(256));
        let x: Vec<f32> = (0..rows * stride).map(|at| (at * 7 % 11) as f32 - 4.0).collect();
        let factors: Vec<f32> = (0..columns).map(|at| (at % 3) as f32 - 1.0).collect();
        let matrix = Arg::tensor(&x, [rows, columns]).strides([stride, 1]);
        let vector = Arg::tensor(&factors, [1, columns]).strides([columns, 1]);
        for (name, given) in
            [("piece_sums", vec![matrix.clone()]), ("piece_products", vec![matrix.clone(), vector.clone()])]
        {
            let weighted = given.len() > 1;
            let sums = Arg::output::<f32>([rows, pieces]).strides([pieces, 1]);
            let first = kernel(name, &[("L", 64), ("W", 256), ("V", 4)]);
            for first in every(&first, &[given, vec![sums]].concat()) {
                let sums = first.get::<f32>("sums").unwrap();
                let sums = Arg::tensor(&sums, [rows, pieces]).strides([pieces, 1]);
                let args = [sums, Arg::output::<f32>([rows, 1]).strides([1, rows])];
                for second in every(&kernel("sums_of_pieces", &[("L", 64)]), &args) {
                    for (row, y) in second.get::<f32>("y").unwrap().into_iter().enumerate() {
                        let own = x[row * stride..][..columns].iter().zip(&factors);
                        let wanted: f32 = own.map(|(x, f)| if weighted { x * f } else { *x }).sum();
                        assert_eq!(y, wanted, "{name} {rows}x{columns}: {row}");
                    }
                }
            }
        }
    }
}

/// Norms in two launches, from the sums of pieces: rows between vectors, far from 0, with gaps.
#[test]
fn norms_in_pieces() {
    for (rows, columns, gap) in
        [(1usize, 1usize, 0usize), (3, 257, 0), (2, 1000, 3), (5, 640, 0), (1, 9000, 0)]
    {
        let stride = columns + gap;
        let x: Vec<f32> = (0..rows * stride).map(|at| (at * 7 % 11) as f32 + 100.0).collect();
        let [w, b] = [3, 5].map(|by| (0..columns).map(|at| (at % by) as f32 - 1.0).collect::<Vec<f32>>());
        let pieces = (columns + 3).div_ceil(256);
        let matrix = Arg::tensor(&x, [rows, columns]).strides([stride, 1]);
        let line = |of: &[f32]| Arg::tensor(of, [1, columns]).strides([columns, 1]);
        let names = [
            ["piece_maxima", "softmax_of_pieces"],
            ["piece_moments", "layernorm_of_pieces"],
            ["piece_moments", "rmsnorm_of_pieces"],
        ];
        for (work, [first, second]) in names.into_iter().enumerate() {
            let kernel = |name| {
                let mut constants = vec![("L", 64), ("W", 256), ("V", 4)];
                constants.extend((name == "piece_moments").then_some(("A", usize::from(work == 1))));
                let def = kernels::named(name).unwrap().def.specialize(&constants, &[("T", Elem::F32)]);
                def.and_then(|def| def.generate()).unwrap_or_else(|why| panic!("{why}"))
            };
            let sums = Arg::output::<f32>([2 * rows, pieces]).strides([pieces, 1]);
            for done in every(&kernel(first), &[matrix.clone(), sums]) {
                let sums = done.get::<f32>("sums").unwrap();
                let sums = Arg::tensor(&sums, [2 * rows, pieces]).strides([pieces, 1]);
                let y = Arg::output::<f32>([rows, columns]).strides([stride, 1]);
                let mut args = vec![matrix.clone()];
                args.extend((work > 0).then(|| line(&w)));
                args.extend((work == 1).then(|| line(&b)));
                args.extend([sums, y]);
                args.extend((work > 0).then(|| Arg::number(1e-3f32)));
                for done in every(&kernel(second), &args) {
                    let y = done.get::<f32>("y").unwrap();
                    for row in 0..rows {
                        let own: Vec<f64> =
                            x[row * stride..][..columns].iter().map(|x| f64::from(*x)).collect();
                        let count = columns as f64;
                        let mean = own.iter().sum::<f64>() / count;
                        let squares = own.iter().map(|x| x * x).sum::<f64>() / count;
                        let variance = own.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
                        let total: f64 = own.iter().map(|x| (x - 110.0).exp()).sum();
                        for (column, x) in own.iter().enumerate() {
                            let (w, b) = (f64::from(w[column]), f64::from(b[column]));
                            let wanted = match work {
                                0 => (x - 110.0).exp() / total,
                                1 => (x - mean) / (variance + 1e-3).sqrt() * w + b,
                                _ => x / (squares + 1e-3).sqrt() * w,
                            };
                            let got = f64::from(y[row * stride + column]);
                            let right = (got - wanted).abs() <= 2e-5 * (1.0 + wanted.abs());
                            assert!(right, "{second} {rows}x{columns}: {row}, {column}: {got}, {wanted}");
                        }
                    }
                }
            }
        }
    }
}

/// In one launch: the last block waits for the sums of the others.
#[test]
fn the_sum_of_all() {
    for count in [0usize, 1, 31, 4096, 100_003] {
        let (kernel, blocks) =
            (kernel(Work::Sum, Elem::F32, [1, count]), kernels::memory::parts(Elem::F32, count));
        let x: Vec<f32> = (0..count).map(|at| (at * 7 % 11) as f32 - 4.0).collect();
        let args = [
            // No elements are no rows.
            Arg::tensor(&x, [count.min(1), count.max(1)]).strides([count.max(1), 1]),
            Arg::output::<f32>([1]),
            Arg::in_out(&vec![0u64; blocks], [blocks]),
        ];
        for outcome in every(&kernel, &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), [x.iter().sum::<f32>()], "{count}");
            assert!(outcome.get::<u64>("words").unwrap().iter().all(|word| *word == 0));
        }
    }
}

/// Each sum leaves out its own element; infinities and NaN do not reach back.
#[test]
fn sums_before() {
    let kernel = kernel(Work::SumsBefore, Elem::F32, [2, 5]);
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = [1.0, 2.0, inf, 4.0, 5.0, 1.0, nan, 3.0, 4.0, 5.0];
    let args = [Arg::tensor(&x, [10]), Arg::output::<f32>([10])];
    for outcome in run_every(&kernel, &args, &Options::default()).unwrap_or_else(|why| panic!("{why}")) {
        let y = outcome.get::<f32>("y").unwrap();
        assert_eq!(y[..7], [0.0, 1.0, 3.0, inf, inf, 0.0, 1.0]);
        assert!(y[7..].iter().all(|y| y.is_nan()), "{y:?}");
    }
}

/// A shipped kernel of `f32` with these constants.
#[track_caller]
fn text(name: &str, constants: &[(&str, usize)]) -> KernelDef {
    let def = &kernels::named(name).unwrap().def;
    let typed = def.specialize(constants, &[("T", Elem::F32)]).or_else(|_| def.specialize(constants, &[]));
    typed.unwrap_or_else(|why| panic!("{why}"))
}

#[track_caller]
fn every(kernel: &Generated, args: &[Arg]) -> Vec<tilewright_sim::Outcome> {
    run_every(kernel, args, &Options::default()).unwrap_or_else(|why| panic!("{why}"))
}

/// Rows that do not exist are zeros.
#[test]
fn rows_are_gathered() {
    let kernel = text("gather_rows", &[("W", 64), ("L", 32), ("V", 2)]);
    inputs(&kernel).rows("ids", 9).written([
        "K = 9, M = 1, N = 1",
        "K = 9, M = 5, N = 64",
        "K = 9, M = 7, N = 100",
        "K = 9, M = 8, N = 130",
    ]);
    // The evaluator has no coordinates of blocks outside of tiles.
    let (k, kernel) = (9, text("gather_unaligned", &[("W", 128), ("L", 32)]).generate().unwrap());
    for (m, n) in [(1, 1), (5, 64), (7, 100), (8, 130)] {
        let table: Vec<f32> = (0..k * n).map(|at| (at * 37 % 1009) as f32).collect();
        let mut ids: Vec<i32> = (0..m).map(|at| (at * 5 % k) as i32).collect();
        for (id, wrong) in ids.iter_mut().skip(2).step_by(3).zip([-1, k as i32, i32::MIN, i32::MAX]) {
            *id = wrong;
        }
        let args = [
            Arg::tensor(&table, [k, n]).strides([n, 1]),
            Arg::tensor(&ids, [m]),
            Arg::output::<f32>([m, n]).strides([n, 1]),
        ];
        let row = |id: &i32| match usize::try_from(*id) {
            Ok(id) if id < k => table[id * n..(id + 1) * n].to_vec(),
            _ => vec![0.0; n],
        };
        let wanted: Vec<f32> = ids.iter().flat_map(row).collect();
        for outcome in every(&kernel, &args) {
            assert_eq!(outcome.get::<f32>("y").unwrap(), wanted, "{m}x{n}");
        }
    }
}

/// Queries of zeros give all keys that they see the same weight: the result is the mean of their values.
#[test]
fn attention_sees_keys_up_to_its_own_or_all() {
    for name in ["attention", "attention_hopper"] {
        for (causal, d, sizes) in [
            (1, 64, "M = 5, N = 70"),
            (0, 64, "M = 5, N = 70"),
            (0, 128, "M = 70, N = 5"),
            (0, 64, "M = 130, N = 131"),
        ] {
            let kernel = text(name, &[("CAUSAL", causal), ("D", d)]);
            inputs(&kernel).set("scale = 0.1, L = 1").near(0.02, [sizes]);
        }
    }
}

/// Numbers that are no bin are not counted, and counts are added to the old contents.
#[test]
fn values_are_counted() {
    for (n, p, bins, range) in [(1, 1, 256, 300), (700, 3, 256, 256), (1500, 2, 100, 120), (513, 2, 256, 1)] {
        let kernel = text("histogram", &[("B", bins), ("P", p)]);
        let value = move |at, x: f64| if at % 50 == 0 { -x - 1.0 } else { x.rem_euclid(range.into()) };
        let inputs = inputs(&kernel).indexed("x", value).indexed("bins", |at, _| at as f64);
        inputs.written([&*format!("N = {}", n * p)]);
    }
}

#[test]
fn stencils() {
    for [l, m, n] in [[1, 1, 1], [3, 5, 7], [1, 9, 300], [5, 4, 129], [9, 6, 4]] {
        let sizes = format!("L = {l}, M = {m}, N = {n}, centre = -4, side = 0.5");
        let short: &[_] = &[("R", 2), ("S", 4), ("L", 32)];
        for (name, constants) in [("stencil_5", &[][..]), ("stencil_5", short), ("stencil_7", &[])] {
            inputs(&text(name, constants)).written([&*sizes]);
        }
    }
}

#[test]
fn bodies() {
    for n in [1, 7, 129, 300] {
        check(Work::Gravity, Elem::F32, [4, n], Values::Any);
    }
}

/// A NaN or an infinity affects only the elements that depend on it.
#[test]
fn infinities_and_nans() {
    let of = |rows: [[f32; 3]; 4]| {
        let kernel = kernel(Work::Softmax, Elem::F32, [4, 3]);
        let args =
            [Arg::tensor(&rows.concat(), [4, 3]).strides([3, 1]), Arg::output::<f32>([4, 3]).strides([3, 1])];
        let outcome = run(&kernel, &args, &Options::default()).unwrap_or_else(|why| panic!("{why}"));
        outcome.get::<f32>("y").unwrap()
    };
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let got = of([[0.0, -inf, 0.0], [inf, 1.0, 2.0], [nan, 0.0, 0.0], [1.0, 1.0, 1.0]]);
    assert_eq!(got[..3], [0.5, 0.0, 0.5]);
    assert!(got[3].is_nan() && got[6..9].iter().all(|x| x.is_nan()), "{got:?}");
    assert!(got[9..].iter().all(|x| (x - 1.0 / 3.0).abs() < 1e-6), "{got:?}");
}

/// A row that does not fit is refused before the launch.
#[test]
fn longer_rows_are_refused() {
    let softmax = kernels::named("softmax_row").unwrap().def.generate().unwrap();
    let x = vec![0.0f32; 8193];
    let args =
        [Arg::tensor(&x, [1, 8193]).strides([8193, 1]), Arg::output::<f32>([1, 8193]).strides([8193, 1])];
    let message = run(&softmax, &args, &Options::default()).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        message,
        "`N` is 8193, and the kernel is made for at most 8192\nhelp: at_most or assert in the kernel bounds it: choose larger constants there, or smaller tensors"
    );
}
