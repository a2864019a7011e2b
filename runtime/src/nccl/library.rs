//! The functions of NCCL's library, loaded when a communicator is first needed. The types are cudarc's. Its own loader does not serve: it
//! panics where a library is missing, and it does not try `libnccl.so.2`, the only name that NVIDIA's packages install.
#![allow(unsafe_code)]

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cudarc::nccl::sys::{cudaStream_t, ncclComm_t, ncclConfig_t, ncclDataType_t, ncclRedOp_t, ncclUniqueId};

use crate::absence::Absence;

/// Names the folder that contains NCCL, or its library.
const FOLDER_VARIABLE: &str = "TILEWRIGHT_NCCL";
/// File names, the first that is there.
const NAMES: &[&str] = &["libnccl.so.2", "libnccl.so"];
/// The oldest version that serves: the first whose configuration can limit blocks.
const OLDEST: c_int = 2_18_00;

/// `ncclResult_t`. Later versions may have more of them.
pub(super) type Status = c_int;
pub(super) const SUCCESS: Status = 0;
pub(super) const IN_PROGRESS: Status = 7;

type Send =
    unsafe extern "C" fn(*const c_void, usize, ncclDataType_t, c_int, ncclComm_t, cudaStream_t) -> Status;
type Receive =
    unsafe extern "C" fn(*mut c_void, usize, ncclDataType_t, c_int, ncclComm_t, cudaStream_t) -> Status;
type Reduce = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    ncclDataType_t,
    ncclRedOp_t,
    ncclComm_t,
    cudaStream_t,
) -> Status;
type Gather = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    ncclDataType_t,
    ncclComm_t,
    cudaStream_t,
) -> Status;
type Rooted = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    ncclDataType_t,
    ncclRedOp_t,
    c_int,
    ncclComm_t,
    cudaStream_t,
) -> Status;
type Broadcast = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    ncclDataType_t,
    c_int,
    ncclComm_t,
    cudaStream_t,
) -> Status;
type Init = unsafe extern "C" fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t) -> Status;

macro_rules! library {
    ($($(#[$doc:meta])* $field:ident: $symbol:literal as $ty:ty,)*) => {
        /// The functions that are used, as the header declares them.
        pub(super) struct Library {
            $($(#[$doc])* pub(super) $field: $ty,)*
            version: (c_int, c_int, c_int),
            _library: libloading::Library,
        }

        impl Library {
            fn of(library: libloading::Library) -> Result<Library, String> {
                Ok(Library {
                    // SAFETY: the field has the type that NVIDIA's header gives to this name, and `_library` outlives it.
                    $($field: *unsafe { library.get::<$ty>(concat!($symbol, "\0").as_bytes()) }
                        .map_err(|_| concat!("it has no `", $symbol, "`").to_string())?,)*
                    version: (0, 0, 0),
                    _library: library,
                })
            }
        }
    };
}

library! {
    get_version: "ncclGetVersion" as unsafe extern "C" fn(*mut c_int) -> Status,
    unique_id: "ncclGetUniqueId" as unsafe extern "C" fn(*mut ncclUniqueId) -> Status,
    init: "ncclCommInitRankConfig" as Init,
    destroy: "ncclCommDestroy" as unsafe extern "C" fn(ncclComm_t) -> Status,
    finalize: "ncclCommFinalize" as unsafe extern "C" fn(ncclComm_t) -> Status,
    abort: "ncclCommAbort" as unsafe extern "C" fn(ncclComm_t) -> Status,
    state: "ncclCommGetAsyncError" as unsafe extern "C" fn(ncclComm_t, *mut Status) -> Status,
    error: "ncclGetErrorString" as unsafe extern "C" fn(Status) -> *const c_char,
    last_error: "ncclGetLastError" as unsafe extern "C" fn(ncclComm_t) -> *const c_char,
    group_start: "ncclGroupStart" as unsafe extern "C" fn() -> Status,
    group_end: "ncclGroupEnd" as unsafe extern "C" fn() -> Status,
    all_reduce: "ncclAllReduce" as Reduce,
    reduce_scatter: "ncclReduceScatter" as Reduce,
    reduce: "ncclReduce" as Rooted,
    broadcast: "ncclBroadcast" as Broadcast,
    all_gather: "ncclAllGather" as Gather,
    send: "ncclSend" as Send,
    receive: "ncclRecv" as Receive,
}

/// The library, loaded once. A failure is not remembered: the next call tries again.
pub(super) fn library() -> Result<&'static Library, Absence> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let library = find()?;
    Ok(LIBRARY.get_or_init(|| library))
}

fn find() -> Result<Library, Absence> {
    let mut tried = Vec::new();
    for candidate in candidates() {
        match open(&candidate) {
            Ok(library) => return Ok(library),
            Err(why) => tried.push((candidate.display().to_string(), why)),
        }
    }
    Err(Absence::Nccl { tried })
}

/// An explicit path is used exclusively: a fallback would hide the mistake.
fn candidates() -> Vec<PathBuf> {
    let Some(given) = env::var_os(FOLDER_VARIABLE).filter(|given| !given.is_empty()) else {
        return NAMES.iter().map(PathBuf::from).collect();
    };
    let given = PathBuf::from(given);
    if given.is_dir() { NAMES.iter().map(|name| given.join(name)).collect() } else { vec![given] }
}

fn open(file: &Path) -> Result<Library, String> {
    // SAFETY: NVIDIA's library runs no code of ours when it is loaded, and its own has no preconditions.
    let library = unsafe { libloading::Library::new(file) };
    let mut library = Library::of(library.map_err(|why| {
        std::error::Error::source(&why).map_or_else(|| why.to_string(), |message| message.to_string())
    })?)?;
    let mut number = 0;
    // SAFETY: the pointer is to an integer that lives through the call.
    unsafe { (library.get_version)(&mut number) };
    if number < OLDEST {
        return Err(format!("its version is {number}, and {OLDEST} is the oldest that serves"));
    }
    library.version = (number / 10000, number / 100 % 100, number % 100);
    Ok(library)
}

impl Library {
    /// The library's version: 2, 28, 3.
    pub(super) fn version(&self) -> (i32, i32, i32) {
        self.version
    }

    /// What NCCL says about a status, and about the last failure of a communicator.
    pub(super) fn text(&self, status: Status, comm: ncclComm_t) -> String {
        let text = |pointer: *const c_char| match pointer.is_null() {
            true => String::new(),
            // SAFETY: NCCL's texts are strings that end with a zero byte, and live until the thread's next failure.
            false => unsafe { CStr::from_ptr(pointer) }.to_string_lossy().trim().to_string(),
        };
        // SAFETY: the function takes any status; the communicator is null or alive.
        let (general, last) = unsafe { (text((self.error)(status)), text((self.last_error)(comm))) };
        if last.is_empty() {
            format!("{general} ({status})")
        } else {
            format!("{general} ({status}): {last}")
        }
    }
}
