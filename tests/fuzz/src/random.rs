//! Random choices, reproducible by a seed on every machine.

/// A generator: splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Another sequence for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// A number from `lo` to `hi`, both included.
    pub fn within(&mut self, lo: i64, hi: i64) -> i64 {
        lo + self.below((hi - lo + 1) as usize) as i64
    }

    /// True with this probability in percent.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent as usize
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// One of these, with the probability of its weight.
    pub fn weighted<T: Clone>(&mut self, all: &[(u32, T)]) -> T {
        let total: u32 = all.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total as usize) as u32;
        for (weight, item) in all {
            if at < *weight {
                return item.clone();
            }
            at -= weight;
        }
        all[0].1.clone()
    }

    /// A random permutation of these.
    pub fn shuffled<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let mut left = all.to_vec();
        let mut order = Vec::new();
        while !left.is_empty() {
            order.push(left.swap_remove(self.below(left.len())));
        }
        order
    }
}
