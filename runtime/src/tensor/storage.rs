//! Who owns a tensor's memory: a slice of cudarc, of whichever type, freed only where that is in order.
#![allow(unsafe_code)]

use std::any::{Any, TypeId};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cudarc::driver::sys::cudaError_enum;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, DriverError};
use tilewright_codegen::Elem;

use super::{Buffer, Owner, Stored};
use crate::device::Device;
use crate::error::{Error, While};
use crate::stream::{is_capturing, is_default};

/// Memory of a device.
pub(super) struct Storage {
    slice: ManuallyDrop<Box<dyn Slice>>,
    address: u64,
    /// Does nobody but this crate reach the slice's stream? Nothing that is submitted to it is captured then.
    private: bool,
}

/// A slice of cudarc, whatever its elements.
trait Slice: Send + Sync {
    fn stream(&self) -> &Arc<CudaStream>;
    fn read(&self, owner: Owner) -> Buffer<'_>;
    fn write(&mut self, owner: Owner) -> Buffer<'_>;
    /// See [`settle`].
    fn settle(&mut self) -> u64;
    /// How many elements it has, and its address, which from then on nobody frees.
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
        (self.len(), CudaSlice::leak(*self))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn is(&self, ty: TypeId) -> bool {
        ty == TypeId::of::<Self>()
    }
}

/// The slice's address. Its own stream waits for all that cudarc knows to use it, and cudarc learns of what the stream has
/// to do already.
fn settle<S>(slice: &mut CudaSlice<S>) -> u64 {
    let stream = slice.stream().clone();
    slice.device_ptr_mut(&stream).0
}

impl Storage {
    /// Room for so many elements, with whatever was there: any bytes are values of element types.
    pub(super) fn allocate(stream: &Arc<CudaStream>, elem: Elem, len: usize) -> Result<Storage, Error> {
        fn slice<S: DeviceRepr + 'static>(
            stream: &Arc<CudaStream>,
            len: usize,
        ) -> Result<Box<dyn Slice>, DriverError> {
            // The driver refuses to allocate nothing.
            // SAFETY: every value of these types' bytes is a value.
            Ok(Box::new(unsafe { stream.alloc::<S>(len.max(1)) }?))
        }
        // What is allocated while a stream is captured is memory only while the graph runs.
        let captured = || match is_capturing(stream)? {
            true => Err(Error::refused("the stream is being captured into a graph: make the tensor before")),
            false => Ok(()),
        };
        captured()?;
        let slice = match elem {
            Elem::F64 => slice::<f64>(stream, len),
            Elem::F32 | Elem::Tf32 => slice::<f32>(stream, len),
            Elem::F16 | Elem::Bf16 => slice::<u16>(stream, len),
            Elem::I32 => slice::<i32>(stream, len),
            Elem::U32 => slice::<u32>(stream, len),
            Elem::I8 => slice::<i8>(stream, len),
            Elem::U8 | Elem::E4m3 | Elem::E5m2 => slice::<u8>(stream, len),
        };
        let slice = slice.doing("allocating a tensor")?;
        captured()?;
        Storage::around(slice, true)
    }

    pub(super) fn of<S: 'static>(slice: CudaSlice<S>) -> Result<Storage, Error> {
        Storage::around(Box::new(slice), false)
    }

    fn around(mut slice: Box<dyn Slice>, private: bool) -> Result<Storage, Error> {
        let address = slice.settle();
        // From here on its own stream stands for all that uses the slice, unless cudarc failed to see to that.
        slice.stream().context().check_err().doing("ordering a tensor")?;
        Ok(Storage { slice: ManuallyDrop::new(slice), address, private })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        self.slice.stream()
    }

    /// A stream on which a copy comes after all that uses the memory so far, and is never captured into a graph. Whoever
    /// copies waits for it: the memory's own stream knows nothing of it.
    pub(super) fn copies(&self, device: &Device, doing: &'static str) -> Result<Arc<CudaStream>, Error> {
        if self.private {
            return Ok(self.stream().clone());
        }
        // The stream is cudarc's, and any thread may begin to capture it between two calls. To wait for it fails while it is
        // captured, and is never captured itself.
        self.stream().synchronize().doing(doing)?;
        device.copies()
    }

    pub(super) fn read(&self) -> Buffer<'_> {
        self.slice.read(Owner::Tensor(self.address))
    }

    pub(super) fn write(&mut self) -> Buffer<'_> {
        self.slice.write(Owner::Tensor(self.address))
    }

    /// The slice for cudarc, which then knows of all that uses it. A stream that only this crate reaches stays here: the
    /// slice gets one of its own then.
    ///
    /// The caller asks for a type `S` that stands for the same elements as the slice's.
    pub(super) fn into_slice<S: Stored>(mut self) -> Result<CudaSlice<S>, Error> {
        const DOING: &str = "giving up a tensor";
        let own = self.stream().clone();
        if is_default(&own) {
            // cudarc frees such a slice in the order of whatever context's default stream is current then.
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
        // SAFETY: `this` is not dropped, and nothing uses the field any more.
        let slice = unsafe { ManuallyDrop::take(&mut this.slice) };
        if is_whole {
            match slice.into_any().downcast::<CudaSlice<S>>() {
                Ok(slice) => return Ok(*slice),
                Err(_) => unreachable!("its type was compared"),
            }
        }
        let (len, address) = slice.leak();
        // cudarc panics where it cannot make events; the memory is lost then, and nothing else.
        // SAFETY: `leak` gave up so many elements, and `home` comes after all that uses them. What stands for the same
        // elements has the same size, and every bit pattern is a value of it.
        let made = catch_unwind(AssertUnwindSafe(|| unsafe { home.upgrade_device_ptr::<S>(address, len) }));
        let mut made = made.map_err(|_| DriverError(cudaError_enum::CUDA_ERROR_UNKNOWN)).doing(DOING)?;
        // Its events are new, and nothing was recorded with them.
        settle(&mut made);
        own.context().check_err().doing(DOING)?;
        Ok(made)
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        let stream = self.stream().clone();
        let context = stream.context();
        // The handle of the default stream means the one of the current context. An old error of cudarc's own makes
        // the first call return early.
        let is_current = || context.bind_to_thread().is_ok() || context.bind_to_thread().is_ok();
        if is_default(&stream) && !is_current() {
            return; // Better not freed than freed in the wrong order.
        }
        // Memory that does not come from a pool is freed at once, when cudarc has waited for the stream: also where that
        // failed, as it does while the stream is captured.
        let is_done = || stream.synchronize().is_ok() || stream.synchronize().is_ok();
        if !self.private && !context.has_async_alloc() && !is_done() {
            return;
        }
        // SAFETY: this is the last use of the field.
        unsafe { ManuallyDrop::drop(&mut self.slice) };
    }
}
