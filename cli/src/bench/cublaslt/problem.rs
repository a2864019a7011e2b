//! A product in cuBLASLt's terms, and its numbers for types and epilogues.

use std::ffi::c_int;
use std::fmt;

use tilewright_codegen::Elem;

use super::super::form::{Activation, Extents, Form};

/// A product: column-major D (m, n) = activation(op(A)·op(B) + bias).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) struct Problem {
    pub(in crate::bench) m: i64,
    pub(in crate::bench) n: i64,
    pub(in crate::bench) k: i64,
    /// Are rows of A contiguous?
    pub(in crate::bench) transpose_a: bool,
    /// Are columns of B — rows of Bᵀ — contiguous along n?
    pub(in crate::bench) transpose_b: bool,
    /// Batch size; the products are contiguous in memory, one after another.
    pub(in crate::bench) batch: i64,
    pub(super) a: Elem,
    pub(super) b: Elem,
    pub(super) out: Elem,
    pub(super) fast_accum: bool,
    /// The address of as many numbers of the type of D as it has rows. The heuristic reads its alignment.
    pub(in crate::bench) bias: Option<u64>,
    /// Scales of A and of B.
    pub(in crate::bench) scales: Option<[Scales; 2]>,
    pub(super) activation: Activation,
}

/// Scales of an operand: the address of the first, and `cublasLtMatmulMatrixScale_t`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) struct Scales {
    pub(super) address: u64,
    pub(super) mode: c_int,
}

impl Scales {
    /// One for each row.
    pub(in crate::bench) fn of_rows(address: u64) -> Scales {
        Scales { address, mode: 3 }
    }

    /// One for each row and each 128 of K.
    pub(in crate::bench) fn of_rows_by_128(address: u64) -> Scales {
        Scales { address, mode: 4 }
    }

    /// One for each 128 rows and each 128 of K.
    pub(in crate::bench) fn of_squares(address: u64) -> Scales {
        Scales { address, mode: 5 }
    }
}

impl Problem {
    /// The product of a form and of these sizes, and whether A and B are swapped: a row-major C is the transposed product.
    pub(in crate::bench) fn of(form: &Form, Extents { batch, m, n, k }: Extents) -> (Problem, bool) {
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

    /// `cudaDataType_t` of A, B and D. tf32 is a way of multiplying f32.
    pub(super) fn types(&self) -> Option<[c_int; 3]> {
        Some([data_type(self.a)?, data_type(self.b)?, data_type(self.out)?])
    }

    /// `cublasComputeType_t`, and the type of alpha and beta. f32 is strict: no TF32.
    pub(super) fn compute(&self) -> Option<(c_int, c_int)> {
        const F32: c_int = 68;
        match (self.a, self.b) {
            (Elem::F32, Elem::F32) | (Elem::F16, Elem::F16) | (Elem::Bf16, Elem::Bf16) => Some((F32, 0)),
            (Elem::Tf32, Elem::Tf32) => Some((77, 0)),
            (Elem::F64, Elem::F64) => Some((70, 1)),
            (Elem::I8, Elem::I8) => Some((72, 10)),
            // No product has two operands of e5m2.
            (Elem::E4m3, Elem::E4m3 | Elem::E5m2) | (Elem::E5m2, Elem::E4m3) => Some((F32, 0)),
            _ => None,
        }
    }

    /// Are the operands 8-bit floating-point numbers?
    pub(super) fn is_fp8(&self) -> bool {
        self.a.is_fp8()
    }

    /// `cublasLtEpilogue_t`. cuBLASLt's GELU is the one with tanh; an exact one is compared with it, too.
    pub(super) fn epilogue(&self) -> Option<u32> {
        const DEFAULT: u32 = 1;
        const BIAS: u32 = 4;
        let function = match self.activation {
            Activation::None => 0,
            Activation::Relu => 2,
            Activation::Gelu | Activation::GeluTanh => 32,
            Activation::Silu | Activation::Own(_) => return None,
        };
        let all = function | if self.bias.is_some() { BIAS } else { 0 };
        Some(if all == 0 { DEFAULT } else { all })
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

/// `cudaDataType_t` of a type.
fn data_type(elem: Elem) -> Option<c_int> {
    match elem {
        Elem::F32 | Elem::Tf32 => Some(0),
        Elem::F64 => Some(1),
        Elem::F16 => Some(2),
        Elem::I8 => Some(3),
        Elem::U8 => Some(8),
        Elem::I32 => Some(10),
        Elem::Bf16 => Some(14),
        Elem::E4m3 => Some(28),
        Elem::E5m2 => Some(29),
        _ => None,
    }
}
