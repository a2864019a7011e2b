//! What is known about a kernel without running it.

use std::fmt;

/// Facts about a generated kernel, for people: `Display` prints a table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// One line for each access site.
    pub accesses: Vec<Access>,
    /// Arithmetic operations for each byte read from or written to global memory, in the main loop.
    pub intensity: Option<f64>,
    /// Facts that launch checks, for the fastest variant.
    pub needs: Vec<String>,
    /// What the checks left undecided.
    pub undecided: Vec<String>,
}

/// One place where a kernel touches memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Access {
    /// `load`, `store`, `copy`, …
    pub what: &'static str,
    /// The tensor.
    pub tensor: String,
    /// `global` or `shared`.
    pub space: &'static str,
    /// Bytes that one thread moves at once.
    pub width: u32,
    /// Shared memory: wavefronts of one warp's access, and the fewest that this width needs.
    pub wavefronts: Option<(u32, u32)>,
    /// Global memory: 32-byte sectors of one warp's access, and the fewest possible.
    pub sectors: Option<(u32, u32)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "threads        {}", self.threads)?;
        writeln!(f, "shared memory  {} bytes", self.shared_bytes)?;
        if let Some(intensity) = self.intensity {
            writeln!(f, "intensity      {intensity:.1} operations per byte of global memory")?;
        }
        for need in &self.needs {
            writeln!(f, "needs          {need}")?;
        }
        for a in &self.accesses {
            write!(f, "{:<6} {:<8} {:<7} {:>2} bytes", a.what, a.tensor, a.space, a.width)?;
            if let Some((n, least)) = a.wavefronts {
                write!(f, "  {n} {} (least {least})", if n == 1 { "wavefront" } else { "wavefronts" })?;
            }
            if let Some((n, least)) = a.sectors {
                write!(f, "  {n} {} (least {least})", if n == 1 { "sector" } else { "sectors" })?;
            }
            writeln!(f)?;
        }
        for line in &self.undecided {
            writeln!(f, "undecided      {line}")?;
        }
        Ok(())
    }
}
