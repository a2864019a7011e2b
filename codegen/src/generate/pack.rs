//! The kernel that packs a tensor: it copies the tensor to rows that begin at multiples of 128 bytes, for programs whose
//! copies need aligned rows, or rows along another mode than the argument's. It knows no product.

use tilewright_layout::{Layout, Tuple, Value};

use crate::build::Builder;
use crate::build::tiled::{Fill, SharedUses};
use crate::cuda;
use crate::launch::definition::{Generated, Pack, Variant};
use crate::source::problem::{Problem, Result};
use crate::thread::{Cost, Op, Stmt};
use crate::tile::view::{At, View};
use crate::tile::{Arg, How, Program, Raster, Space};
use crate::values::affine::Affine;
use crate::values::condition::Test;
use crate::values::elem::Elem;

/// Bytes of the tile of a block.
const TILE: i64 = 8192;
/// Rows of the copy in a tile, and the most of them where rows are adjacent in the argument.
const LINES: [i64; 2] = [32, 64];
/// Bytes of the argument that are adjacent then.
const ACROSS: i64 = 128;
/// Ranks of tensors that can be packed.
const RANKS: std::ops::RangeInclusive<usize> = 2..=3;
/// Threads of a block.
const THREADS: i64 = 256;
/// Bytes of a store.
const STORE: i64 = 16;
/// Clocks of a block, which runs alone on its multiprocessor at ten bytes read and written in a clock, and of a launch: 1.2
/// microseconds. The next kernel is launched while this one runs, which the general estimate does not know. Copies of one
/// launch run beside each other, so the others have no launch of their own.
const CLOCKS: (u32, u32) = (1640, 2400);
/// Elements that pass through shared memory one by one in ten clocks of a multiprocessor, where a copy transposes.
const ELEMENTS: i64 = 34;

/// The program for tensors of a rank among [`RANKS`], modes in the order of the copy's strides: `to` has the elements of
/// `from`, and zeros up to the next multiple of 128 bytes. The contiguous mode of `from` is the first one, or, if the copy
/// `transposes`, the second.
///
/// Rows of `from` may begin at any address, so its elements are loaded one by one, adjacent elements by adjacent threads.
/// They pass through shared memory, so that stores move 16 bytes.
pub(crate) fn program(elem: Elem, rank: usize, transposes: bool, overlaps: bool) -> Result<Program> {
    let mut b = Builder::new(if transposes { "pack_transposed" } else { "pack" });
    if overlaps {
        b.program_mut().overlaps = true;
    }
    let [least, most] = LINES;
    let lines = if transposes { elem.elements_in(ACROSS).clamp(least, most) } else { least };
    let run = elem.elements_in(TILE) / lines;
    let extents: Vec<Value> = (0..rank).map(|mode| Value::symbol(&format!("N{mode}"))).collect();
    let tuple = |of: Vec<Value>| Tuple::of(of.into_iter().map(Tuple::from));
    let (row, contiguous) = (Value::symbol("row"), usize::from(transposes));
    let of_from = |mode: usize| match mode == contiguous {
        true => 1.into(),
        false => Value::symbol(&format!("from_{mode}")),
    };
    let of_to = |mode: usize| match mode {
        0 => 1.into(),
        1 => row,
        _ => Value::symbol(&format!("to_{mode}")),
    };
    let of_from = tuple((0..rank).map(of_from).collect());
    let from = b.tensor("from", elem, tuple(extents.clone()), Some(of_from), false)?;
    let padded = std::iter::once(row).chain(extents[1..].iter().copied()).collect();
    let to = b.tensor("to", elem, tuple(padded), Some(tuple((0..rank).map(of_to).collect())), true)?;
    let multiple = Pack::row_multiple(elem);
    let rest = Affine::from(row).submode(1, Some(multiple));
    b.require(Test::Equal(rest, 0.into()), &format!("row % {multiple} == 0"))?;
    let load = Fill { how: How::Plain, ..Fill::of([run, lines], contiguous, THREADS, 1)? };
    let store = Fill::of([run, lines], 0, THREADS, elem.elements_in(STORE))?;
    let layout = match transposes {
        true => SharedUses::new(elem, [run, lines], 1)?.filled(&load)?.read(&store)?.layout()?,
        false => Layout::compact((run, lines))?.into(),
    };
    let count = |of: Value, tile| of.ceil_div(tile).ok_or_else(|| Problem::new("no such tiles"));
    // Adjacent blocks write adjacent memory.
    let mut tiles = vec![("run", count(row, run)?), ("row", count(extents[1], lines)?)];
    tiles.extend(extents[2..].iter().map(|&count| ("matrix", count)));
    b.tiles(&tiles, Raster::Plain, |b, at| -> Result<()> {
        let at: Vec<At> = at.iter().cloned().map(At::Index).collect();
        let tile = |b: &mut Builder, view: &View, name: &str| -> Result<View> {
            let matrix = [&[At::All, At::All][..], &at[2..]].concat();
            let matrix = if rank > 2 { b.slice(view, &matrix)? } else { view.clone() };
            Ok(b.tile(&matrix, (run, lines), &at[..2])?.with_name(name))
        };
        let (to, from) = (tile(b, &to, "aligned")?, tile(b, &from, "rows")?);
        let between = b.shared("between", elem, layout)?;
        b.fill_tile(&load, &from, &between)?;
        b.sync();
        b.fill_tile(&store, &between, &to)
    })?;
    Ok(b.finish())
}

/// The clocks of such a kernel.
fn cost(elem: Elem, transposes: bool) -> Cost {
    let elements = elem.elements_in(TILE);
    let one_by_one = if transposes { elements * 10 / ELEMENTS } else { 0 };
    Cost { steps: 1.into(), step: CLOCKS.0.max(one_by_one as u32), launch: CLOCKS.1, ..Cost::default() }
}

/// The kernels that pack the arguments which programs allow to be packed. All of them have the same arguments, but a program
/// may read a copy with another contiguous mode than `first` has, whose arguments are the kernel's.
pub(crate) fn kernels<'p>(first: &Program, programs: impl Iterator<Item = &'p Program>) -> Vec<Pack> {
    let mut all: Vec<Pack> = Vec::new();
    for program in programs {
        for (arg, tensor) in program.args.iter().enumerate() {
            let Arg::Tensor(id) = tensor else { continue };
            let Some(order) = Order::of(first, program, arg).filter(|_| program.packs.contains(id)) else {
                continue;
            };
            if all.iter().any(|known| known.arg == arg && known.modes == order.modes) {
                continue;
            }
            let same = |known: &&Pack| {
                let of_known = kind(program, known.arg);
                known.transposes == order.transposes && of_known.is_some() && of_known == kind(program, arg)
            };
            let known = all.iter().find(same).map(|known| known.kernel.clone());
            all.extend(of_argument(program, arg, order, known));
        }
    }
    all
}

/// The element type and rank of an argument.
fn kind(program: &Program, arg: usize) -> Option<(Elem, usize)> {
    let Arg::Tensor(id) = program.args.get(arg)? else { return None };
    let tensor = program.tensor(*id);
    Some((tensor.elem, tensor.rank()))
}

/// The contiguous mode of an argument.
fn contiguous(program: &Program, arg: usize) -> Option<usize> {
    let Arg::Tensor(id) = program.args.get(arg)? else { return None };
    program.tensor(*id).plain().leaves().position(|leaf| leaf.1 == Value::Int(1))
}

/// The modes of an argument in the order of a copy.
struct Order {
    modes: Vec<usize>,
    transposes: bool,
}

impl Order {
    /// The contiguous mode of the copy first, then the argument's.
    fn of(first: &Program, program: &Program, arg: usize) -> Option<Order> {
        let rank = kind(program, arg)?.1;
        let [from, to] = [contiguous(first, arg)?, contiguous(program, arg)?];
        let before = if from == to { vec![to] } else { vec![to, from] };
        let rest = (0..rank).filter(|mode| !before.contains(mode));
        Some(Order { modes: before.iter().copied().chain(rest).collect(), transposes: from != to })
    }
}

/// `None` for an argument that is written, or of a rank that is not packed.
fn of_argument(program: &Program, arg: usize, order: Order, known: Option<Generated>) -> Option<Pack> {
    let (elem, rank) = kind(program, arg)?;
    let Arg::Tensor(id) = program.args.get(arg)? else { return None };
    let tensor = program.tensor(*id);
    let read = matches!(tensor.space, Space::Global { mutable: false });
    if !read || !RANKS.contains(&rank) || tensor.plain().leaves().count() != rank {
        return None;
    }
    let Order { modes, transposes } = order;
    let made = || {
        let program = self::program(elem, rank, transposes, program.overlaps).ok()?;
        let mut kernel = super::generate(program).kernel?;
        for variant in &mut kernel.variants {
            variant.program.launch.cost = Some(cost(elem, transposes));
        }
        let several: Option<Vec<[Variant; 2]>> = kernel.variants.iter().map(of_several).collect();
        let several = several.unwrap_or_default();
        for at in [0, 1] {
            kernel.variants.extend(several.iter().map(|both| both[at].clone()));
        }
        Some(kernel)
    };
    let kernel = known.or_else(made)?;
    let beside = kernel.variants.iter().filter(|variant| variant.program.launch.beside).count();
    Some(Pack { arg, modes, transposes, kernel, beside })
}

/// The same variant as the first of several copies, which lets the next one start once the kernels before both have ended; and as
/// a copy beside the first. The last one lets no kernel start: the blocks of a product would be distributed unevenly.
fn of_several(variant: &Variant) -> Option<[Variant; 2]> {
    let at = variant.program.body.iter().position(|stmt| matches!(stmt.op, Op::AwaitPrevious))?;
    let mut both = [variant.clone(), variant.clone()];
    let [first, beside] = both.each_mut().map(|variant| &mut variant.program);
    first.body.insert(at + 1, Stmt { op: Op::StartNext, ..first.body[at] });
    let wait = beside.body.remove(at);
    beside.body.push(wait);
    beside.launch.beside = true;
    for variant in &mut both {
        variant.source = cuda::print(&variant.program);
    }
    Some(both)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_vectors_whatever_the_rows_are() {
        let of = [(Elem::I8, 3), (Elem::Bf16, 2), (Elem::Tf32, 3)];
        for (elem, rank, transposes) in of.into_iter().flat_map(|(e, r)| [(e, r, false), (e, r, true)]) {
            let outcome = crate::generate::generate(program(elem, rank, transposes, true).unwrap());
            let message: Vec<String> =
                outcome.diagnostics.iter().map(|diagnostic| diagnostic.text()).collect();
            let kernel = outcome.kernel.unwrap_or_else(|| panic!("{}", message.join("\n")));
            let aligned = &kernel.variants[1].source;
            assert!(aligned.contains("4*)&to["), "{aligned}");
            let needs = &aligned[..aligned.find("extern").unwrap()];
            assert!(
                !needs.contains("from_") && !needs.contains("N0") && !needs.contains("from at"),
                "{needs}"
            );
        }
    }

    /// The first of several copies waits and lets the next one start; that one waits at its end.
    #[test]
    fn copies_run_beside_each_other() {
        let keys = |overlaps| {
            format!("dtype=tf32 arch=90 a=k_major b=k_major bm=64 bn=64 bk=32 overlaps={overlaps}")
        };
        let packs = |overlaps| {
            use crate::words::Kernels;
            let words = crate::words::Words::read(&keys(overlaps)).unwrap();
            words.matmul().expect("a product").packs
        };
        let packs_without = packs(false);
        assert!(packs_without.len() == 2 && packs_without.iter().all(|pack| pack.beside == 0));
        for pack in packs(true) {
            let all = &pack.kernel.variants;
            assert_eq!(3 * pack.beside, all.len());
            for (first, next) in all[pack.beside..].iter().zip(&all[2 * pack.beside..]) {
                let at = |variant: &Variant, wanted: &str| variant.source.find(wanted).unwrap();
                let [wait, start] = ["    await_previous_kernel();", "    start_next_kernel();"];
                assert!(at(first, wait) < at(first, start) && at(first, start) < at(first, "from["));
                assert!(!next.source.contains(start) && at(next, "to[") < at(next, wait));
                let launches = [first, next].map(|variant| &variant.program.launch);
                assert_eq!(
                    launches.map(|launch| (launch.overlaps, launch.beside)),
                    [(true, false), (true, true)]
                );
                assert_eq!(first.program.needs, next.program.needs);
            }
        }
    }
}
