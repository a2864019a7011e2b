//! The outcome of a run: results, cost, the variant that ran.

use std::fmt;

use tilewright_program::Elem;
use tilewright_program::element::Element;
use tilewright_program::launch::Refusal;

use crate::count::{Class, Counts};
use crate::error::Error;

/// An instruction of a kernel that accesses memory, and its counters over the whole grid.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessCount {
    /// `load`, `store`, `atomic`; `copy` for cp.async, `matrix` for ldmatrix and stmatrix, `bulk` for the
    /// copy engine, `product` for matrices that tensor cores read from shared memory.
    pub what: &'static str,
    /// The tensor or array.
    pub tensor: String,
    /// `global` or `shared`.
    pub memory: &'static str,
    /// Bytes that a thread moves at once; 0 for the copy engine and tensor cores.
    pub width: u32,
    /// The line of the kernel's file, if it is known.
    pub line: Option<String>,
    /// Instructions that warps executed, with at least one lane.
    pub executed: u64,
    /// Bytes that lanes moved.
    pub bytes: u64,
    /// Shared memory: wavefronts, and the fewest possible for these widths.
    pub wavefronts: u64,
    /// See `wavefronts`.
    pub least_wavefronts: u64,
    /// Global memory: 32-byte sectors, and the fewest possible for these bytes.
    pub sectors: u64,
    /// See `sectors`.
    pub least_sectors: u64,
    /// Global memory: 128-byte lines.
    pub lines: u64,
}

impl AccessCount {
    /// Wavefronts lost to bank conflicts.
    pub fn bank_conflicts(&self) -> u64 {
        self.wavefronts - self.least_wavefronts
    }
}

/// An argument that was copied to aligned rows before the kernel ran, which read the copy.
#[derive(Clone, Debug, PartialEq)]
pub struct Copied {
    /// The argument.
    pub argument: String,
    /// The condition that the argument itself does not meet.
    pub why: String,
    /// The run of the copying kernel.
    pub outcome: Outcome,
}

/// A tensor that a run read, but not all of its elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Unread {
    /// The argument.
    pub argument: String,
    /// How many of its elements were never read.
    pub elements: usize,
    /// The coordinates of the first of them.
    pub first: Vec<i64>,
}

/// The outcome of a run. `Display` prints its cost as a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub(crate) kernel: String,
    pub(crate) variant: usize,
    pub(crate) passed_over: Vec<String>,
    pub(crate) copies: Vec<Copied>,
    pub(crate) grid: [u32; 3],
    pub(crate) seed: u64,
    pub(crate) results: Vec<(String, Elem, Vec<u8>)>,
    pub(crate) accesses: Vec<AccessCount>,
    pub(crate) unread: Vec<Unread>,
    pub(crate) printed: Vec<String>,
    pub(crate) counts: Counts,
}

impl Outcome {
    /// A tensor that the kernel wrote, in memory order: for [`Arg::in_out`](crate::Arg::in_out) the
    /// whole slice.
    pub fn get<T: Element>(&self, name: &str) -> Result<Vec<T>, Error> {
        let Some((_, elem, bytes)) = self.results.iter().find(|result| result.0 == name) else {
            let names: Vec<String> = self.results.iter().map(|result| format!("`{}`", result.0)).collect();
            let message = format!("the kernel writes no tensor `{name}`; it writes {}", names.join(", "));
            return Err(Refusal::new(message).into());
        };
        if *elem != T::ELEM {
            let message = format!("its elements are {elem}, and {} are requested", T::ELEM);
            return Err(Refusal::of(name, message).help(format!("write `get::<{elem}>(\"{name}\")`")).into());
        }
        let size = elem.bytes() as usize;
        Ok((0..bytes.len() / size).map(|at| T::from_raw(crate::global::raw(bytes, at, *elem))).collect())
    }

    /// The names of all tensors that the kernel wrote, with their element types.
    pub fn names(&self) -> impl Iterator<Item = (&str, Elem)> {
        self.results.iter().map(|(name, elem, _)| (&**name, *elem))
    }

    /// The bytes of a result.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.results.iter().find(|result| result.0 == name).map(|result| &*result.2)
    }

    /// The index of the variant that ran, from 0.
    pub fn variant(&self) -> usize {
        self.variant
    }

    /// Why faster variants do not apply, one line for each.
    pub fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Arguments that were copied first, in this order.
    pub fn copies(&self) -> &[Copied] {
        &self.copies
    }

    /// Blocks along x, y, z.
    pub fn grid(&self) -> [u32; 3] {
        self.grid
    }

    /// The seed of the first schedule.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Counters of every instruction that accesses memory, in the order of the program.
    pub fn accesses(&self) -> &[AccessCount] {
        &self.accesses
    }

    /// The tensors that the kernel reads, but not all of their elements. A test of a kernel that is to read
    /// everything asserts that there are none.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, generate, view::At};
    /// # use tilewright_layout::{Tuple, Value, layout};
    /// use tilewright_sim::{Arg, Options, run};
    /// # let mut b = Builder::new("first");
    /// # let n = Tuple::from(Value::symbol("N"));
    /// # let x = b.tensor("x", Elem::F32, n, None, false).unwrap();
    /// # let y = b.tensor("y", Elem::F32, 4i64, None, true).unwrap();
    /// # let x = b.tile(&x, 4i64, &[At::Index(0.into())]).unwrap();
    /// # let (x, y) = (b.parallelize(&x, &layout!(4)).unwrap(), b.parallelize(&y, &layout!(4)).unwrap());
    /// # b.copy(&x, &y).unwrap();
    /// # let kernel = generate(b.finish()).kernel.unwrap();
    /// // A kernel that copies four elements.
    /// let args = [Arg::tensor(&[1.0f32; 6], [6]), Arg::output::<f32>([4])];
    /// let done = run(&kernel, &args, &Options::default())?;
    /// assert_eq!((done.unread()[0].elements, &done.unread()[0].first[..]), (2, &[4][..]));
    /// # Ok::<(), tilewright_sim::Error>(())
    /// ```
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// What `print` has shown, in the order of the program. It is on standard output, too.
    pub fn printed(&self) -> &[String] {
        &self.printed
    }

    /// Operations of the thread program by kind, counted for each thread that performed them.
    pub fn operations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Class::NAMES.into_iter().zip(self.counts.operations).filter(|(_, count)| *count > 0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.grid;
        writeln!(f, "kernel         {}, variant {}", self.kernel, self.variant + 1)?;
        for (position, why) in self.passed_over.iter().enumerate() {
            writeln!(
                f,
                "{:<15}variant {}: {why}",
                if position == 0 { "not applicable" } else { "" },
                position + 1
            )?;
        }
        for (position, Copied { argument, why, outcome }) in self.copies.iter().enumerate() {
            let label = if position == 0 { "packed first" } else { "" };
            let [x, y, z] = outcome.grid;
            writeln!(f, "{label:<15}{argument}, by {x} x {y} x {z} blocks: {why}")?;
        }
        writeln!(f, "blocks         {x} x {y} x {z}")?;
        for (position, Unread { argument, elements, first }) in self.unread.iter().enumerate() {
            let label = if position == 0 { "never read" } else { "" };
            let first: Vec<String> = first.iter().map(i64::to_string).collect();
            let s = if *elements == 1 { "" } else { "s" };
            writeln!(
                f,
                "{label:<15}{elements} element{s} of {argument}, the first at ({})",
                first.join(", ")
            )?;
        }
        for (position, (name, count)) in self.operations().enumerate() {
            writeln!(f, "{:<15}{count} {name}", if position == 0 { "operations" } else { "" })?;
        }
        if self.accesses.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let head =
            ["access", "tensor", "memory", "bytes", "executed", "wavefronts", "least", "sectors", "least"];
        let mut rows = vec![head.map(String::from).to_vec()];
        for access in &self.accesses {
            let number = |shown: bool, n: u64| if shown { n.to_string() } else { String::new() };
            let (shared, wide) = (access.memory == "shared", access.width > 0);
            rows.push(vec![
                access.what.into(),
                access.tensor.clone(),
                access.memory.into(),
                if wide { access.width.to_string() } else { String::new() },
                access.executed.to_string(),
                number(shared && wide, access.wavefronts),
                number(shared && wide, access.least_wavefronts),
                number(!shared && wide, access.sectors),
                number(!shared && wide, access.least_sectors),
            ]);
        }
        let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(wide).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += &if column < 3 { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
