//! Statements that instructions of the table perform.

use tilewright_codegen::view::View;

use super::order::Step;
use super::statement::Writes;
use super::{Block, Result, Undefined};

impl Block<'_> {
    pub(super) fn copy_by(&self, _: &Step<'_>, name: &str, _: &View, _: &View) -> Result<Writes> {
        Err(Undefined(format!("no reference for `{name}`")))
    }

    pub(super) fn gemm_by(&self, _: &Step<'_>, name: &str, _: &View, _: &View, _: &View) -> Result<Writes> {
        Err(Undefined(format!("no reference for `{name}`")))
    }
}
