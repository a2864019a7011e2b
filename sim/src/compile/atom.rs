//! Instructions of the table, with their operands.

use tilewright_layout::Layout;
use tilewright_program::atom::{Atom, Done, Effect, OperandKind};
use tilewright_program::index::Ix;
use tilewright_program::thread::{AtomArg, Param, Queue, Scope, Space};

use super::{Compiler, Result};
use crate::code::*;

impl Compiler<'_> {
    pub(super) fn atom(&mut self, row: &'static Atom, args: &[AtomArg], guard: Option<Ix>) -> Result<()> {
        let uses = &mut self.code.uses;
        uses.async_proxy |= row.family.async_proxy && row.effect != Effect::Hint;
        uses.cp_async |= row.family.completes == Done::Queue(Queue::CpAsync);
        uses.bulk_store |= row.family.completes == Done::Queue(Queue::Bulk);
        uses.wgmma |= row.family.completes == Done::Queue(Queue::Products);
        if row.operands.len() != args.len() {
            return self.malformed(format!(
                "`{}` takes {} operands, and {} are given",
                row.name,
                row.operands.len(),
                args.len()
            ));
        }
        let mut operands = Vec::new();
        for (location, (operand, arg)) in row.operands.iter().zip(args).enumerate() {
            let what = match (row.effect, row.family.issued_by, row.family.async_proxy, operand.writes) {
                (Effect::Mma { .. }, ..) => What::Product,
                (_, Scope::Warp, _, false) => What::MatrixFrom,
                (_, Scope::Warp, _, true) => What::MatrixTo,
                (_, _, true, false) => What::BulkFrom,
                (_, _, true, true) => What::BulkTo,
                (.., false) => What::CopyFrom,
                (.., true) => What::CopyTo,
            };
            operands.push(match (operand.kind, arg) {
                (OperandKind::Frag { .. }, AtomArg::Frag(frag)) => {
                    let (slot, elem) = self.frag(*frag)?;
                    Operand::Frag { reg: frag.reg, slot, len: frag.len, elem }
                }
                (OperandKind::SharedAddress | OperandKind::GlobalAddress, AtomArg::At(mem)) => {
                    let shared = matches!(mem.space, Space::Shared(_));
                    if shared != (operand.kind == OperandKind::SharedAddress) {
                        return self.malformed(format!(
                            "operand `{}` of `{}` lies in the other memory",
                            operand.name, row.name
                        ));
                    }
                    let bytes = tile_bytes(operand) / self.elem_of(mem.space).bytes().max(1);
                    Operand::At(self.location(mem, what, bytes, location))
                }
                (OperandKind::Descriptor, AtomArg::Descriptor { at, leading, stride, mode }) => {
                    let at = self.location(at, What::Product, 0, location);
                    Operand::Descriptor { at, leading: *leading, stride: *stride, mode: *mode }
                }
                (OperandKind::TensorMap { .. }, AtomArg::Map { param, at }) => {
                    let Some(Param::TensorMap { tensor, .. }) = self.kernel.params.get(*param as usize)
                    else {
                        return self.malformed(format!("parameter {param} is no tensor map"));
                    };
                    let access = self.access(what, Space::Global(*tensor), 0, (i64::MIN, i64::MAX), location);
                    let at = at.iter().map(|&at| self.operand(at)).collect();
                    Operand::Map { param: *param, access, at }
                }
                (OperandKind::Barrier, AtomArg::Barrier { bar, slot }) => {
                    Operand::Barrier { bar: *bar, slot: self.operand(*slot) }
                }
                (OperandKind::Int | OperandKind::Immediate, AtomArg::Int(at)) => {
                    Operand::Int(self.operand(*at))
                }
                _ => {
                    return self.malformed(format!(
                        "operand `{}` of `{}` is of another kind",
                        operand.name, row.name
                    ));
                }
            });
        }
        let guard = self.guard(guard);
        self.code.atoms.push(AtomCode { row, args: operands, guard });
        let at = self.code.atoms.len() as u32 - 1;
        self.emit(Ins::Atom(at));
        Ok(())
    }
}

/// Bytes that an operand accesses at each address; 0 if the row leaves that open.
pub(crate) fn tile_bytes(operand: &tilewright_program::atom::Operand) -> u32 {
    let values = operand.tv.parse::<Layout>().and_then(|tv| tv.mode(1)).and_then(|values| values.size());
    operand.elem.bytes_of(values.unwrap_or(0) as u32)
}
