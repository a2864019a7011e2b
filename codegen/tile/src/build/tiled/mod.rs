//! Products of whole tiles by warps or warpgroups: the instruction, their arrangement over the tile, the loads of fragments
//! from shared memory, and layouts of shared tiles without bank conflicts ([`SharedUses`]).
//!
//! ```
//! use tilewright_codegen::tile::Order;
//! use tilewright_codegen::{Elem, affine::Coord, build::Builder, generate, problem::Problem, tiled::TiledMma, view::At};
//! use tilewright_layout::{Tuple, Value};
//!
//! // C = A·Bᵀ, rows contiguous.
//! let mut b = Builder::new("product");
//! let rows = |ld: &str| Some(Tuple::of([Value::symbol(ld).into(), Tuple::from(1)]));
//! let (m, n, k) = (Value::symbol("M"), Value::symbol("N"), Value::symbol("K"));
//! let a = b.tensor("a", Elem::Bf16, (m, k), rows("lda"), false)?;
//! let bt = b.tensor("b", Elem::Bf16, (n, k), rows("ldb"), false)?;
//! let c = b.tensor("c", Elem::F32, (m, n), rows("ldc"), true)?;
//! let (bx, by) = (At::Index(Coord::Block(0).into()), At::Index(Coord::Block(1).into()));
//! let ga = b.tile(&a, (128, 32), &[bx.clone(), At::All])?;
//! let gb = b.tile(&bt, (128, 32), &[by.clone(), At::All])?;
//! let gc = b.tile(&c, (128, 128), &[bx, by])?;
//! let (sa, sb) = (b.shared_tile("sa", Elem::Bf16, (128, 32))?, b.shared_tile("sb", Elem::Bf16, (128, 32))?);
//!
//! // Four warps, 64x64 each.
//! let mma = TiledMma::best(Elem::Bf16, Elem::F32, 80, [128, 128], 4)?;
//! let acc = b.sums("acc", &mma, [128, 128])?;
//! b.pipelined("k", k.ceil_div(32).unwrap(), 3, |b, k| {
//!     for (from, to) in [(&ga, &sa), (&gb, &sb)] {
//!         let from = b.slice(from, &[At::All, At::All, At::Index(k.clone())])?;
//!         b.copy(&from, to)?;
//!     }
//!     b.gemm(&sa, &sb, &acc, Order::Plain)
//! })?;
//! b.copy(&acc, &gc)?;
//! let source = generate(b.finish()).kernel.unwrap().source().to_owned();
//! assert!(source.contains("ldmatrix_x4(") && source.contains("mma_m16n8k16_bf16("));
//! # Ok::<(), Problem>(())
//! ```

mod bulk;
mod fill;
mod operand;
mod scales;
mod shared;
mod terms;

use crate::isa::atom::OperandName;
use tilewright_layout::{Tuple, Value};

use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::tile::view::View;
use crate::tile::{Multiply, Order};
use crate::values::elem::Elem;
use crate::values::id::Id;

pub use crate::tile::tiled_mma::PAD;
pub use crate::tile::tiled_mma::{Terms, TiledMma};
pub use bulk::{SWIZZLED, row_of, rows_of};
pub use bulk::{swizzled_tile, to_next_box};
pub use fill::Fill;
pub use operand::converts;
pub use scales::Scaling;
pub use shared::SharedUses;

impl Builder {
    /// The elements of a tile of an operand (`a`, `b`, or `d` for the accumulators) that a thread has.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, build::Builder, tiled::TiledMma};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::best(Elem::F16, Elem::F32, 80, [64, 64], 4)?;
    /// let sa = b.shared("sa", Elem::F16, layout!((64, 32) : (40, 1)))?;
    /// assert_eq!(b.partition_operand(&mma, OperandName::A, &sa)?.shape().to_string(), "((2,2,2),2,2)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn partition_operand(&mut self, mma: &TiledMma, operand: OperandName, view: &View) -> Result<View> {
        self.occupy(mma.of, mma.threads()?, view)?;
        let part = mma.part(view, operand)?;
        mma.lane(&part, mma.tile_of(operand).0, &mma.tv(operand)?)
    }

    /// Registers of the shape of a partition, packed in words where the elements are narrow.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, build::Builder, tiled::TiledMma};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let mma = TiledMma::new("mma_m16n8k16_f16", &layout!((2, 2, 1)))?;
    /// let sa = b.shared("sa", Elem::F16, layout!((64, 32) : (32, 1)))?;
    /// let part = b.partition_operand(&mma, OperandName::A, &sa)?;
    /// assert_eq!(b.fragment("fa", Elem::F16, &part)?.shape().to_string(), "(8,2,2)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn fragment(&mut self, name: &str, elem: Elem, partition: &View) -> Result<View> {
        let flat: Option<Vec<i64>> = partition.extents();
        let flat = flat.ok_or_else(|| Problem::new("a fragment needs a partition of known size"))?;
        self.registers_in(name, elem, Tuple::flat(&flat), elem.bits() < 32)
    }

    /// Registers for an operand (`a`, `b` or `d`) of a matrix product over a tile that is not in memory: accumulators, or values
    /// computed from them.
    ///
    /// ```
    /// # use tilewright_codegen::atom::OperandName;
    /// # use tilewright_codegen::{Elem, isa, build::Builder, tiled::{Terms, TiledMma}};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let row = isa::find("wgmma_m64n128k16_ra_bf16").unwrap();
    /// let mma = TiledMma { row, groups: layout!((2, 1, 1)), of: 0, pairs: None, terms: Terms::One };
    /// let scores = b.operand("scores", &mma, OperandName::D, [128, 128])?;
    /// let weights = b.operand("weights", &mma, OperandName::A, [128, 128])?;
    /// assert_eq!(scores.shape().to_string(), "(64,1,1)");
    /// assert_eq!(weights.shape().to_string(), "(8,1,8)"); // eight values for each 16 along K
    /// assert_eq!(b.elem(&weights), Elem::Bf16);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn operand(
        &mut self,
        name: &str,
        mma: &TiledMma,
        operand: OperandName,
        tile: [i64; 2],
    ) -> Result<View> {
        let tile = View::whole(Id::MAX, name, &Tuple::flat(&tile))?;
        let part = self.partition_operand(mma, operand, &tile)?;
        let missing = || Problem::new(format!("`{}` has no matrix operand `{operand}`", mma.row.name));
        let elem = mma.row.operand(operand).ok_or_else(missing)?.elem;
        self.fragment(name, elem, &part)
    }

    /// `acc(m, n) += a(m, k) · b(n, k)` for whole tiles in shared memory, and a thread's accumulators. Fragments are loaded with the
    /// longest vectors that their layouts allow, one k-step ahead of the multiplication. If the product is the whole body of a
    /// pipelined loop, loads run ahead across tiles too. An operand may also be in registers, as (values, fragments, k-steps), and may
    /// have scales, by which its elements are multiplied after their conversion.
    pub fn multiply(
        &mut self,
        mma: &TiledMma,
        [a, b]: [&View; 2],
        acc: &View,
        scales: [Option<Scaling>; 2],
    ) -> Result<()> {
        self.occupy(mma.of, mma.threads()?, acc)?;
        let left = self.operand_of(mma, OperandName::A, a, scales[0]).map_err(|problem| problem.arg(1))?;
        let right = self.operand_of(mma, OperandName::B, b, scales[1]).map_err(|problem| problem.arg(2))?;
        let counts = [left.count()?, right.count()?];
        if left.steps != right.steps || acc.extents().unwrap_or_default().get(1..) != Some(&counts[..]) {
            return Err(Problem::internal(format!(
                "`{}` is not of `{}` times `{}`",
                acc.name, a.name, b.name
            )));
        }
        let promoting = match mma.terms {
            Terms::One => None,
            Terms::Two => Some(self.promoting(mma, acc, left.steps)?),
        };
        // Two slots of registers (double buffering), unless there is only one k-step.
        let stages = left.steps.min(2) as u32;
        self.pipelined("kk", Value::Int(left.steps), stages, |b, kk| {
            left.load(b, &kk)?;
            right.load(b, &kk)?;
            let (of_a, of_b) = (left.fragment_at(b, &kk)?, right.fragment_at(b, &kk)?);
            let how = promoting.as_ref();
            let (of_a, of_b) =
                (b.terms(&left, of_a, mma.terms, how)?, b.terms(&right, of_b, mma.terms, how)?);
            left.scale(b, &of_a[0], &kk)?;
            right.scale(b, &of_b[0], &kk)?;
            match &promoting {
                Some(promoting) => b.multiply_terms(mma, [&of_a, &of_b], acc, promoting, &kk),
                None => b.gemm_how(&of_a[0], &of_b[0], acc, Multiply::Atom(mma.row), Order::Plain, None),
            }
        })
    }
}
