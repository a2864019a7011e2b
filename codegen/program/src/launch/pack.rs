//! Arguments that are packed before a kernel runs: copies with aligned rows, if a variant's facts are false for the
//! arguments, and copies with rows along another mode, for variants that read such rows.

use super::cost::{Estimate, Traffic};
use super::number::Natural;
use super::rules::{Broken, Check, Rules, Size, Sizes};
use super::why::Why;
use super::{Given, Limits, Plan, Tensor, binding, cost};
use crate::launch::definition::{Generated, Pack};

/// Copies begin at multiples of this number of bytes of the workspace, as allocations do.
pub(super) const ALIGNED: u64 = 256;

/// The assumed address of a copy while its own launch is planned: no argument of a device is there.
const ELSEWHERE: u64 = 1 << 62;

/// An argument that is copied before the kernel runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// The index in the kernel's [`Generated::packs`].
    pub pack: usize,
    /// The argument.
    pub arg: usize,
    /// The copy, as the kernel reads it. Its address is an offset in the workspace.
    pub copy: Tensor,
    /// The launch that copies, of the pack's kernel on [`Packed::arguments`].
    pub plan: Plan,
    /// Why: the condition that is false for the argument itself.
    pub(super) why: Why,
}

impl Plan {
    /// The arguments of the kernel: `given`, some of them replaced by their copies in a workspace at this
    /// address.
    ///
    /// ```
    /// use tilewright_program::launch::{Given, Limits, Tensor, plan};
    /// use tilewright_codegen::words::{Kernels as _, Words};
    /// let kernel = Words::read("dtype=bf16 arch=90 a=k_major b=k_major").unwrap().matmul().unwrap();
    /// let tensor = |rows: i64, columns: i64, strides: [i64; 2], mutable| {
    ///     let (elem, len) = (kernel.params[0].elem, (rows * columns) as u64);
    ///     let address = if mutable { 1 << 40 } else { 1 << 32 };
    ///     Given::Tensor(Tensor { elem, mutable, extents: vec![rows, columns], strides: strides.into(), len, address })
    /// };
    /// // Rows of 1023 elements begin anywhere.
    /// let (a, b) = (tensor(4096, 1023, [1023, 1], false), tensor(2048, 1023, [1023, 1], false));
    /// let given = [a, b, tensor(4096, 2048, [1, 4096], true)];
    /// let plan = plan(&kernel, &given, &Limits::HOPPER)?;
    /// assert_eq!(plan.why(&kernel, &plan.packed[0]), "8 does not divide lda, which is 1023");
    /// assert_eq!(plan.workspace(), (4096 + 2048) * 1024 * 2);
    /// let Given::Tensor(a) = &plan.arguments(&given, 1 << 50)[0] else { panic!("a tensor") };
    /// assert_eq!((a.address, &a.strides[..]), (1 << 50, &[1024, 1][..]));
    /// # Ok::<(), tilewright_program::launch::Refusal>(())
    /// ```
    pub fn arguments(&self, given: &[Given], workspace: u64) -> Vec<Given> {
        let mut all = given.to_vec();
        for packed in &self.packed {
            all[packed.arg] = Given::Tensor(packed.placed(workspace));
        }
        all
    }

    /// Why an argument is packed: the condition that is false for the argument itself. `kernel` is the plan's.
    pub fn why(&self, kernel: &Generated, packed: &Packed) -> String {
        packed.why.text(kernel, self.variant)
    }

    /// Bytes of memory for the copies, and for what blocks pass to each other; the launch owns it until the kernel has ended.
    pub fn workspace(&self) -> u64 {
        self.bytes[0]
    }

    /// Bytes of memory that is 0 before the launch, and 0 again after it. The launch owns it until then.
    pub fn zeroed(&self) -> u64 {
        self.bytes[1]
    }
}

/// The end of copies in a workspace.
pub(super) fn end(packed: &[Packed]) -> u64 {
    packed.last().map_or(0, |last| last.copy.address + last.bytes())
}

impl Packed {
    /// The arguments of the copy: the kernel's argument with its modes in the pack's order, and its part of a
    /// workspace at this address.
    pub fn arguments(&self, kernel: &Generated, given: &[Given], workspace: u64) -> [Tensor; 2] {
        let modes = &kernel.packs[self.pack].modes;
        let Given::Tensor(from) = &given[self.arg] else { unreachable!("a tensor is packed") };
        [permuted(from, modes), padded(&self.placed(workspace), modes)]
    }

    fn placed(&self, workspace: u64) -> Tensor {
        Tensor { address: workspace + self.copy.address, ..self.copy.clone() }
    }

    fn bytes(&self) -> u64 {
        self.copy.len * u64::from(self.copy.elem.bytes())
    }
}

/// A tensor with its modes in another order.
fn permuted(tensor: &Tensor, modes: &[usize]) -> Tensor {
    let in_order = |all: &[i64]| modes.iter().map(|&mode| all[mode]).collect();
    Tensor { extents: in_order(&tensor.extents), strides: in_order(&tensor.strides), ..tensor.clone() }
}

/// All of a copy's memory, its padding included: rows are as long as their stride.
fn padded(copy: &Tensor, modes: &[usize]) -> Tensor {
    let mut all = permuted(copy, modes);
    if all.extents[0] > 0 {
        all.extents[0] = all.strides[1];
    }
    Tensor { mutable: true, ..all }
}

/// The copy of an argument: compact, but for rows of a multiple of 128 bytes. `None` if it is too large.
fn copy_of(tensor: &Tensor, modes: &[usize]) -> Option<Tensor> {
    let mut strides = vec![1; modes.len()];
    let mut len = 1i64;
    for (index, &mode) in modes.iter().enumerate() {
        // Strides are at least 1, also of a tensor without elements.
        let extent = tensor.extents[mode].max(1);
        strides[mode] = len;
        let extent = if index == 0 { row_of(extent, Pack::row_multiple(tensor.elem))? } else { extent };
        len = len.checked_mul(extent)?;
    }
    let len = if tensor.extents.contains(&0) { 0 } else { len };
    let bytes = u64::try_from(len).ok()?.checked_mul(u64::from(tensor.elem.bytes()))?;
    (bytes < ELSEWHERE).then(|| Tensor {
        mutable: false,
        strides,
        len: len as u64,
        address: 0,
        ..tensor.clone()
    })
}

/// The next multiple of an extent.
fn row_of(extent: i64, multiple: i64) -> Option<i64> {
    extent.checked_add(multiple - 1).map(|sum| sum / multiple * multiple)
}

/// The operands of some variants: the arguments, some of them replaced by copies, and properties derived from them.
struct Operands {
    form: usize,
    /// Indices of the kernel's packs, in the order of the copies.
    packs: Vec<usize>,
    sizes: Sizes,
    /// For each fact, whether it is false.
    broken: Vec<Option<Broken>>,
    /// For each of [`Rules::counts`], its value, if that is known.
    counts: Vec<Option<Natural>>,
    traffic: Vec<Traffic<Natural>>,
}

/// A variant's launch: does it read copies, and its estimated clocks, copies included; `None` if the kernel has no cost model.
pub(super) struct Choice {
    pub(super) copies: bool,
    pub(super) clocks: Option<u64>,
}

/// Operands with copies, and why each is made.
struct Copies {
    operands: usize,
    why: Vec<Why>,
}

/// The tensors that variants of a launch may read. Each is computed once, and only if a variant needs it.
pub(super) struct Packing<'p> {
    rules: &'p Rules,
    kernel: &'p Generated,
    tensors: &'p [Option<&'p Tensor>],
    limits: &'p Limits,
    /// The arguments themselves are the first.
    operands: Vec<Operands>,
    copies: Vec<Option<Option<(Packed, u64)>>>,
    /// For each class of variants: see [`Packing::unfit`].
    unfit: Vec<Option<Why>>,
    /// For each class of variants: see [`Packing::copies`].
    of_classes: Vec<Option<Option<Copies>>>,
}

impl<'p> Packing<'p> {
    pub(super) fn new(
        rules: &'p Rules,
        kernel: &'p Generated,
        tensors: &'p [Option<&'p Tensor>],
        limits: &'p Limits,
        sizes: Sizes,
    ) -> Packing<'p> {
        let copies = kernel.packs.iter().map(|_| None).collect();
        let of_classes = rules.classes.iter().map(|_| None).collect();
        let operands = vec![Operands::new(rules, 0, Vec::new(), tensors, sizes)];
        let unfit = Vec::with_capacity(rules.classes.len());
        let mut packing = Packing { rules, kernel, tensors, limits, operands, copies, unfit, of_classes };
        for (number, class) in rules.classes.iter().enumerate() {
            let rows = class.packs.iter().find(|which| kernel.packs[**which].transposes);
            let why = rows.map(|which| Why::Rows(*which)).or_else(|| packing.unmet(number, 0));
            packing.unfit.push(why);
        }
        packing
    }

    /// Why variants of a class do not read the arguments themselves: rows are along another mode, or a fact is false.
    pub(super) fn unfit(&self, class: usize) -> Option<Why> {
        self.unfit[class]
    }

    /// The first fact of a class that is false.
    fn unmet(&self, class: usize, operands: usize) -> Option<Why> {
        let broken = &self.operands[operands].broken;
        let mut needs = self.rules.classes[class].needs.iter().enumerate();
        needs.find_map(|(index, fact)| Some(Why::Fact(index, broken[*fact]?)))
    }

    /// The number of facts of a class that are false.
    fn broken(&self, class: usize, operands: usize) -> usize {
        let broken = &self.operands[operands].broken;
        self.rules.classes[class].needs.iter().filter(|fact| broken[**fact].is_some()).count()
    }

    /// The first limit of all variants that an argument exceeds.
    pub(super) fn limit(&self, class: usize) -> Option<Why> {
        let needs = &self.rules.classes[class].needs;
        let limits = |fact: usize| {
            matches!(self.rules.facts[fact], Check::AtMost { .. } | Check::AtLeast { .. })
                && self.rules.classes.iter().all(|class| class.needs.contains(&fact))
        };
        let mut limits = needs.iter().enumerate().filter(|(_, fact)| limits(**fact));
        limits.find_map(|(index, fact)| Some(Why::Fact(index, self.operands[0].broken[*fact]?)))
    }

    /// A variant on the arguments themselves, or on the copies of [`Packing::copies`].
    pub(super) fn choice(&self, variant: usize, copies: bool) -> Choice {
        Choice { copies, clocks: self.estimate(variant, copies).map(|estimate| estimate.clocks) }
    }

    /// Bytes that a variant needs for itself in a workspace.
    pub(super) fn workspace(&self, variant: usize) -> u64 {
        let sizes = &self.operands[0].sizes;
        let bytes = |(factors, bytes): &(Vec<Size>, u32)| {
            let extents =
                factors.iter().map(|factor| factor.evaluate(sizes).map_or(0, |extent| extent.max(0) as u64));
            extents.fold(u64::from(*bytes), u64::saturating_mul)
        };
        self.rules.variants[variant].workspace.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// The estimate of a choice.
    pub(super) fn estimate(&self, variant: usize, copies: bool) -> Option<Estimate> {
        let alternative = &self.rules.variants[variant];
        let of_class = self.of_classes[alternative.class].as_ref().and_then(Option::as_ref);
        let operands = &self.operands[of_class.filter(|_| copies).map_or(0, |copies| copies.operands)];
        let Operands { counts, traffic, .. } = operands;
        let own =
            alternative.cost.as_ref()?.estimate(&cost::Known { limits: self.limits, counts, traffic })?;
        let copies = operands.packs.iter().filter_map(|&which| self.copies[which].as_ref()?.as_ref());
        // Copies after the first run beside it, on devices whose launches overlap.
        let copying = |(index, (packed, clocks)): (usize, &(Packed, u64))| {
            let pack = &self.kernel.packs[packed.pack];
            let is_beside = index > 0 && pack.beside > 0 && self.limits.arch >= 90;
            let launch =
                pack.kernel.variants[packed.plan.variant].program.launch.cost.map_or(0, |cost| cost.launch);
            clocks.saturating_sub(if is_beside { launch.into() } else { 0 })
        };
        Some(own.packed(copies.enumerate().map(copying).sum()))
    }

    /// The arguments that a class of variants reads copies of, and why.
    pub(super) fn copied(&self, class: usize) -> impl Iterator<Item = (usize, Why)> {
        let copies = self.of_classes[class].as_ref().and_then(Option::as_ref);
        let of = |copies: &'_ Copies| {
            let packs =
                self.operands[copies.operands].packs.iter().map(|&which| self.kernel.packs[which].arg);
            packs.zip(copies.why.iter().copied()).collect::<Vec<_>>()
        };
        copies.map(of).unwrap_or_default().into_iter()
    }

    /// Are there copies for a class of variants? If it can run on the arguments themselves, these are copies of the arguments
    /// whose rows begin in the middle of a sector.
    pub(super) fn copies(&mut self, class: usize) -> bool {
        if self.of_classes[class].is_none() {
            let copies = match self.unfit(class) {
                None => self.whole_sectors(class),
                Some(_) => self.candidate(class),
            };
            self.of_classes[class] = Some(copies);
        }
        self.of_classes[class].as_ref().is_some_and(Option::is_some)
    }

    /// For a class that cannot run on the arguments themselves: an argument is packed if rows are read along another mode, or
    /// if more facts are true then.
    fn candidate(&mut self, class: usize) -> Option<Copies> {
        let rules = self.rules;
        let broken = &self.operands[0].broken;
        let known = |fact: &usize| matches!(broken[*fact], Some(Broken(Some(_))));
        if rules.classes[class].kept.iter().any(known) {
            return None;
        }
        let packs = || rules.classes[class].packs.iter().copied();
        let (mut chosen, mut why) = (Vec::new(), Vec::new());
        for which in packs() {
            let pack = &self.kernel.packs[which];
            if pack.transposes {
                chosen.push(which);
                why.push(Why::Along(pack.modes[0]));
            }
        }
        let mut operands = self.operands(class, &chosen)?;
        for which in packs().filter(|which| !self.kernel.packs[*which].transposes) {
            chosen.push(which);
            let other = self.operands(class, &chosen);
            let before = self.broken(class, operands);
            let Some(other) = other.filter(|other| self.broken(class, *other) < before) else {
                chosen.pop();
                continue;
            };
            let [before, after] = [operands, other].map(|operands| &self.operands[operands].broken);
            let mended =
                |(_, fact): &(usize, &usize)| before[**fact].is_some() && before[**fact] != after[**fact];
            let cause = rules.classes[class].needs.iter().enumerate().find(mended);
            why.extend(cause.and_then(|(index, fact)| Some(Why::Fact(index, before[*fact]?))));
            operands = other;
        }
        (operands > 0 && self.unmet(class, operands).is_none()).then_some(Copies { operands, why })
    }

    /// For a class that can run on the arguments themselves: copies of the arguments whose rows begin in the middle of a sector;
    /// `None` if there are none.
    fn whole_sectors(&mut self, class: usize) -> Option<Copies> {
        let cuts = |which: &usize| {
            let tensor = self.tensors[self.kernel.packs[*which].arg];
            tensor.is_some_and(cost::cuts_sectors)
        };
        let packs: Vec<usize> = self.rules.classes[class].packs.iter().copied().filter(cuts).collect();
        if packs.is_empty() {
            return None;
        }
        let operands = self.operands(class, &packs)?;
        let why = vec![Why::Sectors; packs.len()];
        self.unmet(class, operands).is_none().then_some(Copies { operands, why })
    }

    /// The arguments with copies of these packs, as a class of variants reads them.
    fn operands(&mut self, class: usize, packs: &[usize]) -> Option<usize> {
        let form = self.rules.classes[class].form;
        let same =
            |known: &Operands| known.packs.iter().eq(packs) && (packs.is_empty() || known.form == form);
        if let Some(known) = self.operands.iter().position(same) {
            return Some(known);
        }
        for &which in packs {
            if self.copies[which].is_none() {
                self.copies[which] = Some(self.planned(which));
            }
        }
        let mut tensors = self.tensors.to_vec();
        for &which in packs {
            let (packed, _) = self.copies[which].as_ref()?.as_ref()?;
            tensors[packed.arg] = Some(&packed.copy);
        }
        let sizes = binding::sizes(self.rules, self.kernel, form, &tensors).ok()?;
        let operands = Operands::new(self.rules, form, packs.to_vec(), &tensors, sizes);
        self.operands.push(operands);
        Some(self.operands.len() - 1)
    }

    fn planned(&self, which: usize) -> Option<(Packed, u64)> {
        let (pack, rules) = (&self.kernel.packs[which], &self.rules.packs[which]);
        let from = self.tensors[pack.arg]?;
        let copy = copy_of(from, &pack.modes)?;
        let to = padded(&Tensor { address: ELSEWHERE, ..copy.clone() }, &pack.modes);
        let given = [permuted(from, &pack.modes), to].map(Given::Tensor);
        let (plan, clocks) = rules.timed(&pack.kernel, &given, self.limits).ok()?;
        let clocks = clocks.unwrap_or(0);
        Some((Packed { pack: which, arg: pack.arg, copy, plan, why: Why::Sectors }, clocks))
    }

    /// The copies, each at its offset in the workspace; and the sizes with them.
    pub(super) fn packed(mut self, class: usize, copies: bool) -> (Vec<Packed>, Sizes) {
        let copies = if copies { self.of_classes[class].take().flatten() } else { None };
        let mut next = 0u64;
        let mut all = Vec::new();
        let operands = self.operands.swap_remove(copies.as_ref().map_or(0, |copies| copies.operands));
        let why = copies.map(|copies| copies.why).unwrap_or_default();
        let several = why.len() > 1;
        for (which, why) in operands.packs.into_iter().zip(why) {
            let Some((mut packed, _)) = self.copies[which].take().flatten() else { continue };
            (packed.copy.address, packed.why) = (next, why);
            let kind = if all.is_empty() { 1 } else { 2 };
            packed.plan.variant += if several { kind * self.kernel.packs[which].beside } else { 0 };
            next = (next + packed.bytes()).next_multiple_of(ALIGNED);
            all.push(packed);
        }
        (all, operands.sizes)
    }
}

impl Operands {
    fn new(
        rules: &Rules,
        form: usize,
        packs: Vec<usize>,
        tensors: &[Option<&Tensor>],
        sizes: Sizes,
    ) -> Operands {
        let broken = rules.facts.iter().map(|fact| fact.broken(tensors, &sizes)).collect();
        let value = |size: usize| Some(Natural(u64::try_from(sizes[size]?.value).unwrap_or(0)));
        let counts = rules.counts.iter().map(|count| count.number(&value)).collect();
        let traffic = rules.moved.iter().map(|moved| Traffic::of(moved, &value)).collect();
        Operands { form, packs, sizes, broken, counts, traffic }
    }
}
