//! The baseline: matrix products of NVIDIA's cuBLASLt, which cudarc loads when a benchmark runs. The heuristic is queried
//! once for each problem; every launch uses one algorithm of its list.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::mem::{MaybeUninit, zeroed};
use std::rc::Rc;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as Attribute,
    cublasLtMatmulMatrixScale_t as ScaleMode, cublasLtMatrixLayoutAttribute_t as LayoutAttribute,
    cublasStatus_t as Status, cudaDataType_t as Type,
};
use tilewright_codegen::Elem;

use super::driver::{Device, Memory};
use super::form::{Activation, Extents, Form};

/// Workspace limit in bytes, provided by the caller: what NVIDIA recommends for Hopper.
pub(crate) const WORKSPACE: usize = 32 << 20;

/// Why cuBLASLt has no product.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Error {
    /// It is not installed.
    Absent,
    /// A call failed: the operation, and the status.
    Failed(&'static str, CublasError),
    /// It has no algorithm for this problem.
    None(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Absent => {
                write!(f, "cuBLASLt was not found; put the folder that contains it in LD_LIBRARY_PATH")
            }
            Error::Failed(call, status) => write!(f, "cuBLASLt failed while {call}: {:?}", status.0),
            Error::None(problem) => write!(f, "cuBLASLt has no product for {problem}"),
        }
    }
}

fn check(status: Status, call: &'static str) -> Result<(), Error> {
    status.result().map_err(|status| Error::Failed(call, status))
}

/// A descriptor of cuBLASLt.
struct Descriptor<T: Copy> {
    handle: T,
    free: unsafe fn(T) -> Status,
}

impl<T: Copy> Descriptor<T> {
    /// `make` fills its argument with a handle that `free` takes.
    fn new(
        free: unsafe fn(T) -> Status,
        make: impl FnOnce(*mut T) -> Status,
    ) -> Result<Descriptor<T>, Error> {
        let mut handle = MaybeUninit::uninit();
        check(make(handle.as_mut_ptr()), "describing the product")?;
        // SAFETY: a call that succeeds has filled it.
        Ok(Descriptor { handle: unsafe { handle.assume_init() }, free })
    }

    fn set<A, V: Copy>(
        &self,
        set: unsafe fn(T, A, *const c_void, usize) -> Status,
        attribute: A,
        value: V,
    ) -> Result<(), Error> {
        // SAFETY: the descriptor is alive, and the value lives through the call, which copies this number of bytes.
        let status = unsafe { set(self.handle, attribute, (&raw const value).cast(), size_of::<V>()) };
        check(status, "setting an attribute")
    }
}

impl<T: Copy> Drop for Descriptor<T> {
    fn drop(&mut self) {
        // SAFETY: it was made by the function that belongs to `free` and is destroyed once.
        unsafe { (self.free)(self.handle) };
    }
}

/// A handle of cuBLASLt for the current context.
pub(crate) struct CublasLt {
    handle: sys::cublasLtHandle_t,
}

impl CublasLt {
    /// Finds and loads it. A context must be current.
    pub(crate) fn open() -> Result<CublasLt, Error> {
        // SAFETY: loading NVIDIA's library has no preconditions.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::Absent);
        }
        let handle = result::create_handle().map_err(|status| Error::Failed("starting", status))?;
        Ok(CublasLt { handle })
    }

    /// `13.0.2`
    pub(crate) fn version(&self) -> String {
        // SAFETY: it has no preconditions.
        let number = unsafe { sys::cublasLtGetVersion() };
        // The last two digits each are minor and patch: 130002.
        format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
    }

    /// The first `most` products of the heuristic's list for a problem.
    pub(crate) fn products(&self, problem: &Problem, most: usize) -> Result<Vec<Product<'_>>, Error> {
        let described = describe(problem)?;
        // SAFETY: the pointer lives through the call.
        let make = |at| unsafe { sys::cublasLtMatmulPreferenceCreate(at) };
        let preference = Descriptor::new(sys::cublasLtMatmulPreferenceDestroy, make)?;
        let limit = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        preference.set(sys::cublasLtMatmulPreferenceSetAttribute, limit, WORKSPACE)?;

        // SAFETY: zeros are a result that says nothing.
        let mut results = vec![unsafe { zeroed::<sys::cublasLtMatmulHeuristicResult_t>() }; most];
        let mut count = 0;
        let Described { operation, a, b, c, .. } = &described;
        // SAFETY: all descriptors are alive, and `results` has room for this number of results.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                operation.handle,
                a.handle,
                b.handle,
                c.handle,
                c.handle,
                preference.handle,
                most as i32,
                results.as_mut_ptr(),
                &mut count,
            )
        };
        if status == Status::CUBLAS_STATUS_NOT_SUPPORTED {
            return Err(Error::None(problem.to_string()));
        }
        check(status, "asking the heuristic")?;
        results.truncate(count.max(0) as usize);
        results.retain(|result| result.state == Status::CUBLAS_STATUS_SUCCESS);
        if results.is_empty() {
            return Err(Error::None(problem.to_string()));
        }
        let described = Rc::new(described);
        let product = |result: sys::cublasLtMatmulHeuristicResult_t| Product {
            library: self,
            described: described.clone(),
            algorithm: result.algo,
        };
        Ok(results.into_iter().map(product).collect())
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: the handle was made by this library and is destroyed once; products borrow `self`.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// The descriptors of a problem.
fn describe(problem: &Problem) -> Result<Described, Error> {
    let none = || Error::None(problem.to_string());
    let [type_a, type_b, type_c] = problem.types().ok_or_else(none)?;
    let (compute, scale) = problem.compute().ok_or_else(none)?;
    let epilogue = problem.epilogue().ok_or_else(none)?;
    // SAFETY: the pointer lives through the call.
    let make = |at| unsafe { sys::cublasLtMatmulDescCreate(at, compute, scale) };
    let operation = Descriptor::new(sys::cublasLtMatmulDescDestroy, make)?;
    let set = sys::cublasLtMatmulDescSetAttribute;
    operation.set(set, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, i32::from(problem.transpose_a))?;
    operation.set(set, Attribute::CUBLASLT_MATMUL_DESC_TRANSB, i32::from(problem.transpose_b))?;
    operation.set(set, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue)?;
    if let Some(bias) = problem.bias {
        operation.set(set, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias)?;
        operation.set(set, Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_c)?;
    }
    // Scales of 8-bit numbers are 1 where they are not given.
    if problem.a.is_fp8() {
        operation.set(set, Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, i8::from(problem.fast_accum))?;
    }
    const SCALES: [[Attribute; 2]; 2] = [
        [Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_MODE],
        [Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_MODE],
    ];
    for ([pointer, mode], scales) in SCALES.into_iter().zip(problem.scales.iter().flatten()) {
        operation.set(set, pointer, scales.address)?;
        // Libraries before 12.9 know one scale for an operand only.
        operation.set(set, mode, scales.mode).map_err(|_| none())?;
    }
    let Problem { m, n, k, batch, .. } = *problem;
    let layout = |elem: Type, rows: i64, columns: i64| -> Result<Layout, Error> {
        // SAFETY: the pointer lives through the call; columns are contiguous.
        let make =
            |at| unsafe { sys::cublasLtMatrixLayoutCreate(at, elem, rows as u64, columns as u64, rows) };
        let layout = Descriptor::new(sys::cublasLtMatrixLayoutDestroy, make)?;
        if batch > 1 {
            let set = sys::cublasLtMatrixLayoutSetAttribute;
            layout.set(set, LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch as i32)?;
            layout.set(set, LayoutAttribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns)?;
        }
        Ok(layout)
    };
    let a = if problem.transpose_a { layout(type_a, k, m)? } else { layout(type_a, m, k)? };
    let b = if problem.transpose_b { layout(type_b, n, k)? } else { layout(type_b, k, n)? };
    let c = layout(type_c, m, n)?;
    let size =
        |rows: i64, columns: i64, elem: Elem| (batch * rows * columns) as usize * elem.bytes() as usize;
    let bytes = [size(m, k, problem.a), size(k, n, problem.b), size(m, n, problem.out), WORKSPACE];
    Ok(Described { bytes, operation, a, b, c, scale })
}

type Layout = Descriptor<sys::cublasLtMatrixLayout_t>;

struct Described {
    /// Bytes of A, B, C and the workspace.
    bytes: [usize; 4],
    operation: Descriptor<sys::cublasLtMatmulDesc_t>,
    a: Layout,
    b: Layout,
    c: Layout,
    scale: Type,
}

/// One algorithm for one problem.
#[derive(Clone)]
pub(crate) struct Product<'l> {
    library: &'l CublasLt,
    described: Rc<Described>,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Product<'_> {
    /// C = op(A)·op(B), launched on the device: A, B, C and the workspace, in this order.
    pub(crate) fn begin_on(&self, device: &Device, memory: [&Memory; 4]) -> super::Result {
        let described = &*self.described;
        let fits = memory.iter().zip(described.bytes).all(|(memory, bytes)| memory.bytes >= bytes);
        assert!(fits, "the matrices do not fit their memory");
        let (one, zero): ([u8; 8], [u8; 8]) = match described.scale {
            Type::CUDA_R_64F => (1f64.to_ne_bytes(), [0; 8]),
            Type::CUDA_R_32I => (u64::from(1u32).to_ne_bytes(), [0; 8]),
            _ => (u64::from(1f32.to_bits()).to_ne_bytes(), [0; 8]),
        };
        let [a, b, c, workspace] = memory.map(|memory| memory.address as *mut c_void);
        // SAFETY: the descriptors are alive; the numbers have the type of the scale in their first bytes
        // (little-endian, as every machine with CUDA is); everything fits, and memory is freed by a call that waits
        // for the device.
        let outcome = unsafe {
            result::matmul(
                self.library.handle,
                described.operation.handle,
                one.as_ptr().cast(),
                zero.as_ptr().cast(),
                a,
                described.a.handle,
                b,
                described.b.handle,
                c,
                described.c.handle,
                c,
                described.c.handle,
                &self.algorithm,
                workspace,
                WORKSPACE,
                device.stream().cast(),
            )
        };
        outcome.map_err(|status| Error::Failed("multiplying", status).to_string())
    }
}

/// A product: column-major D (m, n) = activation(op(A)·op(B) + bias).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) m: i64,
    pub(crate) n: i64,
    pub(crate) k: i64,
    /// Are rows of A contiguous?
    pub(crate) transpose_a: bool,
    /// Are columns of B — rows of Bᵀ — contiguous along n?
    pub(crate) transpose_b: bool,
    /// Batch size; the products are contiguous in memory, one after another.
    pub(crate) batch: i64,
    a: Elem,
    b: Elem,
    out: Elem,
    fast_accum: bool,
    /// The address of as many numbers of the type of D as it has rows. The heuristic reads its alignment.
    pub(crate) bias: Option<u64>,
    /// Scales of A and of B.
    pub(crate) scales: Option<[Scales; 2]>,
    activation: Activation,
}

/// Scales of an operand: the address of the first, and what each is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scales {
    address: u64,
    mode: ScaleMode,
}

impl Scales {
    /// One for each row.
    pub(crate) fn of_rows(address: u64) -> Scales {
        Scales { address, mode: ScaleMode::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F }
    }

    /// One for each row and each 128 of K.
    pub(crate) fn of_rows_by_128(address: u64) -> Scales {
        Scales { address, mode: ScaleMode::CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F }
    }

    /// One for each 128 rows and each 128 of K.
    pub(crate) fn of_squares(address: u64) -> Scales {
        Scales { address, mode: ScaleMode::CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F }
    }
}

impl Problem {
    /// The product of a form and of these sizes, and whether A and B are swapped: a row-major C is the transposed product.
    pub(crate) fn of(form: &Form, Extents { batch, m, n, k }: Extents) -> (Problem, bool) {
        let swapped = form.order.c_rows;
        let a = (m, form.order.a_rows, form.a);
        let b = (n, form.order.b_rows, form.b);
        let ((m, a_rows, a), (n, b_rows, b)) = if swapped { (b, a) } else { (a, b) };
        let Form { out, fast_accum, activation, .. } = *form;
        let (transpose_a, transpose_b) = (a_rows, !b_rows);
        let (bias, scales) = (None, None);
        let problem = Problem {
            m,
            n,
            k,
            transpose_a,
            transpose_b,
            batch,
            a,
            b,
            out,
            fast_accum,
            bias,
            scales,
            activation,
        };
        (problem, swapped)
    }

    /// The types of A, B and D. tf32 is a way of multiplying f32.
    fn types(&self) -> Option<[Type; 3]> {
        Some([data_type(self.a)?, data_type(self.b)?, data_type(self.out)?])
    }

    /// How it is computed, and the type of alpha and beta. f32 is strict: no TF32.
    fn compute(&self) -> Option<(Compute, Type)> {
        match (self.a, self.b) {
            (Elem::F32, Elem::F32)
            | (Elem::F16, Elem::F16)
            | (Elem::Bf16, Elem::Bf16)
            // No product has two operands of e5m2.
            | (Elem::E4m3, Elem::E4m3 | Elem::E5m2)
            | (Elem::E5m2, Elem::E4m3) => Some((Compute::CUBLAS_COMPUTE_32F, Type::CUDA_R_32F)),
            (Elem::Tf32, Elem::Tf32) => Some((Compute::CUBLAS_COMPUTE_32F_FAST_TF32, Type::CUDA_R_32F)),
            (Elem::F64, Elem::F64) => Some((Compute::CUBLAS_COMPUTE_64F, Type::CUDA_R_64F)),
            (Elem::I8, Elem::I8) => Some((Compute::CUBLAS_COMPUTE_32I, Type::CUDA_R_32I)),
            _ => None,
        }
    }

    /// cuBLASLt's GELU is the one with tanh; an exact one is compared with it, too.
    fn epilogue(&self) -> Option<sys::cublasLtEpilogue_t> {
        use sys::cublasLtEpilogue_t::*;
        Some(match (self.activation, self.bias.is_some()) {
            (Activation::None, false) => CUBLASLT_EPILOGUE_DEFAULT,
            (Activation::None, true) => CUBLASLT_EPILOGUE_BIAS,
            (Activation::Relu, false) => CUBLASLT_EPILOGUE_RELU,
            (Activation::Relu, true) => CUBLASLT_EPILOGUE_RELU_BIAS,
            (Activation::Gelu | Activation::GeluTanh, false) => CUBLASLT_EPILOGUE_GELU,
            (Activation::Gelu | Activation::GeluTanh, true) => CUBLASLT_EPILOGUE_GELU_BIAS,
            (Activation::Silu | Activation::Own(_), _) => return None,
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |transposed| if transposed { 't' } else { 'n' };
        let Problem { m, n, k, batch, a, b, out, .. } = self;
        write!(f, "{batch} x {m}x{n}x{k}, {a} x {b} -> {out}, ")?;
        write!(f, "{}{}", letter(self.transpose_a), letter(self.transpose_b))?;
        if self.scales.is_some() {
            write!(f, ", with scales")?;
        }
        if self.bias.is_some() {
            write!(f, ", bias")?;
        }
        match Activation::ALL.iter().find(|row| row.1 == self.activation) {
            Some((name, activation)) if *activation != Activation::None => write!(f, ", {name}"),
            _ => Ok(()),
        }
    }
}

fn data_type(elem: Elem) -> Option<Type> {
    Some(match elem {
        Elem::F32 | Elem::Tf32 => Type::CUDA_R_32F,
        Elem::F64 => Type::CUDA_R_64F,
        Elem::F16 => Type::CUDA_R_16F,
        Elem::I8 => Type::CUDA_R_8I,
        Elem::U8 => Type::CUDA_R_8U,
        Elem::I32 => Type::CUDA_R_32I,
        Elem::Bf16 => Type::CUDA_R_16BF,
        Elem::E4m3 => Type::CUDA_R_8F_E4M3,
        Elem::E5m2 => Type::CUDA_R_8F_E5M2,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::form::{Order, Precision};
    use super::*;

    fn form(a: Elem, b: Elem, out: Elem) -> Form {
        Form {
            a,
            b,
            packed: None,
            out,
            order: Order { a_rows: true, b_rows: true, c_rows: false },
            scale: None,
            groups: None,
            scales: None,
            bias: None,
            residual: None,
            aux: None,
            activation: Activation::None,
            precision: Precision::Strict,
            fast_accum: false,
        }
    }

    #[test]
    fn errors_name_the_call_and_the_problem() {
        let (problem, _) = Problem::of(&form(Elem::I32, Elem::I32, Elem::I32), [1, 64, 32, 16].into());
        let none = Error::None(problem.to_string());
        assert_eq!(none.to_string(), "cuBLASLt has no product for 1 x 64x32x16, i32 x i32 -> i32, tn");
        let failed = Error::Failed("starting", CublasError(Status::CUBLAS_STATUS_NOT_SUPPORTED));
        assert_eq!(failed.to_string(), "cuBLASLt failed while starting: CUBLAS_STATUS_NOT_SUPPORTED");
    }

    #[test]
    fn types_of_products() {
        let of = |a, b, out| Problem::of(&form(a, b, out), [1, 64, 32, 16].into()).0;
        let tf32 = of(Elem::Tf32, Elem::Tf32, Elem::F32);
        assert_eq!(tf32.types(), Some([Type::CUDA_R_32F; 3]));
        assert_eq!(tf32.compute(), Some((Compute::CUBLAS_COMPUTE_32F_FAST_TF32, Type::CUDA_R_32F)));
        let mixed = of(Elem::E5m2, Elem::E4m3, Elem::F32);
        assert_eq!(mixed.types(), Some([Type::CUDA_R_8F_E5M2, Type::CUDA_R_8F_E4M3, Type::CUDA_R_32F]));
        assert_eq!(mixed.compute(), Some((Compute::CUBLAS_COMPUTE_32F, Type::CUDA_R_32F)));
        assert_eq!(of(Elem::E5m2, Elem::E5m2, Elem::F32).compute(), None);
        assert_eq!(of(Elem::Bf16, Elem::I8, Elem::Bf16).compute(), None);
    }

    /// A row-major C is the transposed product: operands, orders and sizes are swapped.
    #[test]
    fn rows_of_c_swap_the_operands() {
        let order = Order { a_rows: true, b_rows: false, c_rows: true };
        let (problem, swapped) =
            Problem::of(&Form { order, ..form(Elem::E4m3, Elem::E5m2, Elem::F32) }, [1, 5, 6, 7].into());
        assert!(swapped);
        assert_eq!(problem.to_string(), "1 x 6x5x7, e5m2 x e4m3 -> f32, nn");
    }
}
