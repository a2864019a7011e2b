//! The choice of instruction: FMAs on CUDA cores, mma.sync or wgmma, by keys or by default.

use super::{Config, OF_WGMMA, Precision, Reader, hopper, tensor};
use crate::ast::{ExprKind, Span};
use crate::atom::{Atom, Effect};
use crate::atoms;
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
    /// FMAs on CUDA cores.
    Threads,
    /// wgmma, fed by bulk copies.
    Wgmma(Vec<hopper::Sizes>),
    /// mma.sync.
    MmaSync(Vec<tensor::Plan>),
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

impl Reader<'_> {
    /// The instruction, by the keys; errors are collected.
    pub(super) fn machine(&mut self, config: &Config) -> Machine {
        let wanted = self.wanted();
        if !self.errors.is_empty() {
            return Machine::Threads;
        }
        let threads = OF_THREADS.into_iter().find(|key| self.find(key).is_some());
        if matches!(wanted, Wanted::Auto | Wanted::Wgmma)
            && let Some(sizes) = self.wgmma(config, wanted == Wanted::Wgmma, threads)
        {
            return Machine::Wgmma(sizes);
        }
        match wanted {
            Wanted::Wgmma => return Machine::Threads,
            Wanted::Auto if threads.is_some() || !takes_mma_sync(config) => {}
            Wanted::Threads => {}
            _ => {
                if let Some(key) = threads {
                    self.of_threads(key);
                    return Machine::Threads;
                }
                match self.by_mma_sync(config) {
                    Ok(plan) => match tensor::unfit(config, &plan) {
                        None => return Machine::MmaSync(self.with_others(config, plan)),
                        Some((key, problem)) if wanted != Wanted::Auto || self.find("warps").is_some() => {
                            let span = self.blamed(key);
                            self.errors.push(problem.at(span));
                        }
                        Some(_) => {}
                    },
                    Err(problem) if wanted != Wanted::Auto || self.find("warps").is_some() => {
                        let span = self.blamed("warps");
                        self.errors.push(problem.at(span));
                    }
                    Err(_) => {}
                }
            }
        }
        let rounds = config.precision != Precision::Strict;
        let about = [
            ("warps", true),
            ("precision", rounds),
            ("b_dtype", config.mixed()),
            ("scales", config.block_scales),
        ];
        for (key, said) in about {
            if let Some(span) =
                self.find(key).map(|expr| expr.span).filter(|_| said && self.errors.is_empty())
            {
                self.error(
                    span,
                    format!("`{key}` is about products on tensor cores, and this one runs on CUDA cores"),
                    "leave it out, or write mma = mma_sync",
                );
            }
        }
        Machine::Threads
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
        let mut usual = tensor::usual(c);
        // Rows and columns of C; the transposed product swaps them.
        [usual.tile[0], usual.tile[1]] = c.operands_of(usual.tile);
        let tile = [
            self.or("bm", c.bm, usual.tile[0]),
            self.or("bn", c.bn, usual.tile[1]),
            self.or("bk", c.bk, usual.tile[2]),
        ];
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
        let sides = c.operands_of(tile);
        let mma = match self.find("warps").cloned() {
            Some(expr) if matches!(expr.kind, ExprKind::Tuple(_)) => {
                let layout = self.keys.layout(&expr).ok_or_else(Problem::said)?;
                let groups =
                    layout.as_layout().cloned().ok_or_else(|| Problem::new("warps have no swizzle"))?;
                let over_k = if groups.rank() == 3 { groups.mode(2)?.size()? } else { 1 };
                let own = match (c.c_rows, groups.rank()) {
                    (true, 2 | 3) => [groups.mode(0)?, groups.mode(1)?],
                    (false, 2 | 3) => [groups.mode(1)?, groups.mode(0)?],
                    _ => {
                        return Err(Problem::new(format!(
                            "{groups} does not number warps over rows and columns of C"
                        )));
                    }
                };
                TiledMma::new(row.name, &tilewright_layout::Layout::from_modes(own)?, 0)?.over_k(over_k)?
            }
            Some(_) => arranged(c, row, tile, self.positive("warps", 4))?,
            None => {
                let sums = sides[0] * sides[1] * i64::from(c.acc.bytes()) / 4;
                let most = (sums / usual.sums).clamp(4, 8);
                let fits = (1..=most).rev().find_map(|warps| TiledMma::arranged(row, sides, warps).ok());
                fits.map_or_else(|| arranged(c, row, tile, most), Ok)?
            }
        };
        let mma = c.multiplying(mma);
        let stages = self.or("stages", i64::from(c.ahead.stages), usual.stages);
        let mut plan = tensor::Plan { tile, mma, stages, overlaps: c.overlaps };
        let room = i64::from(Target::of(c.arch).block_shared);
        while self.find("stages").is_none() && plan.stages > 2 && plan.bytes(c) > room {
            plan.stages -= 1;
        }
        Ok(plan)
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
            Machine::MmaSync(_) => "mma.sync",
            Machine::Threads => "FMAs on CUDA cores",
        };
        let (key, message, _) = self.unlike_wgmma(config)?;
        let asked = self.wanted() == Wanted::Auto && !OF_THREADS.iter().any(|key| self.find(key).is_some());
        (asked && !["arch", "dtype"].contains(&key)).then(|| format!("{chosen}: {message}"))
    }

    /// Sizes of the product by wgmma, if that is asked for or possible.
    fn wgmma(
        &mut self,
        config: &Config,
        wanted: bool,
        threads: Option<&'static str>,
    ) -> Option<Vec<hopper::Sizes>> {
        let missing = self.unlike_wgmma(config);
        if !wanted && (missing.is_some() || threads.is_some()) {
            return None;
        }
        if let Some((key, message, help)) = missing {
            let span = self.blamed(key);
            self.error(span, message, help);
            return None;
        }
        if let Some(key) = threads {
            self.of_threads(key);
            return None;
        }
        if OF_WGMMA.iter().all(|key| self.find(key).is_none()) {
            return Some(hopper::Sizes::shipped(config));
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
            let span = self.blamed(key);
            self.errors.push(problem.at(span));
            return None;
        }
        Some(vec![sizes])
    }
}

/// Warps arranged over a tile, or an error in terms of the keys.
fn arranged(c: &Config, row: &'static Atom, tile: [i64; 3], warps: i64) -> Result<TiledMma> {
    TiledMma::arranged(row, c.operands_of(tile), warps).map_err(|_| {
        let Effect::Mma { m, n, .. } = row.effect else { return Problem::new("not a matrix product") };
        // The transposed product swaps rows and columns.
        let (m, n) = if c.c_rows { (m, n) } else { (n, m) };
        let count =
            if warps == 1 { "1 warp cannot compute".into() } else { format!("{warps} warps cannot share") };
        Problem::new(format!("{count} a tile of {}x{} by products of {m}x{n}", tile[0], tile[1]))
            .help(format!("write bm and bn as multiples of {m} and {n}, at least one product for each warp"))
    })
}

/// Does auto choose mma.sync for a product? Not for f32 unless `precision` allows it to round, nor for bytes that
/// are not K-major: each would be loaded by itself, in more registers than there are.
fn takes_mma_sync(c: &Config) -> bool {
    let loads = c.dtype.bytes() > 1 || (c.a_rows && c.b_rows);
    c.arch >= 80 && loads && TiledMma::row(c.multiplied(), c.acc, c.arch).is_some()
}
