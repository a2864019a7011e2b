//! Products by wgmma as a function of the language: what an author would write with these keys.

mod results;
pub(super) mod threads;
mod weights;

use super::Config;
use super::block_scales::BLOCK;
use super::config::{Residual, When};
use super::hopper::Sizes;
use crate::build::tiled::Terms;
use crate::front::evaluate;
use crate::launch::definition::Settings;
use crate::source::ast::make::{assign, bind, call, choice, closure, named, repeat, two};
use crate::source::ast::{
    Arg, Binary, Choice, ConstParam, Expr, ExprKind, Kernel, Level, Param, ParamKind, Pattern, Stmt,
};
use crate::source::problem::{Problem, Result};
use crate::tile::Program;
use crate::values::elem::Elem;

/// The constants of the page that differ from one of the sizes to another, or all of them.
const CONSTANTS: [&str; 7] = ["BM", "BN", "BK", "WARPGROUPS", "STAGES", "CLUSTER", "SPLIT"];

/// Their values. Rows and columns are C's.
fn constants(c: &Config, sizes: &Sizes) -> [i64; 7] {
    let [bm, bn] = c.by_wgmma(sizes.tile);
    let &Sizes { tile: [.., bk], stages, cluster, split_k, .. } = sizes;
    [bm, bn, bk, sizes.warpgroups_of_tile(), stages, cluster, split_k]
}

/// The program of a page for one of its sizes.
pub(super) fn program(page: &Kernel, c: &Config, sizes: &Sizes) -> Result<Program> {
    let consts = CONSTANTS.iter().map(|name| named(name)).zip(constants(c, sizes));
    let (mut program, wrong, _) =
        evaluate::program(page, &Settings { consts: consts.collect(), ..Settings::default() });
    if let Some(wrong) = wrong.into_iter().find(|diagnostic| diagnostic.level == Level::Deny) {
        return Err(Problem::new(wrong.message));
    }
    program.competes = true;
    Ok(program)
}

/// The function.
pub(super) fn page(c: &Config, sizes: &[Sizes]) -> Kernel {
    let rows: Vec<[i64; 7]> = sizes.iter().map(|sizes| constants(c, sizes)).collect();
    let varies = |at: usize| rows.iter().any(|row| row[at] != rows[0][at]);
    let (listed, same): (Vec<usize>, Vec<usize>) = (0..CONSTANTS.len()).partition(|at| varies(*at));
    let consts = listed.iter().chain(&same).map(|&at| ConstParam {
        name: named(CONSTANTS[at]),
        default: (!varies(at)).then(|| rows[0][at].into()),
    });
    let choice = Choice {
        names: listed.iter().map(|at| named(CONSTANTS[*at])).collect(),
        rows: rows.iter().map(|row| listed.iter().map(|at| row[*at]).collect()).collect(),
    };
    Kernel {
        name: named(&c.name),
        is_unsafe: false,
        consts: consts.collect(),
        types: Vec::new(),
        params: params(c),
        devices: Vec::new(),
        body: body(c, sizes.first()),
        levels: Vec::new(),
        keys: vec![Arg { name: Some(named("arch")), value: 90.into() }],
        overlaps: c.overlaps,
        choices: if listed.is_empty() { Vec::new() } else { vec![choice] },
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

/// `block.x`, along the rows of the left operand, and `block.y`. A cluster shares a tile of the right operand.
fn blocks(c: &Config) -> [Expr; 2] {
    let of = |axis: &str| Expr::from("block").field(axis);
    if c.a_is_left() { [of("x"), of("y")] } else { [of("y"), of("x")] }
}

/// A matrix of the batch of a block.
fn of_batch(c: &Config, name: &str) -> Expr {
    match c.batched {
        true => Expr::from(name).at(["_".into(), "_".into(), Expr::from("block").field("z")]),
        false => name.into(),
    }
}

/// A matrix like C as the accumulators have its tile: where B is the left operand, transposed.
fn like_c(c: &Config, name: &str) -> Expr {
    let tile = call("tile", &[], [of_batch(c, name), ["BM", "BN"].into(), blocks(c).into()]);
    if c.a_is_left() { tile } else { call("permute", &[], [tile, [Expr::from(1), 0.into()].into()]) }
}

/// 0 as a literal for a type.
fn zero(elem: Elem) -> Expr {
    if elem.is_float() { 0.0.into() } else { 0.into() }
}

fn body(c: &Config, sizes: Option<&Sizes>) -> Vec<Stmt> {
    let [row, column] = blocks(c);
    let k_tiles = |name: &str, tile: [Expr; 2], block: Expr| {
        let at = [block, "_".into()].into();
        bind(&format!("g{name}"), call("tile", &[], [of_batch(c, name), tile.into(), at]))
    };
    let shared = |name: &str, elem: Elem, tile: [Expr; 2]| {
        bind(&format!("s{name}"), call("shared", &[elem.name()], [tile.into()]))
    };
    let tile_of_a = || ["BM".into(), "BK".into()];
    let tile_of_b = || ["BN".into(), weights::step_of_b(c)];
    let mma = call("tiled_mma", &[c.multiplied().name(), c.acc.name()], []).with("warpgroups", "WARPGROUPS");
    let (sums, left, right) =
        if c.a_is_left() { (["BM", "BN"], "sa", "sb") } else { (["BN", "BM"], "sb", "sa") };
    let is_in_terms = c.precision.terms() == Terms::Two;
    let step =
        |from: &str, to: &str| call("copy", &[], [Expr::from(from).at(["_", "_", "k"]), to.into()]).stmt();
    let range = Expr::from(0).to(Expr::from("ga").method("size", [2.into()]));
    let range = call("pipelined", &[], [range])
        .with("stages", "STAGES")
        .with("producer", "warp")
        .with("split", call("cluster", &[], ["SPLIT".into()]));
    let mut loop_body = vec![step("ga", "sa"), step("gb", "sb")];
    loop_body.extend(weights::copies(c, sizes));
    let accumulators =
        |name| bind(name, Expr::from("mma").method("accumulators", [sums.into(), zero(c.acc)]));
    let operands = [left, right];
    let left = if c.mixed() { weights::converted(c, sizes) } else { left.into() };
    let product = |acc: &str| call("gemm", &[], [left.clone(), right.into(), acc.into()]).stmt();
    if is_in_terms {
        loop_body.extend(in_terms(operands, accumulators("part")));
    } else if c.promotes() {
        loop_body.extend(promoted(c, accumulators("part"), product("part")));
    } else {
        loop_body.push(product("acc"));
    }
    let mut persistent =
        call("persistent", &[], []).with("bands", sizes.map_or(1, |sizes| i64::from(sizes.band)));
    if sizes.is_some_and(|sizes| sizes.ping_pong) {
        persistent = persistent.with("alternate", true);
    }
    let mut body = vec![
        call("cluster", &[], ["CLUSTER".into()]).stmt(),
        persistent.stmt(),
        k_tiles("a", tile_of_a(), row),
        k_tiles("b", tile_of_b(), column),
        bind("gc", like_c(c, "c")),
        shared("a", c.dtype, tile_of_a()),
        shared("b", c.b_dtype, tile_of_b()),
        bind("mma", mma),
        accumulators("acc"),
    ];
    body.extend(weights::tiles(c, sizes));
    body.extend(c.block_scales.then(|| block_scales(c)).into_iter().flatten());
    if is_in_terms {
        let side = if c.a_is_left() { "BN" } else { "BM" };
        let tile = |name| bind(name, call("shared", &[Elem::Tf32.name()], [[side, "BK"].into()]));
        body.extend([bind("terms", terms()), tile("high"), tile("low")]);
    }
    body.push(repeat("k", range, loop_body));
    body.extend(epilogue(c));
    body
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
fn block_scales(c: &Config) -> Vec<Stmt> {
    let [row, column] = blocks(c);
    // Columns of a tile are in one block.
    let column = two(Binary::Div, two(Binary::Mul, column, "BN".into()), BLOCK.into());
    let tile = |name: &str, shape: [Expr; 2], block: Expr| {
        let at = [block, "_".into()].into();
        bind(&format!("g{name}"), call("tile", &[], [of_batch(c, name), shape.into(), at]))
    };
    vec![
        tile("scale_a", ["BM".into(), 1.into()], row),
        tile("scale_b", [1.into(), 1.into()], column),
        bind("sscale_a", call("shared", &[c.acc.name()], ["BM".into()])),
    ]
}

/// The sums of a step, which are promoted.
fn promoted(c: &Config, part: Stmt, product: Stmt) -> Vec<Stmt> {
    let (acc, names) = (Expr::from("acc"), ["acc", "part", "scale"]);
    if !c.block_scales {
        return vec![part, product, assign("acc", two(Binary::Add, acc, "part".into()))];
    }
    let [of_a, of_b] = ["gscale_a", "gscale_b"].map(Expr::from);
    let copied = [of_a.at([Expr::from("_"), 0.into(), "k".into()]), "sscale_a".into()];
    let both = [Expr::from("sscale_a").method("along", [0.into()]), of_b.at(["_", "_", "k"])];
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

/// The tiles of further arguments, and the copies of results: of accumulators, or of a function of them and of these tiles.
fn epilogue(c: &Config) -> Vec<Stmt> {
    let scaled = c.scaled().name();
    let (mut stmts, mut tiles, mut names) = (Vec::new(), vec![Expr::from("acc")], vec!["x"]);
    let mut sum: Expr = "x".into();
    if scaled != c.acc.name() {
        sum = sum.cast(scaled);
    }
    if c.alpha_beta {
        sum = two(Binary::Mul, "alpha".into(), sum);
    }
    // A vector is along the accumulators' rows or columns.
    let [row, column] = blocks(c);
    let vector = |name: &str, along: usize| {
        let (side, block) = if along == 0 { ("BM", row.clone()) } else { ("BN", column.clone()) };
        let along = if c.a_is_left() { along } else { 1 - along };
        call("tile", &[], [name.into(), side.into(), block]).method("along", [(along as i64).into()])
    };
    let mut input = |tile: Expr, argument: &str, name: &'static str, elem: Elem| {
        let of = format!("g{argument}");
        tiles.push((&*of).into());
        if argument != "c" {
            stmts.push(bind(&of, tile));
        }
        names.push(name);
        if elem.name() == scaled { Expr::from(name) } else { Expr::from(name).cast(scaled) }
    };
    for along in (0..2).filter(|along| c.scales[*along]) {
        let (argument, name) = (scales(c, along), ["row", "column"][along]);
        sum = two(Binary::Mul, sum, input(vector(argument, along), argument, name, c.scaled()));
    }
    let bias = c.bias.map(|along| input(vector("bias", along), "bias", "bias", c.out));
    let residual =
        c.residual.map(|of| (input(like_c(c, "residual"), "residual", "residual", of.elem), of.when));
    let (before, after) = match residual {
        Some((value, When::Before)) => (Some(value), None),
        Some((value, When::After)) => (None, Some(value)),
        None => (None, None),
    };
    let added =
        |sum: Expr| bias.iter().chain(&before).fold(sum, |sum, more| two(Binary::Add, sum, more.clone()));
    let finish = |sum: Expr| {
        let value = match c.function.as_ref().map(|function| &function.kind) {
            Some(ExprKind::Closure { params, body }) => applied(params, body, sum),
            _ => sum,
        };
        after.iter().fold(value, |value, more| two(Binary::Add, value, more.clone()))
    };
    let old = match c.alpha_beta {
        true => Some(input("gc".into(), "c", "old", c.out)),
        false => None,
    };
    // A result is a function of the sums: C is read only if beta is not 0.
    let result = |of: &dyn Fn(Expr) -> Expr| match &old {
        Some(old) => {
            let more = of(call("fma", &[], ["beta".into(), old.clone(), sum.clone()]));
            choice(two(Binary::Ne, "beta".into(), zero(c.scaled())), more, of(sum.clone()))
        }
        None => of(sum.clone()),
    };
    let (aux, value) = (c.aux.map(|_| result(&added)), result(&|sum| finish(added(sum))));
    let copied = |value: Expr, to: &str| {
        let value = match &value.kind {
            ExprKind::Name(_) => "acc".into(),
            _ => call("map", &[], [tiles.clone().into(), closure(&names, value)]),
        };
        call("copy", &[], [value, to.into()]).stmt()
    };
    let of_c = copied(value, "gc");
    let aux = aux.map(|value| copied(value, "gaux"));
    stmts.extend(aux.iter().map(|_| bind("gaux", like_c(c, "aux"))));
    // What C was is read before it is written.
    match c.alpha_beta {
        true => stmts.extend(aux.into_iter().chain([of_c])),
        false => stmts.extend([of_c].into_iter().chain(aux)),
    }
    stmts
}

/// A function of one number, applied to a value.
fn applied(params: &[Pattern], body: &Expr, value: Expr) -> Expr {
    let [param] = params else { return value };
    let is_param = |of: &Expr| match (&of.kind, param) {
        (ExprKind::Name(of), Pattern::Name(name)) => *of == name.text,
        _ => false,
    };
    let mut body = body.clone();
    if is_param(&value) {
        return body;
    }
    // A call of a function of the number alone.
    if let ExprKind::Call { args, .. } = &mut body.kind
        && args.iter().all(|arg| is_param(&arg.value) || arg.value.names().is_empty())
        && args.iter().filter(|arg| is_param(&arg.value)).count() == 1
    {
        args.iter_mut().filter(|arg| is_param(&arg.value)).for_each(|arg| arg.value = value.clone());
        return body;
    }
    body.given(param.clone(), value)
}
