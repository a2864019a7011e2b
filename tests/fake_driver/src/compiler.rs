//! The stand-in for NVRTC: it parses the declarations of kernels, and rejects sources that contain `#error`.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Mutex;
use std::{ptr, slice};

use crate::Status;
use crate::call::{enter, give};
use crate::signature;

const COMPILATION: Status = 6;
const INVALID_PROGRAM: Status = 4;

#[derive(Default)]
struct Program {
    source: String,
    log: Vec<u8>,
    cubin: Vec<u8>,
}

/// Handles are indices into it, from 1.
static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());

fn with<T>(program: usize, f: impl FnOnce(&mut Program) -> T) -> Result<T, Status> {
    let mut all = PROGRAMS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    program.checked_sub(1).and_then(|at| all.get_mut(at)).map(f).ok_or(INVALID_PROGRAM)
}

/// # Safety
///
/// The pointer is to a NUL-terminated string.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: by the caller's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn compile(program: &mut Program, options: &[String]) -> Result<(), Status> {
    let arch = options.iter().find_map(|option| option.strip_prefix("--gpu-architecture="));
    let arch = arch.unwrap_or("sm_75");
    if program.source.contains("#error") {
        program.log = b"fake.cu(1): error: #error\n\0".to_vec();
        return Err(COMPILATION);
    }
    let kernels = signature::kernels(&program.source);
    let mut log = String::new();
    for kernel in &kernels {
        log += &format!(
            "ptxas info    : Compiling entry function '{}' for '{arch}'\n\
             ptxas info    : Used 32 registers, used 1 barriers\n",
            kernel.name
        );
    }
    program.log = format!("{log}\0").into_bytes();
    program.cubin = signature::binary(arch, &kernels);
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> Status {
    enter("nvrtcVersion", &Vec::new, |state| {
        unsafe { give(major, state.settings.nvrtc.0) };
        unsafe { give(minor, state.settings.nvrtc.1) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetErrorString(status: Status) -> *const c_char {
    match status {
        0 => c"NVRTC_SUCCESS".as_ptr(),
        COMPILATION => c"NVRTC_ERROR_COMPILATION".as_ptr(),
        _ => c"NVRTC_ERROR_FAKE".as_ptr(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut usize,
    source: *const c_char,
    _name: *const c_char,
    _headers: c_int,
    _contents: *const *const c_char,
    _names: *const *const c_char,
) -> Status {
    let source = unsafe { text(source) };
    let mut all = PROGRAMS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    all.push(Program { source, ..Program::default() });
    unsafe { give(program, all.len()) };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: *mut usize) -> Status {
    unsafe { with(*program, |program| *program = Program::default()) }.err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCompileProgram(
    program: usize,
    count: c_int,
    options: *const *const c_char,
) -> Status {
    let options = if count > 0 { unsafe { slice::from_raw_parts(options, count as usize) } } else { &[] };
    let options: Vec<String> = options.iter().map(|&option| unsafe { text(option) }).collect();
    enter("nvrtcCompileProgram", &|| vec![("options", Some(options.join(",")))], |_| {
        with(program, |program| compile(program, &options))?
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLogSize(program: usize, size: *mut usize) -> Status {
    with(program, |program| unsafe { give(size, program.log.len()) }).err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLog(program: usize, log: *mut u8) -> Status {
    let copy = |program: &mut Program| unsafe {
        ptr::copy_nonoverlapping(program.log.as_ptr(), log, program.log.len());
    };
    with(program, copy).err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBINSize(program: usize, size: *mut usize) -> Status {
    with(program, |program| unsafe { give(size, program.cubin.len()) }).err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBIN(program: usize, cubin: *mut u8) -> Status {
    let copy = |program: &mut Program| unsafe {
        ptr::copy_nonoverlapping(program.cubin.as_ptr(), cubin, program.cubin.len());
    };
    with(program, copy).err().unwrap_or(0)
}

const PTX: &[u8] = b"// what stands in for PTX\n\0";

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetPTXSize(program: usize, size: *mut usize) -> Status {
    with(program, |_| unsafe { give(size, PTX.len()) }).err().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetPTX(program: usize, ptx: *mut u8) -> Status {
    with(program, |_| unsafe { ptr::copy_nonoverlapping(PTX.as_ptr(), ptx, PTX.len()) }).err().unwrap_or(0)
}
