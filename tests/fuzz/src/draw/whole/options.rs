//! Kernels for a pair of options: each of their statements has all of its options of the pair, and perhaps others.

use std::fmt::Display;

use tilewright_codegen::Elem;

use super::super::scene::Extent;
use super::super::text::{choice, float, literal, repeat, tuple, with};
use super::{Known, Space, Whole};
use crate::case::ZERO;
use crate::options::Choice;

/// Functions of the statements of a product.
const PRODUCT: [&str; 5] = ["tiled_mma", "pipelined", "gemm", "stage", "persistent"];

/// Operations of products beside sums of products, and what an accumulator begins with.
const SEMIRINGS: [(&str, &str, f64); 4] = [
    ("min", "add", f64::INFINITY),
    ("max", "add", f64::NEG_INFINITY),
    ("max", "min", f64::NEG_INFINITY),
    ("min", "max", f64::INFINITY),
];

/// The options that the statements of one function have.
struct Given<'o> {
    function: &'o str,
    options: Vec<&'o str>,
}

impl Given<'_> {
    fn has(&self, name: &str) -> bool {
        self.options.contains(&name)
    }

    /// A call with one of the options, if the statements have it.
    fn with(&self, call: String, option: &str, value: impl Display) -> String {
        if self.has(option) { with(call, option, value) } else { call }
    }
}

impl Whole {
    /// A kernel with both options.
    pub(super) fn optional(&mut self, pair: &[Choice; 2]) {
        let has =
            |function: &str, option: &str| pair.iter().any(|of| of.function == function && of.name == option);
        let calls = |function: &str| pair.iter().any(|of| of.function == function);
        let alternates = has("persistent", "alternate");
        let multiplies = pair.iter().any(|of| PRODUCT.contains(&of.function) && !of.name.is_empty());
        let over_lanes =
            pair.iter().any(|of| of.function.starts_with("warp_") || of.function.starts_with("block_"));
        let by_warpgroups = has("tiled_mma", "warpgroups")
            || alternates && !calls("tiled_mma") && !calls("gemm") && self.scene.random.chance(70);
        let by_warps = has("tiled_mma", "warps") || has("tiled_mma", "terms") || alternates && !calls("gemm");
        self.scene.threads = self.scene.random.pick(&[32, 64, 128, 256]);
        if by_warpgroups {
            self.hopper();
            self.warpgroups = self.scene.random.weighted(&[(3, 1), (4, 2), (1, 3)]);
            self.scene.threads = 128 * self.warpgroups;
            self.frame = vec![64 * self.warpgroups, self.scene.random.pick(&[8, 16, 32, 64])];
        } else if by_warps {
            self.frame =
                vec![self.scene.random.pick(&[32, 64, 64, 128]), self.scene.random.pick(&[16, 32, 32])];
            let most = self.frame[0] / 16 * (self.frame[1] / 16);
            self.scene.threads = 32 * self.scene.random.pick(&[1, 2, 4, 4, 8]).min(most);
        } else if multiplies {
            self.frame = vec![self.scene.random.pick(&[4, 8, 16, 33]), self.scene.random.pick(&[4, 8, 32])];
        } else if over_lanes {
            self.frame = vec![self.scene.threads];
        } else {
            self.frame = self.shape();
        }
        if !by_warpgroups {
            self.set_threads();
        }
        self.axes();
        self.launched(pair, alternates, multiplies);
        if multiplies {
            self.product_with(pair);
        }
        let mut functions: Vec<&str> =
            pair.iter().filter(|of| !of.name.is_empty()).map(|of| of.function).collect();
        functions.dedup();
        functions.retain(|function| !PRODUCT.contains(function));
        for function in functions {
            let options = pair.iter().filter(|of| of.function == function).map(|of| of.name).collect();
            self.statement_with(&Given { function, options });
        }
        if !multiplies && self.pool.iter().all(|known| known.space == Space::Global) {
            let x = self.input();
            self.made(format!("{x} + {}", literal(1.0, x.elem)), x.elem, x.shape);
        }
        if !alternates && self.pool.iter().any(|known| known.space == Space::Registers) {
            self.output();
        }
        self.scene.number();
    }

    /// Statements about the launch.
    fn launched(&mut self, pair: &[Choice; 2], alternates: bool, multiplies: bool) {
        let calls = |function: &str| pair.iter().any(|of| of.function == function);
        if alternates {
            self.scene.push("persistent(alternate = true);");
        } else if calls("persistent") || calls("raster") && multiplies {
            self.scene.push("persistent();");
        }
        let number = self.scene.random.within(1, 4);
        if calls("raster") {
            self.scene.push(format!("raster({number});"));
        }
        if calls("blocks_per_sm") {
            self.scene.push(format!("blocks_per_sm({});", number.min(2)));
        }
        if calls("cluster") || pair.iter().any(|of| of.function.starts_with("cluster_")) {
            self.hopper();
            self.scene.push(format!("cluster({});", if number > 2 { 4 } else { 2 }));
        }
        let symbol = self.scene.axes.iter().find_map(|axis| match &axis.extent {
            Extent::Symbol(of) => Some(of.clone()),
            _ => None,
        });
        if calls("at_least") {
            let of = symbol.unwrap_or_else(|| {
                let of = self.scene.fresh("N");
                let extent = Extent::Symbol(of.clone());
                self.scene.tensor(Elem::F32, &[extent], false);
                of
            });
            self.scene.push(format!("at_least({of}, {});", number % 2));
        }
    }

    /// A product in a pipelined loop.
    fn product_with(&mut self, pair: &[Choice; 2]) {
        let has =
            |function: &str, option: &str| pair.iter().any(|of| of.function == function && of.name == option);
        let alternates = has("persistent", "alternate");
        let terms = has("tiled_mma", "terms");
        let calls = |function: &str| pair.iter().any(|of| of.function == function);
        let cores = calls("tiled_mma") || alternates && !calls("gemm");
        let [rows, columns] = self.frame[..] else { return };
        let (elem, sums) = match () {
            () if terms => (Elem::F32, Elem::F32),
            () if cores => self.scene.random.pick(&[
                (Elem::F16, Elem::F32),
                (Elem::Bf16, Elem::F32),
                (Elem::I8, Elem::I32),
            ]),
            () => self.scene.random.pick(&[(Elem::F32, Elem::F32), (Elem::I32, Elem::I32)]),
        };
        let bk = if cores { self.scene.random.pick(&[32, 64]) } else { self.scene.random.pick(&[4, 8, 16]) };
        let looped = self.scene.extent(bk);
        let by_producer = has("pipelined", "producer") || self.warpgroups > 0 || alternates;
        let mut tiles = Vec::new();
        for (axis, size) in [(0, rows), (1, columns)] {
            let (extent, at) = self.rows_of_block(axis, size);
            let tensor = match by_producer {
                true => self.scene.rows(elem, &[extent, looped.clone()]),
                false => self.scene.tensor(elem, &[extent, looped.clone()], false),
            };
            tiles.push(self.scene.bind("x", format!("tile({tensor}, ({size}, {bk}), ({at}, _))")));
        }
        let semiring = has("gemm", "with").then(|| self.scene.random.pick(&SEMIRINGS));
        let acc = match cores {
            true => self.accumulators_with(terms, (elem, sums), &[rows, columns]),
            false => self.filled_with(sums, &[rows, columns], first_of(semiring, sums)),
        };
        let slots = [rows, columns].map(|size| self.shared(elem, &[size, bk]));
        let var = self.scene.fresh("k");
        let order = self.scene.random.pick(&["serpentine", "rows", "row_serpentine"]);
        let position = self.scene.random.within(0, 1);
        let mut body = String::new();
        for (tile, slot) in tiles.iter().zip(&slots) {
            body += &format!("copy({tile}[(_, _, {var})], {slot});\n");
        }
        if has("stage", "order") {
            body += &format!("stage(1, order = {position});\n");
        }
        let mut gemm = format!("gemm({}, {}, {acc})", slots[0], slots[1]);
        if has("gemm", "order") {
            gemm = with(gemm, "order", format!("{order:?}"));
        }
        if let Some((combine, multiply, _)) = semiring {
            gemm = with(gemm, "with", format!("({combine}, {multiply})"));
        }
        body += &format!("{gemm};\n");
        let ahead = self.pipelined_with(format!("0..{}.size(2)", tiles[0]), pair, alternates);
        self.scene.push(repeat(&var, &ahead, &body));
        let stored = match self.scene.random.chance(40) {
            true => self.mapped_to(&acc, "x", format!("x + {}", literal(1.0, sums))),
            false => acc,
        };
        let to = self.result(sums, &stored.shape);
        self.copy(stored, to);
    }

    /// Accumulators on tensor cores, perhaps of products of two terms.
    fn accumulators_with(&mut self, terms: bool, (elem, sums): (Elem, Elem), shape: &[i64]) -> Known {
        let mut mma = self.tiled_mma(if terms { Elem::Tf32 } else { elem }, sums);
        if terms {
            mma = with(mma, "terms", 2);
        }
        let mma = self.scene.bind("mma", mma);
        self.accumulators(&mma, sums, shape)
    }

    /// The loop's options of the pair, and those that they need.
    fn pipelined_with(&mut self, over: String, pair: &[Choice; 2], alternates: bool) -> String {
        let has = |option: &str| pair.iter().any(|of| of.function == "pipelined" && of.name == option);
        let stages = self.scene.random.within(1, 3);
        let stages = if has("fragments") || has("exits") { 2 } else { stages };
        let key = if has("most_stages") { "most_stages" } else { "stages" };
        let mut all = format!("pipelined({over}, {key} = {stages})");
        if has("fragments") || has("exits") {
            all = with(all, "fragments", 2);
        }
        if has("exits") {
            all = with(all, "exits", false);
        }
        if has("producer") || self.warpgroups > 0 || alternates {
            self.hopper();
            all = with(all, "producer", "warp");
        }
        if has("split") {
            let count = self.scene.random.pick(&[2, 4]);
            let kinds: &[&str] = match pair.iter().any(|of| of.function == "persistent") {
                true => &["threads", "blocks"],
                false => &["threads", "cluster"],
            };
            let kind = self.scene.random.pick(kinds);
            let split = if kind == "threads" { kind.into() } else { format!("{kind}({count})") };
            self.hopper();
            all = with(all, "split", split);
        }
        all
    }

    /// A statement of a function with these options.
    fn statement_with(&mut self, given: &Given) {
        match given.function {
            "tile" => self.tile_with_halo(),
            "copy" => self.copy_with(given),
            "scatter" => self.scatter_with(given),
            "sum" | "maximum" | "minimum" => self.reduction_with(given),
            "reduce" => self.folded_with(given),
            "scan" => self.scan_with(given),
            "wait" => self.wait_with_order(),
            "asm" => self.asm_with(given),
            function if function.starts_with("warp_") || function.starts_with("block_") => {
                self.lanes_with(given)
            }
            other => unreachable!("`{other}` has no draw"),
        }
    }

    /// A tile with neighbours, whose elements are added up.
    fn tile_with_halo(&mut self) {
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32]);
        let shape = self.frame.clone();
        let (extents, at, _) = self.placed(&shape, false, false);
        let tensor = self.scene.tensor(elem, &extents, false);
        let sides: Vec<i64> = shape.iter().map(|_| self.scene.random.within(0, 2)).collect();
        let made = format!("tile({tensor}, {}, {}, halo = {})", tuple(&shape), tuple(&at), tuple(&sides));
        let x = self.scene.bind("x", made);
        let shape: Vec<i64> = shape.iter().zip(&sides).map(|(n, side)| n + 2 * side).collect();
        let made = self.made(format!("map({x}, |x| x * {})", literal(2.0, elem)), elem, shape);
        let to = self.result(elem, &made.shape);
        self.copy(made, to);
    }

    fn copy_with(&mut self, given: &Given) {
        if given.has("order") || given.has("expected") {
            return self.update_with(given);
        }
        let x = self.input();
        if given.has("how") && self.scene.random.chance(40) && given.options.len() == 1 {
            return self.update_with(given);
        }
        let to = match given.has("how") {
            true => {
                let shared = self.shared(x.elem, &x.shape);
                self.pool.push(shared.clone());
                shared
            }
            false => self.full(x.elem, &x.shape, 0.0),
        };
        let mut copy = format!("copy({x}, {to})");
        if given.has("fill") {
            copy = with(copy, "fill", literal(self.scene.random.within(0, 3) as f64, x.elem));
        }
        copy = given.with(copy, "clamp", true);
        copy = given.with(copy, "boundary_check", tuple(&(0..x.shape.len()).collect::<Vec<_>>()));
        if given.has("how") {
            copy = with(copy, "how", self.scene.random.pick(&["\"plain\"", "\"staged\""]));
        }
        self.scene.push(format!("{copy};"));
    }

    /// An atomic update of a tile that only this block has, perhaps with its old elements.
    fn update_with(&mut self, given: &Given) {
        let shape = self.frame.clone();
        let numbers = self.made(format!("iota({}, 0)", tuple(&shape)), Elem::I32, shape.clone());
        let to = self.result(Elem::I32, &shape);
        let how = match given.has("expected") {
            true => "atomic_compare_exchange",
            false => self.scene.random.pick(&["atomic_add", "atomic_max", "atomic_xor", "atomic_exchange"]),
        };
        let mut update = format!("copy({numbers}, {to}, how = {how:?})");
        if given.has("expected") {
            update = with(update, "expected", self.scene.random.within(0, 2));
        }
        if given.has("order") {
            let order = self.scene.random.pick(&["relaxed", "acquire", "release", "acq_rel"]);
            update = with(update, "order", format!("{order:?}"));
        }
        match self.scene.random.chance(50) {
            true => _ = self.made(update, Elem::I32, shape),
            false => self.scene.push(format!("{update};")),
        }
    }

    /// Elements that are stored or added at their coordinates.
    fn scatter_with(&mut self, given: &Given) {
        let is_update = given.has("how") || given.has("order") || given.has("expected");
        let shape = self.frame.clone();
        let numbers = self.made(format!("iota({}, 0)", tuple(&shape)), Elem::I32, shape.clone());
        let (extents, at, _) = self.placed(&shape, false, true);
        let to = self.scene.tensor(Elem::I32, &extents, true);
        let coordinate = |mode: usize| -> String {
            let base = at.get(mode).map_or("0", |base| base);
            match shape.get(mode) {
                Some(tile) => format!("{base} * {tile} + at.{mode}"),
                None => base.into(),
            }
        };
        let coordinates: Vec<String> = (0..extents.len()).map(coordinate).collect();
        let pair = format!("({}, x + 1)", tuple(&coordinates));
        let mut scatter = format!("scatter({numbers}, {to}, |x, at| {pair})");
        if is_update {
            let how = match given.has("expected") {
                true => "atomic_compare_exchange",
                false => self.scene.random.pick(&["atomic_add", "atomic_max"]),
            };
            scatter = with(scatter, "how", format!("{how:?}"));
        }
        scatter = given.with(scatter, "expected", 0);
        if given.has("order") {
            scatter = with(scatter, "order", self.scene.random.pick(&["\"relaxed\"", "\"release\""]));
        }
        scatter = given.with(scatter, "out_of_bounds", -1);
        self.scene.push(format!("{scatter};"));
    }

    /// A tile whose out-of-bounds elements are 0.
    fn zero_outside(&mut self, elem: Elem) -> Known {
        let shape = self.frame.clone();
        let x = self.tile(elem, shape.clone(), false);
        self.made(format!("{x} * {}", literal(2.0, elem)), elem, shape)
    }

    /// A tile, and a function that is its elements in bounds and another number elsewhere.
    fn tile_with_outside(&mut self, elem: Elem, shape: &[i64], outside: &str) -> (String, String) {
        let (extents, at, _) = self.placed(shape, false, false);
        let tensor = self.scene.tensor(elem, &extents, false);
        let tile = self.scene.bind("x", format!("tile({tensor}, {}, {})", tuple(shape), tuple(&at)));
        let inside =
            |(mode, extent): (usize, &Extent)| format!("((at.{mode} >= 0) & (at.{mode} < {extent}))");
        let inside = extents.iter().take(shape.len()).enumerate().map(inside);
        let inside = inside.reduce(|x, y| format!("({x} & {y})")).unwrap_or_else(|| "true".into());
        (tile, format!("|x, at| {}", choice(inside, "x", outside)))
    }

    fn reduction_with(&mut self, given: &Given) {
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32]);
        let outside = identity(given.function, elem);
        let of = match given.function == "sum" || !given.has("out_of_bounds") {
            true => self.zero_outside(elem),
            false => {
                let shape = self.frame.clone();
                let (tile, function) = self.tile_with_outside(elem, &shape, &outside);
                self.made(format!("map({tile}, {function})"), elem, shape)
            }
        };
        let (mut made, mut shape) = (format!("{}({of})", given.function), vec![1; of.shape.len()]);
        if self.scene.random.chance(60) {
            let mode = self.scene.random.below(of.shape.len());
            shape.clone_from(&of.shape);
            shape[mode] = 1;
            made = format!("{}({of}, {mode})", given.function);
        }
        let mut sums = if given.function == "sum" { elem.accumulator() } else { elem };
        if given.has("acc") {
            sums = if elem.is_float() {
                self.scene.random.pick(&[Elem::F32, Elem::F64])
            } else {
                self.scene.random.pick(&[Elem::I32, Elem::I64])
            };
            made = with(made, "acc", sums);
        }
        self.made(given.with(made, "out_of_bounds", outside), sums, shape);
    }

    /// A call with the mode along which it reduces, if it has one, and the shape that is left.
    fn along_a_mode(&mut self, given: &Given, call: String, of: &Known) -> (String, Vec<i64>) {
        if !given.has("mode") {
            return (call, vec![1; of.shape.len()]);
        }
        let mode = self.scene.random.below(of.shape.len());
        let mut shape = of.shape.clone();
        shape[mode] = 1;
        (with(call, "mode", mode), shape)
    }

    fn folded_with(&mut self, given: &Given) {
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32]);
        let of = self.zero_outside(elem);
        let zero = literal(0.0, elem);
        let (made, shape) = self.along_a_mode(given, format!("reduce({of}, {zero}, |a, b| a + b)"), &of);
        self.made(given.with(made, "out_of_bounds", zero), elem, shape);
    }

    fn scan_with(&mut self, given: &Given) {
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32]);
        let of = self.zero_outside(elem);
        let zero = literal(0.0, elem);
        let (made, left) = self.along_a_mode(given, format!("scan({of}, {zero}, |a, b| a + b)"), &of);
        let mut made = given.with(made, "exclusive", true);
        if given.has("carry") {
            made = with(made, "carry", self.full(elem, &left, 1.0));
        }
        self.made(given.with(made, "out_of_bounds", zero), elem, of.shape);
    }

    /// The last of a block's statements signals a flag, and the next block waits for it.
    fn wait_with_order(&mut self) {
        let count = 3;
        let words = self.scene.fresh(ZERO);
        self.scene.named_tensor(&words, Elem::I32, &[Extent::Int(count)]);
        self.scene.push(format!("copy(1, tile({words}, 1, 0), how = \"atomic_max\");"));
        let order = self.scene.random.pick(&["relaxed", "acquire"]);
        let seen = self.scene.bind("v", format!("wait(tile({words}, 1, 0), 1, order = {order:?})"));
        let x = self.tile(Elem::I32, self.frame.clone(), false);
        self.made(format!("{x} + {seen}"), Elem::I32, x.shape);
    }

    /// An instruction of PTX, with its model.
    fn asm_with(&mut self, given: &Given) {
        let x = self.tile(Elem::I32, self.frame.clone(), false);
        let (ptx, model) = self.scene.random.pick(&[
            ("add.s32 %0, %1, %2;", "+"),
            ("xor.b32 %0, %1, %2;", "^"),
            ("sub.s32 %0, %1, %2;", "-"),
        ]);
        let other = format!("x + {}", self.scene.random.within(1, 5));
        let asm = format!("asm::<i32>({ptx:?}, x, {other}, model = |a, b| a {model} b)");
        self.mapped_to(&x, "x", given.with(asm, "volatile", true));
    }

    /// An exchange between lanes, or a reduction over the threads of a block, of parts of one element for each thread.
    fn lanes_with(&mut self, given: &Given) {
        let threads = self.scene.threads;
        let elem = if given.function.ends_with("_match") {
            Elem::I32
        } else {
            self.scene.random.pick(&[Elem::I32, Elem::F32])
        };
        let is_extreme = given.function.ends_with("imum");
        let zero = literal(0.0, elem);
        let mut outside = zero.clone();
        let identity = identity(given.function, elem);
        let (tile, mut function) = self.tile_with_outside(elem, &[threads], &identity);
        if is_extreme && given.has("out_of_bounds") {
            outside = identity;
        } else {
            function = format!("|x| x * {}", literal(2.0, elem));
        }
        let p = self.part(&tile);
        let p = self.scene.bind("p", p);
        let own = self.scene.bind("v", format!("map({p}, {function})"));
        let (mut made, mut result) = match given.function {
            "warp_shuffle" => (format!("warp_shuffle({own}, |lane| lane ^ 1)"), elem),
            "warp_ballot" => {
                outside = "false".into();
                (format!("warp_ballot(map({own}, |x| x > {zero}))"), Elem::U32)
            }
            "warp_match" => (format!("warp_match({own})"), Elem::U32),
            function @ ("warp_reduce" | "block_reduce" | "warp_scan" | "block_scan") => {
                (format!("{function}({own}, {zero}, |a, b| a + b)"), elem)
            }
            function if function.ends_with("_sum") => (format!("{function}({own})"), elem.accumulator()),
            function => (format!("{function}({own})"), elem),
        };
        if given.has("lanes") {
            made = with(made, "lanes", self.scene.random.pick(&[2, 8, 16]));
        }
        if given.has("acc") {
            result = if elem.is_float() { Elem::F64 } else { Elem::I64 };
            made = with(made, "acc", result);
        }
        made = given.with(made, "exclusive", true);
        let made = self.scene.bind("v", given.with(made, "out_of_bounds", outside));
        // Where the grid has more axes, the tensor has more modes.
        let to = match self.scene.axes.len() {
            0 | 1 => self.result(result, &[threads]).name,
            _ => {
                let to = self.result(result, &[threads, 1]);
                self.scene.bind("o", format!("{to}[(_, 0)]"))
            }
        };
        let to = self.part(&to);
        self.copy(made, to);
    }
}

/// What an accumulator of a product on CUDA cores begins with.
fn first_of(semiring: Option<(&str, &str, f64)>, sums: Elem) -> String {
    match semiring {
        Some((combine, ..)) if sums == Elem::I32 => {
            identity(if combine == "min" { "minimum" } else { "maximum" }, sums)
        }
        Some((.., begin)) => float(begin),
        None => literal(0.0, sums),
    }
}

/// What a reduction leaves unchanged.
fn identity(function: &str, elem: Elem) -> String {
    let (low, high) = crate::number::range(elem);
    match function {
        of if of.ends_with("maximum") => literal(low, elem),
        of if of.ends_with("minimum") => literal(high, elem),
        _ => literal(0.0, elem),
    }
}
