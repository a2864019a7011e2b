//! Tiled products of the builder: results for every order of operands and many shapes, layouts without bank
//! conflicts, diagnostics.

use crate::common::{Args, assert_close, numbers, result, rounded};
use tilewright_codegen::affine::Coord;
use tilewright_codegen::atom::OperandName;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::resolve::{Width, distribute};
use tilewright_codegen::tile::{Order, Program};
use tilewright_codegen::tiled::{Fill, TiledMma};
use tilewright_codegen::view::At;
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Layout, Tuple, Value, layout};

/// A product whose operands are contiguous along K or not.
#[derive(Clone, Copy)]
struct Case {
    elem: Elem,
    acc: Elem,
    tile: [i64; 3],
    warps: i64,
    stages: u32,
    by_rows: [bool; 2],
}

impl Case {
    fn mma(&self) -> Result<TiledMma> {
        TiledMma::best(self.elem, self.acc, 90, [self.tile[0], self.tile[1]], self.warps)
    }

    fn program(&self) -> Result<Program> {
        let (mut b, mma) = (Builder::new("product"), self.mma()?);
        let [bm, bn, bk] = self.tile;
        let mut tiles = Vec::new();
        for (at, (name, extent, rows)) in [("a", "M", bm), ("b", "N", bn)].into_iter().enumerate() {
            let (by_rows, ld) = (self.by_rows[at], Value::symbol(&format!("ld{name}")));
            let stride = if by_rows { [ld, 1.into()] } else { [1.into(), ld] };
            let sizes = [Value::symbol(extent), Value::symbol("K")];
            let [sizes, stride] = [sizes, stride].map(|of| Tuple::of(of.map(Tuple::from)));
            let global = b.tensor(name, self.elem, sizes, Some(stride), false)?;
            let block = At::Index(Coord::Block(at as u8).into());
            let from = b.tile(&global, (rows, bk), &[block, At::All])?;
            tiles.push((from, b.shared_tile(&format!("s{name}"), self.elem, (rows, bk))?));
        }
        let sizes = Tuple::of([Value::symbol("M"), Value::symbol("N")].map(Tuple::from));
        let c = b.tensor("c", self.acc, sizes, None, true)?;
        let blocks = [0, 1].map(|axis| At::Index(Coord::Block(axis).into()));
        let gc = b.tile(&c, (bm, bn), &blocks)?;
        let acc = b.sums("acc", &mma, [bm, bn])?;
        let steps = Value::symbol("K").ceil_div(bk).unwrap_or_default();
        b.pipelined("k", steps, self.stages, |b, k| -> Result<()> {
            for (from, to) in &tiles {
                let from = b.slice(from, &[At::All, At::All, At::Index(k.clone())])?;
                b.copy(&from, to)?;
            }
            b.gemm(&tiles[0].1, &tiles[1].1, &acc, Order::Plain)
        })?;
        b.copy(&acc, &gc)?;
        Ok(b.finish())
    }

    /// Every variant, against sums in double precision.
    #[track_caller]
    fn check(&self, [m, n, k]: [i64; 3]) {
        let ld = [if self.by_rows[0] { k } else { m }, if self.by_rows[1] { k } else { n }];
        let all = |count: i64, seed| -> Vec<f64> {
            numbers(count as usize, seed).iter().map(|x| rounded((x * 4.0).trunc(), self.elem)).collect()
        };
        let (a, b) = (all(m * k, 1), all(n * k, 2));
        let at = |by_rows: bool, row: i64, l: i64, rows: i64| {
            (if by_rows { row * k + l } else { row + l * rows }) as usize
        };
        let wanted: Vec<f64> = (0..m * n)
            .map(|mn| {
                let (i, j) = (mn % m, mn / m);
                (0..k).map(|l| a[at(self.by_rows[0], i, l, m)] * b[at(self.by_rows[1], j, l, n)]).sum()
            })
            .collect();
        let sizes = [("M", m), ("N", n), ("K", k), ("lda", ld[0]), ("ldb", ld[1]), ("ldc", m)];
        let args = sizes.into_iter().fold(Args::default(), |args, (name, size)| args.size(name, size));
        let args = args.array("a", a).array("b", b).array("c", vec![f64::NAN; (m * n) as usize]);
        assert_close(&result(self.program().unwrap(), &args, "c"), &wanted, 1e-6);
    }
}

const HALF: Case =
    Case { elem: Elem::Bf16, acc: Elem::F32, tile: [64, 64, 32], warps: 4, stages: 3, by_rows: [true, true] };

#[test]
fn every_order_of_the_operands() {
    for by_rows in [[true, true], [true, false], [false, true], [false, false]] {
        for (elem, acc) in [(Elem::Bf16, Elem::F32), (Elem::F16, Elem::F32), (Elem::F64, Elem::F64)] {
            let case = Case { elem, acc, by_rows, ..HALF };
            for sizes in [[64, 64, 32], [64, 128, 96], [72, 40, 56]] {
                case.check(sizes);
            }
        }
    }
}

#[test]
fn every_number_of_stages_and_of_k_steps() {
    for stages in 1..=4 {
        // One k-step, two, three, four: an odd number does not carry over from tile to tile.
        for bk in [16, 32, 48, 64] {
            let case = Case { tile: [32, 32, bk], warps: 2, stages, ..HALF };
            case.check([40, 24, 104]);
        }
    }
}

#[test]
fn tiles_that_are_no_powers_of_two() {
    for (tile, warps) in [([96, 48, 32], 3), ([48, 24, 48], 1), ([80, 40, 32], 5), ([16, 8, 16], 1)] {
        for by_rows in [[true, true], [false, false]] {
            let case = Case { tile, warps, by_rows, ..HALF };
            case.check([tile[0] + 8, tile[1], 2 * tile[2] + 8]);
        }
    }
}

/// The chosen layouts have no bank conflicts: neither for the copy nor for the fragments.
#[test]
fn layouts_are_free_of_conflicts() {
    let mut tried = 0;
    for (elem, acc) in [(Elem::Bf16, Elem::F32), (Elem::I8, Elem::I32), (Elem::F64, Elem::F64)] {
        for by_rows in [true, false] {
            for (rows, k) in [(64, 32), (128, 32), (128, 64), (96, 32), (48, 64), (192, 96), (80, 32)] {
                for (name, tile) in [("sa", [rows, 16, k]), ("sb", [16, rows, k])] {
                    let case = Case { elem, acc, tile, warps: 1, stages: 1, by_rows: [by_rows; 2] };
                    let kernel = generate(case.program().unwrap()).kernel.unwrap();
                    let of_tile = kernel.report.accesses.iter().filter(|access| access.tensor == name);
                    let lost: u32 = of_tile
                        .filter_map(|access| access.wavefronts)
                        .map(|(taken, needed)| taken - needed)
                        .sum();
                    // Bytes contiguous along M or N are gathered one by one: 4 registers of bytes of 4 rows.
                    let best = elem == Elem::I8 && !by_rows;
                    assert!(lost == 0 || best, "{elem} {rows}x{k} {by_rows} {name}: loses {lost}");
                    tried += 1;
                }
            }
        }
    }
    assert_eq!(tried, 84);
}

#[test]
fn the_next_tile_begins_before_this_one_ends() {
    let source = generate(HALF.program().unwrap()).kernel.unwrap().source().to_owned();
    let next = source.find("const int k_next = min(k + 1,").expect("the next tile");
    assert!(source[next..].contains("mma_m16n8k16_bf16("), "{source}");
    assert_eq!(source.matches("__syncthreads()").count(), 2, "one before the loop, one in it: {source}");
}

#[track_caller]
fn refused<T: std::fmt::Debug>(of: Result<T>, expected: &str) {
    let problem = of.expect_err("accepted");
    assert_eq!(format!("{}\n{}", problem.message, problem.help.unwrap_or_default()), expected);
}

#[test]
fn refusals_have_help() {
    let best = |elem, acc, tile, warps| TiledMma::best(elem, acc, 80, tile, warps);
    refused(
        best(Elem::Bf16, Elem::F32, [40, 64], 4),
        "4 warps cannot share a tile of 40x64 by products of 16x8\nuse a tile whose extents are multiples of 16 and 8",
    );
    refused(
        best(Elem::Bf16, Elem::F32, [32, 16], 3),
        "3 warps cannot share a tile of 32x16 by products of 16x8\nwrite warps = 1 or 2 or 4, or another tile",
    );
    refused(
        best(Elem::I32, Elem::I32, [64, 64], 4),
        "no matrix instruction of sm_80 multiplies i32 into sums of i32\nthey multiply f64, f16, bf16, i8, u8, tf32; other types are multiplied on CUDA cores: full::<i32>((BM, BN), 0) for the sums",
    );
    refused(
        best(Elem::I8, Elem::F32, [64, 64], 4),
        "no matrix instruction of sm_80 multiplies i8 into sums of f32\nsum in i32",
    );
    refused(
        TiledMma::new("wgmma_m64n64k16_bf16", &layout!((1, 1, 1))),
        "`wgmma_m64n64k16_bf16` is not a matrix product of one warp\ntake an instruction whose name begins with `mma_`",
    );
    refused(
        TiledMma::new("mma_m16n8k16_bf61", &layout!((1, 1, 1))),
        "there is no matrix instruction `mma_m16n8k16_bf61`\ndid you mean `mma_m16n8k16_bf16`?",
    );
    refused(
        TiledMma::new("mma_m16n8k16_bf16", &layout!((2, 1, 2))),
        "(2,1,2):(1,2,2) has warps share K, and their sums would have to be added up\nwrite 1 for the third mode",
    );
    let mut b = Builder::new("refused");
    let mma = best(Elem::Bf16, Elem::F32, [64, 64], 4).unwrap();
    let tile = |b: &mut Builder, name: &str, elem, rows: i64, k: i64| {
        b.shared(name, elem, Layout::row_major((rows, k)).unwrap()).unwrap()
    };
    let (wrong, odd) = (tile(&mut b, "wrong", Elem::F16, 64, 32), tile(&mut b, "odd", Elem::Bf16, 40, 32));
    refused(
        b.partition_operand(&mma, OperandName::A, &odd),
        "mode 0 of `odd` has 40 elements, which 2 warps do not share in parts of 16, as `mma_m16n8k16_bf16` takes them along M\nuse a multiple of 32",
    );
    let acc = b.sums("acc", &mma, [64, 64]).unwrap();
    b.gemm(&wrong, &wrong, &acc, Order::Plain).unwrap();
    let why = distribute(b.finish(), Width::WIDEST).expect_err("accepted");
    assert_eq!(
        why.text(),
        "`mma_m16n8k16_bf16` multiplies bf16, and `wrong` has elements of f16\nhelp: convert it first: `map(wrong, |x| x as bf16)`"
    );
    refused(
        Fill::of([64, 36], 1, 128, 8),
        "36 elements side by side cannot be copied 8 at once\nuse a tile whose contiguous extent is a multiple of 8, or narrower copies",
    );
}
