//! Loops, and how they are left: the innermost by `break`, one around it by a flag that is tested behind each loop in between.

use super::Printer;
use super::names::Thing;
use super::piece::Level;
use super::statement::c_int;
use crate::thread::index::Ix;
use crate::thread::mention::is_left_in;
use crate::thread::{Id, Op, Stmt, Unroll};

/// A loop around the statement that is being printed.
pub(super) struct Loop {
    var: Id,
    /// While an inner loop that leaves this one is printed: the flag that it sets.
    done: Option<String>,
}

impl Printer<'_> {
    pub(super) fn for_loop(&mut self, stmt: &Stmt) {
        let Op::For { var, from, to, step, unroll, body } = &stmt.op else {
            return;
        };
        let left: Vec<usize> =
            (0..self.loops.len()).filter(|&at| is_left_in(body, self.loops[at].var)).collect();
        for &at in &left {
            if self.loops[at].done.is_none() {
                let outer = self.names.vars[self.loops[at].var as usize].clone();
                let done = self.names.unique(&format!("{outer}_done"));
                self.line(&format!("bool {done} = false;"));
                self.loops[at].done = Some(done);
            }
        }
        let (from, to) = (self.int(*from), self.int_piece(*to).at(Level::Shift));
        let row = &self.kernel.vars[*var as usize];
        self.names.open();
        let name = self.names.declare(Thing::Var(*var), &row.name);
        let kind = c_int(row.wide);
        let step = if *step == 1 { format!("++{name}") } else { format!("{name} += {step}") };
        match unroll {
            Unroll::No => self.line("#pragma unroll 1"),
            Unroll::By(n) => self.line(&format!("#pragma unroll {n}")),
            Unroll::Full => self.line("#pragma unroll"),
        }
        self.line(&format!("for ({kind} {name} = {from}; {name} < {to}; {step}) {{"));
        self.loops.push(Loop { var: *var, done: None });
        match unroll {
            Unroll::Full => self.unmarked(|printer| printer.indented(body)),
            _ => self.indented(body),
        }
        self.loops.pop();
        self.line("}");
        self.names.close();
        for at in left {
            let done = match at + 1 == self.loops.len() {
                true => self.loops[at].done.take(),
                false => self.loops[at].done.clone(),
            };
            self.line(&format!("if ({}) break;", done.unwrap_or_default()));
        }
    }

    /// Leaves a loop around this statement.
    pub(super) fn leave(&mut self, of: Id, cond: Ix) {
        let always = self.exprs.constant(cond).is_some_and(|condition| condition != 0);
        let cond = self.int(cond);
        let done = match self.loops.split_last() {
            Some((innermost, around)) if innermost.var != of => {
                around.iter().rfind(|around| around.var == of).and_then(|around| around.done.clone())
            }
            _ => None,
        };
        let cond = if always { String::new() } else { format!("if ({cond}) ") };
        match (done, always) {
            (None, _) => self.line(&format!("{cond}break;")),
            (Some(done), true) => {
                self.line(&format!("{done} = true;"));
                self.line("break;");
            }
            (Some(done), false) => {
                self.line(&format!("{cond}{{"));
                self.depth += 1;
                self.line(&format!("{done} = true;"));
                self.line("break;");
                self.depth -= 1;
                self.line("}");
            }
        }
    }
}
