//! L2 cache hints of copies.

/// A hint: the suffix of the instruction's text and of its name.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Hint {
    None,
    /// L2::evict_first.
    EvictFirst,
    /// L2::evict_last.
    EvictLast,
    /// L2 prefetch of this number of bytes around it.
    Prefetch(u32),
}

/// The prefetch sizes of copies by threads.
pub(super) const PREFETCHES: [Hint; 3] = [Hint::Prefetch(64), Hint::Prefetch(128), Hint::Prefetch(256)];

impl Hint {
    /// Eviction policies.
    pub(super) const POLICIES: [Hint; 2] = [Hint::EvictFirst, Hint::EvictLast];

    fn policy(self) -> Option<&'static str> {
        match self {
            Hint::EvictFirst => Some("evict_first"),
            Hint::EvictLast => Some("evict_last"),
            Hint::None | Hint::Prefetch(_) => None,
        }
    }

    pub(super) fn suffix(self) -> String {
        match (self, self.policy()) {
            (_, Some(policy)) => format!("_{policy}"),
            (Hint::Prefetch(bytes), _) => format!("_prefetch_{bytes}"),
            _ => String::new(),
        }
    }

    /// The instruction with its operands; a policy is created before it, and is its last operand.
    pub(super) fn around(self, instruction: &str, operands: &str) -> String {
        match (self, self.policy()) {
            (_, Some(policy)) => format!(
                "{{ .reg .b64 policy; createpolicy.fractional.L2::{policy}.b64 policy, 1.0; \
                 {instruction}.L2::cache_hint{operands}, policy; }}"
            ),
            (Hint::Prefetch(bytes), _) => format!("{instruction}.L2::{bytes}B{operands};"),
            _ => format!("{instruction}{operands};"),
        }
    }
}
