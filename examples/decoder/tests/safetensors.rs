//! A small model in a folder of safetensors, with positions scaled as by Llama 3: logits are near the logits of transformers for the same weights.

use std::fs;
use std::sync::Arc;

use decoder::engine::{Backend, Batch};
use decoder::host::Host;
use decoder::model::Model;
use decoder::tokenizer::Tokenizer;
use serde_json::{Map, Value, json};

const WIDTH: usize = 32;
const VOCABULARY: usize = 300;

/// The tensors and their extents.
fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut all = vec![("model.embed_tokens".to_owned(), vec![VOCABULARY, WIDTH])];
    for layer in 0..2 {
        let parts = [
            ("self_attn.q_proj", [32, WIDTH]),
            ("self_attn.k_proj", [16, WIDTH]),
            ("self_attn.v_proj", [16, WIDTH]),
            ("self_attn.o_proj", [WIDTH, 32]),
            ("mlp.gate_proj", [48, WIDTH]),
            ("mlp.up_proj", [48, WIDTH]),
            ("mlp.down_proj", [WIDTH, 48]),
        ];
        all.extend(parts.map(|(part, extents)| (format!("model.layers.{layer}.{part}"), extents.to_vec())));
        let norms = ["input_layernorm", "post_attention_layernorm"];
        all.extend(norms.map(|norm| (format!("model.layers.{layer}.{norm}"), vec![WIDTH])));
    }
    all.push(("model.norm".to_owned(), vec![WIDTH]));
    all.push(("lm_head".to_owned(), vec![VOCABULARY, WIDTH]));
    all.into_iter().map(|(name, extents)| (name + ".weight", extents)).collect()
}

/// The file: weights are functions of their numbers.
fn file() -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, extents) in tensors() {
        let (seed, start) = (name.bytes().map(usize::from).sum::<usize>() % 1000, data.len());
        for at in 0..extents.iter().product() {
            let number = ((at * 7919 + seed * 104_729) % 2001) as f64 / 1000.0 - 1.0;
            let weight = if extents.len() > 1 { number * 0.4 } else { 1.0 + number * 0.1 };
            data.extend((weight as f32).to_le_bytes());
        }
        let offsets = [start, data.len()];
        header.insert(name, json!({ "dtype": "F32", "shape": extents, "data_offsets": offsets }));
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// The files of the folder.
fn files() -> [(&'static str, Vec<u8>); 3] {
    let scaling = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32
    });
    let config = json!({
        "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": scaling, "eos_token_id": [2]
    });
    let vocabulary: Map<String, Value> =
        [("a", 0), ("b", 1), ("ab", 2)].map(|(text, id)| (text.into(), id.into())).into_iter().collect();
    let model = json!({ "type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]] });
    let tokenizer = json!({ "model": model, "pre_tokenizer": { "type": "ByteLevel" }, "added_tokens": [] });
    [
        ("config.json", config.to_string().into_bytes()),
        ("tokenizer.json", tokenizer.to_string().into_bytes()),
        ("model.safetensors", file()),
    ]
}

/// Opens a model of these files.
fn opened(files: &[(&str, Vec<u8>)], name: &str) -> decoder::Result<(Model, Tokenizer)> {
    let folder = std::env::temp_dir().join(format!("decoder-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    files.iter().for_each(|(file, bytes)| fs::write(folder.join(file), bytes).unwrap());
    let opened = Model::open(&folder);
    fs::remove_dir_all(&folder).unwrap();
    opened
}

/// Logits of 100 tokens.
fn logits(model: Model) -> Vec<f32> {
    let tokens: Vec<u32> = (0..100).map(|at| at * 7 % VOCABULARY as u32).collect();
    let (positions, sequences) = ((0..100).collect(), vec![0; 100]);
    let batch = Batch { tokens, positions, sequences, tables: vec![vec![1, 0]], wanted: vec![99] };
    Host::new(Arc::new(model), 2).forward(&batch).unwrap()
}

#[test]
fn logits_are_near_transformers() {
    let (model, tokenizer) = opened(&files(), "whole").unwrap();
    assert_eq!((tokenizer.encode("abba").unwrap(), &tokenizer.end[..]), (vec![2, 1, 0], &[2][..]));
    let logits = logits(model);
    // LlamaForCausalLM in f32, transformers 5.24.
    let wanted = [1.3791, -1.1915, -1.9019, 0.2399, 0.077, -1.813, 0.4692, 1.6916];
    for (got, wanted) in logits.iter().zip(wanted) {
        assert!((got - wanted).abs() < 1e-3, "{:?}", &logits[..8]);
    }
}

/// Bytes of the texts and of the header that are changed, and files that end early, give an error or a model.
#[test]
fn damaged_files_are_errors() {
    let mut refused = 0;
    for (at, length) in [(0, 600), (1, 200), (2, 400)] {
        for index in (0..length).step_by(3) {
            let mut files = files();
            let bytes = &mut files[at].1;
            let index = index % bytes.len();
            match index % 2 {
                0 => bytes[index] = bytes[index].wrapping_add(1 + (index % 250) as u8),
                _ => bytes.truncate(index),
            }
            refused += usize::from(opened(&files, "damaged").is_err());
        }
    }
    assert!(refused > 200, "{refused} were refused");
}
