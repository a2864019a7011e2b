//! A small language model, trained with operators of this crate and with candle's, from the same weights.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use tilewright_candle as tilewright;

const TOKENS: usize = 64;
const HEADS: usize = 2;
const HEAD: usize = 64;
const WIDTH: usize = HEADS * HEAD;
const HIDDEN: usize = 256;
const LAYERS: usize = 2;
const STEPS: usize = 50;

/// The operators of a model.
struct Operators {
    norm: fn(&Tensor, &Tensor) -> Result<Tensor>,
    rope: fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    attention: fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    gate: fn(&Tensor) -> Result<Tensor>,
    linear: fn(&Tensor, &Tensor) -> Result<Tensor>,
    loss: fn(&Tensor, &Tensor) -> Result<Tensor>,
}

const SCALE: f32 = 0.125;

const OURS: Operators = Operators {
    norm: |x, w| tilewright::ops::rms_norm(x, w, 1e-5),
    rope: tilewright::rotary_emb::rope,
    attention: |q, k, v| tilewright::flash_attn(q, k, v, SCALE, true),
    gate: tilewright::ops::swiglu,
    linear: |x, w| tilewright::linear(x, w, None, None),
    loss: tilewright::loss::cross_entropy,
};

const CANDLE: Operators = Operators {
    norm: |x, w| candle_nn::ops::rms_norm_slow(x, w, 1e-5),
    rope: candle_nn::rotary_emb::rope_slow,
    attention: candle_attention,
    gate: candle_nn::ops::swiglu,
    linear: |x, w| x.broadcast_matmul(&w.t()?),
    loss: |x, target| candle_nn::loss::cross_entropy(&x.to_dtype(DType::F32)?, target),
};

/// Sequences of a batch, and their positions.
fn sizes(device: &Device) -> (usize, usize) {
    if device.is_cpu() { (4, 32) } else { (16, 256) }
}

/// Causal attention by candle's differentiable operators.
pub(crate) fn candle_attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let [q, k, v] = [q, k, v].map(|x| x.transpose(1, 2)?.contiguous());
    let (q, k, v) = (q?, k?, v?);
    let positions = q.dim(2)?;
    let masked =
        (0..positions * positions).map(|at| if at % positions > at / positions { -1e4f32 } else { 0.0 });
    let mask = Tensor::from_iter(masked, q.device())?.reshape((positions, positions))?.to_dtype(q.dtype())?;
    let scores = (q.matmul(&k.t()?)? * f64::from(SCALE))?.broadcast_add(&mask)?;
    candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&v)?.transpose(1, 2)?.contiguous()
}

struct Model {
    weights: Vec<Var>,
    angles: [Tensor; 2],
    sizes: (usize, usize),
    dtype: DType,
}

impl Model {
    /// Weights are in f32; products and norms have the type `dtype`.
    fn new(initial: &[Tensor], dtype: DType, device: &Device) -> Result<Model> {
        let weights =
            initial.iter().map(|of| Var::from_tensor(&of.to_device(device)?)).collect::<Result<_>>()?;
        let angle =
            |at: usize| (at / (HEAD / 2)) as f32 / 1e4f32.powf((at % (HEAD / 2)) as f32 / (HEAD / 2) as f32);
        let sizes = sizes(device);
        let table = |function: fn(f32) -> f32| {
            let values: Vec<f32> = (0..sizes.1 * HEAD / 2).map(|at| function(angle(at))).collect();
            Tensor::from_vec(values, (sizes.1, HEAD / 2), device)?.to_dtype(dtype)
        };
        Ok(Model { weights, angles: [table(f32::cos)?, table(f32::sin)?], sizes, dtype })
    }

    fn initial() -> Result<Vec<Tensor>> {
        let matrix = |rows: usize, columns: usize| {
            Tensor::randn(0f32, (columns as f32).sqrt().recip(), (rows, columns), &Device::Cpu)
        };
        let norm = || Tensor::ones(WIDTH, DType::F32, &Device::Cpu);
        let mut all = vec![matrix(TOKENS, WIDTH)?, norm()?, matrix(TOKENS, WIDTH)?];
        for _ in 0..LAYERS {
            all.extend([norm()?, matrix(3 * WIDTH, WIDTH)?, matrix(WIDTH, WIDTH)?]);
            all.extend([norm()?, matrix(2 * HIDDEN, WIDTH)?, matrix(WIDTH, HIDDEN)?]);
        }
        Ok(all)
    }

    fn loss(&self, by: &Operators, tokens: &Tensor) -> Result<Tensor> {
        let weights = self.weights.iter().map(|of| of.to_dtype(self.dtype)).collect::<Result<Vec<_>>>()?;
        let (batch, positions) = self.sizes;
        let (inputs, targets) = (tokens.narrow(1, 0, positions)?, tokens.narrow(1, 1, positions)?);
        let mut x = weights[0].embedding(&inputs.flatten_all()?)?.reshape((batch, positions, WIDTH))?;
        for layer in weights[3..].chunks(6) {
            let y = (by.linear)(&(by.norm)(&x, &layer[0])?, &layer[1])?;
            let heads =
                |part: usize| y.narrow(2, part * WIDTH, WIDTH)?.reshape((batch, positions, HEADS, HEAD));
            let rotate = |x: Tensor| {
                (by.rope)(&x.transpose(1, 2)?.contiguous()?, &self.angles[0], &self.angles[1])?
                    .transpose(1, 2)
            };
            let y = (by.attention)(&rotate(heads(0)?)?, &rotate(heads(1)?)?, &heads(2)?)?;
            x = (x + (by.linear)(&y.reshape((batch, positions, WIDTH))?, &layer[2])?)?;
            let y = (by.gate)(&(by.linear)(&(by.norm)(&x, &layer[3])?, &layer[4])?)?;
            x = (x + (by.linear)(&y, &layer[5])?)?;
        }
        let logits = (by.linear)(&(by.norm)(&x, &weights[1])?, &weights[2])?;
        (by.loss)(&logits.flatten_to(1)?, &targets.contiguous()?.flatten_all()?)
    }
}

/// Sequences in which a token determines the next one, but for one of eight.
fn tokens(step: usize, device: &Device) -> Result<Tensor> {
    let mut random = step as u64 * 7919 + 1;
    let mut next = || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as u32
    };
    let (batch, positions) = sizes(device);
    let mut all = Vec::new();
    for _ in 0..batch {
        let mut token = next() % TOKENS as u32;
        for _ in 0..=positions {
            all.push(token);
            token = if next() % 8 == 0 { next() } else { 5 * token + 3 } % TOKENS as u32;
        }
    }
    Tensor::from_vec(all, (batch, positions + 1), device)
}

/// Losses of a training run.
fn train(by: &Operators, initial: &[Tensor], dtype: DType, device: &Device) -> Result<Vec<f32>> {
    let model = Model::new(initial, dtype, device)?;
    let parameters = ParamsAdamW { lr: 3e-3, ..ParamsAdamW::default() };
    let mut optimizer = AdamW::new(model.weights.clone(), parameters)?;
    let start = std::time::Instant::now();
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let loss = model.loss(by, &tokens(step, device)?)?;
        optimizer.backward_step(&loss)?;
        losses.push(loss.to_dtype(DType::F32)?.to_scalar()?);
    }
    println!("  {STEPS} steps in {:.2?}", start.elapsed());
    Ok(losses)
}

pub(crate) fn run(device: &Device) -> Result<()> {
    let initial = Model::initial()?;
    for (dtype, tolerance) in [(DType::F32, 0.01), (DType::BF16, 0.05)] {
        println!("training in {dtype:?}: tilewright, then candle");
        let ours = train(&OURS, &initial, dtype, device)?;
        let theirs = train(&CANDLE, &initial, dtype, device)?;
        for step in [0, 1, 5, 10, 20, 30, 40, STEPS - 1] {
            println!("  step {step:2}: {:.4} {:.4}", ours[step], theirs[step]);
        }
        let apart = ours.iter().zip(&theirs).map(|(ours, theirs)| (ours - theirs).abs());
        let (sum, most) = apart.fold((0.0, 0f32), |(sum, most), apart| (sum + apart, most.max(apart)));
        let apart = sum / STEPS as f32;
        println!("  {apart:.4} apart on average, {most:.4} at most");
        if apart > tolerance || ours[STEPS - 1] > 0.6 * ours[0] {
            candle_core::bail!("the losses differ, or do not fall")
        }
    }
    Ok(())
}
