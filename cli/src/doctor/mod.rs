//! `tilewright doctor`: the components of the machine that tilewright can use, and the cost of each missing
//! one.

mod machine;

use clap::{ArgMatches, Command};
use serde_json::{Value, json};
use std::process::ExitCode;
use tilewright_runtime::Properties;

use crate::output::{self, finish, print};
use machine::{Machine, Piece};

const EXAMPLES: &str = "\
Examples:
  tilewright doctor
  tilewright doctor --json
  CUDA_VISIBLE_DEVICES=1 tilewright doctor";

pub(crate) fn command() -> Command {
    Command::new("doctor")
        .about("Say what was found: driver, devices, compilers, cache, and what is missing")
        .arg(output::json_flag())
        .after_help(EXAMPLES)
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let machine = Machine::here();
    finish(match matches.get_flag("json") {
        true => output::json(&json(&machine)),
        false => print(&text(&machine)),
    })
}

/// Each component on a line with its details below; a missing one with its cost and remedy.
fn text(machine: &Machine) -> String {
    let mut text = String::new();
    for piece in &machine.pieces {
        let Piece { name, state, costs, .. } = piece;
        match state {
            Ok(state) => text += &line(name, state),
            Err(why) => {
                text += &line(name, "missing");
                let mut lines = why.lines().chain((!costs.is_empty()).then_some(*costs));
                lines.by_ref().for_each(|why| text += &format!("  {why}\n"));
            }
        }
        if piece.name == "driver" {
            machine.devices.iter().for_each(|device| text += &described(device));
        }
    }
    text
}

fn line(name: &str, state: &str) -> String {
    format!("{name:<15}{state}\n")
}

fn described(device: &Properties) -> String {
    let (major, minor) = device.compute_capability;
    let p = device;
    let mhz = |khz: u32| f64::from(khz) / 1e3;
    let rows = [
        ("compute capability", format!("{major}.{minor}")),
        ("multiprocessors", p.multiprocessors.to_string()),
        ("threads of a warp", p.warp_size.to_string()),
        (
            "memory",
            format!(
                "{}, {} bits wide, {}/s at best",
                output::bytes(p.memory_bytes),
                p.memory_bus_bits,
                output::bytes(p.memory_bandwidth() as u64)
            ),
        ),
        ("second-level cache", output::bytes(p.l2_bytes.into())),
        ("constant memory", format!("{} bytes", p.constant_bytes)),
        (
            "shared memory",
            format!(
                "{} bytes of a block, {} where it asks for them, {} of a multiprocessor",
                p.shared_bytes_per_block, p.shared_bytes_per_block_optin, p.shared_bytes_per_multiprocessor
            ),
        ),
        (
            "registers",
            format!(
                "{} of a block, {} of a multiprocessor",
                p.registers_per_block, p.registers_per_multiprocessor
            ),
        ),
        (
            "threads",
            format!(
                "{} of a block, {} of a multiprocessor",
                p.threads_per_block, p.threads_per_multiprocessor
            ),
        ),
        ("clocks", format!("{:.0} MHz, memory {:.0} MHz", mhz(p.clock_khz), mhz(p.memory_clock_khz))),
    ];
    let rows = rows.map(|(what, value)| format!("  {what:<20}{value}\n"));
    line(&format!("device {}", p.ordinal), &p.name) + &rows.concat()
}

fn json(machine: &Machine) -> Value {
    let pieces = machine.pieces.iter().map(|piece| {
        let state = match &piece.state {
            Ok(state) => json!({ "found": true, "what": state }),
            Err(why) => json!({ "found": false, "why": why, "costs": piece.costs }),
        };
        (piece.name.to_owned(), state)
    });
    let mut all: serde_json::Map<String, Value> = pieces.collect();
    all.insert("devices".into(), machine.devices.iter().map(device_json).collect());
    Value::Object(all)
}

fn device_json(p: &Properties) -> Value {
    json!({
        "ordinal": p.ordinal,
        "name": p.name,
        "compute_capability": [p.compute_capability.0, p.compute_capability.1],
        "multiprocessors": p.multiprocessors,
        "warp_size": p.warp_size,
        "memory_bytes": p.memory_bytes,
        "memory_bus_bits": p.memory_bus_bits,
        "memory_clock_khz": p.memory_clock_khz,
        "clock_khz": p.clock_khz,
        "l2_bytes": p.l2_bytes,
        "constant_bytes": p.constant_bytes,
        "shared_bytes_per_block": p.shared_bytes_per_block,
        "shared_bytes_per_block_optin": p.shared_bytes_per_block_optin,
        "shared_bytes_per_multiprocessor": p.shared_bytes_per_multiprocessor,
        "registers_per_block": p.registers_per_block,
        "registers_per_multiprocessor": p.registers_per_multiprocessor,
        "threads_per_block": p.threads_per_block,
        "threads_per_multiprocessor": p.threads_per_multiprocessor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of a device that does not exist.
    fn device() -> Properties {
        Properties {
            ordinal: 0,
            name: "Example 9000".into(),
            compute_capability: (9, 0),
            multiprocessors: 100,
            warp_size: 32,
            memory_bytes: 80_000_000_000,
            memory_bus_bits: 4096,
            memory_clock_khz: 2_000_000,
            clock_khz: 1_500_000,
            l2_bytes: 50_000_000,
            constant_bytes: 65_536,
            shared_bytes_per_block: 49_152,
            shared_bytes_per_block_optin: 232_448,
            shared_bytes_per_multiprocessor: 233_472,
            registers_per_block: 65_536,
            registers_per_multiprocessor: 65_536,
            threads_per_block: 1024,
            threads_per_multiprocessor: 2048,
            grid: [i32::MAX as u32, 65_535, 65_535],
            has_memory_pools: true,
        }
    }

    #[test]
    fn everything_is_here() {
        let machine = Machine {
            pieces: vec![
                Piece { name: "driver", state: Ok("CUDA 13.0".into()), costs: "" },
                Piece { name: "compiler", state: Ok("NVRTC 13.0, libnvrtc.so.13".into()), costs: "" },
            ],
            devices: vec![device()],
        };
        insta::assert_snapshot!("everything_is_here", text(&machine));
        insta::assert_snapshot!("everything_is_here_json", format!("{:#}", json(&machine)));
    }

    #[test]
    fn nothing_is_here() {
        let why = "there is no NVIDIA driver here.\n  libcuda.so.1: not found\nhelp: install NVIDIA's driver";
        let costs = machine::COSTS.iter().find(|(name, _)| *name == "compiler").map_or("", |row| row.1);
        let machine = Machine {
            pieces: vec![
                Piece { name: "driver", state: Err(why.into()), costs: "" },
                Piece { name: "compiler", state: Err("NVRTC was not found.".into()), costs },
            ],
            devices: Vec::new(),
        };
        insta::assert_snapshot!("nothing_is_here", text(&machine));
    }
}
