//! Instrumented kernels: what they show, the memory that they write it to, and its reader. A program chooses by the environment
//! variable `TILEWRIGHT_INSTRUMENT`, such as `lines,asserts`, or by [`instrument`].
//!
//! The address of the records is in a variable of each loaded module, so launches, graphs and exported code are as they are without
//! instruments. The records are in memory of the host: they can be read after a kernel has failed.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys;
use tilewright_program::ast::Span;
use tilewright_program::cuda::{ENTRY, Instrument, MARKS, Mark, RECORD_WORDS, RECORDS};
use tilewright_program::kernel_def::Locations;
use tilewright_program::launch::Refusal;
use tilewright_program::launch::timeline::{Interval, Timeline};
use tilewright_program::thread::Kernel;
use tilewright_program::thread::probe::{MOST_VALUES, Record, Shown};

use crate::error::{Error, While};

const VARIABLE: &str = "TILEWRIGHT_INSTRUMENT";

static CHOSEN: OnceLock<Result<Instrument, Refusal>> = OnceLock::new();

/// Chooses what kernels show, before the first launch of the program.
///
/// ```
/// use tilewright_runtime::{Instrument, instrument};
/// instrument(Instrument::parse("asserts, prints")?)?;
/// assert!(instrument(Instrument::default()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn instrument(instrument: Instrument) -> Result<(), Refusal> {
    CHOSEN.set(Ok(instrument)).map_err(|_| {
        Refusal::new("what kernels show is chosen already")
            .help("choose it before the first launch, and once")
    })
}

/// The choice of this program.
pub(crate) fn chosen() -> Result<Instrument, Refusal> {
    let chosen = CHOSEN.get_or_init(|| {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Instrument::parse(&text).map_err(|why| Refusal::new(format!("{VARIABLE}: {why}")))
    });
    chosen.clone()
}

/// The warps of a block.
const WARPS: usize = 32;
/// Words of the memory: the records, then the marks of each warp.
const WORDS: usize = RECORDS * RECORD_WORDS + WARPS * MARKS * 2;

/// A kernel that writes records.
struct Source {
    program: Kernel,
    locations: Locations,
    marks: Vec<Mark>,
}

impl Source {
    fn line(&self, span: Span) -> Option<String> {
        self.locations.of(span).filter(|_| span != Span::default())
    }
}

/// The records of a device, which live as long as the process.
pub(crate) struct Records {
    words: *mut u64,
    sources: Mutex<Sources>,
}

#[derive(Default)]
struct Sources {
    kernels: Vec<Arc<Source>>,
    /// The number of records that were read.
    read: usize,
}

// SAFETY: the memory is never freed, and accessed by volatile reads and writes under the lock.
unsafe impl Send for Records {}
// SAFETY: as above.
unsafe impl Sync for Records {}

impl Records {
    /// Memory of the host that the device writes to. A context is current.
    pub(crate) fn new() -> Result<Records, Error> {
        const PORTABLE_AND_MAPPED: u32 = 3;
        let mut words: *mut c_void = std::ptr::null_mut();
        // SAFETY: the pointer lives through the call.
        unsafe { sys::cuMemHostAlloc(&mut words, WORDS * 8, PORTABLE_AND_MAPPED) }
            .result()
            .doing("allocating memory for what kernels show")?;
        // SAFETY: the memory has this size.
        unsafe { words.write_bytes(0, WORDS * 8) };
        Ok(Records { words: words.cast(), sources: Mutex::default() })
    }

    /// Lets a loaded module write records. Its context is current.
    pub(crate) fn enter(
        &self,
        module: sys::CUmodule,
        program: &Kernel,
        locations: &Locations,
        marks: Vec<Mark>,
    ) -> Result<(), Error> {
        const DOING: &str = "preparing what a kernel shows";
        let source = Source { program: program.clone(), locations: locations.clone(), marks };
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut entry, mut bytes, name) = (0, 0, std::ffi::CString::new(ENTRY).unwrap_or_default());
        // SAFETY: the module is loaded, and all pointers live through the call.
        let known = unsafe { sys::cuModuleGetGlobal_v2(&mut entry, &mut bytes, module, name.as_ptr()) };
        if known == sys::cudaError_enum::CUDA_ERROR_NOT_FOUND {
            return Ok(()); // Neither a probe nor a mark is in it.
        }
        known.result().doing(DOING)?;
        // The timeline is of block 0.
        let values = [self.words as u64, sources.kernels.len() as u64, 0];
        // SAFETY: the variable has three words of 64 bits.
        unsafe { sys::cuMemcpyHtoD_v2(entry, values.as_ptr().cast(), size_of_val(&values).min(bytes)) }
            .result()
            .doing(DOING)?;
        sources.kernels.push(Arc::new(source));
        Ok(())
    }

    pub(crate) fn words(&self) -> *mut u64 {
        self.words
    }

    fn word(&self, at: usize) -> u64 {
        debug_assert!(at < WORDS);
        // SAFETY: the memory has this word; a device may write it at the same time.
        unsafe { self.words.add(at).read_volatile() }
    }

    fn clear(&self, at: usize) {
        // SAFETY: as above.
        unsafe { self.words.add(at).write_volatile(0) };
    }

    /// The text of the records since the last time. `wait` waits for all work of the device.
    pub(crate) fn take(&self, wait: impl FnOnce()) -> Shown {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if self.word(0) as u32 as usize >= RECORDS / 2 {
            wait();
        }
        let count = self.word(0) as u32 as usize;
        let (mut by_kernel, mut lost) = (vec![Vec::new(); sources.kernels.len()], 0);
        for at in sources.read + 1..=count.min(RECORDS - 1) {
            let words: [u64; RECORD_WORDS] = std::array::from_fn(|word| self.word(at * RECORD_WORDS + word));
            self.clear(at * RECORD_WORDS);
            let Some(probe) = (words[0] as u32).checked_sub(1) else { continue };
            if let Some(records) = by_kernel.get_mut((words[0] >> 32) as usize) {
                records.push(record(probe, &words));
            }
        }
        sources.read = count.min(RECORDS - 1);
        if count >= RECORDS / 2 {
            lost = count.saturating_sub(RECORDS - 1);
            self.clear(0);
            sources.read = 0;
        }
        let mut shown = Shown::default();
        for (source, records) in sources.kernels.iter().zip(by_kernel) {
            let Shown { failed, printed } = Shown::of(&source.program, &records, &|span| source.line(span));
            shown.failed.extend(failed);
            shown.printed.extend(printed);
        }
        if lost > 0 {
            shown.printed.push(format!(
                "{lost} records were lost: a device keeps {} until the next wait",
                RECORDS - 1
            ));
        }
        shown
    }

    /// The timeline of the last kernel that noted clocks. The device has finished.
    pub(crate) fn timeline(&self) -> Timeline {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let mut timeline = Timeline { intervals: Vec::new(), unit: "clocks" };
        for warp in 0..WARPS {
            let first = RECORDS * RECORD_WORDS + warp * MARKS * 2;
            let mut before: Option<(u64, &Mark, u64)> = None;
            for at in (first..first + MARKS * 2).step_by(2) {
                let (word, clock) = (self.word(at), self.word(at + 1));
                let (kernel, site) = (word >> 32, word as u32);
                let source = sources.kernels.get(kernel as usize);
                let mark = source
                    .and_then(|source| Some((source, source.marks.get(site.checked_sub(1)? as usize)?)));
                let Some((source, mark)) = mark.filter(|_| before.is_none_or(|of| of.0 == kernel)) else {
                    break;
                };
                if let Some((_, Mark { name, role, span }, from)) = before {
                    let (name, role, line) = (name.clone(), role.clone(), source.line(*span));
                    timeline.intervals.push(Interval {
                        warp: warp as u32,
                        role,
                        name,
                        line,
                        from,
                        to: clock,
                    });
                }
                // The end has no name.
                if mark.name.is_empty() {
                    break;
                }
                before = Some((kernel, mark, clock));
            }
        }
        timeline
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Records")
    }
}

/// A record from its words: the probe and the kernel, the block, the thread, the values.
fn record(probe: u32, words: &[u64; RECORD_WORDS]) -> Record {
    let values: [u64; MOST_VALUES] = std::array::from_fn(|value| words[3 + value]);
    let block = [words[1] as u32, (words[1] >> 32) as u32, words[2] as u32];
    Record { probe: probe as usize, block, thread: (words[2] >> 32) as u32, values }
}
