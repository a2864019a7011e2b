//! Boards of several processes: TCP connections of all processes with the process of rank 0, which passes events on.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, thread};

use super::board::{Board, Call, Event};
use super::{Error, Options};

/// Where the ranks of several processes meet, and which of them this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// The address and port where rank 0 listens, such as `10.0.0.1:29501`.
    pub address: String,
    /// The number of this rank.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
    /// The device of this rank.
    pub device: usize,
}

impl Meeting {
    /// The meeting that `torchrun` and similar programs describe by `RANK`, `WORLD_SIZE`, `LOCAL_RANK` and `MASTER_ADDR`. The port is
    /// `TILEWRIGHT_PORT`, or else one more than `MASTER_PORT`, which `torchrun` uses itself.
    pub fn from_env() -> Result<Meeting, Error> {
        Meeting::from_variables(|name| env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Meeting, Error> {
        let text = |name: &str| {
            let lacks = || {
                Error::Meeting(format!(
                    "the environment has no {name}\nhelp: start the program with `torchrun`, or give a `Meeting`"
                ))
            };
            variable(name).ok_or_else(lacks)
        };
        let number = |name: &str| {
            let text = text(name)?;
            text.parse::<usize>()
                .map_err(|_| Error::Meeting(format!("{name} is `{text}`, which is no number")))
        };
        let port = match variable("TILEWRIGHT_PORT") {
            Some(_) => number("TILEWRIGHT_PORT")?,
            None => number("MASTER_PORT")? + 1,
        };
        let address = format!("{}:{port}", text("MASTER_ADDR")?);
        let (rank, ranks) = (number("RANK")?, number("WORLD_SIZE")?);
        Ok(Meeting { address, rank, ranks, device: number("LOCAL_RANK")? })
    }
}

/// The connections of a process, by the rank at the other end.
#[derive(Default)]
pub(super) struct Sockets {
    all: Vec<(usize, Mutex<TcpStream>)>,
}

impl Sockets {
    /// Sends an event to all others, or to all but one. The thread that reads from a connection notices its failure.
    pub(super) fn send(&self, event: &Event, except: Option<usize>) {
        if self.all.is_empty() {
            return;
        }
        let bytes = encode(event);
        for (_, socket) in self.all.iter().filter(|(rank, _)| Some(*rank) != except) {
            let _ = socket.lock().unwrap_or_else(PoisonError::into_inner).write_all(&bytes);
        }
    }

    /// The number of connections.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Ends all connections.
    pub(super) fn close(&self) {
        for (_, socket) in &self.all {
            let _ = socket.lock().unwrap_or_else(PoisonError::into_inner).shutdown(std::net::Shutdown::Both);
        }
    }
}

/// What a process says first: that it is one of us, its rank, and the number of ranks.
const GREETING: &[u8; 8] = b"tilewr01";

/// Meets the other processes, and makes the board.
pub(super) fn meet(meeting: &Meeting, options: &Options) -> Result<Arc<Board>, Error> {
    let Meeting { address, rank, ranks, .. } = meeting;
    if rank >= ranks {
        return Err(Error::Meeting(format!(
            "there is no rank {rank} of {ranks}\nhelp: ranks are counted from 0"
        )));
    }
    let cannot = |why: io::Error| Error::Meeting(format!("ranks cannot meet at {address}: {why}"));
    let deadline = Instant::now() + options.meeting_timeout;
    let peers = match rank {
        0 => host(address, *ranks, deadline),
        _ => visit(address, *rank, *ranks, deadline).map(|socket| vec![(0, socket)]),
    };
    let all = peers.map_err(cannot)?;
    let mut readers = Vec::new();
    let mut sockets = Sockets::default();
    for (peer, socket) in all {
        socket.set_nodelay(true).map_err(cannot)?;
        socket.set_read_timeout(Some(options.timeout)).map_err(cannot)?;
        socket.set_write_timeout(Some(options.timeout)).map_err(cannot)?;
        readers.push((peer, socket.try_clone().map_err(cannot)?));
        sockets.all.push((peer, Mutex::new(socket)));
    }
    let board = Arc::new(Board::new(*ranks, 1, options.timeout, sockets));
    for (peer, socket) in readers {
        let board = board.clone();
        thread::spawn(move || listen(&board, peer, socket));
    }
    let (weak, pause) = (Arc::downgrade(&board), options.timeout / 4);
    thread::spawn(move || {
        while let Some(board) = weak.upgrade() {
            board.sockets.send(&Event::Alive, None);
            drop(board);
            thread::sleep(pause);
        }
    });
    Ok(board)
}

/// Rank 0 waits for all others.
fn host(address: &str, ranks: usize, deadline: Instant) -> io::Result<Vec<(usize, TcpStream)>> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let mut peers = Vec::<(usize, TcpStream)>::new();
    while peers.len() + 1 < ranks {
        let Ok((mut socket, _)) = listener.accept() else {
            if Instant::now() > deadline {
                let missing = (1..ranks).find(|rank| peers.iter().all(|(known, _)| known != rank));
                let message = format!("rank {} did not come", missing.unwrap_or(0));
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        socket.set_nonblocking(false)?;
        // Whoever says something else is not one of the ranks.
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        let mut greeting = [0; 16];
        if socket.read_exact(&mut greeting).is_err() || greeting[..8] != GREETING[..] {
            continue;
        }
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| greeting[at + byte])) as usize;
        let (rank, count) = (number(8), number(12));
        let is_known = rank == 0 || rank >= ranks || peers.iter().any(|(known, _)| *known == rank);
        if count != ranks || is_known {
            let message =
                format!("a process came as rank {rank} of {count}, and {ranks} different ranks are awaited");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        peers.push((rank, socket));
    }
    for (_, socket) in &mut peers {
        socket.write_all(GREETING)?;
    }
    Ok(peers)
}

/// Another rank looks for rank 0, which may begin later.
fn visit(address: &str, rank: usize, ranks: usize, deadline: Instant) -> io::Result<TcpStream> {
    let mut socket = loop {
        let tried = address.to_socket_addrs().and_then(|mut all| {
            let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            TcpStream::connect_timeout(&all.next().ok_or_else(none)?, Duration::from_secs(1))
        });
        match tried {
            Ok(socket) => break socket,
            Err(why) if Instant::now() > deadline => return Err(why),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    };
    let numbers = [rank, ranks].map(|number| (number as u32).to_le_bytes());
    socket.write_all(&[&GREETING[..], &numbers[0], &numbers[1]].concat())?;
    socket.set_read_timeout(Some(
        deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(10)),
    ))?;
    let mut greeting = [0; 8];
    socket.read_exact(&mut greeting)?;
    Ok(socket)
}

/// Reads what another process tells, until it is lost.
fn listen(board: &Board, peer: usize, mut socket: TcpStream) {
    loop {
        match read(&mut socket) {
            Ok(event) => {
                // Only the process of rank 0 has other connections.
                if event != Event::Alive {
                    board.sockets.send(&event, Some(peer));
                }
                board.apply(event);
            }
            Err(why) => {
                let why = match why.kind() {
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                        "its process has ended".into()
                    }
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        format!("its process has not answered for {:?}", board.timeout)
                    }
                    _ => format!("its connection failed: {why}"),
                };
                board.lose(peer, why);
                return board.end();
            }
        }
    }
}

const POST: u8 = 0;
const POST_ERROR: u8 = 1;
const LOST: u8 = 2;
const ALIVE: u8 = 3;
/// No message is longer.
const MAX_BYTES: usize = 1 << 24;

/// Kind, rank, exchange, length of the text, length of the data, then both.
fn encode(event: &Event) -> Vec<u8> {
    let (kind, rank, exchange, text, data): (u8, usize, u64, &str, &[u8]) = match event {
        Event::Post { rank, exchange, entry: Ok(call) } => (POST, *rank, *exchange, &call.text, &call.data),
        Event::Post { rank, exchange, entry: Err(why) } => (POST_ERROR, *rank, *exchange, why, &[]),
        Event::Lost { rank, why } => (LOST, *rank, 0, why, &[]),
        Event::Alive => (ALIVE, 0, 0, "", &[]),
    };
    let mut bytes = vec![kind];
    bytes.extend((rank as u32).to_le_bytes());
    bytes.extend(exchange.to_le_bytes());
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend((data.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(data);
    bytes
}

fn read(from: &mut impl Read) -> io::Result<Event> {
    let mut head = [0; 21];
    from.read_exact(&mut head)?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| head[at + byte])) as usize;
    let (kind, rank, lengths) = (head[0], number(1), [number(13), number(17)]);
    let exchange = number(5) as u64 | (number(9) as u64) << 32;
    let invalid = |message| io::Error::new(io::ErrorKind::InvalidData, message);
    if lengths.iter().any(|length| *length > MAX_BYTES) {
        return Err(invalid("a message is too long"));
    }
    let mut bytes = |length: usize| {
        let mut bytes = vec![0; length];
        from.read_exact(&mut bytes).map(|()| bytes)
    };
    let text = String::from_utf8(bytes(lengths[0])?).map_err(|_| invalid("a message is no text"))?;
    let data = bytes(lengths[1])?;
    Ok(match kind {
        POST => Event::Post { rank, exchange, entry: Ok(Call { text, data }) },
        POST_ERROR => Event::Post { rank, exchange, entry: Err(text) },
        LOST => Event::Lost { rank, why: text },
        ALIVE => Event::Alive,
        _ => return Err(invalid("a message is of no known kind")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_arrive_as_they_were_sent() {
        let call = Call { text: "all_reduce of 3 f32".into(), data: vec![1, 2, 255] };
        for event in [
            Event::Post { rank: 7, exchange: 1 << 40, entry: Ok(call) },
            Event::Post { rank: 0, exchange: 0, entry: Err("too large".into()) },
            Event::Lost { rank: 3, why: "killed".into() },
            Event::Alive,
        ] {
            assert_eq!(read(&mut &encode(&event)[..]).unwrap(), event);
        }
        assert!(read(&mut &[9u8; 40][..]).is_err());
    }

    #[test]
    fn processes_meet_and_are_missed() {
        let options = Options { timeout: Duration::from_secs(5), ..Options::default() };
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap();
        let boards = thread::scope(|scope| {
            let join = |rank| {
                let meeting = Meeting { address: free.to_string(), rank, ranks: 3, device: 0 };
                scope.spawn(move || meet(&meeting, &options).unwrap())
            };
            [2, 0, 1].map(join).map(|thread| thread.join().unwrap())
        });
        let call = |rank: usize| Ok(Call { text: "a call".into(), data: vec![rank as u8] });
        thread::scope(|scope| {
            for (board, rank) in boards.iter().zip([2, 0, 1]) {
                scope.spawn(move || {
                    let entries = board.exchange(rank, 1, call(rank)).unwrap();
                    assert_eq!(entries, [0, 1, 2].map(call));
                });
            }
        });
        // The process of rank 2 ends.
        boards[0].sockets.close();
        let error = boards[2].exchange(1, 2, call(1)).unwrap_err().to_string();
        assert!(error.starts_with("rank 2 is lost: its process has ended"), "{error}");
        let outside = Meeting { address: "127.0.0.1:9".into(), rank: 3, ranks: 3, device: 0 };
        let error = meet(&outside, &options).err().unwrap().to_string();
        assert_eq!(error, "there is no rank 3 of 3\nhelp: ranks are counted from 0");
    }

    #[test]
    fn meetings_come_from_the_environment() {
        let variables = |name: &str| {
            let all = [
                ("RANK", "1"),
                ("WORLD_SIZE", "2"),
                ("LOCAL_RANK", "1"),
                ("MASTER_ADDR", "host"),
                ("MASTER_PORT", "29500"),
            ];
            all.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        };
        let meeting = Meeting { address: "host:29501".into(), rank: 1, ranks: 2, device: 1 };
        assert_eq!(Meeting::from_variables(variables).unwrap(), meeting);
        let error = Meeting::from_variables(|_| None).unwrap_err().to_string();
        assert_eq!(
            error,
            "the environment has no MASTER_PORT\nhelp: start the program with `torchrun`, or give a `Meeting`"
        );
    }
}
