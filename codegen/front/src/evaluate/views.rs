//! Functions that make other views of tensors: shifted, permuted, broadcast, and the raster order of blocks
//! over tiles.

use tilewright_layout::Value as Size;

use super::Evaluator;
use super::args::Args;
use super::value::Value;
use crate::source::problem::Problem;
use crate::tile::view::position;
use crate::values::affine::{Affine, Arith, Coord};

impl Evaluator {
    /// `shift(tile, (-1, 0))`
    pub(super) fn shift_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let view = &args.view(0)?;
        let by = args.values.get(1).map(|(value, _)| self.coordinates(value.clone(), args.span(1)));
        let items = match by {
            Some(Value::Tuple(items)) => items,
            Some(one) => vec![one],
            None => return Err(args.needs(1, "how far each mode is shifted")),
        };
        let by: Option<Vec<Affine>> = items.iter().map(|item| self.integer(item)).collect();
        let by = by.ok_or_else(|| args.needs(1, "integers"))?;
        Ok(Value::View(self.builder.shift(view, &by)?))
    }

    /// `permute(tensor, (1, 0))`
    pub(super) fn permute_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let view = &args.view(0)?;
        let order = args.values.get(1).and_then(|(value, _)| value.tuple()).and_then(|order| order.ints());
        let order: Option<Vec<usize>> =
            order.and_then(|order| order.iter().map(|&mode| usize::try_from(mode).ok()).collect());
        let order = order.ok_or_else(|| args.needs(1, "the modes in their new order"))?;
        Ok(Value::View(self.builder.permute(view, &order)?))
    }

    /// `regroup(tile, (8, 16))`
    pub(super) fn regroup_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let view = &args.part(0)?;
        let shape = args.values.get(1).and_then(|(value, _)| value.tuple());
        let shape = shape.filter(|shape| shape.ints().is_some());
        let shape = shape.ok_or_else(|| args.needs(1, "a shape, known while compiling,"))?;
        Ok(Value::View(self.builder.regroup(view, shape)?))
    }

    /// `broadcast(bias, (BM, _))`
    pub(super) fn broadcast_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let view = &args.view(0)?;
        let items = match args.values.get(1) {
            Some((Value::Tuple(items), _)) => &items[..],
            _ => return Err(args.needs(1, "a shape with `_` for each mode of the tensor,")),
        };
        let one = |item: &Value| match item {
            Value::Hole => Some(None),
            Value::Int(n) if *n > 0 => Some(Some(*n)),
            _ => None,
        };
        let shape: Option<Vec<Option<i64>>> = items.iter().map(one).collect();
        let shape = shape.ok_or_else(|| args.needs(1, "extents and `_`"))?;
        Ok(Value::View(self.builder.broadcast(view, &shape)?))
    }

    /// `peer(tile, (block.x + 1) % 4)`
    pub(super) fn peer_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let view = &args.view(0)?;
        let rank = args.get(1).and_then(|rank| self.integer(rank));
        let rank = rank.ok_or_else(|| args.needs(1, "the number of a block in its cluster"))?;
        Ok(Value::View(self.builder.of_peer(view, &rank)?))
    }

    /// The halo of a tile: `1`, `(1, 0)` or `((1, 2), 0)`, for its `rank` modes.
    pub(super) fn halo(&self, value: &Value, rank: usize) -> Option<Vec<(i64, i64)>> {
        let one = |value: &Value| match value {
            Value::Int(n) => Some((*n, *n)),
            Value::Tuple(pair) => match pair[..] {
                [Value::Int(before), Value::Int(after)] => Some((before, after)),
                _ => None,
            },
            _ => None,
        };
        match value {
            Value::Tuple(items) if items.len() == rank => items.iter().map(one).collect(),
            Value::Int(_) => Some(vec![one(value)?; rank]),
            _ => None,
        }
    }

    /// `walk((rows, columns), block.x)`: the tile coordinates of a block, the first mode fastest.
    /// `walk(layout!(…), block.x)`: the tile coordinates that a layout gives the block index.
    pub(super) fn walk_call(&mut self, args: &Args) -> Result<Value, Problem> {
        let over = args.values.get(1).map(|(value, _)| value);
        let axis = match over {
            Some(Value::Index(index)) => match index.terms[..] {
                [(Coord::Block(axis), 1)] if index.constant == 0 => axis,
                _ => return Err(args.needs(1, "`block.x`")),
            },
            _ => return Err(args.needs(1, "`block.x`")),
        };
        let block = Affine::from(Coord::Block(axis));
        let tiles = args.values.first().map(|(value, _)| value.clone());
        let tiles = tiles.map(|tiles| self.counted(tiles)).transpose().map_err(|problem| problem.arg(0))?;
        if let Some(Value::Layout(layout)) = &tiles
            && let Some(layout) = layout.as_layout()
        {
            let size = layout.size()?;
            if layout.right_inverse()?.size()? != size {
                return Err(Problem::new(format!(
                    "the layout {layout} does not map its coordinates to 0..{size}"
                ))
                .help("give each coordinate its own number, such as layout!((4, 8) : (8, 1))")
                .arg(0));
            }
            self.builder.blocks(axis, &[Size::Int(size)])?;
            let at = layout.modes().map(|mode| position(&mode, &block).map(Value::Index));
            return Ok(Value::Tuple(at.collect::<Result<_, _>>()?));
        }
        // As many blocks as that, and their number.
        if let Some(count) = tiles.as_ref().and_then(as_size)
            && args.named.is_empty()
        {
            self.builder.blocks(axis, &[count])?;
            return Ok(Value::Index(block));
        }
        let sizes = match &tiles {
            Some(Value::Tuple(items)) => items.iter().map(as_size).collect::<Option<Vec<_>>>(),
            _ => None,
        };
        let computed = |value: &Value| matches!(value, Value::Number(_) | Value::Index(_));
        let is_computed = match &tiles {
            Some(Value::Tuple(items)) => items.iter().any(computed),
            of => of.as_ref().is_some_and(computed),
        };
        if is_computed {
            let of_tuple = match &tiles {
                Some(Value::Tuple(items)) => items.iter().find(|item| computed(item)),
                _ => None,
            };
            let problem = match of_tuple {
                Some(Value::Index(at)) => Problem::new(format!(
                    "`walk` needs sizes or constants here, and {} is computed",
                    crate::tile::verify::text(self.builder.program(), at)
                ))
                .arg(0),
                _ => args.needs(0, "a size or a constant"),
            };
            return Err(problem.help(
                "a launch computes the grid from sizes: write that of a tensor, walk(y.size(0), block.x), also of one that is longer, with `if row < R { … }` in the blocks; or a `const` parameter of the kernel",
            ));
        }
        let Some(sizes) = sizes else {
            return Err(
                args.needs(0, "the number of tiles along each mode, a number of blocks, or a layout,")
            );
        };
        // Modes with one tile have the coordinate 0. If one other mode is left, the block's index numbers its tiles.
        let is_one = |mode: &usize| sizes[*mode] == Size::Int(1);
        let last = sizes.len().saturating_sub(1);
        let mut moving: Vec<usize> = (0..sizes.len()).filter(|mode| !is_one(mode)).collect();
        if moving.is_empty() {
            moving.push(last);
        }
        let counts: Vec<Size> = moving.iter().map(|mode| sizes[*mode]).collect();
        self.builder.blocks(axis, &counts)?;
        let far = || Problem::new("a coordinate passes 63 bits");
        let mut all = vec![Value::Int(0); sizes.len()];
        for (mode, at) in moving.iter().zip(walk(&block, &counts).ok_or_else(far)?) {
            all[*mode] = Value::Index(at);
        }
        Ok(Value::Tuple(all))
    }
}

impl Evaluator {
    /// Numbers that are computed from sizes, as sizes that a launch computes.
    pub(super) fn counted(&mut self, tiles: Value) -> Result<Value, Problem> {
        Ok(match tiles {
            Value::Index(at) if self.is_of_sizes(&at) => Value::Size(self.builder.computed(&at)?),
            Value::Tuple(all) => {
                Value::Tuple(all.into_iter().map(|one| self.counted(one)).collect::<Result<_, _>>()?)
            }
            other => other,
        })
    }
}

fn as_size(value: &Value) -> Option<Size> {
    match value {
        Value::Int(n) if *n > 0 => Some(Size::Int(*n)),
        Value::Size(size) => Some(*size),
        _ => None,
    }
}

/// The tile of a block in column-major order. The form of its coordinates shows that they are in bounds, so that whole tiles need
/// no guards.
fn walk(block: &Affine, sizes: &[Size]) -> Option<Vec<Affine>> {
    let (mut rest, mut all) = (block.clone(), Vec::new());
    let [inner @ .., last] = sizes else { return Some(all) };
    if inner.is_empty() {
        return Some(vec![rest]);
    }
    let below = |at: &Affine, size: &Affine| Affine::two(Arith::Min, at, &size.plus(&1.into(), -1)?);
    for size in inner {
        let size = Affine::from(*size);
        all.push(below(&Affine::two(Arith::Rem, &rest, &size)?, &size)?);
        rest = Affine::two(Arith::Div, &rest, &size)?;
    }
    all.push(below(&rest, &(*last).into())?);
    Some(all)
}
