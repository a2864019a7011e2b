//! Lints about the cost of accesses, with a remedy for each.

use tilewright_layout::{Composed, Layout, SharedTile, Transfer, Tuple, Value};

use super::accesses::{Site, element, shared_tensor};
use super::warp::Warp;
use crate::source::ast::{Level, Name};
use crate::source::diagnostic::Diagnostic;
use crate::thread::index::LANES;
use crate::thread::{Kernel, Param, Space};
use crate::tile::Program;
use crate::view_elements::Budget;

/// An access that uses less than this fraction of the bytes it transfers is uncoalesced.
const LEAST_EFFICIENCY: f64 = 0.5;

/// Accesses to shared memory that take more wavefronts than their width needs: one finding for each statement and
/// tensor, for the worst access.
pub(super) fn bank_conflicts(
    program: &Program,
    kernel: &Kernel,
    sites: &[Site],
    levels: &[(Name, Level)],
    budget: &mut Budget,
) -> Vec<Diagnostic> {
    let mut remedies: Vec<(u32, String)> = Vec::new();
    let excess = |site: &Site| site.banks.map_or(0, |banks| banks.excess());
    worst("bank_conflicts", sites, levels, excess, |site| {
        let (Some(banks), Space::Shared(array)) = (site.banks, site.mem.space) else { return None };
        let message = format!("a warp's {} `{}` takes {banks}", site.does(), site.tensor);
        let derived = program.derived.contains(&site.span);
        let help = match remedies.iter().find(|(known, _)| *known == array) {
            Some((_, help)) => help.clone(),
            None => {
                let help = remedy(program, kernel, sites, derived, array, budget);
                remedies.push((array, help.clone()));
                help
            }
        };
        Some((message, help))
    })
}

/// Uncoalesced accesses, which use less than half of the bytes they transfer.
pub(super) fn uncoalesced(
    program: &Program,
    kernel: &Kernel,
    sites: &[Site],
    levels: &[(Name, Level)],
    budget: &mut Budget,
) -> Vec<Diagnostic> {
    let waste = |site: &Site| {
        let wasteful = site.sectors.filter(|s| s.efficiency() < LEAST_EFFICIENCY && !s.is_coalesced());
        wasteful.map_or(0, |sectors| sectors.sectors - sectors.ideal_sectors)
    };
    worst("uncoalesced", sites, levels, waste, |site| {
        let message = format!("a warp's {} `{}` moves {}", site.does(), site.tensor, site.sectors?);
        let help = match program.derived.contains(&site.span) {
            true => better_tile(kernel, site),
            false => better_threads(kernel, site, budget),
        };
        Some((message, help))
    })
}

impl Site {
    fn does(&self) -> &'static str {
        match (self.what, self.transfer) {
            ("copy", Transfer::Store) => "copy into",
            ("copy", _) => "copy from",
            (_, Transfer::Store) => "store to",
            ("matrix", _) => "ldmatrix from",
            _ => "load from",
        }
    }
}

/// A lint at the worst access of each statement and tensor, of those that cost anything: its message and help.
fn worst(
    lint: &'static str,
    sites: &[Site],
    levels: &[(Name, Level)],
    cost: impl Fn(&Site) -> u32,
    mut text: impl FnMut(&Site) -> Option<(String, String)>,
) -> Vec<Diagnostic> {
    if super::level(lint, levels) == Level::Allow {
        return Vec::new();
    }
    let mut all: Vec<&Site> = Vec::new();
    for site in sites.iter().filter(|site| cost(site) > 0) {
        match all.iter_mut().find(|known| known.span == site.span && known.tensor == site.tensor) {
            Some(known) if cost(site) > cost(known) => *known = site,
            Some(_) => {}
            None => all.push(site),
        }
    }
    let finding = |site: &Site| {
        let (message, help) = text(site)?;
        super::lint(lint, levels, Diagnostic::error(site.span, message).help(help))
    };
    all.into_iter().filter_map(finding).collect()
}

/// The layout of a shared array that frees all accesses of bank conflicts, in words.
fn remedy(
    program: &Program,
    kernel: &Kernel,
    sites: &[Site],
    derived: bool,
    array: u32,
    budget: &mut Budget,
) -> String {
    // The author of statements about whole tiles has written no thread layout.
    let otherwise = match derived {
        true => "give it another layout, as in shared::<f32>(layout!((32, 32) : (1, 33))), or other extents",
        false => "change its layout, or the thread layout",
    };
    let Some(tensor) = shared_tensor(program, array) else { return otherwise.into() };
    // Other layouts have been compared, each with the accesses that it leads to.
    if program.derived.contains(&tensor.span) && tensor.plain().rank() == 2 {
        return format!(
            "the layout of `{}` is derived, and no other that was tried avoids it for all of its uses; tiles of other extents may",
            tensor.name
        );
    }
    let Some(tile) = tile_of(&tensor.layout, kernel, sites, array, budget) else { return otherwise.into() };
    let synthesis = tile.synthesize();
    let written = |layout: &Layout| layout.to_string().replace(':', " : ").replace(',', ", ");
    let compact = tensor.layout.size().ok() == tensor.layout.cosize().ok();
    let padded = (synthesis.padding.excess == Some(0) && synthesis.padding.by != 0).then(|| {
        let by = match synthesis.padding.by {
            fewer if fewer < 0 => format!("{} less", -fewer),
            by if compact => by.to_string(),
            by => format!("{by} more"),
        };
        format!("pad by {by}: layout!({})", written(&synthesis.padding.layout))
    });
    let swizzle = synthesis.swizzle.layout.swizzle();
    let swizzled = (synthesis.swizzle.excess == Some(0) && !swizzle.is_identity()).then(|| {
        let (bits, base, shift) = (swizzle.bits(), swizzle.base(), swizzle.shift());
        format!("swizzled({bits}, {base}, {shift}, layout!({}))", written(synthesis.swizzle.layout.layout()))
    });
    match (padded, swizzled) {
        (Some(padded), Some(_)) if synthesis.padding.extra <= synthesis.swizzle.extra => padded,
        (Some(padded), Some(swizzled)) if synthesis.swizzle.extra <= 0 => {
            format!("{padded}, or without more memory {swizzled}")
        }
        (Some(padded), Some(swizzled)) => format!("{padded}, or with less memory {swizzled}"),
        (Some(padded), None) => padded,
        (None, Some(swizzled)) => format!("lay `{}` out as {swizzled}", tensor.name),
        (None, None) if synthesis.paddings_tried + synthesis.swizzles_tried == 0 => otherwise.into(),
        (None, None) if derived && tensor.plain().rank() != 2 => format!(
            "the layouts of tiles of two modes are derived, and `{}` has {}: give it one, as in shared::<f32>(layout!((32, 2, 16) : (36, 1, 2)))",
            tensor.name,
            tensor.plain().rank()
        ),
        (None, None) if derived => format!(
            "no padding and no swizzle of `{}` avoids it for all of its uses; tiles of other extents may",
            tensor.name
        ),
        (None, None) => format!(
            "none of the {} paddings and {} swizzles tried avoids it; change the thread layout of `{}`",
            synthesis.paddings_tried, synthesis.swizzles_tried, tensor.name
        ),
    }
}

/// A shared tensor with all accesses to it, as layouts from (lane, element) to the offset in the tile.
fn tile_of(
    layout: &Composed,
    kernel: &Kernel,
    sites: &[Site],
    array: u32,
    budget: &mut Budget,
) -> Option<SharedTile> {
    let (size, cosize) = (layout.size().ok()?, layout.cosize().ok()?);
    let bytes = element(kernel, Space::Shared(array));
    if !budget.take(size as usize) || layout.is_injective() != Some(true) {
        return None;
    }
    let mut positions = vec![-1i64; cosize as usize];
    for (element, at) in layout.offsets().ok()?.enumerate() {
        *positions.get_mut(at as usize)? = element as i64;
    }
    let mut tile = SharedTile::new(layout.layout(), bytes).ok()?;
    for site in sites.iter().filter(|site| site.mem.space == Space::Shared(array)) {
        let (addresses, active) = site.first;
        let element =
            |address: i64| positions.get((address / bytes) as usize).copied().filter(|&element| element >= 0);
        let lanes = active.trailing_ones();
        if lanes == 0 || active != u32::MAX >> (32 - lanes) || !lanes.is_power_of_two() {
            continue;
        }
        let first = element(addresses[0])?;
        let vector = site.bytes / bytes;
        let along = if vector > 1 { element(addresses[0] + bytes)? - first } else { 0 };
        // Linear in the bits of the lane index, or there is no layout.
        let mut steps = Vec::new();
        for bit in 0..lanes.trailing_zeros() {
            steps.push(element(addresses[1 << bit])? - first);
        }
        for (lane, &address) in addresses.iter().enumerate().take(lanes as usize) {
            let sum: i64 = steps.iter().enumerate().map(|(bit, step)| (lane as i64 >> bit & 1) * step).sum();
            if element(address)? != first + sum {
                return None;
            }
        }
        let flat = |values: Vec<i64>| if values.is_empty() { Tuple::from(1) } else { Tuple::flat(&values) };
        let shape = Tuple::of([flat(vec![2; steps.len()]), vector.into()]);
        let tv = Layout::new(shape, Tuple::of([flat(steps), along.into()])).ok()?;
        tile = tile.access(&tv, vector, site.transfer).ok()?;
    }
    Some(tile)
}

/// The remedy for uncoalesced accesses whose distribution is derived.
fn better_tile(kernel: &Kernel, site: &Site) -> String {
    const THROUGH: &str = "copy the whole tile to shared memory, and compute from there";
    let Space::Global(param) = site.mem.space else { return THROUGH.into() };
    let Param::Pointer { stride, .. } = &kernel.params[param as usize] else { return THROUGH.into() };
    match stride.iter().position(|&stride| stride == Value::Int(1)) {
        Some(mode) => format!(
            "mode {mode} has stride 1: name 32 bytes of neighbours along it or more, by a longer tile, or by all of a tile instead of a slice; or {THROUGH}"
        ),
        None => "no mode of the tensor has stride 1".into(),
    }
}

/// The thread layout that would make accesses coalesced, in words.
fn better_threads(kernel: &Kernel, site: &Site, budget: &mut Budget) -> String {
    const OTHERWISE: &str = "let neighbouring threads take neighbouring elements of the mode with stride 1";
    let Space::Global(param) = site.mem.space else { return OTHERWISE.into() };
    let Param::Pointer { elem, stride, .. } = &kernel.params[param as usize] else { return OTHERWISE.into() };
    let Some(contiguous) = stride.iter().position(|&stride| stride == Value::Int(1)) else {
        return "no mode of the tensor has stride 1".into();
    };
    let generic = format!(
        "let neighbouring threads take neighbouring elements of mode {contiguous}, which has stride 1"
    );
    let (addresses, active) = site.first;
    if active & 3 == 3 && addresses[1] - addresses[0] == site.bytes {
        return format!(
            "mode {contiguous} has stride 1: let more threads lie along it, 32 bytes at least, or make the tile longer"
        );
    }
    let threads = i64::from(kernel.launch.threads);
    if stride.len() != 2 || !budget.take(threads as usize) {
        return generic;
    }
    // The extents of the thread layout along each mode.
    let mut warp = Warp::new(kernel);
    let Some(leading) = warp.value(stride[1 - contiguous]).filter(|&leading| leading > 1) else {
        return generic;
    };
    let mut positions = [Vec::new(), Vec::new()];
    for first in (0..threads).step_by(LANES) {
        warp.first = first;
        for index in &warp.at(site.mem.index)[..LANES.min((threads - first) as usize)] {
            positions[contiguous].push(index % leading);
            positions[1 - contiguous].push(index / leading);
        }
    }
    let [rows, columns] = positions.map(|mut positions| {
        positions.sort_unstable();
        positions.dedup();
        positions.len() as i64
    });
    let along = [rows, columns][contiguous];
    let sector = along * site.bytes.max(i64::from(elem.bytes())) >= 32;
    if rows * columns != threads || !sector {
        return generic;
    }
    let order = if contiguous == 0 { (1, rows) } else { (columns, 1) };
    format!(
        "mode {contiguous} has stride 1: let neighbouring threads lie along it, layout!(({rows}, {columns}) : ({}, {}))",
        order.0, order.1
    )
}
