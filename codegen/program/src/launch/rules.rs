//! The checks and comparisons of a kernel's launches, prepared once: with numbers of sizes instead of names, and with the
//! common parts of several variants evaluated once. It knows no arguments and no device.

use std::collections::BTreeSet;

use tilewright_layout::{Symbol, Value};

use super::binding::Bound;
use super::number::{Natural, Number};
use super::records::model;
use super::{Tensor, common_multiple, cost};
use crate::launch::definition::{Generated, Pack, Variant};
use crate::thread::{Cost, Fact, Kernel, Param};

/// Values of sizes by their numbers, if they are known.
pub(super) type Sizes<N = Natural> = Vec<Option<Bound<N>>>;

/// A number, or `times * ceil(of / over)` of a numbered size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Size {
    Int(i64),
    Of {
        times: i64,
        of: usize,
        over: u32,
    },
    /// Without a value in any launch.
    Unknown,
}

impl Size {
    /// The number of the size, if it is one size alone.
    pub(super) fn plain(self) -> Option<usize> {
        match self {
            Size::Of { times: 1, of, over: 1 } => Some(of),
            _ => None,
        }
    }

    /// The number of the size that it depends on.
    fn symbol(self) -> Option<usize> {
        match self {
            Size::Of { of, .. } => Some(of),
            _ => None,
        }
    }

    /// As [`Value::evaluate`], in any numbers.
    pub(super) fn number<N: Number>(self, sizes: &impl Fn(usize) -> Option<N>) -> Option<N> {
        let natural = |number: i64| N::from(u64::try_from(number).unwrap_or(0));
        match self {
            Size::Int(n) => Some(natural(n)),
            Size::Of { times, of, over } => {
                let value = sizes(of)?;
                let quotient = if over > 1 { value.divided_up(N::from(over.into())) } else { value };
                Some(if times == 1 { quotient } else { quotient * natural(times) })
            }
            Size::Unknown => None,
        }
    }
}

/// A size that costs depend on: an index in [`Rules::counts`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Count(pub(super) usize);

/// The tensors of a variant's parameters, by the places of their arguments.
#[derive(PartialEq, Debug)]
pub(super) struct Form {
    pub(super) tensors: Vec<Shape>,
}

/// The sizes of a tensor, as a variant takes it.
#[derive(PartialEq, Debug)]
pub(super) struct Shape {
    pub(super) arg: usize,
    pub(super) extents: Vec<Size>,
    pub(super) strides: Vec<Size>,
}

/// A [`Fact`].
#[derive(PartialEq, Debug)]
pub(super) enum Check {
    Divides { of: Size, divisor: i64 },
    AtMost { of: Size, limit: i64 },
    AtLeast { of: Size, limit: i64 },
    Aligned { arg: usize, bytes: u32 },
    Small { arg: usize, distance: Vec<u32>, strides: Vec<Size> },
}

/// A false fact: the number that it is about, if that is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Broken(pub(super) Option<Natural>);

impl Check {
    /// Is it about an extent of these tensors?
    fn is_about(&self, form: &Form) -> bool {
        let (Check::Divides { of, .. } | Check::AtMost { of, .. } | Check::AtLeast { of, .. }) = self else {
            return false;
        };
        let number = of.plain();
        let is_extent = |shape: &Shape| shape.extents.iter().any(|extent| extent.plain() == number);
        number.is_some() && form.tensors.iter().any(is_extent)
    }

    /// Is it false, and the number that it is about, if that is known.
    pub(super) fn is_false<A: Arguments>(&self, arguments: &A) -> (TruthOf<A>, Option<A::Number>) {
        let number = |number: u64| A::Number::from(number);
        let natural = |of: i64| number(u64::try_from(of).unwrap_or(0));
        let size = |of: Size, is_false: &dyn Fn(A::Number) -> TruthOf<A>| {
            let value = of.number(&|size| arguments.size(size));
            (value.map_or(true.into(), is_false), value)
        };
        match self {
            Check::Divides { of, divisor } => size(*of, &|value| number(0).less(value % natural(*divisor))),
            Check::AtMost { of, limit } => size(*of, &|value| natural(*limit).less(value)),
            Check::AtLeast { of, limit } => size(*of, &|value| value.less(natural(*limit))),
            Check::Aligned { arg, bytes } => {
                let over = arguments.address(*arg) % number(u64::from(*bytes));
                (number(0).less(over), Some(over))
            }
            Check::Small { arg, distance, strides } => {
                let mut last = number(0);
                for (mode, (more, stride)) in distance.iter().zip(strides).enumerate() {
                    // For a mode with one element, the kernel may compute with the stride of another tensor.
                    let stride = stride.number(&|size| arguments.size(size));
                    let stride = stride.unwrap_or_else(|| arguments.stride(*arg, mode));
                    let extent = arguments.extent(*arg, mode) + number(u64::from(*more));
                    last = last + (extent - number(1)) * stride;
                }
                (number(i32::MAX as u64).less(last), None)
            }
        }
    }
}

/// A condition on arguments.
type TruthOf<A> = <<A as Arguments>::Number as Number>::Truth;

/// The arguments of a launch, some of them replaced by copies, and the sizes that they determine. What is negative is 0.
pub(super) trait Arguments {
    type Number: Number;

    fn extent(&self, arg: usize, mode: usize) -> Self::Number;
    fn stride(&self, arg: usize, mode: usize) -> Self::Number;
    fn address(&self, arg: usize) -> Self::Number;
    fn size(&self, size: usize) -> Option<Self::Number>;
}

/// The arguments of a launch that is planned.
pub(super) struct PlanArguments<'l> {
    pub(super) tensors: &'l [Option<&'l Tensor>],
    pub(super) sizes: &'l [Option<Bound>],
}

impl PlanArguments<'_> {
    fn number<T: TryInto<u64>>(&self, arg: usize, of: impl Fn(&Tensor) -> T) -> Natural {
        Natural(self.tensors[arg].and_then(|tensor| of(tensor).try_into().ok()).unwrap_or(0))
    }
}

impl Arguments for PlanArguments<'_> {
    type Number = Natural;

    fn extent(&self, arg: usize, mode: usize) -> Natural {
        self.number(arg, |tensor| tensor.extents[mode])
    }

    fn stride(&self, arg: usize, mode: usize) -> Natural {
        self.number(arg, |tensor| tensor.strides[mode])
    }

    fn address(&self, arg: usize) -> Natural {
        self.number(arg, |tensor| tensor.address)
    }

    fn size(&self, size: usize) -> Option<Natural> {
        Some(self.sizes[size].as_ref()?.value)
    }
}

/// The conditions on a variant that do not depend on the device. Variants that differ in tiles alone share a class.
#[derive(PartialEq, Debug)]
pub(super) struct Class {
    /// The index in [`Rules::forms`].
    pub(super) form: usize,
    /// Indices in [`Rules::facts`], in the order of the program's facts.
    pub(super) needs: Vec<usize>,
    /// The needs about extents: a copy of an argument has the same extents.
    pub(super) kept: Vec<usize>,
    /// Indices of the kernel's packs whose copies it may read.
    pub(super) packs: Vec<usize>,
}

/// A variant.
#[derive(Debug)]
pub(super) struct Alternative {
    /// The index in [`Rules::classes`].
    pub(super) class: usize,
    /// Blocks along x, y, z, as products.
    pub(super) grid: [Vec<Size>; 3],
    /// The extents of each tensor in a workspace, and the bytes of its elements.
    pub(super) workspace: Vec<(Vec<Size>, u32)>,
    pub(super) cost: Option<cost::Rule>,
    /// Does a launch compare it with others by its cost?
    pub(super) competes: bool,
    /// The number of the alternative that it is of.
    pub(super) number: u64,
}

impl Alternative {
    /// Bytes that the variant needs for itself in a workspace.
    pub(super) fn workspace_bytes<N: Number>(&self, size: &impl Fn(usize) -> Option<N>) -> N {
        let mut bytes = N::from(0);
        for (extents, of_element) in &self.workspace {
            let extents = extents.iter().map(|extent| extent.number(size).unwrap_or(N::from(0)));
            bytes = bytes + extents.fold(N::from((*of_element).into()), |all, extent| all * extent);
        }
        bytes
    }
}

/// A record of a kernel, in numbers.
#[derive(Debug)]
pub(super) struct Recorded {
    /// Its device: see [`model`](super::records::model).
    pub(super) model: u64,
    /// The numbers of sizes, their values, and whether they are strides.
    pub(super) sizes: Vec<(usize, u64, bool)>,
    /// The number of the alternative.
    pub(super) alternative: u64,
    /// See [`Record::near_weight`](super::Record::near_weight).
    pub(super) near_weight: u64,
}

/// A kernel's launch rules: the requirements and costs of each variant, and the number of its blocks.
///
/// ```
/// # use tilewright_codegen::Generate;
/// use tilewright_program::Definition;
/// use tilewright_program::launch::{Given, Limits, Rules, Tensor, plan};
/// let kernel = Definition::Matmul(vec![]).generate().kernel.unwrap();
/// let rules = Rules::of(&kernel);
/// for m in [100, 200, 300] {
///     let tensor = |m: i64, n: i64, mutable| {
///         let (extents, strides) = (vec![m, n], vec![1, m]);
///         let address = if mutable { 1 << 30 } else { 1 << 20 };
///         Given::Tensor(Tensor { elem: kernel.params[0].elem, mutable, extents, strides, len: (m * n) as u64, address })
///     };
///     let given = [tensor(m, 8, false), tensor(128, 8, false), tensor(m, 128, true)];
///     assert_eq!(rules.plan(&kernel, &given, &Limits::HOPPER), plan(&kernel, &given, &Limits::HOPPER));
/// }
/// ```
#[derive(Debug)]
pub struct Rules {
    /// The sizes, by number.
    pub(super) symbols: Vec<Symbol>,
    pub(super) forms: Vec<Form>,
    pub(super) facts: Vec<Check>,
    /// Sizes that costs depend on. Many variants have the same ones, and a launch evaluates each once.
    pub(super) counts: Vec<Size>,
    /// Tensors that are read or written, for costs.
    pub(super) moved: Vec<Vec<cost::Moved>>,
    pub(super) classes: Vec<Class>,
    pub(super) variants: Vec<Alternative>,
    /// The rules of the kernel's packs.
    pub(super) packs: Vec<Rules>,
    pub(super) records: Vec<Recorded>,
    /// The arguments with elements that a variant accesses, or with sizes that it uses.
    used: BTreeSet<usize>,
    /// The sizes that may be 0: in programs, all others are at least 1.
    zeros: BTreeSet<usize>,
    alignment: u64,
}

/// Bulk copies need tensors at multiples of this number of bytes; no element has more.
const MAPPED: u64 = 16;

impl Rules {
    /// The rules of a kernel.
    pub fn of(kernel: &Generated) -> Rules {
        Rules::with(kernel, &|program| program.launch.cost)
    }

    /// The same, with a cost for each variant that may have none in a launch.
    pub(super) fn with(kernel: &Generated, cost: &dyn Fn(&Kernel) -> Option<Cost>) -> Rules {
        let packs: Vec<Rules> = kernel.packs.iter().map(|pack| Rules::of(&pack.kernel)).collect();
        let alignment = packs.iter().fold(MAPPED, |all, pack| common_multiple(all, pack.alignment));
        let mut rules = Rules::new(&kernel.variants, &kernel.packs, cost);
        (rules.alignment, rules.packs) = (common_multiple(rules.alignment, alignment), packs);
        rules.record(kernel);
        rules
    }

    /// Numbers the alternatives, and sets the records.
    fn record(&mut self, kernel: &Generated) {
        let mut names = Vec::new();
        for (at, alternative) in self.variants.iter_mut().enumerate() {
            alternative.number = index(&mut names, kernel.alternative(at)) as u64;
        }
        for record in &kernel.records {
            let number = |name: &str| self.symbols.iter().position(|symbol| symbol.name() == name);
            let size = |(name, size): &(String, i64)| {
                let number = number(name)?;
                Some((number, u64::try_from(*size).unwrap_or(0), self.is_stride(number)))
            };
            // A name that is none of these is no variant's.
            let alternative =
                names.iter().position(|name| *name == record.alternative).unwrap_or(names.len());
            let sizes = record.sizes.iter().filter_map(size).collect();
            self.records.push(Recorded {
                model: model(&record.device),
                sizes,
                alternative: alternative as u64,
                near_weight: record.near_weight(),
            });
        }
    }

    /// Is a size a stride?
    fn is_stride(&self, size: usize) -> bool {
        let shapes = self.forms.iter().flat_map(|form| &form.tensors);
        shapes.flat_map(|shape| &shape.strides).any(|stride| stride.plain() == Some(size))
    }

    /// The rules of some variants.
    pub(super) fn new(variants: &[Variant], packs: &[Pack], cost: &dyn Fn(&Kernel) -> Option<Cost>) -> Rules {
        let mut rules = Rules {
            symbols: Vec::new(),
            forms: Vec::new(),
            facts: Vec::new(),
            counts: Vec::new(),
            moved: Vec::new(),
            classes: Vec::new(),
            variants: Vec::new(),
            packs: Vec::new(),
            records: Vec::new(),
            used: BTreeSet::new(),
            zeros: BTreeSet::new(),
            alignment: 1,
        };
        // The first variant of each class.
        let mut firsts = Vec::new();
        for variant in variants {
            let program = &variant.program;
            let form = rules.form(program);
            rules.used_by(program, &form);
            let form = index(&mut rules.forms, form);
            let same = |(first, class): &(&&Variant, &Class)| {
                class.form == form && first.program.needs == program.needs
            };
            let needs = match firsts.iter().zip(&rules.classes).find(same) {
                Some((_, class)) => class.needs.clone(),
                None => program.needs.iter().map(|fact| rules.fact(program, fact)).collect(),
            };
            let reads = |pack: &Pack| {
                program.launch.packs.contains(&(pack.arg as u32))
                    && program.params[pack.arg].contiguous() == Some(pack.modes[0])
            };
            let packs = (0..packs.len()).filter(|&which| reads(&packs[which])).collect();
            let of_copies = |fact: &usize| rules.facts[*fact].is_about(&rules.forms[form]);
            let kept = needs.iter().copied().filter(of_copies).collect();
            let class = index(&mut rules.classes, Class { form, needs, kept, packs });
            if class == firsts.len() {
                firsts.push(variant);
            }
            let competes = program.launch.cost.is_some();
            let cost = cost(program).map(|cost| cost::Rule::new(&mut rules, program, cost));
            let grid = [0, 1, 2].map(|axis| rules.sizes(&program.launch.grid[axis]));
            let of_launch = program.params.iter().filter_map(|param| match param {
                Param::Workspace { elem, shape, .. } => Some((rules.sizes(shape), elem.bytes())),
                _ => None,
            });
            let workspace = of_launch.collect();
            rules.variants.push(Alternative { class, grid, workspace, cost, competes, number: 0 });
        }
        rules
    }

    /// Must this extent of an argument be at least 1? Arguments that no variant uses may be without elements.
    pub(super) fn needs_elements(&self, arg: usize, mode: usize) -> bool {
        let mut shapes = self.forms.iter().flat_map(|form| &form.tensors).filter(|shape| shape.arg == arg);
        let may_be_zero = |extent: Size| extent.plain().is_some_and(|size| self.zeros.contains(&size));
        self.used.contains(&arg) && !shapes.all(|shape| may_be_zero(shape.extents[mode]))
    }

    fn used_by(&mut self, program: &Kernel, form: &Form) {
        let passed =
            program.used_sizes().into_iter().filter_map(|param| match &program.params[param as usize] {
                Param::Int { symbol, .. } => Some(Value::Sym { times: 1, of: *symbol, over: 1 }),
                _ => None,
            });
        let values: Vec<Value> = passed
            .chain(program.launch.grid.concat())
            .chain(program.launch.read_sizes.iter().copied())
            .collect();
        let sizes: Vec<Option<usize>> = values.into_iter().map(|value| self.size(value).symbol()).collect();
        let accessed = program.accessed();
        let is_used = |extent: &Size| match extent {
            Size::Int(_) => false,
            extent => extent.plain().is_none() || sizes.contains(&extent.plain()),
        };
        let used = form
            .tensors
            .iter()
            .filter(|shape| accessed.contains(&(shape.arg as u32)) || shape.extents.iter().any(is_used));
        self.used.extend(used.map(|shape| shape.arg));
    }

    /// The limits that all variants have, as a class numbers them: the index among its facts, and in [`Rules::facts`].
    pub(super) fn limits(&self, class: usize) -> Vec<(usize, usize)> {
        let is_limit = |fact: usize| {
            matches!(self.facts[fact], Check::AtMost { .. } | Check::AtLeast { .. })
                && self.classes.iter().all(|class| class.needs.contains(&fact))
        };
        let needs = self.classes[class].needs.iter().copied().enumerate();
        needs.filter(|(_, fact)| is_limit(*fact)).collect()
    }

    /// Plans depend on the remainders of addresses by this number. If tensors do not overlap, they do not depend on
    /// addresses otherwise. The exception is launches without loops ([`Generated::empty_loops`]).
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// A size of a program, by number.
    pub(super) fn size(&mut self, value: Value) -> Size {
        match value {
            Value::Int(n) => Size::Int(n),
            Value::Sym { times, of, over } => Size::Of { times, of: index(&mut self.symbols, of), over },
            Value::Basis { .. } | Value::Any => Size::Unknown,
        }
    }

    /// A size that costs depend on.
    pub(super) fn count(&mut self, value: Value) -> Count {
        let size = self.size(value);
        Count(index(&mut self.counts, size))
    }

    pub(super) fn sizes(&mut self, values: &[Value]) -> Vec<Size> {
        values.iter().map(|value| self.size(*value)).collect()
    }

    /// The value of a size of a program.
    pub(super) fn value(&self, sizes: &[Option<Bound>], symbol: Symbol) -> Option<i64> {
        let number = self.symbols.iter().position(|known| *known == symbol)?;
        sizes[number].as_ref().map(|bound| bound.value.0.cast_signed())
    }

    /// A size as the kernel's author wrote it.
    pub(super) fn named(&self, size: Size) -> Value {
        match size {
            Size::Int(n) => Value::Int(n),
            Size::Of { times, of, over } => Value::Sym { times, of: self.symbols[of], over },
            Size::Unknown => Value::Any,
        }
    }

    fn form(&mut self, program: &Kernel) -> Form {
        let mut tensors = Vec::new();
        for (arg, param) in program.params.iter().enumerate() {
            if let Param::Pointer { shape, stride, .. } = param {
                tensors.push(Shape { arg, extents: self.sizes(shape), strides: self.sizes(stride) });
            }
        }
        Form { tensors }
    }

    fn fact(&mut self, program: &Kernel, fact: &Fact) -> usize {
        let check = match fact {
            Fact::Divides(need) => Check::Divides { of: self.size(need.of), divisor: need.divisor },
            Fact::AtMost { of, limit } => Check::AtMost { of: self.size(*of), limit: *limit },
            Fact::AtLeast { of, limit } => {
                let size = self.size(*of);
                self.zeros.extend(size.plain().filter(|_| *limit == 0));
                Check::AtLeast { of: size, limit: *limit }
            }
            Fact::Aligned { param, bytes } => {
                self.alignment = common_multiple(self.alignment, u64::from(*bytes));
                // Parameters begin with the arguments, in their order.
                Check::Aligned { arg: *param as usize, bytes: *bytes }
            }
            Fact::Small { param, distance } => {
                let strides = match program.params.get(*param as usize) {
                    Some(Param::Pointer { stride, .. }) => self.sizes(stride),
                    _ => unreachable!("the fact is about a tensor"),
                };
                Check::Small { arg: *param as usize, distance: distance.clone(), strides }
            }
        };
        index(&mut self.facts, check)
    }
}

/// The index of an item, which is added if it is new.
pub(super) fn index<T: PartialEq>(all: &mut Vec<T>, item: T) -> usize {
    all.iter().position(|known| *known == item).unwrap_or_else(|| {
        all.push(item);
        all.len() - 1
    })
}
