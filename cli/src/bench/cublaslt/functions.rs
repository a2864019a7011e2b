//! The functions of cuBLASLt that are used, loaded when a benchmark runs, and objects that they make.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;

use super::super::library::{self, Absent};

/// The variable that names its folder.
const VARIABLE: &str = "TILEWRIGHT_CUBLASLT";
const NAMES: &[&str] = if cfg!(windows) {
    &["cublasLt64_13.dll", "cublasLt64_12.dll"]
} else {
    &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"]
};

pub(super) type Status = c_int;
pub(super) type Opaque = *mut c_void;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Heuristic {
    pub(super) algorithm: [u64; 8],
    pub(super) workspace: usize,
    pub(super) state: Status,
    pub(super) waves: f32,
    pub(super) reserved: [c_int; 4],
}

pub(super) type Set = unsafe extern "C" fn(Opaque, c_int, *const c_void, usize) -> Status;
pub(super) type Free = unsafe extern "C" fn(Opaque) -> Status;

/// The functions in use, with the manual's declarations.
pub(super) struct Functions {
    pub(super) version: unsafe extern "C" fn() -> usize,
    pub(super) create: unsafe extern "C" fn(*mut Opaque) -> Status,
    pub(super) destroy: Free,
    pub(super) operation: unsafe extern "C" fn(*mut Opaque, c_int, c_int) -> Status,
    pub(super) operation_set: Set,
    pub(super) operation_free: Free,
    pub(super) layout: unsafe extern "C" fn(*mut Opaque, c_int, u64, u64, i64) -> Status,
    pub(super) layout_set: Set,
    pub(super) layout_free: Free,
    pub(super) preference: unsafe extern "C" fn(*mut Opaque) -> Status,
    pub(super) preference_set: Set,
    pub(super) preference_free: Free,
    #[allow(clippy::type_complexity)]
    pub(super) heuristics: unsafe extern "C" fn(
        Opaque,
        Opaque,
        Opaque,
        Opaque,
        Opaque,
        Opaque,
        Opaque,
        c_int,
        *mut Heuristic,
        *mut c_int,
    ) -> Status,
    #[allow(clippy::type_complexity)]
    pub(super) matmul: unsafe extern "C" fn(
        Opaque,
        Opaque,
        *const c_void,
        *const c_void,
        Opaque,
        *const c_void,
        Opaque,
        *const c_void,
        *const c_void,
        Opaque,
        *mut c_void,
        Opaque,
        *const [u64; 8],
        *mut c_void,
        usize,
        Opaque,
    ) -> Status,
    _library: libloading::Library,
}

impl Functions {
    /// Finds and loads the library.
    pub(super) fn load() -> Result<Functions, Error> {
        let library = library::open("cuBLASLt", NAMES, VARIABLE).map_err(Error::Absent)?;
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the field that takes the pointer has the type that NVIDIA's header gives to this
                // name since CUDA 11; `_library` outlives the pointer.
                let symbol = unsafe { library.get(concat!($name, "\0").as_bytes()) };
                *symbol.map_err(|why| Error::Missing(why.to_string()))?
            }};
        }
        Ok(Functions {
            version: function!("cublasLtGetVersion"),
            create: function!("cublasLtCreate"),
            destroy: function!("cublasLtDestroy"),
            operation: function!("cublasLtMatmulDescCreate"),
            operation_set: function!("cublasLtMatmulDescSetAttribute"),
            operation_free: function!("cublasLtMatmulDescDestroy"),
            layout: function!("cublasLtMatrixLayoutCreate"),
            layout_set: function!("cublasLtMatrixLayoutSetAttribute"),
            layout_free: function!("cublasLtMatrixLayoutDestroy"),
            preference: function!("cublasLtMatmulPreferenceCreate"),
            preference_set: function!("cublasLtMatmulPreferenceSetAttribute"),
            preference_free: function!("cublasLtMatmulPreferenceDestroy"),
            heuristics: function!("cublasLtMatmulAlgoGetHeuristic"),
            matmul: function!("cublasLtMatmul"),
            _library: library,
        })
    }
}

/// The version of the installed library; it is not initialised, so no device is needed.
pub(in crate::bench) fn installed() -> Result<String, Error> {
    let library = library::open("cuBLASLt", NAMES, VARIABLE).map_err(Error::Absent)?;
    // SAFETY: NVIDIA's header has given this type to this name since CUDA 11.
    let version_of: libloading::Symbol<'_, unsafe extern "C" fn() -> usize> =
        unsafe { library.get(b"cublasLtGetVersion\0") }.map_err(|why| Error::Missing(why.to_string()))?;
    // SAFETY: it has no preconditions.
    Ok(version(unsafe { version_of() }))
}

/// Since version 12 the last two digits each are minor and patch: 130002.
pub(super) fn version(number: usize) -> String {
    format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
}

/// Why cuBLASLt has no product.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::bench) enum Error {
    Absent(Absent),
    /// A function is missing.
    Missing(String),
    /// A call failed: the operation, and the status.
    Failed(&'static str, i32),
    /// It has no algorithm for this problem.
    None(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Absent(absent) => absent.fmt(f),
            Error::Missing(why) => write!(f, "this cuBLASLt is not one that can be used: {why}"),
            Error::Failed(doing, status) => {
                let name =
                    STATUS.iter().find(|(code, _)| code == status).map_or("an unknown status", |row| row.1);
                write!(f, "cuBLASLt failed while {doing}: {name} ({status})")
            }
            Error::None(problem) => write!(f, "cuBLASLt has no product for {problem}"),
        }
    }
}

const STATUS: &[(i32, &str)] = &[
    (1, "not initialised"),
    (3, "no memory"),
    (7, "invalid value"),
    (8, "the architecture lacks a feature"),
    (11, "access to memory failed"),
    (13, "the kernel failed"),
    (14, "internal error"),
    (15, "not supported"),
    (16, "licence error"),
];

pub(super) fn check(status: Status, doing: &'static str) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(Error::Failed(doing, status)) }
}

/// A descriptor of cuBLASLt.
pub(super) struct Object {
    pub(super) at: Opaque,
    free: Free,
}

impl Object {
    pub(super) fn new(
        free: Free,
        make: impl FnOnce(*mut Opaque) -> Result<(), Error>,
    ) -> Result<Object, Error> {
        let mut at = ptr::null_mut();
        make(&mut at)?;
        Ok(Object { at, free })
    }

    pub(super) fn set<T: Copy>(&self, set: Set, attribute: c_int, value: T) -> Result<(), Error> {
        // SAFETY: the object is alive, and the value lives through the call, which copies the passed number
        // of bytes.
        let status = unsafe { set(self.at, attribute, (&raw const value).cast(), size_of::<T>()) };
        check(status, "setting an attribute")
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: it was made by the function that belongs to `free` and is destroyed once.
        unsafe { (self.free)(self.at) };
    }
}
