//! Faults as text: the threads, the element and the line of an access.

use tilewright_layout::Composed;
use tilewright_program::thread::{Bar, Param, Shared, Space};

use crate::advice::Clash;
use crate::clock::{Component, Order};
use crate::code::What;
use crate::fault::{Fault, FaultKind, Party, count, ranges};
use crate::machine::{Cluster, Context};
use crate::shadow::{By, Conflict, Stamp};
use crate::shared::Trouble;
use crate::sync::barrier_in_words;
use crate::warp::{LANES, Waiting, Warp};

impl Context<'_> {
    pub(crate) fn fault(
        &self,
        kind: FaultKind,
        message: String,
        parties: Vec<Party>,
        help: impl Into<String>,
    ) -> Box<Fault> {
        Box::new(Fault {
            kernel: self.kernel.name.clone(),
            variant: self.variant,
            seed: self.seed,
            kind,
            message,
            parties,
            help: help.into(),
        })
    }

    /// The line of a row of the program's sites.
    pub(crate) fn line(&self, site: u32) -> Option<String> {
        let span = self.kernel.sites.get(site as usize)?.span;
        self.locations?.of(span).filter(|_| span.0 != 0)
    }

    /// The name of an array or tensor.
    pub(crate) fn name_of(&self, space: Space) -> &str {
        match space {
            Space::Shared(id) => &self.kernel.shared[id as usize].name,
            Space::Global(id) => match &self.kernel.params[id as usize] {
                Param::Pointer { name, .. } | Param::Workspace { name, .. } => name,
                _ => "",
            },
        }
    }

    /// An element of an array, by its coordinate where it has one.
    pub(crate) fn element(&self, space: Space, index: i64) -> String {
        let name = self.name_of(space);
        let coordinate = match space {
            Space::Global(id) => self.world.buffers[id as usize].coordinate(index),
            Space::Shared(id) => coordinate(&self.kernel.shared[id as usize].note, index),
        };
        match coordinate {
            Some(at) => {
                let at: Vec<String> = at.iter().map(i64::to_string).collect();
                format!("`{name}` at ({}), element {index}", at.join(", "))
            }
            None => format!("element {index} of `{name}`"),
        }
    }

    /// The party of a stamp.
    pub(crate) fn party_of(&self, cluster: u64, stamp: Stamp, writes: bool, what: &str) -> Party {
        let threads = self.warps() * LANES as u32;
        let access = &self.code.accesses[stamp.access as usize];
        let at = |thread: u32| (self.block_at(cluster, thread / threads), thread % threads);
        let verb = match (access.what, writes) {
            (What::Atomic, _) => "updates",
            (_, true) => "writes",
            (_, false) => "reads",
        };
        let ((block, thread), doing) = match self.world.components.named(stamp.component) {
            Component::Thread(thread) => (at(thread), format!("{verb} {what}")),
            Component::Copies(thread) => (at(thread), format!("{verb} {what} by an asynchronous copy")),
            Component::BulkReads(thread) | Component::BulkWrites(thread) => {
                (at(thread), format!("{verb} {what} by a bulk store"))
            }
            Component::Mbarrier(..) => (at(stamp.thread), format!("{verb} {what} by a bulk copy")),
            Component::Products(block, warp) => {
                let threads = (warp * LANES as u32..).take(LANES).collect();
                let doing = format!("read {what} by a matrix product");
                let (block, line) = (self.block_at(cluster, block), self.line(access.site));
                return Party { block, threads, doing, line };
            }
        };
        Party { block, threads: vec![thread], doing, line: self.line(access.site) }
    }

    /// Where two arrays overlap in shared memory.
    fn overlap_of(&self, one: Space, other: Space) -> Option<String> {
        let (Space::Shared(one), Space::Shared(other)) = (one, other) else { return None };
        let [one, other] = [one, other].map(|id| &self.kernel.shared[id as usize]);
        let last = |array: &Shared| (array.offset + array.bytes()).saturating_sub(1);
        (one != other).then(|| {
            format!(
                "`{}` is in bytes {} to {} of shared memory, `{}` in bytes {} to {}",
                one.name,
                one.offset,
                last(one),
                other.name,
                other.offset,
                last(other)
            )
        })
    }
}

/// The coordinate of an offset in a shared array, whose note ends with its layout.
fn coordinate(note: &str, index: i64) -> Option<Vec<i64>> {
    let layout: Composed = [note, note.split_once(", ").map_or("", |(_, rest)| rest)]
        .into_iter()
        .find_map(|text| text.parse().ok())?;
    let mut rest = layout.coordinate_of(index).ok()??;
    let modes: Vec<i64> = layout.layout().modes().map(|mode| mode.size().unwrap_or(1)).collect();
    Some(
        modes
            .iter()
            .map(|&extent| {
                let at = rest % extent;
                rest /= extent;
                at
            })
            .collect(),
    )
}

/// What is added to the message about an element that has not been written, and the remedy: `early` is the name of an mbarrier
/// whose phase -1 has been waited for.
fn unwritten(space: Space, early: Option<String>) -> (String, String) {
    match (space, early) {
        (_, Some(name)) => (
            format!(
                ", and the wait for phase -1 of `{name}` passed at once: a new mbarrier counts as complete"
            ),
            format!("wait for the phase in which the array is written: the first one of `{name}` is phase 0"),
        ),
        (Space::Shared(_), None) => (String::new(), "write the whole tile before it is read".into()),
        (Space::Global(_), None) => {
            (String::new(), "read only what the kernel was given or has written".into())
        }
    }
}

impl Cluster<'_> {
    /// A party: some lanes of a warp and their action, with the verb in the singular for one lane.
    pub(crate) fn party(&self, warp: &Warp, lanes: u32, doing: impl Into<String>, site: u32) -> Party {
        let mut doing = doing.into();
        let end = doing.find(' ').unwrap_or(doing.len());
        let verb = !doing[..end].ends_with('s') && !["of", "issued"].contains(&&doing[..end]);
        if lanes.count_ones() == 1 && verb {
            doing.insert(end, 's');
        }
        Party {
            block: self.blocks[warp.block].at,
            threads: warp.threads(lanes),
            doing,
            line: self.ctx.line(site),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        // The cluster's number, from its first block.
        let (at, size) = (self.blocks[0].at, self.ctx.kernel.launch.cluster.map(|n| n.max(1)));
        let clusters = [0, 1, 2].map(|axis| u64::from(self.ctx.grid[axis] / size[axis]));
        let at = [0, 1, 2].map(|axis| u64::from(at[axis] / size[axis]));
        at[0] + clusters[0] * (at[1] + clusters[1] * at[2])
    }

    /// The element at a byte of a block's shared memory, or by its number.
    fn what_at(&self, space: Space, position: usize, block: usize) -> String {
        let Space::Shared(id) = space else { return self.ctx.element(space, position as i64) };
        let array = &self.ctx.kernel.shared[id as usize];
        let index = (position as i64 - i64::from(array.offset)) / i64::from(array.elem.bytes());
        let peer = if self.blocks.len() > 1 {
            let [x, y, z] = self.blocks[block].at;
            format!(" in block ({x}, {y}, {z})")
        } else {
            String::new()
        };
        self.ctx.element(space, index) + &peer
    }

    /// The fault of an invalid access by this stamp. `position` is a byte of a block's shared memory, or an
    /// element.
    pub(crate) fn trouble(
        &self,
        trouble: Trouble,
        me: Stamp,
        writes: bool,
        block: usize,
        by: &By<'_>,
    ) -> Box<Fault> {
        let space = self.space(me.access);
        let cluster = self.number();
        let what = |position: usize| self.what_at(space, position, block);
        let me_at = |position: usize| self.ctx.party_of(cluster, me, writes, &what(position));
        // The other access to the same bytes, perhaps through another array.
        let other_at = |stamp: Stamp, writes: bool, position: usize| {
            let its = self.space(stamp.access);
            let named = if its == space { "it".to_string() } else { self.what_at(its, position, block) };
            let overlap = self.ctx.overlap_of(space, its);
            (self.ctx.party_of(cluster, stamp, writes, &named), overlap, named)
        };
        match trouble {
            Trouble::Unwritten(position) => {
                let early = match space {
                    Space::Shared(array) => self.passed_early(array, block, me.thread),
                    Space::Global(_) => None,
                };
                let (message, help) = unwritten(space, early);
                self.ctx.fault(
                    FaultKind::Unwritten,
                    format!("{} has not been written{message}", what(position)),
                    vec![me_at(position)],
                    help,
                )
            }
            Trouble::Overwritten(position, stamp) => {
                let (mut other, overlap, named) = other_at(stamp, true, position);
                other.doing = format!("wrote {named}");
                let (mine, its) = (self.ctx.name_of(space), self.ctx.name_of(self.space(stamp.access)));
                self.ctx.fault(
                    FaultKind::Overwritten,
                    format!(
                        "{} is read, and `{its}` was written there since: {}",
                        what(position),
                        overlap.unwrap_or_default()
                    ),
                    vec![me_at(position), other],
                    format!("give the arrays bytes of their own, or write `{mine}` again before it is read"),
                )
            }
            Trouble::InFlight(position) => {
                let copy = self.agents.values().find_map(|agent| {
                    let (component, access, thread, target) = agent.writes_shared(block, position)?;
                    let stamp = Stamp { component: self.component(component), access, thread, ..me };
                    Some((component, agent, stamp, target))
                });
                let mut what = what(position);
                let other = copy.map(|(_, _, stamp, _)| {
                    let (other, overlap, _) = other_at(stamp, true, position);
                    if let Some(overlap) = overlap {
                        what += &format!(", which shares bytes with another array: {overlap},");
                    }
                    other
                });
                if let Some((_, agent, _, Some(target))) = copy
                    && self.blocks[target.block].mbarriers[target.bar].completed > target.phase
                {
                    let parties = std::iter::once(me_at(position)).chain(other).collect();
                    return self.unexpected(target, parties, agent.bytes());
                }
                let copy = copy.map(|(component, agent, _, target)| {
                    (component, target.map_or(agent.number, |target| target.phase as u32 + 1))
                });
                self.in_flight(me_at(position), copy, other, &what, me, by)
            }
            Trouble::Again(position, before) => {
                let earlier = Stamp { component: before.thread, ..before };
                let mut first = self.ctx.party_of(cluster, earlier, true, "it");
                first.doing = "wrote it before".into();
                self.ctx.fault(
                    FaultKind::WrittenTwice,
                    format!("{} is a result, and it is written twice", what(position)),
                    vec![me_at(position), first],
                    "give every element of the result to one thread, or pass the tensor as `Arg::in_out`",
                )
            }
            Trouble::Conflict(position, conflict) => {
                let (other, overlap, _) = other_at(conflict.earlier, conflict.earlier_writes, position);
                let mut mine = me_at(position);
                if let By::Warpgroup(_) = by {
                    mine.threads = self.unordered_threads(conflict, by, mine.threads[0]);
                }
                let its = self.ctx.name_of(self.space(conflict.earlier.access));
                let overlap = overlap.map(|places| format!("lies in the bytes of `{its}` as well: {places}"));
                let (parties, what) = ([mine, other], what(position));
                self.conflict(Clash { conflict, me, by, parties, what, space, overlap })
            }
        }
    }

    /// Threads of the warps of a warpgroup, from this thread on, that are unordered with an access.
    fn unordered_threads(&self, conflict: Conflict, by: &By<'_>, first: u32) -> Vec<u32> {
        let By::Warpgroup(warps) = by else { return Vec::new() };
        let Conflict { earlier, .. } = conflict;
        let late = |knowledge: &&crate::clock::Knowledge| {
            knowledge.order(&self.ctx.world.components, earlier.component, earlier.epoch) != Order::After
        };
        let numbers = (first..).step_by(LANES).zip(warps.iter()).filter(|(_, knowledge)| late(knowledge));
        numbers.flat_map(|(first, _)| first..first + LANES as u32).collect()
    }

    /// A deadlock: all warps wait, and no operation is in flight.
    pub(crate) fn deadlock(&self) -> Box<Fault> {
        let mut parties: Vec<Party> = Vec::new();
        let mut ended: Vec<(usize, Vec<u32>)> = Vec::new();
        // Does a warp wait at a barrier of the block, and does every one at some barrier?
        let (mut barrier, mut every, mut registers, mut advice) = (false, true, false, None);
        for warp in self.warps.iter().flatten() {
            if warp.ended {
                match ended.iter_mut().find(|(block, _)| *block == warp.block) {
                    Some((_, threads)) => threads.extend(warp.threads(warp.live)),
                    None => ended.push((warp.block, warp.threads(warp.live))),
                }
                continue;
            }
            every &= matches!(warp.waiting, Some(Waiting::Barrier(_) | Waiting::Cluster));
            barrier |= matches!(warp.waiting, Some(Waiting::Barrier(_)));
            registers |= matches!(warp.waiting, Some(Waiting::Registers(_)));
            let (mut doing, more) = self.wait_in_words(warp);
            if matches!(warp.waiting, Some(Waiting::Products(_))) {
                doing += ", which not all of its four warps have issued";
            }
            advice = advice.or(more);
            let line = self.ctx.line(self.stopped_at(warp));
            let block = self.blocks[warp.block].at;
            let alike = parties
                .iter_mut()
                .find(|party| party.block == block && party.doing == doing && party.line == line);
            match alike {
                Some(party) => party.threads.extend(warp.threads(warp.live)),
                None => parties.push(Party { block, threads: warp.threads(warp.live), doing, line }),
            }
        }
        let message = match ended.is_empty() {
            true => "every thread waits, and nothing is in flight".to_string(),
            false => {
                let of_block = |(block, threads): &(usize, Vec<u32>)| match self.blocks.len() {
                    1 => ranges(threads),
                    _ => {
                        let [x, y, z] = self.blocks[*block].at;
                        format!("{} of block ({x}, {y}, {z})", ranges(threads))
                    }
                };
                let threads: Vec<String> = ended.iter().map(of_block).collect();
                format!("threads {} have ended, and the others wait forever", threads.join(", "))
            }
        };
        if barrier && every && !ended.is_empty() {
            return self.ctx.fault(
                FaultKind::Divergence,
                message,
                parties,
                "every thread of the group must arrive at each of its barriers: keep barriers out of conditions that differ between threads",
            );
        }
        if registers {
            return self.ctx.fault(
                FaultKind::Deadlock,
                message,
                parties,
                "roles take registers that others have given back: let all of them together ask for no more than the block has when it starts",
            );
        }
        self.ctx.fault(
            FaultKind::Deadlock,
            message,
            parties,
            advice.unwrap_or_else(|| {
                "check the arrival count and the expected bytes of each phase, and that every wait has its arrivals".into()
            }),
        )
    }

    /// The row of the program's sites at which a warp waits. Barriers of threads are not executed again after the wait.
    pub(crate) fn stopped_at(&self, warp: &Warp) -> u32 {
        let past = matches!(warp.waiting, Some(Waiting::Barrier(_) | Waiting::Cluster));
        self.ctx.code.sites[warp.pc - usize::from(past)]
    }

    /// What a warp waits for, and help if it waits for bytes of copies.
    pub(crate) fn wait_in_words(&self, warp: &Warp) -> (String, Option<String>) {
        let words = match &warp.waiting {
            None => "can go on".to_string(),
            Some(Waiting::Barrier(id)) => {
                let bar = &self.blocks[warp.block].barriers[id];
                let name = barrier_in_words(Some(*id));
                format!("wait at {name}, where {} of {} threads have arrived", bar.arrived, bar.expected)
            }
            Some(Waiting::Cluster) => {
                let bar = &self.barriers[warp.block / self.ctx.cluster() as usize];
                let name = barrier_in_words(None);
                format!("wait at {name}, where {} of {} threads have arrived", bar.arrived, bar.expected)
            }
            Some(Waiting::Flag { word, least }) => {
                let flag = self.ctx.element(Space::Global(word.buffer), word.at as i64);
                let value = self.overlay.flag(&self.ctx.world, *word).unwrap_or_default();
                let help = "let a block that has begun change what another waits for: signal(flags[(i)]) of the same flag";
                return (format!("wait until {flag} is {least}, and it is {value}"), Some(help.into()));
            }
            Some(Waiting::Mbarriers(all)) => {
                let (block, at, want) = all[0];
                return self.mbarrier_in_words(block, at, want);
            }
            Some(Waiting::Registers(more)) => {
                let entry = self.ctx.kernel.launch.registers_at_entry().next_multiple_of(8);
                let (free, threads) = (self.blocks[warp.block].free, self.ctx.warps() * LANES as u32);
                format!(
                    "wait for {more} more registers a thread (setmaxnreg): the block has {entry} x {threads} registers, of which {} are free",
                    free * LANES as u32
                )
            }
            Some(Waiting::Products(number)) => format!("wait for matrix product {number} of their warpgroup"),
        };
        (words, None)
    }

    /// A wait for an mbarrier that never ends, and help.
    fn mbarrier_in_words(&self, block: usize, at: usize, want: i64) -> (String, Option<String>) {
        let mbarrier = &self.blocks[block].mbarriers[at];
        let (name, bytes) = (self.mbarrier_name(at), mbarrier.bytes);
        let wait = format!("wait for phase {} of `{name}`", want - 1);
        let expect = |change: String| {
            format!(
                "expect {change} where `{name}` expects them (mbarrier.arrive.expect_tx): as many as the copies of one phase bring"
            )
        };
        let lacks = match mbarrier.missing {
            0 => String::new(),
            missing => format!(
                ", and {missing} of its {} {} missing",
                count(mbarrier.count.into(), "arrival"),
                if missing == 1 { "is" } else { "are" }
            ),
        };
        match bytes.signum() {
            1 => (
                format!(
                    "{wait}, whose arrivals expect {} more than copies have brought{lacks}",
                    count(bytes, "byte")
                ),
                Some(expect(count(bytes, "byte") + " fewer") + "; or issue the copies that are missing"),
            ),
            -1 => (
                format!(
                    "{wait}, to which copies have brought {} more than its arrivals expect{lacks}",
                    count(-bytes, "byte")
                ),
                Some(expect(count(-bytes, "byte") + " more")),
            ),
            _ => {
                let (missing, expected, completed) = (mbarrier.missing, mbarrier.count, mbarrier.completed);
                (
                    format!(
                        "{wait}, which has completed {completed} and lacks {missing} of {}",
                        count(expected.into(), "arrival")
                    ),
                    None,
                )
            }
        }
    }

    /// The mbarrier where this thread's warp has waited for the phase before the first one, if no copy into an array
    /// completes on others alone.
    fn passed_early(&self, array: u32, block: usize, thread: u32) -> Option<String> {
        let code = self.ctx.code;
        let targets: Vec<u32> = code.atoms.iter().filter_map(|atom| atom.completes(code, array)).collect();
        let bars = self.ctx.bars.iter().zip(&self.ctx.kernel.bars).enumerate();
        let warp = thread / LANES as u32;
        bars.filter(|(id, _)| targets.is_empty() || targets.contains(&(*id as u32))).find_map(
            |(_, (&first, bar))| {
                let Bar::Mbarriers { slots, .. } = bar else { return None };
                let early = |at: &usize| self.waits.get(&(warp, block, *at)) == Some(&-1);
                (first..first + *slots as usize).find(early).map(|at| self.mbarrier_name(at))
            },
        )
    }

    /// `full[2]`
    pub(crate) fn mbarrier_name(&self, number: usize) -> String {
        let row = self.ctx.bars.iter().zip(&self.ctx.kernel.bars).rev().find_map(|(&first, bar)| match bar {
            Bar::Mbarriers { name, slots, .. } if (first..first + *slots as usize).contains(&number) => {
                Some(format!("{name}[{}]", number - first))
            }
            _ => None,
        });
        row.unwrap_or_default()
    }
}
