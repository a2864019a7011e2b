//! Submission: parameters in the kernel's ABI, for the driver's call.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys::CUtensorMap;
use smallvec::SmallVec;

use super::arguments::Bound;
use super::plans::{Source, Step, Value};
use crate::error::{Error, While};
use crate::raw::{self, Shape};
use crate::stream::Stream;

/// The parameters of all steps of a launch.
pub(super) struct Passed {
    /// Addresses, numbers and sizes: their bits, little-endian. Narrower parameters read the low bits. Words of tensor maps
    /// are not used.
    words: SmallVec<[u64; 32]>,
    /// The tensor maps.
    maps: SmallVec<[CUtensorMap; 4]>,
}

/// The parameters of steps that are not submitted yet.
pub(super) struct Left<'p> {
    words: &'p mut [u64],
    maps: &'p mut [CUtensorMap],
}

impl Passed {
    /// The parameters of steps, with a workspace at this address, and memory that is 0 at the other one.
    pub(super) fn new(
        steps: &[Step],
        bound: &[Bound<'_>],
        [workspace, zeroed]: [u64; 2],
    ) -> Result<Passed, Error> {
        let mut passed = Passed { words: SmallVec::new(), maps: SmallVec::new() };
        let address = |source: Source| match source {
            Source::Argument(index) => bound[index].word,
            Source::Workspace(offset) => workspace + offset,
            Source::Zeroed(offset) => zeroed + offset,
        };
        for value in steps.iter().flat_map(|step| &step.values) {
            passed.words.push(match value {
                Value::Word(word) => *word,
                Value::Scalar(index) => bound[*index].word,
                Value::Address(source) => address(*source),
                Value::Map(map) => {
                    passed.maps.push(map.at(address(map.source))?);
                    0
                }
            });
        }
        Ok(passed)
    }

    pub(super) fn left(&mut self) -> Left<'_> {
        Left { words: &mut self.words, maps: &mut self.maps }
    }
}

/// Submits the next step's kernel.
///
/// # Safety
/// - `left` are the parameters from this step on;
/// - every address in it is of memory of the stream's context that stays allocated until the kernel has
///   ended, and the program, launched on this grid, accesses no other memory;
/// - `shape` is the step's, and overlaps only where the program allows it and the device supports it.
pub(super) unsafe fn submit(
    step: &Step,
    shape: &Shape,
    stream: &Stream,
    left: &mut Left<'_>,
) -> Result<(), Error> {
    let cuda = stream.cuda();
    cuda.context().bind_to_thread().doing("launching a kernel")?;
    let Some((words, others)) = std::mem::take(&mut left.words).split_at_mut_checked(step.values.len())
    else {
        unreachable!("every parameter of the step is passed")
    };
    left.words = others;
    let mut pointers = SmallVec::<[*mut c_void; 32]>::new();
    for (value, word) in step.values.iter().zip(words) {
        pointers.push(match value {
            Value::Map(_) => match std::mem::take(&mut left.maps).split_first_mut() {
                Some((map, others)) => {
                    left.maps = others;
                    ptr::from_mut(map).cast()
                }
                None => unreachable!("every tensor map of the step is passed"),
            },
            _ => ptr::from_mut(word).cast(),
        });
    }
    // SAFETY: the caller's; the context is current, and `pointers` are to as many values as the function has
    // parameters, of at least their sizes.
    unsafe { raw::launch(step.loaded.function(), shape, cuda.cu_stream(), &mut pointers) }
}
