//! Assertions of a kernel's text.

use tilewright_codegen::ast::{Binary, Expr, ExprKind, Kernel, StmtKind};

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
    Some(match &of.kind {
        ExprKind::Int(n) => i128::from(*n),
        ExprKind::Name(name) => {
            let known = case.symbols.iter().find(|(symbol, _)| symbol.name() == name)?;
            i128::from(known.1)
        }
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (number(a, case)?, number(b, case)?);
            match op {
                Binary::Add => a + b,
                Binary::Mul => a * b,
                Binary::Div if b > 0 => a.div_euclid(b),
                Binary::Rem if b > 0 => a.rem_euclid(b),
                _ => return None,
            }
        }
        _ => return None,
    })
}
