//! Every access after every other, to the same tile in shared or global memory, by statements on whole tiles: each program is
//! refused, or gives the results of program order with any schedule, without a race.

use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::build::Builder;
use tilewright_codegen::condition::Test;
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{Bin, Change, Unroll};
use tilewright_codegen::tile::{Ahead, Expr, Order, Program};
use tilewright_codegen::view::{At, View};
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Tuple, Value};
use tilewright_sim::{Arg, Options, run_every};
use tilewright_tests::sweep;

/// Rows and columns of a tile.
const T: usize = 16;
const BLOCKS: usize = 2;
/// Iterations of a loop.
const TIMES: usize = 3;

/// Where the tile is that is accessed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Memory {
    Shared,
    Global,
    /// Tiles that the copies of a pipelined loop fill, in that loop.
    Filled,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Access {
    Fill,
    Store,
    StorePermuted,
    /// From global to shared memory, asynchronously.
    Arrive,
    FromShared,
    Update,
    Scatter,
    Out,
    OutPermuted,
    Load,
    /// From global to shared memory, read at once.
    Fetch,
    /// The same, read at the end of the program.
    FetchAhead,
    Gather,
    Take,
    Multiply,
    ShiftSelf,
    PermuteSelf,
    MapSelf,
    UpdateSelf,
    /// From one part of the tile to another.
    Apart,
}

use Access::*;

const ALL: [Access; 20] = [
    Fill,
    Store,
    StorePermuted,
    Arrive,
    FromShared,
    Update,
    Scatter,
    Out,
    OutPermuted,
    Load,
    Fetch,
    FetchAhead,
    Gather,
    Take,
    Multiply,
    ShiftSelf,
    PermuteSelf,
    MapSelf,
    UpdateSelf,
    Apart,
];

/// The control flow between two accesses.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Around {
    Straight,
    /// Only the first block performs the first.
    IfFirst,
    /// Only the first block performs the second.
    IfSecond,
    Loop,
    /// Only the first iteration performs the first.
    LoopIfFirst,
    /// Only the first iteration performs the second.
    LoopIfSecond,
    /// One loop after the other.
    Loops,
    Pipelined(u32),
    Produced,
    /// Ahead of a loop whose copies a producer issues.
    BeforeProduced,
    /// The second is of a later stage.
    Staged,
}

use Around::*;

const AROUND: [Around; 12] = [
    Straight,
    IfFirst,
    IfSecond,
    Loop,
    LoopIfFirst,
    LoopIfSecond,
    Loops,
    Pipelined(1),
    Pipelined(2),
    Produced,
    BeforeProduced,
    Staged,
];

type Tile = [[f32; T]; T];

fn given() -> Tile {
    tile(|i, j| ((i * 7 + j * 3) % 11) as f32)
}

fn tile(of: impl Fn(usize, usize) -> f32) -> Tile {
    std::array::from_fn(|i| std::array::from_fn(|j| of(i, j)))
}

/// The contents of a block's memory.
struct Model {
    shared: Tile,
    global: Tile,
    filled: Tile,
    fetched: Tile,
    outs: Vec<Tile>,
}

impl Model {
    fn new() -> Model {
        let zeros = [[0.0; T]; T];
        let (shared, global) = (tile(|_, _| 1.0), tile(|i, j| (i + j) as f32));
        Model { shared, global, filled: given(), fetched: zeros, outs: vec![zeros; 3] }
    }

    fn run(&mut self, access: Access, memory: Memory, index: usize) {
        let r = tile(|i, j| given()[i][j] + 3.0);
        let own = match memory {
            Memory::Shared => &mut self.shared,
            Memory::Global => &mut self.global,
            Memory::Filled => &mut self.filled,
        };
        let before = *own;
        let out = &mut self.outs[index];
        match access {
            Fill => *own = tile(|_, _| 5.0 + index as f32),
            Store => *own = r,
            StorePermuted => *own = tile(|i, j| r[j][i]),
            Arrive => *own = given(),
            FromShared => *own = tile(|i, j| given()[i][j] + 3.0),
            Update => *own = tile(|i, j| before[i][j] + r[i][j]),
            Scatter => *own = tile(|i, j| r[T - 1 - i][j]),
            Out | Load => *out = before,
            Fetch => (self.fetched, *out) = (before, before),
            FetchAhead => self.fetched = before,
            OutPermuted => *out = tile(|i, j| before[j][i]),
            Gather => *out = tile(|i, j| before[T - 1 - i][j]),
            Take => *out = tile(|_, _| before[2][3]),
            Multiply => *out = tile(|i, j| (0..T).map(|k| before[i][k] * r[j][k]).sum()),
            ShiftSelf => *own = tile(|i, j| if j < T / 2 { before[i][j + 1] } else { before[i][j] }),
            PermuteSelf => *own = tile(|i, j| before[j][i]),
            MapSelf => *own = tile(|i, j| before[i][j] - before[j][i]),
            UpdateSelf => *own = tile(|i, j| before[i][j] + before[j][i]),
            Apart => *own = tile(|i, j| if j < T / 2 { before[i][j + T / 2] } else { before[i][j] }),
        }
    }
}

/// A program, and the tiles in it.
struct Scene {
    b: Builder,
    given: View,
    shared: View,
    global: View,
    /// All of the tensor in global memory.
    whole: View,
    /// Tiles that a pipelined loop fills, in that loop.
    filled: Option<View>,
    other: View,
    fetched: View,
    registers: View,
    /// The position of each element: its row counted from the last one, its column, and its column in the tensor.
    places: [View; 3],
    outs: Vec<View>,
    /// The tile that is read at the end, and its target.
    late: Option<usize>,
}

fn block() -> Affine {
    Coord::Block(0).into()
}

impl Scene {
    fn new() -> Result<Scene> {
        let mut b = Builder::new("pair");
        b.threads(64)?;
        let rows = || Some(Tuple::of([Value::symbol("ld").into(), Tuple::from(1)]));
        let n = Value::symbol("N");
        let argument = |b: &mut Builder, name: &str, mutable| -> Result<(View, View)> {
            let whole = b.tensor(name, Elem::F32, (Value::Int(T as i64), n), rows(), mutable)?;
            let own = b.tile(&whole, (T as i64, T as i64), &[At::Index(0.into()), At::Index(block())])?;
            Ok((own, whole))
        };
        let (_, given) = argument(&mut b, "g", false)?;
        // No element of the tile `g` is out of bounds: products combine functions of all of them.
        b.at_least(n, T as i64);
        let given = b.tile(&given, (T as i64, T as i64), &[At::Index(0.into()), At::Index(0.into())])?;
        let (global, whole) = argument(&mut b, "x", true)?;
        let outs: Vec<View> = ["first", "second", "last"]
            .into_iter()
            .map(|name| argument(&mut b, name, true).map(|(own, _)| own))
            .collect::<Result<_>>()?;
        let shape = (T as i64, T as i64);
        let shared = b.shared_tile("s", Elem::F32, shape)?;
        let other = b.shared_tile("t", Elem::F32, shape)?;
        let fetched = b.shared_tile("f", Elem::F32, shape)?;
        let registers = b.distributed("r", Elem::F32, &[T as i64; 2])?;
        let integers = |b: &mut Builder, name: &str| b.distributed(name, Elem::I32, &[T as i64; 2]);
        let places = [integers(&mut b, "rows")?, integers(&mut b, "columns")?, integers(&mut b, "of_all")?];
        let plus = |x, y| Expr::Bin(Bin::Add, Box::new(x), Box::new(y));
        b.map(std::slice::from_ref(&given), &registers, plus(Expr::In(0), Expr::lit(3.0)))?;
        let from_end = Expr::Bin(Bin::Sub, Box::new(Expr::lit(T as i64 - 1)), Box::new(Expr::At(0)));
        b.map(std::slice::from_ref(&given), &places[0], from_end)?;
        b.map(std::slice::from_ref(&given), &places[1], Expr::At(1))?;
        let first =
            Expr::Bin(Bin::Mul, Box::new(Expr::Index(Box::new(block()))), Box::new(Expr::lit(T as i64)));
        b.map(std::slice::from_ref(&given), &places[2], plus(Expr::At(1), first))?;
        b.fill(&shared, Expr::lit(1.0))?;
        b.fill(&fetched, Expr::lit(0.0))?;
        b.copy(&registers, &other)?;
        let (filled, late) = (None, None);
        Ok(Scene { b, given, shared, global, whole, filled, other, fetched, registers, places, outs, late })
    }

    fn perform(&mut self, access: Access, memory: Memory, index: usize) -> Result<()> {
        let own = match memory {
            Memory::Shared => self.shared.clone(),
            Memory::Global => self.global.clone(),
            Memory::Filled => self.filled.clone().expect("a pipelined loop"),
        };
        let b = &mut self.b;
        let permuted = b.permute(&own, &[1, 0])?;
        let part = |b: &mut Builder, at: i64| {
            b.tile(&own, (T as i64, T as i64 / 2), &[At::Index(0.into()), At::Index(at.into())])
        };
        let (all, at) = match memory {
            Memory::Shared | Memory::Filled => {
                (own.clone(), [self.places[0].clone(), self.places[1].clone()])
            }
            Memory::Global => (self.whole.clone(), [self.places[0].clone(), self.places[2].clone()]),
        };
        let own_tile = |b: &mut Builder| b.distributed("own", Elem::F32, &[T as i64; 2]);
        let (r, out) = (&self.registers, &self.outs[index]);
        match access {
            Fill => b.fill(&own, Expr::lit(5.0 + index as f64)),
            Store => b.copy(r, &own),
            StorePermuted => b.copy(r, &permuted),
            Arrive => b.copy(&self.given, &own),
            FromShared => b.copy(&self.other, &own),
            Update => b.atomic(r, &own, Change::Add),
            Scatter => b.scatter(r, &at, &all, None, false),
            Out => b.copy(&own, out),
            OutPermuted => b.copy(&permuted, out),
            Load => {
                let t = own_tile(b)?;
                b.copy(&own, &t)?;
                b.copy(&t, out)
            }
            Fetch => {
                b.copy(&own, &self.fetched)?;
                b.copy(&self.fetched, out)
            }
            FetchAhead => {
                self.late = Some(index);
                b.copy(&own, &self.fetched)
            }
            Gather => {
                let t = own_tile(b)?;
                b.gather(&all, &at, &t)?;
                b.copy(&t, out)
            }
            Take => {
                let one = b.slice(&own, &[At::Index(2.into()), At::Index(3.into())])?;
                let number = b.take("number", &one, tilewright_codegen::tile::Purpose::Value)?;
                b.fill(out, Expr::Index(Box::new(number)).cast(Elem::F32))
            }
            Multiply => {
                let acc = own_tile(b)?;
                b.fill(&acc, Expr::lit(0.0))?;
                b.gemm(&own, &self.other, &acc, Order::Plain)?;
                b.copy(&acc, out)
            }
            ShiftSelf => {
                let part = part(b, 0)?;
                let next = b.shift(&part, &[0.into(), 1.into()])?;
                b.copy(&next, &part)
            }
            PermuteSelf => b.copy(&permuted, &own),
            MapSelf => {
                let minus = Expr::Bin(Bin::Sub, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
                b.map(&[own.clone(), permuted], &own, minus)
            }
            UpdateSelf => b.atomic(&permuted, &own, Change::Add),
            Apart => {
                let (first, second) = (part(b, 0)?, part(b, 1)?);
                b.copy(&second, &first)
            }
        }
    }

    /// A loop.
    fn repeated(&mut self, body: impl FnOnce(&mut Scene, Affine) -> Result<()>) -> Result<()> {
        self.inside(|b, run| b.repeat("k", TIMES as i64, Unroll::No, run), body)
    }

    /// A loop that copies a tile, and reads of the tile.
    fn pipelined(
        &mut self,
        ahead: impl Into<Ahead>,
        body: impl FnOnce(&mut Scene) -> Result<()>,
    ) -> Result<()> {
        let (ahead, copied) = (ahead.into(), self.b.shared_tile("p", Elem::F32, (T as i64, T as i64))?);
        let given = self.given.clone();
        self.inside(
            |b, run| b.pipelined("k", TIMES as i64, ahead, run),
            |scene, _| {
                scene.b.copy(&given, &copied)?;
                let out = scene.outs[2].clone();
                scene.b.copy(&copied, &out)?;
                scene.filled = Some(copied);
                body(scene)
            },
        )
    }

    /// Statements of this scene in a body of the builder's.
    fn inside(
        &mut self,
        open: impl FnOnce(&mut Builder, &mut dyn FnMut(&mut Builder, Affine) -> Result<()>) -> Result<()>,
        body: impl FnOnce(&mut Scene, Affine) -> Result<()>,
    ) -> Result<()> {
        let mut b = std::mem::replace(&mut self.b, Builder::new("none"));
        let mut body = Some(body);
        let done = open(&mut b, &mut |b, at| {
            std::mem::swap(b, &mut self.b);
            let done = body.take().map_or(Ok(()), |body| body(self, at));
            std::mem::swap(b, &mut self.b);
            done
        });
        self.b = b;
        done
    }

    fn when(&mut self, test: Test, then: impl FnOnce(&mut Scene) -> Result<()>) -> Result<()> {
        self.inside(|b, run| b.branch(test, |b| run(b, 0.into()), |_| Ok(())), |scene, _| then(scene))
    }

    fn finish(mut self) -> Result<Program> {
        if let Some(index) = self.late {
            self.b.copy(&self.fetched, &self.outs[index])?;
        }
        self.b.copy(&self.shared, &self.outs[2])?;
        Ok(self.b.finish())
    }
}

/// The program of two accesses.
fn program(one: Access, two: Access, memory: Memory, around: Around) -> Result<Program> {
    let mut scene = Scene::new()?;
    let first = |scene: &mut Scene| scene.perform(one, memory, 0);
    let second = |scene: &mut Scene| scene.perform(two, memory, 1);
    let produced = Ahead { producer: true, ..2.into() };
    match around {
        Straight => first(&mut scene).and_then(|()| second(&mut scene))?,
        IfFirst => {
            scene.when(Test::less(block(), 1), first)?;
            second(&mut scene)?;
        }
        IfSecond => {
            first(&mut scene)?;
            scene.when(Test::less(block(), 1), second)?;
        }
        Loop => scene.repeated(|scene, _| first(scene).and_then(|()| second(scene)))?,
        LoopIfFirst => scene.repeated(|scene, k| {
            scene.when(Test::less(k, 1), first)?;
            second(scene)
        })?,
        LoopIfSecond => scene.repeated(|scene, k| {
            first(scene)?;
            scene.when(Test::less(k, 1), second)
        })?,
        Loops => {
            scene.repeated(|scene, _| first(scene))?;
            scene.repeated(|scene, _| second(scene))?;
        }
        Pipelined(stages) => scene.pipelined(stages, |scene| first(scene).and_then(|()| second(scene)))?,
        Produced => scene.pipelined(produced, |scene| first(scene).and_then(|()| second(scene)))?,
        BeforeProduced => {
            first(&mut scene)?;
            scene.pipelined(produced, second)?;
        }
        Staged => scene.repeated(|scene, _| {
            first(scene)?;
            scene.b.stage(1)?;
            second(scene)
        })?,
    }
    scene.finish()
}

/// The results of a block.
fn expected(one: Access, two: Access, memory: Memory, around: Around, block: usize) -> Model {
    let mut model = Model::new();
    let is_first = block == 0;
    let run = |model: &mut Model, first: bool, second: bool| {
        for (access, index, runs) in [(one, 0, first), (two, 1, second)] {
            if runs {
                model.run(access, memory, index);
            }
        }
    };
    match around {
        Straight => run(&mut model, true, true),
        IfFirst => run(&mut model, is_first, true),
        IfSecond => run(&mut model, true, is_first),
        Loop | Staged => (0..TIMES).for_each(|_| run(&mut model, true, true)),
        Pipelined(_) | Produced => (0..TIMES).for_each(|_| {
            model.filled = given();
            run(&mut model, true, true);
        }),
        LoopIfFirst => (0..TIMES).for_each(|k| run(&mut model, k == 0, true)),
        LoopIfSecond => (0..TIMES).for_each(|k| run(&mut model, true, k == 0)),
        Loops | BeforeProduced => {
            let times = if around == Loops { TIMES } else { 1 };
            (0..times).for_each(|_| run(&mut model, true, false));
            (0..TIMES).for_each(|_| run(&mut model, false, true));
        }
    }
    if let Some(index) = [one, two].iter().rposition(|access| *access == FetchAhead) {
        model.outs[index] = model.fetched;
    }
    model.outs[2] = model.shared;
    model
}

/// The outcome of a pair.
enum Verdict {
    Right,
    Refused(String),
    Wrong(String),
}

fn judged(one: Access, two: Access, memory: Memory, around: Around) -> Verdict {
    let program = match program(one, two, memory, around) {
        Ok(program) => program,
        Err(problem) => return Verdict::Refused(problem.message.to_string()),
    };
    let outcome = generate(program);
    let Some(kernel) = outcome.kernel else {
        return Verdict::Refused(outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect());
    };
    let columns = T * BLOCKS;
    let flat = |of: &dyn Fn(usize) -> Tile| -> Vec<f32> {
        (0..T).flat_map(|i| (0..columns).map(move |j| (i, j))).map(|(i, j)| of(j / T)[i][j % T]).collect()
    };
    let tensor = |of: &dyn Fn(usize) -> Tile| Arg::in_out(&flat(of), [T, columns]).strides([columns, 1]);
    let zeros = || tensor(&|_| [[0.0; T]; T]);
    let given = Arg::tensor(&flat(&|_| given()), [T, columns]).strides([columns, 1]);
    let args = [given, tensor(&|_| Model::new().global), zeros(), zeros(), zeros()];
    let wanted: Vec<Model> = (0..BLOCKS).map(|block| expected(one, two, memory, around, block)).collect();
    for seed in 0..2 {
        let options = Options { seed, written_once: false, ..Options::default() };
        let all = match run_every(&kernel, &args, &options) {
            Ok(all) => all,
            Err(fault) => return Verdict::Wrong(fault.to_string()),
        };
        for outcome in all {
            let names = [("x", None), ("first", Some(0)), ("second", Some(1)), ("last", Some(2))];
            for (name, index) in names {
                let got = outcome.get::<f32>(name).unwrap();
                let of =
                    |block: usize| index.map_or(wanted[block].global, |at: usize| wanted[block].outs[at]);
                if got != flat(&of) {
                    return Verdict::Wrong(format!("`{name}` is wrong\n{}", kernel.source()));
                }
            }
        }
    }
    Verdict::Right
}

/// Does it read or write the tile in this memory?
fn is_of(access: Access, memory: Memory) -> bool {
    match access {
        Arrive => memory == Memory::Shared,
        Fetch | FetchAhead => memory == Memory::Global,
        _ => true,
    }
}

/// Why pairs are refused: the schedule, the producer or the pipelined loop would change their order; or something else is
/// wrong with them.
const REFUSALS: [&str; 8] = [
    "in stage 0 would run for the next iteration before",
    "of a pipelined loop, and used outside of it",
    "filled by the copies of a pipelined loop, and written here as well",
    "is filled by a pipelined loop, and used outside of it",
    "is read here before the copy that fills it",
    "copies of later iterations run ahead",
    "multiplies elements of different",
    "is stored to other coordinates than it was computed for",
];

/// Why copies of written tensors are refused.
const WRITTEN: [&str; 2] =
    ["the producer, which runs ahead, does not wait", "is written here before it is copied"];

#[test]
fn pairs_of_accesses_are_in_program_order() {
    let pairs = [Memory::Shared, Memory::Global, Memory::Filled].into_iter().flat_map(|memory| {
        let all = move || ALL.into_iter().filter(move |access| is_of(*access, memory));
        all().flat_map(move |one| all().map(move |two| (one, two, memory)))
    });
    let cases = pairs.flat_map(|(one, two, memory)| AROUND.map(|around| (one, two, memory, around)));
    let cases = cases.filter(|(_, _, memory, around)| {
        *memory != Memory::Filled || matches!(around, Pipelined(_) | Produced)
    });
    let cases = sweep::share(cases, 60);
    // Of a share, more may be refused by chance.
    let (count, part) = (cases.len(), if sweep::is_full() { 4 } else { 3 });
    let refused = judge(cases);
    assert!(refused * part < count, "{refused} of {count} are refused");
}

/// How many pairs are refused. Fails where one is refused for an unknown reason, or computes something else.
fn judge(cases: Vec<(Access, Access, Memory, Around)>) -> usize {
    let count = cases.len();
    let (mut refused, mut wrong) = (0, Vec::new());
    for (one, two, memory, around) in cases {
        match judged(one, two, memory, around) {
            Verdict::Right => {}
            Verdict::Refused(why) => {
                let is_known = REFUSALS.iter().chain(&WRITTEN).any(|part| why.contains(part));
                if !is_known {
                    wrong.push(format!("{one:?}, {two:?}, {memory:?}, {around:?} is refused: {why}"));
                }
                refused += 1;
            }
            Verdict::Wrong(how) => wrong.push(format!("{one:?}, {two:?}, {memory:?}, {around:?}: {how}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    refused
}

/// Threads share tiles that a producer's copies have filled.
#[test]
fn pairs_of_accesses_to_what_a_producer_fills() {
    let writes = |access: &Access| !matches!(access, Out | OutPermuted | Load | Gather | Take | Multiply);
    let all = || ALL.into_iter().filter(|access| is_of(*access, Memory::Filled));
    let pairs = all().filter(writes).flat_map(|one| all().map(move |two| (one, two)));
    let cases: Vec<_> = pairs.map(|(one, two)| (one, two, Memory::Filled, Produced)).step_by(3).collect();
    let count = cases.len();
    let refused = judge(cases);
    assert!(refused * 4 < count, "{refused} of {count} are refused");
}
