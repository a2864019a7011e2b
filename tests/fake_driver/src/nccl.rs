//! A stand-in for `libnccl.so.2`: communicators of threads and of processes, whose messages are files of a folder. A transfer is complete when
//! the messages of all ranks are there, and then really combines the stand-in's memory. Communicators do not block: a status of 7 means that
//! others have not come yet. Captured transfers are recorded, and move no data.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process, slice};

use crate::Status;
use crate::call::{give, quiet};
use crate::order::Range;
use crate::state::{Handle, State};

const INVALID_ARGUMENT: Status = 4;
const INVALID_USAGE: Status = 5;
const IN_PROGRESS: Status = 7;

/// One rank of a communicator.
pub(crate) struct Comm {
    folder: PathBuf,
    rank: usize,
    ranks: usize,
    /// The number of its collectives so far, and of its messages to and from each rank.
    collectives: u64,
    sent: Vec<u64>,
    received: Vec<u64>,
    /// Transfers that wait for the messages of these files.
    waiting: Vec<(Vec<PathBuf>, Work)>,
    status: Status,
}

/// A transfer of a group that has not ended.
#[derive(Clone, Copy)]
struct Queued {
    comm: Handle,
    kind: Kind,
    from: u64,
    to: u64,
    count: usize,
    elem: c_int,
    op: c_int,
    peer: usize,
    stream: Handle,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    AllReduce,
    ReduceScatter,
    Reduce,
    AllGather,
    Broadcast,
    Send,
    Receive,
}

/// What is done when all messages are there.
enum Work {
    Connect,
    Transfer(Queued),
}

thread_local! {
    /// How many groups have begun, and their transfers.
    static GROUP: RefCell<(usize, Vec<Queued>)> = const { RefCell::new((0, Vec::new())) };
}

/// The bytes of an element, by `ncclDataType_t`.
fn size(elem: c_int) -> usize {
    match elem {
        0 | 1 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        _ => 8,
    }
}

/// Exponent bits and fraction bits of a floating-point type.
fn format(elem: c_int) -> Option<(i32, i32)> {
    match elem {
        6 => Some((5, 10)),
        7 => Some((8, 23)),
        8 => Some((11, 52)),
        9 => Some((8, 7)),
        _ => None,
    }
}

fn decode(bits: u64, (exponent, fraction): (i32, i32)) -> f64 {
    let (top, bias) = ((bits >> fraction & ((1 << exponent) - 1)) as i32, (1 << (exponent - 1)) - 1);
    let rest = (bits & ((1 << fraction) - 1)) as f64;
    let hidden = if top == 0 { 0.0 } else { (fraction as f64).exp2() };
    let size = match top == (1 << exponent) - 1 {
        true if rest > 0.0 => f64::NAN,
        true => f64::INFINITY,
        false => (hidden + rest) * f64::from(top.max(1) - bias - fraction).exp2(),
    };
    if bits >> (exponent + fraction) & 1 == 1 { -size } else { size }
}

/// The nearest number of a type, to even where two are as near.
fn encode(value: f64, (exponent, fraction): (i32, i32)) -> u64 {
    let infinity = ((1u64 << exponent) - 1) << fraction;
    let least = 2 - (1 << (exponent - 1));
    let size = value.abs();
    let bits = match size {
        _ if size.is_nan() => infinity + 1,
        _ if size.is_infinite() => infinity,
        _ => {
            let power = if size == 0.0 { least } else { (size.log2().floor() as i32).max(least) };
            let steps = (size / f64::from(power - fraction).exp2()).round_ties_even() as u64;
            ((((power - least) as u64) << fraction) + steps).min(infinity)
        }
    };
    bits | u64::from(value.is_sign_negative()) << (exponent + fraction)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The elements of all ranks as one.
fn combined(all: &[Vec<u8>], elem: c_int, op: c_int) -> Vec<u8> {
    let width = size(elem);
    let both = |a: u64, b: u64| match (format(elem), op) {
        (Some(format), 2) => encode(decode(a, format).max(decode(b, format)), format),
        (Some(format), _) => encode(decode(a, format) + decode(b, format), format),
        (None, 2) => a.max(b),
        (None, _) => a.wrapping_add(b),
    };
    let mut result = all[0].clone();
    for other in &all[1..] {
        for (to, from) in result.chunks_mut(width).zip(other.chunks(width)) {
            to.copy_from_slice(&both(word(to), word(from)).to_le_bytes()[..width]);
        }
    }
    result
}

/// Writes a message that others see as a whole or not at all.
fn post(file: &Path, header: &str, data: &[u8]) {
    let part = file.with_extension(format!("part{:?}", std::thread::current().id()));
    let written = fs::write(&part, [format!("{header}\n").as_bytes(), data].concat());
    written.and_then(|()| fs::rename(&part, file)).expect("the folder of a communicator can be written");
}

fn message(file: &Path) -> (String, Vec<u8>) {
    let bytes = fs::read(file).unwrap_or_default();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes.get(end + 1..).unwrap_or_default().to_vec())
}

impl Queued {
    fn bytes(&self) -> usize {
        self.count * size(self.elem)
    }

    /// The elements that are read, and those that are written.
    fn ranges(&self, rank: usize, ranks: usize) -> Vec<Range> {
        let (one, all) = (self.bytes() as u64, (self.bytes() * ranks) as u64);
        let range = |from: u64, bytes: u64, written| Range { from, to: from + bytes, written };
        let (read, written) = match self.kind {
            Kind::AllReduce => (one, one),
            Kind::ReduceScatter => (all, one),
            Kind::AllGather => (one, all),
            Kind::Reduce => (one, if rank == self.peer { one } else { 0 }),
            Kind::Broadcast => (if rank == self.peer { one } else { 0 }, one),
            Kind::Send => (one, 0),
            Kind::Receive => (0, one),
        };
        let both = [range(self.from, read, false), range(self.to, written, true)];
        both.into_iter().filter(|range| range.to > range.from).collect()
    }
}

impl State {
    /// Submits a transfer to its stream, and posts this rank's message.
    fn submit(&mut self, queued: Queued) -> Result<(), Status> {
        let at = self.stream(queued.stream).map_err(|_| INVALID_USAGE)?;
        let (rank, ranks) =
            self.comms.get(&queued.comm).map(|comm| (comm.rank, comm.ranks)).ok_or(INVALID_ARGUMENT)?;
        let ranges = queued.ranges(rank, ranks);
        let read = ranges.iter().find(|range| !range.written).copied();
        if !self.operate(at, "a transfer", ranges).map_err(|_| INVALID_USAGE)? {
            return Ok(());
        }
        let Some(comm) = self.comms.get_mut(&queued.comm) else { return Err(INVALID_ARGUMENT) };
        let data = match read {
            // SAFETY: the stand-in's memory is never freed, and `operate` has reported ranges outside of it.
            Some(range) => unsafe {
                slice::from_raw_parts(range.from as *const u8, (range.to - range.from) as usize)
            },
            None => &[],
        };
        let Queued { kind, count, elem, op, peer, .. } = queued;
        let header = format!("{kind:?} {count} {elem} {op} {peer}");
        let files = match kind {
            Kind::Send => {
                comm.sent[peer] += 1;
                let file = comm.folder.join(format!("{rank}-{peer}-{}", comm.sent[peer]));
                post(&file, &format!("{count} {elem}"), data);
                return Ok(());
            }
            Kind::Receive => {
                comm.received[peer] += 1;
                vec![comm.folder.join(format!("{peer}-{rank}-{}", comm.received[peer]))]
            }
            _ => {
                comm.collectives += 1;
                let file = |rank: usize| comm.folder.join(format!("all-{}-{rank}", comm.collectives));
                post(&file(rank), &header, data);
                (0..ranks).map(file).collect()
            }
        };
        comm.waiting.push((files, Work::Transfer(queued)));
        Ok(())
    }

    /// Completes transfers whose messages are there, in order.
    fn progress(&mut self, comm: Handle) -> Result<Status, Status> {
        let comm = self.comms.get_mut(&comm).ok_or(INVALID_ARGUMENT)?;
        while let Some((files, _)) = comm.waiting.first() {
            if !files.iter().all(|file| file.exists()) {
                return Ok(IN_PROGRESS);
            }
            let (files, work) = comm.waiting.remove(0);
            let Work::Transfer(queued) = work else { continue };
            let messages: Vec<(String, Vec<u8>)> = files.iter().map(|file| message(file)).collect();
            let expected = match queued.kind {
                Kind::Receive => format!("{} {}", queued.count, queued.elem),
                _ => messages[comm.rank].0.clone(),
            };
            if messages.iter().any(|(header, _)| *header != expected) {
                self.hazards.push(format!("ranks transfer different things: {messages:?}"));
                comm.status = INVALID_ARGUMENT;
                break;
            }
            let all: Vec<Vec<u8>> = messages.into_iter().map(|(_, data)| data).collect();
            let result = match queued.kind {
                Kind::AllReduce => combined(&all, queued.elem, queued.op),
                Kind::Reduce if comm.rank == queued.peer => combined(&all, queued.elem, queued.op),
                Kind::ReduceScatter => {
                    let (start, bytes) = (comm.rank * queued.bytes(), queued.bytes());
                    combined(&all, queued.elem, queued.op)[start..start + bytes].to_vec()
                }
                Kind::AllGather => all.concat(),
                Kind::Broadcast => all[queued.peer].clone(),
                Kind::Receive => all[0].clone(),
                Kind::Reduce | Kind::Send => continue,
            };
            // SAFETY: as in `submit`; the ranges were checked there.
            unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), queued.to as *mut u8, result.len()) };
        }
        Ok(comm.status)
    }
}

/// Adds a transfer to the thread's group, or makes it one by itself.
fn enqueue(state: &mut State, queued: Queued) -> Result<(), Status> {
    if !state.comms.contains_key(&queued.comm) {
        return Err(INVALID_ARGUMENT);
    }
    GROUP.with_borrow_mut(|(depth, all)| match depth {
        0 => state.submit(queued),
        _ => {
            all.push(queued);
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> Status {
    unsafe { give(version, 2_28_03) };
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(status: Status) -> *const c_char {
    match status {
        0 => c"no error".as_ptr(),
        INVALID_ARGUMENT => c"invalid argument".as_ptr(),
        INVALID_USAGE => c"invalid usage".as_ptr(),
        IN_PROGRESS => c"in progress".as_ptr(),
        _ => c"unhandled error".as_ptr(),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_comm: Handle) -> *const c_char {
    c"".as_ptr()
}

/// `ncclUniqueId`
#[repr(C)]
pub struct Id([u8; 128]);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(comm: Handle, status: *mut Status) -> Status {
    quiet(|state| match state.progress(comm) {
        Ok(state) => {
            unsafe { give(status, state) };
            0
        }
        Err(error) => error,
    })
}

driver! {
    fn ncclGetUniqueId(id: *mut Id) |_state| {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let root = env::var_os("FAKE_NCCL").map_or_else(env::temp_dir, PathBuf::from);
        let name = format!("nccl-{}-{}", process::id(), IDS.fetch_add(1, Ordering::Relaxed));
        let folder = root.join(name);
        fs::create_dir_all(&folder).map_err(|_| INVALID_USAGE)?;
        let (mut bytes, path) = ([0; 128], folder.to_string_lossy().into_owned());
        bytes[..path.len()].copy_from_slice(path.as_bytes());
        unsafe { give(id, Id(bytes)) };
        Ok(())
    }

    fn ncclCommFinalize(comm: Handle) |state| {
        state.comms.get(&comm).map(drop).ok_or(INVALID_ARGUMENT)
    }

    fn ncclCommDestroy(comm: Handle) |state| {
        state.comms.remove(&comm).map(drop).ok_or(INVALID_ARGUMENT)
    }

    fn ncclCommAbort(comm: Handle) |state| {
        state.comms.remove(&comm).map(drop).ok_or(INVALID_ARGUMENT)
    }

    fn ncclGroupStart() |_state| {
        GROUP.with_borrow_mut(|(depth, _)| *depth += 1);
        Ok(())
    }

    fn ncclGroupEnd() |state| {
        let all = GROUP.with_borrow_mut(|(depth, all)| {
            *depth = depth.saturating_sub(1);
            if *depth == 0 { std::mem::take(all) } else { Vec::new() }
        });
        let comm = all.first().map(|queued| queued.comm);
        all.into_iter().try_for_each(|queued| state.submit(queued))?;
        match comm.map_or(Ok(0), |comm| state.progress(comm))? {
            0 => Ok(()),
            status => Err(status),
        }
    }

    fn ncclAllReduce(from: u64, to: u64, count: usize, elem: c_int, op: c_int, comm: Handle, stream: Handle) |state| {
        enqueue(state, Queued { comm, kind: Kind::AllReduce, from, to, count, elem, op, peer: 0, stream })
    }

    fn ncclReduceScatter(from: u64, to: u64, count: usize, elem: c_int, op: c_int, comm: Handle, stream: Handle) |state| {
        enqueue(state, Queued { comm, kind: Kind::ReduceScatter, from, to, count, elem, op, peer: 0, stream })
    }

    fn ncclReduce(from: u64, to: u64, count: usize, elem: c_int, op: c_int, root: c_int, comm: Handle, stream: Handle) |state| {
        enqueue(state, Queued { comm, kind: Kind::Reduce, from, to, count, elem, op, peer: root as usize, stream })
    }

    fn ncclBroadcast(from: u64, to: u64, count: usize, elem: c_int, root: c_int, comm: Handle, stream: Handle) |state| {
        enqueue(state, Queued { comm, kind: Kind::Broadcast, from, to, count, elem, op: 0, peer: root as usize, stream })
    }

    fn ncclAllGather(from: u64, to: u64, count: usize, elem: c_int, comm: Handle, stream: Handle) |state| {
        enqueue(state, Queued { comm, kind: Kind::AllGather, from, to, count, elem, op: 0, peer: 0, stream })
    }

    fn ncclSend(from: u64, count: usize, elem: c_int, peer: c_int, comm: Handle, stream: Handle) |state| {
        enqueue(state, Queued { comm, kind: Kind::Send, from, to: 0, count, elem, op: 0, peer: peer as usize, stream })
    }

    fn ncclRecv(to: u64, count: usize, elem: c_int, peer: c_int, comm: Handle, stream: Handle) |state| {
        enqueue(state, Queued { comm, kind: Kind::Receive, from: 0, to, count, elem, op: 0, peer: peer as usize, stream })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankConfig(
    comm: *mut Handle,
    ranks: c_int,
    id: Id,
    rank: c_int,
    _config: *const u8,
) -> Status {
    let path = CStr::from_bytes_until_nul(&id.0).map(|text| text.to_string_lossy().into_owned());
    let (ranks, rank) = (ranks as usize, rank as usize);
    crate::call::enter("ncclCommInitRankConfig", &|| vec![("rank", Some(rank.to_string()))], |state| {
        let folder = PathBuf::from(path.map_err(|_| INVALID_ARGUMENT)?);
        let file = |rank: usize| folder.join(format!("hello-{rank}"));
        post(&file(rank), "", &[]);
        let (waiting, counts) = (vec![((0..ranks).map(file).collect(), Work::Connect)], vec![0; ranks]);
        let made = state.make();
        let (sent, received) = (counts.clone(), counts);
        state
            .comms
            .insert(made, Comm { folder, rank, ranks, collectives: 0, sent, received, waiting, status: 0 });
        unsafe { give(comm, made) };
        Err(IN_PROGRESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_values() {
        for bits in 0..=u16::MAX {
            for elem in [6, 9] {
                let format = format(elem).unwrap();
                let value = decode(bits.into(), format);
                assert!(value.is_nan() || encode(value, format) == u64::from(bits), "{bits:#x} of {elem}");
            }
        }
        for value in [1.5f32, -0.0, f32::MIN_POSITIVE / 8.0, f32::MAX, 3.25] {
            assert_eq!(encode(f64::from(value), (8, 23)), u64::from(value.to_bits()));
        }
        assert_eq!(decode(encode(1.0 + 1.0 / 256.0, (8, 7)), (8, 7)), 1.0);
    }

    #[test]
    fn elements_are_combined() {
        let all = [1.0f32, 2.5].map(|value| value.to_le_bytes().to_vec());
        assert_eq!(combined(&all, 7, 0), 3.5f32.to_le_bytes());
        assert_eq!(combined(&all, 7, 2), 2.5f32.to_le_bytes());
        assert_eq!(combined(&[vec![1, 0, 0, 0], vec![2, 1, 0, 0]], 2, 0), [3, 1, 0, 0]);
    }
}
