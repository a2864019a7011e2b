//! The grid: along each axis, one block for each tile at the block's coordinate.

use tilewright_codegen::ast::{Arg, Binary, Expr, ExprKind, ParamKind};

use super::constructs::statements;
use super::{Block, Result, undefined};

/// Blocks along an axis; more are a fault of the draw.
const MOST: i128 = 4096;

impl Block<'_> {
    pub(super) fn grid(&mut self) -> Result<[i64; 3]> {
        let mut counts: [Option<i128>; 3] = [None; 3];
        let mut named = [false; 3];
        let mut wrong = false;
        let kernel = self.kernel;
        statements(&kernel.body, &mut |of| {
            if let Some(axis) = axis(of) {
                named[axis] = true;
            }
            let ExprKind::Call { function, args, .. } = of else { return };
            if let ("walk", Some(order)) = (&*function.text, args.first()) {
                counts[0] = self.blocks(&order.value);
            }
            if function.text != "tile" {
                return;
            }
            let Some((extents, sizes, at)) = self.tiles(args) else { return };
            for (mode, at) in at.iter().enumerate() {
                let Some(axis) = axis(&at.kind) else { continue };
                let size = sizes.get(mode).copied().unwrap_or(1);
                let count = (extents[mode] + size - 1) / size;
                wrong |= counts[axis].is_some_and(|known| known != count) || count > MOST;
                counts[axis] = Some(count);
            }
        });
        if wrong {
            return undefined("an axis of the grid numbers tiles of different counts");
        }
        if counts.iter().zip(named).any(|(count, named)| named && count.is_none()) {
            return undefined("no tile of an argument has as many blocks as an axis of the grid");
        }
        Ok(counts.map(|count| count.unwrap_or(1) as i64))
    }

    /// The number of blocks in an order of blocks, `walk(3, block.x)`, `walk(layout!((4, 6) : (6, 1)), block.x)`.
    fn blocks(&self, order: &Expr) -> Option<i128> {
        match &order.kind {
            ExprKind::Int(n) => Some((*n).into()),
            ExprKind::Layout { shape, .. } => self.blocks(shape),
            ExprKind::Tuple(modes) => modes.iter().map(|mode| self.blocks(mode)).product(),
            _ => None,
        }
    }

    /// Extents of an argument, sizes of its tiles, and the coordinates of one.
    fn tiles<'k>(&self, args: &'k [Arg]) -> Option<(Vec<i128>, Vec<i128>, Vec<&'k Expr>)> {
        let ExprKind::Name(name) = &args.first()?.value.kind else { return None };
        let param = self.kernel.params.iter().find(|param| param.name.text == *name)?;
        let ParamKind::Tensor { shape, .. } = &param.kind else { return None };
        let known = |name: &str| match self.settings.iter().find(|(known, _)| known == name) {
            Some((_, value)) => value.int(),
            None => self.symbols.get(name).copied(),
        };
        let number = |of: &Expr| integer_at_launch(of, &known);
        let extents = list(shape).into_iter().map(number).collect::<Option<Vec<_>>>()?;
        let sizes = list(&args.get(1)?.value).into_iter().map(number).collect::<Option<Vec<_>>>()?;
        Some((extents, sizes, list(&args.get(2)?.value)))
    }
}

/// An integer that is known at launch, of names that are.
pub(super) fn integer_at_launch(of: &Expr, known: &dyn Fn(&str) -> Option<i128>) -> Option<i128> {
    let number = |of: &Expr| integer_at_launch(of, known);
    Some(match &of.kind {
        ExprKind::Int(n) => (*n).into(),
        ExprKind::Name(name) => known(name)?,
        ExprKind::Call { function, args, .. } if function.text == "ceil_div" && args.len() == 2 => {
            let (a, b) = (number(&args[0].value)?, number(&args[1].value)?);
            if b <= 0 {
                return None;
            }
            (a + b - 1).div_euclid(b)
        }
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (number(a)?, number(b)?);
            match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div if b > 0 => a.div_euclid(b),
                Binary::Rem if b > 0 => a.rem_euclid(b),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The axis of the grid, if an expression is the block's coordinate along it.
pub(super) fn axis(of: &ExprKind) -> Option<usize> {
    let ExprKind::Field { base, field } = of else { return None };
    let is_block = matches!(&base.kind, ExprKind::Name(name) if name == "block");
    ["x", "y", "z"].iter().position(|axis| is_block && *axis == field.text)
}

fn list(of: &Expr) -> Vec<&Expr> {
    match &of.kind {
        ExprKind::Tuple(items) => items.iter().collect(),
        _ => vec![of],
    }
}
