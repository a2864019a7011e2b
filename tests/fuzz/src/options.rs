//! The options of the language's statements, from its own table of functions, and the pairs that a kernel can have.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;

use tilewright_codegen::ast::{Arg, ExprKind, Kernel};
use tilewright_codegen::evaluate::FUNCTIONS;

use crate::whole::each_expression;

/// An option: a named argument, or a statement about the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice {
    /// The function.
    pub function: &'static str,
    /// The name of its argument; empty for the call itself.
    pub name: &'static str,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.name.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{}", self.function, self.name)
    }
}

/// Functions whose calls are about the whole kernel.
const LAUNCH: [&str; 5] = ["persistent", "raster", "cluster", "blocks_per_sm", "at_least"];

/// Every option.
pub static ALL: LazyLock<Vec<Choice>> = LazyLock::new(|| {
    let calls = FUNCTIONS.iter().filter(|row| LAUNCH.contains(&row.name));
    let calls = calls.map(|row| Choice { function: row.name, name: "" });
    let named = |row: &'static tilewright_codegen::evaluate::Function| {
        row.named.iter().map(|name| Choice { function: row.name, name })
    };
    calls.chain(FUNCTIONS.iter().flat_map(named)).collect()
});

/// Every pair that a kernel is drawn for.
pub static PAIRS: LazyLock<Vec<[Choice; 2]>> = LazyLock::new(|| {
    let all = ALL.iter().enumerate().flat_map(|(at, one)| ALL[at..].iter().map(|other| [*one, *other]));
    all.filter(|pair| reason(pair).is_none()).collect()
});

/// Why no kernel is drawn with both; an option beside itself is the option alone.
pub fn reason(pair: &[Choice; 2]) -> Option<&'static str> {
    APART.iter().find(|row| concerns(row, pair)).map(|(.., why)| *why)
}

/// The options in the text of a kernel.
pub fn of_kernel(kernel: &Kernel) -> BTreeSet<Choice> {
    let mut all = BTreeSet::new();
    each_expression(&kernel.body, &mut |of| {
        let ExprKind::Call { function, args, .. } = of else { return };
        let is_given = |of: &&Choice| {
            let has = |arg: &Arg| arg.name.as_ref().is_some_and(|name| name.text == of.name);
            of.function == function.text && (of.name.is_empty() || args.iter().any(has))
        };
        all.extend(ALL.iter().filter(is_given));
    });
    all
}

/// The exceptions that concern no pair.
pub fn idle_exceptions() -> Vec<String> {
    let pairs: Vec<[Choice; 2]> = ALL.iter().flat_map(|one| ALL.iter().map(|other| [*one, *other])).collect();
    let is_idle = |row: &&Exception| !pairs.iter().any(|pair| concerns(row, pair));
    APART.iter().filter(is_idle).map(|(x, y, _)| format!("{x} with {y}")).collect()
}

/// Two options, each by its name or by the beginning of names before `*`, and why no kernel is drawn with both.
type Exception = (&'static str, &'static str, &'static str);

fn concerns((x, y, _): &Exception, [one, other]: &[Choice; 2]) -> bool {
    let is = |pattern: &str, of: &Choice| match pattern.strip_suffix('*') {
        Some(begin) => of.to_string().starts_with(begin),
        None => of.to_string() == pattern,
    };
    is(x, one) && is(y, other) || is(x, other) && is(y, one)
}

const PARTS: &str = "parts of several elements of a thread: kernels of parts have it";
const IN_TURN: &str = "blocks of a cluster exchange elements, and the oracle runs one block after another";
const ONE_OF_TWO: &str = "refused: one of both is written";
const CARRY: &str = "a carry of each thread: the oracle has carries of whole tiles";

const ALTERNATES: &str =
    "refused: groups that alternate have copies, functions of elements and products alone";
const CUDA_CORES: &str = "refused: tensor cores add products, in the order of their instruction";
const FRAGMENTS: &str = "refused: fragments of a loop with a producer are not prefetched";
const ONE_PRODUCT: &str = "refused: fragments are loaded ahead in loops that are one product on CUDA cores";
const UPDATE: &str = "refused or without effect: an atomic update reads no memory out of bounds";

/// Options that do not stand beside each other, or that the oracle does not evaluate.
const APART: &[Exception] = &[
    ("parallelize.*", "*", PARTS),
    ("gemm.how", "*", PARTS),
    ("print.*", "*", "a print has no result to compare"),
    ("cluster_*", "*", IN_TURN),
    ("scan.cluster", "*", IN_TURN),
    ("warp_scan.carry", "*", CARRY),
    ("block_scan.carry", "*", CARRY),
    ("copy.clamp", "copy.fill", ONE_OF_TWO),
    ("copy.how", "copy.fill", ONE_OF_TWO),
    ("copy.clamp", "copy.boundary_check", ONE_OF_TWO),
    ("pipelined.stages", "pipelined.most_stages", ONE_OF_TWO),
    ("tiled_mma.warps", "tiled_mma.warpgroups", ONE_OF_TWO),
    ("tiled_mma.terms", "tiled_mma.warpgroups", "refused: only instructions of warps multiply two terms"),
    ("tiled_mma.*", "gemm.*", CUDA_CORES),
    ("pipelined.fragments", "pipelined.producer", FRAGMENTS),
    ("pipelined.exits", "pipelined.producer", FRAGMENTS),
    ("pipelined.fragments", "tiled_mma.*", ONE_PRODUCT),
    ("pipelined.exits", "tiled_mma.*", ONE_PRODUCT),
    ("pipelined.fragments", "stage.order", ONE_PRODUCT),
    ("pipelined.exits", "stage.order", ONE_PRODUCT),
    ("pipelined.fragments", "persistent.alternate", FRAGMENTS),
    ("pipelined.exits", "persistent.alternate", FRAGMENTS),
    ("copy.order", "copy.fill", UPDATE),
    ("copy.order", "copy.clamp", UPDATE),
    ("copy.order", "copy.boundary_check", UPDATE),
    ("copy.expected", "copy.fill", UPDATE),
    ("copy.expected", "copy.clamp", UPDATE),
    ("copy.expected", "copy.boundary_check", UPDATE),
    ("persistent.alternate", "sum.*", ALTERNATES),
    ("persistent.alternate", "maximum.*", ALTERNATES),
    ("persistent.alternate", "minimum.*", ALTERNATES),
    ("persistent.alternate", "reduce.*", ALTERNATES),
    ("persistent.alternate", "scan.*", ALTERNATES),
    ("persistent.alternate", "scatter.*", ALTERNATES),
    ("persistent.alternate", "wait.*", ALTERNATES),
    ("persistent.alternate", "warp_*", ALTERNATES),
    ("persistent.alternate", "block_*", ALTERNATES),
    ("persistent.alternate", "copy.how", ALTERNATES),
    ("persistent.alternate", "copy.order", ALTERNATES),
    ("persistent.alternate", "copy.expected", ALTERNATES),
];
