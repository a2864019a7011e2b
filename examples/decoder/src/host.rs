//! The model in plain loops on the CPU, in f32.

use std::sync::Arc;

use crate::Result;
use crate::engine::{Backend, Batch, PAGE};
use crate::model::{Config, Layer, Model};
use crate::weights::{Matrix, dot};

/// Weights, and pages of keys and values.
pub struct Host {
    model: Arc<Model>,
    /// For each layer, rows of all heads: a row for each token of each page.
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    pages: usize,
    /// Cosines and sines, a row for each position.
    rotations: [Vec<f32>; 2],
}

impl Host {
    pub fn new(model: Arc<Model>, pages: usize) -> Host {
        let config = &model.config;
        let rotations = model.rotations();
        // Memory of zeros that is never written takes no room.
        let empty = || (0..config.layers).map(|_| vec![0.0; pages * PAGE * config.widths()[1]]).collect();
        Host { keys: empty(), values: empty(), pages, rotations, model }
    }

    /// Turns the heads of a row by the angles of a position.
    fn rotate(&self, row: &mut [f32], position: usize) {
        let half = self.model.config.head / 2;
        for head in row.chunks_exact_mut(2 * half) {
            let (left, right) = head.split_at_mut(half);
            for (at, (a, b)) in left.iter_mut().zip(right).enumerate() {
                let [cosine, sine] = [0, 1].map(|of| self.rotations[of][position * half + at]);
                (*a, *b) = (*a * cosine - *b * sine, *b * cosine + *a * sine);
            }
        }
    }

    /// Attention of one head of a token to all tokens up to it.
    fn attend(
        &self,
        layer: usize,
        (pages, position): (&[u32], usize),
        kv: usize,
        query: &[f32],
        out: &mut [f32],
    ) {
        let (width, head) = (self.model.config.widths()[1], query.len());
        let row = |at: usize| (pages[at / PAGE] as usize * PAGE + at % PAGE) * width + kv * head;
        let scale = 1.0 / (head as f32).sqrt();
        let score = |at: usize| scale * dot(query, &self.keys[layer][row(at)..][..head]);
        let mut weights: Vec<f32> = (0..=position).map(score).collect();
        let most = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        weights.iter_mut().for_each(|of| *of = (*of - most).exp());
        let total: f32 = weights.iter().sum();
        out.fill(0.0);
        for (at, weight) in weights.iter().enumerate() {
            let value = &self.values[layer][row(at)..][..head];
            out.iter_mut().zip(value).for_each(|(out, value)| *out += weight / total * value);
        }
    }

    /// The attention of a layer: queries, keys and values are the rows of `qkv`.
    fn attention(&mut self, layer: usize, batch: &Batch, qkv: &mut [f32]) -> Vec<f32> {
        let (Config { heads, kv_heads, head, .. }, [queries, keys]) =
            (self.model.config, self.model.config.widths());
        let all = || batch.positions.iter().map(|of| *of as usize).zip(&batch.sequences);
        for (row, (position, sequence)) in qkv.chunks_exact_mut(queries + 2 * keys).zip(all()) {
            self.rotate(&mut row[..queries + keys], position);
            let slot = batch.tables[*sequence][position / PAGE] as usize * PAGE + position % PAGE;
            self.keys[layer][slot * keys..][..keys].copy_from_slice(&row[queries..][..keys]);
            self.values[layer][slot * keys..][..keys].copy_from_slice(&row[queries + keys..]);
        }
        let mut out = vec![0.0; batch.tokens.len() * queries];
        let rows = qkv.chunks_exact(queries + 2 * keys).zip(out.chunks_exact_mut(queries));
        for ((row, out), (position, sequence)) in rows.zip(all()) {
            for (at, (query, out)) in row.chunks_exact(head).zip(out.chunks_exact_mut(head)).enumerate() {
                let seen = (&batch.tables[*sequence][..], position);
                self.attend(layer, seen, at * kv_heads / heads, query, out);
            }
        }
        out
    }
}

/// Rows divided by the root of their mean square, times weights.
fn norm(x: &[f32], weights: &[f32], epsilon: f32) -> Vec<f32> {
    let row_of = |row: &[f32]| {
        let scale = 1.0 / (dot(row, row) / row.len() as f32 + epsilon).sqrt();
        row.iter().zip(weights).map(move |(x, weight)| x * scale * weight).collect::<Vec<_>>()
    };
    x.chunks_exact(weights.len()).flat_map(row_of).collect()
}

fn add(x: &mut [f32], more: &[f32]) {
    x.iter_mut().zip(more).for_each(|(x, more)| *x += more);
}

/// silu(gate)·up of rows that have both.
fn gated(rows: &[f32], hidden: usize) -> Vec<f32> {
    let row_of = |row: &[f32]| {
        let (gate, up) = row.split_at(hidden);
        gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect::<Vec<_>>()
    };
    rows.chunks_exact(2 * hidden).flat_map(row_of).collect()
}

/// The most probable experts of a row, and their shares, which add up to 1.
fn chosen(layer: &Layer, row: &[f32], used: usize) -> Vec<(usize, f32)> {
    let scores = layer.router.as_ref().map_or(Vec::new(), |router| router.times(row));
    let mut all: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.truncate(used);
    let most = all[0].1;
    let total: f32 = all.iter().map(|of| (of.1 - most).exp()).sum();
    all.into_iter().map(|(expert, score)| (expert, (score - most).exp() / total)).collect()
}

impl Backend for Host {
    fn config(&self) -> &Config {
        &self.model.config
    }

    fn vocabulary(&self) -> usize {
        self.model.embedding.rows
    }

    fn pages(&self) -> usize {
        self.pages
    }

    fn limits(&self) -> [usize; 2] {
        [64, 256]
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<f32>> {
        let model = self.model.clone();
        let config @ Config { width, hidden, epsilon, .. } = model.config;
        let mut x = vec![0.0; batch.tokens.len() * width];
        for (row, token) in x.chunks_exact_mut(width).zip(&batch.tokens) {
            model.embedding.row(*token as usize, row);
        }
        for (at, layer) in model.layers.iter().enumerate() {
            let mut qkv = layer.qkv.times(&norm(&x, &layer.attention_norm, epsilon));
            let attended = self.attention(at, batch, &mut qkv);
            add(&mut x, &layer.output.times(&attended));
            let normed = norm(&x, &layer.ffn_norm, epsilon);
            let Some(experts) = config.experts else {
                add(&mut x, &layer.down.times(&gated(&layer.gate_up.times(&normed), hidden)));
                continue;
            };
            for (x, row) in x.chunks_exact_mut(width).zip(normed.chunks_exact(width)) {
                for (expert, share) in chosen(layer, row, experts.used) {
                    let part = |of: &Matrix, rows: usize| of.part(expert * rows..(expert + 1) * rows);
                    let rows = part(&layer.gate_up, 2 * hidden).times(row);
                    let result = part(&layer.down, width).times(&gated(&rows, hidden));
                    x.iter_mut().zip(result).for_each(|(x, result)| *x += share * result);
                }
            }
        }
        let wanted: Vec<f32> =
            batch.wanted.iter().flat_map(|row| &x[row * width..][..width]).copied().collect();
        Ok(model.head().times(&norm(&wanted, &model.norm, epsilon)))
    }
}
