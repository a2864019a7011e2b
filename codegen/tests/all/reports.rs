//! Reports and lints: accesses that conflict, names as they are printed, questions that are left to the simulator.

use tilewright_codegen::Generate;

use crate::results::{definition, generated, parts, tiles};

/// A tile that is written to shared memory in this layout, and read back by other threads after these statements.
fn transpose(keys: &str, layout: &str, between: &str) -> String {
    format!(
        "#[kernel({keys})]
        fn transpose(go: i32, x: &Tensor<f32, (M, N)>, y: &mut Tensor<f32, (N, M)>) {{
            let (columns, rows) = (layout!((32, 8)), layout!((8, 32) : (32, 1)));
            let s = shared::<f32>({layout});
            let ts = parallelize(s, columns, thread.x);
            copy(parallelize(tile(x, (32, 32), (block.x, block.y)), columns, thread.x), ts);
            cp_async_wait_all();
            let tr = parallelize(s, rows, thread.x);
            {between}
            let y = permute(tile(y, (32, 32), (block.y, block.x)), (1, 0));
            map(tr, parallelize(y, rows, thread.x), |x| x);
        }}"
    )
}

const BARRIER: &str = "sync_threads();";

#[test]
fn bank_conflicts() {
    for (name, layout, conflicts) in [
        ("plain", "layout!((32, 32))", true),
        ("padded", "layout!((32, 32) : (1, 33))", false),
        ("swizzled", "swizzled(5, 0, 5, layout!((32, 32)))", false),
    ] {
        let outcome = definition(&transpose("", layout, BARRIER)).generate();
        let lints: Vec<_> = outcome.diagnostics.iter().filter_map(|diagnostic| diagnostic.lint).collect();
        assert_eq!(lints.contains(&"bank_conflicts"), conflicts, "{name}: {lints:?}");
        insta::assert_snapshot!(name, outcome.kernel.expect("a kernel").report);
    }
}

#[test]
fn lints_have_levels() {
    let with = |keys| definition(&transpose(keys, "layout!((32, 32))", BARRIER)).generate();
    let lint =
        |keys| with(keys).diagnostics.iter().any(|diagnostic| diagnostic.lint == Some("bank_conflicts"));
    assert!(lint("") && !lint("allow(bank_conflicts)"));
    assert!(with("allow(bank_conflicts)").kernel.is_some() && with("deny(bank_conflicts)").kernel.is_none());
}

#[test]
fn products() {
    insta::assert_snapshot!("product", generated(&parts(1, "", &tiles("stages = 1", "k"))).report);
    let kernel = generated(&parts(4, "", &tiles("stages = 3", "k")));
    insta::assert_snapshot!("pipeline", kernel.report);
    let source = kernel.source_with_report();
    assert!(source.starts_with("// threads        16\n") && source.ends_with(kernel.source()), "{source}");
}

/// The report prints arrays of equal names, and names reserved in CUDA C, as the source does.
#[test]
fn names_are_those_of_the_source() {
    let kernel = generated(
        "fn twice(float: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
            let t = layout!(256);
            let s = shared::<f32>(layout!(256));
            let first = parallelize(s, t, thread.x);
            map(parallelize(tile(float, 256, block.x), t, thread.x), first, |x| x);
            let s = shared::<f64>(layout!(256));
            let second = parallelize(s, t, thread.x);
            map(first, second, |x| x as f64);
            map(second, parallelize(tile(y, 256, block.x), t, thread.x), |x| x as f32);
        }",
    );
    insta::assert_snapshot!("names", kernel.report);
    for access in &kernel.report.accesses {
        assert!(kernel.source().contains(&format!("{}[", access.tensor)), "{access:?}\n{}", kernel.source());
    }
}

#[test]
fn questions_are_left_to_the_simulator() {
    let undecided = |text: &str| generated(text).report.undecided.clone();
    let padded = "layout!((32, 32) : (1, 33))";
    assert_eq!(undecided(&transpose("", padded, BARRIER)), [""; 0]);
    let both = format!("if go > 0 {{ {BARRIER} }} else {{ {BARRIER} }}");
    assert_eq!(undecided(&transpose("", padded, &both)), [""; 0]);
    // Two conditions may be mutually exclusive: no race is proven.
    let negated = |part: &str, test: &str| format!("if {test} {{ map({part}, {part}, |x| -x); }}");
    let twice = [BARRIER, &negated("ts", "go > 0"), &negated("tr", "go < 0"), BARRIER].concat();
    assert_eq!(
        undecided(&transpose("", padded, &twice)),
        ["`s`: whether a barrier lies between accesses depends on a condition"]
    );
    assert_eq!(
        undecided(
            "fn wide(x: &mut Tensor<f32, (M, N)>) {
                let t = layout!((32, 8));
                let x = parallelize(tile(x, (256, 256), (block.x, block.y)), t, thread.x);
                let s = shared::<u8>(layout!((256, 256)));
                let part = parallelize(s, t, thread.x);
                map(x, part, |x| x as u8);
                sync_threads();
                map(part, x, |x| x as f32);
            }"
        ),
        ["`s`: it has too many elements to look at while compiling; its order is left to the simulator"]
    );
}
