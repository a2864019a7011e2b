//! Names of constants in index expressions, where lowering knows what a constant is: extents of tiles, stages, strides of shared
//! tiles. Only generated text shows them.

use tilewright_layout::{Symbol, Value};

use super::Lower;
use crate::thread::Id;
use crate::thread::index::{ConstantName, Int, Ix};
use crate::tile::{Constant, ConstantOf, Ring, Space};

impl Lower<'_> {
    /// Names the extents of tiles in a coordinate along a mode of a tensor.
    pub(super) fn name_tile(&mut self, at: Ix, tensor: Id, mode: usize) {
        let program = self.program;
        for constant in &program.constants {
            if constant.of == (ConstantOf::Tile { tensor, mode }) {
                self.exprs().name_factor(at, &ConstantName::new(&constant.name, constant.value));
            }
        }
    }

    /// Names the extent of tiles that divides a size.
    pub(super) fn name_tile_of(&mut self, count: Ix, size: Symbol, extent: i64) {
        let program = self.program;
        let is_size = |tensor, mode| {
            let extent = program.tensor(tensor).plain().leaves().nth(mode).map(|(extent, _)| extent);
            extent == Some(Value::Sym { times: 1, of: size, over: 1 })
        };
        for constant in program.constants.iter().filter(|constant| constant.value == extent) {
            if let ConstantOf::Tile { tensor, mode } = constant.of
                && is_size(tensor, mode)
            {
                self.exprs().name_constant(count, &ConstantName::new(&constant.name, extent));
            }
        }
    }

    /// The array of a tensor in shared memory.
    pub(super) fn array_of(&self, tensor: Id) -> Option<Id> {
        let shared = matches!(self.program.tensor(tensor).space, Space::Shared { .. });
        shared.then(|| self.storage[tensor as usize])
    }

    /// Records that a named integer is an offset in a shared tile, in which strides have names.
    pub(super) fn is_offset_in(&mut self, named: Ix, tensor: Id) {
        if let (&Int::Var(var), Some(array)) = (&self.kernel.exprs.get(named).int, self.array_of(tensor)) {
            self.kernel.vars[var as usize].array.get_or_insert(array);
        }
    }

    /// The name of a ring's number of slots: the author's, or the ring's.
    pub(super) fn name_of_slots(&self, ring: &Ring) -> String {
        let is_it = |constant: &&Constant| {
            constant.of == ConstantOf::Stages && constant.value == i64::from(ring.slots)
        };
        let mut stages = self.program.constants.iter().filter(is_it);
        match (stages.next(), stages.next()) {
            (Some(stages), None) => stages.name.clone(),
            _ => format!("{}_slots", ring.name),
        }
    }

    /// Names the number of slots in a position of a ring.
    pub(super) fn name_slots(&mut self, at: Ix, ring: Id) {
        let ring = &self.program.rings[ring as usize];
        let name = ConstantName::new(&self.name_of_slots(ring), ring.slots.into());
        self.exprs().name_constant(at, &name);
        self.exprs().name_constant(at, &ConstantName { plus: -1, ..name });
    }

    /// Names the extent of tiles in a term of an offset, where the coordinate is a constant.
    pub(super) fn name_tiles_in(&mut self, term: Ix, coordinate: Ix, tensor: Id, mode: usize) {
        let Some(coordinate) = self.kernel.exprs.constant(coordinate) else { return };
        let program = self.program;
        let is_it = |constant: &&Constant| {
            constant.of == (ConstantOf::Tile { tensor, mode })
                && constant.value > 1
                && coordinate % constant.value == 0
        };
        if let Some(constant) = program.constants.iter().find(is_it) {
            let times = coordinate / constant.value;
            let name = ConstantName { times, ..ConstantName::new(&constant.name, constant.value) };
            self.exprs().name_constant(term, &name);
        }
    }

    /// Names the stride of a mode of a shared tile in a term of an offset.
    pub(super) fn name_stride_of(&mut self, term: Ix, tensor: Id, leaf: usize) {
        if let Some((name, _)) = self.strides_of(tensor).into_iter().nth(leaf).flatten() {
            self.exprs().name_stride(term, &name);
        }
    }

    /// Names the constant summand of an offset in a shared tile, if it is a multiple of one stride.
    pub(super) fn name_constant_offset(&mut self, offset: Ix, tensor: Id) {
        let constant = self.kernel.exprs.summand(offset);
        let strides = self.strides_of(tensor).into_iter().flatten();
        let fits = strides.filter(|(name, extent)| {
            constant >= name.value && constant % name.value == 0 && constant / name.value < *extent
        });
        if let Some((name, _)) = fits.max_by_key(|(name, _)| name.value) {
            let name = ConstantName { times: constant / name.value, ..name };
            self.exprs().name_summand(offset, &name);
        }
    }

    /// The names of the strides of a shared tile and the extents, for each of its leaves.
    fn strides_of(&self, tensor: Id) -> Vec<Option<(ConstantName, i64)>> {
        let program = self.program;
        let of = program.tensor(tensor);
        let Space::Shared { .. } = of.space else { return Vec::new() };
        let leaves: Vec<(i64, i64)> = of
            .plain()
            .leaves()
            .map(|leaf| match leaf {
                (Value::Int(extent @ 2..), Value::Int(stride)) => (extent, stride),
                _ => (1, 0),
            })
            .collect();
        let least = leaves.iter().map(|leaf| leaf.1).filter(|stride| *stride > 1).min();
        let is_ring = program.rings.iter().any(|ring| ring.buffers.contains(&tensor));
        let name = |(leaf, &(extent, stride)): (usize, &(i64, i64))| {
            let what = match stride {
                ..2 => return None,
                _ if is_ring && leaf + 1 == leaves.len() => "stage".to_owned(),
                _ if Some(stride) == least => "ld".to_owned(),
                _ => format!("stride_{leaf}"),
            };
            let array = Some(self.storage[tensor as usize]);
            Some((
                ConstantName { array, ..ConstantName::new(&format!("{}_{what}", of.name), stride) },
                extent,
            ))
        };
        leaves.iter().enumerate().map(name).collect()
    }
}
