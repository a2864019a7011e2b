//! A stand-in for `libcuda.so.1`, `libnvrtc.so.13` and `libnccl.so.2` in tests on machines without a GPU.
//!
//! It tracks the state of a driver (devices, contexts, memory, streams, events, modules, graphs), copies
//! memory, and runs no kernel. Every call is one line of a log: name, arguments, result, status. It fails on
//! demand, and it tracks the order of operations: where a real device might read freed memory, or two streams
//! might race, the log has a line that begins with `HAZARD`. Work finishes only when it is waited for, so
//! that a hazard is detected in every run and not in one of a thousand.
//!
//! The memory accesses of a kernel follow from its signature, which the stand-in for NVRTC writes into its
//! "binary": a `const` pointer is read, any other is written, from its address to the end of the allocation.
//!
//! Environment, read at the first call:
//!
//! | variable | meaning |
//! |---|---|
//! | `FAKE_LOG` | the file that the log is appended to |
//! | `FAKE_DEVICES` | how many devices there are; 1 |
//! | `FAKE_VERSION` | the driver's version of CUDA; 13000 |
//! | `FAKE_ARCH` | their compute capability; 90. `90,80` for two that differ |
//! | `FAKE_ATTRIBUTES` | attributes of devices: `97:49152,5:10` |
//! | `FAKE_MEMORY` | bytes of each device; 80 GiB |
//! | `FAKE_FAIL` | `cuMemAllocAsync:3:2` fails the third such call with code 2; `*:17:719` the seventeenth of all; `*:17+:719` it and all that follow. Several are separated by commas. |
//! | `FAKE_CAPTURE` | `17-20`: another thread begins to capture the stream of the seventeenth call right before it, and ends the capture right after the twentieth. What it then has in a graph is a hazard. |
//! | `FAKE_NVRTC` | the version of the compiler; `13.0` |
//! | `FAKE_NCCL` | the folder of messages among ranks; the folder of temporary files |
// The ABI is the ABI of a C library: its functions have C names, and trust their caller as the driver does.
#![allow(unsafe_code, non_snake_case, unreachable_pub, missing_docs, clippy::missing_safety_doc)]

#[macro_use]
mod call;
mod compiler;
mod device;
mod graph;
mod memory;
mod module;
mod nccl;
mod order;
mod settings;
mod signature;
mod state;
mod stream;

/// `CUresult` and `nvrtcResult`.
pub(crate) type Status = i32;

/// The statuses that occur without being configured.
pub(crate) mod status {
    use super::Status;
    pub(crate) const INVALID_VALUE: Status = 1;
    pub(crate) const OUT_OF_MEMORY: Status = 2;
    pub(crate) const NOT_INITIALIZED: Status = 3;
    pub(crate) const NO_DEVICE: Status = 100;
    pub(crate) const INVALID_DEVICE: Status = 101;
    pub(crate) const INVALID_IMAGE: Status = 200;
    pub(crate) const INVALID_CONTEXT: Status = 201;
    pub(crate) const NO_BINARY_FOR_GPU: Status = 209;
    pub(crate) const INVALID_HANDLE: Status = 400;
    pub(crate) const ILLEGAL_STATE: Status = 401;
    pub(crate) const NOT_FOUND: Status = 500;
    pub(crate) const NOT_READY: Status = 600;
    pub(crate) const NOT_SUPPORTED: Status = 801;
    pub(crate) const CAPTURE_UNSUPPORTED: Status = 900;
    pub(crate) const CAPTURE_INVALIDATED: Status = 901;
    pub(crate) const CAPTURE_UNMATCHED: Status = 903;
    pub(crate) const CAPTURE_UNJOINED: Status = 904;
    pub(crate) const CAPTURE_ISOLATION: Status = 905;
    pub(crate) const CAPTURED_EVENT: Status = 907;
}
