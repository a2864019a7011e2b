//! Products on CUDA cores: the thread layouts of the copies and of the multiply-adds as constants of their page.

use tilewright_layout::{Composed, Layout, Swizzle, Tuple, Value as Size};

use super::{evaluated, expr, kernel, number};
use crate::launch::definition::Settings;
use crate::matmul::{Config, Made};
use crate::source::ast::make::named;
use crate::source::ast::{Arg, ConstParam, Expr, ExprKind, Kernel};
use crate::source::problem::Result;
use crate::tile::{Order, Program};

/// The program.
pub(in crate::matmul) fn program(c: &Config) -> Made<Program> {
    evaluated(&page(c)?, Settings::default())
}

/// The function.
pub(in crate::matmul) fn page(c: &Config) -> Result<Kernel> {
    let blocks = c.split.blocks();
    let size = |(name, value): (&str, i64)| ConstParam { name: named(name), default: Some(value.into()) };
    let sizes = ["BM", "BN", "BK"].into_iter().zip(c.tile);
    let split = (blocks > 1).then_some(("SPLIT", blocks));
    let ([a, b], [bm, bn, bk]) = (&c.copies, c.tile);
    let ([c_m, c_n], [[a_m, a_k], [b_n, b_k]]) = (c.values_of([0, 1]), c.vectors());
    // Thread layouts without a mode for K have one group.
    let numbers = [
        ("C_M", c_m),
        ("C_N", c_n),
        ("A_M", a_m),
        ("A_K", a_k),
        ("B_N", b_n),
        ("B_K", b_k),
        ("A_STAGED", c.is_staged(0).into()),
        ("B_STAGED", c.is_staged(1).into()),
        ("STAGES", c.ahead.stages.into()),
        ("FRAGMENTS", c.ahead.fragments.into()),
        ("EXITS", c.ahead.exits.into()),
        ("OVER_K", (c.tc.rank() > 2).into()),
        ("GROUPS", c.groups()),
        ("BLOCKS", blocks),
        ("STORED", if blocks > 1 { 2 } else { c.gathers().into() }),
    ];
    let mut values: Vec<_> = numbers.into_iter().map(|(name, value)| (name, number(value))).collect();
    let order = Order::ALL.iter().find(|(_, order)| *order == c.order && c.order != Order::Plain);
    values.extend(order.map(|(name, _)| ("ORDER", expr(ExprKind::Str((*name).to_owned())))));
    let layouts = [
        ("TA", layout(&a.threads, Swizzle::IDENTITY)),
        ("TB", layout(&b.threads, Swizzle::IDENTITY)),
        ("TC", layout(&c.tc, c.swizzle)),
        ("SA", tile("BM", [bm, bk], &a.tile)),
        ("SB", tile("BN", [bn, bk], &b.tile)),
        ("SUMS", layout(&c.parts()?, Swizzle::IDENTITY)),
    ];
    values.extend(layouts);
    kernel(c, &c.texts.cuda_cores, c.overlaps(false), sizes.chain(split).map(size).collect(), values)
}

fn call(function: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    expr(ExprKind::Call { function: named(function), types: Vec::new(), args })
}

/// A shape or a stride.
fn sizes(of: &Tuple) -> Expr {
    match of.as_leaf().and_then(Size::int) {
        Some(size) => size.into(),
        None => expr(ExprKind::Tuple(of.modes().map(|mode| sizes(&mode)).collect())),
    }
}

/// A layout as it is written.
fn layout(of: &Layout, swizzle: Swizzle) -> Expr {
    let is_compact = Layout::compact(of.shape()).as_ref() == Ok(of);
    let stride = (!is_compact).then(|| Box::new(sizes(&of.stride())));
    let plain = expr(ExprKind::Layout { shape: Box::new(sizes(&of.shape())), stride });
    let numbers = [swizzle.bits().into(), swizzle.base().into(), i64::from(swizzle.shift())].map(Expr::from);
    if swizzle.is_identity() { plain } else { call("swizzled", numbers.into_iter().chain([plain])) }
}

/// The layout of a shared tile with columns one after the other, or as it is written.
fn tile(rows: &str, extents: [i64; 2], of: &Composed) -> Expr {
    let column = of.layout().stride().modes().nth(1).and_then(|stride| stride.as_leaf()).and_then(Size::int);
    let padding = column.map_or(0, |column| column - extents[0]);
    match Layout::padded((extents[0], extents[1]), padding) {
        Ok(padded) if of.as_layout() == Some(&padded) => {
            let shape = [rows, "BK"].map(|name| expr(ExprKind::Name(name.to_owned())));
            call("padded", [expr(ExprKind::Tuple(shape.into())), padding.into()])
        }
        _ => layout(of.layout(), of.swizzle()),
    }
}
