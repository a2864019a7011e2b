//! Modules, functions, launches, tensor maps.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::slice;

use crate::Status;
use crate::call::give;
use crate::order::Range;
use crate::signature::{self, Kernel, Param};
use crate::state::{Function, Handle, Module, State};
use crate::status::*;

const MAX_THREADS_PER_BLOCK: c_int = 0;
const NUM_REGS: c_int = 4;
const MAX_DYNAMIC_SHARED: c_int = 8;
const CLUSTER: u32 = 4;
/// The launch attribute of programmatic dependent launch.
const OVERLAPS: u32 = 6;
/// The register count reported for every kernel.
const REGISTERS: i32 = 32;
/// The first word of a fake tensor map; the address and the extent in bytes follow.
const MAP: u64 = 0x_F4CE_0000_0000_0A1D;

/// `CUlaunchConfig`
#[repr(C)]
pub struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
    attributes: *const Attribute,
    count: u32,
}

/// `CUlaunchAttribute`
#[repr(C)]
pub struct Attribute {
    id: u32,
    pad: [u8; 4],
    value: [u32; 16],
}

#[derive(Clone, Copy)]
struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
}

impl State {
    /// Can a device run a binary for `sm_90a`?
    fn fits(&self, device: usize, arch: &str) -> bool {
        let number = arch.trim_start_matches("sm_");
        let digits: u32 = number.trim_end_matches(char::is_alphabetic).parse().unwrap_or(0);
        let device = self.settings.arches[device];
        if number.ends_with('a') { digits == device } else { digits / 10 == device / 10 && digits <= device }
    }

    /// # Safety
    ///
    /// `params` points to as many pointers as the kernel has parameters, each to a value of its parameter's
    /// type.
    unsafe fn launch(
        &mut self,
        function: Handle,
        launch: Launch,
        params: *const *const c_void,
    ) -> Result<(), Status> {
        let Launch { grid, block, shared, stream } = launch;
        let at = self.stream(stream)?;
        let entry = self.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let context = self.modules.get(&entry.module).ok_or(INVALID_HANDLE)?.context;
        if context != self.streams[at].context || context != self.current()? {
            return Err(INVALID_HANDLE);
        }
        self.reported.push(format!("kernel={}", entry.name));
        let device = self.contexts[&context].device;
        let within = |values: [u32; 3], first: i32| {
            values.iter().zip(first..).all(|(&n, which)| n > 0 && n <= self.attribute(device, which) as u32)
        };
        let threads: u64 = block.iter().map(|&n| u64::from(n)).product();
        let allowed = entry.shared.max(self.attribute(device, 8)) as u32;
        let many = threads > self.attribute(device, 1) as u64;
        if !within(grid, 5) || !within(block, 2) || many || shared > allowed {
            return Err(INVALID_VALUE);
        }
        let mut ranges = Vec::new();
        if let Some(kernel) = entry.kernel.clone() {
            for (n, param) in kernel.params.into_iter().enumerate() {
                // SAFETY: by the caller's contract.
                unsafe { self.param(*params.add(n), param, &mut ranges) };
            }
        }
        self.operate(at, "a kernel", ranges).map(drop)
    }

    /// # Safety
    ///
    /// The pointer is to a value of the parameter's type.
    unsafe fn param(&mut self, value: *const c_void, param: Param, ranges: &mut Vec<Range>) {
        // SAFETY: the caller guarantees as many bytes; no alignment is assumed.
        let bytes = unsafe { slice::from_raw_parts(value.cast::<u8>(), param.bytes()) };
        let word = |n: usize| {
            u64::from_le_bytes(std::array::from_fn(|byte| bytes.get(n * 8 + byte).copied().unwrap_or(0)))
        };
        match param {
            Param::Pointer { written } => {
                ranges.push(self.rest_of(word(0), written));
                self.reported.push(format!("pointer={:#x}", word(0)));
            }
            Param::Map if word(0) == MAP => {
                // Memory accessed through maps is also passed as a pointer, written memory included.
                ranges.push(Range { from: word(1), to: word(1) + word(2), written: false });
                self.reported.push(format!("map={:#x}", word(1)));
            }
            Param::Map => self.hazards.push("a parameter is no tensor map".into()),
            Param::Number(_) => self.reported.push(format!("number={}", word(0))),
        }
    }
}

driver! {
    fn cuModuleLoadData(module: *mut Handle, image: *const c_void) |state| {
        let context = state.current()?;
        let device = state.contexts[&context].device;
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: every binary is longer.
        let begins = unsafe { slice::from_raw_parts(image.cast::<u8>(), 4) };
        let kernels = match begins {
            b"\x7fELF" => None,
            b"FAKE" => {
                // SAFETY: fake binaries are NUL-terminated.
                let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy();
                let (arch, kernels) = signature::read(&text).ok_or(INVALID_IMAGE)?;
                if !state.fits(device, &arch) {
                    return Err(NO_BINARY_FOR_GPU);
                }
                Some(kernels)
            }
            _ => return Err(INVALID_IMAGE),
        };
        let made = state.make();
        state.modules.insert(made, Module { context, kernels });
        unsafe { give(module, made) };
        Ok(())
    }

    // A running kernel continues; later launches get an error.
    fn cuModuleUnload(module: Handle) |state| {
        state.functions.retain(|_, function| function.module != module);
        state.modules.remove(&module).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) |state| {
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        state.reported.push(format!("name={name}"));
        let known = &state.modules.get(&module).ok_or(INVALID_HANDLE)?.kernels;
        let kernel: Option<Kernel> = match known {
            None => None,
            Some(all) => Some(all.iter().find(|kernel| kernel.name == name).ok_or(NOT_FOUND)?.clone()),
        };
        let made = state.make();
        state.functions.insert(made, Function { module, name, kernel, shared: 0 });
        unsafe { give(function, made) };
        Ok(())
    }

    // Every module has every variable, of 24 bytes.
    fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: Handle, name: *const c_char) |state| {
        if !state.modules.contains_key(&module) {
            return Err(INVALID_HANDLE);
        }
        let made = state.allocate(24, false)?;
        unsafe { give(address, made) };
        unsafe { give(bytes, 24) };
        Ok(())
    }

    fn cuFuncGetParamInfo(function: Handle, index: usize, offset: *mut usize, size: *mut usize) |state| {
        let function = state.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let params = function.kernel.as_ref().map(|kernel| &kernel.params[..]).unwrap_or_default();
        let param = params.get(index).ok_or(INVALID_VALUE)?;
        let mut at = 0usize;
        for before in &params[..index] {
            at = at.next_multiple_of(before.alignment()) + before.bytes();
        }
        unsafe { give(offset, at.next_multiple_of(param.alignment())) };
        unsafe { give(size, param.bytes()) };
        Ok(())
    }

    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) |state| {
        let function = state.functions.get(&function).ok_or(INVALID_HANDLE)?;
        let entry = match attribute {
            MAX_THREADS_PER_BLOCK => 1024,
            NUM_REGS => REGISTERS,
            MAX_DYNAMIC_SHARED => function.shared.max(48 << 10),
            _ => 0,
        };
        unsafe { give(value, entry) };
        Ok(())
    }

    fn cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int) |state| {
        let module = state.functions.get(&function).ok_or(INVALID_HANDLE)?.module;
        let context = state.modules.get(&module).ok_or(INVALID_HANDLE)?.context;
        let most = state.attribute(state.contexts.get(&context).ok_or(INVALID_CONTEXT)?.device, 97);
        if attribute == MAX_DYNAMIC_SHARED && !(0..=most).contains(&value) {
            return Err(INVALID_VALUE);
        }
        if let Some(function) = state.functions.get_mut(&function).filter(|_| attribute == MAX_DYNAMIC_SHARED) {
            function.shared = value;
        }
        Ok(())
    }

    fn cuFuncSetCacheConfig(function: Handle, config: u32) |state| {
        state.functions.get(&function).map(drop).ok_or(INVALID_HANDLE)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: Handle, threads: c_int, shared: usize,
    ) |state| {
        state.functions.get(&function).ok_or(INVALID_HANDLE)?;
        unsafe { give(blocks, 2048 / threads.max(1)) };
        Ok(())
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut c_int, function: Handle, threads: c_int, shared: usize, flags: u32,
    ) |state| {
        state.functions.get(&function).ok_or(INVALID_HANDLE)?;
        unsafe { give(blocks, 2048 / threads.max(1)) };
        Ok(())
    }

    fn cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: Handle, config: *const Config) |state| {
        state.functions.get(&function).ok_or(INVALID_HANDLE)?;
        unsafe { give(clusters, 66) };
        Ok(())
    }

    fn cuLaunchKernel(
        function: Handle,
        grid_x: u32, grid_y: u32, grid_z: u32,
        block_x: u32, block_y: u32, block_z: u32,
        shared: u32,
        stream: Handle,
        params: *const *const c_void,
        extra: *const *const c_void,
    ) |state| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        unsafe { state.launch(function, Launch { grid, block, shared, stream }, params) }
    }

    fn cuLaunchCooperativeKernel(
        function: Handle,
        grid_x: u32, grid_y: u32, grid_z: u32,
        block_x: u32, block_y: u32, block_z: u32,
        shared: u32,
        stream: Handle,
        params: *const *const c_void,
    ) |state| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        unsafe { state.launch(function, Launch { grid, block, shared, stream }, params) }
    }

    fn cuLaunchKernelEx(
        config: *const Config,
        function: Handle,
        params: *const *const c_void,
        extra: *const *const c_void,
    ) |state| {
        // SAFETY: the pointer is to a configuration of this layout, and that points to as many attributes as
        // it says.
        let config = unsafe { &*config };
        let &Config { grid, block, shared, stream, .. } = config;
        state.reported.push(format!("grid={grid:?} block={block:?} shared={shared} stream={stream:#x}").replace(", ", ","));
        if config.count > 0 {
            for attribute in unsafe { slice::from_raw_parts(config.attributes, config.count as usize) } {
                let [x, y, z] = [attribute.value[0], attribute.value[1], attribute.value[2]];
                if attribute.id == CLUSTER {
                    state.reported.push(format!("cluster=[{x},{y},{z}]"));
                    let divides = |n: u32, by: u32| by > 0 && n.is_multiple_of(by);
                    if !(divides(grid[0], x) && divides(grid[1], y) && divides(grid[2], z)) {
                        return Err(INVALID_VALUE);
                    }
                } else if attribute.id == OVERLAPS {
                    state.reported.push(format!("overlaps={}", attribute.value[0]));
                } else {
                    state.reported.push(format!("attribute={}", attribute.id));
                }
            }
        }
        unsafe { state.launch(function, Launch { grid, block, shared, stream }, params) }
    }

    fn cuTensorMapEncodeTiled(
        map: *mut [u64; 16],
        kind: u32,
        rank: u32,
        address: u64,
        extents: *const u64,
        strides: *const u64,
        tile: *const u32,
        steps: *const u32,
        interleave: u32,
        swizzle: u32,
        promotion: u32,
        fill: u32,
    ) |state| {
        // Bytes per element by data type: u8 u16 u32 i32 u64 i64 f16 f32 f64 bf16 and three of f32.
        let bytes = [1u64, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4].get(kind as usize).ok_or(INVALID_VALUE)?;
        if !(1..=5).contains(&rank) {
            return Err(INVALID_VALUE);
        }
        let rank = rank as usize;
        // SAFETY: as many extents as the rank, and one stride fewer.
        let extents = unsafe { slice::from_raw_parts(extents, rank) };
        let strides = if rank > 1 { unsafe { slice::from_raw_parts(strides, rank - 1) } } else { &[] };
        let tile = unsafe { slice::from_raw_parts(tile, rank) };
        let steps = unsafe { slice::from_raw_parts(steps, rank) };
        let row = u64::from(tile[0]) * bytes;
        let wrong = !address.is_multiple_of(16)
            || extents.iter().any(|&n| n == 0 || n > 1 << 32)
            || strides.iter().any(|&d| !d.is_multiple_of(16) || d >= 1 << 40)
            || tile.iter().any(|&n| n == 0 || n > 256)
            || steps.iter().any(|&n| n == 0 || n > 8)
            || interleave == 0 && !row.is_multiple_of(16)
            || (1..=3).contains(&swizzle) && row > 16 << swizzle
            || swizzle > 3;
        state.reported.push(format!("extents={extents:?} strides={strides:?} tile={tile:?}").replace(", ", ","));
        if wrong {
            return Err(INVALID_VALUE);
        }
        let far: u64 = extents[1..].iter().zip(strides).map(|(n, d)| (n - 1) * d).sum();
        let mut made = [0; 16];
        made[..3].copy_from_slice(&[MAP, address, far + extents[0] * bytes]);
        unsafe { give(map, made) };
        Ok(())
    }

    fn cuTensorMapReplaceAddress(map: *mut [u64; 16], address: u64) |_state| {
        // SAFETY: the pointer is to a map.
        let map = unsafe { &mut *map };
        if map[0] != MAP || !address.is_multiple_of(16) {
            return Err(INVALID_VALUE);
        }
        map[1] = address;
        Ok(())
    }
}

/// For error messages; neither counted nor logged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: Status, text: *mut *const c_char) -> Status {
    unsafe { give(text, name(error).as_ptr()) };
    0
}

/// For error messages; neither counted nor logged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: Status, text: *mut *const c_char) -> Status {
    unsafe { give(text, name(error).as_ptr()) };
    0
}

fn name(error: Status) -> &'static CStr {
    match error {
        0 => c"CUDA_SUCCESS",
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
        INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
        NO_BINARY_FOR_GPU => c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        INVALID_HANDLE => c"CUDA_ERROR_INVALID_HANDLE",
        NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        _ => c"CUDA_ERROR_OF_THE_FAKE_DRIVER",
    }
}

/// Functions that exist and that this driver does not export.
macro_rules! absent {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> Status {
            crate::call::enter(stringify!($name), &Vec::new, |_| Err(NOT_SUPPORTED))
        }
    )*};
}

absent! {
    cuDeviceGetDefaultMemPool cuDeviceSetMemPool cuMemPoolCreate cuMemPoolDestroy
    cuMemPoolGetAttribute cuMemPoolSetAttribute cuMemPoolTrimTo cuMemAllocFromPoolAsync cuMemcpyPeerAsync
    cuMemAdvise_v2 cuMemPrefetchAsync_v2 cuLaunchHostFunc cuStreamAttachMemAsync cuModuleLoad
    cuCtxGetLimit cuCtxSetLimit cuCtxGetCacheConfig cuCtxSetCacheConfig cuImportExternalMemory
    cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxPotentialBlockSize
}
