//! The baseline: matrix products of NVIDIA's cuBLASLt, loaded when a benchmark runs. The heuristic is queried
//! once for each problem; every launch uses one algorithm of its list.
#![allow(unsafe_code)]

mod functions;
mod problem;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;

use tilewright_codegen::Elem;

use super::driver::{Device, Memory};
pub(super) use functions::{Error, installed};
use functions::{Functions, Heuristic, Object, Opaque, check, version};
pub(super) use problem::{Problem, Scales};

/// Workspace limit in bytes, provided by the caller: what NVIDIA recommends for Hopper.
pub(super) const WORKSPACE: usize = 32 << 20;

/// Attributes of products, matrices and preferences.
const TRANS_A: c_int = 3;
const TRANS_B: c_int = 4;
const EPILOGUE: c_int = 7;
const BIAS_POINTER: c_int = 8;
const SCALE_POINTERS: [c_int; 2] = [17, 18];
const FAST_ACCUM: c_int = 25;
const BIAS_TYPE: c_int = 26;
const SCALE_MODES: [c_int; 2] = [31, 32];
const BATCH_COUNT: c_int = 5;
const BATCH_STRIDE: c_int = 6;
const MOST_WORKSPACE: c_int = 1;

const NOT_SUPPORTED: c_int = 15;

/// cuBLASLt, loaded, with a handle for the current context.
pub(super) struct CublasLt {
    functions: Functions,
    handle: Opaque,
}

impl CublasLt {
    /// Finds and loads it. A context must be current.
    pub(super) fn open() -> Result<CublasLt, Error> {
        let functions = Functions::load()?;
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
        let described = self.describe(problem)?;
        let functions = &self.functions;
        let preference = Object::new(functions.preference_free, |at| {
            // SAFETY: `at` lives through the call.
            check(unsafe { (functions.preference)(at) }, "describing preferences")
        })?;
        preference.set(functions.preference_set, MOST_WORKSPACE, WORKSPACE)?;

        let mut result = vec![Heuristic::default(); most];
        let mut count = 0;
        let Described { operation, a, b, c, .. } = &described;
        // SAFETY: all objects are alive, and `results` has room for the passed number of results.
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
                result.as_mut_ptr(),
                &mut count,
            )
        };
        if status == NOT_SUPPORTED {
            return Err(Error::None(problem.to_string()));
        }
        check(status, "asking the heuristic")?;
        result.truncate(count.max(0) as usize);
        result.retain(|result| result.state == 0);
        if result.is_empty() {
            return Err(Error::None(problem.to_string()));
        }
        let described = Rc::new(described);
        Ok(result
            .into_iter()
            .map(|result| Product {
                library: self,
                described: described.clone(),
                algorithm: result.algorithm,
            })
            .collect())
    }

    /// The descriptors of a problem.
    fn describe(&self, problem: &Problem) -> Result<Described, Error> {
        let none = || Error::None(problem.to_string());
        let [type_a, type_b, type_c] = problem.types().ok_or_else(none)?;
        let (compute, scale) = problem.compute().ok_or_else(none)?;
        let epilogue = problem.epilogue().ok_or_else(none)?;
        let functions = &self.functions;
        let operation = Object::new(functions.operation_free, |at| {
            // SAFETY: `at` lives through the call.
            check(unsafe { (functions.operation)(at, compute, scale) }, "describing the product")
        })?;
        let set = functions.operation_set;
        operation.set(set, TRANS_A, c_int::from(problem.transpose_a))?;
        operation.set(set, TRANS_B, c_int::from(problem.transpose_b))?;
        operation.set(set, EPILOGUE, epilogue)?;
        if let Some(bias) = problem.bias {
            operation.set(set, BIAS_POINTER, bias)?;
            operation.set(set, BIAS_TYPE, type_c)?;
        }
        // Scales of 8-bit numbers are 1 where they are not given.
        if problem.is_fp8() {
            operation.set(set, FAST_ACCUM, i8::from(problem.fast_accum))?;
        }
        for (at, scales) in problem.scales.iter().flatten().enumerate() {
            operation.set(set, SCALE_POINTERS[at], scales.address)?;
            // Libraries before 12.9 know one scale for an operand only.
            operation.set(set, SCALE_MODES[at], scales.mode).map_err(|_| none())?;
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
        let a = if problem.transpose_a { layout(type_a, k, m)? } else { layout(type_a, m, k)? };
        let b = if problem.transpose_b { layout(type_b, n, k)? } else { layout(type_b, k, n)? };
        let c = layout(type_c, m, n)?;
        let size =
            |rows: i64, columns: i64, elem: Elem| (batch * rows * columns) as usize * elem.bytes() as usize;
        let bytes = Sizes { a: size(m, k, problem.a), b: size(k, n, problem.b), c: size(m, n, problem.out) };
        Ok(Described { bytes, operation, a, b, c, scale })
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: the handle was made by this library and is destroyed once; products borrow `self`.
        unsafe { (self.functions.destroy)(self.handle) };
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
    described: Rc<Described>,
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
    /// The addresses point to device memory with the problem's matrices, and `workspace` has
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
        // (little-endian, as every machine with CUDA is); the caller is responsible for the addresses.
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
    use super::super::form::{Activation, Form, Order, Precision};
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

    #[track_caller]
    fn check_text(error: Error, expected: &str) {
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_errors_say() {
        let (problem, _) = Problem::of(&form(Elem::I32, Elem::I32, Elem::I32), [1, 64, 32, 16].into());
        check_text(
            Error::None(problem.to_string()),
            "cuBLASLt has no product for 1 x 64x32x16, i32 x i32 -> i32, tn",
        );
        check_text(Error::Failed("starting", 15), "cuBLASLt failed while starting: not supported (15)");
        check_text(Error::Failed("starting", 99), "cuBLASLt failed while starting: an unknown status (99)");
        check_text(
            Error::Missing("no symbol".into()),
            "this cuBLASLt is not one that can be used: no symbol",
        );
    }

    /// The numbers of NVIDIA's headers: types of A, B, D, then how it is computed, and the type of alpha.
    #[test]
    fn types_have_the_numbers_of_the_headers() {
        #[track_caller]
        fn check(a: Elem, b: Elem, out: Elem, expected: Option<([c_int; 3], (c_int, c_int))>) {
            let (problem, _) = Problem::of(&form(a, b, out), [1, 64, 32, 16].into());
            assert_eq!(problem.types().zip(problem.compute()), expected);
        }
        check(Elem::F32, Elem::F32, Elem::F32, Some(([0, 0, 0], (68, 0))));
        check(Elem::Tf32, Elem::Tf32, Elem::F32, Some(([0, 0, 0], (77, 0))));
        check(Elem::F64, Elem::F64, Elem::F64, Some(([1, 1, 1], (70, 1))));
        check(Elem::Bf16, Elem::Bf16, Elem::F32, Some(([14, 14, 0], (68, 0))));
        check(Elem::I8, Elem::I8, Elem::I32, Some(([3, 3, 10], (72, 10))));
        check(Elem::E4m3, Elem::E4m3, Elem::Bf16, Some(([28, 28, 14], (68, 0))));
        check(Elem::E5m2, Elem::E4m3, Elem::F32, Some(([29, 28, 0], (68, 0))));
        check(Elem::E5m2, Elem::E5m2, Elem::F32, None);
        check(Elem::Bf16, Elem::I8, Elem::Bf16, None);
    }

    #[test]
    fn epilogues_have_the_numbers_of_the_headers() {
        let of = |activation, bias| {
            let form = Form { activation, ..form(Elem::Bf16, Elem::Bf16, Elem::Bf16) };
            Problem { bias, ..Problem::of(&form, [1, 64, 32, 16].into()).0 }.epilogue()
        };
        assert_eq!(of(Activation::None, None), Some(1));
        assert_eq!(of(Activation::None, Some(16)), Some(4));
        assert_eq!(of(Activation::Relu, Some(16)), Some(6));
        assert_eq!(of(Activation::Gelu, Some(16)), Some(36));
        assert_eq!(of(Activation::GeluTanh, None), Some(32));
        assert_eq!(of(Activation::Silu, None), None);
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
