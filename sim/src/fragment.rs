//! Fragments: the registers of an instruction's operand.

use tilewright_program::Elem;

use crate::code::Slot;
use crate::warp::Warp;

/// A fragment in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    pub(crate) slot: Slot,
    pub(crate) elem: Elem,
    /// Element type of the instruction's operand.
    pub(crate) of: Elem,
}

impl Fragment {
    /// A value of a lane: of registers as wide, of words that hold several, or of several narrower registers.
    pub(crate) fn get(self, w: &Warp, value: usize, lane: usize) -> u64 {
        let (wide, narrow) = (self.elem.bytes() as usize, self.of.bytes() as usize);
        if wide >= narrow {
            let per = wide / narrow;
            let bits = w.bit(self.slot + (value / per) as u32, self.elem, lane) >> (value % per * narrow * 8);
            return if narrow == 8 { bits } else { bits & ((1 << (narrow * 8)) - 1) };
        }
        let parts = narrow / wide;
        (0..parts).fold(0, |all, part| {
            let slot = self.slot + (value * parts + part) as u32;
            all | (w.bit(slot, self.elem, lane) & ((1 << (wide * 8)) - 1)) << (part * wide * 8)
        })
    }

    pub(crate) fn set(self, w: &mut Warp, value: usize, lane: usize, bits: u64) {
        let (wide, narrow) = (self.elem.bytes() as usize, self.of.bytes() as usize);
        if wide >= narrow {
            let per = wide / narrow;
            let slot = self.slot + (value / per) as u32;
            let shift = value % per * narrow * 8;
            let mask = if narrow == 8 { u64::MAX } else { ((1 << (narrow * 8)) - 1) << shift };
            let old = w.bit(slot, self.elem, lane);
            w.set_bit(slot, self.elem, lane, old & !mask | bits << shift & mask);
            return;
        }
        let parts = narrow / wide;
        for part in 0..parts {
            let slot = self.slot + (value * parts + part) as u32;
            w.set_bit(slot, self.elem, lane, bits >> (part * wide * 8) & ((1 << (wide * 8)) - 1));
        }
    }

    /// Has each value a register of its own, of this type?
    pub(crate) fn is_whole(self, elem: Elem) -> bool {
        self.elem == elem && self.of == elem
    }

    /// The number of registers for this number of values.
    pub(crate) fn registers(self, values: usize) -> u32 {
        (self.of.bytes_of(values).div_ceil(self.elem.bytes() as usize)) as u32
    }
}
