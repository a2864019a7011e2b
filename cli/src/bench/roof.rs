//! Peak rates of this machine, for an element type.

use tilewright_codegen::Elem;
use tilewright_codegen::target::Target;

use super::Result;
use super::driver::Device;
use super::helpers::Helpers;
use super::plot::Roof;

/// Measures the peak of CUDA cores, and computes the peak of tensor cores from the highest clock.
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
    // An older row must not describe a newer device.
    let target = Some(Target::of(capability)).filter(|target| target.arch == capability)?;
    Some(f64::from(target.tensor_rate(elem)?) * f64::from(multiprocessors) * f64::from(mhz) * 1e6)
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
