//! Tile programs by hand: warp-specialised wgmma as text, and mma.sync with cp.async written with the builder.

use tilewright_codegen::affine::Coord;
use tilewright_codegen::atom::OperandName;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::{Problem, Result};
use tilewright_codegen::thread::Unroll;
use tilewright_codegen::tile::{Expr, How, Multiply, Op, Order, Program};
use tilewright_codegen::tiled::TiledMma;
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, isa, text};
use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value, layout};

fn sizes(names: [&str; 2]) -> Tuple {
    Tuple::of(names.map(|name| Tuple::from(Value::symbol(name))))
}

/// Rows contiguous: `(ld, 1)`.
fn rows(ld: &str) -> Option<Tuple> {
    Some(Tuple::of([Value::symbol(ld).into(), Tuple::from(1)]))
}

/// C = A·Bᵀ in bf16 with f32 sums: a producer warp fills a two-stage ring by bulk tensor copies, a warpgroup
/// consumes it with wgmma. One 64x64 tile of C per block, BK = 64 per stage. No text of the language has its groups.
pub fn wgmma_ring() -> Result<Program> {
    parsed(include_str!("programs/wgmma_ring.txt"))
}

/// The tile program of a text.
pub(crate) fn parsed(text: &str) -> Result<Program> {
    text::parse(text).map_err(|wrong| Problem::new(wrong.to_string()))
}

/// C = A·Bᵀ in bf16 with f32 sums on sm_80: a two-stage cp.async pipeline, ldmatrix, mma.sync; four warps on
/// a 64x64 tile of C, BK = 32 per stage.
pub fn mma_sync() -> Result<Program> {
    const STAGES: i64 = 2;
    let (m, n, k) = (64i64, 64i64, 32i64);
    let mut b = Builder::new("mma_sync");
    b.arch(80);
    let a = b.tensor("a", Elem::Bf16, sizes(["M", "K"]), rows("lda"), false)?;
    let bt = b.tensor("b", Elem::Bf16, sizes(["N", "K"]), rows("ldb"), false)?;
    let c = b.tensor("c", Elem::F32, sizes(["M", "N"]), rows("ldc"), true)?;

    // Rows of 64 bytes, swizzled in units of 16 bytes: neither writes nor ldmatrix have bank conflicts.
    let swizzle = Swizzle::new(2, 3, 3)?;
    let slots = |rows: i64| -> Result<Composed> {
        Ok(Composed::new(swizzle, 0, Layout::new((rows, k, STAGES), (k, 1i64, rows * k))?))
    };
    let sa = b.shared("sa", Elem::Bf16, slots(m)?)?;
    let sb = b.shared("sb", Elem::Bf16, slots(n)?)?;
    let (bx, by) = (At::Index(Coord::Block(0).into()), At::Index(Coord::Block(1).into()));
    let ga = b.tile(&a, (m, k), &[bx.clone(), At::All])?.with_name("ga");
    let gb = b.tile(&bt, (n, k), &[by.clone(), At::All])?.with_name("gb");
    let gc = b.tile(&c, (m, n), &[bx, by])?.with_name("gc");

    // 128 threads, each with eight elements of a row: 16 bytes.
    let threads = layout!((32, 4) : (4, 1));
    let partition = Partition { values: vec![1, 8], ..Partition::default() };
    let part = |b: &mut Builder, view: &View, name: &str| -> Result<View> {
        Ok(b.parallelize_over(view, &threads, 0, &partition)?.with_name(name))
    };
    let (ta_ga, ta_sa) = (part(&mut b, &ga, "ta_ga")?, part(&mut b, &sa, "ta_sa")?);
    let (tb_gb, tb_sb) = (part(&mut b, &gb, "tb_gb")?, part(&mut b, &sb, "tb_sb")?);

    let mma = TiledMma::new("mma_m16n8k16_bf16", &layout!((2, 2)))?;
    let out = b.partition_operand(&mma, OperandName::D, &gc)?.with_name("out");
    let acc = b.fragment("acc", Elem::F32, &out)?;
    b.fill(&acc, Expr::lit(0.0))?;

    let steps = Value::symbol("K").ceil_div(k).unwrap_or_default();
    let at = |view: &View, b: &mut Builder, index: &tilewright_codegen::affine::Affine| {
        b.slice(view, &[At::All, At::All, At::Index(index.clone())])
    };
    let fetch = |b: &mut Builder, step: &tilewright_codegen::affine::Affine| -> Result<()> {
        let slot = step.submode(1, Some(STAGES));
        for (from, to) in [(&ta_ga, &ta_sa), (&tb_gb, &tb_sb)] {
            let (from, to) = (at(from, b, step)?, at(to, b, &slot)?);
            b.copy(&from, &to)?;
        }
        b.statement(Op::CommitCopies);
        Ok(())
    };
    fetch(&mut b, &0.into())?;
    b.repeat("k", steps, Unroll::No, |b, step| -> Result<()> {
        let ahead = step.plus(&1.into(), 1).unwrap_or_default();
        fetch(b, &ahead)?;
        b.wait(None, 1);
        b.sync();
        let slot = step.submode(1, Some(STAGES));
        let (slot_a, slot_b) = (at(&sa, b, &slot)?, at(&sb, b, &slot)?);
        let mut loaded = |of: &View, operand, name: &str, mover: &str| -> Result<View> {
            let part = b.partition_operand(&mma, operand, of)?;
            let fragment = b.fragment(&format!("f{name}"), Elem::Bf16, &part)?;
            let rows = b.partition_operand_rows(&mma, operand, of, mover)?.with_name(&format!("rows_{name}"));
            let to = b.retile(&fragment, &rows)?;
            b.copy_how(&rows, &to, How::Atom(isa::named(mover)?), None)?;
            Ok(fragment)
        };
        let fa = loaded(&slot_a, OperandName::A, "a", "ldmatrix_x4")?;
        let fb = loaded(&slot_b, OperandName::B, "b", "ldmatrix_x2")?;
        b.gemm_how(&fa, &fb, &acc, Multiply::Atom(mma.row), Order::Plain, None)?;
        b.sync();
        Ok(())
    })?;
    b.copy(&acc, &out)?;
    Ok(b.finish())
}
