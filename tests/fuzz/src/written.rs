//! Kernels compared with their own text, evaluated in double precision without the generator.

use tilewright_codegen::kernel_def::KernelDef;
use tilewright_codegen::tile::{self, Program};
use tilewright_codegen::{Definition, Elem, Generate as _, Generated};
use tilewright_layout::{Symbol, Value};
use tilewright_sim::{Arg, ArgMemory, Options, run_every};

use crate::case::{Case, Fit, Tensor};
use crate::{number, whole};

/// The results of every variant are the results of the kernel's text, within the error bounds of its operations.
#[track_caller]
pub fn written(def: &KernelDef, args: &[Arg]) {
    written_with(def, args, &Options::default());
}

/// [`written`], in these schedules and on this device.
#[track_caller]
pub fn written_with(def: &KernelDef, args: &[Arg], options: &Options) {
    Written::new(def).check(args, options, None);
}

/// The results of every variant are the results of the kernel's text in double precision: integers are equal, and other numbers
/// differ by at most `within` and the roundoff of a narrow type, relative to numbers greater than 1. For comparisons and functions whose
/// result error bounds do not decide.
#[track_caller]
pub fn near(def: &KernelDef, args: &[Arg], within: f64) {
    Written::new(def).check(args, &Options::default(), Some(within));
}

/// A kernel as text, as a tile program and with its variants.
pub struct Written {
    definition: Definition,
    /// The tile program, which has the parameters.
    pub program: Program,
    generated: Generated,
}

impl Written {
    /// Generates the kernel.
    #[track_caller]
    pub fn new(def: &KernelDef) -> Written {
        let definition = def.definition().expect("a definition of this version");
        let program = definition.program().unwrap_or_else(|why| panic!("{why:?}"));
        let generated = def.generate().unwrap_or_else(|why| panic!("{why}"));
        Written { definition, program, generated }
    }

    /// [`written_with`], or [`near`].
    #[track_caller]
    pub fn check(&self, args: &[Arg], options: &Options, within: Option<f64>) {
        if let Err(why) = compared(self, args, options, within) {
            panic!("{why}");
        }
    }
}

fn compared(written: &Written, args: &[Arg], options: &Options, within: Option<f64>) -> Result<(), String> {
    let Written { definition, program, generated } = written;
    let Definition::Function(kernel, settings) = definition else { return Err("no function".into()) };
    let case = case(program, args)?;
    // The text of some kernels does not say how many blocks there are.
    let grid = case.grid(program).ok_or("no grid")?;
    let wanted = match within {
        Some(_) => whole::run_in_doubles(kernel, settings, &case, grid),
        None => whole::run_blocks(kernel, settings, &case, Some(grid)),
    };
    let wanted = wanted.map_err(|why| format!("undefined: {}", why.0))?;
    let outcomes = run_every(generated, args, options).map_err(|fault| fault.to_string())?;
    if outcomes.is_empty() {
        return Err("no variant ran".into());
    }
    for outcome in outcomes {
        for (tensor, wanted) in case.tensors.iter().zip(&wanted).filter(|(tensor, _)| tensor.written) {
            let bytes = outcome.bytes(&tensor.name).ok_or("no result")?;
            for (index, (got, known)) in tensor.decoded(bytes).into_iter().zip(&wanted.all).enumerate() {
                let Some(num) = known else { continue };
                // A reference that admits anything is none.
                if num.is_unknown() || num.error > 0.02 * (1.0 + num.value.abs()) {
                    return Err(format!(
                        "undefined: `{}` at {index} is {num} up to {}",
                        tensor.name, num.error
                    ));
                }
                let value = number::value(tensor.elem, got);
                let roundoff = if tensor.elem.bytes() < 4 { 2.0 * tensor.elem.roundoff() } else { 0.0 };
                let is_near =
                    |within: f64| (value - num.value).abs() <= (within + roundoff) * (1.0 + num.value.abs());
                let is_right =
                    num.admits(tensor.elem, got) || tensor.elem.is_float() && within.is_some_and(is_near);
                if !is_right {
                    let (name, variant) = (&tensor.name, outcome.variant() + 1);
                    return Err(format!(
                        "variant {variant}: `{name}` at {index} is {value}, and {num} is right"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// The arguments as a case of random kernels.
fn case(program: &Program, args: &[Arg]) -> Result<Case, String> {
    let mut symbols: Vec<(Symbol, i64)> = Vec::new();
    let (mut tensors, mut scalars) = (Vec::new(), Vec::new());
    for (param, arg) in program.args.iter().zip(args) {
        match param {
            tile::Arg::Scalar(id) => {
                scalars
                    .push(number::value(program.scalars[*id as usize].elem, arg.bits().ok_or("no number")?));
            }
            tile::Arg::Tensor(id) => {
                let tensor = program.tensor(*id);
                let ArgMemory { extents, strides, offset, bytes: data } = arg.memory().ok_or("no tensor")?;
                let leaves: Vec<(Value, Value)> = tensor.plain().leaves().collect();
                let sizes = extents.iter().zip(&strides).zip(leaves);
                for (size, leaf) in sizes.flat_map(|((n, d), (extent, stride))| [(*n, extent), (*d, stride)])
                {
                    if let Value::Sym { of, over: 1, .. } = leaf
                        && symbols.iter().all(|(known, _)| *known != of)
                    {
                        symbols.push((of, size));
                    }
                }
                tensors.push(buffer(tensor, extents, strides, offset, data));
            }
        }
    }
    Ok(Case { fit: Fit::Any, symbols, tensors, scalars })
}

fn buffer(
    of: &tile::Tensor,
    extents: &[i64],
    strides: Vec<i64>,
    offset: usize,
    data: Option<&[u8]>,
) -> Tensor {
    let elem: Elem = of.elem;
    let written = matches!(of.space, tile::Space::Global { mutable: true });
    let length = extents.iter().zip(&strides).map(|(n, d)| (n - 1).max(0) * d).sum::<i64>() as usize + 1;
    let named = (of.name.clone(), extents.to_vec());
    let empty = Tensor { name: named.0, elem, written, extents: named.1, strides, offset, all: Vec::new() };
    let all = match data {
        Some(bytes) => empty.decoded(bytes).into_iter().map(|bits| Some(number::value(elem, bits))).collect(),
        None => {
            // It may be named before it is written, for its coordinates alone. Gaps have no elements.
            let (extents, strides) = (empty.extents.clone(), empty.strides.clone());
            let buffer = whole::Buffer { all: Vec::new(), offset, extents, strides };
            let mut all = vec![None; offset + length];
            (0..buffer.count()).for_each(|element| all[buffer.index_of(element)] = Some(f64::NAN));
            all
        }
    };
    Tensor { all, ..empty }
}
