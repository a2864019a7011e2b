//! The tile program: the IR above threads. Each statement has an operation, its views and a group of
//! threads; no statement says how a thread computes an address.

pub mod alternative;
pub mod bounds;
pub mod boxes;
mod control;
pub mod elements;
pub mod empty_loops;
pub mod fills;
mod how;
pub mod matrix_descriptor;
pub mod pair;
mod producer;
pub mod range;
pub mod slots;
mod stmt;
pub(crate) mod tiled_mma;
pub mod verify;
pub mod view;
pub mod visit;
pub mod whole;

use std::collections::{BTreeMap, BTreeSet};

use tilewright_layout::{Composed, Layout, Symbol, Tuple, Value};

use crate::source::ast::Span;
use crate::source::problem::Result;
use crate::tile::tiled_mma::TiledMma;
use crate::tile::view::View;
pub use crate::values::across::{Across, Submodes};
use crate::values::affine::{Affine, Coord};
pub use crate::values::condition::Require;
use crate::values::elem::Elem;
pub use crate::values::expr::{Expr, Scalar};
use crate::values::id::Id;
pub use how::{Ahead, How, Multiply, Order, Past, Split, StageOrder, Update};
pub use stmt::{Op, ProductViews, Stmt};

/// The alignment of every array in shared memory: the widest access.
pub const ALIGN: u32 = 16;

/// A kernel before lowering.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its arguments, in order.
    pub args: Vec<Arg>,
    /// All tensors: arguments, shared memory, registers.
    pub tensors: Vec<Tensor>,
    /// The tensors of a launch's workspace whose elements are 0 at launch.
    pub zeroed: BTreeSet<Id>,
    /// Scalar arguments.
    pub scalars: Vec<Scalar>,
    /// Overlays: shared tensors that reuse the memory of others, which are dead from then on.
    pub overlays: Vec<(Id, Vec<Id>)>,
    /// Groups of threads; the first is the whole block.
    pub groups: Vec<Group>,
    /// Rings of shared slots.
    pub rings: Vec<Ring>,
    /// Loop variables.
    pub vars: Vec<Var>,
    /// Integers that are read from memory.
    pub reads: Vec<Read>,
    /// Constants of the author's, by what they are, for generated text.
    pub constants: Vec<Constant>,
    /// Upper limits of sizes; larger ones are refused at launch.
    pub at_most: Vec<(Value, i64)>,
    /// Lower limits of sizes; smaller ones are refused at launch.
    pub at_least: Vec<(Value, i64)>,
    /// How many tokens of asynchronous operations there are.
    pub tokens: u32,
    /// Requirements on sizes, checked at launch.
    pub requires: Vec<Require>,
    /// A size that is 0 in every launch of this program: loops without iterations still determine coordinates and edges of
    /// elements, and are not lowered.
    pub zero: Option<Symbol>,
    /// How many orders of alternating groups there are; see [`Op::Ordered`].
    pub orders: u32,
    /// Blocks along x, y, z.
    pub grid: [Option<Value>; 3],
    /// Further factors of how many blocks there are along each axis.
    pub more: [Vec<Value>; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// How the grid's size maps to blocks.
    pub launch: LaunchRule,
    /// In how many parts a persistent kernel divides the tiles of a last wave that is not full; 0 if it does not.
    pub divided: u32,
    /// Rows of tiles in a band of a persistent kernel's raster, of whole clusters; 0 leaves it open.
    pub bands: u32,
    /// Do two groups of consumers take the tiles of a persistent kernel alternately?
    pub alternates: bool,
    /// Blocks that should be resident on a multiprocessor; 0 leaves it open.
    pub blocks_per_sm: u32,
    /// Programmatic dependent launch; see [`crate::thread::Launch::overlaps`].
    pub overlaps: bool,
    /// Does a launch compare its estimate with other programs' that fit?
    pub competes: bool,
    /// Arguments that a launch may pass as a copy with aligned rows; see [`crate::thread::Launch::packs`].
    pub packs: Vec<Id>,
    /// Sizes that the text names or asks for; see [`crate::thread::Launch::read_sizes`].
    pub read_sizes: Vec<Value>,
    /// Oldest compute capability.
    pub arch: u32,
    /// Did the author name it?
    pub is_arch_named: bool,
    /// The body.
    pub body: Vec<Stmt>,
    /// For calls of the user's text, the spans of their arguments.
    pub arguments: BTreeMap<Span, Vec<Span>>,
    /// Register tensors that are whole tiles, distributed over the threads of a group; see
    /// the pass `resolve`.
    pub forms: BTreeMap<Id, Form>,
    /// Tensors in shared memory whose layouts are chosen from their uses, if whole tiles are copied to or
    /// from them.
    pub open: BTreeSet<Id>,
    /// Rings that may have fewer slots, if these do not fit in shared memory; and the number in their views' coordinates.
    pub fitted: BTreeMap<Id, u32>,
    /// Shared tiles whose elements threads replace by elements of another type, of the same size: the type that products read.
    pub replaced: BTreeMap<Id, Elem>,
    /// Statements about whole tiles, whose distribution over threads was derived, and shared tiles whose layout was.
    pub derived: BTreeSet<Span>,
}

/// The distribution of a whole tile in registers. There are few: the size of the largest does not matter.
#[derive(Clone, PartialEq, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Form {
    /// Derived from its uses.
    Open,
    /// The distribution of an accumulator of a tiled MMA.
    Sums(TiledMma),
}

/// How many blocks are launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LaunchRule {
    /// One for each tile of the grid.
    #[default]
    PerTile,
    /// The number that is resident on the device at once, in whole clusters; [`Op::Tiles`] is the tile scheduler.
    Persistent,
}

/// The raster order of tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Raster {
    /// The first mode fastest.
    #[default]
    Plain,
    /// In bands of this number of tiles of the first mode, along the second, so that concurrent
    /// blocks reuse operands in L2.
    Bands(u32),
}

/// An argument.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg {
    /// A global tensor.
    Tensor(Id),
    /// A scalar.
    Scalar(Id),
}

/// A tensor in some memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Type of its elements.
    pub elem: Elem,
    /// Where it is.
    pub space: Space,
    /// From coordinates to elements. Global: one leaf for each mode, perhaps symbolic.
    pub layout: Composed,
    /// Where the user made it.
    pub span: Span,
}

/// Where a tensor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Global memory.
    Global {
        /// May the kernel write it?
        mutable: bool,
    },
    /// Shared memory of the block.
    Shared {
        /// Alignment in bytes.
        align: u32,
    },
    /// Registers of each thread.
    Registers {
        /// Packed in 32-bit words for atoms.
        words: bool,
    },
}

/// Some warps of the block, or a family: several groups of equally many warps that run the same program, each
/// on its own tiles. In a family, thread coordinates, barriers and elected threads belong to one member.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// First warp and one past the last, of all members together; `None` for the whole block.
    pub warps: Option<(u32, u32)>,
    /// The number of members: 1 for a plain group.
    pub members: u32,
    /// The threads of a member; 0 until a partition determines them.
    pub threads: u32,
    /// The register count that each of its threads requests (setmaxnreg).
    pub registers: Option<u32>,
}

/// A ring: slots of shared memory that one group fills and another empties. It owns its barriers and its
/// phase.
#[derive(Clone, PartialEq, Debug)]
pub struct Ring {
    /// Its name.
    pub name: String,
    /// How many slots.
    pub slots: u32,
    /// The shared tensors; the last mode of each is the slot.
    pub buffers: Vec<Id>,
    /// The producer. Of a family, one member fills a slot.
    pub from: Id,
    /// The consumer: all of the group; of a family, one member for each slot.
    pub to: Id,
    /// Arrivals that make a slot full, besides transaction bytes of bulk copies. 0 where producer and consumer are one
    /// group, whose barriers replace mbarriers.
    pub arrivals: u32,
    /// Do the blocks of a cluster that are neighbours along x fill slots together?
    pub over_cluster: bool,
}

impl Ring {
    /// Does one group both fill and empty it, synchronised by its barriers?
    pub fn is_of_one_group(&self) -> bool {
        self.from == self.to && self.arrivals == 0
    }
}

/// A constant of the author's that has a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// What it is.
    pub of: ConstantOf,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: i64,
}

/// What a constant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstantOf {
    /// The extent of tiles along a mode of a tensor.
    Tile {
        /// The tensor.
        tensor: Id,
        /// Its mode.
        mode: usize,
    },
    /// The number of stages of a loop.
    Stages,
}

/// A loop variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Var {
    /// Its name.
    pub name: String,
    /// Its first value.
    pub from: Affine,
    /// Its exclusive upper bound: an integer, a size, or anything that is known where the loop begins.
    pub to: Affine,
}

impl Var {
    /// A variable over `0..size`.
    pub fn new(name: &str, size: Value) -> Var {
        Var { name: name.into(), from: 0.into(), to: size.into() }
    }

    /// The number of its values, where they begin at 0 and a size determines it.
    pub fn extent(&self) -> Option<Value> {
        self.to.size().filter(|_| self.from.constant() == Some(0))
    }
}

/// For what an element is read as an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A value, 0 out of bounds, as of every element.
    Value,
    /// An index, -1 out of bounds, which is out of bounds of every tensor.
    Index,
}

impl Purpose {
    /// The integer that an element out of bounds is.
    pub fn out_of_bounds(self) -> i64 {
        match self {
            Purpose::Value => 0,
            Purpose::Index => -1,
        }
    }
}

/// An integer that is read from memory; see [`Op::Take`].
#[derive(Clone, PartialEq, Debug)]
pub struct Read {
    /// Its name.
    pub name: String,
    /// The type of the element that it is loaded from. Fractions are truncated to an `i32`.
    pub elem: Elem,
    /// May it differ from thread to thread?
    pub per_thread: bool,
    /// What it is read for.
    pub purpose: Purpose,
}

impl Program {
    /// A program of this name, with the block as its only group.
    pub fn new(name: &str) -> Program {
        let block = Group { name: "block".into(), warps: None, members: 1, threads: 0, registers: None };
        Program { name: name.into(), groups: vec![block], cluster: [1; 3], arch: 80, ..Program::default() }
    }

    /// Numbers every statement from 1, substatements included. Passes that copy a statement keep its number; statements
    /// that they add have 0.
    pub fn number(&mut self) {
        let mut next = 1;
        visit::each_mut(&mut self.body, &mut |stmt| {
            stmt.id = next;
            next += 1;
        });
    }

    /// Gives named constants another number of stages.
    pub fn rename_stages(&mut self, from: u32, to: u32) {
        let is_it =
            |constant: &&mut Constant| constant.of == ConstantOf::Stages && constant.value == i64::from(from);
        self.constants.iter_mut().filter(is_it).for_each(|constant| constant.value = to.into());
    }

    /// A tensor.
    pub fn tensor(&self, id: Id) -> &Tensor {
        &self.tensors[id as usize]
    }

    /// Is it the input with the coordinates of a whole tile's elements within the tile, instead of a tensor in
    /// memory? It is an input of functions, and is not read.
    pub fn is_coordinates(&self, id: Id) -> bool {
        matches!(self.tensor(id).space, Space::Global { mutable: false }) && !self.is_argument(id)
    }

    /// Is it memory that belongs to the launch?
    pub fn is_workspace(&self, id: Id) -> bool {
        matches!(self.tensor(id).space, Space::Global { mutable: true }) && !self.is_argument(id)
    }

    fn is_argument(&self, id: Id) -> bool {
        self.args.iter().any(|arg| matches!(arg, Arg::Tensor(of) if *of == id))
    }

    /// The coordinates within tiles of these extents.
    pub fn coordinates_of(&mut self, tile: &[i64]) -> Result<View> {
        let shape = Tuple::flat(tile);
        let layout = Layout::compact(shape.clone())?;
        let mut all = (0..self.tensors.len() as Id).filter(|id| self.is_coordinates(*id));
        let id = match all.find(|id| self.tensor(*id).plain() == &layout) {
            Some(id) => id,
            None => {
                let (name, space) = ("coordinates".into(), Space::Global { mutable: false });
                let tensor =
                    Tensor { name, elem: Elem::I32, space, layout: layout.into(), span: Span::default() };
                self.tensors.push(tensor);
                self.tensors.len() as Id - 1
            }
        };
        View::whole(id, "coordinates", &shape)
    }

    /// A block's number along a mode of its cluster: along x among blocks that share copies, along z among blocks that split a
    /// loop. Ranks count blocks along x first.
    ///
    /// ```
    /// use tilewright_program::affine::Coord;
    /// let program = tilewright_tile::tile::Program { cluster: [2, 1, 4], ..Default::default() };
    /// let of = |mode, rank: i64| program.number_in_cluster(mode).with(&Coord::ClusterRank, &rank.into())?.constant();
    /// assert_eq!([0, 1, 2].map(|mode| of(mode, 5)), [Some(1), Some(0), Some(2)]);
    /// ```
    pub fn number_in_cluster(&self, mode: usize) -> Affine {
        let blocks = |modes: &[u32]| i64::from(modes.iter().product::<u32>());
        let extent = self.cluster[mode].into();
        let is_last = extent > 1 && blocks(&self.cluster[mode + 1..]) == 1;
        Affine::from(Coord::ClusterRank).submode(blocks(&self.cluster[..mode]), (!is_last).then_some(extent))
    }

    /// The rank of the block of this cluster that has another number along a mode.
    ///
    /// ```
    /// use tilewright_program::affine::Coord;
    /// let program = tilewright_tile::tile::Program { cluster: [2, 1, 4], ..Default::default() };
    /// let of = |mode, number: i64| {
    ///     program.rank_in_cluster(mode, &number.into())?.with(&Coord::ClusterRank, &5.into())?.constant()
    /// };
    /// assert_eq!((of(0, 0), of(2, 3)), (Some(4), Some(7)));
    /// ```
    pub fn rank_in_cluster(&self, mode: usize, number: &Affine) -> Option<Affine> {
        let (mut rank, mut blocks) = (Affine::default(), 1);
        for (own, extent) in self.cluster.into_iter().enumerate() {
            let at = if own == mode { number.clone() } else { self.number_in_cluster(own) };
            rank = rank.plus(&at, blocks)?;
            blocks *= i64::from(extent);
        }
        Some(rank)
    }

    /// Threads of the block.
    pub fn threads(&self) -> u32 {
        let of_roles =
            self.groups.iter().filter_map(|g| g.warps).map(|(_, end)| end.saturating_mul(32)).max();
        of_roles.unwrap_or(0).max(self.groups[0].threads)
    }

    /// How many members groups have together: 1 for a plain group.
    pub fn members(&self, groups: &[Id]) -> u32 {
        groups.iter().map(|&group| self.groups[group as usize].members.max(1)).sum()
    }

    /// Threads whose elements a reduction of a group combines.
    pub fn combined(&self, group: Id) -> i64 {
        let threads = self.groups[group as usize].threads;
        i64::from(if threads > 0 { threads } else { self.threads() })
    }

    /// Symbols in the order in which arguments bring them.
    pub fn symbols(&self) -> Vec<Symbol> {
        let mut all = Vec::new();
        for arg in &self.args {
            let Arg::Tensor(id) = arg else { continue };
            let layout = self.tensor(*id).layout.layout();
            for value in layout.leaves().flat_map(|(n, d)| [n, d]) {
                if let Value::Sym { of, .. } = value
                    && !all.contains(&of)
                {
                    all.push(of);
                }
            }
        }
        // Numbers of blocks that are computed.
        for of in self.requires.iter().filter_map(|require| require.of) {
            if !all.contains(&of) {
                all.push(of);
            }
        }
        all
    }
}

impl Group {
    /// Warps of one member; `None` for the whole block.
    pub fn member_warps(&self) -> Option<u32> {
        self.warps.map(|(first, end)| end.saturating_sub(first) / self.members.max(1))
    }
}

impl Tensor {
    /// The layout, where it has no swizzle.
    pub fn plain(&self) -> &Layout {
        self.layout.layout()
    }

    /// The extents of its modes, if they are constants.
    pub fn extents(&self) -> Option<Vec<i64>> {
        self.plain().modes().map(|mode| mode.size().ok()).collect()
    }

    /// How many top-level modes.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }
}
