//! Operators on the CPU: by candle's operators, or with their kernels in the simulator.

use std::cell::Cell;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, DType, Error, Result, Shape, Tensor, bail};
use half::{bf16, f16};
use tilewright::matmul::{Host, HostRef, HostTensor, Matmul};
use tilewright::prelude as types;
use tilewright::{Arg, Elem, ParamDef, Simulate};

use crate::launch::{Argument, Launch, Product, Step};
use crate::operator::{Call, Operator};
use crate::view::{Slot, View};

/// The result of an operator on the CPU by its formula in f32, if it has one. The simulator and other devices run kernels.
pub(crate) fn formula(
    operator: &impl Operator,
    inputs: &[Tensor],
    dtype: DType,
) -> Result<Option<CpuStorage>> {
    if runs_kernels(&inputs[0]) {
        return Ok(None);
    }
    let plain = |input: &Tensor| {
        let input = input.detach().contiguous()?;
        if input.dtype().is_float() { input.to_dtype(DType::F32) } else { Ok(input) }
    };
    match operator.formula(&inputs.iter().map(plain).collect::<Result<Vec<_>>>()?) {
        Err(Error::BackwardNotSupported { .. }) => Ok(None),
        result => Some(from_f32(dtype, result?.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)).transpose(),
    }
}

/// Do kernels run on the device of a tensor?
pub(crate) fn runs_kernels(tensor: &Tensor) -> bool {
    !tensor.device().is_cpu() || SIMULATED.get()
}

/// Runs the operators of `work` on the CPU by their kernels in the simulator, which checks every access: a test without a GPU.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::{ops, simulated};
/// let x = Tensor::ones((2, 32), DType::BF16, &Device::Cpu)?;
/// let y = simulated(|| ops::softmax_last_dim(&x))?;
/// assert_eq!(y.to_dtype(DType::F32)?.to_vec2::<f32>()?[1][31], 1.0 / 32.0);
/// # candle_core::Result::Ok(())
/// ```
pub fn simulated<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            SIMULATED.set(self.0);
        }
    }
    let _before = Before(SIMULATED.replace(true));
    work()
}

thread_local! {
    static SIMULATED: Cell<bool> = const { Cell::new(false) };
}

/// Memory of the results of a call from `first` on. Elements that no kernel writes are NaN.
pub(crate) fn alloc(call: &Call, first: usize) -> Result<Vec<CpuStorage>> {
    let poisoned = |(dtype, shape): &(DType, Shape)| from_f32(*dtype, vec![f32::NAN; shape.elem_count()]);
    call.outputs.borrow()[first..].iter().map(poisoned).collect()
}

pub(crate) fn simulate(
    call: &Call,
    launches: &[Launch],
    inputs: &[&CpuStorage],
    outputs: &mut [CpuStorage],
) -> Result<()> {
    for launch in launches {
        match &launch.step {
            Step::Kernel(kernel, arguments) => {
                let params = || kernel.params().iter().zip(arguments);
                let arg = |(param, argument): (&ParamDef, &Argument)| match argument {
                    Argument::Tensor(view) => {
                        let storage = match view.slot {
                            Slot::Input(index) => inputs[index],
                            Slot::Output(index) => &outputs[index],
                        };
                        simulated_argument(view, storage, is_written(param))
                    }
                    Argument::F32(number) => Ok(Arg::number(*number)),
                    Argument::I32(number) => Ok(Arg::number(*number)),
                };
                let args = params().map(arg).collect::<Result<Vec<_>>>()?;
                let done = kernel.simulate(&args).map_err(Error::wrap)?;
                for (param, argument) in params().filter(|(param, _)| is_written(param)) {
                    let Argument::Tensor(View { slot: Slot::Output(index), .. }) = argument else {
                        bail!("{}: a kernel writes `{}`, which is no result", call.name, param.name)
                    };
                    outputs[*index] = match outputs[*index].dtype() {
                        DType::F32 => CpuStorage::F32(done.get(&param.name).map_err(Error::wrap)?),
                        DType::I32 => CpuStorage::I32(done.get(&param.name).map_err(Error::wrap)?),
                        DType::F16 => {
                            let all: Vec<types::f16> = done.get(&param.name).map_err(Error::wrap)?;
                            CpuStorage::F16(all.iter().map(|x| f16::from_bits(x.to_bits())).collect())
                        }
                        _ => {
                            let all: Vec<types::bf16> = done.get(&param.name).map_err(Error::wrap)?;
                            CpuStorage::BF16(all.iter().map(|x| bf16::from_bits(x.to_bits())).collect())
                        }
                    };
                }
            }
            Step::Matmul(product) => outputs[0] = multiply(product, inputs, outputs[0].dtype())?,
        }
    }
    Ok(())
}

fn is_written(param: &ParamDef) -> bool {
    matches!(param.tensor, Some((true, _)))
}

/// A product by the simulator, in f32: elements of 16 bits are exact in it, and kernels accumulate in it.
fn multiply(product: &Product, inputs: &[&CpuStorage], dtype: DType) -> Result<CpuStorage> {
    let all = |view: &View| -> Result<Vec<f32>> {
        let Slot::Input(index) = view.slot else { bail!("a product reads inputs") };
        let whole = View { dims: vec![count(inputs[index])], strides: vec![1], offset: 0, ..view.clone() };
        to_f32(&whole, inputs[index])
    };
    fn matrix<'v>(view: &View, values: &'v [f32]) -> Result<HostRef<'v, f32, 2>> {
        let (extents, strides) = ([view.dims[0], view.dims[1]], [view.strides[0], view.strides[1]]);
        HostRef::strided(extents, strides, &values[view.offset..]).map_err(Error::wrap)
    }
    let Product { a, b, bias, activation, c } = product;
    let (left, right) = (all(a)?, all(b)?);
    let added = bias.as_ref().map(|bias| Ok::<_, Error>((all(bias)?, bias))).transpose()?;
    let mut out = HostTensor::zeros([c.dims[0], c.dims[1]]).map_err(Error::wrap)?;
    let mut matmul = Matmul::<Host>::new();
    if let Some((values, view)) = &added {
        let bias = HostRef::strided([view.dims[0]], [view.strides[0]], &values[view.offset..]);
        matmul = matmul.bias(bias.map_err(Error::wrap)?);
    }
    if let Some(activation) = activation {
        matmul = matmul.activation(*activation);
    }
    matmul.run_into(&Host::cpu(), matrix(a, &left)?, matrix(b, &right)?, &mut out).map_err(Error::wrap)?;
    from_f32(dtype, out.into_values())
}

/// An argument of the simulator.
fn simulated_argument(view: &View, storage: &CpuStorage, written: bool) -> Result<Arg> {
    let extents = || view.dims.iter().copied();
    let strided = |arg: Arg| arg.strides(view.strides.iter().copied()).offset(view.offset);
    macro_rules! arg {
        ($data:expr) => {
            strided(if written { Arg::in_out($data, extents()) } else { Arg::tensor($data, extents()) })
        };
    }
    Ok(match storage {
        CpuStorage::F64(data) => arg!(data),
        CpuStorage::F32(data) => arg!(data),
        CpuStorage::F16(data) => {
            arg!(&data.iter().map(|x| types::f16::from_bits(x.to_bits())).collect::<Vec<_>>())
        }
        CpuStorage::BF16(data) => {
            arg!(&data.iter().map(|x| types::bf16::from_bits(x.to_bits())).collect::<Vec<_>>())
        }
        CpuStorage::U8(data) if view.elem == Elem::I8 => {
            arg!(&data.iter().map(|byte| byte.cast_signed()).collect::<Vec<_>>())
        }
        CpuStorage::U8(data) => arg!(data),
        CpuStorage::U32(data) if view.elem == Elem::I32 => {
            arg!(&data.iter().map(|number| number.cast_signed()).collect::<Vec<_>>())
        }
        CpuStorage::U32(data) => arg!(data),
        CpuStorage::I32(data) => arg!(data),
        CpuStorage::I64(data) => arg!(data),
        other => bail!("kernels have no elements of type {:?}", other.dtype()),
    })
}

/// Replaces the elements of a view by others, row-major.
pub(crate) fn assign(target: &mut CpuStorage, view: &View, values: &CpuStorage) -> Result<()> {
    macro_rules! assign {
        ($($kind:ident)*) => {
            match (target, values) {
                $((CpuStorage::$kind(target), CpuStorage::$kind(values)) => {
                    view.positions().zip(values).for_each(|(at, value)| target[at] = *value);
                    Ok(())
                })*
                (target, _) => bail!("a result has no elements of type {:?}", target.dtype()),
            }
        };
    }
    assign!(F32 F16 BF16 I32)
}

fn count(storage: &CpuStorage) -> usize {
    match storage {
        CpuStorage::F64(data) => data.len(),
        CpuStorage::F32(data) => data.len(),
        CpuStorage::F16(data) => data.len(),
        CpuStorage::BF16(data) => data.len(),
        CpuStorage::U8(data) => data.len(),
        CpuStorage::U32(data) => data.len(),
        CpuStorage::I32(data) => data.len(),
        _ => 0,
    }
}

/// The elements of a view, row-major.
fn to_f32(view: &View, storage: &CpuStorage) -> Result<Vec<f32>> {
    let at = view.positions();
    Ok(match storage {
        CpuStorage::F64(data) => at.map(|at| data[at] as f32).collect(),
        CpuStorage::F32(data) => at.map(|at| data[at]).collect(),
        CpuStorage::F16(data) => at.map(|at| data[at].to_f32()).collect(),
        CpuStorage::BF16(data) => at.map(|at| data[at].to_f32()).collect(),
        CpuStorage::U8(data) => at.map(|at| f32::from(data[at])).collect(),
        CpuStorage::U32(data) => at.map(|at| data[at] as f32).collect(),
        CpuStorage::I32(data) => at.map(|at| data[at] as f32).collect(),
        CpuStorage::I64(data) => at.map(|at| data[at] as f32).collect(),
        other => bail!("elements of type {:?} are not numbers of operators", other.dtype()),
    })
}

fn from_f32(dtype: DType, values: Vec<f32>) -> Result<CpuStorage> {
    Ok(match dtype {
        DType::F32 => CpuStorage::F32(values),
        DType::I32 => CpuStorage::I32(values.into_iter().map(|value| value as i32).collect()),
        DType::F16 => CpuStorage::F16(values.into_iter().map(f16::from_f32).collect()),
        DType::BF16 => CpuStorage::BF16(values.into_iter().map(bf16::from_f32).collect()),
        other => bail!("a result has no elements of type {other:?}"),
    })
}
