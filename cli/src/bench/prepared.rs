//! One of our kernels with its arguments, ready for repeated launches: planned, compiled and loaded once.
#![allow(unsafe_code)]

use std::rc::Rc;

use tilewright_codegen::definition::Generated;
use tilewright_codegen::launch::{Given, Passed, Tensor, plan};
use tilewright_codegen::number::Number;
use tilewright_codegen::{Elem, cuda};
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_runtime::raw::Shape;

use super::Result;
use super::driver::{Argument, Device, Function, Memory};

/// An argument of a kernel.
#[derive(Clone)]
pub(super) enum Operand {
    /// A tensor: its memory, the offset of its first element, extents and strides.
    Tensor { memory: Rc<Memory>, first: u64, extents: Vec<i64>, strides: Vec<i64> },
    /// A number.
    Scalar(f64),
}

/// A compiled kernel: its variants are loaded on demand.
pub(super) struct Loaded<'k> {
    kernel: &'k Generated,
    functions: Vec<Option<(Function, String)>>,
}

/// A kernel with its arguments.
pub(super) struct Prepared {
    function: Function,
    grid: [u32; 3],
    arguments: Vec<Argument>,
    /// The variant and its resources: `variant 1 of 3, 128 registers`.
    pub(super) note: String,
    _memory: Vec<Rc<Memory>>,
}

impl<'k> Loaded<'k> {
    pub(super) fn new(kernel: &'k Generated) -> Loaded<'k> {
        Loaded { kernel, functions: vec![None; kernel.variants.len()] }
    }

    /// Plans a launch, and compiles its variant.
    pub(super) fn prepare(
        &mut self,
        device: &Device,
        nvrtc: &Nvrtc,
        operands: &[Operand],
    ) -> Result<Prepared> {
        let given: Vec<Given> =
            self.kernel.params.iter().zip(operands).map(|(param, operand)| given(param, operand)).collect();
        let refused = |why: String| format!("kernel `{}`: {why}", self.kernel.name);
        let plan = plan(self.kernel, &given, &device.limits).map_err(|why| refused(why.to_string()))?;
        let program = &self.kernel.variants[plan.variant].program;
        if self.functions[plan.variant].is_none() {
            let source = &self.kernel.variants[plan.variant].source;
            let entry = cuda::entry(program);
            let compiled = nvrtc
                .compile(source, &program.name, &device.architecture(), &[])
                .map_err(|why| refused(why.to_string()))?;
            let note = compiled.usage_of(&entry).map_or(String::new(), |usage| match usage.spill_stores {
                0 => format!(", {} registers", usage.registers),
                spilled => format!(", {} registers, {spilled} bytes spilled", usage.registers),
            });
            let function = device.function(&compiled.cubin, &entry, Shape::of(program, [0; 3]))?;
            self.functions[plan.variant] = Some((function, note));
        }
        let Some((function, note)) = &self.functions[plan.variant] else {
            unreachable!("it was just loaded")
        };
        let elem = |place: usize| self.kernel.params[place].elem;
        let argument = |passed: &Passed| match passed {
            Passed::Tensor(place) => Ok(Argument::word(address(&operands[*place], elem(*place)))),
            Passed::Scalar(place) => Ok(Argument::word(scalar(&operands[*place], elem(*place)))),
            Passed::Int { value, .. } => Ok(Argument::word(*value as u64)),
            Passed::Map(map) => {
                let (param, elem) = (&self.kernel.params[map.arg], elem(map.arg));
                Argument::map(&param.name, elem, address(&operands[map.arg], elem), map)
            }
        };
        Ok(Prepared {
            function: function.clone(),
            grid: plan.grid,
            arguments: plan.passed.iter().map(argument).collect::<Result<_>>()?,
            note: format!("variant {} of {}{note}", plan.variant + 1, self.kernel.variants.len()),
            _memory: operands.iter().filter_map(memory).collect(),
        })
    }
}

/// Would a launch be accepted?
pub(super) fn can_run(device: &Device, kernel: &Generated, operands: &[Operand]) -> bool {
    let given: Vec<Given> =
        kernel.params.iter().zip(operands).map(|(param, operand)| given(param, operand)).collect();
    plan(kernel, &given, &device.limits).is_ok()
}

impl Prepared {
    pub(super) fn begin(&self, device: &Device) -> Result {
        // SAFETY: the plan was made for these arguments, whose memory is kept alive.
        unsafe { device.launch(&self.function, self.grid, &self.arguments) }
    }
}

fn memory(operand: &Operand) -> Option<Rc<Memory>> {
    match operand {
        Operand::Tensor { memory, .. } => Some(memory.clone()),
        Operand::Scalar(_) => None,
    }
}

fn given(param: &tilewright_codegen::definition::Param, operand: &Operand) -> Given {
    match operand {
        Operand::Scalar(_) => Given::Scalar(param.elem),
        Operand::Tensor { memory, first, extents, strides } => Given::Tensor(Tensor {
            elem: param.elem,
            mutable: param.tensor.is_some_and(|(mutable, _)| mutable),
            extents: extents.clone(),
            strides: strides.clone(),
            len: memory.bytes as u64 / u64::from(param.elem.bytes()) - first,
            address: address(operand, param.elem),
        }),
    }
}

fn address(operand: &Operand, elem: Elem) -> u64 {
    match operand {
        Operand::Tensor { memory, first, .. } => memory.address + first * u64::from(elem.bytes()),
        Operand::Scalar(_) => 0,
    }
}

/// The bits of a scalar.
fn scalar(operand: &Operand, elem: Elem) -> u64 {
    let Operand::Scalar(value) = operand else { return 0 };
    Number::Float(*value).bits(elem)
}
