//! How a kernel is launched: threads, grid, cluster, and the launch's assumptions.

use tilewright_layout::Value;

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::tile::LaunchRule;
use crate::values::target::BLOCK_THREADS;

impl Builder {
    /// The number of threads of the block, unless thread layouts determine it.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("wide");
    /// b.threads(512)?;
    /// assert_eq!(b.finish().threads(), 512);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn threads(&mut self, threads: i64) -> Result<()> {
        if !(1..=i64::from(BLOCK_THREADS)).contains(&threads) {
            return Err(Problem::new(format!("a block cannot have {threads} threads"))
                .help(format!("a block has 1 to {BLOCK_THREADS} threads"))
                .arg(0));
        }
        let known = self.program.groups[0].threads;
        match &self.partitions[0] {
            Some(first) if i64::from(known) != threads => {
                let problem = format!("thread layouts disagree: {threads} threads here, but {first}");
                Err(Problem::new(problem).help(format!("write {known}, or leave it out")).arg(0))
            }
            _ => {
                self.program.groups[0].threads = threads as u32;
                self.partitions[0] = Some(format!("the block has {threads}"));
                Ok(())
            }
        }
    }

    /// Oldest compute capability that the kernel needs.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("hopper");
    /// b.arch(90).arch(80); // the most that anything needs
    /// assert_eq!(b.finish().arch, 90);
    /// ```
    pub fn arch(&mut self, arch: u32) -> &mut Builder {
        self.program.arch = self.program.arch.max(arch);
        self
    }

    /// The same, where an author names it: a kernel whose tiles exceed its shared memory has an error, instead of a newer one.
    pub fn named_arch(&mut self, arch: u32) {
        self.arch(arch);
        self.program.is_arch_named = true;
    }

    /// A launch is refused where this size is larger: for kernels that keep whole rows in registers.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// use tilewright_layout::Value;
    /// let mut b = Builder::new("rows");
    /// b.at_most(Value::symbol("N"), 8192);
    /// assert_eq!(b.finish().at_most, [(Value::symbol("N"), 8192)]);
    /// ```
    pub fn at_most(&mut self, size: Value, limit: i64) -> &mut Builder {
        self.program.at_most.push((size, limit));
        self
    }

    /// A launch with a smaller size is refused, so accesses that are in bounds for greater sizes are not checked. Sizes without
    /// a limit are at least 1; with the limit 0, the kernel serves tensors without elements.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// use tilewright_layout::Value;
    /// let mut b = Builder::new("rows");
    /// b.at_least(Value::symbol("N"), 4097);
    /// assert_eq!(b.finish().at_least, [(Value::symbol("N"), 4097)]);
    /// ```
    pub fn at_least(&mut self, size: Value, limit: i64) -> &mut Builder {
        let known = self.program.at_least.iter_mut().find(|(known, _)| *known == size);
        match known {
            Some((_, known)) => *known = limit.max(*known),
            None if limit == 0 || limit > 1 => self.program.at_least.push((size, limit)),
            None => {}
        }
        self
    }

    /// The shape of a cluster: blocks along x, y, z.
    ///
    /// ```
    /// use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("pairs");
    /// b.cluster([2, 1, 1]);
    /// assert_eq!(b.finish().cluster, [2, 1, 1]);
    /// ```
    pub fn cluster(&mut self, blocks: [u32; 3]) -> &mut Builder {
        self.program.cluster = blocks;
        self
    }

    /// A persistent kernel: as many blocks as fit the device at once. [`Builder::tiles`] is its tile
    /// scheduler.
    ///
    /// ```
    /// use tilewright_codegen::{build::Builder, tile::LaunchRule};
    /// let mut b = Builder::new("persistent");
    /// b.persistent();
    /// assert_eq!(b.finish().launch, LaunchRule::Persistent);
    /// ```
    pub fn persistent(&mut self) -> &mut Builder {
        self.program.launch = LaunchRule::Persistent;
        self
    }
}
