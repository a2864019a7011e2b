//! The foreign functions of NVRTC. All unsafe code of the module `nvrtc` is here.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use super::Error;

/// `nvrtcResult`
type Status = c_int;
/// `nvrtcProgram`
type Program = *mut c_void;

const SUCCESS: Status = 0;
const INVALID_OPTION: Status = 5;
const COMPILATION: Status = 6;

/// The functions that are used, as the manual declares them.
#[derive(Debug)]
pub(super) struct Library {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status,
    error_string: unsafe extern "C" fn(Status) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Status,
    destroy: unsafe extern "C" fn(*mut Program) -> Status,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    ptx_size: unsafe extern "C" fn(Program, *mut usize) -> Status,
    ptx: unsafe extern "C" fn(Program, *mut c_char) -> Status,
    /// Kept loaded as long as the functions can be called.
    _nvrtc: libloading::Library,
    _builtins: Option<libloading::Library>,
}

/// The output of a compilation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A binary for the driver.
    Cubin,
    /// Text for the assembler, with a zero byte at its end.
    Ptx,
}

/// The result of a compilation. If there is no output, the log says why.
pub(super) struct Output {
    pub(super) wanted: Option<Vec<u8>>,
    pub(super) log: String,
}

/// A program that is destroyed on drop.
struct Owned<'l> {
    library: &'l Library,
    program: Program,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: `program` was made by `nvrtcCreateProgram` of this library and is destroyed once.
        unsafe { (self.library.destroy)(&mut self.program) };
    }
}

impl Library {
    pub(super) fn open(file: &Path, builtins: Option<&Path>) -> Result<Library, String> {
        // Without this NVRTC searches the system's paths, or reports in its log that they are missing.
        let builtins = builtins.and_then(|file| open_global(file).ok());
        let nvrtc = open_global(file).map_err(|why| format!("it cannot be loaded: {why}"))?;
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the field that takes the pointer has the type that NVIDIA's header gives to this
                // name, which has not changed since CUDA 11.2; `_nvrtc` outlives the pointer.
                let symbol = unsafe { nvrtc.get($name) };
                *symbol.map_err(|why| format!("a function is missing: {why}"))?
            }};
        }
        Ok(Library {
            version: function!(b"nvrtcVersion\0"),
            error_string: function!(b"nvrtcGetErrorString\0"),
            create: function!(b"nvrtcCreateProgram\0"),
            destroy: function!(b"nvrtcDestroyProgram\0"),
            compile: function!(b"nvrtcCompileProgram\0"),
            log_size: function!(b"nvrtcGetProgramLogSize\0"),
            log: function!(b"nvrtcGetProgramLog\0"),
            cubin_size: function!(b"nvrtcGetCUBINSize\0"),
            cubin: function!(b"nvrtcGetCUBIN\0"),
            ptx_size: function!(b"nvrtcGetPTXSize\0"),
            ptx: function!(b"nvrtcGetPTX\0"),
            _nvrtc: nvrtc,
            _builtins: builtins,
        })
    }

    pub(super) fn version(&self) -> Result<(i32, i32), String> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to integers that live through the call.
        let status = unsafe { (self.version)(&mut major, &mut minor) };
        if status == SUCCESS { Ok((major, minor)) } else { Err(self.message(status)) }
    }

    pub(super) fn compile(
        &self,
        source: &str,
        name: &str,
        options: &[&str],
        wanted: Wanted,
    ) -> Result<Output, Error> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| Error::Failed {
                doing: "reading the source and the options",
                message: "a zero byte stands in them".to_string(),
            })
        };
        let (source, name) = (text(source)?, text(name)?);
        let options: Vec<CString> = options.iter().map(|option| text(option)).collect::<Result<_, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();

        let mut program: Program = ptr::null_mut();
        // SAFETY: the strings end with a zero byte and live through the call; there are no headers, so both
        // of their lists may be null.
        let status = unsafe {
            (self.create)(&mut program, source.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null())
        };
        self.check(status, "taking the source")?;
        let program = Owned { library: self, program };

        // SAFETY: the program is alive, and `options` has the passed number of strings, which live through
        // the call.
        let status = unsafe { (self.compile)(program.program, options.len() as c_int, options.as_ptr()) };
        let log = self.read(&program, self.log_size, self.log, "reading the log")?;
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_string();
        match status {
            SUCCESS => {}
            COMPILATION | INVALID_OPTION => return Ok(Output { wanted: None, log }),
            status => {
                let message = format!("{}\n{log}", self.message(status));
                return Err(Error::Failed { doing: "compiling", message });
            }
        }
        let (size, copy) = match wanted {
            Wanted::Cubin => (self.cubin_size, self.cubin),
            Wanted::Ptx => (self.ptx_size, self.ptx),
        };
        let made = self.read(&program, size, copy, "reading what was compiled")?;
        Ok(Output { wanted: Some(made), log })
    }

    /// Reads bytes through a pair of NVRTC functions, one for their number and one to copy them.
    fn read(
        &self,
        program: &Owned<'_>,
        size: unsafe extern "C" fn(Program, *mut usize) -> Status,
        copy: unsafe extern "C" fn(Program, *mut c_char) -> Status,
        doing: &'static str,
    ) -> Result<Vec<u8>, Error> {
        let mut len = 0;
        // SAFETY: the program is alive, and `len` is an integer that lives through the call.
        self.check(unsafe { size(program.program, &mut len) }, doing)?;
        let mut bytes = vec![0u8; len];
        // SAFETY: the program is alive, and `bytes` has room for as many bytes as `size` announced.
        self.check(unsafe { copy(program.program, bytes.as_mut_ptr().cast()) }, doing)?;
        Ok(bytes)
    }

    fn check(&self, status: Status, doing: &'static str) -> Result<(), Error> {
        if status == SUCCESS { Ok(()) } else { Err(Error::Failed { doing, message: self.message(status) }) }
    }

    fn message(&self, status: Status) -> String {
        // SAFETY: any number may be asked about; the answer is a static string.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return format!("error {status}");
        }
        // SAFETY: it is not null, and static strings of NVRTC end with a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// Loads a library with global symbols: NVRTC finds its builtins that way.
#[cfg(unix)]
fn open_global(file: &Path) -> Result<libloading::Library, libloading::Error> {
    use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
    // SAFETY: NVIDIA's libraries run no code of ours when they are loaded, and theirs has no preconditions.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) }.map(Into::into)
}

#[cfg(not(unix))]
fn open_global(file: &Path) -> Result<libloading::Library, libloading::Error> {
    // SAFETY: NVIDIA's libraries run no code of ours when they are loaded, and theirs has no preconditions.
    unsafe { libloading::Library::new(file) }
}
