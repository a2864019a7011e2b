//! Models of random weights, to measure times at the sizes of well-known models.

use crate::Result;
use crate::model::{Config, Model, Tensors};
use crate::weights::{Format, Matrix};

/// Sizes by their names: layers, width, hidden width, heads, heads of keys, the width of a head, and tokens of the vocabulary.
const SIZES: [(&str, [usize; 7]); 2] = [
    ("llama-3.2-1b", [16, 2048, 8192, 32, 8, 64, 128256]),
    ("llama-3.1-8b", [32, 4096, 14336, 32, 8, 128, 128256]),
];

struct Random {
    config: Config,
    vocabulary: usize,
    format: Format,
    state: u64,
}

impl Random {
    fn word(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

impl Tensors for Random {
    fn matrix(&mut self, name: &str) -> Result<Option<Matrix>> {
        let Config { width, hidden, .. } = self.config;
        let [queries, keys] = self.config.widths();
        let [rows, columns] = match name.rsplit('.').nth(1).unwrap_or_default() {
            "attn_q" => [queries, width],
            "attn_k" | "attn_v" => [keys, width],
            "attn_output" => [width, queries],
            "ffn_gate" | "ffn_up" => [hidden, width],
            "ffn_down" => [width, hidden],
            "token_embd" => [self.vocabulary, width],
            "attn_norm" | "ffn_norm" | "output_norm" => [1, width],
            _ => return Ok(None),
        };
        // Numbers of 16 bits between 2^-7 and 2^-6, of either sign; blocks of 4 bits have scales of this size.
        let half = |word: u64| ((word & 0x83ff) | 0x2000) as u16;
        let format = if rows == 1 { Format::F16 } else { self.format };
        let count = rows * columns / format.block().0;
        let mut bytes = Vec::with_capacity(count * format.block().1);
        for _ in 0..count {
            let word = self.word();
            bytes.extend(half(word).to_le_bytes());
            if format == Format::Q4 {
                bytes.extend(half(!word).to_le_bytes());
                bytes.extend(self.word().to_le_bytes());
                bytes.extend(self.word().to_le_bytes());
            }
        }
        Ok(Some(Matrix { format, rows, columns, bytes }))
    }
}

/// A model of these sizes, such as `llama-3.2-1b`, with weights of 16 bits, or of 4 bits as in `llama-3.2-1b-q4`.
pub fn model(name: &str) -> Result<Model> {
    let (sizes, format) = match name.strip_suffix("-q4") {
        Some(name) => (name, Format::Q4),
        None => (name, Format::F16),
    };
    let known = || SIZES.map(|(name, _)| name).join(", ");
    let sizes = SIZES.iter().find(|(known, _)| *known == sizes);
    let (_, sizes) = sizes.ok_or_else(|| format!("sizes are known of {}, each also with -q4", known()))?;
    let [layers, width, hidden, heads, kv_heads, head, vocabulary] = *sizes;
    let (context, epsilon, rope_base) = (8192, 1e-5, 500000.0);
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
        rope_pairs: false,
    };
    Model::read(config, &mut Random { config, vocabulary, format, state: 88172645463325252 })
}
