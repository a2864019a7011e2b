//! What a product on CUDA cores needs of its keys; further arguments and the epilogue of products by the builder.

use tilewright_layout::{Composed, Layout, Tuple, Value as Size};

use super::blame::{Blame, put_by_keys};
use super::config::{Residual, When};
use super::{Config, page};
use crate::build::Builder;
use crate::passes::allocate::ALIGN;
use crate::passes::pipeline::with_slots;
use crate::source::ast::Arg;
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result};
use crate::thread::{Bin, Cmp};
use crate::tile::view::{At, View};
use crate::tile::{self, Program};
use crate::values::affine::Affine;
use crate::values::elem::Elem;
use crate::values::target::Target;

/// Bytes of the narrowest asynchronous copy.
pub(super) const WORD: i64 = 4;

/// The architecture from which on there are clusters.
pub(super) const CLUSTERS: u32 = 90;

/// Numbers of blocks that split K. A number that is not a power of two would leave blocks without an equal part of a tile.
const SPLITS: [i64; 5] = [1, 2, 4, 8, 16];

/// Why a cluster cannot have this number of blocks that split K.
pub(super) fn no_split(split: i64) -> Option<Problem> {
    let message = format!("K is split over the blocks of a cluster, at most 16, and split_k is {split}");
    (!SPLITS.contains(&split)).then(|| Problem::new(message).help("write split_k = 2, 4, 8 or 16"))
}

/// The program, or the error at its key.
pub(super) fn program(c: &Config, args: &[Arg]) -> std::result::Result<Program, Diagnostic> {
    c.checked().map_err(|(key, problem)| put_by_keys(problem, &Blame { key, sizes: [key; 2] }, args, c))?;
    page::threads::program(c, args)
}

impl Config {
    /// Is an operand copied through registers? By its key, or where it is copied ahead in fewer bytes than cp.async moves.
    pub(super) fn is_staged(&self, side: usize) -> bool {
        let rows = [self.a_rows, self.b_rows][side];
        let narrow = self.vec[side] * i64::from(self.dtype.bytes()) < WORD;
        self.staged[usize::from(rows)] || (narrow && self.ahead.stages > 1 && !self.narrow)
    }

    /// Groups of threads, each with a part of K.
    pub(super) fn groups(&self) -> i64 {
        self.tc.modes().nth(2).map_or(Ok(1), |mode| mode.size()).unwrap_or(1)
    }

    /// Are accumulators combined or reordered in shared memory?
    pub(super) fn gathers(&self) -> bool {
        self.groups() > 1 || self.split_k > 1 || self.scatters()
    }

    /// The first key whose value the others do not allow, and why.
    fn checked(&self) -> std::result::Result<(), (&'static str, Problem)> {
        let sides = [(&self.sa, self.a_rows, self.vec[0], "sa"), (&self.sb, self.b_rows, self.vec[1], "sb")];
        for (layout, rows, vec, key) in sides {
            if !rows {
                aligned(layout, vec).map_err(|problem| (key, problem))?;
            }
        }
        match self.unfit_split().or_else(|| self.exceeds()) {
            Some(wrong) => Err(wrong),
            None => Ok(()),
        }
    }

    /// Would a warp's stores of its own accumulators, one by one, be uncoalesced? If shared memory has room
    /// they are reordered there.
    fn scatters(&self) -> bool {
        let run = self.values[usize::from(self.c_rows)];
        let bytes = || Ok::<i64, Problem>(self.bytes_of_tiles()? + self.bytes_of_parts()?);
        self.narrow
            && run > 1
            && bytes().is_ok_and(|bytes| bytes <= i64::from(Target::of(self.arch).block_shared))
    }

    /// Bytes of shared memory for the tiles of all stages.
    fn bytes_of_tiles(&self) -> Result<i64> {
        let slots = i64::from(self.ahead.stages);
        let bytes = |tile| -> Result<i64> {
            let bytes = with_slots(tile, slots)?.cosize()? * i64::from(self.dtype.bytes());
            Ok(bytes.cast_unsigned().next_multiple_of(ALIGN.into()).cast_signed())
        };
        Ok(bytes(&self.sa)? + bytes(&self.sb)?)
    }

    /// Bytes of shared memory for the sums of groups of threads.
    fn bytes_of_parts(&self) -> Result<i64> {
        Ok(self.parts()?.cosize()? * i64::from(self.acc.bytes()))
    }

    /// Why the blocks of a cluster cannot split K, and the key that is wrong.
    fn unfit_split(&self) -> Option<(&'static str, Problem)> {
        let (split, (key, shared)) =
            (self.split_k, if self.c_rows { ("bm", self.bm) } else { ("bn", self.bn) });
        let wrong = |key, message: String, help: &str| Some((key, Problem::new(message).help(help)));
        if let Some(problem) = no_split(split) {
            return Some(("split_k", problem));
        }
        if split > 1 && self.arch < CLUSTERS {
            return wrong(
                "split_k",
                format!(
                    "the blocks of a cluster split K, which sm_{CLUSTERS} has first, and arch is {}",
                    self.arch
                ),
                "write arch = 90, or split K over the threads of a block by a third mode of tc",
            );
        }
        if shared % split != 0 {
            return wrong(
                key,
                format!(
                    "each of {split} blocks adds and stores an equal part of a tile, and {key} is {shared}"
                ),
                &format!("write {key} = {}, or a smaller split_k", (shared / split).max(1) * split),
            );
        }
        None
    }

    /// Why shared memory does not suffice, and the key that is wrong.
    fn exceeds(&self) -> Option<(&'static str, Problem)> {
        let room = i64::from(Target::of(self.arch).block_shared);
        let tiles = self.bytes_of_tiles().ok()?;
        let stages = self.ahead.stages;
        if tiles > room {
            let count = if stages == 1 { "1 stage takes".into() } else { format!("{stages} stages take") };
            let message = format!("{count} {tiles} bytes of shared memory, and a block has {room}");
            return Some(("stages", Problem::new(message).help("write fewer stages, or a smaller bk")));
        }
        let groups = self.groups();
        let gathers = groups > 1 || self.split_k > 1;
        let parts = self.bytes_of_parts().ok().filter(|parts| gathers && tiles + parts > room)?;
        let (key, of, help) = match groups {
            1 => ("bm", "a tile".into(), "write smaller bm and bn"),
            _ => (
                "tc",
                format!("{groups} parts of K"),
                "write a smaller third mode of tc, or smaller bm and bn",
            ),
        };
        let message = format!(
            "the sums of {of} take {parts} bytes of shared memory beside {tiles} of tiles, and a block has {room}"
        );
        Some((key, Problem::new(message).help(help)))
    }

    /// Adjacent elements of a thread along these modes of a product: rows, columns, K.
    pub(super) fn values_of(&self, modes: [usize; 2]) -> [i64; 2] {
        modes.map(|mode| self.values.get(mode).copied().unwrap_or(1))
    }

    /// The shared layout of the accumulators of groups of threads: columns or rows are padded by one access, which avoids bank
    /// conflicts along the other mode.
    pub(super) fn parts(&self) -> Result<Layout> {
        let (bm, bn, wide, groups) = (self.bm, self.bn, self.wide(), self.groups());
        let all = match self.c_rows {
            true => Layout::new((bm, bn, groups), (bn + wide, 1i64, bm * (bn + wide)))?,
            false => Layout::new((bm, bn, groups), (1i64, bm + wide, bn * (bm + wide)))?,
        };
        Ok(if self.tc.rank() > 2 { all } else { Layout::from_modes(all.modes().take(2))? })
    }

    /// Accumulators in 16 bytes.
    fn wide(&self) -> i64 {
        16 / i64::from(self.acc.bytes())
    }
}

/// Further arguments of the epilogue, with a number for each row, column or element of C: whole, as tiles of C, or parts
/// of them.
#[derive(Default)]
pub(super) struct Extras {
    /// Factors of accumulators: for each row, for each column.
    scales: [Option<View>; 2],
    /// The addend, for each row or column.
    bias: Option<View>,
    /// The same, for each element.
    residual: Option<View>,
    /// A second result: the argument of the epilogue's function.
    aux: Option<View>,
}

impl Extras {
    /// Declares the arguments.
    pub(super) fn of(b: &mut Builder, c: &Config) -> Result<Extras> {
        let mut vector = |name: &str, elem, along: usize| {
            let extent = Size::symbol(["M", "N"][along]);
            b.tensor(name, elem, sizes(&[extent]), None, false)
        };
        // Narrow weights have one scale, and so it needs no other name.
        let names = ["scale_rows", if c.mixed() { "scale" } else { "scale_columns" }];
        let mut scale =
            |along: usize| c.scales[along].then(|| vector(names[along], c.scaled(), along)).transpose();
        let scales = [scale(0)?, scale(1)?];
        let bias = c.bias.map(|along| vector("bias", c.out, along)).transpose()?;
        let mut matrix = |name: &str, elem, written| {
            let extents = ["M", "N"].map(Size::symbol);
            argument(b, c, name, elem, (extents, c.c_rows), written)
        };
        let residual = c.residual.map(|Residual { elem, .. }| matrix("residual", elem, false)).transpose()?;
        let aux = c.aux.map(|elem| matrix("aux", elem, true)).transpose()?;
        Ok(Extras { scales, bias, residual, aux })
    }

    /// The arguments of one batch: batches share scales and the bias.
    pub(super) fn of_batch(&self, b: &mut Builder, c: &Config, batch: &Affine) -> Result<Extras> {
        let Extras { scales, bias, residual, aux } = self;
        let mut one =
            |all: &Option<View>| all.as_ref().map(|all| of_batch(b, c, all, batch.clone())).transpose();
        let (residual, aux) = (one(residual)?, one(aux)?);
        Ok(Extras { scales: scales.clone(), bias: bias.clone(), residual, aux })
    }

    /// Their parts at a tile of C. Arguments of rows or of columns are broadcast along the other mode.
    pub(super) fn tile(&self, b: &mut Builder, c: &Config, tile: [i64; 2], at: [&At; 2]) -> Result<Extras> {
        let mut part = |view: &View, along: usize| -> Result<View> {
            let part = b.tile(view, (tile[along],), std::slice::from_ref(at[along]))?;
            let mut shape = tile.map(Some);
            shape[along] = None;
            Ok(b.broadcast(&part, &shape)?.with_name(&format!("g{}", view.name)))
        };
        let [rows, columns] = &self.scales;
        let scales = [
            rows.as_ref().map(|view| part(view, 0)).transpose()?,
            columns.as_ref().map(|view| part(view, 1)).transpose()?,
        ];
        let bias = self.bias.as_ref().zip(c.bias).map(|(view, along)| part(view, along)).transpose()?;
        let mut whole = |view: &Option<View>| -> Result<Option<View>> {
            let Some(view) = view else { return Ok(None) };
            let part = b.tile(view, (tile[0], tile[1]), &at.map(Clone::clone))?;
            Ok(Some(part.with_name(&format!("g{}", view.name))))
        };
        let (residual, aux) = (whole(&self.residual)?, whole(&self.aux)?);
        Ok(Extras { scales, bias, residual, aux })
    }

    /// The same of each.
    pub(super) fn each(&self, mut of: impl FnMut(&View) -> Result<View>) -> Result<Extras> {
        let mut one = |view: &Option<View>| view.as_ref().map(&mut of).transpose();
        let [rows, columns] = &self.scales;
        let (scales, bias) = ([one(rows)?, one(columns)?], one(&self.bias)?);
        Ok(Extras { scales, bias, residual: one(&self.residual)?, aux: one(&self.aux)? })
    }

    /// The parts of a thread.
    pub(super) fn parts(&self, mut of: impl FnMut(&View) -> Result<View>) -> Result<Extras> {
        self.each(|view| Ok(of(view)?.with_name(&format!("t_{}", view.name))))
    }
}

/// A matrix argument; with batches it has a third mode.
pub(super) fn argument(
    b: &mut Builder,
    c: &Config,
    name: &str,
    elem: Elem,
    (extents, by_rows): ([Size; 2], bool),
    written: bool,
) -> Result<View> {
    let ld = Size::symbol(&format!("ld{name}"));
    let (mut shape, mut stride) =
        (extents.to_vec(), if by_rows { vec![ld, 1.into()] } else { vec![1.into(), ld] });
    if c.batched {
        shape.push(Size::symbol("L"));
        stride.push(Size::symbol(&format!("batch_{name}")));
    }
    b.tensor(name, elem, sizes(&shape), Some(sizes(&stride)), written)
}

/// The matrix of one batch.
pub(super) fn of_batch(b: &mut Builder, c: &Config, all: &View, batch: Affine) -> Result<View> {
    match c.batched {
        true => b.slice(all, &[At::All, At::All, At::Index(batch)]),
        false => Ok(all.clone()),
    }
}

/// Sizes as a flat tuple.
fn sizes(of: &[Size]) -> Tuple {
    Tuple::of(of.iter().map(|&size| Tuple::from(size)))
}

/// The epilogue: stores accumulators to `out`. `scaled` is an accumulator times alpha; beta is multiplied by
/// C, read through `before`; the bias and a residual are added before the closure is applied, or the residual after it.
pub(super) fn epilogue(
    b: &mut Builder,
    c: &Config,
    acc: &View,
    (before, out): (&View, &View),
    extras: &Extras,
    scaled: tile::Expr,
    beta: Option<tile::Expr>,
) -> Result<()> {
    let Some(aux) = &extras.aux else {
        return combine(b, c, (acc, before, out), extras, scaled, beta, &|sum, more| c.function(sum, more));
    };
    // Both results are of the same sums.
    let elem = c.scaled();
    let sums = match b.elem(acc) == elem {
        true => acc.clone(),
        false => b.registers_in("sums", elem, acc.shape(), elem.bytes() < 4)?,
    };
    combine(b, c, (acc, before, &sums), extras, scaled, beta, &|sum, _| sum)?;
    let store = |b: &mut Builder, ins: &[View], to: &View, value: tile::Expr| {
        let elem = b.elem(to);
        b.map(ins, to, value.cast(elem))
    };
    store(b, std::slice::from_ref(&sums), aux, tile::Expr::In(0))?;
    let after = extras.residual.as_ref().filter(|_| c.residual_is(When::After));
    let residual = after.map(|_| tile::Expr::In(1).cast(elem));
    let ins: Vec<View> = std::iter::once(&sums).chain(after).cloned().collect();
    store(b, &ins, out, c.function(tile::Expr::In(0), residual.as_ref()))
}

/// Stores accumulators, scaled and added to. `finish` makes the result of a sum, and of a residual that is added to that.
fn combine(
    b: &mut Builder,
    c: &Config,
    (acc, before, out): (&View, &View, &View),
    extras: &Extras,
    scaled: tile::Expr,
    beta: Option<tile::Expr>,
    finish: &dyn Fn(tile::Expr, Option<&tile::Expr>) -> tile::Expr,
) -> Result<()> {
    let elem = b.elem(out);
    // The inputs: accumulators, and after them all others.
    let mut ins = vec![acc.clone()];
    let mut input = |view: &View| {
        ins.push(view.clone());
        tile::Expr::In(ins.len() as u8 - 1).cast(c.scaled())
    };
    let scales = extras.scales.iter().flatten();
    let scaled = scales.fold(scaled, |scaled, scale| binary(Bin::Mul, scaled, input(scale)));
    let bias = extras.bias.as_ref().map(&mut input);
    // A second result does not have a residual that is added after the function.
    let reads = c.residual_is(When::Before) || extras.aux.is_none();
    let residual = extras.residual.as_ref().filter(|_| reads).map(&mut input);
    let (before_it, after) = if c.residual_is(When::Before) { (residual, None) } else { (None, residual) };
    let finish = |sum: tile::Expr| {
        let terms = bias.iter().chain(&before_it);
        finish(terms.fold(sum, |sum, term| binary(Bin::Add, sum, term.clone())), after.as_ref())
    };
    let plain = finish(scaled.clone());
    let alone = |b: &mut Builder| match plain {
        tile::Expr::In(0) if acc == out => Ok(()),
        tile::Expr::In(0) => b.copy(acc, out),
        _ => b.map(&ins, out, plain.clone().cast(elem)),
    };
    let Some(beta) = beta else { return alone(b) };
    // C is read only if beta is not 0. Each branch stores its own values, so that accumulators stay in the
    // registers where the product reads them best.
    let nonzero = tile::Expr::Cmp(Cmp::Ne, Box::new(beta.clone()), Box::new(tile::Expr::lit(0.0)));
    let old = tile::Expr::In(ins.len() as u8).cast(c.scaled());
    let more = finish(tile::Expr::Fma(Box::new([beta, old, scaled.clone()])));
    let all = [&ins[..], std::slice::from_ref(before)].concat();
    b.when(nonzero, |b| b.map(&all, out, more.cast(elem)), alone)
}

fn binary(f: Bin, left: tile::Expr, right: tile::Expr) -> tile::Expr {
    tile::Expr::Bin(f, Box::new(left), Box::new(right))
}

impl Config {
    /// The epilogue's function of a sum, and a residual that is added to it.
    fn function(&self, sum: tile::Expr, residual: Option<&tile::Expr>) -> tile::Expr {
        let value = self.epilogue.as_ref().map_or(sum.clone(), |f| f.with(&sum));
        residual.into_iter().fold(value, |value, more| binary(Bin::Add, value, more.clone()))
    }
}

/// Checks that a shared tile allows vectors of `vec` elements: they must be contiguous, and columns aligned.
fn aligned(layout: &Composed, vec: i64) -> Result<()> {
    let mut strides = layout.layout().leaves().map(|(_, stride)| stride.factor());
    let first = strides.next();
    match strides.find(|stride| stride % vec != 0) {
        _ if vec == 1 => Ok(()),
        None if first == Some(1) => Ok(()),
        odd => Err(Problem::new(format!(
            "copies of {vec} elements need a shared layout whose first stride is 1 and whose others are multiples of {vec}, and this is {}",
            odd.map_or_else(|| layout.to_string(), |stride| format!("{layout}: the stride {stride} is not a multiple"))
        ))
        .help(format!("pad by a multiple of {vec}, or write vec = 1"))),
    }
}
