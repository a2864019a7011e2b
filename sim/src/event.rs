//! Events of a run, for a picture of it: what each warp waits for, which copies are in flight, and when barriers complete.
//!
//! They come in the order of the schedule. That is one possible order and no time: a warp runs until it waits, and a seed decides
//! which one is next. Ordinary loads, stores and arithmetic are no events.

use std::sync::Arc;

use crate::agent::{Agent, Work};
use crate::machine::{Cluster, Result, Stop};
use crate::sync::barrier_in_words;
use crate::warp::{Waiting, Warp};

/// A callback that receives events.
pub type OnEvent = Arc<dyn Fn(&Event) + Send + Sync>;

/// An event of the first cluster of blocks.
///
/// ```
/// # use tilewright_codegen::Generate;
/// # use tilewright_program::Definition;
/// use std::sync::{Arc, Mutex};
/// use tilewright_sim::{Arg, Event, Happening, Options, run};
/// let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
/// let ones = vec![1.0f32; 40 * 30];
/// let args = [Arg::tensor(&ones, [40, 30]), Arg::tensor(&ones, [40, 30]), Arg::output::<f32>([40, 40])];
/// let all: Arc<Mutex<Vec<Event>>> = Arc::default();
/// let seen = all.clone();
/// let events = Arc::new(move |event: &Event| seen.lock().unwrap().push(event.clone()));
/// run(&kernel, &args, &Options { events: Some(events), ..Options::default() })?;
/// let ends = all.lock().unwrap().iter().filter(|event| event.happening == Happening::Ends).count();
/// assert_eq!(ends, 8); // warps of a block
/// # Ok::<(), tilewright_sim::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The block.
    pub block: [u32; 3],
    /// The warp's number in its block; `None` for what completes by itself.
    pub warp: Option<u32>,
    /// What happens.
    pub happening: Happening,
    /// The line of the kernel's file, if it is known.
    pub line: Option<String>,
}

/// What happens.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// The warp runs, up to its next wait.
    Runs,
    /// The warp waits.
    Waits {
        /// The barrier or the slot of mbarriers, empty for other waits.
        at: String,
        /// What for, in words.
        what: String,
    },
    /// The warp ends.
    Ends,
    /// The warp is the last to arrive at this barrier of threads, and all that wait at it go on.
    Meets(String),
    /// The warp's threads arrive at a slot of mbarriers.
    Arrives {
        /// `full[2]`
        at: String,
        /// The bytes of copies that they expect in the phase.
        bytes: u32,
    },
    /// A phase of a slot is complete, counted from 0.
    Completes {
        /// `full[2]`
        at: String,
        /// The phase.
        phase: i64,
    },
    /// The warp puts a copy in flight.
    Begins {
        /// Its number.
        copy: u64,
        /// The tensor or array that it writes.
        to: String,
        /// Bytes; 0 if they are known when it lands.
        bytes: u64,
    },
    /// A copy has landed.
    Lands {
        /// Its number.
        copy: u64,
    },
    /// The last of the four warps of a warpgroup issues a matrix product, which is in flight from now on.
    Issues {
        /// Its number in its warpgroup.
        product: u64,
        /// The warpgroup's number in its block.
        warpgroup: u32,
    },
    /// A matrix product in flight is complete.
    Finishes {
        /// Its number in its warpgroup.
        product: u64,
        /// The warpgroup's number in its block.
        warpgroup: u32,
    },
}

impl Cluster<'_> {
    /// Tells an event of a warp, at a row of the program's sites.
    fn tell_of_warp(&self, warp: &Warp, site: u32, happening: Happening) {
        if let Some(events) = self.events {
            let (block, line) = (self.blocks[warp.block].at, self.ctx.line(site));
            events(&Event { block, warp: Some(warp.number), happening, line });
        }
    }

    /// Tells that a warp runs.
    pub(crate) fn tell_run(&self, warp: &Warp) {
        self.tell_of_warp(warp, self.ctx.code.sites[warp.pc], Happening::Runs);
    }

    /// Tells why a warp has stopped. At a barrier that it completes itself it does not wait.
    pub(crate) fn tell_stop(&self, warp: &Warp, stop: &Result<Stop>) {
        match stop {
            Ok(Stop::Ends) => self.tell_of_warp(warp, self.site(warp), Happening::Ends),
            Ok(Stop::Waits) if warp.waiting.is_some() && self.events.is_some() => {
                let at = match &warp.waiting {
                    Some(Waiting::Barrier(id)) => barrier_in_words(Some(*id)),
                    Some(Waiting::Cluster) => barrier_in_words(None),
                    Some(Waiting::Mbarriers(all)) => self.mbarrier_name(all[0].1),
                    _ => String::new(),
                };
                let what = self.wait_in_words(warp).0;
                self.tell_of_warp(warp, self.stopped_at(warp), Happening::Waits { at, what });
            }
            _ => {}
        }
    }

    /// Tells that a copy is in flight.
    pub(crate) fn tell_begun(&self, copy: u64, agent: &Agent) {
        let Some(events) = self.events else { return };
        let (threads, site) = (self.ctx.warps() * 32, self.ctx.code.accesses[agent.to as usize].site);
        let bytes = match &agent.work {
            Work::Copies(all) => all.iter().map(|copy| copy.bytes as u64).sum(),
            Work::Store { pieces, .. } => 16 * pieces.len() as u64,
            Work::Load { .. } | Work::Send(_) => agent.bytes().unsigned_abs(),
        };
        let to = self.ctx.name_of(self.space(agent.to)).to_owned();
        events(&Event {
            block: self.blocks[(agent.first / threads) as usize].at,
            warp: Some(agent.first % threads / 32),
            happening: Happening::Begins { copy, to, bytes },
            line: self.ctx.line(site),
        });
    }

    /// Tells that a copy has landed.
    pub(crate) fn tell_landed(&self, copy: u64) {
        self.tell_of_block(0, Happening::Lands { copy });
    }

    /// Tells that a matrix product is in flight.
    pub(crate) fn tell_issued(&self, warp: &Warp, product: u64, warpgroup: u32) {
        self.tell_of_warp(warp, self.site(warp), Happening::Issues { product, warpgroup });
    }

    /// Tells that a matrix product is complete.
    pub(crate) fn tell_finished(&self, block: usize, product: u64, warpgroup: u32) {
        self.tell_of_block(block, Happening::Finishes { product, warpgroup });
    }

    /// Tells that threads have arrived at an mbarrier.
    pub(crate) fn tell_arrival(&self, warp: &Warp, at: usize, bytes: Option<u32>) {
        if self.events.is_some() {
            let arrives = Happening::Arrives { at: self.mbarrier_name(at), bytes: bytes.unwrap_or(0) };
            self.tell_of_warp(warp, self.site(warp), arrives);
        }
    }

    /// Tells that a barrier of threads is complete.
    pub(crate) fn tell_met(&self, warp: &Warp, id: Option<u32>) {
        if self.events.is_some() {
            self.tell_of_warp(warp, self.site(warp), Happening::Meets(barrier_in_words(id)));
        }
    }

    /// Tells that a phase is complete.
    pub(crate) fn tell_completed(&self, block: usize, at: usize) {
        if self.events.is_some() {
            let phase = self.blocks[block].mbarriers[at].completed - 1;
            self.tell_of_block(block, Happening::Completes { at: self.mbarrier_name(at), phase });
        }
    }

    fn tell_of_block(&self, block: usize, happening: Happening) {
        if let Some(events) = self.events {
            events(&Event { block: self.blocks[block].at, warp: None, happening, line: None });
        }
    }
}
