//! Devices and contexts.

use std::ffi::{c_char, c_int};
use std::ptr;

use crate::Status;
use crate::call::give;
use crate::state::{Context, Handle, State};
use crate::status::*;

impl State {
    fn device(&self, device: c_int) -> Result<usize, Status> {
        if !self.initialized {
            return Err(NOT_INITIALIZED);
        }
        let known = usize::try_from(device).ok().filter(|&device| device < self.settings.arches.len());
        known.ok_or(INVALID_DEVICE)
    }
}

/// Handles of the devices' memory pools.
const POOL: Handle = 0xB001;

/// Handles of primary contexts.
fn primary(device: usize) -> Handle {
    0xC000 + device
}

driver! {
    fn cuInit(flags: u32) |state| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if state.settings.arches.is_empty() {
            return Err(NO_DEVICE);
        }
        state.initialized = true;
        Ok(())
    }

    fn cuDriverGetVersion(version: *mut c_int) |state| {
        unsafe { give(version, state.settings.version) };
        Ok(())
    }

    fn cuDeviceGetCount(count: *mut c_int) |state| {
        if !state.initialized {
            return Err(NOT_INITIALIZED);
        }
        unsafe { give(count, state.settings.arches.len() as c_int) };
        Ok(())
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) |state| {
        state.device(ordinal)?;
        unsafe { give(device, ordinal) };
        Ok(())
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |state| {
        let device = state.device(device)?;
        unsafe { give(value, state.attribute(device, attribute)) };
        Ok(())
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) |state| {
        let device = state.device(device)?;
        let text = format!("Fake GPU {device}\0");
        let len = text.len().min(len.max(0) as usize);
        unsafe { ptr::copy_nonoverlapping(text.as_ptr().cast(), name, len) };
        Ok(())
    }

    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) |state| {
        let device = state.device(device)?;
        unsafe { give(uuid, [device as u8; 16]) };
        Ok(())
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) |state| {
        state.device(device)?;
        unsafe { give(bytes, state.settings.memory as usize) };
        Ok(())
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) |state| {
        let (device, peer) = (state.device(device)?, state.device(peer)?);
        unsafe { give(can, c_int::from(device != peer)) };
        Ok(())
    }

    fn cuDeviceGetMemPool(pool: *mut Handle, device: c_int) |state| {
        state.device(device)?;
        unsafe { give(pool, POOL + device as usize) };
        Ok(())
    }

    fn cuMemPoolSetAccess(pool: Handle, access: *const [i32; 3], count: usize) |state| {
        // SAFETY: the caller's pointer is to this number of structures of a kind of location, a device and rights.
        let access = unsafe { std::slice::from_raw_parts(access, count) };
        let owner = state.device((pool.wrapping_sub(POOL)) as c_int)?;
        for [_, device, _] in access {
            if state.device(*device)? == owner {
                return Err(INVALID_DEVICE);
            }
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) |state| {
        let device = state.device(device)?;
        let made = state.contexts.entry(primary(device)).or_insert(Context { device, retained: 0 });
        made.retained += 1;
        unsafe { give(context, primary(device)) };
        Ok(())
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) |state| {
        let device = state.device(device)?;
        let context = state.contexts.get_mut(&primary(device)).filter(|context| context.retained > 0);
        let context = context.ok_or(INVALID_CONTEXT)?;
        context.retained -= 1;
        if context.retained == 0 {
            state.destroy_context(primary(device));
        }
        Ok(())
    }

    fn cuCtxCreate_v4(context: *mut Handle, params: *mut u8, flags: u32, device: c_int) |state| {
        let device = state.device(device)?;
        let made = state.make();
        state.contexts.insert(made, Context { device, retained: 1 });
        state.set_current(made);
        unsafe { give(context, made) };
        Ok(())
    }

    fn cuCtxDestroy_v2(context: Handle) |state| {
        if !state.contexts.contains_key(&context) {
            return Err(INVALID_CONTEXT);
        }
        state.destroy_context(context);
        Ok(())
    }

    fn cuCtxGetCurrent(context: *mut Handle) |state| {
        unsafe { give(context, state.current_or_none()) };
        Ok(())
    }

    fn cuCtxSetCurrent(context: Handle) |state| {
        if context != 0 && !state.contexts.contains_key(&context) {
            return Err(INVALID_CONTEXT);
        }
        state.set_current(context);
        Ok(())
    }

    fn cuCtxGetDevice(device: *mut c_int) |state| {
        let context = state.current()?;
        unsafe { give(device, state.contexts[&context].device as c_int) };
        Ok(())
    }

    fn cuCtxSetFlags(flags: u32) |state| {
        state.current().map(drop)
    }

    fn cuCtxSynchronize() |state| {
        let context = state.current()?;
        let all: Vec<usize> =
            (0..state.streams.len()).filter(|&at| state.streams[at].context == context).collect();
        if all.iter().any(|&at| state.streams[at].capture.is_some()) {
            return Err(CAPTURE_UNSUPPORTED);
        }
        for at in all {
            state.catch_up(at);
            let clock = state.streams[at].clock.clone();
            state.done.join(&clock);
        }
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) |state| {
        state.current()?;
        unsafe { give(least, 0) };
        unsafe { give(greatest, -5) };
        Ok(())
    }
}

impl State {
    /// Destroys a context with its streams, its memory and the work running there.
    fn destroy_context(&mut self, context: Handle) {
        self.contexts.remove(&context);
        self.streams.iter_mut().filter(|stream| stream.context == context).for_each(|s| s.alive = false);
        let left = self.memory.values_mut().filter(|memory| memory.context == context && !memory.freed);
        let left = left.map(|memory| memory.freed = true).count();
        if left > 0 {
            self.reported.push(format!("leaked={left}"));
        }
    }
}
