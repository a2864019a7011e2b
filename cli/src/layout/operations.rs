//! The table of operations: everything that the command can apply, by its name in the library.

use super::item::{Failure, Item, Kind};
use Kind::{Layout as L, Layouts, Number as N, Tiler as T, Tuple as C, Tuples, Value as V};
use tilewright_codegen::source::spelling::did_you_mean;
use tilewright_layout::{Composed, Layout, MmaAtom, TiledCopy, TiledMma, Tiler, Tuple, Value};

type Answer = Result<Item, Failure>;

/// One row of the table.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Its operands; the last `optional` may be left out.
    takes: &'static [Kind],
    optional: usize,
    run: fn(&Arguments) -> Answer,
    pub(crate) law: Law,
    pub(crate) help: &'static str,
    /// An example that has an answer.
    example: &'static str,
}

/// How an answer is checked against its operands; see `explain`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Law {
    /// No law: a number, or a fact.
    None,
    /// The same function of an integer.
    Same,
    /// `R(c) = A(B(c))`.
    Composition,
    /// The first mode of `R` is `A(B(c))`.
    Tile,
    /// The first part of `R` is `A`.
    Copies,
    /// `A` and `R` together reach every offset once.
    Complement,
    /// `A(R(i)) = i`.
    RightInverse,
    /// `R(A(i)) = i`.
    LeftInverse,
}

const fn row(
    name: &'static str,
    takes: &'static [Kind],
    run: fn(&Arguments) -> Answer,
    law: Law,
    help: &'static str,
    example: &'static str,
) -> Operation {
    Operation { name, takes, optional: 0, run, law, help, example }
}

impl Operation {
    /// The same row, with its last operand optional.
    const fn last_optional(mut self) -> Operation {
        self.optional = 1;
        self
    }

    /// The kind of operand number `index`, if there is one.
    pub(crate) fn kind(&self, index: usize) -> Option<Kind> {
        match self.takes.last() {
            Some(&last @ (Kind::Layouts | Kind::Tuples)) if index + 1 >= self.takes.len() => Some(last),
            _ => self.takes.get(index).copied(),
        }
    }

    /// Is this number of operands enough?
    pub(crate) fn enough(&self, operands: usize) -> bool {
        operands + self.optional >= self.takes.len()
    }

    pub(crate) fn apply(&self, operands: &Arguments) -> Answer {
        (self.run)(operands)
    }

    /// Its signature: `complement(layout, size)`.
    fn usage(&self) -> String {
        let mut text = format!("{}(", self.name);
        for (i, kind) in self.takes.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            let optional = i + self.optional >= self.takes.len();
            text += &if optional {
                format!("[{comma}{}]", kind.word())
            } else {
                format!("{comma}{}", kind.word())
            };
        }
        text + ")"
    }

    pub(crate) fn wrong_number(&self, given: usize) -> Failure {
        let s = if given == 1 { "" } else { "s" };
        Failure::Text(format!("{} has {given} operand{s}; it takes {}", self.name, self.usage()))
    }
}

/// The operands of one call. The parser has checked their number.
pub(crate) struct Arguments<'a>(pub(crate) &'a [Item]);

macro_rules! operands {
    ($($name:ident: $kind:ident as $ty:ty = $get:expr;)*) => {
        $(fn $name(&self, index: usize) -> Result<$ty, Failure> {
            match self.0.get(index) {
                Some(Item::$kind(x)) => Ok($get(x)),
                _ => Err(missing(index, Kind::$kind)),
            }
        })*
    };
}

impl Arguments<'_> {
    operands! {
        layout: Layout as &Composed = |x| x;
        tiler: Tiler as &Tiler = |x| x;
        tuple: Tuple as &Tuple = |x| x;
        number: Number as i64 = i64::clone;
        value: Value as Value = Value::clone;
    }

    /// A layout without a swizzle.
    fn plain(&self, index: usize) -> Result<&Layout, Failure> {
        let layout = self.layout(index)?;
        layout.as_layout().ok_or_else(|| {
            Failure::Text(format!("this operation takes plain layouts, and operand {index} is {layout}"))
        })
    }

    fn optional_tuple(&self, index: usize) -> Result<Option<Tuple>, Failure> {
        if index < self.0.len() { self.tuple(index).cloned().map(Some) } else { Ok(None) }
    }

    /// A number as a mode index.
    fn position(&self, index: usize) -> Result<usize, Failure> {
        let n = self.number(index)?;
        usize::try_from(n).map_err(|_| Failure::Text(format!("a mode is counted from 0, and this is {n}")))
    }

    /// An operation on plain layouts that only rearranges coordinates: a swizzle is kept around the result.
    fn inside(&self, run: impl FnOnce(&Layout) -> Result<Layout, Failure>) -> Answer {
        let whole = self.layout(0)?;
        Ok(Composed::new(whole.swizzle(), whole.offset(), run(whole.layout())?).into())
    }

    /// The result has an offset too; a swizzled layout contains its offset.
    fn part(
        &self,
        plain: impl FnOnce(&Layout) -> tilewright_layout::Result<(Layout, Value)>,
        swizzled: impl FnOnce(&Composed) -> tilewright_layout::Result<Composed>,
    ) -> Answer {
        let layout = self.layout(0)?;
        Ok(match layout.as_layout() {
            Some(layout) => plain(layout)?.into(),
            None => swizzled(layout)?.into(),
        })
    }

    /// `(m,n,k), a, b, c, groups, tensor, thread`
    fn mma(&self) -> Result<(TiledMma, &Layout, i64), Failure> {
        let shape = self.tuple(0)?;
        let Some(&[m, n, k]) = shape.ints().as_deref() else {
            return Err(Failure::Text(format!(
                "an instruction has three sizes, (m,n,k), and this is {shape}"
            )));
        };
        let of = |index| self.plain(index).cloned();
        let atom = MmaAtom { shape: (m, n, k), a: of(1)?, b: of(2)?, c: of(3)? };
        Ok((TiledMma::new(atom, of(4)?)?, self.plain(5)?, self.number(6)?))
    }
}

fn missing(index: usize, kind: Kind) -> Failure {
    Failure::Text(format!("operand {index} must be a {}", kind.word()))
}

/// Modes as indices.
fn positions(modes: &Tuple) -> Result<Vec<usize>, Failure> {
    let wrong = || Failure::Text(format!("modes are counted from 0, and these are {modes}"));
    let modes = modes.ints().ok_or_else(wrong)?;
    modes.into_iter().map(|n| usize::try_from(n).map_err(|_| wrong())).collect()
}

/// A list of offsets; a long one is truncated.
fn listed(offsets: impl Iterator<Item = i64>) -> String {
    const MOST: usize = 1024;
    let mut text = String::new();
    for (i, offset) in offsets.enumerate() {
        if i == MOST {
            return text + " …";
        }
        text += &format!("{}{offset}", if i == 0 { "" } else { " " });
    }
    text
}

fn joined(items: impl IntoIterator<Item = impl ToString>, none: &str) -> Item {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    Item::Text(if items.is_empty() { none.to_owned() } else { items.join(", ") })
}

/// Symbols replaced by the numbers of pairs such as `(M,100)`.
fn bind(a: &Arguments) -> Answer {
    let mut known = Vec::new();
    for index in 1..a.0.len() {
        match *a.tuple(index)?.leaves() {
            [Value::Sym { times: 1, of, over: 1 }, Value::Int(n)] => known.push((of, n)),
            _ => {
                return Err(Failure::Text("write each name with its number, such as (M,100)".to_owned()));
            }
        }
    }
    let lookup = |symbol| known.iter().find(|(name, _)| *name == symbol).map(|(_, n)| *n);
    Ok(a.plain(0)?.bind(&lookup)?.into())
}

const MMA: &[Kind] = &[C, L, L, L, L, L, N];

/// Operands for the three partitions of a matrix instruction.
macro_rules! mma {
    () => {
        "((16,8,8), ((4,8),(2,2)):((32,1),(16,8)), ((4,8),2):((16,1),8), ((4,8),(2,2)):((32,1),(16,8)), \
         (2,2,1):(1,2,4), (128,64):(1,128), 37)"
    };
}
/// The table, by theme.
#[rustfmt::skip]
pub(crate) const THEMES: &[(&str, &[Operation])] = &[
    ("Making layouts", &[
        row("compact", &[C], |a| Ok(Layout::compact(a.tuple(0)?)?.into()), Law::None,
            "column-major: the leftmost mode is fastest", "compact((4,(2,3)))"),
        row("row_major", &[C], |a| Ok(Layout::row_major(a.tuple(0)?)?.into()), Law::None,
            "row-major: the last leaf is fastest", "row_major((4,8))"),
        row("ordered", &[C, C], |a| Ok(Layout::ordered(a.tuple(0)?, a.tuple(1)?)?.into()), Law::None,
            "compact, the leaf with the lowest rank fastest", "ordered((4,2,3), (1,2,0))"),
        row("padded", &[C, N], |a| Ok(Layout::padded(a.tuple(0)?, a.number(1)?)?.into()), Law::None,
            "column-major, with so many unused elements after each column", "padded((128,8), 1)"),
        row("identity", &[C], |a| Ok(Layout::identity(a.tuple(0)?)?.into()), Law::None,
            "the layout that returns its own coordinate", "identity((4,3))"),
        row("from_modes", &[Layouts], |a| {
            let modes: Result<Vec<Layout>, Failure> = (0..a.0.len()).map(|i| a.plain(i).cloned()).collect();
            Ok(Layout::from_modes(modes?)?.into())
        }, Law::None, "a layout with these modes", "from_modes(4:8, (2,4):(1,2))"),
        row("bind", &[L, Tuples], bind, Law::None,
            "names replaced by numbers", "bind((M,8):(1,lda), (M,100), (lda,104))"),
    ]),
    ("Looking at layouts", &[
        row("size", &[L], |a| Ok(a.layout(0)?.size()?.into()), Law::None,
            "how many coordinates", "size((4,(2,3)):(1,(4,8)))"),
        row("cosize", &[L], |a| Ok(a.layout(0)?.cosize()?.into()), Law::None,
            "how much room the offsets need", "cosize((128,8):(1,129))"),
        row("rank", &[L], |a| Ok(a.layout(0)?.rank().into()), Law::None,
            "how many modes", "rank((4,(2,3)):(1,(4,8)))"),
        row("depth", &[L], |a| Ok(a.layout(0)?.layout().depth().into()), Law::None,
            "levels of nesting", "depth((4,(2,3)):(1,(4,8)))"),
        row("shape", &[L], |a| Ok(a.layout(0)?.shape().into()), Law::None,
            "the shape", "shape((4,(2,3)):(1,(4,8)))"),
        row("stride", &[L], |a| Ok(a.plain(0)?.stride().into()), Law::None,
            "the stride", "stride((4,(2,3)):(1,(4,8)))"),
        row("offsets", &[L], |a| Ok(Item::Text(listed(a.layout(0)?.offsets()?))), Law::None,
            "all offsets in order", "offsets(Sw<2,0,2> o 0 o (4,4):(4,1))"),
        row("eval", &[L, N], |a| match a.layout(0)?.eval(a.number(1)?) {
            Some(offset) => Ok(offset.into()),
            None => Err(Failure::Text("a symbol is in the way, or the offset passes 63 bits".to_owned())),
        }, Law::None, "the offset of an integer coordinate", "eval((4,(2,3)):(2,(1,8)), 21)"),
        row("at", &[L, C], |a| match a.layout(0)?.as_layout() {
            Some(layout) => Ok(layout.at(a.tuple(1)?)?.into()),
            None => Ok(a.layout(0)?.at(a.tuple(1)?)?.into()),
        }, Law::None, "the offset of a coordinate", "at((4,(2,3)):(1,(4,8)), (1,(1,2)))"),
        row("coordinate", &[L, N], |a| Ok(a.layout(0)?.layout().coordinate(a.number(1)?)?.into()), Law::None,
            "the nested coordinate of an integer", "coordinate((4,(2,3)):(1,(4,8)), 21)"),
        row("coordinate_at", &[L, N], |a| Ok(a.plain(0)?.coordinate_at(a.number(1)?)?.into()), Law::None,
            "the coordinate at an offset, where strides are ordered and compact", "coordinate_at((4,8):(8,1), 19)"),
        row("coordinate_of", &[L, N], |a| {
            Ok(joined(a.layout(0)?.coordinate_of(a.number(1)?)?, "none"))
        }, Law::None, "the integer coordinate at an offset, through a swizzle",
            "coordinate_of(Sw<3,0,3> o 0 o (8,8):(8,1), 30)"),
        row("is_injective", &[L], |a| {
            Ok(joined(a.layout(0)?.is_injective(), "undecided"))
        }, Law::None, "has every coordinate an offset of its own?", "is_injective((4,8):(1,5))"),
        row("is_static", &[L], |a| Ok(a.layout(0)?.layout().is_static().into()), Law::None,
            "are all extents and strides integers?", "is_static((M,8):(1,lda))"),
        row("congruent", &[C, C], |a| Ok(a.tuple(0)?.congruent(a.tuple(1)?).into()), Law::None,
            "do two tuples nest alike?", "congruent((4,(2,3)), (1,(4,8)))"),
        row("compatible", &[C, C], |a| Ok(a.tuple(0)?.compatible(a.tuple(1)?).into()), Law::None,
            "does the second shape refine the first?", "compatible((4,6), (4,(2,3)))"),
    ]),
    ("Rearranging", &[
        row("coalesce", &[L, C], |a| match a.optional_tuple(1)? {
            None => a.inside(|x| Ok(x.coalesce())),
            Some(pattern) => a.inside(|x| Ok(x.coalesce_modes(pattern)?)),
        }, Law::Same, "the same function with the fewest modes; with a pattern, mode by mode",
            "coalesce((2,(1,6)):(1,(6,2)))").last_optional(),
        row("coalesce_modes", &[L, C], |a| a.inside(|x| Ok(x.coalesce_modes(a.tuple(1)?.clone())?)), Law::Same,
            "coalesced mode by mode", "coalesce_modes(((2,4),(2,2)):((1,2),(8,16)), (1,1))"),
        row("filter", &[L], |a| a.inside(|x| Ok(x.filter())), Law::None,
            "without the modes of stride 0", "filter((4,3,2):(1,0,4))"),
        row("flatten", &[L], |a| a.inside(|x| Ok(x.flatten())), Law::Same,
            "without nesting", "flatten((4,(2,3)):(1,(4,8)))"),
        row("group", &[L, N, N], |a| {
            let (from, to) = (a.position(1)?, a.position(2)?);
            a.inside(|x| Ok(x.group(from, to)?))
        }, Law::Same, "the modes from..to as one mode", "group((4,2,3):(1,4,8), 0, 2)"),
        row("select", &[L, C], |a| {
            let modes = positions(a.tuple(1)?)?;
            a.inside(|x| Ok(x.select(&modes)?))
        }, Law::None, "the chosen modes in that order", "select((4,2,3):(1,4,8), (2,0))"),
        row("mode", &[L, N], |a| {
            let mode = a.position(1)?;
            a.inside(|x| Ok(x.mode(mode)?))
        }, Law::None, "one mode", "mode((4,(2,3)):(1,(4,8)), 1)"),
        row("reshape", &[L, C], |a| a.inside(|x| Ok(x.reshape(a.tuple(1)?)?)), Law::Same,
            "the same function under another shape", "reshape(24:2, (4,6))"),
        row("upcast", &[L, N], |a| match a.layout(0)?.as_layout() {
            Some(layout) => Ok(layout.upcast(a.number(1)?)?.into()),
            None => Ok(a.layout(0)?.upcast(a.number(1)?)?.into()),
        }, Law::None, "in elements n times as wide", "upcast((8,4):(1,16), 4)"),
        row("downcast", &[L, N], |a| Ok(a.layout(0)?.downcast(a.number(1)?)?.into()), Law::None,
            "in elements n times as narrow", "downcast((2,4):(1,4), 4)"),
        row("recast", &[L, N, N], |a| Ok(a.plain(0)?.recast(a.number(1)?, a.number(2)?)?.into()), Law::None,
            "from elements of so many bits to elements of so many", "recast((8,4):(1,16), 16, 64)"),
    ]),
    ("Composition and inverses", &[
        row("composition", &[L, T], |a| a.inside(|x| Ok(x.composition(a.tiler(1)?)?)), Law::Composition,
            "R(c) = A(B(c)); mode by mode with a tiler", "composition((6,2):(8,2), (4,3):(3,1))"),
        row("complement", &[L, V], |a| Ok(a.plain(0)?.complement(a.value(1)?)?.into()), Law::Complement,
            "what the layout leaves out of 0..size", "complement(4:2, 24)"),
        row("right_inverse", &[L], |a| Ok(a.plain(0)?.right_inverse()?.into()), Law::RightInverse,
            "an R with A(R(i)) = i, by the longest chain of whole modes", "right_inverse((4,8):(8,1))"),
        row("left_inverse", &[L], |a| Ok(a.plain(0)?.left_inverse()?.into()), Law::LeftInverse,
            "an R with R(A(i)) = i, where a layout is one", "left_inverse((2,2):(1,3))"),
        row("nullspace", &[L], |a| Ok(a.plain(0)?.nullspace()?.into()), Law::None,
            "the coordinates that map to offset 0", "nullspace((4,3,2):(1,0,4))"),
        row("max_common_layout", &[L, L], |a| Ok(a.plain(0)?.max_common_layout(a.plain(1)?)?.into()), Law::None,
            "coordinates that both send to consecutive offsets",
            "max_common_layout((128,8):(1,2048), (128,8):(1,132))"),
        row("max_common_vector", &[L, L], |a| Ok(a.layout(0)?.max_common_vector(a.layout(1)?)?.into()), Law::None,
            "the widest copy between them, in elements", "max_common_vector((128,8):(1,2048), (128,8):(1,132))"),
    ]),
    ("Division: a tile, and the layout of tiles", &[
        row("logical_divide", &[L, T], |a| a.inside(|x| Ok(x.logical_divide(a.tiler(1)?)?)), Law::Tile,
            "each mode becomes (tile, rest)", "logical_divide(24:1, 4:2)"),
        row("zipped_divide", &[L, T], |a| a.inside(|x| Ok(x.zipped_divide(a.tiler(1)?)?)), Law::Tile,
            "((tile), (rest))", "zipped_divide((8,8):(1,8), (4,4):(1,4))"),
        row("tiled_divide", &[L, T], |a| a.inside(|x| Ok(x.tiled_divide(a.tiler(1)?)?)), Law::Tile,
            "((tile), rest, rest, …)", "tiled_divide((8,8):(1,8), (4,4))"),
        row("flat_divide", &[L, T], |a| a.inside(|x| Ok(x.flat_divide(a.tiler(1)?)?)), Law::Tile,
            "(tile, tile, …, rest, rest, …)", "flat_divide((8,8):(1,8), (4,4))"),
    ]),
    ("Products: a layout of copies", &[
        row("logical_product", &[L, T], |a| Ok(a.plain(0)?.logical_product(a.tiler(1)?)?.into()), Law::Copies,
            "(A, copies)", "logical_product((2,2):(4,1), 6)"),
        row("zipped_product", &[L, T], |a| Ok(a.plain(0)?.zipped_product(a.tiler(1)?)?.into()), Law::Copies,
            "((A), (copies))", "zipped_product((2,4):(1,2), 3:1)"),
        row("tiled_product", &[L, T], |a| Ok(a.plain(0)?.tiled_product(a.tiler(1)?)?.into()), Law::Copies,
            "((A), copies, copies, …)", "tiled_product((2,4):(1,2), (3,2):(1,3))"),
        row("flat_product", &[L, T], |a| Ok(a.plain(0)?.flat_product(a.tiler(1)?)?.into()), Law::Copies,
            "(A, A, …, copies, copies, …)", "flat_product((2,4):(1,2), (3,2):(1,3))"),
        row("blocked_product", &[L, L], |a| Ok(a.plain(0)?.blocked_product(a.plain(1)?)?.into()), Law::None,
            "a grid of blocks, mode by mode", "blocked_product((2,2):(1,2), (4,2):(2,1))"),
        row("raked_product", &[L, L], |a| Ok(a.plain(0)?.raked_product(a.plain(1)?)?.into()), Law::None,
            "the blocks interleaved", "raked_product((4,2):(1,4), (3,2):(2,1))"),
        row("tile_to_shape", &[L, C, C], |a| {
            let order = a.optional_tuple(2)?;
            Ok(a.layout(0)?.tile_to_shape(a.tuple(1)?, order)?.into())
        }, Law::None, "the block repeated to fill a shape; the third operand orders the blocks",
            "tile_to_shape((8,4):(4,1), (16,8))").last_optional(),
    ]),
    ("Parts of a tensor", &[
        row("slice", &[L, C], |a| {
            let coord = a.tuple(1)?;
            a.part(|x| x.slice(coord), |x| x.slice(coord))
        }, Law::None, "modes with a number are fixed, modes with `_` stay", "slice((4,(2,3)):(1,(4,8)), (2,_))"),
        row("dice", &[L, C], |a| a.inside(|x| Ok(x.dice(a.tuple(1)?)?)), Law::None,
            "the modes that slice fixes", "dice((4,2,3):(1,4,8), (0,_,1))"),
        row("tile", &[L, T, C], |a| {
            let (tiler, coord) = (a.tiler(1)?, a.tuple(2)?);
            a.part(|x| x.tile(tiler, coord), |x| x.tile(tiler, coord))
        }, Law::None, "one tile, or all along the modes with `_`", "tile((M,K):(1,lda), (128,8), (3,_))"),
        row("tile_obligations", &[L, T], |a| Ok(joined(a.plain(0)?.tile_obligations(a.tiler(1)?)?, "none")), Law::None,
            "conditions at launch for whole tiles", "tile_obligations((M,8):(1,lda), (128,4))"),
        row("parallelize", &[L, L, N, C], |a| {
            let (threads, thread, projection) = (a.plain(1)?, a.number(2)?, a.optional_tuple(3)?);
            let again = projection.clone();
            a.part(|x| x.parallelize(threads, thread, projection), |x| x.parallelize(threads, thread, again))
        }, Law::None, "the part of one thread; a projection such as (1,_) leaves thread modes out",
            "parallelize((128,8):(1,129), (32,8):(1,32), 33)").last_optional(),
    ]),
    ("Threads and values", &[
        row("tiled_copy", &[L, L], |a| Ok(TiledCopy::new(a.plain(0)?, a.plain(1)?)?.into()), Law::None,
            "threads and their values, arranged in a tile", "tiled_copy((32,8):(1,32), (4,1):(1,4))"),
        row("from_tv", &[C, L], |a| Ok(TiledCopy::from_tv(a.tuple(0)?, a.plain(1)?.clone())?.into()), Law::None,
            "a tile partitioned by a (thread, value) layout", "from_tv((4,8), ((4,4),2):((8,1),4))"),
        row("partition", &[L, L, L, N], |a| {
            Ok(TiledCopy::new(a.plain(0)?, a.plain(1)?)?.partition(a.plain(2)?, a.number(3)?)?.into())
        }, Law::None, "threads, values, tensor, thread: the part that the thread copies",
            "partition((32,8):(1,32), (4,1):(1,4), (128,16):(1,2048), 33)"),
        row("retile", &[L, L, L], |a| Ok(TiledCopy::new(a.plain(0)?, a.plain(1)?)?.retile(a.plain(2)?)?.into()),
            Law::None, "threads, values, fragment: the fragment in this copy's groups",
            "retile((32,1):(1,32), (2,1):(1,2), (8,2,3):(1,8,16))"),
        row("partition_a", MMA, |a| { let (mma, x, t) = a.mma()?; Ok(mma.partition_a(x, t)?.into()) }, Law::None,
            "(m,n,k), a, b, c, groups, tensor, thread: the thread's part of operand A", concat!("partition_a", mma!())),
        row("partition_b", MMA, |a| { let (mma, x, t) = a.mma()?; Ok(mma.partition_b(x, t)?.into()) }, Law::None,
            "the same, for operand B", concat!("partition_b", mma!())),
        row("partition_c", MMA, |a| { let (mma, x, t) = a.mma()?; Ok(mma.partition_c(x, t)?.into()) }, Law::None,
            "the same, for the accumulator", concat!("partition_c", mma!())),
    ]),
];

/// The operation of this name.
pub(crate) fn find(name: &str) -> Option<&'static Operation> {
    all().find(|operation| operation.name == name)
}

fn all() -> impl Iterator<Item = &'static Operation> {
    THEMES.iter().flat_map(|(_, operations)| operations.iter())
}

/// An error for an unknown operation, with the nearest known name.
pub(crate) fn unknown(name: &str) -> Failure {
    let shown: String = name.chars().take(40).collect();
    let near = did_you_mean(&shown, all().map(|operation| operation.name));
    let advice = near.unwrap_or_else(|| "`tilewright layout --help` lists them".to_owned());
    Failure::Text(format!("there is no operation `{shown}`; {advice}"))
}

/// The table as data: of each operation its usage, what it does, and an example.
pub(crate) fn themes() -> impl Iterator<Item = (&'static str, Vec<[String; 3]>)> {
    let row = |row: &Operation| [row.usage(), row.help.to_owned(), row.example.to_owned()];
    THEMES.iter().map(move |(theme, rows)| (*theme, rows.iter().map(row).collect()))
}

/// The table, for `--help`.
pub(crate) fn help() -> String {
    let mut text = String::from("Operations:\n");
    for (theme, operations) in THEMES {
        text += &format!("\n  {theme}\n");
        for operation in *operations {
            let usage = operation.usage();
            let gap = if usage.len() > 38 { format!("\n{:44}", "") } else { String::new() };
            text += &format!("    {usage:<40}{gap}{}\n", operation.help);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::expression::evaluate;
    use super::*;

    #[test]
    fn every_example_has_an_answer() {
        for operation in all() {
            assert!(operation.example.starts_with(operation.name), "{}", operation.name);
            if let Err(failure) = evaluate(operation.example, &mut Vec::new()) {
                panic!("{}: {failure}", operation.example);
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().map(|operation| operation.name).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }

    #[test]
    fn a_name_that_is_nearly_right() {
        assert!(unknown("composite").to_string().contains("did you mean `composition`?"));
        assert!(unknown("frobnicate").to_string().contains("--help"));
    }
}
