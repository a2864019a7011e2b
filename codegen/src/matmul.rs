//! `matmul_kernel!`: the matrix product family, C = A·Bᵀ, as a program of the builder.
//!
//! Keys are data: the table below is what the macro's documentation, its messages and this module read.

use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value as Size};

use crate::affine::{Affine, Coord};
use crate::ast::{Arg, Expr, ExprKind, Level, Name, Span};
use crate::build::Builder;
use crate::check::limits;
use crate::definition::Outcome;
use crate::diagnostic::Diagnostic;
use crate::elem::Elem;
use crate::evaluate::{Keys, closest};
use crate::problem::{Problem, Result};
use crate::thread::{Bin, Cmp};
use crate::tile::{self, Ahead, Order};
use crate::view::{At, Deal, View};

/// A key: its name, its default in words, and what it means.
pub const KEYS: &[(&str, &str, &str)] = &[
    ("bm", "128", "rows of C that a block computes"),
    ("bn", "128", "columns of C that a block computes"),
    ("bk", "8", "depth of one step"),
    (
        "tc",
        "(16, 16), along what is contiguous in C",
        "thread layout of the arithmetic; a third mode shares the depth",
    ),
    ("values", "(1, 1)", "rows and columns of C side by side that a thread takes"),
    ("ta", "along what is contiguous", "thread layout of A's copy"),
    ("tb", "along what is contiguous", "thread layout of B's copy"),
    ("dtype", "f32", "element type of A and B, and of C; 8-bit integers give a C of `acc`"),
    ("acc", "f32, f64 or i32 by dtype", "type of the sums"),
    ("a", "m_major", "m_major: columns of A contiguous; k_major: rows"),
    ("b", "n_major", "n_major: columns of B contiguous; k_major: rows"),
    ("c", "m_major", "m_major: columns of C contiguous; n_major: rows"),
    ("pad", "what avoids bank conflicts", "elements between columns of the shared tiles"),
    ("sa", "(bm, bk) : (1, bm + pad)", "shared layout of A's tile"),
    ("sb", "(bn, bk) : (1, bn + pad)", "shared layout of B's tile"),
    ("stages", "1", "shared tiles in flight"),
    ("fragments", "1", "columns of a tile in registers: 2 brings the next while one is multiplied"),
    ("exits", "true", "columns past the depth are left out, with 2 fragments; false multiplies their zeros"),
    (
        "staged",
        "none",
        "none, transposed or both: which operands come through registers, `vec` at once; transposed are those contiguous along the depth",
    ),
    ("vec", "1", "elements that a copy moves at once"),
    ("order", "plain", "plain, serpentine, rows or row_serpentine: how a product runs through the sums"),
    ("alpha_beta", "false", "C = alpha·A·Bᵀ + beta·C, with two more arguments"),
    ("batched", "false", "a product for each place of a third mode, L, that all three tensors have"),
    ("epilogue", "none", "a closure that each sum passes through: |x| max(x, 0.0)"),
    ("arch", "80", "oldest compute capability"),
    (
        "overlaps",
        "false",
        "launched before the kernel ahead of it has ended, which it waits for; for blocks that fill a multiprocessor: sm_90",
    ),
    ("name", "matmul", "the kernel's name"),
];

/// What the keys say.
struct Config {
    bm: i64,
    bn: i64,
    bk: i64,
    tc: Layout,
    /// Over the numbers of its threads.
    swizzle: Swizzle,
    /// Rows and columns side by side of one thread.
    values: Vec<i64>,
    ta: Layout,
    tb: Layout,
    dtype: Elem,
    acc: Elem,
    a_rows: bool,
    b_rows: bool,
    c_rows: bool,
    sa: Composed,
    sb: Composed,
    ahead: Ahead,
    /// Elements that the copies of A and of B move at once.
    vec: [i64; 2],
    order: Order,
    alpha_beta: bool,
    batched: bool,
    /// Which operands come through registers: those contiguous along the depth, all.
    staged: [bool; 2],
    epilogue: Option<tile::Expr>,
    /// Copies of single elements, whatever `vec` says.
    narrow: bool,
    arch: u32,
    overlaps: bool,
    name: String,
}

/// Makes the kernel of a set of keys.
pub fn kernel(args: &[Arg]) -> Outcome {
    match programs(args) {
        Ok(Programs { wide, narrow, diagnostics, levels }) => {
            crate::generate::finish(wide, narrow, diagnostics, &levels)
        }
        Err(diagnostics) => Outcome { kernel: None, diagnostics },
    }
}

/// The tile programs of a set of keys, what is wrong with them, and levels of lints.
pub(crate) struct Programs {
    pub(crate) wide: tile::Program,
    narrow: Option<tile::Program>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    levels: Vec<(Name, Level)>,
}

/// The programs of a set of keys; where the keys make none, what is wrong with them.
pub(crate) fn programs(args: &[Arg]) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let mut keys = Keys::new();
    let mut reader = Reader { args, keys: &mut keys, errors: Vec::new() };
    let config = reader.config(false);
    let (mut diagnostics, levels) = (std::mem::take(&mut reader.errors), reader.levels());
    diagnostics.append(&mut keys.diagnostics());
    diagnostics.sort_by_key(|d| d.span);
    let Some(config) = config.filter(|_| diagnostics.is_empty()) else {
        return Err(diagnostics);
    };
    let mut builder = Builder::new(&config.name);
    if let Err((problem, key)) = product(&mut builder, &config) {
        // The key itself, or the one that its default follows.
        let given = |key: &str| args.iter().find(|arg| arg.name.as_ref().is_some_and(|n| n.text == key));
        let blamed = std::iter::once(key).chain(follows(key).iter().copied()).find_map(given);
        let problem = match (given(key), key) {
            (None, "ta" | "tb" | "tc") => {
                let rows = if key == "tb" { config.bn } else { config.bm };
                let columns = if key == "tc" { config.bn } else { config.bk };
                problem.help(format!("give `{key}` a layout of threads that divides ({rows}, {columns})"))
            }
            (Some(_), "ta" | "tb" | "tc") if problem.help.as_ref().is_some_and(|h| h.contains("ragged")) => {
                let rows = if key == "tb" { config.bn } else { config.bm };
                let columns = if key == "tc" { config.bn } else { config.bk };
                problem.help(format!("its extents must divide ({rows}, {columns}); change it, or the tiles"))
            }
            _ => problem,
        };
        diagnostics.push(problem.at(blamed.map_or(Span::default(), |arg| arg.value.span)));
    }
    let narrow = narrow(args, &config).filter(|_| diagnostics.is_empty());
    Ok(Programs { wide: builder.finish(), narrow, diagnostics, levels })
}

/// The same product with copies of single elements, dealt out so that neighbouring threads take neighbours. `None` where
/// that is what it does already, or where the keys leave no room for it.
fn narrow(args: &[Arg], config: &Config) -> Option<tile::Program> {
    if config.vec == [1, 1] {
        return None;
    }
    let mut keys = Keys::new();
    let mut reader = Reader { args, keys: &mut keys, errors: Vec::new() };
    let config = reader.config(true).filter(|_| reader.errors.is_empty())?;
    let mut builder = Builder::new(&config.name);
    product(&mut builder, &config).ok()?;
    Some(builder.finish())
}

/// The keys that the default of a key follows, nearest first.
fn follows(key: &str) -> &'static [&'static str] {
    match key {
        "ta" => &["a", "bm", "bk", "tc"],
        "tb" => &["b", "bn", "bk", "tc"],
        "tc" => &["bm", "bn"],
        "sa" => &["pad", "vec", "bm", "bk"],
        "sb" => &["pad", "vec", "bn", "bk"],
        "bn" => &["bm"],
        _ => &[],
    }
}

struct Reader<'a> {
    args: &'a [Arg],
    keys: &'a mut Keys,
    errors: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn error(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.errors.push(Diagnostic::error(span, message).help(help));
    }

    fn levels(&self) -> Vec<(Name, Level)> {
        let level = |name: &str| match name {
            "allow" => Some(Level::Allow),
            "warn" => Some(Level::Warn),
            "deny" => Some(Level::Deny),
            _ => None,
        };
        let lints = self.args.iter().filter_map(|arg| {
            let level = level(&arg.name.as_ref()?.text)?;
            match &arg.value.kind {
                ExprKind::Name(lint) => Some((Name { text: lint.clone(), span: arg.value.span }, level)),
                _ => None,
            }
        });
        lints.collect()
    }

    fn find(&self, key: &str) -> Option<&Expr> {
        self.args
            .iter()
            .find(|arg| arg.name.as_ref().is_some_and(|name| name.text == key))
            .map(|arg| &arg.value)
    }

    /// What the keys say; `narrow` stands for `vec = 1`.
    fn config(&mut self, narrow: bool) -> Option<Config> {
        self.names();
        let (bm, bn, bk) = (self.positive("bm", 128), self.positive("bn", 128), self.positive("bk", 8));
        let dtype = self.elem("dtype", Elem::F32);
        let acc = self.elem("acc", dtype.accumulator());
        let a_rows = self.choice("a", &["m_major", "k_major"]) == 1;
        let b_rows = self.choice("b", &["n_major", "k_major"]) == 1;
        let c_rows = self.choice("c", &["m_major", "n_major"]) == 1;
        let vec = if narrow { 1 } else { self.positive("vec", 1) };
        let (stages, fragments) = (self.positive("stages", 1) as u32, self.positive("fragments", 1) as u32);
        let exits = self.find("exits").is_none() || self.flag("exits");
        let tc = self.layout("tc", || match c_rows {
            true => Layout::row_major((16, 16)),
            false => Layout::compact((16, 16)),
        })?;
        // A swizzle stands over the threads' numbers, not over elements.
        let (swizzle, tc) = (tc.swizzle(), Composed::from(tc.layout().clone()));
        let threads = tc.as_layout()?.size().ok()?;
        let values = self.values();
        // Vectors need the shared tile to be contiguous along the same mode as global memory.
        let staged = self.choice("staged", &["none", "transposed", "both"]);
        let wide =
            |rows: bool, tile: Option<&Expr>| if rows && tile.is_none() && staged == 0 { 1 } else { vec };
        let vec = [wide(a_rows, self.find("sa")), wide(b_rows, self.find("sb"))];
        let along = |rows: bool, extent: i64, depth: i64, vec: i64, value: i64| {
            move || {
                let run = if rows { depth } else { extent } / vec;
                // Columns that a warp writes are padded by what threads read at once.
                let most = if rows { (32 / value / vec).max(1) } else { 32 };
                let fast =
                    (1..=run.clamp(1, most)).rev().find(|n| run % n == 0 && threads % n == 0).unwrap_or(1);
                let slow = threads / fast;
                // More threads than there are rows go on along the depth.
                let more = slow / extent;
                match rows {
                    true if more > 1 && slow % extent == 0 && run % (fast * more) == 0 => {
                        Layout::new((extent, (fast, more)), (fast, (1i64, fast * extent)))
                    }
                    true => Layout::new((slow, fast), (fast, 1i64)),
                    false => Layout::compact((fast, slow)),
                }
            }
        };
        let ta = self.layout("ta", along(a_rows, bm, bk, vec[0], values[0]))?;
        let tb = self.layout("tb", along(b_rows, bn, bk, vec[1], values[1]))?;
        // A warp that copies rows writes several columns, whose words must not meet in a bank.
        let lanes = if dtype.bytes() == 8 { 16 } else { 32 };
        let pads = |threads: &Composed, rows: bool, vec: i64, value: i64| {
            let deep = threads.layout().mode(1).and_then(|depth| depth.size()).unwrap_or(1);
            // Columns begin where 16 bytes can be read at once.
            let value = value.min(16 / i64::from(dtype.bytes()));
            // Those that a warp writes.
            let deep = deep.min((32 / value / vec).max(1));
            match rows {
                true => (lanes / (deep * vec).max(1)).max(1),
                // Vectors along columns meet no bank twice.
                false if vec > 1 => 0,
                false => value,
            }
        };
        let given = self.find("pad").is_some().then(|| self.whole("pad", 1));
        let pads = [pads(&ta, a_rows, vec[0], values[0]), pads(&tb, b_rows, vec[1], values[1])]
            .map(|pad| given.unwrap_or(pad));
        let sa = self.layout("sa", || Layout::padded((bm, bk), pads[0]))?;
        let sb = self.layout("sb", || Layout::padded((bn, bk), pads[1]))?;
        for (key, layout, rows) in [("sa", &sa, bm), ("sb", &sb, bn)] {
            if layout.shape() != Tuple::from((rows, bk))
                && layout.shape().modes().map(|m| m.product()).collect::<Vec<_>>() != [Some(rows), Some(bk)]
            {
                let span = self.find(key).map_or(Span::default(), |e| e.span);
                let message = format!(
                    "the shared layout has the shape {}, and the tile is ({rows},{bk})",
                    layout.shape()
                );
                self.error(span, message, format!("write {key} = layout!(({rows}, {bk}) : …)"));
            }
        }
        let order = Order::ALL[self.choice("order", &Order::ALL.map(|(name, _)| name))].1;
        let (alpha_beta, batched) = (self.flag("alpha_beta"), self.flag("batched"));
        let epilogue = match self.find("epilogue").cloned() {
            Some(closure) => Some(self.keys.closure(&closure)?),
            None => None,
        };
        let (arch, overlaps) = (self.positive("arch", 80) as u32, self.flag("overlaps"));
        let name = match self.find("name").map(|e| (e.kind.clone(), e.span)) {
            None => "matmul".to_owned(),
            Some((ExprKind::Str(name) | ExprKind::Name(name), span)) => {
                let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.error(
                        span,
                        format!("`{name}` cannot be a kernel's name"),
                        "use letters, digits and `_`",
                    );
                }
                name
            }
            Some((_, span)) => {
                self.error(span, "a kernel's name is a word", "write name = my_matmul");
                String::new()
            }
        };
        let tc = self.threads("tc", tc, &[2, 3])?;
        let (ta, tb) = (self.threads("ta", ta, &[2])?, self.threads("tb", tb, &[2])?);
        Some(Config {
            bm,
            bn,
            bk,
            tc,
            swizzle,
            values,
            ta,
            tb,
            dtype,
            acc,
            a_rows,
            b_rows,
            c_rows,
            sa,
            sb,
            ahead: Ahead { stages, fragments, exits },
            vec,
            order,
            alpha_beta,
            batched,
            staged: [staged > 1, staged > 0],
            epilogue,
            narrow,
            arch,
            overlaps,
            name,
        })
    }

    /// Unknown keys, repeated keys, values without a key.
    fn names(&mut self) {
        const LEVELS: [&str; 3] = ["allow", "warn", "deny"];
        let mut seen: Vec<&str> = Vec::new();
        for arg in self.args {
            let Some(name) = &arg.name else {
                self.error(arg.value.span, "every value needs its key", "write bm = 128");
                continue;
            };
            if LEVELS.contains(&name.text.as_str()) {
                continue;
            }
            if !KEYS.iter().any(|(key, ..)| *key == name.text) {
                let near = closest(&name.text, KEYS.iter().map(|k| k.0));
                let help = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        format!("the keys are {}", KEYS.iter().map(|k| k.0).collect::<Vec<_>>().join(", "))
                    }
                };
                self.error(name.span, format!("there is no key `{}`", name.text), help);
            }
            if seen.contains(&name.text.as_str()) {
                self.error(name.span, format!("`{}` is given twice", name.text), "remove one of them");
            }
            seen.push(&name.text);
        }
    }

    fn whole(&mut self, key: &str, default: i64) -> i64 {
        let Some(expr) = self.find(key).cloned() else {
            return default;
        };
        self.keys.integer(&expr).unwrap_or(default)
    }

    fn positive(&mut self, key: &str, default: i64) -> i64 {
        let n = self.whole(key, default);
        if !(1..=1 << 20).contains(&n) {
            let span = self.find(key).map_or(Span::default(), |e| e.span);
            self.error(
                span,
                format!("`{key}` must be between 1 and 1048576, and it is {n}"),
                format!("the default is {default}"),
            );
            return default;
        }
        n
    }

    fn values(&mut self) -> Vec<i64> {
        let Some(layout) = self.layout("values", || Layout::compact((1, 1))) else { return vec![1, 1] };
        let extents: Vec<_> = layout.shape().modes().filter_map(|mode| mode.product()).collect();
        if layout.rank() != 2 || extents.len() != 2 || layout.as_layout().is_none() {
            let span = self.find("values").map_or(Span::default(), |e| e.span);
            self.error(span, "`values` counts rows and columns", "write values = (4, 4)");
            return vec![1, 1];
        }
        extents
    }

    fn elem(&mut self, key: &str, default: Elem) -> Elem {
        let Some(expr) = self.find(key) else {
            return default;
        };
        let (span, name) = (
            expr.span,
            if let ExprKind::Name(name) | ExprKind::Path(name) = &expr.kind {
                name.clone()
            } else {
                String::new()
            },
        );
        let name = name.rsplit("::").next().unwrap_or_default().trim();
        match Elem::named(name) {
            Some(elem) if elem.is_usable() => elem,
            _ => {
                self.error(
                    span,
                    format!("`{key}` must be an element type"),
                    format!("use one of {}", Elem::usable()),
                );
                default
            }
        }
    }

    fn choice(&mut self, key: &str, choices: &[&str]) -> usize {
        let Some(expr) = self.find(key) else { return 0 };
        let span = expr.span;
        let found = match &expr.kind {
            ExprKind::Name(name) | ExprKind::Str(name) => choices.iter().position(|choice| choice == name),
            _ => None,
        };
        found.unwrap_or_else(|| {
            self.error(
                span,
                format!("`{key}` has no such choice"),
                format!("write {key} = {}", choices.join(" or ")),
            );
            0
        })
    }

    fn flag(&mut self, key: &str) -> bool {
        let Some(expr) = self.find(key) else { return false };
        let span = expr.span;
        match expr.kind {
            ExprKind::Bool(flag) => flag,
            _ => {
                self.error(span, format!("`{key}` is true or false"), format!("write {key} = true"));
                false
            }
        }
    }

    fn layout(
        &mut self,
        key: &str,
        default: impl FnOnce() -> tilewright_layout::Result<Layout>,
    ) -> Option<Composed> {
        match self.find(key).cloned() {
            Some(expr) => self.keys.layout(&expr),
            None => default().ok().map(Composed::from),
        }
    }

    fn threads(&mut self, key: &str, layout: Composed, ranks: &[usize]) -> Option<Layout> {
        let span = self.find(key).map_or(Span::default(), |e| e.span);
        if !ranks.contains(&layout.rank()) || layout.as_layout().is_none() {
            self.error(
                span,
                format!("`{key}` deals out two modes, and {layout} has {}", layout.rank()),
                "write (16, 16)",
            );
            return None;
        }
        layout.as_layout().cloned()
    }
}

/// The program. An error comes with the key to blame.
fn product(b: &mut Builder, config: &Config) -> std::result::Result<(), (Problem, &'static str)> {
    let blame = |key: &'static str| move |problem: Problem| (problem, key);
    let (m, n, k) = (Size::symbol("M"), Size::symbol("N"), Size::symbol("K"));
    let c = config;
    b.arch(c.arch);
    if c.overlaps {
        b.overlaps();
    }
    // A sum of products of 8-bit integers does not fit 8 bits.
    let result = if matches!(c.dtype, Elem::I8 | Elem::U8) { c.acc } else { c.dtype };
    let mut operand = |name: &str, elem, extents: [Size; 2], rows: bool, written| {
        let ld = Size::symbol(&format!("ld{name}"));
        let (mut shape, mut stride) =
            (extents.to_vec(), if rows { vec![ld, 1.into()] } else { vec![1.into(), ld] });
        if !c.batched {
            return b.tensor(name, elem, sizes(&shape), Some(sizes(&stride)), written);
        }
        shape.push(Size::symbol("L"));
        stride.push(Size::symbol(&format!("batch_{name}")));
        let all = b.tensor(name, elem, sizes(&shape), Some(sizes(&stride)), written)?;
        b.slice(&all, &[At::All, At::All, At::Index(Coord::Block(2).into())])
    };
    let a = operand("a", c.dtype, [m, k], c.a_rows, false).map_err(blame("dtype"))?;
    let bt = operand("b", c.dtype, [n, k], c.b_rows, false).map_err(blame("dtype"))?;
    let out = operand("c", result, [m, n], c.c_rows, true).map_err(blame("dtype"))?;
    let scalars = c.alpha_beta.then(|| (b.scalar("alpha", c.acc), b.scalar("beta", c.acc)));

    let (bx, by) = (At::Index(Coord::Block(0).into()), At::Index(Coord::Block(1).into()));
    let ga = b.tile(&a, (c.bm, c.bk), &[bx.clone(), At::All]).map_err(blame("bm"))?.with_name("ga");
    let gb = b.tile(&bt, (c.bn, c.bk), &[by.clone(), At::All]).map_err(blame("bn"))?.with_name("gb");
    let gc = b.tile(&out, (c.bm, c.bn), &[bx, by]).map_err(blame("bm"))?.with_name("gc");

    let sa = b.shared("sa", c.dtype, c.sa.clone()).map_err(blame("sa"))?;
    let sb = b.shared("sb", c.dtype, c.sb.clone()).map_err(blame("sb"))?;

    let wide = |rows: bool, vec: i64| Deal {
        values: if rows { vec![1, vec] } else { vec![vec, 1] },
        ..Deal::default()
    };
    let groups = c.tc.modes().nth(2).map_or(Ok(1), |mode| mode.size()).unwrap_or(1);
    // Which modes of the thread layout share rows, columns, depth.
    let deal = |keep: [bool; 3], values: [usize; 2]| Deal {
        keep: Some(keep[..c.tc.rank()].to_vec()),
        values: values.iter().map(|&which| c.values.get(which).copied().unwrap_or(1)).collect(),
        swizzle: c.swizzle,
        ..Deal::default()
    };
    let part = |b: &mut Builder, view: &View, threads: &Layout, deal: &Deal, name: &str, key| {
        b.parallelize_over(view, threads, 0, deal).map(|view| view.with_name(name)).map_err(blame(key))
    };
    // Rows past an edge only make sums that nobody stores: rows from inside serve for them, where copies stand among
    // multiply-adds and conditions would cost.
    let (ga, gb) = if c.ahead.fragments > 1 { (ga.held(0), gb.held(0)) } else { (ga, gb) };
    let tc_gc = part(b, &gc, &c.tc, &deal([true, true, false], [0, 1]), "tc_gc", "tc")?;
    for (layout, rows, vec, key) in [(&c.sa, c.a_rows, c.vec[0], "sa"), (&c.sb, c.b_rows, c.vec[1], "sb")] {
        if !rows {
            aligned(layout, vec).map_err(blame(key))?;
        }
    }
    let ta_ga = part(b, &ga, &c.ta, &wide(c.a_rows, c.vec[0]), "ta_ga", "ta")?;
    let ta_sa = part(b, &sa, &c.ta, &wide(c.a_rows, c.vec[0]), "ta_sa", "ta")?;
    let tb_gb = part(b, &gb, &c.tb, &wide(c.b_rows, c.vec[1]), "tb_gb", "tb")?;
    let tb_sb = part(b, &sb, &c.tb, &wide(c.b_rows, c.vec[1]), "tb_sb", "tb")?;
    let tc_sa = part(b, &sa, &c.tc, &deal([true, false, true], [0, 2]), "tc_sa", "tc")?;
    let tc_sb = part(b, &sb, &c.tc, &deal([false, true, true], [1, 2]), "tc_sb", "tc")?;

    let acc = b.registers("acc", c.acc, tc_gc.shape()).map_err(blame("tc"))?;
    b.fill(&acc, tile::Expr::Lit(0.0)).map_err(blame("tc"))?;
    let tiles = k.ceil_div(c.bk).unwrap_or_default();
    b.pipelined("k", tiles, c.ahead, |b, k| -> Result<()> {
        let (ga, gb) = (column(b, &ta_ga, &k)?, column(b, &tb_gb, &k)?);
        for (from, to, rows) in [(&ga, &ta_sa, c.a_rows), (&gb, &tb_sb, c.b_rows)] {
            let how = if c.staged[usize::from(rows)] { tile::How::Staged } else { tile::How::Derive };
            b.copy_how(from, to, how, None)?;
        }
        b.gemm(&tc_sa, &tc_sb, &acc, c.order)
    })
    .map_err(blame("stages"))?;
    let plain = tile::Expr::In(0);
    let scaled = |alpha| tile::Expr::Bin(Bin::Mul, Box::new(alpha), Box::new(plain.clone()));
    match (groups > 1 || c.scatters(), scalars) {
        (false, None) => epilogue(b, c, &acc, &tc_gc, plain, None),
        (false, Some((alpha, beta))) => epilogue(b, c, &acc, &tc_gc, scaled(alpha), Some(beta)),
        (true, scalars) => {
            let beta = match scalars {
                // What is stored is not the sums themselves, as in the epilogue.
                Some((alpha, beta)) => {
                    b.map(std::slice::from_ref(&acc), &acc, scaled(alpha)).map_err(blame("alpha_beta"))?;
                    Some(beta)
                }
                None => None,
            };
            let (sums, out) = gather(b, c, &acc, &gc, groups).map_err(blame("tc"))?;
            epilogue(b, c, &sums, &out, plain, beta)
        }
    }
    .map_err(blame("epilogue"))
}

impl Config {
    /// Would a warp that stores its own sums, one by one, leave gaps between them? Where there is room they are better
    /// put in order in shared memory.
    fn scatters(&self) -> bool {
        let run = self.values[usize::from(self.c_rows)];
        let tiles: i64 = [&self.sa, &self.sb].iter().map(|tile| tile.layout().cosize().unwrap_or(0)).sum();
        let bytes = |count: i64, elem: Elem| count.saturating_mul(i64::from(elem.bytes()));
        let tiles = bytes(tiles.saturating_mul(i64::from(self.ahead.stages)), self.dtype);
        let sums = bytes((self.bm + 4) * (self.bn + 4), self.acc);
        self.narrow && run > 1 && tiles.saturating_add(sums) <= i64::from(limits::of(self.arch))
    }
}

/// Where groups of threads share the depth, each has a part of every sum; where threads would store with gaps between
/// them, each has all of some: they meet in shared memory, and all threads share what is left to do.
fn gather(b: &mut Builder, c: &Config, acc: &View, gc: &View, groups: i64) -> Result<(View, View)> {
    // Padded by one access, so that lanes along the other mode meet other banks.
    let wide = 16 / i64::from(c.acc.bytes());
    let parts = match c.c_rows {
        true => Layout::new((c.bm, c.bn, groups), (c.bn + wide, 1i64, c.bm * (c.bn + wide)))?,
        false => Layout::new((c.bm, c.bn, groups), (1i64, c.bm + wide, c.bn * (c.bm + wide)))?,
    };
    let parts = b.shared("parts", c.acc, parts)?;
    let deal = Deal { values: c.values.clone(), swizzle: c.swizzle, ..Deal::default() };
    let mine = b.parallelize_over(&parts, &c.tc, 0, &deal)?.with_name("tc_parts");
    let mine = b.slice(&mine, &[At::All, At::All, At::Index(0.into())])?;
    b.copy(acc, &mine)?;
    b.sync();
    // As many threads as there are, along what is contiguous.
    let threads = c.tc.size()?;
    let run = if c.c_rows { c.bn } else { c.bm };
    let fits = run % wide == 0 && (c.bm * c.bn) % (threads * wide) == 0;
    let vec = if fits && !c.narrow { wide } else { 1 };
    let fast =
        (1..=(run / vec).min(threads)).rev().find(|n| run % (n * vec) == 0 && threads % n == 0).unwrap_or(1);
    let (layout, values) = match c.c_rows {
        true => (Layout::new((threads / fast, fast), (fast, 1i64))?, vec![1, vec]),
        false => (Layout::compact((fast, threads / fast))?, vec![vec, 1]),
    };
    let deal = Deal { values, ..Deal::default() };
    let all = b.parallelize_over(&parts, &layout, 0, &deal)?.with_name("to_parts");
    let out = b.parallelize_over(gc, &layout, 0, &deal)?.with_name("to_gc");
    let part = |b: &mut Builder, group: i64| b.slice(&all, &[At::All, At::All, At::Index(group.into())]);
    let sums = b.registers("sums", c.acc, out.shape())?;
    let first = part(b, 0)?;
    b.copy(&first, &sums)?;
    for group in 1..groups {
        let more = part(b, group)?;
        let sum = tile::Expr::Bin(Bin::Add, Box::new(tile::Expr::In(0)), Box::new(tile::Expr::In(1)));
        b.map(&[sums.clone(), more], &sums, sum)?;
    }
    Ok((sums, out))
}

/// Sizes as a flat tuple.
fn sizes(of: &[Size]) -> Tuple {
    Tuple::of(of.iter().map(|&size| Tuple::from(size)))
}

/// A view at one place of its last mode.
fn column(b: &mut Builder, view: &View, at: &Affine) -> Result<View> {
    let mut coord = vec![At::All; view.rank() - 1];
    coord.push(At::Index(at.clone()));
    b.slice(view, &coord)
}

/// What happens to the sums on their way out; `scaled` is a sum times alpha.
fn epilogue(
    b: &mut Builder,
    c: &Config,
    acc: &View,
    out: &View,
    scaled: tile::Expr,
    beta: Option<tile::Expr>,
) -> Result<()> {
    let plain = scaled == tile::Expr::In(0);
    let last = |b: &mut Builder, sum: tile::Expr, ins: &[View]| match &c.epilogue {
        Some(f) => b.map(ins, out, f.with(&sum)),
        None => b.map(ins, out, sum),
    };
    let Some(beta) = beta else {
        return match &c.epilogue {
            None if plain => b.copy(acc, out),
            _ => last(b, scaled, std::slice::from_ref(acc)),
        };
    };
    // C is read only where beta asks for it. Each end stores sums of its own, so that the sums themselves can lie where
    // the product reads them best.
    let nonzero = tile::Expr::Cmp(Cmp::Ne, Box::new(beta.clone()), Box::new(tile::Expr::Lit(0.0)));
    let more = tile::Expr::Fma(Box::new([beta, tile::Expr::In(1), scaled.clone()]));
    b.when(
        nonzero,
        |b| last(b, more, &[acc.clone(), out.clone()]),
        |b| match plain && c.epilogue.is_none() {
            true => b.copy(acc, out),
            false => last(b, scaled, std::slice::from_ref(acc)),
        },
    )
}

/// A shared tile that takes `vec` elements at once: they must lie side by side, and columns must keep their alignment.
fn aligned(layout: &Composed, vec: i64) -> Result<()> {
    let mut strides = layout.layout().leaves().map(|(_, stride)| stride.factor());
    let first = strides.next();
    match strides.find(|stride| stride % vec != 0) {
        _ if vec == 1 => Ok(()),
        None if first == Some(1) => Ok(()),
        odd => Err(Problem::new(format!(
            "{vec} elements at once need a shared layout with stride 1 first and multiples of {vec} after it, and this is {}",
            odd.map_or_else(|| layout.to_string(), |stride| format!("{layout}: {stride} is not one"))
        ))
        .help(format!("pad by a multiple of {vec}, or write vec = 1"))),
    }
}
