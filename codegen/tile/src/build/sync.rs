//! Synchronisation: barriers, groups of copies, tokens of asynchronous operations.

use super::Builder;
use crate::thread::Id;
use crate::tile::Op;

impl Builder {
    /// A barrier of all threads of the group.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, tile::Op};
    /// let mut b = Builder::new("meet");
    /// b.sync();
    /// assert_eq!(b.finish().body[0].op, Op::Sync);
    /// ```
    pub fn sync(&mut self) {
        self.push(Op::Sync);
    }

    /// Waits for all but the last operations that were started under a token; without one, for all but the last groups of
    /// this thread's copies.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, tile::Op};
    /// let mut b = Builder::new("tokens");
    /// b.wait(None, 1); // in a loop: what the previous iteration started
    /// assert_eq!(b.finish().body[0].op, Op::Wait { token: None, but: 1 });
    /// ```
    pub fn wait(&mut self, token: impl Into<Option<Id>>, but: u32) {
        self.push(Op::Wait { token: token.into(), but });
    }
}
