//! Devices by their published figures: NVIDIA's data sheets and architecture papers. The estimate of launches is measured on an H100
//! and an H200; its rates for other devices are scaled by these figures.

/// A device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Device {
    /// Its name.
    pub name: &'static str,
    /// Compute capability, such as 90.
    pub arch: u32,
    /// The boost clock.
    pub megahertz: u64,
    /// Gigabytes that memory delivers in a second.
    pub memory_gigabytes_per_second: u64,
}

/// The device that is measured.
const H200: Device = row("H200", 90, 1980, 4800);

/// The devices, in the order of their compute capabilities. The last of an architecture stands for all of it.
pub const DEVICES: [Device; 6] = [
    row("A100", 80, 1410, 2039),
    row("RTX 4090", 89, 2520, 1008),
    row("H100", 90, 1980, 3350),
    H200,
    row("B200", 100, 1965, 8000),
    row("RTX 5090", 120, 2407, 1792),
];

const fn row(name: &'static str, arch: u32, megahertz: u64, memory_gigabytes_per_second: u64) -> Device {
    Device { name, arch, megahertz, memory_gigabytes_per_second }
}

/// Bytes that the memory of an H200 delivers in a clock while blocks are busy, the L2 cache's part included: see bench/LOG.md, "The
/// estimate".
const MEASURED_MEMORY_BYTES_PER_CLOCK: u64 = 2913;

impl Device {
    /// The device that stands for an architecture, or for the nearest older one.
    ///
    /// ```
    /// use tilewright_program::isa::devices::Device;
    /// assert_eq!([80, 86, 90, 121].map(|arch| Device::of(arch).name), ["A100", "A100", "H200", "RTX 5090"]);
    /// ```
    pub fn of(arch: u32) -> &'static Device {
        DEVICES.iter().rev().find(|device| device.arch <= arch).unwrap_or(&DEVICES[0])
    }

    /// Bytes that memory delivers in a clock while blocks are busy.
    pub const fn memory_bytes_per_clock(&self) -> u64 {
        let scaled = MEASURED_MEMORY_BYTES_PER_CLOCK * self.memory_gigabytes_per_second * H200.megahertz;
        scaled / (H200.memory_gigabytes_per_second * self.megahertz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::target::Target;

    #[test]
    fn rates_are_scaled_from_an_h200() {
        let rates = [80, 89, 90, 100, 120].map(|arch| Device::of(arch).memory_bytes_per_clock());
        assert_eq!(rates, [1737, 480, 2913, 4892, 894]);
    }

    #[test]
    fn rows_agree_with_architectures() {
        assert!(DEVICES.is_sorted_by_key(|device| device.arch));
        for device in DEVICES {
            assert_eq!(Target::of(device.arch).arch, device.arch, "{}", device.name);
        }
    }
}
