//! Binds arguments to parameters: kinds, extents, strides, lengths, overlaps; and the value of every symbol. Checks of numbers are
//! written for any numbers: see [`super::number`].

use tilewright_layout::{Symbol, Value};

use super::exact::{self, Outcome};
use super::message::{Checks, Message, Piece, PlanChecks, Problem, message};
use super::number::{Natural, Number, Truth};
use super::rules::{Form, Rules, Shape, Size, Sizes};
use super::{Given, Refusal, Tensor, choice};
use crate::launch::definition::{Generated, Param};
use crate::thread::index::lcm;
use crate::values::affine::Affine;
use crate::values::condition::{Require, Test};
use crate::values::elem::Elem;
use crate::values::limits::MOST_EXTENT;

/// The greatest extent and stride.
const MOST: u64 = MOST_EXTENT.cast_unsigned();

/// A condition of checks.
type TruthOf<C> = <<C as Checks>::Number as Number>::Truth;
/// The sizes, and the number of the kernel without loops.
type Checked<C> = (Sizes<<C as Checks>::Number>, <C as Checks>::Number);
/// What a check of arguments that fails returns.
type Failed<C> = <C as Checks>::Failed<Problem<<C as Checks>::Number>>;

/// A tensor that is given for an argument. Negative numbers are as their bits.
pub(super) struct TensorArgument<'k, N> {
    pub(super) name: &'k str,
    pub(super) elem: Elem,
    pub(super) is_written: bool,
    pub(super) extents: Vec<N>,
    pub(super) strides: Vec<N>,
    pub(super) address: N,
    pub(super) len: N,
}

impl<N: Number> TensorArgument<'_, N> {
    fn is_empty(&self) -> N::Truth {
        self.extents.iter().fold(false.into(), |any: N::Truth, extent| any | extent.less(1.into()))
    }

    /// Elements from the first to the last; what is too many is the greatest number.
    fn reach(&self) -> N {
        let modes = self.extents.iter().zip(&self.strides);
        modes.fold(1.into(), |sum, (extent, stride)| sum + (*extent - 1.into()) * *stride)
    }

    fn problem(&self, message: Message<N>) -> Problem<N> {
        Problem::of(self.name, message)
    }
}

/// What of an argument determines a size.
#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    Extent(usize),
    Stride(usize),
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Extent(mode) => write!(f, "extent {mode}"),
            What::Stride(mode) => write!(f, "stride {mode}"),
        }
    }
}

/// The value of a size.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Bound<N: Number = Natural> {
    pub(super) value: N,
    /// Has an argument determined it yet? Strides of modes with one element do not.
    is_known: N::Truth,
    /// What determined it, of an argument: the first whose condition is true. None if it is computed from others.
    sources: Vec<(N::Truth, What, usize)>,
}

impl<N: Number> Bound<N> {
    /// The extent or stride that determined it.
    fn what(&self) -> Piece<N> {
        Piece::First(self.sources.iter().map(|(is, what, _)| (*is, what.to_string())).collect())
    }

    fn argument(&self, kernel: &Generated) -> Piece<N> {
        let name = |arg: usize| kernel.params[arg].name.clone();
        Piece::First(self.sources.iter().map(|(is, _, arg)| (*is, name(*arg))).collect())
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
                rank_and_access(&param.name, mutable, rank, tensor)?;
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
    let tensors = tensor_arguments(kernel, tensors);
    let (sizes, empty_loops) = checked(&PlanChecks, rules, kernel, &tensors)?;
    apart(&PlanChecks, &tensors)?;
    let serves = |index: &usize| empty_loops.0 == *index as u64 + 1;
    Ok((sizes, (0..kernel.empty_loops.len()).find(serves)))
}

/// The tensors of a launch.
fn tensor_arguments<'k>(
    kernel: &'k Generated,
    tensors: &[Option<&Tensor>],
) -> Vec<Option<TensorArgument<'k, Natural>>> {
    let bits = |all: &[i64]| all.iter().map(|number| Natural(number.cast_unsigned())).collect();
    let argument = |(param, tensor): (&'k Param, &Option<&Tensor>)| {
        let tensor = (*tensor)?;
        Some(TensorArgument {
            name: &param.name,
            elem: tensor.elem,
            is_written: tensor.mutable,
            extents: bits(&tensor.extents),
            strides: bits(&tensor.strides),
            address: Natural(tensor.address),
            len: Natural(tensor.len),
        })
    };
    kernel.params.iter().zip(tensors).map(argument).collect()
}

/// The values of the sizes for checked arguments. Some are replaced by copies, as a variant of this form reads them. All
/// variants have the same tensors; only copies may have another contiguous mode than the first variant's.
pub(super) fn sizes(
    rules: &Rules,
    kernel: &Generated,
    form: usize,
    tensors: &[Option<&Tensor>],
) -> Result<Sizes, Refusal> {
    Ok(bound(&PlanChecks, rules, kernel, form, &tensor_arguments(kernel, tensors))?)
}

/// Checks the tensors, and returns the sizes, and the number of the kernel without loops if the launch needs it, from 1 on.
pub(super) fn checked<C: Checks>(
    checks: &C,
    rules: &Rules,
    kernel: &Generated,
    tensors: &[Option<TensorArgument<'_, C::Number>>],
) -> Result<Checked<C>, Failed<C>> {
    for tensor in tensors.iter().flatten() {
        itself(checks, tensor)?;
    }
    let form = rules.classes[rules.variants[0].class].form;
    let sizes = bound(checks, rules, kernel, form, tensors)?;
    required(checks, rules, kernel, &sizes)?;
    let empty_loops = written_extents(checks, rules, kernel, tensors, &sizes)?;
    Ok((sizes, empty_loops))
}

/// The value of a symbol.
fn value_of<N: Number>(rules: &Rules, sizes: &Sizes<N>, symbol: Symbol) -> Option<N> {
    let number = rules.symbols.iter().position(|known| *known == symbol)?;
    sizes[number].as_ref().map(|bound| bound.value)
}

/// The values of the sizes, as variants of a form take tensors.
pub(super) fn bound<C: Checks>(
    checks: &C,
    rules: &Rules,
    kernel: &Generated,
    form: usize,
    tensors: &[Option<TensorArgument<'_, C::Number>>],
) -> Result<Sizes<C::Number>, Failed<C>> {
    let form = &rules.forms[form];
    let mut sizes = vec![None; rules.symbols.len()];
    // Plain sizes first, so that expressions of them can be evaluated.
    for plain in [true, false] {
        for shape in &form.tensors {
            let Some(tensor) = &tensors[shape.arg] else { continue };
            Of { checks, rules, kernel, arg: shape.arg, tensor, plain }.tensor(shape, &mut sizes)?;
        }
        if plain {
            unused_strides(rules, &kernel.requires, form, tensors, &mut sizes);
        }
    }
    // Sizes of the grid that are computed from others. A value that is none is reported with the requirement.
    for require in &kernel.requires {
        let number = require.of.and_then(|of| rules.symbols.iter().position(|known| *known == of));
        let (Some(number), Test::Equal(_, of)) = (number, &require.test) else { continue };
        if sizes[number].is_none() {
            let outcome = exact::integer(of, &|symbol| value_of(rules, &sizes, symbol));
            let is_positive = outcome.is_defined() & outcome.value.less(NEGATIVE.into());
            let value = C::Number::select(is_positive, outcome.value.least(MOST.into()), 0.into());
            sizes[number] = Some(Bound { value, is_known: true.into(), sources: Vec::new() });
        }
    }
    Ok(sizes)
}

/// Strides of modes with one element, and of tensors without elements, are not used. If no other stride determines such a
/// symbol, it gets a value that satisfies the author's assertions, if there is such a value. The argument's stride is tried
/// first.
fn unused_strides<N: Number>(
    rules: &Rules,
    requires: &[Require],
    form: &Form,
    tensors: &[Option<TensorArgument<'_, N>>],
    sizes: &mut Sizes<N>,
) {
    let (one, most) = (N::from(1), N::from(MOST));
    let mut open = Vec::new();
    for shape in &form.tensors {
        let Some(tensor) = &tensors[shape.arg] else { continue };
        for (mode, wanted) in shape.strides.iter().enumerate() {
            let Some(number) = wanted.plain() else { continue };
            let Some(bound) = sizes[number].as_mut().filter(|bound| !bound.is_known.is_certain()) else {
                continue;
            };
            let others = tensor.extents.iter().enumerate().filter(|(other, _)| *other != mode);
            let row = others.fold(one, |row, (_, extent)| row * extent.greatest(one));
            let given = tensor.strides[mode];
            let first = N::select(given.less(one) | most.less(given), one, given);
            open.push((number, row.least(most), bound.is_known));
            bound.value = N::select(bound.is_known, bound.value, first);
            bound.is_known = true.into();
            bound.sources.push((true.into(), What::Stride(mode), shape.arg));
        }
    }
    for (number, row, was_known) in open {
        let symbol = rules.symbols[number];
        let own = Value::Sym { times: 1, of: symbol, over: 1 };
        let is_about = |require: &&Require| {
            require.test.integers().iter().any(|integer| integer.symbols().contains(&symbol))
        };
        let about: Vec<&Require> = requires.iter().filter(is_about).collect();
        if about.is_empty() {
            continue;
        }
        let with = |value: N| {
            let mut sizes = sizes.clone();
            sizes[number] = sizes[number].take().map(|bound| Bound { value, ..bound });
            sizes
        };
        let are_met = |value: N| {
            let sizes = with(value);
            let is_met = |require: &&Require| {
                exact::test(&require.test, &|symbol| value_of(rules, &sizes, symbol)).is_true()
            };
            let is_possible = !value.less(one) & !most.less(value);
            about.iter().map(is_met).fold(is_possible, |all, is_met| all & is_met)
        };
        let divisors = about.iter().filter_map(|require| require.divides()).filter(|(of, _)| *of == own);
        let multiple = divisors.fold(1, |all, (_, n)| lcm(all, n)).cast_unsigned();
        let first = sizes[number].as_ref().map_or(one, |bound| bound.value);
        let mut choices = vec![first, row, row.divided_up(multiple.into()) * multiple.into()];
        for require in &about {
            let Test::Equal(a, b) = &require.test else { continue };
            let of_other = [(a, b), (b, a)].into_iter().find(|(this, _)| this.size() == Some(own));
            let Some((_, other)) = of_other else { continue };
            let sizes = with(one);
            let outcome = exact::integer(other, &|symbol| value_of(rules, &sizes, symbol));
            choices.push(N::select(outcome.is_defined(), outcome.value, 0.into()));
        }
        let mut choice = first;
        for value in choices.into_iter().rev() {
            choice = N::select(are_met(value), value, choice);
        }
        let value = N::select(was_known, first, choice);
        sizes[number] = sizes[number].take().map(|bound| Bound { value, ..bound });
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

/// Checks that a tensor is lent as the kernel takes it.
fn rank_and_access(name: &str, mutable: bool, rank: usize, tensor: &Tensor) -> Result<(), Refusal> {
    if mutable && !tensor.mutable {
        return Err(Refusal::of(name, "the kernel writes it, and it was lent for reading only").help(
            "lend it as `&mut`; to the simulator as `Arg::output`, or `Arg::in_out` if it is read too",
        ));
    }
    if tensor.extents.len() != rank || tensor.strides.len() != rank {
        let given = tensor.extents.len();
        let s = if rank == 1 { "" } else { "s" };
        return Err(Refusal::of(name, format!("it has {rank} mode{s}, and a tensor of {given} was given")));
    }
    Ok(())
}

/// The bits of the least negative number.
const NEGATIVE: u64 = 1 << 63;

/// Checks of one tensor alone.
fn itself<C: Checks>(checks: &C, tensor: &TensorArgument<'_, C::Number>) -> Result<(), Failed<C>> {
    let (number, most) = (C::Number::from, C::Number::from(MOST));
    for (mode, (&extent, &stride)) in tensor.extents.iter().zip(&tensor.strides).enumerate() {
        let its = |what: &str| format!("its {what} {mode} is ");
        checks.check(extent.less(number(NEGATIVE)), || {
            tensor.problem(message![its("extent"), Piece::Signed(extent)])
        })?;
        checks.check(!most.less(extent), || {
            let limit = format!(", and the limit is {MOST}: coordinates have 32 bits");
            tensor.problem(message![its("extent"), Piece::Signed(extent), limit])
        })?;
        checks.check(extent.less(number(2)) | !most.less(stride), || {
            let limit = format!(", and strides go from 0 to {MOST}");
            tensor.problem(message![its("stride"), Piece::Signed(stride), limit])
        })?;
    }
    let (is_empty, bytes, elem) = (tensor.is_empty(), tensor.elem.bytes(), tensor.elem);
    let over = tensor.address % number(bytes.into());
    checks.check(is_empty | over.equals(number(0)), || {
        let wide = format!(", and {elem} is {bytes} bytes wide");
        let problem = tensor.problem(message!["it begins at address ", Piece::Address(tensor.address), wide]);
        problem.help(message![format!("begin at a multiple of {bytes} bytes")])
    })?;
    let reach = tensor.reach();
    checks.check(is_empty | !tensor.len.less(reach), || {
        let mut all = vec![Piece::from("extents ")];
        all.extend(list(&tensor.extents));
        all.push(" with strides ".into());
        all.extend(list(&tensor.strides));
        let span = message![
            " span ",
            Piece::Count(reach),
            " elements, and the buffer has ",
            Piece::Count(tensor.len)
        ];
        all.extend(span.0);
        tensor.problem(Message(all)).help(message!["give a longer buffer, or smaller extents"])
    })?;
    if tensor.is_written { injective(checks, tensor, is_empty) } else { Ok(()) }
}

/// `(2, 3)`
fn list<N: Number>(values: &[N]) -> Vec<Piece<N>> {
    let mut all = vec![Piece::from("(")];
    for (index, value) in values.iter().enumerate() {
        all.extend((index > 0).then(|| ", ".into()));
        all.push(Piece::Signed(*value));
    }
    all.push(")".into());
    all
}

/// Distinct coordinates of a written tensor have distinct addresses: each stride is greater than what modes with lesser strides span.
fn injective<C: Checks>(
    checks: &C,
    tensor: &TensorArgument<'_, C::Number>,
    is_empty: TruthOf<C>,
) -> Result<(), Failed<C>> {
    let modes: Vec<_> = tensor.extents.iter().copied().zip(tensor.strides.iter().copied()).collect();
    for (mode, (extent, stride)) in modes.iter().copied().enumerate() {
        let mut span = C::Number::from(0);
        for (other, (n, d)) in modes.iter().copied().enumerate().filter(|(other, _)| *other != mode) {
            // In the order of strides, then of extents, then of modes.
            let is_before = match other < mode {
                true => !stride.less(d) & !(stride.equals(d) & extent.less(n)),
                false => d.less(stride) | (d.equals(stride) & n.less(extent)),
            };
            let of_other = (n - 1.into()) * d;
            span = span + C::Number::select(is_before, of_other, 0.into());
        }
        checks.check(is_empty | extent.less(2.into()) | span.less(stride), || {
            let begin = format!("it is written, and its stride {mode} is ");
            let elements = " elements that its other modes span";
            let span = Piece::Count(span + 1.into());
            tensor.problem(message![begin, Piece::Signed(stride), ", not greater than the ", span, elements]).help(
                message![
                    "give each element its own offset: pass a contiguous tensor; a tensor that repeats elements can only be read"
                ],
            )
        })?;
    }
    Ok(())
}

/// One argument, while sizes are determined.
struct Of<'k, C: Checks> {
    checks: &'k C,
    rules: &'k Rules,
    kernel: &'k Generated,
    arg: usize,
    tensor: &'k TensorArgument<'k, C::Number>,
    /// Plain sizes, or computed ones?
    plain: bool,
}

impl<C: Checks> Of<'_, C> {
    fn tensor(&self, shape: &Shape, sizes: &mut Sizes<C::Number>) -> Result<(), Failed<C>> {
        let tensor = self.tensor;
        for (mode, (&wanted, &given)) in shape.extents.iter().zip(&tensor.extents).enumerate() {
            self.size(What::Extent(mode), true.into(), wanted, given, sizes)?;
        }
        let is_empty = tensor.is_empty();
        for (mode, (&wanted, &given)) in shape.strides.iter().zip(&tensor.strides).enumerate() {
            // A mode of extent 1 has one coordinate for any stride, and a tensor without elements has none.
            let is_used = !tensor.extents[mode].less(2.into()) & !is_empty;
            if matches!(wanted, Size::Of { .. }) {
                self.checks.check(!is_used | !given.equals(0.into()), || {
                    let its = format!("its stride {mode} is 0, and the kernel takes it for at least 1");
                    tensor.problem(message![its]).help(message![format!(
                        "pass a contiguous tensor; a kernel that reads repeated elements has the stride `_0` for mode {mode} in the type of this argument"
                    )])
                })?;
            }
            self.size(What::Stride(mode), is_used, wanted, given, sizes)?;
        }
        Ok(())
    }

    /// Determines a size, or compares it with its value, if the extent or stride is used.
    fn size(
        &self,
        what: What,
        is_used: TruthOf<C>,
        wanted: Size,
        given: C::Number,
        sizes: &mut Sizes<C::Number>,
    ) -> Result<(), Failed<C>> {
        let (checks, tensor) = (self.checks, self.tensor);
        let its = || format!("its {what} is ");
        if let Some(number) = wanted.plain() {
            if !self.plain {
                return Ok(());
            }
            let Some(known) = &mut sizes[number] else {
                let sources = vec![(is_used, what, self.arg)];
                sizes[number] = Some(Bound { value: given, is_known: is_used, sources });
                return Ok(());
            };
            let name = self.rules.symbols[number].name();
            checks.check(!is_used | !known.is_known | known.value.equals(given), || {
                let and = format!(", and `{name}` is ");
                let (known, what, of) =
                    (Piece::Signed(known.value), known.what(), known.argument(self.kernel));
                tensor.problem(message![
                    its(),
                    Piece::Signed(given),
                    and,
                    known,
                    ", the ",
                    what,
                    " of `",
                    of,
                    "`"
                ])
            })?;
            if !known.is_known.is_certain() {
                known.value = C::Number::select(known.is_known, known.value, given);
                known.is_known = known.is_known | is_used;
                known.sources.push((is_used, what, self.arg));
            }
            return Ok(());
        }
        if self.plain {
            return Ok(());
        }
        let value = |size: usize| sizes[size].as_ref().map(|bound| bound.value);
        let Some(expected) = wanted.number(&value) else {
            return checks.check(!is_used, || {
                let named = self.rules.named(wanted);
                tensor.problem(message![format!("{}`{named}`, which no argument determines", its())])
            });
        };
        checks.check(!is_used | expected.equals(given), || match wanted {
            Size::Int(n) => {
                let made = format!(", and the kernel is made for {n}");
                let problem = tensor.problem(message![its(), Piece::Signed(given), made]);
                match what {
                    What::Stride(mode) if n == 1 => {
                        let mut help =
                            message![format!("mode {mode} must be contiguous: give it strides such as ")];
                        help.0.extend(list(&compact(&tensor.extents, mode)));
                        problem.help(help)
                    }
                    _ => problem,
                }
            }
            _ => {
                let and = format!(", and `{}` is ", self.rules.named(wanted));
                tensor.problem(message![its(), Piece::Signed(given), and, Piece::Signed(expected)])
            }
        })
    }
}

/// The strides of a tensor without gaps, with stride 1 along a mode.
fn compact<N: Number>(extents: &[N], first: usize) -> Vec<N> {
    let mut strides = vec![N::from(1); extents.len()];
    let mut next = extents[first].greatest(1.into());
    for mode in (0..extents.len()).filter(|mode| *mode != first) {
        strides[mode] = next;
        next = next * extents[mode].greatest(1.into());
    }
    strides
}

/// The author's requirements on sizes.
fn required<C: Checks>(
    checks: &C,
    rules: &Rules,
    kernel: &Generated,
    sizes: &Sizes<C::Number>,
) -> Result<(), Failed<C>> {
    for require in &kernel.requires {
        let bound = |symbol: &Symbol| {
            let number = rules.symbols.iter().position(|known| known == symbol)?;
            sizes[number].as_ref()
        };
        let symbols: Vec<Symbol> = require.test.integers().into_iter().flat_map(Affine::symbols).collect();
        if let Some(unknown) = symbols.iter().find(|symbol| bound(symbol).is_none()) {
            let unknown = format!("no argument determines the size `{}`", unknown.name());
            checks.check(false.into(), || Problem::new(message![unknown]))?;
            continue;
        }
        let from_argument = |symbol: &Symbol| bound(symbol).filter(|bound| !bound.sources.is_empty());
        let lookup = |symbol: Symbol| Some(bound(&symbol)?.value);
        let outcome = exact::test(&require.test, &lookup);
        let Outcome { overflows, divides, value } = outcome;
        let values = || {
            let (mut pieces, mut named): (Vec<Piece<C::Number>>, Vec<Symbol>) = (Vec::new(), Vec::new());
            for symbol in symbols.iter().filter(|symbol| Some(**symbol) != require.of) {
                let Some(bound) = from_argument(symbol).filter(|_| !named.contains(symbol)) else { continue };
                let begin = format!("{}`{}` is ", if named.is_empty() { "" } else { ", " }, symbol.name());
                let of = bound.argument(kernel);
                pieces.extend(
                    message![begin, Piece::Signed(bound.value), ", the ", bound.what(), " of `", of, "`"].0,
                );
                named.push(*symbol);
            }
            pieces
        };
        let text = &require.text;
        let extent = require.of.as_ref().and_then(from_argument);
        let blame = |mut message: Message<C::Number>, has_values: bool| {
            message.0.extend(if has_values { values() } else { Vec::new() });
            match extent {
                Some(extent) => Problem::of(extent.argument(kernel), message),
                None => Problem::new(message),
            }
        };
        // Undefined, for one reason or the other.
        let undefined = |why: Message<C::Number>| {
            let mut message = match extent {
                Some(extent) => message!["its ", extent.what(), format!(" is `{text}`, which ")],
                None => message![format!("the kernel asserts `{text}`, which ")],
            };
            message.0.extend(why.0);
            message.0.push(": ".into());
            blame(message, true)
        };
        let by = || message!["divides by ", Piece::Signed(value)];
        let zeros = symbols.iter().filter_map(|symbol| Some((bound(symbol)?.value.equals(0.into()), symbol)));
        let zeros: Vec<(TruthOf<C>, String)> =
            zeros.map(|(is, symbol)| (is, symbol.name().to_owned())).collect();
        if extent.is_none() {
            let any = zeros.iter().fold(false.into(), |any: TruthOf<C>, (is, _)| any | *is);
            checks.check(!(divides & value.equals(0.into()) & any), || {
                let zero = Piece::First(zeros.clone());
                let advice = "where the kernel serves such launches, write assert(";
                undefined(by()).help(message![advice, zero, format!(" == 0 || {text})")])
            })?;
        }
        checks.check(!divides, || undefined(by()))?;
        checks.check(!overflows, || undefined(message!["overflows 64 bits"]))?;
        let computed = match (&require.test, require.of) {
            (Test::Equal(_, of), Some(_)) => Some(exact::integer(of, &lookup).value),
            _ => None,
        };
        checks.check(outcome.is_true(), || match (extent, computed) {
            (Some(extent), Some(computed)) => {
                let (is, and) = (Piece::Signed(extent.value), format!(", and `{text}` is "));
                blame(message!["its ", extent.what(), " is ", is, and, Piece::Signed(computed)], false)
            }
            (None, Some(computed)) => {
                let axis = format!("an axis of the grid has `{text}` blocks, which is ");
                let limit = format!(", and 0 to {MOST} are possible: ");
                blame(message![axis, Piece::Signed(computed), limit], true)
            }
            (_, None) => blame(message![format!("the kernel asserts `{text}`: ")], true),
        })?;
    }
    Ok(())
}

/// A tensor without elements has sizes that violate every variant's assumption of at least 1. No kernel is launched
/// then, which is correct only if no element is written, or no block would write one. Otherwise, if only loops read
/// such tensors, the launch takes the kernel without these loops: its number, from 1 on.
fn written_extents<C: Checks>(
    checks: &C,
    rules: &Rules,
    kernel: &Generated,
    tensors: &[Option<TensorArgument<'_, C::Number>>],
    sizes: &Sizes<C::Number>,
) -> Result<C::Number, Failed<C>> {
    let none: TruthOf<C> = false.into();
    let value = |size: usize| sizes[size].as_ref().map(|bound| bound.value);
    let has_work = |(tensor, param): (&Option<TensorArgument<'_, C::Number>>, &Param)| {
        tensor.as_ref().filter(|_| matches!(param.tensor, Some((true, _)))).map(|tensor| !tensor.is_empty())
    };
    let works = tensors.iter().zip(&kernel.params).filter_map(has_work).fold(none, |any, work| any | work);
    let works = works & !choice::has_no_blocks(&rules.variants[0].grid, &value);
    let tensors = tensors.iter().enumerate().filter_map(|(arg, tensor)| Some((arg, tensor.as_ref()?)));
    let lacks = |(arg, tensor): (usize, &TensorArgument<'_, C::Number>)| {
        let modes = tensor.extents.iter().enumerate().filter(|(mode, _)| rules.needs_elements(arg, *mode));
        modes.fold(none, |any, (_, extent)| any | extent.less(1.into()))
    };
    let used: Vec<_> = tensors.map(|(arg, tensor)| (arg, tensor, lacks((arg, tensor)))).collect();
    let is_any_empty = used.iter().fold(none, |any, (.., lacks)| any | *lacks);
    let mut number = C::Number::from(0);
    for (index, empty_loops) in kernel.empty_loops.iter().enumerate().rev() {
        let symbol = rules.symbols.iter().position(|known| *known == empty_loops.size());
        let Some(size) = symbol.and_then(value) else { continue };
        let others = used.iter().filter(|(arg, ..)| !empty_loops.idle().contains(arg));
        let serves = others.fold(size.equals(0.into()), |all, (.., lacks)| all & !*lacks);
        let serves = serves & is_any_empty & works;
        // The variant is made where it is first needed.
        if !(!serves).is_certain() && empty_loops.variant().is_some() {
            number = C::Number::select(serves, (index as u64 + 1).into(), number);
        }
    }
    for (_, tensor, lacks) in used {
        checks.check(!(lacks & works & number.equals(0.into())), || {
            let problem = tensor.problem(message!["it has no elements, and a tensor that the kernel writes has some"]);
            problem.help(message!["an empty tensor may be read only in loops that then have no iteration, such as `for k in 0..x.size(2)`; otherwise fill the result yourself"])
        })?;
    }
    Ok(number)
}

/// A written argument overlaps no other.
pub(super) fn apart<C: Checks>(
    checks: &C,
    tensors: &[Option<TensorArgument<'_, C::Number>>],
) -> Result<(), Failed<C>> {
    let tensors: Vec<_> = tensors.iter().flatten().collect();
    for (at, one) in tensors.iter().enumerate() {
        for other in tensors[at + 1..].iter().filter(|other| one.is_written || other.is_written) {
            let end = |tensor: &TensorArgument<'_, C::Number>| {
                tensor.address + tensor.reach() * C::Number::from(tensor.elem.bytes().into())
            };
            let overlap = one.address.less(end(other)) & other.address.less(end(one));
            let (written, read) = if one.is_written { (one, other) } else { (other, one) };
            checks.check(one.is_empty() | other.is_empty() | !overlap, || {
                let problem = format!("it is written, and overlaps `{}` in memory", read.name);
                written.problem(message![problem]).help(message!["pass a buffer that does not overlap"])
            })?;
        }
    }
    Ok(())
}
