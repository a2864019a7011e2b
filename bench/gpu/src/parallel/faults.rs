//! Random runs in which a rank fails. All ranks must have an error within the bound, and none a wrong result.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tilewright::parallel::{Combine, Error, Group, Meeting, Options, Rank, Row};
use tilewright::{DeviceTensor, Stream};

use super::reference::{Random, Value};

/// The longest time in which all ranks have an error.
const BOUND: Duration = Duration::from_secs(10);
const OPTIONS: Options =
    Options { timeout: Duration::from_secs(5), meeting_timeout: Duration::from_secs(60), blocks: None };

/// What is wrong in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    Shape,
    Memory,
    OwnError,
    Panic,
    LeavesEarly,
}

/// How runs ended.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) runs: usize,
    pub(crate) wrong: Vec<String>,
    pub(crate) longest: Duration,
    pub(crate) groups: usize,
}

impl Tally {
    fn note(&mut self, good: bool, time: Duration, what: String) {
        self.runs += 1;
        self.longest = self.longest.max(time);
        if !good || time > BOUND {
            self.wrong.push(format!("{what}, after {time:?}"));
        }
    }
}

/// Runs on devices of this process. A panic ends a group, so there are few.
///
/// `computes` is false where kernels do not run: then only sums over ranks have right results.
pub(crate) fn in_process(
    devices: &[usize],
    count: usize,
    seed: u64,
    panics: usize,
    computes: bool,
) -> Result<Tally, Error> {
    let mut random = Random(seed);
    let mut tally = Tally { groups: 1, ..Tally::default() };
    let mut group = Group::new(devices, OPTIONS)?;
    for run in 0..count {
        let fault = match random.below(count) {
            number if number < panics => Fault::Panic,
            _ => [Fault::None, Fault::Shape, Fault::Memory, Fault::OwnError, Fault::LeavesEarly]
                [random.below(5)],
        };
        let (victim, rows, data) = (random.below(devices.len()), 1 + random.below(300), random.next());
        let outcomes = Mutex::new(vec![None; devices.len()]);
        let start = Instant::now();
        let outcome = group.run(|rank, stream| {
            let own = if rank.rank() == victim { fault } else { Fault::None };
            let result =
                work(rank, stream, own, rows, data).map(|[product, sum]| sum && (product || !computes));
            outcomes.lock().expect("no thread panics with it")[rank.rank()] =
                Some(result.as_ref().map(|good| *good).map_err(|error| error.to_string()));
            result
        });
        let time = start.elapsed();
        let outcomes = outcomes.into_inner().expect("no thread panics with it");
        // One rank alone differs from no other.
        let is_harmless = fault == Fault::None || fault == Fault::Shape && devices.len() == 1;
        let good = match fault {
            Fault::LeavesEarly if devices.len() == 1 => outcome.is_ok(),
            _ if is_harmless => outcome.as_ref().is_ok_and(|good| good.iter().all(|good| *good)),
            // The one that panics has no outcome.
            _ => outcome.is_err() && outcomes.iter().flatten().all(Result::is_err),
        };
        tally.note(good, time, format!("run {run}: {fault:?} at rank {victim}, {rows} rows: {outcomes:?}"));
        if outcome.is_err_and(|error| matches!(error, Error::Lost { .. })) {
            drop(group);
            group = Group::new(devices, OPTIONS)?;
            tally.groups += 1;
        }
    }
    Ok(tally)
}

/// A row layer and a sum over ranks, in which this rank may do something wrong. Are both results right?
fn work(rank: &mut Rank, stream: &Stream, fault: Fault, rows: usize, data: u64) -> Result<[bool; 2], Error> {
    let (inputs, outputs) = (64 * rank.ranks(), 96);
    let mut random = Random(data);
    let weight = random.matrix::<f32>([outputs, inputs]);
    let layer = Row::new(rank, stream, &weight)?.with_chunks(1 + data as usize % 3);
    let rows = if fault == Fault::Shape { rows + 1 } else { rows };
    let part = layer.shards().of(rank.rank()).len();
    let x = DeviceTensor::from_elements(stream, [rows, part], [part, 1], &vec![1.0f32; rows * part])?;
    if fault == Fault::LeavesEarly {
        return rank.agree("something else", Ok(())).map(|()| [false; 2]);
    }
    let memory = match fault {
        Fault::Memory => DeviceTensor::<f32, 1>::zeros(stream, [1 << 46]).map(drop).map_err(Error::from),
        Fault::OwnError => Err(Error::Meeting("an error of the program".into())),
        _ => Ok(()),
    };
    rank.agree("memory", memory)?;
    if fault == Fault::Panic {
        panic!("as was asked for");
    }
    let y = layer.run(rank, stream, &x)?;
    let numbers: Vec<f32> = (0..rows).map(|row| (row * (rank.rank() + 1)) as f32).collect();
    let mut sums = DeviceTensor::from_host(stream, [rows], &numbers)?;
    rank.all_reduce(stream, &mut sums, Combine::Sum)?;
    rank.synchronize(stream)?;
    let expected: Vec<f64> =
        (0..outputs).map(|j| (0..inputs).map(|k| weight.at([j, k]).f64()).sum()).collect();
    let is_near = |(actual, expected): (&f32, &f64)| (f64::from(*actual) - expected).abs() < 1e-2;
    let product = y.to_host_stored()?.chunks(outputs).all(|row| row.iter().zip(&expected).all(is_near));
    let factor = rank.ranks() * (rank.ranks() + 1) / 2;
    let sum = sums.to_host()?.iter().enumerate().all(|(row, sum)| *sum == (row * factor) as f32);
    Ok([product, sum])
}

/// Runs of two processes. One is killed at a random time. Several pairs run at once.
/// `command` starts this program so that it calls [`work_endlessly`].
pub(crate) fn of_processes(command: &dyn Fn() -> Command, count: usize, seed: u64) -> Result<Tally, Error> {
    const AT_ONCE: usize = 4;
    let mut tally = Tally::default();
    let mut random = Random(seed);
    let mut left = count;
    while left > 0 {
        let pairs: Vec<_> = (0..left.min(AT_ONCE))
            .map(|number| {
                let (port, wait) = (20_000 + random.below(20_000), 10 + random.below(400));
                let spawn = |rank: usize| start(command(), port, [rank, 2]);
                (number, spawn(0), spawn(1), random.below(2), wait)
            })
            .collect();
        left -= pairs.len();
        std::thread::scope(|scope| {
            let threads: Vec<_> = pairs.into_iter().map(|pair| scope.spawn(move || kill_one(pair))).collect();
            for thread in threads {
                let (good, time, what) = thread.join().unwrap_or((false, BOUND, "the run panicked".into()));
                tally.note(good, time, what);
            }
        });
    }
    Ok(tally)
}

/// Starts the process of a rank.
pub(crate) fn start(mut command: Command, port: usize, [rank, ranks]: [usize; 2]) -> std::io::Result<Child> {
    command.env("MASTER_ADDR", "127.0.0.1").env("TILEWRIGHT_PORT", port.to_string());
    command
        .env("RANK", rank.to_string())
        .env("LOCAL_RANK", rank.to_string())
        .env("WORLD_SIZE", ranks.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

type Pair = (usize, std::io::Result<Child>, std::io::Result<Child>, usize, usize);

/// The survivor must end with an error.
fn kill_one((_, first, second, victim, wait): Pair) -> (bool, Duration, String) {
    let (Ok(mut first), Ok(mut second)) = (first, second) else {
        return (false, BOUND, "a process cannot be started".into());
    };
    let (victim, survivor) = if victim == 0 { (&mut first, &mut second) } else { (&mut second, &mut first) };
    // The ranks say when they are connected. The pipe stays open.
    let mut output = BufReader::new(survivor.stdout.take().expect("it is piped"));
    let mut ready = String::new();
    while !ready.contains("connected") && output.read_line(&mut ready).is_ok_and(|bytes| bytes > 0) {}
    std::thread::sleep(Duration::from_millis(wait as u64));
    let _ = victim.kill();
    let start = Instant::now();
    let status = loop {
        match survivor.try_wait() {
            Ok(Some(status)) => break Some(status),
            _ if start.elapsed() > 2 * BOUND => break None,
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let (time, _) = (start.elapsed(), victim.wait());
    let _ = survivor.kill();
    let mut text = String::new();
    if let Some(mut stderr) = survivor.stderr.take() {
        let _ = stderr.read_to_string(&mut text);
    }
    let good = status.is_some_and(|status| status.code() == Some(3)) && text.contains("is lost");
    (good, time, format!("killed after {wait} ms: {status:?} {ready:?} {text}"))
}

/// What each of two processes does: sums without an end.
pub(crate) fn work_endlessly() -> Result<(), Error> {
    let mut rank = Rank::join(&Meeting::from_env()?, OPTIONS)?;
    let stream = rank.device().stream()?;
    let mut x = DeviceTensor::<f32, 1>::zeros(&stream, [1 << 20])?;
    println!("connected");
    loop {
        for _ in 0..20 {
            rank.all_reduce(&stream, &mut x, Combine::Sum)?;
        }
        rank.synchronize(&stream)?;
    }
}
