//! `matmul_kernel!`: the matrix product family, C = A·Bᵀ, as a program of the builder (`product`).
//!
//! Keys are data: the macro's documentation, its messages and this module all read the table below.

mod blame;
mod bulk;
mod hopper;
mod machine;
mod product;
mod tensor;

use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value as Size};

use crate::ast::{Arg, Expr, ExprKind, Level, Name, Pattern, Span};
use crate::build::Builder;
use crate::definition::Outcome;
use crate::diagnostic::{Diagnostic, Lint};
use crate::elem::Elem;
use crate::evaluate::{Keys, element};
use crate::generate::Alternative;
use crate::lower::Policy;
use crate::problem::Problem;
use crate::spelling::did_you_mean;
use crate::tile::{self, Ahead, Order};
use crate::tiled::{Terms, TiledMma};
use blame::put_by_keys;
use machine::Machine;
use product::product;

/// A key: its name, its default in words, and what it means.
pub const KEYS: &[(&str, &str, &str)] = &[
    ("bm", "128", "rows of C that a block computes"),
    ("bn", "128", "columns of C that a block computes"),
    ("bk", "8, or 64 bytes on tensor cores", "length of one step along K"),
    (
        "tc",
        "(16, 16), along what is contiguous in C",
        "thread layout of the multiply-adds; a third mode splits K",
    ),
    ("values", "(1, 1)", "adjacent rows and columns of C that a thread computes"),
    ("ta", "along what is contiguous", "thread layout of A's copy"),
    ("tb", "along what is contiguous", "thread layout of B's copy"),
    ("dtype", "f32", "element type of A and B, and of C; 8-bit numbers and tf32 give a C of `acc`"),
    (
        "b_dtype",
        "dtype",
        "element type of B where it is narrower than f16 or bf16: i8, u8, i4, e4m3 or e5m2. Numbers of i4 are two in an element of u8, along K, the first in its lower bits. Elements are converted in registers, exactly, and an argument `scale` after the others has a factor of type acc for each column of C: the scales of quantised weights",
    ),
    ("out", "dtype, or acc for 8-bit numbers and tf32", "element type of C"),
    ("acc", "f32, f64 or i32 by dtype", "accumulator type"),
    (
        "precision",
        "strict",
        "strict, tf32 or f32x3, for dtype = f32: on tensor cores, operands are rounded to tf32 (11 significant bits), or each is the sum of two such terms, and sums of 8 products, by wgmma of 32, are promoted to f32. The error of an f32x3 product is at most (14 + K/16)·2^-23·|A|·|B|ᵀ, where that of strict multiply-adds is at most K/2·2^-23·|A|·|B|ᵀ; infinite elements give NaN, and parts of elements below 2^-126 are lost",
    ),
    ("a", "m_major", "m_major: columns of A contiguous; k_major: rows"),
    ("b", "n_major", "n_major: columns of B contiguous; k_major: rows"),
    ("c", "m_major", "m_major: columns of C contiguous; n_major: rows"),
    ("pad", "what avoids bank conflicts", "padding between columns of the shared tiles, in elements"),
    ("sa", "(bm, bk) : (1, bm + pad)", "shared layout of A's tile"),
    ("sb", "(bn, bk) : (1, bn + pad)", "shared layout of B's tile"),
    ("stages", "1, or up to 4 on tensor cores", "stages of shared tiles in flight"),
    ("fragments", "1", "k-steps in registers: 2 loads the next while one is multiplied"),
    (
        "exits",
        "true",
        "with 2 fragments: a loop-exit test after each k-step, which keeps nvcc from interleaving k-steps",
    ),
    (
        "staged",
        "none",
        "none, transposed or both: which operands are copied through registers, `vec` elements at once; transposed are those that are k_major",
    ),
    ("vec", "1", "vector width of copies, in elements"),
    ("order", "plain", "plain, serpentine, rows or row_serpentine: loop order over the accumulators"),
    ("alpha_beta", "false", "C = alpha·A·Bᵀ + beta·C, with two more arguments"),
    ("batched", "false", "a product for each index of a third mode, L, of all three tensors"),
    (
        "bias",
        "none",
        "none, rows or columns: an argument `bias` after the others, of the type of C, with a number for each row or each column of C, which is added to it: C = alpha·A·Bᵀ + beta·C + bias",
    ),
    (
        "scales",
        "none",
        "none, rows, columns or both: arguments `scale_rows` and `scale_columns` after the others, of type acc, with a factor for each row and for each column of C: the scales of operands that were quantised by rows; C = alpha·A·Bᵀ·scale_rows·scale_columns + beta·C + bias",
    ),
    (
        "epilogue",
        "none",
        "relu, gelu, silu or another function of one number by its name, or a closure, |x| max(x, 0.0): applied to each element of C before it is rounded, after alpha, beta and bias",
    ),
    ("arch", "80", "oldest compute capability"),
    (
        "mma",
        "auto",
        "auto, none, wgmma, mma_sync or an instruction by name, such as mma_m16n8k16_bf16: the instruction. auto takes tensor cores for f16, bf16, tf32, f64 and K-major 8-bit numbers (e4m3 and e5m2 from arch = 89 on) unless a key is about threads: wgmma for arch = 90 and f16, bf16, or K-major tf32, 8-bit numbers and f32 with precision = f32x3, else mma.sync; operands whose rows or addresses its copies do not support are packed first, or multiplied by mma.sync with narrower copies where that takes less time",
    ),
    (
        "warps",
        "one for each 64x64 of a tile",
        "warps that multiply by mma.sync: their number, or as (2, 4) over rows and columns of C, or as (1, 1, 8) with warps that share K",
    ),
    ("cluster", "1", "with wgmma: 1 or 2 blocks of a cluster, which multicast the columns that they share"),
    (
        "split_k",
        "1",
        "with wgmma: 1, 2, 4 or 8 blocks of a cluster that compute one tile together, each a part of K, for products of few tiles and a long K; sums are added in one order, whatever the schedule",
    ),
    (
        "ping_pong",
        "false",
        "with wgmma: two warpgroups alternate tiles: one multiplies while the other runs its epilogue",
    ),
    (
        "fast_accum",
        "false",
        "with wgmma, e4m3 and e5m2: Hopper's tensor cores keep about 13 bits of sums of 8-bit numbers. false adds those of each 128 of K in f32; true leaves the sums in the tensor cores, which is faster and allows larger tiles",
    ),
    ("band", "8", "with wgmma: raster order: rows of tiles in a band, before the next column of tiles"),
    (
        "overlaps",
        "false; with wgmma true",
        "programmatic dependent launch: starts before the previous kernel has ended, and waits for it; for blocks that fill a multiprocessor: sm_90",
    ),
    ("name", "matmul", "the kernel's name"),
];

/// The values of the keys.
struct Config {
    bm: i64,
    bn: i64,
    bk: i64,
    tc: Layout,
    /// The swizzle of thread indices.
    swizzle: Swizzle,
    /// Adjacent rows and columns of one thread.
    values: Vec<i64>,
    ta: Layout,
    tb: Layout,
    dtype: Elem,
    /// Type of B.
    b_dtype: Elem,
    /// Do elements of B hold two numbers of four bits each, along K?
    packed: bool,
    acc: Elem,
    precision: Precision,
    /// Type of C.
    out: Elem,
    a_rows: bool,
    b_rows: bool,
    c_rows: bool,
    sa: Composed,
    sb: Composed,
    ahead: Ahead,
    /// Vector widths of the copies of A and of B.
    vec: [i64; 2],
    order: Order,
    alpha_beta: bool,
    batched: bool,
    /// The mode of C along which an argument `bias` varies.
    bias: Option<usize>,
    /// Is there a scale for each row, for each column of C?
    scales: [bool; 2],
    /// Which operands are copied through registers: those that are not k_major, those that are.
    staged: [bool; 2],
    epilogue: Option<tile::Expr>,
    /// Copies of single elements, regardless of `vec`.
    narrow: bool,
    arch: u32,
    overlaps: bool,
    /// May tensor cores keep the sums of 8-bit floating-point numbers all along K?
    fast_accum: bool,
    name: String,
}

/// How precisely f32 is multiplied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precision {
    /// As f32: the other types are always.
    Strict,
    /// Rounded to tf32.
    Tf32,
    /// As the sum of two tf32.
    F32x3,
}

impl Precision {
    /// The choices of the key, in order.
    const ALL: [(&str, Precision); 3] =
        [("strict", Precision::Strict), ("tf32", Precision::Tf32), ("f32x3", Precision::F32x3)];

    /// Terms of an operand's element.
    fn terms(self) -> Terms {
        if self == Precision::F32x3 { Terms::Two } else { Terms::One }
    }
}

impl Config {
    /// The types of the left and of the right operand as they are multiplied.
    fn left_and_right(&self) -> [Elem; 2] {
        if self.c_rows { [self.dtype, self.b_dtype] } else { [self.b_dtype, self.dtype] }
    }

    /// So many numbers along K, in elements of B.
    fn k_of_b(&self, k: i64) -> i64 {
        if self.packed { k / 2 } else { k }
    }

    /// The extent of B along K.
    fn extent_of_b(&self) -> Option<Size> {
        let k = Size::symbol("K");
        if self.packed { k.ceil_div(2) } else { Some(k) }
    }

    /// The instruction for these operands.
    fn multiplying(&self, mma: TiledMma) -> TiledMma {
        match self.packed {
            true => mma.with_pairs(if self.c_rows { 'b' } else { 'a' }),
            false => mma,
        }
    }

    /// Is A the left operand of a product by wgmma? Else its transpose is computed: where columns of C are contiguous, and
    /// where B is converted, since wgmma reads the left operand alone from registers.
    fn a_is_left(&self) -> bool {
        self.c_rows && !self.mixed()
    }

    /// Rows of the left and of the right operand as wgmma multiplies them, or of C by those.
    fn by_wgmma(&self, [left, right, _]: [i64; 3]) -> [i64; 2] {
        if self.a_is_left() { [left, right] } else { [right, left] }
    }

    /// Do A and B have two types?
    fn mixed(&self) -> bool {
        self.b_dtype != self.dtype
    }

    /// The type in which operands are multiplied.
    fn multiplied(&self) -> Elem {
        if self.precision == Precision::Strict { self.dtype } else { Elem::Tf32 }
    }

    /// Does a product by wgmma add its partial sums in f32?
    fn promotes(&self) -> bool {
        matches!(self.dtype, Elem::E4m3 | Elem::E5m2) && !self.fast_accum
    }
}

/// Makes the kernel of a set of keys.
pub fn kernel(args: &[Arg]) -> Outcome {
    match programs(args) {
        Ok(Programs { wide, others, diagnostics, levels, why }) => {
            let mut outcome = crate::generate::finish(wide, others, diagnostics, &levels);
            if let Some(kernel) = &mut outcome.kernel {
                kernel.report.instruction = why;
            }
            outcome
        }
        Err(diagnostics) => Outcome { kernel: None, diagnostics },
    }
}

/// The tile programs of a set of keys, diagnostics, and lint levels.
pub(crate) struct Programs {
    pub(crate) wide: tile::Program,
    others: Vec<Alternative>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    levels: Vec<(Name, Level)>,
    /// The instruction and why it was chosen, where the architecture has another one for these types.
    why: Option<String>,
}

/// The programs of a set of keys, or the diagnostics if there are none.
pub(crate) fn programs(args: &[Arg]) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let mut keys = Keys::new();
    let mut reader = Reader { args, keys: &mut keys, errors: Vec::new() };
    let config = reader.config(false);
    let (mut diagnostics, levels) = (std::mem::take(&mut reader.errors), reader.levels());
    diagnostics.extend(levels.iter().filter_map(|(name, _)| Lint::unknown(name)));
    diagnostics.append(&mut keys.diagnostics());
    diagnostics.sort_by_key(|d| d.span);
    let Some(config) = config.filter(|_| diagnostics.is_empty()) else {
        return Err(diagnostics);
    };
    let mut reader = Reader { args, keys: &mut keys, errors: Vec::new() };
    let machine = reader.machine(&config);
    if !reader.errors.is_empty() {
        return Err(reader.errors);
    }
    let why = reader.instead_of_wgmma(&config, &machine);
    match machine {
        Machine::Threads => {}
        Machine::MmaSync(plans) => {
            let mut all =
                tensor::among(&config, &plans).map_err(|problem| vec![problem.at(Span::default())])?;
            let wide = all.remove(0);
            return Ok(Programs { wide, others: Alternative::narrower(all), diagnostics, levels, why });
        }
        Machine::Wgmma(sizes) => {
            // One block fills a multiprocessor.
            let overlaps = config.overlaps || reader.find("overlaps").is_none();
            return by_wgmma(args, config, overlaps, &sizes, levels);
        }
    }
    let mut builder = Builder::new(&config.name);
    if let Err((problem, blame)) = product(&mut builder, &config) {
        diagnostics.push(put_by_keys(problem, &blame, args, &config));
    }
    let narrow = narrow(args, &config).filter(|_| diagnostics.is_empty());
    let others = narrow.map(Alternative::last).into_iter().collect();
    Ok(Programs { wide: builder.finish(), others, diagnostics, levels, why })
}

/// Keys about the tiles of a product by wgmma.
const OF_WGMMA: [&str; 8] = ["bm", "bn", "bk", "stages", "cluster", "split_k", "band", "ping_pong"];

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

/// The product by wgmma, in one variant for each of some sizes, and by mma.sync for what bulk copies do not
/// support.
fn by_wgmma(
    args: &[Arg],
    mut config: Config,
    overlaps: bool,
    sizes: &[hopper::Sizes],
    levels: Vec<(Name, Level)>,
) -> std::result::Result<Programs, Vec<Diagnostic>> {
    let of_tiles = |arg: &&Arg| {
        let key = arg.name.as_ref().map_or("", |name| &*name.text);
        key != "mma" && !OF_WGMMA.contains(&key)
    };
    let plain: Vec<Arg> = args.iter().filter(of_tiles).cloned().collect();
    let mut keys = Keys::new();
    let mut reader = Reader { args: &plain, keys: &mut keys, errors: Vec::new() };
    let wrong = |problem: Problem| vec![problem.at(Span::default())];
    // Tiles of the author's choice are multiplied by wgmma wherever that is possible.
    let measured = sizes.iter().all(|sizes| sizes.clocks.is_some());
    let plan = reader.by_mma_sync(&config).map_err(wrong)?;
    let mut plans = if measured && config.mixed() { reader.with_others(&config, plan) } else { vec![plan] };
    let plan = plans.pop().ok_or_else(Vec::new)?;
    let mut narrower = tensor::programs(&config, &plan, measured).map_err(wrong)?;
    // Where bulk copies fill a ring, wgmma is faster, unless it has to wait for conversions.
    narrower.retain(|program| config.mixed() || program.rings.is_empty());
    let mut few = Vec::new();
    for plan in &plans {
        few.push(tensor::programs(&config, plan, measured).map_err(wrong)?.swap_remove(0));
    }
    config.overlaps = overlaps;
    let program = |sizes: &hopper::Sizes, direct: bool| {
        let mut builder = Builder::new(&config.name);
        hopper::product(&mut builder, &config, sizes, direct).map_err(wrong)?;
        Ok::<_, Vec<Diagnostic>>(builder.finish())
    };
    let Some((first, more)) = sizes.split_first() else { return Err(Vec::new()) };
    let wide = program(first, false)?;
    let of = |program, policies: &[Policy]| Alternative { program, policies: policies.to_vec() };
    let mut others = Vec::new();
    for sizes in more {
        others.push(of(program(sizes, false)?, &[Policy::Aligned]));
    }
    others.extend(few.into_iter().map(|program| of(program, &[Policy::Aligned])));
    // 64-bit offsets, and leading dimensions of C that bulk copies do not support.
    others.push(of(wide.clone(), &[Policy::General]));
    // Threads that store single elements have guards and addresses in registers, and so have a bias, C, scales, and
    // sums of single steps.
    let scaled = config.scales.contains(&true);
    let many = config.bias.is_some() || scaled || config.alpha_beta || config.promotes();
    let suits = |sizes: &&hopper::Sizes| sizes.is_common() && (!many || sizes.leaves_registers(&config));
    let direct: Vec<_> = sizes.iter().filter(suits).collect();
    let direct = if direct.is_empty() { vec![first] } else { direct };
    for sizes in direct {
        others.push(of(program(sizes, true)?, &[Policy::Small]));
    }
    others.extend(Alternative::narrower(narrower));
    Ok(Programs { wide, others, diagnostics: Vec::new(), levels, why: None })
}

/// The same product with copies of single elements, partitioned so that they are coalesced. `None` if its
/// copies are so already, or if the keys do not allow it.
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

    /// The values of the keys; `narrow` stands for `vec = 1`.
    fn config(&mut self, narrow: bool) -> Option<Config> {
        self.names();
        let (bm, bn, bk) = (self.positive("bm", 128), self.positive("bn", 128), self.positive("bk", 8));
        let dtype = self.elem("dtype", Elem::F32);
        let (b_dtype, packed) = self.b_dtype(dtype);
        let acc = self.elem("acc", dtype.accumulator());
        // Sums of products of 8-bit numbers do not fit 8 bits, and tf32 is a format of operands.
        let sums = dtype.bytes() == 1 || dtype == Elem::Tf32;
        let out = self.elem("out", if sums { acc } else { dtype });
        let precision = self.precision(dtype);
        let a_rows = self.choice("a", &["m_major", "k_major"]) == 1;
        let b_rows = self.choice("b", &["n_major", "k_major"]) == 1;
        let c_rows = self.choice("c", &["m_major", "n_major"]) == 1;
        if let Some(span) = self.find("b_dtype").map(|expr| expr.span).filter(|_| packed && !b_rows) {
            let message = "numbers of four bits are packed in pairs along K, and `b` is not k_major";
            self.error(span, message, "write b = k_major");
        }
        let vec = if narrow { 1 } else { self.positive("vec", 1) };
        let (stages, fragments) = (self.positive("stages", 1) as u32, self.positive("fragments", 1) as u32);
        let exits = self.find("exits").is_none() || self.flag("exits");
        let tc = self.layout("tc", || match c_rows {
            true => Layout::row_major((16, 16)),
            false => Layout::compact((16, 16)),
        })?;
        // The swizzle permutes thread indices, not elements.
        let (swizzle, tc) = (tc.swizzle(), Composed::from(tc.layout().clone()));
        let threads = tc.as_layout()?.size().ok()?;
        let values = self.values();
        // Vectors need the shared tile to be contiguous along the same mode as global memory.
        let staged = self.choice("staged", &["none", "transposed", "both"]);
        let wide =
            |rows: bool, tile: Option<&Expr>| if rows && tile.is_none() && staged == 0 { 1 } else { vec };
        let vec = [wide(a_rows, self.find("sa")), wide(b_rows, self.find("sb"))];
        let along = |rows: bool, extent: i64, k: i64, vec: i64, value: i64| {
            move || {
                let run = if rows { k } else { extent } / vec;
                // Columns that a warp writes are padded by the width of a thread's read.
                let most = if rows { (32 / value / vec).max(1) } else { 32 };
                let fast =
                    (1..=run.clamp(1, most)).rev().find(|n| run % n == 0 && threads % n == 0).unwrap_or(1);
                let slow = threads / fast;
                // Threads beyond the number of rows continue along K.
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
        // A warp that copies rows writes several columns: padding keeps them in different banks.
        let lanes = if dtype.bytes() == 8 { 16 } else { 32 };
        let pads = |threads: &Composed, rows: bool, vec: i64, value: i64| {
            let columns = threads.layout().mode(1).and_then(|k| k.size()).unwrap_or(1);
            // Columns stay aligned to reads of 16 bytes.
            let value = value.min(16 / i64::from(dtype.bytes()));
            // Only the columns that one warp writes.
            let columns = columns.min((32 / value / vec).max(1));
            match rows {
                true => (lanes / (columns * vec).max(1)).max(1),
                // Vectors along columns have no bank conflicts.
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
        let ahead = Ahead { stages, fragments, exits, producer: false };
        if let Some(problem) = crate::pipeline::unfit(&ahead) {
            let at = self.find(if fragments > 1 { "fragments" } else { "stages" });
            self.errors.push(problem.at(at.map_or(Span::default(), |expr| expr.span)));
        }
        let order = Order::ALL[self.choice("order", &Order::ALL.map(|(name, _)| name))].1;
        let (alpha_beta, batched) = (self.flag("alpha_beta"), self.flag("batched"));
        let bias = self.choice("bias", &["none", "rows", "columns"]).checked_sub(1);
        let scales = self.scales(b_dtype != dtype);
        let epilogue = match self.find("epilogue").map(activation) {
            Some(closure) => Some(self.keys.closure(&closure, acc)?),
            None => None,
        };
        let (arch, overlaps) = (self.positive("arch", 80) as u32, self.flag("overlaps"));
        let fast_accum = self.flag("fast_accum");
        if let Some(expr) = self.find("fast_accum").filter(|_| !matches!(dtype, Elem::E4m3 | Elem::E5m2)) {
            let span = expr.span;
            let message = format!("`fast_accum` is about sums of e4m3 and e5m2, and dtype is {dtype}");
            self.error(span, message, "leave it out: other sums are as accurate as those in f32");
        }
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
            b_dtype,
            packed,
            acc,
            precision,
            out,
            a_rows,
            b_rows,
            c_rows,
            sa,
            sb,
            ahead,
            vec,
            order,
            alpha_beta,
            batched,
            bias,
            scales,
            staged: [staged > 1, staged > 0],
            epilogue,
            narrow,
            arch,
            overlaps,
            fast_accum,
            name,
        })
    }

    /// The type of B's elements, and whether each holds two numbers of four bits.
    /// The modes of C that have scales. Those of columns are part of narrow weights.
    fn scales(&mut self, narrow: bool) -> [bool; 2] {
        let choice = self.choice("scales", &["none", "rows", "columns", "both"]);
        if let Some(span) = self.find("scales").filter(|_| narrow && choice > 1).map(|expr| expr.span) {
            let message = "narrow weights have a scale for each column of C anyway, the argument `scale`";
            self.error(
                span,
                message,
                "leave `scales` out, or write scales = rows for those of activations too",
            );
        }
        [matches!(choice, 1 | 3), narrow || choice > 1]
    }

    fn b_dtype(&mut self, dtype: Elem) -> (Elem, bool) {
        let is_int4 = |expr: &Expr| matches!(&expr.kind, ExprKind::Name(name) if name == "i4");
        let packed = self.find("b_dtype").is_some_and(is_int4);
        let elem = if packed { Elem::U8 } else { self.elem("b_dtype", dtype) };
        let converts = elem.bytes() == 1 && matches!(dtype, Elem::F16 | Elem::Bf16);
        if let Some(span) = self.find("b_dtype").map(|expr| expr.span)
            && elem != dtype
            && !converts
        {
            let name = if packed { "i4" } else { elem.name() };
            self.error(
                span,
                format!("elements of {name} are not converted for products of {dtype}"),
                "write i8, u8, i4, e4m3 or e5m2, with dtype = f16 or bf16",
            );
        }
        (elem, packed)
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
                let help = blame::instead_of(&name.text);
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
                format!("leave it out for {key} = {default}, or write another number"),
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
            Some(elem) => elem,
            None => {
                let help = match &expr.kind {
                    ExprKind::Str(name) if Elem::named(name).is_some() => {
                        format!("write {key} = {name}, without quotes")
                    }
                    ExprKind::Str(name) => element(name),
                    _ => element(name),
                };
                self.error(span, format!("`{key}` must be an element type"), help);
                default
            }
        }
    }

    fn choice(&mut self, key: &str, choices: &[&str]) -> usize {
        let Some(expr) = self.find(key) else { return 0 };
        let span = expr.span;
        let written = match &expr.kind {
            ExprKind::Name(name) | ExprKind::Str(name) => name.clone(),
            _ => String::new(),
        };
        choices.iter().position(|choice| *choice == written).unwrap_or_else(|| {
            // For operands the help explains the choices.
            let about = match key {
                "a" | "b" | "c" | "bias" => {
                    KEYS.iter().find(|(name, ..)| *name == key).map(|(_, _, about)| format!("; {about}"))
                }
                _ => None,
            };
            let help = did_you_mean(&written, choices.iter().copied()).unwrap_or_else(|| {
                format!("write {key} = {}{}", choices.join(" or "), about.unwrap_or_default())
            });
            self.error(span, format!("`{key}` has no such choice"), help);
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
