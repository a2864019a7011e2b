//! Assertions of a kernel's text.

use tilewright_codegen::ast::{Binary, Expr, ExprKind, Kernel, StmtKind};

use super::grid::integer_at_launch;
use crate::case::Case;

/// Do all assertions hold? One without a value, such as a quotient by 0, does not.
pub fn asserted(kernel: &Kernel, case: &Case) -> bool {
    kernel.body.iter().all(|stmt| match &stmt.kind {
        StmtKind::Expr(Expr { kind: ExprKind::Call { function, args, .. }, .. })
            if function.text == "assert" =>
        {
            truth(&args[0].value, case) == Some(true)
        }
        _ => true,
    })
}

fn truth(of: &Expr, case: &Case) -> Option<bool> {
    let ExprKind::Binary(op, a, b) = &of.kind else { return None };
    Some(match op {
        Binary::Or => truth(a, case)? || truth(b, case)?,
        Binary::And => truth(a, case)? && truth(b, case)?,
        Binary::Eq => number(a, case)? == number(b, case)?,
        Binary::Lt => number(a, case)? < number(b, case)?,
        Binary::Le => number(a, case)? <= number(b, case)?,
        Binary::Gt => number(a, case)? > number(b, case)?,
        Binary::Ge => number(a, case)? >= number(b, case)?,
        _ => return None,
    })
}

fn number(of: &Expr, case: &Case) -> Option<i128> {
    let known = |name: &str| case.symbols.iter().find(|(symbol, _)| symbol.name() == name);
    integer_at_launch(of, &|name| known(name).map(|known| known.1.into()))
}
