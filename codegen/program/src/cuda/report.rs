//! The static report of a kernel.

use std::fmt;

/// Facts about a generated kernel, for people: `Display` prints a table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Their uses: a name, and the number of bytes.
    pub shared: Vec<(String, u32)>,
    /// One line for each kind of access.
    pub accesses: Vec<Access>,
    /// The alternatives of constants, among which a launch chooses.
    pub alternatives: Vec<String>,
    /// The alternatives that cannot be made, and why not.
    pub left_out: Vec<(String, String)>,
    /// A product's instruction, and why it is not the fastest that the architecture has for its types.
    pub instruction: Option<String>,
    /// Arithmetic operations for each byte that threads read from or write to global memory, in the main loop.
    pub intensity: Option<f64>,
    /// Facts that the fastest variant assumes and launch checks.
    pub needs: Vec<String>,
    /// Arguments that a launch copies to aligned rows first, if the needs are false for them and the copy saves
    /// time.
    pub packs: Vec<String>,
    /// The questions that the checks left undecided.
    pub undecided: Vec<String>,
    /// Results of the compiler, once it has been run.
    pub compiled: Vec<Compiled>,
}

/// Resources of one thread on one architecture, from the compiler.
#[derive(Clone, PartialEq, Debug)]
pub struct Compiled {
    /// The architecture.
    pub arch: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes spilled to local memory.
    pub spilled: u32,
    /// The loop with the most multiply-adds, in machine code.
    pub inner: Option<Loop>,
}

/// A loop of machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// How many instructions.
    pub instructions: u32,
    /// How many of them multiply and add.
    pub multiply_adds: u32,
}

/// One statement that accesses memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Access {
    /// `load`, `store`; `copy` for asynchronous copies, `matrix` for ldmatrix and stmatrix.
    pub what: String,
    /// The tensor.
    pub tensor: String,
    /// `global` or `shared`.
    pub space: String,
    /// Bytes that one thread moves at once.
    pub width: u32,
    /// Shared memory: wavefronts of one warp's access, and the fewest that this width needs.
    pub wavefronts: Option<(u32, u32)>,
    /// Global memory: 32-byte sectors of one warp's access, and the fewest possible.
    pub sectors: Option<(u32, u32)>,
    /// Why it costs more than the minimum.
    pub note: String,
}

impl Access {
    fn cost(&self) -> (String, String) {
        let text = |(n, least): (u32, u32), unit: &str| {
            (format!("{n} {unit}{}", if n == 1 { "" } else { "s" }), least.to_string())
        };
        match (self.wavefronts, self.sectors) {
            (Some(cost), _) => text(cost, "wavefront"),
            (_, Some(cost)) => text(cost, "sector"),
            _ => Default::default(),
        }
    }
}

impl Report {
    /// The report as lines of a comment.
    pub fn comment(&self) -> String {
        let lines = self.to_string();
        lines.lines().map(|line| crate::cuda::comment(line) + "\n").collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "threads        {}", self.threads)?;
        write!(f, "shared memory  {} bytes", self.shared_bytes)?;
        let parts: Vec<String> = self.shared.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect();
        writeln!(f, "{}{}", if parts.is_empty() { "" } else { ": " }, parts.join(", "))?;
        for (index, one) in self.alternatives.iter().enumerate() {
            writeln!(f, "{:<15}{one}", if index == 0 { "alternatives" } else { "" })?;
        }
        for (index, (one, why)) in self.left_out.iter().enumerate() {
            writeln!(
                f,
                "{:<15}{one}: {}",
                if index == 0 { "left out" } else { "" },
                why.lines().next().unwrap_or_default()
            )?;
        }
        if let Some(instruction) = &self.instruction {
            writeln!(f, "instruction    {instruction}")?;
        }
        if let Some(intensity) = self.intensity {
            writeln!(f, "intensity      {intensity:.1} operations per byte of global memory")?;
        }
        for (label, lines) in [("needs", &self.needs), ("undecided", &self.undecided)] {
            for (index, line) in lines.iter().enumerate() {
                writeln!(f, "{:<15}{line}", if index == 0 { label } else { "" })?;
            }
        }
        if !self.packs.is_empty() {
            let names = self.packs.join(", ");
            writeln!(
                f,
                "packs          {names}: copied to aligned rows first, if they do not meet these needs and the copy saves time"
            )?;
        }
        for Compiled { arch, registers, spilled, inner } in &self.compiled {
            let spills =
                if *spilled == 0 { "nothing spilled".into() } else { format!("{spilled} bytes spilled") };
            writeln!(f, "{arch:<15}{registers} registers, {spills}")?;
            if let Some(Loop { instructions, multiply_adds }) = inner {
                let share = f64::from(*multiply_adds) * 100.0 / f64::from(*instructions);
                writeln!(
                    f,
                    "{:<15}{multiply_adds} of the {instructions} instructions of its inner loop multiply and add, {share:.1} %",
                    ""
                )?;
            }
        }
        if !self.accesses.is_empty() {
            writeln!(f)?;
            let row = |a: &Access| {
                let (cost, least) = a.cost();
                [
                    a.what.clone(),
                    a.tensor.clone(),
                    a.space.clone(),
                    a.width.to_string(),
                    cost,
                    least,
                    a.note.clone(),
                ]
            };
            let head = ["access", "tensor", "memory", "bytes", "a warp takes", "least", ""].map(String::from);
            table(f, &[head].into_iter().chain(self.accesses.iter().map(row)).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

/// Columns two spaces apart; numbers are right-aligned.
fn table(f: &mut fmt::Formatter<'_>, rows: &[[String; 7]]) -> fmt::Result {
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(wide).collect();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            match column {
                3..=5 => line += &format!("{cell:>width$}  "),
                _ => line += &format!("{cell:<width$}  "),
            }
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}
