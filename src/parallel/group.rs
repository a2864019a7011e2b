//! All ranks in one process: a thread for each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::peers::share_memory;
use super::{Error, Options, Rank};
use crate::{Device, Stream};

/// Several devices of this process, one rank each.
///
/// ```no_run
/// use tilewright::parallel::{Combine, Group, Options};
/// use tilewright::prelude::*;
///
/// let mut group = Group::new(&[0, 1], Options::default())?;
/// let sums = group.run(|rank, stream| {
///     let mut x = DeviceTensor::from_host(stream, [1], &[rank.rank() as f32 + 1.0])?;
///     rank.all_reduce(stream, &mut x, Combine::Sum)?;
///     Ok(x.to_host()?[0])
/// })?;
/// assert_eq!(sums, [3.0, 3.0]);
/// # Ok::<(), tilewright::parallel::Error>(())
/// ```
#[derive(Debug)]
pub struct Group {
    ranks: Vec<(Rank, Stream)>,
}

impl Group {
    /// Connects these devices: the first is rank 0.
    pub fn new(devices: &[usize], options: Options) -> Result<Group, Error> {
        if devices.is_empty() {
            return Err(Error::refused("a group of no devices", "name at least one: `Group::new(&[0], …)`"));
        }
        // A device that cannot be opened is an error of its rank.
        if let Ok(all) = devices.iter().map(|device| Device::open(*device)).collect::<Result<Vec<_>, _>>() {
            share_memory(&all)?;
        }
        let board = Rank::board(devices.len(), &options);
        let connect = |rank: usize| {
            let device = Device::open(devices[rank]).map_err(Error::from);
            let rank = Rank::on(board.clone(), rank, devices.len(), device, options)?;
            let stream = rank.device().stream()?;
            Ok((rank, stream))
        };
        let connected = thread::scope(|scope| {
            let threads: Vec<_> = (0..devices.len()).map(|rank| scope.spawn(move || connect(rank))).collect();
            threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
        });
        let outcomes = connected
            .into_iter()
            .enumerate()
            .map(|(rank, joined)| joined.unwrap_or_else(|_| Err(panicked(rank))));
        Ok(Group { ranks: first_cause(outcomes.collect())? })
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Runs a function as each rank, on a thread and with a stream of its own, and waits until all transfers are complete. After an error or
    /// a panic of one rank all ranks have an error; the cause is returned.
    pub fn run<T: Send>(
        &mut self,
        work: impl Fn(&mut Rank, &Stream) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        let run = |rank: &mut Rank, stream: &Stream| {
            let caught = catch_unwind(AssertUnwindSafe(|| work(rank, stream)));
            let outcome = caught.unwrap_or_else(|_| {
                rank.lose("it panicked");
                Err(panicked(rank.rank()))
            });
            let waited = stream.synchronize();
            let outcome = outcome.and_then(|value| waited.map(|()| value).map_err(Error::from));
            rank.conclude(outcome)
        };
        let outcomes = thread::scope(|scope| {
            let start = |(rank, stream): &'_ mut (Rank, Stream)| run(rank, stream);
            let threads: Vec<_> = self.ranks.iter_mut().map(|one| scope.spawn(move || start(one))).collect();
            let joined = threads.into_iter().map(|thread| thread.join()).enumerate();
            joined.map(|(rank, joined)| joined.unwrap_or_else(|_| Err(panicked(rank)))).collect::<Vec<_>>()
        });
        let next = self.ranks.iter().map(|(rank, _)| rank.exchanges()).max().unwrap_or(0);
        self.ranks.iter_mut().for_each(|(rank, _)| rank.restart(next));
        first_cause(outcomes)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Each rank waits for the others.
        thread::scope(|scope| {
            for rank in self.ranks.drain(..) {
                scope.spawn(move || drop(rank));
            }
        });
    }
}

fn panicked(rank: usize) -> Error {
    Error::Lost { rank, why: "it panicked".into() }
}

/// All values, or the error that is the cause of the others: a rank's own, if there is one.
fn first_cause<T>(outcomes: Vec<Result<T, Error>>) -> Result<Vec<T>, Error> {
    let mut values = Vec::new();
    let mut cause: Option<Error> = None;
    for outcome in outcomes {
        match outcome {
            Ok(value) => values.push(value),
            Err(error) if cause.is_none() || matches!(error, Error::Own(_)) => {
                let known = matches!(cause, Some(Error::Own(_)));
                cause = if known { cause } else { Some(error) };
            }
            Err(_) => {}
        }
    }
    cause.map_or(Ok(values), Err)
}
