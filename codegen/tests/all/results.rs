//! What kernels compute: every variant, on sizes that tiles divide and that they do not, compared with the kernel's text, which is
//! evaluated without the generator. The claims of index expressions are compared with their values.

use tilewright_codegen::text;
use tilewright_codegen::thread::{Fact, Kernel};
use tilewright_codegen::tile::Program;
use tilewright_codegen::{Definition, Generate, Generated, Settings, generate};
use tilewright_fuzz::case::{Case, Fit, Sizes};
use tilewright_fuzz::judge::{Plan, Verdict, judge};

use crate::claims;

/// The definition of a text; keys of its attribute may stand before it.
#[track_caller]
pub(crate) fn definition(text: &str) -> Definition {
    let attribute = if text.starts_with("#[kernel") { "" } else { "#[kernel]\n" };
    let (kernel, read) = tilewright_parse::file::read(&format!("{attribute}{text}"));
    assert!(read.problems.is_empty(), "{:?} in\n{text}", read.problems);
    Definition::Function(kernel.expect("a kernel"), Settings::default())
}

/// Each variant of the kernel computes what its text says.
#[track_caller]
fn check(text: &str) -> Generated {
    match judge(&definition(text), &Plan { seed: 7, runs: 1, sizes: Sizes::default() }) {
        Verdict::Right(right) => {
            assert!(right.ran.iter().any(|runs| *runs > 0), "no variant ran: {text}");
            for fit in [Fit::Whole, Fit::Any] {
                check_claims(&right.program, &right.kernel, fit);
            }
            right.kernel
        }
        Verdict::Wrong(wrong) => panic!("{}\n{:?}\n{text}", wrong.why, wrong.case.map(|case| case.text())),
        Verdict::Refused(why) | Verdict::Undefined(why) => panic!("{why}\n{text}"),
    }
}

fn check_claims(program: &Program, kernel: &Generated, fit: Fit) {
    // A stride of 0 is none that a kernel is launched with.
    let drawn = |seed| Case::draw(program, kernel, fit, seed, &Sizes::default());
    let is_usual = |case: &Case| case.symbols.iter().all(|(_, size)| *size > 0);
    let Some(case) = (0..20).filter_map(drawn).find(is_usual) else { return };
    let grid = case.grid(program).expect("a grid");
    let fits = |variant: &Kernel| {
        variant.needs.iter().all(|fact| match fact {
            Fact::Divides(need) => need.is_met(&|symbol| case.symbol(symbol)).unwrap_or(false),
            _ => true,
        })
    };
    let size = |name: &str| case.symbols.iter().find(|known| known.0.name() == name).expect("a size").1;
    for variant in kernel.variants.iter().filter(|variant| fits(&variant.program)) {
        claims::check(&variant.program, grid, &size);
    }
}

/// Strides of a matrix whose rows or columns are contiguous.
fn strides(by_rows: bool, name: &str) -> String {
    if by_rows { format!(", (ld{name}, _1)") } else { format!(", (_1, ld{name})") }
}

/// `z = x + y + z's row number`, 32 by 16 at a time, by the thread layout `t`.
fn added(rows: [bool; 3], [x, y, z]: [&str; 3], layout: &str, values: &str, registers: bool) -> String {
    let [sx, sy, sz] = [0, 1, 2].map(|at| strides(rows[at], ["x", "y", "z"][at]));
    let part = |name| {
        format!("parallelize(tile({name}, (32, 16), (block.x, block.y)), t, thread.x, values = {values})")
    };
    let statement = match registers {
        true => "let own = registers_like(z, 0.0); map((x, y), own, value); copy(own, z);",
        false => "map((x, y), z, value);",
    };
    format!(
        "fn added(x: &Tensor<{x}, (M, N){sx}>, y: &Tensor<{y}, (M, N){sy}>, z: &mut Tensor<{z}, (M, N){sz}>) {{
            let t = layout!({layout});
            let (x, y, z) = ({}, {}, {});
            let value = |x, y, at| x as {z} + y as {z} + at.0 as {z};
            {statement}
        }}",
        part("x"),
        part("y"),
        part("z")
    )
}

#[test]
fn functions_are_as_wide_as_layouts_allow() {
    const F32S: [&str; 3] = ["f32"; 3];
    const COLUMNS: &str = "(8, 16)";
    for registers in [false, true] {
        let check = |rows, elems, values, layout, width| {
            let text = added(rows, elems, layout, values, registers);
            let kernel = check(&text);
            assert!(kernel.source().contains(width), "{width} is not in\n{}", kernel.source());
        };
        // Vectors of four rows of a column, on all sides.
        check([false; 3], F32S, "(4, 1)", COLUMNS, "float4");
        // The thread layout has one element at a time.
        check([false; 3], F32S, "(1, 1)", "(32, 4)", "x[");
        // Vectors along rows.
        check([true; 3], F32S, "(1, 4)", "(32, 4) : (4, 1)", "float4");
        // y has the other order and is read element by element.
        check([false, true, false], F32S, "(4, 1)", COLUMNS, "float4");
        // Narrow elements: eight of bf16 are as wide as four of f32.
        check([false; 3], ["bf16"; 3], "(8, 1)", "(4, 16)", "uint4");
        check([false; 3], ["bf16", "f32", "f32"], "(4, 1)", COLUMNS, "uint2");
        // Blocks of two by two in nested modes.
        check([false; 3], F32S, "(2, 2)", "(8, 4)", "float2");
    }
}

/// Broadcast along a mode, from registers and from memory.
#[test]
fn broadcast_along_a_mode() {
    for bias in ["bias", "map(bias, |x| x)"] {
        check(&format!(
            "fn spread(x: &Tensor<f32, (M, N)>, bias: &Tensor<f32, N>, z: &mut Tensor<f32, (M, N)>) {{
                let t = layout!((8, 16));
                let x = parallelize(tile(x, (32, 16), (block.x, block.y)), t, thread.x, values = (4, 1));
                let z = parallelize(tile(z, (32, 16), (block.x, block.y)), t, thread.x, values = (4, 1));
                let bias = parallelize(tile(bias, 16, block.y), t, thread.x, (_, 1)).along(1);
                map((x, {bias}), z, |x, bias| x + bias);
            }}"
        ));
    }
}

/// Elements that are permuted within one fragment are not overwritten before they are read.
#[test]
fn fragments_are_permuted_in_place() {
    let (from, to) = ("permute(regroup(own, (2, 3)), (1, 0))", "regroup(own, (3, 2))");
    for statement in [format!("copy({from}, {to});"), format!("map({from}, {to}, |x| x);")] {
        check(&format!(
            "fn permuted(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {{
                let t = layout!(32);
                let own = registers::<f32>(6, 0.0);
                copy(parallelize(tile(x, 192, block.x), t, thread.x), own);
                {statement}
                copy(own, parallelize(tile(y, 192, block.x), t, thread.x));
            }}"
        ));
    }
}

/// A choice by a scalar is a branch, where one side alone reads an input from memory.
#[test]
fn what_one_side_of_a_choice_reads_is_read_there() {
    let kernel = check(
        "fn chosen(s: f32, x: &Tensor<f32, N>, y: &Tensor<f32, N>, z: &mut Tensor<f32, N>) {
            let t = layout!(256);
            let (x, y) = (parallelize(tile(x, 256, block.x), t, thread.x), parallelize(tile(y, 256, block.x), t, thread.x));
            map((x, y), parallelize(tile(z, 256, block.x), t, thread.x), |x, y| if s != 0.0 { x + y } else { x });
        }",
    );
    let (before, branch) = kernel.source().split_once("if (s != 0.0f) {").expect("a branch");
    let (then, other) = branch.split_once("} else {").expect("another branch");
    let reads = |text: &str| text.contains("= y[");
    assert!(!reads(before) && reads(then) && !reads(other), "{}", kernel.source());
}

/// `y[i] = the total of x's tile`, for every element of a tile of `threads * each`.
fn totals(elem: &str, threads: i64, each: i64, total: &str) -> String {
    let zero = if elem == "i32" { "0" } else { "0.0" };
    let part = |name| format!("parallelize(tile({name}, {}, block.x), t, thread.x)", threads * each);
    format!(
        "fn totals(x: &Tensor<{elem}, N>, y: &mut Tensor<{elem}, N>) {{
            let t = layout!({threads});
            let x = {};
            let own = registers_like(x, {zero});
            copy(x, own);
            map((own, {total}), {}, |own, total| total as {elem});
        }}",
        part("x"),
        part("y")
    )
}

#[test]
fn blocks_of_any_size_agree_on_one_total() {
    for (at, threads) in
        [1, 3, 31, 32, 33, 48, 64, 96, 100, 128, 255, 256, 1000, 1024].into_iter().enumerate()
    {
        let function = ["sum", "maximum", "minimum"][at % 3];
        check(&totals("f32", threads, 2, &format!("block_{function}({function}(own))")));
    }
}

/// Statements that write the tile that they read, at other coordinates: all elements are read before any is written.
#[test]
fn elements_are_read_before_any_is_written() {
    let shifts =
        ["0, 1", "1, 0", "-1, 0", "0, -1", "1, -1", "-2, 1"].map(|by| format!("shift(own, ({by}, 0))"));
    let tiles =
        ["(1, 4, 32), (0", "(1, 4, 32), (3", "(4, 1, 32), (0"].map(|at| format!("tile(own, {at}, 0, 0))"));
    let others =
        ["permute(own, (1, 0, 2))", "tile(own, (4, 1, 32), (0, 3, 0))", "tile(own, (1, 1, 32), (3, 0, 0))"];
    for source in shifts.into_iter().chain(tiles).chain(others.map(str::to_owned)) {
        for (parts, shared) in [(false, false), (false, true), (true, false), (true, true)] {
            let part = |of: &str| match parts {
                true => format!("parallelize({of}, t, thread.x)"),
                false => of.to_owned(),
            };
            let (source_part, own, whole) = (part(&source), part("own"), part("whole"));
            let mut statements = vec![format!("map((to, {source_part}), to, |a, b| a - 2.0 * b);")];
            if !source.starts_with("tile") {
                statements.push(format!("copy({source_part}, to);"));
            }
            for statement in statements {
                let (tile, before, after) = match shared {
                    true => (
                        "shared::<f32>((4, 4, 32))",
                        format!("map({whole}, to, |x| x);"),
                        format!("copy(to, {whole});"),
                    ),
                    false => ("whole", String::new(), String::new()),
                };
                let keys = if parts { "" } else { "threads = 32" };
                check(&format!(
                    "#[kernel({keys})]
                    fn moved(y: &mut Tensor<f32, (_4, _4, _32)>) {{
                        let t = layout!((1, 1, 32));
                        let whole = tile(y, (4, 4, 32), (0, 0, 0));
                        let own = {tile};
                        let to = {own};
                        {before} {statement} {after}
                    }}"
                ));
            }
        }
    }
}

/// Tiles and threads that do and do not divide one another.
const TILES: [(&str, i64); 10] = [
    ("(32, 64)", 128),
    ("(16, 16)", 64),
    ("(4, 128)", 256),
    ("(31, 7)", 96),
    ("(32, 8)", 32),
    ("(64, 64)", 1024),
    ("(5, 12)", 48),
    ("(8, 1)", 128),
    ("(1, 300)", 256),
    ("(128, 128)", 512),
];

/// `y = 2 x + 1`, through registers, shared memory or a loop, which writes the tile that it still reads.
fn moved(elems: [&str; 2], rows: [bool; 2], (tile, threads): (&str, i64), through: &str) -> String {
    let ([x, y], [sx, sy]) = (elems, [strides(rows[0], "x"), strides(rows[1], "y")]);
    let statements = match through {
        "registers" => format!("let t = full::<{x}>({tile}, 0.0); copy(x, t); copy(map(t, value), y);"),
        "shared" => format!("let s = shared::<{x}>({tile}); copy(x, s); map(s, y, value);"),
        "loop" => format!(
            "let s = shared::<{x}>({tile}); for i in 0..2 {{ copy(x, s, how = \"plain\"); copy(map(s, value), y); }}"
        ),
        _ => "map(x, y, value);".to_owned(),
    };
    format!(
        "#[kernel(threads = {threads})]
        fn moved(x: &Tensor<{x}, (M, N){sx}>, y: &mut Tensor<{y}, (M, N){sy}>) {{
            let (x, y) = (tile(x, {tile}, (block.x, block.y)), tile(y, {tile}, (block.x, block.y)));
            let value = |x| fma(2.0, x as {y}, 1.0);
            {statements}
        }}"
    )
}

#[test]
fn tiles_are_moved_between_all_memories() {
    const ELEMS: [&str; 4] = ["f32", "bf16", "f64", "f16"];
    for (n, tile) in TILES.into_iter().enumerate() {
        for (k, through) in ["nothing", "registers", "shared", "loop"].into_iter().enumerate() {
            let rows = [(n + k) % 2 == 0, (n / 2 + k) % 2 == 0];
            let elems = [ELEMS[(n + k) % 4], ELEMS[(n + 2 * k + usize::from(rows[0])) % 4]];
            check(&moved(elems, rows, tile, through));
        }
    }
}

/// Row or column sums, or the overall maximum, broadcast over y.
#[test]
fn tiles_are_reduced_along_every_mode() {
    for (tile, threads) in TILES {
        for (by_rows, function, mode) in [(true, "sum", ", 0"), (false, "maximum", ", 1"), (true, "sum", "")]
        {
            let strides = strides(by_rows, "x");
            check(&format!(
                "#[kernel(threads = {threads})]
                fn reduced(x: &Tensor<f32, (M, N){strides}>, y: &mut Tensor<f32, (M, N), (ldy, _1)>) {{
                    let t = map(tile(x, {tile}, (block.x, block.y)), |x| x);
                    map((t, {function}(t{mode})), tile(y, {tile}, (block.x, block.y)), |t, all| all - t);
                }}"
            ));
        }
    }
}

/// A product of whole tiles in a loop: on tensor cores, if warps are given.
struct Product {
    elem: &'static str,
    acc: &'static str,
    tile: [i64; 3],
    threads: i64,
    warps: Option<i64>,
    stages: i64,
    by_rows: [bool; 2],
    biased: bool,
}

const HALF: Product = Product {
    elem: "bf16",
    acc: "f32",
    tile: [64, 64, 32],
    threads: 128,
    warps: Some(4),
    stages: 3,
    by_rows: [true; 2],
    biased: false,
};

impl Product {
    fn text(&self) -> String {
        let Product { elem, acc, tile: [m, n, k], stages, .. } = self;
        let zero = if *acc == "i32" { "0" } else { "0.0" };
        let (keys, sums) = match self.warps {
            Some(warps) => (
                "arch = 90".to_owned(),
                format!(
                    "let mma = tiled_mma::<{elem}, {acc}>(warps = {warps});
                    let mut acc = mma.accumulators(({m}, {n}), {zero});"
                ),
            ),
            None => (
                format!("threads = {}", self.threads),
                format!("let mut acc = full::<{acc}>(({m}, {n}), {zero});"),
            ),
        };
        let [sa, sb] = [strides(self.by_rows[0], "a"), strides(self.by_rows[1], "b")];
        let (bias, result) = match self.biased {
            true => ("bias: &Tensor<f32, N>, ", format!("max(acc + tile(bias, {n}, block.y).along(1), 0.0)")),
            false => ("", "acc".to_owned()),
        };
        let over = match stages {
            0 => "0..ga.size(2)".to_owned(),
            stages => format!("pipelined(0..ga.size(2), stages = {stages})"),
        };
        format!(
            "#[kernel({keys})]
            fn product(a: &Tensor<{elem}, (M, K){sa}>, b: &Tensor<{elem}, (N, K){sb}>, {bias}c: &mut Tensor<{acc}, (M, N)>) {{
                let (ga, gb) = (tile(a, ({m}, {k}), (block.x, _)), tile(b, ({n}, {k}), (block.y, _)));
                let (sa, sb) = (shared::<{elem}>(({m}, {k})), shared::<{elem}>(({n}, {k})));
                {sums}
                for k in {over} {{
                    copy(ga[(_, _, k)], sa);
                    copy(gb[(_, _, k)], sb);
                    gemm(sa, sb, &mut acc);
                }}
                copy({result}, tile(c, ({m}, {n}), (block.x, block.y)));
            }}"
        )
    }
}

/// On CUDA cores and by instructions: orders of operands, tiles that are no powers of two, numbers of stages and of k-steps.
#[test]
fn products_of_whole_tiles_are_right() {
    let on_cores = Product { elem: "f32", warps: None, by_rows: [true, false], biased: true, ..HALF };
    for (tile, threads) in [([64, 64, 8], 64), ([32, 64, 16], 128), ([16, 16, 8], 256)] {
        for stages in [0, 3] {
            check(&Product { tile, threads, stages, ..on_cores }.text());
        }
    }
    for (at, (tile, warps)) in [
        ([64, 64, 32], 4),
        ([32, 64, 16], 2),
        ([64, 32, 64], 8),
        ([96, 48, 32], 3),
        ([48, 24, 48], 1),
        ([80, 40, 32], 5),
        ([16, 8, 16], 1),
    ]
    .into_iter()
    .enumerate()
    {
        let by_rows = [at % 2 == 0, at / 2 % 2 == 0];
        let (elem, acc) = [("bf16", "f32"), ("f16", "f32"), ("f64", "f64")][at % 3];
        // One k-step, two, three, four: an odd number does not carry over from tile to tile.
        let product = Product { elem, acc, tile, warps: Some(warps), by_rows, biased: acc == "f32", ..HALF };
        check(&Product { stages: 1 + at as i64 % 4, ..product }.text());
    }
}

/// What is generated, without a run.
#[track_caller]
pub(crate) fn generated(text: &str) -> Generated {
    definition(text).generate().kernel.expect("a kernel")
}

#[test]
fn accesses_are_wide_and_free_of_conflicts() {
    // Rows on both sides, and transposed: with vectors of 16 bytes, two rows share banks.
    for (rows, most) in [([true, true], 1), ([false, false], 1), ([true, false], 2)] {
        let kernel = generated(&moved(["f32"; 2], rows, ("(64, 64)", 256), "shared"));
        for access in kernel.report.accesses.iter().filter(|access| access.space == "shared") {
            let (taken, needed) = access.wavefronts.unwrap();
            assert!(taken <= most * needed, "{rows:?}: {access:?}");
        }
        assert!(kernel.source().contains("cp_async_16("), "{}", kernel.source());
    }
}

/// The chosen layouts have no bank conflicts: neither for the copy nor for the fragments.
#[test]
fn layouts_are_free_of_conflicts() {
    let lost = |kernel: &Generated, name: &str| -> u32 {
        let accesses = kernel.report.accesses.iter().filter(|access| access.tensor == name);
        accesses.filter_map(|access| access.wavefronts).map(|(taken, needed)| taken - needed).sum()
    };
    let large = generated(&Product { tile: [128, 128, 64], ..HALF }.text());
    assert!(large.source().contains("ldmatrix_x4("), "{}", large.source());
    assert_eq!(lost(&large, "sa") + lost(&large, "sb"), 0);
    for (elem, acc) in [("bf16", "f32"), ("i8", "i32"), ("f64", "f64")] {
        for by_rows in [true, false] {
            for (rows, k) in [(64, 32), (128, 32), (128, 64), (96, 32), (48, 64), (192, 96), (80, 32)] {
                for (name, tile) in [("sa", [rows, 16, k]), ("sb", [16, rows, k])] {
                    let by_rows = [by_rows; 2];
                    let product = Product { elem, acc, tile, warps: Some(1), stages: 1, by_rows, ..HALF };
                    let lost = lost(&generated(&product.text()), name);
                    // Bytes contiguous along M or N are gathered one by one: 4 registers of bytes of 4 rows.
                    let best = elem == "i8" && !by_rows[0];
                    assert!(lost == 0 || best, "{elem} {rows}x{k} {by_rows:?} {name}: loses {lost}");
                }
            }
        }
    }
}

#[test]
fn the_next_tile_begins_before_this_one_ends() {
    let kernel = generated(&HALF.text());
    let source = kernel.source();
    let next = source.find("const int k_next = min(k + 1,").expect("the next tile");
    assert!(source[next..].contains("mma_m16n8k16_bf16("), "{source}");
    assert_eq!(source.matches("__syncthreads()").count(), 2, "one before the loop, one in it: {source}");
}

#[test]
fn whole_tiles_have_a_text() {
    let texts = [
        Product { biased: true, ..HALF }.text(),
        moved(["f32"; 2], [true, false], ("(64, 64)", 256), "shared"),
    ];
    for program in texts.map(|text| definition(&text).program().expect("a program")) {
        let printed = text::print(&program);
        let read: Program = text::parse(&printed).unwrap_or_else(|wrong| panic!("{wrong}\n{printed}"));
        assert_eq!(text::print(&read), printed);
        let source = |program| generate(program).kernel.map(|kernel| kernel.source().to_owned());
        assert!(source(program).is_some_and(|made| source(read) == Some(made)), "{printed}");
    }
}

/// A product of 16 by 16 tiles by parts of threads, copied four elements at a time or one by one.
pub(crate) fn parts(values: i64, extra: &str, loops: &str) -> String {
    let threads = if values == 4 { "(4, 4)" } else { "(8, 4)" };
    let part = |tile: &str| format!("parallelize({tile}, t, thread.x, values = ({values}, 1))");
    let (ga, gb) = (part("tile(a, (16, 4), (block.x, _))"), part("tile(b, (16, 4), (block.y, _))"));
    let (ta, tb) = (part("sa"), part("sb"));
    format!(
        "fn parts(a: &Tensor<f32, (M, K)>, b: &Tensor<f32, (N, K)>, {extra}c: &mut Tensor<f32, (M, N)>) {{
            let t = layout!({threads});
            let (sa, sb) = (shared::<f32>(padded((16, 4), {values})), shared::<f32>(padded((16, 4), {values})));
            let (ga, gb, ta, tb) = ({ga}, {gb}, {ta}, {tb});
            let left = parallelize(sa, t, thread.x, (1, _));
            let right = parallelize(sb, t, thread.x, (_, 1));
            let out = parallelize(tile(c, (16, 16), (block.x, block.y)), t, thread.x);
            let mut acc = registers_like(out, 0.0);
            {loops}
            copy(acc, out);
        }}"
    )
}

/// A loop over k-tiles with these options, which takes this tile in iteration `k`.
pub(crate) fn tiles(options: &str, at: &str) -> String {
    format!(
        "for k in pipelined(0..ga.size(2), {options}) {{
            copy(ga[(_, _, {at})], ta);
            copy(gb[(_, _, {at})], tb);
            gemm(left, right, &mut acc);
        }}"
    )
}

#[test]
fn fragments_run_ahead() {
    for stages in 2..=4 {
        for (values, exits) in [(1, true), (4, true), (4, false)] {
            let options = format!("stages = {stages}, fragments = 2, exits = {exits}");
            let kernel = check(&parts(values, "", &tiles(&options, "k")));
            // The first fragment of the next iteration is loaded before this iteration's last product.
            let source = kernel.source();
            let fetched = source.find("const int k_next = min(k + 1,").expect("the next iteration");
            assert!(source[fetched..].contains("fmaf("), "{source}");
        }
    }
}

/// Copies that do not ascend with the iteration have no exits: the partial tile is not the last one.
#[test]
fn loops_that_run_backwards_are_whole() {
    check(&parts(1, "", &tiles("stages = 2, fragments = 2", "ga.size(2) - 1 - k")));
}

#[test]
fn shared_tensors_get_slots() {
    let kernel = generated(&parts(4, "", &tiles("stages = 3", "k")));
    let source = kernel.source();
    for part in [
        "(16,4,3):(1,20,76)",
        "cp_async_wait<1>();",
        "if (k + 2 < CEIL_DIV(K, 4)) {",
        "(k_ahead % 3) * sa_stride_2",
    ] {
        assert!(source.contains(part), "{part} is not in\n{source}");
    }
    // The fastest variant has no bounds checks.
    assert!(!source.contains("_or_zero"), "{source}");
    assert_eq!(source.matches("__syncthreads").count(), 1, "{source}");
}

/// Products that pass the checks of coordinates: threads in any order, side by side or swizzled, extents of one name.
#[test]
fn products_of_partitioned_operands_are_right() {
    let product = |[m, n, k]: [&str; 3], threads: &str, values: [&str; 2], fill: &str| {
        let [left, right] = ["sa, t, thread.x, (1, _)", "sb, t, thread.x, (_, 1)"]
            .map(|part| format!("parallelize({part}, values = {})", values[0]));
        check(&format!(
            "fn product(a: &Tensor<f32, ({m}, {k})>, b: &Tensor<f32, ({n}, {k})>, c: &mut Tensor<f32, ({m}, {n})>) {{
                let t = {threads};
                let f = layout!({fill});
                let (sa, sb) = (shared::<f32>(layout!((32, 8))), shared::<f32>(layout!((32, 8))));
                let ga = parallelize(tile(a, (32, 8), (block.x, _)), f, thread.x);
                let gb = parallelize(tile(b, (32, 8), (block.y, _)), f, thread.x);
                let (left, right) = ({left}, {right});
                let out = parallelize(tile(c, (32, 32), (block.x, block.y)), t, thread.x, values = {});
                let mut acc = registers_like(out, 0.0);
                for k in 0..ga.size(2) {{
                    copy(ga[(_, _, k)], parallelize(sa, f, thread.x));
                    copy(gb[(_, _, k)], parallelize(sb, f, thread.x));
                    cp_async_wait_all();
                    sync_threads();
                    gemm(left, right, &mut acc);
                    sync_threads();
                }}
                copy(acc, out);
            }}",
            values[1]
        ))
    };
    let (all, square) = (["M", "N", "K"], "layout!((16, 16))");
    let (single, pairs) = (["(1, 1)"; 2], ["(2, 1)", "(2, 2)"]);
    product(all, square, single, "(32, 8)");
    product(all, "layout!((16, 16) : (16, 1))", single, "(32, 8)");
    product(all, "layout!(((4, 4), (8, 2)) : ((1, 32), (4, 128)))", single, "(32, 8)");
    product(all, square, pairs, "(32, 8)");
    product(all, square, single, "(32, 8) : (8, 1)");
    product(["N", "N", "N"], square, single, "(32, 8)");
    product(["N", "N", "K"], square, single, "(32, 8)");
}

/// Elements may be rearranged, as long as the operands of each sum are partitioned alike.
#[test]
fn sums_of_rearranged_elements_are_right() {
    for [x, y, z] in [["t", "t", "t"], ["t", "t", "u"]] {
        let part = |name: &str, threads| {
            format!("parallelize(tile({name}, (32, 32), (block.x, block.y)), {threads}, thread.x)")
        };
        let (x, y, z) = (part("x", x), part("y", y), part("z", z));
        check(&format!(
            "fn sums(x: &Tensor<f32, (M, N)>, y: &Tensor<f32, (M, N)>, z: &mut Tensor<f32, (M, N)>) {{
                let t = layout!((16, 16));
                let u = layout!((16, 16) : (16, 1));
                copy(map(({x}, {y}), |x, y| x + y), {z});
            }}"
        ));
    }
}

/// A product to whose sums a tile or a bias is added, partitioned as the sums are.
#[test]
fn what_is_added_to_sums_is_partitioned_alike() {
    for (extents, tile, keep) in
        [("(M, N)", "(16, 16), (block.x, block.y)", ""), ("(N, L)", "(16, 1), (block.y, 0)", ", (_, 1)")]
    {
        // Elements of a bias are a row of the sums.
        let along = if keep.is_empty() { "" } else { "[(_, 0)].along(1)" };
        check(&format!(
            "fn added(a: &Tensor<f32, (M, _8)>, b: &Tensor<f32, (N, _8)>, d: &Tensor<f32, {extents}>, c: &mut Tensor<f32, (M, N)>) {{
                let t = layout!((16, 16));
                let ga = parallelize(tile(a, (16, 8), (block.x, 0)), t, thread.x, (1, _));
                let gb = parallelize(tile(b, (16, 8), (block.y, 0)), t, thread.x, (_, 1));
                let gd = parallelize(tile(d, {tile}), t, thread.x{keep});
                let gc = parallelize(tile(c, (16, 16), (block.x, block.y)), t, thread.x);
                let mut acc = registers_like(gc, 0.0);
                gemm(ga, gb, &mut acc);
                map((acc, gd{along}), acc, |acc, d| acc + d);
                copy(acc, gc);
            }}"
        ));
    }
}
