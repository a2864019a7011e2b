//! Instructions of the table: an inline PTX function for each row that the kernel uses, generated from the
//! row, and the calls.

use tilewright_layout::Layout;

use super::Printer;
use super::piece::Level;
use super::signature::WIDTH;
use crate::isa::atom::{Atom, Effect, Operand, OperandKind, OperandName};
use crate::thread::index::Ix;
use crate::thread::visit::preorder;
use crate::thread::{AtomArg, Mem, Op, Scope, Space, Stmt};
use crate::values::elem::Elem;

/// The layout field of matrix descriptors, by its values; see `prelude/wgmma.cuh`.
pub(super) const SWIZZLES: [&str; 4] = ["NO_SWIZZLE", "SWIZZLE_128B", "SWIZZLE_64B", "SWIZZLE_32B"];

/// Bytes of a unit in which matrix descriptors count.
const UNIT: i64 = 16;

impl Printer<'_> {
    /// A call of the row's function.
    pub(super) fn atom(&mut self, row: &'static Atom, args: &[AtomArg], guard: Option<Ix>) {
        let (mut constants, mut values) = (Vec::new(), Vec::new());
        for (operand, arg) in row.operands.iter().zip(args) {
            let text = match arg {
                AtomArg::At(mem) if self.by_number && operand.kind == OperandKind::SharedAddress => {
                    self.number(mem)
                }
                _ => self.argument(operand, arg),
            };
            if operand.kind == OperandKind::Immediate { constants.push(text) } else { values.push(text) }
        }
        let constants =
            if constants.is_empty() { String::new() } else { format!("<{}>", constants.join(", ")) };
        self.call(guard, &format!("{}{constants}", row.name), &values);
    }

    fn argument(&mut self, operand: &Operand, arg: &AtomArg) -> String {
        match arg {
            AtomArg::Frag(frag) => {
                let pointer = self.pointer(*frag);
                let reg = &self.kernel.regs[frag.reg as usize];
                let takes_words = operand.kind == OperandKind::Frag { words: true };
                // The instruction takes words and this is an array of elements, which its accesses have
                // aligned.
                if takes_words && !reg.words { format!("(unsigned*){pointer}") } else { pointer }
            }
            AtomArg::At(mem) => self.address(mem),
            AtomArg::Descriptor { at, leading, stride, mode } => {
                let swizzle = SWIZZLES[usize::from(*mode) % SWIZZLES.len()];
                let constants = format!("matrix_descriptor<{leading}, {stride}, {swizzle}>");
                match self.units(at) {
                    Some((name, units)) => format!("{constants}({name}, {units})"),
                    None => format!("{constants}({})", self.address(at)),
                }
            }
            AtomArg::Map { param, at } => {
                let mut text = format!("&{}", self.names.params[*param as usize]);
                for &coordinate in at {
                    text = text + ", " + &self.int(coordinate);
                }
                text
            }
            AtomArg::Barrier { bar, slot } => self.mbarrier(*bar, *slot),
            AtomArg::Int(at) => self.int_piece(*at).at(Level::Ternary),
        }
    }

    /// An address in shared memory in the units of descriptors: the array, and the offset from its start in units of 16 bytes.
    fn units(&mut self, mem: &Mem) -> Option<(String, String)> {
        let (Space::Shared(id), None) = (mem.space, mem.peer) else { return None };
        let elements = self.kernel.shared[id as usize].elem.elements_in(UNIT);
        let units = self.exprs.exact(mem.index, elements)?;
        let mut terms = Vec::new();
        self.exprs.terms(mem.index, &mut terms);
        for term in terms {
            if let Some(product) = self.exprs.exact(term, elements) {
                self.exprs.name_product(product, term, 1, elements);
            }
        }
        let units = self.in_array(Some(id), |printer| printer.int(units));
        Some((self.names.shared[id as usize].clone(), units))
    }

    /// The functions of all rows in use, in the order of their first use.
    pub(super) fn atom_functions(&self) -> String {
        rows(&self.kernel.body).iter().map(|row| function(row, self.by_number)).collect::<Vec<_>>().join("\n")
    }

    /// An address in shared memory as an integer.
    fn number(&mut self, mem: &Mem) -> String {
        let (Space::Shared(id), None) = (mem.space, mem.peer) else {
            return format!("shared_address({})", self.address(mem));
        };
        let (name, bytes) =
            (self.names.shared[id as usize].clone(), self.kernel.shared[id as usize].elem.bytes());
        self.in_array(Some(id), |printer| printer.bytes_from(&name, bytes, mem))
    }

    /// An address in a shared array of elements of this size.
    fn bytes_from(&mut self, name: &str, bytes: u32, mem: &Mem) -> String {
        let mut terms = Vec::new();
        self.exprs.terms(mem.index, &mut terms);
        match (self.exprs.constant(mem.index), bytes, &terms[..]) {
            (Some(0), ..) => format!("shared_address({name})"),
            (_, 1, _) => format!("shared_address({name}) + {}", self.int_piece(mem.index).at(Level::Product)),
            (_, _, [_]) => {
                format!("shared_address({name}) + {bytes} * {}", self.int_piece(mem.index).at(Level::Unary))
            }
            // Compilers do not distribute the factor over the terms. Constant and uniform terms become offsets of
            // instructions.
            (_, _, terms) => {
                let factor = i64::from(bytes);
                let (zero, bytes) = (self.exprs.int(0), self.exprs.int(factor));
                let sum = terms.iter().fold(zero, |sum, &term| {
                    let product = self.exprs.mul(term, bytes);
                    self.exprs.name_product(product, term, factor, 1);
                    self.exprs.add(sum, product)
                });
                format!("shared_address({name}) + {}", self.int_piece(sum).at(Level::Sum))
            }
        }
    }
}

/// Does a kernel use ldmatrix? Many of its addresses differ by constant offsets. Compilers fold such offsets
/// into instructions if addresses are integers, but not if each is computed from a pointer.
pub(super) fn loads_matrices(body: &[Stmt]) -> bool {
    rows(body).iter().any(|row| row.effect == Effect::Copy && row.family.issued_by == Scope::Warp)
}

/// The rows that statements use, in the order of their first use.
pub(super) fn rows(body: &[Stmt]) -> Vec<&'static Atom> {
    let mut rows: Vec<&'static Atom> = Vec::new();
    for stmt in preorder(body) {
        if let Op::Atom { row, .. } = &stmt.op
            && !rows.iter().any(|known| known.name == row.name)
        {
            rows.push(row);
        }
    }
    rows
}

/// An operand of inline assembly: the constraint and the C expressions.
struct Slots {
    name: OperandName,
    constraint: &'static str,
    exprs: Vec<String>,
    /// Written and, for a matrix product, read.
    output: Option<&'static str>,
}

fn slots(row: &Atom, operand: &Operand, by_number: bool) -> Slots {
    let name = operand.name;
    let input = |constraint, exprs| Slots { name, constraint, exprs, output: None };
    let shared = |pointer: OperandName| vec![format!("shared_address({pointer})")];
    match operand.kind {
        OperandKind::Frag { words } => {
            let exprs = (0..registers(operand, words)).map(|at| format!("{name}[{at}]")).collect();
            let accumulates = matches!(row.effect, Effect::Mma { .. });
            let output = operand.writes.then_some(if accumulates { "+" } else { "=" });
            Slots { name, constraint: register(operand.elem, words).1, exprs, output }
        }
        OperandKind::SharedAddress if by_number => input("r", vec![name.to_string()]),
        OperandKind::SharedAddress | OperandKind::Barrier => input("r", shared(name)),
        OperandKind::GlobalAddress | OperandKind::Descriptor => input("l", vec![name.to_string()]),
        OperandKind::TensorMap { rank } => {
            // The map is an address and the coordinates are integers: two kinds of constraint.
            let coordinates = (0..rank).map(|at| format!("{name}{at}"));
            input("l", std::iter::once(name.to_string()).chain(coordinates).collect())
        }
        OperandKind::Int => input("r", vec![name.to_string()]),
        OperandKind::Immediate => input("n", vec![name.to_string()]),
    }
}

/// The C type and the constraint of one register.
fn register(elem: Elem, words: bool) -> (&'static str, &'static str) {
    match elem {
        Elem::F64 => ("double", "d"),
        Elem::F32 if !words => ("float", "f"),
        Elem::I32 if !words => ("int", "r"),
        _ => ("unsigned", "r"),
    }
}

/// How many registers of a thread an operand takes: the values of its layout, packed.
pub(crate) fn registers(operand: &Operand, words: bool) -> u32 {
    let values =
        operand.tv.parse::<Layout>().ok().and_then(|tv| tv.mode(1).ok()?.size().ok()).unwrap_or(1) as u32;
    if words { operand.elem.bytes_of(values).div_ceil(4) } else { values }
}

fn parameter(operand: &Operand, by_number: bool) -> Option<String> {
    let name = operand.name;
    let constant = if operand.writes { "" } else { "const " };
    Some(match operand.kind {
        OperandKind::Frag { words } => format!("{constant}{}* {name}", register(operand.elem, words).0),
        OperandKind::SharedAddress if by_number => format!("unsigned {name}"),
        OperandKind::SharedAddress | OperandKind::GlobalAddress => format!("{constant}void* {name}"),
        OperandKind::Descriptor => format!("unsigned long long {name}"),
        OperandKind::TensorMap { rank } => {
            let coordinates: String = (0..rank).map(|at| format!(", int {name}{at}")).collect();
            format!("const TensorMap* {name}{coordinates}")
        }
        OperandKind::Barrier => format!("unsigned long long* {name}"),
        OperandKind::Int => format!("int {name}"),
        OperandKind::Immediate => return None,
    })
}

/// The function of a row.
fn function(row: &Atom, by_number: bool) -> String {
    let all: Vec<Slots> = row.operands.iter().map(|operand| slots(row, operand, by_number)).collect();
    let (outputs, inputs): (Vec<&Slots>, Vec<&Slots>) = all.iter().partition(|slot| slot.output.is_some());

    // Inline assembly numbers its operands in the order outputs, inputs.
    let (mut lists, mut first) = ([Vec::new(), Vec::new()], 0);
    let mut numbers = Vec::new();
    for (slot, list) in outputs.iter().map(|slot| (slot, 0)).chain(inputs.iter().map(|slot| (slot, 1))) {
        for (at, expr) in slot.exprs.iter().enumerate() {
            let is_coordinate = at > 0 && slot.constraint == "l";
            let constraint = if is_coordinate { "r" } else { slot.constraint };
            lists[list].push(format!("\"{}{constraint}\"({expr})", slot.output.unwrap_or("")));
        }
        numbers.push((slot.name, first, slot.exprs.len()));
        first += slot.exprs.len();
    }

    let mut text = row.ptx.to_string();
    for (operand, (name, first, len)) in row
        .operands
        .iter()
        .filter_map(|operand| Some((operand, *numbers.iter().find(|n| n.0 == operand.name)?)))
    {
        let list =
            |from: usize, to: usize| (from..to).map(|n| format!("%{n}")).collect::<Vec<_>>().join(", ");
        let all = list(first, first + len);
        let shown = match operand.kind {
            OperandKind::Frag { .. } => format!("{{{all}}}"),
            OperandKind::TensorMap { rank } if rank > 0 => {
                format!("%{first}, {{{}}}", list(first + 1, first + len))
            }
            _ => all.clone(),
        };
        for at in (0..len).rev() {
            text = text.replace(&format!("#{name}{at}"), &list(first + at, first + at + 1));
        }
        text = text.replace(&format!("${name}"), &shown).replace(&format!("#{name}"), &all);
    }

    let constants: Vec<String> = row
        .operands
        .iter()
        .filter(|operand| operand.kind == OperandKind::Immediate)
        .map(|operand| format!("int {}", operand.name))
        .collect();
    let template =
        if constants.is_empty() { String::new() } else { format!("template <{}>\n", constants.join(", ")) };
    let params: Vec<String> =
        row.operands.iter().filter_map(|operand| parameter(operand, by_number)).collect();
    let clobber = if row.clobbers_memory() { "\"memory\"" } else { "" };
    // Compilers may move or merge instructions that depend on registers alone.
    let pure = matches!(
        row.effect,
        Effect::Convert | Effect::Unpack(_) | Effect::FunnelShift | Effect::Multiply | Effect::Subtract
    );
    let keyword = if pure { "asm" } else { "asm volatile" };
    format!(
        "{}__device__ __forceinline__ {} {{\n{}}}\n",
        template,
        declaration(row.name, &params),
        statement(keyword, &text, &lists[0], &lists[1], clobber)
    )
}

/// The function's name and parameters.
fn declaration(name: &str, params: &[String]) -> String {
    let whole = format!("void {name}({})", params.join(", "));
    if whole.len() + "__device__ __forceinline__  {".len() <= WIDTH {
        return whole;
    }
    format!("void {name}(\n    {})", params.join(", "))
}

/// The assembly, on one line if it fits.
fn statement(keyword: &str, text: &str, outputs: &[String], inputs: &[String], clobber: &str) -> String {
    let join = |list: &[String]| list.join(", ");
    let short = format!("    {keyword}(\"{text}\" : {} : {} : {clobber});\n", join(outputs), join(inputs));
    let short = short.replace(" :  : );", ");").replace(" : );", ");").replace(":  :", "::");
    if short.len() <= WIDTH {
        return short;
    }
    let clobber = if clobber.is_empty() { String::new() } else { format!("\n        : {clobber}") };
    let operands = format!("        :{}\n        :{}{clobber});\n", wrapped(outputs), wrapped(inputs));
    format!("    {keyword}(\n{}\n{operands}", quoted(text)).replace("        :\n        :", "        ::")
}

/// The assembly as string literals of readable length.
fn quoted(text: &str) -> String {
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_inclusive(' ') {
        match lines.last_mut() {
            // An instruction ends with its line.
            Some(line) if line.len() + word.len() + 10 <= WIDTH && !line.ends_with("; ") => {
                line.push_str(word)
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines.iter().map(|line| format!("        \"{line}\"")).collect::<Vec<_>>().join("\n")
}

/// A list of operands, broken into lines.
fn wrapped(list: &[String]) -> String {
    let mut text = String::new();
    let mut column = 9;
    for (at, item) in list.iter().enumerate() {
        let comma = if at + 1 < list.len() { "," } else { "" };
        if column + item.len() + 2 > WIDTH {
            text += "\n         ";
            column = 9;
        }
        text += &format!(" {item}{comma}");
        column += item.len() + 2;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa;

    /// Parts of instructions that compute in registers alone.
    const COMPUTE: [&str; 18] = [
        "mma.sync", "mov", "mad", "fma", "cvt", "mul", "sub", "add", "and", "or", "xor", "lop3", "prmt",
        "shr", "shl", "shf", "setp", "selp",
    ];

    /// An instruction that accesses memory or orders accesses, and lets compilers move accesses across it.
    fn is_porous(row: &Atom) -> bool {
        let name = |line: &str| line.trim().trim_start_matches('{').trim().to_owned();
        let computes =
            |line: &String| COMPUTE.iter().any(|of| line.starts_with(of)) || line.starts_with(".reg");
        let mut lines = row.ptx.split([';', '\n']).map(name).filter(|line| line.len() > 1);
        let orders = !lines.all(|line| computes(&line));
        orders && !function(row, false).contains("\"memory\"")
    }

    #[test]
    fn instructions_that_order_memory_clobber_it() {
        let porous: Vec<_> = isa::all().filter(|row| is_porous(row)).map(|row| (row.name, row.ptx)).collect();
        assert!(porous.is_empty(), "{porous:?}");
        for ptx in ["fence.acq_rel.gpu;", "cp.async.bulk.commit_group;", "st.release.gpu.global.b32 [#a], 1;"]
        {
            let planted = Atom {
                name: "planted",
                arch: 80,
                arch_specific: false,
                family: &crate::isa::family::THREAD,
                ptx,
                operands: &[],
                effect: Effect::Hint,
            };
            assert!(is_porous(&planted), "{ptx}");
        }
    }
}
