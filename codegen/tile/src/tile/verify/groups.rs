//! Groups of threads: members of families, orders of alternating groups, and rings of families.

use crate::source::diagnostic::Diagnostic;
use crate::source::problem::{Problem, Result, count};
use crate::thread::Id;
use crate::tile::view::View;
use crate::tile::visit::preorder;
use crate::tile::{Across, How, LaunchRule, Multiply, Op, Program, Stmt};
use crate::values::affine::{Affine, Coord};
use crate::values::target::{WARP, registers_at_entry};

/// Checks the groups that execute statements.
pub(super) fn check(program: &Program) -> std::result::Result<(), Diagnostic> {
    for group in &program.groups {
        if let Some((first, end)) = group.warps
            && (group.members == 0 || (end - first) % group.members != 0)
        {
            let message = format!(
                "`{}` has {} warps, which are no {} groups of equally many",
                group.name,
                end - first,
                group.members
            );
            let help = "give each member of a family the same number of warps";
            return Err(Problem::new(message).help(help).at(Default::default()));
        }
    }
    persistent(program)?;
    let entry = registers_at_entry(program.threads(), program.blocks_per_sm).next_multiple_of(8);
    let mut granted = vec![entry; program.threads().div_ceil(WARP) as usize];
    for stmt in preorder(&program.body) {
        if let Op::Roles(roles) = &stmt.op {
            registers(program, roles, entry, &mut granted).map_err(|problem| problem.at(stmt.span))?;
        }
    }
    statements(program, &program.body, Around::default())
}

/// Roles take registers (setmaxnreg) of the block's pool: the registers that its threads have when it starts. A role that
/// requests more than the others leave would wait forever. Each warp keeps its registers from earlier roles.
fn registers(program: &Program, roles: &[(Id, Vec<Stmt>)], entry: u32, granted: &mut [u32]) -> Result<()> {
    let threads = program.threads();
    let mut asking = Vec::new();
    for (id, _) in roles {
        let group = &program.groups[*id as usize];
        let Some(each) = group.registers else { continue };
        let (first, end) = group.warps.unwrap_or((0, threads / WARP));
        granted.iter_mut().take(end as usize).skip(first as usize).for_each(|of| *of = each);
        asking.push(format!("`{}` asks for {each} in {} threads", group.name, (end - first) * WARP));
    }
    let (all, pool) = (granted.iter().sum::<u32>() * WARP, threads * entry);
    if asking.is_empty() || all <= pool {
        return Ok(());
    }
    Err(Problem::new(format!(
        "{}: with those of the other threads that is {all} registers, and a block of {threads} threads begins with {entry} for each, {pool} together",
        asking.join(", ")
    ))
    .help("ask for fewer where most are asked for, or let another role give more of its registers back"))
}

/// A persistent kernel iterates over its tiles. In another each block has one tile, everywhere.
fn persistent(program: &Program) -> std::result::Result<(), Diagnostic> {
    let (mut tiles, mut inside) = (None, None);
    for outer in &program.body {
        for stmt in outer.preorder().filter(|stmt| matches!(stmt.op, Op::Tiles { .. })) {
            tiles.get_or_insert(stmt.span);
            if !matches!(outer.op, Op::Tiles { .. }) {
                inside.get_or_insert(stmt.span);
            }
        }
    }
    match (program.launch, tiles.and(inside)) {
        (LaunchRule::Persistent, _) if tiles.is_none() => {
            let message = "a persistent kernel without a loop over its tiles: each block would run once";
            let help = "go through the tiles in a loop over tiles, or launch a block for each";
            Err(Problem::new(message).help(help).at(Default::default()))
        }
        (LaunchRule::PerTile, Some(span)) => {
            let message = "tiles inside another statement of a kernel that is not persistent: each of its blocks has one tile";
            Err(Problem::new(message)
                .help("make the kernel persistent, or let the tile be all that it does")
                .at(span))
        }
        _ => Ok(()),
    }
}

/// The context of a statement.
#[derive(Clone, Copy, Default)]
struct Around {
    /// The family whose members work on different tiles here.
    tiles: Option<Id>,
    /// A condition that differs between members.
    apart: Option<Id>,
}

fn statements(program: &Program, body: &[Stmt], around: Around) -> std::result::Result<(), Diagnostic> {
    for stmt in body {
        one(program, stmt, around).map_err(|problem| problem.at(stmt.span))?;
        let mut inside = around;
        match &stmt.op {
            Op::Tiles { body, .. } if program.groups[stmt.by as usize].members > 1 => {
                inside.tiles = Some(stmt.by);
                counted(program, stmt.by, body)?;
            }
            Op::If { test, .. } => {
                let differs = test.integers().into_iter().find_map(|at| differs(program, at));
                inside.apart = differs.or(around.apart);
            }
            _ => {}
        }
        for body in stmt.bodies() {
            statements(program, body, inside)?;
        }
    }
    Ok(())
}

/// How many slots of a ring of a family a tile takes must be known: its other members skip them.
fn counted(program: &Program, family: Id, body: &[Stmt]) -> std::result::Result<(), Diagnostic> {
    for stmt in body {
        match &stmt.op {
            Op::Advance { .. } => {}
            Op::For { ahead: None, body, .. } | Op::Step { body, .. } | Op::Ordered { body, .. } => {
                counted(program, family, body)?;
            }
            _ => {
                let uncounted = stmt.preorder().find_map(|inner| {
                    let Op::Advance { ring } = inner.op else { return None };
                    let of = &program.rings[ring as usize];
                    (of.to == family || of.from == family).then_some(ring)
                });
                if let Some(ring) = uncounted {
                    return Err(Problem::new(format!(
                        "how many slots of `{}` a tile takes depends on a condition here, so the other members of `{}` cannot skip them",
                        program.rings[ring as usize].name, program.groups[family as usize].name
                    ))
                    .help("advance the ring in loops alone, or give each group a ring of its own")
                    .at(stmt.span));
                }
            }
        }
    }
    Ok(())
}

/// The family whose members disagree on a coordinate.
fn differs(program: &Program, left: &Affine) -> Option<Id> {
    (0..program.groups.len() as Id).find(|&id| left.any(&|coord| *coord == Coord::Member(id)))
}

/// A view of another block's shared memory names a block of the cluster.
pub(crate) fn of_cluster(program: &Program, view: &View) -> Result<()> {
    let Some(rank) = &view.peer else { return Ok(()) };
    let (range, blocks) = (program.range(rank), program.cluster.iter().product::<u32>());
    if range.lo >= 0 && range.hi < i128::from(blocks) {
        return Ok(());
    }
    let outside = if range.lo < 0 { range.lo } else { range.hi };
    let reported = format!(
        "a cluster of {} has no block of rank {outside}, which this view of `{}` names",
        count(blocks, "block"),
        view.name
    );
    let help = match blocks {
        1 => "write cluster(4) for clusters of four blocks; without it, each block is a cluster".into(),
        _ => format!("take the rank modulo {blocks}"),
    };
    Err(Problem::new(reported).help(help))
}

fn one(program: &Program, stmt: &Stmt, around: Around) -> Result<()> {
    let peers = || stmt.accesses().filter(|view| view.peer.is_some());
    peers().try_for_each(|view| of_cluster(program, view))?;
    match &stmt.op {
        Op::Copy { how: How::Atom(row), .. } | Op::Gemm { how: Multiply::Atom(row), .. } => {
            match peers().next() {
                None => Ok(()),
                Some(view) => Err(Problem::new(format!(
                    "`{}` does not reach the shared memory of other blocks, and `{}` is of another block",
                    row.name, view.name
                ))
                .help("copy it by ordinary loads and stores")),
            }
        }
        Op::SyncCluster if stmt.by != 0 => Err(Problem::new(format!(
            "all threads of a cluster meet, and this is for `{}` alone",
            program.groups[stmt.by as usize].name
        ))
        .help("let the whole block meet, before or after its roles")),
        _ if stmt.is_over_cluster() => over_cluster(program, stmt),
        Op::Ordered { groups, .. } => order(program, stmt.by, groups, around),
        Op::Advance { ring } => shared_ring(program, stmt.by, *ring, around),
        _ => Ok(()),
    }
}

/// All threads of a cluster combine their elements, and the cluster is the program's.
fn over_cluster(program: &Program, stmt: &Stmt) -> Result<()> {
    let size = program.cluster.iter().product();
    let blocks = match &stmt.op {
        Op::Fold { across: Across::Cluster(blocks) | Across::Blocks(blocks), .. } => *blocks,
        Op::Scan { how, .. } => how.blocks().unwrap_or(size),
        _ => size,
    };
    if stmt.by != 0 {
        let name = &program.groups[stmt.by as usize].name;
        return Err(Problem::new(format!(
            "all threads of a cluster combine their elements, and this is for `{name}` alone"
        ))
        .help("let the whole block combine them, before or after its roles"));
    }
    let combines = !matches!(stmt.op, Op::SyncCluster);
    let threads = program.combined(stmt.by);
    if combines && threads < i64::from(blocks) {
        return Err(Problem::new(format!(
            "a cluster of {blocks} blocks cannot combine their elements: each has {threads} threads"
        ))
        .help(format!("give each block {blocks} threads or more")));
    }
    if blocks != size {
        return Err(Problem::new(format!(
            "this combines the elements of {blocks} blocks, and a cluster has {size}"
        ))
        .help(format!("write cluster({blocks}) before it, and only once")));
    }
    Ok(())
}

/// Alternating groups partition the group that executes the statement.
fn order(program: &Program, by: Id, groups: &[Id], around: Around) -> Result<()> {
    let named = |id: Id| &program.groups[id as usize];
    let (by, names) = (named(by), groups.iter().map(|&id| format!("`{}`", named(id).name)));
    let names = names.collect::<Vec<_>>().join(", ");
    let parts: u32 = groups.iter().map(|&id| named(id).members).sum();
    if parts < 2 {
        return Err(Problem::new(format!(
            "an ordered body needs two groups to alternate, and has one: {names}"
        ))
        .help("name two groups or more, or a family"));
    }
    if let Some(family) = around.apart {
        let message = format!(
            "the members of `{}` do not all come to this order: it stands under a condition that differs between them",
            named(family).name
        );
        return Err(
            Problem::new(message).help("let every member come to the order, with an empty body if need be")
        );
    }
    let all = by.warps.unwrap_or((0, program.threads().div_ceil(32)));
    let mut next = all.0;
    let each = program.threads_of(groups[0]).div_ceil(32);
    for &id in groups {
        let group = named(id);
        let (first, end) = group.warps.unwrap_or(all);
        if program.threads_of(id).div_ceil(32) != each {
            return Err(Problem::new(format!(
                "groups of an ordered body have the same number of warps, and `{}` has {} where `{}` has {each}",
                group.name,
                program.threads_of(id).div_ceil(32),
                named(groups[0]).name
            ))
            .help("give each the same number of warps"));
        }
        if first != next {
            return Err(Problem::new(format!(
                "groups of an ordered body alternate in the order of their warps, and `{}` begins with warp {first} where warp {next} is next",
                group.name
            ))
            .help("name all groups of the role, in the order of their warps"));
        }
        next = end;
    }
    if next != all.1 {
        return Err(Problem::new(format!(
            "`{}` executes this, warps {}..{}, and the order {names} ends with warp {next}",
            by.name, all.0, all.1
        ))
        .help("name all groups of the role: a group that is left out would execute the body unordered"));
    }
    Ok(())
}

/// Members take the slots of a ring tile by tile, or all of them read each slot.
fn shared_ring(program: &Program, by: Id, ring: Id, around: Around) -> Result<()> {
    let ring = &program.rings[ring as usize];
    let by_name = &program.groups[by as usize].name;
    let is_family = |id: Id| id == by && program.groups[id as usize].members > 1;
    let mine = is_family(ring.to) || is_family(ring.from);
    match (mine, around.tiles) {
        (true, None) => Err(Problem::new(format!(
            "each slot of `{}` belongs to one member of `{by_name}`, and outside of a loop over tiles it is not known to which",
            ring.name
        ))
        .help("let a group that is no family read the ring, or go through it in a loop over tiles")),
        (false, Some(family)) => Err(Problem::new(format!(
            "the members of `{}` work on different tiles, and each slot of `{}` is for all of `{}`",
            program.groups[family as usize].name,
            ring.name,
            program.groups[if ring.from == by { ring.from } else { ring.to } as usize].name
        ))
        .help("make the ring one of the family, so that each slot is for one member")),
        _ => Ok(()),
    }
}
