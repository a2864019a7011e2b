//! The kernel's signature.

use std::collections::BTreeSet;

use super::Printer;
use crate::isa::atom::Done;
use crate::thread::visit::{Access, Use, preorder};
use crate::thread::{AtomArg, Id, Op, Param, Queue, Space, Stmt};

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
        let read = self.read(&self.kernel.body);
        let params: Vec<String> = self
            .kernel
            .params
            .iter()
            .zip(&self.names.params)
            .enumerate()
            .map(|(id, (param, name))| {
                let written = matches!(param, Param::Pointer { write: true, .. });
                declare(param, name, launch.overlaps || written && read.contains(&(id as Id)))
            })
            .collect();
        let all = params.join(", ");
        if start.len() + name.len() + all.len() + 5 <= WIDTH {
            return format!("{start} {name}({all})");
        }
        if name.len() + all.len() + 4 <= WIDTH {
            return format!("{start}\n{name}({all})");
        }
        // One line of pointers, then one of numbers, aligned after the parenthesis.
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

impl Printer<'_> {
    /// The pointers through which statements read.
    fn read(&self, body: &[Stmt]) -> BTreeSet<Id> {
        let mut all = BTreeSet::new();
        for stmt in preorder(body) {
            // An atomic update reads for itself alone, unless its old value is used.
            let updates = matches!(stmt.op, Op::Atomic { old: Some(_), .. });
            all.extend(stmt.op.uses().into_iter().filter_map(|used| match used {
                Use::Memory { space: Space::Global(id), access, .. } => {
                    (access == Access::Read || access == Access::Update && updates).then_some(id)
                }
                _ => None,
            }));
            if let Op::Atom { row, args, .. } = &stmt.op
                && row.family.completes != Done::Queue(Queue::Bulk)
            {
                all.extend(args.iter().filter_map(|arg| match arg {
                    AtomArg::Map { param, .. } => match &self.kernel.params[*param as usize] {
                        Param::TensorMap { tensor, .. } => Some(*tensor),
                        _ => None,
                    },
                    _ => None,
                }));
            }
        }
        all
    }
}

fn is_number(param: &Param) -> bool {
    matches!(param, Param::Int { .. } | Param::Scalar { .. })
}

/// `__restrict__` means that no other thread writes the elements that the kernel reads through a pointer while it runs:
/// compilers keep such values across barriers and fences, and move their reads before them. So a pointer that the kernel both
/// reads and writes has no `__restrict__`. With programmatic dependent launch no pointer has it, since the previous kernel may
/// write until the wait for it.
fn declare(param: &Param, name: &str, changes: bool) -> String {
    match param {
        Param::Pointer { elem, write, .. } => {
            let reads = if *write { "" } else { "const " };
            let alone = if changes { "" } else { "__restrict__ " };
            format!("{reads}{}* {alone}{name}", elem.cuda())
        }
        Param::Workspace { elem, .. } => format!("{}* {name}", elem.cuda()),
        Param::Int { wide, .. } => format!("{} {name}", if *wide { "long long" } else { "int" }),
        Param::Scalar { elem, .. } => format!("{} {name}", elem.cuda()),
        Param::TensorMap { .. } => format!("const __grid_constant__ TensorMap {name}"),
    }
}
