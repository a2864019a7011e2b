//! Commit groups of cp.async, as a state of analyses.

/// The copies of a thread up to a point of the program, over all paths to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyGroups {
    /// On some path a copy was issued.
    pub issued: bool,
    /// On some path the last copies have not been committed.
    pub open: bool,
    /// On some path all copies have been committed.
    pub closed: bool,
}

impl CopyGroups {
    /// The kernel's entry.
    pub const ENTRY: CopyGroups = CopyGroups { issued: false, open: false, closed: true };

    /// A copy is issued.
    pub fn issue(&mut self) {
        *self = CopyGroups { issued: true, open: true, closed: false };
    }

    /// All copies are committed.
    pub fn commit(&mut self) {
        (self.open, self.closed) = (false, true);
    }

    /// The state where two paths meet.
    pub fn join(self, other: &CopyGroups) -> CopyGroups {
        CopyGroups {
            issued: self.issued || other.issued,
            open: self.open || other.open,
            closed: self.closed || other.closed,
        }
    }
}
