//! The rules of launches as tables of C.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::cost::{self, Inputs, Traffic};
use super::super::refusal::Refusal;
use super::super::rules::{Check, Count, Rules, Size, index};
use super::nodes::{Nodes, int, known, number};
use super::recording::{Recorded, Recording};
use super::text::literal;
use super::{Image, constant};
use crate::launch::MOST_WORKSPACE;
use crate::launch::definition::{Generated, Pack, Param as Named, Variant};
use crate::launch::number::Natural;
use crate::thread::{Fact, Kernel, Param};
use crate::values::affine::Affine;
use crate::values::condition::Require;
use crate::values::condition::Test;
use crate::values::elem::Elem;
use crate::values::limits::MOST_EXTENT;
use crate::values::target::STATIC_SHARED;

/// The binaries of a variant.
type Images<'i, E> = &'i mut dyn FnMut(&Variant) -> Result<Vec<Image>, E>;

/// Tables under construction.
pub(super) struct Tables<'i, E> {
    images: Images<'i, E>,
    text: String,
    arrays: usize,
    functions: usize,
    /// The functions that are recorded, each once.
    recorded: Vec<String>,
    /// The largest number of sizes, facts, counts, reads, packs, classes, parameters and operands of a kernel.
    most: [usize; 8],
}

/// What recorded functions may call.
const FUNCTIONS: [&str; 1] = [
    "static tw_count tw_natural(const tw_bound *sizes, int of) { return sizes[of].value > 0 ? (tw_count)sizes[of].value : 0; }\n",
];

/// A launch of a variant, as its estimate reads it. Variants that differ in numbers alone have one function, which reads the
/// numbers from a table.
struct Launch<'r> {
    rules: &'r Rules,
    recording: &'r Recording,
    own: RefCell<Vec<u32>>,
}

impl<'r> Launch<'r> {
    /// The place of a number of the variant.
    fn slot(&self, number: u32) -> String {
        let mut own = self.own.borrow_mut();
        own.push(number);
        format!("own[{}]", own.len() - 1)
    }
}

impl<'r> Inputs for Launch<'r> {
    type Number = Recorded<'r, u64>;

    fn own(&self, number: u32) -> Recorded<'r, u64> {
        self.recording.number(self.slot(number))
    }

    fn count(&self, Count(of): Count) -> Option<Recorded<'r, u64>> {
        let is_known = self.rules.counts[of] != Size::Unknown;
        is_known.then(|| self.recording.number(format!("of->counts[{}]", self.slot(of as u32))))
    }

    fn traffic(&self, of: usize) -> Traffic<Recorded<'r, u64>> {
        let slot = self.slot(of as u32);
        let Traffic { bytes, alignment } = Traffic::of(&self.rules.moved[of], &|_| Some(Natural(1)));
        Traffic {
            bytes: bytes.map(|_| self.recording.number(format!("of->bytes[{slot}]"))),
            alignment: alignment.map(|_| self.recording.number(format!("of->alignment[{slot}]"))),
        }
    }

    fn multiprocessors(&self) -> Recorded<'r, u64> {
        self.recording.number("limits->multiprocessors")
    }
}

/// A size.
pub(super) fn size(of: Size) -> String {
    match of {
        Size::Int(n) => format!("{{{}, -1, 1}}", int(n)),
        Size::Of { times, of, over } => format!("{{{}, {of}, {over}}}", int(times)),
        Size::Unknown => "{0, -2, 1}".into(),
    }
}

/// The element types, by their numbers.
pub(super) fn types() -> String {
    let rows: Vec<String> =
        Elem::all().map(|elem| format!("    {{\"{elem}\", {}}},\n", elem.bytes())).collect();
    format!(
        "\nstatic const struct {{\n    const char *name;\n    uint32_t bytes;\n}} tw_types[] = {{\n{}}};\n",
        rows.concat()
    )
}

impl<'i, E: From<Refusal>> Tables<'i, E> {
    pub(super) fn new(images: Images<'i, E>) -> Tables<'i, E> {
        Tables { images, text: String::new(), arrays: 0, functions: 0, most: [1; 8], recorded: Vec::new() }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for line in FUNCTIONS {
            let Some((name, _)) = line.split_once('(') else { unreachable!("a function") };
            let name = name.rsplit(' ').next().unwrap_or_default();
            if self.recorded.iter().any(|function| function.contains(&format!("{name}("))) {
                text += line;
            }
        }
        for (index, function) in self.recorded.iter().enumerate() {
            let Some((returns, rest)) = function.split_once('(') else { unreachable!("a function") };
            let _ = writeln!(text, "static {returns} tw_function_{index}({rest}");
        }
        text + &self.text
    }

    /// Functions of all variants.
    pub(super) fn functions(&self) -> usize {
        self.functions.max(1)
    }

    /// The constants of the interpreter.
    pub(super) fn limits(&self) -> String {
        let names = ["SIZES", "FACTS", "COUNTS", "MOVES", "PACKS", "CLASSES", "PARAMS", "OPERANDS"];
        let mut text = String::from("\n/* Bounds of the tables at the end. */\n");
        for (name, most) in names.iter().zip(self.most) {
            let _ = writeln!(text, "#define TW_{name} {most}");
        }
        let _ = write!(
            text,
            "\n/* The greatest extent and stride, and bytes of shared memory that a block has without asking. */\n\
             #define TW_MOST {MOST_EXTENT}\n#define TW_STATIC_SHARED {STATIC_SHARED}\n\n\
             /* Bytes that an alternative may need for itself in a workspace. */\n#define TW_MOST_WORKSPACE {MOST_WORKSPACE}\n\n\
             /* Clusters of more than two blocks leave this part of the multiprocessors idle. */\n#define TW_IDLE {}\n",
            cost::IDLE
        );
        text
    }

    /// A table, and its name.
    fn array(&mut self, ty: &str, rows: &[String]) -> String {
        if rows.is_empty() {
            return "0".into();
        }
        let name = format!("tw_{}", self.arrays);
        self.arrays += 1;
        let _ = write!(self.text, "static const {ty} {name}[] = {{");
        let mut width = 100;
        for row in rows {
            if width + row.len() > 120 {
                self.text += "\n    ";
                width = 4;
            }
            let _ = write!(self.text, "{row}, ");
            width += row.len() + 2;
        }
        self.text += "\n};\n";
        name
    }

    fn sizes(&mut self, all: &[Size]) -> String {
        let rows: Vec<String> = all.iter().map(|of| size(*of)).collect();
        self.array("tw_size", &rows)
    }

    fn numbers<N: ToString>(&mut self, ty: &str, all: &[N]) -> String {
        let rows: Vec<String> = all.iter().map(ToString::to_string).collect();
        self.array(ty, &rows)
    }

    /// A kernel, and its name.
    pub(super) fn kernel(&mut self, kernel: &Generated) -> Result<String, E> {
        let rules = Rules::of(kernel);
        let mut packs = Vec::new();
        for pack in &kernel.packs {
            packs.push(self.pack(pack)?);
        }
        let mut all_empty_loops = Vec::new();
        for empty_loops in &kernel.empty_loops {
            let Some(variant) = empty_loops.variant() else { continue };
            let own = Rules::new(std::slice::from_ref(variant), &[], &|_| None);
            let name = self.table(kernel, std::slice::from_ref(variant), &own, &[], &[])?;
            let sizes: Vec<i64> = own
                .symbols
                .iter()
                .map(|symbol| number(&rules, *symbol).map_or(-1, |index| index as i64))
                .collect();
            let sizes = self.numbers("int", &sizes);
            let size = number(&rules, empty_loops.size()).map_or(-1, |index| index as i64);
            let idle: u64 = empty_loops.idle().iter().map(|index| 1 << index).sum();
            all_empty_loops.push(format!("{{{size}, UINT64_C({idle}), &{name}, {sizes}}}"));
        }
        self.table(kernel, &kernel.variants, &rules, &packs, &all_empty_loops)
    }

    fn pack(&mut self, pack: &Pack) -> Result<String, E> {
        let kernel = self.kernel(&pack.kernel)?;
        let modes = self.numbers("int", &pack.modes);
        let (rank, transposes) = (pack.modes.len(), u8::from(pack.transposes));
        let multiple = Pack::row_multiple(pack.kernel.params[0].elem);
        Ok(format!("{{{}, {rank}, {modes}, {transposes}, {multiple}, &{kernel}, {}}}", pack.arg, pack.beside))
    }

    fn table(
        &mut self,
        kernel: &Generated,
        variants: &[Variant],
        rules: &Rules,
        packs: &[String],
        all_empty_loops: &[String],
    ) -> Result<String, E> {
        let operands = 1 + rules.classes.iter().map(|class| 1 + class.packs.len()).sum::<usize>();
        let counts = [
            rules.symbols.len(),
            rules.facts.len(),
            rules.counts.len(),
            rules.moved.len(),
            packs.len(),
            rules.classes.len(),
            kernel.params.len(),
            operands,
        ];
        self.most.iter_mut().zip(counts).for_each(|(most, count)| *most = count.max(*most));
        let used = |arg| rules.variants.is_empty() || rules.uses(arg);
        let params = kernel.params.iter().enumerate().map(|(arg, named)| param(named, used(arg)));
        let params: Vec<String> = params.collect();
        let names: Vec<String> = rules.symbols.iter().map(|symbol| literal(symbol.name())).collect();
        let forms = self.forms(rules);
        let facts = self.facts(variants, rules);
        let measure = self.measure(rules);
        let mut classes = Vec::new();
        for class in &rules.classes {
            let (needs, of) = (self.numbers("int", &class.needs), self.numbers("int", &class.packs));
            classes.push(format!(
                "{{{}, {}, {needs}, {}, {of}}}",
                class.form,
                class.needs.len(),
                class.packs.len()
            ));
        }
        let (mut rows, mut folded) = (Vec::new(), BTreeMap::<usize, String>::new());
        for (index, variant) in variants.iter().enumerate() {
            // Kernels without loops, which are listed alone, are not folded.
            let of = kernel.variants.get(index).filter(|_| variants.len() == kernel.variants.len());
            let of = of.and_then(|_| kernel.folded(index));
            let name = match of {
                None => "0".to_owned(),
                Some(of) if folded.contains_key(&of) => folded[&of].clone(),
                Some(of) => {
                    let row = self.variant(rules, kernel.unfolded(of), kernel.variant(of), "0")?;
                    let name = format!("&{}[0]", self.array("tw_variant", &[row]));
                    folded.insert(of, name.clone());
                    name
                }
            };
            rows.push(self.variant(rules, index, variant, &name)?);
        }
        let (mut nodes, mut requires) = (Nodes::default(), Vec::new());
        for require in &kernel.requires {
            requires.push(self.require(rules, &mut nodes, require));
        }
        let tables = [
            (params.len(), self.array("tw_param", &params)),
            (names.len(), self.array("char *const", &names)),
            (forms.len(), self.array("tw_form", &forms)),
            (facts.len(), self.array("tw_fact", &facts)),
            (classes.len(), self.array("tw_class", &classes)),
            (rows.len(), self.array("tw_variant", &rows)),
            (packs.len(), self.array("tw_pack", packs)),
            (requires.len(), self.array("tw_require", &requires)),
        ];
        let nodes = self.array("tw_node", &nodes.rows);
        let empty_loops = (all_empty_loops.len(), self.array("tw_empty_loops", all_empty_loops));
        let listed = |(count, name): &(usize, String)| format!("{count}, {name}");
        let tables: Vec<String> = tables.iter().map(listed).collect();
        let name = format!("tw_kernel_{}", self.arrays);
        self.arrays += 1;
        let _ = writeln!(
            self.text,
            "static const tw_kernel {name} = {{{}, {}, {measure}, {nodes}, {}, UINT64_C({})}};\n",
            literal(&kernel.name),
            tables.join(", "),
            listed(&empty_loops),
            rules.alignment()
        );
        Ok(name)
    }

    fn forms(&mut self, rules: &Rules) -> Vec<String> {
        let mut all = Vec::new();
        for form in &rules.forms {
            let mut shapes = Vec::new();
            for shape in &form.tensors {
                let (extents, strides) = (self.sizes(&shape.extents), self.sizes(&shape.strides));
                shapes.push(format!("{{{}, {}, {extents}, {strides}}}", shape.arg, shape.extents.len()));
            }
            all.push(format!("{{{}, {}}}", shapes.len(), self.array("tw_shape", &shapes)));
        }
        all
    }

    /// Facts, each with the name that messages use for its subject: the name in the first variant that needs it.
    fn facts(&mut self, variants: &[Variant], rules: &Rules) -> Vec<String> {
        let mut all = Vec::new();
        for (index, check) in rules.facts.iter().enumerate() {
            let named = variants.iter().zip(&rules.variants).find_map(|(variant, alternative)| {
                let at = rules.classes[alternative.class].needs.iter().position(|need| *need == index)?;
                Some(name(&variant.program, &variant.program.needs[at]))
            });
            let named = literal(&named.unwrap_or_default());
            all.push(match check {
                Check::Divides { of, divisor } => {
                    format!("{{TW_DIVIDES, {named}, {}, {divisor}, 0, 0, 0}}", size(*of))
                }
                Check::AtMost { of, limit } => {
                    format!("{{TW_AT_MOST, {named}, {}, {}, 0, 0, 0}}", size(*of), int(*limit))
                }
                Check::AtLeast { of, limit } => {
                    format!("{{TW_AT_LEAST, {named}, {}, {}, 0, 0, 0}}", size(*of), int(*limit))
                }
                Check::Aligned { arg, bytes } => {
                    format!("{{TW_ALIGNED, {named}, {}, {bytes}, {arg}, 0, 0}}", size(Size::Unknown))
                }
                Check::Small { arg, distance, strides } => {
                    let (distance, strides) = (self.numbers("uint32_t", distance), self.sizes(strides));
                    format!("{{TW_SMALL, {named}, {}, 0, {arg}, {distance}, {strides}}}", size(Size::Unknown))
                }
            });
        }
        all
    }

    /// A function with this body, and its name.
    fn function(&mut self, returns: &str, parameters: &str, body: &str) -> String {
        let unused = parameters.split(", ").filter_map(|parameter| parameter.rsplit([' ', '*']).next());
        let unused = unused.filter(|name| !body.contains(*name)).map(|name| format!("    (void){name};\n"));
        let unused: String = unused.collect();
        let at = index(&mut self.recorded, format!("{returns}({parameters}) {{\n{body}{unused}}}\n"));
        format!("tw_function_{at}")
    }

    /// The function that computes what estimates read from the sizes of a launch, or 0.
    fn measure(&mut self, rules: &Rules) -> String {
        let recording = Recording::default();
        let size = |of: usize| Some(recording.number(format!("tw_natural(sizes, {of})")));
        let mut uses = Vec::new();
        for (index, count) in rules.counts.iter().enumerate() {
            uses.extend(count.number(&size).map(|count| (format!("of->counts[{index}] = "), count)));
        }
        for (index, moved) in rules.moved.iter().enumerate() {
            let Traffic { bytes, alignment } = Traffic::of(moved, &size);
            uses.extend(bytes.map(|bytes| (format!("of->bytes[{index}] = "), bytes)));
            uses.extend(alignment.map(|alignment| (format!("of->alignment[{index}] = "), alignment)));
        }
        match uses.is_empty() {
            true => "0".into(),
            false => self.function("void", "const tw_bound *sizes, tw_operands *of", &recording.body(&uses)),
        }
    }

    /// The function that estimates the clocks of a variant, and the numbers of the variant that it reads, or zeros.
    fn estimate(&mut self, rules: &Rules, rule: Option<&cost::Rule>) -> String {
        let recording = Recording::default();
        let launch = Launch { rules, recording: &recording, own: RefCell::default() };
        let Some(terms) = rule.and_then(|rule| rule.terms(&launch)) else { return "0, 0".into() };
        let body = recording.body(&[("return ".into(), terms.clocks)]);
        let parameters = "const uint32_t *own, const tw_operands *of, const tw_limits *limits";
        let name = self.function("tw_count", parameters, &body);
        let own = self.numbers("uint32_t", &launch.own.into_inner());
        format!("{name}, {own}")
    }

    /// The row of a variant, with the program's grid and parameters; `folded` is the address of the row with all blocks along x.
    fn variant(&mut self, rules: &Rules, index: usize, variant: &Variant, folded: &str) -> Result<String, E> {
        let (program, alternative) = (&variant.program, &rules.variants[index]);
        let launch = &program.launch;
        let estimate = self.estimate(rules, alternative.cost.as_ref());
        let cuts = u8::from(alternative.cost.as_ref().is_some_and(cost::Rule::cuts));
        let clocks = launch.cost.map_or(0, |cost| cost.launch);
        let axes = launch
            .grid
            .each_ref()
            .map(|axis| axis.iter().map(|value| known(rules, *value)).collect::<Vec<_>>());
        let grid = axes.each_ref().map(|axis| self.array("tw_size", axis));
        let counts = axes.map(|axis| axis.len().to_string());
        let product = |axis: &Vec<tilewright_layout::Value>| {
            literal(&axis.iter().map(ToString::to_string).collect::<Vec<_>>().join("*"))
        };
        let texts: Vec<String> = launch.grid.iter().map(product).collect();
        let parameters = self.parameters(rules, program);
        let count = parameters.len();
        let parameters = self.array("tw_parameter", &parameters);
        let mut images = Vec::new();
        for Image { arch, exact, ptx, mut bytes } in (self.images)(variant)? {
            if ptx {
                bytes.push(0);
            }
            let (exact, ptx) = (u8::from(exact), u8::from(ptx));
            let block = super::lz4::packed(&bytes);
            let name = self.numbers("unsigned char", &block);
            images.push(format!("{{{arch}, {exact}, {ptx}, {}, {}, {name}}}", bytes.len(), block.len()));
        }
        let binaries = self.array("tw_image", &images);
        let function = self.functions;
        self.functions += 1;
        let [x, y, z] = launch.cluster;
        Ok(format!(
            "{{{}, {}, {}, {}, {}, {estimate}, {cuts}, {clocks}, {{{}}}, {{{}}}, {{{}}}, {{{x}, {y}, {z}}}, {}, {}, {}, {}, {}, {count}, {parameters}, \
             {}, {binaries}, {function}, {folded}}}",
            literal(&crate::cuda::entry(program)),
            alternative.class,
            program.arch,
            u8::from(program.arch_specific),
            u8::from(alternative.competes),
            counts.join(", "),
            grid.join(", "),
            texts.join(", "),
            launch.threads,
            launch.shared_bytes,
            launch.blocks_per_sm,
            u8::from(launch.persistent),
            u8::from(launch.overlaps),
            images.len(),
        ))
    }

    fn parameters(&mut self, rules: &Rules, program: &Kernel) -> Vec<String> {
        let mut all = Vec::new();
        for (index, param) in program.params.iter().enumerate() {
            all.push(match param {
                Param::Pointer { .. } => format!("{{TW_TENSOR, {index}, {}, 0, 0}}", size(Size::Unknown)),
                Param::Workspace { elem, shape, zeroed, .. } => {
                    let kind = if *zeroed { "ZEROED" } else { "WORKSPACE" };
                    let factors: Vec<String> = shape.iter().map(|extent| known(rules, *extent)).collect();
                    let row = format!(
                        "{{{}, {}, {}}}",
                        factors.len(),
                        self.array("tw_size", &factors),
                        elem.bytes()
                    );
                    let memory = self.array("tw_memory", &[row]);
                    format!("{{TW_{kind}, 0, {}, 0, &{memory}[0]}}", size(Size::Unknown))
                }
                Param::Scalar { .. } => format!("{{TW_SCALAR, {index}, {}, 0, 0}}", size(Size::Unknown)),
                Param::Int { symbol, .. } => {
                    let value =
                        known(rules, tilewright_layout::Value::Sym { times: 1, of: *symbol, over: 1 });
                    format!("{{TW_INT, 0, {value}, 0, 0}}")
                }
                Param::TensorMap { tensor, tile, steps, modes, swizzle, .. } => {
                    let Some(Param::Pointer { name, elem, shape, stride, .. }) =
                        program.params.get(*tensor as usize)
                    else {
                        unreachable!("a tensor map describes a pointer")
                    };
                    let of = |values: &[tilewright_layout::Value]| -> Vec<String> {
                        modes.iter().map(|&mode| known(rules, values[usize::from(mode)])).collect()
                    };
                    let (extents, strides) = (of(shape), of(stride));
                    let extents = self.array("tw_size", &extents);
                    let strides = self.array("tw_size", &strides);
                    let reach: Vec<u32> =
                        tile.iter().zip(steps).map(|(&tile, &step)| (tile - 1) * step + 1).collect();
                    let tile = self.numbers("uint32_t", &reach);
                    let steps = self.numbers("uint32_t", steps);
                    let map = format!(
                        "{{{}, {}, {}, {extents}, {strides}, {tile}, {steps}, {swizzle}, {}}}",
                        constant(*elem),
                        elem.bytes(),
                        modes.len(),
                        literal(name)
                    );
                    let map = self.array("tw_map", &[map]);
                    format!("{{TW_MAP, {tensor}, {}, &{map}[0], 0}}", size(Size::Unknown))
                }
            });
        }
        all
    }

    fn require(&mut self, rules: &Rules, nodes: &mut Nodes, require: &Require) -> String {
        let test = nodes.test(rules, &require.test);
        let of = require.of.and_then(|of| number(rules, of)).map_or(-1, |index| index as i64);
        let computed = match (&require.test, require.of) {
            (Test::Equal(_, value), Some(_)) => nodes.integer(rules, value) as i64,
            _ => -1,
        };
        let symbols = require.test.integers().into_iter().flat_map(Affine::symbols);
        let sizes: Vec<usize> = symbols.filter_map(|symbol| number(rules, symbol)).collect();
        let list = self.numbers("int", &sizes);
        let (divides, divided, divisor) = match require.divides() {
            Some((of, n)) => (1, known(rules, of), n),
            None => (0, size(Size::Unknown), 1),
        };
        let mut equals = Vec::new();
        if let Test::Equal(a, b) = &require.test {
            // The required value of a size, from the other side.
            for (own, other) in [(a, b), (b, a)] {
                if let Some(tilewright_layout::Value::Sym { times: 1, of, over: 1 }) = own.size()
                    && let Some(index) = number(rules, of)
                {
                    let node = nodes.integer(rules, other);
                    equals.push(format!("{{{index}, {node}}}"));
                }
            }
        }
        let equal = self.array("tw_equal", &equals);
        format!(
            "{{{}, {of}, {test}, {computed}, {}, {list}, {divides}, {divided}, {}, {}, {equal}}}",
            literal(&require.text),
            sizes.len(),
            int(divisor),
            equals.len()
        )
    }
}

fn param(Named { name, elem, tensor }: &Named, used: bool) -> String {
    let (written, rank) = tensor.unwrap_or((false, 0));
    format!(
        "{{{}, {}, {}, {}, {}, {rank}}}",
        literal(name),
        constant(*elem),
        u8::from(tensor.is_some()),
        u8::from(written),
        u8::from(used)
    )
}

/// The subject of a fact, as messages call it.
fn name(program: &Kernel, fact: &Fact) -> String {
    match fact {
        Fact::Divides(need) => need.of.to_string(),
        Fact::AtMost { of, .. } | Fact::AtLeast { of, .. } => of.to_string(),
        Fact::Aligned { param, .. } | Fact::Small { param, .. } => {
            match program.params.get(*param as usize) {
                Some(Param::Pointer { name, .. } | Param::Scalar { name, .. }) => name.clone(),
                _ => String::new(),
            }
        }
    }
}
