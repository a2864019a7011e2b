//! The oracle: kernels, evaluated from their text as an array language would, block after block and statement after statement.
//! It does not know tile programs, their views or lowering.

mod assertions;
mod buffer;
mod constructs;
mod element;
mod expression;
mod function;
mod grid;
mod lanes;
mod number;
mod reduction;
mod statement;
mod threads;
mod value;
mod view;

use std::collections::BTreeMap;

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{ExprKind, Kernel, ParamKind};
use tilewright_codegen::definition::Settings;

pub use assertions::asserted;
pub use buffer::Buffer;
pub use number::Num;

/// Where a claim about out-of-bounds elements is false.
pub const FALSE_CLAIM: &str = "a false claim";

/// Why the behaviour of a kernel is undefined that reads a coordinate of elements which it has combined from several: the generator
/// must refuse it.
pub const MIXED_COORDINATES: &str = "coordinates that operands disagree about are read";

pub(crate) use constructs::statements as each_expression;
pub use constructs::{CONSTRUCTS, PARTS, constructs};

use crate::case::Case;
use value::{Cell, Store, Value};
pub(crate) use value::{digits, linear};

/// Why a kernel is undefined: it reads uninitialised elements, for example.
#[derive(Clone, Debug, PartialEq)]
pub struct Undefined(pub String);

type Result<T> = std::result::Result<T, Undefined>;

fn undefined<T>(why: impl Into<String>) -> Result<T> {
    Err(Undefined(why.into()))
}

/// A block in execution.
struct Block<'k> {
    kernel: &'k Kernel,
    /// Values of names that are known at launch.
    symbols: BTreeMap<String, i128>,
    /// Constants and element types of this use of the kernel.
    settings: Vec<(String, Value<'k>)>,
    at: [i64; 3],
    /// Does the text name its threads?
    has_threads: bool,
    /// The names of each thread.
    scopes: Vec<Vec<(String, Value<'k>)>>,
    /// The threads that run, and the one for which something is evaluated.
    running: Vec<usize>,
    thread: usize,
    stores: Vec<Store>,
    /// What the exchanges in a statement gave each of the threads, by their calls.
    exchanged: Vec<(&'k ExprKind, Vec<Value<'k>>)>,
    /// What a statement writes.
    writes: Vec<(usize, usize, Cell)>,
    /// Are integers asked for: in an index, a range, a condition of a statement?
    integers: bool,
    in_closure: bool,
    /// Are all statements evaluated, even those that do not run, since coordinates and edges are derived from the text?
    supposed: bool,
    /// The threads for which a `break` has ended the innermost loop.
    left: Vec<usize>,
    steps: usize,
}

/// Statements of one block; more are a fault of the draw.
const MOST_STEPS: usize = 20_000;

/// Runs a kernel with these settings, with the first of its alternatives; returns its buffers.
pub fn run(kernel: &Kernel, settings: &Settings, case: &Case) -> Result<Vec<Buffer>> {
    run_blocks(kernel, settings, case, None)
}

/// [`run`] with numbers in double precision, which have no error bounds.
pub fn run_in_doubles(
    kernel: &Kernel,
    settings: &Settings,
    case: &Case,
    grid: [i64; 3],
) -> Result<Vec<Buffer>> {
    number::in_doubles(|| run_blocks(kernel, settings, case, Some(grid)))
}

/// Runs a kernel with this grid if its text does not have one. What the language leaves open is decided: elements are out of bounds if
/// they are so on the path that runs, and claims are true. A generated kernel whose results depend on more differs.
pub fn run_blocks(
    kernel: &Kernel,
    settings: &Settings,
    case: &Case,
    grid: Option<[i64; 3]>,
) -> Result<Vec<Buffer>> {
    let symbols = case.symbols.iter().map(|(of, n)| (of.name().to_owned(), i128::from(*n))).collect();
    number::decide(grid.is_some());
    let settings = constants(kernel, settings)?;
    let threads = threads::threads(kernel, &settings);
    let mut block = Block {
        kernel,
        symbols,
        settings,
        at: [0; 3],
        scopes: vec![Vec::new(); threads.unwrap_or(1)],
        running: (0..threads.unwrap_or(1)).collect(),
        has_threads: threads.is_some(),
        thread: 0,
        exchanged: Vec::new(),
        writes: Vec::new(),
        stores: case.buffers().into_iter().map(Store::Global).collect(),
        integers: false,
        in_closure: false,
        supposed: false,
        left: Vec::new(),
        steps: 0,
    };
    let tensors = block.stores.len();
    let grid = block.grid().or_else(|why| grid.ok_or(why))?;
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                block.at = [x, y, z];
                block.steps = 0;
                block.arguments(case)?;
                block.body(&kernel.body)?;
                block.stores.truncate(tensors);
                block.scopes.iter_mut().for_each(Vec::clear);
            }
        }
    }
    let global = |store: Store| if let Store::Global(buffer) = store { Some(buffer) } else { None };
    Ok(block.stores.into_iter().filter_map(global).collect())
}

/// The constants and element types of a use of a kernel.
fn constants<'k>(kernel: &'k Kernel, settings: &'k Settings) -> Result<Vec<(String, Value<'k>)>> {
    let mut all = Vec::new();
    let Some(alternative) = settings.alternatives(kernel).ok().and_then(|all| all.into_iter().next()) else {
        return undefined("no alternative");
    };
    for constant in &kernel.consts {
        let set = alternative.consts.iter().rev().find(|(name, _)| name.text == constant.name.text);
        let function = settings.functions.iter().find(|(name, _)| name.text == constant.name.text);
        let default = function.map(|(_, function)| function).or(constant.default.as_ref());
        let default = default.map(|default| &default.kind);
        match (set, default) {
            (Some((_, n)), _) | (None, Some(ExprKind::Int(n))) => {
                all.push((constant.name.text.clone(), Value::Int((*n).into())));
            }
            (None, Some(ExprKind::Closure { params, body })) => {
                all.push((constant.name.text.clone(), Value::Closure(params, body)));
            }
            _ => return undefined("a constant without a value"),
        }
    }
    for param in &kernel.types {
        let set = settings.types.iter().find(|(name, _)| name.text == param.name.text).map(|known| known.1);
        let first = || param.allowed.first().and_then(|name| Elem::named(&name.text));
        let Some(elem) = set.or_else(first) else { return undefined("an unknown type") };
        all.push((param.name.text.clone(), Value::Type(elem)));
    }
    Ok(all)
}

impl<'k> Block<'k> {
    /// An element type by its name.
    fn elem(&self, name: &str) -> Result<Elem> {
        let set = self.settings.iter().find(|(known, _)| known == name);
        match (set, Elem::named(name)) {
            (Some((_, Value::Type(elem))), _) => Ok(*elem),
            (None, Some(elem)) => Ok(elem),
            _ => undefined("an unknown type"),
        }
    }

    /// The names of arguments.
    fn arguments(&mut self, case: &Case) -> Result<()> {
        self.scopes.iter_mut().for_each(|scope| scope.clone_from(&self.settings));
        let (mut tensors, mut scalars) = (0, case.scalars.iter());
        for param in &self.kernel.params {
            let elem = self.elem(&param.elem.text)?;
            let length = match &param.list {
                Some(length) => self.integer(length)?,
                None => 0,
            };
            let mut next = || {
                tensors += 1;
                self.tensor(tensors - 1, elem)
            };
            let value = match param.kind {
                ParamKind::Tensor { .. } if param.list.is_some() => {
                    Value::Tuple((0..length).map(|_| next()).collect())
                }
                ParamKind::Tensor { .. } => next(),
                ParamKind::Scalar => Value::scalar(elem, scalars.next().copied().unwrap_or_default()),
            };
            self.scopes.iter_mut().for_each(|scope| scope.push((param.name.text.clone(), value.clone())));
        }
        Ok(())
    }
}
