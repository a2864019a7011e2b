//! Operators of candle that are kernels: what an operator says, and its call on any device.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use candle_core::op::BackpropOp;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, InplaceOp1, InplaceOp2, InplaceOp3,
};
use candle_core::{DType, Device, Error, Layout, Result, Shape, Storage, Tensor, Var, bail};

use crate::host;
use crate::launch::{Launch, Step};
use crate::view::{Slot, View};

/// An operator whose CUDA part is a list of launches.
///
/// Required are its name, its inputs and the launches. Without [`Operator::formula`], the CPU runs the kernels in the simulator.
pub trait Operator: Send + Sync + 'static {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// The names of its one to three inputs.
    fn inputs(&self) -> &'static [&'static str];

    /// The launches that compute the result.
    fn launches(&self, call: &Call) -> Result<Vec<Launch>>;

    /// Type and shape of the result, by default the first input's. Checks the inputs.
    fn result(&self, inputs: &Inputs) -> Result<(DType, Shape)> {
        Ok((inputs.dtype(0), inputs.dims(0).into()))
    }

    /// Do the kernels take an input with these strides? Otherwise it is copied first. By default rows are contiguous, and equally far
    /// apart.
    fn accepts(&self, _index: usize, view: &View) -> bool {
        view.has_contiguous_rows() && (view.dims().is_empty() || view.clone().rows().is_ok())
    }

    /// Further inputs, which have no gradients.
    fn constants(&self) -> Vec<Tensor> {
        Vec::new()
    }

    /// The result by candle's differentiable operators, for [`Operator::backward`] and for the CPU, which computes it in f32.
    fn formula(&self, _inputs: &[Tensor]) -> Result<Tensor> {
        Err(Error::BackwardNotSupported { op: self.name() })
    }

    /// The gradients of the inputs. By default candle differentiates [`Operator::formula`]. After the result,
    /// `results` has what the launches asked of [`Call::output`]; a formula has no more.
    fn backward(&self, inputs: &[&Tensor], _results: &[Tensor], gradient: &Tensor) -> Result<Gradients> {
        differentiate(self, inputs, gradient)
    }
}

/// A gradient of each input of an operator; `None` is 0.
pub type Gradients = Vec<Option<Tensor>>;

/// The gradients of [`Operator::formula`] by candle's.
pub(crate) fn differentiate(
    operator: &(impl Operator + ?Sized),
    inputs: &[&Tensor],
    gradient: &Tensor,
) -> Result<Gradients> {
    let is_float = |input: &&Tensor| input.dtype().is_float();
    let variables = inputs.iter().map(|input| is_float(input).then(|| Var::from_tensor(&input.detach())));
    let variables = variables.map(Option::transpose).collect::<Result<Vec<_>>>()?;
    let tensor = |(input, variable): (&&Tensor, &Option<Var>)| variable.as_deref().unwrap_or(input).clone();
    let tensors: Vec<Tensor> = inputs.iter().zip(&variables).map(tensor).collect();
    let grads = (operator.formula(&tensors)? * gradient.detach())?.flatten_all()?.sum_all()?.backward()?;
    Ok(variables.iter().map(|variable| grads.get(variable.as_deref()?).cloned()).collect())
}

/// The types and shapes of the inputs of a call, and messages about them.
#[derive(Debug)]
pub struct Inputs<'o> {
    name: &'static str,
    names: &'static [&'static str],
    layouts: &'o [(DType, &'o Layout)],
}

impl Inputs<'_> {
    /// The type of an input.
    pub fn dtype(&self, index: usize) -> DType {
        self.layouts[index].0
    }

    /// The extents of an input.
    pub fn dims(&self, index: usize) -> &[usize] {
        self.layouts[index].1.dims()
    }

    /// An error about an input: the operator, the argument, its type and shape, what is wrong with it.
    pub fn refuse<T>(&self, index: usize, wrong: impl std::fmt::Display) -> Result<T> {
        let name = self.names.get(index).unwrap_or(&"constant");
        bail!(
            "{}: argument `{name}`, {:?} of shape {:?}: {wrong}",
            self.name,
            self.dtype(index),
            self.dims(index)
        )
    }

    /// Refuses an input of other extents.
    pub fn check_dims(&self, index: usize, expected: &[usize], why: &str) -> Result<()> {
        if self.dims(index) == expected {
            return Ok(());
        }
        self.refuse(index, format!("the shape must be {expected:?}, {why}"))
    }

    /// Refuses an input of another rank.
    pub fn check_rank(&self, index: usize, rank: usize, modes: &str) -> Result<()> {
        if self.dims(index).len() == rank {
            return Ok(());
        }
        self.refuse(index, format!("it must have {rank} dimensions, {modes}"))
    }

    /// Refuses inputs other than f32, f16 and bf16, and inputs of different types among the first `count`.
    pub fn check_floats(&self, count: usize) -> Result<()> {
        let first = self.dtype(0);
        if !matches!(first, DType::F32 | DType::F16 | DType::BF16) {
            return self.refuse(0, "the type must be F32, F16 or BF16");
        }
        match (1..count).find(|index| self.dtype(*index) != first) {
            Some(index) => {
                self.refuse(index, format!("the type must be {first:?}, the type of `{}`", self.names[0]))
            }
            None => Ok(()),
        }
    }
}

/// A call: views of its inputs and of its results, which are contiguous.
#[derive(Debug)]
pub struct Call {
    pub(crate) name: &'static str,
    pub(crate) inputs: Vec<View>,
    pub(crate) outputs: RefCell<Vec<(DType, Shape)>>,
    /// The input that an inplace operator changes.
    target: Option<View>,
    arch: u32,
}

impl Call {
    /// An input, or a constant after the inputs.
    pub fn input(&self, index: usize) -> View {
        self.inputs[index].clone()
    }

    /// The result of an operator: the first output, or the input that it changes.
    pub fn result(&self) -> View {
        if let Some(target) = &self.target {
            return target.clone();
        }
        let (dtype, shape) = &self.outputs.borrow()[0];
        View::new(Slot::Output(0), *dtype, &Layout::contiguous(shape)).expect("its type was checked")
    }

    /// The type of the result.
    pub fn dtype(&self) -> DType {
        self.outputs.borrow()[0].0
    }

    /// Another result: memory between launches, or numbers for [`Operator::backward`].
    pub fn output(&self, dtype: DType, shape: impl Into<Shape>) -> Result<View> {
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::I32) {
            bail!("{}: the result is {dtype:?}, and must be F32, F16, BF16 or I32", self.name)
        }
        let (mut all, shape) = (self.outputs.borrow_mut(), shape.into());
        let view = View::new(Slot::Output(all.len()), dtype, &Layout::contiguous(&shape));
        all.push((dtype, shape));
        view
    }

    /// The compute capability of the device, such as 90; the simulator's is 90.
    pub fn arch(&self) -> u32 {
        self.arch
    }

    fn new(name: &'static str, inputs: &[&Tensor]) -> Result<Call> {
        let view =
            |(index, input): (usize, &&Tensor)| View::new(Slot::Input(index), input.dtype(), input.layout());
        let views = inputs.iter().enumerate().map(view).collect::<Result<_>>()?;
        let arch = inputs.first().map_or(Ok(0), |input| arch(input.device()))?;
        Ok(Call { name, inputs: views, outputs: RefCell::default(), target: None, arch })
    }

    /// Runs launches on the device of the inputs.
    fn run(&self, inputs: &[&Tensor], launches: Vec<Launch>) -> Result<Vec<Storage>> {
        let guards: Vec<_> = inputs.iter().map(|input| input.storage_and_layout().0).collect();
        macro_rules! storages {
            ($kind:ident) => {{
                let storage = |(index, guard)| match guard {
                    &Storage::$kind(ref storage) => Ok(storage),
                    _ => bail!("{}: tensor {index} is on another device than the first", self.name),
                };
                guards.iter().map(|guard| &**guard).enumerate().map(storage).collect::<Result<Vec<_>>>()?
            }};
        }
        match &*guards[0] {
            Storage::Cpu(_) => {
                let mut all = host::alloc(self, 0)?;
                host::simulate(self, &launches, &storages!(Cpu), &mut all)?;
                Ok(all.into_iter().map(Storage::Cpu).collect())
            }
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => {
                let mut all = crate::device::alloc(self, 0, storage)?;
                crate::device::run(
                    self,
                    &launches,
                    &storages!(Cuda),
                    &mut all.iter_mut().collect::<Vec<_>>(),
                )?;
                Ok(all.into_iter().map(Storage::Cuda).collect())
            }
            _ => bail!("{}: kernels run on CUDA devices, and in the simulator", self.name),
        }
    }

    /// Results from `first` on as tensors.
    fn tensors(&self, first: usize, storages: impl IntoIterator<Item = Storage>) -> Vec<Tensor> {
        let outputs = self.outputs.borrow();
        let tensor = |(storage, (_, shape)): (Storage, &(DType, Shape))| {
            Tensor::from_storage(storage, shape.clone(), BackpropOp::none(), false)
        };
        storages.into_iter().zip(&outputs[first..]).map(tensor).collect()
    }
}

/// The compute capability of a device; the simulator's is 90.
pub(crate) fn arch(device: &Device) -> Result<u32> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Ok(crate::device::stream(device)?.device().properties().arch()),
        _ => Ok(90),
    }
}

/// Runs launches, and returns all their outputs, for [`Operator::backward`]. On the CPU they run in the simulator.
pub fn run(
    name: &'static str,
    inputs: &[&Tensor],
    launches: impl FnOnce(&Call) -> Result<Vec<Launch>>,
) -> Result<Vec<Tensor>> {
    let call = Call::new(name, inputs)?;
    let storages = call.run(inputs, launches(&call)?)?;
    Ok(call.tensors(0, storages))
}

/// Checks the inputs of an operator, and returns the type and the shape of its result.
fn check(operator: &impl Operator, inputs: &[&Tensor]) -> Result<(DType, Shape)> {
    let (name, names) = (operator.name(), operator.inputs());
    if inputs.len() != names.len() {
        bail!("{name}: {} inputs were given, and it has {names:?}", inputs.len())
    }
    if let Some(index) = (1..inputs.len()).find(|at| !inputs[*at].device().same_device(inputs[0].device())) {
        let of = |index: usize| inputs[index].device().location();
        bail!("{name}: argument `{}` is on {:?}, and `{}` on {:?}", names[index], of(index), names[0], of(0))
    }
    // The messages about shapes come before any copy.
    let layouts: Vec<_> = inputs.iter().map(|input| (input.dtype(), input.layout())).collect();
    operator.result(&Inputs { name, names, layouts: &layouts })
}

/// Inputs from `first` on as the kernels take them: others are copied.
fn accepted(operator: &impl Operator, inputs: &[&Tensor], first: usize) -> Result<Vec<Tensor>> {
    let accept = |(index, input): (usize, &&Tensor)| {
        let view = View::new(Slot::Input(index), input.dtype(), input.layout())?;
        if operator.accepts(index, &view) { Ok((*input).clone()) } else { input.contiguous() }
    };
    inputs.iter().enumerate().skip(first).map(accept).collect()
}

/// Runs an operator on the device of its inputs.
pub fn apply(operator: impl Operator, inputs: &[&Tensor]) -> Result<Tensor> {
    let (dtype, shape) = check(&operator, inputs)?;
    let (name, names) = (operator.name(), operator.inputs());
    let inputs = accepted(&operator, inputs, 0)?;
    let constants = operator.constants();
    let all: Vec<&Tensor> = inputs.iter().chain(&constants).collect();
    let call = Call::new(name, &all)?;
    call.output(dtype, &shape)?;
    let mut storages = match host::formula(&operator, &inputs, dtype)? {
        Some(result) => vec![Storage::Cpu(result)],
        None => call.run(&all, operator.launches(&call)?)?,
    };
    let result = Mutex::new(Some((storages.remove(0), shape)));
    let custom = Custom { operator, result, kept: call.tensors(1, storages) };
    match inputs.as_slice() {
        [a] => a.apply_op1(custom),
        [a, b] => a.apply_op2(b, custom),
        [a, b, c] => a.apply_op3(b, c, custom),
        _ => bail!("{name}: an operator has one to three inputs, and this has {names:?}"),
    }
}

/// An operator as candle's, which has run.
struct Custom<O> {
    operator: O,
    result: Mutex<Option<(Storage, Shape)>>,
    /// The outputs after the result.
    kept: Vec<Tensor>,
}

impl<O: Operator> Custom<O> {
    fn take(&self) -> Option<(Storage, Shape)> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn gradients<const N: usize>(
        &self,
        inputs: [&Tensor; N],
        result: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; N]> {
        let results: Vec<Tensor> = std::iter::once(result).chain(&self.kept).map(Tensor::detach).collect();
        let all = self.operator.backward(&inputs, &results, gradient)?;
        // Candle expects a gradient of every input that depends on variables.
        let known = |(input, gradient): (&&Tensor, Option<Tensor>)| match gradient {
            None if input.track_op() => Ok(Some(input.zeros_like()?)),
            gradient => Ok(gradient),
        };
        let all = inputs.iter().zip(all).map(known).collect::<Result<Vec<_>>>()?;
        let Ok(all) = all.try_into() else { bail!("{}: one gradient for each input", self.operator.name()) };
        Ok(all)
    }
}

/// The traits of candle, by the number of inputs.
macro_rules! custom {
    ($($custom:ident: $(($storage:ident, $layout:ident, $arg:ident)),* -> $gradients:ty, $all:pat => $each:expr;)*) => {$(
        impl<O: Operator> $custom for Custom<O> {
            fn name(&self) -> &'static str {
                self.operator.name()
            }

            fn cpu_fwd(&self, $($storage: &CpuStorage, $layout: &Layout),*) -> Result<(CpuStorage, Shape)> {
                $(let _ = ($storage, $layout);)*
                match self.take() {
                    Some((Storage::Cpu(storage), shape)) => Ok((storage, shape)),
                    _ => bail!("{}: an operator runs once", self.operator.name()),
                }
            }

            fn cuda_fwd(&self, $($storage: &CudaStorage, $layout: &Layout),*) -> Result<(CudaStorage, Shape)> {
                $(let _ = ($storage, $layout);)*
                match self.take() {
                    Some((Storage::Cuda(storage), shape)) => Ok((storage, shape)),
                    _ => bail!("{}: an operator runs once", self.operator.name()),
                }
            }

            fn bwd(&self, $($arg: &Tensor,)* result: &Tensor, gradient: &Tensor) -> Result<$gradients> {
                let $all = self.gradients([$($arg),*], result, gradient)?;
                Ok($each)
            }
        }
    )*};
}

custom! {
    CustomOp1: (s1, l1, a) -> Option<Tensor>, [a] => a;
    CustomOp2: (s1, l1, a), (s2, l2, b) -> (Option<Tensor>, Option<Tensor>), [a, b] => (a, b);
    CustomOp3: (s1, l1, a), (s2, l2, b), (s3, l3, c) -> (Option<Tensor>, Option<Tensor>, Option<Tensor>), [a, b, c] => (a, b, c);
}

/// Runs an operator that changes its first input, as candle's `InplaceOp1` to `InplaceOp3`. For its launches that input is [`Call::result`],
/// with its own strides. On the CPU, the result of [`Operator::formula`] replaces it.
pub fn apply_inplace(operator: impl Operator, inputs: &[&Tensor]) -> Result<()> {
    let (dtype, shape) = check(&operator, inputs)?;
    let (name, names, target) = (operator.name(), operator.inputs(), inputs[0]);
    if inputs.iter().any(|input| input.track_op()) {
        bail!("{name}: an inplace operator has no gradients, and an input depends on variables: detach it")
    }
    if (dtype, shape.dims()) != (target.dtype(), target.dims()) {
        bail!("{name}: the result is {dtype:?} of shape {shape:?}, and must be as `{}`", names[0])
    }
    let view = View::new(Slot::Output(0), dtype, target.layout())?;
    if !operator.accepts(0, &view) {
        bail!(
            "{name}: the kernel does not take the strides {:?} of `{}`: pass a copy",
            view.strides(),
            names[0]
        )
    }
    let mut others = accepted(&operator, inputs, 1)?;
    let all: Vec<Tensor> = std::iter::once(target).chain(&others).cloned().collect();
    let formula = host::formula(&operator, &all, dtype)?;
    others.extend(operator.constants());
    let mut call = Call::new(name, &others.iter().collect::<Vec<_>>())?;
    call.arch = arch(target.device())?;
    call.inputs.insert(0, view.clone());
    call.target = Some(view);
    call.output(dtype, shape)?;
    let launches = if formula.is_none() { operator.launches(&call)? } else { Vec::new() };
    if launches.iter().any(|launch| matches!(launch.step, Step::Matmul(_))) {
        bail!("{name}: a product is not written inplace: write it to a result, and copy it")
    }
    let inplace = Inplace { call, launches, formula };
    match others.as_slice() {
        [] => target.inplace_op1(&inplace),
        [a] => target.inplace_op2(a, &inplace),
        [a, b] => target.inplace_op3(a, b, &inplace),
        _ => bail!("{name}: an inplace operator has at most two inputs beside the one that it changes"),
    }
}

/// An operator that changes its first input.
struct Inplace {
    call: Call,
    launches: Vec<Launch>,
    /// The result on the CPU.
    formula: Option<CpuStorage>,
}

impl Inplace {
    fn cpu(&self, target: &mut CpuStorage, others: &[&CpuStorage]) -> Result<()> {
        if let Some(values) = &self.formula {
            return host::assign(target, &self.call.result(), values);
        }
        let mut outputs = vec![target.clone()];
        outputs.extend(host::alloc(&self.call, 1)?);
        host::simulate(&self.call, &self.launches, others, &mut outputs)?;
        *target = outputs.swap_remove(0);
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, target: &mut CudaStorage, others: &[&CudaStorage]) -> Result<()> {
        let mut rest = crate::device::alloc(&self.call, 1, target)?;
        let mut outputs: Vec<_> = std::iter::once(target).chain(&mut rest).collect();
        crate::device::run(&self.call, &self.launches, others, &mut outputs)
    }

    #[cfg(not(feature = "cuda"))]
    fn cuda(&self, _: &mut CudaStorage, _: &[&CudaStorage]) -> Result<()> {
        bail!("{}: this program is built without the feature `cuda`", self.call.name)
    }
}

/// The traits of candle, by the number of inputs.
macro_rules! inplace {
    ($($inplace:ident: $(($storage:ident, $layout:ident)),*;)*) => {$(
        impl $inplace for Inplace {
            fn name(&self) -> &'static str {
                self.call.name
            }

            fn cpu_fwd(&self, target: &mut CpuStorage, _: &Layout $(, $storage: &CpuStorage, $layout: &Layout)*) -> Result<()> {
                $(let _ = $layout;)*
                self.cpu(target, &[$($storage),*])
            }

            fn cuda_fwd(&self, target: &mut CudaStorage, _: &Layout $(, $storage: &CudaStorage, $layout: &Layout)*) -> Result<()> {
                $(let _ = $layout;)*
                self.cuda(target, &[$($storage),*])
            }
        }
    )*};
}

inplace! {
    InplaceOp1: ;
    InplaceOp2: (s1, l1);
    InplaceOp3: (s1, l1), (s2, l2);
}
