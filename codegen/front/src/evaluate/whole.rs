//! Calls on whole tiles (cooperative level), which are distributed over threads implicitly.

use tilewright_layout::Tuple;

use super::args::{Args, made_from};
use super::value::Value;
use super::{Evaluator, advice, integer};
use crate::source::ast::Span;
use crate::source::problem::Problem;
use crate::tile::pair;
use crate::tile::view::View;
use crate::tile::whole;
use crate::tile::whole::mixed;
use crate::tile::{self, Across};
use crate::values::elem::Elem;
use crate::values::typing::Scalar;

impl Evaluator {
    /// Is it a whole tile?
    pub(super) fn is_whole(&self, view: &View) -> bool {
        whole::is_whole(self.builder.program(), view)
    }

    /// Registers for a function of these views: a whole tile of their broadcast shape if they are whole
    /// tiles, otherwise a fragment of the shape of the first.
    pub(super) fn room_for(&mut self, name: &str, elem: Elem, of: &[View]) -> Result<View, Problem> {
        pair::joint(of)?;
        if let Some(part) = of.iter().find(|view| !self.is_whole(view)) {
            // A block of one thread owns whole tiles.
            let alone = self.builder.program().threads() == 1;
            let tile = of.iter().find(|view| !alone && self.is_whole(view) && !integer::is_one(view));
            if let Some(tile) = tile {
                return Err(mixed(tile, part));
            }
            return self.builder.registers(name, elem, View::joint_shape(of));
        }
        let mut tile: Vec<i64> = Vec::new();
        for view in of {
            let own = view.extents().ok_or_else(|| advice::whole(view, "map"))?;
            tile.resize(own.len(), 1);
            tile.iter_mut().zip(own).for_each(|(all, own)| *all = (*all).max(own));
        }
        self.builder.distributed(name, elem, &tile)
    }

    /// `full::<f32>((BM, BN), 0.0)`
    pub(super) fn full(
        &mut self,
        name: &str,
        elem: Elem,
        shape: &Tuple,
        value: Scalar,
    ) -> Result<Value, Problem> {
        let Some(extents) = shape.modes().map(|mode| mode.product()).collect::<Option<Vec<i64>>>() else {
            return Err(advice::known_at_launch("a tile in registers", shape).arg(0));
        };
        if let Some(extent) = extents.iter().find(|extent| **extent < 1) {
            return Err(Problem::new(format!("a tile has the extent {extent}"))
                .help("write one of at least 1")
                .arg(0));
        }
        let tile = self.builder.distributed(name, elem, &extents)?;
        self.builder.fill(&tile, value.expr).map_err(|problem| match problem.arg {
            Some(0) => problem,
            _ => problem.arg(1),
        })?;
        Ok(Value::View(tile))
    }

    /// A tile of one element, repeated for all elements of another tile and of its rank; others unchanged.
    pub(super) fn fitting(&self, one: View, to: &View) -> View {
        match one.rank() != to.rank() && integer::is_one(&one) {
            true => one.everywhere(to.rank()).unwrap_or(one),
            false => one,
        }
    }

    /// A tile of memory loaded into registers; others unchanged.
    pub(super) fn loaded(&mut self, view: &View) -> Result<View, Problem> {
        let program = self.builder.program();
        if program.forms.contains_key(&view.tensor) {
            return Ok(view.clone());
        }
        let elem = self.builder.elem(view);
        let extents = view.extents().ok_or_else(|| advice::whole(view, "sum"))?;
        let tile = self.builder.distributed(&made_from(&view.name, "loaded"), elem, &extents)?;
        self.builder.copy(view, &tile)?;
        Ok(tile)
    }

    /// The part of a thread loaded from memory into registers; others unchanged.
    pub(super) fn loaded_part(&mut self, view: &View) -> Result<View, Problem> {
        if matches!(self.builder.space(view), tile::Space::Registers { .. }) || view.extents().is_none() {
            return Ok(view.clone());
        }
        let elem = self.builder.elem(view);
        let part = self.builder.registers(&made_from(&view.name, "loaded"), elem, view.shape())?;
        self.builder.copy(view, &part)?;
        Ok(part)
    }

    /// The threads that a reduction of a whole tile spans, derived from the mode.
    pub(super) fn across_threads(&self, args: &Args, across: Across) -> Result<Across, Problem> {
        match across {
            Across::Thread => Ok(Across::Thread),
            _ => {
                let function = args.name.rsplit('_').next().unwrap_or_default();
                Err(Problem::new(format!(
                    "`{}` combines the parts of single threads, and this is a whole tile, distributed over the threads",
                    args.name
                ))
                .help(match super::reduce::parts(&args.name) {
                    Some((_, Across::Cluster(_))) => format!("parallelize the tile, and combine the parts: {}(…)", args.name),
                    Some((None, _)) => "write reduce(t, identity, |a, b| …, mode = 1) for each row, without `mode` for all".into(),
                    Some((Some(_), _)) | None => format!("write {function}(t, 1) for the sums of rows, or {function}(t) for one of all"),
                })
                .arg(0))
            }
        }
    }

    /// `b.along(1)`: a vector as the modes of a matrix see it.
    pub(super) fn along(&mut self, of: &Value, mode: i64, span: Span, at: Span) -> Value {
        let Value::View(view) = of else { return Value::Poison };
        match view.along(mode) {
            Ok(view) => Value::View(view),
            Err(problem) => {
                let at = if problem.arg == Some(0) { at } else { span };
                self.complain(at, problem)
            }
        }
    }
}
