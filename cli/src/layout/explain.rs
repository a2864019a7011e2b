//! `--explain`: the operations step by step, and why each answer is correct.
//!
//! Every step is printed as it would be typed, with its operands evaluated, its result, and the law that the
//! result obeys. The law is checked coordinate by coordinate, by evaluation only.

use super::expression::Step;
use super::item::Item;
use super::operations::Law;
use std::fmt::Write;
use tilewright_layout::{Composed, Layout, Tiler, Tuple, Value};

/// The limit of checked coordinates.
const CHECKED: i64 = 1 << 16;
/// The limit of printed coordinates.
const SHOWN: usize = 5;
/// The number of printed offsets of a walk.
const WALK: i64 = 12;

/// All steps, innermost first.
pub(crate) fn steps(steps: &[Step]) -> String {
    steps.iter().map(step).collect::<Vec<_>>().join("\n")
}

fn step(step: &Step) -> String {
    let operands: Vec<String> = step.operands.iter().map(|item| item.to_string()).collect();
    let mut text = format!("{}({})\n", step.operation.name, operands.join(", "));
    let Some(result) = &step.result else {
        return text + &why_not(step).unwrap_or_default();
    };
    writeln!(text, "  = {result}").expect("a string takes everything");
    writeln!(text, "  {}", step.operation.help).expect("a string takes everything");
    text + &why(step, result).unwrap_or_default()
}

/// The law of a result, checked. `None` when there is no law to check, or symbols prevent it.
fn why(step: &Step, result: &Item) -> Option<String> {
    let Item::Layout(r) = result else { return None };
    let [Item::Layout(a), rest @ ..] = step.operands.as_slice() else {
        return None;
    };
    let second = match rest {
        [Item::Tiler(tiler), ..] => Some(tiler),
        _ => None,
    };
    let rank = r.rank();
    match (step.operation.law, second) {
        (Law::Same, _) => {
            let row = |i| Row::new(format!("R({i})"), r.eval(i), format!("A({i})"), a.eval(i));
            checked("R(i) = A(i) for every i", a.size().ok()?, row)
        }
        (Law::Composition, Some(tiler)) => {
            let text = checked("R(c) = A(B(c)) for every coordinate c of B", r.size().ok()?, |i| {
                through(r, a, tiler, i)
            })?;
            Some(text + &walks(r, a, tiler).unwrap_or_default())
        }
        (Law::Tile, Some(tiler @ Tiler::Layout(tile))) => {
            let law = "the first tile is A(B(c)) for every coordinate c of B";
            let text = checked(law, tile.size().ok()?, |i| through(r, a, tiler, i))?;
            Some(text + &starts("tile", r, tile.size().ok()?, rank)?)
        }
        (Law::Copies, Some(Tiler::Layout(copies))) => {
            let size = a.size().ok()?;
            let row = |i| Row::new(format!("R({i})"), r.eval(i), format!("A({i})"), a.eval(i));
            let text = checked("the first copy is A: R(i) = A(i)", size, row)?;
            (copies.size().ok()? > 1).then_some(())?;
            Some(text + &starts("copy", r, size, rank)?)
        }
        (Law::Complement, _) => {
            let listed = |x: &Composed| Some(first(x.offsets().ok()?));
            // Modes of stride 0 are left out of a complement.
            let sums = Layout::from_modes([a.as_layout()?.filter(), r.as_layout()?.clone()]).ok()?;
            let once =
                if sums.is_injective()? { "no offset twice" } else { "some offset twice: that is wrong" };
            Some(format!(
                "  law: A and R together reach each offset at most once\n    A: {}\n    R: {}\n    all {} sums: {once}\n",
                listed(a)?,
                listed(r)?,
                sums.size().ok()?,
            ))
        }
        (Law::RightInverse, _) => {
            let row = |i| {
                let back = r.eval(i)?;
                Row::new(format!("A(R({i})) = A({back})"), a.eval(back), "i".to_owned(), Some(i))
            };
            checked("A(R(i)) = i for every i", r.size().ok()?, row)
        }
        (Law::LeftInverse, _) => {
            let row = |i| {
                let at = a.eval(i)?;
                Row::new(format!("R(A({i})) = R({at})"), r.eval(at), "i".to_owned(), Some(i))
            };
            checked("R(A(i)) = i for every i", a.size().ok()?, row)
        }
        _ => None,
    }
}

/// One coordinate at which a law is checked: two ways to compute the same number.
struct Row {
    left: String,
    right: String,
    values: (i64, i64),
}

impl Row {
    fn new(left: String, left_value: Option<i64>, right: String, right_value: Option<i64>) -> Option<Row> {
        Some(Row { left, right, values: (left_value?, right_value?) })
    }
}

/// Checks a law at all coordinates up to a limit, and prints a few.
fn checked(law: &str, size: i64, row: impl Fn(i64) -> Option<Row>) -> Option<String> {
    let count = size.min(CHECKED);
    let mut text = format!("  law: {law}\n");
    for index in 0..count {
        let Row { left, right, values: (a, b) } = row(index)?;
        if a != b {
            return Some(
                text + &format!(
                    "    {left} = {a}, but {right} = {b}: this is a fault in tilewright, please report it\n"
                ),
            );
        }
        // The first few, and one in the middle, since the first rows are similar.
        if (index as usize) < SHOWN || index == count / 2 {
            text += &format!("    {left} = {a} = {right}\n");
        }
    }
    let all = if count == size { "all" } else { "the first" };
    Some(text + &format!("    checked at {all} {count} coordinates\n"))
}

/// `R(i)` beside `A(B(c))`.
fn through(r: &Composed, a: &Composed, tiler: &Tiler, index: i64) -> Option<Row> {
    let coord = select(tiler, a.layout(), index)?;
    let right = format!("A({coord})");
    Row::new(format!("R({index})"), r.eval(index), right, a.at(coord).ok())
}

/// The coordinate of the left operand that a tiler picks.
fn select(tiler: &Tiler, left: &Layout, index: i64) -> Option<Tuple> {
    match tiler {
        Tiler::Layout(layout) => Some(layout.eval(index)?.into()),
        Tiler::Keep => Some(index.into()),
        Tiler::Modes(tilers) => {
            let mut rest = index;
            let mut coord = Vec::new();
            for (position, mode) in left.modes().enumerate() {
                let tiler = tilers.get(position).unwrap_or(&Tiler::Keep);
                let size = reach(tiler, &mode)?;
                coord.push(select(tiler, &mode, rest % size)?);
                rest /= size;
            }
            Some(Tuple::of(coord))
        }
    }
}

/// How many coordinates a tiler picks.
fn reach(tiler: &Tiler, left: &Layout) -> Option<i64> {
    match tiler {
        Tiler::Layout(layout) => layout.size().ok(),
        Tiler::Keep => left.size().ok(),
        Tiler::Modes(tilers) => left
            .modes()
            .enumerate()
            .map(|(position, mode)| reach(tilers.get(position).unwrap_or(&Tiler::Keep), &mode))
            .product(),
    }
}

/// For a composition with a plain layout: the path of each leaf of the right operand through the left one.
fn walks(r: &Composed, a: &Composed, tiler: &Tiler) -> Option<String> {
    let Tiler::Layout(b) = tiler else { return None };
    let a = a.as_layout()?;
    let r = r.as_layout()?;
    let mut parts = r.leaves();
    let mut text = String::from("  leaf by leaf of B:\n");
    for (extent, stride) in b.leaves() {
        let (extent, stride) = (extent.int()?, stride.int()?);
        let (mut taken, mut shapes, mut strides) = (1, Vec::new(), Vec::new());
        while taken < extent || shapes.is_empty() {
            let (n, d) = parts.next()?;
            taken *= n.int()?;
            shapes.push(n.to_string());
            strides.push(d.to_string());
        }
        let part = match shapes.len() {
            1 => format!("{}:{}", shapes[0], strides[0]),
            _ => format!("({}):({})", shapes.join(","), strides.join(",")),
        };
        text += &format!(
            "    {extent}:{stride} becomes {part}, for A walked by {stride} is at {}\n",
            walk(a, extent, stride)?
        );
    }
    Some(text)
}

/// The offsets along a leaf through a layout.
fn walk(a: &Layout, extent: i64, stride: i64) -> Option<String> {
    let offsets: Option<Vec<i64>> = (0..extent.min(WALK)).map(|i| a.eval(i.checked_mul(stride)?)).collect();
    let more = if extent > WALK { " …" } else { "" };
    Some(spaced(&offsets?) + more)
}

/// Where tiles or copies begin.
fn starts(what: &str, r: &Composed, size: i64, rank: usize) -> Option<String> {
    let count = r.size().ok()? / size;
    if rank < 2 || count < 2 {
        return Some(String::new());
    }
    let offsets: Option<Vec<i64>> = (0..count.min(WALK)).map(|i| r.eval(i * size)).collect();
    let more = if count > WALK { " …" } else { "" };
    Some(format!("  {count} of them; each {what} begins at {}{more}\n", spaced(&offsets?)))
}

fn first(offsets: impl Iterator<Item = i64>) -> String {
    let offsets: Vec<i64> = offsets.take(WALK as usize + 1).collect();
    match offsets.get(WALK as usize) {
        Some(_) => spaced(&offsets[..WALK as usize]) + " …",
        None => spaced(&offsets),
    }
}

fn spaced(offsets: &[i64]) -> String {
    offsets.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

/// The values that a composition would have to reproduce, leaf by leaf.
fn why_not(step: &Step) -> Option<String> {
    let (Law::Composition | Law::Tile, [Item::Layout(a), Item::Tiler(Tiler::Layout(b))]) =
        (step.operation.law, step.operands.as_slice())
    else {
        return None;
    };
    let a = a.as_layout()?;
    let mut text = String::from("  what an answer would have to do:\n");
    for (extent, stride) in b.leaves() {
        let (Value::Int(extent), Value::Int(stride)) = (extent, stride) else {
            return None;
        };
        text += &format!(
            "    along {extent}:{stride}, A walked by {stride} is at {}\n",
            walk(a, extent, stride)?
        );
    }
    if let (Some(rows), 2) = (b.mode(0).ok().and_then(|m| m.size().ok()), b.rank()) {
        text += "    A(B(c)) for all c, one line for each coordinate of B's mode 1:\n";
        let columns = b.size().ok()? / rows;
        for column in 0..columns.min(WALK) {
            let line: Option<Vec<i64>> =
                (0..rows.min(WALK)).map(|row| a.eval(b.eval(row + column * rows)?)).collect();
            text += &format!("      {}{}\n", spaced(&line?), if rows > WALK { " …" } else { "" });
        }
    }
    Some(text)
}
