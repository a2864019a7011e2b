//! The layouts of a kernel's tensors and their thread-value partitions: as data, and as pictures.

use tilewright_codegen::affine::Coord;
use tilewright_codegen::tile::{Program, Space, Tensor};
use tilewright_codegen::view::View;
use tilewright_layout::Tuple;
use tilewright_layout::draw::Picture;

/// Partitions with more pairs of thread and value are not drawn.
const MOST_PAIRS: i64 = 1 << 20;

/// A tensor, or a partition of one.
pub(crate) struct Part {
    /// Its name in the kernel.
    pub(crate) name: String,
    /// Its description.
    pub(crate) what: String,
    /// The bytes of an element.
    pub(crate) element: u32,
    /// Its layout; for a partition, in coordinates of its tensor.
    pub(crate) layout: String,
    /// A picture, or why there is none.
    pub(crate) picture: Result<Picture, String>,
}

/// Tensors in the order of their declaration, then partitions in the order of their first use.
pub(crate) fn parts(program: &Program) -> Vec<Part> {
    let mut parts: Vec<Part> = program.tensors.iter().map(tensor).collect();
    let mut views: Vec<&View> = Vec::new();
    for stmt in &program.body {
        stmt.each(&mut |stmt| {
            for view in stmt.reads().into_iter().chain(stmt.writes()) {
                let name = &program.tensor(view.tensor).name;
                let known = views.iter().any(|known| known.name == view.name && known.layout == view.layout);
                if !known && view.name != *name {
                    views.push(view);
                }
            }
        });
    }
    parts.extend(views.into_iter().map(|view| partition(program, view)));
    parts
}

fn tensor(tensor: &Tensor) -> Part {
    let what = match tensor.space {
        Space::Global { mutable: true } => "in global memory, written",
        Space::Global { mutable: false } => "in global memory",
        Space::Shared { .. } => "in shared memory",
        Space::Registers { .. } => "in registers",
    };
    let picture = match tensor.space {
        Space::Global { .. } => Err("its extents are known at launch".to_owned()),
        _ => Picture::of(&tensor.layout).map_err(|error| error.to_string()),
    };
    Part {
        name: tensor.name.clone(),
        what: format!("{} {what}", tensor.elem),
        element: tensor.elem.bytes(),
        layout: tensor.layout.to_string(),
        picture,
    }
}

fn partition(program: &Program, view: &View) -> Part {
    let tensor = program.tensor(view.tensor);
    let (of, element) = (&tensor.name, tensor.elem.bytes());
    let what = match threads(program, view) {
        Some(threads) => format!("what each of {threads} threads has of {of}"),
        None => format!("a part of {of}"),
    };
    let (layout, picture) = (view.layout.to_string(), picture(program, view));
    Part { name: view.name.clone(), what, element, layout, picture }
}

/// The number of threads that a view is partitioned over, if it differs between threads.
fn threads(program: &Program, view: &View) -> Option<i64> {
    let group = view.base.iter().flat_map(|base| &base.terms).find_map(|(coord, _)| group_of(coord))?;
    let group = &program.groups[group as usize];
    Some(group.member_warps().map_or_else(|| i64::from(program.threads()), |warps| i64::from(warps) * 32))
}

fn group_of(coord: &Coord) -> Option<u32> {
    match coord {
        Coord::Thread(group) | Coord::Swizzled(group, _) => Some(*group),
        Coord::Submode { of, .. } => of.terms.iter().find_map(|(coord, _)| group_of(coord)),
        _ => None,
    }
}

/// The first block's tile, in the first iteration of every loop, with the thread that has each element.
fn picture(program: &Program, view: &View) -> Result<Picture, String> {
    let tensor = program.tensor(view.tensor);
    if matches!(tensor.space, Space::Registers { .. }) {
        return Err("every thread has registers of its own".to_owned());
    }
    let threads = threads(program, view).ok_or("it is not partitioned over threads")?;
    let size = view.layout.size().map_err(|_| "its extents are known at launch".to_owned())?;
    if threads.saturating_mul(size) > MOST_PAIRS {
        return Err("it has too many elements".to_owned());
    }
    let mut pairs = Vec::new();
    for thread in 0..threads {
        let at = |coord: &Coord| if matches!(coord, Coord::Thread(_)) { thread } else { 0 };
        pairs.extend((0..size).map(|value| (thread, value, view.coordinates(value, &at))));
    }
    let extent = |mode: usize| pairs.iter().filter_map(|pair| pair.2.get(mode)).max().map_or(1, |n| n + 1);
    let extents: Vec<i64> = (0..tensor.rank()).map(extent).collect();
    // Modes of extent 1 are not drawn; at most two may remain.
    let drawn: Vec<usize> = (0..extents.len()).filter(|mode| extents[*mode] > 1).collect();
    let [rows, columns] = match drawn[..] {
        [] => [0, 0],
        [only] if extents.len() == 1 || only > 0 => [usize::MAX, only],
        [only] => [only, usize::MAX],
        [rows, columns] => [rows, columns],
        _ => return Err(format!("a picture has two modes, and its tile has {}", drawn.len())),
    };
    let of = |all: &[i64], mode: usize, other: i64| all.get(mode).copied().unwrap_or(other);
    let (height, width) = (of(&extents, rows, 1), of(&extents, columns, 1));
    let pairs = pairs
        .iter()
        .map(|(thread, value, at)| (*thread, *value, of(at, rows, 0) + of(at, columns, 0) * height));
    let title = format!("{}: {} of {}", view.name, view.layout, tensor.name);
    Picture::owned(&title, Tuple::from((height, width)), pairs).map_err(|error| error.to_string())
}
