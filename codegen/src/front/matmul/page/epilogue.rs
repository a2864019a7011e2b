//! The epilogue of a product: scales, alpha and beta, a bias, a residual, a function, a second result.

use super::{By, Page, scales, zero};
use crate::front::matmul::config::When;
use crate::source::ast::make::{bind, call, choice, closure, two};
use crate::source::ast::{Binary, Expr, ExprKind, Pattern, Stmt};
use crate::values::elem::Elem;

/// The tiles of further arguments, and the copies of results: of accumulators, or of a function of them and of these tiles.
pub(super) fn epilogue(page: &Page) -> Vec<Stmt> {
    let c = page.c;
    let scaled = c.scaled().name();
    let (mut stmts, mut tiles, mut names) = (Vec::new(), vec![Expr::from("acc")], vec!["x"]);
    let mut sum: Expr = "x".into();
    if scaled != c.acc.name() {
        sum = sum.cast(scaled);
    }
    if c.alpha_beta {
        sum = two(Binary::Mul, "alpha".into(), sum);
    }
    // A vector is along the accumulators' rows or columns.
    let [row, column] = &page.at;
    let vector = |name: &str, along: usize| {
        let (side, block) = if along == 0 { ("BM", row.clone()) } else { ("BN", column.clone()) };
        let along = if page.a_is_left { along } else { 1 - along };
        call("tile", &[], [name.into(), side.into(), block]).method("along", [(along as i64).into()])
    };
    let mut input = |tile: Expr, argument: &str, name: &'static str, elem: Elem| {
        let of = format!("g{argument}");
        tiles.push((&*of).into());
        if argument != "c" {
            stmts.push(bind(&of, tile));
        }
        names.push(name);
        if elem.name() == scaled { Expr::from(name) } else { Expr::from(name).cast(scaled) }
    };
    for along in (0..2).filter(|along| c.scales[*along]) {
        let (argument, name) = (scales(c, along), ["row", "column"][along]);
        sum = two(Binary::Mul, sum, input(vector(argument, along), argument, name, c.scaled()));
    }
    let bias = c.bias.map(|along| input(vector("bias", along), "bias", "bias", c.out));
    let residual =
        c.residual.map(|of| (input(page.like_c("residual"), "residual", "residual", of.elem), of.when));
    let (before, after) = match residual {
        Some((value, When::Before)) => (Some(value), None),
        Some((value, When::After)) => (None, Some(value)),
        None => (None, None),
    };
    let added =
        |sum: Expr| bias.iter().chain(&before).fold(sum, |sum, more| two(Binary::Add, sum, more.clone()));
    let finish = |sum: Expr| {
        let value = match c.function.as_ref().map(|function| &function.kind) {
            Some(ExprKind::Closure { params, body }) => applied(params, body, sum),
            _ => sum,
        };
        after.iter().fold(value, |value, more| two(Binary::Add, value, more.clone()))
    };
    let old = match c.alpha_beta {
        true => Some(input("gc".into(), "c", "old", c.out)),
        false => None,
    };
    // A result is a function of the sums: C is read only if beta is not 0.
    let result = |of: &dyn Fn(Expr) -> Expr| match &old {
        Some(old) => {
            let more = of(call("fma", &[], ["beta".into(), old.clone(), sum.clone()]));
            choice(two(Binary::Ne, "beta".into(), zero(c.scaled())), more, of(sum.clone()))
        }
        None => of(sum.clone()),
    };
    let (aux, value) = (c.aux.map(|_| result(&added)), result(&|sum| finish(added(sum))));
    let inputs = || if let [acc] = &tiles[..] { acc.clone() } else { tiles.clone().into() };
    let copied = |value: Expr, (to, elem): (&str, Elem)| match &value.kind {
        ExprKind::Name(_) => call("copy", &[], ["acc".into(), to.into()]).stmt(),
        // Threads that store elements by themselves compute each when it is stored.
        _ if matches!(page.by, By::Warps(_)) => {
            let value = if scaled == elem.name() { value } else { value.cast(elem.name()) };
            call("map", &[], [inputs(), to.into(), closure(&names, value)]).stmt()
        }
        _ => {
            let value = call("map", &[], [inputs(), closure(&names, value)]);
            call("copy", &[], [value, to.into()]).stmt()
        }
    };
    let of_c = copied(value, ("gc", c.out));
    let aux = aux.zip(c.aux).map(|(value, elem)| copied(value, ("gaux", elem)));
    stmts.extend(aux.iter().map(|_| bind("gaux", page.like_c("aux"))));
    // What C was is read before it is written.
    match c.alpha_beta {
        true => stmts.extend(aux.into_iter().chain([of_c])),
        false => stmts.extend([of_c].into_iter().chain(aux)),
    }
    stmts
}

/// A function of one number, applied to a value.
pub(super) fn applied(params: &[Pattern], body: &Expr, value: Expr) -> Expr {
    let [param] = params else { return value };
    let is_param = |of: &Expr| match (&of.kind, param) {
        (ExprKind::Name(of), Pattern::Name(name)) => *of == name.text,
        _ => false,
    };
    let mut body = body.clone();
    if is_param(&value) {
        return body;
    }
    // A call of a function of the number alone.
    if let ExprKind::Call { args, .. } = &mut body.kind
        && args.iter().all(|arg| is_param(&arg.value) || arg.value.names().is_empty())
        && args.iter().filter(|arg| is_param(&arg.value)).count() == 1
    {
        args.iter_mut().filter(|arg| is_param(&arg.value)).for_each(|arg| arg.value = value.clone());
        return body;
    }
    body.given(param.clone(), value)
}
