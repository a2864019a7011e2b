//! Blocks of LZ4, in which exported binaries are stored: `launch.c` unpacks them.

use std::collections::HashMap;

/// A match is at least this long, ends this many bytes before the end, and begins that many before it: rules of the format.
const LEAST: usize = 4;
const LAST: usize = 5;
const BEGIN: usize = 12;
/// A distance has 16 bits.
const FARTHEST: usize = 65_535;

/// Packs bytes into one block.
pub(super) fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut block = Vec::with_capacity(bytes.len() / 2 + 16);
    let mut known: HashMap<[u8; LEAST], usize> = HashMap::new();
    let four = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let (mut at, mut written) = (0, 0);
    while at + BEGIN <= bytes.len() {
        let before = known.insert(four(at), at);
        let Some(before) = before.filter(|before| at - before <= FARTHEST) else {
            at += 1;
            continue;
        };
        let end = bytes.len() - LAST;
        let same = (LEAST..).take_while(|more| at + more < end && bytes[at + more] == bytes[before + more]);
        let length = LEAST + same.count();
        sequence(&mut block, &bytes[written..at], Some((at - before, length)));
        for inside in at + 1..(at + length).min(end) {
            known.insert(four(inside), inside);
        }
        at += length;
        written = at;
    }
    sequence(&mut block, &bytes[written..], None);
    block
}

/// Literals, and a match: its distance and its length.
fn sequence(block: &mut Vec<u8>, literals: &[u8], matched: Option<(usize, usize)>) {
    let long = matched.map_or(0, |(_, length)| length - LEAST);
    block.push(((literals.len().min(15) << 4) | long.min(15)) as u8);
    rest(block, literals.len());
    block.extend_from_slice(literals);
    if let Some((distance, _)) = matched {
        block.extend_from_slice(&(distance as u16).to_le_bytes());
        rest(block, long);
    }
}

/// The part of a length that is not in the token.
fn rest(block: &mut Vec<u8>, length: usize) {
    if let Some(mut left) = length.checked_sub(15) {
        while left >= 255 {
            block.push(255);
            left -= 255;
        }
        block.push(left as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the format says.
    fn unpacked(block: &[u8]) -> Vec<u8> {
        let (mut bytes, mut at) = (Vec::new(), 0);
        while at < block.len() {
            let token = usize::from(block[at]);
            at += 1;
            let length = |short: usize, at: &mut usize| {
                let more = if short == 15 { &block[*at..] } else { &[] };
                let full = more.iter().take_while(|byte| **byte == 255).count();
                *at += if short == 15 { full + 1 } else { 0 };
                short + 255 * full + more.get(full).map_or(0, |last| usize::from(*last))
            };
            let literals = length(token >> 4, &mut at);
            bytes.extend_from_slice(&block[at..at + literals]);
            at += literals;
            if at == block.len() {
                break;
            }
            let distance = usize::from(block[at]) | usize::from(block[at + 1]) << 8;
            at += 2;
            for _ in 0..length(token & 15, &mut at) + LEAST {
                bytes.push(bytes[bytes.len() - distance]);
            }
        }
        bytes
    }

    #[track_caller]
    fn check(bytes: &[u8], most: usize) {
        let block = packed(bytes);
        assert_eq!(unpacked(&block), bytes);
        assert!(block.len() <= most, "{} bytes", block.len());
    }

    #[test]
    fn blocks_are_unpacked_to_what_they_were() {
        check(b"", 1);
        check(b"a", 2);
        check(b"abcdabcdabcd", 13);
        check(b"abcdabcdabcdabcdabcd", 14);
        check(&[0; 100_000], 410);
        let text = include_bytes!("launch.c");
        check(text, text.len() / 2);
        // Bytes without repetitions, of lengths around the limits of tokens.
        let mut state = 1u32;
        let random: Vec<u8> = (0..70_000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        for length in [14, 15, 16, 269, 270, 271, 525, 70_000] {
            check(&random[..length], length + length / 255 + 3);
        }
        // The repeated bytes are farther away than the largest distance.
        check(&[&random[..], &random[..100]].concat(), 70_400);
    }
}
