//! The result of an expression as JSON: its parts, its picture, the steps to it, and what a warp's accesses cost.

use serde_json::{Value, json};
use tilewright_layout::{Composed, Transfer, WarpAccess};

use super::expression;
use super::item::Item;
use super::{explain, operations, picture};
use crate::data;

/// Lanes of a warp.
const LANES: i64 = 32;

/// The value of an expression, or its error. Elements have this number of bytes.
pub(crate) fn answer(text: &str, bytes: i64) -> Value {
    let mut steps = Vec::new();
    let item = expression::evaluate(text, &mut steps);
    let explanation = explain::steps(&steps);
    let item = match item {
        Ok(item) => item,
        Err(why) => {
            return json!({ "expression": text, "error": why.to_string(), "explanation": explanation });
        }
    };
    let layout = match &item {
        Item::Layout(layout) | Item::Part { layout, .. } => Some(layout.clone()),
        Item::Copy(copy) => Some(copy.tv().into()),
        _ => None,
    };
    let drawn = picture(&item).map_err(|why| why.to_string());
    json!({
        "expression": text,
        "text": item.to_string(),
        "kind": item.noun(),
        "layout": layout.as_ref().map(parts),
        "picture": data::picture(drawn.as_ref().map_err(String::clone)),
        "threads": matches!(item, Item::Copy(_)),
        "explanation": explanation,
        "warps": match &item {
            Item::Layout(layout) => warps(layout, bytes),
            _ => Vec::new(),
        },
    })
}

fn parts(layout: &Composed) -> Value {
    let plain = layout.layout();
    let swizzle = (!layout.swizzle().is_identity()).then(|| layout.swizzle().to_string());
    json!({
        "shape": plain.shape().to_string(),
        "stride": plain.stride().to_string(),
        "swizzle": swizzle,
        "offset": layout.offset(),
        "size": plain.size().ok(),
        "cosize": plain.cosize().ok(),
    })
}

/// A warp that accesses an element for each lane: in the order of coordinates, and along each further mode.
fn warps(layout: &Composed, bytes: i64) -> Vec<Value> {
    let mut warps = Vec::new();
    let mut before = 1;
    for (mode, of) in layout.layout().modes().enumerate() {
        let Ok(extent) = of.size() else { return warps };
        let (step, lanes) =
            if mode == 0 { (1, layout.layout().size().unwrap_or(0)) } else { (before, extent) };
        before *= extent;
        if mode > 0 && extent == 1 {
            continue;
        }
        let address = |lane: i64| layout.eval(lane * step)?.checked_mul(bytes);
        let addresses: Option<Vec<Option<i64>>> =
            (0..lanes.min(LANES)).map(|lane| address(lane).map(Some)).collect();
        let access = addresses.and_then(|all| WarpAccess::from_addresses(&all, bytes, Transfer::Load).ok());
        let Some(access) = access else { return warps };
        let along = match mode {
            0 => "lanes in the order of coordinates".to_owned(),
            mode => format!("lanes along mode {mode}"),
        };
        warps.push(json!({ "along": along, "warp": data::warp(&access) }));
    }
    warps
}

/// The operations, by theme.
pub(crate) fn operations() -> Value {
    let themes = operations::themes();
    let theme = |(name, all): (&str, Vec<[String; 3]>)| json!({ "theme": name, "operations": all });
    themes.map(theme).collect()
}
