//! Hardware resources of a block: spans of shared memory, barrier numbers, registers of roles; and the widths of integers.

use std::ops::Range;

use tilewright_program::target::{RESERVED_SHARED, TARGETS, Target};
use tilewright_program::thread::{Bar, Id, Kernel, Launch, Role};

use super::{Malformed, Result};

/// Size and alignment of an mbarrier.
const MBARRIER: u32 = 8;
/// Barriers of a block; the first is `__syncthreads()`.
const BARRIERS: u8 = 16;
/// Threads of a warp, and warps of a warpgroup, which changes its registers as a whole (setmaxnreg).
const WARP: u32 = 32;
const WARPGROUP: u32 = 4;
/// Registers that a thread can request, in steps.
const REGISTERS: std::ops::RangeInclusive<u32> = 24..=256;
const STEP: u32 = 8;

fn malformed<T>(site: Id, message: String, help: &str) -> Result<T> {
    Err(Malformed { site, message, help: help.into() })
}

/// An object in shared memory.
struct Part<'k> {
    name: &'k str,
    bytes: Range<u32>,
    mbarriers: bool,
}

impl Part<'_> {
    /// `the mbarriers `full``
    fn named(&self) -> String {
        format!("the {} `{}`", if self.mbarriers { "mbarriers" } else { "array" }, self.name)
    }
}

fn words(bytes: &Range<u32>) -> String {
    format!("bytes {} to {}", bytes.start, bytes.end - 1)
}

/// Widths of integers, shared memory and barriers.
pub(super) fn check(kernel: &Kernel) -> Result<()> {
    if let Err(wrong) = kernel.check_widths() {
        return malformed(wrong.site, wrong.to_string(), "declare it with 64 bits, or bound its value");
    }
    bounds(kernel)?;
    let arrays = kernel.shared.iter().map(|array| {
        let bytes = array.offset..array.offset + array.bytes();
        Part { name: &array.name, bytes, mbarriers: false }
    });
    let mut parts: Vec<Part<'_>> = Vec::new();
    for part in arrays {
        inside(kernel, &part)?;
        parts.push(part);
    }
    for bar in &kernel.bars {
        match bar {
            Bar::Block | Bar::Cluster | Bar::ClusterStart => {}
            Bar::Named { id, threads } => named(*id, *threads)?,
            Bar::Mbarriers { name, offset, slots, count, .. } => {
                let part = Part { name, bytes: *offset..*offset + MBARRIER * slots, mbarriers: true };
                mbarriers(kernel, &part, *count, &parts)?;
                parts.push(part);
            }
        }
    }
    Ok(())
}

/// Launch bounds: the blocks of a multiprocessor, for which compilers leave registers.
fn bounds(kernel: &Kernel) -> Result<()> {
    let Launch { threads, blocks_per_sm: blocks, shared_bytes, .. } = kernel.launch;
    let shared = shared_bytes.saturating_add(RESERVED_SHARED).saturating_mul(blocks);
    let has_room = |of: &&Target| {
        blocks <= of.blocks && blocks.saturating_mul(threads) <= of.threads && shared <= of.shared
    };
    // The source is the same for all of them.
    if blocks < 2 || TARGETS.iter().filter(|of| of.arch >= kernel.arch).any(|of| has_room(&of)) {
        return Ok(());
    }
    malformed(
        0,
        format!(
            "the launch bounds ask for {blocks} blocks of {threads} threads on a multiprocessor, and none has room for them"
        ),
        "lower `blocks_per_sm`, or use fewer threads or less shared memory",
    )
}

fn inside(kernel: &Kernel, part: &Part<'_>) -> Result<()> {
    let there = kernel.launch.shared_bytes;
    if part.bytes.end <= there {
        return Ok(());
    }
    let verb = if part.mbarriers { "take" } else { "takes" };
    let (named, bytes) = (part.named(), words(&part.bytes));
    malformed(
        0,
        format!("{named} {verb} {bytes} of shared memory, and a block has {there}"),
        "ask for more bytes of shared memory at launch",
    )
}

fn mbarriers(kernel: &Kernel, part: &Part<'_>, count: u32, before: &[Part<'_>]) -> Result<()> {
    let named = part.named();
    if count == 0 {
        return malformed(
            0,
            format!("a phase of {named} takes 0 arrivals, and 1 is the least"),
            "count the arrivals of a phase",
        );
    }
    if !part.bytes.start.is_multiple_of(MBARRIER) {
        return malformed(
            0,
            format!(
                "{named} begin at byte {} of shared memory, which is no multiple of {MBARRIER}",
                part.bytes.start
            ),
            "begin mbarriers at multiples of 8 bytes",
        );
    }
    inside(kernel, part)?;
    for other in before {
        let both = part.bytes.start.max(other.bytes.start)..part.bytes.end.min(other.bytes.end);
        if !both.is_empty() {
            return malformed(
                0,
                format!(
                    "{named} ({} of shared memory) and {} ({}) overlap in {}",
                    words(&part.bytes),
                    other.named(),
                    words(&other.bytes),
                    words(&both)
                ),
                "give each of them bytes of its own",
            );
        }
    }
    Ok(())
}

fn named(id: u8, threads: u32) -> Result<()> {
    if threads == 0 || !threads.is_multiple_of(WARP) {
        return malformed(
            0,
            format!("barrier {id} is for {threads} threads, and barriers count whole warps of {WARP}"),
            "count whole warps: a multiple of 32",
        );
    }
    let number = "number the barriers of groups from 1 to 15";
    match id {
        0 => malformed(
            0,
            "a barrier has the number 0, which is that of the block's own barrier".into(),
            number,
        ),
        BARRIERS.. => malformed(
            0,
            format!(
                "a barrier has the number {id}, and a block has {BARRIERS} barriers, from 0 to {}",
                BARRIERS - 1
            ),
            number,
        ),
        _ => Ok(()),
    }
}

/// Registers that roles request.
pub(super) fn roles(kernel: &Kernel, roles: &[Role], site: Id) -> Result<()> {
    let last = kernel.launch.threads.div_ceil(WARP);
    for Role { name, warps, registers, .. } in roles {
        let Some(registers) = *registers else { continue };
        if !REGISTERS.contains(&registers) || !registers.is_multiple_of(STEP) {
            let (least, most) = REGISTERS.into_inner();
            return malformed(
                site,
                format!(
                    "the role `{name}` asks for {registers} registers, and a thread can have {least} to {most} in steps of {STEP}"
                ),
                "ask for a multiple of 8 from 24 to 256, or leave it unset",
            );
        }
        let whole = |warp: u32| warp.is_multiple_of(WARPGROUP) || warp == last;
        if !whole(warps.0) || !whole(warps.1) {
            return malformed(
                site,
                format!(
                    "the role `{name}` asks for registers, and its warps {} to {} are no whole warpgroups",
                    warps.0,
                    warps.1 - 1
                ),
                "begin and end roles that request registers at multiples of four warps",
            );
        }
        if kernel.launch.blocks_per_sm == 0 {
            return malformed(
                site,
                format!(
                    "the role `{name}` asks for registers, and the kernel has no launch bound of blocks for each multiprocessor: without one the compiler ignores setmaxnreg"
                ),
                "launch at least one block for each multiprocessor: `blocks_per_sm` of 1",
            );
        }
    }
    Ok(())
}
