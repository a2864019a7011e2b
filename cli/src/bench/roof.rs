//! What this machine can do at most in a second, for a type.

use tilewright_codegen::Elem;

use super::Result;
use super::driver::Device;
use super::helpers::Helpers;
use super::plot::Roof;

/// Operations of the tensor cores of one multiprocessor in one clock, by compute capability.
const TENSOR_CORES: &[(u32, Elem, u32)] = &[
    (80, Elem::F16, 2048),
    (80, Elem::Bf16, 2048),
    (80, Elem::I8, 4096),
    (80, Elem::F64, 128),
    (90, Elem::F16, 4096),
    (90, Elem::Bf16, 4096),
    (90, Elem::I8, 8192),
    (90, Elem::F64, 256),
];

/// Measures the roof where ordinary units do the work, and computes that of the tensor cores from the highest clock.
pub(super) fn of(device: &Device, helpers: &Helpers, elem: Elem) -> Result<Option<Roof>> {
    let bytes = helpers.most_bytes()?;
    let ordinary = helpers.most_operations(elem)?;
    let clock = device.nvml.as_ref().and_then(|nvml| nvml.most_clock());
    let tensor = clock.and_then(|mhz| on_tensor_cores(device.capability, elem, device.multiprocessors, mhz));
    let most = |measured| move |operations| Roof { operations, bytes, measured };
    Ok(match (ordinary, tensor) {
        (Some(ordinary), Some(tensor)) if tensor < ordinary => Some(most(true)(ordinary)),
        (_, Some(tensor)) => Some(most(false)(tensor)),
        (ordinary, None) => ordinary.map(most(true)),
    })
}

fn on_tensor_cores(capability: u32, elem: Elem, multiprocessors: u32, mhz: u32) -> Option<f64> {
    let row = TENSOR_CORES.iter().find(|row| (row.0, row.1) == (capability, elem))?;
    Some(f64::from(row.2) * f64::from(multiprocessors) * f64::from(mhz) * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_tensor_cores() {
        let most = on_tensor_cores(90, Elem::Bf16, 132, 1830).unwrap();
        assert!((most / 989.4e12 - 1.0).abs() < 1e-3, "{most}");
        assert_eq!(on_tensor_cores(90, Elem::F32, 132, 1830), None);
    }
}
