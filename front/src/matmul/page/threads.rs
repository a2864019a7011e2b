//! Products on CUDA cores: thread layouts of the copies and of the multiply-adds, and each thread's parts of tiles.

use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value as Size};

use super::results::Results;
use super::{evaluated, kernel, zero};
use crate::launch::definition::Settings;
use crate::matmul::Config;
use crate::matmul::blame::{Blame, put_by_keys};
use crate::matmul::threads::Copies;
use crate::source::ast::make::{assign, bind, call, closure, named, repeat, text, two};
use crate::source::ast::{Arg, Binary, ConstParam, Expr, ExprKind, Kernel, Pattern, Span, Stmt, StmtKind};
use crate::source::diagnostic::Diagnostic;
use crate::tile::{Order, Program};

/// The keys of errors about a statement, by the name that it binds, or by the function that it calls.
const BLAMED: [(&str, Blame); 12] = [
    ("sa", ("sa", ["bm", "bk"])),
    ("sb", ("sb", ["bn", "bk"])),
    ("tc_gc", ("tc", ["bm", "bn"])),
    ("ta_ga", ("ta", ["bm", "bk"])),
    ("ta_sa", ("ta", ["bm", "bk"])),
    ("tb_gb", ("tb", ["bn", "bk"])),
    ("tb_sb", ("tb", ["bn", "bk"])),
    ("tc_sa", ("tc", ["bm", "bk"])),
    ("tc_sb", ("tc", ["bn", "bk"])),
    ("acc", ("tc", ["bm", "bn"])),
    ("gemm", ("acc", ["acc", "acc"])),
    ("map", ("epilogue", ["epilogue", "epilogue"])),
];

/// The first of the spans that stand for a row of [`BLAMED`].
const SPANS: u32 = u32::MAX - BLAMED.len() as u32;

/// The program.
pub(in crate::matmul) fn program(c: &Config, args: &[Arg]) -> Result<Program, Diagnostic> {
    let mut page = page(c);
    evaluated(&page, Settings::default()).or_else(|_| {
        page.body.iter_mut().for_each(at_keys);
        let blame = |wrong: &Diagnostic| BLAMED.get(wrong.span.0.checked_sub(SPANS)? as usize);
        evaluated(&page, Settings::default()).map_err(|wrong| match blame(&wrong) {
            Some((_, blame)) => put_by_keys(wrong.into(), *blame, args, c),
            None => wrong,
        })
    })
}

/// The function.
pub(in crate::matmul) fn page(c: &Config) -> Kernel {
    let size = |(name, value): (&str, i64)| ConstParam { name: named(name), default: Some(value.into()) };
    let sizes = ["BM", "BN", "BK"].into_iter().zip(c.tile);
    let split = (c.split_k > 1).then_some(("SPLIT", c.split_k));
    kernel(c, c.overlaps(false), sizes.chain(split).map(size).collect(), body(c))
}

/// Gives calls the spans of their rows of [`BLAMED`].
fn at_keys(stmt: &mut Stmt) {
    let (name, value) = match &mut stmt.kind {
        StmtKind::Let { pattern: Pattern::Name(name), value } => (Some(name.text.clone()), value),
        StmtKind::Expr(value) => (None, value),
        StmtKind::For { body, .. } => return body.iter_mut().for_each(at_keys),
        _ => return,
    };
    let ExprKind::Call { function, args, .. } = &mut value.kind else { return };
    let row = BLAMED.iter().position(|(of, _)| *of == name.as_deref().unwrap_or(&function.text));
    if let Some(row) = row {
        let span = Span(SPANS + row as u32);
        value.span = span;
        args.iter_mut().filter(|arg| arg.value.span == Span::default()).for_each(|arg| arg.value.span = span);
    }
}

fn tuple(of: &Tuple) -> Expr {
    match of.as_leaf() {
        Some(Size::Int(n)) => n.into(),
        _ => of.modes().map(|mode| tuple(&mode)).collect::<Vec<_>>().into(),
    }
}

/// A layout as it is written.
fn layout(of: &Layout, swizzle: Swizzle) -> Expr {
    let shape = Box::new(tuple(&of.shape()));
    let is_compact = Layout::compact(of.shape()).as_ref() == Ok(of);
    let stride = (!is_compact).then(|| Box::new(tuple(&of.stride())));
    let plain = Expr { span: Span::default(), kind: ExprKind::Layout { shape, stride } };
    if swizzle.is_identity() {
        return plain;
    }
    let parts = [swizzle.bits().into(), swizzle.base().into(), swizzle.shift().into()].map(|n: i64| n.into());
    call("swizzled", &[], parts.into_iter().chain([plain]))
}

/// The layout of a shared tile with columns one after the other, or as it is written.
fn tile(rows: &str, extents: [i64; 2], of: &Composed) -> Expr {
    let column = of.layout().stride().modes().nth(1).and_then(|stride| stride.as_leaf()).and_then(Size::int);
    let padding = column.map_or(0, |column| column - extents[0]);
    match Layout::padded((extents[0], extents[1]), padding) {
        Ok(padded) if of.as_layout() == Some(&padded) => {
            call("padded", &[], [[rows, "BK"].into(), padding.into()])
        }
        _ => layout(of.layout(), of.swizzle()),
    }
}

/// `parallelize(tile, threads, thread.x, keep, values = …)`
fn part(of: &str, threads: &str, keep: Option<&[bool]>, values: [i64; 2]) -> Expr {
    let hole = |keep: &bool| if *keep { Expr::from(1) } else { "_".into() };
    let keep =
        keep.filter(|keep| keep.contains(&false)).map(|keep| keep.iter().map(hole).collect::<Vec<_>>());
    let args = [of.into(), threads.into(), Expr::from("thread").field("x")];
    let part = call("parallelize", &[], args.into_iter().chain(keep.map(Expr::from)));
    if values == [1, 1] { part } else { part.with("values", values.map(Expr::from)) }
}

/// Where the accumulators of the threads become results.
#[derive(Clone, Copy, PartialEq)]
enum Stored {
    /// In the registers that have them.
    Direct,
    /// In shared memory, as whole tiles: groups of threads have parts of K, or stores of a warp would be uncoalesced.
    InBlock,
    /// The same for the blocks of a cluster, each with a part of K: a block adds and stores some rows or columns.
    InCluster,
}

impl Stored {
    fn of(c: &Config) -> Stored {
        match (c.split_k, c.gathers()) {
            (1, false) => Stored::Direct,
            (1, true) => Stored::InBlock,
            _ => Stored::InCluster,
        }
    }
}

/// The block's number in its cluster.
const RANK: &str = "rank";

/// A coordinate of the block's tile of C.
fn block(c: &Config, axis: usize) -> Expr {
    Expr::from("block").field(["x", "y", "z"][axis + usize::from(c.split_k > 1)])
}

/// A matrix of the block's batch.
fn of_batch(c: &Config, name: &str) -> Expr {
    let batch = if c.split_k > 1 { "batch".into() } else { Expr::from("block").field("z") };
    if c.batched { Expr::from(name).at(["_".into(), "_".into(), batch]) } else { name.into() }
}

/// The cluster whose blocks share K, and the number of the block in it.
fn cluster(c: &Config) -> Vec<Stmt> {
    let x = || Expr::from("block").field("x");
    let at = match c.batched {
        true => {
            let names = [RANK, "batch"].map(|name| Pattern::Name(named(name)));
            let value = call("walk", &[], [["SPLIT", "L"].into(), x()]);
            Stmt {
                span: Span::default(),
                kind: StmtKind::Let { pattern: Pattern::Tuple(Span::default(), names.into()), value },
            }
        }
        false => bind(RANK, x()),
    };
    vec![call("cluster", &[], ["SPLIT".into()]).stmt(), at]
}

fn body(c: &Config) -> Vec<Stmt> {
    let (sides, stored) = (["BM", "BN"], Stored::of(c));
    let (Copies { vec, threads, tiles, .. }, [bm, bn, bk]) = (&c.copies, c.tile);
    let steps = |name: &str, of: &str, side: usize| {
        let tile = |of: Expr, k: Expr, at: Vec<Expr>| {
            call("tile", &[], [of, [sides[side].into(), k].into(), at.into()])
        };
        let (of, at) = (of_batch(c, of), block(c, side));
        bind(
            name,
            match c.split_k {
                1 => tile(of, "BK".into(), vec![at, "_".into()]),
                // Tiles of the blocks are adjacent.
                _ => {
                    let all = tile(of, two(Binary::Mul, "BK".into(), "SPLIT".into()), vec![at, "_".into()]);
                    tile(all, "BK".into(), vec![0.into(), RANK.into(), "_".into()])
                }
            },
        )
    };
    let shared = |name, layout| bind(name, call("shared", &[c.dtype.name()], [layout]));
    let wide = |rows: bool, vec: i64| if rows { [1, vec] } else { [vec, 1] };
    let [of_a, of_b] = [wide(c.a_rows, vec[0]), wide(c.b_rows, vec[1])];
    // The modes of the thread layout that partition rows, columns and K.
    let multiplied = |of: &str, keep: [bool; 3], which: [usize; 2]| {
        bind(&format!("tc_{of}"), part(of, "tc", Some(&keep[..c.tc.rank()]), c.values_of(which)))
    };
    let plain = |of: &Layout| layout(of, Swizzle::IDENTITY);
    let results = Results::of(c);
    let mut body = if stored == Stored::InCluster { cluster(c) } else { Vec::new() };
    body.extend([
        steps("ga", "a", 0),
        steps("gb", "b", 1),
        bind("gc", of_c(c, "c")),
        bind("ta", plain(&threads[0])),
        bind("tb", plain(&threads[1])),
        bind("tc", layout(&c.tc, c.swizzle)),
        shared("sa", tile("BM", [bm, bk], &tiles[0])),
        shared("sb", tile("BN", [bn, bk], &tiles[1])),
        multiplied("gc", [true, true, false], [0, 1]),
    ]);
    for of in results.inputs.iter().filter(|input| input.argument != "c") {
        let tile = match of.along {
            None => of_c(c, of.argument),
            Some(along) => {
                let tile = call("tile", &[], [of.argument.into(), sides[along].into(), block(c, along)]);
                let mut shape = sides.map(Expr::from);
                shape[along] = "_".into();
                call("broadcast", &[], [tile, shape.into()])
            }
        };
        body.push(bind(&format!("g{}", of.argument), tile));
    }
    body.extend(c.aux.map(|_| bind("gaux", of_c(c, "aux"))));
    body.extend([
        bind("ta_ga", part("ga", "ta", None, of_a)),
        bind("ta_sa", part("sa", "ta", None, of_a)),
        bind("tb_gb", part("gb", "tb", None, of_b)),
        bind("tb_sb", part("sb", "tb", None, of_b)),
        multiplied("sa", [true, false, true], [0, 2]),
        multiplied("sb", [false, true, true], [1, 2]),
        bind("acc", call("registers_like", &[c.acc.name()], ["tc_gc".into(), zero(c.acc)])),
        main_loop(c),
    ]);
    body.extend(sums(c, stored));
    body.extend(epilogue(c, stored, &results));
    body
}

/// The block's tile of a matrix like C.
fn of_c(c: &Config, name: &str) -> Expr {
    call("tile", &[], [of_batch(c, name), ["BM", "BN"].into(), [block(c, 0), block(c, 1)].into()])
}

/// The rows or columns of a tile like C that a block of a cluster adds and stores, whichever are contiguous.
fn of_block(c: &Config, tile: Expr) -> Expr {
    let (mut shape, mut at) = (["BM", "BN"].map(Expr::from), [0, 0].map(Expr::from));
    let side = usize::from(!c.c_rows);
    (shape[side], at[side]) = (two(Binary::Div, shape[side].clone(), "SPLIT".into()), RANK.into());
    call("tile", &[], [tile, shape.into(), at.into()])
}

/// Adds the accumulators of groups of threads, and of the blocks of a cluster, in shared memory.
fn sums(c: &Config, stored: Stored) -> Vec<Stmt> {
    if stored == Stored::Direct {
        return Vec::new();
    }
    // Thread layouts without a mode for K have one group.
    let grouped = c.tc.rank() > 2;
    let group = |of: Expr, group: i64| {
        if grouped { of.at([Expr::from("_"), "_".into(), group.into()]) } else { of }
    };
    let added = |all: Vec<Expr>| all.into_iter().reduce(|sum, more| two(Binary::Add, sum, more));
    let parts = c.parts().map_or_else(|_| ["BM", "BN"].into(), |of| layout(&of, Swizzle::IDENTITY));
    let mut stmts = vec![
        bind("parts", call("shared", &[c.acc.name()], [parts])),
        bind("tc_parts", part("parts", "tc", None, c.values_of([0, 1]))),
        call("copy", &[], ["acc".into(), group("tc_parts".into(), 0)]).stmt(),
    ];
    let groups: Vec<Expr> = (0..c.groups()).map(|at| group("parts".into(), at)).collect();
    if stored == Stored::InBlock {
        let sums = if grouped {
            added(groups)
        } else {
            Some(call("map", &[], ["parts".into(), closure(&["x"], "x".into())]))
        };
        stmts.extend(sums.map(|sums| bind("sums", sums)));
        return stmts;
    }
    if groups.len() > 1 {
        let names: Vec<String> = (0..groups.len()).map(|at| format!("part_{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sum = added(names.iter().map(|name| (*name).into()).collect());
        let to = group("parts".into(), 0);
        stmts.extend(sum.map(|sum| call("map", &[], [groups.into(), to, closure(&names, sum)]).stmt()));
    }
    stmts.push(call("sync_cluster", &[], []).stmt());
    stmts.push(bind("part", of_block(c, group("parts".into(), 0))));
    // The block's own sums come first: they do not pass between multiprocessors.
    let of_peer = |next: i64| {
        let at = two(Binary::Rem, two(Binary::Add, RANK.into(), next.into()), "SPLIT".into());
        call("peer", &[], ["part".into(), at])
    };
    let all = std::iter::once("part".into()).chain((1..c.split_k).map(of_peer));
    stmts.extend(added(all.collect()).map(|sum| bind("sums", sum)));
    stmts
}

fn main_loop(c: &Config) -> Stmt {
    let mut range = call("pipelined", &[], [Expr::from(0).to(Expr::from("ga").method("size", [2.into()]))]);
    range = range.with("stages", i64::from(c.ahead.stages));
    if c.ahead.fragments > 1 {
        range = range.with("fragments", i64::from(c.ahead.fragments));
        range = if c.ahead.exits { range } else { range.with("exits", false) };
        // The partial tile may come first: threads and blocks that share K then multiply other parts of it.
        let shares = c.split_k > 1 || c.groups() > 1;
        range = if shares { range.with("split", "threads") } else { range };
    }
    let copied = |from: &str, to: &str, side: usize| {
        let mut copy = call("copy", &[], [Expr::from(from).at(["_", "_", "k"]), to.into()]);
        copy = if c.is_staged(side) { copy.with("how", text("staged")) } else { copy };
        // Rows out of bounds only affect accumulators that are not stored. Where copies are interleaved with multiply-adds,
        // predicates would be slower.
        if c.ahead.fragments > 1 { copy.with("boundary_check", 1) } else { copy }.stmt()
    };
    let product = call("gemm", &[], ["tc_sa", "tc_sb", "acc"].map(Expr::from));
    let order = Order::ALL.iter().find(|(_, order)| *order == c.order && c.order != Order::Plain);
    let product = order.map_or(product.clone(), |(name, _)| product.with("order", text(name)));
    repeat("k", range, vec![copied("ta_ga", "ta_sa", 0), copied("tb_gb", "tb_sb", 1), product.stmt()])
}

/// The results of accumulators, and where there are two, the sum that both are functions of.
fn epilogue(c: &Config, at: Stored, results: &Results<'_>) -> Vec<Stmt> {
    let keep = [true, true, false];
    let own = |argument: &str| match (at, argument) {
        (Stored::Direct, "c") => "tc_gc".into(),
        (Stored::Direct, _) => {
            part(&format!("g{argument}"), "tc", Some(&keep[..c.tc.rank()]), c.values_of([0, 1]))
        }
        (Stored::InBlock, _) => Expr::from(&*format!("g{argument}")),
        (Stored::InCluster, _) => of_block(c, Expr::from(&*format!("g{argument}"))),
    };
    let stored = |from: &str, value: Expr, to: Option<&str>| {
        let uses = value.names();
        let read = results.inputs.iter().filter(|input| uses.contains_key(input.name));
        let mut names = vec!["x"];
        names.extend(read.clone().map(|input| input.name));
        let mut tiles = vec![Expr::from(from)];
        tiles.extend(read.map(|input| own(input.argument)));
        let tiles = if tiles.len() == 1 { tiles.remove(0) } else { tiles.into() };
        match (&value.kind, to) {
            // Accumulators that are read again are not stored as they are: the registers of a vector would have to be adjacent.
            (ExprKind::Name(_), Some(to)) if to != "aux" => call("copy", &[], [tiles, own(to)]),
            (_, to) => {
                call("map", &[], [tiles].into_iter().chain(to.map(own)).chain([closure(&names, value)]))
            }
        }
    };
    let acc = if at == Stored::Direct { "acc" } else { "sums" };
    if c.aux.is_none() {
        return vec![stored(acc, results.value(), Some("c")).stmt()];
    }
    let (sum, mut stmts) = (results.sum(), Vec::new());
    let of = match (&sum.kind, c.scaled() == c.acc) {
        (ExprKind::Name(_), _) => acc,
        (_, true) => {
            stmts.push(assign(acc, stored(acc, sum, None)));
            acc
        }
        (_, false) => {
            stmts.push(bind("sums", stored(acc, sum, None)));
            "sums"
        }
    };
    let other = c.aux.filter(|elem| *elem != c.scaled());
    let aux = other.map_or("x".into(), |elem| Expr::from("x").cast(elem.name()));
    let both = [(aux, "aux"), (results.stored("x".into()), "c")];
    stmts.extend(both.map(|(value, to)| stored(of, value, Some(to)).stmt()));
    stmts
}
