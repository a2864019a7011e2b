//! The functions that a kernel can call.

use tilewright_layout::{Composed, Layout, Swizzle};

use super::value::Value;
use super::{Evaluator, advice, function, instruction, integer};
use crate::affine::{Arith, Coord};
use crate::ast::{Arg, Expr, ExprKind, Name, Span};
use crate::atoms;
use crate::elem::Elem;
use crate::limits;
use crate::number::Number;
use crate::problem::Problem;
use crate::spelling::did_you_mean;
use crate::thread::{Bin, Change};
use crate::tile::{self, How};
use crate::typing;
use crate::view::{Deal, View};

/// Every function: its name and its usage, for messages.
pub const FUNCTIONS: &[(&str, &str)] = &[
    ("tile", "tile(tensor, (BM, BK), (block.x, _))"),
    (
        "parallelize",
        "parallelize(tensor, layout!((32, 8)), thread.x), with a projection such as (1, _) after it",
    ),
    ("shared", "shared::<f32>(layout!((BM, BK) : (1, BM + 1)))"),
    ("registers", "registers::<f32>((8, 8), 0.0)"),
    ("registers_like", "registers_like(tensor, 0.0)"),
    ("full", "full::<f32>((BM, BN), 0.0)"),
    ("threads", "threads(256)"),
    ("tiled_mma", "tiled_mma::<bf16, f32>(warps = 8), or tiled_mma(\"mma_m16n8k16_bf16\", layout!((2, 4)))"),
    ("fragment_like", "fragment_like(mma.partition_a(sa, thread.x)), or fragment_like::<f32>(part, 0.0)"),
    ("retile", "retile(fragment, rows)"),
    ("copy", "copy(from, to), with fill = 0.0, how = \"staged\" or how = \"atomic_add\""),
    ("fill", "fill(tensor, 0.0)"),
    ("shift", "shift(tile, (-1, 0))"),
    ("permute", "permute(tensor, (1, 0))"),
    ("regroup", "regroup(tile, (8, 16))"),
    ("broadcast", "broadcast(bias, (BM, _))"),
    ("walk", "walk((a.size(0), b.size(0)), block.x), with bands = 8"),
    ("assert", "assert(N % 4 == 0)"),
    ("gemm", "gemm(a, b, &mut acc), with order = \"serpentine\" or with = (min, add)"),
    ("map", "map((x, y), |x, y| x + y)"),
    ("sum", "sum(fragment, 1), with acc = f32 or beyond = 0.0"),
    ("maximum", "maximum(fragment, 1)"),
    ("minimum", "minimum(fragment, 1)"),
    ("reduce", "reduce(x, 0.0, |a, b| a + b), with mode = 1 or beyond = 0.0"),
    ("warp_sum", "warp_sum(fragment), with acc = f32 or lanes = 8"),
    ("warp_maximum", "warp_maximum(fragment)"),
    ("warp_minimum", "warp_minimum(fragment)"),
    ("warp_reduce", "warp_reduce(x, 0.0, |a, b| a + b), with lanes = 8 or beyond = 0.0"),
    ("block_sum", "block_sum(fragment), with acc = f32"),
    ("block_maximum", "block_maximum(fragment)"),
    ("block_minimum", "block_minimum(fragment)"),
    ("block_reduce", "block_reduce(x, 0.0, |a, b| a + b), with beyond = 0.0"),
    ("cluster_sum", "cluster_sum(fragment), with acc = f32"),
    ("cluster_maximum", "cluster_maximum(fragment)"),
    ("cluster_minimum", "cluster_minimum(fragment)"),
    ("cluster_reduce", "cluster_reduce(x, 0.0, |a, b| a + b), with beyond = 0.0"),
    (
        "scan",
        "scan(x, 0.0, |a, b| a + b), with mode = 1, exclusive = true, carry = &mut total or cluster = true",
    ),
    ("warp_scan", "warp_scan(x, 0.0, |a, b| a + b), with lanes = 8, exclusive = true or carry = &mut total"),
    ("block_scan", "block_scan(x, 0.0, |a, b| a + b), with exclusive = true or carry = &mut total"),
    ("cluster_scan", "cluster_scan(x, 0.0, |a, b| a + b), with exclusive = true or carry = &mut total"),
    ("sync_threads", "sync_threads()"),
    ("cp_async_wait_all", "cp_async_wait_all()"),
    ("cp_async_wait", "cp_async_wait(1)"),
    ("cp_async_commit", "cp_async_commit()"),
    ("at_most", "at_most(N, 8192)"),
    ("blocks_per_sm", "blocks_per_sm(4)"),
    ("persistent", "persistent()"),
    ("cluster", "cluster(8)"),
    ("padded", "padded((BM, BK), 1)"),
    ("row_major", "row_major((BM, BK))"),
    ("swizzled", "swizzled(3, 2, 3, layout!((32, 8)))"),
    ("composition", "composition(layout, tiler)"),
    ("logical_divide", "logical_divide(layout, tiler)"),
    ("zipped_divide", "zipped_divide(layout, tiler)"),
    ("blocked_product", "blocked_product(block, copies)"),
    ("raked_product", "raked_product(block, copies)"),
    ("coalesce", "coalesce(layout)"),
    ("ceil_div", "ceil_div(a, b)"),
    ("min", "min(a, b)"),
    ("max", "max(a, b)"),
    ("exp", "exp(x)"),
    ("log", "log(x)"),
    ("sqrt", "sqrt(x)"),
    ("rsqrt", "rsqrt(x)"),
    ("tanh", "tanh(x)"),
    ("abs", "abs(x)"),
    ("sin", "sin(x)"),
    ("cos", "cos(x)"),
    ("exp2", "exp2(x)"),
    ("log2", "log2(x)"),
    ("pow", "pow(x, y)"),
    ("erf", "erf(x)"),
    ("sigmoid", "sigmoid(x)"),
    ("silu", "silu(x)"),
    ("gelu", "gelu(x)"),
    ("gelu_tanh", "gelu_tanh(x)"),
    ("floor", "floor(x)"),
    ("ceil", "ceil(x)"),
    ("trunc", "trunc(x)"),
    ("round", "round(x)"),
    ("round_ties_even", "round_ties_even(x)"),
    ("fmod", "fmod(x, y)"),
    ("copysign", "copysign(size, sign)"),
    ("count_ones", "count_ones(n)"),
    ("leading_zeros", "leading_zeros(n)"),
    ("bits", "bits::<u32>(x)"),
    ("fma", "fma(a, b, c)"),
    ("select", "select(condition, a, b)"),
    ("unroll", "for i in unroll(0..4) { … }"),
    ("pipelined", "for k in pipelined(0..n, stages = 3) { … }"),
];

/// The arguments of a call: positional and named.
pub(super) struct Args {
    pub(super) call: Span,
    pub(super) name: String,
    pub(super) values: Vec<(Value, Span)>,
    pub(super) named: Vec<(Name, Value, Span)>,
}

impl Args {
    /// A missing or wrong argument.
    pub(super) fn needs(&self, arg: usize, what: &str) -> Problem {
        match self.values.get(arg) {
            Some((found, _)) => {
                Problem::new(format!("`{}` needs {what} here, and this is {}", self.name, found.kind()))
                    .help(self.usage())
                    .arg(arg)
            }
            None => Problem::new(format!("`{}` needs {what} as argument {}", self.name, arg + 1))
                .help(self.usage()),
        }
    }

    pub(super) fn span(&self, arg: usize) -> Span {
        self.values.get(arg).map_or(self.call, |(_, span)| *span)
    }

    fn poisoned(&self) -> bool {
        let poison = |value: &Value| matches!(value, Value::Poison);
        self.values.iter().any(|(v, _)| poison(v)) || self.named.iter().any(|(_, v, _)| poison(v))
    }

    pub(super) fn usage(&self) -> String {
        let row = FUNCTIONS.iter().find(|(name, _)| *name == self.name);
        row.map_or_else(String::new, |(_, usage)| format!("write {usage}"))
    }
}

impl Evaluator {
    pub(super) fn call(&mut self, function: &Name, types: &[Name], args: &[Arg], span: Span) -> Value {
        let naming = std::mem::take(&mut self.naming);
        // A closure bound in the kernel shadows a function of its name, as in Rust.
        if let Some(Value::Closure(closure)) = self.lookup(&function.text).cloned() {
            if let Some(place) = self.scope.iter().rposition(|(known, _)| *known == function.text)
                && self.callers.is_empty()
            {
                self.uses.used(place);
            }
            self.naming = naming;
            return self.called(&closure, function, args, span);
        }
        if let Some(device) = self.devices.iter().find(|device| device.name.text == function.text) {
            return self.device_call(&device.clone(), args, span);
        }
        let Some((known, _)) = FUNCTIONS.iter().find(|(name, _)| *name == function.text) else {
            let problem = Problem::new(format!("kernels have no function `{}`", function.text));
            let help = advice::function(&function.text, self.lookup(&function.text));
            return self.complain(function.span, problem.help(help));
        };
        let mut all = Args { call: span, name: (*known).to_owned(), values: Vec::new(), named: Vec::new() };
        for arg in args {
            let value = match (&arg.name, &arg.value.kind) {
                (Some(name), _) if *known == "gemm" && name.text == "with" => self.operations(&arg.value),
                (Some(name), ExprKind::Name(elem)) if name.text == "acc" => {
                    let elem = Name { text: elem.clone(), span: arg.value.span };
                    self.elem(&elem).map_or(Value::Poison, Value::Elem)
                }
                _ => self.expr(&arg.value),
            };
            match &arg.name {
                Some(name) => all.named.push((name.clone(), value, arg.value.span)),
                None => all.values.push((value, arg.value.span)),
            }
        }
        if all.poisoned() {
            return Value::Poison;
        }
        let allowed: &[&str] = match *known {
            "tile" => &["halo"],
            "walk" => &["bands"],
            "gemm" => &["order", "how", "with"],
            "copy" => &["how", "fill", "clamp"],
            "parallelize" => &["ragged", "values"],
            "pipelined" => &["stages", "fragments", "exits", "producer"],
            "tiled_mma" => &["warps", "warpgroups"],
            "sum" | "block_sum" | "cluster_sum" => &["acc", "beyond"],
            "maximum" | "minimum" | "block_maximum" | "block_minimum" | "cluster_maximum"
            | "cluster_minimum" => &["beyond"],
            "warp_sum" => &["acc", "lanes", "beyond"],
            "warp_maximum" | "warp_minimum" => &["lanes", "beyond"],
            "scan" => &["mode", "exclusive", "carry", "cluster"],
            "warp_scan" => &["lanes", "exclusive", "carry"],
            "block_scan" | "cluster_scan" => &["exclusive", "carry"],
            "reduce" => &["mode", "beyond"],
            "warp_reduce" => &["lanes", "beyond"],
            "block_reduce" | "cluster_reduce" => &["beyond"],
            _ => &[],
        };
        if let Some((name, _, _)) = all.named.iter().find(|(name, ..)| !allowed.contains(&name.text.as_str()))
        {
            let problem = Problem::new(format!("`{known}` has no argument named `{}`", name.text));
            let help = match (did_you_mean(&name.text, allowed.iter().copied()), allowed) {
                (Some(near), _) => near,
                (None, []) => all.usage(),
                (None, _) => format!("its named arguments are {}", allowed.join(", ")),
            };
            return self.complain(name.span, problem.help(help));
        }
        if !self.goes_on(limits::CALL, span) {
            return Value::Poison;
        }
        self.builder.at_call(span, all.values.iter().map(|(_, span)| *span).collect());
        match self.apply(&all, types, &naming) {
            Ok(value) => value,
            Err(problem) => {
                let at = problem.arg.map_or(span, |arg| all.span(arg));
                self.complain(at, problem)
            }
        }
    }

    fn apply(&mut self, args: &Args, types: &[Name], naming: &[String]) -> Result<Value, Problem> {
        let wrong =
            || Problem::new(format!("`{}` cannot take these arguments", args.name)).help(args.usage());
        let of = |n: usize| args.values.get(n).map(|(value, _)| value);
        let count = args.values.len();
        let need = |n: usize, what: &str| args.needs(n, what);
        let view = |n: usize| match of(n) {
            Some(Value::View(view)) => Ok(view.clone()),
            _ => Err(need(n, "a tensor")),
        };
        // The part of a thread has extents known while compiling.
        let part = |n: usize| match view(n)? {
            whole if whole.extents().is_none() => Err(advice::whole(&whole, &args.name).arg(n)),
            part => Ok(part),
        };
        let layout = |n: usize| of(n).and_then(Value::layout).ok_or_else(|| need(n, "a layout"));
        let tiler = |n: usize| of(n).and_then(Value::tiler).ok_or_else(|| need(n, "a shape or a layout"));
        let most = |n: usize| {
            if count > n {
                let most = match n {
                    0 => "no arguments".to_owned(),
                    1 => "one argument".to_owned(),
                    n => format!("at most {n} arguments"),
                };
                let problem = Problem::new(format!("`{}` takes {most}, and this is one more", args.name));
                return Err(problem.help(args.usage()).arg(n));
            }
            Ok(())
        };
        let name = match (naming, args.name.as_str()) {
            ([name], _) => name,
            (_, "shared") => "tile",
            _ => "fragment",
        };
        let number = |n: usize| match of(n) {
            Some(Value::View(_)) => Err(need(n, "a number").help(format!(
                "elements are computed inside `map`: map((x, y), |x, y| {}(x, y))",
                args.name
            ))),
            value => value.and_then(Value::as_number).ok_or_else(|| need(n, "a number")),
        };
        let integer = |n: usize| match of(n) {
            Some(Value::Int(x)) => Ok(*x),
            _ => Err(need(n, "an integer")),
        };

        match args.name.as_str() {
            "tile" => {
                most(3)?;
                let (tensor, tiler) = (view(0)?, tiler(1)?);
                of(1).map_or(Ok(()), tile_extents)?;
                let coord = match of(2) {
                    Some(at) => {
                        let at = self.read(at.clone(), args.span(2));
                        at.ats().ok_or_else(|| self.no_coordinate(&at, &args.usage()).arg(2))?
                    }
                    None => return Err(need(2, "coordinates, such as (block.x, _),")),
                };
                let tiled = self.builder.tile(&tensor, tiler, &coord)?;
                let Some((_, halo, span)) = args.named.first() else { return Ok(Value::View(tiled)) };
                let rank = match of(1) {
                    Some(Value::Tuple(items)) => items.len(),
                    _ => 1,
                };
                match self.halo(halo, rank) {
                    Some(halo) => Ok(Value::View(self.builder.with_halo(&tiled, &halo)?)),
                    None => {
                        let problem = Problem::new(format!(
                            "`halo` is a number for each of the {rank} modes of the tile, and this is {}",
                            halo.kind()
                        ));
                        Ok(self.complain(
                            *span,
                            problem.help("write halo = (1, 1), or ((1, 2), 0) for a mode with two sides"),
                        ))
                    }
                }
            }
            "shift" => {
                most(2)?;
                self.shift_call(args, &view(0)?)
            }
            "permute" => {
                most(2)?;
                self.permute_call(args, &view(0)?)
            }
            "regroup" => {
                most(2)?;
                self.regroup_call(args, &part(0)?)
            }
            "broadcast" => {
                most(2)?;
                self.broadcast_call(args, &view(0)?)
            }
            "assert" => {
                most(1)?;
                match of(0) {
                    Some(Value::Bool(true)) => Ok(Value::Unit),
                    Some(Value::Bool(false)) => {
                        Err(Problem::new("this does not hold, for the constants of this kernel")
                            .help("set other constants, or assert something else")
                            .arg(0))
                    }
                    Some(value) => {
                        let test = integer::test(value).ok_or_else(|| need(0, "a condition on sizes"))?;
                        let text = integer::text(&test, self.builder.program());
                        self.builder.require(test, &text).map_err(|problem| problem.arg(0))?;
                        Ok(Value::Unit)
                    }
                    None => Err(need(0, "a condition on sizes")),
                }
            }
            "walk" => {
                most(2)?;
                self.walk_call(args)
            }
            "parallelize" => {
                most(4)?;
                let (tensor, threads) = (view(0)?, layout(1)?);
                match of(2) {
                    Some(Value::Index(index)) if *index == Coord::Thread(0).into() => {}
                    _ => return Err(need(2, "`thread.x`")),
                }
                let keep = match of(3) {
                    None => None,
                    Some(Value::Tuple(items))
                        if items.iter().all(|i| matches!(i, Value::Int(_) | Value::Hole)) =>
                    {
                        Some(items.iter().map(|item| !matches!(item, Value::Hole)).collect())
                    }
                    Some(_) => return Err(need(3, "a projection, such as (1, _),")),
                };
                let mut deal = Deal { keep, ..Deal::default() };
                for (name, value, _) in &args.named {
                    match (name.text.as_str(), value, value.tuple().and_then(|t| t.ints())) {
                        ("ragged", Value::Bool(ragged), _) => deal.ragged = *ragged,
                        ("values", _, Some(values)) if values.iter().all(|n| *n > 0) => deal.values = values,
                        (name, other, _) => {
                            let what = if name == "ragged" { "true or false" } else { "positive integers" };
                            return Err(Problem::new(format!(
                                "`{name}` is {what}, and this is {}",
                                other.kind()
                            ))
                            .help("write ragged = true, or values = (4, 1)"));
                        }
                    }
                }
                Ok(Value::View(self.builder.parallelize_over(&tensor, &threads, 0, &deal)?))
            }
            "shared" => {
                most(1)?;
                let elem = self.type_argument(types, args)?;
                let layout = match of(0) {
                    Some(Value::Layout(layout)) => layout.clone(),
                    Some(Value::Tuple(_)) => {
                        let shape = of(0).and_then(Value::tuple).ok_or_else(wrong)?;
                        if shape.product().is_none() {
                            return Err(advice::known_at_launch("a tile in shared memory", &shape).arg(0));
                        }
                        return Ok(Value::View(self.builder.shared_tile(name, elem, shape)?));
                    }
                    _ => return Err(need(0, "a layout")),
                };
                if !layout.layout().is_static() {
                    return Err(advice::known_at_launch("a tile in shared memory", &layout).arg(0));
                }
                let made = self.builder.shared(name, elem, layout);
                Ok(Value::View(made?))
            }
            "registers" => {
                most(2)?;
                let elem = self.type_argument(types, args)?;
                let shape = of(0).and_then(Value::tuple).ok_or_else(|| need(0, "a shape"))?;
                if shape.product().is_none() {
                    return Err(advice::known_at_launch("a tile in registers", &shape).arg(0));
                }
                let fragment = self.builder.registers(name, elem, shape)?;
                if count == 2 {
                    self.builder.fill(&fragment, number(1)?.expr)?;
                }
                Ok(Value::View(fragment))
            }
            "registers_like" => {
                most(2)?;
                let like = view(0)?;
                let value = if count == 2 { number(1)?.expr } else { tile::Expr::lit(0) };
                let elem = match types {
                    [] => self.builder.elem(&like),
                    _ => self.type_argument(types, args)?,
                };
                // A counter or sum in one register may differ from thread to thread.
                let fragment = match like.layout.size() {
                    Ok(1) => self.builder.registers(name, elem, like.shape())?,
                    _ => self.room_for(name, elem, std::slice::from_ref(&like))?,
                };
                self.builder.fill(&fragment, value)?;
                Ok(Value::View(fragment))
            }
            "full" => {
                most(2)?;
                let elem = self.type_argument(types, args)?;
                let shape = of(0).and_then(Value::tuple).ok_or_else(|| need(0, "a shape"))?;
                self.full(name, elem, &shape, number(1)?)
            }
            "threads" => {
                most(1)?;
                self.builder.threads(integer(0)?)?;
                Ok(Value::Unit)
            }
            "tiled_mma" => self.tiled_mma(args, types),
            "fragment_like" => {
                most(2)?;
                self.fragment_like(args, types, name, &view(0)?)
            }
            "retile" => {
                most(2)?;
                self.builder.retile(&view(0)?, &view(1)?).map(Value::View)
            }
            "copy" => {
                most(2)?;
                let (from, to) = (view(0)?, view(1)?);
                if from.rank() == to.rank() {
                    part(0)?;
                    part(1)?;
                }
                let (mut how, mut fill, mut clamps, mut update) = (How::Derive, None, false, None);
                let change = |text: &str| {
                    let name = text.strip_prefix("atomic_")?;
                    Change::ALL.iter().find(|row| row.0 == name).map(|row| row.1)
                };
                for (name, value, span) in &args.named {
                    match (name.text.as_str(), value) {
                        ("how", Value::Text(text)) if text == "plain" => how = How::Plain,
                        ("how", Value::Text(text)) if text == "staged" => how = How::Staged,
                        ("clamp", Value::Bool(yes)) => clamps = *yes,
                        ("how", Value::Text(text)) if change(text).is_some() => update = change(text),
                        ("how", Value::Text(text)) if atoms::find(text).is_some() => {
                            let row = match instruction::copy_row(text) {
                                Ok(row) => row,
                                Err(problem) => return Ok(self.complain(*span, problem)),
                            };
                            return self.copy_by(row, &from, &to).map(|()| Value::Unit);
                        }
                        ("fill", Value::Float(x)) => fill = Some((Number::from(*x), *span)),
                        ("fill", Value::Int(n)) => fill = Some((Number::from(*n), *span)),
                        (name, other) => {
                            let problem = Problem::new(format!("`{name}` cannot be {}", other.kind()));
                            let help = "write how = \"plain\", how = \"staged\", how = \"atomic_add\", or fill = 0.0";
                            return Ok(self.complain(*span, problem.help(help)));
                        }
                    }
                }
                if clamps && fill.is_some() {
                    let problem =
                        Problem::new("a copy repeats the edge or fills what lies beyond it, not both");
                    return Err(problem.help("leave out `clamp` or `fill`"));
                }
                let modes = if clamps { 0..from.base.len() } else { 0..0 };
                let from = modes.fold(from, View::nearest);
                if let (Some(update), None) = (update, &fill) {
                    self.builder.atomic(&from, &to, update)?;
                    return Ok(Value::Unit);
                }
                match (how, fill) {
                    _ if update.is_some() => {
                        let problem = Problem::new("an atomic copy skips what lies outside, and has no fill");
                        return Err(problem.help("leave out `fill`"));
                    }
                    (How::Derive, Some((fill, span))) => match self.builder.copy_filled(&from, &to, fill) {
                        Err(problem) if problem.arg == Some(2) => return Ok(self.complain(span, problem)),
                        done => done?,
                    },
                    (_, Some(_)) => {
                        let problem = Problem::new("a copy has a mechanism or a fill of its own, not both");
                        return Err(problem.help("leave out `how` or `fill`"));
                    }
                    (how, None) => self.builder.copy_how(&from, &to, how, None)?,
                }
                Ok(Value::Unit)
            }
            "fill" => {
                most(2)?;
                self.builder.fill(&view(0)?, number(1)?.expr)?;
                Ok(Value::Unit)
            }
            "gemm" => {
                most(3)?;
                self.gemm_call(args, [&view(0)?, &view(1)?, &view(2)?])
            }
            "map" => self.map_call(args, naming),
            name if super::reduce::parts(name).is_some() => self.reduce_call(args, naming),
            "scan" | "warp_scan" | "block_scan" | "cluster_scan" => self.scan_call(args, naming),
            "sync_threads" => {
                most(0)?;
                self.builder.sync();
                Ok(Value::Unit)
            }
            "cp_async_wait_all" => {
                most(0)?;
                self.builder.wait_copies(0);
                Ok(Value::Unit)
            }
            "cp_async_wait" => {
                most(1)?;
                let pending = u32::try_from(integer(0)?).map_err(|_| need(0, "a number of groups"))?;
                self.builder.wait_copies(pending);
                Ok(Value::Unit)
            }
            "cp_async_commit" => {
                most(0)?;
                self.builder.commit_copies();
                Ok(Value::Unit)
            }
            "at_most" => {
                most(2)?;
                let limit = integer(1)?;
                match of(0) {
                    Some(Value::Size(size)) if limit > 0 => {
                        self.builder.at_most(*size, limit);
                        Ok(Value::Unit)
                    }
                    Some(Value::Int(size)) if *size <= limit => Ok(Value::Unit),
                    Some(Value::Int(size)) => {
                        let problem = Problem::new(format!("{size} is more than {limit}"));
                        Err(problem.help("choose larger tiles, so that they hold all of it").arg(0))
                    }
                    Some(Value::Size(_)) => Err(need(1, "a positive integer")),
                    _ => Err(need(0, "a size, such as N or x.size(1),")),
                }
            }
            "blocks_per_sm" => {
                most(1)?;
                let blocks = u32::try_from(integer(0)?).map_err(|_| need(0, "a number of blocks"))?;
                self.builder.blocks_per_sm(blocks);
                Ok(Value::Unit)
            }
            "persistent" => {
                most(0)?;
                self.builder.persistent();
                self.one_of_cluster_and_persistent().map(|()| Value::Unit)
            }
            "cluster" => {
                most(1)?;
                match u32::try_from(integer(0)?) {
                    Ok(blocks @ 1..=limits::MOST_BLOCKS) => {
                        self.builder.cluster([blocks, 1, 1]);
                        self.builder.arch(if blocks > 1 { 90 } else { 0 });
                        self.one_of_cluster_and_persistent().map(|()| Value::Unit)
                    }
                    _ => Err(need(0, &format!("a number of blocks from 1 to {}", limits::MOST_BLOCKS))),
                }
            }
            "padded" => {
                most(2)?;
                let shape = of(0).and_then(Value::tuple).ok_or_else(|| need(0, "a shape"))?;
                Ok(self.relayout(args.call, Layout::padded(shape, integer(1)?)))
            }
            "row_major" => {
                most(1)?;
                let shape = of(0).and_then(Value::tuple).ok_or_else(|| need(0, "a shape"))?;
                Ok(self.relayout(args.call, Layout::row_major(shape)))
            }
            "swizzled" => {
                most(4)?;
                let small = |n: usize| u32::try_from(integer(n)?).map_err(|_| need(n, "a small integer"));
                let shift = i32::try_from(integer(2)?).map_err(|_| need(2, "a small integer"))?;
                let (bits, base) = (small(0)?, small(1)?);
                let swizzle = Swizzle::new(bits, base, shift)?;
                Ok(Value::Layout(Composed::new(swizzle, 0, layout(3)?)))
            }
            "composition" => Ok(self.relayout(args.call, layout(0)?.composition(tiler(1)?))),
            "logical_divide" => Ok(self.relayout(args.call, layout(0)?.logical_divide(tiler(1)?))),
            "zipped_divide" => Ok(self.relayout(args.call, layout(0)?.zipped_divide(tiler(1)?))),
            "blocked_product" => Ok(self.relayout(args.call, layout(0)?.blocked_product(&layout(1)?))),
            "raked_product" => Ok(self.relayout(args.call, layout(0)?.raked_product(&layout(1)?))),
            "coalesce" => Ok(self.relayout(args.call, Ok(layout(0)?.coalesce()))),
            "ceil_div" => {
                most(2)?;
                match (of(0), of(1)) {
                    (Some(Value::Int(n)), Some(Value::Int(by))) if *by > 0 => {
                        Ok(Value::Int(n.div_euclid(*by) + i64::from(n.rem_euclid(*by) != 0)))
                    }
                    (Some(Value::Size(size)), Some(Value::Int(by))) if size.ceil_div(*by).is_some() => {
                        size.ceil_div(*by).map(Value::Size).ok_or_else(wrong)
                    }
                    (Some(n), Some(by)) if self.is_integer(n) && self.is_integer(by) => {
                        let n = self.read(n.clone(), args.span(0));
                        let by = self.read(by.clone(), args.span(1));
                        self.quotient_up(&n, &by).ok_or_else(|| need(1, "a positive integer"))
                    }
                    (Some(n), _) if self.is_integer(n) => Err(need(1, "an integer")),
                    _ => Err(need(0, "an integer or a size")),
                }
            }
            "min" | "max" => {
                most(2)?;
                let smaller = args.name == "min";
                match (of(0), of(1)) {
                    (Some(Value::Int(x)), Some(Value::Int(y))) => {
                        Ok(Value::Int(if smaller { *x.min(y) } else { *x.max(y) }))
                    }
                    (Some(x), Some(y)) if !self.in_closure && self.is_integer(x) && self.is_integer(y) => {
                        let x = self.read(x.clone(), args.span(0));
                        let y = self.read(y.clone(), args.span(1));
                        let with = if smaller { Arith::Min } else { Arith::Max };
                        match self.extreme(with, &x, &y) {
                            Some(made) => Ok(made),
                            None => {
                                let f = if smaller { Bin::Min } else { Bin::Max };
                                typing::bin(f, number(0)?, number(1)?).map(Value::Number)
                            }
                        }
                    }
                    _ => {
                        let f = if smaller { Bin::Min } else { Bin::Max };
                        typing::bin(f, number(0)?, number(1)?).map(Value::Number)
                    }
                }
            }
            "fma" => {
                most(3)?;
                typing::fma(number(0)?, number(1)?, number(2)?).map(Value::Number)
            }
            "select" => {
                most(3)?;
                typing::pick(number(0)?, number(1)?, number(2)?).map(Value::Number)
            }
            "unroll" | "pipelined" => {
                let problem = format!("`{}` stands in front of a loop's range", args.name);
                Err(Problem::new(problem).help(args.usage()))
            }
            "bits" => {
                most(1)?;
                let to = self.type_argument(types, args)?;
                typing::bits(to, number(0)?).map_err(|problem| problem.arg(0)).map(Value::Number)
            }
            function => {
                let value = match function::of(function) {
                    function::Kind::One(f) => typing::un(f, {
                        most(1)?;
                        number(0)?
                    }),
                    function::Kind::Two(f) => typing::bin(
                        f,
                        {
                            most(2)?;
                            number(0)?
                        },
                        number(1)?,
                    ),
                    function::Kind::Made(make) => function::wide(
                        function,
                        {
                            most(1)?;
                            number(0)?
                        },
                        make,
                    ),
                };
                value.map(Value::Number)
            }
        }
    }

    pub(super) fn type_argument(&mut self, types: &[Name], args: &Args) -> Result<Elem, Problem> {
        let [name] = types else {
            return Err(Problem::new(format!("`{}` needs an element type", args.name)).help(args.usage()));
        };
        self.elem(name).ok_or_else(Problem::said)
    }

    pub(super) fn method(&mut self, receiver: &Expr, method: &Name, args: &[Arg], span: Span) -> Value {
        let naming = std::mem::take(&mut self.naming);
        let of = self.operand(receiver);
        let values: Vec<Value> = args.iter().map(|arg| self.expr(&arg.value)).collect();
        if matches!(of, Value::Poison) || values.iter().any(|v| matches!(v, Value::Poison)) {
            return Value::Poison;
        }
        let layout = match &of {
            Value::View(view) => Some(view.layout.clone()),
            Value::Layout(layout) => Some(layout.layout().clone()),
            _ => None,
        };
        match (method.text.as_str(), layout, &values[..]) {
            ("size", Some(layout), [Value::Int(mode)]) => {
                let rank = layout.rank();
                let mode = usize::try_from(*mode).ok().and_then(|mode| layout.modes().nth(mode));
                match mode {
                    Some(mode) => match (mode.size(), &mode.leaves().collect::<Vec<_>>()[..]) {
                        (Ok(n), _) => Value::Int(n),
                        (_, [(extent, _)]) => Value::Size(*extent),
                        (Err(error), _) => self.complain(span, error.into()),
                    },
                    None => {
                        let problem = Problem::new(format!("{} has the modes 0..{rank}", of.kind()));
                        let help = "modes are counted from 0";
                        self.complain(args[0].value.span, problem.help(help))
                    }
                }
            }
            ("size", Some(layout), []) => match layout.size() {
                Ok(n) => Value::Int(n),
                Err(error) => self.complain(span, error.into()),
            },
            ("cosize", Some(layout), []) if matches!(of, Value::Layout(_)) => match layout.cosize() {
                Ok(n) => Value::Int(n),
                Err(error) => self.complain(span, error.into()),
            },
            (_, None, _) if matches!(of, Value::Mma(_)) => {
                let names = args.iter().filter_map(|arg| arg.name.as_ref());
                if let Some(name) = names.into_iter().find(|name| name.text != "how") {
                    let problem =
                        Problem::new(format!("`{}` has no argument named `{}`", method.text, name.text));
                    return self.complain(
                        name.span,
                        problem.help("write mma.partition_a(sa, thread.x, how = \"ldmatrix_x4\")"),
                    );
                }
                let spans: Vec<Span> = args.iter().map(|arg| arg.value.span).collect();
                self.of_mma(&of, method, &values, &spans, naming.first().map_or("acc", String::as_str), span)
            }
            ("along", _, [Value::Int(mode)]) if matches!(of, Value::View(_)) => {
                self.along(&of, *mode, span, args[0].value.span)
            }
            ("rank", Some(layout), []) => Value::Int(layout.rank() as i64),
            ("shape", Some(layout), []) => Value::from(layout.shape()),
            (name, ..) => {
                let problem =
                    Problem::new(format!("{} has no method `{name}` with these arguments", of.kind()));
                self.complain(method.span, problem.help(advice::method(name, &of)))
            }
        }
    }
}

/// A tile's extents are positive, and known while compiling.
fn tile_extents(shape: &Value) -> Result<(), Problem> {
    match shape {
        Value::Int(n) if *n < 1 => Err(Problem::new(format!("a tile has the extent {n}"))
            .help("write one of at least 1, or `_` for the whole mode")
            .arg(1)),
        Value::Size(size) => Err(advice::known_at_launch("a tile", size).arg(1)),
        Value::Tuple(items) => items.iter().try_for_each(tile_extents),
        _ => Ok(()),
    }
}
