//! Reads GGUF files: metadata, and tensors by their names.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

use crate::Result;
use crate::model::{Config, Tensors};
use crate::tokenizer::{self, Tokenizer};
use crate::weights::{Format, Matrix};

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
        Ok(match kind {
            0 | 7 => u8::from_le_bytes(self.array()?).into(),
            1 => i8::from_le_bytes(self.array()?).into(),
            2 => u16::from_le_bytes(self.array()?).into(),
            3 => i16::from_le_bytes(self.array()?).into(),
            4 => self.u32()?.into(),
            5 => i32::from_le_bytes(self.array()?).into(),
            6 => f32::from_le_bytes(self.array()?).into(),
            8 => self.text()?.into(),
            9 => {
                let (kind, count) = (self.u32()?, self.u64()?);
                if kind == 9 {
                    return Err("the metadata has a list of lists".into());
                }
                Value::Array((0..count).map(|_| self.value(kind)).collect::<Result<_>>()?)
            }
            10 => self.u64()?.into(),
            11 => i64::from_le_bytes(self.array()?).into(),
            12 => f64::from_le_bytes(self.array()?).into(),
            _ => return Err(format!("the metadata has a value of unknown type {kind}").into()),
        })
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.metadata.get(key)?.as_f64()
    }

    fn text_of(&self, key: &str) -> Option<&str> {
        self.metadata.get(key)?.as_str()
    }

    fn texts(&self, key: &str) -> Result<Vec<String>> {
        let all = self.metadata.get(key).and_then(Value::as_array);
        let all = all.ok_or_else(|| format!("the metadata has no list `{key}`"))?;
        Ok(all.iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect())
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
        let keys = "block_count embedding_length feed_forward_length attention.head_count attention.head_count_kv \
            rope.dimension_count context_length attention.layer_norm_rms_epsilon rope.freq_base expert_count expert_used_count";
        Config::new(keys, |key| self.number(&format!("llama.{key}")), true)
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
        let types = self.metadata.get("tokenizer.ggml.token_type").and_then(Value::as_array);
        let types = types.map_or(&[][..], Vec::as_slice).iter().zip(0..);
        let special = types.filter(|(of, _)| matches!(of.as_u64(), Some(3 | 4))).map(|of| of.1).collect();
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
