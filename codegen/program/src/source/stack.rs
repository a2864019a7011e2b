//! Large stacks for recursion. Lowering and printing recurse on functions of elements, and a long sum nests
//! as deep as it is long. The caller may have little stack left, so such work runs on a separate thread.

use std::panic::resume_unwind;
use std::thread::{Builder, scope};

/// Deepest nesting of brackets and of operations in an expression. A chain of operators such as `a + b + c` is no nesting;
/// see [`LONGEST_CHAIN`].
pub const DEEPEST: u32 = 64;

/// The most links of a chain of operators that are evaluated from left to right, `a + b * c - d`.
pub const LONGEST_CHAIN: u32 = 500;

/// Trees deeper than this are processed on a separate stack.
pub const ROOM: u32 = 20;

/// Enough for the deepest tree within [`limits`](crate::values::limits), unoptimised, several times over.
const BYTES: usize = 32 << 20;

/// Runs it on a separate stack, or on this one if no other thread can be started.
pub fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let mut work = Some(work);
    let mut done = None;
    let mut run = || done = work.take().map(|work| work());
    scope(|scope| {
        if let Ok(thread) = Builder::new().stack_size(BYTES).spawn_scoped(scope, &mut run) {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    if let Some(done) = done {
        return done;
    }
    match work {
        Some(work) => work(),
        None => unreachable!("the work is taken where it is done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursion_has_stack() {
        fn deep(n: u64) -> u64 {
            let room = std::hint::black_box([n; 128]);
            if n == 0 { 0 } else { room[0] - room[1] + 1 + deep(n - 1) }
        }
        let small = || Builder::new().stack_size(256 << 10).spawn(|| with_room(|| deep(5_000)));
        assert_eq!(small().expect("a thread").join().expect("no overflow"), 5_000);
    }
}
