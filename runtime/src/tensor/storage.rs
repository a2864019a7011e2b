//! The owner of a tensor's memory: a slice of cudarc, of any type, freed only in order.
#![allow(unsafe_code)]

use std::any::{Any, TypeId};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cudarc::driver::sys::cudaError_enum;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, DriverError};
use tilewright_program::Elem;

use super::{Buffer, Owner, Plain};
use crate::device::Device;
use crate::error::{Error, While};
use crate::stream::{is_capturing, is_default};

/// Memory of a device.
pub(super) struct Storage {
    slice: ManuallyDrop<Box<dyn Slice>>,
    address: u64,
    /// Is the slice's stream private to this crate? Then work on it is never captured.
    private: bool,
}

/// A slice of cudarc, with any element type.
trait Slice: Send + Sync {
    fn stream(&self) -> &Arc<CudaStream>;
    fn read(&self, owner: Owner) -> Buffer<'_>;
    fn write(&mut self, owner: Owner) -> Buffer<'_>;
    /// See [`settle`].
    fn settle(&mut self) -> u64;
    /// Its bytes and its address; the memory is never freed.
    fn leak(self: Box<Self>) -> (usize, u64);
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn is(&self, ty: TypeId) -> bool;
}

impl<S: 'static> Slice for CudaSlice<S> {
    fn stream(&self) -> &Arc<CudaStream> {
        CudaSlice::stream(self)
    }

    fn read(&self, owner: Owner) -> Buffer<'_> {
        Buffer::read(self, owner)
    }

    fn write(&mut self, owner: Owner) -> Buffer<'_> {
        Buffer::write(self, owner)
    }

    fn settle(&mut self) -> u64 {
        settle(self)
    }

    fn leak(self: Box<Self>) -> (usize, u64) {
        (self.num_bytes(), CudaSlice::leak(*self))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn is(&self, ty: TypeId) -> bool {
        ty == TypeId::of::<Self>()
    }
}

/// The slice's address. Its own stream waits for all uses that cudarc tracks, and cudarc records the work
/// already on that stream.
fn settle<S>(slice: &mut CudaSlice<S>) -> u64 {
    let stream = slice.stream().clone();
    slice.device_ptr_mut(&stream).0
}

impl Storage {
    /// Uninitialised memory for this many elements: any bytes are values of element types.
    pub(super) fn allocate(stream: &Arc<CudaStream>, elem: Elem, len: usize) -> Result<Storage, Error> {
        // Memory that is allocated during a capture exists only while the graph runs.
        let captured = || match is_capturing(stream)? {
            true => Err(Error::refused("the stream is being captured into a graph: make the tensor before")),
            false => Ok(()),
        };
        captured()?;
        // The driver refuses empty allocations.
        // SAFETY: every byte is a value of bytes.
        let slice = unsafe { stream.alloc::<u8>(len.max(1) * elem.bytes() as usize) };
        let slice = Box::new(slice.doing("allocating a tensor")?);
        captured()?;
        Storage::around(slice, true)
    }

    pub(super) fn of<S: 'static>(slice: CudaSlice<S>) -> Result<Storage, Error> {
        Storage::around(Box::new(slice), false)
    }

    fn around(mut slice: Box<dyn Slice>, private: bool) -> Result<Storage, Error> {
        let address = slice.settle();
        // From here on its own stream is ordered after all uses of the slice, unless cudarc failed to do
        // that.
        slice.stream().context().check_err().doing("ordering a tensor")?;
        Ok(Storage { slice: ManuallyDrop::new(slice), address, private })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        self.slice.stream()
    }

    /// A stream that is never captured, and on which a copy comes after all uses of the memory so far. The
    /// caller waits for the copy: the memory's own stream does not.
    pub(super) fn copies(&self, device: &Device, doing: &'static str) -> Result<Arc<CudaStream>, Error> {
        if self.private {
            return Ok(self.stream().clone());
        }
        // The stream is cudarc's, and any thread may start to capture it between two calls. Waiting for a
        // captured stream fails, and is never captured itself.
        self.stream().synchronize().doing(doing)?;
        device.copies()
    }

    pub(super) fn read(&self) -> Buffer<'_> {
        self.slice.read(Owner::Tensor(self.address))
    }

    pub(super) fn write(&mut self) -> Buffer<'_> {
        self.slice.write(Owner::Tensor(self.address))
    }

    /// The slice, with cudarc's tracking up to date. A private stream is not handed out: the slice gets a new
    /// one then.
    ///
    /// The caller passes a type `S` that stores the same elements as the slice's.
    pub(super) fn into_slice<S: Plain>(mut self) -> Result<CudaSlice<S>, Error> {
        const DOING: &str = "giving up a tensor";
        let own = self.stream().clone();
        if is_default(&own) {
            // cudarc would free such a slice on the default stream of the context that is then current.
            own.synchronize().doing(DOING)?;
        }
        let mut home = own.clone();
        if self.private {
            home = own.context().new_stream().doing(DOING)?;
            let event = own.record_event(None).doing(DOING)?;
            home.wait(&event).doing(DOING)?;
        }
        self.slice.settle();
        own.context().check_err().doing(DOING)?;
        let is_whole = !self.private && self.slice.is(TypeId::of::<CudaSlice<S>>());
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, and the field is not used any more.
        let slice = unsafe { ManuallyDrop::take(&mut this.slice) };
        if is_whole {
            match slice.into_any().downcast::<CudaSlice<S>>() {
                Ok(slice) => return Ok(*slice),
                Err(_) => unreachable!("its type was compared"),
            }
        }
        let (bytes, address) = slice.leak();
        let len = bytes / size_of::<S>();
        // cudarc panics if it cannot create events; then only the memory leaks.
        // SAFETY: `leak` gave up these elements, and `home` comes after all uses. Types that store the same
        // elements have the same size, and every bit pattern is a value of them.
        let made = catch_unwind(AssertUnwindSafe(|| unsafe { home.upgrade_device_ptr::<S>(address, len) }));
        let mut made = made.map_err(|_| DriverError(cudaError_enum::CUDA_ERROR_UNKNOWN)).doing(DOING)?;
        // Its events are new and unrecorded.
        settle(&mut made);
        own.context().check_err().doing(DOING)?;
        Ok(made)
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let stream = self.stream().clone();
        let context = stream.context();
        // The handle of the default stream means the default stream of the current context. A pending error of cudarc makes
        // the first call return early.
        let is_current = || context.bind_to_thread().is_ok() || context.bind_to_thread().is_ok();
        if is_default(&stream) && !is_current() {
            return; // Leak rather than free in the wrong order.
        }
        // Memory that does not come from a pool is freed immediately after cudarc has waited for the stream,
        // even if the wait failed, as it does during a capture.
        let is_done = || stream.synchronize().is_ok() || stream.synchronize().is_ok();
        if !self.private && !context.has_async_alloc() && !is_done() {
            return;
        }
        // SAFETY: this is the last use of the field.
        unsafe { ManuallyDrop::drop(&mut self.slice) };
    }
}
