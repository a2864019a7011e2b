//! Layers with random weights: kernels in the simulator, compared with plain loops.

#[allow(dead_code)]
#[path = "../../../bench/gpu/decoder/soak.rs"]
mod soak;

use std::sync::Arc;

use decoder::engine::{Backend, Batch, Choice};
use decoder::host::Host;
use decoder::kernels::Kernels;
use decoder::model::{Config, Experts, Layer, Model};
use decoder::simulated::Simulated;
use decoder::weights::{Format, Matrix};
use tilewright::{bf16, f16};

/// Pseudo-random numbers from 0 to 65535.
fn words(seed: u32) -> impl Iterator<Item = u16> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as u16
    })
}

/// Weights of about 1/√columns.
fn matrix(format: Format, rows: usize, columns: usize, seed: u32) -> Matrix {
    let (elements, size) = format.block();
    let (mut random, spread) = (words(seed), 2.0 / (columns as f32).sqrt());
    let mut number = |scale: f32| (f32::from(random.next().unwrap()) / 32768.0 - 1.0) * scale;
    let mut bytes = Vec::new();
    for _ in 0..rows * columns / elements {
        let start = bytes.len();
        match format {
            Format::F32 => bytes.extend(number(spread).to_le_bytes()),
            Format::F16 => bytes.extend(f16::from_f32(number(spread)).to_bits().to_le_bytes()),
            Format::Bf16 => bytes.extend(bf16::from_f32(number(spread)).to_bits().to_le_bytes()),
            Format::Q8 => bytes.extend(f16::from_f32(number(spread) / 128.0).to_bits().to_le_bytes()),
            Format::Q4 => {
                let scale = number(spread) / 8.0;
                bytes.extend(
                    [scale, -7.5 * scale].map(|of| f16::from_f32(of).to_bits().to_le_bytes()).concat(),
                );
            }
        }
        bytes.extend(words(seed + start as u32).take(size - (bytes.len() - start)).map(|of| of as u8));
    }
    Matrix { format, rows, columns, bytes }.checked().unwrap()
}

fn model(config: Config, vocabulary: usize, [embedding, weights]: [Format; 2]) -> Arc<Model> {
    let Config { width, hidden, .. } = config;
    let ([queries, keys], count) = (config.widths(), config.experts.map_or(1, |of| of.count));
    let norm =
        |seed| matrix(Format::F32, 1, width, seed).to_f32().iter().map(|of| 1.0 + of).collect::<Vec<_>>();
    let layer = |at: usize| {
        let of = |rows, columns, seed| matrix(weights, rows, columns, 10 * at as u32 + seed);
        Layer {
            attention_norm: norm(1),
            qkv: of(queries + 2 * keys, width, 2),
            output: of(width, queries, 3),
            ffn_norm: norm(4),
            router: config.experts.map(|experts| of(experts.count, width, 9)),
            gate_up: of(count * 2 * hidden, width, 5),
            down: of(count * width, hidden, 6),
        }
    };
    let layers = (0..config.layers).map(layer).collect();
    let embedding = matrix(embedding, vocabulary, width, 7);
    let divisors = Some((0..config.head / 2).map(|at| 1.0 + at as f32 / 8.0).collect());
    Arc::new(Model { config, embedding, layers, norm: norm(8), head: None, divisors })
}

#[track_caller]
fn check(config: Config, vocabulary: usize, formats: [Format; 2], prompt: u32, hopper: bool) {
    let model = model(config, vocabulary, formats);
    let mut host = Host::new(model.clone(), 8);
    let mut kernels = Kernels::new(Simulated::new(hopper), &model, 8, 128).unwrap();
    // The beginnings of two prompts, the rest of the first one, then a token for each.
    let tables = vec![vec![5, 1], vec![3]];
    let batch = |parts: &[(usize, std::ops::Range<u32>)], wanted: &[usize]| Batch {
        tokens: parts
            .iter()
            .flat_map(|(row, part)| part.clone().map(|at| (at * 7 + *row as u32) % vocabulary as u32))
            .collect(),
        positions: parts.iter().flat_map(|(_, part)| part.clone()).collect(),
        sequences: parts.iter().flat_map(|(row, part)| part.clone().map(|_| *row)).collect(),
        tables: tables.clone(),
        wanted: wanted.to_vec(),
    };
    let both = batch(&[(0, prompt..prompt + 1), (1, 2..3)], &[0, 1]);
    let last = prompt as usize - 4;
    for batch in [batch(&[(0, 0..3), (1, 0..2)], &[4]), batch(&[(0, 3..prompt)], &[last]), both.clone()] {
        let (wanted, got) = (host.forward(&batch).unwrap(), kernels.forward(&batch).unwrap());
        assert_eq!(got.len(), wanted.len());
        let most = wanted.iter().fold(1.0f32, |most, of| most.max(of.abs()));
        for (at, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
            assert!((got - wanted).abs() < 1e-2 * most, "{formats:?}: logit {at} is {got}, not {wanted}");
        }
    }
    // The likeliest tokens, and samples among half of the probability.
    let choice = |temperature, random| Choice { temperature, top_p: 0.5, random };
    let logits = kernels.forward(&both).unwrap();
    let likeliest = |row: &[f32]| (0..vocabulary).max_by(|a, b| row[*a].total_cmp(&row[*b])).unwrap() as u32;
    let wanted: Vec<u32> = logits.chunks_exact(vocabulary).map(likeliest).collect();
    assert_eq!(kernels.choose(&both, &[choice(0.0, 0.0); 2]).unwrap(), wanted);
    // Three steps at once choose the tokens of three steps.
    let (mut next, mut alone) = (both.clone(), Vec::<u32>::new());
    for _ in 0..3 {
        next.tokens = kernels.choose(&next, &[choice(0.0, 0.0); 2]).unwrap();
        next.positions.iter_mut().for_each(|position| *position += 1);
        alone.extend(&next.tokens);
    }
    assert_eq!(kernels.choose(&both, &[choice(0.0, 0.0); 6]).unwrap(), alone);
    let chosen = kernels.choose(&both, &[choice(1.0, 0.3), choice(1.0, 0.9)]).unwrap();
    for (row, token) in logits.chunks_exact(vocabulary).zip(chosen) {
        let weight = |of: f32| f64::from(of).exp();
        let own = row[token as usize];
        let likelier: f64 = row.iter().filter(|of| **of > own).map(|of| weight(*of)).sum();
        let all: f64 = row.iter().map(|of| weight(*of)).sum();
        assert!(likelier < 0.5 * all * (1.0 + 1e-3), "token {token} is not among half of the probability");
    }
}

const SMALL: Config = Config {
    layers: 2,
    width: 96,
    hidden: 160,
    heads: 4,
    kv_heads: 2,
    head: 32,
    context: 128,
    epsilon: 1e-5,
    rope_base: 10_000.0,
    rope_pairs: false,
    experts: None,
};

#[test]
fn small_models_of_each_format() {
    for (at, formats) in
        [[Format::Q8, Format::Q4], [Format::F16, Format::Q8], [Format::Bf16, Format::F32], [Format::Q4; 2]]
            .into_iter()
            .enumerate()
    {
        check(SMALL, 70, formats, 70, at == 2);
    }
}

/// The sizes of SmolLM2-135M.
#[test]
fn a_layer_of_a_real_size() {
    let real = Config { layers: 1, width: 576, hidden: 1536, heads: 9, kv_heads: 3, head: 64, ..SMALL };
    check(real, 300, [Format::Q8, Format::Q4], 6, true);
}

/// Four heads of queries for a head of keys, as in Llama 3.
#[test]
fn heads_in_groups() {
    let grouped = Config { layers: 1, heads: 8, kv_heads: 2, head: 128, ..SMALL };
    check(grouped, 70, [Format::F16; 2], 9, true);
}

#[test]
fn experts() {
    let experts = Config { layers: 1, experts: Some(Experts { count: 4, used: 2 }), ..SMALL };
    check(experts, 70, [Format::F16; 2], 40, true);
}

#[test]
fn sequences_come_and_go() {
    let kernels = || Kernels::new(Simulated::new(true), &soak::model(8).unwrap(), 1, 64).unwrap();
    let done = soak::run([kernels(), kernels()], 3, 8).unwrap();
    assert!(done.contains("3 sequences joined") && done.contains("pages are free"), "{done}");
}
