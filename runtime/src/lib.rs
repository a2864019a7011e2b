//! What happens on the user's machine: NVRTC makes a binary of the generated source, a cache keeps it, the driver runs it.
//!
//! Only this crate and the command can fail because of the machine that they run on. What is missing there is an
//! ordinary error, an [`Absence`], that says how to get it.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod cache;
pub mod nvrtc;
pub mod report;

#[cfg(feature = "cuda")]
mod absence;
#[cfg(feature = "cuda")]
mod argument;
#[cfg(feature = "cuda")]
mod device;
#[cfg(feature = "cuda")]
mod driver;
#[cfg(feature = "cuda")]
mod error;
#[cfg(feature = "cuda")]
mod jit;
#[cfg(feature = "cuda")]
mod kernel;
#[cfg(feature = "cuda")]
mod launch;
#[cfg(feature = "cuda")]
mod stream;
#[cfg(feature = "cuda")]
mod tensor;

#[cfg(feature = "cuda")]
pub use cudarc;

#[cfg(feature = "cuda")]
pub use self::{
    absence::Absence,
    argument::Argument,
    device::{Device, Properties},
    driver::FUNCTIONS as DRIVER_FUNCTIONS,
    error::{Error, Error as LaunchError, Fault},
    jit::Compiled,
    kernel::{Built, Launch, LaunchMatmul},
    launch::Launched,
    stream::{Graph, Stream},
    tensor::{DeviceTensor, Lent, LentMut, Stored, TensorMut, TensorRef},
};
