//! Devices: properties, limits and loaded kernels.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaStream};
use tilewright_program::launch::timeline::Timeline;
use tilewright_program::launch::{Limits, model};
use tilewright_program::thread::probe::Shown;

use crate::absence::Absence;
use crate::driver::driver;
use crate::error::{Error, While};
use crate::instrument::Records;
use crate::jit::Modules;
use crate::stream::Stream;

/// A device, open for the life of the program: opening it again gives the same device, with the kernels that
/// were loaded before.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<CudaContext>,
    properties: Properties,
    modules: Modules,
    /// A stream for synchronous copies; see [`Device::copies`].
    copies: Mutex<Option<Arc<CudaStream>>>,
    /// What instrumented kernels have shown.
    records: OnceLock<Records>,
}

/// The device's properties, as the driver reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability, such as (9, 0).
    pub compute_capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads of a warp.
    pub warp_size: u32,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Bits of the bus to its memory.
    pub memory_bus_bits: u32,
    /// Clock of its memory, in kHz.
    pub memory_clock_khz: u32,
    /// Highest clock of its multiprocessors, in kHz.
    pub clock_khz: u32,
    /// Bytes of its second-level cache.
    pub l2_bytes: u32,
    /// Bytes of constant memory.
    pub constant_bytes: u32,
    /// Bytes of shared memory of a block without opting in.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory that a block may opt in to.
    pub shared_bytes_per_block_optin: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_bytes_per_multiprocessor: u32,
    /// Registers of a block.
    pub registers_per_block: u32,
    /// Registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Threads of a block.
    pub threads_per_block: u32,
    /// Threads of a multiprocessor.
    pub threads_per_multiprocessor: u32,
    /// The largest grid along x, y, z.
    pub grid: [u32; 3],
    /// Are stream-ordered allocations supported?
    pub has_memory_pools: bool,
}

impl Device {
    /// Opens a device.
    ///
    /// ```no_run
    /// use tilewright_runtime::Device;
    ///
    /// let device = Device::open(0)?;
    /// println!("{}", device.properties().name);
    /// # Ok::<(), tilewright_runtime::Error>(())
    /// ```
    pub fn open(ordinal: usize) -> Result<Device, Error> {
        let count = driver()?.devices()?;
        if ordinal >= count {
            return Err(Absence::Ordinal { ordinal, count }.into());
        }
        let known = |device: &Device| device.context().is_primary() && device.context().ordinal() == ordinal;
        Device::known(known, || CudaContext::new(ordinal).doing("opening the device"))
    }

    /// All devices. There is at least one; otherwise the error explains why there is none.
    pub fn all() -> Result<Vec<Device>, Error> {
        (0..driver()?.devices()?).map(Device::open).collect()
    }

    /// The device of a context of cudarc. It keeps the context for the life of the program.
    pub fn of(context: &Arc<CudaContext>) -> Result<Device, Error> {
        driver()?;
        Device::known(|device| device.context() == context, || Ok(context.clone()))
    }

    /// The device of this kind if it was opened before. Devices are never closed: closing one would unload
    /// modules whose kernels still run.
    fn known(
        is_it: impl Fn(&Device) -> bool,
        context: impl FnOnce() -> Result<Arc<CudaContext>, Error>,
    ) -> Result<Device, Error> {
        static OPEN: Mutex<Vec<Device>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.iter().find(|device| is_it(device)) {
            return Ok(device.clone());
        }
        let context = context()?;
        let properties = Properties::of(&context)?;
        let (modules, copies) = (Modules::default(), Mutex::new(None));
        let device = Device {
            inner: Arc::new(Inner { context, properties, modules, copies, records: OnceLock::new() }),
        };
        open.push(device.clone());
        Ok(device)
    }

    /// The properties of the device.
    pub fn properties(&self) -> &Properties {
        &self.inner.properties
    }

    /// The CUDA version that the driver supports.
    pub fn driver_version(&self) -> Result<(i32, i32), Error> {
        Ok(driver()?.version)
    }

    /// A new stream. Launches on one stream run in order.
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(self)
    }

    /// Waits until everything that was submitted to the device's context is done.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.waited(self.context().synchronize().doing("waiting for the device"))
    }

    /// The context that cudarc uses for the device.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.inner.context
    }

    /// The limits of launches on the device.
    pub fn limits(&self) -> Limits {
        let p = self.properties();
        Limits {
            arch: p.arch(),
            shared_bytes: p.shared_bytes_per_block_optin,
            threads: p.threads_per_block,
            grid: p.grid,
            multiprocessors: p.multiprocessors,
            model: model(&p.name),
        }
    }

    /// A number that no other open device has. Devices are never closed.
    pub(crate) fn number(&self) -> u64 {
        Arc::as_ptr(&self.inner) as u64
    }

    pub(crate) fn modules(&self) -> &Modules {
        &self.inner.modules
    }

    /// The memory that instrumented kernels write to. The context is current.
    pub(crate) fn records(&self) -> Result<&Records, Error> {
        match self.inner.records.get() {
            Some(records) => Ok(records),
            None => {
                let records = Records::new()?;
                Ok(self.inner.records.get_or_init(|| records))
            }
        }
    }

    pub(crate) fn records_if_any(&self) -> Option<&Records> {
        self.inner.records.get()
    }

    /// The result of waiting for kernels: it is an error also if an assertion of them has failed. What they have printed goes to
    /// standard output.
    pub(crate) fn waited<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let Some(records) = self.records_if_any() else { return result };
        let Shown { failed, printed } = records.take(|| {
            let _ = self.context().synchronize();
        });
        printed.iter().for_each(|text| println!("{text}"));
        if failed.is_empty() { result } else { Err(Error::Asserted(failed)) }
    }

    /// The timeline of the first block of the last kernel that was launched with the instrument `timeline`. Wait for the kernel first.
    pub fn timeline(&self) -> Timeline {
        self.records_if_any().map(Records::timeline).unwrap_or_default()
    }

    /// A private stream of this crate, which never waits for an event: work that is submitted to it is
    /// never captured into a graph.
    pub(crate) fn copies(&self) -> Result<Arc<CudaStream>, Error> {
        let mut copies = self.inner.copies.lock().unwrap_or_else(PoisonError::into_inner);
        match &*copies {
            Some(stream) => Ok(stream.clone()),
            None => Ok(copies.insert(self.context().new_stream().doing("making a stream")?).clone()),
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.context() == other.context()
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Properties { ordinal, name, .. } = self.properties();
        write!(f, "Device({ordinal}, {name})")
    }
}

impl Properties {
    fn of(context: &CudaContext) -> Result<Properties, Error> {
        const DOING: &str = "asking what the device is";
        let number = |attribute| {
            let value = context.attribute(attribute).doing(DOING)?;
            Ok::<u32, Error>(u32::try_from(value).unwrap_or_default())
        };
        use Attribute::*;
        Ok(Properties {
            ordinal: context.ordinal(),
            name: context.name().doing(DOING)?,
            compute_capability: (
                number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: number(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            warp_size: number(CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
            memory_bytes: context.total_mem().doing(DOING)? as u64,
            memory_bus_bits: number(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
            memory_clock_khz: number(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            clock_khz: number(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            l2_bytes: number(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            constant_bytes: number(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY)?,
            shared_bytes_per_block: number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
            shared_bytes_per_block_optin: number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            shared_bytes_per_multiprocessor: number(
                CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?,
            registers_per_block: number(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
            registers_per_multiprocessor: number(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
            threads_per_block: number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            threads_per_multiprocessor: number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
            grid: [
                number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            has_memory_pools: number(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0,
        })
    }

    /// The compute capability as one number: 90.
    pub fn arch(&self) -> u32 {
        let (major, minor) = self.compute_capability;
        major * 10 + minor
    }

    /// The peak memory bandwidth in bytes per second: two transfers in each clock on each line of the bus.
    pub fn memory_bandwidth(&self) -> f64 {
        2.0 * f64::from(self.memory_clock_khz) * 1e3 * f64::from(self.memory_bus_bits) / 8.0
    }
}
