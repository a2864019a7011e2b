//! Control flow and synchronisation: loops, conditions, waits and barriers.

use tilewright_layout::{Symbol, Value};

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::view::View;
use crate::tile::whole::is_combined;
use crate::tile::{Ahead, Expr, Op, Raster, Read, Require, Space, StageOrder, Stmt, Var};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::limits;

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
        self.push(Op::For { var, unroll, body });
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
    /// [`crate::passes::pipeline`].
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
        self.push(Op::Pipelined { var, ahead: ahead.into(), body });
        done
    }

    /// Statements of a loop's body from here on belong to a later stage: in step `t` of the loop, the statements of stage `s` run
    /// iteration `t - s`. In a step, statements run in the order of their positions; the default position of a stage puts
    /// statements of later iterations first. Results equal the results of the loop without stages; see [`crate::passes::pipeline`].
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
            for (at, stmt) in self.open.last_mut().into_iter().flatten().enumerate() {
                stmt.id = (self.statements + 1 + at as u64) as Id;
                self.program.places.insert(stmt.id, StageOrder::default());
            }
            self.statements += self.open.last().map_or(0, Vec::len) as u64;
        }
        Ok(())
    }

    /// Statements for where a condition on scalar arguments is true, and for where it is false.
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
    /// let beta = b.scalar("beta", Elem::F32);
    /// b.when(beta, |b| b.copy(&tx, &ty), |b| b.fill(&ty, Expr::lit(0.0)))?;
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn when(
        &mut self,
        cond: Expr,
        then: impl FnOnce(&mut Builder) -> Result<()>,
        other: impl FnOnce(&mut Builder) -> Result<()>,
    ) -> Result<()> {
        let (then, other) = (self.body(then)?, self.body(other)?);
        self.push(Op::When { cond, then, other });
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

    /// Statements for where a condition on integers is true, and for where it is false.
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
    pub(crate) fn arms(&mut self, test: Test, arm: &mut dyn FnMut(&mut Builder)) {
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

    /// A requirement on sizes: a launch with other sizes is refused, with this text. A divisor of a size
    /// allows longer vectors, and a constant that is compared with a size is its limit.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Affine, build::Builder, condition::Test};
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("fours");
    /// b.tensor("x", Elem::F32, (Value::symbol("N"),), None, false)?;
    /// let rest = Affine::from(Value::symbol("N")).submode(1, Some(4));
    /// b.require(Test::Equal(rest, 0.into()), "N % 4 == 0")?;
    /// assert_eq!(b.program().requires[0].divides(), Some((Value::symbol("N"), 4)));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn require(&mut self, test: Test, text: &str) -> Result<()> {
        let others =
            |coord: &Coord| !matches!(coord, Coord::Size { .. } | Coord::Submode { .. } | Coord::Two(..));
        if test.any(&others) || !test.scalars().is_empty() {
            return Err(Problem::new("an assertion is checked at launch, and depends on sizes alone")
                .help("write a condition on extents, such as `assert(N % 4 == 0)`"));
        }
        for (size, least, most) in test.limits() {
            if let Some(limit) = least {
                self.at_least(size, limit);
            }
            if let Some(limit) = most.filter(|limit| *limit > 0) {
                self.at_most(size, limit);
            }
        }
        self.program.requires.push(Require { test, text: text.into(), of: None });
        Ok(())
    }

    /// A new symbol for an extent or a number of blocks that is computed from other sizes: a launch computes it, and checks that
    /// an extent has this value.
    pub(crate) fn computed(&mut self, of: &Affine) -> Result<Value> {
        const LONGEST: usize = 64;
        let is_equal = |known: &&Require| matches!(&known.test, Test::Equal(_, known) if known == of);
        if let Some(symbol) = self.program.requires.iter().find(is_equal).and_then(|known| known.of) {
            return Ok(Value::Sym { times: 1, of: symbol, over: 1 });
        }
        let text = crate::tile::verify::text(&self.program, of).trim_matches('`').to_owned();
        let mut name = String::new();
        for word in text.split([' ', '(', ')', ',']).filter(|word| !word.is_empty()) {
            let word = match word {
                "+" => "plus",
                "*" => "times",
                "-" => "minus",
                "/" => "over",
                "%" => "mod",
                word => &word.replace('-', "minus_"),
            };
            name = if name.is_empty() { word.to_owned() } else { format!("{name}_{word}") };
        }
        // A long sum would have a long name, and different sums can have one text.
        let is_taken = |known: &Require| known.of.is_some_and(|of| of.name() == name);
        if name.len() > LONGEST || self.program.requires.iter().any(is_taken) {
            name = format!("size_{}", self.program.requires.len());
        }
        limits::name("a size", &name)?;
        let size = Value::symbol(&name);
        let Value::Sym { of: symbol, .. } = size else { return Ok(size) };
        let test = Test::Equal(size.into(), of.clone());
        self.program.requires.push(Require { test, text, of: Some(symbol) });
        Ok(size)
    }

    /// Sizes that no argument has, but computed extents determine: `R` of `{R + 1}` is that extent less 1. A launch refuses
    /// extents with which such a size would be negative.
    pub(crate) fn solved(&mut self) -> Vec<(Symbol, Affine)> {
        let mut all: Vec<(Symbol, Affine)> = Vec::new();
        let known = self.program.symbols();
        for order in 0..self.program.requires.len() {
            let require = &self.program.requires[order];
            let (Some(extent), Test::Equal(_, of)) = (require.of, &require.test) else { continue };
            let &[(Coord::Size { of: unknown, over: 1 }, 1)] = &of.terms[..] else { continue };
            if known.contains(&unknown) {
                continue;
            }
            let least = of.constant;
            let size = Affine::from(Value::Sym { times: 1, of: extent, over: 1 });
            let Some(solved) = size.plus(&least.into(), -1) else { continue };
            let text = format!("{} >= {least}", require.text);
            let own = Require { test: Test::less(size, least).negated(), text, of: None };
            self.program.requires[order] = own;
            let unknown_size = Coord::Size { of: unknown, over: 1 };
            for require in &mut self.program.requires {
                require.test.each_mut(&mut |at| *at = at.with(&unknown_size, &solved).unwrap_or(at.clone()));
            }
            all.push((unknown, solved));
        }
        all
    }

    /// Loads an element of memory or registers as an integer: a coordinate, a loop bound, a side of a
    /// condition. Out of bounds the integer is -1, which is out of bounds of every tensor.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, view::At};
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("gather");
    /// let ids = b.tensor("ids", Elem::I32, (Value::symbol("N"),), None, false)?;
    /// let table = b.tensor("table", Elem::F32, (Value::symbol("V"), Value::symbol("D")), None, false)?;
    /// let id = b.slice(&ids, &[At::Index(Coord::Block(0).into())])?;
    /// let row = b.take("row", &id)?;
    /// let row = b.slice(&table, &[At::Index(row), At::All])?;
    /// assert_eq!(row.shape().to_string(), "D");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn take(&mut self, name: &str, from: &View) -> Result<Affine> {
        limits::name("a number that is read", name)?;
        if from.extents().map(|all| all.iter().product()) != Some(1i64) {
            return Err(Problem::new(format!(
                "`{}` has the shape {}, and an integer is one element",
                from.name,
                from.shape()
            ))
            .help(format!("index one element of it, such as {}[(block.x)]", from.name)));
        }
        // All threads have the same element of a tile that they share, and of one that they have combined.
        let own = matches!(self.space(from), Space::Registers { .. })
            && !self.program.forms.contains_key(&from.tensor)
            && !is_combined(from.tensor, self.open.iter().flatten());
        let (elem, per_thread) = (self.elem(from), own || from.per_thread());
        let number = self.program.reads.len() as Id;
        self.program.reads.push(Read { name: name.into(), elem, per_thread });
        self.push(Op::Take { number, from: from.clone() });
        Ok(Coord::Loaded { number, per_thread }.into())
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
        self.push(Op::Tiles { vars, raster, body });
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
    /// b.statement(Op::WaitCopies { pending: 2 });
    /// assert_eq!(b.finish().body.len(), 1);
    /// ```
    pub fn statement(&mut self, op: Op) {
        self.push(op);
    }

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

    /// A cluster barrier: earlier writes to each other's shared memory become visible to all.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, tile::Op};
    /// let mut b = Builder::new("meet");
    /// b.cluster([2, 1, 1]);
    /// b.sync_cluster();
    /// assert_eq!(b.finish().body[0].op, Op::SyncCluster);
    /// ```
    pub fn sync_cluster(&mut self) {
        self.push(Op::SyncCluster);
    }

    /// Commits a group of asynchronous copies.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, tile::Op};
    /// let mut b = Builder::new("groups");
    /// b.commit_copies();
    /// b.wait_copies(0);
    /// assert_eq!(b.finish().body[0].op, Op::CommitCopies);
    /// ```
    pub fn commit_copies(&mut self) {
        self.push(Op::CommitCopies);
    }

    /// Waits until at most `pending` groups of copies are in flight.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, tile::Op};
    /// let mut b = Builder::new("groups");
    /// b.wait_copies(1); // the last group may still be on its way
    /// assert_eq!(b.finish().body[0].op, Op::WaitCopies { pending: 1 });
    /// ```
    pub fn wait_copies(&mut self, pending: u32) {
        self.push(Op::WaitCopies { pending });
    }

    /// A token for an asynchronous operation.
    ///
    /// ```
    /// # use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("tokens");
    /// assert_ne!(b.token(), b.token());
    /// ```
    pub fn token(&mut self) -> Id {
        self.program.tokens += 1;
        self.program.tokens - 1
    }

    /// Waits for all that was started under a token.
    ///
    /// ```
    /// # use tilewright_codegen::build::Builder;
    /// let mut b = Builder::new("tokens");
    /// let token = b.token();
    /// b.wait(token);
    /// assert_eq!(b.finish().body.len(), 1);
    /// ```
    pub fn wait(&mut self, token: Id) {
        self.wait_all_but(token, 0);
    }

    /// Waits for all but the last operations that were started under a token.
    ///
    /// ```
    /// # use tilewright_codegen::{build::Builder, tile::Op};
    /// let mut b = Builder::new("tokens");
    /// let token = b.token();
    /// b.wait_all_but(token, 1); // in a loop: what the previous iteration started
    /// assert_eq!(b.finish().body[0].op, Op::Wait { token, but: 1 });
    /// ```
    pub fn wait_all_but(&mut self, token: Id, but: u32) {
        self.push(Op::Wait { token, but });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_computed_sizes_have_different_symbols() {
        let mut b = Builder::new("sizes");
        let of = |over: i64| {
            let rounded = Affine::from(Value::symbol("N")).plus(&Affine::from(7), 1).unwrap();
            rounded.submode(over, None).plus(&Affine::from(1), 1).unwrap()
        };
        let mut name = |over| match b.computed(&of(over)).unwrap() {
            Value::Sym { of, .. } => of.name().to_owned(),
            other => panic!("{other}"),
        };
        assert_eq!(name(4), "N_plus_7_over_4_plus_1");
        assert_eq!(name(8), "N_plus_7_over_8_plus_1");
        assert_eq!(name(4), "N_plus_7_over_4_plus_1");
    }
}
