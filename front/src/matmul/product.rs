//! What a product on CUDA cores needs of its keys.

use tilewright_layout::{Composed, Layout};

use super::blame::{Blame, put_by_keys};
use super::threads::Copies;
use super::{Config, page};
use crate::source::ast::Arg;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::tile::ALIGN;
use crate::tile::Program;
use crate::tile::slots::with_slots;
use crate::values::target::Target;

/// Bytes of the narrowest asynchronous copy.
pub(super) const WORD: i64 = 4;

/// The architecture from which on there are clusters.
pub(super) const CLUSTERS: u32 = 90;

/// Numbers of blocks that split K. A number that is not a power of two would leave blocks without an equal part of a tile.
const SPLITS: [i64; 5] = [1, 2, 4, 8, 16];

/// Why a cluster cannot have this number of blocks that split K.
pub(super) fn no_split(split: i64) -> Option<Problem> {
    let message = format!("K is split over the blocks of a cluster, at most 16, and split_k is {split}");
    (!SPLITS.contains(&split)).then(|| Problem::new(message).help("write split_k = 2, 4, 8 or 16"))
}

/// The program, or the error at its key.
pub(super) fn program(c: &Config, args: &[Arg]) -> std::result::Result<Program, Diagnostic> {
    c.checked().map_err(|(key, problem)| put_by_keys(problem, &Blame { key, sizes: [key; 2] }, args, c))?;
    page::threads::program(c, args)
}

impl Config {
    /// Is an operand copied through registers? By its key, or where it is copied ahead in fewer bytes than cp.async moves.
    pub(super) fn is_staged(&self, side: usize) -> bool {
        let Copies { vec, staged, narrow, .. } = &self.copies;
        let is_short = vec[side] * i64::from(self.dtype.bytes()) < WORD;
        staged[side] || (is_short && self.ahead.stages > 1 && !narrow)
    }

    /// Groups of threads, each with a part of K.
    pub(super) fn groups(&self) -> i64 {
        self.tc.modes().nth(2).map_or(Ok(1), |mode| mode.size()).unwrap_or(1)
    }

    /// Are accumulators combined or reordered in shared memory?
    pub(super) fn gathers(&self) -> bool {
        self.groups() > 1 || self.split_k > 1 || self.scatters()
    }

    /// The first key whose value the others do not allow, and why.
    fn checked(&self) -> std::result::Result<(), (&'static str, Problem)> {
        let Copies { vec, tiles, .. } = &self.copies;
        for (side, (rows, key)) in [(self.a_rows, "sa"), (self.b_rows, "sb")].into_iter().enumerate() {
            if !rows {
                aligned(&tiles[side], vec[side]).map_err(|problem| (key, problem))?;
            }
        }
        match self.unfit_split().or_else(|| self.exceeds()) {
            Some(wrong) => Err(wrong),
            None => Ok(()),
        }
    }

    /// Would a warp's stores of its own accumulators, one by one, be uncoalesced? If shared memory has room
    /// they are reordered there.
    fn scatters(&self) -> bool {
        let run = self.values[usize::from(self.c_rows)];
        let bytes = || Ok::<i64, Problem>(self.bytes_of_tiles()? + self.bytes_of_parts()?);
        self.copies.narrow
            && run > 1
            && bytes().is_ok_and(|bytes| bytes <= i64::from(Target::of(self.arch).block_shared))
    }

    /// Bytes of shared memory for the tiles of all stages.
    fn bytes_of_tiles(&self) -> Result<i64> {
        let slots = i64::from(self.ahead.stages);
        let bytes = |tile| -> Result<i64> {
            let bytes = with_slots(tile, slots)?.cosize()? * i64::from(self.dtype.bytes());
            Ok(bytes.cast_unsigned().next_multiple_of(ALIGN.into()).cast_signed())
        };
        self.copies.tiles.iter().map(bytes).sum()
    }

    /// Bytes of shared memory for the sums of groups of threads.
    fn bytes_of_parts(&self) -> Result<i64> {
        Ok(self.parts()?.cosize()? * i64::from(self.acc.bytes()))
    }

    /// Why the blocks of a cluster cannot split K, and the key that is wrong.
    fn unfit_split(&self) -> Option<(&'static str, Problem)> {
        let (split, (key, shared)) =
            (self.split_k, if self.c_rows { ("bm", self.tile[0]) } else { ("bn", self.tile[1]) });
        let wrong = |key, message: String, help: &str| Some((key, Problem::new(message).help(help)));
        if let Some(problem) = no_split(split) {
            return Some(("split_k", problem));
        }
        if split > 1 && self.arch < CLUSTERS {
            return wrong(
                "split_k",
                format!(
                    "the blocks of a cluster split K, which sm_{CLUSTERS} has first, and arch is {}",
                    self.arch
                ),
                "write arch = 90, or split K over the threads of a block by a third mode of tc",
            );
        }
        if shared % split != 0 {
            return wrong(
                key,
                format!(
                    "each of {split} blocks adds and stores an equal part of a tile, and {key} is {shared}"
                ),
                &format!("write {key} = {}, or a smaller split_k", (shared / split).max(1) * split),
            );
        }
        None
    }

    /// Why shared memory does not suffice, and the key that is wrong.
    fn exceeds(&self) -> Option<(&'static str, Problem)> {
        let room = i64::from(Target::of(self.arch).block_shared);
        let tiles = self.bytes_of_tiles().ok()?;
        let stages = self.ahead.stages;
        if tiles > room {
            let count = if stages == 1 { "1 stage takes".into() } else { format!("{stages} stages take") };
            let message = format!("{count} {tiles} bytes of shared memory, and a block has {room}");
            return Some(("stages", Problem::new(message).help("write fewer stages, or a smaller bk")));
        }
        let groups = self.groups();
        let gathers = groups > 1 || self.split_k > 1;
        let parts = self.bytes_of_parts().ok().filter(|parts| gathers && tiles + parts > room)?;
        let (key, of, help) = match groups {
            1 => ("bm", "a tile".into(), "write smaller bm and bn"),
            _ => (
                "tc",
                format!("{groups} parts of K"),
                "write a smaller third mode of tc, or smaller bm and bn",
            ),
        };
        let message = format!(
            "the sums of {of} take {parts} bytes of shared memory beside {tiles} of tiles, and a block has {room}"
        );
        Some((key, Problem::new(message).help(help)))
    }

    /// Adjacent elements of a thread along these modes of a product: rows, columns, K.
    pub(super) fn values_of(&self, modes: [usize; 2]) -> [i64; 2] {
        modes.map(|mode| self.values.get(mode).copied().unwrap_or(1))
    }

    /// The shared layout of the accumulators of groups of threads: columns or rows are padded by one access, which avoids bank
    /// conflicts along the other mode.
    pub(super) fn parts(&self) -> Result<Layout> {
        let ([bm, bn, _], wide, groups) = (self.tile, self.wide(), self.groups());
        let all = match self.c_rows {
            true => Layout::new((bm, bn, groups), (bn + wide, 1i64, bm * (bn + wide)))?,
            false => Layout::new((bm, bn, groups), (1i64, bm + wide, bn * (bm + wide)))?,
        };
        Ok(if self.tc.rank() > 2 { all } else { Layout::from_modes(all.modes().take(2))? })
    }

    /// Accumulators in 16 bytes.
    fn wide(&self) -> i64 {
        16 / i64::from(self.acc.bytes())
    }
}

/// Checks that a shared tile allows vectors of `vec` elements: they must be contiguous, and columns aligned.
fn aligned(layout: &Composed, vec: i64) -> Result<()> {
    let mut strides = layout.layout().leaves().map(|(_, stride)| stride.factor());
    let first = strides.next();
    match strides.find(|stride| stride % vec != 0) {
        _ if vec == 1 => Ok(()),
        None if first == Some(1) => Ok(()),
        odd => Err(Problem::new(format!(
            "copies of {vec} elements need a shared layout whose first stride is 1 and whose others are multiples of {vec}, and this is {}",
            odd.map_or_else(|| layout.to_string(), |stride| format!("{layout}: the stride {stride} is not a multiple"))
        ))
        .help(format!("pad by a multiple of {vec}, or write vec = 1"))),
    }
}
