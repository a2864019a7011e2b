//! Weights of few bits, the left operand: their conversion, and the scales and zero points of groups along K.

use super::Page;
use crate::matmul::Config;
use crate::matmul::scales::Grouped;
use crate::source::ast::make::{bind, call, closure, two};
use crate::source::ast::{Binary, Expr, Stmt};

/// Arguments with a number for each group: the argument, its tile of the block, the shared tile, and an element.
const OF_GROUPS: [[&str; 4]; 2] = [["scale", "gscale", "sscale", "s"], ["zero", "gzero", "szero", "z"]];

/// The arguments that there are.
fn of_groups(c: &Config) -> &'static [[&'static str; 4]] {
    &OF_GROUPS[..c.of_groups()]
}

/// Their names and extents.
pub(super) fn params(c: &Config) -> Vec<(&'static str, [Expr; 2])> {
    let groups = || call("ceil_div", &[], ["K".into(), c.group.unwrap_or(1).into()]);
    of_groups(c).iter().map(|[name, ..]| (*name, ["N".into(), groups()])).collect()
}

/// The extent of B along K, and of its tile: numbers of four bits are two in an element.
pub(super) fn extent_of_b(c: &Config) -> Expr {
    if c.packed.is_some() { call("ceil_div", &[], ["K".into(), 2.into()]) } else { "K".into() }
}

pub(super) fn step_of_b(c: &Config) -> Expr {
    if c.packed.is_some() { two(Binary::Div, "BK".into(), 2.into()) } else { "BK".into() }
}

/// The groups of a step.
fn grouped(page: &Page) -> Option<Grouped> {
    let (bk, parts) = page.plan.step();
    page.c.grouped(bk, parts)
}

/// Tiles of scales and zero points.
pub(super) fn tiles(page: &Page) -> Vec<Stmt> {
    let Some(of) = grouped(page) else { return Vec::new() };
    let (c, column) = (page.c, &page.at[1]);
    let one = |[name, tile, shared, _]: &[&str; 4]| {
        let (shape, at): ([Expr; 2], [Expr; 2]) =
            (["BN".into(), of.wide().into()], [column.clone(), "_".into()]);
        let slot: Expr = match of.count() {
            1 => "BN".into(),
            count => [Expr::from("BN"), count.into()].into(),
        };
        [
            bind(tile, call("tile", &[], [page.of_batch(name), shape.into(), at.into()])),
            bind(shared, call("shared", &[c.dtype.name()], [slot])),
        ]
    };
    of_groups(page.c).iter().flat_map(one).collect()
}

/// Their copies of a step: all columns together, or from the group of each column.
pub(super) fn copies(page: &Page) -> Vec<Stmt> {
    let Some(of) = grouped(page) else { return Vec::new() };
    let step = Expr::from("k");
    let copy = |from: &str, at: [Expr; 3], to: Expr| call("copy", &[], [Expr::from(from).at(at), to]).stmt();
    let one = |[_, tile, shared, _]: &[&'static str; 4]| -> Vec<Stmt> {
        if of.wide() > 1 {
            return vec![copy(tile, ["_".into(), "_".into(), step.clone()], (*shared).into())];
        }
        let column = |column: i64| {
            let part = match of.count() {
                1 => step.clone(),
                count => two(Binary::Add, two(Binary::Mul, step.clone(), count.into()), column.into()),
            };
            let group = match of.size / of.each {
                1 => part,
                parts => two(Binary::Div, part, parts.into()),
            };
            let to = match of.count() {
                1 => (*shared).into(),
                _ => Expr::from(*shared).at([Expr::from("_"), column.into()]),
            };
            copy(tile, ["_".into(), 0.into(), group], to)
        };
        (0..of.count()).map(column).collect()
    };
    of_groups(page.c).iter().flat_map(one).collect()
}

/// The converted weights.
pub(super) fn converted(page: &Page) -> Expr {
    let c = page.c;
    let elem = c.dtype.name();
    let (weights, mut value): (Expr, Expr) = match c.packed {
        Some(of) => (call("unpack_int4", &[of.name(), elem], ["sb".into()]), "w".into()),
        None => ("sb".into(), Expr::from("w").cast(elem)),
    };
    let Some(of) = grouped(page) else {
        return if c.packed.is_some() {
            weights
        } else {
            call("map", &[], [weights, closure(&["w"], value)])
        };
    };
    let (mut tiles, mut names) = (vec![weights], vec!["w"]);
    for [.., shared, name] in of_groups(c) {
        tiles.push(match of.count() {
            1 => Expr::from(*shared).method("along", [0.into()]),
            _ => {
                let shape = [Expr::from("_"), of.each.into(), "_".into()].into();
                let repeated = call("broadcast", &[], [(*shared).into(), shape]);
                call("regroup", &[], [repeated, ["BN", "BK"].into()])
            }
        });
        names.push(name);
    }
    if c.zeros {
        value = two(Binary::Sub, value, "z".into());
    }
    value = two(Binary::Mul, value, "s".into());
    call("map", &[], [tiles.into(), closure(&names, value)])
}
