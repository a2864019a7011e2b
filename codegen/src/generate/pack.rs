//! The kernel that packs a tensor: it copies it to memory in which rows begin at multiples of 128 bytes, for
//! programs whose copies need aligned rows. It knows no product.

use tilewright_layout::{Layout, Tuple, Value};

use crate::affine::Affine;
use crate::build::Builder;
use crate::condition::Test;
use crate::definition::{Generated, Pack};
use crate::elem::Elem;
use crate::problem::{Problem, Result};
use crate::thread::Cost;
use crate::tile::{Arg, How, Program, Raster, Space};
use crate::tiled::Fill;
use crate::view::{At, View};

/// The tile of a block: bytes along the contiguous mode, and rows.
const TILE: [i64; 2] = [256, 32];
/// Ranks of tensors that can be packed.
const RANKS: std::ops::RangeInclusive<usize> = 2..=3;
/// Threads of a block.
const THREADS: i64 = 256;
/// Bytes of a store.
const STORE: i64 = 16;
/// Clocks of a block, of which a multiprocessor runs one after the other, and of a launch: predicted, for ten
/// bytes read and written in a clock, and two microseconds.
const CLOCKS: (u32, u32) = (1640, 4000);

/// The program for tensors of a rank among [`RANKS`], modes in the order of their strides: `to` has the elements of `from`,
/// and zeros up to the next multiple of 128 bytes.
///
/// Rows of `from` begin anywhere, so its elements are loaded one by one, adjacent ones by adjacent threads.
/// They pass through shared memory, so that stores move 16 bytes.
pub(crate) fn program(elem: Elem, rank: usize, overlaps: bool) -> Result<Program> {
    let mut b = Builder::new("pack");
    if overlaps {
        b.overlaps();
    }
    let bytes = i64::from(elem.bytes());
    let (run, lines) = (TILE[0] / bytes, TILE[1]);
    let extents: Vec<Value> = (0..rank).map(|mode| Value::symbol(&format!("N{mode}"))).collect();
    let tuple = |of: Vec<Value>| Tuple::of(of.into_iter().map(Tuple::from));
    let row = Value::symbol("row");
    let stride = |name: &str, mode: usize| match (mode, name) {
        (0, _) => 1.into(),
        (1, "to") => row,
        _ => Value::symbol(&format!("{name}_{mode}")),
    };
    let strides = |name: &str| Some(tuple((0..rank).map(|mode| stride(name, mode)).collect()));
    let from = b.tensor("from", elem, tuple(extents.clone()), strides("from"), false)?;
    let padded = std::iter::once(row).chain(extents[1..].iter().copied()).collect();
    let to = b.tensor("to", elem, tuple(padded), strides("to"), true)?;
    let multiple = Pack::row_multiple(elem);
    let rest = Affine::from(row).digit(1, Some(multiple));
    b.require(Test::Equal(rest, 0.into()), &format!("row % {multiple} == 0"))?;
    b.cost(Cost { steps: 1.into(), step: CLOCKS.0, launch: CLOCKS.1, ..Cost::default() });

    let count = |of: Value, tile| of.ceil_div(tile).ok_or_else(|| Problem::new("no such tiles"));
    let mut tiles = vec![("row", count(extents[1], lines)?), ("run", count(row, run)?)];
    tiles.extend(extents[2..].iter().map(|&count| ("matrix", count)));
    b.tiles(&tiles, Raster::Plain, |b, at| -> Result<()> {
        let at: Vec<At> = [1, 0, 2].iter().filter_map(|&mode| at.get(mode)).cloned().map(At::Index).collect();
        let tile = |b: &mut Builder, view: &View, name: &str| -> Result<View> {
            let matrix = [&[At::All, At::All][..], &at[2..]].concat();
            let matrix = if rank > 2 { b.slice(view, &matrix)? } else { view.clone() };
            Ok(b.tile(&matrix, (run, lines), &at[..2])?.with_name(name))
        };
        let (to, from) = (tile(b, &to, "aligned")?, tile(b, &from, "rows")?);
        let between = b.shared("between", elem, Layout::compact((run, lines))?)?;
        let fill = |vector| Fill::of([run, lines], 0, THREADS, vector);
        b.fill_tile(&Fill { how: How::Plain, ..fill(1)? }, &from, &between)?;
        b.sync();
        b.fill_tile(&fill(STORE / bytes)?, &between, &to)
    })?;
    Ok(b.finish())
}

/// The kernels that pack the arguments which programs allow to be packed. All of them have the same
/// arguments.
pub(crate) fn kernels<'p>(programs: impl Iterator<Item = &'p Program>) -> Vec<Pack> {
    let mut all: Vec<Pack> = Vec::new();
    for program in programs {
        for (arg, tensor) in program.args.iter().enumerate() {
            let Arg::Tensor(id) = tensor else { continue };
            if program.packs.contains(id) && !all.iter().any(|known| known.arg == arg) {
                let same = |known: &&Pack| {
                    let [one, two] = [known.arg, arg].map(|arg| kind(program, arg));
                    one.is_some() && one == two
                };
                let known = all.iter().find(same).map(|known| known.kernel.clone());
                all.extend(of_argument(program, arg, known));
            }
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

/// `None` for an argument that is written, has no contiguous mode, or a rank that is not packed.
fn of_argument(program: &Program, arg: usize, known: Option<Generated>) -> Option<Pack> {
    let (elem, rank) = kind(program, arg)?;
    let Arg::Tensor(id) = program.args.get(arg)? else { return None };
    let tensor = program.tensor(*id);
    let strides: Vec<Value> = tensor.plain().leaves().map(|leaf| leaf.1).collect();
    let contiguous = strides.iter().position(|stride| *stride == Value::Int(1))?;
    let read = matches!(tensor.space, Space::Global { mutable: false });
    if !read || !RANKS.contains(&rank) || strides.len() != rank {
        return None;
    }
    let modes = std::iter::once(contiguous).chain((0..rank).filter(|&mode| mode != contiguous)).collect();
    let made = || super::generate(self::program(elem, rank, program.overlaps).ok()?).kernel;
    Some(Pack { arg, modes, kernel: known.or_else(made)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_vectors_whatever_the_rows_are() {
        for (elem, rank) in [(Elem::I8, 3), (Elem::Bf16, 2), (Elem::Tf32, 3)] {
            let outcome = crate::generate::generate(program(elem, rank, true).unwrap());
            let said: Vec<String> = outcome.diagnostics.iter().map(|said| said.text()).collect();
            let kernel = outcome.kernel.unwrap_or_else(|| panic!("{}", said.join("\n")));
            let aligned = &kernel.variants[1].source;
            assert!(aligned.contains("4*)&to["), "{aligned}");
            let needs = &aligned[..aligned.find("extern").unwrap()];
            assert!(
                !needs.contains("from_") && !needs.contains("N0") && !needs.contains("from at"),
                "{needs}"
            );
        }
    }
}
