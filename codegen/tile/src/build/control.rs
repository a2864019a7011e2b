//! Control flow: loops, conditions and tiles.

use tilewright_layout::Value;

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::{Ahead, Op, Raster, StageOrder, Stmt, Var};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;

/// The last stage of a loop: more only take registers.
const MOST_STAGE: u32 = 7;
/// The last position in a step.
const MOST_ORDER: u32 = 63;

impl Builder {
    /// A loop over `0..to`: an integer, a size, or any number that is known where the loop begins. The body
    /// receives the variable.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, tile::*, thread::{Bin, Un, Unroll}, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// # let block = [At::Index(Coord::Block(0).into())];
    /// # let (x, y) = (b.tile(&x, (1024,), &block)?, b.tile(&y, (1024,), &block)?);
    /// # let threads = layout!(256 : 1);
    /// # let (tx, ty) = (b.parallelize(&x, &threads)?, b.parallelize(&y, &threads)?);
    /// let tiles = b.tile(&x, (256,), &[At::All])?;
    /// let parts = b.parallelize(&tiles, &threads)?;
    /// let out = b.registers("out", Elem::F32, (1i64,))?;
    /// b.repeat("k", Value::Int(4), Unroll::No, |b, k| {
    ///     let part = b.slice(&parts, &[At::All, At::Index(k)])?;
    ///     b.copy(&part, &out)
    /// })?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn repeat<T>(
        &mut self,
        name: &str,
        to: impl Into<Affine>,
        unroll: Unroll,
        body: impl FnOnce(&mut Builder, Affine) -> T,
    ) -> T {
        self.repeat_over(name, 0, to, unroll, body)
    }

    /// A loop over `from..to`, which may depend on the block, on sizes, on arguments, on variables of
    /// enclosing loops, and on loaded integers.
    ///
    /// ```
    /// # use tilewright_codegen::{affine::{Affine, Coord}, build::Builder, thread::Unroll};
    /// let mut b = Builder::new("triangle");
    /// let next = Affine::from(Coord::Block(0)).plus(&1.into(), 1).unwrap();
    /// b.repeat_over("j", 0, next, Unroll::No, |b, _| b.sync());
    /// assert_eq!(b.finish().vars[0].extent(), None);
    /// ```
    pub fn repeat_over<T>(
        &mut self,
        name: &str,
        from: impl Into<Affine>,
        to: impl Into<Affine>,
        unroll: Unroll,
        body: impl FnOnce(&mut Builder, Affine) -> T,
    ) -> T {
        let (var, body, done) = self.loop_body(name, from.into(), to.into(), body);
        self.push(Op::For { var, unroll, ahead: None, body });
        done
    }

    /// Leaves the loop of a variable where a condition is true. The condition is uniform in the group.
    ///
    /// ```
    /// # use tilewright_codegen::{affine::Coord, build::Builder, condition::Test, thread::Unroll};
    /// # let mut b = Builder::new("example");
    /// b.repeat_over("k", 0, 10, Unroll::No, |b, k| {
    ///     let [(Coord::Var(of), _)] = k.terms[..] else { return };
    ///     b.leave(of, Test::less(Coord::Block(0), k));
    /// });
    /// assert_eq!(b.finish().body.len(), 1);
    /// ```
    pub fn leave(&mut self, of: Id, test: Test) {
        self.push(Op::Leave { of, test });
    }

    /// A loop's variable and body, and the result of the closure.
    fn loop_body<T>(
        &mut self,
        name: &str,
        from: Affine,
        to: Affine,
        body: impl FnOnce(&mut Builder, Affine) -> T,
    ) -> (Id, Vec<Stmt>, T) {
        let (span, var) = (self.span, self.program.vars.len() as Id);
        self.program.vars.push(Var { name: name.into(), from, to });
        self.open.push(Vec::new());
        self.loops.push((self.open.len(), None));
        let done = body(self, Coord::Var(var).into());
        self.loops.pop();
        let body = self.open.pop().unwrap_or_default();
        self.span = span;
        (var, body, done)
    }

    /// A software-pipelined loop over `0..extent`: its copies from global to shared memory run `stages - 1`
    /// iterations ahead. The body copies tiles and then uses them, without waits or barriers; see
    /// the pass `pipeline`.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, view::{At, Partition}};
    /// # use tilewright_layout::{Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// let threads = layout!(128 : 1);
    /// let wide = Partition { values: vec![4], ..Partition::default() };
    /// let (x, y) = (b.tile(&x, (512,), &[At::All])?, b.tile(&y, (512,), &[At::All])?);
    /// let s = b.shared("s", Elem::F32, layout!(512 : 1))?;
    /// let from = b.parallelize_over(&x, &threads, 0, &wide)?;
    /// let to = b.parallelize_over(&s, &threads, 0, &wide)?;
    /// let (own, out) = (b.parallelize(&s, &threads)?, b.parallelize(&y, &threads)?);
    /// b.pipelined("k", n.ceil_div(512).unwrap(), 3, |b, k| {
    ///     let at = [At::All, At::Index(k)];
    ///     let (from, out) = (b.slice(&from, &at)?, b.slice(&out, &at)?);
    ///     b.copy(&from, &to)?; // of iteration k + 2
    ///     b.copy(&own, &out) // of iteration k
    /// })?;
    /// let source = tilewright_codegen::generate(b.finish()).kernel.unwrap().source().to_owned();
    /// assert!(source.contains("cp_async_wait<1>()"));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn pipelined<T>(
        &mut self,
        name: &str,
        to: impl Into<Affine>,
        ahead: impl Into<Ahead>,
        body: impl FnOnce(&mut Builder, Affine) -> T,
    ) -> T {
        let (var, body, done) = self.loop_body(name, 0.into(), to.into(), body);
        self.push(Op::For { var, unroll: Unroll::No, ahead: Some(ahead.into()), body });
        done
    }

    /// Statements of a loop's body from here on belong to a later stage: in step `t` of the loop, the statements of stage `s` run
    /// iteration `t - s`. In a step, statements run in the order of their positions; the default position of a stage puts
    /// statements of later iterations first. Results equal the results of the loop without stages; see the pass `pipeline`.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, thread::Unroll, view::At};
    /// # use tilewright_layout::{Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let n = Value::symbol("N");
    /// # let (x, y) = (b.tensor("x", Elem::F32, (n,), None, false)?, b.tensor("y", Elem::F32, (n,), None, true)?);
    /// let (x, y) = (b.tile(&x, (256,), &[At::All])?, b.tile(&y, (256,), &[At::All])?);
    /// let (x, y) = (b.parallelize(&x, &layout!(256 : 1))?, b.parallelize(&y, &layout!(256 : 1))?);
    /// let t = b.registers("t", Elem::F32, (1i64,))?;
    /// b.repeat("k", n.ceil_div(256).unwrap(), Unroll::No, |b, k| {
    ///     let at = [At::All, At::Index(k)];
    ///     let (from, to) = (b.slice(&x, &at)?, b.slice(&y, &at)?);
    ///     b.copy(&from, &t)?; // of iteration k + 1
    ///     b.stage(1)?;
    ///     b.copy(&t, &to) // of iteration k
    /// })?;
    /// assert!(tilewright_codegen::generate(b.finish()).kernel.unwrap().source().contains("t_1"));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn stage(&mut self, order: impl Into<StageOrder>) -> Result<()> {
        let order = order.into();
        let depth = self.open.len();
        let Some((_, now)) = self.loops.last_mut().filter(|(of, _)| *of == depth) else {
            let problem = Problem::new("`stage` is a statement of a loop's body, and this is not in one");
            return Err(
                problem.help("write stage(1) in the body of a `for`, outside of the conditions in it")
            );
        };
        if order.stage > MOST_STAGE || order.order > MOST_ORDER {
            let problem = Problem::new(format!(
                "a loop has the stages 0 to {MOST_STAGE}, with `order` 0 to {MOST_ORDER}, and this is stage {}, order {}",
                order.stage, order.order
            ));
            return Err(problem.help("write stage(1)"));
        }
        if now.replace(order).is_none() {
            // Statements before the first `stage` belong to stage 0.
            for stmt in self.open.last_mut().into_iter().flatten() {
                stmt.stage = Some(StageOrder::default());
            }
        }
        Ok(())
    }

    /// Statements for where a uniform coordinate is below a size.
    ///
    /// ```
    /// # use tilewright_codegen::{affine::Coord, build::Builder};
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("first_blocks");
    /// b.condition(&Coord::Block(0).into(), Value::Int(4), |b| Ok(b.sync()))?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn condition(
        &mut self,
        left: &Affine,
        right: Value,
        then: impl FnOnce(&mut Builder) -> Result<()>,
    ) -> Result<()> {
        self.branch(Test::less(left.clone(), right), then, |_| Ok(()))
    }

    /// Statements for where a condition is true, and for where it is false.
    ///
    /// ```
    /// # use tilewright_codegen::{affine::Coord, build::Builder, condition::Test};
    /// let mut b = Builder::new("first_block");
    /// b.branch(Test::Equal(Coord::Block(0).into(), 0.into()), |b| Ok(b.sync()), |_| Ok(()))?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn branch(
        &mut self,
        test: Test,
        then: impl FnOnce(&mut Builder) -> Result<()>,
        other: impl FnOnce(&mut Builder) -> Result<()>,
    ) -> Result<()> {
        let span = self.span;
        let (then, other) = (self.body(then)?, self.body(other)?);
        self.span = span;
        self.push(Op::If { test, then, other });
        Ok(())
    }

    /// The same with one closure that is called for each arm, one after the other.
    pub fn arms(&mut self, test: Test, arm: &mut dyn FnMut(&mut Builder)) {
        let span = self.span;
        let mut body = || {
            self.open.push(Vec::new());
            arm(self);
            self.open.pop().unwrap_or_default()
        };
        let (then, other) = (body(), body());
        self.span = span;
        self.push(Op::If { test, then, other });
    }

    /// A persistent tile scheduler with a raster order that reuses the L2 cache: the body runs for each
    /// tile of a block and receives its coordinates. In other kernels there is a block for each tile.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, tile::Raster, problem::Result};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// let tiles = [("m", Value::symbol("M").ceil_div(128).unwrap()), ("n", Value::symbol("N").ceil_div(256).unwrap())];
    /// b.persistent();
    /// b.tiles(&tiles, Raster::Bands(8), |b, at| -> Result<()> {
    ///     assert_eq!(at.len(), 2);
    ///     Ok(b.sync())
    /// })?;
    /// assert_eq!(b.finish().grid[1].unwrap().to_string(), "ceil(N/256)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn tiles<T>(
        &mut self,
        modes: &[(&str, Value)],
        raster: Raster,
        body: impl FnOnce(&mut Builder, &[Affine]) -> T,
    ) -> T {
        let span = self.span;
        let first = self.program.vars.len() as Id;
        for (axis, (name, extent)) in modes.iter().enumerate() {
            self.program.vars.push(Var::new(name, *extent));
            if let Some(grid) = self.program.grid.get_mut(axis) {
                grid.get_or_insert(*extent);
            }
        }
        let vars: Vec<Id> = (first..first + modes.len() as Id).collect();
        let at: Vec<Affine> = vars.iter().map(|&var| Coord::Var(var).into()).collect();
        self.open.push(Vec::new());
        let done = body(self, &at);
        let body = self.open.pop().unwrap_or_default();
        self.span = span;
        self.push(Op::Tiles { vars, raster, divided: 0, body });
        done
    }

    /// The statements of a body.
    pub(super) fn body(&mut self, body: impl FnOnce(&mut Builder) -> Result<()>) -> Result<Vec<Stmt>> {
        self.open.push(Vec::new());
        let done = body(self);
        let body = self.open.pop().unwrap_or_default();
        done.map(|()| body)
    }

    /// A statement without its own method.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, tile::Op};
    /// let mut b = Builder::new("by_hand");
    /// b.statement(Op::Wait { token: None, but: 2 });
    /// assert_eq!(b.finish().body.len(), 1);
    /// ```
    pub fn statement(&mut self, op: Op) {
        self.push(op);
    }
}
