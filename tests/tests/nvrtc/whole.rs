//! Kernels of whole tiles beside the built-in ones of the same tiles.

use tilewright_codegen::Definition;
use tilewright_codegen::words::Words;

#[allow(dead_code)]
#[path = "../../../examples/linear.rs"]
mod linear;

/// Bias and activation are computed in the registers of the sums, which leave through shared memory.
#[test]
fn linear_takes_no_more_registers_than_the_built_in_product() {
    let Some(nvrtc) = super::nvrtc() else { return };
    for (arch, bk) in [("sm_80", 32), ("sm_90a", 64)] {
        let keys = format!(
            "name=product dtype=bf16 mma=mma_m16n8k16_bf16 a=k_major b=k_major c=n_major bm=128 bn=256 bk={bk} warps=8 stages=4 arch={}",
            if arch == "sm_80" { 80 } else { 90 }
        );
        let words = Words::read(&keys).unwrap();
        let built_in = Definition::Matmul(words.args().to_vec()).generate().kernel.expect("a kernel");
        let own = linear::linear().specialize(&[("BK", bk)]).unwrap().def().generate().unwrap();
        let usage = |source: &str, name: &str| {
            let compiled = nvrtc.compile(source, name, arch, &[]).unwrap();
            compiled.usage[0].clone()
        };
        // The built-in variant with the same copies; bulk copies come first.
        let same =
            built_in.variants.iter().find(|variant| !variant.program.arch_specific).expect("a variant");
        let (theirs, ours) = (usage(&same.source, "product"), usage(own.source(), "linear"));
        assert!(ours.is_clean(), "{arch}: {ours:?}");
        assert!(ours.registers <= theirs.registers, "{arch}: {ours:?} {theirs:?}");
    }
}
