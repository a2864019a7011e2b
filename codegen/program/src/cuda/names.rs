//! Names in the generated source: the user's own wherever C++ allows it, each unambiguous in its scope.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::asm::{SWIZZLES, rows};
use super::{BUILTINS, prelude};
use crate::thread::{Bar, Id, Kernel};

/// An entity that is named where it is declared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Thing {
    Var(Id),
    Reg(Id),
}

/// The names of a kernel's things.
pub struct Names {
    /// Of the parameters.
    pub params: Vec<String>,
    /// Of the arrays in shared memory.
    pub shared: Vec<String>,
    /// Of the mbarriers.
    pub bars: Vec<String>,
    pub(super) regs: Vec<String>,
    pub(super) vars: Vec<String>,
    pub(super) kernel: String,
    /// The names in scope.
    taken: Taken,
    /// The declarations of each open block.
    open: Vec<Vec<(String, Thing)>>,
    /// The same as a set.
    visible: HashSet<Thing>,
}

impl Names {
    /// The names of this kernel.
    pub fn of(kernel: &Kernel) -> Names {
        let mut taken = Taken::default();
        taken.names.extend(rows(&kernel.body).iter().map(|row| row.name.to_string()));
        let name = entry_name(&mut taken, &kernel.name);
        let mut take = |wanted: &str| taken.take(wanted);
        Names {
            kernel: name,
            params: kernel.params.iter().map(|param| take(param.name())).collect(),
            shared: kernel.shared.iter().map(|array| take(&array.name)).collect(),
            bars: kernel.bars.iter().map(|bar| bar_name(bar).map(&mut take).unwrap_or_default()).collect(),
            regs: vec![String::new(); kernel.regs.len()],
            vars: vec![String::new(); kernel.vars.len()],
            taken,
            open: vec![Vec::new()],
            visible: HashSet::new(),
        }
    }

    /// Opens a scope.
    pub(super) fn open(&mut self) {
        self.open.push(Vec::new());
    }

    /// Closes the scope.
    pub(super) fn close(&mut self) {
        for (name, thing) in self.open.pop().unwrap_or_default() {
            self.taken.give_back(&name);
            self.visible.remove(&thing);
        }
    }

    /// A name for a declared thing of the open block.
    pub(super) fn declare(&mut self, thing: Thing, wanted: &str) -> String {
        let name = self.taken.take(wanted);
        if let Some(block) = self.open.last_mut() {
            block.push((name.clone(), thing));
            self.visible.insert(thing);
        }
        match thing {
            Thing::Var(id) => self.vars[id as usize] = name.clone(),
            Thing::Reg(id) => self.regs[id as usize] = name.clone(),
        }
        name
    }

    /// A name whose scope is one line.
    pub(super) fn passing(&mut self, wanted: &str) -> String {
        let name = self.taken.take(wanted);
        self.taken.give_back(&name);
        name
    }

    /// A name that is unique in the kernel.
    pub(super) fn unique(&mut self, wanted: &str) -> String {
        self.taken.take(wanted)
    }

    /// Is it declared in this block or around it?
    pub(super) fn is_visible(&self, thing: Thing) -> bool {
        self.visible.contains(&thing)
    }
}

/// Names that are taken in every kernel.
static RESERVED: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let builtins = BUILTINS.iter().map(|row| row.1);
    let ours = prelude::names().chain(SWIZZLES).chain([ARENA]);
    KEYWORDS.iter().copied().chain(builtins).chain(ours).collect()
});

/// The other taken names, and where to look for the next free number of a name.
#[derive(Default)]
struct Taken {
    names: HashSet<String>,
    /// For a wanted name: no number below this is free.
    next: HashMap<String, u64>,
}

impl Taken {
    /// The wanted name, or the first of `name_2`, `name_3` … that is free; taken from now on.
    fn take(&mut self, wanted: &str) -> String {
        let wanted = identifier(wanted);
        let next = self.next.entry(wanted.clone()).or_insert(1);
        let name = loop {
            let name = if *next == 1 { wanted.clone() } else { format!("{wanted}_{next}") };
            *next += 1;
            if !self.names.contains(&name) && !RESERVED.contains(name.as_str()) {
                break name;
            }
        };
        self.names.insert(name.clone());
        name
    }

    /// The name is free again: the search for one like it begins anew.
    fn give_back(&mut self, name: &str) {
        self.names.remove(name);
        let (start, number) = name.rsplit_once('_').unwrap_or((name, ""));
        let lower = |next: &mut u64, to: u64| *next = to.min(*next);
        self.next.entry(name.to_owned()).and_modify(|next| lower(next, 1));
        if let Ok(number) = number.parse::<u64>() {
            self.next.entry(start.to_owned()).and_modify(|next| lower(next, number.max(1)));
        }
    }
}

/// The name of the shared memory arena.
pub(super) const ARENA: &str = "shared_memory";

/// A line of a comment: the only way for text that is no name into the source. Characters that could end the
/// line, or join it to the next, are replaced.
pub fn comment(text: &str) -> String {
    // A backslash continues a line, and so does the trigraph `??/`.
    let plain = |c: char| if (' '..='~').contains(&c) && c != '\\' && c != '?' { c } else { '_' };
    let line: String = text.chars().map(plain).collect();
    format!("// {line}").trim_end().to_owned()
}

fn bar_name(bar: &Bar) -> Option<&str> {
    match bar {
        Bar::Mbarriers { name, .. } => Some(name),
        _ => None,
    }
}

/// The wanted name as an identifier. Front ends refuse invalid names; this is the last defence of the source.
fn identifier(wanted: &str) -> String {
    let mut name: String =
        wanted.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    // Two underscores, or one and a capital, are reserved.
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert(0, 'v');
    }
    name
}

/// A name for the kernel's function at file scope, where CUDA's own names are taken. Inside the function all
/// of them but [`KEYWORDS`] may be reused.
fn entry_name(taken: &mut Taken, wanted: &str) -> String {
    let is_library = |name: &str| {
        let base = name.strip_suffix('f').unwrap_or(name);
        LIBRARY.split_whitespace().any(|known| known == name || known == base)
    };
    match taken.take(wanted) {
        name if is_library(&name) => taken.take(&format!("{name}_2")),
        name => name,
    }
}

/// Functions and types that every source of CUDA C sees without headers. Functions of `double` also exist
/// for `float`, with an `f` at the end.
const LIBRARY: &str = "
    abs labs llabs umin umax llmin llmax ullmin ullmax acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cosh cospi
    cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv erfcx erfinv exp10 expm1 fdim fdivide floor frexp hypot ilogb j0 j1 jn ldexp
    lgamma llrint llround log10 log1p logb lrint lround modf nan nearbyint nextafter norm norm3d norm4d normcdf normcdfinv pow
    powi rcbrt remainder remquo rhypot rint rnorm rnorm3d rnorm4d round scalbln scalbn sincos sincospi sinh sinpi tan tgamma
    trunc y0 y1 yn std clock_t cudaStream_t cudaError_t va_list saturate mulhi umulhi mul64hi umul64hi mul24 umul24
    float_as_int int_as_float float_as_uint uint_as_float float2int int2float";

/// Keywords of the compiler that a Rust program may use as names.
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
    "ceil",
    "ceilf",
    "char",
    "class",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "copysign",
    "copysignf",
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
    "erf",
    "erff",
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
    "floor",
    "floorf",
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
    "pow",
    "powf",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "return",
    "rint",
    "rintf",
    "roundf",
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
    "trunc",
    "truncf",
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
    "char1",
    "char2",
    "char3",
    "char4",
    "uchar1",
    "uchar2",
    "uchar3",
    "uchar4",
    "short1",
    "short2",
    "short3",
    "short4",
    "ushort1",
    "ushort2",
    "ushort3",
    "ushort4",
    "int1",
    "int3",
    "uint1",
    "uint3",
    "long1",
    "long2",
    "longlong1",
    "longlong2",
    "ulonglong1",
    "ulonglong2",
    "float1",
    "float3",
    "double1",
    "double3",
    "double4",
    "half",
    "half2",
    "bfloat16",
    "NULL",
    "nullptr",
    "thread_local",
    "char8_t",
    "char16_t",
    "char32_t",
    "co_await",
    "co_return",
    "co_yield",
    "import",
    "module",
    "final",
    "override",
    "typeof",
    "restrict",
    "size_t",
    "ptrdiff_t",
    "clock64",
    "atomicAdd",
    "atomicAnd",
    "atomicCAS",
    "atomicExch",
    "atomicMax",
    "atomicMin",
    "atomicOr",
    "atomicSub",
    "atomicXor",
    "malloc",
    "free",
    "memcpy",
    "memset",
    "signbit",
    "isnan",
    "isinf",
    "isfinite",
    "clusterDim",
    "clusterIdx",
    "linux",
    "unix",
];

#[cfg(test)]
mod tests {
    use super::{Taken, comment};

    #[test]
    fn names_become_identifiers() {
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
            let mut taken = Taken::default();
            taken.names.extend(["float", "acc", "acc_2"].map(str::to_owned));
            assert_eq!(taken.take(wanted), name, "{wanted}");
        }
    }

    #[test]
    fn kernels_have_no_name_of_the_library() {
        for (wanted, name) in
            [("norm", "norm_2"), ("powf", "powf_2"), ("scale", "scale"), ("half_of", "half_of")]
        {
            assert_eq!(super::entry_name(&mut Taken::default(), wanted), name);
        }
    }

    #[test]
    fn released_names_are_reused() {
        let mut taken = Taken::default();
        let all: Vec<String> = (0..4).map(|_| taken.take("i")).collect();
        assert_eq!(all, ["i", "i_2", "i_3", "i_4"]);
        taken.give_back("i_2");
        assert_eq!([taken.take("i"), taken.take("i")], ["i_2", "i_5"]);
        taken.give_back("i");
        assert_eq!([taken.take("i_2"), taken.take("i")], ["i_2_2", "i"]);
        // A released name that ends in 0 is no number of another.
        let k = taken.take("k");
        taken.give_back(&k);
        assert_eq!(taken.take("k_0"), "k_0");
        taken.give_back("k_0");
        assert_eq!(taken.take("k"), "k");
    }

    #[test]
    fn comments_are_one_line() {
        for (text, line) in [
            ("ga: (128,8)", "// ga: (128,8)"),
            ("", "//"),
            ("N\n#define if(x) if(1)\r//", "// N_#define if(x) if(1)_//"),
            ("joins the next \\", "// joins the next _"),
            ("so does ??/", "// so does __/"),
            ("\u{2028}größe\0", "// _gr__e_"),
        ] {
            assert_eq!(comment(text), line);
        }
    }
}
