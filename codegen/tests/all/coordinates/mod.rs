//! Checks of coordinates through partitions: products that are refused compute something else, and others do not.

mod interpret;
mod mutations;
mod product;

use tilewright_codegen::words::Words;
use tilewright_codegen::{Definition, Generate};

#[test]
fn families_pass() {
    for keys in [
        "bm=32 bn=32 bk=8 tc=(8,8,2) schedule=(ta=(32,4) tb=(32,4))",
        "bm=64 bn=32 bk=16 tc=swizzled(2,0,-3,(8,4,4):(1,8,32)) schedule=(values=(4,4) vec=4)",
        "bm=64 bn=64 bk=16 tc=(8,8) schedule=(values=(4,4) vec=4 fragments=2) a=k_major c=n_major stages=3",
        "batched=true bm=64 bn=64 bk=16 tc=(8,8) schedule=(vec=4) stages=2 alpha_beta=true",
    ] {
        let words = Words::read(keys).unwrap();
        let outcome = Definition::Matmul(words.args().to_vec()).generate();
        let errors: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
        assert!(outcome.kernel.is_some(), "{keys}: {}", errors.join("\n"));
    }
}
