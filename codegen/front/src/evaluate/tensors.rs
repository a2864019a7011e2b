//! Functions that make tiles, parts of tiles and registers.

use super::args::Args;
use super::value::Value;
use super::{Evaluator, advice, integer};
use crate::source::problem::Problem;
use crate::tile;
use crate::tile::view::Partition;
use crate::values::affine::Coord;
use crate::values::elem::Elem;
use crate::values::typing::Scalar;

impl Evaluator {
    /// `tile(tensor, (BM, BK), (block.x, _))`
    pub(super) fn tile_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let (tensor, tiler) = (args.view(0)?, args.tiler(1)?);
        args.get(1).map_or(Ok(()), tile_extents)?;
        let coord = match args.get(2) {
            Some(at) => {
                let at = self.indices(at.clone(), args.span(2));
                at.ats().ok_or_else(|| self.no_coordinate(&at, &args.usage()).arg(2))?
            }
            None => return Err(args.needs(2, "coordinates, such as (block.x, _),")),
        };
        let tiled = self.builder.tile(&tensor, tiler, &coord)?;
        for (mode, name) in args.constants.get(1).into_iter().flatten().enumerate() {
            let extent = match args.get(1) {
                Some(Value::Tuple(extents)) => extents.get(mode),
                extent => extent,
            };
            if let (Some(name), Some(Value::Int(extent))) = (name, extent) {
                self.builder.name_extent(&tensor, mode, name, *extent);
            }
        }
        let Some((_, halo, span)) = args.named.first() else { return Ok(Value::View(tiled)) };
        let rank = match args.get(1) {
            Some(Value::Tuple(items)) => items.len(),
            _ => 1,
        };
        match self.halo(halo, rank) {
            Some(halo) => Ok(Value::View(self.builder.with_halo(&tiled, &halo)?)),
            None => {
                let problem = Problem::new(format!(
                    "`halo` is a number for each of the {rank} modes of the tile, and this is {}",
                    halo.kind()
                ));
                Ok(self.complain(
                    *span,
                    problem.help("write halo = (1, 1), or ((1, 2), 0) for a mode with two sides"),
                ))
            }
        }
    }

    /// `parallelize(tensor, layout!((32, 8)), thread.x)`
    pub(super) fn parallelize_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let tensor = args.view(0)?;
        // A swizzle permutes thread indices, not elements.
        let (threads, swizzle) = match args.get(1) {
            Some(Value::Layout(threads)) => (threads.layout().clone(), threads.swizzle()),
            _ => return Err(args.needs(1, "a layout")),
        };
        match args.get(2) {
            Some(Value::Index(index)) if *index == Coord::Thread(0).into() => {}
            _ => return Err(args.needs(2, "`thread.x`")),
        }
        let keep = match args.get(3) {
            None => None,
            Some(Value::Tuple(items))
                if items.iter().all(|i| matches!(i, Value::Int(0 | 1) | Value::Hole)) =>
            {
                Some(items.iter().map(|item| !matches!(item, Value::Hole)).collect())
            }
            Some(other) => {
                let problem = args.needs(3, "a projection, such as (1, _),");
                return Err(match other.tuple().filter(|of| of.ints().is_some()) {
                    Some(values) => problem.help(format!("the elements that a thread takes at once have a name: values = {values}; a projection has `1` for a mode of the thread layout that takes part, and `_` for another")),
                    None => problem,
                });
            }
        };
        let mut partition = Partition { keep, swizzle, ..Partition::default() };
        for (name, value, _) in &args.named {
            match (name.text.as_str(), value, value.tuple().and_then(|t| t.ints())) {
                ("ragged", Value::Bool(ragged), _) => partition.ragged = *ragged,
                ("values", _, Some(values)) if values.iter().all(|n| *n > 0) => partition.values = values,
                (name, other, _) => {
                    let what = if name == "ragged" { "true or false" } else { "positive integers" };
                    return Err(Problem::new(format!("`{name}` is {what}, and this is {}", other.kind()))
                        .help("write ragged = true, or values = (4, 1)"));
                }
            }
        }
        Ok(Value::View(self.builder.parallelize_over(&tensor, &threads, 0, &partition)?))
    }

    /// `shared::<f32>(layout!((BM, BK) : (1, BM + 1)))`
    pub(super) fn shared_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let name = args.name_or("tile");
        let elem = self.type_argument(args)?;
        let layout = match args.get(0) {
            Some(Value::Layout(layout)) => layout.clone(),
            Some(Value::Tuple(_) | Value::Int(_)) => {
                let shape = args.get(0).and_then(Value::tuple).ok_or_else(|| args.wrong())?;
                if shape.product().is_none() {
                    return Err(advice::known_at_launch("a tile in shared memory", &shape).arg(0));
                }
                return Ok(Value::View(self.builder.shared_tile(name, elem, shape)?));
            }
            Some(Value::Size(size)) => {
                return Err(advice::known_at_launch("a tile in shared memory", size).arg(0));
            }
            _ => return Err(args.needs(0, "a shape or a layout")),
        };
        if !layout.layout().is_static() {
            return Err(advice::known_at_launch("a tile in shared memory", &layout).arg(0));
        }
        let made = self.builder.shared(name, elem, layout);
        Ok(Value::View(made?))
    }

    /// `registers::<f32>((8, 8), 0.0)`
    pub(super) fn registers_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let name = args.name_or("fragment");
        let elem = self.type_argument(args)?;
        let shape = args.shape(0)?;
        if shape.product().is_none() {
            return Err(advice::known_at_launch("a tile in registers", &shape).arg(0));
        }
        let fragment = self.builder.registers(name, elem, shape)?;
        if args.values.len() == 2 {
            self.builder.fill(&fragment, args.number(1)?.expr)?;
        }
        Ok(Value::View(fragment))
    }

    /// `registers_like(tensor, 0.0)`
    pub(super) fn registers_like_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let name = args.name_or("fragment");
        let like = args.view(0)?;
        let value = if args.values.len() == 2 { args.number(1)?.expr } else { tile::Expr::lit(0) };
        let elem = match args.types[..] {
            [] => self.builder.elem(&like),
            _ => self.type_argument(args)?,
        };
        // A counter or sum in one register may differ from thread to thread.
        let fragment = match like.layout.size() {
            Ok(1) => self.builder.registers(name, elem, like.shape())?,
            _ => self.room_for(name, elem, std::slice::from_ref(&like))?,
        };
        self.builder.fill(&fragment, value)?;
        Ok(Value::View(fragment))
    }

    /// `full::<f32>((BM, BN), 0.0)`
    pub(super) fn full_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let name = args.name_or("fragment");
        let elem = self.type_argument(args)?;
        let shape = args.shape(0)?;
        self.full(name, elem, &shape, args.number(1)?)
    }

    /// `iota(256)`, or `iota((BM, BN), 1)`: the coordinates along a mode
    pub(super) fn iota_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let name = args.name_or("places");
        let shape = args.shape(0)?;
        let mode = match args.values.len() {
            0..=1 if shape.rank() == 1 => 0,
            0..=1 => return Err(args.needs(1, "a mode of the tile")),
            _ => args.integer(1)?,
        };
        if !(0..shape.rank() as i64).contains(&mode) {
            return Err(Problem::new(format!("a tile of the shape {shape} has no mode {mode}"))
                .help(format!("modes are numbered from 0: write one below {}", shape.rank()))
                .arg(1));
        }
        let zero = Scalar::new(tile::Expr::lit(0), Elem::I32);
        let Value::View(places) = self.full(name, Elem::I32, &shape, zero)? else { return Ok(Value::Poison) };
        self.builder.map(std::slice::from_ref(&places), &places, tile::Expr::At(mode as u8))?;
        Ok(Value::View(places))
    }

    /// `fragment_like(part)`
    pub(super) fn fragment_like_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let name = args.name_or("fragment");
        self.fragment_like(args, name, &args.view(0)?)
    }

    /// `retile(fragment, rows)`
    pub(super) fn retile_call(&mut self, args: &Args) -> Result<Value, Problem> {
        self.builder.retile(&args.view(0)?, &args.view(1)?).map(Value::View)
    }

    /// `fill(tensor, 0.0)`
    pub(super) fn fill_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let to = args.view(0)?;
        match args.get(1) {
            Some(Value::View(one)) if integer::is_one(one) => {
                let one = self.fitting(one.clone(), &to);
                self.builder.map(&[one], &to, tile::Expr::In(0))?;
            }
            _ => self.builder.fill(&to, args.number(1)?.expr)?,
        }
        Ok(Value::Unit)
    }
}

/// A tile's extents are positive, and known while compiling.
fn tile_extents(shape: &Value) -> Result<(), Problem> {
    match shape {
        Value::Int(n) if *n < 1 => Err(Problem::new(format!("a tile has the extent {n}"))
            .help("write one of at least 1, or `_` for the whole mode")
            .arg(1)),
        Value::Size(size) => Err(advice::known_at_launch("a tile", size).arg(1)),
        Value::Tuple(items) => items.iter().try_for_each(tile_extents),
        _ => Ok(()),
    }
}
