//! Device memory borrowed for a launch: exactly cudarc's slices and views, as bytes. cudarc's public traits
//! never provide an address, since anyone can implement them.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop,
};

/// Borrowed bytes.
#[derive(Debug)]
pub(crate) struct Buffer<'a> {
    bytes: Bytes<'a>,
    /// Who frees it?
    pub(crate) owner: Owner,
}

#[derive(Debug)]
enum Bytes<'a> {
    Read(CudaView<'a, u8>),
    Write(CudaViewMut<'a, u8>),
}

/// Who frees the memory, and therefore how it must be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Our own tensor at this address: its stream is ordered with everything that uses it, and frees it.
    Tensor(u64),
    /// A slice of cudarc.
    Slice,
    /// A view of cudarc, of any memory.
    View,
}

impl<'a> Buffer<'a> {
    pub(crate) fn read<S>(slice: &'a CudaSlice<S>, owner: Owner) -> Buffer<'a> {
        // SAFETY: bytes have no invalid values and no alignment, and the view is as long as the slice.
        let view = unsafe { slice.transmute::<u8>(slice.num_bytes()) };
        Buffer { bytes: Bytes::Read(whole(view, slice.as_view())), owner }
    }

    pub(crate) fn write<S>(slice: &'a mut CudaSlice<S>, owner: Owner) -> Buffer<'a> {
        let len = slice.num_bytes();
        // SAFETY: as above; the element type of the tensor with this buffer determines the written values,
        // and all element types are numbers.
        match unsafe { slice.transmute_mut::<u8>(len) } {
            Some(view) => Buffer { bytes: Bytes::Write(view), owner },
            None => unreachable!("a slice is as long as itself"),
        }
    }

    pub(crate) fn read_view<S>(view: &CudaView<'a, S>) -> Buffer<'a> {
        // SAFETY: as above.
        let bytes = unsafe { view.transmute::<u8>(DeviceSlice::num_bytes(view)) };
        match bytes {
            Some(bytes) => Buffer { bytes: Bytes::Read(bytes), owner: Owner::View },
            None => unreachable!("a view is as long as itself"),
        }
    }

    pub(crate) fn read_view_mut<S>(view: &'a CudaViewMut<'_, S>) -> Buffer<'a> {
        Buffer::read_view(&view.as_view())
    }

    pub(crate) fn write_view<S>(view: &'a mut CudaViewMut<'_, S>) -> Buffer<'a> {
        let len = DeviceSlice::num_bytes(view);
        // SAFETY: as above.
        match unsafe { view.transmute_mut::<u8>(len) } {
            Some(bytes) => Buffer { bytes: Bytes::Write(bytes), owner: Owner::View },
            None => unreachable!("a view is as long as itself"),
        }
    }

    /// The same bytes, reborrowed.
    pub(crate) fn again(&self) -> Buffer<'_> {
        let view = match &self.bytes {
            Bytes::Read(view) => view.slice(..),
            Bytes::Write(view) => view.as_view(),
        };
        Buffer { bytes: Bytes::Read(view), owner: self.owner }
    }

    /// The same bytes for their whole lifetime; `None` if they may be written.
    pub(crate) fn copy(&self) -> Option<Buffer<'a>> {
        match &self.bytes {
            Bytes::Read(view) => Some(Buffer { bytes: Bytes::Read(view.slice(..)), owner: self.owner }),
            Bytes::Write(_) => None,
        }
    }

    pub(crate) fn again_mut(&mut self) -> Buffer<'_> {
        let bytes = match &mut self.bytes {
            Bytes::Read(view) => Bytes::Read(view.slice(..)),
            Bytes::Write(view) => Bytes::Write(view.slice_mut(..)),
        };
        Buffer { bytes, owner: self.owner }
    }

    pub(crate) fn is_writable(&self) -> bool {
        matches!(self.bytes, Bytes::Write(_))
    }

    pub(crate) fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Read(view) => view.len(),
            Bytes::Write(view) => view.len(),
        }
    }

    /// The stream on which it will be freed.
    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        match &self.bytes {
            Bytes::Read(view) => DeviceSlice::stream(view),
            Bytes::Write(view) => DeviceSlice::stream(view),
        }
    }

    /// Its address. cudarc makes the buffer's own stream wait for the uses of the buffer that it tracks, on
    /// any stream; when the second value is dropped, cudarc records the work then submitted to the buffer's
    /// stream.
    ///
    /// `to` is a clone of [`Buffer::stream`]: one value cannot be borrowed twice. A tensor of our own has its address in
    /// [`Buffer::owner`], and is not tracked.
    pub(crate) fn address<'b>(&'b mut self, to: &'b CudaStream) -> (u64, SyncOnDrop<'b>) {
        match &mut self.bytes {
            Bytes::Read(view) => view.device_ptr(to),
            Bytes::Write(view) => view.device_ptr_mut(to),
        }
    }
}

fn whole<'a, S>(bytes: Option<CudaView<'a, u8>>, _of: CudaView<'a, S>) -> CudaView<'a, u8> {
    match bytes {
        Some(bytes) => bytes,
        None => unreachable!("a slice is as long as itself"),
    }
}
