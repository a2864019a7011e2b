//! A kernel as JSON.

use serde_json::{Value, json};
use tilewright_codegen::definition::{Generated, Param, Variant};
use tilewright_codegen::report::{Access, Report};

use crate::kernel::{Chosen, Part};

/// Everything that `inspect` knows without a compiler.
pub(super) fn kernel(chosen: &Chosen, parts: &[Part]) -> Value {
    let generated = &chosen.generated;
    json!({
        "kernel": chosen.name,
        "entry": generated.name,
        "parameters": generated.params.iter().map(param).collect::<Vec<_>>(),
        "layouts": parts.iter().map(part).collect::<Vec<_>>(),
        "variants": (0..generated.variants.len()).map(|at| variant(generated, at)).collect::<Vec<_>>(),
    })
}

fn param(param: &Param) -> Value {
    let tensor = param.tensor.map(|(written, modes)| json!({ "written": written, "modes": modes }));
    json!({ "name": param.name, "element": param.elem.name(), "tensor": tensor })
}

pub(crate) fn part(part: &Part) -> Value {
    json!({ "name": part.name, "what": part.what, "layout": part.layout })
}

fn variant(generated: &Generated, at: usize) -> Value {
    let Variant { label, source, program, .. } = &generated.variants[at];
    let axis = |factors: &Vec<tilewright_layout::Value>| match factors.as_slice() {
        [] => "1".to_owned(),
        factors => factors.iter().map(ToString::to_string).collect::<Vec<_>>().join("*"),
    };
    json!({
        "alternative": label,
        "architecture": program.arch,
        "architecture_specific": program.arch_specific,
        "threads": program.launch.threads,
        "shared_bytes": program.launch.shared_bytes,
        "grid": program.launch.grid.iter().map(axis).collect::<Vec<_>>(),
        "cluster": program.launch.cluster,
        "overlaps": program.launch.overlaps,
        "loops": tilewright_codegen::explain::nest(program),
        "report": report(&tilewright_codegen::report_of(generated, at)),
        "source": source,
    })
}

pub(crate) fn report(report: &Report) -> Value {
    let compiled = report
        .compiled
        .iter()
        .map(|c| json!({ "architecture": c.arch, "registers": c.registers, "spilled_bytes": c.spilled,
                "inner_loop": c.inner.map(|inner| json!({ "instructions": inner.instructions, "multiply_adds": inner.multiply_adds })) }));
    json!({
        "alternatives": report.alternatives,
        "left_out": report.left_out,
        "threads": report.threads,
        "shared_bytes": report.shared_bytes,
        "operations_per_byte": report.intensity,
        "needs": report.needs,
        "packs": report.packs,
        "undecided": report.undecided,
        "accesses": report.accesses.iter().map(access).collect::<Vec<_>>(),
        "compiled": compiled.collect::<Vec<_>>(),
    })
}

pub(crate) fn access(access: &Access) -> Value {
    let pair =
        |cost: Option<(u32, u32)>| cost.map(|(takes, least)| json!({ "takes": takes, "least": least }));
    json!({
        "access": access.what,
        "tensor": access.tensor,
        "memory": access.space,
        "bytes": access.width,
        "wavefronts": pair(access.wavefronts),
        "sectors": pair(access.sectors),
        "note": access.note,
    })
}
