//! The model as launches of kernels, on whatever runs them.

use std::collections::HashMap;

use tilewright::kernels::models::{embed, gated, paged, rms_norm, sample, weights};
use tilewright::{KernelDef, f16};

use crate::Result;
use crate::engine::{Backend, Batch, Choice, PAGE};
use crate::launch::{Data, Launch, Runner, Value};
use crate::model::{Config, Model};
use crate::weights::{Format, Matrix};

/// Most sequences, and most tokens of a step.
const SEQUENCES: usize = 64;
const CHUNK: usize = 512;
/// Blocks of attention that fill a GPU, most parts of a sequence, and keys that a block reads at once.
const BLOCKS: usize = 264;
const MOST_PARTS: usize = 64;
const KEYS: usize = 32;

/// Weights in buffers.
struct Weights {
    format: Format,
    rows: usize,
    columns: usize,
    /// Numbers or codes; scales and offsets of each 32 of a row, column after column.
    buffers: Vec<usize>,
}

/// The kernels for a format of weights: y = a·wᵀ, x += a·wᵀ.
#[derive(Clone, Copy)]
struct Linear {
    format: Format,
    store: usize,
    add: usize,
}

struct Layer {
    norms: [usize; 2],
    qkv: Weights,
    output: Weights,
    gate_up: Weights,
    down: Weights,
    pages: [usize; 2],
}

/// Buffers of a step: f32 for the residual stream, f16 for operands of products.
struct Buffers {
    /// Tokens, their positions, the rows of the table, and the table of pages.
    inputs: usize,
    x: usize,
    normed: usize,
    qkv: usize,
    q: usize,
    attended: usize,
    gate_up: usize,
    gated: usize,
    /// By their number of rows.
    logits: HashMap<usize, usize>,
    rotations: [usize; 2],
    /// Of attention: the results of parts of sequences, their maxima and sums, and how many parts have arrived.
    parts: [usize; 3],
    /// Of samples: temperatures, top-p and random numbers, and the tokens.
    choices: usize,
    chosen: usize,
}

/// The kernels of a model, by the runner's numbers.
struct KernelIds {
    embed: usize,
    norm: usize,
    rotate: usize,
    /// Attention of the newest tokens of several sequences, and of the tokens of a prompt.
    attend: usize,
    prefill: usize,
    gate: usize,
    logits: usize,
    sample: usize,
    linear: Vec<Linear>,
}

/// A model on a runner.
pub struct Kernels<R> {
    runner: R,
    config: Config,
    pages: usize,
    layers: Vec<Layer>,
    embedding: Weights,
    head: Option<Weights>,
    norm: usize,
    buffers: Buffers,
    kernels: KernelIds,
}

fn halves(values: Vec<f32>) -> Vec<f16> {
    values.into_iter().map(f16::from_f32).collect()
}

/// The numbers in f16 at byte `at` of each block of 32, column after column.
fn block_numbers(matrix: &Matrix, at: usize) -> Data {
    let (blocks, size) = (matrix.columns / 32, matrix.format.block().1);
    let bits = |block: usize, row: usize| {
        let first = row * matrix.row_bytes() + block * size + at;
        f16::from_bits(u16::from_le_bytes([matrix.bytes[first], matrix.bytes[first + 1]]))
    };
    Data::F16((0..blocks).flat_map(|block| (0..matrix.rows).map(move |row| bits(block, row))).collect())
}

impl Weights {
    fn new(runner: &mut impl Runner, matrix: &Matrix) -> Result<Weights> {
        let &Matrix { format, rows, columns, .. } = matrix;
        let blocks = || matrix.bytes.chunks_exact(format.block().1);
        let data = match format {
            Format::F32 | Format::F16 | Format::Bf16 => vec![Data::F16(halves(matrix.to_f32()))],
            Format::Q8 => {
                let codes = blocks().flat_map(|of| of[2..].iter().map(|code| code.cast_signed()));
                vec![Data::I8(codes.collect()), block_numbers(matrix, 0)]
            }
            Format::Q4 => {
                let code =
                    |of: &[u8], at: usize| if at < 16 { of[4 + at] & 15 } else { of[4 + at - 16] >> 4 };
                // The first of both elements of a byte, in the order of `linear_q4`.
                let first = |byte: usize| byte / 2 % 2 * 16 + byte % 2 * 8 + byte / 4 * 2;
                let both = move |of, at| code(of, at) | (code(of, at + 1) << 4);
                let pairs = |of| (0..16).map(move |byte| both(of, first(byte)));
                let codes = Data::U8(blocks().flat_map(pairs).collect());
                vec![codes, block_numbers(matrix, 0), block_numbers(matrix, 2)]
            }
        };
        let buffers = data.into_iter().map(|data| runner.buffer(data)).collect::<Result<_>>()?;
        let format = if matches!(format, Format::Q8 | Format::Q4) { format } else { Format::F16 };
        Ok(Weights { format, rows, columns, buffers })
    }

    /// The arguments: scales and offsets by columns.
    fn args(&self) -> Vec<Value> {
        let width = if self.format == Format::Q4 { self.columns / 2 } else { self.columns };
        let narrow = |buffer| Value::read(buffer, [self.rows, self.columns / 32], [1, self.rows]);
        let numbers = Value::rows(self.buffers[0], self.rows, width);
        [numbers].into_iter().chain(self.buffers[1..].iter().map(|of| narrow(*of))).collect()
    }
}

impl<R: Runner> Kernels<R> {
    /// Moves a model to a runner, with memory for this number of pages.
    pub fn new(mut runner: R, model: &Model, pages: usize) -> Result<Kernels<R>> {
        let config = model.config;
        if config.heads / config.kv_heads > 16 || config.width > 8192 || model.embedding.rows > 262_137 {
            return Err(format!(
                "kernels have at most 16 heads for a head of keys, 8192 columns and 262137 tokens: {config:?}"
            )
            .into());
        }
        let [queries, keys] = config.widths();
        let layers = model.layers.iter().map(|layer| {
            let norms = [&layer.attention_norm, &layer.ffn_norm].map(|norm| Data::F32(norm.clone()));
            let [first, second] = norms;
            let stored = || Data::Zeros(pages * PAGE * keys);
            Ok(Layer {
                norms: [runner.buffer(first)?, runner.buffer(second)?],
                qkv: Weights::new(&mut runner, &layer.qkv)?,
                output: Weights::new(&mut runner, &layer.output)?,
                gate_up: Weights::new(&mut runner, &layer.gate_up)?,
                down: Weights::new(&mut runner, &layer.down)?,
                pages: [runner.buffer(stored())?, runner.buffer(stored())?],
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        let embedding = Weights::new(&mut runner, &halved(&model.embedding))?;
        let head = model.head.as_ref().map(|head| Weights::new(&mut runner, head)).transpose()?;
        let norm = runner.buffer(Data::F32(model.norm.clone()))?;
        let [cosines, sines] = model.rotations();
        let rotations = [runner.buffer(Data::F32(cosines))?, runner.buffer(Data::F32(sines))?];
        let inputs = 3 * CHUNK + SEQUENCES * config.context.div_ceil(PAGE);
        let inputs = runner.buffer(Data::I32(vec![0; inputs]))?;
        let mut half = |width| runner.buffer(Data::Zeros(CHUNK * width));
        let [normed, qkv, q] = [half(config.width)?, half(queries + 2 * keys)?, half(queries)?];
        let [attended, gate_up, gated] = [half(queries)?, half(2 * config.hidden)?, half(config.hidden)?];
        let x = runner.buffer(Data::F32(vec![0.0; CHUNK * config.width]))?;
        let blocks = BLOCKS.max(SEQUENCES * config.kv_heads) * (config.heads / config.kv_heads);
        let mut numbers = |count| runner.buffer(Data::F32(vec![0.0; count]));
        let [results, sums] = [numbers(blocks * config.head)?, numbers(2 * blocks)?];
        let arrived = runner.buffer(Data::I32(vec![0; SEQUENCES * config.kv_heads]))?;
        let parts = [results, sums, arrived];
        let choices = runner.buffer(Data::F32(vec![0.0; 3 * SEQUENCES]))?;
        let chosen = runner.buffer(Data::I32(vec![0; SEQUENCES]))?;
        let logits = HashMap::new();
        let buffers = Buffers {
            inputs,
            x,
            normed,
            qkv,
            q,
            attended,
            gate_up,
            gated,
            logits,
            rotations,
            parts,
            choices,
            chosen,
        };
        let kernels =
            kernel_ids(&mut runner, &config, embedding.format, head.as_ref().unwrap_or(&embedding).format)?;
        Ok(Kernels { runner, config, pages, layers, embedding, head, norm, buffers, kernels })
    }

    /// y = a·wᵀ, or x += a·wᵀ.
    fn linear(&self, weights: &Weights, a: usize, to: usize, count: usize, adds: bool) -> Launch {
        let linear = self.kernels.linear.iter().find(|of| of.format == weights.format);
        let kernel = linear.map_or(usize::MAX, |of| if adds { of.add } else { of.store });
        let mut args = vec![Value::rows(a, count, weights.columns)];
        args.extend(weights.args());
        args.push(Value::rows(to, count, weights.rows).written());
        Launch { kernel, args }
    }

    /// The weights of the logits.
    fn head(&self) -> &Weights {
        self.head.as_ref().unwrap_or(&self.embedding)
    }

    /// Normalises rows from `first` on.
    fn normed(&self, weights: usize, first: usize, count: usize) -> Launch {
        let (width, of) = (self.config.width, &self.buffers);
        let x = Value::rows(of.x, count, width).from(first * width);
        let y = Value::rows(of.normed, count, width).written();
        let args = vec![Value::Number(self.config.epsilon), x, Value::vector(weights, width), y];
        Launch { kernel: self.kernels.norm, args }
    }

    /// Into how many parts the keys of each sequence are divided, so that few sequences fill a GPU too: a power of two.
    fn parts(&self, count: usize, longest: usize) -> usize {
        let most = (BLOCKS / (count * self.config.kv_heads)).clamp(1, MOST_PARTS);
        1 << most.min(longest.div_ceil(KEYS)).max(1).ilog2()
    }

    /// Where attention stores the results of parts.
    fn attention_parts(&self, parts: usize, count: usize) -> [Value; 3] {
        let Config { heads, kv_heads, head, .. } = self.config;
        let (group, [results, sums, arrived]) = (heads / kv_heads, self.buffers.parts);
        let compact = |buffer, extents: &[usize]| {
            let strides =
                extents.iter().scan(1, |next, extent| Some(std::mem::replace(next, *next * extent)));
            Value::tensor(buffer, extents.to_vec(), strides.collect()).written()
        };
        [
            compact(results, &[head, group, kv_heads, count, parts]),
            compact(sums, &[group, parts, kv_heads, count, 2]),
            compact(arrived, &[kv_heads, count]),
        ]
    }

    /// The launches of a step: `logits` of the last of `count` tokens. Keys of each sequence are divided into parts.
    fn launches(&self, count: usize, logits: usize, parts: usize) -> Vec<Launch> {
        let Config { width, hidden, heads, kv_heads, head, context, .. } = self.config;
        let (of, [_, keys]) = (&self.buffers, self.config.widths());
        let pages = context.div_ceil(PAGE);
        let KernelIds { embed, rotate, attend, prefill, gate, logits: last, sample, .. } = self.kernels;
        let is_prompt = count > logits;
        let mut all = Vec::new();
        let input = |at: usize| Value::vector(of.inputs, count).from(at * CHUNK);
        let mut args = vec![input(0)];
        args.extend(self.embedding.args());
        args.push(Value::rows(of.x, count, width).written());
        all.push(Launch { kernel: embed, args });
        let heads_of =
            |buffer, heads: usize| Value::read(buffer, [count, heads, head], [heads * head, head, 1]);
        let table = Value::rows(of.inputs, SEQUENCES, pages).from(3 * CHUNK);
        let tokens = [input(1), input(2), table];
        for layer in &self.layers {
            let stored = layer.pages.map(|of| {
                let strides = [PAGE * keys, keys, head, 1];
                Value::read(of, [self.pages, PAGE, kv_heads, head], strides)
            });
            all.push(self.normed(layer.norms[0], 0, count));
            all.push(self.linear(&layer.qkv, of.normed, of.qkv, count, false));
            let angles = of.rotations.map(|of| Value::rows(of, context, head / 2));
            let mut args = [&tokens[..], &angles, &[heads_of(of.qkv, heads + 2 * kv_heads)]].concat();
            args.push(heads_of(of.q, heads).written());
            args.extend(stored.clone().map(Value::written));
            all.push(Launch { kernel: rotate, args });
            // Queries by tokens, or by tokens and heads of keys.
            let queries = |buffer| match is_prompt {
                true => heads_of(buffer, heads),
                false => {
                    let (group, width) = (heads / kv_heads, heads * head);
                    Value::read(buffer, [count, kv_heads, group, head], [width, group * head, head, 1])
                }
            };
            let scale = Value::Number(1.0 / (head as f32).sqrt());
            let mut args = [&[scale], &tokens[..], &[queries(of.q)], &stored].concat();
            if !is_prompt {
                args.extend(self.attention_parts(parts, count));
            }
            args.push(queries(of.attended).written());
            all.push(Launch { kernel: if is_prompt { prefill } else { attend }, args });
            all.push(self.linear(&layer.output, of.attended, of.x, count, true));
            all.push(self.normed(layer.norms[1], 0, count));
            all.push(self.linear(&layer.gate_up, of.normed, of.gate_up, count, false));
            let both = Value::read(of.gate_up, [count, hidden, 2], [2 * hidden, 1, hidden]);
            all.push(Launch {
                kernel: gate,
                args: vec![both, Value::rows(of.gated, count, hidden).written()],
            });
            all.push(self.linear(&layer.down, of.gated, of.x, count, true));
        }
        if let Some(buffer) = of.logits.get(&logits.next_power_of_two()).filter(|_| logits > 0) {
            all.push(self.normed(self.norm, count - logits, logits));
            all.push(Launch { kernel: last, ..self.linear(self.head(), of.normed, *buffer, logits, false) });
            let choice = |at: usize| Value::vector(of.choices, logits).from(at * SEQUENCES);
            let rows = Value::rows(*buffer, logits, self.vocabulary());
            let chosen = Value::vector(of.chosen, logits).written();
            all.push(Launch { kernel: sample, args: vec![choice(0), choice(1), choice(2), rows, chosen] });
        }
        all
    }
}

impl<R: Runner> Kernels<R> {
    /// Runs a step. Logits and samples are in buffers.
    fn run(&mut self, batch: &Batch) -> Result<()> {
        let (count, pages) = (batch.tokens.len(), self.config.context.div_ceil(PAGE));
        let of_one = batch.sequences.iter().all(|row| Some(row) == batch.sequences.first());
        if count > CHUNK || batch.tables.len() > SEQUENCES || count > batch.logits && !of_one {
            return Err("a step has tokens of one sequence, or one token of each".into());
        }
        let padded = |all: &[u32], length: usize| {
            let signed = all.iter().map(|of| of.cast_signed());
            signed.chain(std::iter::repeat(0)).take(length).collect::<Vec<i32>>()
        };
        let sequences: Vec<u32> = batch.sequences.iter().map(|of| *of as u32).collect();
        let mut inputs = [&batch.tokens, &batch.positions, &sequences].map(|of| padded(of, CHUNK)).concat();
        inputs.extend(batch.tables.iter().flat_map(|of| padded(of, pages)));
        inputs.resize(3 * CHUNK + SEQUENCES * pages, 0);
        self.runner.write(self.buffers.inputs, Data::I32(inputs))?;
        // Buffers of logits have 1, 2, 4, … rows.
        let (rows, vocabulary) = (batch.logits.next_power_of_two(), self.vocabulary());
        if !self.buffers.logits.contains_key(&rows) {
            let buffer = self.runner.buffer(Data::F32(vec![0.0; rows * vocabulary]))?;
            self.buffers.logits.insert(rows, buffer);
        }
        let longest = batch.positions.iter().max().map_or(0, |last| *last as usize + 1);
        let parts = self.parts(count, longest);
        let launches = self.launches(count, batch.logits, parts);
        // Each number of sequences and of parts has one graph.
        self.runner.run((count == batch.logits).then_some([count, parts]), &launches)
    }
}

/// Embeddings that kernels read: of 16 bits, unless they are of 8.
fn halved(matrix: &Matrix) -> std::borrow::Cow<'_, Matrix> {
    if matrix.format != Format::Q4 {
        return std::borrow::Cow::Borrowed(matrix);
    }
    let bytes =
        matrix.to_f32().into_iter().flat_map(|of| f16::from_f32(of).to_bits().to_le_bytes()).collect();
    std::borrow::Cow::Owned(Matrix { format: Format::F16, bytes, ..*matrix })
}

/// The kernels of a model with embeddings and logits of these formats.
fn kernel_ids(
    runner: &mut impl Runner,
    config: &Config,
    embedding: Format,
    head: Format,
) -> Result<KernelIds> {
    let sizes = [("G", config.heads / config.kv_heads), ("D", config.head), ("P", PAGE)];
    let mut linear = |format, store: &KernelDef, add: &KernelDef| {
        Ok(Linear { format, store: runner.kernel(store)?, add: runner.kernel(add)? })
    };
    let linear = [
        linear(Format::F16, weights::linear_half().def(), weights::linear_half!(Y = f32, ADD = 1).def()),
        linear(Format::Q8, weights::linear_q8().def(), weights::linear_q8!(Y = f32, ADD = 1).def()),
        linear(Format::Q4, weights::linear_q4().def(), weights::linear_q4!(Y = f32, ADD = 1).def()),
    ];
    Ok(KernelIds {
        embed: match embedding {
            Format::Q8 => runner.kernel(embed::embed_q8().def())?,
            _ => runner.kernel(embed::embed().def())?,
        },
        norm: runner.kernel(rms_norm::rms_norm().def())?,
        rotate: runner.kernel(paged::rotate_and_store().specialize(&sizes)?.def())?,
        attend: runner.kernel(paged::paged_attention().specialize(&sizes)?.def())?,
        prefill: runner.kernel(paged::paged_prefill().specialize(&sizes)?.def())?,
        gate: runner.kernel(gated::gated!(T = f16).def())?,
        logits: match head {
            Format::Q8 => runner.kernel(weights::linear_q8!(Y = f32).def())?,
            Format::Q4 => runner.kernel(weights::linear_q4!(Y = f32).def())?,
            _ => runner.kernel(weights::linear_half!(Y = f32).def())?,
        },
        sample: runner.kernel(sample::sample_top_p!(T = f32, top_k = None).def())?,
        linear: linear.into_iter().collect::<Result<_>>()?,
    })
}

impl<R: Runner> Backend for Kernels<R> {
    fn config(&self) -> &Config {
        &self.config
    }

    fn vocabulary(&self) -> usize {
        self.embedding.rows
    }

    fn pages(&self) -> usize {
        self.pages
    }

    fn limits(&self) -> [usize; 2] {
        [SEQUENCES, CHUNK]
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<f32>> {
        self.run(batch)?;
        if batch.logits == 0 {
            return Ok(Vec::new());
        }
        let mut logits = self.runner.read(self.buffers.logits[&batch.logits.next_power_of_two()])?;
        logits.truncate(batch.logits * self.vocabulary());
        Ok(logits)
    }

    fn choose(&mut self, batch: &Batch, choices: &[Choice]) -> Result<Vec<u32>> {
        let mut numbers = vec![0.0; 3 * SEQUENCES];
        for (at, Choice { temperature, top_p, random }) in choices.iter().enumerate() {
            for (part, number) in [temperature, top_p, random].into_iter().enumerate() {
                numbers[part * SEQUENCES + at] = *number;
            }
        }
        self.runner.write(self.buffers.choices, Data::F32(numbers))?;
        self.run(batch)?;
        if choices.is_empty() {
            return Ok(Vec::new());
        }
        let tokens = self.runner.read_integers(self.buffers.chosen)?;
        Ok(tokens[..choices.len()].iter().map(|token| token.cast_unsigned()).collect())
    }
}
