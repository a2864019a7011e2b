//! Limits on input: names, sizes, nesting depth and work, for programs of the builder and for definitions.

use tilewright_codegen::affine::Coord;
use tilewright_codegen::ast::{self, Arg, Binary, ExprKind, Name, Pattern, Span};
use tilewright_codegen::build::Builder;
use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Unroll};
use tilewright_codegen::tile::{Expr, Space, Tensor};
use tilewright_codegen::view::At;
use tilewright_codegen::words::{Kernels as _, Words};
use tilewright_codegen::{Definition, Elem, GENERATOR, Generate, Settings, generate, limits, wire};
use tilewright_layout::{Layout, Value, layout};
use tilewright_sim::{Arg as Given, Options, run};

/// A name that would end a comment and remove all conditions.
const EVIL: &str = "N\n#define if(x) if(1)\n//";

fn barrier(b: &mut Builder) -> Result<()> {
    b.sync();
    Ok(())
}

/// The diagnostics of a program.
fn refused(make: impl FnOnce(&mut Builder) -> Result<()>) -> String {
    let mut b = Builder::new("k");
    match make(&mut b) {
        Err(problem) => problem.message,
        Ok(()) => messages(b),
    }
}

fn messages(b: Builder) -> String {
    let outcome = generate(b.finish());
    assert!(outcome.kernel.is_none(), "it is accepted");
    outcome.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect::<Vec<_>>().join("\n")
}

/// A tensor of N elements, 128 for each block, one for each thread.
fn vector(b: &mut Builder, name: &str, size: &str) -> Result<tilewright_codegen::view::View> {
    let x = b.tensor(name, Elem::F32, (Value::symbol(size),), None, true)?;
    let tile = b.tile(&x, (128,), &[At::Index(Coord::Block(0).into())])?;
    b.parallelize(&tile, &layout!(128))
}

#[test]
fn names_of_the_builder_are_identifiers() {
    let expect = |what: &str, messages: String| {
        let expected = format!("{EVIL:?} cannot be the name of {what}, which stands in generated CUDA C");
        assert_eq!(messages, expected);
    };
    expect("a kernel", messages(Builder::new(EVIL)));
    expect("a tensor", refused(|b| vector(b, EVIL, "N").map(drop)));
    expect("a size", refused(|b| vector(b, "x", EVIL).map(drop)));
    expect("a tensor", refused(|b| b.shared(EVIL, Elem::F32, layout!(128)).map(drop)));
    expect("a fragment", refused(|b| b.registers(EVIL, Elem::F32, (4i64,)).map(drop)));
    expect(
        "an argument",
        refused(|b| {
            b.scalar(EVIL, Elem::F32);
            Ok(())
        }),
    );
    expect(
        "a view",
        refused(|b| vector(b, "x", "N").and_then(|x| b.fill(&x.with_name(EVIL), Expr::lit(0.0)))),
    );
    expect("a loop's variable", refused(|b| b.repeat(EVIL, Value::Int(4), Unroll::No, |b, _| barrier(b))));
    expect("a size", refused(|b| b.repeat("k", Value::symbol(EVIL), Unroll::No, |b, _| barrier(b))));
    expect("a size", refused(|b| b.condition(&Coord::Block(0).into(), Value::symbol(EVIL), barrier)));
    let long = "x".repeat(300);
    let message = refused(|b| vector(b, &long, "N").map(drop));
    assert_eq!(message, "the name of a tensor has 300 letters, and 256 is the limit");
}

#[test]
fn sizes_are_numbers_of_bytes() {
    let check =
        |expected: &str, make: &dyn Fn(&mut Builder) -> Result<()>| assert_eq!(refused(make), expected);
    check(
        "`s` takes 4294967424 * 4 = 17179869696 bytes, and a block has at most 232448 bytes of shared memory",
        &|b| b.shared("s", Elem::F32, layout!((128, 33554433))).map(drop),
    );
    check(
        "`s` takes 1073741824 * 4 = 4294967296 bytes, and a block has at most 232448 bytes of shared memory",
        &|b| b.shared("s", Elem::F32, layout!(1073741824)).map(drop),
    );
    check(
        "`s` takes 500000128 * 4 = 2000000512 bytes, and a block has at most 232448 bytes of shared memory",
        &|b| b.shared("s", Elem::F32, layout!((128, 2) : (1, 500000000))).map(drop),
    );
    check(
        "a fragment of 16000000000000000000 elements of f32 takes 16000000000000000000 registers of each thread, and 255 is the limit",
        &|b| b.registers("r", Elem::F32, (4_000_000_000i64, 4_000_000_000i64)).map(drop),
    );
    check("the tensor `x` has 2000 modes, and 1 to 32 are possible", &|b| {
        let shape = tilewright_layout::Tuple::flat(&vec![2i64; 2000]);
        b.tensor("x", Elem::F32, shape, None, false).map(drop)
    });
    check("a cluster of 65536 x 65536 x 2 blocks", &|b| {
        b.cluster([65536, 65536, 2]);
        Ok(())
    });
    check("the loop over `k` has -3 iterations, and 0 to 2147483647 are possible", &|b| {
        b.repeat("k", Value::Int(-3), Unroll::No, |b, _| barrier(b))
    });
}

/// Programs that were not made by the builder are checked against the same limits.
#[test]
fn programs_by_hand_have_sizes() {
    let mut program = Builder::new("k").finish();
    program.tensors.push(Tensor {
        name: "s".into(),
        elem: Elem::F64,
        space: Space::Shared { align: 16 },
        layout: Layout::compact((1i64 << 40, 1i64 << 22)).unwrap().into(),
        span: Span(0),
    });
    let messages = generate(program).diagnostics.remove(0).message;
    assert_eq!(
        messages,
        "`s` takes 4611686018427387904 * 8 = 36893488147419103232 bytes, and a block has at most 232448 bytes of shared memory"
    );
}

/// Slots multiply the size of a tile.
#[test]
fn slots_count() {
    let message = refused(|b| {
        let x = vector(b, "x", "N")?;
        let s = b.shared("s", Elem::F32, layout!((128, 4000) : (1, 128)))?;
        let to = b.slice(&s, &[At::All, At::Index(0.into())])?;
        let to = b.parallelize(&to, &layout!(128))?;
        b.pipelined("k", Value::Int(4), 16, |b, _| b.copy(&x, &to))
    });
    assert_eq!(
        message,
        "`s` takes 8192000 * 4 = 32768000 bytes, and a block has at most 232448 bytes of shared memory"
    );
}

/// Runs on a thread with the smallest plausible stack.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(work).expect("a thread");
    thread.join().expect("it fits the stack");
}

fn expr(kind: ExprKind) -> ast::Expr {
    ast::Expr { span: Span(0), kind }
}

fn word(text: &str) -> Name {
    Name { text: text.into(), span: Span(0) }
}

fn call(function: &str, args: Vec<ast::Expr>) -> ast::Expr {
    let args = args.into_iter().map(|value| Arg { name: None, value }).collect();
    expr(ExprKind::Call { function: word(function), types: vec![], args })
}

fn product(value: ast::Expr) -> Definition {
    let closure = ExprKind::Closure { params: vec![Pattern::Name(word("x"))], body: Box::new(value) };
    Definition::Matmul(vec![Arg { name: Some(word("epilogue")), value: expr(closure) }])
}

fn x() -> ast::Expr {
    expr(ExprKind::Name("x".into()))
}

/// `x + x + …` with this number of operators.
fn sum(links: u32) -> ast::Expr {
    (0..links).fold(x(), |left, _| expr(ExprKind::Binary(Binary::Add, Box::new(left), Box::new(x()))))
}

/// Encodes, decodes and generates a definition.
fn made(bytes: Vec<u8>) -> std::result::Result<usize, String> {
    let def = KernelDef::new("k", "", "", &[], bytes.leak(), b"").with_generator(GENERATOR);
    let generated = def.generate().map_err(|why| why.to_string())?;
    let again = def.definition().expect("it was read").def(&generated, &Default::default());
    assert_eq!(again.encoded(), def.encoded());
    Ok(generated.source().len())
}

#[test]
fn long_chains_need_little_stack() {
    on_a_small_stack(|| {
        assert!(made(wire::encode(&product(sum(limits::LONGEST_CHAIN)))).is_ok());
        let messages = product(sum(limits::LONGEST_CHAIN + 1)).generate().diagnostics.remove(0).message;
        assert_eq!(messages, "this chain has 501 operators, and 500 is the limit");
        assert!(made(wire::encode(&product(sum(2_000)))).is_err());
    });
}

/// `x * 2 + x * 2 + …` becomes nested fused multiply-adds, which were once printed twice each.
#[test]
fn long_chains_of_products_take_linear_time() {
    on_a_small_stack(|| {
        let two = || Box::new(expr(ExprKind::Float(2.0)));
        let part = || expr(ExprKind::Binary(Binary::Mul, Box::new(x()), two()));
        let sum = (0..400)
            .fold(part(), |left, _| expr(ExprKind::Binary(Binary::Add, Box::new(left), Box::new(part()))));
        assert!(made(wire::encode(&product(sum))).is_ok());
    });
}

#[test]
fn deep_nesting_is_refused_on_a_small_stack() {
    let nested = |depth: u32| {
        (0..depth).fold(x(), |inner, at| match at % 3 {
            0 => call("exp", vec![inner]),
            1 => expr(ExprKind::Unary(ast::Unary::Neg, Box::new(inner))),
            _ => expr(ExprKind::If {
                condition: Box::new(expr(ExprKind::Binary(Binary::Lt, Box::new(x()), Box::new(x())))),
                then: Box::new(inner),
                other: Box::new(x()),
            }),
        })
    };
    let far_too_deep = wire::encode(&product(nested(1_000)));
    on_a_small_stack(move || {
        assert!(made(wire::encode(&product(nested(limits::DEEPEST - 3)))).is_ok());
        let messages = product(nested(limits::DEEPEST + 1)).generate().diagnostics.remove(0).message;
        assert_eq!(messages, "this is nested more than 64 levels deep");
        let messages = made(far_too_deep).unwrap_err();
        assert!(messages.contains("another version"), "{messages}");
    });
}

/// Blocks nested to the limit, with an expression nested to the limit in the innermost. All of its loops
/// together have more iterations than any check could enumerate.
#[test]
fn deep_blocks_need_little_stack() {
    let block = |depth: u32| {
        let tuple = |inner, _| expr(ExprKind::Tuple(vec![inner]));
        let innermost = (0..limits::DEEPEST - 2).fold(expr(ExprKind::Int(1)), tuple);
        let stmt = |kind| ast::Stmt { span: Span(0), kind };
        let first = stmt(ast::StmtKind::Let { pattern: Pattern::Name(word("t")), value: innermost });
        let body = (0..depth).fold(vec![first], |body, _| {
            let range = ExprKind::Range(Box::new(expr(ExprKind::Int(0))), Box::new(expr(ExprKind::Int(2))));
            vec![stmt(ast::StmtKind::For { pattern: Pattern::Name(word("i")), range: expr(range), body })]
        });
        // An expression with a thread layout: `parallelize(shared::<f32>(layout!(128)), layout!(128),
        // thread.x)`
        let layout = || expr(ExprKind::Layout { shape: Box::new(expr(ExprKind::Int(128))), stride: None });
        let mut tile = call("shared", vec![layout()]);
        if let ExprKind::Call { types, .. } = &mut tile.kind {
            types.push(word("f32"));
        }
        let thread =
            expr(ExprKind::Field { base: Box::new(expr(ExprKind::Name("thread".into()))), field: word("x") });
        let part = ast::StmtKind::Let {
            pattern: Pattern::Name(word("part")),
            value: call("parallelize", vec![tile, layout(), thread]),
        };
        let body = [stmt(part)].into_iter().chain(body).collect();
        let kernel = ast::Kernel {
            name: word("k"),
            is_unsafe: false,
            consts: vec![],
            types: vec![],
            params: vec![],
            devices: vec![],
            body,
            levels: vec![],
            keys: vec![],
            overlaps: false,
            choices: Vec::new(),
        };
        Definition::Function(kernel, Settings::default())
    };
    on_a_small_stack(move || {
        assert_eq!(made(wire::encode(&block(limits::DEEPEST_BLOCKS - 1))).err(), None);
        let messages = made(wire::encode(&block(limits::DEEPEST_BLOCKS))).unwrap_err();
        assert!(messages.contains("blocks nest more than 32 levels deep"), "{messages}");
    });
}

#[test]
fn keys_have_long_chains() {
    on_a_small_stack(|| {
        let keys = |terms: usize| format!("epilogue=|x| {}", vec!["x"; terms].join("+"));
        let kernel = Words::read(&keys(500)).unwrap().matmul().unwrap();
        assert!(kernel.source().matches(" + ").count() >= 499);
        let messages = Words::read(&keys(2_000)).unwrap_err().to_string();
        assert!(messages.starts_with("this expression is longer than 1024 tokens\n"), "{messages}");
        let def = Definition::Matmul(vec![]).def(&kernel, &Default::default());
        let number = format!("bm={}", vec!["1"; 64].join("+"));
        assert!(Words::specialize(&def, &number).is_ok());
    });
}

/// Functions that only the builder can express.
#[test]
fn functions_of_the_builder_are_measured() {
    let function = |links: u32| {
        let add = |x, _| Expr::Bin(Bin::Add, Box::new(x), Box::new(Expr::In(0)));
        (0..links).fold(Expr::In(0), add)
    };
    let make = |function: Expr| {
        let mut b = Builder::new("k");
        let x = vector(&mut b, "x", "N")?;
        b.map(std::slice::from_ref(&x), &x, function)?;
        Ok::<_, tilewright_codegen::problem::Problem>(generate(b.finish()))
    };
    on_a_small_stack(move || {
        assert!(make(function(limits::LONGEST_CHAIN)).unwrap().kernel.is_some());
        let messages = make(function(1_000)).unwrap_err().message;
        assert_eq!(
            messages,
            "this takes more than 2000 operations, or more than 500 one inside the other: names stand for their expressions"
        );
    });
}

#[test]
fn too_many_statements_are_refused() {
    let copies = |count: u64| {
        let mut b = Builder::new("k");
        let x = vector(&mut b, "x", "N").unwrap();
        (0..count).for_each(|_| b.fill(&x, Expr::lit(0.0)).unwrap());
        generate(b.finish())
    };
    let messages = copies(limits::MOST_STATEMENTS + 1).diagnostics.remove(0);
    assert_eq!(
        messages.text(),
        "this is statement 2001 of the kernel, as loops are written out, and together they cost more than 2000 plain copies\nhelp: use a loop that the kernel runs, `for i in 0..n` without `unroll`"
    );
    assert!(copies(200).kernel.is_some());
}

/// The longest chain in the simulator, on the default stack of test threads.
#[test]
fn long_chains_run() {
    let add = |x, _| Expr::Bin(Bin::Add, Box::new(x), Box::new(Expr::In(0)));
    let function = (0..limits::LONGEST_CHAIN).fold(Expr::In(0), add);
    let mut b = Builder::new("k");
    let x = vector(&mut b, "x", "N").unwrap();
    b.map(std::slice::from_ref(&x), &x, function).unwrap();
    let kernel = generate(b.finish()).kernel.unwrap();
    let ran = run(&kernel, &[Given::in_out(&[1.0f32; 128], [128])], &Options::default()).unwrap();
    assert_eq!(ran.get::<f32>("x").unwrap(), [501.0; 128]);
}
