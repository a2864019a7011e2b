//! Results that leave shared memory in parts, each computed on its way: by bulk stores, while the threads continue with the
//! next part, or in a persistent kernel with the next tile; or by the threads, where bulk stores do not support the tensor.
//! Parts alternate between two buffers.

use tilewright_layout::{Composed, Distribution, Layout, Path, Submode, Tuple, Value};

use super::epilogue::{Parts, in_parts, part_at};
use super::forms::{contiguous, spread};
use super::{Resolve, Width, part};
use crate::build::tiled::{SWIZZLED, swizzled_tile, to_next_box};
use crate::build::{BOX_ALIGN, Builder, alignment};
use crate::isa;
use crate::isa::atom::Atom;
use crate::source::problem::{Problem, Result};
use crate::thread::{Id, Unroll};
use crate::tile::boxes::Boxes;
use crate::tile::slots::slots_apart;
use crate::tile::view::{At, View};
use crate::tile::visit::rename;
use crate::tile::{Expr, Group, How, Op, Space, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::elem::Elem;

/// Buffers: one is written while a bulk store reads the other.
const BUFFERS: i64 = 2;
/// Columns of a part where rows of its tile are contiguous, so that it is one box for each block of rows.
const COLUMNS: [i64; 3] = [64, 32, 16];
/// Parts along the rows, if whole columns of a tile take too much shared memory.
const ROWS: [i64; 3] = [1, 2, 4];
/// The most bytes of an argument that a thread loads ahead of waits.
const EARLY: i64 = 256;
/// Columns of a block of elements that are not of 16 bits, at least 16 bytes: four lanes store adjacent pairs of a row.
const BLOCK: i64 = 8;
/// Stores of 8x8 matrices by a warp, four at a time: along the second mode of a tile, and along the first.
const MATRICES: [&str; 2] = ["stmatrix_x4_trans", "stmatrix_x4"];

/// How a part leaves shared memory.
enum Leave {
    /// By a bulk store, under a token.
    Bulk(&'static Atom, Id),
    /// By threads, distributed so.
    Threads(Distribution),
}

/// Buffers in shared memory that parts of a result could have.
struct Buffers {
    /// How many parts there are along the rows and along the columns of a member's tile.
    parts: [i64; 2],
    /// Which thread of a member has which elements of its part.
    own: Distribution,
    /// How many a member has, and the layout of all, and its size.
    count: i64,
    all: Composed,
    bytes: i64,
}

/// Buffers in shared memory, which all results with parts of one layout share.
#[derive(Clone)]
pub(super) struct Staging {
    by: Id,
    parts: [i64; 2],
    pub(super) buffers: View,
    /// Of their bulk stores.
    pub(super) token: Option<Id>,
}

/// A tile on its way to global memory in parts.
pub(super) struct BulkEpilogue {
    /// The function that computes its elements, where they have no other use.
    pub(super) computed: Option<Computed>,
    /// The threads that store parts together, and how their members divide the tile: along which modes, and into how many.
    by: Id,
    members: Members,
    /// The buffers of all members, as the mode after a part's modes, and how many a member has.
    buffers: View,
    count: i64,
    /// Which thread of a member has which elements of its part.
    own: Distribution,
    /// How many parts there are along the rows and along the columns of a member's tile.
    parts: [i64; 2],
    /// The rows that each lane gives to an instruction that stores matrices, if there is one for these elements.
    matrices: Option<(&'static Atom, Distribution)>,
    leave: Leave,
    /// Have other results been in its buffers?
    is_shared: bool,
}

/// How the members of a family divide a tile, the slowest mode first.
type Members = Vec<Parts>;

/// A function of elements, and its statement.
#[derive(Clone)]
pub(super) struct Computed {
    pub(super) ins: Vec<View>,
    pub(super) value: Expr,
    index: usize,
}

impl Resolve {
    /// Buffers for a statement's results in global memory, if bulk stores can write them, or threads where accesses are not
    /// vectors. No other statement accesses the tensor, since bulk stores are not ordered with other accesses.
    pub(super) fn bulk_epilogue(
        &mut self,
        stmt: &Stmt,
        ins: &[&View],
        to: &View,
        d: &Distribution,
    ) -> Result<Option<BulkEpilogue>> {
        let tensor = self.program.tensor(to.tensor).clone();
        let store = match &stmt.op {
            Op::Atomic { update, .. } => isa::bulk_update(tensor.rank(), update.with, tensor.elem),
            _ => isa::bulk_store(tensor.rank()),
        };
        let is_widest = self.width.writes == Width::WIDEST.writes;
        let store = store.filter(|row| row.arch <= self.program.arch && is_widest);
        let (Some(fast), 0) = (contiguous(&self.program, to), self.repeats) else { return Ok(None) };
        let updates = matches!(stmt.op, Op::Atomic { .. });
        if store.is_none() && (is_widest || self.loops == 0 || updates) {
            return Ok(None);
        }
        // The tensor's only other reader is the function of the elements that replace it.
        let computed = match (&stmt.op, ins) {
            (Op::Copy { .. }, [from]) => self.computed_before(from, to.tensor, false),
            _ => None,
        };
        let replaces = match &computed {
            Some(of) => {
                let accesses = 1 + usize::from(of.ins.iter().any(|view| view.tensor == to.tensor));
                let target = part::of_memory(to, d, stmt.by, false)?;
                self.uses.statements(to.tensor) == accesses && reads_only(of.ins.iter(), &target)
            }
            None => self.uses.statements(to.tensor) == 1 && reads_only(ins.iter().copied(), to),
        };
        if !replaces || d.tile().len() != 2 {
            return Ok(None);
        }
        let (by, members, d) = self.members(stmt.by, d);
        let own = part_of_member(to, &members, &0.into())?;
        let choices = self.buffer_choices(by, &d, tensor.elem, fast)?;
        // Wide parts, in few rows.
        self.fit(&choices.iter().map(|of| (of.parts[1], of.bytes)).collect::<Vec<_>>())?;
        for Buffers { parts, own: d, count, bytes, all } in choices {
            let same = |of: &&Staging| {
                let own = self.program.tensor(of.buffers.tensor);
                let alike =
                    (own.elem, &own.layout) == (tensor.elem, &all) && of.token.is_some() == store.is_some();
                alike && (of.by, of.parts) == (by, parts)
            };
            let shared = self.staging.iter().find(same).cloned();
            if shared.is_none() && !self.has_room(stmt, bytes) {
                continue;
            }
            let first = part_of(&own, parts, &0.into())?;
            let (free, index) = (self.free(stmt), self.program.tensors.len());
            let buffers = match &shared {
                Some(of) => of.buffers.clone(),
                None => self.staged_buffers(&to.name, tensor.elem, &all)?,
            };
            let buffer = slot(&buffers, &0.into())?;
            if store.is_some_and(|store| Boxes::of(&self.program, store, &buffer, &first).is_err()) {
                self.program.tensors.truncate(index);
                continue;
            }
            let matrices = match tensor.elem.bytes() {
                2 => rows_of_matrices(&d, fast).and_then(|rows| Some((isa::find(MATRICES[fast])?, rows))),
                _ => None,
            };
            let token = match &shared {
                Some(of) => of.token,
                None => store.map(|_| self.store_token(stmt, by)),
            };
            let leave = match (store, token) {
                (Some(store), Some(token)) => Leave::Bulk(store, token),
                _ => Leave::Threads(spread(&self.program, &[&first], d.threads(), self.width)?),
            };
            if shared.is_none() {
                self.overlay(stmt, buffers.tensor, free);
                self.staging.push(Staging { by, parts, buffers: buffers.clone(), token });
            }
            if let Some(of) = &computed {
                self.moved(of);
            }
            let is_shared = shared.is_some();
            return Ok(Some(BulkEpilogue {
                computed,
                by,
                members,
                buffers,
                count,
                own: d,
                parts,
                matrices,
                leave,
                is_shared,
            }));
        }
        Ok(None)
    }

    /// The buffers that parts of a tile could have, with which threads have which elements: wide parts first.
    fn buffer_choices(&self, by: Id, d: &Distribution, elem: Elem, fast: usize) -> Result<Vec<Buffers>> {
        let mut choices = Vec::new();
        let [rows, columns] = d.tile()[..] else { return Ok(choices) };
        // Along the contiguous mode a part is as wide as a swizzle.
        let widths = match fast {
            1 => [SWIZZLED, SWIZZLED / 2, SWIZZLED / 4].map(|wide| elem.elements_in(wide)),
            _ => COLUMNS,
        };
        let divided = widths.into_iter().filter(|wide| columns % wide == 0).map(|wide| columns / wide);
        for parts @ [down, across] in divided.chain([1]).flat_map(|across| ROWS.map(|down| [down, across])) {
            let by_rows = in_parts(d, Parts { mode: 0, count: down }).filter(|_| rows % down == 0);
            let Some(own) = by_rows.and_then(|d| in_parts(&d, Parts { mode: 1, count: across })) else {
                continue;
            };
            let part @ [_, width] = [rows / down, columns / across];
            let block = BLOCK.max(elem.elements_in(16));
            let layout = match (elem.bits(), fast) {
                (8 | 32, 1) if width % block == 0 => in_blocks(part, block, elem.bytes().into()),
                _ => swizzled_tile(elem, part, fast),
            };
            let Ok(layout) = layout else { continue };
            let count = (down * across).min(BUFFERS);
            let groups = i64::from(self.program.groups[by as usize].members.max(1));
            let all = slots_apart(&layout, count * groups, elem.elements_in(BOX_ALIGN.into()))?;
            choices.push(Buffers { parts, own, count, bytes: elem.bytes_of(all.cosize()?), all });
        }
        Ok(choices)
    }

    /// A shared tensor that stages a result.
    fn staged_buffers(&mut self, result: &str, elem: Elem, layout: &Composed) -> Result<View> {
        let name = format!("{result}_staged");
        let space = Space::Shared { align: alignment(layout, elem).max(BOX_ALIGN) };
        let id = self.tensor(&name, elem, space, Layout::compact(1)?);
        self.program.tensors[id as usize].layout = layout.clone();
        View::whole(id, &name, &layout.shape())
    }

    /// A token for bulk stores, and a wait for all of them.
    fn store_token(&mut self, stmt: &Stmt, by: Id) -> Id {
        let token = self.program.tokens;
        self.program.tokens += 1;
        self.stores.push(Stmt::new(stmt.span, by, Op::Wait { token: Some(token), but: 0 }));
        token
    }

    /// The warpgroups or warps of a group, if each has a separate part of the tile, so that they need not wait for each other; and
    /// the distribution of a part over the threads of one of them.
    fn members(&self, by: Id, d: &Distribution) -> (Id, Members, Distribution) {
        let of = &self.program.groups[by as usize];
        let is_family = |group: &Group| {
            group.members > 1 && group.warps == of.warps && group.threads * group.members == of.threads
        };
        let Some(family) = self.program.groups.iter().position(is_family) else {
            return (by, Vec::new(), d.clone());
        };
        let mut left = i64::from(self.program.groups[family].members);
        let (mut tile, mut threads, mut members) =
            (d.tile().to_vec(), d.thread_submodes().to_vec(), Vec::new());
        while left > 1 {
            let last = threads.pop().filter(|last| {
                left % last.extent == 0 && last.step * last.extent == tile[last.mode] && last.step > 0
            });
            let Some(last) = last else { return (by, Vec::new(), d.clone()) };
            tile[last.mode] = last.step;
            members.push(Parts { mode: last.mode, count: last.extent });
            left /= last.extent;
        }
        let own = Distribution::new(&tile, threads, d.value_submodes().to_vec());
        (family as Id, members, own)
    }

    /// Removes a function that is computed when its elements are stored.
    pub(super) fn moved(&mut self, of: &Computed) {
        self.body.remove(of.index);
        // The barriers around it are one.
        self.body.dedup_by(|next, last| next.op == Op::Sync && last.op == Op::Sync && next.by == last.by);
    }

    /// The function of elements that computes a copied tile, if the previous statement computed it and no other statement
    /// reads it: each part is computed when it is stored.
    /// With `waits` there are barriers before it.
    pub(super) fn computed_before(&self, from: &View, target: Id, waits: bool) -> Option<Computed> {
        let once = self.forms.contains_key(&from.tensor) && self.uses.statements(from.tensor) == 2;
        let index = self.body.iter().rposition(|stmt| stmt.op != Op::Sync).filter(|_| once)?;
        let Op::Map { ins, to, value } = &self.body[index].op else { return None };
        // Elements that others may write after the barriers in between are not read there.
        let is_own = |view: &View| match self.program.tensor(view.tensor).space {
            Space::Registers { .. } | Space::Global { mutable: false } => true,
            Space::Global { mutable: true } => view.tensor == target && !waits,
            Space::Shared { .. } => false,
        };
        let remains = index + 1 == self.body.len() && !waits || ins.iter().all(is_own);
        let whole = to.tensor == from.tensor && !value.any(&|part| matches!(part, Expr::At(_)));
        (whole && remains && !ins.is_empty()).then(|| Computed {
            ins: ins.clone(),
            value: value.clone(),
            index,
        })
    }

    /// Where a thread needs few elements of an argument, they are loaded before the wait for the last products: unless other
    /// arguments have an element for each result. Then all loads are in flight together, in fewer registers. Without a wait they
    /// would only take registers.
    fn loaded_early(&mut self, stmt: &Stmt, ins: &[View]) -> Result<Vec<View>> {
        let of_memory = |view: &View| matches!(self.program.tensor(view.tensor).space, Space::Global { .. });
        for view in ins.iter().filter(|view| of_memory(view)) {
            if view.layout.filter().size()? == view.layout.size()? {
                return Ok(ins.to_vec());
            }
        }
        let waits = |op: &Op| matches!(op, Op::Wait { .. } | Op::Release { .. });
        let only_waits = |stmt: &Stmt| match &stmt.op {
            Op::If { then, other, .. } => then.iter().chain(other).all(|stmt| waits(&stmt.op)),
            op => waits(op),
        };
        let first = self.body.iter().rposition(|stmt| !only_waits(stmt)).map_or(0, |last| last + 1);
        if first == self.body.len() {
            return Ok(ins.to_vec());
        }
        let waits = self.body.split_off(first);
        let mut made = Vec::new();
        for view in ins {
            let tensor = self.program.tensor(view.tensor);
            let count = view.layout.filter().size()?;
            let few = tensor.elem.bytes_of(count) <= EARLY && count < view.layout.size()?;
            let reads = matches!(tensor.space, Space::Global { mutable: false });
            made.push(view.clone());
            if few && reads {
                self.built(stmt, |b| {
                    *made.last_mut().ok_or_else(Problem::reported)? = b.load_part(view)?;
                    Ok(())
                })?;
            }
        }
        self.body.extend(waits);
        Ok(made)
    }

    /// Writes elements of a thread where they belong, by the operation that is made of `ins` and the target.
    pub(super) fn written_in_bulk(
        &mut self,
        stmt: &Stmt,
        to: &View,
        bulk: &BulkEpilogue,
        ins: &[View],
        make: impl Fn(&[View], View) -> Op,
    ) -> Result<()> {
        let BulkEpilogue { by, members, buffers, count, own, parts, matrices, leave, is_shared, .. } = bulk;
        let packed = match matrices {
            Some(_) => {
                let elem = self.program.tensor(to.tensor).elem;
                Some(self.packed(&format!("{}_packed", to.name), elem, own)?)
            }
            None => None,
        };
        let (looped, all) = (self.loops > 0, parts[0] * parts[1]);
        let ins = match leave {
            Leave::Bulk(..) => self.loaded_early(stmt, ins)?,
            // Threads have guards and addresses in registers.
            Leave::Threads(_) => ins.to_vec(),
        };
        self.built(&Stmt { by: *by, ..stmt.clone() }, |b| {
            let members_count = b.program().groups[*by as usize].members;
            let member = if members_count > 1 { Coord::Member(*by).into() } else { Affine::default() };
            // Alternating groups have a tile each.
            let to = part_of_member(to, members, &member)?;
            let first = member.times(*count).ok_or_else(Problem::reported)?;
            if let (Leave::Bulk(_, token), true, 1..) = (leave, looped || *is_shared, all % count) {
                // The last part before is in the first buffer.
                b.wait(*token, 0);
            }
            let part = |b: &mut Builder, at: Affine| -> Result<()> {
                let ins: Vec<View> =
                    ins.iter().map(|view| part_of(view, *parts, &at)).collect::<Result<_>>()?;
                // Elements are computed in the order of their registers, unless an argument has other submodes.
                let compute = |to: View| {
                    let all = ins.iter().chain([&to]).map(|view| by_submodes(view, own));
                    match all.collect::<Result<Vec<_>>>() {
                        Ok(mut all) => all.pop().map_or_else(|| make(&[], to), |to| make(&all, to)),
                        Err(_) => make(&ins, to),
                    }
                };
                let buffer = first.plus(&at.submode(1, Some(*count)), 1).ok_or_else(Problem::reported)?;
                let buffer = slot(buffers, &buffer)?;
                let freed = match leave {
                    _ if !looped && !is_shared && all == 1 => Vec::new(),
                    Leave::Bulk(_, token) => {
                        vec![Op::Wait { token: Some(*token), but: *count as u32 - 1 }, Op::Sync]
                    }
                    Leave::Threads(_) => vec![Op::Sync],
                };
                match (matrices, packed) {
                    (Some((row, rows)), Some(packed)) => {
                        let whole = View::whole(packed, &buffer.name, &buffer.shape())?.with_name("packed");
                        b.statement(compute(part::of_tile(&whole, own, own, packed)?));
                        freed.iter().for_each(|op| b.statement(op.clone()));
                        let from = in_matrices(&whole, own, packed)?;
                        let rows = by_submodes(&part::of_memory(&buffer, rows, *by, true)?, rows)?;
                        b.copy_how(&from, &rows, How::Atom(row), None)?;
                    }
                    _ => {
                        freed.iter().for_each(|op| b.statement(op.clone()));
                        b.statement(compute(part::of_memory(&buffer, own, *by, true)?));
                    }
                }
                b.statement(Op::Sync);
                let to = part_of(&to, *parts, &at)?;
                match leave {
                    Leave::Bulk(store, token) => b.copy_how(&buffer, &to, How::Atom(store), Some(*token)),
                    Leave::Threads(wide) => {
                        let from = part::of_memory(&buffer, wide, *by, false)?;
                        b.copy_how(&from, &part::of_memory(&to, wide, *by, true)?, How::Derive, None)
                    }
                }
            };
            match all {
                1 => part(b, 0.into()),
                count => b.repeat("part", Value::Int(count), Unroll::Full, part),
            }
        })?;
        if let (Leave::Threads(_), true) = (leave, is_shared) {
            self.join_loops();
        }
        Ok(())
    }

    /// Results that threads copy from the same buffers leave in one loop, where they have the same guards.
    fn join_loops(&mut self) {
        if let [.., Stmt { op: Op::For { var: one, body: first, .. }, by, .. }, next] = &mut self.body[..]
            && let Op::For { var: other, body: second, .. } = &mut next.op
            && next.by == *by
        {
            let (from, to) = (Coord::Var(*other), Coord::Var(*one));
            rename(second, &from, &to);
            first.append(second);
            self.body.pop();
        }
    }
}

/// A tile in blocks of some columns, where neighbouring lanes store pairs of a row: without the bank conflicts of swizzled
/// rows. Each block begins where a box can.
fn in_blocks([rows, columns]: [i64; 2], block: i64, bytes: i64) -> Result<Composed> {
    let shape = Tuple::of([rows.into(), (block, columns / block).into()]);
    let stride = Tuple::of([block.into(), (1i64, to_next_box(rows * block, bytes)).into()]);
    Ok(Layout::new(shape, stride)?.into())
}

/// A member's part of a view of a tile.
fn part_of_member(view: &View, members: &Members, member: &Affine) -> Result<View> {
    let (mut part, mut over) = (view.clone(), 1);
    for (at, parts) in members.iter().enumerate().rev() {
        let whole = (at > 0).then_some(parts.count);
        part = part_at(&part, *parts, &member.submode(over, whole))?;
        over *= parts.count;
    }
    Ok(part)
}

/// A part of a view of a member's tile, or of a thread's elements of it.
fn part_of(view: &View, [down, across]: [i64; 2], at: &Affine) -> Result<View> {
    let [row, column] = match (down, across) {
        (1, _) => [0.into(), at.clone()],
        _ => [at.submode(across, None), at.submode(1, Some(across))],
    };
    let rows = part_at(view, Parts { mode: 0, count: down }, &row)?;
    part_at(&rows, Parts { mode: 1, count: across }, &column)
}

/// Whether inputs read their tensor only where this view of it is.
fn reads_only<'v>(mut ins: impl Iterator<Item = &'v View>, target: &View) -> bool {
    ins.all(|view| view.tensor != target.tensor || view.is_same(target))
}

/// One of the buffers.
fn slot(buffers: &View, at: &Affine) -> Result<View> {
    buffers.slice(&[At::All, At::All, At::Index(at.clone())])
}

/// The rows of 8x8 matrices that the lanes of a warp address, four matrices at a time, if threads have the elements as the
/// instruction takes them: pairs along the columns, and eight rows and then eight columns further on.
fn rows_of_matrices(own: &Distribution, fast: usize) -> Option<Distribution> {
    let submode = |mode, extent, step| Submode { mode, extent, step };
    let (threads, values) = (own.thread_submodes(), own.value_submodes());
    let (lanes, warps) = threads.split_at_checked(2)?;
    let (first, rest) = values.split_at_checked(3)?;
    let matrices = first[2].extent % 2 == 0 && (first[2].mode, first[2].step) == (1, 8);
    if lanes != [submode(1, 4, 2), submode(0, 8, 1)]
        || first[..2] != [submode(1, 2, 1), submode(0, 2, 8)]
        || !matrices
    {
        return None;
    }
    let lanes = [submode(1 - fast, 8, 1), submode(0, 2, 8), submode(1, 2, 8)];
    let further = submode(1, first[2].extent / 2, 16);
    let threads = lanes.into_iter().chain(warps.iter().copied()).collect();
    let values = [submode(fast, 8, 1), further].into_iter().chain(rest.iter().copied()).collect();
    Some(Distribution::new(own.tile(), threads, values))
}

/// A thread's elements by matrices: the elements that an instruction takes, then the others.
fn in_matrices(whole: &View, own: &Distribution, fragment: Id) -> Result<View> {
    let along = |index: usize, extent: i64, times: i64| -> Result<Layout> {
        let path = Path::new(&[index]).ok_or_else(Problem::reported)?;
        Ok(Layout::new(extent, Value::Basis { times, path })?)
    };
    let [_, _, third, rest @ ..] = own.value_submodes() else { return Err(Problem::reported()) };
    let at_once = Layout::from_modes([along(0, 2, 1)?, along(1, 2, 1)?, along(2, 2, 1)?])?;
    let mut modes = vec![at_once];
    if third.extent > 2 {
        modes.push(along(2, third.extent / 2, 2)?);
    }
    for (index, submode) in rest.iter().enumerate() {
        modes.push(along(index + 3, submode.extent, 1)?);
    }
    let part = part::of_tile(whole, own, own, fragment)?;
    Ok(part.rearranged(Layout::from_modes(modes)?))
}

/// A thread's part with a mode for each submode of its values.
fn by_submodes(part: &View, d: &Distribution) -> Result<View> {
    let mut along: Vec<_> = Vec::new();
    for mode in part.layout.modes() {
        along.push(mode.leaves().collect::<Vec<_>>().into_iter());
    }
    let modes = d.value_submodes().iter().map(|&Submode { mode, extent, .. }| {
        let leaf = along[mode].next().filter(|(own, _)| *own == Value::Int(extent));
        let (extent, stride) = leaf.ok_or_else(Problem::reported)?;
        Ok(Layout::new(extent, stride)?)
    });
    Ok(part.rearranged(Layout::from_modes(modes.collect::<Result<Vec<_>>>()?)?))
}
