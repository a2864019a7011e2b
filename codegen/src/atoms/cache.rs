//! What the second level of caches is told about what a copy brings.

/// How the copy's text goes on, and how its name ends.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Hint {
    None,
    /// It may go first.
    EvictFirst,
    /// It goes last.
    EvictLast,
    /// So many bytes around it are fetched along.
    Prefetch(u32),
}

/// What may be fetched along with what threads copy.
pub(super) const PREFETCHES: [Hint; 3] = [Hint::Prefetch(64), Hint::Prefetch(128), Hint::Prefetch(256)];

impl Hint {
    /// Those that say how long it is kept.
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

    /// The instruction with its operands; a policy is made in front of it, and is its last operand.
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
