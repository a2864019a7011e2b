//! The choice of instruction: FMAs on CUDA cores, mma.sync or wgmma, by keys or by default.

use tilewright_layout::Layout;

use super::{Config, OF_WGMMA, Precision, Reader, hopper, tensor};
use crate::ast::{ExprKind, Span};
use crate::atom::{Atom, Effect};
use crate::atoms;
use crate::diagnostic::Diagnostic;
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::target::Target;
use crate::thread::Scope;
use crate::tiled::TiledMma;

/// Keys about the threads of a product on CUDA cores.
const OF_THREADS: [&str; 12] =
    ["tc", "values", "ta", "tb", "pad", "sa", "sb", "fragments", "exits", "staged", "vec", "order"];

/// The instruction of a product.
pub(super) enum Machine {
    /// FMAs on CUDA cores; why not tensor cores, where auto takes them for these types.
    Threads(Option<Diagnostic>),
    /// wgmma, fed by bulk copies.
    Wgmma(Vec<hopper::Sizes>),
    /// mma.sync; why not wgmma, where auto takes it for these types.
    MmaSync(Vec<tensor::Plan>, Option<Diagnostic>),
}

/// The instruction that the key `mma` requests.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Auto,
    Threads,
    Wgmma,
    MmaSync,
    Row(&'static Atom),
}

/// The warps that the key `warps` asks for.
enum Warps {
    /// So many.
    Count(i64),
    /// Over rows, columns and K.
    Arranged(Box<TiledMma>),
}

impl Reader<'_> {
    /// The instruction, by the keys; errors are collected.
    pub(super) fn machine(&mut self, config: &Config) -> Machine {
        let wanted = self.wanted();
        if !self.errors.is_empty() {
            return Machine::Threads(None);
        }
        let threads = OF_THREADS.into_iter().find(|key| self.find(key).is_some());
        let mut instead = None;
        if matches!(wanted, Wanted::Auto | Wanted::Wgmma) {
            match self.wgmma(config, wanted == Wanted::Wgmma, threads) {
                Ok(Some(sizes)) => return Machine::Wgmma(sizes),
                Ok(None) => {}
                // Tiles that wgmma does not have are multiplied by mma.sync; those that are too large are not.
                Err((unfit, too_large)) => {
                    match wanted == Wanted::Auto && !too_large && !self.is_about_wgmma() {
                        true => instead = Some(unfit),
                        false => self.errors.push(unfit),
                    }
                }
            }
        }
        match wanted {
            _ if !self.errors.is_empty() => return Machine::Threads(None),
            Wanted::Wgmma => return Machine::Threads(None),
            Wanted::Auto if threads.is_some() || !takes_mma_sync(config) => {}
            Wanted::Threads => {}
            _ => {
                if let Some(key) = threads {
                    self.of_threads(key);
                    return Machine::Threads(None);
                }
                let unfit = match self.by_mma_sync(config) {
                    Ok(plan) => match tensor::unfit(config, &plan) {
                        None => return Machine::MmaSync(self.with_others(config, plan), instead),
                        Some((key, problem)) => problem.at(self.blamed(key)),
                    },
                    Err(problem) => problem.at(self.blamed("warps")),
                };
                // CUDA cores would copy narrow elements ahead through registers, which nobody asked for.
                let ahead = config.ahead.stages > 1 && config.dtype.bytes() < 4;
                let given = self.find("warps").is_some() || config.of_tiles.is_some();
                if wanted != Wanted::Auto || given || ahead {
                    self.errors.push(unfit);
                } else {
                    instead = instead.or(Some(unfit));
                }
            }
        }
        // A newer architecture has an instruction for these types.
        if instead.is_none() && wanted == Wanted::Auto && threads.is_none() {
            let [types, acc] = [config.multiplied(), config.acc];
            if TiledMma::row(types, acc, u32::MAX).is_some()
                && let Err(older) = TiledMma::best(types, acc, config.arch, [16, 8], 1)
            {
                instead = Some(older.at(self.blamed("arch")));
            }
        }
        let rounds = config.precision != Precision::Strict;
        let keys = [
            ("warps", true),
            ("swizzle", true),
            ("precision", rounds),
            ("b_dtype", config.mixed()),
            ("scales", config.block_scales),
        ];
        for (key, said) in keys {
            let span = self.find(key).map(|expr| expr.span).filter(|_| said && self.errors.is_empty());
            match (span, &instead) {
                (None, _) => {}
                (Some(_), Some(unfit)) => self.errors.push(unfit.clone()),
                (Some(span), None) => self.error(
                    span,
                    format!("`{key}` is about products on tensor cores, and this one runs on CUDA cores"),
                    "leave it out, or write mma = mma_sync",
                ),
            }
        }
        Machine::Threads(instead)
    }

    /// Are there keys about wgmma alone?
    fn is_about_wgmma(&self) -> bool {
        ["cluster", "split_k", "band", "ping_pong", "fast_accum"].iter().any(|key| self.find(key).is_some())
    }

    /// The value of the key `mma`.
    fn wanted(&mut self) -> Wanted {
        if let Some(ExprKind::Name(name) | ExprKind::Str(name)) = self.find("mma").map(|expr| &expr.kind)
            && let Some(row) = atoms::find(name)
            && matches!(row.effect, Effect::Mma { .. })
            && row.group == Scope::Warp
        {
            return Wanted::Row(row);
        }
        match self.choice("mma", &["auto", "none", "wgmma", "mma_sync"]) {
            1 => Wanted::Threads,
            2 => Wanted::Wgmma,
            3 => Wanted::MmaSync,
            _ => Wanted::Auto,
        }
    }

    /// A key, or `mma` where it is not given.
    fn blamed(&self, key: &str) -> Span {
        self.find(key).or_else(|| self.find("mma")).map_or(Span::default(), |expr| expr.span)
    }

    fn of_threads(&mut self, key: &str) {
        let span = self.blamed(key);
        let message = format!("`{key}` is about the threads of a product without tensor cores");
        self.error(span, message, "leave it out, or write mma = none");
    }

    /// The value of a key, or a default if it is not given.
    fn or(&self, key: &str, given: i64, usual: i64) -> i64 {
        if self.find(key).is_some() { given } else { usual }
    }

    /// A product by mma.sync with the sizes of the given keys, and defaults for others.
    pub(super) fn by_mma_sync(&mut self, c: &Config) -> Result<tensor::Plan> {
        let row = match self.wanted() {
            Wanted::Row(row) => {
                let is =
                    |name: char, elem: Elem| row.operand(name).is_some_and(|operand| operand.elem == elem);
                if !is('a', c.multiplied())
                    || !is('b', c.multiplied())
                    || !is('d', c.acc)
                    || row.arch > c.arch
                {
                    let of = |name: char| row.operand(name).map_or_else(String::new, |o| o.elem.to_string());
                    return Err(Problem::new(format!(
                        "`{}` multiplies {} into sums of {} from sm_{} on, and this product is of {} into {} for sm_{}",
                        row.name, of('a'), of('d'), row.arch, c.multiplied(), c.acc, c.arch
                    ))
                    .help("leave its name out: mma = mma_sync takes the instruction that fits"));
                }
                row
            }
            _ => {
                let best = TiledMma::best(c.multiplied(), c.acc, c.arch, [16, 8], 1);
                best.map_err(|problem| match c.dtype {
                    Elem::F32 => problem.help("write precision = f32x3, or precision = tf32, or mma = none"),
                    _ => problem,
                })?
                .row
            }
        };
        let given = self.warps(c, row)?;
        let (usual, tile) = self.sizes_of(c, row, given.as_ref());
        let sides = c.operands_of(tile);
        let mma = match given {
            Some(Warps::Arranged(mma)) => *mma,
            Some(Warps::Count(warps)) => arranged(c, row, tile, warps)?,
            None => {
                let sums = sides[0] * sides[1] * i64::from(c.acc.bytes()) / 4;
                let most = (sums / usual.sums).clamp(4, 8);
                let fits = (1..=most).rev().find_map(|warps| c.arranged(row, sides, warps).ok());
                fits.map_or_else(|| arranged(c, row, tile, most), Ok)?
            }
        };
        let mma = c.multiplying(mma);
        let stages = self.or("stages", i64::from(c.ahead.stages), usual.stages);
        let mut plan = tensor::Plan { tile, mma, stages, overlaps: c.overlaps };
        let room = i64::from(Target::of(c.arch).block_shared);
        while self.find("stages").is_none() && plan.stages > 1 && plan.bytes(c) > room {
            plan.stages -= 1;
        }
        Ok(plan)
    }

    /// Good sizes, and the tile: the sizes of the given keys, and for others defaults that suit the warps.
    fn sizes_of(&self, c: &Config, row: &'static Atom, warps: Option<&Warps>) -> (tensor::Usual, [i64; 3]) {
        let mut usual = tensor::usual(c);
        // Rows and columns of C; the transposed product swaps them.
        [usual.tile[0], usual.tile[1]] = c.operands_of(usual.tile);
        let mut tile = [
            self.or("bm", c.bm, usual.tile[0]),
            self.or("bn", c.bn, usual.tile[1]),
            self.or("bk", c.bk, usual.tile[2]),
        ];
        let (count, parts) = match warps {
            Some(Warps::Arranged(mma)) => (mma.groups.size().unwrap_or(1), mma.parts_of_k().unwrap_or(1)),
            Some(Warps::Count(count)) => (*count, 1),
            None => return (usual, tile),
        };
        if let (None, Effect::Mma { k, .. }) = (self.find("bk"), row.effect) {
            tile[2] = tile[2].max(i64::from(k) * parts);
        }
        for (key, side) in [("bm", 0), ("bn", 1)] {
            let sums = |tile: [i64; 3]| tile[0] * tile[1] * i64::from(c.acc.bytes()) / 4;
            while self.find(key).is_none() && sums(tile) > usual.sums * count / parts && tile[side] > 64 {
                tile[side] /= 2;
            }
        }
        (usual, tile)
    }

    /// The warps that the key asks for.
    fn warps(&mut self, c: &Config, row: &'static Atom) -> Result<Option<Warps>> {
        let Some(expr) = self.find("warps").cloned() else { return Ok(None) };
        if !matches!(expr.kind, ExprKind::Tuple(_)) {
            return Ok(Some(Warps::Count(self.positive("warps", 4))));
        }
        let layout = self.keys.layout(&expr).ok_or_else(Problem::said)?;
        let groups = layout.as_layout().cloned().ok_or_else(|| Problem::new("warps have no swizzle"))?;
        let over_k = if groups.rank() == 3 { groups.mode(2)?.size()? } else { 1 };
        let own = match (c.a_left, groups.rank()) {
            (true, 2 | 3) => [groups.mode(0)?, groups.mode(1)?],
            (false, 2 | 3) => [groups.mode(1)?, groups.mode(0)?],
            _ => {
                return Err(Problem::new(format!(
                    "{groups} does not number warps over rows and columns of C"
                )));
            }
        };
        let own = TiledMma::new(row.name, &Layout::from_modes(own)?, 0)?;
        Ok(Some(Warps::Arranged(Box::new(own.over_k(over_k)?))))
    }

    /// The plan, after others among which a launch chooses unless keys choose.
    pub(super) fn with_others(&self, c: &Config, plan: tensor::Plan) -> Vec<tensor::Plan> {
        let given = ["bm", "bn", "bk", "stages", "warps"].iter().any(|key| self.find(key).is_some());
        // The blocks of those for few rows fill a multiprocessor.
        let overlaps = c.overlaps || (c.arch >= 90 && self.find("overlaps").is_none());
        let others = if given { Vec::new() } else { tensor::others(c, plan.mma.row, overlaps) };
        others.into_iter().chain([plan]).collect()
    }

    /// The first reason why wgmma does not multiply this, if there is one: its key, a message, and help.
    fn unlike_wgmma(&self, c: &Config) -> Option<(&'static str, String, &'static str)> {
        let [a, b] = [("a", c.a_rows), ("b", c.b_rows)];
        let across = [a, b].into_iter().find(|(_, by_rows)| c.dtype.bytes() != 2 && !by_rows);
        let missing = [
            (c.arch != 90, "arch", "wgmma is an instruction of sm_90a".into(), "write arch = 90"),
            (
                hopper::row(c, 16).is_none(),
                "dtype",
                format!("wgmma does not multiply {}", c.dtype),
                match c.dtype {
                    Elem::F32 => "write precision = f32x3, or dtype = tf32",
                    _ => "write dtype = bf16, f16, tf32, e4m3, e5m2, i8 or u8",
                },
            ),
            (
                c.precision == Precision::Tf32,
                "precision",
                "wgmma reads an operand from shared memory, where nothing rounds it to tf32".into(),
                "write precision = f32x3, dtype = tf32 for operands that are rounded already, or mma = mma_sync",
            ),
            (
                c.acc != c.dtype.accumulator(),
                "acc",
                format!("wgmma sums products of {} in {} here", c.dtype, c.dtype.accumulator()),
                "leave acc out, or write mma = mma_sync",
            ),
            (
                across.is_some(),
                across.map_or("a", |(key, _)| key),
                format!(
                    "wgmma reads elements of {} from rows that are contiguous along K, and `{}` is not k_major",
                    c.dtype,
                    across.map_or("a", |(key, _)| key)
                ),
                "write k_major for both operands, or mma = mma_sync",
            ),
            (
                c.of_tiles.is_some(),
                "swizzle",
                "tiles of wgmma have the swizzles of the hardware".into(),
                "leave swizzle out, or write mma = mma_sync",
            ),
            (
                self.find("warps").is_some(),
                "warps",
                "wgmma runs on warpgroups, and bm determines how many".into(),
                "leave warps out, or write mma = mma_sync",
            ),
            (
                ![2, 4].contains(&c.out.bytes()),
                "out",
                format!("a product by wgmma stores elements of 16 or 32 bits, and out is {}", c.out),
                "leave out = … out, or write mma = mma_sync",
            ),
            (
                c.mixed() && !c.b_rows,
                "b",
                format!("elements of {} are converted in pairs along K, and `b` is not k_major", c.b_dtype),
                "write b = k_major, or mma = mma_sync",
            ),
            (
                c.mixed() && c.c_rows && c.out.bytes() != 2,
                "out",
                format!("converted elements are rows of wgmma, which stores columns of {} alone", c.out),
                "write out = bf16, c = m_major, or mma = mma_sync",
            ),
        ];
        let (_, key, message, help) = missing.into_iter().find(|row| row.0)?;
        Some((key, message, help))
    }

    /// Why auto chose another instruction on an architecture that has wgmma for this type, for the report.
    pub(super) fn instead_of_wgmma(&mut self, config: &Config, machine: &Machine) -> Option<String> {
        let chosen = match machine {
            Machine::Wgmma(_) => return None,
            Machine::MmaSync(_, Some(why)) => return Some(format!("mma.sync: {}", why.message)),
            Machine::MmaSync(_, None) => "mma.sync",
            Machine::Threads(Some(why)) => return Some(format!("FMAs on CUDA cores: {}", why.message)),
            Machine::Threads(None) => "FMAs on CUDA cores",
        };
        let (key, message, _) = self.unlike_wgmma(config)?;
        let asked = self.wanted() == Wanted::Auto && !OF_THREADS.iter().any(|key| self.find(key).is_some());
        (asked && !["arch", "dtype"].contains(&key)).then(|| format!("{chosen}: {message}"))
    }

    /// Sizes of the product by wgmma, if that is asked for or possible; an error if it does not have the sizes of the keys,
    /// and whether they are too large.
    fn wgmma(
        &mut self,
        config: &Config,
        wanted: bool,
        threads: Option<&'static str>,
    ) -> std::result::Result<Option<Vec<hopper::Sizes>>, (Diagnostic, bool)> {
        let missing = self.unlike_wgmma(config);
        if !wanted && (missing.is_some() || threads.is_some()) {
            return Ok(None);
        }
        if let Some((key, message, help)) = missing {
            return Err((Diagnostic::error(self.blamed(key), message).help(help), false));
        }
        if let Some(key) = threads {
            self.of_threads(key);
            return Ok(None);
        }
        if OF_WGMMA.iter().all(|key| self.find(key).is_none()) {
            return Ok(Some(hopper::Sizes::shipped(config)));
        }
        let usual = hopper::Sizes::usual(config);
        let mut or =
            |key: &str, usual: i64| if self.find(key).is_some() { self.positive(key, 1) } else { usual };
        // Keys are about C, and the transposed product swaps its rows and columns.
        let [bm, bn] = config.by_wgmma(usual.tile);
        let [bm, bn, bk] = [or("bm", bm), or("bn", bn), or("bk", usual.tile[2])];
        let [rows, columns] = config.by_wgmma([bm, bn, bk]);
        let tile = [rows, columns, bk];
        let (cluster, band) = (or("cluster", usual.cluster), or("band", usual.band.into()) as u32);
        let split_k = or("split_k", usual.split_k);
        let ping_pong = self.flag("ping_pong");
        let mut sizes = hopper::Sizes { tile, stages: 1, cluster, split_k, band, ping_pong, clocks: None };
        sizes.stages = match self.find("stages") {
            Some(_) => self.positive("stages", 1),
            None => sizes.most_stages(config),
        };
        if let Some((key, problem)) = hopper::unfit(&sizes, config) {
            return Err((problem.at(self.blamed(key)), sizes.is_too_large(config)));
        }
        Ok(Some(vec![sizes]))
    }
}

impl Config {
    /// The instruction's rows and columns that a warp multiplies at least: numbers of four bits are converted two fragments
    /// at once, where these are of the right operand.
    fn least(&self, row: &Atom) -> Result<[i64; 2]> {
        let Effect::Mma { m, n, .. } = row.effect else { return Err(Problem::new("not a matrix product")) };
        Ok([m.into(), if self.packed && self.a_left { 2 * i64::from(n) } else { n.into() }])
    }

    /// So many warps arranged over the tile of both operands.
    fn arranged(&self, row: &'static Atom, sides: [i64; 2], warps: i64) -> Result<TiledMma> {
        let best = TiledMma::arranged(row, sides, warps)?;
        let [m, n] = self.least(row)?;
        if (sides[1] / best.groups.mode(1)?.size()?) % n == 0 {
            return Ok(best);
        }
        let fits = |over: &i64| {
            warps % over == 0 && sides[0] % (over * m) == 0 && sides[1] % (warps / over * n) == 0
        };
        let over = (1..=warps).rev().find(fits);
        let over = over.ok_or_else(|| Problem::new(format!("{warps} warps cannot share such a tile")))?;
        TiledMma::new(row.name, &Layout::compact((over, warps / over))?, 0)
    }
}

/// Warps arranged over a tile, and those that it has no rows and columns for over K; or an error in terms of the keys.
fn arranged(c: &Config, row: &'static Atom, tile: [i64; 3], warps: i64) -> Result<TiledMma> {
    let (sides, [m, n]) = (c.operands_of(tile), c.least(row)?);
    let over_k = |parts: i64| {
        let k = TiledMma::arranged(row, [m, n], 1).ok()?.shape()[2];
        let fits = warps % parts == 0 && tile[2] % (k * parts) == 0;
        c.arranged(row, sides, warps / parts).ok()?.over_k(parts).ok().filter(|_| fits)
    };
    let found = [1, 2, 4, 8].into_iter().find_map(over_k);
    found.ok_or_else(|| {
        // The transposed product swaps rows and columns.
        let (m, n) = if c.a_left { (m, n) } else { (n, m) };
        let count =
            if warps == 1 { "1 warp cannot compute".into() } else { format!("{warps} warps cannot share") };
        Problem::new(format!("{count} a tile of {}x{} by products of {m}x{n}", tile[0], tile[1]))
            .help(format!("write bm and bn as multiples of {m} and {n}, at least one product for each warp"))
    })
}

/// Does auto choose mma.sync for a product? Not for f32 unless `precision` allows it to round.
fn takes_mma_sync(c: &Config) -> bool {
    c.arch >= 80 && TiledMma::row(c.multiplied(), c.acc, c.arch).is_some()
}
