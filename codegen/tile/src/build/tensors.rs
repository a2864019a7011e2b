//! Tensors: arguments, shared memory, registers.

use std::collections::{BTreeMap, BTreeSet};

use crate::isa::atom::OperandName;
use tilewright_layout::{Composed, Layout, Tuple, Value};

use super::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::tiled_mma::TiledMma;
use crate::tile::view::View;
use crate::tile::{Arg, Expr, Form, Scalar, Space, Tensor};
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;
use crate::values::limits;
use crate::values::number::Number;

impl Builder {
    /// A register tile distributed over the threads: its uses determine the distribution. Statements name the
    /// whole tile, and each thread has a part. See the pass `resolve`.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Expr};
    /// let mut b = Builder::new("shared_tile");
    /// let t = b.distributed("t", Elem::F32, &[128, 64])?;
    /// b.fill(&t, Expr::lit(1.0))?;
    /// assert_eq!(t.shape().to_string(), "(128,64)"); // 32 of each of 256 threads
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn distributed(&mut self, name: &str, elem: Elem, tile: &[i64]) -> Result<View> {
        limits::name("a tile", name)?;
        let shape = Tuple::flat(tile);
        let layout = Layout::compact(shape.clone())?;
        limits::bytes(name, layout.size()?, elem)?;
        let id = self.add(name, elem, Space::Registers { words: false }, layout.into());
        self.program.forms.insert(id, Form::Open);
        View::whole(id, name, &shape)
    }

    /// An accumulator tile of a tiled MMA, for statements that name the whole tile: [`Builder::gemm`],
    /// functions, copies. It starts at 0.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Order, tiled::TiledMma};
    /// let mut b = Builder::new("products");
    /// let mma = TiledMma::best(Elem::F16, Elem::F32, 80, [128, 128], 4)?;
    /// let (sa, sb) = (b.shared_tile("sa", Elem::F16, (128, 32))?, b.shared_tile("sb", Elem::F16, (128, 32))?);
    /// let acc = b.sums("acc", &mma, [128, 128])?;
    /// b.gemm(&sa, &sb, &acc, Order::Plain)?;
    /// assert_eq!(acc.shape().to_string(), "(128,128)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn sums(&mut self, name: &str, mma: &TiledMma, tile: [i64; 2]) -> Result<View> {
        mma.distribution(tile)?;
        let elem = mma.row.operand(OperandName::D).map_or(Elem::F32, |d| d.elem);
        let view = self.distributed(name, elem, &tile)?;
        self.occupy(mma.of, mma.threads()?, &view)?;
        self.program.forms.insert(view.tensor, Form::Sums(mma.clone()));
        self.arch(mma.row.arch);
        self.fill(&view, Expr::lit(0.0))?;
        Ok(view)
    }

    /// A tile in shared memory whose layout is chosen from its uses, if whole tiles are copied to or from it;
    /// compact otherwise.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// let mut b = Builder::new("open");
    /// let t = b.shared_tile("t", Elem::F16, (128, 64))?;
    /// assert_eq!(t.shape().to_string(), "(128,64)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn shared_tile(&mut self, name: &str, elem: Elem, shape: impl Into<Tuple>) -> Result<View> {
        let view = self.shared(name, elem, Layout::compact(shape)?)?;
        self.program.open.insert(view.tensor);
        Ok(view)
    }

    pub(super) fn add(&mut self, name: &str, elem: Elem, space: Space, layout: Composed) -> Id {
        let (name, span) = (name.to_owned(), self.span);
        self.program.tensors.push(Tensor { name, elem, space, layout, span });
        self.program.tensors.len() as Id - 1
    }

    /// A tensor argument. Without strides it is column-major, and every mode but the first has its own stride,
    /// known at launch: `a_1`, `a_2`, …
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::{Tuple, Value};
    /// let mut b = Builder::new("arguments");
    /// let (m, k) = (Value::symbol("M"), Value::symbol("K"));
    /// let a = b.tensor("a", Elem::F32, (m, k), None, false)?;
    /// assert_eq!(a.shape().to_string(), "(M,K)");
    /// assert_eq!(b.program().tensor(a.tensor).layout.to_string(), "(M,K):(1,lda)");
    /// // rows contiguous
    /// let rows = Tuple::of([Value::symbol("ldc").into(), Tuple::from(1)]);
    /// let c = b.tensor("c", Elem::F32, (m, k), Some(rows), true)?;
    /// assert_eq!(b.program().tensor(c.tensor).layout.to_string(), "(M,K):(ldc,1)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn tensor(
        &mut self,
        name: &str,
        elem: Elem,
        shape: impl Into<Tuple>,
        stride: Option<Tuple>,
        mutable: bool,
    ) -> Result<View> {
        limits::name("a tensor", name)?;
        let shape: Tuple = shape.into();
        let shape = if shape.is_leaf() { Tuple::of([shape]) } else { shape };
        if shape.depth() > 1 {
            return Err(Problem::new(format!("the tensor `{name}` has the nested shape {shape}"))
                .help("write a flat shape, such as (M, K); tiles may nest"));
        }
        if !(1..=limits::MOST_MODES).contains(&shape.rank()) {
            let (most, modes) = (limits::MOST_MODES, shape.rank());
            return Err(Problem::new(format!(
                "the tensor `{name}` has {modes} modes, and 1 to {most} are possible"
            ))
            .help("join modes that are contiguous, or pass them as several tensors"));
        }
        let default = || {
            let steps = (0..shape.rank()).map(|mode| match mode {
                0 => Tuple::from(1),
                _ => Tuple::from(Value::symbol(&leading(name, mode, shape.rank()))),
            });
            Tuple::of(steps)
        };
        let stride = match stride {
            Some(stride) if stride.is_leaf() => Tuple::of([stride]),
            Some(stride) => stride,
            None => default(),
        };
        let layout = Layout::new(shape.clone(), stride)?;
        limits::symbols(layout.leaves().flat_map(|(extent, stride)| [extent, stride]))?;
        if mutable && repeats(&layout) {
            return Err(Problem::new(format!(
                "`{name}` is written, and with the strides {} several of its elements are one element in memory",
                layout.stride()
            ))
            .help("give each element its own offset; an argument without the repeated mode can be written, and sum(x, 1) combines elements along a mode"));
        }
        let id = self.add(name, elem, Space::Global { mutable }, layout.into());
        self.program.args.push(Arg::Tensor(id));
        View::whole(id, name, &shape)
    }

    /// Memory that belongs to the launch: elements of all blocks, contiguous along the first mode. They are 0 at launch if they are
    /// `zeroed`; the kernel sets them to 0 again.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::Value;
    /// let mut b = Builder::new("parts");
    /// let parts = b.workspace("parts", Elem::F32, &[Value::Int(128), Value::symbol("M")], false)?;
    /// assert_eq!(parts.shape().to_string(), "(128,M)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn workspace(&mut self, name: &str, elem: Elem, extents: &[Value], zeroed: bool) -> Result<View> {
        limits::name("a tensor", name)?;
        let (mut strides, mut next) = (Vec::new(), Some(Value::Int(1)));
        for extent in extents {
            let stride = next.ok_or_else(|| {
                Problem::new(format!("the elements of `{name}` before one cannot be counted by one size"))
            })?;
            strides.push(Tuple::from(stride));
            next = stride.times(*extent);
        }
        let shape = Tuple::of(extents.iter().map(|extent| Tuple::from(*extent)));
        let layout = Layout::new(shape.clone(), Tuple::of(strides))?;
        let id = self.add(name, elem, Space::Global { mutable: true }, layout.into());
        if zeroed {
            self.program.zeroed.insert(id);
        }
        View::whole(id, name, &shape)
    }

    /// A scalar argument.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Expr};
    /// let mut b = Builder::new("scaled");
    /// assert_eq!(b.scalar("alpha", Elem::F32), Expr::Scalar(0));
    /// ```
    pub fn scalar(&mut self, name: &str, elem: Elem) -> Expr {
        self.program.scalars.push(Scalar { name: name.into(), elem });
        let id = self.program.scalars.len() as Id - 1;
        self.program.args.push(Arg::Scalar(id));
        Expr::Scalar(id)
    }

    /// A tensor in shared memory.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::layout;
    /// let mut b = Builder::new("tiles");
    /// let tile = b.shared("tile", Elem::F32, layout!((32, 32) : (1, 33)))?;
    /// assert_eq!(tile.shape().to_string(), "(32,32)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn shared(&mut self, name: &str, elem: Elem, layout: impl Into<Composed>) -> Result<View> {
        let layout: Composed = layout.into();
        limits::name("a tensor", name)?;
        layout.size()?;
        limits::bytes(name, layout.cosize()?, elem)?;
        let (shape, align) = (layout.shape(), alignment(&layout, elem));
        let id = self.add(name, elem, Space::Shared { align }, layout);
        View::whole(id, name, &shape)
    }

    /// A tensor in shared memory that reuses the memory of tensors that are no longer needed. All threads
    /// meet at a barrier first, so that no thread still reads those tensors.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::layout;
    /// let mut b = Builder::new("places");
    /// let first = b.shared("first", Elem::F32, layout!(64 : 1))?;
    /// let second = b.shared_after("second", Elem::F16, layout!(128 : 1), &[&first])?;
    /// assert_eq!(second.shape().to_string(), "(128)");
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn shared_after(
        &mut self,
        name: &str,
        elem: Elem,
        layout: impl Into<Composed>,
        done: &[&View],
    ) -> Result<View> {
        let view = self.shared(name, elem, layout)?;
        if !done.is_empty() {
            let done = done.iter().map(|view| view.tensor).collect();
            self.program.overlays.push((view.tensor, done));
            self.sync();
        }
        Ok(view)
    }

    /// Registers of each thread, of this shape.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// let mut b = Builder::new("sums");
    /// let acc = b.registers("acc", Elem::F32, (8i64, 8i64))?;
    /// assert_eq!(acc.shape().to_string(), "(8,8)");
    /// assert!(b.registers("too_many", Elem::F32, (32i64, 32i64)).is_err()); // 1,024 of 255
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn registers(&mut self, name: &str, elem: Elem, shape: impl Into<Tuple>) -> Result<View> {
        self.registers_in(name, elem, shape.into(), false)
    }

    pub(crate) fn registers_in(&mut self, name: &str, elem: Elem, shape: Tuple, words: bool) -> Result<View> {
        limits::name("a fragment", name)?;
        // One number for each mode: registers have no strides worth keeping.
        let flat: Vec<i64> =
            shape.modes().map(|mode| mode.product()).collect::<Option<_>>().ok_or_else(|| {
                Problem::new(format!("registers need a shape of integers, and this is {shape}"))
            })?;
        // Wide enough for the count of every refused shape.
        let count = flat.iter().fold(1i128, |all, &n| all.saturating_mul(i128::from(n)));
        const HELP: &str = "use smaller tiles, or more threads; a tile that the threads of a block share is full::<f32>((64, 64), 0.0)";
        fits(count, elem).map_err(|problem| problem.help(HELP))?;
        let flat = Tuple::flat(&flat);
        let id = self.add(name, elem, Space::Registers { words }, Layout::compact(flat.clone())?.into());
        View::whole(id, name, &flat)
    }

    /// Registers of the shape of a view, each set to a number.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// # use tilewright_layout::layout;
    /// let mut b = Builder::new("like");
    /// let tile = b.shared("tile", Elem::F64, layout!((32, 8)))?;
    /// let part = b.parallelize(&tile, &layout!((16, 4)))?;
    /// let own = b.registers_like("own", &part, 0.0)?;
    /// assert_eq!((own.shape().to_string(), b.elem(&own)), ("(2,2)".to_string(), Elem::F64));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn registers_like(&mut self, name: &str, view: &View, value: impl Into<Number>) -> Result<View> {
        let elem = self.elem(view);
        let registers = self.registers(name, elem, view.shape())?;
        self.fill(&registers, Expr::lit(value))?;
        Ok(registers)
    }

    /// The element type of a view.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder};
    /// let mut b = Builder::new("types");
    /// let x = b.registers("x", Elem::Bf16, (4i64,))?;
    /// assert_eq!(b.elem(&x), Elem::Bf16);
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn elem(&self, view: &View) -> Elem {
        self.program.tensor(view.tensor).elem
    }

    /// Where a view's tensor is.
    ///
    /// ```
    /// # use tilewright_codegen::{Elem, build::Builder, tile::Space};
    /// let mut b = Builder::new("spaces");
    /// let x = b.registers("x", Elem::F32, (4i64,))?;
    /// assert!(matches!(b.space(&x), Space::Registers { .. }));
    /// # Ok::<(), tilewright_codegen::problem::Problem>(())
    /// ```
    pub fn space(&self, view: &View) -> Space {
        self.program.tensor(view.tensor).space
    }

    /// The author's text reads this size.
    pub fn reads_size(&mut self, size: Value) {
        if !self.program.read_sizes.contains(&size) {
            self.program.read_sizes.push(size);
        }
    }

    /// All but the first of these sizes are not read.
    pub fn forget_sizes(&mut self, first: usize) {
        self.program.read_sizes.truncate(first);
    }

    pub(super) fn writable(&self, view: &View, arg: usize) -> Result<()> {
        match self.space(view) {
            _ if view.repeats() => Err(Problem::new(format!(
                "`{}` is broadcast, {}: several of its elements are one element of its tensor, and this writes to them",
                view.name,
                view.shape()
            ))
            .help("write to the tensor itself")
            .arg(arg)),
            Space::Shared { .. } => self.coinciding(view).map_or(Ok(()), |elements| {
                let Tensor { name, elem, layout, span, .. } = self.program.tensor(view.tensor);
                let [one, other] = elements.map(|coord| Tuple::flat(&coord));
                let problem = Problem::new(format!(
                    "the elements {one} and {other} of `{name}` are one element in shared memory, and a statement writes both: the layout is {layout}"
                ));
                let help = format!(
                    "give each element its own offset, or leave the layout out, shared::<{elem}>({}); a statement may write a slice without such elements",
                    layout.shape()
                );
                let cause = self.program.arguments.get(span).and_then(|all| all.first());
                Err(Problem { cause: cause.copied(), ..problem.help(help).arg(arg) })
            }),
            Space::Global { mutable: false } => {
                let tensor = &self.program.tensor(view.tensor).name;
                Err(Problem::new(format!("`{tensor}` is an input, and this writes to it"))
                    .help(format!("declare it as `{tensor}: &mut Tensor<…>`"))
                    .arg(arg))
            }
            _ => Ok(()),
        }
    }

    /// Two elements that threads have in a view of shared memory, and that are one element. Loop variables are taken as 0.
    fn coinciding(&self, view: &View) -> Option<[Vec<i64>; 2]> {
        let layout = &self.program.tensor(view.tensor).layout;
        if layout.is_injective() != Some(false) {
            return None;
        }
        let threads = if view.per_thread() { self.program.threads() } else { 1 };
        let (mut all, mut compared) = (BTreeSet::new(), 0);
        for thread in 0..i64::from(threads) {
            let of =
                |sum: &Affine| sum.eval(&|coord| if matches!(coord, Coord::Thread(_)) { thread } else { 0 });
            let mut own: Vec<Vec<i64>> = vec![view.base.iter().map(of).collect()];
            for (extent, stride) in view.layout.leaves().filter(|(extent, _)| *extent != Value::Int(1)) {
                let (Some(extent), Value::Basis { times, path }) = (extent.int(), stride) else {
                    return None;
                };
                if compared + extent.saturating_mul(own.len() as i64) > MOST_COMPARED {
                    return None;
                }
                let mode = usize::from(path.steps()[0]);
                let step = |coord: &Vec<i64>, at: i64| {
                    let mut coord = coord.clone();
                    coord[mode] += at * times;
                    coord
                };
                own = (0..extent).flat_map(|at| own.iter().map(move |coord| step(coord, at))).collect();
            }
            compared += own.len() as i64;
            let ends: Vec<Option<i64>> = view
                .limits
                .iter()
                .map(|limit| limit.as_ref().map(|(origin, extent)| of(origin) + extent))
                .collect();
            let inside =
                |coord: &Vec<i64>| coord.iter().zip(&ends).all(|(at, end)| end.is_none_or(|end| *at < end));
            all.extend(own.into_iter().filter(inside));
        }
        let mut known = BTreeMap::new();
        all.into_iter().find_map(|coord| {
            let offset = layout.at(Tuple::flat(&coord)).ok()?;
            known.insert(offset, coord.clone()).map(|other| [other, coord])
        })
    }
}

/// The most elements of a view that are compared with each other.
const MOST_COMPARED: i64 = 1 << 18;

/// Are several elements of an argument one element, for all sizes?
fn repeats(layout: &Layout) -> bool {
    let repeats = layout.leaves().any(|(extent, stride)| stride == Value::Int(0) && extent != Value::Int(1));
    let (extents, strides): (Vec<i64>, Vec<i64>) =
        layout.leaves().filter_map(|(extent, stride)| Some((extent.int()?, stride.int()?))).unzip();
    let known = Layout::new(Tuple::flat(&extents), Tuple::flat(&strides));
    repeats || known.is_ok_and(|known| known.is_injective() == Some(false))
}

/// Has a thread registers for this number of elements?
pub fn fits(count: i128, elem: Elem) -> Result<()> {
    /// Threads have at most 255 registers of 32 bits.
    const MOST: i128 = 255;
    let registers = elem.bytes_of(count).saturating_add(3) / 4;
    if registers <= MOST {
        return Ok(());
    }
    Err(Problem::new(format!(
        "a fragment of {count} elements of {elem} takes {registers} registers of each thread, and {MOST} is the limit"
    )))
}

/// The alignment of a shared tensor: a swizzle acts on offsets from its start, which must be aligned to the
/// swizzle's period.
pub fn alignment(layout: &Composed, elem: Elem) -> u32 {
    let swizzle = layout.swizzle();
    match swizzle.bits() {
        0 => 16,
        bits => {
            let far = swizzle.base() + bits + swizzle.shift().unsigned_abs();
            1024.min(elem.bytes() << far.min(10)).max(16)
        }
    }
}

/// The name of a stride that is known at launch: `lda` for a matrix `a`, `a_2` for further modes.
fn leading(tensor: &str, mode: usize, rank: usize) -> String {
    if rank == 2 { format!("ld{tensor}") } else { format!("{tensor}_{mode}") }
}
