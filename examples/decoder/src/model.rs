//! A model of the Llama family: its sizes and its weights.

use std::path::Path;

use crate::Result;
use crate::gguf::Gguf;
use crate::safetensors::Folder;
use crate::tokenizer::Tokenizer;
use crate::weights::Matrix;

/// A mixture of experts instead of one feed-forward part.
#[derive(Clone, Copy, Debug)]
pub struct Experts {
    pub count: usize,
    /// Experts of a token.
    pub used: usize,
}

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub layers: usize,
    pub width: usize,
    /// The width between the two products of a feed-forward part.
    pub hidden: usize,
    pub heads: usize,
    /// Heads of keys and values, each for several heads of queries.
    pub kv_heads: usize,
    /// The width of a head.
    pub head: usize,
    /// The greatest number of tokens of a sequence.
    pub context: usize,
    pub epsilon: f32,
    pub rope_base: f64,
    /// Whether rotary embedding turns elements 2i and 2i + 1 of the file's heads. Matrices are reordered: here it turns i and i + head / 2.
    pub rope_pairs: bool,
    pub experts: Option<Experts>,
}

impl Config {
    /// Refuses sizes that do not fit together, and sizes of a damaged file before memory is taken for them.
    fn check(&self) -> Result<()> {
        let Config { layers, width, hidden, heads, kv_heads, head, context, .. } = *self;
        let experts =
            self.experts.is_none_or(|of| (1..=of.count.min(8)).contains(&of.used) && of.count <= 64);
        let fits = head % 2 == 0 && kv_heads > 0 && heads % kv_heads == 0 && experts;
        let limits = [
            (layers, 1 << 10),
            (width, 1 << 17),
            (hidden, 1 << 20),
            (heads, 1 << 12),
            (head, 1 << 10),
            (context, 1 << 20),
        ];
        if !fits || limits.iter().any(|(size, limit)| !(1..=*limit).contains(size)) {
            return Err(format!("sizes of this model are not supported: {self:?}").into());
        }
        Ok(())
    }

    /// The width of queries, and of keys or values.
    pub fn widths(&self) -> [usize; 2] {
        [self.heads * self.head, self.kv_heads * self.head]
    }
}

/// The weights of a layer.
pub struct Layer {
    pub attention_norm: Vec<f32>,
    /// Queries, keys and values.
    pub qkv: Matrix,
    pub output: Matrix,
    pub ffn_norm: Vec<f32>,
    /// Scores of experts. Rows of `gate_up` and `down` are those of the first expert, then of the second, and so on.
    pub router: Option<Matrix>,
    /// The gate, and what it multiplies.
    pub gate_up: Matrix,
    pub down: Matrix,
}

/// All weights.
pub struct Model {
    pub config: Config,
    pub embedding: Matrix,
    pub layers: Vec<Layer>,
    pub norm: Vec<f32>,
    /// The logits' weights, if they are not the embedding.
    pub head: Option<Matrix>,
    /// What divides each frequency of rotary embedding, if anything does: for contexts longer than in the first training.
    pub divisors: Option<Vec<f32>>,
}

/// Tensors by their names in GGUF files.
pub trait Tensors {
    /// `None` if there is no such tensor.
    fn matrix(&mut self, name: &str) -> Result<Option<Matrix>>;
}

impl Model {
    /// Opens a GGUF file, or a folder with safetensors.
    pub fn open(path: &Path) -> Result<(Model, Tokenizer)> {
        if path.is_dir() {
            let mut folder = Folder::open(path)?;
            let tokenizer = folder.tokenizer()?;
            return Ok((Model::read(folder.config()?, &mut folder)?, tokenizer));
        }
        let mut gguf = Gguf::open(path)?;
        let tokenizer = gguf.tokenizer()?;
        Ok((Model::read(gguf.config()?, &mut gguf)?, tokenizer))
    }

    pub(crate) fn read(config: Config, tensors: &mut impl Tensors) -> Result<Model> {
        config.check()?;
        let Config { width, hidden, head, .. } = config;
        let [queries, keys] = config.widths();
        let mut read = |name: &str, rows: usize, columns: usize| -> Result<Matrix> {
            let matrix = tensors.matrix(name)?.ok_or_else(|| format!("the model has no `{name}`"))?;
            if [matrix.rows, matrix.columns] != [rows, columns] {
                let (r, c) = (matrix.rows, matrix.columns);
                return Err(format!(
                    "`{name}` is {r}x{c}, and the sizes of the model make it {rows}x{columns}"
                )
                .into());
            }
            Ok(matrix)
        };
        let mut layers = Vec::new();
        for layer in 0..config.layers {
            let mut of =
                |name: &str, rows, columns| read(&format!("blk.{layer}.{name}.weight"), rows, columns);
            let mut qkv =
                [of("attn_q", queries, width)?, of("attn_k", keys, width)?, of("attn_v", keys, width)?];
            if config.rope_pairs {
                qkv[..2].iter_mut().for_each(|of| of.unpair(head));
            }
            let (count, suffix) = config.experts.map_or((1, ""), |of| (of.count, "_exps"));
            let mut ffn =
                |name: &str, rows, columns| of(&format!("ffn_{name}{suffix}"), count * rows, columns);
            let (gate, up, down) =
                (ffn("gate", hidden, width)?, ffn("up", hidden, width)?, ffn("down", width, hidden)?);
            let rows = |expert| expert * hidden..(expert + 1) * hidden;
            let gate_up = (0..count).flat_map(|expert| [gate.part(rows(expert)), up.part(rows(expert))]);
            let gate_up: Vec<Matrix> = gate_up.collect();
            layers.push(Layer {
                attention_norm: of("attn_norm", 1, width)?.to_f32(),
                qkv: Matrix::stacked(&qkv.each_ref())?,
                output: of("attn_output", width, queries)?,
                ffn_norm: of("ffn_norm", 1, width)?.to_f32(),
                router: config.experts.map(|experts| of("ffn_gate_inp", experts.count, width)).transpose()?,
                gate_up: Matrix::stacked(&gate_up.iter().collect::<Vec<_>>())?,
                down,
            });
        }
        let norm = read("output_norm.weight", 1, width)?.to_f32();
        let embedding = tensors.matrix("token_embd.weight")?.ok_or("the model has no `token_embd.weight`")?;
        let head = tensors.matrix("output.weight")?;
        let rows = embedding.rows;
        for of in head.iter().chain([&embedding]) {
            if [of.rows, of.columns] != [rows, width] {
                let (r, c) = (of.rows, of.columns);
                return Err(format!(
                    "embeddings and logits have {r}x{c} weights, and {rows}x{width} are expected"
                )
                .into());
            }
        }
        let divisors = tensors.matrix("rope_freqs.weight")?.map(|of| of.to_f32());
        if divisors.as_ref().is_some_and(|of| of.len() != config.head / 2) {
            return Err("`rope_freqs.weight` does not have a number for each frequency".into());
        }
        Ok(Model { config, embedding, layers, norm, head, divisors })
    }

    /// The cosine and the sine of each angle at each position, a row for each position.
    pub fn rotations(&self) -> [Vec<f32>; 2] {
        let Config { head, rope_base, context, .. } = self.config;
        let half = head / 2;
        let angle = |at: usize| {
            let frequency = rope_base.powf(-2.0 * (at % half) as f64 / head as f64);
            let divisor = self.divisors.as_ref().map_or(1.0, |of| f64::from(of[at % half]));
            (at / half) as f64 * frequency / divisor
        };
        let all = || (0..context * half).map(angle);
        [all().map(|of| of.cos() as f32).collect(), all().map(|of| of.sin() as f32).collect()]
    }

    /// The weights of the logits.
    pub fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}
