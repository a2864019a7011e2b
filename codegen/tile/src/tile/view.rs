//! Views: tiles, partitions and slices of tensors. A view maps its own coordinates to coordinates of the
//! underlying tensor, never straight to offsets, so that bounds remain known.

mod halo;
pub mod leaf;
pub mod partition;
mod shape;

use tilewright_layout::{Layout, Path, Tiler, Tuple, Value};

use crate::source::problem::{Problem, Result, count};
use crate::values::affine::{Affine, Coord};
use crate::values::id::Id;
pub use partition::Partition;
use partition::passes;
pub use partition::{Stepped, limit_origin, position, ragged_twice};

/// The error of coordinates that overflow.
fn too_far() -> Problem {
    Problem::new("a coordinate passes 63 bits")
}

/// A part of a tensor, seen under its own shape.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// Its tensor.
    pub tensor: Id,
    /// The user's name for it.
    pub name: String,
    /// Its layout over scaled basis elements: `16@0` is 16 steps along mode 0 of the tensor.
    pub layout: Layout,
    /// Its origin: one coordinate for each mode of the tensor.
    pub base: Vec<Affine>,
    /// For each mode of the tensor along which a ragged partition may exceed its tile: the tile's origin,
    /// and its extent.
    pub limits: Vec<Option<(Affine, i64)>>,
    /// Modes of the tensor along which out-of-bounds coordinates are clamped to some element in bounds;
    /// see [`View::clamped`].
    pub clamped: Vec<usize>,
    /// Are these different elements? See [`View::wrapped`].
    pub wraps: bool,
    /// Modes of the tensor along which out-of-bounds coordinates are clamped to the first or last element;
    /// see [`View::nearest`].
    pub nearest: Vec<usize>,
    /// The cluster rank of the block whose shared memory is accessed; the thread's own block without.
    pub peer: Option<Affine>,
    /// Is it the part of a thread, also where all threads have the same part?
    pub of_thread: bool,
}

/// A coordinate of a slice: a number, or the whole mode.
#[derive(Clone, PartialEq, Debug)]
pub enum At {
    /// `_`
    All,
    /// This coordinate.
    Index(Affine),
    /// A tuple for a nested mode.
    Tuple(Vec<At>),
}

impl View {
    /// The whole of a tensor with these extents.
    pub fn whole(tensor: Id, name: &str, shape: &Tuple) -> Result<View> {
        let modes: Vec<Layout> = shape
            .modes()
            .enumerate()
            .map(|(mode, extent)| {
                let step = Value::Basis { times: 1, path: Path::new(&[mode]).unwrap_or_default() };
                // A nested extent is flattened to one number.
                let extent = match extent.as_leaf() {
                    Some(leaf) => leaf,
                    None => Value::Int(extent.product().unwrap_or(1)),
                };
                Layout::new(extent, step)
            })
            .collect::<std::result::Result<_, _>>()?;
        let rank = modes.len();
        Ok(View {
            tensor,
            name: name.into(),
            layout: Layout::from_modes(modes)?,
            base: vec![Affine::default(); rank],
            limits: vec![None; rank],
            clamped: Vec::new(),
            wraps: false,
            nearest: Vec::new(),
            peer: None,
            of_thread: false,
        })
    }

    /// Its shape.
    pub fn shape(&self) -> Tuple {
        self.layout.shape()
    }

    /// How many modes.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Does it differ from thread to thread?
    pub fn per_thread(&self) -> bool {
        self.base.iter().any(Affine::per_thread)
    }

    /// The extent of a mode, which may be known at launch only.
    pub fn extent_along(&self, mode: usize) -> Result<Value> {
        let mode = self.layout.mode(mode)?;
        match (mode.size(), &mode.leaves().collect::<Vec<_>>()[..]) {
            (Ok(n), _) => Ok(Value::Int(n)),
            (_, [(extent, _)]) => Ok(*extent),
            (Err(e), _) => Err(e.into()),
        }
    }

    /// Extents of its modes, where they are integers.
    pub fn extents(&self) -> Option<Vec<i64>> {
        self.layout.modes().map(|mode| mode.size().ok()).collect()
    }

    /// Another layout over the same tensor, with its origin moved.
    fn moved(&self, layout: Layout, by: &[(usize, Affine)]) -> Result<View> {
        let mut view = View { layout, ..self.clone() };
        for (mode, step) in by {
            view.base[*mode] = view.base[*mode].plus(step, 1).ok_or_else(too_far)?;
        }
        Ok(view)
    }

    /// Fixes the modes that have an index, keeps the modes with `_`.
    pub fn slice(&self, coord: &[At]) -> Result<View> {
        if coord.len() != self.rank() {
            return Err(Problem::new(format!(
                "`{}` has {}, {}, and the index names {}",
                self.name,
                count(self.rank(), "mode"),
                self.shape(),
                coord.len()
            ))
            .help("write one entry for each mode, with `_` for those that stay whole"));
        }
        let (mut kept, mut steps) = (Vec::new(), Vec::new());
        let mut tiles = Vec::new();
        for (mode, at) in self.layout.modes().zip(coord) {
            let first = steps.len();
            slice_mode(&mode, at, &mut kept, &mut steps)?;
            // A step from tile to tile moves the tile's limit; one inside the tile does not.
            for (along, step) in &steps[first..] {
                if let Some((_, extent)) = &self.limits[*along]
                    && passes(&mode, *along, *extent)
                {
                    tiles.push((*along, step.clone()));
                }
            }
        }
        let layout = match kept.len() {
            0 => Layout::new(1i64, 0i64)?,
            // A nested mode remains one mode.
            1 if kept[0].depth() == 0 => kept.remove(0),
            _ => Layout::from_modes(kept)?,
        };
        let mut view = self.moved(layout, &steps)?;
        for (along, step) in tiles {
            if let Some((origin, _)) = &mut view.limits[along] {
                *origin = origin.plus(&step, 1).ok_or_else(too_far)?;
            }
        }
        Ok(view)
    }

    /// Divides the tensor into tiles and takes the tiles that `coord` names: `(tile modes, _ modes)`
    /// (`zipped_divide`, then a slice).
    pub fn tile(&self, tiler: &Tiler, coord: &[At]) -> Result<View> {
        let divided = self.layout.zipped_divide(tiler)?;
        let (tile, rest) = (divided.mode(0)?, divided.mode(1)?);
        if coord.len() != rest.rank() {
            return Err(Problem::new(format!(
                "`{}` is divided into {} of tiles, and the coordinate has {}",
                self.name,
                count(rest.rank(), "mode"),
                coord.len()
            ))
            .help("write one entry for each mode, with `_` for all tiles along it")
            .arg(2));
        }
        let (mut kept, mut steps) = (Vec::new(), Vec::new());
        for (mode, at) in rest.modes().zip(coord) {
            slice_mode(&mode, at, &mut kept, &mut steps)?;
        }
        self.moved(Layout::from_modes(tile.modes().chain(kept))?, &steps)
    }

    /// The same under another name, for messages and generated text.
    pub fn with_name(mut self, name: &str) -> View {
        self.name = name.into();
        self
    }
}

/// Indexes one mode: the remaining modes go to `kept`, steps along the tensor's modes to `steps`.
pub fn slice_mode(
    mode: &Layout,
    at: &At,
    kept: &mut Vec<Layout>,
    steps: &mut Vec<(usize, Affine)>,
) -> Result<()> {
    match at {
        At::All => kept.push(mode.clone()),
        At::Index(index) => {
            let leaves: Vec<(Value, Value)> = mode.leaves().collect();
            let mut over = 1;
            for (leaf, (extent, stride)) in leaves.iter().enumerate() {
                let last = leaf + 1 == leaves.len();
                let submode = match (extent, last) {
                    (_, true) => index.submode(over, None),
                    (Value::Int(n), false) => {
                        let submode = index.submode(over, Some(*n));
                        over = n.checked_mul(over).ok_or_else(too_far)?;
                        submode
                    }
                    (symbol, false) => {
                        return Err(Problem::new(format!("`{symbol}` must be known to index a nested mode")));
                    }
                };
                match stride {
                    Value::Basis { times, path } => {
                        let step = submode.times(*times).ok_or_else(too_far)?;
                        steps.push((usize::from(path.steps()[0]), step));
                    }
                    Value::Int(0) => {}
                    other => return Err(Problem::new(format!("the stride `{other}` is not a coordinate"))),
                }
            }
        }
        At::Tuple(coordinates) => {
            if coordinates.len() != mode.rank() || mode.depth() == 0 {
                let shape = mode.shape();
                return Err(match mode.depth() {
                    0 => Problem::new(format!(
                        "the index has a tuple of {} entries for a mode of {shape} elements, which is not nested",
                        coordinates.len()
                    ))
                    .help("write one integer; elements of a nested mode are counted with its first submode fastest: of ((8, 4), 8) the element ((i, j), k) is [(i + 8 * j, k)]"),
                    _ => Problem::new(format!(
                        "the index has {} entries for the nested mode {shape}, which has {}",
                        coordinates.len(),
                        mode.rank()
                    ))
                    .help("write an entry for each of its modes, or one integer that counts its elements, the first mode fastest"),
                });
            }
            let mut inner = Vec::new();
            for (mode, at) in mode.modes().zip(coordinates) {
                slice_mode(&mode, at, &mut inner, steps)?;
            }
            match inner.len() {
                0 => {}
                1 => kept.append(&mut inner),
                _ => kept.push(Layout::from_modes(inner)?),
            }
        }
    }
    Ok(())
}

/// For tests and messages: the tensor coordinates of a view for given block, thread and loop indices.
impl View {
    /// Adds the coordinate of a ring's slot, the last mode of its buffers, at a phase.
    pub fn at_slot(&mut self, phase: &Affine, slots: i64) {
        self.base.push(phase.submode(1, Some(slots)));
        self.limits.push(None);
    }

    /// The tensor coordinates of an integer coordinate of the view.
    pub fn coordinates(&self, index: i64, lookup: &dyn Fn(&Coord) -> i64) -> Vec<i64> {
        let mut at: Vec<i64> = self.base.iter().map(|base| base.eval(lookup)).collect();
        let mut rest = index;
        for (extent, stride) in self.layout.leaves() {
            let submode = match extent {
                Value::Int(n) => {
                    let submode = rest % n;
                    rest /= n;
                    submode
                }
                _ => std::mem::take(&mut rest),
            };
            if let Value::Basis { times, path } = stride {
                at[usize::from(path.steps()[0])] += submode * times;
            }
        }
        at
    }
}
