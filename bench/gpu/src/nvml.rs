//! The device's clock and power during a benchmark: through NVML, loaded when a benchmark runs. Benchmarks also run
//! without it.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;

const NAMES: &[&str] = if cfg!(windows) { &["nvml.dll"] } else { &["libnvidia-ml.so.1", "libnvidia-ml.so"] };
const CLOCK_SM: c_uint = 1;

type Device = *mut c_void;
type Read = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;

/// A device of NVML.
pub(crate) struct Nvml {
    clock: unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int,
    most_clock: unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int,
    power: Read,
    device: Device,
    _library: libloading::Library,
}

/// Clock in MHz and power in watts, at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) clock: u32,
    pub(crate) power: f64,
}

impl Nvml {
    /// The device with this PCI address (`0000:06:00.0`), if NVML is installed and knows it.
    pub(crate) fn open(pci: &str) -> Option<Nvml> {
        // SAFETY: loading NVML runs no code that has preconditions.
        let library = NAMES.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok())?;
        macro_rules! function {
            ($name:literal, $ty:ty) => {{
                // SAFETY: the type is the one that NVIDIA's header gives to this name; the library outlives
                // the pointer.
                let result = unsafe { library.get::<$ty>(concat!($name, "\0").as_bytes()) };
                *result.ok()?
            }};
        }
        let start = function!("nvmlInit_v2", unsafe extern "C" fn() -> c_int);
        let find = function!(
            "nvmlDeviceGetHandleByPciBusId_v2",
            unsafe extern "C" fn(*const c_char, *mut Device) -> c_int
        );
        let clock =
            function!("nvmlDeviceGetClockInfo", unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int);
        let most_clock = function!(
            "nvmlDeviceGetMaxClockInfo",
            unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int
        );
        let power = function!("nvmlDeviceGetPowerUsage", Read);
        let pci = CString::new(pci).ok()?;
        let mut device = ptr::null_mut();
        // SAFETY: it is started before it is asked; the text and `device` live through the calls.
        let result = unsafe { start() == 0 && find(pci.as_ptr(), &mut device) == 0 };
        result.then_some(Nvml { clock, most_clock, power, device, _library: library })
    }

    /// The current clock and power.
    pub(crate) fn read(&self) -> Option<Reading> {
        let (mut clock, mut milliwatts) = (0, 0);
        // SAFETY: the device is known to NVML, which has been started, and the numbers live through the calls.
        let fine = unsafe {
            (self.clock)(self.device, CLOCK_SM, &mut clock) == 0
                && (self.power)(self.device, &mut milliwatts) == 0
        };
        fine.then_some(Reading { clock, power: f64::from(milliwatts) / 1000.0 })
    }

    /// The highest clock, in MHz.
    pub(crate) fn most_clock(&self) -> Option<u32> {
        let mut clock = 0;
        // SAFETY: the device is known to NVML, which has been started, and the number lives through the call.
        let fine = unsafe { (self.most_clock)(self.device, CLOCK_SM, &mut clock) == 0 };
        fine.then_some(clock)
    }
}
