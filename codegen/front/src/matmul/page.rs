//! Products on tensor cores as functions of the language: what an author would write with these keys. The statements are text of the
//! language, apart from functions of elements, in which the author's own function has its spans.

mod epilogue;
mod results;
pub(super) mod threads;
mod weights;

use super::Config;
use super::config::Precision;
use super::plan::Plan;
use super::scales::BLOCK;
use super::tensor::BAND;
use crate::evaluate;
use crate::launch::definition::Settings;
use crate::source::ast::make::named;
use crate::source::ast::{Arg, Choice, ConstParam, Kernel, Level, Stmt};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::tile::Program;
use crate::values::elem::Elem;
use crate::words::{self, stmts};
use results::Results;

/// Constants of a page and their values.
type Constants = Vec<(&'static str, i64)>;

/// A matrix of a batch.
fn of_batch(c: &Config, name: &str, batch: &str) -> String {
    if c.batched { format!("{name}[(_, _, {batch})]") } else { name.to_owned() }
}

/// What the parts of a page share.
struct Page<'p> {
    c: &'p Config,
    /// One of its sizes.
    plan: &'p Plan,
    /// Do warps share K, at some sizes?
    shares_k: bool,
    /// Is A the left operand at some sizes, and B at others?
    swaps: bool,
    /// Do blocks of the grid divide K, at some sizes?
    has_parts: bool,
    /// The row and the column of a block's tile of C.
    at: [&'static str; 2],
}

impl Page<'_> {
    /// The constants of a size. Rows and columns are C's; warps are arranged over the accumulators.
    fn constants(&self, plan: &Plan) -> Constants {
        let ([bm, bn], [rows, columns, parts], split) = (plan.of_c(), plan.groups, plan.split.blocks());
        let (warpgroups, warps) = (plan.is_wgmma(), !plan.is_wgmma());
        let (of_cluster, of_grid) = if plan.split.is_of_grid() { (1, split) } else { (split, 1) };
        let all = [
            (true, "BM", bm),
            (true, "BN", bn),
            (true, "BK", plan.tile[2]),
            (warpgroups, "WARPGROUPS", rows),
            (warps, "WM", rows),
            (warps, "WN", columns),
            (warps && self.shares_k, "WK", parts),
            (true, "STAGES", plan.stages),
            (warpgroups, "CLUSTER", plan.cluster),
            (plan.may_split(self.c), "SPLIT", of_cluster),
            (self.has_parts, "PARTS", of_grid),
            (self.swaps, "A_LEFT", plan.a_left.into()),
        ];
        all.into_iter().filter(|row| row.0).map(|(_, name, value)| (name, value)).collect()
    }

    fn of_batch(&self, name: &str) -> String {
        of_batch(self.c, name, "block.z")
    }

    /// A matrix like C as the accumulators have its tile: where B is the left operand, transposed.
    fn like_c(&self, name: &str) -> String {
        let tile = format!("tile({}, (BM, BN), ({}))", self.of_batch(name), self.at.join(", "));
        match (self.swaps, self.plan.a_left) {
            (true, _) => format!("permute({tile}, order)"),
            (false, true) => tile,
            (false, false) => format!("permute({tile}, (1, 0))"),
        }
    }

    /// The mode of accumulators that rows or columns of C are.
    fn of_acc(&self, along: usize) -> &'static str {
        let modes = if self.swaps { ["1 - A_LEFT", "A_LEFT"] } else { self.plan.sides(["0", "1"]) };
        modes[along]
    }

    /// What A and B have, or rows and columns of C, for the left and the right operand.
    fn in_order(&self, [a, b]: [&str; 2]) -> String {
        if self.swaps {
            return format!("if A_LEFT == 1 {{ ({a}, {b}) }} else {{ ({b}, {a}) }}");
        }
        let [left, right] = self.plan.sides([a, b]);
        format!("({left}, {right})")
    }

    /// Tiles of a matrix at a block's rows, one for each step.
    fn steps(&self, name: &str, tile: &str, at: &str) -> String {
        format!("let g{name} = tile({}, {tile}, ({at}, _));", self.of_batch(name))
    }
}

/// The programs of a page, one for each of its sizes.
pub(super) fn programs(c: &Config, plans: &[Plan]) -> Result<Vec<Program>> {
    let page = page(c, plans)?;
    let all = Settings::default().alternatives(&page);
    let program = |settings| Ok(Program { competes: true, ..evaluated(&page, settings)? });
    all.and_then(|all| all.into_iter().map(program).collect())
        .map_err(|wrong: Diagnostic| Problem::new(wrong.message))
}

/// The program of a page, or its first error.
fn evaluated(page: &Kernel, settings: Settings) -> std::result::Result<Program, Diagnostic> {
    let (program, all, _) = evaluate::program(page, &settings);
    let wrong = all.into_iter().find(|diagnostic| diagnostic.level == Level::Deny);
    wrong.map_or(Ok(program), Err)
}

/// The function, of at least one size.
pub(super) fn page(c: &Config, all: &[Plan]) -> Result<Kernel> {
    let Some(plan) = all.first() else { return Err(Problem::new("a product has no sizes")) };
    let swaps = all.iter().any(|other| other.a_left != plan.a_left);
    let page = Page {
        c,
        plan,
        shares_k: all.iter().any(|plan| plan.parts() > 1),
        swaps,
        has_parts: all.iter().any(|plan| plan.split.is_of_grid()),
        // The left operand's rows are along x: a cluster shares a tile of the right one.
        at: if swaps { ["row", "column"] } else { plan.sides(["block.x", "block.y"]) },
    };
    let rows: Vec<Constants> = all.iter().map(|plan| page.constants(plan)).collect();
    let first = &rows[0];
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
    Ok(Kernel { choices, ..kernel(c, plan.overlaps, consts.collect(), body(&page)?)? })
}

/// The function of these constants and statements.
fn kernel(c: &Config, overlaps: bool, consts: Vec<ConstParam>, body: Vec<Stmt>) -> Result<Kernel> {
    Ok(Kernel {
        name: named(&c.name),
        is_unsafe: false,
        consts,
        types: Vec::new(),
        params: words::params(&params(c))?,
        devices: Vec::new(),
        body,
        levels: Vec::new(),
        keys: vec![Arg::of_number("arch", c.arch.into())],
        overlaps,
        choices: Vec::new(),
    })
}

/// The argument of scales along a mode of C. Weights that are converted have one scale, and so it needs no other name.
fn scales(c: &Config, along: usize) -> &'static str {
    ["scale_rows", if c.mixed() { "scale" } else { "scale_columns" }][along]
}

/// The arguments.
fn params(c: &Config) -> String {
    // A matrix; with batches it has a third mode.
    let matrix = |name: &str, elem: Elem, extents: &str, by_rows: bool| {
        let strides = if by_rows { format!("ld{name}, _1") } else { format!("_1, ld{name}") };
        let (l, batch) = if c.batched { (", L", format!(", batch_{name}")) } else { ("", String::new()) };
        let mutable = if ["c", "aux"].contains(&name) { "mut " } else { "" };
        format!("{name}: &{mutable}Tensor<{elem}, ({extents}{l}), ({strides}{batch})>,")
    };
    let like_c = |name, elem| matrix(name, elem, "M, N", c.c_rows);
    let groups = format!("N, ceil_div(K, {})", c.group.unwrap_or(1));
    let mut all = vec![
        matrix("a", c.dtype, "M, K", c.a_rows),
        matrix("b", c.b_dtype, weights::extents_of_b(c), c.b_rows),
        like_c("c", c.out),
    ];
    all.extend(
        ["alpha", "beta"].into_iter().filter(|_| c.alpha_beta).map(|name| format!("{name}: {},", c.scaled())),
    );
    all.extend(weights::of_groups(c).iter().map(|[name, ..]| matrix(name, c.dtype, &groups, false)));
    if c.block_scales {
        all.push(matrix("scale_a", c.acc, &format!("M, ceil_div(K, {BLOCK})"), false));
        all.push(matrix("scale_b", c.acc, &format!("ceil_div(N, {BLOCK}), ceil_div(K, {BLOCK})"), true));
    }
    all.extend(Results::of(c).others().map(|of| match of.along {
        Some(along) => format!("{}: &Tensor<{}, {}>,", of.argument, of.elem, ["M", "N"][along]),
        None => like_c(of.argument, of.elem),
    }));
    all.extend(c.aux.map(|elem| like_c("aux", elem)));
    all.concat()
}

/// 0 as a literal for a type.
fn zero(elem: Elem) -> &'static str {
    if elem.is_float() { "0.0" } else { "0" }
}

fn body(page: &Page) -> Result<Vec<Stmt>> {
    let &Page { c, plan, at: [row, column], .. } = page;
    let (tile_of_a, tile_of_b) = ("(BM, BK)", format!("(BN, {})", weights::step_of_b(c)));
    let sides = page.in_order(["BM", "BN"]);
    let (mut coordinates, mut in_shared, mut operands) =
        (String::new(), String::new(), plan.sides(["sa", "sb"]));
    if page.swaps {
        let [at, tiles, modes] =
            [["block.x", "block.y"], ["sa", "sb"], ["0", "1"]].map(|of| page.in_order(of));
        coordinates = format!("let (row, column) = {at}; let order = {modes};");
        in_shared = format!("let (left, right) = {tiles};");
        operands = ["left", "right"];
    }
    // Instructions of warps take both operands from registers, and each element's terms are made there.
    let is_in_terms = c.is_in_terms() && plan.is_wgmma();
    let part = format!("let part = mma.accumulators({sides}, {});", zero(c.acc));
    let product = |acc: &str| {
        let operand = |name: &str| match name {
            "sb" if c.mixed() => weights::converted(page),
            _ if c.precision == Precision::Tf32 => format!("map({name}, |x| x as {})", c.multiplied()),
            _ => name.to_owned(),
        };
        format!("gemm({}, {acc});", operands.map(operand).join(", "))
    };
    let (mut tiles, steps) = (
        weights::tiles(page),
        match () {
            () if is_in_terms => in_terms(operands, &part),
            () if plan.promotes(c) => promoted(page, &part, &product("part")),
            () => product("acc"),
        },
    );
    if c.block_scales {
        tiles += &block_scales(page);
    }
    if is_in_terms {
        let [_, right] = plan.sides(["BM", "BN"]);
        let tile = format!("shared::<{}>(({right}, BK))", Elem::Tf32);
        tiles += &format!("let terms = {}; let high = {tile}; let low = {tile};", terms());
    }
    // Rows out of bounds only affect accumulators that are not stored. Bulk copies need no guards.
    let guards = if plan.bulk { "" } else { ", boundary_check = 1" };
    let text = format!(
        "{schedule} {coordinates} {ga} {gb}
        let gc = {gc};
        let sa = shared::<{a}>({sa});
        let sb = shared::<{b}>({sb});
        {in_shared}
        let mma = {mma};
        let acc = mma.accumulators({sides}, {zero});
        {tiles}
        for k in {pipelined} {{
            copy(ga[(_, _, k)], sa{guards});
            copy(gb[(_, _, k)], sb{guards});
            {copies} {steps}
        }}",
        schedule = page.schedule(),
        ga = page.steps("a", tile_of_a, row),
        gb = page.steps("b", &tile_of_b, column),
        gc = page.like_c("c"),
        a = c.dtype,
        b = c.b_dtype,
        sa = of_shared(c, tile_of_a, c.a_rows),
        sb = of_shared(c, &tile_of_b, c.b_rows),
        mma = instruction(page),
        zero = zero(c.acc),
        pipelined = page.pipelined(),
        copies = weights::copies(page),
    );
    Ok([stmts(&text, &[])?, epilogue::epilogue(page)?].concat())
}

impl Page<'_> {
    /// How blocks take tiles: in bands, so that concurrent ones share operands in the L2 cache.
    fn schedule(&self) -> String {
        let (plan, [rows, _]) = (self.plan, self.plan.sides(["BM", "BN"]));
        let cluster = if plan.is_wgmma() { "cluster(CLUSTER);" } else { "" };
        let persistent = match (plan.bulk, plan.ping_pong) {
            (false, _) => "",
            (true, false) => "persistent();",
            (true, true) => "persistent(alternate = true);",
        };
        let bands = if plan.is_wgmma() { plan.band.to_string() } else { format!("{BAND} / {rows}") };
        format!("{cluster} {persistent} raster({bands});")
    }

    fn pipelined(&self) -> String {
        let stages = if self.plan.fewer { "most_stages" } else { "stages" };
        let producer = if self.plan.bulk { ", producer = warp" } else { "" };
        let split = match (self.plan.may_split(self.c), self.has_parts) {
            (false, _) => "",
            (true, false) => ", split = cluster(SPLIT)",
            (true, true) => ", split = if PARTS > 1 { blocks(PARTS) } else { cluster(SPLIT) }",
        };
        format!("pipelined(0..ga.size(2), {stages} = STAGES{producer}{split})")
    }
}

/// The layout of a shared tile, or its shape alone.
fn of_shared(c: &Config, tile: &str, by_rows: bool) -> String {
    let Some(swizzle) = c.of_tiles else { return tile.to_owned() };
    let plain = if by_rows { format!("row_major({tile})") } else { format!("padded({tile}, 0)") };
    format!("swizzled({}, {}, {}, {plain})", swizzle.bits(), swizzle.base(), swizzle.shift())
}

/// The instruction with its warps or warpgroups: by the types if it is the best for them.
fn instruction(page: &Page) -> String {
    let (c, of_types) = (page.c, format!("::<{}, {}>(", page.c.multiplied(), page.c.acc));
    let Some(row) = page.plan.row else { return format!("tiled_mma{of_types}warpgroups = WARPGROUPS)") };
    let warps = if page.shares_k { "(WM, WN, WK)" } else { "(WM, WN)" };
    let terms = if c.is_in_terms() { ", terms = 2" } else { "" };
    match c.instruction(c.arch).is_some_and(|best| best.name == row.name) {
        true => format!("tiled_mma{of_types}warps = {warps}{terms})"),
        false => format!("tiled_mma(\"{}\", {warps}{terms})", row.name),
    }
}

/// An element of f32 as the sum of two terms of tf32: the nearest, where ties go away from zero, and the rest, which is rounded
/// away from zero.
///
/// Two operations make the first term: half of its last bit is added to the bits of the number, and the lower bits are cut off. A
/// conversion would take four operations, since it preserves NaN; here the rest of a NaN is NaN. The rest has at most 12 bits, and
/// instructions ignore the last one: a factor of 1 + 2^-11 adds at least half of the eleventh bit, and less than all of it.
fn terms() -> String {
    const HALF: i64 = 0x1000;
    const KEPT: i64 = 0xffff_e000;
    const LONGER: f64 = 1.0 + 1.0 / 2048.0;
    format!(
        "|x| {{
            let high = bits::<tf32>((bits::<u32>(x) + {HALF}) & {KEPT});
            (high, bits::<tf32>((x - high as f32) * {LONGER}))
        }}"
    )
}

/// The sums of a step of operands in two terms: the products of all but both lower terms. Products with a lower term come first:
/// tensor cores cut off bits below the last bits of the largest sum.
fn in_terms([left, right]: [&str; 2], part: &str) -> String {
    format!(
        "let left = map({left}, terms);
        let right = map({right}, terms);
        copy(right.0, high);
        copy(right.1, low);
        {part}
        gemm(left.1, high, part);
        gemm(left.0, low, part);
        gemm(left.0, high, part);
        acc = acc + part;"
    )
}

/// The tiles of scales of blocks. Columns of a tile are in one block.
fn block_scales(page: &Page) -> String {
    let [row, column] = page.at;
    let [of_a, of_b] = [
        page.steps("scale_a", "(BM, 1)", row),
        page.steps("scale_b", "(1, 1)", &format!("{column} * BN / {BLOCK}")),
    ];
    format!("{of_a} {of_b} let sscale_a = shared::<{}>(BM);", page.c.acc)
}

/// The sums of a step, which are promoted.
fn promoted(page: &Page, part: &str, product: &str) -> String {
    if !page.c.block_scales {
        return format!("{part} {product} acc = acc + part;");
    }
    let block = match BLOCK / page.plan.tile[2] {
        1 => "k".to_owned(),
        steps => format!("k / {steps}"),
    };
    format!(
        "copy(gscale_a[(_, 0, {block})], sscale_a);
        {part} {product}
        let scale = map((sscale_a.along({along}), gscale_b[(_, _, {block})]), |a, b| a * b);
        acc = map((acc, part, scale), |acc, part, scale| fma(part, scale, acc));",
        along = page.of_acc(0)
    )
}
