//! Products on tensor cores as functions of the language: what an author would write with these keys.

mod epilogue;
mod results;
pub(super) mod threads;
mod weights;

use super::Config;
use super::config::{Precision, Residual};
use super::plan::Plan;
use super::scales::BLOCK;
use super::tensor::BAND;
use crate::build::tiled::{Terms, TiledMma};
use crate::evaluate;
use crate::launch::definition::Settings;
use crate::source::ast::make::{assign, bind, call, closure, named, repeat, text, two};
use crate::source::ast::{
    Arg, Binary, Choice, ConstParam, Expr, Kernel, Level, Param, ParamKind, Pattern, Stmt,
};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::tile::Program;
use crate::values::elem::Elem;

/// The constant of warps that share K, where they do.
const OVER_K: &str = "WK";

/// Constants of a page and their values.
type Constants = Vec<(&'static str, i64)>;

impl Plan {
    /// Rows and columns are C's; warps are arranged over the accumulators.
    fn constants(&self, c: &Config) -> Constants {
        let ([bm, bn], [rows, columns, parts]) = (self.of_c(c), self.groups);
        let (warpgroups, warps) = (self.is_wgmma(), !self.is_wgmma());
        let all = [
            (true, "BM", bm),
            (true, "BN", bn),
            (true, "BK", self.tile[2]),
            (warpgroups, "WARPGROUPS", rows),
            (warps, "WM", rows),
            (warps, "WN", columns),
            (warps, OVER_K, parts),
            (true, "STAGES", self.stages),
            (warpgroups, "CLUSTER", self.cluster),
            (self.may_split(c), "SPLIT", self.split_k),
        ];
        all.into_iter().filter(|row| row.0).map(|(_, name, value)| (name, value)).collect()
    }
}

/// A matrix of the batch of a block.
fn of_batch(c: &Config, name: &str) -> Expr {
    match c.batched {
        true => Expr::from(name).at(["_".into(), "_".into(), Expr::from("block").field("z")]),
        false => name.into(),
    }
}

/// What the parts of a page share.
struct Page<'p> {
    c: &'p Config,
    plan: &'p Plan,
    a_is_left: bool,
    /// Do warps share K, at some sizes?
    shares_k: bool,
    /// The row and the column of a block's tile of C.
    at: [Expr; 2],
}

impl Page<'_> {
    fn new<'p>(c: &'p Config, plan: &'p Plan, shares_k: bool) -> Page<'p> {
        let a_is_left = plan.a_is_left(c);
        let of = |axis: &str| Expr::from("block").field(axis);
        // The left operand's rows are along x: a cluster shares a tile of the right one.
        let at = plan.sides(c, [of("x"), of("y")]);
        Page { c, plan, a_is_left, shares_k, at }
    }

    fn of_batch(&self, name: &str) -> Expr {
        of_batch(self.c, name)
    }

    /// A matrix like C as the accumulators have its tile: where B is the left operand, transposed.
    fn like_c(&self, name: &str) -> Expr {
        let tile = call("tile", &[], [self.of_batch(name), ["BM", "BN"].into(), self.at.clone().into()]);
        if self.a_is_left { tile } else { call("permute", &[], [tile, [Expr::from(1), 0.into()].into()]) }
    }

    /// Tiles of a matrix at a block's rows, one for each step.
    fn steps(&self, name: &str, tile: [Expr; 2], at: &Expr) -> Stmt {
        let at = [at.clone(), "_".into()].into();
        bind(&format!("g{name}"), call("tile", &[], [self.of_batch(name), tile.into(), at]))
    }
}

/// The program of a page for one of its sizes.
pub(super) fn program(page: &Kernel, c: &Config, plan: &Plan) -> Result<Program> {
    let is_const = |(name, _): &(&str, i64)| page.consts.iter().any(|of| of.name.text == *name);
    let consts = plan.constants(c).into_iter().filter(is_const).map(|(name, value)| (named(name), value));
    let program = evaluated(page, Settings { consts: consts.collect(), ..Settings::default() });
    let program = program.map_err(|wrong| Problem::new(wrong.message))?;
    Ok(Program { competes: true, ..program })
}

/// The program of a page, or its first error.
fn evaluated(page: &Kernel, settings: Settings) -> std::result::Result<Program, Diagnostic> {
    let (program, all, _) = evaluate::program(page, &settings);
    let wrong = all.into_iter().find(|diagnostic| diagnostic.level == Level::Deny);
    wrong.map_or(Ok(program), Err)
}

/// The function, of at least one size.
pub(super) fn page(c: &Config, all: &[&Plan]) -> Result<Kernel> {
    let shares_k = all.iter().any(|plan| plan.parts() > 1);
    let constants = |plan: &&Plan| -> Constants {
        plan.constants(c).into_iter().filter(|(name, _)| shares_k || *name != OVER_K).collect()
    };
    let rows: Vec<Constants> = all.iter().map(constants).collect();
    let (Some(first), Some(&plan)) = (rows.first(), all.first()) else {
        return Err(Problem::new("a product has no sizes"));
    };
    let varies = |at: &usize| rows.iter().any(|row| row[*at] != first[*at]);
    let (listed, same): (Vec<usize>, Vec<usize>) = (0..first.len()).partition(varies);
    let consts = listed.iter().chain(&same).map(|at| ConstParam {
        name: named(first[*at].0),
        default: (!varies(at)).then(|| first[*at].1.into()),
    });
    let choice = Choice {
        names: listed.iter().map(|at| named(first[*at].0)).collect(),
        rows: rows.iter().map(|row| listed.iter().map(|at| row[*at].1).collect()).collect(),
    };
    let choices = if listed.is_empty() { Vec::new() } else { vec![choice] };
    let body = body(&Page::new(c, plan, shares_k));
    Ok(Kernel { choices, ..kernel(c, plan.overlaps, consts.collect(), body) })
}

/// The function of these constants and statements.
fn kernel(c: &Config, overlaps: bool, consts: Vec<ConstParam>, body: Vec<Stmt>) -> Kernel {
    Kernel {
        name: named(&c.name),
        is_unsafe: false,
        consts,
        types: Vec::new(),
        params: params(c),
        devices: Vec::new(),
        body,
        levels: Vec::new(),
        keys: vec![Arg { name: Some(named("arch")), value: i64::from(c.arch).into() }],
        overlaps,
        choices: Vec::new(),
    }
}

/// `name: &Tensor<elem, shape, stride>`
fn tensor(name: &str, elem: Elem, mutable: bool, shape: Expr, stride: Option<Expr>) -> Param {
    let kind = ParamKind::Tensor { mutable, shape, stride };
    Param { name: named(name), elem: named(elem.name()), kind, list: None }
}

/// A matrix argument; with batches it has a third mode.
fn matrix(
    c: &Config,
    name: &str,
    elem: Elem,
    extents: [impl Into<Expr>; 2],
    (by_rows, mutable): (bool, bool),
) -> Param {
    let ld = format!("ld{name}");
    let strides = if by_rows { [&*ld, "_1"] } else { ["_1", &*ld] };
    let batch = format!("batch_{name}");
    let more = |all: Vec<Expr>, last: &str| {
        Expr::from(all.into_iter().chain(c.batched.then(|| last.into())).collect::<Vec<_>>())
    };
    tensor(
        name,
        elem,
        mutable,
        more(extents.map(Into::into).into(), "L"),
        Some(more(strides.map(Expr::from).into(), &batch)),
    )
}

/// A vector argument: a number for each row or each column of C.
fn vector(name: &str, elem: Elem, along: usize) -> Param {
    tensor(name, elem, false, ["M", "N"][along].into(), None)
}

/// The argument of scales along a mode of C. Weights that are converted have one scale, and so it needs no other name.
fn scales(c: &Config, along: usize) -> &'static str {
    ["scale_rows", if c.mixed() { "scale" } else { "scale_columns" }][along]
}

fn params(c: &Config) -> Vec<Param> {
    let mut all = vec![
        matrix(c, "a", c.dtype, ["M", "K"], (c.a_rows, false)),
        matrix(c, "b", c.b_dtype, [Expr::from("N"), weights::extent_of_b(c)], (c.b_rows, false)),
        matrix(c, "c", c.out, ["M", "N"], (c.c_rows, true)),
    ];
    let scalar = |name: &str| Param {
        name: named(name),
        elem: named(c.scaled().name()),
        kind: ParamKind::Scalar,
        list: None,
    };
    all.extend(["alpha", "beta"].into_iter().filter(|_| c.alpha_beta).map(scalar));
    all.extend(
        weights::params(c)
            .into_iter()
            .map(|(name, extents)| matrix(c, name, c.dtype, extents, (false, false))),
    );
    if c.block_scales {
        let blocks = |of: &str| call("ceil_div", &[], [of.into(), BLOCK.into()]);
        let mut scales =
            |name, first, by_rows| all.push(matrix(c, name, c.acc, [first, blocks("K")], (by_rows, false)));
        scales("scale_a", "M".into(), false);
        scales("scale_b", blocks("N"), true);
    }
    let scales = (0..2).filter(|along| c.scales[*along]);
    all.extend(scales.map(|along| vector(self::scales(c, along), c.scaled(), along)));
    all.extend(c.bias.map(|along| vector("bias", c.out, along)));
    let residual = c.residual.map(|Residual { elem, .. }| elem);
    all.extend(residual.map(|elem| matrix(c, "residual", elem, ["M", "N"], (c.c_rows, false))));
    all.extend(c.aux.map(|elem| matrix(c, "aux", elem, ["M", "N"], (c.c_rows, true))));
    all
}

/// 0 as a literal for a type.
fn zero(elem: Elem) -> Expr {
    if elem.is_float() { 0.0.into() } else { 0.into() }
}

fn body(page: &Page) -> Vec<Stmt> {
    let &Page { c, plan, at: [ref row, ref column], .. } = page;
    let tile_of_a = ["BM", "BK"].map(Expr::from);
    let tile_of_b = ["BN".into(), weights::step_of_b(c)];
    let [sums, operands] = [["BM", "BN"], ["sa", "sb"]].map(|names| plan.sides(c, names));
    // Instructions of warps take both operands from registers, and each element's terms are made there.
    let is_in_terms = c.precision.terms() == Terms::Two && plan.is_wgmma();
    let step = |from: &str, to: &str| {
        let copy = call("copy", &[], [Expr::from(from).at(["_", "_", "k"]), to.into()]);
        // Rows out of bounds only affect accumulators that are not stored. Bulk copies need no guards.
        if plan.bulk { copy.stmt() } else { copy.with("boundary_check", 1).stmt() }
    };
    let mut loop_body = vec![step("ga", "sa"), step("gb", "sb")];
    loop_body.extend(weights::copies(page));
    let accumulators =
        |name| bind(name, Expr::from("mma").method("accumulators", [sums.into(), zero(c.acc)]));
    let operand = |name: &str| match name {
        "sb" if c.mixed() => weights::converted(page),
        _ if c.precision == Precision::Tf32 => {
            let rounded = closure(&["x"], Expr::from("x").cast(c.multiplied().name()));
            call("map", &[], [name.into(), rounded])
        }
        _ => name.into(),
    };
    let [left, right] = operands.map(operand);
    let product = |acc: &str| call("gemm", &[], [left.clone(), right.clone(), acc.into()]).stmt();
    if is_in_terms {
        loop_body.extend(in_terms(operands, accumulators("part")));
    } else if plan.promotes(c) {
        loop_body.extend(promoted(page, accumulators("part"), product("part")));
    } else {
        loop_body.push(product("acc"));
    }
    let shared = |name: &str, elem: Elem, layout: Expr| bind(name, call("shared", &[elem.name()], [layout]));
    let mut body = plan.schedule(c);
    body.extend([
        page.steps("a", tile_of_a.clone(), row),
        page.steps("b", tile_of_b.clone(), column),
        bind("gc", page.like_c("c")),
        shared("sa", c.dtype, of_shared(c, tile_of_a, c.a_rows)),
        shared("sb", c.b_dtype, of_shared(c, tile_of_b, c.b_rows)),
        bind("mma", instruction(page)),
        accumulators("acc"),
    ]);
    body.extend(weights::tiles(page));
    body.extend(c.block_scales.then(|| block_scales(page)).into_iter().flatten());
    if is_in_terms {
        let [_, side] = sums;
        let tile = |name| bind(name, call("shared", &[Elem::Tf32.name()], [[side, "BK"].into()]));
        body.extend([bind("terms", terms()), tile("high"), tile("low")]);
    }
    body.push(repeat("k", plan.pipelined(c), loop_body));
    body.extend(epilogue::epilogue(page));
    body
}

impl Plan {
    /// How blocks take tiles: in bands, so that concurrent ones share operands in the L2 cache.
    fn schedule(&self, c: &Config) -> Vec<Stmt> {
        let [rows, _] = self.sides(c, ["BM", "BN"]);
        let cluster = self.is_wgmma().then(|| call("cluster", &[], ["CLUSTER".into()]));
        let persistent = self.bulk.then(|| call("persistent", &[], []));
        let persistent =
            persistent.map(|call| if self.ping_pong { call.with("alternate", true) } else { call });
        let bands =
            if self.is_wgmma() { self.band.into() } else { two(Binary::Div, BAND.into(), rows.into()) };
        let all = [cluster, persistent, Some(call("raster", &[], [bands]))];
        all.into_iter().flatten().map(Expr::stmt).collect()
    }

    fn pipelined(&self, c: &Config) -> Expr {
        let range = Expr::from(0).to(Expr::from("ga").method("size", [2.into()]));
        let range =
            call("pipelined", &[], [range]).with(if self.fewer { "most_stages" } else { "stages" }, "STAGES");
        let range = if self.bulk { range.with("producer", "warp") } else { range };
        let split = call("cluster", &[], ["SPLIT".into()]);
        if self.may_split(c) { range.with("split", split) } else { range }
    }
}

/// The layout of a shared tile, or its shape alone.
fn of_shared(c: &Config, tile: [Expr; 2], by_rows: bool) -> Expr {
    let Some(swizzle) = c.of_tiles else { return tile.into() };
    let [bits, base] = [swizzle.bits(), swizzle.base()].map(|part| i64::from(part).into());
    let plain = match by_rows {
        true => call("row_major", &[], [tile.into()]),
        false => call("padded", &[], [tile.into(), 0.into()]),
    };
    call("swizzled", &[], [bits, base, i64::from(swizzle.shift()).into(), plain])
}

/// The instruction with its warps or warpgroups: by the types if it is the best for them.
fn instruction(page: &Page) -> Expr {
    let c = page.c;
    let of_types = || call("tiled_mma", &[c.multiplied().name(), c.acc.name()], []);
    let Some(row) = page.plan.row else { return of_types().with("warpgroups", "WARPGROUPS") };
    let warps: Expr =
        if page.shares_k { ["WM", "WN", OVER_K].map(Expr::from).into() } else { ["WM", "WN"].into() };
    let is_best = TiledMma::row(c.multiplied(), c.acc, c.arch).is_some_and(|best| best.name == row.name);
    let mma = match is_best {
        true => of_types().with("warps", warps),
        false => call("tiled_mma", &[], [text(row.name), warps]),
    };
    if c.precision.terms() == Terms::Two { mma.with("terms", 2) } else { mma }
}

/// An element of f32 as the sum of two terms of tf32: the nearest, where ties go away from zero, and the rest, which is rounded
/// away from zero.
///
/// Two operations make the first term: half of its last bit is added to the bits of the number, and the lower bits are cut off. A
/// conversion would take four operations, since it preserves NaN; here the rest of a NaN is NaN. The rest has at most 12 bits, and
/// instructions ignore the last one: a factor of 1 + 2^-11 adds at least half of the eleventh bit, and less than all of it.
fn terms() -> Expr {
    const HALF: i64 = 0x1000;
    const KEPT: i64 = 0xffff_e000;
    const LONGER: f64 = 1.0 + 1.0 / 2048.0;
    let [tf32, word] = [Elem::Tf32, Elem::U32].map(Elem::name);
    let bits = two(Binary::Add, call("bits", &[word], ["x".into()]), HALF.into());
    let high = call("bits", &[tf32], [two(Binary::And, bits, KEPT.into())]);
    let rest = two(Binary::Sub, "x".into(), Expr::from("high").cast(Elem::F32.name()));
    let low = call("bits", &[tf32], [two(Binary::Mul, rest, LONGER.into())]);
    closure(&["x"], Expr::from(["high".into(), low]).given(Pattern::Name(named("high")), high))
}

/// The sums of a step of operands in two terms: the products of all but both lower terms. Products with a lower term come first:
/// tensor cores cut off bits below the last bits of the largest sum.
fn in_terms([left, right]: [&str; 2], part: Stmt) -> Vec<Stmt> {
    let of = |name, tile: &str| bind(name, call("map", &[], [tile.into(), "terms".into()]));
    let [left_term, right_term] = ["left", "right"].map(|name| move |at: &str| Expr::from(name).field(at));
    let stored = |at, to: &str| call("copy", &[], [right_term(at), to.into()]).stmt();
    let product = |at, right: &str| call("gemm", &[], [left_term(at), right.into(), "part".into()]).stmt();
    vec![
        of("left", left),
        of("right", right),
        stored("0", "high"),
        stored("1", "low"),
        part,
        product("1", "high"),
        product("0", "low"),
        product("0", "high"),
        assign("acc", two(Binary::Add, "acc".into(), "part".into())),
    ]
}

/// The tiles of scales of blocks.
fn block_scales(page: &Page) -> Vec<Stmt> {
    let [row, column] = &page.at;
    // Columns of a tile are in one block.
    let column = two(Binary::Div, two(Binary::Mul, column.clone(), "BN".into()), BLOCK.into());
    vec![
        page.steps("scale_a", ["BM".into(), 1.into()], row),
        page.steps("scale_b", [1.into(), 1.into()], &column),
        bind("sscale_a", call("shared", &[page.c.acc.name()], ["BM".into()])),
    ]
}

/// The sums of a step, which are promoted.
fn promoted(page: &Page, part: Stmt, product: Stmt) -> Vec<Stmt> {
    let (acc, names) = (Expr::from("acc"), ["acc", "part", "scale"]);
    if !page.c.block_scales {
        return vec![part, product, assign("acc", two(Binary::Add, acc, "part".into()))];
    }
    let [of_a, of_b] = ["gscale_a", "gscale_b"].map(Expr::from);
    let block = match BLOCK / page.plan.tile[2] {
        1 => Expr::from("k"),
        steps => two(Binary::Div, "k".into(), steps.into()),
    };
    let copied = [of_a.at([Expr::from("_"), 0.into(), block.clone()]), "sscale_a".into()];
    let along = i64::from(!page.a_is_left);
    let both = [
        Expr::from("sscale_a").method("along", [along.into()]),
        of_b.at([Expr::from("_"), "_".into(), block]),
    ];
    let scale = closure(&["a", "b"], two(Binary::Mul, "a".into(), "b".into()));
    let sum = closure(&names, call("fma", &[], ["part", "scale", "acc"].map(Expr::from)));
    vec![
        call("copy", &[], copied).stmt(),
        part,
        product,
        bind("scale", call("map", &[], [both.into(), scale])),
        assign("acc", call("map", &[], [names.into(), sum])),
    ]
}
