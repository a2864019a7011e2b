//! SHA-256 as FIPS 180-4 defines it: the one hash of the cache. A crate for it would bring six others, which every
//! program that depends on tilewright would compile.

/// How many bytes are hashed at once.
const BLOCK: usize = 64;
const PRIMES: [u128; 64] = primes();
/// The first 32 bits of the fractional parts of the square roots of the first primes.
const INITIAL: [u32; 8] = roots(2);
/// The same of the cube roots.
const ROUNDS: [u32; 64] = roots(3);

const fn primes() -> [u128; 64] {
    let mut primes = [2; 64];
    let (mut count, mut n) = (1, 3);
    while count < 64 {
        let mut at = 0;
        while at < count && n % primes[at] != 0 {
            at += 1;
        }
        if at == count {
            primes[count] = n;
            count += 1;
        }
        n += 2;
    }
    primes
}

const fn roots<const N: usize>(degree: u32) -> [u32; N] {
    let mut words = [0; N];
    let mut at = 0;
    while at < N {
        // The root of `prime · 2^(32·degree)`, bit by bit, is 2^32 times the root of the prime, which is below 32.
        let (scaled, mut root, mut bit) = (PRIMES[at] << (32 * degree), 0u128, 1u128 << 36);
        while bit > 0 {
            if (root | bit).pow(degree) <= scaled {
                root |= bit;
            }
            bit >>= 1;
        }
        words[at] = root as u32;
        at += 1;
    }
    words
}

/// A hash of the bytes so far.
pub(crate) struct Sha256 {
    state: [u32; 8],
    /// The bytes that do not fill a block yet.
    rest: Vec<u8>,
    length: u64,
}

impl Sha256 {
    pub(super) fn new() -> Sha256 {
        Sha256 { state: INITIAL, rest: Vec::with_capacity(2 * BLOCK), length: 0 }
    }

    /// The hash of these bytes, as text.
    pub(crate) fn of(bytes: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(bytes);
        hash.finish()
    }

    /// Appends bytes.
    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        if !self.rest.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min(BLOCK - self.rest.len()));
            self.rest.extend_from_slice(head);
            if self.rest.len() < BLOCK {
                return;
            }
            let full = std::mem::take(&mut self.rest);
            self.block(&full);
            bytes = tail;
        }
        let mut blocks = bytes.chunks_exact(BLOCK);
        for block in &mut blocks {
            self.block(block);
        }
        self.rest.extend_from_slice(blocks.remainder());
    }

    /// 64 hexadecimal digits.
    pub(super) fn finish(mut self) -> String {
        let bits = self.length * 8;
        self.update(&[0x80]);
        let zeros = (2 * BLOCK - 8 - self.rest.len()) % BLOCK;
        self.update(&[0; BLOCK][..zeros]);
        self.update(&bits.to_be_bytes());
        self.state.iter().map(|word| format!("{word:08x}")).collect()
    }

    fn block(&mut self, block: &[u8]) {
        let mut words = [0u32; 64];
        for (at, bytes) in block.chunks_exact(4).enumerate() {
            words[at] = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for at in 16..64 {
            let (a, b) = (words[at - 15], words[at - 2]);
            let a = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let b = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            words[at] = words[at - 16].wrapping_add(a).wrapping_add(words[at - 7]).wrapping_add(b);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = self.state;
        let mut at = 0;
        while at < 64 {
            let mixed = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let chosen = (e & f) ^ (!e & g);
            let one = h.wrapping_add(mixed).wrapping_add(chosen).wrapping_add(ROUNDS[at]);
            let one = one.wrapping_add(words[at]);
            let mixed = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let two = mixed.wrapping_add((a & b) ^ (a & c) ^ (b & c));
            (h, g, f, e) = (g, f, e, d.wrapping_add(one));
            (d, c, b, a) = (c, b, a, one.wrapping_add(two));
            at += 1;
        }
        let next = [a, b, c, d, e, f, g, h];
        for (word, next) in self.state.iter_mut().zip(next) {
            *word = word.wrapping_add(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Sha256::of(text.as_bytes()), expected);
        for part in [1, 3, 63, 64, 65] {
            let mut hash = Sha256::new();
            text.as_bytes().chunks(part).for_each(|bytes| hash.update(bytes));
            assert_eq!(hash.finish(), expected, "in parts of {part}");
        }
    }

    /// The examples of FIPS 180-4; the others are what coreutils' `sha256sum` prints.
    #[test]
    fn known_hashes() {
        check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        );
        check(&"a".repeat(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
        check(&"x".repeat(55), "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
        check(&"x".repeat(56), "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
        check(&"x".repeat(63), "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
        check(&"x".repeat(64), "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
        check(&"x".repeat(119), "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c");
        check(&"x".repeat(120), "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98");
    }
}
