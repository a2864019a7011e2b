//! The driver's library, checked before cudarc uses it: cudarc panics where a library or a function is
//! missing.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use libloading::Library;

use crate::absence::Absence;

/// The names that cudarc tries, in this order.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else if cfg!(target_os = "macos") {
    &["libcuda.dylib"]
} else {
    &["libcuda.so", "libcuda.so.1"]
};

/// Every function that is called here or by the parts of cudarc that this crate uses. The newest of them came
/// with CUDA 12.0.
pub const FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuEventDestroy_v2",
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuMemFree_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemsetD8Async",
    "cuMemcpyHtoD_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuPointerGetAttribute",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleGetGlobal_v2",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuTensorMapEncodeTiled",
    "cuTensorMapReplaceAddress",
];

/// Functions that only capture into a graph calls.
pub(crate) const GRAPH_FUNCTIONS: &[&str] = &[
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
];

const NO_DEVICE: c_int = 100;
const STUB_LIBRARY: c_int = 34;

/// The driver, started.
#[derive(Debug)]
pub(crate) struct Driver {
    library: Library,
    /// The CUDA version that it supports.
    pub(crate) version: (i32, i32),
}

/// Finds the driver and initialises it. A failure is not remembered: the next call tries again.
pub(crate) fn driver() -> Result<&'static Driver, Absence> {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    if let Some(driver) = DRIVER.get() {
        return Ok(driver);
    }
    let driver = start()?;
    Ok(DRIVER.get_or_init(|| driver))
}

fn start() -> Result<Driver, Absence> {
    let library = open(NAMES)?;
    // SAFETY: the three have had these types since CUDA 2, and the library outlives the calls.
    let (init, version) = unsafe {
        (
            library.get::<unsafe extern "C" fn(u32) -> c_int>(b"cuInit\0"),
            library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDriverGetVersion\0"),
        )
    };
    let (Ok(init), Ok(version)) = (init, version) else {
        return Err(Absence::OldDriver { version: (0, 0), lacks: "cuInit" });
    };
    let mut number = 0;
    // SAFETY: the pointer is to an integer that lives through the call, which needs no initialised driver.
    unsafe { version(&mut number) };
    let version = (number / 1000, number % 1000 / 10);
    // SAFETY: no flags are defined but 0.
    match unsafe { init(0) } {
        0 => {}
        NO_DEVICE => return Err(Absence::Device),
        STUB_LIBRARY => return Err(Absence::Stub),
        code => return Err(Absence::BrokenDriver { code, name: error_name(&library, code) }),
    }
    let driver = Driver { library, version };
    match FUNCTIONS.iter().find(|name| !driver.has(name)) {
        Some(lacks) => Err(Absence::OldDriver { version, lacks }),
        None => Ok(driver),
    }
}

fn open(names: &[&str]) -> Result<Library, Absence> {
    let mut tried = Vec::new();
    for name in names {
        // SAFETY: NVIDIA's driver runs no code of ours when it is loaded, and its own has no preconditions.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(why) => {
                // The message of the system's loader is the source of the error.
                let message = std::error::Error::source(&why)
                    .map_or_else(|| why.to_string(), |message| message.to_string());
                tried.push((name.to_string(), without(name, &message).to_owned()));
            }
        }
    }
    Err(Absence::Driver { tried })
}

/// A loader's message without the library's name, which most loaders put first, and so does our message.
fn without<'s>(name: &str, message: &'s str) -> &'s str {
    message.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message)
}

fn error_name(library: &Library, code: c_int) -> String {
    let mut text: *const c_char = ptr::null();
    // SAFETY: the type matches NVIDIA's header; the pointer that it fills lives through the call.
    let status = unsafe {
        match library.get::<unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int>(b"cuGetErrorName\0") {
            Ok(name) => name(code, &mut text),
            Err(_) => 1,
        }
    };
    if status != 0 || text.is_null() {
        return "an unknown error".into();
    }
    // SAFETY: it is not null, and names of errors are static strings that end with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Driver {
    /// Does it have a function of this name?
    pub(crate) fn has(&self, name: &str) -> bool {
        // SAFETY: the symbol is not used.
        unsafe { self.library.get::<*const c_void>(name.as_bytes()) }.is_ok()
    }

    /// The number of devices.
    pub(crate) fn devices(&self) -> Result<usize, Absence> {
        let mut count = 0;
        // SAFETY: the type matches NVIDIA's header; the integer lives through the call; the driver is
        // initialised.
        let code = unsafe {
            match self.library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount\0") {
                Ok(function) => function(&mut count),
                Err(_) => NO_DEVICE,
            }
        };
        match (code, usize::try_from(count)) {
            (0, Ok(count)) if count > 0 => Ok(count),
            (0 | NO_DEVICE, _) => Err(Absence::Device),
            (code, _) => Err(Absence::BrokenDriver { code, name: error_name(&self.library, code) }),
        }
    }

    /// Milliseconds between two completed events. Which function cudarc calls depends on the CUDA version
    /// that it was built for, and this driver may lack it; the older of both always exists.
    ///
    /// # Safety
    /// Both are events of one context that is alive, with timing.
    pub(crate) unsafe fn elapsed(&self, start: *mut c_void, end: *mut c_void) -> Result<f32, c_int> {
        type Elapsed = unsafe extern "C" fn(*mut f32, *mut c_void, *mut c_void) -> c_int;
        let mut milliseconds = 0.0;
        // SAFETY: the type matches NVIDIA's header; the number lives through the call; the caller
        // guarantees both events.
        let code = unsafe {
            match self.library.get::<Elapsed>(b"cuEventElapsedTime\0") {
                Ok(function) => function(&mut milliseconds, start, end),
                Err(_) => NO_DEVICE,
            }
        };
        if code == 0 { Ok(milliseconds) } else { Err(code) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_once() {
        for (message, rest) in [
            ("libx.so: cannot open shared object file", "cannot open shared object file"),
            ("libx.so.1: file too short", "libx.so.1: file too short"),
            ("The specified module could not be found.", "The specified module could not be found."),
            ("libx.so", "libx.so"),
        ] {
            assert_eq!(without("libx.so", message), rest);
        }
        // As one system's loader says it.
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            let names = ["libnobody-has-this.so", "libnobody-has-this.so.1"];
            let absent = open(&names).map(|_| ()).unwrap_err().to_string();
            let wanted = "there is no NVIDIA driver here.\n  \
                          libnobody-has-this.so: cannot open shared object file: No such file or directory\n  \
                          libnobody-has-this.so.1: cannot open shared object file: No such file or directory\n\
                          help: install NVIDIA's driver";
            assert!(absent.starts_with(wanted), "{absent}");
        }
    }
}
