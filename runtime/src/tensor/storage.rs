//! Who owns a tensor's memory: a slice of cudarc, of whichever type, freed only where that is in order.
#![allow(unsafe_code)]

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cudarc::driver::sys::cudaError_enum;
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut, DeviceRepr, DriverError};
use tilewright_codegen::Elem;

use super::{Buffer, Owner, Stored};
use crate::error::{Error, While};
use crate::stream::{is_capturing, is_default};

/// Memory of a device.
pub(super) struct Storage {
    slice: ManuallyDrop<Box<dyn Slice>>,
    address: u64,
}

/// A slice of cudarc, whatever its elements.
trait Slice: Send + Sync {
    fn stream(&self) -> &Arc<CudaStream>;
    fn read(&self, owner: Owner) -> Buffer<'_>;
    fn write(&mut self, owner: Owner) -> Buffer<'_>;
    /// Its address; its own stream waits for all that cudarc knows to use it, and cudarc learns of what the stream has
    /// to do already.
    fn settle(&mut self) -> u64;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
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
        let stream = CudaSlice::stream(self).clone();
        self.device_ptr_mut(&stream).0
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
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
        captured()?; // Another thread may have begun to capture it in the meantime.
        Storage::around(slice)
    }

    pub(super) fn of<S: 'static>(slice: CudaSlice<S>) -> Result<Storage, Error> {
        Storage::around(Box::new(slice))
    }

    fn around(mut slice: Box<dyn Slice>) -> Result<Storage, Error> {
        let address = slice.settle();
        // From here on its own stream stands for all that uses the slice, unless cudarc failed to see to that.
        slice.stream().context().check_err().doing("ordering a tensor")?;
        Ok(Storage { slice: ManuallyDrop::new(slice), address })
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        self.slice.stream()
    }

    pub(super) fn read(&self) -> Buffer<'_> {
        self.slice.read(Owner::Tensor(self.address))
    }

    pub(super) fn write(&mut self) -> Buffer<'_> {
        self.slice.write(Owner::Tensor(self.address))
    }

    /// The slice for cudarc, which then knows of all that uses it.
    pub(super) fn into_slice<S: Stored>(mut self) -> Result<CudaSlice<S>, Error> {
        const DOING: &str = "giving up a tensor";
        let stream = self.stream().clone();
        if is_default(&stream) {
            // cudarc frees such a slice in the order of whatever context's default stream is current then.
            stream.synchronize().doing(DOING)?;
        }
        self.slice.settle();
        stream.context().check_err().doing(DOING)?;
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, and nothing uses the field any more.
        let slice = unsafe { ManuallyDrop::take(&mut this.slice) };
        let any = match slice.into_any().downcast::<CudaSlice<S>>() {
            Ok(slice) => return Ok(*slice),
            Err(any) => any,
        };
        // Half-precision numbers have several types, and one representation: two bytes.
        let Ok(bits) = any.downcast::<CudaSlice<u16>>() else {
            return Err(Error::refused(
                "the tensor was made from a slice of another type: ask for that type",
            ));
        };
        let (len, address) = (bits.len(), bits.leak());
        // cudarc panics where it cannot make events; the memory is lost then, and nothing else.
        // SAFETY: `leak` gave up so many elements of two bytes, and every bit pattern is a value.
        let made = catch_unwind(AssertUnwindSafe(|| unsafe { stream.upgrade_device_ptr::<S>(address, len) }));
        made.map_err(|_| DriverError(cudaError_enum::CUDA_ERROR_UNKNOWN)).doing(DOING)
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
        // SAFETY: this is the last use of the field.
        unsafe { ManuallyDrop::drop(&mut self.slice) };
    }
}
