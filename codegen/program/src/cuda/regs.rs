//! Register arrays: the text of their elements, words and addresses.

use super::Printer;
use crate::thread::index::Ix;
use crate::thread::{Frag, Id};

impl Printer<'_> {
    /// How many elements one word of an array packs; 1 for an array of elements.
    pub(super) fn per_word(&self, reg: Id) -> u32 {
        let reg = &self.kernel.regs[reg as usize];
        if reg.words { reg.elem.elements_in(4).max(1) } else { 1 }
    }

    /// Is it a plain variable instead of an array?
    pub(super) fn is_scalar(&self, id: Id) -> bool {
        let reg = &self.kernel.regs[id as usize];
        reg.len == 1 && !reg.words
    }

    /// One element.
    pub(super) fn element(&mut self, id: Id, at: Ix) -> String {
        let (reg, name) = (&self.kernel.regs[id as usize], self.names.regs[id as usize].clone());
        if self.is_scalar(id) {
            return name;
        }
        let index = self.int(at);
        if reg.words && reg.elem.cuda() != "unsigned" {
            format!("(({}*){name})[{index}]", reg.elem.cuda())
        } else {
            format!("{name}[{index}]")
        }
    }

    /// The word or element at which a fragment begins.
    pub(super) fn word(&mut self, frag: Frag) -> String {
        let name = self.names.regs[frag.reg as usize].clone();
        if self.is_scalar(frag.reg) {
            return name;
        }
        let at = self.exprs.div(frag.at, i64::from(self.per_word(frag.reg)));
        format!("{name}[{}]", self.int(at))
    }

    /// A pointer to where a fragment begins: a word, or an element where the fragment is a part of one.
    pub(super) fn pointer(&mut self, frag: Frag) -> String {
        match self.exprs.constant(frag.at) {
            Some(0) if !self.is_scalar(frag.reg) => self.names.regs[frag.reg as usize].clone(),
            _ if frag.len < self.per_word(frag.reg) => format!("&{}", self.element(frag.reg, frag.at)),
            _ => format!("&{}", self.word(frag)),
        }
    }
}
