//! The simulator's counts, launch by launch, for comparison with the hardware's counters:
//! `bench/gpu/counters.py` runs the same launches under a profiler.

use serde_json::{Value, json};
use tilewright_codegen::Elem;
use tilewright_codegen::element::{Element, bf16, f16};
use tilewright_sim::{AccessCount, Arg, Options};

use super::Result;
use super::once::{self, Named, Sizes};

/// A launch: its purpose, the kernel's name or keys, and its sizes.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) kernel: &'static str,
    pub(crate) sizes: [i64; 3],
}

const fn case(name: &'static str, kernel: &'static str, sizes: [i64; 3]) -> Case {
    Case { name, kernel, sizes }
}

/// Small grids: every count is exact, and the simulator is quick.
pub(crate) const CASES: &[Case] = &[
    case("padded by one column", "tutorial", [256, 128, 32]),
    case("guarded edges", "tutorial", [100, 77, 33]),
    case("scattered", "naive", [64, 64, 32]),
    case("coalesced", "coalesced", [64, 64, 32]),
    case("tile in shared memory", "shared_tile", [64, 64, 64]),
    case("columns of results", "block_tile_1d", [128, 64, 32]),
    case("unpadded rows", "a=k_major b=k_major schedule=(pad=0)", [128, 128, 32]),
    case("padded rows", "bm=128 bn=128 bk=8 tc=(16,16) a=k_major b=k_major", [128, 128, 32]),
    case(
        "row-major tiles",
        "bk=32 a=k_major b=k_major schedule=(sa=(128,32):(32,1) sb=(128,32):(32,1))",
        [128, 128, 64],
    ),
    case(
        "swizzled tiles",
        "bk=32 a=k_major b=k_major schedule=(sa=swizzled(5,0,5,(128,32):(32,1)) sb=swizzled(5,0,5,(128,32):(32,1)))",
        [128, 128, 64],
    ),
    case("vectors", "bk=16 schedule=(vec=4)", [128, 128, 64]),
    case("vectors, edges", "bk=16 schedule=(vec=4)", [132, 100, 40]),
    case("three stages", "stages=3 bk=16 schedule=(vec=4)", [128, 128, 64]),
    case("vectors in shared memory", "schedule=(values=(4,4) vec=4) stages=3 bk=16", [128, 128, 64]),
    case("rows of C", "a=k_major b=n_major c=n_major schedule=(vec=4) bk=16", [128, 128, 64]),
    case("double precision", "dtype=f64 bm=64 bn=64", [64, 64, 32]),
    case("two bytes", "dtype=bf16 bm=64 bn=64", [64, 64, 32]),
    case("one byte", "dtype=i8 bm=64 bn=64", [64, 64, 32]),
    case("reductions", "softmax", [8, 2000, 1]),
];

impl Case {
    pub(crate) fn kernel(&self) -> Result<Named> {
        let named = once::kernels(&[self.kernel])?;
        named.into_iter().next().ok_or_else(|| format!("there is no kernel `{}`", self.kernel))
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let [m, n, k] = self.sizes;
        Sizes::new(m, n, k)
    }
}

/// The simulator's counts for every case.
pub(crate) fn simulated() -> Result<Value> {
    CASES.iter().map(simulate).collect::<Result<Vec<Value>>>().map(Value::from)
}

fn simulate(case: &Case) -> Result<Value> {
    let Named { kernel, .. } = case.kernel()?;
    let blame = |why: String| format!("{}, {}: {why}", case.name, case.kernel);
    let reads_output = kernel.params.iter().any(|param| param.tensor.is_none());
    let mut args = Vec::new();
    for (argument, param) in kernel.params.iter().zip(&kernel.variants[0].program.params) {
        let shape = once::shape(&kernel, param, &case.sizes()).map_err(blame)?;
        let written = argument.tensor.is_some_and(|(written, _)| written);
        args.push(match (argument.elem, shape) {
            (Elem::F64, shape) => arg(1f64, shape, written, reads_output),
            (Elem::F16, shape) => arg(f16::from_f32(1.0), shape, written, reads_output),
            (Elem::Bf16, shape) => arg(bf16::from_f32(1.0), shape, written, reads_output),
            (Elem::I32, shape) => arg(1i32, shape, written, reads_output),
            (Elem::I8, shape) => arg(1i8, shape, written, reads_output),
            (_, shape) => arg(1f32, shape, written, reads_output),
        });
    }
    let done =
        tilewright_sim::run(&kernel, &args, &Options::default()).map_err(|why| blame(why.to_string()))?;
    let access = |access: &AccessCount| {
        json!({
            "what": access.what,
            "tensor": access.tensor,
            "memory": access.memory,
            "width": access.width,
            "executed": access.executed,
            "wavefronts": access.wavefronts,
            "least_wavefronts": access.least_wavefronts,
            "sectors": access.sectors,
            "least_sectors": access.least_sectors,
        })
    };
    Ok(json!({
        "name": case.name,
        "kernel": case.kernel,
        "sizes": case.sizes,
        "variant": done.variant() + 1,
        "accesses": done.accesses().iter().map(access).collect::<Vec<_>>(),
    }))
}

fn arg<T: Element>(one: T, shape: Option<(Vec<i64>, Vec<i64>)>, written: bool, read: bool) -> Arg {
    let Some((extents, strides)) = shape else { return Arg::number(one) };
    let sizes = |all: &[i64]| all.iter().map(|&n| n as usize).collect::<Vec<usize>>();
    let values = vec![one; once::length(&extents, &strides) as usize];
    let arg = match (written, read) {
        (false, _) => Arg::tensor(&values, sizes(&extents)),
        (true, true) => Arg::in_out(&values, sizes(&extents)),
        (true, false) => Arg::output::<T>(sizes(&extents)),
    };
    arg.strides(sizes(&strides))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_show_what_they_say() {
        let all = simulated().unwrap();
        let of = |name: &str| all.as_array().unwrap().iter().find(|case| case["name"] == name).unwrap();
        let lost = |name: &str| -> u64 {
            let accesses = of(name)["accesses"].as_array().unwrap();
            let number = |access: &Value, key: &str| access[key].as_u64().unwrap();
            accesses.iter().map(|one| number(one, "wavefronts") - number(one, "least_wavefronts")).sum()
        };
        for (name, conflicts) in [("unpadded rows", true), ("padded rows", false), ("row-major tiles", true)]
        {
            assert_eq!(lost(name) > 0, conflicts, "{name}: {}", lost(name));
        }
        assert!(lost("swizzled tiles") < lost("row-major tiles"));
        assert_eq!(all.as_array().unwrap().len(), CASES.len());
    }
}
