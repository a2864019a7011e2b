//! The values of the keys, with their defaults.

use tilewright_layout::{Composed, Layout, Swizzle};

use super::Texts;
use super::blame::checks;
use super::product::CLUSTERS;
use super::reader::Reader;
use super::scales::GROUPS;
use super::threads::{Copied, tc};
use crate::build::tiled::TiledMma;
use crate::isa::atom::{Atom, Effect};
use crate::source::ast::{Arg, Expr, ExprKind, Name, Pattern};
use crate::source::problem::{Problem, Result};
use crate::tile::{Ahead, Order, Split};
use crate::values::elem::Elem;
use crate::values::narrow::Int4;

/// The values of the keys.
#[derive(Clone)]
pub(super) struct Config {
    /// Rows and columns of C that a block computes, and the length of a step along K.
    pub(super) tile: [i64; 3],
    pub(super) tc: Layout,
    /// The swizzle of thread indices.
    pub(super) swizzle: Swizzle,
    /// The swizzle of shared tiles of a product by mma.sync, where it is given.
    pub(super) of_tiles: Option<Swizzle>,
    /// Adjacent rows and columns of one thread.
    pub(super) values: Vec<i64>,
    /// The copies of A and of B on CUDA cores.
    pub(super) copies: [Copied; 2],
    /// Are they of single elements, whatever the key `vec` is?
    pub(super) narrow: bool,
    pub(super) dtype: Elem,
    /// Type of B.
    pub(super) b_dtype: Elem,
    /// The 4-bit type where each element of B packs two numbers, along K.
    pub(super) packed: Option<Int4>,
    pub(super) acc: Elem,
    pub(super) precision: Precision,
    /// Type of C.
    pub(super) out: Elem,
    /// Are rows of A, of B, of C contiguous?
    pub(super) a_rows: bool,
    pub(super) b_rows: bool,
    pub(super) c_rows: bool,
    pub(super) ahead: Ahead,
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
    /// The epilogue's function of a sum.
    pub(super) function: Option<Expr>,
    pub(super) arch: u32,
    /// Programmatic dependent launch, where it is given.
    pub(super) overlaps: Option<bool>,
    /// Blocks that compute one tile together, each a part of K.
    pub(super) split: Split,
    /// May tensor cores keep the sums of 8-bit floating-point numbers all along K?
    pub(super) fast_accum: bool,
    pub(super) name: String,
    /// The keys.
    pub(super) args: Vec<Arg>,
    pub(super) texts: &'static Texts,
}

/// A matrix that is added to C: the type of its elements, and when.
#[derive(Clone, Copy)]
pub(super) struct Residual {
    pub(super) elem: Elem,
    /// After the epilogue's function is applied, or before?
    pub(super) after: bool,
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
}

impl Config {
    /// Programmatic dependent launch? By default it is used by blocks that fill a multiprocessor.
    pub(super) fn overlaps(&self, fills: bool) -> bool {
        self.overlaps.unwrap_or(fills && self.arch >= CLUSTERS)
    }

    /// The type in which accumulators are scaled and added to, and of the epilogue: the accumulators' type, but integers that become
    /// another type are scaled by real numbers.
    pub(super) fn scaled(&self) -> Elem {
        if self.acc.is_float() || self.acc == self.out { self.acc } else { Elem::F32 }
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

    /// A number of values along K, in elements of B.
    pub(super) fn k_of_b(&self, k: i64) -> i64 {
        if self.packed.is_some() { k / 2 } else { k }
    }

    /// Is A the left operand of a product by wgmma? Otherwise the transpose is computed: if columns of C are contiguous,
    /// and if B is converted, since wgmma reads only the left operand from registers. A thread has accumulators of two rows
    /// and of many columns. With scales of blocks, the rows are rows of A, since each row of A has its own scale.
    pub(super) fn a_left_by_wgmma(&self) -> bool {
        (self.c_rows || self.block_scales) && !self.mixed()
    }

    /// Is A the left operand of a product by mma.sync? Otherwise the transpose is computed. It is if rows of C are contiguous, unless
    /// only the transpose has an instruction for the tile: instructions have more rows than columns.
    pub(super) fn a_left_by_warps(&self) -> bool {
        let Some(Effect::Mma { m, n, .. }) = self.instruction(self.arch).map(|row| row.effect) else {
            return self.c_rows;
        };
        let fits = |a_left: bool| {
            let [bm, bn, _] = self.tile;
            let [left, right] = if a_left { [bm, bn] } else { [bn, bm] };
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

    /// Is each operand the sum of two terms?
    pub(super) fn is_in_terms(&self) -> bool {
        self.precision == Precision::F32x3
    }

    /// The instruction of warps that an architecture has for these types.
    pub(super) fn instruction(&self, arch: u32) -> Option<&'static Atom> {
        TiledMma::row(self.multiplied(), self.acc, arch)
    }

    /// The same of its own architecture, or why there is none.
    pub(super) fn best(&self) -> Result<&'static Atom> {
        Ok(TiledMma::best(self.multiplied(), self.acc, self.arch, [16, 8], 1)?.row)
    }

    /// Does a product by wgmma add its partial sums in f32?
    pub(super) fn promotes(&self) -> bool {
        self.dtype.is_fp8() && !self.fast_accum
    }
}

impl Reader<'_> {
    /// The values of the keys; `narrow` means `vec = 1`.
    pub(super) fn config(&mut self, narrow: bool) -> Option<Config> {
        self.names();
        let tile = [self.positive("bm", 128), self.positive("bn", 128), self.positive("bk", 8)];
        let dtype = self.elem("dtype", Elem::F32);
        let (b_dtype, packed) = self.b_dtype(dtype);
        let acc = self.elem("acc", dtype.accumulator());
        // Sums of products of 8-bit numbers do not fit 8 bits, and tf32 is a format of operands.
        let sums = dtype.bytes() == 1 || dtype == Elem::Tf32;
        let out = self.elem("out", if sums { acc } else { dtype });
        let a_rows = self.choice("a", &[("m_major", false), ("k_major", true)]);
        let b_rows = self.choice("b", &[("n_major", false), ("k_major", true)]);
        let c_rows = self.choice("c", &[("m_major", false), ("n_major", true)]);
        let values = self.values();
        let sides = self.sides(tile, [a_rows, b_rows], narrow, &values);
        let tc = self.layout("tc", || {
            let all = tc(tile, &values, &sides, acc);
            if c_rows { Layout::row_major(all) } else { Layout::compact(all) }
        })?;
        // The swizzle permutes thread indices, not elements.
        let (swizzle, tc) = (tc.swizzle(), Composed::from(tc.layout().clone()));
        let copies = self.copies(sides, tc.as_layout()?.size().ok()?, dtype)?;
        let mixed = b_dtype != dtype;
        const SCALES: [(&str, ([bool; 2], bool)); 5] = [
            ("none", ([false, false], false)),
            ("rows", ([true, false], false)),
            ("columns", ([false, true], false)),
            ("both", ([true, true], false)),
            ("blocks", ([false, false], true)),
        ];
        let (scales, block_scales) = self.choice("scales", &SCALES);
        let group = self.find("group_size").is_some().then(|| self.whole("group_size", 128));
        let config = Config {
            tile,
            tc: self.threads("tc", tc, &[2, 3])?,
            swizzle,
            of_tiles: self.of_tiles(),
            values,
            copies,
            narrow,
            dtype,
            b_dtype,
            packed,
            acc,
            precision: self.choice("precision", &Precision::ALL),
            out,
            a_rows,
            b_rows,
            c_rows,
            ahead: self.ahead(),
            order: self.choice("order", &Order::ALL),
            alpha_beta: self.flag("alpha_beta"),
            batched: self.flag("batched"),
            bias: self.choice("bias", &[("none", None), ("rows", Some(0)), ("columns", Some(1))]),
            residual: self.residual(out),
            aux: self.aux(out),
            // Narrow weights include scales of columns, unless they have scales in groups.
            scales: [scales[0], group.is_none() && (mixed || scales[1])],
            group,
            zeros: self.flag("zeros"),
            block_scales,
            function: self.find("epilogue").map(activation),
            arch: self.arch(),
            overlaps: self.find("overlaps").is_some().then(|| self.flag("overlaps")),
            split: self.split(),
            fast_accum: self.flag("fast_accum"),
            name: self.name(),
            texts: self.texts,
            args: self.args.to_vec(),
        };
        self.unlike(&config, scales[1] || block_scales);
        if let Some(closure) = &config.function {
            self.keys.closure(closure, config.scaled())?;
        }
        Some(config)
    }

    /// Keys that others contradict.
    fn unlike(&mut self, c: &Config, of_columns: bool) {
        let (dtype, fp8, mixed) = (c.dtype, c.dtype.is_fp8(), c.mixed());
        let weights = c.packed.map_or(c.b_dtype.name(), Int4::name);
        let converts = !mixed || c.b_dtype.bytes() == 1 && matches!(dtype, Elem::F16 | Elem::Bf16);
        let size = c.group.unwrap_or(GROUPS[0]);
        let (precision, _) = Precision::ALL[c.precision as usize];
        let each = if c.group.is_some() { "each group of each" } else { "each" };
        let wrong = checks! {
            !converts => "b_dtype",
                format!("elements of {weights} are not converted for products of {dtype}"),
                "write i8, u8, i4, u4, e4m3 or e5m2, with dtype = f16 or bf16";
            c.packed.is_some() && !c.b_rows => "b_dtype",
                "numbers of four bits are packed in pairs along K, and `b` is not k_major",
                "write b = k_major";
            c.precision != Precision::Strict && dtype != Elem::F32 => "precision",
                format!("precision = {precision} is about products of f32, and these are of {dtype}"),
                "leave precision out, or write dtype = f32";
            !mixed => "group_size",
                "`group_size` is about the scales of narrow weights, and B has the type of A",
                "write b_dtype = i4 or another narrow type, or leave it out";
            mixed && !GROUPS.contains(&size) => "group_size",
                format!("a group along K has 16, 32, 64, 128 or 256 elements, and group_size is {size}"),
                "write group_size = 128";
            c.zeros && c.group.is_none() => "zeros",
                "zero points are subtracted from narrow weights with scales in groups, and there are no groups",
                "write group_size = 128, and a narrow b_dtype, or leave zeros out";
            mixed && of_columns => "scales",
                format!("narrow weights have a scale for {each} column of C anyway, the argument `scale`"),
                "leave `scales` out, or write scales = rows for those of activations too";
            !mixed && c.block_scales && !fp8 => "scales",
                format!("scales of blocks are about products of e4m3 and e5m2, and dtype is {dtype}"),
                "write scales = both, or dtype = e4m3";
            !mixed && c.block_scales && fp8 && c.fast_accum => "scales",
                "scales of blocks multiply sums of each 128 of K, which fast_accum = true leaves in the tensor cores",
                "leave fast_accum out";
            !fp8 => "fast_accum",
                format!("`fast_accum` is about sums of e4m3 and e5m2, and dtype is {dtype}"),
                "leave it out: other sums are as accurate as those in f32";
            c.aux.is_some() && c.function.is_none() => "aux",
                "`aux` has what the epilogue's function is applied to, and there is no such function",
                "write epilogue = gelu or another function, or leave aux out";
        };
        for (key, problem) in wrong.filter(|(key, _)| self.find(key).is_some()).collect::<Vec<_>>() {
            self.errors.push(problem.at(self.span(key)));
        }
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
                let swizzle =
                    Swizzle::new(small(bits), small(base), i32::try_from(shift).unwrap_or(i32::MAX));
                swizzle.map_err(|why| self.errors.push(Problem::from(why).at(expr.span))).ok()
            }
            _ => {
                let help = "write swizzle = (3, 3, 3), swizzle = none, or leave it out";
                self.refuse("swizzle", "`swizzle` has three numbers: bits, base and shift", help);
                None
            }
        }
    }

    /// How far copies and loads run ahead.
    fn ahead(&mut self) -> Ahead {
        let fragments = self.positive("fragments", 1);
        let stages = self.positive("stages", fragments.min(2)) as u32;
        let exits = self.find("exits").is_none() || self.flag("exits");
        let fragments = fragments as u32;
        let ahead = Ahead { fragments, exits, ..stages.into() };
        if let Some(problem) = ahead.unfit() {
            self.errors.push(problem.at(self.span(if fragments > 1 { "fragments" } else { "stages" })));
        }
        ahead
    }

    fn name(&mut self) -> String {
        let name = match self.find("name").map(|expr| &expr.kind) {
            None => return "matmul".to_owned(),
            Some(ExprKind::Str(name) | ExprKind::Name(name)) => name.clone(),
            Some(_) => {
                self.refuse("name", "a kernel's name is a word", "write name = my_matmul");
                return String::new();
            }
        };
        let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            self.refuse("name", format!("`{name}` cannot be a kernel's name"), "use letters, digits and `_`");
        }
        name
    }

    /// The type of B's elements, and the 4-bit type where each packs two numbers.
    fn b_dtype(&mut self, dtype: Elem) -> (Elem, Option<Int4>) {
        let packed = match self.find("b_dtype").map(|expr| &expr.kind) {
            Some(ExprKind::Name(name)) => Int4::ALL.into_iter().find(|of| name == of.name()),
            _ => None,
        };
        (if packed.is_some() { Elem::U8 } else { self.elem("b_dtype", dtype) }, packed)
    }

    /// What is added to each element of C: when, as in `before`, and its type if not C's, as in `before(f32)`.
    fn residual(&mut self, out: Elem) -> Option<Residual> {
        const WHENS: [(&str, Option<bool>); 3] =
            [("none", None), ("before", Some(false)), ("after", Some(true))];
        let given = self.find("residual").cloned()?;
        let (when, elem) = match given.kind {
            ExprKind::Call { function, args, .. } if args.len() == 1 => {
                let elem = self.elem_of("residual", &args[0].value, out);
                (Expr { kind: ExprKind::Name(function.text), span: function.span }, elem)
            }
            kind => (Expr { kind, ..given }, out),
        };
        self.choice_of("residual", &when, &WHENS).map(|after| Residual { elem, after })
    }

    /// The type of a second result: C's type unless one is given.
    fn aux(&mut self, out: Elem) -> Option<Elem> {
        let given = self.find("aux").cloned()?;
        match given.kind {
            ExprKind::Bool(is_given) => is_given.then_some(out),
            ExprKind::Name(_) | ExprKind::Path(_) => Some(self.elem_of("aux", &given, out)),
            _ => {
                let help = "write aux = true, or aux = f32";
                self.refuse("aux", "`aux` is true, or the type of its elements", help);
                None
            }
        }
    }

    fn values(&mut self) -> Vec<i64> {
        let Some(layout) = self.layout("values", || Layout::compact((1, 1))) else { return vec![1, 1] };
        let extents: Vec<_> = layout.shape().modes().filter_map(|mode| mode.product()).collect();
        if layout.rank() == 2 && extents.len() == 2 && layout.as_layout().is_some() {
            return extents;
        }
        self.refuse("values", "`values` needs two numbers, rows and columns", "write values = (4, 4)");
        vec![1, 1]
    }

    pub(super) fn threads(&mut self, key: &str, layout: Composed, ranks: &[usize]) -> Option<Layout> {
        let plain = layout.as_layout().filter(|_| ranks.contains(&layout.rank())).cloned();
        if plain.is_none() {
            let modes =
                if ranks.contains(&3) { "two modes, or three to split K over threads" } else { "two modes" };
            let what =
                format!("`{key}` is a layout of threads with {modes}, and {layout} has {}", layout.rank());
            self.refuse(key, what, format!("write {key} = (16, 16)"));
        }
        plain
    }
}

/// A function by its name as a closure; any other value as it is.
fn activation(value: &Expr) -> Expr {
    let ExprKind::Name(name) = &value.kind else { return value.clone() };
    let span = value.span;
    let made = |kind| Expr { kind, span };
    let named = |text: &str| Name { text: text.to_owned(), span };
    let arg = |kind| Arg { name: None, value: made(kind) };
    let relu = name == "relu";
    let args = [Some(ExprKind::Name("x".into())), relu.then_some(ExprKind::Float(0.0))];
    let args = args.into_iter().flatten().map(arg).collect();
    let call = ExprKind::Call { function: named(if relu { "max" } else { name }), types: Vec::new(), args };
    made(ExprKind::Closure { params: vec![Pattern::Name(named("x"))], body: Box::new(made(call)) })
}
