//! The text of tile programs.

use std::collections::{BTreeMap, BTreeSet};

use super::{Reader, Result, Text, Writer, read_field, records, variants, write_field};
use tilewright_layout::Value;

use crate::build::tiled::{Terms, TiledMma};
use crate::thread::{MemoryOrder, Scope};
use crate::tile::view::View;
use crate::tile::{
    Across, Ahead, Arg, Constant, ConstantOf, Form, Group, How, LaunchRule, Multiply, Op, Order, Past,
    Program, Purpose, Raster, Read, Ring, Scalar, Space, Split, StageOrder, Stmt, Submodes, Tensor, Update,
    Var,
};
use crate::values::affine::Affine;
use crate::values::lanes::Lanes;
use crate::values::number::Number;
use crate::values::scan::{Level, Scan};
use crate::values::semiring::Semiring;

/// A line with a field; with its usual value, if it has one, it is left out.
macro_rules! line {
    ($to:ident, $name:expr, $value:expr) => {
        $to.new_line();
        write_field!($to, $name, $value);
    };
    ($to:ident, $name:expr, $value:expr, $usual:expr) => {
        if *$value != $usual {
            line!($to, $name, $value);
        }
    };
}

/// A field for each line.
macro_rules! lines {
    ($($field:ident $(($usual:expr))?)*) => {
        impl Text for Program {
            fn write(&self, to: &mut Writer) {
                to.raw("tile_program {");
                to.indent += 1;
                $(
                    line!(to, stringify!($field), &self.$field $(, $usual)?);
                )*
                if !self.forms.is_empty() || !self.open.is_empty() {
                    to.new_line();
                    write_field!(to, "whole", &(self.forms.clone(), self.open.clone()));
                }
                to.indent -= 1;
                to.new_line();
                to.raw("}");
            }

            fn read(from: &mut Reader<'_>) -> Result<Program> {
                from.needs("tile_program")?;
                from.needs("{")?;
                let mut program = Program {
                    $($field: read_field!(from, stringify!($field) $(, $usual)?),)*
                    ..Program::default()
                };
                if from.takes_word("whole") {
                    (program.forms, program.open) = Text::read(from)?;
                }
                from.needs("}")?;
                Ok(program)
            }
        }
    };
}

lines! {
    name arch grid more(<[Vec<Value>; 3]>::default()) cluster launch divided(0) bands(0) alternates(false) blocks_per_sm overlaps competes(false) packs(Vec::new()) read_sizes(Vec::new()) at_most at_least(Vec::new()) requires(Vec::new())
    args tensors zeroed(BTreeSet::new()) scalars overlays groups rings vars reads(Vec::new()) constants(Vec::new()) tokens orders body
}

records! {
    Tensor { name, elem, space, layout, - span }
    Scalar { name, elem }
    Group { name, warps = None, members = 1, threads, registers = None }
    Ring { name, slots, buffers, from, to, arrivals, over_cluster = false }
    Read { name, elem, per_thread = false, purpose = Purpose::Index }
    Constant { of, name, value }
    Update { with, order = MemoryOrder::Relaxed, scope = Scope::Grid, old = None, expected = None }
    Ahead { stages, fewer = false, fragments = 1, exits = true, producer = false, split = Split::Whole }
    Scan { with, identity, levels, exclusive = false, unmasked = false }
    Semiring { add, mul }
    TiledMma { row, groups, of, terms = Terms::One, - pairs }
}

variants! {
    ConstantOf { "tile" Tile { tensor, mode }, "stages" Stages }
    LaunchRule { "per_tile" PerTile, "persistent" Persistent }
    Split { "whole" Whole, "threads" Threads, "cluster" Cluster(blocks), "blocks" Grid(blocks) }
    Raster { "plain" Plain, "bands" Bands(tiles) }
    Arg { "tensor" Tensor(id), "scalar" Scalar(id) }
    Space { "global" Global { mutable = false }, "shared" Shared { align }, "registers" Registers { words = false } }
    Purpose { "value" Value, "index" Index }
    Past { "skip" Skip, "last" Last, "anyway" Anyway, "inside" Inside }
    How { "derive" Derive, "async" Async, "plain" Plain, "staged" Staged, "realigned" Realigned, "here" Here, "atom" Atom(row) }
    Multiply { "scalar" Scalar(with), "atom" Atom(row) }
    Order { "plain" Plain, "serpentine" Serpentine, "rows" Rows, "row_serpentine" RowSerpentine }
    Lanes { "shuffle" Shuffle(lane), "ballot" Ballot, "match" Match }
    Level { "own" Own { mode, extent }, "threads" Threads(across), "blocks" Blocks(count) }
    Across { "thread" Thread, "warp" Warp(lanes), "block" Block, "cluster" Cluster(blocks), "blocks" Blocks(blocks), "submodes" Submodes(submodes) }
    Terms { "one" One, "two" Two }
    Form { "open" Open, "sums" Sums(mma) }
    Op {
        "copy" Copy { from, to, how = How::Derive, fill = Number::Float(0.0), token = None },
        "take" Take { number, from },
        "map" Map { ins = Vec::new(), to, value },
        "flow" Flow { a, b, acc },
        "contents" Contents { from, to },
        "gemm" Gemm { a, b, acc, how = Multiply::SUMS, order = Order::Plain, token = None },
        "fold" Fold { from, to, with, identity, across, claimed = false },
        "scan" Scan { from, to, carry = Vec::new(), how },
        "lanes" Lanes { ins, to, how, lanes = 32, unmasked = false },
        "atomic" Atomic { from, to, update },
        "gather" Gather { from, at, to },
        "scatter" Scatter { from, at, to, update = None, claimed = false },
        "probe" Probe { of, probe },
        "flag" Flag { flag, with, value },
        "sync_cluster" SyncCluster,
        "commit_copies" CommitCopies,
        "wait" Wait { token = None, but },
        "sync" Sync,
        "for" For { var, unroll, ahead = None, body },
        "leave" Leave { of, test },
        "step" Step { var, at, past, body },
        "if" If { test, then, other = Vec::new() },
        "roles" Roles(roles),
        "acquire" Acquire { ring, phase },
        "publish" Publish { ring, phase, bytes },
        "await" Await { ring, phase },
        "release" Release { ring, phase },
        "advance" Advance { ring },
        "tiles" Tiles { vars, raster, divided = 0, body },
        "ordered" Ordered { order, groups, body },
    }
}

/// `name "k" extent ceil(K/8)`, or where it begins and ends.
impl Text for Var {
    const LINES: bool = true;

    fn write(&self, to: &mut Writer) {
        write_field!(to, "name", &self.name);
        match self.extent() {
            Some(extent) => {
                write_field!(to, "extent", &extent);
            }
            None => {
                write_field!(to, "from", &self.from);
                write_field!(to, "to", &self.to);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Var> {
        let name: String = read_field!(from, "name");
        let extent: Option<Value> = read_field!(from, "extent", None);
        if let Some(extent) = extent {
            return Ok(Var::new(&name, extent));
        }
        Ok(Var { name, from: read_field!(from, "from"), to: read_field!(from, "to") })
    }
}

impl Text for Stmt {
    const LINES: bool = true;

    fn write(&self, to: &mut Writer) {
        if self.by != 0 {
            to.raw(&format!("@{} ", self.by));
        }
        if let Some(StageOrder { stage, order }) = self.stage {
            to.raw(&format!("stage {stage} "));
            if order != stage {
                to.raw(&format!("order {order} "));
            }
        }
        self.op.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Stmt> {
        let by = if from.takes("@") { Text::read(from)? } else { 0 };
        let stage = match read_field!(from, "stage", None) {
            Some(stage) => Some(StageOrder { stage, order: read_field!(from, "order", stage) }),
            None => None,
        };
        Ok(Stmt { stage, ..Stmt::new(Default::default(), by, Op::read(from)?) })
    }
}

/// `"name" %tensor layout + [base, …]`, with limits and clamped modes where there are any.
impl Text for View {
    fn write(&self, to: &mut Writer) {
        self.name.write(to);
        to.raw(&format!(" %{} {} + ", self.tensor, self.layout));
        self.base.write(to);
        if self.limits.iter().any(Option::is_some) {
            write_field!(to, "limits", &self.limits);
        }
        if !self.clamped.is_empty() {
            write_field!(to, "clamped", &self.clamped);
        }
        if self.wraps {
            write_field!(to, "wraps", &self.wraps);
        }
        if !self.nearest.is_empty() {
            write_field!(to, "nearest", &self.nearest);
        }
        if self.peer.is_some() {
            write_field!(to, "peer", &self.peer);
        }
        if self.of_thread && !self.per_thread() {
            write_field!(to, "of_thread", &self.of_thread);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<View> {
        let name = Text::read(from)?;
        from.needs("%")?;
        let (tensor, layout) = (Text::read(from)?, Text::read(from)?);
        from.needs("+")?;
        let base: Vec<Affine> = Text::read(from)?;
        let none = vec![None; base.len()];
        let limits = read_field!(from, "limits", none);
        let clamped = read_field!(from, "clamped", Vec::new());
        let wraps = read_field!(from, "wraps", false);
        let nearest = read_field!(from, "nearest", Vec::new());
        let peer = read_field!(from, "peer", None);
        let of_thread = read_field!(from, "of_thread", false);
        Ok(View { tensor, name, layout, base, limits, clamped, wraps, nearest, peer, of_thread })
    }
}

/// `3 + 4*block(0) - var(2)`
impl Text for Affine {
    fn write(&self, to: &mut Writer) {
        let mut first = true;
        let mut sign = |to: &mut Writer, number: i64| {
            to.raw(match (first, number < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            });
            first = false;
        };
        if self.constant != 0 || self.terms.is_empty() {
            sign(to, self.constant);
            to.raw(&self.constant.unsigned_abs().to_string());
        }
        for (coord, factor) in &self.terms {
            sign(to, *factor);
            if factor.unsigned_abs() != 1 {
                to.raw(&format!("{}*", factor.unsigned_abs()));
            }
            coord.write(to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Affine> {
        let mut sum = Affine::default();
        let mut minus = from.takes("-");
        loop {
            let is_number = from.rest().starts_with(|c: char| c.is_ascii_digit());
            let number: i128 = match is_number {
                true => from.number()?,
                false => 1,
            };
            let number = i64::try_from(if minus { -number } else { number });
            let number = number.map_err(|_| from.wrong("a factor of 64 bits before this"))?;
            if !is_number || from.takes("*") {
                sum.terms.push((Text::read(from)?, number));
            } else {
                sum.constant = number;
            }
            minus = match (from.takes("+"), from.takes("-")) {
                (true, _) => false,
                (_, true) => true,
                _ => return Ok(sum),
            };
        }
    }
}

impl Text for Submodes {
    fn write(&self, to: &mut Writer) {
        self.all().to_vec().write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Submodes> {
        let all: Vec<(u32, u32)> = Text::read(from)?;
        let submodes: Vec<(i64, i64)> =
            all.iter().map(|&(extent, step)| (extent.into(), step.into())).collect();
        Submodes::new(&submodes).ok_or_else(|| from.wrong("digits of a thread's number, smallest step first"))
    }
}

impl Text for BTreeMap<u32, Form> {
    fn write(&self, to: &mut Writer) {
        self.iter().map(|(id, form)| (*id, form.clone())).collect::<Vec<_>>().write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Vec::<(u32, Form)>::read(from)?.into_iter().collect())
    }
}

impl Text for BTreeSet<u32> {
    fn write(&self, to: &mut Writer) {
        self.iter().copied().collect::<Vec<u32>>().write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Vec::<u32>::read(from)?.into_iter().collect())
    }
}
