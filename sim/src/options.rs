//! How a kernel is run: its schedules, the checks, the number of host threads.

use std::fmt;
use std::sync::Arc;

use tilewright_program::kernel_def::Locations;
use tilewright_program::launch::Limits;

use crate::event::OnEvent;

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Clusters of blocks that have completed, in all schedules.
    pub done: u64,
    /// All clusters, in all schedules.
    pub total: u64,
}

/// A callback that receives the progress.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// How a kernel is run.
///
/// ```
/// use tilewright_sim::Options;
/// let thorough = Options { schedules: 20, ..Options::default() };
/// assert!(thorough.races);
/// ```
#[derive(Clone)]
pub struct Options {
    /// Determines the order of warps, and when asynchronous operations complete. A fault reports the seed of
    /// its run.
    pub seed: u64,
    /// How many schedules to run: with this seed, the next, and so on. Their results must agree.
    pub schedules: u32,
    /// Detect races. Without race detection a run takes less time and reports fewer faults.
    pub races: bool,
    /// Every element of a pure output must be written.
    pub complete: bool,
    /// No element of a pure output may be written twice.
    pub written_once: bool,
    /// Compute in integers modulo a power of two instead of floating-point numbers, without rounding. Every variant
    /// of a kernel then has the same results, to the bit; see the [crate's documentation](crate#exact-comparison-of-variants).
    pub exact: bool,
    /// Report gathers and scatters out of bounds, which the language defines: loads are 0, and stores are dropped. An index of -1
    /// selects no element on purpose, and is not reported.
    pub strict: bool,
    /// Count wavefronts, sectors and operations.
    pub count: bool,
    /// The number of host threads; 0 for all hardware threads.
    pub threads: usize,
    /// The simulated device.
    pub limits: Limits,
    /// Called with the progress after every cluster of blocks.
    pub progress: Option<OnProgress>,
    /// Called with the events of the kernel's first cluster of blocks, in the first schedule; see [`Event`](crate::Event).
    pub events: Option<OnEvent>,
    /// The lines of the kernel's file, which faults name; `simulate` fills them in.
    pub locations: Option<Locations>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seed: 0,
            schedules: 1,
            races: true,
            complete: true,
            written_once: true,
            exact: false,
            strict: false,
            count: true,
            threads: 0,
            limits: Limits::HOPPER,
            progress: None,
            events: None,
            locations: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("seed", &self.seed)
            .field("schedules", &self.schedules)
            .field("races", &self.races)
            .field("complete", &self.complete)
            .field("written_once", &self.written_once)
            .field("exact", &self.exact)
            .field("strict", &self.strict)
            .field("count", &self.count)
            .field("threads", &self.threads)
            .field("limits", &self.limits)
            .field("progress", &self.progress.as_ref().map(|_| "…"))
            .field("events", &self.events.as_ref().map(|_| "…"))
            .finish()
    }
}
