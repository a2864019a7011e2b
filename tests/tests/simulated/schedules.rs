//! A schedule determines when statements run, not their results: with every schedule, results are the same to the bit. Programs get
//! random schedules (slots, k-steps in registers, exit tests, mechanisms of copies, the walk through a product; stages and
//! positions of statements) and run in the simulator, which chooses at random when warps run and when copies land.

use tilewright::kernels;
use tilewright_codegen::tile::{How, Multiply, Op, Order, Program, Space, StageOrder, Stmt};
use tilewright_codegen::words::Words;
use tilewright_codegen::{Definition, Generate, Generated, generate, text};
use tilewright_fuzz::random::Random;
use tilewright_sim::{Options, run_every};
use tilewright_tests::problem::{Problem, Setting, Values};
use tilewright_tests::tensor::Padding;
use tilewright_tests::{by_all_cores, sweep};

/// Products with a pipelined loop: on CUDA cores, and by mma.sync with copies by cp.async.
const PRODUCTS: &[&str] = &[
    "bm=32 bn=32 bk=8 tc=(8,8) stages=2",
    "bm=32 bn=64 bk=16 tc=(8,8) stages=2 schedule=(fragments=2)",
    "bm=32 bn=32 bk=16 tc=(4,8) dtype=f64 mma=none stages=3",
    "bm=32 bn=32 bk=16 tc=(8,4) dtype=i32",
    "bm=64 bn=32 bk=32 dtype=bf16 arch=80",
    "bm=64 bn=64 bk=32 dtype=tf32 arch=80 warps=(2,2)",
];

/// Extents, and whether tiles divide K. Where they do not, the number of k-steps in registers stays as it is: with two, the
/// partial K tile comes first, and the order in which K is summed belongs to the program.
const SIZES: [([(&str, usize); 3], bool); 2] =
    [([("M", 64), ("N", 64), ("K", 160)], true), ([("M", 45), ("N", 70), ("K", 99)], false)];

/// Schedules of each program.
const SCHEDULES: u64 = 6;
/// In a run that is not a sweep.
const QUICK: u64 = 3;

fn spaces(program: &Program) -> Vec<Space> {
    program.tensors.iter().map(|tensor| tensor.space).collect()
}

/// Is it a copy from global to shared memory?
fn is_fetch(spaces: &[Space], op: &Op) -> bool {
    let Op::Copy { from, to, .. } = op else { return false };
    let [from, to] = [from, to].map(|view| spaces[view.tensor as usize]);
    matches!((from, to), (Space::Global { .. }, Space::Shared { .. }))
}

/// Gives the loops, copies and products of a program another schedule.
fn reschedule(program: &mut Program, fragments_too: bool, random: &mut Random) {
    let spaces = spaces(program);
    let is_fetch = |op: &Op| is_fetch(&spaces, op);
    each(&mut program.body, &mut |stmt| match &mut stmt.op {
        Op::For { ahead: Some(ahead), body, .. } => {
            let mut tiles = false;
            each(body, &mut |stmt| tiles |= is_fetch(&stmt.op));
            // A loop over fragments in shared memory has one or two stages.
            ahead.stages = 1 + random.below(if tiles { 4 } else { 2 }) as u32;
            // Its whole work is one product of each thread.
            let scalar = |stmt: &Stmt| matches!(stmt.op, Op::Gemm { how: Multiply::Scalar(_), .. });
            let work: Vec<&Stmt> = body.iter().filter(|stmt| !matches!(stmt.op, Op::Copy { .. })).collect();
            if fragments_too && work.len() == 1 && scalar(work[0]) {
                ahead.fragments = 1 + random.below(2) as u32;
            }
            if ahead.fragments == 2 {
                ahead.stages = ahead.stages.max(2);
            }
            ahead.exits = random.chance(50);
        }
        Op::Gemm { order, .. } => {
            let all = [Order::Plain, Order::Serpentine, Order::Rows, Order::RowSerpentine];
            *order = all[random.below(4)];
        }
        op if is_fetch(op) => {
            if let Op::Copy { how: how @ (How::Derive | How::Staged), .. } = op {
                *how = [How::Derive, How::Staged][random.below(2)];
            }
        }
        _ => {}
    });
}

fn each(body: &mut [Stmt], f: &mut dyn FnMut(&mut Stmt)) {
    for stmt in body {
        f(stmt);
        stmt.bodies_mut().into_iter().for_each(|inner| each(inner, f));
    }
}

fn kernel(program: &Program) -> Generated {
    let outcome = generate(program.clone());
    let messages: Vec<String> = outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect();
    outcome.kernel.unwrap_or_else(|| panic!("{}\n{}", messages.join("\n"), text::print(program)))
}

/// The results of all variants that fit, by variant.
fn results(kernel: &Generated, sizes: &[(&str, usize)], seed: u64) -> Vec<(usize, Vec<u8>)> {
    let setting = Setting {
        sizes,
        paddings: &[Padding::new(0, 0)],
        values: Values::Any,
        seed: 3,
        alpha: 0.5,
        beta: 2.0,
    };
    let problem = Problem::of(kernel, &setting);
    let options = Options { seed, schedules: 2, ..Options::default() };
    let outcomes = run_every(kernel, &problem.args(), &options).unwrap_or_else(|error| panic!("{error}"));
    let name = &problem.result().name;
    outcomes
        .iter()
        .map(|outcome| (outcome.variant(), outcome.bytes(name).expect("a result").to_vec()))
        .collect()
}

type Sizes = &'static [(&'static str, usize)];

/// Kernels whose loops do several things: in registers, with barriers, in slots of their own, in slots that a producer fills, with
/// products in flight; constants, and extents.
const LOOPS: &[(&str, Sizes, Sizes)] = &[
    ("softmax", &[], &[("M", 3), ("N", 1500)]),
    ("cumulative_sums", &[], &[("M", 3), ("N", 2500)]),
    ("gravity", &[], &[("N", 600)]),
    ("tutorial", &[], &[("M", 128), ("N", 128), ("K", 40)]),
    ("shared_tile", &[], &[("M", 45), ("N", 70), ("K", 99)]),
    ("attention", &[("BN", 32)], &[("M", 40), ("N", 130), ("L", 1)]),
    ("attention_hopper", &[("BN", 32)], &[("M", 40), ("N", 130), ("L", 1)]),
];

/// Gives the statements of a program's loops stages and positions, the same to those that must stay together. Later stages come
/// first, or later, or anywhere in a step: that may be refused.
fn restage(program: &mut Program, random: &mut Random) {
    let spaces = spaces(program);
    each(&mut program.body, &mut |stmt| {
        let Op::For { body, .. } = &stmt.op else { return };
        let tiles = stmt.preorder().any(|stmt| is_fetch(&spaces, &stmt.op));
        if matches!(stmt.op, Op::For { ahead: Some(_), .. }) && !tiles {
            // It loads fragments of a product.
            return;
        }
        let kind = random.below(3);
        let (mut stage, mut drawn) = (0, Vec::new());
        for _ in body {
            stage += u32::from(stage < 2 && random.below(body.len()) < 2);
            let order = [stage, 8 - stage.min(8), random.below(4) as u32][kind];
            drawn.push(StageOrder { stage, order });
        }
        // Barriers and waits for copies stay with the next statement, waits for products with the previous one.
        for (at, stmt) in body.iter().enumerate().rev() {
            let like = match stmt.op {
                Op::Sync | Op::Wait { token: None, .. } => at + 1,
                Op::Wait { .. } => at - 1,
                _ => at,
            };
            drawn[at] = drawn[like.min(body.len() - 1)];
        }
        if let Op::For { ahead: Some(ahead), .. } = &mut stmt.op {
            ahead.stages = 2 + stage.max(1);
        }
        if let Op::For { body, .. } = &mut stmt.op {
            body.iter_mut().zip(drawn).for_each(|(stmt, order)| stmt.stage = Some(order));
        }
    });
}

#[test]
fn any_stages_give_the_same_bits() {
    by_all_cores(LOOPS, |(name, constants, sizes)| {
        let shipped = kernels::named(name).expect("a shipped kernel");
        let def = shipped.def.specialize(constants, &[]).unwrap_or_else(|why| panic!("{why}"));
        let program = def.definition().expect("its definition").program().expect("a program");
        let wanted = results(&kernel(&program), sizes, 0);
        let (mut legal, schedules) = (0, sweep::count(QUICK, SCHEDULES));
        for seed in 0..40 {
            let mut other = program.clone();
            restage(&mut other, &mut Random::new(seed));
            let outcome = generate(other.clone());
            let Some(made) = outcome.kernel else {
                let messages: Vec<String> =
                    outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect();
                let message = messages.join("\n");
                let expected = ["would run", "which takes more than", "counted in the order of the text"];
                assert!(expected.iter().any(|part| message.contains(part)), "{name}, {seed}: {message}");
                continue;
            };
            legal += 1;
            let got = results(&made, sizes, seed);
            assert!(got == wanted, "{name}, schedule {seed}: other bits\n{}", text::print(&other));
            if legal == schedules {
                break;
            }
        }
        assert!(legal > 2, "{name}: only {legal} schedules are legal");
    });
}

#[test]
fn any_schedule_gives_the_same_bits() {
    let definition = |keys: &&str| {
        let words = Words::read(keys).unwrap_or_else(|wrong| panic!("{wrong}"));
        ((*keys).to_owned(), Definition::Matmul(words.args().to_vec()))
    };
    let all: Vec<(String, Definition)> = PRODUCTS.iter().map(definition).collect();
    by_all_cores(&all, |(name, definition)| {
        let program = definition.program().unwrap_or_else(|message| panic!("{name}: {message:?}"));
        for (sizes, divides) in SIZES {
            let wanted = results(&kernel(&program), &sizes, 0);
            for seed in 0..sweep::count(QUICK, SCHEDULES) {
                let mut other = program.clone();
                reschedule(&mut other, divides, &mut Random::new(seed));
                let got = results(&kernel(&other), &sizes, seed);
                let known = |(of, _): &(usize, Vec<u8>)| wanted.iter().any(|(variant, _)| variant == of);
                assert!(got.iter().any(known), "{name}: no variant is in both");
                for (variant, bits) in got {
                    let same = wanted.iter().find(|(of, _)| *of == variant).is_none_or(|(_, of)| *of == bits);
                    assert!(
                        same,
                        "{name}, {sizes:?}, schedule {seed}, variant {variant}: other bits\n{}",
                        text::print(&other)
                    );
                }
            }
        }
    });
}
