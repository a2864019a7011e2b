//! Families: several thread groups, the members, that run one program, such as ping-pong consumer warpgroups.
//! The index of a thread's member, named barriers of members, and the ring slots that belong to other
//! members' tiles.

use super::Lower;
use crate::thread::index::{Int, Ix};
use crate::thread::{Bar, Fence, Id, Op, Scope};
use crate::tile::{self, Past};

impl Lower<'_> {
    /// The thread's index in its group, or in all of its family.
    pub(super) fn thread_of(&mut self, group: Id) -> Ix {
        let first = self.program.groups[group as usize].warps.map_or(0, |(first, _)| first * 32);
        let hi = i64::from(self.program.threads()) - 1;
        let thread = self.exprs().leaf(Int::Thread, 0, hi, 1, Scope::Thread);
        self.exprs().sub(thread, i64::from(first))
    }

    /// The index of the thread's member in a family. It is computed at the top of the kernel, before roles
    /// diverge, so threads of other groups get some value too.
    pub(super) fn member(&mut self, family: Id) -> Ix {
        let members = i64::from(self.program.groups[family as usize].members.max(1));
        self.part_of(family, members)
    }

    /// The index of the thread's part, where a group's warps are divided into `parts` equal parts.
    pub(super) fn part_of(&mut self, group: Id, parts: i64) -> Ix {
        let all = self.program.groups[group as usize].warps.map_or(0, |(first, end)| end - first);
        let threads = match all {
            0 => i64::from(self.program.threads()),
            warps => i64::from(warps) * 32,
        };
        let thread = self.thread_of(group);
        let number = self.exprs().div(thread, (threads / parts).max(1));
        self.exprs().rem(number, parts)
    }

    /// A barrier of a group's threads; in a family, one barrier for each member. Threads of one warp need none of the
    /// hardware's.
    pub(super) fn meet(&mut self, group: Id) {
        if self.program.groups[group as usize].member_warps() == Some(1) {
            return self.emit(Op::Fence(Fence::Threads(Scope::Warp)));
        }
        let members = self.program.groups[group as usize].members;
        let first = self.barriers(group);
        let member = (members > 1).then(|| self.member(group));
        self.emit(Op::Sync { bar: first, member });
    }

    /// The barrier of a group, or of the first of a family's members, whose barriers are consecutive.
    fn barriers(&mut self, group: Id) -> Id {
        let Some(warps) = self.program.groups[group as usize].member_warps() else {
            return 0;
        };
        // The hardware's barrier 0 is the block's; each member of each group has another.
        let before = self.program.groups[1..group as usize].iter().map(|group| group.members.max(1));
        let first = 1 + before.sum::<u32>();
        let members = self.program.groups[group as usize].members.max(1);
        let bar = |id: u32| Bar::Named { id: id as u8, threads: warps * 32 };
        match self.kernel.bars.iter().position(|known| *known == bar(first)) {
            Some(at) => at as Id,
            None => {
                self.kernel.bars.extend((first..first + members).map(bar));
                self.kernel.bars.len() as Id - members
            }
        }
    }

    /// For each ring that the members of the current family share: how many slots one tile takes.
    pub(super) fn shared_slots(&mut self, body: &[tile::Stmt]) -> Vec<(Id, Ix)> {
        let by = self.scope.by;
        if self.program.groups[by as usize].members < 2 {
            return Vec::new();
        }
        let mut all = Vec::new();
        for (id, ring) in self.program.rings.iter().enumerate() {
            if ring.to != by && ring.from != by {
                continue;
            }
            let slots = self.slots_in(body, id as Id);
            if self.kernel.exprs.constant(slots) != Some(0) {
                all.push((id as Id, slots));
            }
        }
        all
    }

    /// By how many slots of a ring statements advance: in loops, their peeled iterations, and ordered sections alone, as the verifier ensures.
    fn slots_in(&mut self, body: &[tile::Stmt], ring: Id) -> Ix {
        let mut sum = self.int(0);
        for stmt in body {
            let more = if let tile::Op::Advance { ring: of } = &stmt.op {
                self.int(i64::from(*of == ring))
            } else if let tile::Op::For { var, body, .. } = &stmt.op {
                let each = self.slots_in(body, ring);
                let of = &self.program.vars[*var as usize];
                let (from, to, none) = (self.affine(&of.from), self.affine(&of.to), self.int(0));
                let count = self.exprs().sub(to, from);
                let count = self.exprs().max(count, none);
                self.exprs().mul(each, count)
            } else if let tile::Op::Step { var, at, past: Past::Skip, body } = &stmt.op {
                let each = self.slots_in(body, ring);
                // Its iteration may be one of a loop around it, which has no value here.
                if self.kernel.exprs.constant(each) == Some(0) {
                    continue;
                }
                let of = &self.program.vars[*var as usize];
                let (at, to, none, one) = (self.affine(at), self.affine(&of.to), self.int(0), self.int(1));
                let count = self.exprs().sub(to, at);
                let count = self.exprs().max(count, none);
                let count = self.exprs().min(count, one);
                self.exprs().mul(each, count)
            } else if let tile::Op::Ordered { body, .. } | tile::Op::Step { body, .. } = &stmt.op {
                self.slots_in(body, ring)
            } else {
                continue;
            };
            sum = self.exprs().add(sum, more);
        }
        sum
    }
}
