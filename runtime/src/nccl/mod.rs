//! Collectives among devices: NCCL's communicators, and transfers of tensors in the order of streams. Which ranks there are, and whether
//! they agree on a transfer, is not known here: see `tilewright::parallel`.
//!
//! Communicators do not block. Each call is polled, so that a failure elsewhere ends it.
#![allow(unsafe_code)]

mod library;
mod transfer;

use std::ffi::c_int;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cudarc::nccl::sys::{ncclComm, ncclConfig_t, ncclUniqueId};

use crate::device::Device;
use crate::error::{Error, While};
use library::{IN_PROGRESS, Library, SUCCESS, Status, library};
pub use transfer::{Combine, Slice, Transfer};

/// NCCL could not do something.
#[derive(Clone, Debug)]
pub struct Failure {
    doing: &'static str,
    why: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NCCL failed while {}: {}", self.doing, self.why)
    }
}

impl std::error::Error for Failure {}

fn failed(doing: &'static str, why: impl Into<String>) -> Error {
    Error::Collective(Failure { doing, why: why.into() })
}

/// The name of a set of communicators: one rank makes it, and all ranks connect by it.
#[derive(Clone, Copy)]
pub struct Id(ncclUniqueId);

impl Id {
    /// A name that no other set has.
    pub fn new() -> Result<Id, Error> {
        let mut id = ncclUniqueId { internal: [0; 128] };
        let library = library()?;
        // SAFETY: the name lives through the call.
        match unsafe { (library.unique_id)(&mut id) } {
            SUCCESS => Ok(Id(id)),
            status => Err(failed("naming a communicator", library.text(status, std::ptr::null_mut()))),
        }
    }

    /// Its bytes, for other processes.
    pub fn bytes(&self) -> [u8; 128] {
        self.0.internal.map(|byte| byte as u8)
    }

    /// The name with these bytes.
    pub fn from_bytes(bytes: [u8; 128]) -> Id {
        Id(ncclUniqueId { internal: bytes.map(|byte| byte as std::ffi::c_char) })
    }
}

/// NCCL's version: (2, 28, 3).
pub fn version() -> Result<(i32, i32, i32), Error> {
    Ok(library()?.version())
}

/// The options of a communicator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The most blocks of a kernel of NCCL. Each takes a multiprocessor. NCCL's choice if it is not given.
    pub blocks: Option<u32>,
}

/// One rank's part of a set of communicators.
pub struct Communicator {
    library: &'static Library,
    handle: Mutex<Handle>,
    device: Device,
    rank: usize,
    ranks: usize,
}

/// Null after the end.
struct Handle(*mut ncclComm);

// SAFETY: NCCL's communicators may be used by any thread, by one at a time.
unsafe impl Send for Handle {}

/// The size of a configuration up to NCCL 2.26, which all later versions accept.
const CONFIGURATION_BYTES: usize = std::mem::offset_of!(ncclConfig_t, commName);
const CONFIGURATION_VERSION: u32 = 2_26_00;
const CONFIGURATION_MAGIC: u32 = 0xcafe_beef;
const UNDEFINED: c_int = c_int::MIN;

impl Communicator {
    /// Connects a device as one of these ranks. All ranks must call it. `go_on` is asked again and again until all ranks have connected; if
    /// it is false, connecting ends with an error.
    pub fn connect(
        device: &Device,
        id: Id,
        [rank, ranks]: [usize; 2],
        options: Options,
        go_on: &dyn Fn() -> bool,
    ) -> Result<Communicator, Error> {
        const DOING: &str = "connecting ranks";
        let library = library()?;
        let int =
            |number: usize| c_int::try_from(number).map_err(|_| Error::refused("there are too many ranks"));
        let (number, count) = (int(rank)?, int(ranks)?);
        // SAFETY: all fields are numbers and pointers, for which zeros are values.
        let mut config: ncclConfig_t = unsafe { std::mem::zeroed() };
        config.size = CONFIGURATION_BYTES;
        config.magic = CONFIGURATION_MAGIC;
        config.version = CONFIGURATION_VERSION;
        config.blocking = 0;
        config.maxCTAs = options.blocks.map_or(UNDEFINED, |blocks| blocks.min(64) as c_int);
        for field in [
            &mut config.cgaClusterSize,
            &mut config.minCTAs,
            &mut config.splitShare,
            &mut config.trafficClass,
        ] {
            *field = UNDEFINED;
        }
        device.context().bind_to_thread().doing(DOING)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the configuration and the handle live through the call, and the device's context is current.
        let status = unsafe { (library.init)(&mut handle, count, id.0, number, &mut config) };
        let handle = Mutex::new(Handle(handle));
        let connected = Communicator { library, handle, device: device.clone(), rank, ranks };
        connected.settle(DOING, status, go_on)?;
        Ok(connected)
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    fn locked(&self) -> MutexGuard<'_, Handle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a call has taken effect. After a failure the communicator is ended.
    fn settle(&self, doing: &'static str, mut status: Status, go_on: &dyn Fn() -> bool) -> Result<(), Error> {
        let mut polls = 0u32;
        while status == IN_PROGRESS {
            if !go_on() {
                self.abort();
                return Err(failed(doing, "the other ranks did not come"));
            }
            // Calls take microseconds, and connecting ranks takes a second.
            polls += 1;
            if polls > 10_000 {
                std::thread::sleep(Duration::from_millis(1))
            } else {
                std::hint::spin_loop()
            }
            status = self.state()?;
        }
        if status == SUCCESS {
            return Ok(());
        }
        let text = self.library.text(status, self.locked().0);
        self.abort();
        Err(failed(doing, text))
    }

    fn state(&self) -> Result<Status, Error> {
        let (handle, mut state) = (self.locked(), SUCCESS);
        if handle.0.is_null() {
            return Err(failed("waiting", "the communicator was ended, because another rank failed"));
        }
        // SAFETY: the communicator is alive, and the integer lives through the call.
        match unsafe { (self.library.state)(handle.0, &mut state) } {
            SUCCESS => Ok(state),
            status => Ok(status),
        }
    }

    /// The error of submitted transfers, such as a lost connection.
    pub fn check(&self) -> Result<(), Error> {
        match self.state()? {
            SUCCESS | IN_PROGRESS => Ok(()),
            status => Err(failed("transferring", self.library.text(status, self.locked().0))),
        }
    }

    /// Ends the communicator now. Kernels that wait for other ranks end, and their results are undefined.
    pub fn abort(&self) {
        let handle = std::mem::replace(&mut self.locked().0, std::ptr::null_mut());
        if !handle.is_null() {
            let _ = self.device.context().bind_to_thread();
            // SAFETY: the communicator was alive, and nobody can have its handle any more.
            unsafe { (self.library.abort)(handle) };
        }
    }

    /// Ends the communicator after its transfers. All ranks must call it once they have waited for their streams.
    pub fn finish(&self, go_on: &dyn Fn() -> bool) -> Result<(), Error> {
        const DOING: &str = "ending a communicator";
        self.device.context().bind_to_thread().doing(DOING)?;
        let status = {
            let handle = self.locked();
            if handle.0.is_null() {
                return Ok(());
            }
            // SAFETY: the communicator is alive.
            unsafe { (self.library.finalize)(handle.0) }
        };
        self.settle(DOING, status, go_on)?;
        let handle = std::mem::replace(&mut self.locked().0, std::ptr::null_mut());
        // SAFETY: as in `abort`.
        if !handle.is_null() {
            unsafe { (self.library.destroy)(handle) };
        }
        Ok(())
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.abort();
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({} of {}, {:?})", self.rank, self.ranks, self.device)
    }
}
