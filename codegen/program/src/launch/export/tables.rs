//! The rules of launches as tables of C.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::cost;
use super::super::refusal::Refusal;
use super::super::rules::{Alternative, Arguments, Rules, Size};
use super::functions::Functions;
use super::text::literal;
use super::{Image, constant};
use crate::launch::definition::{Generated, Pack, Param as Named, Variant};
use crate::launch::message::{Message, Piece};
use crate::launch::number::Natural;
use crate::launch::pack::{ALIGNED, ELSEWHERE};
use crate::launch::why::{Why, unmet};
use crate::thread::{Kernel, Param};
use crate::values::elem::Elem;
use crate::values::target::STATIC_SHARED;
use tilewright_layout::{Symbol, Value};

/// The binaries of a variant.
type Images<'i, E> = &'i mut dyn FnMut(&Variant) -> Result<Vec<Image>, E>;

/// Tables under construction.
pub(super) struct Tables<'i, E> {
    images: Images<'i, E>,
    text: String,
    arrays: usize,
    functions: usize,
    recorded: Functions,
    /// The largest number of sizes, facts, counts, reads, packs, classes, parameters and operands of a kernel.
    most: [usize; 8],
}

/// A size.
fn size(of: Size) -> String {
    match of {
        Size::Int(n) => format!("{{{}, -1, 1}}", int(n)),
        Size::Of { times, of, over } => format!("{{{}, {of}, {over}}}", int(times)),
        Size::Unknown => "{0, -2, 1}".into(),
    }
}

/// No size.
const NONE: &str = "{0, -2, 1}";

/// A size of a kernel, by its number.
fn known(rules: &Rules, value: Value) -> String {
    match value {
        Value::Int(n) => size(Size::Int(n)),
        Value::Sym { times, of, over } => match number(rules, of) {
            Some(of) => size(Size::Of { times, of, over }),
            None => NONE.into(),
        },
        Value::Basis { .. } | Value::Any => NONE.into(),
    }
}

fn number(rules: &Rules, symbol: Symbol) -> Option<usize> {
    rules.symbols.iter().position(|known| *known == symbol)
}

/// A literal: the least integer is none in C.
fn int(n: i64) -> String {
    if n == i64::MIN { "INT64_MIN".into() } else { format!("INT64_C({n})") }
}

/// The element types, by their numbers.
pub(super) fn types() -> String {
    let rows: Vec<String> = Elem::all()
        .map(|elem| format!("    {{\"{elem}\", {}, {}}},\n", elem.bytes(), elem.dlpack()))
        .collect();
    format!(
        "\nstatic const struct {{\n    const char *name;\n    uint32_t bytes;\n    uint8_t dlpack; /* its type's code */\n}} tw_types[] = {{\n{}}};\n",
        rows.concat()
    )
}

impl<'i, E: From<Refusal>> Tables<'i, E> {
    pub(super) fn new(images: Images<'i, E>) -> Tables<'i, E> {
        Tables {
            images,
            text: String::new(),
            arrays: 0,
            functions: 0,
            most: [1; 8],
            recorded: Functions::default(),
        }
    }

    pub(super) fn text(&self) -> String {
        self.recorded.text() + &self.text
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
        text + &format!(
            "\n/* Bytes of shared memory that a block has without asking; a multiple that copies begin at; and where a copy is assumed \
             to be\n   while its own launch is planned. */\n#define TW_STATIC_SHARED {STATIC_SHARED}\n#define TW_COPY_ALIGNED {ALIGNED}\n\
             #define TW_ELSEWHERE UINT64_C({ELSEWHERE})\n"
        )
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
            let Some(variant) = empty_loops.variant() else {
                all_empty_loops.push("{0, 0}".to_owned());
                continue;
            };
            let rules_without = Rules::new(std::slice::from_ref(variant), &[], &|_| None);
            let name = self.table(kernel, std::slice::from_ref(variant), &rules_without, None)?;
            let sizes: Vec<i64> = rules_without
                .symbols
                .iter()
                .map(|symbol| number(&rules, *symbol).map_or(-1, |index| index as i64))
                .collect();
            let sizes = self.numbers("int", &sizes);
            all_empty_loops.push(format!("{{&{name}, {sizes}}}"));
        }
        self.table(kernel, &kernel.variants, &rules, Some([&packs, &all_empty_loops]))
    }

    fn pack(&mut self, pack: &Pack) -> Result<String, E> {
        let kernel = self.kernel(&pack.kernel)?;
        let copied = self.recorded.copied(pack);
        Ok(format!("{{{}, {copied}, &{kernel}, {}}}", pack.arg, pack.beside))
    }

    /// The table of some variants, and its name. `more` are the packs and the kernels without loops of all variants; a kernel without
    /// loops, which is alone, has no checks of its own.
    fn table(
        &mut self,
        kernel: &Generated,
        variants: &[Variant],
        rules: &Rules,
        more: Option<[&[String]; 2]>,
    ) -> Result<String, E> {
        let [packs, all_empty_loops] = more.unwrap_or([&[], &[]]);
        let operands = 1 + rules.classes.iter().map(|class| 2 + class.packs.len()).sum::<usize>();
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
        let needs = |arg, mode| rules.variants.is_empty() || rules.needs_elements(arg, mode);
        let params =
            kernel.params.iter().enumerate().map(|(arg, named)| param(named, &|mode| needs(arg, mode)));
        let params: Vec<String> = params.collect();
        let (mut check, mut forms, mut apart) = ("0".to_owned(), Vec::new(), "0".to_owned());
        if more.is_some() {
            check = self.recorded.check(kernel, rules);
            apart = self.recorded.apart(kernel);
            let bind = |form| format!("{{{}}}", self.recorded.bind(kernel, rules, form));
            forms = (0..rules.forms.len()).map(bind).collect();
        }
        let facts = self.facts(variants, rules);
        let (derive, recorded) = (self.recorded.derive(rules), self.recorded.recorded(rules));
        let limits = rules.variants.first().map_or(Vec::new(), |first| rules.limits(first.class));
        let limits: Vec<usize> = limits.into_iter().map(|(_, fact)| fact).collect();
        let mut classes = Vec::new();
        for class in &rules.classes {
            let [needs, kept] = [&class.needs, &class.kept].map(|facts| self.numbers("int", facts));
            let along = class.packs.iter().find(|pack| kernel.packs[**pack].transposes);
            let rows = along.map_or("0".into(), |pack| {
                let reason: Message<Natural> = Why::Rows(*pack).message(kernel, &variants[0].program);
                literal(&reason.text())
            });
            let copies = self.recorded.copies(kernel, class);
            let (form, all, of_copies) = (class.form, class.needs.len(), class.kept.len());
            classes.push(format!("{{{form}, {all}, {needs}, {of_copies}, {kept}, {rows}, {copies}}}"));
        }
        let (mut rows, mut folded) = (Vec::new(), BTreeMap::<usize, String>::new());
        for (index, variant) in variants.iter().enumerate() {
            let of = Some(variant).filter(|variant| more.is_some() && !variant.program.launch.persistent);
            let of = of.and_then(|_| kernel.folded(index));
            let name = match of {
                None => "0".to_owned(),
                Some(of) if folded.contains_key(&of) => folded[&of].clone(),
                Some(of) => {
                    let along_x = [rules.variants[kernel.unfolded(of)].grid.concat(), Vec::new(), Vec::new()];
                    let row =
                        self.variant(kernel, rules, kernel.unfolded(of), kernel.variant(of), &along_x, "0")?;
                    let name = format!("&{}[0]", self.array("tw_variant", &[row]));
                    folded.insert(of, name.clone());
                    name
                }
            };
            rows.push(self.variant(kernel, rules, index, variant, &rules.variants[index].grid, &name)?);
        }
        let (forms, of_params) = (self.array("tw_form", &forms), self.array("tw_param", &params));
        let tables = [
            (facts.len(), self.array("tw_fact", &facts)),
            (limits.len(), self.numbers("int", &limits)),
            (classes.len(), self.array("tw_class", &classes)),
            (rows.len(), self.array("tw_variant", &rows)),
            (packs.len(), self.array("tw_pack", packs)),
        ];
        let empty_loops = self.array("tw_empty_loops", all_empty_loops);
        let tables: Vec<String> = tables.iter().map(|(count, name)| format!("{count}, {name}")).collect();
        let name = format!("tw_kernel_{}", self.arrays);
        self.arrays += 1;
        let _ = writeln!(
            self.text,
            "static const tw_kernel {name} = {{{}, {}, {}, {}, {check}, {forms}, {apart}, {}, {derive}, {empty_loops}, \
             UINT64_C({}), {recorded}}};\n",
            literal(&kernel.name),
            params.len(),
            of_params,
            rules.symbols.len(),
            tables.join(", "),
            rules.alignment()
        );
        Ok(name)
    }

    /// Facts, each with the text of messages about it: the text of the first variant that needs it.
    fn facts(&mut self, variants: &[Variant], rules: &Rules) -> Vec<String> {
        let mut all = Vec::new();
        for (index, check) in rules.facts.iter().enumerate() {
            let of_variant = |(variant, alternative): (&Variant, &Alternative)| {
                let at = rules.classes[alternative.class].needs.iter().position(|need| *need == index)?;
                let value = check.is_false(&Unit).1;
                Some(unmet(&variant.program, &variant.program.needs[at], value))
            };
            let message: Option<Message<Natural>> = variants.iter().zip(&rules.variants).find_map(of_variant);
            let (mut texts, mut has_number) = ([String::new(), String::new()], false);
            for piece in message.map_or(Vec::new(), |message| message.0) {
                match piece {
                    Piece::Text(text) => texts[usize::from(has_number)] += &text,
                    _ => has_number = true,
                }
            }
            let [before, after] = texts.map(|text| literal(&text));
            all.push(if has_number { format!("{{{before}, {after}}}") } else { format!("{{{before}, 0}}") });
        }
        all
    }

    /// The row of a variant, with the program's parameters; `folded` is the address of the row with all blocks along x.
    fn variant(
        &mut self,
        kernel: &Generated,
        rules: &Rules,
        index: usize,
        variant: &Variant,
        grid: &[Vec<Size>; 3],
        folded: &str,
    ) -> Result<String, E> {
        let (program, alternative) = (&variant.program, &rules.variants[index]);
        let launch = &program.launch;
        let estimate = alternative.cost.as_ref().and_then(|rule| self.recorded.estimate(rules, rule));
        let estimate = estimate.map_or("0, 0".into(), |(function, constants)| {
            format!("{function}, {}", self.numbers("uint32_t", &constants))
        });
        let cuts = u8::from(alternative.cost.as_ref().is_some_and(cost::Rule::cuts));
        let clocks = launch.cost.map_or(0, |cost| cost.launch);
        let supported = self.recorded.supported(kernel, program, |arguments| {
            alternative.workspace_bytes(&|size| arguments.size(size))
        });
        let blocks = self.recorded.blocks(program, grid);
        let is_long = if folded == "0" { "0".into() } else { self.recorded.is_long(grid) };
        let parameters = self.parameters(rules, program);
        let count = parameters.len();
        let parameters = self.array("tw_parameter", &parameters);
        let mut images = Vec::new();
        for Image { arch, exact, ptx, mut bytes } in (self.images)(variant)? {
            if ptx {
                bytes.push(0);
            }
            let (exact, ptx) = (u8::from(exact), u8::from(ptx));
            let block = lz4_flex::block::compress(&bytes);
            let name = self.numbers("unsigned char", &block);
            images.push(format!("{{{arch}, {exact}, {ptx}, {}, {}, {name}}}", bytes.len(), block.len()));
        }
        let binaries = self.array("tw_image", &images);
        let function = self.functions;
        self.functions += 1;
        let [x, y, z] = launch.cluster;
        let (threads, shared_bytes) = (launch.threads, launch.shared_bytes);
        let [competes, overlaps] = [alternative.competes, launch.overlaps].map(u8::from);
        Ok(format!(
            "{{{}, {}, {}, {competes}, {}, {cuts}, {clocks}, {estimate}, {supported}, {blocks}, {is_long}, {folded}, \
             {{{x}, {y}, {z}}}, {threads}, {shared_bytes}, {overlaps}, {count}, {parameters}, {}, {binaries}, {function}}}",
            literal(&crate::cuda::entry(program)),
            alternative.class,
            program.arch,
            alternative.number,
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
                    let value = known(rules, Value::Sym { times: 1, of: *symbol, over: 1 });
                    format!("{{TW_INT, 0, {value}, 0, 0}}")
                }
                Param::TensorMap { tensor, tile, steps, modes, swizzle, .. } => {
                    let Some(Param::Pointer { name, elem, shape, stride, .. }) =
                        program.params.get(*tensor as usize)
                    else {
                        unreachable!("a tensor map describes a pointer")
                    };
                    let of = |values: &[Value]| -> Vec<String> {
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
}

fn param(Named { name, elem, tensor }: &Named, needs_elements: &dyn Fn(usize) -> bool) -> String {
    let is_tensor = u8::from(tensor.is_some());
    let rank = tensor.map_or(0, |(_, rank)| rank);
    let nonzero: u32 = (0..rank).filter(|mode| needs_elements(*mode)).map(|mode| 1 << mode).sum();
    format!("{{{}, {}, {is_tensor}, {nonzero}, {rank}}}", literal(name), constant(*elem))
}

/// Arguments of any launch.
struct Unit;

impl Arguments for Unit {
    type Number = Natural;

    fn extent(&self, _: usize, _: usize) -> Natural {
        Natural(1)
    }

    fn stride(&self, _: usize, _: usize) -> Natural {
        Natural(1)
    }

    fn address(&self, _: usize) -> Natural {
        Natural(0)
    }

    fn size(&self, _: usize) -> Option<Natural> {
        Some(Natural(1))
    }
}
