//! Products on CUDA cores: thread layouts of the copies and of the multiply-adds, and each thread's parts of tiles.

use tilewright_layout::{Composed, Layout, Swizzle, Value as Size};

use super::results::Results;
use super::{evaluated, kernel, of_batch, zero};
use crate::launch::definition::Settings;
use crate::matmul::Config;
use crate::source::ast::make::named;
use crate::source::ast::{ConstParam, Expr, ExprKind, Kernel, Span, Stmt};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem;
use crate::tile::{Order, Program};
use crate::words::{expr, stmts};

/// The program.
pub(in crate::matmul) fn program(c: &Config) -> Result<Program, Diagnostic> {
    let page = page(c).map_err(|problem| problem.at(Span::default()))?;
    evaluated(&page, Settings::default())
}

/// The function.
pub(in crate::matmul) fn page(c: &Config) -> problem::Result<Kernel> {
    let size = |(name, value): (&str, i64)| ConstParam { name: named(name), default: Some(value.into()) };
    let sizes = ["BM", "BN", "BK"].into_iter().zip(c.tile);
    let split = (c.split.blocks() > 1).then_some(("SPLIT", c.split.blocks()));
    kernel(c, c.overlaps(false), sizes.chain(split).map(size).collect(), body(c)?)
}

/// A layout as it is written.
fn layout(of: &Layout, swizzle: Swizzle) -> String {
    let is_compact = Layout::compact(of.shape()).as_ref() == Ok(of);
    let plain = if is_compact { format!("layout!({})", of.shape()) } else { format!("layout!({of})") };
    let (bits, base, shift) = (swizzle.bits(), swizzle.base(), swizzle.shift());
    if swizzle.is_identity() { plain } else { format!("swizzled({bits}, {base}, {shift}, {plain})") }
}

/// The layout of a shared tile with columns one after the other, or as it is written.
fn tile(rows: &str, extents: [i64; 2], of: &Composed) -> String {
    let column = of.layout().stride().modes().nth(1).and_then(|stride| stride.as_leaf()).and_then(Size::int);
    let padding = column.map_or(0, |column| column - extents[0]);
    match Layout::padded((extents[0], extents[1]), padding) {
        Ok(padded) if of.as_layout() == Some(&padded) => format!("padded(({rows}, BK), {padding})"),
        _ => layout(of.layout(), of.swizzle()),
    }
}

/// `parallelize(tile, threads, thread.x, keep, values = …)`
fn part(of: &str, threads: &str, keep: &[bool], [rows, columns]: [i64; 2]) -> String {
    let keep: Vec<&str> = keep.iter().map(|keep| if *keep { "1" } else { "_" }).collect();
    let keep = if keep.contains(&"_") { format!(", ({})", keep.join(", ")) } else { String::new() };
    let values = if rows * columns == 1 { String::new() } else { format!(", values = ({rows}, {columns})") };
    format!("parallelize({of}, {threads}, thread.x{keep}{values})")
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
        match (c.split.blocks(), c.gathers()) {
            (1, false) => Stored::Direct,
            (1, true) => Stored::InBlock,
            _ => Stored::InCluster,
        }
    }
}

/// What the parts of a page share.
struct Page<'c> {
    c: &'c Config,
    stored: Stored,
    /// The row and the column of a block's tile of C.
    at: [&'static str; 2],
}

impl Page<'_> {
    fn of_batch(&self, name: &str) -> String {
        of_batch(self.c, name, if self.c.split.blocks() > 1 { "batch" } else { "block.z" })
    }

    /// The block's tile of a matrix like C.
    fn of_c(&self, name: &str) -> String {
        format!("tile({}, (BM, BN), ({}))", self.of_batch(name), self.at.join(", "))
    }

    /// The tiles of an operand, one for each step. Tiles of the blocks that split K are adjacent.
    fn steps(&self, name: &str, side: usize) -> String {
        let (of, at, rows) = (self.of_batch(name), self.at[side], ["BM", "BN"][side]);
        match self.c.split.blocks() {
            1 => format!("let g{name} = tile({of}, ({rows}, BK), ({at}, _));"),
            _ => format!(
                "let g{name} = tile(tile({of}, ({rows}, BK * SPLIT), ({at}, _)), ({rows}, BK), (0, rank, _));"
            ),
        }
    }

    /// A thread's part of a tile, by the modes of the thread layout that partition rows, columns and K.
    fn part(&self, of: &str, keep: [bool; 3], modes: [usize; 2]) -> String {
        part(of, "tc", &keep[..self.c.tc.rank()], self.c.values_of(modes))
    }

    /// The rows or columns of a tile like C that a block of a cluster adds and stores, whichever are contiguous.
    fn of_block(&self, tile: &str) -> String {
        match self.c.c_rows {
            true => format!("tile({tile}, (BM / SPLIT, BN), (rank, 0))"),
            false => format!("tile({tile}, (BM, BN / SPLIT), (0, rank))"),
        }
    }
}

/// The cluster whose blocks share K, and the number of the block in it.
fn cluster(c: &Config) -> &'static str {
    match c.batched {
        true => "cluster(SPLIT); let (rank, batch) = walk((SPLIT, L), block.x);",
        false => "cluster(SPLIT); let rank = block.x;",
    }
}

fn body(c: &Config) -> problem::Result<Vec<Stmt>> {
    let at = if c.split.blocks() > 1 { ["block.y", "block.z"] } else { ["block.x", "block.y"] };
    let page = &Page { c, stored: Stored::of(c), at };
    let ([a, b], [bm, bn, bk]) = (&c.copies, c.tile);
    let [of_a, of_b] = c.vectors();
    let results = Results::of(c);
    let vector = |name: &str, along: usize| {
        let (rows, at, others) = (["BM", "BN"][along], at[along], ["_, BN", "BM, _"][along]);
        format!("broadcast(tile({name}, {rows}, {at}), ({others}))")
    };
    let inputs = results.tiles(|name| page.of_c(name), vector);
    let text = format!(
        "{cluster} {ga} {gb}
        let gc = {gc};
        let ta = {ta};
        let tb = {tb};
        let tc = {tc};
        let sa = shared::<{dtype}>({sa});
        let sb = shared::<{dtype}>({sb});
        let tc_gc = {tc_gc};
        {inputs}
        let ta_ga = {ta_ga};
        let ta_sa = {ta_sa};
        let tb_gb = {tb_gb};
        let tb_sb = {tb_sb};
        let tc_sa = {tc_sa};
        let tc_sb = {tc_sb};
        let acc = registers_like::<{acc}>(tc_gc, {zero});
        {main_loop} {sums}",
        cluster = if page.stored == Stored::InCluster { cluster(c) } else { "" },
        ga = page.steps("a", 0),
        gb = page.steps("b", 1),
        gc = page.of_c("c"),
        ta = layout(&a.threads, Swizzle::IDENTITY),
        tb = layout(&b.threads, Swizzle::IDENTITY),
        tc = layout(&c.tc, c.swizzle),
        dtype = c.dtype,
        sa = tile("BM", [bm, bk], &a.tile),
        sb = tile("BN", [bn, bk], &b.tile),
        tc_gc = page.part("gc", [true, true, false], [0, 1]),
        ta_ga = part("ga", "ta", &[], of_a),
        ta_sa = part("sa", "ta", &[], of_a),
        tb_gb = part("gb", "tb", &[], of_b),
        tb_sb = part("sb", "tb", &[], of_b),
        tc_sa = page.part("sa", [true, false, true], [0, 2]),
        tc_sb = page.part("sb", [false, true, true], [1, 2]),
        acc = c.acc,
        zero = zero(c.acc),
        main_loop = main_loop(c),
        sums = sums(page)?,
    );
    Ok([stmts(&text, &[])?, epilogue(page, &results)?].concat())
}

/// Adds the accumulators of groups of threads, and of the blocks of a cluster, in shared memory.
fn sums(page: &Page) -> problem::Result<String> {
    let &Page { c, stored, .. } = page;
    if stored == Stored::Direct {
        return Ok(String::new());
    }
    // Thread layouts without a mode for K have one group.
    let grouped = c.tc.rank() > 2;
    let group = |of: &str, group: i64| if grouped { format!("{of}[(_, _, {group})]") } else { of.to_owned() };
    let groups: Vec<String> = (0..c.groups()).map(|at| group("parts", at)).collect();
    let text = format!(
        "let parts = shared::<{}>({});
        let tc_parts = {};
        copy(acc, {});",
        c.acc,
        layout(&c.parts()?, Swizzle::IDENTITY),
        part("parts", "tc", &[], c.values_of([0, 1])),
        group("tc_parts", 0),
    );
    if stored == Stored::InBlock {
        let sums = if grouped { groups.join(" + ") } else { "map(parts, |x| x)".to_owned() };
        return Ok(text + &format!("let sums = {sums};"));
    }
    let names: Vec<String> = (0..groups.len()).map(|at| format!("part_{at}")).collect();
    let of_groups = match groups.len() {
        1 => String::new(),
        _ => format!(
            "map(({}), {}, |{}| {});",
            groups.join(", "),
            groups[0],
            names.join(", "),
            names.join(" + ")
        ),
    };
    // The block's own sums come first: they do not pass between multiprocessors.
    let of_peers: String =
        (1..c.split.blocks()).map(|next| format!(" + peer(part, (rank + {next}) % SPLIT)")).collect();
    let part = page.of_block(&groups[0]);
    Ok(format!("{text} {of_groups} sync_cluster(); let part = {part}; let sums = part{of_peers};"))
}

fn main_loop(c: &Config) -> String {
    let mut ahead = format!("stages = {}", c.ahead.stages);
    let is_ahead = c.ahead.fragments > 1;
    if is_ahead {
        let exits = if c.ahead.exits { "" } else { ", exits = false" };
        // The partial tile may come first: threads and blocks that share K then multiply other parts of it.
        let split = if c.split.blocks() > 1 || c.groups() > 1 { ", split = threads" } else { "" };
        ahead += &format!(", fragments = {}{exits}{split}", c.ahead.fragments);
    }
    let how = |side: usize| if c.is_staged(side) { ", how = \"staged\"" } else { "" };
    // Rows out of bounds only affect accumulators that are not stored. Where copies are interleaved with multiply-adds,
    // predicates would be slower.
    let guards = if is_ahead { ", boundary_check = 1" } else { "" };
    let order = Order::ALL.iter().find(|(_, order)| *order == c.order && c.order != Order::Plain);
    let order = order.map_or(String::new(), |(name, _)| format!(", order = \"{name}\""));
    format!(
        "for k in pipelined(0..ga.size(2), {ahead}) {{
            copy(ta_ga[(_, _, k)], ta_sa{}{guards});
            copy(tb_gb[(_, _, k)], tb_sb{}{guards});
            gemm(tc_sa, tc_sb, acc{order});
        }}",
        how(0),
        how(1)
    )
}

/// The results of accumulators, and where there are two, the sum that both are functions of.
fn epilogue(page: &Page, results: &Results<'_>) -> problem::Result<Vec<Stmt>> {
    let &Page { c, stored: at, .. } = page;
    let own = |argument: &str| match (at, argument) {
        (Stored::Direct, "c") => "tc_gc".to_owned(),
        (Stored::Direct, _) => page.part(&format!("g{argument}"), [true, true, false], [0, 1]),
        (Stored::InBlock, _) => format!("g{argument}"),
        (Stored::InCluster, _) => page.of_block(&format!("g{argument}")),
    };
    // A function of a tile and of the inputs that it reads, and the statement that uses it.
    let made = |from: &str, value: Expr, to: Option<&str>, bound: &str| {
        let uses = value.names();
        let read = || results.inputs.iter().filter(|input| uses.contains_key(input.name));
        let names: String = read().map(|input| format!(", {}", input.name)).collect();
        let tiles: String = read().map(|input| format!(", {}", own(input.argument))).collect();
        let tiles = if tiles.is_empty() { from.to_owned() } else { format!("({from}{tiles})") };
        let is_plain = matches!(value.kind, ExprKind::Name(_));
        let text = match to {
            // Accumulators that are read again are not stored as they are: the registers of a vector would have to be adjacent.
            Some(to) if is_plain && to != "aux" => format!("copy({tiles}, {});", own(to)),
            Some(to) => format!("map({tiles}, {}, |x{names}| VALUE);", own(to)),
            None => format!("{bound} = map({tiles}, |x{names}| VALUE);"),
        };
        stmts(&text, &[("VALUE", value)])
    };
    let acc = if at == Stored::Direct { "acc" } else { "sums" };
    let Some(elem) = c.aux else { return made(acc, results.value()?, Some("c"), "") };
    let sum = results.sum()?;
    let (of, bound) = match (&sum.kind, c.scaled() == c.acc) {
        (ExprKind::Name(_), _) => (acc, None),
        (_, true) => (acc, Some(acc)),
        (_, false) => ("sums", Some("let sums")),
    };
    let first = bound.map_or(Ok(Vec::new()), |bound| made(acc, sum, None, bound))?;
    let x = expr("x", &[])?;
    let aux = if elem == c.scaled() { x.clone() } else { expr(&format!("x as {elem}"), &[])? };
    let of_c = made(of, results.stored(x)?, Some("c"), "")?;
    Ok([first, made(of, aux, Some("aux"), "")?, of_c].concat())
}
