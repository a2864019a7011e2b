//! Runs a problem on a device.

use tilewright::runtime::{Built, Error};
use tilewright::{Argument, DeviceTensor, Element, Stream, TensorMut, TensorRef};
use tilewright_codegen::definition::{Param, Variant};
use tilewright_codegen::thread::{self, Kernel};
use tilewright_codegen::{Elem, Generated, with_element};
use tilewright_tests::number::{self, Number};
use tilewright_tests::problem::{Operand, Problem};
use tilewright_tests::tensor::Tensor;

/// A tensor's buffer, of any element type.
trait Buffer {
    fn lent(&mut self, tensor: &Tensor) -> Argument<'_>;
    fn bits(&self) -> Result<Vec<u64>, Error>;
}

impl<T: Number> Buffer for DeviceTensor<T, 1> {
    fn lent(&mut self, tensor: &Tensor) -> Argument<'_> {
        match tensor.extents.len() {
            1 => shaped::<T, 1>(self, tensor),
            2 => shaped::<T, 2>(self, tensor),
            3 => shaped::<T, 3>(self, tensor),
            4 => shaped::<T, 4>(self, tensor),
            5 => shaped::<T, 5>(self, tensor),
            rank => panic!("no test has a tensor of {rank} modes"),
        }
    }

    fn bits(&self) -> Result<Vec<u64>, Error> {
        Ok(self.to_host_stored()?.into_iter().map(Element::to_raw).collect())
    }
}

fn shaped<'a, T: Number, const R: usize>(
    buffer: &'a mut DeviceTensor<T, 1>,
    tensor: &Tensor,
) -> Argument<'a> {
    let modes = |values: &[usize]| -> [usize; R] { values.try_into().expect("as many modes as it has") };
    let (extents, strides) = (modes(&tensor.extents), modes(&tensor.strides));
    match tensor.written {
        true => TensorMut::offset(buffer.view_mut().reshaped(extents, strides), tensor.offset).into(),
        false => TensorRef::offset(buffer.view().reshaped(extents, strides), tensor.offset).into(),
    }
}

/// One kernel per variant of a kernel.
#[allow(unsafe_code)]
pub(crate) fn variants(kernel: &Generated) -> Vec<Built> {
    let alone = |variant: &tilewright_codegen::definition::Variant| {
        let alone = Generated { variants: vec![variant.clone()], ..kernel.clone() };
        // SAFETY: the variant is unchanged.
        unsafe { Built::new(alone) }
    };
    kernel.variants.iter().map(alone).collect()
}

/// A hand-written program as a launchable kernel.
///
/// # Safety
/// Launched on tensors of the sizes it is made for, it accesses no other memory.
#[allow(unsafe_code)]
pub(crate) unsafe fn alone(program: Kernel, source: String) -> Built {
    let tensor = |param: &thread::Param| match param {
        thread::Param::Pointer { name, elem, write, shape, .. } => {
            Some(Param { name: name.clone(), elem: *elem, tensor: Some((*write, shape.len())) })
        }
        _ => None,
    };
    let generated = Generated {
        name: program.name.clone(),
        params: program.params.iter().filter_map(tensor).collect(),
        requires: Vec::new(),
        variants: vec![Variant::new(None, source, program)],
        packs: Vec::new(),
        empty_loops: Vec::new(),
        with_probes: None,
        report: Default::default(),
        records: Vec::new(),
    };
    // SAFETY: by the caller's contract.
    unsafe { Built::new(generated) }
}

/// A tensor with one mode and these bits.
pub(crate) fn whole(name: &str, elem: Elem, written: bool, bits: &[u64]) -> Operand {
    let (name, len) = (name.to_string(), bits.len());
    let values = bits.iter().map(|&bits| number::value(elem, bits)).collect();
    Operand::Tensor(Tensor {
        name,
        elem,
        written,
        extents: vec![len],
        over: vec![1],
        strides: vec![1],
        offset: 0,
        len,
        values,
    })
}

/// Can a variant run on this device, given suitable sizes?
pub(crate) fn runs_here(stream: &Stream, kernel: &Built) -> bool {
    let (arch, program) = (stream.device().properties().arch(), &kernel.generated().variants[0].program);
    program.arch <= arch && (!program.arch_specific || program.arch == arch)
}

/// Launches a kernel on new buffers and checks all of them. False if no kernel ran, because the sizes, their
/// alignment or the device do not suit it.
pub(crate) fn judge(stream: &Stream, kernel: &Built, problem: &Problem) -> Result<bool, String> {
    let Some(buffers) = run(stream, kernel, &problem.operands)? else { return Ok(false) };
    let wrong = problem.tensors().zip(&buffers).find_map(|(tensor, bits)| problem.wrong(tensor, bits));
    wrong.map_or(Ok(true), Err)
}

/// Launches a kernel on new buffers, one per tensor among its operands; returns their bits afterwards, or
/// `None` if no kernel ran.
pub(crate) fn run(
    stream: &Stream,
    kernel: &Built,
    operands: &[Operand],
) -> Result<Option<Vec<Vec<u64>>>, String> {
    let tell = |why: Error| why.to_string();
    let uploaded = |tensor: &Tensor| -> Result<Box<dyn Buffer>, Error> {
        let bits = tensor.bits();
        with_element!(tensor.elem, T => {
            let elements: Vec<T> = bits.iter().map(|&bits| T::from_raw(bits)).collect();
            Ok(Box::new(DeviceTensor::<T, 1>::from_host(stream, [tensor.len], &elements)?))
        })
    };
    let tensors = operands.iter().filter_map(|operand| match operand {
        Operand::Tensor(tensor) => Some(tensor),
        Operand::Number(..) => None,
    });
    let mut buffers = tensors.map(uploaded).collect::<Result<Vec<_>, Error>>().map_err(tell)?;
    let mut next = buffers.iter_mut();
    let argument = |operand: &Operand| match operand {
        Operand::Tensor(tensor) => next.next().expect("each tensor has a buffer").lent(tensor),
        Operand::Number(elem, value) => {
            with_element!(*elem, T => Argument::scalar(<T as Number>::of(*value)))
        }
    };
    let mut arguments: Vec<Argument<'_>> = operands.iter().map(argument).collect();
    match kernel.launch_with(stream, &mut arguments) {
        Ok(launched) if launched.variant.is_some() => {}
        Ok(_) => return Ok(None),
        // A refusal because of sizes, alignment or the device names no argument.
        Err(Error::Refused(refusal)) if refusal.argument().is_none() => return Ok(None),
        Err(why) => return Err(why.to_string()),
    }
    drop(arguments);
    buffers.iter().map(|buffer| buffer.bits().map_err(tell)).collect::<Result<_, _>>().map(Some)
}
