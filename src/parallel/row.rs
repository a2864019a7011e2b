//! Linear layers whose results are summed over ranks.
#![allow(unsafe_code)]

use std::ops::Range;

use super::linear::{has_extents, is_packed, result, steps, upload, upload_vector};
use super::{Error, Float, Rank, Shards, chunks};
use crate::matmul::Matmul;
use crate::runtime::Fork;
use crate::runtime::nccl::{Combine, Slice, Transfer};
use crate::{DeviceTensor, HostRef, Stream, TensorMut, TensorRef};

/// y = x·Wᵀ + bias. Each rank has the sums over some of the inputs: its part of the columns of W, (outputs, inputs). Results are
/// summed over the ranks, chunk by chunk beside the products of later chunks.
#[derive(Debug)]
pub struct Row<T: Float> {
    weight: DeviceTensor<T, 2>,
    /// At rank 0.
    bias: Option<DeviceTensor<T, 1>>,
    shards: Shards,
    rank: usize,
    chunks: Option<usize>,
}

impl<T: Float> Row<T> {
    /// The rank's part of a whole weight, (outputs, inputs).
    pub fn new<'w>(
        rank: &Rank,
        stream: &Stream,
        weight: impl Into<HostRef<'w, T, 2>>,
    ) -> Result<Row<T>, Error> {
        let weight = weight.into();
        let [outputs, inputs] = weight.shape();
        let shards = Shards::new(inputs, rank.ranks())?;
        Row::from_shard(rank, inputs, upload(stream, weight, [0..outputs, shards.of(rank.rank())])?)
    }

    /// A layer of this number of inputs. The rank has loaded its part: the columns [`Shards::of`] of W.
    pub fn from_shard(rank: &Rank, inputs: usize, weight: DeviceTensor<T, 2>) -> Result<Row<T>, Error> {
        let shards = Shards::new(inputs, rank.ranks())?;
        has_extents("the weight", &weight.shape(), &[weight.shape()[0], shards.of(rank.rank()).len()])?;
        Ok(Row { weight, bias: None, shards, rank: rank.rank(), chunks: None })
    }

    /// Adds a bias, once.
    pub fn with_bias<'b>(
        mut self,
        stream: &Stream,
        bias: impl Into<HostRef<'b, T, 1>>,
    ) -> Result<Self, Error> {
        let bias = bias.into();
        has_extents("the bias", &bias.shape(), &[self.outputs()])?;
        if self.rank == 0 {
            self.bias = Some(upload_vector(stream, bias, 0..self.outputs())?);
        }
        Ok(self)
    }

    /// Sets the number of chunks of rows, the same for all ranks; otherwise it depends on the sizes ([`chunks`]).
    pub fn with_chunks(mut self, count: usize) -> Self {
        self.chunks = Some(count);
        self
    }

    /// The columns of x that each rank has.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    fn outputs(&self) -> usize {
        self.weight.shape()[0]
    }

    /// All of y at each rank, from the rank's columns of x.
    pub fn run<'x>(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        x: impl Into<TensorRef<'x, T, 2>>,
    ) -> Result<DeviceTensor<T, 2>, Error> {
        let x = x.into();
        let y = result(stream, [x.shape()[0], self.outputs()]);
        let mut y = match y {
            Ok(y) => y,
            Err(error) => return rank.agree(&self.call(x.shape()[0], "summed"), Err(error)),
        };
        self.run_into(rank, stream, x, &mut y)?;
        Ok(y)
    }

    /// The call of this layer, which is the same at all ranks.
    fn call(&self, rows: usize, what: &str) -> String {
        let inputs: usize = self.shards.ranges().iter().map(Range::len).sum();
        let (outputs, chunks) = (self.outputs(), self.chunks);
        format!("a Row layer {inputs} to {outputs} of {rows} {what} rows, {}, chunks: {chunks:?}", T::ELEM)
    }

    /// The same in a tensor that is there already, row-major without gaps, so that it can be captured into a graph.
    pub fn run_into<'x>(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        x: impl Into<TensorRef<'x, T, 2>>,
        y: &mut DeviceTensor<T, 2>,
    ) -> Result<(), Error> {
        let x = x.into();
        let [rows, _] = x.shape();
        let all = chunks(rows, self.outputs() * size_of::<T>(), self.chunks);
        // The first product runs before ranks agree: it may have to be compiled, and it fails before others wait for this rank.
        let began = is_packed("y", y.view(), [rows, self.outputs()])
            .and_then(|()| self.product(stream, &x, all[0].clone(), y.view_mut().part(0, all[0].clone())));
        rank.agree(&self.call(rows, "summed"), began)?;
        let summed = self.sum(rank, stream, &x, y, &all);
        summed.map_err(|error| rank.broken(error))
    }

    fn sum(
        &self,
        rank: &Rank,
        stream: &Stream,
        x: &TensorRef<'_, T, 2>,
        y: &mut DeviceTensor<T, 2>,
        all: &[Range<usize>],
    ) -> Result<(), Error> {
        let width = self.outputs();
        let sums = |rows: &Range<usize>| {
            let slice = Slice { argument: 0, first: rows.start * width, count: rows.len() * width };
            [Transfer::AllReduce(slice, Combine::Sum)]
        };
        let mut chunk = all[0].clone();
        if all.len() > 1 {
            let side = rank.side();
            // SAFETY: only this rank has its second stream, and sums wait for the products of their rows.
            let fork = unsafe { Fork::new(stream, &side)? };
            fork.reserve(rank.blocks().unwrap_or(0));
            for next in &all[1..] {
                rank.transfer_beside(&side, &mut [(&mut *y).into()], &sums(&chunk))?;
                self.product(stream, x, next.clone(), y.view_mut().part(0, next.clone()))?;
                fork.side_waits()?;
                chunk = next.clone();
            }
        }
        // The main stream has waited for the second one. The last sums run alone.
        rank.transfer(stream, &mut [y.into()], &sums(&chunk))
    }

    fn product(
        &self,
        stream: &Stream,
        x: &TensorRef<'_, T, 2>,
        rows: Range<usize>,
        y: TensorMut<'_, T, 2>,
    ) -> Result<(), Error> {
        let mut product = Matmul::new();
        if let Some(bias) = &self.bias {
            product = product.bias(bias);
        }
        product.run_into(stream, x.clone().part(0, rows), self.weight.view().transposed(), y)?;
        Ok(())
    }

    /// Some rows of y at each rank: [`Shards::new`] of the rows has them. `terms` is memory for the rank's own sums of all rows, row-major
    /// without gaps, in another order.
    pub fn run_scattered<'x>(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        x: impl Into<TensorRef<'x, T, 2>>,
        terms: &mut DeviceTensor<T, 2>,
        y: &mut DeviceTensor<T, 2>,
    ) -> Result<(), Error> {
        let (x, width) = (x.into(), self.outputs());
        let [rows, _] = x.shape();
        let mut shards = None;
        let began = (|| {
            let all = Shards::new(rows, rank.ranks())?;
            is_packed("the memory for sums", terms.view(), [rows, width])?;
            is_packed("this rank's part of y", y.view(), [all.of(rank.rank()).len(), width])?;
            let first = steps(&all, width * size_of::<T>(), self.chunks).swap_remove(0);
            self.products(stream, &x, terms, &all, &first, 0)?;
            shards = Some(all);
            Ok(())
        })();
        rank.agree(&self.call(rows, "scattered"), began)?;
        let Some(shards) = shards else { unreachable!("the check has made them") };
        let scattered = self.scatter(rank, stream, &x, terms, y, &shards);
        scattered.map_err(|error| rank.broken(error))
    }

    fn scatter(
        &self,
        rank: &Rank,
        stream: &Stream,
        x: &TensorRef<'_, T, 2>,
        terms: &mut DeviceTensor<T, 2>,
        y: &mut DeviceTensor<T, 2>,
        shards: &Shards,
    ) -> Result<(), Error> {
        let (width, side) = (self.outputs(), rank.side());
        // SAFETY: only this rank has its second stream, and sums wait for the products of their rows.
        let fork = unsafe { Fork::new(stream, &side)? };
        fork.reserve(rank.blocks().unwrap_or(0));
        let mut start = 0;
        for (number, step) in steps(shards, width * size_of::<T>(), self.chunks).iter().enumerate() {
            if number > 0 {
                self.products(stream, x, terms, shards, step, start)?;
                fork.side_waits()?;
            }
            let transfers = scatters(step, start, rank.rank(), width);
            rank.transfer_beside(&side, &mut [(&mut *terms).into(), (&mut *y).into()], &transfers)?;
            start += step.iter().map(Range::len).sum::<usize>();
        }
        Ok(())
    }

    /// The sums of a step's rows, which are rows of `terms` from this one on, in the order of ranks.
    fn products(
        &self,
        stream: &Stream,
        x: &TensorRef<'_, T, 2>,
        terms: &mut DeviceTensor<T, 2>,
        shards: &Shards,
        step: &[Range<usize>],
        mut start: usize,
    ) -> Result<(), Error> {
        for (rows, part) in step.iter().zip(shards.ranges()).filter(|(rows, _)| !rows.is_empty()) {
            let to = terms.view_mut().part(0, start..start + rows.len());
            self.product(stream, x, part.start + rows.start..part.start + rows.end, to)?;
            start += rows.len();
        }
        Ok(())
    }
}

/// The transfers after which a rank has the sums of its rows of a step: argument 0 has the terms from this row on, argument 1 is its part.
fn scatters(step: &[Range<usize>], mut start: usize, own: usize, width: usize) -> Vec<Transfer> {
    let slice =
        |argument, first: usize, rows: usize| Slice { argument, first: first * width, count: rows * width };
    let to = slice(1, step[own].start, step[own].len());
    if step.iter().all(|rows| rows.len() == step[own].len()) {
        let all = step[own].len() * step.len();
        return vec![Transfer::ReduceScatter { from: slice(0, start, all), to }];
    }
    let mut transfers = Vec::new();
    for (root, rows) in step.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
        let from = slice(0, start, rows.len());
        // Elsewhere the result is not used, and is the terms themselves.
        transfers.push(Transfer::Reduce { from, to: if root == own { to } else { from }, root });
        start += rows.len();
    }
    transfers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::plain::perform;

    /// The product of x, (rows, inputs), with a part of the inputs of w, (outputs, inputs).
    fn product(x: &[f64], w: &[f64], inputs: usize, part: Range<usize>, rows: Range<usize>) -> Vec<f64> {
        let sum = |row: usize, w: &[f64]| part.clone().map(|k| x[row * inputs + k] * w[k]).sum::<f64>();
        rows.flat_map(|row| w.chunks(inputs).map(move |w| sum(row, w)).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn sums_over_ranks_are_the_whole_product() {
        for (ranks, [rows, inputs, outputs], count) in [
            (1, [5, 4, 3], 1),
            (2, [300, 7, 2], 2),
            (3, [257, 130, 3], 1),
            (4, [512, 9, 5], 3),
            (7, [1000, 64, 1], 5),
        ] {
            let number = |at: usize| ((at * 31) % 17) as f64 - 8.0;
            let (x, w): (Vec<f64>, Vec<f64>) =
                ((0..rows * inputs).map(number).collect(), (0..outputs * inputs).map(number).collect());
            let whole = product(&x, &w, inputs, 0..inputs, 0..rows);
            let (parts, shards) = (Shards::new(inputs, ranks).unwrap(), Shards::new(rows, ranks).unwrap());
            let own = |rank: usize| vec![f64::NAN; shards.of(rank).len() * outputs];
            let mut all: Vec<_> =
                (0..ranks).map(|rank| [vec![f64::NAN; rows * outputs], own(rank)]).collect();
            let mut start = 0;
            for step in steps(&shards, outputs, Some(count)) {
                for (rank, [terms, _]) in all.iter_mut().enumerate() {
                    let mut at = start * outputs;
                    for (rows, part) in step.iter().zip(shards.ranges()) {
                        let rows = part.start + rows.start..part.start + rows.end;
                        let values = product(&x, &w, inputs, parts.of(rank), rows);
                        terms[at..at + values.len()].copy_from_slice(&values);
                        at += values.len();
                    }
                }
                let transfers: Vec<_> =
                    (0..ranks).map(|rank| scatters(&step, start, rank, outputs)).collect();
                perform(&mut all, &transfers);
                start += step.iter().map(Range::len).sum::<usize>();
            }
            let actual: Vec<f64> = all.into_iter().flat_map(|[_, own]| own).collect();
            assert_eq!(actual, whole, "{rows} x {inputs} -> {outputs} on {ranks} ranks");
        }
    }
}
