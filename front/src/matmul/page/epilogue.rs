//! The epilogue of a product: scales, alpha and beta, a bias, a residual, a function, a second result.

use super::Page;
use super::results::Results;
use crate::source::ast::make::{bind, call, closure};
use crate::source::ast::{Expr, ExprKind, Stmt};
use crate::values::elem::Elem;

/// The tiles of further arguments, and the copies of results: of accumulators, or of a function of them and of these tiles.
pub(super) fn epilogue(page: &Page) -> Vec<Stmt> {
    let (c, results) = (page.c, Results::of(page.c));
    // A vector is along the accumulators' rows or columns.
    let vector = |name: &str, along: usize| {
        let tile = call("tile", &[], [name.into(), ["BM", "BN"][along].into(), page.at[along].clone()]);
        let along = if page.a_is_left { along } else { 1 - along };
        tile.method("along", [(along as i64).into()])
    };
    let (mut stmts, mut tiles, mut names) = (Vec::new(), vec![Expr::from("acc")], vec!["x"]);
    for input in &results.inputs {
        let name = format!("g{}", input.argument);
        tiles.push((&*name).into());
        names.push(input.name);
        let tile =
            input.along.map_or_else(|| page.like_c(input.argument), |along| vector(input.argument, along));
        stmts.extend((input.argument != "c").then(|| bind(&name, tile)));
    }
    let inputs = || if let [acc] = &tiles[..] { acc.clone() } else { tiles.clone().into() };
    let copied = |value: Expr, (to, elem): (&str, Elem)| match &value.kind {
        ExprKind::Name(_) => call("copy", &[], ["acc".into(), to.into()]).stmt(),
        // Threads that store elements by themselves compute each when it is stored.
        _ if !page.plan.is_wgmma() => {
            let value = if c.scaled() == elem { value } else { value.cast(elem.name()) };
            call("map", &[], [inputs(), to.into(), closure(&names, value)]).stmt()
        }
        _ => {
            let value = call("map", &[], [inputs(), closure(&names, value)]);
            call("copy", &[], [value, to.into()]).stmt()
        }
    };
    let of_c = copied(results.result(), ("gc", c.out));
    let aux = c.aux.map(|elem| copied(results.sum(), ("gaux", elem)));
    stmts.extend(aux.iter().map(|_| bind("gaux", page.like_c("aux"))));
    // What C was is read before it is written.
    match c.alpha_beta {
        true => stmts.extend(aux.into_iter().chain([of_c])),
        false => stmts.extend([of_c].into_iter().chain(aux)),
    }
    stmts
}
