//! Binds arguments to parameters: kinds, extents, strides, lengths, overlaps; and the value of every symbol.

use tilewright_layout::{Symbol, Value};

use crate::values::affine::{Affine, Undefined};
use crate::values::condition::Test;

use super::choice;
use super::number::Natural;
use super::rules::{Form, Rules, Size, Sizes};
use super::{Given, Refusal, Tensor};
use crate::launch::definition::{EmptyLoops, Generated};
use crate::thread::index::lcm;
use crate::values::condition::Require;
use crate::values::elem::Elem;
use crate::values::limits::MOST_EXTENT;

/// The value of a size, and the extent or stride that determined it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bound {
    pub(super) value: i64,
    arg: u32,
    what: What,
}

/// `extent 0`, `stride 1`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    Extent(u16),
    Stride(u16),
    /// Computed from others: no argument has it.
    Computed,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Extent(mode) => write!(f, "extent {mode}"),
            What::Stride(mode) => write!(f, "stride {mode}"),
            What::Computed => f.write_str("count of blocks"),
        }
    }
}

/// Checks all arguments. Returns the values of the sizes, and the kernel without loops if the launch needs it.
pub(super) fn arguments(
    rules: &Rules,
    kernel: &Generated,
    given: &[Given],
    tensors: &[Option<&Tensor>],
) -> Result<(Sizes, Option<usize>), Refusal> {
    if given.len() != kernel.params.len() {
        return Err(count(kernel, given.len()));
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
    let sizes = sizes(rules, kernel, rules.classes[rules.variants[0].class].form, tensors)?;
    required(rules, kernel, &sizes)?;
    let empty_loops = written_extents(rules, kernel, given, &sizes)?;
    overlaps(kernel, given)?;
    Ok((sizes, empty_loops))
}

/// The values of the sizes for checked arguments. Some are replaced by copies, as a variant of this form reads them. All
/// variants have the same tensors; only copies may have another contiguous mode than the first variant's.
pub(super) fn sizes(
    rules: &Rules,
    kernel: &Generated,
    form: usize,
    tensors: &[Option<&Tensor>],
) -> Result<Sizes, Refusal> {
    let form = &rules.forms[form];
    let mut sizes = vec![None; rules.symbols.len()];
    // Plain sizes first, so that expressions of them can be evaluated.
    for plain in [true, false] {
        for shape in &form.tensors {
            let Some(tensor) = tensors[shape.arg] else { continue };
            let of = Of { rules, kernel, arg: shape.arg, plain };
            of.tensor(&shape.extents, &shape.strides, tensor, &mut sizes)?;
        }
        if plain {
            unused_strides(rules, &kernel.requires, form, tensors, &mut sizes);
        }
    }
    computed(rules, &kernel.requires, &mut sizes);
    Ok(sizes)
}

/// Sizes of the grid that are computed from others. A value that is none is reported with the requirement.
fn computed(rules: &Rules, requires: &[Require], sizes: &mut Sizes) {
    for require in requires {
        let number = require.of.and_then(|of| rules.symbols.iter().position(|known| *known == of));
        let Some(number) = number.filter(|number| sizes[*number].is_none()) else { continue };
        let value = require.computed(&|symbol| rules.value(sizes, symbol)).map_or(0, |(_, value)| value);
        sizes[number] = Some(Bound { value: value.clamp(0, MOST_EXTENT), arg: 0, what: What::Computed });
    }
}

/// Strides of modes with one element, and of tensors without elements, are not used. If no other stride determines such a
/// symbol, it gets a value that satisfies the author's assertions, if there is such a value. The argument's stride is tried
/// first.
fn unused_strides(
    rules: &Rules,
    requires: &[Require],
    form: &Form,
    tensors: &[Option<&Tensor>],
    sizes: &mut Sizes,
) {
    let mut open = Vec::new();
    for shape in &form.tensors {
        let Some(tensor) = tensors[shape.arg] else { continue };
        for (mode, wanted) in shape.strides.iter().enumerate() {
            let Some(number) = wanted.plain().filter(|number| sizes[*number].is_none()) else { continue };
            let others = tensor.extents.iter().enumerate().filter(|(other, _)| *other != mode);
            let row = others.fold(1i64, |row, (_, extent)| row.saturating_mul((*extent).max(1)));
            open.push((number, row.min(MOST_EXTENT)));
            let value = Some(tensor.strides[mode]).filter(|given| (1..=MOST_EXTENT).contains(given));
            let (arg, what) = (shape.arg as u32, What::Stride(mode as u16));
            sizes[number] = Some(Bound { value: value.unwrap_or(1), arg, what });
        }
    }
    for (number, row) in open {
        let Some(first) = sizes[number].map(|bound| bound.value) else { continue };
        let symbol = rules.symbols[number];
        let own = Value::Sym { times: 1, of: symbol, over: 1 };
        let about = |require: &&Require| {
            require.test.integers().iter().any(|integer| integer.symbols().contains(&symbol))
        };
        let about: Vec<&Require> = requires.iter().filter(about).collect();
        let with = |value: i64, of: Symbol| match of == symbol {
            true => Some(value),
            false => rules.value(sizes, of),
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
        let choices = [first, row, rounded].into_iter().chain(about.iter().filter_map(equal));
        let choice = choices.filter(|value| (1..=MOST_EXTENT).contains(value)).find(hold);
        sizes[number] = sizes[number].map(|bound| Bound { value: choice.unwrap_or(first), ..bound });
    }
}

fn count(kernel: &Generated, given: usize) -> Refusal {
    let names: Vec<&str> = kernel.params.iter().map(|param| &*param.name).collect();
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let s = if names.len() == 1 { "" } else { "s" };
    let reported = format!("the kernel takes {} argument{s}, {list}, and {given} were given", names.len());
    match names.get(given) {
        Some(missing) => Refusal::of(missing, format!("it is missing: {reported}")),
        None => Refusal::new(reported),
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
                "its extent {mode} is {extent}, and the limit is {MOST_EXTENT}: coordinates have 32 bits"
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
    let needed = tensor.last_offset() + 1;
    if needed > i128::from(tensor.len) {
        return Err(Refusal::of(
            name,
            format!(
                "extents {} with strides {} span {needed} elements, and the buffer has {}",
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
                "it is written, and its stride {mode} is {stride}, not greater than the {} elements that its other modes span",
                reach + 1
            );
            return Err(Refusal::of(name, message).help(
                "give each element its own offset: pass a contiguous tensor; a tensor that repeats elements can only be read",
            ));
        }
        reach += i128::from(extent - 1) * i128::from(stride);
    }
    Ok(())
}

/// One argument, while sizes are determined.
struct Of<'k> {
    rules: &'k Rules,
    kernel: &'k Generated,
    arg: usize,
    /// Plain sizes, or computed ones?
    plain: bool,
}

impl Of<'_> {
    fn name(&self) -> &str {
        &self.kernel.params[self.arg].name
    }

    fn tensor(
        &self,
        extents: &[Size],
        strides: &[Size],
        tensor: &Tensor,
        sizes: &mut Sizes,
    ) -> Result<(), Refusal> {
        for (mode, (&wanted, &given)) in extents.iter().zip(&tensor.extents).enumerate() {
            self.size(What::Extent(mode as u16), wanted, given, sizes)?;
        }
        let is_empty = tensor.extents.contains(&0);
        for (mode, (&wanted, &given)) in strides.iter().zip(&tensor.strides).enumerate() {
            // A mode of extent 1 has one coordinate for any stride, and a tensor without elements has none.
            if tensor.extents[mode] <= 1 || is_empty {
                continue;
            }
            if given == 0 && matches!(wanted, Size::Of { .. }) {
                return Err(Refusal::of(
                    self.name(),
                    format!("its stride {mode} is 0, and the kernel takes it for at least 1"),
                )
                .help(format!(
                    "pass a contiguous tensor; a kernel that reads repeated elements has the stride `_0` for mode {mode} in the type of this argument"
                )));
            }
            let stride = self.size(What::Stride(mode as u16), wanted, given, sizes);
            stride.map_err(|refusal| match wanted {
                Size::Int(1) => refusal.help(format!(
                    "mode {mode} must be contiguous: give it strides such as {}",
                    text(&compact(&tensor.extents, mode))
                )),
                _ => refusal,
            })?;
        }
        Ok(())
    }

    fn size(&self, what: What, wanted: Size, given: i64, sizes: &mut Sizes) -> Result<(), Refusal> {
        let refuse = |message: String| Err(Refusal::of(self.name(), message));
        if let Some(number) = wanted.plain() {
            return match sizes[number] {
                None => {
                    sizes[number] = Some(Bound { value: given, arg: self.arg as u32, what });
                    Ok(())
                }
                Some(known) if known.value == given => Ok(()),
                Some(known) => refuse(format!(
                    "its {what} is {given}, and `{}` is {}, the {} of `{}`",
                    self.rules.symbols[number].name(),
                    known.value,
                    known.what,
                    self.kernel.params[known.arg as usize].name
                )),
            };
        }
        if self.plain {
            return Ok(());
        }
        match (wanted.evaluate(sizes), wanted) {
            (Some(expected), _) if expected == given => Ok(()),
            (Some(expected), Size::Int(_)) => {
                refuse(format!("its {what} is {given}, and the kernel is made for {expected}"))
            }
            (Some(expected), _) => {
                refuse(format!("its {what} is {given}, and `{}` is {expected}", self.rules.named(wanted)))
            }
            (None, _) => {
                refuse(format!("its {what} is `{}`, which no argument determines", self.rules.named(wanted)))
            }
        }
    }
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

/// The author's requirements on sizes.
fn required(rules: &Rules, kernel: &Generated, bound: &[Option<Bound>]) -> Result<(), Refusal> {
    let value = |symbol: Symbol| rules.value(bound, symbol);
    let lookup = |symbol: Symbol| {
        let number = rules.symbols.iter().position(|known| *known == symbol)?;
        let bound = bound[number].filter(|bound| bound.what != What::Computed)?;
        Some((symbol, &*kernel.params[bound.arg as usize].name, bound))
    };
    for require in &kernel.requires {
        let sizes: Vec<Symbol> = require.test.integers().into_iter().flat_map(Affine::symbols).collect();
        if let Some(unknown) = sizes.iter().find(|size| value(**size).is_none()) {
            return Err(Refusal::new(format!("no argument determines the size `{}`", unknown.name())));
        }
        let undefined = match require.test.exact(&|coord| coord.at_launch(&value)) {
            Ok(true) => continue,
            Ok(false) => None,
            Err(Undefined::DividesBy(n)) => Some(format!("divides by {n}")),
            Err(Undefined::Overflows) => Some("overflows 64 bits".to_owned()),
        };
        let mut values: Vec<String> = Vec::new();
        let others = sizes.iter().filter(|size| Some(**size) != require.of);
        for (size, name, bound) in others.filter_map(|size| lookup(*size)) {
            let text = format!("`{}` is {}, the {} of `{name}`", size.name(), bound.value, bound.what);
            if !values.contains(&text) {
                values.push(text);
            }
        }
        let (text, values) = (&require.text, values.join(", "));
        let extent = require.of.and_then(lookup);
        return Err(match (extent, undefined, require.computed(&value)) {
            (Some((_, name, extent)), None, Some((_, computed))) => Refusal::of(
                name,
                format!("its {} is {}, and `{text}` is {computed}", extent.what, extent.value),
            ),
            (Some((_, name, extent)), why, _) => Refusal::of(
                name,
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
            (None, None, Some((_, computed))) => Refusal::new(format!(
                "an axis of the grid has `{text}` blocks, which is {computed}, and 0 to {MOST_EXTENT} are possible: {values}"
            )),
            (None, None, None) => Refusal::new(format!("the kernel asserts `{text}`: {values}")),
        });
    }
    Ok(())
}

/// A tensor without elements has sizes that violate every variant's assumption of at least 1. No kernel is launched
/// then, which is correct only if no element is written, or no block would write one. Otherwise, if only loops read
/// such tensors, the launch takes the kernel without these loops.
fn written_extents(
    rules: &Rules,
    kernel: &Generated,
    given: &[Given],
    sizes: &Sizes,
) -> Result<Option<usize>, Refusal> {
    let written = |index: usize| matches!(kernel.params[index].tensor, Some((true, _)));
    let natural = |size: usize| Some(Natural(u64::try_from(sizes[size]?.value).unwrap_or(0)));
    if rules.variants.first().is_some_and(|first| choice::has_no_blocks(&first.grid, &natural)) {
        return Ok(None);
    }
    let work = given.iter().enumerate().any(|(index, given)| written(index) && !given.is_empty());
    let is_empty = |index: &usize| given[*index].is_empty() && rules.uses(*index);
    let empty: Vec<usize> = (0..given.len()).filter(is_empty).collect();
    let lookup = |symbol: Symbol| rules.value(sizes, symbol);
    let empty_loops = |work| {
        let serves = |of: &EmptyLoops| of.serves(&lookup, &empty) && of.variant().is_some();
        if work { kernel.empty_loops.iter().position(serves) } else { None }
    };
    match empty.first() {
        Some(_) if empty_loops(work).is_some() => Ok(empty_loops(work)),
        Some(&index) if work => {
            let name = &kernel.params[index].name;
            let message = "it has no elements, and a tensor that the kernel writes has some";
            Err(Refusal::of(name, message)
                .help("an empty tensor may be read only in loops that then have no iteration, such as `for k in 0..x.size(2)`; otherwise fill the result yourself"))
        }
        _ => Ok(None),
    }
}

/// A written argument overlaps no other.
fn overlaps(kernel: &Generated, given: &[Given]) -> Result<(), Refusal> {
    let range = |tensor: &Tensor| {
        let reach = tensor.last_offset() + 1;
        let start = i128::from(tensor.address);
        (start, start + reach * i128::from(tensor.elem.bytes()))
    };
    for (at, one) in given.iter().enumerate() {
        for (index, other) in given.iter().enumerate().skip(at + 1) {
            let (Given::Tensor(one), Given::Tensor(other)) = (one, other) else { continue };
            if !(one.mutable || other.mutable) || one.extents.contains(&0) || other.extents.contains(&0) {
                continue;
            }
            let (a, b) = (range(one), range(other));
            if a.0 < b.1 && b.0 < a.1 {
                let (written, read) = if one.mutable { (at, index) } else { (index, at) };
                let name = |index: usize| &kernel.params[index].name;
                let message = format!("it is written, and overlaps `{}` in memory", name(read));
                return Err(Refusal::of(name(written), message).help("pass a buffer that does not overlap"));
            }
        }
    }
    Ok(())
}
