//! Products of narrow types on CUDA cores: whole tiles that tensor cores could multiply, but with plain accumulators.

use crate::source::ast::{Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::tile::visit::preorder;
use crate::tile::{Form, Multiply, Op, Program};
use crate::values::elem::Elem;
use crate::values::semiring::Semiring;

/// One finding for each such product.
pub(super) fn find(program: &Program, levels: &[(Name, Level)]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for stmt in preorder(&program.body) {
        let Op::Gemm { a, b, acc, how: Multiply::Scalar(Semiring::SUMS), .. } = &stmt.op else { continue };
        if program.forms.get(&acc.tensor) != Some(&Form::Open) {
            continue;
        }
        let [of_a, of_b, sums] = [a, b, acc].map(|view| program.tensor(view.tensor).elem);
        let narrow = matches!(of_a, Elem::F16 | Elem::Bf16) && of_a == of_b && sums == Elem::F32;
        let extents = (acc.extents(), a.extents());
        let (Some([m, n]), Some([_, k])) = (extents.0.as_deref(), extents.1.as_deref()) else { continue };
        if !narrow || m % 16 != 0 || n % 16 != 0 || k % 16 != 0 {
            continue;
        }
        let message =
            format!("this multiplies {of_a} on CUDA cores, because `{}` is a tile of `full`", acc.name);
        let help = format!(
            "for tensor cores, make the accumulators of an instruction: let mut {} = tiled_mma::<{of_a}, f32>(warps = 4).accumulators(({m}, {n}), 0.0)",
            acc.name
        );
        diagnostics.extend(super::lint(
            "cuda_cores",
            levels,
            Diagnostic::error(stmt.span, message).help(help),
        ));
    }
    diagnostics
}
