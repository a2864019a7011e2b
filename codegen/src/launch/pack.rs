//! Arguments that are packed before a kernel runs: copies with aligned rows, where a variant's facts do not
//! hold of the arguments themselves, and with rows along another mode, where a variant reads these.

use tilewright_layout::Symbol;

use super::{Given, Limits, Plan, Tensor, bind, cost, plan, unmet, value, why_not};
use crate::definition::{Generated, Pack, Variant};

/// Copies begin at multiples of so many bytes of the workspace, as allocations do.
const ALIGNED: u64 = 256;

/// Where a copy is said to be while its own launch is planned: no argument of a device is there.
const ELSEWHERE: u64 = 1 << 62;

/// An argument that is copied before the kernel runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// Which of the kernel's [`Generated::packs`].
    pub pack: usize,
    /// The argument.
    pub arg: usize,
    /// Why: what does not hold of the argument itself.
    pub why: String,
    /// The copy, as the kernel reads it. Its address is an offset in the workspace.
    pub copy: Tensor,
    /// The launch that copies, of the pack's kernel on [`Packed::arguments`].
    pub plan: Plan,
}

impl Plan {
    /// The arguments of the kernel: `given`, some of them replaced by their copies in a workspace at this
    /// address.
    ///
    /// ```
    /// use tilewright_codegen::launch::{Given, Limits, Tensor, plan};
    /// use tilewright_codegen::words::Words;
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
    /// assert_eq!(plan.packed[0].why, "8 does not divide lda, which is 1023");
    /// assert_eq!(plan.workspace(), (4096 + 2048) * 1024 * 2);
    /// let Given::Tensor(a) = &plan.arguments(&given, 1 << 50)[0] else { panic!("a tensor") };
    /// assert_eq!((a.address, &a.strides[..]), (1 << 50, &[1024, 1][..]));
    /// # Ok::<(), tilewright_codegen::launch::Refusal>(())
    /// ```
    pub fn arguments(&self, given: &[Given], workspace: u64) -> Vec<Given> {
        let mut all = given.to_vec();
        for packed in &self.packed {
            all[packed.arg] = Given::Tensor(packed.placed(workspace));
        }
        all
    }

    /// Bytes of memory for the copies; the launch owns it until the kernel has ended.
    pub fn workspace(&self) -> u64 {
        self.packed.last().map_or(0, |last| last.copy.address + last.bytes())
    }
}

impl Packed {
    /// The arguments of the copy: the kernel's argument with its modes in the pack's order, and the place in a
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
    all.extents[0] = all.strides[1];
    Tensor { mutable: true, ..all }
}

/// The copy of an argument: compact, but for rows of a multiple of 128 bytes. `None` if it is too large.
fn copy_of(tensor: &Tensor, modes: &[usize]) -> Option<Tensor> {
    let mut strides = vec![1; modes.len()];
    let mut len = 1i64;
    for (place, &mode) in modes.iter().enumerate() {
        let extent = tensor.extents[mode];
        strides[mode] = len;
        let extent = if place == 0 { row_of(extent, Pack::row_multiple(tensor.elem))? } else { extent };
        len = len.checked_mul(extent)?;
    }
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

/// A variant's launch: which arguments are packed.
#[derive(Default)]
pub(super) struct Candidate {
    /// Of the kernel's packs.
    packs: Vec<usize>,
    /// The sizes with these copies; nothing without copies.
    pub(super) symbols: Option<Vec<(Symbol, i64)>>,
    /// Why each is packed.
    why: Vec<String>,
}

/// The copies that variants may read. Each is planned once, and only if a variant needs it.
pub(super) struct Packing<'p> {
    kernel: &'p Generated,
    given: &'p [Given],
    limits: &'p Limits,
    copies: Vec<Option<Option<(Packed, u128)>>>,
}

impl<'p> Packing<'p> {
    pub(super) fn new(kernel: &'p Generated, given: &'p [Given], limits: &'p Limits) -> Packing<'p> {
        Packing { kernel, given, limits, copies: vec![None; kernel.packs.len()] }
    }

    /// The packs whose copies a variant may read.
    fn packs_of(&self, variant: &Variant) -> Vec<usize> {
        let program = &variant.program;
        let reads = |pack: &Pack| {
            program.launch.packs.contains(&(pack.arg as u32))
                && program.params[pack.arg].contiguous() == Some(pack.modes[0])
        };
        (0..self.kernel.packs.len()).filter(|&which| reads(&self.kernel.packs[which])).collect()
    }

    /// Why a variant does not read an argument itself, if its rows are along another mode.
    pub(super) fn reads_other_rows(&self, variant: &Variant) -> Option<String> {
        let mut packs = self.packs_of(variant).into_iter().map(|which| &self.kernel.packs[which]);
        let pack = packs.find(|pack| pack.transposes)?;
        let (name, [to, from]) = (&self.kernel.params[pack.arg].name, [pack.modes[0], pack.modes[1]]);
        Some(format!("`{name}` is contiguous along mode {from}, and this variant reads it along mode {to}"))
    }

    /// The copies that a variant cannot do without, since it reads rows along another mode, and the arguments with them.
    fn reordered(&mut self, variant: &Variant) -> Option<(Candidate, Vec<Given>)> {
        let (mut chosen, mut given) = (Candidate::default(), self.given.to_vec());
        for which in self.packs_of(variant) {
            let pack = &self.kernel.packs[which];
            if !pack.transposes {
                continue;
            }
            let (arg, along) = (pack.arg, pack.modes[0]);
            given[arg] = Given::Tensor(self.copy(which)?.clone());
            chosen.packs.push(which);
            chosen.why.push(format!("it is read in rows along mode {along}"));
        }
        if !chosen.packs.is_empty() {
            chosen.symbols = Some(bind::symbols(variant, &self.kernel.requires, &given).ok()?);
        }
        Some((chosen, given))
    }

    /// The launch of a variant that cannot run on the arguments themselves, for this reason: an argument is
    /// packed if the variant reads rows along another mode, or if more facts hold then.
    pub(super) fn candidate(
        &mut self,
        variant: &Variant,
        symbols: &[(Symbol, i64)],
        why: String,
    ) -> Result<Candidate, String> {
        let Some((mut chosen, mut given)) = self.reordered(variant) else { return Err(why) };
        for which in self.packs_of(variant) {
            let arg = self.kernel.packs[which].arg;
            if chosen.packs.contains(&which) {
                continue;
            }
            let known = chosen.symbols.as_deref().unwrap_or(symbols);
            let before = broken(variant, &given, known);
            let Some(copy) = self.copy(which) else { continue };
            let mut with = given.clone();
            with[arg] = Given::Tensor(copy.clone());
            let Ok(sizes) = bind::symbols(variant, &self.kernel.requires, &with) else { continue };
            let after = broken(variant, &with, &sizes);
            if after.len() < before.len() {
                let cause = before.into_iter().find(|fact| !after.contains(fact)).unwrap_or_default();
                (given, chosen.symbols) = (with, Some(sizes));
                chosen.packs.push(which);
                chosen.why.push(cause);
            }
        }
        match &chosen.symbols {
            Some(sizes)
                if why_not(variant, &given, self.limits, &|symbol| value(sizes, symbol)).is_none() =>
            {
                Ok(chosen)
            }
            _ => Err(why),
        }
    }

    /// The launch of a variant that can run on the arguments themselves, with copies of those whose rows begin in the
    /// middle of a sector; `None` if there are none.
    pub(super) fn whole_sectors(&mut self, variant: &Variant) -> Option<Candidate> {
        let mut given = self.given.to_vec();
        let mut chosen = Candidate::default();
        for which in self.packs_of(variant) {
            let arg = self.kernel.packs[which].arg;
            let Given::Tensor(tensor) = &self.given[arg] else { continue };
            if !cost::cuts_sectors_of(tensor) {
                continue;
            }
            let why = "its rows begin in the middle of sectors of 32 bytes".to_owned();
            given[arg] = Given::Tensor(self.copy(which)?.clone());
            chosen.packs.push(which);
            chosen.why.push(why);
        }
        if chosen.packs.is_empty() {
            return None;
        }
        let sizes = bind::symbols(variant, &self.kernel.requires, &given).ok()?;
        if why_not(variant, &given, self.limits, &|symbol| value(&sizes, symbol)).is_some() {
            return None;
        }
        chosen.symbols = Some(sizes);
        Some(chosen)
    }

    /// An argument's copy, at the start of a workspace.
    fn copy(&mut self, which: usize) -> Option<&Tensor> {
        if self.copies[which].is_none() {
            self.copies[which] = Some(self.planned(which));
        }
        self.copies[which].as_ref()?.as_ref().map(|(packed, _)| &packed.copy)
    }

    fn planned(&self, which: usize) -> Option<(Packed, u128)> {
        let pack = &self.kernel.packs[which];
        let Given::Tensor(from) = &self.given[pack.arg] else { return None };
        let copy = copy_of(from, &pack.modes)?;
        let to = padded(&Tensor { address: ELSEWHERE, ..copy.clone() }, &pack.modes);
        let given = [permuted(from, &pack.modes), to].map(Given::Tensor);
        let plan = plan(&pack.kernel, &given, self.limits).ok()?;
        let program = &pack.kernel.variants[plan.variant].program;
        let clocks = cost::clocks(program, self.limits, &|symbol| value(&plan.symbols, symbol));
        Some((Packed { pack: which, arg: pack.arg, why: String::new(), copy, plan }, clocks.unwrap_or(0)))
    }

    /// The estimated clocks of the copies.
    pub(super) fn clocks(&self, candidate: &Candidate) -> u128 {
        let copies = candidate.packs.iter().filter_map(|&which| self.copies[which].as_ref()?.as_ref());
        copies.map(|(_, clocks)| clocks).sum()
    }

    /// The copies, each at its place in the workspace.
    pub(super) fn packed(&mut self, candidate: &Candidate) -> Vec<Packed> {
        let mut next = 0u64;
        let mut all = Vec::new();
        for (&which, why) in candidate.packs.iter().zip(&candidate.why) {
            let Some((mut packed, _)) = self.copies[which].take().flatten() else { continue };
            packed.copy.address = next;
            packed.why.clone_from(why);
            next = (next + packed.bytes()).next_multiple_of(ALIGNED);
            all.push(packed);
        }
        all
    }
}

/// The facts that do not hold.
fn broken(variant: &Variant, given: &[Given], symbols: &[(Symbol, i64)]) -> Vec<String> {
    let lookup = |symbol| value(symbols, symbol);
    let program = &variant.program;
    program.needs.iter().filter_map(|fact| unmet(fact, program, given, &lookup)).collect()
}
