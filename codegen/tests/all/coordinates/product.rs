//! A product with configurable partitions: one block, tiles through shared memory, two k-tiles.

use tilewright_codegen::Elem;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::ast::Span;
use tilewright_codegen::build::Builder;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::Unroll;
use tilewright_codegen::tile::{Order, Program};
use tilewright_codegen::view::{At, Partition, View};
use tilewright_layout::{Layout, Swizzle, Tuple, Value};

/// How one view is partitioned.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) threads: Layout,
    pub(crate) keep: Option<Vec<bool>>,
    pub(crate) values: Vec<i64>,
    pub(crate) swizzle: Swizzle,
}

impl Part {
    pub(crate) fn of(threads: Layout) -> Part {
        Part { threads, keep: None, values: Vec::new(), swizzle: Swizzle::IDENTITY }
    }

    pub(crate) fn keeping(self, keep: &[bool]) -> Part {
        Part { keep: Some(keep.to_vec()), ..self }
    }
}

/// C = A·Bᵀ.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) extents: [&'static str; 3],
    /// Rows, columns, k.
    pub(crate) tile: [i64; 3],
    /// For each operand: the partitions of its tile in global and in shared memory.
    pub(crate) fill: [[Part; 2]; 2],
    /// Is the tile of an operand filled from a transposed view? It must be square.
    pub(crate) transposed: [bool; 2],
    /// For each operand of the product: which shared tile, and its partition.
    pub(crate) read: [(usize, Part); 2],
    pub(crate) store: Part,
    /// Is the tile of C transposed before it is partitioned? It must be square.
    pub(crate) store_transposed: bool,
}

impl Product {
    /// A correct product: layouts for the copies of A, for the copies of B, and for the arithmetic.
    pub(crate) fn new(tile: [i64; 3], ta: &Layout, tb: &Layout, tc: &Layout) -> Product {
        let own = |threads: &Layout| [Part::of(threads.clone()), Part::of(threads.clone())];
        let tc = Part::of(tc.clone());
        Product {
            extents: ["M", "N", "K"],
            tile,
            fill: [own(ta), own(tb)],
            transposed: [false; 2],
            read: [(0, tc.clone().keeping(&[true, false])), (1, tc.clone().keeping(&[false, true]))],
            store: tc,
            store_transposed: false,
        }
    }

    /// Two k-tiles, one tile of C.
    pub(crate) fn sizes(&self) -> [i64; 3] {
        [self.tile[0], self.tile[1], 2 * self.tile[2]]
    }

    /// Spans of statements: 1 (A's copy), 2 (B's), 5 (the product), 9 (the store).
    pub(crate) fn program(&self) -> Result<Program> {
        let mut b = Builder::new("product");
        let [m, n, k] = self.extents.map(Value::symbol);
        let a = b.tensor("a", Elem::F32, pair(m, k), None, false)?;
        let bt = b.tensor("b", Elem::F32, pair(n, k), None, false)?;
        let c = b.tensor("c", Elem::F32, pair(m, n), None, true)?;
        let [bm, bn, bk] = self.tile;
        let fixed = |rows: i64| pair(rows, bk);
        let shared = [
            b.shared("sa", Elem::F32, Layout::compact(fixed(bm))?)?,
            b.shared("sb", Elem::F32, Layout::compact(fixed(bn))?)?,
        ];
        let block = |axis| At::Index(Coord::Block(axis).into());
        let global = [
            b.tile(&a, (bm, bk), &[block(0), At::All])?.with_name("ga"),
            b.tile(&bt, (bn, bk), &[block(1), At::All])?.with_name("gb"),
        ];
        let gc = b.tile(&c, (bm, bn), &[block(0), block(1)])?.with_name("gc");
        let gc = if self.store_transposed { b.permute(&gc, &[1, 0])? } else { gc };
        let part = |b: &mut Builder, view: &View, part: &Part, name: &str| -> Result<View> {
            let partition = Partition {
                keep: part.keep.clone(),
                values: part.values.clone(),
                swizzle: part.swizzle,
                ..Partition::default()
            };
            Ok(b.parallelize_over(view, &part.threads, 0, &partition)?.with_name(name))
        };
        let mut fills = Vec::new();
        for (which, names) in [["ta_ga", "ta_sa"], ["tb_gb", "tb_sb"]].into_iter().enumerate() {
            let from = match self.transposed[which] {
                true => b.permute(&global[which], &[1, 0, 2])?,
                false => global[which].clone(),
            };
            let from = part(&mut b, &from, &self.fill[which][0], names[0])?;
            fills.push((from, part(&mut b, &shared[which], &self.fill[which][1], names[1])?));
        }
        let name = |which: usize| ["tc_sa", "tc_sb"][which];
        let [left, right] =
            [0, 1].map(|at| part(&mut b, &shared[self.read[at].0], &self.read[at].1, name(self.read[at].0)));
        let (left, right) = (left?, right?);
        let out = part(&mut b, &gc, &self.store, "tc_gc")?;
        let acc = b.registers_like("acc", &out, 0.0)?;
        let at = |b: &mut Builder, view: &View, step: &Affine| {
            b.slice(view, &[At::All, At::All, At::Index(step.clone())])
        };
        b.repeat("k", k.ceil_div(bk).unwrap_or_default(), Unroll::No, |b, step| -> Result<()> {
            for (which, (from, to)) in fills.iter().enumerate() {
                b.at(Span(1 + which as u32));
                let from = at(b, from, &step)?;
                b.copy(&from, to)?;
            }
            b.wait(None, 0);
            b.sync();
            b.at(Span(5)).gemm(&left, &right, &acc, Order::Plain)?;
            b.sync();
            Ok(())
        })?;
        b.at(Span(9)).copy(&acc, &out)?;
        Ok(b.finish())
    }
}

pub(crate) fn pair(x: impl Into<Value>, y: impl Into<Value>) -> Tuple {
    Tuple::of([Tuple::from(x.into()), Tuple::from(y.into())])
}
