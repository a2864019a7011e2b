//! The model as launches of kernels, on whatever runs them.

use std::collections::HashMap;

use tilewright::kernels::models::attention_forward::attention_forward;
use tilewright::kernels::models::{embed, experts, gated, gated_gemm, paged, rms_norm, sample, weights};
use tilewright::prelude::*;
use tilewright::{Elem, KernelDef};

use crate::Result;
use crate::engine::{Backend, Batch, Choice, PAGE};
use crate::launch::{Launch, Runner, Value, bytes, numbers};
use crate::model::{Config, Experts, Model};
use crate::random;
use crate::weights::{Format, Matrix};

/// Most sequences, and most tokens of a step.
const SEQUENCES: usize = 64;
pub const CHUNK: usize = 4096;
/// Most steps of a graph: the host is waited for once.
const STEPS: usize = 8;
/// Blocks of attention that fill a GPU, most parts of a sequence, and keys that a block reads at once.
const BLOCKS: usize = 264;
const MOST_PARTS: usize = 64;
const KEYS: usize = 32;
/// Rows of a tile of experts, for their mean number of rows.
const EXPERT_ROWS: [(usize, usize); 3] = [(12, 16), (512, 64), (usize::MAX, 96)];

/// y = a·wᵀ in 16 bits, and y = alpha·a·wᵀ + beta·y in f32.
const STORE: MatmulKernel<f16> = matmul_kernel!(dtype = f16, a = k_major, b = k_major, c = n_major);
const ADD: MatmulKernel<f16> =
    matmul_kernel!(dtype = f16, out = f32, a = k_major, b = k_major, c = n_major, alpha_beta = true);

#[kernel(T = f16)]
fn copied<T>(x: &Tensor<T, N>, y: &mut Tensor<T, N>) {
    copy(tile(x, 2048, block.x), tile(y, 2048, block.x));
}

/// Weights in buffers.
struct Weights {
    format: Format,
    rows: usize,
    columns: usize,
    /// Numbers or codes; scales and offsets of each 32 of a row, column after column.
    buffers: Vec<usize>,
}

/// What becomes of a product: it is stored in 16 bits, added to numbers of f32, or stored in f32.
#[derive(Clone, Copy, Debug)]
enum To {
    Half,
    Sum,
    Single,
}

struct Layer {
    norms: [usize; 2],
    qkv: Weights,
    output: Weights,
    router: Option<Weights>,
    gate_up: Weights,
    down: Weights,
    pages: [usize; 2],
}

/// What launches need of a model.
struct Plan {
    config: Config,
    pages: usize,
    chunk: usize,
    layers: Vec<Layer>,
    embedding: Weights,
    head: Option<Weights>,
    norm: usize,
    buffers: HashMap<&'static str, usize>,
    kernels: HashMap<String, usize>,
}

/// A model on a runner.
pub struct Kernels<R> {
    runner: R,
    plan: Plan,
    /// What buffers of inputs have.
    written: HashMap<&'static str, Vec<u32>>,
}

/// Tokens of a step.
#[derive(Clone)]
struct Step<'a> {
    count: usize,
    /// The rows whose logits are wanted.
    wanted: &'a [usize],
    /// Of prompts: the first row and position of each sequence, and its number of rows.
    prompts: Vec<[usize; 3]>,
    /// Into how many parts the keys of each sequence are divided.
    parts: usize,
    /// How many steps of the graph come before.
    before: usize,
}

/// The numbers in f16 at byte `at` of each block of 32, column after column.
fn block_numbers(matrix: &Matrix, at: usize) -> Vec<u8> {
    let (blocks, size) = (matrix.columns / 32, matrix.format.block().1);
    let first = |block: usize, row: usize| row * matrix.row_bytes() + block * size + at;
    let number = |block| (0..matrix.rows).flat_map(move |row| [0, 1].map(|of| first(block, row) + of));
    (0..blocks).flat_map(number).map(|at| matrix.bytes[at]).collect()
}

impl Weights {
    fn new(runner: &mut impl Runner, matrix: &Matrix) -> Result<Weights> {
        let &Matrix { format, rows, columns, .. } = matrix;
        let blocks = || matrix.bytes.chunks_exact(format.block().1);
        let buffers = if matrix.bytes.is_empty() {
            random::weights(runner, format, rows * columns)?
        } else {
            let data = match format {
                Format::F16 => vec![(Elem::F16, matrix.bytes.clone())],
                Format::F32 | Format::Bf16 => {
                    vec![(Elem::F16, bytes(matrix.to_f32().into_iter().map(f16::from_f32)))]
                }
                Format::Q8 => {
                    let codes = blocks().flat_map(|of| of[2..].iter().copied());
                    vec![(Elem::I8, codes.collect()), (Elem::F16, block_numbers(matrix, 0))]
                }
                Format::Q4 => {
                    let code =
                        |of: &[u8], at: usize| if at < 16 { of[4 + at] & 15 } else { of[4 + at - 16] >> 4 };
                    // The first of both elements of a byte, in the order of `linear_q4`.
                    let first = |byte: usize| byte / 2 % 2 * 16 + byte % 2 * 8 + byte / 4 * 2;
                    let both = move |of, at| code(of, at) | (code(of, at + 1) << 4);
                    let pairs = |of| (0..16).map(move |byte| both(of, first(byte)));
                    let numbers = [0, 2].map(|at| (Elem::F16, block_numbers(matrix, at)));
                    [(Elem::U8, blocks().flat_map(pairs).collect())].into_iter().chain(numbers).collect()
                }
            };
            data.into_iter().map(|(elem, bytes)| runner.buffer(elem, &bytes)).collect::<Result<_>>()?
        };
        Ok(Weights { format: format.on_device(), rows, columns, buffers })
    }

    /// The arguments of some rows: scales and offsets by columns.
    fn args(&self, rows: std::ops::Range<usize>) -> Vec<Value> {
        let width = if self.format == Format::Q4 { self.columns / 2 } else { self.columns };
        let narrow = |buffer: &usize| {
            Value::tensor(*buffer, &[rows.len(), self.columns / 32], &[1, self.rows]).from(rows.start)
        };
        let numbers = Value::rows(self.buffers[0], rows.len(), width).from(rows.start * width);
        [numbers].into_iter().chain(self.buffers[1..].iter().map(narrow)).collect()
    }
}

impl Plan {
    fn launch(&self, kernel: &str, args: impl Into<Vec<Value>>) -> Launch {
        Launch { kernel: self.kernels[kernel], args: args.into() }
    }

    /// Rows of a buffer.
    fn rows(&self, buffer: &str, rows: usize, columns: usize) -> Value {
        Value::tensor(self.buffers[buffer], &[rows, columns], &[columns, 1])
    }

    fn vector(&self, buffer: &str, count: usize) -> Value {
        Value::vector(self.buffers[buffer], count)
    }

    /// A product of rows by weights.
    fn linear(&self, weights: &Weights, a: &str, y: &str, count: usize, to: To) -> Launch {
        let mut args = vec![self.rows(a, count, weights.columns)];
        args.extend(weights.args(0..weights.rows));
        args.push(self.rows(y, count, weights.rows).written());
        if weights.format == Format::F16 {
            match to {
                To::Half => {}
                To::Sum => args.extend([1.0, 1.0].map(Value::Number)),
                To::Single => args.extend([1.0, 0.0].map(Value::Number)),
            }
        }
        self.launch(&format!("{:?} {to:?}", weights.format), args)
    }

    /// Normalises rows from `from` on, to rows from `to` on.
    fn normed(&self, weights: usize, from: usize, to: usize, count: usize) -> Launch {
        let width = self.config.width;
        let x = self.rows("x", count, width).from(from * width);
        let y = self.rows("normed", count, width).from(to * width).written();
        self.launch("norm", [Value::Number(self.config.epsilon), x, Value::vector(weights, width), y])
    }

    /// Into how many parts the keys of each sequence are divided, so that few sequences fill a GPU too: a power of two.
    fn parts(&self, count: usize, longest: usize) -> usize {
        let most = (BLOCKS / (count * self.config.kv_heads)).clamp(1, MOST_PARTS);
        1 << most.min(longest.div_ceil(KEYS)).max(1).ilog2()
    }

    /// Tokens, positions or rows of the table, of these rows of a step.
    fn input(&self, step: &Step, at: usize, rows: std::ops::Range<usize>) -> Value {
        let (buffer, part) = match (at, step.before) {
            _ if !step.prompts.is_empty() => ("prompts", at * self.chunk),
            (_, 0) | (2, _) => ("newest", at * SEQUENCES),
            (0, before) => ("chosen", (before - 1) * SEQUENCES),
            (_, before) => ("newest", (2 + before) * SEQUENCES),
        };
        self.vector(buffer, rows.len()).from(part + rows.start)
    }

    /// The attention of a layer, from queries, keys and values to `attended`.
    fn attention(&self, layer: &Layer, step: &Step, all: &mut Vec<Launch>) {
        let Config { heads, kv_heads, head, context, .. } = self.config;
        let ([queries, keys], count) = (self.config.widths(), step.count);
        let (width, group) = (queries + 2 * keys, heads / kv_heads);
        let table = self.rows("table", SEQUENCES, context.div_ceil(PAGE));
        let tokens =
            |rows: std::ops::Range<usize>| [1, 2].map(|at| self.input(step, at, rows.clone())).to_vec();
        let stored = layer
            .pages
            .map(|of| Value::tensor(of, &[self.pages, PAGE, kv_heads, head], &[PAGE * keys, keys, head, 1]));
        let by_heads = |buffer: &str, count, heads, width| {
            Value::tensor(self.buffers[buffer], &[count, heads, head], &[width, head, 1])
        };
        let angles = ["cosines", "sines"].map(|of| self.rows(of, context, head / 2));
        let (qkv, stores) =
            (by_heads("qkv", count, heads + 2 * kv_heads, width), stored.clone().map(Value::written));
        let args = [&tokens(0..count)[..], std::slice::from_ref(&table), &angles, &[qkv.written()], &stores]
            .concat();
        all.push(self.launch(if step.prompts.is_empty() { "rotate" } else { "rotate prompts" }, args));
        let scale = Value::Number(1.0 / (head as f32).sqrt());
        if step.prompts.is_empty() {
            let grouped = |buffer: &str, width| {
                let strides = [width, group * head, head, 1];
                Value::tensor(self.buffers[buffer], &[count, kv_heads, group, head], &strides)
            };
            let parts = |of: &str, extents: &[usize]| Value::columns(self.buffers[of], extents).written();
            let parts = [
                parts("results", &[head, group, kv_heads, count, step.parts]),
                parts("sums", &[group, step.parts, kv_heads, count, 2]),
                parts("arrived", &[kv_heads, count]),
            ];
            let (q, out) = (grouped("qkv", width), grouped("attended", queries).written());
            let args = [&[scale], &tokens(0..count)[..], &[table, q], &stored, &parts, &[out]].concat();
            return all.push(self.launch("attend", args));
        }
        for [row, position, count] in step.prompts.iter().copied() {
            // A prompt without keys in pages has all of its keys in this step.
            all.push(if position == 0 && self.kernels.contains_key("forward") {
                let rows = |buffer: &str, from: usize, heads, width| {
                    let strides = [width, 1, head, count * width];
                    let rows = Value::tensor(self.buffers[buffer], &[count, head, heads, 1], &strides);
                    rows.from(row * width + from)
                };
                let qkv = [(0, heads), (queries, kv_heads), (queries + keys, kv_heads)];
                let qkv = qkv.map(|(from, heads)| rows("qkv", from, heads, width));
                let numbers = [scale.clone(), Value::Integer(0), Value::Number(1.0)];
                let out = rows("attended", 0, heads, queries).written();
                self.launch("forward", [&numbers[..], &qkv, &[out]].concat())
            } else {
                let q = by_heads("qkv", count, heads, width).from(row * width);
                let out = by_heads("attended", count, heads, queries).from(row * queries).written();
                let own = tokens(row..row + count);
                self.launch(
                    "prefill",
                    [std::slice::from_ref(&scale), &own[..], &[table.clone(), q], &stored, &[out]].concat(),
                )
            });
        }
    }

    /// The feed-forward part of a layer, from `normed` to the residual stream.
    fn feed_forward(&self, layer: &Layer, count: usize, all: &mut Vec<Launch>) {
        let hidden = self.config.hidden;
        if let (Some(experts), Some(router)) = (self.config.experts, &layer.router) {
            return self.experts(layer, router, experts, count, all);
        }
        if layer.gate_up.format == Format::F16 && self.kernels.contains_key("gated_gemm") {
            let halves = [0..hidden, hidden..2 * hidden].map(|rows| layer.gate_up.args(rows).remove(0));
            let (x, y) = (self.rows("normed", count, self.config.width), self.rows("gated", count, hidden));
            all.push(self.launch("gated_gemm", [&[x], &halves[..], &[y.written()]].concat()));
        } else {
            all.push(self.linear(&layer.gate_up, "normed", "gate_up", count, To::Half));
            all.push(self.gate(count));
        }
        all.push(self.linear(&layer.down, "gated", "x", count, To::Sum));
    }

    /// silu(gate)·up of rows that have both.
    fn gate(&self, count: usize) -> Launch {
        let hidden = self.config.hidden;
        let both = Value::tensor(self.buffers["gate_up"], &[count, hidden, 2], &[2 * hidden, 1, hidden]);
        self.launch("gate", [both, self.rows("gated", count, hidden).written()])
    }

    /// Each token's experts. Pairs of tokens and experts are rows, in the order of experts.
    fn experts(&self, layer: &Layer, router: &Weights, of: Experts, count: usize, all: &mut Vec<Launch>) {
        let (width, pairs) = (self.config.width, count * of.used);
        let by_token = |buffer| self.rows(buffer, count, of.used);
        let (rows, offsets) = (self.vector("slots", pairs), self.vector("offsets", of.count + 1));
        all.push(self.linear(router, "normed", "routes", count, To::Single));
        let routes = self.rows("routes", count, of.count);
        all.push(self.launch("route", [routes, by_token("experts").written(), by_token("shares").written()]));
        let args = [self.vector("experts", pairs), rows.clone().written(), offsets.clone().written()];
        all.push(self.launch("arrange", args));
        let args = [rows, self.rows("normed", count, width), self.rows("spread", pairs, width).written()];
        all.push(self.launch("spread", args));
        let tile =
            EXPERT_ROWS.iter().find(|(most, _)| pairs / of.count <= *most).map_or(16, |(_, rows)| *rows);
        let tiles = self.rows("tiles", (pairs / tile + of.count).min(pairs), 3);
        all.push(self.launch(&format!("tiles {tile}"), [offsets, tiles.clone().written()]));
        let product = |x: &str, w: &Weights, y: &str| {
            let (n, k) = (w.rows / of.count, w.columns);
            let weights = Value::tensor(w.buffers[0], &[of.count, n, k], &[n * k, k, 1]);
            let (x, y) = (self.rows(x, pairs, k), self.rows(y, pairs, n).written());
            self.launch(&format!("experts {tile}"), [tiles.clone(), x, weights, y])
        };
        all.push(product("spread", &layer.gate_up, "gate_up"));
        all.push(self.gate(pairs));
        all.push(product("gated", &layer.down, "outputs"));
        let (y, x) = (self.rows("outputs", pairs, width), self.rows("x", count, width).written());
        all.push(self.launch("combine", [by_token("slots"), by_token("shares"), y, x]));
    }

    /// The launches of a step.
    fn launches(&self, step: &Step) -> Vec<Launch> {
        let (width, count) = (self.config.width, step.count);
        let mut args = vec![self.input(step, 0, 0..count)];
        args.extend(self.embedding.args(0..self.embedding.rows));
        args.push(self.rows("x", count, width).written());
        let mut all = vec![self.launch("embed", args)];
        for layer in &self.layers {
            all.push(self.normed(layer.norms[0], 0, 0, count));
            all.push(self.linear(&layer.qkv, "normed", "qkv", count, To::Half));
            self.attention(layer, step, &mut all);
            all.push(self.linear(&layer.output, "attended", "x", count, To::Sum));
            all.push(self.normed(layer.norms[1], 0, 0, count));
            self.feed_forward(layer, count, &mut all);
        }
        if step.prompts.is_empty() {
            all.push(self.normed(self.norm, 0, 0, count));
        } else {
            let rows = step.wanted.iter().enumerate();
            all.extend(rows.map(|(to, from)| self.normed(self.norm, *from, to, 1)));
        }
        let rows = step.wanted.len();
        if rows > 0 {
            let head = self.head.as_ref().unwrap_or(&self.embedding);
            all.push(self.linear(head, "normed", "logits", rows, To::Single));
            let choice = |at: usize| self.vector("choices", rows).from(at * SEQUENCES);
            let logits = self.rows("logits", rows, head.rows);
            let chosen = self.vector("chosen", rows).from(step.before * SEQUENCES).written();
            let args = [choice(0), choice(1), choice(2 + step.before), logits, chosen];
            all.push(self.launch("sample", args));
        }
        all
    }
}

impl<R: Runner> Kernels<R> {
    /// Moves a model to a runner, with memory for this number of pages, and for steps of this number of tokens.
    pub fn new(mut runner: R, model: &Model, pages: usize, chunk: usize) -> Result<Kernels<R>> {
        let config = model.config;
        if config.heads / config.kv_heads > 16 || config.width > 8192 || model.embedding.rows > 262_137 {
            return Err(format!(
                "kernels have at most 16 heads for a head of keys, 8192 columns and 262137 tokens: {config:?}"
            )
            .into());
        }
        let mut layers = Vec::new();
        for layer in &model.layers {
            let mut norm = |norm: &[f32]| runner.buffer(Elem::F32, &bytes(norm.iter().copied()));
            let norms = [norm(&layer.attention_norm)?, norm(&layer.ffn_norm)?];
            let mut page = || runner.zeros(Elem::F16, pages * PAGE * config.widths()[1]);
            let pages = [page()?, page()?];
            let mut weights = |matrix| Weights::new(&mut runner, matrix);
            layers.push(Layer {
                norms,
                qkv: weights(&layer.qkv)?,
                output: weights(&layer.output)?,
                router: layer.router.as_ref().map(&mut weights).transpose()?,
                gate_up: weights(&layer.gate_up)?,
                down: weights(&layer.down)?,
                pages,
            });
        }
        let embedding = Weights::new(&mut runner, &model.embedding.halved())?;
        let head = model.head.as_ref().map(|head| Weights::new(&mut runner, head)).transpose()?;
        let norm = runner.buffer(Elem::F32, &bytes(model.norm.iter().copied()))?;
        let (buffers, kernels) = (buffers(&mut runner, model, chunk)?, kernels(&mut runner, model)?);
        let plan = Plan { config, pages, chunk, layers, embedding, head, norm, buffers, kernels };
        Ok(Kernels { runner, plan, written: HashMap::new() })
    }

    /// Writes a buffer, unless it has these words.
    fn write(&mut self, buffer: &'static str, words: Vec<u32>) -> Result<()> {
        if self.written.get(buffer) != Some(&words) {
            self.runner.write(self.plan.buffers[buffer], &bytes(words.iter().copied()))?;
            self.written.insert(buffer, words);
        }
        Ok(())
    }

    /// Runs steps. Later ones read the tokens that the step before has chosen. Logits of the last one and samples are in buffers.
    fn run(&mut self, batch: &Batch, steps: usize) -> Result<()> {
        let (count, pages) = (batch.tokens.len(), self.plan.config.context.div_ceil(PAGE));
        let is_prompt = count > batch.tables.len() || batch.wanted.len() < count;
        if count > self.plan.chunk.max(SEQUENCES) || batch.tables.len() > SEQUENCES {
            return Err(
                format!("a step has at most {} tokens of {SEQUENCES} sequences", self.plan.chunk).into()
            );
        }
        let (buffer, most) = if is_prompt { ("prompts", self.plan.chunk) } else { ("newest", SEQUENCES) };
        let padded = |all: &[u32], length: usize| [all, &vec![0; length - all.len()]].concat();
        let sequences: Vec<u32> = batch.sequences.iter().map(|of| *of as u32).collect();
        let mut inputs = [&batch.tokens, &batch.positions, &sequences].map(|of| padded(of, most)).concat();
        for step in 1..if is_prompt { 1 } else { STEPS as u32 } {
            let positions: Vec<u32> = batch.positions.iter().map(|of| of + step).collect();
            inputs.extend(padded(&positions, most));
        }
        self.write(buffer, inputs)?;
        let table: Vec<u32> = batch.tables.iter().flat_map(|of| padded(of, pages)).collect();
        self.write("table", padded(&table, SEQUENCES * pages))?;
        let longest = batch.positions.iter().max().map_or(0, |last| *last as usize + steps);
        let mut prompts: Vec<[usize; 3]> = Vec::new();
        for (row, sequence) in batch.sequences.iter().enumerate().filter(|_| is_prompt) {
            match prompts.last_mut() {
                Some([.., count]) if batch.sequences[row - 1] == *sequence => *count += 1,
                _ => prompts.push([row, batch.positions[row] as usize, 1]),
            }
        }
        let (parts, wanted) = (self.plan.parts(count, longest), &batch.wanted[..]);
        let first = Step { count, wanted, prompts, parts, before: 0 };
        let launches = |before| self.plan.launches(&Step { before, ..first.clone() });
        // Each number of sequences, of parts and of steps has one graph.
        let graph = (!is_prompt).then_some([count, parts, steps]);
        self.runner.run(graph, &|| (0..steps).flat_map(launches).collect())
    }
}

/// Buffers of a step, by their names: f32 for the residual stream, f16 for operands of products.
fn buffers(runner: &mut impl Runner, model: &Model, chunk: usize) -> Result<HashMap<&'static str, usize>> {
    let (config, tokens) = (&model.config, chunk.max(SEQUENCES));
    let [queries, keys] = config.widths();
    let Config { width, hidden, heads, kv_heads, head, context, experts, .. } = *config;
    let (rows, experts) = (tokens * experts.map_or(1, |of| of.used), experts.map_or(0, |of| of.count));
    let blocks = BLOCKS.max(SEQUENCES * kv_heads) * (heads / kv_heads);
    // Numbers of a row for each pair of a token and an expert.
    let routed = |width| if experts > 0 { rows * width } else { 0 };
    let sizes = [
        ("x", Elem::F32, tokens * width),
        ("normed", Elem::F16, tokens * width),
        ("qkv", Elem::F16, tokens * (queries + 2 * keys)),
        ("attended", Elem::F16, tokens * queries),
        ("gate_up", Elem::F16, 2 * rows * hidden),
        ("gated", Elem::F16, rows * hidden),
        ("logits", Elem::F32, SEQUENCES * model.embedding.rows),
        // Tokens, positions and rows of the table.
        ("prompts", Elem::I32, 3 * chunk),
        // The same, and positions of further steps.
        ("newest", Elem::I32, (2 + STEPS) * SEQUENCES),
        ("table", Elem::I32, SEQUENCES * context.div_ceil(PAGE)),
        // Attention by parts: results, maxima and sums, and how many parts have arrived.
        ("results", Elem::F32, blocks * head),
        ("sums", Elem::F32, 2 * blocks),
        ("arrived", Elem::I32, SEQUENCES * kv_heads),
        // Temperatures, top-p, random numbers of each step, and the tokens of each.
        ("choices", Elem::F32, (2 + STEPS) * SEQUENCES),
        ("chosen", Elem::I32, STEPS * SEQUENCES),
        ("routes", Elem::F32, tokens * experts),
        ("experts", Elem::I32, routed(1)),
        ("shares", Elem::F32, routed(1)),
        ("slots", Elem::I32, routed(1)),
        ("offsets", Elem::I32, experts + 1),
        ("tiles", Elem::I32, 3 * (routed(1) / 16 + experts)),
        ("spread", Elem::F16, routed(width)),
        ("outputs", Elem::F16, routed(width)),
    ];
    let [cosines, sines] = model.rotations();
    let angles = [("cosines", cosines), ("sines", sines)];
    let angles = angles.map(|(name, of)| Ok((name, runner.buffer(Elem::F32, &bytes(of))?)));
    let zeros = sizes.into_iter().map(|(name, elem, count)| Ok((name, runner.zeros(elem, count.max(1))?)));
    angles.into_iter().chain(zeros).collect()
}

/// The kernels of a model, by their names.
pub fn kernels(runner: &mut impl Runner, model: &Model) -> Result<HashMap<String, usize>> {
    let config = &model.config;
    let sizes = [("G", config.heads / config.kv_heads), ("D", config.head), ("P", PAGE)];
    let is_hopper = runner.is_hopper();
    let (embedding, mut all) = (model.embedding.halved().format.on_device(), HashMap::new());
    let mut add = |name: &str, def: &KernelDef| -> Result<()> {
        if !all.contains_key(name) {
            all.insert(name.to_owned(), runner.kernel(def)?);
        }
        Ok(())
    };
    let layers = model.layers.iter().flat_map(|of| [&of.qkv, &of.output, &of.gate_up, &of.down]);
    let layers = layers.chain(model.head.iter()).chain(model.layers.iter().flat_map(|of| &of.router));
    for format in layers.map(|of| of.format.on_device()).chain([embedding]) {
        let [half, sum, single] = [To::Half, To::Sum, To::Single].map(|to| format!("{format:?} {to:?}"));
        match format {
            Format::Q8 => {
                add(&half, weights::linear_q8().def())?;
                add(&sum, weights::linear_q8!(Y = f32, ADD = 1).def())?;
                add(&single, weights::linear_q8!(Y = f32).def())?;
            }
            Format::Q4 if is_hopper => {
                add(&half, weights::linear_q4_hopper().def())?;
                add(&sum, weights::linear_q4_hopper!(Y = f32, ADD = 1).def())?;
                add(&single, weights::linear_q4_hopper!(Y = f32).def())?;
            }
            Format::Q4 => {
                add(&half, weights::linear_q4().def())?;
                add(&sum, weights::linear_q4!(Y = f32, ADD = 1).def())?;
                add(&single, weights::linear_q4!(Y = f32).def())?;
            }
            _ => {
                add(&half, STORE.def())?;
                add(&sum, ADD.def())?;
                add(&single, ADD.def())?;
            }
        }
    }
    match embedding {
        Format::Q8 => add("embed", embed::embed_q8().def())?,
        _ => add("embed", embed::embed().def())?,
    }
    add("copy", copied().def())?;
    add("norm", rms_norm::rms_norm().def())?;
    add("rotate", paged::rotate_and_store().specialize(&sizes)?.def())?;
    let all_heads = [&sizes[..], &[("H", config.kv_heads)]].concat();
    add("rotate prompts", paged::rotate_and_store().specialize(&all_heads)?.def())?;
    add("attend", paged::paged_attention().specialize(&sizes)?.def())?;
    add("prefill", paged::paged_prefill().specialize(&sizes)?.def())?;
    add("gate", gated::gated!(T = f16).def())?;
    add("sample", sample::sample_top_p!(T = f32, top_k = None).def())?;
    let is_half = model.layers.iter().any(|of| of.gate_up.format.on_device() == Format::F16);
    if is_hopper && is_half && config.experts.is_none() {
        add("gated_gemm", gated_gemm::gated_gemm!(T = f16).def())?;
    }
    if is_hopper && [64, 128, 256].contains(&config.head) {
        let forward = attention_forward!(T = f16, CAUSAL = 1, sinks = None, lse = None);
        add("forward", forward.specialize(&[("D", config.head)])?.def())?;
    }
    if let Some(Experts { used, count }) = config.experts {
        let used = [("USED", used)];
        add("route", experts::route_tokens().specialize(&used)?.def())?;
        add("arrange", experts::arrange_pairs().def())?;
        add("spread", experts::spread_rows!(T = f16).specialize(&used)?.def())?;
        add("combine", experts::combine_rows!(T = f16).specialize(&used)?.def())?;
        for (_, rows) in EXPERT_ROWS {
            let most = (count + 1).next_power_of_two();
            let plan = experts::expert_tiles().specialize(&[("BM", rows), ("MOST", most)])?;
            add(&format!("tiles {rows}"), plan.def())?;
            add(&format!("experts {rows}"), experts::experts!(T = f16).specialize(&[("BM", rows)])?.def())?;
        }
    }
    Ok(all)
}

impl<R: Runner> Backend for Kernels<R> {
    fn config(&self) -> &Config {
        &self.plan.config
    }

    fn vocabulary(&self) -> usize {
        self.plan.embedding.rows
    }

    fn pages(&self) -> usize {
        self.plan.pages
    }

    fn grow(&mut self, pages: usize) -> Result<()> {
        let (count, size) = (self.runner.buffers(), PAGE * self.plan.config.widths()[1]);
        for _ in 0..2 * self.plan.layers.len() {
            if let Err(why) = self.runner.zeros(Elem::F16, pages * size) {
                self.runner.truncate(count);
                return Err(why);
            }
        }
        let old = self.plan.layers.iter().flat_map(|layer| layer.pages);
        for (at, old) in old.enumerate().collect::<Vec<_>>().into_iter().rev() {
            let [from, to] = [old, count + at].map(|buffer| Value::vector(buffer, self.plan.pages * size));
            let copy = self.plan.launch("copy", [from, to.written()]);
            self.runner.run(None, &|| vec![copy.clone()])?;
            self.runner.replace(old);
        }
        self.plan.pages = pages;
        Ok(())
    }

    fn limits(&self) -> [usize; 2] {
        [SEQUENCES, self.plan.chunk]
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<f32>> {
        self.run(batch, 1)?;
        if batch.wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut logits = numbers(&self.runner.read(self.plan.buffers["logits"])?);
        logits.truncate(batch.wanted.len() * self.vocabulary());
        Ok(logits)
    }

    fn most_steps(&self) -> usize {
        STEPS
    }

    fn choose(&mut self, batch: &Batch, choices: &[Choice]) -> Result<Vec<u32>> {
        let rows = batch.wanted.len().max(1);
        let mut all = vec![0; (2 + STEPS) * SEQUENCES];
        for (step, choices) in choices.chunks(rows).enumerate() {
            for (at, Choice { temperature, top_p, random }) in choices.iter().enumerate() {
                for (part, number) in [(0, temperature), (1, top_p), (2 + step, random)] {
                    all[part * SEQUENCES + at] = number.to_bits();
                }
            }
        }
        self.write("choices", all)?;
        self.run(batch, (choices.len() / rows).max(1))?;
        if choices.is_empty() {
            return Ok(Vec::new());
        }
        let tokens: Vec<i32> = numbers(&self.runner.read(self.plan.buffers["chosen"])?);
        let steps = tokens.chunks(SEQUENCES).take(choices.len() / rows);
        Ok(steps.flat_map(|step| &step[..rows]).map(|token| token.cast_unsigned()).collect())
    }
}
