//! Times of models of random weights on a GPU.

use std::time::Instant;

use tilewright::Elem;
use tilewright::prelude::*;

use decoder::Result;
use decoder::device::OnDevice;
use decoder::engine::{Backend, Engine, PAGE, Settings};
use decoder::kernels::{CHUNK, Kernels};
use decoder::launch::{Launch, Runner, Value};
use decoder::model::{Config, Model};
use decoder::weights::Matrix;

/// Bytes of a copy that is timed, and how often it is.
const COPIED: usize = 1 << 30;
const COPIES: u32 = 10;

#[kernel]
fn copied(x: &Tensor<u32, N>, y: &mut Tensor<u32, N>) {
    copy(tile(x, 4096, block.x), tile(y, 4096, block.x));
}

/// The bytes a second that a copy reads and writes.
fn copy_speed(device: &mut OnDevice) -> Result<f64> {
    let count = COPIED / 4;
    let [x, y, small] =
        [device.zeros(Elem::U32, count)?, device.zeros(Elem::U32, count)?, device.zeros(Elem::U32, 1)?];
    let args = vec![Value::vector(x, count), Value::vector(y, count).written()];
    let launch = Launch { kernel: device.kernel(copied().def())?, args };
    let mut timed = |times: u32| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..times {
            device.run(None, &|| vec![launch.clone()])?;
        }
        device.read(small)?;
        Ok(start.elapsed().as_secs_f64())
    };
    timed(1)?;
    Ok(f64::from(COPIES) * 2.0 * COPIED as f64 / timed(COPIES)?)
}

/// The bytes that a step of `batch` sequences must read: weights, and keys and values of `context` tokens. Of experts it is the mean
/// number that some token has, if all are equally probable.
fn step_bytes(model: &Model, batch: usize, context: usize) -> f64 {
    let bytes = |of: &Matrix| (of.rows * of.row_bytes()) as f64;
    let Config { layers, experts, .. } = model.config;
    let used = experts.map_or(1.0, |of| 1.0 - (1.0 - of.used as f64 / of.count as f64).powi(batch as i32));
    let layer = |of: &decoder::model::Layer| {
        let router = of.router.as_ref().map_or(0.0, bytes);
        bytes(&of.qkv) + bytes(&of.output) + router + used * (bytes(&of.gate_up) + bytes(&of.down))
    };
    let weights: f64 = model.layers.iter().map(layer).sum::<f64>() + bytes(&model.head().halved());
    weights + (batch * context * layers * 4 * model.config.widths()[1]) as f64
}

/// Runs sequences of random tokens: the times of their first tokens, and of the tokens after these.
fn times(engine: &mut Engine<impl Backend>, batch: usize, length: usize, tokens: usize) -> Result<[f64; 2]> {
    let vocabulary = engine.backend.vocabulary();
    for of in 0..batch {
        let prompt: Vec<u32> =
            (0..length).map(|at| ((of * 7919 + at * 104_729) % vocabulary) as u32).collect();
        engine.join(&prompt, Settings { tokens, ..Settings::default() })?;
    }
    let (start, mut first) = (Instant::now(), 0.0);
    let mut count = 0;
    while !engine.is_idle() {
        count += engine.step()?.len();
        if first == 0.0 && count >= batch {
            first = start.elapsed().as_secs_f64();
        }
    }
    Ok([first, start.elapsed().as_secs_f64() - first])
}

/// What is measured.
pub struct Sizes {
    /// Sequences that decode at once.
    pub batches: Vec<usize>,
    /// Tokens of each before.
    pub context: usize,
    /// Tokens of a prompt, or 0.
    pub prefill: usize,
}

/// Prints the times of a model of random weights, with this number of tokens after each prompt.
pub fn run(model: &Model, Sizes { batches, context, prefill }: &Sizes, tokens: usize) -> Result<()> {
    let (context, prefill, tokens) = (*context, *prefill, tokens.max(2));
    let start = Instant::now();
    let mut device = OnDevice::open()?;
    let speed = copy_speed(&mut device)?;
    let most = batches.iter().max().map_or(1, |most| most * (context + tokens).div_ceil(PAGE));
    let pages = most.max((prefill + tokens).div_ceil(PAGE));
    let mut engine = Engine::new(Kernels::new(device, model, pages, CHUNK)?, &[]);
    println!("ready after {:.1} s; a copy: {:.2} TB/s", start.elapsed().as_secs_f64(), speed / 1e12);
    for &batch in batches {
        let [first, rest] = best(&mut engine, batch, context, tokens)?;
        let step = rest / (tokens - 1) as f64;
        let bytes = step_bytes(model, batch, context + tokens / 2);
        println!(
            "decode {batch}: {:.3} ms a step, {:.0} tokens a second, {:.2} GB a step at {:.2} of a copy; prompts of {context} after {:.1} ms",
            step * 1e3,
            batch as f64 / step,
            bytes / 1e9,
            bytes / step / speed,
            first * 1e3,
        );
    }
    if prefill > 0 {
        let [first, _] = best(&mut engine, 1, prefill, 2)?;
        println!("prefill {prefill}: {:.2} ms, {:.0} tokens a second", first * 1e3, prefill as f64 / first);
    }
    println!("{:.1} s in all", start.elapsed().as_secs_f64());
    Ok(())
}

/// The least times of four runs. The first one compiles.
fn best(engine: &mut Engine<impl Backend>, batch: usize, length: usize, tokens: usize) -> Result<[f64; 2]> {
    let mut best = [f64::MAX; 2];
    for _ in 0..4 {
        let times = times(engine, batch, length, tokens)?;
        best = [0, 1].map(|at| best[at].min(times[at]));
    }
    Ok(best)
}
