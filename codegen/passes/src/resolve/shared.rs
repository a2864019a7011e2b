//! Layouts of shared tiles that are declared by their shape alone: contiguous along the mode of vectorized
//! copies, and free of bank conflicts for all accesses where possible.

use crate::isa::atom::OperandName;
use std::collections::BTreeMap;

use tilewright_layout::{Composed, Distribution, Layout, Transfer, Tuple};

use super::converted::Operands;
use super::forms::{contiguous, spread};
use super::part::{seen, shown};
use super::{Width, extents, product, words};
use crate::build::alignment;
use crate::build::tiled::{SharedUses, TiledMma, swizzled_tile};
use crate::source::diagnostic::Diagnostic;
use crate::source::problem::Result;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::whole;
use crate::tile::{Form, Op, Program, Space, Stmt};
use crate::values::elem::Elem;

/// Gives open tiles their layouts.
pub(super) fn choose(
    program: &mut Program,
    body: &[Stmt],
    forms: &BTreeMap<Id, Distribution>,
    converted: &Operands,
    width: Width,
) -> std::result::Result<(), Diagnostic> {
    for id in program.open.clone() {
        let is_operand = |view: &View| converted.at(view).is_some_and(|of| of.source.tensor == id);
        let touches = |stmt: &&Stmt| {
            whole::views(&stmt.op).iter().any(|view| view.tensor == id || is_operand(view))
                && whole::is_cooperative(program, stmt.by, &stmt.op)
        };
        let stmts: Vec<&Stmt> = preorder(body).filter(touches).collect();
        let span = program.tensor(id).span;
        if let Some(layout) =
            layout_for(program, id, &stmts, forms, converted, width).map_err(|problem| problem.at(span))?
        {
            let tensor = &mut program.tensors[id as usize];
            tensor.space = Space::Shared { align: alignment(&layout, tensor.elem) };
            tensor.layout = layout;
        }
    }
    Ok(())
}

fn layout_for(
    program: &Program,
    id: Id,
    stmts: &[&Stmt],
    forms: &BTreeMap<Id, Distribution>,
    converted: &Operands,
    width: Width,
) -> Result<Option<Composed>> {
    let tensor = program.tensor(id);
    let tile: Vec<i64> =
        tensor.plain().modes().map(|mode| mode.size()).collect::<std::result::Result<_, _>>()?;
    if stmts.is_empty() || tile.len() != 2 {
        return Ok(None);
    }
    // Contiguous along the same mode as global memory, or else along the last.
    let fast = stmts.iter().find_map(|stmt| beside(program, stmt, id)).unwrap_or(1);
    let mut uses = SharedUses::new(tensor.elem, [tile[0], tile[1]], fast)?;
    for stmt in stmts {
        if let Op::Gemm { a, b, acc, .. } = &stmt.op
            && let Some(Form::Sums(mma)) = program.forms.get(&acc.tensor)
        {
            if mma.is_asynchronous() {
                return Ok(Some(swizzled_tile(tensor.elem, [tile[0], tile[1]], fast)?));
            }
            for (view, operand) in [(a, OperandName::A), (b, OperandName::B)] {
                let of = converted.at(view);
                let pairs = of.and_then(|of| of.pairs);
                let mma = &pairs.map_or_else(|| mma.clone(), |pairs| mma.clone().with_pairs(operand, pairs));
                let view = of.map_or(view, |of| &of.source);
                let modes = if view.tensor == id { shown(view).unwrap_or_default() } else { Vec::new() };
                let [Some(rows), Some(k)] = modes[..] else { continue };
                if view.extents() == Some(vec![tile[rows], tile[k]]) {
                    // A tile that does not fit is reported where the product is written out.
                    uses = uses.clone().multiplied_as(mma, operand, [rows, k]).unwrap_or(uses);
                }
            }
            continue;
        }
        for (d, stores) in accesses(program, stmt, id, forms, width)? {
            uses = used(uses, &d, fast, tensor.elem.elements_in(16i64), stores)?;
        }
    }
    Ok(Some(uses.layout()?))
}

/// The shared layout of a register tile that becomes an operand of a product.
pub(super) fn operand(
    elem: Elem,
    tile: [i64; 2],
    own: &Distribution,
    mma: &TiledMma,
    operand: OperandName,
) -> Result<Composed> {
    let uses = used(SharedUses::new(elem, tile, 1)?, own, 1, elem.elements_in(16i64), true)?;
    uses.multiplied(mma, operand)?.layout()
}

/// The shared layout by which elements of a tile change from one distribution to another.
pub(super) fn exchanged(elem: Elem, from: &Distribution, to: &Distribution, fast: usize) -> Result<Composed> {
    let [rows, columns] = from.tile()[..] else {
        return Ok(Layout::compact(Tuple::flat(from.tile()))?.into());
    };
    let most = elem.elements_in(16i64);
    let uses = used(SharedUses::new(elem, [rows, columns], fast)?, from, fast, most, true)?;
    used(uses, to, fast, most, false)?.layout()
}

/// Adds an access to the whole tile, unless threads do not divide it.
fn used(uses: SharedUses, d: &Distribution, fast: usize, most: i64, stores: bool) -> Result<SharedUses> {
    let Some(tv) = d.indices()? else { return Ok(uses) };
    let transfer = if stores { Transfer::Store } else { Transfer::Load };
    Ok(uses.clone().used(&tv, vector(d, fast, most), transfer).unwrap_or(uses))
}

/// The mode of a shared tile along which a statement's global memory is contiguous.
fn beside(program: &Program, stmt: &Stmt, id: Id) -> Option<usize> {
    let views = whole::views(&stmt.op);
    let own = views.iter().find(|view| view.tensor == id)?;
    let global = |view: &&&View| matches!(program.tensor(view.tensor).space, Space::Global { .. });
    let other = views.iter().filter(global).find(|view| view.extents() == own.extents())?;
    let mode = contiguous(program, other)?;
    shown(own).ok()?.get(mode).copied().flatten()
}

/// How a statement accesses a shared tile: its distributions, in modes of the tile, and whether it writes.
fn accesses(
    program: &Program,
    stmt: &Stmt,
    id: Id,
    forms: &BTreeMap<Id, Distribution>,
    width: Width,
) -> Result<Vec<(Distribution, bool)>> {
    let views = whole::views(&stmt.op);
    let mut known = None;
    for view in views.iter().rev() {
        if let Some(own) = forms.get(&view.tensor) {
            known = known.or(seen(view, own)?);
        }
    }
    let all = match (known, &stmt.op) {
        (Some(sums), Op::Gemm { a, b, .. }) => {
            let k = extents(a)?.get(1).copied().unwrap_or(1);
            let own = [a, b].into_iter().enumerate().filter(|(_, view)| view.tensor == id);
            return Ok(own.map(|(mode, _)| (product::operand(&sums, mode, k), false)).collect());
        }
        (None, Op::Gemm { .. }) => return Ok(Vec::new()),
        (Some(all), op) if whole::unpacks(op).is_some() => match words::of_words(&all) {
            Some(bytes) => bytes,
            None => return Ok(Vec::new()),
        },
        (None, op) if whole::unpacks(op).is_some() => return Ok(Vec::new()),
        (Some(all), _) => all,
        (None, _) => spread(program, &views, i64::from(program.groups[stmt.by as usize].threads), width)?,
    };
    let mut layout_for = Vec::new();
    for (index, view) in views.iter().enumerate().filter(|(_, view)| view.tensor == id) {
        // A slice is accessed like the whole tile, but for its offset.
        let (Ok(modes), Ok(own)) = (shown(view), extents(view)) else { continue };
        let tile: Vec<i64> =
            program.tensor(id).plain().modes().map(|mode| mode.size().unwrap_or(1)).collect();
        let whole =
            modes.iter().zip(&own).all(|(mode, extent)| mode.is_none_or(|mode| tile[mode] == *extent));
        if whole {
            layout_for.push((super::part::wanted(view, &tile, &all)?, index + 1 == views.len()));
        }
    }
    Ok(layout_for)
}

/// The vector width of a thread's access along a mode.
pub(super) fn vector(d: &Distribution, fast: usize, most: i64) -> i64 {
    match d.value_submodes().first() {
        Some(submode) if submode.mode == fast && submode.step == 1 => {
            (0..5).map(|bit| most >> bit).find(|n| *n > 0 && submode.extent % n == 0).unwrap_or(1)
        }
        _ => 1,
    }
}
