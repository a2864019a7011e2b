//! One rank: a device, its communicator, and the exchanges in which ranks agree on calls before they transfer anything.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::board::{Board, Call, Entry};
use super::remote::{self, Meeting, Sockets};
use super::{Error, Options};
use crate::runtime::nccl::{Combine, Communicator, Id, Transfer};
use crate::runtime::{Graph, nccl};
use crate::{Argument, Device, DeviceTensor, Element, Stream};

/// One of the ranks: a device that computes its part of each layer.
///
/// All ranks make the same calls in the same order. Before ranks transfer anything, they compare their calls; see [`Error`] for what
/// happens if they differ, or if one of them fails.
pub struct Rank {
    board: Arc<Board>,
    rank: usize,
    ranks: usize,
    /// The number of exchanges so far.
    exchanges: u64,
    /// The error of the last exchange, which all ranks have.
    failed: Option<Error>,
    connected: Arc<Connections>,
    /// The stream of transfers that run beside products.
    side: Stream,
    options: Options,
    watch: Option<JoinHandle<()>>,
    ended: Arc<AtomicBool>,
}

/// Communicators of a rank.
struct Connections {
    /// For transfers alone, with as many blocks as NCCL wants.
    alone: Communicator,
    /// For transfers beside products, if their blocks are limited.
    beside: Option<Communicator>,
}

impl Connections {
    fn new(
        board: &Board,
        device: &Device,
        ids: &[u8],
        ranks: [usize; 2],
        options: &Options,
    ) -> Result<Connections, Error> {
        let start = Instant::now();
        let time = options.timeout.max(options.meeting_timeout);
        let go_on = || board.lost().is_none() && start.elapsed() < time;
        let ([alone, beside], []) = ids.as_chunks::<128>() else {
            return Err(Error::Meeting("rank 0 gave no names".into()));
        };
        let connect = |id: &[u8; 128], blocks| {
            Communicator::connect(device, Id::from_bytes(*id), ranks, nccl::Options { blocks }, &go_on)
        };
        let alone = connect(alone, None)?;
        let beside = options.blocks.map(|blocks| connect(beside, Some(blocks))).transpose()?;
        Ok(Connections { alone, beside })
    }

    fn all(&self) -> impl Iterator<Item = &Communicator> {
        std::iter::once(&self.alone).chain(&self.beside)
    }
}

impl Rank {
    /// Joins a group of processes, each with one device. All processes call it.
    ///
    /// ```no_run
    /// use tilewright::parallel::{Meeting, Options, Rank};
    ///
    /// let mut rank = Rank::join(&Meeting::from_env()?, Options::default())?;
    /// println!("{} of {}", rank.rank(), rank.ranks());
    /// rank.finish()?;
    /// # Ok::<(), tilewright::parallel::Error>(())
    /// ```
    pub fn join(meeting: &Meeting, options: Options) -> Result<Rank, Error> {
        let board = remote::meet(meeting, &options)?;
        Rank::on(
            board,
            meeting.rank,
            meeting.ranks,
            Device::open(meeting.device).map_err(Error::from),
            options,
        )
    }

    /// The board of ranks that are all in this process.
    pub(super) fn board(ranks: usize, options: &Options) -> Arc<Board> {
        Arc::new(Board::new(ranks, ranks, options.timeout, Sockets::default()))
    }

    /// Connects a rank of a board. An error of its own reaches the others.
    pub(super) fn on(
        board: Arc<Board>,
        rank: usize,
        ranks: usize,
        device: Result<Device, Error>,
        options: Options,
    ) -> Result<Rank, Error> {
        let own = device.and_then(|device| {
            let side = device.stream()?;
            nccl::version()?;
            let ids = if rank == 0 { [Id::new()?.bytes(), Id::new()?.bytes()].concat() } else { Vec::new() };
            Ok(((device, side), ids))
        });
        let mut exchange = 0;
        let call = format!("to connect, with {options:?}");
        let ((device, side), data) = together(&board, rank, &mut exchange, &call, own)?;
        let connected = Connections::new(&board, &device, &data[0], [rank, ranks], &options);
        let connected = connected.map_err(|error| broken(&board, rank, error))?;
        let (connected, ended) = (Arc::new(connected), Arc::new(AtomicBool::new(false)));
        let watch = {
            let (board, connected, ended) = (board.clone(), connected.clone(), ended.clone());
            thread::spawn(move || watch(&board, rank, &connected, &ended))
        };
        let mut rank = Rank {
            board,
            rank,
            ranks,
            exchanges: exchange,
            failed: None,
            connected,
            side,
            options,
            watch: Some(watch),
            ended,
        };
        rank.agree("to be connected", Ok(()))?;
        Ok(rank)
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        self.connected.alone.device()
    }

    /// The most blocks of a transfer beside products, if they are limited.
    pub(super) fn blocks(&self) -> Option<u32> {
        self.options.blocks
    }

    pub(super) fn side(&self) -> Stream {
        self.side.clone()
    }

    /// Makes sure that all ranks are here with the same call, and that none of them failed. `own` is the outcome of this rank's part so
    /// far: after an error of one rank all ranks have one.
    pub fn agree<T>(&mut self, call: &str, own: Result<T, Error>) -> Result<T, Error> {
        self.exchange(call, own.map(|value| (value, Vec::new()))).map(|(value, _)| value)
    }

    /// The same, with data of each rank for all others.
    pub(super) fn exchange<T>(
        &mut self,
        call: &str,
        own: Result<(T, Vec<u8>), Error>,
    ) -> Result<(T, Vec<Vec<u8>>), Error> {
        let outcome = together(&self.board, self.rank, &mut self.exchanges, call, own);
        self.failed = outcome.as_ref().err().cloned();
        outcome
    }

    /// The outcome of a run. If the last exchange failed, all ranks know; otherwise they hear of an error here.
    pub(super) fn conclude<T>(&mut self, own: Result<T, Error>) -> Result<T, Error> {
        match self.failed.take() {
            Some(error) => Err(own.err().unwrap_or(error)),
            None => self.agree("the end of a run", own),
        }
    }

    /// Waits for a stream, then for all ranks. The results of transfers on the stream are valid if it returns no error.
    pub fn synchronize(&mut self, stream: &Stream) -> Result<(), Error> {
        let own = stream.synchronize().map_err(Error::from);
        self.agree("to wait for a stream", own)
    }

    /// Launches a graph with transfers, once all ranks are about to.
    pub fn launch(&mut self, graph: &Graph) -> Result<(), Error> {
        self.agree("to launch a graph", Ok(()))?;
        graph.launch().map_err(|error| self.broken(error.into()))
    }

    /// Submits transfers on which the ranks have agreed.
    pub(super) fn transfer(
        &self,
        stream: &Stream,
        arguments: &mut [Argument<'_>],
        transfers: &[Transfer],
    ) -> Result<(), Error> {
        self.submit(&self.connected.alone, stream, arguments, transfers)
    }

    /// The same, where products run beside the transfers.
    pub(super) fn transfer_beside(
        &self,
        stream: &Stream,
        arguments: &mut [Argument<'_>],
        transfers: &[Transfer],
    ) -> Result<(), Error> {
        let connected = self.connected.beside.as_ref().unwrap_or(&self.connected.alone);
        self.submit(connected, stream, arguments, transfers)
    }

    fn submit(
        &self,
        connected: &Communicator,
        stream: &Stream,
        arguments: &mut [Argument<'_>],
        transfers: &[Transfer],
    ) -> Result<(), Error> {
        let start = Instant::now();
        let go_on = || self.board.lost().is_none() && start.elapsed() < self.board.timeout;
        // SAFETY: the ranks have agreed on the call, which determines the transfers of each.
        let submitted = unsafe { connected.submit(stream, arguments, transfers, &go_on) };
        submitted.map_err(|error| self.broken(error.into()))
    }

    /// A failure after ranks agreed: others may wait for this rank's transfers, so the group ends.
    pub(super) fn broken(&self, error: Error) -> Error {
        broken(&self.board, self.rank, error)
    }

    /// All ranks' elements become one, in the same memory: their sum, or their maximum. The tensor has the same extents and strides at all ranks.
    pub fn all_reduce<T: Element, const R: usize>(
        &mut self,
        stream: &Stream,
        tensor: &mut DeviceTensor<T, R>,
        combine: Combine,
    ) -> Result<(), Error> {
        let (shape, strides, count) = (tensor.shape(), tensor.strides(), tensor.stored_len());
        self.agree(&format!("all_reduce {combine:?} of {shape:?} : {strides:?} {}", T::ELEM), Ok(()))?;
        let slice = nccl::Slice { argument: 0, first: 0, count };
        self.transfer(stream, &mut [tensor.into()], &[Transfer::AllReduce(slice, combine)])
    }

    /// Ends the group: all ranks call it. Without an error all results of all ranks are valid.
    pub fn finish(mut self) -> Result<(), Error> {
        self.end()
    }

    /// Forgets the exchanges of a run, after which no rank is in one. The next run begins with this exchange.
    pub(super) fn restart(&mut self, exchange: u64) {
        self.board.clear();
        (self.exchanges, self.failed) = (exchange, None);
    }

    pub(super) fn exchanges(&self) -> u64 {
        self.exchanges
    }

    pub(super) fn lose(&self, why: impl Into<String>) {
        self.board.lose(self.rank, why);
    }

    fn end(&mut self) -> Result<(), Error> {
        if self.ended.load(Ordering::SeqCst) {
            return Ok(());
        }
        let own = match thread::panicking() {
            true => {
                self.lose("it panicked");
                Err(Error::Meeting("this rank panicked".into()))
            }
            false => self.device().synchronize().map_err(Error::from),
        };
        let outcome = self.agree("to end", own);
        self.ended.store(true, Ordering::SeqCst);
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
        let start = Instant::now();
        let go_on = || self.board.lost().is_none() && start.elapsed() < self.board.timeout;
        let outcome = match outcome {
            Ok(()) => self.connected.all().try_for_each(|one| one.finish(&go_on)).map_err(Error::from),
            Err(error) => {
                self.connected.all().for_each(Communicator::abort);
                self.lose("it ended");
                Err(error)
            }
        };
        // Rank 0 passes on what others say, so it leaves last.
        if self.rank == 0 {
            self.board.wait_for_ends(self.board.sockets.len());
        }
        self.board.sockets.close();
        outcome
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl std::fmt::Debug for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rank({} of {}, {:?})", self.rank, self.ranks, self.device())
    }
}

fn broken(board: &Board, rank: usize, error: Error) -> Error {
    // Another rank may be the cause.
    let before = board.lost();
    board.lose(rank, error.to_string());
    before.unwrap_or(error)
}

/// An exchange of all ranks: see [`Rank::agree`].
fn together<T>(
    board: &Board,
    rank: usize,
    exchange: &mut u64,
    text: &str,
    own: Result<(T, Vec<u8>), Error>,
) -> Result<(T, Vec<Vec<u8>>), Error> {
    let (own, entry) = match own {
        Ok((value, data)) => (Ok(value), Ok(Call { text: text.into(), data })),
        Err(error) => {
            let message = error.to_string();
            (Err(error), Err(message))
        }
    };
    *exchange += 1;
    let entries = board.exchange(rank, *exchange, entry);
    let value = own?;
    Ok((value, compare(rank, text, entries?)?))
}

/// The data of all ranks, if all make this call.
fn compare(own: usize, text: &str, entries: Vec<Entry>) -> Result<Vec<Vec<u8>>, Error> {
    let failed = entries.iter().enumerate().find_map(|(rank, entry)| Some((rank, entry.as_ref().err()?)));
    if let Some((rank, message)) = failed {
        return Err(Error::Other { rank, message: message.clone() });
    }
    let calls: Vec<Call> = entries.into_iter().flatten().collect();
    match calls.iter().position(|call| call.text != text) {
        None => Ok(calls.into_iter().map(|call| call.data).collect()),
        Some(other) => {
            let mut both = [own, other];
            both.sort_unstable();
            let [first, second] = both.map(|rank| (rank, calls[rank].text.clone()));
            Err(Error::Differ { first, second })
        }
    }
}

/// Ends the communicator when a rank is lost, so that no kernel waits for that rank.
fn watch(board: &Board, rank: usize, connected: &Connections, ended: &AtomicBool) {
    const PAUSE: Duration = Duration::from_millis(50);
    while !ended.load(Ordering::SeqCst) {
        if board.wait_for_loss(PAUSE).is_some() {
            return connected.all().for_each(Communicator::abort);
        }
        if let Err(error) = connected.all().try_for_each(Communicator::check) {
            board.lose(rank, error.to_string());
        }
    }
}
