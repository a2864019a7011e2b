//! Allocation of the shared memory of a block. Each tile comes after the tiles declared before it, or overlays tiles that
//! are dead ([`Program::overlays`]). Then come the mbarriers of rings and of ordered sections, and last the scratch memory of
//! reductions and scans, whose sizes lowering knows.

use std::collections::BTreeMap;

use crate::tile::visit::preorder;
use crate::tile::{Op, Program, Space, Tensor};
use crate::values::id::Id;

pub use crate::tile::ALIGN;

/// The size of an mbarrier, and its alignment.
const MBARRIER: u32 = 8;

/// Offsets in bytes.
#[derive(Default)]
pub struct Allocation {
    /// Offsets of tensors in shared memory.
    pub(crate) tiles: BTreeMap<Id, u32>,
    /// For each ring, the offsets of its `full` and `empty` mbarriers, one for each slot.
    pub(crate) rings: Vec<[u32; 2]>,
    /// For each ordered section, the offset of its mbarriers, one for each part.
    pub(crate) orders: Vec<u32>,
    /// The end.
    pub bytes: u32,
}

/// The places of everything that a program declares.
pub fn allocate(program: &Program) -> Allocation {
    let mut all = Allocation::default();
    for (id, tensor) in (0..).zip(&program.tensors) {
        let Space::Shared { align } = tensor.space else { continue };
        let begin = all.dead(program, id).unwrap_or(all.bytes);
        let at = begin.next_multiple_of(align.max(ALIGN));
        all.tiles.insert(id, at);
        all.bytes = all.bytes.max(at + bytes(tensor));
    }
    for ring in &program.rings {
        let slots = if ring.is_of_one_group() { 0 } else { ring.slots };
        let both = [(); 2].map(|()| all.mbarriers(slots));
        all.rings.push(both);
    }
    let mut parts = vec![1; program.orders as usize];
    for stmt in preorder(&program.body) {
        if let Op::Ordered { order, groups, .. } = &stmt.op
            && let Some(parts) = parts.get_mut(*order as usize)
        {
            *parts = program.members(groups);
        }
    }
    all.orders = parts.into_iter().map(|parts| all.mbarriers(parts)).collect();
    all
}

/// The size of a tensor.
fn bytes(tensor: &Tensor) -> u32 {
    tensor.elem.bytes_of(tensor.layout.cosize().unwrap_or(0) as u32)
}

impl Allocation {
    /// The offset of `count` mbarriers.
    pub(crate) fn mbarriers(&mut self, count: u32) -> u32 {
        self.append(MBARRIER * count, MBARRIER)
    }

    /// The offset of further bytes, after all others.
    pub(crate) fn append(&mut self, bytes: u32, align: u32) -> u32 {
        let at = self.bytes.next_multiple_of(align);
        self.bytes = at + bytes;
        at
    }

    /// The offset of the tiles that a tensor overlays, if it overlays the last tiles.
    fn dead(&self, program: &Program, id: Id) -> Option<u32> {
        let (_, dead) = program.overlays.iter().find(|(over, _)| *over == id)?;
        let first = *dead.iter().filter_map(|id| self.tiles.get(id)).min()?;
        let mut behind = self.tiles.iter().filter(|(id, at)| **at + bytes(program.tensor(**id)) > first);
        behind.all(|(id, _)| dead.contains(id)).then_some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Builder;
    use crate::tile::view::View;
    use crate::values::elem::Elem;
    use tilewright_layout::Layout;

    /// The offsets of tiles, given by their bytes and by the earlier tiles that each overlays.
    #[track_caller]
    fn check(tiles: &[(i64, &[usize])], expected: &[u32]) {
        let mut b = Builder::new("places");
        let mut all: Vec<View> = Vec::new();
        for (bytes, dead) in tiles {
            let dead: Vec<&View> = dead.iter().map(|&index| &all[index]).collect();
            let layout = Layout::new(*bytes, 1).unwrap();
            all.push(b.shared_after("tile", Elem::U8, layout, &dead).unwrap());
        }
        let result = allocate(&b.finish());
        assert_eq!(result.tiles.into_values().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn tiles_are_in_order_and_the_last_ones_can_be_overlaid() {
        check(&[(40, &[]), (66, &[]), (3, &[])], &[0, 48, 128]);
        check(&[(40, &[]), (66, &[]), (200, &[0, 1])], &[0, 48, 0]);
        check(&[(40, &[]), (66, &[]), (8, &[1]), (8, &[0])], &[0, 48, 48, 128]);
        // The first overlay takes bytes of the second tile, too.
        check(&[(40, &[]), (66, &[]), (48, &[0, 1]), (8, &[1])], &[0, 48, 0, 48]);
        check(&[(40, &[]), (66, &[]), (49, &[0, 1]), (8, &[1])], &[0, 48, 0, 128]);
    }

    #[test]
    fn barriers_come_last() {
        let mut result = Allocation { bytes: 101, ..Allocation::default() };
        assert_eq!(result.append(3 * MBARRIER, MBARRIER), 104);
        assert_eq!((result.append(40, ALIGN), result.bytes), (128, 168));
    }
}
