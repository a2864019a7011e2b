//! A kernel's assertions, its launch, and the waits of its threads.

use super::args::Args;
use super::copies::memory_order;
use super::value::Value;
use super::{Evaluator, integer};
use crate::build::Builder;
use crate::source::problem::Problem;
use crate::thread::{Change, MemoryOrder};
use crate::tile::{Op, StageOrder};
use crate::values::elem::Elem;
use crate::values::limits;

/// A bound of a size: its comparison, and the message where a constant does not fit.
struct Limit {
    fits: fn(&i64, &i64) -> bool,
    otherwise: &'static str,
    help: &'static str,
}

impl Evaluator {
    /// `assert(N % 4 == 0)`
    pub(super) fn assert_call(&mut self, args: &Args) -> Result<Value, Problem> {
        match args.get(0) {
            Some(Value::Bool(true)) => Ok(Value::Unit),
            Some(Value::Bool(false)) => Err(Problem::new("this is false for the constants of this kernel")
                .help("set other constants, or assert something else")
                .arg(0)),
            Some(value) => {
                let test = integer::test(value).ok_or_else(|| args.needs(0, "a condition on sizes"))?;
                let text = integer::text(&test, self.builder.program());
                self.builder.require(test, &text).map_err(|problem| problem.arg(0))?;
                Ok(Value::Unit)
            }
            None => Err(args.needs(0, "a condition on sizes")),
        }
    }

    /// `threads(256)`
    pub(super) fn threads_call(&mut self, args: &Args) -> Result<Value, Problem> {
        self.builder.threads(args.integer(0)?)?;
        Ok(Value::Unit)
    }

    /// `sync_threads()`
    pub(super) fn sync_threads_call(&mut self, _: &Args) -> Result<Value, Problem> {
        self.builder.sync();
        Ok(Value::Unit)
    }

    /// `sync_cluster()`
    pub(super) fn sync_cluster_call(&mut self, _: &Args) -> Result<Value, Problem> {
        self.builder.statement(Op::SyncCluster);
        Ok(Value::Unit)
    }

    /// `signal(flags[(i)])`, `signal(flags[(i)], 2)`
    pub(super) fn signal_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let flag = args.view(0)?;
        let add = if args.get(1).is_some() { args.integer(1)? } else { 1 };
        self.builder.flag(&flag, Change::Add, &add.into())?;
        Ok(Value::Unit)
    }

    /// `wait(flags[(i)], 1)`; or `let seen = wait(tile(flags, 32, i), 1)`, where threads wait for elements of their own.
    pub(super) fn wait_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let flags = args.view(0)?;
        let least = args.get(1).cloned().ok_or_else(|| args.needs(1, "the least value to wait for"))?;
        let order = args.named.first().map(|(_, value, span)| memory_order(value, *span)).transpose();
        let order = match order {
            Ok(Some((order @ (MemoryOrder::Relaxed | MemoryOrder::Acquire), _))) => order,
            Ok(None) => MemoryOrder::Acquire,
            _ => {
                let problem = Problem::new("the order of a wait is \"acquire\" or \"relaxed\"");
                let span = args.named.first().map_or_else(|| args.span(0), |(_, _, span)| *span);
                return Ok(self.complain(span, problem.help("if later statements read what other blocks wrote before, leave `order` out: the default is \"acquire\"")));
            }
        };
        let is_one = integer::is_one(&flags) && !flags.per_thread() && self.builder.elem(&flags) == Elem::I32;
        if is_one && args.naming.is_empty() && args.named.is_empty() {
            let least = match self.coordinates(least, args.span(1)) {
                Value::Poison => return Ok(Value::Poison),
                least => self.integer(&least).ok_or_else(|| args.needs(1, "an integer"))?,
            };
            self.builder.flag(&flags, Change::Await, &least)?;
            return Ok(Value::Unit);
        }
        self.builder.is_awaitable(&flags)?;
        let elem = self.builder.elem(&flags);
        let number = args.number(1)?;
        let least = self.room_for("least", elem, std::slice::from_ref(&flags))?;
        self.builder.fill(&least, number.expr).map_err(|problem| problem.arg(1))?;
        let update = self.update(Change::Await, Some(order), &flags, args)?;
        let seen = update.old.clone();
        self.builder.atomic(&least, &flags, update)?;
        Ok(seen.map_or(Value::Unit, Value::View))
    }

    /// `stage(1, order = 0)`
    pub(super) fn stage_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let stage = u32::try_from(args.integer(0)?).map_err(|_| args.needs(0, "the number of a stage"))?;
        let mut at = StageOrder::from(stage);
        for (name, value, _) in &args.named {
            at.order = match value {
                Value::Int(n) if u32::try_from(*n).is_ok() => *n as u32,
                other => {
                    let problem = format!(
                        "`{}` is a position within a step of the loop, an integer, and this is {}",
                        name.text,
                        other.kind()
                    );
                    return Err(Problem::new(problem).help("write stage(1, order = 0)"));
                }
            };
        }
        self.builder.stage(at)?;
        Ok(Value::Unit)
    }

    /// `cp_async_wait_all()`
    pub(super) fn cp_async_wait_all_call(&mut self, _: &Args) -> Result<Value, Problem> {
        self.builder.wait(None, 0);
        Ok(Value::Unit)
    }

    /// `cp_async_wait(1)`
    pub(super) fn cp_async_wait_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let pending = u32::try_from(args.integer(0)?).map_err(|_| args.needs(0, "a number of groups"))?;
        self.builder.wait(None, pending);
        Ok(Value::Unit)
    }

    /// `cp_async_commit()`
    pub(super) fn cp_async_commit_call(&mut self, _: &Args) -> Result<Value, Problem> {
        self.builder.statement(Op::CommitCopies);
        Ok(Value::Unit)
    }

    /// `at_most(N, 8192)`
    pub(super) fn at_most_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let help = "choose larger tiles, so that they hold all of it";
        self.limit(args, Limit { fits: i64::le, otherwise: "more", help }, Builder::at_most)
    }

    /// `at_least(N, 4097)`
    pub(super) fn at_least_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let help = "choose a smaller bound: more accesses are checked then";
        self.limit(args, Limit { fits: i64::ge, otherwise: "less", help }, Builder::at_least)
    }

    fn limit(
        &mut self,
        args: &Args,
        Limit { fits, otherwise, help }: Limit,
        add: fn(&mut Builder, tilewright_layout::Value, i64) -> &mut Builder,
    ) -> Result<Value, Problem> {
        let limit = args.integer(1)?;
        let is_most = fits(&0, &1);
        let size = args.get(0).cloned().map(|size| self.counted(size)).transpose()?;
        match &size {
            Some(Value::Size(size)) if limit >= i64::from(is_most) => {
                add(&mut self.builder, *size, limit);
                Ok(Value::Unit)
            }
            Some(Value::Int(size)) if fits(size, &limit) => Ok(Value::Unit),
            Some(Value::Int(size)) => {
                Err(Problem::new(format!("{size} is {otherwise} than {limit}")).help(help).arg(0))
            }
            Some(Value::Size(_)) if is_most => Err(args.needs(1, "a positive integer")),
            Some(Value::Size(_)) => Err(args.needs(1, "a positive integer or 0")),
            Some(Value::View(_) | Value::Index(_) | Value::Number(_)) => {
                let with = if is_most { "min" } else { "max" };
                Err(Problem::new(format!(
                    "`{}` bounds a size, which a launch checks; this value is known only while the kernel runs",
                    args.name
                ))
                .help(format!("bound it where it is used: {with}(offsets[(i)], {limit})"))
                .arg(0))
            }
            _ => Err(args.needs(0, "a size, such as N or x.size(1),")),
        }
    }

    /// `blocks_per_sm(4)`
    pub(super) fn blocks_per_sm_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let blocks = u32::try_from(args.integer(0)?).map_err(|_| args.needs(0, "a number of blocks"))?;
        self.builder.program_mut().blocks_per_sm = blocks;
        Ok(Value::Unit)
    }

    /// `raster(8)`
    pub(super) fn raster_call(&mut self, args: &Args) -> Result<Value, Problem> {
        match u32::try_from(args.integer(0)?) {
            Ok(bands @ 1..) => {
                self.builder.program_mut().bands = bands;
                Ok(Value::Unit)
            }
            _ => Err(args.needs(0, "a positive number of rows of tiles")),
        }
    }

    /// `persistent()`, `persistent(alternate = true)`
    pub(super) fn persistent_call(&mut self, args: &Args) -> Result<Value, Problem> {
        self.builder.persistent();
        match args.named.iter().find(|(name, ..)| name.text == "alternate") {
            None => {}
            Some((_, Value::Bool(alternate), _)) => {
                self.builder.program_mut().alternates = *alternate;
            }
            Some((_, other, _)) => {
                return Err(Problem::new(format!(
                    "`alternate` must be true or false, and this is {}",
                    other.kind()
                ))
                .help("write alternate = true"));
            }
        }
        Ok(Value::Unit)
    }

    /// `cluster(8)`
    pub(super) fn cluster_call(&mut self, args: &Args) -> Result<Value, Problem> {
        match u32::try_from(args.integer(0)?) {
            Ok(blocks @ 1..=limits::MOST_BLOCKS) => {
                self.builder.cluster([blocks, 1, 1]);
                self.builder.arch(if blocks > 1 { 90 } else { 0 });
                Ok(Value::Unit)
            }
            _ => Err(args.needs(0, &format!("a number of blocks from 1 to {}", limits::MOST_BLOCKS))),
        }
    }
}
