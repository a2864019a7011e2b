//! Values of elements: steps on register cells.

use tilewright_program::Elem;
use tilewright_program::index::Ix;
use tilewright_program::thread::probe::{self, Kind, Probe};
use tilewright_program::thread::{self, Claim, Frag, Un, Val};

use super::{Compiler, Result};
use crate::code::*;

impl Compiler<'_> {
    /// A value in a new cell, converted to a type.
    pub(super) fn value_of(&mut self, value: &Val, elem: Elem) -> Result<Slot> {
        let (x, from) = self.value(value)?;
        if from == elem {
            return Ok(x);
        }
        Ok(self.emit_to(elem, |to| Ins::Cast { from, elem, to, x }))
    }

    /// A value in this cell.
    pub(super) fn value_into(&mut self, value: &Val, to: Slot, elem: Elem) -> Result<()> {
        let from = self.type_of(value);
        if from != elem {
            let x = self.value(value)?.0;
            self.emit(Ins::Cast { from, elem, to, x });
            return Ok(());
        }
        let at = self.levels.last().map_or(0, |level| level.body.len());
        let (x, _) = self.value(value)?;
        // Retargets a temporary's last step to this cell.
        let level = self.levels.last_mut().expect("there is always a level");
        if level.body.len() > at
            && let Some((last, _)) = level.body.last_mut()
            && let Some(target) = target(last)
            && *target == x
        {
            *target = to;
            return Ok(());
        }
        self.emit(Ins::Move { elem, to, x });
        Ok(())
    }

    /// An author's claim about an element.
    pub(super) fn claim(&mut self, claim: &Claim) -> Result<()> {
        if claim.strict && !self.given.strict {
            return Ok(());
        }
        let inside = self.num(claim.inside);
        if inside.as_constant().is_some_and(|inside| inside != 0) {
            return Ok(());
        }
        let (value, elem) = self.value(&claim.value)?;
        let inside = self.location_of(inside);
        let at: Vec<_> = claim.at.iter().map(|&at| self.num(at)).collect();
        let at = at.into_iter().map(|at| self.location_of(at)).collect();
        let &Claim { number, strict, .. } = claim;
        self.code.claims.push(Claimed { inside, value, elem, number, at, strict });
        self.emit(Ins::Claim(self.code.claims.len() as u32 - 1));
        Ok(())
    }

    /// An assertion or a print.
    pub(super) fn probe(&mut self, probe: &Probe, values: &[Val], guard: Option<Ix>) -> Result<()> {
        let values = values.iter().map(|value| self.value(value)).collect::<Result<_>>()?;
        let guard = guard.map(|guard| self.src(guard));
        // A statement in an unrolled loop is compiled several times.
        let all = probe::all(self.kernel);
        let at = all.iter().position(|(of, _)| std::ptr::eq(*of, probe)).unwrap_or(0);
        let fails_at_zero = probe.kind == Kind::Assert;
        self.code.probes.push(Probed { probe: at, fails_at_zero, values, guard });
        self.emit(Ins::Probe(self.code.probes.len() as u32 - 1));
        Ok(())
    }

    pub(super) fn type_of(&self, value: &Val) -> Elem {
        self.kernel.type_of(value)
    }

    pub(super) fn value(&mut self, value: &Val) -> Result<(Slot, Elem)> {
        let elem = self.type_of(value);
        let slot = match value {
            Val::Reg(reg, at) => self.frag(Frag { reg: *reg, at: *at, len: 1 })?.0,
            Val::Lit(x, elem) => self.constant(*elem, self.given.arithmetic.literal(*x, *elem)),
            Val::Int(at, elem) => {
                let num = self.num(*at);
                match num.as_constant() {
                    Some(n) => self.constant(*elem, self.given.arithmetic.integer(n, *elem)),
                    None => {
                        let x = self.location_of(num);
                        self.emit_to(*elem, |to| Ins::FromInt { elem: *elem, to, x })
                    }
                }
            }
            Val::Param(id) => self.constant(elem, self.given.scalars[*id as usize]),
            Val::Un(f, x) => {
                let truth = *f == Un::Not && x.is_truth();
                let (x, _) = self.value(x)?;
                self.emit_to(elem, |to| Ins::Un { f: *f, truth, elem, to, x })
            }
            Val::Bin(f, x, y) => {
                let (x, y) = (self.value(x)?.0, self.value_of(y, elem)?);
                self.emit_to(elem, |to| Ins::Bin { f: *f, elem, to, x, y })
            }
            Val::Fma(of) => {
                let (x, y) = (self.value_of(&of[0], elem)?, self.value_of(&of[1], elem)?);
                let (z, _) = self.value(&of[2])?;
                self.emit_to(elem, |to| Ins::Fma { elem, to, x, y, z })
            }
            Val::Product(row, of) => self.value(&Val::sum_of(row, (**of).clone()))?.0,
            Val::Ptx { text, model, .. } => match model {
                Some(model) => self.value_of(model, elem)?,
                None => {
                    return self.malformed(format!(
                        "`{text}` has no model, which the simulator computes instead: model = |a| …"
                    ));
                }
            },
            Val::Cast(elem, x) => self.value_of(x, *elem)?,
            // Cells of 4 bytes contain the bits of any type.
            Val::Bits(elem, x) => {
                let (x, _) = self.value(x)?;
                self.emit_to(*elem, |to| Ins::Move { elem: *elem, to, x })
            }
            Val::Cmp(how, x, y) => {
                let of = self.type_of(x);
                let (x, y) = (self.value(x)?.0, self.value_of(y, of)?);
                self.emit_to(elem, |to| Ins::Cmp { how: *how, elem: of, to, x, y })
            }
            Val::Pick(of) => match self.condition(&of[0])? {
                Cond::Int(Src::Const(known)) => self.value_of(&of[if known != 0 { 1 } else { 2 }], elem)?,
                cond => {
                    let x = self.under(Ins::Narrow { cond, expected: true }, &of[1], elem)?;
                    let y = self.under(Ins::Narrow { cond, expected: false }, &of[2], elem)?;
                    self.emit_to(elem, |to| Ins::Pick { cond, elem, to, x, y })
                }
            },
            Val::Shuffle(x, lane) => {
                let (x, _) = self.value(x)?;
                let lane = match lane {
                    thread::Lane::Xor(by) => Lane::Xor(self.operand(*by)),
                    thread::Lane::InGroup(lanes, lane) => Lane::Of(self.value_of(lane, Elem::I32)?, *lanes),
                };
                self.emit_to(elem, |to| Ins::Shuffle { elem, to, x, lane })
            }
            Val::Vote(how, x) => {
                let (x, of) = self.value(x)?;
                self.emit_to(elem, |to| Ins::Vote { how: *how, elem: of, to, x })
            }
        };
        Ok((slot, elem))
    }

    /// A step that writes a new cell.
    fn emit_to(&mut self, elem: Elem, ins: impl FnOnce(Slot) -> Ins) -> Slot {
        let to = self.scratch(elem);
        self.emit(ins(to));
        to
    }

    /// A value that only some lanes compute.
    pub(super) fn under(&mut self, narrow: Ins, value: &Val, elem: Elem) -> Result<Slot> {
        let plain =
            matches!(value, Val::Reg(..) | Val::Lit(..) | Val::Param(_)) && self.type_of(value) == elem;
        if plain {
            return Ok(self.value(value)?.0);
        }
        self.emit(narrow);
        let slot = self.value_of(value, elem)?;
        self.emit(Ins::Widen);
        Ok(slot)
    }
}

/// The cell that a step writes, if it writes one alone.
fn target(ins: &mut Ins) -> Option<&mut Slot> {
    match ins {
        Ins::Un { to, .. }
        | Ins::Bin { to, .. }
        | Ins::Fma { to, .. }
        | Ins::Cast { to, .. }
        | Ins::FromInt { to, .. }
        | Ins::Cmp { to, .. }
        | Ins::Pick { to, .. }
        | Ins::Shuffle { to, .. }
        | Ins::Vote { to, .. } => Some(to),
        _ => None,
    }
}
