//! Products of `matmul_kernel!` on tensor cores, and of f32 in tiles that a launch chooses: every variant compiles on the architectures of its
//! instruction, and there are no spills.

use tilewright_tests::{gallery, sweep};

use super::{none_is_wrong, nvrtc};

/// The architectures for which products are compiled.
const ARCHITECTURES: [(&str, u32); 4] = [("sm_80", 80), ("sm_89", 89), ("sm_90a", 90), ("sm_120a", 120)];

/// Keys of products.
const PRODUCTS: &[&str] = &[
    "dtype=tf32 arch=80",
    "dtype=tf32 a=k_major b=k_major c=n_major",
    "dtype=e4m3 arch=89 a=k_major b=k_major",
    "dtype=e5m2 arch=89 a=k_major b=k_major out=bf16 c=n_major",
    "dtype=e4m3 arch=89 a=k_major b=k_major acc=f16",
    "precision=tf32 arch=80",
    "precision=f32x3 arch=80",
    "precision=f32x3 arch=80 a=k_major b=k_major c=n_major",
    "dtype=bf16 arch=80 alpha_beta=true bias=columns epilogue=gelu",
    "dtype=f16 arch=80 bias=rows epilogue=silu c=n_major",
    "dtype=bf16 arch=80 b_dtype=i8 a=k_major b=k_major c=n_major",
    "dtype=bf16 b_dtype=i8 a=k_major b=k_major c=n_major arch=90 mma=mma_sync",
    "dtype=f16 arch=80 b_dtype=i4 a=k_major b=k_major c=n_major",
    "dtype=f16 arch=80 b_dtype=e4m3 a=k_major b=k_major",
    "dtype=bf16 arch=80 b_dtype=u4 group_size=128 zeros=true a=k_major b=k_major c=n_major",
    "dtype=f16 b_dtype=u8 group_size=32 zeros=true a=k_major b=k_major arch=90 mma=mma_sync bm=64 bn=64 bk=48",
    "dtype=f16 b_dtype=u8 group_size=64 zeros=true a=k_major b=k_major arch=90 mma=mma_sync bm=64 bn=64 bk=96",
    // For all architectures: the newest, and those that the oldest with an instruction has.
    "dtype=e4m3 out=bf16",
    // On CUDA cores, in all tiles among which a launch chooses.
    "arch=90",
    "arch=90 a=k_major b=k_major c=n_major alpha_beta=true",
];

#[test]
fn products_in_tiles_that_launches_choose() {
    let Some(nvrtc) = nvrtc() else { return };
    none_is_wrong(PRODUCTS, |keys| {
        let outcome = gallery::matmul(keys);
        let Some(kernel) = outcome.kernel else { return vec![format!("{keys}: {:?}", outcome.diagnostics)] };
        let mut wrong = Vec::new();
        for (at, variant) in sweep::share(kernel.variants.iter().enumerate(), 3) {
            let (made, exact) = (variant.program.arch, variant.program.arch_specific);
            let claimed = ARCHITECTURES.iter().filter(|row| row.1 == made || row.1 > made && !exact);
            // Of variants for odd sizes, the oldest architecture.
            for (arch, _) in claimed.take(if at == 0 { ARCHITECTURES.len() } else { 1 }) {
                let mut complain =
                    |what: String| wrong.push(format!("{keys}, variant {}, {arch}: {what}", at + 1));
                match nvrtc.compile(&variant.source, &kernel.name, arch, &[]) {
                    Ok(compiled) => {
                        compiled.notes.iter().for_each(|note| complain(note.clone()));
                        if !compiled.usage.iter().all(|usage| usage.is_clean()) {
                            complain(format!("not everything stays in registers: {:?}", compiled.usage));
                        }
                    }
                    Err(error) => complain(error.to_string()),
                }
            }
        }
        wrong
    });
}
