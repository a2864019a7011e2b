//! Kernels of whole tiles beside the built-in ones of the same tiles.

use tilewright_codegen::Definition;
use tilewright_codegen::Generate;
use tilewright_codegen::words::Words;

#[allow(dead_code)]
#[path = "../../../examples/linear.rs"]
mod linear;

/// Bias and activation are computed in the registers of the sums, which leave through shared memory.
#[test]
fn linear_takes_no_more_registers_than_the_built_in_product() {
    let Some(nvrtc) = super::nvrtc() else { return };
    // Built for sm_80, the built-in kernel has the same copies; later ones have bulk copies.
    for (arch, bk, stages) in [("sm_80", 32, 4), ("sm_90a", 64, 3)] {
        let keys = format!(
            "name=product dtype=bf16 mma=mma_m16n8k16_bf16 a=k_major b=k_major c=n_major bm=128 bn=256 bk={bk} warps=8 stages={stages} arch=80"
        );
        let words = Words::read(&keys).unwrap();
        let built_in = Definition::Matmul(words.args().to_vec()).generate().kernel.expect("a kernel");
        let own = linear::linear().specialize(&[("BK", bk)]).unwrap().def().generate().unwrap();
        let usage = |source: &str, name: &str| {
            let compiled = nvrtc.compile(source, name, arch, &[]).unwrap();
            compiled.usage[0].clone()
        };
        let (theirs, ours) = (usage(built_in.source(), "product"), usage(own.source(), "linear"));
        assert!(ours.is_clean(), "{arch}: {ours:?}");
        assert!(ours.registers <= theirs.registers, "{arch}: {ours:?} {theirs:?}");
    }
}
