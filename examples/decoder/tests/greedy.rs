//! The likeliest tokens and the logits of a real model, compared with transformers, which computes in f32 as well.
//! `tests/reference.py` makes `tests/greedy.json`. Without the model, which `fetch.py` fetches, there is no test.

use std::path::PathBuf;
use std::sync::Arc;

use decoder::device::OnDevice;
use decoder::engine::{Backend, Batch, Engine, Settings};
use decoder::host::Host;
use decoder::kernels::{CHUNK, Kernels};
use decoder::model::Model;
use decoder::tokenizer::Tokenizer;

/// The model, if it has been fetched.
fn fetched() -> Option<(Arc<Model>, Tokenizer)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/smollm2");
    let file = folder.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    if !file.exists() {
        assert!(std::env::var_os("TILEWRIGHT_REQUIRE_MODEL").is_none(), "there is no {}", file.display());
        println!("there is no {}: run examples/decoder/fetch.py", file.display());
        return None;
    }
    let (model, tokenizer) = Model::open(&file).unwrap_or_else(|why| panic!("{why}"));
    Some((Arc::new(model), tokenizer))
}

/// A prompt, its tokens and those that come after, and logits after the prompt.
struct Case {
    prompt: String,
    tokens: Vec<u32>,
    count: usize,
    logits: Vec<f32>,
}

fn cases() -> Vec<Case> {
    let all: serde_json::Value = serde_json::from_str(include_str!("greedy.json")).unwrap();
    let case = |of: &serde_json::Value| Case {
        prompt: of["prompt"].as_str().unwrap().to_owned(),
        tokens: of["tokens"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect(),
        count: of["prompt_tokens"].as_u64().unwrap() as usize,
        logits: of["logits"].as_array().unwrap().iter().map(|of| of.as_f64().unwrap() as f32).collect(),
    };
    // A seed in the variable draws a quarter of them.
    let seed = std::env::var("TILEWRIGHT_SWEEP").ok().and_then(|seed| seed.parse::<usize>().ok());
    let all = all.as_array().unwrap().iter().enumerate();
    all.filter(|(at, _)| seed.is_none_or(|seed| at % 4 == seed % 4)).map(|(_, of)| case(of)).collect()
}

/// The texts of a backend that has 256 pages.
fn texts(backend: impl Backend, tokenizer: &Tokenizer, cases: &[Case]) -> Vec<Vec<u32>> {
    let mut engine = Engine::new(backend, &tokenizer.end);
    let mut texts = Vec::new();
    for case in cases {
        let tokens = tokenizer.encode(&case.prompt).unwrap();
        assert_eq!(tokens, case.tokens[..case.count], "{:?}", case.prompt);
        texts.push((engine.join(&tokens, Settings::default()).unwrap(), tokens));
    }
    while !engine.is_idle() {
        for event in engine.step().unwrap() {
            texts.iter_mut().filter(|of| of.0 == event.id).for_each(|of| of.1.push(event.token));
        }
    }
    assert_eq!(engine.free_pages(), 256);
    texts.into_iter().map(|(_, text)| text).collect()
}

#[test]
#[ignore = "needs a GPU"]
fn texts_of_a_gpu_are_nearly_equal() {
    let Some((model, tokenizer)) = fetched() else { return };
    let kernels = Kernels::new(OnDevice::open().unwrap(), &model, 256, CHUNK).unwrap();
    let cases = cases();
    let texts = texts(kernels, &tokenizer, &cases);
    let equal = texts.iter().zip(&cases).filter(|(text, case)| **text == case.tokens).count();
    println!("{equal} of {} texts are equal", cases.len());
    // Kernels compute in f16, where likeliest tokens that are nearly as likely as others may differ.
    assert!(equal * 5 >= cases.len() * 4, "{equal} of {}", cases.len());
}

#[test]
fn texts_are_equal_to_transformers() {
    let Some((model, tokenizer)) = fetched() else { return };
    let cases = cases();
    let texts = texts(Host::new(model, 256), &tokenizer, &cases);
    for (text, case) in texts.iter().zip(&cases) {
        assert_eq!(text, &case.tokens, "{}\n{}", tokenizer.text(text), tokenizer.text(&case.tokens));
    }
}

#[test]
fn logits_are_near_transformers() {
    let Some((model, _)) = fetched() else { return };
    let mut host = Host::new(model, 16);
    for case in cases() {
        let tokens = case.tokens[..case.count].to_vec();
        let batch = Batch {
            positions: (0..case.count as u32).collect(),
            sequences: vec![0; case.count],
            tables: vec![(0..16).collect()],
            wanted: vec![case.count - 1],
            tokens,
        };
        let logits = host.forward(&batch).unwrap();
        let most = logits.iter().copied().fold(f32::MIN, f32::max);
        let wanted = case.logits.iter();
        for (got, wanted) in logits[..8].iter().chain([&most]).zip(wanted) {
            assert!((got - wanted).abs() < 2e-3, "{:?}: {got} and {wanted}", case.prompt);
        }
    }
}
