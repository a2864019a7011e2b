//! The file of one binary: a few lines of text, the compiler's log, the binary. The second line is the
//! checksum of everything after it. Registers and spills are parsed from the log again.

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use hmac_sha256::Hash;

use super::Request;
use crate::nvrtc::{self, Compiled};

/// Bump it when the format changes: older files are then never read.
const MAGIC: &str = "tilewright kernel 1\n";
const EXTENSION: &str = ".kernel";
pub(crate) const DIGITS: usize = 64;
/// The text lines of an entry are shorter than this.
const MOST_ABOUT: u64 = 4096;

/// The key of a request: a hash of everything that affects the compiler's output, except the compiler's
/// version.
pub(crate) fn key(request: &Request<'_>) -> String {
    let Request { source, name, arch, options } = request;
    let mut hash = Hash::new();
    let mut part = |text: &str| {
        // Lengths separate the parts: `ab`, `c` is not `a`, `bc`.
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for text in [MAGIC, source, name, arch] {
        part(text);
    }
    nvrtc::OPTIONS.iter().chain(*options).for_each(|option| part(option));
    digits(hash)
}

/// A hash as hexadecimal digits.
fn digits(hash: Hash) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The checksum of some bytes.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    let mut hash = Hash::new();
    hash.update(bytes);
    digits(hash)
}

/// `<key>-13.0.kernel`
pub(super) fn file_name(key: &str, (major, minor): (i32, i32)) -> String {
    format!("{key}-{major}.{minor}{EXTENSION}")
}

/// The key and the version of a file name; `None` if it does not match our format exactly.
pub(super) fn parse_name(name: &str) -> Option<(String, (i32, i32))> {
    let (key, version) = name.strip_suffix(EXTENSION)?.split_once('-')?;
    let (major, minor) = version.split_once('.')?;
    let version = (major.parse().ok()?, minor.parse().ok()?);
    let ours = key.len() == DIGITS && file_name(key, version) == name;
    let digits = key.bytes().all(|letter| matches!(letter, b'0'..=b'9' | b'a'..=b'f'));
    (ours && digits).then(|| (key.to_string(), version))
}

pub(crate) fn encode(key: &str, request: &Request<'_>, version: (i32, i32), compiled: &Compiled) -> Vec<u8> {
    let (major, minor) = version;
    let (name, arch) = (one_line(request.name), one_line(request.arch));
    let (log, cubin) = (compiled.log.as_bytes(), &compiled.cubin);
    let about = format!(
        "{key}\n{major}.{minor}\n{name}\n{arch}\n{} bytes of log, {} of binary\n",
        log.len(),
        cubin.len()
    );
    let body = [about.as_bytes(), log, cubin].concat();
    let sum = checksum(&body);
    [MAGIC.as_bytes(), sum.as_bytes(), b"\n", &body].concat()
}

/// Names are for people; one line is enough.
fn one_line(text: &str) -> String {
    text.chars().take(500).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The contents of an entry; `None` unless the checksum, key and version match.
pub(crate) fn decode(bytes: &[u8], key: &str, version: (i32, i32)) -> Option<Compiled> {
    let rest = bytes.strip_prefix(MAGIC.as_bytes())?;
    let (sum, rest) = rest.split_at_checked(DIGITS)?;
    let body = rest.strip_prefix(b"\n")?;
    if checksum(body).as_bytes() != sum {
        return None;
    }
    let mut rest = body;
    let mut line = || {
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        rest = &rest[end + 1..];
        Some(line)
    };
    // A file may have been renamed.
    if line()? != key || line()? != format!("{}.{}", version.0, version.1) {
        return None;
    }
    let (_name, _arch) = (line()?, line()?);
    let (log_bytes, cubin_bytes) = line()?.strip_suffix(" of binary")?.split_once(" bytes of log, ")?;
    let (log, cubin) = rest.split_at_checked(log_bytes.parse().ok()?)?;
    if cubin.len() != cubin_bytes.parse::<usize>().ok()? {
        return None;
    }
    let log = std::str::from_utf8(log).ok()?;
    Some(Compiled::new(cubin.to_vec(), log.to_string(), Duration::ZERO))
}

/// The kernel and the architecture that a file's first lines name.
pub(super) fn about(file: impl Read, key: &str, version: (i32, i32)) -> Option<(String, String)> {
    let mut lines = BufReader::new(file.take(MOST_ABOUT)).lines();
    let mut line = || lines.next()?.ok();
    let mine = line()? == MAGIC.trim_end()
        && line()?.len() == DIGITS
        && line()? == key
        && line()? == format!("{}.{}", version.0, version.1);
    if mine { Some((line()?, line()?)) } else { None }
}
