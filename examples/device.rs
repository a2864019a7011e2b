//! Device properties: the numbers that determine tile sizes, threads per block and shared memory.
//!
//! ```console
//! $ cargo run --example device
//! ```

use tilewright::Device;

fn main() {
    let devices = match Device::all() {
        Ok(devices) => devices,
        // The error says which library is missing, how to install it, and what works without it.
        Err(why) => return println!("{why}"),
    };
    for device in devices {
        let p = device.properties();
        let (major, minor) = p.compute_capability;
        println!("device {}: {}", p.ordinal, p.name);
        println!("  compute capability {major}.{minor}, {} multiprocessors", p.multiprocessors);
        println!("  warps of {} threads", p.warp_size);
        println!(
            "  threads: {} of a block, {} of a multiprocessor",
            p.threads_per_block, p.threads_per_multiprocessor
        );
        println!("  registers: {} of a multiprocessor", p.registers_per_multiprocessor);
        println!(
            "  shared memory: {} bytes of a block, {} where it asks for them",
            p.shared_bytes_per_block, p.shared_bytes_per_block_optin
        );
        println!("  constant memory: {} bytes, second-level cache: {} bytes", p.constant_bytes, p.l2_bytes);
        println!("  memory: {} bytes, a bus of {} bits", p.memory_bytes, p.memory_bus_bits);
        println!("  at best {:.0} GB/s from memory", p.memory_bandwidth() / 1e9);
    }
}
