//! Operators on a GPU beside the operators on the CPU, with gradients; and a graph.

use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor, Var, bail};
use tilewright_candle::{
    Activation, QLinear, capture, flash_attn, flash_attn_alibi, flash_attn_alibi_windowed_softcap,
    flash_attn_varlen, flash_attn_varlen_paged_windowed, flash_attn_windowed, linear, loss, moe, ops,
    rotary_emb,
};

type Function<'f> = &'f dyn Fn(&[Tensor]) -> Result<Tensor>;

fn random(dims: &[usize], dtype: DType) -> Result<Tensor> {
    Tensor::randn(0f32, 1.0, dims, &Device::Cpu)?.to_dtype(dtype)
}

fn apart(one: &Tensor, other: &Tensor) -> Result<f64> {
    let host = |x: &Tensor| x.to_device(&Device::Cpu)?.to_dtype(DType::F64);
    (host(one)? - host(other)?)?.abs()?.flatten_all()?.max(0)?.to_scalar()
}

/// Compares the result, and the gradients of inputs of real numbers.
fn check(name: &str, tolerance: f64, device: &Device, inputs: &[Tensor], function: Function) -> Result<()> {
    let run = |device: &Device| {
        let variables: Vec<Option<Var>> = inputs
            .iter()
            .map(|x| x.dtype().is_float().then(|| Var::from_tensor(&x.to_device(device)?)).transpose())
            .collect::<Result<_>>()?;
        let tensors = inputs.iter().zip(&variables).map(|(x, variable)| match variable {
            Some(variable) => Ok(variable.as_tensor().clone()),
            None => x.to_device(device),
        });
        let y = function(&tensors.collect::<Result<Vec<_>>>()?)?;
        let weights = Tensor::arange(0f32, y.elem_count() as f32, device)?.cos()?;
        let grads = (y.flatten_all()?.to_dtype(DType::F32)? * weights)?.sum_all()?.backward()?;
        let mut all = vec![y];
        all.extend(variables.iter().flatten().filter_map(|variable| grads.get(variable).cloned()));
        Result::Ok(all)
    };
    let (device, host) = (run(device)?, run(&Device::Cpu)?);
    let differences =
        device.iter().zip(&host).map(|(device, host)| apart(device, host)).collect::<Result<Vec<_>>>()?;
    report(name, tolerance, &differences);
    Ok(())
}

fn report(name: &str, tolerance: f64, differences: &[f64]) {
    let agrees = differences.iter().all(|apart| *apart <= tolerance);
    FAILED.fetch_add(usize::from(!agrees), Ordering::Relaxed);
    println!("{} {name}: {differences:.5?} apart", if agrees { "ok    " } else { "FAILED" });
}

static FAILED: AtomicUsize = AtomicUsize::new(0);

/// Fails if a comparison has failed.
pub(crate) fn finish() -> Result<()> {
    match FAILED.load(Ordering::Relaxed) {
        0 => Ok(()),
        count => bail!("{count} comparisons failed"),
    }
}

pub(crate) fn run(device: &Device) -> Result<()> {
    for (dtype, tolerance) in [(DType::F32, 1e-3), (DType::F16, 0.1), (DType::BF16, 0.5)] {
        println!("{dtype:?}");
        for width in [96, 1000, 4096, 20000] {
            let x = [random(&[3, 5, width], dtype)?, random(&[width], dtype)?, random(&[width], dtype)?];
            check("rms_norm", tolerance, device, &x[..2], &|x| ops::rms_norm(&x[0], &x[1], 1e-5))?;
            check("layer_norm", tolerance, device, &x, &|x| ops::layer_norm(&x[0], &x[1], &x[2], 1e-5))?;
            check("softmax_last_dim", tolerance, device, &x[..1], &|x| ops::softmax_last_dim(&x[0]))?;
            let strided = |x: &[Tensor]| {
                ops::rms_norm(&x[0].narrow(2, 0, width / 2)?, &x[1].narrow(0, 0, width / 2)?, 1e-5)
            };
            check("rms_norm of parts of rows", tolerance, device, &x[..2], &strided)?;
            check("swiglu", tolerance, device, &x[..1], &|x| ops::swiglu(&x[0]))?;
        }
        let heads = [random(&[2, 3, 70, 64], dtype)?, random(&[80, 32], dtype)?, random(&[80, 32], dtype)?];
        check("rope", tolerance, device, &heads, &|x| {
            rotary_emb::rope(&x[0], &x[1].detach(), &x[2].detach())
        })?;
        for width in [64, 128, 256, 80, 32] {
            let x = [(200, 4), (300, 2), (300, 2)]
                .map(|(positions, heads)| random(&[2, positions, heads, width], dtype));
            let [q, k, v] = x;
            let x = [q?, k?, v?];
            for causal in [true, false] {
                check("flash_attn", tolerance, device, &x, &|x| {
                    flash_attn(&x[0], &x[1], &x[2], 0.1, causal)
                })?;
                let ends =
                    [Tensor::new(&[0u32, 7, 7, 200], device)?, Tensor::new(&[0u32, 90, 99, 300], device)?];
                let first = [x[0].get(0)?, x[1].get(0)?, x[2].get(0)?];
                check("flash_attn_varlen", tolerance, device, &first, &|x| {
                    let [queries, keys] = [0, 1].map(|index| ends[index].to_device(x[0].device()));
                    flash_attn_varlen(&x[0], &x[1], &x[2], &queries?, &keys?, 193, 201, 0.1, causal)
                })?;
            }
            check("flash_attn_windowed", tolerance, device, &x, &|x| {
                flash_attn_windowed(&x[0], &x[1], &x[2], 0.1, Some(40), Some(0))
            })?;
            check("flash_attn with a cap", tolerance, device, &x, &|x| {
                flash_attn_alibi_windowed_softcap(&x[0], &x[1], &x[2], None, 0.1, None, Some(0), 0.5)
            })?;
            check("flash_attn with slopes", tolerance, device, &x, &|x| {
                let slopes = Tensor::new(&[0.5f32, 0.25, 0.125, 0.0], x[0].device())?;
                flash_attn_alibi(&x[0], &x[1], &x[2], &slopes, 0.1, true)
            })?;
        }
        for width in [64, 128] {
            pages(dtype, width, tolerance, device)?;
        }
        experts(dtype, tolerance, device)?;
        let target = Tensor::arange(0u32, 40, &Device::Cpu)?;
        check("cross_entropy", tolerance, device, &[random(&[40, 9000], dtype)?, target], &|x| {
            loss::cross_entropy(&x[0], &x[1])
        })?;
        let x = [random(&[2, 70, 128], dtype)?, random(&[200, 128], dtype)?, random(&[200], dtype)?];
        for activation in [None, Some(Activation::Relu), Some(Activation::Gelu), Some(Activation::Silu)] {
            // Sums of 200 products of 16 bits.
            check("linear", 10.0 * tolerance, device, &x, &|x| {
                linear(&x[0], &x[1], Some(&x[2]), activation)
            })?;
        }
        if dtype != DType::F32 {
            for format in [GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4_1] {
                let weights = QTensor::quantize(&random(&[200, 256], DType::F32)?, format)?;
                check("QLinear", 10.0 * tolerance, device, &[random(&[7, 256], dtype)?], &|x| {
                    QLinear::new(&weights, dtype, x[0].device())?.forward(&x[0])
                })?;
            }
        }
    }
    Ok(())
}

/// Attention to pages: of the newest queries of two sequences, and of a prompt. Without gradients, the device runs its kernel.
fn pages(dtype: DType, width: usize, tolerance: f64, device: &Device) -> Result<()> {
    let x = [
        random(&[61, 4, width], dtype)?,
        random(&[20, 32, 2, width], dtype)?,
        random(&[20, 32, 2, width], dtype)?,
    ];
    let table: Vec<u32> = (0..20).map(|at| at * 7 % 20).collect();
    for (queries, keys) in [([0u32, 1, 2], [0u32, 310, 325]), ([0, 60, 61], [0, 60, 377])] {
        let attend = |x: &[Tensor]| {
            let on = |all: &[u32]| Tensor::new(all, x[0].device());
            let (q, queries, keys) = (x[0].narrow(0, 0, queries[2] as usize)?, on(&queries)?, on(&keys)?);
            let table = on(&table)?.reshape((2, 10))?;
            flash_attn_varlen_paged_windowed(
                &q,
                &x[1],
                &x[2],
                &queries,
                &keys,
                &table,
                None,
                60,
                317,
                0.1,
                None,
                Some(0),
                32,
                None,
            )
        };
        check("flash_attn_varlen_paged_windowed", tolerance, device, &x, &attend)?;
        let on_device: Vec<Tensor> = x.iter().map(|x| x.to_device(device)).collect::<Result<_>>()?;
        report("the same without gradients", tolerance, &[apart(&attend(&on_device)?, &attend(&x)?)?]);
    }
    Ok(())
}

/// Products of experts; one expert has no token.
fn experts(dtype: DType, tolerance: f64, device: &Device) -> Result<()> {
    let ids: Vec<u32> = (0..600).map(|at| at * 7 % 600).collect();
    let owners: Vec<u32> = (0..600).map(|at| if at < 350 { 0 } else { 2 + at / 400 }).collect();
    let x = [random(&[300, 256], dtype)?, random(&[5, 200, 256], dtype)?];
    check("moe_gemm", 10.0 * tolerance, device, &x, &|x| {
        let on = |all: &[u32]| Tensor::new(all, x[0].device());
        moe::moe_gemm(&x[0], &x[1], &None, &on(&ids)?, &on(&owners)?, 2, true)
    })
}

/// A part of a model in a graph, on new inputs at each launch.
#[allow(unsafe_code)]
pub(crate) fn graph() -> Result<()> {
    let device = Device::new_cuda_with_stream(0)?;
    let cuda = device.as_cuda_device()?;
    // SAFETY: all tensors are used on one stream.
    unsafe { cuda.disable_event_tracking() };
    let on = |x: Result<Tensor>| x?.to_device(&device);
    let norm = on(random(&[256], DType::BF16))?;
    let weight = on(random(&[512, 256], DType::BF16))?;
    let (x, y) = (on(random(&[32, 256], DType::BF16))?, Tensor::zeros((32, 256), DType::BF16, &device)?);
    let work = |x: &Tensor| ops::swiglu(&linear(&ops::rms_norm(x, &norm, 1e-5)?, &weight, None, None)?);
    let step = || y.slice_set(&work(&x)?, 0, 0);
    step()?;
    // SAFETY: the tensors live to the end of this function, and the graph is dropped before them.
    let graph = unsafe { capture(cuda, step) }?;
    for _ in 0..3 {
        let next = on(random(&[32, 256], DType::BF16))?;
        x.slice_set(&next, 0, 0)?;
        graph.launch().map_err(candle_core::Error::wrap)?;
        let apart = apart(&y, &work(&next)?)?;
        FAILED.fetch_add(usize::from(apart > 0.0), Ordering::Relaxed);
        println!("{} graph: {apart:.5} apart", if apart > 0.0 { "FAILED" } else { "ok    " });
    }
    Ok(())
}
