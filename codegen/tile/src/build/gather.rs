//! Gathers and scatters: accesses to elements whose coordinates are elements.

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::{Change, Id};
use crate::tile::view::{At, View};
use crate::tile::{Op, Purpose, Read, Space, Update};
use crate::values::affine::Coord;
use crate::values::elem::Elem;

impl Builder {
    /// Loads each element of `to`, in registers, from coordinates in memory that are elements too: the
    /// coordinate along each mode of `from` is the element of a tile of integers in registers. An element out
    /// of bounds is 0.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// let table = b.tensor("table", Elem::F32, (Value::symbol("N"),), None, false)?;
    /// let (at, to) = (b.registers("at", Elem::I32, (4,))?, b.registers("to", Elem::F32, (4,))?);
    /// b.fill(&at, tilewright_codegen::tile::Expr::lit(2))?;
    /// b.gather(&table, &[at], &to)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn gather(&mut self, from: &View, at: &[View], to: &View) -> Result<()> {
        self.writable(to, 1)?;
        let (from, at) = self.indices(from, at, to)?;
        self.write(Op::Gather { from, at, to: to.clone() })
    }

    /// Stores each element of `from`, in registers, at its coordinates in memory, or updates the element
    /// there; see [`Builder::gather`]. Coordinates out of bounds are skipped, and so are elements that come
    /// from out-of-bounds elements of a tensor. With `claimed`, the author claims that these have coordinates out of bounds.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, thread::Change, tile::Expr};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// let bins = b.tensor("bins", Elem::I32, (Value::symbol("N"),), None, true)?;
    /// let (at, one) = (b.registers("at", Elem::I32, (4,))?, b.registers("one", Elem::I32, (4,))?);
    /// b.fill(&at, Expr::lit(2))?;
    /// b.fill(&one, Expr::lit(1))?;
    /// b.scatter(&one, &[at], &bins, Some(Change::Add.into()), false)?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn scatter(
        &mut self,
        from: &View,
        at: &[View],
        to: &View,
        update: Option<Update>,
        claimed: bool,
    ) -> Result<()> {
        self.writable(to, 1)?;
        let (to, at) = self.indices(to, at, from)?;
        if let Some(update) = &update {
            self.can_update(&to, update)?;
        }
        self.push(Op::Scatter { from: from.clone(), at, to, update, claimed });
        Ok(())
    }

    /// Refuses an atomic update that the hardware does not have.
    pub(super) fn can_update(&self, to: &View, update: &Update) -> Result<()> {
        let elem = self.elem(to);
        let name = Change::ALL.iter().find(|row| row.1 == update.with).map_or("", |row| row.0);
        if !update.with.changes(elem) {
            let all = Change::ALL.iter().filter(|row| row.1.changes(elem)).map(|row| row.0);
            let all = all.collect::<Vec<_>>().join(", ");
            let message =
                format!("elements of `{}` are {elem}, and hardware has no atomic {name} of them", to.name);
            return Err(Problem::new(message)
                .help(match all.is_empty() {
                    true => "update elements of f32 or i32".to_owned(),
                    false => format!("atomic updates of {elem} are {all}"),
                })
                .arg(1));
        }
        let help = "write how = \"atomic_compare_exchange\", expected = 0: a number, or a tile with one for each element";
        match (update.with == Change::CompareExchange, &update.expected) {
            (true, None) => {
                return Err(Problem::new("a compare-and-exchange needs the argument `expected`").help(help));
            }
            (false, Some(_)) => {
                return Err(Problem::new(format!("an atomic {name} has no argument `expected`")).help(help));
            }
            _ => {}
        }
        if let Some(expected) = &update.expected
            && (self.elem(expected) != elem || !matches!(self.space(expected), Space::Registers { .. }))
        {
            let message =
                format!("`expected` must be a tile of {elem} in registers, and `{}` is not", expected.name);
            return Err(
                Problem::new(message).help(format!("`{}` has elements of {elem}: convert it", to.name))
            );
        }
        if let Some(old) = &update.old {
            let registers = matches!(self.space(old), Space::Registers { .. });
            let kept =
                !matches!(update.with, Change::Min | Change::Max) && !matches!(elem, Elem::F16 | Elem::Bf16);
            if !registers || self.elem(old) != elem || !kept && elem.is_float() {
                let message =
                    format!("the elements before an atomic {name} of {elem} cannot go to `{}`", old.name);
                return Err(Problem::new(message).help(
                    "they go to registers of the same type: of i32 and u32 always, of f32 and f64 where they are added or exchanged",
                ));
            }
        }
        Ok(())
    }

    /// The element of memory that numbers name, and the numbers.
    fn indices(&mut self, memory: &View, at: &[View], own: &View) -> Result<(View, Vec<(Id, View)>)> {
        if matches!(self.space(memory), Space::Registers { .. }) {
            return Err(Problem::new(format!(
                "`{}` is in registers, whose elements have no addresses",
                memory.name
            ))
            .help("copy it to shared memory first: let s = shared::<f32>((64, 64)); copy(x, s); the elements that other lanes of a warp have at the same index of their parts are warp_shuffle(x, lane)"));
        }
        if self.elem(memory) != self.elem(own) {
            let (one, other) = (self.elem(memory), self.elem(own));
            return Err(Problem::new(format!(
                "`{}` is of type {one}, and `{}` of type {other}",
                memory.name, own.name
            )));
        }
        let (mut coordinates, mut numbers) = (Vec::new(), Vec::new());
        for view in at {
            crate::tile::pair::align(view, own)?;
            if self.elem(view) != Elem::I32 || !matches!(self.space(view), Space::Registers { .. }) {
                return Err(Problem::new(format!("`{}` is not a tile of i32 in registers", view.name)));
            }
            let number = self.program.reads.len() as Id;
            let (name, purpose) = (view.name.clone(), Purpose::Index);
            self.program.reads.push(Read { name, elem: Elem::I32, per_thread: true, purpose });
            coordinates.push(At::Index(Coord::Loaded { number, per_thread: true }.into()));
            numbers.push((number, view.clone()));
        }
        let one = if coordinates.is_empty() { memory.clone() } else { self.slice(memory, &coordinates)? };
        if one.extents().map(|all| all.iter().product()) != Some(1i64) {
            return Err(Problem::new(format!(
                "`{}` has the shape {}, and a gather needs one index for each mode",
                one.name,
                one.shape()
            ))
            .help("write a coordinate for each mode"));
        }
        Ok((one, numbers))
    }
}
