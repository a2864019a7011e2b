//! Damaged GGUF files are errors.

use std::fs;

use decoder::model::Model;

fn text(of: &str) -> Vec<u8> {
    [&(of.len() as u64).to_le_bytes(), of.as_bytes()].concat()
}

/// A key with a value: its type, and its bytes.
fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key), &kind.to_le_bytes()[..], value].concat()
}

fn list(of: &[&str]) -> Vec<u8> {
    let texts = of.iter().flat_map(|of| text(of));
    [8u32.to_le_bytes().to_vec(), (of.len() as u64).to_le_bytes().to_vec(), texts.collect()].concat()
}

/// A file with all metadata and a single tensor.
fn file() -> Vec<u8> {
    let size = |key: &str, value: u32| pair(&format!("llama.{key}"), 4, &value.to_le_bytes());
    let pairs = [
        pair("general.architecture", 8, &text("llama")),
        size("block_count", 1),
        size("embedding_length", 32),
        size("feed_forward_length", 48),
        size("attention.head_count", 4),
        size("attention.head_count_kv", 2),
        size("context_length", 64),
        pair("llama.attention.layer_norm_rms_epsilon", 6, &1e-5f32.to_le_bytes()),
        pair("tokenizer.ggml.model", 8, &text("gpt2")),
        pair("tokenizer.ggml.pre", 8, &text("smollm")),
        pair("tokenizer.ggml.tokens", 9, &list(&["a", "b", "ab"])),
        pair("tokenizer.ggml.merges", 9, &list(&["a b"])),
    ];
    let tensor = [
        &text("blk.0.attn_q.weight")[..],
        &2u32.to_le_bytes(),
        &32u64.to_le_bytes(),
        &32u64.to_le_bytes(),
        &3u32.to_le_bytes(), // Q4_1
        &0u64.to_le_bytes(),
    ];
    let counts = [1u64, pairs.len() as u64].map(u64::to_le_bytes).concat();
    let header = [&b"GGUF"[..], &3u32.to_le_bytes(), &counts, &pairs.concat(), &tensor.concat()].concat();
    let data = header.len().next_multiple_of(32) + 32 * 20;
    [header, vec![7; data]].concat()
}

fn opened(bytes: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!("decoder-{}.gguf", std::process::id()));
    fs::write(&path, bytes).unwrap();
    let opened = Model::open(&path).map(|_| ());
    fs::remove_file(&path).unwrap();
    opened.expect_err("a tensor is missing").to_string()
}

#[test]
fn damaged_files_are_errors() {
    let file = file();
    assert_eq!(opened(&file), "the model has no `blk.0.attn_k.weight`");
    for at in (0..file.len()).step_by(3) {
        let mut bytes = file.clone();
        bytes[at] = bytes[at].wrapping_add(1 + (at % 255) as u8);
        opened(&bytes);
        if at % 2 == 0 {
            opened(&file[..at]);
        }
    }
}
