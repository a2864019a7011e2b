//! Scans of whole tiles: the coordinates along a mode are split into submodes of elements and of threads,
//! and each is a level of the scan.

use tilewright_layout::{Distribution, Submode};

use super::Resolve;
use super::part::seen;
use crate::source::problem::{Problem, Result};
use crate::tile::pair::Scanned;
use crate::tile::view::View;
use crate::tile::{Across, Op, Stmt, Submodes};
use crate::values::number::Number;
use crate::values::scan::{Level, Scan};

impl Resolve {
    /// A scan along modes of a tile, over each thread's part.
    pub(super) fn scan(
        &mut self,
        stmt: &Stmt,
        &Scanned { from, to, carry }: &Scanned<'_>,
        how: &Scan,
    ) -> Result<()> {
        let all = match self.forms.get(&from[0].tensor) {
            Some(own) => seen(&from[0], own)?,
            None => None,
        };
        let Some(all) = all else {
            return Err(Problem::new(format!("`{}` is not a tile in registers", from[0].name))
                .help("copy it to registers first: `let t = map(x, |x| x)`")
                .arg(0));
        };
        let modes = how.modes();
        let keep: Vec<bool> = (0..all.tile().len()).map(|mode| !modes.contains(&mode)).collect();
        let rest = all.projected(&keep);
        let mut levels = modes.iter().map(|mode| levels(&all, *mode)).collect::<Result<Vec<_>>>()?.concat();
        levels.extend(how.blocks().map(Level::Blocks));
        let how = Scan { levels, ..how.clone() };
        let one =
            |(view, identity): (&View, &Number)| self.combinable(stmt, view, &all, *identity, how.unmasked);
        let from = from.iter().zip(&how.identity).map(one).collect::<Result<_>>()?;
        let to = to.iter().map(|view| self.side(stmt, view, &all, true)).collect::<Result<_>>()?;
        let carry = carry.iter().map(|view| self.side(stmt, view, &rest, true)).collect::<Result<_>>()?;
        self.push(stmt, Op::Scan { from, to, carry, how });
        Ok(())
    }
}

/// The levels along a mode: elements of a thread, and digits of the thread's number.
fn levels(d: &Distribution, mode: usize) -> Result<Vec<Level>> {
    let own = |submode: &Submode| (*submode, Level::Own { mode: mode as u8, extent: submode.extent }, 0);
    let mut all: Vec<_> = d.value_submodes().iter().map(own).collect();
    let mut stride = 1;
    for submode in d.thread_submodes() {
        let threads = Submodes::new(&[(submode.extent, stride)]).unwrap_or_else(|| unreachable!("one digit"));
        all.push((*submode, Level::Threads(Across::Submodes(threads)), stride));
        stride *= submode.extent;
    }
    all.retain(|(submode, ..)| submode.mode == mode && submode.step != 0 && submode.extent > 1);
    let own: Vec<i64> =
        all.iter().filter(|(.., stride)| *stride == 0).map(|(submode, ..)| submode.step).collect();
    all.sort_by_key(|(submode, ..)| submode.step);
    let overlap = all.windows(2).any(|pair| pair[1].0.step < pair[0].0.step * pair[0].0.extent);
    if overlap || !own.is_sorted() {
        return Err(Problem::new(format!("the parts of threads along mode {mode} have no order here"))
            .help("copy the tile to shared memory, and scan a tile that is loaded from there")
            .arg(0));
    }
    // Neighbouring submodes of threads are one submode.
    let mut levels: Vec<Level> = Vec::new();
    let mut last: Option<(i64, i64)> = None;
    for (submode, level, stride) in all {
        let joined = match (last, level) {
            (_, Level::Own { .. }) => None,
            (Some((extent, from)), _) if stride == from * extent => {
                levels.pop();
                Some((extent * submode.extent, from))
            }
            _ => Some((submode.extent, stride)),
        };
        last = joined;
        levels.push(match joined.and_then(|submode| Submodes::new(&[submode])) {
            Some(submodes) => Level::Threads(Across::Submodes(submodes)),
            None => level,
        });
    }
    Ok(levels)
}
