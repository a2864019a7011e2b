//! The epilogue of the product by wgmma: accumulators go through shared memory. From there bulk stores run
//! while the next tile is multiplied. Where bulk copies do not support C, threads store single elements:
//! neighbouring threads store neighbouring elements, whatever the leading dimension.

use tilewright_layout::{Layout, Tuple, Value as Size, layout};

use super::{Part, ROWS, SWIZZLED, Sizes, THREADS, last, shifted, swizzled, times};
use crate::build::Builder;
use crate::build::fragment::Arrangement;
use crate::build::tiled::Fill;
use crate::front::matmul::Config;
use crate::front::matmul::bulk::bulk_store;
use crate::front::matmul::product::{Extras, epilogue};
use crate::source::problem::{Problem, Result};
use crate::thread::atom::{Atom, OperandName};
use crate::thread::atoms;
use crate::thread::{Bin, Id, Unroll};
use crate::tile::view::{At, View};
use crate::tile::{Expr, How};

/// The fragment of 16x16 accumulators that stmatrix stores: wgmma's fragment, 16 columns at a time.
const FRAGMENT: (&str, OperandName, &str) = ("mma_m16n8k16_bf16", OperandName::A, "stmatrix_x4");

/// The instruction where C is contiguous along the rows of its tile.
const TRANSPOSED: &str = "stmatrix_x4_trans";

/// Columns of a block of 32-bit elements in shared memory. Four lanes store adjacent pairs of a row: in such
/// blocks there are no bank conflicts, as there would be in swizzled rows.
const BLOCK: i64 = 8;

/// Columns of a block, for elements of `bytes` bytes: bulk copies move rows of at least 16 bytes.
fn block(bytes: i64) -> i64 {
    BLOCK.max(16 / bytes)
}

/// Is C contiguous along the rows of the tile that is computed?
pub(super) fn along_rows(c: &Config) -> bool {
    c.c_rows != c.a_is_left()
}

/// The epilogue's shared memory: buffers of each warpgroup.
pub(super) struct Staging {
    buffers: View,
    /// Registers for elements of 16 bits, packed for stmatrix; others are stored from the accumulators.
    packed: Option<View>,
    /// How C is stored from there.
    leave: Leave,
}

/// How C is stored from shared memory.
enum Leave {
    /// By bulk stores, under this token.
    Bulk(Id),
    /// By the threads of a warpgroup, element by element.
    Threads(Box<Fill>),
}

impl Staging {
    /// With `direct`, threads store C.
    pub(super) fn new(
        b: &mut Builder,
        c: &Config,
        sizes: &Sizes,
        (direct, warpgroups): (bool, Id),
    ) -> Result<Staging> {
        let ((_, wide), bytes) = (sizes.store_parts(c.out), i64::from(c.out.bytes()));
        let count = sizes.buffers(c.out) * sizes.warpgroups();
        let (layout, packed) = match bytes {
            2 => {
                let (run, steps) = if along_rows(c) { (ROWS, (1i64, ROWS)) } else { (wide, (wide, 1i64)) };
                let rows = Layout::new((ROWS, wide, count), (steps.0, steps.1, ROWS * wide))?;
                let packed = b.registers_in("packed", c.out, Tuple::flat(&[8, 1, wide / 16]), true)?;
                (swizzled(c.out, run * bytes, rows)?, Some(packed))
            }
            _ if along_rows(c) => {
                let run = (SWIZZLED / bytes).min(ROWS);
                let shape = Tuple::of([(run, ROWS / run).into(), wide.into(), count.into()]);
                let stride = Tuple::of([(1i64, run * wide).into(), run.into(), (ROWS * wide).into()]);
                (swizzled(c.out, run * bytes, Layout::new(shape, stride)?)?, None)
            }
            _ => {
                let block = block(bytes);
                let shape = Tuple::of([ROWS.into(), (block, wide / block).into(), count.into()]);
                let stride = Tuple::of([block.into(), (1i64, ROWS * block).into(), (ROWS * wide).into()]);
                (Layout::new(shape, stride)?.into(), None)
            }
        };
        let buffers = b.shared("leaving", c.out, layout)?;
        let leave = match direct {
            false => Leave::Bulk(b.token()),
            true => {
                // Rows of a swizzled buffer, or of one of its blocks.
                let run = if packed.is_some() || along_rows(c) { wide } else { block(bytes) };
                let fill = Fill::of([ROWS, run], usize::from(!along_rows(c)), THREADS, 1)?;
                Leave::Threads(Box::new(Fill { of: warpgroups, how: How::Plain, ..fill }))
            }
        };
        Ok(Staging { buffers, packed, leave })
    }

    /// Waits until all bulk stores have read shared memory: a block must not exit before.
    pub(super) fn finish(&self, b: &mut Builder) {
        if let Leave::Bulk(stores) = self.leave {
            b.wait(stores);
        }
    }
}

/// Alpha and beta.
pub(super) type Scalars = Option<(Expr, Expr)>;

impl Part<'_> {
    /// The further arguments of the epilogue of a tile, for each accumulator of a thread. Scales and the bias are loaded
    /// while the last product runs. If matrices are read too, all loads are in flight together after it, in fewer
    /// registers.
    pub(super) fn extras(
        &self,
        b: &mut Builder,
        extras: &Extras,
        [row, column]: &[At; 2],
        early: bool,
    ) -> Result<Extras> {
        let ([bm, bn, _], c) = (self.sizes.tile, self.c);
        let (tile, at) = if c.a_is_left() { ([bm, bn], [row, column]) } else { ([bn, bm], [column, row]) };
        extras.tile(b, c, tile, at)?.parts(|view| {
            let view = if c.a_is_left() { view.clone() } else { b.permute(view, &[1, 0])? };
            let share = [At::Index(self.share(b)), At::Index(0.into())];
            let mine = b.tile(&view, (self.sizes.rows(), bn), &share)?.with_name(&view.name);
            let alone = Arrangement { groups: layout!((1, 1, 1)), of: self.warpgroups };
            let part = b.partition_mma(&mine, self.multiply, OperandName::D, &alone)?;
            if early { b.load_part(&part) } else { Ok(part) }
        })
    }

    /// The epilogue of a tile, 64 rows and some columns at a time.
    pub(super) fn store(
        &self,
        b: &mut Builder,
        (scalars, extras): (&Scalars, &Extras),
        acc: &View,
        tile: &View,
        staging: &Staging,
    ) -> Result<()> {
        let (c, bn, down) = (self.c, self.sizes.tile[1], self.sizes.rows() / ROWS);
        let (parts, wide) = self.sizes.store_parts(c.out);
        let (fragment, operand, _) = FRAGMENT;
        let by_warp = self.by_warp();
        // Accumulators of 16 columns, along M, along N.
        let by_columns = |b: &mut Builder, view: &View| {
            let view = b.regroup(view, (8i64, bn / 16, down))?;
            b.permute(&view, &[0, 2, 1])
        };
        let (sums, extras) = (by_columns(b, acc)?, extras.each(|view| by_columns(b, view))?);
        // Parts alternate buffers. With an odd number of parts a tile begins with the buffer of the last one.
        if parts % self.sizes.buffers(c.out) != 0 {
            staging.finish(b);
        }
        b.repeat("part", Size::Int(parts), Unroll::Full, |b, part| -> Result<()> {
            let (row, column) = (part.submode(bn / wide, None), part.submode(1, Some(bn / wide)));
            let mine = shifted(&times(&self.share(b), down)?, &row)?;
            let out = b.tile(tile, (ROWS, wide), &[At::Index(mine), At::Index(column.clone())])?;
            let at = [At::Index(0.into()), At::Index(row), At::Index(column)];
            let sums = b.tile(&sums, (8i64, 1i64, wide / 16), &at)?.with_name("sums");
            let extras = extras.each(|view| b.tile(view, (8i64, 1i64, wide / 16), &at))?;
            let elements = b.partition_mma(&out, row_of(fragment)?, operand, &by_warp)?.with_name("out");
            let of_part = |b: &mut Builder, to: &View| scaled(b, c, (scalars, &extras), &sums, &elements, to);
            let buffers = self.sizes.buffers(c.out);
            let buffer =
                shifted(&times(&b.member(self.warpgroups), buffers)?, &part.submode(1, Some(buffers)))?;
            let buffer = last(b, &staging.buffers, &buffer)?;
            // The buffer's previous elements must have been read.
            let freed = |b: &mut Builder| {
                if let Leave::Bulk(stores) = staging.leave {
                    b.wait_all_but(stores, buffers as u32 - 1);
                }
                b.sync();
            };
            match &staging.packed {
                Some(packed) => {
                    of_part(b, packed)?;
                    freed(b);
                    self.store_matrices(b, packed, &buffer)?;
                }
                None => {
                    let rows = b.partition_mma(&buffer, row_of(fragment)?, operand, &by_warp)?;
                    freed(b);
                    of_part(b, &rows.with_name("rows"))?;
                }
            }
            b.sync();
            match &staging.leave {
                Leave::Bulk(stores) => b.copy_how(&buffer, &out, bulk_store(c)?, Some(*stores)),
                Leave::Threads(fill) => b.fill_tile(fill, &buffer, &out),
            }
        })
    }

    /// Stores packed elements of 16 bits to a buffer by stmatrix.
    fn store_matrices(&self, b: &mut Builder, packed: &View, buffer: &View) -> Result<()> {
        let (fragment, operand, store) = FRAGMENT;
        let store = if along_rows(self.c) { TRANSPOSED } else { store };
        let (fragment, store) = (row_of(fragment)?, row_of(store)?);
        let rows = b.partition_rows(buffer, fragment, operand, store, &self.by_warp())?;
        b.copy_how(packed, &rows, How::Atom(store), None)
    }

    fn by_warp(&self) -> Arrangement {
        Arrangement { groups: layout!((4, 1, 1)), of: self.warpgroups }
    }
}

fn row_of(name: &str) -> Result<&'static Atom> {
    atoms::find(name).ok_or_else(|| Problem::new("no such instruction"))
}

/// The epilogue of accumulators on their way to `to`; `before` is C as it was.
pub(super) fn scaled(
    b: &mut Builder,
    c: &Config,
    (scalars, extras): (&Scalars, &Extras),
    sums: &View,
    before: &View,
    to: &View,
) -> Result<()> {
    let plain = c.sum();
    match scalars {
        None => epilogue(b, c, sums, (before, to), extras, plain, None),
        Some((alpha, beta)) => {
            let scaled = Expr::Bin(Bin::Mul, Box::new(alpha.clone()), Box::new(plain));
            epilogue(b, c, sums, (before, to), extras, scaled, Some(beta.clone()))
        }
    }
}
