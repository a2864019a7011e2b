//! The shipped kernels pass the checks: no finding, and no undecided check that could be decided at compile
//! time.

use tilewright::kernels;
use tilewright_codegen::words::Words;
use tilewright_codegen::{Definition, Generate, generate};
use tilewright_tests::{gallery, programs, views};

#[track_caller]
fn clean(name: &str, outcome: tilewright_codegen::Outcome) {
    let messages: Vec<String> = outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect();
    assert_eq!(messages, [""; 0], "{name}");
    let Some(kernel) = outcome.kernel else { panic!("{name} has no kernel") };
    assert_eq!(kernel.report.undecided, [""; 0], "{name}");
    for access in &kernel.report.accesses {
        assert!(access.wavefronts.is_some() || access.sectors.is_some(), "{name}: {access:?}");
    }
}

#[test]
fn matrix_products() {
    for keys in gallery::MATMULS {
        clean(keys, gallery::matmul(keys));
    }
}

#[test]
fn every_layout_of_the_operands() {
    for a in ["m_major", "k_major"] {
        for b in ["n_major", "k_major"] {
            for c in ["m_major", "n_major"] {
                for rest in [
                    "",
                    "bm=128 bn=128",
                    "bk=16 schedule=(vec=4)",
                    "stages=3 bk=16",
                    "dtype=f64 bm=64 bn=64 mma=none",
                    "dtype=f16 bk=16 schedule=(vec=8) mma=none",
                ] {
                    let keys = format!("a={a} b={b} c={c} {rest}");
                    clean(&keys, gallery::matmul(&keys));
                }
            }
        }
    }
}

#[test]
fn programs_of_the_builder() {
    clean("mma_sync", generate(programs::mma_sync().unwrap()));
    clean("wgmma_ring", generate(programs::wgmma_ring().unwrap()));
}

#[test]
fn what_a_macro_checks_is_what_is_made() {
    let shipped = kernels::all().into_iter().map(|shipped| shipped.def.definition().expect("a definition"));
    let product = |keys: &&str| Definition::Matmul(Words::read(keys).expect("keys").args().to_vec());
    for definition in shipped.chain(gallery::MATMULS.iter().map(product)) {
        let (checked, made) = (definition.check(), definition.generate());
        assert_eq!(checked.diagnostics, made.diagnostics);
        let (checked, made) = (checked.kernel.expect("a kernel"), made.kernel.expect("a kernel"));
        let shown =
            |kernel: &tilewright_codegen::Generated| (kernel.source().to_owned(), kernel.report.to_string());
        assert_eq!(shown(&checked), shown(&made));
        assert_eq!((&checked.name, &checked.params), (&made.name, &made.params));
        assert_eq!(checked.variants.len(), 1, "{}", made.name);
    }
}

/// No guard asks the same twice.
#[test]
fn conditions_are_not_repeated() {
    let own = views::all().into_iter().map(|(name, def)| {
        let kernel = def.generate().unwrap_or_else(|error| panic!("{name}: {error:?}"));
        (name.to_owned(), kernel)
    });
    let mut wrong = Vec::new();
    for (name, kernel) in own.collect::<Vec<_>>().iter().chain(gallery::all()) {
        for line in kernel.variants.iter().flat_map(|variant| variant.source.lines()) {
            let parts: Vec<&str> =
                line.split(" && ").map(|part| part.trim_matches(['(', ')', ' '])).collect();
            let repeats = (1..parts.len()).any(|at| parts[..at].contains(&parts[at]));
            wrong.extend(repeats.then(|| format!("{name}: {}", line.trim())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
