//! Operators beside candle's own: results, gradients, strided inputs, kernels in the simulator, messages.

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{D, DType, Device, Module, Result, Tensor, Var};
use candle_nn::ops::{layer_norm_slow, rms_norm_slow, softmax, swiglu};
use candle_nn::rotary_emb::rope_slow;
use tilewright_candle::{
    Activation, QLinear, flash_attn, flash_attn_alibi, flash_attn_alibi_windowed_softcap, flash_attn_varlen,
    flash_attn_varlen_alibi_windowed_softcap, flash_attn_varlen_paged_windowed, flash_attn_varlen_windowed,
    flash_attn_windowed, linear, matmul,
};
use tilewright_candle::{loss, moe, ops, rotary_emb};

const CPU: Device = Device::Cpu;

fn random(dims: &[usize]) -> Tensor {
    Tensor::randn(0f32, 1.0, dims, &CPU).unwrap()
}

#[track_caller]
fn near(ours: &Tensor, theirs: &Tensor, tolerance: f64, what: &str) {
    assert_eq!((ours.dims(), ours.dtype()), (theirs.dims(), theirs.dtype()), "{what}");
    let apart = (ours.to_dtype(DType::F64).unwrap() - theirs.to_dtype(DType::F64).unwrap()).unwrap();
    let apart = apart.abs().unwrap().flatten_all().unwrap().max(0).unwrap().to_scalar::<f64>().unwrap();
    assert!(apart <= tolerance, "{what}: {apart} apart");
}

/// A view of an input.
type Change<'f> = &'f dyn Fn(&Tensor) -> Result<Tensor>;
type Function<'f> = &'f dyn Fn(&[Tensor]) -> Result<Tensor>;

/// Compares results and gradients of two functions, with inputs as they are, transposed and narrowed.
#[track_caller]
fn check(ours: Function, theirs: Function, inputs: &[Tensor]) {
    let transposed = |x: &Tensor| x.transpose(0, x.rank() - 1)?.contiguous()?.transpose(0, x.rank() - 1);
    let narrowed = |x: &Tensor| Tensor::cat(&[x, x], D::Minus1)?.narrow(D::Minus1, 0, x.dim(D::Minus1)?);
    let views: [(&str, Change); 3] =
        [("contiguous", &|x| Ok(x.clone())), ("transposed", &transposed), ("narrowed", &narrowed)];
    for (what, view) in views {
        let result = |function: Function| {
            let variables: Vec<Option<Var>> =
                inputs.iter().map(|x| x.dtype().is_float().then(|| Var::from_tensor(x).unwrap())).collect();
            let tensors = inputs.iter().zip(&variables).map(|(x, variable)| match variable {
                Some(variable) => view(variable).unwrap(),
                None => x.clone(),
            });
            let y = function(&tensors.collect::<Vec<_>>()).unwrap();
            // Another weight for each element of the result.
            let weights = Tensor::arange(1f32, 1.0 + y.elem_count() as f32, &CPU).unwrap().sin().unwrap();
            let weights = weights.reshape(y.dims()).unwrap();
            let grads =
                (y.to_dtype(DType::F32).unwrap() * weights).unwrap().sum_all().unwrap().backward().unwrap();
            let grads: Vec<_> =
                variables.iter().map(|of| of.as_ref().and_then(|of| grads.get(of).cloned())).collect();
            (y, grads)
        };
        let ((y, dy), (z, dz)) = (result(ours), result(theirs));
        near(&y, &z, 1e-5, what);
        for (index, (ours, theirs)) in dy.iter().zip(&dz).enumerate() {
            match (ours, theirs) {
                (Some(ours), Some(theirs)) => near(ours, theirs, 2e-5, &format!("{what}, gradient {index}")),
                (None, None) => {}
                _ => panic!("{what}: one gradient {index} of two"),
            }
        }
    }
}

#[test]
fn norms_and_softmax() {
    let inputs = [random(&[3, 5, 40]), random(&[40]), random(&[40])];
    check(&|x| ops::rms_norm(&x[0], &x[1], 1e-5), &|x| rms_norm_slow(&x[0], &x[1], 1e-5), &inputs[..2]);
    check(
        &|x| ops::layer_norm(&x[0], &x[1], &x[2], 1e-5),
        &|x| layer_norm_slow(&x[0], &x[1], &x[2], 1e-5),
        &inputs,
    );
    check(&|x| ops::softmax_last_dim(&x[0]), &|x| softmax(&x[0], D::Minus1), &inputs[..1]);
}

#[test]
fn gates() {
    check(&|x| ops::swiglu(&x[0]), &|x| swiglu(&x[0]), &[random(&[3, 5, 34])]);
}

#[test]
fn rotary_embedding() {
    let inputs = [random(&[2, 3, 5, 8]), random(&[7, 4]), random(&[7, 4])];
    check(&|x| rotary_emb::rope(&x[0], &x[1], &x[2]), &|x| rope_slow(&x[0], &x[1], &x[2]), &inputs);
    // A table for each sequence.
    let [cos, sin] = [random(&[2, 5, 4]), random(&[2, 5, 4])];
    let expected = candle_nn::rotary_emb::rope(&inputs[0], &cos, &sin).unwrap();
    near(&rotary_emb::rope(&inputs[0], &cos, &sin).unwrap(), &expected, 1e-6, "tables by sequence");
}

#[test]
fn losses() {
    let target = Tensor::new(&[3u32, 0, 8, 8], &CPU).unwrap();
    let theirs = |x: &[Tensor]| candle_nn::loss::cross_entropy(&x[0], &x[1]);
    check(&|x| loss::cross_entropy(&x[0], &x[1]), &theirs, &[random(&[4, 9]), target.clone()]);
    let signed = target.to_dtype(DType::I64).unwrap();
    check(&|x| loss::cross_entropy(&x[0], &x[1]), &theirs, &[random(&[4, 9]), signed]);
}

/// Attention by candle's operators. `score` has a score, the head, and the key's position less the query's.
fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    scale: f64,
    score: &dyn Fn(&Tensor, usize, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let [q, k, v] = [q, k, v].map(|x| x.transpose(1, 2).unwrap().contiguous().unwrap());
    let (shared, queries, keys) = (q.dim(1)? / k.dim(1)?, q.dim(2)?, k.dim(2)?);
    let apart: Vec<f32> =
        (0..queries * keys).map(|at| (at % keys + queries) as f32 - (at / keys + keys) as f32).collect();
    let apart = Tensor::from_vec(apart, (queries, keys), &CPU)?;
    let heads = (0..q.dim(1)?).map(|head| {
        let [q, k, v] =
            [(&q, head), (&k, head / shared), (&v, head / shared)].map(|(x, head)| x.narrow(1, head, 1));
        let (q, k, v) = (q?.contiguous()?, k?.contiguous()?, v?.contiguous()?);
        let scores = (q.matmul(&k.t()?)? * scale)?;
        softmax(&score(&scores, head, &apart.broadcast_as(scores.dims())?)?, D::Minus1)?.matmul(&v)
    });
    Tensor::cat(&heads.collect::<Result<Vec<_>>>()?, 1)?.transpose(1, 2)
}

/// Scores of keys from `-left` to `right`.
fn window(scores: &Tensor, apart: &Tensor, left: f64, right: f64) -> Result<Tensor> {
    let seen = (apart.ge(-left)? * apart.le(right)?)?;
    seen.where_cond(scores, &scores.affine(0.0, -1e30)?)
}

#[test]
fn attention_of_heads() {
    for (queries, keys, heads, key_heads) in [(6, 6, 2, 2), (3, 7, 4, 2)] {
        let inputs = [
            random(&[2, queries, heads, 8]),
            random(&[2, keys, key_heads, 8]),
            random(&[2, keys, key_heads, 8]),
        ];
        for causal in [false, true] {
            check(
                &|x| flash_attn(&x[0], &x[1], &x[2], 0.3, causal),
                &|x| {
                    attention(&x[0], &x[1], &x[2], 0.3, &|s, _, apart| {
                        window(s, apart, 1e9, if causal { 0.0 } else { 1e9 })
                    })
                },
                &inputs,
            );
        }
        check(
            &|x| flash_attn_windowed(&x[0], &x[1], &x[2], 0.3, Some(2), Some(1)),
            &|x| attention(&x[0], &x[1], &x[2], 0.3, &|s, _, apart| window(s, apart, 2.0, 1.0)),
            &inputs,
        );
        let slopes = random(&[heads]);
        let slope = |head: usize| f64::from(slopes.get(head).unwrap().to_scalar::<f32>().unwrap());
        let sloped = |s: &Tensor, head: usize, apart: &Tensor| s - (apart.abs()? * slope(head))?;
        check(
            &|x| flash_attn_alibi(&x[0], &x[1], &x[2], &slopes, 0.3, true),
            &|x| {
                attention(&x[0], &x[1], &x[2], 0.3, &|s, head, apart| {
                    window(&sloped(s, head, apart)?, apart, 1e9, 0.0)
                })
            },
            &inputs,
        );
        check(
            &|x| {
                let (slopes, left) = (Some(&slopes), Some(2));
                flash_attn_alibi_windowed_softcap(&x[0], &x[1], &x[2], slopes, 0.3, left, Some(0), 0.7)
            },
            &|x| {
                attention(&x[0], &x[1], &x[2], 0.3, &|s, head, apart| {
                    let capped = ((s / 0.7)?.tanh()? * 0.7)?;
                    window(&sloped(&capped, head, apart)?, apart, 2.0, 0.0)
                })
            },
            &inputs,
        );
    }
}

#[test]
fn attention_of_sequences() {
    let inputs = [random(&[9, 4, 8]), random(&[12, 2, 8]), random(&[12, 2, 8])];
    let [queries, keys] = [[0u32, 4, 9], [0, 5, 12]].map(|ends| Tensor::new(&ends, &CPU).unwrap());
    let parts = |x: &[Tensor], score: &dyn Fn(&Tensor, usize, &Tensor) -> Result<Tensor>| {
        let part = |[query, queries, key, keys]: [usize; 4]| {
            let part = |x: &Tensor, start, count| x.narrow(0, start, count)?.unsqueeze(0);
            let (q, k, v) = (part(&x[0], query, queries)?, part(&x[1], key, keys)?, part(&x[2], key, keys)?);
            attention(&q, &k, &v, 0.3, score)?.squeeze(0)
        };
        Tensor::cat(&[part([0, 4, 0, 5])?, part([4, 5, 5, 7])?], 0)
    };
    check(
        &|x| flash_attn_varlen(&x[0], &x[1], &x[2], &queries, &keys, 5, 7, 0.3, true),
        &|x| parts(x, &|s, _, apart| window(s, apart, 1e9, 0.0)),
        &inputs,
    );
    check(
        &|x| flash_attn_varlen_windowed(&x[0], &x[1], &x[2], &queries, &keys, 5, 7, 0.3, Some(2), Some(1)),
        &|x| parts(x, &|s, _, apart| window(s, apart, 2.0, 1.0)),
        &inputs,
    );
    check(
        &|x| {
            let (q, k, v, cap) = (&x[0], &x[1], &x[2], 0.7);
            let (left, right) = (Some(3), Some(0));
            flash_attn_varlen_alibi_windowed_softcap(
                q, k, v, None, &queries, &keys, 5, 7, 0.3, left, right, cap,
            )
        },
        &|x| parts(x, &|s, _, apart| window(&((s / 0.7)?.tanh()? * 0.7)?, apart, 3.0, 0.0)),
        &inputs,
    );
}

#[test]
fn attention_to_pages() {
    // Keys of the first sequence are in pages 3 and 0, and of the second one in pages 1, 2 and 4.
    let inputs = [random(&[9, 4, 8]), random(&[5, 3, 2, 8]), random(&[5, 3, 2, 8])];
    let [queries, keys] = [[0u32, 4, 9], [0, 5, 12]].map(|ends| Tensor::new(&ends, &CPU).unwrap());
    let table = Tensor::new(&[[3u32, 0, 0], [1, 2, 4]], &CPU).unwrap();
    let rows = Tensor::new(&[9u32, 10, 11, 0, 1, 3, 4, 5, 6, 7, 8, 12], &CPU).unwrap();
    let flat = |x: &Tensor| x.contiguous()?.flatten(0, 1)?.index_select(&rows, 0);
    check(
        &|x| {
            let (q, k, v, right) = (&x[0], &x[1], &x[2], Some(0));
            flash_attn_varlen_paged_windowed(
                q, k, v, &queries, &keys, &table, None, 5, 7, 0.3, None, right, 3, None,
            )
        },
        &|x| flash_attn_varlen(&x[0], &flat(&x[1])?, &flat(&x[2])?, &queries, &keys, 5, 7, 0.3, true),
        &inputs,
    );
}

#[test]
fn experts() {
    // Pairs of four tokens and two of three experts; the second expert has none.
    let (ids, experts) = ([0u32, 3, 4, 7, 1, 2, 5, 6], [0u32, 0, 0, 0, 2, 2, 2, 2]);
    let [sorted, owners] = [ids, experts].map(|all| Tensor::new(&all, &CPU).unwrap());
    let naive = |x: &[Tensor], rows: &dyn Fn(u32) -> u32| {
        let mut results: Vec<(u32, Tensor)> = Vec::new();
        for (id, expert) in ids.into_iter().zip(experts) {
            let row = x[0].narrow(0, rows(id) as usize, 1)?;
            results.push((id, row.matmul(&x[1].get(expert as usize)?.t()?)?));
        }
        results.sort_by_key(|(id, _)| *id);
        Tensor::cat(&results.into_iter().map(|(_, y)| y).collect::<Vec<_>>(), 0)
    };
    check(
        &|x| moe::moe_gemm(&x[0], &x[1], &None, &sorted, &owners, 2, true),
        &|x| naive(x, &|id| id / 2),
        &[random(&[4, 6]), random(&[3, 5, 6])],
    );
    let scales = random(&[4, 2]);
    check(
        &|x| moe::moe_gemm(&x[0], &x[1], &Some(scales.clone()), &sorted, &owners, 2, false),
        &|x| naive(x, &|id| id)?.broadcast_mul(&scales.flatten_all()?.unsqueeze(1)?),
        &[random(&[8, 6]), random(&[3, 5, 6])],
    );
}

#[test]
fn products() {
    let inputs = [random(&[2, 3, 8]), random(&[5, 8]), random(&[5])];
    let plain = |x: &[Tensor]| x[0].broadcast_matmul(&x[1].t()?)?.broadcast_add(&x[2]);
    for activation in [None, Some(Activation::Relu), Some(Activation::Gelu), Some(Activation::Silu)] {
        let theirs = |x: &[Tensor]| match activation {
            None => plain(x),
            Some(Activation::Relu) => plain(x)?.relu(),
            Some(Activation::Gelu) => plain(x)?.gelu_erf(),
            _ => plain(x)?.silu(),
        };
        check(&|x| linear(&x[0], &x[1], Some(&x[2]), activation), &theirs, &inputs);
    }
    check(&|x| matmul(&x[0], &x[1]), &|x| x[0].matmul(&x[1]), &[random(&[4, 6]), random(&[6, 3])]);
}

#[test]
fn quantized_weights() {
    let (weights, x) = (random(&[5, 64]), random(&[3, 64]).to_dtype(DType::BF16).unwrap());
    for format in [GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4_1] {
        let quantized = QTensor::quantize(&weights, format).unwrap();
        let layer = QLinear::new(&quantized, DType::BF16, &CPU).unwrap();
        let numbers = quantized.dequantize(&CPU).unwrap();
        near(&layer.dequantize().unwrap(), &numbers, 0.02, "weights");
        let theirs = x.to_dtype(DType::F32).unwrap().matmul(&numbers.t().unwrap()).unwrap();
        near(&layer.forward(&x).unwrap(), &theirs.to_dtype(DType::BF16).unwrap(), 0.3, "forward");
        let x = Var::from_tensor(&x).unwrap();
        let grads = layer.forward(&x).unwrap().sum_all().unwrap().backward().unwrap();
        let expected = numbers.sum(0).unwrap().broadcast_as((3, 64)).unwrap().to_dtype(DType::BF16).unwrap();
        near(grads.get(&x).unwrap(), &expected, 0.1, "gradient");
    }
}

#[track_caller]
fn refused(result: Result<Tensor>, expected: &str) {
    let text = result.expect_err("a refusal").to_string();
    assert_eq!(text.lines().next().unwrap_or_default(), expected);
}

#[test]
fn messages() {
    let (x, w) = (random(&[2, 8]), random(&[7]));
    refused(
        ops::rms_norm(&x, &w, 1e-5),
        "rms_norm: argument `alpha`, F32 of shape [7]: the shape must be [8], the last dimension of `xs`",
    );
    refused(
        ops::layer_norm(&x, &random(&[8]), &random(&[8]).to_dtype(DType::BF16).unwrap(), 1e-5),
        "layer_norm: argument `beta`, BF16 of shape [8]: the type must be F32, the type of `xs`",
    );
    refused(
        ops::softmax_last_dim(&x.to_dtype(DType::F64).unwrap()),
        "softmax_last_dim: argument `xs`, F64 of shape [2, 8]: the type must be F32, F16 or BF16",
    );
    refused(
        rotary_emb::rope(&random(&[1, 1, 9, 8]), &random(&[4, 4]), &random(&[9, 4])),
        "rope: argument `cos`, F32 of shape [4, 4]: `xs` is [1, 1, 9, 8]: at least 9 rows of 4 are needed",
    );
    refused(
        flash_attn(&random(&[1, 4, 3, 8]), &random(&[1, 4, 2, 8]), &random(&[1, 4, 2, 8]), 1.0, true),
        "flash_attn: argument `k`, F32 of shape [1, 4, 2, 8]: `q` is [1, 4, 3, 8]: batch and width must be equal, and its heads a \
         multiple",
    );
    let (heads, slopes) = (random(&[1, 4, 2, 8]), random(&[3]));
    refused(
        flash_attn_alibi(&heads, &heads, &heads, &slopes, 1.0, true),
        "flash_attn: argument `alibi_slopes` is [3]: a slope for each of 2 heads is needed",
    );
    let (pages, ends, table) =
        (random(&[3, 4, 2, 8]), Tensor::new(&[0u32, 4], &CPU).unwrap(), random(&[1, 1]));
    let paged = |table: &Tensor, ranges: Option<&Tensor>, page| {
        let (q, k) = (&heads.squeeze(0).unwrap(), &pages);
        flash_attn_varlen_paged_windowed(
            q, k, k, &ends, &ends, table, ranges, 4, 4, 1.0, None, None, page, None,
        )
    };
    refused(
        paged(&table, Some(&x), 4),
        "flash_attn_varlen_paged_windowed: argument `mm_prefix_ranges`: no kernel has ranges that bypass the mask: pass `None`",
    );
    refused(
        paged(&table, None, 5),
        "flash_attn_varlen_paged_windowed: arguments `k` and `v` are [3, 4, 2, 8] and [3, 4, 2, 8]: (pages, 5, heads, width) is needed",
    );
    refused(
        paged(&x, None, 4),
        "flash_attn_varlen_paged_windowed: argument `block_table` is [2, 8]: (1, pages) is needed",
    );
    let none = Tensor::new(&[0u32, 0], &CPU).unwrap();
    refused(
        moe::moe_gemm(&x, &random(&[3, 5, 9]), &None, &none, &none, 1, true),
        "moe_gemm: argument `weights`, F32 of shape [3, 5, 9]: `input` is [2, 8]: the last dimensions must be equal",
    );
    refused(
        linear(&x, &random(&[5, 9]), None, None),
        "linear: argument `weight`, F32 of shape [5, 9]: `xs` is [2, 8]: the last dimensions must be equal",
    );
    refused(
        loss::cross_entropy(&x, &w),
        "cross_entropy: argument `target`, F32 of shape [7]: the type must be an integer",
    );
}
