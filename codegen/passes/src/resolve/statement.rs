//! Lowering of one statement over whole tiles to statements over parts of threads.

use tilewright_layout::{Distribution, Layout, Tuple};

use super::bulk::Computed;
use super::epilogue::{Epilogue, Inputs, Old};
use super::forms::{WORD, kept, spread};
use super::part::{self, seen};
use super::words::moved;
use super::{Resolve, extents};
use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::Id;
use crate::tile::alternative::Policy;
use crate::tile::bounds::Assumed;
use crate::tile::pair::{Scanned, align};
use crate::tile::view::View;
use crate::tile::view::leaf::leaves;
use crate::tile::visit::{beside_tiles, of_control, of_order};
use crate::tile::{Across, Expr, How, Op, ProductViews, Space, Stmt, Submodes, Tensor, Update};
use crate::values::elem::Elem;
use crate::values::number::Number;

impl Resolve {
    /// Every tile in registers becomes the fragment of a thread.
    pub(super) fn fragments(&mut self) -> std::result::Result<(), crate::source::diagnostic::Diagnostic> {
        for (id, d) in self.forms.clone() {
            let Tensor { name, elem, span, .. } = self.program.tensor(id).clone();
            let made = fragment(&name, elem, &d).map_err(|problem| problem.at(span))?;
            self.program.tensors[id as usize].layout = made.into();
        }
        Ok(())
    }

    /// A new fragment for a tile that is distributed so.
    fn fragment(&mut self, name: &str, elem: Elem, d: &Distribution) -> Result<Id> {
        let layout = fragment(name, elem, d)?;
        Ok(self.tensor(name, elem, Space::Registers { words: false }, layout))
    }

    /// A thread's part of a tile in registers, converted to its target's element type if that is narrower: elements
    /// of later parts of the tile then take fewer registers.
    fn narrowed(&mut self, stmt: &Stmt, from: &View, to: &View, d: &Distribution) -> Result<View> {
        let side = self.side(stmt, from, d, false)?;
        let (elem, wide) = (self.program.tensor(to.tensor).elem, self.program.tensor(from.tensor).elem);
        let Some(own) = self.forms.get(&from.tensor).cloned().filter(|_| elem.bits() < wide.bits()) else {
            return Ok(side);
        };
        let name = format!("{}_packed", from.name);
        let layout = fragment(&name, elem, &own)?;
        let packed = self.tensor(&name, elem, Space::Registers { words: elem.bits() == 16 }, layout);
        let into = part::of_tile(from, &own, d, packed)?.with_name(&name);
        self.push(stmt, moved(side, into.clone()));
        Ok(into)
    }

    /// A fragment of packed elements for a tile that is distributed so.
    pub(super) fn packed(&mut self, name: &str, elem: Elem, d: &Distribution) -> Result<Id> {
        let layout = fragment(name, elem, d)?;
        Ok(self.tensor(name, elem, Space::Registers { words: true }, layout))
    }

    pub(super) fn tensor(&mut self, name: &str, elem: Elem, space: Space, layout: Layout) -> Id {
        let span = Default::default();
        self.program.tensors.push(Tensor { name: name.into(), elem, space, layout: layout.into(), span });
        self.program.tensors.len() as Id - 1
    }

    /// Lowers a statement over whole tiles.
    pub(super) fn statement(&mut self, stmt: &Stmt) -> Result<()> {
        let push = |resolve: &mut Resolve, op| resolve.push(stmt, op);
        match &stmt.op {
            Op::Copy { from, to, .. } if self.sums.adds(from, to) => self.sums_added(stmt, from, to)?,
            Op::Copy { from, to, how: How::Atom(row), .. } => self.unpacked(stmt, row, from, to)?,
            Op::Copy { from, to, how, fill, token } => {
                let d = self.elements(stmt, &[from], to)?;
                let before = self.computed_before(from, to.tensor, true);
                let epilogue = match (how, token) {
                    (How::Derive, None) => self.epilogue_tile(stmt, &[from], to, &d)?,
                    _ => None,
                };
                let computed = match &epilogue {
                    Some(Epilogue::Bulk(bulk)) => bulk.computed.clone(),
                    Some(epilogue) if !epilogue.is_in_parts() => before.inspect(|of| self.moved(of)),
                    _ => None,
                };
                if let Some(Computed { ins, value, .. }) = computed {
                    let [own, wanted] = [from, to].map(|view| self.program.tensor(view.tensor).elem);
                    let value = if own == wanted { value } else { value.cast(wanted) };
                    let make = |ins: &[View], to| Op::Map { ins: ins.to_vec(), to, value: value.clone() };
                    return self.written(stmt, to, &d, epilogue, Inputs { ins: &ins, old: None }, make);
                }
                let how = match (how, &epilogue) {
                    (How::Derive, None) => self.mechanism(stmt.by, from, to, &d)?,
                    _ => *how,
                };
                let ins = match &epilogue {
                    Some(epilogue) if epilogue.is_in_parts() => [self.narrowed(stmt, from, to, &d)?],
                    _ => [self.side(stmt, from, &d, from.is_same(to))?],
                };
                self.written(stmt, to, &d, epilogue, Inputs { ins: &ins, old: None }, |ins, to| Op::Copy {
                    from: ins[0].clone(),
                    to,
                    how,
                    fill: *fill,
                    token: *token,
                })?;
            }
            Op::Map { to, value, .. } if stmt.op.filled().is_some() => {
                let d = self.elements(stmt, &[], to)?;
                let to = self.side(stmt, to, &d, true)?;
                push(self, Op::fill(to, value.clone()));
            }
            Op::Map { ins, to, value } if self.is_in_words(to) => self.in_words(stmt, ins, to, value)?,
            Op::Map { ins, to, value } => {
                let all: Vec<&View> = ins.iter().collect();
                let d = self.elements(stmt, &all, to)?;
                // A function may read coordinates of the target.
                let epilogue = match value.any(&|part| matches!(part, Expr::At(_))) {
                    false => self.epilogue_tile(stmt, &all, to, &d)?,
                    true => None,
                };
                // Where several threads have the same elements, only the one that stores them may read the old elements.
                let replaced = |view: &View| !self.forms.contains_key(&view.tensor) && view.is_same(to);
                let replaced: Vec<bool> = ins.iter().map(replaced).collect();
                let old = replaced.iter().position(|replaced| *replaced);
                let old = old.map(|at| Old { at, test: value.read_where(at as u8).cloned() });
                let own = |(view, replaced)| self.side(stmt, view, &d, replaced);
                let ins: Vec<View> = ins.iter().zip(replaced).map(own).collect::<Result<_>>()?;
                self.written(stmt, to, &d, epilogue, Inputs { ins: &ins, old }, |ins, to| Op::Map {
                    ins: ins.to_vec(),
                    to,
                    value: value.clone(),
                })?;
            }
            Op::Atomic { from, to, update } => {
                let ins: Vec<&View> = [from].into_iter().chain(update.tiles()).collect();
                let d = self.elements(stmt, &ins, to)?;
                let replaced = from.is_same(to);
                if let Some(bulk) = self.added_in_bulk(stmt, from, to, update, &d)? {
                    let ins = [self.side(stmt, from, &d, false)?];
                    return self.written(
                        stmt,
                        to,
                        &d,
                        Some(bulk),
                        Inputs { ins: &ins, old: None },
                        |ins, to| moved(ins[0].clone(), to),
                    );
                }
                let (from, to) = (self.side(stmt, from, &d, replaced)?, self.side(stmt, to, &d, true)?);
                let own = self.update(stmt, update, &d)?;
                push(self, Op::Atomic { from, to, update: own });
                self.updated(stmt, update)?;
            }
            Op::Gather { .. } | Op::Scatter { .. } | Op::Probe { .. } => self.indexed(stmt)?,
            Op::Scan { from, to, carry, how } => self.scan(stmt, &Scanned { from, to, carry }, how)?,
            Op::Fold { from, to, with, identity, claimed, .. } => {
                self.fold(stmt, from, to, with, *claimed, identity)?
            }
            Op::Gemm { a, b, acc, how, order, .. } => {
                self.product(stmt, ProductViews { a, b, acc }, how.semiring(), *order)?
            }
            Op::Lanes { .. } | beside_tiles!() | of_order!() | of_control!() => self.body.push(stmt.clone()),
        }
        Ok(())
    }

    /// The update of a thread's part. Where it is skipped, 0 was there before.
    pub(super) fn update(&mut self, stmt: &Stmt, update: &Update, d: &Distribution) -> Result<Update> {
        let old = update.old.as_ref().map(|old| self.side(stmt, old, d, true)).transpose()?;
        if let Some(old) = &old {
            let elem = self.program.tensor(old.tensor).elem;
            self.push(stmt, Op::fill(old.clone(), Expr::lit(0i64).cast(elem)));
        }
        let expected = update.expected.as_ref().map(|view| self.side(stmt, view, d, false)).transpose()?;
        Ok(Update { old, expected, ..update.clone() })
    }

    /// After an atomic update: its thread passes the old value to the others, with everything that it has acquired.
    pub(super) fn updated(&mut self, stmt: &Stmt, update: &Update) -> Result<()> {
        let old = update.old.as_ref().map(|old| old.tensor);
        let own = old.and_then(|old| Some((old, self.forms.get(&old)?.clone())));
        match own {
            Some((old, own)) if !own.replicated().is_empty() => {
                self.through_shared(stmt, old, &own, &own, old)
            }
            _ if update.order.acquires() => {
                self.push(stmt, Op::Sync);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// How a whole tile is copied. Elements that cp.async does not move, because too few are contiguous, go through registers,
    /// and the loads of a pipelined loop are issued early.
    fn mechanism(&self, by: Id, from: &View, to: &View, d: &Distribution) -> Result<How> {
        let [source, target] = [from, to].map(|view| self.program.tensor(view.tensor));
        let fills = matches!((source.space, target.space), (Space::Global { .. }, Space::Shared { .. }));
        if !fills || source.elem != target.elem {
            return Ok(How::Derive);
        }
        if self.width.reads.max(source.elem.bytes().into()) < WORD {
            return Ok(How::Staged);
        }
        let part = |view, stores| part::of_memory(view, d, by, stores);
        let pair = align(&part(from, false)?, &part(to, true)?)?;
        let (from, to) = (leaves(&pair.from), leaves(&pair.to));
        let assumed = Assumed::new(&self.program, Policy::Best);
        let vector = assumed.bounds(&[]).asynchronous(&pair, &from, &to, &mut Vec::new());
        Ok(if vector.is_none() { How::Staged } else { How::Derive })
    }

    pub(super) fn push(&mut self, stmt: &Stmt, op: Op) {
        self.body.push(Stmt::new(stmt.span, stmt.by, op));
    }

    /// The distribution of a statement's elements: the distribution of the tile that it writes, or else of
    /// one that it reads.
    pub(super) fn elements(&self, stmt: &Stmt, ins: &[&View], to: &View) -> Result<Distribution> {
        for view in std::iter::once(&to).chain(ins) {
            if let Some(own) = self.forms.get(&view.tensor)
                && let Some(all) = seen(view, own)?
            {
                return Ok(all);
            }
        }
        let views: Vec<&View> = ins.iter().copied().chain([to]).collect();
        let threads = i64::from(self.program.groups[stmt.by as usize].threads);
        spread(&self.program, &views, threads, self.width)
    }

    /// The part of a thread of a side of a statement.
    pub(super) fn side(&mut self, stmt: &Stmt, view: &View, d: &Distribution, stores: bool) -> Result<View> {
        let Some(own) = self.forms.get(&view.tensor).cloned() else {
            extents(view)?;
            return part::of_memory(view, d, stmt.by, stores);
        };
        let wanted = part::of_registers(view, own.tile(), d, Some(&own))?;
        let fragment = match wanted == own {
            true => view.tensor,
            false if stores => {
                return Err(Problem::new(format!(
                    "`{}`, {}, is not written whole here",
                    view.name,
                    view.shape()
                ))
                .help("write all of a tile that threads share in registers"));
            }
            false => self.exchanged(stmt, view.tensor, &own, &wanted)?,
        };
        part::of_tile(view, &wanted, d, fragment)
    }

    /// A fragment with the elements of a tile in another distribution: a permutation of registers if each thread has
    /// its elements already, otherwise exchanged through shared memory.
    fn exchanged(&mut self, stmt: &Stmt, tile: Id, own: &Distribution, to: &Distribution) -> Result<Id> {
        let Tensor { name, elem, .. } = self.program.tensor(tile).clone();
        if let Some(submodes) = part::arranged(own, to)? {
            let whole = View::whole(tile, &name, &Tuple::flat(own.tile()))?;
            let fragment = self.fragment(&format!("{name}_arranged"), elem, to)?;
            let from = part::of_tile(&whole, own, own, tile)?.rearranged(Layout::from_modes(submodes)?);
            let submodes = Layout::from_modes(part::submodes(to)?)?;
            let into = part::of_tile(&whole, to, to, fragment)?.rearranged(submodes);
            self.push(stmt, moved(from, into));
            return Ok(fragment);
        }
        let fragment = self.fragment(&format!("{name}_exchanged"), elem, to).map_err(|_| {
            let message = format!(
                "each thread needs elements of `{name}` here that other threads have, in {} registers, and {MOST_REGISTERS} is the limit",
                registers(elem, to)
            );
            let help = "copy the tile to shared memory first, `copy(…, s)`, and use that: shared::<f32>((64, 16))";
            Problem::new(message).help(help)
        })?;
        self.through_shared(stmt, tile, own, to, fragment)?;
        Ok(fragment)
    }

    /// A reduction: within each thread, then across the threads that share a result. The target's old value
    /// is combined once.
    fn fold(
        &mut self,
        stmt: &Stmt,
        from: &[View],
        to: &[View],
        with: &[Expr],
        claimed: bool,
        identity: &[Number],
    ) -> Result<()> {
        let combined = self.combined(&from[0], &to[0])?;
        let (mut own, mut sources, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for to in to {
            out.push(self.side(stmt, to, &combined.rest, true)?);
        }
        let is_fresh = self.are_filled(&out, identity, &combined);
        for ((from, to), &identity) in from.iter().zip(to).zip(identity) {
            if !is_fresh {
                own.push(self.accumulator(stmt, to, identity, &combined)?);
            }
            sources.push(self.combinable(stmt, from, &combined.all, identity, claimed)?);
        }
        let fold = |from, to, across| {
            let (with, identity) = (with.to_vec(), identity.to_vec());
            Op::Fold { from, to, with, identity, across, claimed }
        };
        if is_fresh {
            self.push(stmt, fold(sources, out, combined.across));
            return Ok(());
        }
        self.push(stmt, fold(sources, own.clone(), combined.across));
        let last = match with {
            [value] => {
                let ins = vec![out[0].clone(), own.remove(0)];
                Op::Map { ins, to: out.remove(0), value: value.clone() }
            }
            _ => fold(own, out, Across::Thread),
        };
        self.push(stmt, last);
        Ok(())
    }

    /// A thread's part of a tile that is combined. A tile loaded from memory ends where its view does. In other tiles,
    /// out-of-bounds elements are set to the identity. So are they in a tile for which the author claims the contents
    /// of out-of-bounds elements, since edges are not computed then.
    pub(super) fn combinable(
        &mut self,
        stmt: &Stmt,
        from: &View,
        d: &Distribution,
        identity: Number,
        claimed: bool,
    ) -> Result<View> {
        let part = self.side(stmt, from, d, false)?;
        let ends = !claimed
            && self.bounded.modes(stmt, from.tensor).is_some_and(|ends| {
                let overshoots = |mode: usize| d.reach(mode) > d.tile()[mode];
                // A view in another shape has other modes than the tile.
                let same = ends.len() == d.tile().len();
                ends.iter().all(|ends| *ends)
                    || same && (0..ends.len()).all(|mode| ends[mode] || !overshoots(mode))
            });
        if ends { Ok(part) } else { self.in_tile(stmt, part, d, identity) }
    }

    /// The operands of a reduction.
    fn combined(&self, from: &View, to: &View) -> Result<Combined> {
        let keep = kept(from, to)?;
        let all = match self.forms.get(&from.tensor) {
            Some(own) => seen(from, own)?,
            None => None,
        };
        let Some(all) = all else {
            return Err(Problem::new(format!("`{}` is not a tile in registers", from.name))
                .help("copy it to registers first: `let t = map(x, |x| x)`")
                .arg(0));
        };
        let submodes = all.combined(&keep);
        let across = match (&submodes[..], Submodes::new(&submodes)) {
            ([], _) => Across::Thread,
            (_, Some(submodes)) => Across::Submodes(submodes),
            (_, None) => return Err(Problem::new("too many digits of threads are combined at once")),
        };
        Ok(Combined { rest: all.projected(&keep), own: part::combined(&all, &keep), all, across })
    }

    /// Are these a thread's parts of a reduction's results, which the last statements have filled with the identity?
    fn are_filled(&self, out: &[View], identity: &[Number], combined: &Combined) -> bool {
        let own = Tuple::flat(&combined.own);
        let Ok(layout) = Layout::compact(own.clone()) else { return false };
        let Some(first) = self.body.len().checked_sub(out.len()) else { return false };
        self.body[first..].iter().zip(out.iter().zip(identity)).all(|(stmt, (out, identity))| {
            let is_own =
                out.shape() == own && self.program.tensor(out.tensor).layout == layout.clone().into();
            is_own
                && matches!(&stmt.op, Op::Map { to, value: Expr::Lit(value), .. } if to == out && value == identity)
        })
    }

    /// Registers for a thread's part of a reduction's result, filled with the identity.
    fn accumulator(&mut self, stmt: &Stmt, to: &View, identity: Number, combined: &Combined) -> Result<View> {
        let Tensor { name, elem, .. } = self.program.tensor(to.tensor);
        let (name, elem, shape) = (format!("{name}_own"), *elem, Tuple::flat(&combined.own));
        let space = Space::Registers { words: false };
        let own = self.tensor(&name, elem, space, Layout::compact(shape.clone())?);
        let own = View::whole(own, &name, &shape)?;
        self.push(stmt, Op::fill(own.clone(), Expr::Lit(identity)));
        Ok(own)
    }

    /// Replaces a statement by the statements that builder calls make.
    pub(super) fn built(&mut self, stmt: &Stmt, make: impl FnOnce(&mut Builder) -> Result<()>) -> Result<()> {
        let program = std::mem::take(&mut self.program);
        let (program, made) = Builder::resumed(program, stmt.span, stmt.by, make);
        self.program = program;
        self.body.extend(made?);
        Ok(())
    }
}

/// A reduction of a distributed tile.
struct Combined {
    /// The distribution of the combined tiles.
    all: Distribution,
    /// The distribution of the result.
    rest: Distribution,
    /// The extents of the elements that each thread combines alone.
    own: Vec<i64>,
    /// The threads that share a result.
    across: Across,
}

/// Threads have at most 255 registers of 32 bits.
const MOST_REGISTERS: i64 = 255;

/// The registers of a thread's fragment of a tile.
fn registers(elem: Elem, d: &Distribution) -> i64 {
    (elem.bytes_of(part::fragment_modes(d).iter().product::<i64>()) + 3) / 4
}

/// The layout of a thread's fragment of a tile.
fn fragment(name: &str, elem: Elem, d: &Distribution) -> Result<Layout> {
    let (shape, registers) = (part::fragment_modes(d), registers(elem, d));
    if registers > MOST_REGISTERS {
        return Err(Problem::new(format!(
            "`{name}`, {} of {elem}, takes {registers} registers of each of {} threads, and {MOST_REGISTERS} is the limit",
            Tuple::flat(d.tile()),
            d.threads()
        ))
        .help(match [512, 1024].into_iter().find(|more| registers * d.threads() <= MOST_REGISTERS * more) {
            Some(more) => format!("use a smaller tile, or more threads: `threads({more})`"),
            None => {
                let most = elem.elements_in(4 * MOST_REGISTERS) * d.threads();
                format!("use a smaller tile, of at most {most} elements: the others are those of other blocks, or of a loop")
            }
        }));
    }
    Ok(Layout::compact(Tuple::flat(&shape))?)
}
