//! Parses machine code: instructions are 16 bytes long from sm_70 on, and their lowest 12 bits are the
//! opcode. The encoding is undocumented; a test compares this with NVIDIA's disassembler.

use tilewright_program::report::Loop;

/// FFMA, DFMA and IMAD with three registers.
const MULTIPLY_ADDS: [u64; 3] = [0x223, 0x22b, 0x224];
const BRANCH: u64 = 0x947;
const EXIT: u64 = 0x94d;

/// The loop of a kernel with the most multiply-adds: its backward branch, and the instructions that the
/// branch spans. Branch encodings are known for sm_80 to sm_90; newer devices have others.
pub(crate) fn main_loop(cubin: &[u8], kernel: &str, arch: &str) -> Option<Loop> {
    let number_of = arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let target = match number_of.parse::<u32>().ok()? {
        80..=89 => target_80,
        90 => target_90,
        _ => return None,
    };
    let code: Vec<(u64, u64)> = section(cubin, &format!(".text.{kernel}"))?
        .chunks_exact(16)
        .map(|word| (number(word, 0, 8), number(word, 8, 8)))
        .collect();
    let operation = |at: usize| code[at].0 & 0xfff;
    let counted = |from: usize, to: usize| {
        let all = to + 1 - from;
        let multiply_adds = (from..=to).filter(|&at| MULTIPLY_ADDS.contains(&operation(at))).count();
        // Paths that leave the kernel are not part of the loop.
        let exits = (from..=to).any(|at| operation(at) == EXIT);
        (!exits).then_some(Loop { instructions: all as u32, multiply_adds: multiply_adds as u32 })
    };
    (0..code.len())
        .filter(|&at| operation(at) == BRANCH)
        .filter_map(|at| {
            let target = target(code[at], at)?;
            (target <= at).then(|| counted(target, at)).flatten()
        })
        .max_by_key(|one| (one.multiply_adds, u32::MAX - one.instructions))
        .filter(|one| one.multiply_adds > 0)
}

/// The target of a branch, as an instruction number: a 50-bit byte offset from the end of the branch.
fn target_80((low, high): (u64, u64), at: usize) -> Option<usize> {
    index(at, ((low >> 32 | high << 32) << 14) as i64 >> 14)
}

/// The same for a 56-bit offset in 4-byte words; eight of its bits are in another field.
fn target_90((low, high): (u64, u64), at: usize) -> Option<usize> {
    let upper = ((low >> 34 | high << 30) << 16) as i64 >> 16;
    index(at, ((upper << 8) | (low >> 16 & 0xff) as i64).checked_mul(4)?)
}

fn index(at: usize, bytes: i64) -> Option<usize> {
    let to = (at as i64 + 1).checked_mul(16)?.checked_add(bytes)?;
    (to >= 0 && to % 16 == 0).then_some((to / 16) as usize)
}

/// A section of an ELF file of 64 bits.
fn section<'c>(elf: &'c [u8], wanted: &str) -> Option<&'c [u8]> {
    let at = |offset: usize, bytes: usize| {
        elf.get(offset..offset.checked_add(bytes)?).map(|all| number(all, 0, bytes))
    };
    let (table, size) = (at(40, 8)? as usize, at(58, 2)? as usize);
    let (count, names) = (at(60, 2)? as usize, at(62, 2)? as usize);
    let header = |nth: usize| table.checked_add(nth.checked_mul(size)?);
    let index = |nth: usize| {
        let field = |offset: usize| at(header(nth)?.checked_add(offset)?, 8);
        Some((field(24)? as usize, field(32)? as usize))
    };
    let name = |nth: usize| {
        let start = index(names)?.0.checked_add(at(header(nth)?, 4)? as usize)?;
        elf.get(start..)?.split(|&byte| byte == 0).next()
    };
    let result = (0..count).find(|&nth| name(nth) == Some(wanted.as_bytes()))?;
    let (start, length) = index(result)?;
    elf.get(start..start.checked_add(length)?)
}

fn number(bytes: &[u8], from: usize, count: usize) -> u64 {
    bytes[from..from + count].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with the code of one kernel.
    fn elf(code: &[(u64, u64)]) -> Vec<u8> {
        let names = b"\0.names\0.text.k\0";
        let text: Vec<u8> =
            code.iter().flat_map(|(low, high)| [low.to_le_bytes(), high.to_le_bytes()]).flatten().collect();
        let (text_at, names_at) = (64, 64 + text.len());
        let table = names_at + names.len();
        let mut file = vec![0; 64];
        file[40..48].copy_from_slice(&(table as u64).to_le_bytes());
        file[58..60].copy_from_slice(&64u16.to_le_bytes());
        file[60..62].copy_from_slice(&2u16.to_le_bytes());
        file.extend(&text);
        file.extend(names);
        for (name, at, length) in [(1u32, names_at, names.len()), (8, text_at, text.len())] {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[24..32].copy_from_slice(&(at as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(length as u64).to_le_bytes());
            file.extend(header);
        }
        file
    }

    /// Offsets of sections and names are untrusted.
    #[test]
    fn locations_outside_all_files_are_none() {
        let whole = elf(&[(MULTIPLY_ADDS[0], 0), back(1)]);
        for (field, bytes) in [(40, 8), (58, 2)] {
            for far in [u64::MAX, u64::MAX - 24, 1 << 63] {
                let mut file = whole.clone();
                file[field..field + bytes].copy_from_slice(&far.to_le_bytes()[..bytes]);
                assert_eq!(main_loop(&file, "k", "sm_90"), None, "{far} at {field}");
            }
        }
    }

    /// A branch over this many instructions backwards.
    fn back(by: i64) -> (u64, u64) {
        let words = -(by + 1) * 4;
        let upper = (words >> 8) as u64 & ((1 << 48) - 1);
        (BRANCH | (words as u64 & 0xff) << 16 | upper << 34, upper >> 30)
    }

    #[test]
    fn loops_are_found_and_counted() {
        let (fma, other) = ((MULTIPLY_ADDS[0], 0), (0x984, 0));
        let code = [other, fma, back(1), other, fma, fma, other, fma, back(4), (EXIT, 0)];
        let result = main_loop(&elf(&code), "k", "sm_90a");
        assert_eq!(result, Some(Loop { instructions: 5, multiply_adds: 3 }));
        assert_eq!(main_loop(&elf(&code), "other", "sm_90"), None);
        assert_eq!(main_loop(&elf(&[fma, (EXIT, 0)]), "k", "sm_90"), None, "no loop");
        assert_eq!(main_loop(&elf(&[back(9)]), "k", "sm_90"), None, "before the kernel's begin");
        assert_eq!(main_loop(&elf(&code), "k", "sm_120a"), None, "branches that nobody knows");
        // 16 bytes for this branch, and 16 for the previous instruction.
        let older = (BRANCH | 0xffff_ffe0 << 32, 0x3_ffff);
        let result = main_loop(&elf(&[other, fma, older]), "k", "sm_86");
        assert_eq!(result, Some(Loop { instructions: 2, multiply_adds: 1 }));
    }

    #[test]
    fn files_cut_short_are_none() {
        let whole = elf(&[(MULTIPLY_ADDS[0], 0), back(1)]);
        assert!(main_loop(&whole, "k", "sm_90").is_some());
        // The last header is read up to 24 bytes before the end of the file.
        for length in 0..whole.len() - 24 {
            let cut = main_loop(&whole[..length], "k", "sm_90");
            assert!(cut.is_none(), "{length}: {cut:?}");
        }
    }
}
