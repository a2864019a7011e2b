//! Weights of few bits, the left operand: their conversion, and the scales and zero points of groups along K.

use super::Page;
use crate::matmul::Config;
use crate::matmul::scales::Grouped;

/// Arguments with a number for each group: the argument, its tile of the block, the shared tile, and an element.
const OF_GROUPS: [[&str; 4]; 2] = [["scale", "gscale", "sscale", "s"], ["zero", "gzero", "szero", "z"]];

/// The arguments that there are.
pub(super) fn of_groups(c: &Config) -> &'static [[&'static str; 4]] {
    &OF_GROUPS[..c.of_groups()]
}

/// The extents of B, and its extent along K in a tile: numbers of four bits are two in an element.
pub(super) fn extents_of_b(c: &Config) -> &'static str {
    if c.packed.is_some() { "N, ceil_div(K, 2)" } else { "N, K" }
}

pub(super) fn step_of_b(c: &Config) -> &'static str {
    if c.packed.is_some() { "BK / 2" } else { "BK" }
}

/// The groups of a step.
fn grouped(page: &Page) -> Option<Grouped> {
    let (bk, parts) = page.plan.step();
    page.c.grouped(bk, parts)
}

/// Tiles of scales and zero points.
pub(super) fn tiles(page: &Page) -> String {
    let Some(of) = grouped(page) else { return String::new() };
    let (dtype, wide, [_, column]) = (page.c.dtype, of.wide(), page.at);
    let slot = if of.count() == 1 { "BN".to_owned() } else { format!("(BN, {})", of.count()) };
    let one = |[name, tile, shared, _]: &[&str; 4]| {
        let all = page.of_batch(name);
        format!(
            "let {tile} = tile({all}, (BN, {wide}), ({column}, _)); let {shared} = shared::<{dtype}>({slot});"
        )
    };
    of_groups(page.c).iter().map(one).collect()
}

/// Their copies of a step: all columns together, or from the group of each column.
pub(super) fn copies(page: &Page) -> String {
    let Some(of) = grouped(page) else { return String::new() };
    let (wide, count, parts) = (of.wide(), of.count(), of.size / of.each);
    let one = |[_, tile, shared, _]: &[&'static str; 4]| -> String {
        if wide > 1 {
            return format!("copy({tile}[(_, _, k)], {shared});");
        }
        let column = |column: i64| {
            let part = if count == 1 { "k".to_owned() } else { format!("k * {count} + {column}") };
            let group = if parts == 1 { part } else { format!("({part}) / {parts}") };
            let to = if count == 1 { String::new() } else { format!("[(_, {column})]") };
            format!("copy({tile}[(_, 0, {group})], {shared}{to});")
        };
        (0..count).map(column).collect()
    };
    of_groups(page.c).iter().map(one).collect()
}

/// The converted weights.
pub(super) fn converted(page: &Page) -> String {
    let (c, elem) = (page.c, page.c.dtype);
    let (weights, value) = match c.packed {
        Some(of) => (format!("unpack_int4::<{}, {elem}>(sb)", of.name()), "w".to_owned()),
        None => ("sb".to_owned(), format!("w as {elem}")),
    };
    let Some(of) = grouped(page) else {
        return if c.packed.is_some() { weights } else { format!("map({weights}, |w| {value})") };
    };
    let (mut tiles, mut names) = (weights, "w".to_owned());
    for [.., shared, name] in of_groups(c) {
        tiles += &match of.count() {
            1 => format!(", {shared}.along(0)"),
            _ => format!(", regroup(broadcast({shared}, (_, {}, _)), (BN, BK))", of.each),
        };
        names += &format!(", {name}");
    }
    let value = if c.zeros { format!("({value} - z)") } else { value };
    format!("map(({tiles}), |{names}| {value} * s)")
}
