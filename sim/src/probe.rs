//! Assertions and prints of a kernel.

use std::sync::PoisonError;

use tilewright_program::thread::probe::{self, MOST_VALUES, Record, Shown};

use crate::fault::{Fault, FaultKind};
use crate::machine::{Cluster, Context, Result};
use crate::warp::{LANES, Warp};

impl Context<'_> {
    /// What prints have shown, as text.
    pub(crate) fn printed(&self) -> Vec<String> {
        let records = self.printed.lock().unwrap_or_else(PoisonError::into_inner);
        let locate = |span| self.locations.and_then(|locations| locations.of(span));
        Shown::of(self.kernel, &records, &locate).printed
    }
}

impl Cluster<'_> {
    /// Checks an assertion, or notes the values of a print.
    pub(crate) fn probe(&self, w: &mut Warp, probe: u32) -> Result<()> {
        let probed = &self.ctx.code.probes[probe as usize];
        let lanes = probed.guard.map_or(w.mask, |guard| w.lanes_where(guard) & w.mask);
        for &(slot, elem) in &probed.values {
            self.need(w, slot, elem)?;
        }
        let values: Vec<_> = probed.values.iter().map(|&(slot, elem)| w.bits(slot, elem)).collect();
        let record = |lane: usize| {
            let mut own = [0; MOST_VALUES];
            own.iter_mut().zip(&values).for_each(|(own, bits)| *own = bits[lane]);
            let (block, thread) = (self.blocks[w.block].at, w.number * LANES as u32 + lane as u32);
            Record { probe: probed.probe, block, thread, values: own }
        };
        let mut shown = (0..LANES).filter(|lane| lanes >> lane & 1 == 1).map(record);
        if !probed.fails_at_zero {
            self.ctx.printed.lock().unwrap_or_else(PoisonError::into_inner).extend(shown);
            return Ok(());
        }
        match shown.find(|record| record.values[0] == 0) {
            Some(record) => Err(self.failed(w, &record)),
            None => Ok(()),
        }
    }

    #[cold]
    fn failed(&self, w: &Warp, record: &Record) -> Box<Fault> {
        let probes = probe::all(self.ctx.kernel);
        let (of, _) = probes[record.probe];
        let lane = record.thread % LANES as u32;
        let party = self.party(w, 1 << lane, format!("asserts `{}`", of.text), self.site(w));
        self.ctx.fault(FaultKind::Assertion, of.failed(record, 0, ""), vec![party], "")
    }
}
