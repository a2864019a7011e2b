//! Parses the messages of ptxas.

/// Resource usage of a kernel, per thread unless noted otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// The kernel.
    pub kernel: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory for arrays and calls.
    pub stack: u32,
    /// Bytes of spill stores.
    pub spill_stores: u32,
    /// Bytes of spill loads.
    pub spill_loads: u32,
    /// Static shared memory of a block, in bytes.
    pub shared: u32,
    /// Named barriers of a block.
    pub barriers: u32,
}

impl Usage {
    /// Does it use neither spills nor a stack?
    pub fn is_clean(&self) -> bool {
        (self.stack, self.spill_stores, self.spill_loads) == (0, 0, 0)
    }
}

/// The kernels of a log, in its order.
pub(super) fn usage(log: &str) -> Vec<Usage> {
    let mut all: Vec<Usage> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_string();
            all.push(Usage { kernel, ..Usage::default() });
        }
        let Some(usage) = all.last_mut() else { continue };
        let set = |field: &mut u32, what: &str| {
            if let Some(n) = number_before(line, what) {
                *field = n;
            }
        };
        set(&mut usage.stack, "bytes stack frame");
        set(&mut usage.spill_stores, "bytes spill stores");
        set(&mut usage.spill_loads, "bytes spill loads");
        set(&mut usage.registers, "registers");
        set(&mut usage.barriers, "barriers");
        set(&mut usage.shared, "bytes smem");
    }
    all
}

/// The number before a phrase: `Used 40 registers`.
fn number_before(line: &str, what: &str) -> Option<u32> {
    line.match_indices(what).find_map(|(at, _)| line[..at].trim_end().rsplit(' ').next()?.parse().ok())
}

/// Lines that report neither usage nor time: warnings, and performance notes.
pub(super) fn notes(log: &str) -> Vec<String> {
    let usual = |line: &str| {
        [
            "ptxas info    : Compiling",
            "ptxas info    : Function properties",
            "ptxas info    : Used",
            "ptxas         .",
        ]
        .iter()
        .any(|start| line.starts_with(start))
            || (line.starts_with("ptxas info    :") && (line.ends_with(" gmem") || line.contains(" cmem[")))
            || line.starts_with("ptxas info    : Compile time")
            || line.starts_with("Remark: The warnings can be suppressed")
            || line.trim().is_empty()
    };
    // The compiler quotes the source below a warning, indented.
    let quoted = |line: &str| line.starts_with(' ');
    log.lines().filter(|line| !usual(line) && !quoted(line)).map(|line| line.trim_end().to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
k.cu(1): warning #177-D: variable \"unused\" was declared but never referenced
  int unused = 3;
      ^

Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"

ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
ptxas info    : 24 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'f' for 'sm_80'
ptxas info    : Function properties for f
ptxas         .     256 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 30 registers, used 1 barriers, 256 bytes cumulative stack size, 400 bytes smem, 372 bytes cmem[0]
ptxas info    : Compile time = 70.251 ms
ptxas info    : Compiling entry function 'g' for 'sm_80'
ptxas info    : Function properties for g
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
";

    #[test]
    fn usage_is_read() {
        let usage = usage(LOG);
        let f = Usage {
            kernel: "f".into(),
            registers: 30,
            stack: 256,
            spill_stores: 16,
            spill_loads: 24,
            shared: 400,
            barriers: 1,
        };
        let g = Usage { kernel: "g".into(), registers: 8, ..Usage::default() };
        assert_eq!(usage, [f, g]);
        assert!(!usage[0].is_clean() && usage[1].is_clean());
    }

    #[test]
    fn warnings_are_kept() {
        let notes = notes(LOG);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("#177-D") && notes[1].contains("C7510"), "{notes:?}");
    }
}
