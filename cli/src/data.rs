//! Pictures, and accesses of a warp, as JSON.

use serde_json::{Value, json};
use tilewright_layout::WarpAccess;
use tilewright_layout::draw::Picture;

/// Global tensors are assumed to begin where allocations do.
const BASE_ALIGNMENT: i64 = 256;

/// Where a picture is expected: the picture, or why there is none.
pub(crate) fn picture(of: Result<&Picture, String>) -> Value {
    let picture = match of {
        Ok(picture) => picture,
        Err(why) => return json!({ "undrawn": why }),
    };
    json!({
        "title": picture.title(),
        "rows": picture.rows().collect::<Vec<_>>(),
        "columns": picture.columns().collect::<Vec<_>>(),
        "cells": picture.cells().collect::<Vec<_>>(),
    })
}

/// The byte addresses of a warp's lanes, and what the access costs in shared and in global memory.
pub(crate) fn warp(access: &WarpAccess) -> Value {
    let addresses: Vec<Option<i64>> = (0..32).map(|lane| access.address(lane)).collect();
    let banks = access.banks().map_or(Value::Null, |report| {
        json!({
            "takes": report.wavefronts,
            "least": report.ideal,
            "degree": report.degree,
            "lanes": report.worst.map(|worst| worst.lanes().collect::<Vec<_>>()),
            "text": report.to_string(),
        })
    });
    let sectors = access.sectors(BASE_ALIGNMENT).map_or(Value::Null, |report| {
        json!({ "takes": report.sectors, "least": report.ideal_sectors, "text": report.to_string() })
    });
    json!({
        "addresses": addresses,
        "bytes": access.bytes(),
        "together": access.lanes_together(),
        "banks": banks,
        "sectors": sectors,
    })
}
