//! Kernels for a pair of options: each of their statements has all of its options of the pair, and perhaps others.

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Arg, Binary, Expr, ExprKind};

use super::super::scene::Extent;
use super::super::tree::{
    binary, call, choice, closure, effect, field, float, hole, index, int, ints, layout, literal, method,
    name, range, repeat, text, truth, tuple, typed, with, word,
};
use super::{Known, Space, Whole, list_of};
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

    /// Perhaps with a claim.
    fn claimed(&self, of: Expr, value: Expr) -> Expr {
        if self.has("out_of_bounds") { with(of, "out_of_bounds", value) } else { of }
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
            self.keys.push(Arg { name: Some(word("threads")), value: int(self.scene.threads) });
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
            let sum = binary(Binary::Add, name(&x.name), literal(1.0, x.elem));
            self.made(sum, x.elem, x.shape);
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
            self.push(with(call("persistent", Vec::new()), "alternate", truth(true)));
        } else if calls("persistent") || calls("raster") && multiplies {
            self.push(call("persistent", Vec::new()));
        }
        let number = self.scene.random.within(1, 4);
        if calls("raster") {
            self.push(call("raster", vec![int(number)]));
        }
        if calls("blocks_per_sm") {
            self.push(call("blocks_per_sm", vec![int(number.min(2))]));
        }
        if calls("cluster") || pair.iter().any(|of| of.function.starts_with("cluster_")) {
            self.hopper();
            self.push(call("cluster", vec![int(if number > 2 { 4 } else { 2 })]));
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
            self.push(call("at_least", vec![name(&of), int(number % 2)]));
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
            let fits = |at: &usize| self.scene.axes[*at].tile == size && (axis == 0 || *at > 0);
            let (extent, at) = match (0..self.scene.axes.len()).find(fits) {
                Some(axis) => {
                    self.scene.numbered[axis] = true;
                    (self.scene.axes[axis].extent.clone(), self.scene.block(axis))
                }
                None => (self.scene.extent(size), int(0)),
            };
            let tensor = match by_producer {
                true => self.scene.rows(elem, &[extent, looped.clone()]),
                false => self.scene.tensor(elem, &[extent, looped.clone()], false),
            };
            let of = call("tile", vec![name(&tensor), list_of(&[size, bk]), tuple(vec![at, hole()])]);
            tiles.push((self.scene.bind("x", of), [size, bk]));
        }
        let semiring = has("gemm", "with").then(|| self.scene.random.pick(&SEMIRINGS));
        let acc = if cores {
            let multiplied = if terms { Elem::Tf32 } else { elem };
            let mut mma = typed("tiled_mma", multiplied, Vec::new());
            if let ExprKind::Call { types, .. } = &mut mma.kind {
                types.push(word(sums.name()));
            }
            let mma = match self.warpgroups {
                0 => with(mma, "warps", int(self.scene.threads / 32)),
                groups => with(mma, "warpgroups", int(groups)),
            };
            let mma = if terms { with(mma, "terms", int(2)) } else { mma };
            let mma = self.scene.bind("mma", mma);
            let made = method(name(&mma), "accumulators", vec![ints(&[rows, columns]), literal(0.0, sums)]);
            self.made(made, sums, vec![rows, columns])
        } else {
            let zero = match semiring {
                Some((combine, ..)) if sums == Elem::I32 => {
                    let (least, most) = crate::number::range(sums);
                    int(if combine == "min" { most as i64 } else { least as i64 })
                }
                Some((.., begin)) => float(begin),
                None => literal(0.0, sums),
            };
            let full = typed("full", sums, vec![list_of(&[rows, columns]), zero]);
            self.made(full, sums, vec![rows, columns])
        };
        let slots: Vec<String> = tiles
            .iter()
            .map(|(_, shape)| self.scene.bind("sh", typed("shared", elem, vec![list_of(shape)])))
            .collect();
        let var = self.scene.fresh("k");
        let order = self.scene.random.pick(&["serpentine", "rows", "row_serpentine"]);
        let position = int(self.scene.random.within(0, 1));
        let body = self.in_loop(&var, |whole| {
            for ((tile, _), slot) in tiles.iter().zip(&slots) {
                let taken = index(name(tile), vec![hole(), hole(), name(&var)]);
                whole.push(call("copy", vec![taken, name(slot)]));
            }
            if has("stage", "order") {
                whole.push(with(call("stage", vec![int(1)]), "order", position));
            }
            let gemm = call("gemm", vec![name(&slots[0]), name(&slots[1]), name(&acc.name)]);
            let gemm = if has("gemm", "order") { with(gemm, "order", text(order)) } else { gemm };
            let gemm = match semiring {
                Some((combine, multiply, _)) => {
                    with(gemm, "with", tuple(vec![name(combine), name(multiply)]))
                }
                None => gemm,
            };
            whole.scene.push(effect(gemm));
        });
        let end = method(name(&tiles[0].0), "size", vec![int(2)]);
        let ahead = self.pipelined_with(range(int(0), end), pair, alternates);
        self.scene.push(repeat(&var, ahead, body));
        let stored = match self.scene.random.chance(40) {
            true => {
                let value = binary(Binary::Add, name("x"), literal(1.0, sums));
                self.made(call("map", vec![name(&acc.name), closure(&["x"], value)]), sums, acc.shape.clone())
            }
            false => acc,
        };
        let to = self.result(sums, &stored.shape);
        self.copy(&stored.name, &to.name);
    }

    /// The loop's options of the pair, and those that they need.
    fn pipelined_with(&mut self, over: Expr, pair: &[Choice; 2], alternates: bool) -> Expr {
        let has = |option: &str| pair.iter().any(|of| of.function == "pipelined" && of.name == option);
        let stages = int(self.scene.random.within(1, 3));
        let stages = if has("fragments") || has("exits") { int(2) } else { stages };
        let key = if has("most_stages") { "most_stages" } else { "stages" };
        let mut all = with(call("pipelined", vec![over]), key, stages);
        if has("fragments") || has("exits") {
            all = with(all, "fragments", int(2));
        }
        if has("exits") {
            all = with(all, "exits", truth(false));
        }
        if has("producer") || self.warpgroups > 0 || alternates {
            self.hopper();
            all = with(all, "producer", name("warp"));
        }
        if has("split") {
            let count = int(self.scene.random.pick(&[2, 4]));
            let kinds: &[&str] = match pair.iter().any(|of| of.function == "persistent") {
                true => &["threads", "blocks"],
                false => &["threads", "cluster"],
            };
            let kind = self.scene.random.pick(kinds);
            let split = if kind == "threads" { name(kind) } else { call(kind, vec![count]) };
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
        let made = call("tile", vec![name(&tensor), list_of(&shape), tuple(at)]);
        let x = self.scene.bind("x", with(made, "halo", ints(&sides)));
        let shape: Vec<i64> = shape.iter().zip(&sides).map(|(n, side)| n + 2 * side).collect();
        let value = binary(Binary::Mul, name("x"), literal(2.0, elem));
        let made = self.made(call("map", vec![name(&x), closure(&["x"], value)]), elem, shape);
        let to = self.result(elem, &made.shape);
        self.copy(&made.name, &to.name);
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
                let shared = self.scene.bind("sh", typed("shared", x.elem, vec![list_of(&x.shape)]));
                self.pool.push(Known {
                    name: shared.clone(),
                    space: Space::Shared,
                    own: None,
                    placed: false,
                    ..x.clone()
                });
                shared
            }
            false => self.full(x.elem, &x.shape, 0.0).name,
        };
        let mut copy = call("copy", vec![name(&x.name), name(&to)]);
        if given.has("fill") {
            let fill = self.scene.random.within(0, 3) as f64;
            copy = with(copy, "fill", literal(fill, x.elem));
        }
        if given.has("clamp") {
            copy = with(copy, "clamp", truth(true));
        }
        if given.has("boundary_check") {
            copy = with(copy, "boundary_check", ints(&(0..x.shape.len() as i64).collect::<Vec<_>>()));
        }
        if given.has("how") {
            let how = self.scene.random.pick(&["plain", "staged"]);
            copy = with(copy, "how", text(how));
        }
        self.push(copy);
    }

    /// An atomic update of a tile that only this block has, perhaps with its old elements.
    fn update_with(&mut self, given: &Given) {
        let shape = self.frame.clone();
        let numbers = self.made(call("iota", vec![list_of(&shape), int(0)]), Elem::I32, shape.clone());
        let to = self.result(Elem::I32, &shape);
        let how = match given.has("expected") {
            true => "atomic_compare_exchange",
            false => self.scene.random.pick(&["atomic_add", "atomic_max", "atomic_xor", "atomic_exchange"]),
        };
        let update = call("copy", vec![name(&numbers.name), name(&to.name)]);
        let mut update = with(update, "how", text(how));
        if given.has("expected") {
            update = with(update, "expected", int(self.scene.random.within(0, 2)));
        }
        if given.has("order") {
            let order = self.scene.random.pick(&["relaxed", "acquire", "release", "acq_rel"]);
            update = with(update, "order", text(order));
        }
        match self.scene.random.chance(50) {
            true => _ = self.made(update, Elem::I32, shape),
            false => self.push(update),
        }
    }

    /// Elements that are stored or added at their coordinates.
    fn scatter_with(&mut self, given: &Given) {
        let is_update = given.has("how") || given.has("order") || given.has("expected");
        let shape = self.frame.clone();
        let numbers = self.made(call("iota", vec![list_of(&shape), int(0)]), Elem::I32, shape.clone());
        let (extents, at, _) = self.placed(&shape, false, true);
        let to = self.scene.tensor(Elem::I32, &extents, true);
        let coordinate = |mode: usize| -> Expr {
            let base = at.get(mode).cloned().unwrap_or_else(|| int(0));
            match shape.get(mode) {
                Some(tile) => {
                    binary(Binary::Add, binary(Binary::Mul, base, int(*tile)), field("at", &mode.to_string()))
                }
                None => base,
            }
        };
        let coordinates = tuple((0..extents.len()).map(coordinate).collect());
        let pair = tuple(vec![coordinates, binary(Binary::Add, name("x"), int(1))]);
        let mut scatter = call("scatter", vec![name(&numbers.name), name(&to), closure(&["x", "at"], pair)]);
        if is_update {
            let how = match given.has("expected") {
                true => "atomic_compare_exchange",
                false => self.scene.random.pick(&["atomic_add", "atomic_max"]),
            };
            scatter = with(scatter, "how", text(how));
        }
        if given.has("expected") {
            scatter = with(scatter, "expected", int(0));
        }
        if given.has("order") {
            scatter = with(scatter, "order", text(self.scene.random.pick(&["relaxed", "release"])));
        }
        if given.has("out_of_bounds") {
            scatter = with(scatter, "out_of_bounds", int(-1));
        }
        self.push(scatter);
    }

    /// A tile whose out-of-bounds elements are 0.
    fn zero_outside(&mut self, elem: Elem) -> Known {
        let shape = self.frame.clone();
        let x = self.tile(elem, shape.clone(), false);
        self.made(binary(Binary::Mul, name(&x.name), literal(2.0, elem)), elem, shape)
    }

    /// A tile, and a function that is its elements in bounds and another number elsewhere.
    fn tile_with_outside(&mut self, elem: Elem, shape: &[i64], outside: Expr) -> (String, Expr) {
        let (extents, at, _) = self.placed(shape, false, false);
        let tensor = self.scene.tensor(elem, &extents, false);
        let tile = self.scene.bind("x", call("tile", vec![name(&tensor), list_of(shape), tuple(at)]));
        let inside = |(mode, extent): (usize, &Extent)| {
            let at = || field("at", &mode.to_string());
            let begun = binary(Binary::Ge, at(), int(0));
            binary(Binary::And, begun, binary(Binary::Lt, at(), extent.expr()))
        };
        let inside = extents.iter().take(shape.len()).enumerate().map(inside);
        let inside = inside.reduce(|x, y| binary(Binary::And, x, y)).unwrap_or_else(|| truth(true));
        (tile, closure(&["x", "at"], choice(inside, name("x"), outside)))
    }

    fn reduction_with(&mut self, given: &Given) {
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32]);
        let outside = identity(given.function, elem);
        let of = match given.function == "sum" || !given.has("out_of_bounds") {
            true => self.zero_outside(elem),
            false => {
                let shape = self.frame.clone();
                let (tile, function) = self.tile_with_outside(elem, &shape, outside.clone());
                self.made(call("map", vec![name(&tile), function]), elem, shape)
            }
        };
        let (mut args, mut shape) = (vec![name(&of.name)], vec![1; of.shape.len()]);
        if self.scene.random.chance(60) {
            let mode = self.scene.random.below(of.shape.len());
            shape.clone_from(&of.shape);
            shape[mode] = 1;
            args.push(int(mode as i64));
        }
        let (mut made, mut sums) = (call(given.function, args), elem);
        if given.function == "sum" {
            sums = elem.accumulator();
        }
        if given.has("acc") {
            sums = if elem.is_float() {
                self.scene.random.pick(&[Elem::F32, Elem::F64])
            } else {
                self.scene.random.pick(&[Elem::I32, Elem::I64])
            };
            made = with(made, "acc", name(sums.name()));
        }
        self.made(given.claimed(made, outside), sums, shape);
    }

    fn folded_with(&mut self, given: &Given) {
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32]);
        let of = self.zero_outside(elem);
        let sum = closure(&["a", "b"], binary(Binary::Add, name("a"), name("b")));
        let mut made = call("reduce", vec![name(&of.name), literal(0.0, elem), sum]);
        let mut shape = vec![1; of.shape.len()];
        if given.has("mode") {
            let mode = self.scene.random.below(of.shape.len());
            shape.clone_from(&of.shape);
            shape[mode] = 1;
            made = with(made, "mode", int(mode as i64));
        }
        self.made(given.claimed(made, literal(0.0, elem)), elem, shape);
    }

    fn scan_with(&mut self, given: &Given) {
        let elem = self.scene.random.pick(&[Elem::F32, Elem::I32]);
        let of = self.zero_outside(elem);
        let sum = closure(&["a", "b"], binary(Binary::Add, name("a"), name("b")));
        let mut made = call("scan", vec![name(&of.name), literal(0.0, elem), sum]);
        let mut left = vec![1; of.shape.len()];
        if given.has("mode") {
            let mode = self.scene.random.below(of.shape.len());
            left.clone_from(&of.shape);
            left[mode] = 1;
            made = with(made, "mode", int(mode as i64));
        }
        if given.has("exclusive") {
            made = with(made, "exclusive", truth(true));
        }
        if given.has("carry") {
            let carry = self.full(elem, &left, 1.0);
            made = with(made, "carry", name(&carry.name));
        }
        self.made(given.claimed(made, literal(0.0, elem)), elem, of.shape);
    }

    /// The last of a block's statements signals a flag, and the next block waits for it.
    fn wait_with_order(&mut self) {
        let count = 3;
        let words = self.scene.fresh(ZERO);
        self.scene.named_tensor(&words, Elem::I32, &[Extent::Int(count)]);
        let to = call("tile", vec![name(&words), int(1), int(0)]);
        self.push(with(call("copy", vec![int(1), to]), "how", text("atomic_max")));
        let waits = call("wait", vec![call("tile", vec![name(&words), int(1), int(0)]), int(1)]);
        let order = self.scene.random.pick(&["relaxed", "acquire"]);
        let seen = self.scene.bind("v", with(waits, "order", text(order)));
        let x = self.tile(Elem::I32, self.frame.clone(), false);
        self.made(binary(Binary::Add, name(&x.name), name(&seen)), Elem::I32, x.shape);
    }

    /// An instruction of PTX, with its model.
    fn asm_with(&mut self, given: &Given) {
        let x = self.tile(Elem::I32, self.frame.clone(), false);
        let (ptx, model) = self.scene.random.pick(&[
            ("add.s32 %0, %1, %2;", Binary::Add),
            ("xor.b32 %0, %1, %2;", Binary::Xor),
            ("sub.s32 %0, %1, %2;", Binary::Sub),
        ]);
        let model = closure(&["a", "b"], binary(model, name("a"), name("b")));
        let other = binary(Binary::Add, name("x"), int(self.scene.random.within(1, 5)));
        let asm = typed("asm", Elem::I32, vec![text(ptx), name("x"), other]);
        let asm = with(asm, "model", model);
        let asm = if given.has("volatile") { with(asm, "volatile", truth(true)) } else { asm };
        self.made(call("map", vec![name(&x.name), closure(&["x"], asm)]), Elem::I32, x.shape);
    }

    /// An exchange between lanes, or a reduction over the threads of a block, of parts of one element for each thread.
    fn lanes_with(&mut self, given: &Given) {
        let threads = self.scene.threads;
        let elem = if given.function.ends_with("_match") {
            Elem::I32
        } else {
            self.scene.random.pick(&[Elem::I32, Elem::F32])
        };
        let part =
            |of: &str| call("parallelize", vec![name(of), layout(int(threads), None), field("thread", "x")]);
        let is_extreme = given.function.ends_with("imum");
        let mut outside = literal(0.0, elem);
        let (tile, mut function) = self.tile_with_outside(elem, &[threads], identity(given.function, elem));
        if is_extreme && given.has("out_of_bounds") {
            outside = identity(given.function, elem);
        } else {
            function = closure(&["x"], binary(Binary::Mul, name("x"), literal(2.0, elem)));
        }
        let p = self.scene.bind("p", part(&tile));
        let own = self.scene.bind("v", call("map", vec![name(&p), function]));
        let sum = closure(&["a", "b"], binary(Binary::Add, name("a"), name("b")));
        let zero = literal(0.0, elem);
        let (mut made, mut result) = match given.function {
            "warp_shuffle" => (
                call(
                    "warp_shuffle",
                    vec![name(&own), closure(&["lane"], binary(Binary::Xor, name("lane"), int(1)))],
                ),
                elem,
            ),
            "warp_ballot" => {
                let votes = call(
                    "map",
                    vec![name(&own), closure(&["x"], binary(Binary::Gt, name("x"), zero.clone()))],
                );
                outside = truth(false);
                (call("warp_ballot", vec![votes]), Elem::U32)
            }
            "warp_match" => (call("warp_match", vec![name(&own)]), Elem::U32),
            "warp_reduce" | "block_reduce" | "warp_scan" | "block_scan" => {
                (call(given.function, vec![name(&own), zero, sum]), elem)
            }
            function => (
                call(function, vec![name(&own)]),
                if function.ends_with("_sum") { elem.accumulator() } else { elem },
            ),
        };
        if given.has("lanes") {
            made = with(made, "lanes", int(self.scene.random.pick(&[2, 8, 16])));
        }
        if given.has("acc") {
            result = if elem.is_float() { Elem::F64 } else { Elem::I64 };
            made = with(made, "acc", name(result.name()));
        }
        if given.has("exclusive") {
            made = with(made, "exclusive", truth(true));
        }
        let made = self.scene.bind("v", given.claimed(made, outside));
        // Where the grid has more axes, the tensor has more modes.
        let to = match self.scene.axes.len() {
            0 | 1 => self.result(result, &[threads]).name,
            _ => {
                let to = self.result(result, &[threads, 1]);
                self.scene.bind("o", index(name(&to.name), vec![hole(), int(0)]))
            }
        };
        self.push(call("copy", vec![name(&made), part(&to)]));
    }
}

/// What a reduction leaves unchanged.
fn identity(function: &str, elem: Elem) -> Expr {
    let (low, high) = crate::number::range(elem);
    match (elem.is_float(), function) {
        (true, of) if of.ends_with("maximum") => float(f64::NEG_INFINITY),
        (true, of) if of.ends_with("minimum") => float(f64::INFINITY),
        (false, of) if of.ends_with("maximum") => int(low as i64),
        (false, of) if of.ends_with("minimum") => int(high as i64),
        _ => literal(0.0, elem),
    }
}
