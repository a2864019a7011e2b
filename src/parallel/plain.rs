//! Transfers by plain loops, for tests of plans without a device.

use crate::runtime::nccl::{Combine, Slice, Transfer};

/// The arguments of each rank.
pub(super) type Ranks = Vec<[Vec<f64>; 2]>;

fn part(arguments: &mut [Vec<f64>; 2], slice: Slice) -> &mut [f64] {
    &mut arguments[slice.argument][slice.first..slice.first + slice.count]
}

/// Performs the transfers of all ranks, which match.
pub(super) fn perform(ranks: &mut Ranks, all: &[Vec<Transfer>]) {
    let before = ranks.clone();
    let read = |rank: usize, slice: Slice| part(&mut before[rank].clone(), slice).to_vec();
    let sums = |number: usize, of: fn(&Transfer) -> Slice| {
        let terms = all.iter().enumerate().map(|(rank, transfers)| read(rank, of(&transfers[number])));
        terms.reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect()).unwrap_or_default()
    };
    for (rank, transfers) in all.iter().enumerate() {
        let mut received = vec![0; all.len()];
        for (number, transfer) in transfers.iter().enumerate() {
            let (to, values) = match *transfer {
                Transfer::AllReduce(slice, Combine::Sum) => (slice, sums(number, from)),
                Transfer::AllReduce(_, Combine::Max) => unreachable!("layers only add"),
                Transfer::ReduceScatter { to, .. } => {
                    (to, sums(number, from)[rank * to.count..(rank + 1) * to.count].to_vec())
                }
                Transfer::Reduce { to, root, .. } if root == rank => (to, sums(number, from)),
                Transfer::AllGather { to, .. } => {
                    let parts = all.iter().enumerate().map(|(rank, other)| read(rank, from(&other[number])));
                    (to, parts.collect::<Vec<_>>().concat())
                }
                Transfer::Broadcast { to, root, .. } => (to, read(root, from(&all[root][number]))),
                Transfer::Receive { to, peer } => {
                    let sent = all[peer]
                        .iter()
                        .filter(|t| matches!(t, Transfer::Send { peer, .. } if *peer == rank));
                    received[peer] += 1;
                    let send = sent.clone().nth(received[peer] - 1).expect("to each receive there is a send");
                    (to, read(peer, from(send)))
                }
                Transfer::Send { .. } | Transfer::Reduce { .. } => continue,
            };
            part(&mut ranks[rank], to).copy_from_slice(&values);
        }
    }
}

fn from(transfer: &Transfer) -> Slice {
    match *transfer {
        Transfer::AllReduce(slice, _) => slice,
        Transfer::ReduceScatter { from, .. }
        | Transfer::Reduce { from, .. }
        | Transfer::AllGather { from, .. }
        | Transfer::Broadcast { from, .. }
        | Transfer::Send { from, .. } => from,
        Transfer::Receive { .. } => unreachable!("it does not read"),
    }
}
