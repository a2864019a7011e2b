//! Names in the generated source: the user's own wherever C++ allows it, each meaning one thing where it is visible.

use std::collections::HashSet;

use super::{BUILTINS, prelude};
use crate::thread::{Bar, Id, Kernel, Param};

/// What is named where it is declared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    Var(Id),
    Reg(Id),
}

/// The names of a kernel's things.
pub(crate) struct Names {
    pub(crate) params: Vec<String>,
    pub(crate) shared: Vec<String>,
    pub(crate) bars: Vec<String>,
    pub(super) regs: Vec<String>,
    pub(super) vars: Vec<String>,
    pub(super) kernel: String,
    /// Names of the whole function.
    fixed: HashSet<String>,
    /// Names of variables and register arrays that are visible now; one list for each open block.
    open: Vec<Vec<(String, Thing)>>,
}

impl Names {
    pub(crate) fn of(kernel: &Kernel) -> Names {
        let mut fixed: HashSet<String> = KEYWORDS.iter().map(|word| word.to_string()).collect();
        fixed.extend(BUILTINS.iter().map(|row| row.1.to_string()));
        fixed.extend(prelude::names().map(str::to_string));
        fixed.insert(ARENA.to_string());
        let mut take = |wanted: &str| {
            let name = free(wanted, |name| !fixed.contains(name));
            fixed.insert(name.clone());
            name
        };
        Names {
            kernel: take(&kernel.name),
            params: kernel.params.iter().map(|param| take(param_name(param))).collect(),
            shared: kernel.shared.iter().map(|array| take(&array.name)).collect(),
            bars: kernel.bars.iter().map(|bar| bar_name(bar).map(&mut take).unwrap_or_default()).collect(),
            regs: vec![String::new(); kernel.regs.len()],
            vars: vec![String::new(); kernel.vars.len()],
            fixed,
            open: vec![Vec::new()],
        }
    }

    /// A block begins: names that it gives end with it.
    pub(super) fn open(&mut self) {
        self.open.push(Vec::new());
    }

    /// The block ends.
    pub(super) fn close(&mut self) {
        self.open.pop();
    }

    /// Names what is declared here.
    pub(super) fn declare(&mut self, thing: Thing, wanted: &str) -> String {
        let taken =
            |name: &str| self.fixed.contains(name) || self.open.iter().flatten().any(|open| open.0 == name);
        let name = free(wanted, |name| !taken(name));
        if let Some(block) = self.open.last_mut() {
            block.push((name.clone(), thing));
        }
        match thing {
            Thing::Var(id) => self.vars[id as usize] = name.clone(),
            Thing::Reg(id) => self.regs[id as usize] = name.clone(),
        }
        name
    }

    /// A name for what is declared and used within one line.
    pub(super) fn passing(&self, wanted: &str) -> String {
        free(wanted, |name| !self.fixed.contains(name))
    }

    /// A label that no other has.
    pub(super) fn label(&mut self, wanted: &str) -> String {
        let name = free(wanted, |name| !self.fixed.contains(name));
        self.fixed.insert(name.clone());
        name
    }

    /// Is it declared in this block or around it?
    pub(super) fn is_visible(&self, thing: Thing) -> bool {
        self.open.iter().flatten().any(|open| open.1 == thing)
    }
}

/// The name of the one array that stands for all shared memory.
pub(super) const ARENA: &str = "shared_memory";

fn param_name(param: &Param) -> &str {
    match param {
        Param::Pointer { name, .. }
        | Param::Int { name, .. }
        | Param::Scalar { name, .. }
        | Param::TensorMap { name, .. } => name,
    }
}

fn bar_name(bar: &Bar) -> Option<&str> {
    match bar {
        Bar::Mbarriers { name, .. } => Some(name),
        _ => None,
    }
}

/// The wanted name made an identifier, with a number behind it if need be.
fn free(wanted: &str, is_free: impl Fn(&str) -> bool) -> String {
    let mut name: String =
        wanted.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    // Two underscores, or one and a capital, are the compiler's.
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert(0, 'v');
    }
    if is_free(&name) {
        return name;
    }
    (2..).map(|n| format!("{name}_{n}")).find(|name| is_free(name)).unwrap_or(name)
}

/// Words that mean something to the compiler, among those that a Rust program may use as names.
const KEYWORDS: &[&str] = &[
    "abs",
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "blockDim",
    "blockIdx",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "concept",
    "const",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "cos",
    "cosf",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "exp",
    "exp2",
    "exp2f",
    "expf",
    "explicit",
    "export",
    "extern",
    "fabs",
    "fabsf",
    "false",
    "float",
    "fma",
    "fmaf",
    "fmax",
    "fmaxf",
    "fmin",
    "fminf",
    "fmod",
    "fmodf",
    "for",
    "friend",
    "goto",
    "gridDim",
    "if",
    "inline",
    "int",
    "log",
    "log2",
    "log2f",
    "logf",
    "long",
    "main",
    "max",
    "min",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "return",
    "rsqrt",
    "rsqrtf",
    "short",
    "signed",
    "sin",
    "sinf",
    "sizeof",
    "sqrt",
    "sqrtf",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "tanh",
    "tanhf",
    "template",
    "this",
    "threadIdx",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "warpSize",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
    "float2",
    "float4",
    "double2",
    "int2",
    "int4",
    "uint2",
    "uint4",
    "dim3",
    "clock",
    "printf",
    "assert",
];

#[cfg(test)]
mod tests {
    use super::free;

    #[test]
    fn names_become_identifiers() {
        let taken = ["float", "acc", "acc_2"];
        for (wanted, name) in [
            ("acc", "acc_3"),
            ("float", "float_2"),
            ("a.b", "a_b"),
            ("_x", "v_x"),
            ("2d", "v2d"),
            ("a__b", "a_b"),
            ("größe", "gr_e"),
            ("", "v"),
        ] {
            assert_eq!(free(wanted, |n| !taken.contains(&n)), name, "{wanted}");
        }
    }
}
