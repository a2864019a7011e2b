//! Kernels with data-dependent integers, compiled by NVRTC: every variant compiles without spills.

use tilewright_tests::{
    arithmetic, between, breaks, contended, functions, gathers, integers, lanes, lists, masks, pairs, ptx,
    types, views,
};

use super::{none_is_wrong, nvrtc};

#[test]
fn kernels_with_integers_compile() {
    let Some(nvrtc) = nvrtc() else { return };
    let all: Vec<_> = integers::all()
        .into_iter()
        .chain(views::all())
        .chain(gathers::all())
        .chain(arithmetic::all())
        .chain(between::all())
        .chain(types::all())
        .chain(lanes::all())
        .chain(pairs::all())
        .chain(lists::all())
        .chain(masks::all())
        .chain(breaks::all())
        .chain(ptx::all())
        .chain([
            ("fast_functions", functions::fast_functions().def().clone()),
            ("fast_functions_bf16", functions::fast_functions!(T = bf16).def().clone()),
        ])
        .chain(contended::all())
        .collect();
    none_is_wrong(&all, |(name, def)| {
        let kernel = def.generate().unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let one = |source: &str| match nvrtc.compile(source, &kernel.name, "sm_90a", &[]) {
            Err(why) => Some(format!("{name}: {why}\n{source}")),
            Ok(compiled) if compiled.usage.iter().all(|usage| usage.is_clean()) => None,
            Ok(compiled) => Some(format!("{name}: {:?}\n{source}", compiled.usage)),
        };
        kernel.variants.iter().filter_map(|variant| one(&variant.source)).collect()
    });
}
