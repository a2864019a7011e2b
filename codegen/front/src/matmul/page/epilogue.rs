//! The epilogue of a product: scales, alpha and beta, a bias, a residual, a function, a second result.

use super::Page;
use super::results::Results;
use crate::source::ast::{Expr, ExprKind, Stmt};
use crate::source::problem::Result;
use crate::values::elem::Elem;
use crate::words::stmts;

/// The tiles of further arguments, and the copies of results: of accumulators, or of a function of them and of these tiles.
pub(super) fn epilogue(page: &Page) -> Result<Vec<Stmt>> {
    let (c, results) = (page.c, Results::of(page.c));
    let (mut tiles, mut names) = ("acc".to_owned(), "x".to_owned());
    for input in &results.inputs {
        tiles += &format!(", g{}", input.argument);
        names += &format!(", {}", input.name);
    }
    // A vector is along the accumulators' rows or columns.
    let vector = |name: &str, along: usize| {
        let (rows, at) = (["BM", "BN"][along], page.at[along]);
        format!("tile({name}, {rows}, {at}).along({})", page.of_acc(along))
    };
    let text = results.tiles(|name| page.like_c(name), vector);
    let tiles = if results.inputs.is_empty() { tiles } else { format!("({tiles})") };
    let copied = |value: Expr, (to, elem): (&str, Elem)| {
        // Threads that store elements by themselves compute each when it is stored.
        let text = match !page.plan.is_wgmma() {
            _ if matches!(value.kind, ExprKind::Name(_)) => format!("copy(acc, {to});"),
            true if c.scaled() == elem => format!("map({tiles}, {to}, |{names}| VALUE);"),
            true => format!("map({tiles}, {to}, |{names}| VALUE as {elem});"),
            false => format!("copy(map({tiles}, |{names}| VALUE), {to});"),
        };
        stmts(&text, &[("VALUE", value)])
    };
    let mut all = vec![stmts(&text, &[])?, copied(results.result()?, ("gc", c.out))?];
    // What C was is read before it is written.
    let at = if c.alpha_beta { 1 } else { 2 };
    if let Some(elem) = c.aux {
        all.insert(at, copied(results.sum()?, ("gaux", elem))?);
    }
    Ok(all.concat())
}
