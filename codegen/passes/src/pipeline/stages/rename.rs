//! Registers of a tile that statements of different stages use. If the next iteration sets the tile before the last of
//! these statements has read it, each iteration has its own registers, whose contents are copied before the tile is set.

use std::collections::BTreeSet;

use super::Item;
use super::dependences::{Line, Text, Thing};
use crate::pipeline::schedule::Schedule;
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::{How, Op, Program, Stmt, Tensor};
use crate::values::number::Number;

/// A tensor that each iteration has a copy of.
pub(super) struct Renamed {
    pub(super) tensor: Id,
    /// Where in a step it is set first.
    set: usize,
    /// For each position in a step at which it is accessed, how many later iterations have set it by then.
    behind: Vec<(usize, i64)>,
    /// The stage that sets it.
    stage: i64,
}

/// Does a statement set all elements of a tensor, and reads none?
pub(crate) fn sets(program: &Program, stmt: &Stmt, tensor: Id) -> bool {
    let whole = |view: &View| {
        let size = |layout: &tilewright_layout::Layout| layout.size().ok();
        let start = view.base.iter().all(|at| at.constant() == Some(0));
        start && size(&view.layout).is_some_and(|n| size(program.tensor(tensor).plain()) == Some(n))
    };
    let simple = stmt.sets() && stmt.token().is_none();
    let views = |views: Vec<&View>| views.into_iter().any(|view| view.tensor == tensor);
    simple && !views(stmt.reads()) && stmt.writes().iter().any(|view| view.tensor == tensor && whole(view))
}

/// The tensors that need separate registers in each iteration.
pub(super) fn renamed(program: &Program, text: &Text, private: &BTreeSet<Id>) -> Vec<Renamed> {
    let mut all = Vec::new();
    for &tensor in private {
        let users: Vec<&Line> =
            text.lines.iter().filter(|line| line.accesses(Thing::Tensor(tensor))).collect();
        let Some(first) = users.first().filter(|first| sets(program, &first.stmt, tensor)) else { continue };
        let behind = |line: &&Line| {
            let later = i64::from(line.at < first.at);
            (line.at, line.stage() - first.stage() - later)
        };
        let behind: Vec<(usize, i64)> = users.iter().map(behind).collect();
        if behind.iter().any(|(_, count)| *count > 0) {
            all.push(Renamed { tensor, set: first.at, behind, stage: first.stage() });
        }
    }
    all
}

/// Gives these tensors the registers that they need.
pub(super) fn rename(schedule: &mut Schedule, items: &mut Vec<Item>, renamed: &[Renamed]) {
    let mut ahead: Vec<(usize, Vec<Item>)> = Vec::new();
    let position = |items: &[Item], of: usize| items.iter().position(|item| item.at == Some(of)).unwrap_or(0);
    for Renamed { tensor, set, behind, stage } in renamed {
        let most = behind.iter().map(|(_, count)| *count).max().unwrap_or(0);
        let of = schedule.program.tensor(*tensor).clone();
        let first = schedule.program.tensors.len() as Id;
        for count in 1..=most {
            let name = format!("{}_{count}", of.name);
            schedule.program.tensors.push(Tensor { name, ..of.clone() });
        }
        let own = |count: i64| if count == 0 { *tensor } else { first + count as Id - 1 };
        for (at, count) in behind.iter().filter(|(_, count)| *count > 0) {
            let position_now = position(items, *at);
            items[position_now].stmt.each_mut(&mut |stmt| {
                for view in stmt.views_mut().into_iter().filter(|view| view.tensor == *tensor) {
                    view.tensor = own(*count);
                }
            });
        }
        let set = position(items, *set);
        let like = items[set].stmt.clone();
        let view = |id: Id| {
            let of = schedule.program.tensor(id);
            View::whole(id, &of.name, &of.plain().shape())
        };
        let moved = (1..=most).rev().filter_map(|count| {
            let (from, to) = (view(own(count - 1)).ok()?, view(own(count)).ok()?);
            let op = Op::Copy { from, to, how: How::Derive, fill: Number::Float(0.0), token: None };
            Some(Item::work(Stmt { id: 0, op, ..like.clone() }, stage + count))
        });
        ahead.push((set, moved.collect()));
    }
    ahead.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, moves) in ahead {
        items.splice(at..at, moves);
    }
}
