//! Programs as text: every kernel of the gallery and every choreography is printed, parsed, and unchanged.

use tilewright::kernels;
use tilewright_codegen::definition::Variant;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::thread::{Kernel, Op, Stmt};
use tilewright_codegen::tile::Program;
use tilewright_codegen::wire::decode;
use tilewright_codegen::{Definition, Generate, Generated, Outcome, cuda, generate, text};
use tilewright_tests::{choreography, gallery, programs};

fn sources(outcome: &Outcome) -> Vec<&str> {
    let message =
        || outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect::<Vec<_>>().join("\n");
    let kernel = outcome.kernel.as_ref().unwrap_or_else(|| panic!("{}", message()));
    kernel.variants.iter().map(|variant| variant.source.as_str()).collect()
}

#[test]
fn tile_programs_are_read_back() {
    let shipped = kernels::all().into_iter().filter_map(|shipped| shipped.def.definition());
    let products = gallery::MATMULS.iter().map(|keys| {
        let words = tilewright_codegen::words::Words::read(keys).expect("keys of the gallery");
        Definition::Matmul(words.args().to_vec())
    });
    let defined = shipped.chain(products).map(|definition| definition.program().expect("a program"));
    let built = [programs::wgmma_ring(), programs::mma_sync()].into_iter();
    let built = built.chain(choreography::all().into_iter().map(|of| (of.program)()));
    let built = built.map(|program| program.expect("a program"));
    let mut count = 0;
    for program in defined.chain(built) {
        let text = text::print(&program);
        let again: Program = text::parse(&text).unwrap_or_else(|wrong| panic!("{}: {wrong}", program.name));
        assert_eq!(text::print(&again), text);
        let (first, second) = (generate(program), generate(again));
        assert_eq!(sources(&first), sources(&second));
        count += 1;
    }
    assert!(count > 30, "{count}");
}

#[test]
fn thread_programs_are_read_back() {
    let choreographies = choreography::all().into_iter().map(|of| (of.name.to_owned(), of.kernel()));
    for (name, kernel) in gallery::all().iter().chain(&choreographies.collect::<Vec<_>>()) {
        for variant in &kernel.variants {
            let text = text::print(&variant.program);
            let again: Kernel = text::parse(&text).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!(text::print(&again), text, "{name}");
            assert_eq!(cuda::print(&again), variant.source, "{name}");
        }
    }
}

/// As a program without the generator carries them. Equal programs make equal plans.
#[test]
fn kernels_are_read_back_from_bytes() {
    fn check(name: &str, kernel: &Generated, again: &Generated) {
        assert_eq!((&again.name, &again.params), (&kernel.name, &kernel.params), "{name}");
        assert_eq!((&again.requires, &again.report), (&kernel.requires, &kernel.report), "{name}");
        assert_eq!(
            (again.packs.len(), again.empty_loops.len()),
            (kernel.packs.len(), kernel.empty_loops.len()),
            "{name}"
        );
        let pairs = kernel.variants.iter().map(Some).zip(again.variants.iter().map(Some));
        let empty = kernel.empty_loops.iter().zip(&again.empty_loops);
        let empty = empty.map(|(kernel, again)| (kernel.variant(), again.variant()));
        for (variant, again) in pairs.chain(empty) {
            let parts = |variant: Option<&Variant>| {
                let variant = variant?;
                let spans: Vec<_> = variant.program.sites.iter().map(|site| site.span).collect();
                Some((variant.label.clone(), variant.source.clone(), text::print(&variant.program), spans))
            };
            assert_eq!(parts(again), parts(variant), "{name}");
        }
        for (pack, again) in kernel.packs.iter().zip(&again.packs) {
            assert_eq!(
                (again.arg, &again.modes, again.transposes),
                (pack.arg, &pack.modes, pack.transposes),
                "{name}"
            );
            check(name, &pack.kernel, &again.kernel);
        }
    }
    for (name, kernel) in gallery::all() {
        let bytes = KernelDef::programs(kernel);
        let again: Generated = decode(&bytes).unwrap_or_else(|| panic!("{name} is not read back"));
        assert_eq!(again.variants.len(), kernel.variants.len(), "{name}");
        check(name, kernel, &again);
        assert_eq!(decode::<Generated>(&bytes[..bytes.len() - 1]).map(|kernel| kernel.name), None, "{name}");
    }
}

#[track_caller]
fn refuses(change: impl Fn(&str) -> String, expected: &str) {
    let text = text::print(&programs::mma_sync().expect("a program"));
    assert_eq!(text::parse::<Program>(&change(&text)).unwrap_err().to_string(), expected);
}

#[test]
fn syntax_errors_have_a_position() {
    refuses(|_| String::new(), "line 1, column 1: `tile_program` is expected, and here is the end");
    refuses(
        |text| text.replace("arch 80", "arch old"),
        "line 3, column 10: an integer is expected, and here is `old`",
    );
    refuses(
        |text| text.replace("per_tile", "per_block"),
        "line 6, column 12: one of per_tile, persistent is expected, and here is `per_block`",
    );
    refuses(|text| text.to_owned() + "more", "line 53, column 1: the end is expected, and here is `more`");
    refuses(
        |text| text.replacen("elem bf16", "elem half", 1),
        "line 12, column 23: an element type is expected, and here is `half`",
    );
}

/// The body of the first loop, of any depth, in a block.
fn first_loop(body: &mut [Stmt]) -> Option<&mut Vec<Stmt>> {
    body.iter_mut().find_map(|stmt| match &mut stmt.op {
        Op::For { body, .. } => Some(body),
        op => op.blocks_mut().into_iter().find_map(|body| first_loop(body)),
    })
}

#[test]
fn roles_share_the_integers_that_are_the_same_in_all() {
    let mut program = gallery::named("linear_hopper").variants[0].program.clone();
    let source = cuda::print(&program);
    assert_eq!(source.matches("const int band = ").count(), 1);
    assert_eq!(source.matches("const auto at = at_wave(wave);").count(), 2);

    // Another tile in the first role.
    let zero = program.exprs.int(0);
    let roles = program.body.iter_mut().find_map(|stmt| match &mut stmt.op {
        Op::Roles(roles) => Some(roles),
        _ => None,
    });
    let body = first_loop(&mut roles.expect("roles")[0].body).expect("a loop over tiles");
    let Op::Let(_, tile) = &mut body[0].op else { panic!("{:?}", body[0]) };
    *tile = zero;
    let source = cuda::print(&program);
    assert_eq!(source.matches("const int band = ").count(), 2);
    assert!(!source.contains("at_wave") && source.contains("const int tile = 0;"), "{source}");
}
