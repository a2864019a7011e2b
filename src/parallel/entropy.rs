//! Cross entropy of logits whose vocabulary is divided among ranks.

use super::{Error, Float, Rank, Shards};
use crate::kernels::models::cross_entropy::cross_entropy;
use crate::models::launch;
use crate::prelude::*;
use crate::runtime::nccl::{Slice, Transfer};
use crate::{Argument, Elem};

/// Labels of a rank's part of the vocabulary: a label elsewhere, or an ignored one, becomes -1.
#[kernel]
fn part_labels(first: i32, count: i32, ignored: i32, labels: &Tensor<i32, M>, part: &mut Tensor<i32, M>) {
    map(tile(labels, 256, block.x), tile(part, 256, block.x), |label| {
        if (label >= first) & (label < first + count) & (label != ignored) { label - first } else { -1 }
    });
}

/// What a rank tells about each row: log Σ exp(x) of its logits, and its label's logit, or 0 if the label is elsewhere.
#[kernel]
fn part_terms(
    part: &Tensor<i32, M>,
    loss: &Tensor<f32, M>,
    lse: &Tensor<f32, M>,
    terms: &mut Tensor<f32, (M, _2)>,
) {
    let (part, loss, lse) = (tile(part, 256, block.x), tile(loss, 256, block.x), tile(lse, 256, block.x));
    let terms = tile(terms, (256, 1), (block.x, _));
    copy(lse.along(0), terms[(_, _, 0)]);
    copy(
        map((part, loss, lse), |part, loss, lse| if part >= 0 { lse - loss } else { 0.0 }).along(0),
        terms[(_, _, 1)],
    );
}

/// Losses and log Σ exp(x) of whole rows, from the terms of all ranks.
#[kernel]
fn combined_entropy(
    vocabulary: i32,
    ignored: i32,
    labels: &Tensor<i32, M>,
    terms: &Tensor<f32, (M, _2, R)>,
    loss: &mut Tensor<f32, M>,
    lse: &mut Tensor<f32, M>,
) {
    let parts = tile(terms, (128, 1, 1), (block.x, _, _));
    let mut most = full::<f32>((128, 1, 1), f32::MIN);
    for r in 0..R {
        most = max(most, parts[(_, _, _, 0, r)]);
    }
    let (mut total, mut target) = (full::<f32>((128, 1, 1), 0.0), full::<f32>((128, 1, 1), 0.0));
    for r in 0..R {
        total = map((total, parts[(_, _, _, 0, r)], most), |total, x, most| total + exp(x - most));
        target += parts[(_, _, _, 1, r)];
    }
    let all = map((most, total), |most, total| most + log(total));
    let all = regroup(all, 128);
    let labels = tile(labels, 128, block.x);
    copy(all, tile(lse, 128, block.x));
    map((all, regroup(target, 128), labels), tile(loss, 128, block.x), |all, target, label| {
        if (label >= 0) & (label < vocabulary) & (label != ignored) { all - target } else { 0.0 }
    });
}

/// Gradients of a rank's logits, from the gradients of the losses. `first` is the rank's first label.
#[kernel(T = bf16 | f16 | f32)]
fn part_gradients<T>(
    first: i32,
    vocabulary: i32,
    ignored: i32,
    labels: &Tensor<i32, M>,
    lse: &Tensor<f32, M>,
    d_loss: &Tensor<f32, M>,
    logits: &Tensor<T, (M, N), (ld, _1)>,
    d_logits: &mut Tensor<T, (M, N), (ldd, _1)>,
) {
    let (n, i) = walk((ceil_div(N, 2048), M), block.x);
    let label = labels[(i)];
    map(tile(logits, (1, 2048), (i, n)), tile(d_logits, (1, 2048), (i, n)), |x, at| {
        let valid = (label >= 0) & (label < vocabulary) & (label != ignored);
        let wanted = if at.1 + first == label { 1.0 } else { 0.0 };
        ((if valid { d_loss[(i)] } else { 0.0 }) * (exp(x as f32 - lse[(i)]) - wanted)) as T
    });
}

/// Cross entropy of rows of logits, (rows, vocabulary). Each rank has some columns. Labels are numbers of the whole vocabulary, the
/// same at all ranks. A row whose label is negative, `ignored` or too large has the loss 0 and no gradient.
#[derive(Debug)]
pub struct CrossEntropy {
    shards: Shards,
    rank: usize,
    ignored: i32,
}

/// Losses, and log Σ exp(x) of whole rows, which the gradients need: the same at all ranks.
#[derive(Debug)]
pub struct Losses {
    /// The loss of each row.
    pub loss: DeviceTensor<f32, 1>,
    /// log Σ exp(x) of each row.
    pub lse: DeviceTensor<f32, 1>,
}

impl CrossEntropy {
    /// The cross entropy for a vocabulary of this size.
    pub fn new(rank: &Rank, vocabulary: usize, ignored: i32) -> Result<CrossEntropy, Error> {
        if i32::try_from(vocabulary).is_err() {
            let message = format!("a vocabulary of {vocabulary}, and labels are i32");
            return Err(Error::refused(message, "use a vocabulary of less than 2147483648"));
        }
        Ok(CrossEntropy { shards: Shards::new(vocabulary, rank.ranks())?, rank: rank.rank(), ignored })
    }

    /// The labels of each rank.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    fn vocabulary(&self) -> i32 {
        self.shards.ranges().iter().map(|range| range.len() as i32).sum()
    }

    fn checked<T: Float>(
        &self,
        rows: usize,
        labels: [usize; 1],
        logits: &TensorRef<'_, T, 2>,
    ) -> Result<(), Error> {
        let expected = [labels[0], self.shards.of(self.rank).len()];
        if logits.shape() == expected && rows > 0 {
            return Ok(());
        }
        let message =
            format!("logits are {:?}, and this rank's part for the labels is {expected:?}", logits.shape());
        Err(Error::refused(message, "give all rows and the columns of this rank"))
    }

    /// The losses, from this rank's columns of the logits.
    pub fn run<T: Float>(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        labels: &DeviceTensor<i32, 1>,
        logits: TensorRef<'_, T, 2>,
    ) -> Result<Losses, Error> {
        let [rows, _] = logits.shape();
        let own = self.part(stream, labels, logits);
        let call = format!("cross entropy of {rows} rows of {} {}", self.vocabulary(), T::ELEM);
        let (mut terms, mut losses) = rank.agree(&call, own)?;
        let count = 2 * rows;
        let own = Slice { argument: 0, first: self.rank * count, count };
        let all = Slice { argument: 0, first: 0, count: count * rank.ranks() };
        rank.transfer(stream, &mut [(&mut terms).into()], &[Transfer::AllGather { from: own, to: all }])?;
        let mut arguments = [
            Argument::scalar(self.vocabulary()),
            Argument::scalar(self.ignored),
            labels.into(),
            (&terms).into(),
            (&mut losses.loss).into(),
            (&mut losses.lse).into(),
        ];
        let combined = launch(stream, &combined_entropy(), &[], &[], &mut arguments);
        combined.map_err(|error| rank.broken(error.into()))?;
        Ok(losses)
    }

    /// Memory for the terms of all ranks, with this rank's terms, and for the results.
    fn part<T: Float>(
        &self,
        stream: &Stream,
        labels: &DeviceTensor<i32, 1>,
        logits: TensorRef<'_, T, 2>,
    ) -> Result<(DeviceTensor<f32, 3>, Losses), Error> {
        let [rows, _] = logits.shape();
        self.checked(rows, labels.shape(), &logits)?;
        let vector = || DeviceTensor::<f32, 1>::for_results(stream, [rows], false);
        let mut losses = Losses { loss: vector()?, lse: vector()? };
        let mut terms =
            DeviceTensor::<f32, 3>::for_results(stream, [rows, 2, self.shards.ranges().len()], false)?;
        let mut part = DeviceTensor::<i32, 1>::for_results(stream, [rows], false)?;
        let range = self.shards.of(self.rank);
        let numbers = [range.start as i32, range.len() as i32, self.ignored].map(Argument::scalar);
        let mut arguments: Vec<Argument<'_>> = numbers.into_iter().collect();
        arguments.extend([labels.into(), (&mut part).into()]);
        launch(stream, &part_labels(), &[], &[], &mut arguments)?;
        let types = [("T", T::ELEM), ("I", Elem::I32)];
        let mut arguments = [
            Argument::scalar(0.0f32),
            Argument::scalar(-1i32),
            (&part).into(),
            logits.into(),
            (&mut losses.loss).into(),
            (&mut losses.lse).into(),
        ];
        launch(stream, &cross_entropy(), &[], &types, &mut arguments)?;
        let own = terms.view_mut().offset(2 * rows * self.rank).reshaped([rows, 2], [1, rows]);
        let mut arguments = [(&part).into(), (&losses.loss).into(), (&losses.lse).into(), own.into()];
        launch(stream, &part_terms(), &[], &[], &mut arguments)?;
        Ok((terms, losses))
    }

    /// The gradients of this rank's columns of the logits, from the gradients of the losses. It transfers no elements.
    pub fn gradients<T: Float>(
        &self,
        stream: &Stream,
        labels: &DeviceTensor<i32, 1>,
        losses: &Losses,
        d_loss: &DeviceTensor<f32, 1>,
        logits: TensorRef<'_, T, 2>,
        d_logits: TensorMut<'_, T, 2>,
    ) -> Result<(), Error> {
        self.checked(logits.shape()[0], labels.shape(), &logits)?;
        let numbers =
            [self.shards.of(self.rank).start as i32, self.vocabulary(), self.ignored].map(Argument::scalar);
        let mut arguments: Vec<Argument<'_>> = numbers.into_iter().collect();
        let tensors = [labels.into(), (&losses.lse).into(), d_loss.into(), logits.into(), d_logits.into()];
        arguments.extend(tensors);
        launch(stream, &part_gradients(), &[], &[("T", T::ELEM)], &mut arguments)?;
        Ok(())
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::{Arg, Simulate};

    /// Losses and gradients of rows of a vocabulary that is divided among ranks, by the kernels in the simulator.
    fn check(ranks: usize) {
        let (rows, vocabulary, ignored) = (140, 53, 4);
        let number = |at: usize| ((at * 37 + at / 11) % 101) as f32 / 12.0 - 4.0;
        let logits: Vec<f32> = (0..rows * vocabulary).map(number).collect();
        let labels: Vec<i32> = (0..rows).map(|row| (row * 7 % (vocabulary + 5)) as i32 - 3).collect();
        let slopes: Vec<f32> = (0..rows).map(|row| number(row + 5)).collect();
        let shards = Shards::new(vocabulary, ranks).unwrap();
        let part = |range: &std::ops::Range<usize>| -> Vec<f32> {
            logits.chunks(vocabulary).flat_map(|row| row[range.clone()].to_vec()).collect()
        };
        let matrix =
            |values: &[f32], columns: usize| Arg::tensor(values, [rows, columns]).strides([columns, 1]);
        let (labels_arg, vector) = (Arg::tensor(&labels, [rows]), || Arg::output::<f32>([rows]));
        let mut terms = Vec::new();
        for range in shards.ranges() {
            let [first, count] = [range.start, range.len()].map(|number| Arg::number(number as i32));
            let outcome = part_labels()
                .simulate(&[
                    first,
                    count,
                    Arg::number(ignored),
                    labels_arg.clone(),
                    Arg::output::<i32>([rows]),
                ])
                .unwrap();
            let own = Arg::tensor(&outcome.get::<i32>("part").unwrap(), [rows]);
            // The kernel of whole rows has tests of its own.
            let parts = outcome.get::<i32>("part").unwrap();
            let values = part(range);
            let lse: Vec<f32> = values
                .chunks(range.len())
                .map(|row| row.iter().map(|x| f64::from(*x).exp()).sum::<f64>().ln() as f32)
                .collect();
            let loss = |row: usize| match usize::try_from(parts[row]) {
                Ok(label) => lse[row] - values[row * range.len() + label],
                Err(_) => 0.0,
            };
            let loss: Vec<f32> = (0..rows).map(loss).collect();
            let [loss, lse] = [loss, lse].map(|values| Arg::tensor(&values, [rows]));
            let outcome = part_terms().simulate(&[own, loss, lse, Arg::output::<f32>([rows, 2])]).unwrap();
            terms.extend(outcome.get::<f32>("terms").unwrap());
        }
        let terms = Arg::tensor(&terms, [rows, 2, ranks]);
        let numbers = [Arg::number(vocabulary as i32), Arg::number(ignored)];
        let arguments = [&numbers[..], &[labels_arg.clone(), terms, vector(), vector()]].concat();
        let outcome = combined_entropy().simulate(&arguments).unwrap();
        let (loss, lse) = (outcome.get::<f32>("loss").unwrap(), outcome.get::<f32>("lse").unwrap());
        let gradients: Vec<Vec<f32>> = shards
            .ranges()
            .iter()
            .map(|range| {
                let lists = [
                    Arg::number(range.start as i32),
                    numbers[0].clone(),
                    numbers[1].clone(),
                    labels_arg.clone(),
                    Arg::tensor(&lse, [rows]),
                    Arg::tensor(&slopes, [rows]),
                    matrix(&part(range), range.len()),
                    Arg::output::<f32>([rows, range.len()]).strides([range.len(), 1]),
                ];
                let kernel = part_gradients().def().specialize(&[], &[("T", Elem::F32)]).unwrap();
                kernel.simulate(&lists).unwrap().get::<f32>("d_logits").unwrap()
            })
            .collect();
        for row in 0..rows {
            let x = |label: usize| f64::from(logits[row * vocabulary + label]);
            let total: f64 = (0..vocabulary).map(|label| x(label).exp()).sum();
            let valid = (0..vocabulary as i32).contains(&labels[row]) && labels[row] != ignored;
            let expected = if valid { total.ln() - x(labels[row] as usize) } else { 0.0 };
            assert!(
                (f64::from(loss[row]) - expected).abs() < 1e-5,
                "row {row}: {} is not {expected}",
                loss[row]
            );
            for (range, actual) in shards.ranges().iter().zip(&gradients) {
                for label in range.clone() {
                    let wanted = if label as i32 == labels[row] { 1.0 } else { 0.0 };
                    let slope = if valid { f64::from(slopes[row]) } else { 0.0 };
                    let expected = slope * (x(label).exp() / total - wanted);
                    let actual = f64::from(actual[row * range.len() + label - range.start]);
                    assert!(
                        (actual - expected).abs() < 1e-5,
                        "row {row}, label {label}: {actual} is not {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn losses_of_divided_vocabularies_are_those_of_whole_ones() {
        [1, 3, 7].into_iter().for_each(check);
    }
}
