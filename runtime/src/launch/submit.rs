//! Submission: parameters in the kernel's ABI, for the driver's call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::CUtensorMap;
use tilewright_codegen::launch::{self, Given, Plan};
use tilewright_codegen::thread::{Kernel, Param};

use super::map;
use crate::error::{Error, While};
use crate::jit::Loaded;
use crate::raw::{self, Shape};
use crate::stream::Stream;

/// A program's parameters, in order.
pub(super) struct Passed {
    values: Vec<Value>,
}

enum Value {
    /// An address, a number, or a size: its bits, little-endian. Narrower parameters read the low bits.
    Word(u64),
    Map(Box<CUtensorMap>),
}

impl Passed {
    pub(super) fn new(
        program: &Kernel,
        plan: &Plan,
        given: &[Given],
        scalars: &[u64],
    ) -> Result<Passed, Error> {
        let tensor = |place: usize| match &given[place] {
            Given::Tensor(tensor) => tensor,
            Given::Scalar(_) => unreachable!("the plan has found a tensor here"),
        };
        let value = |passed: &launch::Passed| {
            Ok(match passed {
                launch::Passed::Tensor(place) => Value::Word(tensor(*place).address),
                launch::Passed::Scalar(place) => Value::Word(scalars[*place]),
                launch::Passed::Int { value, .. } => Value::Word(value.cast_unsigned()),
                launch::Passed::Map(map) => {
                    let Some(Param::Pointer { name, elem, .. }) = program.params.get(map.arg) else {
                        unreachable!("a tensor map describes a tensor")
                    };
                    Value::Map(Box::new(map::encode(name, map, *elem, tensor(map.arg).address)?))
                }
            })
        };
        let values: Vec<Value> = plan.passed.iter().map(value).collect::<Result<_, Error>>()?;
        debug_assert_eq!(values.len(), program.params.len());
        Ok(Passed { values })
    }

    fn pointers(&mut self) -> Vec<*mut c_void> {
        let pointer = |value: &mut Value| match value {
            Value::Word(word) => ptr::from_mut(word).cast(),
            Value::Map(map) => ptr::from_mut(&mut **map).cast(),
        };
        self.values.iter_mut().map(pointer).collect()
    }
}

/// Submits the kernel.
///
/// # Safety
/// - `passed` matches the program's parameters, and the loaded function is that program;
/// - every address in it is of memory of the stream's context that stays allocated until the kernel has
///   ended, and the program, launched on this grid, accesses nothing else;
/// - `shape` is the program's on this grid, and overlaps only where the program allows it and the device
///   supports it.
pub(super) unsafe fn submit(
    loaded: &Loaded,
    shape: &Shape,
    stream: &Stream,
    passed: &mut Passed,
) -> Result<(), Error> {
    let cuda = stream.cuda();
    cuda.context().bind_to_thread().doing("launching a kernel")?;
    let mut pointers = passed.pointers();
    // SAFETY: the caller's; the context is current, and `pointers` are to as many values as the function has
    // parameters, of at least their sizes.
    unsafe { raw::launch(loaded.function(), shape, cuda.cu_stream(), &mut pointers) }
}
