//! Limits of a kernel from any front end: tokens, keys, bytes or calls on the builder. Front ends refuse larger kernels
//! where they know the user's tokens, and the verifier checks whole programs before any other pass.

use tilewright_layout::{Layout, Symbol, Value};

use crate::source::problem::{Problem, Result};
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::expr::Expr;
use crate::values::target::Target;

pub use crate::source::stack::{DEEPEST, LONGEST_CHAIN};

/// Deepest nesting of blocks: loops in loops, conditions in conditions.
pub const DEEPEST_BLOCKS: u32 = 32;

/// Largest extent that a launch accepts: whole tiles that exceed it still have 32-bit coordinates.
pub const MOST_EXTENT: i64 = i32::MAX as i64 - (1 << 16);

/// The most modes of a tensor.
pub const MOST_MODES: usize = 32;

/// The most tensors of a list.
pub const MOST_LISTED: i64 = 64;

/// The most bytes of all shared memory of a block: offsets have 31 bits. Devices have far less, which is checked once the
/// sum is known.
pub const MOST_BYTES: i64 = i32::MAX as i64;

/// The budget of a kernel's generation. One statement of the usual kind counts 1, and more the more modes its
/// views have and the larger its function is.
pub const MOST_STATEMENTS: u64 = 2_000;

/// The most values that the text of one kernel computes while it is made; a call counts as several.
pub const MOST_VALUES: u64 = 1_000_000;

/// The most names that are bound at one point: a name is looked up among all of them.
pub const MOST_NAMES: usize = 2_000;

/// The most errors that are reported at once.
pub const MOST_ERRORS: usize = 100;

/// The cost of a function call, in values: it works on layouts.
pub const CALL: u64 = 50;

/// The most parts of one value: leaves of a layout or a tuple, terms of a coordinate.
pub const MOST_PARTS: usize = 256;

/// The most threads of a block.
pub const MOST_THREADS: u32 = 1024;

/// The most blocks of a cluster.
pub const MOST_BLOCKS: u32 = 16;

/// The most blocks of a grid that divide the iterations of a loop.
pub const MOST_SHARING: u32 = 64;

/// The deepest nesting of quotients and remainders in a coordinate.
const DEEPEST_DIGITS: usize = 16;

/// The largest magnitude of a kernel's integers: constants and factors of coordinates and loop bounds, extents and strides
/// of layouts. Tensors are far smaller. Passes add such integers in 64 bits, and multiply them by numbers of elements and
/// threads.
pub const LARGEST: i64 = 1 << 36;

/// A refusal of an integer that is too large.
pub fn integer(n: i64) -> Result<()> {
    if n.unsigned_abs() <= LARGEST.unsigned_abs() {
        return Ok(());
    }
    let problem =
        format!("the integer {n} is out of range: integers of kernels are at most {LARGEST} in magnitude");
    Err(Problem::new(problem)
        .help("write a smaller one; where it is a number for elements, write it with a point, `1.0e12`, or with its type, `… as i64`"))
}

/// A refusal of a layout that has an integer which is too large, or whose offsets are.
pub fn layout(of: &Layout) -> Result<()> {
    let mut reach = 0i64;
    for (extent, stride) in of.leaves() {
        let times = factor(stride);
        integer(factor(extent))?;
        integer(times)?;
        let extent = extent.int().unwrap_or(1).max(1);
        reach = reach.saturating_add((extent - 1).saturating_mul(times.abs()));
    }
    integer(reach)
}

/// The integer of a leaf: the factor of a size and of a basis element.
fn factor(of: Value) -> i64 {
    match of {
        Value::Int(n) | Value::Sym { times: n, .. } | Value::Basis { times: n, .. } => n,
        Value::Any => 0,
    }
}

/// A refusal of a coordinate that is too large; otherwise the number of its parts.
pub fn coordinate(of: &Affine) -> Result<usize> {
    let (parts, digits) = of.parts();
    if parts <= MOST_PARTS && digits <= DEEPEST_DIGITS {
        of.constants().into_iter().try_for_each(integer)?;
        // Each is a name in the generated text.
        of.symbols().into_iter().try_for_each(|of| name("a size", of.name()))?;
        return Ok(parts);
    }
    let problem = format!(
        "this coordinate has {parts} terms and {digits} quotients inside of one another, and {MOST_PARTS} and {DEEPEST_DIGITS} are the limits"
    );
    Err(Problem::new(problem).help("compute it in fewer steps: `k / 2 / 2` is `k / 4`"))
}

/// Is it a name: an ASCII letter or `_`, then ASCII letters, digits and `_`? Names occur in the generated text.
///
/// ```
/// use tilewright_program::limits::is_name;
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

/// A refusal unless it is a name. `what` is the kind of thing that it names.
pub fn name(what: &str, text: &str) -> Result<()> {
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
pub fn symbols(values: impl IntoIterator<Item = Value>) -> Result<()> {
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

/// The bytes of `elements` elements; an error if they are too many for one array. The limits of devices are checked
/// once all of it is known.
pub fn bytes(name: &str, elements: i64, elem: Elem) -> Result<i64> {
    let each = i64::from(elem.bytes());
    match elements.checked_mul(each) {
        Some(bytes) if bytes <= MOST_BYTES_OF_ONE => Ok(bytes),
        _ => {
            let bytes = i128::from(elements) * i128::from(each);
            let most = Target::most_shared();
            let problem = format!(
                "`{name}` takes {elements} * {each} = {bytes} bytes, and a block has at most {most} bytes of shared memory"
            );
            Err(Problem::new(problem).help("use a smaller tile, fewer slots, or a narrower element type"))
        }
    }
}

/// The number of operations of a function of elements, and their nesting depth.
pub fn measure(of: &Expr) -> (u64, u32) {
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

/// The number of operations of a function of elements; a refusal if they are too many, or nested too deep.
pub fn function(of: &Expr) -> Result<u64> {
    let (count, deepest) = measure(of);
    if count <= MOST_OPERATIONS && deepest <= LONGEST_CHAIN + DEEPEST {
        of.integers().into_iter().try_for_each(|at| coordinate(at).map(drop))?;
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
    if measure(of).1 > crate::source::stack::ROOM { crate::source::stack::with_room(work) } else { work() }
}

/// The most operations of a function of elements.
const MOST_OPERATIONS: u64 = 2_000;

/// The error for a long chain of operators.
pub fn too_long(links: usize) -> Problem {
    Problem::new(format!("this chain has {links} operators, and {LONGEST_CHAIN} is the limit"))
        .help("give parts of it names, with `let`, or let a `map` of its own compute them")
}

/// The error after the last one that is reported.
pub fn too_many_errors() -> Problem {
    Problem::new(format!("there are more than {MOST_ERRORS} errors: from here on the kernel is not read"))
        .help("correct the first ones")
}

/// The error for a loop that cannot be written out.
pub fn too_long_to_unroll(count: u64) -> Problem {
    Problem::new(format!(
        "`unroll` writes out each of {count} iterations, and the text of a kernel computes at most {MOST_VALUES} values"
    ))
    .help("use a loop that the kernel runs, `for i in 0..n` without `unroll`")
}

/// The error for too many names.
pub fn too_many_names() -> Problem {
    Problem::new(format!("more than {MOST_NAMES} names are bound here"))
        .help("bind a name again, or bind it inside of the loop or the condition that uses it")
}

/// The error for blocks that nest too deep.
pub fn too_deep() -> Problem {
    Problem::new(format!("blocks nest more than {DEEPEST_BLOCKS} levels deep"))
        .help("use fewer loops and conditions inside of one another")
}

/// The error for too many statements.
pub fn too_much(count: u64) -> Problem {
    Problem::new(format!(
        "this is statement {count} of the kernel, as loops are written out, and together they cost more than {MOST_STATEMENTS} plain copies"
    ))
    .help("use a loop that the kernel runs, `for i in 0..n` without `unroll`")
}
