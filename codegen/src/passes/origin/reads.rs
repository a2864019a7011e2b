//! Elements at a position that was read from memory, where the number has no value anymore: elements keep their coordinates
//! longer than a variable its value, as in the next step of a pipelined loop.

use super::{Analysis, Edge, is_number};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Problem;
use crate::thread::Id;
use crate::tile::{Op, Program, Stmt};

/// Refuses masks and coordinates that depend on such a number, and forgets claims that do. The program is the one that is lowered.
pub(super) fn check(program: &Program, analysis: &mut Analysis) -> Result<(), Diagnostic> {
    Reads { program, known: Vec::new() }.walk(&program.body, analysis)
}

struct Reads<'p> {
    program: &'p Program,
    /// The numbers that this block or one around it has read so far.
    known: Vec<Id>,
}

impl Reads<'_> {
    fn walk(&mut self, body: &[Stmt], analysis: &mut Analysis) -> Result<(), Diagnostic> {
        let around = self.known.len();
        for stmt in body {
            self.check(stmt, analysis)?;
            stmt.bodies().into_iter().try_for_each(|body| self.walk(body, analysis))?;
            if let Op::Take { number, .. } = stmt.op {
                self.known.push(number);
            }
        }
        self.known.truncate(around);
        Ok(())
    }

    fn check(&self, stmt: &Stmt, analysis: &mut Analysis) -> Result<(), Diagnostic> {
        let masks = analysis.masks.get(&stmt.id).into_iter().flatten();
        let coordinates = analysis.coordinates.get(&stmt.id).into_iter().flatten().flatten();
        if let Some(number) = masks.chain(coordinates).find_map(|edge| self.ended(edge)) {
            return Err(Problem::new(format!(
                "this tile's position depends on `{}`, which was read in an iteration or an `if` that has ended",
                self.program.reads[number as usize].name
            ))
            .help("reduce it, and use coordinates, where it is copied; or set out-of-bounds elements there, and declare their value: sum(x, out_of_bounds = 0.0)")
            .at(stmt.span));
        }
        if let Some(claims) = analysis.claims.get_mut(&stmt.id)
            && claims.iter().flatten().any(|along| self.ended(&along.edge).is_some())
        {
            claims.iter_mut().for_each(Vec::clear);
        }
        Ok(())
    }

    /// A number that the coordinate depends on and that has no value.
    fn ended(&self, edge: &Edge) -> Option<Id> {
        let mut others = (0..self.program.reads.len() as Id).filter(|number| !self.known.contains(number));
        others.find(|number| edge.base.any(&|coord| is_number(coord, *number)))
    }
}
