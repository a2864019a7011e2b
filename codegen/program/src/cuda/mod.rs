//! The CUDA C printer: from a thread program to one self-contained source without headers, readable first,
//! for NVRTC second.
//!
//! It does not know tiles, layouts or earlier passes: it prints statements in program order. Printing is
//! deterministic.
//!
//! The source has no undefined behaviour, from which a compiler would derive bounds and remove guards:
//! - Index arithmetic is `int` if an expression's range fits, otherwise `long long`. If 64 bits may not suffice, it wraps (`int`).
//!   Lowering and the simulator check 32-bit variables and operands (`Kernel::check_widths`).
//! - Arithmetic on elements uses operators if ranges prove that C defines the result, otherwise functions that are defined as Rust's
//!   `wrapping_` functions are. The same is true of shifts, quotients, and conversions of numbers out of range (`value`).
//! - A pointer is `__restrict__` if no other thread writes the elements that are read (`signature`): NVRTC may reuse a value read
//!   through such a pointer, even after barriers and inline assembly that clobbers memory.
//! - Vectors are loaded from addresses that are multiples of their size; facts of the launch ensure that, and the simulator checks
//!   it. Elements are read as words and vectors of other types, which is safe with NVRTC: it has no type-based alias analysis.
//! - Expressions have no side effects, so their order of evaluation is free. Loops that wait are in volatile assembly, and so are
//!   loads of elements that other threads change; other loops have a known number of iterations.
//!
//! Floating-point arithmetic is rounded as written (the compiler is given `--fmad=false`; only `fmaf` is fused). `sqrtf`
//! and `/` are rounded correctly. `expf`, `logf`, `log2f`, `rsqrtf`, `tanhf`, `sinf` and `cosf` are CUDA's functions, within four
//! units in the last place; so is 2^x, except that results below 2^-126 become 0. Their counterparts for `double` are
//! within two.

mod access;
mod asm;
mod common;
mod constants;
mod declare;
mod header;
mod instrument;
mod int;
mod literal;
mod loops;
mod memory;
mod names;
mod piece;
mod prelude;
mod ptx;
mod regs;
pub mod report;
mod signature;
mod statement;
mod value;

pub use header::needs;
pub use instrument::{ENTRY, Instrument, MARKS, Mark, RECORD_WORDS, RECORDS};

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use common::Call;
use constants::Constants;
use loops::Loop;

use crate::source::ast::Span;
use crate::thread::index::Exprs;
use crate::thread::mention::{any, counts, widest};
use crate::thread::{Id, Kernel, Op, Stmt};
use crate::values::elem::Elem;
pub use names::{Names, comment};

/// Prints a kernel.
///
/// ```
/// use tilewright_program::{cuda, index::Exprs, thread::{Kernel, Launch}};
/// let launch = Launch {
///     grid: Default::default(), divided: 0, cluster: [1; 3], threads: 128, shared_bytes: 0, blocks_per_sm: 0, packs: Vec::new(), read_sizes: Vec::new(), overlaps: false, beside: false,
///     persistent: false, cost: None,
/// };
/// let kernel = Kernel {
///     name: "nothing".into(), arch: 80, arch_specific: false, launch, needs: vec![], params: vec![], shared: vec![],
///     regs: vec![], bars: vec![], exprs: Exprs::default(), vars: vec![], sites: vec![], body: vec![],
/// };
/// let source = cuda::print(&kernel);
/// assert!(source.ends_with("extern \"C\" __global__ void __launch_bounds__(128) nothing() {\n}\n"));
/// ```
pub fn print(kernel: &Kernel) -> String {
    print_with_spans(kernel).0
}

/// The same, with the span of each line: of the author's statement that it comes from.
///
/// ```
/// # use tilewright_codegen::Generate;
/// use tilewright_program::{Definition, cuda};
/// let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
/// let (source, spans) = cuda::print_with_spans(&kernel.variants[0].program);
/// assert_eq!(source.lines().count(), spans.len());
/// assert_eq!(source, kernel.source());
/// ```
pub fn print_with_spans(kernel: &Kernel) -> (String, Vec<Span>) {
    let (source, spans, _) = printed(kernel, Instrument::default());
    (source, spans)
}

fn printed(kernel: &Kernel, instrument: Instrument) -> (String, Vec<Span>, Vec<Mark>) {
    let kernel = without_claims(kernel);
    let mut printer = Printer { instrument, ..Printer::new(&kernel) };
    printer.body();
    let body = std::mem::take(&mut printer.out);
    let sites = std::mem::take(&mut printer.sites);
    let (header, atoms, signature) = (printer.header(), printer.atom_functions(), printer.signature());
    let atoms = atoms + &printer.ptx_functions();
    let (prologue, memory) = (printer.prologue(), printer.shared_memory());

    let constants = printer.constants();
    let code = [atoms, signature + " {\n" + &constants + &memory + &prologue + &body + "}\n"];
    let prelude = prelude::needed_by(&code);
    let sections = [header].into_iter().chain(prelude).chain(code);
    let sections: Vec<String> = sections.filter(|section| !section.is_empty()).collect();
    let source = sections.join("\n");
    // The body is the end of the source, in front of a closing brace.
    let before = source.lines().count().saturating_sub(sites.len() + 1);
    let spans =
        sites.iter().map(|site| kernel.sites.get(*site as usize).map_or(Span::default(), |site| site.span));
    let rest = std::iter::repeat(Span::default());
    let spans = rest.clone().take(before).chain(spans).chain(rest.take(1)).collect();
    (source, spans, printer.marks)
}

/// The same for an instrumented kernel, and the statements that its timeline has; `file` and `lines` are of the author's text, a line
/// for each span.
///
/// ```
/// # use tilewright_codegen::Generate;
/// use tilewright_program::{Definition, cuda};
/// let kernel = &Definition::Matmul(vec![]).generate().kernel.unwrap().variants[0];
/// let (source, marks) = cuda::print_instrumented(&kernel.program, cuda::Instrument::default(), "a.rs", &[12]);
/// assert!(source == kernel.source && marks.is_empty());
/// ```
pub fn print_instrumented(
    kernel: &Kernel,
    instrument: Instrument,
    file: &str,
    lines: &[u32],
) -> (String, Vec<Mark>) {
    let (source, spans, marks) = printed(kernel, instrument);
    let source = if instrument.lines { instrument::with_lines(&source, &spans, file, lines) } else { source };
    (source, marks)
}

/// The kernel without claims of its author, which only the simulator checks.
fn without_claims(kernel: &Kernel) -> Cow<'_, Kernel> {
    fn drop(body: &mut Vec<Stmt>) {
        body.retain(|stmt| !matches!(stmt.op, Op::Claim(_)));
        body.iter_mut().flat_map(|stmt| stmt.op.blocks_mut()).for_each(drop);
    }
    if !any(&kernel.body, |op| matches!(op, Op::Claim(_))) {
        return Cow::Borrowed(kernel);
    }
    let mut kernel = kernel.clone();
    drop(&mut kernel.body);
    Cow::Owned(kernel)
}

/// The name of a kernel's function in the source: its own, unless that is a word of CUDA C.
pub fn entry(kernel: &Kernel) -> String {
    Names::of(kernel).kernel
}

/// The state of the printer.
struct Printer<'k> {
    kernel: &'k Kernel,
    /// The kernel's expressions, and the few that the printer adds.
    exprs: Exprs,
    names: Names,
    out: String,
    /// The site of each line of `out`, and of the statement that is being printed.
    sites: Vec<Id>,
    site: Id,
    depth: usize,
    /// Register arrays that are not declared yet.
    undeclared: BTreeSet<Id>,
    /// The number of uses of each register array.
    uses: BTreeMap<Id, usize>,
    /// The vector width of the widest access to each.
    widest: BTreeMap<Id, u32>,
    /// Do instructions of the table take shared memory addresses as integers?
    by_number: bool,
    /// The constants with names that the body uses.
    constants: Constants,
    /// The built-in variables that the body uses.
    used: Vec<Builtin>,
    /// Instructions of the author, each a function: the text, the types of the result and the operands, and whether it is
    /// volatile.
    ptx: Vec<(String, Elem, Vec<Elem>, bool)>,
    /// The warps of the role that is being printed.
    role: Option<(u32, u32)>,
    /// The enclosing loops.
    loops: Vec<Loop>,
    /// Does another branch store elements of the vectors that this one stores?
    elements_elsewhere: bool,
    /// Calls of functions of integers that several roles compute, by the first of these integers.
    common: BTreeMap<Id, Call>,
    instrument: Instrument,
    /// The number of probes so far, the statements of the timeline, the last one of the block, and the name of the role.
    probes: usize,
    marks: Vec<Mark>,
    marked: Option<Mark>,
    role_name: String,
}

/// Built-in variables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Builtin {
    Thread,
    Block(u8),
    Grid(u8),
    ClusterRank,
    Warp,
}

/// Name and value of each, in the order in which they are declared.
const BUILTINS: [(Builtin, &str, &str); 9] = [
    (Builtin::Thread, "tid", "threadIdx.x"),
    (Builtin::Block(0), "bx", "blockIdx.x"),
    (Builtin::Block(1), "by", "blockIdx.y"),
    (Builtin::Block(2), "bz", "blockIdx.z"),
    (Builtin::Grid(0), "blocks_x", "gridDim.x"),
    (Builtin::Grid(1), "blocks_y", "gridDim.y"),
    (Builtin::Grid(2), "blocks_z", "gridDim.z"),
    (Builtin::ClusterRank, "rank", "__clusterRelativeBlockRank()"),
    (Builtin::Warp, "warp", "__shfl_sync(0xffffffff, threadIdx.x / 32, 0)"),
];

impl<'k> Printer<'k> {
    fn new(kernel: &'k Kernel) -> Printer<'k> {
        Printer {
            kernel,
            exprs: kernel.exprs.clone(),
            names: Names::of(kernel),
            out: String::new(),
            sites: Vec::new(),
            site: 0,
            depth: 1,
            undeclared: (0..kernel.regs.len() as Id).collect(),
            uses: counts(&kernel.body),
            widest: widest(&kernel.body),
            by_number: asm::loads_matrices(&kernel.body),
            constants: Constants::default(),
            used: Vec::new(),
            ptx: Vec::new(),
            role: None,
            loops: Vec::new(),
            common: BTreeMap::new(),
            elements_elsewhere: false,
            instrument: Instrument::default(),
            probes: 0,
            marks: Vec::new(),
            marked: None,
            role_name: String::new(),
        }
    }

    fn body(&mut self) {
        let kernel = self.kernel;
        let mut left_out = Vec::new();
        self.left_out(&kernel.body, &mut left_out);
        self.undeclared.retain(|reg| !left_out.contains(reg));
        self.block(&kernel.body);
        self.mark_end();
    }

    /// The built-in variables, under short names.
    fn prologue(&mut self) -> String {
        let mut text = String::new();
        // The axes of the grid share a line.
        let mut before = None;
        for (which, name, meaning) in BUILTINS.iter().filter(|row| self.used.contains(&row.0)) {
            let kind = std::mem::discriminant(which);
            if before.replace(kind) == Some(kind) {
                text.truncate(text.len() - ";\n".len());
                text += &format!(", {name} = {meaning};\n");
            } else {
                text += &format!("    const int {name} = {meaning};\n");
            }
        }
        if self.instrument.timeline {
            text += "    unsigned tilewright_marks = 0;\n";
        }
        if !text.is_empty() && !self.kernel.body.is_empty() {
            text.push('\n');
        }
        text
    }

    /// The name of a built-in variable, from now on used.
    fn builtin(&mut self, which: Builtin) -> String {
        if !self.used.contains(&which) {
            self.used.push(which);
        }
        let row = BUILTINS.iter().find(|row| row.0 == which);
        row.map_or("", |row| row.1).to_string()
    }

    /// One line at the current indentation.
    fn line(&mut self, text: &str) {
        for _ in 0..self.depth {
            self.out.push_str("    ");
        }
        self.out.push_str(text);
        self.out.push('\n');
        let lines = 1 + text.matches('\n').count();
        self.sites.extend(std::iter::repeat_n(self.site, lines));
    }

    /// An empty line, unless a block begins here or the previous line is empty.
    fn paragraph(&mut self) {
        let fresh = self.out.is_empty() || self.out.ends_with("{\n") || self.out.ends_with("\n\n");
        if !fresh {
            self.out.push('\n');
            self.sites.push(self.site);
        }
    }
}
