//! The functions of exported C that decide: recordings of those that a launch in Rust calls.

use std::cell::RefCell;
use std::fmt::Write;

use super::recording::{Recorded, Recording, Use, called_if};
use crate::launch::binding::{self, Bound, TensorArgument};
use crate::launch::choice::{self, Best, Candidate, Copied};
use crate::launch::cost::{Device, Inputs, Rule, Traffic};
use crate::launch::definition::{Generated, Pack, Param};
use crate::launch::number::Natural;
use crate::launch::rules::{Arguments, Class, Count, Rules, Size, Sizes, index};
use crate::thread::Kernel;

/// A number of C.
type Number<'r> = Recorded<'r, u64>;

/// Functions, each once: their names are the numbers.
#[derive(Default)]
pub(super) struct Functions {
    all: Vec<String>,
}

/// What recorded functions may call.
const HELPERS: [&str; 7] = [
    "static int tw_sum_overflows(tw_count a, tw_count b) {\n    int64_t sum;\n    return __builtin_add_overflow((int64_t)a, (int64_t)b, &sum);\n}\n",
    "static int tw_product_overflows(tw_count a, tw_count b) {\n    int64_t product;\n    return __builtin_mul_overflow((int64_t)a, (int64_t)b, &product);\n}\n",
    "static tw_count tw_quotient(tw_count a, tw_count b) {\n    int64_t of = (int64_t)a, by = (int64_t)b;\n    return by < 1 ? 0 : (tw_count)(of / by - (of % by < 0));\n}\n",
    "static tw_count tw_plus(tw_count a, tw_count b) { return a + b < a ? ~(tw_count)0 : a + b; }\n",
    "static tw_count tw_minus(tw_count a, tw_count b) { return a > b ? a - b : 0; }\n",
    "static tw_count tw_positive(int64_t value) { return value > 0 ? (tw_count)value : 0; }\n",
    "static tw_count tw_natural(const tw_bound *sizes, int of) { return (tw_count)sizes[of]; }\n",
];

impl Functions {
    /// A function with this body, and its name.
    fn function(&mut self, returns: &str, parameters: &str, body: &str) -> String {
        // Not every function reads all of its parameters.
        let names = parameters.split(", ").filter_map(|parameter| parameter.rsplit([' ', '*']).next());
        let names = names.filter_map(|name| name.split('[').next());
        let unused = names.map(|name| format!("(void){name}")).collect::<Vec<_>>().join(", ");
        let at =
            index(&mut self.all, format!("{returns} NAME({parameters}) {{\n    {unused};\n{body}}}\n\n"));
        format!("tw_function_{at}")
    }

    /// All of them.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (index, function) in self.all.iter().enumerate() {
            text += "static ";
            text += &function.replacen("NAME", &format!("tw_function_{index}"), 1);
        }
        text += &with_copy();
        text += &consider();
        let is_called = |helper: &&&str| {
            let name = helper.split('(').next().and_then(|head| head.rsplit(' ').next()).unwrap_or_default();
            !name.is_empty() && text.contains(&format!("{name}("))
        };
        let helpers = HELPERS.iter().filter(is_called).copied().collect::<String>();
        format!("{helpers}\n{text}")
    }

    /// The checks of a kernel's arguments.
    pub(super) fn check(&mut self, kernel: &Generated, rules: &Rules) -> String {
        let recording = Recording::default();
        let Ok((sizes, empty_loops)) =
            binding::checked(&&recording, rules, kernel, &tensors(kernel, &recording));
        let mut uses = stored(&sizes);
        uses.push(Use::of("*empty_loops = (int)A", empty_loops));
        let body = recording.body(&uses) + "    return 0;\n";
        let parameters =
            "const tilewright_tensor *const *tensors, tw_bound *sizes, int *empty_loops, tw_text *error";
        self.function("int", parameters, &body)
    }

    /// The values of sizes, as variants of a form take tensors.
    pub(super) fn bind(&mut self, kernel: &Generated, rules: &Rules, form: usize) -> String {
        let recording = Recording::default();
        let Ok(sizes) = binding::bound(&&recording, rules, kernel, form, &tensors(kernel, &recording));
        let body = recording.body(&stored(&sizes)) + "    return 0;\n";
        let parameters = "const tilewright_tensor *const *tensors, tw_bound *sizes, tw_text *error";
        self.function("int", parameters, &body)
    }

    /// Checks that tensors do not overlap.
    pub(super) fn apart(&mut self, kernel: &Generated) -> String {
        let recording = Recording::default();
        let Ok(()) = binding::apart(&&recording, &tensors(kernel, &recording));
        let body = recording.body(&[]) + "    return 0;\n";
        self.function("int", "const tilewright_tensor *const *tensors, tw_text *error", &body)
    }

    /// What facts and estimates are about, from the arguments and the sizes.
    pub(super) fn derive(&mut self, rules: &Rules) -> String {
        let recording = Recording::default();
        let arguments = CArguments::new(&recording);
        let size = |of: usize| arguments.size(of);
        let mut uses = Vec::new();
        for (index, fact) in rules.facts.iter().enumerate() {
            let (is_false, value) = fact.is_false(&arguments);
            uses.push(Use::of(&format!("of->broken[{index}] = (unsigned char)A"), is_false));
            uses.extend(value.map(|value| Use::of(&format!("of->value[{index}] = A"), value)));
        }
        for (index, count) in rules.counts.iter().enumerate() {
            uses.extend(count.number(&size).map(|count| Use::of(&format!("of->counts[{index}] = A"), count)));
        }
        for (index, moved) in rules.moved.iter().enumerate() {
            let Traffic { bytes, alignment } = Traffic::of(moved, &size);
            uses.extend(bytes.map(|bytes| Use::of(&format!("of->bytes[{index}] = A"), bytes)));
            let alignment = alignment.map(|known| Use::of(&format!("of->alignment[{index}] = A"), known));
            uses.extend(alignment);
        }
        let parameters = "const tilewright_tensor *const *tensors, const tw_bound *sizes, tw_operands *of";
        self.function("void", parameters, &recording.body(&uses))
    }

    /// The clocks of a variant, and the numbers of the variant that the function reads; `None` if they are unknown.
    pub(super) fn estimate(&mut self, rules: &Rules, rule: &Rule) -> Option<(String, Vec<u32>)> {
        let recording = Recording::default();
        let launch = Launch { rules, recording: &recording, constants: RefCell::default() };
        let terms = rule.terms(&launch)?;
        let body = recording.body(&[Use::of("return A", terms.clocks)]);
        let parameters = "const uint32_t *constants, const tw_operands *of, const tw_limits *limits";
        Some((self.function("tw_count", parameters, &body), launch.constants.into_inner()))
    }

    /// The alternative of the nearest record, and its weight.
    pub(super) fn recorded(&mut self, rules: &Rules) -> String {
        let recording = Recording::default();
        let (arguments, device) = (CArguments::new(&recording), device(&recording));
        let [_, alternative] = choice::nearest(rules, device.model, &|size| arguments.size(size));
        let body = recording.body(&[Use::of("return A", alternative)]);
        self.function("tw_count", "const tw_bound *sizes, const tw_limits *limits", &body)
    }

    /// The copies that a class reads.
    pub(super) fn copies(&mut self, kernel: &Generated, class: &Class) -> String {
        let recording = Recording::default();
        let is_hopeless = recording.truth("tw_is_hopeless(packing, of_class)");
        let false_facts = |is_needed, copies| {
            called_if(&recording, is_needed, "tw_false_facts(packing, of_class, A)", copies)
        };
        let arguments = CArguments { recording: &recording, tensors: "packing->launch->tensors" };
        let cuts = |pack: usize| {
            let Pack { arg, modes, .. } = &kernel.packs[pack];
            choice::cuts_sectors(&arguments, *arg, modes.len(), kernel.params[*arg].elem.bytes())
        };
        let copies = choice::copies(&class.packs, &kernel.packs, is_hopeless, false_facts, cuts);
        let body = recording.body(&[Use::of("return A", copies)]);
        self.function("tw_count", "tw_packing *packing, int of_class", &body)
    }

    /// The copy of a pack.
    pub(super) fn copied(&mut self, pack: &Pack) -> String {
        let recording = Recording::default();
        let arguments = CArguments::new(&recording);
        let (elem, modes) = (pack.kernel.params[0].elem, 0..pack.modes.len());
        let extents: Vec<Number<'_>> = modes.clone().map(|mode| arguments.extent(0, mode)).collect();
        let strides: Vec<Number<'_>> = modes.map(|mode| arguments.stride(0, mode)).collect();
        let multiple = Pack::row_multiple(elem).cast_unsigned();
        let copied = Copied::new(pack, elem.bytes(), multiple, &extents, &strides);
        let all = |target: &str, values: &[Number<'_>]| -> Vec<Use> {
            let set = |(mode, value): (usize, &Number<'_>)| {
                Use::of(&format!("{target}[{mode}] = (int64_t)A"), *value)
            };
            values.iter().enumerate().map(set).collect()
        };
        let mut uses = all("copy->strides", &copied.strides);
        uses.push(Use::of("copy->elements = A", copied.len));
        for (argument, [extents, strides]) in copied.launch.iter().enumerate() {
            uses.extend(all(&format!("launch[{argument}].extents"), extents));
            uses.extend(all(&format!("launch[{argument}].strides"), strides));
        }
        uses.push(Use::of("return A", copied.fits));
        let parameters =
            "const tilewright_tensor *const *tensors, tilewright_tensor *copy, tilewright_tensor launch[2]";
        self.function("int", parameters, &recording.body(&uses))
    }

    /// Checks that a device can run a variant.
    pub(super) fn supported(
        &mut self,
        kernel: &Generated,
        program: &Kernel,
        bytes: impl for<'r> Fn(&CArguments<'r>) -> Number<'r>,
    ) -> String {
        let recording = Recording::default();
        let workspace = bytes(&CArguments::new(&recording));
        let Ok(()) = choice::supported(&&recording, kernel, program, &device(&recording), workspace);
        let body = recording.body(&[]) + "    return 0;\n";
        self.function("int", "const tw_bound *sizes, const tw_limits *limits, tw_text *error", &body)
    }

    /// The blocks of a program.
    pub(super) fn blocks(&mut self, program: &Kernel, grid: &[Vec<Size>; 3]) -> String {
        let recording = Recording::default();
        let (arguments, device) = (CArguments::new(&recording), device(&recording));
        let Ok(blocks) = choice::grid(&&recording, program, grid, &|size| arguments.size(size), &device);
        let set = |axis: usize| Use::of(&format!("grid[{axis}] = (uint32_t)A"), blocks[axis]);
        let body = recording.body(&[set(0), set(1), set(2)]) + "    return 0;\n";
        let parameters = "const tw_bound *sizes, const tw_limits *limits, uint32_t grid[3], tw_text *error";
        self.function("int", parameters, &body)
    }

    /// Whether a grid is too long along y or z.
    pub(super) fn is_long(&mut self, grid: &[Vec<Size>; 3]) -> String {
        let recording = Recording::default();
        let (arguments, device) = (CArguments::new(&recording), device(&recording));
        let is_long = choice::is_long(grid, &|size| arguments.size(size), &device);
        let body = recording.body(&[Use::of("return A", is_long)]);
        self.function("int", "const tw_bound *sizes, const tw_limits *limits", &body)
    }
}

/// See [`choice::with_copy`].
fn with_copy() -> String {
    let recording = Recording::default();
    let number = |name: &str| recording.number(name);
    let [clocks, copy, index] = ["clocks", "copy", "index"].map(number);
    let clocks = choice::with_copy(clocks, copy, index, number("beside"), number("launch"), number("arch"));
    let body = recording.body(&[Use::of("return A", clocks)]);
    format!(
        "static tw_count tw_with_copy(tw_count clocks, tw_count copy, tw_count index, tw_count beside, tw_count launch, tw_count arch) {{\n\
         {body}}}\n\n"
    )
}

/// Considers one more variant: see [`Best`].
fn consider() -> String {
    let recording = Recording::default();
    let number = |name: &str| recording.number(name);
    let best = Best {
        index: number("best->index"),
        copies: number("best->copies"),
        clocks: number("best->clocks"),
        weighted: number("best->weighted"),
        arch: number("best->arch"),
        is_settled: recording.truth("best->is_settled"),
    };
    let truth = |name: &str| recording.truth(name);
    let arch = number("variant->arch");
    let variant = Candidate {
        arch,
        competes: truth("variant->competes"),
        weight: choice::weight(number("(tw_count)variant->alternative"), number("packing->recorded")),
        cuts: truth("variant->cuts"),
        is_supported: best.admits(arch) & truth("tw_is_supported(packing, variant)"),
        is_fit: truth("tw_is_fit(packing, variant)"),
    };
    let copies = |(): &mut (), is_needed| {
        called_if(&recording, is_needed, "tw_copies(packing, variant->of_class)", 0.into())
    };
    let clocks = |(): &mut (), is_needed, copies| {
        called_if(&recording, is_needed, "tw_clocks(packing, variant, A)", copies)
    };
    let choice = choice::choice(&variant, &mut (), copies, clocks);
    let best = best.or(number("(tw_count)index"), &variant, choice);
    let body = recording.body(&[
        Use::of("best->index = A", best.index),
        Use::of("best->copies = A", best.copies),
        Use::of("best->clocks = A", best.clocks),
        Use::of("best->weighted = A", best.weighted),
        Use::of("best->arch = A", best.arch),
        Use::of("best->is_settled = A", best.is_settled),
    ]);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "static void tw_consider(tw_packing *packing, const tw_variant *variant, int index, tw_best *best) {{\n{body}}}\n"
    );
    text
}

/// Stores the values of sizes.
fn stored(sizes: &Sizes<Number<'_>>) -> Vec<Use> {
    let value = |size: &Option<Bound<_>>| size.as_ref().map_or(0.into(), |bound| bound.value);
    let store = |(index, size)| Use::of(&format!("sizes[{index}] = (int64_t)A"), value(size));
    sizes.iter().enumerate().map(store).collect()
}

/// The tensors of a launch.
fn tensors<'r>(
    kernel: &'r Generated,
    recording: &'r Recording,
) -> Vec<Option<TensorArgument<'r, Number<'r>>>> {
    let tensors = |(arg, param): (usize, &'r Param)| {
        let (is_written, rank) = param.tensor?;
        let modes = |what: &str| {
            let of = |mode| recording.number(format!("(tw_count)tensors[{arg}]->{what}[{mode}]"));
            (0..rank).map(of).collect()
        };
        let number = |what: &str| recording.number(format!("tensors[{arg}]->{what}"));
        let (extents, strides, len) = (modes("extents"), modes("strides"), number("elements"));
        let (name, address) = (param.name.as_str(), number("address"));
        Some(TensorArgument { name, elem: param.elem, is_written, extents, strides, address, len })
    };
    kernel.params.iter().enumerate().map(tensors).collect()
}

/// The limits of the device.
fn device(recording: &Recording) -> Device<Number<'_>> {
    let limit = |name: &str| recording.number(format!("limits->{name}"));
    Device {
        arch: limit("arch"),
        shared_bytes: limit("shared_bytes"),
        threads: limit("threads"),
        grid: [0, 1, 2].map(|axis| limit(&format!("grid[{axis}]"))),
        multiprocessors: limit("multiprocessors"),
        model: limit("model"),
    }
}

/// The arguments and sizes of a launch, where the parameters of a function have them.
pub(super) struct CArguments<'r> {
    recording: &'r Recording,
    tensors: &'static str,
}

impl<'r> CArguments<'r> {
    fn new(recording: &'r Recording) -> CArguments<'r> {
        CArguments { recording, tensors: "tensors" }
    }
}

impl<'r> Arguments for CArguments<'r> {
    type Number = Number<'r>;

    fn extent(&self, arg: usize, mode: usize) -> Number<'r> {
        self.recording.number(format!("tw_positive({}[{arg}]->extents[{mode}])", self.tensors))
    }

    fn stride(&self, arg: usize, mode: usize) -> Number<'r> {
        self.recording.number(format!("tw_positive({}[{arg}]->strides[{mode}])", self.tensors))
    }

    fn address(&self, arg: usize) -> Number<'r> {
        self.recording.number(format!("{}[{arg}]->address", self.tensors))
    }

    fn size(&self, of: usize) -> Option<Number<'r>> {
        Some(self.recording.number(format!("tw_natural(sizes, {of})")))
    }
}

/// A launch of a variant, as its estimate reads it. Variants that differ in numbers alone have one function, which reads the
/// numbers from a table.
struct Launch<'r> {
    rules: &'r Rules,
    recording: &'r Recording,
    constants: RefCell<Vec<u32>>,
}

impl Launch<'_> {
    /// The slot of a constant.
    fn slot(&self, number: u32) -> String {
        let mut constants = self.constants.borrow_mut();
        constants.push(number);
        format!("constants[{}]", constants.len() - 1)
    }
}

impl<'r> Inputs for Launch<'r> {
    type Number = Number<'r>;

    fn constant(&self, number: u32) -> Number<'r> {
        self.recording.number(self.slot(number))
    }

    fn count(&self, Count(of): Count) -> Option<Number<'r>> {
        let is_known = self.rules.counts[of] != Size::Unknown;
        is_known.then(|| self.recording.number(format!("of->counts[{}]", self.slot(of as u32))))
    }

    fn traffic(&self, of: usize) -> Traffic<Number<'r>> {
        let slot = self.slot(of as u32);
        let Traffic { bytes, alignment } = Traffic::of(&self.rules.moved[of], &|_| Some(Natural(1)));
        Traffic {
            bytes: bytes.map(|_| self.recording.number(format!("of->bytes[{slot}]"))),
            alignment: alignment.map(|_| self.recording.number(format!("of->alignment[{slot}]"))),
        }
    }

    fn arch(&self) -> Number<'r> {
        self.recording.number("limits->arch")
    }

    fn multiprocessors(&self) -> Number<'r> {
        self.recording.number("limits->multiprocessors")
    }
}
