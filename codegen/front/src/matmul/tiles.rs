//! Products in f32 on CUDA cores without keys for the tile: the tiles among which a launch chooses, each with its schedule
//! as keys. It does not know how a product is computed.

use super::product::{self, CLUSTERS};
use super::{Config, Made, Reader};
use crate::source::ast::Arg;
use crate::source::problem::{Problem, Result};
use crate::tile::Program;
use crate::tile::alternative::{Alternative, Policy};
use crate::values::elem::Elem;

/// A tile and its schedule.
struct Tile {
    /// The keys about both.
    keys: &'static str,
    /// Does it have the schedule [`STAGED`]?
    is_staged: bool,
    /// The numbers of parts of K, where the blocks of a cluster split K.
    splits: &'static [i64],
    /// The same of variants for rows that are not aligned to vectors.
    narrow: &'static [i64],
    /// Blocks that a multiprocessor has room for.
    resident: u32,
}

/// The schedule of tiles that have variants for rows that are not aligned: both operands pass through registers, so that
/// K-contiguous operands are transposed on the way.
const STAGED: &str = "staged=both values=(4,4) vec=4 stages=2 fragments=2 order=row_serpentine";

/// A tile with the schedule [`STAGED`].
const fn tile(keys: &'static str, [splits, narrow]: [&'static [i64]; 2], resident: u32) -> Tile {
    Tile { keys, is_staged: true, splits, narrow, resident }
}

/// The tiles. Wide tiles with many results for each thread read shared memory least; smaller ones fill all multiprocessors. Third
/// modes of thread layouts, and clusters, split K where there are few tiles; thin tiles are for few rows or columns.
const TILES: [Tile; 9] = [
    Tile {
        is_staged: false,
        ..tile(
            "bm=128 bn=256 bk=8 tc=swizzled(2,0,-2,((4,2),(8,4)):((1,32),(4,64))) values=(4,4) vec=4 pad=4 stages=4 \
         fragments=2 order=row_serpentine",
            [&[1], &[]],
            1,
        )
    },
    tile("bm=128 bn=256 bk=8 tc=swizzled(2,0,-2,((4,2),(8,4)):((1,32),(4,64)))", [&[1, 4], &[1, 2, 4, 8]], 1),
    tile("bm=128 bn=128 bk=8 tc=swizzled(2,0,-2,((4,2),(8,2)):((1,32),(4,64)))", [&[1], &[1]], 2),
    tile("bm=128 bn=64 bk=32 tc=swizzled(2,0,-2,((4,2),8,4):((1,32),4,64))", [&[1, 2], &[1, 2, 4, 8]], 1),
    tile("bm=64 bn=64 bk=32 tc=swizzled(2,0,-2,((4,2),8,2):((1,32),4,64))", [&[1], &[1, 2]], 3),
    tile("bm=64 bn=32 bk=64 tc=swizzled(2,0,-2,((4,2),4,8):((1,16),4,32))", [&[1], &[1, 2, 4, 8]], 1),
    tile(
        "bm=64 bn=32 bk=32 tc=swizzled(2,0,-2,((4,2),4,4):((1,16),4,32))",
        [&[2, 4, 8, 16], &[1, 2, 8, 16]],
        3,
    ),
    tile("bm=16 bn=64 bk=32 tc=(2,8,8):(1,2,16)", [&[1, 4, 8, 16], &[1, 4, 16]], 3),
    tile("bm=64 bn=16 bk=32 tc=(8,2,8):(1,8,16)", [&[1, 4, 8, 16], &[1, 8]], 3),
];

/// Has a product of these keys the tiles of the table? It has if no key is about tiles or threads.
pub(super) fn suit(reader: &Reader<'_>, c: &Config) -> bool {
    reader.leaves_open(&[]) && [c.dtype, c.b_dtype, c.acc] == [Elem::F32; 3]
}

/// The keys of the tiles, as texts.
pub(super) fn texts() -> impl Iterator<Item = String> {
    TILES.iter().map(|tile| format!("{} {}", tile.keys, if tile.is_staged { STAGED } else { "" }))
}

/// The programs of all tiles that the architecture has shared memory for: the first one, and the others.
pub(super) fn programs(args: &[Arg], config: &Config) -> Result<(Program, Vec<Alternative>)> {
    let (mut aligned, mut narrow) = (Vec::new(), Vec::new());
    let keys = config.texts.tiles.as_ref().map_err(Problem::clone)?;
    for (tile, keys) in TILES.iter().zip(keys).filter(|(tile, _)| tile.suits(config)) {
        let args = [args, keys].concat();
        let of = |narrow| {
            let args = &args;
            move |&split_k: &i64| tile.program(args, config, (split_k, narrow)).ok()
        };
        let all = |splits: &'static [i64]| match splits {
            [_, ..] if config.arch < CLUSTERS => &[1],
            _ => splits,
        };
        aligned.extend(all(tile.splits).iter().filter_map(of(false)));
        narrow.extend(all(tile.narrow).iter().filter_map(of(true)));
    }
    let first = aligned.first().cloned().ok_or_else(|| Problem::new("there is no tile"))?;
    let mut others: Vec<Alternative> = aligned.into_iter().skip(1).map(Alternative::aligned).collect();
    // The first also has 64-bit offsets: vectors of unknown alignment would be copied as single elements, at another cost.
    let mut policies = vec![Policy::Small, Policy::General];
    for program in narrow {
        others.push(Alternative::new(program, std::mem::replace(&mut policies, vec![Policy::Small])));
    }
    Ok((first, others))
}

impl Tile {
    /// Copies of single words transpose where copies go straight into shared memory, which is slower.
    fn suits(&self, c: &Config) -> bool {
        self.is_staged || !(c.a_rows || c.b_rows)
    }

    /// The program of a product, with K split over `split_k` blocks, and copies of single elements or of vectors.
    fn program(&self, args: &[Arg], config: &Config, (split_k, narrow): (i64, bool)) -> Made<Program> {
        let args = [args, &[Arg::of_number("split_k", split_k)]].concat();
        let mut reader = Reader::new(&args, config.texts);
        let config = reader.config(narrow).filter(|_| reader.errors.is_empty());
        let config = config.ok_or_else(|| Problem::new("a tile has wrong keys"))?;
        // Where several blocks fit a multiprocessor, blocks that start early are distributed unevenly. Tiles whose K is split are few.
        let overlaps = Some(config.overlaps(self.resident == 1 || split_k > 1));
        let config = Config { overlaps, ..config };
        let program = product::program(&config, &args)?;
        Ok(Program { competes: true, ..program })
    }
}
