//! The choice of instruction: FMAs on CUDA cores, mma.sync or wgmma, by keys or by default.

use super::blame::{Unfit, blamed, checks};
use super::plan::Plan;
use super::warps::{Warps, arranged, sharing};
use super::{Config, Precision, Reader, hopper, tensor, tiles};
use crate::isa;
use crate::isa::atom::{Atom, Effect, OperandName};
use crate::source::ast::{ExprKind, Span};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::Scope;
use crate::values::elem::Elem;
use crate::values::target::WARP;

/// Keys about the threads of a product on CUDA cores.
const OF_THREADS: [&str; 12] =
    ["tc", "values", "ta", "tb", "pad", "sa", "sb", "fragments", "exits", "staged", "vec", "order"];

/// Keys about the tiles of a product by wgmma.
const OF_WGMMA: [&str; 8] = ["bm", "bn", "bk", "stages", "cluster", "split_k", "band", "ping_pong"];

/// The architectures of products whose keys leave it open: the newest with its own instruction, the oldest with
/// instructions for most types, and for other types the oldest that has them.
const ARCHITECTURES: [u32; 3] = [90, 89, 80];

/// Most warps of a product by mma.sync where their number is not given.
const MOST_WARPS: i64 = 8;

/// The instruction of a product.
pub(super) struct Machine {
    /// The sizes of a product on tensor cores. There are none on CUDA cores.
    pub(super) plans: Vec<Plan>,
    /// Why not the instruction that auto takes for these types.
    pub(super) instead: Option<Diagnostic>,
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
    /// Is no key about tiles or threads given, and none of these?
    pub(super) fn leaves_open(&self, more: &[&str]) -> bool {
        !self.has(OF_THREADS.iter().chain(&OF_WGMMA).chain(more))
    }

    /// The architectures of a product's programs, if no key sets the architecture, tiles, threads or the instruction.
    /// Products that are the same on all of them have programs for the oldest.
    pub(super) fn architectures(&mut self) -> Option<Vec<u32>> {
        if !self.leaves_open(&["arch", "mma", "warps", "swizzle"]) {
            return None;
        }
        let config = self.config(false).filter(|_| self.errors.is_empty())?;
        let [newest, .., oldest] = ARCHITECTURES;
        let has = |arch: &u32| config.instruction(*arch).is_some();
        let first = ARCHITECTURES.into_iter().rev().find(has);
        let mut all = match first {
            None if !tiles::suit(self, &config) => Vec::new(),
            first => vec![newest, first.unwrap_or(oldest)],
        };
        all.extend((!all.contains(&oldest)).then_some(oldest));
        Some(all)
    }

    /// The instruction, by the keys. No key is about another instruction.
    pub(super) fn machine(&mut self, c: &Config) -> std::result::Result<Machine, Diagnostic> {
        let machine = self.chosen(c)?;
        let instruction = match machine.plans.first() {
            Some(plan) if plan.is_wgmma() => return Ok(machine),
            Some(_) => "by mma.sync",
            None => "on CUDA cores",
        };
        // CUDA cores split K over a cluster too.
        let of_wgmma = ["cluster", "band", "ping_pong", "split_k"];
        let keys = &of_wgmma[..if machine.plans.is_empty() { 3 } else { 4 }];
        let Some(key) = keys.iter().find(|key| self.find(key).is_some()) else { return Ok(machine) };
        let message = format!("`{key}` is about products by wgmma, and this one runs {instruction}");
        Err(Diagnostic::error(self.span(key), message)
            .help("leave it out, or write arch = 90 and mma = wgmma"))
    }

    fn chosen(&mut self, c: &Config) -> std::result::Result<Machine, Diagnostic> {
        let wanted = self.wanted();
        if let Some(wrong) = self.errors.pop() {
            return Err(wrong);
        }
        let threads = OF_THREADS.into_iter().find(|key| self.find(key).is_some());
        // Why not wgmma, and whether its tile is too large.
        let mut instead = None;
        if matches!(wanted, Wanted::Auto | Wanted::Wgmma) {
            match self.wgmma(c, wanted == Wanted::Wgmma, threads) {
                Ok(Some(plans)) => return Ok(Machine { plans, instead: None }),
                Ok(None) => {}
                Err((unfit, _)) if wanted == Wanted::Wgmma || self.is_about_wgmma() => return Err(unfit),
                // Tiles that wgmma does not support are multiplied by mma.sync. A tile that is too large for both is an
                // error about wgmma.
                Err(unfit) => instead = Some(unfit),
            }
        }
        // Auto takes no tensor cores for f32 unless `precision` allows them to round.
        if wanted != Wanted::Threads && (wanted != Wanted::Auto || c.instruction(c.arch).is_some()) {
            if let Some(key) = threads {
                return Err(self.of_threads(key));
            }
            let unfit = match self.by_mma_sync(c) {
                Ok(plan) => match tensor::unfit(c, &plan) {
                    None => {
                        let plans = self.with_others(c, plan);
                        return Ok(Machine { plans, instead: instead.map(|(why, _)| why) });
                    }
                    Some((key, problem)) => problem.at(self.blamed(key)),
                },
                Err(problem) => problem.at(self.blamed("warps")),
            };
            if let Some((of_wgmma, true)) = instead {
                return Err(of_wgmma);
            }
            // CUDA cores would copy narrow elements ahead through registers, without a request.
            let ahead = c.ahead.stages > 1 && c.dtype.bytes() < 4;
            let given = self.find("warps").is_some() || c.of_tiles.is_some();
            if wanted != Wanted::Auto || given || ahead || c.block_scales {
                return Err(unfit);
            }
            instead = instead.or(Some((unfit, false)));
        }
        let mut instead = instead.map(|(why, _)| why);
        // A newer architecture has an instruction for these types.
        if instead.is_none()
            && wanted == Wanted::Auto
            && threads.is_none()
            && c.instruction(u32::MAX).is_some()
            && let Err(older) = c.best()
        {
            instead = Some(older.at(self.blamed("arch")));
        }
        let keys = [
            ("warps", true),
            ("swizzle", true),
            ("precision", c.precision != Precision::Strict),
            ("b_dtype", c.mixed()),
            ("scales", c.block_scales),
        ];
        let Some((key, _)) = keys.into_iter().find(|(key, said)| *said && self.find(key).is_some()) else {
            return Ok(Machine { plans: Vec::new(), instead });
        };
        let message = format!("`{key}` is about products on tensor cores, and this one runs on CUDA cores");
        let unlike =
            || Diagnostic::error(self.span(key), message).help("leave it out, or write mma = mma_sync");
        Err(instead.unwrap_or_else(unlike))
    }

    /// Are there keys about wgmma alone?
    fn is_about_wgmma(&self) -> bool {
        self.has(&["cluster", "split_k", "band", "ping_pong", "fast_accum"])
    }

    /// The value of the key `mma`.
    fn wanted(&mut self) -> Wanted {
        if let Some(ExprKind::Name(name) | ExprKind::Str(name)) = self.find("mma").map(|expr| &expr.kind)
            && let Some(row) = isa::find(name)
            && matches!(row.effect, Effect::Mma { .. })
            && row.family.issued_by == Scope::Warp
        {
            return Wanted::Row(row);
        }
        let rest = [("none", Wanted::Threads), ("wgmma", Wanted::Wgmma), ("mma_sync", Wanted::MmaSync)];
        self.choice("mma", &[&[("auto", Wanted::Auto)][..], &rest].concat())
    }

    /// A key, one that its default depends on where it is not given, or `mma`.
    fn blamed(&self, key: &str) -> Span {
        blamed(self.args, key).map_or_else(|| self.span("mma"), |value| value.span)
    }

    fn of_threads(&self, key: &str) -> Diagnostic {
        let message = format!("`{key}` is about the threads of a product without tensor cores");
        Diagnostic::error(self.blamed(key), message).help("leave it out, or write mma = none")
    }

    /// The value of a key, or a default if it is not given.
    fn or(&self, key: &str, given: i64, usual: i64) -> i64 {
        if self.find(key).is_some() { given } else { usual }
    }

    /// A product by mma.sync with the sizes of the given keys, and defaults for others.
    pub(super) fn by_mma_sync(&mut self, c: &Config) -> Result<Plan> {
        let [types, acc] = [c.multiplied(), c.acc];
        let row = match self.wanted() {
            Wanted::Row(row) => {
                let elem = |name| row.operand(name).map(|operand| operand.elem);
                let [a, b, d] = [OperandName::A, OperandName::B, OperandName::D].map(elem);
                if [a, b, d] != [types, types, acc].map(Some) || row.arch > c.arch {
                    let [a, d] = [a, d].map(|elem| elem.map_or_else(String::new, |elem| elem.to_string()));
                    return Err(Problem::new(format!(
                        "`{}` multiplies {a} into sums of {d} from sm_{} on, and this product is of {types} into {acc} for sm_{}",
                        row.name, row.arch, c.arch
                    ))
                    .help("leave its name out: mma = mma_sync takes the instruction that fits"));
                }
                row
            }
            _ => c.best().map_err(|problem| match c.dtype {
                Elem::F32 => problem.help("write precision = f32x3, or precision = tf32, or mma = none"),
                _ => problem,
            })?,
        };
        let given = self.warps(c, row)?;
        let (usual, tile) = self.sizes_of(c, row, given.as_ref());
        let sides = c.operands_of([tile[0], tile[1]]);
        let groups = match given {
            Some(Warps::Arranged(groups)) => sharing(c, row, groups, tile)?,
            Some(Warps::Count(warps)) => arranged(c, row, tile, warps)?,
            None => {
                let sums = sides[0] * sides[1] * i64::from(c.acc.bytes()) / 4;
                let most = (sums / usual.sums).clamp(4, MOST_WARPS);
                // More warps where few have no registers for the sums of a tile that many do not share evenly.
                let leaves_room =
                    |warps: &i64| tensor::sums(c, tile, *warps * i64::from(WARP)) <= tensor::MOST_SUMS;
                let all = || (1..=most).rev().chain(most + 1..=MOST_WARPS);
                let of = |warps: i64| c.arranged(row, sides, warps).ok();
                let fits = all().filter(leaves_room).find_map(of).or_else(|| all().find_map(of));
                fits.map_or_else(|| arranged(c, row, tile, most), Ok)?
            }
        };
        let stages = self.or("stages", i64::from(c.ahead.stages), usual.stages);
        let fewer = self.find("stages").is_none();
        Ok(Plan { stages, fewer, ..Plan::of_warps(c, row, [sides[0], sides[1], tile[2]], groups) })
    }

    /// Good sizes, and the tile: the sizes of the given keys, and for others defaults that suit the warps.
    fn sizes_of(&self, c: &Config, row: &'static Atom, warps: Option<&Warps>) -> (tensor::Usual, [i64; 3]) {
        let mut usual = tensor::usual(c);
        // Rows and columns of C; the transposed product swaps them.
        [usual.tile[0], usual.tile[1]] = c.operands_of([usual.tile[0], usual.tile[1]]);
        let mut tile = [
            self.or("bm", c.tile[0], usual.tile[0]),
            self.or("bn", c.tile[1], usual.tile[1]),
            self.or("bk", c.tile[2], usual.tile[2]),
        ];
        let (parts, most) = match warps {
            Some(Warps::Arranged([rows, columns, parts])) => (*parts, usual.sums * rows * columns),
            Some(Warps::Count(count)) => (1, usual.sums * count),
            // The most sums that registers have room for.
            None => (1, tensor::MOST_SUMS * i64::from(WARP) * MOST_WARPS / c.sets_of_sums()),
        };
        if let (None, Some(_), Effect::Mma { k, .. }) = (self.find("bk"), warps, row.effect) {
            tile[2] = tile[2].max(i64::from(k) * parts);
        }
        for (key, side) in [("bm", 0), ("bn", 1)] {
            let sums = |tile: [i64; 3]| tile[0] * tile[1] * i64::from(c.acc.bytes()) / 4;
            while self.find(key).is_none() && sums(tile) > most && tile[side] > 64 {
                tile[side] /= 2;
            }
        }
        (usual, tile)
    }

    /// The plan, after others among which a launch chooses unless keys choose.
    fn with_others(&self, c: &Config, plan: Plan) -> Vec<Plan> {
        let given = self.has(&["bm", "bn", "bk", "stages", "warps"]);
        let others = plan.row.filter(|_| !given).map(|row| tensor::others(c, row));
        others.into_iter().flatten().chain([plan]).collect()
    }

    /// The first reason why wgmma does not multiply this, if there is one. Some products it multiplies on request, and by default
    /// mma.sync does.
    fn unlike_wgmma(&self, c: &Config, wanted: bool) -> Option<Unfit> {
        let [a, b] = [("a", c.a_rows), ("b", c.b_rows)];
        let across =
            [a, b].into_iter().find(|(_, by_rows)| c.dtype.bytes() != 2 && !by_rows).map(|(key, _)| key);
        let key = across.unwrap_or_default();
        checks! {
            c.arch != 90 => "arch", "wgmma is an instruction of sm_90a", "write arch = 90";
            hopper::row(c, 16).is_none() => "dtype", format!("wgmma does not multiply {}", c.dtype), match c.dtype {
                Elem::F32 => "write precision = f32x3, or dtype = tf32",
                _ => "write dtype = bf16, f16, tf32, e4m3, e5m2, i8 or u8",
            };
            c.precision == Precision::Tf32 => "precision",
                "wgmma reads an operand from shared memory, where nothing rounds it to tf32",
                "write precision = f32x3, dtype = tf32 for operands that are rounded already, or mma = mma_sync";
            c.acc != c.dtype.accumulator() => "acc",
                format!("wgmma sums products of {} in {} here", c.dtype, c.dtype.accumulator()),
                "leave acc out, or write mma = mma_sync";
            across.is_some() => key,
                format!("wgmma reads elements of {} from rows that are contiguous along K, and `{key}` is not k_major", c.dtype),
                "write k_major for both operands, or leave mma out: launches then copy the operand where that is faster";
            c.of_tiles.is_some() => "swizzle",
                "tiles of wgmma have the swizzles of the hardware", "leave swizzle out, or write mma = mma_sync";
            self.find("warps").is_some() => "warps",
                "wgmma runs on warpgroups, and bm determines how many", "leave warps out, or write mma = mma_sync";
            !wanted && ![2, 4].contains(&c.out.bytes()) => "out",
                format!("by default products by wgmma store elements of 16 or 32 bits, and out is {}", c.out),
                "write mma = wgmma";
            c.mixed() && !c.b_rows => "b",
                format!("elements of {} are converted in pairs along K, and `b` is not k_major", c.b_dtype),
                "write b = k_major, or mma = mma_sync";
            !wanted && c.mixed() && c.c_rows && c.out.bytes() != 2 => "out",
                format!("converted elements are rows of wgmma, which stores columns of {} alone", c.out),
                "write out = bf16, c = m_major, or mma = wgmma";
        }
        .next()
    }

    /// The product by wgmma of K-contiguous copies, if wgmma needs no other change and no keys choose tiles: its operands,
    /// and its sizes.
    pub(super) fn wgmma_of_copies(&mut self, c: &Config) -> Option<(Config, Vec<Plan>)> {
        let (open, copies) = (self.leaves_open(&["warps", "swizzle"]), c.of_rows_along_k()?);
        let suits = open && self.wanted() == Wanted::Auto && self.unlike_wgmma(&copies, false).is_none();
        suits.then(|| {
            let plans = Plan::shipped(&copies);
            (copies, plans)
        })
    }

    /// The product by mma.sync of K-contiguous copies, if ldmatrix loads fragments only of such copies and no keys
    /// choose tiles: its operands, and its plans.
    pub(super) fn mma_sync_of_copies(&mut self, c: &Config) -> Result<Option<(Config, Vec<Plan>)>> {
        let given = self.has(&["bm", "bn", "bk", "stages", "warps", "swizzle"]);
        let one_by_one = c.mixed() || [1, 4].contains(&c.dtype.bytes());
        let Some(copies) = c.of_rows_along_k().filter(|_| one_by_one && !given && c.arch >= tensor::BULK)
        else {
            return Ok(None);
        };
        let plan = self.by_mma_sync(&copies)?;
        let plans = tensor::unfit(&copies, &plan).is_none().then(|| self.with_others(&copies, plan));
        Ok(plans.map(|plans| (copies, plans)))
    }

    /// Why auto chose another instruction on an architecture that has wgmma for this type, for the report.
    pub(super) fn instead_of_wgmma(&mut self, config: &Config, machine: &Machine) -> Option<String> {
        let (chosen, by_warps) = match machine.plans.first() {
            Some(plan) if plan.is_wgmma() => return None,
            Some(_) => ("mma.sync", true),
            None => ("FMAs on CUDA cores", false),
        };
        if let Some(why) = &machine.instead {
            return Some(format!("{chosen}: {}", why.message));
        }
        let (key, Problem { message, .. }) = self.unlike_wgmma(config, false)?;
        if by_warps && self.wgmma_of_copies(config).is_some() {
            return Some(format!(
                "{chosen}: {message}; where it is faster, a launch copies such operands and multiplies the copies by wgmma"
            ));
        }
        let asked = self.wanted() == Wanted::Auto && !self.has(&OF_THREADS);
        (asked && !["arch", "dtype"].contains(&key)).then(|| format!("{chosen}: {message}"))
    }

    /// Sizes of the product by wgmma, if wgmma is requested or possible; an error if it does not have the sizes of the keys,
    /// and whether they are too large.
    fn wgmma(
        &mut self,
        config: &Config,
        wanted: bool,
        threads: Option<&'static str>,
    ) -> std::result::Result<Option<Vec<Plan>>, (Diagnostic, bool)> {
        let missing = self.unlike_wgmma(config, wanted);
        if !wanted && (missing.is_some() || threads.is_some()) {
            return Ok(None);
        }
        if let Some((key, problem)) = missing {
            return Err((problem.at(self.blamed(key)), false));
        }
        if let Some(key) = threads {
            return Err((self.of_threads(key), false));
        }
        let shipped = Plan::shipped(config);
        let Some(usual) = shipped.first().filter(|_| self.has(&OF_WGMMA)) else { return Ok(Some(shipped)) };
        let mut given = |key: &str| self.find(key).is_some().then(|| self.positive(key, 1));
        let [bm, bn, bk] = ["bm", "bn", "bk"].map(&mut given);
        let [cluster, band, stages] = ["cluster", "band", "stages"].map(&mut given);
        let ping_pong = self.flag("ping_pong");
        let bk = bk.unwrap_or(usual.tile[2]);
        // Keys are about C, and the transposed product swaps its rows and columns.
        let [left, right] = usual.sides([bm, bn]);
        let of = |[rows, columns, _]: [i64; 3]| {
            let tile = [left.unwrap_or(rows), right.unwrap_or(columns), bk];
            Plan {
                cluster: cluster.unwrap_or(usual.cluster),
                split: config.split,
                band: band.unwrap_or(usual.band),
                ..Plan::of_warpgroups(config, tile, ping_pong)
            }
        };
        // The first tile that goes with the keys gives the rows and columns that no key sets.
        let mut tiles = shipped.iter().map(|plan| of(plan.tile));
        let fits = tiles.find(|plan| hopper::unfit(plan, config).is_none());
        let mut plan = fits.unwrap_or_else(|| of(usual.tile));
        (plan.stages, plan.fewer) = (stages.unwrap_or(plan.stages), stages.is_none());
        if let Some((key, problem)) = hopper::unfit(&plan, config) {
            return Err((problem.at(self.blamed(key)), plan.is_too_large(config)));
        }
        if bk != usual.tile[2] && !wanted && !self.is_about_wgmma() {
            let message = format!(
                "by default a step of wgmma's ring is 128 bytes along K, {} elements of {}, and bk is {bk}",
                usual.tile[2], config.dtype
            );
            let unfit = Problem::new(message).help("leave bk out, or write mma = wgmma");
            return Err((unfit.at(self.blamed("bk")), false));
        }
        Ok(Some(vec![plan]))
    }
}
