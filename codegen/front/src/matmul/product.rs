//! What a product on CUDA cores needs of its keys.

use tilewright_layout::{Composed, Layout, Swizzle};

use super::blame::{Unfit, blamed, checks, nearest};
use super::threads::Copied;
use super::{Config, page};
use crate::build::fits;
use crate::source::ast::{Arg, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::tile::ALIGN;
use crate::tile::Program;
use crate::tile::slots::with_slots;
use crate::tile::view::partition::{nearest_divisors, numbered, permuted};
use crate::values::target::{BLOCK_THREADS, Target};

/// Bytes of the narrowest asynchronous copy.
pub(super) const WORD: i64 = 4;

/// The architecture from which on there are clusters.
pub(super) const CLUSTERS: u32 = 90;

/// Why a cluster cannot have this number of blocks that split K.
pub(super) fn no_split(split: i64) -> Option<Unfit> {
    checks! {
        !(1..=16).contains(&split) => "split_k",
            format!("K is split over the blocks of a cluster, at most 16, and split_k is {split}"),
            "write split_k = 2, 4, 8 or 16";
    }
    .next()
}

/// The program, or the error at its key.
pub(super) fn program(c: &Config, args: &[Arg]) -> std::result::Result<Program, Diagnostic> {
    if let Some((key, problem)) = c.unfit().or_else(|| c.unshared(args)) {
        return Err(problem.at(blamed(args, key).map_or(Span::default(), |value| value.span)));
    }
    page::threads::program(c)
}

impl Config {
    /// Is an operand copied through registers? By its key, or where it is copied ahead in fewer bytes than cp.async moves.
    pub(super) fn is_staged(&self, side: usize) -> bool {
        let of = &self.copies[side].of;
        let is_short = of.vec * i64::from(self.dtype.bytes()) < WORD;
        of.staged || (is_short && self.ahead.stages > 1 && !self.narrow)
    }

    /// Groups of threads, each with a part of K.
    pub(super) fn groups(&self) -> i64 {
        self.tc.modes().nth(2).map_or(Ok(1), |mode| mode.size()).unwrap_or(1)
    }

    /// Are accumulators combined or reordered in shared memory?
    pub(super) fn gathers(&self) -> bool {
        self.groups() > 1 || self.split.blocks() > 1 || self.scatters()
    }

    /// The first key whose value the others do not allow, and why.
    fn unfit(&self) -> Option<Unfit> {
        let (split, arch) = (self.split.blocks(), self.arch);
        let (side, shared) = if self.c_rows { ("bm", self.tile[0]) } else { ("bn", self.tile[1]) };
        let unaligned = ["sa", "sb"].into_iter().zip(&self.copies).flat_map(|(key, copied)| {
            let vec = copied.of.vec;
            let odd = if copied.of.rows { None } else { unaligned(&copied.tile, vec) };
            checks! {
                odd.is_some() => key,
                    format!("copies of {vec} elements need a shared layout whose first stride is 1 and whose others are multiples of {vec}, and this is {}", odd.unwrap_or_default()),
                    format!("pad by a multiple of {vec}, or write vec = 1");
            }
        });
        let (room, stages) = (i64::from(Target::of(arch).block_shared), self.ahead.stages);
        let [tiles, parts] = self.bytes().unwrap_or_default();
        let count = if stages == 1 { "1 stage takes".into() } else { format!("{stages} stages take") };
        let (of_sums, of, help) = match self.groups() {
            1 => ("bm", "a tile".into(), "write smaller bm and bn"),
            groups => (
                "tc",
                format!("{groups} parts of K"),
                "write a smaller third mode of tc, or smaller bm and bn",
            ),
        };
        unaligned.chain(no_split(split)).chain(checks! {
            self.split.is_of_grid() => "split_k",
                "blocks of the grid divide K in products by wgmma, and this one runs on CUDA cores",
                "write split_k = 4, for a cluster, or leave it out";
            split > 1 && arch < CLUSTERS => "split_k",
                format!("the blocks of a cluster split K, which sm_{CLUSTERS} has first, and arch is {arch}"),
                "write arch = 90, or split K over the threads of a block by a third mode of tc";
            shared % split != 0 => side,
                format!("each of {split} blocks adds and stores an equal part of a tile, and {side} is {shared}"),
                format!("write {side} = {}, or a smaller split_k", nearest(shared, split));
            tiles > room => "stages", format!("{count} {tiles} bytes of shared memory, and a block has {room}"),
                "write fewer stages, or a smaller bk";
            (self.groups() > 1 || split > 1) && tiles + parts > room => of_sums,
                format!("the sums of {of} take {parts} bytes of shared memory beside {tiles} of tiles, and a block has {room}"),
                help;
        })
        .next()
    }

    /// Why threads cannot share tiles as their layouts say, or have no accumulators.
    fn unshared(&self, args: &[Arg]) -> Option<Unfit> {
        let ([m, n], [of_a, of_b], [a, b]) = (self.values_of([0, 1]), self.vectors(), &self.copies);
        let ([bm, bn, bk], all) = (self.tile, self.tc.size().unwrap_or(i64::MAX));
        // For each mode of a layout the size that it divides, and adjacent elements of a thread.
        let layouts = [
            ("tc", &self.tc, self.swizzle, vec![("bm", bm, m), ("bn", bn, n), ("bk", bk, 1)]),
            ("ta", &a.threads, Swizzle::IDENTITY, vec![("bm", bm, of_a[0]), ("bk", bk, of_a[1])]),
            ("tb", &b.threads, Swizzle::IDENTITY, vec![("bn", bn, of_b[0]), ("bk", bk, of_b[1])]),
        ];
        let of_layouts = layouts.into_iter().flat_map(|(key, layout, swizzle, sizes)| {
            let threads = layout.size().unwrap_or(i64::MAX);
            let wrong = permuted(swizzle, threads).and_then(|()| numbered(layout)).err();
            let counts = layout.modes().map(|mode| mode.size().unwrap_or(i64::MAX));
            let uneven = counts.zip(sizes).find_map(|(threads, of)| undivided(args, key, threads, of));
            checks! {
                threads > BLOCK_THREADS.into() => key,
                    format!("`{key}` has {threads} threads, and a block has at most {BLOCK_THREADS}"),
                    format!("write a smaller layout, such as {key} = (16, 16): each thread computes more of C");
                threads != all => key, format!("`{key}` has {threads} threads, and `tc` has {all}"),
                    format!("give `{key}` a layout of {all} threads, or leave it out");
            }
            .chain(wrong.or(uneven).map(|problem| (key, problem)))
        });
        let sums = i128::from(bm) * i128::from(bn) * i128::from(self.groups()) / i128::from(all);
        let help = "use a smaller `bm` or `bn`, or more threads in `tc`";
        let crowded = fits(sums, self.acc).err().map(|problem| ("tc", problem.help(help)));
        let (dtype, acc) = (self.dtype, self.acc);
        of_layouts
            .chain(crowded)
            .chain(checks! {
                dtype.is_float() != acc.is_float() || acc.bytes() < dtype.bytes() => "acc",
                    format!("products of {dtype} cannot be summed in {acc}"),
                    format!("write acc = {}, or leave it out", dtype.accumulator());
            })
            .next()
    }

    /// Elements of A and of B along rows and K that a thread copies at once.
    pub(super) fn vectors(&self) -> [[i64; 2]; 2] {
        [0, 1].map(|side: usize| {
            let of = self.copies[side].of;
            if of.rows { [1, of.vec] } else { [of.vec, 1] }
        })
    }

    /// Would a warp's stores of its own accumulators, one by one, be uncoalesced? If shared memory has room
    /// they are reordered there.
    fn scatters(&self) -> bool {
        let run = self.values[usize::from(self.c_rows)];
        let room = i64::from(Target::of(self.arch).block_shared);
        self.narrow && run > 1 && self.bytes().is_ok_and(|[tiles, parts]| tiles + parts <= room)
    }

    /// Bytes of shared memory for the tiles of all stages, and for the accumulators of groups of threads.
    fn bytes(&self) -> Result<[i64; 2]> {
        let mut tiles = 0;
        for Copied { tile, .. } in &self.copies {
            let bytes = with_slots(tile, self.ahead.stages.into())?.cosize()? * i64::from(self.dtype.bytes());
            tiles += bytes.cast_unsigned().next_multiple_of(ALIGN.into()).cast_signed();
        }
        Ok([tiles, self.parts()?.cosize()? * i64::from(self.acc.bytes())])
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

/// Why `threads` threads of a layout, each with adjacent elements, do not share a size.
fn undivided(
    args: &[Arg],
    key: &str,
    threads: i64,
    (size, extent, each): (&str, i64, i64),
) -> Option<Problem> {
    if extent % threads.saturating_mul(each) == 0 {
        return None;
    }
    let elements = if each > 1 { format!(" with {each} elements each") } else { String::new() };
    let owner = if args.iter().any(|arg| arg.is(key)) { "" } else { "the default of " };
    let what = format!(
        "{owner}`{key}` has {threads} threads{elements} along `{size}`, which do not divide {extent}"
    );
    Some(Problem::new(what).help(match extent % each {
        0 => {
            let near = nearest_divisors(extent / each, threads);
            format!("give `{key}` {near} threads along it, or change `{size}`")
        }
        _ => format!("let each thread take a number of elements that divides {extent}, or change `{size}`"),
    }))
}

/// A shared tile that does not allow vectors of `vec` elements: they must be contiguous, and columns aligned.
fn unaligned(layout: &Composed, vec: i64) -> Option<String> {
    let mut strides = layout.layout().leaves().map(|(_, stride)| stride.factor());
    let first = strides.next();
    match strides.find(|stride| stride % vec != 0) {
        _ if vec == 1 => None,
        None => (first != Some(1)).then(|| layout.to_string()),
        Some(stride) => Some(format!("{layout}: the stride {stride} is not a multiple")),
    }
}
