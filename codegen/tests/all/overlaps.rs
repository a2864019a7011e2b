//! Programmatic dependent launch: the kernel is the ordinary one, after a wait.

use tilewright_codegen::build::Builder;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_codegen::{Elem, Generated, generate};
use tilewright_layout::{Value, layout};

const CALL: &str = "    await_previous_kernel();\n\n";
const HEADER: &str = "// launch  programmatic dependent launch\n";

fn product(keys: &str) -> Generated {
    Words::read(keys).unwrap().matmul().unwrap_or_else(|wrong| panic!("{keys}: {wrong}"))
}

/// The kernel function alone, without its helpers.
fn function(source: &str) -> &str {
    &source[source.find("extern \"C\"").unwrap()..]
}

#[track_caller]
fn check(early: &Generated, ordinary: &Generated) {
    assert_eq!(early.variants.len(), ordinary.variants.len());
    for (early, ordinary) in early.variants.iter().zip(&ordinary.variants) {
        assert!(early.program.launch.overlaps && !ordinary.program.launch.overlaps);
        let (source, plain) = (&early.source, &ordinary.source);
        assert!(source.contains(HEADER) && !plain.contains(HEADER), "{source}");
        assert!(source.contains("void await_previous_kernel() {\n#if __CUDA_ARCH__ >= 900\n"), "{source}");
        assert!(!plain.contains("previous_kernel"), "{plain}");
        // Inputs may be written while the kernel runs, so `__restrict__` is omitted.
        assert!(!source.contains("__restrict__"), "{source}");
        let words = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let without = |text: &str, what: &str| words(&function(text).replace(what, ""));
        assert_eq!(without(source, CALL), without(plain, "__restrict__ "));
        // Only declarations and special registers come before the wait.
        let (before, _) = function(source).split_once(CALL).unwrap();
        for line in before.split_once("{\n").unwrap().1.lines().map(str::trim) {
            let declares = ["__shared__", "alignas", "const int", "constexpr int"]
                .iter()
                .any(|start| line.starts_with(start));
            let part = line.contains("* const ") && line.contains("*)");
            assert!(line.is_empty() || declares || part, "before the wait: {line}");
        }
    }
}

#[test]
fn products() {
    for keys in [
        "bm=128",
        "stages=3 bk=16 schedule=(vec=4)",
        "bm=64 bn=64 bk=64 stages=4 schedule=(vec=4)",
        "bm=128 batched=true alpha_beta=true",
    ] {
        check(&product(&format!("{keys} overlaps=true")), &product(keys));
        check(&product(&format!("{keys} overlaps=true")), &product(&format!("{keys} overlaps=false")));
    }
}

#[test]
fn built() {
    let copies = |overlaps: bool| {
        let mut b = Builder::new("copies");
        let (m, n) = (Value::symbol("M"), Value::symbol("N"));
        let x = b.tensor("x", Elem::F32, (m, n), None, false).unwrap();
        // This argument would have the name of the wait function.
        let y = b
            .tensor(if overlaps { "await_previous_kernel" } else { "y" }, Elem::F32, (m, n), None, true)
            .unwrap();
        if overlaps {
            b.program_mut().overlaps = true;
        }
        let at = [0, 1].map(|axis| tilewright_codegen::affine::Coord::Block(axis).into());
        let at = at.map(tilewright_codegen::view::At::Index);
        let (x, y) = (b.tile(&x, (32, 4), &at).unwrap(), b.tile(&y, (32, 4), &at).unwrap());
        let threads = layout!((32, 4));
        let (x, y) = (b.parallelize(&x, &threads).unwrap(), b.parallelize(&y, &threads).unwrap());
        b.copy(&x, &y).unwrap();
        generate(b.finish()).kernel.unwrap()
    };
    let source = copies(true).source().to_owned();
    assert!(source.contains("float* await_previous_kernel_") && source.contains(CALL), "{source}");
    assert!(!copies(false).source().contains(HEADER));
}

#[test]
fn mistakes() {
    let message = Words::read("overlaps=1").unwrap().matmul().unwrap_err().to_string();
    assert!(
        message.contains("`overlaps` is true or false") && message.contains("write overlaps = true"),
        "{message}"
    );
}
