//! A second reference: kernels of whole tiles, evaluated from their text as an array language would, block after
//! block and statement after statement. It does not know threads, layouts or tile programs.

mod assertions;
mod constructs;
mod element;
mod expression;
mod function;
mod grid;
mod lanes;
mod reduction;
mod statement;
mod value;
mod view;

use std::collections::BTreeMap;

use tilewright_codegen::Elem;
use tilewright_codegen::ast::{Kernel, ParamKind};

pub use assertions::asserted;
/// Where a claim about out-of-bounds elements is false.
pub const FALSE_CLAIM: &str = "a false claim";

/// Why the behaviour of a kernel is undefined that reads a coordinate of elements which it has combined from several: the generator
/// must refuse it.
pub const MIXED_COORDINATES: &str = "coordinates that operands disagree about are read";

pub(crate) use constructs::statements as each_expression;
pub use constructs::{CONSTRUCTS, constructs};

use crate::case::Case;
use crate::reference::{Buffer, Undefined};
use value::{Store, Value};

type Result<T> = std::result::Result<T, Undefined>;

fn undefined<T>(why: impl Into<String>) -> Result<T> {
    Err(Undefined(why.into()))
}

/// A block in execution.
struct Block<'k> {
    kernel: &'k Kernel,
    /// Values of names that are known at launch.
    symbols: BTreeMap<String, i128>,
    at: [i64; 3],
    scope: Vec<(String, Value<'k>)>,
    stores: Vec<Store>,
    /// Are integers asked for: in an index, a range, a condition of a statement?
    integers: bool,
    in_closure: bool,
    /// Are all statements evaluated, even those that do not run, since coordinates and edges are derived from the text?
    supposed: bool,
    /// Has a `break` ended the innermost loop?
    left: bool,
    steps: usize,
}

/// Statements of one block; more are a fault of the draw.
const MOST_STEPS: usize = 20_000;

/// Runs a kernel; returns its buffers.
pub fn run(kernel: &Kernel, case: &Case) -> Result<Vec<Buffer>> {
    let symbols = case.symbols.iter().map(|(of, n)| (of.name().to_owned(), i128::from(*n))).collect();
    let mut block = Block {
        kernel,
        symbols,
        at: [0; 3],
        scope: Vec::new(),
        stores: case.buffers().into_iter().map(Store::Global).collect(),
        integers: false,
        in_closure: false,
        supposed: false,
        left: false,
        steps: 0,
    };
    let tensors = block.stores.len();
    let grid = block.grid()?;
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                block.at = [x, y, z];
                block.steps = 0;
                block.arguments(case)?;
                block.body(&kernel.body)?;
                block.stores.truncate(tensors);
                block.scope.clear();
            }
        }
    }
    let global = |store: Store| if let Store::Global(buffer) = store { Some(buffer) } else { None };
    Ok(block.stores.into_iter().filter_map(global).collect())
}

impl<'k> Block<'k> {
    /// The names of arguments.
    fn arguments(&mut self, case: &Case) -> Result<()> {
        let (mut tensors, mut scalars) = (0, case.scalars.iter());
        for param in &self.kernel.params {
            let Some(elem) = Elem::named(&param.elem.text) else { return undefined("an unknown type") };
            let value = match param.kind {
                ParamKind::Tensor { .. } => {
                    tensors += 1;
                    self.tensor(tensors - 1, elem)
                }
                ParamKind::Scalar => Value::scalar(elem, scalars.next().copied().unwrap_or_default()),
            };
            self.scope.push((param.name.text.clone(), value));
        }
        Ok(())
    }
}
