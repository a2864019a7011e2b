//! Families of instructions: what code needs to know that all instructions of a family have in common. Passes, the printer, the
//! estimate and the simulator ask the family, and name none.

use super::scope::{Queue, Scope};

/// A family of instructions.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// The threads that issue one of its instructions together.
    pub issued_by: Scope,
    /// What its operations are called where a kernel waits for them.
    pub operations: &'static str,
    /// How its instructions complete.
    pub completes: Done,
    /// Does it reach shared memory through the asynchronous proxy?
    pub async_proxy: bool,
    /// The function of CUDA C that orders accesses to registers before its instructions.
    pub fence: Option<&'static str>,
    /// The function of CUDA C that commits a group of its operations.
    pub commit: Option<&'static str>,
    /// Functions of CUDA C that wait until all but some groups are done, by the queue of the wait.
    pub waits: &'static [(Queue, &'static str)],
    /// Least clocks of an instruction beside the time of its unit, as the estimate takes it.
    pub latency_clocks: f64,
}

/// How an instruction completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Synchronously.
    Now,
    /// Once its queue has been waited for (commit group, wait group).
    Queue(Queue),
    /// When the mbarrier among its operands completes its phase.
    Mbarrier,
}

/// Instructions of one thread on registers.
pub(crate) static THREAD: Family = Family::IN_ORDER;

/// Every family with asynchronous operations that are waited for by groups.
static QUEUED: [&Family; 3] =
    [&super::sm80::cp_async::FAMILY, &super::sm90::tma::STORES, &super::sm90::wgmma::FAMILY];

impl Family {
    /// What families have unless they say otherwise: instructions of one thread that complete in order.
    pub(super) const IN_ORDER: Family = Family {
        name: "instructions of a thread",
        issued_by: Scope::Thread,
        operations: "operations",
        completes: Done::Now,
        async_proxy: false,
        fence: None,
        commit: None,
        waits: &[],
        latency_clocks: 0.0,
    };

    /// The family whose operations a queue has.
    pub fn of_queue(queue: Queue) -> &'static Family {
        let has = |family: &&&'static Family| family.waits.iter().any(|(own, _)| *own == queue);
        QUEUED.iter().find(has).copied().unwrap_or(&THREAD)
    }

    /// The function of CUDA C that waits for groups of a queue.
    pub fn wait(queue: Queue) -> &'static str {
        let waits = Family::of_queue(queue).waits;
        waits.iter().find(|(own, _)| *own == queue).map_or("", |(_, function)| function)
    }

    /// Do its instructions run beside the ones that follow them?
    pub fn is_asynchronous(&self) -> bool {
        self.completes != Done::Now
    }

    /// Warps that issue an instruction together.
    pub fn warps(&self) -> u32 {
        self.issued_by.warps()
    }
}
