//! Runs the programs of tests in the simulator, which checks every access, and compares the claims of their
//! index expressions with their values.
#![allow(dead_code, unreachable_pub)]

mod claims;
pub(crate) mod compute;
mod record;

use std::collections::HashMap;

use tilewright_codegen::element::{bf16, f16};
use tilewright_codegen::thread::{Fact, Kernel, Param};
use tilewright_codegen::tile::Program;
use tilewright_codegen::{Elem, generate};
use tilewright_layout::{Symbol, Value};
use tilewright_sim::{Arg, Options, Outcome, run_every};

/// The arguments of a launch.
#[derive(Clone, Default)]
pub struct Args {
    /// Extents and strides by name.
    pub sizes: HashMap<String, i64>,
    /// Tensors and scalars by name; a scalar is one number. For a result only the length matters.
    pub arrays: HashMap<String, Vec<f64>>,
}

impl Args {
    pub fn size(mut self, name: &str, value: i64) -> Args {
        self.sizes.insert(name.into(), value);
        self
    }

    pub fn array(mut self, name: &str, values: impl IntoIterator<Item = f64>) -> Args {
        self.arrays.insert(name.into(), values.into_iter().collect());
        self
    }

    fn lookup(&self, symbol: Symbol) -> Option<i64> {
        self.sizes.get(symbol.name()).copied()
    }

    fn value(&self, value: &Value) -> usize {
        let known = value.evaluate(&|symbol| self.lookup(symbol));
        usize::try_from(known.unwrap_or_else(|| panic!("{value} is not known"))).expect("a size")
    }

    /// A parameter's argument for the simulator; sizes follow from tensors.
    fn arg(&self, param: &Param) -> Option<Arg> {
        macro_rules! of {
            ($ty:ty, $make:expr, $name:expr, $tensor:expr) => {{
                let data: Vec<$ty> = self.arrays[$name].iter().map($make).collect();
                match $tensor {
                    None => Arg::number(data[0]),
                    Some((true, extents)) => Arg::output::<$ty>(extents),
                    Some((false, extents)) => Arg::tensor(&data, extents),
                }
            }};
        }
        let sizes = |of: &[Value]| of.iter().map(|value| self.value(value)).collect::<Vec<_>>();
        let (name, elem, tensor, stride) = match param {
            Param::Pointer { name, elem, write, shape, stride } => {
                (name, elem, Some((*write, sizes(shape))), sizes(stride))
            }
            Param::Scalar { name, elem } => (name, elem, None, Vec::new()),
            Param::Int { .. } | Param::Workspace { .. } => return None,
            Param::TensorMap { .. } => panic!("bulk copies do not run here"),
        };
        let arg = match elem {
            Elem::F64 => of!(f64, |&x| x, name, tensor),
            Elem::F32 => of!(f32, |&x| x as f32, name, tensor),
            Elem::F16 => of!(f16, |&x| f16::from_f32(x as f32), name, tensor),
            Elem::Bf16 => of!(bf16, |&x| bf16::from_f32(x as f32), name, tensor),
            Elem::I32 => of!(i32, |&x| x as i32, name, tensor),
            other => panic!("{other} does not run here"),
        };
        Some(arg.strides(stride))
    }
}

/// Runs every variant of a program whose facts hold and returns the results of each, the general one last.
/// Checks that every element of a result is written exactly once, and that schedules agree.
#[track_caller]
pub fn run(program: Program, args: &Args) -> Vec<HashMap<String, Vec<f64>>> {
    let outcome = generate(program);
    let message: Vec<String> = outcome.diagnostics.iter().map(|d| d.text()).collect();
    let kernel = outcome.kernel.unwrap_or_else(|| panic!("{}", message.join("\n")));
    let given: Vec<Arg> = kernel.variants[0].program.params.iter().filter_map(|p| args.arg(p)).collect();
    let options = Options { schedules: 2, ..Options::default() };
    let outcomes = run_every(&kernel, &given, &options).unwrap_or_else(|error| panic!("{error}"));
    let fits = |kernel: &Kernel| {
        kernel.needs.iter().all(|fact| match fact {
            Fact::Divides(need) => need.is_met(&|symbol| args.lookup(symbol)).unwrap_or(false),
            _ => true,
        })
    };
    let fitting: Vec<usize> =
        (0..kernel.variants.len()).filter(|&n| fits(&kernel.variants[n].program)).collect();
    assert!(outcomes.iter().map(Outcome::variant).eq(fitting), "every variant that fits is run");
    let results = outcomes.iter().map(|outcome| {
        let variant = &kernel.variants[outcome.variant()];
        let grid = outcome.grid().map(i64::from);
        claims::check(&variant.program, grid, &|name| args.sizes[name]);
        let after = outcome.names().map(|(name, elem)| (name.to_owned(), numbers_of(outcome, name, elem)));
        let after: HashMap<String, Vec<f64>> = after.collect();
        record::record(&variant.program, &variant.source, grid, &args.arrays, &args.sizes, &after);
        after
    });
    results.collect()
}

fn numbers_of(outcome: &Outcome, name: &str, elem: Elem) -> Vec<f64> {
    let numbers = match elem {
        Elem::F64 => outcome.get::<f64>(name),
        Elem::F32 => outcome.get::<f32>(name).map(|all| all.into_iter().map(f64::from).collect()),
        Elem::F16 => {
            outcome.get::<f16>(name).map(|all| all.into_iter().map(|x| f64::from(x.to_f32())).collect())
        }
        Elem::Bf16 => {
            outcome.get::<bf16>(name).map(|all| all.into_iter().map(|x| f64::from(x.to_f32())).collect())
        }
        _ => outcome.get::<i32>(name).map(|all| all.into_iter().map(f64::from).collect()),
    };
    numbers.unwrap_or_else(|error| panic!("{error}"))
}

/// A number as an element represents it.
pub fn rounded(x: f64, elem: Elem) -> f64 {
    match elem {
        Elem::F64 => x,
        Elem::F32 => f64::from(x as f32),
        Elem::F16 => f64::from(f16::from_f32(x as f32).to_f32()),
        Elem::Bf16 => f64::from(bf16::from_f32(x as f32).to_f32()),
        Elem::I32 => f64::from(x as i32),
        other => panic!("{other} does not run here"),
    }
}

/// The result of one array, the same for all variants.
#[track_caller]
pub fn result(program: Program, args: &Args, array: &str) -> Vec<f64> {
    let mut all = run(program, args);
    let first = all.remove(0).remove(array).expect("the array");
    for other in all {
        for (index, (x, y)) in first.iter().zip(&other[array]).enumerate() {
            assert!(close(*x, *y, 1e-6), "variants differ at {index}: {x} and {y}");
        }
    }
    first
}

pub fn close(x: f64, y: f64, within: f64) -> bool {
    x == y || (x - y).abs() <= within * (1.0 + x.abs().max(y.abs())) || (x.is_nan() && y.is_nan())
}

#[track_caller]
pub fn assert_close(got: &[f64], wanted: &[f64], within: f64) {
    assert_eq!(got.len(), wanted.len());
    for (index, (x, y)) in got.iter().zip(wanted).enumerate() {
        assert!(close(*x, *y, within), "element {index} is {x}, and {y} is right");
    }
}

/// Pseudo-random numbers between -1 and 1, exact in every type.
pub fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((state >> 40) % 33) as f64 / 16.0 - 1.0
        })
        .collect()
}
