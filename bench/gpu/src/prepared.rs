//! One of our kernels with its arguments, ready for repeated launches: planned, compiled and loaded once.
#![allow(unsafe_code)]

use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tilewright_codegen::definition::{Generated, Param};
use tilewright_codegen::launch::{Given, Passed, Plan, Tensor, plan, plan_of, ranking};
use tilewright_codegen::number::Number;
use tilewright_codegen::thread::Kernel;
use tilewright_codegen::{Elem, cuda};
use tilewright_runtime::nvrtc::{Compiled, Nvrtc};
use tilewright_runtime::raw::Shape;

use super::Result;
use super::driver::{Argument, Device, Function, Memory};

/// An argument of a kernel.
#[derive(Clone)]
pub(crate) enum Operand {
    /// A tensor: its memory, the offset of its first element, extents and strides.
    Tensor { memory: Rc<Memory>, first: u64, extents: Vec<i64>, strides: Vec<i64> },
    /// A number.
    Scalar(f64),
}

/// A compiled kernel: its variants are loaded on demand.
pub(crate) struct Loaded<'k> {
    kernel: &'k Generated,
    functions: Vec<Option<(Function, String)>>,
    /// The kernels that pack its arguments.
    packs: Vec<Loaded<'k>>,
    /// Memory for packed arguments and for what blocks pass to each other, and memory that is 0 before and after each launch;
    /// launches follow one another.
    own: [Option<Rc<Memory>>; 2],
}

/// A kernel with its arguments.
pub(crate) struct Prepared {
    /// Kernels that run one after the other.
    steps: Vec<Step>,
    /// The variant and its resources: `variant 1 of 3, 128 registers`.
    pub(crate) note: String,
    _memory: Vec<Rc<Memory>>,
}

struct Step {
    function: Function,
    grid: [u32; 3],
    arguments: Vec<Argument>,
}

impl<'k> Loaded<'k> {
    pub(crate) fn new(kernel: &'k Generated) -> Loaded<'k> {
        let packs = kernel.packs.iter().map(|pack| Loaded::new(&pack.kernel)).collect();
        Loaded { kernel, functions: vec![None; kernel.plannable()], packs, own: [None, None] }
    }

    /// The variants that can run, and the estimated seconds of each; a launch takes the first.
    pub(crate) fn ranked(&self, device: &Device, operands: &[Operand]) -> Vec<(usize, Option<f64>)> {
        let given = given(self.kernel, operands);
        let serves = ranking(self.kernel, &given, &device.limits).map_or(Vec::new(), |all| all.serves);
        serves.into_iter().map(|one| (one.variant, one.estimate.map(|of| of.seconds()))).collect()
    }

    /// Compiles all variants that the device runs, on all processors of the host.
    pub(crate) fn compile(&mut self, device: &Device, nvrtc: &Nvrtc) -> Result {
        let (kernel, next) = (self.kernel, AtomicUsize::new(0));
        let capability = device.capability;
        let runs = |of: &Kernel| of.arch <= capability && (!of.arch_specific || of.arch == capability);
        let architecture = device.architecture();
        let work = || {
            let mut own = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(variant) = kernel.variants.get(at) else { return Ok(own) };
                if runs(&variant.program) {
                    own.push((at, compile(kernel, at, nvrtc, &architecture)?));
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let compiled: Vec<Result<Vec<_>>> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            all.into_iter()
                .map(|one| one.join().unwrap_or_else(|_| Err("a compiler stopped".into())))
                .collect()
        });
        for one in compiled {
            for (at, compiled) in one? {
                self.functions[at] = Some(load(kernel, at, device, &compiled)?);
            }
        }
        Ok(())
    }

    /// Plans a launch, of one variant if it is given, and compiles its variant, and the kernels that pack its arguments.
    pub(crate) fn prepare(
        &mut self,
        device: &Device,
        nvrtc: &Nvrtc,
        operands: &[Operand],
        variant: Option<usize>,
    ) -> Result<Prepared> {
        let given = given(self.kernel, operands);
        let refused = |why: String| format!("kernel `{}`: {why}", self.kernel.name);
        let plan = match variant {
            None => plan(self.kernel, &given, &device.limits),
            Some(variant) => plan_of(self.kernel, variant, &given, &device.limits),
        };
        let plan = plan.map_err(|why| refused(why.to_string()))?;
        for (at, (known, bytes)) in self.own.iter_mut().zip([plan.workspace(), plan.zeroed()]).enumerate() {
            if bytes > known.as_ref().map_or(0, |known| known.bytes as u64) {
                let memory = device.memory(bytes as usize)?;
                if at == 1 {
                    device.set(&memory, 0)?;
                }
                *known = Some(memory);
            }
        }
        let own = [0, 1].map(|at| self.own[at].as_ref().map_or(0, |known| known.address));
        let scalars: Vec<u64> = self
            .kernel
            .params
            .iter()
            .zip(operands)
            .map(|(param, operand)| scalar(operand, param.elem))
            .collect();
        let mut steps = Vec::new();
        for packed in &plan.packed {
            let arguments = packed.arguments(self.kernel, &given, own[0]).map(Given::Tensor);
            let pack = &mut self.packs[packed.pack];
            steps.push(pack.step(device, nvrtc, &packed.plan, &arguments, (&[], [0; 2]))?.0);
        }
        let arguments = plan.arguments(&given, own[0]);
        let (step, resources) = self.step(device, nvrtc, &plan, &arguments, (&scalars, own))?;
        steps.push(step);
        let names: Vec<&str> =
            plan.packed.iter().map(|packed| &*self.kernel.params[packed.arg].name).collect();
        let packs = if names.is_empty() { String::new() } else { format!(", packs {}", names.join(" and ")) };
        Ok(Prepared {
            steps,
            note: format!("variant {} of {}{resources}{packs}", plan.variant + 1, self.kernel.variants.len()),
            _memory: operands.iter().filter_map(memory).chain(self.own.iter().flatten().cloned()).collect(),
        })
    }

    /// A planned launch of the kernel alone, and the resources of its variant. `memory` is its workspace, and memory that is 0.
    fn step(
        &mut self,
        device: &Device,
        nvrtc: &Nvrtc,
        plan: &Plan,
        given: &[Given],
        (scalars, memory): (&[u64], [u64; 2]),
    ) -> Result<(Step, String)> {
        if self.functions[plan.variant].is_none() {
            let compiled = compile(self.kernel, plan.variant, nvrtc, &device.architecture())?;
            self.functions[plan.variant] = Some(load(self.kernel, plan.variant, device, &compiled)?);
        }
        let Some((function, note)) = &self.functions[plan.variant] else {
            unreachable!("it was just loaded")
        };
        let address = |position: usize| match &given[position] {
            Given::Tensor(tensor) => tensor.address,
            Given::Scalar(_) => 0,
        };
        let argument = |passed: &Passed| match passed {
            Passed::Tensor(position) => Ok(Argument::word(address(*position))),
            Passed::Scalar(position) => Ok(Argument::word(scalars[*position])),
            Passed::Int { value, .. } => Ok(Argument::word(*value as u64)),
            Passed::Workspace { offset, zeroed } => Ok(Argument::word(memory[usize::from(*zeroed)] + offset)),
            Passed::Map(map) => {
                let param = &self.kernel.params[map.arg];
                Argument::map(&param.name, param.elem, address(map.arg), map)
            }
        };
        let arguments = plan.passed.iter().map(argument).collect::<Result<_>>()?;
        Ok((Step { function: function.clone(), grid: plan.grid, arguments }, note.clone()))
    }
}

fn compile(kernel: &Generated, variant: usize, nvrtc: &Nvrtc, architecture: &str) -> Result<Compiled> {
    let variant = kernel.variant(variant);
    nvrtc
        .compile(&variant.source, &variant.program.name, architecture, &[])
        .map_err(|why| format!("kernel `{}`: {why}", kernel.name))
}

/// The function of a variant, and its resources.
fn load(
    kernel: &Generated,
    variant: usize,
    device: &Device,
    compiled: &Compiled,
) -> Result<(Function, String)> {
    let program = &kernel.variant(variant).program;
    let entry = cuda::entry(program);
    let note = compiled.usage_of(&entry).map_or(String::new(), |usage| match usage.spill_stores {
        0 => format!(", {} registers", usage.registers),
        spilled => format!(", {} registers, {spilled} bytes spilled", usage.registers),
    });
    Ok((device.function(&compiled.cubin, &entry, Shape::of(program, [0; 3]))?, note))
}

/// Would a launch of a variant be accepted?
pub(crate) fn can_run(device: &Device, kernel: &Generated, operands: &[Operand], variant: usize) -> bool {
    plan_of(kernel, variant, &given(kernel, operands), &device.limits).is_ok()
}

impl Prepared {
    pub(crate) fn begin(&self, device: &Device) -> Result {
        self.steps.iter().try_for_each(|Step { function, grid, arguments }| {
            // SAFETY: the plan was made for these arguments, whose memory is kept alive.
            unsafe { device.launch(function, *grid, arguments) }
        })
    }
}

fn memory(operand: &Operand) -> Option<Rc<Memory>> {
    match operand {
        Operand::Tensor { memory, .. } => Some(memory.clone()),
        Operand::Scalar(_) => None,
    }
}

fn given(kernel: &Generated, operands: &[Operand]) -> Vec<Given> {
    let one = |(param, operand): (&Param, &Operand)| match operand {
        Operand::Scalar(_) => Given::Scalar(param.elem),
        Operand::Tensor { memory, first, extents, strides } => Given::Tensor(Tensor {
            elem: param.elem,
            mutable: param.tensor.is_some_and(|(mutable, _)| mutable),
            extents: extents.clone(),
            strides: strides.clone(),
            len: memory.bytes as u64 / u64::from(param.elem.bytes()) - first,
            address: memory.address + first * u64::from(param.elem.bytes()),
        }),
    };
    kernel.params.iter().zip(operands).map(one).collect()
}

/// The bits of a scalar.
fn scalar(operand: &Operand, elem: Elem) -> u64 {
    let Operand::Scalar(value) = operand else { return 0 };
    Number::Float(*value).bits(elem)
}
