//! Statements that every thread of a group would perform on a whole view.

use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::whole::is_cooperative;
use crate::tile::{Op, Program, Space};

/// An error if every thread of the group writes the whole view.
pub fn written_whole(program: &Program, by: Id, op: &Op) -> Option<Problem> {
    if is_cooperative(program, by, op) {
        return None;
    }
    let registers = |view: &View| matches!(program.tensor(view.tensor).space, Space::Registers { .. });
    let group = program.groups[by as usize].threads;
    let threads = if group > 0 { group } else { program.threads() };
    // An instruction has one elected thread, or specifies itself which thread copies which elements.
    let to = op.stores()?;
    let message = match op {
        Op::Copy { from, .. } if !from.per_thread() && !registers(from) => {
            format!("every thread would copy the whole of `{}` to `{}`", from.name, to.name)
        }
        _ => format!(
            "`{}` is not partitioned over threads: each thread that executes this would write all of it",
            to.name
        ),
    };
    let whole = threads != 1 && !registers(to) && !to.per_thread();
    whole.then(|| {
        Problem::new(message)
            .help("use whole tiles on both sides, or partition both over the threads with `parallelize`; if all threads have the same value, as after block_sum, one of them writes it by copy(total, parallelize(tile(y, 1, block.x), t, thread.x, ragged = true)), where `t` is the thread layout")
    })
}
