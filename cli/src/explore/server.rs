//! Serves the page, and asks processes of this program its questions.

use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::answers;
use super::http::{Answer, LONGEST_BODY, Request};
use crate::output::{self, Failure, Result};

const PAGE: &str = include_str!("page.html");

/// Connections at once, each with at most one process.
const MOST_CONNECTIONS: usize = 8;

/// Serves until the process is ended.
pub(super) fn serve(port: u16) -> Result {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|why| {
        Failure::Refused(format!(
            "port {port} cannot be used: {why}\nhelp: leave out --port, which takes a free one"
        ))
    })?;
    let port = listener.local_addr().map_err(Failure::of)?.port();
    let server = Arc::new(Server { token: token(), port, connections: AtomicUsize::new(0) });
    output::print(&format!("open http://127.0.0.1:{port}/?token={}\nend it with Ctrl-C\n", server.token))?;
    for stream in listener.incoming().flatten() {
        let server = server.clone();
        std::thread::spawn(move || server.answer(stream));
    }
    Ok(())
}

/// How long an answer waits for a browser that does not read it.
const SLOWEST_READER: Duration = Duration::from_secs(10);

struct Server {
    /// Who knows it may ask.
    token: String,
    port: u16,
    connections: AtomicUsize,
}

/// 128 bits that nobody can guess: hashes with a key that the standard library takes from the system's randomness, and keeps secret.
fn token() -> String {
    let random = RandomState::new();
    format!("{:016x}{:016x}", random.hash_one(0), random.hash_one(1))
}

impl Server {
    fn answer(&self, mut stream: TcpStream) {
        let others = self.connections.fetch_add(1, Ordering::Relaxed);
        let answer = match Request::read(&mut stream) {
            Ok(_) if others >= MOST_CONNECTIONS => {
                Answer::refused(503, "too many questions at once; ask again")
            }
            Ok(request) => self.answer_to(&request),
            Err(refused) => refused,
        };
        let _ = stream.set_write_timeout(Some(SLOWEST_READER));
        // A browser that does not want the answer any more is no error.
        let _ = answer.write(&mut stream);
        finish_reading(&mut stream);
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    fn answer_to(&self, request: &Request) -> Answer {
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        if !hosts.contains(&request.host) {
            return Answer::refused(403, "the page is served to this computer alone, as 127.0.0.1");
        }
        if !request.query.split('&').any(|pair| pair.strip_prefix("token=") == Some(&self.token)) {
            let why = "the token in the address is not the one that `tilewright explore` has printed\n\
                       help: open the address of its last start; the part of a link after `#` can be appended to it";
            return Answer::refused(403, why);
        }
        match (&*request.method, request.path.strip_prefix("/api/")) {
            ("GET", None) if request.path == "/" => {
                Answer { status: 200, kind: "text/html; charset=utf-8", body: PAGE.into() }
            }
            ("POST", Some(question)) if answers::is_known(question) => ask(question, &request.body),
            ("GET" | "POST", _) => Answer::refused(404, "there is no such page or question"),
            _ => Answer::refused(405, "the page is read by GET, and questions come by POST"),
        }
    }
}

/// Takes what a refused request still sends: a connection that is closed before loses the answer.
fn finish_reading(stream: &mut TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = std::io::copy(&mut stream.take(16 * LONGEST_BODY as u64), &mut std::io::sink());
}

/// Asks a process of this program.
fn ask(question: &str, body: &[u8]) -> Answer {
    let body =
        answer_of_process(question, body).unwrap_or_else(|why| json!({ "error": why }).to_string().into());
    Answer { status: 200, kind: "application/json", body }
}

fn answer_of_process(question: &str, body: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let failed = |why: std::io::Error| format!("no process could answer: {why}");
    let program = std::env::current_exe().map_err(failed)?;
    let mut process = Command::new(program)
        .args(["explore", "--answer", question])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut to) = process.stdin.take() {
        to.write_all(body).map_err(failed)?;
    }
    let done = process.wait_with_output().map_err(failed)?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    let message = String::from_utf8_lossy(&done.stderr);
    Err(format!("the answer failed, {}; please report it with these inputs\n{}", done.status, message.trim()))
}
