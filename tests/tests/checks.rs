//! The shipped kernels pass the checks: no finding, and nothing undecided that could be decided at compile
//! time.

use tilewright_codegen::generate;
use tilewright_tests::{gallery, programs};

#[track_caller]
fn clean(name: &str, outcome: tilewright_codegen::Outcome, undecided: &[&str]) {
    let said: Vec<String> = outcome.diagnostics.iter().map(|said| said.text()).collect();
    assert_eq!(said, [""; 0], "{name}");
    let Some(kernel) = outcome.kernel else { panic!("{name} has no kernel") };
    assert_eq!(kernel.report.undecided, undecided, "{name}");
    for access in &kernel.report.accesses {
        assert!(access.wavefronts.is_some() || access.sectors.is_some(), "{name}: {access:?}");
    }
}

#[test]
fn matrix_products() {
    // More elements than a macro may enumerate; the simulator checks it.
    let large =
        ["`parts`: it has too many elements to look at while compiling; its order is left to the simulator"];
    // Slots of a ring shared by roles, and the buffers of bulk stores.
    let ring = [
        "`left`: groups of threads share it; its order is left to the simulator",
        "`right`: groups of threads share it; its order is left to the simulator",
        "`leaving`: groups of threads share it; its order is left to the simulator",
    ];
    // Matrices read by warp-wide instructions.
    let by_warps = [
        "`sb`: this statement shares it; its order is left to the simulator",
        "`sa`: this statement shares it; its order is left to the simulator",
        // The epilogue's buffers.
        "`sc`: this statement shares it; its order is left to the simulator",
    ];
    for keys in gallery::MATMULS {
        let undecided = match keys {
            keys if keys.contains("name=deep") => &large[..],
            keys if keys.contains("name=tensor") => &ring[..],
            keys if keys.contains("dtype=")
                && !keys.contains("tc=")
                && !keys.contains("vec=")
                && !keys.contains("i32")
                && !keys.contains("i8") =>
            {
                &by_warps[..if keys.contains("bf16") { 3 } else { 2 }]
            }
            _ => &[],
        };
        clean(keys, gallery::matmul(keys), undecided);
    }
}

#[test]
fn every_layout_of_the_operands() {
    for a in ["m_major", "k_major"] {
        for b in ["n_major", "k_major"] {
            for c in ["m_major", "n_major"] {
                for rest in [
                    "",
                    "bk=16 vec=4",
                    "stages=3 bk=16",
                    "dtype=f64 bm=64 bn=64 mma=none",
                    "dtype=f16 bk=16 vec=8",
                ] {
                    let keys = format!("a={a} b={b} c={c} {rest}");
                    clean(&keys, gallery::matmul(&keys), &[]);
                }
            }
        }
    }
}

#[test]
fn programs_of_the_builder() {
    clean("mma_sync", generate(programs::mma_sync().unwrap()), &[]);
    let by_groups = ["sa", "sb"]
        .map(|name| format!("`{name}`: groups of threads share it; its order is left to the simulator"));
    let by_groups = by_groups.each_ref().map(|text| text.as_str());
    clean("wgmma_ring", generate(programs::wgmma_ring().unwrap()), &by_groups);
}
