//! The simulator's counts, launch by launch, for comparison with the hardware's counters:
//! `bench/gpu/counters.py` runs the same launches under a profiler.

use serde_json::{Value, json};

use super::once::{self, Named};
use super::{Result, message};

/// A launch: its purpose, the kernel's name or keys, and its sizes.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) kernel: &'static str,
    /// As `--size` takes them.
    pub(crate) sizes: &'static str,
}

const fn case(name: &'static str, kernel: &'static str, sizes: &'static str) -> Case {
    Case { name, kernel, sizes }
}

/// Small grids: every count is exact, and the simulator is quick.
pub(crate) const CASES: &[Case] = &[
    case("padded by one column", "tutorial", "M=256,N=128,K=32"),
    case("guarded edges", "tutorial", "M=100,N=77,K=33"),
    case("scattered", "naive", "M=64,N=64,K=32"),
    case("coalesced", "coalesced", "M=64,N=64,K=32"),
    case("tile in shared memory", "shared_tile", "M=64,N=64,K=64"),
    case("columns of results", "block_tile_1d", "M=128,N=64,K=32"),
    case("unpadded rows", "a=k_major b=k_major schedule=(pad=0)", "M=128,N=128,K=32"),
    case("padded rows", "bm=128 bn=128 bk=8 tc=(16,16) a=k_major b=k_major", "M=128,N=128,K=32"),
    case(
        "row-major tiles",
        "bk=32 a=k_major b=k_major schedule=(sa=(128,32):(32,1) sb=(128,32):(32,1))",
        "M=128,N=128,K=64",
    ),
    case(
        "swizzled tiles",
        "bk=32 a=k_major b=k_major schedule=(sa=swizzled(5,0,5,(128,32):(32,1)) sb=swizzled(5,0,5,(128,32):(32,1)))",
        "M=128,N=128,K=64",
    ),
    case("vectors", "bk=16 schedule=(vec=4)", "M=128,N=128,K=64"),
    case("vectors, edges", "bk=16 schedule=(vec=4)", "M=132,N=100,K=40"),
    case("three stages", "stages=3 bk=16 schedule=(vec=4)", "M=128,N=128,K=64"),
    case("vectors in shared memory", "schedule=(values=(4,4) vec=4) stages=3 bk=16", "M=128,N=128,K=64"),
    case("rows of C", "a=k_major b=n_major c=n_major schedule=(vec=4) bk=16", "M=128,N=128,K=64"),
    case("double precision", "dtype=f64 bm=64 bn=64", "M=64,N=64,K=32"),
    case("two bytes", "dtype=bf16 bm=64 bn=64", "M=64,N=64,K=32"),
    case("one byte", "dtype=i8 bm=64 bn=64", "M=64,N=64,K=32"),
    case("reductions", "softmax", "M=8,N=2000"),
];

impl Case {
    pub(crate) fn kernel(&self) -> Result<Named> {
        let named = once::kernels(&[self.kernel])?;
        named.into_iter().next().ok_or_else(|| format!("there is no kernel `{}`", self.kernel))
    }

    /// Sizes by name.
    pub(crate) fn sizes(&self) -> Vec<(&'static str, i64)> {
        let size = |text: &'static str| {
            text.split_once('=').and_then(|(name, size)| Some((name, size.parse().ok()?)))
        };
        self.sizes.split(',').filter_map(size).collect()
    }
}

/// The simulator's counts for every case.
pub(crate) fn simulated() -> Result<Value> {
    CASES.iter().map(simulate).collect::<Result<Vec<Value>>>().map(Value::from)
}

fn simulate(case: &Case) -> Result<Value> {
    let Named { kernel, .. } = case.kernel()?;
    let counted = tilewright_cli::counted(&kernel, case.sizes)
        .map_err(|why| format!("{}, {}: {}", case.name, case.kernel, message(why)))?;
    Ok(json!({
        "name": case.name,
        "kernel": case.kernel,
        "sizes": case.sizes,
        "variant": counted["variant"],
        "accesses": counted["accesses"],
    }))
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
