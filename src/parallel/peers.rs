//! Memory of devices of one process, where NCCL's kernels of one device write to tensors of another.
#![allow(unsafe_code)]

use std::ffi::c_int;

use super::Error;
use crate::Device;
use crate::runtime::cudarc::driver::sys;

/// `CUmemAccessDesc` of a device, which has the same bytes in all versions.
#[repr(C)]
struct Access {
    location: u32,
    device: c_int,
    rights: u32,
}

const LOCATION_DEVICE: u32 = 1;
const READ_AND_WRITE: u32 = 3;

/// Lets each device access the stream-ordered memory of the others. NCCL enables access to other memory, but not to pools.
pub(super) fn share_memory(devices: &[Device]) -> Result<(), Error> {
    for (owner, peer) in devices.iter().flat_map(|owner| devices.iter().map(move |peer| (owner, peer))) {
        if owner == peer || !owner.properties().has_memory_pools {
            continue;
        }
        let (device, other) = (owner.context().cu_device(), peer.context().cu_device());
        let (mut can, mut pool) = (0, std::ptr::null_mut());
        let access = Access { location: LOCATION_DEVICE, device: other, rights: READ_AND_WRITE };
        // SAFETY: the driver has these functions since CUDA 11.2, and results and arguments live through the calls.
        unsafe {
            sys::cuDeviceCanAccessPeer(&mut can, other, device)
                .result()
                .map_err(crate::runtime::Error::from)?;
            if can != 0 {
                sys::cuDeviceGetMemPool(&mut pool, device).result().map_err(crate::runtime::Error::from)?;
                let set = sys::cuMemPoolSetAccess(pool, (&raw const access).cast(), 1);
                set.result().map_err(crate::runtime::Error::from)?;
            }
        }
    }
    Ok(())
}
