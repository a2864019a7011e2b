//! Models of random weights, to measure times at the sizes of well-known models. Weights are made where they are used.

use tilewright::Elem;
use tilewright::prelude::*;

use crate::Result;
use crate::launch::{Launch, Runner, Value};
use crate::model::{Config, Experts, Model, Tensors};
use crate::weights::{Format, Matrix};

/// Sizes by their names: layers, width, hidden width, heads, heads of keys, the width of a head, and tokens of the vocabulary. `experts-8`
/// has a quarter of the layers.
pub const SHAPES: [(&str, [usize; 7]); 3] = [
    ("llama-1b", [16, 2048, 8192, 32, 8, 64, 128256]),
    ("llama-8b", [32, 4096, 14336, 32, 8, 128, 128256]),
    ("experts-8", [8, 4096, 14336, 32, 8, 128, 32000]),
];

/// Numbers of 16 bits from -1/64 to 1/64.
#[kernel(T = f16)]
fn noise_half<T>(seed: i32, y: &mut Tensor<T, N>) {
    let y = tile(y, 2048, block.x);
    let word = map(iota(2048), |at| (at + 2048 * block.x + seed) as u32 * 2654435769u32);
    copy(
        map(word, |word| {
            ((word ^ (word >> 15)) * 739982445u32 >> 8) as f32 * 1.862645149230957e-9 - 0.015625
        }),
        y,
    );
}

/// Bytes.
#[kernel(T = u8 | i8)]
fn noise_byte<T>(seed: i32, y: &mut Tensor<T, N>) {
    let y = tile(y, 2048, block.x);
    let word = map(iota(2048), |at| (at + 2048 * block.x + seed) as u32 * 2654435769u32);
    copy(map(word, |word| ((word ^ (word >> 15)) * 739982445u32 >> 24) as T), y);
}

/// Buffers of random weights in a format.
pub fn weights(runner: &mut impl Runner, format: Format, count: usize) -> Result<Vec<usize>> {
    let parts = match format {
        Format::Q4 => vec![(Elem::U8, count / 2), (Elem::F16, count / 32), (Elem::F16, count / 32)],
        Format::Q8 => vec![(Elem::I8, count), (Elem::F16, count / 32)],
        _ => vec![(Elem::F16, count)],
    };
    let mut filled = |(elem, count)| {
        let buffer = runner.zeros(elem, count)?;
        let kernel = match elem {
            Elem::F16 => runner.kernel(noise_half().def())?,
            Elem::U8 => runner.kernel(noise_byte!(T = u8).def())?,
            _ => runner.kernel(noise_byte!(T = i8).def())?,
        };
        let launch = Launch {
            kernel,
            args: vec![Value::Integer(7919 * buffer as i32), Value::vector(buffer, count).written()],
        };
        runner.run(None, &|| vec![launch.clone()])?;
        Ok(buffer)
    };
    parts.into_iter().map(&mut filled).collect()
}

struct Random {
    config: Config,
    vocabulary: usize,
    format: Format,
}

impl Tensors for Random {
    fn matrix(&mut self, name: &str) -> Result<Option<Matrix>> {
        let Config { width, hidden, experts, .. } = self.config;
        let [queries, keys] = self.config.widths();
        let experts = experts.map_or(1, |of| of.count);
        let [rows, columns] = match name.rsplit('.').nth(1).unwrap_or_default() {
            "attn_q" => [queries, width],
            "attn_k" | "attn_v" => [keys, width],
            "attn_output" => [width, queries],
            "ffn_gate" | "ffn_up" | "ffn_gate_exps" | "ffn_up_exps" => [experts * hidden, width],
            "ffn_down" | "ffn_down_exps" => [experts * width, hidden],
            "ffn_gate_inp" => [experts, width],
            "token_embd" => [self.vocabulary, width],
            "attn_norm" | "ffn_norm" | "output_norm" => {
                let bytes = crate::launch::bytes(vec![1.0f32; width]);
                return Ok(Some(Matrix { format: Format::F32, rows: 1, columns: width, bytes }));
            }
            _ => return Ok(None),
        };
        Ok(Some(Matrix { format: self.format, rows, columns, bytes: Vec::new() }))
    }
}

/// A model of these sizes, such as `llama-1b`.
pub fn model(shape: &str, format: Format) -> Result<Model> {
    let known = || SHAPES.map(|(name, _)| name).join(", ");
    let sizes = SHAPES.iter().find(|(known, _)| *known == shape);
    let (_, sizes) = sizes.ok_or_else(|| format!("there is no shape `{shape}`: {} are known", known()))?;
    let experts = shape.starts_with("experts").then_some(Experts { count: 8, used: 2 });
    if experts.is_some() && format != Format::F16 {
        return Err("experts have weights of 16 bits: write --format f16".into());
    }
    of(*sizes, 8192, experts, format)
}

/// A model of these sizes: layers, width, hidden width, heads, heads of keys, width of a head, vocabulary.
pub fn of(sizes: [usize; 7], context: usize, experts: Option<Experts>, format: Format) -> Result<Model> {
    let [layers, width, hidden, heads, kv_heads, head, vocabulary] = sizes;
    let (epsilon, rope_base, rope_pairs) = (1e-5, 500000.0, false);
    let config = Config {
        layers,
        width,
        hidden,
        heads,
        kv_heads,
        head,
        context,
        epsilon,
        rope_base,
        rope_pairs,
        experts,
    };
    Model::read(config, &mut Random { config, vocabulary, format })
}
