//! Reads models in the format of Hugging Face: `config.json`, `tokenizer.json`, and tensors in `*.safetensors`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Result;
use crate::model::{Config, Tensors};
use crate::tokenizer::{Tokenizer, patterns_of_json};
use crate::weights::{Format, Matrix};

/// An open folder.
pub struct Folder {
    path: PathBuf,
    config: Value,
    /// The file of each tensor, its description, and where the file's tensors begin.
    tensors: HashMap<String, (PathBuf, Value, u64)>,
}

fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read(path).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(serde_json::from_slice(&text).map_err(|why| format!("{}: {why}", path.display()))?)
}

impl Folder {
    pub fn open(path: &Path) -> Result<Folder> {
        let mut tensors = HashMap::new();
        for file in std::fs::read_dir(path)? {
            let file = file?.path();
            if file.extension().is_some_and(|of| of == "safetensors") {
                header(&file, &mut tensors).map_err(|why| format!("{}: {why}", file.display()))?;
            }
        }
        Ok(Folder { path: path.to_owned(), config: json(&path.join("config.json"))?, tensors })
    }

    /// The sizes of the model.
    pub fn config(&self) -> Result<Config> {
        let architecture = &self.config["model_type"];
        if architecture != "llama" {
            return Err(format!("the architecture is {architecture}, and this decoder runs \"llama\"").into());
        }
        let silu = self.config["hidden_act"].as_str().is_none_or(|of| of == "silu");
        if !silu || self.config["attention_bias"] == true || self.config["mlp_bias"] == true {
            return Err("biases, and functions other than silu, are not supported".into());
        }
        let real = |key: &str| self.config[key].as_f64().ok_or_else(|| format!("config.json has no `{key}`"));
        let size = |key: &str| real(key).map(|of| of as usize);
        let (width, heads) = (size("hidden_size")?, size("num_attention_heads")?);
        Ok(Config {
            layers: size("num_hidden_layers")?,
            width,
            hidden: size("intermediate_size")?,
            heads,
            kv_heads: size("num_key_value_heads").unwrap_or(heads),
            head: size("head_dim").unwrap_or(width / heads.max(1)),
            context: size("max_position_embeddings")?,
            epsilon: real("rms_norm_eps")? as f32,
            rope_base: (real("rope_theta").ok())
                .or(self.config["rope_parameters"]["rope_theta"].as_f64())
                .unwrap_or(10_000.0),
            rope_pairs: false,
            experts: None,
        })
    }

    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let all = json(&self.path.join("tokenizer.json"))?;
        let model = &all["model"];
        if model["type"] != "BPE" || model["byte_fallback"] == true {
            return Err("tokenizer.json has no byte-level BPE".into());
        }
        let mut tokens = Vec::new();
        let vocabulary = model["vocab"].as_object().ok_or("tokenizer.json has no `vocab`")?;
        let added = all["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
        let added = added.iter().filter_map(|of| Some((of["content"].as_str()?, of["id"].as_u64()?)));
        let known = vocabulary.iter().filter_map(|(text, id)| Some((text.as_str(), id.as_u64()?)));
        for (text, id) in known.chain(added.clone()) {
            let at = usize::try_from(id)?;
            if at > 1 << 24 {
                return Err(format!("the token `{text}` has the number {id}").into());
            }
            tokens.resize(tokens.len().max(at + 1), String::new());
            text.clone_into(&mut tokens[at]);
        }
        let merge = |of: &Value| match of.as_array().map(Vec::as_slice) {
            Some([left, right]) => Some(format!("{} {}", left.as_str()?, right.as_str()?)),
            _ => Some(of.as_str()?.to_owned()),
        };
        let merges = model["merges"].as_array().map_or(&[][..], Vec::as_slice);
        let merges: Vec<String> = merges.iter().filter_map(merge).collect();
        let ids = |key: &str| match &self.config[key] {
            Value::Array(all) => all.iter().filter_map(Value::as_u64).map(|id| id as u32).collect(),
            one => one.as_u64().map(|id| id as u32).into_iter().collect::<Vec<u32>>(),
        };
        // The post-processor may put a token before each text.
        let parts = all["post_processor"]["processors"]
            .as_array()
            .map_or(std::slice::from_ref(&all["post_processor"]), Vec::as_slice);
        let first = parts.iter().find_map(|part| part["single"][0]["SpecialToken"]["id"].as_str());
        let begin = added.clone().find(|(text, _)| Some(*text) == first).map(|(_, id)| id as u32);
        if !all["normalizer"].is_null() {
            return Err("tokenizer.json normalizes texts, which is not supported".into());
        }
        let special = added.map(|(_, id)| id as u32).collect();
        let patterns = patterns_of_json(&all["pre_tokenizer"])?;
        let tokenizer = Tokenizer::new(tokens, &merges, special, &patterns, begin, ids("eos_token_id"))?;
        Ok(if model["ignore_merges"] == true { tokenizer.with_whole_pieces() } else { tokenizer })
    }

    /// What divides each frequency: a factor for low ones, 1 for high ones.
    fn divisors(&self) -> Result<Option<Matrix>> {
        // Newer files have all of it in `rope_parameters`.
        let [old, new] = ["rope_scaling", "rope_parameters"].map(|key| &self.config[key]);
        let of = if new.is_null() { old } else { new };
        let kind = of["rope_type"].as_str().or(of["type"].as_str()).unwrap_or("default");
        if kind == "default" {
            return Ok(None);
        }
        let number = |key: &str| of[key].as_f64().ok_or_else(|| format!("`rope_scaling` has no `{key}`"));
        if kind != "llama3" {
            return Err(format!("positions are scaled by `{kind}`, and only `llama3` is supported").into());
        }
        let (factor, low, high) =
            (number("factor")?, number("low_freq_factor")?, number("high_freq_factor")?);
        let (context, config) = (number("original_max_position_embeddings")?, self.config()?);
        let divisor = |at: usize| {
            let frequency = config.rope_base.powf(-2.0 * at as f64 / config.head as f64);
            let turns = context * frequency / std::f64::consts::TAU;
            let part = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            (1.0 / (part + (1.0 - part) / factor)) as f32
        };
        let columns = config.head / 2;
        let bytes = (0..columns).flat_map(|at| divisor(at).to_le_bytes()).collect();
        Ok(Some(Matrix { format: Format::F32, rows: 1, columns, bytes }))
    }
}

/// Adds the tensors of one file.
fn header(path: &Path, all: &mut HashMap<String, (PathBuf, Value, u64)>) -> Result<()> {
    let mut file = File::open(path)?;
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > file.metadata()?.len() {
        return Err("the header is longer than the file".into());
    }
    let mut text = vec![0; usize::try_from(length)?];
    file.read_exact(&mut text)?;
    if let Value::Object(tensors) = serde_json::from_slice(&text)? {
        all.extend(tensors.into_iter().map(|(name, of)| (name, (path.to_owned(), of, 8 + length))));
    }
    Ok(())
}

/// The name of a tensor of GGUF files in this format.
fn name_here(name: &str) -> String {
    let part = |of: &str| match of {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        _ => "mlp.down_proj",
    };
    match name.split('.').collect::<Vec<_>>()[..] {
        ["blk", layer, of, _] => format!("model.layers.{layer}.{}.weight", part(of)),
        ["token_embd", _] => "model.embed_tokens.weight".to_owned(),
        ["output_norm", _] => "model.norm.weight".to_owned(),
        _ => "lm_head.weight".to_owned(),
    }
}

impl Tensors for Folder {
    fn matrix(&mut self, name: &str) -> Result<Option<Matrix>> {
        if name == "rope_freqs.weight" {
            return self.divisors();
        }
        let name = name_here(name);
        let Some((path, of, data)) = self.tensors.get(&name) else { return Ok(None) };
        let format = match of["dtype"].as_str().unwrap_or_default() {
            "F32" => Format::F32,
            "F16" => Format::F16,
            "BF16" => Format::Bf16,
            other => return Err(format!("`{name}` has type {other}: F32, F16 and BF16 are read").into()),
        };
        let numbers =
            |key: &str| of[key].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_u64);
        let extents: Vec<usize> = numbers("shape").map(|of| of as usize).collect();
        let offsets: Vec<u64> = numbers("data_offsets").collect();
        let ([.., columns], [start, end]) = (&extents[..], &offsets[..]) else {
            return Err(format!("`{name}` has no shape or no offsets").into());
        };
        let mut file = File::open(path)?;
        let length = end.checked_sub(*start).filter(|_| file.metadata().is_ok_and(|of| *end <= of.len()));
        file.seek(SeekFrom::Start(data.saturating_add(*start)))?;
        let mut bytes = vec![0; usize::try_from(length.ok_or("a tensor is out of its file")?)?];
        file.read_exact(&mut bytes)?;
        let rows = extents.iter().rev().skip(1).try_fold(1usize, |rows, of| rows.checked_mul(*of));
        let rows = rows.ok_or("a tensor is too large")?;
        Ok(Some(
            Matrix { format, rows, columns: *columns, bytes }
                .checked()
                .map_err(|why| format!("`{name}`: {why}"))?,
        ))
    }
}
