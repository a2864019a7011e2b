//! Arguments that are packed before a kernel runs: copies with aligned rows, if a variant's facts are false for the
//! arguments, and copies with rows along another mode, for variants that read such rows.

use super::choice::{self, Candidate, Choice, Copied, NONE};
use super::cost::{Estimate, Traffic};
use super::message::PlanChecks;
use super::number::Natural;
use super::rules::{Arguments, Broken, Check, PlanArguments, Rules, Sizes};
use super::why::Why;
use super::{Given, Limits, Plan, Tensor, binding, cost};
use crate::launch::definition::{Generated, Pack};

/// Copies begin at multiples of this number of bytes of the workspace, as allocations do.
pub(super) const ALIGNED: u64 = 256;

/// The assumed address of a copy while its own launch is planned: no argument of a device is there.
pub(super) const ELSEWHERE: u64 = 1 << 62;

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
        let Given::Tensor(from) = &given[self.arg] else { unreachable!("a tensor is packed") };
        let Some((_, [from, to])) = copied(&kernel.packs[self.pack], from) else {
            unreachable!("a copy that is planned has a size")
        };
        [from, Tensor { address: workspace + self.copy.address, ..to }]
    }

    fn placed(&self, workspace: u64) -> Tensor {
        Tensor { address: workspace + self.copy.address, ..self.copy.clone() }
    }

    fn bytes(&self) -> u64 {
        self.copy.len * u64::from(self.copy.elem.bytes())
    }
}

/// The copy of an argument, and the arguments of the launch that makes it; `None` if it is too large.
fn copied(pack: &Pack, tensor: &Tensor) -> Option<(Tensor, [Tensor; 2])> {
    let naturals = |all: &[i64]| -> Vec<Natural> {
        all.iter().map(|number| Natural(u64::try_from(*number).unwrap_or(0))).collect()
    };
    let integers = |all: Vec<Natural>| all.into_iter().map(|number| number.0.cast_signed()).collect();
    let (extents, strides) = (naturals(&tensor.extents), naturals(&tensor.strides));
    let (elem, multiple) = (tensor.elem, Pack::row_multiple(tensor.elem).cast_unsigned());
    let copied = Copied::new(pack, elem.bytes(), multiple, &extents, &strides);
    let tensor = Tensor { mutable: false, ..tensor.clone() };
    let copy = Tensor { strides: integers(copied.strides), len: copied.len.0, address: 0, ..tensor.clone() };
    let [from, to] = copied.launch.map(|modes| modes.map(integers));
    let shaped = |[extents, strides]: [Vec<i64>; 2], of: &Tensor| Tensor { extents, strides, ..of.clone() };
    let launch = [shaped(from, &tensor), Tensor { mutable: true, ..shaped(to, &copy) }];
    copied.fits.then_some((copy, launch))
}

/// The operands of some variants: the arguments, some of them replaced by copies, and properties derived from them.
struct Operands {
    form: usize,
    /// The set of the copies: the sum of 2^pack.
    copies: u64,
    sizes: Sizes,
    /// For each fact, whether it is false.
    broken: Vec<Option<Broken>>,
    /// For each of [`Rules::counts`], its value, if that is known.
    counts: Vec<Option<Natural>>,
    traffic: Vec<Traffic<Natural>>,
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
    /// For each class of variants, why they do not read the arguments themselves: rows are along another mode, or a fact is false.
    unfit: Vec<Option<Why>>,
    /// For each class of variants: see [`choice::copies`].
    of_classes: Vec<Option<u64>>,
    /// The nearest record, and the number of its alternative: see [`choice::nearest`].
    pub(super) record: [Natural; 2],
}

impl<'p> Packing<'p> {
    pub(super) fn new(
        rules: &'p Rules,
        kernel: &'p Generated,
        tensors: &'p [Option<&'p Tensor>],
        limits: &'p Limits,
        sizes: Sizes,
    ) -> Packing<'p> {
        let (copies, of_classes) = (vec![None; kernel.packs.len()], vec![None; rules.classes.len()]);
        let operands = vec![Operands::new(rules, 0, 0, tensors, sizes)];
        let unfit = Vec::with_capacity(rules.classes.len());
        let size = |of: usize| PlanArguments { tensors, sizes: &operands[0].sizes }.size(of);
        let record = choice::nearest(rules, Natural(limits.model), &size);
        let mut packing =
            Packing { rules, kernel, tensors, limits, operands, copies, unfit, of_classes, record };
        for (number, class) in rules.classes.iter().enumerate() {
            let rows = class.packs.iter().find(|which| kernel.packs[**which].transposes);
            let why = rows.map(|which| Why::Rows(*which)).or_else(|| packing.unmet(number, 0));
            packing.unfit.push(why);
        }
        packing
    }

    pub(super) fn candidate(&self, variant: usize) -> Candidate<Natural> {
        let alternative = &self.rules.variants[variant];
        Candidate {
            arch: Natural(self.kernel.variants[variant].program.arch.into()),
            competes: alternative.competes,
            weight: choice::weight(Natural(alternative.number), self.record[1]),
            cuts: alternative.cost.as_ref().is_some_and(cost::Rule::cuts),
            is_supported: self.unsupported(variant).is_none(),
            is_fit: self.unfit[alternative.class].is_none(),
        }
    }

    /// See [`choice::choice`].
    pub(super) fn choice(&mut self, variant: usize, candidate: &Candidate<Natural>) -> Choice<Natural> {
        let class = self.rules.variants[variant].class;
        let copies = |packing: &mut Self, is_needed| if is_needed { packing.copies(class) } else { NONE };
        let clocks = |packing: &mut Self, is_needed, copies: Natural| {
            let estimate = if is_needed { packing.estimate(variant, copies.0) } else { None };
            Natural(estimate.map_or(NONE, |estimate| estimate.clocks))
        };
        choice::choice(candidate, self, |packing, is_needed| Natural(copies(packing, is_needed)), clocks)
    }

    /// Why a variant cannot run.
    pub(super) fn why_not(&self, variant: usize) -> Option<Why> {
        match (self.unfit[self.rules.variants[variant].class], self.unsupported(variant)) {
            (Some(why @ Why::Rows(_)), _) | (_, Some(why)) | (Some(why), None) => Some(why),
            (None, None) => None,
        }
    }

    /// Why the device cannot run a variant.
    fn unsupported(&self, variant: usize) -> Option<Why> {
        let (program, device) = (&self.kernel.variants[variant].program, self.limits.into());
        let sizes = PlanArguments { tensors: self.tensors, sizes: &self.operands[0].sizes };
        let workspace = self.rules.variants[variant].workspace_bytes(&|size| sizes.size(size));
        choice::supported(&PlanChecks, self.kernel, program, &device, workspace)
            .err()
            .map(|objection| objection.why)
    }

    /// The first fact of a class that is false.
    pub(super) fn unmet(&self, class: usize, operands: usize) -> Option<Why> {
        let broken = &self.operands[operands].broken;
        let mut needs = self.rules.classes[class].needs.iter().enumerate();
        needs.find_map(|(index, fact)| broken[*fact].map(|Broken(value)| Why::Fact(index, value)))
    }

    /// The number of facts of a class that are false.
    fn broken(&self, class: usize, operands: usize) -> usize {
        let broken = &self.operands[operands].broken;
        self.rules.classes[class].needs.iter().filter(|fact| broken[**fact].is_some()).count()
    }

    /// The first limit of all variants that an argument exceeds.
    pub(super) fn limit(&self, class: usize) -> Option<Why> {
        let mut limits = self.rules.limits(class).into_iter();
        limits.find_map(|(index, fact)| {
            self.operands[0].broken[fact].map(|Broken(value)| Why::Fact(index, value))
        })
    }

    /// The estimate of a variant that reads these copies.
    pub(super) fn estimate(&self, variant: usize, copies: u64) -> Option<Estimate> {
        let alternative = &self.rules.variants[variant];
        let Operands { counts, traffic, .. } = &self.operands[self.known(alternative.class, copies)?];
        let own = alternative.cost.as_ref()?.estimate(&cost::PlanInputs {
            limits: self.limits,
            counts,
            traffic,
        })?;
        let mut clocks = Natural(own.clocks);
        for (index, which) in packs(copies).enumerate() {
            let Some((packed, of_copy)) = self.copies[which].as_ref()?.as_ref() else { continue };
            let pack = &self.kernel.packs[which];
            let launch = pack.kernel.variants[packed.plan.variant].program.launch.cost;
            let launch = launch.map_or(0, |cost| cost.launch.into());
            let [index, beside, launch, arch] =
                [index as u64, pack.beside as u64, launch, self.limits.arch.into()].map(Natural);
            clocks = choice::with_copy(clocks, Natural(*of_copy), index, beside, launch, arch);
        }
        Some(own.packed(clocks.0 - own.clocks))
    }

    /// The arguments whose copies a class of variants reads, and why.
    pub(super) fn copied(&self, class: usize, copies: u64) -> Vec<(usize, Why)> {
        packs(copies).map(|which| (self.kernel.packs[which].arg, self.why(class, copies, which))).collect()
    }

    /// Why a class of variants reads the copy of a pack.
    fn why(&self, class: usize, copies: u64, which: usize) -> Why {
        let pack = &self.kernel.packs[which];
        if pack.transposes {
            return Why::Along(pack.modes[0]);
        }
        // The facts without this copy and those that were tried after it.
        let before = packs(copies).filter(|other| self.kernel.packs[*other].transposes || *other < which);
        let before = before.map(|other| 1 << other).sum();
        let [before, after] = [before, before | 1 << which].map(|copies| self.known(class, copies));
        let cause = before.zip(after).and_then(|(before, after)| {
            let [before, after] = [before, after].map(|operands| &self.operands[operands].broken);
            let mut needs = self.rules.classes[class].needs.iter().enumerate();
            needs.find_map(|(index, fact)| {
                let Broken(value) = before[*fact].filter(|_| before[*fact] != after[*fact])?;
                Some(Why::Fact(index, value))
            })
        });
        cause.filter(|_| self.unfit[class].is_some()).unwrap_or(Why::Sectors)
    }

    /// See [`choice::copies`].
    fn copies(&mut self, class: usize) -> u64 {
        if let Some(known) = self.of_classes[class] {
            return known;
        }
        let Packing { rules, kernel, tensors, .. } = *self;
        let broken = &self.operands[0].broken;
        let is_hopeless = rules.classes[class].kept.iter().any(|fact| broken[*fact].is_some());
        let cuts = |which: usize| {
            let Pack { arg, modes, .. } = &kernel.packs[which];
            let bytes = kernel.params[*arg].elem.bytes();
            choice::cuts_sectors(&PlanArguments { tensors, sizes: &[] }, *arg, modes.len(), bytes)
        };
        let false_facts = |is_needed, copies: Natural| {
            let operands = if is_needed { self.operands(class, copies.0) } else { None };
            Natural(operands.map_or(NONE, |operands| self.broken(class, operands) as u64))
        };
        let packs = &rules.classes[class].packs;
        let Natural(copies) = choice::copies(packs, &kernel.packs, is_hopeless, false_facts, cuts);
        self.of_classes[class] = Some(copies);
        copies
    }

    /// The arguments with these copies, as a class of variants reads them, if they are known.
    fn known(&self, class: usize, copies: u64) -> Option<usize> {
        let form = self.rules.classes[class].form;
        let is_same = |known: &Operands| known.copies == copies && (copies == 0 || known.form == form);
        self.operands.iter().position(is_same)
    }

    /// The same; they are made if they can be.
    fn operands(&mut self, class: usize, copies: u64) -> Option<usize> {
        if let Some(known) = self.known(class, copies) {
            return Some(known);
        }
        let form = self.rules.classes[class].form;
        let mut tensors = self.tensors.to_vec();
        for which in packs(copies) {
            if self.copies[which].is_none() {
                self.copies[which] = Some(self.planned(which));
            }
        }
        for which in packs(copies) {
            let (packed, _) = self.copies[which].as_ref()?.as_ref()?;
            tensors[packed.arg] = Some(&packed.copy);
        }
        let sizes = binding::sizes(self.rules, self.kernel, form, &tensors).ok()?;
        let operands = Operands::new(self.rules, form, copies, &tensors, sizes);
        self.operands.push(operands);
        Some(self.operands.len() - 1)
    }

    fn planned(&self, which: usize) -> Option<(Packed, u64)> {
        let (pack, rules) = (&self.kernel.packs[which], &self.rules.packs[which]);
        let (copy, [from, to]) = copied(pack, self.tensors[pack.arg]?)?;
        let given = [from, Tensor { address: ELSEWHERE, ..to }].map(Given::Tensor);
        let (plan, clocks) = rules.timed(&pack.kernel, &given, self.limits).ok()?;
        Some((Packed { pack: which, arg: pack.arg, copy, plan, why: Why::Sectors }, clocks.unwrap_or(0)))
    }

    /// The copies, each at its offset in the workspace; and the sizes with them.
    pub(super) fn packed(mut self, class: usize, copies: u64) -> (Vec<Packed>, Sizes) {
        let operands = self.known(class, copies).unwrap_or(0);
        let (mut next, mut all) = (0u64, Vec::new());
        for which in packs(copies) {
            let why = self.why(class, copies, which);
            let Some((mut packed, _)) = self.copies[which].take().flatten() else { continue };
            (packed.copy.address, packed.why) = (next, why);
            let kind = if all.is_empty() { 1 } else { 2 };
            packed.plan.variant +=
                if copies.count_ones() > 1 { kind * self.kernel.packs[which].beside } else { 0 };
            next = (next + packed.bytes()).next_multiple_of(ALIGNED);
            all.push(packed);
        }
        (all, self.operands.swap_remove(operands).sizes)
    }
}

/// The packs of a set of copies, in their order.
fn packs(copies: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |pack| copies >> pack & 1 == 1)
}

impl Operands {
    fn new(rules: &Rules, form: usize, copies: u64, tensors: &[Option<&Tensor>], sizes: Sizes) -> Operands {
        let arguments = PlanArguments { tensors, sizes: &sizes };
        let broken = |check: &Check| {
            let (is_false, value) = check.is_false(&arguments);
            is_false.then_some(Broken(value))
        };
        let value = |size: usize| arguments.size(size);
        let broken = rules.facts.iter().map(broken).collect();
        let counts = rules.counts.iter().map(|count| count.number(&value)).collect();
        let traffic = rules.moved.iter().map(|moved| Traffic::of(moved, &value)).collect();
        Operands { form, copies, broken, counts, traffic, sizes }
    }
}
