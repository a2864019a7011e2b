//! A module of Python that launches an exported kernel on tensors of PyTorch.

use std::fmt::Write;

use crate::launch::definition::{Generated, Param};
use crate::thread;
use crate::values::elem::Elem;
use tilewright_layout::Value;

/// PyTorch's type of elements.
fn dtype(elem: Elem) -> String {
    format!("torch.{}", elem.torch())
}

/// The module of a kernel, `NAME.py`. It loads the compiled C files of [`super::export`] by TVM's FFI, and registers the kernel as
/// an operator of PyTorch, `torch.ops.tilewright.NAME`, with shapes that are checked while a program is traced.
///
/// ```
/// use tilewright_program::launch::python;
/// use tilewright_codegen::words::{Kernels as _, Words};
/// let kernel = Words::read("name=product").unwrap().matmul().unwrap();
/// assert!(python(&kernel).contains("def product(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:"));
/// ```
pub fn python(kernel: &Generated) -> String {
    let (mut parameters, mut signature, mut names) = (String::new(), Vec::new(), Vec::new());
    let (mut written, mut plain, mut changed) = (String::new(), Vec::new(), String::new());
    for (index, Param { name, elem, tensor }) in kernel.params.iter().enumerate() {
        names.push(name.as_str());
        let Some((writes, _)) = tensor else {
            let _ = writeln!(parameters, "    (\"{name}\", {}, False, None),", dtype(*elem));
            let number = match elem {
                Elem::F64 | Elem::F32 => "float",
                Elem::Bool => "bool",
                _ => "int",
            };
            signature.push(format!("{name}: {number}"));
            continue;
        };
        let extents = match &kernel.variants[0].program.params[index] {
            thread::Param::Pointer { shape, .. } => shape.iter().map(extent).collect::<Vec<_>>().concat(),
            _ => String::new(),
        };
        let flag = if *writes { "True" } else { "False" };
        let _ = writeln!(parameters, "    (\"{name}\", {}, {flag}, ({extents})),", dtype(*elem));
        plain.push(format!("type({name}) in _PLAIN and not {name}.is_neg()"));
        signature.push(format!("{name}: torch.Tensor"));
        if *writes {
            let _ = write!(written, "\"{name}\", ");
            let _ = writeln!(changed, "    if not {name}.is_inference():");
            let _ = writeln!(changed, "        torch.autograd.graph.increment_version({name})");
        }
    }
    include_str!("module.py")
        .replace("PARAMETERS_HERE", &parameters)
        .replace("WRITTEN_HERE", written.trim_end())
        .replace("SIGNATURE_HERE", &signature.join(", "))
        .replace("PLAIN_HERE", &plain.join(" and "))
        .replace("CHANGED_HERE\n", &changed)
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
