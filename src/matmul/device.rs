//! Products on a device.

use tilewright_program::Elem;
use tilewright_program::element::Element;
use tilewright_program::launch::Refusal;
use tilewright_runtime::{Argument, Built, DeviceTensor, Launched, Stream, TensorMut, TensorRef};

use super::Error;
use super::operand::{Backend, IsMatrix, Lent, Matrix, Modes, Operand, Rank, Target, read, sealed, written};
use super::product::{Form, Kernels, Product};

impl sealed::Backend for Stream {}

impl Backend for Stream {
    type Ran = Launched;
    type Lent<'a> = Argument<'a>;

    fn run(&self, product: Product<'_, Stream>) -> Result<Launched, Error> {
        static KERNELS: Kernels<Built> = Kernels::new();
        serves(&product.form, self.device().properties().compute_capability)?;
        let kernel = KERNELS.get(&product.form, |definition| Ok(Built::of(definition)?))?;
        let mut arguments = product.arguments(&kernel.generated().params, |lent| lent, number);
        Ok(kernel.launch_with(self, &mut arguments)?)
    }

    fn shorter<'s, 'l: 's>(lent: Argument<'l>) -> Argument<'s> {
        lent
    }
}

/// A number of a kernel's type.
fn number<'a>(elem: Elem, value: f64) -> Argument<'a> {
    match elem {
        Elem::F64 => Argument::scalar(value),
        Elem::I32 => Argument::scalar(value as i32),
        Elem::U32 => Argument::scalar(value as u32),
        _ => Argument::scalar(value as f32),
    }
}

/// Does a device of this compute capability support products of a form?
fn serves(form: &Form, (major, minor): (u32, u32)) -> Result<(), Refusal> {
    let needed = match form.elem {
        Elem::E4m3 | Elem::E5m2 => (8, 9),
        _ => (8, 0),
    };
    if (major, minor) >= needed {
        return Ok(());
    }
    let (most, least) = needed;
    let message = format!(
        "the device has compute capability {major}.{minor}, and products of {} take {most}.{least} or newer",
        form.elem
    );
    Err(Refusal::new(message).help(match form.elem {
        Elem::E4m3 | Elem::E5m2 if major >= 8 => {
            "convert the operands to f16, which tensor cores of this device multiply"
        }
        _ => "multiply on the processor: `Host::cpu()` with tensors of the host",
    }))
}

impl Lent for Argument<'_> {
    fn modes(&self) -> Modes {
        Modes::new(self.elem(), self.extents(), self.strides())
    }

    fn transposed(self) -> Self {
        self.swapped(0, 1)
    }
}

read! {
    Stream, Argument, TensorRef, DeviceTensor:
    <'a> &'a DeviceTensor<T, R>;
    <'a> TensorRef<'a, T, R>;
    <'a, 'b> &'b TensorRef<'a, T, R>;
}

written! {
    Stream, Argument, TensorMut:
    <'a> &'a mut DeviceTensor<T, R>;
    <'a> TensorMut<'a, T, R>;
    <'a, 'b> &'a mut TensorMut<'b, T, R>;
}
