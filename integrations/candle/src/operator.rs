//! Operators of candle that are kernels: what an operator says, and its call on any device.

use candle_core::{CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3};
use candle_core::{DType, Error, Layout, Result, Shape, Storage, Tensor, Var, bail};

use crate::host;
use crate::launch::Launch;
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

    /// The gradients of the inputs, one for each; `None` is 0. By default candle differentiates [`Operator::formula`].
    fn backward(
        &self,
        inputs: &[&Tensor],
        _result: &Tensor,
        gradient: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        differentiate(self, inputs, gradient)
    }
}

/// The gradients of [`Operator::formula`] by candle's.
pub(crate) fn differentiate(
    operator: &(impl Operator + ?Sized),
    inputs: &[&Tensor],
    gradient: &Tensor,
) -> Result<Vec<Option<Tensor>>> {
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

/// A call of an operator: views of its inputs and of its result, which is contiguous.
#[derive(Debug)]
pub struct Call {
    pub(crate) inputs: Vec<View>,
    pub(crate) result: View,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    pub(crate) arch: u32,
}

impl Call {
    /// An input, or a constant after the inputs.
    pub fn input(&self, index: usize) -> View {
        self.inputs[index].clone()
    }

    /// The result.
    pub fn result(&self) -> View {
        self.result.clone()
    }

    /// The compute capability of the device, such as 90; the simulator's is 90.
    pub fn arch(&self) -> u32 {
        self.arch
    }

    pub(crate) fn new(operator: &dyn Operator, layouts: &[(DType, &Layout)], arch: u32) -> Result<Call> {
        let inputs = Inputs { name: operator.name(), names: operator.inputs(), layouts };
        let (dtype, shape) = operator.result(&inputs)?;
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            bail!("{}: the result is {dtype:?}, and must be F32, F16 or BF16", operator.name())
        }
        let view = |(index, (dtype, layout)): (usize, &(DType, &Layout))| {
            View::new(Slot::Input(index), *dtype, layout)
        };
        let result = View::new(Slot::Result, dtype, &Layout::contiguous(&shape))?;
        let inputs = layouts.iter().enumerate().map(view).collect::<Result<_>>()?;
        Ok(Call { inputs, result, dtype, shape, arch })
    }
}

/// Runs an operator on the device of its inputs.
pub fn apply(operator: impl Operator, inputs: &[&Tensor]) -> Result<Tensor> {
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
    operator.result(&Inputs { name, names, layouts: &layouts })?;
    let accepted = |(index, input): (usize, &&Tensor)| {
        let view = View::new(Slot::Input(index), input.dtype(), input.layout())?;
        if operator.accepts(index, &view) { Ok((*input).clone()) } else { input.contiguous() }
    };
    let inputs = inputs.iter().enumerate().map(accepted).collect::<Result<Vec<_>>>()?;
    let custom = Custom(operator);
    match inputs.as_slice() {
        [a] => a.apply_op1(custom),
        [a, b] => a.apply_op2(b, custom),
        [a, b, c] => a.apply_op3(b, c, custom),
        _ => bail!("{name}: an operator has one to three inputs, and this has {names:?}"),
    }
}

/// An operator as candle's.
struct Custom<O>(O);

impl<O: Operator> Custom<O> {
    fn cpu(&self, inputs: &[(&CpuStorage, &Layout)]) -> Result<(CpuStorage, Shape)> {
        let constants = self.0.constants();
        let guards: Vec<_> = constants.iter().map(Tensor::storage_and_layout).collect();
        let mut inputs = inputs.to_vec();
        for (storage, layout) in &guards {
            let Storage::Cpu(storage) = &**storage else {
                bail!("{}: a constant is not on the CPU", self.0.name())
            };
            inputs.push((storage, layout));
        }
        let layouts: Vec<_> = inputs.iter().map(|(storage, layout)| (dtype(storage), *layout)).collect();
        let storages: Vec<_> = inputs.iter().map(|(storage, _)| *storage).collect();
        let call = Call::new(&self.0, &layouts, 90)?;
        let result = host::run(&self.0, &call, &storages)?;
        Ok((result, call.shape))
    }

    #[cfg(feature = "cuda")]
    fn cuda(&self, inputs: &[(&CudaStorage, &Layout)]) -> Result<(CudaStorage, Shape)> {
        use candle_core::backend::BackendStorage;
        let constants = self.0.constants();
        let guards: Vec<_> = constants.iter().map(Tensor::storage_and_layout).collect();
        let mut inputs = inputs.to_vec();
        for (storage, layout) in &guards {
            let Storage::Cuda(storage) = &**storage else {
                bail!("{}: a constant is not on the device", self.0.name())
            };
            inputs.push((storage, layout));
        }
        let layouts: Vec<_> = inputs.iter().map(|(storage, layout)| (storage.dtype(), *layout)).collect();
        let storages: Vec<_> = inputs.iter().map(|(storage, _)| *storage).collect();
        let device = storages[0].device();
        let stream = crate::device::stream(device)?;
        let call = Call::new(&self.0, &layouts, stream.device().properties().arch())?;
        let result = crate::device::run(&self.0, &call, device, &stream, &storages)?;
        Ok((result, call.shape))
    }

    #[cfg(not(feature = "cuda"))]
    fn cuda(&self, _: &[(&CudaStorage, &Layout)]) -> Result<(CudaStorage, Shape)> {
        Err(Error::NotCompiledWithCudaSupport)
    }

    fn gradients<const N: usize>(
        &self,
        inputs: [&Tensor; N],
        result: &Tensor,
        gradient: &Tensor,
    ) -> Result<[Option<Tensor>; N]> {
        let all = self.0.backward(&inputs, result, gradient)?;
        // Candle expects a gradient of every input that depends on variables.
        let known = |(input, gradient): (&&Tensor, Option<Tensor>)| match gradient {
            None if input.track_op() => Ok(Some(input.zeros_like()?)),
            gradient => Ok(gradient),
        };
        let all = inputs.iter().zip(all).map(known).collect::<Result<Vec<_>>>()?;
        let Ok(all) = all.try_into() else { bail!("{}: one gradient for each input", self.0.name()) };
        Ok(all)
    }
}

fn dtype(storage: &CpuStorage) -> DType {
    use candle_core::backend::BackendStorage;
    storage.dtype()
}

/// The traits of candle, by the number of inputs.
macro_rules! custom {
    ($($custom:ident: $(($storage:ident, $layout:ident, $arg:ident)),* -> $gradients:ty, $all:pat => $each:expr;)*) => {$(
        impl<O: Operator> $custom for Custom<O> {
            fn name(&self) -> &'static str {
                self.0.name()
            }

            fn cpu_fwd(&self, $($storage: &CpuStorage, $layout: &Layout),*) -> Result<(CpuStorage, Shape)> {
                self.cpu(&[$(($storage, $layout)),*])
            }

            fn cuda_fwd(&self, $($storage: &CudaStorage, $layout: &Layout),*) -> Result<(CudaStorage, Shape)> {
                self.cuda(&[$(($storage, $layout)),*])
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
