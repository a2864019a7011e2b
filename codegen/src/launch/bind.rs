//! Binds arguments to parameters: kinds, extents, strides, lengths, overlaps; and the value of every symbol.

use tilewright_layout::{Symbol, Value};

use crate::affine::{Affine, Undefined};
use crate::condition::Test;

use super::{Given, Refusal, Tensor, last_offset};
use crate::definition::{Generated, Hollow, Variant};
use crate::elem::Elem;
use crate::range::{MOST_EXTENT, lcm};
use crate::thread::Param;
use crate::tile::Require;

/// A size, and the argument that determined it.
struct Bound<'k> {
    symbol: Symbol,
    value: i64,
    name: &'k str,
    what: What,
}

/// `extent 0`, `stride 1`. Formatted only for errors.
#[derive(Clone, Copy)]
struct What(&'static str, usize);

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// The values of symbols, and the kernel without loops that serves the launch where no other does.
type Known = (Vec<(Symbol, i64)>, Option<usize>);

/// Checks all arguments; returns the values of the symbols.
pub(super) fn arguments(kernel: &Generated, given: &[Given]) -> Result<Known, Refusal> {
    let names: Vec<&str> = kernel.params.iter().map(|param| &*param.name).collect();
    if given.len() != names.len() {
        return Err(count(&names, given.len()));
    }
    for (param, given) in kernel.params.iter().zip(given) {
        match (param.tensor, given) {
            (Some((mutable, rank)), Given::Tensor(tensor)) => {
                element(&param.name, param.elem, tensor.elem)?;
                itself(&param.name, mutable, rank, tensor)?;
            }
            (None, Given::Scalar(elem)) if *elem == param.elem => {}
            (None, Given::Scalar(elem)) => {
                let message =
                    format!("it is a number of type {}, and one of type {elem} was given", param.elem);
                return Err(
                    Refusal::of(&param.name, message).help(format!("convert it: `… as {}`", param.elem))
                );
            }
            (Some(_), Given::Scalar(elem)) => {
                return Err(Refusal::of(
                    &param.name,
                    format!("it is a tensor, and a number of type {elem} was given"),
                ));
            }
            (None, Given::Tensor(_)) => {
                let message = format!("it is a number of type {}, and a tensor was given", param.elem);
                return Err(Refusal::of(&param.name, message));
            }
        }
    }
    let bound = bound(&kernel.variants[0], &kernel.requires, given)?;
    required(kernel, &bound)?;
    let hollow = written_extents(kernel, given, &bound)?;
    overlaps(&names, given)?;
    Ok((bound.into_iter().map(|bound| (bound.symbol, bound.value)).collect(), hollow))
}

/// The values of the symbols for arguments that have been checked, some of them replaced by copies as this variant reads
/// them.
pub(super) fn symbols(
    variant: &Variant,
    requires: &[Require],
    given: &[Given],
) -> Result<Vec<(Symbol, i64)>, Refusal> {
    Ok(bound(variant, requires, given)?.into_iter().map(|bound| (bound.symbol, bound.value)).collect())
}

/// All variants have the same tensors; only copies may have another contiguous mode than the first variant's.
fn bound<'k>(variant: &'k Variant, requires: &[Require], given: &[Given]) -> Result<Vec<Bound<'k>>, Refusal> {
    let mut bound = Vec::new();
    let params = || variant.program.params.iter().zip(given);
    // Plain symbols first, so that expressions of them can be evaluated.
    for plain in [true, false] {
        for (param, given) in params() {
            if let (Param::Pointer { name, shape, stride, .. }, Given::Tensor(tensor)) = (param, given) {
                sizes(name, shape, stride, tensor, plain, &mut bound)?;
            }
        }
        if plain {
            unused_strides(variant, requires, given, &mut bound);
        }
    }
    Ok(bound)
}

/// Strides of modes with one element, and of tensors without elements, are not used. Where no other stride determines such a
/// symbol, it gets a value with which the author's assertions hold, if there is one: that of the argument first.
fn unused_strides<'k>(
    variant: &'k Variant,
    requires: &[Require],
    given: &[Given],
    bound: &mut Vec<Bound<'k>>,
) {
    let mut open = Vec::new();
    for (param, given) in variant.program.params.iter().zip(given) {
        let (Param::Pointer { name, stride, .. }, Given::Tensor(tensor)) = (param, given) else { continue };
        for (mode, wanted) in stride.iter().enumerate() {
            let Value::Sym { times: 1, of, over: 1 } = *wanted else { continue };
            if bound.iter().any(|known| known.symbol == of) {
                continue;
            }
            let others = tensor.extents.iter().enumerate().filter(|(other, _)| *other != mode);
            let row = others.fold(1i64, |row, (_, extent)| row.saturating_mul((*extent).max(1)));
            open.push((bound.len(), row.min(MOST_EXTENT)));
            let value = Some(tensor.strides[mode]).filter(|given| (1..=MOST_EXTENT).contains(given));
            bound.push(Bound { symbol: of, value: value.unwrap_or(1), name, what: What("stride", mode) });
        }
    }
    for (place, row) in open {
        let symbol = bound[place].symbol;
        let own = Value::Sym { times: 1, of: symbol, over: 1 };
        let about = |require: &&Require| {
            require.test.integers().iter().any(|integer| integer.symbols().contains(&symbol))
        };
        let about: Vec<&Require> = requires.iter().filter(about).collect();
        let with = |value: i64, of: Symbol| match of == symbol {
            true => Some(value),
            false => bound.iter().find(|known| known.symbol == of).map(|known| known.value),
        };
        let hold = |value: &i64| {
            let size = |of: Symbol| with(*value, of);
            about.iter().all(|require| require.test.exact(&|coord| coord.at_launch(&size)) == Ok(true))
        };
        let divisors = about.iter().filter_map(|require| require.divides()).filter(|(of, _)| *of == own);
        let multiple = divisors.fold(1, |all, (_, n)| lcm(all, n));
        let equal = |require: &&Require| {
            let Test::Equal(a, b) = &require.test else { return None };
            let other = if a.size() == Some(own) { b } else { Some(a).filter(|_| b.size() == Some(own))? };
            other.exact(&|coord| coord.at_launch(&|of| with(1, of))).ok()
        };
        let rounded = row.checked_add(multiple - 1).map_or(row, |sum| sum / multiple * multiple);
        let choices = [bound[place].value, row, rounded].into_iter().chain(about.iter().filter_map(equal));
        let choice = choices.filter(|value| (1..=MOST_EXTENT).contains(value)).find(hold);
        bound[place].value = choice.unwrap_or(bound[place].value);
    }
}

fn count(names: &[&str], given: usize) -> Refusal {
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let s = if names.len() == 1 { "" } else { "s" };
    let said = format!("the kernel takes {} argument{s}, {list}, and {given} were given", names.len());
    match names.get(given) {
        Some(missing) => Refusal::of(missing, format!("it is missing: {said}")),
        None => Refusal::new(said),
    }
}

fn element(name: &str, wanted: Elem, given: Elem) -> Result<(), Refusal> {
    if wanted == given {
        return Ok(());
    }
    Err(Refusal::of(name, format!("its elements are {wanted}, and {given} were given"))
        .help(format!("convert them, or make the kernel for {given}")))
}

/// Checks of one tensor alone.
fn itself(name: &str, mutable: bool, rank: usize, tensor: &Tensor) -> Result<(), Refusal> {
    let refuse = |message: String| Err(Refusal::of(name, message));
    if mutable && !tensor.mutable {
        return Err(Refusal::of(name, "the kernel writes it, and it was lent for reading only").help(
            "lend it as `&mut`; to the simulator as `Arg::output`, or `Arg::in_out` if it is read too",
        ));
    }
    if tensor.extents.len() != rank || tensor.strides.len() != rank {
        let given = tensor.extents.len();
        let s = if rank == 1 { "" } else { "s" };
        return refuse(format!("it has {rank} mode{s}, and a tensor of {given} was given"));
    }
    for (mode, (&extent, &stride)) in tensor.extents.iter().zip(&tensor.strides).enumerate() {
        if extent < 0 {
            return refuse(format!("its extent {mode} is {extent}"));
        }
        if extent > MOST_EXTENT {
            return refuse(format!(
                "its extent {mode} is {extent}, and {MOST_EXTENT} is the most: coordinates have 32 bits"
            ));
        }
        if extent > 1 && !(0..=MOST_EXTENT).contains(&stride) {
            return refuse(format!("its stride {mode} is {stride}, and strides go from 0 to {MOST_EXTENT}"));
        }
    }
    if tensor.extents.contains(&0) {
        return Ok(());
    }
    let bytes = u64::from(tensor.elem.bytes());
    if !tensor.address.is_multiple_of(bytes) {
        let message =
            format!("it begins at address {:#x}, and {} is {bytes} bytes wide", tensor.address, tensor.elem);
        return Err(Refusal::of(name, message).help(format!("begin at a multiple of {bytes} bytes")));
    }
    let needed = last_offset(&tensor.extents, &tensor.strides) + 1;
    if needed > i128::from(tensor.len) {
        return Err(Refusal::of(
            name,
            format!(
                "extents {} with strides {} reach over {needed} elements, and there are {}",
                text(&tensor.extents),
                text(&tensor.strides),
                tensor.len
            ),
        )
        .help("give a longer buffer, or smaller extents"));
    }
    if mutable { injective(name, tensor) } else { Ok(()) }
}

fn text(values: &[i64]) -> String {
    let values: Vec<String> = values.iter().map(i64::to_string).collect();
    format!("({})", values.join(", "))
}

/// Distinct coordinates of a written tensor have distinct addresses.
fn injective(name: &str, tensor: &Tensor) -> Result<(), Refusal> {
    let mut modes: Vec<(i64, i64, usize)> = Vec::new();
    for (mode, (&extent, &stride)) in tensor.extents.iter().zip(&tensor.strides).enumerate() {
        if extent > 1 {
            modes.push((stride, extent, mode));
        }
    }
    modes.sort_unstable();
    let mut reach = 0i128;
    for (stride, extent, mode) in modes {
        if i128::from(stride) <= reach {
            let message = format!(
                "it is written, and its stride {mode} is {stride}, no more than the {} elements that the other modes reach over",
                reach + 1
            );
            return Err(Refusal::of(name, message).help("give every element a place of its own"));
        }
        reach += i128::from(extent - 1) * i128::from(stride);
    }
    Ok(())
}

fn sizes<'k>(
    name: &'k str,
    shape: &[Value],
    stride: &[Value],
    tensor: &Tensor,
    plain: bool,
    bound: &mut Vec<Bound<'k>>,
) -> Result<(), Refusal> {
    for (mode, (&wanted, &given)) in shape.iter().zip(&tensor.extents).enumerate() {
        size(name, What("extent", mode), wanted, given, plain, bound)?;
    }
    for (mode, (&wanted, &given)) in stride.iter().zip(&tensor.strides).enumerate() {
        // A mode of extent 1 has one coordinate, whatever its stride, and a tensor without elements has none.
        if tensor.extents[mode] <= 1 || tensor.extents.contains(&0) {
            continue;
        }
        if given == 0 && matches!(wanted, Value::Sym { .. }) {
            return Err(Refusal::of(
                name,
                format!("its stride {mode} is 0, and the kernel takes it for at least 1"),
            ));
        }
        size(name, What("stride", mode), wanted, given, plain, bound).map_err(|refusal| match wanted {
            Value::Int(1) => refusal.help(format!(
                "elements along mode {mode} are neighbours: give it strides such as {}",
                text(&compact(&tensor.extents, mode))
            )),
            _ => refusal,
        })?;
    }
    Ok(())
}

/// The strides of a tensor without gaps, with stride 1 along a mode.
fn compact(extents: &[i64], first: usize) -> Vec<i64> {
    let mut strides = vec![1; extents.len()];
    let mut next = extents[first].max(1);
    for mode in (0..extents.len()).filter(|mode| *mode != first) {
        strides[mode] = next;
        next = next.saturating_mul(extents[mode].max(1));
    }
    strides
}

fn size<'k>(
    name: &'k str,
    what: What,
    wanted: Value,
    given: i64,
    plain: bool,
    bound: &mut Vec<Bound<'k>>,
) -> Result<(), Refusal> {
    let lookup = |symbol: Symbol| bound.iter().find(|known| known.symbol == symbol);
    let expected = match wanted {
        Value::Sym { times: 1, of, over: 1 } => match lookup(of) {
            None => {
                bound.push(Bound { symbol: of, value: given, name, what });
                return Ok(());
            }
            Some(known) if known.value == given => return Ok(()),
            Some(known) => {
                let message = format!(
                    "its {what} is {given}, and `{}` is {}, the {} of `{}`",
                    of.name(),
                    known.value,
                    known.what,
                    known.name
                );
                return Err(Refusal::of(name, message));
            }
        },
        _ if plain => return Ok(()),
        _ => wanted.evaluate(&|symbol| lookup(symbol).map(|known| known.value)),
    };
    match expected {
        Some(expected) if expected == given => Ok(()),
        Some(expected) if wanted.int().is_some() => {
            Err(Refusal::of(name, format!("its {what} is {given}, and the kernel is made for {expected}")))
        }
        Some(expected) => {
            Err(Refusal::of(name, format!("its {what} is {given}, and `{wanted}` is {expected}")))
        }
        None => Err(Refusal::of(name, format!("its {what} is `{wanted}`, which no argument determines"))),
    }
}

/// The author's requirements on sizes.
fn required(kernel: &Generated, bound: &[Bound<'_>]) -> Result<(), Refusal> {
    let lookup = |symbol: Symbol| bound.iter().find(|known| known.symbol == symbol);
    for require in &kernel.requires {
        let sizes: Vec<Symbol> = require.test.integers().into_iter().flat_map(Affine::symbols).collect();
        if let Some(unknown) = sizes.iter().find(|size| lookup(**size).is_none()) {
            return Err(Refusal::new(format!("the size `{}` is known of no argument", unknown.name())));
        }
        let value = |symbol: Symbol| lookup(symbol).map(|known| known.value);
        let undefined = match require.test.exact(&|coord| coord.at_launch(&value)) {
            Ok(true) => continue,
            Ok(false) => None,
            Err(Undefined::DividesBy(n)) => Some(format!("divides by {n}")),
            Err(Undefined::Overflows) => Some("overflows 64 bits".to_owned()),
        };
        let mut values: Vec<String> = Vec::new();
        for size in sizes.iter().filter(|size| Some(**size) != require.of).filter_map(|size| lookup(*size)) {
            let text =
                format!("`{}` is {}, the {} of `{}`", size.symbol.name(), size.value, size.what, size.name);
            if !values.contains(&text) {
                values.push(text);
            }
        }
        let (text, values) = (&require.text, values.join(", "));
        let extent = require.of.and_then(lookup);
        return Err(match (extent, undefined, require.computed(&value)) {
            (Some(extent), None, Some((_, computed))) => Refusal::of(
                extent.name,
                format!("its {} is {}, and `{text}` is {computed}", extent.what, extent.value),
            ),
            (Some(extent), why, _) => Refusal::of(
                extent.name,
                format!("its {} is `{text}`, which {}: {values}", extent.what, why.unwrap_or_default()),
            ),
            (None, Some(why), _) => {
                let refusal = Refusal::new(format!("the kernel asserts `{text}`, which {why}: {values}"));
                let zero = sizes.iter().find(|size| value(**size) == Some(0));
                match zero.filter(|_| why == "divides by 0") {
                    Some(size) => refusal.help(format!(
                        "where the kernel serves such launches, write assert({} == 0 || {text})",
                        size.name()
                    )),
                    None => refusal,
                }
            }
            (None, None, _) => Refusal::new(format!("the kernel asserts `{text}`: {values}")),
        });
    }
    Ok(())
}

/// A tensor without elements has sizes that violate every variant's assumption of at least 1: nothing is
/// launched then, which is right only where there is nothing to write, or no block to write it. Otherwise, if only loops
/// read such tensors, the kernel without them serves the launch.
fn written_extents(kernel: &Generated, given: &[Given], bound: &[Bound]) -> Result<Option<usize>, Refusal> {
    let written = |place: usize| matches!(kernel.params[place].tensor, Some((true, _)));
    let lookup = |symbol: Symbol| bound.iter().find(|of| of.symbol == symbol).map(|of| of.value);
    let no_blocks = |first: &Variant| {
        first.program.launch.grid.iter().flatten().any(|count| count.evaluate(&lookup) == Some(0))
    };
    if kernel.variants.first().is_some_and(no_blocks) {
        return Ok(None);
    }
    let work = given.iter().enumerate().any(|(place, given)| written(place) && !given.is_empty());
    let empty: Vec<usize> = (0..given.len()).filter(|place| given[*place].is_empty()).collect();
    let hollow = |work| {
        let serves = |of: &Hollow| of.serves(&lookup, &empty) && of.variant().is_some();
        if work { kernel.hollow.iter().position(serves) } else { None }
    };
    match empty.first() {
        Some(_) if hollow(work).is_some() => Ok(hollow(work)),
        Some(&place) if work => {
            let name = &kernel.params[place].name;
            let message = "it has no elements, and a tensor that the kernel writes has some";
            Err(Refusal::of(name, message)
                .help("only loops that have no iteration then may read it, such as `for k in 0..x.size(2)`; otherwise fill the result yourself"))
        }
        _ => Ok(None),
    }
}

/// A written argument overlaps no other.
fn overlaps(names: &[&str], given: &[Given]) -> Result<(), Refusal> {
    let range = |tensor: &Tensor| {
        let reach = last_offset(&tensor.extents, &tensor.strides) + 1;
        let start = i128::from(tensor.address);
        (start, start + reach * i128::from(tensor.elem.bytes()))
    };
    for (at, one) in given.iter().enumerate() {
        for (place, other) in given.iter().enumerate().skip(at + 1) {
            let (Given::Tensor(one), Given::Tensor(other)) = (one, other) else { continue };
            if !(one.mutable || other.mutable) || one.extents.contains(&0) || other.extents.contains(&0) {
                continue;
            }
            let (a, b) = (range(one), range(other));
            if a.0 < b.1 && b.0 < a.1 {
                let (written, read) = if one.mutable { (at, place) } else { (place, at) };
                let message = format!("it is written, and it shares memory with `{}`", names[read]);
                return Err(Refusal::of(names[written], message).help("give it memory of its own"));
            }
        }
    }
    Ok(())
}
