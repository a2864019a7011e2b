//! The kernels that are mutated, one of each kind, with arguments and results in double precision.

use tilewright::kernels;
use tilewright_codegen::affine::{Affine, Coord};
use tilewright_codegen::ast::Span;
use tilewright_codegen::build::Builder;
use tilewright_codegen::index::{Exprs, Int};
use tilewright_codegen::problem::Result;
use tilewright_codegen::thread::{
    AtomArg, Bar, Fence, Frag, Id, Kernel, Launch, Mem, Op, Param, Queue, Reg, Scope, Shared, Site, Space,
    Stmt, Unroll, Var,
};
use tilewright_codegen::tile::Program;
use tilewright_codegen::view::{At, Partition, View};
use tilewright_codegen::{Elem, Generate, Outcome};
use tilewright_layout::{Symbol, Tuple, Value, layout};
use tilewright_sim::{Arg, Error, Fault, Options, run_program};
use tilewright_tests::problem::{self, Operand, Problem, Reference, Setting, Values, Wanted};
use tilewright_tests::tensor::{Padding, Tensor};
use tilewright_tests::{choreography, gallery, programs};

/// Extents by name, and the padding of every leading dimension.
pub(crate) struct Size {
    pub(crate) extents: &'static [(&'static str, usize)],
    pub(crate) pad: usize,
}

/// A kernel's program, the sizes it is run at, and its reference.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) program: Kernel,
    pub(crate) sizes: [Size; 2],
    reference: Reference,
}

const fn size(extents: &'static [(&'static str, usize)], pad: usize) -> Size {
    Size { extents, pad }
}

/// All kernels. Each runs at a size that its tiles divide and at one that they do not, if the variant allows
/// it.
pub(crate) fn all() -> Vec<Subject> {
    let last = |outcome: Outcome| variant(outcome, usize::MAX);
    let shipped = |def: &tilewright::KernelDef| match def.definition() {
        Some(definition) => last(definition.generate()),
        None => panic!("a shipped kernel carries its definition"),
    };
    let built = |program: Result<Program>| match program {
        Ok(program) => tilewright_codegen::generate(program),
        Err(problem) => panic!("{}", problem.message),
    };
    let subject = |name, program, sizes| Subject { name, program, sizes, reference: problem::product };
    let multistage =
        || gallery::matmul("bm=64 bn=64 bk=8 tc=(8,8) schedule=(values=(4,4) fragments=2 vec=4) stages=3");
    let around = [size(&[("M", 64), ("N", 64), ("K", 40)], 0), size(&[("M", 70), ("N", 37), ("K", 29)], 3)];
    vec![
        subject(
            "tutorial",
            shipped(tilewright::Kernel::def(&kernels::tutorial::matmul_nt())),
            [size(&[("M", 128), ("N", 128), ("K", 16)], 0), size(&[("M", 70), ("N", 37), ("K", 13)], 3)],
        ),
        subject("multistage", last(multistage()), around),
        subject(
            "multistage, vectorised",
            variant(multistage(), 0),
            [size(&[("M", 64), ("N", 64), ("K", 40)], 0), size(&[("M", 128), ("N", 64), ("K", 8)], 4)],
        ),
        subject(
            "sliced K",
            last(gallery::matmul("bm=32 bn=32 bk=8 tc=((4,2),8,4)")),
            [size(&[("M", 32), ("N", 32), ("K", 24)], 0), size(&[("M", 37), ("N", 21), ("K", 13)], 3)],
        ),
        subject(
            "mma_sync",
            variant(built(programs::mma_sync()), 0),
            [size(&[("M", 64), ("N", 64), ("K", 96)], 0), size(&[("M", 128), ("N", 64), ("K", 40)], 8)],
        ),
        subject(
            "wgmma_ring",
            last(built(programs::wgmma_ring())),
            [size(&[("M", 64), ("N", 64), ("K", 320)], 0), size(&[("M", 50), ("N", 40), ("K", 600)], 8)],
        ),
        subject(
            "bulk epilogue",
            variant(
                gallery::matmul(
                    "dtype=bf16 arch=90 bm=64 bn=256 stages=2 schedule=(cluster=1) a=k_major b=k_major c=n_major",
                ),
                0,
            ),
            [size(&[("M", 64), ("N", 256), ("K", 64)], 0), size(&[("M", 40), ("N", 208), ("K", 200)], 8)],
        ),
        subject(
            "shared_tile",
            shipped(tilewright::Kernel::def(&kernels::ladder::shared_tile())),
            [size(&[("M", 32), ("N", 32), ("K", 64)], 0), size(&[("M", 30), ("N", 17), ("K", 45)], 3)],
        ),
        Subject {
            reference: tilewright_tests::memory::softmax,
            ..subject(
                "softmax",
                shipped(tilewright::Kernel::def(&kernels::softmax::softmax())),
                [size(&[("M", 2), ("N", 1024)], 0), size(&[("M", 2), ("N", 1100)], 4)],
            )
        },
        Subject {
            reference: transposed,
            ..subject(
                "two roles",
                last(built(transposed_by_roles())),
                [size(&[("M", 32), ("N", 32)], 0), size(&[("M", 30), ("N", 17)], 3)],
            )
        },
        Subject {
            reference: |all, _| exactly(all, |from, at| from.values[at]),
            ..subject("bulk stores", bulk_stores(), [size(&[("N", 1024)], 0), size(&[("N", 512)], 0)])
        },
        exchanges(),
    ]
}

/// Several exchanges between the blocks of a cluster for each row.
fn exchanges() -> Subject {
    let mut all = choreography::all().into_iter();
    let of = all.find(|of| of.name == "exchanges").unwrap_or_else(|| panic!("a choreography"));
    Subject {
        name: "exchanges",
        program: of.kernel().variants.pop().unwrap_or_else(|| panic!("a variant")).program,
        sizes: [size(&[("M", 3), ("N", 2500)], 0), size(&[("M", 300), ("N", 130)], 4)],
        reference: of.reference,
    }
}

/// A variant's program; the last variant's if the number is too large.
fn variant(outcome: Outcome, which: usize) -> Kernel {
    let complaints: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    let Some(kernel) = outcome.kernel else { panic!("{}", complaints.join("\n")) };
    kernel.variants[which.min(kernel.variants.len() - 1)].program.clone()
}

/// The expected result if its elements are elements of the first argument.
fn exactly(all: &[Operand], of: impl Fn(&Tensor, usize) -> f64) -> Vec<Wanted> {
    let [Operand::Tensor(from), ..] = all else { panic!("a tensor comes first") };
    (0..from.count()).map(|at| Wanted { value: of(from, at), within: 0.0 }).collect()
}

/// The transpose y (N, M) of x (M, N).
fn transposed(all: &[Operand], _: Values) -> Vec<Wanted> {
    exactly(all, |x, at| {
        let [rows, columns] = x.extents[..] else { panic!("a matrix") };
        x.values[at / columns + at % columns * rows]
    })
}

/// y = xᵀ: each block takes 32 rows, and each of two roles of two warps transposes 16 of them through shared
/// memory, with its own named barrier.
fn transposed_by_roles() -> Result<Program> {
    let sizes = |names: [&str; 2]| Tuple::of(names.map(|name| Tuple::from(Value::symbol(name))));
    let mut b = Builder::new("two_roles");
    let x = b.tensor("x", Elem::F32, sizes(["M", "N"]), None, false)?;
    let y = b.tensor("y", Elem::F32, sizes(["N", "M"]), None, true)?;
    let [row, column]: [At; 2] = [0, 1].map(|axis| At::Index(Coord::Block(axis).into()));
    let from = b.tile(&x, (32, 16), &[row.clone(), column.clone()])?;
    let to = b.tile(&y, (16, 32), &[column, row])?;
    let threads = layout!((16, 4));
    let upper = b.group("upper", (0, 2), None);
    let lower = b.group("lower", (2, 4), None);
    let halves = [
        b.shared("upper_half", Elem::F32, layout!((16, 16) : (1, 17)))?,
        b.shared("lower_half", Elem::F32, layout!((16, 16) : (1, 17)))?,
    ];
    let role = |group: Id, half: i64, shared: View| {
        let (from, to, threads) = (from.clone(), to.clone(), threads.clone());
        let body = move |b: &mut Builder| -> Result<()> {
            let (none, half) = (At::Index(Affine::from(0)), At::Index(Affine::from(half)));
            let from = b.tile(&from, (16, 16), &[half.clone(), none.clone()])?;
            let to = b.tile(&to, (16, 16), &[none, half])?;
            let partition = Partition::default();
            let part = |b: &mut Builder, view: &View| b.parallelize_over(view, &threads, group, &partition);
            let (source, target) = (part(b, &from)?, part(b, &shared)?);
            b.copy(&source, &target)?;
            b.commit_copies();
            b.wait_copies(0);
            b.sync();
            let columns = b.permute(&shared, &[1, 0])?;
            let (source, target) = (part(b, &columns)?, part(b, &to)?);
            b.copy(&source, &target)
        };
        (group, Box::new(body) as Box<dyn FnOnce(&mut Builder) -> Result<()>>)
    };
    let [first, second] = halves;
    b.roles(vec![role(upper, 0, first), role(lower, 1, second)])?;
    Ok(b.finish())
}

/// Copies 256 elements per iteration: ordinary stores to shared memory, then a bulk store by one thread,
/// which must have read shared memory before the next iteration writes.
fn bulk_stores() -> Kernel {
    const LEN: i64 = 256;
    let mut e = Exprs::default();
    let n = Value::Sym { times: 1, of: Symbol::new("N"), over: 1 };
    let pointer = |name: &str, write| Param::Pointer {
        name: name.into(),
        elem: Elem::F32,
        write,
        shape: vec![n],
        stride: vec![Value::Int(1)],
    };
    let sites =
        ["", "x", "tile", "y"].map(|tensor| Site { tensor: tensor.into(), span: Span(0), coord: vec![] });
    let s = |site: Id, op| Stmt { site, op };
    let (zero, extent) = (e.int(0), e.leaf(Int::Param(2), 0, i64::from(i32::MAX), 1, Scope::Grid));
    let count = e.div(extent, LEN);
    let thread = e.leaf(Int::Thread, 0, LEN - 1, 1, Scope::Thread);
    let iteration = e.leaf(Int::Var(0), 0, 1 << 20, 1, Scope::Grid);
    let len = e.int(LEN);
    let from = e.mul(iteration, len);
    let bytes = e.int(4 * LEN);
    let source = e.add(from, thread);
    let at = |space, index| Mem { space, index, peer: None };
    let (x, y, tile) = (Space::Global(0), Space::Global(1), Space::Shared(0));
    let whole = Frag { reg: 0, at: zero, len: 1 };
    let row = tilewright_codegen::isa::find("bulk_store").expect("the row");
    let args = vec![AtomArg::At(at(y, from)), AtomArg::At(at(tile, zero)), AtomArg::Int(bytes)];
    let one = vec![
        s(3, Op::Atom { row, args, guard: None }),
        s(0, Op::Commit(Queue::Bulk)),
        s(0, Op::WaitQueue { queue: Queue::BulkRead, pending: 0 }),
    ];
    let body = vec![
        s(1, Op::Load { to: whole, from: at(x, source), guard: None, fill: 0.0.into(), volatile_at: None }),
        s(2, Op::Store { to: at(tile, thread), from: whole, guard: None }),
        s(0, Op::Fence(Fence::ProxyAsync)),
        s(0, Op::sync(0)),
        s(0, Op::Elect(Scope::Block, one)),
        s(0, Op::sync(0)),
    ];
    let (from, to, unroll) = (zero, count, Unroll::No);
    let copy = Op::For { var: 0, from, to, step: 1, unroll, body };
    let end = vec![s(0, Op::WaitQueue { queue: Queue::Bulk, pending: 0 })];
    let tile = Shared {
        name: "tile".into(),
        elem: Elem::F32,
        len: LEN as u32,
        offset: 0,
        align: 128,
        note: "(256):(1)".into(),
    };
    let (threads, shared_bytes) = (LEN as u32, tile.bytes());
    let grid = [vec![Value::Int(1)], vec![], vec![]];
    Kernel {
        name: "bulk_stores".into(),
        arch: 90,
        arch_specific: false,
        launch: Launch {
            cost: None,
            grid,
            divided: 0,
            cluster: [1; 3],
            threads,
            shared_bytes,
            blocks_per_sm: 0,
            packs: Vec::new(),
            overlaps: false,
            beside: false,
            persistent: false,
        },
        needs: vec![],
        params: vec![
            pointer("x", false),
            pointer("y", true),
            Param::Int { name: "N".into(), symbol: Symbol::new("N"), wide: false },
        ],
        shared: vec![tile],
        regs: vec![Reg { name: "piece".into(), elem: Elem::F32, len: 1, words: false }],
        bars: vec![Bar::Block],
        exprs: e,
        vars: vec![Var { name: "iteration".into(), mutable: false, wide: false, array: None }],
        sites: sites.to_vec(),
        body: vec![s(0, copy), s(0, Op::Elect(Scope::Block, end))],
    }
}

/// The outcome of a run.
pub(crate) enum Shown {
    Right,
    Fault(Box<Fault>),
    /// A result that differs from the reference.
    Wrong,
}

/// Arguments of one size, and the expected result.
pub(crate) struct Case {
    args: Vec<Arg>,
    problem: Problem,
}

impl Subject {
    /// One case per size.
    pub(crate) fn cases(&self) -> Vec<Case> {
        self.sizes.iter().map(|size| self.case(size)).collect()
    }

    fn case(&self, size: &Size) -> Case {
        let (sizes, paddings, values) = (size.extents, &[Padding::new(size.pad, 0)], Values::Whole);
        let setting = Setting { sizes, paddings, values, seed: 1, alpha: 1.0, beta: 0.0 };
        let problem = Problem::new(&self.program.params, &setting, self.reference);
        Case { args: problem.blank_args(), problem }
    }
}

impl Case {
    /// Runs a program.
    pub(crate) fn run(&self, program: &Kernel, seed: u64) -> Shown {
        let options = Options { seed, count: false, threads: 1, ..Options::default() };
        let outcome = match run_program(program, &self.args, &options) {
            Ok(outcome) => outcome,
            Err(Error::Fault(fault)) => return Shown::Fault(fault),
            Err(error) => panic!("{}: {error}", program.name),
        };
        match self.problem.wrong_outcome(&outcome) {
            Some(_) => Shown::Wrong,
            None => Shown::Right,
        }
    }
}
