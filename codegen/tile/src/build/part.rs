//! Views of tensors: tiles, slices, partitions over threads.

use tilewright_layout::{Layout, Tiler, Tuple, Value};

use super::{Builder, Numbered};
use crate::source::problem::{Problem, Result, count};
use crate::thread::Id;
use crate::tile::verify;
use crate::tile::view::partition::permuted;
use crate::tile::view::{At, Partition, View};
use crate::tile::{Arg, Constant, ConstantOf, Program, Space};
use crate::values::affine::{Affine, Coord};
use crate::values::condition::Test;
use crate::values::target::BLOCK_THREADS;

impl Builder {
    /// Names an extent of a tile along a mode of a view, for generated text.
    pub fn name_extent(&mut self, view: &View, mode: usize, name: &str, value: i64) {
        let Ok(along) = view.layout.mode(mode) else { return };
        if let [(_, Value::Basis { times: 1, path })] = along.leaves().collect::<Vec<_>>()[..] {
            let of = ConstantOf::Tile { tensor: view.tensor, mode: usize::from(path.steps()[0]) };
            self.name_constant(of, name, value);
        }
    }

    /// Names the number of stages of a loop, for generated text.
    pub fn name_stages(&mut self, name: &str, value: i64) {
        self.name_constant(ConstantOf::Stages, name, value);
    }

    fn name_constant(&mut self, of: ConstantOf, name: &str, value: i64) {
        let constant = Constant { of, name: name.to_owned(), value };
        if !self.program.constants.contains(&constant) {
            self.program.constants.push(constant);
        }
    }

    /// Tiles of a view; see [`View::tile`]. An axis of the block index that indexes tiles gives the grid its
    /// extent.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let (m, n) = (Value::symbol("M"), Value::symbol("N"));
    /// # let a = b.tensor("a", Elem::F32, (m, n), None, false)?;
    /// let row = At::Index(Coord::Block(0).into());
    /// let tiles = b.tile(&a, (128, 8), &[row, At::All])?;
    /// assert_eq!(tiles.shape().to_string(), "(128,8,ceil(N/8))");
    /// assert_eq!(b.program().grid[0].unwrap().to_string(), "ceil(M/128)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn tile(&mut self, view: &View, tiler: impl Into<Tiler>, coord: &[At]) -> Result<View> {
        let tiler = tiler.into();
        if let Tiler::Modes(modes) = &tiler
            && modes.len() > view.rank()
        {
            return Err(Problem::new(format!(
                "the tile has {}, and `{}` has {}: {}",
                count(modes.len(), "mode"),
                view.name,
                view.rank(),
                view.shape()
            ))
            .help(match view.rank() {
                1 => "write one extent; a tensor of two modes is declared as `Tensor<f32, (M, N)>`",
                _ => "write one extent for each mode, with `_` for modes that stay whole",
            })
            .arg(1));
        }
        /// Tiles are counted by divisors of 32 bits.
        const MOST: i64 = u32::MAX as i64;
        let modes = match &tiler {
            Tiler::Modes(modes) => &modes[..],
            one => std::slice::from_ref(one),
        };
        let extent = |mode: &Tiler| match mode {
            Tiler::Layout(extent) => extent.size().ok(),
            _ => None,
        };
        if let Some(extent) = modes.iter().filter_map(extent).find(|extent| *extent > MOST) {
            return Err(Problem::new(format!(
                "a tile has at most {MOST} elements along a mode, and this one {extent}"
            ))
            .help("write a smaller tile, and loop over tiles")
            .arg(1));
        }
        // A tile with one extent divides one mode, or all elements in order where their number is known.
        if matches!(tiler, Tiler::Layout(_)) && view.rank() > 1 && view.extents().is_none() {
            let example = vec!["64"; view.rank()].join(", ");
            return Err(Problem::new(format!(
                "the tile has one mode, and `{}` has {}: {}",
                view.name,
                view.rank(),
                view.shape()
            ))
            .help(format!(
                "write one extent for each mode, such as ({example}), with `_` for modes that stay whole"
            ))
            .arg(1));
        }
        let rest = view.layout.zipped_divide(&tiler)?.mode(1)?;
        self.axes_of(&rest, coord, view)?;
        view.tile(&tiler, coord)
    }

    /// A slice of a view; see [`View::slice`].
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let (m, n) = (Value::symbol("M"), Value::symbol("N"));
    /// # let a = b.tensor("a", Elem::F32, (m, n), None, false)?;
    /// let tiles = b.tile(&a, (128, 8), &[At::Index(0.into()), At::All])?;
    /// let third = b.slice(&tiles, &[At::All, At::All, At::Index(3.into())])?;
    /// assert_eq!(third.shape().to_string(), "(128,8)");
    /// assert_eq!(third.base[1].constant(), Some(24));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn slice(&mut self, view: &View, coord: &[At]) -> Result<View> {
        // Registers have no tiles for blocks: their indices are known while compiling.
        if coord.len() == view.rank() && !matches!(self.space(view), Space::Registers { .. }) {
            self.axes_of(&view.layout, coord, view)?;
        }
        let slice = view.slice(coord)?;
        let numbers = slice.base.iter().all(|base| base.constant().is_some());
        if numbers && matches!(self.space(&slice), Space::Registers { .. }) {
            verify::inside(&self.program, &slice).map_err(|problem| problem.arg(1))?;
        }
        Ok(slice)
    }

    fn axes_of(&mut self, rest: &Layout, coord: &[At], view: &View) -> Result<()> {
        for (mode, at) in rest.modes().zip(coord) {
            let At::Index(index) = at else { continue };
            let ([(Coord::Block(axis), 1)], 0) = (&index.terms[..], index.constant) else {
                continue;
            };
            let extent = match (mode.size(), &mode.leaves().collect::<Vec<_>>()[..]) {
                (Ok(n), _) => Value::Int(n),
                (_, [(extent, _)]) => *extent,
                (Err(e), _) => return Err(e.into()),
            };
            let written = matches!(self.space(view), Space::Global { mutable: true });
            self.numbered(usize::from(*axis), extent, view, written)?;
        }
        Ok(())
    }

    /// An axis of the grid numbers the tiles of a view. All views that it numbers have the same number of tiles. A
    /// view that is only read may have more: then the block reads the tile with its number.
    fn numbered(&mut self, axis: usize, tiles: Value, view: &View, written: bool) -> Result<()> {
        let program = &mut self.program;
        let (Some(known), Some(first)) = (program.grid[axis], &mut self.axes[axis]) else {
            program.grid[axis] = Some(tiles);
            self.axes[axis] = Some(Numbered { by: view.name.clone(), written, computed: false });
            return Ok(());
        };
        let is_walk = !program.more[axis].is_empty();
        if program.canonical(known) == program.canonical(tiles) && !is_walk {
            first.written |= written;
            return Ok(());
        }
        if !is_walk && first.computed {
            return Ok(());
        }
        if !is_walk && !written && program.is_at_least(tiles, known) {
            return Ok(());
        }
        if !is_walk && !first.written && program.is_at_least(known, tiles) {
            program.grid[axis] = Some(tiles);
            *first = Numbered { by: view.name.clone(), written, computed: false };
            return Ok(());
        }
        let letter = ["x", "y", "z"][axis];
        let is_hidden = |arg: &Arg| {
            matches!(arg, Arg::Tensor(id) if program.tensor(*id).name == view.name
                && (*id, program.tensor(*id).layout.shape()) != (view.tensor, view.shape()))
        };
        if program.args.iter().any(is_hidden) {
            let (name, shape, by) = (&view.name, view.shape(), &first.by);
            return Err(Problem::new(format!(
                "`{name}` is a tile here, {shape}, not the tensor `{name}`, and `block.{letter}` indexes {known} tiles of `{by}`"
            ))
            .help("give the tile a name of its own, so that it does not hide the tensor")
            .arg(0));
        }
        if let (Value::Sym { times: 1, of, over }, Value::Sym { times: 1, of: same, over: other }) =
            (tiles, known)
            && (of, is_walk) == (same, false)
            && over.min(other) > 1
            && !program.requires.iter().any(|require| require.of == Some(of))
        {
            let (name, by, size) = (&view.name, &first.by, of.name());
            return Err(Problem::new(format!(
                "tiles of `{name}` have {over} elements along {size}, and tiles of `{by}` have {other}, so `block.{letter}` would index {tiles} and {known} tiles"
            ))
            .help(format!("give them the same extent along {size}, {other} or {over}, or use another axis of `block`"))
            .arg(2));
        }
        let quotient = [tiles, known].into_iter().find_map(|count| rounded(program, count));
        let sizes = match (tiles, known) {
            (Value::Sym { of: one, over, .. }, Value::Sym { of: other, over: same, .. })
                if over == same
                    && written != first.written
                    && !program
                        .requires
                        .iter()
                        .any(|require| [Some(one), Some(other)].contains(&require.of)) =>
            {
                let (more, less) = if written { (other, one) } else { (one, other) };
                let (more, less) = (more.name(), less.name());
                format!("; if the tensor that is read is never shorter, declare it: assert({more} >= {less})")
            }
            // The same count if one size is a multiple of the other.
            (Value::Sym { times: 1, of: one, over }, Value::Sym { times: 1, of: other, over: same })
                if one != other
                    && (over == 1 || same == 1)
                    && !program.requires.iter().any(|of| [Some(one), Some(other)].contains(&of.of)) =>
            {
                let (long, short, times) = if over == 1 { (other, one, same) } else { (one, other, over) };
                let (long, short) = (long.name(), short.name());
                format!("; if they have, declare it: assert({long} == {times} * {short})")
            }
            _ if quotient.is_some() => quotient.unwrap_or_default(),
            _ if !is_walk => {
                let counts = [known, tiles].map(|count| {
                    let count = verify::text(program, &program.canonical(count).into());
                    let count = count.trim_matches('`').to_owned();
                    let computed =
                        program.requires.iter().filter_map(|require| Some((require.of?, &require.text)));
                    computed.fold(count, |count, (of, text)| count.replace(of.name(), text))
                });
                format!(
                    "; or launch the greater number of blocks, walk(max({}, {}), block.{letter}) before all tiles: a block without a tile of a tensor does not write that tensor",
                    counts[0], counts[1]
                )
            }
            _ => String::new(),
        };
        let [tiles, known] = [tiles, known].map(|count| program.written(program.canonical(count)));
        Err(Problem::new(format!(
            "`block.{letter}` indexes {tiles} tiles of `{}`, but {known} tiles of `{}`",
            view.name, first.by
        ))
        .help(format!("use another axis of `block`, or tiles with the same count{sizes}"))
        .arg(2))
    }

    /// Partitions a view over threads: the part of each thread; see [`View::parallelize`].
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let (m, n) = (Value::symbol("M"), Value::symbol("N"));
    /// # let a = b.tensor("a", Elem::F32, (m, n), None, false)?;
    /// let tile = b.tile(&a, (128, 8), &[At::Index(0.into()), At::Index(0.into())])?;
    /// // 32 by 8 threads: each has every 32nd row of one column
    /// let part = b.parallelize(&tile, &layout!((32, 8)))?;
    /// assert_eq!(part.shape().to_string(), "(4,1)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn parallelize(&mut self, view: &View, threads: &Layout) -> Result<View> {
        self.parallelize_over(view, threads, 0, &Partition::default())
    }

    /// Partitions a view over the threads of a group, with a projection.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::Coord, build::Builder, view::{At, Partition, View}};
    /// # use tilewright_layout::{Layout, Value, layout};
    /// # let mut b = Builder::new("example");
    /// # let (m, n) = (Value::symbol("M"), Value::symbol("N"));
    /// # let a = b.tensor("a", Elem::F32, (m, n), None, false)?;
    /// let tile = b.tile(&a, (128, 8), &[At::Index(0.into()), At::Index(0.into())])?;
    /// // four consecutive rows, for vector copies of 16 bytes
    /// let wide = Partition { values: vec![4, 1], ..Partition::default() };
    /// let part = b.parallelize_over(&tile, &layout!((32, 8)), 0, &wide)?;
    /// assert_eq!(part.shape().to_string(), "((4,1),1)");
    /// // rows only: threads along the second mode of (16, 16) have the same part
    /// let rows = Partition { keep: Some(vec![true, false]), ..Partition::default() };
    /// let part = b.parallelize_over(&tile, &layout!((16, 16)), 0, &rows)?;
    /// assert_eq!(part.shape().to_string(), "(8,8)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn parallelize_over(
        &mut self,
        view: &View,
        threads: &Layout,
        group: Id,
        partition: &Partition,
    ) -> Result<View> {
        let size = threads.size()?;
        self.occupy(group, size, view).map_err(|problem| problem.arg(1))?;
        permuted(partition.swizzle, size)?;
        view.parallelize(threads, &Coord::thread(group, partition.swizzle).into(), partition)
    }

    /// All partitions of a group must have the same number of threads.
    pub(crate) fn occupy(&mut self, group: Id, size: i64, view: &View) -> Result<()> {
        if size > i64::from(BLOCK_THREADS) {
            return Err(Problem::new(format!(
                "`{}` is partitioned over {size} threads, and a block has at most {BLOCK_THREADS}",
                view.name
            ))
            .help("let each thread take more elements"));
        }
        let known = &mut self.program.groups[group as usize];
        let first = &mut self.partitions[group as usize];
        match first {
            Some(first) if i64::from(known.threads) != size => {
                return Err(Problem::new(format!(
                    "thread layouts disagree: `{}` is partitioned over {size} threads, {first}",
                    view.name
                ))
                .help("all partitions of a block need the same number of threads"));
            }
            Some(_) => {}
            None => {
                known.threads = size as u32;
                *first = Some(format!("`{}` over {size}", view.name));
            }
        }
        Ok(())
    }

    /// The view shifted by a number of elements along each mode; see [`View::shift`].
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, view::At};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// let a = b.tensor("a", Elem::F32, (Value::symbol("M"), Value::symbol("N")), None, false)?;
    /// let tile = b.tile(&a, (32, 32), &[At::Index(0.into()), At::Index(0.into())])?;
    /// let left = b.shift(&tile, &[(-1).into(), 0.into()])?;
    /// assert_eq!((left.shape(), left.base[0].constant()), (tile.shape(), Some(-1)));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn shift(&mut self, view: &View, by: &[Affine]) -> Result<View> {
        view.shift(by)
    }

    /// A tile with a halo: further elements before and after, which overlap its neighbours; see
    /// [`View::with_halo`].
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, view::At};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// let a = b.tensor("a", Elem::F32, (Value::symbol("M"), Value::symbol("N")), None, false)?;
    /// let tile = b.tile(&a, (32, 32), &[At::Index(0.into()), At::Index(0.into())])?;
    /// assert_eq!(b.with_halo(&tile, &[(1, 1), (0, 2)])?.shape().to_string(), "(34,34)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn with_halo(&mut self, tile: &View, halo: &[(i64, i64)]) -> Result<View> {
        tile.with_halo(halo)
    }

    /// The view broadcast along some modes of a larger shape; see [`View::broadcast`].
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, view::At};
    /// # use tilewright_layout::Value;
    /// # let mut b = Builder::new("example");
    /// let bias = b.tensor("bias", Elem::F32, (Value::symbol("N"),), None, false)?;
    /// let tile = b.tile(&bias, (32i64,), &[At::Index(0.into())])?;
    /// assert_eq!(b.broadcast(&tile, &[Some(64), None])?.shape().to_string(), "(64,32)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn broadcast(&mut self, view: &View, shape: &[Option<i64>]) -> Result<View> {
        view.broadcast(shape)
    }

    /// Sets the number of blocks along an axis: the product of these sizes. For kernels that compute tile
    /// coordinates from the block index.
    ///
    /// ```
    /// # use tilewright_codegen::build::Builder;
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("walks");
    /// b.blocks(0, &[Value::symbol("M").ceil_div(128).unwrap(), Value::Int(4)])?;
    /// assert_eq!(b.program().grid[0].unwrap().to_string(), "ceil(M/128)");
    /// assert_eq!(b.program().more[0], [Value::Int(4)]);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn blocks(&mut self, axis: u8, sizes: &[Value]) -> Result<()> {
        let axis = usize::from(axis);
        let Some((first, more)) = sizes.split_first() else { return Ok(()) };
        match self.program.grid[axis] {
            None => {
                self.program.grid[axis] = Some(*first);
                self.program.more[axis] = more.to_vec();
                let is_computed = |size: &Value| match size {
                    Value::Sym { of, .. } => {
                        self.program.requires.iter().any(|require| require.of == Some(*of))
                    }
                    _ => false,
                };
                let computed = sizes.iter().any(is_computed);
                self.axes[axis] = Some(Numbered { by: "a walk over tiles".into(), written: true, computed });
                Ok(())
            }
            Some(known) if known == *first && self.program.more[axis] == more => Ok(()),
            Some(known) => {
                let letter = ["x", "y", "z"][axis];
                let user = self.axes[axis].as_ref().map_or("", |first| &first.by);
                let all: Vec<String> = sizes.iter().map(Value::to_string).collect();
                Err(Problem::new(format!(
                    "`block.{letter}` indexes {} tiles here, but {known} tiles of `{user}`",
                    all.join(" * ")
                ))
                .help("use another axis of `block`"))
            }
        }
    }

    /// The same view in the shared memory of another block of the cluster, by its cluster rank: distributed
    /// shared memory. Ordinary copies, maps and atomic updates can access it; `sync_cluster`
    /// orders them.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, affine::{Affine, Coord}, build::Builder};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// b.cluster([4, 1, 1]);
    /// let parts = b.shared("parts", Elem::F32, layout!(4))?;
    /// let next = Affine::from(Coord::ClusterRank).plus(&1.into(), 1).unwrap().submode(1, Some(4));
    /// let theirs = b.of_peer(&parts, &next)?;
    /// assert_eq!(theirs.shape().to_string(), "(4)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn of_peer(&mut self, view: &View, rank: &Affine) -> Result<View> {
        if !matches!(self.space(view), Space::Shared { .. }) {
            let reported = format!(
                "`{}` is not in shared memory, and blocks of a cluster reach nothing else",
                view.name
            );
            return Err(Problem::new(reported).help("put it in shared memory").arg(0));
        }
        let theirs = View { peer: Some(rank.clone()), ..view.clone() };
        verify::of_cluster(&self.program, &theirs).map_err(|problem| problem.arg(1))?;
        Ok(theirs)
    }

    /// The same elements in the same order under another shape; see [`View::regroup`].
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # let mut b = Builder::new("example");
    /// let acc = b.registers("acc", Elem::F32, (16i64, 1i64))?;
    /// // pairs of columns, upper and lower row, groups of columns
    /// let by_row = b.regroup(&acc, (2i64, 2i64, 4i64))?;
    /// assert_eq!(by_row.shape().to_string(), "(2,2,4)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn regroup(&mut self, view: &View, shape: impl Into<Tuple>) -> Result<View> {
        view.regroup(shape)
    }

    /// Loads a partition into registers, and returns them as a view of its shape. Elements that a broadcast repeats
    /// are loaded once and take one register.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, view::At};
    /// # use tilewright_layout::{Value, layout};
    /// # let mut b = Builder::new("example");
    /// let bias = b.tensor("bias", Elem::F32, (Value::symbol("N"),), None, false)?;
    /// let tile = b.tile(&bias, (32i64,), &[At::Index(0.into())])?;
    /// let tile = b.broadcast(&tile, &[Some(64), None])?;
    /// let part = b.parallelize(&tile, &layout!((16, 8)))?;
    /// let loaded = b.load_part(&part)?; // four numbers, each for four rows
    /// assert_eq!(loaded.layout.to_string(), "(4,4):(0,1@0)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn load_part(&mut self, part: &View) -> Result<View> {
        let single = part.rearranged(part.layout.filter());
        let (count, elem) = (single.layout.size()?, self.elem(part));
        let name = format!("r_{}", part.name);
        let registers = self.registers_in(&name, elem, (count,).into(), elem.bits() < 32)?;
        self.copy(&single.regroup((count,))?, &registers)?;
        registers.repeated(&part.layout)
    }

    /// The same elements with their modes permuted.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::layout;
    /// # let mut b = Builder::new("example");
    /// let v = b.shared("v", Elem::F16, layout!((64, 128)))?;
    /// assert_eq!(b.permute(&v, &[1, 0])?.shape().to_string(), "(128,64)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn permute(&mut self, view: &View, order: &[usize]) -> Result<View> {
        view.permute(order)
    }
}

/// The remedy for a number of tiles of an extent that is a quotient, which rounds down.
fn rounded(program: &Program, tiles: Value) -> Option<String> {
    let Value::Sym { of, .. } = tiles else { return None };
    let require = program.requires.iter().find(|require| require.of == Some(of))?;
    let Test::Equal(_, computed) = &require.test else { return None };
    let (&[(Coord::Submode { of: ref whole, over, extent: None }, 1)], 0) =
        (&computed.terms[..], computed.constant)
    else {
        return None;
    };
    let whole = whole.size()?;
    Some(format!(
        "; tiles of a quotient that rounds up can be compared: write ceil_div({whole}, {over}) instead of {}",
        require.text
    ))
}
