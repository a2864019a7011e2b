//! Guards of accesses, as NVRTC leaves them: arithmetic on integers wraps, so the compiler may conclude nothing from overflow.
//!
//! Each kernel is compiled twice: as it is, and with every operation on `i32` that can overflow written as one on `u32`, and
//! converted. The results are the same, and of unsigned arithmetic the compiler assumes nothing. So all comparisons of the second
//! must be in the first: the same number, of the same operands. What follows from facts about the operands, such as bits that are
//! masked, is left out of both.

use std::collections::{BTreeMap, HashMap};

use tilewright_codegen::thread::{Bin, Cmp, Interval, Kernel, Op, Stmt, Un, Val};
use tilewright_codegen::{Elem, Generated, cuda};
use tilewright_fuzz::draw;
use tilewright_fuzz::judge::prepare;
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_tests::{arithmetic, gallery, integers, overflow, places, views};

use super::{none_is_wrong, nvrtc};

#[test]
fn guards_of_positions_that_overflow() {
    all_guards_are_there(overflow::all());
}

#[test]
fn guards_of_kernels_with_integers() {
    all_guards_are_there([integers::all(), views::all(), places::all(), arithmetic::all()].concat());
}

#[test]
fn guards_of_shipped_kernels() {
    let Some(nvrtc) = nvrtc() else { return };
    none_is_wrong(&gallery::all(), |(name, kernel)| without(&nvrtc, name, kernel));
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
        let both = [draw::subject(seed), draw::whole_tiles(seed)];
        let made = both.iter().filter_map(|subject| prepare(subject).ok());
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

/// The variants of a kernel that lack comparisons.
fn without(nvrtc: &Nvrtc, name: &str, kernel: &Generated) -> Vec<String> {
    let last = kernel.variants.iter().skip(1).last();
    let both = kernel.variants.iter().take(1).chain(last);
    let wrong = both.filter_map(|variant| {
        let kernel = &variant.program;
        let unsigned = unsigned(kernel)?;
        let ptx = |kernel: &Kernel| {
            let ptx = nvrtc.ptx(&cuda::print(kernel), &kernel.name, "sm_90a");
            ptx.unwrap_or_else(|why| panic!("{name}: {why}"))
        };
        let [mut own, all] = [kernel, &unsigned].map(|kernel| Comparisons::of(&ptx(kernel)).all());
        let mut missing = Vec::new();
        for (comparison, count) in all {
            let there = own.remove(&comparison).unwrap_or(0);
            (there < count).then(|| missing.push(format!("{there} of {count}: {comparison}")));
        }
        (!missing.is_empty())
            .then(|| format!("{name} lacks comparisons\n{}\n{}", missing.join("\n"), variant.source))
    });
    wrong.collect()
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
        // Functions behind the kernel have registers of the same names.
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
            Op::When { cond, then, other } => {
                value(cond);
                *then = statements(kernel, then, changed);
                *other = statements(kernel, other, changed);
            }
            Op::If { then, other, .. } => {
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
        Val::Guarded(cond, x, y) => Val::Guarded(*cond, of(x), of(y)),
        Val::Cmp(how, x, y) => Val::Cmp(*how, of(x), of(y)),
        Val::Pick(parts) => Val::Pick(Box::new(parts.each_ref().map(|part| *of(part)))),
        Val::ShuffleXor(x, lanes) => Val::ShuffleXor(of(x), *lanes),
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
        Val::Bin(f, x, y) => fits(f.interval(of(x), of(y))),
        Val::Un(f, x) => fits(f.interval(of(x))),
        Val::Fma(parts) => {
            let [[a, b], [product, c]] = kernel.intervals_of_sum(parts);
            fits(Bin::Mul.interval(a, b)) && fits(Bin::Add.interval(product, c))
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
