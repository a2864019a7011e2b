//! Experts that are divided among ranks: rows travel to the ranks of their experts and back.

use std::ops::Range;

use super::linear::result;
use super::{Error, Float, Rank, Shards};
use crate::matmul::Matmul;
use crate::models;
use crate::runtime::nccl::{Slice, Transfer};
use crate::{DeviceTensor, Stream, TensorRef};

/// y = x·wᵀ, where each expert has its own rows of x. Each rank has some of the experts, and rows for all of them.
#[derive(Debug)]
pub struct Experts<T: Float> {
    /// (experts of this rank, outputs, inputs), the last mode contiguous.
    weights: DeviceTensor<T, 3>,
    shards: Shards,
    rank: usize,
}

impl<T: Float> Experts<T> {
    /// This number of experts. The rank has loaded its part, (experts, outputs, inputs) with contiguous inputs:
    /// [`Shards::of`] has their numbers.
    pub fn from_shard(rank: &Rank, experts: usize, weights: DeviceTensor<T, 3>) -> Result<Experts<T>, Error> {
        let all = Shards::new(experts, rank.ranks())?;
        let ([own, outputs, inputs], expected) = (weights.shape(), all.of(rank.rank()).len());
        if own != expected || weights.strides() != [outputs * inputs, inputs, 1] {
            let message = format!(
                "weights are {:?} with strides {:?}, and this rank has {expected} experts",
                weights.shape(),
                weights.strides()
            );
            return Err(Error::refused(message, "give (experts, outputs, inputs), row-major without gaps"));
        }
        Ok(Experts { weights, shards: all, rank: rank.rank() })
    }

    /// The experts of each rank.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// The results for this rank's rows, in their order. Rows of x are row-major without gaps and sorted by expert; `counts` has the number
    /// of rows for each expert of all ranks.
    pub fn run(
        &self,
        rank: &mut Rank,
        stream: &Stream,
        x: TensorRef<'_, T, 2>,
        counts: &[usize],
    ) -> Result<DeviceTensor<T, 2>, Error> {
        let [_, outputs, inputs] = self.weights.shape();
        let experts = self.shards.ranges().last().map_or(0, |range| range.end);
        let [rows, _] = x.shape();
        let own =
            self.checked(&x, counts).and_then(|()| Ok((result(stream, [rows, outputs])?, encode(counts))));
        let call = format!("experts {inputs} to {outputs} of {experts}, {}", T::ELEM);
        let (mut y, all) = rank.exchange(&call, own)?;
        let routes = Routes::new(&self.shards, all.iter().map(|bytes| decode(bytes)).collect());
        let arrived = routes.arrived(self.rank);
        // Ranks agree again, because memory for the rows of others may be short.
        let memory =
            result(stream, [arrived, inputs]).and_then(|x| Ok((x, result(stream, [arrived, outputs])?)));
        let (mut there, mut done) = rank.agree("the rows of experts", memory)?;
        let transferred = (|| {
            let out = routes.transfers(self.rank, inputs);
            self.exchange_rows(rank, stream, &mut [x.into(), (&mut there).into()], &out)?;
            self.multiply(stream, &there, &mut done, &routes)?;
            let back: Vec<Transfer> = routes.transfers(self.rank, outputs).iter().map(reversed).collect();
            self.exchange_rows(rank, stream, &mut [(&mut y).into(), (&done).into()], &back)
        })();
        transferred.map_err(|error| rank.broken(error))?;
        Ok(y)
    }

    fn exchange_rows(
        &self,
        rank: &Rank,
        stream: &Stream,
        arguments: &mut [crate::Argument<'_>],
        transfers: &[Transfer],
    ) -> Result<(), Error> {
        if transfers.is_empty() { Ok(()) } else { rank.transfer(stream, arguments, transfers) }
    }

    fn checked(&self, x: &TensorRef<'_, T, 2>, counts: &[usize]) -> Result<(), Error> {
        let [rows, inputs] = x.shape();
        let (experts, total) =
            (self.shards.ranges().last().map_or(0, |range| range.end), counts.iter().sum::<usize>());
        let is_packed = crate::Argument::from(x.clone()).strides() == [inputs as i64, 1] || rows <= 1;
        if counts.len() == experts && total == rows && inputs == self.weights.shape()[2] && is_packed {
            return Ok(());
        }
        let message = format!(
            "x is {rows} x {inputs}, with {total} rows for {} experts, and there are {experts} experts of {} inputs",
            counts.len(),
            self.weights.shape()[2]
        );
        Err(Error::refused(message, "give rows without gaps, sorted by expert, and a count for each expert"))
    }

    /// The products of this rank's experts.
    fn multiply(
        &self,
        stream: &Stream,
        x: &DeviceTensor<T, 2>,
        y: &mut DeviceTensor<T, 2>,
        routes: &Routes,
    ) -> Result<(), Error> {
        let [experts, outputs, inputs] = self.weights.shape();
        let rows: Vec<Range<usize>> = (0..experts).map(|expert| routes.rows(self.rank, expert)).collect();
        if x.shape()[0] == 0 {
            return Ok(());
        }
        if T::IS_HALF && stream.device().properties().arch() == 90 {
            let offsets: Vec<i32> =
                rows.iter().map(|rows| rows.start as i32).chain([x.shape()[0] as i32]).collect();
            let offsets = DeviceTensor::from_host(stream, [offsets.len()], &offsets)?;
            models::experts_of(stream, x.view(), self.weights.view(), offsets.view(), y.view_mut())?;
            return Ok(());
        }
        for (expert, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            // W of one expert, transposed.
            let weight =
                self.weights.view().part(0, expert..expert + 1).reshaped([inputs, outputs], [1, inputs]);
            Matmul::new().run_into(
                stream,
                x.view().part(0, rows.clone()),
                weight,
                y.view_mut().part(0, rows),
            )?;
        }
        Ok(())
    }
}

fn encode(counts: &[usize]) -> Vec<u8> {
    counts.iter().flat_map(|count| (*count as u64).to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Vec<usize> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes) as usize).collect()
}

/// A transfer in the other direction.
fn reversed(transfer: &Transfer) -> Transfer {
    match *transfer {
        Transfer::Send { from, peer } => Transfer::Receive { to: from, peer },
        Transfer::Receive { to, peer } => Transfer::Send { from: to, peer },
        other => other,
    }
}

/// Which rows travel where: plain numbers, without a device.
#[derive(Debug)]
pub(super) struct Routes {
    /// The first expert of each rank, and the number of experts.
    first: Vec<usize>,
    /// For each rank, the number of its rows for each expert.
    counts: Vec<Vec<usize>>,
}

impl Routes {
    pub(super) fn new(shards: &Shards, counts: Vec<Vec<usize>>) -> Routes {
        let ends = shards.ranges().last().map(|range| range.end);
        Routes { first: shards.ranges().iter().map(|range| range.start).chain(ends).collect(), counts }
    }

    /// The number of rows that a rank's experts have.
    pub(super) fn arrived(&self, rank: usize) -> usize {
        self.counts
            .iter()
            .map(|counts| counts[self.first[rank]..self.first[rank + 1]].iter().sum::<usize>())
            .sum()
    }

    /// The rows of one of a rank's experts where they arrive: rows of ranks in order.
    pub(super) fn rows(&self, rank: usize, expert: usize) -> Range<usize> {
        let expert = self.first[rank] + expert;
        let rows = |expert: usize| self.counts.iter().map(|counts| counts[expert]).sum::<usize>();
        let start = (self.first[rank]..expert).map(rows).sum();
        start..start + rows(expert)
    }

    /// A rank's transfers of rows of this width, from argument 0, its rows sorted by expert, to argument 1, the rows of its experts.
    pub(super) fn transfers(&self, rank: usize, width: usize) -> Vec<Transfer> {
        let slice = |argument, first: usize, rows: usize| Slice {
            argument,
            first: first * width,
            count: rows * width,
        };
        let mut transfers = Vec::new();
        let mut start = 0;
        for peer in 0..self.counts.len() {
            for expert in self.first[peer]..self.first[peer + 1] {
                let rows = self.counts[rank][expert];
                if rows > 0 {
                    transfers.push(Transfer::Send { from: slice(0, start, rows), peer });
                }
                start += rows;
            }
        }
        for (peer, counts) in self.counts.iter().enumerate() {
            let experts = self.first[rank]..self.first[rank + 1];
            for (expert, &count) in experts.clone().zip(&counts[experts]) {
                let before: usize = self.counts[..peer].iter().map(|counts| counts[expert]).sum();
                if count > 0 {
                    let first = self.rows(rank, expert - self.first[rank]).start + before;
                    transfers.push(Transfer::Receive { to: slice(1, first, count), peer });
                }
            }
        }
        transfers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::plain::perform;

    #[test]
    fn rows_travel_to_their_experts_and_back() {
        for (ranks, experts, width) in [(1, 3, 2), (2, 5, 1), (3, 3, 4), (4, 9, 2)] {
            let shards = Shards::new(experts, ranks).unwrap();
            let counts: Vec<Vec<usize>> = (0..ranks)
                .map(|rank| (0..experts).map(|expert| (rank * 5 + expert * 3) % 4).collect())
                .collect();
            let routes = Routes::new(&shards, counts.iter().map(|counts| decode(&encode(counts))).collect());
            // A row has the number of its expert.
            let rows = |rank: usize| -> Vec<f64> {
                let all = counts[rank].iter().enumerate();
                all.flat_map(|(expert, count)| vec![expert as f64; count * width]).collect()
            };
            let arrived = |rank: usize| vec![f64::NAN; routes.arrived(rank) * width];
            let mut all: Vec<_> = (0..ranks).map(|rank| [rows(rank), arrived(rank)]).collect();
            let out: Vec<_> = (0..ranks).map(|rank| routes.transfers(rank, width)).collect();
            perform(&mut all, &out);
            for (rank, [own, there]) in all.iter_mut().enumerate() {
                for expert in shards.of(rank) {
                    let rows = routes.rows(rank, expert - shards.of(rank).start);
                    assert!(
                        there[rows.start * width..rows.end * width].iter().all(|row| *row == expert as f64)
                    );
                }
                there.iter_mut().for_each(|row| *row += 100.0);
                own.fill(f64::NAN);
            }
            let back: Vec<Vec<_>> = out.iter().map(|all| all.iter().map(reversed).collect()).collect();
            perform(&mut all, &back);
            for (rank, [own, _]) in all.iter().enumerate() {
                assert_eq!(*own, rows(rank).iter().map(|row| row + 100.0).collect::<Vec<_>>());
            }
        }
    }
}
