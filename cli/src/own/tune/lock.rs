//! One tuner measures on a device at a time.

use std::fs::{File, OpenOptions, TryLockError};

use tilewright_runtime::Device;

use crate::output::{Failure, Result};

/// The right to measure on a device, until it is dropped or the program ends.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits until no other tuner measures on the device.
    pub(super) fn of(device: &Device) -> Result<Lock> {
        let number: String = match device.context().uuid() {
            Ok(uuid) => uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect(),
            Err(_) => device.properties().ordinal.to_string(),
        };
        let path = std::env::temp_dir().join(format!("tilewright-{number}.lock"));
        let failed = |why| Failure::Refused(format!("cannot lock {}: {why}", path.display()));
        // Another user may have made it, who alone may write it.
        let file = File::open(&path);
        let make = |_| OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.or_else(make).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!("another `tune` measures on this device: waiting until it ends");
                file.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        Ok(Lock { _file: file })
    }
}
