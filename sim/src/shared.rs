//! The shared memory of a block: its bytes, which of them are initialised, and their last accesses.

use std::ops::Range;
use std::sync::Arc;

use crate::clock::Components;
use crate::shadow::{By, Conflict, Shadow, Stamp, Touch};

/// An invalid access, and at which byte or element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// It is uninitialised.
    Unwritten(usize),
    /// The target of a copy in flight.
    InFlight(usize),
    /// A race with another access.
    Conflict(usize, Conflict),
    /// Another array has overwritten it: by this write.
    Overwritten(usize, Stamp),
    /// An element of the result is written twice.
    Again(usize, Stamp),
}

const EMPTY: u8 = 0;
const INITIALISED: u8 = 1;
const FLYING: u8 = 2;

/// Shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) bytes: Vec<u8>,
    /// By grain.
    state: Vec<u8>,
    shadow: Option<Shadow>,
    /// Granularity in bytes: the size of the smallest element.
    grain: usize,
    owners: Option<Owners>,
}

/// Which array's data each grain contains, where arrays overlap.
#[derive(Clone, Debug)]
struct Owners {
    /// The array of each access.
    arrays: Arc<[u32]>,
    /// The last write, by grain.
    written: Vec<Stamp>,
}

impl Owners {
    fn array(&self, stamp: Stamp) -> u32 {
        self.arrays[stamp.access as usize]
    }
}

impl Shared {
    pub(crate) fn new(bytes: usize, grain: usize, races: bool, arrays: Option<Arc<[u32]>>) -> Shared {
        let cells = bytes.div_ceil(grain);
        Shared {
            // All bits set is NaN in every floating-point type.
            bytes: vec![0xff; bytes],
            state: vec![EMPTY; cells],
            shadow: races.then(|| Shadow::new(cells)),
            grain,
            owners: arrays.map(|arrays| Owners { arrays, written: vec![Stamp::default(); cells] }),
        }
    }

    /// Where arrays overlap: data of another array counts as unwritten.
    #[cold]
    fn owned(&self, mut cells: Range<usize>, me: Stamp) -> Result<(), Trouble> {
        let Some(owners) = &self.owners else { return Ok(()) };
        let mine = owners.array(me);
        match cells.find(|&cell| owners.array(owners.written[cell]) != mine) {
            Some(cell) => Err(Trouble::Overwritten(cell * self.grain, owners.written[cell])),
            None => Ok(()),
        }
    }

    /// Where arrays overlap: marks these bytes as this array's data.
    #[cold]
    fn own(&mut self, cells: Range<usize>, touch: Touch, me: Stamp) -> Result<(), Trouble> {
        if matches!(touch, Touch::Atomic(_)) {
            self.owned(cells.clone(), me)?;
        }
        if let Some(owners) = &mut self.owners {
            owners.written[cells].fill(me);
        }
        Ok(())
    }

    fn grains(&self, at: usize, len: usize) -> Range<usize> {
        at / self.grain..(at + len).div_ceil(self.grain)
    }

    fn touch(
        &mut self,
        all: &Components,
        cell: usize,
        touch: Touch,
        by: &By<'_>,
        me: Stamp,
    ) -> Result<(), Trouble> {
        let Some(shadow) = &mut self.shadow else { return Ok(()) };
        shadow
            .touch(all, cell, touch, by, me)
            .map_err(|conflict| Trouble::Conflict(cell * self.grain, conflict))
    }

    /// Checks a read of these bytes. Inlined, because every load calls it.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        all: &Components,
        at: usize,
        len: usize,
        by: &By<'_>,
        me: Stamp,
    ) -> Result<(), Trouble> {
        for cell in self.grains(at, len) {
            match self.state[cell] {
                INITIALISED => {}
                FLYING => return Err(Trouble::InFlight(cell * self.grain)),
                _ => return Err(Trouble::Unwritten(cell * self.grain)),
            }
            self.touch(all, cell, Touch::Read, by, me)?;
        }
        if self.owners.is_some() {
            return self.owned(self.grains(at, len), me);
        }
        Ok(())
    }

    /// Checks a write to these bytes.
    #[inline]
    pub(crate) fn write(
        &mut self,
        all: &Components,
        at: usize,
        len: usize,
        touch: Touch,
        by: &By<'_>,
        me: Stamp,
    ) -> Result<(), Trouble> {
        for cell in self.grains(at, len) {
            let flying = self.state[cell] == FLYING && matches!(by, By::Lane { .. });
            if flying {
                return Err(Trouble::InFlight(cell * self.grain));
            }
            if matches!(touch, Touch::Atomic(_)) && self.state[cell] == EMPTY {
                return Err(Trouble::Unwritten(cell * self.grain));
            }
            self.touch(all, cell, touch, by, me)?;
            self.state[cell] = INITIALISED;
        }
        if self.owners.is_some() {
            return self.own(self.grains(at, len), touch, me);
        }
        Ok(())
    }

    /// Marks the target of a copy that has been issued: no access is allowed until it is complete.
    pub(crate) fn begin(&mut self, at: usize, len: usize) {
        let range = self.grains(at, len);
        self.state[range].fill(FLYING);
        self.bytes[at..at + len].fill(0xff);
    }

    /// The last accesses to each grain, for the check at the end of the block.
    pub(crate) fn shadow(&self) -> Option<(&Shadow, usize)> {
        self.shadow.as_ref().map(|shadow| (shadow, self.state.len()))
    }

    pub(crate) fn grain(&self) -> usize {
        self.grain
    }
}
