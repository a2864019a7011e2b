//! Kernels on whole tiles, without any thread layout, compared with their text.

mod accumulators;
mod between;
mod bulk_stores;
mod elements;
mod linear;
mod nested;
mod operands;
mod reductions;
mod short;
mod split;
mod staged;

/// Drawn inputs, and two schedules.
fn inputs(def: &tilewright::KernelDef) -> tilewright_tests::inputs::Inputs {
    tilewright_tests::inputs::inputs(def).schedules(2)
}

fn options() -> tilewright_sim::Options {
    tilewright_sim::Options { schedules: 2, ..Default::default() }
}
