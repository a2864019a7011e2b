//! Slots of rings whose number is open: those that fit in shared memory beside all other tiles and beside the buffers through which
//! results leave registers. It does not know what fills the rings.

use super::Resolve;
use super::exchange::BARRIERS;
use crate::source::problem::Result;
use crate::thread::Id;
use crate::tile::Stmt;
use crate::tile::slots::of_slots;
use crate::tile::visit::rename;
use crate::values::affine::Coord;
use crate::values::target::Target;

/// The fewest slots of a ring with a producer: one is filled while another is read.
const LEAST: i64 = 2;
/// Enough stages beside buffers that need the memory of a stage: with fewer, smaller buffers are better.
const ENOUGH: i64 = 5;

impl Resolve {
    /// Chooses the slots of open rings beside buffers of one of these sizes in bytes, each of some kind: the most beside buffers of
    /// the first kind that needs less than a stage, or leaves room for enough stages.
    pub(super) fn fit(&mut self, buffers: &[(i64, i64)]) -> Result<()> {
        if self.fits || self.program.fitted.is_empty() {
            return Ok(());
        }
        let (room, stage) = self.room_of_rings();
        let beside = |of: &(i64, i64)| (room - of.1) / stage;
        let enough = buffers.iter().map(beside).max().unwrap_or(0).min(ENOUGH);
        let first = buffers.iter().find(|of| of.1 < stage || beside(of) >= enough);
        let of_kind = |of: &&(i64, i64)| first.is_some_and(|first| first.0 == of.0);
        let stages = buffers.iter().filter(of_kind).map(beside).max();
        self.fits = stages.is_some();
        stages.map_or(Ok(()), |stages| self.resize(stages))
    }

    /// Bytes for open rings beside all other tiles, and of a stage.
    fn room_of_rings(&self) -> (i64, i64) {
        let (mut stage, mut others) = (0, BARRIERS);
        let open = || self.program.fitted.keys().map(|ring| &self.program.rings[*ring as usize]);
        let overlays = |id: Id| self.program.overlays.iter().any(|(over, _)| *over == id);
        for (id, bytes) in self.shared().into_iter().filter(|(id, _)| !overlays(*id)) {
            match open().find(|ring| ring.buffers.contains(&id)) {
                Some(ring) => stage += bytes / i64::from(ring.slots),
                None => others += bytes,
            }
        }
        (i64::from(Target::of(self.program.arch).block_shared) - others, stage.max(1))
    }

    /// Gives open rings this number of slots, within their limits.
    fn resize(&mut self, stages: i64) -> Result<()> {
        let program = &mut self.program;
        for (ring, most) in &program.fitted {
            let ring = &mut program.rings[*ring as usize];
            ring.slots = stages.clamp(LEAST.min(i64::from(*most)), (*most).into()) as u32;
            for id in &ring.buffers {
                let tensor = &mut program.tensors[*id as usize];
                tensor.layout = of_slots(&tensor.layout, ring.slots.into())?;
            }
        }
        Ok(())
    }

    /// Chooses slots that are still open, and writes them in the coordinates of statements.
    pub(super) fn fitted(&mut self, body: &mut [Stmt]) -> Result<()> {
        let (room, stage) = self.room_of_rings();
        let rings = || self.program.fitted.keys().map(|ring| &self.program.rings[*ring as usize]);
        if !self.fits || rings().any(|ring| i64::from(ring.slots) > room / stage) {
            self.resize(room / stage)?;
        }
        for (ring, most) in std::mem::take(&mut self.program.fitted) {
            let slots = self.program.rings[ring as usize].slots;
            let slot = |slots: u32| Coord::Submode {
                of: Box::new(Coord::Phase(ring).into()),
                over: 1,
                extent: Some(slots.into()),
            };
            let (from, to) = (slot(most), slot(slots));
            rename(body, &from, &to);
            self.program.rename_stages(most, slots);
        }
        Ok(())
    }
}
