//! Common path of every call: it is counted, failed if configured so, executed, and logged.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Mutex;
use std::thread;

use crate::Status;
use crate::state::State;

static STATE: Mutex<Option<(State, Option<File>)>> = Mutex::new(None);

/// Executes a call.
pub(crate) fn enter(
    name: &'static str,
    arguments: &dyn Fn() -> Vec<(&'static str, Option<String>)>,
    body: impl FnOnce(&mut State) -> Result<(), Status>,
) -> Status {
    let mut guard = STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (state, log) = guard.get_or_insert_with(|| {
        let state = State::new();
        let open = |path: &String| OpenOptions::new().create(true).append(true).open(path);
        let log = state.settings.log.as_ref().map(|path| open(path).expect("FAKE_LOG can be written"));
        (state, log)
    });
    state.reported.clear();
    state.hazards.clear();
    let failure = state.settings.fails(name);
    let (call, capture) = (state.settings.call(), state.settings.capture.unwrap_or_default());
    if call == capture.0 {
        let arguments = arguments();
        let stream =
            arguments.iter().find(|(name, _)| *name == "stream").and_then(|(_, value)| value.as_deref());
        let handle = stream.and_then(|text| usize::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        state.other_thread_begins(handle.expect("FAKE_CAPTURE: the first call has a stream"));
    }
    let status = match failure {
        Some((status, for_good)) => {
            state.lost |= for_good;
            // A failed synchronisation has waited all the same: the device has stopped.
            if name.ends_with("Synchronize") {
                let _ = body(state);
            }
            state.reported.push("injected".into());
            status
        }
        None => body(state).err().unwrap_or(0),
    };
    if call == capture.1 {
        state.other_thread_ends();
    }
    let Some(log) = log else { return status };
    let mut line = name.to_string();
    for (name, value) in arguments() {
        if let Some(value) = value {
            line += &format!(" {name}={value}");
        }
    }
    for reported in &state.reported {
        line += &format!(" {reported}");
    }
    let thread = format!("{:?}", thread::current().id());
    let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
    let mut text = format!("{line} thread={thread} -> {status}\n");
    if !state.lost {
        state.hazards.iter().for_each(|hazard| text += &format!("HAZARD {name}: {hazard}\n"));
    }
    // A single write, so that no line is lost or interleaved when the process dies.
    log.write_all(text.as_bytes()).expect("FAKE_LOG can be written");
    status
}

/// Looks at the state, if a call has made it: neither counted nor logged.
pub(crate) fn quiet(body: impl FnOnce(&mut State) -> Status) -> Status {
    let mut guard = STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    guard.as_mut().map_or(0, |(state, _)| body(state))
}

/// How an argument is printed in the log; pointers to host memory are omitted.
pub(crate) trait Shown {
    fn shown(&self) -> Option<String>;
}

macro_rules! number {
    ($($type:ty)*) => {$(
        impl Shown for $type {
            fn shown(&self) -> Option<String> {
                let small = (-65536..65536).contains(&(*self as i128));
                Some(if small { self.to_string() } else { format!("{self:#x}") })
            }
        }
    )*};
}
number!(i32 u32 u64 usize i64 u8);

impl<T> Shown for *mut T {
    fn shown(&self) -> Option<String> {
        None
    }
}

impl<T> Shown for *const T {
    fn shown(&self) -> Option<String> {
        None
    }
}

/// Functions of the driver. Handles are integers returned by earlier calls.
macro_rules! driver {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) |$state:ident| $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $crate::Status {
            let arguments = || vec![$((stringify!($arg), $crate::call::Shown::shown(&$arg))),*];
            $crate::call::enter(stringify!($name), &arguments, |$state: &mut $crate::state::State| $body)
        }
    )*};
}

/// Writes a result through the caller's pointer.
///
/// # Safety
///
/// The pointer is null or valid for writes.
pub(crate) unsafe fn give<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: by the caller's contract.
        unsafe { to.write(value) };
    }
}

/// Host memory, for functions that only pass the pointer on.
pub(crate) type Host = *mut c_void;
