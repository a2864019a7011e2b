//! A module of Python that launches an exported kernel on tensors of PyTorch.

use std::fmt::Write;

use crate::definition::{Generated, Param};
use crate::elem::Elem;
use crate::thread;
use tilewright_layout::Value;

/// PyTorch's type of elements.
fn dtype(elem: Elem) -> &'static str {
    match elem {
        Elem::F64 => "torch.float64",
        Elem::F32 | Elem::Tf32 => "torch.float32",
        Elem::F16 => "torch.float16",
        Elem::Bf16 => "torch.bfloat16",
        Elem::I32 => "torch.int32",
        Elem::U32 => "torch.uint32",
        Elem::I8 => "torch.int8",
        Elem::U8 => "torch.uint8",
        Elem::E4m3 => "torch.float8_e4m3fn",
        Elem::E5m2 => "torch.float8_e5m2",
    }
}

/// The type of a number of C in ctypes.
fn ctype(elem: Elem) -> &'static str {
    match elem {
        Elem::F64 => "ctypes.c_double",
        Elem::F32 => "ctypes.c_float",
        Elem::I32 => "ctypes.c_int32",
        Elem::U32 | Elem::Tf32 => "ctypes.c_uint32",
        Elem::I8 => "ctypes.c_int8",
        Elem::U8 | Elem::E4m3 | Elem::E5m2 => "ctypes.c_uint8",
        Elem::F16 | Elem::Bf16 => "ctypes.c_uint16",
    }
}

/// The module of a kernel, `NAME.py`. It loads what a C compiler makes of the files of [`super::export`], and registers the
/// kernel as an operator of PyTorch, `torch.ops.tilewright.NAME`, with shapes that are checked while a program is traced.
///
/// ```
/// use tilewright_codegen::launch::python;
/// use tilewright_codegen::words::Words;
/// let kernel = Words::read("name=product").unwrap().matmul().unwrap();
/// assert!(python(&kernel).contains("def product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:"));
/// ```
pub fn python(kernel: &Generated) -> String {
    let (mut parameters, mut fields, mut signature, mut names) =
        (String::new(), String::new(), Vec::new(), Vec::new());
    let mut written = String::new();
    for (place, Param { name, elem, tensor }) in kernel.params.iter().enumerate() {
        names.push(name.as_str());
        let code = *elem as u32;
        let Some((writes, _)) = tensor else {
            let _ = writeln!(parameters, "    (\"{name}\", {}, {code}, False, None),", dtype(*elem));
            let _ = writeln!(fields, "        (\"{name}\", {}),", ctype(*elem));
            let number = if matches!(elem, Elem::F64 | Elem::F32) { "float" } else { "int" };
            signature.push(format!("{name}: {number}"));
            continue;
        };
        let extents = match &kernel.variants[0].program.params[place] {
            thread::Param::Pointer { shape, .. } => shape.iter().map(extent).collect::<Vec<_>>().concat(),
            _ => String::new(),
        };
        let flag = if *writes { "True" } else { "False" };
        let _ = writeln!(parameters, "    (\"{name}\", {}, {code}, {flag}, ({extents})),", dtype(*elem));
        let _ = writeln!(fields, "        (\"{name}\", _Tensor),");
        signature.push(format!("{name}: torch.Tensor"));
        if *writes {
            let _ = write!(written, "\"{name}\", ");
        }
    }
    include_str!("module.py")
        .replace("PARAMETERS_HERE", &parameters)
        .replace("FIELDS_HERE", &fields)
        .replace("WRITTEN_HERE", written.trim_end())
        .replace("SIGNATURE_HERE", &signature.join(", "))
        .replace("ARGUMENTS", &names.join(", "))
        .replace("NAME", &kernel.name)
}

/// `(1, "M", 1), `
fn extent(value: &Value) -> String {
    match value {
        Value::Int(n) => format!("{n}, "),
        Value::Sym { times, of, over } => format!("({times}, \"{}\", {over}), ", of.name()),
        Value::Basis { .. } | Value::Any => "None, ".into(),
    }
}
