//! Every layer on the ranks that there are, against plain loops in double precision.

use tilewright::matmul::Activation;
use tilewright::models::Mask;
use tilewright::parallel::{
    Column, Combine, CrossEntropy, Error, Experts, Heads, Rank, Row, Shards, attention,
};
use tilewright::{DeviceTensor, HostTensor, Stream, bf16, f16};

use crate::reference::{F32_UNIT, Random, SLOPE, Value, gelu, linear, sigmoid, worst};

/// Units of f32 of the relative error of a sum of powers: of each power, and of a sum of some thousands.
const SUM_UNITS: f64 = 128.0;

/// A check: its name, and its error as a multiple of the bound.
pub(crate) type Outcome = (String, f64);

/// Checks of a kind.
type Check = fn(&mut Rank, &Stream, u64, &mut Vec<Outcome>) -> Result<(), Error>;

/// All checks, as one of the ranks. A check with an error is wrong, and the others still run, unless the ranks have lost each other.
pub(crate) fn run(rank: &mut Rank, stream: &Stream, seed: u64) -> Result<Vec<Outcome>, Error> {
    let mut checks: Vec<(&str, Check)> = vec![
        ("sums", reduced),
        ("layers of f32", |rank, stream, seed, all| {
            let sizes = [[37, 203, 331], [300, 520, 264]];
            sizes.into_iter().try_for_each(|sizes| layers::<f32>(rank, stream, seed, sizes, all))
        }),
        ("layers of bf16", |rank, stream, seed, all| {
            let sizes = [[37, 203, 331], [300, 520, 264], [64, 128, 256]];
            sizes.into_iter().try_for_each(|sizes| layers::<bf16>(rank, stream, seed, sizes, all))
        }),
        ("layers of f16", |rank, stream, seed, all| layers::<f16>(rank, stream, seed, [129, 96, 72], all)),
        ("entropy of f32", entropy::<f32>),
        ("entropy of bf16", entropy::<bf16>),
        ("experts of f32", experts::<f32>),
        ("experts of bf16", experts::<bf16>),
        ("graphs", captured),
    ];
    if rank.device().properties().arch() == 90 {
        checks.push(("heads", |rank, stream, seed, all| {
            [[8, 2], [6, 6]].into_iter().try_for_each(|counts| heads(rank, stream, seed, counts, all))
        }));
    }
    let mut all = Vec::new();
    for (name, check) in checks {
        match check(rank, stream, seed, &mut all) {
            Ok(()) => {}
            Err(error @ Error::Lost { .. }) => return Err(error),
            Err(error) => all.push((format!("{name}: {error}"), f64::INFINITY)),
        }
    }
    Ok(all)
}

fn upload<T: Value>(
    stream: &Stream,
    from: &HostTensor<T, 2>,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) -> Result<DeviceTensor<T, 2>, Error> {
    let extents = [rows.len(), columns.len()];
    let values: Vec<T> = rows.flat_map(|i| columns.clone().map(move |j| from.at([i, j]))).collect();
    Ok(DeviceTensor::from_elements(stream, extents, [extents[1], 1], &values)?)
}

/// The columns of a row-major result.
fn columns<V: Copy>(all: &[V], width: usize, part: std::ops::Range<usize>) -> impl Iterator<Item = V> {
    all.chunks(width).flat_map(move |row| row[part.clone()].iter().copied())
}

fn layers<T: Value>(
    rank: &mut Rank,
    stream: &Stream,
    seed: u64,
    [m, k, n]: [usize; 3],
    all: &mut Vec<Outcome>,
) -> Result<(), Error> {
    let mut random = Random(seed ^ (m * k * n) as u64);
    let (x, w, g) = (random.matrix::<T>([m, k]), random.matrix::<T>([n, k]), random.matrix::<T>([n, k]));
    let bias = HostTensor::column_major([n], random.values::<T>(n))?;
    let mut note = |name: &str, error: f64| all.push((format!("{name} {m}x{k}->{n} {}", T::ELEM), error));
    let whole = linear(&x, &w, std::slice::from_ref(&(0..k)));
    let biased = |index: usize| whole[index].value + bias.at([index % n]).f64();
    // Functions of elements are exact to some units of f32 of their arguments.
    let function_error = |x: f64| 16.0 * F32_UNIT * x.abs();

    let column = Column::new(rank, stream, &w)?.with_bias(stream, &bias)?.with_activation(Activation::Gelu);
    let part = column.shards().of(rank.rank());
    let device_x = upload(stream, &x, 0..m, 0..k)?;
    let y = column.run(stream, &device_x)?;
    let activated = |index: usize| {
        let (y, value) = (biased(index), gelu(biased(index)));
        (value, SLOPE * whole[index].error() + function_error(y) + T::UNIT * value.abs())
    };
    let expected: Vec<_> = (0..m * n).map(activated).collect();
    note("column, bias, gelu", worst(&y.to_host_stored()?, columns(&expected, n, part.clone())));

    let rows = Shards::new(m, rank.ranks())?;
    let own = upload(stream, &x, rows.of(rank.rank()), 0..k)?;
    let mut gathered = DeviceTensor::for_results(stream, [m, k], true)?;
    let mut y = DeviceTensor::for_results(stream, [m, part.len()], true)?;
    column.run_gathered(rank, stream, &own, &mut gathered, &mut y)?;
    rank.synchronize(stream)?;
    note("column, gathered rows", worst(&y.to_host_stored()?, columns(&expected, n, part.clone())));

    let gates = linear(&x, &g, std::slice::from_ref(&(0..k)));
    for (name, activation, function) in
        [("silu", Activation::Silu, (|x| x * sigmoid(x)) as fn(f64) -> f64), ("gelu", Activation::Gelu, gelu)]
    {
        let gate = Column::new(rank, stream, &w)?.with_gate(stream, &g)?.with_activation(activation);
        let y = gate.run(stream, &device_x)?;
        // Where two products are gated by a kernel of its own, both are rounded before.
        let gated = |index: usize| {
            let (up, gate) = (whole[index], gates[index]);
            let slope = function(gate.value).abs();
            let gate_error = SLOPE * (gate.error() + T::UNIT * gate.value.abs()) + function_error(gate.value);
            let up_error = up.error() + T::UNIT * up.value.abs();
            let value = function(gate.value) * up.value;
            (value, gate_error * (up.value.abs() + up_error) + slope * up_error + T::UNIT * value.abs())
        };
        let expected: Vec<_> = (0..m * n).map(gated).collect();
        note(
            &format!("column, gate {name}"),
            worst(&y.to_host_stored()?, columns(&expected, n, part.clone())),
        );
    }

    let inputs = Shards::new(k, rank.ranks())?;
    let sums = linear(&x, &w, inputs.ranges());
    // Each rank's sums are rounded, and the sums over ranks are rounded after each addition.
    let summed = |index: usize| {
        let size = sums[index].partial + bias.at([index % n]).f64().abs();
        (biased(index), sums[index].error() + rank.ranks() as f64 * T::UNIT * size)
    };
    let expected: Vec<_> = (0..m * n).map(summed).collect();
    let part_x = upload(stream, &x, 0..m, inputs.of(rank.rank()))?;
    for chunks in [1, 3] {
        let row = Row::new(rank, stream, &w)?.with_bias(stream, &bias)?.with_chunks(chunks);
        let y = row.run(rank, stream, &part_x)?;
        rank.synchronize(stream)?;
        note(&format!("row, bias, chunks {chunks}"), worst(&y.to_host_stored()?, expected.iter().copied()));
        let mut terms = DeviceTensor::for_results(stream, [m, n], true)?;
        let own = rows.of(rank.rank());
        let mut y = DeviceTensor::for_results(stream, [own.len(), n], true)?;
        row.run_scattered(rank, stream, &part_x, &mut terms, &mut y)?;
        rank.synchronize(stream)?;
        let expected = expected[own.start * n..own.end * n].iter().copied();
        note(&format!("row, scattered rows, chunks {chunks}"), worst(&y.to_host_stored()?, expected));
    }
    Ok(())
}

fn reduced(rank: &mut Rank, stream: &Stream, seed: u64, all: &mut Vec<Outcome>) -> Result<(), Error> {
    let mut random = Random(seed);
    let parts: Vec<Vec<f16>> = (0..rank.ranks()).map(|_| random.values(1001)).collect();
    let mut x = DeviceTensor::from_elements(stream, [1001], [1], &parts[rank.rank()])?;
    rank.all_reduce(stream, &mut x, Combine::Max)?;
    rank.synchronize(stream)?;
    let expected = (0..1001).map(|at| (parts.iter().map(|part| part[at].f64()).fold(-2.0, f64::max), 0.0));
    all.push(("all_reduce, maximum, f16".into(), worst(&x.to_host()?, expected)));
    Ok(())
}

fn entropy<T: Value>(
    rank: &mut Rank,
    stream: &Stream,
    seed: u64,
    all: &mut Vec<Outcome>,
) -> Result<(), Error> {
    let (rows, vocabulary, ignored) = (67, 3001, 7);
    let mut random = Random(seed ^ 5);
    let logits = HostTensor::row_major(
        [rows, vocabulary],
        (0..rows * vocabulary).map(|_| T::of(4.0 * random.unit())).collect(),
    )?;
    let labels: Vec<i32> = (0..rows)
        .map(|row| match row % 9 {
            0 => -1,
            1 => ignored,
            2 => vocabulary as i32,
            _ => random.below(vocabulary) as i32,
        })
        .collect();
    let slopes: Vec<f32> = (0..rows).map(|_| random.unit() as f32).collect();
    let valid = |label: i32| (0..vocabulary as i32).contains(&label) && label != ignored;
    let row = |i: usize| (0..vocabulary).map(|j| logits.at([i, j]).f64()).collect::<Vec<_>>();
    let lse: Vec<f64> = (0..rows).map(|i| row(i).iter().map(|x| x.exp()).sum::<f64>().ln()).collect();
    let losses = (0..rows).map(|i| match valid(labels[i]) {
        true => {
            let x = logits.at([i, labels[i] as usize]).f64();
            (lse[i] - x, F32_UNIT * (8.0 * (lse[i].abs() + x.abs()) + SUM_UNITS))
        }
        false => (0.0, 0.0),
    });

    let entropy = CrossEntropy::new(rank, vocabulary, ignored)?;
    let part = entropy.shards().of(rank.rank());
    let own = upload(stream, &logits, 0..rows, part.clone())?;
    let device_labels = DeviceTensor::from_host(stream, [rows], &labels)?;
    let results = entropy.run(rank, stream, &device_labels, own.view())?;
    rank.synchronize(stream)?;
    let error = worst(&results.loss.to_host()?, losses);
    all.push((format!("cross entropy {rows}x{vocabulary} {}", T::ELEM), error));
    let d_loss = DeviceTensor::from_host(stream, [rows], &slopes)?;
    let mut d_logits = DeviceTensor::for_results(stream, [rows, part.len()], true)?;
    entropy.gradients(stream, &device_labels, &results, &d_loss, own.view(), d_logits.view_mut())?;
    let expected = (0..rows).flat_map(|i| {
        let (row, lse, label, slope) = (row(i), lse[i], labels[i], f64::from(slopes[i]));
        part.clone().map(move |j| match valid(label) {
            true => {
                let (power, wanted) = ((row[j] - lse).exp(), if j as i32 == label { 1.0 } else { 0.0 });
                let value = slope * (power - wanted);
                let units = 8.0 * (row[j].abs() + lse.abs()) + SUM_UNITS;
                (value, slope.abs() * F32_UNIT * (power * units + 1.0) + T::UNIT * value.abs())
            }
            false => (0.0, 0.0),
        })
    });
    let error = worst(&d_logits.to_host_stored()?, expected);
    all.push((format!("gradients of cross entropy {}", T::ELEM), error));
    Ok(())
}

fn experts<T: Value>(
    rank: &mut Rank,
    stream: &Stream,
    seed: u64,
    all: &mut Vec<Outcome>,
) -> Result<(), Error> {
    let (count, inputs, outputs) = (5, 128, 192);
    let mut random = Random(seed ^ 9);
    let weights: Vec<HostTensor<T, 2>> = (0..count).map(|_| random.matrix([outputs, inputs])).collect();
    let shards = Shards::new(count, rank.ranks())?;
    let own: Vec<T> = shards.of(rank.rank()).flat_map(|expert| weights[expert].values().to_vec()).collect();
    let extents = [shards.of(rank.rank()).len(), outputs, inputs];
    let own = DeviceTensor::from_elements(stream, extents, [outputs * inputs, inputs, 1], &own)?;
    let layer = Experts::from_shard(rank, count, own)?;
    // Every rank has rows of its own, and an expert may have none.
    let mut random = Random(seed ^ (rank.rank() as u64 + 77));
    let counts: Vec<usize> = (0..count).map(|_| random.below(90).saturating_sub(20)).collect();
    let rows: usize = counts.iter().sum();
    let x = random.matrix::<T>([rows.max(1), inputs]);
    let y = layer.run(rank, stream, upload(stream, &x, 0..rows, 0..inputs)?.view(), &counts)?;
    rank.synchronize(stream)?;
    let mut expected = Vec::new();
    let mut row = 0;
    for (expert, count) in counts.iter().enumerate() {
        let values = x.values()[row * inputs..(row + count) * inputs].to_vec();
        expected.extend(linear(
            &HostTensor::row_major([*count, inputs], values)?,
            &weights[expert],
            std::slice::from_ref(&(0..inputs)),
        ));
        row += count;
    }
    let error = worst(
        &y.to_host_stored()?,
        expected.into_iter().map(|sum| (sum.value, sum.error() + T::UNIT * sum.value.abs())),
    );
    all.push((format!("experts {inputs}->{outputs} {}", T::ELEM), error));
    Ok(())
}

/// A column layer and a row layer in a graph, with sums beside products.
fn captured(rank: &mut Rank, stream: &Stream, seed: u64, all: &mut Vec<Outcome>) -> Result<(), Error> {
    let [m, k, n] = [700, 256, 512];
    let mut random = Random(seed ^ 31);
    let (x, up, down) =
        (random.matrix::<bf16>([m, k]), random.matrix::<bf16>([n, k]), random.matrix::<bf16>([k, n]));
    let column = Column::new(rank, stream, &up)?;
    let row = Row::new(rank, stream, &down)?.with_chunks(4);
    let x = upload(stream, &x, 0..m, 0..k)?;
    let mut between = DeviceTensor::for_results(stream, [m, column.shards().of(rank.rank()).len()], true)?;
    let mut y = DeviceTensor::<bf16, 2>::for_results(stream, [m, k], true)?;
    let pair = |rank: &mut Rank, between: &mut DeviceTensor<bf16, 2>, y: &mut DeviceTensor<bf16, 2>| {
        column.run_into(stream, &x, &mut *between)?;
        row.run_into(rank, stream, &*between, y)
    };
    pair(rank, &mut between, &mut y)?;
    rank.synchronize(stream)?;
    let expected = y.to_host_stored()?;
    let graph = crate::capture(stream, || pair(rank, &mut between, &mut y))?;
    for _ in 0..3 {
        y.write(&vec![bf16::from_f32(f32::NAN); m * k])?;
        rank.launch(&graph)?;
        rank.synchronize(stream)?;
        let error = worst(&y.to_host_stored()?, expected.iter().map(|value| (value.f64(), 0.0)));
        all.push(("a graph of a column and a row layer".into(), error));
    }
    Ok(())
}

fn heads(
    rank: &mut Rank,
    stream: &Stream,
    seed: u64,
    counts: [usize; 2],
    all: &mut Vec<Outcome>,
) -> Result<(), Error> {
    let (m, width, scale) = (150, 64, 0.125);
    let mut random = Random(seed ^ 63);
    let heads = Heads::new(counts, rank.ranks())?;
    let tensors: [Vec<bf16>; 3] =
        [counts[0], counts[1], counts[1]].map(|heads| random.values::<bf16>(heads * m * width));
    let (queries, keys) = (heads.queries(rank.rank()), heads.keys(rank.rank()));
    let part = |index: usize, range: &std::ops::Range<usize>| {
        let values = &tensors[index][range.start * m * width..range.end * m * width];
        DeviceTensor::from_elements(stream, [values.len()], [1], values)
    };
    let (q, k, v) = (part(0, &queries)?, part(1, &keys)?, part(2, &keys)?);
    let mut o = DeviceTensor::<bf16, 1>::poisoned(stream, [queries.len() * m * width])?;
    let shape = |heads: usize| ([m, width, heads, 1], [width, 1, m * width, heads * m * width]);
    let (many, few) = (shape(queries.len()), shape(keys.len()));
    let kv = [k.view().reshaped(few.0, few.1), v.view().reshaped(few.0, few.1)];
    let to = o.view_mut().reshaped(many.0, many.1);
    let (parts, q) = (heads.parts(rank.rank()), q.view().reshaped(many.0, many.1));
    attention(stream, &parts, scale, Mask::Causal, q, kv, to)?;
    let value = |index: usize, head: usize, row: usize, at: usize| {
        tensors[index][(head * m + row) * width + at].f64()
    };
    let mut expected = Vec::new();
    for head in queries {
        let key = head / (counts[0] / counts[1]);
        for row in 0..m {
            let scores: Vec<f64> = (0..=row)
                .map(|other| {
                    (0..width).map(|at| value(0, head, row, at) * value(1, key, other, at)).sum::<f64>()
                })
                .map(|score| (score * f64::from(scale)).exp())
                .collect();
            let total: f64 = scores.iter().sum();
            for at in 0..width {
                let sum: f64 =
                    scores.iter().enumerate().map(|(other, score)| score * value(2, key, other, at)).sum();
                let size: f64 = scores
                    .iter()
                    .enumerate()
                    .map(|(other, score)| score * value(2, key, other, at).abs())
                    .sum();
                // Probabilities and results are rounded to bf16.
                expected
                    .push((sum / total, 2.0 * bf16::UNIT * size / total + bf16::UNIT * (sum / total).abs()));
            }
        }
    }
    let error = worst(&o.to_host()?, expected.into_iter());
    all.push((format!("attention of {} and {} heads", counts[0], counts[1]), error));
    Ok(())
}
