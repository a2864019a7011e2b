//! The records that launches and exported kernels consult. They ship with tilewright, are in the files that `TILEWRIGHT_RECORDS` names,
//! or are added by a program. See `tilewright tune`.

use std::sync::{OnceLock, PoisonError, RwLock};

use tilewright_program::Generated;
use tilewright_program::launch::{Record, Refusal, records};

/// The records of the kernels that ship with tilewright.
const SHIPPED: &str = include_str!("records.txt");
/// The environment variable with the paths of files, separated as in `PATH`.
const VARIABLE: &str = "TILEWRIGHT_RECORDS";

static ADDED: RwLock<Vec<Record>> = RwLock::new(Vec::new());

/// Adds records, such as `include_str!("../records.txt")`. Kernels that were launched before keep their choices.
///
/// ```
/// let line = "sums 00c0ffee00c0ffee | NVIDIA H200 | M = 8192, N = 100 | PART = 64 | 12.5 us | 0.8 % | 1.07 | 1.02 | driver 13.0";
/// tilewright_runtime::records::add(line)?;
/// let refusal = tilewright_runtime::records::add("sums").unwrap_err().to_string();
/// assert!(refusal.starts_with("line 1: this line has 1 part"), "{refusal}");
/// # Ok::<(), tilewright_program::launch::Refusal>(())
/// ```
pub fn add(text: &str) -> Result<(), Refusal> {
    let read = read(text, "")?;
    ADDED.write().unwrap_or_else(PoisonError::into_inner).extend(read);
    Ok(())
}

/// A kernel with the records that are its own. It is refused if a file cannot be read.
pub fn consulted(kernel: Generated) -> Result<Generated, Refusal> {
    static KNOWN: OnceLock<Result<Vec<Record>, Refusal>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut all = read(SHIPPED, "the records that ship, ")?;
        let files = std::env::var_os(VARIABLE);
        let paths = files.iter().flat_map(std::env::split_paths);
        for path in paths.filter(|path| !path.as_os_str().is_empty()) {
            let name = path.display();
            let text = std::fs::read_to_string(&path)
                .map_err(|why| Refusal::new(format!("{name} of {VARIABLE} cannot be read: {why}")))?;
            all.extend(read(&text, &format!("{name}, "))?);
        }
        Ok(all)
    });
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let known = known.as_ref().map_err(Refusal::clone)?;
    Ok(kernel.with_records(known.iter().chain(added.iter())))
}

fn read(text: &str, origin: &str) -> Result<Vec<Record>, Refusal> {
    let (all, wrong) = records(text);
    match wrong.into_iter().next() {
        None => Ok(all),
        Some((line, why)) => Err(Refusal::new(format!("{origin}line {line}: {why}"))),
    }
}
