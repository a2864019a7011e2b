//! Arithmetic of a run: on the bits of elements, or exact, where a ring replaces floating-point numbers.

use tilewright_program::Elem;
use tilewright_program::number::Number;
use tilewright_program::thread::{Bin, Cmp, Un};

use crate::ring::Ring;
use crate::value;

/// The arithmetic of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arithmetic {
    ring: Option<Ring>,
}

impl Arithmetic {
    pub(crate) fn new(ring: Option<Ring>) -> Arithmetic {
        Arithmetic { ring }
    }

    /// The ring that replaces numbers of a type.
    #[inline]
    pub(crate) fn ring_of(self, elem: Elem) -> Option<Ring> {
        self.ring.filter(|_| elem.is_float())
    }

    /// The number that stands for an element of an argument.
    pub(crate) fn element(self, bits: u64, elem: Elem) -> u64 {
        self.ring_of(elem).map_or(bits, |ring| ring.element(bits, elem))
    }

    pub(crate) fn literal(self, x: Number, elem: Elem) -> u64 {
        self.element(x.bits(elem), elem)
    }

    pub(crate) fn integer(self, n: i64, elem: Elem) -> u64 {
        self.ring_of(elem).map_or_else(|| value::from_int(n, elem), |ring| ring.integer(n))
    }

    pub(crate) fn to_int(self, bits: u64, elem: Elem) -> i64 {
        let ring = self.ring_of(elem);
        ring.map_or_else(
            || value::to_int(bits, elem),
            |ring| value::int(ring.to_int(bits, Elem::I32), Elem::I32),
        )
    }

    pub(crate) fn cast(self, bits: u64, from: Elem, to: Elem) -> u64 {
        match self.ring.filter(|_| from.is_float() || to.is_float()) {
            Some(ring) => ring.cast(bits, from, to),
            None => value::cast(bits, from, to),
        }
    }

    pub(crate) fn un(self, f: Un, truth: bool, x: u64, elem: Elem) -> u64 {
        self.ring_of(elem).map_or_else(|| value::un(f, truth, x, elem), |ring| ring.un(f, x))
    }

    #[inline]
    pub(crate) fn bin(self, f: Bin, x: u64, y: u64, elem: Elem) -> u64 {
        match self.ring_of(elem) {
            Some(ring) => ring.bin(f, x, y),
            None => value::bin(f, x, y, elem),
        }
    }

    #[inline]
    pub(crate) fn fma(self, x: u64, y: u64, z: u64, elem: Elem) -> u64 {
        match self.ring_of(elem) {
            Some(ring) => ring.fma(x, y, z),
            None => value::fma(x, y, z, elem),
        }
    }

    pub(crate) fn cmp(self, how: Cmp, x: u64, y: u64, elem: Elem) -> bool {
        self.ring_of(elem).map_or_else(|| value::cmp(how, x, y, elem), |ring| ring.cmp(how, x, y))
    }

    pub(crate) fn is_true(self, x: u64, elem: Elem) -> bool {
        if self.ring_of(elem).is_some() { x != 0 } else { value::is_true(x, elem) }
    }
}
