//! Rates of instructions: the throughput of a target for a row of the table.

use crate::isa::atom::{Atom, OperandName};
use crate::values::target::Target;

impl Target {
    /// Multiply-adds of a multiprocessor in a clock by a row of the atom table, where this table knows them.
    ///
    /// ```
    /// use tilewright_program::{isa, target::Target};
    /// let rate = |row: &str| Target::of(90).multiply_adds(isa::find(row).unwrap());
    /// assert_eq!(rate("fma_f64"), Some(64));
    /// assert_eq!(rate("wgmma_m64n128k16_bf16"), Some(2048));
    /// ```
    pub fn multiply_adds(&self, row: &'static Atom) -> Option<u32> {
        let of = |name| row.operand(name).map(|operand| operand.elem);
        match row.is_scalar() {
            true => self.cores.iter().find(|rate| Some(rate.0) == of(OperandName::D)).map(|rate| rate.1),
            false => Some(self.tensor_rate(of(OperandName::A)?)? / 2),
        }
    }
}
