//! The baseline: matrix products of NVIDIA's cuBLASLt, loaded when a benchmark runs. The heuristic is queried
//! once for each problem; every launch uses one algorithm of its list.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::fmt;
use std::ptr;

use tilewright_codegen::Elem;

use super::driver::{Device, Memory};
use super::library::{self, Absent};

/// The variable that names its folder.
const VARIABLE: &str = "TILEWRIGHT_CUBLASLT";
const NAMES: &[&str] = if cfg!(windows) {
    &["cublasLt64_13.dll", "cublasLt64_12.dll"]
} else {
    &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"]
};

/// Workspace limit in bytes, provided by the caller: what NVIDIA recommends for Hopper.
pub(super) const WORKSPACE: usize = 32 << 20;

type Status = c_int;
type Opaque = *mut c_void;

const TRANS_A: c_int = 3;
const TRANS_B: c_int = 4;
const BATCH_COUNT: c_int = 5;
const BATCH_STRIDE: c_int = 6;
const MOST_WORKSPACE: c_int = 1;
const NOT_SUPPORTED: Status = 15;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Heuristic {
    algorithm: [u64; 8],
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

type Set = unsafe extern "C" fn(Opaque, c_int, *const c_void, usize) -> Status;
type Free = unsafe extern "C" fn(Opaque) -> Status;

/// The functions in use, with the manual's declarations.
struct Functions {
    version: unsafe extern "C" fn() -> usize,
    create: unsafe extern "C" fn(*mut Opaque) -> Status,
    destroy: Free,
    operation: unsafe extern "C" fn(*mut Opaque, c_int, c_int) -> Status,
    operation_set: Set,
    operation_free: Free,
    layout: unsafe extern "C" fn(*mut Opaque, c_int, u64, u64, i64) -> Status,
    layout_set: Set,
    layout_free: Free,
    preference: unsafe extern "C" fn(*mut Opaque) -> Status,
    preference_set: Set,
    preference_free: Free,
    #[allow(clippy::type_complexity)]
    heuristics: unsafe extern "C" fn(
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
    matmul: unsafe extern "C" fn(
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

/// cuBLASLt, loaded, with a handle for the current context.
pub(super) struct CublasLt {
    functions: Functions,
    handle: Opaque,
}

/// Why cuBLASLt has no product.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Error {
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

/// A product, in BLAS terms: column-major C (m, n) = op(A)·op(B).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) m: i64,
    pub(super) n: i64,
    pub(super) k: i64,
    /// Are rows of A contiguous?
    pub(super) transpose_a: bool,
    /// Are columns of B — rows of Bᵀ — contiguous along n?
    pub(super) transpose_b: bool,
    /// Batch size; the products are contiguous in memory, one after another.
    pub(super) batch: i64,
    /// Of A and B.
    pub(super) elem: Elem,
    /// Of C.
    pub(super) out: Elem,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |transposed| if transposed { 't' } else { 'n' };
        let Problem { m, n, k, batch, elem, .. } = self;
        write!(f, "{batch} x {m}x{n}x{k}, {elem}, {}{}", letter(self.transpose_a), letter(self.transpose_b))
    }
}

/// `cudaDataType_t` of a type.
fn data_type(elem: Elem) -> Option<c_int> {
    match elem {
        Elem::F32 => Some(0),
        Elem::F64 => Some(1),
        Elem::F16 => Some(2),
        Elem::I8 => Some(3),
        Elem::I32 => Some(10),
        Elem::Bf16 => Some(14),
        _ => None,
    }
}

/// `cublasComputeType_t`, and the type of alpha and beta. Strict: no TF32.
fn compute(elem: Elem) -> Option<(c_int, c_int)> {
    match elem {
        Elem::F32 | Elem::F16 | Elem::Bf16 => Some((68, 0)),
        Elem::F64 => Some((70, 1)),
        Elem::I8 => Some((72, 10)),
        _ => None,
    }
}

/// The version of the installed library; it is not initialised, so no device is needed.
pub(super) fn found() -> Result<String, Error> {
    let library = library::open("cuBLASLt", NAMES, VARIABLE).map_err(Error::Absent)?;
    // SAFETY: NVIDIA's header has given this type to this name since CUDA 11.
    let version_of: libloading::Symbol<'_, unsafe extern "C" fn() -> usize> =
        unsafe { library.get(b"cublasLtGetVersion\0") }.map_err(|why| Error::Missing(why.to_string()))?;
    // SAFETY: it has no preconditions.
    Ok(version(unsafe { version_of() }))
}

/// Since version 12 the last two digits each are minor and patch: 130002.
fn version(number: usize) -> String {
    format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
}

impl CublasLt {
    /// Finds and loads it. A context must be current.
    pub(super) fn open() -> Result<CublasLt, Error> {
        let library = library::open("cuBLASLt", NAMES, VARIABLE).map_err(Error::Absent)?;
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the field that takes the pointer has the type that NVIDIA's header gives to this
                // name since CUDA 11; `_library` outlives the pointer.
                let found = unsafe { library.get(concat!($name, "\0").as_bytes()) };
                *found.map_err(|why| Error::Missing(why.to_string()))?
            }};
        }
        let functions = Functions {
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
        };
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` lives through the call.
        check(unsafe { (functions.create)(&mut handle) }, "starting")?;
        Ok(CublasLt { functions, handle })
    }

    /// `13.0.2`
    pub(super) fn version(&self) -> String {
        // SAFETY: it has no preconditions.
        version(unsafe { (self.functions.version)() })
    }

    /// The first `most` products of the heuristic's list for a problem.
    pub(super) fn products(&self, problem: &Problem, most: usize) -> Result<Vec<Product<'_>>, Error> {
        let none = || Error::None(problem.to_string());
        let (elem, elem_c) =
            (data_type(problem.elem).ok_or_else(none)?, data_type(problem.out).ok_or_else(none)?);
        let (compute, scale) = compute(problem.elem).ok_or_else(none)?;
        let functions = &self.functions;
        let operation = Object::new(functions.operation_free, |at| {
            // SAFETY: `at` lives through the call.
            check(unsafe { (functions.operation)(at, compute, scale) }, "describing the product")
        })?;
        for (attribute, transposed) in [(TRANS_A, problem.transpose_a), (TRANS_B, problem.transpose_b)] {
            operation.set(functions.operation_set, attribute, c_int::from(transposed))?;
        }
        let Problem { m, n, k, batch, .. } = *problem;
        let layout = |elem: c_int, rows: i64, columns: i64| -> Result<Object, Error> {
            let layout = Object::new(functions.layout_free, |at| {
                // SAFETY: `at` lives through the call; columns are contiguous.
                check(
                    unsafe { (functions.layout)(at, elem, rows as u64, columns as u64, rows) },
                    "describing a matrix",
                )
            })?;
            if batch > 1 {
                layout.set(functions.layout_set, BATCH_COUNT, batch as i32)?;
                layout.set(functions.layout_set, BATCH_STRIDE, rows * columns)?;
            }
            Ok(layout)
        };
        let a = if problem.transpose_a { layout(elem, k, m)? } else { layout(elem, m, k)? };
        let b = if problem.transpose_b { layout(elem, n, k)? } else { layout(elem, k, n)? };
        let c = layout(elem_c, m, n)?;
        let preference = Object::new(functions.preference_free, |at| {
            // SAFETY: `at` lives through the call.
            check(unsafe { (functions.preference)(at) }, "describing preferences")
        })?;
        preference.set(functions.preference_set, MOST_WORKSPACE, WORKSPACE)?;

        let mut found = vec![Heuristic::default(); most];
        let mut count = 0;
        // SAFETY: all objects are alive, and `found` has room for as many results as is said.
        let status = unsafe {
            (functions.heuristics)(
                self.handle,
                operation.at,
                a.at,
                b.at,
                c.at,
                c.at,
                preference.at,
                most as c_int,
                found.as_mut_ptr(),
                &mut count,
            )
        };
        if status == NOT_SUPPORTED {
            return Err(none());
        }
        check(status, "asking the heuristic")?;
        found.truncate(count.max(0) as usize);
        found.retain(|found| found.state == 0);
        if found.is_empty() {
            return Err(none());
        }
        let size =
            |rows: i64, columns: i64, elem: Elem| (batch * rows * columns) as usize * elem.bytes() as usize;
        let bytes =
            Sizes { a: size(m, k, problem.elem), b: size(k, n, problem.elem), c: size(m, n, problem.out) };
        let shared = std::rc::Rc::new(Described { bytes, operation, a, b, c, scale });
        Ok(found
            .into_iter()
            .map(|found| Product { library: self, described: shared.clone(), algorithm: found.algorithm })
            .collect())
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: the handle was made by this library and is destroyed once; products borrow `self`.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

fn check(status: Status, doing: &'static str) -> Result<(), Error> {
    if status == 0 { Ok(()) } else { Err(Error::Failed(doing, status)) }
}

/// A descriptor of cuBLASLt.
struct Object {
    at: Opaque,
    free: Free,
}

impl Object {
    fn new(free: Free, make: impl FnOnce(*mut Opaque) -> Result<(), Error>) -> Result<Object, Error> {
        let mut at = ptr::null_mut();
        make(&mut at)?;
        Ok(Object { at, free })
    }

    fn set<T: Copy>(&self, set: Set, attribute: c_int, value: T) -> Result<(), Error> {
        // SAFETY: the object is alive, and the value lives through the call, which copies as many bytes as is
        // said.
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

/// Bytes of the matrices.
struct Sizes {
    a: usize,
    b: usize,
    c: usize,
}

struct Described {
    bytes: Sizes,
    operation: Object,
    a: Object,
    b: Object,
    c: Object,
    scale: c_int,
}

/// One algorithm for one problem.
#[derive(Clone)]
pub(super) struct Product<'l> {
    library: &'l CublasLt,
    described: std::rc::Rc<Described>,
    algorithm: [u64; 8],
}

impl Product<'_> {
    /// C = op(A)·op(B), launched on the device: A, B, C and the workspace, in this order.
    pub(super) fn begin_on(&self, device: &Device, [a, b, c, workspace]: [&Memory; 4]) -> super::Result {
        let Sizes { a: of_a, b: of_b, c: of_c } = self.described.bytes;
        let fits = a.bytes >= of_a && b.bytes >= of_b && c.bytes >= of_c && workspace.bytes >= WORKSPACE;
        assert!(fits, "the matrices do not fit their memory");
        // SAFETY: everything fits, and memory is freed by a call that waits for the device.
        unsafe { self.begin(a.address, b.address, c.address, workspace.address, device.stream()) }
            .map_err(|why| why.to_string())
    }

    /// C = op(A)·op(B), launched on a stream.
    ///
    /// # Safety
    ///
    /// The addresses are those of device memory that holds the problem's matrices, and `workspace` has
    /// [`WORKSPACE`] bytes; all of it, and the stream, live until the stream has done the work.
    unsafe fn begin(&self, a: u64, b: u64, c: u64, workspace: u64, stream: Opaque) -> Result<(), Error> {
        let described = &*self.described;
        let (one, zero): ([u8; 8], [u8; 8]) = match described.scale {
            1 => (1f64.to_ne_bytes(), [0; 8]),
            10 => (u64::from(1u32).to_ne_bytes(), [0; 8]),
            _ => (u64::from(1f32.to_bits()).to_ne_bytes(), [0; 8]),
        };
        let at = |address: u64| address as *mut c_void;
        // SAFETY: the descriptions are alive; the numbers have the type of the scale in their first bytes
        // (little-endian, as every machine with CUDA is); the caller answers for the addresses.
        let status = unsafe {
            (self.library.functions.matmul)(
                self.library.handle,
                described.operation.at,
                one.as_ptr().cast(),
                at(a),
                described.a.at,
                at(b),
                described.b.at,
                zero.as_ptr().cast(),
                at(c),
                described.c.at,
                at(c),
                described.c.at,
                &self.algorithm,
                at(workspace),
                WORKSPACE,
                stream,
            )
        };
        check(status, "multiplying")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_text(error: Error, expected: &str) {
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_errors_say() {
        let problem = Problem {
            m: 64,
            n: 32,
            k: 16,
            transpose_a: false,
            transpose_b: true,
            batch: 1,
            elem: Elem::I32,
            out: Elem::I32,
        };
        check_text(Error::None(problem.to_string()), "cuBLASLt has no product for 1 x 64x32x16, i32, nt");
        check_text(Error::Failed("starting", 15), "cuBLASLt failed while starting: not supported (15)");
        check_text(Error::Failed("starting", 99), "cuBLASLt failed while starting: an unknown status (99)");
        check_text(
            Error::Missing("no symbol".into()),
            "this cuBLASLt is not one that can be used: no symbol",
        );
    }
}
