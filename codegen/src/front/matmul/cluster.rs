//! The exchange of sums between the blocks of a cluster that split K: each block adds its part of the elements of all
//! blocks through distributed shared memory. It knows no instruction.

use super::bulk::shifted;
use crate::build::Builder;
use crate::source::problem::{Problem, Result};
use crate::thread::Bin;
use crate::tile::Expr;
use crate::tile::view::View;
use crate::values::affine::Coord;
use crate::values::elem::Elem;

/// Numbers of blocks that split K. A number that is not a power of two would leave blocks without an equal part of a tile.
const SPLITS: [i64; 5] = [1, 2, 4, 8, 16];

/// Why a cluster cannot have this number of blocks that split K.
pub(super) fn unfit(split: i64) -> Option<Problem> {
    let message = format!("K is split over the blocks of a cluster, at most 16, and split_k is {split}");
    (!SPLITS.contains(&split)).then(|| Problem::new(message).help("write split_k = 2, 4, 8 or 16"))
}

/// Adds sums to others.
pub(super) fn add(b: &mut Builder, more: &View, acc: &View) -> Result<()> {
    let sum = Expr::Bin(Bin::Add, Box::new(Expr::In(0)), Box::new(Expr::In(1)));
    b.map(&[acc.clone(), more.clone()], acc, sum)
}

/// Adds the sums of all `blocks` blocks, for a thread's part of a tile in shared memory. Its own block's sums come first:
/// they do not pass between multiprocessors. All are read before they are added.
pub(super) fn total(
    b: &mut Builder,
    sums: &View,
    (blocks, elem): (i64, Elem),
    part: impl Fn(&mut Builder, &View) -> Result<View>,
) -> Result<View> {
    let mut parts = Vec::new();
    for next in 0..blocks {
        let of = match next {
            0 => sums.clone(),
            _ => {
                let rank = shifted(&Coord::ClusterRank.into(), &next.into())?;
                b.of_peer(sums, &rank.submode(1, Some(blocks)))?
            }
        };
        let mine = part(b, &of)?;
        parts.push(b.registers(&format!("part_{next}"), elem, mine.shape())?);
        b.copy(&mine, &parts[next as usize])?;
    }
    let (total, others) = parts.split_first().expect("at least two blocks");
    others.iter().try_for_each(|part| add(b, part, total))?;
    Ok(total.clone())
}
