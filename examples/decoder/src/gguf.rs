//! Reads GGUF files: metadata, and tensors by their names.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use crate::Result;
use crate::model::{Config, Experts, Tensors};
use crate::tokenizer::{self, Tokenizer};
use crate::weights::{Format, Matrix};

/// A value of the metadata.
#[derive(Debug)]
enum Value {
    Number(f64),
    Text(String),
    List(Vec<Value>),
}

/// Where a tensor is.
struct Entry {
    format: u32,
    /// The contiguous extent first.
    extents: Vec<usize>,
    offset: u64,
}

/// An open file.
pub struct Gguf {
    file: BufReader<File>,
    length: u64,
    metadata: HashMap<String, Value>,
    tensors: HashMap<String, Entry>,
    /// Where the tensors begin.
    data: u64,
}

impl Gguf {
    pub fn open(path: &Path) -> Result<Gguf> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let (metadata, tensors) = (HashMap::new(), HashMap::new());
        let mut gguf = Gguf { file: BufReader::new(file), length, metadata, tensors, data: 0 };
        gguf.header().map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(gguf)
    }

    fn header(&mut self) -> Result<()> {
        let (magic, version) = (self.u32()?, self.u32()?);
        if magic != u32::from_le_bytes(*b"GGUF") || !(2..=3).contains(&version) {
            return Err("this is no GGUF file of version 2 or 3".into());
        }
        let (tensors, pairs) = (self.u64()?, self.u64()?);
        for _ in 0..pairs {
            let (key, kind) = (self.text()?, self.u32()?);
            let value = self.value(kind)?;
            self.metadata.insert(key, value);
        }
        for _ in 0..tensors {
            let (name, rank) = (self.text()?, self.u32()?);
            if rank > 4 {
                return Err(format!("`{name}` has {rank} modes").into());
            }
            let extents = (0..rank).map(|_| Ok(usize::try_from(self.u64()?)?)).collect::<Result<_>>()?;
            let entry = Entry { extents, format: self.u32()?, offset: self.u64()? };
            self.tensors.insert(name, entry);
        }
        let alignment = self.number("general.alignment").map_or(32, |of| of as u64);
        self.data = self.file.stream_position()?.next_multiple_of(alignment.max(1));
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String> {
        let length = self.u64()?;
        Ok(String::from_utf8_lossy(&self.bytes(length)?).into_owned())
    }

    /// Bytes, if the file is that long.
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        if length > self.length {
            return Err(format!("a text or a tensor of {length} bytes is longer than the file").into());
        }
        let mut bytes = vec![0; usize::try_from(length)?];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn value(&mut self, kind: u32) -> Result<Value> {
        Ok(Value::Number(match kind {
            0 | 7 => u8::from_le_bytes(self.array()?).into(),
            1 => i8::from_le_bytes(self.array()?).into(),
            2 => u16::from_le_bytes(self.array()?).into(),
            3 => i16::from_le_bytes(self.array()?).into(),
            4 => self.u32()?.into(),
            5 => i32::from_le_bytes(self.array()?).into(),
            6 => f32::from_le_bytes(self.array()?).into(),
            8 => return Ok(Value::Text(self.text()?)),
            9 => {
                let (kind, count) = (self.u32()?, self.u64()?);
                if kind == 9 {
                    return Err("the metadata has a list of lists".into());
                }
                return Ok(Value::List((0..count).map(|_| self.value(kind)).collect::<Result<_>>()?));
            }
            10 => self.u64()? as f64,
            11 => i64::from_le_bytes(self.array()?) as f64,
            12 => f64::from_le_bytes(self.array()?),
            _ => return Err(format!("the metadata has a value of unknown type {kind}").into()),
        }))
    }

    fn number(&self, key: &str) -> Option<f64> {
        if let Value::Number(number) = self.metadata.get(key)? { Some(*number) } else { None }
    }

    fn text_of(&self, key: &str) -> Option<&str> {
        if let Value::Text(text) = self.metadata.get(key)? { Some(text) } else { None }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>> {
        let Some(Value::List(all)) = self.metadata.get(key) else {
            return Err(format!("the metadata has no list `{key}`").into());
        };
        let text = |value: &Value| if let Value::Text(text) = value { text.clone() } else { String::new() };
        Ok(all.iter().map(text).collect())
    }

    /// The sizes of the model.
    pub fn config(&self) -> Result<Config> {
        let architecture = self.text_of("general.architecture").unwrap_or_default();
        if architecture != "llama" {
            return Err(format!("the architecture is `{architecture}`, and this decoder runs `llama`").into());
        }
        let scaling = self.text_of("llama.rope.scaling.type").unwrap_or("none");
        if scaling != "none" && !self.tensors.contains_key("rope_freqs.weight") {
            return Err(format!("positions are scaled, `{scaling}`, which is not supported").into());
        }
        if let Some(name) = self.tensors.keys().find(|name| name.ends_with(".bias")) {
            return Err(format!("the model has `{name}`, and biases are not supported").into());
        }
        let real = |key: &str| {
            self.number(&format!("llama.{key}")).ok_or_else(|| format!("the metadata has no `llama.{key}`"))
        };
        let size = |key: &str| real(key).map(|of| of as usize);
        let (width, heads) = (size("embedding_length")?, size("attention.head_count")?);
        Ok(Config {
            layers: size("block_count")?,
            width,
            hidden: size("feed_forward_length")?,
            heads,
            kv_heads: size("attention.head_count_kv").unwrap_or(heads),
            head: size("rope.dimension_count").unwrap_or(width / heads.max(1)),
            context: size("context_length")?,
            epsilon: real("attention.layer_norm_rms_epsilon")? as f32,
            rope_base: real("rope.freq_base").unwrap_or(10_000.0),
            rope_pairs: true,
            experts: size("expert_count")
                .ok()
                .filter(|count| *count > 0)
                .map(|count| Experts { count, used: size("expert_used_count").unwrap_or(1) }),
        })
    }

    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let kind = self.text_of("tokenizer.ggml.model").unwrap_or_default();
        if kind != "gpt2" {
            return Err(
                format!("the tokenizer is `{kind}`, and this decoder has byte-level BPE, `gpt2`").into()
            );
        }
        let pre = self.text_of("tokenizer.ggml.pre").unwrap_or_default();
        let patterns = tokenizer::patterns(pre)?;
        let tokens = self.texts("tokenizer.ggml.tokens")?;
        let merges = self.texts("tokenizer.ggml.merges")?;
        let id = |key: &str| self.number(&format!("tokenizer.ggml.{key}")).map(|of| of as u32);
        // Tokens of the types 3 and 4 are control tokens and added ones.
        let special = match self.metadata.get("tokenizer.ggml.token_type") {
            Some(Value::List(types)) => {
                let types = types.iter().enumerate();
                types
                    .filter(|(_, of)| matches!(of, Value::Number(3.0 | 4.0)))
                    .map(|(at, _)| at as u32)
                    .collect()
            }
            _ => Vec::new(),
        };
        let begin = id("bos_token_id").filter(|_| self.number("tokenizer.ggml.add_bos_token") == Some(1.0));
        let end = [id("eos_token_id"), id("eot_token_id")].into_iter().flatten().collect();
        let tokenizer = Tokenizer::new(tokens, &merges, special, &patterns, begin, end)?;
        Ok(if pre.starts_with("llama") { tokenizer.with_whole_pieces() } else { tokenizer })
    }
}

impl Tensors for Gguf {
    fn matrix(&mut self, name: &str) -> Result<Option<Matrix>> {
        let Some(Entry { format, extents, offset }) = self.tensors.get(name) else { return Ok(None) };
        let format = match format {
            0 => Format::F32,
            1 => Format::F16,
            3 => Format::Q4,
            8 => Format::Q8,
            30 => Format::Bf16,
            _ => {
                return Err(
                    format!("`{name}` has format {format}: F32, F16, BF16, Q4_1 and Q8_0 are read").into()
                );
            }
        };
        let columns = extents.first().copied().unwrap_or(1);
        let rows = extents.iter().skip(1).try_fold(1usize, |all, of| all.checked_mul(*of));
        let rows = rows.ok_or("a tensor is too large")?;
        let (elements, bytes) = format.block();
        let length = (columns / elements).checked_mul(bytes).and_then(|row| row.checked_mul(rows));
        let start = SeekFrom::Start(self.data.saturating_add(*offset));
        self.file.seek(start)?;
        let bytes = self.bytes(length.ok_or("a tensor is too large")? as u64)?;
        Ok(Some(Matrix { format, rows, columns, bytes }.checked().map_err(|why| format!("`{name}`: {why}"))?))
    }
}
