//! Limits of a kernel, whichever way it comes in: as tokens, as keys, as bytes or as calls on the builder.
//! Every program is checked against these limits first, so that later passes can rely on them: names are
//! identifiers, sizes fit 31 bits, trees are not too deep for recursion, and the work is bounded.
//!
//! Front ends refuse the same things earlier, where they know the user's tokens.

use tilewright_layout::{Symbol, Value};

use crate::affine::{Affine, Coord};
use crate::ast::Span;
use crate::diagnostic::Diagnostic;
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::scan::Scan;
use crate::tile::{Across, Expr, Op, Program, Space, Stmt, Var};

/// Deepest nesting of brackets and of operations in an expression. A chain of operators such as `a + b + c` is no nesting;
/// see [`LONGEST_CHAIN`].
pub const DEEPEST: u32 = 64;

/// Deepest nesting of blocks: loops in loops, conditions in conditions.
pub const DEEPEST_BLOCKS: u32 = 32;

/// The most links of a chain of operators that are evaluated from left to right, `a + b * c - d`.
pub const LONGEST_CHAIN: u32 = 500;

/// Trees deeper than this are processed on a stack of their own: see [`crate::stack`].
pub(crate) const ROOM: u32 = 20;

/// The most modes of a tensor.
pub const MOST_MODES: usize = 32;

/// The most bytes of all shared memory of a block: offsets have 31 bits. Devices have far less, which is checked once the
/// sum is known.
pub const MOST_BYTES: i64 = i32::MAX as i64;

/// The budget of a kernel's generation. One statement of the usual kind counts 1, and more the more modes its
/// views have and the larger its function is.
pub const MOST_STATEMENTS: u64 = 2_000;

/// The most values that the text of one kernel computes while it is made; a call counts as several.
pub const MOST_VALUES: u64 = 1_000_000;

/// The cost of a function call, in values: it works on layouts.
pub(crate) const CALL: u64 = 50;

/// The most parts of one value: leaves of a layout or a tuple, terms of a coordinate.
pub(crate) const MOST_PARTS: usize = 256;

/// The most threads of a block.
pub(crate) const MOST_THREADS: u32 = 1024;

/// The most slots of a ring.
const MOST_SLOTS: u32 = 1024;

/// The most blocks of a cluster.
pub(crate) const MOST_BLOCKS: u32 = 16;

/// The deepest nesting of quotients and remainders in a coordinate.
const DEEPEST_DIGITS: usize = 16;

/// A refusal of a coordinate that is too large.
pub(crate) fn coordinate(of: &Affine) -> Result<usize> {
    let (parts, digits) = of.parts();
    if parts <= MOST_PARTS && digits <= DEEPEST_DIGITS {
        // Each is a name in the generated text.
        of.symbols().into_iter().try_for_each(|of| name("a size", of.name()))?;
        return Ok(parts);
    }
    let problem = format!(
        "this coordinate has {parts} terms and {digits} quotients inside of one another, and {MOST_PARTS} and {DEEPEST_DIGITS} are the limits"
    );
    Err(Problem::new(problem).help("compute it in fewer steps: `k / 2 / 2` is `k / 4`"))
}

/// Is it a name: an ASCII letter or `_`, then ASCII letters, digits and `_`? Names stand in the generated text.
///
/// ```
/// use tilewright_codegen::limits::is_name;
/// assert!(is_name("sa_2") && is_name("_tile"));
/// assert!(!is_name("") && !is_name("2d") && !is_name("größe") && !is_name("N\n#define if"));
/// ```
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.len() <= LONGEST_NAME
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// The most letters of a name.
const LONGEST_NAME: usize = 256;

/// A refusal unless it is a name. `what` is what it would name.
pub(crate) fn name(what: &str, text: &str) -> Result<()> {
    if is_name(text) {
        return Ok(());
    }
    let long = text.chars().count();
    if long > LONGEST_NAME {
        let problem =
            Problem::new(format!("the name of {what} has {long} letters, and {LONGEST_NAME} is the limit"));
        return Err(problem.help("write a shorter name"));
    }
    Err(Problem::new(format!("{text:?} cannot be the name of {what}, which stands in generated CUDA C"))
        .help("use ASCII letters, digits and `_`, and begin with a letter"))
}

/// A refusal unless all symbols have names.
pub(crate) fn symbols(values: impl IntoIterator<Item = Value>) -> Result<()> {
    values.into_iter().filter_map(symbol).try_for_each(|of| name("a size", of.name()))
}

fn symbol(value: Value) -> Option<Symbol> {
    match value {
        Value::Sym { of, .. } => Some(of),
        _ => None,
    }
}

/// The most bytes of one array in shared memory or registers: more than any device has, and little enough for analyses to
/// look at every element.
const MOST_BYTES_OF_ONE: i64 = 1 << 24;

/// The bytes of so many elements; a refusal where they are too many for one array. What devices have is checked once all
/// of it is known.
pub(crate) fn bytes(name: &str, elements: i64, elem: Elem) -> Result<i64> {
    let each = i64::from(elem.bytes());
    match elements.checked_mul(each) {
        Some(bytes) if bytes <= MOST_BYTES_OF_ONE => Ok(bytes),
        _ => {
            let bytes = i128::from(elements) * i128::from(each);
            let most = crate::check::limits::most();
            let problem = format!(
                "`{name}` takes {elements} * {each} = {bytes} bytes, and a block has at most {most} bytes of shared memory"
            );
            Err(Problem::new(problem).help("use a smaller tile, fewer slots, or a narrower element type"))
        }
    }
}

/// The number of operations of a function of elements, and their nesting depth.
fn measure(of: &Expr) -> (u64, u32) {
    let (mut count, mut deepest) = (0, 0);
    // Without recursion: it may nest deeper than any stack allows.
    let mut left = vec![(of, 1)];
    while let Some((expr, depth)) = left.pop() {
        (count, deepest) = (count + 1, deepest.max(depth));
        if count > MOST_OPERATIONS {
            break;
        }
        left.extend(expr.parts().into_iter().map(|part| (part, depth + 1)));
    }
    (count, deepest)
}

/// The number of operations of a function of elements; a refusal where they are too many, or nested too deep.
pub(crate) fn function(of: &Expr) -> Result<u64> {
    let (count, deepest) = measure(of);
    if count <= MOST_OPERATIONS && deepest <= LONGEST_CHAIN + DEEPEST {
        return Ok(count);
    }
    let problem = format!(
        "this takes more than {MOST_OPERATIONS} operations, or more than {LONGEST_CHAIN} one inside the other: names stand for their expressions"
    );
    Err(Problem::new(problem).help("make a tile of a part of it first: `let part = map(x, |x| …)`"))
}

/// Runs a recursive pass over a function of elements, unless that is too large.
pub(crate) fn with_room_for<T: Send>(of: &Expr, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    function(of)?;
    if measure(of).1 > ROOM { crate::stack::with_room(work) } else { work() }
}

/// Does recursion over the statements and their functions need a large stack?
pub(crate) fn is_deep(program: &Program) -> bool {
    let mut left: Vec<(&Stmt, u32)> = program.body.iter().map(|stmt| (stmt, 1)).collect();
    while let Some((stmt, depth)) = left.pop() {
        let function = match &stmt.op {
            Op::Fill { value, .. } | Op::Map { value, .. } | Op::When { cond: value, .. } => measure(value).1,
            Op::If { test, .. } => test.scalars().into_iter().map(|expr| measure(expr).1).max().unwrap_or(0),
            Op::Fold { with, .. } | Op::Scan { how: Scan { with, .. }, .. } => {
                with.iter().map(|value| measure(value).1).max().unwrap_or(0)
            }
            _ => 0,
        };
        if depth + function > ROOM {
            return true;
        }
        left.extend(stmt.bodies().into_iter().flatten().map(|inner| (inner, depth + 1)));
    }
    false
}

/// The most operations of a function of elements.
const MOST_OPERATIONS: u64 = 2_000;

/// Errors of a program, with the spans that it knows.
pub(crate) fn program(program: &Program) -> std::result::Result<(), Diagnostic> {
    let nowhere = |problem: Problem| problem.at(Span::default());
    name("a kernel", &program.name).map_err(nowhere)?;
    for scalar in &program.scalars {
        name("an argument", &scalar.name).map_err(nowhere)?;
    }
    for (place, var) in program.vars.iter().enumerate() {
        iterations(place, var).map_err(nowhere)?;
    }
    for read in &program.reads {
        name("a number that is read", &read.name).map_err(nowhere)?;
    }
    let more = program.more.iter().flatten();
    symbols(program.grid.iter().flatten().chain(more).copied()).map_err(nowhere)?;
    groups(program).map_err(nowhere)?;
    sizes(program)?;
    work(program)
}

/// Visits statements: nesting depth, and total cost.
pub(crate) fn work(program: &Program) -> std::result::Result<(), Diagnostic> {
    let (mut count, mut cost) = (0u64, 0u64);
    // Without recursion, as they may nest deeper than any stack allows.
    let mut left: Vec<(&Stmt, u32)> = program.body.iter().rev().map(|stmt| (stmt, 1)).collect();
    while let Some((stmt, depth)) = left.pop() {
        if depth > DEEPEST_BLOCKS {
            return Err(too_deep().at(stmt.span));
        }
        count += 1;
        cost += statement(stmt).map_err(|problem| problem.at(stmt.span))?;
        if cost > MOST_STATEMENTS {
            return Err(too_much(count).at(stmt.span));
        }
        left.extend(stmt.bodies().into_iter().flatten().rev().map(|inner| (inner, depth + 1)));
    }
    Ok(())
}

/// The error for a long chain of operators.
pub(crate) fn too_long(links: usize) -> Problem {
    Problem::new(format!("this chain has {links} operators, and {LONGEST_CHAIN} is the limit"))
        .help("give parts of it names, with `let`, or let a `map` of its own compute them")
}

/// The error for blocks that nest too deep.
pub(crate) fn too_deep() -> Problem {
    Problem::new(format!("blocks nest more than {DEEPEST_BLOCKS} levels deep"))
        .help("use fewer loops and conditions inside of one another")
}

/// The error for too many statements.
pub(crate) fn too_much(count: u64) -> Problem {
    Problem::new(format!(
        "this is statement {count} of the kernel, as loops are written out, and together they cost more than {MOST_STATEMENTS} plain copies"
    ))
    .help("use a loop that the kernel runs, `for i in 0..n` without `unroll`")
}

/// Each array against the reach of offsets, and all of shared memory against the same.
pub(crate) fn sizes(program: &Program) -> std::result::Result<(), Diagnostic> {
    let mut all = 0i64;
    for tensor in &program.tensors {
        let own = || -> Result<i64> {
            name("a tensor", &tensor.name)?;
            symbols(tensor.plain().leaves().flat_map(|(extent, stride)| [extent, stride]))?;
            match tensor.space {
                Space::Global { .. } => Ok(0),
                Space::Shared { align } => {
                    // Padding for alignment comes on top.
                    Ok(bytes(&tensor.name, tensor.layout.cosize()?, tensor.elem)? + i64::from(align.max(16)))
                }
                Space::Registers { .. } => {
                    bytes(&tensor.name, tensor.layout.cosize()?, tensor.elem)?;
                    Ok(0)
                }
            }
        };
        all += own().map_err(|problem| problem.at(tensor.span))?;
        if all > MOST_BYTES {
            let problem = Problem::new(format!(
                "shared tensors up to `{}` take {all} bytes together, and offsets reach {MOST_BYTES}",
                tensor.name
            ));
            return Err(problem.help("use smaller tiles, or fewer stages").at(tensor.span));
        }
    }
    Ok(())
}

fn iterations(place: usize, var: &Var) -> Result<()> {
    name("a loop's variable", &var.name)?;
    for end in [&var.from, &var.to] {
        coordinate(end)?;
        // Range analysis goes from variable to variable.
        if end.any(&|coord| matches!(coord, Coord::Var(of) if *of as usize >= place)) {
            let problem =
                format!("the loop over `{}` ends or begins at a variable that comes later", var.name);
            return Err(Problem::new(problem).help("use variables of loops around it"));
        }
    }
    match var.extent() {
        Some(Value::Int(n)) if !(0..=i64::from(i32::MAX)).contains(&n) => {
            let problem = format!(
                "the loop over `{}` has {n} iterations, and 0 to {} are possible",
                var.name,
                i32::MAX
            );
            Err(Problem::new(problem).help("write two loops, one in the other"))
        }
        Some(size) => symbols([size]),
        None => Ok(()),
    }
}

fn groups(program: &Program) -> Result<()> {
    for group in &program.groups {
        name("a group", &group.name)?;
        if let Some((from, to)) = group.warps
            && (from >= to || to > MOST_THREADS / 32)
        {
            let problem = format!("the group `{}` has the warps {from}..{to}", group.name);
            let help = format!("a block has the warps 0..{}, and a group at least one", MOST_THREADS / 32);
            return Err(Problem::new(problem).help(help));
        }
    }
    for ring in &program.rings {
        name("a ring", &ring.name)?;
        if !(1..=MOST_SLOTS).contains(&ring.slots) {
            let problem = format!("the ring `{}` has {} slots", ring.name, ring.slots);
            return Err(Problem::new(problem).help(format!("a ring has 1 to {MOST_SLOTS} slots")));
        }
    }
    let blocks = program.cluster.iter().try_fold(1u32, |all, &n| all.checked_mul(n)).unwrap_or(u32::MAX);
    if !(1..=MOST_BLOCKS).contains(&blocks) {
        let [x, y, z] = program.cluster;
        let problem = Problem::new(format!("a cluster of {x} x {y} x {z} blocks"));
        return Err(problem.help(format!("a cluster has 1 to {MOST_BLOCKS} blocks")));
    }
    Ok(())
}

/// What a statement costs.
fn statement(stmt: &Stmt) -> Result<u64> {
    let mut leaves = 0;
    for view in stmt.reads().into_iter().chain(stmt.writes()) {
        name("a view", &view.name)?;
        leaves += view.layout.leaves().count() as u64;
        for base in &view.base {
            coordinate(base)?;
        }
    }
    let operations = match &stmt.op {
        Op::Fill { value, .. } | Op::Map { value, .. } | Op::When { cond: value, .. } => function(value)?,
        Op::Fold { with, .. } | Op::Scan { how: Scan { with, .. }, .. } => {
            with.iter().map(function).sum::<Result<u64>>()?
        }
        Op::Leave { right, .. } => symbols([*right]).map(|()| 0)?,
        Op::If { test, .. } => {
            test.scalars().into_iter().map(function).sum::<Result<u64>>()? + test.integers().len() as u64
        }
        _ => 0,
    };
    for at in stmt.integers() {
        coordinate(at)?;
    }
    let across = match &stmt.op {
        Op::Reduce { across: Across::Block | Across::Digits(_), .. }
        | Op::Fold { across: Across::Block | Across::Digits(_), .. } => 8,
        Op::Reduce { across: Across::Cluster(_) | Across::Blocks(_), .. }
        | Op::Fold { across: Across::Cluster(_) | Across::Blocks(_), .. } => 16,
        Op::Scan { how, .. } => 8 * how.levels.len() as u64,
        Op::Reduce { across: Across::Warp(_), .. } | Op::Fold { across: Across::Warp(_), .. } => 2,
        _ => 0,
    };
    Ok(1.max(leaves / 2) + across + operations / 8)
}
