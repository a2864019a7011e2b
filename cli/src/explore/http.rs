//! The part of HTTP that one page needs: a request with a body of known length, an answer, and the end of the connection. The
//! standard library suffices, so the command depends on no server.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The limits of a request.
const LONGEST_HEAD: usize = 16 << 10;
pub(super) const LONGEST_BODY: usize = 64 << 10;
const SLOWEST: Duration = Duration::from_secs(5);

/// What the page may load: its own text, and answers of this server.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A request.
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query.
    pub(super) path: String,
    pub(super) query: String,
    pub(super) host: String,
    pub(super) body: Vec<u8>,
}

/// A status, and the text that explains it.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// A message.
    pub(super) fn refused(status: u16, why: &str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: format!("{why}\n").into_bytes() }
    }

    pub(super) fn write(&self, to: &mut TcpStream) -> std::io::Result<()> {
        let Answer { status, kind, body } = self;
        let head = format!(
            "HTTP/1.1 {status} \r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: {POLICY}\r\n\r\n",
            body.len()
        );
        to.write_all(head.as_bytes())?;
        to.write_all(body)
    }
}

impl Request {
    /// Reads a request, or says why it is refused.
    pub(super) fn read(from: &mut TcpStream) -> Result<Request, Answer> {
        let until = Instant::now() + SLOWEST;
        let (head, mut body) = head(from, until)?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
        let field = |name: &str| {
            let field = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
            field.map(|(_, value)| value.trim())
        };
        if field("Transfer-Encoding").is_some() {
            return Err(Answer::refused(411, "a body needs a Content-Length"));
        }
        let length = match field("Content-Length").map(str::parse::<usize>) {
            None => 0,
            Some(Ok(length)) if length <= LONGEST_BODY => length,
            Some(Ok(_)) => {
                let why = format!("a body has at most {LONGEST_BODY} bytes");
                return Err(Answer::refused(413, &why));
            }
            Some(Err(_)) => return Err(Answer::refused(400, "Content-Length is no number")),
        };
        while body.len() < length {
            more(from, &mut body, until)?;
        }
        body.truncate(length);
        Ok(Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            host: field("Host").unwrap_or_default().to_owned(),
            body,
        })
    }
}

/// Reads the lines in front of the body, and perhaps some of the body.
fn head(from: &mut TcpStream, until: Instant) -> Result<(String, Vec<u8>), Answer> {
    const END: &[u8] = b"\r\n\r\n";
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(END.len()).position(|four| four == END);
        if end.unwrap_or(bytes.len()) > LONGEST_HEAD {
            return Err(Answer::refused(431, "the request's head is too long"));
        }
        if let Some(end) = end {
            let body = bytes.split_off(end + END.len());
            bytes.truncate(end);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), body));
        }
        more(from, &mut bytes, until)?;
    }
}

/// Reads more bytes, as long as there is time.
fn more(from: &mut TcpStream, to: &mut Vec<u8>, until: Instant) -> Result<(), Answer> {
    let late = || Answer::refused(408, "the request took too long to arrive");
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(late());
    }
    let mut part = [0; 4096];
    match from.set_read_timeout(Some(left)).and_then(|()| from.read(&mut part)) {
        Ok(0) => Err(Answer::refused(400, "the request is incomplete")),
        Ok(count) => {
            to.extend_from_slice(&part[..count]);
            Ok(())
        }
        Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(late()),
        Err(why) if why.kind() == ErrorKind::Interrupted => Ok(()),
        Err(why) => Err(Answer::refused(400, &why.to_string())),
    }
}
