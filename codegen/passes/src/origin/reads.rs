//! Elements at a position that was read from memory, where the number has no value anymore: elements keep their coordinates
//! longer than a variable its value, as in the next step of a pipelined loop.

use super::is_number;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::elements::Edge;
use crate::tile::{Op, Program, Stmt};

/// Refuses masks and coordinates that depend on such a number, and forgets claims that do.
pub(crate) fn check(program: &mut Program) -> Result<(), Diagnostic> {
    let mut body = std::mem::take(&mut program.body);
    let checked = Reads { program, known: Vec::new() }.walk(&mut body);
    program.body = body;
    checked
}

struct Reads<'p> {
    program: &'p Program,
    /// The numbers that this block or one around it has read so far.
    known: Vec<Id>,
}

impl Reads<'_> {
    fn walk(&mut self, body: &mut [Stmt]) -> Result<(), Diagnostic> {
        let around = self.known.len();
        for stmt in body {
            self.check(stmt)?;
            stmt.bodies_mut().into_iter().try_for_each(|body| self.walk(body))?;
            if let Op::Take { number, .. } = stmt.op {
                self.known.push(number);
            }
        }
        self.known.truncate(around);
        Ok(())
    }

    fn check(&self, stmt: &mut Stmt) -> Result<(), Diagnostic> {
        let Some(elements) = &mut stmt.elements else { return Ok(()) };
        if let Some(number) = elements.used().find_map(|edge| self.ended(edge)) {
            return Err(Problem::new(format!(
                "this tile's position depends on `{}`, which was read in an iteration or an `if` that has ended",
                self.program.reads[number as usize].name
            ))
            .help("reduce it and use coordinates in the iteration or `if` that copies it; or set out-of-bounds elements there, and declare their value: sum(x, out_of_bounds = 0.0)")
            .at(stmt.span));
        }
        if elements.claims.iter().flatten().any(|along| self.ended(&along.edge).is_some()) {
            elements.claims.iter_mut().for_each(Vec::clear);
        }
        Ok(())
    }

    /// A number that the coordinate depends on and that has no value.
    fn ended(&self, edge: &Edge) -> Option<Id> {
        let mut others = (0..self.program.reads.len() as Id).filter(|number| !self.known.contains(number));
        others.find(|number| edge.base.any(&|coord| is_number(coord, *number)))
    }
}
