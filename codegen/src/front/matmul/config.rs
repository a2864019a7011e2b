//! The values of the keys, with their defaults.

use tilewright_layout::{Composed, Layout, Swizzle};

use super::reader::Reader;
use super::scales::GROUPS;
use super::threads::tc;
use crate::build::tiled::{Terms, TiledMma};
use crate::source::ast::{Arg, Expr, ExprKind, Name, Pattern, Span};
use crate::source::problem::Problem;
use crate::thread::atom::{Effect, OperandName};
use crate::tile::{Ahead, Order};
use crate::values::elem::Elem;
use crate::values::narrow::Int4;

/// The values of the keys.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) bm: i64,
    pub(super) bn: i64,
    pub(super) bk: i64,
    pub(super) tc: Layout,
    /// The swizzle of thread indices.
    pub(super) swizzle: Swizzle,
    /// The swizzle of shared tiles of a product by mma.sync, where it is given.
    pub(super) of_tiles: Option<Swizzle>,
    /// Adjacent rows and columns of one thread.
    pub(super) values: Vec<i64>,
    pub(super) ta: Layout,
    pub(super) tb: Layout,
    pub(super) dtype: Elem,
    /// Type of B.
    pub(super) b_dtype: Elem,
    /// The 4-bit type where each element of B packs two numbers, along K.
    pub(super) packed: Option<Int4>,
    pub(super) acc: Elem,
    pub(super) precision: Precision,
    /// Type of C.
    pub(super) out: Elem,
    pub(super) a_rows: bool,
    pub(super) b_rows: bool,
    pub(super) c_rows: bool,
    /// Is A the left operand of a product by mma.sync? Else its transpose is computed.
    pub(super) a_left: bool,
    pub(super) sa: Composed,
    pub(super) sb: Composed,
    pub(super) ahead: Ahead,
    /// Vector widths of the copies of A and of B.
    pub(super) vec: [i64; 2],
    pub(super) order: Order,
    pub(super) alpha_beta: bool,
    pub(super) batched: bool,
    /// The mode of C along which an argument `bias` varies.
    pub(super) bias: Option<usize>,
    /// An argument that is added to each element of C.
    pub(super) residual: Option<Residual>,
    /// The type of a second result, the sums before the epilogue's function.
    pub(super) aux: Option<Elem>,
    /// Is there a scale for each row, for each column of C?
    pub(super) scales: [bool; 2],
    /// Elements of B along K that have one scale.
    pub(super) group: Option<i64>,
    /// Have they a zero point as well?
    pub(super) zeros: bool,
    /// Has A a scale for each row and each block of K, and B one for each block of rows and of K?
    pub(super) block_scales: bool,
    /// Which operands are copied through registers: operands that are not k_major, operands that are.
    pub(super) staged: [bool; 2],
    /// The epilogue's function of a sum.
    pub(super) function: Option<Expr>,
    /// Copies of single elements, regardless of `vec`.
    pub(super) narrow: bool,
    pub(super) arch: u32,
    pub(super) overlaps: bool,
    /// Blocks of a cluster that compute one tile together, each a part of K.
    pub(super) split_k: i64,
    /// May tensor cores keep the sums of 8-bit floating-point numbers all along K?
    pub(super) fast_accum: bool,
    pub(super) name: String,
}

/// A matrix that is added to C: the type of its elements, and when.
#[derive(Clone, Copy)]
pub(super) struct Residual {
    pub(super) elem: Elem,
    pub(super) when: When,
}

/// Before or after the epilogue's function is applied?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
}

/// How precisely f32 is multiplied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// As f32: the other types are always.
    Strict,
    /// Rounded to tf32.
    Tf32,
    /// As the sum of two tf32.
    F32x3,
}

impl Precision {
    /// The choices of the key, in order.
    pub(super) const ALL: [(&str, Precision); 3] =
        [("strict", Precision::Strict), ("tf32", Precision::Tf32), ("f32x3", Precision::F32x3)];

    /// Terms of an operand's element.
    pub(super) fn terms(self) -> Terms {
        if self == Precision::F32x3 { Terms::Two } else { Terms::One }
    }
}

impl Config {
    /// The type in which accumulators are scaled and added to, and of the epilogue.
    pub(super) fn scaled(&self) -> Elem {
        scaled(self.acc, self.out)
    }

    /// The product with K-contiguous copies of A and B, if these are not K-contiguous and wgmma needs it: their
    /// elements do not have 16 bits, or B is converted.
    pub(super) fn of_rows_along_k(&self) -> Option<Config> {
        let (a_rows, b_rows) = (self.a_rows || self.dtype.bytes() != 2, true);
        ((a_rows, b_rows) != (self.a_rows, self.b_rows)).then(|| Config { a_rows, b_rows, ..self.clone() })
    }

    /// Does the epilogue read a residual, or write a second result?
    pub(super) fn has_matrices(&self) -> bool {
        self.residual.is_some() || self.aux.is_some()
    }

    /// The types of the left and of the right operand as they are multiplied.
    pub(super) fn left_and_right(&self) -> [Elem; 2] {
        if self.a_left { [self.dtype, self.b_dtype] } else { [self.b_dtype, self.dtype] }
    }

    /// A number of values along K, in elements of B.
    pub(super) fn k_of_b(&self, k: i64) -> i64 {
        if self.packed.is_some() { k / 2 } else { k }
    }

    /// The instruction for these operands.
    pub(super) fn multiplying(&self, mma: TiledMma) -> TiledMma {
        let mma = mma.in_terms(self.precision.terms());
        match self.packed {
            Some(of) => mma.with_pairs(if self.a_left { OperandName::B } else { OperandName::A }, of),
            None => mma,
        }
    }

    /// Is A the left operand of a product by wgmma? Otherwise the transpose is computed: if columns of C are contiguous,
    /// and if B is converted, since wgmma reads only the left operand from registers. A thread has accumulators of two rows
    /// and of many columns. With scales of blocks, the rows are rows of A, since each row of A has its own scale.
    pub(super) fn a_is_left(&self) -> bool {
        (self.c_rows || self.block_scales) && !self.mixed()
    }

    /// Is the right operand of a product by wgmma contiguous along K?
    pub(super) fn right_along_k(&self) -> bool {
        if self.a_is_left() { self.b_rows } else { self.a_rows }
    }

    /// Converts rows of the left and of the right operand of wgmma to rows and columns of C, or back.
    pub(super) fn by_wgmma(&self, [left, right, _]: [i64; 3]) -> [i64; 2] {
        if self.a_is_left() { [left, right] } else { [right, left] }
    }

    /// Is A the left operand of a product by mma.sync? It is if rows of C are contiguous, unless only the transpose has an
    /// instruction for the tile: instructions have more rows than columns.
    fn suits_a_left(&self) -> bool {
        let Some(Effect::Mma { m, n, .. }) =
            TiledMma::row(self.multiplied(), self.acc, self.arch).map(|row| row.effect)
        else {
            return self.c_rows;
        };
        let fits = |a_left: bool| {
            let [left, right] = if a_left { [self.bm, self.bn] } else { [self.bn, self.bm] };
            // Of numbers of four bits, two fragments of the right operand are converted at once.
            let n = if self.packed.is_some() && a_left { 2 * n } else { n };
            left % i64::from(m) == 0 && right % i64::from(n) == 0
        };
        if fits(self.c_rows) || !fits(!self.c_rows) { self.c_rows } else { !self.c_rows }
    }

    /// Do A and B have two types?
    pub(super) fn mixed(&self) -> bool {
        self.b_dtype != self.dtype
    }

    /// The type in which operands are multiplied.
    pub(super) fn multiplied(&self) -> Elem {
        if self.precision == Precision::Strict { self.dtype } else { Elem::Tf32 }
    }

    /// Does a product by wgmma add its partial sums in f32?
    pub(super) fn promotes(&self) -> bool {
        matches!(self.dtype, Elem::E4m3 | Elem::E5m2) && !self.fast_accum
    }
}

/// The types of a product.
struct Types {
    dtype: Elem,
    b_dtype: Elem,
    packed: Option<Int4>,
    acc: Elem,
    out: Elem,
    precision: Precision,
}

impl Types {
    fn scaled(&self) -> Elem {
        scaled(self.acc, self.out)
    }
}

/// The type of an epilogue: the accumulators' type, but integers that become another type are scaled by real numbers.
fn scaled(acc: Elem, out: Elem) -> Elem {
    if acc.is_float() || acc == out { acc } else { Elem::F32 }
}

impl Reader<'_> {
    /// The values of the keys; `narrow` means `vec = 1`.
    pub(super) fn config(&mut self, narrow: bool) -> Option<Config> {
        self.names();
        let tile = [self.positive("bm", 128), self.positive("bn", 128), self.positive("bk", 8)];
        let types = self.types();
        let rows = self.major(types.packed.is_some());
        let vec = if narrow { 1 } else { self.positive("vec", 1) };
        let fragments = self.positive("fragments", 1);
        let stages = self.positive("stages", fragments.min(2)) as u32;
        let exits = self.find("exits").is_none() || self.flag("exits");
        let values = self.values();
        let sides = self.sides(tile, [rows[0], rows[1]], vec, &values);
        let tc = self.layout("tc", || {
            let (over, columns) = tc(tile, &values, &sides, types.acc);
            match rows[2] {
                true => Layout::row_major((over, columns)),
                false => Layout::compact((over, columns)),
            }
        })?;
        // The swizzle permutes thread indices, not elements.
        let (swizzle, tc) = (tc.swizzle(), Composed::from(tc.layout().clone()));
        let threads = tc.as_layout()?.size().ok()?;
        let copies = self.copies(tile, sides, threads, types.dtype)?;
        let fragments = fragments as u32;
        let ahead = Ahead { stages, fragments, exits, producer: false, split: 1, sums_are_added: true };
        let ahead = self.ahead(ahead);
        let order = Order::ALL[self.choice("order", &Order::ALL.map(|(name, _)| name))].1;
        let (alpha_beta, batched) = (self.flag("alpha_beta"), self.flag("batched"));
        let bias = self.choice("bias", &["none", "rows", "columns"]).checked_sub(1);
        let (residual, aux) = (self.residual(types.out), self.aux(types.out));
        let mixed = types.b_dtype != types.dtype;
        let group = self.group(mixed);
        let zeros = self.zeros(group);
        let (scales, block_scales) = self.scales(types.dtype, mixed, group);
        let function = self.find("epilogue").map(activation);
        if let Some(closure) = &function {
            self.keys.closure(closure, types.scaled())?;
        }
        let (arch, overlaps) = (self.arch(), self.flag("overlaps"));
        let split_k = self.positive("split_k", 1);
        let fast_accum = self.fast_accum(types.dtype);
        let name = self.name();
        let tc = self.threads("tc", tc, &[2, 3])?;
        let [ta, tb] = copies.threads;
        let (ta, tb) = (self.threads("ta", ta, &[2])?, self.threads("tb", tb, &[2])?);
        let Types { dtype, b_dtype, packed, acc, out, precision } = types;
        let [sa, sb] = copies.tiles;
        let config = Config {
            bm: tile[0],
            bn: tile[1],
            bk: tile[2],
            tc,
            swizzle,
            of_tiles: self.of_tiles(),
            values,
            ta,
            tb,
            dtype,
            b_dtype,
            packed,
            acc,
            precision,
            out,
            a_rows: rows[0],
            b_rows: rows[1],
            c_rows: rows[2],
            a_left: rows[2],
            sa,
            sb,
            ahead,
            vec: copies.vec,
            order,
            alpha_beta,
            batched,
            bias,
            residual,
            aux,
            scales,
            group,
            zeros,
            block_scales,
            staged: copies.staged,
            function,
            narrow,
            arch,
            overlaps,
            split_k,
            fast_accum,
            name,
        };
        Some(Config { a_left: config.suits_a_left(), ..config })
    }

    /// The oldest compute capability.
    fn arch(&mut self) -> u32 {
        let given = self.find("arch").cloned();
        given.and_then(|expr| self.keys.architecture(&expr)).unwrap_or(80)
    }

    /// The swizzle of shared tiles.
    fn of_tiles(&mut self) -> Option<Swizzle> {
        let expr = self.find("swizzle").cloned()?;
        match &expr.kind {
            ExprKind::Name(name) if name == "auto" => None,
            ExprKind::Name(name) if name == "none" => Some(Swizzle::IDENTITY),
            ExprKind::Tuple(parts) if parts.len() == 3 => {
                let parts: Vec<i64> = parts.iter().filter_map(|part| self.keys.integer(part)).collect();
                let [bits, base, shift] = parts[..] else { return None };
                let small = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
                match Swizzle::new(small(bits), small(base), i32::try_from(shift).unwrap_or(i32::MAX)) {
                    Ok(swizzle) => Some(swizzle),
                    Err(why) => {
                        self.errors.push(Problem::from(why).at(expr.span));
                        None
                    }
                }
            }
            _ => {
                let help = "write swizzle = (3, 3, 3), swizzle = none, or leave it out";
                self.error(expr.span, "`swizzle` has three numbers: bits, base and shift", help);
                None
            }
        }
    }

    /// The types of operands, sums and results.
    fn types(&mut self) -> Types {
        let dtype = self.elem("dtype", Elem::F32);
        let (b_dtype, packed) = self.b_dtype(dtype);
        let acc = self.elem("acc", dtype.accumulator());
        // Sums of products of 8-bit numbers do not fit 8 bits, and tf32 is a format of operands.
        let sums = dtype.bytes() == 1 || dtype == Elem::Tf32;
        let out = self.elem("out", if sums { acc } else { dtype });
        Types { dtype, b_dtype, packed, acc, out, precision: self.precision(dtype) }
    }

    /// Are rows of A, of B and of C contiguous?
    fn major(&mut self, packed: bool) -> [bool; 3] {
        let a_rows = self.choice("a", &["m_major", "k_major"]) == 1;
        let b_rows = self.choice("b", &["n_major", "k_major"]) == 1;
        let c_rows = self.choice("c", &["m_major", "n_major"]) == 1;
        if let Some(span) = self.find("b_dtype").map(|expr| expr.span).filter(|_| packed && !b_rows) {
            let message = "numbers of four bits are packed in pairs along K, and `b` is not k_major";
            self.error(span, message, "write b = k_major");
        }
        [a_rows, b_rows, c_rows]
    }

    fn ahead(&mut self, ahead: Ahead) -> Ahead {
        if let Some(problem) = crate::passes::pipeline::unfit(&ahead) {
            let at = self.find(if ahead.fragments > 1 { "fragments" } else { "stages" });
            self.errors.push(problem.at(at.map_or(Span::default(), |expr| expr.span)));
        }
        ahead
    }

    fn fast_accum(&mut self, dtype: Elem) -> bool {
        let fast_accum = self.flag("fast_accum");
        if let Some(expr) = self.find("fast_accum").filter(|_| !matches!(dtype, Elem::E4m3 | Elem::E5m2)) {
            let span = expr.span;
            let message = format!("`fast_accum` is about sums of e4m3 and e5m2, and dtype is {dtype}");
            self.error(span, message, "leave it out: other sums are as accurate as those in f32");
        }
        fast_accum
    }

    fn name(&mut self) -> String {
        match self.find("name").map(|e| (e.kind.clone(), e.span)) {
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
        }
    }

    /// The elements along K that have one scale, if not all of a row.
    fn group(&mut self, narrow: bool) -> Option<i64> {
        let span = self.find("group_size").map(|expr| expr.span)?;
        let size = self.whole("group_size", 128);
        if !narrow {
            let message = "`group_size` is about the scales of narrow weights, and B has the type of A";
            self.error(span, message, "write b_dtype = i4 or another narrow type, or leave it out");
        } else if !GROUPS.contains(&size) {
            let message =
                format!("a group along K has 16, 32, 64, 128 or 256 elements, and group_size is {size}");
            self.error(span, message, "write group_size = 128");
        }
        Some(size)
    }

    /// The modes of C that have scales, and whether blocks of the operands have scales. Narrow weights include
    /// scales of columns, unless they have scales in groups.
    fn scales(&mut self, dtype: Elem, narrow: bool, group: Option<i64>) -> ([bool; 2], bool) {
        let fp8 = matches!(dtype, Elem::E4m3 | Elem::E5m2);
        let choice = self.choice("scales", &["none", "rows", "columns", "both", "blocks"]);
        let blocks = choice == 4;
        if let Some(span) = self.find("scales").map(|expr| expr.span) {
            if narrow && choice > 1 {
                let each = if group.is_some() { "each group of each" } else { "each" };
                let message = format!(
                    "narrow weights have a scale for {each} column of C anyway, the argument `scale`"
                );
                let help = "leave `scales` out, or write scales = rows for those of activations too";
                self.error(span, message, help);
            } else if blocks && !fp8 {
                let message =
                    format!("scales of blocks are about products of e4m3 and e5m2, and dtype is {dtype}");
                self.error(span, message, "write scales = both, or dtype = e4m3");
            } else if blocks && self.flag("fast_accum") {
                self.error(
                    span,
                    "scales of blocks multiply sums of each 128 of K, which fast_accum = true leaves in the tensor cores",
                    "leave fast_accum out",
                );
            }
        }
        let of_columns = group.is_none() && (narrow || matches!(choice, 2 | 3));
        ([matches!(choice, 1 | 3), of_columns], blocks)
    }

    /// Have groups a zero point each?
    fn zeros(&mut self, group: Option<i64>) -> bool {
        let zeros = self.flag("zeros");
        if let (Some(span), true, None) = (self.find("zeros").map(|expr| expr.span), zeros, group) {
            let message = "zero points are subtracted from narrow weights with scales in groups, and there are no groups";
            self.error(span, message, "write group_size = 128, and a narrow b_dtype, or leave zeros out");
        }
        zeros && group.is_some()
    }

    /// The type of B's elements, and the 4-bit type where each packs two numbers.
    fn b_dtype(&mut self, dtype: Elem) -> (Elem, Option<Int4>) {
        let of = |expr: &Expr| match &expr.kind {
            ExprKind::Name(name) => Int4::ALL.into_iter().find(|of| name == of.name()),
            _ => None,
        };
        let packed = self.find("b_dtype").and_then(of);
        let elem = if packed.is_some() { Elem::U8 } else { self.elem("b_dtype", dtype) };
        let converts = elem.bytes() == 1 && matches!(dtype, Elem::F16 | Elem::Bf16);
        if let Some(span) = self.find("b_dtype").map(|expr| expr.span)
            && elem != dtype
            && !converts
        {
            let name = packed.map_or(elem.name(), Int4::name);
            self.error(
                span,
                format!("elements of {name} are not converted for products of {dtype}"),
                "write i8, u8, i4, u4, e4m3 or e5m2, with dtype = f16 or bf16",
            );
        }
        (elem, packed)
    }

    /// What is added to each element of C: when, as in `before`, and its type if not C's, as in `before(f32)`.
    fn residual(&mut self, out: Elem) -> Option<Residual> {
        const WHENS: [When; 2] = [When::Before, When::After];
        let given = self.find("residual").cloned()?;
        let (when, elem) = match given.kind {
            ExprKind::Call { function, args, .. } if args.len() == 1 => {
                let elem = self.elem_of("residual", &args[0].value, out);
                (Expr { kind: ExprKind::Name(function.text), span: function.span }, elem)
            }
            kind => (Expr { kind, ..given }, out),
        };
        let choice = self.choice_of("residual", &when, &["none", "before", "after"]);
        choice.checked_sub(1).map(|at| Residual { elem, when: WHENS[at] })
    }

    /// The type of a second result: C's type unless one is given.
    fn aux(&mut self, out: Elem) -> Option<Elem> {
        let given = self.find("aux").cloned()?;
        let elem = match given.kind {
            ExprKind::Bool(false) => return None,
            ExprKind::Bool(true) => out,
            ExprKind::Name(_) | ExprKind::Path(_) => self.elem_of("aux", &given, out),
            _ => {
                self.error(
                    given.span,
                    "`aux` is true, or the type of its elements",
                    "write aux = true, or aux = f32",
                );
                return None;
            }
        };
        if self.find("epilogue").is_none() {
            self.error(
                given.span,
                "`aux` has what the epilogue's function is applied to, and there is no such function",
                "write epilogue = gelu or another function, or leave aux out",
            );
        }
        Some(elem)
    }

    fn precision(&mut self, dtype: Elem) -> Precision {
        let (name, precision) = Precision::ALL[self.choice("precision", &Precision::ALL.map(|row| row.0))];
        if let Some(span) = self.find("precision").map(|expr| expr.span)
            && precision != Precision::Strict
            && dtype != Elem::F32
        {
            self.error(
                span,
                format!("precision = {name} is about products of f32, and these are of {dtype}"),
                "leave precision out, or write dtype = f32",
            );
        }
        precision
    }

    fn values(&mut self) -> Vec<i64> {
        let Some(layout) = self.layout("values", || Layout::compact((1, 1))) else { return vec![1, 1] };
        let extents: Vec<_> = layout.shape().modes().filter_map(|mode| mode.product()).collect();
        if layout.rank() != 2 || extents.len() != 2 || layout.as_layout().is_none() {
            let span = self.find("values").map_or(Span::default(), |e| e.span);
            self.error(span, "`values` needs two numbers, rows and columns", "write values = (4, 4)");
            return vec![1, 1];
        }
        extents
    }

    fn threads(&mut self, key: &str, layout: Composed, ranks: &[usize]) -> Option<Layout> {
        let span = self.find(key).map_or(Span::default(), |e| e.span);
        if !ranks.contains(&layout.rank()) || layout.as_layout().is_none() {
            let modes =
                if ranks.contains(&3) { "two modes, or three to split K over threads" } else { "two modes" };
            let what =
                format!("`{key}` is a layout of threads with {modes}, and {layout} has {}", layout.rank());
            self.error(span, what, format!("write {key} = (16, 16)"));
            return None;
        }
        layout.as_layout().cloned()
    }
}

/// A function by its name as a closure; any other value as it is.
fn activation(value: &Expr) -> Expr {
    let ExprKind::Name(name) = &value.kind else { return value.clone() };
    let span = value.span;
    let named = |text: &str| Name { text: text.to_owned(), span };
    let arg = |kind| Arg { name: None, value: Expr { kind, span } };
    let x = || arg(ExprKind::Name("x".into()));
    let zero = || arg(ExprKind::Float(0.0));
    let (function, args) = match name.as_str() {
        "relu" => (named("max"), vec![x(), zero()]),
        name => (named(name), vec![x()]),
    };
    let call = Expr { kind: ExprKind::Call { function, types: Vec::new(), args }, span };
    let body = Box::new(call);
    Expr { kind: ExprKind::Closure { params: vec![Pattern::Name(named("x"))], body }, span }
}
