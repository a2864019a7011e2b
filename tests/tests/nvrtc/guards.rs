//! Guards of accesses, as NVRTC leaves them: arithmetic on integers wraps, so the compiler may conclude nothing from overflow.
//!
//! Each kernel is compiled twice: as it is, and with every operation on `i32` that can overflow written as one on `u32`, and
//! converted. The results are the same, and of unsigned arithmetic the compiler assumes nothing. So all comparisons of the second
//! must be in the first: the same number, of the same operands. What follows from facts about the operands, such as bits that are
//! masked, is left out of both.

use std::collections::{BTreeMap, HashMap};

use tilewright::prelude::*;
use tilewright_codegen::thread::{Bin, Cmp, Frag, Interval, Kernel, Lane, Mem, Op, Stmt, Un, Val};
use tilewright_codegen::{Elem, Generated, cuda};
use tilewright_fuzz::draw::Kind;
use tilewright_fuzz::judge::prepare;
use tilewright_layout::Value;
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_tests::hand::Hand;
use tilewright_tests::{arithmetic, gallery, gathers, integers, overflow, sweep, types, views};

use super::{machine_code, none_is_wrong, nvrtc};

#[test]
fn guards_of_positions_that_overflow() {
    all_guards_are_there(overflow::all());
}

/// Positions that compilers take for absolute values, and assemblers for positive numbers: the least number has no absolute
/// value.
const ABSOLUTE: [&str; 14] = [
    "magnitude",
    "absolute",
    "mirrored",
    "below_zero",
    "bits_of_sign",
    "sign_added",
    "complement",
    "unsigned_opposite",
    "by_sign",
    "least",
    "limited",
    "absolute_cells",
    "absolute_counted",
    "absolute_gathered",
];

/// The assembler keeps guards of absolute values: the number of unsigned comparisons is the compiler's.
#[test]
fn guards_of_absolute_values_are_in_machine_code() {
    let Some(nvrtc) = nvrtc() else { return };
    for name in sweep::share(ABSOLUTE, 4) {
        let kernel = of_overflow(name);
        for variant in &kernel.variants {
            let Some([ptx, code]) = comparisons_without_signs(&nvrtc, &variant.source, &kernel.name) else {
                return;
            };
            assert!(ptx > 0 && code >= ptx, "{name}: {code} of {ptx}\n{}", variant.source);
        }
    }
}

/// Absolute values by operators, and a number where they are negative, as the absolute value of the least number is.
#[kernel]
fn signs_of_absolute_values(
    x: &Tensor<i32, N>,
    a: &mut Tensor<i32, N>,
    b: &mut Tensor<i32, N>,
    c: &mut Tensor<i32, N>,
    d: &mut Tensor<i32, N>,
) {
    let x = tile(x, 256, block.x);
    let by_sign = |x| (x ^ (x >> 31)) - (x >> 31);
    let added = |x| (x + (x >> 31)) ^ (x >> 31);
    let chosen = |x| if x < 0 { (x ^ -1) + 1 } else { x };
    map(x, tile(a, 256, block.x), |x| if by_sign(x) < 0 { 1111111 } else { x });
    map(x, tile(b, 256, block.x), |x| if added(x) < 0 { 1222222 } else { x });
    map(x, tile(c, 256, block.x), |x| if chosen(x) < 0 { 1333333 } else { x });
    map(x, tile(d, 256, block.x), |x| if abs(x) < 0 { 1444444 } else { x });
}

/// The assembler takes absolute values to be positive, and the least number has none: of comparisons of such values with 0 it keeps those
/// that instructions of our own hide from it.
#[test]
fn signs_of_absolute_values_are_in_machine_code() {
    let Some(nvrtc) = nvrtc() else { return };
    let kernel = signs_of_absolute_values();
    let kept = |source: &str| {
        let name = &kernel.def().generate().expect("a kernel").name;
        let compiled =
            nvrtc.compile(source, name, "sm_90a", &[]).unwrap_or_else(|why| panic!("{why}\n{source}"));
        let code = machine_code::of(&compiled.cubin)?;
        let has = |number: &u32| code.lines().iter().any(|line| line.contains(&format!("{number:#x}")));
        Some([1_111_111, 1_222_222, 1_333_333, 1_444_444].iter().filter(|number| has(number)).count())
    };
    let Some(all) = kept(kernel.source()) else { return };
    assert_eq!(all, 4, "{}", kernel.source());
    let plain = with_macros(kernel.source(), &[("signed_xor", "a ^ b")]);
    assert!(kept(&plain) < Some(all), "{plain}");
}

/// With signs, the assembler keeps one comparison of each pair for some of them.
#[test]
fn guards_with_signs_are_left_out() {
    let Some(nvrtc) = nvrtc() else { return };
    let kernel = of_overflow("bits_of_sign");
    let signed = with_signs(&with_macros(kernel.source(), &[("signed_xor", "a ^ b")]));
    let compiled =
        nvrtc.compile(&signed, &kernel.name, "sm_90a", &[]).unwrap_or_else(|why| panic!("{why}\n{signed}"));
    let Some(code) = machine_code::of(&compiled.cubin) else { return };
    assert_eq!(code.count("ISETP"), 1, "{signed}\n{:#?}", code.lines());
}

/// A source with two comparisons instead of each unsigned one.
fn with_signs(source: &str) -> String {
    let mut parts = source.split("(unsigned)");
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut left: Option<&str> = None;
    for part in parts {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match (left.take(), part.strip_suffix(" < ")) {
            (None, Some(at)) if at.chars().all(is_name) => {
                left = Some(at);
                text += part;
            }
            (Some(at), _) => {
                let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
                text += &format!("{} && {at} >= 0{}", &part[..end], &part[end..]);
            }
            _ => text += &format!("(unsigned){part}"),
        }
    }
    text
}

fn of_overflow(name: &str) -> Generated {
    let all = overflow::all();
    let (_, def) = all.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("no kernel `{name}`"));
    def.generate().unwrap_or_else(|error| panic!("{name}: {error:?}"))
}

/// How many comparisons without signs a source has as PTX, and as machine code; `None` without a disassembler.
fn comparisons_without_signs(nvrtc: &Nvrtc, source: &str, name: &str) -> Option<[usize; 2]> {
    let ptx = nvrtc.ptx(source, name, "sm_90a").unwrap_or_else(|why| panic!("{why}\n{source}"));
    let compiled = nvrtc.compile(source, name, "sm_90a", &[]).unwrap_or_else(|why| panic!("{why}\n{source}"));
    let code = machine_code::of(&compiled.cubin)?;
    let is_one = |line: &&String| line.starts_with("ISETP") && line.contains(".U32.");
    let in_ptx = ptx.lines().filter(|line| line.contains("setp.") && line.contains(".u32"));
    Some([in_ptx.count(), code.lines().iter().filter(is_one).count()])
}

#[test]
fn guards_of_kernels_with_integers() {
    all_guards_are_there(
        [integers::all(), views::all(), gathers::all(), arithmetic::all(), types::all()].concat(),
    );
}

#[test]
fn guards_of_shipped_kernels() {
    let Some(nvrtc) = nvrtc() else { return };
    none_is_wrong(gallery::all(), |(name, kernel)| without(&nvrtc, name, kernel));
}

#[test]
fn guards_of_drawn_kernels() {
    drawn(0..20);
}

#[test]
#[ignore = "long: six hundred kernels"]
fn fuzz_guards_of_drawn_kernels() {
    drawn(20..320);
}

/// Of each seed a kernel of parts and one of whole tiles.
fn drawn(seeds: std::ops::Range<u64>) {
    let Some(nvrtc) = nvrtc() else { return };
    none_is_wrong(&seeds.collect::<Vec<_>>(), |&seed| {
        let both = [Kind::Parts.kernel(seed), Kind::Whole.kernel(seed)];
        let made = both.iter().filter_map(|definition| prepare(definition).ok());
        made.flat_map(|(_, kernel)| without(&nvrtc, &format!("seed {seed}"), &kernel)).collect()
    });
}

fn all_guards_are_there(all: Vec<(&'static str, tilewright::KernelDef)>) {
    let Some(nvrtc) = nvrtc() else { return };
    none_is_wrong(&all, |(name, def)| {
        let kernel = def.generate().unwrap_or_else(|error| panic!("{name}: {error:?}"));
        without(&nvrtc, name, &kernel)
    });
}

/// The fastest variant of a kernel and the most general one, if they lack comparisons.
fn without(nvrtc: &Nvrtc, name: &str, kernel: &Generated) -> Vec<String> {
    let last = kernel.variants.iter().skip(1).last();
    let both = kernel.variants.iter().take(1).chain(last);
    let missing = both.filter_map(|variant| {
        let source = &variant.source;
        let missing = missing(nvrtc, &variant.program, source)?;
        // Arithmetic in a function is sometimes compiled in another way than the same arithmetic inline.
        self::missing(nvrtc, &variant.program, &with_macros(source, &definitions(source)))?;
        Some(format!("{name} lacks comparisons\n{missing}\n{source}"))
    });
    missing.collect()
}

/// The comparisons that a source of a kernel lacks.
fn missing(nvrtc: &Nvrtc, kernel: &Kernel, source: &str) -> Option<String> {
    lacking(nvrtc, kernel, source, &cuda::print(&unsigned(kernel)?))
}

/// The comparisons of one source that another lacks.
fn lacking(nvrtc: &Nvrtc, kernel: &Kernel, source: &str, unsigned: &str) -> Option<String> {
    let [mut own, all] = [source, unsigned].map(|source| {
        let ptx = nvrtc.ptx(source, &kernel.name, "sm_90a");
        Comparisons::of(&ptx.unwrap_or_else(|why| panic!("{why}\n{source}"))).all()
    });
    let mut missing = Vec::new();
    for (comparison, count) in all {
        let there = own.remove(&comparison).unwrap_or(0);
        if there < count {
            missing.push(format!("{there} of {count}: {comparison}"));
        }
    }
    (!missing.is_empty()).then(|| missing.join("\n"))
}

/// Functions of `a` and `b` in a source, and the expressions that they return.
fn definitions(source: &str) -> Vec<(&str, &str)> {
    let lines: Vec<&str> = source.lines().collect();
    let of = |pair: &[&'_ str]| -> Option<(usize, usize)> {
        let start = pair[0].find("__forceinline__ int wrapping_")? + "__forceinline__ int ".len();
        Some((start, pair[0].find("(int a")?)).filter(|_| pair[1].starts_with("    return "))
    };
    let result = lines.windows(2).filter_map(|pair| {
        let (start, end) = of(pair)?;
        Some((&pair[0][start..end], pair[1].trim().trim_start_matches("return ").trim_end_matches(';')))
    });
    // An instruction, which the compiler does not compare with the expression that it is.
    let negated = source.contains("int wrapping_neg(").then_some(("wrapping_neg", "(int)(0u - (unsigned)a)"));
    result.chain(negated).collect()
}

/// A source whose kernel has expressions of `a` and `b` instead of calls.
fn with_macros(source: &str, all: &[(&str, &str)]) -> String {
    let operand = |word: &str| if word == "a" || word == "b" { format!("({word})") } else { word.to_owned() };
    let define = |(name, body): &(&str, &str)| {
        let two = ["neg", "abs"].iter().all(|one| !name.ends_with(one));
        let mut text = String::new();
        let mut word = String::new();
        for c in body.chars().chain([' ']) {
            if c.is_ascii_alphanumeric() || c == '_' {
                word.push(c);
            } else {
                text += &operand(&std::mem::take(&mut word));
                text.push(c);
            }
        }
        format!("#define {name}(a{}) ({})\n", if two { ", b" } else { "" }, text.trim())
    };
    let macros: String = all.iter().map(define).collect();
    source.replacen("extern \"C\" __global__", &format!("{macros}extern \"C\" __global__"), 1)
}

/// With operators of C instead of operations that wrap, the compiler removes signed guards from each of these; the test notices.
/// Those without signs are not left out.
#[test]
fn guards_that_are_left_out_are_found() {
    let Some(nvrtc) = nvrtc() else { return };
    let undefined = [
        ("wrapping_add", "a + b"),
        ("wrapping_sub", "a - b"),
        ("wrapping_mul", "a * b"),
        ("wrapping_neg", "-a"),
        ("shift_left", "a << b"),
    ];
    let is_reported = |name: &str| {
        let kernel = of_overflow(name);
        let variant = &kernel.variants[0];
        let source = with_macros(&variant.source, &undefined);
        let wanted = cuda::print(&unsigned(&variant.program).expect("operations that wrap"));
        let lacking = |of: fn(&str) -> String| lacking(&nvrtc, &variant.program, &of(&source), &of(&wanted));
        // The function of shifts has a comparison of its own.
        assert_eq!(lacking(str::to_owned).is_some(), name == "shifted", "{name}");
        lacking(with_signs).is_some()
    };
    let names = [
        "square",
        "square_hash",
        "square_of_coordinate",
        "product_of_coordinates",
        "magnitude",
        "strided_row",
        "multiply_add",
        "shifted",
        "counted",
        "cells",
        "gathered",
        "of_argument",
    ];
    let slipped: Vec<&str> = names.into_iter().filter(|name| !is_reported(name)).collect();
    assert!(slipped.is_empty(), "{slipped:?}");
}

/// A thread reads an element that another writes, and reads it again after a barrier.
#[test]
fn elements_are_read_again_behind_a_barrier() {
    let Some(nvrtc) = nvrtc() else { return };
    let mut hand = Hand::new("again", 80, 128);
    let (n, one) = (vec![Value::Int(256)], vec![Value::Int(1)]);
    let x = hand.tensor_of("x", Elem::F32, true, n.clone(), one.clone());
    let y = hand.tensor_of("y", Elem::F32, true, n, one);
    let thread = hand.thread();
    let (own, next) = (hand.sum(&[(thread, 1)], 0), hand.sum(&[(thread, 1)], 1));
    let (first, second) = (hand.reg("first", Elem::F32, 1), hand.reg("second", Elem::F32, 1));
    let zero = hand.int(0);
    let location = |space, index| Mem { space, index, peer: None };
    let all = |reg| Frag { reg, at: zero, len: 1 };
    let load = |reg| Op::Load {
        to: all(reg),
        from: location(x, own),
        guard: None,
        fill: 0.0.into(),
        volatile_at: None,
    };
    let sum = Val::Bin(Bin::Add, Box::new(Val::Reg(first, zero)), Box::new(Val::Reg(second, zero)));
    let ops = vec![
        load(first),
        Op::Store { to: location(x, next), from: all(first), guard: None },
        Op::sync(0),
        load(second),
        Op::Assign { reg: second, at: zero, value: sum },
        Op::Store { to: location(y, own), from: all(second), guard: None },
    ];
    let kernel = hand.done(ops.into_iter().map(|op| Stmt { site: 0, op }).collect());
    let source = cuda::print(&kernel);
    let loads = |source: &str| {
        let ptx = nvrtc.ptx(source, "again", "sm_90a").unwrap_or_else(|why| panic!("{why}\n{source}"));
        ptx.matches("ld.global").count()
    };
    assert_eq!(loads(&source), 2, "{source}");
    // With `__restrict__` NVRTC would take the first value. A pointer that is only written may have it.
    assert_eq!(loads(&source.replace("float* x", "float* __restrict__ x")), 1, "{source}");
    assert!(source.contains("float* __restrict__ y"), "{source}");
}

/// Generated code reads elements as words and vectors of other types.
#[test]
fn types_say_nothing_of_aliases() {
    let Some(nvrtc) = nvrtc() else { return };
    for (one, other) in [("int", "float"), ("uint4", "unsigned short"), ("float4", "unsigned")] {
        let source = format!(
            "extern \"C\" __global__ void f({one}* p, {other}* q, int* to) {{\n    \
             const int* of = (const int*)p;\n    {one} before = *p;\n    *q = 1;\n    {one} after = *p;\n    \
             to[of[0] & 1] = *(const int*)&before + *(const int*)&after;\n}}\n"
        );
        let ptx = nvrtc.ptx(&source, "f", "sm_90a").unwrap_or_else(|why| panic!("{why}\n{source}"));
        let stored = ptx.find("st.global").unwrap_or_else(|| panic!("{ptx}"));
        assert!(ptx[stored..].contains("ld.global"), "{ptx}");
    }
}

/// Where another branch stores the elements of a vector from the same address on, the compiler would split the vector.
#[test]
fn vectors_between_rows_are_stored_whole() {
    let Some(nvrtc) = nvrtc() else { return };
    for name in ["cumulative_sums_vectors", "softmax_unaligned", "softmax_of_pieces"] {
        let (_, kernel) = gallery::all().iter().find(|(_, kernel)| kernel.name == name).expect(name);
        let source = cuda::print(&kernel.variants[0].program);
        let ptx = nvrtc.ptx(&source, name, "sm_90a").unwrap_or_else(|why| panic!("{why}\n{source}"));
        let whole = ptx.matches("st.global.v4").count();
        // A thread's elements one by one, in branches for the ends of a row.
        let elements = ptx.matches("st.global.f32").count();
        assert!(whole > 0 && elements < 4 * whole + 1, "{name}: {whole} whole, {elements} alone\n{ptx}");
    }
}

/// How many operations deep operands of a comparison are looked at.
const DEPTH: usize = 2;

/// The comparisons of integers in a PTX program.
struct Comparisons<'t> {
    /// The instructions that write each register.
    written: HashMap<&'t str, Vec<(&'t str, Vec<&'t str>)>>,
    lines: Vec<(&'t str, Vec<&'t str>)>,
}

impl<'t> Comparisons<'t> {
    fn of(ptx: &'t str) -> Comparisons<'t> {
        let instruction = |line: &'t str| {
            let line = line.trim().strip_suffix(';')?;
            let line = match line.strip_prefix('@') {
                Some(guarded) => guarded.split_once(char::is_whitespace)?.1.trim(),
                None => line,
            };
            let (name, operands) = line.split_once(char::is_whitespace)?;
            let clean = |operand: &'t str| operand.trim_matches(['{', '}', '[', ']', ' ', '\t']);
            Some((name, operands.split(',').map(clean).collect::<Vec<_>>()))
        };
        // Functions after the kernel have registers of the same names.
        let kernel = ptx.lines().skip_while(|line| !line.contains(".entry")).take_while(|line| *line != "}");
        let lines: Vec<_> = kernel.filter_map(instruction).collect();
        let mut written: HashMap<_, Vec<_>> = HashMap::new();
        for (name, operands) in &lines {
            if let Some((to, from)) = operands.split_first().filter(|(to, _)| to.starts_with('%')) {
                written.entry(*to).or_default().push((*name, from.to_vec()));
            }
        }
        Comparisons { written, lines }
    }

    /// All of them, each with its number.
    fn all(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for (name, operands) in &self.lines {
            let kind = name.rsplit('.').next().unwrap_or("");
            if name.starts_with("setp.") && !kind.starts_with('f') {
                let of: Vec<String> =
                    operands[1..].iter().map(|operand| self.operand(operand, DEPTH)).collect();
                *all.entry(format!("{name} {}", of.join(", "))).or_default() += 1;
            }
        }
        all
    }

    /// An operand by the operations that make it, without the names of registers.
    fn operand(&self, operand: &str, depth: usize) -> String {
        match self.written.get(operand).map(Vec::as_slice) {
            // A number, a parameter, or an index of threads.
            _ if !operand.starts_with('%') || operand.contains('.') => operand.to_owned(),
            Some([(name, from)]) if depth > 0 => {
                let mut from: Vec<String> =
                    from.iter().map(|operand| self.operand(operand, depth - 1)).collect();
                from.sort();
                format!("{}({})", name.split('.').next().unwrap_or(""), from.join(", "))
            }
            _ => "…".to_owned(),
        }
    }
}

/// The kernel with its operations on `i32` as operations on `u32`; `None` without any.
fn unsigned(kernel: &Kernel) -> Option<Kernel> {
    let mut changed = false;
    let body = statements(kernel, &kernel.body, &mut changed);
    changed.then(|| Kernel { body, ..kernel.clone() })
}

fn statements(kernel: &Kernel, body: &[Stmt], changed: &mut bool) -> Vec<Stmt> {
    let mut body = body.to_vec();
    for stmt in &mut body {
        let mut value = |of: &mut Val| *of = rewritten(kernel, of, changed);
        match &mut stmt.op {
            Op::Take(_, of) | Op::Assign { value: of, .. } | Op::Atomic { value: of, .. } => value(of),
            Op::If { cond, then, other } => {
                value(cond);
                *then = statements(kernel, then, changed);
                *other = statements(kernel, other, changed);
            }
            Op::For { body, .. } | Op::Elect(_, body) => *body = statements(kernel, body, changed),
            Op::Roles(roles) => {
                roles.iter_mut().for_each(|role| role.body = statements(kernel, &role.body, changed));
            }
            _ => {}
        }
    }
    body
}

/// The value without arithmetic on `i32` that can overflow.
fn rewritten(kernel: &Kernel, value: &Val, changed: &mut bool) -> Val {
    let mut of = |x: &Val| Box::new(rewritten(kernel, x, changed));
    let plain = match value {
        Val::Reg(..) | Val::Lit(..) | Val::Int(..) | Val::Param(_) => value.clone(),
        Val::Un(f, x) => Val::Un(*f, of(x)),
        Val::Bin(f, x, y) => Val::Bin(*f, of(x), of(y)),
        Val::Fma(parts) => Val::Fma(Box::new(parts.each_ref().map(|part| *of(part)))),
        Val::Product(row, parts) => Val::Product(row, Box::new(parts.each_ref().map(|part| *of(part)))),
        Val::Cast(elem, x) => Val::Cast(*elem, of(x)),
        Val::Bits(elem, x) => Val::Bits(*elem, of(x)),
        Val::Cmp(how, x, y) => Val::Cmp(*how, of(x), of(y)),
        Val::Pick(parts) => Val::Pick(Box::new(parts.each_ref().map(|part| *of(part)))),
        Val::Shuffle(x, Lane::InGroup(lanes, lane)) => Val::Shuffle(of(x), Lane::InGroup(*lanes, of(lane))),
        Val::Shuffle(x, lane) => Val::Shuffle(of(x), lane.clone()),
        Val::Vote(how, x) => Val::Vote(*how, of(x)),
        Val::Ptx { .. } => value.clone(),
    };
    if kernel.type_of(value) != Elem::I32 {
        return plain;
    }
    let to = |elem: Elem, x: Val| Val::Cast(elem, Box::new(x));
    let two = |f: Bin, x: Val, y: Val| {
        let [x, y] = [x, y].map(|x| Box::new(to(Elem::U32, x)));
        to(Elem::I32, Val::Bin(f, x, y))
    };
    let zero = || Val::lit(0, Elem::I32);
    let pick = |how: Cmp, x: Val, y: Val, then: Val, other: Val| {
        Val::Pick(Box::new([Val::Cmp(how, Box::new(x), Box::new(y)), then, other]))
    };
    let all = Interval::of(Elem::I32);
    let of = |x: &Val| kernel.interval_of(x);
    let fits = |exact: Option<Interval>| exact.is_some_and(|exact| exact.is_within(all));
    let defined = match value {
        Val::Bin(Bin::Shl, x, _) if of(x).lo < 0 => false,
        Val::Bin(f, x, y) => fits(f.interval(of(x), of(y), 32)),
        Val::Un(f, x) => fits(f.interval(of(x))),
        Val::Fma(parts) => {
            let [[a, b], [product, c]] = kernel.intervals_of_sum(parts);
            fits(Bin::Mul.interval(a, b, 32)) && fits(Bin::Add.interval(product, c, 32))
        }
        _ => true,
    };
    if defined {
        return plain;
    }
    let made = match plain.clone() {
        Val::Bin(f @ (Bin::Add | Bin::Sub | Bin::Mul), x, y) => two(f, *x, *y),
        Val::Fma(parts) => {
            let [a, b, c] = *parts;
            two(Bin::Add, two(Bin::Mul, a, b), c)
        }
        Val::Un(Un::Neg, x) => two(Bin::Sub, zero(), *x),
        Val::Un(Un::Abs, x) => pick(Cmp::Lt, (*x).clone(), zero(), two(Bin::Sub, zero(), (*x).clone()), *x),
        Val::Bin(Bin::Shl, x, n) => {
            to(Elem::I32, Val::Bin(Bin::Shl, Box::new(to(Elem::U32, *x)), Box::new(to(Elem::U32, *n))))
        }
        Val::Bin(f @ (Bin::Div | Bin::Rem), x, y) => {
            let (none, less) = match f {
                Bin::Div => (Val::lit(-1, Elem::I32), two(Bin::Sub, zero(), (*x).clone())),
                _ => ((*x).clone(), zero()),
            };
            let divided = Val::Bin(f, x, y.clone());
            let divided = pick(Cmp::Eq, (*y).clone(), Val::lit(-1, Elem::I32), less, divided);
            pick(Cmp::Eq, *y, zero(), none, divided)
        }
        _ => return plain,
    };
    *changed = true;
    made
}
