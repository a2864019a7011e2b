//! The kernel's signature.

use super::Printer;
use crate::thread::Param;

/// Lines are broken where they would be longer.
pub(super) const WIDTH: usize = 110;

impl Printer<'_> {
    pub(super) fn signature(&self) -> String {
        let launch = &self.kernel.launch;
        let bounds = match launch.blocks_per_sm {
            0 => launch.threads.to_string(),
            blocks => format!("{}, {blocks}", launch.threads),
        };
        let start = format!("extern \"C\" __global__ void __launch_bounds__({bounds})");
        let name = &self.names.kernel;
        let params: Vec<String> = self
            .kernel
            .params
            .iter()
            .zip(&self.names.params)
            .map(|(param, name)| declare(param, name, launch.overlaps))
            .collect();
        let all = params.join(", ");
        if start.len() + name.len() + all.len() + 5 <= WIDTH {
            return format!("{start} {name}({all})");
        }
        if name.len() + all.len() + 4 <= WIDTH {
            return format!("{start}\n{name}({all})");
        }
        // One line of pointers, then one of numbers, aligned behind the parenthesis.
        let indent = " ".repeat(name.len() + 1);
        let mut text = format!("{start}\n{name}(");
        let mut column = text.len();
        for (at, param) in params.iter().enumerate() {
            let kind_changes =
                at > 0 && is_number(&self.kernel.params[at]) && !is_number(&self.kernel.params[at - 1]);
            if at > 0 {
                text.push(',');
                if kind_changes || column + param.len() + 2 > WIDTH {
                    text = text + "\n" + &indent;
                    column = indent.len();
                } else {
                    text.push(' ');
                }
            } else {
                column = indent.len();
            }
            text += param;
            column += param.len() + 2;
        }
        text + ")"
    }
}

fn is_number(param: &Param) -> bool {
    matches!(param, Param::Int { .. } | Param::Scalar { .. })
}

/// `__restrict__` says that no one else writes what the kernel reads while it runs. With programmatic
/// dependent launch the previous kernel may write it until it has been waited for; with `__restrict__`
/// compilers do read before the wait.
fn declare(param: &Param, name: &str, overlaps: bool) -> String {
    match param {
        Param::Pointer { elem, write, .. } => {
            let reads = if *write { "" } else { "const " };
            let alone = if overlaps { "" } else { "__restrict__ " };
            format!("{reads}{}* {alone}{name}", elem.cuda())
        }
        Param::Int { wide, .. } => format!("{} {name}", if *wide { "long long" } else { "int" }),
        Param::Scalar { elem, .. } => format!("{} {name}", elem.cuda()),
        Param::TensorMap { .. } => format!("const __grid_constant__ TensorMap {name}"),
    }
}
