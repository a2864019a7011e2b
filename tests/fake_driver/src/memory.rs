//! Device memory is host memory that is never freed, so that no address is ever reused.

use std::alloc::{Layout, alloc_zeroed};
use std::ffi::c_void;

use crate::Status;
use crate::call::{Host, give};
use crate::order::Range;
use crate::state::{Allocation, Handle, State};
use crate::status::*;

// Attributes of pointers.
const CONTEXT: u32 = 1;
const MEMORY_TYPE: u32 = 2;
const DEVICE_POINTER: u32 = 3;
const ORDINAL: u32 = 9;
const START: u32 = 11;
const BYTES: u32 = 12;
const POOL: u32 = 17;
/// The driver's alignment.
const ALIGNMENT: usize = 256;

impl State {
    pub(crate) fn allocate(&mut self, bytes: usize, from_pool: bool) -> Result<u64, Status> {
        let context = self.current()?;
        let device = self.contexts[&context].device;
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let of_device = self.memory.values().filter(|memory| {
            !memory.freed && self.contexts.get(&memory.context).is_some_and(|c| c.device == device)
        });
        let used: u64 = of_device.map(|memory| memory.bytes).sum();
        if used + bytes as u64 > self.settings.memory {
            return Err(OUT_OF_MEMORY);
        }
        // A large zeroed allocation is lazy until it is touched, if no alignment is asked for.
        let layout = Layout::from_size_align(bytes + ALIGNMENT, 16).map_err(|_| OUT_OF_MEMORY)?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) } as usize;
        if start == 0 {
            return Err(OUT_OF_MEMORY);
        }
        let address = start.next_multiple_of(ALIGNMENT) as u64;
        let memory =
            Allocation { bytes: bytes as u64, context, from_pool, accesses: Vec::new(), freed: false };
        self.memory.insert(address, memory);
        self.reported.push(format!("made={address:#x}"));
        Ok(address)
    }

    /// Is the whole range inside one allocation?
    fn lies(&self, address: u64, bytes: usize) -> Result<(), Status> {
        let entry = self.memory.range(..=address).next_back();
        let inside = entry.is_some_and(|(start, memory)| address + bytes as u64 <= start + memory.bytes);
        if inside { Ok(()) } else { Err(INVALID_VALUE) }
    }

    /// An operation on a stream, or a synchronous one on the default stream. Is it executed now?
    fn transfer(
        &mut self,
        stream: Option<Handle>,
        what: &'static str,
        ranges: Vec<Range>,
    ) -> Result<bool, Status> {
        let at = self.stream(stream.unwrap_or(0))?;
        for range in &ranges {
            self.lies(range.from, (range.to - range.from) as usize)?;
        }
        if stream.is_none() && self.streams.iter().any(|stream| stream.capture.is_some()) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        let done = self.operate(at, what, ranges)?;
        if stream.is_none() {
            let clock = self.streams[at].clock.clone();
            self.done.join(&clock);
        }
        Ok(done)
    }
}

fn read(from: u64, bytes: usize) -> Range {
    Range { from, to: from + bytes as u64, written: false }
}

fn written(from: u64, bytes: usize) -> Range {
    Range { written: true, ..read(from, bytes) }
}

/// Copies immediately: no device would do it later.
///
/// # Safety
///
/// Both ranges are valid for as many bytes.
unsafe fn copy(to: *mut c_void, from: *const c_void, bytes: usize) {
    // SAFETY: by the caller's contract; the ranges may overlap.
    unsafe { std::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
}

driver! {
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) |state| {
        let made = state.allocate(bytes, false)?;
        unsafe { give(address, made) };
        Ok(())
    }

    fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: u32) |state| {
        let made = state.allocate(bytes, false)?;
        unsafe { give(address, made) };
        Ok(())
    }

    fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle) |state| {
        let at = state.stream(stream)?;
        if state.streams[at].context != state.current()? {
            return Err(INVALID_CONTEXT);
        }
        let made = state.allocate(bytes, true)?;
        // From here on other streams may use it.
        let _ = state.operate(at, "the allocation", vec![written(made, bytes)])?;
        unsafe { give(address, made) };
        Ok(())
    }

    fn cuMemFree_v2(address: u64) |state| {
        state.current()?;
        let done = state.done.clone();
        state.free(address, &done)
    }

    fn cuMemFreeAsync(address: u64, stream: Handle) |state| {
        let at = state.stream(stream)?;
        // A graph can free only memory that it allocated.
        if state.streams[at].capture.is_some() {
            return Err(INVALID_VALUE);
        }
        state.step(at);
        let clock = state.streams[at].clock.clone();
        state.free(address, &clock)
    }

    fn cuPointerGetAttribute(data: *mut c_void, attribute: u32, address: u64) |state| {
        let (&start, memory) = state.memory.range(..=address).next_back().ok_or(INVALID_VALUE)?;
        if memory.freed || address >= start + memory.bytes {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the pointer is to a value of the attribute's type.
        unsafe {
            match attribute {
                CONTEXT => give(data.cast(), memory.context),
                MEMORY_TYPE => give(data.cast(), 2u32),
                DEVICE_POINTER => give(data.cast(), address),
                ORDINAL => give(data.cast(), state.contexts[&memory.context].device as u32),
                START => give(data.cast(), start),
                BYTES => give(data.cast(), memory.bytes as usize),
                POOL => give(data.cast(), if memory.from_pool { 0xB001usize } else { 0 }),
                _ => return Err(NOT_SUPPORTED),
            }
        }
        Ok(())
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) |state| {
        state.current()?;
        unsafe { give(free, state.settings.memory as usize) };
        unsafe { give(total, state.settings.memory as usize) };
        Ok(())
    }

    fn cuMemHostAlloc(host: *mut Host, bytes: usize, flags: u32) |state| {
        state.current()?;
        let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| OUT_OF_MEMORY)?;
        // SAFETY: the size is not zero.
        unsafe { give(host, alloc_zeroed(layout).cast()) };
        Ok(())
    }

    fn cuMemFreeHost(host: Host) |state| {
        state.current().map(drop)
    }

    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) |state| {
        if state.transfer(None, "a copy", vec![written(to, bytes)])? {
            unsafe { copy(to as Host, from, bytes) };
        }
        Ok(())
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) |state| {
        if state.transfer(Some(stream), "a copy", vec![written(to, bytes)])? {
            unsafe { copy(to as Host, from, bytes) };
        }
        Ok(())
    }

    fn cuMemcpyDtoH_v2(to: Host, from: u64, bytes: usize) |state| {
        if state.transfer(None, "a copy", vec![read(from, bytes)])? {
            unsafe { copy(to, from as Host, bytes) };
        }
        Ok(())
    }

    fn cuMemcpyDtoHAsync_v2(to: Host, from: u64, bytes: usize, stream: Handle) |state| {
        if state.transfer(Some(stream), "a copy", vec![read(from, bytes)])? {
            unsafe { copy(to, from as Host, bytes) };
        }
        Ok(())
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) |state| {
        if state.transfer(None, "a copy", vec![written(to, bytes), read(from, bytes)])? {
            unsafe { copy(to as Host, from as Host, bytes) };
        }
        Ok(())
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) |state| {
        if state.transfer(Some(stream), "a copy", vec![written(to, bytes), read(from, bytes)])? {
            unsafe { copy(to as Host, from as Host, bytes) };
        }
        Ok(())
    }

    fn cuMemsetD8_v2(to: u64, value: u8, bytes: usize) |state| {
        if state.transfer(None, "a fill", vec![written(to, bytes)])? {
            unsafe { std::ptr::write_bytes(to as *mut u8, value, bytes) };
        }
        Ok(())
    }

    fn cuMemsetD8Async(to: u64, value: u8, bytes: usize, stream: Handle) |state| {
        if state.transfer(Some(stream), "a fill", vec![written(to, bytes)])? {
            unsafe { std::ptr::write_bytes(to as *mut u8, value, bytes) };
        }
        Ok(())
    }
}
