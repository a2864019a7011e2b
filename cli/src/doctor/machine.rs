//! Examines the machine.

use tilewright_runtime::cache::Cache;
use tilewright_runtime::nvrtc::Nvrtc;
use tilewright_runtime::{Device, Properties};

use crate::cache::count;
use crate::{inspect, output};

/// An optional component.
pub(super) struct Piece {
    /// Its name.
    pub(super) name: &'static str,
    /// Its description, or why it is missing and how to get it.
    pub(super) state: Result<String, String>,
    /// The commands that do not work without it, unless the reason names them.
    pub(super) costs: &'static str,
}

/// The components of the machine.
pub(super) struct Machine {
    pub(super) pieces: Vec<Piece>,
    pub(super) devices: Vec<Properties>,
}

/// The commands that do not work without a component. The message about a missing driver names them itself.
pub(super) const COSTS: &[(&str, &str)] = &[
    ("driver", ""),
    (
        "compiler",
        "Without it kernels run only where they were compiled before; checking, sources, reports and simulating work.",
    ),
    ("disassembler", "Without it `tilewright inspect --sass` has nothing to show; everything else works."),
    ("cache", "Without it every program compiles its kernels anew, a fraction of a second for each."),
];

impl Machine {
    /// Examines this machine.
    pub(super) fn here() -> Machine {
        let devices = Device::all();
        let driver = devices.as_ref().map_err(ToString::to_string).and_then(|devices| {
            let version = devices.first().map(Device::driver_version).transpose();
            let version = version.map_err(|why| why.to_string())?;
            Ok(version.map_or_else(String::new, |(major, minor)| format!("CUDA {major}.{minor}")))
        });
        let pieces = [
            ("driver", driver),
            ("compiler", compiler()),
            ("disassembler", disassembler()),
            ("cache", cache()),
        ];
        let costs = |name| COSTS.iter().find(|row| row.0 == name).map_or("", |row| row.1);
        Machine {
            pieces: pieces
                .into_iter()
                .map(|(name, state)| Piece { name, state, costs: costs(name) })
                .collect(),
            devices: devices.unwrap_or_default().iter().map(|device| device.properties().clone()).collect(),
        }
    }
}

fn compiler() -> Result<String, String> {
    let nvrtc = Nvrtc::find(&[]).map_err(|why| why.to_string())?;
    let (major, minor) = nvrtc.version();
    Ok(format!("NVRTC {major}.{minor}, {}", nvrtc.path().display()))
}

fn disassembler() -> Result<String, String> {
    match inspect::disassembler() {
        Some(program) => Ok(program.display().to_string()),
        None => Err(inspect::NO_DISASSEMBLER.to_owned()),
    }
}

fn cache() -> Result<String, String> {
    let cache = Cache::open();
    let Some(folder) = cache.folder() else {
        return Err(
            "This user has no home. Set TILEWRIGHT_CACHE_DIR to a folder that can be written to.".into()
        );
    };
    cache.check().map_err(|note| note.to_string())?;
    let entries = cache.list();
    let size = output::bytes(entries.iter().map(|entry| entry.bytes).sum());
    Ok(format!("{}, {size}, in {}", count(entries.len()), folder.display()))
}
