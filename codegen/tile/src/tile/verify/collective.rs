//! Collective statements: barriers, reductions over threads, instructions of a warp, work in roles, statements on whole tiles.
//! All threads of the group must reach such a statement together.

use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::visit::preorder;
use crate::tile::whole::{Kind, is_combined, is_cooperative, kind};
use crate::tile::{Op, Program, Space, Stmt};

/// Refuses a collective statement that threads of its group may not reach.
pub fn check(program: &Program) -> Result<(), Diagnostic> {
    together(program, &program.body, None)
}

/// An integer of all threads that is read from a part in registers: all threads have combined it, and no other statement changes it.
pub fn combined(program: &Program, stmt: &Stmt) -> Result<(), Diagnostic> {
    if let Op::Take { number, from } = &stmt.op
        && kind(program, from) == Kind::Part
        && matches!(program.tensor(from.tensor).space, Space::Registers { .. })
        && !program.reads[*number as usize].per_thread
        && !is_combined(from.tensor, program.body.iter())
    {
        let name = &from.name;
        return Err(Problem::new(format!(
            "`{name}` is the same number in all threads here, but another statement gives each thread its own"
        ))
        .help(format!("let that statement change a copy: let own = map({name}, |x| x)"))
        .at(stmt.span));
    }
    stmt.bodies().into_iter().flatten().try_for_each(|stmt| combined(program, stmt))
}

/// Why a statement is not executed by all threads of its group.
#[derive(Clone, Copy)]
enum Apart {
    Condition,
    Loop,
    /// Blocks of a cluster may differ.
    Blocks,
}

/// Collective statements must be reached by all threads of their group.
fn together(program: &Program, body: &[Stmt], apart: Option<Apart>) -> Result<(), Diagnostic> {
    for stmt in body {
        let what = match apart {
            Some(Apart::Blocks) => over_cluster(program, stmt),
            Some(Apart::Condition | Apart::Loop) => collective(program, stmt),
            None => None,
        };
        if let (Some(apart), Some(what)) = (apart, what) {
            let (where_to, why) = match apart {
                Apart::Condition => ("`if`", "the condition around it may differ from thread to thread"),
                Apart::Loop => (
                    "loop",
                    "the number of iterations of the loop around it may differ from thread to thread",
                ),
                Apart::Blocks => {
                    let message = "needs all blocks of the cluster at once, and the condition or loop around it may differ from block to block";
                    return Err(Problem::new(format!("{what} {message}"))
                        .help("write it outside of the `if` or loop, or let sizes and loop variables decide")
                        .at(stmt.span));
                }
            };
            let mut help = format!(
                "write it outside of the {where_to}, or let `block.x`, sizes and loop variables decide"
            );
            if matches!(apart, Apart::Loop) {
                help += ", or an element that all threads have, such as the result of sum(x)";
            }
            if what == WHOLE {
                help += "; for statements of some threads only, use their parts: parallelize(tile, layout!((32, 8)), thread.x)";
            }
            return Err(Problem::new(format!("{what} needs all threads at once, and {why}"))
                .help(help)
                .at(stmt.span));
        }
        let apart = match &stmt.op {
            op if !program.diverges(op) => match apart {
                None if program.blocks_diverge(op) => Some(Apart::Blocks),
                _ => apart,
            },
            Op::If { .. } => Some(Apart::Condition),
            _ => Some(Apart::Loop),
        };
        stmt.bodies().into_iter().try_for_each(|inner| together(program, inner, apart))?;
    }
    Ok(())
}

/// A statement that all blocks of a cluster execute together, in words.
fn over_cluster(program: &Program, stmt: &Stmt) -> Option<&'static str> {
    match &stmt.op {
        Op::SyncCluster => collective(program, stmt),
        Op::Scan { .. } if stmt.is_over_cluster() => Some("a scan over a cluster"),
        _ if stmt.is_over_cluster() => Some("a reduction over a cluster"),
        _ => None,
    }
}

const WHOLE: &str = "a statement on whole tiles";

/// A collective statement, in words.
fn collective(program: &Program, stmt: &Stmt) -> Option<&'static str> {
    match &stmt.op {
        op if is_cooperative(program, stmt.by, op) => Some(WHOLE),
        Op::Wait { token: Some(token), .. } => {
            multiplies(program, *token).then_some("this wait for products")
        }
        _ => stmt.collective(),
    }
}

/// Is a product in flight under a token?
fn multiplies(program: &Program, token: Id) -> bool {
    preorder(&program.body).any(|stmt| matches!(stmt.op, Op::Gemm { token: Some(of), .. } if of == token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Builder;
    use crate::tile::{Multiply, Order};
    use crate::values::affine::Coord;
    use crate::values::elem::Elem;
    use tilewright_layout::Value;

    /// The diagnostic of a kernel with this in a condition that differs from thread to thread.
    #[track_caller]
    fn check_apart(statement: impl Fn(&mut Builder), expected: &str) {
        let mut b = Builder::new("apart");
        b.condition(&Coord::Thread(0).into(), Value::Int(3), |b| {
            statement(b);
            Ok(())
        })
        .unwrap();
        let why = "needs all threads at once, and the condition around it may differ from thread to thread";
        let help = "write it outside of the `if`, or let `block.x`, sizes and loop variables decide";
        let message = check(&b.finish()).unwrap_err().text();
        assert_eq!(message, format!("{expected} {why}\nhelp: {help}"));
    }

    #[test]
    fn collective_statements_need_all_threads() {
        check_apart(|b| b.sync(), "`sync_threads()`");
        let wait = |b: &mut Builder| {
            let token: Id = 0;
            let how = Multiply::Atom(crate::isa::find("mma_m16n8k8_tf32").expect("a row of the table"));
            let [x, y, acc] =
                ["x", "y", "acc"].map(|name| b.registers(name, Elem::F32, (4i64, 1i64)).unwrap());
            b.wait(token, 0);
            let (order, token) = (Order::default(), Some(token));
            b.statement(Op::Gemm { a: x, b: y, acc, how, order, token });
        };
        check_apart(wait, "this wait for products");
    }
}
